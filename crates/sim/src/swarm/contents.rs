//! What the sectors hold, and what each read ought to have seen.
//!
//! Every write, zero and discard is a version of its sectors. The platters hold the version that landed last; a read sees the versions that were there when
//! it landed. What it *may* see follows from the order of submission alone: of the requests on a sector that were submitted before it, the latest that
//! succeeded, or a later one that failed or was cancelled at the drive, which may have landed or not. A discard leaves anything.

use std::collections::BTreeMap;

use headtime_sched::{CommandId, Op, Request, RequestId};
use headtime_units::{Extent, Lba};

use crate::drive::Landing;

/// Versions on the platters, and the history from which the right ones follow.
#[derive(Default)]
pub(super) struct Contents {
    /// The version each sector holds; sectors never written hold none.
    platters: BTreeMap<Lba, RequestId>,
    /// Requests that changed each sector, in the order of submission.
    history: BTreeMap<Lba, Vec<RequestId>>,
    fates: BTreeMap<RequestId, (Op, Fate)>,
    /// What commands at the drive carry, until they land.
    cargo: BTreeMap<CommandId, Vec<Request>>,
    /// What each landed read saw of its sectors, in their order.
    seen: BTreeMap<RequestId, Vec<Option<RequestId>>>,
}

/// What became of a request that changes sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The drive has not done it yet.
    Open,
    /// It landed. A forced write may still wait for its flush, but what it wrote is there.
    Done,
    /// It may have landed.
    Doubtful,
    /// It never went to the drive.
    Removed,
}

impl Contents {
    pub(super) fn submitted(&mut self, request: &Request) {
        if request.op.changes_sectors() {
            self.fates.insert(request.id, (request.op, Fate::Open));
            for lba in sectors(request.extent) {
                self.history.entry(lba).or_default().push(request.id);
            }
        }
    }

    pub(super) fn dispatched(&mut self, command: CommandId, requests: Vec<Request>) {
        self.cargo.insert(command, requests);
    }

    /// The request is over, or may be forgotten as one that was cancelled.
    pub(super) fn settled(&mut self, id: RequestId, fate: Fate) {
        if let Some((_, open)) = self.fates.get_mut(&id) {
            *open = fate;
        }
    }

    pub(super) fn landed(&mut self, landing: &Landing) {
        for request in self.cargo.remove(&landing.command).unwrap_or_default() {
            if landing.op == Op::Read {
                let seen = sectors(request.extent).map(|lba| self.platters.get(&lba).copied()).collect();
                self.seen.insert(request.id, seen);
            } else {
                self.platters.extend(sectors(request.extent).map(|lba| (lba, request.id)));
            }
        }
    }

    /// Holds what a successful read saw against what it may have seen.
    pub(super) fn check_read(&mut self, read: &Request) -> Result<(), String> {
        let seen = self.seen.remove(&read.id).ok_or_else(|| format!("read {} succeeded but never came to the media", read.id.0))?;
        for (lba, seen) in sectors(read.extent).zip(seen) {
            self.check(lba, seen, read.id).map_err(|error| format!("read {}: {error}", read.id.0))?;
        }
        Ok(())
    }

    /// Holds the platters against what all requests together should have left.
    pub(super) fn check_end(&self) -> Result<(), String> {
        let end = RequestId(u64::MAX);
        self.history.keys().try_for_each(|lba| self.check(*lba, self.platters.get(lba).copied(), end).map_err(|error| format!("in the end {error}")))
    }

    /// Whether `version` may be what `lba` shows to someone who was submitted just before `before`.
    fn check(&self, lba: Lba, version: Option<RequestId>, before: RequestId) -> Result<(), String> {
        let earlier = self.history.get(&lba).into_iter().flatten().rev().filter(|id| **id < before);
        for id in earlier {
            match self.fates[id] {
                (_, Fate::Removed) => {}
                (_, Fate::Open) => return Err(format!("sector {lba} was passed by a later request: {} has not finished", id.0)),
                (Op::Discard, _) => return Ok(()),
                _ if version == Some(*id) => return Ok(()),
                (_, Fate::Done) => return Err(format!("sector {lba} shows {}, should show request {}", name(version), id.0)),
                (_, Fate::Doubtful) => {}
            }
        }
        if version.is_none() { Ok(()) } else { Err(format!("sector {lba} shows {}, should never have been written", name(version))) }
    }
}

fn sectors(extent: Extent) -> impl Iterator<Item = Lba> {
    (extent.start.get()..extent.end().get()).map(Lba::new)
}

fn name(version: Option<RequestId>) -> String {
    version.map_or_else(|| "nothing ever written".to_owned(), |id| format!("request {}", id.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::{StreamId, VolumeId};
    use headtime_units::Instant;

    fn request(id: u64, op: Op, start: u64, len: u64) -> Request {
        let extent = Extent::from_numbers(start, len);
        Request { id: RequestId(id), volume: VolumeId(0), stream: StreamId(0), op, extent, fua: false, deadline: None }
    }

    /// Lets requests land in the order given; each has been submitted in the order of its number.
    fn contents(submitted: &[Request], landing: &[Request]) -> Contents {
        let mut contents = Contents::default();
        submitted.iter().for_each(|request| contents.submitted(request));
        for (command, request) in (0..).map(CommandId).zip(landing) {
            contents.dispatched(command, vec![*request]);
            contents.landed(&Landing { command, op: request.op, extent: request.extent, at: Instant::ORIGIN });
            contents.settled(request.id, Fate::Done);
        }
        contents
    }

    #[test]
    fn a_read_that_sees_the_write_before_it_is_right_and_one_that_misses_it_is_not() {
        let (write, read) = (request(1, Op::Write, 0, 4), request(2, Op::Read, 3, 2));
        assert_eq!(contents(&[write, read], &[write, read]).check_read(&read), Ok(()));
        let passed = contents(&[write, read], &[read, write]).check_read(&read);
        assert_eq!(passed, Err("read 2: sector 3 shows nothing ever written, should show request 1".to_owned()));
    }

    #[test]
    fn a_read_must_not_see_a_write_submitted_after_it() {
        let (read, write) = (request(1, Op::Read, 0, 1), request(2, Op::Write, 0, 1));
        let seen = contents(&[read, write], &[write, read]).check_read(&read);
        assert_eq!(seen, Err("read 1: sector 0 shows request 2, should never have been written".to_owned()));
    }

    #[test]
    fn doubtful_writes_may_show_or_not_and_discards_leave_anything() {
        let (old, doubtful, read) = (request(1, Op::Write, 0, 1), request(2, Op::Write, 0, 1), request(3, Op::Read, 0, 1));
        for landing in [&[old, read][..], &[old, doubtful, read][..]] {
            let mut contents = contents(&[old, doubtful, read], landing);
            contents.settled(doubtful.id, Fate::Doubtful);
            assert_eq!(contents.check_read(&read), Ok(()));
        }
        let discard = request(2, Op::Discard, 0, 1);
        let mut discarded = contents(&[old, discard, read], &[old, read]);
        discarded.settled(discard.id, Fate::Done);
        assert_eq!(discarded.check_read(&read), Ok(()));
    }

    #[test]
    fn in_the_end_the_last_write_stands_and_a_cancelled_one_does_not() {
        let (first, last) = (request(1, Op::Write, 0, 1), request(2, Op::Write, 0, 1));
        assert_eq!(contents(&[first, last], &[first, last]).check_end(), Ok(()));
        let swapped = contents(&[first, last], &[last, first]).check_end();
        assert_eq!(swapped, Err("in the end sector 0 shows request 1, should show request 2".to_owned()));
        let mut cancelled = contents(&[first, last], &[first, last]);
        cancelled.settled(last.id, Fate::Removed);
        assert_eq!(cancelled.check_end(), Err("in the end sector 0 shows request 2, should show request 1".to_owned()));
    }
}
