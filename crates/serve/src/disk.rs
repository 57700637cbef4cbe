//! What the server needs of a drive: [`Disk`], implemented by the engine's handle, and by tests that want to decide themselves when and how a request ends.

use headtime_io::{DriveHandle, Io, IoDone, IoError, SubmitError};
use headtime_sched::RequestId;

use crate::volumes::DriveShape;

/// Called once when a request is over, on the drive's own thread: hands the result on and returns.
pub type OnDone = Box<dyn FnOnce(IoDone) + Send>;

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

    /// Submits a request and waits until it is over. Not from an `on_done`, and not from a task that others wait for.
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
        Self::submit(self, io, on_done)
    }

    fn cancel(&self, id: RequestId) {
        Self::cancel(self, id);
    }
}
