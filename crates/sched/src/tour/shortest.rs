//! [`shortest`]: the exact solution, for small queues.
//!
//! Held and Karp's method, from the end of the path: the shortest way to serve a set of requests
//! beginning with one of them is an edge to another, and the shortest way to serve the set without
//! the first, beginning with the other. Sets are bit masks in rising order, so that every smaller
//! set is available when it is needed.
//!
//! Worked example: the rest of {A, B} after A is the edge to B. The rest of {A, B, C} after A is
//! the edge to B and the rest of {B, C} after B, or the edge to C and the rest of {B, C} after C,
//! whichever is less. The whole path is an edge from the head and the rest of all requests after
//! its end.
//!
//! Guarantees the minimum length; of equally short paths the one that is first in lexical order of
//! request numbers. Cost: O(2ⁿ·n²) time and O(2ⁿ·n) memory: 12 requests take a millisecond or two
//! and 400 KiB, each further one more than twice that, which is why the paper's exact scheduler
//! collapses past 8. Source: P1 section 5.3; Held and Karp 1962.

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::Nanos;

use super::Costs;
use super::path::Path;

/// The maximum number of requests for [`shortest`].
pub const SHORTEST_MAX: usize = 12;

/// The shortest path from the head through requests 0 to `count`; of equals the first as a row of
/// numbers.
///
/// # Panics
/// When there are more than [`SHORTEST_MAX`].
#[must_use]
pub fn shortest(costs: &impl Costs, count: usize) -> Path {
    assert!(
        count <= SHORTEST_MAX,
        "{count} requests for an exact order, at most {SHORTEST_MAX}; order longer queues by \
            insertion"
    );
    if count == 0 {
        return Path::new();
    }
    // Computed from the end of the path, so that it can be walked from its start.
    let rest = Rest::of(costs, count);
    let all = (1 << count) - 1;
    let mut order = Vec::with_capacity(count);
    let (mut set, mut from) = (all, None);
    while set != 0 {
        let whole =
            |first: &usize| costs.after(from, *first).saturating_add(rest.from(set, *first));
        let next = members(set, count).min_by_key(whole).expect("the set is not empty");
        order.push(next);
        set &= !(1 << next);
        from = Some(next);
    }
    Path::from(order)
}

/// For each set of requests and each of them: the shortest time to serve the others of the set
/// after it.
struct Rest {
    count: usize,
    times: Vec<Nanos>,
}

impl Rest {
    fn of(costs: &impl Costs, count: usize) -> Self {
        let mut rest = Self { count, times: vec![Nanos::ZERO; count << count] };
        for set in 1..1_usize << count {
            for first in members(set, count) {
                let others = set & !(1 << first);
                let least = members(others, count)
                    .map(|next| costs.between(first, next).saturating_add(rest.from(others, next)))
                    .min();
                rest.times[set * count + first] = least.unwrap_or(Nanos::ZERO);
            }
        }
        rest
    }

    fn from(&self, set: usize, first: usize) -> Nanos {
        self.times[set * self.count + first]
    }
}

fn members(set: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).filter(move |request| set >> request & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Drawn, every_order, ms};
    use super::super::{insert_in_order, insert_nearest_first, length};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_equally_short_orders_the_one_that_came_first_is_taken() {
        let costs = (|_: usize| ms(2), |_: usize, _: usize| ms(2));
        assert_eq!(shortest(&costs, 5).order(), [0, 1, 2, 3, 4]);
        assert!(shortest(&costs, 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "13 requests for an exact order, at most 12")]
    fn more_than_can_be_solved_are_refused() {
        let _ = shortest(&(|_: usize| ms(1), |_: usize, _: usize| ms(1)), 13);
    }

    #[test]
    fn twelve_are_solved_and_no_exchange_of_two_makes_them_shorter() {
        // Costs without any pattern: products modulo a prime.
        let costs = (
            |to: usize| ms(to as u64 * 37 % 11 + 1),
            |from: usize, to: usize| ms(((from * 29 + to * 53) % 23) as u64 + 1),
        );
        let path = shortest(&costs, 12);
        for one in 0..12 {
            for other in one + 1..12 {
                let mut order = path.order().to_vec();
                order.swap(one, other);
                assert!(
                    length(&costs, &order) >= path.length(&costs),
                    "exchange {one} and {other}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn no_order_is_shorter_and_of_equals_it_is_the_first(drawn in Drawn::of(1..8)) {
            let path = shortest(&drawn, drawn.len());
            let best = every_order(drawn.len())
                .into_iter()
                .min_by_key(|order| (length(&drawn, order), order.clone()));
            prop_assert_eq!(Some(path.order()), best.as_deref());
        }

        #[test]
        fn insertion_is_never_shorter(drawn in Drawn::of(8..11)) {
            let least = shortest(&drawn, drawn.len()).length(&drawn);
            prop_assert!(insert_in_order(&drawn, drawn.len()).length(&drawn) >= least);
            prop_assert!(insert_nearest_first(&drawn, drawn.len()).length(&drawn) >= least);
        }
    }
}
