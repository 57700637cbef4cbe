//! Requests whose order is left to the drive.

use headtime_units::{Instant, Nanos};

use super::{Headtime, OLDEST};
use crate::policies::stream_turns::LONGEST_TURN;
use crate::policies::written::is_cached_write;
use crate::policy::View;
use crate::queue::Queued;
use crate::request::Op;

/// The drive orders with these numbers of requests held, all at random. Measured on three drives:
/// with 4, it gains where 0.7 are reads and loses where 0.9 are; with more than its queue of 32
/// holds, the order of all gains.
const DRIVE_ORDERS: core::ops::Range<usize> = 5..40;
/// The drive orders if all deadlines are at least so many mean responses long. Measured on
/// `nearline-20tb` with a recorder beside 8 to 32 clients and deadlines of 60 to 400 ms: none is
/// missed.
const TIMELY_RESPONSES: u64 = 2;

impl Headtime {
    /// Returns whether the drive gets all requests as they come, because it orders writes into its
    /// cache when it destages them, whatever the policy does: no run lasts, and all were writes for
    /// a while. If the drive had time to spare lately, half are enough, or a fifth beside few
    /// reads: turns would take longer for a burst than the drive alone. Not if requests had
    /// deadlines: they would have to wait for all that is at the drive.
    pub(super) fn drive_gets_all(&self, view: &View<'_>) -> bool {
        let (written, streams) = (self.best.written(), self.streams.streams());
        let lately =
            |last: Option<Instant>| last.is_some_and(|last| view.now < last + Nanos::from_secs(1));
        let most = written.are_most()
            || written.are_destaged_meanwhile() && written.are_beside_few_reads(view.now);
        let with_reads = most && lately(self.had_time) && !lately(self.had_deadline);
        let goes = |queued: &Queued| {
            let read = with_reads && queued.request.op == Op::Read;
            (read || is_cached_write(&queued.request)) && queued.deadline.is_none()
        };
        (with_reads || written.are_all(view.now))
            && !written.are_forced()
            && !view.shares.any_terms()
            && view.belief.takes_into_cache(Op::Write)
            && !streams.any_run_of(self.streams.change(view) * LONGEST_TURN)
            && view.queue.by_arrival().take(OLDEST).all(goes)
    }

    /// Returns whether the drive's own queue orders better: between commands the drive destages
    /// writes, for which others wait, and only it knows where its arm is then. With many requests
    /// writes are forced instead; where most are writes, the drive would destage all the time.
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
    }

    /// Returns whether the drive caches writes, and all requests are at random.
    pub(super) fn are_cached_at_random(&self, view: &View<'_>) -> bool {
        // Of several arms, the instance for all decides nothing else that needs it.
        self.streams.change(view);
        let streams = self.streams.streams();
        let at_random = |queued: &Queued| {
            streams.is_of_slow_writer(&queued.request)
                || queued.deadline.is_none() && streams.is_at_random(&queued.request)
        };
        view.belief.takes_into_cache(Op::Write)
            && !streams.any_long_run()
            && view.queue.by_arrival().take(OLDEST).all(at_random)
    }
}
