//! Nearest insertion of a whole queue: in the order of the queue as the paper prints it, and
//! nearest first as the textbook has it; and the nearest neighbor.
//!
//! Both insertions insert each request where it lengthens the path least ([`Path::insert`]); they
//! differ in which request is next. *In order*: the oldest that is not on the path. *Nearest
//! first*: the one that is the fewest ms after a request on the path or the head; of equals the
//! lowest number. The *nearest neighbor* inserts nothing: the next request of the path is the
//! fewest ms after the last one.
//!
//! Worked example on a line, the head at 0, requests at 9, 1 and 5 in order of arrival, a cost of
//! one ms per step. In order: 9; 1 before it; 5 between the two. Nearest first: 1 is nearest to the
//! head; 5 is 4 after 1; 9 is 4 after 5. Both end at 1 5 9. For longer queues they differ: see the
//! golden orders.
//!
//! Guarantees that every request is on the path once. Not guaranteed: any approximation of the
//! shortest path. Cost: O(n²) for n requests, 256 of them within 200 us. Source: P1 section 3.2;
//! Rosenkrantz, Stearns and Lewis 1974 for the nearest first.

use alloc::vec::Vec;

use headtime_units::Nanos;

use super::Costs;
use super::path::{Path, cheapest_place};

/// The order in which requests are inserted into a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// In the order of the queue.
    InOrder,
    /// The request nearest to the path first.
    NearestFirst,
    /// No insertion: each request follows the one that it is nearest to among those left.
    NearestNeighbor,
}

impl Insertion {
    /// The path through `count` requests.
    #[must_use]
    pub fn path(self, costs: &impl Costs, count: usize) -> Path {
        match self {
            Self::InOrder => insert_in_order(costs, count),
            Self::NearestFirst => insert_nearest_first(costs, count),
            Self::NearestNeighbor => nearest_neighbor(costs, count),
        }
    }
}

/// The path on which each request is the nearest after the one before it, the first the nearest
/// after the head; of equals the lowest number. O(n²).
fn nearest_neighbor(costs: &impl Costs, count: usize) -> Path {
    let mut left: Vec<usize> = (0..count).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(place) =
        (0..left.len()).min_by_key(|place| costs.after(order.last().copied(), left[*place]))
    {
        order.push(left.remove(place));
    }
    Path::from(order)
}

/// The path that comes of inserting requests 0 to `count` in that order, which is the order of the
/// queue. O(n²).
#[must_use]
pub fn insert_in_order(costs: &impl Costs, count: usize) -> Path {
    let mut growing = Growing::new(costs, count);
    for request in 0..count {
        growing.insert(request);
    }
    Path::from(growing.order)
}

/// The path of inserting requests 0 to `count`, each time the one nearest after a request on the
/// path. O(n²).
#[must_use]
pub fn insert_nearest_first(costs: &impl Costs, count: usize) -> Path {
    let mut growing = Growing::new(costs, count);
    // The requests not on the path yet, by ascending number, with their distance from the path.
    let mut left: Vec<(usize, Nanos)> =
        (0..count).map(|request| (request, costs.first(request))).collect();
    let mut nearest =
        left.iter().enumerate().min_by_key(|(_, (_, near))| *near).map(|(place, _)| place);
    while let Some(place) = nearest {
        let (request, _) = left.remove(place);
        growing.insert(request);
        nearest = None;
        let mut least = Nanos::MAX;
        for (place, (other, near)) in left.iter_mut().enumerate() {
            *near = costs.between(request, *other).min(*near);
            if *near < least {
                (nearest, least) = (Some(place), *near);
            }
        }
    }
    Path::from(growing.order)
}

/// A path that is built in one go. The costs stay as they are, so those along the path are
/// remembered.
struct Growing<'a, C> {
    costs: &'a C,
    order: Vec<usize>,
    /// The cost of each request after the previous one, by place.
    edges: Vec<Nanos>,
}

impl<'a, C: Costs> Growing<'a, C> {
    fn new(costs: &'a C, count: usize) -> Self {
        Self { costs, order: Vec::with_capacity(count), edges: Vec::with_capacity(count) }
    }

    fn insert(&mut self, request: usize) {
        let (place, _) =
            cheapest_place(self.costs, &self.order, |place| self.edges[place], request);
        let before = place.checked_sub(1).map(|before| self.order[before]);
        if let Some(next) = self.order.get(place) {
            self.edges[place] = self.costs.between(request, *next);
        }
        self.edges.insert(place, self.costs.after(before, request));
        self.order.insert(place, request);
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{By, Drawn, every_order, every_queue, ms};
    use super::super::{length, shortest};
    use super::*;
    use proptest::prelude::*;

    fn on_a_line(places: &'static [u64]) -> impl Costs {
        (|to: usize| ms(places[to]), |from: usize, to: usize| ms(places[from].abs_diff(places[to])))
    }

    #[test]
    fn a_nearest_neighbor_goes_where_the_next_step_is_short() {
        // The head at 4 goes up to 5 and 6 first, and down to 1 last.
        let places: &[u64] = &[1, 6, 5];
        let costs = (
            |to: usize| ms(places[to].abs_diff(4)),
            |from: usize, to: usize| ms(places[from].abs_diff(places[to])),
        );
        assert_eq!(nearest_neighbor(&costs, 3).order(), [2, 1, 0]);
        assert!(nearest_neighbor(&costs, 0).is_empty());
    }

    #[test]
    fn on_a_line_everyone_lies_on_the_way() {
        for insert in [insert_in_order, insert_nearest_first] {
            assert_eq!(insert(&on_a_line(&[9, 1, 5]), 3).order(), [1, 2, 0]);
        }
        assert!(
            insert_in_order(&on_a_line(&[]), 0).is_empty()
                && insert_nearest_first(&on_a_line(&[]), 0).is_empty()
        );
    }

    /// Nearest insertion by its definition, each place tried by measuring the whole path.
    fn by_definition(costs: &impl Costs, count: usize, nearest_first: bool) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        let mut left: Vec<usize> = (0..count).collect();
        while !left.is_empty() {
            let near = |request: usize| {
                order
                    .iter()
                    .map(|on| costs.between(*on, request))
                    .fold(costs.first(request), Nanos::min)
            };
            let turn = if nearest_first {
                *left.iter().min_by_key(|request| (near(**request), **request)).unwrap()
            } else {
                left[0]
            };
            left.retain(|other| *other != turn);
            let with = |place: usize| {
                let mut order = order.clone();
                order.insert(place, turn);
                order
            };
            order =
                (0..=order.len()).rev().map(with).min_by_key(|order| length(costs, order)).unwrap();
        }
        order
    }

    fn check(costs: &impl Costs, count: usize, orders: &[Vec<usize>]) {
        let best = orders.iter().map(|order| length(costs, order)).min().unwrap();
        for (nearest_first, path) in
            [(false, insert_in_order(costs, count)), (true, insert_nearest_first(costs, count))]
        {
            assert_eq!(
                path.order(),
                by_definition(costs, count, nearest_first),
                "nearest first: {nearest_first}"
            );
            assert!(path.length(costs) >= best);
        }
        assert_eq!(shortest(costs, count).length(costs), best);
    }

    /// Every queue of up to six requests on a drive of three places and every one of seven on two
    /// places, and the shortest path of each by trying all orders.
    #[test]
    fn every_queue_of_up_to_seven_on_a_small_drive_is_ordered_as_defined() {
        for (count, places) in [(0, 3), (1, 3), (2, 3), (3, 3), (4, 3), (5, 3), (6, 3), (7, 2)] {
            let orders = every_order(count);
            every_queue(count, places, |costs| check(&By(costs), count, &orders));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn queues_of_up_to_seven_with_any_costs_are_ordered_as_defined(drawn in Drawn::of(1..8)) {
            check(&drawn, drawn.len(), &every_order(drawn.len()));
        }

        #[test]
        fn everybody_of_a_long_queue_is_served_once(drawn in Drawn::of(1..60)) {
            for path in
                [insert_in_order(&drawn, drawn.len()), insert_nearest_first(&drawn, drawn.len())]
            {
                let mut order = path.order().to_vec();
                order.sort_unstable();
                prop_assert_eq!(order, (0..drawn.len()).collect::<Vec<_>>());
            }
        }
    }
}
