//! [`Frame`]: how fast the platter turned while it was watched, so that times become angles.
//!
//! A completion says when a sector passed; where it is on the platter follows from the time only if
//! the speed is known to a few parts per million. With the right speed the angles seen and the
//! angles that somebody believes of the sectors differ by one and the same amount for all sectors
//! of which he is right; so the speed is found at which most agree (the greatest length of the sum
//! of directions), even if only a quarter of the angles are believed rightly. What the speed
//! wanders meanwhile is followed afterwards, from angle sample to angle sample.
//!
//! Worked example, 4 ms a turn: sectors believed at 0.25 and 0.75 turn pass at 5.0 and 15.0 ms. At
//! 4 ms a turn they were seen at 1.25 and 3.75 turns: both agree, and the platter stood at 0 when
//! the clock did.
//!
//! Does not find a speed further than [`REACH_PPM`] from the one it starts from, nor, where angle samples
//! span hours, further than [`MAX_STEPS`] steps: over such times the filter has followed the
//! platter. Cost: one complex multiplication for each angle sample and step, both bounded; taken a few at
//! a time ([`Fit`]). Source: as the spindle's fit of recordings (`headtime validate`); the
//! periodogram is the textbook's.

use core::f64::consts::TAU;

use headtime_units::{Angle, Instant, RotationPeriod};

use super::budget::Budget;
use crate::angles::angle_of_turns;

/// How far from the speed that it starts from the unit's is looked for, in parts per million
/// (vendors state 0.1 to 0.5 %; measured units lie within a few hundred).
const REACH_PPM: f64 = 500.0;
/// The part of a turn by which the last angle sample moves from step to step.
const STEP_TURNS: f64 = 0.125;
/// Steps to either side, at the most: two hours of a 7,200 rpm drive at the whole reach.
const MAX_STEPS: f64 = 4_096.0;
/// AngleSamples times steps of the search, about, unless that leaves fewer than [`MIN_SAMPLE`] angle samples.
const MAX_WORK: f64 = 3e6;
const MIN_SAMPLE: usize = 500;
/// Steps of Newton's towards the top, each of which makes the error much smaller than it was: the
/// first is within a sixteenth of a turn over all angle samples.
const SHARPENINGS: u32 = 4;
/// A sine and a cosine, in operations; with them the place of a sum is found.
const SINE: u64 = 32;
/// What the sum over one step takes.
const PRODUCT: u64 = 2;
/// Weight of a angle sample in following what the speed wanders (guess: a fiftieth).
const FOLLOW: f64 = 0.02;
/// A angle sample further off than this, in turns, says nothing of the speed.
const OUTLIER_TURNS: f64 = 0.05;

/// The platter's turning over the time of some angle samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) period: RotationPeriod,
    /// The angle at the origin of the clock.
    pub(super) phase: Angle,
    /// How well the believed angles agree, 0 to 1.
    pub(super) coherence: f64,
}

impl Frame {
    /// The angle under the head at `at`.
    pub(super) fn angle_at(&self, at: Instant) -> Angle {
        self.period.angle_at(at, self.phase)
    }
}

/// Looks for the speed and phase at which angle samples agree best with the angles that are believed of
/// their sectors' ends.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    start: RotationPeriod,
    begin: f64,
    /// Nanoseconds since the first angle sample, and believed turns.
    readings: Vec<(f64, f64)>,
    stage: Stage,
    /// The reading that comes next.
    at: usize,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Sums of directions at speeds `step` turns per ns apart, `steps` to either side of the start,
    /// over each `stride`th reading.
    Steps { step: f64, steps: f64, stride: usize, sums: Vec<Complex> },
    /// At `frequency`, not to be left further than `within` from `around`.
    Sharpen { frequency: f64, around: f64, within: f64, rounds: u32, moments: [Complex; 3] },
}

type Complex = (f64, f64);

impl Fit {
    /// Begins at the speed `start`, with times and the angles believed, rising by time.
    pub(super) fn begin(
        start: RotationPeriod,
        angle_samples: impl ExactSizeIterator<Item = (Instant, Angle)>,
    ) -> Self {
        let mut begin = 0.0;
        let mut readings = Vec::with_capacity(angle_samples.len());
        for (at, believed) in angle_samples {
            if readings.is_empty() {
                begin = at.as_ns() as f64;
            }
            readings.push((at.as_ns() as f64 - begin, believed.as_turns()));
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

    /// Goes on as far as the budget allows; what was found when there is no more.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Option<Frame> {
        while budget.is_left() {
            let nominal = 1.0 / self.start.as_ns_f64();
            match &mut self.stage {
                Stage::Steps { step, steps, stride, sums } => {
                    if let Some((at, turns)) = self.readings.get(self.at) {
                        // From step to step each direction turns on by the same angle.
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

/// Takes out of the angles of angle samples what the speed wandered against what is believed, one angle sample
/// after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follower {
    frame: Frame,
    wandered: f64,
}

impl Follower {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, wandered: 0.0 }
    }

    /// The angle under the head at `at`, where a sector ended that was believed to end at
    /// `believed`.
    pub(super) fn angle_at(&mut self, at: Instant, believed: Angle) -> Angle {
        let angle = self.frame.angle_at(at);
        let error = (angle + angle_of_turns(-self.wandered)).signed_turns_from(believed);
        if error.abs() < OUTLIER_TURNS {
            self.wandered += FOLLOW * error;
        }
        angle + angle_of_turns(-self.wandered)
    }
}

const NOTHING: [Complex; 3] = [(0.0, 0.0); 3];

/// The frame that turns `frequency` times in a ns, from the sum of all directions at that speed.
fn frame(start: RotationPeriod, begin: f64, frequency: f64, sum: Complex, count: usize) -> Frame {
    let period = RotationPeriod::from_fs(libm::round(1e6 / frequency) as u64).unwrap_or(start);
    // The angle at the beginning, carried back to the origin of the clock by whole numbers.
    let at_begin = angle_of_turns(libm::atan2(-sum.1, sum.0) / TAU);
    let phase = at_begin - period.angle_at(Instant::from_ns(begin as u64), Angle::ZERO);
    Frame { period, phase, coherence: libm::hypot(sum.0, sum.1) / count.max(1) as f64 }
}

/// How far the length of the sum of directions is from its top, by its slope and curvature in the
/// frequency; none where it curves upwards.
fn newton(moments: &[Complex; 3]) -> f64 {
    let [sum, by_time, by_square] = *moments;
    // The slope of the sum is i times the first moment, its curvature less the second.
    let slope = 2.0 * (sum.1 * by_time.0 - sum.0 * by_time.1);
    let curvature = 2.0 * (square(by_time) - sum.0 * by_square.0 - sum.1 * by_square.1);
    if curvature < 0.0 { -slope / curvature } else { 0.0 }
}

/// One, turned by so many turns.
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
    fn speed_and_phase_are_found_though_most_angles_are_believed_wrongly() {
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
            // A third is right.
            let believed = |number: usize| {
                if number.is_multiple_of(3) {
                    truth[number]
                } else {
                    Angle::from_raw((number as u32).wrapping_mul(0x9E37_79B9))
                }
            };
            let mut fit = Fit::begin(
                nominal,
                angle_samples.iter().enumerate().map(|(number, at)| (*at, believed(number))),
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
