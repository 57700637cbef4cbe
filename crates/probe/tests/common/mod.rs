//! A probe at a simulated drive in virtual time, and its finding beside the truth.
#![allow(dead_code)]

use headtime_mechanics::{DriveProfile, Layout};
use headtime_probe::{Ask, Finding, Outcome, Probe, Settings};
use headtime_sched::{Command, CommandId, Op};
use headtime_sim::{Device, DriveTruth, SimulatedDrive};
use headtime_units::{Instant, Lba, Nanos};

/// Answers a probe's reads from a simulated drive.
pub struct Bench {
    pub drive: SimulatedDrive,
    pub now: Instant,
    next_id: u64,
}

/// From a completion until the next read is at the drive: what a quick host takes.
const HOST: Nanos = Nanos::from_ns(1_000);

impl Bench {
    pub fn new(truth: DriveTruth) -> Self {
        Self { drive: SimulatedDrive::new(truth).expect("the truth is a drive"), now: Instant::ORIGIN, next_id: 0 }
    }

    /// Answers one read; false when there is no more to do.
    pub fn step(&mut self, probe: &mut Probe) -> bool {
        self.step_with(probe, Outcome::Read)
    }

    /// Answers one read, with an outcome.
    pub fn step_with(&mut self, probe: &mut Probe, outcome: Outcome) -> bool {
        let Ask::Read { extent, not_before } = probe.ask() else { return false };
        let issued = (self.now + HOST).max(not_before);
        let command = Command { id: CommandId(self.next_id), op: Op::Read, extent, fua: false, requests: Default::default() };
        self.next_id += 1;
        self.drive.submit(issued, &command);
        let mut completions = Vec::new();
        while completions.is_empty() {
            let at = self.drive.next_event().expect("a command is under way");
            self.drive.advance(at, &mut completions);
            self.now = self.now.max(at);
        }
        let finished = completions[0].finished;
        self.now = finished;
        probe.completed(issued, finished, outcome);
        true
    }

    pub fn run(&mut self, probe: &mut Probe) -> Finding {
        while self.step(probe) {}
        probe.finding().expect("what was found makes a drive")
    }
}

pub fn settings(profile: &DriveProfile, seed: u64) -> Settings {
    Settings::for_drive(profile.capacity(), profile.sector_size().expect("a valid profile"), seed)
}

pub fn characterise(profile: &DriveProfile, truth: DriveTruth, seed: u64) -> Finding {
    Bench::new(truth).run(&mut Probe::new(settings(profile, seed)))
}

/// Zone borders as LBAs, where sectors per track change.
pub fn borders(profile: &DriveProfile) -> Vec<(u64, u32)> {
    let layout = Layout::new(profile).expect("a valid profile");
    let mut borders: Vec<(u64, u32)> = Vec::new();
    for zone in layout.zones() {
        if borders.last().is_none_or(|last| last.1 != zone.sectors_per_track) {
            borders.push((zone.extent.start.get(), zone.sectors_per_track));
        }
    }
    borders
}

/// Share of random LBAs whose track has as many sectors and begins and ends with the same LBA in both, but for `slack` sectors.
pub fn tracks_alike(found: &DriveProfile, truth: &DriveTruth, slack: u64) -> f64 {
    let (one, two) = (Layout::new(found).expect("a valid profile"), truth.mechanism().layout());
    let capacity = two.capacity().get();
    let count = 4_000;
    let alike = (0..count).filter(|number| {
        let lba = Lba::new(u64::try_from(u128::from(capacity - 1) * number / (count - 1)).expect("an address"));
        let (a, b) = (one.track_extent(one.track_of(lba)), two.track_extent(two.track_of(lba)));
        a.start.get().abs_diff(b.start.get()) <= slack && a.end().get().abs_diff(b.end().get()) <= slack
    });
    alike.count() as f64 / count as f64
}
