//! [`Clock`]: the rotation of the spindle, measured by reads of a few *reference sectors*, whose
//! angles to each other are known.
//!
//! The completions of reference sectors, less their angles, lie a whole number of revolutions
//! apart, except for noise. A line through the latest ones (revolution against time) gives the
//! present period and phase; a line through all of them gives the mean period. All angles are
//! counted from these completions. So the delay from the end of a sector to the completion (bus,
//! overhead, mean jitter) is the same in all of them and cancels.
//!
//! Worked example: a reference sector is read every 1.5 s for 60 s, with 22 µs of noise on each
//! reading. The line's slope is wrong by 0.2 µs per second, so that an angle between two readings
//! is known to about 4 µs, and the period to 0.2 ppm.
//!
//! Guarantees: a reading far off the line changes nothing, and a spindle that drifts by some ppm in
//! minutes is followed. A lost revolution (a drive that was stopped) is not followed:
//! [`Clock::reset_phase`] starts again. The line goes through as many of the latest readings as lie
//! on one ([`WINDOW`] to [`LONGEST_WINDOW`]), so a steadier spindle gives a better clock. Cost: a
//! few lines for each reading. Source: ours, after what Worthington, Ganger, Patt and Wilkes (1995)
//! call MTBRC measurements, with long baselines.

use headtime_units::Instant;
use serde::{Deserialize, Serialize};

use crate::numbers::{FAR, mean, median, spread, wrap};

/// The fewest readings of the present line, once there are as many (guess: a minute at 1.5 s each),
/// and the most.
const WINDOW: usize = 40;
const LONGEST_WINDOW: usize = 1_024;
/// A line is bent if its readings lie off it by more than this many standard errors somewhere, or
/// if a parabola through them ends off the line by more than so many. The error at the end is that
/// of all angles, and a part of the readings shows it late: one of four that is off by 4 standard
/// errors means 12 at the end.
const BENT: f64 = 4.5;
const BENT_AT_END: f64 = 2.5;
/// The number of readings kept for the mean period; if there are more, every other one is dropped.
const MAX_KEPT: usize = 512;

/// Period and phase of the spindle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Clock {
    /// Nanoseconds per revolution.
    period_ns: f64,
    /// The start of revolution 0 of the present line, ns; the line is `time = origin + revolution ·
    /// period`.
    origin_ns: f64,
    /// The latest readings: revolution and time.
    recent: Vec<(f64, f64)>,
    /// All readings, thinned out.
    all: Vec<(f64, f64)>,
    last_ns: f64,
    refused: u32,
    noise_ns: f64,
}

impl Clock {
    /// A clock with a known period, whose reference sector completed at `at`.
    pub(crate) fn new(period_ns: f64, noise_ns: f64, at: Instant) -> Self {
        let at = at.as_ns() as f64;
        Self {
            period_ns,
            origin_ns: at,
            recent: vec![(0.0, at)],
            all: vec![(0.0, at)],
            last_ns: at,
            refused: 0,
            noise_ns,
        }
    }

    pub(crate) fn period_ns(&self) -> f64 {
        self.period_ns
    }

    /// The standard deviation of one reading from the line.
    pub(crate) fn noise_ns(&self) -> f64 {
        self.noise_ns
    }

    /// The standard deviation of a completion. Delays of completions are often exponential; the
    /// median size of their deviations is then two thirds of this.
    pub(crate) fn deviation_ns(&self) -> f64 {
        let off = self.residuals();
        let (middle, allowed) = (median(&off), FAR * spread(&off));
        let near = off.iter().filter(|off| (*off - middle).abs() <= allowed);
        let near: Vec<f64> = near.copied().collect();
        if near.len() < 8 {
            return self.noise_ns;
        }
        let (_, error) = mean(&near);
        error.map_or(self.noise_ns, |error| error * libm::sqrt(near.len() as f64))
    }

    /// The delays of the readings on the present line.
    fn residuals(&self) -> Vec<f64> {
        let steady = &self.recent[self.recent.len() - self.steady()..];
        steady.iter().map(|(turn, at)| at - self.origin_ns - turn * self.period_ns).collect()
    }

    /// The part of a revolution since the reference angle passed.
    pub(crate) fn turns_at(&self, at: Instant) -> f64 {
        crate::numbers::part((at.as_ns() as f64 - self.origin_ns) / self.period_ns)
    }

    /// Nanoseconds since the last reading.
    pub(crate) fn age_ns(&self, now: Instant) -> f64 {
        now.as_ns() as f64 - self.last_ns
    }

    /// Adds the completion of a reference sector that passes `ahead` revolutions after the start of
    /// a revolution.
    pub(crate) fn observe(&mut self, at: Instant, ahead: f64) {
        let at = at.as_ns() as f64 - ahead * self.period_ns;
        let turns = (at - self.origin_ns) / self.period_ns;
        let off_ns = wrap(turns) * self.period_ns;
        self.last_ns = at;
        // The slope is uncertain, so the tolerance is wide until there is a line.
        let allowed = if self.recent.len() < 4 {
            self.period_ns / 4.0
        } else {
            (8.0 * self.noise_ns).max(60_000.0)
        };
        if off_ns.abs() > allowed {
            self.refused += 1;
            if self.refused > 3 {
                // The spindle has left the line: start again at the present phase.
                self.reset_phase(at);
            }
            return;
        }
        self.refused = 0;
        let turn = libm::round(turns);
        self.recent.push((turn, at));
        self.all.push((turn, at));
        if self.recent.len() > LONGEST_WINDOW {
            self.recent.remove(0);
        }
        if self.all.len() > MAX_KEPT {
            let mut number = 0;
            self.all.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        let steady = &self.recent[self.recent.len() - self.steady()..];
        if let Some((origin, period)) = line(steady) {
            (self.origin_ns, self.period_ns) = (origin, period);
            if steady.len() >= 8 {
                let off = self.residuals();
                self.noise_ns = spread(&off).max(median(&off).abs());
            }
        }
    }

    /// The number of the latest readings that lie on one line.
    fn steady(&self) -> usize {
        let mut steady = self.recent.len().min(WINDOW);
        while steady < self.recent.len() {
            let longer = self.recent.len().min(2 * steady);
            if is_bent(&self.recent[self.recent.len() - longer..]) {
                break;
            }
            steady = longer;
        }
        steady
    }

    /// Restarts the phase with a completion of the reference sector at `at_ns`; the period stays.
    pub(crate) fn reset_phase(&mut self, at_ns: f64) {
        self.origin_ns = at_ns;
        self.last_ns = at_ns;
        self.recent = vec![(0.0, at_ns)];
        self.all = vec![(0.0, at_ns)];
        self.refused = 0;
    }

    /// The mean period over all readings and its standard error, nanoseconds.
    pub(crate) fn mean_period_ns(&self) -> (f64, f64) {
        let Some((origin, period)) = line(&self.all).filter(|_| self.all.len() >= 4) else {
            return (self.period_ns, self.period_ns * 1e-5);
        };
        let off: Vec<f64> = self.all.iter().map(|(turn, at)| at - origin - turn * period).collect();
        let mean = self.all.iter().map(|(turn, _)| turn).sum::<f64>() / self.all.len() as f64;
        let lever = self.all.iter().map(|(turn, _)| (turn - mean) * (turn - mean)).sum::<f64>();
        (period, spread(&off).max(1.0) / libm::sqrt(lever.max(1.0)))
    }
}

/// True if the beginning, the middle or the end of the readings lies off a line through them by
/// more than chance.
fn is_bent(readings: &[(f64, f64)]) -> bool {
    let Some((origin, period)) = line(readings) else { return false };
    let off: Vec<f64> = readings.iter().map(|(turn, at)| at - origin - turn * period).collect();
    let is_off = |part: &[f64]| {
        let (off, error) = mean(part);
        error.is_some_and(|error| off.abs() > BENT * error)
    };
    off.chunks(off.len().div_ceil(4)).any(is_off) || is_off_at_end(readings, &off)
}

/// True if a parabola through readings, of which the deviations from a line are given, ends off the
/// line by more than chance.
fn is_off_at_end(readings: &[(f64, f64)], off: &[f64]) -> bool {
    let count = readings.len() as f64;
    let middle = readings.iter().map(|(turn, _)| turn).sum::<f64>() / count;
    let (squares, cubes) = readings.iter().fold((0.0, 0.0), |sum, (turn, _)| {
        let (turn, square) = (turn - middle, (turn - middle) * (turn - middle));
        (sum.0 + square, sum.1 + square * turn)
    });
    let (mean_square, skew) = (squares / count, cubes / squares);
    // The part of the square that no line explains.
    let bow = |(turn, _): &(f64, f64)| {
        let turn = turn - middle;
        turn * turn - mean_square - skew * turn
    };
    let (bows, products, noise) =
        readings.iter().zip(off).fold((0.0, 0.0, 0.0), |sum, (reading, off)| {
            let bow = bow(reading);
            (sum.0 + bow * bow, sum.1 + bow * off, sum.2 + off * off)
        });
    // The bend is `products / bows`, and the square of its error `noise / count / bows`.
    products * products * count > BENT_AT_END * BENT_AT_END * noise * bows
}

/// The line `time = origin + revolution · period` through readings; none through fewer than two
/// different revolutions.
pub(crate) fn line(readings: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = readings.len() as f64;
    // Relative to the first reading, so that large numbers cancel.
    let (first_turn, first_at) = *readings.first()?;
    let (turns, times) = readings
        .iter()
        .fold((0.0, 0.0), |sum, (turn, at)| (sum.0 + turn - first_turn, sum.1 + at - first_at));
    let (mean_turn, mean_time) = (turns / count, times / count);
    let (mut lever, mut product) = (0.0, 0.0);
    for (turn, at) in readings {
        let turn = turn - first_turn - mean_turn;
        lever += turn * turn;
        product += turn * (at - first_at - mean_time);
    }
    (lever > 0.0).then(|| {
        let period = product / lever;
        (first_at + mean_time - (first_turn + mean_turn) * period, period)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_steady_spindle_is_known_better_with_time_and_one_that_wanders_is_followed() {
        let period = 6e6;
        // The error of the clock some time after the last of so many readings, in revolutions. The
        // spindle wanders by some ppm with a swing of so many radians per second.
        let off = |wander_ppm: f64, per_s: f64, (readings, turns): (u64, u64), seed: u64| {
            let (mut draw, begun) = (Random::new(seed, 0), seed as f64);
            let at = |turn: f64| {
                let swing = libm::sin(turn * period * per_s / 1e9 + begun);
                2e6 + turn * period + wander_ppm * 1e3 / per_s * swing
            };
            let mut clock = Clock::new(period, 28_000.0, Instant::from_ns(at(0.0) as u64));
            let mut turn = 0.0;
            for _ in 0..readings {
                turn += (turns + draw.below(turns / 10)) as f64;
                let noise = -40_000.0 * libm::log(1.0 - draw.part()) - 40_000.0;
                clock.observe(Instant::from_ns((at(turn) + noise) as u64), 0.0);
            }
            wrap(clock.turns_at(Instant::from_ns(at(turn + turns as f64 / 2.0) as u64)))
        };
        let spread = |wander_ppm, per_s, often| {
            let squares =
                (1..=20).map(|seed| (off(wander_ppm, per_s, often, seed) * period).powi(2));
            libm::sqrt(squares.sum::<f64>() / 20.0)
        };
        // A line through the last 40 alone is off by 13 us.
        let often = (400, 240);
        let (steady, wandering) = (spread(0.0, 0.03, often), spread(2.0, 0.033, often));
        assert!(steady < 7_000.0, "{steady} ns");
        assert!(wandering < 40_000.0, "{wandering} ns");
        // A long line through the readings of a slow drift is off by 21 us at its end.
        let drifting = spread(1.0, core::f64::consts::TAU / 600.0, (700, 50));
        assert!(drifting < 10_000.0, "{drifting} ns");
    }

    #[test]
    fn noisy_readings_with_outliers_give_period_and_phase() {
        let (mut draw, period, mut at_turn) = (Random::new(5, 0), 5_985_037.4, 0.0);
        let mut clock = Clock::new(period * (1.0 + 2e-6), 22_000.0, Instant::from_ns(1_000_000));
        for reading in 0..60 {
            at_turn += 200.0 + draw.below(100) as f64;
            let noise = -22_000.0 * libm::log(1.0 - draw.part()) - 22_000.0;
            let outlier = if reading % 13 == 12 { 2.4e6 } else { 0.0 };
            clock.observe(Instant::from_ns((1e6 + at_turn * period + noise + outlier) as u64), 0.0);
        }
        let (mean, error) = clock.mean_period_ns();
        assert!((mean / period - 1.0).abs() < 5e-7, "{mean} ± {error}");
        let late = clock.turns_at(Instant::from_ns((1e6 + (at_turn + 50.25) * period) as u64));
        assert!((late - 0.25).abs() * period < 15_000.0, "{late}");
    }
}
