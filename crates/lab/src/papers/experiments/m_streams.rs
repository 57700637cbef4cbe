//! `m.streams`: the default policy beside the best other policy, for sequential readers and for the
//! workloads that ship. Nothing is published: the rows are targets of the project.
//!
//! Runs, progress and equal load are those of `headtime compare` (docs/compare.md). A target that
//! compares with "the best other" takes the policy that is best in that very case, another one in
//! each.

use core::ops::Range;

use headtime_console::Failure;
use headtime_sched::{DEFAULT_POLICY, POLICIES};
use headtime_workload::BUILTINS;

use crate::compare::{
    CaseResult, Cell, CellOutcome, CellResult, CompareSpec, Comparison, Entry, Located, Plan,
    PlannedWorkload, cells_at_equal_load,
};
use crate::papers::{
    Axis, Cause, Context, Estimated, ExperimentError, Findings, FixedParameter, Judged, Measured,
    Panel, PaperExperiment, Plot, Point, PointOfWork, Row, Series,
};
use crate::workloads::WorkloadChoice;
use headtime_console::stop::Stop;

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "m.streams",
    title: "the default policy beside the best other one, by progress of streams",
    source: "targets of the project",
    takes: "3 h",
    find,
};

const DRIVES: [&str; 3] = ["nearline-20tb", "atlas10k", "deskstar34gxp"];
const READERS: [usize; 4] = [1, 2, 4, 16];
const SIZES: [&str; 4] = ["4KiB", "64KiB", "128KiB", "1MiB"];
const DEPTHS: [u32; 2] = [1, 8];
const THINK_MS: [u32; 3] = [1, 3, 10];
/// Clients of closed loops that do not set their number.
const DEPTH: u64 = 16;
const REPLICAS: u64 = 3;
/// Requests of a run at full scale, and the fewest.
const REQUESTS: u64 = 20_000;
const FEWEST: u64 = 500;
/// Simulated seconds of a run of sequential streams at full scale, and the fewest: some rounds of
/// turns. A number of requests would end a run of small ones within one turn.
const SECONDS: f64 = 20.0;
const FEWEST_SECONDS: f64 = 4.0;
/// Below this scale only a part of the loads run.
const ALL_LOADS: f64 = 0.05;
/// The workloads that are compared with the drive's own queue by requests and tails.
const BESIDE_OWN_QUEUE: [&str; 4] = ["oltp", "file-server", "mail-server", "vm-mix"];
/// Policies that are not fixed.
const CHANGING: [&str; 1] = ["auto"];
const RESERVED: f64 = 0.8;
const QUARTERS: f64 = 0.75;

/// A load, and which targets it has.
struct Load {
    kind: Kind,
    workload: PlannedWorkload,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// So many sequential readers.
    Readers(usize),
    /// One sequential writer.
    Writer,
    /// A workload that ships.
    Shipped,
    /// A client with a reservation and think time beside a greedy one.
    Thinking,
    /// Two volumes with reservations of 75 and 25 %.
    Quarters,
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let (sequential, others): (Vec<Load>, Vec<Load>) = loads(context.scale())?
        .into_iter()
        .partition(|load| matches!(load.kind, Kind::Readers(_) | Kind::Writer));
    let seconds = (SECONDS * context.scale()).max(FEWEST_SECONDS);
    let requests = context.requests(REQUESTS).max(FEWEST);
    let words = |words: Vec<&str>| -> Vec<Located<String>> {
        words.into_iter().map(|word| Located::new(word.to_string(), "m.streams")).collect()
    };
    let fixed = POLICIES.iter().filter(|entry| !entry.oracle && !CHANGING.contains(&entry.name));
    let spec = CompareSpec {
        policies: words(fixed.map(|entry| entry.name).collect()),
        drives: words(DRIVES.to_vec()),
        depths: vec![Located::new(DEPTH, "m.streams")],
        seed: Located::new(context.seed(), "m.streams"),
        replicas: Located::new(REPLICAS, "m.streams"),
        requests: Located::new(requests, "m.streams"),
        ..CompareSpec::default()
    };
    let timed = CompareSpec { seconds: Some(Located::new(seconds, "m.streams")), ..spec.clone() };
    let [others, sequential] = [(spec, others), (timed, sequential)].map(|(spec, loads)| {
        let kinds: Vec<Kind> = loads.iter().map(|load| load.kind).collect();
        let workloads = loads.into_iter().map(|load| load.workload).collect();
        let plan = Plan::of(spec, workloads).map_err(fault)?;
        Ok::<_, ExperimentError>((compare(context, plan)?, kinds))
    });
    let (others, sequential) = (others?, sequential?);
    let mut findings = Findings::new(
        vec![
            FixedParameter::new("drives", format!("{}, noise typical", DRIVES.join(", "))),
            FixedParameter::new(
                "runs",
                format!("{requests} requests, {seconds} s of sequential streams, {REPLICAS} seeds"),
            ),
        ],
        NOTES.iter().map(ToString::to_string).collect(),
        Plot::new("sequential readers", "harmonic mean of progress", Axis::PowersOfTwo),
    );
    if context.scale() < ALL_LOADS {
        findings.notes.push(format!("At this scale one load of {} runs.", every(context.scale())));
    }
    for (comparison, kinds) in [&others, &sequential] {
        for case in &comparison.cases {
            let found = Found { comparison, case, kind: kinds[case.case.workload] };
            findings.rows.extend(found.rows());
        }
    }
    findings.plot.panels = DRIVES
        .iter()
        .enumerate()
        .map(|(drive, name)| Panel {
            title: (*name).to_string(),
            series: series(&sequential.0, &sequential.1, drive),
        })
        .collect();
    Ok(findings)
}

/// One of so many loads runs at this scale.
fn every(scale: f64) -> usize {
    (ALL_LOADS / scale).ceil().max(1.0) as usize
}

/// Runs the plan as `headtime compare` does.
fn compare(context: &Context<'_>, plan: Plan) -> Result<Comparison, ExperimentError> {
    let stop = Stop::default();
    let run = |cells: Vec<Cell>| -> Result<Vec<(Cell, CellResult)>, ExperimentError> {
        let points: Vec<Run<'_>> =
            cells.iter().map(|cell| Run { plan: &plan, cell, stop: &stop }).collect();
        let outcomes = context.run(&points)?;
        Ok(cells.into_iter().zip(outcomes.into_iter().map(Ok)).collect())
    };
    let mut results = run(Cell::all(&plan))?;
    results.extend(run(cells_at_equal_load(&plan, &results))?);
    Ok(Comparison::new(plan, results))
}

struct Run<'a> {
    plan: &'a Plan,
    cell: &'a Cell,
    stop: &'a Stop,
}

impl PointOfWork for Run<'_> {
    type Outcome = CellOutcome;

    fn label(&self) -> String {
        self.cell.name(self.plan)
    }

    fn work(&self) -> u64 {
        self.cell.work(self.plan)
    }

    fn run(&self, _seed: u64) -> Result<CellOutcome, Cause> {
        let outcome = self.cell.run(self.plan, self.stop, &|_| {});
        let outcome = outcome.map_err(|error| Cause::Comparison(format!("{error:#}")))?;
        outcome.ok_or_else(|| Cause::Comparison("it was stopped".to_string()))
    }
}

fn fault(failure: Failure) -> ExperimentError {
    ExperimentError::new("the plan", Cause::Comparison(failure.message()))
}

/// All loads, or a part of them at a small scale.
fn loads(scale: f64) -> Result<Vec<Load>, ExperimentError> {
    let mut loads = Vec::new();
    let mut add = |kind, name: &str, choice: Result<WorkloadChoice, Failure>| {
        let choice = choice.map_err(fault)?;
        loads.push(Load { kind, workload: PlannedWorkload { name: name.to_string(), choice } });
        Ok::<(), ExperimentError>(())
    };
    for builtin in BUILTINS {
        add(Kind::Shipped, builtin.name, WorkloadChoice::parse(builtin.name))?;
    }
    for think in THINK_MS {
        let text = format!(
            "[[stream]]\nname = \"thinking\"\nclients = 1\nthink = \"{think}ms\"\nreserve = \
                {RESERVED}\n[[stream]]\nname = \"greedy\"\nclients = 16\n"
        );
        let name = format!("a reserved client that thinks {think} ms beside a greedy one");
        add(Kind::Thinking, &name, WorkloadChoice::of_text(&name, &text))?;
    }
    let text = format!(
        "[[stream]]\nname = \"large\"\nclients = 8\nreserve = {QUARTERS}\n[[stream]]\nname = \
            \"small\"\nclients = 8\nreserve = {}\n",
        1.0 - QUARTERS
    );
    let name = "two volumes with 75 and 25 % reserved";
    add(Kind::Quarters, name, WorkloadChoice::of_text(name, &text))?;
    for size in SIZES {
        for depth in DEPTHS {
            let stream = |name: String, reads: f64, range: Range<f64>| {
                let Range { start, end } = range;
                format!(
                    "[[stream]]\nname = \"{name}\"\nclients = {depth}\nsize = \"{size}\"\nreads = \
                        {reads:?}\nrange = \"{start}%..{end}%\"\npositions = 1\nrun = \
                        \"sequential\"\n"
                )
            };
            for readers in READERS {
                let part = 100.0 / readers as f64;
                let text: String = (0..readers)
                    .map(|reader| {
                        let start = part * reader as f64;
                        stream(format!("reader-{}", reader + 1), 1.0, start..start + part)
                    })
                    .collect();
                let plural = if readers == 1 { "" } else { "s" };
                let name = format!("{readers} reader{plural} of {size} at depth {depth}");
                add(Kind::Readers(readers), &name, WorkloadChoice::of_text(&name, &text))?;
            }
            let name = format!("1 writer of {size} at depth {depth}");
            let text = stream("writer".to_string(), 0.0, 0.0..100.0);
            add(Kind::Writer, &name, WorkloadChoice::of_text(&name, &text))?;
        }
    }
    Ok(loads.into_iter().step_by(every(scale)).collect())
}

/// The results of one case.
struct Found<'a> {
    comparison: &'a Comparison,
    case: &'a CaseResult,
    kind: Kind,
}

type Figure = fn(&CellOutcome) -> Option<f64>;

const HARMONIC: Figure = |outcome| outcome.total.progress_harmonic_mean;
const SUM: Figure = |outcome| outcome.total.progress_sum;
const TAIL: Figure =
    |outcome| outcome.total.equal_load.map(|equal_load| equal_load.response_ms_p99);
const RATE: Figure = |outcome| Some(outcome.total.iops);
const OWN_TAIL: Figure = |outcome| Some(outcome.total.response_ms.p99);

impl<'a> Found<'a> {
    fn name(&self, entry: &Entry) -> &'a str {
        &self.comparison.plan.policies[entry.policy].policy
    }

    fn entry(&self, name: &str) -> &'a Entry {
        let found = self.case.entries.iter().find(|entry| self.name(entry) == name);
        found.expect("the policy is in the plan")
    }

    fn own(&self) -> &'a Entry {
        self.entry(DEFAULT_POLICY)
    }

    /// The other policy with the best mean of a figure among those that pass `eligible`.
    fn best(
        &self,
        more: bool,
        figure: Figure,
        eligible: impl Fn(&Entry) -> bool,
    ) -> Option<(&'a str, Vec<f64>)> {
        let others = self.case.entries.iter().filter(|entry| self.name(entry) != DEFAULT_POLICY);
        let known = others
            .filter(|entry| eligible(entry))
            .filter_map(|entry| Some((self.name(entry), values(entry, figure)?)));
        let better = |one: f64, other: f64| if more { one > other } else { one < other };
        known.reduce(|one, next| if better(mean(&next.1), mean(&one.1)) { next } else { one })
    }

    fn row(&self, what: &str, unit: &'static str, judged: Judged) -> Row {
        let plan = &self.comparison.plan;
        let drive = &plan.drives[self.case.case.drive].text;
        let workload = &plan.workloads[self.case.case.workload].name;
        let what = format!("{drive}, {workload}: {what} (simulated drives with noise)");
        Row::new(what, unit, judged.target(), MISS)
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        match self.kind {
            Kind::Thinking => return self.thinking().into_iter().collect(),
            Kind::Quarters => return self.quarters(),
            Kind::Readers(1) | Kind::Writer => rows.extend(self.alone()),
            Kind::Readers(readers) => {
                rows.extend(self.by_progress());
                rows.extend(self.sequential(readers).into_iter().flatten());
            }
            Kind::Shipped => rows.extend(self.by_progress()),
        }
        rows.extend(self.at_equal_load());
        let workload = &self.comparison.plan.workloads[self.case.case.workload].name;
        if BESIDE_OWN_QUEUE.contains(&workload.as_str()) {
            rows.extend(self.beside_own_queue());
        }
        rows
    }

    fn streams(&self) -> usize {
        let outcome = self.own().replicas.iter().flatten().next();
        outcome.map_or(0, |outcome| outcome.streams.len())
    }

    /// Harmonic mean and sum of progress beside the best other policy.
    fn by_progress(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let streams = self.streams();
        if let Some((best, others)) = self.best(true, HARMONIC, |_| true) {
            let judged = |measured| Judged::at_least(1.0, measured, "the best other policy");
            let what = format!("harmonic mean of progress ÷ best other ({best})");
            rows.extend(self.ratio(HARMONIC, &others).map(|it| self.row(&what, "×", judged(it))));
        }
        if streams < 2 {
            return rows;
        }
        let fair = |entry: &Entry| {
            let mut slowest = entry.replicas.iter().flatten().flat_map(|outcome| {
                outcome.streams.iter().filter_map(|stream| stream.figures.progress)
            });
            slowest.all(|progress| progress >= 0.5 / streams as f64)
        };
        if let Some((best, others)) = self.best(true, SUM, fair) {
            let judged = |measured| {
                Judged::at_least(0.97, measured, "the best policy that starves no stream")
            };
            let what = format!("sum of progress ÷ best other that starves none ({best})");
            rows.extend(self.ratio(SUM, &others).map(|it| self.row(&what, "×", judged(it))));
        }
        rows
    }

    fn ratio(&self, figure: Figure, others: &[f64]) -> Option<Estimated> {
        let own = values(self.own(), figure)?;
        let ratios: Vec<f64> = own.iter().zip(others).map(|(own, other)| own / other).collect();
        ratios.iter().all(|ratio| ratio.is_finite()).then(|| Estimated::of_runs(&ratios))
    }

    fn at_equal_load(&self) -> Option<Row> {
        let overloaded = |outcome: &&CellOutcome| {
            outcome.equal_load_status.is_some() && outcome.total.equal_load.is_none()
        };
        let count = self.own().replicas.iter().flatten().filter(overloaded).count();
        if count > 0 {
            let judged = Judged::at_most(0.0, Measured::exact(count as f64), "it keeps up");
            return Some(self.row("overloaded runs at equal load", "runs", judged));
        }
        let (best, others) = self.best(false, TAIL, |_| true)?;
        let judged = |measured| Judged::at_most(1.0, measured, "the best other policy");
        let what = format!("99th percentile at equal load ÷ best other ({best})");
        Some(self.row(&what, "×", judged(self.ratio(TAIL, &others)?)))
    }

    /// One sequential stream beside the bare drive, and its 99th percentile no more than others'.
    fn alone(&self) -> Option<Row> {
        let progress = Estimated::of_runs(&values(self.own(), HARMONIC)?);
        let judged = Judged::at_least(0.99, progress, "the bare drive");
        Some(self.row("rate ÷ rate of the bare drive", "×", judged))
    }

    fn sequential(&self, readers: usize) -> Option<[Row; 2]> {
        let least = if readers <= 4 { 0.9 } else { 0.8 };
        let sum = Estimated::of_runs(&values(self.own(), SUM)?);
        let judged = Judged::at_least(least, sum, "of the rate of one reader of the bare drive");
        let longest = values(self.own(), |outcome| {
            Some(outcome.streams.iter().map(|of| of.figures.response_ms.max).fold(0.0, f64::max))
        })?;
        let longest = longest.into_iter().fold(0.0, f64::max);
        Some([
            self.row("sum of the readers' progress", "×", judged),
            self.row(
                "longest response of any reader",
                "ms",
                Judged::at_most(1e3, Measured::exact(longest), "none is without progress for 1 s"),
            ),
        ])
    }

    fn beside_own_queue(&self) -> Vec<Row> {
        let drive = self.entry("firmware");
        let judge = |figure: Figure| self.ratio(figure, &values(drive, figure)?);
        let rate = judge(RATE).map(|measured| {
            let judged = Judged::at_least(1.0, measured, "the drive's own queue");
            self.row("requests ÷ drive's own queue", "×", judged)
        });
        let tail = judge(OWN_TAIL).map(|measured| {
            let judged = Judged::at_most(1.0, measured, "the drive's own queue");
            self.row("99th percentile ÷ drive's own queue", "×", judged)
        });
        rate.into_iter().chain(tail).collect()
    }

    /// The thinking client's part of what it gets alone or of its reservation, whichever is less.
    fn thinking(&self) -> Option<Row> {
        let part = values(self.own(), |outcome| {
            let figures = &outcome.streams.first()?.figures;
            Some(figures.progress?.max(figures.disk_time_share? / RESERVED))
        })?;
        let judged = Judged::at_least(0.95, Estimated::of_runs(&part), "think time costs nothing");
        Some(self.row("rate ÷ rate alone, or disk time ÷ reservation", "×", judged))
    }

    fn quarters(&self) -> Vec<Row> {
        let rate = values(self.entry("bfq"), RATE).and_then(|bfq| self.ratio(RATE, &bfq));
        let rate = rate.map(|measured| {
            let judged = Judged::at_least(1.0, measured, "BFQ with the same weights");
            self.row("requests ÷ those of bfq", "×", judged)
        });
        let off = values(self.own(), |outcome| {
            let share = |stream: usize| outcome.streams.get(stream)?.figures.disk_time_share;
            let (large, small) = (share(0)?, share(1)?);
            Some((large / (large + small) - QUARTERS).abs() * 100.0)
        });
        let off = off.map(|off| {
            let judged = Judged::at_most(1.0, Estimated::of_runs(&off), "one point");
            self.row("error of disk time", "points", judged)
        });
        rate.into_iter().chain(off).collect()
    }
}

/// The figure of each seed; nothing if one has none.
fn values(entry: &Entry, figure: Figure) -> Option<Vec<f64>> {
    entry.replicas.iter().map(|replica| figure(replica.as_ref().ok()?)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The harmonic mean of progress by number of readers, the mean over sizes and depths, and that of
/// the best other policy in each case.
fn series(comparison: &Comparison, kinds: &[Kind], drive: usize) -> Vec<Series> {
    let (mut own, mut best) = (Vec::new(), Vec::new());
    for readers in READERS {
        let cases = comparison.cases.iter().filter(|case| {
            case.case.drive == drive && kinds[case.case.workload] == Kind::Readers(readers)
        });
        let found = |case| Found { comparison, case, kind: Kind::Readers(readers) };
        let pairs: Vec<(f64, f64)> = cases
            .filter_map(|case| {
                let (_, best) = found(case).best(true, HARMONIC, |_| true)?;
                Some((mean(&values(found(case).own(), HARMONIC)?), mean(&best)))
            })
            .collect();
        if !pairs.is_empty() {
            let (mine, others): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let point = |y: &[f64]| Point::of(readers as f64, Estimated::new(mean(y), None));
            own.push(point(&mine));
            best.push(point(&others));
        }
    }
    vec![Series::measured(DEFAULT_POLICY, own), Series::measured("best other", best)]
}

const MISS: &str = "another policy does better here.";
const NOTES: [&str; 3] = [
    "Progress of a stream is its rate ÷ its rate alone in the drive's own queue with the same \
        seed. The best other policy is that of the case; oracles and policies that change at run \
        time are left out.",
    "The sum is compared with the best policy whose slowest stream has at least half of an even \
        part in every run.",
    "Sequential readers are compared with the rate of the bare drive for the same requests and not \
        with the media rate, which small requests do not reach on a bare drive. A reader without \
        completions for 1 s has a response of at least 1 s.",
];
