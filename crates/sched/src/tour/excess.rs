//! [`ChainExcess`]: the time by which chains of accesses exceed the sum of their predictions.
//!
//! Each completed access is the last of a chain of one, of two, and so on up to [`LOOKAHEAD_MAX`];
//! the excess of each chain is counted by its length. The margin of a chain is the quantile of
//! these counts: only the given share of chains has exceeded it. Chains are counted as wholes
//! because the quantiles of single accesses do not add up (two retries in one chain are rarer than
//! one), and because single excesses are not independent (a late report makes the next sector one
//! just missed).
//!
//! Worked example: excesses of 1, −1, 6 and 0 ms. Chains of one exceeded by 6, 1, 0, −1, of two by
//! 6, 5, 0. The margin that one chain in four may exceed is 6 ms for one access (the first of five
//! ranks, because the next excess has one too); the margin that one in two may exceed is 1 ms for
//! one and 5 ms for two.
//!
//! Guarantees: if chains are exchangeable, the next one exceeds the margin with at most the given
//! probability, once `1 / share` chains were counted. Before that the margin is the largest excess
//! seen, which is exceeded with probability 1/(n + 1) after n chains. Counts are halved at 2¹⁷, so
//! that old behavior is forgotten within some hundred thousand accesses. Not guaranteed: anything
//! about a single request; its miss rate depends on how often it waits until only its margin is
//! left. Excesses are rounded up to 0.1 ms. Cost: an access updates eight counts; a margin reads up
//! to 1,024 numbers. 32 KiB. Source: this project; order statistics as for P1's worst of 100
//! measurements (docs/papers.md, `p1.exceed`).

use alloc::vec;
use alloc::vec::Vec;

use super::LOOKAHEAD_MAX;

/// The width of a step in ns: a sixtieth of a revolution at 10,000 rpm (chosen).
const STEP_NS: i64 = 100_000;
/// The upper end of the lowest step, which counts all shorter excesses.
const LOWEST_NS: i64 = -25_600_000;
/// Steps up to 76.8 ms: twelve revolutions at 10,000 rpm; the highest counts all longer ones
/// (chosen).
const STEPS: usize = 1_024;
/// Counts are halved when there are so many (chosen).
const MAX_COUNTED: u64 = 1 << 17;

/// Margins of chains by their length, in ns: the excess over the prediction, negative if shorter;
/// that of a single access first.
pub type Margins = [i64; LOOKAHEAD_MAX];

/// Excesses of chains of 1 to [`LOOKAHEAD_MAX`] accesses.
#[derive(Clone, Debug)]
pub struct ChainExcess {
    /// The last excesses in ns, the latest first.
    recent: [i64; LOOKAHEAD_MAX],
    /// The number of them that follow each other directly.
    linked: usize,
    lengths: Vec<Counts>,
}

#[derive(Clone, Debug)]
struct Counts {
    steps: Vec<u32>,
    all: u64,
}

impl Default for ChainExcess {
    fn default() -> Self {
        let none = Counts { steps: vec![0; STEPS], all: 0 };
        Self { recent: [0; LOOKAHEAD_MAX], linked: 0, lengths: vec![none; LOOKAHEAD_MAX] }
    }
}

impl ChainExcess {
    /// An access straight after the one before it took so many ns longer than predicted.
    pub fn observe(&mut self, excess_ns: i64) {
        self.recent.rotate_right(1);
        self.recent[0] = excess_ns;
        self.linked = (self.linked + 1).min(LOOKAHEAD_MAX);
        let mut sum: i64 = 0;
        for (excess, counts) in self.recent[..self.linked].iter().zip(&mut self.lengths) {
            sum = sum.saturating_add(*excess);
            counts.add(sum);
        }
    }

    /// The next access does not follow the last one directly: no chain contains both.
    pub fn interrupt(&mut self) {
        self.linked = 0;
    }

    /// The margins that at most `share` (0 to 1) of chains exceed, by their length; zero for unseen
    /// lengths.
    #[must_use]
    pub fn margins(&self, share: f64) -> Margins {
        let mut margins = [0; LOOKAHEAD_MAX];
        for (margin, counts) in margins.iter_mut().zip(&self.lengths) {
            *margin = counts.exceeded_by(share);
        }
        margins
    }
}

impl Counts {
    fn add(&mut self, excess_ns: i64) {
        let above = excess_ns.saturating_sub(LOWEST_NS).max(0);
        let step = (above as u64).div_ceil(STEP_NS as u64) as usize;
        self.steps[step.min(STEPS - 1)] += 1;
        self.all += 1;
        if self.all >= MAX_COUNTED {
            self.steps.iter_mut().for_each(|count| *count /= 2);
            self.all = self.steps.iter().map(|count| u64::from(*count)).sum();
        }
    }

    /// The end of the step of the so-manieth largest.
    fn exceeded_by(&self, share: f64) -> i64 {
        if self.all == 0 {
            return 0;
        }
        let rank = ((share * (self.all + 1) as f64) as u64).clamp(1, self.all);
        let mut larger = 0;
        let found = self.steps.iter().rposition(|count| {
            larger += u64::from(*count);
            larger >= rank
        });
        LOWEST_NS + found.unwrap_or(0) as i64 * STEP_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: i64) -> i64 {
        ms * 1_000_000
    }

    fn of(excesses_ms: &[i64]) -> ChainExcess {
        let mut chains = ChainExcess::default();
        excesses_ms.iter().for_each(|excess| chains.observe(ms(*excess)));
        chains
    }

    #[test]
    fn chains_are_counted_as_wholes() {
        let chains = of(&[1, -1, 6, 0]);
        assert_eq!(chains.margins(0.25), [ms(6), ms(6), ms(6), ms(6), 0, 0, 0, 0]);
        assert_eq!(chains.margins(0.5)[..2], [ms(1), ms(5)]);
        assert_eq!(
            chains.margins(1.0)[..2],
            [ms(-1), 0],
            "all of them exceed no more than the least"
        );
    }

    #[test]
    fn no_chain_goes_across_an_interruption() {
        let mut chains = of(&[5, 5]);
        chains.interrupt();
        chains.observe(ms(5));
        assert_eq!(
            chains.margins(0.01)[..3],
            [ms(5), ms(10), 0],
            "two stood in a row, never three"
        );
        assert_eq!(ChainExcess::default().margins(0.01), [0; LOOKAHEAD_MAX]);
    }

    #[test]
    fn the_margin_of_retries_is_one_retry_and_not_one_for_each_access() {
        // One access in five hundred takes a revolution of 6 ms more: one chain of eight in 62, and
        // almost none twice that.
        let mut chains = ChainExcess::default();
        (0..20_000).for_each(|access| chains.observe(if access % 500 == 499 { ms(6) } else { 0 }));
        assert_eq!(chains.margins(0.001), [ms(6); LOOKAHEAD_MAX]);
        assert_eq!(chains.margins(0.003)[..2], [0, ms(6)], "one access alone fails seldom enough");
    }

    #[test]
    fn what_no_longer_happens_is_forgotten() {
        let mut chains = of(&[40; 100]);
        assert_eq!(chains.margins(1e-4)[0], ms(40));
        (0..4 * MAX_COUNTED).for_each(|_| chains.observe(ms(2)));
        assert_eq!(chains.margins(1e-4)[0], ms(2));
        assert_eq!(
            of(&[i64::MAX / 2_000_000, i64::MIN / 2_000_000]).margins(1e-4)[0],
            LOWEST_NS + (STEPS as i64 - 1) * STEP_NS,
            "the highest step holds whatever is longer"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// By definition: of all sums over that many in a row at most the given share, and one,
        /// exceed the margin, and it is one of them, rounded up.
        #[test]
        fn margins_are_quantiles_of_the_sums(
            excesses in proptest::collection::vec(-3_000_i64..7_000, 1..200),
            share in 0.001_f64..1.0,
        ) {
            let mut chains = ChainExcess::default();
            excesses.iter().for_each(|us| chains.observe(us * 1_000));
            for (margin, len) in chains.margins(share).iter().zip(1..) {
                let mut sums: Vec<i64> =
                    excesses.windows(len).map(|chain| chain.iter().sum::<i64>() * 1_000).collect();
                if sums.is_empty() {
                    prop_assert_eq!(*margin, 0);
                    continue;
                }
                sums.sort_unstable_by(|one, other| other.cmp(one));
                let rank = ((share * (sums.len() + 1) as f64) as usize).clamp(1, sums.len());
                let required = sums[rank - 1].max(LOWEST_NS);
                prop_assert!(
                    (0..STEP_NS).contains(&(margin - required)),
                    "{} for {}",
                    margin,
                    required
                );
                prop_assert!(sums.iter().filter(|sum| *sum > margin).count() < rank.max(2));
            }
        }
    }
}
