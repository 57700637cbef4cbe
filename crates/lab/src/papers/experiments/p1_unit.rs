//! A simulated drive that serves one read at a time, and the prediction of each read: the basis of
//! the measurements of accuracy.
//!
//! The mechanics are those of one instance ([`DriveTruth`]): its own speed, slips, track angles,
//! seeks and overheads, with the random arm times, late reports and retries of its noise. There is
//! no cache, and the drive does no work of its own. The model predicts
//! each read before and observes its completion, as in the scheduler; the truth adds how close the
//! read was to missing its sector. The instance can be [changed](BareUnit::change) during a run.
//!
//! A prediction is *correct* if the response time, from dispatch to completion, is within 5 % of it
//! (P1: a model is to be within 5 % for 99.9 % of pairs). A read whose sector passes less than 100
//! us after the arrival of the arm, or less than 100 us before it, is *at the edge*: an additional
//! revolution depends on unpredictable noise, and the read is counted separately.

use headtime_mechanics::{
    Direction, DriveProfile, HeadPosition, InterfaceTimes, Mechanism, NoiseLevel,
};
use headtime_sched::{AccessKind, Belief, Certainty, Head, MeasuredAccess, Op};
use headtime_sim::{DriveTruth, InstanceVariation, NoiseSource, SpindleDrift};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos};

use crate::papers::error::Cause;

/// The time from a completion to the next read at the drive, for a fast host (guess).
const HOST: Nanos = Nanos::from_us(1);
/// The tolerance of a correct prediction.
const WITHIN: f64 = 0.05;
/// The distance from a miss below which a read is at the edge.
const EDGE: Nanos = Nanos::from_us(100);

/// A drive without cache and queue.
pub(super) struct BareUnit {
    mechanism: Mechanism<InstanceVariation>,
    interface: InterfaceTimes,
    noise: NoiseSource,
    drift: Option<SpindleDrift>,
    /// Remapped sectors, and their new addresses.
    moved: Vec<(Extent, Lba)>,
    now: Instant,
    at: HeadPosition,
    /// The scheduler's knowledge of the head.
    head: Option<Head>,
    /// Of the instance, for the phase of a drift.
    seed: u64,
}

/// A change of a drive.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A sudden decrease of its speed, in parts per million.
    Speed(f64),
    /// A periodic drift of its speed: amplitude in parts per million and period in seconds.
    Drift { ppm: f64, swing_s: f64 },
    /// Ranges of remapped sectors with their new addresses; a read lies in one range or in none.
    Moved(Vec<(Extent, Lba)>),
    /// Replacement by another instance of the model.
    Swapped(Box<DriveProfile>, u64),
}

/// The result of a prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// True if the response time was within 5 % of the predicted one.
    pub(super) right: bool,
    /// True if a prediction with full knowledge of the mechanics, but not the noise, is correct.
    pub(super) foreseeable: bool,
    pub(super) at_the_edge: bool,
    /// True if the model knew this pair.
    pub(super) known: bool,
    /// True if positioning took longer than the predicted worst case.
    pub(super) exceeded: bool,
}

impl BareUnit {
    /// The instance of `profile` with this seed and the noise of the level *typical*.
    pub(super) fn draw(profile: &DriveProfile, seed: u64) -> Result<Self, Cause> {
        Self::with_noise(NoiseLevel::Typical, profile, seed)
    }

    fn with_noise(noise: NoiseLevel, profile: &DriveProfile, seed: u64) -> Result<Self, Cause> {
        let truth = DriveTruth::draw(&noise.apply(profile), seed)?;
        Ok(Self {
            mechanism: truth.mechanism().clone(),
            interface: InterfaceTimes::from_profile(truth.profile())?,
            noise: truth.noise_source(),
            drift: truth.drift(),
            moved: Vec::new(),
            now: Instant::from_ns(1),
            at: HeadPosition::PARKED,
            head: None,
            seed,
        })
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Changes the drive from now on.
    pub(super) fn change(&mut self, change: &Change) -> Result<(), Cause> {
        let under = self.mechanism.angle_at(self.now);
        match change {
            Change::Speed(ppm) => {
                let femtos = self.mechanism.period().as_fs() as f64 * (1.0 + ppm * 1e-6);
                let period = headtime_units::RotationPeriod::from_fs(femtos as u64)
                    .unwrap_or(self.mechanism.period());
                self.mechanism.set_rotation(period, under - period.angle_at(self.now, Angle::ZERO));
                self.drift = None;
            }
            Change::Drift { ppm, swing_s } => {
                let period = self.mechanism.period();
                let origin = under - period.angle_at(self.now, Angle::ZERO);
                self.drift = SpindleDrift::new(period, origin, *ppm, *swing_s, self.seed);
            }
            Change::Moved(rows) => self.moved.clone_from(rows),
            Change::Swapped(profile, seed) => {
                let other = Self::draw(profile, *seed)?;
                // The model is not informed; the first read after it starts from another position.
                *self = Self { now: self.now, head: self.head, ..other };
            }
        }
        Ok(())
    }

    /// The true location of the sectors.
    fn place(&self, extent: Extent) -> Extent {
        let moved = self.moved.iter().find(|(from, _)| from.contains(extent.start));
        moved
            .map_or(extent, |(from, to)| Extent::new(*to + (extent.start - from.start), extent.len))
    }

    /// The next read, on an idle drive.
    pub(super) fn serve(&mut self, belief: &mut dyn Belief, extent: Extent) -> Outcome {
        let target = belief.target(Op::Read, extent);
        let dispatched = self.now;
        let before = self.head.unwrap_or(Head::UNKNOWN);
        let estimate = belief.estimate(&before, dispatched, &target);
        let known = belief.known(&before, dispatched, &target) == Certainty::Known;

        if let Some(drift) = &self.drift {
            let (period, phase) = drift.steady_at(dispatched);
            self.mechanism.set_rotation(period, phase);
        }
        let depart = dispatched + self.interface.command_overhead(Direction::Read, None);
        let real = self.place(extent);
        let spot = self.mechanism.spot(real.start);
        let way = self.mechanism.positioning_to(self.at, depart, Direction::Read, &spot);
        let arm_error = self.noise.arm_error_ns(dispatched, || {
            let to = self.mechanism.layout().track_of(real.start);
            self.mechanism.arm_time(self.at, to.into(), Direction::Read)
        });
        let turn = self.mechanism.period().as_nanos();
        // The completion of a read whose arm departs then.
        let completed = |depart: Instant, lost: Nanos| {
            let access =
                self.mechanism.access(self.at, depart, Direction::Read, real, Instant::ORIGIN);
            let (first, end) = (access.first_sector, access.finish + lost);
            (access.end, self.interface.read_completed(first, end, extent.len, Instant::ORIGIN))
        };
        let (_, without_noise) = completed(depart, Nanos::ZERO);
        let (at, completed) = completed(depart.offset_by_ns(arm_error), self.noise.lost(turn));
        self.at = at;
        let finished = completed + self.noise.late();

        let reported = belief.media_end(&target, finished);
        let predicted = (estimate.expected_cost(dispatched) + finished.saturating_since(reported))
            .as_ns() as f64;
        let response = finished.saturating_since(dispatched).as_ns() as f64;
        let right = |predicted: f64| (predicted - response).abs() <= WITHIN * response;
        let exceeded =
            reported.saturating_since(estimate.depart) > estimate.worst + target.transfer;
        let outcome = Outcome {
            right: right(predicted),
            foreseeable: right(without_noise.saturating_since(dispatched).as_ns() as f64),
            at_the_edge: !way.seek.is_zero()
                && (way.rotate < EDGE || turn.saturating_sub(way.rotate) < EDGE),
            known,
            exceeded,
        };
        match belief.learn(&MeasuredAccess {
            target,
            dispatched,
            finished,
            head_before: self.head,
            forced: false,
            succeeded: true,
        }) {
            AccessKind::CacheHit => {}
            AccessKind::Media => self.head = Some(Head::after(&target, reported)),
            AccessKind::Uncertain => self.head = None,
        }
        self.now = finished + HOST;
        outcome
    }
}

/// The number of correct predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) away_from_edge: u64,
    pub(super) right: u64,
    pub(super) foreseeable: u64,
    pub(super) at_the_edge: u64,
    pub(super) right_at_the_edge: u64,
    pub(super) known: u64,
    /// The number of reads away from the edge that took longer than the predicted worst case.
    pub(super) exceeded: u64,
}

impl Tally {
    pub(super) fn note(&mut self, outcome: Outcome) {
        let one = |yes: bool| u64::from(yes);
        if outcome.at_the_edge {
            self.at_the_edge += 1;
            self.right_at_the_edge += one(outcome.right);
            return;
        }
        self.away_from_edge += 1;
        self.right += one(outcome.right);
        self.foreseeable += one(outcome.foreseeable);
        self.known += one(outcome.known);
        self.exceeded += one(outcome.exceeded);
    }

    /// Both together.
    pub(super) fn add(&mut self, other: &Self) {
        self.away_from_edge += other.away_from_edge;
        self.right += other.right;
        self.foreseeable += other.foreseeable;
        self.at_the_edge += other.at_the_edge;
        self.right_at_the_edge += other.right_at_the_edge;
        self.known += other.known;
        self.exceeded += other.exceeded;
    }

    /// The share of correct predictions of reads away from the edge, in percent.
    pub(super) fn right_percent(&self) -> crate::papers::estimated::Estimated {
        share_percent(self.right, self.away_from_edge)
    }

    /// The share of reads away from the edge that took longer than the predicted worst case, in
    /// percent.
    pub(super) fn exceeded_percent(&self) -> crate::papers::estimated::Estimated {
        share_percent(self.exceeded, self.away_from_edge)
    }
}

/// A share in percent with its 95 % interval, given by the farther end of Wilson's.
pub(super) fn share_percent(of: u64, all: u64) -> crate::papers::estimated::Estimated {
    let (share, half_width) = share(of, all);
    crate::papers::estimated::Estimated::new(100.0 * share, (all > 0).then_some(100.0 * half_width))
}

/// A share of one and how far the farther end of Wilson's 95 % interval lies from it.
pub(super) fn share(of: u64, all: u64) -> (f64, f64) {
    let (n, z) = (all.max(1) as f64, 1.96);
    let share = of as f64 / n;
    let (middle, half) = (
        share + z * z / (2.0 * n),
        z * libm::sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n)),
    );
    let ends = [middle - half, middle + half].map(|end| end / (1.0 + z * z / n));
    (share, (ends[1] - share).max(share - ends[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_belief::DriveModel;
    use headtime_mechanics::catalog;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Without noise a belief that was told the unit's profile, which is then the truth, is right
    /// but for the first reads.
    #[test]
    fn a_model_with_the_true_profile_is_correct() {
        let profile = catalog::load("atlas10k").expect("it ships");
        let (mut unit, mut belief) = (
            BareUnit::with_noise(NoiseLevel::Off, &profile, 3).expect("it ships"),
            DriveModel::of_profile(&profile).expect("it ships"),
        );
        let (mut rng, mut tally) = (ChaCha8Rng::seed_from_u64(1), Tally::default());
        for read in 0..1_200 {
            let outcome = unit.serve(
                &mut belief,
                Extent::from_numbers(rng.random_range(0..17_000_000) / 8 * 8, 8),
            );
            assert!(outcome.foreseeable);
            if read >= 200 {
                tally.note(outcome);
            }
        }
        assert!(tally.right * 1_000 >= tally.away_from_edge * 995, "{tally:?}");
        assert!(
            tally.at_the_edge * 100 < 8 * (tally.at_the_edge + tally.away_from_edge),
            "200 us of 6 ms are some 3 %: {tally:?}"
        );
    }

    #[test]
    fn a_change_is_one() {
        let profile = catalog::load("atlas10k").expect("it ships");
        let region = Extent::from_numbers(9_000_000, 5_000);
        let read = |change: Option<Change>| {
            let mut unit = BareUnit::draw(&profile, 3).expect("it ships");
            let mut belief = DriveModel::of_profile(&profile).expect("it ships");
            unit.serve(&mut belief, Extent::from_numbers(100, 8));
            change.iter().for_each(|change| unit.change(change).expect("it can be"));
            (0..300).for_each(|_| {
                unit.serve(&mut belief, Extent::from_numbers(9_000_800, 8));
                unit.serve(&mut belief, Extent::from_numbers(800, 8));
            });
            unit.now()
        };
        let as_it_was = read(None);
        let changes = [
            Change::Speed(100.0),
            Change::Drift { ppm: 100.0, swing_s: 60.0 },
            Change::Moved(vec![(region, Lba::new(17_000_000))]),
            Change::Swapped(Box::new(profile.clone()), 4),
        ];
        for change in changes {
            assert_ne!(read(Some(change.clone())), as_it_was, "{change:?}");
        }
    }

    #[test]
    fn a_share_of_few_is_unsure() {
        let (share, half) = share(0, 100);
        // Wilson's upper end for none of a hundred.
        assert!(share == 0.0 && (half - 0.0370).abs() < 1e-3, "{half}");
    }
}
