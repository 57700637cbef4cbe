//! `headtime scan`: scrubs, backups and digests of the volumes of a running server, in the time
//! that clients leave, or of a drive that is not being served.
//!
//! With `--control`, `--drive` or `--config` the command addresses a server and the target is a
//! volume. Without them the target is a drive (module `alone`).

mod alone;
mod progress;
mod restore;
mod show;

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headtime_serve::control::{ControlClient, ScanAnswer, ScanArguments};
use headtime_serve::scans::{Repetition, ScanState, Timetable};
use headtime_tasks::TaskKind;
use headtime_units::{ByteRange, parse_share};

use crate::commands::control::{ServerChoice, refused};
use headtime_console::Failure;
use show::{finding, show, show_cancelled};

/// Arguments of `headtime scan`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Action
    #[command(subcommand)]
    pub order: ScanCommand,
}

/// The actions on scans.
#[derive(Debug, Subcommand)]
pub enum ScanCommand {
    /// Start a scan, continue a paused one, or repeat a complete one
    Start(Start),
    /// Change settings of a scan while it runs
    Set(Set),
    /// Pause a scan until it is resumed
    Pause(Meant),
    /// Resume a paused scan, or retry at once what a scan waits for
    Resume(Meant),
    /// Cancel a scan and forget it; the output of an unfinished backup stays, but is not a backup
    Cancel(Meant),
    /// Show the progress of scans
    Status(StatusArguments),
    /// Restore an image from a backup that was written into a pipe
    Restore(Restore),
}

/// The server to address and the form of the output.
#[derive(Debug, Args)]
pub struct ServerArguments {
    /// Server to address
    #[command(flatten)]
    pub choice: ServerChoice,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ServerArguments {
    /// Returns true if a server is named.
    fn is_named(&self) -> bool {
        self.choice.is_named()
    }

    /// Returns true if a server is addressed: one is named, or `target` cannot be a drive and is a
    /// volume of the only server.
    fn is_meant(&self, target: &str) -> bool {
        self.is_named() || !(target.contains(['/', ':']) || std::path::Path::new(target).exists())
    }
}

/// The scan to address.
#[derive(Debug, Args)]
pub struct Meant {
    /// Volume of the named server, or @drive for its whole drive; without a server, a drive that is
    /// not being served
    #[arg(value_name = "VOLUME|DRIVE")]
    pub target: String,
    /// Task: scrub, backup or digest
    #[arg(long, value_parser = task)]
    pub task: TaskKind,
    /// For a drive that is not being served: directory for the state of its scans, or off [default:
    /// beside the drive]
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["control", "drive", "config"])]
    pub state: Option<String>,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// A scan to be started.
#[derive(Debug, Args)]
pub struct Start {
    /// Scan to address
    #[command(flatten)]
    pub meant: Meant,
    /// Bytes to read, as FROM..TO, FROM.. or FROM+LENGTH, such as 10GiB..20GiB [default: all]
    #[arg(long, value_name = "RANGE", value_parser = range)]
    pub range: Option<ByteRange>,
    /// For a scrub: compare a digest of each mebibyte with the last scan's to find silent changes
    #[arg(long)]
    pub digests: bool,
    /// For a backup: a new file for an image, or a named pipe with a reader for a stream
    #[arg(long, value_name = "PATH")]
    pub to: Option<PathBuf>,
    /// Discard the stored state of an earlier scan
    #[arg(long)]
    pub again: bool,
    /// Settings that may change
    #[command(flatten)]
    pub terms: TermArguments,
    /// Wake a drive in standby from now on [default: wait until a client wakes it]
    #[arg(long)]
    pub wake: bool,
    /// Maximum increase of the clients' mean response time by all scans of the drive, such as 1%
    #[arg(long, value_name = "SHARE")]
    pub max_impact: Option<String>,
    /// For a drive that is not being served: its drive model, the profile that `headtime
    /// characterize` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["control", "drive", "config"])]
    pub profile: Option<String>,
    /// Wait until everything is read, as a scan without a server always does; the exit code is 1 if
    /// the scan cannot finish, or if sectors are unreadable or changed
    #[arg(long)]
    pub wait: bool,
}

/// The settings that may change while a scan runs.
#[derive(Debug, Args)]
pub struct TermArguments {
    /// Priority among the scans of the drive, from 0 (most urgent) to 7: gaps and idle time go to
    /// the most urgent scan that can use them [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub priority: Option<u8>,
    /// Windows of local time in which to read, such as 'Mon-Fri 22:00-06:00; Sat,Sun', or none
    /// [default: any time]
    #[arg(long, value_name = "WINDOWS", value_parser = or_none::<Timetable>)]
    pub during: Option<String>,
    /// Time from one start to the next, such as 4w, 1d or 12h, or none [default: one pass]
    #[arg(long, value_name = "TIME", value_parser = or_none::<Repetition>)]
    pub every: Option<String>,
}

/// Settings of a scan to change.
#[derive(Debug, Args)]
pub struct Set {
    /// Scan to address
    #[command(flatten)]
    pub meant: Meant,
    /// Settings
    #[command(flatten)]
    pub terms: TermArguments,
    /// Wake a drive in standby
    #[arg(long, value_name = "true|false")]
    pub wake: Option<bool>,
}

/// The scans to report on.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Volume of the named server, or @drive for its whole drive [default: all]; without a server,
    /// a drive that is not being served
    #[arg(value_name = "VOLUME|DRIVE")]
    pub target: Option<String>,
    /// Task [default: all]
    #[arg(long, value_parser = task)]
    pub task: Option<TaskKind>,
    /// Wait until the addressed scans are complete, as `start --wait` does
    #[arg(long)]
    pub wait: bool,
    /// For a drive that is not being served: directory with the state of its scans
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["control", "drive", "config"])]
    pub state: Option<String>,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

/// A stream and what becomes of it.
#[derive(Debug, Args)]
pub struct Restore {
    /// Stream to read; - for standard input
    #[arg(value_name = "STREAM")]
    pub stream: PathBuf,
    /// Image to create; it must not exist yet
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The polling interval of `--wait`.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.order {
        ScanCommand::Start(start) if !start.meant.server.is_meant(&start.meant.target) => {
            alone::start(start)
        }
        ScanCommand::Start(start) => self::start(start),
        ScanCommand::Set(set) => {
            let arguments = ScanArguments { wake: set.wake, ..set.terms.arguments(&set.meant) };
            order("scan.set", &set.meant, arguments)
        }
        ScanCommand::Pause(meant) => order("scan.pause", meant, self::meant(meant)),
        ScanCommand::Resume(meant) => order("scan.resume", meant, self::meant(meant)),
        ScanCommand::Cancel(meant) => order("scan.cancel", meant, self::meant(meant)),
        ScanCommand::Status(status) => self::status(status),
        ScanCommand::Restore(restore) => restore::run(restore),
    }
}

fn task(name: &str) -> Result<TaskKind, String> {
    name.parse().map_err(|error: headtime_tasks::UnknownTask| error.to_string())
}

/// Checks the text of a setting, or `none`.
fn or_none<T: FromStr<Err: Display>>(text: &str) -> Result<String, String> {
    let checked = if text == "none" { Ok(()) } else { text.parse::<T>().map(drop) };
    checked.map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn range(text: &str) -> Result<ByteRange, String> {
    text.parse().map_err(|error: headtime_units::ParseRangeError| error.to_string())
}

fn start(start: &Start) -> Result<(), Failure> {
    let max_impact = start
        .max_impact
        .as_deref()
        .map(parse_share)
        .transpose()
        .map_err(|error| Failure::usage(anyhow!("--max-impact: {error}")))?;
    // The server has a working directory of its own.
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
    };
    let arguments = ScanArguments {
        range: start.range.map(|range| range.to_string()),
        digests: start.digests,
        to: start.to.as_ref().map(absolute).transpose()?,
        again: start.again,
        wake: start.wake.then_some(true),
        max_impact: max_impact.map(headtime_units::Share::as_fraction),
        ..start.terms.arguments(&start.meant)
    };
    let mut client = connect(&start.meant.server)?;
    let answer = client.scan("scan.start", &arguments).map_err(refused)?;
    if start.wait {
        return wait(&mut client, &meant(&start.meant), start.meant.server.json);
    }
    show(&answer, start.meant.server.json)
}

fn order(verb: &str, meant: &Meant, arguments: ScanArguments) -> Result<(), Failure> {
    if !meant.server.is_meant(&meant.target) {
        return alone::order(verb, meant, arguments);
    }
    let answer = connect(&meant.server)?.scan(verb, &arguments).map_err(refused)?;
    printed(verb, &answer, meant.server.json)
}

/// Prints what an order came to.
fn printed(verb: &str, answer: &ScanAnswer, json: bool) -> Result<(), Failure> {
    if verb == "scan.cancel" { show_cancelled(answer, json) } else { show(answer, json) }
}

fn status(status: &StatusArguments) -> Result<(), Failure> {
    if let Some(drive) = status.target.as_deref().filter(|target| !status.server.is_meant(target)) {
        return alone::status(drive, status);
    }
    let arguments = ScanArguments {
        target: status.target.clone(),
        task: status.task.map(|task| task.name().to_owned()),
        ..ScanArguments::default()
    };
    let mut client = connect(&status.server)?;
    if status.wait {
        return wait(&mut client, &arguments, status.server.json);
    }
    show(&client.scan("scan.status", &arguments).map_err(refused)?, status.server.json)
}

fn wait(client: &mut ControlClient, arguments: &ScanArguments, json: bool) -> Result<(), Failure> {
    let answer = loop {
        let answer = client.scan("scan.status", arguments).map_err(refused)?;
        if is_over(&answer) {
            break answer;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    show(&answer, json)?;
    found(&answer)
}

/// Returns true if none of these scans will progress by itself.
fn is_over(answer: &ScanAnswer) -> bool {
    answer.scans.iter().all(|scan| matches!(scan.state, ScanState::Complete | ScanState::Broken))
}

/// The first problem that the finished scans found, if any.
fn found(answer: &ScanAnswer) -> Result<(), Failure> {
    let bad: Vec<String> = answer.scans.iter().filter_map(finding).collect();
    if bad.is_empty() { Ok(()) } else { Err(Failure::Failed(anyhow!("{}", bad.join("; ")))) }
}

impl TermArguments {
    fn arguments(&self, meant: &Meant) -> ScanArguments {
        ScanArguments {
            priority: self.priority,
            during: self.during.clone(),
            every: self.every.clone(),
            ..self::meant(meant)
        }
    }
}

fn meant(meant: &Meant) -> ScanArguments {
    ScanArguments {
        target: Some(meant.target.clone()),
        task: Some(meant.task.name().to_owned()),
        ..ScanArguments::default()
    }
}

fn connect(server: &ServerArguments) -> Result<ControlClient, Failure> {
    server.choice.connect("; or name a drive that is not being served")
}

const AFTER_HELP: &str = "\
Examples:
  headtime scan start vol0 --task scrub --digests --config /etc/headtime/headtime.toml
  headtime scan start vol0 --task backup --to /backup/vol0.img --drive /dev/disk/by-id/ata-X
  headtime scan status --control /run/headtime/sdb.control --json
  headtime scan start /dev/disk/by-id/ata-X --task scrub        (nobody serves it: reads at full \
  rate until the end, or Ctrl-C)
  headtime scan status /dev/disk/by-id/ata-X                    (from another terminal, or later)

Tasks: scrub reads everything and tells what cannot be read; backup copies a volume as it is when \
the scan starts; digest makes a table of digests. docs/scan.md tells more.";
