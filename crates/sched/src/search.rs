//! The cheapest request without a search of all requests.
//!
//! The queue is searched outward from the head's cylinder, the nearest first. A request `d`
//! cylinders away costs at least [`seek_lower_bound(d)`](crate::Positioning::seek_lower_bound), and
//! so does every request further out. As soon as that exceeds the best cost found, no remaining
//! request can win. The choice is that of a full search: the minimum cost, among equals the lowest
//! ticket.
//!
//! With ageing the cost is multiplied by a factor that falls with age, so distance alone is no
//! bound: a request far away may be old. Two searches advance side by side, one outward by cylinder
//! and one by age from the oldest. A request in neither is at least as far as the first and at most
//! as old as the second, so it costs at least *bound at that distance × factor at that age*
//! (Fagin's threshold algorithm, applied to a product).
//!
//! Worked example, head on cylinder 100, bound 1 ms + 0.01 ms per cylinder: a request on cylinder
//! 103 costs 4 ms, the next one, on 90, 2 ms; the next is on 300, where the bound is 3 ms. It and
//! all beyond are not estimated.
//!
//! Cost: O(log n) per request visited. Of 256 random requests on a model of 100,000 cylinders 15
//! are estimated, with ageing 17. In the worst case, without a useful bound (a drive model without
//! geometry), each is estimated once.

use headtime_units::Nanos;
use smallvec::SmallVec;

use crate::policy::View;
use crate::positioning::{Estimate, Likely};
use crate::queue::{Key, Queue, Queued, Slot, Ticket};
use crate::sorted::{Ascending, Descending};

/// The request that starts the fewest cylinders from `cylinder`; among equals the lowest ticket.
/// O(log n).
pub(crate) fn nearest(queue: &Queue, cylinder: u32) -> Option<Ticket> {
    let inward = queue.from_cylinder(cylinder).next();
    // The downward search meets the newest of a cylinder first; the oldest is found by searching
    // that cylinder upward.
    let outward = queue
        .below_cylinder(cylinder)
        .next()
        .and_then(|queued| queue.from_cylinder(queued.target.start.cylinder).next());
    inward
        .into_iter()
        .chain(outward)
        .map(|queued| (queued.target.start.cylinder.abs_diff(cylinder), queued.ticket))
        .min()
        .map(|(_, ticket)| ticket)
}

/// As [`cheapest`], for a cost of the most likely times alone.
pub(crate) fn soonest(view: &View<'_>, cost: impl Fn(&Likely) -> Nanos) -> Option<Ticket> {
    let bound = |cylinders| view.belief.seek_lower_bound(cylinders);
    let cost = |queued: &Queued| cost(&view.likely(queued));
    least(view.queue, view.head().place.cylinder, bound, anyone, cost)
}

/// Of the requests whose `cost` is within `percent` of the minimum, the one that starts the fewest
/// cylinders away; among equals the cheapest, then the lowest ticket.
///
/// When the minimum is known, all requests nearer than it have been visited, so that one search is
/// enough.
pub(crate) fn nearest_of_the_soonest(
    view: &View<'_>,
    cost: impl Fn(&Likely) -> Nanos,
    percent: f64,
) -> Option<Ticket> {
    let bound = |cylinders| view.belief.seek_lower_bound(cylinders);
    nearest_of_the_least(
        view.queue,
        view.head().place.cylinder,
        bound,
        |queued| cost(&view.likely(queued)),
        percent,
    )
}

/// Of the requests for which `among` holds, that of minimum `cost` if sent now; among equals the
/// lowest ticket.
///
/// `cost` may not be below `positioning` or, if it uses `expected` instead, below that: the bound
/// applies to those.
pub(crate) fn cheapest(
    view: &View<'_>,
    among: impl Fn(&Queued) -> bool,
    cost: impl Fn(&Estimate) -> Nanos,
) -> Option<Ticket> {
    let bound = |cylinders| view.belief.seek_lower_bound(cylinders);
    let cost = |queued: &Queued| cost(&view.estimate(queued));
    least(view.queue, view.head().place.cylinder, bound, among, cost)
}

/// As [`cheapest`], the cost multiplied by `factor` of the request's age, which lies in 0..=1 and
/// does not rise with age.
pub(crate) fn cheapest_aged(
    view: &View<'_>,
    among: impl Fn(&Queued) -> bool,
    cost: impl Fn(&Estimate) -> Nanos,
    factor: impl Fn(Nanos) -> f64,
) -> Option<Ticket> {
    let bound = |cylinders| view.belief.seek_lower_bound(cylinders);
    let factor = |queued: &Queued| factor(view.now.saturating_since(queued.submitted));
    min_aged(
        view.queue,
        view.head().place.cylinder,
        bound,
        among,
        |queued| cost(&view.estimate(queued)),
        factor,
    )
}

/// Every request competes.
pub(crate) fn anyone(_: &Queued) -> bool {
    true
}

fn least(
    queue: &Queue,
    cylinder: u32,
    bound: impl Fn(u32) -> Nanos,
    among: impl Fn(&Queued) -> bool,
    cost: impl Fn(&Queued) -> Nanos,
) -> Option<Ticket> {
    let mut best: Option<(Nanos, Ticket)> = None;
    for (distance, queued) in outward(queue, cylinder) {
        if best.is_some_and(|(least, _)| bound(distance) > least) {
            break;
        }
        if !among(queued) {
            continue;
        }
        let candidate = (cost(queued), queued.ticket);
        best = Some(best.map_or(candidate, |best| best.min(candidate)));
    }
    best.map(|(_, ticket)| ticket)
}

fn nearest_of_the_least(
    queue: &Queue,
    cylinder: u32,
    bound: impl Fn(u32) -> Nanos,
    cost: impl Fn(&Queued) -> Nanos,
    percent: f64,
) -> Option<Ticket> {
    let mut met: SmallVec<[(u32, Nanos, Ticket); 64]> = SmallVec::new();
    let mut best = Nanos::from_ns(u64::MAX);
    for (distance, queued) in outward(queue, cylinder) {
        if bound(distance) > best {
            break;
        }
        let cost = cost(queued);
        best = best.min(cost);
        met.push((distance, cost, queued.ticket));
    }
    let limit = within(best, percent);
    met.into_iter().filter(|(_, cost, _)| *cost <= limit).min().map(|(_, _, ticket)| ticket)
}

/// `least` plus `percent`.
fn within(least: Nanos, percent: f64) -> Nanos {
    least.saturating_add(Nanos::from_ns((least.as_ns() as f64 * percent / 100.0) as u64))
}

fn min_aged(
    queue: &Queue,
    cylinder: u32,
    bound: impl Fn(u32) -> Nanos,
    among: impl Fn(&Queued) -> bool,
    cost: impl Fn(&Queued) -> Nanos,
    factor: impl Fn(&Queued) -> f64,
) -> Option<Ticket> {
    let oldest = queue.by_arrival().find(|queued| among(queued))?;
    // At factor zero only age counts, and no request is older.
    if factor(oldest) <= 0.0 {
        return Some(oldest.ticket);
    }
    let mut best: Option<(f64, Ticket)> = None;
    let cannot_win = |best: Option<(f64, Ticket)>, bound: Nanos, factor: f64| {
        best.is_some_and(|(least, _)| bound.as_ns() as f64 * factor * ROUNDING > least)
    };
    let consider =
        |best: &mut Option<(f64, Ticket)>, queued: &Queued, bound: Nanos, factor: f64| {
            if cannot_win(*best, bound, factor) || !among(queued) {
                return;
            }
            let candidate = (cost(queued).as_ns() as f64 * factor, queued.ticket);
            if best.is_none_or(|best| {
                candidate.0.total_cmp(&best.0).then(candidate.1.cmp(&best.1)).is_lt()
            }) {
                *best = Some(candidate);
            }
        };
    // One of the searches ends when it has visited all requests.
    for ((distance, near), old) in outward(queue, cylinder).zip(queue.by_arrival()) {
        let (bound_here, old_factor) = (bound(distance), factor(old));
        if cannot_win(best, bound_here, old_factor) {
            break;
        }
        // The other search has already visited every request older than `old`, and every one nearer
        // than `near`.
        if near.ticket >= old.ticket {
            consider(&mut best, near, bound_here, factor(near));
        }
        let old_distance = old.target.start.cylinder.abs_diff(cylinder);
        if old_distance >= distance && old.ticket != near.ticket {
            consider(&mut best, old, bound(old_distance), old_factor);
        }
    }
    best.map(|(_, ticket)| ticket)
}

/// All requests with their distance from `cylinder`, the nearest first; of those equally far the
/// higher cylinder first.
fn outward(queue: &Queue, cylinder: u32) -> Outward<'_> {
    let (further, nearer) =
        (queue.keys_from_cylinder(cylinder), queue.keys_below_cylinder(cylinder));
    let mut walk =
        Outward { queue, cylinder, further, nearer, next_further: OVER, next_nearer: OVER };
    walk.step_further();
    walk.step_nearer();
    walk
}

/// Two searches along the order by cylinder; the nearer one advances.
struct Outward<'a> {
    queue: &'a Queue,
    cylinder: u32,
    /// Towards the greater cylinders, and towards the lesser ones.
    further: Ascending<'a, Key>,
    nearer: Descending<'a, Key>,
    /// The distance and slot that each of the two has come to.
    next_further: (u64, Slot),
    next_nearer: (u64, Slot),
}

/// Further than any cylinder: this walk is over.
const OVER: (u64, Slot) = (u64::MAX, Slot::FIRST);

impl Outward<'_> {
    #[inline]
    fn step_further(&mut self) {
        self.next_further = self
            .further
            .next()
            .map_or(OVER, |key| (u64::from(key.cylinder() - self.cylinder), key.slot()));
    }

    #[inline]
    fn step_nearer(&mut self) {
        self.next_nearer = self
            .nearer
            .next()
            .map_or(OVER, |key| (u64::from(self.cylinder - key.cylinder()), key.slot()));
    }
}

impl<'a> Iterator for Outward<'a> {
    type Item = (u32, &'a Queued);

    #[inline]
    fn next(&mut self) -> Option<(u32, &'a Queued)> {
        let (distance, slot) = if self.next_further.0 <= self.next_nearer.0 {
            let next = self.next_further;
            if next.0 == OVER.0 {
                return None;
            }
            self.step_further();
            next
        } else {
            let next = self.next_nearer;
            self.step_nearer();
            next
        };
        Some((distance as u32, self.queue.at(slot)))
    }
}

/// A little less than one: two factors computed from two ages may come out in the wrong order by
/// the last bit.
const ROUNDING: f64 = 1.0 - 1e-9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::positioning::{Position, Target};
    use crate::request::{ClassId, Op, Request, RequestId, StreamId, VolumeId};
    use crate::tunables::IoPriority;
    use alloc::vec::Vec;
    use core::cell::Cell;
    use headtime_units::{Extent, Instant};
    use proptest::prelude::*;

    fn queue_of(entries: &[(u32, u64)]) -> Queue {
        let mut queue = Queue::default();
        let mut submitted = Instant::ORIGIN;
        for (ticket, (cylinder, gap)) in entries.iter().enumerate() {
            submitted += Nanos::from_ns(*gap);
            let (ticket, extent) = (ticket as u64, Extent::from_numbers(u64::from(*cylinder), 1));
            let place = Position { cylinder: *cylinder, ..Position::default() };
            let request = Request {
                id: RequestId(ticket),
                volume: VolumeId(0),
                class: ClassId(0),
                stream: StreamId(0),
                op: Op::Read,
                extent,
                fua: false,
                deadline: None,
            };
            let target =
                Target { op: Op::Read, extent, start: place, end: place, transfer: Nanos::ZERO };
            queue.insert(&Queued {
                ticket: Ticket(ticket),
                request,
                submitted,
                target,
                deadline: None,
                priority: IoPriority::DEFAULT,
                promise: None,
                worst: Nanos::ZERO,
            });
        }
        queue
    }

    /// A bound in steps, so that many requests share one, and a cost that is sometimes exactly the
    /// bound.
    fn bound(cylinders: u32) -> Nanos {
        Nanos::from_ns(u64::from(cylinders / 3) * 7)
    }

    fn linear<K: PartialOrd + Copy>(queue: &Queue, key: impl Fn(&Queued) -> K) -> Option<Ticket> {
        let mut best: Option<(K, Ticket)> = None;
        for queued in queue.by_arrival() {
            let key = key(queued);
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, queued.ticket));
            }
        }
        best.map(|(_, ticket)| ticket)
    }

    proptest! {
        #[test]
        fn the_walk_outward_shows_everyone_once_the_nearest_first(
            entries in proptest::collection::vec((0_u32..40, Just(0_u64)), 0..40),
            head in 0_u32..40,
        ) {
            let queue = queue_of(&entries);
            let walk: Vec<(u32, Ticket)> =
                outward(&queue, head).map(|(distance, queued)| (distance, queued.ticket)).collect();
            prop_assert!(walk.is_sorted_by_key(|(distance, _)| *distance));
            let mut tickets: Vec<u64> = walk.iter().map(|(_, ticket)| ticket.0).collect();
            tickets.sort_unstable();
            prop_assert_eq!(tickets, (0..entries.len() as u64).collect::<Vec<_>>());
        }

        #[test]
        fn the_nearest_is_the_one_that_looking_at_everyone_finds(
            entries in proptest::collection::vec((0_u32..40, Just(0_u64)), 0..40),
            head in 0_u32..40,
        ) {
            let queue = queue_of(&entries);
            prop_assert_eq!(
                nearest(&queue, head),
                linear(&queue, |queued| queued.target.start.cylinder.abs_diff(head))
            );
        }

        #[test]
        fn the_pruned_search_chooses_as_looking_at_everyone_does(
            entries in proptest::collection::vec((0_u32..60, Just(0_u64)), 0..60),
            above_bound in proptest::collection::vec(0_u64..40, 60),
            head in 0_u32..60,
        ) {
            let queue = queue_of(&entries);
            let cost = |queued: &Queued| {
                bound(queued.target.start.cylinder.abs_diff(head))
                    + Nanos::from_ns(above_bound[queued.ticket.0 as usize])
            };
            prop_assert_eq!(least(&queue, head, bound, anyone, cost), linear(&queue, cost));
        }

        #[test]
        fn the_nearest_of_the_soonest_is_the_one_that_looking_at_everyone_finds(
            entries in proptest::collection::vec((0_u32..60, Just(0_u64)), 0..60),
            above_bound in proptest::collection::vec(0_u64..40, 60),
            head in 0_u32..60,
            percent in prop_oneof![Just(0.0), Just(60.0), 0.0_f64..500.0],
        ) {
            let queue = queue_of(&entries);
            let distance = |queued: &Queued| queued.target.start.cylinder.abs_diff(head);
            let cost = |queued: &Queued| {
                bound(distance(queued)) + Nanos::from_ns(above_bound[queued.ticket.0 as usize])
            };
            let limit = queue.by_arrival().map(cost).min().map(|least| within(least, percent));
            let near = queue.by_arrival().filter(|queued| Some(cost(queued)) <= limit);
            let by_looking = near
                .min_by_key(|queued| (distance(queued), cost(queued), queued.ticket))
                .map(|queued| queued.ticket);
            prop_assert_eq!(nearest_of_the_least(&queue, head, bound, cost, percent), by_looking);
        }

        #[test]
        fn the_pruned_search_with_ageing_chooses_as_looking_at_everyone_does(
            entries in proptest::collection::vec((0_u32..60, 0_u64..50), 0..60),
            above_bound in proptest::collection::vec(0_u64..40, 60),
            head in 0_u32..60,
            horizon in 1_u64..4_000,
            power in prop_oneof![Just(0.0), Just(2.0), 0.0_f64..16.0],
        ) {
            let queue = queue_of(&entries);
            let now = Instant::from_ns(entries.iter().map(|entry| entry.1).sum());
            let cost = |queued: &Queued| {
                bound(queued.target.start.cylinder.abs_diff(head))
                    + Nanos::from_ns(above_bound[queued.ticket.0 as usize])
            };
            let factor = |queued: &Queued| {
                let age = now.saturating_since(queued.submitted).as_ns() as f64 / horizon as f64;
                libm::pow((1.0 - age).max(0.0), power)
            };
            let by_looking = linear(&queue, |queued| cost(queued).as_ns() as f64 * factor(queued));
            prop_assert_eq!(min_aged(&queue, head, bound, anyone, cost, factor), by_looking);
        }
    }

    /// Costs nothing where the bound is nothing: the older one is met second, and wins because it
    /// is older.
    #[test]
    fn of_two_that_cost_nothing_the_older_goes() {
        let queue = queue_of(&[(30, 0), (9, 0), (11, 0), (10, 0)]);
        let cost = |queued: &Queued| bound(queued.target.start.cylinder.abs_diff(10));
        assert_eq!(least(&queue, 10, bound, anyone, cost), Some(Ticket(1)));
        assert_eq!(min_aged(&queue, 10, bound, anyone, cost, |_| 0.5), Some(Ticket(1)));
    }

    #[test]
    fn a_far_request_is_not_even_looked_at() {
        let queue = queue_of(&[(100, 0), (103, 0), (900, 0), (901, 0), (5, 0)]);
        let looked_at = Cell::new(0);
        let cost = |queued: &Queued| {
            looked_at.set(looked_at.get() + 1);
            Nanos::from_ns(20) + bound(queued.target.start.cylinder.abs_diff(100))
        };
        assert_eq!(least(&queue, 100, bound, anyone, cost), Some(Ticket(0)));
        assert_eq!(looked_at.replace(0), 2, "the bound at 95 cylinders exceeds 20 ns");
        assert_eq!(min_aged(&queue, 100, bound, anyone, cost, |_| 1.0), Some(Ticket(0)));
        assert_eq!(looked_at.get(), 2);
    }
}
