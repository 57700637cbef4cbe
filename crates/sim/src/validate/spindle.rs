//! [`SpindleFit`]: the recorded drive's spindle period, and its angle at the start of the
//! recording.
//!
//! A command served by the media completes a fixed time (bus and report) after its last sector has
//! passed: at a known *angle*, whatever the arm did before. The model gives the angle, the
//! recording the time. With the right period P and phase the directions time / P − angle agree.
//! Their mean length is the coherence: 1 if all agree, about 1/√n for random directions.
//!
//! Worked example, 6 ms per revolution: completions at 4.5, 13.5 and 25.5 ms at model angles 0.25,
//! 0.75 and 0.75. The directions are 0.75 − 0.25 = 0.5, 2.25 − 0.75 = 0.5 and 4.25 − 0.75 = 0.5
//! (whole revolutions dropped): coherence 1, and at time 0 the angle was −0.5, that is half a
//! revolution.
//!
//! The search maximizes coherence over all periods within ± [`REACH_PPM`] of the profile's, in
//! steps that move the last completion by an eighth of a revolution, then by golden section between
//! the neighbors. Every second access is fitted (the first, third, …); the others decide whether
//! the fit is significant: [`SpindleFit::coherent`].
//!
//! Not guaranteed: a period for recordings so short that ± 500 ppm do not show, and a fit if the
//! spindle drifts by a large part of a revolution over the recording. Cost: one complex
//! multiplication for each access and step; both are bounded.

use core::f64::consts::TAU;

use headtime_units::{Angle, RotationPeriod};
use headtime_workload::trace::Recording;

use super::{PredictedAccess, Served};

/// Search range around the profile's period in parts per million. Vendors state ± 0.1 to 0.5 %;
/// measured drives lie within a few hundred ppm.
pub(super) const REACH_PPM: f64 = 500.0;

/// The fit of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpindleFit {
    /// The best period.
    pub period: RotationPeriod,
    /// The best angle at the start of the recording.
    pub phase: Angle,
    /// The number of fitted completions.
    pub fitted: usize,
    /// Their coherence, 0 to 1.
    pub coherence: f64,
    /// The coherence of the other half of the completions with the fitted period and phase, −1 to
    /// 1; about 0 if the fit means nothing.
    pub coherence_held_out: f64,
    /// The limit of [`SpindleFit::coherence_held_out`] by chance, exceeded once in millions of
    /// recordings.
    pub chance: f64,
    /// True if the fit is significant; otherwise period and phase are accidental.
    pub coherent: bool,
}

impl SpindleFit {
    /// Fits the completions served by the media according to the model.
    pub(super) fn fit(
        nominal: RotationPeriod,
        recording: &Recording,
        predictions: &[PredictedAccess],
    ) -> Self {
        let mut halves: [Vec<AngleReading>; 2] = [Vec::new(), Vec::new()];
        let completions = recording.completion_times().zip(predictions).enumerate();
        for (number, (at, predicted)) in
            completions.filter(|(_, (_, predicted))| predicted.served == Served::Media)
        {
            halves[number % 2].push(AngleReading {
                at_ns: at.as_ns() as f64,
                turns: predicted.completion_angle.as_turns(),
            });
        }
        let [fitted, held_out] = halves;
        let frequency = best_frequency(1.0 / nominal.as_ns_f64(), &fitted);
        let sum = Phasor::sum(frequency, &fitted);
        let phase = Angle::from_turns(-sum.turns());
        let held = Phasor::sum(frequency, &held_out).rotated_by(phase.as_turns());
        let share = |length: f64, of: &[AngleReading]| {
            if of.is_empty() { 0.0 } else { length / of.len() as f64 }
        };
        let chance = DEVIATIONS / libm::sqrt(2.0 * held_out.len().max(1) as f64);
        let coherence_held_out = share(held.cosine, &held_out);
        Self {
            period: RotationPeriod::from_fs(libm::round(1e6 / frequency) as u64).unwrap_or(nominal),
            phase,
            fitted: fitted.len(),
            coherence: share(sum.length(), &fitted),
            coherence_held_out,
            chance,
            coherent: coherence_held_out > chance,
        }
    }
}

/// The cosine of a random direction has deviation 1/√2; the mean of n exceeds this many of its
/// deviations once in three million times.
const DEVIATIONS: f64 = 5.0;
/// The movement of the last completion per search step, in revolutions.
const STEP_TURNS: f64 = 0.125;
/// Maximum number of accesses times search steps; some tenths of a second. Longer recordings are
/// searched by a sample, then refined by all accesses.
const MAX_WORK: f64 = 1e8;
/// Minimum number of accesses in a sample.
const MIN_SAMPLE: usize = 1_000;
/// Golden-section steps: 0.618⁴⁰ of a search step is negligible.
const REFINEMENTS: u32 = 40;

/// A recorded completion and the model's angle at it.
#[derive(Clone, Copy, Debug)]
struct AngleReading {
    at_ns: f64,
    turns: f64,
}

/// A sum of directions.
#[derive(Clone, Copy, Debug, Default)]
struct Phasor {
    cosine: f64,
    sine: f64,
}

impl Phasor {
    fn of_turns(turns: f64) -> Self {
        let (sine, cosine) = libm::sincos(TAU * (turns - libm::floor(turns)));
        Self { cosine, sine }
    }

    /// The directions time · frequency − angle of all readings.
    fn sum(frequency: f64, readings: &[AngleReading]) -> Self {
        readings.iter().fold(Self::default(), |sum, reading| {
            sum.plus(Self::of_turns(reading.at_ns * frequency - reading.turns))
        })
    }

    fn plus(self, other: Self) -> Self {
        Self { cosine: self.cosine + other.cosine, sine: self.sine + other.sine }
    }

    fn times(self, other: Self) -> Self {
        let cosine = self.cosine * other.cosine - self.sine * other.sine;
        Self { cosine, sine: self.cosine * other.sine + self.sine * other.cosine }
    }

    fn rotated_by(self, turns: f64) -> Self {
        self.times(Self::of_turns(turns))
    }

    fn square(self) -> f64 {
        self.cosine * self.cosine + self.sine * self.sine
    }

    fn length(self) -> f64 {
        libm::sqrt(self.square())
    }

    fn turns(self) -> f64 {
        libm::atan2(self.sine, self.cosine) / TAU
    }
}

/// The frequency in revolutions per nanosecond with the best agreement; `nominal` without readings.
fn best_frequency(nominal: f64, readings: &[AngleReading]) -> f64 {
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else { return nominal };
    let reach = nominal * REACH_PPM * 1e-6;
    let span = last.at_ns - first.at_ns;
    // A recording of a few revolutions has no steps, and a range of `step`.
    let step = if span > 0.0 { (STEP_TURNS / span).min(reach) } else { reach };
    let steps = libm::ceil(reach / step);
    let room = ((MAX_WORK / (2.0 * steps + 1.0)) as usize).max(MIN_SAMPLE);
    let stride = readings.len().div_ceil(room);
    let sample: Vec<AngleReading> = readings.iter().copied().step_by(stride).collect();

    let lowest = nominal - steps * step;
    let mut directions: Vec<Phasor> = sample
        .iter()
        .map(|reading| Phasor::of_turns(reading.at_ns * lowest - reading.turns))
        .collect();
    let advance: Vec<Phasor> =
        sample.iter().map(|reading| Phasor::of_turns(reading.at_ns * step)).collect();
    let mut best = (0.0, nominal);
    for number in 0..=(2.0 * steps) as u64 {
        let mut sum = Phasor::default();
        for (direction, advance) in directions.iter_mut().zip(&advance) {
            sum = sum.plus(*direction);
            *direction = direction.times(*advance);
        }
        if sum.square() > best.0 {
            best = (sum.square(), lowest + number as f64 * step);
        }
    }
    refined(best.1 - step, best.1 + step, readings).clamp(nominal - reach, nominal + reach)
}

/// The frequency of maximum coherence between two, by golden section.
fn refined(mut low: f64, mut high: f64, readings: &[AngleReading]) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    let value = |frequency: f64| Phasor::sum(frequency, readings).square();
    let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut at_left, mut at_right) = (value(left), value(right));
    for _ in 0..REFINEMENTS {
        if at_left > at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = value(right);
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completions of a platter with angle `phase` at time 0, at unrelated times.
    fn readings(period_ns: f64, phase: f64, count: u32, gap_ns: f64) -> Vec<AngleReading> {
        let times = (1..=count)
            .map(|number| gap_ns * (f64::from(number) + 0.37 * libm::sin(f64::from(number) * 1.7)));
        times
            .map(|at_ns| AngleReading {
                at_ns,
                turns: Angle::from_turns(at_ns / period_ns + phase).as_turns(),
            })
            .collect()
    }

    #[test]
    fn the_worked_example_is_half_a_turn() {
        let readings = [(4.5, 0.25), (13.5, 0.75), (25.5, 0.75)]
            .map(|(ms, turns)| AngleReading { at_ns: ms * 1e6, turns });
        let sum = Phasor::sum(1.0 / 6e6, &readings);
        assert!((sum.length() - 3.0).abs() < 1e-9);
        assert!(Angle::from_turns(-sum.turns()).signed_turns_from(Angle::HALF).abs() < 1e-9);
    }

    #[test]
    fn any_period_within_reach_is_found_over_seconds_and_over_hours() {
        for (count, gap_ns) in [(200, 9e6), (3_000, 40e6), (20_000, 900e6)] {
            for ppm in [-499.0, -120.0, 0.0, 33.3, 480.0] {
                let period = 6e6 * (1.0 + ppm * 1e-6);
                let readings = readings(period, 0.3, count, gap_ns);
                let found = 1.0 / best_frequency(1.0 / 6e6, &readings);
                let off_turns = (found / period - 1.0) * f64::from(count) * gap_ns / period;
                assert!(
                    off_turns.abs() < 1e-3,
                    "{count} completions, {ppm} ppm: {off_turns} turns off at the end"
                );
                let phase = -Phasor::sum(1.0 / found, &readings).turns();
                assert!(
                    Angle::from_turns(phase).signed_turns_from(Angle::from_turns(0.3)).abs() < 1e-3
                );
            }
        }
    }
}
