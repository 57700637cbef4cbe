//! DiskSim's validation format: one access a line, six fields with blanks between them.
//!
//! ```text
//! R Hit    3962268  12   6657.00000  64047.00000
//! │ │      │        │    │           └ think: from this completion to the next issue, us
//! │ │      │        │    └ response as the host measured it, us
//! │ │      │        └ sectors
//! │ │      └ first LBA
//! │ └ what the recorder made of the cache: Hit, Miss, Doub, Trip
//! └ R or W
//! ```
//!
//! Sectors are the drive's logical ones. Empty lines, and lines that start with `#`, are stepped over. Times are read to the nanosecond.
//!
//! Source: DiskSim 4.0, `src/disksim_iotrace.c` (`iotrace_validate_get_ioreq_event`) and `src/disksim_iosim.c` for the labels.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::{Extent, Nanos};

use super::{Label, RecordedAccess, Recording, TraceError};
use crate::source::Operation;

/// What a line looks like.
pub const SHAPE: &str = "R|W label lba sectors response_us think_us";

/// Reads a recording; `file` is the name that messages give it.
///
/// # Errors
/// The first line that is none of this format, by line and column; a text without any access.
pub fn read(file: &str, text: &str) -> Result<Recording, TraceError> {
    let mut accesses = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if !(line.trim().is_empty() || line.trim_start().starts_with('#')) {
            accesses.push(Line { file, number: index + 1, text: line }.access()?);
        }
    }
    if accesses.is_empty() {
        return Err(TraceError::Empty { file: file.to_string(), shape: SHAPE });
    }
    Recording::new(accesses).ok_or_else(|| TraceError::TooLong { file: file.to_string() })
}

/// Writes one access as a line of this format, without its line end; what [`read`] reads back. Times keep their nanoseconds.
#[must_use]
pub fn line(access: &RecordedAccess) -> String {
    let direction = if access.operation == Operation::Read { 'R' } else { 'W' };
    let label = LABELS.iter().find(|(_, label)| *label == access.label).map_or("Hit", |(name, _)| name);
    let us = |span: Nanos| alloc::format!("{}.{:03}", span.as_ns() / 1_000, span.as_ns() % 1_000);
    let (start, len) = (access.extent.start.get(), access.extent.len.get());
    alloc::format!("{direction} {label} {start} {len} {} {}", us(access.response), us(access.think))
}

const LABELS: [(&str, Label); 4] = [("Hit", Label::Hit), ("Miss", Label::Miss), ("Doub", Label::DoubleDisconnect), ("Trip", Label::TripleDisconnect)];

/// A field of a line and where it starts, in characters from 1.
type Field<'a> = (usize, &'a str);

struct Line<'a> {
    file: &'a str,
    number: usize,
    text: &'a str,
}

impl Line<'_> {
    fn access(&self) -> Result<RecordedAccess, TraceError> {
        let fields: Vec<Field> = fields(self.text).collect();
        let [direction, label, lba, sectors, response, think] = fields[..] else {
            return Err(TraceError::Fields { file: self.file.to_string(), line: self.number, found: fields.len(), expected: 6, shape: SHAPE });
        };
        let operation = match direction.1 {
            "R" => Operation::Read,
            "W" => Operation::Write,
            _ => return Err(self.refuse(direction, "the direction", "R or W", "write one of the two")),
        };
        let known = LABELS.iter().find(|(name, _)| *name == label.1);
        let label = known.ok_or_else(|| self.refuse(label, "the label", "Hit, Miss, Doub or Trip", "write Hit where nothing is known"))?.1;
        let start = self.number(lba, "the LBA", "a whole number")?;
        let len = self.number(sectors, "the number of sectors", "a whole number from 1")?;
        if len == 0 {
            return Err(self.refuse(sectors, "the number of sectors", "a whole number from 1", "remove accesses that move nothing"));
        }
        if start.checked_add(len).is_none() {
            return Err(self.refuse(lba, "the LBA", "an address below 2^64 with all its sectors", "correct it"));
        }
        Ok(RecordedAccess {
            line: self.number,
            operation,
            extent: Extent::from_numbers(start, len),
            response: self.time(response, "the response time")?,
            think: self.time(think, "the think time")?,
            label,
        })
    }

    fn number(&self, field: Field<'_>, name: &'static str, expected: &'static str) -> Result<u64, TraceError> {
        field.1.parse().map_err(|_| self.refuse(field, name, expected, "correct it"))
    }

    fn time(&self, field: Field<'_>, name: &'static str) -> Result<Nanos, TraceError> {
        let refuse = || self.refuse(field, name, "microseconds, not negative", "write it such as 6657.0");
        // "inf", "nan" and exponents parse as floats, but no recorder writes them.
        let plain = field.1.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let us: f64 = field.1.parse().ok().filter(|_| plain).ok_or_else(refuse)?;
        Nanos::from_ms_f64(us / 1e3).ok_or_else(refuse)
    }

    fn refuse(&self, field: Field<'_>, name: &'static str, expected: &'static str, remedy: &'static str) -> TraceError {
        TraceError::Field {
            file: self.file.to_string(),
            line: self.number,
            column: field.0,
            field: name,
            value: field.1.chars().take(MOST_SHOWN).collect(),
            expected,
            remedy,
        }
    }
}

/// More of a wrong field than this helps nobody, and the file may be no text at all.
const MOST_SHOWN: usize = 40;

fn fields(line: &str) -> impl Iterator<Item = Field<'_>> {
    let mut rest = line;
    let mut column = 1;
    core::iter::from_fn(move || {
        let blanks = rest.chars().take_while(|letter| letter.is_whitespace()).count();
        let field = rest.trim_start();
        let end = field.find(char::is_whitespace).unwrap_or(field.len());
        let start = column + blanks;
        column = start + field[..end].chars().count();
        rest = &field[end..];
        (end > 0).then_some((start, &field[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::Instant;

    #[test]
    fn the_lines_of_a_recording_become_accesses() {
        let recording = read("x", "# two accesses\nW Hit    4583176   4    663.00000  45422.00000\n\n  R Miss 7 12 6657.5 0\r\n").unwrap();
        let [write, read] = recording.accesses() else { panic!("{recording:?}") };
        assert_eq!((write.line, write.operation, write.label), (2, Operation::Write, Label::Hit));
        assert_eq!((write.extent, write.response, write.think), (Extent::from_numbers(4_583_176, 4), Nanos::from_us(663), Nanos::from_us(45_422)));
        assert_eq!((read.line, read.operation, read.label, read.response), (4, Operation::Read, Label::Miss, Nanos::from_ns(6_657_500)));
        assert_eq!(recording.issue_times().nth(1), Some(Instant::from_ns(46_085_000)));
        assert_eq!(recording.completion_times().nth(1), Some(Instant::from_ns(52_742_500)));
    }

    #[test]
    fn a_written_line_reads_back_the_same() {
        let text = "W Trip 18446744073709551000 600 0.001 99999999.999";
        let access = read("x", text).unwrap().accesses()[0];
        assert_eq!(line(&access), text);
    }

    #[test]
    fn a_wrong_field_is_named_by_line_and_column() {
        for (text, place, field, value) in [
            ("R Hit 1 8 5.0 1.0\nX Hit 1 8 5.0 1.0", "2:1", "the direction", "X"),
            ("R hit 1 8 5.0 1.0", "1:3", "the label", "hit"),
            ("R  Hit  -4 8 5.0 1.0", "1:9", "the LBA", "-4"),
            ("R Hit 18446744073709551615 8 5.0 1.0", "1:7", "the LBA", "18446744073709551615"),
            ("R Hit 1 0 5.0 1.0", "1:9", "the number of sectors", "0"),
            ("R Hit 1 8 -5.0 1.0", "1:11", "the response time", "-5.0"),
            ("R Hit 1 8 nan 1.0", "1:11", "the response time", "nan"),
            ("R Hit 1 8 1e3 1.0", "1:11", "the response time", "1e3"),
            ("R Hit 1 8 5.0 ü", "1:15", "the think time", "ü"),
        ] {
            let message = read("some.trace", text).unwrap_err().to_string();
            assert!(message.starts_with(&alloc::format!("some.trace:{place}: {field} is `{value}`, expected ")), "{text}: {message}");
        }
    }

    #[test]
    fn lines_of_another_shape_and_texts_without_access_are_refused() {
        let message = read("some.trace", "R Hit 1 8 5.0").unwrap_err().to_string();
        assert!(message.starts_with("some.trace:1: 5 fields, expected the 6 of `R|W label"), "{message}");
        assert!(read("x", "R Hit 1 8 5.0 1.0 7").is_err());
        assert_eq!(read("x", "\n# nothing\n"), Err(TraceError::Empty { file: "x".to_string(), shape: SHAPE }));
        assert_eq!(read("x", "R Hit 1 8 1.0 4000000000000000"), Err(TraceError::TooLong { file: "x".to_string() }));
    }
}
