//! [`Recheck`]: the comparison of segments with later angle samples, part by part. A part that they
//! contradict is withdrawn.
//!
//! An angle sample that agrees with its segment raises the odds that this part of the segment is
//! right; any other sample lowers them. A part whose odds have fallen to e^−12 becomes unknown and
//! is searched again with the current angle samples. The odds never exceed e^6, so that a part that
//! becomes wrong later is detected as soon.
//!
//! Worked example: a segment known to within 0.05 turn. By chance a tenth of the angle samples
//! would agree; in a right segment nine tenths do. An agreeing sample adds 2.2 and any other
//! subtracts 2.2. A wrong part at initial odds of 1 is withdrawn after seven angle samples. A right
//! part is withdrawn only after six more wrong samples than right ones from odds of 1, and after
//! some eight from the maximum.
//!
//! Guarantees: a part in which nine of ten angle samples agree is withdrawn with a chance of e^−12
//! for each time its odds are 1 (Wald). Cost: O(1) per angle sample. 32 bytes per segment. Source:
//! the sequential test of Wald.

use headtime_units::Lba;

use super::segments::{Segment, Segments};
use super::survey::odds_of;

/// The number of parts of a segment that are checked separately.
const PARTS: u64 = 8;
/// Bounds of the logarithm of the odds.
const MOST: f32 = 6.0;
const WRONG: f32 = -12.0;
/// An angle error, in turns, that agrees in any segment: it covers speed drift and offsets by
/// region.
const AGREES_TURNS: f64 = 0.05;

/// The odds of the parts of segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Recheck {
    odds: Vec<[f32; PARTS as usize]>,
}

impl Recheck {
    /// Begins with these segments.
    pub(super) fn begin(segments: &Segments) -> Self {
        Self { odds: vec![[0.0; PARTS as usize]; segments.segments().len()] }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.odds.capacity() * size_of::<[f32; PARTS as usize]>()) as u64
    }

    /// Ingests the angle error at `lba`. Returns the segments without a wrong part, if one is
    /// detected.
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

    /// Nine of ten angle samples agree everywhere except in a part of the second segment, where
    /// agreement is by chance.
    #[test]
    fn only_a_wrong_part_is_withdrawn_and_soon() {
        for seed in 1..=20 {
            let (mut segments, mut rng) = (segments(), ChaCha8Rng::seed_from_u64(seed));
            let mut recheck = Recheck::begin(&segments);
            let (mut withdrawn, mut seen_there) = (0, 0);
            for _ in 0..20_000 {
                let lba = rng.random_range(0..16_000);
                let wrong = (11_000..12_000).contains(&lba);
                let error =
                    if wrong || rng.random_bool(0.1) { rng.random_range(-0.5..0.5) } else { 0.01 };
                seen_there += u64::from(wrong && withdrawn == 0);
                if let Some(left) = recheck.take(&segments, Lba::new(lba), error) {
                    segments = left;
                    withdrawn += 1;
                }
            }
            assert_eq!(withdrawn, 1, "seed {seed}");
            let known = |lba| segments.of(Lba::new(lba)).is_some();
            assert!(
                !known(11_000) && !known(11_999) && known(10_999) && known(12_000) && known(0),
                "seed {seed}: {segments:?}"
            );
            assert!(seen_there < 40, "seed {seed}: after {seen_there} angle samples");
        }
    }

    #[test]
    fn a_part_that_was_right_for_long_is_withdrawn_as_soon() {
        let segments = segments();
        let mut recheck = Recheck::begin(&segments);
        assert!((0..10_000).all(|_| recheck.take(&segments, Lba::new(500), 0.0).is_none()));
        let until = (0..).find(|_| recheck.take(&segments, Lba::new(500), 0.3).is_some());
        assert!(until < Some(12), "{until:?}");
    }
}
