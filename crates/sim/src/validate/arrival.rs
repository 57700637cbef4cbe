//! [`ArrivalErrors`]: arm-time errors derived from accesses that are one revolution off.
//!
//! A head just catches or just misses a sector: an arm time that is wrong by microseconds costs
//! either nothing or a whole revolution. If the prediction is one revolution too long, the model's
//! arm came just after the sector and waited for nearly a revolution; it would have caught the
//! sector, had it come earlier by the rest of that revolution. If the prediction is one revolution
//! too short, the arm must come later by more than its wait. Example, a revolution of 6 ms:
//! predicted 6 ms too long, with a wait of 5.9 ms: an arm 0.1 ms earlier makes it right.
//!
//! Small shifts mean slightly wrong arm times. Shifts spread over the revolution (a median near
//! half of it) mean that the arm is not the cause: the real drive lost a revolution for another
//! reason, such as reading a sector twice.
//!
//! The result covers only the arm times whose error cost a revolution.

use headtime_units::RotationPeriod;
use serde::Serialize;

use super::figures::is_revolutions_off;
use super::{ReplayedAccess, Served};

/// Predictions of media accesses that are one revolution off, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ArrivalErrors {
    /// Predicted a revolution too long: the model's arm should come earlier.
    pub too_late: ArrivalShift,
    /// Predicted a revolution too short: the model's arm should come later, if the arm is the
    /// cause.
    pub too_early: ArrivalShift,
}

/// The shift that the arm would need, in milliseconds; 0 without requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ArrivalShift {
    /// Accesses that are one revolution off in this direction.
    pub requests: usize,
    /// The median.
    pub median_ms: f64,
    /// The 90th percentile.
    pub p90_ms: f64,
}

impl ArrivalErrors {
    pub(super) fn of(accesses: &[ReplayedAccess], period: RotationPeriod) -> Self {
        let revolution_ms = period.as_ns_f64() / 1e6;
        // An access over several tracks has several waits; more than a revolution of them says
        // nothing about the arm.
        let wait_ms = |access: &ReplayedAccess| {
            access.predicted.breakdown.rotate.as_ms_f64().min(revolution_ms)
        };
        let off_by = |turns_ms: f64| {
            let media = accesses.iter().filter(|access| access.predicted.served == Served::Media);
            media.filter(move |access| is_revolutions_off(access.error_ns() as f64 / 1e6, turns_ms))
        };
        Self {
            too_late: ArrivalShift::of(
                off_by(revolution_ms).map(|access| revolution_ms - wait_ms(access)).collect(),
            ),
            too_early: ArrivalShift::of(off_by(-revolution_ms).map(wait_ms).collect()),
        }
    }
}

impl ArrivalShift {
    fn of(mut shifts: Vec<f64>) -> Self {
        shifts.sort_unstable_by(f64::total_cmp);
        let quantile = |tenths: usize| {
            shifts
                .get((shifts.len() * tenths).div_ceil(10).saturating_sub(1))
                .copied()
                .unwrap_or_default()
        };
        Self { requests: shifts.len(), median_ms: quantile(5), p90_ms: quantile(9) }
    }
}
