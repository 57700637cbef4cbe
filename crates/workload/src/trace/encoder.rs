//! [`Encoder`]: encodes records in a format, and counts the losses.
//!
//! No format expresses everything that another one does. [`Says`] describes the abilities of a
//! format; [`Says::reduce`] turns a record into one that the format can express, and counts the
//! differences in [`Losses`], so that a conversion can report them. An encoder receives reduced
//! records only, and the decoder returns the same records.

use alloc::vec::Vec;
use core::fmt;

use headtime_units::{Instant, Nanos};

use super::TraceRecord;
use crate::source::Operation;

/// An encoder of one format.
pub trait Encoder {
    /// Writes the header, before the first record.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Adds a record that [`Says::reduce`] returned and whose time is not before the last one's.
    fn record(&mut self, record: &TraceRecord, out: &mut Vec<u8>);

    /// Writes the end, after the last record.
    fn end(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}

/// An encoder of records that do not depend on each other.
impl<F: FnMut(&TraceRecord, &mut Vec<u8>)> Encoder for F {
    fn record(&mut self, record: &TraceRecord, out: &mut Vec<u8>) {
        self(record, out);
    }
}

/// The abilities of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Says {
    /// The operations.
    pub operations: &'static [Operation],
    /// True if the format marks writes with force unit access.
    pub fua: bool,
    /// The highest device number; 0 when it knows one device only.
    pub max_device: u32,
    /// True if the format has processes.
    pub process: bool,
    /// True if the format has response times.
    pub response: bool,
    /// True if the format has think times.
    pub think: bool,
    /// The unit of times in nanoseconds.
    pub time_unit_ns: u64,
    /// The unit of addresses and lengths in bytes.
    pub address_unit_bytes: u64,
    /// The maximum bytes of one request.
    pub max_bytes: u64,
}

impl Says {
    /// The common abilities, to which formats add: exact addresses and times, of one device.
    pub(super) const LEAST: Self = Self {
        operations: &[],
        fua: false,
        max_device: 0,
        process: false,
        response: false,
        think: false,
        time_unit_ns: 1,
        address_unit_bytes: 1,
        max_bytes: u64::MAX,
    };

    /// The record as this format can express it, or `None` when the format has no such operation or
    /// length. Losses are counted.
    ///
    /// Times are rounded down, and addresses outward to whole units, so that the request still
    /// covers every byte.
    #[must_use]
    pub fn reduce(&self, record: &TraceRecord, losses: &mut Losses) -> Option<TraceRecord> {
        if !self.operations.contains(&record.operation) {
            losses.add(match record.operation {
                Operation::Flush => Loss::Flush,
                Operation::Discard => Loss::Discard,
                Operation::Zero => Loss::Zero,
                Operation::Read | Operation::Write => Loss::Transfer,
            });
            return None;
        }
        let unit = self.address_unit_bytes;
        let offset_bytes = record.offset_bytes / unit * unit;
        let len_bytes = (record.end_bytes() - offset_bytes).div_ceil(unit).saturating_mul(unit);
        if len_bytes > self.max_bytes || offset_bytes.checked_add(len_bytes).is_none() {
            losses.add(Loss::Length);
            return None;
        }
        if (offset_bytes, len_bytes) != (record.offset_bytes, record.len_bytes) {
            losses.add(Loss::Address);
        }
        let mut kept = TraceRecord { offset_bytes, len_bytes, ..*record };
        let mut round = |ns: u64| {
            let rounded = ns / self.time_unit_ns * self.time_unit_ns;
            if rounded != ns {
                losses.add(Loss::Time);
            }
            rounded
        };
        kept.at = Instant::from_ns(round(kept.at.as_ns()));
        kept.response = kept
            .response
            .filter(|_| self.response)
            .map(|span| Nanos::from_ns(round(span.as_ns())))
            .filter(|span| !span.is_zero());
        kept.think =
            kept.think.filter(|_| self.think).map(|span| Nanos::from_ns(round(span.as_ns())));
        for (lost, loss) in [
            (record.response.is_some() && !self.response, Loss::Response),
            (record.think.is_some() && !self.think, Loss::Think),
        ] {
            if lost {
                losses.add(loss);
            }
        }
        if record.fua && !self.fua {
            kept.fua = false;
            losses.add(Loss::Fua);
        }
        if record.device > self.max_device {
            kept.device = 0;
            losses.add(Loss::Device);
        }
        if record.process != 0 && !self.process {
            kept.process = 0;
            losses.add(Loss::Process);
        }
        Some(kept)
    }
}

/// A part of a record that a format cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// The flush itself.
    Flush,
    /// The discard itself.
    Discard,
    /// The writing of zeroes itself.
    Zero,
    /// The read or write itself.
    Transfer,
    /// The request itself, because it is longer than the format can say.
    Length,
    /// The force unit access of a write.
    Fua,
    /// The device.
    Device,
    /// The process.
    Process,
    /// The response time.
    Response,
    /// The think time.
    Think,
    /// The time, below the format's unit.
    Time,
    /// The address and length, below the format's unit.
    Address,
}

impl Loss {
    /// All losses.
    pub const ALL: [Self; 12] = [
        Self::Flush,
        Self::Discard,
        Self::Zero,
        Self::Transfer,
        Self::Length,
        Self::Fua,
        Self::Device,
        Self::Process,
        Self::Response,
        Self::Think,
        Self::Time,
        Self::Address,
    ];
}

impl fmt::Display for Loss {
    /// The description of the loss, to follow a count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flush => "flushes dropped",
            Self::Discard => "discards dropped",
            Self::Zero => "writes of zeroes dropped",
            Self::Transfer => "reads or writes dropped",
            Self::Length => "requests dropped that are too long for the format",
            Self::Fua => "writes with force unit access written as plain writes",
            Self::Device => "device numbers dropped",
            Self::Process => "processes dropped",
            Self::Response => "response times dropped",
            Self::Think => "think times dropped",
            Self::Time => "times rounded down to the format's unit",
            Self::Address => "addresses widened to the format's unit",
        })
    }
}

/// The number of times that each [`Loss`] occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([u64; Loss::ALL.len()]);

impl Losses {
    /// Adds one.
    pub fn add(&mut self, loss: Loss) {
        self.0[loss as usize] += 1;
    }

    /// The number of times that this loss occurred.
    #[must_use]
    pub fn of(&self, loss: Loss) -> u64 {
        self.0[loss as usize]
    }

    /// All losses that occurred, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (Loss, u64)> + '_ {
        Loss::ALL.into_iter().map(|loss| (loss, self.of(loss))).filter(|(_, count)| *count > 0)
    }
}
