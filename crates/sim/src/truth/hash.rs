//! Deterministic hashes of a seed and a key, in place of stored random numbers.
//!
//! A drive of 20 TB has ten million tracks. The deviation of each track is computed on demand
//! rather than stored.

/// Mixes a seed and a key into 64 bits, each of which depends on every input bit (the finalizer of
/// SplitMix64, twice).
pub(crate) fn mix(seed: u64, key: u64) -> u64 {
    finalise(seed ^ finalise(key.wrapping_add(GOLDEN)))
}

/// A number with mean 0 and deviation 1 from 64 hashed bits: the sum of four uniform numbers, which
/// is close to normal and within ± [`NORMAL_BOUND`].
pub(crate) fn normal(bits: u64) -> f64 {
    let sum: i64 = (0..4).map(|lane| (bits >> (16 * lane)) as u16).map(i64::from).sum();
    (sum - 2 * i64::from(u16::MAX)) as f64 * (SQRT_3 / 65_536.0)
}

/// The bound of [`normal`]: four times ½, scaled to deviation 1.
pub(crate) const NORMAL_BOUND: f64 = 2.0 * SQRT_3;

const SQRT_3: f64 = 1.732_050_807_568_877_2;
/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn finalise(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_normals_have_mean_nought_deviation_one_and_keep_their_bound() {
        let values: Vec<f64> = (0..100_000).map(|key| normal(mix(7, key))).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviation = (values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>()
            / values.len() as f64)
            .sqrt();
        assert!(
            mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.01,
            "mean {mean}, deviation {deviation}"
        );
        assert!(values.iter().all(|value| value.abs() <= NORMAL_BOUND));
    }

    #[test]
    fn neighboring_keys_and_seeds_share_nothing() {
        let pairs = (0..10_000_u64)
            .map(|key| [(mix(1, key), mix(1, key + 1)), (mix(key, 1), mix(key + 1, 1))]);
        let differing: u32 = pairs.flatten().map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(
            (f64::from(differing) / 20_000.0 - 32.0).abs() < 0.2,
            "on average half of 64 bits differ"
        );
    }
}
