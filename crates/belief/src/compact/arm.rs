//! [`ArmVotes`]: the arm time as a function of distance, learned without known angles.
//!
//! Independent of the angle, the arm had arrived when the first sector passed, and had not yet
//! arrived one revolution before; otherwise the sector would have been caught then. Each access
//! therefore confines the arm time over its distance to an interval one revolution long. Accesses
//! over similar distances vote: the estimate is the time that most intervals contain, or the middle
//! of that range.
//!
//! Worked example, 8 ms a turn: accesses over a fifth of the stroke take 9.1, 12.0 and 5.6 ms until
//! their first sector passes. Their intervals are 1.1 to 9.1, 4.0 to 12.0 and −2.4 to 5.6. The
//! range 4.0 to 5.6 has all votes, and the estimate is 4.8 ms. After some hundred accesses the
//! range is as short as the noise.
//!
//! Steps and dips of the curve are finer than these classes. An even division of the stroke
//! resolves them ([`Curve`]), once it has enough votes.
//!
//! Guarantees: one access that took extra revolutions for other reasons has no effect once ten
//! others have voted. Cost: a vote increments the cells of an interval and evaluates one or two
//! classes again, at most 35,000 additions; a lookup is a division and an interpolation. 400 KiB.
//! Source: ours.

use headtime_units::Nanos;

use super::curve::Curve;

/// Classes of distance: four for each power of two.
const CLASSES: usize = 4 * OCTAVES as usize + 1;
/// The number of powers of ½ of the stroke over which distances are classified.
const OCTAVES: u32 = 20;
/// Cells of time in a class.
const CELLS: usize = 1_024;
/// The time of a cell, as a share of a revolution (guess: less than the noise of most drives):
/// 1,024 cells are four revolutions.
const CELLS_PER_TURN: f64 = 256.0;
/// The number of votes that a class needs before it is evaluated alone; below it, neighboring
/// classes are included (guess).
const ENOUGH: u32 = 96;
/// The weight of a class without votes.
const MIN_WEIGHT: f64 = 1e-3;
/// The number of votes of a class up to which each vote evaluates it at once.
const FEW: u32 = 8;
/// The maximum distance of classes that inform each other (guess: a factor of four).
const NEIGHBORS: usize = 8;
/// The number of votes at which all are halved, so that the estimate follows a changing arm.
const MAX_VOTES: u32 = 4_096;

/// Votes on arm times, by distance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArmVotes {
    turn_ns: f64,
    votes: Vec<u32>,
    voters: Vec<u32>,
    /// The estimates in ns, one for each class.
    times: Vec<f64>,
    /// The increase of the time with the root of the share, in ns. Votes of neighboring classes are
    /// moved by it before they are combined.
    rise_ns: f64,
    /// The class evaluated last in turn.
    changed: u32,
    /// The finer curve.
    curve: Curve,
}

impl ArmVotes {
    /// Creates an empty estimate for a drive with a revolution of `turn`.
    pub(super) fn new(turn: Nanos) -> Self {
        let mut arm = Self {
            turn_ns: turn.as_ns().max(1) as f64,
            votes: vec![0; CLASSES * CELLS],
            voters: vec![0; CLASSES],
            times: Vec::new(),
            rise_ns: 0.0,
            changed: 0,
            curve: Curve::new(turn.as_ns().max(1) as f64),
        };
        arm.rise_ns = 2.0 * arm.turn_ns;
        arm.times = (0..CLASSES).map(|class| arm.first_guess(class)).collect();
        arm
    }

    /// Restores a saved arm from [`ArmVotes::numbers`] and [`ArmVotes::curve_numbers`]; the latter
    /// are empty for a map without them. `None` if the numbers are invalid.
    pub(super) fn restored(numbers: &[f64], curve: &[f64]) -> Option<Self> {
        let (votes, rest) = numbers.split_at_checked(CLASSES * CELLS)?;
        let (voters, rest) = rest.split_at_checked(CLASSES)?;
        let (times, rest) = rest.split_at_checked(CLASSES)?;
        let &[turn_ns, rise_ns, changed] = rest else { return None };
        let whole = |number: &f64| {
            (*number >= 0.0 && *number <= f64::from(2 * MAX_VOTES)).then_some(*number as u32)
        };
        let votes = votes.iter().map(whole).collect::<Option<Vec<u32>>>()?;
        let voters = voters.iter().map(whole).collect::<Option<Vec<u32>>>()?;
        let in_bounds = |number: &f64| (0.0..1e12).contains(number);
        if !(turn_ns >= 1.0
            && [turn_ns, rise_ns, changed].iter().chain(times).all(in_bounds)
            && times.is_sorted())
        {
            return None;
        }
        if votes
            .chunks(CELLS)
            .zip(&voters)
            .any(|(votes, voters)| votes.iter().any(|vote| vote > voters))
        {
            return None;
        }
        let curve =
            if curve.is_empty() { Curve::new(turn_ns) } else { Curve::restored(turn_ns, curve)? };
        Some(Self {
            turn_ns,
            votes,
            voters,
            times: times.to_vec(),
            rise_ns,
            changed: changed as u32,
            curve,
        })
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (4 * (self.votes.len() + self.voters.len()) + 8 * self.times.len()) as u64
            + self.curve.memory()
    }

    /// The numbers of the finer curve, for saving.
    pub(super) fn curve_numbers(&self) -> Vec<f64> {
        self.curve.numbers()
    }

    /// All other numbers, for saving.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let counts = self.votes.iter().chain(&self.voters).map(|count| f64::from(*count));
        counts
            .chain(self.times.iter().copied())
            .chain([self.turn_ns, self.rise_ns, f64::from(self.changed)])
            .collect()
    }

    /// The arm time over a share of the stroke, 0 to 1.
    pub(super) fn time_ns(&self, share: f64) -> f64 {
        self.curve.time_ns(share, |share| self.coarse_ns(share))
    }

    /// The minimum of the arm times from this share of the stroke on.
    pub(super) fn floor_ns(&self, share: f64) -> f64 {
        self.curve.floor_ns(share, |share| self.coarse_ns(share))
    }

    /// The estimate of the classes by powers of two; it never falls with the share.
    fn coarse_ns(&self, share: f64) -> f64 {
        coarse_ns(&self.times, share)
    }
    /// Records that the first sector passed `passed_ns` after the arm began to move over this share
    /// of the stroke.
    pub(crate) fn vote(&mut self, share: f64, passed_ns: f64) {
        let class = (libm::round(place_of(share)) as usize).min(CLASSES - 1);
        let cell_ns = self.turn_ns / CELLS_PER_TURN;
        let high = libm::floor(passed_ns / cell_ns);
        if high < 0.0 || high >= (CELLS as f64) {
            return;
        }
        let (low, high) = ((high - CELLS_PER_TURN).max(-1.0) + 1.0, high);
        for cell in &mut self.votes[class * CELLS..][low as usize..=high as usize] {
            *cell += 1;
        }
        self.voters[class] += 1;
        if self.voters[class] >= MAX_VOTES {
            self.voters[class] /= 2;
            self.votes[class * CELLS..][..CELLS].iter_mut().for_each(|votes| *votes /= 2);
        }
        // One class in turn, so that all are evaluated again within as many votes as there are
        // classes; and at once the class of the vote while its votes are few.
        if self.voters[class] <= FEW {
            self.count(class);
        }
        self.changed = (self.changed + 1) % CLASSES as u32;
        self.count(self.changed as usize);
        if self.changed == 0 {
            self.rise_ns = self.rise();
        }
        self.curve.vote(share, passed_ns, |share| coarse_ns(&self.times, share));
    }

    /// Evaluates one class again.
    fn count(&mut self, class: usize) {
        self.times[class] = self.elected(class);
        // A longer distance never takes less time. Neighbors that contradict this get their
        // weighted mean, so that a few votes over short distances do not slow down all longer ones.
        let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(CLASSES);
        for (time, voters) in self.times.iter().zip(&self.voters) {
            let mut block = (*time, f64::from(*voters) + MIN_WEIGHT, 1);
            while let Some(before) = blocks.last().copied().filter(|before| before.0 > block.0) {
                blocks.pop();
                let weight = before.1 + block.1;
                block = (
                    (before.0 * before.1 + block.0 * block.1) / weight,
                    weight,
                    before.2 + block.2,
                );
            }
            blocks.push(block);
        }
        let times =
            blocks.iter().flat_map(|(time, _, classes)| core::iter::repeat_n(*time, *classes));
        self.times.iter_mut().zip(times).for_each(|(own, time)| *own = time);
    }

    /// The time that most intervals of the class contain, including its neighbors where they are
    /// few.
    fn elected(&self, class: usize) -> f64 {
        let (mut low, mut high) = (class, class);
        let voters = |low: usize, high: usize| self.voters[low..=high].iter().sum::<u32>();
        while voters(low, high) < ENOUGH
            && high - low < 2 * NEIGHBORS
            && (low > 0 || high < CLASSES - 1)
        {
            (low, high) = (low.saturating_sub(1), (high + 1).min(CLASSES - 1));
        }
        if voters(low, high) == 0 {
            return self.first_guess(class);
        }
        self.chosen(low, high, class)
    }

    /// The time that most intervals of the classes contain. Those of classes other than `class` are
    /// moved by the difference of their arm times.
    fn chosen(&self, low: usize, high: usize, class: usize) -> f64 {
        let mut all = vec![0_u32; CELLS];
        for other in low..=high {
            let further_ns =
                self.rise_ns * (libm::sqrt(share_of(other)) - libm::sqrt(share_of(class)));
            let moved = libm::round(further_ns * CELLS_PER_TURN / self.turn_ns) as isize;
            for (cell, votes) in all.iter_mut().enumerate() {
                *votes += cell
                    .checked_add_signed(moved)
                    .and_then(|from| self.votes[other * CELLS..][..CELLS].get(from))
                    .unwrap_or(&0);
            }
        }
        let most = all.iter().copied().max().unwrap_or(0);
        // All cells with nearly as many votes count: a few outliers must not decide.
        let nearly = most - most / 64;
        let best = all.iter().position(|votes| *votes == most).unwrap_or(0);
        let first = (0..=best).rev().take_while(|cell| all[*cell] >= nearly).last().unwrap_or(best);
        let last = (best..CELLS).take_while(|cell| all[*cell] >= nearly).last().unwrap_or(best);
        (first + last + 1) as f64 / 2.0 * self.turn_ns / CELLS_PER_TURN
    }

    /// The least-squares slope over the classes with enough votes of their own; the guess while
    /// there are fewer than three.
    fn rise(&self) -> f64 {
        let (mut count, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for class in (0..CLASSES).filter(|class| self.voters[*class] >= ENOUGH) {
            let (root, time) = (libm::sqrt(share_of(class)), self.chosen(class, class, class));
            (count, x, y, xx, xy) =
                (count + 1.0, x + root, y + time, xx + root * root, xy + root * time);
        }
        let spread = count * xx - x * x;
        if count < 3.0 || spread <= 0.0 {
            2.0 * self.turn_ns
        } else {
            ((count * xy - x * y) / spread).clamp(0.0, 8.0 * self.turn_ns)
        }
    }

    /// A twelfth of a turn for the shortest seek and two turns over the whole stroke, by the root
    /// of the distance (guess: typical for drives of all speeds).
    fn first_guess(&self, class: usize) -> f64 {
        if class == 0 {
            0.0
        } else {
            self.turn_ns * (1.0 / 12.0 + 2.0 * libm::sqrt(share_of(class)))
        }
    }
}

/// The arm time over a share of the stroke, interpolated between the times of the classes.
fn coarse_ns(times: &[f64], share: f64) -> f64 {
    let place = place_of(share);
    let class = (place as usize).min(CLASSES - 1);
    let next = (class + 1).min(CLASSES - 1);
    let part = (place - class as f64).clamp(0.0, 1.0);
    times[class] * (1.0 - part) + times[next] * part
}

/// The distance in the middle of a class.
fn share_of(class: usize) -> f64 {
    libm::exp2((class as f64) / 4.0 - f64::from(OCTAVES))
}

/// The class of a distance, with the fraction to the next one.
fn place_of(share: f64) -> f64 {
    if share <= 0.0 {
        0.0
    } else {
        ((libm::log2(share.min(1.0)) + f64::from(OCTAVES)) * 4.0).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const TURN: Nanos = Nanos::from_us(8_000);

    #[test]
    fn the_worked_example_is_reproduced() {
        // About a fifth of the stroke: the middle of a class, so that votes are not moved.
        let (mut arm, fifth) = (ArmVotes::new(TURN), libm::exp2(-2.25));
        // Repeated until all classes have been evaluated once.
        for _ in 0..CLASSES.div_ceil(3) {
            [9.1e6, 12.0e6, 5.6e6].iter().for_each(|passed| arm.vote(fifth, *passed));
        }
        assert!((arm.time_ns(fifth) - 4.8e6).abs() < 5e4, "{} ns", arm.time_ns(fifth));
    }

    #[test]
    fn arm_times_are_found_from_accesses_at_random_angles() {
        for seed in 1..=4 {
            let (mut arm, mut rng) = (ArmVotes::new(TURN), ChaCha8Rng::seed_from_u64(seed));
            let truth = |share: f64| 0.7e6 + 14e6 * libm::sqrt(share);
            for _ in 0..6_000 {
                let share = (rng.random_range(0.0..1.0_f64) - rng.random_range(0.0..1.0)).abs();
                let retried = if rng.random_bool(0.01) { 8e6 } else { 0.0 };
                arm.vote(
                    share,
                    truth(share)
                        + rng.random_range(0.0..8e6)
                        + rng.random_range(-3e4..3e4)
                        + retried,
                );
            }
            // About a hundred accesses over a hundredth of the stroke leave a range of a tenth of a
            // turn, the many over longer distances a shorter one.
            for (share, allowed) in
                [(0.01, 8e5), (0.05, 3.5e5), (0.2, 3.5e5), (0.5, 3.5e5), (0.9, 3.5e5)]
            {
                let off = arm.time_ns(share) - truth(share);
                assert!(
                    off.abs() < allowed,
                    "seed {seed}: over {share} of the stroke off by {off:.0} ns"
                );
            }
        }
    }

    /// On a drive with few short seeks, the estimates of classes with few or no votes must not
    /// affect longer distances.
    #[test]
    fn outliers_over_short_distances_do_not_slow_down_longer_ones() {
        let (mut arm, mut rng) = (ArmVotes::new(TURN), ChaCha8Rng::seed_from_u64(3));
        let truth = |share: f64| 0.7e6 + 14e6 * libm::sqrt(share);
        for round in 0..4_000 {
            let share = rng.random_range(0.05..1.0_f64);
            arm.vote(share, truth(share) + rng.random_range(0.0..8e6));
            if round % 200 == 0 {
                arm.vote(1e-5, 15e6);
            }
        }
        for share in [0.1, 0.3, 0.8] {
            let off = arm.time_ns(share) - truth(share);
            assert!(off.abs() < 5e5, "over {share} of the stroke off by {off:.0} ns");
        }
        assert!(arm.times.is_sorted());
    }

    #[test]
    fn a_restored_arm_is_identical_and_invalid_numbers_are_refused() {
        let (mut arm, mut rng) = (ArmVotes::new(TURN), ChaCha8Rng::seed_from_u64(9));
        (0..999).for_each(|_| arm.vote(rng.random(), rng.random_range(0.0..3e7)));
        let again = ArmVotes::restored(&arm.numbers(), &arm.curve_numbers()).unwrap();
        assert_eq!(again, arm);
        let mut more_votes_than_voters = arm.numbers();
        more_votes_than_voters[0] = 5_000.0;
        assert_eq!(ArmVotes::restored(&more_votes_than_voters, &[]), None);
        assert_eq!(ArmVotes::restored(&arm.numbers()[1..], &[]), None);
    }
}
