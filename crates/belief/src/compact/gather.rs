//! [`Gather`]: the conversion of angle samples to points in the order of addresses, a few at a
//! time. The address is the abscissa and turns are the ordinate.
//!
//! Where segments are known, the rotation is followed along them from angle sample to angle sample
//! with the same filter as in service ([`Spindle`]), and all points are corrected for the drift of
//! the speed. An angle sample during which the filter is not sure is left out. Where no segment is
//! known, every angle sample is placed at the current estimate of the speed.
//!
//! Cost: some hundred operations per angle sample, once; 64 bytes each.

use std::collections::BTreeMap;

use headtime_units::{Instant, RotationPeriod};

use super::angle_samples::AngleSamples;
use super::budget::Budget;
use super::segments::Segments;
use crate::spindle::{Evidence, Spindle};

/// An angle sample as a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    /// The address after the last sector of the sample.
    pub(super) lba: u64,
    pub(super) turns: f64,
    /// The time, in turns of the platter since the first sample.
    pub(super) time: f64,
}

/// A conversion in progress.
#[derive(Clone, Debug)]
pub(super) struct Gather {
    period: RotationPeriod,
    /// Numbers of the remaining angle samples.
    next: u64,
    end: u64,
    begin: Option<Instant>,
    spindle: Option<Spindle>,
    by_address: BTreeMap<(u64, u64), (f64, f64)>,
    points: Vec<Seen>,
}

/// The maximum uncertainty of the rotation, in turns, at which an angle sample is placed.
const SHARP_TURNS: f64 = 0.02;
/// Costs in operations: to place an angle sample and sort it in, and to remove it again.
const PLACING: u64 = 160;
const TAKING_OUT: u64 = 40;
/// Approximate bytes of an angle sample in the tree.
const SORTED: u64 = 48;

impl Gather {
    /// Begins with the newest `count` angle samples, along the segments if `known` has any.
    pub(super) fn new(
        period: RotationPeriod,
        known: &Segments,
        angle_samples: &AngleSamples,
        count: usize,
    ) -> Self {
        let numbers = angle_samples.newest_numbers(count);
        let spindle = (!known.segments().is_empty()).then(|| Spindle::new(period));
        Self {
            period,
            next: numbers.start,
            end: numbers.end,
            begin: None,
            spindle,
            by_address: BTreeMap::new(),
            points: Vec::new(),
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        self.by_address.len() as u64 * SORTED + (self.points.capacity() * size_of::<Seen>()) as u64
    }

    /// Advances as far as the budget allows. Returns the points, and the period that places them,
    /// once all are converted.
    pub(super) fn advance(
        &mut self,
        known: &Segments,
        angle_samples: &AngleSamples,
        budget: &mut Budget,
    ) -> Option<(Vec<Seen>, RotationPeriod)> {
        while self.next < self.end && budget.is_left() {
            self.place(known, angle_samples);
            self.next += 1;
            budget.spend(PLACING);
        }
        if self.next < self.end {
            return None;
        }
        if self.points.capacity() == 0 {
            self.points.reserve_exact(self.by_address.len());
        }
        while budget.is_left() {
            let Some(((lba, _), (turns, time))) = self.by_address.pop_first() else {
                let period = self.spindle.as_ref().map_or(self.period, Spindle::period);
                return Some((std::mem::take(&mut self.points), period));
            };
            self.points.push(Seen { lba, turns, time });
            budget.spend(TAKING_OUT);
        }
        None
    }

    fn place(&mut self, known: &Segments, angle_samples: &AngleSamples) {
        let Some(angle_sample) = angle_samples.get(self.next) else { return };
        let begin = *self.begin.get_or_insert(angle_sample.at);
        let since = angle_sample.at.saturating_since(begin);
        let turns = match &mut self.spindle {
            None => self.period.angle_of(since),
            Some(spindle) => {
                if let Some(angle) = known.end(angle_sample.last) {
                    spindle.observe(angle_sample.at, angle, Evidence::Access);
                }
                let sharp = spindle.deviation_turns(angle_sample.at) < SHARP_TURNS;
                let Some(phase) = spindle.phase().filter(|_| sharp) else { return };
                spindle.period().angle_at(angle_sample.at, phase)
            }
        };
        let time = since.as_ns() as f64 / self.period.as_ns_f64();
        self.by_address.insert((angle_sample.last.get() + 1, self.next), (turns.as_turns(), time));
    }
}

#[cfg(test)]
mod tests {
    use super::super::angle_samples::AngleSample;
    use super::super::segments::Segment;
    use super::*;
    use headtime_units::{Angle, Lba};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn points_are_in_the_order_of_addresses_and_corrected_for_speed_drift() {
        let segment = Segment {
            first: 0,
            end: 50_000,
            origin: 0,
            phase: 0.2,
            slope: 0.0011,
            skew_terms: Vec::new(),
            spread: 0.01,
            angle_samples: 0,
        };
        let known = Segments::new(vec![segment.clone()], 100_000);
        let nominal = RotationPeriod::from_rpm(7_200.0).expect("a disk's speed");
        let (mut angle_samples, mut rng) =
            (AngleSamples::new(10_000), ChaCha8Rng::seed_from_u64(1));
        let mut at_turns = 5_000.0_f64;
        for number in 0..3_000 {
            // Up to 100 ppm faster and back again.
            at_turns +=
                rng.random_range(0.5..2.0) * (1.0 + 1e-4 * (f64::from(number) / 500.0).sin());
            let lba = rng.random_range(0..100_000_u64);
            // The next time at which this sector's end is under the head of a platter that stands
            // at the segment's angles.
            let expected = segment.turns(lba as f64) + segment.sector();
            at_turns += (expected - at_turns).rem_euclid(1.0);
            angle_samples.take(AngleSample {
                at: Instant::from_ns((at_turns * nominal.as_ns_f64()) as u64),
                last: Lba::new(lba),
            });
        }
        let mut gather = Gather::new(nominal, &known, &angle_samples, 2_500);
        let points = loop {
            let mut budget = Budget::slice();
            let found = gather.advance(&known, &angle_samples, &mut budget);
            assert!(budget.spent() <= super::super::budget::MOST);
            if let Some((points, _)) = found {
                break points;
            }
        };
        assert!(
            points.len() > 2_300 && points.is_sorted_by_key(|point| point.lba),
            "{}",
            points.len()
        );
        let off = |point: &Seen| {
            Angle::from_turns(point.turns)
                .signed_turns_from(Angle::from_turns(segment.turns(point.lba as f64)))
                .abs()
        };
        let wrong = points.iter().filter(|point| off(point) > 0.02).count();
        assert!(wrong < 50, "{wrong} of {} points are off", points.len());
    }
}
