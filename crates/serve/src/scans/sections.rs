//! The scans of the configuration, `[[scan]]`: they start with the server, and follow the
//! configuration when it is read again.
//!
//! | the section | its scan |
//! |---|---|
//! | is new | starts; one started by hand over the same sectors is adopted |
//! | is as before | continues, or stays paused or complete |
//! | has another priority, timetable or `wake` | continues with them |
//! | has another range, output, or other digests | is discarded and starts over |
//! | is gone | is not repeated; an unfinished pass is completed |

use std::collections::BTreeSet;

use headtime_tasks::{Scan, TaskKind};
use headtime_units::{SectorSize, Sectors};

use super::output::dated_output;
use super::runner::{CONFIGURED, ScanCommand};
use super::{
    RangeError, ScanError, ScanRange, ScanState, ScanStatus, Scans, StartScan, TermsChange,
};

impl StartScan {
    /// The task and its target.
    pub(crate) fn name(&self) -> String {
        format!("{} of {}", self.task, self.target)
    }

    /// Checks a scan of the configuration, as far as it can be checked without the drive.
    pub(crate) fn check_configured(&self) -> Result<(), ScanError> {
        self.check_output()?;
        let Some(to) = self.to.as_ref() else {
            return match self.task {
                TaskKind::Backup => Err(ScanError::Output(
                    "a backup needs an output; add to = \"/PATH/OF/A/NEW/FILE\"".to_owned(),
                )),
                TaskKind::Scrub | TaskKind::Digest => Ok(()),
            };
        };
        if matches!(self.terms.every, Some(Some(_))) {
            dated_output(&to.display().to_string(), &jiff::Zoned::now())?;
        }
        Ok(())
    }

    /// The range within a target of so many sectors of 512 bytes.
    pub(crate) fn range_within(&self, sectors: u64) -> Result<Option<ScanRange>, RangeError> {
        let within =
            |range| ScanRange::within(range, &self.target, Sectors::new(sectors), SectorSize::B512);
        Ok(self.range.map(within).transpose()?.flatten())
    }
}

impl Scans {
    /// Starts the scans of the configuration, and has those that exist follow it. What cannot be
    /// started is logged.
    pub(crate) fn follow(&self, sections: Vec<StartScan>) {
        let is_gone = |status: &ScanStatus| {
            let mut sections = sections.iter();
            let name = format!("{} of {}", status.task, status.target);
            status.configured && !sections.any(|section| section.name() == name)
        };
        let gone: Vec<_> = {
            let slots = self.slots.lock();
            let gone = slots.iter().filter(|(_, slot)| is_gone(&slot.status()));
            gone.map(|(key, _)| key.clone()).collect()
        };
        for (target, task) in gone {
            tracing::info!("the {task} of {target} is no longer in the configuration");
            let change = TermsChange { every: Some(None), ..TermsChange::default() };
            // It was there a moment ago; otherwise there is nothing to change.
            let _ = self.tell(&target, task, ScanCommand::Release(change));
        }
        let targets: BTreeSet<_> = sections.iter().map(|section| section.target.clone()).collect();
        *self.sections.lock() = sections;
        targets.iter().for_each(|target| self.follow_sections_of(target));
    }

    /// The same for the sections of one target, which may have been created now.
    pub(super) fn follow_sections_of(&self, target: &str) {
        let of_target: Vec<StartScan> = self
            .sections
            .lock()
            .iter()
            .filter(|section| section.target == target)
            .cloned()
            .collect();
        for section in of_target {
            if let Err(error) = self.follow_section(&section) {
                tracing::error!("the {} of the configuration: {error}", section.name());
            }
        }
    }

    /// Changes the terms of a scan of the configuration before it resumes: it may be due for a pass
    /// that the configuration no longer has.
    pub(super) fn note_section(&self, scan: &mut Scan) {
        if scan.note(CONFIGURED) != Some("yes") {
            return;
        }
        let name = format!("{} of {}", scan.kind(), scan.subject().target);
        let sections = self.sections.lock();
        match sections.iter().find(|section| section.name() == name) {
            Some(section) => section.terms.note_in(scan),
            None => TermsChange { every: Some(None), ..TermsChange::default() }.note_in(scan),
        }
    }

    fn follow_section(&self, section: &StartScan) -> Result<(), ScanError> {
        let range = self.range_of(section)?;
        let key = (section.target.clone(), section.task);
        let known = self.slots.lock().get(&key).map(|slot| (slot.status(), slot.thread.is_some()));
        let begin = |again| {
            self.start(&StartScan { again, ..section.clone() })?;
            self.tell(&section.target, section.task, ScanCommand::Adopt).map(drop)
        };
        let Some((status, readable)) = known else { return begin(false) };
        if !readable {
            let StartScan { target, task, .. } = section.clone();
            return Err(ScanError::Broken { target, task, reason: status.reason });
        }
        let to = section.to.as_ref().map(|to| to.display().to_string()).unwrap_or_default();
        let digests =
            section.task != TaskKind::Scrub || section.digests == status.digests.is_some();
        if status.range == range && status.to == to && digests {
            self.tell(&section.target, section.task, ScanCommand::Set(section.terms.clone()))?;
            let status = self.tell(&section.target, section.task, ScanCommand::Adopt)?;
            if status.state == ScanState::Broken {
                let StartScan { target, task, .. } = section.clone();
                return Err(ScanError::Broken { target, task, reason: status.reason });
            }
            return Ok(());
        }
        if !status.configured {
            return Err(ScanError::ByHand { target: section.target.clone(), task: section.task });
        }
        tracing::info!("the {} starts over, because its section has changed", section.name());
        begin(true)
    }
}
