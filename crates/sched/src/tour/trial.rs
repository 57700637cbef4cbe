//! Shared parts of the tests of this module: random costs, every order of a few requests, every
//! queue on a small drive.

use alloc::vec::Vec;
use core::ops::Range;

use headtime_units::Nanos;
use proptest::prelude::*;

use super::Costs;

/// Costs in whole milliseconds.
pub(super) fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

/// A queue with random costs: asymmetric, without a triangle inequality, often equal.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    from_head: Vec<u64>,
    between: Vec<Vec<u64>>,
}

impl Drawn {
    /// Queues of so many requests. A third have costs of a few values, so that many paths are
    /// equally long.
    pub(super) fn of(count: Range<usize>) -> impl Strategy<Value = Self> {
        (count, prop_oneof![Just(3_u64), Just(20), Just(30_000_000)]).prop_flat_map(
            |(count, most)| {
                let row = move || proptest::collection::vec(0..most, count);
                (row(), proptest::collection::vec(row(), count))
                    .prop_map(|(from_head, between)| Self { from_head, between })
            },
        )
    }

    pub(super) fn len(&self) -> usize {
        self.from_head.len()
    }
}

impl Costs for Drawn {
    fn first(&self, to: usize) -> Nanos {
        Nanos::from_ns(self.from_head[to])
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        assert_ne!(from, to, "no request is served after itself");
        Nanos::from_ns(self.between[from][to])
    }
}

/// Random costs with bounds: for each pair anything up to the cost itself, often the cost itself or
/// zero.
#[derive(Clone, Debug)]
pub(super) struct Bounded {
    pub(super) costs: Drawn,
    /// Bounds in 256ths of the cost.
    parts: Vec<Vec<u64>>,
}

impl Bounded {
    pub(super) fn of(count: Range<usize>) -> impl Strategy<Value = Self> {
        Drawn::of(count).prop_flat_map(|costs| {
            let part = prop_oneof![Just(0_u64), Just(256), 0_u64..=256];
            let row = proptest::collection::vec(part, costs.len());
            proptest::collection::vec(row, costs.len())
                .prop_map(move |parts| Self { costs: costs.clone(), parts })
        })
    }

    fn bound(&self, from: usize, to: usize) -> Nanos {
        Nanos::from_ns(self.costs.between(from, to).as_ns() * self.parts[from][to] / 256)
    }
}

impl Costs for Bounded {
    fn first(&self, to: usize) -> Nanos {
        self.costs.first(to)
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        self.costs.between(from, to)
    }

    fn least(&self, one: usize, other: usize) -> [Nanos; 2] {
        [self.bound(one, other), self.bound(other, one)]
    }

    fn has_bounds(&self) -> bool {
        true
    }
}

/// Every order of requests 0 to `count`, as rows of numbers ascending.
pub(super) fn every_order(count: usize) -> Vec<Vec<usize>> {
    fn extend(order: &mut Vec<usize>, count: usize, into: &mut Vec<Vec<usize>>) {
        if order.len() == count {
            into.push(order.clone());
        }
        for next in 0..count {
            if !order.contains(&next) {
                order.push(next);
                extend(order, count, into);
                order.pop();
            }
        }
    }
    let mut orders = Vec::new();
    extend(&mut Vec::new(), count, &mut orders);
    orders
}

/// Passes every queue of `count` requests on a drive of `places` places: a seek of 1 ms per place
/// plus one, and 5 ms a revolution, with place p at angle 2p/5.
pub(super) fn every_queue(
    count: usize,
    places: usize,
    mut see: impl FnMut(&dyn Fn(Option<usize>, usize) -> Nanos),
) {
    let cost = |from: usize, to: usize| {
        let (arrives, angle) = (from.abs_diff(to) + 1, (2 * to + 10 - 2 * from % 5) % 5);
        ms((arrives + (angle + 10 - arrives) % 5) as u64)
    };
    for queue in 0..places.pow(count as u32) {
        let place = |request: usize| queue / places.pow(request as u32) % places;
        // The head is at the second place.
        see(&|from: Option<usize>, to: usize| cost(from.map_or(1, place), place(to)));
    }
}

/// Costs as one closure gives them.
pub(super) struct By<'a>(pub(super) &'a dyn Fn(Option<usize>, usize) -> Nanos);

impl Costs for By<'_> {
    fn first(&self, to: usize) -> Nanos {
        self.0(None, to)
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        self.0(Some(from), to)
    }
}
