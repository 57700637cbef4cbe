//! [`TraceError`]: why a text is no recording.

use alloc::string::String;

/// Why a recording was refused; lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line has too few or too many fields.
    #[error("{file}:{line}: {found} fields, expected the {expected} of `{shape}`; complete the line, or remove it")]
    Fields {
        /// The file's name as it was given.
        file: String,
        /// The line.
        line: usize,
        /// Fields there are.
        found: usize,
        /// Fields there must be.
        expected: usize,
        /// What a line looks like.
        shape: &'static str,
    },
    /// A field has a value that it cannot have.
    #[error("{file}:{line}:{column}: {field} is `{value}`, expected {expected}; {remedy}")]
    Field {
        /// The file's name as it was given.
        file: String,
        /// The line.
        line: usize,
        /// Where the field starts.
        column: usize,
        /// Which field.
        field: &'static str,
        /// Its text.
        value: String,
        /// What is accepted.
        expected: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// No access at all.
    #[error("{file} holds no access; expected at least one line `{shape}`")]
    Empty {
        /// The file's name as it was given.
        file: String,
        /// What a line looks like.
        shape: &'static str,
    },
    /// The times add up to more than is counted.
    #[error("{file}: response and think times add up to more than a hundred years; check that they are microseconds")]
    TooLong {
        /// The file's name as it was given.
        file: String,
    },
}
