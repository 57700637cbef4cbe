//! Alibaba's block traces of 2020: one request a line, five fields with commas between them.
//!
//! ```text
//! 419,W,53481484288,4096,1577808000000046
//! │   │ │           │    └ when, us since 1970
//! │   │ │           └ length, bytes
//! │   │ └ offset, bytes
//! │   └ R or W
//! └ the virtual disk
//! ```
//!
//! Source: the README of github.com/alibaba/block-traces.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::encoder::Says;
use crate::trace::lines::{Between, Content, Line, Lines, line};
use crate::trace::{TraceError, TraceRecord};

const SHAPE: &str = "device,R|W,offset_bytes,len_bytes,time_us";

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "alibaba",
    about: "Alibaba block traces (2020), CSV",
    shape: SHAPE,
    endings: &[".csv"],
    origin: "1970",
    device: DeviceName::Number,
    text: true,
    says: Says {
        operations: &[Operation::Read, Operation::Write],
        max_device: u32::MAX,
        time_unit_ns: 1_000,
        ..Says::LEAST
    },
    decoder: |reading| Lines::boxed(&reading.file, read),
    encoder: || Box::new(write),
};

fn read(line: &Line<'_>) -> Result<Content, TraceError> {
    let [device, operation, offset, len, at] = line.exactly(Between::Commas, SHAPE)?;
    let parsed = line.read_or_write(operation, ["R", "W"], "R or W")?;
    let (offset, len) = ((offset, "the offset", 1), (len, "the length", 1));
    let record = line.request_at((at, 1_000), parsed, offset, len)?;
    Ok(Content::One(TraceRecord { device: line.number(device, "the device")?, ..record }))
}

fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let character = if record.operation == Operation::Read { 'R' } else { 'W' };
    let TraceRecord { device, offset_bytes, len_bytes, .. } = record;
    line(
        out,
        format_args!(
            "{device},{character},{offset_bytes},{len_bytes},{}",
            record.at.as_ns() / 1_000
        ),
    );
}
