//! [`Job`]: one extent read for scans, in one command or several, until every sector of it is read
//! or abandoned.
//!
//! A job has a ticket as requests do, and is in the order of overlapping requests from its
//! beginning to its end, so that its sectors are not overwritten before they are read. Each command
//! reads a piece. A failed piece is divided into eight, and those again, down to one block: for 256
//! sectors with a bad one among them 1 + 8 + 8 + 4 commands are sent, of which four fail.
//!
//! A write that must wait for a job makes it *urgent*: it alternates with the scheduler's own
//! commands, and a failed piece is abandoned at once, because a client waits. Any other job that
//! has failed is *deferred*: it continues in idle time, or in time that the bound on impact has
//! saved up.
//!
//! A background write is a job, too: it is deferred from its beginning, and ends with its first
//! failure.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Sectors};

use super::scans::{Claim, without};
use crate::background::{BackgroundWriteId, FillSource};
use crate::command::Outcome;
use crate::request::Op;

/// Into how many parts a failed piece is cut (guess: of a bad sector in 2,048, halving would fail
/// eleven times, this four times).
const PARTS: u64 = 8;

/// The sectors read for scans, or written, under one ticket.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The whole extent, as entered into the order of overlapping requests.
    pub(crate) extent: Extent,
    /// The pieces to send, in order.
    pub(crate) pieces: VecDeque<Extent>,
    /// Commands at the drive.
    pub(crate) at_drive: usize,
    /// The claims to deliver.
    pub(crate) claims: Vec<Claim>,
    pub(crate) source: FillSource,
    /// True if a request waits for it, or it was made because one will.
    pub(crate) urgent: bool,
    /// True if it must wait for an earlier request on the same sectors.
    pub(crate) waits: bool,
    /// The earliest deadline of those that wait for it.
    pub(crate) deadline: Option<Instant>,
    /// The write and its outcome so far; `None` for a read.
    pub(crate) write: Option<(BackgroundWriteId, Outcome)>,
}

impl Job {
    /// A job that reads `extent` for `claims` and waits for no request.
    pub(crate) fn new(extent: Extent, claims: Vec<Claim>, source: FillSource) -> Self {
        Self {
            extent,
            pieces: VecDeque::new(),
            at_drive: 0,
            claims,
            source,
            urgent: false,
            waits: false,
            deadline: None,
            write: None,
        }
    }

    /// A write of `extent`.
    pub(crate) fn write(extent: Extent, id: BackgroundWriteId) -> Self {
        Self {
            pieces: [extent].into(),
            write: Some((id, Outcome::Success)),
            ..Self::new(extent, Vec::new(), FillSource::Idle)
        }
    }

    /// The operation of its commands.
    pub(crate) fn op(&self) -> Op {
        if self.write.is_some() { Op::Write } else { Op::Read }
    }

    /// Ends a write with a failure. Commands at the drive are still waited for.
    pub(crate) fn fail_write(&mut self, errno: i32) {
        if let Some((_, outcome)) = &mut self.write {
            *outcome = Outcome::Failed(errno);
            self.pieces.clear();
        }
    }

    /// Returns whether a piece can be sent now.
    pub(crate) fn may_go(&self) -> bool {
        !self.waits && !self.pieces.is_empty()
    }

    /// Returns whether the job is finished.
    pub(crate) fn is_over(&self) -> bool {
        self.pieces.is_empty() && self.at_drive == 0
    }

    /// The next piece to send, at most `most` sectors.
    pub(crate) fn next_piece(&self, most: Sectors) -> Option<Extent> {
        self.pieces.front().map(|piece| Extent::new(piece.start, piece.len.min(most)))
    }

    /// Removes and returns the next piece to send, at most `most` sectors.
    pub(crate) fn take_piece(&mut self, most: Sectors) -> Option<Extent> {
        let piece = self.pieces.pop_front()?;
        if piece.len <= most {
            return Some(piece);
        }
        let taken = Extent::new(piece.start, most);
        self.pieces.extend(without(piece, taken));
        // The rest of the piece is sent next, before the others.
        self.pieces.rotate_right(1);
        Some(taken)
    }

    /// Removes the claims within `piece`, splitting those that extend beyond it.
    pub(crate) fn take_claims(&mut self, piece: Extent) -> Vec<Claim> {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for claim in self.claims.drain(..) {
            let Some(inside) = claim.extent.intersection(piece) else {
                left.push(claim);
                continue;
            };
            taken.push(Claim { extent: inside, ..claim });
            left.extend(without(claim.extent, inside).map(|extent| Claim { extent, ..claim }));
        }
        self.claims = left;
        taken
    }

    /// Returns whether a claim needs any of `piece`.
    pub(crate) fn is_pending(&self, piece: Extent) -> bool {
        self.claims.iter().any(|claim| claim.extent.overlaps(piece))
    }

    /// Divides a failed piece into parts of whole blocks of `grain`, which are tried again; `false`
    /// when it lies within one block.
    pub(crate) fn retry(&mut self, piece: Extent, grain: Sectors) -> bool {
        let grain = grain.get().max(1);
        if piece.start.get() / grain == piece.last().get() / grain {
            return false;
        }
        let step = (piece.len.get().div_ceil(PARTS * grain) * grain).max(grain);
        let mut at = piece.start.get();
        while at < piece.end().get() {
            // Parts end at whole blocks of the drive, so that one bad block is in one part.
            let end = ((at + step) / grain * grain).max(at + 1).min(piece.end().get());
            let part = Extent::from_numbers(at, end - at);
            if self.is_pending(part) {
                self.pieces.push_back(part);
            }
            at = end;
        }
        true
    }

    /// Removes pieces that no claim needs any more.
    pub(crate) fn drop_unneeded(&mut self) {
        if self.write.is_some() {
            return;
        }
        let pieces = core::mem::take(&mut self.pieces);
        self.pieces = pieces.into_iter().filter(|piece| self.is_pending(*piece)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::ScanId;
    use alloc::vec;

    fn job(start: u64, len: u64) -> Job {
        let extent = Extent::from_numbers(start, len);
        Job::new(extent, vec![Claim { scan: ScanId(1), extent }], FillSource::Gap)
    }

    #[test]
    fn a_failed_piece_is_cut_down_to_the_bad_block_and_all_others_are_read() {
        let (bad, mut sent, mut read) = (300_u64, 0, 0);
        let mut job = job(100, 256);
        job.pieces.push_back(job.extent);
        let mut given_up = Vec::new();
        while let Some(piece) = job.take_piece(Sectors::new(1 << 20)) {
            sent += 1;
            if !piece.contains(headtime_units::Lba::new(bad)) {
                read +=
                    job.take_claims(piece).iter().map(|claim| claim.extent.len.get()).sum::<u64>();
            } else if !job.retry(piece, Sectors::new(8)) {
                given_up.extend(job.take_claims(piece));
            }
        }
        assert_eq!(given_up, [Claim { scan: ScanId(1), extent: Extent::from_numbers(296, 8) }]);
        assert_eq!((read, job.claims.is_empty(), job.is_over()), (248, true, true));
        assert!(sent < 20, "{sent} commands");
    }

    #[test]
    fn a_long_job_goes_piece_by_piece_in_order() {
        let mut job = job(0, 20);
        job.pieces.extend([Extent::from_numbers(0, 9), Extent::from_numbers(12, 8)]);
        let pieces: Vec<u64> = core::iter::from_fn(|| job.take_piece(Sectors::new(4)))
            .map(|piece| piece.start.get())
            .collect();
        assert_eq!(pieces, [0, 4, 8, 12, 16]);
    }
}
