//! [`InvariantChecker`]: checks every event of a run against the invariants.

use std::collections::{BTreeMap, BTreeSet};

use headtime_sched::{
    Accounts, BackgroundRead, Cancelled, Command, CommandId, DriveTraits, FillSource, Finished, Op,
    Outcome, PendingSectors, Request, RequestId, ScanId, ScanOptions,
};
use headtime_units::{Extent, Instant, Nanos};
use headtime_workload::ClientId;

use super::Summary;
use super::contents::{SectorContents, WriteFate};
use super::durability::DurabilityModel;
use super::scans::ScanModel;
use headtime_sim::{DiskTime, DriveCompletion, EngineObserver, Landing};

/// The state of a run, independent of the scheduler's own.
pub(super) struct InvariantChecker {
    traits: DriveTraits,
    arms: u64,
    /// Requests accepted and not yet reported; cancelled ones until their command completes.
    live: BTreeMap<RequestId, LiveRequest>,
    /// Commands at the drive.
    commands: BTreeMap<CommandId, SentCommand>,
    given_up: BTreeSet<CommandId>,
    contents: SectorContents,
    durability: DurabilityModel,
    pub(super) scans: ScanModel,
    last_time: Instant,
    last_report: Instant,
    last_charged: Instant,
    charged: Nanos,
    /// Disk time reported by finished requests.
    charged_to_requests: Nanos,
    summary: Summary,
    /// Completed commands and their times since the landings were last read.
    reported: Vec<(Command, Instant)>,
    /// The first violation.
    violation: Option<String>,
}

struct LiveRequest {
    request: Request,
    submitted: Instant,
    stage: RequestStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestStage {
    Queued,
    AtDrive,
    /// A part of a command that failed: it goes again alone.
    Again,
    /// Completed by the drive; a forced write may still wait for its flush.
    Landed,
    /// Cancelled while at the drive.
    Ghost,
}

struct SentCommand {
    command: Command,
    at: Instant,
}

impl InvariantChecker {
    pub(super) fn new(traits: DriveTraits, arms: usize) -> Self {
        Self {
            traits,
            arms: arms as u64,
            live: BTreeMap::new(),
            commands: BTreeMap::new(),
            given_up: BTreeSet::new(),
            contents: SectorContents::default(),
            durability: DurabilityModel::default(),
            scans: ScanModel::default(),
            last_time: Instant::ORIGIN,
            last_report: Instant::ORIGIN,
            last_charged: Instant::ORIGIN,
            charged: Nanos::ZERO,
            charged_to_requests: Nanos::ZERO,
            summary: Summary::default(),
            reported: Vec::new(),
            violation: None,
        }
    }

    /// The first violation so far.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    /// A scan starts now.
    pub(super) fn scan_started(
        &mut self,
        id: ScanId,
        pending: &PendingSectors,
        options: ScanOptions,
    ) {
        let known = options.point_in_time.then(|| self.contents.known(self.next_request()));
        self.scans.started(id, pending, known);
    }

    /// The next request to be submitted: the engine counts them.
    fn next_request(&self) -> RequestId {
        RequestId(self.summary.requests)
    }

    /// Processes the landings since the last call.
    pub(super) fn landed(&mut self, landings: Vec<Landing>) {
        for landing in &landings {
            let result = self.contents.landed(landing);
            self.check(landing.at, result);
        }
        for (command, finished) in std::mem::take(&mut self.reported) {
            let result = self.contents.check_durable(&command, finished);
            self.check(finished, result);
        }
    }

    /// A random request that can be cancelled.
    pub(super) fn random_live(&self, lot: u64) -> Option<(RequestId, ClientId)> {
        let held: Vec<&Request> = self
            .live
            .values()
            .filter(|live| live.stage != RequestStage::Ghost)
            .map(|live| &live.request)
            .collect();
        let place = (lot % held.len().max(1) as u64) as usize;
        held.get(place).map(|request| (request.id, ClientId(request.stream.0)))
    }

    /// Checks the final state after everything has drained.
    pub(super) fn close(
        mut self,
        now: Instant,
        disk_time: DiskTime,
        accounts: &Accounts,
    ) -> Result<Summary, String> {
        self.verdict()?;
        if let Some((id, live)) = self.live.first_key_value() {
            return Err(format!(
                "request {} ({:?}, {:?}) was accepted and never finished",
                id.0, live.request.op, live.stage
            ));
        }
        let passed = now.saturating_since(Instant::ORIGIN);
        let passed_for_all = passed * self.arms;
        if disk_time.total() != passed_for_all {
            return Err(format!(
                "the drive accounts for {}, but {passed_for_all} have passed",
                disk_time.total()
            ));
        }
        let (volumes, scans) = (accounts.disk_time(), accounts.background().disk_time);
        if volumes + scans != self.charged {
            return Err(format!(
                "volumes were charged {volumes} and scans {scans}, but commands cost {}",
                self.charged
            ));
        }
        if self.summary.cancelled == 0 && self.charged_to_requests != volumes {
            return Err(format!(
                "requests reported that they cost {}, but volumes were charged {volumes}",
                self.charged_to_requests
            ));
        }
        self.scans.check_end()?;
        let counted: (u64, u64) = accounts
            .volumes()
            .fold((0, 0), |sum, (_, account)| (sum.0 + account.requests, sum.1 + account.errors));
        let finished = self.summary.requests - self.summary.cancelled - self.summary.failed;
        if counted != (finished, self.summary.failed) {
            return Err(format!(
                "accounts hold {counted:?} requests and errors, but {:?} were reported",
                (finished, self.summary.failed)
            ));
        }
        self.contents.check_end()?;
        self.summary.simulated = passed;
        Ok(self.summary)
    }

    fn violate(&mut self, now: Instant, what: String) {
        if self.violation.is_none() {
            self.violation = Some(format!("at {now}: {what}"));
        }
    }

    fn check(&mut self, now: Instant, result: Result<(), String>) {
        if let Err(what) = result {
            self.violate(now, what);
        }
    }

    fn tick(&mut self, now: Instant) {
        if now < self.last_time {
            self.violate(now, format!("time ran back from {}", self.last_time));
        }
        self.last_time = now;
    }

    /// Checks that the command may be sent now.
    fn check_dispatch(&self, command: &Command) -> Result<Vec<Request>, String> {
        if self.commands.len() >= self.traits.queue_depth {
            return Err(format!(
                "command {} is one more than the drive's {} places",
                command.id.0, self.traits.queue_depth
            ));
        }
        self.check_background(command)?;
        let mut requests = Vec::new();
        for id in &command.requests {
            let live = self.live.get(id).ok_or_else(|| {
                format!("command {} serves request {}, which is not held", command.id.0, id.0)
            })?;
            let request = live.request;
            let flush_of_forced_write =
                command.op == Op::Flush && request.fua && live.stage == RequestStage::Landed;
            if !flush_of_forced_write {
                if !matches!(live.stage, RequestStage::Queued | RequestStage::Again) {
                    return Err(format!("request {} is sent again while {:?}", id.0, live.stage));
                }
                let within = request.op == Op::Flush || is_within(request.extent, command.extent);
                if request.op != command.op || !within {
                    return Err(format!(
                        "command {} ({:?} {}) serves {request:?}",
                        command.id.0, command.op, command.extent
                    ));
                }
                self.check_order(&request)?;
            }
            requests.push(request);
        }
        Ok(requests)
    }

    /// Checks what a command reads for scans: sectors of its own, which no other command changes
    /// meanwhile.
    fn check_background(&self, command: &Command) -> Result<(), String> {
        let changed_while_read = |read: &Command, changing: &Command| {
            changing.op.changes_sectors()
                && read.background.is_some_and(|extent| extent.overlaps(changing.extent))
        };
        let at_drive = || self.commands.values().map(|sent| &sent.command);
        if let Some(other) = at_drive()
            .find(|other| changed_while_read(command, other) || changed_while_read(other, command))
        {
            return Err(format!(
                "{command:?} and {other:?} are at the drive together, and one changes what the \
                    other reads for scans"
            ));
        }
        match command.background {
            Some(read) if command.op != Op::Read || !is_within(read, command.extent) => {
                Err(format!("{command:?} does not read its sectors for scans"))
            }
            None if command.requests.is_empty() => Err(format!("{command:?} serves nobody")),
            _ => Ok(()),
        }
    }

    /// Checks that no earlier conflicting request is unfinished.
    fn check_order(&self, request: &Request) -> Result<(), String> {
        let earlier = self.live.range(..request.id).map(|(_, earlier)| earlier);
        let conflicts = |earlier: &&LiveRequest| {
            let changes = earlier.request.op.changes_sectors() || request.op.changes_sectors();
            changes
                && earlier.stage != RequestStage::Landed
                && earlier.request.extent.overlaps(request.extent)
        };
        match earlier.filter(|_| request.op != Op::Flush).find(conflicts) {
            Some(passed) => Err(format!(
                "request {} passes request {}, which overlaps it and is {:?}",
                request.id.0, passed.request.id.0, passed.stage
            )),
            None => Ok(()),
        }
    }

    /// The scheduler's view of a command ends, with or without an answer.
    fn end_command(&mut self, finished: Instant, command: CommandId, success: bool) {
        let Some(sent) = self.commands.remove(&command) else {
            return self.violate(
                finished,
                format!("command {} completed but is not at the drive", command.0),
            );
        };
        self.charged += finished.saturating_since(self.last_charged.max(sent.at));
        self.last_charged = self.last_charged.max(finished);
        let mut requests = Vec::new();
        for id in &sent.command.requests {
            let Some(live) = self.live.get_mut(id) else { continue };
            requests.push(live.request);
            match live.stage {
                RequestStage::Ghost => {
                    self.live.remove(id);
                }
                RequestStage::Landed => {}
                RequestStage::Queued | RequestStage::Again | RequestStage::AtDrive if success => {
                    live.stage = RequestStage::Landed;
                    self.contents.settled(*id, WriteFate::Done);
                }
                RequestStage::Queued | RequestStage::Again | RequestStage::AtDrive => {
                    live.stage = RequestStage::Again;
                }
            }
        }
        self.durability.completed(command, sent.command.op, sent.command.fua, success, &requests);
        if success {
            self.reported.push((sent.command, finished));
        }
    }

    fn check_finished(&mut self, now: Instant, finished: &Finished) -> Result<(), String> {
        let id = finished.request.id;
        let live = self.live.remove(&id).filter(|live| live.stage != RequestStage::Ghost);
        let live = live.ok_or_else(|| {
            format!(
                "request {} finished but is not held: it finished before, or was cancelled",
                id.0
            )
        })?;
        if finished.request != live.request || finished.submitted != live.submitted {
            return Err(format!(
                "{:?} finished as {:?}, submitted {}",
                live.request, finished.request, finished.submitted
            ));
        }
        let times = [finished.submitted, finished.dispatched, finished.finished, now];
        if !times.is_sorted() {
            return Err(format!(
                "request {} was submitted, dispatched, finished and reported at {times:?}",
                id.0
            ));
        }
        self.charged_to_requests += finished.disk_time;
        let success = finished.outcome == Outcome::Success;
        self.contents.settled(id, if success { WriteFate::Done } else { WriteFate::Doubtful });
        if !success {
            self.summary.failed += 1;
            return Ok(());
        }
        match live.request.op {
            Op::Read => {
                self.summary.reads_checked += 1;
                self.contents.check_read(&live.request)
            }
            Op::Write | Op::Zero => self.durability.write_finished(&live.request),
            Op::Flush => self.durability.flush_finished(id).map(|covered_writes| {
                self.summary.flushes_checked += u64::from(covered_writes > 0)
            }),
            Op::Discard => Ok(()),
        }
    }
}

fn is_within(part: Extent, whole: Extent) -> bool {
    part.intersection(whole) == Some(part)
}

impl EngineObserver for InvariantChecker {
    fn submitted(&mut self, now: Instant, request: &Request) {
        self.tick(now);
        self.summary.requests += 1;
        self.contents.submitted(request);
        if request.op == Op::Flush {
            self.durability.flush_submitted(request.id);
        }
        let live = LiveRequest { request: *request, submitted: now, stage: RequestStage::Queued };
        if self.live.insert(request.id, live).is_some() {
            self.violate(now, format!("request {} was accepted twice", request.id.0));
        }
    }

    fn dispatched(&mut self, now: Instant, command: &Command) {
        self.tick(now);
        let requests = self.check_dispatch(command);
        for id in &command.requests {
            if let Some(live) = self.live.get_mut(id)
                && matches!(live.stage, RequestStage::Queued | RequestStage::Again)
            {
                live.stage = RequestStage::AtDrive;
            }
        }
        if command.op == Op::Flush {
            self.durability.flush_sent(command.id);
            self.contents.flush_sent(command.id);
        }
        if let Some(extent) = command.background {
            self.contents.sent_for_scans(command.id, extent, self.next_request());
        }
        match requests {
            Ok(requests) => self.contents.dispatched(command.id, requests),
            Err(what) => self.violate(now, what),
        }
        self.commands.insert(command.id, SentCommand { command: command.clone(), at: now });
    }

    fn completed(&mut self, now: Instant, completion: &DriveCompletion, expected: bool) {
        self.tick(now);
        let reported = completion.finished;
        if reported > now || reported < self.last_report {
            self.violate(
                now,
                format!("a report of {reported} follows one of {}", self.last_report),
            );
        }
        self.last_report = self.last_report.max(reported);
        if expected {
            self.end_command(reported, completion.command, completion.outcome == Outcome::Success);
        } else if !self.given_up.remove(&completion.command) {
            self.violate(now, format!("command {} was answered twice", completion.command.0));
        }
    }

    fn gave_up(&mut self, now: Instant, command: CommandId) {
        self.tick(now);
        self.summary.given_up += 1;
        self.given_up.insert(command);
        self.end_command(now, command, false);
    }

    fn finished(&mut self, now: Instant, finished: &Finished) {
        self.tick(now);
        let result = self.check_finished(now, finished);
        self.check(now, result);
    }

    fn background(&mut self, now: Instant, read: &BackgroundRead) {
        self.tick(now);
        let delivered = self.scans.delivered(read);
        let result = delivered.and_then(|point_in_time| match read.outcome {
            Outcome::Success => self.contents.check_delivery(read, point_in_time),
            Outcome::Failed(_) => Ok(()),
        });
        match read.outcome {
            Outcome::Success => {
                let source = FillSource::ALL.iter().position(|source| *source == read.source);
                self.summary.scanned[source.expect("all are in the list")] += 1;
            }
            Outcome::Failed(_) => self.summary.lost_by_scans += 1,
        }
        self.check(now, result);
    }

    fn cancelled(&mut self, now: Instant, id: RequestId, cancelled: Cancelled) {
        self.tick(now);
        self.summary.cancelled += 1;
        let stage = self.live.get(&id).map(|live| live.stage);
        match (cancelled, stage) {
            (Cancelled::Removed, Some(RequestStage::Queued)) => {
                self.live.remove(&id);
                self.contents.settled(id, WriteFate::Removed);
            }
            (Cancelled::AtDrive, Some(RequestStage::AtDrive)) => {
                self.contents.settled(id, WriteFate::Doubtful);
                if let Some(live) = self.live.get_mut(&id) {
                    live.stage = RequestStage::Ghost;
                }
            }
            (Cancelled::AtDrive, Some(RequestStage::Landed | RequestStage::Again)) => {
                self.contents.settled(id, WriteFate::Doubtful);
                self.live.remove(&id);
            }
            (cancelled, stage) => self.violate(
                now,
                format!("cancelling request {} was answered {cancelled:?} while {stage:?}", id.0),
            ),
        }
    }
}
