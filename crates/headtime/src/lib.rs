//! Disk I/O with deadlines: opens a drive with its own scheduler in this process.
//!
//! A [`Drive`] is named by a text: the path of a file or block device, an NBD server, an emulated
//! drive with the timing of a real one, or a drive in memory. A request is built, and then waited
//! for or awaited in any executor. The scheduler orders all requests by what they cost the drive
//! and by when they are due.
//!
//! ```
//! use std::time::Duration;
//! use headtime::Drive;
//!
//! let drive = Drive::open("memory:64MiB")?;
//! drive.write_at(4096, vec![7; 8192]).wait()?;
//! drive.flush().wait()?;
//! let read = drive.read_at(4096, 8192).deadline(Duration::from_millis(50)).wait()?;
//! assert_eq!(read.data()[..], [7; 8192]);
//! println!("{:?}, late: {}", read.response_time(), read.missed_deadline());
//! # Ok::<(), headtime::Error>(())
//! ```
//!
//! Awaiting a request instead of waiting for it yields the same `Result`:
//!
//! ```
//! # use headtime::Drive;
//! # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
//! let drive = Drive::open("memory:64MiB")?;
//! let data = drive.read_at(0, 4096).await?.into_data();
//! assert_eq!(data.len(), 4096);
//! # Ok::<(), headtime::Error>(())
//! # })?;
//! # Ok::<(), headtime::Error>(())
//! ```
//!
//! Requests of one batch share one deadline and are seen by the scheduler together:
//!
//! ```
//! # use std::time::Duration;
//! # use headtime::Drive;
//! # let drive = Drive::open("memory:64MiB")?;
//! let frames = (0..100).map(|frame| drive.read_at(frame * 65_536, 4096));
//! match drive.batch(frames).deadline(Duration::from_millis(130)).wait() {
//!     Ok(batch) => println!("{} late of {}", batch.missed_deadlines(), batch.len()),
//!     Err(failed) => println!("{failed}"), // the results of the others are in `failed.results`
//! }
//! # Ok::<(), headtime::Error>(())
//! ```
//!
//! The page `docs/embedding.md` describes deadlines, cancellation, order, bounds and durability.
//!
//! # Features
//! - `simulation` (default): emulated and simulated drives.

mod batch;
mod completion_queue;
mod drive;
mod error;
mod options;
mod request;

pub use batch::{Batch, BatchDone, BatchError};
/// The buffer of a read or write: a cheaply cloned slice of shared memory.
pub use bytes::Bytes;
pub use completion_queue::CompletionQueue;
pub use drive::Drive;
pub use error::{Error, ErrorKind};
pub use headtime_sched::{
    ClassPromises, IfInfeasible, IoPriority, PriorityClass, PriorityError, Promise, PromiseCounts,
};
pub use options::{OpenOptions, SETTINGS, Setting};
pub use request::{Canceller, IoDone, IoRequest, Pending, Starting};

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread. `None` if `until` comes first.
fn block_on<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
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

/// Waits for a future on this thread, however long it takes.
fn wait_for<F: Future>(future: F) -> F::Output {
    block_on(future, None).expect("without a time limit the wait ends with the result")
}
