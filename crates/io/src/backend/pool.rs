//! Threads that carry commands out on a [`Store`], so that the engine's thread never waits for
//! bytes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use headtime_sched::CommandId;

use crate::backend::BackendCommand;
use crate::backend::store::Store;
use crate::notifier::Notifier;

/// A pool of threads on one store.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    store: Store,
    notifier: Arc<Notifier>,
    /// Bounded by the commands that the engine lets the drive hold.
    jobs: Mutex<Jobs>,
    more: Condvar,
    done: Mutex<Vec<(CommandId, Result<Bytes, i32>)>>,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<BackendCommand>,
    closed: bool,
}

impl Pool {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The system's, when a thread cannot be started; those started end.
    pub(crate) fn start(
        store: Store,
        notifier: Arc<Notifier>,
        threads: usize,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            store,
            notifier,
            jobs: Mutex::new(Jobs::default()),
            more: Condvar::new(),
            done: Mutex::new(Vec::new()),
        });
        let mut pool = Self { shared, workers: Vec::with_capacity(threads) };
        for index in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let worker = std::thread::Builder::new()
                .name(format!("headtime-bytes-{index}"))
                .spawn(move || shared.work())?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Returns true if the files bypass the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.shared.store.is_direct()
    }

    /// Hands a command to whichever thread is free next.
    pub(crate) fn carry_out(&self, work: BackendCommand) {
        lock(&self.shared.jobs).waiting.push_back(work);
        self.shared.more.notify_one();
    }

    /// Takes the completed commands.
    pub(crate) fn take_done(&self, into: &mut Vec<(CommandId, Result<Bytes, i32>)>) {
        into.append(&mut lock(&self.shared.done));
    }

    /// Releases the threads without waiting for one that is blocked in the kernel.
    pub(crate) fn abandon(mut self) {
        for worker in self.workers.drain(..) {
            drop(worker);
        }
    }
}

impl Drop for Pool {
    /// Ends the threads and waits for those that [`Pool::abandon`] has not let go; jobs not begun
    /// are dropped.
    fn drop(&mut self) {
        let mut jobs = lock(&self.shared.jobs);
        jobs.closed = true;
        jobs.waiting.clear();
        drop(jobs);
        self.shared.more.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its jobs, so that it has none of its own to pass on.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(work) = self.next_job() {
            let command = work.command.id;
            let outcome = catch_unwind(AssertUnwindSafe(|| self.store.carry_out(work)));
            let result = outcome.unwrap_or_else(|_| {
                tracing::error!(
                    command = command.0,
                    "carrying out a command failed on a fault of this program; the command is \
                        reported as an I/O error"
                );
                Err(rustix::io::Errno::IO.raw_os_error())
            });
            let mut done = lock(&self.done);
            done.push((command, result));
            let first = done.len() == 1;
            drop(done);
            if first {
                self.notifier.notify();
            }
        }
    }

    fn next_job(&self) -> Option<BackendCommand> {
        let mut jobs = lock(&self.jobs);
        loop {
            if let Some(work) = jobs.waiting.pop_front() {
                return Some(work);
            }
            if jobs.closed {
                return None;
            }
            jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The guarded data is consistent after every statement, so a poisoned lock is safe to use.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
