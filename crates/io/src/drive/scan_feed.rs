//! Background reads for applications that embed a drive. A [`ScanFeed`] delivers the sectors that a
//! scan requests, in any order that suits the drive.
//!
//! ```text
//! start_scan(requested) ─► scheduler ─► gaps, idle time ─► drive
//!                                                        │ read, or failed
//!  feed.next() ◄── bounded queue ◄────── engine ◄────────┘
//! ```
//! The queue is bounded in bytes. A slow reader pauses its own scan and delays no other request.
//!
//! A scan of *a point in time* returns every sector as it was when the scan started. The scheduler
//! reads sectors before they are overwritten. In addition, the engine holds such a write until the
//! application has *kept* the sectors ([`ScanFeed::keep`]), so a killed program loses nothing. A
//! write is held for at most [`MAX_HELD`]. After that, or if the sectors could not be kept
//! ([`ScanFeed::not_kept`]), the write proceeds and the scan has lost its point in time
//! ([`ScanEvent::Overtaken`]).
//!
//! [`WriteMarks`] records the sectors written through the engine between two scans or during one.

use std::sync::Arc;
use std::time::Duration;

use headtime_sched::{PendingSectors, ScanPriority};
use headtime_units::Extent;

use crate::drive::link::DriveLink;
use crate::engine::mailbox::Message;
use crate::engine::scan_queue::{ScanEvent, ScanQueue};

/// Receives the sectors that a scan reads. Dropping it stops the scan.
pub struct ScanFeed {
    pub(crate) queue: Arc<ScanQueue>,
    pub(crate) link: Arc<DriveLink>,
}

impl ScanFeed {
    /// Returns the next event, or `None` if none arrives within `patience`.
    #[must_use]
    pub fn next(&self, patience: Duration) -> Option<ScanEvent> {
        let (event, room) = self.queue.take(patience);
        if room {
            self.send(Message::ScanRoom(self.queue.number));
        }
        event
    }

    /// Stops reading until [`ScanFeed::resume`]. Sectors of commands at the drive still arrive, and
    /// so do sectors that a point in time would lose.
    pub fn pause(&self) {
        self.send(Message::ScanPause(self.queue.number));
    }

    /// Resumes reading.
    pub fn resume(&self) {
        self.send(Message::ScanResume(self.queue.number));
    }

    /// Changes the priority among the scans of the drive.
    pub fn set_priority(&self, priority: ScanPriority) {
        self.send(Message::ScanPriority(self.queue.number, priority));
    }

    /// Stops the scan. Events that have arrived can still be received, followed by
    /// [`ScanEvent::Closed`].
    pub fn stop(&self) {
        self.queue.end(None);
        self.send(Message::ScanStop(self.queue.number));
    }

    /// For a point in time, visits the delivered sectors and asks for each extent whether it is
    /// kept by now and may be overwritten.
    pub fn keep(&self, is_kept: impl Fn(Extent) -> bool) {
        if self.queue.keep(is_kept) {
            self.send(Message::ScanRoom(self.queue.number));
        }
    }

    /// For a point in time, reports that these sectors could not be kept. A write of them then
    /// proceeds at once and ends the point in time. Until then, they may be read
    /// [again](ScanFeed::again).
    pub fn not_kept(&self, extent: Extent) {
        if self.queue.not_kept(extent) {
            self.send(Message::ScanRoom(self.queue.number));
        }
    }

    /// Requests delivered sectors again, such as sectors that could not be kept.
    pub fn again(&self, requested: PendingSectors) {
        self.send(Message::ScanAgain(self.queue.number, requested));
    }

    /// A closing drive accepts no messages and ends its scans by itself.
    fn send(&self, message: Message) {
        let _ = self.link.send(message);
    }
}

impl Drop for ScanFeed {
    fn drop(&mut self) {
        self.stop();
    }
}
