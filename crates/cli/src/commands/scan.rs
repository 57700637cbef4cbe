//! `headtime scan`: scrubs, backups and digests in the time that clients leave, on a running `headtime serve`.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headtime_io::Locator;
use headtime_serve::control::{ControlClient, ControlError, RefusedKind, ScanAnswer, ScanArguments};
use headtime_serve::scans::{RangeList, ScanState, ScanStatus};
use headtime_serve::{config::Config, default_control_socket};
use headtime_tasks::TaskKind;
use headtime_tasks::record::{Record, RecordReader};
use headtime_units::parse_share;
use serde::Serialize;

use crate::Failure;
use crate::commands::check_config;
use crate::output::{print, print_json};

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

/// Which server.
#[derive(Debug, Args)]
pub struct Server {
    /// The server's control socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["drive", "config"])]
    pub control: Option<PathBuf>,
    /// The server's drive, as it was named to `serve`; its control socket is beside it
    #[arg(long, value_name = "LOCATOR", conflicts_with = "config")]
    pub drive: Option<String>,
    /// The server's configuration, which says where the control socket is
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

/// Which scan.
#[derive(Debug, Args)]
pub struct Meant {
    /// The volume, or @drive for the whole drive
    #[arg(value_name = "VOLUME|@drive")]
    pub target: String,
    /// The task: scrub, backup or digest
    #[arg(long, value_parser = task)]
    pub task: TaskKind,
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
    /// Of a scrub: compares a digest of each mebibyte with the last scan's, to find what changed by itself
    #[arg(long)]
    pub digests: bool,
    /// Of a backup: a file that is not there yet, for an image, or a named pipe that somebody reads, for a stream
    #[arg(long, value_name = "PATH")]
    pub to: Option<PathBuf>,
    /// Forgets what is remembered of an earlier one
    #[arg(long)]
    pub anew: bool,
    /// By which part the mean response of clients may grow, from now on, for all scans of the drive, such as 1%
    #[arg(long, value_name = "SHARE")]
    pub max_impact: Option<String>,
    /// Waits until everything is read; the exit code is 1 when it cannot be finished, or something cannot be read or has changed
    #[arg(long)]
    pub wait: bool,
}

/// Which scans are asked about.
#[derive(Debug, Args)]
pub struct Status {
    /// The volume, or @drive for the whole drive; all unless given
    #[arg(value_name = "VOLUME|@drive")]
    pub target: Option<String>,
    /// The task; all unless given
    #[arg(long, value_parser = task)]
    pub task: Option<TaskKind>,
    /// Waits until everything that is meant is read, as `start --wait` does
    #[arg(long)]
    pub wait: bool,
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
        Order::Start(start) => self::start(start),
        Order::Pause(meant) => order("scan.pause", meant),
        Order::Resume(meant) => order("scan.resume", meant),
        Order::Cancel(meant) => order("scan.cancel", meant),
        Order::Status(status) => self::status(status),
        Order::Restore(restore) => self::restore(restore),
    }
}

fn task(name: &str) -> Result<TaskKind, String> {
    name.parse().map_err(|error: headtime_tasks::UnknownTask| error.to_string())
}

fn start(start: &Start) -> Result<(), Failure> {
    let max_impact = start.max_impact.as_deref().map(parse_share).transpose().map_err(|error| Failure::asked(anyhow!("--max-impact: {error}")))?;
    // The server has a working directory of its own.
    let absolute = |path: &PathBuf| std::path::absolute(path).with_context(|| format!("{} is no path", path.display()));
    let arguments = ScanArguments {
        digests: start.digests,
        to: start.to.as_ref().map(absolute).transpose()?,
        anew: start.anew,
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
    let answer = connect(&meant.server)?.scan(verb, &self::meant(meant)).map_err(refused)?;
    show(&answer, meant.server.json)
}

fn status(status: &Status) -> Result<(), Failure> {
    let arguments = ScanArguments { target: status.target.clone(), task: status.task.map(|task| task.name().to_owned()), ..ScanArguments::default() };
    let mut client = connect(&status.server)?;
    if status.wait {
        return wait(&mut client, &arguments, status.server.json);
    }
    show(&client.scan("scan.status", &arguments).map_err(refused)?, status.server.json)
}

fn wait(client: &mut ControlClient, arguments: &ScanArguments, json: bool) -> Result<(), Failure> {
    let answer = loop {
        let answer = client.scan("scan.status", arguments).map_err(refused)?;
        if answer.scans.iter().all(|scan| matches!(scan.state, ScanState::Complete | ScanState::Broken)) {
            break answer;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    show(&answer, json)?;
    let bad: Vec<String> = answer.scans.iter().filter_map(finding).collect();
    if bad.is_empty() { Ok(()) } else { Err(Failure::Failed(anyhow!("{}", bad.join("; ")))) }
}

/// What is wrong at the end of a scan, if anything is.
fn finding(scan: &ScanStatus) -> Option<String> {
    let name = format!("the {} of {}", scan.task, scan.target);
    let changed = scan.digests.as_ref().map_or(0, |digests| digests.changed.sectors);
    match scan.state {
        ScanState::Broken => Some(format!("{name} cannot be finished: {}", scan.reason)),
        _ if scan.errors.sectors > 0 || changed > 0 => {
            Some(format!("{name} found {} sectors that cannot be read and {changed} that have changed by themselves", scan.errors.sectors))
        }
        _ => None,
    }
}

fn meant(meant: &Meant) -> ScanArguments {
    ScanArguments { target: Some(meant.target.clone()), task: Some(meant.task.name().to_owned()), ..ScanArguments::default() }
}

fn connect(server: &Server) -> Result<ControlClient, Failure> {
    let path = control_socket(server)?;
    ControlClient::connect(&path).map_err(|error| Failure::Failed(error.into()))
}

fn control_socket(server: &Server) -> Result<PathBuf, Failure> {
    let no_place = |what: &str| Failure::asked(anyhow!("{what} has no control socket unless `serve` is told of one; name it with --control PATH"));
    if let Some(path) = &server.control {
        return Ok(path.clone());
    }
    if let Some(drive) = &server.drive {
        let locator = Locator::parse(drive).map_err(Failure::asked)?;
        return default_control_socket(&locator).ok_or_else(|| no_place(drive));
    }
    let Some(file) = &server.config else {
        return Err(Failure::asked(anyhow!(
            "which server? Name its control socket (--control PATH), its drive (--drive LOCATOR) or its configuration (--config FILE)"
        )));
    };
    let config: Config = check_config::read(file)?.map_err(Failure::asked)?;
    let beside = config.drive.as_ref().and_then(default_control_socket);
    config.control.path(beside).ok_or_else(|| no_place(&file.display().to_string()))
}

fn refused(error: ControlError) -> Failure {
    match &error {
        ControlError::Refused(refused) if refused.kind == RefusedKind::Asked => Failure::asked(error),
        _ => Failure::Failed(error.into()),
    }
}

fn show(answer: &ScanAnswer, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(answer);
    }
    if answer.scans.is_empty() {
        return print("no scans");
    }
    let mut text = String::new();
    for scan in &answer.scans {
        text.push_str(&lines(scan).join("\n  "));
        text.push('\n');
    }
    text.push_str(&format!("clients' mean response is longer by {:.2} % of at most {:.2} %\n", answer.impact * 100.0, answer.max_impact * 100.0));
    print(&text)
}

/// One scan in a line: how far it is and how fast.
#[must_use]
pub fn line(scan: &ScanStatus) -> String {
    let state = match scan.state {
        ScanState::Running => "running",
        ScanState::Paused => "paused",
        ScanState::Waiting => "waiting",
        ScanState::Complete => "complete",
        ScanState::Broken => "broken",
    };
    let mut first = format!("{} of {}: {state}, {:.1} % of {:.1} MB", scan.task, scan.target, scan.share_done() * 100.0, scan.bytes as f64 / 1e6);
    if scan.state == ScanState::Running {
        first.push_str(&format!(", {:.1} MB/s", scan.bytes_per_second / 1e6));
        if let Some(left) = scan.seconds_left {
            first.push_str(&format!(", {} left", duration(left)));
        }
    }
    if scan.pass > 1 {
        first.push_str(&format!(", pass {}", scan.pass));
    }
    first
}

/// One scan for people: that line, and what else there is to say below it.
fn lines(scan: &ScanStatus) -> Vec<String> {
    let mut lines = vec![line(scan)];
    if !scan.reason.is_empty() {
        lines.push(scan.reason.clone());
    }
    let read: u64 = scan.sources.parts().iter().map(|(_, bytes)| bytes).sum();
    if read > 0 {
        let part = |(name, bytes): (&str, u64)| format!("{name} {:.1} %", bytes as f64 / read as f64 * 100.0);
        lines.push(format!("read in: {}", scan.sources.parts().into_iter().filter(|(_, bytes)| *bytes > 0).map(part).collect::<Vec<_>>().join(", ")));
    }
    if scan.errors.sectors > 0 {
        lines.push(format!("cannot be read: {}", ranges(&scan.errors)));
    }
    if let Some(digests) = &scan.digests {
        let table = digests.table.as_ref().map_or_else(String::new, |table| format!(", all together {table}"));
        lines.push(format!("digests: {} compared with the last pass, {} not compared{table}", digests.compared, digests.not_compared));
        if digests.changed.sectors > 0 {
            lines.push(format!("changed by itself: {}", ranges(&digests.changed)));
        }
    }
    if !scan.output.is_empty() {
        lines.push(format!("into {}", scan.output));
    }
    lines.push(if scan.state_file.is_empty() { "not remembered over a restart".to_owned() } else { format!("remembered in {}", scan.state_file) });
    lines
}

fn ranges(list: &RangeList) -> String {
    let runs: Vec<String> = list.ranges.iter().map(|(start, len)| format!("LBA {start}..+{len}")).collect();
    let more = if list.more > 0 { format!(" and {} more runs", list.more) } else { String::new() };
    format!("{} sectors: {}{more}", list.sectors, runs.join(", "))
}

fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} s"),
        medium if medium < 7200.0 => format!("{:.0} min", medium / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}

#[derive(Serialize)]
struct Restored {
    target: String,
    bytes: u64,
    /// First byte and how many, as they could not be read when the backup was made.
    unreadable: Vec<(u64, u64)>,
}

fn restore(restore: &Restore) -> Result<(), Failure> {
    let restored = restore_image(&restore.stream, &restore.image)?;
    if restore.json {
        return print_json(&restored);
    }
    let mut text = format!("{}: {} bytes of {}\n", restore.image.display(), restored.bytes, restored.target);
    for (offset, len) in &restored.unreadable {
        text.push_str(&format!("could not be read when the backup was made, and is zeroes: {len} bytes from byte {offset}\n"));
    }
    print(&text)
}

/// Makes the image under another name, so that half of one is never taken for a whole.
fn restore_image(stream: &Path, image: &Path) -> anyhow::Result<Restored> {
    let mut from: Box<dyn std::io::Read> = if stream == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(stream).with_context(|| format!("{} cannot be opened", stream.display()))?)
    };
    anyhow::ensure!(!image.exists(), "{} is there already; name another file", image.display());
    let mut part = image.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let cannot_write = || format!("{} cannot be written", part.display());
    let to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part).with_context(cannot_write)?;
    let mut reader = RecordReader::default();
    let mut restored = Restored { target: String::new(), bytes: 0, unreadable: Vec::new() };
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = from.read(&mut buffer).with_context(|| format!("{} cannot be read", stream.display()))?;
        if read == 0 {
            break;
        }
        reader.feed(&buffer[..read]);
        while let Some(record) = reader.next().with_context(|| stream.display().to_string())? {
            match record {
                Record::Header { target, bytes, .. } => {
                    to.set_len(bytes).with_context(cannot_write)?;
                    (restored.target, restored.bytes) = (target, bytes);
                }
                Record::Data { offset, bytes } => to.write_all_at(&bytes, offset).with_context(cannot_write)?,
                Record::Unreadable { offset, len } => restored.unreadable.push((offset, len)),
                // The file is zeroes where nothing is written.
                Record::Zeroes { .. } | Record::Index | Record::End => {}
            }
        }
    }
    anyhow::ensure!(
        reader.is_complete(),
        "{} ends in the middle, so that {} is no backup; take the stream from its beginning to its end",
        stream.display(),
        part.display()
    );
    to.sync_all().with_context(cannot_write)?;
    std::fs::rename(&part, image).with_context(cannot_write)?;
    restored.unreadable.sort_unstable();
    Ok(restored)
}

const AFTER_HELP: &str = "\
Examples:
  headtime scan start vol0 --task scrub --digests --config /etc/headtime/headtime.toml
  headtime scan start vol0 --task backup --to /backup/vol0.img --drive /dev/disk/by-id/ata-X
  headtime scan status --control /run/headtime/sdb.control --json

Tasks: scrub reads everything and tells what cannot be read; backup copies a volume as it is when the scan starts; digest makes a table of digests. docs/scan.md tells more.";
