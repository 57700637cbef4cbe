//! `headtime sim`: one drive, one policy, one workload, in virtual time.

mod answer;
mod load;
mod model;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use headtime_io::ModelSource;
use headtime_mechanics::{DriveProfile, NoiseLevel};
use headtime_sched::{Parameters, PolicyEntry};
use headtime_sim::{EngineObserver, Experiment, Instance, Measures, RunError, run_with_belief};
use headtime_units::{ByteSize, Nanos, parse_bytes, parse_nanos};
use serde::Serialize;

use crate::drives::SimDrive;
use crate::traces::{ReplayArguments, TraceArguments};
use crate::workloads::DEFAULT_DEPTH;
use headtime_console::Failure;
use headtime_console::arguments::noise_level;
use headtime_console::output::{print, print_json};

pub use answer::{ClassAnswer, SimOutput, SimParameters, StreamAnswer};
use load::Load;

/// SimArguments of `headtime sim`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SimArguments {
    /// Drive: a profile's name, NAME@SETUP, the path of a profile file, or an array of several as
    /// in array:stripe=128KiB,4*NAME
    #[arg(long, value_name = "PROFILE", default_value = "nearline-20tb")]
    pub drive: String,
    /// Policy, with parameters as NAME:parameter=value,…; see `headtime policies`
    #[arg(
        long,
        value_name = "NAME",
        default_value_t = PolicyArgument::default(),
        value_parser = policy
    )]
    pub policy: PolicyArgument,
    /// Workload: a built-in one, a FILE.toml, a fio job FILE.fio or a trace; see `headtime workload
    /// list`
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = OF_ONE_STREAM)]
    pub workload: Option<String>,
    /// With --workload: clients of closed loops that do not set it [default: 16]
    #[arg(
        long,
        value_name = "N",
        requires = "workload",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub depth: Option<u32>,
    /// Files of one trace, `-` for standard input; see `headtime trace`
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        conflicts_with = "workload",
        conflicts_with_all = OF_ONE_STREAM_BUT_DEADLINE
    )]
    pub trace: Vec<PathBuf>,
    /// Closed loop: number of clients with one request each, which is the queue depth
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub clients: u32,
    /// Closed loop: time between a completion and the client's next request
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_nanos)]
    pub think: Nanos,
    /// Open loop: requests per second, instead of clients
    #[arg(
        long,
        value_name = "PER_SECOND",
        conflicts_with_all = ["clients", "think"],
        value_parser = rate
    )]
    pub rate: Option<f64>,
    /// Open loop: distribution of the intervals between requests
    #[arg(long, value_enum, default_value_t = Pacing::Poisson, requires = "rate")]
    pub pacing: Pacing,
    /// Tunable of the scheduler, as in `headtime set`; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Drive model to schedule by: profile, matrix, compact, or a latency map in a file, as
    /// matrix:FILE or compact:FILE
    #[arg(
        long = "model",
        alias = "belief",
        value_name = "MODEL[:FILE]",
        default_value_t = ModelSource::default()
    )]
    pub belief: ModelSource,
    /// Setting of the latency map, as in `headtime serve --map`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub map: Vec<String>,
    /// Write the final latency map into this file
    #[arg(long, value_name = "FILE")]
    pub map_out: Option<PathBuf>,
    /// Replace the file of --map-out if it is a map of the same drive
    #[arg(long, requires = "map_out")]
    pub force: bool,
    /// Profile for the drive model, such as one that `headtime characterize` wrote [default: the
    /// drive's own profile]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Maximum commands at the drive [default: chosen by the policy]
    #[arg(long, value_name = "N", value_parser = outstanding)]
    pub outstanding: Option<usize>,
    /// Bytes of each request
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_bytes)]
    pub size: ByteSize,
    /// Share of reads, 0 to 1; the others are writes
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub reads: f64,
    /// Sequential requests before the next random address; 1 makes every address random
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub run_length: u64,
    /// Time from a request's arrival to its deadline [default: none]
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    pub deadline: Option<Nanos>,
    /// Number of requests to measure [default: 20000, all of a trace]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Simulated seconds to measure, instead of requests
    #[arg(long, value_name = "SECONDS", conflicts_with = "requests", value_parser = seconds)]
    pub seconds: Option<Nanos>,
    /// Requests (100) or time (5s) before measuring begins [default: a tenth of --requests or
    /// --seconds, nothing for a trace]
    #[arg(long, value_name = "N|TIME", value_parser = warm_up)]
    pub warmup: Option<WarmUp>,
    /// Seed of the drive instance, its noise and the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Level of noise: how far the drive differs from its profile and varies
    #[arg(long, value_name = "LEVEL", value_parser = noise_level(), default_value_t)]
    pub noise: NoiseLevel,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Reading of a trace.
    #[command(flatten)]
    pub trace_options: TraceArguments,
    /// Replay of a trace.
    #[command(flatten)]
    pub replay_options: ReplayArguments,
}

/// The flags that say one stream; a workload or a trace says them itself.
const OF_ONE_STREAM: [&str; 8] =
    ["clients", "think", "rate", "pacing", "size", "reads", "run_length", "deadline"];
/// The deadline can be laid over a trace.
const OF_ONE_STREAM_BUT_DEADLINE: [&str; 7] =
    ["clients", "think", "rate", "pacing", "size", "reads", "run_length"];

const AFTER_HELP: &str = "\
Same arguments, same output, byte for byte, on every machine; only wall_seconds differs.

Examples: headtime sim --clients 32 --reads 0.7
          headtime sim --workload oltp --depth 14 --policy sptf
          headtime sim --workload recorder-beside-scrub --seconds 60
          headtime sim --workload my.toml:cameras.deadline=100ms --json";

/// The warm-up before measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// So many requests finish.
    Requests(u64),
    /// So much time.
    Time(Nanos),
}

/// A policy with its parameters.
#[derive(Clone)]
pub struct PolicyArgument {
    text: String,
    entry: &'static PolicyEntry,
    parameters: Parameters,
}

impl std::fmt::Debug for PolicyArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::fmt::Display for PolicyArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Default for PolicyArgument {
    /// The default policy of drives.
    fn default() -> Self {
        let name = headtime_io::PolicyChoice::default().name();
        policy(name).expect("the default policy stands in the table")
    }
}

/// The distribution of intervals in an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// Random, at the given rate on average
    Poisson,
    /// At constant intervals
    Constant,
}

/// Runs it and prints what came out.
pub fn run(arguments: &SimArguments) -> Result<(), Failure> {
    let began = Instant::now();
    let mut answer = simulate(arguments)?;
    answer.measures.wall_seconds = Some(began.elapsed().as_secs_f64());
    if arguments.json { print_json(&answer) } else { print(&answer::table(&answer)) }
}

/// Runs it. Reads no clock: `wall_seconds` is left open.
pub fn simulate(arguments: &SimArguments) -> Result<SimOutput, Failure> {
    simulate_observed(arguments, &mut ())
}

/// The same with an observer, which also sees the requests of the warm-up.
pub fn simulate_observed(
    arguments: &SimArguments,
    observer: &mut impl EngineObserver,
) -> Result<SimOutput, Failure> {
    let drive = SimDrive::load(&arguments.drive)?;
    let tunables = model::tunables(&arguments.set)?;
    let mut load = Load::of(arguments, &tunables.deadlines)?;
    let service = load.service(&drive.profile)?;
    let timed = arguments.seconds.is_some();
    let requests = arguments.requests.or((!timed && !load.is_finite()).then_some(20_000));
    let warm_up = arguments.warmup.unwrap_or(match (arguments.seconds, requests) {
        _ if load.is_finite() => WarmUp::Requests(0),
        (Some(length), _) => WarmUp::Time(length / 10),
        (None, requests) => WarmUp::Requests(requests.unwrap_or(0) / 10),
    });
    let (warm_up_requests, warm_up_time) = match warm_up {
        WarmUp::Requests(requests) => (Some(requests), None),
        WarmUp::Time(time) => (None, Some(time)),
    };
    let experiment = Experiment {
        instance: Instance::Noise(arguments.noise),
        parameters: arguments.policy.parameters.clone(),
        tunables,
        outstanding: arguments.outstanding,
        warm_up: warm_up_requests.unwrap_or(0),
        requests: requests.unwrap_or(u64::MAX),
        warm_up_time,
        length: arguments.seconds,
        by_stream: load.has_streams(),
        background: service.scan,
        terms: service.terms,
        array: drive.array.clone(),
        ..Experiment::new(Arc::clone(&drive.profile), arguments.policy.entry, arguments.seed)
    };
    let unused = unused_terms(&experiment);
    let source = load.source(&drive, arguments.seed)?;
    let begun = model::Begun::of(arguments, &drive)?;
    let stopped = |error| match error {
        RunError::Engine(error) => {
            Failure::Failed(anyhow!(error).context("the simulation cannot go on"))
        }
        error => Failure::usage(error),
    };
    let (run, learned) =
        run_with_belief(&experiment, source, &|_: &DriveProfile| begun.belief(), observer)
            .map_err(stopped)?;
    let measures = run.fault.map_or(Ok(run.measures), |fault| Err(stopped(fault.into())))?;
    let measures = Measures { drive: drive.title(&arguments.drive).to_owned(), ..measures };
    load.check()?;
    if measures.requests + measures.failed == 0 {
        let remedy = if arguments.trace.is_empty() {
            "lower --warmup, or raise --seconds"
        } else {
            "lower --warmup, or replay more of the trace: `headtime trace info` shows its devices, \
                its length and its requests"
        };
        return Err(Failure::Failed(anyhow!(
            "nothing was counted: the workload ended, or the time was over, before the warm-up was \
                or a request finished; {remedy}"
        )));
    }
    model::keep(arguments, &*learned)?;
    let of_flags = matches!(load, Load::Flags(_));
    let closed = of_flags && arguments.rate.is_none();
    let (streams, classes) = answer::by_stream(&measures, &load.labels(measures.streams.len()));
    let depth = match &load {
        Load::Workload { choice, depth } if choice.takes_depth() => {
            Some(depth.unwrap_or(DEFAULT_DEPTH))
        }
        _ => None,
    };
    let fingerprint = match &load {
        Load::Workload { choice, .. } => Some(format!("{:08x}", choice.fingerprint())),
        _ => None,
    };
    let overload: Vec<String> =
        arguments.rate.and_then(|rate| answer::overload(rate, &measures)).into_iter().collect();
    Ok(SimOutput {
        failed: measures.failed,
        noise: arguments.noise,
        confidence_95: measures.confidence,
        streams,
        classes,
        parameters: SimParameters {
            policy: arguments.policy.text.clone(),
            drive: arguments.drive.clone(),
            workload: arguments.workload.clone(),
            workload_fingerprint: fingerprint,
            trace: (!arguments.trace.is_empty())
                .then(|| arguments.trace.iter().map(|path| path.display().to_string()).collect()),
            clients: closed.then_some(arguments.clients),
            depth,
            think_ms: closed.then(|| arguments.think.as_ms_f64()),
            rate_per_second: arguments.rate,
            pacing: (of_flags && !closed).then_some(arguments.pacing),
            outstanding: arguments.outstanding,
            belief: (!matches!(arguments.belief, ModelSource::Profile))
                .then(|| arguments.belief.to_string()),
            set: arguments.set.clone(),
            size_bytes: of_flags.then(|| arguments.size.get()),
            reads: of_flags.then_some(arguments.reads),
            run_length: of_flags.then_some(arguments.run_length),
            deadline_ms: arguments.deadline.map(Nanos::as_ms_f64),
            requests,
            seconds: arguments.seconds.map(Nanos::as_secs_f64),
            warmup: warm_up_requests,
            warmup_seconds: warm_up_time.map(Nanos::as_secs_f64),
        },
        trace: load.summary(),
        notes: [load.notes(), unused, overload].concat(),
        version: env!("CARGO_PKG_VERSION"),
        measures,
    })
}

/// A note where the policy does not use the terms of the streams.
fn unused_terms(experiment: &Experiment) -> Vec<String> {
    let Experiment { policy, parameters, terms, .. } = experiment;
    let unused = !terms.is_empty() && !(policy.build)(parameters).enforces_limits();
    let note = format!(
        "policy {} does not enforce the shares and limits of streams; headtime and utilization do",
        policy.name
    );
    if unused { vec![note] } else { Vec::new() }
}

fn policy(text: &str) -> Result<PolicyArgument, headtime_sched::PolicyError> {
    PolicyEntry::parse(text).map(|(entry, parameters)| PolicyArgument {
        text: text.to_string(),
        entry,
        parameters,
    })
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a number from 0 to 1, such as 0.7".to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    let fits = |rate: &f64| *rate > 0.0 && rate.is_finite();
    text.parse()
        .ok()
        .filter(fits)
        .ok_or_else(|| "expected requests per second, a number above 0 such as 50".to_string())
}

fn outstanding(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| "expected a whole number from 1".to_string())
}

fn positive_time(text: &str) -> Result<Nanos, String> {
    match parse_nanos(text) {
        Ok(time) if time.is_zero() => {
            Err("a deadline of 0 is missed by every request; write a time such as 100ms"
                .to_string())
        }
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

fn seconds(text: &str) -> Result<Nanos, String> {
    let span = text
        .parse::<f64>()
        .ok()
        .and_then(|seconds| Nanos::from_ms_f64(seconds * 1e3))
        .filter(|span| !span.is_zero());
    span.ok_or_else(|| {
        "expected seconds of simulated time, a number above 0 such as 60".to_string()
    })
}

fn warm_up(text: &str) -> Result<WarmUp, String> {
    match (text.parse(), parse_nanos(text)) {
        (Ok(requests), _) => Ok(WarmUp::Requests(requests)),
        (_, Ok(time)) => Ok(WarmUp::Time(time)),
        _ => Err("expected a number of requests such as 2000, or a time such as 5s".to_string()),
    }
}
