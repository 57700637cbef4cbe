//! The Storage Performance Council's trace format, which the UMass repository uses: five fields
//! with commas between them, optionally more after them.
//!
//! ```text
//! 0,20941264,8192,W,0.551706
//! │ │        │    │ └ when, s since the trace's beginning
//! │ │        │    └ R or W, of either case
//! │ │        └ length, bytes
//! │ └ offset, blocks of 512 bytes, as in the published traces
//! └ the application storage unit
//! ```
//!
//! Source: SPC Trace File Format Specification, revision 1.0.1.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::encoder::Says;
use crate::trace::lines::{Between, Content, Line, Lines, SECTOR_BYTES, line};
use crate::trace::{TraceError, TraceRecord};

const SHAPE: &str = "unit,lba,len_bytes,R|W,time_s";

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "spc",
    about: "SPC traces, as in the UMass repository, CSV",
    shape: SHAPE,
    endings: &[".spc"],
    origin: "its beginning",
    device: DeviceName::Number,
    text: true,
    says: Says {
        operations: &[Operation::Read, Operation::Write],
        max_device: u32::MAX,
        address_unit_bytes: SECTOR_BYTES,
        ..Says::LEAST
    },
    decoder: |reading| Lines::boxed(&reading.file, read),
    encoder: || Box::new(write),
};

fn read(line: &Line<'_>) -> Result<Content, TraceError> {
    let [unit, lba, len, operation, at] = line.at_least(Between::Commas, SHAPE)?;
    let words =
        if operation.text == "r" || operation.text == "w" { ["r", "w"] } else { ["R", "W"] };
    let parsed = line.read_or_write(operation, words, "R or W")?;
    let (lba, len) = ((lba, "the LBA", SECTOR_BYTES), (len, "the length", 1));
    let record = line.request_at((at, 1_000_000_000), parsed, lba, len)?;
    Ok(Content::One(TraceRecord { device: line.number(unit, "the storage unit")?, ..record }))
}

fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let character = if record.operation == Operation::Read { 'R' } else { 'W' };
    let (secs, ns) = (record.at.as_ns() / 1_000_000_000, record.at.as_ns() % 1_000_000_000);
    line(
        out,
        format_args!(
            "{},{},{},{character},{secs}.{ns:09}",
            record.device,
            record.offset_bytes / SECTOR_BYTES,
            record.len_bytes
        ),
    );
}
