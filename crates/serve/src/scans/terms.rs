//! [`ScanTerms`]: the settings of a scan that may change while it runs. They are kept in the notes
//! of its state.

use headtime_sched::ScanPriority;
use headtime_tasks::Scan;

/// The settings of a scan that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanTerms {
    /// The priority among the scans of the drive.
    pub(super) priority: ScanPriority,
    /// The scan wakes a drive in standby.
    pub(super) wake: bool,
}

/// Changes of the settings of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermsChange {
    /// The priority among the scans of the drive.
    pub priority: Option<ScanPriority>,
    /// The scan wakes a drive in standby.
    pub wake: Option<bool>,
}

const PRIORITY: &str = "priority";
const WAKE: &str = "wake";

impl ScanTerms {
    /// The terms in the notes of a scan; the default where a note is missing.
    pub(super) fn of(scan: &Scan) -> Self {
        Self {
            priority: scan.note(PRIORITY).and_then(|text| text.parse().ok()).unwrap_or_default(),
            wake: scan.note(WAKE) == Some("yes"),
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
        let Self { priority, wake } = self;
        let wake = wake.map(|wake| if wake { "yes" } else { "no" }.to_owned());
        let notes = [(PRIORITY, priority.map(|priority| priority.to_string())), (WAKE, wake)];
        for (name, text) in notes {
            text.into_iter().for_each(|text| scan.set_note(name, text));
        }
    }
}
