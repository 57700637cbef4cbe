//! `headtime map`: latency maps, in files and of a running server: learned from recordings, shown,
//! checked, kept, loaded and merged.

pub(crate) mod file;
mod learn;
mod plot;
mod show;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use headtime_belief::maps::KeptMap as Map;
use headtime_belief::matrix::{EntryBits, Exceedance, Merged};
use headtime_serve::control::{LoadMap, SaveMap};
use headtime_serve::maps::{Exceeded, MapLoaded, MapMerged, MapSaved, exceeded};
use headtime_units::{ByteSize, Nanos, parse_bytes};
use headtime_workload::Operation;
use headtime_workload::trace::{Recording, disksim_validate};
use serde::Serialize;

use crate::commands::control::{ServerChoice, ask};
use crate::output::{columns, print, print_json};
use crate::{Failure, drive_model};
use learn::{Cells, Figures, Learner, Predicted, Start};
pub(crate) use show::{kept_text, text as show_text};

/// Arguments of `headtime map`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done with maps.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Learns a map from the first part of a recording, and predicts the rest request by request
    Learn(Box<Learn>),
    /// Says what a map knows, and draws it
    Show(Show),
    /// Keeps a checked copy of a map
    Save(Save),
    /// Reads a map as a scheduler would, and says whether it may be used for a drive
    Load(Load),
    /// Takes what maps of identical drives know together
    Merge(Merge),
}

/// Which kind of map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Structure: angles, arm times, residuals; a whole drive in megabytes
    #[default]
    Compact,
    /// The published matrix: the worst time of each pair of cells
    Matrix,
}

/// What a compact map begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// All that the profile says
    #[default]
    Profile,
    /// The profile without its slipped sectors, so that they are learned
    NoSlips,
    /// The drive's size and nominal speed, nothing else
    Nothing,
}

/// Arguments of `headtime map learn`.
#[derive(Debug, Args)]
#[command(after_help = LEARN_HELP)]
pub struct Learn {
    /// The recording: a file with one access a line, `R|W label lba sectors response_us think_us`
    /// (DiskSim's validation format)
    pub trace: PathBuf,
    /// The drive: a name of `headtime profiles`, NAME@SETUP, or the path of a .toml file
    #[arg(long)]
    pub profile: String,
    /// The share of the recording that is learned from, its first requests; the rest is predicted
    #[arg(long, default_value = "0.5", value_parser = parse_part, value_name = "SHARE")]
    pub train: f64,
    /// Which kind of map
    #[arg(long, value_enum, default_value_t)]
    pub kind: Kind,
    /// What a compact map begins with
    #[arg(long, value_enum, default_value_t)]
    pub from: From,
    /// Goes on with the map in this file instead of beginning again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "from"])]
    pub map: Option<PathBuf>,
    /// Size of a matrix's cell
    #[arg(long, value_parser = parse_bytes, default_value = "128KiB", value_name = "SIZE")]
    pub cell: ByteSize,
    /// Bits of a matrix's entry: 4, 8 or 16
    #[arg(long, default_value_t = 4)]
    pub bits: u32,
    /// What the map may take of memory
    #[arg(long, value_parser = parse_bytes, default_value = "64MiB", value_name = "SIZE")]
    pub memory: ByteSize,
    /// Writes the map into this file
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replaces the file of --out where it is a map of the same drive
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Writes every request beside its prediction into this CSV file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Prints one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

const LEARN_HELP: &str = "\
Within 0.2 ms counts the most likely response against the recorded one. While the second part is \
predicted nothing is learned of the drive; a compact map goes on following where the \
platter is.

Example: headtime map learn --profile cheetah15k5 --from no-slips cheetah15k5.trace --train 0.5 -o \
cheetah.map";

/// Arguments of `headtime map show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The map; that of the server which is named, unless given
    #[arg(required_unless_present_any = OF_SERVER, conflicts_with_all = OF_SERVER)]
    pub file: Option<PathBuf>,
    /// Which server
    #[command(flatten)]
    pub server: ServerChoice,
    /// Draws the times of a region's pairs, and times against distance, into this SVG file; of a
    /// map in a file
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_SERVER)]
    pub svg: Option<PathBuf>,
    /// The region that is drawn, FIRST..END in sectors; left out: all that is known
    #[arg(long, value_parser = parse_region, value_name = "LBA..LBA", requires = "svg")]
    pub region: Option<(u64, u64)>,
    /// Prints one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `headtime map save`.
#[derive(Debug, Args)]
#[command(after_help = SAVE_HELP, override_usage = "headtime map save <FROM> <TO> [--force]\n       headtime map save [TO] [--force] --control PATH | --drive LOCATOR | --config FILE")]
pub struct Save {
    /// The map and where the copy goes; of a server that is named, where its map goes: into the
    /// map's own file unless given
    #[arg(value_name = "FILE", num_args = 0..=2)]
    pub files: Vec<PathBuf>,
    /// Which server
    #[command(flatten)]
    pub server: ServerChoice,
    /// Replaces a map of the same drive that is there
    #[arg(long)]
    pub force: bool,
    /// Prints one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

const SAVE_HELP: &str = "\
Examples: headtime map save drive.map kept.map
          headtime map save --drive /dev/disk/by-id/ata-X
          headtime map save /var/lib/headtime/kept.map --control /run/headtime/sdb.control";

/// Arguments of `headtime map load`.
#[derive(Debug, Args)]
pub struct Load {
    /// The map
    pub file: PathBuf,
    /// Only looks whether it may be used for this drive: a name of `headtime profiles`, NAME@SETUP,
    /// or the path of a .toml file
    #[arg(long, required_unless_present_any = OF_SERVER, conflicts_with_all = OF_SERVER)]
    pub profile: Option<String>,
    /// The server that goes by it from now on
    #[command(flatten)]
    pub server: ServerChoice,
    /// Of a server's matrix: keeps what is known, and adds the map; of each pair the worse time
    /// wins
    #[arg(long, conflicts_with = "profile")]
    pub merge: bool,
    /// What the map may take of memory
    #[arg(long, value_parser = parse_bytes, default_value = "512MiB", value_name = "SIZE")]
    pub memory: ByteSize,
    /// Prints one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// The flags that name a server.
const OF_SERVER: [&str; 3] = ["control", "drive", "config"];

/// Arguments of `headtime map merge`.
#[derive(Debug, Args)]
#[command(
    after_help = "Of each pair the worse time wins. Compact maps are not merged: each is of one \
        unit."
)]
pub struct Merge {
    /// The maps, of one model of drive in cells of one size; what covers cells and how wide entries
    /// are is as in the first
    #[arg(required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    /// Where the merged map goes
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// Replaces a map of the same drive that is there
    #[arg(long)]
    pub force: bool,
}

/// Does it.
///
/// # Errors
/// When a map, profile or recording makes no sense or is of another drive, or a file cannot be read
/// or written; no file is changed then.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Learn(arguments) => learn(arguments),
        Verb::Show(arguments) => show::run(arguments),
        Verb::Save(arguments) => save(arguments),
        Verb::Load(arguments) => load(arguments),
        Verb::Merge(arguments) => merge(arguments),
    }
}

/// For whoever only looks at a map, or passes it on.
const ANY_MEMORY: ByteSize = ByteSize::new(u64::MAX);

fn save(arguments: &Save) -> Result<(), Failure> {
    if !arguments.server.is_named() {
        let [from, to] = &arguments.files[..] else {
            return Err(Failure::Asked(anyhow!(
                "a copy has an original and a place: write FROM and TO, or name the server whose \
                    map is to be saved (--control, --drive or --config)"
            )));
        };
        let map = file::read(from, ANY_MEMORY)?;
        let bytes = file::write(to, &map, arguments.force)?;
        let text = format!(
            "{}: {bytes} bytes, a {} map of {}",
            to.display(),
            map.kind(),
            map.drive().model
        );
        return if arguments.json {
            print_json(&MapSaved { file: to.clone(), bytes })
        } else {
            print(&text)
        };
    }
    let to = match &arguments.files[..] {
        [] => None,
        [to] => Some(absolute(to)?),
        _ => {
            return Err(Failure::Asked(anyhow!(
                "a server's map is saved in one place: write TO alone, or leave the server out to \
                    copy a file"
            )));
        }
    };
    let mut client = arguments.server.connect("")?;
    let saved: MapSaved = ask(&mut client, "map.save", &SaveMap { to, force: arguments.force })?;
    if arguments.json {
        print_json(&saved)
    } else {
        print(&format!("{}: {} bytes", saved.file.display(), saved.bytes))
    }
}

fn load(arguments: &Load) -> Result<(), Failure> {
    let Some(profile) = &arguments.profile else {
        let mut client = arguments.server.connect("")?;
        let order = LoadMap { from: absolute(&arguments.file)?, merge: arguments.merge };
        let loaded: MapLoaded = ask(&mut client, "map.load", &order)?;
        if arguments.json {
            return print_json(&loaded);
        }
        let how = loaded.merged.map_or(
            "now believed".to_string(),
            |MapMerged { new, raised, kept, not_covered }| {
                format!(
                    "added: {new} pairs were new, {raised} longer, {kept} as long, {not_covered} \
                not covered"
                )
            },
        );
        return print(&format!("{}: {how}\n{}", loaded.file.display(), show::text(&loaded.map)));
    };
    let profile = drive_model::load(profile)?;
    let map = file::read(&arguments.file, arguments.memory)?;
    file::check_drive(&arguments.file, &map, &learn::mapped(&profile)?)?;
    let known = show::Known::of(&map, &arguments.file);
    if arguments.json {
        print_json(&known)
    } else {
        print(&format!("fine for {}\n{}", profile.name, show::text(&known.map)))
    }
}

/// The server has a working directory of its own.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .with_context(|| format!("{} is no path", path.display()))
        .map_err(Failure::Asked)
}

fn merge(arguments: &Merge) -> Result<(), Failure> {
    let mut maps = Vec::new();
    for path in &arguments.files {
        match file::read(path, ANY_MEMORY)? {
            Map::Matrix(map) => maps.push((path, map)),
            Map::Compact(_) => {
                return Err(Failure::Asked(anyhow!(
                    "map {} is a compact map, which is of one unit and is not merged; merge \
                        matrices",
                    path.display()
                )));
            }
        }
    }
    let mut maps = maps.into_iter();
    let (_, mut merged) = maps.next().ok_or_else(|| Failure::Asked(anyhow!("no map was named")))?;
    let mut rows =
        vec![["", "new pairs", "longer", "as long", "not covered"].map(str::to_string).to_vec()];
    for (path, map) in maps {
        let Merged { new, raised, kept, not_covered } = merged
            .merge(&map)
            .with_context(|| path.display().to_string())
            .map_err(Failure::Asked)?;
        rows.push(
            [path.display().to_string()]
                .into_iter()
                .chain([new, raised, kept, not_covered].map(|count| count.to_string()))
                .collect(),
        );
    }
    let (known, pairs) = (merged.known(), merged.pairs());
    file::write(&arguments.out, &Map::Matrix(merged), arguments.force)?;
    print(&format!(
        "{}{}: {known} of {pairs} pairs known",
        columns(&rows, &[false, true, true, true, true]),
        arguments.out.display()
    ))
}

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
    map: show::Known,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exceedance: Vec<Exceeded>,
}

fn learn(arguments: &Learn) -> Result<(), Failure> {
    let bits = EntryBits::from_bits(arguments.bits)
        .ok_or_else(|| Failure::Asked(anyhow!("--bits {}; expected 4, 8 or 16", arguments.bits)))?;
    let profile = drive_model::load(&arguments.profile)?;
    let recording = read(&arguments.trace)?;
    let capacity = profile.capacity();
    if let Some(past) =
        recording.accesses().iter().find(|access| access.extent.end().get() > capacity.get())
    {
        let name = arguments.trace.display();
        return Err(Failure::Asked(anyhow!(
            "{name}:{}: {:?} lies past the end of {} ({capacity})",
            past.line,
            past.extent,
            profile.name
        )));
    }
    let bare = learn::without_slips(&profile);
    let start = match (&arguments.map, arguments.from) {
        (Some(path), _) => {
            let map = file::read(path, arguments.memory)?;
            file::check_drive(path, &map, &learn::mapped(&profile)?)?;
            Start::Map(map)
        }
        (None, From::Profile) => Start::Profile(&profile),
        (None, From::NoSlips) => Start::Profile(&bare),
        (None, From::Nothing) => Start::Nothing(&profile),
    };
    let matrix = (arguments.kind == Kind::Matrix).then_some(Cells { cell: arguments.cell, bits });
    let mut learner = Learner::new(start, matrix, &profile, arguments.memory)?;
    let train = (recording.accesses().len() as f64 * arguments.train) as usize;
    let predicted = learner.replay(&recording, train);
    let map = learner.map();
    if let Some(out) = &arguments.out {
        file::write(out, &map, arguments.force)?;
    }
    if let Some(path) = &arguments.csv {
        std::fs::write(path, csv(&predicted)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let turn = profile.rotation_period().map_err(Failure::asked)?.as_nanos();
    let answer =
        answer(arguments, &profile.name, &predicted, train, turn, &map, learner.exceedance());
    if arguments.json { print_json(&answer) } else { print(&text(&answer)) }
}

fn read(file: &Path) -> Result<Recording, Failure> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file)
        .with_context(|| format!("recording {name} cannot be read"))
        .map_err(Failure::Asked)?;
    // What is no UTF-8 is no recording either, and the reader says where.
    disksim_validate::read(&name, &String::from_utf8_lossy(&bytes)).map_err(Failure::asked)
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
    // The rest before a request is the think time behind the one before.
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
        map: show::Known::of(map, arguments.out.as_deref().unwrap_or(Path::new("-"))),
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
        show::text(&answer.map.map)
    );
    text.push_str(&show::exceedance_text(&answer.exceedance));
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

fn parse_region(text: &str) -> Result<(u64, u64), String> {
    let numbers = text
        .split_once("..")
        .and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    numbers.filter(|(first, end)| first < end).ok_or_else(|| {
        format!("{text} is no region; expected FIRST..END in sectors, such as 0..1000000")
    })
}
