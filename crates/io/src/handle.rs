//! How the rest of the program talks to a drive: [`DriveHandle`], which any thread may hold and
//! clone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use headtime_sched::{FillSettings, Op, Request, RequestId, ShareChange, ShareRefusal};
use headtime_units::{Extent, Instant, SectorSize, Sectors};

use crate::believed::Believed;
use crate::clock::RealClock;
use crate::known_by::KnownBy;
use crate::mailbox::{Letter, Mailbox, OnDone, Place, Submission};
use crate::options::{PolicyChoice, WriteMode};
use crate::pending::{Pending, Slot, StartWhenRoom};
use crate::request::{Io, IoDone, IoError, SubmitError, UnalignedBytes};
use crate::scan::{FeedShared, ScanFeed, ScanStart, WriteMarks};
use crate::slow::SlowRequest;
use crate::snapshot::DriveSnapshot;
use crate::tuning::Tuning;
use crate::turns::Turns;

/// Submits requests to an open drive.
///
/// Outlives the [`Drive`](crate::Drive): after that was closed, everything answers
/// [`SubmitError::Closed`].
#[derive(Clone)]
pub struct DriveHandle {
    pub(crate) shared: Arc<Shared>,
}

/// Why what volumes are promised was not changed.
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

/// Much longer than a turn of the engine takes.
const SHARES_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// What all handles of a drive have in common.
pub(crate) struct Shared {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) capacity: Sectors,
    pub(crate) sector_size: SectorSize,
    pub(crate) physical_block: u32,
    pub(crate) believed: Believed,
    pub(crate) write_mode: WriteMode,
    pub(crate) next_id: AtomicU64,
    pub(crate) next_scan: AtomicU32,
}

impl DriveHandle {
    /// The drive's size in logical sectors.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.shared.capacity
    }

    /// The size of a logical sector: the unit of every extent.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        self.shared.sector_size
    }

    /// Bytes of a physical sector or block: smaller or unaligned writes may cost the drive a read
    /// before.
    #[must_use]
    pub fn physical_block(&self) -> u32 {
        self.shared.physical_block
    }

    /// The sectors of `len` bytes from byte `offset` of the drive; whether they lie on the drive is
    /// found out when they are asked for.
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
    /// `on_done` runs on the engine's thread, or on that of whoever submits while the engine has
    /// nothing to do, and delays every other request of the drive: it should hand the result on and
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
        let place = self.shared.place_for(&io)?;
        self.hand_over(io, place, RealClock.now(), on_done)
    }

    /// Starts a request, to be awaited or waited for.
    ///
    /// # Errors
    /// As [`DriveHandle::submit`].
    pub fn start(&self, io: Io) -> Result<Pending, SubmitError> {
        self.start_asked(&io, RealClock.now())
    }

    /// Starts a request as soon as the drive has room for it: await the answer, or
    /// [`wait`](StartWhenRoom::wait) for it. Those who wait are served in the order in which they
    /// came. A deadline counts from now, so that waiting for room uses it up.
    pub fn start_when_room(&self, io: Io) -> StartWhenRoom {
        StartWhenRoom::new(self.clone(), io, RealClock.now())
    }

    /// Starts a request that was asked for at `asked`. Costs nothing but a look when there is no
    /// room.
    pub(crate) fn start_asked(&self, io: &Io, asked: Instant) -> Result<Pending, SubmitError> {
        let place = self.shared.place_for(io)?;
        let slot = Slot::new();
        let filled = Arc::clone(&slot);
        let id = self.hand_over(io.clone(), place, asked, move |done| filled.fill(done))?;
        Ok(Pending::new(id, slot, self.clone()))
    }

    fn hand_over(
        &self,
        io: Io,
        place: Place,
        asked: Instant,
        on_done: impl FnOnce(IoDone) + Send + 'static,
    ) -> Result<RequestId, SubmitError> {
        let shared = &*self.shared;
        let id = RequestId(shared.next_id.fetch_add(1, Ordering::Relaxed));
        let durable = shared.write_mode == WriteMode::Durable && io.op.changes_sectors();
        let request = Request {
            id,
            volume: io.volume,
            class: io.class,
            stream: io.stream,
            op: io.op,
            extent: io.extent,
            fua: (io.fua && io.op.changes_sectors()) || durable,
            deadline: io.deadline.map(|span| asked + span),
        };
        let letter = Letter::Submit(Submission {
            request,
            priority: io.priority,
            data: io.data,
            on_done: OnDone::new(on_done),
            place,
        });
        match shared.mailbox.post(letter) {
            Ok(first) => {
                shared.turns.help(first);
                Ok(id)
            }
            Err(returned) => {
                if let Letter::Submit(Submission { on_done, .. }) = returned {
                    on_done.forget();
                }
                Err(SubmitError::Closed)
            }
        }
    }

    /// Submits a request and waits until it is over; a refused one is over at once, with
    /// [`IoError::NotTaken`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    #[must_use]
    pub fn run(&self, io: Io) -> IoDone {
        self.expect_not_a_callback();
        match self.start(io) {
            Ok(pending) => pending.wait(),
            Err(refused) => IoDone { finished: None, result: Err(IoError::NotTaken(refused)) },
        }
    }

    /// Waiting on the engine's own thread would wait for itself.
    pub(crate) fn expect_not_a_callback(&self) {
        assert!(
            !self.shared.mailbox.on_engine_thread(),
            "a completion callback cannot wait for another request; submit it instead"
        );
    }

    /// Takes a request back, if it is not over yet: its callback gets [`IoError::Cancelled`]. When
    /// it is at the drive already, it still happens there. A request that is over, or was never
    /// taken, is left alone.
    pub fn cancel(&self, id: RequestId) {
        // A drive that is closing finishes or gives up everything by itself; one with a full
        // mailbox has worse to do.
        if let Ok(first) = self.shared.mailbox.post(Letter::Cancel(id)) {
            self.shared.turns.help(first);
        }
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
        self.tell(Letter::Tune(Box::new(tuning)))
    }

    /// By what places and times of this drive are believed.
    #[must_use]
    pub fn believed(&self) -> &Believed {
        &self.shared.believed
    }

    /// The usual settings of reading for scans; what cannot be read is narrowed down to this
    /// drive's physical block.
    #[must_use]
    pub fn usual_fill(&self) -> FillSettings {
        let block = u64::from(self.physical_block() / self.sector_size().bytes()).max(1);
        FillSettings { retry_grain: Sectors::new(block), ..FillSettings::default() }
    }

    /// Changes what reading for scans may cost and how it is done, also while scans run.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn set_fill(&self, settings: FillSettings) -> Result<(), SubmitError> {
        self.tell(Letter::SetFill(settings))
    }

    /// Changes what volumes are promised and may not exceed, all of `changes` or none; in force
    /// when this returns. Whether anybody goes by it is the policy's business
    /// ([`DriveSnapshot::goes_by_shares`]).
    ///
    /// # Errors
    /// See [`ChangeSharesError`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn change_shares(&self, changes: Vec<ShareChange>) -> Result<(), ChangeSharesError> {
        self.expect_not_a_callback();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.tell(Letter::ChangeShares(changes, answer))?;
        match answered.recv_timeout(SHARES_PATIENCE) {
            Ok(changed) => Ok(changed?),
            Err(_) => Err(ChangeSharesError::NoAnswer),
        }
    }

    /// The last requests that were slow or missed their deadline, the latest last, and where their
    /// time went.
    ///
    /// # Errors
    /// [`ChangeSharesError::NotTaken`], [`ChangeSharesError::NoAnswer`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        self.expect_not_a_callback();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.tell(Letter::Slow(answer))?;
        answered.recv_timeout(SHARES_PATIENCE).map_err(|_| ChangeSharesError::NoAnswer)
    }

    /// Starts a scan: what it wants is read in the gaps between requests and while there are none,
    /// and comes out of the feed.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    ///
    /// # Panics
    /// When what is wanted is of a drive of another size.
    pub fn start_scan(&self, start: ScanStart) -> Result<ScanFeed, SubmitError> {
        assert_eq!(
            start.wanted.capacity(),
            self.capacity(),
            "a scan wants sectors of a drive of another size"
        );
        let number = self.shared.next_scan.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(FeedShared::new(number, &start));
        self.tell(Letter::ScanStart {
            feed: Arc::clone(&shared),
            wanted: start.wanted,
            paused: start.paused,
        })?;
        Ok(ScanFeed { shared, handle: self.clone() })
    }

    /// Marks from now on what is written, until nobody else holds the marks.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn watch_writes(&self, marks: &Arc<WriteMarks>) -> Result<(), SubmitError> {
        self.tell(Letter::Watch(Arc::clone(marks)))
    }

    /// By what the drive is told from others of its size when it was away and something answers in
    /// its place: from now on nothing else is sent to that before it was judged, and another drive
    /// is one that is still away. Only an NBD drive is ever opened again.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn know_by(&self, known_by: KnownBy) -> Result<(), SubmitError> {
        self.tell(Letter::KnowBy(Arc::new(known_by)))
    }

    pub(crate) fn tell(&self, letter: Letter) -> Result<(), SubmitError> {
        let mailbox = &self.shared.mailbox;
        let first = mailbox.post(letter).map_err(|_returned| {
            if mailbox.is_closing() { SubmitError::Closed } else { mailbox.full() }
        })?;
        self.shared.turns.help(first);
        Ok(())
    }

    /// How the drive is doing; takes some tens of microseconds, and 200 ms at the most.
    #[must_use]
    pub fn snapshot(&self) -> DriveSnapshot {
        self.shared.mailbox.snapshot()
    }
}

impl fmt::Debug for DriveHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveHandle").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Checks a request and takes its place within the bounds.
    fn place_for(&self, io: &Io) -> Result<Place, SubmitError> {
        self.mailbox.admit(self.check(io)?)
    }

    /// Checks a request; returns how many bytes it reads or carries.
    fn check(&self, io: &Io) -> Result<u64, SubmitError> {
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
