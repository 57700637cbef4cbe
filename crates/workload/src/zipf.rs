//! [`Zipf`]: ranks from 1 to n with probabilities in proportion to rank^(−theta), in constant time
//! and memory.
//!
//! By rejection-inversion (Hörmann and Derflinger, Rejection-inversion to generate variates from
//! monotone discrete distributions, 1996): the density is covered by the function h(x) =
//! x^(−theta), whose integral H and its inverse are known in closed form. A point drawn under H
//! between ½ and n + ½ is rounded to a rank and kept if it lies within the rank's bar. At most
//! about one draw in ten is rejected, whatever n and theta.

use rand::Rng;

use crate::dice;

/// A Zipf distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    ranks: f64,
    theta: f64,
    /// H(1½) − 1, the lower end of what is drawn.
    low: f64,
    /// H(n + ½), the upper end.
    high: f64,
    /// Points no further than this to the left of their rank are always within its bar.
    sure: f64,
}

impl Zipf {
    /// Ranks 1 to `ranks`, at least 1; `theta` above 0.
    pub(crate) fn new(ranks: u64, theta: f64) -> Self {
        let ranks = ranks as f64;
        let low = integral(1.5, theta) - 1.0;
        let sure = 2.0 - inverse(integral(2.5, theta) - density(2.0, theta), theta);
        Self { ranks, theta, low, high: integral(ranks + 0.5, theta), sure }
    }

    /// A rank.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let area = self.high + dice::above_zero(rng) * (self.low - self.high);
            let point = inverse(area, self.theta);
            let rank = libm::round(point).clamp(1.0, self.ranks);
            if rank - point <= self.sure
                || area >= integral(rank + 0.5, self.theta) - density(rank, self.theta)
            {
                return rank as u64;
            }
        }
    }
}

fn density(x: f64, theta: f64) -> f64 {
    libm::exp(-theta * libm::log(x))
}

/// H(x) = (x^(1 − theta) − 1) / (1 − theta), and ln x for a theta of 1.
fn integral(x: f64, theta: f64) -> f64 {
    let log = libm::log(x);
    let exponent = (1.0 - theta) * log;
    if exponent.abs() < 1e-8 {
        log * (1.0 + exponent / 2.0)
    } else {
        log * libm::expm1(exponent) / exponent
    }
}

/// The x with this H(x).
fn inverse(area: f64, theta: f64) -> f64 {
    // Rounding may put the product just below the −1 where H ends.
    let product = (area * (1.0 - theta)).max(-1.0);
    let log = if product.abs() < 1e-8 {
        area * (1.0 - product / 2.0)
    } else {
        area * libm::log1p(product) / product
    };
    libm::exp(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Counts of each rank against the exact probabilities by Pearson's chi-squared, whose mean is
    /// its degrees of freedom k and whose deviation is √2k; five deviations are passed by chance
    /// once in a million.
    #[test]
    fn ranks_come_as_often_as_the_formula_says() {
        for (ranks, theta) in
            [(1, 0.5), (2, 1.0), (10, 0.01), (50, 0.8), (50, 1.0), (50, 1.2), (20, 3.0)]
        {
            let mut rng = ChaCha8Rng::seed_from_u64(5);
            let (zipf, draws) = (Zipf::new(ranks, theta), 100_000);
            let mut counts = alloc::vec![0_u32; ranks as usize];
            (0..draws).for_each(|_| counts[zipf.draw(&mut rng) as usize - 1] += 1);
            let weights: alloc::vec::Vec<f64> =
                (1..=ranks).map(|rank| libm::pow(rank as f64, -theta)).collect();
            let sum: f64 = weights.iter().sum();
            let distance = |(count, weight): (&u32, &f64)| {
                let expected = f64::from(draws) * weight / sum;
                (f64::from(*count) - expected) * (f64::from(*count) - expected) / expected
            };
            let chi_squared: f64 = counts.iter().zip(&weights).map(distance).sum();
            let freedom = (ranks - 1) as f64;
            assert!(
                chi_squared <= freedom + 5.0 * libm::sqrt(2.0 * freedom),
                "{ranks} ranks, theta {theta}: chi-squared {chi_squared}"
            );
        }
    }

    #[test]
    fn a_hundred_billion_ranks_cost_no_more_than_ten() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let zipf = Zipf::new(100_000_000_000, 1.0);
        // With theta 1 the share of the first 316,228 of 10^11 is (ln 316,228 + γ) / (ln 10^11 +
        // γ).
        let (share, draws) = ((12.664_2 + 0.577_2) / (25.328_4 + 0.577_2), 50_000);
        let first = (0..draws).filter(|_| zipf.draw(&mut rng) <= 316_228).count();
        let tolerance = 4.5 * libm::sqrt(share * (1.0 - share) / f64::from(draws));
        assert!((first as f64 / f64::from(draws) - share).abs() < tolerance, "{first} of {draws}");
    }
}
