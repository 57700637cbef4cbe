//! [`Divider`]: division by a known number through multiplication.
//!
//! `⌊x·⌊(2⁶⁴−1)/n⌋ / 2⁶⁴⌋` is the quotient or one less, for every 64-bit `x` and every `n` from 1
//! on; one comparison corrects it. A 64-bit division costs 20 to 40 cycles, this 5, and an address
//! look-up needs several.

/// A divisor, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divider {
    divisor: u64,
    reciprocal: u64,
}

impl Divider {
    /// # Panics
    /// If `divisor` is zero.
    pub(crate) const fn new(divisor: u64) -> Self {
        assert!(divisor != 0, "nothing divides by zero");
        Self { divisor, reciprocal: u64::MAX / divisor }
    }

    pub(crate) const fn divisor(self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder of `value`.
    #[inline(always)]
    pub(crate) const fn div_rem(self, value: u64) -> (u64, u64) {
        let quotient = ((value as u128 * self.reciprocal as u128) >> 64) as u64;
        let remainder = value - quotient * self.divisor;
        if remainder >= self.divisor {
            (quotient + 1, remainder - self.divisor)
        } else {
            (quotient, remainder)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_the_range_divide_exactly() {
        for divisor in [1, 2, 3, 333, u64::from(u32::MAX), u64::MAX] {
            for value in [0, 1, divisor - 1, divisor, u64::MAX - 1, u64::MAX] {
                assert_eq!(
                    Divider::new(divisor).div_rem(value),
                    (value / divisor, value % divisor),
                    "{value} / {divisor}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn multiplication_divides_as_division_does(
            value: u64,
            divisor in 1_u64..,
            shift in 0_u32..64,
        ) {
            let divisor = (divisor >> shift).max(1);
            let expected = (value / divisor, value % divisor);
            prop_assert_eq!(Divider::new(divisor).div_rem(value), expected);
        }
    }
}
