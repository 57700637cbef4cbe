//! A simulated drive with its scheduler and clients that think, and its characterization beside
//! them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use headtime_belief::LinearBelief;
use headtime_io::characterize::{BesideDrive, BesideProgress, characterize_beside};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_probe::{DriveSharing, Finding, Probe, ProbeSettings};
use headtime_sched::{
    Belief, ClassId, Decision, Done, FillSettings, Op, PolicyEntry, QueueLimits, Request,
    RequestId, Scheduler, StreamId, TimedRead, TimedReadDone, VolumeId,
};
use headtime_sim::{Device as _, DriveTruth, SimulatedDrive};
use headtime_units::{Extent, Instant, Nanos};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// The time from a completion to the next command of a timed read, on a usual host (guess).
const HOST: Nanos = Nanos::from_us(60);

/// The time in which clients work alone before the characterization (the standard error of their
/// mean is some 0.1 % then).
const BEFORE: Nanos = Nanos::from_secs(3_600);

/// Clients that read 8 KiB at random and think in between, for an exponential time.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) clients: u64,
    pub(crate) think: Nanos,
    pub(crate) max_impact: f64,
}

/// A simulated drive with its scheduler and clients.
struct Company {
    scheduler: Scheduler,
    drive: SimulatedDrive,
    now: Instant,
    load: Load,
    random: ChaCha8Rng,
    /// Clients that will send a request, by time.
    thinking: BinaryHeap<Reverse<(Instant, u64)>>,
    wake: Option<Instant>,
    reads: bool,
    responses: (u64, Nanos),
    longest: Nanos,
    others_between: u32,
    at_drive_with_timed: u64,
}

impl Company {
    fn new(truth: DriveTruth, belief: Box<dyn Belief + Send>, load: Load, seed: u64) -> Self {
        let drive = SimulatedDrive::new(truth).expect("a valid drive");
        let policy = PolicyEntry::find("headtime").expect("it ships").build_default();
        let limits = QueueLimits { requests: 256, outstanding: None };
        let mut scheduler = Scheduler::new(belief, policy, drive.traits(), limits);
        scheduler.record_predictions();
        scheduler.set_fill(FillSettings { max_impact: load.max_impact, ..FillSettings::default() });
        let mut company = Self {
            scheduler,
            drive,
            now: Instant::ORIGIN,
            load,
            random: ChaCha8Rng::seed_from_u64(seed),
            thinking: BinaryHeap::new(),
            wake: None,
            reads: false,
            responses: (0, Nanos::ZERO),
            longest: Nanos::ZERO,
            others_between: 0,
            at_drive_with_timed: 0,
        };
        (0..load.clients).for_each(|client| company.think(client));
        company
    }

    fn think(&mut self, client: u64) {
        let part: f64 = self.random.random();
        let ns = -(self.load.think.as_ns() as f64) * (1.0 - part).ln();
        self.thinking.push(Reverse((self.now + Nanos::from_ns(ns as u64), client)));
    }

    fn submit(&mut self, client: u64) {
        let capacity = self.drive.capacity().get();
        let request = Request {
            id: RequestId(client),
            volume: VolumeId(1),
            class: ClassId(0),
            stream: StreamId(client as u32),
            op: Op::Read,
            extent: Extent::from_numbers(self.random.random_range(0..capacity / 16) * 16, 16),
            deadline: None,
            fua: false,
        };
        let _ = self.scheduler.submit(self.now, request);
    }

    /// Goes on to the next event; returns the timed read that it completed.
    fn step(&mut self) -> Option<TimedReadDone> {
        self.send();
        let next_client = self.thinking.peek().map(|Reverse((at, _))| *at);
        let next = [self.drive.next_event(), next_client, self.wake];
        self.now = self.now.max(next.into_iter().flatten().min().expect("there are events"));
        let mut completed = Vec::new();
        self.drive.advance(self.now, &mut completed);
        let mut result = None;
        for completion in completed {
            let timed = self.scheduler.timed_command() == Some(completion.command);
            self.others_between += u32::from(!timed);
            let outcome = completion.outcome;
            let done = Done { command: completion.command, finished: completion.finished, outcome };
            for finished in self.scheduler.complete(self.now, done) {
                let response = finished.response();
                self.responses = (self.responses.0 + 1, self.responses.1 + response);
                self.longest = self.longest.max(response);
                self.think(finished.request.id.0);
            }
            if let Some(done) = self.scheduler.take_timed() {
                assert_eq!(done.others, self.others_between, "what came between is reported");
                result = Some(done);
            }
        }
        while let Some(Reverse((at, client))) = self.thinking.peek().copied() {
            if at > self.now {
                break;
            }
            self.thinking.pop();
            self.submit(client);
        }
        result
    }

    fn send(&mut self) {
        loop {
            match self.scheduler.next(self.now) {
                Decision::Dispatch(command) => {
                    if self.scheduler.timed_command() == Some(command.id) {
                        assert_eq!(self.drive.held(), 0, "a timed read is alone at the drive");
                        self.at_drive_with_timed += 1;
                    } else {
                        assert!(
                            self.scheduler.timed_command().is_none(),
                            "nothing is sent beside a timed read"
                        );
                    }
                    self.drive.submit(self.now, &command);
                }
                Decision::WaitUntil { at, .. } => {
                    self.wake = Some(at);
                    return;
                }
                Decision::Idle => {
                    self.wake = None;
                    return;
                }
            }
        }
    }

    /// Lets clients work alone for a while.
    fn run_for(&mut self, time: Nanos) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    fn mean_ms(&self) -> f64 {
        self.responses.1.as_ms_f64() / self.responses.0.max(1) as f64
    }
}

impl BesideDrive for Company {
    type Error = std::convert::Infallible;

    fn read(&mut self, read: TimedRead) -> Result<Option<TimedReadDone>, Self::Error> {
        if !self.reads {
            self.scheduler.timed_start(self.now);
            self.reads = true;
        }
        // The probe computes meanwhile.
        let at = self.now + HOST;
        while self.now < at {
            self.wake = Some(at);
            let next_client = self.thinking.peek().map(|Reverse((at, _))| *at);
            let event = [self.drive.next_event(), next_client].into_iter().flatten().min();
            if event.is_none_or(|event| event > at) {
                self.now = at;
            } else {
                let none = self.step();
                assert!(none.is_none(), "no timed read is in progress");
            }
        }
        self.scheduler.timed_read(self.now, read);
        loop {
            if let Some(done) = self.step() {
                self.others_between = 0;
                return Ok(Some(done));
            }
        }
    }
}

pub(crate) struct Characterized {
    pub(crate) finding: Finding,
    pub(crate) progress: BesideProgress,
    pub(crate) hours: f64,
    pub(crate) alone_ms: f64,
    pub(crate) beside_ms: f64,
    pub(crate) requests_per_second: f64,
    pub(crate) longest_ms: f64,
    pub(crate) reported: f64,
    pub(crate) measured: Option<(f64, f64, f64)>,
}

/// Characterizes a drive of the catalog beside a load.
pub(crate) fn characterized(
    truth: DriveTruth,
    belief: Box<dyn Belief + Send>,
    load: Load,
    seconds: Option<u64>,
    seed: u64,
) -> Characterized {
    let profile = truth.profile().clone();
    let sector = profile.sector_size().expect("a valid profile");
    let usual = ProbeSettings::for_drive(profile.capacity(), sector, seed);
    let settings = ProbeSettings {
        sharing: DriveSharing::BesideClients,
        budget: seconds.map_or(usual.budget, Nanos::from_secs),
        ..usual
    };
    let mut company = Company::new(truth, belief, load, seed);
    if load.clients > 0 {
        company.run_for(BEFORE);
    }
    let alone_ms = company.mean_ms();
    let requests_per_second = company.responses.0 as f64 / BEFORE.as_secs_f64();
    company.responses = (0, Nanos::ZERO);
    company.longest = Nanos::ZERO;
    company.others_between = 0;
    let began = company.now;
    let mut probe = Probe::new(settings);
    let mut progress = BesideProgress::default();
    let mut watch = |_: &Probe, _: &BesideProgress| ControlFlow::Continue(());
    characterize_beside(&mut company, &mut probe, &mut progress, &mut watch)
        .expect("a simulated drive stays");
    let report = company.scheduler.fill_report();
    Characterized {
        finding: probe.finding(),
        progress,
        hours: company.now.saturating_since(began).as_secs_f64() / 3600.0,
        alone_ms,
        beside_ms: company.mean_ms(),
        requests_per_second,
        longest_ms: company.longest.as_ms_f64(),
        reported: report.impact(),
        measured: report.measured.map(|of| (of.mean, of.lower, of.upper)),
    }
}

impl Characterized {
    pub(crate) fn print(&self, name: &str) {
        let within =
            self.finding.check.as_ref().map(|check| {
                (check.reads, check.within_50_us * 100.0, check.within_150_us * 100.0)
            });
        eprintln!(
            "{name}: {}; check {within:?}; {:.2} h, {} reads, {:.0} s of drive time, {} disturbed; \
             {:.0} requests/s, mean {:.3} -> {:.3} ms ({:+.2} %), longest {:.0} ms; reported \
             {:.2} %, measured {:?}; model in use {:?}",
            self.finding.verdict.sentence(),
            self.hours,
            self.progress.reads,
            self.finding.drive_time.as_secs_f64(),
            self.progress.disturbed,
            self.requests_per_second,
            self.alone_ms,
            self.beside_ms,
            (self.beside_ms / self.alone_ms - 1.0) * 100.0,
            self.longest_ms,
            self.reported * 100.0,
            self.measured.map(|(mean, low, high)| (mean * 100.0, low * 100.0, high * 100.0)),
            self.progress.model_in_use,
        );
        self.finding.remarks.iter().for_each(|remark| eprintln!("  - {remark}"));
    }
}

pub(crate) fn drive(name: &str) -> DriveProfile {
    catalog::load(name).expect("a profile that ships")
}

pub(crate) fn distance(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    Box::new(LinearBelief::new(profile.capacity()))
}
