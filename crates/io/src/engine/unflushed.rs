//! Which volumes have answered writes that no flush covers yet, and which of them must hear that a
//! drive may have lost theirs.
//!
//! A drive that vanishes and comes back may have lost what was in its cache. The writes were
//! answered, so the only one left to tell is whoever asks for durability next: of each volume that
//! had unflushed writes, the first flush fails once, as `fsync` does after a failed write-back in
//! Linux.
//!
//! Example: volumes 1 and 2 write, 2 flushes, the connection is lost. The next flush of 1 fails,
//! the one after it does not; 2 never notices.

use std::collections::{BTreeMap, BTreeSet};

use headtime_sched::VolumeId;

/// The books of one drive.
#[derive(Default)]
pub(super) struct Unflushed {
    /// Writes answered so far, counted.
    answered: u64,
    /// Each volume's last answered write that no flush covers, by that count.
    last: BTreeMap<VolumeId, u64>,
    /// Volumes that must hear of a loss.
    lost: BTreeSet<VolumeId>,
    /// The drive's losses recorded so far.
    losses: u64,
}

impl Unflushed {
    /// A change of sectors was answered that is not durable by itself.
    pub(super) fn answered(&mut self, volume: VolumeId) {
        self.answered += 1;
        self.last.insert(volume, self.answered);
    }

    /// The writes that a flush sent now will cover.
    pub(super) fn covered_now(&self) -> u64 {
        self.answered
    }

    /// The drive has done a flush that covers this.
    pub(super) fn flushed(&mut self, covers: u64) {
        self.last.retain(|_, last| *last > covers);
    }

    /// The drive counts this many losses in all.
    pub(super) fn note_losses(&mut self, losses: u64) {
        if losses > self.losses {
            self.losses = losses;
            self.lost.extend(std::mem::take(&mut self.last).into_keys());
        }
    }

    /// A flush of this volume is answered: whether it has to say that writes may be lost. It has to
    /// once.
    pub(super) fn must_hear(&mut self, volume: VolumeId) -> bool {
        self.lost.remove(&volume)
    }

    /// Returns true if a volume has not been informed yet.
    pub(super) fn has_untold_loss(&self) -> bool {
        !self.lost.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: VolumeId = VolumeId(1);
    const B: VolumeId = VolumeId(2);

    #[test]
    fn each_volume_with_unflushed_writes_hears_of_a_loss_once() {
        let mut books = Unflushed::default();
        books.answered(A);
        books.answered(B);
        let covers = books.covered_now();
        books.answered(A);
        books.flushed(covers);
        books.note_losses(1);
        assert!(books.has_untold_loss());
        assert!(!books.must_hear(B), "what B wrote was flushed");
        assert!(books.must_hear(A) && !books.must_hear(A));
        books.answered(B);
        books.note_losses(1);
        assert!(!books.must_hear(B), "the loss was before its write");
        books.note_losses(2);
        assert!(books.must_hear(B) && !books.has_untold_loss());
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_was_sent_and_nothing_else() {
        let mut books = Unflushed::default();
        let covers = books.covered_now();
        books.answered(A);
        books.flushed(covers);
        books.note_losses(1);
        assert!(books.must_hear(A));
    }
}
