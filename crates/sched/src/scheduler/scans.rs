//! Background reading in the scheduler: scans start and stop, jobs are sent, and their results are
//! delivered.
//!
//! A job enters the order of overlapping requests like a request. So a sector of a scan is not
//! overwritten while it is read, and a scan of a point in time reads its sectors before a write
//! changes them. A job never fails a request and is charged to no volume. Without a scan or a
//! background write none of this runs. A background write is a job that goes in idle time and in
//! time that the bound has saved up, before the reads of scans, and not in gaps.
//!
//! Background reads happen at these times:
//! - *Urgent* jobs, which a write waits for, alternate with the policy's choices, as the
//!   scheduler's other own commands do.
//! - Gaps are filled when the policy has chosen (`decide`).
//! - After a while without requests of clients, pending sectors are read in order of address, two
//!   commands at a time.
//! - The same happens while all queued requests are at a limit, with commands that end before the
//!   first limit opens.
//! - For the tail of a scan, for retries and for background writes, time is taken from clients once
//!   the bound on impact has saved it up, never more than a stated share at once: the fullest of
//!   some runs after the head, at most a revolution of it. Where gaps and idle time give little,
//!   because the drive orders or the model has no tracks, time is taken for longer reads during the
//!   whole scan.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos, Sectors};

use super::{Done, Outcome, Outstanding, Scheduler, Ticket};
use crate::background::{
    BackgroundRead, BackgroundWriteId, BackgroundWritten, FillReport, FillSource, Pace, ScanId,
    ScanOptions, ScanPriority,
};
use crate::command::CommandId;
use crate::freeblock::{Claim, Fill, FillSettings, Job, PendingSectors, Scan, hull};
use crate::positioning::BeliefReport;
use crate::request::Request;

impl Scheduler {
    /// Starts a scan: the `pending` sectors are read once, in any order, and delivered by
    /// [`Scheduler::take_background`].
    ///
    /// # Panics
    /// When a scan of that id exists, or `pending` is of a drive of another size.
    pub fn scan_start(
        &mut self,
        now: Instant,
        id: ScanId,
        pending: PendingSectors,
        options: ScanOptions,
    ) {
        self.advance(now);
        assert_eq!(
            pending.capacity(),
            self.belief.capacity(),
            "scan {} is of a drive of another size",
            id.0
        );
        let fill = self.activate_fill();
        assert!(
            fill.scans.get(id).is_none(),
            "there is a scan {} already; stop it before another of that id is started",
            id.0
        );
        fill.governor.stop_measuring();
        let whole = pending.remaining();
        fill.scans.start(Scan { id, pending, options, whole });
    }

    /// The state of background work, for a scan or a write that begins now.
    fn activate_fill(&mut self) -> &mut Fill {
        let (now, held) = (self.now, !self.tickets.is_empty());
        let first = self.fill.as_ref().is_none_or(|fill| !fill.is_active());
        let last_finished = Some(self.last.finished).filter(|at| first && *at > Instant::ORIGIN);
        let fill = self.fill.get_or_insert_with(Box::default);
        // Clients were not observed before.
        if let Some(at) = last_finished {
            fill.governor.seen(at);
        }
        if held {
            fill.clients_since.get_or_insert(now);
            fill.governor.seen(now);
        }
        fill
    }

    /// Writes sectors in the background: in idle time, and in time that the bound on impact has
    /// saved up. [`Scheduler::take_written`] reports the end. In the order of overlapping requests
    /// it is a write that arrives now.
    ///
    /// # Panics
    /// In debug builds, when the extent is empty or not on the drive.
    pub fn background_write(&mut self, now: Instant, id: BackgroundWriteId, extent: Extent) {
        self.advance(now);
        debug_assert!(
            !extent.len.is_zero() && extent.end().get() <= self.belief.capacity().get(),
            "a background write of {extent} does not lie on the drive"
        );
        self.activate_fill();
        if !self.overlap.is_active() {
            self.activate_order();
        }
        let (before, ticket) = (self.next_own_ticket(), self.next_own_ticket());
        self.read_before_change(extent, before);
        self.enter_job(ticket, Job::write(extent, id));
        self.make_jobs_urgent(ticket);
    }

    /// The background write that a command at the drive carries out, if it does.
    #[must_use]
    pub fn written_by(&self, command: CommandId) -> Option<BackgroundWriteId> {
        let sent = self.outstanding.by_id(command)?;
        let (id, _) = self.fill.as_ref()?.jobs.get(&sent.job?)?.write?;
        Some(id)
    }

    /// The next background write that is over. Call it after each
    /// [`complete`](Scheduler::complete) until it returns `None`.
    pub fn take_written(&mut self) -> Option<BackgroundWritten> {
        self.fill.as_mut()?.written.pop_front()
    }

    /// Pauses a scan. Commands at the drive are still delivered, and sectors about to be
    /// overwritten are still read first for a scan of a point in time. An unknown id is ignored.
    pub fn scan_pause(&mut self, now: Instant, id: ScanId) {
        self.set_pace(now, id, Pace::Paused);
    }

    /// Resumes a paused scan.
    pub fn scan_resume(&mut self, now: Instant, id: ScanId) {
        self.set_pace(now, id, Pace::Normal);
    }

    /// Changes the priority of a scan. An unknown id is ignored.
    pub fn scan_set_priority(&mut self, now: Instant, id: ScanId, priority: ScanPriority) {
        self.advance(now);
        if let Some(scan) = self.fill.as_mut().and_then(|fill| fill.scans.get_mut(id)) {
            scan.options.priority = priority;
        }
    }

    /// Stops a scan, complete or not. Nothing more is delivered for it, not even commands at the
    /// drive; its id is free.
    pub fn scan_stop(&mut self, now: Instant, id: ScanId) {
        self.advance(now);
        let Some(fill) = &mut self.fill else { return };
        fill.scans.stop(id);
        for job in fill.jobs.values_mut() {
            job.claims.retain(|claim| claim.scan != id);
        }
        fill.delivered.retain(|read| read.scan != id);
        self.drop_unneeded();
    }

    /// The number of sectors of a scan that are pending, being read, or not
    /// [delivered](Scheduler::take_background); `None` for an unknown scan.
    #[must_use]
    pub fn scan_remaining(&self, id: ScanId) -> Option<Sectors> {
        let fill = self.fill.as_ref()?;
        let pending = fill.scans.get(id)?.pending.remaining();
        let claimed = fill
            .jobs
            .values()
            .flat_map(|job| &job.claims)
            .filter(|claim| claim.scan == id)
            .map(|claim| claim.extent.len);
        let delivered =
            fill.delivered.iter().filter(|read| read.scan == id).map(|read| read.extent.len);
        Some(claimed.chain(delivered).fold(pending, |sum, len| sum + len))
    }

    /// Changes the settings of background reading, also while scans run.
    pub fn set_fill(&mut self, settings: FillSettings) {
        self.fill.get_or_insert_with(Box::default).settings = settings;
    }

    /// The next result of a scan, in the order of completion. Call it after each
    /// [`complete`](Scheduler::complete) until it returns `None`: results are kept until then.
    pub fn take_background(&mut self) -> Option<BackgroundRead> {
        self.fill.as_mut()?.delivered.pop_front()
    }

    /// Totals of background reading and its cost.
    #[must_use]
    pub fn fill_report(&self) -> FillReport {
        let Some(fill) = &self.fill else {
            return FillReport { at: self.now, ..FillReport::default() };
        };
        let (delay, response) = fill.governor.totals();
        FillReport {
            delay,
            response,
            at: self.now,
            tracks: fill.counts.tracks,
            rejected: fill.counts.rejected,
            measured: fill.governor.measured(),
            ..fill.report
        }
    }

    /// The report of the drive model, with the number of reordered completions, which only the
    /// scheduler sees.
    #[must_use]
    pub fn belief_report(&self) -> BeliefReport {
        BeliefReport { reordered: self.reordered, ..self.belief.report() }
    }

    fn set_pace(&mut self, now: Instant, id: ScanId, pace: Pace) {
        self.advance(now);
        if let Some(scan) = self.fill.as_mut().and_then(|fill| fill.scans.get_mut(id)) {
            scan.options.pace = pace;
        }
    }

    /// Background reading, if a scan or a job exists.
    pub(super) fn active_fill(&mut self) -> Option<&mut Fill> {
        self.fill.as_deref_mut().filter(|fill| fill.is_active())
    }

    /// Records an accepted request of a client. If `before` is given, a job of that ticket first
    /// reads the sectors that the request changes, for scans of a point in time.
    pub(super) fn client_request_arrived(&mut self, request: &Request, before: Option<Ticket>) {
        let (now, tenant) = (self.now, request.tenant());
        let opens = if self.policy.enforces_limits() {
            self.shares.tenant(tenant).map_or(now, |state| state.opens().max(now))
        } else {
            now
        };
        let held = self.tickets.len()
            - if self.policy.enforces_limits() { self.shares.held_back(now) } else { 0 };
        let Some(fill) = self.active_fill() else { return };
        // A throttled request waits for its limit, and does not indicate an active client.
        fill.clients_since = Some(fill.clients_since.map_or(opens, |since| since.min(opens)));
        if opens == now {
            fill.governor.arrived(now, held);
        }
        if request.deadline.is_some() {
            fill.deadline_at = Some(now);
        }
        if let Some(ticket) = before {
            self.read_before_change(request.extent, ticket);
        }
    }

    /// Enters a job of this ticket that reads what scans of a point in time lose by a change of
    /// these sectors, if they lose any.
    fn read_before_change(&mut self, changed: Extent, ticket: Ticket) {
        let Some(fill) = self.active_fill() else { return };
        let claims = fill.scans.claim_before_change(changed);
        let Some(extent) = claims.iter().map(|claim| claim.extent).reduce(hull) else { return };
        let mut job = Job::new(extent, claims, FillSource::BeforeWrite);
        let mut runs: Vec<Extent> = job.claims.iter().map(|claim| claim.extent).collect();
        runs.sort_unstable_by_key(|run| (run.start, run.len));
        for run in runs {
            match job.pieces.back_mut() {
                Some(last) if run.start <= last.end() => *last = hull(*last, run),
                _ => job.pieces.push_back(run),
            }
        }
        job.urgent = true;
        self.enter_job(ticket, job);
    }

    /// Marks the jobs urgent that a waiting request has ahead of it.
    pub(super) fn make_jobs_urgent(&mut self, waiting: Ticket) {
        let Self { overlap, fill: Some(fill), .. } = self else { return };
        for ahead in overlap.waits_for(waiting) {
            if let Some(job) = fill.jobs.get_mut(ahead) {
                job.urgent = true;
            }
        }
    }

    /// Accounts for the background read of a completed command and delivers its result; returns the
    /// disk time left for the command's requests.
    pub(super) fn background_done(
        &mut self,
        command: &Outstanding,
        done: &Done,
        disk_time: Nanos,
        before: Instant,
    ) -> Nanos {
        let (Some(piece), Some(ticket)) = (command.background, command.job) else {
            return disk_time;
        };
        let media = command.target.transfer.as_ns() as u128 * u128::from(piece.len.get())
            / u128::from(command.target.extent.len.get());
        let part = if command.requests.is_empty() {
            disk_time
        } else {
            disk_time.min(Nanos::from_ns(media as u64))
        };
        self.accounts.charge_background(part, piece.len, done.outcome);
        let held = self.tickets.len()
            - if self.policy.enforces_limits() { self.shares.held_back(done.finished) } else { 0 };
        let fill = self.fill.as_deref_mut().expect("a background command is at the drive");
        let job = fill.jobs.get_mut(&ticket).expect("a job stays until its commands are done");
        job.at_drive -= 1;
        let (source, urgent) = (job.source, job.urgent);
        if command.requests.is_empty() && source != FillSource::Gap {
            let since = fill.clients_since.map(|since| since.max(before).max(command.dispatched));
            let waited = since.map_or(Nanos::ZERO, |since| done.finished.saturating_since(since));
            match source {
                FillSource::Share => {
                    fill.governor.delayed_for_tail(waited, fill.governor.held_up(held))
                }
                // The drive had nothing else to do, and will have again.
                FillSource::Idle => fill.governor.delayed(waited, held),
                _ => fill.governor.delayed(waited, fill.governor.held_up(held)),
            }
        }
        if job.write.is_some() {
            if let Outcome::Failed(errno) = done.outcome {
                job.fail_write(errno);
            }
        } else if done.outcome == Outcome::Success {
            let claims = job.take_claims(piece);
            fill.deliver(claims, command.command, done, source);
        } else if urgent {
            let claims = job.take_claims(piece);
            self.abandon_piece(claims, piece, command, done, source);
        } else if !job.retry(piece, fill.settings.retry_grain) {
            let claims = job.take_claims(piece);
            fill.deliver(claims, command.command, done, source);
        }
        if let Some(fill) = self.fill.as_deref_mut().filter(|_| source == FillSource::Share) {
            fill.share_taken(done.finished, disk_time);
        }
        self.end_job(ticket);
        disk_time - part
    }

    /// Handles a failed piece that a request waits for. A scan of a point in time loses it; others
    /// read it again after that request.
    fn abandon_piece(
        &mut self,
        claims: Vec<Claim>,
        piece: Extent,
        command: &Outstanding,
        done: &Done,
        source: FillSource,
    ) {
        let fill = self.fill.as_deref_mut().expect("a background command was at the drive");
        let of_a_point_in_time = |claim: &Claim| {
            fill.scans.get(claim.scan).is_some_and(|scan| scan.options.point_in_time)
        };
        // A piece of one block is not retried.
        let grain = fill.settings.retry_grain.get().max(1);
        let last = piece.start.get() / grain == piece.last().get() / grain;
        let (lost, again): (Vec<Claim>, Vec<Claim>) =
            claims.into_iter().partition(|claim| last || of_a_point_in_time(claim));
        fill.deliver(lost, command.command, done, source);
        let Some(extent) = again.iter().map(|claim| claim.extent).reduce(hull) else { return };
        let grain = fill.settings.retry_grain;
        let mut job = Job::new(extent, again, source);
        if !job.retry(extent, grain) {
            job.pieces.push_back(extent);
        }
        let ticket = self.next_own_ticket();
        self.enter_job(ticket, job);
    }

    /// Removes pieces that no scan needs any more.
    fn drop_unneeded(&mut self) {
        let fill = self.fill.as_mut().expect("a scan has changed its mind");
        fill.jobs.values_mut().for_each(Job::drop_unneeded);
        let over: Vec<Ticket> =
            fill.jobs.iter().filter(|(_, job)| job.is_over()).map(|(ticket, _)| *ticket).collect();
        over.into_iter().for_each(|ticket| self.end_job(ticket));
    }

    /// Ends a finished job, and frees the requests that waited for it.
    fn end_job(&mut self, ticket: Ticket) {
        let fill = self.fill.as_mut().expect("there was a job");
        if fill.jobs.get(&ticket).is_some_and(Job::is_over) {
            let write = fill.jobs.remove(&ticket).and_then(|job| job.write);
            fill.written.extend(write.map(|(id, outcome)| BackgroundWritten { id, outcome }));
            self.free_waiting(ticket);
        }
    }
}
