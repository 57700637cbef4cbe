//! The files of `blktrace`, one for each processor: records of 48 bytes, in the byte order of the
//! machine, each followed by a payload.
//!
//! ```text
//! byte  0 u32 magic 0x65617400 | version 7     28 u32 action: event, then categories
//!       4 u32 sequence number                  32 u32 process
//!       8 u64 when, ns                         36 u32 device, major · 2²⁰ + minor
//!      16 u64 first sector of 512 bytes        40 u32 processor
//!      24 u32 length, bytes                    44 u16 error, 46 u16 bytes of payload
//! ```
//!
//! The first magic number shows the byte order. Bytes before the next magic number are skipped.
//! Only one kind of event counts ([`Action`]); other events, notes about processes and messages,
//! packet commands and payloads are skipped. A transfer with the flush category becomes two
//! requests, the flush first. The trace does not distinguish writes of zeroes from other writes.
//! Versions other than 7 have other layouts and are refused.
//!
//! Source: Linux, `include/uapi/linux/blktrace_api.h`; `kernel/trace/blktrace.c` (`blk_fill_rwbs`).

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::Instant;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::decoder::{Action, Decoder, Reading, Step};
use crate::trace::encoder::{Encoder, Says};
use crate::trace::lines::SECTOR_BYTES;
use crate::trace::{TraceError, TraceRecord};

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "blktrace",
    about: "blktrace's binary files, one for each processor",
    shape: "48-byte records, magic 0x65617407, of either byte order",
    endings: &[".blktrace.0", ".blktrace.1"],
    origin: "the machine's start",
    device: DeviceName::MajorMinor,
    text: false,
    says: Says {
        operations: &[Operation::Read, Operation::Write, Operation::Discard, Operation::Flush],
        fua: true,
        max_device: u32::MAX,
        process: true,
        address_unit_bytes: SECTOR_BYTES,
        // A length is 32 bits, and whole sectors.
        max_bytes: u32::MAX as u64 / SECTOR_BYTES * SECTOR_BYTES,
        ..Says::LEAST
    },
    decoder: |reading| Box::new(Blktrace::new(reading)),
    encoder: || Box::new(Writer { sequence: 0 }),
};

const RECORD_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

const EVENT_QUEUE: u32 = 1;
const EVENT_ISSUE: u32 = 7;
/// Set if the payload begins with the number of a control group.
const EVENT_HAS_GROUP: u32 = 1 << 8;

/// Categories, in the upper half of an action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const QUEUE: u32 = 1 << 4;
const PACKET: u32 = 1 << 9;
const NOTE: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

struct Blktrace {
    file: String,
    action: Action,
    order: Option<ByteOrder>,
    /// Bytes of payload still to skip.
    payload: usize,
    pending: Option<TraceRecord>,
    /// The number of complete records and of consumed bytes.
    records: u64,
    bytes: u64,
    /// True if the current damage was reported already.
    searching: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self == Self::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Self::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        if self == Self::Little { second << 32 | first } else { first << 32 | second }
    }
}

impl Blktrace {
    fn new(reading: &Reading) -> Self {
        let (file, action) = (reading.file.to_string(), reading.action);
        Self {
            file,
            action,
            order: None,
            payload: 0,
            pending: None,
            records: 0,
            bytes: 0,
            searching: false,
        }
    }

    /// The byte order of a record that begins here, if one does.
    fn order_of(&self, bytes: &[u8]) -> Option<ByteOrder> {
        let orders = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .filter(|order| self.order.is_none_or(|known| known == *order));
        orders.into_iter().find(|order| bytes.len() >= 4 && order.u32(bytes, 0) == MAGIC | VERSION)
    }

    /// Skips bytes up to the next magic number.
    fn search(&mut self, bytes: &[u8], ends: bool) -> Step {
        let next =
            (1..bytes.len().saturating_sub(3)).find(|at| self.order_of(&bytes[*at..]).is_some());
        // The last bytes may begin a magic number.
        let consumed = next.unwrap_or(if ends { bytes.len() } else { bytes.len() - 3 });
        if core::mem::replace(&mut self.searching, next.is_none()) {
            return Step::Blank { consumed: self.consume(consumed) };
        }
        let value = self.order.unwrap_or(ByteOrder::Little).u32(bytes, 0);
        let error = TraceError::Binary {
            file: self.file.clone(),
            record: self.records + 1,
            byte: self.bytes,
            field: "the magic number",
            value: u64::from(value),
            expected: "0x65617407, of version 7",
            remedy: "trace with a kernel and blktrace of version 7, or copy the file again if it \
                is damaged",
        };
        Step::Damaged { error, consumed: self.consume(consumed) }
    }

    fn consume(&mut self, bytes: usize) -> usize {
        self.bytes += bytes as u64;
        bytes
    }

    fn cut_short(&mut self, found: usize, expected: usize) -> Step {
        let (record, byte) = (self.records + 1, self.bytes);
        let error = TraceError::CutShort {
            file: self.file.clone(),
            record,
            byte,
            found: found as u64,
            expected: expected as u64,
        };
        Step::Damaged { error, consumed: self.consume(found) }
    }

    fn record(&mut self, bytes: &[u8], order: ByteOrder) -> Step {
        self.records += 1;
        let byte = self.bytes;
        let consumed = self.consume(RECORD_BYTES);
        self.payload = usize::from(order.u16(bytes, 46));
        let action = order.u32(bytes, 28);
        let (event, categories) = (action & 0xffff & !EVENT_HAS_GROUP, action >> 16);
        let selected = match self.action {
            Action::Queue => EVENT_QUEUE,
            Action::Issue => EVENT_ISSUE,
        };
        if event != selected || categories & (NOTE | PACKET) != 0 {
            return Step::Passed { consumed };
        }
        let at = Instant::from_ns(order.u64(bytes, 8));
        let (sector, len_bytes) = (order.u64(bytes, 16), u64::from(order.u32(bytes, 24)));
        let (process, device) = (order.u32(bytes, 32), order.u32(bytes, 36));
        let flush = TraceRecord { process, device, ..TraceRecord::flush(self.records, at) };
        if len_bytes == 0 {
            return if categories & FLUSH != 0 {
                Step::Record { record: flush, consumed }
            } else {
                Step::Passed { consumed }
            };
        }
        let operation = match categories {
            categories if categories & DISCARD != 0 => Operation::Discard,
            categories if categories & WRITE != 0 => Operation::Write,
            _ => Operation::Read,
        };
        let record = sector
            .checked_mul(SECTOR_BYTES)
            .and_then(|offset| TraceRecord::new(self.records, at, operation, offset, len_bytes));
        let Some(record) = record else {
            let (file, record, field, value) =
                (self.file.clone(), self.records, "the first sector", sector);
            let (expected, remedy) =
                ("one whose bytes end below 2^64", "copy the file again if it is damaged");
            return Step::Damaged {
                error: TraceError::Binary { file, record, byte, field, value, expected, remedy },
                consumed,
            };
        };
        let record = TraceRecord {
            process,
            device,
            fua: operation == Operation::Write && categories & FUA != 0,
            ..record
        };
        if categories & FLUSH != 0 {
            self.pending = Some(record);
            return Step::Record { record: flush, consumed };
        }
        Step::Record { record, consumed }
    }
}

impl Decoder for Blktrace {
    fn step(&mut self, bytes: &[u8], ends: bool) -> Step {
        if let Some(record) = self.pending.take() {
            return Step::Record { record, consumed: 0 };
        }
        if bytes.is_empty() {
            return Step::NeedMore;
        }
        if self.payload > 0 {
            // A file may end within a payload: the record before it was complete.
            let consumed = self.payload.min(bytes.len());
            self.payload -= consumed;
            return Step::Blank { consumed: self.consume(consumed) };
        }
        if bytes.len() < 4 {
            return if ends { self.cut_short(bytes.len(), RECORD_BYTES) } else { Step::NeedMore };
        }
        let Some(order) = self.order_of(bytes) else { return self.search(bytes, ends) };
        self.searching = false;
        if bytes.len() < RECORD_BYTES {
            return if ends { self.cut_short(bytes.len(), RECORD_BYTES) } else { Step::NeedMore };
        }
        self.order = Some(order);
        self.record(bytes, order)
    }
}

struct Writer {
    sequence: u32,
}

impl Encoder for Writer {
    fn record(&mut self, record: &TraceRecord, out: &mut Vec<u8>) {
        self.sequence = self.sequence.wrapping_add(1);
        let categories = match record.operation {
            Operation::Read => 0,
            Operation::Write | Operation::Zero => WRITE | if record.fua { FUA } else { 0 },
            Operation::Discard => WRITE | DISCARD,
            Operation::Flush => FLUSH,
        };
        out.extend((MAGIC | VERSION).to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(record.at.as_ns().to_le_bytes());
        out.extend((record.offset_bytes / SECTOR_BYTES).to_le_bytes());
        out.extend((record.len_bytes as u32).to_le_bytes());
        out.extend(((categories | QUEUE) << 16 | EVENT_QUEUE).to_le_bytes());
        out.extend(record.process.to_le_bytes());
        out.extend(record.device.to_le_bytes());
        // Processor, error, and bytes of payload.
        out.extend([0; 8]);
    }
}
