//! [`Lookahead`]: EDF that tries every order of the first few deadlines.
//!
//! Of the queue by deadline the first k are taken, and all k! orders of them are tried from the
//! head's position. The orders with the least maximum overtime are kept; of these the one with the
//! shortest path wins, and of equals the one nearest to EDF. Its first request is sent; the next
//! decision starts again. With k = 1 this is EDF. The path includes the edge from the head to the
//! first request, which the paper's sum leaves out: without it the start would be arbitrary.
//!
//! Worked example, the head free at 0, A due at 10 and B at 12. From the head A takes 6 and B 3;
//! after A, B takes 7; after B, A takes 4. A B ends at 6 and 13: one ms too late. B A ends at 3 and
//! 7: neither is late, so B goes first, against EDF. Were B due at 20, both orders would meet the
//! deadlines, and B A would still be chosen: 7 is less than 13.
//!
//! Guarantees: among all orders of the first k, none has less overtime. Not guaranteed: anything
//! about later requests; the choice of the first k may leave the next too little time, and overtime
//! uses predicted costs. Cost: k² costs, computed once each, and at most k! orders, cut short where
//! they cannot win; k = 4 is 24 orders, well below a microsecond beside the costs. Source: P1
//! section 3.3 (G-MATRIX); Somasundara et al. 2004.

use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

use super::path::Path;
use super::{Costs, Margins};

/// The maximum number of requests considered: 8! = 40,320 orders.
pub const LOOKAHEAD_MAX: usize = 8;

/// No margins: a request may end just in time.
const NO_MARGINS: Margins = [0; LOOKAHEAD_MAX];

/// The number of deadlines to consider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookahead {
    k: usize,
}

/// The best order found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The first request, as an index in the order of deadlines.
    pub first: usize,
    /// The maximum overtime among the requests considered; zero when none is late.
    pub overtime: Nanos,
    /// The length of the path from the head through them.
    pub length: Nanos,
}

impl Default for Lookahead {
    /// Four requests (paper: more brings nothing).
    fn default() -> Self {
        Self { k: 4 }
    }
}

impl Lookahead {
    /// A search over the first `k` requests by deadline; `None` unless `k` is from 1 to
    /// [`LOOKAHEAD_MAX`].
    #[must_use]
    pub const fn new(k: usize) -> Option<Self> {
        if k >= 1 && k <= LOOKAHEAD_MAX { Some(Self { k }) } else { None }
    }

    /// The number of requests considered.
    #[must_use]
    pub const fn k(self) -> usize {
        self.k
    }

    /// The best order; `None` for an empty queue.
    ///
    /// Request `i` is due at `deadlines[i]`, which ascend ([`Instant::NEVER`]: no deadline); more
    /// than k are ignored. The head is free at `free_at`.
    #[must_use]
    pub fn best_order(
        self,
        costs: &impl Costs,
        deadlines: &[Instant],
        free_at: Instant,
    ) -> Option<Outlook> {
        self.best_order_by(costs, costs, &NO_MARGINS, deadlines, free_at)
    }

    /// As [`Lookahead::best_order`], with overtime computed from `times`, which may be pessimistic,
    /// and the path measured in `costs`.
    ///
    /// The request in place n of an order must end the nth of `margins` before its deadline
    /// ([`ChainExcess`](super::ChainExcess); all zero: just in time); overtime counts from there.
    #[must_use]
    pub fn best_order_by(
        self,
        costs: &impl Costs,
        times: &impl Costs,
        margins: &Margins,
        deadlines: &[Instant],
        free_at: Instant,
    ) -> Option<Outlook> {
        debug_assert!(
            deadlines.is_sorted(),
            "the requests are looked at in the order of their deadlines"
        );
        let mut window = [0; LOOKAHEAD_MAX];
        let count = self.k.min(deadlines.len());
        for (rank, request) in window[..count].iter_mut().enumerate() {
            *request = rank;
        }
        self.best_order_after(costs, times, margins, (&window[..count], deadlines), None, free_at)
    }

    /// The whole queue in the order of repeated searches, as the paper prints it. A live queue uses
    /// [`Lookahead::best_order`], which includes new arrivals.
    #[must_use]
    pub fn order_all(self, costs: &impl Costs, deadlines: &[Instant], free_at: Instant) -> Path {
        debug_assert!(
            deadlines.is_sorted(),
            "the requests are looked at in the order of their deadlines"
        );
        let mut left: Vec<usize> = (0..deadlines.len()).collect();
        let mut order = Vec::with_capacity(left.len());
        let (mut from, mut now) = (None, free_at);
        while let Some(outlook) = self.best_order_after(
            costs,
            costs,
            &NO_MARGINS,
            (&left[..self.k.min(left.len())], deadlines),
            from,
            now,
        ) {
            now += costs.after(from, outlook.first);
            from = Some(outlook.first);
            left.retain(|request| *request != outlook.first);
            order.push(outlook.first);
        }
        Path::from(order)
    }

    /// The best order of `window`, requests by ascending deadline, after `from`.
    fn best_order_after(
        self,
        costs: &impl Costs,
        times: &impl Costs,
        margins: &Margins,
        (window, deadlines): (&[usize], &[Instant]),
        from: Option<usize>,
        free_at: Instant,
    ) -> Option<Outlook> {
        let mut search = Search::new(window.len(), margins, free_at);
        for (to, request) in window.iter().enumerate() {
            search.deadlines[to] = deadlines[*request];
            search.begins[to] =
                Step { cost: costs.after(from, *request), time: times.after(from, *request) };
            for (before, other) in window.iter().enumerate().filter(|(_, other)| *other != request)
            {
                search.goes_on[before][to] = Step {
                    cost: costs.between(*other, *request),
                    time: times.between(*other, *request),
                };
            }
        }
        search.extend(None, 0, Reached::default());
        search.best.map(|(overtime, length, first)| Outlook {
            first: window[first],
            overtime,
            length,
        })
    }
}

/// The step from one request, or the head, to another.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Its length on the path.
    cost: Nanos,
    /// Its time for the ends of requests.
    time: Nanos,
}

/// The state of a partial order.
#[derive(Clone, Copy, Default)]
struct Reached {
    length: Nanos,
    time: Nanos,
    overtime: Nanos,
    /// The request it began with.
    first: usize,
}

/// All orders of a few requests, tried depth first in the order of numbers.
struct Search {
    count: usize,
    /// The time at which the head is free, and the margin of each place added.
    free_at: [Instant; LOOKAHEAD_MAX],
    deadlines: [Instant; LOOKAHEAD_MAX],
    begins: [Step; LOOKAHEAD_MAX],
    goes_on: [[Step; LOOKAHEAD_MAX]; LOOKAHEAD_MAX],
    /// Overtime, length and first request of the best order found.
    best: Option<(Nanos, Nanos, usize)>,
}

impl Search {
    fn new(count: usize, margins: &Margins, free_at: Instant) -> Self {
        let free_at = margins.map(|margin| free_at.offset_by_ns(margin));
        let row = [Step::default(); LOOKAHEAD_MAX];
        Self {
            count,
            free_at,
            deadlines: [Instant::NEVER; LOOKAHEAD_MAX],
            begins: row,
            goes_on: [row; LOOKAHEAD_MAX],
            best: None,
        }
    }

    /// Tries everything that can follow `last` when the requests in the bit mask `served` have been
    /// served.
    fn extend(&mut self, last: Option<usize>, served: u32, reached: Reached) {
        // Neither overtime nor length can shrink towards the end.
        if self.best.is_some_and(|(least, shortest, _)| {
            (reached.overtime, reached.length) >= (least, shortest)
        }) {
            return;
        }
        let place = served.count_ones() as usize;
        if place == self.count {
            if self.count > 0 {
                self.best = Some((reached.overtime, reached.length, reached.first));
            }
            return;
        }
        for next in (0..self.count).filter(|next| served >> next & 1 == 0) {
            let step = last.map_or(self.begins[next], |last| self.goes_on[last][next]);
            let time = reached.time.saturating_add(step.time);
            let late = (self.free_at[place] + time).saturating_since(self.deadlines[next]);
            let (length, overtime) =
                (reached.length.saturating_add(step.cost), reached.overtime.max(late));
            let first = last.map_or(next, |_| reached.first);
            self.extend(Some(next), served | 1 << next, Reached { length, time, overtime, first });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::length;
    use super::super::trial::{By, Drawn, every_order, every_queue, ms};
    use super::*;
    use proptest::prelude::*;

    fn due(ms_from_start: &[u64]) -> Vec<Instant> {
        ms_from_start.iter().map(|due| Instant::ORIGIN + ms(*due)).collect()
    }

    #[test]
    fn an_order_that_holds_goes_before_one_that_is_by_deadline() {
        let costs = (|to: usize| ms([6, 3][to]), |from: usize, _: usize| ms([7, 4][from]));
        let best_order = |k: usize, deadlines: &[u64]| {
            Lookahead::new(k).unwrap().best_order(&costs, &due(deadlines), Instant::ORIGIN).unwrap()
        };
        assert_eq!(
            best_order(2, &[10, 12]),
            Outlook { first: 1, overtime: Nanos::ZERO, length: ms(7) }
        );
        assert_eq!(
            best_order(2, &[10, 20]),
            Outlook { first: 1, overtime: Nanos::ZERO, length: ms(7) }
        );
        assert_eq!(
            best_order(1, &[10, 12]),
            Outlook { first: 0, overtime: Nanos::ZERO, length: ms(6) }
        );
        // Now A must go first: after B it would be a ms too late, B after A is not late.
        assert_eq!(
            best_order(2, &[6, 13]),
            Outlook { first: 0, overtime: Nanos::ZERO, length: ms(13) }
        );
        // Both cannot be met: at most 3 ms too late is better than 4.
        assert_eq!(best_order(2, &[3, 11]), Outlook { first: 0, overtime: ms(3), length: ms(13) });
    }

    #[test]
    fn nobody_waiting_means_nobody_goes_and_k_has_bounds() {
        let costs = (|_: usize| ms(1), |_: usize, _: usize| ms(1));
        assert_eq!(Lookahead::default().best_order(&costs, &[], Instant::ORIGIN), None);
        assert!(Lookahead::default().order_all(&costs, &[], Instant::ORIGIN).is_empty());
        assert_eq!((Lookahead::new(0), Lookahead::new(LOOKAHEAD_MAX + 1)), (None, None));
        assert_eq!(Lookahead::default().k(), 4);
    }

    #[test]
    fn without_deadlines_the_shortest_path_of_the_window_is_left() {
        let costs = (|to: usize| ms([5, 1][to]), |_: usize, _: usize| ms(2));
        let outlook = Lookahead::default()
            .best_order(&costs, &[Instant::NEVER; 2], Instant::from_ns(7))
            .unwrap();
        assert_eq!(outlook, Outlook { first: 1, overtime: Nanos::ZERO, length: ms(3) });
    }

    #[test]
    fn a_margin_is_kept_before_the_deadline() {
        let costs = (|to: usize| ms([6, 3][to]), |from: usize, _: usize| ms([7, 4][from]));
        let best_order = |margins_ms: [u64; 2]| {
            let mut margins = NO_MARGINS;
            margins
                .iter_mut()
                .zip(margins_ms)
                .for_each(|(margin, required)| *margin = ms(required).as_ns() as i64);
            Lookahead::new(2)
                .unwrap()
                .best_order_by(&costs, &costs, &margins, &due(&[8, 20]), Instant::ORIGIN)
                .unwrap()
        };
        // B A ends at 3 and 7, A B at 6 and 13: both hold, and the shorter goes. With two accesses
        // A has 1 ms to spare, alone 2.
        assert_eq!(best_order([0, 0]), Outlook { first: 1, overtime: Nanos::ZERO, length: ms(7) });
        assert_eq!(best_order([0, 1]), Outlook { first: 1, overtime: Nanos::ZERO, length: ms(7) });
        assert_eq!(best_order([2, 2]), Outlook { first: 0, overtime: Nanos::ZERO, length: ms(13) });
        // No order keeps 3 ms: 1 ms short is better than 2.
        assert_eq!(best_order([3, 3]), Outlook { first: 0, overtime: ms(1), length: ms(13) });
    }

    /// The same by its definition: every order in full, overtime first, then length, then the order
    /// of deadlines.
    fn by_definition(
        costs: &impl Costs,
        orders: &[Vec<usize>],
        deadlines: &[Instant],
        free_at: Instant,
    ) -> Option<Outlook> {
        let judged = orders.iter().filter(|order| !order.is_empty()).map(|order| {
            let ends = (1..=order.len()).map(|served| free_at + length(costs, &order[..served]));
            let overtime = ends
                .zip(order)
                .map(|(end, request)| end.saturating_since(deadlines[*request]))
                .max()
                .unwrap();
            (overtime, length(costs, order), order)
        });
        judged.min().map(|(overtime, length, order)| Outlook { first: order[0], overtime, length })
    }

    /// Every queue of up to five on three places and of up to seven on two, due in steps that are
    /// too short for some orders and for all.
    #[test]
    fn every_queue_of_up_to_seven_on_a_small_drive_is_looked_at_as_defined() {
        for (count, places) in [(0, 3), (1, 3), (2, 3), (3, 3), (4, 3), (5, 3), (6, 2), (7, 2)] {
            let orders = every_order(count);
            for step in [3, 5, 9] {
                let deadlines =
                    due(&(1..=count as u64).map(|rank| rank * step).collect::<Vec<_>>());
                every_queue(count, places, |costs| {
                    let best_order = Lookahead::new(count.max(1)).unwrap().best_order(
                        &By(costs),
                        &deadlines,
                        Instant::ORIGIN,
                    );
                    assert_eq!(
                        best_order,
                        by_definition(&By(costs), &orders, &deadlines, Instant::ORIGIN)
                    );
                });
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

        #[test]
        fn queues_of_up_to_seven_are_looked_at_as_defined(
            drawn in Drawn::of(1..8),
            k in 1_usize..8,
            due in proptest::collection::vec(0_u64..60_000_000, 7),
        ) {
            let mut deadlines: Vec<Instant> =
                due[..drawn.len()].iter().map(|due| Instant::from_ns(*due)).collect();
            deadlines.sort_unstable();
            let free_at = Instant::from_ns(1_000);
            let lookahead = Lookahead::new(k).unwrap();
            let count = k.min(drawn.len());
            let expected = by_definition(&drawn, &every_order(count), &deadlines[..count], free_at);
            prop_assert_eq!(lookahead.best_order(&drawn, &deadlines, free_at), expected);
            // The same margin everywhere is as if all were due so much earlier.
            let earlier: Vec<Instant> =
                deadlines.iter().map(|due| due.saturating_back(ms(2))).collect();
            let (margins, far) = ([ms(2).as_ns() as i64; LOOKAHEAD_MAX], ms(2));
            let shifted: Vec<Instant> = earlier.iter().map(|due| *due + far).collect();
            prop_assert_eq!(
                lookahead.best_order_by(&drawn, &drawn, &margins, &shifted, free_at),
                by_definition(&drawn, &every_order(count), &earlier[..count], free_at)
            );
            let all = lookahead.order_all(&drawn, &deadlines, free_at);
            prop_assert_eq!(all.first(), expected.map(|outlook| outlook.first));
            let mut everyone = all.order().to_vec();
            everyone.sort_unstable();
            prop_assert_eq!(everyone, (0..drawn.len()).collect::<Vec<_>>());
            if k >= drawn.len() {
                // With all requests considered none becomes later than the first search predicted,
                // and where none is late the path is the shortest.
                let judged = expected.unwrap();
                let ends = (1..=drawn.len())
                    .map(|served| free_at + length(&drawn, &all.order()[..served]));
                let overtime = ends
                    .zip(all.order())
                    .map(|(end, request)| end.saturating_since(deadlines[*request]))
                    .max();
                prop_assert_eq!(overtime, Some(judged.overtime));
                prop_assert!(!judged.overtime.is_zero() || all.length(&drawn) == judged.length);
            }
        }
    }
}
