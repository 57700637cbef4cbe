//! The volumes with answered writes that no flush covers yet, and the volumes to be informed that a
//! drive may have lost their writes.
//!
//! A drive that disappears and returns may have lost the content of its cache. Its writes were
//! answered, so only the next request for durability can report the loss. For each volume with
//! unflushed writes, the first flush fails once, as `fsync` does in Linux after a failed
//! write-back.
//!
//! Example: volumes 1 and 2 write, volume 2 flushes, and the connection is lost. The next flush of
//! volume 1 fails, and later ones succeed. No flush of volume 2 fails.

use std::collections::{BTreeMap, BTreeSet};

use headtime_sched::VolumeId;

/// The unflushed writes of one drive.
#[derive(Default)]
pub(super) struct Unflushed {
    /// The number of writes answered so far.
    answered: u64,
    /// The number of each volume's last answered write that no flush covers.
    last: BTreeMap<VolumeId, u64>,
    /// Volumes to be informed of a loss.
    lost: BTreeSet<VolumeId>,
    /// The drive's losses recorded so far.
    losses: u64,
}

impl Unflushed {
    /// Records an answered change of sectors that is not durable by itself.
    pub(super) fn answered(&mut self, volume: VolumeId) {
        self.answered += 1;
        self.last.insert(volume, self.answered);
    }

    /// Returns the number of writes that a flush sent now will cover.
    pub(super) fn covered_now(&self) -> u64 {
        self.answered
    }

    /// Records that the drive completed a flush with this coverage.
    pub(super) fn flushed(&mut self, covers: u64) {
        self.last.retain(|_, last| *last > covers);
    }

    /// Records the drive's total number of losses.
    pub(super) fn note_losses(&mut self, losses: u64) {
        if losses > self.losses {
            self.losses = losses;
            self.lost.extend(std::mem::take(&mut self.last).into_keys());
        }
    }

    /// Returns true if the flush of this volume that is answered now must report lost writes, which
    /// happens once for each loss.
    pub(super) fn report_loss(&mut self, volume: VolumeId) -> bool {
        self.lost.remove(&volume)
    }

    /// Returns true if a volume has not been informed yet.
    pub(super) fn has_unreported_loss(&self) -> bool {
        !self.lost.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: VolumeId = VolumeId(1);
    const B: VolumeId = VolumeId(2);

    #[test]
    fn each_volume_with_unflushed_writes_gets_a_loss_reported_once() {
        let mut books = Unflushed::default();
        books.answered(A);
        books.answered(B);
        let covers = books.covered_now();
        books.answered(A);
        books.flushed(covers);
        books.note_losses(1);
        assert!(books.has_unreported_loss());
        assert!(!books.report_loss(B), "what B wrote was flushed");
        assert!(books.report_loss(A) && !books.report_loss(A));
        books.answered(B);
        books.note_losses(1);
        assert!(!books.report_loss(B), "the loss was before its write");
        books.note_losses(2);
        assert!(books.report_loss(B) && !books.has_unreported_loss());
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_was_sent_and_nothing_else() {
        let mut books = Unflushed::default();
        let covers = books.covered_now();
        books.answered(A);
        books.flushed(covers);
        books.note_losses(1);
        assert!(books.report_loss(A));
    }
}
