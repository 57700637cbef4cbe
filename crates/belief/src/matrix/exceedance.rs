//! [`Exceedance`]: how often an observation was longer than what the map said, by how often the
//! pair had been observed before.
//!
//! The worst of n observations of one and the same experiment is exceeded by the next with
//! probability 1/(n + 1), whatever is measured: one time in a hundred after 99. The paper's "after
//! 100 measurements below 10⁻⁶ %" is possible only where a pair has few possible times, as between
//! fixed positions. This table says what it is on the drive at hand.
//!
//! Counted is what a map of so many bits would have promised: a code answers the end of its step,
//! so coarse codes are exceeded less often than what was observed. It is saved with the map;
//! merging maps leaves the receiving one's. Source: P1 section 3.3, docs/spec of P1 (notes).

/// Observations of known pairs, and those that exceeded what the map said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceedance {
    /// By the samples that the pair had had: trials and exceedances.
    counts: Vec<(u64, u64)>,
}

/// One line of an [`Exceedance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceedanceRow {
    /// The samples that the pairs had had; [`ExceedanceRow::MAX_SAMPLES`] stands for as many and
    /// more.
    pub samples: u8,
    /// Observations of such pairs.
    pub trials: u64,
    /// How many of them were longer than the map said.
    pub exceeded: u64,
}

impl ExceedanceRow {
    /// Samples are counted up to here.
    pub const MAX_SAMPLES: u8 = u8::MAX;

    /// The share of trials that exceeded; `None` without trials.
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

    /// The table as bytes: trials and exceedances of each number of samples, little endian.
    pub(super) fn encode(&self) -> Vec<u8> {
        self.counts
            .iter()
            .flat_map(|(trials, exceeded)| [trials.to_le_bytes(), exceeded.to_le_bytes()])
            .flatten()
            .collect()
    }

    /// The table that [`Exceedance::BYTES`] bytes are; `None` where it cannot be one.
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

    pub(crate) fn note(&mut self, samples: u8, exceeded: bool) {
        let (trials, exceedances) = &mut self.counts[usize::from(samples)];
        *trials += 1;
        *exceedances += u64::from(exceeded);
    }

    /// The lines that have trials, by ascending number of samples.
    pub fn rows(&self) -> impl Iterator<Item = ExceedanceRow> + '_ {
        let rows = self.counts.iter().zip(0..=ExceedanceRow::MAX_SAMPLES);
        rows.map(|((trials, exceeded), samples)| ExceedanceRow {
            samples,
            trials: *trials,
            exceeded: *exceeded,
        })
        .filter(|row| row.trials > 0)
    }

    /// The lines of pairs with at least `samples` samples, taken together.
    #[must_use]
    pub fn from_samples(&self, samples: u8) -> ExceedanceRow {
        let counts = &self.counts[usize::from(samples)..];
        let (trials, exceeded) =
            counts.iter().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        ExceedanceRow { samples, trials, exceeded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_trials_are_not_shown_and_have_no_rate() {
        let mut table = Exceedance::new();
        assert_eq!((table.rows().count(), table.from_samples(0).rate()), (0, None));
        table.note(1, true);
        table.note(1, false);
        table.note(255, false);
        let rows: Vec<ExceedanceRow> = table.rows().collect();
        assert_eq!(
            rows,
            [
                ExceedanceRow { samples: 1, trials: 2, exceeded: 1 },
                ExceedanceRow { samples: 255, trials: 1, exceeded: 0 }
            ]
        );
        assert_eq!((rows[0].rate(), table.from_samples(2).rate()), (Some(0.5), Some(0.0)));
        assert_eq!(table.from_samples(0), ExceedanceRow { samples: 0, trials: 3, exceeded: 1 });
    }
}
