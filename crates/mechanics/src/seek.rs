//! [`SeekCurve`]: the arm time by distance.
//!
//! A curve is a sequence of pieces, each a straight line or a square root, each rising or falling
//! throughout. An index by the leading bits of the distance finds the piece without a search in a
//! few nanoseconds. Straight lines are computed in integers (nanoseconds and 2⁻²⁰ ns per cylinder);
//! the square root is IEEE's, the same on every machine.
//!
//! Measured curves are not monotone: the Atlas 10K takes 2.313 ms for 60 cylinders and 1.927 ms for
//! 70 cylinders. [`SeekCurve::lower_bound`] is the largest monotone curve below the real one; in
//! the example, 1.927 ms at 60. A search that prunes by distance stays exact with it.
//!
//! - Modelled: any piecewise curve by distance, the same in both directions.
//! - Not modelled: direction, temperature, dependence on the start of the stroke (see
//!   [`Variation`](crate::Variation) for residuals).
//! - Differs from a drive: a real settle time is a distribution; here it is constant, and noise is
//!   added elsewhere.

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::Nanos;

use crate::profile::{DriveProfile, Seek, SeekFormula};

/// Distances below this have an index entry each; above, [`STEPS`] entries per octave.
const DIRECT: u32 = 64;
/// Index entries per octave of distance.
const STEPS: u32 = 32;
const STEP_BITS: u32 = STEPS.ilog2();
const DIRECT_BITS: u32 = DIRECT.ilog2();
const INDEX_LEN: usize = (DIRECT + (u32::BITS - DIRECT_BITS) * STEPS) as usize;

/// Read seek time by distance in cylinders.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    pieces: Vec<CurvePiece>,
    /// The piece that holds the smallest distance of each bucket.
    index: Vec<u16>,
    /// The maximum distance, at least 1.
    last_distance: u32,
    longest: Nanos,
}

/// From `from` cylinders up to the next piece: one formula, rising or falling throughout.
#[derive(Clone, Copy, Debug)]
struct CurvePiece {
    from: u32,
    shape: PieceShape,
    /// The minimum time of all distances from the next piece on and, if this piece falls, of this
    /// piece.
    floor_after: i64,
}

#[derive(Clone, Copy, Debug)]
enum PieceShape {
    /// `base + (distance − from) · slope / 2²⁰`, nanoseconds.
    Line { base: i64, slope: i64 },
    /// `base + factor · √distance`, nanoseconds.
    Root { base: f64, factor: f64 },
}

impl SeekCurve {
    /// The curve of a profile, up to its last cylinder.
    ///
    /// # Panics
    /// If the profile has neither points nor formula; [`DriveProfile::validate`] refuses such
    /// profiles.
    #[must_use]
    pub fn from_profile(profile: &DriveProfile) -> Self {
        let last_distance = profile.cylinders().saturating_sub(1).max(1);
        let pieces = pieces_of(&profile.seek);
        Self::from_pieces(pieces, last_distance)
    }

    fn from_pieces(mut pieces: Vec<CurvePiece>, last_distance: u32) -> Self {
        // A point beyond the last cylinder defines the slope before it, but no distance of its own.
        pieces.retain(|piece| piece.from <= last_distance);
        let mut floor = i64::MAX;
        let mut longest = 0;
        for number in (0..pieces.len()).rev() {
            let last = pieces.get(number + 1).map_or(last_distance, |next| next.from - 1);
            let (first_time, last_time) =
                (pieces[number].time(pieces[number].from), pieces[number].time(last));
            pieces[number].floor_after =
                if last_time <= first_time { floor.min(last_time) } else { floor };
            floor = floor.min(first_time).min(last_time);
            longest = longest.max(first_time).max(last_time);
        }
        let mut index = vec![0_u16; INDEX_LEN];
        let mut piece = 0;
        for (bucket, entry) in index.iter_mut().enumerate() {
            let smallest = smallest_in_bucket(bucket as u32);
            while pieces.get(piece + 1).is_some_and(|next| u64::from(next.from) <= smallest) {
                piece += 1;
            }
            *entry = piece as u16;
        }
        Self { pieces, index, last_distance, longest: nanos(longest) }
    }

    /// The time of a read seek over `distance` cylinders; zero for 0. Distances past the last
    /// cylinder follow the last line.
    #[must_use]
    pub fn time(&self, distance: u32) -> Nanos {
        if distance == 0 { Nanos::ZERO } else { nanos(self.piece(distance).time(distance)) }
    }

    /// A lower bound of all seeks over `distance` or more cylinders; it never decreases with
    /// distance.
    #[must_use]
    pub fn lower_bound(&self, distance: u32) -> Nanos {
        if distance == 0 {
            return Nanos::ZERO;
        }
        let distance = distance.min(self.last_distance);
        let piece = self.piece(distance);
        nanos(piece.time(distance).min(piece.floor_after))
    }

    /// The longest seek of the drive, not necessarily the one over all cylinders.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        self.longest
    }

    /// The maximum distance between two cylinders, at least 1.
    #[must_use]
    pub fn last_distance(&self) -> u32 {
        self.last_distance
    }

    /// The lowest point of the curve as (distance, nanoseconds), negative for an invalid curve.
    pub(crate) fn lowest(&self) -> (u32, i64) {
        let mut lowest = (1, i64::MAX);
        for (number, piece) in self.pieces.iter().enumerate() {
            let last = self.pieces.get(number + 1).map_or(self.last_distance, |next| next.from - 1);
            for distance in [piece.from, last] {
                if piece.time(distance) < lowest.1 {
                    lowest = (distance, piece.time(distance));
                }
            }
        }
        lowest
    }

    fn piece(&self, distance: u32) -> &CurvePiece {
        let mut number = usize::from(self.index[bucket_of(distance)]);
        while self.pieces.get(number + 1).is_some_and(|next| next.from <= distance) {
            number += 1;
        }
        &self.pieces[number]
    }
}

impl CurvePiece {
    fn time(&self, distance: u32) -> i64 {
        match self.shape {
            PieceShape::Line { base, slope } => {
                // Wide and clamped, so that impossible curves can be computed and refused.
                let rise = (i128::from(i64::from(distance) - i64::from(self.from))
                    * i128::from(slope)
                    + (1 << 19))
                    >> 20;
                base.saturating_add(rise.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
            }
            PieceShape::Root { base, factor } => {
                (base + factor * libm::sqrt(f64::from(distance)) + 0.5) as i64
            }
        }
    }
}

fn pieces_of(seek: &Seek) -> Vec<CurvePiece> {
    match seek.formula {
        Some(formula) => pieces_of_formula(&formula),
        None => pieces_of_points(&seek.points),
    }
}

fn pieces_of_points(points: &[(u32, f64)]) -> Vec<CurvePiece> {
    assert!(!points.is_empty(), "a seek curve needs points or a formula");
    let ns = |ms: f64| libm::round(ms * 1e6) as i64;
    let line = |from: u32, base: i64, slope: i64| CurvePiece {
        from,
        shape: PieceShape::Line { base, slope },
        floor_after: 0,
    };
    let slope = |a: (u32, f64), b: (u32, f64)| {
        libm::round((ns(b.1) - ns(a.1)) as f64 * f64::from(1 << 20) / f64::from(b.0 - a.0)) as i64
    };
    let Some(last_pair) = points.len().checked_sub(2) else {
        return vec![line(points[0].0, ns(points[0].1), 0)];
    };
    // The last line is extended, so the last point starts no piece.
    points
        .windows(2)
        .take(last_pair + 1)
        .map(|pair| line(pair[0].0, ns(pair[0].1), slope(pair[0], pair[1])))
        .collect()
}

fn pieces_of_formula(formula: &SeekFormula) -> Vec<CurvePiece> {
    let long_from = formula.long_from.max(1);
    let slope = libm::round(formula.long_us_per_cylinder * 1e3 * f64::from(1 << 20)) as i64;
    let base = libm::round(
        formula.long_ms * 1e6 + formula.long_us_per_cylinder * 1e3 * f64::from(long_from),
    ) as i64;
    let long =
        CurvePiece { from: long_from, shape: PieceShape::Line { base, slope }, floor_after: 0 };
    let root =
        PieceShape::Root { base: formula.short_ms * 1e6, factor: formula.short_sqrt_ms * 1e6 };
    if long_from > 1 {
        vec![CurvePiece { from: 1, shape: root, floor_after: 0 }, long]
    } else {
        vec![long]
    }
}

fn nanos(ns: i64) -> Nanos {
    Nanos::from_ns(u64::try_from(ns).unwrap_or(0))
}

fn bucket_of(distance: u32) -> usize {
    if distance < DIRECT {
        return distance as usize;
    }
    let octave = distance.ilog2();
    let step = (distance >> (octave - STEP_BITS)) & (STEPS - 1);
    (DIRECT + (octave - DIRECT_BITS) * STEPS + step) as usize
}

fn smallest_in_bucket(bucket: u32) -> u64 {
    if bucket < DIRECT {
        return u64::from(bucket);
    }
    let (octave, step) = ((bucket - DIRECT) / STEPS + DIRECT_BITS, (bucket - DIRECT) % STEPS);
    u64::from(STEPS + step) << (octave - STEP_BITS)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::{catalog, draw};

    fn curve(points: &[(u32, f64)], last_distance: u32) -> SeekCurve {
        SeekCurve::from_pieces(pieces_of_points(points), last_distance)
    }

    #[test]
    fn a_table_is_straight_between_its_points_and_beyond_the_last() {
        let curve = curve(&[(1, 1.0), (11, 2.0), (21, 2.5)], 100);
        for (distance, us) in [
            (0, 0),
            (1, 1_000),
            (6, 1_500),
            (11, 2_000),
            (16, 2_250),
            (21, 2_500),
            (41, 3_500),
            (100, 6_450),
        ] {
            assert_eq!(curve.time(distance), Nanos::from_us(us), "{distance} cylinders");
        }
        assert_eq!(curve.longest(), Nanos::from_us(6_450));
    }

    #[test]
    fn a_formula_is_a_root_and_then_a_line() {
        let formula = SeekFormula {
            short_ms: 0.5,
            short_sqrt_ms: 0.1,
            long_from: 400,
            long_ms: 2.0,
            long_us_per_cylinder: 1.25,
        };
        let curve = SeekCurve::from_pieces(pieces_of_formula(&formula), 1_000);
        for (distance, us) in [(1, 600), (100, 1_500), (400, 2_500), (401, 2_501), (1_000, 3_250)] {
            assert_eq!(curve.time(distance).as_ns() / 1_000, us, "{distance} cylinders");
        }
    }

    #[test]
    fn the_lower_bound_of_the_headers_example_is_the_next_valley() {
        let curve = SeekCurve::from_profile(
            &catalog::load("atlas10k").expect("a shipped profile is valid"),
        );
        assert_eq!(
            (curve.time(60), curve.time(70)),
            (Nanos::from_us(2_313), Nanos::from_us(1_927))
        );
        assert_eq!(curve.lower_bound(60), Nanos::from_us(1_927));
        assert_eq!(
            curve.lower_bound(1),
            Nanos::from_us(1_157),
            "two cylinders are nearer in time than one"
        );
    }

    /// The lower bound is exactly the minimum time from each distance on.
    fn assert_lower_bound_is_tight(curve: &SeekCurve, what: &dyn core::fmt::Display) {
        let mut least = Nanos::MAX;
        let mut longest = Nanos::ZERO;
        for distance in (1..=curve.last_distance()).rev() {
            least = least.min(curve.time(distance));
            longest = longest.max(curve.time(distance));
            assert_eq!(curve.lower_bound(distance), least, "{distance} cylinders of {what}");
        }
        assert_eq!(curve.longest(), longest, "{what}");
        assert_eq!((curve.time(0), curve.lower_bound(0)), (Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn the_lower_bound_is_the_least_time_from_there_on_at_every_distance() {
        for entry in catalog::CATALOG {
            assert_lower_bound_is_tight(
                &SeekCurve::from_profile(&entry.load().expect("a shipped profile is valid")),
                &entry.name,
            );
        }
        for seed in 0..500 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            assert_lower_bound_is_tight(
                &SeekCurve::from_profile(&draw::random_profile(&mut rng)),
                &alloc::format!("drawn drive {seed}"),
            );
            // Long tables that rise and fall at any width, up to the last buckets of the index.
            let mut points = vec![(1, rng.random_range(0.1..5.0))];
            for _ in 0..rng.random_range(1..40) {
                let step = 1 << rng.random_range(0..12);
                points.push((
                    points[points.len() - 1].0 + rng.random_range(1..=step),
                    rng.random_range(0.1..9.0),
                ));
            }
            points.push((points[points.len() - 1].0 + 1, 9.0));
            let last = rng.random_range(1..points[points.len() - 1].0 + 10);
            assert_lower_bound_is_tight(&curve(&points, last), &alloc::format!("table {seed}"));
        }
    }

    #[test]
    fn every_distance_has_a_bucket_and_buckets_begin_where_they_say() {
        for bucket in 1..INDEX_LEN as u32 {
            let smallest = smallest_in_bucket(bucket) as u32;
            assert_eq!(
                (bucket_of(smallest), bucket_of(smallest - 1)),
                (bucket as usize, bucket as usize - 1)
            );
        }
        assert_eq!(bucket_of(u32::MAX), INDEX_LEN - 1);
    }
}
