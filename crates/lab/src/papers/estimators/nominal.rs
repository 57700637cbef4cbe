//! [`NominalPositioning`]: the model of an instance whose arm errs, with only the size of the error
//! known.
//!
//! Positions, angles and period are those of the nominal unit, and so is every predicted time: the
//! most likely one. The unit's arm arrives earlier or later than that by a normal error of a known
//! spread, so that now and then a sector is missed that should have been caught, or the other way
//! round. The expected time counts the chance of both, each a revolution.
//!
//! Worked example, 10 ms a revolution, spread 0.1 ms: the arm takes 3.0 ms and the sector passes at
//! 3.05 ms. Most likely it is reached at 3.05 ms; with probability Φ(−0.5) = 0.31 the arm is more
//! than 0.05 ms late and reaches it at 13.05 ms: expected are 6.1 ms.
//!
//! - Modelled: the spread of arrival, the same for every movement of the arm.
//! - Not modelled: learning from what happens. A belief that learns would find out what repeats,
//!   and the spread itself.

use headtime_mechanics::{Direction, DriveProfile, HeadPosition, Mechanism, ProfileError};
use headtime_sched::{
    AccessKind, Belief, BeliefReport, Estimate, Head, Likely, MeasuredAccess, Op, Position,
    Positioning, Target, TrackMap, likely_by_estimate,
};
use headtime_sim::{DriveTruth, OraclePositioning};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

/// The nominal instance as a model of one that differs from it.
#[derive(Clone, Debug)]
pub(crate) struct NominalPositioning {
    nominal: OraclePositioning,
    mechanism: Mechanism,
    spread_ns: f64,
    samples: u64,
}

impl NominalPositioning {
    /// The nominal instance of this profile and seed, as a model of one whose arm errs by
    /// `spread_ns` (one standard deviation).
    pub(crate) fn new(
        profile: &DriveProfile,
        seed: u64,
        spread_ns: f64,
    ) -> Result<Self, ProfileError> {
        let nominal = OraclePositioning::new(&DriveTruth::nominal(profile, seed)?)?;
        Ok(Self { nominal, mechanism: Mechanism::nominal(profile)?, spread_ns, samples: 0 })
    }
}

impl Positioning for NominalPositioning {
    fn capacity(&self) -> Sectors {
        self.nominal.capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        self.nominal.target(op, extent)
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let likely = self.nominal.estimate(head, dispatch, target);
        let direction = if target.op == Op::Read { Direction::Read } else { Direction::Write };
        let arm =
            self.mechanism.arm_time(position(&head.place), position(&target.start), direction);
        // Where the arm does not move nothing arrives early or late.
        if arm.is_zero() || self.spread_ns == 0.0 {
            return likely;
        }
        let turn_ns = self.revolution().as_ns() as f64;
        let wait_ns = likely.positioning.saturating_sub(arm).as_ns() as f64;
        let slip =
            upper_tail(wait_ns / self.spread_ns) - upper_tail((turn_ns - wait_ns) / self.spread_ns);
        let expected = likely.positioning.as_ns().saturating_add_signed((slip * turn_ns) as i64);
        let tail = Nanos::from_ns(libm::ceil(self.spread_ns * TAIL) as u64);
        Estimate {
            expected: Nanos::from_ns(expected).max(arm),
            worst: arm + self.revolution() + tail,
            ..likely
        }
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        self.nominal.passes_at(angle, from)
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.nominal.seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.nominal.revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.nominal.media_end(target, finished)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    headtime_sched::costs_by_estimate!();

    headtime_sched::without_cache!();

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for NominalPositioning {
    fn learn(&mut self, _measured: &MeasuredAccess) -> AccessKind {
        self.samples += 1;
        AccessKind::Media
    }

    fn report(&self) -> BeliefReport {
        BeliefReport { samples: self.samples, ..BeliefReport::default() }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

fn position(place: &Position) -> HeadPosition {
    HeadPosition { cylinder: place.cylinder, head: place.head }
}

/// Deviations that `worst` allows for.
const TAIL: f64 = 4.0;

/// The chance that a standard normal exceeds `z`.
fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z * core::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::catalog;

    /// Against the mean over a fine grid of errors: the first time after the real arrival at which
    /// the sector passes.
    #[test]
    fn what_is_expected_is_the_mean_over_all_errors_of_the_arm() {
        let profile = catalog::load("atlas10k").expect("it ships");
        for spread_us in [50.0, 300.0] {
            let belief = NominalPositioning::new(&profile, 7, spread_us * 1e3).expect("it ships");
            let (capacity, turn) = (belief.capacity().get(), belief.revolution().as_ns() as f64);
            let mut head = Head::UNKNOWN;
            for step in 1..400_u64 {
                let target = belief
                    .target(Op::Read, Extent::from_numbers(step * 7_919_993 % (capacity - 8), 8));
                let estimate = belief.estimate(&head, head.free_at, &target);
                let arm = belief
                    .mechanism
                    .arm_time(position(&head.place), position(&target.start), Direction::Read)
                    .as_ns() as f64;
                let passes = estimate.positioning.as_ns() as f64;
                // Quantiles of a normal distribution, from its own tail.
                let (mut mean, mut weight) = (0.0, 0.0);
                for place in -400..=400 {
                    let z = f64::from(place) / 100.0;
                    let density = (-0.5 * z * z).exp();
                    let turns = ((arm + z * spread_us * 1e3 - passes) / turn).ceil();
                    mean += density * (passes + turns * turn);
                    weight += density;
                }
                let expected = estimate.expected.as_ns() as f64;
                assert!(
                    (expected - mean / weight).abs() < 0.004 * turn,
                    "step {step}: {expected} ns, by the grid {} ns",
                    mean / weight
                );
                let bound =
                    belief.seek_lower_bound(head.place.cylinder.abs_diff(target.start.cylinder));
                assert!(
                    bound <= estimate.positioning.min(estimate.expected)
                        && estimate.positioning <= estimate.worst
                );
                head = Head::after(&target, estimate.finish());
            }
        }
    }
}
