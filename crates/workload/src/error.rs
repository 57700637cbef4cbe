//! [`WorkloadError`]: the errors of a configuration of streams.

use alloc::string::String;

use headtime_units::{Extent, Sectors};

/// The reason why a workload was refused. Streams are numbered from 0 in the order of the
/// configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// No stream at all.
    #[error("a workload needs at least one stream; add one")]
    NoStreams,
    /// More clients than are accepted.
    #[error(
        "the streams have {clients} clients together, more than the {max} that are accepted; \
            lower the populations"
    )]
    TooManyClients {
        /// The configured number of clients.
        clients: u64,
        /// The maximum.
        max: u32,
    },
    /// One stream was refused.
    #[error("stream {stream}: {fault}")]
    Stream {
        /// The number of the stream.
        stream: usize,
        /// The reason.
        fault: StreamFault,
    },
}

/// The reason why a stream was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StreamFault {
    /// A value outside its bounds.
    #[error("{key} is {value}, expected {expected}; {remedy}")]
    Value {
        /// The setting.
        key: &'static str,
        /// The value.
        value: String,
        /// The accepted values.
        expected: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The range does not lie on the drive.
    #[error(
        "range {range} does not lie on the drive, which has {capacity}; keep it within LBA 0..{}",
        capacity.get()
    )]
    Range {
        /// The configured range.
        range: Extent,
        /// The drive's size.
        capacity: Sectors,
    },
    /// The range has no aligned place for the largest request.
    #[error(
        "{range} has no place for {largest} aligned to {alignment}; widen the range, or lower size \
            or alignment"
    )]
    RangeTooSmall {
        /// The range.
        range: Extent,
        /// The largest request.
        largest: Sectors,
        /// The alignment of start addresses.
        alignment: Sectors,
    },
}
