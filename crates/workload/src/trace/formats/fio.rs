//! fio's I/O logs, versions 2 and 3: a line with the version, then one action per line with blanks
//! between its fields.
//!
//! ```text
//! fio version 3 iolog
//! 22 /dev/sdb add
//! 143 /dev/sdb open
//! 146 /dev/sdb read 53248 4096
//! │   │        │    │     └ length, bytes
//! │   │        │    └ offset, bytes
//! │   │        └ read, write, trim, sync, datasync; add, open, close are no requests
//! │   └ the file; devices are numbered in the order in which files are first named
//! └ when, us since the beginning (version 3 only)
//! ```
//!
//! Version 2 has no times but `FILE wait MICROSECONDS 0`. According to fio's manual a wait is
//! relative to the one before: times are the sums of all waits. (fio's own replay compares the
//! number with the *milliseconds* since its start.) Without waits all requests have time 0, and
//! only a closed replay is meaningful. `sync` and `datasync` are flushes.
//!
//! Source: fio's HOWTO, "Trace file format v2" and "v3"; its `iolog.c` for the unit of the times,
//! which the manual leaves open.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use headtime_units::Instant;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::encoder::{Encoder, Says};
use crate::trace::lines::{Between, Content, Field, Line, LineFormat, Lines, line};
use crate::trace::names::Names;
use crate::trace::{TraceError, TraceRecord};

const SHAPE_2: &str = "file read|write|trim|sync|datasync|wait offset_bytes len_bytes";
const SHAPE_3: &str = "time_us file read|write|trim|sync|datasync offset_bytes len_bytes";
const HEADER_2: &str = "fio version 2 iolog";
const HEADER_3: &str = "fio version 3 iolog";

const SAYS: Says = Says {
    operations: &[Operation::Read, Operation::Write, Operation::Discard, Operation::Flush],
    // One device per file, up to the limit of the reader.
    max_device: u16::MAX as u32,
    time_unit_ns: 1_000,
    ..Says::LEAST
};

/// The entry of version 2 in the table.
pub(super) const FORMAT_2: Format = Format {
    name: "fio2",
    about: "fio I/O log, version 2: no times but waits",
    shape: SHAPE_2,
    endings: &[".log", ".iolog"],
    origin: "its beginning",
    device: DeviceName::Order,
    text: true,
    says: SAYS,
    decoder: |reading| {
        Lines::boxed(&reading.file, Version2 { at: Instant::ORIGIN, files: Names::default() })
    },
    encoder: || Box::new(Writer { timed: false, opened: BTreeSet::new(), at: Instant::ORIGIN }),
};

/// The entry of version 3 in the table.
pub(super) const FORMAT_3: Format = Format {
    name: "fio3",
    about: "fio I/O log, version 3: with times",
    shape: SHAPE_3,
    decoder: |reading| Lines::boxed(&reading.file, Version3 { files: Names::default() }),
    encoder: || Box::new(Writer { timed: true, opened: BTreeSet::new(), at: Instant::ORIGIN }),
    ..FORMAT_2
};

struct Version2 {
    at: Instant,
    files: Names,
}

struct Version3 {
    files: Names,
}

impl LineFormat for Version2 {
    fn read(&mut self, line: &Line<'_>) -> Result<Content, TraceError> {
        if is_header(line, HEADER_2) {
            return Ok(Content::Passed);
        }
        if line.fields(Between::Blanks).count() == 2 {
            let [file, action] = line.exactly(Between::Blanks, SHAPE_2)?;
            return file_action(line, &mut self.files, file, action);
        }
        let [file, action, offset, len] = line.exactly(Between::Blanks, SHAPE_2)?;
        if action.text == "wait" {
            self.at += line.span(offset, "the wait", 1_000)?;
            return Ok(Content::Passed);
        }
        request(line, &mut self.files, self.at, [file, action, offset, len])
    }
}

impl LineFormat for Version3 {
    fn read(&mut self, line: &Line<'_>) -> Result<Content, TraceError> {
        if is_header(line, HEADER_3) {
            return Ok(Content::Passed);
        }
        if line.fields(Between::Blanks).count() == 3 {
            let [at, file, action] = line.exactly(Between::Blanks, SHAPE_3)?;
            line.instant(at, "the time", 1_000)?;
            return file_action(line, &mut self.files, file, action);
        }
        let [at, file, action, offset, len] = line.exactly(Between::Blanks, SHAPE_3)?;
        request(
            line,
            &mut self.files,
            line.instant(at, "the time", 1_000)?,
            [file, action, offset, len],
        )
    }
}

fn is_header(line: &Line<'_>, header: &str) -> bool {
    line.text.trim() == header
}

fn number_of(line: &Line<'_>, files: &mut Names, file: Field<'_>) -> Result<u32, TraceError> {
    files
        .number(file.text)
        .ok_or_else(|| line.refuse(file, "the file", Names::EXPECTED, "split the log by file"))
}

fn file_action(
    line: &Line<'_>,
    files: &mut Names,
    file: Field<'_>,
    action: Field<'_>,
) -> Result<Content, TraceError> {
    if !matches!(action.text, "add" | "open" | "close" | "unlink") {
        return Err(line.refuse(
            action,
            "the action on a file",
            "add, open or close",
            "write one of them, or add offset and length",
        ));
    }
    number_of(line, files, file)?;
    Ok(Content::Passed)
}

fn request(
    line: &Line<'_>,
    files: &mut Names,
    at: Instant,
    [file, action, offset, len]: [Field<'_>; 4],
) -> Result<Content, TraceError> {
    let operation = match action.text {
        "read" => Operation::Read,
        "write" => Operation::Write,
        "trim" => Operation::Discard,
        "sync" | "datasync" => Operation::Flush,
        // It makes nothing durable for good, and no block device has it.
        "sync_file_range" => return Ok(Content::Passed),
        _ => {
            return Err(line.refuse(
                action,
                "the action",
                "read, write, trim, sync or datasync",
                "write one of them",
            ));
        }
    };
    let (offset_bytes, len_bytes) =
        (line.bytes(offset, "the offset", 1)?, line.bytes(len, "the length", 1)?);
    // A sync is logged with the offset of the file's last request; it has none of its own.
    let record = match operation {
        Operation::Flush => TraceRecord::flush(line.number, at),
        _ => line.request(offset, at, operation, offset_bytes, len_bytes)?,
    };
    Ok(Content::One(TraceRecord { device: number_of(line, files, file)?, ..record }))
}

struct Writer {
    timed: bool,
    opened: BTreeSet<u32>,
    at: Instant,
}

impl Writer {
    fn act(&self, device: u32, what: core::fmt::Arguments<'_>, out: &mut Vec<u8>) {
        if self.timed {
            line(out, format_args!("{} /dev/traced{device} {what}", self.at.as_ns() / 1_000));
        } else {
            line(out, format_args!("/dev/traced{device} {what}"));
        }
    }
}

impl Encoder for Writer {
    fn begin(&mut self, out: &mut Vec<u8>) {
        line(out, format_args!("{}", if self.timed { HEADER_3 } else { HEADER_2 }));
    }

    fn record(&mut self, record: &TraceRecord, out: &mut Vec<u8>) {
        let TraceRecord { device, offset_bytes, len_bytes, .. } = *record;
        let waited_us = record.at.saturating_since(self.at).as_ns() / 1_000;
        self.at = record.at;
        if self.opened.insert(device) {
            self.act(device, format_args!("add"), out);
            self.act(device, format_args!("open"), out);
        }
        if waited_us > 0 && !self.timed {
            self.act(device, format_args!("wait {waited_us} 0"), out);
        }
        let action = match record.operation {
            Operation::Read => "read",
            Operation::Write | Operation::Zero => "write",
            Operation::Discard => "trim",
            Operation::Flush => "sync",
        };
        self.act(device, format_args!("{action} {offset_bytes} {len_bytes}"), out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        for device in core::mem::take(&mut self.opened) {
            self.act(device, format_args!("close"), out);
        }
    }
}
