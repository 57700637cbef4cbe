//! [`Frame`]: the speed and phase of the platter during an observation, which convert times to
//! angles.
//!
//! A completion shows the time at which a sector passed. Its angle follows from the time only if
//! the speed is known to a few parts per million. At the right speed, the difference between the
//! observed and the predicted angle is the same for all correctly predicted sectors. The fit
//! therefore selects the speed at which most differences agree (the greatest length of the sum of
//! directions). A quarter of correct predictions is enough. Drift of the speed is followed
//! afterwards, from angle sample to angle sample.
//!
//! Worked example, 4 ms a turn: sectors predicted at 0.25 and 0.75 turn pass at 5.0 and 15.0 ms. At
//! 4 ms a turn these are 1.25 and 3.75 turns: both agree, and the platter was at angle 0 at time 0.
//!
//! Limits: the speed must lie within [`REACH_PPM`] of the initial one and, where the angle samples
//! span hours, within [`MAX_STEPS`] steps; over such times the filter has followed the platter.
//! Cost: one complex multiplication per angle sample and step, both bounded and divided into slices
//! ([`Fit`]). Source: the same fit as for recordings (`headtime validate`); the periodogram is the
//! textbook method.

use core::f64::consts::TAU;

use headtime_units::{Angle, Instant, RotationPeriod};

use super::budget::Budget;
use crate::angles::angle_of_turns;

/// The maximum deviation from the initial speed, in parts per million (vendors state 0.1 to 0.5 %;
/// measured drives lie within a few hundred).
const REACH_PPM: f64 = 500.0;
/// The share of a turn by which the last angle sample moves from step to step.
const STEP_TURNS: f64 = 0.125;
/// The maximum number of steps to either side: two hours of a 7,200 rpm drive over the whole range.
const MAX_STEPS: f64 = 4_096.0;
/// The approximate product of angle samples and steps, unless that leaves fewer than [`MIN_SAMPLE`]
/// angle samples.
const MAX_WORK: f64 = 3e6;
const MIN_SAMPLE: usize = 500;
/// The number of Newton steps towards the maximum. Each reduces the error considerably; the first
/// starts within a sixteenth of a turn over all angle samples.
const SHARPENINGS: u32 = 4;
/// The cost of a sine and a cosine, in operations, including the access to the sum.
const SINE: u64 = 32;
/// The cost of one step of the sum.
const PRODUCT: u64 = 2;
/// The weight of an angle sample in the drift of the speed (guess: a fiftieth).
const FOLLOW: f64 = 0.02;
/// The error, in turns, above which an angle sample is ignored as an outlier.
const OUTLIER_TURNS: f64 = 0.05;

/// The rotation of the platter over the time of some angle samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) period: RotationPeriod,
    /// The angle at the origin of the clock.
    pub(super) phase: Angle,
    /// The coherence of the predicted angles, 0 to 1.
    pub(super) coherence: f64,
}

impl Frame {
    /// The angle under the head at `at`.
    pub(super) fn angle_at(&self, at: Instant) -> Angle {
        self.period.angle_at(at, self.phase)
    }
}

/// Searches for the speed and phase at which the angle samples agree best with the predicted end
/// angles of their sectors.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    start: RotationPeriod,
    begin: f64,
    /// Nanoseconds since the first angle sample, and predicted turns.
    readings: Vec<(f64, f64)>,
    stage: Stage,
    /// The next reading.
    at: usize,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Sums of directions at speeds `step` turns per ns apart, `steps` to either side of the start,
    /// over each `stride`th reading.
    Steps { step: f64, steps: f64, stride: usize, sums: Vec<Complex> },
    /// Refinement at `frequency`, which stays within `within` of `around`.
    Sharpen { frequency: f64, around: f64, within: f64, rounds: u32, moments: [Complex; 3] },
}

type Complex = (f64, f64);

impl Fit {
    /// Begins at the speed `start`, with times and predicted angles in the order of time.
    pub(super) fn begin(
        start: RotationPeriod,
        angle_samples: impl ExactSizeIterator<Item = (Instant, Angle)>,
    ) -> Self {
        let mut begin = 0.0;
        let mut readings = Vec::with_capacity(angle_samples.len());
        for (at, predicted) in angle_samples {
            if readings.is_empty() {
                begin = at.as_ns() as f64;
            }
            readings.push((at.as_ns() as f64 - begin, predicted.as_turns()));
        }
        let span = readings.last().map_or(0.0, |reading: &(f64, f64)| reading.0);
        let reach = REACH_PPM * 1e-6 / start.as_ns_f64();
        let step = if span > 0.0 { (STEP_TURNS / span).min(reach) } else { reach };
        let steps = libm::ceil(reach / step).min(MAX_STEPS);
        let room = ((MAX_WORK / (2.0 * steps + 1.0)) as usize).max(MIN_SAMPLE);
        let stride = readings.len().div_ceil(room).max(1);
        let sums = vec![(0.0, 0.0); 2 * steps as usize + 1];
        Self { start, begin, readings, stage: Stage::Steps { step, steps, stride, sums }, at: 0 }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        let sums = if let Stage::Steps { sums, .. } = &self.stage {
            size_of_val(sums.as_slice())
        } else {
            0
        };
        (self.readings.capacity() * size_of::<(f64, f64)>() + sums) as u64
    }

    /// Advances as far as the budget allows; returns the result once it is complete.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Option<Frame> {
        while budget.is_left() {
            let nominal = 1.0 / self.start.as_ns_f64();
            match &mut self.stage {
                Stage::Steps { step, steps, stride, sums } => {
                    if let Some((at, turns)) = self.readings.get(self.at) {
                        // Each direction turns by a constant angle from step to step.
                        let mut direction = direction(at * (nominal - *steps * *step) - turns);
                        let by = self::direction(at * *step);
                        for sum in sums.iter_mut() {
                            *sum = (sum.0 + direction.0, sum.1 + direction.1);
                            direction = product(direction, by);
                        }
                        self.at += *stride;
                        budget.spend(2 * SINE + PRODUCT * sums.len() as u64);
                        continue;
                    }
                    let best = (0..sums.len())
                        .max_by(|a, b| square(sums[*a]).total_cmp(&square(sums[*b])).then(b.cmp(a)))
                        .unwrap_or(0);
                    let around = nominal + (best as f64 - *steps) * *step;
                    self.stage = Stage::Sharpen {
                        frequency: around,
                        around,
                        within: *step,
                        rounds: 0,
                        moments: NOTHING,
                    };
                }
                Stage::Sharpen { frequency, around, within, rounds, moments } => {
                    let end = self.readings.len().min(self.at + budget.pieces(SINE) as usize);
                    for (at, turns) in &self.readings[self.at..end] {
                        let direction = direction(at * *frequency - turns);
                        let mut weight = 1.0;
                        for moment in moments.iter_mut() {
                            *moment =
                                (moment.0 + weight * direction.0, moment.1 + weight * direction.1);
                            weight *= TAU * at;
                        }
                    }
                    budget.spend(SINE * (end - self.at) as u64);
                    self.at = end;
                    if end < self.readings.len() {
                        continue;
                    }
                    if *rounds == SHARPENINGS {
                        return Some(frame(
                            self.start,
                            self.begin,
                            *frequency,
                            moments[0],
                            self.readings.len(),
                        ));
                    }
                    *frequency =
                        (*frequency + newton(moments)).clamp(*around - *within, *around + *within);
                    (*rounds, *moments) = (*rounds + 1, NOTHING);
                }
            }
            self.at = 0;
        }
        None
    }
}

/// Corrects the angles of angle samples for the drift of the speed, one sample after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follower {
    frame: Frame,
    wandered: f64,
}

impl Follower {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, wandered: 0.0 }
    }

    /// The angle under the head at `at`, when a sector ended whose end is predicted at `predicted`.
    pub(super) fn angle_at(&mut self, at: Instant, predicted: Angle) -> Angle {
        let angle = self.frame.angle_at(at);
        let error = (angle + angle_of_turns(-self.wandered)).signed_turns_from(predicted);
        if error.abs() < OUTLIER_TURNS {
            self.wandered += FOLLOW * error;
        }
        angle + angle_of_turns(-self.wandered)
    }
}

const NOTHING: [Complex; 3] = [(0.0, 0.0); 3];

/// The frame that turns `frequency` times per ns, from the sum of all directions at that speed.
fn frame(start: RotationPeriod, begin: f64, frequency: f64, sum: Complex, count: usize) -> Frame {
    let period = RotationPeriod::from_fs(libm::round(1e6 / frequency) as u64).unwrap_or(start);
    // The angle at the first sample, carried back to the origin of the clock in whole numbers.
    let at_begin = angle_of_turns(libm::atan2(-sum.1, sum.0) / TAU);
    let phase = at_begin - period.angle_at(Instant::from_ns(begin as u64), Angle::ZERO);
    Frame { period, phase, coherence: libm::hypot(sum.0, sum.1) / count.max(1) as f64 }
}

/// The distance to the maximum of the length of the sum, from its slope and curvature in the
/// frequency; zero where it curves upwards.
fn newton(moments: &[Complex; 3]) -> f64 {
    let [sum, by_time, by_square] = *moments;
    // The derivative of the sum is i times the first moment; the second derivative is minus the
    // second moment.
    let slope = 2.0 * (sum.1 * by_time.0 - sum.0 * by_time.1);
    let curvature = 2.0 * (square(by_time) - sum.0 * by_square.0 - sum.1 * by_square.1);
    if curvature < 0.0 { -slope / curvature } else { 0.0 }
}

/// The unit vector at this angle in turns.
fn direction(turns: f64) -> Complex {
    let (sine, cosine) = libm::sincos(TAU * (turns - libm::floor(turns)));
    (cosine, sine)
}

fn product(one: Complex, other: Complex) -> Complex {
    (one.0 * other.0 - one.1 * other.1, one.0 * other.1 + one.1 * other.0)
}

fn square(direction: Complex) -> f64 {
    direction.0 * direction.0 + direction.1 * direction.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::Nanos;

    #[test]
    fn speed_and_phase_are_found_despite_mostly_wrong_predictions() {
        for (ppm, wander) in [(-450.0, 0.0), (0.0, 0.0), (37.0, 0.1), (450.0, -0.05)] {
            let nominal = RotationPeriod::from_rpm(15_000.0).unwrap();
            let real = RotationPeriod::from_rpm(15_000.0 / (1.0 + ppm * 1e-6)).unwrap();
            let mut at = Instant::from_ns(987_654_321_000_000);
            let (mut angle_samples, mut truth) = (Vec::new(), Vec::<Angle>::new());
            for number in 0..2_000_u64 {
                at += Nanos::from_us(3_000 + number * 7_919 % 5_000);
                angle_samples.push(at);
                let wandered = angle_of_turns(wander * number as f64 / 2_000.0);
                truth.push(real.angle_at(at, Angle::HALF) + wandered);
            }
            // A third of the predictions is right.
            let predicted = |number: usize| {
                if number.is_multiple_of(3) {
                    truth[number]
                } else {
                    Angle::from_raw((number as u32).wrapping_mul(0x9E37_79B9))
                }
            };
            let mut fit = Fit::begin(
                nominal,
                angle_samples.iter().enumerate().map(|(number, at)| (*at, predicted(number))),
            );
            let frame = loop {
                let mut budget = Budget::slice();
                let found = fit.advance(&mut budget);
                assert!(
                    budget.spent() <= super::super::budget::MOST,
                    "{} operations at once",
                    budget.spent()
                );
                if let Some(found) = found {
                    break found;
                }
            };
            assert!(frame.coherence > 0.25, "{ppm} ppm: coherence {}", frame.coherence);
            let mut follower = Follower::new(frame);
            let followed: Vec<Angle> = angle_samples
                .iter()
                .zip(&truth)
                .map(|(at, truth)| follower.angle_at(*at, *truth))
                .collect();
            let worst = followed
                .iter()
                .zip(&truth)
                .skip(200)
                .map(|(seen, truth)| seen.signed_turns_from(*truth).abs())
                .fold(0.0, f64::max);
            assert!(worst < 0.01, "{ppm} ppm: {worst} turns");
        }
    }
}
