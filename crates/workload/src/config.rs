//! [`StreamConfig`]: the configuration of one stream of a workload.
//!
//! A stream is one kind of traffic: a database's random reads, a backup's sequential run. Several
//! streams make a workload. Operations, sizes, addresses, order and times of a stream are
//! independent of each other: [`Mix`], [`Sizes`], [`AddressPattern`], [`Order`], [`Arrivals`].
//! Sizes are bytes, as people write them, and become sectors when the workload is built for a
//! drive.

use headtime_units::{Extent, Lba, Nanos, Sectors};

use crate::arrivals::{Arrivals, Interarrival, ThinkTime};
use crate::check::Check;
use crate::error::StreamFault;
use crate::mix::Mix;
use crate::order::Order;
use crate::place::AddressPattern;
use crate::process::Process;
use crate::sizes::Sizes;

/// One stream of requests. [`StreamConfig::closed`] and [`StreamConfig::open`] start from 4 KiB
/// random reads of the whole drive.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamConfig {
    /// The arrival times of requests.
    pub arrivals: Arrivals,
    /// The operations.
    pub mix: Mix,
    /// The sizes.
    pub sizes: Sizes,
    /// The sizes of writes, where they differ.
    pub write_sizes: Option<Sizes>,
    /// The sectors that requests access; `None` for the whole drive.
    pub range: Option<Extent>,
    /// The distribution of start addresses over the range.
    pub place: AddressPattern,
    /// The alignment of start addresses.
    pub alignment: Alignment,
    /// The order of requests.
    pub order: Order,
    /// The number of runs that the clients continue: client *n* continues run *n* modulo this.
    /// `None`: one run for each client.
    pub positions: Option<u32>,
    /// True if reads and writes continue separate runs. All operations but reads count as writes.
    pub separate_runs: bool,
    /// The deadline of each request, counted from its arrival.
    pub deadline: Option<Nanos>,
    /// The start of the stream, and the origin of its times.
    pub start: Nanos,
    /// The end: nothing arrives then or later. `None`: never.
    pub stop: Option<Nanos>,
    /// The maximum number of requests. `None`: no limit.
    pub requests: Option<u64>,
    /// The number of bytes after which the stream ends. `None`: no limit.
    pub bytes: Option<u64>,
    /// The number of writes after which a flush follows, besides those of the mix. `None`: never.
    pub flush_every: Option<u64>,
    /// The processes of a stream of processes. Operations, sizes of writes, alignment, addresses
    /// and order do not apply to them.
    pub process: Option<Process>,
}

/// The alignment of start addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Multiples of the size where there is one; of the multiple, or of the greatest common
    /// divisor, where there are many.
    Size,
    /// Multiples of a number of bytes, which are whole sectors.
    Bytes(u64),
    /// Any sector.
    Sector,
}

impl StreamConfig {
    /// A closed loop of `clients` that do not think: 4 KiB random reads of the whole drive, aligned
    /// to their size.
    #[must_use]
    pub fn closed(clients: u32) -> Self {
        Self::with_arrivals(Arrivals::Closed { clients, think: ThinkTime::None })
    }

    /// An open loop, otherwise as [`StreamConfig::closed`].
    #[must_use]
    pub fn open(interarrival: Interarrival) -> Self {
        Self::with_arrivals(Arrivals::Open(interarrival))
    }

    fn with_arrivals(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            mix: Mix::reads(1.0),
            sizes: Sizes::Fixed { bytes: 4_096 },
            write_sizes: None,
            range: None,
            place: AddressPattern::Uniform,
            alignment: Alignment::Size,
            order: Order::Random,
            positions: None,
            separate_runs: false,
            deadline: None,
            start: Nanos::ZERO,
            stop: None,
            requests: None,
            bytes: None,
            flush_every: None,
            process: None,
        }
    }

    /// The range on a drive of `capacity`.
    pub(crate) fn range_on(&self, capacity: Sectors) -> Result<Extent, StreamFault> {
        let range = self.range.unwrap_or(Extent::new(Lba::new(0), capacity));
        if range.len.is_zero() || range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(StreamFault::Range { range, capacity });
        }
        Ok(range)
    }

    /// Checks deadline, end and limits.
    pub(crate) fn check_limits(&self, check: &Check) -> Result<(), StreamFault> {
        if self.deadline.is_some_and(Nanos::is_zero) {
            return Err(check.value(
                "deadline",
                "0",
                "a time above 0",
                "leave it out for requests without a deadline",
            ));
        }
        if let Some(stop) = self.stop.filter(|stop| *stop <= self.start) {
            return Err(check.value(
                "stop",
                stop,
                alloc::format!("later than the start, {}", self.start),
                "raise stop, or leave it out",
            ));
        }
        check.some("requests", self.requests, "leave it out for a stream without a limit")?;
        check.some("bytes", self.bytes, "leave it out for a stream without a limit")?;
        check.some("flush_every", self.flush_every, "leave it out for no flushes")?;
        check.some(
            "positions",
            self.positions.map(u64::from),
            "leave it out for one for each client",
        )
    }
}
