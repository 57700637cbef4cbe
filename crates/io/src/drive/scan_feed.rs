//! Background reads for whoever embeds a drive: a [`ScanFeed`] brings the sectors that a scan
//! wants, in whatever order the drive comes by them.
//!
//! ```text
//! start_scan(requested) ─► scheduler ─► gaps, idle time ─► drive
//!                                                        │ read, or failed
//!  feed.next() ◄── bounded queue ◄────── engine ◄────────┘
//! ```
//! The queue is bounded in bytes. When whoever takes from it is slow, the scan waits and nobody
//! else does.
//!
//! A scan of *a point in time* sees every sector as it was when it started. The scheduler reads
//! what is about to be overwritten; beyond that, the engine holds such a write until what was read
//! is *kept* ([`ScanFeed::keep`]), so that a program that is killed has lost nothing. A write is
//! held for at most [`MAX_HELD`]; then, or when what was read could not be kept
//! ([`ScanFeed::not_kept`]), the write goes and the scan has lost its point in time
//! ([`ScanEvent::Overtaken`]).
//!
//! Whether sectors were written through the engine between two scans, or during one, is kept in
//! [`WriteMarks`].

use std::sync::Arc;
use std::time::Duration;

use headtime_sched::PendingSectors;
use headtime_units::Extent;

use crate::drive::link::DriveLink;
use crate::engine::mailbox::Message;
use crate::engine::scan_queue::{ScanEvent, ScanQueue};

/// Takes what a scan reads. Dropping it stops the scan.
pub struct ScanFeed {
    pub(crate) queue: Arc<ScanQueue>,
    pub(crate) link: Arc<DriveLink>,
}

impl ScanFeed {
    /// The next event; `None` when nothing came within `patience`.
    #[must_use]
    pub fn next(&self, patience: Duration) -> Option<ScanEvent> {
        let (event, room) = self.queue.take(patience);
        if room {
            self.send(Message::ScanRoom(self.queue.number));
        }
        event
    }

    /// Stops reading until [`ScanFeed::resume`]. What is at the drive still comes, and what a point
    /// in time would lose.
    pub fn pause(&self) {
        self.send(Message::ScanPause(self.queue.number));
    }

    /// Reads on.
    pub fn resume(&self) {
        self.send(Message::ScanResume(self.queue.number));
    }

    /// Stops the scan; what has come so far can still be taken, then comes [`ScanEvent::Closed`].
    pub fn stop(&self) {
        self.queue.end(None);
        self.send(Message::ScanStop(self.queue.number));
    }

    /// Of a point in time: looks at what has been told and asks of each whether it is kept by now,
    /// so that it may be overwritten.
    pub fn keep(&self, is_kept: impl Fn(Extent) -> bool) {
        if self.queue.keep(is_kept) {
            self.send(Message::ScanRoom(self.queue.number));
        }
    }

    /// Of a point in time: these sectors could not be kept. A write of them goes at once and ends
    /// the point in time; until then they may be read [again](ScanFeed::again).
    pub fn not_kept(&self, extent: Extent) {
        if self.queue.not_kept(extent) {
            self.send(Message::ScanRoom(self.queue.number));
        }
    }

    /// Wants these sectors again that were told before, such as those that could not be kept.
    pub fn again(&self, requested: PendingSectors) {
        self.send(Message::ScanAgain(self.queue.number, requested));
    }

    /// A closing drive takes no messages and ends its scans by itself.
    fn send(&self, message: Message) {
        let _ = self.link.send(message);
    }
}

impl Drop for ScanFeed {
    fn drop(&mut self) {
        self.stop();
    }
}
