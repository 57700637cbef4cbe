//! What a workload consists of: [`StreamConfig`] and its parts.
//!
//! A stream is one kind of traffic: a database's random reads, a backup's sequential run. Several streams make a workload. Sizes are bytes here, as
//! people write them, and become sectors when the workload is built for a drive.

use headtime_units::{Extent, Nanos};

/// One stream of requests. [`StreamConfig::closed`] and [`StreamConfig::open`] start from 4 KiB random reads of the whole drive.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamConfig {
    /// When requests come.
    pub arrivals: Arrivals,
    /// What they do.
    pub mix: Mix,
    /// How long they are.
    pub sizes: Sizes,
    /// The sectors they lie in; `None` for the whole drive.
    pub range: Option<Extent>,
    /// Where they start.
    pub alignment: Alignment,
    /// How they follow each other.
    pub order: Order,
    /// The deadline of each request, counted from its arrival.
    pub deadline: Option<Nanos>,
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// A closed loop: each client waits for its request, thinks, and asks again.
    Closed {
        /// How many clients, at least 1.
        clients: u32,
        /// How long each thinks.
        think: ThinkTime,
    },
    /// An open loop: requests come whether or not earlier ones are served.
    Open(Interarrival),
}

/// How long a client of a closed loop thinks between completion and next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkTime {
    /// Not at all: as many requests are always held as there are clients. All ask at once at the start.
    None,
    /// Always this long. The first requests are spread evenly over one think time, so that clients do not march in step.
    Constant(Nanos),
    /// Exponentially distributed with this mean, before the first request too.
    Exponential(Nanos),
}

/// The time between arrivals of an open loop. The first request comes one such time after the origin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interarrival {
    /// A Poisson process of so many requests a second.
    Poisson {
        /// The rate.
        per_second: f64,
    },
    /// One request in every span of this length.
    Constant(Nanos),
}

/// What requests do, as shares of all requests from 0 to 1; what is left over are writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Share of reads.
    pub reads: f64,
    /// Share of requests that write zeroes.
    pub zeroes: f64,
    /// Share of discards.
    pub discards: f64,
    /// Share of flushes.
    pub flushes: f64,
    /// Share of the *writes* (not of all requests) that demand force unit access.
    pub fua: f64,
}

/// How long requests are. Bytes must be whole sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All of one size.
    Fixed {
        /// The size in bytes.
        bytes: u64,
    },
    /// An exponential distribution rounded up to multiples, with the mean as given *after* rounding: 8 KiB in multiples of 4 KiB gives 4, 8, 12 … KiB with
    /// probability ½, ¼, ⅛ … (P2's OLTP). Anything larger than `most_bytes` becomes `most_bytes`, which lowers the mean by as much as it cuts off.
    Exponential {
        /// The mean in bytes, more than the multiple.
        mean_bytes: u64,
        /// What every size is a multiple of.
        multiple_bytes: u64,
        /// The largest size, a multiple too.
        most_bytes: u64,
    },
}

/// Which addresses requests start at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Multiples of the size, or of the multiple that exponential sizes are made of.
    Size,
    /// Multiples of so many bytes, which are whole sectors.
    Bytes(u64),
    /// Any sector.
    Sector,
}

/// How the requests of one client follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Each anywhere in the range, evenly distributed.
    Random,
    /// Runs of requests that abut, each run starting anywhere; geometrically distributed with this mean number of requests, at least 1. A run ends early at
    /// the end of the range.
    Runs {
        /// Mean requests of a run.
        mean_requests: f64,
    },
    /// Runs of exactly so many requests, at least 1 (P5: 1,024).
    FixedRuns {
        /// Requests of a run.
        requests: u64,
    },
    /// One run through the range and from its start again; clients start evenly spread over the range.
    Sequential,
}

impl StreamConfig {
    /// A closed loop of `clients` that do not think: 4 KiB random reads of the whole drive, aligned to their size.
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
            range: None,
            alignment: Alignment::Size,
            order: Order::Random,
            deadline: None,
        }
    }
}

impl Mix {
    /// Reads by this share, writes otherwise.
    #[must_use]
    pub const fn reads(share: f64) -> Self {
        Self { reads: share, zeroes: 0.0, discards: 0.0, flushes: 0.0, fua: 0.0 }
    }
}
