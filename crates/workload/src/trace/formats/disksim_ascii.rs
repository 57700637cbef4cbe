//! DiskSim's default trace format: one request a line, five fields with blanks between them.
//!
//! ```text
//! 12.345000 0 3962268 12 1
//! │         │ │       │  └ flags, hexadecimal: bit 0 is set for a read
//! │         │ │       └ length, sectors of 512 bytes
//! │         │ └ first sector
//! │         └ the device
//! └ when, ms since the trace's beginning
//! ```
//!
//! Source: DiskSim 4.0, `src/disksim_iotrace.c` (`iotrace_ascii_get_ioreq_event`) and its reference
//! manual.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::encoder::Says;
use crate::trace::lines::{Between, Content, Line, Lines, SECTOR_BYTES, line};
use crate::trace::{TraceError, TraceRecord};

const SHAPE: &str = "time_ms device lba sectors flags_hex";

/// The flag of a read.
const READ: u64 = 1;

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "disksim-ascii",
    about: "DiskSim's default trace format",
    shape: SHAPE,
    endings: &[".trace", ".ascii"],
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
    let [at, device, lba, sectors, flags] = line.exactly(Between::Blanks, SHAPE)?;
    let digits = flags.text.strip_prefix("0x").unwrap_or(flags.text);
    let known = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = u64::from_str_radix(digits, 16).ok().filter(|_| known);
    let bits = bits.ok_or_else(|| {
        line.refuse(
            flags,
            "the word of flags",
            "a hexadecimal number",
            "write 1 for a read or 0 for a write",
        )
    })?;
    let operation = if bits & READ != 0 { Operation::Read } else { Operation::Write };
    let sectors = (sectors, "the number of sectors", SECTOR_BYTES);
    let lba = (lba, "the LBA", SECTOR_BYTES);
    let record = line.request_at((at, 1_000_000), operation, lba, sectors)?;
    Ok(Content::One(TraceRecord { device: line.number(device, "the device")?, ..record }))
}

fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let (ms, ns) = (record.at.as_ns() / 1_000_000, record.at.as_ns() % 1_000_000);
    let read = u8::from(record.operation == Operation::Read);
    let (lba, sectors) = (record.offset_bytes / SECTOR_BYTES, record.len_bytes / SECTOR_BYTES);
    line(out, format_args!("{ms}.{ns:06} {} {lba} {sectors} {read}", record.device));
}
