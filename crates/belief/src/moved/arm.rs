//! [`Whereabouts`]: the possible cylinders of a moved sector, derived from arm times.
//!
//! An access waits less than a turn for its sector after the arm arrives. An access that took `t`
//! from its departure to its sector therefore has an arm time between `t` less a turn and `t`. From
//! the departure cylinder, that is two ranges of cylinders. Trips from other cylinders give other
//! ranges, and their intersection is soon narrow. The logarithm of the likelihood of each of
//! [`BANDS`] bands of cylinders is kept, with a bound, so that a place that is moved again is found
//! again.
//!
//! Worked example, a turn of 6 ms, arm times of 1 to 10 ms: a trip from cylinder 0 took 13 ms, so
//! the arm took more than 7 ms: the inner half. A trip from the innermost cylinder took 4 ms: the
//! inner third.
//!
//! Cost: an arm time and a logarithm for each band and trip, some 30 us; none for a query. Source:
//! ours; the interval is that of `arrival.rs`.

/// Bands of cylinders (guess: a five-hundredth of the stroke is a hundredth of a turn).
const BANDS: usize = 512;
/// Share of accesses that are late for other reasons (guess: ten times the retries in profiles).
const OTHERWISE: f64 = 0.02;
/// Minimum likelihood of a band against the best, as a logarithm: five trips restore it.
const LEAST: f32 = -18.0;
/// Minimum likelihood of a possible band, as a logarithm.
const POSSIBLE: f32 = -6.0;
/// Minimum likelihood of a band that explains the observations as well as the best, as a logarithm.
const AS_WELL: f32 = -2.0;
/// Minimum error of arm times, in ns (guess: between two bands).
const MIN_SPREAD_NS: f64 = 40_000.0;

/// The possible cylinders of a place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Whereabouts {
    logs: Vec<f32>,
    per_band: f64,
    /// The cylinders at one, three, five, seven and nine tenths of the likelihood.
    quantiles: [u32; 5],
    /// The first and the last possible cylinder.
    span: (u32, u32),
}

/// One arm movement to a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trip {
    /// Time from the departure to the arrival of the first sector.
    pub(crate) took_ns: f64,
    pub(crate) turn_ns: f64,
    /// Spread of arrivals.
    pub(crate) spread_ns: f64,
}

impl Whereabouts {
    /// Bytes of memory.
    pub(crate) const BYTES: usize = size_of::<Self>() + BANDS * size_of::<f32>();

    /// Equal likelihood for all cylinders.
    pub(crate) fn new(cylinders: u32) -> Self {
        let mut anywhere = Self {
            logs: vec![0.0; BANDS],
            per_band: f64::from(cylinders.max(1)) / BANDS as f64,
            quantiles: [0; 5],
            span: (0, 0),
        };
        anywhere.sum_up();
        anywhere
    }

    /// The logarithms of the likelihoods, for saving.
    pub(crate) fn numbers(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.logs.iter().map(|log| f64::from(*log))
    }

    /// Restores the output of [`Whereabouts::numbers`]; returns `None` if it is invalid.
    pub(crate) fn restored(cylinders: u32, numbers: &[f64]) -> Option<Self> {
        let fits = numbers.len() == BANDS
            && numbers.iter().all(|log| (f64::from(LEAST)..=0.0).contains(log));
        fits.then(|| {
            let mut restored = Self {
                logs: numbers.iter().map(|log| *log as f32).collect(),
                ..Self::new(cylinders)
            };
            restored.sum_up();
            restored
        })
    }

    /// The most likely cylinder: the median of the likelihood.
    pub(crate) fn cylinder(&self) -> u32 {
        self.quantiles[2]
    }

    /// The most likely cylinder, or `home` if it explains the observations as well: most spares are
    /// near the sectors that they replace.
    pub(crate) fn cylinder_near(&self, home: u32) -> u32 {
        let band = (f64::from(home) / self.per_band) as usize;
        if self.logs.get(band).is_some_and(|log| *log >= AS_WELL) { home } else { self.cylinder() }
    }

    /// Five cylinders that represent a fifth of the likelihood each.
    pub(crate) fn likely(&self) -> [u32; 5] {
        self.quantiles
    }

    /// The outermost and the innermost possible cylinder.
    pub(crate) fn span(&self) -> (u32, u32) {
        self.span
    }

    /// Observes a trip to the place, whose arm time to each cylinder is `arm_ns`.
    pub(crate) fn take(&mut self, trip: &Trip, arm_ns: impl Fn(u32) -> f64) {
        let spread = trip.spread_ns.max(MIN_SPREAD_NS);
        // The probability that the arm time errs by less, as a linear ramp of two deviations either
        // way.
        let chance = |margin_ns: f64| (0.5 + margin_ns / (4.0 * spread)).clamp(0.0, 1.0);
        for band in 0..BANDS {
            let arm = arm_ns(self.middle(band));
            let inside = chance(trip.took_ns - arm) * chance(arm + trip.turn_ns - trip.took_ns);
            self.logs[band] += libm::log(OTHERWISE + (1.0 - OTHERWISE) * inside) as f32;
        }
        self.sum_up();
    }

    /// Combines the likelihoods of two runs that are one place.
    pub(crate) fn join(&mut self, other: &Self) {
        self.logs.iter_mut().zip(&other.logs).for_each(|(log, more)| *log += more);
        self.sum_up();
    }

    fn middle(&self, band: usize) -> u32 {
        ((band as f64 + 0.5) * self.per_band) as u32
    }

    fn sum_up(&mut self) {
        let most = self.logs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        self.logs.iter_mut().for_each(|log| *log = (*log - most).max(LEAST));
        let possible = |log: &f32| *log >= POSSIBLE;
        let first = self.logs.iter().position(possible).unwrap_or(0);
        let last = self.logs.iter().rposition(possible).unwrap_or(BANDS - 1);
        self.span = (
            (first as f64 * self.per_band) as u32,
            (((last + 1) as f64 * self.per_band) as u32).saturating_sub(1),
        );
        let weights: Vec<f64> = self
            .logs
            .iter()
            .map(|log| if possible(log) { libm::exp(f64::from(*log)) } else { 0.0 })
            .collect();
        let (whole, mut before, mut quantile) = (weights.iter().sum::<f64>(), 0.0, 0);
        for (band, weight) in weights.iter().enumerate() {
            while quantile < 5 && before + weight >= (0.1 + 0.2 * quantile as f64) * whole {
                let within = ((0.1 + 0.2 * quantile as f64) * whole - before)
                    / weight.max(f64::MIN_POSITIVE);
                self.quantiles[quantile] =
                    ((band as f64 + within.clamp(0.0, 1.0)) * self.per_band) as u32;
                quantile += 1;
            }
            before += weight;
        }
        // Quantiles that rounding has skipped.
        let last = self.span.1;
        self.quantiles[quantile..].fill(last);
        self.quantiles.iter_mut().for_each(|cylinder| *cylinder = (*cylinder).min(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const CYLINDERS: u32 = 90_000;
    const TURN_NS: f64 = 6e6;

    fn arm_ns(from: u32, to: u32) -> f64 {
        let distance = f64::from(from.abs_diff(to));
        if distance == 0.0 { 0.0 } else { 200_000.0 + 26_000.0 * libm::sqrt(distance) }
    }

    fn teach(whereabouts: &mut Whereabouts, place: u32, trips: u32, rng: &mut ChaCha8Rng) {
        for _ in 0..trips {
            let from = rng.random_range(0..CYLINDERS);
            let took_ns = arm_ns(from, place) + rng.random_range(0.0..TURN_NS);
            whereabouts.take(&Trip { took_ns, turn_ns: TURN_NS, spread_ns: 30_000.0 }, |to| {
                arm_ns(from, to)
            });
        }
    }

    #[test]
    fn trips_from_random_cylinders_narrow_a_place_down() {
        for seed in 1..=8 {
            let (mut rng, mut whereabouts) =
                (ChaCha8Rng::seed_from_u64(seed), Whereabouts::new(CYLINDERS));
            assert_eq!(
                (whereabouts.cylinder() / 100, whereabouts.span()),
                (450, (0, CYLINDERS - 1)),
                "no trip yet: any cylinder"
            );
            let place = rng.random_range(0..CYLINDERS);
            teach(&mut whereabouts, place, 100, &mut rng);
            let (first, last) = whereabouts.span();
            assert!(
                first <= place + 200 && place <= last + 200 && last - first < CYLINDERS / 8,
                "seed {seed}: {place} in {first} to {last}"
            );
            teach(&mut whereabouts, place, 900, &mut rng);
            let off = whereabouts.cylinder().abs_diff(place);
            assert!(off < CYLINDERS / 100, "seed {seed}: {off} cylinders off after 1,000 trips");
        }
    }

    #[test]
    fn a_place_that_is_moved_again_is_found_again() {
        let (mut rng, mut whereabouts) =
            (ChaCha8Rng::seed_from_u64(3), Whereabouts::new(CYLINDERS));
        teach(&mut whereabouts, 80_000, 500, &mut rng);
        teach(&mut whereabouts, 12_000, 500, &mut rng);
        assert!(whereabouts.cylinder().abs_diff(12_000) < 1_500, "{}", whereabouts.cylinder());
    }

    #[test]
    fn saved_numbers_are_restored_and_invalid_ones_are_refused() {
        let (mut rng, mut whereabouts) =
            (ChaCha8Rng::seed_from_u64(4), Whereabouts::new(CYLINDERS));
        teach(&mut whereabouts, 30_000, 50, &mut rng);
        let numbers: Vec<f64> = whereabouts.numbers().collect();
        assert_eq!(Whereabouts::restored(CYLINDERS, &numbers), Some(whereabouts));
        assert_eq!(Whereabouts::restored(CYLINDERS, &numbers[1..]), None);
        assert_eq!(Whereabouts::restored(CYLINDERS, &[f64::NAN; BANDS]), None);
    }
}
