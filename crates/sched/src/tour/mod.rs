//! Orders of a whole queue: short paths from the head through all requests.
//!
//! A queue is a graph: each request is a vertex, and an edge weighs the cost of serving one request
//! straight after another. An order is a *path*. It starts at the head, which is fixed; its other
//! end is free. The functions here are independent of requests, drive models and clocks: they take
//! [`Costs`] between numbers and return numbers.
//!
//! - [`Path`]: an order with insertion of each request where it lengthens the path least.
//! - [`insert_in_order`], [`insert_nearest_first`]: nearest insertion, as printed and as in the
//!   textbook; [`Insertion::NearestNeighbor`]: the nearest next, which inserts nothing.
//! - [`shortest`]: the exact solution, for at most [`SHORTEST_MAX`] requests.
//! - [`Lookahead`]: the best of all orders of the first few by deadline.
//! - [`LiveTour`]: a path through a live queue, updated as requests come and go.
//! - [`CostTable`]: stored costs of all pairs of a changing queue.
//!
//! Weights may be asymmetric and may violate the triangle inequality. Both happen on a disk, where
//! a stop on the way can make the rest cheaper. So an insertion has no bound relative to the
//! shortest path; the paper's factor of two holds for distances only.
//!
//! Source: P1 sections 3.2 and 3.3.

mod excess;
mod insertion;
mod live;
mod lookahead;
mod path;
mod shortest;
mod table;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod trial;

pub use excess::{ChainExcess, Margins};
pub use insertion::{Insertion, insert_in_order, insert_nearest_first};
pub use live::LiveTour;
pub use lookahead::{LOOKAHEAD_MAX, Lookahead, Outlook};
pub use path::Path;
pub use shortest::{SHORTEST_MAX, shortest};
pub use table::CostTable;

use alloc::vec::Vec;

use headtime_units::Nanos;

/// The cost of serving one request straight after another, or first after the head.
///
/// Contract: the same arguments give the same cost during one call; a cost is below 2⁶² ns (146
/// years). The cost of a request after itself is never used.
pub trait Costs {
    /// From the head's place to the end of request `to`.
    fn first(&self, to: usize) -> Nanos;

    /// From the end of request `from` to the end of request `to`.
    fn between(&self, from: usize, to: usize) -> Nanos;

    /// As `between(from, to)`, for a caller that computes the costs of one target after many, which
    /// an implementation may store together.
    fn between_transposed(&self, to: usize, from: usize) -> Nanos {
        self.between(from, to)
    }

    /// Lower bounds of [`Costs::between`], from `one` to `other` and from `other` to `one`. Useful
    /// only if much cheaper than the costs themselves: see [`Costs::has_bounds`].
    fn least(&self, one: usize, other: usize) -> [Nanos; 2] {
        let _ = (one, other);
        [Nanos::ZERO; 2]
    }

    /// Returns whether [`Costs::least`] gives more than zero. An insertion then computes only the
    /// costs that can matter; the path is the same.
    fn has_bounds(&self) -> bool {
        false
    }

    /// The costs from `request` to each of `others` and back, in their order, where they are
    /// cheaper together; `None` where they are not.
    fn around(&self, request: usize, others: &[usize]) -> Option<Vec<[Nanos; 2]>> {
        let _ = (request, others);
        None
    }

    /// From the end of `from`, or from the head if there is none, to the end of `to`.
    fn after(&self, from: Option<usize>, to: usize) -> Nanos {
        from.map_or_else(|| self.first(to), |from| self.between(from, to))
    }
}

/// Two closures: from the head, and between two requests.
impl<H: Fn(usize) -> Nanos, B: Fn(usize, usize) -> Nanos> Costs for (H, B) {
    fn first(&self, to: usize) -> Nanos {
        self.0(to)
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        self.1(from, to)
    }
}

/// The length of the path from the head through `order`, at most [`Nanos::MAX`].
#[must_use]
pub fn length(costs: &impl Costs, order: &[usize]) -> Nanos {
    let from = core::iter::once(None).chain(order.iter().copied().map(Some));
    from.zip(order).map(|(from, to)| costs.after(from, *to)).sum()
}
