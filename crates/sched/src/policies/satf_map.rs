//! The shortest path through the live queue by the belief's times, nearest insertion: the paper's
//! scheduler.
//!
//! What it does. Everybody who waits is on one path that begins at the head. Whoever arrives is
//! inserted where he lengthens it least: between j and k the increase is W(j,i) + W(i,k) − W(j,k).
//! The first of the path goes. Times are those of the belief, whichever it is: a latency map, a
//! profile, a model; what is not known is ordered by address (`pairs.rs`).
//!
//! Worked example, costs in ms: the path is A B, 4 from the head to A, 5 from A to B. C arrives: 3
//! from the head, 2 behind A, 9 behind B, and behind C it is 3 to A and 4 to B. Before A it adds 3
//! + 3 − 4 = 2, between the two 2 + 4 − 5 = 1, at the end 9: A C B.
//!
//! Guarantees that an arrival lengthens the path as little as the belief's times say that it can.
//! Does *not* guarantee that a request ever goes: whoever is at the end of the path stays there as
//! long as others are inserted before him. A short path is not the goal of a queue that refills:
//! greedy `sptf` with the same times serves up to half as much again (docs/limits.md 2). Deadlines
//! are ignored.
//!
//! Cost: an arrival among n asks the belief for as many of 2n pairs as its bounds on arm times
//! leave in question, for all of them where it has none or `rebuild_after` is set; a decision looks
//! at n numbers to see who has come and gone; see `cargo bench -p headtime-sim --bench tour`. At
//! most `plan_most` requests are on the path, the oldest; the others wait.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `rebuild_after` | requests sent; 0 for never | 0 | P1: insertion into the live queue |
//! | `nearest_first` | 0 or 1 | 0 | P1 section III-B inserts in queue order, the textbook the nearest first |
//! | `plan_most` | requests | 256 | P1 section III-B: longer queues are rare |
//!
//! One command is outstanding, as the paper measured it; the caller's limit overrides it. Source:
//! P1 sections III-B and V-B, 3 (SATF-MAP), with the misprint in the increase mended.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::policies::pairs::Pairs;
use crate::policy::{Choice, Policy, View};
use crate::positioning::Target;
use crate::queue::{Queued, Ticket};
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tour::LiveTour;
use crate::tunables::LatencyMatrixUse;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "satf-map",
    summary: "a short path through the live queue by the belief's times, nearest insertion",
    source: "P1 sections III-B and V-B, 3 (SATF-MAP)",
    oracle: false,
    parameters: &[REBUILD_AFTER, NEAREST_FIRST, PLAN_MAX],
    build: |parameters| Box::new(SatfMap::new(parameters)),
};

const REBUILD_AFTER: Parameter = Parameter {
    name: "rebuild_after",
    summary: "requests sent after which the path is built again; 0 for never",
    default: 0.0,
    min: 0.0,
    max: 65536.0,
    whole: true,
    origin: "P1 section III-B: insertion into the live queue",
};

/// Shared by the policies that build a path of several at once.
pub(crate) const NEAREST_FIRST: Parameter = Parameter {
    name: "nearest_first",
    summary: "1: a path is built by inserting the nearest first; 0: in the order of the queue",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "P1 section III-B (0); the textbook's is 1",
};

/// Shared by the policies that plan a path.
pub(crate) const PLAN_MAX: Parameter = Parameter {
    name: "plan_most",
    summary: "requests on the path at most, the oldest; the others wait",
    default: 256.0,
    min: 1.0,
    max: 1024.0,
    whole: true,
    origin: "P1 section III-B: longer queues are rare",
};

struct SatfMap {
    rebuild_after: usize,
    nearest_first: bool,
    plan_most: usize,
    tour: LiveTour,
    /// Those on the path and their slots, in the order of arrival.
    on_path: Vec<(Ticket, usize)>,
    /// By slot.
    tickets: Vec<Ticket>,
    targets: Vec<Target>,
    /// Sent since the path was built.
    sent: usize,
    /// What the costs on the path were counted by.
    counted_by: LatencyMatrixUse,
}

impl SatfMap {
    fn new(parameters: &Parameters) -> Self {
        Self {
            rebuild_after: parameters.get(REBUILD_AFTER.name) as usize,
            nearest_first: parameters.get(NEAREST_FIRST.name) != 0.0,
            plan_most: parameters.get(PLAN_MAX.name) as usize,
            tour: tour(parameters.get(REBUILD_AFTER.name) != 0.0),
            on_path: Vec::new(),
            tickets: Vec::new(),
            targets: Vec::new(),
            sent: 0,
            counted_by: LatencyMatrixUse::default(),
        }
    }

    /// Brings the path up to date with the queue.
    fn follow(&mut self, view: &View<'_>) {
        if self.counted_by != view.tunables.latency_matrix {
            self.counted_by = view.tunables.latency_matrix;
            self.forget();
        }
        let arrived = self.part(view);
        let was_empty = self.on_path.is_empty();
        for queued in &arrived {
            self.enter(view, queued);
        }
        let several_at_once = was_empty && arrived.len() > 1 && self.nearest_first;
        if several_at_once || (self.rebuild_after > 0 && self.sent >= self.rebuild_after) {
            let slots: Vec<usize> = self.on_path.iter().map(|(_, slot)| *slot).collect();
            self.tour.rebuild(&Pairs::new(view, &self.targets), &slots, self.nearest_first);
            self.sent = 0;
        }
    }

    /// Begins again with nobody on the path.
    fn forget(&mut self) {
        (self.tour, self.on_path, self.sent) = (tour(self.rebuild_after > 0), Vec::new(), 0);
    }

    /// Takes those who have left the queue off the path, and answers who is to enter it.
    fn part<'q>(&mut self, view: &View<'q>) -> Vec<&'q Queued> {
        let mut queued = view.queue.by_arrival().peekable();
        let mut arrived: Vec<&Queued> = Vec::new();
        let (tour, sent, most) = (&mut self.tour, &mut self.sent, self.plan_most);
        self.on_path.retain(|(ticket, slot)| {
            while let Some(newcomer) = queued.next_if(|queued| queued.ticket < *ticket) {
                if arrived.len() < most {
                    arrived.push(newcomer);
                }
            }
            let stays = queued.next_if(|queued| queued.ticket == *ticket).is_some();
            if !stays {
                *sent += usize::from(tour.leave(*slot));
            }
            stays
        });
        let room = most - self.on_path.len();
        arrived.extend(queued.take(room.saturating_sub(arrived.len())));
        arrived.truncate(room);
        arrived
    }

    fn enter(&mut self, view: &View<'_>, queued: &Queued) {
        let slot = self.tour.slot();
        if slot == self.tickets.len() {
            self.tickets.push(queued.ticket);
            self.targets.push(queued.target);
        }
        (self.tickets[slot], self.targets[slot]) = (queued.ticket, queued.target);
        self.tour.enter(&Pairs::new(view, &self.targets), slot);
        let place = self.on_path.partition_point(|(ticket, _)| *ticket < queued.ticket);
        self.on_path.insert(place, (queued.ticket, slot));
    }
}

/// A path that is built again again and again wants all pairs written down.
fn tour(is_rebuilt: bool) -> LiveTour {
    if is_rebuilt { LiveTour::remembering() } else { LiveTour::new() }
}

impl Policy for SatfMap {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn belief_changed(&mut self) {
        self.forget();
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        self.follow(view);
        Choice::one(self.tour.path().first().map(|slot| self.tickets[slot]))
    }
}
