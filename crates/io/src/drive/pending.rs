//! [`Pending`], an accepted request that any executor may await or a thread may wait for, and
//! [`StartWhenRoom`], which waits until the drive accepts a request.
//!
//! Both need only [`Waker`]s, so they work in every executor and without one: a waiting thread is
//! an executor of one future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::Thread;
use std::time::{Duration, Instant};

use headtime_sched::{Promise, RequestId};

use crate::drive::link::DriveLink;
use crate::drive::slot::Slot;
use crate::engine::capacity::QueuePosition;
use crate::engine::mailbox::DeadlineAnswer;
use crate::request::{Io, IoDone, SubmitError};

/// An accepted request, from `DriveHandle::start`. Await it, or call [`wait`](Pending::wait).
///
/// Dropping it does not cancel the request: a started write happens, and its result is lost.
/// Otherwise a forgotten variable or a lost race in a `select!` would silently keep data from the
/// drive. To save the disk time of a request that is no longer needed, call
/// [`cancel`](Pending::cancel), or [`cancel_on_drop`](Pending::cancel_on_drop) after the start.
#[derive(Debug)]
#[must_use = "the result of the request is lost unless this is awaited"]
pub struct Pending {
    id: RequestId,
    slot: Arc<Slot<IoDone>>,
    /// `None` if it does not ask for one.
    answer: Option<DeadlineAnswer>,
    link: Arc<DriveLink>,
    cancel_on_drop: bool,
}

impl Pending {
    /// Starts a request whose deadline counts from `submitted`. Clones the request only if the
    /// drive has room for it.
    pub(crate) fn start(
        link: &Arc<DriveLink>,
        io: &Io,
        submitted: headtime_units::Instant,
    ) -> Result<Self, SubmitError> {
        let permit = link.admit(io)?;
        let slot = Arc::new(Slot::new());
        let filled = Arc::clone(&slot);
        let on_done = Box::new(move |done| filled.fill(done));
        let answer = io.if_infeasible.map(|_| DeadlineAnswer::default());
        let id = link.submit(io.clone(), permit, submitted, answer.as_ref(), on_done)?;
        Ok(Self { id, slot, answer, link: Arc::clone(link), cancel_on_drop: false })
    }

    /// The request's id at its drive.
    #[must_use]
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// The answer to the deadline of a request that was to be [guaranteed](Io::guaranteed): `None`
    /// in the few microseconds before, and for other or refused requests.
    #[must_use]
    pub fn answer(&self) -> Option<Promise> {
        self.answer.as_ref()?.get().copied()
    }

    /// Returns true if the result is available.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.slot.is_over()
    }

    /// Waits until the request has finished.
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    #[must_use]
    pub fn wait(self) -> IoDone {
        self.link.expect_not_a_callback();
        block_on(self)
    }

    /// Waits until the request has finished, for at most `timeout`.
    ///
    /// # Errors
    /// The request itself after the timeout, to be awaited, cancelled or dropped.
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<IoDone, Self> {
        self.link.expect_not_a_callback();
        block_on_until(&mut self, Instant::now().checked_add(timeout)).ok_or(self)
    }

    /// Cancels the request if it has not finished. Its result then is
    /// [`IoError::Cancelled`](crate::IoError::Cancelled). The effect of a request that was at the
    /// drive may show nevertheless.
    pub fn cancel(&self) {
        self.link.cancel(self.id);
    }

    /// Withdraws the request if this is dropped before the request is over, as in a `select!` or
    /// under a timeout. Suitable for reads whose data is not needed then.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancel_on_drop = true;
        self
    }
}

impl Future for Pending {
    type Output = IoDone;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoDone> {
        self.slot.poll(context.waker())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.cancel_on_drop && !self.is_over() {
            self.cancel();
        }
    }
}

/// A request that waits until its drive has room for it, from `DriveHandle::start_when_room`.
/// Await it, or call [`wait`](StartWhenRoom::wait). If it is dropped before, nothing is submitted.
/// After the first poll, it has a position in the queue: poll it again when woken, or drop it,
/// because later requests wait for it.
#[derive(Debug)]
#[must_use = "nothing is submitted unless this is awaited"]
pub struct StartWhenRoom {
    link: Arc<DriveLink>,
    /// `None` once it was submitted or refused.
    io: Option<Io>,
    submitted: headtime_units::Instant,
    ticket: Option<QueuePosition>,
}

impl StartWhenRoom {
    pub(crate) fn new(link: Arc<DriveLink>, io: Io, submitted: headtime_units::Instant) -> Self {
        Self { link, io: Some(io), submitted, ticket: None }
    }

    /// Waits until the drive has accepted the request.
    ///
    /// # Errors
    /// As `DriveHandle::start`, but never [`SubmitError::Full`].
    ///
    /// # Panics
    /// When called from a completion callback, on which the room to come depends.
    pub fn wait(self) -> Result<Pending, SubmitError> {
        self.link.expect_not_a_callback();
        block_on(self)
    }

    fn leave_queue(&mut self) {
        self.link.mailbox.capacity.leave(&mut self.ticket);
    }
}

impl Future for StartWhenRoom {
    type Output = Result<Pending, SubmitError>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let io = this.io.as_ref().expect("a request is submitted once");
        // An invalid request does not wait in order to be refused.
        if this.ticket.is_none()
            && let Err(invalid) = this.link.check(io)
        {
            this.io = None;
            return Poll::Ready(Err(invalid));
        }
        let start = || match Pending::start(&this.link, io, this.submitted) {
            Err(SubmitError::Full { .. }) => None,
            started => Some(started),
        };
        let capacity = &this.link.mailbox.capacity;
        let started = ready!(capacity.poll_start(&mut this.ticket, context.waker(), start));
        this.io = None;
        Poll::Ready(started)
    }
}

impl Drop for StartWhenRoom {
    fn drop(&mut self) {
        self.leave_queue();
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    block_on_until(&mut future, None).expect("without a time limit the wait ends with the result")
}

/// Waits for a future. `None` if `until` comes first.
fn block_on_until<F: Future + Unpin>(future: &mut F, until: Option<Instant>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = Pin::new(&mut *future).poll(&mut context) {
            return Some(output);
        }
        match until {
            None => std::thread::park(),
            Some(until) => match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::park_timeout(left),
                _ => return None,
            },
        }
    }
}
