//! `headtime serve`: volumes of one drive over NBD.

mod captive;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use headtime_serve::config::{
    CLIENT_KEYS, Config, Flags, Key, LIMIT_KEYS, Listen, MAP_KEYS, SCAN_KEYS, SERVER_KEYS,
    TLS_KEYS, VOLUME_KEYS,
};
use headtime_serve::{Drained, Server, StartError};
use serde::Serialize;
use tempfile::TempDir;

use crate::commands::check_config;
use crate::hangup::Hangups;
use headtime_console::Failure;
use headtime_console::logs::{self, Level};
use headtime_console::monitor::{Monitor, SNAPSHOT_INTERVAL};
use headtime_console::output::{print, print_json};
use headtime_console::stop::Stop;
use headtime_console::view::{Moment, Viewer};

/// Arguments of `headtime serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP, after_long_help = long_help())]
pub struct Arguments {
    /// TOML file with any of the settings; options override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Drive: the path of a block device or file, an NBD URI, or array:DRIVE,DRIVE,…
    #[cfg_attr(feature = "simulation", doc = ", or emulated:PROFILE?backing=FILE")]
    #[arg(long, value_name = "LOCATOR")]
    pub drive: Option<String>,
    /// Create a file of this size if the drive is a path that does not exist
    #[arg(long, value_name = "SIZE")]
    pub create: Option<String>,
    /// Volume to serve, created if the drive does not have it; may be repeated [default: all
    /// volumes of the drive]
    #[arg(long, value_name = "NAME[=SIZE][,KEY=VALUE…]")]
    pub volume: Vec<String>,
    /// Address to listen on: unix:PATH or tcp:HOST:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// Policy, with parameters as NAME:parameter=value,…; see `headtime policies`
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Maximum commands at the drive [default: chosen by the policy]
    #[arg(long, value_name = "N")]
    pub outstanding: Option<String>,
    /// Further tunable of the scheduler, as in `headtime set`; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Drive model to schedule by: profile, matrix, compact, or a latency map in a file, as
    /// matrix:FILE or compact:FILE [default: profile]
    #[arg(long = "model", alias = "belief", value_name = "MODEL[:FILE]")]
    pub belief: Option<String>,
    /// Setting of the latency map; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub map: Vec<String>,
    /// Time after which the requests of an unanswered command fail, such as 10s, or never [default:
    /// 30s]
    #[arg(long, value_name = "TIME")]
    pub command_timeout: Option<String>,
    /// For a raw device: limit of the drive's own command queue
    #[arg(long, value_name = "N")]
    pub queue_depth: Option<String>,
    /// For a raw device: state of the drive's write cache: keep, on or off
    #[arg(long, value_name = "STATE")]
    pub write_cache: Option<String>,
    /// For a raw device: set or keep the kernel's own scheduling; settings are restored at the end
    #[arg(long, value_name = "WHAT")]
    pub kernel_knobs: Option<String>,
    /// Control socket for `headtime scan`, `volume`, `map`, `get`, `set`, `status`, `top`,
    /// `explain` and `reload`, or off [default: beside the drive]
    #[arg(long, value_name = "PATH")]
    pub control: Option<String>,
    /// Directory for the state of scans, or off [default: beside the drive]
    #[arg(long, value_name = "DIRECTORY")]
    pub state: Option<String>,
    /// Maximum increase of the clients' mean response time by scans [default: 1%]
    #[arg(long, value_name = "SHARE")]
    pub max_impact: Option<String>,
    /// Profile of the drive, as `headtime characterize` wrote it
    #[arg(long, value_name = "FILE")]
    pub profile: Option<String>,
    /// HTTP address for /metrics (Prometheus) and /healthz, such as 127.0.0.1:9464
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,
    /// Allow metrics at an address that other machines can reach
    #[arg(long)]
    pub metrics_public: bool,
    /// HTTP address for a live page in a web browser, such as 127.0.0.1:9465
    #[arg(long, value_name = "HOST:PORT")]
    pub web: Option<String>,
    /// Allow the web page at an address that other machines can reach
    #[arg(long)]
    pub web_public: bool,
    /// Limit of the server; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub limit: Vec<String>,
    /// Create a volume table on a drive that holds something else or whose table is damaged. The
    /// drive's content is lost
    #[arg(long)]
    pub initialize: bool,
    /// Serve a drive with other content as it is, and write nothing to it: the whole drive as the
    /// volume `disk`, and each GPT partition as a volume
    #[arg(long, conflicts_with_all = ["initialize", "create"])]
    pub existing: bool,
    /// Write nothing to the drive, which may be write-protected; all volumes are read-only
    #[arg(long, conflicts_with_all = ["initialize", "create"])]
    pub read_only: bool,
    /// Share of the drive's time that volumes cannot reserve [default: 0%]
    #[arg(long, value_name = "SHARE")]
    pub unreserved: Option<String>,
    /// Show a live view of the volumes while serving
    #[arg(long)]
    pub view: bool,
    /// Print only the URIs of the exports
    #[arg(long, conflicts_with_all = ["json", "view"])]
    pub print_uri: bool,
    /// Print JSON: one object when clients may connect, one at the end
    #[arg(long, conflicts_with = "view")]
    pub json: bool,
    /// Run a shell command when clients may connect, and stop when it ends, with its exit code.
    /// Its environment has the URI of the first export in `uri` and those of all in `uris`. Without
    /// an address to listen on, a temporary unix socket is used
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["json", "print_uri", "view"])]
    pub run: Option<String>,
    /// Log level on standard error; nothing is logged while the live view uses the terminal
    #[arg(long, value_enum, default_value_t = Level::Warn)]
    pub log: Level,
}

/// The time that clients have to finish requests in flight when the server stops.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// Serves until SIGTERM or SIGINT, then drains.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = arguments.run.as_ref().map(|_| tempfile::tempdir()).transpose();
    let folder = folder.context("a folder for the socket of --run cannot be made")?;
    let config = config(arguments, folder.as_ref().map(TempDir::path))?;
    let drained = if arguments.view {
        view(&config, arguments)?
    } else {
        logs::start(arguments.log);
        // Before the server is there, so that no signal finds the program unprepared.
        let stop = Stop::on_signals()?;
        let hangups = Hangups::caught()?;
        let server = Server::start(&config).map_err(start_failure)?;
        reread_config(&server, arguments, folder.as_ref().map(TempDir::path));
        let reloader = server.reloader();
        hangups.answer(move || reloader.on_hangup())?;
        if let Some(command) = &arguments.run {
            let ran = captive::run(command, &server, &stop);
            return ran.and(outcome(&server.drain(DRAIN)));
        }
        if arguments.print_uri {
            let uris: Vec<String> = server.uris().into_iter().map(|export| export.uri).collect();
            print(&uris.join("\n"))?;
        } else {
            print_exports(&server, arguments.json)?;
        }
        let stats = server.stats();
        stop.wait_for_it();
        let drained = server.drain(DRAIN);
        tell_end(&stats.snapshot(), &drained, arguments)?;
        drained
    };
    outcome(&drained)
}

/// The configuration from file and flags. Without an address to listen at, there is a socket in
/// `folder`.
pub(crate) fn config(arguments: &Arguments, folder: Option<&Path>) -> Result<Config, Failure> {
    let mut config = match &arguments.config {
        Some(file) => check_config::read(file)?.map_err(Failure::usage)?,
        None => Config::default(),
    };
    let flags = Flags {
        keys: flagged(arguments),
        tunables: arguments.set.clone(),
        map: arguments.map.clone(),
        volumes: arguments.volume.clone(),
        limits: arguments.limit.clone(),
    };
    config.apply(&flags).map_err(Failure::usage)?;
    if let Some(folder) = folder.filter(|_| config.listen.is_empty()) {
        let socket = format!("unix:{}", folder.join("nbd.sock").display());
        config.listen.push(Listen::parse(&socket).map_err(Failure::usage)?);
    }
    config.check().map_err(Failure::usage)?;
    Ok(config)
}

/// The keys of the configuration that are set by flags.
fn flagged(arguments: &Arguments) -> Vec<(&'static str, String)> {
    let texts = [
        ("drive", &arguments.drive),
        ("create", &arguments.create),
        ("policy", &arguments.policy),
        ("outstanding", &arguments.outstanding),
        ("model", &arguments.belief),
        ("command_timeout", &arguments.command_timeout),
        ("queue_depth", &arguments.queue_depth),
        ("write_cache", &arguments.write_cache),
        ("kernel_knobs", &arguments.kernel_knobs),
        ("control", &arguments.control),
        ("state", &arguments.state),
        ("max_impact", &arguments.max_impact),
        ("unreserved", &arguments.unreserved),
        ("profile", &arguments.profile),
        ("metrics", &arguments.metrics),
        ("web", &arguments.web),
    ];
    let switches = [
        ("initialize", arguments.initialize),
        ("existing", arguments.existing),
        ("read_only", arguments.read_only),
        ("metrics_public", arguments.metrics_public),
        ("web_public", arguments.web_public),
    ];
    let texts = texts.into_iter().filter_map(|(key, text)| Some((key, text.clone()?)));
    let listen = arguments.listen.iter().map(|address| ("listen", address.clone()));
    let switches = switches.into_iter().filter(|(_, on)| *on);
    texts.chain(listen).chain(switches.map(|(key, _)| (key, "true".to_owned()))).collect()
}

/// Has a reload read the file of the configuration again, if there is one.
fn reread_config(server: &Server, arguments: &Arguments, folder: Option<&Path>) {
    if arguments.config.is_none() {
        return;
    }
    let (arguments, folder) = (arguments.clone(), folder.map(Path::to_owned));
    server.reloader().reread_config(move || {
        config(&arguments, folder.as_deref()).map_err(|failure| failure.message())
    });
}

/// Serves with the live view; leaves the terminal as it was before anything else is printed.
fn view(config: &Config, arguments: &Arguments) -> Result<Drained, Failure> {
    let stop = Stop::on_signals()?;
    let mut viewer = Viewer::for_stdout()?;
    logs::start(if matches!(viewer, Viewer::Screen(_)) { Level::Off } else { arguments.log });
    let server = Server::start(config).map_err(start_failure)?;
    reread_config(&server, arguments, None);
    let stats = server.stats();
    let names: Vec<String> =
        stats.snapshot().volumes.iter().map(|volume| volume.name.clone()).collect();
    let mut monitor = Monitor::new(stats.snapshot(), &names);
    let drive = config.drive.as_ref().map_or_else(String::new, ToString::to_string);
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    while !stop.wait(SNAPSHOT_INTERVAL) && !viewer.stop_asked()? {
        if monitor.take(stats.snapshot()) {
            viewer.show(&Moment {
                title: format!("headtime serve  {drive}"),
                elapsed_seconds: monitor.seconds(),
                total_seconds: None,
                drive: monitor.drive_last_second().clone(),
                volumes: monitor.live().to_vec(),
                scans: monitor.scans(),
                footer: format!("{}   q stops", addresses.join("  ")),
            })?;
        }
    }
    drop(viewer);
    Ok(server.drain(DRAIN))
}

#[derive(Serialize)]
struct Serving {
    event: &'static str,
    exports: Vec<ExportLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    web: Option<String>,
}

#[derive(Serialize)]
struct ExportLine {
    export: String,
    uri: String,
}

/// Sorts the errors of starting a server into an invalid configuration and failures.
pub(crate) fn start_failure(error: StartError) -> Failure {
    match error {
        error if error.is_usage() => Failure::usage(error),
        other => Failure::Failed(anyhow::Error::new(other).context("the server does not start")),
    }
}

/// Tells where the exports are.
pub(crate) fn print_exports(server: &Server, json: bool) -> Result<(), Failure> {
    let exports: Vec<ExportLine> = server
        .uris()
        .into_iter()
        .map(|export| ExportLine { export: export.export, uri: export.uri })
        .collect();
    if json {
        return print_json(&Serving { event: "serving", exports, web: server.web_page() });
    }
    let mut text = String::new();
    for export in &exports {
        text.push_str(&format!("serving {} at {}\n", export.export, export.uri));
    }
    if exports.is_empty() {
        text.push_str("serving no volume yet; create one: headtime volume add NAME SIZE");
        match server.control_socket() {
            Some(socket) => {
                // Another command may run in another directory.
                let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
                text.push_str(&format!(" --control {}\n", socket.display()));
            }
            None => text.push_str(", which needs a control socket (--control PATH)\n"),
        }
    }
    let kept = server
        .volumes()
        .iter()
        .filter(|report| report.ensured.is_none())
        .map(|report| report.volume.name.as_str())
        .collect::<Vec<_>>();
    if let Some(page) = server.web_page() {
        text.push_str(&format!("web page at {page}\n"));
    }
    if !kept.is_empty() {
        text.push_str(&format!("also on the drive, but not served: {}\n", kept.join(", ")));
    }
    print(&text)
}

/// The requests served, one line for each volume.
fn tell_end(
    stats: &headtime_serve::StatsSnapshot,
    drained: &Drained,
    arguments: &Arguments,
) -> Result<(), Failure> {
    if arguments.print_uri {
        return Ok(());
    }
    if arguments.json {
        let volumes: Vec<serde_json::Value> = stats
            .volumes
            .iter()
            .map(|volume| {
                serde_json::json!({
                    "name": volume.name,
                    "reads": volume.reads.requests,
                    "writes": volume.writes.requests,
                    "errors": volume.reads.errors + volume.writes.errors + volume.others.errors,
                    "deadline_requests": volume.deadline_requests,
                    "deadline_misses": volume.deadline_misses,
                })
            })
            .collect();
        return print_json(&serde_json::json!({
            "event": "ended",
            "volumes": volumes,
            "durable": drained.durable,
            "cut_connections": drained.cut_connections,
        }));
    }
    let mut text = String::new();
    for volume in &stats.volumes {
        text.push_str(&format!(
            "{}: {} reads, {} writes",
            volume.name, volume.reads.requests, volume.writes.requests
        ));
        if volume.deadline.is_some() || volume.deadline_requests > 0 {
            text.push_str(&format!(
                ", {} of {} deadlines missed",
                volume.deadline_misses, volume.deadline_requests
            ));
        }
        text.push('\n');
    }
    if text.is_empty() { Ok(()) } else { print(&text) }
}

/// Success for a clean end, otherwise what was left.
pub(crate) fn outcome(drained: &Drained) -> Result<(), Failure> {
    if drained.exit_code() == 0 {
        return Ok(());
    }
    let durable = if drained.durable {
        "everything answered is durable"
    } else {
        "the drive could not make everything durable"
    };
    Err(Failure::Failed(anyhow!(
        "{} connections were cut with requests in flight; {durable}",
        drained.cut_connections
    )))
}

const AFTER_HELP: &str = "\
Example:
  headtime serve --drive 'emulated:nearline-20tb?backing=/tmp/drive.img' \\
                 --volume rec=100GiB,deadline=100ms --volume db=1TiB \\
                 --policy headtime --listen unix:/tmp/headtime.sock

SIGTERM or SIGINT drains: no new requests, those in flight finish, everything is made durable; a
second signal ends at once. SIGHUP makes the server read the files of TLS and the scans of its \
configuration again, unless --view has the terminal. `--help` lists the keys of file, volumes and \
limits.";

/// The keys of the configuration, from the tables that the reader of configurations uses.
fn long_help() -> String {
    let mut text = format!(
        "{AFTER_HELP}\n\nKeys of the configuration file, at its top:\n{}",
        keys(SERVER_KEYS)
    );
    text.push_str(&format!(
        "\nKeys of a volume, in [[volume]] or after --volume NAME=SIZE,:\n{}",
        keys(VOLUME_KEYS)
    ));
    text.push_str(&format!(
        "\nKeys of a scan that starts with the server, in [[scan]] (docs/scan.md):\n{}",
        keys(SCAN_KEYS)
    ));
    text.push_str(&format!("\nKeys of [map], or of --map:\n{}", keys(MAP_KEYS)));
    text.push_str(&format!("\nKeys of [limits], or of --limit:\n{}", keys(LIMIT_KEYS)));
    text.push_str(&format!(
        "\nKeys of [tls], which stand in the file alone (docs/tls.md):\n{}",
        keys(TLS_KEYS)
    ));
    text.push_str(&format!("\nKeys of a client, in [[client]]:\n{}", keys(CLIENT_KEYS)));
    text
}

fn keys<T>(keys: &[Key<T>]) -> String {
    keys.iter()
        .map(|key| {
            format!(
                "  {} = {}\n      {} [default: {}]\n",
                key.name, key.takes, key.summary, key.default
            )
        })
        .collect()
}
