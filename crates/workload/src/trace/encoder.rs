//! [`Encoder`]: from records to the bytes of a format, and what is lost on the way.
//!
//! No format says all that another does. What a format can say stands in its [`Says`];
//! [`Says::reduce`] turns a record into one that the format can say, and counts what it took away
//! in [`Losses`], so that whoever converts can tell. An encoder is handed reduced records only, and
//! its decoder reads them back the same.

use alloc::vec::Vec;
use core::fmt;

use headtime_units::{Instant, Nanos};

use super::Record;
use crate::source::Operation;

/// Writes one format.
pub trait Encoder {
    /// What stands before the first record.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Adds a record, which [`Says::reduce`] has made one that the format can say, and whose time
    /// is not before the last one's.
    fn record(&mut self, record: &Record, out: &mut Vec<u8>);

    /// What stands behind the last record.
    fn end(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}

/// What a format can say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Says {
    /// Operations it has words for.
    pub operations: &'static [Operation],
    /// Whether it marks writes with force unit access.
    pub fua: bool,
    /// The highest device number; 0 when it knows one device only.
    pub max_device: u32,
    /// Whether it names the process.
    pub process: bool,
    /// Whether it has response times.
    pub response: bool,
    /// Whether it has think times.
    pub think: bool,
    /// What times are multiples of, in nanoseconds.
    pub time_unit_ns: u64,
    /// What addresses and lengths are multiples of, in bytes.
    pub address_unit_bytes: u64,
    /// The most bytes of one request.
    pub max_bytes: u64,
}

impl Says {
    /// What every format says: addresses and times to the last byte and nanosecond, of one device.
    /// The base that formats' own abilities are added to.
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

    /// The record as this format can say it, or `None` when it has no word for its operation, or
    /// none for its length. What is lost is counted.
    ///
    /// Times are rounded down, and addresses outward to whole units, so that every byte that was
    /// touched stays touched.
    #[must_use]
    pub fn reduce(&self, record: &Record, losses: &mut Losses) -> Option<Record> {
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
        let mut kept = Record { offset_bytes, len_bytes, ..*record };
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

/// What a format could not say of a record.
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
    /// That a write was to be durable at once.
    Fua,
    /// Which device.
    Device,
    /// Which process.
    Process,
    /// The response time.
    Response,
    /// The think time.
    Think,
    /// A time, to the format's unit.
    Time,
    /// Address and length, to the format's unit.
    Address,
}

impl Loss {
    /// All of them.
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
    /// What happened to it, to be read behind a count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flush => "flushes left out",
            Self::Discard => "discards left out",
            Self::Zero => "writes of zeroes left out",
            Self::Transfer => "reads or writes left out",
            Self::Length => "requests left out that are longer than the format can say",
            Self::Fua => "writes with force unit access written as plain writes",
            Self::Device => "device numbers left out",
            Self::Process => "processes left out",
            Self::Response => "response times left out",
            Self::Think => "think times left out",
            Self::Time => "times rounded down to the format's unit",
            Self::Address => "addresses widened to the format's unit",
        })
    }
}

/// How often each [`Loss`] happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([u64; Loss::ALL.len()]);

impl Losses {
    /// One more.
    pub fn add(&mut self, loss: Loss) {
        self.0[loss as usize] += 1;
    }

    /// How often that happened.
    #[must_use]
    pub fn of(&self, loss: Loss) -> u64 {
        self.0[loss as usize]
    }

    /// What happened at all, and how often.
    pub fn all(&self) -> impl Iterator<Item = (Loss, u64)> + '_ {
        Loss::ALL.into_iter().map(|loss| (loss, self.of(loss))).filter(|(_, count)| *count > 0)
    }
}
