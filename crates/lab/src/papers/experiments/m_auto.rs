//! `m.auto`: the policy `auto` against the best fixed policy of each phase.
//!
//! The regret of a phase is 1 − score of `auto` ÷ the best score of a fixed policy, from 5 s after
//! the start of the phase on. The score is the harmonic mean of the progress of the streams: of the
//! rate of each over its rate alone on the drive. Under `auto` the phases of a sequence follow each
//! other, and so they do under each fixed policy.

use std::sync::Arc;

use headtime_mechanics::{NoiseLevel, catalog};
use headtime_sched::{AutoTable, DEFAULT_POLICY};
use headtime_units::Nanos;
use headtime_workload::{FilesRead, Process, StreamConfig};
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::{p3, p3_t4};
use crate::papers::report::Point as PlotPoint;
use crate::papers::{
    Axis, Cause, Context, Estimated, ExperimentError, Findings, FixedParameter, Judged, Measured,
    PaperExperiment, Plot, PointOfWork, Row, Series,
};
use crate::tune::{Bench, BenchRun, POLICIES, PhasePlan, SETTLING, load, loads, progress, table};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "m.auto",
    title: "the policy chosen at run time against the best fixed one in each phase",
    source: "P3, section 6 (future work); ours",
    takes: "10 min",
    find,
};

/// The length of a phase of the paper's workloads, and of a random one; shorter below a tenth of
/// the full scale.
const PHASE: Nanos = Nanos::from_secs(30);
const RANDOM_PHASE: Nanos = Nanos::from_secs(20);
const SHORTER_BELOW: f64 = 0.1;
/// Phases of a random sequence.
const RANDOM_PHASES: usize = 4;
/// Random sequences at full scale.
const SEQUENCES: u64 = 50;
/// Added to the seed for the drives of the table, which are others than those of the sequences.
const TABLE_SEED: u64 = 1_000;
/// The regret that is allowed.
const ALLOWED: f64 = 0.05;
const TARGET: &str = "the project's target";
/// The drive of the random mixes, which is that of the table that ships.
const DRIVE: &str = "nearline-20tb";

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let paper = bench(p3::DRIVE)?;
    let tuned = {
        let bench = Bench { seed: context.seed() + TABLE_SEED, ..paper.clone() };
        let context = context.with_seed(bench.seed);
        Arc::new(table(&context, &bench, &loads(), &POLICIES, scaled(&context, PHASE))?)
    };
    let mut findings = Findings::new(
        parameters(context),
        [SCORE, TABLES].map(str::to_string).into(),
        Plot::new("phase of the paper's workloads", "score over the best fixed one", Axis::Linear),
    );
    let phases = paper_phases(scaled(context, PHASE));
    let sequences: Vec<Sequence> = (0..p3::REPLICAS)
        .map(|replica| Sequence {
            bench: Bench { seed: context.seed() + replica, ..paper.clone() },
            phases: phases.iter().map(|(_, phase)| phase.clone()).collect(),
        })
        .collect();
    let results = run_all(context, &sequences, Some(&tuned))?;
    for (place, (name, _)) in phases.iter().enumerate() {
        let regrets: Vec<f64> = results.iter().map(|result| result.regret(place, AUTO)).collect();
        findings.rows.push(regret_row(name, &regrets));
        let best: Vec<&str> = results.iter().map(|result| result.best(place)).collect();
        findings.notes.push(format!("Best fixed policies of {name}: {}.", best.join(", ")));
    }
    overall(&mut findings, "the paper's workloads", &results);
    let series = [AUTO, DEFAULT_POLICY].map(|policy| {
        let point = |place: usize| {
            let values: Vec<f64> =
                results.iter().map(|result| 1.0 - result.regret(place, policy)).collect();
            PlotPoint::of(place as f64, Estimated::of_runs(&values))
        };
        Series::measured(policy, (0..phases.len()).map(point).collect())
    });
    findings.add_panel(p3::DRIVE.to_string(), series.into());

    let (nearline, length) = (bench(DRIVE)?, scaled(context, RANDOM_PHASE));
    let count = ((SEQUENCES as f64 * context.scale()) as u64).clamp(2, SEQUENCES);
    let sequences: Vec<Sequence> = (0..count)
        .map(|number| {
            let seed = context.seed() + number;
            let mut dice = ChaCha8Rng::seed_from_u64(seed);
            let phases = (0..RANDOM_PHASES).map(|_| random_phase(&mut dice, length)).collect();
            Sequence { bench: Bench { seed, ..nearline.clone() }, phases }
        })
        .collect();
    let results = run_all(context, &sequences, None)?;
    let regrets: Vec<f64> = results
        .iter()
        .map(|result| {
            let sum: f64 = (0..RANDOM_PHASES).map(|place| result.regret(place, AUTO)).sum();
            sum / RANDOM_PHASES as f64
        })
        .collect();
    findings.rows.push(regret_row(&format!("random mixes, {count} sequences, mean"), &regrets));
    let every: Vec<f64> = results
        .iter()
        .flat_map(|result| (0..RANDOM_PHASES).map(|place| result.regret(place, AUTO)))
        .collect();
    let within = every.iter().filter(|regret| **regret <= ALLOWED).count();
    findings.rows.push(Row::unpublished(
        "random mixes: share of the phases with a regret of at most 5 % (simulated drives with \
            noise)",
        Measured::proportion(within as u64, every.len() as u64),
        "of phases",
        "a phase has one run.",
    ));
    findings.rows.push(Row::unpublished(
        "random mixes: largest regret of a phase (simulated drives with noise)",
        context.maximum(every.iter().copied().fold(0.0, f64::max)),
        "regret",
        "a phase has one run.",
    ));
    overall(&mut findings, "random mixes", &results);
    Ok(findings)
}

/// The fixed policies, then `auto`.
const AUTO: &str = "auto";

fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.into_iter().chain([AUTO])
}

/// Phases on a drive.
struct Sequence {
    bench: Bench,
    phases: Vec<PhasePlan>,
}

/// The scores of each policy in each phase of a sequence, in the order of [`names`].
struct Scores {
    by_policy: Vec<Vec<f64>>,
    switches: usize,
}

impl Scores {
    fn of(&self, policy: &str) -> &[f64] {
        let place = names().position(|name| name == policy);
        place.map_or(&[], |place| &self.by_policy[place])
    }

    fn best(&self, phase: usize) -> &'static str {
        let score = |name: &&str| self.of(name)[phase];
        let best = POLICIES.into_iter().max_by(|a, b| score(a).total_cmp(&score(b)));
        best.unwrap_or(DEFAULT_POLICY)
    }

    fn regret(&self, phase: usize, policy: &str) -> f64 {
        1.0 - self.of(policy)[phase] / self.of(self.best(phase))[phase].max(f64::MIN_POSITIVE)
    }
}

/// One run: all phases under a policy, or one stream of a phase alone.
struct Point<'a> {
    bench: &'a Bench,
    phases: Vec<PhasePlan>,
    policy: &'static str,
    table: Option<&'a Arc<AutoTable>>,
}

impl PointOfWork for Point<'_> {
    type Outcome = BenchRun;

    fn label(&self) -> String {
        format!("{}, seed {}: {}", self.bench.profile.name, self.bench.seed, self.policy)
    }

    fn work(&self) -> u64 {
        self.phases.len() as u64
    }

    fn run(&self, _seed: u64) -> Result<BenchRun, Cause> {
        self.bench.run(self.policy, self.table, &self.phases)
    }
}

/// Runs every sequence under every policy, and every stream of its phases alone.
fn run_all(
    context: &Context<'_>,
    sequences: &[Sequence],
    table: Option<&Arc<AutoTable>>,
) -> Result<Vec<Scores>, ExperimentError> {
    let mut points = Vec::new();
    for Sequence { bench, phases } in sequences {
        points.extend(names().map(|policy| Point { bench, phases: phases.clone(), policy, table }));
        for phase in phases {
            points.extend((0..phase.streams()).map(|stream| Point {
                bench,
                phases: vec![phase.clone().only(stream)],
                policy: DEFAULT_POLICY,
                table: None,
            }));
        }
    }
    let mut runs = context.run(&points)?.into_iter();
    let mut scores = Vec::new();
    for Sequence { phases, .. } in sequences {
        let courses: Vec<BenchRun> = runs.by_ref().take(names().count()).collect();
        let alone: Vec<Vec<f64>> = phases
            .iter()
            .map(|phase| {
                let rates = |run: BenchRun| run.phases.iter().flat_map(|run| &run.rates).sum();
                runs.by_ref().take(phase.streams()).map(rates).collect()
            })
            .collect();
        let score = |run: &BenchRun| {
            run.phases.iter().zip(&alone).map(|(run, alone)| progress(run, alone)).collect()
        };
        scores.push(Scores {
            by_policy: courses.iter().map(score).collect(),
            switches: courses.last().map_or(0, |run| run.switches.len()),
        });
    }
    Ok(scores)
}

fn regret_row(name: &str, regrets: &[f64]) -> Row {
    Row::new(
        format!("auto: regret in {name} (simulated drives with noise)"),
        "regret",
        Judged::at_most(ALLOWED, Estimated::of_runs(regrets), TARGET).target(),
        "the nearest measured loads have another best policy.",
    )
}

/// The scores over all phases: against the second best fixed policy, and of the default one.
fn overall(findings: &mut Findings, what: &str, results: &[Scores]) {
    // Each phase counts alike: by its score over the best one.
    let mean_of = |result: &Scores, policy: &str| {
        let phases = result.of(policy).len();
        let sum: f64 = (0..phases).map(|phase| 1.0 - result.regret(phase, policy)).sum();
        sum / phases as f64
    };
    let means = |policy: &str| -> Vec<f64> {
        results.iter().map(|result| mean_of(result, policy)).collect()
    };
    let mut fixed: Vec<(&str, Estimated)> =
        POLICIES.into_iter().map(|policy| (policy, Estimated::of_runs(&means(policy)))).collect();
    fixed.sort_by(|(_, one), (_, other)| other.value.total_cmp(&one.value));
    let second = fixed[1].0;
    let gains: Vec<f64> =
        means(AUTO).iter().zip(means(second)).map(|(one, two)| one - two).collect();
    findings.rows.push(Row::new(
        format!(
            "auto: mean score of {what} less that of {second}, the second best fixed policy \
                (simulated drives with noise)"
        ),
        "of the best",
        Judged::at_least(0.0, Estimated::of_runs(&gains), TARGET).target(),
        "one fixed policy or two are better over all phases.",
    ));
    for (name, value) in [(AUTO, Estimated::of_runs(&means(AUTO)))].into_iter().chain(fixed) {
        findings.rows.push(Row::unpublished(
            format!("{name}: mean score of {what} (simulated drives with noise)"),
            value,
            "of the best",
            "for orientation.",
        ));
    }
    let switches: Vec<f64> = results.iter().map(|result| result.switches as f64).collect();
    findings.rows.push(Row::unpublished(
        format!("auto: switches in a sequence of {what} (simulated drives with noise)"),
        Estimated::of_runs(&switches),
        "switches",
        "for orientation.",
    ));
}

fn bench(drive: &str) -> Result<Bench, ExperimentError> {
    let profile = catalog::load(drive).map_err(|error| ExperimentError::new(drive, error))?;
    Ok(Bench { profile: Arc::new(profile), noise: NoiseLevel::Typical, seed: 0 })
}

/// The workloads of P3's tables, which do not end.
fn paper_phases(length: Nanos) -> Vec<(&'static str, PhasePlan)> {
    let chain = |tree| {
        let mut stream = p3::find_cat(tree, p3::TREE_FILES);
        if let Some(Process::Reads { files: FilesRead::Chain { .. }, passes, .. }) =
            &mut stream.process
        {
            *passes = None;
        }
        stream
    };
    let mut phases: Vec<(&str, Vec<StreamConfig>)> = vec![
        ("P3.T1, reader beside writer", vec![p3::cat(None), p3::dd()]),
        ("P3.T2, chain beside stream", vec![chain(0), p3::cat(None)]),
        ("P3.T3, one chain", vec![chain(0)]),
        ("P3.T3, two chains", vec![chain(0), chain(1)]),
    ];
    phases.extend(p3_t4::benchmarks(FILES_SHARE).map(|(name, stream)| (name, vec![stream])));
    phases
        .into_iter()
        .map(|(name, streams)| (name, PhasePlan::of_streams(streams, length)))
        .collect()
}

/// The share of P3.T4's files and memory, so that a phase reaches a steady state.
const FILES_SHARE: f64 = 0.05;

/// The length of a phase at the scale of the run.
fn scaled(context: &Context<'_>, full: Nanos) -> Nanos {
    let share = (context.scale() / SHORTER_BELOW).min(1.0);
    Nanos::from_ms((full.as_ms_f64() * share) as u64)
}

/// One to three streams of random kinds.
fn random_phase(dice: &mut ChaCha8Rng, length: Nanos) -> PhasePlan {
    let streams: Vec<String> = (0..dice.random_range(1..=3)).map(|_| random_stream(dice)).collect();
    PhasePlan::new(&load("a random mix", &streams.join("; ")).file, length)
}

fn random_stream(dice: &mut ChaCha8Rng) -> String {
    let kib = 1_u32 << dice.random_range(2..=10);
    let clients = 1_u32 << dice.random_range(0..=5);
    let reads = [1.0, 1.0, 0.7, 0.5, 0.0][dice.random_range(0..5)];
    let first = dice.random_range(0..80);
    let range = format!("range='{first}%..{}%'", first + 20);
    match dice.random_range(0..5) {
        0 | 1 => format!("clients={clients}, size='{}KiB', reads={reads:?}, {range}", kib.min(256)),
        2 => format!(
            "clients={}, size='{kib}KiB', reads={:?}, run='sequential', {range}",
            clients.min(8),
            if reads < 0.5 { 0.0 } else { 1.0 }
        ),
        3 => format!(
            "clients={}, size='{}KiB', positions=1, run='sequential', {range}",
            clients.min(8),
            kib.max(64)
        ),
        _ => format!(
            "clients={}, process={{kind='chain', file='{}KiB'}}, think='20us', {range}",
            clients.min(2),
            kib.clamp(8, 64)
        ),
    }
}

fn parameters(context: &Context<'_>) -> Vec<FixedParameter> {
    vec![
        FixedParameter::new(
            "phases",
            format!(
                "{} s each of the paper's workloads on {}, {} drives; {} s each of random mixes on \
                    {DRIVE}; the first {} s of each are not measured",
                scaled(context, PHASE).as_secs_f64(),
                p3::DRIVE,
                p3::REPLICAS,
                scaled(context, RANDOM_PHASE).as_secs_f64(),
                SETTLING.as_secs_f64()
            ),
        ),
        FixedParameter::new(
            "table",
            format!(
                "paper's workloads: measured on {} with seed {}; random mixes: the table that \
                    ships",
                p3::DRIVE,
                context.seed() + TABLE_SEED
            ),
        ),
        FixedParameter::new("fixed policies", POLICIES.join(", ")),
    ]
}

const SCORE: &str = "The score of a phase is the harmonic mean of the progress of its streams, in \
    bytes: of the rate of each over its rate alone on the drive under the default policy. The \
    published figures are times of fixed amounts of work.";
const TABLES: &str = "The loads of the tables are a grid; none of the loads here is among them.";
