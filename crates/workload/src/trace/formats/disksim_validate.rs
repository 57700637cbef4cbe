//! DiskSim's validation format: one access a line, six fields with blanks between them.
//!
//! ```text
//! R Hit    3962268  12   6657.00000  64047.00000
//! │ │      │        │    │           └ think: from this completion to the next issue, us
//! │ │      │        │    └ response as the host measured it, us
//! │ │      │        └ sectors
//! │ │      └ first LBA
//! │ └ the recorder's label of the cache: Hit, Miss, Doub, Trip
//! └ R or W
//! ```
//!
//! Sectors are the drive's logical ones. Empty lines, and lines that start with `#`, are skipped.
//! Times are read to the nanosecond.
//!
//! Source: DiskSim 4.0, `src/disksim_iotrace.c` (`iotrace_validate_get_ioreq_event`) and
//! `src/disksim_iosim.c` for the labels.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos};

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::encoder::{Encoder, Says};
use crate::trace::lines::{
    Between, Content, Line, LineFormat, Lines, SECTOR_BYTES, line as write_line,
};
use crate::trace::{Label, RecordedAccess, Recording, TraceError, TraceRecord};

/// The form of a line.
pub const SHAPE: &str = "R|W label lba sectors response_us think_us";

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "disksim-validate",
    about: "DiskSim validation recording: one outstanding, with response and think times",
    shape: SHAPE,
    endings: &[".trace"],
    origin: "its first request",
    device: DeviceName::One,
    text: true,
    says: Says {
        operations: &[Operation::Read, Operation::Write],
        response: true,
        think: true,
        address_unit_bytes: SECTOR_BYTES,
        ..Says::LEAST
    },
    decoder: |reading| Lines::boxed(&reading.file, Validate { at: Instant::ORIGIN }),
    encoder: || Box::new(Writer { last: None }),
};

/// Reads a recording; `file` is its name in errors.
///
/// # Errors
/// The first line that is not of this format, by line and column; a text without any access.
pub fn read(file: &str, text: &str) -> Result<Recording, TraceError> {
    let mut accesses = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        if !(text.trim().is_empty() || text.trim_start().starts_with('#')) {
            accesses.push(access(&Line { file, number, text })?);
        }
    }
    if accesses.is_empty() {
        return Err(TraceError::Empty { file: file.to_string(), shape: SHAPE });
    }
    Recording::new(accesses).ok_or_else(|| TraceError::TooLong { file: file.to_string() })
}

/// Formats one access as a line of this format, without a line end, for [`read`]. Times keep their
/// nanoseconds.
#[must_use]
pub fn line(access: &RecordedAccess) -> String {
    let direction = if access.operation == Operation::Read { 'R' } else { 'W' };
    let label =
        LABELS.iter().find(|(_, label)| *label == access.label).map_or("Hit", |(name, _)| name);
    let us = |span: Nanos| alloc::format!("{}.{:03}", span.as_ns() / 1_000, span.as_ns() % 1_000);
    let (start, len) = (access.extent.start.get(), access.extent.len.get());
    alloc::format!("{direction} {label} {start} {len} {} {}", us(access.response), us(access.think))
}

const LABELS: [(&str, Label); 4] = [
    ("Hit", Label::Hit),
    ("Miss", Label::Miss),
    ("Doub", Label::DoubleDisconnect),
    ("Trip", Label::TripleDisconnect),
];

fn access(line: &Line<'_>) -> Result<RecordedAccess, TraceError> {
    let [direction, label, lba, sectors, response, think] = line.exactly(Between::Blanks, SHAPE)?;
    let operation = match direction.text {
        "R" => Operation::Read,
        "W" => Operation::Write,
        _ => return Err(line.refuse(direction, "the direction", "R or W", "write one of the two")),
    };
    let known = LABELS.iter().find(|(name, _)| *name == label.text);
    let label = known
        .ok_or_else(|| {
            line.refuse(
                label,
                "the label",
                "Hit, Miss, Doub or Trip",
                "write Hit where nothing is known",
            )
        })?
        .1;
    let start: u64 = line.number(lba, "the LBA")?;
    let len: u64 = line.number(sectors, "the number of sectors")?;
    if len == 0 {
        return Err(line.refuse(
            sectors,
            "the number of sectors",
            "a whole number from 1",
            "remove accesses that move nothing",
        ));
    }
    if start.checked_add(len).is_none() {
        return Err(line.refuse(
            lba,
            "the LBA",
            "an address below 2^64 with all its sectors",
            "correct it",
        ));
    }
    Ok(RecordedAccess {
        line: usize::try_from(line.number).unwrap_or(usize::MAX),
        operation,
        extent: Extent::from_numbers(start, len),
        response: line.span(response, "the response time", 1_000)?,
        think: line.span(think, "the think time", 1_000)?,
        label,
    })
}

/// Reads accesses as requests, each issued after the response and think times of those before it.
struct Validate {
    at: Instant,
}

impl LineFormat for Validate {
    fn read(&mut self, line: &Line<'_>) -> Result<Content, TraceError> {
        let RecordedAccess { operation, extent, response, think, .. } = access(line)?;
        let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES);
        let record =
            bytes(extent.start.get()).zip(bytes(extent.len.get())).and_then(|(offset, len)| {
                TraceRecord::new(line.number, self.at, operation, offset, len)
            });
        let [_, _, lba, ..] = line.exactly::<6>(Between::Blanks, SHAPE)?;
        let record = record.ok_or_else(|| {
            line.refuse(lba, "the LBA", "an address below 2^64 bytes", "correct it")
        })?;
        self.at = self.at + response + think;
        Ok(Content::One(TraceRecord { response: Some(response), think: Some(think), ..record }))
    }
}

/// Writes requests as consecutive accesses. A missing response time becomes 0, and a missing think
/// time the distance to the next request less the response time, so the last request is held back
/// until its successor.
struct Writer {
    last: Option<TraceRecord>,
}

impl Writer {
    fn finish(&mut self, next: Option<Instant>, out: &mut Vec<u8>) {
        let Some(last) = self.last.take() else { return };
        let response = last.response.unwrap_or(Nanos::ZERO);
        let distance = next.map_or(Nanos::ZERO, |next| next.saturating_since(last.at));
        let access = RecordedAccess {
            line: 0,
            operation: last.operation,
            extent: Extent::from_numbers(
                last.offset_bytes / SECTOR_BYTES,
                last.len_bytes / SECTOR_BYTES,
            ),
            response,
            think: last.think.unwrap_or(distance.saturating_sub(response)),
            label: Label::Hit,
        };
        write_line(out, format_args!("{}", line(&access)));
    }
}

impl Encoder for Writer {
    fn record(&mut self, record: &TraceRecord, out: &mut Vec<u8>) {
        self.finish(Some(record.at), out);
        self.last = Some(*record);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.finish(None, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::Instant;

    #[test]
    fn the_lines_of_a_recording_become_accesses() {
        let recording = read(
            "x",
            "# two accesses\nW Hit    4583176   4    663.00000  \
            45422.00000\n\n  R Miss 7 12 6657.5 0\r\n",
        )
        .unwrap();
        let [write, read] = recording.accesses() else { panic!("{recording:?}") };
        assert_eq!((write.line, write.operation, write.label), (2, Operation::Write, Label::Hit));
        assert_eq!(
            (write.extent, write.response, write.think),
            (Extent::from_numbers(4_583_176, 4), Nanos::from_us(663), Nanos::from_us(45_422))
        );
        assert_eq!(
            (read.line, read.operation, read.label, read.response),
            (4, Operation::Read, Label::Miss, Nanos::from_ns(6_657_500))
        );
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
            assert!(
                message.starts_with(&alloc::format!(
                    "some.trace:{place}: {field} is `{value}`, expected "
                )),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn lines_of_another_shape_and_texts_without_access_are_refused() {
        let message = read("some.trace", "R Hit 1 8 5.0").unwrap_err().to_string();
        assert!(
            message.starts_with("some.trace:1: 5 fields, expected the 6 of `R|W label"),
            "{message}"
        );
        assert!(read("x", "R Hit 1 8 5.0 1.0 7").is_err());
        assert_eq!(
            read("x", "\n# nothing\n"),
            Err(TraceError::Empty { file: "x".to_string(), shape: SHAPE })
        );
        assert_eq!(
            read("x", "R Hit 1 8 1.0 4000000000000000"),
            Err(TraceError::TooLong { file: "x".to_string() })
        );
    }
}
