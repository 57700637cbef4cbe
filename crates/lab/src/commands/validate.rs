//! `headtime validate`: replays recorded accesses of a real drive on a profile's drive, and says
//! how far the predictions are off.
//!
//! How a recording is replayed and what is fitted: the head of
//! [`headtime_sim::validate`](mod@headtime_sim::validate).

mod plot;
mod text;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use headtime_mechanics::DriveProfile;
use headtime_sim::validate::{
    AccessClass, ArrivalErrors, ErrorFigures, IssueMode, Served, Validation, validate,
};
use headtime_workload::Operation;
use headtime_workload::trace::{Recording, disksim_validate};
use serde::Serialize;

use headtime_console::Failure;
use headtime_console::drive_model;
use headtime_console::output::{print, print_json};

/// ValidateArguments of `headtime validate`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ValidateArguments {
    /// Profile: a name of `headtime profiles`, NAME@SETUP, or the path of a .toml file [default
    /// SETUP: `recorded`, if it exists]
    pub profile: String,
    /// Recording: a file with one access per line, `R|W label lba sectors response_us think_us`
    /// (DiskSim's validation format)
    pub trace: PathBuf,
    /// Issue each request a think time after the simulated completion of the previous one, as
    /// DiskSim does, instead of at its recorded time
    #[arg(long)]
    pub closed: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Draw both distributions of response times, and the errors, into this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write every request with its prediction into this CSV file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Demerit: the root mean square distance of the two distributions of response times. Two figures \
that no profile can know are fitted to the recording: the \
spindle's period (within 500 ppm of the profile's) and its phase, from every second request; a \
recording without phase is reported as such, and judged by \
its distribution.";

/// The answer as JSON.
#[derive(Debug, Serialize)]
pub struct ValidateOutput {
    profile: String,
    trace: String,
    /// `recorded` or `closed`.
    issue: &'static str,
    reads: usize,
    writes: usize,
    /// The requests that the figures cover.
    judged: &'static str,
    #[serde(flatten)]
    figures: ErrorFigures,
    demerit_recorded_ms: f64,
    demerit_closed_ms: f64,
    spindle: SpindleAnswer,
    /// The figures over the requests that were not fitted.
    held_out: ErrorFigures,
    by_kind: Vec<Kind>,
    /// By how much the arm would have had to come earlier or later where the prediction is a
    /// revolution off.
    arrival_errors: ArrivalErrors,
    classes: Vec<ClassAnswer>,
}

#[derive(Debug, Serialize)]
struct SpindleAnswer {
    /// The requests that were fitted; `none` if the recording has no constant phase.
    fit: &'static str,
    coherent: bool,
    coherence: f64,
    coherence_held_out: f64,
    coherence_by_chance: f64,
    completions_fitted: usize,
    period_us: f64,
    nominal_period_us: f64,
    /// The angle at the start of the recording; left out when nothing was fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase_turns: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Kind {
    kind: &'static str,
    #[serde(flatten)]
    figures: ErrorFigures,
}

#[derive(Debug, Serialize)]
struct ClassAnswer {
    operation: &'static str,
    served: &'static str,
    slice: String,
    #[serde(flatten)]
    figures: ErrorFigures,
}

/// Replays, prints, draws.
pub fn run(arguments: &ValidateArguments) -> Result<(), Failure> {
    let profile = as_recorded(drive_model::load(&arguments.profile)?)?;
    let recording = read(&arguments.trace)?;
    let issue = if arguments.closed { IssueMode::Closed } else { IssueMode::Recorded };
    let name = arguments.trace.display().to_string();
    let validation = validate(&profile, &recording, issue)
        .map_err(|error| Failure::Usage(anyhow!(error).context(name.clone())))?;
    if let Some(file) = &arguments.plot {
        let short = arguments
            .trace
            .file_name()
            .map_or(name.clone(), |file| file.to_string_lossy().into_owned());
        write(file, &plot::draw(&validation, &profile.name, &short))?;
    }
    if let Some(file) = &arguments.csv {
        write(file, &csv(&validation)?)?;
    }
    let answer = answer(&validation, &profile.name, &name);
    if arguments.json { print_json(&answer) } else { print(&text::tables(&answer)) }
}

/// The drive as it was recorded, where its profile tells that apart from how it is used otherwise.
fn as_recorded(profile: DriveProfile) -> Result<DriveProfile, Failure> {
    if profile.name.contains('@') || !profile.setup.contains_key(RECORDED) {
        return Ok(profile);
    }
    profile.with_setup(RECORDED).map_err(Failure::usage)
}

/// The setup that recordings were made with.
const RECORDED: &str = "recorded";

pub(super) fn read(file: &Path) -> Result<Recording, Failure> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file)
        .with_context(|| format!("recording {name} cannot be read"))
        .map_err(Failure::Usage)?;
    // What is no UTF-8 is no recording either, and the reader says where.
    disksim_validate::read(&name, &String::from_utf8_lossy(&bytes)).map_err(Failure::usage)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    Ok(std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?)
}

fn answer(validation: &Validation, profile: &str, trace: &str) -> ValidateOutput {
    let spindle = &validation.spindle;
    let count = |operation| {
        validation.accesses().iter().filter(|access| access.recorded.operation == operation).count()
    };
    let kind = |kind, operation: Option<Operation>, served: Option<Served>| Kind {
        kind,
        figures: validation.figures(|_, access| {
            operation.is_none_or(|required| access.recorded.operation == required)
                && served.is_none_or(|required| access.predicted.served == required)
        }),
    };
    ValidateOutput {
        profile: profile.to_string(),
        trace: trace.to_string(),
        issue: if validation.issue == IssueMode::Recorded { "recorded" } else { "closed" },
        reads: count(Operation::Read),
        writes: count(Operation::Write),
        judged: "all",
        figures: validation.all(),
        demerit_recorded_ms: validation.demerit_recorded_ms,
        demerit_closed_ms: validation.demerit_closed_ms,
        spindle: SpindleAnswer {
            fit: if spindle.coherent { "every second request, from the first" } else { "none" },
            coherent: spindle.coherent,
            coherence: spindle.coherence,
            coherence_held_out: spindle.coherence_held_out,
            coherence_by_chance: spindle.chance,
            completions_fitted: spindle.fitted,
            period_us: validation.period().as_ns_f64() / 1e3,
            nominal_period_us: validation.nominal.as_ns_f64() / 1e3,
            phase_turns: spindle.coherent.then(|| spindle.phase.as_turns()),
        },
        held_out: validation.held_out(),
        by_kind: vec![
            kind("reads", Some(Operation::Read), None),
            kind("writes", Some(Operation::Write), None),
            kind("cache", None, Some(Served::Cache)),
            kind("media", None, Some(Served::Media)),
        ],
        arrival_errors: validation.arrival_errors(),
        classes: validation
            .classes(min_of_a_class(validation.accesses().len()))
            .iter()
            .map(class)
            .collect(),
    }
}

/// Smaller classes say more about chance than about the model: a hundredth of the requests, twenty
/// at least.
fn min_of_a_class(requests: usize) -> usize {
    (requests / 100).max(20)
}

fn class(class: &AccessClass) -> ClassAnswer {
    ClassAnswer {
        operation: operation(class.operation),
        served: served(class.served),
        slice: class.slice.describe(),
        figures: class.figures,
    }
}

fn operation(operation: Operation) -> &'static str {
    if operation == Operation::Read { "read" } else { "write" }
}

fn served(served: Served) -> &'static str {
    match served {
        Served::Cache => "cache",
        Served::Media => "media",
    }
}

fn csv(validation: &Validation) -> anyhow::Result<String> {
    let mut text = String::from(
        "line,operation,lba,sectors,recorded_us,predicted_us,error_us,served,\
         overhead_us,waited_us,seek_us,rotate_us,transfer_us,cylinders\n",
    );
    for access in validation.accesses() {
        let (recorded, predicted, parts) =
            (access.recorded, access.predicted, access.predicted.breakdown);
        let error_us = access.error_ns() as f64 / 1e3;
        write!(text, "{},{},", recorded.line, operation(recorded.operation))?;
        write!(text, "{},{},", recorded.extent.start.get(), recorded.extent.len.get())?;
        write!(
            text,
            "{:.3},{:.3},{error_us:.3},",
            recorded.response.as_us_f64(),
            predicted.response.as_us_f64()
        )?;
        write!(text, "{},", served(predicted.served))?;
        for part in [parts.overhead, parts.waited, parts.seek, parts.rotate, parts.transfer] {
            write!(text, "{:.3},", part.as_us_f64())?;
        }
        writeln!(
            text,
            "{}",
            predicted.cylinders.map_or(String::new(), |cylinders| cylinders.to_string())
        )?;
    }
    Ok(text)
}
