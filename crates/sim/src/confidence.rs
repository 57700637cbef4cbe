//! [`BatchMeans`]: the confidence interval of a mean from one run.
//!
//! Neighboring values of a run are correlated, so their scatter understates the error of the mean.
//! The run is cut into batches of equal length; the means of long batches are nearly independent,
//! and their scatter gives the interval (the method of batch means). The length of the run need not
//! be known: at 64 batches, neighbors are joined and the batch length doubles.

/// The number of batches at which neighbors are joined; even.
const MAX_BATCHES: usize = 64;
/// The minimum number of whole batches for an interval.
const MIN_BATCHES: usize = 10;

/// The mean of a sequence of values, and its 95 % interval.
#[derive(Clone, Debug)]
pub struct BatchMeans {
    /// Sums of whole batches.
    batches: Vec<f64>,
    /// Values in a batch.
    length: u64,
    /// The batch being filled.
    sum: f64,
    count: u64,
}

impl Default for BatchMeans {
    fn default() -> Self {
        Self { batches: Vec::with_capacity(MAX_BATCHES), length: 1, sum: 0.0, count: 0 }
    }
}

impl BatchMeans {
    /// Adds the next value.
    pub fn push(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        if self.count == self.length {
            self.batches.push(self.sum);
            (self.sum, self.count) = (0.0, 0);
            if self.batches.len() == MAX_BATCHES {
                self.join_neighbors();
            }
        }
    }

    /// The mean of all values; `None` before the first.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let values = self.batches.len() as u64 * self.length + self.count;
        (values > 0).then(|| (self.batches.iter().sum::<f64>() + self.sum) / values as f64)
    }

    /// Half the width of the 95 % interval around the mean; `None` while there are too few batches.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        let batches = self.batches.len();
        if batches < MIN_BATCHES {
            return None;
        }
        let means = || self.batches.iter().map(|sum| sum / self.length as f64);
        let mean = means().sum::<f64>() / batches as f64;
        let variance = means().map(|of_batch| (of_batch - mean) * (of_batch - mean)).sum::<f64>()
            / (batches - 1) as f64;
        Some(t_quantile(batches - 1) * libm::sqrt(variance / batches as f64))
    }

    fn join_neighbors(&mut self) {
        for pair in 0..MAX_BATCHES / 2 {
            self.batches[pair] = self.batches[2 * pair] + self.batches[2 * pair + 1];
        }
        self.batches.truncate(MAX_BATCHES / 2);
        self.length *= 2;
    }
}

/// The 97.5 % quantile of Student's t distribution, by its expansion around the normal quantile;
/// accurate to 0.005 from nine degrees of freedom on.
fn t_quantile(degrees: usize) -> f64 {
    let (z, n) = (1.959_963_985_f64, degrees as f64);
    let (z3, z5) = (z * z * z, z * z * z * z * z);
    z + (z3 + z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_the_printed_table() {
        for (degrees, printed) in [(9, 2.262), (20, 2.086), (30, 2.042), (60, 2.000)] {
            assert!(
                (t_quantile(degrees) - printed).abs() < 0.005,
                "{degrees}: {}",
                t_quantile(degrees)
            );
        }
    }
}
