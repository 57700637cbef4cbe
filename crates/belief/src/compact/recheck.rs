//! [`Recheck`]: segments held against what is seen after they were found, part by part; where that
//! speaks against a part it is taken back.
//!
//! Each angle sample in a segment whose angle is as the segment says raises the odds that this part of it is
//! right rather than anywhere, each other lowers them. When they have fallen to e^−12 the part is
//! unknown again, and is looked for again with the angle samples that there are by then. Odds never rise
//! above e^6, so that a part that was right for long and is not any more is found out as soon.
//!
//! Worked example: a segment believed to within 0.05 turn. By chance a tenth of the angle samples would
//! agree, of a right segment nine tenths do: an agreeing one is worth 2.2, the other −2.2. A wrong
//! part, at odds of 1 to begin with, is taken back after seven angle samples; of a right one it takes six
//! more wrong ones than right ones, then eight more.
//!
//! Guarantees: a part nine of ten of whose angle samples agree is taken back wrongly with a chance of
//! e^−12 for each time its odds stood at 1 (Wald). Cost: O(1) a angle sample. 32 bytes a segment. Source:
//! Wald's sequential test.

use headtime_units::Lba;

use super::grow::odds_of;
use super::segments::{Segment, Segments};

/// Parts of a segment that are told apart.
const PARTS: u64 = 8;
/// Bounds of the logarithm of the odds.
const MOST: f32 = 6.0;
const WRONG: f32 = -12.0;
/// An angle this near agrees in any segment, in turns: what speeds wander and offsets by region
/// leave.
const AGREES_TURNS: f64 = 0.05;

/// How sure parts of segments are by now.
#[derive(Clone, Debug, Default)]
pub(super) struct Recheck {
    odds: Vec<[f32; PARTS as usize]>,
}

impl Recheck {
    /// Begins again with these segments.
    pub(super) fn begin(segments: &Segments) -> Self {
        Self { odds: vec![[0.0; PARTS as usize]; segments.segments().len()] }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.odds.capacity() * size_of::<[f32; PARTS as usize]>()) as u64
    }

    /// Takes in that the angle at `lba` was so far off; the segments without a part that is wrong, if
    /// there is one.
    pub(super) fn take(
        &mut self,
        segments: &Segments,
        lba: Lba,
        error_turns: f64,
    ) -> Option<Segments> {
        let number = segments.number_of(lba)?;
        let segment = &segments.segments()[number];
        let part = ((lba.get() - segment.first) / part_len(segment)).min(PARTS - 1);
        let (nearness, nearer, further) = odds_of(segment, AGREES_TURNS);
        let odds = self.odds.get_mut(number)?.get_mut(part as usize)?;
        *odds =
            (*odds + if error_turns.abs() < nearness { nearer } else { further } as f32).min(MOST);
        if *odds > WRONG {
            return None;
        }
        let first = segment.first + part * part_len(segment);
        let end = if part == PARTS - 1 {
            segment.end
        } else {
            (first + part_len(segment)).min(segment.end)
        };
        let left = segments.without(number, first, end);
        *self = Self::begin(&left);
        Some(left)
    }
}

fn part_len(segment: &Segment) -> u64 {
    (segment.end - segment.first).div_ceil(PARTS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn segments() -> Segments {
        let segment = |first: u64| Segment {
            first,
            end: first + 8_000,
            origin: 0,
            phase: 0.1,
            slope: 0.001,
            skew_terms: Vec::new(),
            spread: 0.01,
            angle_samples: 64,
        };
        Segments::new(vec![segment(0), segment(8_000)], 16_000)
    }

    /// Nine of ten angle samples agree everywhere but in a part of the second segment, where as many do as
    /// by chance.
    #[test]
    fn a_wrong_part_is_taken_back_soon_and_no_other() {
        for seed in 1..=20 {
            let (mut segments, mut rng) = (segments(), ChaCha8Rng::seed_from_u64(seed));
            let mut recheck = Recheck::begin(&segments);
            let (mut taken_back, mut seen_there) = (0, 0);
            for _ in 0..20_000 {
                let lba = rng.random_range(0..16_000);
                let wrong = (11_000..12_000).contains(&lba);
                let error =
                    if wrong || rng.random_bool(0.1) { rng.random_range(-0.5..0.5) } else { 0.01 };
                seen_there += u64::from(wrong && taken_back == 0);
                if let Some(left) = recheck.take(&segments, Lba::new(lba), error) {
                    segments = left;
                    taken_back += 1;
                }
            }
            assert_eq!(taken_back, 1, "seed {seed}");
            let known = |lba| segments.of(Lba::new(lba)).is_some();
            assert!(
                !known(11_000) && !known(11_999) && known(10_999) && known(12_000) && known(0),
                "seed {seed}: {segments:?}"
            );
            assert!(seen_there < 40, "seed {seed}: after {seen_there} sights");
        }
    }

    #[test]
    fn what_was_right_for_long_is_found_out_as_soon() {
        let segments = segments();
        let mut recheck = Recheck::begin(&segments);
        assert!((0..10_000).all(|_| recheck.take(&segments, Lba::new(500), 0.0).is_none()));
        let until = (0..).find(|_| recheck.take(&segments, Lba::new(500), 0.3).is_some());
        assert!(until < Some(12), "{until:?}");
    }
}
