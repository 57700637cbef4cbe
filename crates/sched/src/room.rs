//! The room in a write cache that several arms of a drive share.
//!
//! Once such a cache is full, each write waits until another has been destaged. An arm whose
//! clients write more than it destages takes all room that becomes free, and the writes for another
//! arm wait after its own, though that arm is idle. So an arm that has written much more than
//! another leaves room for that one's writes.
//!
//! Worked example, two arms: four clients write 1 MiB each in sequence to the first, one writes
//! 128 KiB in sequence to the second. With the cache full, the second arm writes 7 MiB/s of the
//! 235 MiB/s that it has alone. The first has transferred for 1 s in the last second, the second
//! for 0.03 s: whenever a write of the second has waited, the first sends none for a revolution,
//! which the writes in the cache keep it busy for. The second writes 116 MiB/s then, and the first
//! no less than before.

use headtime_units::{Instant, Nanos};

use crate::drive::Outstanding;
use crate::policies::written::DESTAGED;
use crate::policy::View;
use crate::request::Op;
use crate::taken::Ends;

/// The writes into the cache that one of several arms destages.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenOfArm {
    ends: Ends,
    /// The time that the arm needs for those of about the last second, in seconds.
    time: f64,
    last: Option<Instant>,
    /// The completion of the last one that waited for room.
    waited: Option<Instant>,
    /// The completion of the last one, if no flush was sent since.
    unflushed: Option<Instant>,
}

/// The use that the other arms of a drive make of the cache that they share with one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OtherArms {
    /// True if one has writes at the drive that go into the cache.
    pub(crate) write: bool,
    /// True if one has written to the cache since the last flush was sent.
    pub(crate) are_unflushed: bool,
    /// The time until which one that has written much less needs the room that becomes free.
    pub(crate) need_room_until: Option<Instant>,
}

/// An arm has written much more than another if it has so many times as much to destage (guess: at
/// the same load each has half of the cache, more or less).
const MUCH_MORE: f64 = 2.0;
/// The time for which an arm leaves room after a write of another has waited, in revolutions.
/// Measured on `exos-2x18` with pairs of writers in sequence, one for each arm: with 1, the one
/// that had 1 to 3 % of its rate alone has half of it and the other no less than before; with 3,
/// two thirds, and the other half as much.
const REVOLUTIONS: u64 = 1;
/// A write that is at the drive for longer waits for something else (guess).
const LONGEST_WAIT: Nanos = Nanos::from_secs(1);

impl WrittenOfArm {
    /// Notes a write into the cache that finished.
    pub(crate) fn wrote(&mut self, command: &Outstanding, finished: Instant, revolution: Nanos) {
        let extent = command.target.extent;
        // Elsewhere the way there takes about a revolution.
        let way = if self.ends.take(extent.start) { Nanos::ZERO } else { revolution };
        self.ends.note(extent.end());
        self.time = self.time(finished) + (way + command.target.transfer).as_secs_f64();
        (self.last, self.unflushed) = (Some(finished), Some(finished));
        if command.dispatched + DESTAGED < finished {
            self.waited = Some(finished);
        }
    }

    /// Notes that the writes that were done at `sent` have been flushed.
    pub(crate) fn flushed(&mut self, sent: Instant) {
        self.unflushed = self.unflushed.filter(|last| *last > sent);
    }

    fn time(&self, now: Instant) -> f64 {
        let since = self.last.map_or(Nanos::ZERO, |last| now.saturating_since(last));
        self.time * libm::exp(-since.as_secs_f64())
    }
}

impl OtherArms {
    /// Of the arm number `arm`, in the view of all.
    pub(crate) fn of(view: &View<'_>, arm: usize) -> Self {
        if !view.belief.takes_into_cache(Op::Write) {
            return Self::default();
        }
        let in_cache = |command: &&Outstanding| command.target.op == Op::Write && !command.fua;
        let waits = |command: &Outstanding| {
            let at_drive = view.now.saturating_since(command.dispatched);
            (DESTAGED..LONGEST_WAIT).contains(&at_drive)
        };
        let own = view.arms[arm].written.time(view.now);
        let mut all = Self::default();
        for other in view.belief.arms().beside(arm, view.belief.capacity()) {
            let state = &view.arms[other];
            let mut writes = state.commands.iter().filter(in_cache).peekable();
            all.write |= writes.peek().is_some();
            all.are_unflushed |= state.written.unflushed.is_some();
            if own > state.written.time(view.now) * MUCH_MORE {
                let waited = if writes.any(waits) { Some(view.now) } else { state.written.waited };
                let until = waited.map(|at| at + view.belief.revolution() * REVOLUTIONS);
                all.need_room_until = all.need_room_until.max(until.filter(|at| *at > view.now));
            }
        }
        all
    }
}
