//! [`Sizes`]: the sizes of requests.

use alloc::format;
use alloc::vec::Vec;

use rand::Rng;

use crate::check::Check;
use crate::dice;
use crate::error::StreamFault;

/// The sizes of requests. Bytes must be whole sectors.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All of one size.
    Fixed {
        /// The size in bytes.
        bytes: u64,
    },
    /// One of several, each with the probability of its weight over the sum of weights (fio's
    /// `bssplit`).
    Weighted(Vec<SizeWeight>),
    /// Each multiple from the least to the most with the same probability.
    Uniform {
        /// The smallest size in bytes, a multiple.
        min_bytes: u64,
        /// The largest size in bytes, a multiple too.
        max_bytes: u64,
        /// The unit of all sizes.
        multiple_bytes: u64,
    },
    /// An exponential distribution rounded up to multiples, with the mean as given *after*
    /// rounding: 8 KiB in multiples of 4 KiB gives 4, 8, 12 … KiB with probability ½, ¼, ⅛ … (P2's
    /// OLTP). Anything larger than `max_bytes` becomes `max_bytes`, which lowers the mean
    /// accordingly.
    Exponential {
        /// The mean in bytes, more than the multiple.
        mean_bytes: u64,
        /// The unit of all sizes.
        multiple_bytes: u64,
        /// The largest size, a multiple too.
        max_bytes: u64,
    },
    /// A lognormal distribution, median · e^(spread · z) for a standard normal z, rounded to the
    /// nearest multiple, at least one and at most `max_bytes`; a common distribution of file sizes
    /// (Downey, The structural cause of file size distributions, 2001).
    LogNormal {
        /// The median in bytes, at least the multiple.
        median_bytes: u64,
        /// The standard deviation of the size's natural logarithm, from 0 to 5.
        spread: f64,
        /// The unit of all sizes.
        multiple_bytes: u64,
        /// The largest size, a multiple too.
        max_bytes: u64,
    },
}

/// One size of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeWeight {
    /// The size in bytes.
    pub bytes: u64,
    /// The weight relative to the others; more than 0.
    pub weight: f64,
}

/// [`Sizes`] checked, in sectors.
#[derive(Clone, Debug)]
pub(crate) enum SectorSizes {
    Fixed(u64),
    /// Sizes with their cumulative weights.
    Weighted(Vec<(u64, f64)>),
    Uniform {
        min: u64,
        multiple: u64,
        count: u64,
    },
    Exponential {
        scale: f64,
        multiple: u64,
        max: u64,
    },
    LogNormal {
        median: f64,
        spread: f64,
        multiple: u64,
        max: u64,
    },
}

impl SectorSizes {
    pub(crate) fn new(sizes: &Sizes, check: &Check) -> Result<Self, StreamFault> {
        match *sizes {
            Sizes::Fixed { bytes } => Ok(Self::Fixed(check.sectors("size", bytes)?)),
            Sizes::Weighted(ref weighted) => Self::weighted(weighted, check),
            Sizes::Uniform { min_bytes, max_bytes, multiple_bytes } => {
                let multiple = check.sectors("size multiple", multiple_bytes)?;
                let (min, max) = (
                    check.sectors("smallest size", min_bytes)?,
                    check.sectors("largest size", max_bytes)?,
                );
                if min % multiple != 0 {
                    let expected = format!("a multiple of {multiple_bytes} bytes");
                    return Err(check.value(
                        "smallest size",
                        min_bytes,
                        expected,
                        "lower the multiple",
                    ));
                }
                if max % multiple != 0 || max < min {
                    let expected = format!(
                        "a multiple of {multiple_bytes} bytes, no less than the smallest of \
                            {min_bytes}"
                    );
                    return Err(check.value(
                        "largest size",
                        max_bytes,
                        expected,
                        "raise it, or lower the multiple",
                    ));
                }
                Ok(Self::Uniform { min, multiple, count: (max - min) / multiple + 1 })
            }
            Sizes::Exponential { mean_bytes, multiple_bytes, max_bytes } => {
                let (multiple, max) = (
                    check.sectors("size multiple", multiple_bytes)?,
                    check.sectors("largest size", max_bytes)?,
                );
                if mean_bytes <= multiple_bytes {
                    let expected = format!("more than the multiple, {multiple_bytes} bytes");
                    return Err(check.value(
                        "mean size",
                        mean_bytes,
                        expected,
                        "lower the multiple, or choose a fixed size",
                    ));
                }
                Self::check_most("mean", mean_bytes, max_bytes, multiple_bytes, check)?;
                // Rounded up, an exponential of this scale has exactly the requested mean (in
                // multiples).
                let scale = -1.0 / libm::log1p(-(multiple_bytes as f64) / mean_bytes as f64);
                Ok(Self::Exponential { scale, multiple, max })
            }
            Sizes::LogNormal { median_bytes, spread, multiple_bytes, max_bytes } => {
                let (multiple, max) = (
                    check.sectors("size multiple", multiple_bytes)?,
                    check.sectors("largest size", max_bytes)?,
                );
                if median_bytes < multiple_bytes {
                    let expected = format!("no less than the multiple, {multiple_bytes} bytes");
                    return Err(check.value(
                        "median size",
                        median_bytes,
                        expected,
                        "lower the multiple, or raise the median",
                    ));
                }
                Self::check_most("median", median_bytes, max_bytes, multiple_bytes, check)?;
                check.number(
                    "spread of sizes",
                    spread,
                    0.0,
                    5.0,
                    "1 puts two thirds of the sizes within a factor of e around the median",
                )?;
                Ok(Self::LogNormal {
                    median: median_bytes as f64 / multiple_bytes as f64,
                    spread,
                    multiple,
                    max,
                })
            }
        }
    }

    fn check_most(
        what: &str,
        middle: u64,
        max: u64,
        multiple: u64,
        check: &Check,
    ) -> Result<(), StreamFault> {
        if max.is_multiple_of(multiple) && max >= middle {
            return Ok(());
        }
        let expected =
            format!("a multiple of {multiple} bytes, no less than the {what} of {middle}");
        Err(check.value(
            "largest size",
            max,
            expected,
            "sixteen times the mean cuts off almost nothing",
        ))
    }

    fn weighted(weighted: &[SizeWeight], check: &Check) -> Result<Self, StreamFault> {
        let mut sum = 0.0;
        let mut sizes = Vec::with_capacity(weighted.len());
        for &SizeWeight { bytes, weight } in weighted {
            check.number(
                "weight of a size",
                weight,
                1e-9,
                1e9,
                "remove sizes that are never drawn",
            )?;
            sum += weight;
            sizes.push((check.sectors("size", bytes)?, sum));
        }
        if sizes.is_empty() {
            return Err(check.value("list of sizes", "empty", "at least one size", "add one"));
        }
        Ok(Self::Weighted(sizes))
    }

    pub(crate) fn largest(&self) -> u64 {
        match *self {
            Self::Fixed(sectors) => sectors,
            Self::Weighted(ref sizes) => {
                sizes.iter().map(|(sectors, _)| *sectors).max().unwrap_or(1)
            }
            Self::Uniform { min, multiple, count } => min + multiple * (count - 1),
            Self::Exponential { max, .. } | Self::LogNormal { max, .. } => max,
        }
    }

    /// The unit of all sizes.
    pub(crate) fn grain(&self) -> u64 {
        match *self {
            Self::Fixed(sectors) => sectors,
            Self::Weighted(ref sizes) => {
                sizes.iter().fold(0, |divisor, (sectors, _)| common_divisor(divisor, *sectors))
            }
            Self::Uniform { multiple, .. }
            | Self::Exponential { multiple, .. }
            | Self::LogNormal { multiple, .. } => multiple,
        }
    }

    pub(crate) fn draw(&self, rng: &mut impl Rng) -> u64 {
        match *self {
            Self::Fixed(sectors) => sectors,
            Self::Weighted(ref sizes) => {
                let sum = sizes.last().map_or(0.0, |(_, sum)| *sum);
                let point = dice::above_zero(rng) * sum;
                sizes[sizes.partition_point(|(_, up_to)| *up_to < point).min(sizes.len() - 1)].0
            }
            Self::Uniform { min, multiple, count } => min + multiple * dice::below(rng, count),
            Self::Exponential { scale, multiple, max } => {
                let multiples = (libm::ceil(dice::exponential(rng, scale)) as u64).max(1);
                multiples.saturating_mul(multiple).min(max)
            }
            Self::LogNormal { median, spread, multiple, max } => {
                let multiples = libm::round(median * libm::exp(spread * dice::normal(rng))) as u64;
                multiples.max(1).saturating_mul(multiple).min(max)
            }
        }
    }
}

/// The greatest common divisor of both, by Euclid's algorithm.
pub(crate) fn common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
