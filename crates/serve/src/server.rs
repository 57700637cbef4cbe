//! The life of a server: opened, serving, drained.
//!
//! ```text
//! start ─► bind sockets ─► open drive ─► table of volumes ─► accept ─► … ─► drain ─► flush ─► close drive
//! ```
//! [`Server`] has threads of its own and can be used from any code that may block. Sockets are
//! bound before the drive is touched, so that what is most likely to be wrong is found before
//! anything is written, and accept only when everything is ready.

mod accept;
mod contents;
mod drive;
mod errors;
mod signals;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use headtime_io::{Drive, DriveHandle, DriveSnapshot, Locator, OpenError, PolicyChoice};
use headtime_nbd::server::TlsPolicy;
use headtime_units::ByteSize;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::config::{Config, Listen};
use crate::connection::{Hub, Phase};
use crate::control::{ControlHandler, ServerParts, answer_clients};
use crate::default_paths::default_state_directory;
use crate::export::Blocks;
use crate::fair_semaphore::FairSemaphore;
use crate::listener::{Listener, uri};
use crate::maps::MapKeeper;
use crate::memory;
use crate::metrics::MetricsDoor;
use crate::notify;
use crate::reload::Reloader;
use crate::scans::Scans;
use crate::stats::{Gauges, Stats};
use crate::status::StatusSource;
use crate::tls::{Permissions, Tls, TlsConfig, TlsError};
use crate::tuner::{TuneError, Tuner};
use crate::volumes::{TableState, VolumeSpec, Volumes};

pub use contents::VolumeReport;
pub use errors::StartError;

pub(crate) use accept::{ACCEPT_PAUSE, CONTROL_MODE};
pub(crate) use contents::Serving;
pub(crate) use drive::open_drive;

use accept::{accept, open_control_socket};
use contents::{Contents, OpenedDrive, request_bytes};
use drive::drive_options;
use signals::{SignalAction, Signals};

/// A running server.
pub struct Server {
    runtime: Runtime,
    hub: Arc<Hub>,
    phase: watch::Sender<Phase>,
    doors: Vec<JoinHandle<()>>,
    addresses: Vec<Listen>,
    metrics_address: Option<SocketAddr>,
    stats: Arc<Stats>,
    volumes: Vec<VolumeReport>,
    opening: Option<TableState>,
    free: ByteSize,
    scans: Arc<Scans>,
    orders: Arc<Volumes>,
    tuner: Arc<Tuner>,
    maps: Arc<MapKeeper>,
    /// Saves the map every so often, where it is saved by itself.
    saver: Option<JoinHandle<()>>,
    /// Answers at the control socket, where there is one.
    control: Option<(PathBuf, JoinHandle<()>)>,
    drive: Drive,
}

/// An export and where it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportUri {
    /// The export's name.
    pub export: String,
    /// Where, such as `nbd+unix:///rec?socket=/run/headtime.sock`.
    pub uri: String,
}

/// How a server ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Drained {
    /// Connections that still had something in flight when the time was over, and were cut.
    pub cut_connections: usize,
    /// Whether everything that was answered is durable.
    pub durable: bool,
    /// How the drive was at the end.
    pub drive: DriveSnapshot,
}

/// Threads for sockets. One moves more bytes than any disk has, and two wake each other: with 64
/// requests of 4 KiB in flight on a drive in memory two answered 71,000 a second, one 88,000.
const THREADS: usize = 1;
/// What a connection that is told to leave at once may still take.
pub(crate) const LEAVING: Duration = Duration::from_secs(1);

impl Server {
    /// Starts what `config` says.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: &Config) -> Result<Self, StartError> {
        config.check()?;
        let wanted: Vec<VolumeSpec> =
            config.volumes.iter().map(crate::config::VolumeConfig::wanted).collect();
        Self::open(config, &Serving::Volumes { wanted: &wanted, initialize: config.initialize })
    }

    /// Serves a drive that the caller has opened, with everything else as `config` says. What
    /// `config` says of drive, policy and drive bounds is not used, but for the drive's name in
    /// messages. The server closes the drive in the end.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_on(drive: Drive, config: &Config) -> Result<Self, StartError> {
        let named =
            config.drive.clone().unwrap_or_else(|| Locator::Path("(opened by the caller)".into()));
        let config = Config { drive: Some(named), ..config.clone() };
        config.check()?;
        let wanted: Vec<VolumeSpec> =
            config.volumes.iter().map(crate::config::VolumeConfig::wanted).collect();
        Self::open_on(
            &config,
            &Serving::Volumes { wanted: &wanted, initialize: config.initialize },
            |_| Ok(drive),
        )
    }

    pub(crate) fn open(config: &Config, serving: &Serving<'_>) -> Result<Self, StartError> {
        Self::open_on(config, serving, |locator| open_drive(locator, &drive_options(config)))
    }

    /// Opens the drive only when everything before that succeeded.
    fn open_on(
        config: &Config,
        serving: &Serving<'_>,
        open_drive: impl FnOnce(&Locator) -> Result<Drive, OpenError>,
    ) -> Result<Self, StartError> {
        let locator = config.drive.as_ref().expect("a checked configuration names a drive");
        let limits = &config.limits;
        let nbd_limits = Hub::nbd_limits(limits);
        nbd_limits.check()?;
        let tls = config.tls.certificate.as_ref().map(|_| open_tls(&config.tls)).transpose()?;
        let there_is_tls = tls.is_some();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("headtime-serve")
            .enable_all()
            .build();
        let runtime = runtime.map_err(StartError::Threads)?;
        let listeners = {
            let _inside = runtime.enter();
            config.listen.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?
        };
        let (control, metrics) = {
            let _inside = runtime.enter();
            let metrics = config
                .metrics
                .as_ref()
                .map(|address| MetricsDoor::bind(address, config.metrics_public))
                .transpose()?;
            (open_control_socket(config, locator)?, metrics)
        };
        let metrics_address = metrics.as_ref().and_then(|door| door.address().ok());
        let drive = open_drive(locator)
            .map_err(|error| StartError::Drive { locator: locator.to_string(), error })?;
        let disk = Arc::new(drive.handle());
        let contents = Contents::of(&disk, serving, limits)
            .map_err(|error| StartError::Volumes { locator: locator.to_string(), error })?;
        if contents.exports.all().is_empty() {
            return Err(StartError::NoVolumes { locator: locator.to_string() });
        }
        let (phase, phase_seen) = watch::channel(Phase::Running);
        let exports = Arc::new(contents.exports);
        let hub = Arc::new(Hub {
            pool: memory::pool(limits, exports.count()),
            places: FairSemaphore::new(limits.pieces, limits.pieces / 2, exports.count()),
            doors: FairSemaphore::new(limits.connections, limits.connections / 2, exports.count()),
            arrivals: Arc::default(),
            exports,
            disk,
            tls,
            permissions: Permissions::new(config.clients.clone()),
            limits: limits.clone(),
            nbd_limits,
            phase: phase_seen,
            connections: AtomicUsize::new(0),
        });
        let targets = contents
            .told
            .volumes
            .iter()
            .map(|report| (report.volume.name.clone(), report.volume.extent))
            .collect();
        let state = config.state.path(default_state_directory(locator));
        // Before a client is let in: a backup that goes on must see what is overwritten from here
        // on.
        let scans = Arc::new(Scans::open(
            drive.handle(),
            contents.told.drive,
            targets,
            state,
            config.max_impact.0,
        ));
        let stats = Arc::new(stats(&hub, drive.handle(), Arc::clone(&scans)));
        let named = config.volumes.iter().map(|volume| volume.name.clone()).collect();
        let blocks =
            Blocks { physical: hub.disk.physical_block(), request_bytes: request_bytes(limits) };
        let orders = Arc::new(Volumes::new(
            Arc::clone(&hub.disk),
            Arc::clone(&hub.exports),
            Arc::clone(&scans),
            blocks,
            named,
            contents.store,
        ));
        // Before a client is let in, too.
        let configured = config.configured();
        let begun = Tuner::begin(
            &configured,
            config.state.path(default_state_directory(locator)).as_deref(),
            contents.told.drive,
        );
        let tuner = Arc::new(Tuner::of(drive.handle(), configured, begun));
        let maps = Arc::new(MapKeeper::new(drive.handle(), config.map_saving));
        let saver =
            maps.saves_every().map(|every| runtime.spawn(save_maps(Arc::clone(&maps), every)));
        let status = StatusSource {
            locator: locator.to_string(),
            drive: drive.handle(),
            stats: Arc::clone(&stats),
            scans: Arc::clone(&scans),
            tuner: Arc::clone(&tuner),
            maps: Arc::clone(&maps),
            exports: Arc::clone(&hub.exports),
        };
        let server = ServerParts {
            tuner: Arc::clone(&tuner),
            maps: Arc::clone(&maps),
            volumes: Arc::clone(&orders),
            stats: Arc::clone(&stats),
            status,
            reloader: Reloader::new(hub.tls.clone()),
        };
        let handler = Arc::new(ControlHandler::of_server(Arc::clone(&scans), server));
        let control = control
            .map(|(path, listener)| (path, runtime.spawn(answer_clients(listener, handler))));
        let addresses: Vec<Listen> =
            listeners.iter().map(|listener| listener.address().clone()).collect();
        for open_door in listeners.iter().filter(|listener| {
            !listener.is_local() && listener.address().tls(there_is_tls) != TlsPolicy::Require
        }) {
            tracing::warn!(
                "{}: whoever reaches this address may read and write what is not kept for others, \
                    and everything can be read on the way; add tls=require",
                open_door.address()
            );
        }
        let slots = Arc::new(Semaphore::new(limits.connections as usize));
        let streams = Arc::new(AtomicU32::new(1));
        let open_door = |listener: Listener| {
            let tls = listener.address().tls(there_is_tls);
            runtime.spawn(accept(
                listener,
                tls,
                Arc::clone(&hub),
                Arc::clone(&slots),
                Arc::clone(&streams),
            ))
        };
        let metrics = metrics.map(|door| runtime.spawn(door.answer(Arc::clone(&stats))));
        let doors = listeners.into_iter().map(open_door).chain(metrics).collect();
        notify::ready();
        let OpenedDrive { volumes, opening, free, drive: _ } = contents.told;
        Ok(Self {
            runtime,
            hub,
            phase,
            doors,
            addresses,
            metrics_address,
            stats,
            volumes,
            opening,
            free,
            scans,
            orders,
            tuner,
            maps,
            saver,
            control,
            drive,
        })
    }

    /// Where clients are awaited, with ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Where figures are given out, if anywhere.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Every export at every address.
    #[must_use]
    pub fn uris(&self) -> Vec<ExportUri> {
        let there_is_tls = self.hub.tls.is_some();
        let of = |address: &Listen, name: &str| {
            let plain = uri(address, name).to_string();
            let uri = if address.tls(there_is_tls) == TlsPolicy::Require {
                plain.replacen("nbd", "nbds", 1)
            } else {
                plain
            };
            ExportUri { export: name.to_string(), uri }
        };
        let exports = self.hub.exports.all();
        self.addresses
            .iter()
            .flat_map(|address| exports.iter().map(move |export| of(address, &export.name)))
            .collect()
    }

    /// All volumes on the drive by address as they were at the start; empty when the whole drive is
    /// served.
    #[must_use]
    pub fn volumes(&self) -> &[VolumeReport] {
        &self.volumes
    }

    /// What the drive's table of volumes was like; `None` when the whole drive is served.
    #[must_use]
    pub fn opening(&self) -> Option<&TableState> {
        self.opening.as_ref()
    }

    /// What is not allocated on the drive.
    #[must_use]
    pub fn free(&self) -> ByteSize {
        self.free
    }

    /// The server's figures; may be kept and asked from any thread, also while the server drains.
    #[must_use]
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// The scans of the drive; may be kept and asked from any thread.
    #[must_use]
    pub fn scans(&self) -> Arc<Scans> {
        Arc::clone(&self.scans)
    }

    /// The volumes, to be changed while they are served; may be kept and used from any thread that
    /// may block.
    #[must_use]
    pub fn volume_orders(&self) -> Arc<Volumes> {
        Arc::clone(&self.orders)
    }

    /// Changes what may be changed while serving; may be kept and asked from any thread.
    #[must_use]
    pub fn tuner(&self) -> Arc<Tuner> {
        Arc::clone(&self.tuner)
    }

    /// Saves, loads and shows the latency map; may be kept and asked from any thread.
    #[must_use]
    pub fn maps(&self) -> Arc<MapKeeper> {
        Arc::clone(&self.maps)
    }

    /// Where orders are taken, if anywhere.
    #[must_use]
    pub fn control_socket(&self) -> Option<&Path> {
        self.control.as_ref().map(|(path, _)| path.as_path())
    }

    /// Reads again what may change in files; may be kept and used from any thread that may block.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        Reloader::new(self.hub.tls.clone())
    }

    /// Changes the policy until the server ends.
    ///
    /// # Errors
    /// [`TuneError`] when the drive is closing or overwhelmed.
    pub fn set_policy(&self, policy: &PolicyChoice) -> Result<(), TuneError> {
        self.tuner.set_policy(policy)
    }

    /// Serves until SIGTERM or SIGINT, then drains for at most `timeout`; a second signal cuts that
    /// short. SIGHUP has files read again ([`Reloader`]).
    #[must_use]
    pub fn run_until_signal(self, timeout: Duration) -> Drained {
        let runtime = self.runtime.handle().clone();
        let mut signals = {
            let _inside = runtime.enter();
            Signals::new()
        };
        let reloader = self.reloader();
        while runtime.block_on(signals.next_or_hangup()) == SignalAction::Reload {
            reloader.on_hangup();
        }
        tracing::info!(
            "a signal to end: draining for at most {timeout:?}; a second one ends at once"
        );
        self.drain_unless(timeout, signals.next())
    }

    /// Stops accepting, refuses new requests, lets those in flight finish for at most `timeout`,
    /// makes everything durable and closes the drive.
    #[must_use]
    pub fn drain(self, timeout: Duration) -> Drained {
        self.drain_unless(timeout, std::future::pending())
    }

    fn drain_unless(self, timeout: Duration, enough: impl Future<Output = ()>) -> Drained {
        notify::stopping();
        let Self { runtime, hub, phase, doors, scans, maps, saver, control, drive, .. } = self;
        let cut_connections = runtime.block_on(async {
            for door in doors.into_iter().chain(control.map(|(_, door)| door)).chain(saver) {
                door.abort();
                // Waited for, so that the socket's file is gone.
                let _cancelled = door.await;
            }
            phase.send_replace(Phase::Draining);
            let deadline = Instant::now() + timeout;
            let nobody = async { while_connected(&hub, deadline).await };
            tokio::select! { () = nobody => {}, () = enough => {} }
            let cut = hub.connections.load(Ordering::Relaxed);
            phase.send_replace(Phase::Leaving);
            while_connected(&hub, Instant::now() + LEAVING).await;
            cut
        });
        // Nobody writes any more, so that what scans remember holds until the next start.
        scans.close();
        // Taken from the drive while it is there, written when it is safe.
        let map = maps.take_last();
        // Closing the drive makes everything durable too, and does not wait for ever for a drive
        // that hangs.
        let report = drive.shutdown();
        map.iter().for_each(|map| maps.save_last(map));
        runtime.shutdown_timeout(LEAVING);
        Drained { cut_connections, durable: report.is_clean(), drive: report.last }
    }
}

impl Drained {
    /// What the program answers to its caller: 0 when everything that was answered is durable and
    /// nobody was cut off, 1 otherwise.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.cut_connections > 0 || !self.durable)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .field("volumes", &self.volumes)
            .finish_non_exhaustive()
    }
}

/// TLS by what its files say, with a warning for what will keep clients out.
fn open_tls(config: &TlsConfig) -> Result<Arc<Tls>, TlsError> {
    let (tls, files) = Tls::open(config)?;
    files.notes.iter().for_each(|note| tracing::warn!("tls: {note}"));
    Ok(Arc::new(tls))
}

fn stats(hub: &Arc<Hub>, drive: DriveHandle, scans: Arc<Scans>) -> Stats {
    let exports = Arc::clone(&hub.exports);
    let hub = Arc::clone(hub);
    let probe = Box::new(move || Gauges {
        connections: hub.connections.load(Ordering::Relaxed),
        shared_bytes: u64::from(hub.pool.used()) * memory::PAGE_BYTES,
        scans: scans.status(),
        drive: drive.snapshot(),
    });
    Stats { exports, probe, started: Instant::now() }
}

/// Saves the map every so often, for ever.
async fn save_maps(maps: Arc<MapKeeper>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let maps = Arc::clone(&maps);
        // What fails is said by the keeper.
        let _ = tokio::task::spawn_blocking(move || maps.save_by_itself()).await;
    }
}

/// Waits until no connection is left, or until `deadline`.
async fn while_connected(hub: &Hub, deadline: Instant) {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    while hub.connections.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
