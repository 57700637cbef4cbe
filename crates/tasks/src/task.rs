//! [`Task`]: the interface of a task, and the table of tasks.
//!
//! A new task is a file that implements [`Task`] and a line in [`TASKS`]; saved states refer to it
//! by its number.

use std::fmt;
use std::str::FromStr;

use headtime_units::Extent;

use crate::backup::{Backup, BackupForm};
use crate::codec::{Decoder, Encoder, Malformed};
use crate::digests::{DigestReport, Digests};
use crate::scan::Output;
use crate::subject::ScanSubject;

/// The tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// Read everything, and report what is unreadable or has changed by itself.
    Scrub,
    /// Copy everything as it is at one moment.
    Backup,
    /// Make a table of digests.
    Digest,
}

/// A line of the table of tasks.
pub struct TaskEntry {
    /// The task.
    pub kind: TaskKind,
    /// Its name on the command line, in state and in protocols.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub summary: &'static str,
    /// Its number in saved states; never reused.
    pub(crate) number: u8,
}

/// Every task.
pub const TASKS: &[TaskEntry] = &[
    TaskEntry {
        kind: TaskKind::Scrub,
        name: "scrub",
        summary: "reads everything, and tells what cannot be read and, with digests, what has \
            changed by itself",
        number: 1,
    },
    TaskEntry {
        kind: TaskKind::Backup,
        name: "backup",
        summary: "copies everything, as it is when the scan starts, into an image or a stream",
        number: 2,
    },
    TaskEntry {
        kind: TaskKind::Digest,
        name: "digest",
        summary: "makes a table of digests, one for each mebibyte",
        number: 3,
    },
];

/// A task with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSettings {
    /// The kind of the task.
    pub kind: TaskKind,
    /// For a scrub: compare digests with those of the last scan.
    pub digests: bool,
    /// For a backup: its format.
    pub form: BackupForm,
}

/// A name that no task has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no task is called `{name}`; known are {}", names())]
pub struct UnknownTask {
    /// The name.
    pub name: String,
}

/// Sectors delivered to a task: whole grains, each once in a pass.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The sectors.
    pub extent: Extent,
    /// Their bytes; zeroes where they could not be read.
    pub bytes: &'a [u8],
    /// Those that could not be read, by address.
    pub failed: &'a [Extent],
}

/// The processing of the sectors of a drive.
///
/// An application may implement a task of its own: [`Scan::with_task`](crate::Scan::with_task)
/// begins it, [`Scan::decode_own`](crate::Scan::decode_own) resumes it.
/// `crates/serve/examples/own_task.rs` is an example with a drive and a file for its state.
pub trait Task: Send {
    /// The kind of the task, with its options. A task of the caller names the kind that it behaves
    /// like: its data has to be of one moment, or not.
    fn settings(&self) -> TaskSettings;

    /// Begins a pass; `out` gets what has to be written first.
    fn begin(&mut self, out: &mut Vec<Output>) {
        let _ = out;
    }

    /// Notes that sectors have arrived, perhaps not whole grains yet, and perhaps not for the first
    /// time. `written` means that their mebibyte was written through the same engine since anything
    /// of it last arrived.
    fn arrived(&mut self, extent: Extent, written: bool) {
        let _ = (extent, written);
    }

    /// Processes some sectors; output goes to `out`.
    fn take(&mut self, piece: &Piece<'_>, out: &mut Vec<Output>);

    /// Ends a pass after all sectors; `out` gets what has to be written last.
    fn end(&mut self, out: &mut Vec<Output>) {
        let _ = out;
    }

    /// Begins another pass; keeps what the next one compares with.
    fn again(&mut self);

    /// The digests, if it makes some.
    fn digests(&self) -> Option<DigestReport>;

    /// Saves its state.
    fn encode(&self, to: &mut dyn FnMut(&[u8]));
}

impl TaskKind {
    /// Its line in the table.
    #[must_use]
    pub fn entry(self) -> &'static TaskEntry {
        TASKS.iter().find(|entry| entry.kind == self).expect("every task has a line in the table")
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// True if its data has to be of one moment: nothing may be overwritten before it is read.
    #[must_use]
    pub fn is_point_in_time(self) -> bool {
        self == Self::Backup
    }
}

impl TaskSettings {
    /// The task, ready to begin its first pass.
    pub(crate) fn build(self, subject: &ScanSubject) -> Box<dyn Task> {
        match self.kind {
            TaskKind::Scrub | TaskKind::Digest => Box::new(Reading {
                settings: self,
                digests: self.makes_digests().then(|| Digests::new(subject)),
            }),
            TaskKind::Backup => Box::new(Backup::new(subject, self)),
        }
    }

    /// The task with its saved state.
    pub(crate) fn restore(
        self,
        subject: &ScanSubject,
        from: &mut Decoder<'_>,
    ) -> Result<Box<dyn Task>, Malformed> {
        Ok(match self.kind {
            TaskKind::Scrub | TaskKind::Digest => {
                let digests =
                    if self.makes_digests() { Some(Digests::decode(subject, from)?) } else { None };
                Box::new(Reading { settings: self, digests })
            }
            TaskKind::Backup => Box::new(Backup::decode(subject, self, from)?),
        })
    }

    fn makes_digests(self) -> bool {
        self.digests || self.kind == TaskKind::Digest
    }
}

impl From<TaskKind> for TaskSettings {
    /// A scrub without digests, a backup into an image.
    fn from(kind: TaskKind) -> Self {
        Self { kind, digests: false, form: BackupForm::Image }
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TaskKind {
    type Err = UnknownTask;
    fn from_str(name: &str) -> Result<Self, UnknownTask> {
        TASKS
            .iter()
            .find(|entry| entry.name == name)
            .map(|entry| entry.kind)
            .ok_or_else(|| UnknownTask { name: name.to_owned() })
    }
}

/// Scrub and digest: sectors are read, and digested if requested. The scan itself counts unreadable
/// sectors.
struct Reading {
    settings: TaskSettings,
    digests: Option<Digests>,
}

impl Task for Reading {
    fn settings(&self) -> TaskSettings {
        self.settings
    }

    fn arrived(&mut self, extent: Extent, written: bool) {
        if let Some(digests) = &mut self.digests {
            digests.arrived(extent, written);
        }
    }

    fn take(&mut self, piece: &Piece<'_>, _out: &mut Vec<Output>) {
        if let Some(digests) = &mut self.digests {
            digests.take(piece);
        }
    }

    fn again(&mut self) {
        if let Some(digests) = &mut self.digests {
            digests.again();
        }
    }

    fn digests(&self) -> Option<DigestReport> {
        self.digests.as_ref().map(Digests::report)
    }

    fn encode(&self, to: &mut dyn FnMut(&[u8])) {
        if let Some(digests) = &self.digests {
            digests.encode(&mut Encoder::new(to));
        }
    }
}

fn names() -> String {
    TASKS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_found_by_its_name_and_has_a_number_of_its_own() {
        for entry in TASKS {
            assert_eq!(entry.name.parse(), Ok(entry.kind));
            assert_eq!(TASKS.iter().filter(|other| other.number == entry.number).count(), 1);
        }
        let message = "scrap".parse::<TaskKind>().expect_err("no task").to_string();
        assert_eq!(message, "no task is called `scrap`; known are scrub, backup, digest");
    }
}
