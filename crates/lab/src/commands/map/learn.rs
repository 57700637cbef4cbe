//! `headtime map learn`: learns a latency map from the first part of a recording and predicts the
//! rest request by request.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use headtime_belief::maps::KeptMap as Map;
use headtime_belief::matrix::{EntryBits, Exceedance};
use headtime_console::map::{self, MapInFile};
use headtime_console::output::{columns, print, print_json};
use headtime_console::{Failure, drive_model};
use headtime_serve::maps::{Exceeded, exceeded};
use headtime_units::{ByteRange, ByteSize, Nanos, parse_bytes};
use headtime_workload::Operation;
use serde::Serialize;

use super::replay::{self, Cells, Figures, Learner, Predicted, Start};
use crate::commands::validate;

/// The kind of map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LearnedKind {
    /// Structure of the drive: angles, seek times, residuals; a whole drive in megabytes
    #[default]
    Compact,
    /// Published matrix: the longest time of each pair of cells
    Matrix,
}

/// The initial content of a compact map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum InitialContent {
    /// Everything in the profile
    #[default]
    Profile,
    /// The profile without its slipped sectors, which are then learned
    NoSlips,
    /// Only the drive's size and nominal speed
    Nothing,
}

/// Arguments of `headtime map learn`.
#[derive(Debug, Args)]
#[command(after_help = LEARN_HELP)]
pub struct Learn {
    /// Recording: a file with one access per line, `R|W label lba sectors response_us think_us`
    /// (DiskSim's validation format)
    pub trace: PathBuf,
    /// Drive: a name of `headtime profiles`, NAME@SETUP, or the path of a .toml file
    #[arg(long)]
    pub profile: String,
    /// Share of the recording to learn from, its first requests; the rest is predicted
    #[arg(long, default_value = "0.5", value_parser = parse_part, value_name = "SHARE")]
    pub train: f64,
    /// LearnedKind of map
    #[arg(long, value_enum, default_value_t)]
    pub kind: LearnedKind,
    /// Initial content of a compact map
    #[arg(long, value_enum, default_value_t)]
    pub from: InitialContent,
    /// Continue with the map in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "from"])]
    pub map: Option<PathBuf>,
    /// Cell size of a matrix
    #[arg(long, value_parser = parse_bytes, default_value = "128KiB", value_name = "SIZE")]
    pub cell: ByteSize,
    /// Bits per entry of a matrix: 4, 8 or 16
    #[arg(long, default_value_t = 4)]
    pub bits: u32,
    /// Hot region in bytes, FROM..TO or FROM+LENGTH: a matrix covers all of its cells and no
    /// others [default: the cells that requests use]
    #[arg(long, value_name = "RANGE")]
    pub region: Option<ByteRange>,
    /// Maximum memory for the map
    #[arg(long, value_parser = parse_bytes, default_value = "64MiB", value_name = "SIZE")]
    pub memory: ByteSize,
    /// Write the map into this file
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file of --out if it is a map of the same drive
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Write every request with its prediction into this CSV file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

const LEARN_HELP: &str = "\
Within 0.2 ms counts the most likely response against the recorded one. While the second part is \
predicted nothing is learned of the drive; a compact map goes on following where the \
platter is.

Example: headtime map learn --profile cheetah15k5 --from no-slips cheetah15k5.trace --train 0.5 -o \
cheetah.map";

/// The answer of `headtime map learn` as JSON.
#[derive(Debug, Serialize)]
struct Learned {
    profile: String,
    trace: String,
    kind: &'static str,
    learned_from: usize,
    predicted: usize,
    turn_us: f64,
    /// All of the part that was predicted, and its reads and writes.
    all: Figures,
    reads: Figures,
    writes: Figures,
    /// Reads of each eighth of the drive's addresses.
    reads_by_region: Vec<Figures>,
    /// Reads after less than 1 ms of rest, and the others.
    reads_at_once: Figures,
    reads_after_rest: Figures,
    /// The requests that were learned from, as they were predicted before they were.
    while_learning: Figures,
    map: MapInFile,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exceedance: Vec<Exceeded>,
}

/// Learns the map and prints the errors of its predictions.
pub fn run(arguments: &Learn) -> Result<(), Failure> {
    let bits = EntryBits::from_bits(arguments.bits)
        .ok_or_else(|| Failure::Usage(anyhow!("--bits {}; expected 4, 8 or 16", arguments.bits)))?;
    let profile = drive_model::load(&arguments.profile)?;
    let recording = validate::read(&arguments.trace)?;
    let capacity = profile.capacity();
    if let Some(past) =
        recording.accesses().iter().find(|access| access.extent.end().get() > capacity.get())
    {
        let name = arguments.trace.display();
        return Err(Failure::Usage(anyhow!(
            "{name}:{}: {:?} lies past the end of {} ({capacity})",
            past.line,
            past.extent,
            profile.name
        )));
    }
    let bare = replay::without_slips(&profile);
    let start = match (&arguments.map, arguments.from) {
        (Some(path), _) => {
            let map = map::read(path, arguments.memory)?;
            map::check_drive(path, &map, &replay::mapped(&profile)?)?;
            Start::Map(map)
        }
        (None, InitialContent::Profile) => Start::Profile(&profile),
        (None, InitialContent::NoSlips) => Start::Profile(&bare),
        (None, InitialContent::Nothing) => Start::Nothing(&profile),
    };
    let matrix = (arguments.kind == LearnedKind::Matrix).then_some(Cells {
        cell: arguments.cell,
        bits,
        region: arguments.region,
    });
    let mut learner = Learner::new(start, matrix, &profile, arguments.memory)?;
    let train = (recording.accesses().len() as f64 * arguments.train) as usize;
    let predicted = learner.replay(&recording, train);
    let map = learner.map();
    if let Some(out) = &arguments.out {
        map::write(out, &map, arguments.force)?;
    }
    if let Some(path) = &arguments.csv {
        std::fs::write(path, csv(&predicted)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let turn = profile.rotation_period().map_err(Failure::usage)?.as_nanos();
    let answer =
        answer(arguments, &profile.name, &predicted, train, turn, &map, learner.exceedance());
    if arguments.json { print_json(&answer) } else { print(&text(&answer)) }
}

fn answer(
    arguments: &Learn,
    profile: &str,
    predicted: &[Predicted],
    train: usize,
    turn: Nanos,
    map: &Map,
    exceedance: Option<Exceedance>,
) -> Learned {
    let (before, after) = predicted.split_at(train);
    let of = |holds: &dyn Fn(&Predicted) -> bool| {
        Figures::of(after.iter().filter(|request| holds(request)), turn)
    };
    let is_read = |request: &Predicted| request.access.operation == Operation::Read;
    let capacity = u128::from(map.drive().capacity.get());
    let region = |request: &Predicted| {
        (u128::from(request.access.extent.start.get()) * 8 / capacity) as usize
    };
    // The idle time before a request is the think time of the previous one.
    let rested: Vec<(Nanos, &Predicted)> = predicted
        .windows(2)
        .skip(train.saturating_sub(1))
        .map(|two| (two[0].access.think, &two[1]))
        .collect();
    let by_rest = |at_once: bool| {
        let of = rested
            .iter()
            .filter(|(rest, request)| is_read(request) && (*rest < Nanos::from_ms(1)) == at_once);
        Figures::of(of.map(|(_, request)| *request), turn)
    };
    Learned {
        profile: profile.to_string(),
        trace: arguments.trace.display().to_string(),
        kind: map.kind().name(),
        learned_from: before.len(),
        predicted: after.len(),
        turn_us: turn.as_us_f64(),
        all: of(&|_| true),
        reads: of(&is_read),
        writes: of(&|request| !is_read(request)),
        reads_by_region: (0..8)
            .map(|number| of(&|request| is_read(request) && region(request) == number))
            .collect(),
        reads_at_once: by_rest(true),
        reads_after_rest: by_rest(false),
        while_learning: Figures::of(before.iter(), turn),
        map: MapInFile::of(map, arguments.out.as_deref().unwrap_or(Path::new("-"))),
        exceedance: exceedance.map(|table| exceeded(&table)).unwrap_or_default(),
    }
}

fn text(answer: &Learned) -> String {
    let head = [
        "",
        "requests",
        "within 0.2 ms",
        "within 5 %",
        "median ms",
        "rms ms",
        "a turn off",
        "above worst",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let mut row = |name: String, figures: &Figures| {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        rows.push(vec![
            name,
            figures.requests.to_string(),
            percent(figures.within_0_2_ms),
            percent(figures.within_5_percent),
            format!("{:.3}", figures.median_abs_ms),
            format!("{:.3}", figures.rms_ms),
            percent(figures.revolution_off),
            format!("{:.2} %", figures.worst_exceeded * 100.0),
        ]);
    };
    row("all".into(), &answer.all);
    row("reads".into(), &answer.reads);
    row("writes".into(), &answer.writes);
    row("reads at once".into(), &answer.reads_at_once);
    row("reads after 1 ms of rest".into(), &answer.reads_after_rest);
    for (number, figures) in answer.reads_by_region.iter().enumerate() {
        row(format!("reads, eighth {}", number + 1), figures);
    }
    row("while learning".into(), &answer.while_learning);
    let mut text = format!(
        "{} on {}: learned from {} requests, predicted {} with a {} map\n\n{}\n{}",
        answer.trace,
        answer.profile,
        answer.learned_from,
        answer.predicted,
        answer.kind,
        columns(&rows, &[false, true, true, true, true, true, true, true]),
        map::figures_text(&answer.map.map)
    );
    text.push_str(&map::exceedance_text(&answer.exceedance));
    text
}

fn csv(predicted: &[Predicted]) -> anyhow::Result<String> {
    let mut text =
        String::from("line,operation,lba,sectors,recorded_us,likely_us,expected_us,worst_us\n");
    for Predicted { access, likely, expected, worst } in predicted {
        let operation = if access.operation == Operation::Read { "read" } else { "write" };
        write!(
            text,
            "{},{operation},{},{},",
            access.line,
            access.extent.start.get(),
            access.extent.len.get()
        )?;
        let [recorded, likely, expected, worst] =
            [access.response, *likely, *expected, *worst].map(Nanos::as_us_f64);
        writeln!(text, "{recorded:.3},{likely:.3},{expected:.3},{worst:.3}")?;
    }
    Ok(text)
}

/// A share as a number or in percent.
fn parse_part(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map_or_else(
        || text.parse::<f64>().ok(),
        |percent| Some(percent.trim_end().parse::<f64>().ok()? / 100.0),
    );
    number.filter(|number| (0.0..=1.0).contains(number)).ok_or_else(|| {
        format!("{text} is no share; expected a number from 0 to 1, or percent such as 50%")
    })
}
