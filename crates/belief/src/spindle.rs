//! The rotation period and phase, fitted from measured completions.
//!
//! A command's media access ends when the end of its last sector passes under the head, so each
//! completion shows the angle at one instant. A Kalman filter with two states (angle at the newest
//! completion, relative speed error) follows them. The angle is re-read at every completion and
//! carried only from the newest one, so a period that is slightly wrong cannot add up to a wrong
//! angle.
//!
//! Worked example: nominal 8,333,333 ns, real 8,333,750 ns (50 ppm slow). The first completion sets
//! the angle. Ten seconds and some hundred completions later the angle is late by 1,200 × 417 ns =
//! 0.06 turns, and the filter has corrected the period by 50 ppm.
//!
//! *A speed that changes*: the filter grows sure of the speed within minutes, and would follow a
//! step of 100 ppm as slowly as it follows a drift. Errors that lean to one side for some dozen
//! completions, six times as far as chance lets them, say that the speed is another: it is then
//! held for unknown by 100 ppm, and found again within some dozen completions.
//!
//! Guarantees: an observation further than five standard deviations off moves neither angle nor
//! speed, but widens what is expected of the next, unless the drive's cache may have answered;
//! after twelve outliers in a row the angle is read again. Does not guarantee a period after long
//! idleness: when the speed is so uncertain that whole turns may have been miscounted, the angle is
//! re-read and the speed left alone. Cost: some forty float operations a completion. Source: P2
//! section 3.3 (resynchronization at each completion); the filter is the textbook's.

use headtime_units::{Angle, Instant, Nanos, RotationPeriod};

use crate::angles::{angle_of_turns, rounded};

/// Standard deviation of a real spindle's speed from its nameplate, as a fraction; vendors state
/// ±0.2 to 0.5 % at most, units lie well within.
const SPEED_PRIOR: f64 = 3e-4;
/// Random walk of the speed, as a fraction per square root second (guess: some ppm within minutes,
/// from warming up).
const SPEED_WALK: f64 = 2e-7;
/// Observation error assumed before any is known, in turns (guess: about 100 us at 7,200 rpm).
const FIRST_NOISE: f64 = 0.012;
/// Minimum observation error, in turns; below it the filter would trust single completions too
/// much.
const MIN_NOISE: f64 = 2e-5;
/// Maximum observation error, in turns; a random angle would show 0.29.
const MAX_NOISE: f64 = 0.15;
/// A spindle that leans has changed its speed by about so much (guess: what a drive does that was
/// stopped and started, or warms up).
const SPEED_STEP: f64 = 1e-4;
/// Weight of an error in how much the filter leans, and from where on it does: six deviations of
/// what errors to both sides leave.
const LEAN_WEIGHT: f64 = 1.0 / 16.0;
const LEANS: f64 = 1.1;
/// Outliers in a row after which the angle is read again (guess).
const OUTLIERS_BEFORE_RESET: u32 = 12;

/// The evidence that an observation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The platter passed at this angle.
    Access,
    /// The drive's cache may have answered, at any angle.
    MayBeHit,
}

/// The modelled rotation of the spindle.
#[derive(Clone, Debug)]
pub(crate) struct Spindle {
    nominal: RotationPeriod,
    period: RotationPeriod,
    /// The newest observation's time and its modelled angle; `None` before the first.
    reference: Option<(Instant, Angle)>,
    /// Relative speed error: turns per nominal turn, less one.
    speed: f64,
    /// Covariance of (angle in turns, speed).
    covariance: [[f64; 2]; 2],
    /// Variance of one observation in turns².
    noise: f64,
    outliers: u32,
    /// The slow mean of errors in expected deviations: near zero while the speed is what it was.
    lean: f64,
}

impl Spindle {
    pub(crate) fn new(nominal: RotationPeriod) -> Self {
        let covariance = [[1.0 / 12.0, 0.0], [0.0, SPEED_PRIOR * SPEED_PRIOR]];
        Self {
            nominal,
            period: nominal,
            reference: None,
            speed: 0.0,
            covariance,
            noise: FIRST_NOISE * FIRST_NOISE,
            outliers: 0,
            lean: 0.0,
        }
    }

    /// The period as fitted so far.
    pub(crate) fn period(&self) -> RotationPeriod {
        self.period
    }

    /// The angle at the origin of the clock that gives the modelled angle at the newest
    /// observation; `None` before the first.
    pub(crate) fn phase(&self) -> Option<Angle> {
        self.reference.map(|(at, angle)| angle - self.period.angle_at(at, Angle::ZERO))
    }

    /// Standard deviation of the modelled angle at `at`, in turns.
    pub(crate) fn deviation_turns(&self, at: Instant) -> f64 {
        let Some((reference, _)) = self.reference else { return libm::sqrt(1.0 / 12.0) };
        libm::sqrt(self.carried(self.turns_since(reference, at))[0][0])
    }

    /// The error, in turns, that an observation at `at` is expected to show (a standard deviation):
    /// that of the angle and that of observing.
    pub(crate) fn expected_error_turns(&self, at: Instant) -> f64 {
        let deviation = self.deviation_turns(at);
        libm::sqrt(deviation * deviation + self.noise)
    }

    /// The time up to which the angle's standard deviation stays below `turns`; the origin when it
    /// is above already.
    pub(crate) fn sharp_until(&self, turns: f64) -> Instant {
        let Some((reference, _)) = self.reference else { return Instant::ORIGIN };
        let [[angle, coupling], [_, speed]] = self.covariance;
        // angle + 2·coupling·t + speed·t² = turns², with the walk of the speed left out: it matters
        // after minutes only.
        let room = turns * turns - angle;
        if room <= 0.0 {
            return Instant::ORIGIN;
        }
        let root = libm::sqrt(coupling * coupling + speed * room);
        let ahead = room / (root + coupling).max(1e-30);
        reference + Nanos::from_ns((ahead * self.period.as_ns_f64()).min(1e18) as u64)
    }

    /// Observes that `angle` passed under the head at `at`. Returns the prediction error in turns,
    /// except for the first observation. The error is limited to three expected standard
    /// deviations, so that a report that a busy host delayed does not spread a wrong angle.
    pub(crate) fn observe(&mut self, at: Instant, angle: Angle, evidence: Evidence) -> Option<f64> {
        let Some((reference, modelled)) = self.reference else {
            self.restart(at, angle);
            return None;
        };
        if at <= reference {
            return None;
        }
        let turns = self.turns_since(reference, at);
        let predicted = modelled + self.period.angle_of(at.saturating_since(reference));
        let error = angle.signed_turns_from(predicted);
        let carried = self.carried(turns);
        let variance = carried[0][0];
        if variance > 0.1 * 0.1 {
            // Half a turn may be a whole turn miscounted: what is seen says where the platter is,
            // but not how fast it got there.
            self.restart(at, angle);
            return None;
        }
        let deviation = libm::sqrt(variance + self.noise);
        let bounded = error.clamp(-3.0 * deviation, 3.0 * deviation);
        if error * error > 25.0 * (variance + self.noise) {
            self.outliers += 1;
            if evidence == Evidence::Access {
                // If this happens often, the observation error was taken for too small.
                self.noise = (self.noise * 1.2).min(MAX_NOISE * MAX_NOISE);
            }
            if self.outliers >= OUTLIERS_BEFORE_RESET {
                self.restart(at, angle);
            }
            return Some(bounded);
        }
        self.outliers = 0;
        let noise = self.noise;
        self.update(at, carried, predicted, error);
        if evidence == Evidence::MayBeHit {
            self.noise = noise;
        }
        self.lean += LEAN_WEIGHT * (error / deviation - self.lean);
        if self.lean.abs() > LEANS {
            // All errors to one side: the speed is another, and what it was says nothing any more.
            self.covariance[1][1] = self.covariance[1][1].max(SPEED_STEP * SPEED_STEP);
            self.lean = 0.0;
        }
        Some(bounded)
    }

    /// `carried` is the covariance carried forward to `at`.
    fn update(&mut self, at: Instant, carried: [[f64; 2]; 2], predicted: Angle, error: f64) {
        let [[angle_variance, coupling], [_, speed_variance]] = carried;
        let gain_angle = angle_variance / (angle_variance + self.noise);
        let gain_speed = coupling / (angle_variance + self.noise);
        self.reference = Some((at, predicted + angle_of_turns(gain_angle * error)));
        self.speed += gain_speed * error;
        self.covariance = [
            [(1.0 - gain_angle) * angle_variance, (1.0 - gain_angle) * coupling],
            [(1.0 - gain_angle) * coupling, speed_variance - gain_speed * coupling],
        ];
        // The error seen after the update is mostly observation error; a slow mean of its square
        // follows it.
        let left = (1.0 - gain_angle) * error;
        self.noise = (self.noise * 0.98 + 0.02 * left * error).max(MIN_NOISE * MIN_NOISE);
        let femtos = self.nominal.as_fs() as f64 / (1.0 + self.speed);
        self.period = RotationPeriod::from_fs(rounded(femtos)).unwrap_or(self.nominal);
    }

    fn restart(&mut self, at: Instant, angle: Angle) {
        self.reference = Some((at, angle));
        self.covariance[0] = [self.noise.min(0.09 * 0.09), 0.0];
        self.covariance[1][0] = 0.0;
        self.outliers = 0;
    }

    fn turns_since(&self, reference: Instant, at: Instant) -> f64 {
        at.saturating_since(reference).as_ns() as f64 / self.period.as_ns_f64()
    }

    /// The covariance carried forward by `turns` turns.
    fn carried(&self, turns: f64) -> [[f64; 2]; 2] {
        let [[angle, coupling], [_, speed]] = self.covariance;
        let seconds = turns * self.nominal.as_ns_f64() / 1e9;
        let speed_walk = SPEED_WALK * SPEED_WALK * seconds;
        let coupling_now = coupling + turns * speed;
        [
            [
                angle + 2.0 * turns * coupling + turns * turns * (speed + speed_walk / 3.0),
                coupling_now,
            ],
            [coupling_now, speed + speed_walk],
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn rpm(rpm: f64) -> RotationPeriod {
        RotationPeriod::from_rpm(rpm).expect("a disk's speed")
    }

    /// Observations of a spindle that is `ppm` off, with `noise_ns` of uniform error, a completion
    /// every 3 to 15 ms.
    fn follow(
        ppm: f64,
        noise_ns: i64,
        observations: u32,
        seed: u64,
    ) -> (Spindle, RotationPeriod, Angle, Instant) {
        let nominal = rpm(7_200.0);
        let real = rpm(7_200.0 * (1.0 + ppm * 1e-6));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let phase = Angle::from_raw(rng.random());
        let (mut spindle, mut now) = (Spindle::new(nominal), Instant::from_ns(1_000_000_000_000));
        for _ in 0..observations {
            now += Nanos::from_us(rng.random_range(3_000..15_000));
            let seen = now.offset_by_ns(rng.random_range(-noise_ns..=noise_ns));
            spindle.observe(seen, real.angle_at(now, phase), Evidence::Access);
        }
        (spindle, real, phase, now)
    }

    #[test]
    fn a_spindle_off_its_nameplate_is_found_within_a_part_per_million() {
        for (seed, ppm) in [(1, 0.0), (2, 80.0), (3, -300.0), (4, 500.0)] {
            let (spindle, real, phase, now) = follow(ppm, 30_000, 3_000, seed);
            let error_ppm = (spindle.period().as_ns_f64() / real.as_ns_f64() - 1.0) * 1e6;
            assert!(error_ppm.abs() < 1.0, "seed {seed}: period off by {error_ppm} ppm");
            let soon = now + Nanos::from_ms(10);
            let modelled = spindle.period().angle_at(soon, spindle.phase().expect("observed"));
            let error_us =
                modelled.signed_turns_from(real.angle_at(soon, phase)) * real.as_ns_f64() / 1e3;
            assert!(error_us.abs() < 10.0, "seed {seed}: angle off by {error_us} us");
        }
    }

    /// After twenty minutes at one speed the platter turns 100 ppm slower from one moment to the
    /// next.
    #[test]
    fn a_speed_that_changes_at_once_is_found_within_some_hundred_completions() {
        for (seed, step_ppm) in [(1, 100.0), (2, -100.0), (3, 30.0), (4, -300.0)] {
            let (mut spindle, before, phase, mut now) = follow(40.0, 20_000, 100_000, seed);
            let real =
                RotationPeriod::from_fs((before.as_fs() as f64 * (1.0 + step_ppm * 1e-6)) as u64)
                    .expect("a disk's speed");
            let phase = before.angle_at(now, phase) - real.angle_at(now, Angle::ZERO);
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut worst_us = 0.0_f64;
            for completion in 0..600 {
                now += Nanos::from_us(rng.random_range(3_000..15_000));
                let modelled = spindle.period().angle_at(now, spindle.phase().expect("observed"));
                if completion >= 150 {
                    worst_us = worst_us.max(
                        modelled.signed_turns_from(real.angle_at(now, phase)).abs()
                            * real.as_ns_f64()
                            / 1e3,
                    );
                }
                spindle.observe(
                    now.offset_by_ns(rng.random_range(-20_000..=20_000)),
                    real.angle_at(now, phase),
                    Evidence::Access,
                );
            }
            assert!(
                worst_us < 40.0,
                "seed {seed}, {step_ppm} ppm: {worst_us} us off after 150 completions"
            );
        }
    }

    #[test]
    fn the_first_completion_already_sets_the_angle() {
        let mut spindle = Spindle::new(rpm(10_025.0));
        assert_eq!(spindle.phase(), None);
        spindle.observe(Instant::from_ns(5_000_000), Angle::HALF, Evidence::Access);
        let modelled = spindle
            .period()
            .angle_at(Instant::from_ns(5_000_000), spindle.phase().expect("observed"));
        assert!(modelled.signed_turns_from(Angle::HALF).abs() < 1e-6);
    }

    #[test]
    fn an_outlier_moves_nothing() {
        let (mut spindle, real, phase, now) = follow(40.0, 20_000, 1_000, 7);
        let before = (spindle.period(), spindle.phase());
        let at = now + Nanos::from_ms(8);
        spindle.observe(
            at,
            real.angle_at(at, phase) + Angle::from_fraction(1, 5),
            Evidence::Access,
        );
        assert_eq!((spindle.period(), spindle.phase()), before);
    }

    #[test]
    fn after_an_hour_of_idleness_the_angle_is_read_again_and_the_speed_kept() {
        let (mut spindle, real, phase, now) = follow(40.0, 20_000, 2_000, 8);
        let period = spindle.period();
        let later = now + Nanos::from_secs(3_600);
        spindle.observe(later, real.angle_at(later, phase), Evidence::Access);
        let modelled = spindle.period().angle_at(later, spindle.phase().expect("observed"));
        assert!(modelled.signed_turns_from(real.angle_at(later, phase)).abs() < 0.02);
        assert!((spindle.period().as_ns_f64() / period.as_ns_f64() - 1.0).abs() < 2e-6);
    }
}
