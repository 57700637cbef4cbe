//! [`ScanTerms`]: the settings of a scan that may change while it runs. They are kept in the notes
//! of its state.

use headtime_sched::ScanPriority;
use headtime_tasks::Scan;

use super::timetable::{Repetition, Timetable};

/// The settings of a scan that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanTerms {
    /// The priority among the scans of the drive.
    pub(super) priority: ScanPriority,
    /// The scan wakes a drive in standby.
    pub(super) wake: bool,
    /// The windows in which the scan reads.
    pub(super) during: Option<Timetable>,
    /// The time from one start to the next.
    pub(super) every: Option<Repetition>,
}

/// Changes of the settings of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermsChange {
    /// The priority among the scans of the drive.
    pub priority: Option<ScanPriority>,
    /// The scan wakes a drive in standby.
    pub wake: Option<bool>,
    /// The windows in which the scan reads; `Some(None)` for any time.
    pub during: Option<Option<Timetable>>,
    /// The time from one start to the next; `Some(None)` for a single pass.
    pub every: Option<Option<Repetition>>,
}

const PRIORITY: &str = "priority";
const WAKE: &str = "wake";
const DURING: &str = "during";
const EVERY: &str = "every";

impl ScanTerms {
    /// The terms in the notes of a scan; the default where a note is missing.
    pub(super) fn of(scan: &Scan) -> Self {
        Self {
            priority: scan.note(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or_default(),
            wake: scan.note(WAKE) == Some("yes"),
            during: scan.note(DURING).and_then(|text| text.parse().ok()),
            every: scan.note(EVERY).and_then(|text| text.parse().ok()),
        }
    }
}

impl TermsChange {
    /// Returns whether nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Writes the changes into the notes of a scan.
    pub(super) fn note_in(&self, scan: &mut Scan) {
        let Self { priority, wake, during, every } = self;
        let notes = [
            (PRIORITY, priority.as_ref().map(ToString::to_string)),
            (WAKE, wake.map(|wake| if wake { "yes" } else { "no" }.to_owned())),
            (DURING, during.as_ref().map(text_of)),
            (EVERY, every.as_ref().map(text_of)),
        ];
        for (name, text) in notes {
            text.into_iter().for_each(|text| scan.set_note(name, text));
        }
    }
}

/// The text of a setting; empty for none.
fn text_of(setting: &Option<impl ToString>) -> String {
    setting.as_ref().map(ToString::to_string).unwrap_or_default()
}
