//! [`TraceError`]: the reason why a line, a record or a file is refused.

use alloc::string::String;

/// The reason why a part of a trace, or all of it, was refused; lines and columns count from 1,
/// columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum TraceError {
    /// A line has too few or too many fields.
    #[error(
        "{file}:{line}: {found} fields, expected the {expected} of `{shape}`; complete the line, \
            or remove it"
    )]
    Fields { file: String, line: usize, found: usize, expected: usize, shape: &'static str },
    /// A field has an invalid value.
    #[error("{file}:{line}:{column}: {field} is `{value}`, expected {expected}; {remedy}")]
    Field {
        file: String,
        line: usize,
        column: usize,
        field: &'static str,
        value: String,
        expected: &'static str,
        remedy: &'static str,
    },
    /// A line is too long.
    #[error(
        "{file}:{line}: longer than {max} bytes, the maximum; check that the file \
            is a trace, and undamaged"
    )]
    LongLine { file: String, line: usize, max: usize },
    /// A record of a binary file has an invalid value.
    #[error(
        "{file}: record {record} at byte {byte}: {field} is {value:#x}, expected {expected}; \
            {remedy}"
    )]
    Binary {
        file: String,
        record: u64,
        byte: u64,
        field: &'static str,
        value: u64,
        expected: &'static str,
        remedy: &'static str,
    },
    /// A binary file ends within a record.
    #[error(
        "{file}: record {record} at byte {byte} has {found} of {expected} bytes, then the file \
            ends; copy the file again if it should go on"
    )]
    CutShort { file: String, record: u64, byte: u64, found: u64, expected: u64 },
    #[error("{file} contains no access; expected at least one line `{shape}`")]
    Empty { file: String, shape: &'static str },
    /// The sum of the times is too large.
    #[error(
        "{file}: response and think times add up to more than a hundred years; check that they are \
            microseconds"
    )]
    TooLong { file: String },
}
