//! [`Random`]: random numbers by seed (SplitMix64), so that a replayed experiment makes the same
//! requests again.

/// A stream of numbers; the same for the same seed and step.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, step: u64) -> Self {
        let mut draw = Self(seed ^ step.wrapping_mul(0xD134_2543_DE82_EF95));
        draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A uniform number from 0 up to but not including `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A uniform number from 0 up to but not including 1, for noise in tests.
    #[cfg(test)]
    pub(crate) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_step_draw_the_same_and_all_of_the_range() {
        let drawn = |seed, step| {
            let mut draw = Random::new(seed, step);
            (0..1_000).map(|_| draw.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1, 2), drawn(1, 2));
        assert_ne!(drawn(1, 2), drawn(1, 3));
        assert!(
            (0..10).all(|number| drawn(7, 0).iter().filter(|drawn| **drawn == number).count() > 60)
        );
        assert!((0..1_000).all(|step| (0.0..1.0).contains(&Random::new(3, step).part())));
    }
}
