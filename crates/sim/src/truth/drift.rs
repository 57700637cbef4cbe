//! [`SpindleDrift`]: slow variation of the spindle speed around its mean.
//!
//! The speed at time `t` is the mean speed of the instance times `1 + a·sin(ωt + φ)`, with the
//! profile's amplitude `a` (parts per million), `ω = 2π / period` and a phase drawn by seed. The
//! angle at `t` is the integral: the mean speed times the *spindle time*
//!
//! `τ(t) = t + (a / ω)·(cos φ − cos(ωt + φ))`.
//!
//! `a` is far below one, so `τ` increases with `t`. The speed is constant within an access: in 20
//! ms a spindle that drifts by 10 ppm in ten minutes changes by 2·10⁻⁹, which moves the end of the
//! access by less than 0.1 ns.
//!
//! Worked example, 10 ppm, 600 s, φ = 0: after 150 s the spindle is 10 ppm fast and 0.955 ms ahead
//! of a steady one; after 300 s it turns at its mean speed and is 1.910 ms ahead; after 600 s it is
//! level with a steady one.
//!
//! - Modelled: one slow sine.
//! - Not modelled: aperiodic drift, vibration, spin-up.
//! - Differs from a drive: real drift follows temperature, which follows the load.

use headtime_units::{Angle, Instant, RotationPeriod};

/// The spindle drift of one instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpindleDrift {
    period: RotationPeriod,
    /// The angle at the origin of the clock.
    origin: Angle,
    /// As a fraction.
    amplitude: f64,
    /// Radians per nanosecond.
    omega: f64,
    phase: f64,
}

impl SpindleDrift {
    /// A drift around `period`, or `None` if the amplitude or the drift period is zero; `lot` draws
    /// its phase at the origin of the clock.
    #[must_use]
    pub fn new(
        period: RotationPeriod,
        origin: Angle,
        amplitude_ppm: f64,
        swing_s: f64,
        lot: u64,
    ) -> Option<Self> {
        (amplitude_ppm > 0.0 && swing_s > 0.0).then(|| Self {
            period,
            origin,
            amplitude: amplitude_ppm * 1e-6,
            omega: core::f64::consts::TAU / (swing_s * 1e9),
            phase: core::f64::consts::TAU * (lot >> 11) as f64 / (1_u64 << 53) as f64,
        })
    }

    /// The period and origin angle of a steady spindle that matches this one at `at`.
    #[must_use]
    pub fn steady_at(&self, at: Instant) -> (RotationPeriod, Angle) {
        let now = self.omega * at.as_ns() as f64 + self.phase;
        let speed = 1.0 + self.amplitude * libm::sin(now);
        let femtos = libm::round(self.period.as_fs() as f64 / speed) as u64;
        let period = RotationPeriod::from_fs(femtos).unwrap_or(self.period);
        let angle = self.angle_at(at);
        (period, angle - period.angle_at(at, Angle::ZERO))
    }

    /// The angle under the head at `at`.
    #[must_use]
    pub fn angle_at(&self, at: Instant) -> Angle {
        let now = self.omega * at.as_ns() as f64 + self.phase;
        // The spindle time is ahead of the clock by this many nanoseconds. The fraction counts: it
        // is some hundred units of angle.
        let ahead = self.amplitude / self.omega * (libm::cos(self.phase) - libm::cos(now));
        let whole = libm::floor(ahead);
        let fraction = (ahead - whole) * 4_294_967_296.0 / self.period.as_ns_f64();
        let own_time = Instant::from_ns(at.as_ns().wrapping_add_signed(whole as i64));
        let turned = if whole < 0.0 && own_time > at {
            // Before the origin: count backwards.
            self.origin
                - self
                    .period
                    .angle_of(headtime_units::Nanos::from_ns(own_time.as_ns().wrapping_neg()))
        } else {
            self.period.angle_at(own_time, self.origin)
        };
        turned + Angle::from_raw(fraction as u32)
    }
}
