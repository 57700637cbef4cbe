//! `headtime map`: latency maps, in files and of a running server: learned from recordings, shown,
//! checked, kept, loaded and merged.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headtime_belief::maps::{KeptMap as Map, mapped_drive};
use headtime_belief::matrix::Merged;
use headtime_console::map::{self, MapInFile};
use headtime_console::output::{columns, print, print_json};
use headtime_console::{Failure, drive_model};
#[cfg(feature = "lab")]
use headtime_lab::commands::map::{learn::Learn, plot};
use headtime_serve::control::{LoadMap, SaveMap};
use headtime_serve::maps::{MapFigures, MapLoaded, MapMerged, MapSaved};
#[cfg(feature = "lab")]
use headtime_units::Lba;
use headtime_units::{ByteSize, parse_bytes};

use crate::commands::control::{ServerChoice, ask};

/// Arguments of `headtime map`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Action
    #[command(subcommand)]
    pub verb: Verb,
}

/// The actions on maps.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Learn a map from the first part of a recording and predict the rest request by request
    #[cfg(feature = "lab")]
    Learn(Box<Learn>),
    /// Show what a map knows, and draw it
    Show(Show),
    /// Save a checked copy of a map
    Save(Save),
    /// Load a map into a server, or check whether it fits a drive
    Load(MapLoadArguments),
    /// Merge the maps of identical drives
    Merge(Merge),
}

/// Arguments of `headtime map show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Map file [default: the map of the named server]
    #[arg(required_unless_present_any = OF_SERVER, conflicts_with_all = OF_SERVER)]
    pub file: Option<PathBuf>,
    /// Server to address
    #[command(flatten)]
    pub server: ServerChoice,
    /// Draw the times of a region's pairs, and times against distance, into this SVG file; for a
    /// map in a file
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_SERVER)]
    pub svg: Option<PathBuf>,
    /// Region to draw, FIRST..END in sectors [default: everything known]
    #[cfg(feature = "lab")]
    #[arg(long, value_parser = parse_region, value_name = "LBA..LBA", requires = "svg")]
    pub region: Option<(u64, u64)>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `headtime map save`.
#[derive(Debug, Args)]
#[command(after_help = SAVE_HELP, override_usage = SAVE_USAGE)]
pub struct Save {
    /// The map and the file for the copy; with a server, the file for its map [default: the map's
    /// own file]
    #[arg(value_name = "FILE", num_args = 0..=2)]
    pub files: Vec<PathBuf>,
    /// Server to address
    #[command(flatten)]
    pub server: ServerChoice,
    /// Replace an existing map of the same drive
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

const SAVE_USAGE: &str = "\
headtime map save <FROM> <TO> [--force]
       headtime map save [TO] [--force] --control PATH | --drive LOCATOR | --config FILE";

const SAVE_HELP: &str = "\
Examples: headtime map save drive.map kept.map
          headtime map save --drive /dev/disk/by-id/ata-X
          headtime map save /var/lib/headtime/kept.map --control /run/headtime/sdb.control";

/// Arguments of `headtime map load`.
#[derive(Debug, Args)]
pub struct MapLoadArguments {
    /// Map file
    pub file: PathBuf,
    /// Only check whether the map fits this drive: a name of `headtime profiles`, NAME@SETUP, or
    /// the path of a .toml file
    #[arg(long, required_unless_present_any = OF_SERVER, conflicts_with_all = OF_SERVER)]
    pub profile: Option<String>,
    /// Server that uses the map from now on
    #[command(flatten)]
    pub server: ServerChoice,
    /// For a server's matrix: keep what is known and add the map; for each pair the longer time
    /// wins
    #[arg(long, conflicts_with = "profile")]
    pub merge: bool,
    /// Maximum memory for the map
    #[arg(long, value_parser = parse_bytes, default_value = "512MiB", value_name = "SIZE")]
    pub memory: ByteSize,
    /// Print one JSON object instead of text
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
    /// Maps of one drive model with the same cell size; coverage and entry width follow the first
    #[arg(required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    /// File for the merged map
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace an existing map of the same drive
    #[arg(long)]
    pub force: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        #[cfg(feature = "lab")]
        Verb::Learn(arguments) => headtime_lab::commands::map::learn::run(arguments),
        Verb::Show(arguments) => show(arguments),
        Verb::Save(arguments) => save(arguments),
        Verb::Load(arguments) => load(arguments),
        Verb::Merge(arguments) => merge(arguments),
    }
}

/// The memory limit for reading a map that is only shown or copied.
const ANY_MEMORY: ByteSize = ByteSize::new(u64::MAX);

fn show(arguments: &Show) -> Result<(), Failure> {
    let Some(file) = &arguments.file else {
        let mut client = arguments.server.connect("")?;
        let map: MapFigures = ask(&mut client, "map.show", &serde_json::json!({}))?;
        return if arguments.json { print_json(&map) } else { print(&map::figures_text(&map)) };
    };
    let map = map::read(file, ANY_MEMORY)?;
    #[cfg(feature = "lab")]
    if let Some(svg) = &arguments.svg {
        let capacity = map.drive().capacity.get();
        let (first, end) = arguments.region.unwrap_or_else(|| plot::known_region(&map));
        if end > capacity {
            return Err(Failure::Usage(anyhow!(
                "the region {first}..{end} ends past the drive's {capacity} sectors; keep it \
                    within 0..{capacity}"
            )));
        }
        let drawn = plot::draw(&map, Lba::new(first), Lba::new(end)).map_err(Failure::Usage)?;
        std::fs::write(svg, drawn).with_context(|| format!("cannot write {}", svg.display()))?;
    }
    let known = MapInFile::of(&map, file);
    if arguments.json { print_json(&known) } else { print(&map::figures_text(&known.map)) }
}

fn save(arguments: &Save) -> Result<(), Failure> {
    if !arguments.server.is_named() {
        let [from, to] = &arguments.files[..] else {
            return Err(Failure::Usage(anyhow!(
                "a copy has an original and a place: write FROM and TO, or name the server whose \
                    map is to be saved (--control, --drive or --config)"
            )));
        };
        let map = map::read(from, ANY_MEMORY)?;
        let bytes = map::write(to, &map, arguments.force)?;
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
            return Err(Failure::Usage(anyhow!(
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

fn load(arguments: &MapLoadArguments) -> Result<(), Failure> {
    let Some(profile) = &arguments.profile else {
        let mut client = arguments.server.connect("")?;
        let order = LoadMap { from: absolute(&arguments.file)?, merge: arguments.merge };
        let loaded: MapLoaded = ask(&mut client, "map.load", &order)?;
        if arguments.json {
            return print_json(&loaded);
        }
        let how = loaded.merged.map_or(
            "in use".to_string(),
            |MapMerged { new, raised, kept, not_covered }| {
                format!(
                    "added: {new} pairs were new, {raised} longer, {kept} as long, {not_covered} \
                not covered"
                )
            },
        );
        return print(&format!(
            "{}: {how}\n{}",
            loaded.file.display(),
            map::figures_text(&loaded.map)
        ));
    };
    let profile = drive_model::load(profile)?;
    let map = map::read(&arguments.file, arguments.memory)?;
    map::check_drive(&arguments.file, &map, &mapped_drive(&profile).map_err(Failure::usage)?)?;
    let known = MapInFile::of(&map, &arguments.file);
    if arguments.json {
        print_json(&known)
    } else {
        print(&format!("valid for {}\n{}", profile.name, map::figures_text(&known.map)))
    }
}

/// The server has a working directory of its own.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .with_context(|| format!("{} is no path", path.display()))
        .map_err(Failure::Usage)
}

fn merge(arguments: &Merge) -> Result<(), Failure> {
    let mut maps = Vec::new();
    for path in &arguments.files {
        match map::read(path, ANY_MEMORY)? {
            Map::Matrix(map) => maps.push((path, map)),
            Map::Compact(_) => {
                return Err(Failure::Usage(anyhow!(
                    "map {} is a compact map, which is of one unit and is not merged; merge \
                        matrices",
                    path.display()
                )));
            }
        }
    }
    let mut maps = maps.into_iter();
    let (_, mut merged) = maps.next().ok_or_else(|| Failure::Usage(anyhow!("no map was named")))?;
    let mut rows =
        vec![["", "new pairs", "longer", "as long", "not covered"].map(str::to_string).to_vec()];
    for (path, map) in maps {
        let Merged { new, raised, kept, not_covered } = merged
            .merge(&map)
            .with_context(|| path.display().to_string())
            .map_err(Failure::Usage)?;
        rows.push(
            [path.display().to_string()]
                .into_iter()
                .chain([new, raised, kept, not_covered].map(|count| count.to_string()))
                .collect(),
        );
    }
    let (known, pairs) = (merged.known(), merged.pairs());
    map::write(&arguments.out, &Map::Matrix(merged), arguments.force)?;
    print(&format!(
        "{}{}: {known} of {pairs} pairs known",
        columns(&rows, &[false, true, true, true, true]),
        arguments.out.display()
    ))
}

#[cfg(feature = "lab")]
fn parse_region(text: &str) -> Result<(u64, u64), String> {
    let numbers = text
        .split_once("..")
        .and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    numbers.filter(|(first, end)| first < end).ok_or_else(|| {
        format!("{text} is no region; expected FIRST..END in sectors, such as 0..1000000")
    })
}
