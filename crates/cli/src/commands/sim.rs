//! `headtime sim`: one drive, one policy, one workload, in virtual time.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use headtime_mechanics::DriveProfile;
use headtime_sched::{Parameters, PolicyEntry};
use headtime_sim::{Experiment, Measures, RunError, Unit, run as run_experiment};
use headtime_units::{ByteSize, Nanos, parse_bytes, parse_nanos};
use headtime_workload::{Arrivals, Interarrival, Mix, Order, Sizes, StreamConfig, ThinkTime, Workload};
use serde::Serialize;

use crate::output::{columns, print, print_json};
use crate::{Failure, drive_model};

/// Arguments of `headtime sim`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Same arguments, same output, byte for byte, on every machine; only wall_seconds differs.")]
pub struct Arguments {
    /// The drive: a profile's name, NAME@SETUP, or the path of a profile file
    #[arg(long, value_name = "PROFILE", default_value = "nearline-20tb")]
    pub drive: String,
    /// The policy, with parameters as NAME:parameter=value,…; see `headtime policies`
    #[arg(long, value_name = "NAME", default_value_t = Choice::default(), value_parser = policy)]
    pub policy: Choice,
    /// Closed loop: so many clients, each with one request at a time, so this is the queue
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub clients: u32,
    /// Closed loop: time between an answer and the client's next request
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_nanos)]
    pub think: Nanos,
    /// Open loop: so many requests per second, instead of clients
    #[arg(long, value_name = "PER_SECOND", conflicts_with_all = ["clients", "think"], value_parser = rate)]
    pub rate: Option<f64>,
    /// Open loop: how requests follow each other
    #[arg(long, value_enum, default_value_t = Pacing::Poisson, requires = "rate")]
    pub pacing: Pacing,
    /// Commands the drive holds at once; the policy's own wish unless given
    #[arg(long, value_name = "N", value_parser = outstanding)]
    pub outstanding: Option<usize>,
    /// Bytes of each request
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_bytes)]
    pub size: ByteSize,
    /// Share of reads, 0 to 1; the others are writes
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub reads: f64,
    /// Requests that follow each other by address before the next place is chosen; 1 means every place is random
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub run_length: u64,
    /// Time from a request's arrival to its deadline; none unless given
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    pub deadline: Option<Nanos>,
    /// Requests that are counted
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: u64,
    /// Requests served before counting begins; a tenth of --requests unless given
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Draws the unit, its noise and the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Whether the unit differs from its profile and its times scatter, as the profile says units do
    #[arg(long, value_enum, default_value_t = Noise::On)]
    pub noise: Noise,
    /// Prints one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// A policy with its parameters.
#[derive(Clone)]
pub struct Choice {
    text: String,
    entry: &'static PolicyEntry,
    parameters: Parameters,
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Default for Choice {
    /// The policy that drives are opened with when nobody chooses.
    fn default() -> Self {
        let name = headtime_io::PolicyChoice::default().name();
        policy(name).expect("the default policy stands in the table")
    }
}

/// How the requests of an open loop follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// By chance, at the given rate on average
    Poisson,
    /// At the same distance always
    Constant,
}

/// Whether the simulated unit differs from its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// Drawn by the seed as the variation in the profile says
    On,
    /// Exactly as the profile says, but for the phase of the spindle
    Off,
}

/// What is printed as JSON: the measures, and what they are of.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The measures.
    #[serde(flatten)]
    pub measures: Measures,
    /// Requests that ended in an error; they count nowhere else.
    pub failed: u64,
    /// Whether the unit differed from its profile.
    pub noise: Noise,
    /// Half-widths of 95 % intervals; null for runs too short to tell.
    pub confidence_95: Confidence,
    /// What was asked for.
    pub parameters: Asked,
    /// The version of the program.
    pub version: &'static str,
}

/// How sure the means are.
#[derive(Debug, Serialize)]
pub struct Confidence {
    /// Of the mean response.
    pub response_ms: Option<f64>,
    /// Of the mean service.
    pub service_ms: Option<f64>,
    /// Of the requests per second.
    pub iops: Option<f64>,
}

/// The arguments as they were understood.
#[derive(Debug, Serialize)]
pub struct Asked {
    policy: String,
    drive: String,
    clients: Option<u32>,
    think_ms: Option<f64>,
    rate_per_second: Option<f64>,
    pacing: Option<Pacing>,
    outstanding: Option<usize>,
    size_bytes: u64,
    reads: f64,
    run_length: u64,
    deadline_ms: Option<f64>,
    requests: u64,
    warmup: u64,
}

/// Runs it and prints what came out.
///
/// # Errors
/// When the arguments make no experiment, or requests come faster than the drive serves them.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let began = Instant::now();
    let mut answer = simulate(arguments)?;
    answer.measures.wall_seconds = Some(began.elapsed().as_secs_f64());
    if arguments.json { print_json(&answer) } else { print(&table(&answer)) }
}

/// Runs it. Reads no clock: `wall_seconds` is left open.
///
/// # Errors
/// As [`run`].
pub fn simulate(arguments: &Arguments) -> Result<Answer, Failure> {
    let profile = Arc::new(drive_model::load(&arguments.drive)?);
    let warmup = arguments.warmup.unwrap_or(arguments.requests / 10);
    let experiment = Experiment {
        unit: match arguments.noise {
            Noise::On => Unit::Drawn,
            Noise::Off => Unit::Nominal,
        },
        parameters: arguments.policy.parameters.clone(),
        outstanding: arguments.outstanding,
        warm_up: warmup,
        requests: arguments.requests,
        ..Experiment::new(Arc::clone(&profile), arguments.policy.entry, arguments.seed)
    };
    let workload = workload(arguments, &profile)?;
    // The profile was checked when it was loaded, so a belief can be made of it.
    let belief = |profile: &DriveProfile| -> Box<dyn headtime_sched::Belief + Send> {
        headtime_belief::of_profile(profile).expect("a profile that makes a drive makes a belief")
    };
    let measures = run_experiment(&experiment, workload, &belief).map_err(|error| match error {
        RunError::Profile(error) => Failure::asked(error),
        error @ RunError::OracleOfArms { .. } => Failure::asked(error),
        RunError::Engine(error) => Failure::Failed(anyhow!(error).context("the simulation cannot go on")),
    })?;
    let closed = arguments.rate.is_none();
    Ok(Answer {
        failed: measures.failed,
        noise: arguments.noise,
        confidence_95: Confidence {
            response_ms: measures.confidence.response_ms,
            service_ms: measures.confidence.service_ms,
            iops: measures.confidence.iops,
        },
        parameters: Asked {
            policy: arguments.policy.text.clone(),
            drive: arguments.drive.clone(),
            clients: closed.then_some(arguments.clients),
            think_ms: closed.then(|| arguments.think.as_ms_f64()),
            rate_per_second: arguments.rate,
            pacing: (!closed).then_some(arguments.pacing),
            outstanding: arguments.outstanding,
            size_bytes: arguments.size.get(),
            reads: arguments.reads,
            run_length: arguments.run_length,
            deadline_ms: arguments.deadline.map(Nanos::as_ms_f64),
            requests: arguments.requests,
            warmup,
        },
        version: env!("CARGO_PKG_VERSION"),
        measures,
    })
}

fn workload(arguments: &Arguments, profile: &DriveProfile) -> Result<Workload, Failure> {
    let base = match (arguments.rate, arguments.pacing) {
        (None, _) => StreamConfig::closed(arguments.clients),
        (Some(per_second), Pacing::Poisson) => StreamConfig::open(Interarrival::Poisson { per_second }),
        (Some(per_second), Pacing::Constant) => {
            let span = Nanos::from_ms_f64(1e3 / per_second).context("--rate is too small").map_err(Failure::Asked)?;
            StreamConfig::open(Interarrival::Constant(span))
        }
    };
    let mut stream = StreamConfig {
        mix: Mix::reads(arguments.reads),
        sizes: Sizes::Fixed { bytes: arguments.size.get() },
        order: if arguments.run_length == 1 { Order::Random } else { Order::FixedRuns { requests: arguments.run_length } },
        deadline: arguments.deadline,
        ..base
    };
    if let Arrivals::Closed { think, .. } = &mut stream.arrivals {
        *think = if arguments.think.is_zero() { ThinkTime::None } else { ThinkTime::Constant(arguments.think) };
    }
    let sector = profile.sector_size().map_err(Failure::asked)?;
    Workload::new(&[stream], sector, profile.capacity(), arguments.seed).map_err(Failure::asked)
}

fn table(answer: &Answer) -> String {
    let Answer { measures, parameters, .. } = answer;
    let noise = match answer.noise {
        Noise::On => "with noise",
        Noise::Off => "without noise",
    };
    let load = match (parameters.clients, parameters.rate_per_second) {
        (Some(clients), _) => format!("{clients} clients"),
        (None, rate) => format!("{} requests/s", rate.unwrap_or(0.0)),
    };
    let outstanding =
        parameters.outstanding.map_or_else(|| "as many at the drive as the policy likes".to_string(), |limit| format!("{limit} at the drive"));
    let mut text = format!("{} on {}, {noise}, seed {}: {load}, {outstanding}\n\n", parameters.policy, measures.drive, measures.seed);
    let within = |half_width: Option<f64>| half_width.map_or_else(String::new, |half_width| format!(" ± {half_width:.1}"));
    let mut rows = vec![
        vec!["requests".to_string(), format!("{} in {:.1} simulated s", measures.requests, measures.simulated_seconds)],
        vec!["rate".to_string(), format!("{:.1}{} IOPS, {:.2} MiB/s", measures.iops, within(answer.confidence_95.iops), measures.mib_per_second)],
        vec!["held on average".to_string(), format!("{:.2}", measures.queue_depth_mean)],
    ];
    if measures.deadline_requests > 0 {
        let share = crate::figures::show_percent(measures.deadline_misses as f64 / measures.deadline_requests as f64);
        rows.push(vec!["deadlines missed".to_string(), format!("{} of {} ({share})", measures.deadline_misses, measures.deadline_requests)]);
    }
    if answer.failed > 0 {
        rows.push(vec!["failed".to_string(), answer.failed.to_string()]);
    }
    text.push_str(&columns(&rows, &[false, false]));
    let mut rows = vec![["ms", "mean", "p50", "p95", "p99", "p99.9", "max"].map(str::to_string).to_vec()];
    for (name, times) in [("response", &measures.response_ms), ("service", &measures.service_ms)] {
        let values = [times.mean, times.p50, times.p95, times.p99, times.p999, times.max].map(|value| format!("{value:.2}"));
        rows.push([vec![name.to_string()], values.to_vec()].concat());
    }
    text.push('\n');
    text.push_str(&columns(&rows, &[false, true, true, true, true, true, true]));
    let spent = &measures.disk_time;
    let all = spent.total().as_secs_f64().max(f64::MIN_POSITIVE);
    let parts = [("seek", spent.seek), ("rotate", spent.rotate), ("transfer", spent.transfer), ("overhead", spent.overhead), ("idle", spent.idle)];
    let parts: Vec<String> = parts.iter().map(|(name, time)| format!("{name} {}", crate::figures::show_percent(time.as_secs_f64() / all))).collect();
    text.push_str(&format!("\ndisk time: {}\n", parts.join(", ")));
    text
}

fn policy(text: &str) -> Result<Choice, headtime_sched::PolicyError> {
    PolicyEntry::parse(text).map(|(entry, parameters)| Choice { text: text.to_string(), entry, parameters })
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "expected a number from 0 to 1, such as 0.7".to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    let fits = |rate: &f64| *rate > 0.0 && rate.is_finite();
    text.parse().ok().filter(fits).ok_or_else(|| "expected requests per second, a number above 0 such as 50".to_string())
}

fn outstanding(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected a whole number from 1".to_string())
}

fn positive_time(text: &str) -> Result<Nanos, String> {
    match parse_nanos(text) {
        Ok(time) if time.is_zero() => Err("a deadline of 0 is missed by every request; write a time such as 100ms".to_string()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}
