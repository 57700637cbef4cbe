//! Checks of interface, firmware, cache and variation.

use alloc::format;

use super::{DriveProfile, MAX_MS, ProfileError};

/// Maximum depth of the firmware queue; SAS allows 65,536 tags.
const MAX_QUEUE_DEPTH: u32 = 65_536;
/// Range of bus rates in millions of bytes per second.
const BUS_MB_PER_S: core::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;
/// Maximum number of segments and of sectors per segment; each look-up visits all segments.
const MAX_SEGMENTS: u32 = 65_536;
const MAX_SEGMENT_SECTORS: u32 = 1 << 24;
/// Maximum standard deviation of the extraction's error: 3.5 times it leaves every value positive.
const MAX_EXTRACTION_ERROR: f64 = 0.2;
/// Minimum period of spindle drift in seconds: the speed is constant during an access.
const MIN_DRIFT_PERIOD_S: f64 = 0.1;

impl DriveProfile {
    pub(super) fn check_interface(&self) -> Result<(), ProfileError> {
        let interface = &self.interface;
        for (key, us) in [
            ("interface.read_command_us", Some(interface.read_command_us)),
            ("interface.write_command_us", Some(interface.write_command_us)),
            ("interface.read_after_write_us", interface.read_after_write_us),
            ("interface.write_after_write_us", interface.write_after_write_us),
            ("interface.completion_us", Some(interface.completion_us)),
            ("interface.write_completion_us", interface.write_completion_us),
        ] {
            self.check_time(key, us.unwrap_or(0.0), MAX_MS * 1e3)?;
        }
        if !BUS_MB_PER_S.contains(&interface.bus_mb_per_s) {
            let expected = format!("{} to {}", BUS_MB_PER_S.start(), BUS_MB_PER_S.end());
            return Err(self.refuse(
                "interface.bus_mb_per_s",
                interface.bus_mb_per_s,
                expected,
                "6 Gbit/s SATA carries about 550",
            ));
        }
        Ok(())
    }

    pub(super) fn check_firmware(&self) -> Result<(), ProfileError> {
        let depth = self.firmware.queue_depth;
        if depth == 0 || depth > MAX_QUEUE_DEPTH {
            return Err(self.refuse(
                "firmware.queue_depth",
                depth,
                format!("1 to {MAX_QUEUE_DEPTH}"),
                "1 is a drive without a queue, 32 is NCQ",
            ));
        }
        for (key, ms) in [
            ("firmware.sequential_hold_ms", self.firmware.sequential_hold_ms),
            ("firmware.max_wait_ms", self.firmware.max_wait_ms),
        ] {
            self.check_time(key, ms.unwrap_or(0.0), MAX_MS)?;
        }
        Ok(())
    }

    pub(super) fn check_cache(&self) -> Result<(), ProfileError> {
        let Some(cache) = &self.cache else { return Ok(()) };
        for (key, value, max, remedy) in [
            (
                "cache.segments",
                cache.segments,
                MAX_SEGMENTS,
                "remove the section for a drive without a cache",
            ),
            (
                "cache.segment_sectors",
                cache.segment_sectors,
                MAX_SEGMENT_SECTORS,
                "a cache of 256 MB in 64 segments has 8192 sectors of 512 bytes each",
            ),
        ] {
            if value == 0 || value > max {
                return Err(self.refuse(key, value, format!("1 to {max}"), remedy));
            }
        }
        if let Some(written) =
            cache.write_segments.filter(|written| !(1..=cache.segments).contains(written))
        {
            let expected = format!("1 to cache.segments = {}", cache.segments);
            return Err(self.refuse(
                "cache.write_segments",
                written,
                expected,
                "set write_back = false for a drive that caches no writes",
            ));
        }
        for (key, us) in [
            ("cache.read_hit_us", Some(cache.read_hit_us)),
            ("cache.read_hit_after_write_us", cache.read_hit_after_write_us),
            ("cache.write_hit_us", Some(cache.write_hit_us)),
            ("cache.write_hit_after_write_us", cache.write_hit_after_write_us),
        ] {
            self.check_time(key, us.unwrap_or(0.0), MAX_MS * 1e3)?;
        }
        self.check_time("cache.write_delay_ms", cache.write_delay_ms.unwrap_or(0.0), MAX_MS)
    }

    pub(super) fn check_accuracy(&self) -> Result<(), ProfileError> {
        let Some(accuracy) = &self.accuracy else { return Ok(()) };
        let zones = accuracy.zones.iter().flat_map(|zone| {
            [
                ("accuracy.zone.within_50_us", zone.within_50_us),
                ("accuracy.zone.within_150_us", zone.within_150_us),
            ]
        });
        for (key, share) in [
            ("accuracy.within_50_us", accuracy.within_50_us),
            ("accuracy.within_150_us", accuracy.within_150_us),
            ("accuracy.revolution_off", accuracy.revolution_off),
        ]
        .into_iter()
        .chain(zones)
        {
            self.check_time(key, share, 1.0)?;
        }
        Ok(())
    }

    pub(super) fn check_variation(&self) -> Result<(), ProfileError> {
        let variation = &self.variation;
        for (key, value, max) in [
            ("variation.spindle_ppm", variation.spindle_ppm, 100_000.0),
            ("variation.spindle_drift_ppm", variation.spindle_drift_ppm, 100_000.0),
            ("variation.spindle_drift_period_s", variation.spindle_drift_period_s, 1e9),
            ("variation.track_angle_us", variation.track_angle_us, MAX_MS),
            ("variation.region_angle_us", variation.region_angle_us, MAX_MS),
            ("variation.seek_residual_us", variation.seek_residual_us, MAX_MS),
            ("variation.extraction_error", variation.extraction_error, MAX_EXTRACTION_ERROR),
            ("variation.arm_jitter_us", variation.arm_jitter_us, MAX_MS),
            ("variation.arm_drift_us", variation.arm_drift_us, MAX_MS),
            ("variation.idle_work_after_ms", variation.idle_work_after_ms, MAX_MS),
            ("variation.idle_work_share", variation.idle_work_share, 1.0),
            ("variation.slips_per_million", variation.slips_per_million, 1e6),
            ("variation.jitter_us", variation.jitter_us, MAX_MS),
            ("variation.outlier_share", variation.outlier_share, 1.0),
            ("variation.outlier_ms", variation.outlier_ms, MAX_MS),
            ("variation.retry_share", variation.retry_share, 1.0),
            ("variation.recalibrations_per_hour", variation.recalibrations_per_hour, 1e6),
            ("variation.recalibration_ms", variation.recalibration_ms, MAX_MS),
            ("variation.stall_share", variation.stall_share, 1.0),
            ("variation.stall_ms", variation.stall_ms, MAX_MS),
            ("variation.grown_defects_per_hour", variation.grown_defects_per_hour, 1e6),
        ] {
            self.check_time(key, value, max)?;
        }
        let swing = variation.spindle_drift_period_s;
        if swing > 0.0 && swing < MIN_DRIFT_PERIOD_S {
            let expected = format!("0, or {MIN_DRIFT_PERIOD_S} and more");
            return Err(self.refuse(
                "variation.spindle_drift_period_s",
                swing,
                expected,
                "drives drift over minutes, 600 is a guess",
            ));
        }
        Ok(())
    }
}
