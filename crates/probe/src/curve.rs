//! [`Curve`]: the seek times measured so far, by distance, and the distance to measure next.
//!
//! *Where the curve bends.* The first distances are 1, 2, 3, 4, 6, 8, 11 … cylinders, each two
//! fifths more than the last. The *bend* of a point is the deviation of its time from the line
//! between its neighbors. On a smooth curve that bounds the error of the lines; on a jagged one, as
//! extracted from real arms, it estimates it. So a gap that ends at a bent point is halved, again
//! and again, until the points are as straight as they can be timed.
//!
//! *Which gap first.* Deep queues are served by short seeks: with `q` random requests waiting the
//! arm moves about `1/q` of the stroke, so each doubling of the distance matters to as many queues.
//! The weight of a gap from `a` to `b` cylinders is its bend times `ln(b/a)`, and the heaviest gap
//! is halved first. When the time ends, the remaining gaps matter least.
//!
//! Worked example, an Atlas 10K as extracted: 56 cylinders take 2.13 ms, 78 take 2.32, 109 take
//! 2.04. The point at 78 lies 0.23 ms above the line, so 66 and 92 are next: 2.08 and 1.98 ms. The
//! curve has a peak of 2.42 ms at 80 between valleys of 1.93 ms at 70 and 1.97 at 90, which some
//! more halvings find.

use serde::{Deserialize, Serialize};

use crate::numbers::median;

/// The mean of the minimum times of some pairs of tracks, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timed {
    pub(crate) ns: f64,
    /// Its standard error; none of a single pair.
    pub(crate) error_ns: Option<f64>,
}

/// Seek times by distance in cylinders, rising in distance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    pub(crate) points: Vec<(u64, Timed)>,
}

/// The first distances; each later one is longer by this ratio.
const FIRST: [u64; 6] = [1, 2, 3, 4, 6, 8];
const GROWTH: (u64, u64) = (7, 5);
/// A bend that needs no refinement, ns: such a seek error is within the noise that schedulers see
/// (guess).
const STRAIGHT_NS: f64 = 25_000.0;
/// A bend of as many standard errors is chance; the error of a bend is that of a point and half of
/// each neighbor's.
const CHANCE: f64 = 2.0 * 1.224_744_871;
/// The most points of the curve.
const MAX_POINTS: usize = 320;

impl Curve {
    /// The time at a distance, interpolated; none beyond the points.
    pub(crate) fn predicted(&self, distance: u64) -> Option<f64> {
        let next = self.points.iter().position(|point| point.0 >= distance)?;
        let after = self.points[next];
        if after.0 == distance {
            return Some(after.1.ns);
        }
        let before = *self.points.get(next.checked_sub(1)?)?;
        Some(on_line(before, after, distance))
    }

    pub(crate) fn insert(&mut self, distance: u64, found: Timed) {
        let place = self.points.partition_point(|point| point.0 < distance);
        self.points.insert(place, (distance, found));
    }

    /// The shortest of the first distances that was not timed; none if all up to the longest are.
    pub(crate) fn next_first(&self, longest: u64) -> Option<u64> {
        let mut first = FIRST.to_vec();
        while first.last().is_some_and(|last| last * GROWTH.0 / GROWTH.1 < longest) {
            first.push(first[first.len() - 1] * GROWTH.0 / GROWTH.1);
        }
        first.push(longest);
        first.into_iter().find(|distance| {
            *distance <= longest && self.points.iter().all(|point| point.0 != *distance)
        })
    }

    /// The middle of the gap with the highest weight; none if all are straight.
    pub(crate) fn next_between(&self) -> Option<u64> {
        if self.points.len() >= MAX_POINTS {
            return None;
        }
        let errors: Vec<f64> = self.points.iter().filter_map(|point| point.1.error_ns).collect();
        let straight = STRAIGHT_NS.max(CHANCE * median(&errors));
        let bends = self.bends();
        let gaps =
            self.points.windows(2).zip(bends.windows(2)).filter(|(gap, _)| gap[1].0 - gap[0].0 > 1);
        let open = gaps
            .map(|(gap, bends)| (gap, bends[0].max(bends[1])))
            .filter(|(_, bend)| *bend > straight);
        let weight =
            |gap: &[(u64, Timed)], bend: f64| bend * libm::log(gap[1].0 as f64 / gap[0].0 as f64);
        let (gap, _) =
            open.max_by(|one, other| weight(one.0, one.1).total_cmp(&weight(other.0, other.1)))?;
        Some(gap[0].0 + (gap[1].0 - gap[0].0) / 2)
    }

    /// The deviation of each point from the line between its neighbors; 0 for the first and the
    /// last.
    fn bends(&self) -> Vec<f64> {
        let mut bends = vec![0.0; self.points.len()];
        for (number, around) in self.points.windows(3).enumerate() {
            let [before, point, after] = around else { continue };
            bends[number + 1] = (point.1.ns - on_line(*before, *after, point.0)).abs();
        }
        bends
    }
}

/// The time at a distance on the line through two points.
fn on_line(one: (u64, Timed), other: (u64, Timed), distance: u64) -> f64 {
    let share = (distance - one.0) as f64 / (other.0 - one.0) as f64;
    one.1.ns + share * (other.1.ns - one.1.ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use headtime_mechanics::{SeekCurve, catalog};

    /// The curve as it is sampled if each distance takes the time of a real curve, with uniform
    /// noise of `noise_ns` at most.
    fn sampled(real: &SeekCurve, most: usize, noise_ns: f64) -> Curve {
        let (mut curve, mut draw) = (Curve::default(), Random::new(1, 0));
        let longest = u64::from(real.last_distance()) * 49 / 50;
        while let Some(distance) = curve
            .next_first(longest)
            .or_else(|| curve.next_between())
            .filter(|_| curve.points.len() < most)
        {
            let ns =
                real.time(distance as u32).as_ns() as f64 + noise_ns * (2.0 * draw.part() - 1.0);
            curve.insert(distance, Timed { ns, error_ns: Some(noise_ns / libm::sqrt(3.0)) });
        }
        curve
    }

    /// The mean error between two distances, with the same weight for each doubling of the
    /// distance, us.
    fn off_us(curve: &Curve, real: &SeekCurve, from: u32, to: u32) -> f64 {
        let (mut off, mut weights) = (0.0, 0.0);
        for distance in from..to {
            let weight = 1.0 / f64::from(distance);
            let predicted =
                curve.predicted(u64::from(distance)).expect("between the first and the last");
            off += weight * (predicted - real.time(distance).as_ns() as f64).abs() / 1e3;
            weights += weight;
        }
        off / weights
    }

    #[test]
    fn a_jagged_curve_is_followed_where_it_bends_and_a_smooth_one_takes_few_points() {
        let jagged =
            SeekCurve::from_profile(&catalog::load("atlas10k").expect("a profile that ships"));
        let curve = sampled(&jagged, usize::MAX, 0.0);
        let short = off_us(&curve, &jagged, 1, 500);
        assert!(short < 10.0, "{short} us with {} points", curve.points.len());
        let smooth =
            SeekCurve::from_profile(&catalog::load("nearline-20tb").expect("a profile that ships"));
        let curve = sampled(&smooth, usize::MAX, 0.0);
        let off = off_us(&curve, &smooth, 1, smooth.last_distance() * 49 / 50);
        assert!(
            off < 10.0 && curve.points.len() < 80,
            "{off} us with {} points",
            curve.points.len()
        );
    }

    #[test]
    fn when_the_time_ends_what_is_left_matters_least() {
        let jagged =
            SeekCurve::from_profile(&catalog::load("atlas10k").expect("a profile that ships"));
        let off: Vec<f64> = [40, 80, 160]
            .map(|most| off_us(&sampled(&jagged, most, 0.0), &jagged, 1, 9_800))
            .into();
        assert!(off.windows(2).all(|pair| pair[1] < 0.75 * pair[0]), "{off:?} us");
    }

    #[test]
    fn what_noise_bends_is_not_looked_into() {
        let smooth =
            SeekCurve::from_profile(&catalog::load("nearline-20tb").expect("a profile that ships"));
        let quiet = sampled(&smooth, usize::MAX, 0.0).points.len();
        let noisy = sampled(&smooth, usize::MAX, 40_000.0).points.len();
        assert!(noisy < 2 * quiet, "{quiet} and {noisy} points");
    }
}
