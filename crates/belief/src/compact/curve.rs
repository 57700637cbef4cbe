//! [`Curve`]: how long the arm takes by how far it goes, as finely as the votes on it allow, steps
//! and dips included.
//!
//! What is told apart by powers of two of the distance ([`super::arm`]) is right for short ways and
//! early on; over half of all ways between random places end in two of those classes. So the whole
//! stroke is cut evenly besides, and each class keeps its newest votes as they came: each says that
//! the time lies in an interval one revolution long, or that it went wrong, by a chance of one in
//! [`WRONG`]. From that follow the most likely time and how sure it is. A class with few votes asks
//! its neighbors, whose votes are moved by what the coarser classes say that the arm takes longer
//! or shorter.
//!
//! How far a class differs from the coarser ones is drawn towards what its neighborhood does on
//! average, as far as classes of the neighborhood differ from each other no more than chance
//! explains: on a smooth curve hundreds of votes speak of each class, on a curve with steps each
//! class speaks for itself.
//!
//! Worked example, 6 ms a turn: accesses of a class came 4.1, 6.0, 7.0, 9.98 and, retried, 16.0 ms
//! after the arm set out. The interval that ends first is −1.9 to 4.1, the one that begins last,
//! but for that of the retried one, 3.98 to 9.98: four hold 3.98 to 4.1, and each moment of that is
//! 63 times as likely as one that three hold. On average 3.8 ms, give or take 1.0; with some more
//! votes only what most hold counts.
//!
//! Guarantees: a few accesses that took longer for reasons of their own move nothing;
//! [`Curve::floor_ns`] is never above any answer from that distance on. A real curve need not rise
//! (Atlas 10K: 5.2 ms over 1,400 cylinders, 3.9 over 1,300), and nothing makes this one. Cost: a
//! vote sorts the votes of [`TURNS`] classes, some 20 us; a look-up is an interpolation. 550 KiB.
//! Source: ours; the drawing together is Stein's.

/// Classes, each an equal part of the stroke (guess: of measured curves neighboring points are a
/// hundredth of the stroke apart).
const CLASSES: usize = 512;
/// Votes that a class keeps (guess: the gap that they leave is then a part in 250 of a turn, less
/// than what reports come late).
const KEPT: usize = 256;
/// So many votes are gathered from neighboring classes before a class is asked alone (guess).
const ENOUGH: usize = 96;
/// No class further off is asked (guess: a sixtieth of the stroke).
const NEIGHBOURS: usize = 8;
/// The classes to either side that are a class's neighborhood (guess: a fortieth of the stroke).
const NEIGHBOURHOOD: usize = 12;
/// One vote in so many is taken to be wrong (guess: as `maps` know retries, and what lies
/// elsewhere).
const WRONG: f64 = 64.0;
/// Classes that are counted again with each vote, in turn: all within as many votes as make a
/// difference.
const TURNS: usize = 4;

/// Votes by distance, and what they say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    turn_ns: f64,
    /// Of each class [`KEPT`] votes, as far as there are so many.
    votes: Vec<f32>,
    /// Votes that each class took.
    taken: Vec<u32>,
    /// By how much the time differs from what coarser classes say, in ns, with its variance;
    /// nothing where too few votes are near.
    off: Vec<Option<(f64, f64)>>,
    /// What comes of all that, in ns.
    times: Vec<Option<f64>>,
    /// The least of the times from each class on, in ns, those of the coarser classes where there
    /// is none.
    floors: Vec<f64>,
    /// The class that is counted next.
    next: usize,
}

impl Curve {
    /// No votes yet on a drive that turns once in `turn_ns`.
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

    /// The time over a share of the stroke, where `coarse` says what the coarser classes do.
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

    /// No time over this share or a greater one is less; `coarse` never falls.
    pub(super) fn floor_ns(&self, share: f64, coarse: impl Fn(f64) -> f64) -> f64 {
        let class = (place_of(share).max(FIRST as f64) as usize).min(CLASSES - 1);
        coarse(share).min(self.floors[class])
    }

    /// Takes in that the first sector passed `passed_ns` after the arm set out over this share of
    /// the stroke.
    pub(super) fn vote(&mut self, share: f64, passed_ns: f64, coarse: impl Fn(f64) -> f64) {
        let class = ((share * CLASSES as f64) as usize).min(CLASSES - 1);
        // As it would have been in the middle of the class.
        let passed_ns = passed_ns - coarse(share) + coarse(share_of(class));
        self.votes[class * KEPT + self.taken[class] as usize % KEPT] = passed_ns as f32;
        self.taken[class] = if self.taken[class] as usize >= 2 * KEPT - 1 {
            KEPT as u32
        } else {
            self.taken[class] + 1
        };
        for _ in 0..TURNS {
            self.off[self.next] = self.elected(self.next, &coarse);
            self.times[self.next] = self
                .drawn_together(self.next)
                .map(|off| (coarse(share_of(self.next)) + off).max(0.0));
            self.next = (self.next + 1) % CLASSES;
        }
        self.floors = self.lowest();
    }

    /// By how much the class differs from the coarser ones, as far as its neighborhood leaves it.
    fn drawn_together(&self, class: usize) -> Option<f64> {
        let (own, variance) = self.off[class]?;
        let around = &self.off
            [class.saturating_sub(NEIGHBOURHOOD)..=(class + NEIGHBOURHOOD).min(CLASSES - 1)];
        let (mut count, mut sum, mut squares, mut chance) = (0.0, 0.0, 0.0, 0.0);
        for (off, variance) in around.iter().flatten() {
            (count, sum, squares, chance) =
                (count + 1.0, sum + off, squares + off * off, chance + variance);
        }
        let mean = sum / count;
        // What is more than chance, of classes each of which is a part of the mean itself.
        let real = (squares / count - mean * mean - chance / count).max(0.0);
        Some(mean + (own - mean) * real / (real + variance))
    }

    /// By how much the class differs from the coarser ones by its own votes, and those of its
    /// neighbors where they are few; with the variance.
    fn elected(&self, class: usize, coarse: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
        let of =
            |class: usize| &self.votes[class * KEPT..][..(self.taken[class] as usize).min(KEPT)];
        let (mut low, mut high, mut count) = (class, class, of(class).len());
        while count < ENOUGH && high - low < 2 * NEIGHBOURS {
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

    /// The floors that the times make.
    fn lowest(&self) -> Vec<f64> {
        let mut floors = vec![f64::INFINITY; CLASSES];
        let mut least = f64::INFINITY;
        for (floor, time) in floors.iter_mut().zip(&self.times).rev() {
            least = least.min(time.unwrap_or(f64::INFINITY));
            *floor = least;
        }
        floors
    }

    /// Everything, for saving.
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

    /// The curve of a saved map: what [`Curve::numbers`] were; `None` where they cannot be.
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

/// Below the middle of this class the curve bends too much for even classes.
const FIRST: usize = 1;

/// The middle of a class.
fn share_of(class: usize) -> f64 {
    (class as f64 + 0.5) / CLASSES as f64
}

/// The class whose middle lies before a share, with what is left to the next.
fn place_of(share: f64) -> f64 {
    (share * CLASSES as f64 - 0.5).clamp(0.0, CLASSES as f64)
}

/// The time that is likely, on average, where each interval that ends at one of `ends`, in order,
/// and is `turn_ns` long holds it unless it is wrong; and its variance.
fn likely(ends: &[f64], turn_ns: f64) -> (f64, f64) {
    // Behind each beginning and each end the number of intervals changes: where it does, and by how
    // many are then held.
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

    /// A curve that rises by a root, with a step up and down again over a hundredth of the stroke,
    /// and falls somewhat behind a third of it.
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
    fn the_worked_example_holds() {
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
    fn no_answer_from_a_distance_on_is_below_its_floor() {
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
    fn few_votes_say_what_the_coarser_classes_do() {
        let curve = learned(60, 5);
        for share in [0.001, 0.2, 0.7] {
            assert_eq!(curve.time_ns(share, coarse), coarse(share));
        }
    }

    #[test]
    fn what_was_saved_answers_as_before_and_nonsense_is_no_curve() {
        let curve = learned(9_000, 6);
        let numbers = curve.numbers();
        assert_eq!(Curve::restored(TURN_NS, &numbers), Some(curve));
        assert_eq!(Curve::restored(TURN_NS, &numbers[1..]), None);
        let mut too_many = numbers;
        too_many[CLASSES * KEPT] = 1e4;
        assert_eq!(Curve::restored(TURN_NS, &too_many), None);
    }
}
