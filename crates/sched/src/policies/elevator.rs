//! The parts that the policies of Linux share: merging, and the sweep with short ways back.
//!
//! *Merging*: requests of one operation, tenant and durability that abut become one command. The
//! kernel merges a request when it arrives; here the requests around the chosen one are collected
//! when it goes, which makes the same command unless a maximum size stops either.
//!
//! *Sweep*: the next request by address is the nearest one ahead. One before the head goes instead
//! if it is at most a bound away, and nearer even when its distance counts a multiple.

use headtime_units::{Lba, Sectors};
use smallvec::SmallVec;

use crate::policy::{Choice, View};
use crate::queue::{Queue, Queued, Ticket};
use crate::request::{Request, StreamId, VolumeId};
use crate::table::{Parameter, Parameters};

/// The owner of requests: a stream of a volume. It stands for the kernel's process.
pub(super) type Process = (VolumeId, StreamId);

/// The process of a request.
pub(super) fn process_of(request: &Request) -> Process {
    (request.volume, request.stream)
}

/// The maximum size of a merged command.
pub(super) const MAX_SECTORS: Parameter = Parameter {
    name: "max_sectors",
    summary: "largest command made of several requests, in sectors; 0 merges nothing",
    default: 1_024.0,
    min: 0.0,
    max: 65_536.0,
    whole: true,
    origin: "Linux 2.6 (512 KiB)",
};

/// The same in today's kernels.
pub(super) const MAX_SECTORS_TODAY: Parameter =
    Parameter { default: 2_560.0, origin: "Linux 6 (1,280 KiB)", ..MAX_SECTORS };

/// The number of commands at the drive in today's kernels, which use the drive's own queue.
pub(super) const QUEUE_DEPTH: Parameter = Parameter {
    name: "queue_depth",
    summary: "commands at the drive; the drive's queue depth bounds it",
    default: 32.0,
    min: 1.0,
    max: 65_536.0,
    whole: true,
    origin: "the queue depth of SATA (NCQ)",
};

/// The requests that merge with a chosen one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merges {
    /// Those that begin where it ends.
    Back,
    /// Those that end where it begins, too.
    BackAndFront,
}

/// Merges requests that abut, up to a maximum size.
pub(super) struct Merger {
    max: Sectors,
    merges: Merges,
}

impl Merger {
    /// A merger with the maximum size of the parameters.
    pub(super) fn new(parameters: &Parameters, merges: Merges) -> Self {
        Self { max: Sectors::new(parameters.get(MAX_SECTORS.name) as u64), merges }
    }

    /// One command for `first` and the queued requests that abut it and are accepted.
    pub(super) fn command(
        &self,
        view: &View<'_>,
        first: &Queued,
        accept: impl Fn(&Queued) -> bool,
    ) -> Choice {
        let mut tickets: SmallVec<[Ticket; 1]> = SmallVec::from_buf([first.ticket]);
        let (mut start, mut end) = (first.request.extent.start, first.request.extent.end());
        let fits = |queued: &Queued, start: Lba, end: Lba| {
            end - start + queued.request.extent.len <= self.max
                && alike(queued, first)
                && accept(queued)
        };
        let after = |start: Lba, end: Lba| {
            let mut at_end =
                view.queue.from_lba(end).take_while(|queued| queued.request.extent.start == end);
            at_end.find(|queued| fits(queued, start, end))
        };
        while let Some(next) = after(start, end) {
            tickets.push(next.ticket);
            end = next.request.extent.end();
        }
        let before = |start: Lba, end: Lba| {
            let lowest = Lba::new(end.get().saturating_sub(self.max.get()));
            let mut near = view
                .queue
                .below_lba(start)
                .take_while(|queued| queued.request.extent.start >= lowest);
            near.find(|queued| queued.request.extent.end() == start && fits(queued, start, end))
        };
        while let (Merges::BackAndFront, Some(next)) = (self.merges, before(start, end)) {
            tickets.push(next.ticket);
            start = next.request.extent.start;
        }
        Choice::Send(tickets)
    }
}

/// Returns whether two requests may share a command.
pub(super) fn alike(one: &Queued, other: &Queued) -> bool {
    let (one, other) = (&one.request, &other.request);
    one.op == other.op && one.tenant() == other.tenant() && one.fua == other.fua
}

/// A sweep upwards with short ways back.
pub(super) struct Sweep {
    /// The maximum distance back, in sectors.
    pub(super) back_max: u64,
    /// The factor by which a distance back counts.
    pub(super) back_penalty: u64,
}

impl Sweep {
    /// The accepted request that goes next after a command that ended before `last`: the nearest,
    /// or the one at the lowest address where nothing is ahead or a short way back.
    pub(super) fn next<'a>(
        &self,
        queue: &'a Queue,
        last: Lba,
        accept: impl Fn(&Queued) -> bool,
    ) -> Option<&'a Queued> {
        let distance = |queued: &Queued| queued.request.extent.start.distance(last).get();
        let ahead = queue.from_lba(last).find(|queued| accept(queued));
        let mut back = queue
            .below_lba(last)
            .take_while(|queued| distance(queued) <= self.back_max)
            .filter(|queued| accept(queued));
        let nearest = back.next();
        // Of several at one address the oldest comes last.
        let nearest = nearest.map(|nearest| {
            let start = nearest.request.extent.start;
            back.take_while(|queued| queued.request.extent.start == start).last().unwrap_or(nearest)
        });
        let counted = |queued: &Queued| distance(queued).saturating_mul(self.back_penalty);
        match (ahead, nearest) {
            (Some(ahead), Some(back)) if counted(back) < distance(ahead) => Some(back),
            (Some(ahead), _) => Some(ahead),
            (None, Some(back)) => Some(back),
            (None, None) => queue.from_lba(Lba::new(0)).find(|queued| accept(queued)),
        }
    }
}

/// A mean in which each sample counts an eighth less than the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecayingMean {
    total: f64,
    weight: f64,
}

impl DecayingMean {
    pub(super) fn add(&mut self, sample: f64) {
        self.total = self.total * 0.875 + sample;
        self.weight = self.weight * 0.875 + 1.0;
    }

    /// The mean; `None` before the first sample.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.total / self.weight)
    }

    /// The mean; `None` before the third sample.
    pub(super) fn settled_mean(&self) -> Option<f64> {
        self.mean().filter(|_| self.weight > 2.0)
    }
}
