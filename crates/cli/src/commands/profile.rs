//! `headtime profile`: makes profiles of other programs' descriptions of drives, and checks and
//! shows profiles.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headtime_io::files::{Existing, write_atomically};
use headtime_mechanics::import::{ImportOptions, Imported, SourceText, import};
use headtime_mechanics::{DriveProfile, Mechanism};
use serde::Serialize;

use crate::output::{print, print_json};
use crate::{Failure, drive_model};

/// Arguments of `headtime profile`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done with a profile.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Makes a profile of another program's description of a drive
    Import(ImportArguments),
    /// Checks a profile, and says in a few figures what drive it makes
    Check(CheckArguments),
    /// Shows a profile as TOML, a setup laid over it
    Show(ShowArguments),
}

/// Arguments of `headtime profile import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub struct ImportArguments {
    /// DiskSim's files: .parv, .diskspecs, .model, .layout, .seek; in any order, those that they
    /// name are found beside them
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub disksim: Vec<PathBuf>,
    /// Which disk, where the files describe several
    #[arg(long, value_name = "NAME")]
    pub disk: Option<String>,
    /// The profile's name instead of the disk's
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where the profile goes instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replaces the file of --out where there is one
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Says nothing of what was left out
    #[arg(long)]
    pub quiet: bool,
}

const IMPORT_HELP: &str = "\
What the description says and a profile has no key for is named on standard error, with its file \
and line.

Example: headtime profile import --disksim atlas10k.parv --name my-atlas --out my-atlas.toml
         headtime sim --drive my-atlas.toml";

/// Arguments of `headtime profile check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The profile: a file, or the name of one that ships, with @SETUP behind it for a setup
    pub profile: String,
    /// Prints one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `headtime profile show`.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The profile: a file, or the name of one that ships, with @SETUP behind it for a setup
    pub profile: String,
    /// Prints JSON instead of TOML
    #[arg(long)]
    pub json: bool,
}

/// Does it.
///
/// # Errors
/// When a profile or description makes no sense, or a file cannot be read or written.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Import(arguments) => import_profile(arguments),
        Verb::Check(arguments) => check(arguments),
        Verb::Show(arguments) => {
            let profile = drive_model::load(&arguments.profile)?;
            if arguments.json { print_json(&profile) } else { print(&profile.to_toml()) }
        }
    }
}

fn import_profile(arguments: &ImportArguments) -> Result<(), Failure> {
    if let Some(out) = arguments.out.as_ref().filter(|out| out.exists() && !arguments.force) {
        return Err(Failure::Asked(anyhow!(
            "{} exists; choose another file, or say --force to replace it",
            out.display()
        )));
    }
    let imported = read(arguments)?;
    if !arguments.quiet {
        for note in &imported.notes {
            eprintln!("headtime: {note}");
        }
    }
    let toml = imported.profile.to_toml();
    // What is handed out is what any later reader will see: read back before it counts as done.
    let again = DriveProfile::from_toml(&imported.profile.name, &toml)
        .context("the imported profile cannot be read back, which is a fault of this program")?;
    if again != imported.profile {
        return Err(Failure::Failed(anyhow!(
            "the imported profile {} changes when read back, which is a fault of this program",
            again.name
        )));
    }
    match &arguments.out {
        None => print(&toml),
        Some(out) => write_whole(out, &toml, arguments.force).map_err(Failure::Failed),
    }
}

fn read(arguments: &ImportArguments) -> Result<Imported, Failure> {
    let files = arguments
        .disksim
        .iter()
        .map(|path| source(path))
        .collect::<anyhow::Result<Vec<SourceText>>>()
        .map_err(Failure::Asked)?;
    let options = ImportOptions { disk: arguments.disk.clone(), name: arguments.name.clone() };
    let mut beside = |from: &str, name: &str| {
        let folder = Path::new(from).parent().unwrap_or(Path::new(""));
        source(&folder.join(name)).map_err(|error| error.root_cause().to_string())
    };
    import(&files, &options, &mut beside).map_err(Failure::asked)
}

/// A file's text. Old descriptions have comments in old encodings: what is no UTF-8 is replaced,
/// and refused where it matters.
fn source(path: &Path) -> anyhow::Result<SourceText> {
    let bytes =
        std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(SourceText {
        name: path.display().to_string(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Writes `text` to `path` so that nobody ever finds a part of it there.
fn write_whole(path: &Path, text: &str, replace: bool) -> anyhow::Result<()> {
    let existing = if replace { Existing::Replace } else { Existing::Keep };
    write_atomically(path, existing, |mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// What drive a profile makes.
#[derive(Serialize)]
struct Figures {
    name: String,
    model: String,
    ok: bool,
    capacity_sectors: u64,
    mapped_sectors: u64,
    heads: u16,
    cylinders: u32,
    zones: usize,
    runs: usize,
    rpm: f64,
    mean_seek_ms: f64,
    longest_seek_ms: f64,
}

fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let profile = drive_model::load(&arguments.profile)?;
    let mechanism = Mechanism::nominal(&profile).map_err(Failure::asked)?;
    let layout = mechanism.layout();
    let figures = Figures {
        name: profile.name.clone(),
        model: profile.model.clone(),
        ok: true,
        capacity_sectors: layout.capacity().get(),
        mapped_sectors: layout.mapped().get(),
        heads: layout.heads(),
        cylinders: layout.cylinders(),
        zones: profile.zones.len(),
        runs: profile.runs.len(),
        rpm: mechanism.period().as_rpm(),
        mean_seek_ms: mechanism.mean_arm_time().as_ms_f64(),
        longest_seek_ms: mechanism.seek_curve().longest().as_ms_f64(),
    };
    if arguments.json {
        return print_json(&figures);
    }
    let capacity = crate::figures::show_bytes(layout.sector_size().bytes_of(layout.capacity()));
    let mapped = if figures.mapped_sectors == figures.capacity_sectors {
        String::new()
    } else {
        format!(" of {} that are mapped", figures.mapped_sectors)
    };
    print(&format!(
        "{}: fine\n{}\n{capacity} in {} sectors{mapped}, {} heads, {} cylinders, {:.1} rpm\nseek \
            {:.3} ms in the mean over pairs of sectors, {:.3} ms at most",
        figures.name,
        figures.model,
        figures.capacity_sectors,
        figures.heads,
        figures.cylinders,
        figures.rpm,
        figures.mean_seek_ms,
        figures.longest_seek_ms,
    ))
}
