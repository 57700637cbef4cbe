//! The requests of an application to a drive and their results: [`Io`], [`IoDone`], and the reasons
//! for a refusal or failure.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headtime_sched::{ClassId, Finished, IfInfeasible, IoPriority, Op, StreamId, VolumeId};
use headtime_units::{Extent, Nanos, SectorSize, Sectors};

/// One request to a drive.
#[derive(Clone, Debug)]
pub struct Io {
    /// The volume that is charged for it.
    pub volume: VolumeId,
    /// The class of the volume.
    pub class: ClassId,
    /// The process or connection that it comes from.
    pub stream: StreamId,
    /// The operation.
    pub op: Op,
    /// The sectors by the drive's addresses; empty for [`Op::Flush`] and only for it.
    pub extent: Extent,
    /// Makes a write or zero durable before it completes (force unit access).
    pub fua: bool,
    /// The time from its submission within which it should complete.
    pub deadline: Option<Nanos>,
    /// Asks whether the deadline is guaranteed, and tells what to do if it is not: see
    /// [`Pending::answer`](crate::Pending::answer).
    pub if_infeasible: Option<IfInfeasible>,
    /// The I/O priority. A request without `deadline` gets the deadline of its priority from the
    /// drive's table of deadlines.
    pub priority: Option<IoPriority>,
    /// The data of an [`Op::Write`], exactly as long as the extent; empty for everything else.
    pub data: Bytes,
}

impl Io {
    /// A request of volume 0, stream 0, without deadline; set the fields that differ.
    #[must_use]
    pub fn new(op: Op, extent: Extent) -> Self {
        Self {
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(0),
            op,
            extent,
            fua: false,
            deadline: None,
            if_infeasible: None,
            priority: None,
            data: Bytes::new(),
        }
    }

    /// Reads `extent`.
    #[must_use]
    pub fn read(extent: Extent) -> Self {
        Self::new(Op::Read, extent)
    }

    /// Writes `data`, which must be as long as `extent`.
    #[must_use]
    pub fn write(extent: Extent, data: Bytes) -> Self {
        Self { data, ..Self::new(Op::Write, extent) }
    }

    /// Fills `extent` with zeroes, which are not moved to the drive.
    #[must_use]
    pub fn zero(extent: Extent) -> Self {
        Self::new(Op::Zero, extent)
    }

    /// Discards `extent`. Its content is undefined afterwards.
    #[must_use]
    pub fn discard(extent: Extent) -> Self {
        Self::new(Op::Discard, extent)
    }

    /// Makes every write durable that completed before.
    #[must_use]
    pub fn flush() -> Self {
        Self::new(Op::Flush, Extent::default())
    }

    /// The same, with a deadline `within` this time from its submission. The deadline is not
    /// guaranteed ([`Io::guaranteed`]): see [`IoDone::missed_deadline`].
    #[must_use]
    pub fn deadline(self, within: Duration) -> Self {
        let within = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        Self { deadline: Some(Nanos::from_ns(within)), ..self }
    }

    /// The same, with its deadline guaranteed if that is possible. Otherwise it is served as if it
    /// had no deadline, or fails with [`IoError::Infeasible`], or [`SubmitError::NoDeadline`] if it
    /// has no deadline. Only policies with worst cases, `cds-scan` and `ds-scan`, guarantee
    /// anything.
    #[must_use]
    pub fn guaranteed(self, if_infeasible: IfInfeasible) -> Self {
        Self { if_infeasible: Some(if_infeasible), ..self }
    }

    /// The same, durable before it completes.
    #[must_use]
    pub fn fua(self) -> Self {
        Self { fua: true, ..self }
    }

    /// The same, with this I/O priority.
    #[must_use]
    pub fn priority(self, priority: IoPriority) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// The same, charged to this volume.
    #[must_use]
    pub fn volume(self, volume: VolumeId) -> Self {
        Self { volume, ..self }
    }

    /// The same, in this class of its volume.
    #[must_use]
    pub fn class(self, class: ClassId) -> Self {
        Self { class, ..self }
    }

    /// The same, from this process or connection.
    #[must_use]
    pub fn stream(self, stream: StreamId) -> Self {
        Self { stream, ..self }
    }
}

impl IoDone {
    /// Returns true if the request completed after its deadline. A request that was cancelled or
    /// given up has not completed, so it missed none.
    #[must_use]
    pub fn missed_deadline(&self) -> bool {
        self.finished.as_ref().is_some_and(Finished::missed)
    }
}

/// A range of bytes that is not a whole number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{len} bytes from byte {offset} are not whole sectors of {sector_bytes} bytes; the \
        surrounding sectors are {} bytes from byte {}",
    self.around().1, self.around().0
)]
pub struct UnalignedBytes {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
}

impl UnalignedBytes {
    pub(crate) fn unless_sectors(
        sector: SectorSize,
        offset: u64,
        len: u64,
    ) -> Result<Extent, Self> {
        let sectors = sector.sectors_of(offset).zip(sector.sectors_of(len));
        let extent = sectors.map(|(start, len)| Extent::from_numbers(start.get(), len.get()));
        extent.ok_or(Self { offset, len, sector_bytes: sector.bytes() })
    }

    /// Offset and length of the smallest run of whole sectors that holds the bytes.
    fn around(&self) -> (u64, u64) {
        let sector = u64::from(self.sector_bytes);
        let (first, end) =
            (self.offset / sector, self.offset.saturating_add(self.len).div_ceil(sector));
        (first * sector, (end - first).saturating_mul(sector))
    }
}

/// A finished request.
#[derive(Debug)]
pub struct IoDone {
    /// The scheduler's record. `None` if the request was cancelled or given up before the drive
    /// reported it.
    pub finished: Option<Finished>,
    /// The data of a read (empty for other requests), or the error.
    pub result: Result<Bytes, IoError>,
}

/// The reason why an accepted request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The system reported an error for this request's own bytes.
    #[error(
        "{} of {extent} failed: {} (os error {errno}); {}",
        op.name(), error_text(*errno), remedy(*errno)
    )]
    Os {
        /// The operation.
        op: Op,
        /// The request's sectors.
        extent: Extent,
        /// The system's error code, such as 28 for a full file system.
        errno: i32,
    },
    /// The drive reported an error of its own.
    #[error("{} failed: {explanation}", what(*op, *extent))]
    Drive {
        /// The operation.
        op: Op,
        /// The request's sectors.
        extent: Extent,
        /// The nearest of the system's error codes.
        errno: i32,
        /// The cause and the remedy.
        explanation: Arc<str>,
    },
    /// The drive did not answer within
    /// [`DriveOptions::command_timeout`](crate::DriveOptions::command_timeout). A write that was
    /// sent to the drive may still happen at any later time. Until the drive has released the
    /// command, no overlapping request is sent.
    #[error("{} failed: {}", what(*op, *extent), timed_out(*limit, *sent))]
    TimedOut {
        /// The operation.
        op: Op,
        /// The request's sectors.
        extent: Extent,
        /// The exceeded limit.
        limit: Nanos,
        /// The request was sent to the drive.
        sent: bool,
    },
    /// The deadline cannot be guaranteed, and the caller accepts no less. Nothing was done.
    #[error(
        "its deadline in {within} cannot be guaranteed (the policy is {policy}; only cds-scan and \
            ds-scan guarantee deadlines); allow more time, wait for completions, or accept best \
            effort"
    )]
    Infeasible {
        /// The time from the submission to the deadline.
        within: Nanos,
        /// The policy in use.
        policy: &'static str,
    },
    /// The request was cancelled. If it was at the drive already, each of its sectors may or may
    /// not have changed.
    #[error("the request was cancelled; submit it again if it is still needed")]
    Cancelled,
    /// The drive was closed before the request finished. A write may or may not have happened.
    #[error(
        "the drive was closed before the request finished; open it again and repeat the request"
    )]
    Closed,
    /// The engine of the drive failed because of a defect. A write may or may not have happened.
    #[error("the engine of the drive failed; see its message in the log, and open the drive again")]
    EngineFailed,
    /// The request was refused.
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
}

impl IoError {
    /// The nearest system error code, for protocols that answer with one.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let nearest = match self {
            Self::Os { errno, .. } | Self::Drive { errno, .. } => return *errno,
            Self::TimedOut { .. } => rustix::io::Errno::TIMEDOUT,
            Self::Infeasible { .. } => rustix::io::Errno::TIME,
            Self::Cancelled => rustix::io::Errno::CANCELED,
            Self::Closed => rustix::io::Errno::SHUTDOWN,
            Self::EngineFailed => rustix::io::Errno::IO,
            Self::NotTaken(SubmitError::Full { .. }) => rustix::io::Errno::AGAIN,
            Self::NotTaken(SubmitError::Closed) => rustix::io::Errno::SHUTDOWN,
            Self::NotTaken(_) => rustix::io::Errno::INVAL,
        };
        nearest.raw_os_error()
    }

    /// Returns whether this is the error of a flush before which the drive may have lost writes
    /// that it had answered.
    #[must_use]
    pub fn is_loss_of_writes(&self) -> bool {
        matches!(self, Self::Drive { op: Op::Flush, explanation, .. }
            if **explanation == *LOST_WRITES)
    }
}

/// The reason why a request was refused. Its callback is never called, except with
/// [`SubmitError::NoDeadline`], which the engine finds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The drive has reached its bound on requests or bytes.
    #[error(
        "the drive is full: it has {requests} requests of {bytes} bytes (at most {max_requests} \
            requests and {max_bytes} bytes); wait for completions, or raise the bounds"
    )]
    Full {
        /// The number of requests.
        requests: usize,
        /// The bytes that they read or write.
        bytes: u64,
        /// The bound on requests.
        max_requests: usize,
        /// The bound on bytes.
        max_bytes: u64,
    },
    /// The request is larger than the bound on bytes.
    #[error(
        "a request of {bytes} bytes is larger than the bound of {max_bytes} bytes; split it, or \
            raise the bound"
    )]
    TooLarge {
        /// The request's bytes.
        bytes: u64,
        /// The bound on bytes.
        max_bytes: u64,
    },
    /// The extent does not lie on the drive.
    #[error(
        "{extent} is not on the drive, which has {capacity}; keep requests within LBA 0..{}",
        capacity.get()
    )]
    OutOfRange {
        /// The extent requested.
        extent: Extent,
        /// The drive's size.
        capacity: Sectors,
    },
    /// A read or write without sectors, or a flush with some.
    #[error(
        "a {} request of {len} is not valid; flush takes no sectors, all others at least one",
        op.name()
    )]
    WrongLength {
        /// The operation.
        op: Op,
        /// The length requested.
        len: Sectors,
    },
    /// The length of the data does not match the operation.
    #[error(
        "a {} request of {extent} has {got} bytes of data; expected {expected}",
        op.name()
    )]
    WrongData {
        /// The operation.
        op: Op,
        /// The extent.
        extent: Extent,
        /// Bytes given.
        got: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// A guarantee was requested for a request without a deadline, its own or by its priority.
    #[error(
        "a guarantee was requested and the request has no deadline; give it a deadline, or accept \
            best effort"
    )]
    NoDeadline,
    /// The drive is closing or closed.
    #[error("the drive is closed; open it again")]
    Closed,
}

fn what(op: Op, extent: Extent) -> String {
    if op == Op::Flush { "flush".to_owned() } else { format!("{} of {extent}", op.name()) }
}

fn timed_out(limit: Nanos, sent: bool) -> String {
    if sent {
        format!(
            "the drive did not answer within {limit}, and a change may or may not happen; check \
                the drive, then repeat the request"
        )
    } else {
        format!(
            "the drive did not answer earlier commands within {limit}, and this request was not \
                sent; check the drive, then repeat the request"
        )
    }
}

fn error_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// The remedies for common errors.
fn remedy(errno: i32) -> &'static str {
    match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT => {
            "make room on the file system that holds the backing file and repeat the request"
        }
        rustix::io::Errno::FBIG => {
            "raise the file size limit of the process (ulimit -f) or use a file system with larger \
                files"
        }
        rustix::io::Errno::NOENT => {
            "the backing file was removed while in use; copy what is needed through this drive \
                before closing it"
        }
        rustix::io::Errno::BADF | rustix::io::Errno::ROFS | rustix::io::Errno::PERM => {
            "the backing file cannot be written; check its mount and attributes"
        }
        _ => "the system log of the machine (dmesg) has the cause",
    }
}

/// The explanation of a flush before which the drive may have lost writes that it had answered.
pub(crate) const LOST_WRITES: &str = "the drive may have lost writes that had been answered and \
    were not flushed, because the connection to it was lost or another volume's flush failed; \
    check or write again what was written since the flush before";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_request_and_the_remedy() {
        let error = IoError::Os { op: Op::Write, extent: Extent::from_numbers(8, 8), errno: 28 };
        let message = error.to_string();
        assert!(
            message.contains("write of LBA 8..+8")
                && message.contains("no space left")
                && message.contains("make room"),
            "{message}"
        );
        assert_eq!(error.errno(), 28);
    }
}
