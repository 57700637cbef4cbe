//! `headtime profiles`: the drive profiles that ship, as a table, or one of them as the TOML it is
//! made of.

use anyhow::Context as _;
use clap::Args;
use headtime_mechanics::DriveProfile;
use headtime_mechanics::catalog::{CATALOG, CatalogEntry};
use headtime_mechanics::profile::{ProfileError, Setup};
use serde::Serialize;

use headtime_console::Failure;
use headtime_console::output::{columns, print, print_json};

/// Arguments of `headtime profiles`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Show the TOML of this profile, a starting point for your own
    pub name: Option<String>,
    /// Print JSON instead of a table or TOML
    #[arg(long)]
    pub json: bool,
}

/// The entry of one profile in the list.
#[derive(Serialize)]
struct Line {
    name: String,
    model: String,
    description: String,
    capacity_bytes: u64,
    sector_bytes: u32,
    rpm: f64,
    heads: u16,
    zones: usize,
    queue_depth: u32,
    setups: Vec<SetupLine>,
}

/// A setup of a profile: another interface or firmware.
#[derive(Serialize)]
struct SetupLine {
    name: String,
    description: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(name) = &arguments.name else { return list(arguments.json) };
    let Some(entry) = CATALOG.iter().find(|entry| entry.name == name) else {
        let known: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
        return Err(Failure::usage(ProfileError::UnknownProfile {
            name: name.clone(),
            known: known.join(", "),
        }));
    };
    if arguments.json { print_json(&load(entry)?) } else { print(entry.toml) }
}

fn list(json: bool) -> Result<(), Failure> {
    let lines =
        CATALOG.iter().map(|entry| line(&load(entry)?)).collect::<anyhow::Result<Vec<Line>>>()?;
    if json {
        return print_json(&lines);
    }
    let mut rows = vec![
        ["profile", "capacity", "rpm", "heads", "queue", "model"].map(str::to_string).to_vec(),
    ];
    for line in &lines {
        let capacity = headtime_console::figures::show_bytes(line.capacity_bytes);
        rows.push(vec![
            line.name.clone(),
            capacity,
            format!("{:.0}", line.rpm),
            line.heads.to_string(),
            line.queue_depth.to_string(),
            line.model.clone(),
        ]);
        for setup in &line.setups {
            let mut row = [const { String::new() }; 6];
            row[0] = format!("  @{}", setup.name);
            row[5] = setup.description.clone();
            rows.push(row.to_vec());
        }
    }
    print(&columns(&rows, &[false, true, true, true, true, false]))
}

fn load(entry: &CatalogEntry) -> anyhow::Result<DriveProfile> {
    entry.load().with_context(|| {
        format!(
            "profile {} of the catalog cannot be read, which is a fault of this build",
            entry.name
        )
    })
}

/// A setup with its description, or what it replaces.
fn setup_line((name, setup): (&String, &Setup)) -> SetupLine {
    let Setup { description, interface, firmware, cache } = setup;
    let replaced = [
        ("interface", *interface != Default::default()),
        ("firmware", *firmware != Default::default()),
        ("cache", cache.is_some()),
    ];
    let replaced: Vec<&str> =
        replaced.into_iter().filter_map(|(what, is_so)| is_so.then_some(what)).collect();
    let first = description.lines().next().unwrap_or_default();
    let description = if first.is_empty() {
        format!("another {}", replaced.join(" and "))
    } else {
        first.to_owned()
    };
    SetupLine { name: name.clone(), description }
}

fn line(profile: &DriveProfile) -> anyhow::Result<Line> {
    let sector = profile
        .sector_size()
        .context("a profile of the catalog has no sector size, which is a fault of this build")?;
    let period = profile
        .rotation_period()
        .context("a profile of the catalog does not turn, which is a fault of this build")?;
    Ok(Line {
        name: profile.name.clone(),
        model: profile.model.clone(),
        description: profile.description.clone(),
        capacity_bytes: sector.bytes_of(profile.capacity()),
        sector_bytes: profile.sector_bytes,
        rpm: period.as_rpm(),
        heads: profile.geometry.heads,
        zones: profile.zones.len(),
        queue_depth: profile.firmware.queue_depth,
        setups: profile.setup.iter().map(setup_line).collect(),
    })
}
