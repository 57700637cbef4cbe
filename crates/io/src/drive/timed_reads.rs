//! [`TimedReads`]: timed reads of a running drive, beside its clients.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use headtime_sched::{TimedRead, TimedReadDone};

use crate::drive::handle::DriveHandle;
use crate::drive::link::DriveLink;
use crate::engine::mailbox::Message;
use crate::model::PATIENCE;
use crate::request::SubmitError;

/// Timed reads of a drive, one at a time. Dropping it ends them.
pub struct TimedReads {
    link: Arc<DriveLink>,
    results: Receiver<TimedReadDone>,
}

/// The reason why timed reads cannot begin or go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimedReadsError {
    /// Others are in progress.
    #[error("the drive is characterized already; see its state with headtime status")]
    InProgress,
    /// The drive closes or is overloaded.
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
    /// The drive was closed, or its engine failed.
    #[error("the drive was closed")]
    Closed,
}

impl DriveHandle {
    /// Begins timed reads. Requests of clients are delayed by them as far as the bound on the
    /// impact of scans allows.
    ///
    /// # Errors
    /// See [`TimedReadsError`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn timed_reads(&self) -> Result<TimedReads, TimedReadsError> {
        self.link.expect_not_a_callback();
        let (sender, results) = sync_channel(1);
        let (answer, answered) = sync_channel(1);
        self.link.send(Message::TimedStart(sender, answer))?;
        match answered.recv_timeout(PATIENCE) {
            Ok(true) => Ok(TimedReads { link: Arc::clone(&self.link), results }),
            Ok(false) => Err(TimedReadsError::InProgress),
            Err(_) => Err(TimedReadsError::Closed),
        }
    }
}

impl TimedReads {
    /// Requests the next read; the previous one is done.
    ///
    /// # Errors
    /// [`TimedReadsError::NotTaken`].
    pub fn request(&self, read: TimedRead) -> Result<(), TimedReadsError> {
        Ok(self.link.send(Message::TimedRead(read))?)
    }

    /// The result of the requested read; `None` if there is none within `patience`.
    ///
    /// # Errors
    /// [`TimedReadsError::Closed`].
    pub fn wait(&self, patience: Duration) -> Result<Option<TimedReadDone>, TimedReadsError> {
        match self.results.recv_timeout(patience) {
            Ok(done) => Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(TimedReadsError::Closed),
        }
    }
}

impl Drop for TimedReads {
    fn drop(&mut self) {
        // A closing drive ends them by itself.
        let _ = self.link.send(Message::TimedStop);
    }
}
