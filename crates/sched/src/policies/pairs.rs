//! The cost of serving one request straight after another, shared by the policies of the latency
//! map.
//!
//! The cost of a pair is the *expected* time of the drive model from the end of one request to the
//! end of the other, whatever the model is: a map or a profile. For an unknown pair the model
//! answers with a substitute, which grows with distance for a map, so that unknown pairs are
//! ordered by address. While `latency_matrix` is `explore`, an unknown pair that one access would
//! measure costs a thousandth of that, so that it precedes every known one, the nearest first.
//! While it is `ignore`, a pair costs its distance in sectors.
//!
//! Source: P1 sections III-A and III-B; the settings are [`Tunables`](crate::Tunables).

use alloc::vec::Vec;

use headtime_units::{Lba, Nanos};

use crate::policy::View;
use crate::positioning::{Certainty, PairCost, Target};
use crate::queue::Queued;
use crate::tour::Costs;
use crate::tunables::LatencyMatrixUse;

/// The part of its cost that an unknown pair counts with while unknown pairs are preferred: less
/// than any access, and still in the order of distance.
const EXPLORED: u64 = 1_000;

/// Costs between targets.
pub(crate) struct Pairs<'a> {
    view: &'a View<'a>,
    targets: &'a [Target],
    /// True if the arm time alone bounds the cost.
    bounded: bool,
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(view: &'a View<'a>, targets: &'a [Target]) -> Self {
        let bounded = view.tunables.latency_matrix == LatencyMatrixUse::Use
            && !view.belief.seek_lower_bound(u32::MAX).is_zero();
        Self { view, targets, bounded }
    }

    fn cost(&self, from: Lba, to: &Target, pair: impl FnOnce() -> PairCost) -> Nanos {
        match self.view.tunables.latency_matrix {
            LatencyMatrixUse::Ignore => Nanos::from_ns(to.extent.start.distance(from).get()),
            LatencyMatrixUse::Use => pair().expected,
            LatencyMatrixUse::Explore => match pair() {
                PairCost { expected, known: Certainty::Learnable, .. } => expected / EXPLORED,
                PairCost { expected, .. } => expected,
            },
        }
    }
}

impl Costs for Pairs<'_> {
    fn first(&self, to: usize) -> Nanos {
        let to = &self.targets[to];
        self.cost(self.view.next_lba(), to, || self.view.next(to))
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        let (from, to) = (&self.targets[from], &self.targets[to]);
        self.cost(from.extent.end(), to, || self.view.pair(from, to))
    }

    /// Bounds from arm time and media time alone.
    fn least(&self, one: usize, other: usize) -> [Nanos; 2] {
        let (one, other) = (&self.targets[one], &self.targets[other]);
        let arm = |from: &Target, to: &Target| from.end.cylinder.abs_diff(to.start.cylinder);
        let (there, back) = (arm(one, other), arm(other, one));
        let least = self.view.belief.seek_lower_bound(there);
        let min_back = if back == there { least } else { self.view.belief.seek_lower_bound(back) };
        [least + other.transfer, min_back + one.transfer]
    }

    fn has_bounds(&self) -> bool {
        self.bounded
    }

    fn around(&self, request: usize, others: &[usize]) -> Option<Vec<[Nanos; 2]>> {
        if self.view.tunables.latency_matrix != LatencyMatrixUse::Use {
            return None;
        }
        let mut answers = Vec::with_capacity(others.len());
        let mut targets = others.iter().map(|other| &self.targets[*other]);
        self.view.pairs(&self.targets[request], &mut targets, &mut |there, back| {
            answers.push([there.expected, back.expected])
        });
        Some(answers)
    }
}

/// The targets of some requests.
pub(crate) fn targets<'q>(requests: impl Iterator<Item = &'q Queued>) -> Vec<Target> {
    requests.map(|queued| queued.target).collect()
}
