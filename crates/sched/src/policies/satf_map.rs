#![doc = include_str!("../../../../docs/policies/satf-map.md")]

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::policies::pairs::Pairs;
use crate::policy::{Choice, Policy, View};
use crate::positioning::Target;
use crate::queue::{Queued, Ticket};
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tour::{Insertion, LiveTour};
use crate::tunables::LatencyMatrixUse;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "satf-map",
    summary: "a short path through the live queue by the drive model's times, nearest insertion",
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
    summary: "a path is built by inserting in the order of the queue (0) or the nearest first (1), \
        or each request is the nearest after the one before it (2)",
    default: 0.0,
    min: 0.0,
    max: 2.0,
    whole: true,
    origin: "P1 section III-B (0); the textbook's is 1; P1 section V-B, \"SATF\" (2)",
};

/// Shared by the policies that plan a path.
pub(crate) const PLAN_MAX: Parameter = Parameter {
    name: "plan_most",
    summary: "maximum number of requests on the path, the oldest; the others wait",
    default: 256.0,
    min: 1.0,
    max: 1024.0,
    whole: true,
    origin: "P1 section III-B: longer queues are rare",
};

/// The insertion that [`NEAREST_FIRST`] selects.
pub(crate) fn insertion(parameters: &Parameters) -> Insertion {
    match parameters.get(NEAREST_FIRST.name) as u8 {
        0 => Insertion::InOrder,
        1 => Insertion::NearestFirst,
        _ => Insertion::NearestNeighbor,
    }
}

struct SatfMap {
    rebuild_after: usize,
    insertion: Insertion,
    plan_most: usize,
    tour: LiveTour,
    /// Those on the path and their slots, in the order of arrival.
    on_path: Vec<(Ticket, usize)>,
    /// By slot.
    tickets: Vec<Ticket>,
    targets: Vec<Target>,
    /// Sent since the path was built.
    sent: usize,
    /// The setting that the costs on the path were computed with.
    counted_by: LatencyMatrixUse,
}

impl SatfMap {
    fn new(parameters: &Parameters) -> Self {
        Self {
            rebuild_after: parameters.get(REBUILD_AFTER.name) as usize,
            insertion: insertion(parameters),
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
        let several_at_once =
            was_empty && arrived.len() > 1 && self.insertion != Insertion::InOrder;
        if several_at_once || (self.rebuild_after > 0 && self.sent >= self.rebuild_after) {
            let slots: Vec<usize> = self.on_path.iter().map(|(_, slot)| *slot).collect();
            self.tour.rebuild(&Pairs::new(view, &self.targets), &slots, self.insertion);
            self.sent = 0;
        }
    }

    /// Starts again with an empty path.
    fn forget(&mut self) {
        (self.tour, self.on_path, self.sent) = (tour(self.rebuild_after > 0), Vec::new(), 0);
    }

    /// Removes requests from the path that left the queue, and returns those to enter it.
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

/// A path that is rebuilt repeatedly stores all pairs.
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
