//! Why a description was not imported, [`ImportError`], and what an import left out or guessed,
//! [`Note`]. Both name the file, line and column.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use crate::profile::ProfileError;

/// A place in a file, written `FILE:LINE:COLUMN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl SourceLocation {
    /// A file as a whole.
    pub(super) fn whole(file: &Arc<str>) -> Self {
        Self { file: file.clone(), line: 0, column: 0 }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            out.write_str(&self.file)
        } else {
            write!(out, "{}:{}:{}", self.file, self.line, self.column)
        }
    }
}

/// Something that the description says and the profile does not, or that the description leaves
/// open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it is said, or the block in which it is missing.
    pub place: SourceLocation,
    /// What, and what the import made of it.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.text)
    }
}

/// Why files describe no drive that could be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The text has not the shape of a description.
    #[error("{place}: found {found}, expected {expected}; {remedy}")]
    Syntax {
        /// Where.
        place: SourceLocation,
        /// What stands there.
        found: String,
        /// What would be accepted.
        expected: String,
        /// What to do about it.
        remedy: String,
    },
    /// A value that makes no drive.
    #[error("{place}: `{key}` is {value}, expected {expected}; {remedy}")]
    Value {
        /// Where.
        place: SourceLocation,
        /// The key.
        key: String,
        /// The value as it stands.
        value: String,
        /// What would be accepted.
        expected: String,
        /// What to do about it.
        remedy: String,
    },
    /// A block lacks a key that it cannot do without.
    #[error("{place}: block {block} has no `{key}`; {remedy}")]
    Missing {
        /// Where the block starts.
        place: SourceLocation,
        /// The block's type, and its name where it has one.
        block: String,
        /// The key.
        key: String,
        /// What to do about it.
        remedy: String,
    },
    /// A file that a file names cannot be had.
    #[error(
        "{place}: `{name}` cannot be read: {why}; name that file beside the others, or put it \
            where the naming file is"
    )]
    File {
        /// Where it is named.
        place: SourceLocation,
        /// Its name there.
        name: String,
        /// What the caller said.
        why: String,
    },
    /// The description needs something that is not imported.
    #[error("{place}: {what}; {remedy}")]
    Unsupported {
        /// Where.
        place: SourceLocation,
        /// What it is.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// No file describes a disk.
    #[error(
        "no disk is described in {files}; give a .parv, a .diskspecs or a .model with a \
            `disksim_disk` or `dm_disk` block"
    )]
    NoDisk {
        /// The files, by name.
        files: String,
    },
    /// Several different disks are described, and none was chosen.
    #[error("several disks are described: {names}; choose one by its name (--disk NAME)")]
    SeveralDisks {
        /// Their names.
        names: String,
    },
    /// The chosen disk is not among those described.
    #[error("no disk is called `{name}`; described are: {names}")]
    UnknownDisk {
        /// The name asked for.
        name: String,
        /// Those there are.
        names: String,
    },
    /// Everything was read, and the drive that it describes cannot be.
    #[error("the description was read, but it makes no drive: {0}")]
    Profile(Box<ProfileError>),
}
