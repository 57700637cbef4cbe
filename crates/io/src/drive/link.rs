//! The connection of all handles of a drive to its engine: admits requests and sends messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use headtime_sched::{Op, Request, RequestId};
use headtime_units::{Instant, SectorSize, Sectors};

use crate::engine::mailbox::{
    ActiveRequest, Callback, DeadlineAnswer, HeldPermit, Mailbox, Message, OnDone, Permit, Position,
};
use crate::engine::runner::EngineRunner;
use crate::kernel_settings::KernelWatch;
use crate::model::ModelInUse;
use crate::options::WriteMode;
use crate::power::PowerProbe;
use crate::request::{Io, SubmitError};

/// The state that all handles of a drive share.
pub(crate) struct DriveLink {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) runner: Arc<EngineRunner>,
    pub(crate) capacity: Sectors,
    pub(crate) sector_size: SectorSize,
    pub(crate) physical_block: u32,
    pub(crate) divide_at: Option<Sectors>,
    pub(crate) kernel: Vec<KernelWatch>,
    pub(crate) power: Vec<Arc<dyn PowerProbe>>,
    pub(crate) model: ModelInUse,
    pub(crate) write_mode: WriteMode,
    pub(crate) next_id: AtomicU64,
    pub(crate) next_scan: AtomicU32,
}

impl DriveLink {
    /// Validates a request and reserves its share of the drive's bounds.
    pub(crate) fn admit(&self, io: &Io) -> Result<Permit, SubmitError> {
        self.mailbox.admit(self.check(io)?)
    }

    /// Validates a request: returns the bytes that it reads or carries, which the drive can hold.
    pub(crate) fn check(&self, io: &Io) -> Result<u64, SubmitError> {
        let bytes = self.bytes_moved(io)?;
        let max_bytes = self.mailbox.capacity.max_bytes();
        if bytes > max_bytes {
            return Err(SubmitError::TooLarge { bytes, max_bytes });
        }
        Ok(bytes)
    }

    /// Sends an admitted request to the engine. Its deadline counts from `submitted`; `answer` is
    /// the place for the answer to it, if it asks for one and the caller reads it.
    pub(crate) fn submit(
        &self,
        io: Io,
        permit: Permit,
        submitted: Instant,
        answer: Option<&DeadlineAnswer>,
        on_done: OnDone,
    ) -> Result<RequestId, SubmitError> {
        let (id, position) = self.queue(io, permit, submitted, answer, on_done)?;
        self.runner.process(position);
        Ok(id)
    }

    /// Queues an admitted request for the engine; [`EngineRunner::process`] comes next. Returns its
    /// id and its position.
    pub(crate) fn queue(
        &self,
        io: Io,
        permit: Permit,
        submitted: Instant,
        answer: Option<&DeadlineAnswer>,
        on_done: OnDone,
    ) -> Result<(RequestId, Position), SubmitError> {
        let id = RequestId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let durable = self.write_mode == WriteMode::Durable && io.op.changes_sectors();
        let request = Request {
            id,
            volume: io.volume,
            class: io.class,
            stream: io.stream,
            op: io.op,
            extent: io.extent,
            fua: (io.fua && io.op.changes_sectors()) || durable,
            deadline: io.deadline.map(|span| submitted + span),
        };
        let answer =
            io.if_infeasible.map(|otherwise| (otherwise, answer.cloned().unwrap_or_default()));
        let on_done = Callback::new(on_done);
        let permit = HeldPermit::Own(permit);
        let active = ActiveRequest::new(request, io.priority, answer, io.data, on_done, permit);
        match self.mailbox.send(Message::Submit(active)) {
            Ok(position) => Ok((id, position)),
            Err(returned) => {
                if let Message::Submit(ActiveRequest { on_done: Some(on_done), .. }) = returned {
                    on_done.forget();
                }
                Err(SubmitError::Closed)
            }
        }
    }

    /// Withdraws a request. A closing drive finishes or fails all requests by itself, so the
    /// message may be lost.
    pub(crate) fn cancel(&self, id: RequestId) {
        drop(self.runner.send(Message::Cancel(id)));
    }

    /// Sends a message that is no request.
    pub(crate) fn send(&self, message: Message) -> Result<(), SubmitError> {
        self.runner.send(message).map_err(|_returned| self.refusal())
    }

    /// The reason why a message was not taken.
    pub(crate) fn refusal(&self) -> SubmitError {
        if self.mailbox.is_closing() { SubmitError::Closed } else { self.mailbox.full() }
    }

    /// # Panics
    /// On the engine's own thread, which would wait for itself.
    pub(crate) fn expect_not_a_callback(&self) {
        assert!(
            !self.mailbox.on_engine_thread(),
            "a completion callback cannot wait for another request; submit it instead"
        );
    }

    /// Validates a request and returns the bytes that it reads or carries.
    fn bytes_moved(&self, io: &Io) -> Result<u64, SubmitError> {
        let Io { op, extent, .. } = *io;
        if extent.len.is_zero() != (op == Op::Flush) {
            return Err(SubmitError::WrongLength { op, len: extent.len });
        }
        let on_drive = extent.checked_end().is_some_and(|end| end.get() <= self.capacity.get());
        if op != Op::Flush && !on_drive {
            return Err(SubmitError::OutOfRange { extent, capacity: self.capacity });
        }
        let moved = if matches!(op, Op::Read | Op::Write) {
            self.sector_size.bytes_of(extent.len)
        } else {
            0
        };
        let (got, expected) = (io.data.len() as u64, if op == Op::Write { moved } else { 0 });
        if got == expected {
            Ok(moved)
        } else {
            Err(SubmitError::WrongData { op, extent, got, expected })
        }
    }
}

impl std::fmt::Debug for DriveLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriveLink").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
