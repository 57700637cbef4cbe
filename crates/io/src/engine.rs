//! The engine of one drive: one thread that owns the scheduler and the backend.
//!
//! One turn: take the letters (submissions, cancellations), take what the backend has done, hand both to the scheduler, call back those whose
//! requests are over, send what the scheduler decides, sleep until the bell rings or the next time that matters. Nothing in a turn blocks.
//!
//! The scheduler is told the time at which *this thread* saw a completion, also of an emulated drive whose model knows the exact time: it is what a
//! host in front of a real drive sees, wake-up delays included, and what its belief has to cope with. The mechanism of an emulated drive is not delayed by a
//! late wake-up: it computes from its own times, however late it is asked.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use headtime_sched::{Admission, Cancelled, Command, CommandId, Decision, Done, Finished, Op, Outcome, RequestId, Scheduler};
use headtime_units::{Extent, Instant, Nanos, SectorSize};
use smallvec::SmallVec;

use crate::backend::{Backend, Ended, Work};
use crate::clock::RealClock;
use crate::lateness::Lateness;
use crate::mailbox::{Letter, Mailbox, OnDone, Place, Submission};
use crate::request::{IoDone, IoError};
use crate::snapshot::{DriveSnapshot, EmulationSnapshot, ErrorCounts};

/// What the engine's thread owns.
pub(crate) struct Engine {
    clock: RealClock,
    scheduler: Scheduler,
    backend: Box<dyn Backend>,
    mailbox: Arc<Mailbox>,
    sector_size: SectorSize,
    drain_timeout: Nanos,
    /// Set when the closing of the drive was seen.
    drain_until: Option<Instant>,
    /// Requests that are not over, and cancelled ones whose bytes the drive still uses.
    pending: HashMap<RequestId, Pending>,
    /// Commands at the drive. The order of this map never matters: it is only looked up.
    commands: HashMap<CommandId, Command>,
    lateness: Lateness,
    errors: ErrorCounts,
    letters: Vec<Letter>,
    ended: Vec<Ended>,
}

struct Pending {
    data: Bytes,
    /// `None` once the request was cancelled and its owner told.
    on_done: Option<OnDone>,
    place: Place,
}

/// What was left when a drive was closed.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainReport {
    /// Requests given up that had not been sent to the drive.
    pub given_up_queued: usize,
    /// Requests given up at the drive: it did not answer in time, and may still carry them out.
    pub given_up_at_drive: usize,
    /// Whether everything written was made durable at the end.
    pub synced: bool,
    /// The drive's last snapshot.
    pub last: DriveSnapshot,
}

impl DrainReport {
    /// Whether nothing was given up and everything is durable.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.given_up_queued == 0 && self.given_up_at_drive == 0 && self.synced
    }
}

impl Engine {
    pub(crate) fn new(
        clock: RealClock,
        scheduler: Scheduler,
        backend: Box<dyn Backend>,
        mailbox: Arc<Mailbox>,
        sector_size: SectorSize,
        drain_timeout: Nanos,
    ) -> Self {
        Self {
            clock,
            scheduler,
            backend,
            mailbox,
            sector_size,
            drain_timeout,
            drain_until: None,
            pending: HashMap::new(),
            commands: HashMap::new(),
            lateness: Lateness::new(),
            errors: ErrorCounts::default(),
            letters: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Serves the mailbox until it is closed and everything is over, or the time to drain has passed.
    pub(crate) fn run(mut self) -> DrainReport {
        self.mailbox.set_engine(std::thread::current().id());
        let outcome = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let failed = outcome.is_err();
        if failed {
            tracing::error!("the engine of a drive failed on a fault of this program; its requests are answered with an error");
        }
        self.give_up(failed)
    }

    fn serve(&mut self) {
        loop {
            self.take_letters();
            self.take_completions();
            let hold_until = self.send();
            if self.mailbox.snapshot_wanted() {
                let snapshot = self.snapshot();
                self.mailbox.show(snapshot);
            }
            if self.mailbox.is_closing() {
                let until = *self.drain_until.get_or_insert_with(|| self.clock.now() + self.drain_timeout);
                // Letters left before the closing are seen here: nothing is posted after it.
                let nothing_left = self.pending.is_empty() && !self.mailbox.has_post();
                if nothing_left || self.clock.now() >= until {
                    return;
                }
            }
            self.sleep(hold_until);
        }
    }

    fn sleep(&self, hold_until: Option<Instant>) {
        let coarse = [hold_until, self.drain_until].into_iter().flatten().min();
        match (self.backend.next_event(), coarse) {
            (Some(event), coarse) if coarse.is_none_or(|coarse| event <= coarse) => {
                self.mailbox.bell.wait_precise(self.clock, event, || self.mailbox.has_post());
            }
            (_, coarse) => self.mailbox.bell.wait(self.clock, coarse),
        }
    }

    fn take_letters(&mut self) {
        let mut letters = std::mem::take(&mut self.letters);
        self.mailbox.take(&mut letters);
        for letter in letters.drain(..) {
            match letter {
                Letter::Submit(submission) => self.submit(submission),
                Letter::Cancel(id) => self.cancel(id),
                Letter::SetPolicy(choice) => {
                    tracing::info!(from = self.scheduler.policy_name(), to = choice.name(), "policy changed");
                    self.scheduler.set_policy(choice.build());
                }
            }
        }
        self.letters = letters;
    }

    fn submit(&mut self, submission: Submission) {
        let Submission { request, data, on_done, place } = submission;
        match self.scheduler.submit(self.clock.now(), request) {
            Admission::Accepted => {
                self.pending.insert(request.id, Pending { data, on_done: Some(on_done), place });
            }
            // Everything the scheduler refuses was checked by the handle; a refusal is a disagreement between the two.
            Admission::Refused(refusal) => {
                tracing::error!(%refusal, "the scheduler refused what the drive's handle had admitted");
                on_done.call(IoDone { finished: None, result: Err(IoError::EngineFailed) });
                drop(place);
            }
        }
    }

    fn cancel(&mut self, id: RequestId) {
        let on_done = match self.scheduler.cancel(self.clock.now(), id) {
            // The drive still uses the request's bytes, so its place is kept until the command is over.
            Cancelled::AtDrive if self.commands.values().any(|command| command.requests.contains(&id)) => {
                self.pending.get_mut(&id).and_then(|pending| pending.on_done.take())
            }
            // Taken out of the queue, or it was at the drive before and only waited to go there again.
            Cancelled::Removed | Cancelled::AtDrive => self.pending.remove(&id).and_then(|pending| pending.on_done),
            Cancelled::Unknown => None,
        };
        if let Some(on_done) = on_done {
            self.errors.cancelled += 1;
            on_done.call(IoDone { finished: None, result: Err(IoError::Cancelled) });
        }
    }

    fn take_completions(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        let seen = self.clock.now();
        self.backend.collect(seen, &mut ended);
        for over in ended.drain(..) {
            self.complete(seen, over);
        }
        self.ended = ended;
    }

    /// `seen` is when the completion was found: what earlier callbacks of the same turn took is no part of the drive's time.
    fn complete(&mut self, seen: Instant, over: Ended) {
        let command = self.commands.remove(&over.command).expect("a backend reports each command that was sent to it once");
        let outcome = match &over.result {
            Ok(_) => Outcome::Success,
            Err(errno) => Outcome::Failed(*errno),
        };
        let done = Done { command: over.command, finished: seen, outcome };
        let finished = self.scheduler.complete(self.clock.now(), done);
        if let Some(due) = over.due {
            self.lateness.record(due, self.clock.now());
        }
        for finished in finished {
            let result = match &over.result {
                Ok(sectors) => Ok(self.part_of(sectors, &command, &finished)),
                Err(errno) => {
                    *self.errors.by_errno.entry(*errno).or_default() += 1;
                    let request = finished.request;
                    let error = IoError::Os { op: request.op, extent: request.extent, errno: *errno };
                    tracing::warn!(volume = request.volume.0, %error, "a request failed");
                    Err(error)
                }
            };
            if let Some(Pending { on_done, place, .. }) = self.pending.remove(&finished.request.id) {
                if let Some(on_done) = on_done {
                    on_done.call(IoDone { finished: Some(finished), result });
                }
                drop(place);
            }
        }
        // Those cancelled meanwhile are not reported, and not sent again; their bytes are free now.
        for id in &command.requests {
            if self.pending.get(id).is_some_and(|pending| pending.on_done.is_none()) {
                self.pending.remove(id);
            }
        }
    }

    /// The sectors of one request out of those of the command that served it.
    fn part_of(&self, sectors: &Bytes, command: &Command, finished: &Finished) -> Bytes {
        if command.op != Op::Read {
            return Bytes::new();
        }
        let Extent { start, len } = finished.request.extent;
        let from = self.sector_size.bytes_of(start - command.extent.start) as usize;
        sectors.slice(from..from + self.sector_size.bytes_of(len) as usize)
    }

    /// Sends what the scheduler decides; returns when it wants to be asked again, if it said so.
    fn send(&mut self) -> Option<Instant> {
        loop {
            let now = self.clock.now();
            match self.scheduler.next(now) {
                Decision::Dispatch(command) => {
                    let pieces = if command.op == Op::Write { self.data_of(&command) } else { Vec::new() };
                    self.commands.insert(command.id, command.clone());
                    self.backend.start(now, Work { command, pieces });
                }
                Decision::WaitUntil { at, .. } => return Some(at),
                Decision::Idle => return None,
            }
        }
    }

    /// The data of a write command: its requests come by address and, being writes on disjoint sectors, abut.
    fn data_of(&self, command: &Command) -> Vec<Bytes> {
        let pieces: Vec<Bytes> = command
            .requests
            .iter()
            .map(|id| self.pending.get(id).expect("a request keeps its data until its command is over").data.clone())
            .collect();
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        assert_eq!(bytes as u64, self.sector_size.bytes_of(command.extent.len), "the pieces of a merged write do not make up its extent");
        pieces
    }

    fn snapshot(&self) -> DriveSnapshot {
        let taken = self.clock.now();
        let outstanding = self.scheduler.outstanding();
        let at_drive: usize = outstanding.iter().map(|command| command.requests.len()).sum();
        DriveSnapshot {
            taken,
            policy: self.scheduler.policy_name(),
            backend: self.backend.describe(),
            queued: self.scheduler.held().saturating_sub(at_drive),
            outstanding: outstanding.len(),
            accounts: self.scheduler.accounts().volumes().map(|(volume, account)| (volume, *account)).collect(),
            belief: self.scheduler.belief().report(),
            emulation: self.backend.emulation(taken).map(|counts| EmulationSnapshot {
                lateness: self.lateness.summary(),
                bytes_late: counts.bytes_late,
                bytes_late_max: counts.bytes_late_max,
                disk_time: counts.disk_time,
            }),
            errors: self.errors.clone(),
        }
    }

    /// Answers whatever is left and lets go of the backend.
    fn give_up(mut self, failed: bool) -> DrainReport {
        self.mailbox.close();
        let reason = if failed { IoError::EngineFailed } else { IoError::Closed };
        let synced = !failed && self.sync();
        let given_up_at_drive: usize = self.commands.values().map(|command| command.requests.len()).sum();
        let at_rest = synced || (!failed && self.commands.is_empty());
        // After a fault of its own the scheduler's books may not be fit to be read.
        let last = if failed { self.mailbox.last_snapshot() } else { self.snapshot() };

        let mut given_up_queued = self.pending.len().saturating_sub(given_up_at_drive);
        self.letters.clear();
        self.mailbox.take(&mut self.letters);
        for letter in self.letters.drain(..) {
            if let Letter::Submit(Submission { on_done, place, .. }) = letter {
                given_up_queued += 1;
                on_done.call(IoDone { finished: None, result: Err(reason.clone()) });
                drop(place);
            }
        }
        for (_, Pending { on_done, place, .. }) in self.pending.drain() {
            if let Some(on_done) = on_done {
                on_done.call(IoDone { finished: None, result: Err(reason.clone()) });
            }
            drop(place);
        }
        if at_rest {
            drop(self.backend)
        } else {
            self.backend.abandon()
        }
        self.mailbox.show(last.clone());
        DrainReport { given_up_queued, given_up_at_drive, synced, last }
    }

    /// Makes everything written durable, as far as the time to drain reaches; the scheduler has nothing at the drive any more.
    fn sync(&mut self) -> bool {
        if !self.commands.is_empty() {
            return false;
        }
        let flush = Command { id: LAST_FLUSH, op: Op::Flush, extent: Extent::default(), fua: false, requests: SmallVec::new() };
        self.commands.insert(flush.id, flush.clone());
        self.backend.start(self.clock.now(), Work { command: flush, pieces: Vec::new() });
        let until = self.drain_until.unwrap_or_else(|| self.clock.now() + self.drain_timeout);
        loop {
            let mut ended = std::mem::take(&mut self.ended);
            self.backend.collect(self.clock.now(), &mut ended);
            if let Some(over) = ended.pop() {
                self.commands.remove(&over.command);
                if let Err(errno) = over.result {
                    let error = std::io::Error::from_raw_os_error(errno);
                    tracing::error!(%error, "the last writes before closing could not be made durable; copy them again or check the device below");
                }
                return over.result.is_ok();
            }
            if self.clock.now() >= until {
                return false;
            }
            let event = self.backend.next_event().map_or(until, |event| event.min(until));
            self.mailbox.bell.wait(self.clock, Some(event));
        }
    }
}

/// The flush at the end; the scheduler counts its commands from zero and never comes here.
const LAST_FLUSH: CommandId = CommandId(u64::MAX);

#[cfg(test)]
mod tests;
