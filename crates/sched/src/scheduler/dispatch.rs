//! Commands: how requests and pieces of background reading become commands at the drive, and what
//! they are charged.

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use super::{Op, Outstanding, Queued, Scheduler, Target, Ticket, no_target};
use crate::background::FillSource;
use crate::command::{Command, CommandId};
use crate::drive::PredictedService;
use crate::freeblock::{Job, hull};
use crate::positioning::{Head, Likely};
use crate::shares::{Charge, TenantState};

/// With more commands than this at the drive, they are not predicted again for the next one. The
/// drive does not serve so many in the order in which they were sent, and each costs as much as the
/// rest of a decision.
const PREDICTED_AGAIN: usize = 4;

/// The view of a policy; borrows single fields, so that the policy itself can be borrowed too.
macro_rules! view {
    ($scheduler:ident, $arm:expr) => {
        match $arm {
            Some(arm) => $crate::scheduler::dispatch::view!($scheduler).of_arm(arm),
            None => $crate::scheduler::dispatch::view!($scheduler),
        }
    };
    ($scheduler:ident) => {
        $crate::policy::View {
            now: $scheduler.now,
            queue: &$scheduler.queue,
            outstanding: &$scheduler.outstanding,
            max_outstanding: $scheduler.max_outstanding(),
            belief: &*$scheduler.belief,
            mean_response: $scheduler.mean_response.get(),
            idle_share: $scheduler.idle_time.share(),
            idle: $scheduler.idle(),
            flushes: $scheduler.flushes.len(),
            unflushed: $scheduler.unflushed.is_some(),
            cached: &$scheduler.cached,
            tunables: &$scheduler.tunables,
            shares: &$scheduler.shares,
            arms: $scheduler.arms.all(),
            other_arms: $crate::room::OtherArms::default(),
            last: $scheduler.last,
            head: core::cell::OnceCell::new(),
            arm_heads: core::cell::OnceCell::new(),
        }
    };
}
pub(super) use view;

impl Scheduler {
    /// Sends one flush for all requests that wait for one.
    pub(super) fn send_flush(&mut self) -> Command {
        assert!(
            !self.flushes.is_empty(),
            "policy {} chose to flush, but no request waits for a flush",
            self.policy.name()
        );
        let flushes: SmallVec<[Queued; 1]> = SmallVec::from_vec(core::mem::take(&mut self.flushes));
        for queued in &flushes {
            self.flush_leaves(queued.request.tenant());
        }
        self.dispatch(Op::Flush, no_target(), flushes, None)
    }

    /// The same where the policy has chosen it.
    pub(super) fn send_chosen_flush(&mut self) -> Command {
        self.own_went_last = false;
        self.send_flush()
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

    /// Sends one command that reads `extent` for scans and the request right after it.
    pub(super) fn send_merged(&mut self, ticket: Ticket, extent: Extent) -> Command {
        self.own_went_last = false;
        let job = self.claim_job(extent, FillSource::Merged);
        let queued = self
            .take_from_queue(ticket)
            .expect("the request whose gap was searched is in the queue");
        let target = self.belief.target(Op::Read, hull(extent, queued.request.extent));
        self.dispatch(Op::Read, target, SmallVec::from_buf([queued]), Some((job, extent)))
    }

    /// Claims the pending sectors within `extent`, and sends a command that reads them for scans
    /// alone.
    pub(super) fn send_new_job(&mut self, extent: Extent, source: FillSource) -> Command {
        let ticket = self.claim_job(extent, source);
        let target = self.belief.target(Op::Read, extent);
        self.dispatch(Op::Read, target, SmallVec::new(), Some((ticket, extent)))
    }

    /// Creates a job for the pending sectors within `extent`, read by a command that is about to be
    /// sent.
    pub(super) fn claim_job(&mut self, extent: Extent, source: FillSource) -> Ticket {
        let ticket = self.next_own_ticket();
        let fill = self.fill.as_mut().expect("sectors are pending, so there is a scan");
        let claims = fill.scans.claim(extent);
        debug_assert!(!claims.is_empty(), "no scan has pending sectors in {extent}");
        let mut job = Job::new(extent, claims, source);
        job.at_drive = 1;
        self.enter_job(ticket, job);
        ticket
    }

    /// A background job on these sectors, sent or to be sent.
    pub(super) fn enter_job(&mut self, ticket: Ticket, mut job: Job) {
        job.waits = !self.overlap.enter(ticket, job.extent, job.op());
        self.fill.as_mut().expect("jobs are made where there is a scan").jobs.insert(ticket, job);
    }

    pub(super) fn next_own_ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    /// Sends a command that serves `requests`, and the piece of a job, if one is given.
    pub(super) fn dispatch(
        &mut self,
        op: Op,
        target: Target,
        requests: SmallVec<[Queued; 1]>,
        piece: Option<(Ticket, Extent)>,
    ) -> Command {
        let (job, background) = piece.unzip();
        let charges = self.charge(op, &requests);
        let (predicted, ends) = if self.keeps_predicted && op.moves_head() {
            let (service, end) = self.predict(&target);
            (Some(service), Some(end))
        } else {
            (None, None)
        };
        // A request alone has its worst case already.
        let worst = match requests.as_slice() {
            [only] if only.target == target => only.worst,
            _ => self.worst_of(&target),
        };
        let probably_cached = match requests.as_slice() {
            [only] if self.cached.contains(&only.ticket) => {
                self.cached.retain(|ticket| *ticket != only.ticket);
                view!(self).is_probable_hit(only.request.extent)
            }
            _ => false,
        };
        self.idle = self.idle();
        let id = CommandId(self.next_command);
        self.next_command += 1;
        self.flushed_last = op == Op::Flush;
        let command = Command {
            id,
            op,
            extent: target.extent,
            fua: requests.iter().any(|queued| self.is_forced(queued)),
            background,
            requests: match requests.as_slice() {
                [only] => SmallVec::from_buf([only.request.id]),
                several => several.iter().map(|queued| queued.request.id).collect(),
            },
        };
        self.outstanding.push(Outstanding {
            command: id,
            target,
            fua: command.fua,
            dispatched: self.now,
            requests,
            predicted,
            ends,
            worst,
            probably_cached,
            probably_taken: !command.fua && self.taken.probably_take(&target),
            other_arms: Nanos::ZERO,
            overlapped: Nanos::ZERO,
            charges,
            background,
            job,
        });
        if let Some(sent) = self.outstanding.back().filter(|_| self.arms.are_several()) {
            self.arms.sent(sent);
        }
        command
    }

    /// Returns whether a request is a write that is sent with force unit access.
    pub(super) fn is_forced(&self, queued: &Queued) -> bool {
        let Queued { request, .. } = queued;
        request.op == Op::Write
            && self.drive.fua
            && (request.fua
                || self.belief.takes_into_cache(Op::Write)
                    && self.policy.forces(&view!(self), request))
    }

    /// The time, so far, in which the drive had no command of a request or scan.
    pub(super) fn idle(&self) -> Nanos {
        let idle = self.outstanding.is_empty();
        let since = if idle { self.now.saturating_since(self.last.finished) } else { Nanos::ZERO };
        self.idle + since
    }

    /// Charges requests at dispatch; returns their charges in the same order. A discard is charged
    /// at its completion.
    pub(super) fn charge(&mut self, op: Op, requests: &[Queued]) -> SmallVec<[Charge; 1]> {
        if !self.shares.are_kept() {
            return SmallVec::new();
        }
        let view = view!(self);
        let charge = |queued: &Queued| match op {
            Op::Read | Op::Write | Op::Zero => self.policy.charge(&view, queued),
            Op::Flush => {
                let estimate = self
                    .shares
                    .tenant(queued.request.tenant())
                    .map_or(Nanos::ZERO, TenantState::flush_cost);
                Charge { estimate, ..Charge::default() }
            }
            Op::Discard => Charge::default(),
        };
        let charges: SmallVec<[Charge; 1]> = requests.iter().map(charge).collect();
        for (queued, charge) in requests.iter().zip(&charges) {
            self.shares.sent(self.now, queued, *charge, op);
            if let Some(shares) = self.arms.shares_of(op, queued) {
                shares.sent(self.now, queued, *charge, op);
            }
        }
        charges
    }

    /// The predicted service of a command for `target` sent now, and its end.
    fn predict(&self, target: &Target) -> (PredictedService, Instant) {
        let head = self.head_before(target);
        let Likely { depart, positioning } = self.belief.likely(&head, self.now, target);
        let seek = self
            .belief
            .seek_lower_bound(head.place.cylinder.abs_diff(target.start.cylinder))
            .min(positioning);
        let overhead = depart.saturating_since(self.now.max(head.free_at));
        let Target { transfer, .. } = *target;
        let service = PredictedService { overhead, seek, rotation: positioning - seek, transfer };
        (service, depart + positioning + transfer)
    }

    /// The predicted head at the end of the commands before one for `target` that is sent now: of
    /// many, or of those of one of several arms, as it was predicted when the last of them was
    /// sent.
    fn head_before(&self, target: &Target) -> Head {
        let (view, arms) = (view!(self), self.belief.arms());
        if view.arms.is_empty() && view.outstanding.len() <= PREDICTED_AGAIN {
            return *view.head();
        }
        let arm = arms.arm_of(target.extent.start);
        let of_arm =
            |other: &&Outstanding| arm.is_none() || arms.arm_of(other.target.extent.start) == arm;
        let mut before = view.moving().rev().filter(of_arm);
        let after = |last: &Outstanding| last.ends.map(|ends| Head::after(&last.target, ends));
        match (arm, before.next().map(after)) {
            (Some(arm), None) => view.arms[arm].last.head,
            (Some(_), Some(Some(ends))) => ends,
            (None, Some(Some(ends))) if before.nth(PREDICTED_AGAIN - 1).is_some() => ends,
            _ => *view.head(),
        }
    }

    /// Removes a request from the queue, and from its tenant's queue.
    pub(super) fn take_from_queue(&mut self, ticket: Ticket) -> Option<Queued> {
        let queued = self.queue.remove(ticket)?;
        self.shares.leave(self.now, &queued);
        self.arms.leave(self.now, &queued);
        Some(queued)
    }
}
