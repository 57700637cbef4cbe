//! [`ByDistance`]: the cost of a pair that the map does not know: a line over the square root of
//! the distance in addresses, fitted to observations.
//!
//! The line always rises, so unknown pairs are always ordered by distance. The fit sets its level,
//! so that unknown pairs compare with known ones. The method is least squares with exponentially
//! fading memory.
//!
//! Worked example: seeks and turns observed average 5 ms next to the head and 13 ms across the
//! whole drive. A quarter of the drive away the root is 0.5: 9 ms.
//!
//! Guarantees: never negative; a greater distance never costs less. Cost: O(1). Source: P1 sections
//! 3.1 (an empty map is ordered by address) and 2 (how little distance says).

use headtime_units::{Nanos, Sectors};

/// A rising line over the root of the distance.
#[derive(Clone, Debug)]
pub(super) struct ByDistance {
    capacity: f64,
    sums: Sums,
    base_ns: f64,
    slope_ns: f64,
}

/// Weighted sums of what was observed: x is the root of the share of the drive, y the time in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl ByDistance {
    /// The initial guess for a drive of this size.
    pub(super) fn new(capacity: Sectors) -> Self {
        let mut line = Self {
            capacity: capacity.get().max(1) as f64,
            sums: Sums::default(),
            base_ns: 0.0,
            slope_ns: 0.0,
        };
        for (x, y_ns) in FIRST_GUESS {
            line.sums.add(x, y_ns, GUESS_WEIGHT);
        }
        line.fit();
        line
    }

    /// The time that a pair at this distance takes on average.
    pub(super) fn time(&self, distance: Sectors) -> Nanos {
        Nanos::from_ns((self.base_ns + self.slope_ns * self.root(distance)) as u64)
    }

    /// Observes that a pair at this distance took `time`.
    pub(super) fn observe(&mut self, distance: Sectors, time: Nanos) {
        self.sums.fade(1.0 - 1.0 / MEMORY);
        self.sums.add(self.root(distance), time.as_ns() as f64, 1.0);
        self.fit();
    }

    fn root(&self, distance: Sectors) -> f64 {
        libm::sqrt((distance.get() as f64 / self.capacity).min(1.0))
    }

    fn fit(&mut self) {
        let Sums { weight, x, y, xx, xy } = self.sums;
        let spread = weight * xx - x * x;
        let slope = if spread > 0.0 { (weight * xy - x * y) / spread } else { 0.0 };
        self.slope_ns = slope.max(MIN_SLOPE_NS);
        self.base_ns = ((y - self.slope_ns * x) / weight).max(0.0);
    }
}

impl Sums {
    fn add(&mut self, x: f64, y: f64, weight: f64) {
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
    }

    fn fade(&mut self, by: f64) {
        for sum in [&mut self.weight, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy] {
            *sum *= by;
        }
    }
}

/// Next to the head and across the drive: half a revolution at 7,200 rpm and a short, or the
/// longest, seek (guess).
const FIRST_GUESS: [(f64, f64); 2] = [(0.0, 4_500_000.0), (1.0, 20_000_000.0)];
/// Weight of each guess, in observations (guess).
const GUESS_WEIGHT: f64 = 4.0;
/// Length of the memory, in observations (guess: half a minute of a busy drive).
const MEMORY: f64 = 4_096.0;
/// Minimum rise of the line over the whole drive (guess: less than any seek, more than rounding).
const MIN_SLOPE_NS: f64 = 1_000_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPACITY: Sectors = Sectors::new(1_000_000);

    #[test]
    fn a_line_is_found_where_there_is_one() {
        let mut line = ByDistance::new(CAPACITY);
        for round in 0..20_000_u64 {
            let distance = Sectors::new(round * 7_919 % 1_000_000);
            let root = (distance.get() as f64 / 1e6).sqrt();
            line.observe(distance, Nanos::from_ns((5e6 + 8e6 * root) as u64));
        }
        for (distance, expected_us) in [(0, 5_000), (250_000, 9_000), (1_000_000, 13_000)] {
            let us = line.time(Sectors::new(distance)).as_ns() / 1_000;
            assert!(us.abs_diff(expected_us) < 20, "{distance} sectors: {us} us");
        }
    }

    proptest! {
        #[test]
        fn further_never_costs_less_whatever_was_seen(
            seen in proptest::collection::vec((0_u64..1_000_000, 0_u64..50_000_000), 0..100),
            near in 0_u64..1_000_000,
            further in 1_u64..1_000_000,
        ) {
            let mut line = ByDistance::new(CAPACITY);
            for (distance, ns) in seen {
                line.observe(Sectors::new(distance), Nanos::from_ns(ns));
            }
            let far = (near + further).min(1_000_000);
            prop_assert!(line.time(Sectors::new(near)) <= line.time(Sectors::new(far)));
            // A hundredth of the drive further is told apart.
            prop_assert!(
                far - near < 10_000 || line.time(Sectors::new(near)) < line.time(Sectors::new(far))
            );
        }
    }
}
