//! `headtime volume`: the volumes of a running `headtime serve`, made, changed, removed and listed
//! over its control socket.

mod relocate;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use headtime_serve::config::VOLUME_KEYS;
use headtime_serve::control::{
    ClassStatus, ExtentStatus, VolumeAnswer, VolumeArguments, VolumeStatus,
};
use headtime_units::{ByteSize, Extent, Nanos};
use serde::Serialize;

use super::control::ask;
use super::scan::ServerArguments;
use headtime_console::Failure;
use headtime_console::output::{columns_within, print, print_json, prompt, terminal_size};
pub(crate) use relocate::Relocate;
pub(super) use relocate::relocation_text;

/// Arguments of `headtime volume`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, after_long_help = long_help())]
pub struct Arguments {
    /// Action
    #[command(subcommand)]
    pub order: VolumeCommand,
}

/// The actions on volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume and serve it, or add a class to a volume, named VOLUME@realtime or
    /// VOLUME@bulk
    Add(Add),
    /// Change the settings and size of a volume, or the settings of a class
    Set(Set),
    /// Grow a volume into the free space after it, and into further extents if that is too small
    #[command(name = "grow")]
    Extend(Extend),
    /// Move sectors of a volume to a free place on the drive while clients use it, in time that
    /// they do not need
    Relocate(Relocate),
    /// Remove a volume or a class; its sectors become free and keep their content
    Remove(Remove),
    /// List all volumes on the drive and the free space
    List(List),
    /// Show one volume
    Show(Show),
}

/// A volume to be made.
#[derive(Debug, Args)]
pub struct Add {
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Size, such as 100GiB, and settings, such as reserve=25%; `--help` lists them
    #[arg(value_name = "SIZE|KEY=VALUE")]
    pub settings: Vec<String>,
    /// Print the result without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// The settings to change.
#[derive(Debug, Args)]
pub struct Set {
    /// Volume, or VOLUME@CLASS
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Settings, such as limit=50% or size=200GiB; `--help` lists them
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub settings: Vec<String>,
    /// Allow a shrinking volume to lose the content of its end
    #[arg(long)]
    pub cut_data: bool,
    /// Cancel the scans of a volume that is resized
    #[arg(long)]
    pub force: bool,
    /// Print the result without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// A volume to be grown.
#[derive(Debug, Args)]
pub struct Extend {
    /// Volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// New size, such as 300GiB, or the size to add, such as +100GiB
    #[arg(value_name = "SIZE|+SIZE")]
    pub size: String,
    /// Cancel the scans of the volume
    #[arg(long)]
    pub force: bool,
    /// Print the result without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// A volume to be removed.
#[derive(Debug, Args)]
pub struct Remove {
    /// Volume, or VOLUME@CLASS
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Remove it without asking; needed where there is no terminal
    #[arg(long)]
    pub yes: bool,
    /// Remove it even if clients or scans use it
    #[arg(long)]
    pub force: bool,
    /// Print the result without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// All volumes.
#[derive(Debug, Args)]
pub struct List {
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// One volume.
#[derive(Debug, Args)]
pub struct Show {
    /// Volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let VolumeCommand::Relocate(relocate) = &arguments.order {
        return relocate::run(relocate);
    }
    let (verb, order, server) = match &arguments.order {
        VolumeCommand::Add(add) => {
            let order = VolumeArguments {
                settings: settings(&add.settings, true)?,
                dry_run: add.dry_run,
                ..of(&add.name)
            };
            ("volume.add", order, &add.server)
        }
        VolumeCommand::Set(set) => {
            let Set { cut_data, force, dry_run, .. } = *set;
            (
                "volume.set",
                VolumeArguments {
                    settings: settings(&set.settings, false)?,
                    cut_data,
                    force,
                    dry_run,
                    ..of(&set.name)
                },
                &set.server,
            )
        }
        VolumeCommand::Extend(extend) => {
            let Extend { force, dry_run, .. } = *extend;
            let settings = [("size".to_owned(), extend.size.clone())].into();
            let order = VolumeArguments { settings, force, dry_run, ..of(&extend.name) };
            ("volume.set", order, &extend.server)
        }
        VolumeCommand::Remove(remove) => {
            let Remove { force, dry_run, yes, .. } = *remove;
            if !yes && !dry_run {
                confirm(&remove.name)?;
            }
            (
                "volume.remove",
                VolumeArguments { force, dry_run, ..of(&remove.name) },
                &remove.server,
            )
        }
        VolumeCommand::List(list) => ("volume.list", VolumeArguments::default(), &list.server),
        VolumeCommand::Show(show) => ("volume.show", of(&show.name), &show.server),
        VolumeCommand::Relocate(_) => unreachable!("it has arguments of its own"),
    };
    send(server, verb, &order)
}

/// Sends a verb and prints the answer.
fn send(server: &ServerArguments, verb: &str, order: &impl Serialize) -> Result<(), Failure> {
    answered(server, &ask(&mut server.choice.connect("")?, verb, order)?)
}

/// Prints an answer.
fn answered(server: &ServerArguments, answer: &VolumeAnswer) -> Result<(), Failure> {
    if server.json {
        return print_json(answer);
    }
    print(&text(answer, terminal_size().map_or(usize::MAX, |(columns, _)| columns)))
}

/// Asks at the terminal.
fn confirm(name: &str) -> Result<(), Failure> {
    use std::io::IsTerminal as _;
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(anyhow!(
            "{name} would be removed, and nobody can be asked; add --yes if that is intended, or \
                --dry-run to see the result"
        )));
    }
    prompt(&format!("Remove {name}? Its sectors become free. [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.map_err(|error| Failure::Failed(error.into()))?;
    if matches!(answer.trim(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::usage(anyhow!("nothing was removed")))
}

fn of(name: &str) -> VolumeArguments {
    VolumeArguments { name: name.to_owned(), ..VolumeArguments::default() }
}

/// `KEY=VALUE` each; a first one without `=` is a size where one may stand.
fn settings(
    texts: &[String],
    size: bool,
) -> Result<std::collections::BTreeMap<String, String>, Failure> {
    let pair = |(index, text): (usize, &String)| match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None if size && index == 0 => Ok(("size".to_owned(), text.clone())),
        None => Err(Failure::usage(anyhow!(
            "`{text}` is not a setting; write KEY=VALUE, such as reserve=25%"
        ))),
    };
    let mut settings = std::collections::BTreeMap::new();
    for (key, value) in texts.iter().enumerate().map(pair).collect::<Result<Vec<_>, _>>()? {
        if let Some(before) = settings.insert(key.clone(), value.clone()) {
            return Err(Failure::usage(anyhow!(
                "{key} is given twice, {before} and {value}; write it once"
            )));
        }
    }
    Ok(settings)
}

/// The answer for people, in lines of at most `width` characters where that is possible.
fn text(answer: &VolumeAnswer, width: usize) -> String {
    let mut text = String::new();
    if !answer.volumes.is_empty() {
        let header = [
            "EXPORT", "SIZE", "RESERVE", "LIMIT", "BURST", "WEIGHT", "IOPS", "RATE", "PRIORITY",
            "DEADLINE", "CLIENTS", "",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for volume in &answer.volumes {
            rows.extend(volume.classes.iter().map(|class| row(volume, class)));
        }
        let right = [false, true, true, true, true, true, true, true, false, true, true, false];
        let unset = |column: &usize| rows[1..].iter().all(|row| row[*column] == NONE);
        // Weight, burst, both rates, priority, remarks.
        let settings = [5, 4, 6, 7, 8, 11].into_iter().filter(|column| !unset(column));
        let dispensable: Vec<usize> = (2..10).filter(unset).chain(settings).collect();
        text.push_str(&columns_within(&rows, &right, &dispensable, width));
    }
    answer.volumes.iter().for_each(|of| text.push_str(&extents_text(&of.name, &of.extents)));
    let relocations = answer.volumes.iter().filter_map(|of| of.relocation.as_ref());
    relocations.for_each(|of| text.push_str(&relocation_text(of)));
    let size = ByteSize::new;
    text.push_str(&format!(
        "free: {} (the largest run {}), {} of the drive's time to reserve\n",
        size(answer.free_bytes),
        size(answer.largest_free_bytes),
        percent(answer.free_share_percent)
    ));
    answer.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    if answer.dry_run {
        text.push_str("nothing was changed: this is what would be\n");
    }
    text
}

/// A line with the extents of a volume that has several; nothing for others.
pub(super) fn extents_text(volume: &str, extents: &[ExtentStatus]) -> String {
    if extents.len() < 2 {
        return String::new();
    }
    let extent = |of: &ExtentStatus| Extent::from_numbers(of.first_sector, of.sectors).to_string();
    let all: Vec<String> = extents.iter().map(extent).collect();
    format!("extents of {volume}: {}\n", all.join(", "))
}

/// The cell of a setting that a volume does not have.
const NONE: &str = "–";

fn row(volume: &VolumeStatus, class: &ClassStatus) -> Vec<String> {
    let of = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let time = |seconds: f64| short(&Nanos::from_ns((seconds * 1e9).round() as u64).to_string());
    let own = class.export == volume.name;
    let mut remarks: Vec<String> = Vec::new();
    if own {
        let extents = volume.extents.len();
        remarks.extend((extents > 1).then(|| format!("{extents} extents")));
        remarks.extend(volume.read_only.then(|| "read-only".to_owned()));
        remarks.extend(volume.scans.iter().cloned());
        remarks.extend((!volume.description.is_empty()).then(|| volume.description.clone()));
    }
    vec![
        class.export.clone(),
        if own { ByteSize::new(volume.size_bytes).to_string() } else { String::new() },
        of((class.reserve_percent > 0.0).then(|| percent(class.reserve_percent))),
        of(class.limit_percent.map(percent)),
        of(class.burst_seconds.map(time)),
        of(class.weight.map(|weight| weight.to_string())),
        of(class.iops_limit.map(|iops| iops.to_string())),
        of(class.bandwidth_limit_bytes.map(|bytes| format!("{}/s", ByteSize::new(bytes)))),
        of(class.priority.clone()),
        of(class.deadline_seconds.map(time)),
        class.connections.map_or_else(|| "not served".to_owned(), |clients| clients.to_string()),
        remarks.join(", "),
    ]
}

/// A time without trailing zeroes.
fn short(time: &str) -> String {
    match time.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => time.to_owned(),
    }
}

fn percent(percent: f64) -> String {
    format!("{percent} %")
}

const AFTER_HELP: &str = "\
Examples:
  headtime volume add vm1 200GiB reserve=25% limit=60% --drive /dev/disk/by-id/ata-X
  headtime volume add vm1@bulk limit=10% --config /etc/headtime/headtime.toml
  headtime volume set vm1 reserve=40% --dry-run --control /run/headtime/sdb.control
  headtime volume grow vm1 +100GiB --drive drive.img
  headtime volume relocate vm1 --to start --wait --drive drive.img
  headtime volume remove vm1 --yes --force --drive drive.img

Every change is made wholly or not at all, is in force and on the drive when the program returns, \
and survives a restart; a relocation goes on in the background, and after a restart. \
docs/volumes.md tells more.";

/// The keys, from the table that the reader of configurations uses.
fn long_help() -> String {
    let keys = VOLUME_KEYS.iter().filter(|key| key.name != "name");
    let lines = keys.map(|key| {
        format!("  {}={}\n      {} [default: {}]\n", key.name, key.takes, key.summary, key.default)
    });
    format!("{AFTER_HELP}\n\nSettings:\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_they_were_written() {
        let shown = |ns: u64| short(&Nanos::from_ns(ns).to_string());
        assert_eq!(
            [0, 250_000_000, 1_500_000, 30_000, 2_000_000_000].map(shown),
            ["0 s", "250 ms", "1.5 ms", "30 us", "2 s"]
        );
    }

    #[test]
    fn a_list_fits_a_terminal_without_the_columns_that_no_volume_uses() {
        let class = |export: &str| ClassStatus {
            export: export.to_owned(),
            reserve_percent: 25.0,
            limit_percent: Some(50.0),
            deadline_seconds: Some(0.1),
            connections: Some(2),
            ..ClassStatus::default()
        };
        let volume = |name: &str| VolumeStatus {
            name: name.to_owned(),
            size_bytes: 200 << 30,
            classes: vec![class(name), class(&format!("{name}@realtime"))],
            ..VolumeStatus::default()
        };
        let volumes = ["recorder-of-camera-7", "database-production"].map(volume).into();
        let answer = VolumeAnswer { volumes, ..VolumeAnswer::default() };
        let (narrow, wide) = (text(&answer, 80), text(&answer, usize::MAX));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        for shown in ["recorder-of-camera-7@realtime", "RESERVE", "LIMIT", "DEADLINE", "CLIENTS"] {
            assert!(narrow.contains(shown), "{shown} is not in\n{narrow}");
        }
        assert!(wide.contains("WEIGHT") && !narrow.contains("WEIGHT"), "{wide}");
    }

    #[test]
    fn a_size_may_stand_first_and_everything_else_is_a_pair() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let read = settings(&words(&["10GiB", "reserve=25%"]), true).expect("a size and a pair");
        assert_eq!((read["size"].as_str(), read["reserve"].as_str()), ("10GiB", "25%"));
        assert!(
            settings(&words(&["10GiB"]), false).is_err()
                && settings(&words(&["reserve=1%", "10GiB"]), true).is_err()
        );
        let twice = settings(&words(&["1MiB", "size=2MiB"]), true).expect_err("two sizes");
        let twice = format!("{twice:?}");
        assert!(twice.contains("size is given twice, 1MiB and 2MiB"), "{twice}");
    }
}
