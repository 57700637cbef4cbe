//! [`Pairs`]: the slope of a row of angle samples, and how fast the platter turned, from pairs that lie
//! near each other.
//!
//! To say at which slope (turns per sector) and at which speed a row of points agrees, all of it
//! would have to be tried at as many slopes as it spans quarter turns, and at as many speeds. Two
//! points that lie near each other in address *and* in time say the same with far fewer: what they
//! differ by in turns has to be the slope times what they differ by in sectors, and a speed that is
//! wrong hardly shows. So the row's points are joined into a tree by the pairs that lie nearest
//! (Kruskal), and all pairs of the tree are asked at once: over the slopes, at some speeds. What
//! they agree on is sharpened afterwards by the whole row ([`super::scan`]).
//!
//! Worked example, 20 TB, 8,192 angle samples in 110 s, a row of 128: it spans 6·10⁸ sectors. Slopes
//! between 1/16,000 and 1/1,400 in quarter turns are 1.6 million, at 53 speeds within 500 ppm:
//! eleven thousand million operations. The nearest 64 pairs are no further apart than two thirds of
//! what points are on average: 9,000 slopes at as many speeds, 30 million operations.
//!
//! *How sure*: pairs of a tree share points, but what they differ by is independent if the points'
//! turns are, because the tree has no circle. So the bound of [`Scan::sureness`] holds for them.
//! Pairs within few tracks say nothing of the slope over many, because a track has no skew within
//! it: they are left out. Cost: choosing is some 500 pairs to sort, once; then as the scan.

use super::budget::Budget;
use super::scan::{STEPS_PER_TURN, Scan, Score};

/// A point: sectors, turns, and when, in turns of the platter.
pub(super) type Moment = (f64, f64, f64);

/// The most points of a row: choosing pairs is one piece of work.
pub(super) const MAX_POINTS: usize = 128;
/// The most pairs that are asked.
const MAX_PAIRS: usize = 96;
/// Fewer say nothing for sure.
const MIN_PAIRS: usize = 20;
/// No more speeds are tried either way: of a drive that rests for hours between reads not all that
/// are possible.
const MAX_SPEEDS: i64 = 64;
/// Pairs that are asked where many take more than so many operations: a large drive is not worth
/// waiting for the few windows that need more.
const FEWER_PAIRS: usize = 64;
const MUCH_WORK: f64 = 5e7;
/// Each point is paired with so many that follow in the order of addresses, from where they are far
/// enough apart.
const FOLLOWING: usize = 4;
/// The least that a pair lies apart, in tracks of middling length.
const MIN_TRACKS: f64 = 4.0;
/// Operations for each pair that is looked at: it is made, sorted and joined.
const OF_A_PAIR: u64 = 60;

/// What differs between two points.
#[derive(Clone, Copy, Debug)]
struct Pair {
    sectors: f64,
    turns: f64,
    time: f64,
}

/// A search for slope and speed at work.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    slopes: (f64, f64),
    /// Speeds that are left to be tried, the likeliest last: parts by which it turns faster.
    speeds: Vec<f64>,
    speed_step: f64,
    speed: f64,
    scan: Scan,
    tried: f64,
    best: Agreed,
}

/// What pairs agree on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    pub(super) slope: f64,
    /// How far off the slope may be.
    pub(super) slope_within: f64,
    /// The part by which the platter turns faster.
    pub(super) speed: f64,
    pub(super) speed_within: f64,
    /// See [`Scan::sureness`].
    pub(super) sureness: f64,
}

impl Pairs {
    /// Joins a row of points, in the order of addresses, whose slope lies between two bounds, on a
    /// platter that may turn faster or slower by `reach` parts. `None` where too few are apart.
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

    /// How many operations it takes in all, about.
    pub(super) fn work(&self) -> f64 {
        self.scan.work() * (1 + self.speeds.len()) as f64
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.pairs.capacity() * size_of::<Pair>() + self.speeds.capacity() * size_of::<f64>())
            as u64
            + self.scan.memory()
    }

    /// Goes on as far as the budget allows; what they agree on best when all was tried, and how
    /// much was.
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

/// The longest that pairs are apart, in sectors or in time.
fn longest(pairs: &[Pair], of: impl Fn(&Pair) -> f64) -> f64 {
    pairs.iter().map(|pair| of(pair).abs()).fold(1.0, f64::max)
}

/// Operations that asking them takes.
fn work(pairs: &[Pair], slopes: (f64, f64), reach: f64) -> f64 {
    let slopes = 1.0 + STEPS_PER_TURN * longest(pairs, |pair| pair.sectors) * (slopes.1 - slopes.0);
    let speeds = 1.0 + 2.0 * libm::ceil(STEPS_PER_TURN * longest(pairs, |pair| pair.time) * reach);
    pairs.len() as f64 * slopes * speeds
}

/// The pairs of a tree, those first that have the fewest slopes and speeds between them.
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

/// The tree that a point is in.
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

    /// A row of 128 of 8,192 angle samples of a 20 TB drive in 110 s, tracks of `sectors` with `skew`,
    /// turning `speed` faster than believed.
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
                .expect("there are enough");
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
    fn reads_of_one_track_say_nothing_of_the_slope_over_many() {
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
