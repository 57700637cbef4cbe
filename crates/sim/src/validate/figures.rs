//! [`ErrorFigures`]: the prediction errors of a set of accesses, and the demerit.

use headtime_units::{Nanos, RotationPeriod};
use serde::Serialize;

use super::ReplayedAccess;

/// The prediction errors of a set of accesses. Milliseconds, and fractions of one; all 0 for an
/// empty set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ErrorFigures {
    /// Accesses in the set.
    pub requests: usize,
    /// Mean recorded response.
    pub recorded_mean_ms: f64,
    /// Mean predicted response.
    pub simulated_mean_ms: f64,
    /// Root mean square distance of the two distributions of response times.
    pub demerit_ms: f64,
    /// Root mean square of the single errors.
    pub per_request_rms_ms: f64,
    /// Median of the absolute errors.
    pub median_abs_ms: f64,
    /// Fraction of accesses predicted to within 0.2 ms.
    pub within_0_2_ms: f64,
    /// Fraction of accesses predicted to within 0.2 ms or a tenth of the recorded response,
    /// whichever is more.
    pub within_0_2_ms_or_tenth: f64,
    /// Fraction of accesses predicted one revolution too long, ± 0.3 ms: the real arm caught the
    /// sector, the model's did not.
    pub revolution_too_long: f64,
    /// Fraction of accesses predicted one revolution too short, ± 0.3 ms.
    pub revolution_too_short: f64,
}

/// The maximum error of an accurate prediction.
const CLOSE_MS: f64 = 0.2;
/// The tolerance of an error of one revolution.
const REVOLUTION_MS: f64 = 0.3;

impl ErrorFigures {
    /// The errors of `accesses` of a drive with this rotation period.
    #[must_use]
    pub fn of<'a>(
        accesses: impl Iterator<Item = &'a ReplayedAccess> + Clone,
        period: RotationPeriod,
    ) -> Self {
        let mut errors: Vec<f64> =
            accesses.clone().map(|access| access.error_ns() as f64 / 1e6).collect();
        if errors.is_empty() {
            return Self::default();
        }
        let requests = errors.len();
        let revolution_ms = period.as_ns_f64() / 1e6;
        let share = |count: usize| count as f64 / requests as f64;
        let mean = |sum: f64| sum / requests as f64;
        let close = |access: &&ReplayedAccess| {
            access.error_ns().unsigned_abs() as f64 / 1e6
                <= CLOSE_MS.max(access.recorded.response.as_ms_f64() * 0.1)
        };
        let figures = Self {
            requests,
            recorded_mean_ms: mean(
                accesses.clone().map(|access| access.recorded.response.as_ms_f64()).sum(),
            ),
            simulated_mean_ms: mean(
                accesses.clone().map(|access| access.predicted.response.as_ms_f64()).sum(),
            ),
            demerit_ms: demerit_ms(
                accesses
                    .clone()
                    .map(|access| (access.recorded.response, access.predicted.response)),
            ),
            per_request_rms_ms: libm::sqrt(mean(errors.iter().map(|error| error * error).sum())),
            within_0_2_ms: share(errors.iter().filter(|error| error.abs() <= CLOSE_MS).count()),
            within_0_2_ms_or_tenth: share(accesses.filter(close).count()),
            revolution_too_long: share(
                errors.iter().filter(|error| is_revolutions_off(**error, revolution_ms)).count(),
            ),
            revolution_too_short: share(
                errors.iter().filter(|error| is_revolutions_off(**error, -revolution_ms)).count(),
            ),
            median_abs_ms: 0.0,
        };
        errors.iter_mut().for_each(|error| *error = error.abs());
        errors.sort_unstable_by(f64::total_cmp);
        Self { median_abs_ms: (errors[(requests - 1) / 2] + errors[requests / 2]) / 2.0, ..figures }
    }
}

/// True if an error is about `revolution_ms`.
pub(super) fn is_revolutions_off(error_ms: f64, revolution_ms: f64) -> bool {
    (error_ms - revolution_ms).abs() <= REVOLUTION_MS
}

/// The demerit of pairs of recorded and predicted response times (Ruemmler and Wilkes, *An
/// introduction to disk drive modeling*, 1994): the root mean square horizontal distance between
/// their two distributions, in milliseconds. The pairing does not matter. 0 without pairs.
#[must_use]
pub fn demerit_ms(responses: impl Iterator<Item = (Nanos, Nanos)>) -> f64 {
    let (mut recorded, mut predicted): (Vec<Nanos>, Vec<Nanos>) = responses.unzip();
    recorded.sort_unstable();
    predicted.sort_unstable();
    let squares = recorded.iter().zip(&predicted).map(|(a, b)| {
        let apart = a.as_ms_f64() - b.as_ms_f64();
        apart * apart
    });
    let sum: f64 = squares.sum();
    libm::sqrt(sum / recorded.len().max(1) as f64)
}
