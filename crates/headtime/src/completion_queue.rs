//! [`CompletionQueue`]: runs requests for a program with an event loop of its own.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, IntoFuture};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// Runs requests, batches and other futures of a program that has an event loop and no executor.
///
/// The file descriptor becomes readable when a result may be available, so that it fits `poll`,
/// `epoll` and every event loop. Nothing of the program runs on the threads of a drive: they only
/// mark a request as ready.
///
/// ```
/// use headtime::{CompletionQueue, Drive};
///
/// let drive = Drive::open("memory:64MiB")?;
/// let mut queue = CompletionQueue::new().expect("a file descriptor");
/// for block in 0..10 {
///     queue.push(block, drive.read_at(block * 4096, 4096));
/// }
/// while let Some((block, done)) = queue.next() {
///     println!("block {block}: {:?}", done?.response_time());
/// }
/// # Ok::<(), headtime::Error>(())
/// ```
pub struct CompletionQueue<K, T> {
    notified: Arc<Notified>,
    running: BTreeMap<u64, (K, Task<T>)>,
    over: VecDeque<(K, T)>,
    next_number: u64,
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The tasks to poll, and the descriptor that reports them.
struct Notified {
    event: OwnedFd,
    ready: Mutex<Vec<u64>>,
}

/// The waker of one task.
struct TaskWaker {
    number: u64,
    notified: Arc<Notified>,
}

impl<K, T> CompletionQueue<K, T> {
    /// An empty queue.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let notified = Arc::new(Notified { event, ready: Mutex::default() });
        Ok(Self { notified, running: BTreeMap::new(), over: VecDeque::new(), next_number: 0 })
    }

    /// Starts a request or a batch. Its result is returned with `key`. A request that waits for
    /// room is started by a later call of [`try_next`](Self::try_next) or [`next`](Self::next).
    ///
    /// Returns the number of the task for [`drop_task`](Self::drop_task).
    pub fn push<F>(&mut self, key: K, request: F) -> u64
    where
        F: IntoFuture<Output = T>,
        F::IntoFuture: Send + 'static,
    {
        let number = self.next_number;
        self.next_number += 1;
        self.poll(number, key, Box::pin(request.into_future()));
        number
    }

    /// The number that [`push`](Self::push) returns next, which may serve as the key.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Drops a task that has no result yet, and returns its key.
    pub fn drop_task(&mut self, number: u64) -> Option<K> {
        // The result of a task that was woken may be there, although it was not taken yet.
        self.poll_ready();
        self.running.remove(&number).map(|(key, _)| key)
    }

    /// Returns a result that is available.
    pub fn try_next(&mut self) -> Option<(K, T)> {
        if self.over.is_empty() {
            self.poll_ready();
        }
        self.over.pop_front()
    }

    /// Waits for a result. `None` if nothing is running.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end while tasks come")]
    pub fn next(&mut self) -> Option<(K, T)> {
        self.next_until(None)
    }

    /// Waits for a result for at most `timeout`. `None` after that, or if nothing is running.
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<(K, T)> {
        self.next_until(Instant::now().checked_add(timeout))
    }

    fn next_until(&mut self, until: Option<Instant>) -> Option<(K, T)> {
        loop {
            if let Some(result) = self.try_next() {
                return Some(result);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if self.running.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            self.notified.wait(left);
        }
    }

    /// The number of tasks without a result.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    fn poll_ready(&mut self) {
        for number in self.notified.take() {
            if let Some((key, task)) = self.running.remove(&number) {
                self.poll(number, key, task);
            }
        }
    }

    fn poll(&mut self, number: u64, key: K, mut task: Task<T>) {
        let waker = TaskWaker { number, notified: Arc::clone(&self.notified) };
        let waker = Waker::from(Arc::new(waker));
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                self.over.push_back((key, result));
                // The descriptor stays readable as long as there are results.
                self.notified.signal();
            }
            Poll::Pending => {
                self.running.insert(number, (key, task));
            }
        }
    }
}

impl<K, T> AsFd for CompletionQueue<K, T> {
    /// The descriptor that is readable when [`CompletionQueue::try_next`] may return a result. Call
    /// it until it returns none, then wait for the descriptor again.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notified.event.as_fd()
    }
}

impl Notified {
    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        // Every statement leaves a consistent state.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self) {
        // The counter cannot overflow: it is reset when it is read, long before 2^64 events.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<u64> {
        // First the descriptor, then the list: a task that is woken between the two is signaled
        // once too often and never too seldom.
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
        std::mem::take(&mut *self.lock())
    }

    fn wait(&self, left: Option<Duration>) {
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(&self.event, PollFlags::IN)], timeout.as_ref()) {
            // A signal handler ran: the caller asks again.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => unreachable!("poll of an open descriptor failed: {error}"),
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let was_empty = {
            let mut ready = self.notified.lock();
            ready.push(self.number);
            ready.len() == 1
        };
        // One signal wakes the loop for all that became ready since it read the list.
        if was_empty {
            self.notified.signal();
        }
    }
}
