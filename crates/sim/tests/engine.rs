//! The engine around a scheduler and a drive: timeouts, waits, and runs that cannot continue.

use std::sync::{Arc, Mutex};

use headtime_mechanics::catalog;
use headtime_sched::{
    Choice, DriveTraits, Finished, HoldReason, Outcome, Policy, PolicyEntry, QueueLimits, Request,
    Scheduler, StreamId, View,
};
use headtime_sim::{
    Device, DriveCompletion, DriveTruth, ETIMEDOUT, Engine, EngineError, EngineObserver,
    Experiment, OraclePositioning, RunError, SimulatedDrive, StepOutcome, run,
};
use headtime_testkit::faults::{FaultPlan, FaultyDrive};
use headtime_units::{Instant, Nanos};
use headtime_workload::{
    Arrival, ClientId, FilesRead, Interarrival, Process, RequestSource, Sizes, SourceEvent,
    StreamConfig, Workload,
};

fn truth() -> DriveTruth {
    DriveTruth::nominal(&catalog::load("atlas10k").expect("it ships"), 1).expect("it is valid")
}

fn scheduler(policy: Box<dyn Policy>) -> Scheduler {
    let oracle = OraclePositioning::new(&truth()).expect("it is valid");
    Scheduler::new(
        Box::new(oracle),
        policy,
        DriveTraits { queue_depth: 4, fua: true },
        QueueLimits::default(),
    )
}

fn fcfs() -> Box<dyn Policy> {
    PolicyEntry::find("fcfs").expect("it is in the table").build_default()
}

fn faulty(plan: FaultPlan) -> FaultyDrive<SimulatedDrive> {
    FaultyDrive::new(SimulatedDrive::new(truth()).expect("it is valid"), plan, 1)
}

/// The first `left` requests of a workload.
struct First {
    workload: Workload,
    left: u32,
}

impl First {
    fn of(left: u32, stream: StreamConfig) -> Self {
        let profile = catalog::load("atlas10k").expect("it ships");
        let workload =
            Workload::new(&[stream], profile.sector_size().expect("valid"), profile.capacity(), 1)
                .expect("it suits the drive");
        Self { workload, left }
    }
}

impl RequestSource for First {
    fn arrival(&mut self) -> Option<Arrival> {
        let arrival = if self.left > 0 { self.workload.arrival() } else { None };
        self.left -= u32::from(arrival.is_some());
        arrival
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        self.left = self.left.checked_sub(1)?;
        self.workload.follow(now, client)
    }

    fn event(&mut self) -> Option<SourceEvent> {
        self.workload.event()
    }
}

/// The events in order.
#[derive(Default)]
struct Diary {
    submitted: Vec<(Instant, Request)>,
    finished: Vec<Finished>,
    ended: Vec<(Instant, StreamId)>,
    unexpected: u32,
}

impl EngineObserver for Diary {
    fn submitted(&mut self, now: Instant, request: &Request) {
        self.submitted.push((now, *request));
    }

    fn completed(&mut self, _now: Instant, _completion: &DriveCompletion, expected: bool) {
        self.unexpected += u32::from(!expected);
    }

    fn finished(&mut self, _now: Instant, finished: &Finished) {
        self.finished.push(*finished);
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.ended.push((now, stream));
    }
}

fn drain(engine: &mut Engine<Scheduler, impl Device, First>) -> Result<Diary, EngineError> {
    let mut diary = Diary::default();
    while engine.step(&mut diary)? == StepOutcome::Stepped {}
    assert_eq!(engine.scheduler.held(), 0);
    Ok(diary)
}

#[test]
fn a_command_that_the_drive_never_answers_fails_once_when_its_time_is_up() {
    let lost = FaultPlan { lost_share: 1.0, ..FaultPlan::default() };
    let mut engine = Engine::new(
        scheduler(fcfs()),
        faulty(lost),
        First::of(3, StreamConfig::closed(1)),
        Some(Nanos::from_ms(500)),
    );
    let diary = drain(&mut engine).unwrap();
    assert_eq!(diary.finished.len(), 3);
    for finished in &diary.finished {
        assert_eq!(finished.outcome, Outcome::Failed(ETIMEDOUT));
        assert_eq!(finished.service(), Nanos::from_ms(500));
    }
}

#[test]
fn an_answer_after_the_command_was_given_up_is_ignored() {
    let late = FaultPlan {
        lost_share: 1.0,
        answers_after_abort_share: 1.0,
        slow_by: Nanos::from_ms(100),
        ..FaultPlan::default()
    };
    let mut engine = Engine::new(
        scheduler(fcfs()),
        faulty(late),
        First::of(5, StreamConfig::closed(2)),
        Some(Nanos::from_ms(500)),
    );
    let diary = drain(&mut engine).unwrap();
    assert_eq!((diary.finished.len(), diary.unexpected), (5, 5));
    assert!(diary.finished.iter().all(|finished| finished.outcome == Outcome::Failed(ETIMEDOUT)));
}

#[test]
fn a_timeout_that_nothing_reaches_changes_nothing() {
    let run = |timeout| {
        let mut engine = Engine::new(
            scheduler(fcfs()),
            faulty(FaultPlan::default()),
            First::of(300, StreamConfig::closed(8)),
            timeout,
        );
        drain(&mut engine).unwrap().finished
    };
    assert_eq!(run(None), run(Some(Nanos::from_secs(30))));
}

/// Holds every request until a time after its submission.
struct Holds {
    span: Nanos,
}

impl Policy for Holds {
    fn name(&self) -> &'static str {
        "holds"
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let oldest = view.queue.oldest().expect("asked only when something is queued");
        let until = oldest.submitted + self.span;
        if view.now >= until {
            Choice::one(Some(oldest.ticket))
        } else {
            Choice::Hold { until, reason: HoldReason::Anticipation }
        }
    }
}

#[test]
fn a_policy_that_holds_is_asked_again_at_its_time() {
    let holds = Box::new(Holds { span: Nanos::from_ms(3) });
    let mut engine = Engine::new(
        scheduler(holds),
        faulty(FaultPlan::default()),
        First::of(20, StreamConfig::closed(1)),
        None,
    );
    let diary = drain(&mut engine).unwrap();
    assert!(
        diary
            .finished
            .iter()
            .all(|finished| finished.dispatched == finished.submitted + Nanos::from_ms(3))
    );
}

/// Never sends anything.
struct Sleeps;

impl Policy for Sleeps {
    fn name(&self) -> &'static str {
        "sleeps"
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, _view: &View<'_>) -> Choice {
        Choice::Nothing
    }
}

/// Serves requests in their order and notes the streams that end.
struct Notes {
    ended: Arc<Mutex<Vec<(Instant, StreamId)>>>,
}

impl Policy for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(view.queue.oldest().map(|queued| queued.ticket))
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.ended.lock().expect("no test panics with it").push((now, stream));
    }
}

#[test]
fn the_end_of_a_process_is_reported_after_its_last_request_and_before_its_replacement_begins() {
    let files = FilesRead::Chain {
        sizes: Sizes::Fixed { bytes: 40_960 },
        count: Some(8),
        per_lookup: 8,
        spawn: Nanos::from_ms(2),
    };
    let process = Process::Reads { files, passes: Some(1), read_ahead_bytes: Some(65_536) };
    let stream = StreamConfig { process: Some(process), ..StreamConfig::closed(1) };
    let ended = Arc::default();
    let notes = Box::new(Notes { ended: Arc::clone(&ended) });
    let mut engine =
        Engine::new(scheduler(notes), faulty(FaultPlan::default()), First::of(1_000, stream), None);
    let diary = drain(&mut engine).expect("all is served");
    let ended = ended.lock().expect("no test panics with it");
    assert_eq!(ended.len(), 9, "one for each file, and the parent");
    assert_eq!(*ended, diary.ended, "the policy and the observer see the same");
    for (file, (at, stream)) in ended.iter().take(8).enumerate() {
        let own = diary.finished.iter().filter(|finished| finished.request.stream == *stream);
        assert_eq!(own.clone().count(), 2, "windows of 16 and of 24 KiB");
        assert!(own.clone().all(|finished| finished.finished <= *at), "file {file}");
        let later = diary.submitted.iter().filter(|(time, _)| time > at).map(|(time, _)| *time);
        assert!(later.min().is_none_or(|next| next == *at + Nanos::from_ms(2)), "file {file}");
    }
}

#[test]
fn a_policy_that_sends_nothing_stalls_and_is_told_so() {
    let mut engine = Engine::new(
        scheduler(Box::new(Sleeps)),
        faulty(FaultPlan::default()),
        First::of(2, StreamConfig::closed(2)),
        None,
    );
    let stalled = drain(&mut engine).err().expect("nothing was ever sent");
    assert_eq!(stalled, EngineError::Stalled { at: Instant::ORIGIN, held: 2 });
    assert!(stalled.to_string().contains("the policy must send something"), "{stalled}");
}

#[test]
fn clients_ask_again_at_the_very_time_their_request_finished() {
    let mut engine = Engine::new(
        scheduler(fcfs()),
        faulty(FaultPlan::default()),
        First::of(50, StreamConfig::closed(1)),
        None,
    );
    let diary = drain(&mut engine).unwrap();
    let followed = diary.submitted[1..].iter().map(|(at, _)| *at);
    assert!(
        diary
            .finished
            .iter()
            .map(|finished| finished.finished)
            .zip(followed)
            .all(|(finished, submitted)| finished == submitted)
    );
}

#[test]
fn an_open_loop_faster_than_the_drive_ends_with_the_reason() {
    let profile = Arc::new(catalog::load("atlas10k").unwrap());
    let (entry, _) = PolicyEntry::parse("fcfs").unwrap();
    let experiment = Experiment { queue_limit: 100, ..Experiment::new(profile.clone(), entry, 1) };
    let flood = StreamConfig::open(Interarrival::Poisson { per_second: 1_000.0 });
    let source =
        Workload::new(&[flood], profile.sector_size().unwrap(), profile.capacity(), 1).unwrap();
    let belief = |_: &_| Box::new(OraclePositioning::new(&truth()).expect("it is valid")) as Box<_>;
    let error = run(&experiment, source, &belief).unwrap_err();
    assert!(matches!(error, RunError::Engine(EngineError::Refused { .. })));
    assert!(
        error.to_string().contains("requests come faster than the drive can serve them"),
        "{error}"
    );
}
