//! Tencent's CBS traces of 2018: one request a line, five fields with commas between them.
//!
//! ```text
//! 1538323200,12910952,128,0,1063
//! │          │        │   │ └ the virtual volume
//! │          │        │   └ 0 read, 1 write
//! │          │        └ length, sectors of 512 bytes
//! │          └ offset, sectors of 512 bytes
//! └ when, whole seconds since 1970
//! ```
//!
//! All requests of a second have one time, so an open replay issues them together. The files come
//! as .tgz and must be unpacked with `tar` first.
//!
//! Source: the README of the trace at SNIA's repository (IOTTA 27917).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::encoder::Says;
use crate::trace::lines::{Between, Content, Line, Lines, SECTOR_BYTES, line};
use crate::trace::{TraceError, TraceRecord};

const SHAPE: &str = "time_s,offset_sectors,len_sectors,0|1,volume";

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "tencent",
    about: "Tencent CBS block traces (2018), CSV",
    shape: SHAPE,
    endings: &[".csv", ""],
    origin: "1970",
    device: DeviceName::Number,
    text: true,
    says: Says {
        operations: &[Operation::Read, Operation::Write],
        max_device: u32::MAX,
        time_unit_ns: 1_000_000_000,
        address_unit_bytes: SECTOR_BYTES,
        ..Says::LEAST
    },
    decoder: |reading| Lines::boxed(&reading.file, read),
    encoder: || Box::new(write),
};

fn read(line: &Line<'_>) -> Result<Content, TraceError> {
    let [at, offset, len, operation, volume] = line.exactly(Between::Commas, SHAPE)?;
    let parsed = line.read_or_write(operation, ["0", "1"], "0 for a read or 1 for a write")?;
    let (offset, len) = ((offset, "the offset", SECTOR_BYTES), (len, "the length", SECTOR_BYTES));
    let record = line.request_at((at, 1_000_000_000), parsed, offset, len)?;
    Ok(Content::One(TraceRecord { device: line.number(volume, "the volume")?, ..record }))
}

fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let write = u8::from(record.operation == Operation::Write);
    let (offset, len) = (record.offset_bytes / SECTOR_BYTES, record.len_bytes / SECTOR_BYTES);
    line(
        out,
        format_args!(
            "{},{offset},{len},{write},{}",
            record.at.as_ns() / 1_000_000_000,
            record.device
        ),
    );
}
