//! [`Noise`] and [`NoiseSource`]: the unpredictable part of each access of a simulated drive.

use headtime_units::{Instant, Nanos};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use super::{exponential, hash};

/// Unpredictable noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Mean (and standard deviation) of the exponentially distributed delay of each report, in
    /// nanoseconds.
    pub jitter_ns: f64,
    /// Fraction of slow accesses, 0 to 1.
    pub outlier_share: f64,
    /// The extra time of a slow access.
    pub outlier: Nanos,
    /// Fraction of accesses that lose a revolution, 0 to 1.
    pub retry_share: f64,
    /// Standard deviation of the random part of an arm time, in nanoseconds.
    pub arm_jitter_ns: f64,
    /// Amplitude of the arm's drift in nanoseconds, its angular frequency in radians per
    /// nanosecond, and its phase.
    pub arm_drift: (f64, f64, f64),
    /// Idle time after which the drive's own work may move the arm.
    pub idle_work_after: Nanos,
    /// Fraction of accesses after so much idle time that find the arm elsewhere, 0 to 1.
    pub idle_work_share: f64,
    /// Time of a recalibration.
    pub recalibration: Nanos,
    /// Fraction of reports that the host sees late, 0 to 1.
    pub stall_share: f64,
    /// Mean extra time of those, in nanoseconds.
    pub stall_ns: f64,
}

/// The noise of one drive with its own random numbers: each call draws those of one access.
#[derive(Clone, Debug)]
pub struct NoiseSource {
    noise: Noise,
    rng: ChaCha8Rng,
}

impl NoiseSource {
    pub(super) fn new(noise: Noise, rng: ChaCha8Rng) -> Self {
        Self { noise, rng }
    }

    /// The time between a completion and its report.
    pub fn late(&mut self) -> Nanos {
        let Noise { jitter_ns, stall_share, stall_ns, .. } = self.noise;
        let mut late = Nanos::ZERO;
        if jitter_ns > 0.0 {
            late = exponential(&mut self.rng, jitter_ns);
        }
        if self.hits(stall_share) {
            late += exponential(&mut self.rng, stall_ns);
        }
        late
    }

    /// The time that an access loses as an outlier or to a retry, which takes a revolution.
    pub fn lost(&mut self, revolution: Nanos) -> Nanos {
        let mut lost = Nanos::ZERO;
        if self.hits(self.noise.outlier_share) {
            lost += self.noise.outlier;
        }
        if self.hits(self.noise.retry_share) {
            lost += revolution;
        }
        lost
    }

    /// The deviation of an arm time that begins at `now`, in nanoseconds: at most half of
    /// `arm_time`, which is computed only if there is a deviation.
    pub fn arm_error_ns(&mut self, now: Instant, arm_time: impl FnOnce() -> Nanos) -> i64 {
        let Noise { arm_jitter_ns, arm_drift: (amplitude, omega, phase), .. } = self.noise;
        let mut error = 0.0;
        if arm_jitter_ns > 0.0 {
            error += arm_jitter_ns * hash::normal(self.rng.next_u64());
        }
        if amplitude > 0.0 {
            error += amplitude * libm::sin(omega * now.as_ns() as f64 + phase);
        }
        if error == 0.0 {
            return 0;
        }
        let max_error = (arm_time().as_ns() / 2) as i64;
        (error as i64).clamp(-max_error, max_error)
    }

    /// The cylinder to which work of the drive's own has moved the arm, if it was idle from
    /// `idle_from` to `now`.
    pub(crate) fn moved_to(
        &mut self,
        idle_from: Instant,
        now: Instant,
        cylinders: u32,
    ) -> Option<u32> {
        let Noise { idle_work_share, idle_work_after, .. } = self.noise;
        let moved = idle_work_share > 0.0
            && idle_from + idle_work_after <= now
            && self.hits(idle_work_share);
        moved.then(|| self.rng.random_range(0..cylinders))
    }

    fn hits(&mut self, share: f64) -> bool {
        share > 0.0 && f64::from(self.rng.next_u32()) < share * 4_294_967_296.0
    }
}
