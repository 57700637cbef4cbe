//! What other threads leave for the engine: requests, cancellations, another policy or belief,
//! scans, the wish to see a snapshot.
//!
//! Requests are admitted by count and by bytes before they are put in, so that the mailbox and
//! everything behind it is bounded. A place is taken on submission and given back when the
//! request's callback has returned.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headtime_sched::{
    Belief, FillSettings, IoPriority, PendingSectors, Request, RequestId, ShareChange, ShareRefusal,
};

use crate::believed::RunningMap;
use crate::bell::Bell;
use crate::known_by::KnownBy;
use crate::request::{IoDone, IoError, SubmitError};
use crate::room::Room;
use crate::scan::{FeedShared, WriteMarks};
use crate::slow::SlowRequest;
use crate::snapshot::DriveSnapshot;
use crate::tuning::Tuning;

/// What is called when a request is over: once, whatever happens. A callback that is dropped
/// uncalled, because the engine failed, answers so.
pub(crate) struct OnDone(Option<Box<dyn FnOnce(IoDone) + Send>>);

/// A request on its way to the scheduler.
pub(crate) struct Submission {
    pub(crate) request: Request,
    /// What says when it is due, if nothing else does.
    pub(crate) priority: Option<IoPriority>,
    pub(crate) data: Bytes,
    pub(crate) on_done: OnDone,
    pub(crate) place: Place,
}

/// What happened since the engine last looked, in order of arrival within each kind.
pub(crate) enum Letter {
    Submit(Submission),
    Cancel(RequestId),
    Tune(Box<Tuning>),
    Believe(Box<dyn Belief + Send>),
    ShowMap(Box<dyn FnOnce(Option<RunningMap>) + Send>),
    SetFill(FillSettings),
    /// The slow requests that are remembered go back.
    Slow(SyncSender<Vec<SlowRequest>>),
    /// Changes of what volumes are promised; the answer goes back.
    ChangeShares(Vec<ShareChange>, SyncSender<Result<(), ShareRefusal>>),
    Watch(Arc<WriteMarks>),
    KnowBy(Arc<KnownBy>),
    ScanStart {
        feed: Arc<FeedShared>,
        wanted: PendingSectors,
        paused: bool,
    },
    ScanAgain(u32, PendingSectors),
    ScanPause(u32),
    ScanResume(u32),
    /// A feed has room again, or has kept something that a write waits for.
    ScanRoom(u32),
    ScanStop(u32),
}

/// Shared between the engine and all handles of a drive.
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    /// Whether `letters` has something in it, for the engine to look at without the lock.
    posted: AtomicBool,
    pub(crate) bell: Arc<Bell>,
    closing: AtomicBool,
    held: Held,
    pub(crate) room: Room,
    view: Mutex<View>,
    viewed: Condvar,
}

struct Held {
    requests: AtomicUsize,
    bytes: AtomicU64,
    max_requests: usize,
    max_bytes: u64,
}

struct View {
    wanted: bool,
    /// Counts snapshots, so that who waits for one knows a new one.
    taken: u64,
    last: DriveSnapshot,
}

thread_local! {
    /// The engines that this thread is turning; a callback of one may submit to another.
    static TURNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A request's place within the bounds; given back when dropped.
pub(crate) struct Place {
    mailbox: Arc<Mailbox>,
    bytes: u64,
}

impl OnDone {
    pub(crate) fn new(callback: impl FnOnce(IoDone) + Send + 'static) -> Self {
        Self(Some(Box::new(callback)))
    }

    /// Calls back; a callback's panic is its own affair and does not take the drive with it.
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
            tracing::error!("the completion callback of a request panicked; the drive goes on");
        }
    }
}

impl Drop for OnDone {
    fn drop(&mut self) {
        self.call_once(IoDone { finished: None, result: Err(IoError::EngineFailed) });
    }
}

impl Mailbox {
    pub(crate) fn new(
        bell: Arc<Bell>,
        max_requests: usize,
        max_bytes: u64,
        first_view: DriveSnapshot,
    ) -> Self {
        Self {
            letters: Mutex::new(Vec::new()),
            posted: AtomicBool::new(false),
            bell,
            closing: AtomicBool::new(false),
            held: Held {
                requests: AtomicUsize::new(0),
                bytes: AtomicU64::new(0),
                max_requests,
                max_bytes,
            },
            room: Room::default(),
            view: Mutex::new(View { wanted: false, taken: 0, last: first_view }),
            viewed: Condvar::new(),
        }
    }

    /// A place for one request of `bytes` bytes.
    pub(crate) fn admit(self: &Arc<Self>, bytes: u64) -> Result<Place, SubmitError> {
        let Held { requests, bytes: held_bytes, max_requests, max_bytes } = &self.held;
        let (max_requests, max_bytes) = (*max_requests, *max_bytes);
        if bytes > max_bytes {
            return Err(SubmitError::TooLarge { bytes, max_bytes });
        }
        let full = |requests, bytes| SubmitError::Full { requests, bytes, max_requests, max_bytes };
        let one_more = |held: usize| (held < max_requests).then_some(held + 1);
        if let Err(requests) = requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
        {
            return Err(full(requests, held_bytes.load(Ordering::Acquire)));
        }
        let more_bytes = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= max_bytes);
        if let Err(held) = held_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more_bytes)
        {
            let before = requests.fetch_sub(1, Ordering::AcqRel);
            return Err(full(before - 1, held));
        }
        Ok(Place { mailbox: Arc::clone(self), bytes })
    }

    /// What the bounds are and how far they are used up, as a refusal.
    pub(crate) fn full(&self) -> SubmitError {
        let Held { requests, bytes, max_requests, max_bytes } = &self.held;
        let (requests, bytes) = (requests.load(Ordering::Acquire), bytes.load(Ordering::Acquire));
        SubmitError::Full { requests, bytes, max_requests: *max_requests, max_bytes: *max_bytes }
    }

    /// Leaves something for the engine, which the caller then has to see to
    /// ([`Turns::help`](crate::turns::Turns::help)); fails when the drive is closing, and gives it
    /// back. Requests are bounded by their places; of everything else no more is taken once twice
    /// as many letters lie there as there are places. Says whether it is the only one there.
    #[expect(
        clippy::result_large_err,
        reason = "a letter that is not taken goes back whole, and putting each in a box would cost \
            every request"
    )]
    pub(crate) fn post(&self, letter: Letter) -> Result<bool, Letter> {
        let mut letters = lock(&self.letters);
        // Looked at under the lock: after `close` nothing can slip in behind the engine's last
        // look.
        let overflowing =
            !matches!(letter, Letter::Submit(_)) && letters.len() > 2 * self.held.max_requests;
        if overflowing || self.closing.load(Ordering::Acquire) {
            return Err(letter);
        }
        letters.push(letter);
        self.posted.store(true, Ordering::Release);
        Ok(letters.len() == 1)
    }

    /// Takes everything that was left, into an empty vector.
    pub(crate) fn take(&self, into: &mut Vec<Letter>) {
        debug_assert!(into.is_empty(), "letters taken before are dealt with");
        self.posted.store(false, Ordering::Release);
        std::mem::swap(&mut *lock(&self.letters), into);
    }

    /// Whether something was left since the last [`Mailbox::take`].
    pub(crate) fn has_post(&self) -> bool {
        self.posted.load(Ordering::Acquire)
    }

    /// Takes nothing more from now on.
    pub(crate) fn close(&self) {
        let letters = lock(&self.letters);
        self.closing.store(true, Ordering::Release);
        drop(letters);
        self.room.changed();
        self.bell.ring();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Does something that the engine does; until it is done, the caller's thread counts as the
    /// engine's.
    pub(crate) fn as_engine<R>(&self, work: impl FnOnce() -> R) -> R {
        TURNING.with_borrow_mut(|turning| turning.push(self.address()));
        let done = work();
        TURNING.with_borrow_mut(Vec::pop);
        done
    }

    /// Whether the caller is in the middle of what this engine does, that is, a completion
    /// callback.
    pub(crate) fn on_engine_thread(&self) -> bool {
        TURNING.with_borrow(|turning| turning.contains(&self.address()))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Asks the engine for a snapshot and waits a little; when it does not answer, the last one
    /// there is.
    pub(crate) fn snapshot(&self) -> DriveSnapshot {
        let mut view = lock(&self.view);
        if self.is_closing() || self.on_engine_thread() {
            return view.last.clone();
        }
        let before = view.taken;
        view.wanted = true;
        self.bell.ring();
        let (view, _timed_out) = self
            .viewed
            .wait_timeout_while(view, LONGEST_WAIT_FOR_A_SNAPSHOT, |view| {
                view.taken == before && view.wanted
            })
            .unwrap_or_else(PoisonError::into_inner);
        view.last.clone()
    }

    /// The last snapshot the engine showed.
    pub(crate) fn last_snapshot(&self) -> DriveSnapshot {
        lock(&self.view).last.clone()
    }

    pub(crate) fn snapshot_wanted(&self) -> bool {
        lock(&self.view).wanted
    }

    pub(crate) fn show(&self, snapshot: DriveSnapshot) {
        let mut view = lock(&self.view);
        view.last = snapshot;
        view.taken += 1;
        view.wanted = false;
        self.viewed.notify_all();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.mailbox.held.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.mailbox.held.requests.fetch_sub(1, Ordering::AcqRel);
        self.mailbox.room.changed();
    }
}

/// The engine answers within tens of microseconds unless the machine is overloaded; a live view
/// prefers an old figure to none.
const LONGEST_WAIT_FOR_A_SNAPSHOT: Duration = Duration::from_millis(200);

/// What the locks guard is consistent between any two statements, so a thread that panicked while
/// holding one left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
