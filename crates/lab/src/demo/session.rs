//! The run of one policy: a fresh drive, a server in front of it, the load, and the measurements.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use headtime_io::{EmulatedLocator, Locator, ProfileSource};
use headtime_mechanics::NoiseLevel;
use headtime_nbd::uri::{Address, NbdUri};
use headtime_serve::config::{Config, Listen};
use headtime_serve::volumes::{SettingsChange, VolumeSpec};
use headtime_serve::{Server, StartError};
use headtime_units::Share;

use super::{DemoPolicy, DemoShares, Plan};
use crate::load::Generator;
use crate::report::{ClientFigures, PolicyRun, VolumeRun};
use headtime_console::figures::DriveFigures;
use headtime_console::monitor::{Monitor, SNAPSHOT_INTERVAL};
use headtime_console::stop::Stop;
use headtime_console::view::{Moment, Viewer};

/// The environment of a session.
pub struct Surroundings<'a> {
    /// The generator of the load.
    pub generator: &'a Generator,
    /// The duration of the load.
    pub duration: Duration,
    /// The folder for the drive's bytes; its content is left to the caller to remove.
    pub folder: &'a Path,
    /// The address of the live web page; `None` for no page.
    pub web: Option<&'a str>,
    /// The request to stop early.
    pub stop: &'a Stop,
    /// `2 of 2`, for the title.
    pub turn: String,
}

/// The results of a session.
pub struct DemoSession {
    /// The measurements.
    pub run: PolicyRun,
    /// The start of each volume on the drive, in bytes.
    pub starts: Vec<(String, u64)>,
}

/// Serves `plan`'s drive under `policy`, loads it, and returns the measurements; the run is shorter
/// if it was stopped.
///
/// # Errors
/// When the drive cannot be served, the load cannot be generated, or the server does not end
/// cleanly.
pub fn run(
    plan: &Plan,
    policy: &DemoPolicy,
    around: &Surroundings<'_>,
    viewer: &mut Viewer,
) -> anyhow::Result<DemoSession> {
    // A socket's path may have 107 bytes, and the folder's alone may be longer.
    let socket_folder = tempfile::Builder::new()
        .prefix("headtime-demo-")
        .tempdir()
        .context("no temporary folder for the socket")?;
    let socket = socket_folder.path().join("nbd.sock");
    let config = config(plan, policy, around, &socket);
    let server = match Server::start(&config) {
        Err(StartError::Http(refused)) => {
            viewer.say(&format!("no live web page: {refused}"));
            Server::start(&Config { web: None, ..config })
        }
        started => started,
    };
    let server = server.context("the demo's drive cannot be served")?;
    let page = server.web_page();
    if let Some(page) = &page {
        viewer.say(&format!("live web page: {page}"));
    }
    let address = Address::Unix {
        socket: socket
            .to_str()
            .context("the temporary folder's name is no UTF-8; set TMPDIR to another")?
            .to_string(),
    };
    let starts = starts(&server, plan);
    let stats = server.stats();
    let names: Vec<String> = plan.loads.iter().map(|load| load.volume.to_string()).collect();
    let to_server = NbdUri { address, export: String::new() };
    let mut load = around.generator.start(
        &plan.loads,
        &to_server,
        around.duration,
        plan.seed,
        around.folder,
    )?;
    let began = Instant::now();
    // Clients take a moment to connect and to leave: measuring begins with the first request and
    // lasts for the given duration.
    while stats.snapshot().volumes.iter().all(|volume| volume.in_flight == 0)
        && !load.is_over()?
        && !around.stop.wait(START_SNAPSHOT_INTERVAL)
    {}
    let mut monitor = Monitor::new(stats.snapshot(), &names);
    while !load.is_over()? && !around.stop.wait(SNAPSHOT_INTERVAL) {
        if monitor.seconds() < around.duration.as_secs_f64() && monitor.take(stats.snapshot()) {
            viewer.show(&moment(plan, &monitor, around, page.as_deref()))?;
        }
        if viewer.stop_asked()? {
            around.stop.raise();
        }
        if began.elapsed() > around.duration + TOO_LATE {
            bail!("the load did not end {} s after its time", TOO_LATE.as_secs());
        }
    }
    let clients = load.finish()?;
    let drained = server.drain(Duration::from_secs(20));
    if !drained.durable && !around.stop.is_raised() {
        bail!("the drive could not make everything durable at the end of the demo");
    }
    let mut drive = monitor.drive();
    if let Some(emulation) = drained.drive.emulation {
        drive.lateness = Some(headtime_console::monitor::lateness(&emulation));
    }
    Ok(DemoSession { run: policy_run(&monitor, drive, policy, &clients), starts })
}

fn config(plan: &Plan, policy: &DemoPolicy, around: &Surroundings<'_>, socket: &Path) -> Config {
    let (profile, setup) = plan
        .drive
        .rsplit_once('@')
        .map_or((plan.drive.as_str(), None), |(profile, setup)| (profile, Some(setup)));
    let emulated = EmulatedLocator {
        profile: ProfileSource::of(profile),
        setup: setup.map(str::to_string),
        backing: around.folder.join("drive.img"),
        seed: Some(plan.seed),
        noise: NoiseLevel::default(),
        standby: None,
        smr: None,
    };
    let volumes = plan.loads.iter().map(|load| VolumeSpec {
        name: load.volume.to_string(),
        size: Some(load.size),
        settings: SettingsChange {
            deadline: Some(load.deadline),
            reserve: (policy.shares == DemoShares::Reserved && load.reserve != Share::NONE)
                .then_some(load.reserve),
            ..SettingsChange::default()
        },
    });
    Config {
        drive: Some(Locator::Emulated(emulated)),
        policy: policy.choice.clone(),
        listen: vec![Listen::Unix { path: socket.to_path_buf(), mode: 0o600, tls: None }],
        volumes: volumes.collect(),
        web: around.web.map(str::to_owned),
        ..Config::default()
    }
}

/// The first byte of each of the plan's volumes.
fn starts(server: &Server, plan: &Plan) -> Vec<(String, u64)> {
    let of_one = |report: &headtime_serve::VolumeReport| {
        // Size in bytes over length in sectors is the sector's size.
        let (extents, size) = (&report.volume.extents, report.size.get());
        let sector = size.checked_div(extents.sectors().get())?;
        plan.loads
            .iter()
            .any(|load| load.volume == report.volume.name)
            .then(|| (report.volume.name.clone(), extents.start().get() * sector))
    };
    server.volumes().iter().filter_map(of_one).collect()
}

fn moment(plan: &Plan, monitor: &Monitor, around: &Surroundings<'_>, page: Option<&str>) -> Moment {
    let source = around.generator.source();
    Moment {
        title: format!("headtime demo  {}  policy {}", plan.drive, around.turn),
        elapsed_seconds: monitor.seconds(),
        total_seconds: Some(around.duration.as_secs_f64()),
        drive: monitor.drive_last_second().clone(),
        volumes: monitor.live().to_vec(),
        scans: Vec::new(),
        footer: format!(
            "loaded by {} {}   {}   q stops",
            source.name,
            source.version,
            page.unwrap_or("no web page")
        ),
    }
}

fn policy_run(
    monitor: &Monitor,
    drive: DriveFigures,
    policy: &DemoPolicy,
    clients: &[Option<ClientFigures>],
) -> PolicyRun {
    let volumes = monitor.live().iter().zip(clients).map(|(live, client)| VolumeRun {
        name: live.name.clone(),
        totals: monitor.totals(&live.name),
        client: *client,
        samples: monitor.samples(&live.name).to_vec(),
        heat: monitor.heat(&live.name).to_vec(),
        response_cdf: monitor.response_cdf(&live.name),
    });
    PolicyRun {
        policy: policy.text.clone(),
        summary: match policy.shares {
            DemoShares::None => policy.choice.entry().summary.to_string(),
            DemoShares::Reserved => {
                "the same policy, and the volumes have reserved disk time".into()
            }
        },
        outstanding_limit: None,
        outstanding_mean: drive.outstanding,
        seconds: monitor.seconds(),
        utilization: drive.utilization,
        disk_time: drive.disk_time,
        lateness: drive.lateness,
        belief: drive.belief,
        volumes: volumes.collect(),
    }
}

/// The polling interval for the first request.
const START_SNAPSHOT_INTERVAL: Duration = Duration::from_millis(5);
/// The time after the end of a load at which it is abandoned; longer than fio's own grace period.
const TOO_LATE: Duration = Duration::from_secs(60);
