//! [`TraceError`]: why a line, a record or a whole file is refused.

use alloc::string::String;

/// Why a part of a trace, or all of it, was refused; lines and columns count from 1, columns in
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line has too few or too many fields.
    #[error(
        "{file}:{line}: {found} fields, expected the {expected} of `{shape}`; complete the line, \
            or remove it"
    )]
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
    /// A line is longer than lines are.
    #[error(
        "{file}:{line}: longer than {max} bytes, which no line of a trace is; check that the file \
            is a trace, and undamaged"
    )]
    LongLine {
        /// The file's name as it was given.
        file: String,
        /// The line.
        line: usize,
        /// The longest that is read.
        max: usize,
    },
    /// A record of a binary file has a value that it cannot have.
    #[error(
        "{file}: record {record} at byte {byte}: {field} is {value:#x}, expected {expected}; \
            {remedy}"
    )]
    Binary {
        /// The file's name as it was given.
        file: String,
        /// Which record, from 1.
        record: u64,
        /// Where it starts, from 0.
        byte: u64,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is accepted.
        expected: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A binary file ends within a record.
    #[error(
        "{file}: record {record} at byte {byte} has {found} of {expected} bytes, then the file \
            ends; copy the file again if it should go on"
    )]
    CutShort {
        /// The file's name as it was given.
        file: String,
        /// Which record, from 1.
        record: u64,
        /// Where it starts, from 0.
        byte: u64,
        /// Bytes there are.
        found: u64,
        /// Bytes there must be.
        expected: u64,
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
    #[error(
        "{file}: response and think times add up to more than a hundred years; check that they are \
            microseconds"
    )]
    TooLong {
        /// The file's name as it was given.
        file: String,
    },
}
