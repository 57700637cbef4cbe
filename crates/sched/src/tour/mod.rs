//! Orders of a whole queue: short paths from the head through everyone who waits.
//!
//! A queue is a graph: each request is a vertex, and an edge weighs what it takes to serve one
//! request straight after another. An order is a *path*. It starts at the head, which is where it
//! is and no free end; its other end is free. The functions here know nothing of requests, beliefs
//! or clocks: they are handed [`Costs`] between numbers and answer numbers.
//!
//! - [`Path`]: an order that requests enter one by one, each where it lengthens the path least, and
//!   leave.
//! - [`insert_in_order`], [`insert_nearest_first`]: nearest insertion, as printed and as in the
//!   textbook.
//! - [`shortest`]: the exact solution, for [`SHORTEST_MAX`] requests at most.
//! - [`Lookahead`]: the best of all orders of the first few by deadline.
//! - [`LiveTour`]: a path through a live queue, repaired as requests come and go.
//! - [`CostTable`]: costs written down once for each pair, for a queue that requests enter and
//!   leave.
//!
//! Weights may be asymmetric, and they need not keep the triangle inequality: both are so on a
//! disk, where a stop on the way may well make the rest cheaper. Nothing is promised therefore of
//! how near to the shortest path an insertion comes; the factor of two of the paper holds for
//! distances only.
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

/// What it takes to serve one request straight after another, or first of all from where the head
/// is.
///
/// Contract: the same question gets the same answer during one call; a cost is below 2⁶² ns (146
/// years). A request's cost after itself is never asked.
pub trait Costs {
    /// From the head's place to the end of request `to`.
    fn first(&self, to: usize) -> Nanos;

    /// From the end of request `from` to the end of request `to`.
    fn between(&self, from: usize, to: usize) -> Nanos;

    /// As `between(from, to)`: for whoever asks what it takes to get to one request from many,
    /// where that can be had faster.
    fn between_transposed(&self, to: usize, from: usize) -> Nanos {
        self.between(from, to)
    }

    /// Costs that [`Costs::between`] is known not to be below, without asking for it: from `one` to
    /// `other`, and from `other` to `one`. Worth asking only where it is much cheaper than the
    /// costs themselves and says something: see [`Costs::has_bounds`].
    fn least(&self, one: usize, other: usize) -> [Nanos; 2] {
        let _ = (one, other);
        [Nanos::ZERO; 2]
    }

    /// Whether [`Costs::least`] says more than nothing. An insertion asks then only for those costs
    /// that can matter; the path is the same.
    fn has_bounds(&self) -> bool {
        false
    }

    /// What it takes from `request` to each of `others` and back, in their order, where all of it
    /// is had faster together; `None` where it is not.
    fn around(&self, request: usize, others: &[usize]) -> Option<Vec<[Nanos; 2]>> {
        let _ = (request, others);
        None
    }

    /// From the end of `from`, or from the head's place where there is nobody before, to the end of
    /// `to`.
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

/// The length of the path from the head through `order`, [`Nanos::MAX`] at the most.
#[must_use]
pub fn length(costs: &impl Costs, order: &[usize]) -> Nanos {
    let from = core::iter::once(None).chain(order.iter().copied().map(Some));
    from.zip(order).map(|(from, to)| costs.after(from, *to)).sum()
}
