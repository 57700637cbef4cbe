//! A unit that serves one read at a time, and what a belief predicted of each: the ground that
//! accuracy is measured on.
//!
//! The mechanics are those of a drawn unit ([`DriveTruth`]): its own speed, slips, track angles and
//! seeks, late reports and retries as its profile has them. A cache would only answer instead of
//! it, and there is none. The belief is asked before each read how long it will take and is taught
//! its completion, as the scheduler does it; the truth says besides how far from missing its sector
//! the read was. While it runs the unit can be [changed](BareUnit::change).
//!
//! *Right* is a response time, from dispatch to completion, that was expected to within 5 % of what
//! it came to (P1: a model is to be within 5 % for 99.9 % of pairs). A read whose sector passes
//! less than 100 us behind the arm, or passed less than 100 us before it, is *at the edge*: whether
//! it takes a turn more hangs on what nobody predicts, and it is counted apart.

use headtime_mechanics::{Direction, DriveProfile, HeadPosition, InterfaceTimes, Mechanism};
use headtime_sched::{AccessKind, Belief, Certainty, Head, MeasuredAccess, Op};
use headtime_sim::{DriveTruth, InstanceVariation, Noise, SpindleDrift};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::papers::error::Cause;

/// From a completion until the next read is at the drive: what a quick host takes (guess).
const HOST: Nanos = Nanos::from_us(1);
/// What is right.
const WITHIN: f64 = 0.05;
/// Nearer to missing than this is at the edge.
const EDGE: Nanos = Nanos::from_us(100);

/// A drive without cache and queue.
pub(super) struct BareUnit {
    mechanism: Mechanism<InstanceVariation>,
    interface: InterfaceTimes,
    noise: Noise,
    drift: Option<SpindleDrift>,
    /// Sectors that are served from elsewhere, and from where.
    moved: Vec<(Extent, Lba)>,
    now: Instant,
    at: HeadPosition,
    /// What a scheduler would know of the head.
    head: Option<Head>,
    rng: ChaCha8Rng,
}

/// What may happen to a unit.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// It turns slower by so many parts per million from one moment to the next.
    Speed(f64),
    /// Its speed wanders by so many parts per million either way, there and back in so many
    /// seconds.
    Drift { ppm: f64, swing_s: f64 },
    /// These sectors are served from elsewhere on the drive, each row from where its address says;
    /// a read lies in one row or in none.
    Moved(Vec<(Extent, Lba)>),
    /// Another unit of the model is in its place.
    Swapped(Box<DriveProfile>, u64),
}

/// What became of a prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Whether the response time was within 5 % of the one expected.
    pub(super) right: bool,
    /// Whether somebody who knows the unit's mechanics, but not its noise, would have been right.
    pub(super) foreseeable: bool,
    pub(super) at_the_edge: bool,
    /// Whether the belief knew this very pair.
    pub(super) known: bool,
    /// Whether positioning took longer than the worst that the belief named.
    pub(super) exceeded: bool,
}

impl BareUnit {
    /// The unit of `profile` that `seed` draws.
    pub(super) fn draw(profile: &DriveProfile, seed: u64) -> Result<Self, Cause> {
        let truth = DriveTruth::draw(profile, seed)?;
        Ok(Self {
            mechanism: truth.mechanism().clone(),
            interface: InterfaceTimes::from_profile(profile)?,
            noise: truth.noise(),
            drift: truth.drift(),
            moved: Vec::new(),
            now: Instant::from_ns(1),
            at: HeadPosition::PARKED,
            head: None,
            rng: ChaCha8Rng::seed_from_u64(seed ^ OWN_CHOICES),
        })
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// The unit is another from now on.
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
                self.drift = SpindleDrift::new(period, origin, *ppm, *swing_s, self.rng.random());
            }
            Change::Moved(rows) => self.moved.clone_from(rows),
            Change::Swapped(profile, seed) => {
                let other = Self::draw(profile, *seed)?;
                // Nobody tells the belief; the first read after it starts from a head that rests
                // elsewhere.
                *self = Self { now: self.now, head: self.head, ..other };
            }
        }
        Ok(())
    }

    /// Where the sectors really are.
    fn place(&self, extent: Extent) -> Extent {
        let moved = self.moved.iter().find(|(from, _)| from.contains(extent.start));
        moved
            .map_or(extent, |(from, to)| Extent::new(*to + (extent.start - from.start), extent.len))
    }

    /// The next read, on an idle drive.
    pub(super) fn serve(&mut self, belief: &mut dyn Belief, extent: Extent) -> Told {
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
        let way = self.mechanism.positioning_to(
            self.at,
            depart,
            Direction::Read,
            &self.mechanism.spot(real.start),
        );
        let access = self.mechanism.access(self.at, depart, Direction::Read, real, Instant::ORIGIN);
        self.at = access.end;
        let completed = self.interface.read_completed(
            access.first_sector,
            access.finish,
            extent.len,
            Instant::ORIGIN,
        );
        let finished = completed + self.late();

        let reported = belief.media_end(&target, finished);
        let predicted = (estimate.expected_cost(dispatched) + finished.saturating_since(reported))
            .as_ns() as f64;
        let response = finished.saturating_since(dispatched).as_ns() as f64;
        let right = |predicted: f64| (predicted - response).abs() <= WITHIN * response;
        let exceeded =
            reported.saturating_since(estimate.depart) > estimate.worst + target.transfer;
        let turn = self.mechanism.period().as_nanos();
        let told = Told {
            right: right(predicted),
            foreseeable: right(completed.saturating_since(dispatched).as_ns() as f64),
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
            succeeded: true,
        }) {
            AccessKind::CacheHit => {}
            AccessKind::Media => self.head = Some(Head::after(&target, reported)),
            AccessKind::Uncertain => self.head = None,
        }
        self.now = finished + HOST;
        told
    }

    fn late(&mut self) -> Nanos {
        let jitter = -libm::log(1.0 - self.rng.random::<f64>()) * self.noise.jitter_ns;
        let retried = self.rng.random::<f64>() < self.noise.outlier_share;
        Nanos::from_ns(jitter as u64) + if retried { self.noise.outlier } else { Nanos::ZERO }
    }
}

/// Of the seed of noise, against that of the unit: no number that comes up by itself.
const OWN_CHOICES: u64 = 0xD1B5_4A32_D192_ED03;

/// How many predictions were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) away_from_edge: u64,
    pub(super) right: u64,
    pub(super) foreseeable: u64,
    pub(super) at_the_edge: u64,
    pub(super) right_at_the_edge: u64,
    pub(super) known: u64,
    /// Of those away from the edge, how many took longer than the worst that was named.
    pub(super) exceeded: u64,
}

impl Tally {
    pub(super) fn note(&mut self, told: Told) {
        let one = |yes: bool| u64::from(yes);
        if told.at_the_edge {
            self.at_the_edge += 1;
            self.right_at_the_edge += one(told.right);
            return;
        }
        self.away_from_edge += 1;
        self.right += one(told.right);
        self.foreseeable += one(told.foreseeable);
        self.known += one(told.known);
        self.exceeded += one(told.exceeded);
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

    /// Right predictions of reads away from the edge, in per cent.
    pub(super) fn right_percent(&self) -> crate::papers::estimated::Estimated {
        share_percent(self.right, self.away_from_edge)
    }

    /// Reads away from the edge that took longer than the worst that was named, in per cent.
    pub(super) fn exceeded_percent(&self) -> crate::papers::estimated::Estimated {
        share_percent(self.exceeded, self.away_from_edge)
    }
}

/// A share in per cent with its 95 % interval, given by the farther end of Wilson's.
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

    /// Without noise a belief that was told the unit's profile, which is then the truth, is right
    /// but for the first reads.
    #[test]
    fn who_knows_the_unit_is_right() {
        let mut profile = catalog::load("atlas10k").expect("it ships");
        profile.variation = headtime_mechanics::profile::VariationSpec::default();
        let (mut unit, mut belief) = (
            BareUnit::draw(&profile, 3).expect("it ships"),
            DriveModel::of_profile(&profile).expect("it ships"),
        );
        let (mut rng, mut tally) = (ChaCha8Rng::seed_from_u64(1), Tally::default());
        for read in 0..1_200 {
            let told = unit.serve(
                &mut belief,
                Extent::from_numbers(rng.random_range(0..17_000_000) / 8 * 8, 8),
            );
            assert!(told.foreseeable);
            if read >= 200 {
                tally.note(told);
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
