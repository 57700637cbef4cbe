//! `headtime compare`: which policy for which drive and workload, in one page and in tables for
//! other programs.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context as _, anyhow};
use clap::Args;
use headtime_mechanics::NoiseLevel;

use crate::commands::papers::scale;
use crate::compare::statistics::{Metric, totals};
use crate::compare::store::Store;
use crate::compare::{
    CompareSpec, Comparison, Entry, Located, Plan, build, page, quoted, session, split_names,
};
use headtime_console::Failure;
use headtime_console::arguments::noise_level;
use headtime_console::output::{columns, print};
use headtime_console::stop::Stop;

/// CompareArguments of `headtime compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Finished runs are stored in DIR/cells at once: the same command continues where \
        it \
        was cut off. Same plan and seed, same bytes in \
                  results.csv and results.json, whatever the threads.\n\nExit codes: 0 all was run \
                  (a drive that is overloaded is a result); 1 a run failed or a file \
                  cannot be written, all else is there; 2 the plan is invalid, nothing was \
                  run; 130 interrupted, finished runs are kept."
)]
pub struct CompareArguments {
    /// TOML file with any of: policies, models, drives, workloads, depths, baseline, seed,
    /// replicas, requests, seconds, warmup, noise, outstanding, queue_limit, set, remap, replay,
    /// time_scale; options override it
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Policies as NAME:parameter=value,…, or all; oracles are marked [default: fcfs and the
    /// default policy]
    #[arg(long, value_name = "NAME,…", num_args = 1..)]
    pub policies: Vec<String>,
    /// Policy to compare the others with, under the first drive model or as `NAME by MODEL`
    /// [default: the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Drive models to run each policy with: profile, matrix, compact, matrix:FILE, compact:FILE
    /// [default: profile]
    #[arg(long = "models", alias = "beliefs", value_name = "MODEL,…", num_args = 1..)]
    pub beliefs: Vec<String>,
    /// Drives: profiles' names, NAME@SETUP, or paths of profile files [default: nearline-20tb]
    #[arg(long, value_name = "PROFILE,…", num_args = 1..)]
    pub drives: Vec<String>,
    /// Workloads and traces, as in `headtime sim --workload` [default: random]
    #[arg(long, value_name = "WORKLOAD", num_args = 1..)]
    pub workloads: Vec<String>,
    /// Queue depths for closed loops that do not set one [default: 1,4,16,64]
    #[arg(long, value_name = "N,…", num_args = 1.., value_delimiter = ',')]
    pub depths: Vec<u64>,
    /// Seed of the first replica; the next replicas count up from it [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Number of replicas, each with another drive instance and another draw of the workload; 3 or
    /// more give every figure an interval [default: 1]
    #[arg(long, visible_alias = "seeds", value_name = "K")]
    pub replicas: Option<u64>,
    /// Requests measured in each run [default: 20000]
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    /// Simulated seconds measured in each run, after a tenth of them, instead of requests: streams
    /// of different rates are compared over the same time
    #[arg(long, value_name = "S", conflicts_with_all = ["requests", "warmup"])]
    pub seconds: Option<f64>,
    /// Requests before those [default: a tenth of them, at least two for each client]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Run this share of the requests or seconds: 0.1 is faster and less precise
    #[arg(long, value_name = "SHARE", value_parser = scale)]
    pub scale: Option<f64>,
    /// Level of noise: how far the drives differ from their profiles and vary [default: typical]
    #[arg(long, value_name = "LEVEL", value_parser = noise_level())]
    pub noise: Option<NoiseLevel>,
    /// Maximum commands at the drive [default: chosen by each policy]
    #[arg(long, value_name = "N")]
    pub outstanding: Option<u64>,
    /// Pending requests at which a run counts as overloaded [default: 65536]
    #[arg(long, value_name = "N")]
    pub queue_limit: Option<u64>,
    /// Tunable of the scheduler, as in `headtime set`; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Traces: mapping of addresses to the drive: none, wrap, scale or compact [default: wrap]
    #[arg(long, value_name = "HOW")]
    pub remap: Option<String>,
    /// Traces: timing of requests: open, closed:N or think, as in `headtime sim` [default: open]
    #[arg(long, value_name = "HOW")]
    pub replay: Option<String>,
    /// Traces: scale times: 2 is twice as slow, 0.5 twice as fast [default: 1]
    #[arg(long, value_name = "FACTOR")]
    pub time_scale: Option<String>,
    /// Number of threads [default: number of processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Directory for report.html, results.json, results.csv, summary.csv, and finished runs
    #[arg(long, value_name = "DIR", default_value = "headtime-compare")]
    pub out: PathBuf,
    /// Print results.json instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Runs the comparison, and writes and prints its results.
pub fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let plan = Plan::new(spec(arguments)?)?;
    let stop = Stop::on_signals()?;
    let store = Store::open(&arguments.out, build().context("the program cannot read itself")?)?;
    let threads = arguments
        .threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    let results = match session::run(&plan, &store, threads, &stop)? {
        session::CompareSession::Finished(results) => results,
        session::CompareSession::Stopped { kept, of } => {
            let again: Vec<String> = std::env::args().map(|word| quoted(&word)).collect();
            return Err(Failure::Interrupted(anyhow!(
                "stopped; {kept} of {of} runs are stored. Continue with: {}",
                again.join(" ")
            )));
        }
    };
    let comparison = Comparison::new(plan, results);
    let page = write(&comparison, &store)?;
    if arguments.json {
        print(&comparison.json()?)?
    } else {
        print(&format!("{}\nwritten: {}\n", summary(&comparison), page.display()))?
    }
    match comparison.failures.as_slice() {
        [] => Ok(()),
        [(first, reason), others @ ..] => {
            let all = anyhow!(
                "{} of the runs failed, {first} among them: {reason}. The same command tries these \
                    again",
                others.len() + 1
            );
            Err(Failure::Failed(all))
        }
    }
}

/// Writes the tables and the page into the folder of the comparison; returns the page.
pub fn write(comparison: &Comparison, store: &Store) -> anyhow::Result<PathBuf> {
    // The page comes last: when it exists, all other files exist.
    store.write("results.csv", comparison.csv()?)?;
    store.write("summary.csv", comparison.summary_csv()?)?;
    store.write("results.json", comparison.json()?)?;
    #[cfg(feature = "parquet")]
    store.write("results.parquet", crate::compare::parquet(comparison)?)?;
    store.write("report.html", page::page(comparison))
}

/// The plan file, and the flags before it.
pub fn spec(arguments: &CompareArguments) -> Result<CompareSpec, Failure> {
    let mut spec =
        arguments.plan.as_deref().map_or_else(|| Ok(CompareSpec::default()), CompareSpec::read)?;
    let names = |flag: &str, words: &[String], into: &mut Vec<Located<String>>| {
        if !words.is_empty() {
            *into = words
                .iter()
                .flat_map(|word| split_names(word))
                .map(|name| Located::new(name, flag))
                .collect();
        }
    };
    names("--policies", &arguments.policies, &mut spec.policies);
    names("--models", &arguments.beliefs, &mut spec.beliefs);
    names("--drives", &arguments.drives, &mut spec.drives);
    names("--workloads", &arguments.workloads, &mut spec.workloads);
    if !arguments.depths.is_empty() {
        spec.depths =
            arguments.depths.iter().map(|depth| Located::new(*depth, "--depths")).collect();
    }
    let number = |flag: &str, found: Option<u64>, into: &mut Located<u64>| {
        if let Some(found) = found {
            *into = Located::new(found, flag);
        }
    };
    number("--seed", arguments.seed, &mut spec.seed);
    number("--replicas", arguments.replicas, &mut spec.replicas);
    number("--requests", arguments.requests, &mut spec.requests);
    number("--queue-limit", arguments.queue_limit, &mut spec.queue_limit);
    let given = |flag: &str, found: Option<u64>| found.map(|found| Located::new(found, flag));
    spec.warmup = given("--warmup", arguments.warmup).or(spec.warmup);
    // A flag goes before all that the file says of the length.
    match (arguments.requests, arguments.seconds) {
        (None, Some(seconds)) => {
            spec.seconds = Some(Located::new(seconds, "--seconds"));
            spec.warmup = None;
        }
        (Some(_), _) => spec.seconds = None,
        (None, None) => {}
    }
    spec.outstanding = given("--outstanding", arguments.outstanding).or(spec.outstanding);
    spec.baseline =
        arguments.baseline.clone().map(|name| Located::new(name, "--baseline")).or(spec.baseline);
    spec.noise = arguments.noise.unwrap_or(spec.noise);
    if !arguments.set.is_empty() {
        spec.set = arguments.set.iter().map(|set| Located::new(set.clone(), "--set")).collect();
    }
    for (name, flag, value) in [
        ("remap", "--remap", &arguments.remap),
        ("replay", "--replay", &arguments.replay),
        ("time_scale", "--time-scale", &arguments.time_scale),
    ] {
        spec.set_trace_option(name, value.clone().map(|value| Located::new(value, flag)));
    }
    if let Some(scale) = arguments.scale {
        spec.scale(scale);
    }
    Ok(spec)
}

/// The table for people: a line for each case and policy, the best of a case marked.
pub fn summary(comparison: &Comparison) -> String {
    let plan = &comparison.plan;
    let with_deadlines = comparison.cases.iter().any(|case| case.entries.iter().any(has_deadlines));
    let (rate, sum, harmonic, p99, missed) = (
        Metric::named("iops"),
        Metric::named("progress_sum"),
        Metric::named("progress_harmonic_mean"),
        Metric::named("equal_load_response_ms_p99"),
        Metric::named("deadline_miss_share"),
    );
    let baseline = format!("against {}", plan.policies[plan.baseline].text);
    let mut rows = vec![
        [
            "drive",
            "workload",
            "depth",
            "policy",
            "requests/s",
            &baseline,
            "progress: sum",
            "harmonic mean",
            "p99 ms at equal load",
            "missed",
            "",
        ]
        .map(str::to_string)
        .to_vec(),
    ];
    for case in &comparison.cases {
        let best = comparison
            .best(case, rate)
            .filter(|best| best.tells_apart())
            .map_or_else(Vec::new, |best| best.places);
        let against = comparison.baseline(case).map(Entry::outcomes);
        for entry in &case.entries {
            let outcomes = entry.outcomes();
            let figures = totals(&outcomes);
            let shown = |metric: &Metric| {
                metric
                    .estimate(&figures)
                    .map_or_else(|| "–".to_string(), |estimate| metric.text(estimate))
            };
            let difference = against
                .as_ref()
                .filter(|_| entry.policy != plan.baseline)
                .and_then(|outcomes| rate.difference(&figures, &totals(outcomes)));
            let policy = &plan.policies[entry.policy];
            let mut words: Vec<&str> = Vec::new();
            words.extend(best.contains(&entry.policy).then_some("best"));
            words.extend(policy.entry.oracle.then_some("oracle"));
            words.extend(Some(entry.status().word()).filter(|word| !word.is_empty()));
            rows.push(vec![
                plan.drives[case.case.drive].text.clone(),
                plan.workloads[case.case.workload].name.clone(),
                case.case.depth.map_or_else(|| "–".to_string(), |depth| depth.to_string()),
                policy.text.clone(),
                shown(rate),
                difference.map_or_else(String::new, |difference| rate.difference_text(&difference)),
                shown(sum),
                shown(harmonic),
                shown(p99),
                shown(missed),
                words.join(", "),
            ]);
        }
    }
    if !with_deadlines {
        for row in &mut rows {
            row.remove(9);
        }
    }
    let right: Vec<bool> = (0..rows[0].len())
        .map(|column| column == 2 || (4..rows[0].len() - 1).contains(&column))
        .collect();
    let mut text = columns(&rows, &right);
    for left_out in &plan.left_out {
        text.push_str(&format!("left out: {}\n", page::left_out(left_out)));
    }
    text.push_str(&format!("{}.\n", comparison.intervals()));
    text
}

fn has_deadlines(entry: &Entry) -> bool {
    entry.outcomes().iter().flatten().any(|outcome| outcome.total.deadline_requests > 0)
}
