//! From requests to commands: who is eligible, whose turn it is, and how one or several requests
//! become one command.

use headtime_units::{Extent, Nanos};
use smallvec::SmallVec;

use super::{Decision, Op, Outstanding, Queued, Request, Scheduler, Target, Ticket, no_place};
use crate::command::{Command, CommandId};
use crate::drive::PredictedService;
use crate::policy::Choice;
use crate::positioning::Likely;

/// What a policy may look at now; borrows only what it shows, so that the policy itself can be
/// asked.
macro_rules! view {
    ($scheduler:ident) => {
        $crate::policy::View {
            now: $scheduler.now,
            queue: &$scheduler.queue,
            outstanding: &$scheduler.outstanding,
            belief: &*$scheduler.belief,
            mean_response: $scheduler.mean_response,
            tunables: &$scheduler.tunables,
            shares: &$scheduler.shares,
            last_head: $scheduler.last_head,
            head: core::cell::OnceCell::new(),
        }
    };
}
pub(super) use view;

impl Scheduler {
    /// Whether a write is durable only when a flush has followed it.
    pub(super) fn needs_flush(&self, request: &Request) -> bool {
        request.fua && request.op.changes_sectors() && !(self.drive.fua && request.op == Op::Write)
    }

    /// Hands a request that waits for nobody to the policy, or puts it among those that go without
    /// asking it.
    pub(super) fn make_eligible(&mut self, queued: Queued) {
        if queued.request.op.moves_head() {
            self.queue.insert(queued);
            self.shares.enter(self.now, queued);
        } else {
            self.own.push_back(queued);
        }
    }

    /// Keeps the order of overlapping requests from now on: something that changes sectors is about
    /// to be entered. So far only reads are held.
    pub(super) fn keep_order(&mut self) {
        let at_drive = self
            .outstanding
            .iter()
            .filter(|command| command.target.op != Op::Flush)
            .flat_map(|command| &command.requests);
        let reads = self
            .queue
            .by_arrival()
            .chain(&self.own)
            .chain(at_drive)
            .map(|queued| (queued.ticket, queued.request.extent));
        let jobs = self
            .fill
            .iter()
            .flat_map(|fill| fill.jobs.iter().map(|(ticket, job)| (*ticket, job.extent)));
        self.overlap.keep(reads.chain(jobs));
    }

    /// Makes those eligible that waited for `gone` only.
    pub(super) fn free_waiting(&mut self, gone: Ticket) {
        if !self.overlap.is_kept() {
            return;
        }
        for ticket in self.overlap.leave(gone) {
            match self.waiting.remove(&ticket) {
                Some(queued) => self.make_eligible(queued),
                None => {
                    let job = self.fill.as_mut().and_then(|fill| fill.jobs.get_mut(&ticket));
                    job.expect("who is freed was waiting").waits = false;
                }
            }
        }
    }

    /// What to do next if there were no flushes but those that have turns.
    pub(super) fn next_but_flushes(&mut self) -> Decision {
        if self.fill_at_work().is_some() {
            return self.next_beside_scans();
        }
        let any = self.any_for_policy();
        if !any && self.own.is_empty() {
            return Decision::Idle;
        }
        let view = view!(self);
        let depth = self.limits.outstanding.unwrap_or_else(|| self.policy.depth(&view).max(1));
        if self.outstanding.len() >= depth {
            return Decision::Idle;
        }
        let own_turn = !self.own.is_empty() && (!any || !self.own_went_last);
        match if own_turn { Choice::Nothing } else { self.policy.choose(&view) } {
            Choice::Send(tickets) => Decision::Dispatch(self.send_chosen(&tickets)),
            Choice::Flush => Decision::Dispatch(self.send_chosen_flush()),
            // Who holds back holds back his own; the scheduler's commands need not wait for that.
            Choice::Hold { .. } | Choice::Nothing if !self.own.is_empty() => {
                Decision::Dispatch(self.send_own())
            }
            Choice::Hold { until, reason } => {
                Decision::WaitUntil { at: until.max(self.now + Nanos::from_ns(1)), reason }
            }
            Choice::Nothing => Decision::Idle,
        }
    }

    /// Whether there is anything that the policy decides on.
    pub(super) fn any_for_policy(&self) -> bool {
        !self.queue.is_empty() || (self.flush_may_go() && self.flushes_have_turns())
    }

    /// One flush for everyone who waits for one.
    pub(super) fn send_flush(&mut self) -> Command {
        assert!(
            !self.flushes.is_empty(),
            "policy {} chose to flush, and nobody waits for that",
            self.policy.name()
        );
        let flushes: SmallVec<[Queued; 1]> = SmallVec::from_vec(core::mem::take(&mut self.flushes));
        for queued in &flushes {
            self.shares.flush_leaves(self.now, queued.request.tenant());
        }
        self.dispatch(Op::Flush, no_place(), flushes, None)
    }

    /// The same where the policy has chosen it.
    pub(super) fn send_chosen_flush(&mut self) -> Command {
        self.own_went_last = false;
        self.send_flush()
    }

    /// Takes a request out of the queue, and out of its tenant's line.
    pub(super) fn take_from_queue(&mut self, ticket: Ticket) -> Option<Queued> {
        let queued = self.queue.remove(ticket)?;
        self.shares.leave(self.now, &queued);
        Some(queued)
    }

    /// A discard or a part of a failed command.
    pub(super) fn send_own(&mut self) -> Command {
        let queued = self.own.pop_front().expect("asked only when there is one");
        self.own_went_last = true;
        self.dispatch(queued.request.op, queued.target, SmallVec::from_buf([queued]), None)
    }

    /// One command of the policy's choice.
    pub(super) fn send_chosen(&mut self, tickets: &[Ticket]) -> Command {
        self.own_went_last = false;
        let policy = self.policy.name();
        if let [ticket] = tickets {
            let queued = self.take_from_queue(*ticket).unwrap_or_else(|| {
                panic!("policy {policy} chose ticket {}, which is not eligible", ticket.0)
            });
            return self.dispatch(
                queued.request.op,
                queued.target,
                SmallVec::from_buf([queued]),
                None,
            );
        }
        let mut requests: SmallVec<[Queued; 1]> = SmallVec::new();
        for ticket in tickets {
            let queued = self.take_from_queue(*ticket);
            requests.push(queued.unwrap_or_else(|| {
                panic!("policy {policy} chose ticket {}, which is not eligible", ticket.0)
            }));
        }
        requests.sort_by_key(|queued| (queued.request.extent.start, queued.ticket));
        let first = requests
            .first()
            .unwrap_or_else(|| panic!("policy {policy} chose to send nothing at all"))
            .request;
        let end = requests[1..].iter().fold(first.extent.end(), |end, queued| {
            let next = queued.request;
            assert!(
                next.op == first.op && next.extent.start <= end,
                "policy {policy} merged {} of {} with {} of {}, which is no one run of one \
                    operation",
                first.op.name(),
                first.extent,
                next.op.name(),
                next.extent
            );
            end.max(next.extent.end())
        });
        let target =
            self.belief.target(first.op, Extent::new(first.extent.start, end - first.extent.start));
        self.dispatch(first.op, target, requests, None)
    }

    /// Sends a command that serves `requests`, and reads a piece for a job, if one is given.
    pub(super) fn dispatch(
        &mut self,
        op: Op,
        target: Target,
        requests: SmallVec<[Queued; 1]>,
        read: Option<(Ticket, Extent)>,
    ) -> Command {
        let (job, background) = read.unzip();
        let charges = self.charge(op, &requests);
        let predicted = if self.keeps_predicted && op.moves_head() {
            Some(self.predict(&target))
        } else {
            None
        };
        let id = CommandId(self.next_command);
        self.next_command += 1;
        self.flushed_last = op == Op::Flush;
        let command = Command {
            id,
            op,
            extent: target.extent,
            fua: op == Op::Write
                && self.drive.fua
                && requests.iter().any(|queued| queued.request.fua),
            background,
            requests: match requests.as_slice() {
                [only] => SmallVec::from_buf([only.request.id]),
                several => several.iter().map(|queued| queued.request.id).collect(),
            },
        };
        self.outstanding.push(Outstanding {
            command: id,
            target,
            dispatched: self.now,
            requests,
            predicted,
            charges,
            background,
            job,
        });
        command
    }

    /// What a command for `target` is believed to take if it is sent now.
    fn predict(&self, target: &Target) -> PredictedService {
        let view = view!(self);
        let head = view.head();
        let Likely { depart, positioning } = self.belief.likely(head, self.now, target);
        let seek = self
            .belief
            .seek_lower_bound(head.place.cylinder.abs_diff(target.start.cylinder))
            .min(positioning);
        let overhead = depart.saturating_since(self.now.max(head.free_at));
        PredictedService { overhead, seek, rotation: positioning - seek, transfer: target.transfer }
    }
}
