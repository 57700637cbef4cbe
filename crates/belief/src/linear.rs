//! [`LinearBelief`]: a model of a drive with only its capacity known. Its costs depend on the
//! distance in addresses and are learned.
//!
//! Distances fall into classes by powers of two, forward and backward separate. Each class keeps a
//! slow mean and the maximum of the observed positioning times. A class without observations has
//! the average times of a 7,200 rpm disk.
//!
//! Worked example: for a file in the page cache every class soon has a mean of some microseconds,
//! so that all orders cost the same. On a disk the class of 2²⁰ sectors settles near its mean seek
//! plus half a revolution.
//!
//! Does not model rotation: two targets at the same distance cost the same. This is the knowledge
//! of a policy by address distance (SSTF, C-LOOK), and the model of a plain file or an SSD. Cost:
//! O(1). Source: P1 section 2 (why distance alone is not enough); the classes are ours.

use headtime_sched::{
    AccessKind, Belief, BeliefReport, Estimate, Head, Likely, MeasuredAccess, Op, Position,
    Positioning, Target, TrackMap, likely_by_estimate, passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

/// Bands of addresses, used as cylinders.
const BANDS: u64 = 1 << 16;
/// Distance classes in each direction: one per power of two, and one for no distance at all.
const CLASSES: usize = 65;
/// Media rate assumed for transfers: 200 MB/s at 512 bytes a sector (guess: middle of a modern
/// disk).
const TRANSFER_NS_PER_SECTOR: u64 = 2_560;
/// Weight of a new observation once a class is well known.
const STEADY_WEIGHT: f64 = 1.0 / 64.0;

/// Cost by distance in addresses.
#[derive(Clone, Debug)]
pub struct LinearBelief {
    capacity: Sectors,
    forward: Vec<Class>,
    backward: Vec<Class>,
    samples: u64,
    squared_error_us: f64,
}

/// Observations at distances of one power of two.
#[derive(Clone, Copy, Debug)]
struct Class {
    mean_ns: f64,
    worst_ns: u64,
    seen: u32,
}

impl LinearBelief {
    /// Creates a model of a drive with `capacity` logical sectors and no observations.
    #[must_use]
    pub fn new(capacity: Sectors) -> Self {
        let classes: Vec<Class> = (0..CLASSES).map(|class| first_guess(class, capacity)).collect();
        Self {
            capacity,
            forward: classes.clone(),
            backward: classes,
            samples: 0,
            squared_error_us: 0.0,
        }
    }

    fn place(&self, lba: Lba) -> Position {
        let band =
            u128::from(lba.get()) * u128::from(BANDS) / u128::from(self.capacity.get().max(1));
        Position { cylinder: band.min(u128::from(BANDS - 1)) as u32, head: 0, angle: Angle::ZERO }
    }

    fn class(&self, head: &Head, target: &Target) -> &Class {
        let (forward, class) = class_of(head, target);
        if forward { &self.forward[class] } else { &self.backward[class] }
    }
}

/// The times of a 7,200 rpm disk: half a revolution, and a seek that depends on the distance.
fn first_guess(class: usize, capacity: Sectors) -> Class {
    if class == 0 {
        return Class { mean_ns: 0.0, worst_ns: 8_400_000, seen: 0 };
    }
    let distance = libm::exp2(class as f64 - 0.5);
    let share = (distance / capacity.get().max(1) as f64).min(1.0);
    let seek_ns = 300_000.0 + 15_700_000.0 * libm::sqrt(share);
    Class { mean_ns: seek_ns + 4_170_000.0, worst_ns: seek_ns as u64 + 8_400_000, seen: 0 }
}

fn class_of(head: &Head, target: &Target) -> (bool, usize) {
    let start = target.extent.start;
    let distance = start.distance(head.next_lba).get();
    (start >= head.next_lba, (u64::BITS - distance.leading_zeros()) as usize)
}

impl Positioning for LinearBelief {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let transfer = Nanos::from_ns(extent.len.get().saturating_mul(TRANSFER_NS_PER_SECTOR));
        Target {
            op,
            extent,
            start: self.place(extent.start),
            end: self.place(extent.last()),
            transfer,
        }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let class = self.class(head, target);
        let mean = Nanos::from_ns(class.mean_ns as u64);
        Estimate {
            depart: dispatch.max(head.free_at),
            positioning: mean,
            expected: mean,
            worst: mean.max(Nanos::from_ns(class.worst_ns)),
            transfer: target.transfer,
        }
    }

    /// Zero: a file may be in memory.
    fn seek_lower_bound(&self, _cylinders: u32) -> Nanos {
        Nanos::ZERO
    }

    /// Zero: no rotation is known.
    fn revolution(&self) -> Nanos {
        Nanos::ZERO
    }

    fn media_end(&self, _target: &Target, finished: Instant) -> Instant {
        finished
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
    }

    headtime_sched::costs_by_estimate!();

    headtime_sched::without_cache!();

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for LinearBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let (Some(head), true) = (measured.head_before, measured.succeeded) else {
            return AccessKind::Media;
        };
        let busy = measured.finished.saturating_since(measured.dispatched.max(head.free_at));
        let positioning = busy.saturating_sub(measured.target.transfer);
        let (forward, index) = class_of(&head, &measured.target);
        let class = if forward { &mut self.forward[index] } else { &mut self.backward[index] };
        let error_ns = positioning.as_ns() as f64 - class.mean_ns;
        class.seen = class.seen.saturating_add(1);
        // The first observation replaces the guess; later ones count less and less, down to the
        // steady weight.
        class.mean_ns += error_ns * (1.0 / f64::from(class.seen)).max(STEADY_WEIGHT);
        class.worst_ns = if class.seen == 1 {
            positioning.as_ns()
        } else {
            class.worst_ns.max(positioning.as_ns())
        };
        self.samples += 1;
        let weight = (1.0 / self.samples as f64).max(1.0 / 256.0);
        self.squared_error_us += weight * (error_ns * error_ns / 1e6 - self.squared_error_us);
        AccessKind::Media
    }

    fn report(&self) -> BeliefReport {
        let error_rms_us = (self.samples > 0).then(|| libm::sqrt(self.squared_error_us));
        BeliefReport { samples: self.samples, error_rms_us, ..BeliefReport::default() }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Sectors = Sectors::new(1 << 32);

    fn teach(belief: &mut LinearBelief, distance: u64, takes: Nanos, times: u32) {
        let target = belief.target(Op::Read, Extent::from_numbers(1 << 20, 8));
        let head = Head { next_lba: Lba::new((1 << 20) - distance), ..Head::UNKNOWN };
        for round in 1..=times {
            let dispatched = Instant::from_ns(u64::from(round) * 1_000_000_000);
            let finished = dispatched + takes + target.transfer;
            belief.learn(&MeasuredAccess {
                target,
                dispatched,
                finished,
                head_before: Some(head),
                forced: false,
                succeeded: true,
            });
        }
    }

    #[test]
    fn a_distance_that_was_seen_answers_what_was_seen_and_its_neighbors_do_not() {
        let mut belief = LinearBelief::new(CAPACITY);
        teach(&mut belief, 1_000, Nanos::from_us(70), 20);
        let target = belief.target(Op::Read, Extent::from_numbers(1 << 20, 8));
        let at = |distance: u64| Head { next_lba: Lba::new((1 << 20) - distance), ..Head::UNKNOWN };
        assert_eq!(
            belief.estimate(&at(900), Instant::ORIGIN, &target).positioning,
            Nanos::from_us(70)
        );
        assert!(
            belief.estimate(&at(100_000), Instant::ORIGIN, &target).positioning > Nanos::from_ms(4)
        );
    }

    #[test]
    fn before_anything_is_known_further_costs_more() {
        let belief = LinearBelief::new(CAPACITY);
        let cost = |lba: u64| {
            belief
                .estimate(
                    &Head::UNKNOWN,
                    Instant::ORIGIN,
                    &belief.target(Op::Read, Extent::from_numbers(lba, 8)),
                )
                .expected
        };
        assert_eq!(cost(0), Nanos::ZERO);
        assert!(cost(1_000) < cost(1 << 24) && cost(1 << 24) < cost(1 << 31));
    }

    #[test]
    fn failed_commands_and_uncertain_heads_teach_nothing() {
        let mut belief = LinearBelief::new(CAPACITY);
        let target = belief.target(Op::Read, Extent::from_numbers(4_096, 8));
        let measured = MeasuredAccess {
            target,
            dispatched: Instant::ORIGIN,
            finished: Instant::from_ns(1),
            head_before: None,
            forced: false,
            succeeded: true,
        };
        belief.learn(&measured);
        belief.learn(&MeasuredAccess {
            head_before: Some(Head::UNKNOWN),
            forced: false,
            succeeded: false,
            ..measured
        });
        assert_eq!(belief.report().samples, 0);
    }
}
