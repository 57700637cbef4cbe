//! [`IoRequest`], a request before its start, [`Pending`], a request in flight, and [`IoDone`], a
//! completed one.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use headtime_io::{DriveHandle, Io, RealClock, StartWhenRoom, SubmitError};
use headtime_sched::{Finished, IfInfeasible, IoPriority, Promise, RequestId, StreamId, VolumeId};
use headtime_units::{Instant, Nanos};

use crate::error::{Error, RequestBytes};
use crate::{block_on, wait_for};

/// The drive of a request.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) handle: DriveHandle,
    pub(crate) drive: Arc<str>,
    /// The process that opened the drive.
    pub(crate) process: u32,
}

/// A request that has not been started: set its deadline and priority, then start it.
///
/// | call | waits for room | waits for the result |
/// |---|---|---|
/// | [`wait`](IoRequest::wait), `.await` | yes | yes |
/// | [`start`](IoRequest::start) | `.wait()` or `.await` | no |
/// | [`try_start`](IoRequest::try_start) | no: [`ErrorKind::Full`](crate::ErrorKind::Full) | no |
#[derive(Debug)]
#[must_use = "a request does nothing until it is started, awaited or waited for"]
pub struct IoRequest {
    link: Link,
    bytes: RequestBytes,
    io: Result<Io, Error>,
}

/// A request that waits until its drive has room for it. Await it, or [`wait`](Starting::wait).
///
/// Dropping it before it was accepted submits nothing. Once it was polled, later requests wait for
/// it: poll it again when woken, or drop it.
#[derive(Debug)]
#[must_use = "nothing is submitted unless this is awaited"]
pub struct Starting {
    link: Link,
    bytes: RequestBytes,
    began: Instant,
    state: Result<StartWhenRoom, Option<Error>>,
}

/// A request in flight. Await it, or [`wait`](Pending::wait).
///
/// Dropping it does not cancel the request: a started write happens, and its result is lost. See
/// [`cancel`](Pending::cancel) and [`cancel_on_drop`](Pending::cancel_on_drop).
#[derive(Debug)]
#[must_use = "the result of the request is lost unless this is awaited"]
pub struct Pending {
    link: Link,
    bytes: RequestBytes,
    began: Instant,
    inner: headtime_io::Pending,
}

/// Cancels a request that another thread waits for.
#[derive(Clone, Debug)]
pub struct Canceller {
    handle: DriveHandle,
    id: RequestId,
}

/// A completed request: its data and its times.
#[derive(Clone, Debug)]
pub struct IoDone {
    data: Bytes,
    began: Instant,
    answer: Option<Promise>,
    finished: Finished,
}

impl IoRequest {
    pub(crate) fn new(link: Link, bytes: RequestBytes, io: Result<Io, Error>) -> Self {
        Self { link, bytes, io }
    }

    fn with(self, change: impl FnOnce(Io) -> Io) -> Self {
        Self { io: self.io.map(change), ..self }
    }

    /// The same, due `within` this time from its start. A deadline orders the queue and is no
    /// timeout: a late request completes, and reports that it was late.
    pub fn deadline(self, within: Duration) -> Self {
        self.with(|io| io.deadline(within))
    }

    /// The same, with its deadline guaranteed if that is possible beside all that was guaranteed
    /// before. Otherwise it is served as if it had no deadline, or fails with
    /// [`ErrorKind::Infeasible`](crate::ErrorKind::Infeasible); see [`Pending::answer`]. A request
    /// without a deadline is served, or is [`ErrorKind::Invalid`](crate::ErrorKind::Invalid). Only
    /// the policies `cds-scan` and `ds-scan` guarantee anything. A guarantee holds as long as no
    /// access takes longer than its worst case by the drive model.
    pub fn guaranteed(self, if_infeasible: IfInfeasible) -> Self {
        self.with(|io| io.guaranteed(if_infeasible))
    }

    /// The same, with this I/O priority, such as `"rt/2".parse()`.
    pub fn priority(self, priority: IoPriority) -> Self {
        self.with(|io| io.priority(priority))
    }

    /// The same, durable before it completes (force unit access). For writes.
    pub fn durable(self) -> Self {
        self.with(Io::fua)
    }

    /// The same, from this process or file: the order of one stream helps to predict its next
    /// request.
    pub fn stream(self, stream: u32) -> Self {
        self.with(|io| io.stream(StreamId(stream)))
    }

    /// The same, charged to this tenant of the drive.
    pub fn volume(self, volume: u32) -> Self {
        self.with(|io| io.volume(VolumeId(volume)))
    }

    /// The same, due `within` this time unless it has a deadline of its own.
    pub(crate) fn deadline_if_none(self, within: Duration) -> Self {
        self.with(|io| if io.deadline.is_some() { io } else { io.deadline(within) })
    }

    /// Starts the request, as soon as the drive has room for it. The deadline counts from now, so
    /// that waiting for room uses it up.
    pub fn start(self) -> Starting {
        self.start_since(RealClock.now())
    }

    pub(crate) fn start_since(self, began: Instant) -> Starting {
        let Self { link, bytes, io } = self;
        let io = io.and_then(|io| link.check_process(bytes).map(|()| io));
        let state = io.map(|io| link.handle.start_when_room_since(io, began)).map_err(Some);
        Starting { link, bytes, began, state }
    }

    /// Starts the request if the drive has room for it now.
    ///
    /// # Errors
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) if it has not,
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid),
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn try_start(self) -> Result<Pending, Error> {
        let Self { link, bytes, io } = self;
        link.check_process(bytes)?;
        let began = RealClock.now();
        let inner = link.handle.start(io?).map_err(|error| link.refused(bytes, error))?;
        Ok(Pending { link, bytes, began, inner })
    }

    /// Starts the request, when the drive has room for it, and waits for its result.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn wait(self) -> Result<IoDone, Error> {
        wait_for(self.into_future())
    }
}

impl IntoFuture for IoRequest {
    type Output = Result<IoDone, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let starting = self.start();
        Box::pin(async move { starting.await?.await })
    }
}

impl Link {
    pub(crate) fn is_of_this_process(&self) -> bool {
        std::process::id() == self.process
    }

    fn check_process(&self, bytes: RequestBytes) -> Result<(), Error> {
        if self.is_of_this_process() {
            return Ok(());
        }
        Err(Error::other_process(&self.drive, bytes, self.process))
    }

    fn refused(&self, bytes: RequestBytes, error: SubmitError) -> Error {
        Error::submit(&self.drive, bytes, error)
    }
}

impl Starting {
    /// Waits until the drive has accepted the request.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid),
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn wait(self) -> Result<Pending, Error> {
        wait_for(self)
    }
}

impl Future for Starting {
    type Output = Result<Pending, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (link, bytes, began) = (this.link.clone(), this.bytes, this.began);
        Poll::Ready(match &mut this.state {
            Ok(starting) => match ready!(Pin::new(starting).poll(context)) {
                Ok(inner) => Ok(Pending { link, bytes, began, inner }),
                Err(error) => Err(link.refused(bytes, error)),
            },
            Err(error) => Err(error.take().expect("a start is awaited once")),
        })
    }
}

impl Pending {
    /// Waits until the request has completed.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn wait(self) -> Result<IoDone, Error> {
        wait_for(self)
    }

    /// Waits until the request has completed, for at most `timeout`.
    ///
    /// # Errors
    /// The request itself after the timeout, to be awaited, cancelled or dropped.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Result<IoDone, Error>, Self> {
        let until = std::time::Instant::now().checked_add(timeout);
        block_on(&mut self, until).ok_or(self)
    }

    /// The answer to the deadline of a [guaranteed](IoRequest::guaranteed) request: `None` in the
    /// few microseconds before it, and for other or refused requests.
    #[must_use]
    pub fn answer(&self) -> Option<Promise> {
        self.inner.answer()
    }

    /// Returns true if the result is available.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// Cancels the request if it has not completed: its result is then
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled). A request that is at the drive may
    /// still take effect.
    pub fn cancel(&self) {
        self.inner.cancel();
    }

    /// Returns an object that cancels the request while this is waited for elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { handle: self.link.handle.clone(), id: self.inner.id() }
    }

    /// Cancels the request if this is dropped before it has completed, as under a timeout of an
    /// executor. Suitable for reads.
    pub fn cancel_on_drop(self) -> Self {
        Self { inner: self.inner.cancel_on_drop(), ..self }
    }
}

impl Future for Pending {
    type Output = Result<IoDone, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let headtime_io::IoDone { finished, result } =
            ready!(Pin::new(&mut self.inner).poll(context));
        let answer = self.inner.answer();
        let data = result.map_err(|error| Error::io(&self.link.drive, self.bytes, error))?;
        let finished = finished.expect("a completed request has a record of its times");
        Poll::Ready(Ok(IoDone { data, began: self.began, answer, finished }))
    }
}

impl Canceller {
    /// Cancels the request, as [`Pending::cancel`] does. A completed request stays complete.
    pub fn cancel(&self) {
        self.handle.cancel(self.id);
    }
}

impl IoDone {
    /// The bytes of a read; empty for other requests.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Returns the bytes of a read.
    #[must_use]
    pub fn into_data(self) -> Bytes {
        self.data
    }

    /// The time from the start to the completion, waiting for room included.
    #[must_use]
    pub fn response_time(&self) -> Duration {
        duration(self.finished.finished.saturating_since(self.began))
    }

    /// The time from the start until the request was sent to the drive.
    #[must_use]
    pub fn queue_time(&self) -> Duration {
        duration(self.finished.dispatched.saturating_since(self.began))
    }

    /// The time from the dispatch to the completion.
    #[must_use]
    pub fn service_time(&self) -> Duration {
        duration(self.finished.service())
    }

    /// The time of the drive that the request was charged with.
    #[must_use]
    pub fn disk_time(&self) -> Duration {
        duration(self.finished.disk_time)
    }

    /// Returns true if the request had a deadline and completed after it.
    #[must_use]
    pub fn missed_deadline(&self) -> bool {
        self.finished.missed()
    }

    /// The answer to the deadline of a [guaranteed](IoRequest::guaranteed) request.
    #[must_use]
    pub fn answer(&self) -> Option<Promise> {
        self.answer
    }

    /// The time of completion, by the engine's clock.
    pub(crate) fn completed(&self) -> Instant {
        self.finished.finished
    }
}

pub(crate) fn duration(span: Nanos) -> Duration {
    Duration::from_nanos(span.as_ns())
}
