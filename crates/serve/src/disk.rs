//! [`Disk`]: the server's interface to a drive. The engine's handle implements it, and so do tests
//! that control when and how a request ends.

use headtime_io::{ChangeSharesError, DriveHandle, Io, IoDone, IoError, SlowRequest, SubmitError};
use headtime_sched::{RequestId, ShareChange, ShareReport, StreamId, VolumeId};
use headtime_units::Sectors;
use rustix::io::Errno;

use crate::volumes::DriveShape;

pub use headtime_io::OnDone;

/// Returns whether an error is that of a drive that is gone, as opposed to a medium error.
pub(crate) fn is_gone(errno: i32) -> bool {
    GONE.iter().any(|gone| gone.raw_os_error() == errno)
}

const GONE: [Errno; 7] = [
    Errno::NODEV,
    Errno::NXIO,
    Errno::NOTCONN,
    Errno::CONNRESET,
    Errno::TIMEDOUT,
    Errno::SHUTDOWN,
    Errno::NOMEDIUM,
];

/// A drive with its scheduler.
pub trait Disk: Send + Sync {
    /// The size of its sectors and their number.
    fn shape(&self) -> DriveShape;

    /// The length of stripes at whose ends requests are divided. A single drive has none.
    fn divide_at(&self) -> Option<Sectors> {
        None
    }

    /// Submits a request.
    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError>;

    /// Submits several requests; returns the results in the same order.
    fn submit_all(&self, batch: Vec<(Io, OnDone)>) -> Vec<Result<RequestId, SubmitError>> {
        batch.into_iter().map(|(io, on_done)| self.submit(io, on_done)).collect()
    }

    /// Cancels a request that is still queued; its `on_done` is called in any case.
    fn cancel(&self, id: RequestId);

    /// Reports that the connection of `stream` has ended. A disk without a scheduler ignores it, as
    /// does one that is gone.
    fn stream_ended(&self, stream: StreamId) {
        let _ = stream;
    }

    /// Sets the name of a volume in the drive's log. A disk without a log ignores it.
    fn name_volume(&self, volume: VolumeId, name: &str) {
        let _ignored = (volume, name);
    }

    /// Changes the terms of tenants while requests wait, all of `changes` or none. A disk without a
    /// scheduler ignores them.
    fn change_shares(&self, changes: Vec<ShareChange>) -> Result<(), ChangeSharesError> {
        let _ignored = changes;
        Ok(())
    }

    /// The terms and usage of each tenant, and whether the policy honors them.
    fn shares(&self) -> (Vec<ShareReport>, bool) {
        (Vec::new(), false)
    }

    /// The last requests that were slow or missed their deadline, the latest last. A disk without a
    /// scheduler keeps none.
    fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        Ok(Vec::new())
    }

    /// Submits a request and waits for its completion. Must not be called from an `on_done` or from
    /// an async task.
    fn run(&self, io: Io) -> IoDone {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let taken = self.submit(
            io,
            Box::new(move |done| {
                // The receiver waits below until this is sent.
                let _ = sender.send(done);
            }),
        );
        match taken {
            Ok(_) => receiver.recv().expect("a request that was taken is called back"),
            Err(refused) => IoDone { finished: None, result: Err(IoError::NotTaken(refused)) },
        }
    }
}

impl Disk for DriveHandle {
    fn shape(&self) -> DriveShape {
        DriveShape { sector: self.sector_size(), capacity: self.capacity() }
    }

    fn divide_at(&self) -> Option<Sectors> {
        Self::divide_at(self)
    }

    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        self.submit_boxed(io, on_done)
    }

    fn submit_all(&self, batch: Vec<(Io, OnDone)>) -> Vec<Result<RequestId, SubmitError>> {
        Self::submit_all(self, batch)
    }

    fn cancel(&self, id: RequestId) {
        Self::cancel(self, id);
    }

    fn stream_ended(&self, stream: StreamId) {
        // A drive that is gone waits for nothing.
        let _ = Self::stream_ended(self, stream);
    }

    fn name_volume(&self, volume: VolumeId, name: &str) {
        // A drive that is closing has no use for it.
        let _ = Self::name_volume(self, volume, name);
    }

    fn change_shares(&self, changes: Vec<ShareChange>) -> Result<(), ChangeSharesError> {
        Self::change_shares(self, changes)
    }

    fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        Self::slow_requests(self)
    }

    fn shares(&self) -> (Vec<ShareReport>, bool) {
        let snapshot = self.snapshot();
        (snapshot.shares, snapshot.enforces_shares)
    }
}
