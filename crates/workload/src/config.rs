//! What a workload consists of: [`StreamConfig`].
//!
//! A stream is one kind of traffic: a database's random reads, a backup's sequential run. Several
//! streams make a workload. What a stream asks, how long, where, in which order and when are
//! independent of each other, and each has a file: [`Mix`], [`Sizes`], [`AddressPattern`],
//! [`Order`], [`Arrivals`]. Sizes are bytes, as people write them, and become sectors when the
//! workload is built for a drive.

use headtime_units::{Extent, Nanos};

use crate::arrivals::{Arrivals, Interarrival, ThinkTime};
use crate::mix::Mix;
use crate::order::Order;
use crate::place::AddressPattern;
use crate::sizes::Sizes;

/// One stream of requests. [`StreamConfig::closed`] and [`StreamConfig::open`] start from 4 KiB
/// random reads of the whole drive.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamConfig {
    /// When requests come.
    pub arrivals: Arrivals,
    /// What they do.
    pub mix: Mix,
    /// How long they are.
    pub sizes: Sizes,
    /// How long writes are, where they differ from all else.
    pub write_sizes: Option<Sizes>,
    /// The sectors they lie in; `None` for the whole drive.
    pub range: Option<Extent>,
    /// Where in the range they start.
    pub place: AddressPattern,
    /// What starts are multiples of.
    pub alignment: Alignment,
    /// How they follow each other.
    pub order: Order,
    /// How many places the clients continue from: client *n* goes on where the last of the clients
    /// *n* modulo this stopped. `None`: each from its own.
    pub positions: Option<u32>,
    /// Whether reads and writes each continue from places of their own. What is no read counts as a
    /// write.
    pub separate_runs: bool,
    /// The deadline of each request, counted from its arrival.
    pub deadline: Option<Nanos>,
    /// When the stream begins: what its times count from.
    pub start: Nanos,
    /// When it stops: nothing arrives then or later. `None`: never.
    pub stop: Option<Nanos>,
    /// It stops after so many requests. `None`: never.
    pub requests: Option<u64>,
    /// It stops once it has asked for so many bytes or more. `None`: never.
    pub bytes: Option<u64>,
    /// A flush follows every so many writes, beside those of the mix. `None`: never.
    pub flush_every: Option<u64>,
}

/// Which addresses requests start at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Multiples of the size where there is one; of the multiple, or of the greatest common
    /// divisor, where there are many.
    Size,
    /// Multiples of so many bytes, which are whole sectors.
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
        }
    }
}
