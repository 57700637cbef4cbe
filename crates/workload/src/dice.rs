//! Random draws that are the same on every machine: integers, or floats through `libm`.
//!
//! The crate `rand_distr` has these distributions too. It computes with the standard library's
//! floats as soon as any crate of the program enables its `std` feature, and these differ between
//! machines in the last bits. It also uses other algorithms, so seeds would give other requests.

use headtime_units::Nanos;
use rand::Rng;

/// Evenly distributed over 0 (excluded) to 1 (included), in steps of 2⁻⁵³; never 0, so that its
/// logarithm exists.
pub(crate) fn above_zero(rng: &mut impl Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Evenly distributed over 0 to `count − 1`; `count` is at least 1. By multiplication: the bias is
/// below `count` · 2⁻⁶⁴.
pub(crate) fn below(rng: &mut impl Rng, count: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(count)) >> 64) as u64
}

/// Exponentially distributed with this mean; at most 37 times the mean, where 53 bits end.
pub(crate) fn exponential(rng: &mut impl Rng, mean: f64) -> f64 {
    -libm::log(above_zero(rng)) * mean
}

/// An exponentially distributed span, to the nanosecond.
pub(crate) fn exponential_span(rng: &mut impl Rng, mean_ns: f64) -> Nanos {
    Nanos::from_ns(libm::round(exponential(rng, mean_ns)) as u64)
}

/// Geometrically distributed from 1 on with this mean, more than 1: the number of trials up to the
/// first success, by the inverse of its distribution.
pub(crate) fn geometric(rng: &mut impl Rng, mean: f64) -> u64 {
    let scale = -1.0 / libm::log1p(-1.0 / mean);
    (libm::ceil(exponential(rng, scale)) as u64).max(1)
}

/// Normally distributed with mean 0 and deviation 1, by Box and Muller's transform (1958).
pub(crate) fn normal(rng: &mut impl Rng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(above_zero(rng)));
    radius * libm::cos(2.0 * core::f64::consts::PI * above_zero(rng))
}
