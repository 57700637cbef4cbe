//! [`DeadlineChain`]: the submission deadlines of requests with deadlines, kept up to date.
//!
//! The *submission deadline* of a request is the latest time at which the drive may begin it, if
//! each request takes its worst case and they are served in the order of deadlines:
//! `s_i = min(s_{i+1}, d_i) − e_i`, with `d_i` the deadline, `e_i` the worst case, and no bound
//! after the last. That of the first request is `min_i (d_i − Σ_{j ≤ i} e_j)`, and only that one
//! decides anything (P4, Algorithm 1).
//!
//! The requests are nodes of a treap in the order of deadline, address and ticket. Each node keeps
//! for its subtree the sum of `e` and the minimum above, counted from the subtree's first request.
//! So the first submission deadline of all, of all but one, and of all and one more are each read
//! on one path. The heap order is a hash of the ticket, the same on every machine.
//!
//! Worked example: worst cases of 3 ms, deadlines 4 and 5 ms. The sums are 3 and 6, the differences
//! 1 and −1: the first must begin at −1 ms, so at 0 the two cannot be guaranteed. Either alone can.
//!
//! Cost: O(log n) expected for each operation.
//!
//! Source: P4, Algorithm 1 and the appendix (`update_start_deadlines`), both without their
//! misprints: Algorithm 1 prints `min(s_{i+1}, d_i − e_i)`, which for the example gives 1 ms.

use alloc::vec::Vec;
use core::cmp::Ordering;

use headtime_units::{Instant, Lba, Nanos};

use crate::queue::{Slot, Ticket};

/// The order of the chain: by deadline, those of one deadline by address.
pub(crate) type ChainKey = (Instant, Lba, Ticket);

/// Requests with deadlines and worst cases.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineChain {
    /// By slot of the queue; the content of a slot that is not in the tree is stale.
    nodes: Vec<Node>,
    root: u32,
    /// The nodes above the one that changes, from the root down; empty between two changes.
    path: Vec<u32>,
}

/// One cache line: a path through a long chain is one miss for each node.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node {
    key: ChainKey,
    left: u32,
    right: u32,
    own: Span,
    all: Span,
}

/// A run of requests in the order of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// The time at which the first must begin, in nanoseconds of the clock; may be negative.
    begin_by_ns: i64,
    /// The sum of the worst cases.
    worst_ns: i64,
}

const NONE: u32 = u32::MAX;

impl Span {
    const EMPTY: Self = Self { begin_by_ns: i64::MAX, worst_ns: 0 };

    fn of(deadline: Instant, worst: Nanos) -> Self {
        let worst_ns = i64::try_from(worst.as_ns()).unwrap_or(i64::MAX);
        let deadline_ns = i64::try_from(deadline.as_ns()).unwrap_or(i64::MAX);
        Self { begin_by_ns: deadline_ns.saturating_sub(worst_ns), worst_ns }
    }

    fn then(self, next: Self) -> Self {
        Self {
            begin_by_ns: self.begin_by_ns.min(next.begin_by_ns.saturating_sub(self.worst_ns)),
            worst_ns: self.worst_ns.saturating_add(next.worst_ns),
        }
    }

    /// Returns whether the first may begin as late as at `from`.
    fn allows(self, from: Instant) -> bool {
        i64::try_from(from.as_ns()).unwrap_or(i64::MAX) <= self.begin_by_ns
    }
}

impl Default for DeadlineChain {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NONE, path: Vec::new() }
    }
}

impl DeadlineChain {
    /// Returns whether every request is done by its deadline if the first begins at `from`.
    pub(crate) fn allows(&self, from: Instant) -> bool {
        self.span(self.root).allows(from)
    }

    /// The same without the request of this key, if it is in the chain.
    pub(crate) fn allows_without(&self, key: &ChainKey, from: Instant) -> bool {
        let (before, after) = self.around(key);
        before.then(after).allows(from)
    }

    /// The same with one more request.
    pub(crate) fn allows_with(&self, key: &ChainKey, worst: Nanos, from: Instant) -> bool {
        let (before, after) = self.around(key);
        before.then(Span::of(key.0, worst)).then(after).allows(from)
    }

    /// The request with the earliest deadline. Of several, the first at `from` or after it by
    /// address, else the first of all (SCAN-EDF).
    pub(crate) fn first_in_sweep(&self, from: Lba) -> Option<Slot> {
        let mut first = self.root;
        while self.nodes.get(first as usize)?.left != NONE {
            first = self.nodes[first as usize].left;
        }
        let deadline = self.nodes[first as usize].key.0;
        let (mut at, mut found) = (self.root, NONE);
        while at != NONE {
            let node = &self.nodes[at as usize];
            (at, found) = if node.key >= (deadline, from, Ticket(0)) {
                (node.left, at)
            } else {
                (node.right, found)
            };
        }
        let in_sweep = self.nodes.get(found as usize).is_some_and(|node| node.key.0 == deadline);
        Some(Slot::new(if in_sweep { found } else { first }))
    }

    pub(crate) fn insert(&mut self, slot: Slot, key: ChainKey, worst: Nanos) {
        let own = Span::of(key.0, worst);
        let node = Node { key, left: NONE, right: NONE, own, all: own };
        let index = slot.number();
        while self.nodes.len() <= index as usize {
            self.nodes.push(node);
        }
        self.nodes[index as usize] = node;
        let (new_heap, mut at) = (heap(&key), self.root);
        while let Some(node) = self.nodes.get(at as usize) {
            if new_heap > heap(&node.key) {
                break;
            }
            self.path.push(at);
            at = if key < node.key { node.left } else { node.right };
        }
        let (left, right) = self.split(at, &key);
        let top = &mut self.nodes[index as usize];
        (top.left, top.right) = (left, right);
        self.update(index);
        self.put_below_path(&key, index);
    }

    /// Removes a request that is in the chain.
    pub(crate) fn remove(&mut self, key: &ChainKey) {
        let mut at = self.root;
        let (left, right) = loop {
            let Some(node) = self.nodes.get(at as usize) else { return self.path.clear() };
            let next = match key.cmp(&node.key) {
                Ordering::Equal => break (node.left, node.right),
                Ordering::Less => node.left,
                Ordering::Greater => node.right,
            };
            self.path.push(at);
            at = next;
        };
        let under = self.merge(left, right);
        self.put_below_path(key, under);
    }

    /// Puts a subtree, in whose place in the order `key` is, below the path, and updates the path.
    fn put_below_path(&mut self, key: &ChainKey, under: u32) {
        let Some(above) = self.path.last() else { return self.root = under };
        let above = &mut self.nodes[*above as usize];
        *(if *key < above.key { &mut above.left } else { &mut above.right }) = under;
        while let Some(at) = self.path.pop() {
            self.update(at);
        }
    }

    /// The number of requests; counts them all, for checks.
    pub(crate) fn count(&self) -> usize {
        fn count(chain: &DeadlineChain, at: u32) -> usize {
            let Some(node) = chain.nodes.get(at as usize) else { return 0 };
            1 + count(chain, node.left) + count(chain, node.right)
        }
        count(self, self.root)
    }

    /// The runs before and after a key; the request of that key is in neither.
    fn around(&self, key: &ChainKey) -> (Span, Span) {
        let (mut before, mut after) = (Span::EMPTY, Span::EMPTY);
        let mut at = self.root;
        while at != NONE {
            let node = &self.nodes[at as usize];
            match key.cmp(&node.key) {
                Ordering::Less => {
                    after = node.own.then(self.span(node.right)).then(after);
                    at = node.left;
                }
                Ordering::Greater => {
                    before = before.then(self.span(node.left)).then(node.own);
                    at = node.right;
                }
                Ordering::Equal => {
                    before = before.then(self.span(node.left));
                    return (before, self.span(node.right).then(after));
                }
            }
        }
        (before, after)
    }

    fn span(&self, at: u32) -> Span {
        self.nodes.get(at as usize).map_or(Span::EMPTY, |node| node.all)
    }

    fn update(&mut self, at: u32) -> u32 {
        let Node { left, right, own, .. } = self.nodes[at as usize];
        self.nodes[at as usize].all = self.span(left).then(own).then(self.span(right));
        at
    }

    /// Splits a subtree into the requests before `key` and those after it.
    fn split(&mut self, at: u32, key: &ChainKey) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let node = self.nodes[at as usize];
        if node.key < *key {
            let (middle, after) = self.split(node.right, key);
            self.nodes[at as usize].right = middle;
            (self.update(at), after)
        } else {
            let (before, middle) = self.split(node.left, key);
            self.nodes[at as usize].left = middle;
            (before, self.update(at))
        }
    }

    /// Joins two subtrees, all of the first before all of the second.
    fn merge(&mut self, first: u32, second: u32) -> u32 {
        if first == NONE || second == NONE {
            return if first == NONE { second } else { first };
        }
        if heap(&self.nodes[first as usize].key) > heap(&self.nodes[second as usize].key) {
            let right = self.nodes[first as usize].right;
            self.nodes[first as usize].right = self.merge(right, second);
            self.update(first)
        } else {
            let left = self.nodes[second as usize].left;
            self.nodes[second as usize].left = self.merge(first, left);
            self.update(second)
        }
    }
}

/// The place of a request in the heap order: SplitMix64 of its ticket, so that neighbors get
/// unrelated numbers.
fn heap((_, _, ticket): &ChainKey) -> u64 {
    let mut mixed = ticket.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    fn key(ticket: u64, deadline_ms: u64, lba: u64) -> ChainKey {
        (ms(deadline_ms), Lba::new(lba), Ticket(ticket))
    }

    #[test]
    fn the_example_of_the_header_holds() {
        let mut chain = DeadlineChain::default();
        let (one, two) = (key(0, 4, 0), key(1, 5, 0));
        assert!(chain.allows_with(&one, Nanos::from_ms(3), ms(0)));
        chain.insert(Slot::new(0), one, Nanos::from_ms(3));
        assert!(chain.allows(ms(1)) && !chain.allows(Instant::from_ns(1_000_001)));
        assert!(!chain.allows_with(&two, Nanos::from_ms(3), ms(0)), "the first would begin at -1");
        assert!(chain.allows_with(&key(1, 6, 0), Nanos::from_ms(3), ms(0)));
        chain.insert(Slot::new(1), two, Nanos::from_ms(3));
        assert!(!chain.allows(ms(0)) && chain.allows_without(&one, ms(2)));
    }

    #[test]
    fn one_deadline_is_served_in_one_sweep() {
        let mut chain = DeadlineChain::default();
        assert_eq!(chain.first_in_sweep(Lba::new(0)), None);
        for (slot, lba) in [70, 30, 50].into_iter().enumerate() {
            chain.insert(Slot::new(slot as u32), key(slot as u64, 9, lba), Nanos::ZERO);
        }
        chain.insert(Slot::new(3), key(3, 10, 40), Nanos::ZERO);
        let next = |from| chain.first_in_sweep(Lba::new(from)).map(Slot::number);
        assert_eq!([next(0), next(31), next(50), next(71)], [Some(1), Some(2), Some(2), Some(1)]);
    }

    /// Algorithm 1, from the last to the first, in milliseconds.
    fn by_algorithm(mut requests: Vec<(u64, u64, u64)>) -> Option<i64> {
        requests.sort_unstable();
        requests.iter().rev().fold(None, |begin: Option<i64>, (deadline, _, worst)| {
            let end = begin.map_or(*deadline as i64, |begin| begin.min(*deadline as i64));
            Some(end - *worst as i64)
        })
    }

    proptest! {
        #[test]
        fn every_answer_is_that_of_the_algorithm_of_the_paper(
            requests in proptest::collection::vec((0_u64..40, 0_u64..9), 1..40),
            gone in proptest::collection::vec(any::<bool>(), 40),
            from in 0_u64..40,
            other in (0_u64..40, 0_u64..9),
        ) {
            let mut chain = DeadlineChain::default();
            let mut held = vec![];
            for (ticket, (deadline, worst)) in requests.iter().enumerate() {
                let key = key(ticket as u64, *deadline, ticket as u64 * 7 % 5);
                chain.insert(Slot::new(ticket as u32), key, Nanos::from_ms(*worst));
                held.push((*deadline, ticket as u64, *worst));
            }
            for (ticket, gone) in gone.iter().enumerate().take(requests.len()) {
                if *gone {
                    let (deadline, ticket) = (requests[ticket].0, ticket as u64);
                    chain.remove(&key(ticket, deadline, ticket * 7 % 5));
                    held.retain(|entry| entry.1 != ticket);
                }
            }
            prop_assert_eq!(chain.count(), held.len());
            let allows = |held: Vec<(u64, u64, u64)>| {
                by_algorithm(held).is_none_or(|begin| from as i64 <= begin)
            };
            prop_assert_eq!(chain.allows(ms(from)), allows(held.clone()));
            for (deadline, ticket, _) in &held {
                let without = held.iter().copied().filter(|entry| entry.1 != *ticket).collect();
                let key = key(*ticket, *deadline, ticket * 7 % 5);
                prop_assert_eq!(chain.allows_without(&key, ms(from)), allows(without));
            }
            let mut with = held.clone();
            with.push((other.0, 99, other.1));
            let (other, worst) = (key(99, other.0, 3), Nanos::from_ms(other.1));
            prop_assert_eq!(chain.allows_with(&other, worst, ms(from)), allows(with));
        }
    }
}
