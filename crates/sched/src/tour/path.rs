//! [`Path`]: an order of requests, updated while they come and go.
//!
//! A new request is inserted where it lengthens the path least: between neighbors j and k the
//! increase is W(j,i) + W(i,k) − W(j,k), at the end it is W(last,i). The head is before the first
//! and has no predecessor. (The paper prints the increase with W(j,i) subtracted, a misprint: then
//! W(i,k) alone would count, and the previous request would not matter.) Of places of equal cost
//! the last is used: with equal costs everywhere, insertion is first come, first served.
//!
//! Worked example, costs in ms: the head goes to A in 4 and from A to B in 5. C is 3 from the head,
//! 2 from A, 9 from B; from C it is 3 to A and 4 to B. Before A it adds 3 + 3 − 4 = 2, between A
//! and B 2 + 4 − 5 = 1, at the end 9. It goes between: A C B, 10 ms instead of 9.
//!
//! Cost: an arrival computes two costs per place, and one of each edge; with bounds
//! ([`Costs::least`]), two bounds per place and as many costs as the bounds leave open, a third or
//! so on a drive. Removing a request costs a search and a move of numbers. Source: P1 section 3.2.

use alloc::vec::Vec;

use headtime_units::Nanos;

use super::{Costs, length};

/// Requests in the order in which they are to be served, each named by a number of the caller's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    order: Vec<usize>,
}

impl Path {
    /// An empty path.
    #[must_use]
    pub const fn new() -> Self {
        Self { order: Vec::new() }
    }

    /// The requests, the next one first.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The request to be served next.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.order.first().copied()
    }

    /// The number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The length of the path.
    #[must_use]
    pub fn length(&self, costs: &impl Costs) -> Nanos {
        length(costs, &self.order)
    }

    /// Inserts `request`, which is not on the path, where it lengthens it least; returns its place.
    pub fn insert(&mut self, costs: &impl Costs, request: usize) -> usize {
        debug_assert!(!self.order.contains(&request), "request {request} is on the path already");
        let (place, _) = cheapest_place(costs, &self.order, edges(costs, &self.order), request);
        self.order.insert(place, request);
        place
    }

    /// Puts `request`, which is not there yet, at `place`.
    pub(super) fn insert_at(&mut self, place: usize, request: usize) {
        self.order.insert(place, request);
    }

    /// Takes the one at `place` out.
    pub(super) fn remove_at(&mut self, place: usize) {
        self.order.remove(place);
    }
}

impl From<Vec<usize>> for Path {
    /// The path through `order`, which contains no request twice.
    fn from(order: Vec<usize>) -> Self {
        Self { order }
    }
}

/// The place where `request` lengthens the path through `order` least, and the increase in ns;
/// negative if the stop makes the rest cheaper. Of equals the last.
///
/// `edge` is the cost of the request at a place after the previous one.
pub(super) fn cheapest_place(
    costs: &impl Costs,
    order: &[usize],
    edge: impl Fn(usize) -> Nanos,
    request: usize,
) -> (usize, i64) {
    if costs.has_bounds() {
        cheapest_by_bounds(costs, order, edge, request)
    } else {
        cheapest_of_all(costs, order, edge, request)
    }
}

/// As [`cheapest_place`], by asking for every cost.
fn cheapest_of_all(
    costs: &impl Costs,
    order: &[usize],
    edge: impl Fn(usize) -> Nanos,
    request: usize,
) -> (usize, i64) {
    let first = costs.first(request);
    match costs.around(request, order) {
        Some(answers) => cheapest(first, answers.into_iter(), edge),
        None => cheapest(
            first,
            order.iter().map(|next| {
                [costs.between(request, *next), costs.between_transposed(request, *next)]
            }),
            edge,
        ),
    }
}

/// Of the costs from the head to the request, and from it to each on the path and back.
fn cheapest(
    first: Nanos,
    around: impl Iterator<Item = [Nanos; 2]>,
    edge: impl Fn(usize) -> Nanos,
) -> (usize, i64) {
    let (mut place, mut least) = (0, i64::MAX);
    let (mut end, mut to_request) = (0, signed(first));
    for (here, [to_next, back]) in around.enumerate() {
        let increase = to_request + signed(to_next) - signed(edge(here));
        if increase <= least {
            (place, least) = (here, increase);
        }
        (end, to_request) = (here + 1, signed(back));
    }
    if to_request <= least { (end, to_request) } else { (place, least) }
}

/// As [`cheapest_place`], computing only the costs that can matter: places are tried by rising
/// bound of their increase, until no bound is below the best found. The cost to the request comes
/// first; with the bound of the cost from it that is often enough.
fn cheapest_by_bounds(
    costs: &impl Costs,
    order: &[usize],
    edge: impl Fn(usize) -> Nanos,
    request: usize,
) -> (usize, i64) {
    let first = signed(costs.first(request));
    let Some(last) = order.len().checked_sub(1) else { return (0, first) };
    // For each place the bound of its increase, and of the cost from the request onward.
    let mut bounds: Vec<(i64, i64)> = Vec::with_capacity(order.len() + 1);
    let mut to_request = first;
    for (here, next) in order.iter().enumerate() {
        let [on, back] = costs.least(request, *next).map(signed);
        bounds.push((to_request + on - signed(edge(here)), on));
        to_request = back;
    }
    bounds.push((to_request, 0));
    let added = |place: usize, least: i64| {
        let to_request =
            if place == 0 { first } else { signed(costs.between(order[place - 1], request)) };
        if place > last {
            return to_request;
        }
        let edge = signed(edge(place));
        let bound = to_request + bounds[place].1 - edge;
        // A place that cannot win needs no exact cost.
        if bound > least {
            bound
        } else {
            to_request + signed(costs.between(request, order[place])) - edge
        }
    };
    let likeliest = bounds
        .iter()
        .enumerate()
        .min_by_key(|(_, (bound, _))| *bound)
        .map_or(0, |(place, _)| place);
    let mut best = (added(likeliest, i64::MAX), likeliest);
    let mut left: Vec<(i64, usize)> = Vec::with_capacity(bounds.len());
    left.extend(
        bounds
            .iter()
            .enumerate()
            .map(|(place, (bound, _))| (*bound, place))
            .filter(|(bound, place)| *bound <= best.0 && *place != likeliest),
    );
    left.sort_unstable();
    for (bound, place) in left {
        if bound > best.0 {
            break;
        }
        let increase = added(place, best.0);
        if increase < best.0 || (increase == best.0 && place > best.1) {
            best = (increase, place);
        }
    }
    (best.1, best.0)
}

fn signed(cost: Nanos) -> i64 {
    cost.as_ns() as i64
}

/// The cost of each request of `order` after the previous one, by place.
pub(super) fn edges<'a>(costs: &'a impl Costs, order: &'a [usize]) -> impl Fn(usize) -> Nanos + 'a {
    |place| costs.after(place.checked_sub(1).map(|before| order[before]), order[place])
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Bounded, Drawn, ms};
    use super::*;
    use proptest::prelude::*;

    /// The worked example: A, B, C are 0, 1, 2.
    #[test]
    fn a_request_goes_where_it_lengthens_the_path_least() {
        let costs = (
            |to: usize| ms([4, 7, 3][to]),
            |from: usize, to: usize| ms([[0, 5, 2], [6, 0, 9], [3, 4, 0]][from][to]),
        );
        let mut path = Path::from(alloc::vec![0, 1]);
        assert_eq!(path.length(&costs), ms(9));
        assert_eq!(
            cheapest_place(&costs, path.order(), edges(&costs, path.order()), 2),
            (1, 1_000_000)
        );
        assert_eq!(path.insert(&costs, 2), 1);
        assert_eq!((path.order(), path.length(&costs)), (&[0, 2, 1][..], ms(10)));
    }

    #[test]
    fn where_all_costs_are_equal_the_order_is_that_of_arrival() {
        let costs = (|_: usize| ms(3), |_: usize, _: usize| ms(3));
        let mut path = Path::new();
        for request in [4, 2, 9, 1] {
            path.insert(&costs, request);
        }
        assert_eq!(path.order(), [4, 2, 9, 1]);
    }

    #[test]
    fn a_stop_that_makes_the_rest_cheaper_is_taken_though_nothing_obeys_the_triangle() {
        // From the head to 0 it takes 9, by way of 1 only 2.
        let costs = (|to: usize| ms([9, 1][to]), |_: usize, _: usize| ms(1));
        let mut path = Path::from(alloc::vec![0]);
        assert_eq!(
            cheapest_place(&costs, path.order(), edges(&costs, path.order()), 1),
            (0, -7_000_000)
        );
        path.insert(&costs, 1);
        assert_eq!(path.length(&costs), ms(2));
    }

    proptest! {
        /// The increase is the difference of two whole lengths, and no other place is cheaper:
        /// tried by putting the request everywhere.
        #[test]
        fn no_other_place_is_cheaper(drawn in Drawn::of(1..10)) {
            let request = drawn.len() - 1;
            let order: Vec<usize> = (0..request).collect();
            let before = length(&drawn, &order).as_ns() as i64;
            let everywhere: Vec<i64> = (0..=order.len())
                .map(|place| {
                    let mut order = order.clone();
                    order.insert(place, request);
                    length(&drawn, &order).as_ns() as i64 - before
                })
                .collect();
            let (place, increase) = cheapest_place(&drawn, &order, edges(&drawn, &order), request);
            prop_assert_eq!(everywhere[place], increase);
            prop_assert!(
                everywhere.iter().all(|other| *other >= increase),
                "{:?}, chosen {}",
                everywhere,
                place
            );
            prop_assert!(
                everywhere[place + 1..].iter().all(|later| *later > increase),
                "of equals the last is taken"
            );
        }

        #[test]
        fn bounds_change_no_place_whatever_they_say(drawn in Bounded::of(1..40)) {
            let request = drawn.costs.len() - 1;
            let order: Vec<usize> = (0..request).collect();
            let edges = edges(&drawn, &order);
            prop_assert_eq!(
                cheapest_by_bounds(&drawn, &order, &edges, request),
                cheapest_of_all(&drawn, &order, &edges, request)
            );
        }
    }
}
