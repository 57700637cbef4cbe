//! `p2.cpu`: P2, section 5.4. The processor time of scheduling: decisions are counted, and their
//! time is measured on the current machine.
//!
//! The scheduler is run by the engine of the simulation with the thread's own clock around each
//! call, which excludes the simulated drive and the workload. Counts are the same on every machine;
//! rows of measured time have a unit of their own, and are the only figures of all experiments that
//! differ from run to run.

use std::time::Duration;

use headtime_sched::{
    Accounts, Admission, BackgroundRead, Cancelled, Decision, Done, Finished, PendingSectors,
    Policy, QueueLimits, Request, RequestId, ScanId, ScanOptions, Scheduler, StreamId,
};
use headtime_sim::{Device as _, Engine, Meter, SchedulerApi, SimulatedDrive, StepOutcome};
use headtime_units::{Instant, Nanos};
use rustix::time::{ClockId, clock_gettime};
use smallvec::SmallVec;

use super::p2::{self, Asks, Run, TASKS};
use crate::papers::load::UnitOf;
use crate::papers::{
    Axis, Cause, Context, Estimated, ExperimentError, Findings, FixedParameter, Panel,
    PaperExperiment, Plot, Point, PointOfWork, Published, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p2.cpu",
    title: "processor time of scheduling and of filling gaps",
    source: "P2, section 5.4",
    takes: "30 s",
    find,
};

const REQUESTS: u64 = 20_000;
/// The runs: name, policy, whether gaps are filled, and the published share of the processor for
/// all of the system's work.
const LINES: [(&str, &str, bool, f64); 3] = [
    ("C-LOOK", "clook", false, 5.1),
    ("SPTF", "sptf", false, 5.4),
    ("SPTF with gaps filled", "sptf", true, 14.1),
];
/// The published differences, in points of percent: later and earlier line, and the figure in the
/// text. It gives 8 for 14.1 less 5.1.
const MORE: [(usize, usize, f64); 2] = [(1, 0, 0.3), (2, 0, 8.0)];
/// The unit of measured time, which no seed repeats.
const THIS_MACHINE: &str = "% of a processor, this machine, not repeatable";

/// A scheduler with a clock around each call.
struct Clocked {
    scheduler: Scheduler,
    spent: Duration,
    calls: u64,
}

/// One line: a run, whose cost is measured.
struct Costing {
    run: Run,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug)]
struct Cost {
    simulated_seconds: f64,
    spent: Duration,
    calls: u64,
    gaps: u64,
    tracks: u64,
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let known = p2::characterized(context, &[UnitOf::Drawn])?;
    let asks = Asks::Oltp { tasks: TASKS[1] };
    let costs = LINES.map(|(_, policy, fills, _)| {
        let run = Run::outside(&known[0], policy, asks, requests);
        Costing { run: if fills { run.scanning(p2::gaps_only(Nanos::from_us(400))) } else { run } }
    });
    // Sequential: parallel runs would disturb each other.
    let costs: Vec<Cost> = costs
        .iter()
        .map(|costing| context.run(std::slice::from_ref(costing)).map(|costs| costs[0]))
        .collect::<Result<_, _>>()?;
    let what = |text: String| format!("{text} ({})", known[0].words());
    let mut rows = Vec::new();
    for ((name, _, _, published), cost) in LINES.iter().zip(&costs) {
        rows.push(Row::not_judged(
            what(format!("{name}: processor time")),
            Published::Number(*published),
            cost.share(),
            THIS_MACHINE,
            "The published share is of a 550 MHz processor and counts all that the system did for \
                each request; here it is the scheduler alone.",
        ));
    }
    for (later, earlier, published) in MORE {
        let more = costs[later].share().value - costs[earlier].share().value;
        rows.push(Row::not_judged(
            what(format!("{} beyond {}: processor time", LINES[later].0, LINES[earlier].0)),
            Published::Number(published),
            Estimated::new(more, None),
            THIS_MACHINE,
            "Not judged: a processor of today is many times faster than that of 1999.",
        ));
    }
    for ((name, ..), cost) in LINES.iter().zip(&costs) {
        let counted = "Counted, not measured: the same on every machine. Not published.";
        rows.push(Row::unpublished(
            what(format!("{name}: calls of the scheduler")),
            cost.per_second(cost.calls),
            "a second",
            counted,
        ));
        if cost.gaps > 0 {
            rows.push(Row::unpublished(
                what(format!("{name}: gaps searched")),
                cost.per_second(cost.gaps),
                "a second",
                counted,
            ));
            let tracks = Estimated::new(cost.tracks as f64 / cost.gaps as f64, None);
            rows.push(Row::unpublished(
                what(format!("{name}: tracks visited for each gap")),
                tracks,
                "tracks",
                counted,
            ));
        }
    }
    let bars = |name: &str, published, value: fn(usize, &Cost) -> f64| Series {
        name: name.to_string(),
        published,
        points: costs
            .iter()
            .enumerate()
            .map(|(place, cost)| Point::published(place as f64, value(place, cost)))
            .collect(),
    };
    let series = vec![
        bars("whole system, 550 MHz", true, |place, _| LINES[place].3),
        bars("scheduler, this machine (not repeatable)", false, |_, cost| cost.share().value),
    ];
    let mut parameters = p2::parameters(requests);
    parameters.push(FixedParameter::new("foreground", format!("{}; {} tasks", p2::OLTP, TASKS[1])));
    parameters.push(FixedParameter::new(
        "time",
        "processor time of the thread around each call of submit, next, complete and take, one run \
            after the other; simulated time is the whole",
    ));
    let mut notes = p2::notes(&known);
    notes.push(
        "Measured time depends on the machine and on how the program was built; the clock \
        itself adds some tenths of a microsecond to each call: rows in its unit are the only ones \
        that no seed repeats."
            .to_string(),
    );
    let plot = Plot {
        x_label: "C-LOOK, SPTF, SPTF with gaps filled",
        y_label: "processor, %",
        x_axis: Axis::Linear,
        panels: vec![Panel { title: known[0].words(), series }],
    };
    Ok(Findings { rows, parameters, notes, plot })
}

impl Cost {
    /// Of one processor, in percent.
    fn share(&self) -> Estimated {
        Estimated::new(self.spent.as_secs_f64() / self.simulated_seconds * 100.0, None)
    }

    fn per_second(&self, count: u64) -> Estimated {
        Estimated::new(count as f64 / self.simulated_seconds, None)
    }
}

impl PointOfWork for Costing {
    type Outcome = Cost;

    fn label(&self) -> String {
        format!("cost of {}", self.run.label())
    }

    fn work(&self) -> u64 {
        self.run.work()
    }

    fn run(&self, seed: u64) -> Result<Cost, Cause> {
        let experiment = self.run.experiment(seed)?;
        let drive = SimulatedDrive::new(experiment.instance.of(&experiment.profile, seed)?)?;
        let limits = QueueLimits { outstanding: experiment.outstanding, ..QueueLimits::default() };
        let belief = Box::new(self.run.known.belief()?);
        let mut scheduler = Scheduler::new(
            belief,
            (experiment.policy.build)(&experiment.parameters),
            drive.traits(),
            limits,
        );
        if let Some(scan) = &experiment.background {
            scheduler.set_fill(scan.fill);
            // One is enough: no scan ends within so few requests.
            let required = PendingSectors::all(drive.capacity(), scan.grain);
            scheduler.scan_start(Instant::ORIGIN, ScanId(1), required, ScanOptions::default());
        }
        let source = self.run.asks.workload(&experiment.profile, seed)?;
        let mut engine = Engine::new(
            Clocked { scheduler, spent: Duration::ZERO, calls: 0 },
            drive,
            source,
            None,
        );
        let mut meter = Meter::new(0, experiment.requests, experiment.profile.sector_size()?);
        while !meter.full()
            && engine.step(&mut meter).map_err(headtime_sim::RunError::from)?
                == StepOutcome::Stepped
        {}
        let report = engine.scheduler.scheduler.fill_report();
        let simulated_seconds = engine.now().as_secs_f64();
        Ok(Cost {
            simulated_seconds,
            spent: engine.scheduler.spent,
            calls: engine.scheduler.calls,
            gaps: report.gaps,
            tracks: report.tracks,
        })
    }
}

impl Clocked {
    fn clock<T>(&mut self, call: impl FnOnce(&mut Scheduler) -> T) -> T {
        let began = processor_time();
        let answer = call(&mut self.scheduler);
        self.spent += processor_time().saturating_sub(began);
        self.calls += 1;
        answer
    }
}

/// The processor time of this thread alone.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

impl SchedulerApi for Clocked {
    fn submit(&mut self, now: Instant, request: Request) -> Admission {
        self.clock(|scheduler| scheduler.submit(now, request))
    }

    fn next(&mut self, now: Instant) -> Decision {
        self.clock(|scheduler| scheduler.next(now))
    }

    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]> {
        self.clock(|scheduler| scheduler.complete(now, done))
    }

    fn take_background(&mut self) -> Option<BackgroundRead> {
        self.clock(Scheduler::take_background)
    }

    fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled {
        self.clock(|scheduler| scheduler.cancel(now, id))
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.clock(|scheduler| scheduler.stream_ended(now, stream));
    }

    fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.scheduler.set_policy(policy);
    }

    fn accounts(&self) -> &Accounts {
        self.scheduler.accounts()
    }

    fn self_check(&self) {
        self.scheduler.self_check();
    }
}
