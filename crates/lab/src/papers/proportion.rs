//! The interval of a proportion from counts.

/// The 95 % interval of a proportion by Clopper and Pearson (1934), from `events` in `trials`
/// independent trials. It covers at least 95 %. No event in n trials reaches up to about 3.7 / n
/// (the rule of three, 3 / n, is the one-sided bound).
///
/// # Panics
/// With more events than trials, or without a trial.
pub fn clopper_pearson(events: u64, trials: u64) -> (f64, f64) {
    assert!(trials > 0 && events <= trials, "{events} of {trials} events are no proportion");
    let (k, n) = (events as f64, trials as f64);
    let low = if events == 0 { 0.0 } else { beta_quantile(TAIL, k, n - k + 1.0) };
    let high = if events == trials { 1.0 } else { beta_quantile(1.0 - TAIL, k + 1.0, n - k) };
    (low, high)
}

/// Probability beyond each end of the interval.
const TAIL: f64 = 0.025;

/// The value below which a beta variable of parameters `a`, `b` lies with this probability.
fn beta_quantile(probability: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // 60 halvings leave less than the precision of the probability.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if beta_probability(middle, a, b) < probability { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun,
/// 26.5.8).
fn beta_probability(x: f64, a: f64, b: f64) -> f64 {
    // The fraction converges fast below the mean; above, the other tail is computed.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_probability(1.0 - x, b, a);
    }
    if x <= 0.0 {
        return 0.0;
    }
    let front = libm::exp(
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
            + a * libm::log(x)
            + b * libm::log1p(-x),
    ) / a;
    // Lentz's method: the value and its two running quotients.
    let (mut upper, mut lower, mut value) = (1.0, 1.0 - (a + b) * x / (a + 1.0), 1.0);
    lower = 1.0 / lower;
    value *= lower;
    for step in 1..10_000 {
        let m = f64::from(step);
        for part in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            lower = 1.0 / (1.0 + part * lower);
            upper = 1.0 + part / upper;
            value *= lower * upper;
        }
        if (lower * upper - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_agrees_with_tables() {
        // Any table, or `binom.test` of R.
        for (events, trials, low, high) in [
            (0, 10, 0.0, 0.308_497),
            (10, 10, 0.691_503, 1.0),
            (1, 10, 0.002_529, 0.445_016),
            (5, 10, 0.187_086, 0.812_914),
            (30, 1_000, 0.020_331, 0.042_551),
        ] {
            let interval = clopper_pearson(events, trials);
            assert!(
                (interval.0 - low).abs() < 2e-5 && (interval.1 - high).abs() < 2e-5,
                "{events} of {trials}: {interval:?}"
            );
        }
    }

    #[test]
    fn no_event_bounds_the_share_by_about_four_in_n_and_large_counts_work() {
        for trials in [100_u64, 10_000, 1_000_000] {
            let (low, high) = clopper_pearson(0, trials);
            // Exactly: (1 − p)^n = 0.025.
            let exact = -libm::expm1(libm::log(TAIL) / trials as f64);
            assert!(low == 0.0 && (high / exact - 1.0).abs() < 1e-6, "{trials}: {high}");
        }
        let (low, high) = clopper_pearson(100_000, 200_000);
        assert!((low - 0.497_806).abs() < 1e-5 && (high - 0.502_194).abs() < 1e-5, "{low} {high}");
    }
}
