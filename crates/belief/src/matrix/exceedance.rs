//! [`Exceedance`]: the rate at which observations exceeded their entry, by the number of earlier
//! observations of the pair.
//!
//! The worst of n observations of the same experiment is exceeded by the next with probability
//! 1/(n + 1), for any distribution: one time in a hundred after 99. The paper's "after 100
//! measurements below 10⁻⁶ %" is possible only if a pair has few possible times, as between fixed
//! positions.
//! This table shows the rate on the drive at hand.
//!
//! The count is against the code of the entry: a code stands for the end of its step, so coarse
//! codes are exceeded less often than the observed maximum. The table is saved with the map;
//! merging keeps the table of the receiving map. Source: P1 section 3.3, docs/spec of P1 (notes).

/// Observations of known pairs, and those that exceeded what the map said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceedance {
    /// Trials and exceedances, by the earlier samples of the pair.
    counts: Vec<(u64, u64)>,
}

/// One row of an [`Exceedance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceedanceRow {
    /// Earlier samples of the pairs; [`ExceedanceRow::MAX_SAMPLES`] means that many or more.
    pub samples: u8,
    /// Observations of such pairs.
    pub trials: u64,
    /// Number of trials that exceeded the entry.
    pub exceeded: u64,
}

/// The result of one observation of a known pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// At most the entry.
    Within,
    /// Longer than the entry.
    Exceeded,
}

impl ExceedanceRow {
    /// The highest number of samples that is counted.
    pub const MAX_SAMPLES: u8 = u8::MAX;

    /// The share of exceeded trials; `None` without trials.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.trials > 0).then(|| self.exceeded as f64 / self.trials as f64)
    }
}

impl Exceedance {
    /// Bytes of a table.
    pub(super) const BYTES: u64 = 16 * (ExceedanceRow::MAX_SAMPLES as u64 + 1);

    pub(crate) fn new() -> Self {
        Self { counts: vec![(0, 0); usize::from(ExceedanceRow::MAX_SAMPLES) + 1] }
    }

    /// Encodes the table: trials and exceedances of each number of samples, little endian.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.counts
            .iter()
            .flat_map(|(trials, exceeded)| [trials.to_le_bytes(), exceeded.to_le_bytes()])
            .flatten()
            .collect()
    }

    /// Decodes [`Exceedance::BYTES`] bytes; returns `None` if they are invalid.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |bytes: &[u8]| {
            bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let counts: Vec<(u64, u64)> =
            bytes.chunks_exact(16).map(|pair| (number(&pair[..8]), number(&pair[8..]))).collect();
        let fits = bytes.len() as u64 == Self::BYTES
            && counts.iter().all(|(trials, exceeded)| exceeded <= trials);
        fits.then_some(Self { counts })
    }

    /// Counts a trial of a pair with `samples` earlier samples.
    pub(crate) fn note(&mut self, samples: u8, trial: Trial) {
        let (trials, exceedances) = &mut self.counts[usize::from(samples)];
        *trials += 1;
        *exceedances += u64::from(trial == Trial::Exceeded);
    }

    /// The rows with trials, by ascending number of samples.
    pub fn rows(&self) -> impl Iterator<Item = ExceedanceRow> + '_ {
        let rows = self.counts.iter().zip(0..=ExceedanceRow::MAX_SAMPLES);
        rows.map(|((trials, exceeded), samples)| ExceedanceRow {
            samples,
            trials: *trials,
            exceeded: *exceeded,
        })
        .filter(|row| row.trials > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_trials_are_omitted_and_have_no_rate() {
        let mut table = Exceedance::new();
        assert_eq!(table.rows().count(), 0);
        table.note(1, Trial::Exceeded);
        table.note(1, Trial::Within);
        table.note(255, Trial::Within);
        let rows: Vec<ExceedanceRow> = table.rows().collect();
        assert_eq!(
            rows,
            [
                ExceedanceRow { samples: 1, trials: 2, exceeded: 1 },
                ExceedanceRow { samples: 255, trials: 1, exceeded: 0 }
            ]
        );
        let none = ExceedanceRow { samples: 2, trials: 0, exceeded: 0 };
        assert_eq!([rows[0].rate(), rows[1].rate(), none.rate()], [Some(0.5), Some(0.0), None]);
    }
}
