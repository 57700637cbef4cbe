//! A probe at a simulated drive in virtual time, and its finding beside the truth.
#![allow(dead_code)]

mod simulated;
pub(crate) mod small;
pub(crate) mod wall;

use headtime_mechanics::{DriveProfile, Layout, catalog};
use headtime_probe::{
    BatchCommand, CommandBatch, CommandOutcome, Finding, Probe, ProbeSettings, TimedCommand,
};
use headtime_sim::DriveTruth;
use headtime_units::{Instant, Lba, Nanos};

use simulated::Simulated;

/// The items of the probe that `simulated` uses.
mod probe {
    pub(super) use headtime_probe::{
        BatchCommand, CommandBatch, CommandKind, CommandOutcome, TimedCommand,
    };
}

/// Answers a probe's asks from a simulated drive.
pub(crate) struct Bench {
    at: Simulated,
}

impl Bench {
    pub(crate) fn new(truth: DriveTruth) -> Self {
        Self { at: Simulated::new(truth) }
    }

    /// The present time.
    pub(crate) fn now(&self) -> Instant {
        self.at.now
    }

    /// Lets the clock go on to a time.
    pub(crate) fn wait_until(&mut self, now: Instant) {
        self.at.now = self.at.now.max(now);
    }

    /// Answers one ask; false when there is no more to do.
    pub(crate) fn step(&mut self, probe: &mut Probe) -> bool {
        self.step_with(probe, CommandOutcome::Done)
    }

    /// Answers one ask, with an outcome for all of it.
    pub(crate) fn step_with(&mut self, probe: &mut Probe, outcome: CommandOutcome) -> bool {
        let Some(batch) = probe.next_batch() else { return false };
        let answers = self.carry_out(batch, |_| outcome);
        probe.batch_completed(answers);
        true
    }

    /// Carries an ask out; each command ends as `outcome` says of it.
    pub(crate) fn carry_out(
        &mut self,
        batch: CommandBatch,
        outcome: impl Fn(&BatchCommand) -> CommandOutcome,
    ) -> Vec<TimedCommand> {
        self.at.carry_out(batch, outcome)
    }

    pub(crate) fn run(&mut self, probe: &mut Probe) -> Finding {
        while self.step(probe) {}
        probe.finding()
    }
}

/// The profile of the catalog, or the drawn drive; without its cache if the name ends so and no
/// setup of the profile does that.
pub(crate) fn load(name: &str) -> DriveProfile {
    match (catalog::load(name), name.strip_suffix("@nocache")) {
        (Err(_), Some(base)) => DriveProfile { cache: None, ..load(base) },
        (found, _) => found.unwrap_or_else(|error| panic!("{name}: {error}")),
    }
}

pub(crate) fn settings(profile: &DriveProfile, seed: u64) -> ProbeSettings {
    let sector_size = profile.sector_size().expect("a valid profile");
    let settings = ProbeSettings::for_drive(profile.capacity(), sector_size, seed);
    if profile.name.starts_with("varied-") {
        return ProbeSettings { budget: VARIED_BUDGET, ..settings };
    }
    settings
}

/// The drive time for a varied drive, whatever its size.
const VARIED_BUDGET: Nanos = Nanos::from_secs(600);

pub(crate) fn characterize(profile: &DriveProfile, truth: DriveTruth, seed: u64) -> Finding {
    Bench::new(truth).run(&mut Probe::new(settings(profile, seed)))
}

/// Zone borders as LBAs, where sectors per track change.
pub(crate) fn borders(profile: &DriveProfile) -> Vec<(u64, u32)> {
    let layout = Layout::new(profile).expect("a valid profile");
    let mut borders: Vec<(u64, u32)> = Vec::new();
    for zone in layout.zones() {
        if borders.last().is_none_or(|last| last.1 != zone.sectors_per_track) {
            borders.push((zone.extent.start.get(), zone.sectors_per_track));
        }
    }
    borders
}

/// Share of random LBAs whose track has as many sectors and begins and ends with the same LBA in
/// both, but for `slack` sectors.
pub(crate) fn tracks_alike(found: &DriveProfile, two: &Layout, slack: u64) -> f64 {
    let one = Layout::new(found).expect("a valid profile");
    let capacity = two.capacity().get();
    let count = 4_000;
    let alike = (0..count).filter(|number| {
        let lba = Lba::new(
            u64::try_from(u128::from(capacity - 1) * number / (count - 1)).expect("an address"),
        );
        let (a, b) = (one.track_extent(one.track_of(lba)), two.track_extent(two.track_of(lba)));
        a.start.get().abs_diff(b.start.get()) <= slack
            && a.end().get().abs_diff(b.end().get()) <= slack
    });
    alike.count() as f64 / count as f64
}
