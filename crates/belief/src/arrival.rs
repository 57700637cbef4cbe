//! The error of the head's arrival time: bias and spread, learned from revolutions missed and
//! caught.
//!
//! A completion shows where the platter was, not when the head arrived: arriving any time within
//! the same turn gives the same completion. What it does show is the *turn*. With a wait of `w`
//! predicted after an arrival that already counts the bias, and an arrival error `e` (late is
//! positive), the sector is met as predicted when `w − T < e ≤ w`, one revolution `T` later when `w
//! < e ≤ w + T`, one earlier when `e ≤ w − T`. So each completion says of `e` that it lies in an
//! interval; with `e` normal around zero (whatever is left is moved into the *bias*) with deviation
//! *spread*, the two are followed by gradient ascent on the likelihood.
//!
//! Worked example: T = 8.33 ms, spread 100 us, bias 0. A wait of 50 us is predicted: it is missed
//! with probability Φ(−0.5) = 0.31, so its expected cost is 50 us + 0.31 × 8.33 ms = 2.6 ms, and a
//! sector 2 ms away is the better choice.
//!
//! Guarantees that one observation moves bias and spread by bounded steps. Does not tell regions of
//! the drive apart (later: seek residuals by region). Cost: two error functions per estimate near
//! the edge, none elsewhere. Source: docs/limits.md 4; P2 section 3.3 for the bias.

use headtime_units::Nanos;

use crate::normal::{bounded_product, density, upper_tail};

/// Spread assumed before anything is known, in ns (guess: typical seek-time repeatability).
const FIRST_SPREAD_NS: f64 = 100_000.0;
/// Bounds of the spread, in ns (guess).
const SPREAD_BOUNDS_NS: (f64, f64) = (3_000.0, 3_000_000.0);
/// Observations near the edge after which spread and bias are half sure (guess: the deviation of a
/// deviation is then 3 %).
const HALF_SURE: f64 = 500.0;
/// Maximum step of the logarithm of the spread: the first samples carry little information each
/// (guess: a factor of two either way).
const MAX_STEP: f64 = 0.7;
/// Outside this many spreads the chance is taken as none: 3 × 10⁻⁵ of a revolution is a fraction of
/// a microsecond.
const EDGE_SPREADS: u64 = 4;

/// The modelled error of arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    bias_ns: f64,
    spread_ns: f64,
    informative: u32,
}

impl Arrival {
    pub(crate) fn new() -> Self {
        Self { bias_ns: 0.0, spread_ns: FIRST_SPREAD_NS, informative: 0 }
    }

    /// The state as numbers, for saving.
    pub(crate) fn numbers(&self) -> [f64; 3] {
        [self.bias_ns, self.spread_ns, f64::from(self.informative)]
    }

    /// Restores the output of [`Arrival::numbers`]; returns `None` if it is invalid.
    pub(crate) fn restored([bias_ns, spread_ns, informative]: [f64; 3]) -> Option<Self> {
        let fits = bias_ns.abs() <= 1e9
            && (1.0..=SPREAD_BOUNDS_NS.1).contains(&spread_ns)
            && (0.0..=f64::from(u32::MAX)).contains(&informative);
        fits.then_some(Self { bias_ns, spread_ns, informative: informative as u32 })
    }

    /// Mean lateness of the head in ns; late is positive.
    pub(crate) fn bias_ns(&self) -> f64 {
        self.bias_ns
    }

    /// Standard deviation of the lateness.
    pub(crate) fn spread(&self) -> Nanos {
        Nanos::from_ns(self.spread_ns as u64)
    }

    /// The certainty of bias and spread, from 0 to 1: their distance from the first guess.
    pub(crate) fn sure(&self) -> f64 {
        f64::from(self.informative) / (f64::from(self.informative) + HALF_SURE)
    }

    /// Expected revolutions lost (or, negative, won) by a predicted wait of `wait` of a whole
    /// `revolution`, with an arrival that spreads by `spread` (at least [`Arrival::spread`]; more
    /// where the angle itself is in doubt): between −1 and 1.
    pub(crate) fn expected_slip(wait: Nanos, revolution: Nanos, spread: Nanos) -> f64 {
        let edge = spread.saturating_mul(EDGE_SPREADS);
        let left = revolution.saturating_sub(wait);
        if wait > edge && left > edge {
            return 0.0;
        }
        let spread_ns = spread.as_ns() as f64;
        upper_tail(wait.as_ns() as f64 / spread_ns) - upper_tail(left.as_ns() as f64 / spread_ns)
    }

    /// Observes that a wait of `wait` predicted with the present bias turned out `slips`
    /// revolutions longer (negative: shorter).
    pub(crate) fn observe(&mut self, wait: Nanos, revolution: Nanos, slips: i32) {
        if slips.abs() > 1 {
            // Further off than any arm error: another command, a retry or a recalibration. Nothing
            // to learn here.
            return;
        }
        let turn = revolution.as_ns() as f64;
        let high = (wait.as_ns() as f64 + f64::from(slips) * turn) / self.spread_ns;
        let low = high - turn / self.spread_ns;
        let edge = EDGE_SPREADS as f64;
        if slips == 0 && high > edge && low < -edge {
            return;
        }
        self.informative = self.informative.saturating_add(1);
        let likelihood = (upper_tail(-high) - upper_tail(-low)).max(1e-3);
        let (at_high, at_low) = (density(high), density(low));
        let by_bias = -(at_high - at_low) / likelihood;
        let by_spread =
            -(bounded_product(high, at_high) - bounded_product(low, at_low)) / likelihood;
        // Large steps first, to correct a wrong first guess quickly; small steps later, to average
        // noise out. The spread moves faster: the first guess is some thirty times the spread of a
        // quiet drive, and a sample moves it by about an eighth of a step. The smaller the spread,
        // the fewer completions are near enough to the edge to be informative. A spread that is too
        // wide makes margins and bias too large.
        let spread_rate = (10.0 / (f64::from(self.informative) + 20.0)).max(0.03);
        let rate = (2.0 / (f64::from(self.informative) + 10.0)).max(0.01);
        self.bias_ns += rate * self.spread_ns * by_bias.clamp(-3.0, 3.0);
        self.bias_ns = self.bias_ns.clamp(-turn / 4.0, turn / 4.0);
        let spread =
            self.spread_ns * libm::exp((spread_rate * by_spread).clamp(-MAX_STEP, MAX_STEP));
        self.spread_ns = spread.clamp(SPREAD_BOUNDS_NS.0, SPREAD_BOUNDS_NS.1.min(turn / 4.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const TURN: Nanos = Nanos::from_ns(8_333_333);

    fn normal(rng: &mut ChaCha8Rng) -> f64 {
        let (radius, angle): (f64, f64) = (rng.random(), rng.random());
        libm::sqrt(-2.0 * libm::log(1.0 - radius)) * libm::cos(core::f64::consts::TAU * angle)
    }

    /// Waits as a scheduler that likes short ones would predict them, with real errors of the given
    /// bias and spread.
    fn learn(bias_us: f64, spread_us: f64, seed: u64) -> Arrival {
        let (mut arrival, mut rng) = (Arrival::new(), ChaCha8Rng::seed_from_u64(seed));
        for _ in 0..40_000 {
            let wait_ns = rng.random_range(0.0..1.0_f64).powi(2) * TURN.as_ns() as f64;
            let error_ns = (bias_us + spread_us * normal(&mut rng)) * 1e3;
            let slips =
                libm::ceil((error_ns - arrival.bias_ns() - wait_ns) / TURN.as_ns() as f64) as i32;
            arrival.observe(Nanos::from_ns(wait_ns as u64), TURN, slips);
        }
        arrival
    }

    #[test]
    fn bias_and_spread_are_learned_from_missed_revolutions_alone() {
        for (seed, bias_us, spread_us) in
            [(1, 0.0, 50.0), (2, 0.0, 300.0), (3, 80.0, 100.0), (4, -60.0, 40.0)]
        {
            let arrival = learn(bias_us, spread_us, seed);
            let (bias, spread) = (arrival.bias_ns() / 1e3, arrival.spread().as_us_f64());
            assert!(
                (bias - bias_us).abs() < 0.35 * spread_us,
                "seed {seed}: bias {bias} us, real {bias_us}"
            );
            assert!(
                (0.6..1.7).contains(&(spread / spread_us)),
                "seed {seed}: spread {spread} us, real {spread_us}"
            );
        }
    }

    #[test]
    fn the_spread_is_fitted_within_some_thousand_completions() {
        for (seed, spread_us, within_us) in
            [(1, 0.0, 22.0), (2, 2.0, 22.0), (3, 0.0, 22.0), (4, 10.0, 27.0)]
        {
            let (mut arrival, mut rng) = (Arrival::new(), ChaCha8Rng::seed_from_u64(seed));
            for _ in 0..6_000 {
                // About as long as the waits of the best of 64 requests.
                let wait_ns = rng.random_range(0.0..1e6_f64);
                let error_ns = spread_us * 1e3 * normal(&mut rng) - arrival.bias_ns();
                arrival.observe(
                    Nanos::from_ns(wait_ns as u64),
                    TURN,
                    i32::from(error_ns > wait_ns),
                );
            }
            let spread = arrival.spread().as_us_f64();
            assert!(
                (0.6 * spread_us..within_us).contains(&spread),
                "seed {seed}: spread {spread} us, real {spread_us}"
            );
        }
    }

    #[test]
    fn a_wait_of_nothing_is_missed_half_the_time_and_a_long_one_never() {
        let slip = |wait| Arrival::expected_slip(wait, TURN, Nanos::from_us(100));
        assert!((slip(Nanos::ZERO) - 0.5).abs() < 1e-6);
        assert_eq!(slip(Nanos::from_ms(4)), 0.0);
        assert!(
            (slip(TURN) + 0.5).abs() < 1e-6,
            "a wait of nearly a turn is often caught a turn earlier"
        );
    }

    #[test]
    fn completions_far_off_teach_nothing() {
        let mut arrival = Arrival::new();
        arrival.observe(Nanos::from_ms(1), TURN, 40);
        assert_eq!(arrival, Arrival::new());
    }
}
