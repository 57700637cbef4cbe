//! `headtime tune`: measures the table of the policy `auto`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::Context as _;
use clap::Args;
use headtime_console::arguments::noise_level;
use headtime_console::output::print;
use headtime_console::{Failure, drive_model};
use headtime_mechanics::NoiseLevel;
use headtime_serve::write_auto_table;
use headtime_units::Nanos;

use super::papers::Bar;
use crate::papers::Context;
use crate::tune::{Bench, POLICIES, loads, table};

/// Arguments of `headtime tune`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TuneArguments {
    /// Drive to simulate: a profile's name, NAME@SETUP, or the path of a profile file
    #[arg(value_name = "PROFILE", default_value = "nearline-20tb")]
    pub drive: String,
    /// Policies to choose from, separated by commas; `headtime` must be one
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_values_t = POLICIES.map(str::to_owned)
    )]
    pub policies: Vec<String>,
    /// Simulated seconds of each run, of which the first 5 are not measured
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(6..=3_600)
    )]
    pub seconds: u64,
    /// Seed of the drive instance, its noise and the loads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Level of noise: how far the drive differs from its profile and varies
    #[arg(long, value_name = "LEVEL", value_parser = noise_level(), default_value_t)]
    pub noise: NoiseLevel,
    /// Number of threads [default: number of processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// File to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Same arguments, same table. Use it with: headtime serve --set auto_table=FILE --policy auto, or with
headtime sim --set auto_table=FILE --policy auto.

Example: headtime tune --out drive.auto.toml mine.toml";

/// Measures and writes the table.
pub fn run(arguments: &TuneArguments) -> Result<(), Failure> {
    let profile = Arc::new(drive_model::load(&arguments.drive)?);
    let bench = Bench { profile, noise: arguments.noise, seed: arguments.seed };
    let threads = arguments
        .threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    let policies: Vec<&str> = arguments.policies.iter().map(String::as_str).collect();
    let bar = Bar::new("tune");
    let context = Context::new(arguments.seed, 1.0, threads, &bar);
    let length = Nanos::from_secs(arguments.seconds);
    let measured = table(&context, &bench, &loads(), &policies, length);
    bar.end();
    let text = write_auto_table(&measured.context("the table was not measured")?);
    let text = format!(
        "# Measured by headtime tune {} --seed {} --seconds {} --noise {}, version {}.\n{text}",
        arguments.drive,
        arguments.seed,
        arguments.seconds,
        arguments.noise,
        env!("CARGO_PKG_VERSION")
    );
    match &arguments.out {
        None => print(&text),
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}; choose another --out", path.display()))
            .map_err(Failure::Failed),
    }
}
