#![doc = include_str!("../../../../docs/policies/beam-oracle.md")]

use alloc::boxed::Box;
use alloc::vec::Vec;

use headtime_units::Instant;
use smallvec::SmallVec;

use crate::policy::{Choice, Policy, View};
use crate::positioning::Head;
use crate::queue::Queued;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "beam-oracle",
    summary: "beam search over the next commands on the simulated drive's truth: a bound on the \
        gain of planning ahead",
    source: "docs/limits.md 2 (beam, depth 8, width 64)",
    oracle: true,
    parameters: &[
        Parameter {
            name: "depth",
            summary: "commands planned ahead",
            default: 8.0,
            min: 1.0,
            max: 16.0,
            whole: true,
            origin: "docs/limits.md, table",
        },
        Parameter {
            name: "width",
            summary: "plans kept at each step",
            default: 64.0,
            min: 1.0,
            max: 256.0,
            whole: true,
            origin: "docs/limits.md, table",
        },
        Parameter {
            name: "branches",
            summary: "continuations of each plan, the first to end first",
            default: 8.0,
            min: 1.0,
            max: 256.0,
            whole: true,
            origin: "measured: neither 4 nor 64 does better",
        },
    ],
    build: |parameters| Box::new(BeamOracle::new(parameters)),
};

struct BeamOracle {
    depth: usize,
    width: usize,
    branches: usize,
}

/// The requests that may go, by cylinder.
struct Candidates<'a> {
    by_cylinder: Vec<&'a Queued>,
}

/// An order of some requests, and where it leaves the head.
struct Plan {
    head: Head,
    /// The time at which the next command would be sent: when the one before the last has ended.
    sent_at: Instant,
    /// The ends of all its commands, added up; decides between plans that end together.
    ends: u64,
    /// Its requests as a set; the same for every order of them.
    set: u64,
    /// Its requests in order, as places in [`Candidates`].
    order: SmallVec<[u32; 8]>,
}

/// A plan that might be made by appending one request to another plan.
#[derive(Clone, Copy)]
struct Step {
    finish: Instant,
    ends: u64,
    set: u64,
    plan: usize,
    candidate: u32,
}

/// The best steps of one round, the first to end first.
struct Beam {
    width: usize,
    steps: Vec<Step>,
}

impl BeamOracle {
    fn new(parameters: &Parameters) -> Self {
        let whole = |name| parameters.get(name) as usize;
        Self { depth: whole("depth"), width: whole("width"), branches: whole("branches") }
    }

    /// Every plan of one more command that is worth keeping.
    fn lengthen(&self, view: &View<'_>, candidates: &Candidates<'_>, plans: &[Plan]) -> Vec<Plan> {
        let mut beam = Beam { width: self.width, steps: Vec::with_capacity(self.width + 1) };
        // The best continuations of one plan, the first to end first.
        let mut ways: Vec<Step> = Vec::with_capacity(self.branches + 1);
        for (number, plan) in plans.iter().enumerate() {
            ways.clear();
            for (distance, candidate) in candidates.outward(plan.head.place.cylinder) {
                let soonest = plan.head.free_at + view.belief.seek_lower_bound(distance);
                let way_taken = ways.len() == self.branches
                    && ways.last().is_some_and(|last| soonest > last.finish);
                if way_taken || beam.refuses(soonest) {
                    break;
                }
                if plan.order.contains(&candidate) {
                    continue;
                }
                let target = &candidates.by_cylinder[candidate as usize].target;
                let likely = view.belief.likely(&plan.head, plan.sent_at, target);
                let finish = likely.depart + likely.positioning + target.transfer;
                let ends = plan.ends + finish.saturating_since(view.now).as_ns();
                let step =
                    Step { finish, ends, set: plan.set ^ mark(candidate), plan: number, candidate };
                let place = ways.partition_point(|way| way.key() <= step.key());
                if place < self.branches {
                    ways.insert(place, step);
                    ways.truncate(self.branches);
                }
            }
            ways.iter().for_each(|step| beam.offer(*step));
        }
        beam.steps.iter().map(|step| plans[step.plan].with(step, candidates, view.now)).collect()
    }
}

impl Policy for BeamOracle {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        2
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let candidates = Candidates { by_cylinder: view.queue.from_cylinder(0).collect() };
        let start =
            Plan { head: *view.head(), sent_at: view.now, ends: 0, set: 0, order: SmallVec::new() };
        let mut plans = Vec::from([start]);
        for _ in 0..self.depth.min(candidates.by_cylinder.len()) {
            plans = self.lengthen(view, &candidates, &plans);
        }
        let first = plans.first().and_then(|best| best.order.first());
        Choice::one(first.map(|candidate| candidates.by_cylinder[*candidate as usize].ticket))
    }
}

impl Candidates<'_> {
    /// All candidates with their distance from `cylinder`, the nearest first.
    fn outward(&self, cylinder: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let distance =
            move |place: usize| self.by_cylinder[place].target.start.cylinder.abs_diff(cylinder);
        let mut inward =
            self.by_cylinder.partition_point(|queued| queued.target.start.cylinder < cylinder);
        let mut outward = inward;
        core::iter::from_fn(move || {
            let further_in = (inward < self.by_cylinder.len()).then(|| distance(inward));
            let further_out = outward.checked_sub(1).map(|place| (distance(place), place));
            match (further_in, further_out) {
                (Some(in_distance), Some((out_distance, place))) if out_distance < in_distance => {
                    outward = place;
                    Some((out_distance, place as u32))
                }
                (Some(in_distance), _) => {
                    inward += 1;
                    Some((in_distance, inward as u32 - 1))
                }
                (None, Some((out_distance, place))) => {
                    outward = place;
                    Some((out_distance, place as u32))
                }
                (None, None) => None,
            }
        })
    }
}

impl Plan {
    fn with(&self, step: &Step, candidates: &Candidates<'_>, now: Instant) -> Self {
        let target = &candidates.by_cylinder[step.candidate as usize].target;
        let mut order = self.order.clone();
        order.push(step.candidate);
        Self {
            head: Head::after(target, step.finish),
            sent_at: self.head.free_at.max(now),
            ends: step.ends,
            set: step.set,
            order,
        }
    }
}

impl Step {
    /// The sort key of a plan, smaller is better. Plans of equal key stay in the order in which
    /// they were found.
    fn key(&self) -> (Instant, u64) {
        (self.finish, self.ends)
    }
}

impl Beam {
    /// Returns whether a plan that ends at `finish` or later is no longer kept.
    fn refuses(&self, finish: Instant) -> bool {
        self.steps.len() == self.width
            && self.steps.last().is_some_and(|worst| finish > worst.finish)
    }

    /// Keeps `step` unless enough steps are better, or one with the same requests and the same last
    /// one is as good: from there on the two are alike, because the earlier one is never later at
    /// the next request.
    fn offer(&mut self, step: Step) {
        let place = self.steps.partition_point(|kept| kept.key() <= step.key());
        if place == self.width {
            return;
        }
        if let Some(alike) = self
            .steps
            .iter()
            .position(|kept| (kept.set, kept.candidate) == (step.set, step.candidate))
        {
            if alike < place {
                return;
            }
            self.steps.remove(alike);
        }
        self.steps.insert(place, step);
        self.steps.truncate(self.width);
    }
}

/// The mark of a candidate in a set; sets are compared by the exclusive or of their marks
/// (splitmix64's finalizer, so that two sets of a few requests do not agree by accident).
fn mark(candidate: u32) -> u64 {
    let mut mixed = (u64::from(candidate) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(finish: u64, requests: &[u32]) -> Step {
        let set = requests.iter().fold(0, |set, candidate| set ^ mark(*candidate));
        Step {
            finish: Instant::from_ns(finish),
            ends: finish,
            set,
            plan: 0,
            candidate: *requests.last().expect("a step appends one"),
        }
    }

    #[test]
    fn a_beam_keeps_the_first_to_end_and_one_of_each_set_with_its_last() {
        let mut beam = Beam { width: 3, steps: Vec::new() };
        let ends =
            |beam: &Beam| beam.steps.iter().map(|step| step.finish.as_ns()).collect::<Vec<_>>();
        for kept in
            [step(50, &[0, 1, 2]), step(40, &[1, 0, 2]), step(45, &[0, 2, 1]), step(60, &[3, 4, 5])]
        {
            beam.offer(kept);
        }
        assert_eq!(
            ends(&beam),
            [40, 45, 60],
            "of the two orders that end with 2 the later is gone"
        );
        assert!(!beam.refuses(Instant::from_ns(60)) && beam.refuses(Instant::from_ns(61)));
        beam.offer(step(42, &[0, 1, 2]));
        assert_eq!(
            ends(&beam),
            [40, 45, 60],
            "an order that is no better than its like is not kept"
        );
        beam.offer(step(1, &[5, 3, 4]));
        assert_eq!(ends(&beam), [1, 40, 45], "the worst goes when a better comes");
    }
}
