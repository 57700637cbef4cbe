//! [`WorkloadError`]: the errors of a configuration of streams.

use alloc::string::String;

use headtime_units::{Extent, Sectors};

/// The reason why a workload was refused. Streams are numbered from 0 in the order of the
/// configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum WorkloadError {
    #[error("a workload needs at least one stream; add one")]
    NoStreams,
    #[error(
        "the streams have {clients} clients together, more than the {max} that are accepted; \
            lower the populations"
    )]
    TooManyClients { clients: u64, max: u32 },
    /// One stream was refused.
    #[error("stream {stream}: {fault}")]
    Stream { stream: usize, fault: StreamFault },
}

/// The reason why a stream was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum StreamFault {
    /// A value outside its bounds.
    #[error("{key} is {value}, expected {expected}; {remedy}")]
    Value { key: &'static str, value: String, expected: String, remedy: &'static str },
    #[error(
        "range {range} does not lie on the drive, which has {capacity}; keep it within LBA 0..{}",
        capacity.get()
    )]
    Range { range: Extent, capacity: Sectors },
    /// The range has no aligned place for the largest request.
    #[error(
        "{range} has no place for {largest} aligned to {alignment}; widen the range, or lower size \
            or alignment"
    )]
    RangeTooSmall { range: Extent, largest: Sectors, alignment: Sectors },
}
