//! [`ImportError`], the reason why an import failed, and [`Note`], a remark about an omission or a
//! guess. Both give file, line and column.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use crate::profile::ProfileError;

/// A position in a file, written `FILE:LINE:COLUMN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl SourceLocation {
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

/// A part of the description that the profile omits, or that the description leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The position of the key, or of the block without it.
    pub place: SourceLocation,
    /// The omission and its treatment.
    pub text: String,
}

impl Note {
    pub(super) fn new(place: &SourceLocation, text: impl Into<String>) -> Self {
        Self { place: place.clone(), text: text.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.text)
    }
}

/// The reason why no drive could be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ImportError {
    /// The text does not have the form of a description.
    #[error("{place}: found {found}, expected {expected}; {remedy}")]
    Syntax { place: SourceLocation, found: String, expected: String, remedy: String },
    /// A value outside the accepted range.
    #[error("{place}: `{key}` is {value}, expected {expected}; {remedy}")]
    Value { place: SourceLocation, key: String, value: String, expected: String, remedy: String },
    /// A block without a required key.
    #[error("{place}: block {block} has no `{key}`; {remedy}")]
    Missing { place: SourceLocation, block: String, key: String, remedy: String },
    /// A file named in another file cannot be read.
    #[error(
        "{place}: `{name}` cannot be read: {why}; name that file beside the others, or put it \
            where the naming file is"
    )]
    File { place: SourceLocation, name: String, why: String },
    /// The description needs something that is not imported.
    #[error("{place}: {what}; {remedy}")]
    Unsupported { place: SourceLocation, what: String, remedy: String },
    #[error(
        "no disk is described in {files}; give a .parv, a .diskspecs or a .model with a \
            `disksim_disk` or `dm_disk` block"
    )]
    NoDisk { files: String },
    /// Several disks are described, and none was chosen.
    #[error("several disks are described: {names}; choose one by its name (--disk NAME)")]
    SeveralDisks { names: String },
    /// The chosen disk is not described.
    #[error("no disk is called `{name}`; described are: {names}")]
    UnknownDisk { name: String, names: String },
    /// The description is complete, but the drive is not valid.
    #[error("the description was read, but it makes no drive: {0}")]
    Profile(Box<ProfileError>),
}

impl ImportError {
    /// The error for a value outside the accepted range.
    pub(super) fn value(
        place: &SourceLocation,
        key: &str,
        value: impl ToString,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Value {
            place: place.clone(),
            key: key.to_string(),
            value: value.to_string(),
            expected: expected.into(),
            remedy: remedy.into(),
        }
    }
}
