//! [`ArrivalErrors`]: what the accesses that are a revolution off say about the arm.
//!
//! A sector is caught or missed by a hair: an arm time that is wrong by microseconds costs nothing
//! at all, or a whole turn. For an access whose prediction is one turn too long, the model's arm
//! came just behind the sector and then waited for nearly a turn; it would have caught it, had it
//! come earlier by what was missing to that turn. For one that is a turn too short it must come
//! later by more than it waited. Example, 6 ms a turn: predicted 6 ms too long, with a wait of 5.9
//! ms: an arm 0.1 ms earlier makes it right.
//!
//! How to read it: small shifts mean arm times that are a little wrong. Shifts that are spread over
//! the turn (a median near half of it) mean that the arm is not to blame: the real drive lost a
//! turn for a reason of its own, such as reading a sector twice.
//!
//! Does not say how wrong arm times are on the whole: only those that were so wrong that it
//! mattered are seen.

use headtime_units::RotationPeriod;
use serde::Serialize;

use super::figures::is_turns_off;
use super::{ReplayedAccess, Served};

/// Predictions of accesses to the platter that are one revolution off, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ArrivalErrors {
    /// PredictedAccess a revolution too long: the model's arm should have come earlier.
    pub too_late: ArrivalShift,
    /// PredictedAccess a revolution too short: the model's arm should have come later, if the arm was the
    /// reason.
    pub too_early: ArrivalShift,
}

/// By how much the arm would have had to come earlier, or later; milliseconds, 0 for no request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ArrivalShift {
    /// Accesses that are a revolution off this way.
    pub requests: usize,
    /// For half of them no more than this.
    pub median_ms: f64,
    /// For nine of ten of them no more than this.
    pub p90_ms: f64,
}

impl ArrivalErrors {
    pub(super) fn of(accesses: &[ReplayedAccess], period: RotationPeriod) -> Self {
        let turn_ms = period.as_ns_f64() / 1e6;
        // An access over several tracks has several waits; more than a turn of them says nothing of
        // the arm.
        let wait_ms =
            |access: &ReplayedAccess| access.predicted.breakdown.rotate.as_ms_f64().min(turn_ms);
        let off_by = |turns_ms: f64| {
            let media = accesses.iter().filter(|access| access.predicted.served == Served::Media);
            media.filter(move |access| is_turns_off(access.error_ns() as f64 / 1e6, turns_ms))
        };
        Self {
            too_late: ArrivalShift::of(
                off_by(turn_ms).map(|access| turn_ms - wait_ms(access)).collect(),
            ),
            too_early: ArrivalShift::of(off_by(-turn_ms).map(wait_ms).collect()),
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
