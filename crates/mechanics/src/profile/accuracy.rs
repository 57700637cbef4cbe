//! [`Accuracy`]: how well a measured profile predicts reads, as its characterization found.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// The share of reads within 150 µs from which on a profile is reliable (guess: at 150 µs half of
/// the gain of ordering by position is left, docs/limits.md 4).
const RELIABLE: f64 = 0.90;
/// Below this share a profile is wrong rather than poor: most predictions mean nothing (guess).
const WRONG: f64 = 0.50;

/// The share of fresh 4 KiB reads that a profile predicts, `[accuracy]` in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// The number of reads that were compared; 0 if the time ended before any was.
    pub reads: u64,
    /// The fraction (0 to 1) that completed within 50 µs of the prediction.
    pub within_50_us: f64,
    /// The fraction within 150 µs.
    pub within_150_us: f64,
    /// The fraction that completed half a revolution or more away from the prediction.
    pub revolution_off: f64,
    /// The same by zone, in LBA order; zones without a read are left out.
    #[serde(default, rename = "zone", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneAccuracy>,
}

/// The accuracy in one zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneAccuracy {
    /// The first sector.
    pub first_lba: u64,
    /// The number of reads that were compared.
    pub reads: u64,
    /// The fraction within 50 µs.
    pub within_50_us: f64,
    /// The fraction within 150 µs.
    pub within_150_us: f64,
}

/// The use of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reliability {
    /// No prediction was compared with a read.
    Unchecked,
    /// Most predictions mean nothing.
    Wrong,
    /// Too many predictions are wrong for promises that depend on them.
    Poor,
    /// Predictions can be relied upon.
    Good,
}

impl Accuracy {
    /// The use of the profile.
    #[must_use]
    pub fn reliability(&self) -> Reliability {
        match self.within_150_us {
            _ if self.reads == 0 => Reliability::Unchecked,
            share if share >= RELIABLE => Reliability::Good,
            share if share >= WRONG => Reliability::Poor,
            _ => Reliability::Wrong,
        }
    }

    /// The promises of a server that this profile cannot keep, as sentences; none if it is
    /// reliable.
    #[must_use]
    pub fn broken_promises(&self) -> Vec<String> {
        let percent = |share: f64| 100.0 * share;
        let late = percent(1.0 - self.within_150_us);
        match self.reliability() {
            Reliability::Good => Vec::new(),
            Reliability::Unchecked => alloc::vec![
                "deadlines, throughput and scans: no prediction was compared with a read".into(),
            ],
            Reliability::Poor => alloc::vec![
                format!(
                    "deadlines: {late:.0} % of reads complete more than 150 us from their \
                        prediction ({:.1} % a revolution or more), so that deadlines near the \
                        drive's own times are missed",
                    percent(self.revolution_off)
                ),
                format!(
                    "throughput: the order by position loses to the drive's own queue, expected \
                        {:.0} % or more within 150 us",
                    percent(RELIABLE)
                ),
                "scans: few gaps between the requests of clients can be used".into(),
            ],
            Reliability::Wrong => alloc::vec![
                format!(
                    "deadlines: {late:.0} % of reads complete more than 150 us from their \
                        prediction, so that no deadline near the drive's own times is kept"
                ),
                "throughput: requests are ordered by distance as soon as the profile is not trusted"
                    .into(),
                "scans: gaps between the requests of clients are not used; scans advance while \
                    the drive is idle"
                    .into(),
            ],
        }
    }

    /// The fraction of reads that makes a profile reliable.
    #[must_use]
    pub fn expected() -> f64 {
        RELIABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reliable_profile_breaks_no_promise_and_a_poor_one_names_them() {
        let of = |within_150_us| Accuracy { reads: 100, within_150_us, ..Accuracy::default() };
        for (share, reliability, broken) in [
            (0.95, Reliability::Good, 0),
            (0.90, Reliability::Good, 0),
            (0.89, Reliability::Poor, 3),
            (0.20, Reliability::Wrong, 3),
        ] {
            assert_eq!(of(share).reliability(), reliability);
            assert_eq!(of(share).broken_promises().len(), broken, "{share}");
        }
        assert!(of(0.8).broken_promises()[0].contains("20 % of reads"));
    }

    #[test]
    fn a_profile_that_was_not_checked_is_not_relied_upon() {
        let unchecked = Accuracy::default();
        assert_eq!(unchecked.reliability(), Reliability::Unchecked);
        assert!(unchecked.broken_promises()[0].contains("no prediction"));
    }
}
