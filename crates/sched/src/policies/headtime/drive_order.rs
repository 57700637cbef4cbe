//! Requests whose order is left to the drive.

use headtime_units::{Instant, Nanos};

use super::{Headtime, OLDEST};
use crate::policies::stream_turns::LONGEST_TURN;
use crate::policies::written::is_cached_write;
use crate::policy::View;
use crate::queue::Queued;
use crate::request::Op;
use crate::streams::Owner;

/// The drive orders with these numbers of requests held, all at random. Measured on three drives:
/// with 4, it gains where 0.7 are reads and loses where 0.9 are; with more than its queue of 32
/// holds, the order of all gains.
const DRIVE_ORDERS: core::ops::Range<usize> = 5..40;
/// The drive orders if all deadlines are at least so many mean responses long. Measured on
/// `nearline-20tb` with a recorder beside 8 to 32 clients and deadlines of 60 to 400 ms: none is
/// missed.
const TIMELY_RESPONSES: u64 = 2;

/// Writes of volumes that do not flush are forced for the flushes of others with this number of
/// requests held. Measured on `nearline-20tb` and `savvio10k2` beside a client that flushes each of
/// its writes: in the cache, 2 to 4 random writers have 1.1 to 1.6 times as many requests, 6 to 8
/// beside a random client 0.95 to 1.3 times, and 1 to 32 beside a log 1.1 to 1.9 times.
const FORCED_FOR_OTHERS: usize = 6;
/// Such writes are no longer forced with this number of requests held, where runs have turns on a
/// drive that takes one command at a time. Measured on `barracuda7200-7` and `deskstar34gxp` beside
/// a log: forced, 1 to 8 random writers have 1.0 to 1.1 times as many requests, 16 and 32 half as
/// many.
const FORCED_BESIDE_TURNS: usize = 12;

impl Headtime {
    /// Returns whether the drive gets all requests as they come, because it orders writes into its
    /// cache when it destages them, whatever the policy does: no run lasts, and all were writes for
    /// a while, or writers in sequence need no turns. If the drive had time to spare lately, half
    /// are enough, or a fifth beside few reads: turns would take longer for a burst than the drive
    /// alone. Not if requests had deadlines: they would have to wait for all that is at the drive.
    /// Nor if the drive takes one command at a time: that would be order of arrival. Nor if it has
    /// several arms: the writes for one would take all room in its cache from those for the others.
    pub(super) fn drive_gets_all(&self, view: &View<'_>) -> bool {
        let written = self.best.written();
        let lately =
            |last: Option<Instant>| last.is_some_and(|last| view.now < last + Nanos::from_secs(1));
        let most = written.are_most()
            || written.are_destaged_meanwhile() && written.are_beside_few_reads(view.now);
        let with_reads =
            (most && lately(self.had_time) || written.tries_turns()) && !lately(self.had_deadline);
        let goes = |queued: &Queued| {
            let read = with_reads && queued.request.op == Op::Read;
            (read || is_cached_write(&queued.request)) && queued.deadline.is_none()
        };
        (with_reads || written.are_all(view.now))
            && !self.take_turns(view)
            && view.max_outstanding > 1
            && view.has_one_arm()
            && !written.are_forced()
            && !view.shares.any_terms()
            && view.belief.takes_into_cache(Op::Write)
            && view.queue.by_arrival().take(OLDEST).all(goes)
    }

    /// Returns whether writes take turns: those of writers in sequence where trials show that all
    /// at once cost more, any others once a run has used twenty changes.
    fn take_turns(&self, view: &View<'_>) -> bool {
        match self.best.written().tries_turns() {
            true => self.best.written().take_turns(),
            false => self.streams.streams().any_run_of(self.streams.change(view) * LONGEST_TURN),
        }
    }

    /// Returns whether turns of writers are tried: there are writes, and all are of runs. Not on a
    /// drive with several arms, whose writes share its cache.
    pub(super) fn tries_turns_of_writers(&self, view: &View<'_>) -> bool {
        let streams = self.streams.streams();
        let oldest = || view.queue.by_arrival().take(OLDEST);
        let in_sequence = |write: &Queued| {
            is_cached_write(&write.request)
                && write.deadline.is_none()
                && matches!(streams.owner(&write.request), Owner::Run(_))
        };
        self.best.written().may_take_turns(view.now)
            && view.has_one_arm()
            && !view.shares.any_terms()
            && view.belief.takes_into_cache(Op::Write)
            && oldest().any(|queued| queued.request.op == Op::Write)
            && oldest().all(|queued| queued.request.op == Op::Read || in_sequence(queued))
    }

    /// Returns whether the drive's own queue orders better: between commands the drive destages
    /// writes, for which others wait, and only it knows where its arm is then. With many requests
    /// writes are forced instead; where most are writes, the drive would destage all the time. Not
    /// while a volume has had less than its minimum part: the drive knows no volumes.
    pub(super) fn drive_orders(&self, view: &View<'_>) -> bool {
        let held = view.queue.len() + view.outstanding.len();
        let in_time = |shortest| shortest >= view.mean_response * TIMELY_RESPONSES;
        DRIVE_ORDERS.contains(&held)
            && self.streams.streams().shortest_deadline().is_none_or(in_time)
            && !self.best.written().are_forced()
            && !self.best.written().are_most()
            && !view.shares.any_terms()
            && self.best.written().are_destaged_meanwhile()
            && self.are_cached_at_random(view)
            && !self.streams.streams().any_underserved_volume()
            && self.orders.by_drive(view.now)
    }

    /// Returns whether writes of volumes that do not flush are forced because others flush. The
    /// drive orders them better in its cache than the policy orders few, and where runs have turns,
    /// it destages all of a turn together. One that takes a single command at a time orders few of
    /// them worse than the policy. Of several arms, one would wait for the cached writes of
    /// another, however many these are.
    pub(super) fn forces_for_others(&self, view: &View<'_>, held: usize) -> bool {
        let written = self.best.written();
        if !view.has_one_arm() {
            return written.were_flushed(view.now);
        }
        let any_turns = self.streams.streams().any_long_run();
        written.are_flushed_soon(held)
            && match view.max_outstanding {
                1 => !any_turns || held < FORCED_BESIDE_TURNS,
                _ => !any_turns && held >= FORCED_FOR_OTHERS,
            }
    }

    /// Returns whether the drive caches writes, and all requests are at random.
    pub(super) fn are_cached_at_random(&self, view: &View<'_>) -> bool {
        // Of several arms that are decided for together, nothing else needs it.
        self.streams.change(view);
        let streams = self.streams.streams();
        let is_slow = |queued: &Queued| streams.is_of_slow_writer(&queued.request);
        let at_random = |queued: &Queued| {
            is_slow(queued) || queued.deadline.is_none() && streams.is_at_random(&queued.request)
        };
        // The drive knows no deadlines.
        let may_wait = |queued: &Queued| is_slow(queued) || queued.deadline.is_none();
        let mut at_drive = view.outstanding.iter().flat_map(|command| &command.requests);
        view.belief.takes_into_cache(Op::Write)
            && !streams.any_long_run()
            && view.queue.by_arrival().take(OLDEST).all(at_random)
            && at_drive.all(may_wait)
    }
}
