//! [`AutoTable`]: the scores of policies under measured loads, on one drive.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::load::LoadFeatures;
use crate::policies::cds_scan;
use crate::table::{DEFAULT_POLICY, PolicyEntry, PolicyError};

/// The scores of policies under measured loads.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoTable {
    drive: String,
    policies: Vec<&'static str>,
    rows: Vec<AutoRow>,
}

/// One measured load.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoRow {
    /// The name of the load, for explanations.
    pub load: String,
    /// Its features.
    pub features: LoadFeatures,
    /// The score of each policy of the table: its harmonic mean of the progress of the streams,
    /// divided by that of the best policy; 0 to 1.
    pub scores: Vec<f64>,
}

/// The reason why rows make no table.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum AutoTableError {
    /// A policy that is in no table of policies.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(
        "policy {name} cannot be in the table: it is an oracle, needs shares or worst cases, or is \
            `auto` itself"
    )]
    NotSwitchable { name: String },
    /// A policy that must be there is missing, or is there twice.
    #[error("policy {name} is in the table {times} times; write it once")]
    Times { name: String, times: usize },
    /// No row at all, or too many.
    #[error("the table has {0} loads; write 1 to {MAX_ROWS}")]
    Rows(usize),
    /// A row with another number of scores than there are policies.
    #[error("load {load}: there are {scores} scores for {policies} policies; write one for each")]
    Scores { load: String, scores: usize, policies: usize },
    #[error("load {load}: {name} = {value} is out of range (0 to {max})")]
    Value { load: String, name: String, value: String, max: f64 },
}

/// The maximum number of rows, so that a decision stays short.
const MAX_ROWS: usize = 1_024;
/// The rows nearest to a load that count (guess).
const NEAREST: usize = 3;
/// Added to squared distances, so that several rows count where one is hit (guess).
const SOFTNESS: f64 = 0.02;

/// The expected scores of the policies under a load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected<'a> {
    /// By policy, in the order of the table.
    pub(super) scores: SmallVec<[f64; 16]>,
    /// The nearest load.
    pub(super) nearest: &'a AutoRow,
}

impl Expected<'_> {
    /// The place of the best policy, of equals the first.
    pub(super) fn best(&self) -> Option<usize> {
        best(&self.scores)
    }
}

/// The place of the highest score, of equals the first.
pub(super) fn best(scores: &[f64]) -> Option<usize> {
    (0..scores.len()).rev().max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
}

impl AutoTable {
    /// A table for `drive`, whose policies are given by name and have their default parameters.
    ///
    /// # Errors
    /// [`AutoTableError`] for the first value that is wrong.
    pub fn new<'a>(
        drive: &str,
        policies: impl IntoIterator<Item = &'a str>,
        rows: Vec<AutoRow>,
    ) -> Result<Self, AutoTableError> {
        let entries: Result<Vec<_>, PolicyError> =
            policies.into_iter().map(PolicyEntry::find).collect();
        let entries = entries?;
        if let Some(entry) = entries.iter().find(|entry| !is_switchable(entry)) {
            return Err(AutoTableError::NotSwitchable { name: entry.name.to_string() });
        }
        let policies: Vec<&'static str> = entries.iter().map(|entry| entry.name).collect();
        let times = |name: &str| policies.iter().filter(|known| **known == name).count();
        for name in policies.iter().copied().chain([DEFAULT_POLICY]) {
            if times(name) != 1 {
                return Err(AutoTableError::Times { name: name.to_string(), times: times(name) });
            }
        }
        if !(1..=MAX_ROWS).contains(&rows.len()) {
            return Err(AutoTableError::Rows(rows.len()));
        }
        for row in &rows {
            if row.scores.len() != policies.len() {
                return Err(AutoTableError::Scores {
                    load: row.load.clone(),
                    scores: row.scores.len(),
                    policies: policies.len(),
                });
            }
            let maxima = [1e9, 1.0, 1.0, 1.0, 1e9, 1.0, 1e9];
            let features = LoadFeatures::NAMES.into_iter().zip(row.features.values()).zip(maxima);
            let scores = policies.iter().copied().zip(row.scores.iter().copied());
            let wrong = features
                .map(|((name, value), max)| (name, value, max))
                .chain(scores.map(|(name, value)| (name, value, 1.0)))
                .find(|(_, value, max)| !(0.0..=*max).contains(value));
            if let Some((name, value, max)) = wrong {
                return Err(AutoTableError::Value {
                    load: row.load.clone(),
                    name: name.to_string(),
                    value: value.to_string(),
                    max,
                });
            }
        }
        Ok(Self { drive: drive.to_string(), policies, rows })
    }

    /// The drive that it was measured on.
    #[must_use]
    pub fn drive(&self) -> &str {
        &self.drive
    }

    /// The policies, in the order of the scores.
    #[must_use]
    pub fn policies(&self) -> &[&'static str] {
        &self.policies
    }

    /// The measured loads.
    #[must_use]
    pub fn rows(&self) -> &[AutoRow] {
        &self.rows
    }

    /// The place of the default policy.
    pub(super) fn default_place(&self) -> usize {
        let place = self.policies.iter().position(|name| *name == DEFAULT_POLICY);
        place.expect("a table has the default policy")
    }

    /// The expected scores under a load: the mean over the nearest rows, each weighted by the
    /// inverse of its squared distance.
    pub(super) fn expected(&self, load: &LoadFeatures) -> Expected<'_> {
        let mut nearest: SmallVec<[(f64, &AutoRow); NEAREST + 1]> = SmallVec::new();
        for row in &self.rows {
            let distance = row.features.distance_squared(load);
            let place = nearest.partition_point(|(other, _)| *other <= distance);
            if place < NEAREST {
                nearest.insert(place, (distance, row));
                nearest.truncate(NEAREST);
            }
        }
        let weights = nearest.iter().map(|(distance, row)| (1.0 / (distance + SOFTNESS), row));
        let total: f64 = weights.clone().map(|(weight, _)| weight).sum();
        let score = |place: usize| {
            weights.clone().map(|(weight, row)| weight * row.scores[place]).sum::<f64>() / total
        };
        Expected {
            scores: (0..self.policies.len()).map(score).collect(),
            nearest: nearest.first().expect("a table has rows").1,
        }
    }
}

/// Returns whether `auto` can switch to a policy: one that needs neither the truth nor shares nor
/// the worst case of each request, which the scheduler keeps for a policy from the start.
#[must_use]
pub fn is_switchable(entry: &PolicyEntry) -> bool {
    let needs_worst_cases = [cds_scan::ENTRY, cds_scan::DS_ENTRY];
    let needs = entry.name == super::ENTRY.name
        || needs_worst_cases.iter().any(|other| other.name == entry.name);
    !entry.oracle && !needs && !entry.build_default().uses_shares()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn row(load: &str, size_sectors: f64, scores: &[f64]) -> AutoRow {
        let features =
            LoadFeatures { size_sectors, reads: 1.0, streams: 1.0, ..LoadFeatures::default() };
        AutoRow { load: load.to_string(), features, scores: scores.to_vec() }
    }

    #[test]
    fn the_nearest_row_counts_most() {
        let rows = vec![row("small", 8.0, &[1.0, 0.5]), row("large", 2_048.0, &[0.5, 1.0])];
        let table = AutoTable::new("tiny", ["headtime", "cas"], rows).expect("a table");
        let expected = |size_sectors| table.expected(&row("", size_sectors, &[]).features);
        let (small, large) = (expected(8.0), expected(1_500.0));
        assert!(small.scores[0] > 0.99 && small.scores[1] < 0.51, "{small:?}");
        assert!(large.scores[1] > large.scores[0], "{large:?}");
        assert_eq!((small.nearest.load.as_str(), large.nearest.load.as_str()), ("small", "large"));
        // Half way both count alike.
        let [one, other] = expected(128.0).scores[..] else { panic!("two policies") };
        assert!((one - other).abs() < 1e-9);
    }

    #[test]
    fn what_is_refused_is_named() {
        let good = || vec![row("small", 8.0, &[1.0, 0.5])];
        let message = |policies: &[&str], rows: Vec<AutoRow>| {
            AutoTable::new("tiny", policies.iter().copied(), rows)
                .expect_err("no table")
                .to_string()
        };
        let known = message(&["elevator", "headtime"], good());
        assert!(known.starts_with("there is no policy `elevator`"), "{known}");
        for name in ["sptf-oracle", "utilization", "cds-scan", "auto"] {
            let message = message(&["headtime", name], good());
            assert!(message.starts_with(&("policy ".to_string() + name)), "{message}");
        }
        assert_eq!(
            message(&["cas", "noop"], good()),
            "policy headtime is in the table 0 times; write it once"
        );
        assert_eq!(
            message(&["headtime", "headtime"], good()),
            "policy headtime is in the table 2 times; write it once"
        );
        let both = ["headtime", "cas"];
        assert_eq!(message(&both, vec![]), "the table has 0 loads; write 1 to 1024");
        assert_eq!(
            message(&both, vec![row("small", 8.0, &[1.0])]),
            "load small: there are 1 scores for 2 policies; write one for each"
        );
        assert_eq!(
            message(&both, vec![row("small", 8.0, &[1.0, 1.5])]),
            "load small: cas = 1.5 is out of range (0 to 1)"
        );
        assert_eq!(
            message(&both, vec![row("small", f64::NAN, &[1.0, 0.5])]),
            "load small: size_sectors = NaN is out of range (0 to 1000000000)"
        );
    }
}
