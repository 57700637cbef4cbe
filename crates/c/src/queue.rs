//! `headtime_queue`: a completion queue with a file descriptor, for event loops.

use std::ffi::c_int;
use std::future::ready;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headtime::{CompletionQueue, IoDone};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::drive::headtime_drive;
use crate::error::headtime_error;
use crate::io::{Submitted, headtime_done, headtime_io, store};

/// Requests in flight and their results. Any thread may use it.
pub struct headtime_queue {
    inner: Mutex<State>,
    /// The descriptor of the queue, to wait for without the lock.
    event: OwnedFd,
    /// Readable while nothing is running: of several threads that wait, one takes the last result,
    /// and this wakes the others.
    idle: OwnedFd,
}

struct State {
    results: Results,
    /// The descriptor `idle` is readable.
    idle: bool,
}

type Results = CompletionQueue<Submitted, Result<IoDone, headtime_error>>;

impl headtime_queue {
    fn new() -> std::io::Result<Self> {
        let results = Results::new()?;
        let event = results.as_fd().try_clone_to_owned()?;
        let idle = eventfd(1, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { inner: Mutex::new(State { results, idle: true }), event, idle })
    }

    /// Runs a function on the results. Returns what it returns, and the number of running requests.
    fn with<T>(&self, change: impl FnOnce(&mut Results) -> T) -> (T, usize) {
        let mut state = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let value = change(&mut state.results);
        let running = state.results.running();
        if state.idle != (running == 0) {
            state.idle = running == 0;
            // Neither can fail: the counter is 0 or 1.
            if state.idle {
                let _ = rustix::io::write(&self.idle, &1_u64.to_ne_bytes());
            } else {
                let _ = rustix::io::read(&self.idle, &mut [0_u8; 8]);
            }
        }
        (value, running)
    }
}

/// Makes an empty queue. Returns NULL if the system has no file descriptor left.
#[unsafe(no_mangle)]
pub extern "C" fn headtime_queue_new() -> *mut headtime_queue {
    headtime_queue::new().map_or(null_mut(), |queue| Box::into_raw(Box::new(queue)))
}

/// Frees a queue, and cancels its requests. NULL is allowed.
///
/// # Safety
/// `queue` is NULL, or from headtime_queue_new, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_queue_free(queue: *mut headtime_queue) {
    if !queue.is_null() {
        // SAFETY: the caller passes a queue that it owns.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// The file descriptor that is readable when headtime_queue_next may return a result, for poll,
/// epoll and event loops. Call headtime_queue_next until it returns 0, then wait again. The
/// descriptor belongs to the queue. -1 for NULL.
///
/// # Safety
/// `queue` is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_queue_fd(queue: *const headtime_queue) -> c_int {
    // SAFETY: the caller passes a valid queue or NULL.
    unsafe { queue.as_ref() }.map_or(-1, |queue| queue.event.as_raw_fd())
}

/// Starts a request. A drive without room starts it later, in the order of submission. Each request
/// has exactly one result, also if it is invalid or cancelled. Returns the number of the request
/// for headtime_queue_cancel; UINT64_MAX if `queue` is NULL.
///
/// # Safety
/// `queue` and `drive` are valid. The buffer of `io` has its length; that of a read stays valid
/// until the result was taken or the queue was freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_queue_submit(
    queue: *const headtime_queue,
    drive: *const headtime_drive,
    io: *const headtime_io,
) -> u64 {
    // SAFETY: the caller passes valid pointers or NULL.
    let (queue, (submitted, request)) = unsafe { (queue.as_ref(), Submitted::new(drive, io)) };
    let Some(queue) = queue else { return u64::MAX };
    let (number, _) = match request {
        Ok(request) => {
            let starting = request.start();
            let waiting = async move {
                let done = match starting.await {
                    Ok(pending) => pending.cancel_on_drop().await,
                    Err(error) => Err(error),
                };
                done.map_err(|error| headtime_error::new(&error))
            };
            queue.with(|results| results.push(submitted, waiting))
        }
        Err(cause) => {
            let error = submitted.invalid(&cause);
            queue.with(|results| results.push(submitted, ready(Err(error))))
        }
    };
    number
}

/// Cancels a request that has no result yet: its result is then HEADTIME_ERROR_CANCELLED. A request
/// at the drive may still take effect. A request that was complete stays complete.
///
/// # Safety
/// `queue` is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_queue_cancel(queue: *const headtime_queue, number: u64) {
    // SAFETY: the caller passes a valid queue or NULL.
    let Some(queue) = (unsafe { queue.as_ref() }) else { return };
    queue.with(|results| {
        if let Some(submitted) = results.drop_task(number) {
            let error = submitted.cancelled();
            results.push(submitted, ready(Err(error)));
        }
    });
}

/// The number of requests without a result.
///
/// # Safety
/// `queue` is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_queue_running(queue: *const headtime_queue) -> usize {
    // SAFETY: the caller passes a valid queue or NULL.
    unsafe { queue.as_ref() }.map_or(0, |queue| queue.with(|_| ()).1)
}

/// Takes a result, and waits for it for at most `timeout_ns` nanoseconds: 0 does not wait, a
/// negative number waits as long as requests are running. Returns 1 with a result in `done`, 0
/// without one. Several threads may take results; each result is returned once.
///
/// # Safety
/// The pointers are valid or NULL, and the buffers of all reads of the queue are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_queue_next(
    queue: *const headtime_queue,
    done: *mut headtime_done,
    timeout_ns: i64,
) -> c_int {
    // SAFETY: the caller passes a valid queue or NULL.
    let Some(queue) = (unsafe { queue.as_ref() }) else { return 0 };
    let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let (next, running) = queue.with(CompletionQueue::try_next);
        if let Some((submitted, result)) = next {
            // SAFETY: the caller passes a place for the result, and the buffers are valid.
            unsafe { store(submitted.done(result), done) };
            return 1;
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if running == 0 || left.is_some_and(|left| left.is_zero()) {
            return 0;
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let [event, idle] = [&queue.event, &queue.idle].map(|fd| PollFd::new(fd, PollFlags::IN));
        // An error is the interruption by a signal: look again.
        let _ = poll(&mut [event, idle], left.as_ref());
    }
}
