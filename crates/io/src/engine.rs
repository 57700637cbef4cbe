//! The engine of one drive. It owns the scheduler and the backend. The threads of
//! [`EngineRunner`](crate::engine::runner::EngineRunner) run its iterations, one at a time.
//!
//! One iteration receives the messages (submissions, cancellations), collects the completions of
//! the backend and hands both to the scheduler. It calls back finished requests, sends the commands
//! that the scheduler decides, answers requests that exceeded a time limit (`time_limits`), and
//! returns the time of the next event. An iteration never blocks.
//!
//! The scheduler receives the time at which *the engine* observed a completion. This also applies
//! to an emulated drive, although its model knows the exact time: a host with a real drive observes
//! wake-up delays too, and the drive model has to cope with them. A late wake-up does not delay the
//! mechanism of an emulated drive, which computes from its own times.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use headtime_sched::{
    Admission, Cancelled, ClassId, Command, Decision, Done, Finished, Op, Outcome, Promise,
    QueueLimits, Refusal, Request, RequestId, Scheduler, VolumeId,
};
use headtime_units::{Extent, Instant, Nanos, SectorSize, Sectors};
use rustix::io::Errno;

use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::clock::RealClock;
use crate::engine::mailbox::{ActiveRequest, Callback, Mailbox, Message};
use crate::engine::recent::{RecentLog, ServedWork};
use crate::engine::slow::{AccountMark, AtDriveFrom, SlowLog};
use crate::lateness::Lateness;
use crate::model::RunningMap;
use crate::options::CommandTimeout;
use crate::request::{IoDone, IoError, LOST_WRITES, SubmitError};
use crate::service_parts::ServiceParts;
use crate::shingling::ShinglingLog;
use crate::snapshot::{DriveSnapshot, EmulationSnapshot, ErrorCounts};
use crate::tuning::Tuning;

mod at_drive;
pub(crate) mod capacity;
mod closing;
pub(crate) mod divided;
mod inbox;
mod log_limiter;
pub(crate) mod mailbox;
pub(crate) mod recent;
pub(crate) mod runner;
pub(crate) mod scan_queue;
mod scans;
pub(crate) mod slow;
mod time_limits;
mod timed;
mod turns;
mod unflushed;

use at_drive::{AtDrive, Sent};
pub use closing::DrainReport;
pub(crate) use closing::EngineEnd;
use divided::DividedRequests;
use log_limiter::{Allowed, LogLimiter, TrustLog};
use scans::Scans;
use timed::TimedResults;
use unflushed::Unflushed;

/// The next events after an iteration of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextWork {
    /// An event at the drive, which needs microsecond precision.
    pub(crate) event: Option<Instant>,
    /// An event that may be handled late.
    pub(crate) coarse: Option<Instant>,
    /// No work remains: the drive is closed and empty, or the drain timeout has passed.
    pub(crate) over: bool,
}

/// The engine of one drive.
pub(crate) struct Engine {
    clock: RealClock,
    scheduler: Scheduler,
    backend: Box<dyn Backend>,
    mailbox: Arc<Mailbox>,
    /// The name of the drive model.
    drive_model: &'static str,
    sector_size: SectorSize,
    drain_timeout: Nanos,
    command_timeout: CommandTimeout,
    /// The end of the drain timeout. Set when the engine observes that the drive is closing.
    drain_until: Option<Instant>,
    /// Unfinished requests, and cancelled requests whose buffers the drive still uses.
    pending: HashMap<RequestId, ActiveRequest, FixedState>,
    divided: DividedRequests,
    at_drive: AtDrive,
    /// The time of the last completion.
    last_completion: Instant,
    /// The time of the backend's last report.
    last_report: Instant,
    /// The time at which the next queued request times out while a command is given up.
    next_expiry: Instant,
    unflushed: Unflushed,
    scans: Scans,
    timed: Option<TimedResults>,
    failed_flushes: u64,
    slow: SlowLog,
    recent: RecentLog,
    /// The split of the time of all commands.
    service: ServiceParts,
    lateness: Lateness,
    errors: ErrorCounts,
    log_limiter: LogLimiter,
    /// The names of volumes in the log.
    volume_names: BTreeMap<VolumeId, String>,
    trust: TrustLog,
    shingling: ShinglingLog,
    /// The members of an array, by arm.
    members: Arc<[String]>,
    messages: Vec<Message>,
    ended: Vec<BackendCompletion>,
}

impl Engine {
    pub(crate) fn new(
        clock: RealClock,
        scheduler: Scheduler,
        backend: Box<dyn Backend>,
        mailbox: Arc<Mailbox>,
        sector_size: SectorSize,
        drain_timeout: Nanos,
        command_timeout: CommandTimeout,
    ) -> Self {
        let mut scheduler = scheduler;
        scheduler.record_predictions();
        if backend.is_rotating_drive() {
            scheduler.count_stalls();
        }
        Self {
            clock,
            scheduler,
            backend,
            mailbox,
            drive_model: "",
            sector_size,
            drain_timeout,
            command_timeout,
            drain_until: None,
            pending: HashMap::default(),
            divided: DividedRequests::default(),
            at_drive: AtDrive::new(command_timeout),
            last_completion: Instant::ORIGIN,
            last_report: Instant::ORIGIN,
            next_expiry: Instant::ORIGIN,
            unflushed: Unflushed::default(),
            scans: Scans::default(),
            timed: None,
            failed_flushes: 0,
            slow: SlowLog::default(),
            recent: RecentLog::default(),
            service: ServiceParts::default(),
            lateness: Lateness::new(),
            errors: ErrorCounts::default(),
            log_limiter: LogLimiter::default(),
            volume_names: BTreeMap::new(),
            trust: TrustLog::default(),
            shingling: ShinglingLog::default(),
            members: Arc::default(),
            messages: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Sets the members of an array, by arm, for reports, and the stripe at whose ends requests are
    /// divided.
    pub(crate) fn with_members(self, members: Vec<String>, divide_at: Option<Sectors>) -> Self {
        Self { members: members.into(), divided: DividedRequests::at(divide_at), ..self }
    }

    /// Sets the name of the drive model for reports.
    pub(crate) fn modelled_by(self, drive_model: &'static str) -> Self {
        Self { drive_model, ..self }
    }

    /// Runs one iteration and returns the times of the next events.
    pub(crate) fn iterate(&mut self) -> NextWork {
        self.receive_messages();
        let seen = self.take_completions();
        self.release_held();
        let hold_until = self.send();
        // Use the time of the collection, not the current time: completions since then have not
        // been collected.
        self.apply_time_limits(seen);
        if self.mailbox.snapshot_requested() {
            let snapshot = self.snapshot();
            self.mailbox.show(snapshot);
        }
        let over = self.mailbox.is_closing() && {
            let until =
                *self.drain_until.get_or_insert_with(|| self.clock.now() + self.drain_timeout);
            self.stop_scans();
            self.timed_stop();
            // Messages sent before the closing are visible here, and none is sent after it.
            let nothing_left =
                self.pending.is_empty() && self.at_drive.is_empty() && !self.mailbox.has_messages();
            nothing_left || self.clock.now() >= until
        };
        let coarse =
            [hold_until, self.drain_until, self.next_time_limit(), self.scans.next_release()]
                .into_iter()
                .flatten()
                .min();
        NextWork { event: self.backend.next_event(), coarse, over }
    }

    fn receive_messages(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        self.mailbox.take(&mut messages);
        // Requests that arrived together have one time; other messages may read a later one.
        let mut arrived = None;
        for message in messages.drain(..) {
            if !matches!(message, Message::Submit(_)) {
                arrived = None;
            }
            match message {
                Message::Submit(active) => {
                    let now = *arrived.get_or_insert_with(|| self.clock.now());
                    self.submit(now, active);
                }
                Message::Cancel(id) => self.cancel(id),
                Message::Tune(tuning) => self.tune(*tuning),
                Message::Believe(belief, name) => {
                    self.scheduler.set_belief(belief);
                    self.drive_model = name.unwrap_or(self.drive_model);
                }
                Message::ShowMap(show) => show(RunningMap::of(self.scheduler.belief())),
                Message::StreamEnded(stream) => {
                    self.scheduler.stream_ended(self.clock.now(), stream);
                }
                Message::NameVolume(volume, name) => {
                    self.volume_names.insert(volume, name);
                }
                Message::SetFill(settings) => self.scheduler.set_fill(settings),
                Message::Slow(answer) => {
                    // The caller may have stopped waiting.
                    let _ = answer.try_send(self.slow.all());
                }
                Message::Recent(answer) => {
                    let now = self.clock.now();
                    // The caller may have stopped waiting.
                    let _ = answer.try_send(self.recent.answer(now, self.scheduler.belief()));
                }
                Message::ChangeShares(changes, answer) => {
                    let changed = self.scheduler.change_shares(self.clock.now(), &changes);
                    // The caller may have stopped waiting.
                    let _ = answer.try_send(changed);
                }
                Message::Watch(marks) => self.scans.watch(&marks),
                Message::IdentifyBy(identity) => self.backend.identify_by(identity),
                Message::ScanStart { queue, requested } => self.scan_start(queue, requested),
                Message::ScanAgain(number, requested) => self.scan_again(number, requested),
                Message::ScanPause(number) => self.scan_pace(number, Some(true)),
                Message::ScanResume(number) => self.scan_pace(number, Some(false)),
                Message::ScanPriority(number, priority) => self.scan_priority(number, priority),
                Message::ScanRoom(number) => self.scan_pace(number, None),
                Message::ScanStop(number) => self.scan_stop(number),
                Message::BackgroundWrite(write) => self.write_in_background(write),
                Message::TimedStart(results, answer) => self.timed_start(results, &answer),
                Message::TimedRead(read) => self.timed_read(read),
                Message::TimedStop => self.timed_stop(),
            }
        }
        self.messages = messages;
    }

    fn submit(&mut self, now: Instant, active: ActiveRequest) {
        let parts = self.divided.parts(&active.request);
        if parts.len() > 1 {
            return self.submit_divided(now, active, &parts);
        }
        match self.admit(now, active.request, &active) {
            Ok(promise) => {
                active.give_answer(promise);
                self.accept(now, active);
            }
            Err(refusal) => self.refuse(active, refusal),
        }
    }

    /// Hands `active`, or `request` as a part of it, to the scheduler. Returns the answer to its
    /// deadline if it asks for one.
    fn admit(
        &mut self,
        now: Instant,
        request: Request,
        active: &ActiveRequest,
    ) -> Result<Option<Promise>, Refusal> {
        let priority = active.priority;
        let admission = match (&active.answer, priority) {
            (Some((if_infeasible, _)), _) => {
                let answered =
                    self.scheduler.submit_answered(now, request, priority, *if_infeasible);
                return answered.map(Some);
            }
            (None, Some(priority)) => self.scheduler.submit_with_priority(now, request, priority),
            (None, None) => self.scheduler.submit(now, request),
        };
        match admission {
            Admission::Accepted => Ok(None),
            Admission::Refused(refusal) => Err(refusal),
        }
    }

    /// Keeps a request that the scheduler accepted until it is over.
    fn accept(&mut self, now: Instant, mut active: ActiveRequest) {
        let request = active.request;
        active.submitted = now;
        if request.op.changes_sectors() {
            self.scans.note_change(request.extent);
        }
        active.marks = [AccountMark::now(self.scheduler.accounts(), request.volume); 2];
        self.pending.insert(request.id, active);
    }

    fn refuse(&self, active: ActiveRequest, refusal: Refusal) {
        let error = match refusal {
            Refusal::Infeasible { within } => {
                IoError::Infeasible { within, policy: self.scheduler.policy_name() }
            }
            Refusal::NoDeadline => SubmitError::NoDeadline.into(),
            // The handle has validated everything else that the scheduler refuses. A refusal means
            // that the two disagree.
            refusal => {
                tracing::error!(%refusal, "the scheduler refused a request that the drive's handle \
                    had admitted");
                IoError::EngineFailed
            }
        };
        active.finish(IoDone { finished: None, result: Err(error) });
    }

    /// Applies all changes between two requests.
    fn tune(&mut self, tuning: Tuning) {
        let Tuning { tunables, policy, outstanding } = tuning;
        if let Some(tunables) = tunables {
            self.scheduler.set_tunables(tunables);
        }
        if let Some(choice) = policy {
            tracing::info!(from = self.scheduler.policy_name(), to = %choice, "policy changed");
            self.scheduler.set_policy(choice.build(self.scheduler.belief()));
        }
        if let Some(outstanding) = outstanding {
            self.scheduler.set_limits(QueueLimits { outstanding, ..self.scheduler.limits() });
        }
    }

    fn cancel(&mut self, id: RequestId) {
        let mut cancelled = false;
        for id in self.divided.ids(id) {
            if let Some(on_done) = self.withdraw(id) {
                cancelled = true;
                on_done.call(IoDone { finished: None, result: Err(IoError::Cancelled) });
            }
        }
        self.errors.cancelled += u64::from(cancelled);
    }

    /// Withdraws a request. Returns its callback unless it was called before.
    fn withdraw(&mut self, id: RequestId) -> Option<Callback> {
        match self.scheduler.cancel(self.clock.now(), id) {
            // The drive still uses the request's bytes, so its permit is kept until the command is
            // over.
            Cancelled::AtDrive if self.at_drive.serves(id) => {
                self.pending.get_mut(&id).and_then(|pending| pending.on_done.take())
            }
            // The request left the queue. It may have been at the drive before and have waited to
            // be sent again.
            Cancelled::Removed | Cancelled::AtDrive => {
                self.pending.remove(&id).and_then(|pending| pending.on_done)
            }
            Cancelled::Unknown => None,
        }
    }

    /// Processes the completions of the backend. Returns the time of the collection.
    fn take_completions(&mut self) -> Instant {
        let mut ended = std::mem::take(&mut self.ended);
        let seen = self.clock.now();
        self.backend.collect(seen, &mut ended);
        if !ended.is_empty() {
            self.last_report = seen;
        }
        self.unflushed.note_losses(self.losses());
        // The scheduler was called before this time, and may be called after it by a completion.
        let mut now = Some(seen);
        for over in ended.drain(..) {
            let now = now.take().unwrap_or_else(|| self.clock.now());
            self.complete(seen, now, over);
        }
        self.ended = ended;
        if self.last_report == seen && self.trust.is_due(seen) {
            let trust = self.trust.check(seen, &self.scheduler.belief_report());
            let stalls = self.scheduler.stalls(seen);
            let shingling = self.shingling.check(seen, &stalls, &self.members);
            trust.iter().chain(&shingling).for_each(|change| tracing::warn!("{change}"));
        }
        seen
    }

    /// Processes a completion that was observed at `seen`. The time of earlier callbacks in the
    /// same iteration does not count as time of the drive.
    fn complete(&mut self, seen: Instant, now: Instant, mut over: BackendCompletion) {
        let Sent { command, covers, since: sent, .. } = self
            .at_drive
            .take(seen, over.command)
            .expect("a backend reports each command that was sent to it once");
        let explanation =
            over.result.is_err().then(|| self.backend.explanation(over.command)).flatten();
        let outcome = match &over.result {
            Ok(_) => Outcome::Success,
            Err(errno) => Outcome::Failed(*errno),
        };
        if command.op == Op::Flush && over.result.is_err() {
            // ATA drives and Linux's page cache report lost data once, to any client, and then
            // forget it.
            self.failed_flushes += 1;
            self.unflushed.note_losses(self.losses());
        }
        let known = self.scheduler.outstanding().by_id(over.command);
        // A model by distance does not tell an arm from a rotation.
        let splits = !self.scheduler.belief().revolution().is_zero();
        let predicted = known.and_then(|known| known.predicted).filter(|_| splits);
        let dispatched = known.map_or(seen, |known| known.dispatched);
        let service = seen.saturating_since(self.last_completion.max(dispatched));
        self.service.add(ServiceParts::of(service, predicted));
        let at_drive = AtDriveFrom { alone_from: self.last_completion, predicted };
        self.last_completion = self.last_completion.max(seen);
        let done = Done { command: over.command, finished: seen, outcome };
        let watched = self.recent.is_on(seen);
        let scanned_before = watched.then(|| self.scheduler.accounts().background().disk_time);
        let finished = self.scheduler.complete(now, done);
        let all_finished = finished.len() == command.requests.len();
        if let Some(scanned_before) = scanned_before {
            self.note_recent(seen, &command, sent, scanned_before, &finished);
        }
        // Mark the change again after its completion: a read in between returned the old data.
        if command.op.changes_sectors() {
            self.scans.note_change(command.extent);
        }
        self.hand_over_background(&command, &over.result);
        self.finish_background_writes();
        self.hand_over_timed();
        if let Some(due) = over.due {
            self.lateness.record(due, self.clock.now());
        }
        for finished in finished {
            let Request { op, extent, .. } = finished.request;
            let active = self.pending.remove(&finished.request.id);
            let written_at = active.as_ref().and_then(|active| active.written_at);
            let result = match (&mut over.result, &explanation) {
                (Ok(sectors), _) => self
                    .safe(&finished, written_at)
                    .map(|()| self.part_of(sectors, &command, &finished)),
                (Err(errno), None) => Err(IoError::Os { op, extent, errno: *errno }),
                (Err(errno), Some(explanation)) => Err(IoError::Drive {
                    op,
                    extent,
                    errno: *errno,
                    explanation: Arc::clone(explanation),
                }),
            };
            if op == Op::Flush && result.is_err() {
                // The failed flush already reports the loss to this volume.
                self.unflushed.report_loss(finished.request.volume);
            }
            if let Err(error) = &result {
                self.count_error(finished.request.volume, error);
            }
            if let Some(active) = active {
                let [submitted, sent] = active.marks;
                let whole = match active.part {
                    None => Some(finished),
                    Some(part) => self.divided.part_finished(part, &finished),
                };
                if let Some(whole) = whole {
                    self.slow.note(&whole, &at_drive, submitted, sent);
                }
                active.finish(IoDone { finished: Some(finished), result });
            }
        }
        if command.op == Op::Flush && over.result.is_ok() {
            self.unflushed.flushed(covers);
        }
        if all_finished {
            return;
        }
        let losses = self.losses();
        for id in &command.requests {
            match self.pending.get_mut(id) {
                // Requests cancelled in the meantime are neither reported nor sent again. Their
                // buffers are free now.
                Some(pending) if pending.on_done.is_none() => drop(self.pending.remove(id)),
                Some(pending) if over.result.is_ok() => pending.written_at = Some(losses),
                _ => {}
            }
        }
    }

    /// Records what a command served, for live views.
    fn note_recent(
        &mut self,
        seen: Instant,
        command: &Command,
        sent: Instant,
        scanned_before: Nanos,
        finished: &[Finished],
    ) {
        let Self { recent, scheduler, .. } = self;
        if let Some(extent) = command.background {
            let scanned = scheduler.accounts().background().disk_time;
            let work = ServedWork {
                volume: None,
                class: ClassId(0),
                op: command.op,
                extent,
                submitted: sent,
                dispatched: sent,
                finished: seen,
                disk_time: scanned.saturating_sub(scanned_before),
                place: None,
            };
            recent.note(work, scheduler.belief());
        }
        for finished in finished {
            let Request { volume, class, op, extent, .. } = finished.request;
            let work = ServedWork {
                volume: Some(volume),
                class,
                op,
                extent,
                submitted: finished.submitted,
                dispatched: finished.dispatched,
                finished: finished.finished,
                disk_time: finished.disk_time,
                place: None,
            };
            recent.note(work, scheduler.belief());
        }
    }

    /// Returns the result to report for a request that the drive completed. A flush or durable
    /// write fails if the drive may have lost data that it had to make durable; `written_at` are
    /// the losses when it was written.
    fn safe(&mut self, finished: &Finished, written_at: Option<u64>) -> Result<(), IoError> {
        let Request { volume, op, extent, fua, .. } = finished.request;
        let lost = match op {
            Op::Flush => self.unflushed.report_loss(volume),
            _ => written_at.is_some_and(|written_at| written_at != self.losses()),
        };
        if lost {
            return Err(IoError::Drive {
                op,
                extent,
                errno: Errno::IO.raw_os_error(),
                explanation: LOST_WRITES.into(),
            });
        }
        if op.changes_sectors() && !fua {
            self.unflushed.answered(volume);
        }
        Ok(())
    }

    /// The number of times that the drive may have lost reported, unflushed writes.
    fn losses(&self) -> u64 {
        self.backend.losses() + self.failed_flushes
    }

    fn count_error(&mut self, volume: VolumeId, error: &IoError) {
        *self.errors.by_errno.entry(error.errno()).or_default() += 1;
        let name = self.volume_names.get(&volume).cloned();
        let volume = name.unwrap_or_else(|| match volume {
            VolumeId::INTERNAL => "(table of volumes)".to_owned(),
            VolumeId(number) => number.to_string(),
        });
        // The loss of the connection was logged once. Requests that fail because of it are logged
        // at debug level only.
        if [Errno::CONNRESET, Errno::NOTCONN]
            .iter()
            .any(|gone| gone.raw_os_error() == error.errno())
        {
            tracing::debug!(volume, %error, "a request failed");
            return;
        }
        let Some(Allowed { suppressed, last }) = self.log_limiter.allow(self.clock.now()) else {
            return;
        };
        if suppressed > 0 {
            tracing::warn!("{suppressed} more requests failed in the meantime");
        }
        tracing::warn!(volume, %error, "a request failed");
        if last {
            tracing::warn!(
                "further failures within this second are counted and not logged (`headtime \
                    status` shows the number)"
            );
        }
    }

    /// Returns the sectors of one request from those of the command that served it. A request that
    /// is served alone takes them all.
    fn part_of(&self, sectors: &mut Bytes, command: &Command, finished: &Finished) -> Bytes {
        if command.op != Op::Read {
            return Bytes::new();
        }
        if command.extent == finished.request.extent && command.requests.len() == 1 {
            return std::mem::take(sectors);
        }
        let Extent { start, len } = finished.request.extent;
        let from = self.sector_size.bytes_of(start - command.extent.start) as usize;
        sectors.slice(from..from + self.sector_size.bytes_of(len) as usize)
    }

    /// Sends the commands that the scheduler decides. Returns the time at which the scheduler must
    /// be called again, if any.
    fn send(&mut self) -> Option<Instant> {
        loop {
            let now = self.clock.now();
            match self.scheduler.next(now) {
                Decision::Dispatch(command) => {
                    let pieces = self.prepare(&command);
                    self.at_drive.send(now, command.clone(), self.unflushed.covered_now());
                    self.note_timed_issue(command.id);
                    self.send_or_hold(now, BackendCommand { command, pieces });
                }
                Decision::WaitUntil { at, .. } => return Some(at),
                Decision::Idle => return None,
            }
        }
    }

    /// Marks the accounts at the dispatch of a command, and returns its data if it is a write. Its
    /// requests are ordered by address and adjoin each other.
    fn prepare(&mut self, command: &Command) -> Vec<Bytes> {
        let is_write = command.op == Op::Write;
        let background = command.background.filter(|_| is_write);
        let background = background.and_then(|_| self.background_data(command));
        let Self { pending, scheduler, .. } = self;
        let mut pieces = Vec::new();
        let mut bytes = 0;
        if let Some(data) = background {
            bytes += data.len() as u64;
            pieces.push(data);
        }
        for id in &command.requests {
            let Some(active) = pending.get_mut(id) else {
                assert!(!is_write, "a request keeps its data until its command is over");
                continue;
            };
            active.marks[1] = AccountMark::now(scheduler.accounts(), active.request.volume);
            if is_write {
                bytes += active.data.len() as u64;
                pieces.push(active.data.clone());
            }
        }
        assert!(
            !is_write || bytes == self.sector_size.bytes_of(command.extent.len),
            "the pieces of a merged write do not make up its extent"
        );
        pieces
    }

    fn snapshot(&self) -> DriveSnapshot {
        let taken = self.clock.now();
        let outstanding = self.scheduler.outstanding();
        let at_drive = outstanding.iter().flat_map(|command| &command.requests);
        let sent: HashSet<RequestId> = at_drive.map(|queued| queued.request.id).collect();
        let queued = self.scheduler.held().saturating_sub(sent.len());
        DriveSnapshot {
            taken,
            policy: self.scheduler.policy_name(),
            active_policy: self.scheduler.active_policy(),
            switches: self.scheduler.policy_switches().to_vec(),
            tunables: self.scheduler.tunables().clone(),
            outstanding_most: self.scheduler.limits().outstanding,
            drive_model: self.drive_model,
            backend: self.backend.describe(),
            queued: queued.saturating_sub(self.divided.queued_beside_first(&sent)),
            outstanding: outstanding.len(),
            accounts: self.divided.accounts(self.scheduler.accounts()),
            shares: self.scheduler.shares().reports(taken).collect(),
            enforces_shares: self.scheduler.uses_shares(),
            belief: self.scheduler.belief_report(),
            waits: self.scheduler.waits(),
            scans: self.scans.count(),
            timed_wait: self.scheduler.timed_wait(),
            fill: self.scheduler.fill_report(),
            background: self.scheduler.accounts().background(),
            emulation: self.backend.emulation(taken).map(|counts| EmulationSnapshot {
                lateness: self.lateness.summary(),
                bytes_late: counts.bytes_late,
                bytes_late_max: counts.bytes_late_max,
                disk_time: counts.disk_time,
            }),
            service: self.service,
            errors: self.errors.clone(),
            hung: self.at_drive.counts(),
            link: self.backend.link(),
            stalls: self.scheduler.stalls(taken),
            members: Arc::clone(&self.members),
        }
    }
}

#[cfg(test)]
mod tests;
