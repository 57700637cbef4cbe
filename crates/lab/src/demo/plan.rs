//! The loads of the demo.

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_units::{ByteSize, Nanos, Share};

use crate::load::{Pattern, VolumeLoad};
use crate::report::VolumePlan;

/// The demo's drive and the loads on its volumes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The drive as named on command lines.
    pub drive: String,
    /// A one-line description.
    pub drive_summary: String,
    /// The seed of the instance and of the load.
    pub seed: u64,
    /// The volumes, in the order in which they lie on the drive.
    pub loads: Vec<VolumeLoad>,
}

impl Plan {
    /// A recorder, a database and a backup on the drive of `profile`, with most of the drive
    /// between them, so that going from one to another is a real seek.
    ///
    /// The recorder writes at its rate, as a camera does, and its volume has a deadline. The
    /// database and the backup submit a request for each that completes, so that the drive is never
    /// idle.
    ///
    /// # Errors
    /// The profile has no sector size.
    pub fn new(drive: &str, profile: &DriveProfile, seed: u64) -> Result<Self, ProfileError> {
        let bytes = profile.sector_size()?.bytes_of(profile.capacity());
        let part = |percent: u64| ByteSize::new((bytes / 100 * percent) >> 20 << 20);
        let recorder = VolumeLoad {
            volume: "recorder",
            size: part(20),
            deadline: Some(RECORDER_DEADLINE),
            reserve: percent(25),
            pattern: Pattern::Sequential,
            reads: 0.0,
            block: ByteSize::new(256 << 10),
            in_flight: 32,
            rate: Some(RECORDER_RATE),
        };
        let database = VolumeLoad {
            volume: "database",
            size: part(40),
            deadline: None,
            reserve: percent(50),
            pattern: Pattern::Random,
            reads: 0.7,
            block: ByteSize::new(8 << 10),
            in_flight: 8,
            rate: None,
        };
        let backup = VolumeLoad {
            volume: "backup",
            size: part(30),
            deadline: None,
            reserve: Share::NONE,
            pattern: Pattern::Sequential,
            reads: 1.0,
            block: ByteSize::new(1 << 20),
            in_flight: 4,
            rate: None,
        };
        Ok(Self {
            drive: drive.to_string(),
            drive_summary: profile.model.clone(),
            seed,
            loads: vec![recorder, database, backup],
        })
    }

    /// The volumes in the report; `starts` are their first bytes on the drive, by name.
    pub fn volumes(&self, starts: &[(String, u64)]) -> Vec<VolumePlan> {
        let volume = |load: &VolumeLoad| VolumePlan {
            name: load.volume.to_string(),
            load: load.describe(),
            size_bytes: load.size.get(),
            start_bytes: starts
                .iter()
                .find(|(name, _)| name == load.volume)
                .map(|(_, start)| *start),
            deadline_ms: load.deadline.map(Nanos::as_ms_f64),
            reserve: load.reserve.as_fraction(),
        };
        self.loads.iter().map(volume).collect()
    }

    /// The maximum of bytes that the loads write in `seconds`, for which the file system must have
    /// room. A random load is assumed to have 500 requests a second, more than any drive serves.
    pub fn bytes_written(&self, seconds: f64) -> u64 {
        let of_one = |load: &VolumeLoad| {
            let per_second =
                load.rate.map_or(500.0 * load.block.get() as f64, |rate| rate.get() as f64);
            (1.0 - load.reads) * per_second * seconds
        };
        self.loads.iter().map(of_one).sum::<f64>() as u64
    }
}

/// The rate of the recorder, 15 requests a second: a dozen compressed cameras.
const RECORDER_RATE: ByteSize = ByteSize::new(15 * (256 << 10));
/// The delay that a recorder with four buffers tolerates at its rate.
const RECORDER_DEADLINE: Nanos = Nanos::from_ms(250);

fn percent(percent: u32) -> Share {
    Share::from_billionths(percent * 10_000_000).expect("a share of at most 100 %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::catalog::CATALOG;

    #[test]
    fn the_volumes_fit_every_drive_of_the_catalog_in_whole_mebibytes() {
        for entry in CATALOG {
            let profile = entry.load().expect("the catalog is readable");
            let plan = Plan::new(entry.name, &profile, 1).expect("the catalog's drives turn");
            let sum: u64 = plan.loads.iter().map(|load| load.size.get()).sum();
            let capacity =
                profile.sector_size().expect("it has sectors").bytes_of(profile.capacity());
            assert!(sum < capacity / 20 * 19, "{}: {sum} of {capacity}", entry.name);
            assert!(
                plan.loads
                    .iter()
                    .all(|load| load.size.get() % (1 << 20) == 0 && load.size.get() >= 1 << 30),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn what_is_written_is_bounded_by_the_rates() {
        let profile = CATALOG[0].load().expect("the catalog is readable");
        let plan = Plan::new(CATALOG[0].name, &profile, 1).expect("it turns");
        let expected = RECORDER_RATE.get() * 30 + (0.3 * 500.0 * 8_192.0 * 30.0) as u64;
        assert!(
            plan.bytes_written(30.0).abs_diff(expected) < 1_000,
            "{} against {expected}",
            plan.bytes_written(30.0)
        );
    }
}
