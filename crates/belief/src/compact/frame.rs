//! [`Frame`]: how fast the platter turned while it was watched, so that times become angles.
//!
//! A completion says when a sector passed; where it is on the platter follows from the time only if the speed is known to a few parts per million. With the right speed the angles
//! seen and the angles that somebody believes of the sectors differ by one and the same amount for all sectors of which he is right; so the speed is found at which most agree
//! (the greatest length of the sum of directions), even if only a quarter of the angles are believed rightly. What the speed wanders meanwhile is followed afterwards, from sight to sight.
//!
//! Worked example, 4 ms a turn: sectors believed at 0.25 and 0.75 turn pass at 5.0 and 15.0 ms. At 4 ms a turn they were seen at 1.25 and 3.75 turns: both agree, and the platter stood
//! at 0 when the clock did.
//!
//! Does not find a speed further than [`REACH_PPM`] from the one it starts from. Cost: one complex multiplication for each sight and step, both bounded. Source: as the spindle's fit
//! of recordings (`headtime validate`); the periodogram is the textbook's.

use core::f64::consts::TAU;

use headtime_units::{Angle, Instant, RotationPeriod};

use super::sights::Sight;
use crate::angles::angle_of_turns;

/// How far from the speed that it starts from the unit's is looked for, in parts per million (vendors state 0.1 to 0.5 %; measured units lie within a few hundred).
const REACH_PPM: f64 = 500.0;
/// The part of a turn by which the last sight moves from step to step.
const STEP_TURNS: f64 = 0.125;
/// Sights times steps of the search, at the most: some tens of milliseconds.
const MOST_WORK: f64 = 3e6;
/// Weight of a sight in following what the speed wanders (guess: a fiftieth).
const FOLLOW: f64 = 0.02;
/// A sight further off than this, in turns, says nothing of the speed.
const OUTLIER_TURNS: f64 = 0.05;

/// The platter's turning over the time of some sights.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) period: RotationPeriod,
    /// The angle at the origin of the clock.
    pub(super) phase: Angle,
    /// How well the believed angles agree, 0 to 1.
    pub(super) coherence: f64,
}

impl Frame {
    /// The speed and phase at which `sights` agree best with the angles that are `believed` of their sectors' ends.
    pub(super) fn fit(start: RotationPeriod, sights: &[Sight], believed: impl Fn(usize) -> Option<Angle>) -> Self {
        let all: Vec<(f64, f64)> =
            sights.iter().enumerate().filter_map(|(number, sight)| Some((sight.at.as_ns() as f64, believed(number)?.as_turns()))).collect();
        let begin = all.first().map_or(0.0, |reading| reading.0);
        let readings: Vec<(f64, f64)> = all.iter().map(|(at, turns)| (at - begin, *turns)).collect();
        let (frequency, sum) = best(1.0 / start.as_ns_f64(), &readings);
        let period = RotationPeriod::from_fs(libm::round(1e6 / frequency) as u64).unwrap_or(start);
        // The angle at the beginning, carried back to the origin of the clock by whole numbers.
        let at_begin = angle_of_turns(libm::atan2(sum.1, sum.0) / TAU);
        let phase = at_begin - period.angle_at(Instant::from_ns(begin as u64), Angle::ZERO);
        Self { period, phase, coherence: libm::hypot(sum.0, sum.1) / readings.len().max(1) as f64 }
    }

    /// The angle under the head at `at`.
    pub(super) fn angle_at(&self, at: Instant) -> Angle {
        self.period.angle_at(at, self.phase)
    }

    /// The angles of all sights, with what the speed wandered against the angles `believed` taken out.
    pub(super) fn followed(&self, sights: &[Sight], believed: impl Fn(usize) -> Option<Angle>) -> Vec<Angle> {
        let mut wandered = 0.0_f64;
        let mut angles = Vec::with_capacity(sights.len());
        for (number, sight) in sights.iter().enumerate() {
            let angle = self.angle_at(sight.at);
            if let Some(believed) = believed(number) {
                let error = (angle + angle_of_turns(-wandered)).signed_turns_from(believed);
                if error.abs() < OUTLIER_TURNS {
                    wandered += FOLLOW * error;
                }
            }
            angles.push(angle + angle_of_turns(-wandered));
        }
        angles
    }
}

/// The frequency in turns per ns at which `(ns, turns)` agree best, and the sum of their directions there.
fn best(nominal: f64, readings: &[(f64, f64)]) -> (f64, (f64, f64)) {
    let span = readings.last().map_or(0.0, |reading| reading.0);
    let reach = nominal * REACH_PPM * 1e-6;
    let step = if span > 0.0 { (STEP_TURNS / span).min(reach) } else { reach };
    let steps = libm::ceil(reach / step);
    let room = ((MOST_WORK / (2.0 * steps + 1.0)) as usize).max(500);
    let sample: Vec<(f64, f64)> = readings.iter().copied().step_by(readings.len().div_ceil(room).max(1)).collect();
    let mut best = (f64::NEG_INFINITY, nominal);
    for number in 0..=(2.0 * steps) as u64 {
        let frequency = nominal + (number as f64 - steps) * step;
        let length = square(sum(frequency, &sample));
        if length > best.0 {
            best = (length, frequency);
        }
    }
    let (mut middle, mut width) = (best.1, step);
    // Ever finer steps around the best.
    for _ in 0..24 {
        width *= 0.6;
        let candidates = [middle - width, middle, middle + width].map(|frequency| (square(sum(frequency, readings)), frequency));
        middle = candidates.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(middle, |best| best.1);
    }
    (middle, sum(middle, readings))
}

fn sum(frequency: f64, readings: &[(f64, f64)]) -> (f64, f64) {
    readings.iter().fold((0.0, 0.0), |sum, (at, turns)| {
        let turns = turns_of(at * frequency - turns);
        let (sine, cosine) = libm::sincos(TAU * turns);
        (sum.0 + cosine, sum.1 - sine)
    })
}

fn square(direction: (f64, f64)) -> f64 {
    direction.0 * direction.0 + direction.1 * direction.1
}

fn turns_of(turns: f64) -> f64 {
    turns - libm::floor(turns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::{Lba, Nanos};

    #[test]
    fn speed_and_phase_are_found_though_most_angles_are_believed_wrongly() {
        for (ppm, wander) in [(-450.0, 0.0), (0.0, 0.0), (37.0, 0.1), (450.0, -0.05)] {
            let nominal = RotationPeriod::from_rpm(15_000.0).unwrap();
            let real = RotationPeriod::from_rpm(15_000.0 / (1.0 + ppm * 1e-6)).unwrap();
            let mut at = Instant::from_ns(987_654_321_000_000);
            let (mut sights, mut truth) = (Vec::new(), Vec::new());
            for number in 0..2_000_u64 {
                at += Nanos::from_us(3_000 + number * 7_919 % 5_000);
                sights.push(Sight { at, last: Lba::new(number) });
                let wandered = angle_of_turns(wander * number as f64 / 2_000.0);
                truth.push(real.angle_at(at, Angle::HALF) + wandered);
            }
            // A third is right.
            let believed =
                |number: usize| Some(if number % 3 == 0 { truth[number] } else { Angle::from_raw((number as u32).wrapping_mul(0x9E37_79B9)) });
            let frame = Frame::fit(nominal, &sights, believed);
            assert!(frame.coherence > 0.25, "{ppm} ppm: coherence {}", frame.coherence);
            let followed = frame.followed(&sights, |number| Some(truth[number]));
            let worst = followed.iter().zip(&truth).skip(200).map(|(seen, truth)| seen.signed_turns_from(*truth).abs()).fold(0.0, f64::max);
            assert!(worst < 0.01, "{ppm} ppm: {worst} turns");
        }
    }
}
