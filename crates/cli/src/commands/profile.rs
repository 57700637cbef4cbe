//! `headtime profile`: makes profiles of other programs' descriptions of drives, and checks and
//! shows profiles.

use clap::{Args, Subcommand};
use headtime_console::output::{print, print_json};
use headtime_console::{Failure, drive_model};
#[cfg(feature = "lab")]
use headtime_lab::commands::profile_import::{self, ImportArguments};
use headtime_mechanics::Mechanism;
use serde::Serialize;

/// Arguments of `headtime profile`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Action
    #[command(subcommand)]
    pub verb: Verb,
}

/// The actions on a profile.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Import another program's description of a drive as a profile
    #[cfg(feature = "lab")]
    Import(ImportArguments),
    /// Check a profile and print the key figures of its drive
    Check(CheckArguments),
    /// Show a profile as TOML, with a setup applied
    Show(ShowArguments),
}

/// Arguments of `headtime profile check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// Profile: a file, or the name of a built-in one, with @SETUP appended for a setup
    pub profile: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `headtime profile show`.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// Profile: a file, or the name of a built-in one, with @SETUP appended for a setup
    pub profile: String,
    /// Print JSON instead of TOML
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        #[cfg(feature = "lab")]
        Verb::Import(arguments) => profile_import::run(arguments),
        Verb::Check(arguments) => check(arguments),
        Verb::Show(arguments) => {
            let profile = drive_model::load(&arguments.profile)?;
            if arguments.json { print_json(&profile) } else { print(&profile.to_toml()) }
        }
    }
}

/// The key figures of a profile's drive.
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
    let mechanism = Mechanism::nominal(&profile).map_err(Failure::usage)?;
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
    let capacity =
        headtime_console::figures::show_bytes(layout.sector_size().bytes_of(layout.capacity()));
    let mapped = if figures.mapped_sectors == figures.capacity_sectors {
        String::new()
    } else {
        format!(" of {} that are mapped", figures.mapped_sectors)
    };
    print(&format!(
        "{}: valid\n{}\n{capacity} in {} sectors{mapped}, {} heads, {} cylinders, {:.1} rpm\nseek \
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
