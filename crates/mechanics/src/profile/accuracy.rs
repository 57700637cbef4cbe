//! [`Accuracy`]: how well a measured profile predicts reads, as its characterization found.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// The share of reads within 150 µs from which on a profile is reliable (guess: at 150 µs half of
/// the gain of ordering by position is left, docs/limits.md 4).
const RELIABLE: f64 = 0.90;
/// The share of reads within 50 µs from which on a profile is complete, if completions are steady:
/// with a deviation below [`STEADY_US`], noise alone leaves 99.7 %.
const COMPLETE: f64 = 0.975;
const STEADY_US: f64 = 50.0 / 3.0;
/// Below this share a profile is wrong rather than poor: most predictions mean nothing (guess).
const WRONG: f64 = 0.50;
/// The number of zones that a sentence names.
const WORST: usize = 3;

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
    /// Most predictions can be relied upon; noise does not explain why the others cannot.
    Incomplete,
    /// Predictions can be relied upon.
    Good,
}

impl Accuracy {
    /// The use of the profile, if completions deviate by so much on the host.
    #[must_use]
    pub fn reliability(&self, jitter_us: f64) -> Reliability {
        let is_incomplete = self.within_50_us < COMPLETE && jitter_us < STEADY_US;
        match self.within_150_us {
            _ if self.reads == 0 => Reliability::Unchecked,
            share if share >= RELIABLE && is_incomplete => Reliability::Incomplete,
            share if share >= RELIABLE => Reliability::Good,
            share if share >= WRONG => Reliability::Poor,
            _ => Reliability::Wrong,
        }
    }

    /// The promises of a server that this profile cannot keep, as sentences; none if it is
    /// reliable. Completions deviate by so much on the host.
    #[must_use]
    pub fn broken_promises(&self, jitter_us: f64) -> Vec<String> {
        let percent = |share: f64| 100.0 * share;
        let late = percent(1.0 - self.within_150_us);
        match self.reliability(jitter_us) {
            Reliability::Good => Vec::new(),
            Reliability::Incomplete => alloc::vec![format!(
                "deadlines and scans: {:.1} % of reads complete more than 50 us from their \
                    prediction ({:.1} % a revolution or more){}",
                percent(1.0 - self.within_50_us),
                percent(self.revolution_off),
                self.worst_zones()
            )],
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

    /// The zones with the most reads that are not within 50 µs, as part of a sentence.
    fn worst_zones(&self) -> String {
        let far = |zone: &ZoneAccuracy| zone.reads as f64 * (1.0 - zone.within_50_us);
        let mut zones: Vec<&ZoneAccuracy> =
            self.zones.iter().filter(|zone| zone.within_50_us < COMPLETE).collect();
        zones.sort_by(|one, two| far(two).total_cmp(&far(one)));
        let named: Vec<String> = zones
            .iter()
            .take(WORST)
            .map(|zone| {
                let share = 100.0 * (1.0 - zone.within_50_us);
                format!("{share:.0} % of those from sector {} on", zone.first_lba)
            })
            .collect();
        if named.is_empty() { String::new() } else { format!(", above all {}", named.join(", ")) }
    }

    /// The fraction of reads within 150 µs that makes a profile reliable.
    #[must_use]
    pub fn expected() -> f64 {
        RELIABLE
    }

    /// The fraction within 50 µs that a complete profile has if completions are steady.
    #[must_use]
    pub fn expected_near() -> f64 {
        COMPLETE
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
            assert_eq!(of(share).reliability(30.0), reliability);
            assert_eq!(of(share).broken_promises(30.0).len(), broken, "{share}");
        }
        assert!(of(0.8).broken_promises(30.0)[0].contains("20 % of reads"));
    }

    #[test]
    fn only_noise_excuses_reads_that_are_not_near_and_the_zones_of_the_others_are_named() {
        let zone = |first_lba, within_50_us| ZoneAccuracy {
            first_lba,
            reads: 50,
            within_50_us,
            within_150_us: within_50_us,
        };
        let accuracy = Accuracy {
            reads: 100,
            within_50_us: 0.95,
            within_150_us: 0.95,
            revolution_off: 0.01,
            zones: alloc::vec![zone(0, 1.0), zone(5_000, 0.9)],
        };
        assert_eq!(accuracy.reliability(30.0), Reliability::Good);
        assert_eq!(accuracy.reliability(2.0), Reliability::Incomplete);
        assert_eq!(
            accuracy.broken_promises(2.0),
            ["deadlines and scans: 5.0 % of reads complete more than 50 us from their prediction \
                (1.0 % a revolution or more), above all 10 % of those from sector 5000 on"]
        );
        let complete = Accuracy { within_50_us: 0.98, ..accuracy };
        assert_eq!(complete.reliability(2.0), Reliability::Good);
    }

    #[test]
    fn a_profile_that_was_not_checked_is_not_relied_upon() {
        let unchecked = Accuracy::default();
        assert_eq!(unchecked.reliability(2.0), Reliability::Unchecked);
        assert!(unchecked.broken_promises(2.0)[0].contains("no prediction"));
    }
}
