//! [`Pairs`]: the slope of a row of angle samples and the speed of the platter, from pairs of
//! neighboring samples.
//!
//! A search over the whole row would try as many slopes (turns per sector) as the row spans quarter
//! turns, each at as many speeds. Two points that are near each other in address *and* in time need
//! far fewer: their difference in turns is the slope times their difference in sectors, and a speed
//! error has little effect. The points are therefore joined into a tree by the nearest pairs
//! (Kruskal). All pairs of the tree are scanned together over the slopes, at some speeds. The whole
//! row then refines the result ([`super::scan`]).
//!
//! Worked example, 20 TB, 8,192 angle samples in 110 s, a row of 128: it spans 6·10⁸ sectors.
//! Slopes between 1/16,000 and 1/1,400 in quarter turns are 1.6 million, at 53 speeds within 500
//! ppm: eleven thousand million operations. The nearest 64 pairs are at most two thirds of the mean
//! distance apart: 9,000 slopes at as many speeds, 30 million operations.
//!
//! *Sureness*: pairs of a tree share points, but their differences are independent if the turns of
//! the points are, because the tree has no cycle. The bound of [`Scan::sureness`] therefore
//! applies. Pairs within a few tracks carry no information on the slope over many, because a track
//! has no skew within it: they are left out. Cost: the selection sorts some 500 pairs, once; the
//! rest is the scan.

use super::budget::Budget;
use super::scan::{STEPS_PER_TURN, Scan, Score};

/// A point: sectors, turns, and the time in turns of the platter.
pub(super) type Moment = (f64, f64, f64);

/// The maximum number of points of a row: the selection of pairs is one piece of work.
pub(super) const MAX_POINTS: usize = 128;
/// The maximum number of pairs in a scan.
const MAX_PAIRS: usize = 96;
/// The minimum number of pairs for a sure result.
const MIN_PAIRS: usize = 20;
/// The maximum number of speeds to either side. A drive that rests for hours between reads would
/// need more.
const MAX_SPEEDS: i64 = 64;
/// The number of pairs in a scan where more would cost more than this many operations: few windows
/// of a large drive need more, and they are not worth the time.
const FEWER_PAIRS: usize = 64;
const MUCH_WORK: f64 = 5e7;
/// The number of following points, in the order of addresses, that each point is paired with,
/// beginning at the minimum distance.
const FOLLOWING: usize = 4;
/// The minimum distance of a pair, in tracks of medium length.
const MIN_TRACKS: f64 = 4.0;
/// Operations for each candidate pair: it is created, sorted and joined.
const OF_A_PAIR: u64 = 60;

/// The differences between two points.
#[derive(Clone, Copy, Debug)]
struct Pair {
    sectors: f64,
    turns: f64,
    time: f64,
}

/// A search for slope and speed in progress.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    slopes: (f64, f64),
    /// The remaining speeds as relative excess, the most likely last.
    speeds: Vec<f64>,
    speed_step: f64,
    speed: f64,
    scan: Scan,
    tried: f64,
    best: Agreed,
}

/// The result of a search among pairs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    pub(super) slope: f64,
    /// The uncertainty of the slope.
    pub(super) slope_within: f64,
    /// The relative excess of the platter speed.
    pub(super) speed: f64,
    pub(super) speed_within: f64,
    /// See [`Scan::sureness`].
    pub(super) sureness: f64,
}

impl Pairs {
    /// Joins a row of points, in the order of addresses. Their slope lies between two bounds, and
    /// the platter speed within `reach` of the nominal one. `None` if too few points are far enough
    /// apart.
    pub(super) fn new(
        points: &[Moment],
        slopes: (f64, f64),
        reach: f64,
        budget: &mut Budget,
    ) -> Option<Self> {
        assert!(
            points.len() <= MAX_POINTS,
            "a row of {} points, at most {MAX_POINTS}",
            points.len()
        );
        budget.spend(OF_A_PAIR * (points.len() * FOLLOWING) as u64);
        let mut pairs = nearest(points, slopes, reach);
        if pairs.len() < MIN_PAIRS {
            return None;
        }
        if work(&pairs, slopes, reach) > MUCH_WORK {
            pairs.truncate(FEWER_PAIRS);
        }
        let speed_step = if reach > 0.0 {
            1.0 / (STEPS_PER_TURN * longest(&pairs, |pair| pair.time))
        } else {
            0.0
        };
        let steps =
            if reach > 0.0 { (libm::ceil(reach / speed_step) as i64).min(MAX_SPEEDS) } else { 0 };
        let mut speeds: Vec<f64> =
            (-steps..=steps).map(|number| number as f64 * speed_step).collect();
        speeds.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
        let speed = speeds.pop().unwrap_or(0.0);
        let scan = at_speed(&pairs, slopes, speed, budget);
        Some(Self {
            pairs,
            slopes,
            speeds,
            speed_step,
            speed,
            scan,
            tried: 0.0,
            best: Agreed::default(),
        })
    }

    /// The approximate total of operations.
    pub(super) fn work(&self) -> f64 {
        self.scan.work() * (1 + self.speeds.len()) as f64
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.pairs.capacity() * size_of::<Pair>() + self.speeds.capacity() * size_of::<f64>())
            as u64
            + self.scan.memory()
    }

    /// Advances as far as the budget allows. Returns the best result and the number of candidates
    /// once all were tried.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Option<(Agreed, f64)> {
        if !self.scan.advance(budget) {
            return None;
        }
        self.tried += self.scan.steps() as f64;
        if self.scan.sureness() > self.best.sureness {
            self.best = Agreed {
                slope: self.scan.frequency(),
                slope_within: 1.0 / (STEPS_PER_TURN * longest(&self.pairs, |pair| pair.sectors)),
                speed: self.speed,
                speed_within: self.speed_step,
                sureness: self.scan.sureness(),
            };
        }
        let Some(speed) = self.speeds.pop() else { return Some((self.best, self.tried)) };
        self.speed = speed;
        self.scan = at_speed(&self.pairs, self.slopes, speed, budget);
        None
    }
}

fn at_speed(pairs: &[Pair], slopes: (f64, f64), speed: f64, budget: &mut Budget) -> Scan {
    let points: Vec<(f64, f64, f64)> =
        pairs.iter().map(|pair| (pair.sectors, pair.turns + speed * pair.time, 1.0)).collect();
    Scan::new(Score::Along, &points, slopes.0, slopes.1, budget)
}

/// The maximum distance of a pair, in sectors or in time.
fn longest(pairs: &[Pair], of: impl Fn(&Pair) -> f64) -> f64 {
    pairs.iter().map(|pair| of(pair).abs()).fold(1.0, f64::max)
}

/// The cost of scanning the pairs, in operations.
fn work(pairs: &[Pair], slopes: (f64, f64), reach: f64) -> f64 {
    let slopes = 1.0 + STEPS_PER_TURN * longest(pairs, |pair| pair.sectors) * (slopes.1 - slopes.0);
    let speeds = 1.0 + 2.0 * libm::ceil(STEPS_PER_TURN * longest(pairs, |pair| pair.time) * reach);
    pairs.len() as f64 * slopes * speeds
}

/// The pairs of a tree, those first with the fewest slopes and speeds between them.
fn nearest(points: &[Moment], slopes: (f64, f64), reach: f64) -> Vec<Pair> {
    let apart = MIN_TRACKS / libm::sqrt(slopes.0 * slopes.1);
    let mut found: Vec<(f64, usize, usize)> = Vec::with_capacity(points.len() * FOLLOWING);
    let mut first = 0;
    for (number, point) in points.iter().enumerate() {
        while first < points.len() && points[first].0 - point.0 < apart {
            first += 1;
        }
        for (other, second) in points.iter().enumerate().skip(first.max(number + 1)).take(FOLLOWING)
        {
            let (sectors, time) = (second.0 - point.0, (second.2 - point.2).abs());
            let tried = (1.0 + STEPS_PER_TURN * sectors * (slopes.1 - slopes.0))
                * (1.0 + 2.0 * STEPS_PER_TURN * time * reach);
            found.push((tried, number, other));
        }
    }
    found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut of: Vec<usize> = (0..points.len()).collect();
    let mut pairs = Vec::new();
    for (_, one, other) in found {
        let (first, second) = (root(&mut of, one), root(&mut of, other));
        if first != second {
            of[first] = second;
            let (one, other) = (points[one], points[other]);
            pairs.push(Pair {
                sectors: other.0 - one.0,
                turns: other.1 - one.1,
                time: other.2 - one.2,
            });
            if pairs.len() == MAX_PAIRS {
                break;
            }
        }
    }
    pairs
}

/// The root of the tree that contains a point.
fn root(of: &mut [usize], mut point: usize) -> usize {
    while of[point] != point {
        of[point] = of[of[point]];
        point = of[point];
    }
    point
}

#[cfg(test)]
mod tests {
    use super::super::scan::SURE;
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// A row of 128 of 8,192 angle samples of a 20 TB drive in 110 s, with tracks of `sectors` and
    /// `skew`, at a speed of `speed` over the nominal one.
    fn row(sectors: f64, skew: f64, speed: f64, rng: &mut ChaCha8Rng) -> Vec<Moment> {
        let mut points: Vec<Moment> = (0..128)
            .map(|_| {
                let (lba, time) = (
                    f64::from(rng.random_range(0..600_000_000_u32)),
                    rng.random_range(0.0..13_200.0_f64),
                );
                let turns = lba / sectors
                    + skew * (lba / sectors).floor()
                    + rng.random_range(-0.005..0.005)
                    - speed * time;
                (lba, turns - turns.floor(), time)
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    fn run(points: &[Moment], reach: f64) -> (Agreed, f64) {
        let mut pairs =
            Pairs::new(points, (1.0 / 16_000.0, 1.6 / 2_209.0), reach, &mut Budget::slice())
                .expect("there are enough points");
        loop {
            if let Some(found) = pairs.advance(&mut Budget::slice()) {
                return found;
            }
        }
    }

    #[test]
    fn slope_and_speed_of_a_large_drive_are_found_together_and_neither_in_noise() {
        for seed in 1..=2 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (sectors, skew, speed) =
                (f64::from(rng.random_range(2_400..4_900)), 0.15, rng.random_range(-4e-4..4e-4));
            let (found, tried) = run(&row(sectors, skew, speed, &mut rng), 5e-4);
            let slope = (1.0 + skew) / sectors;
            assert!(found.sureness > libm::log(tried) + SURE, "seed {seed}: {found:?} of {tried}");
            assert!(
                (found.slope - slope).abs() < found.slope_within
                    && (found.speed - speed).abs() < found.speed_within,
                "seed {seed}: {found:?}"
            );
            let noise: Vec<Moment> = row(sectors, skew, speed, &mut rng)
                .iter()
                .map(|point| (point.0, rng.random(), point.2))
                .collect();
            let (found, tried) = run(&noise, 5e-4);
            assert!(
                found.sureness < libm::log(tried) + SURE,
                "seed {seed}: found in noise: {found:?}"
            );
        }
    }

    #[test]
    fn reads_of_one_track_do_not_determine_the_slope_over_many() {
        let points: Vec<Moment> = (0..128)
            .map(|number| {
                (
                    f64::from(number) * 8.0,
                    f64::from(number) * 8.0 / 3_000.0,
                    f64::from(number) * 3.7,
                )
            })
            .collect();
        assert!(
            Pairs::new(&points, (1.0 / 16_000.0, 1.6 / 2_209.0), 5e-4, &mut Budget::slice())
                .is_none()
        );
    }
}
