//! [`Curve`]: the seek times measured so far, by distance, and the distance to measure next.
//!
//! *Coarse to fine.* The first distances are one cylinder and the full stroke, then the geometric
//! middle of the widest gap, until each distance is at most half as long again as the one before.
//! So a curve that is cut short by time is interpolated over the whole stroke.
//!
//! *Where the curve bends.* The *bend* of a point is the deviation of its time from the line
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
//!
//! *Bounds.* [`Curve::bounded`] gives the points of a profile. A longer seek takes longer, but for
//! bumps: each time is kept near the closest rising curve, so that one impossible time moves no
//! other. The last point is at the last cylinder. Beyond the measured distances the time is assumed
//! to grow with the root of the distance, as of an arm that accelerates.

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
    /// Distances between no two known tracks of which a seek could be timed.
    #[serde(default)]
    untimed: Vec<u64>,
}

/// The largest ratio of two of the first distances.
const GROWTH: f64 = 1.5;
/// The distances near a middle, as factors.
const AROUND: [f64; 5] = [1.0, 1.1, 0.9, 1.25, 0.8];
/// A full stroke that could not be timed is shortened by this factor.
const SHORTER: (u64, u64) = (7, 8);
/// A bend that needs no refinement, ns: such a seek error is within the noise that schedulers see
/// (guess).
const STRAIGHT_NS: f64 = 25_000.0;
/// A bend of as many standard errors is chance; the error of a bend is that of a point and half of
/// each neighbor's.
const CHANCE: f64 = 2.0 * 1.224_744_871;
/// The most points of the curve.
const MAX_POINTS: usize = 320;
/// The deviation of a point from a rising curve that is plausible: the peak of the Atlas 10K at 80
/// cylinders is 14 % above it.
const BUMP: f64 = 0.3;
/// The longest seek, ns (guess: drives since 1985 need 50 ms and less).
const LONGEST_NS: f64 = 100e6;
/// The number of points of an extension.
const ROOT_POINTS: i32 = 8;
/// The time by which a full stroke is longer than a short seek, ns (guess: 5 to 14 ms in the
/// catalog).
const STROKE_NS: f64 = 10e6;
/// From this share of the stroke on, the last line is extended to the last cylinder.
const NEAR_END: f64 = 0.9;

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

    /// Records that a distance could not be timed.
    pub(crate) fn give_up(&mut self, distance: u64) {
        self.untimed.push(distance);
    }

    /// The next of the first distances, up to the longest; none if there are no gaps left.
    pub(crate) fn next_first(&self, longest: u64) -> Option<u64> {
        if !self.is_tried(1) {
            return Some(1);
        }
        // Tracks so far apart may lie where the layout is not known.
        let mut end = longest;
        while self.untimed.contains(&end) && end > 1 {
            end = end * SHORTER.0 / SHORTER.1;
        }
        if !self.is_tried(end) {
            return Some(end);
        }
        let gaps = self.points.windows(2).filter_map(|pair| {
            let [one, two] = [pair[0].0, pair[1].0];
            let ratio = two as f64 / one as f64;
            let middle = libm::sqrt(one as f64 * two as f64);
            // If the middle could not be timed, a distance near it.
            let around = AROUND.map(|factor| libm::round(middle * factor) as u64);
            let open = |near: &u64| one < *near && *near < two && !self.is_tried(*near);
            around.into_iter().find(open).filter(|_| ratio > GROWTH).map(|near| (ratio, near))
        });
        gaps.max_by(|one, two| one.0.total_cmp(&two.0)).map(|(_, middle)| middle)
    }

    fn is_tried(&self, distance: u64) -> bool {
        self.untimed.contains(&distance) || self.points.iter().any(|point| point.0 == distance)
    }

    /// The points of a profile, in ns without `base_ns`, bounded and extended to the last distance.
    pub(crate) fn bounded(&self, base_ns: f64, last_distance: u64) -> Vec<(u64, f64)> {
        let times: Vec<f64> =
            self.points.iter().map(|point| (point.1.ns - base_ns).clamp(0.0, LONGEST_NS)).collect();
        let mut points: Vec<(u64, f64)> = self
            .points
            .iter()
            .zip(times.iter().zip(rising(&times)))
            .map(|((distance, _), (ns, rising))| {
                (*distance, ns.clamp(rising * (1.0 - BUMP), rising * (1.0 + BUMP)))
            })
            .collect();
        let Some((last, last_ns)) = points.last().copied().filter(|last| last.0 < last_distance)
        else {
            return points;
        };
        let (share, ratio) =
            (last as f64 / last_distance as f64, last_distance as f64 / last as f64);
        if share >= NEAR_END {
            let slope = points.len().checked_sub(2).map_or(0.0, |before| {
                (last_ns - points[before].1) / (last - points[before].0) as f64
            });
            // No steeper than a line from no time at all.
            let slope = slope.clamp(0.0, last_ns / last as f64);
            points.push((last_distance, last_ns + slope * (last_distance - last) as f64));
            return points;
        }
        // A root is bent most at its beginning.
        for step in 1..=ROOT_POINTS {
            let distance = libm::round(
                last as f64 * libm::pow(ratio, f64::from(step) / f64::from(ROOT_POINTS)),
            ) as u64;
            if points.last().is_some_and(|before| before.0 < distance) {
                let root = |distance: u64| libm::sqrt(distance as f64 / last_distance as f64);
                let grown = last_ns * root(distance) / root(last);
                let usual = last_ns + STROKE_NS * (root(distance) - root(last));
                points.push((distance, grown.min(usual).min(LONGEST_NS)));
            }
        }
        points
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
        let middle = |gap: &[(u64, Timed)]| gap[0].0 + (gap[1].0 - gap[0].0) / 2;
        let (gap, _) = open
            .filter(|(gap, _)| !self.is_tried(middle(gap)))
            .max_by(|one, other| weight(one.0, one.1).total_cmp(&weight(other.0, other.1)))?;
        Some(middle(gap))
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

/// The rising sequence with the smallest sum of squares of differences from the values: falling
/// neighbors are replaced by their mean (pool adjacent violators).
fn rising(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some(before) =
            pools.pop_if(|before| before.0 / before.1 as f64 > pool.0 / pool.1 as f64)
        {
            pool = (pool.0 + before.0, pool.1 + before.1);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(sum, count)| vec![sum / count as f64; count]).collect()
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
    fn a_curve_cut_short_after_any_number_of_points_is_bounded_over_the_whole_stroke() {
        for name in ["atlas10k", "nearline-20tb"] {
            let real = SeekCurve::from_profile(&catalog::load(name).expect("a profile that ships"));
            let last = u64::from(real.last_distance());
            let longest_us = real.longest().as_us_f64();
            for most in 1..40 {
                let points = sampled(&real, most, 0.0).bounded(0.0, last);
                assert_eq!(points.last().expect("a point").0, last, "{most} points");
                let ns = points.last().expect("a point").1;
                // With a single point a usual stroke is assumed.
                let allowed = if most == 1 { 1.5 } else { 1.05 };
                assert!(ns / 1e3 < allowed * longest_us, "{name}, {most} points: {ns} ns");
            }
            let curve = sampled(&real, 6, 0.0);
            let off = off_us(&curve, &real, 1, (last * 49 / 50) as u32);
            assert!(off < 500.0, "{name}: {off} us with six points");
        }
    }

    #[test]
    fn impossible_times_neither_fall_below_nothing_nor_move_the_rest() {
        let point = |distance, ns| (distance, Timed { ns, error_ns: None });
        // A falling end, as of two tracks that are not where the layout says, and one time that is
        // a revolution too long.
        let points = vec![
            point(1, 1e6),
            point(100, 3e6),
            point(200, 11e6),
            point(900, 5e6),
            point(950, 4e6),
        ];
        let curve = Curve { points, ..Curve::default() };
        let bounded = curve.bounded(2e5, 159_168);
        assert!(bounded.iter().all(|(_, ns)| (0.0..=LONGEST_NS).contains(ns)), "{bounded:?}");
        assert!(bounded[..2] == [(1, 8e5), (100, 2.8e6)], "{bounded:?}");
        let rising: Vec<f64> = bounded[4..].iter().map(|(_, ns)| *ns).collect();
        assert!(rising.is_sorted() && bounded.last().is_some_and(|last| last.0 == 159_168));
    }

    #[test]
    fn a_full_stroke_that_cannot_be_timed_is_shortened_and_a_middle_left_out() {
        let mut curve = Curve::default();
        for _ in 0..100 {
            let Some(distance) = curve.next_first(10_000) else { break };
            if distance > 6_000 || distance == 77 {
                curve.give_up(distance);
            } else {
                curve.insert(distance, Timed { ns: 1e6, error_ns: None });
            }
        }
        let longest = curve.points.last().expect("a point").0;
        assert!((5_000..=6_000).contains(&longest) && curve.points.len() > 15, "{curve:?}");
        assert_eq!(curve.next_first(10_000), None);
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
