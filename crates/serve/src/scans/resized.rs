//! The scans of a volume that is resized or relocated. What a scan knows, such as its digests, is
//! of the sectors before: it is discarded. A scan that repeats starts over with its settings; those
//! of the configuration start over in any case.

use headtime_sched::ScanPriority;
use headtime_tasks::TaskKind;

use super::{ScanState, ScanStatus, Scans, StartScan, TermsChange};

impl Scans {
    /// The effects of a `change` of a target's sectors on its scans, for people.
    pub(crate) fn notes_on_change(&self, target: &str, change: &str) -> Vec<String> {
        let of_target = self.status().into_iter().filter(|scan| scan.target == target);
        of_target.map(|scan| note(&scan, change)).collect()
    }

    /// Ends the scans of a target and removes their state. Returns those that repeat, to be started
    /// again when the target has its new sectors.
    pub(crate) fn forget_before_change(&self, target: &str) -> Vec<StartScan> {
        let of_target = self.status().into_iter().filter(|scan| scan.target == target);
        let repeated = of_target.filter_map(|scan| repetition(&scan)).collect();
        self.forget_all(target);
        repeated
    }

    /// Starts scans again after their target has changed. What cannot be started is logged.
    pub(crate) fn start_after_change(&self, repeated: &[StartScan]) {
        for start in repeated {
            if let Err(error) = self.start(start) {
                tracing::error!("the {} cannot start over: {error}", start.name());
            }
        }
    }
}

fn note(scan: &ScanStatus, change: &str) -> String {
    let ScanStatus { task, target, .. } = scan;
    let over = if scan.configured || !scan.every.is_empty() {
        "it starts over"
    } else if matches!(scan.state, ScanState::Running | ScanState::Paused | ScanState::Waiting) {
        "it ends"
    } else {
        "start it again to read the volume as it is then"
    };
    let digests = if scan.digests.is_some() { ", digests included" } else { "" };
    format!(
        "the {task} of {target} is of the volume before {change}, and its state is \
            discarded{digests}: {over}"
    )
}

/// The start of a scan that repeats, with the settings that it has. The configuration starts its
/// own.
fn repetition(scan: &ScanStatus) -> Option<StartScan> {
    let task: TaskKind = scan.task.parse().ok()?;
    let every = scan.every.parse().ok().filter(|_| !scan.configured)?;
    Some(StartScan {
        target: scan.target.clone(),
        task,
        range: scan.range.map(Into::into),
        digests: task == TaskKind::Scrub && scan.digests.is_some(),
        to: (task == TaskKind::Backup).then(|| scan.to.clone().into()),
        again: true,
        terms: TermsChange {
            priority: ScanPriority::new(scan.priority),
            wake: Some(scan.wake),
            during: Some(scan.during.parse().ok()),
            every: Some(Some(every)),
        },
    })
}
