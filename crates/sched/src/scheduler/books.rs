//! The scheduler's books: what is refused, what is learned from a completion, what has been taken
//! back, and the check that all lists agree.

use headtime_units::{Instant, Nanos};

use super::{
    AccessKind, Done, Finished, Head, MeasuredAccess, Op, Outcome, Outstanding, Queued, Refusal,
    Request, Scheduler, Ticket,
};

impl Scheduler {
    pub(super) fn advance(&mut self, now: Instant) {
        assert!(now >= self.now, "time ran back from {} to {now}", self.now);
        self.now = now;
    }

    /// Writes `ticket` down for a request's id, or says why the request is not taken.
    pub(super) fn admit(&mut self, request: &Request, ticket: Ticket) -> Result<(), Refusal> {
        let capacity = self.belief.capacity();
        let ends_on_drive =
            request.extent.checked_end().is_some_and(|end| end.get() <= capacity.get());
        if request.extent.len.is_zero() != (request.op == Op::Flush) {
            return Err(Refusal::WrongLength { op: request.op, len: request.extent.len });
        }
        if request.op != Op::Flush && !ends_on_drive {
            return Err(Refusal::OutOfRange { extent: request.extent, capacity });
        }
        if self.tickets.get(request.id).is_some() {
            return Err(Refusal::DuplicateId { id: request.id });
        }
        let held = self.tickets.len();
        if held >= self.limits.requests {
            return Err(Refusal::QueueFull { held });
        }
        self.tickets.insert(request.id, ticket);
        Ok(())
    }

    /// Takes a request that is not at the drive out of every list; `false` when it is at the drive.
    pub(super) fn take_out(&mut self, ticket: Ticket) -> bool {
        let same = |queued: &Queued| queued.ticket == ticket;
        if let Some(index) = self.flushes.iter().position(same) {
            let gone = self.flushes.remove(index);
            self.shares.flush_leaves(self.now, gone.request.tenant());
            return true;
        }
        let own = self.own.iter().position(same).and_then(|index| self.own.remove(index));
        if own.is_some() || self.take_from_queue(ticket).is_some() {
            self.free_waiting(ticket);
            return true;
        }
        let Some(waited) = self.waiting.remove(&ticket) else { return false };
        let ahead = if waited.deadline.is_some() {
            self.overlap.ahead_of(ticket)
        } else {
            Default::default()
        };
        self.free_waiting(ticket);
        self.withdraw_deadline(&ahead);
        true
    }

    /// What becomes of a request whose command is done: it is over, is sent again on its own, waits
    /// for a flush, or nobody wants to know.
    pub(super) fn settle(
        &mut self,
        queued: &Queued,
        disk_time: Nanos,
        command: &Outstanding,
        done: &Done,
    ) -> Option<Finished> {
        let Queued { ticket, request, submitted, .. } = *queued;
        let flushed = command.target.op == Op::Flush;
        let succeeded = done.outcome == Outcome::Success;
        let cancelled = self.forget_cancellation(ticket);
        if !succeeded
            && !cancelled
            && !flushed
            && (command.requests.len() > 1 || command.job.is_some())
        {
            *self.charged_before.entry(ticket).or_default() += disk_time;
            self.own.push_back(*queued);
            return None;
        }
        if !flushed {
            self.free_waiting(ticket);
            if succeeded && !cancelled && self.needs_flush(&request) {
                *self.charged_before.entry(ticket).or_default() += disk_time;
                self.wait_for_flush(*queued);
                return None;
            }
        }
        self.tickets.remove(request.id);
        let before =
            if self.charged_before.is_empty() { None } else { self.charged_before.remove(&ticket) };
        let disk_time = disk_time + before.unwrap_or_default();
        let finished = Finished {
            request,
            submitted,
            dispatched: command.dispatched,
            finished: done.finished,
            disk_time,
            outcome: done.outcome,
        };
        (!cancelled).then_some(finished)
    }

    /// Strikes a completed request off the list of the cancelled; tells whether it stood there.
    pub(super) fn forget_cancellation(&mut self, ticket: Ticket) -> bool {
        let position = self.cancelled.iter().position(|cancelled| *cancelled == ticket);
        position.map(|position| self.cancelled.swap_remove(position)).is_some()
    }

    /// Teaches the belief and moves the head; called before `last_finished` moves on. Answers
    /// whether the drive's cache did without the head.
    pub(super) fn learn(&mut self, command: &Outstanding, done: &Done) -> bool {
        match command.target.op {
            Op::Discard => return true,
            // To empty its write cache the drive has taken the head to places unknown.
            Op::Flush => {
                self.head_certain = false;
                return false;
            }
            Op::Read | Op::Write | Op::Zero => {}
        }
        let succeeded = done.outcome == Outcome::Success;
        // Two reports of one instant, or handed in out of order, leave open which of the two
        // accesses was first.
        let in_order = done.finished > self.last_finished;
        let head_before = (self.head_certain && in_order).then_some(self.last_head);
        let time = self.tunables.timesource;
        let learned = self.belief.learn(&MeasuredAccess {
            target: command.target,
            dispatched: time.read(command.dispatched),
            finished: time.read(done.finished),
            head_before: head_before.map(|head| Head { free_at: time.read(head.free_at), ..head }),
            succeeded,
        });
        // What the cache answered has left the head where it was.
        if learned == AccessKind::CacheHit {
            self.head_certain &= in_order;
            return true;
        }
        self.head_certain = succeeded && in_order && learned == AccessKind::Media;
        if done.finished >= self.last_finished {
            // After an error the arm may be anywhere near; the target is the best guess, but
            // nothing is learned from it.
            self.last_head =
                Head::after(&command.target, self.belief.media_end(&command.target, done.finished));
        }
        false
    }

    /// Notes a request that is over, for the accounts, the policy and the mean response time.
    pub(super) fn note(&mut self, finished: &Finished) {
        if finished.request.op.moves_head() && finished.outcome == Outcome::Success {
            let response = finished.response();
            // A moving mean over the last 64 requests or so; the first request sets it.
            self.mean_response = match self.mean_response {
                Nanos::ZERO => response,
                mean => Nanos::from_ns(mean.as_ns() - mean.as_ns() / 64 + response.as_ns() / 64),
            };
        }
        self.accounts.note(finished);
        if let Some(fill) = self.fill_at_work() {
            fill.governor.responded(
                finished.finished,
                finished.response(),
                fill.settings.max_impact,
            );
        }
        self.policy.finished(finished);
    }

    /// Checks that jobs and the commands that read for them know of each other.
    fn check_jobs(&self) {
        let at_drive = |ticket: Ticket| {
            self.outstanding.iter().filter(|command| command.job == Some(ticket)).count()
        };
        let Some(fill) = &self.fill else {
            assert!(
                self.outstanding.iter().all(|command| command.job.is_none()),
                "a command reads for a scan that there never was"
            );
            return;
        };
        fill.self_check();
        for command in &self.outstanding {
            assert_eq!(
                command.job.is_some(),
                command.background.is_some(),
                "command {} reads something for no job",
                command.command.0
            );
            assert!(
                command.job.is_none_or(|job| fill.jobs.contains_key(&job)),
                "command {} reads for a job that is over",
                command.command.0
            );
        }
        for (ticket, job) in &fill.jobs {
            assert_eq!(
                job.at_drive,
                at_drive(*ticket),
                "background job {} has lost a command",
                ticket.0
            );
            assert_eq!(
                job.waits,
                !self.overlap.waits_for(*ticket).is_empty(),
                "background job {} waits for nobody, or should",
                ticket.0
            );
        }
    }

    /// Checks the scheduler's own books.
    ///
    /// # Panics
    /// When they do not agree: a fault of this module.
    pub fn self_check(&self) {
        self.queue.self_check();
        self.shares.self_check(
            &self.queue,
            self.flushes.len(),
            self.outstanding.iter().map(|command| command.requests.len()).sum(),
        );
        let at_drive = || self.outstanding.iter().flat_map(|command| command.requests.iter());
        let books = self.queue.len()
            + self.waiting.len()
            + self.own.len()
            + self.flushes.len()
            + at_drive().count();
        assert_eq!(books, self.tickets.len(), "a request was lost or is in two places");
        let on_sectors = self
            .outstanding
            .iter()
            .filter(|command| command.target.op != Op::Flush)
            .map(|command| command.requests.len());
        let entered =
            on_sectors.sum::<usize>() + self.queue.len() + self.waiting.len() + self.own.len();
        let jobs = self.fill.as_ref().map_or(0, |fill| fill.jobs.len());
        assert!(
            self.overlap.len().is_none_or(|len| len == entered + jobs),
            "the order of overlapping requests lost or kept one"
        );
        let changes = |queued: &Queued| queued.request.op.changes_sectors();
        let held_on_sectors = self.queue.by_arrival().chain(&self.own).chain(self.waiting.values());
        assert!(
            self.overlap.is_kept() || !held_on_sectors.into_iter().any(changes),
            "a change is held, but no order of overlapping requests is kept"
        );
        assert!(
            self.outstanding.len() <= self.drive.queue_depth,
            "the drive holds more commands than it takes"
        );
        self.check_jobs();

        for ticket in &self.cancelled {
            assert!(
                at_drive().any(|queued| queued.ticket == *ticket),
                "ticket {} counts as cancelled at the drive but is not there",
                ticket.0
            );
        }
        let held = |ticket: &Ticket| {
            self.own
                .iter()
                .chain(&self.flushes)
                .chain(at_drive())
                .any(|queued| queued.ticket == *ticket)
        };
        assert!(
            self.charged_before.keys().all(held),
            "disk time is kept for a request that is over or has not been at the drive"
        );
        for (ticket, queued) in &self.waiting {
            assert!(
                !self.overlap.waits_for(*ticket).is_empty(),
                "ticket {} waits for nobody",
                ticket.0
            );
            for earlier in self.overlap.waits_for(*ticket) {
                let due = |ticket: Option<Instant>| ticket.unwrap_or(Instant::NEVER);
                assert!(
                    due(self.deadline_of(*earlier)) <= due(queued.deadline),
                    "ticket {} did not hand its deadline on",
                    ticket.0
                );
            }
        }
    }
}
