//! `headtime scan`: scrubs, backups and digests, of the volumes of a running `headtime serve` in
//! the time that clients leave, or of a drive that nobody serves.
//!
//! Which of the two is meant says the command line: with `--control`, `--drive` or `--config` it
//! names a server, and the target is a volume; without, the target is a drive (module `alone`).

mod alone;
mod progress;
mod restore;
mod show;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headtime_serve::control::{ControlClient, ScanAnswer, ScanArguments};
use headtime_serve::scans::ScanState;
use headtime_tasks::TaskKind;
use headtime_units::parse_share;

use crate::commands::control::{ServerChoice, refused};
use headtime_console::Failure;
use show::{finding, show, show_cancelled};

/// Arguments of `headtime scan`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// What to do
    #[command(subcommand)]
    pub order: Order,
}

/// What can be done with scans.
#[derive(Debug, Subcommand)]
pub enum Order {
    /// Starts a scan, lets a paused one go on, does a complete one once more
    Start(Start),
    /// Stops reading for a scan until it is resumed
    Pause(Meant),
    /// Goes on with a paused scan, or tries at once what another waits for
    Resume(Meant),
    /// Ends a scan and forgets it; what a backup has written stays, and is no backup
    Cancel(Meant),
    /// Says how scans are getting on
    Status(Status),
    /// Makes an image of a backup that went into a pipe
    Restore(Restore),
}

/// Which server, and how it is answered.
#[derive(Debug, Args)]
pub struct Server {
    /// Which
    #[command(flatten)]
    pub choice: ServerChoice,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

impl Server {
    /// Whether one is named at all.
    fn is_named(&self) -> bool {
        self.choice.is_named()
    }
}

/// Which scan.
#[derive(Debug, Args)]
pub struct Meant {
    /// A volume of the server that is named, or @drive for all of its drive; where no server is
    /// named, a drive that nobody serves
    #[arg(value_name = "VOLUME|DRIVE")]
    pub target: String,
    /// The task: scrub, backup or digest
    #[arg(long, value_parser = task)]
    pub task: TaskKind,
    /// Of a drive that nobody serves: the directory in which its scans are remembered, or off;
    /// beside the drive unless given
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["control", "drive", "config"])]
    pub state: Option<String>,
    /// Which server
    #[command(flatten)]
    pub server: Server,
}

/// A scan to be started.
#[derive(Debug, Args)]
pub struct Start {
    /// Which scan
    #[command(flatten)]
    pub meant: Meant,
    /// Of a scrub: compares a digest of each mebibyte with the last scan's, to find what changed by
    /// itself
    #[arg(long)]
    pub digests: bool,
    /// Of a backup: a file that is not there yet, for an image, or a named pipe that somebody
    /// reads, for a stream
    #[arg(long, value_name = "PATH")]
    pub to: Option<PathBuf>,
    /// Forgets what is remembered of an earlier one
    #[arg(long)]
    pub again: bool,
    /// By which part the mean response of clients may grow, from now on, for all scans of the
    /// drive, such as 1%
    #[arg(long, value_name = "SHARE")]
    pub max_impact: Option<String>,
    /// Of a drive that nobody serves: what is believed of it, the profile that `headtime
    /// characterize` has written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["control", "drive", "config"])]
    pub profile: Option<String>,
    /// Waits until everything is read, as a scan without a server always does; the exit code is 1
    /// when it cannot be finished, or something cannot be read or has changed
    #[arg(long)]
    pub wait: bool,
}

/// Which scans are asked about.
#[derive(Debug, Args)]
pub struct Status {
    /// A volume of the server that is named, or @drive for all of its drive, all unless given;
    /// where no server is named, a drive that nobody serves
    #[arg(value_name = "VOLUME|DRIVE")]
    pub target: Option<String>,
    /// The task; all unless given
    #[arg(long, value_parser = task)]
    pub task: Option<TaskKind>,
    /// Waits until everything that is meant is read, as `start --wait` does
    #[arg(long)]
    pub wait: bool,
    /// Of a drive that nobody serves: the directory in which its scans are remembered
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["control", "drive", "config"])]
    pub state: Option<String>,
    /// Which server
    #[command(flatten)]
    pub server: Server,
}

/// A stream and what becomes of it.
#[derive(Debug, Args)]
pub struct Restore {
    /// The stream; - for standard input
    #[arg(value_name = "STREAM")]
    pub stream: PathBuf,
    /// The image to make; it must not be there yet
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

/// How often `--wait` looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Does it.
///
/// # Errors
/// When the order makes no sense, no server answers, or the server refuses.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.order {
        Order::Start(start) if !start.meant.server.is_named() => alone::start(start),
        Order::Start(start) => self::start(start),
        Order::Pause(meant) => order("scan.pause", meant),
        Order::Resume(meant) => order("scan.resume", meant),
        Order::Cancel(meant) => order("scan.cancel", meant),
        Order::Status(status) => self::status(status),
        Order::Restore(restore) => restore::run(restore),
    }
}

fn task(name: &str) -> Result<TaskKind, String> {
    name.parse().map_err(|error: headtime_tasks::UnknownTask| error.to_string())
}

fn start(start: &Start) -> Result<(), Failure> {
    let max_impact = start
        .max_impact
        .as_deref()
        .map(parse_share)
        .transpose()
        .map_err(|error| Failure::asked(anyhow!("--max-impact: {error}")))?;
    // The server has a working directory of its own.
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
    };
    let arguments = ScanArguments {
        digests: start.digests,
        to: start.to.as_ref().map(absolute).transpose()?,
        again: start.again,
        max_impact: max_impact.map(headtime_units::Share::as_fraction),
        ..meant(&start.meant)
    };
    let mut client = connect(&start.meant.server)?;
    let answer = client.scan("scan.start", &arguments).map_err(refused)?;
    if start.wait {
        return wait(&mut client, &meant(&start.meant), start.meant.server.json);
    }
    show(&answer, start.meant.server.json)
}

fn order(verb: &str, meant: &Meant) -> Result<(), Failure> {
    if !meant.server.is_named() {
        return alone::order(verb, meant);
    }
    let answer = connect(&meant.server)?.scan(verb, &self::meant(meant)).map_err(refused)?;
    told(verb, &answer, meant.server.json)
}

/// Prints what an order came to.
fn told(verb: &str, answer: &ScanAnswer, json: bool) -> Result<(), Failure> {
    if verb == "scan.cancel" { show_cancelled(answer, json) } else { show(answer, json) }
}

fn status(status: &Status) -> Result<(), Failure> {
    if let Some(drive) = status.target.as_deref().filter(|_| !status.server.is_named()) {
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
        std::thread::sleep(LOOK_EVERY);
    };
    show(&answer, json)?;
    found(&answer)
}

/// Whether nothing more comes of any of these by itself.
fn is_over(answer: &ScanAnswer) -> bool {
    answer.scans.iter().all(|scan| matches!(scan.state, ScanState::Complete | ScanState::Broken))
}

/// What is wrong in the end, if anything is.
fn found(answer: &ScanAnswer) -> Result<(), Failure> {
    let bad: Vec<String> = answer.scans.iter().filter_map(finding).collect();
    if bad.is_empty() { Ok(()) } else { Err(Failure::Failed(anyhow!("{}", bad.join("; ")))) }
}

fn meant(meant: &Meant) -> ScanArguments {
    ScanArguments {
        target: Some(meant.target.clone()),
        task: Some(meant.task.name().to_owned()),
        ..ScanArguments::default()
    }
}

fn connect(server: &Server) -> Result<ControlClient, Failure> {
    server.choice.connect("; or name a drive that nobody serves")
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
