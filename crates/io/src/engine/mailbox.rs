//! Messages of other threads to the engine: requests, cancellations, another policy or drive model,
//! scans, and the request of a snapshot.
//!
//! Requests are admitted by count and by bytes before they are sent, so the mailbox and the queues
//! after it are bounded. A permit is acquired on submission and released when the callback of the
//! request has returned.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headtime_sched::{
    Belief, FillSettings, IfInfeasible, IoPriority, PendingSectors, PriorityClass, Promise,
    Request, RequestId, ScanPriority, ShareChange, ShareRefusal, StreamId, TimedRead,
    TimedReadDone, VolumeId,
};
use headtime_units::{Extent, Instant};

use crate::drive_identity::DriveIdentity;
use crate::engine::capacity::{Capacity, Full};
use crate::engine::inbox::Inbox;
use crate::engine::recent::RecentWork;
use crate::engine::scan_queue::{ScanQueue, WriteMarks};
use crate::engine::slow::{AccountMark, SlowRequest};
use crate::model::RunningMap;
use crate::notifier::Notifier;
use crate::request::{IoDone, IoError, SubmitError};
use crate::snapshot::DriveSnapshot;
use crate::tuning::Tuning;

/// The function that is called once when a request is over.
pub type OnDone = Box<dyn FnOnce(IoDone) + Send>;

/// The callback of a request. It is called exactly once: if it is dropped before, because the
/// engine failed, it reports [`IoError::EngineFailed`].
pub(crate) struct Callback(Option<OnDone>);

/// A request from its submission until it is over.
pub(crate) struct ActiveRequest {
    pub(crate) request: Request,
    /// Gives the request a deadline if it has none.
    pub(crate) priority: Option<IoPriority>,
    /// The place of the answer to its deadline, and what to do if that cannot be guaranteed.
    pub(crate) answer: Option<(IfInfeasible, DeadlineAnswer)>,
    pub(crate) data: Bytes,
    /// `None` once the request was cancelled and its owner informed.
    pub(crate) on_done: Option<Callback>,
    /// Released when the callback has returned.
    pub(crate) permit: HeldPermit,
    /// Set if this is a part of a divided request.
    pub(crate) part: Option<Part>,
    /// Set when the engine receives the request.
    pub(crate) submitted: Instant,
    /// For a write that is on the drive and becomes durable by a flush: the drive's losses when it
    /// was written.
    pub(crate) written_at: Option<u64>,
    /// The accounts at the submission and at the dispatch.
    pub(crate) marks: [AccountMark; 2],
}

/// A part of a divided request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) whole: RequestId,
    /// The class of the request's priority.
    pub(crate) class: PriorityClass,
    /// The answer to the deadline of this part.
    pub(crate) promise: Option<Promise>,
}

/// The place of the answer to a deadline; empty before it.
pub(crate) type DeadlineAnswer = Arc<OnceLock<Promise>>;

impl ActiveRequest {
    pub(crate) fn new(
        request: Request,
        priority: Option<IoPriority>,
        answer: Option<(IfInfeasible, DeadlineAnswer)>,
        data: Bytes,
        on_done: Callback,
        permit: HeldPermit,
    ) -> Self {
        Self {
            request,
            priority,
            answer,
            data,
            on_done: Some(on_done),
            permit,
            part: None,
            submitted: Instant::ORIGIN,
            written_at: None,
            marks: Default::default(),
        }
    }

    /// Shows the answer to its deadline to its owner.
    pub(crate) fn give_answer(&self, promise: Option<Promise>) {
        if let (Some((_, answer)), Some(promise)) = (&self.answer, promise) {
            answer.get_or_init(|| promise);
        }
    }

    /// Calls the callback unless it was called before, and then releases the permit.
    pub(crate) fn finish(self, done: IoDone) {
        if let Some(on_done) = self.on_done {
            on_done.call(done);
        }
        drop(self.permit);
    }
}

/// A message to the engine.
pub(crate) enum Message {
    Submit(ActiveRequest),
    Cancel(RequestId),
    StreamEnded(StreamId),
    NameVolume(VolumeId, String),
    Tune(Box<Tuning>),
    /// Another drive model, and its name if that is another.
    Believe(Box<dyn Belief + Send>, Option<&'static str>),
    ShowMap(Box<dyn FnOnce(Option<RunningMap>) + Send>),
    SetFill(FillSettings),
    /// Returns the recorded slow requests.
    Slow(SyncSender<Vec<SlowRequest>>),
    /// Returns the work completed since the question before, and begins or extends its record.
    Recent(SyncSender<RecentWork>),
    /// Changes the shares of volumes; the result is sent back.
    ChangeShares(Vec<ShareChange>, SyncSender<Result<(), ShareRefusal>>),
    Watch(Arc<WriteMarks>),
    IdentifyBy(Arc<DriveIdentity>),
    ScanStart {
        queue: Arc<ScanQueue>,
        requested: PendingSectors,
    },
    ScanAgain(u32, PendingSectors),
    ScanPause(u32),
    ScanResume(u32),
    ScanPriority(u32, ScanPriority),
    /// A feed has room again, or has saved sectors that a write waits for.
    ScanRoom(u32),
    ScanStop(u32),
    BackgroundWrite(BackgroundWrite),
    /// Begins timed reads; their results are sent there. Refused if others are in progress.
    TimedStart(SyncSender<TimedReadDone>, SyncSender<bool>),
    TimedRead(TimedRead),
    TimedStop,
}

/// A background write from its submission until it is over.
pub(crate) struct BackgroundWrite {
    pub(crate) extent: Extent,
    pub(crate) data: Bytes,
    pub(crate) on_done: Callback,
    /// Released when the callback has returned.
    pub(crate) permit: Permit,
}

impl BackgroundWrite {
    /// Calls the callback, and then releases the permit.
    pub(crate) fn finish(self, result: Result<(), IoError>) {
        self.on_done.call(IoDone { finished: None, result: result.map(|()| Bytes::new()) });
        drop(self.permit);
    }
}

/// The position of a sent message among those that the engine has not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Position {
    /// The engine sleeps unless it is notified.
    First,
    Later,
}

/// Shared between the engine and all handles of a drive.
pub(crate) struct Mailbox {
    messages: Inbox<Message>,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) capacity: Capacity,
    view: Mutex<SnapshotSlot>,
    /// A caller waits for a snapshot; changed under the lock of `view`, and read without it.
    view_requested: AtomicBool,
    viewed: Condvar,
}

struct SnapshotSlot {
    /// The number of snapshots, by which a waiting caller recognizes a new one.
    taken: u64,
    last: DriveSnapshot,
}

thread_local! {
    /// The engines whose iterations this thread runs; a callback of one may submit to another.
    static TURNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A request's permit within the bounds; given back when dropped.
pub(crate) struct Permit {
    mailbox: Arc<Mailbox>,
    bytes: u64,
}

/// The permit of a request, or of all parts of a divided one.
pub(crate) enum HeldPermit {
    Own(Permit),
    Shared(Arc<Permit>),
}

impl HeldPermit {
    pub(crate) fn into_shared(self) -> Arc<Permit> {
        match self {
            Self::Own(permit) => Arc::new(permit),
            Self::Shared(permit) => permit,
        }
    }
}

impl Callback {
    pub(crate) fn new(callback: OnDone) -> Self {
        Self(Some(callback))
    }

    /// Calls the callback. A panic in it is logged and does not stop the drive.
    pub(crate) fn call(mut self, done: IoDone) {
        self.call_once(done);
    }

    /// Forgets the callback of a request that was not taken.
    pub(crate) fn forget(mut self) {
        self.0 = None;
    }

    fn call_once(&mut self, done: IoDone) {
        let Some(callback) = self.0.take() else { return };
        if catch_unwind(AssertUnwindSafe(move || callback(done))).is_err() {
            tracing::error!("the completion callback of a request panicked; the drive continues");
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.call_once(IoDone { finished: None, result: Err(IoError::EngineFailed) });
    }
}

impl Mailbox {
    pub(crate) fn new(
        notifier: Arc<Notifier>,
        max_requests: usize,
        max_bytes: u64,
        first_view: DriveSnapshot,
    ) -> Self {
        Self {
            messages: Inbox::new(),
            notifier,
            capacity: Capacity::new(max_requests, max_bytes),
            view: Mutex::new(SnapshotSlot { taken: 0, last: first_view }),
            view_requested: AtomicBool::new(false),
            viewed: Condvar::new(),
        }
    }

    /// A permit for one request of `bytes` bytes, which are within the bound.
    pub(crate) fn admit(self: &Arc<Self>, bytes: u64) -> Result<Permit, SubmitError> {
        self.capacity.acquire(bytes).map_err(|full| self.refusal(full))?;
        Ok(Permit { mailbox: Arc::clone(self), bytes })
    }

    /// The bounds and their use, as a refusal.
    pub(crate) fn full(&self) -> SubmitError {
        self.refusal(self.capacity.held())
    }

    fn refusal(&self, Full { requests, bytes }: Full) -> SubmitError {
        let (max_requests, max_bytes) = (self.capacity.max_requests(), self.capacity.max_bytes());
        SubmitError::Full { requests, bytes, max_requests, max_bytes }
    }

    /// Queues a message for the engine. The caller then has it processed
    /// ([`EngineRunner::process`](crate::engine::runner::EngineRunner::process)). Fails and returns
    /// the message when the drive is closing. Requests are bounded by their permits. Other messages
    /// are refused once the queue holds twice as many messages as there are permits.
    #[expect(
        clippy::result_large_err,
        reason = "a message that is not taken goes back whole, and putting each in a box would \
            cost \
            every request"
    )]
    pub(crate) fn send(&self, message: Message) -> Result<Position, Message> {
        let request = matches!(message, Message::Submit(_));
        let most =
            if request { usize::MAX } else { self.capacity.max_requests().saturating_mul(2) };
        let is_first = self.messages.send(message, most)?;
        Ok(if is_first { Position::First } else { Position::Later })
    }

    /// Moves all messages into an empty vector.
    pub(crate) fn take(&self, into: &mut Vec<Message>) {
        self.messages.take(into);
    }

    /// Returns true if a message arrived since the last [`Mailbox::take`].
    pub(crate) fn has_messages(&self) -> bool {
        self.messages.has_messages()
    }

    /// Refuses all messages from now on.
    pub(crate) fn close(&self) {
        self.messages.close();
        self.capacity.changed();
        self.notifier.notify();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.messages.is_closed()
    }

    /// Runs `work` as a part of the engine: until it returns, the thread of the caller counts as
    /// the engine's thread.
    pub(crate) fn as_engine<R>(&self, work: impl FnOnce() -> R) -> R {
        TURNING.with_borrow_mut(|turning| turning.push(self.address()));
        let done = work();
        TURNING.with_borrow_mut(Vec::pop);
        done
    }

    /// Returns true if the caller runs inside an iteration of this engine, that is, in a completion
    /// callback.
    pub(crate) fn on_engine_thread(&self) -> bool {
        TURNING.with_borrow(|turning| turning.contains(&self.address()))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Requests a snapshot from the engine and waits for a short time. Returns the last snapshot if
    /// the engine does not answer.
    pub(crate) fn snapshot(&self) -> DriveSnapshot {
        let view = lock(&self.view);
        if self.is_closing() || self.on_engine_thread() {
            return view.last.clone();
        }
        let before = view.taken;
        self.view_requested.store(true, Ordering::Release);
        self.notifier.notify();
        let (view, _timed_out) = self
            .viewed
            .wait_timeout_while(view, LONGEST_WAIT_FOR_A_SNAPSHOT, |view| {
                view.taken == before && self.snapshot_requested()
            })
            .unwrap_or_else(PoisonError::into_inner);
        view.last.clone()
    }

    /// The last snapshot the engine showed.
    pub(crate) fn last_snapshot(&self) -> DriveSnapshot {
        lock(&self.view).last.clone()
    }

    pub(crate) fn snapshot_requested(&self) -> bool {
        self.view_requested.load(Ordering::Acquire)
    }

    pub(crate) fn show(&self, snapshot: DriveSnapshot) {
        let mut view = lock(&self.view);
        view.last = snapshot;
        view.taken += 1;
        self.view_requested.store(false, Ordering::Release);
        self.viewed.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.mailbox.capacity.release(self.bytes);
    }
}

/// The maximum time to wait for a snapshot. The engine answers within tens of microseconds unless
/// the machine is overloaded. A live view prefers an old snapshot to none.
const LONGEST_WAIT_FOR_A_SNAPSHOT: Duration = Duration::from_millis(200);

/// Locks data that is consistent between any two statements, so a thread that panicked while
/// holding one left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
