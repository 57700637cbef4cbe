//! Scans for half of the runs, from a separate random stream, so that other draws do not depend on
//! them: each reads sectors near those of the streams, or all, and starts at any step. While it
//! runs, it is paused and resumed, gets another priority, or is stopped; and the settings of
//! background reading change.

use std::collections::{BTreeMap, BTreeSet};

use headtime_mechanics::DriveProfile;
use headtime_sched::{
    BackgroundRead, FillSettings, IdleSettings, Outcome, PendingSectors, ReadAhead, ScanId,
    ScanOptions, ScanPriority, Scheduler,
};
use headtime_sim::SchedulerApi;
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::checker::InvariantChecker;
use super::contents::Known;

/// The random stream of scans.
const STREAM: u64 = 6;
/// The chance of an event of a scan in a step.
const CHANGE_CHANCE: f64 = 0.03;

/// A scheduler with scans.
pub(crate) trait Scanning: SchedulerApi {
    /// The scheduler itself.
    fn scheduler(&mut self) -> &mut Scheduler;

    /// Starts a scan.
    fn scan_start(
        &mut self,
        now: Instant,
        id: ScanId,
        pending: PendingSectors,
        options: ScanOptions,
    ) {
        self.scheduler().scan_start(now, id, pending, options);
    }
}

impl Scanning for Scheduler {
    fn scheduler(&mut self) -> &mut Scheduler {
        self
    }
}

/// The scans of a run.
pub(super) struct Scans {
    rng: ChaCha8Rng,
    to_start: Vec<(PendingSectors, ScanOptions)>,
    started: Vec<ScanId>,
}

/// The work left for scans once no request is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtEnd {
    Nothing,
    Reads,
}

impl Scans {
    pub(super) fn draw(profile: &DriveProfile, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(STREAM);
        let scans = if rng.random_bool(0.5) { rng.random_range(1..=3) } else { 0 };
        let to_start = (0..scans).map(|_| random_scan(&mut rng, profile)).collect();
        Self { rng, to_start, started: Vec::new() }
    }

    /// The number of sectors that scans have yet to start with.
    pub(super) fn sectors(&self) -> u64 {
        self.to_start.iter().map(|(pending, _)| pending.remaining().get()).sum()
    }

    /// Perhaps starts a scan or changes one.
    pub(super) fn step(
        &mut self,
        now: Instant,
        scheduler: &mut impl Scanning,
        checker: &mut InvariantChecker,
    ) {
        if self.to_start.is_empty() && self.started.is_empty()
            || !self.rng.random_bool(CHANGE_CHANCE)
        {
            return;
        }
        if !self.to_start.is_empty() {
            return self.start(now, scheduler, checker);
        }
        let id = self.started[self.rng.random_range(0..self.started.len())];
        match self.rng.random_range(0..10) {
            0 => {
                scheduler.scheduler().scan_stop(now, id);
                checker.scans.stopped(id);
                self.started.retain(|started| *started != id);
            }
            1..=3 => scheduler.scheduler().scan_pause(now, id),
            4..=6 => scheduler.scheduler().scan_resume(now, id),
            7 => scheduler.scheduler().scan_set_priority(now, id, random_priority(&mut self.rng)),
            _ => scheduler.scheduler().set_fill(random_settings(&mut self.rng)),
        }
    }

    /// Lets all scans end: starts those that have not, and resumes those that are paused.
    pub(super) fn end(
        &mut self,
        now: Instant,
        scheduler: &mut impl Scanning,
        checker: &mut InvariantChecker,
    ) -> AtEnd {
        while !self.to_start.is_empty() {
            self.start(now, scheduler, checker);
        }
        if self.started.is_empty() {
            return AtEnd::Nothing;
        }
        let inner = scheduler.scheduler();
        inner.set_fill(FillSettings::default());
        for id in self.started.drain(..) {
            inner.scan_resume(now, id);
        }
        AtEnd::Reads
    }

    fn start(
        &mut self,
        now: Instant,
        scheduler: &mut impl Scanning,
        checker: &mut InvariantChecker,
    ) {
        let Some((pending, options)) = self.to_start.pop() else { return };
        let id = ScanId(self.to_start.len() as u32);
        checker.scan_started(id, &pending, options);
        scheduler.scheduler().set_fill(random_settings(&mut self.rng));
        scheduler.scan_start(now, id, pending, options);
        self.started.push(id);
    }
}

/// The state of scans, independent of the scheduler's own.
#[derive(Default)]
pub(super) struct ScanModel {
    scans: BTreeMap<ScanId, ModelScan>,
}

struct ModelScan {
    pending: BTreeSet<Lba>,
    /// For a scan of a point in time, what was known then.
    point_in_time: Option<Known>,
}

impl ScanModel {
    pub(super) fn started(
        &mut self,
        id: ScanId,
        pending: &PendingSectors,
        point_in_time: Option<Known>,
    ) {
        let whole = Extent::new(Lba::new(0), pending.capacity());
        let pending = pending.runs_in(whole).flat_map(sectors).collect();
        self.scans.insert(id, ModelScan { pending, point_in_time });
    }

    fn stopped(&mut self, id: ScanId) {
        self.scans.remove(&id);
    }

    /// Takes a delivered read; returns what was known at the point in time of its scan.
    pub(super) fn delivered(&mut self, read: &BackgroundRead) -> Result<Option<&Known>, String> {
        let scan = self
            .scans
            .get_mut(&read.scan)
            .ok_or_else(|| format!("{read:?} is for a scan that does not run"))?;
        match sectors(read.extent).find(|lba| !scan.pending.remove(lba)) {
            Some(lba) => Err(format!("{read:?}: sector {lba} is not pending")),
            None => Ok(scan.point_in_time.as_ref().filter(|_| read.outcome == Outcome::Success)),
        }
    }

    /// Checks that all scans have ended.
    pub(super) fn check_end(&self) -> Result<(), String> {
        match self.scans.iter().find(|(_, scan)| !scan.pending.is_empty()) {
            Some((id, scan)) => {
                Err(format!("scan {} has not got {} sectors", id.0, scan.pending.len()))
            }
            None => Ok(()),
        }
    }
}

fn sectors(extent: Extent) -> impl Iterator<Item = Lba> {
    (extent.start.get()..extent.end().get()).map(Lba::new)
}

fn random_scan(rng: &mut ChaCha8Rng, profile: &DriveProfile) -> (PendingSectors, ScanOptions) {
    let (capacity, of_one_arm) = (profile.capacity(), profile.capacity_per_actuator().get());
    let mut pending = PendingSectors::new(capacity, Sectors::new(rng.random_range(1..=8)));
    let near = if rng.random_bool(0.5) { 0 } else { of_one_arm.saturating_sub(24) };
    for _ in 0..rng.random_range(1..=4) {
        let start = (near + rng.random_range(0..96)).min(capacity.get() - 1);
        let longest = if rng.random_bool(0.4) { capacity.get() } else { 64 };
        let len = rng.random_range(1..=longest.min(capacity.get() - start));
        pending.insert(Extent::from_numbers(start, len));
    }
    let options = ScanOptions {
        point_in_time: rng.random_bool(0.5),
        priority: random_priority(rng),
        ..ScanOptions::default()
    };
    (pending, options)
}

fn random_priority(rng: &mut ChaCha8Rng) -> ScanPriority {
    ScanPriority::new(rng.random_range(0..8)).expect("below eight")
}

fn random_settings(rng: &mut ChaCha8Rng) -> FillSettings {
    FillSettings {
        conservatism: rng.random_bool(0.7).then(|| Nanos::from_us(rng.random_range(0..500))),
        max_impact: [0.0, 0.01, f64::INFINITY, f64::INFINITY, f64::INFINITY]
            [rng.random_range(0..5)],
        read_ahead: [ReadAhead::Unknown, ReadAhead::On, ReadAhead::Off][rng.random_range(0..3)],
        merge_front: rng.random_bool(0.7),
        merge_back: rng.random_bool(0.7),
        waiting_needed: rng.random_range(1..=2),
        controls: [0, 0, 16][rng.random_range(0..3)],
        edge: Sectors::new(rng.random_range(0..=4)),
        effort: [0, 5, 48][rng.random_range(0..3)],
        idle: IdleSettings {
            enabled: rng.random_bool(0.3),
            grace: Nanos::from_ms(rng.random_range(0..=20)),
            away: Nanos::from_ms(rng.random_range(0..=1_000)),
            largest: Sectors::new(rng.random_range(1..=64)),
        },
        tail: [0.0, 0.03, 1.0][rng.random_range(0..3)],
        tail_share: [0.0, 0.05, 1.0][rng.random_range(0..3)],
        retry_grain: Sectors::new(rng.random_range(1..=8)),
        in_firmware: false,
    }
}
