//! [`Gather`]: sights as points in the plane, address across and turns up, in the order of
//! addresses; taken a few at a time.
//!
//! Where strips are known the platter is followed by them from sight to sight with the filter that
//! follows it while serving ([`Spindle`]), and what its speed wanders is taken out of all points; a
//! sight that comes while the filter is not sure is left out. Where none are known every sight is
//! placed as if the platter turned at the speed that is believed.
//!
//! Cost: some hundred operations a sight, once; 64 bytes each.

use std::collections::BTreeMap;

use headtime_units::{Instant, RotationPeriod};

use super::budget::Budget;
use super::sights::AngleSamples;
use super::strips::Strips;
use crate::spindle::Spindle;

/// A sight as a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    /// Where the sector behind the last one begins.
    pub(super) lba: u64,
    pub(super) turns: f64,
    /// When, in turns of the platter since the first.
    pub(super) time: f64,
}

/// Points that are gathered.
#[derive(Clone, Debug)]
pub(super) struct Gather {
    period: RotationPeriod,
    /// Numbers of the sights that are still to be taken.
    next: u64,
    end: u64,
    begin: Option<Instant>,
    spindle: Option<Spindle>,
    by_address: BTreeMap<(u64, u64), (f64, f64)>,
    points: Vec<Seen>,
}

/// Where the platter is not known to within this, in turns, no sight is placed by it.
const SHARP_TURNS: f64 = 0.02;
/// What it takes to place a sight and sort it in, and to take it out again, in operations.
const PLACING: u64 = 160;
const TAKING_OUT: u64 = 40;
/// Bytes of a sight in the tree, about.
const SORTED: u64 = 48;

impl Gather {
    /// Begins with the newest `count` sights, followed by strips if `known` has any.
    pub(super) fn new(
        period: RotationPeriod,
        known: &Strips,
        sights: &AngleSamples,
        count: usize,
    ) -> Self {
        let numbers = sights.newest_numbers(count);
        let spindle = (!known.strips().is_empty()).then(|| Spindle::new(period));
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

    /// Goes on as far as the budget allows; points and the period that they are placed by, when
    /// there are no more.
    pub(super) fn go_on(
        &mut self,
        known: &Strips,
        sights: &AngleSamples,
        budget: &mut Budget,
    ) -> Option<(Vec<Seen>, RotationPeriod)> {
        while self.next < self.end && budget.is_left() {
            self.place(known, sights);
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

    fn place(&mut self, known: &Strips, sights: &AngleSamples) {
        let Some(sight) = sights.get(self.next) else { return };
        let begin = *self.begin.get_or_insert(sight.at);
        let since = sight.at.saturating_since(begin);
        let turns = match &mut self.spindle {
            None => self.period.angle_of(since),
            Some(spindle) => {
                if let Some(angle) = known.end(sight.last) {
                    spindle.observe(sight.at, angle);
                }
                let sharp = spindle.deviation_turns(sight.at) < SHARP_TURNS;
                let Some(phase) = spindle.phase().filter(|_| sharp) else { return };
                spindle.period().angle_at(sight.at, phase)
            }
        };
        let time = since.as_ns() as f64 / self.period.as_ns_f64();
        self.by_address.insert((sight.last.get() + 1, self.next), (turns.as_turns(), time));
    }
}

#[cfg(test)]
mod tests {
    use super::super::sights::AngleSample;
    use super::super::strips::Strip;
    use super::*;
    use headtime_units::{Angle, Lba};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn points_come_in_the_order_of_addresses_and_what_the_speed_wanders_is_taken_out_of_all() {
        let strip = Strip {
            first: 0,
            end: 50_000,
            origin: 0,
            phase: 0.2,
            slope: 0.0011,
            teeth: Vec::new(),
            spread: 0.01,
            sights: 0,
        };
        let known = Strips::new(vec![strip.clone()], 100_000);
        let nominal = RotationPeriod::from_rpm(7_200.0).expect("a disk's speed");
        let (mut sights, mut rng) = (AngleSamples::new(10_000), ChaCha8Rng::seed_from_u64(1));
        let mut at_turns = 5_000.0_f64;
        for number in 0..3_000 {
            // Up to 100 ppm faster and back again.
            at_turns +=
                rng.random_range(0.5..2.0) * (1.0 + 1e-4 * (f64::from(number) / 500.0).sin());
            let lba = rng.random_range(0..100_000_u64);
            // The next time at which this sector's end is under the head of a platter that stands
            // at the strip's angles.
            let wanted = strip.turns(lba as f64) + strip.sector();
            at_turns += (wanted - at_turns).rem_euclid(1.0);
            sights.take(AngleSample {
                at: Instant::from_ns((at_turns * nominal.as_ns_f64()) as u64),
                last: Lba::new(lba),
            });
        }
        let mut gather = Gather::new(nominal, &known, &sights, 2_500);
        let points = loop {
            let mut budget = Budget::slice();
            let found = gather.go_on(&known, &sights, &mut budget);
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
                .signed_turns_from(Angle::from_turns(strip.turns(point.lba as f64)))
                .abs()
        };
        let wrong = points.iter().filter(|point| off(point) > 0.02).count();
        assert!(wrong < 50, "{wrong} of {} points are off", points.len());
    }
}
