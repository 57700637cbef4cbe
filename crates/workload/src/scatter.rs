//! [`Scatter`]: a fixed permutation of the numbers below n, without a table.
//!
//! A Feistel network of four rounds permutes the numbers of an even number of bits, enough for n; a
//! number that maps to n or above is mapped again until it does not (cycle walking), which takes
//! less than four iterations on average. Reference: Black and Rogaway, Ciphers with arbitrary
//! finite domains, 2002, method 2.

/// A permutation of the numbers 0 to n − 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    count: u64,
    /// Bits of one half of a number.
    half: u32,
    key: u64,
}

impl Scatter {
    /// A permutation of `count` numbers, at least 1, that depends on `key`.
    pub(crate) fn new(count: u64, key: u64) -> Self {
        let bits = (u64::BITS - (count - 1).leading_zeros()).max(2);
        Self { count, half: bits.div_ceil(2), key }
    }

    /// The image of `number`, which is below the count.
    pub(crate) fn place(&self, number: u64) -> u64 {
        let mut place = self.permute(number);
        while place >= self.count {
            place = self.permute(place);
        }
        place
    }

    fn permute(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mix(right ^ self.key.rotate_left(16 * round)) & mask));
        }
        left << self.half | right
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on
/// every bit of the value.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn every_number_has_one_place() {
        for count in [1, 2, 3, 4, 5, 63, 64, 65, 1_000] {
            let scatter = Scatter::new(count, 7);
            let places: BTreeSet<u64> = (0..count).map(|number| scatter.place(number)).collect();
            assert_eq!(
                (places.len() as u64, places.last().copied()),
                (count, Some(count - 1)),
                "{count} numbers"
            );
        }
        assert!(Scatter::new(u64::MAX, 7).place(u64::MAX - 1) < u64::MAX);
    }

    /// Of a random permutation, the mean distance of neighbors' places is a third of the count;
    /// its deviation over 10,000 pairs is below a hundredth of that.
    #[test]
    fn neighbors_land_far_from_each_other() {
        let scatter = Scatter::new(1_000_000, 1);
        let distances =
            (0..10_000).map(|number| scatter.place(number).abs_diff(scatter.place(number + 1)));
        let mean = distances.sum::<u64>() as f64 / 10_000.0 / 1e6;
        // The deviation of one distance is 1/√18 = 0.236; neighboring pairs share a place, so
        // twice that is allowed for.
        assert!((mean - 1.0 / 3.0).abs() < 4.5 * 0.236 * 2.0 / 100.0, "{mean}");
    }
}
