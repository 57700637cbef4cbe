//! [`TraceError`]: the reason why a line, a record or a file is refused.

use alloc::string::String;

/// The reason why a part of a trace, or all of it, was refused; lines and columns count from 1,
/// columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line has too few or too many fields.
    #[error(
        "{file}:{line}: {found} fields, expected the {expected} of `{shape}`; complete the line, \
            or remove it"
    )]
    Fields {
        /// The name of the file.
        file: String,
        /// The line.
        line: usize,
        /// The number of fields.
        found: usize,
        /// The required number of fields.
        expected: usize,
        /// The form of a line.
        shape: &'static str,
    },
    /// A field has an invalid value.
    #[error("{file}:{line}:{column}: {field} is `{value}`, expected {expected}; {remedy}")]
    Field {
        /// The name of the file.
        file: String,
        /// The line.
        line: usize,
        /// The column at which the field starts.
        column: usize,
        /// The field.
        field: &'static str,
        /// The text.
        value: String,
        /// The accepted values.
        expected: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// A line is too long.
    #[error(
        "{file}:{line}: longer than {max} bytes, the maximum; check that the file \
            is a trace, and undamaged"
    )]
    LongLine {
        /// The name of the file.
        file: String,
        /// The line.
        line: usize,
        /// The maximum length.
        max: usize,
    },
    /// A record of a binary file has an invalid value.
    #[error(
        "{file}: record {record} at byte {byte}: {field} is {value:#x}, expected {expected}; \
            {remedy}"
    )]
    Binary {
        /// The name of the file.
        file: String,
        /// The number of the record, from 1.
        record: u64,
        /// The byte at which it starts, from 0.
        byte: u64,
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
        /// The accepted values.
        expected: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// A binary file ends within a record.
    #[error(
        "{file}: record {record} at byte {byte} has {found} of {expected} bytes, then the file \
            ends; copy the file again if it should go on"
    )]
    CutShort {
        /// The name of the file.
        file: String,
        /// The number of the record, from 1.
        record: u64,
        /// The byte at which it starts, from 0.
        byte: u64,
        /// The number of bytes.
        found: u64,
        /// The required number of bytes.
        expected: u64,
    },
    /// The file contains no access.
    #[error("{file} contains no access; expected at least one line `{shape}`")]
    Empty {
        /// The name of the file.
        file: String,
        /// The form of a line.
        shape: &'static str,
    },
    /// The sum of the times is too large.
    #[error(
        "{file}: response and think times add up to more than a hundred years; check that they are \
            microseconds"
    )]
    TooLong {
        /// The name of the file.
        file: String,
    },
}
