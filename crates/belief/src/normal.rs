//! The standard normal distribution, as far as learning from intervals needs it.

/// The chance that a standard normal exceeds `z`.
pub(crate) fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z * core::f64::consts::FRAC_1_SQRT_2)
}

pub(crate) fn density(z: f64) -> f64 {
    if z.abs() > 30.0 { 0.0 } else { libm::exp(-0.5 * z * z) * 0.398_942_280_401_432_7 }
}

/// `z × density`, zero where the density is (so that an infinite distance costs nothing).
pub(crate) fn bounded_product(z: f64, density: f64) -> f64 {
    if density == 0.0 { 0.0 } else { z * density }
}
