//! What the server needs of a drive: [`Disk`], implemented by the engine's handle, and by tests
//! that want to decide themselves when and how a request ends.

use headtime_io::{ChangeSharesError, DriveHandle, Io, IoDone, IoError, SlowRequest, SubmitError};
use headtime_sched::{RequestId, ShareChange, ShareReport};

use crate::volumes::DriveShape;

/// Called once when a request is over, on the drive's own thread: hands the result on and returns.
pub use headtime_io::OnDone;

/// A drive behind its scheduler.
pub trait Disk: Send + Sync {
    /// Its sectors.
    fn shape(&self) -> DriveShape;

    /// Bytes of a physical sector: smaller or unaligned writes may cost a read before.
    fn physical_block(&self) -> u32;

    /// Submits a request.
    ///
    /// # Errors
    /// When it is not taken; `on_done` is never called then.
    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError>;

    /// Takes a request back if it is still queued; its `on_done` is called in any case.
    fn cancel(&self, id: RequestId);

    /// Changes what volumes are promised, all of `changes` or none, while requests wait. A disk
    /// without a scheduler has nobody to tell.
    ///
    /// # Errors
    /// Why nothing was changed.
    fn change_shares(&self, changes: Vec<ShareChange>) -> Result<(), ChangeSharesError> {
        let _nobody_to_tell = changes;
        Ok(())
    }

    /// What of the drive's time each tenant is promised and has, and whether anybody goes by it.
    fn shares(&self) -> (Vec<ShareReport>, bool) {
        (Vec::new(), false)
    }

    /// The last requests that were slow or missed their deadline, the latest last. A disk without a
    /// scheduler remembers none.
    ///
    /// # Errors
    /// Why nothing is answered.
    fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        Ok(Vec::new())
    }

    /// Submits a request and waits until it is over. Not from an `on_done`, and not from a task
    /// that others wait for.
    fn run(&self, io: Io) -> IoDone {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let taken = self.submit(
            io,
            Box::new(move |done| {
                // The receiver waits below until this was sent.
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

    fn physical_block(&self) -> u32 {
        Self::physical_block(self)
    }

    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        self.submit_boxed(io, on_done)
    }

    fn cancel(&self, id: RequestId) {
        Self::cancel(self, id);
    }

    fn change_shares(&self, changes: Vec<ShareChange>) -> Result<(), ChangeSharesError> {
        Self::change_shares(self, changes)
    }

    fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        Self::slow_requests(self)
    }

    fn shares(&self) -> (Vec<ShareReport>, bool) {
        let snapshot = self.snapshot();
        (snapshot.shares, snapshot.goes_by_shares)
    }
}
