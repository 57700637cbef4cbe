//! [`Curve`]: the arm time as a function of distance, as finely as the votes allow, including steps
//! and dips.
//!
//! The classes by powers of two of the distance ([`super::arm`]) are accurate for short distances
//! and early on. But more than half of all seeks between random positions fall into two of those
//! classes. The whole stroke is therefore also divided evenly, and each of these classes keeps its
//! newest votes unchanged. Each vote states that the time lies in an interval one revolution long,
//! and is wrong with a chance of one in [`WRONG`]. The most likely time and its uncertainty follow
//! from that. A class with few votes includes its neighbors, whose votes are moved by the
//! difference of the coarser estimates.
//!
//! The difference of a class from the coarser estimate is shrunk towards the mean of its
//! neighborhood, to the extent that chance explains the differences within the neighborhood. On a
//! smooth curve hundreds of votes contribute to each class; on a curve with steps each class stands
//! alone.
//!
//! Worked example, 6 ms a turn: accesses of a class complete 4.1, 6.0, 7.0, 9.98 and, retried, 16.0
//! ms after the arm began to move. The interval that ends first is −1.9 to 4.1. The one that begins
//! last, except that of the retried access, is 3.98 to 9.98. Four intervals contain 3.98 to 4.1,
//! and each time in that range is 63 times as likely as one that three contain. The mean is 3.8 ms
//! with a deviation of 1.0; with some more votes only the range of most votes counts.
//!
//! Guarantees: a few accesses that took longer for other reasons have no effect;
//! [`Curve::floor_ns`] is never above any estimate from that distance on. A real curve need not
//! rise (Atlas 10K: 5.2 ms over 1,400 cylinders, 3.9 over 1,300), and this one is not forced to.
//! Cost: a vote sorts the votes of [`TURNS`] classes, some 20 us; a lookup is an interpolation. 550
//! KiB. Source: ours; the shrinkage is that of Stein.

/// The number of classes, each an equal share of the stroke (guess: neighboring points of measured
/// curves are a hundredth of the stroke apart).
const CLASSES: usize = 512;
/// The number of votes that a class keeps (guess: the remaining range is then 1/250 of a turn, less
/// than the delay of completion reports).
const KEPT: usize = 256;
/// The number of votes that a class needs before it is evaluated alone (guess).
const ENOUGH: usize = 96;
/// The maximum distance of included neighbors, in classes (guess: a sixtieth of the stroke).
const NEIGHBORS: usize = 8;
/// The neighborhood of a class, in classes to either side (guess: a fortieth of the stroke).
const NEIGHBORHOOD: usize = 12;
/// One vote in this many is assumed to be wrong (guess, from retries and relocated sectors in
/// maps).
const WRONG: f64 = 64.0;
/// The number of classes evaluated again with each vote, in turn: all of them within as many votes
/// as have an effect.
const TURNS: usize = 4;

/// Votes by distance, and their estimates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    turn_ns: f64,
    /// The newest votes of each class, up to [`KEPT`].
    votes: Vec<f32>,
    /// The number of votes of each class.
    taken: Vec<u32>,
    /// The difference from the coarser estimate, in ns, with its variance; `None` where too few
    /// votes are near.
    off: Vec<Option<(f64, f64)>>,
    /// The estimates in ns.
    times: Vec<Option<f64>>,
    /// The minimum of the times from each class on, in ns; the coarser estimate where there is
    /// none.
    floors: Vec<f64>,
    /// The class evaluated next.
    next: usize,
}

impl Curve {
    /// Creates an empty curve for a drive with a revolution of `turn_ns`.
    pub(super) fn new(turn_ns: f64) -> Self {
        Self {
            turn_ns,
            votes: vec![0.0; CLASSES * KEPT],
            taken: vec![0; CLASSES],
            off: vec![None; CLASSES],
            times: vec![None; CLASSES],
            floors: vec![f64::INFINITY; CLASSES],
            next: 0,
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (4 * (self.votes.len() + self.taken.len()) + 40 * self.times.len() + 8 * self.floors.len())
            as u64
    }

    /// The arm time over a share of the stroke; `coarse` is the coarser estimate.
    pub(super) fn time_ns(&self, share: f64, coarse: impl Fn(f64) -> f64) -> f64 {
        let place = place_of(share);
        if place < FIRST as f64 {
            return coarse(share);
        }
        let class = (place as usize).min(CLASSES - 1);
        let next = (class + 1).min(CLASSES - 1);
        match (self.times[class], self.times[next]) {
            (Some(here), Some(there)) => here + (there - here) * (place - class as f64).min(1.0),
            _ => coarse(share),
        }
    }

    /// The minimum of the arm times from this share on; `coarse` never falls.
    pub(super) fn floor_ns(&self, share: f64, coarse: impl Fn(f64) -> f64) -> f64 {
        let class = (place_of(share).max(FIRST as f64) as usize).min(CLASSES - 1);
        coarse(share).min(self.floors[class])
    }

    /// Records that the first sector passed `passed_ns` after the arm began to move over this share
    /// of the stroke.
    pub(super) fn vote(&mut self, share: f64, passed_ns: f64, coarse: impl Fn(f64) -> f64) {
        let class = ((share * CLASSES as f64) as usize).min(CLASSES - 1);
        // Converted to the middle of the class.
        let passed_ns = passed_ns - coarse(share) + coarse(share_of(class));
        self.votes[class * KEPT + self.taken[class] as usize % KEPT] = passed_ns as f32;
        self.taken[class] = if self.taken[class] as usize >= 2 * KEPT - 1 {
            KEPT as u32
        } else {
            self.taken[class] + 1
        };
        for _ in 0..TURNS {
            self.off[self.next] = self.elected(self.next, &coarse);
            self.times[self.next] =
                self.shrunk(self.next).map(|off| (coarse(share_of(self.next)) + off).max(0.0));
            self.next = (self.next + 1) % CLASSES;
        }
        self.floors = self.lowest();
    }

    /// The difference of the class from the coarser estimate, shrunk towards its neighborhood.
    fn shrunk(&self, class: usize) -> Option<f64> {
        let (own, variance) = self.off[class]?;
        let around =
            &self.off[class.saturating_sub(NEIGHBORHOOD)..=(class + NEIGHBORHOOD).min(CLASSES - 1)];
        let (mut count, mut sum, mut squares, mut chance) = (0.0, 0.0, 0.0, 0.0);
        for (off, variance) in around.iter().flatten() {
            (count, sum, squares, chance) =
                (count + 1.0, sum + off, squares + off * off, chance + variance);
        }
        let mean = sum / count;
        // The variance in excess of chance, among classes that contribute to the mean themselves.
        let real = (squares / count - mean * mean - chance / count).max(0.0);
        Some(mean + (own - mean) * real / (real + variance))
    }

    /// The difference of the class from the coarser estimate by its own votes, including those of
    /// its neighbors where they are few; with the variance.
    fn elected(&self, class: usize, coarse: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
        let of =
            |class: usize| &self.votes[class * KEPT..][..(self.taken[class] as usize).min(KEPT)];
        let (mut low, mut high, mut count) = (class, class, of(class).len());
        while count < ENOUGH && high - low < 2 * NEIGHBORS {
            let (below, above) =
                (low.checked_sub(1), Some(high + 1).filter(|above| *above < CLASSES));
            count +=
                below.map_or(0, |below| of(below).len()) + above.map_or(0, |above| of(above).len());
            (low, high) = (below.unwrap_or(low), above.unwrap_or(high));
            if below.is_none() && above.is_none() {
                break;
            }
        }
        if count < ENOUGH {
            return None;
        }
        let here = coarse(share_of(class));
        let mut ends: Vec<f64> = Vec::with_capacity(count);
        for other in low..=high {
            let further = here - coarse(share_of(other));
            ends.extend(of(other).iter().map(|passed| f64::from(*passed) + further));
        }
        ends.sort_unstable_by(f64::total_cmp);
        let (time, variance) = likely(&ends, self.turn_ns);
        Some((time - here, variance))
    }

    /// The floors of the times.
    fn lowest(&self) -> Vec<f64> {
        let mut floors = vec![f64::INFINITY; CLASSES];
        let mut least = f64::INFINITY;
        for (floor, time) in floors.iter_mut().zip(&self.times).rev() {
            least = least.min(time.unwrap_or(f64::INFINITY));
            *floor = least;
        }
        floors
    }

    /// All numbers, for saving.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let votes = self.votes.iter().map(|vote| f64::from(*vote));
        let off = self
            .off
            .iter()
            .flat_map(|off| off.map_or([0.0, -1.0], |(off, variance)| [off, variance]));
        let times = self.times.iter().map(|time| time.unwrap_or(-1.0));
        votes
            .chain(self.taken.iter().map(|taken| f64::from(*taken)))
            .chain(off)
            .chain(times)
            .chain([self.next as f64])
            .collect()
    }

    /// Restores a saved curve from [`Curve::numbers`]; `None` if the numbers are invalid.
    pub(super) fn restored(turn_ns: f64, numbers: &[f64]) -> Option<Self> {
        let (votes, rest) = numbers.split_at_checked(CLASSES * KEPT)?;
        let (taken, rest) = rest.split_at_checked(CLASSES)?;
        let (off, rest) = rest.split_at_checked(2 * CLASSES)?;
        let (times, rest) = rest.split_at_checked(CLASSES)?;
        let &[next] = rest else { return None };
        let whole = |number: f64, below: usize| {
            (number >= 0.0 && number < below as f64).then_some(number as usize)
        };
        let votes = votes
            .iter()
            .map(|vote| (vote.abs() < 1e12).then_some(*vote as f32))
            .collect::<Option<Vec<f32>>>()?;
        let taken = taken
            .iter()
            .map(|taken| whole(*taken, 2 * KEPT).map(|taken| taken as u32))
            .collect::<Option<Vec<u32>>>()?;
        let possible =
            off.chunks(2).all(|off| off[0].abs() < 1e12 && (-1.0..1e24).contains(&off[1]));
        let off = off.chunks(2).map(|off| (off[1] >= 0.0).then_some((off[0], off[1]))).collect();
        let time = |time: &f64| {
            (-1.0..1e12).contains(time).then_some(Some(*time).filter(|time| *time >= 0.0))
        };
        let times = times.iter().map(time).collect::<Option<Vec<Option<f64>>>>()?;
        if !possible {
            return None;
        }
        let mut curve = Self {
            turn_ns,
            votes,
            taken,
            off,
            times,
            floors: Vec::new(),
            next: whole(next, CLASSES)?,
        };
        curve.floors = curve.lowest();
        Some(curve)
    }
}

/// The first class with an estimate. Below its middle the curve bends too much for even classes.
const FIRST: usize = 1;

/// The middle of a class.
fn share_of(class: usize) -> f64 {
    (class as f64 + 0.5) / CLASSES as f64
}

/// The class whose middle lies before a share, with the fraction to the next one.
fn place_of(share: f64) -> f64 {
    (share * CLASSES as f64 - 0.5).clamp(0.0, CLASSES as f64)
}

/// The mean likely time and its variance. Each interval ends at one of `ends`, in order, is
/// `turn_ns` long, and contains the time unless it is wrong.
fn likely(ends: &[f64], turn_ns: f64) -> (f64, f64) {
    // The number of intervals changes at each beginning and each end: the positions of the changes,
    // and the number of intervals after each.
    let mut changes: Vec<(f64, i32)> = Vec::with_capacity(2 * ends.len());
    let (mut begun, mut ended) = (0, 0);
    while ended < ends.len() {
        if begun < ends.len() && ends[begun] - turn_ns <= ends[ended] {
            changes.push((ends[begun] - turn_ns, (begun + 1 - ended) as i32));
            begun += 1;
        } else {
            changes.push((ends[ended], (begun - ended - 1) as i32));
            ended += 1;
        }
    }
    let most = changes.iter().map(|change| change.1).max().unwrap_or(0);
    let (mut weight, mut mean, mut square) = (0.0, 0.0, 0.0);
    for pair in changes.windows(2) {
        let (from, length) = (pair[0].0 - changes[0].0, pair[1].0 - pair[0].0);
        let part = length * libm::exp(-f64::from(most - pair[0].1) * libm::log(WRONG - 1.0));
        let middle = from + length / 2.0;
        (weight, mean, square) = (
            weight + part,
            mean + part * middle,
            square + part * (middle * middle + length * length / 12.0),
        );
    }
    if weight <= 0.0 {
        return (ends[0], turn_ns * turn_ns);
    }
    let mean = mean / weight;
    (changes[0].0 + mean, (square / weight - mean * mean).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const TURN_NS: f64 = 6e6;

    /// A curve that rises with the root of the distance, steps up and down again over a hundredth
    /// of the stroke, and falls slightly after a third of it.
    fn stepped(share: f64) -> f64 {
        let step = if (0.14..0.15).contains(&share) { 1.2e6 } else { 0.0 };
        1.2e6 + 9e6 * libm::sqrt(share) + step - if share > 0.33 { 3e5 } else { 0.0 }
    }

    fn coarse(share: f64) -> f64 {
        1e6 + 9.5e6 * libm::sqrt(share)
    }

    fn learned(votes: u32, seed: u64) -> Curve {
        let (mut curve, mut rng) = (Curve::new(TURN_NS), ChaCha8Rng::seed_from_u64(seed));
        for _ in 0..votes {
            let share = (rng.random_range(0.0..1.0_f64) - rng.random_range(0.0..1.0)).abs();
            let retried = if rng.random_bool(0.005) { TURN_NS } else { 0.0 };
            curve.vote(
                share,
                stepped(share)
                    + rng.random_range(0.0..TURN_NS)
                    + rng.random_range(-3e4..3e4)
                    + retried,
                coarse,
            );
        }
        curve
    }

    #[test]
    fn the_worked_example_is_reproduced() {
        let ends: Vec<f64> = [4.1, 6.0, 7.0, 9.98, 16.0].map(|ms| ms * 1e6).to_vec();
        let (time, variance) = likely(&ends, TURN_NS);
        let deviation = libm::sqrt(variance);
        assert!(
            (time - 3.8233e6).abs() < 1e2 && (deviation - 0.9705e6).abs() < 1e2,
            "{time} ± {deviation}"
        );
        let (time, variance) = likely(&[5e6], TURN_NS);
        assert!(
            (time - 2e6).abs() < 1.0 && (variance / (TURN_NS * TURN_NS / 12.0) - 1.0).abs() < 1e-6
        );
    }

    #[test]
    fn steps_and_dips_of_the_curve_are_found_from_accesses_at_random_angles() {
        for seed in 1..=3 {
            let curve = learned(60_000, seed);
            for share in [0.02, 0.1, 0.136, 0.145, 0.154, 0.3, 0.36, 0.5, 0.8] {
                let off = curve.time_ns(share, coarse) - stepped(share);
                assert!(
                    off.abs() < 1.5e5,
                    "seed {seed}: over {share} of the stroke off by {off:.0} ns"
                );
            }
        }
    }

    #[test]
    fn no_estimate_from_a_distance_on_is_below_its_floor() {
        let curve = learned(20_000, 4);
        for number in 0..=4_000 {
            let share = f64::from(number) / 4_000.0;
            let floor = curve.floor_ns(share, coarse);
            assert!(
                (number..=4_000)
                    .step_by(7)
                    .all(|further| curve.time_ns(f64::from(further) / 4_000.0, coarse) >= floor),
                "at {share}"
            );
        }
    }

    #[test]
    fn few_votes_yield_the_coarser_estimate() {
        let curve = learned(60, 5);
        for share in [0.001, 0.2, 0.7] {
            assert_eq!(curve.time_ns(share, coarse), coarse(share));
        }
    }

    #[test]
    fn a_restored_curve_is_identical_and_invalid_numbers_are_refused() {
        let curve = learned(9_000, 6);
        let numbers = curve.numbers();
        assert_eq!(Curve::restored(TURN_NS, &numbers), Some(curve));
        assert_eq!(Curve::restored(TURN_NS, &numbers[1..]), None);
        let mut too_many = numbers;
        too_many[CLASSES * KEPT] = 1e4;
        assert_eq!(Curve::restored(TURN_NS, &too_many), None);
    }
}
