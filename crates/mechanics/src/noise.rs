//! [`NoiseLevel`]: how far simulated drives of a model differ from its profile, and how much of
//! their time is unpredictable, in four named levels.
//!
//! A profile's `[variation]` is the level *quiet*. *Typical* and *harsh* add what the profiles
//! leave out, in proportion to the drive's revolution: an error of the arm time that is 1 % of a
//! revolution makes 1 % of the requests arrive before or after their sector against the prediction,
//! on a slow drive as on a fast one. *Off* leaves the profile and the phase of the spindle.
//!
//! Yardsticks: P2 (F7) predicts 97.5 % of random 4 KiB reads within 50 µs, so 2.5 % are off. On the
//! recorded Cheetah 15K.5, 4.5 % of reads without idle time before them are off by more than 0.2
//! ms, almost all by a revolution; of requests after 7 to 17 ms of idle time 19 %. *Typical* lies
//! between P2's drive and the Cheetah without idle time, *harsh* has the Cheetah's errors with and
//! without it (`crates/sim/tests/noise.rs` measures both).

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::profile::{DriveProfile, VariationSpec};

/// The amount of noise of a simulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoiseLevel {
    /// None: only the phase of the spindle is drawn.
    Off,
    /// The spread of the profile's `[variation]`.
    Quiet,
    /// An ordinary drive and host.
    #[default]
    Typical,
    /// The recorded Cheetah 15K.5 on a busy host.
    Harsh,
}

/// The text names no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no level of noise; choose off, quiet, typical or harsh")]
pub struct UnknownNoise(pub alloc::string::String);

impl NoiseLevel {
    /// All levels, from the lowest to the highest.
    pub const ALL: [Self; 4] = [Self::Off, Self::Quiet, Self::Typical, Self::Harsh];

    /// The name on command lines and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Quiet => "quiet",
            Self::Typical => "typical",
            Self::Harsh => "harsh",
        }
    }

    /// The model with the `[variation]` of this level.
    #[must_use]
    pub fn apply(self, profile: &DriveProfile) -> DriveProfile {
        let quiet = &profile.variation;
        let turn_us = profile.rotation_period().map_or(0.0, |period| period.as_ns_f64() / 1e3);
        let variation = match self {
            Self::Off => VariationSpec::default(),
            Self::Quiet => *quiet,
            Self::Typical => TYPICAL.add(quiet, turn_us),
            Self::Harsh => HARSH.add(quiet, turn_us),
        };
        DriveProfile { variation, ..profile.clone() }
    }
}

impl fmt::Display for NoiseLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for NoiseLevel {
    type Err = UnknownNoise;

    fn from_str(text: &str) -> Result<Self, UnknownNoise> {
        Self::ALL
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| UnknownNoise(text.into()))
    }
}

/// The additions of a level to a profile's variation.
struct AddedNoise {
    /// Standard deviation of the unpredictable part of an arm time, in revolutions.
    arm_jitter_turns: f64,
    /// Amplitude of the arm's drift with temperature, in revolutions.
    arm_drift_turns: f64,
    /// Minimum error of the angle that neighboring tracks share, in revolutions.
    region_angle_turns: f64,
    /// As [`VariationSpec::extraction_error`].
    extraction_error: f64,
    /// Minimum spindle drift, parts per million, and its period in seconds.
    spindle_drift: (f64, f64),
    /// As [`VariationSpec::retry_share`].
    retry_share: f64,
    /// Idle time before the drive's own work, milliseconds, and the share of accesses that find the
    /// arm elsewhere.
    idle_work: (f64, f64),
    /// Recalibrations per hour, and their time in milliseconds.
    recalibration: (f64, f64),
    /// Minimum rate of growing defects per hour.
    grown_defects_per_hour: f64,
    /// Share of late reports, and their mean delay in milliseconds.
    stall: (f64, f64),
}

/// The level *typical*.
const TYPICAL: AddedNoise = AddedNoise {
    // Derived: with the other errors it puts 2.5 to 4.5 % of the requests off by a revolution,
    // between P2's drive and the Cheetah without idle time.
    arm_jitter_turns: 0.03,
    // Guess: a tenth of the arm's random part.
    arm_drift_turns: 0.002,
    // Guess: as the scatter of single tracks.
    region_angle_turns: 0.002,
    // Recording: the Cheetah's extracted curve is 0.1 ms off at 3.5 ms, 3 %; guess: half of that
    // where an extraction is careful.
    extraction_error: 0.015,
    // Recording: one period fits all 133 s of the Cheetah's recording within 25 µs, so a drift is
    // at most 0.2 ppm over 133 s; guess: 1 ppm in ten minutes.
    spindle_drift: (1.0, 600.0),
    // Guess: bounded by P2, whose drives have 2.5 % off for all reasons.
    retry_share: 0.003,
    // Guess: a tenth of the Cheetah's share, see HARSH.
    idle_work: (3.0, 0.05),
    // Guess: drives up to the 1990s recalibrated every few minutes for 50 to 100 ms; newer ones do
    // so between accesses and rarely delay one.
    recalibration: (6.0, 50.0),
    // Guess: one a week; a healthy drive reports a few in its life.
    grown_defects_per_hour: 0.006,
    // Guess. Measured on an idle host (docs/scan.md): the 99th percentile is 34 to 73 µs, which
    // the jitter of the profiles has.
    stall: (0.001, 0.2),
};

/// The level *harsh*.
const HARSH: AddedNoise = AddedNoise {
    // Recording: with the extraction's error it puts 5 % of the Cheetah's requests without idle
    // time off by a revolution.
    arm_jitter_turns: 0.034,
    // Guess: five times typical.
    arm_drift_turns: 0.01,
    // Recording: DIXtrac's angles of the Cheetah drift by more in its inner half; guess.
    region_angle_turns: 0.01,
    // Recording: see TYPICAL.
    extraction_error: 0.03,
    // Guess: ten times typical.
    spindle_drift: (10.0, 600.0),
    // Guess: three times typical.
    retry_share: 0.01,
    // Recording: after 7 to 17 ms of idle time 19 % of the Cheetah's requests are off, in both
    // directions, as if the arm had left its track. Where it was is unknown; from any cylinder with
    // equal chance, this share gives 19 %. Guess: the work starts after 3 ms (the recording has no
    // idle times from 1 to 7 ms).
    idle_work: (3.0, 0.48),
    // Guess: every two minutes for 100 ms, as drives of the 1990s.
    recalibration: (30.0, 100.0),
    // Guess: a failing drive.
    grown_defects_per_hour: 1.0,
    // Guess. Measured with some twenty runnable threads (docs/scan.md): up to 14 ms; the share and
    // the mean were not recorded.
    stall: (0.02, 1.0),
};

impl AddedNoise {
    fn add(&self, quiet: &VariationSpec, turn_us: f64) -> VariationSpec {
        VariationSpec {
            arm_jitter_us: quiet.arm_jitter_us.max(self.arm_jitter_turns * turn_us),
            arm_drift_us: quiet.arm_drift_us.max(self.arm_drift_turns * turn_us),
            region_angle_us: quiet.region_angle_us.max(self.region_angle_turns * turn_us),
            extraction_error: quiet.extraction_error.max(self.extraction_error),
            spindle_drift_ppm: quiet.spindle_drift_ppm.max(self.spindle_drift.0),
            spindle_drift_period_s: if quiet.spindle_drift_period_s > 0.0 {
                quiet.spindle_drift_period_s
            } else {
                self.spindle_drift.1
            },
            retry_share: quiet.retry_share.max(self.retry_share),
            idle_work_after_ms: self.idle_work.0,
            idle_work_share: quiet.idle_work_share.max(self.idle_work.1),
            recalibrations_per_hour: quiet.recalibrations_per_hour.max(self.recalibration.0),
            recalibration_ms: quiet.recalibration_ms.max(self.recalibration.1),
            grown_defects_per_hour: quiet.grown_defects_per_hour.max(self.grown_defects_per_hour),
            stall_share: quiet.stall_share.max(self.stall.0),
            stall_ms: quiet.stall_ms.max(self.stall.1),
            ..*quiet
        }
    }
}
