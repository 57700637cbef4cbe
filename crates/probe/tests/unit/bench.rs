//! For the tests inside the crate: one experiment at a simulated drive, with what the experiments
//! before it would have found taken from the truth.
//!
//! Only drives whose zones follow the plain rhythms, without slips, reserved sectors or groups of
//! spares, can be told so.

use headtime_mechanics::profile::{TrackOrder, Zone};
use headtime_mechanics::{DriveProfile, SeekCurve, catalog};
use headtime_sim::DriveTruth;
use headtime_units::{Extent, Instant, Lba};

use crate::clock::Clock;
use crate::command_batch::CommandBatch;
use crate::curve::Timed;
use crate::layout::{Pattern, ZoneModel};
use crate::measurement::{CommandOutcome, Measurement, NextRead, TimedCommand};
use crate::results::Results;
use crate::session::{Attempt, DriveTiming, Interruption, ReferenceSector, Session};
use simulated::Simulated;

#[path = "../common/simulated.rs"]
mod simulated;

/// The items of the probe that `simulated` uses.
mod probe {
    pub(super) use crate::command_batch::{BatchCommand, CommandBatch, CommandKind};
    pub(super) use crate::measurement::{CommandOutcome, TimedCommand};
}

/// A drive under one experiment.
pub(crate) struct Bench {
    at: Simulated,
    pub(crate) drive: DriveTiming,
    pub(crate) results: Results,
}

impl Bench {
    /// The drive, and what is known of it: rotation and layout, and the arm but for its settle.
    pub(crate) fn new(truth: DriveTruth) -> Self {
        let profile = truth.profile().clone();
        let mut bench = Self {
            at: Simulated::new(truth.clone()),
            drive: DriveTiming::default(),
            results: Results::default(),
        };
        let anchor = Extent::from_numbers(profile.capacity().get() / 3, 1);
        let read = bench.carry_out(&Measurement::Read {
            extent: anchor,
            not_before: Instant::ORIGIN,
            next: NextRead::Independent,
        })[0];
        let mechanism = truth.mechanism();
        let after_media = mechanism.end_angle(anchor).as_turns();
        let zones =
            zones(&profile, |lba| mechanism.spot(Lba::new(lba)).angle.as_turns() - after_media);
        let curve = SeekCurve::from_profile(&profile);
        let base_ns =
            profile.interface.read_command_us * 1e3 + profile.interface.completion_us * 1e3;
        bench.drive = DriveTiming {
            capacity: profile.capacity().get(),
            clock: Clock::new(
                mechanism.period().as_ns_f64(),
                2_000.0 + profile.variation.jitter_us * 0.7 * 1e3,
                read.completed,
            ),
            references: vec![ReferenceSector { lba: anchor.start.get(), turns: 0.0 }],
            now: bench.at.now,
            ..DriveTiming::default()
        };
        bench.results.rotation.rotates = Some(true);
        let layout = &mut bench.results.layout;
        (layout.pattern, layout.zones) = (Some(zones[0].pattern), zones);
        let seek = &mut bench.results.seek;
        seek.same_track_ns = Some(base_ns);
        seek.other_head_ns = Some(base_ns + profile.seek.head_switch_ms * 1e6);
        let mut distance = 1;
        while distance < curve.last_distance() {
            let ns = base_ns + curve.time(distance).as_ns() as f64;
            seek.curve.points.push((u64::from(distance), Timed { ns, error_ns: None }));
            distance = distance * 5 / 4 + 1;
        }
        bench
    }

    /// Carries one step of an experiment out and keeps what it found.
    pub(crate) fn run<T>(
        &mut self,
        seed: u64,
        mut experiment: impl FnMut(&mut Session, &mut Results) -> Attempt<T>,
    ) -> T {
        let (mut commands, mut batches): (Vec<TimedCommand>, Vec<Vec<TimedCommand>>) =
            (Vec::new(), Vec::new());
        loop {
            let mut session = Session::new(&commands, &batches, self.drive.clone(), seed);
            let mut results = self.results.clone();
            match experiment(&mut session, &mut results) {
                Ok(found) => {
                    (self.drive, self.results) = (session.drive, results);
                    self.drive.note_recent(&commands);
                    self.drive.step += 1;
                    self.drive.now = self.at.now;
                    return found;
                }
                Err(Interruption::Measure(ask)) => {
                    let answered = self.carry_out(&ask);
                    commands.push(*answered.last().expect("an ask is answered"));
                    if !matches!(ask, Measurement::Read { .. }) {
                        batches.push(answered);
                    }
                }
                Err(Interruption::Failed(why)) => panic!("seed {seed}: {why}"),
            }
        }
    }

    fn carry_out(&mut self, ask: &Measurement) -> Vec<TimedCommand> {
        self.at.carry_out(CommandBatch::new(ask), |_| CommandOutcome::Done)
    }
}

/// A drive of the catalog without all that a [`Bench`] cannot be told of.
pub(crate) fn plain(name: &str) -> DriveProfile {
    let mut profile = catalog::load(name).expect("a profile that ships");
    for zone in &mut profile.zones {
        *zone = Zone {
            spare_cylinders: None,
            spares: 0,
            reserved: 0,
            slips: Vec::new(),
            first_angle_turns: None,
            ..zone.clone()
        };
    }
    profile.variation.slips_per_million = 0.0;
    profile.capacity_sectors = None;
    profile
}

/// The zones of a profile as sketches; `turns` says where an address begins.
fn zones(profile: &DriveProfile, turns: impl Fn(u64) -> f64) -> Vec<ZoneModel> {
    let heads = u64::from(profile.geometry.heads);
    let band = u64::from(profile.geometry.band_cylinders.unwrap_or(1));
    let mut first = 0;
    let mut sketches = Vec::new();
    for zone in &profile.zones {
        assert!(
            zone.slips.is_empty()
                && zone.reserved == 0
                && zone.sectors_by_head.is_empty()
                && zone.groups(profile.geometry.heads) == 1,
            "{} is not plain",
            profile.name
        );
        let (pattern, steps) = match profile.geometry.layout {
            TrackOrder::Cylinder | TrackOrder::Serpentine => (
                Pattern { unit: heads, units: Pattern::NEVER },
                [zone.track_skew, zone.cylinder_skew, 0.0],
            ),
            TrackOrder::SurfaceSerpentine | TrackOrder::Banded => (
                Pattern { unit: band, units: heads },
                [zone.cylinder_skew, zone.track_skew, zone.band_skew.unwrap_or(zone.cylinder_skew)],
            ),
        };
        let spt = u64::from(zone.sectors_per_track);
        let mut sketch = ZoneModel::new(pattern, first, spt);
        sketch.origin = turns(first);
        sketch.steps = steps.map(|skew| skew / spt as f64);
        sketch.fitted = true;
        first = (first + zone.mapped_sectors(profile.geometry.heads)).min(profile.capacity().get());
        sketch.end_lba = Some(first);
        sketches.push(sketch);
    }
    sketches
}
