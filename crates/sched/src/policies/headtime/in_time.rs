//! Deadlines: whether they are met if a command goes next, and what goes if not.

use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

use super::Headtime;
use crate::command::Finished;
use crate::policy::View;
use crate::positioning::{Head, Target};
use crate::queue::{Queued, Ticket};

/// The number of deadlines that may be missed before only the cost of requests counts: with more,
/// the drive is overloaded, and the cheapest request leaves the most time for the others (guess:
/// with 1, loads that the drive can carry miss up to 0.1 points more).
const FEW: usize = 2;
/// Revolutions after which a late request no longer waits for cheaper ones (guess: a quarter of a
/// second at 7,200 rpm).
const PATIENCE_REVOLUTIONS: u64 = 32;

/// A request in time takes this fraction of the learned time to spare away (guess: misses stay
/// below one in a hundred, and are forgotten within a minute).
const FORGETS: u64 = 256;
/// The maximum time that one late request adds (guess: two revolutions; a drive that hangs once
/// says little).
const MAX_AT_ONCE: Nanos = Nanos::from_ms(16);

/// From this share of disk time on nothing is learned to spare: the deadlines compete with each
/// other, and the more time each has to spare, the fewer the order can keep (guess: half).
const MANY: f64 = 0.5;

/// The time to spare that is learned from requests that were late: what the model does not know,
/// such as writes that the drive destages before others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    spare: Nanos,
    /// The share of disk time of requests with a deadline, over about a second.
    share: f64,
}

impl Late {
    /// Notes a request that was served.
    pub(super) fn finished(&mut self, finished: &Finished) {
        let part = finished.arm_time().as_secs_f64().min(1.0);
        let counts = f64::from(finished.request.deadline.is_some());
        self.share += (counts - self.share) * part;
        let Some(deadline) = finished.request.deadline else { return };
        let late = finished.finished.saturating_since(deadline);
        self.spare = match late.is_zero() {
            true => self.spare - self.spare / FORGETS,
            false => self.spare + late.min(MAX_AT_ONCE),
        };
        self.spare = self.spare.min(deadline.saturating_since(finished.submitted) / 2);
    }

    /// The additional time to spare before the deadline of a request.
    fn of(self, queued: &Queued) -> Nanos {
        if self.share >= MANY {
            return Nanos::ZERO;
        }
        self.spare.min(due(queued).saturating_since(queued.submitted) / 2)
    }
}

impl Headtime {
    /// Returns whether every deadline is met if nothing goes before the drive is ready. How long a
    /// flush takes is not known.
    pub(super) fn allows_wait_at_drive(&self, view: &View<'_>) -> bool {
        let ready_is_known = view.flush_may_go() || view.queue.with_deadline().next().is_none();
        ready_is_known && self.allows(view, view.ready_at(), None)
    }

    /// Returns whether every deadline among the first `walk` is met when `first` goes next, if it
    /// is given, no command goes before `from`, and the others follow in the order of their
    /// deadlines. While a request is late, only requests with a deadline go.
    pub(super) fn allows(
        &self,
        view: &View<'_>,
        from: Instant,
        first: Option<(&[Ticket], &Target)>,
    ) -> bool {
        let Some(earliest) = view.queue.with_deadline().next() else { return true };
        let has_deadline = |ticket: &Ticket| {
            view.queue.get(*ticket).is_some_and(|queued| queued.deadline.is_some())
        };
        let tickets = first.map_or(&[][..], |(tickets, _)| tickets);
        if due(earliest) <= view.now && !tickets.iter().any(has_deadline) {
            return false;
        }
        self.missed(view, from, first).next().is_none()
    }

    /// The requests among the first `walk` by deadline that miss theirs when `first` goes next, no
    /// command goes before `from`, and the others follow by deadline. One that is late already does
    /// not count.
    fn missed<'a>(
        &self,
        view: &'a View<'_>,
        from: Instant,
        first: Option<(&'a [Ticket], &'a Target)>,
    ) -> impl Iterator<Item = &'a Queued> {
        let tickets = first.map_or(&[][..], |(tickets, _)| tickets);
        let tail = Nanos::from_ns(
            (view.belief.revolution().as_ns() as f64 * self.tail_revolutions) as u64,
        );
        let late = self.late;
        let mut head = *view.head();
        // The head follows most likely times, because only those end at a real angle; the
        // additional expected time is summed separately.
        let mut beyond_ns: i64 = 0;
        let mut finish = move |target: &Target| {
            let estimate = view.belief.estimate(&head, from, target);
            head = Head::after(target, estimate.finish());
            beyond_ns += estimate.expected.as_ns() as i64 - estimate.positioning.as_ns() as i64;
            estimate.finish().offset_by_ns(beyond_ns.max(0))
        };
        let first_finish = first.map(|(_, target)| finish(target));
        let chosen = tickets.iter().filter_map(|ticket| view.queue.get(*ticket));
        let chosen = chosen.zip(first_finish.into_iter().cycle());
        let others = view
            .queue
            .with_deadline()
            .take(self.walk)
            .filter(move |queued| !tickets.contains(&queued.ticket) && due(queued) > view.now)
            .map(move |queued| (queued, finish(&queued.target)));
        let in_time = move |(queued, finish): &(&Queued, Instant)| {
            *finish + tail + late.of(queued) <= due(queued) || due(queued) <= view.now
        };
        chosen.chain(others).filter(move |finish| !in_time(finish)).map(|(queued, _)| queued)
    }

    /// Of the first `walk` requests by deadline, the cheapest of those after which the fewest miss
    /// theirs, if these are few; otherwise the cheapest. A very late request goes at once.
    pub(super) fn choose_urgent(&self, view: &View<'_>) -> Option<Ticket> {
        let patience = view.belief.revolution() * PATIENCE_REVOLUTIONS;
        if let Some(first) =
            view.queue.with_deadline().next().filter(|first| due(first) + patience < view.now)
        {
            return Some(first.ticket);
        }
        let mut by_cost: Vec<&Queued> = view.queue.with_deadline().take(self.walk).collect();
        by_cost.sort_by_cached_key(|queued| {
            (view.estimate(queued).expected_cost(view.now), queued.ticket)
        });
        let (mut first, mut fewest) = (by_cost.first(), FEW + 1);
        for queued in &by_cost {
            let then = Some((&[queued.ticket][..], &queued.target));
            let missed = self.missed(view, view.now, then).take(fewest).count();
            if missed < fewest {
                (first, fewest) = (Some(queued), missed);
            }
            if missed == 0 {
                break;
            }
        }
        first.map(|queued| queued.ticket)
    }
}

fn due(queued: &Queued) -> Instant {
    queued.deadline.unwrap_or(Instant::NEVER)
}
