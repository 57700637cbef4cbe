//! What a task is: [`Task`], and the table of those there are.
//!
//! A new task is a file that implements [`Task`] and a line in [`TASKS`]; the state's format knows
//! it by its number.

use std::fmt;
use std::str::FromStr;

use headtime_units::Extent;

use crate::backup::{Backup, BackupForm};
use crate::codec::{Decoder, Encoder, Malformed};
use crate::digests::{DigestReport, Digests};
use crate::scan::Output;
use crate::subject::Subject;

/// The tasks there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// Reads everything and tells what cannot be read, or has changed by itself.
    Scrub,
    /// Copies everything as it is at one moment.
    Backup,
    /// Makes a table of digests.
    Digest,
}

/// A line of the table of tasks.
pub struct TaskEntry {
    /// The task.
    pub kind: TaskKind,
    /// Its name on the command line, in state and in protocols.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its number in state; never given to another task.
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

/// A task with what can be chosen about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSettings {
    /// Which task.
    pub kind: TaskKind,
    /// Of a scrub: whether it compares digests with those of the last scan.
    pub digests: bool,
    /// Of a backup: what is written.
    pub form: BackupForm,
}

/// A name that no task has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no task is called `{name}`; known are {}", names())]
pub struct UnknownTask {
    /// The name.
    pub name: String,
}

/// Sectors that a task is given: whole grains, each once in a pass.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The sectors.
    pub extent: Extent,
    /// Their bytes; zeroes where they could not be read.
    pub bytes: &'a [u8],
    /// Those that could not be read, by address.
    pub failed: &'a [Extent],
}

/// What is made of the sectors of a drive.
///
/// Whoever embeds scans may bring a task of his own: [`Scan::with_task`](crate::Scan::with_task)
/// begins it, [`Scan::decode_own`](crate::Scan::decode_own) takes it up again.
/// `crates/serve/examples/own_task.rs` is one, with a drive and a file for its state.
pub trait Task: Send {
    /// Which task it is, with its settings. One of the caller's own says which of these it is like:
    /// what it reads has to be of one moment, or not.
    fn settings(&self) -> TaskSettings;

    /// The beginning of a pass: what has to be written first.
    fn begin(&mut self, out: &mut Vec<Output>) {
        let _ = out;
    }

    /// Some sectors have arrived, perhaps not whole grains yet and perhaps not for the first time.
    /// `written` says that the mebibyte they lie in was written through the same engine since
    /// anything of it arrived the last time: perhaps these sectors, perhaps others of it.
    fn arrived(&mut self, extent: Extent, written: bool) {
        let _ = (extent, written);
    }

    /// Takes some sectors; what is to be written goes to `out`.
    fn take(&mut self, piece: &Piece<'_>, out: &mut Vec<Output>);

    /// All sectors have been taken: what has to be written last.
    fn end(&mut self, out: &mut Vec<Output>) {
        let _ = out;
    }

    /// Another pass follows; what is compared with the next is kept.
    fn again(&mut self);

    /// What it has found out about digests, if it makes some.
    fn digests(&self) -> Option<DigestReport>;

    /// Writes down what it has to remember.
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

    /// Whether what it reads has to be of one moment, so that nothing may be overwritten before it
    /// is read.
    #[must_use]
    pub fn is_point_in_time(self) -> bool {
        self == Self::Backup
    }
}

impl TaskSettings {
    /// The task, ready to begin its first pass.
    pub(crate) fn build(self, subject: &Subject) -> Box<dyn Task> {
        match self.kind {
            TaskKind::Scrub | TaskKind::Digest => Box::new(Reading {
                settings: self,
                digests: self.makes_digests().then(|| Digests::new(subject)),
            }),
            TaskKind::Backup => Box::new(Backup::new(subject, self)),
        }
    }

    /// The task as it was remembered.
    pub(crate) fn restore(
        self,
        subject: &Subject,
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

/// Scrub and digest: sectors are read, and at most digested. What could not be read is the scan's
/// to count, whatever the task.
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
