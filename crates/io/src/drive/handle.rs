//! The interface to a running drive: [`DriveHandle`], which any thread may hold and clone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headtime_sched::{FillSettings, RequestId, ShareChange, ShareRefusal, StreamId};
use headtime_units::{Extent, SectorSize, Sectors};

use crate::clock::RealClock;
use crate::drive::link::DriveLink;
use crate::drive::pending::{Pending, StartWhenRoom};
use crate::drive::scan_feed::ScanFeed;
use crate::drive_identity::DriveIdentity;
use crate::engine::mailbox::{Message, OnDone};
use crate::engine::scan_queue::{ScanQueue, ScanStart, WriteMarks};
use crate::engine::slow::SlowRequest;
use crate::model::ModelInUse;
use crate::options::PolicyChoice;
use crate::request::{Io, IoDone, IoError, SubmitError, UnalignedBytes};
use crate::snapshot::DriveSnapshot;
use crate::tuning::Tuning;

/// Submits requests to an open drive.
///
/// Outlives the [`Drive`](crate::Drive): after that was closed, everything answers
/// [`SubmitError::Closed`].
#[derive(Clone)]
pub struct DriveHandle {
    pub(crate) link: Arc<DriveLink>,
}

/// The reason why the shares of volumes were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeSharesError {
    /// The scheduler does not allow it; nothing has changed.
    #[error(transparent)]
    Refused(#[from] ShareRefusal),
    /// The drive is closing or overwhelmed; nothing has changed.
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
    /// The engine does not answer, or failed; the change may still be made.
    #[error("the drive's engine does not answer; its message is in the log")]
    NoAnswer,
}

/// The maximum time to wait for the engine, much longer than an iteration takes.
const SHARES_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

impl DriveHandle {
    /// The drive's size in logical sectors.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.link.capacity
    }

    /// The size of a logical sector: the unit of every extent.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        self.link.sector_size
    }

    /// Bytes of a physical sector or block: smaller or unaligned writes may cost the drive a read
    /// before.
    #[must_use]
    pub fn physical_block(&self) -> u32 {
        self.link.physical_block
    }

    /// The sectors of `len` bytes from byte `offset` of the drive; whether they lie on the drive is
    /// found out when they are requested.
    ///
    /// # Errors
    /// [`UnalignedBytes`] when they are no whole sectors; the message names the sectors around
    /// them.
    pub fn extent_of_bytes(&self, offset: u64, len: u64) -> Result<Extent, UnalignedBytes> {
        UnalignedBytes::unless_sectors(self.sector_size(), offset, len)
    }

    /// Submits a request. `on_done` is called exactly once if it was taken, perhaps before this
    /// returns, and never if it was not.
    ///
    /// `on_done` runs on the engine's thread, or on a thread that submits a request while the
    /// engine is idle. It delays every other request of the drive: it should pass on the result and
    /// return, must not block, and may submit further requests.
    ///
    /// # Errors
    /// [`SubmitError::Full`] and [`SubmitError::TooLarge`] when the drive's bounds are reached,
    /// [`SubmitError::Closed`] when it is closing, the others when the request makes no sense;
    /// nothing has changed then.
    pub fn submit(
        &self,
        io: Io,
        on_done: impl FnOnce(IoDone) + Send + 'static,
    ) -> Result<RequestId, SubmitError> {
        self.submit_boxed(io, Box::new(on_done))
    }

    /// The same as [`DriveHandle::submit`], for a callback that is boxed already.
    ///
    /// # Errors
    /// As [`DriveHandle::submit`].
    pub fn submit_boxed(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        let permit = self.link.admit(&io)?;
        self.link.submit(io, permit, RealClock.now(), on_done)
    }

    /// Starts a request, to be awaited or waited for.
    ///
    /// # Errors
    /// As [`DriveHandle::submit`].
    pub fn start(&self, io: Io) -> Result<Pending, SubmitError> {
        Pending::start(&self.link, &io, RealClock.now())
    }

    /// Starts a request as soon as the drive has room for it. Await the result, or call
    /// [`wait`](StartWhenRoom::wait). Waiting requests are served in order of arrival. A deadline
    /// counts from now, so it includes the time spent waiting for room.
    pub fn start_when_room(&self, io: Io) -> StartWhenRoom {
        StartWhenRoom::new(Arc::clone(&self.link), io)
    }

    /// Submits a request and waits until it is over; a refused one is over at once, with
    /// [`IoError::NotTaken`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    #[must_use]
    pub fn run(&self, io: Io) -> IoDone {
        self.link.expect_not_a_callback();
        match self.start(io) {
            Ok(pending) => pending.wait(),
            Err(refused) => IoDone { finished: None, result: Err(IoError::NotTaken(refused)) },
        }
    }

    /// Takes a request back, if it is not over yet: its callback gets [`IoError::Cancelled`]. When
    /// it is at the drive already, it still happens there. A request that is over, or was never
    /// taken, is left alone.
    pub fn cancel(&self, id: RequestId) {
        self.link.cancel(id);
    }

    /// Changes the policy while running; what is queued stays queued, what is at the drive stays
    /// there.
    ///
    /// # Errors
    /// [`SubmitError::Closed`] when the drive is closing, [`SubmitError::Full`] when the engine has
    /// thousands of changes to look at before.
    pub fn set_policy(&self, policy: PolicyChoice) -> Result<(), SubmitError> {
        self.tune(Tuning { policy: Some(policy), ..Tuning::default() })
    }

    /// Changes several things at once while running: no request is served with one changed and not
    /// the other. What is queued stays queued.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`]; nothing is changed then.
    pub fn tune(&self, tuning: Tuning) -> Result<(), SubmitError> {
        self.link.send(Message::Tune(Box::new(tuning)))
    }

    /// Returns the drive model in use.
    #[must_use]
    pub fn model(&self) -> &ModelInUse {
        &self.link.model
    }

    /// The usual settings of reading for scans; what cannot be read is narrowed down to this
    /// drive's physical block.
    #[must_use]
    pub fn usual_fill(&self) -> FillSettings {
        let block = u64::from(self.physical_block() / self.sector_size().bytes()).max(1);
        FillSettings { retry_grain: Sectors::new(block), ..FillSettings::default() }
    }

    /// Reports that no request of `stream` will follow, so that no policy waits for one.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn stream_ended(&self, stream: StreamId) -> Result<(), SubmitError> {
        self.link.send(Message::StreamEnded(stream))
    }

    /// Changes what reading for scans may cost and how it is done, also while scans run.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn set_fill(&self, settings: FillSettings) -> Result<(), SubmitError> {
        self.link.send(Message::SetFill(settings))
    }

    /// Changes the shares and limits of volumes. Applies all of `changes` or none, before this
    /// returns. The policy decides whether shares are enforced ([`DriveSnapshot::goes_by_shares`]).
    ///
    /// # Errors
    /// See [`ChangeSharesError`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn change_shares(&self, changes: Vec<ShareChange>) -> Result<(), ChangeSharesError> {
        self.link.expect_not_a_callback();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.link.send(Message::ChangeShares(changes, answer))?;
        match answered.recv_timeout(SHARES_PATIENCE) {
            Ok(changed) => Ok(changed?),
            Err(_) => Err(ChangeSharesError::NoAnswer),
        }
    }

    /// Returns the last requests that were slow or missed their deadline, the latest last, with the
    /// parts of their response times.
    ///
    /// # Errors
    /// [`ChangeSharesError::NotTaken`], [`ChangeSharesError::NoAnswer`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        self.link.expect_not_a_callback();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.link.send(Message::Slow(answer))?;
        answered.recv_timeout(SHARES_PATIENCE).map_err(|_| ChangeSharesError::NoAnswer)
    }

    /// Starts a scan. Its sectors are read in the gaps between requests and while the drive is
    /// idle, and arrive in the feed.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    ///
    /// # Panics
    /// When the requested sectors belong to a drive of another size.
    pub fn start_scan(&self, start: ScanStart) -> Result<ScanFeed, SubmitError> {
        assert_eq!(
            start.requested.capacity(),
            self.capacity(),
            "a scan requests sectors of a drive of another size"
        );
        let number = self.link.next_scan.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(ScanQueue::new(number, &start));
        self.link
            .send(Message::ScanStart { queue: Arc::clone(&queue), requested: start.requested })?;
        Ok(ScanFeed { queue, link: Arc::clone(&self.link) })
    }

    /// Marks written regions from now on, until no other reference to the marks is left.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn watch_writes(&self, marks: &Arc<WriteMarks>) -> Result<(), SubmitError> {
        self.link.send(Message::Watch(Arc::clone(marks)))
    }

    /// Sets the identity that distinguishes the drive from others of its size. When a lost drive
    /// returns, only the reads of this check are sent until it is identified. Another drive in its
    /// place counts as disconnected. Only an NBD drive is ever opened again.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn identify_by(&self, identity: DriveIdentity) -> Result<(), SubmitError> {
        self.link.send(Message::IdentifyBy(Arc::new(identity)))
    }

    /// Returns a snapshot of the drive, within some tens of microseconds, at most 200 ms.
    #[must_use]
    pub fn snapshot(&self) -> DriveSnapshot {
        self.link.mailbox.snapshot()
    }
}

impl fmt::Debug for DriveHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveHandle").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
