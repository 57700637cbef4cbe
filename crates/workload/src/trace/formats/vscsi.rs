//! The traces of virtual SCSI disks that CloudPhysics collected, versions 1 and 2: records of 32 or
//! 40 bytes, little-endian, without a header.
//!
//! ```text
//! version 1                                     version 2
//! byte  0 u32 sequence number                   byte  0 u16 SCSI command
//!       4 u32 length, bytes                           2 u16 version; its upper byte is 2
//!       8 u32 parts of the scatter-gather list        4 u32 sequence number
//!      12 u16 SCSI command                            8 u32 length, bytes
//!      14 u16 version; its upper byte is 1           12 u32 parts of the scatter-gather list
//!      16 u64 first block of 512 bytes               16 u64 first block of 512 bytes
//!      24 u64 when, us                               24 u64 when, us
//!                                                    32 u64 response, us; 0 counts as not measured
//! ```
//!
//! READ and WRITE of all lengths, SYNCHRONIZE CACHE and WRITE SAME (as a write of zeroes) are
//! requests; other commands are skipped, including UNMAP, whose extents are not recorded.
//!
//! Source: the reader that libCacheSim has for these traces (`vscsi.h`); Waldspurger et al.,
//! "Efficient MRC Construction with SHARDS", FAST 2015. SCSI commands: SBC-4.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::decoder::{Decoder, Reading, Step};
use crate::trace::encoder::{Encoder, Says};
use crate::trace::lines::SECTOR_BYTES;
use crate::trace::{TraceError, TraceRecord};

const SAYS: Says = Says {
    operations: &[Operation::Read, Operation::Write, Operation::Zero, Operation::Flush],
    time_unit_ns: 1_000,
    address_unit_bytes: SECTOR_BYTES,
    // A length is 32 bits, and whole sectors.
    max_bytes: u32::MAX as u64 / SECTOR_BYTES * SECTOR_BYTES,
    ..Says::LEAST
};

/// The entry of version 1 in the table.
pub(super) const FORMAT_1: Format = Format {
    name: "vscsi1",
    about: "CloudPhysics vscsi traces, version 1, binary",
    shape: "32-byte records: u32 sequence, u32 bytes, u32 parts, u16 command, u16 version, u64 \
        block, u64 us",
    endings: &[".vscsitrace", ".vscsi"],
    origin: "unknown",
    device: DeviceName::One,
    text: false,
    says: SAYS,
    decoder: |reading| Box::new(Vscsi::new(reading, &VERSION_1)),
    encoder: || Box::new(Writer { layout: &VERSION_1, sequence: 0 }),
};

/// The entry of version 2 in the table.
pub(super) const FORMAT_2: Format = Format {
    name: "vscsi2",
    about: "CloudPhysics vscsi traces, version 2, binary",
    shape: "40-byte records: u16 command, u16 version, u32 sequence, u32 bytes, u32 parts, u64 \
        block, u64 us, u64 response_us",
    says: Says { response: true, ..SAYS },
    decoder: |reading| Box::new(Vscsi::new(reading, &VERSION_2)),
    encoder: || Box::new(Writer { layout: &VERSION_2, sequence: 0 }),
    ..FORMAT_1
};

/// The offsets of the fields; block and time are at 16 and 24 in both versions.
struct Layout {
    version: u16,
    bytes: usize,
    command: usize,
    len: usize,
    response: Option<usize>,
    expected: &'static str,
}

static VERSION_1: Layout = Layout {
    version: 1,
    bytes: 32,
    command: 12,
    len: 4,
    response: None,
    expected: "0x1.. in all records",
};
static VERSION_2: Layout = Layout {
    version: 2,
    bytes: 40,
    command: 0,
    len: 8,
    response: Some(32),
    expected: "0x2.. in all records",
};

struct Vscsi {
    file: String,
    layout: &'static Layout,
    records: u64,
}

impl Vscsi {
    fn new(reading: &Reading, layout: &'static Layout) -> Self {
        Self { file: reading.file.to_string(), layout, records: 0 }
    }

    fn refuse(&self, field: &'static str, value: u64, expected: &'static str) -> Step {
        let record = self.records;
        let byte = (record - 1) * self.layout.bytes as u64;
        let (file, remedy) =
            (self.file.clone(), "check that the file is of this version, and undamaged");
        Step::Damaged {
            error: TraceError::Binary { file, record, byte, field, value, expected, remedy },
            consumed: self.layout.bytes,
        }
    }
}

impl Decoder for Vscsi {
    fn step(&mut self, bytes: &[u8], ends: bool) -> Step {
        let layout = self.layout;
        if bytes.len() < layout.bytes {
            if bytes.is_empty() || !ends {
                return Step::NeedMore;
            }
            let (record, byte) = (self.records + 1, self.records * layout.bytes as u64);
            let (found, expected) = (bytes.len() as u64, layout.bytes as u64);
            return Step::Damaged {
                error: TraceError::CutShort {
                    file: self.file.clone(),
                    record,
                    byte,
                    found,
                    expected,
                },
                consumed: bytes.len(),
            };
        }
        self.records += 1;
        let consumed = layout.bytes;
        // The version follows the command.
        let version = u16_at(bytes, layout.command + 2);
        if version >> 8 != layout.version {
            return self.refuse("the version", u64::from(version), layout.expected);
        }
        let (block, us) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let Some(at) = us.checked_mul(1_000).map(Instant::from_ns) else {
            return self.refuse("the time", us, "microseconds of less than 584 years");
        };
        let response = layout.response.map(|at| u64_at(bytes, at)).filter(|us| *us > 0);
        let response = response.and_then(|us| us.checked_mul(1_000)).map(Nanos::from_ns);
        let operation = match u16_at(bytes, layout.command) {
            0x08 | 0x28 | 0xa8 | 0x88 => Operation::Read,
            // The last two of these also verify.
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0x8e => Operation::Write,
            0x41 | 0x93 => Operation::Zero,
            0x35 | 0x91 => {
                return Step::Record {
                    record: TraceRecord { response, ..TraceRecord::flush(self.records, at) },
                    consumed,
                };
            }
            _ => return Step::Passed { consumed },
        };
        let len_bytes = u64::from(u32_at(bytes, layout.len));
        let record = block
            .checked_mul(SECTOR_BYTES)
            .and_then(|offset| TraceRecord::new(self.records, at, operation, offset, len_bytes));
        let Some(record) = record else {
            return self.refuse("the first block", block, "one whose bytes end below 2^64");
        };
        Step::Record { record: TraceRecord { response, ..record }, consumed }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at + 2)) << 16 | u32::from(u16_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at + 4)) << 32 | u64::from(u32_at(bytes, at))
}

struct Writer {
    layout: &'static Layout,
    sequence: u32,
}

impl Encoder for Writer {
    fn record(&mut self, record: &TraceRecord, out: &mut Vec<u8>) {
        self.sequence = self.sequence.wrapping_add(1);
        // The commands with 16 bytes, which reach every block.
        let command: u16 = match record.operation {
            Operation::Read => 0x88,
            Operation::Write | Operation::Discard => 0x8a,
            Operation::Zero => 0x93,
            Operation::Flush => 0x91,
        };
        let mut bytes = [0; 40];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let sequence = if self.layout.version == 1 { 0 } else { 4 };
        put(sequence, &self.sequence.to_le_bytes());
        put(self.layout.len, &(record.len_bytes as u32).to_le_bytes());
        put(self.layout.len + 4, &1_u32.to_le_bytes());
        put(self.layout.command, &command.to_le_bytes());
        put(self.layout.command + 2, &(self.layout.version << 8).to_le_bytes());
        put(16, &(record.offset_bytes / SECTOR_BYTES).to_le_bytes());
        put(24, &(record.at.as_ns() / 1_000).to_le_bytes());
        if let Some(at) = self.layout.response {
            put(at, &(record.response.unwrap_or(Nanos::ZERO).as_ns() / 1_000).to_le_bytes());
        }
        out.extend(&bytes[..self.layout.bytes]);
    }
}
