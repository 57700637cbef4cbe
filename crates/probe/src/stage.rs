//! [`Stage`]: the subjects of the experiments, their order, and the share of time of each.
//!
//! The shares are of the whole budget and give the time by which a stage has to end; unused time
//! goes to the next stage. The seek curve comes late because it is refined as long as there is
//! time. The self-check comes after everything that it checks.

use serde::{Deserialize, Serialize};

/// The subject of the present experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Rotation and its period.
    Rotation,
    /// The phase again, after an interruption; then the stage that was interrupted.
    Phase(ResumedStage),
    /// Tracks and zones.
    Layout,
    /// Slipped sectors.
    Slips,
    /// Skews of each zone.
    Skews,
    /// Bus and zero latency.
    Interface,
    /// Segments, read-ahead, hits.
    Cache,
    /// The arm.
    Seek,
    /// Write settle and write-back, if writes are allowed.
    Writes,
    /// The drive's own queue.
    Queue,
    /// The accuracy of predictions.
    SelfCheck,
    /// Sectors that were late in the self-check.
    Remaps,
    /// The end.
    Done,
}

/// A stage that may be interrupted and resumed: any except the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResumedStage {
    /// [`Stage::Layout`].
    Layout,
    /// [`Stage::Slips`].
    Slips,
    /// [`Stage::Skews`].
    Skews,
    /// [`Stage::Interface`].
    Interface,
    /// [`Stage::Cache`].
    Cache,
    /// [`Stage::Seek`].
    Seek,
    /// [`Stage::Writes`].
    Writes,
    /// [`Stage::Queue`].
    Queue,
    /// [`Stage::SelfCheck`].
    SelfCheck,
    /// [`Stage::Remaps`].
    Remaps,
}

/// The stages between the first and the last, in order, with the share of the budget by which each
/// has to end (guesses: the shares of the drives in the catalog, and half as much again).
const MIDDLE: [(Stage, ResumedStage, f64); 10] = [
    (Stage::Layout, ResumedStage::Layout, 0.56),
    (Stage::Slips, ResumedStage::Slips, 0.62),
    (Stage::Skews, ResumedStage::Skews, 0.66),
    (Stage::Interface, ResumedStage::Interface, 0.68),
    (Stage::Cache, ResumedStage::Cache, 0.74),
    (Stage::Seek, ResumedStage::Seek, 0.82),
    (Stage::Writes, ResumedStage::Writes, 0.84),
    (Stage::Queue, ResumedStage::Queue, 0.88),
    (Stage::SelfCheck, ResumedStage::SelfCheck, 0.99),
    (Stage::Remaps, ResumedStage::Remaps, 1.0),
];

impl Stage {
    /// A description for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Rotation => "rotation",
            Self::Phase(_) => "phase, read again",
            Self::Layout => "tracks and zones",
            Self::Slips => "slipped sectors",
            Self::Skews => "skews",
            Self::Interface => "bus and overhead",
            Self::Cache => "cache",
            Self::Seek => "seek curve",
            Self::Writes => "writes",
            Self::Queue => "firmware queue",
            Self::SelfCheck => "self-check",
            Self::Remaps => "late sectors",
            Self::Done => "done",
        }
    }

    /// The share of the budget by which the stage has to end.
    pub(crate) fn share(self) -> f64 {
        MIDDLE.iter().find(|(stage, ..)| *stage == self).map_or(1.0, |(_, _, share)| *share)
    }

    /// True if the results for the first of two arms hold for both.
    pub(crate) fn is_of_both_arms(self) -> bool {
        matches!(self, Self::Interface | Self::Cache | Self::Writes | Self::Queue)
    }

    /// The next stage in order.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Rotation => MIDDLE[0].0,
            Self::Phase(resumed) => resumed.stage(),
            _ => {
                let place = MIDDLE.iter().position(|(stage, ..)| *stage == self);
                place
                    .and_then(|place| MIDDLE.get(place + 1))
                    .map_or(Self::Done, |(stage, ..)| *stage)
            }
        }
    }

    /// The stage to continue with after an interruption.
    pub(crate) fn resumed(self) -> Self {
        let found = MIDDLE.iter().find(|(stage, ..)| *stage == self);
        found.map_or(self, |(_, resumed, _)| Self::Phase(*resumed))
    }
}

impl ResumedStage {
    /// The stage itself.
    #[must_use]
    pub fn stage(self) -> Stage {
        MIDDLE
            .iter()
            .find(|(_, resumed, _)| *resumed == self)
            .map_or(Stage::Done, |(stage, ..)| *stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other_to_the_end_and_are_taken_up_where_they_were() {
        let mut stage = Stage::Rotation;
        let mut share = 0.0;
        for _ in 0..MIDDLE.len() {
            stage = stage.next();
            assert!(stage.share() > share, "{stage:?}");
            share = stage.share();
            assert_eq!(stage.resumed().next(), stage);
        }
        assert_eq!(
            (stage.next(), Stage::Done.resumed(), Stage::Rotation.resumed()),
            (Stage::Done, Stage::Done, Stage::Rotation)
        );
        assert_eq!(share, 1.0);
    }
}
