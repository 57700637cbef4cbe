//! [`TakenWrites`]: the writes that the drive's cache has taken at once, and what continues them.

use headtime_units::Lba;
use smallvec::SmallVec;

use crate::drive::Outstanding;
use crate::positioning::{AccessKind, Target};
use crate::request::Op;

/// The number of ends in memory (guess: more than writers in sequence at a time).
const ENDS: usize = 16;

/// The ends of the last writes, the latest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends(SmallVec<[Lba; ENDS]>);

impl Ends {
    fn contains(&self, start: Lba) -> bool {
        self.0.contains(&start)
    }

    /// Removes the end at which a write starts; returns whether there is one.
    pub(crate) fn take(&mut self, start: Lba) -> bool {
        let place = self.0.iter().position(|end| *end == start);
        place.map(|place| self.0.remove(place)).is_some()
    }

    pub(crate) fn note(&mut self, end: Lba) {
        self.0.truncate(ENDS - 1);
        self.0.insert(0, end);
    }
}

/// The ends of the last writes that the drive's cache took at once. It has room for what continues
/// them, also where it has none for others.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenWrites(Ends);

impl TakenWrites {
    /// Returns whether the cache probably takes a command at once that is not forced to the medium.
    pub(crate) fn probably_take(&self, target: &Target) -> bool {
        target.op == Op::Write && self.0.contains(target.extent.start)
    }

    /// Notes a command that is done: [`AccessKind::CacheHit`] if the drive needed no head for it.
    pub(crate) fn done(&mut self, command: &Outstanding, kind: AccessKind) {
        if command.target.op != Op::Write || command.fua {
            return;
        }
        let extent = command.target.extent;
        self.0.take(extent.start);
        if kind == AccessKind::CacheHit {
            self.0.note(extent.end());
        }
    }
}
