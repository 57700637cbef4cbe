//! The life of a server: opened, serving, drained.
//!
//! ```text
//! start ─► bind sockets ─► open drive ─► table of volumes ─► accept ─► … ─► drain ─► flush ─► close drive
//! ```
//! [`Server`] has threads of its own and can be used from any code that may block. Sockets are bound before the drive is touched, so that what is most
//! likely to be wrong is found before anything is written, and accept only when everything is ready.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use headtime_io::{BeliefChoice, Drive, DriveHandle, DriveOptions, DriveSnapshot, Locator, OpenError, PolicyChoice};
use headtime_nbd::LimitsError;
use headtime_nbd::server::TlsPolicy;
use headtime_sched::StreamId;
use headtime_units::ByteSize;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::arrivals::Arrivals;
use crate::config::{Config, ConfigErrors, Listen, PlaceChoice, ServeLimits};
use crate::connection::{Hub, Phase, serve};
use crate::control::{Desk, ServerDesk, answer_clients};
use crate::disk::Disk as _;
use crate::export::{Blocks, Export, Exports};
use crate::listener::{BindError, Listener, uri};
use crate::maps::MapKeeper;
use crate::memory;
use crate::metrics::{MetricsDoor, MetricsError};
use crate::notify;
use crate::reload::Reloader;
use crate::scan_places::{default_control_socket, default_state_directory};
use crate::scans::Scans;
use crate::stats::{Gauges, Stats};
use crate::status::StatusSource;
use crate::stock::Stock;
use crate::tls::{Permissions, Tls, TlsConfig, TlsError};
use crate::tuner::{TuneError, Tuner};
use crate::volumes::{Ensured, LiveVolume, Opening, StoreError, Volume, VolumeStore, Volumes, Wanted, shares};

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
    opening: Option<Opening>,
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

/// One volume on the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeReport {
    /// The volume.
    pub volume: Volume,
    /// Its size.
    pub size: ByteSize,
    /// What was done to have it; `None` for a volume that is on the drive and was not asked for: it stays, and is not served.
    pub ensured: Option<Ensured>,
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

/// Why a server does not start. Nothing is being served then; what was changed on the drive says the message.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is incomplete or contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Limits that cannot be kept together.
    #[error("limits: {0}")]
    Limits(#[from] LimitsError),
    /// An address cannot be listened at.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no TLS as it was asked for.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Figures cannot be given out.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The drive cannot be opened.
    #[error("drive {locator}: {error}")]
    Drive {
        /// The drive's locator.
        locator: String,
        /// Why.
        error: OpenError,
    },
    /// The table of volumes cannot be had, or not with these volumes.
    #[error("drive {locator}: {error}")]
    Volumes {
        /// The drive's locator.
        locator: String,
        /// Why.
        error: StoreError,
    },
    /// The drive has no volumes and none was asked for.
    #[error("drive {locator} has no volumes yet, so there is nothing to serve; name one with its size, such as --volume vol0=10GiB")]
    NoVolumes {
        /// The drive's locator.
        locator: String,
    },
    /// A thread was refused.
    #[error("the server's threads cannot be started: {0}; raise the limit on threads")]
    Threads(std::io::Error),
}

/// What of a drive is served.
pub(crate) enum Serving<'a> {
    /// Volumes; all that are there when none is named.
    Volumes { wanted: &'a [Wanted], initialize: bool },
    /// The whole drive under this name.
    Whole { name: &'a str },
}

/// Threads for sockets. One moves more bytes than any disk has, and two wake each other: with 64 requests of 4 KiB in flight on a drive in memory two answered 71,000 a second, one 88,000.
const THREADS: usize = 1;
/// After the system refused a connection for want of descriptors or memory, the time until the next try.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection that is told to make room may take. It has nothing under way and leaves at once, so only a machine that stands still takes as long.
const MAKING_ROOM: Duration = Duration::from_secs(2);
/// How long a drive may be in use by a server that was killed: longer than commands of a healthy drive take.
const LETTING_GO: Duration = Duration::from_secs(2);
/// And how often that is looked at.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// Orders are for the server's own user.
pub(crate) const CONTROL_MODE: u32 = 0o600;
/// What a connection that is told to leave at once may still take.
pub(crate) const LEAVING: Duration = Duration::from_secs(1);

impl Server {
    /// Starts what `config` says.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: &Config) -> Result<Self, StartError> {
        config.check()?;
        let wanted: Vec<Wanted> = config.volumes.iter().map(crate::config::VolumeConfig::wanted).collect();
        Self::open(config, &Serving::Volumes { wanted: &wanted, initialize: config.initialize })
    }

    /// Serves a drive that the caller has opened, with everything else as `config` says. What `config` says of drive, policy and drive bounds is not used, but for
    /// the drive's name in messages. The server closes the drive in the end.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_on(drive: Drive, config: &Config) -> Result<Self, StartError> {
        let named = config.drive.clone().unwrap_or_else(|| Locator::Path("(opened by the caller)".into()));
        let config = Config { drive: Some(named), ..config.clone() };
        config.check()?;
        let wanted: Vec<Wanted> = config.volumes.iter().map(crate::config::VolumeConfig::wanted).collect();
        Self::open_on(&config, &Serving::Volumes { wanted: &wanted, initialize: config.initialize }, |_| Ok(drive))
    }

    pub(crate) fn open(config: &Config, serving: &Serving<'_>) -> Result<Self, StartError> {
        Self::open_on(config, serving, |locator| open_drive(locator, &drive_options(config)))
    }

    /// Opens the drive only when everything before that succeeded.
    fn open_on(config: &Config, serving: &Serving<'_>, open_drive: impl FnOnce(&Locator) -> Result<Drive, OpenError>) -> Result<Self, StartError> {
        let locator = config.drive.as_ref().expect("a checked configuration names a drive");
        let limits = &config.limits;
        let nbd_limits = Hub::nbd_limits(limits);
        nbd_limits.check()?;
        let tls = config.tls.certificate.as_ref().map(|_| open_tls(&config.tls)).transpose()?;
        let there_is_tls = tls.is_some();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).thread_name("headtime-serve").enable_all().build();
        let runtime = runtime.map_err(StartError::Threads)?;
        let listeners = {
            let _inside = runtime.enter();
            config.listen.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?
        };
        let (control, metrics) = {
            let _inside = runtime.enter();
            let metrics = config.metrics.as_ref().map(|address| MetricsDoor::bind(address, config.metrics_public)).transpose()?;
            (control_door(config, locator)?, metrics)
        };
        let metrics_address = metrics.as_ref().and_then(|door| door.address().ok());
        let drive = open_drive(locator).map_err(|error| StartError::Drive { locator: locator.to_string(), error })?;
        let disk = Arc::new(drive.handle());
        let contents = Contents::of(&disk, serving, limits).map_err(|error| StartError::Volumes { locator: locator.to_string(), error })?;
        if contents.exports.all().is_empty() {
            return Err(StartError::NoVolumes { locator: locator.to_string() });
        }
        let (phase, phase_seen) = watch::channel(Phase::Running);
        let exports = Arc::new(contents.exports);
        let hub = Arc::new(Hub {
            pool: memory::pool(limits, exports.count()),
            places: Stock::new(limits.pieces, limits.pieces / 2, exports.count()),
            doors: Stock::new(limits.connections, limits.connections / 2, exports.count()),
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
        let targets = contents.told.volumes.iter().map(|report| (report.volume.name.clone(), report.volume.extent)).collect();
        let state = config.state.path(default_state_directory(locator));
        // Before a client is let in: a backup that goes on must see what is overwritten from here on.
        let scans = Arc::new(Scans::open(drive.handle(), contents.told.drive, targets, state, config.max_impact.0));
        let stats = Arc::new(stats(&hub, drive.handle(), Arc::clone(&scans)));
        let named = config.volumes.iter().map(|volume| volume.name.clone()).collect();
        let blocks = Blocks { physical: hub.disk.physical_block(), request_bytes: request_bytes(limits) };
        let orders = Arc::new(Volumes::new(Arc::clone(&hub.disk), Arc::clone(&hub.exports), Arc::clone(&scans), blocks, named, contents.store));
        // Before a client is let in, too.
        let configured = config.configured();
        let begun = Tuner::begin(&configured, config.state.path(default_state_directory(locator)).as_deref(), contents.told.drive);
        let tuner = Arc::new(Tuner::of(drive.handle(), configured, begun));
        let maps = Arc::new(MapKeeper::new(drive.handle(), config.map_saving));
        let saver = maps.saves_every().map(|every| runtime.spawn(save_maps(Arc::clone(&maps), every)));
        let status = StatusSource {
            locator: locator.to_string(),
            drive: drive.handle(),
            stats: Arc::clone(&stats),
            scans: Arc::clone(&scans),
            tuner: Arc::clone(&tuner),
            maps: Arc::clone(&maps),
            exports: Arc::clone(&hub.exports),
        };
        let server = ServerDesk {
            tuner: Arc::clone(&tuner),
            maps: Arc::clone(&maps),
            volumes: Arc::clone(&orders),
            stats: Arc::clone(&stats),
            status,
            reloader: Reloader::new(hub.tls.clone()),
        };
        let desk = Arc::new(Desk::of_server(Arc::clone(&scans), server));
        let control = control.map(|(path, listener)| (path, runtime.spawn(answer_clients(listener, desk))));
        let addresses: Vec<Listen> = listeners.iter().map(|listener| listener.address().clone()).collect();
        for open_door in listeners.iter().filter(|listener| !listener.is_local() && listener.address().tls(there_is_tls) != TlsPolicy::Require) {
            tracing::warn!(
                "{}: whoever reaches this address may read and write what is not kept for others, and everything can be read on the way; add tls=require",
                open_door.address()
            );
        }
        let slots = Arc::new(Semaphore::new(limits.connections as usize));
        let streams = Arc::new(AtomicU32::new(1));
        let open_door = |listener: Listener| {
            let tls = listener.address().tls(there_is_tls);
            runtime.spawn(accept(listener, tls, Arc::clone(&hub), Arc::clone(&slots), Arc::clone(&streams)))
        };
        let metrics = metrics.map(|door| runtime.spawn(door.answer(Arc::clone(&stats))));
        let doors = listeners.into_iter().map(open_door).chain(metrics).collect();
        notify::ready();
        let Told { volumes, opening, free, drive: _ } = contents.told;
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
            let uri = if address.tls(there_is_tls) == TlsPolicy::Require { plain.replacen("nbd", "nbds", 1) } else { plain };
            ExportUri { export: name.to_string(), uri }
        };
        let exports = self.hub.exports.all();
        self.addresses.iter().flat_map(|address| exports.iter().map(move |export| of(address, &export.name))).collect()
    }

    /// All volumes on the drive by address as they were at the start; empty when the whole drive is served.
    #[must_use]
    pub fn volumes(&self) -> &[VolumeReport] {
        &self.volumes
    }

    /// What the drive's table of volumes was like; `None` when the whole drive is served.
    #[must_use]
    pub fn opening(&self) -> Option<&Opening> {
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

    /// The volumes, to be changed while they are served; may be kept and used from any thread that may block.
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

    /// Serves until SIGTERM or SIGINT, then drains for at most `timeout`; a second signal cuts that short. SIGHUP has files read again ([`Reloader`]).
    #[must_use]
    pub fn run_until_signal(self, timeout: Duration) -> Drained {
        let runtime = self.runtime.handle().clone();
        let mut signals = {
            let _inside = runtime.enter();
            Signals::new()
        };
        let reloader = self.reloader();
        while runtime.block_on(signals.next_or_hangup()) == Asked::Reload {
            reloader.on_hangup();
        }
        tracing::info!("a signal to end: draining for at most {timeout:?}; a second one ends at once");
        self.drain_unless(timeout, signals.next())
    }

    /// Stops accepting, refuses new requests, lets those in flight finish for at most `timeout`, makes everything durable and closes the drive.
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
        // Closing the drive makes everything durable too, and does not wait for ever for a drive that hangs.
        let report = drive.shutdown();
        map.iter().for_each(|map| maps.save_last(map));
        runtime.shutdown_timeout(LEAVING);
        Drained { cut_connections, durable: report.is_clean(), drive: report.last }
    }
}

impl Drained {
    /// What the program answers to its caller: 0 when everything that was answered is durable and nobody was cut off, 1 otherwise.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.cut_connections > 0 || !self.durable)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).field("volumes", &self.volumes).finish_non_exhaustive()
    }
}

/// What was found and made on a drive.
struct Contents {
    exports: Exports,
    told: Told,
    /// The table, where there is one.
    store: Option<VolumeStore>,
}

struct Told {
    /// The drive's identity; zeroes for one that is served whole.
    drive: [u8; 16],
    volumes: Vec<VolumeReport>,
    opening: Option<Opening>,
    free: ByteSize,
}

impl Contents {
    fn of(disk: &DriveHandle, serving: &Serving<'_>, limits: &ServeLimits) -> Result<Self, StoreError> {
        let (shape, blocks) = (disk.shape(), Blocks { physical: disk.physical_block(), request_bytes: request_bytes(limits) });
        let exports = Exports::default();
        let (wanted, initialize) = match *serving {
            Serving::Volumes { wanted, initialize } => (wanted, initialize),
            Serving::Whole { name } => {
                exports.add(Export::of_drive(name, shape, blocks));
                let told = Told { drive: [0; 16], volumes: Vec::new(), opening: None, free: ByteSize::default() };
                return Ok(Self { exports, told, store: None });
            }
        };
        let (mut store, opening) = VolumeStore::open(disk, initialize)?;
        let done = store.ensure(disk, wanted)?;
        let table = store.table();
        let ensured = |volume: &Volume| match wanted.iter().position(|wanted| wanted.name == volume.name) {
            Some(index) => Some(done[index]),
            None => (wanted.is_empty() || volume.settings.always_served).then_some(Ensured::Reused),
        };
        let report = |volume: &Volume| VolumeReport { volume: volume.clone(), size: table.size_of(volume), ensured: ensured(volume) };
        let volumes: Vec<VolumeReport> = table.volumes().iter().map(report).collect();
        let served = || volumes.iter().filter(|report| report.ensured.is_some());
        let mut changes = Vec::new();
        for volume in served().map(|report| &report.volume) {
            shares::check(volume, shape.sector).map_err(|(name, refusal)| StoreError::Terms { name, refusal })?;
            changes.extend(shares::changes(None, Some(volume), shape.sector));
        }
        if !changes.is_empty() {
            disk.change_shares(changes).map_err(|error| StoreError::Shares(error.to_string()))?;
        }
        for served in served() {
            exports.serve(&LiveVolume::new(&served.volume, shape.sector), blocks);
        }
        let told = Told { drive: table.uuid().0, volumes, opening: Some(opening), free: table.free().total };
        Ok(Self { exports, told, store: Some(store) })
    }
}

/// The longest read or write, as the protocol can say it.
fn request_bytes(limits: &ServeLimits) -> u32 {
    limits.request.get().min(1 << 30) as u32
}

/// The door for orders, if there is to be one. One that nobody asked for is done without when it cannot be had.
fn control_door(config: &Config, locator: &Locator) -> Result<Option<(PathBuf, Listener)>, BindError> {
    let Some(path) = config.control.path(default_control_socket(locator)) else { return Ok(None) };
    let asked_for = matches!(config.control, PlaceChoice::At(_));
    if let Some(directory) = path.parent().filter(|directory| !asked_for && directory.starts_with("/run")) {
        // What comes of it is seen when the socket is made.
        let _ = std::fs::create_dir_all(directory);
    }
    match Listener::bind(&Listen::Unix { path: path.clone(), mode: CONTROL_MODE, tls: None }) {
        Ok(listener) => Ok(Some((path, listener))),
        Err(error) if asked_for => Err(error),
        Err(error) => {
            tracing::warn!("there is no control socket, so that scans cannot be started: {error}; set control to another path, or to off");
            Ok(None)
        }
    }
}

/// TLS by what its files say, with a warning for what will keep clients out.
fn open_tls(config: &TlsConfig) -> Result<Arc<Tls>, TlsError> {
    let (tls, files) = Tls::open(config)?;
    files.notes.iter().for_each(|note| tracing::warn!("tls: {note}"));
    Ok(Arc::new(tls))
}

fn drive_options(config: &Config) -> DriveOptions {
    let limits = &config.limits;
    let bytes = limits.memory.get() + u64::from(limits.connections) * limits.connection_memory.get();
    DriveOptions {
        policy: config.policy.clone(),
        outstanding: config.outstanding,
        command_timeout: config.command_timeout,
        raw: config.raw.clone(),
        profile: config.profile.clone(),
        belief: BeliefChoice { by: config.belief.clone(), settings: config.map.clone() },
        tunables: config.tunables.clone(),
        create_bytes: config.create.map(ByteSize::get),
        // The server's own bounds are the ones that hold; twice as much leaves room for requests that are over and not yet forgotten.
        max_requests: 2 * limits.pieces as usize + 64,
        max_bytes: 2 * bytes + (64 << 20),
        ..DriveOptions::default()
    }
}

/// Opens the drive. One that is in use is tried again for a while: after a kill -9 the system lets go of the file only when the last command that was
/// under way has ended, and whoever restarts a server at once should not have to know that.
pub(crate) fn open_drive(locator: &Locator, options: &DriveOptions) -> Result<Drive, OpenError> {
    let enough = Instant::now() + LETTING_GO;
    loop {
        match Drive::open(locator, options.clone()) {
            Err(error) if error.may_pass_soon() && Instant::now() < enough => std::thread::sleep(TRY_AGAIN),
            opened => return opened,
        }
    }
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

/// A place for a connection; if need be, that of the one that has been about opening an export for the longest.
async fn slot(slots: &Arc<Semaphore>, arrivals: &Arrivals) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    if !arrivals.show_out_oldest() {
        return None;
    }
    timeout(MAKING_ROOM, Arc::clone(slots).acquire_owned()).await.ok()?.ok()
}

async fn accept(listener: Listener, tls: TlsPolicy, hub: Arc<Hub>, slots: Arc<Semaphore>, streams: Arc<AtomicU32>) {
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("{}: a connection could not be accepted: {error}", listener.address());
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(slot) = slot(&slots, &hub.arrivals).await else {
            tracing::warn!("{peer} was turned away: {} connections have an export open, the limit; raise connections", hub.limits.connections);
            continue;
        };
        let stream = StreamId(streams.fetch_add(1, Ordering::Relaxed));
        let hub = Arc::clone(&hub);
        // Here and not in the task: when the next one comes, the task may not have begun.
        let arrival = hub.arrivals.begin();
        tokio::spawn(async move {
            tracing::debug!("{peer} connected");
            let end = serve(hub, arrival, socket, stream, tls).await;
            tracing::info!("{peer}: {end}");
            drop(slot);
        });
    }
}

/// Waits until no connection is left, or until `deadline`.
async fn while_connected(hub: &Hub, deadline: Instant) {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    while hub.connections.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// SIGTERM, SIGINT and SIGHUP; made once, so that none is lost between two waits.
struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
    hangup: Option<Signal>,
}

/// What a signal asks for.
#[derive(PartialEq, Eq)]
enum Asked {
    End,
    Reload,
}

impl Signals {
    /// Listens from here on. A signal that cannot be had never comes, which is logged.
    fn new() -> Self {
        let listen = |kind: SignalKind| {
            let heard = signal(kind);
            let told = |error| tracing::error!("signal {} cannot be received: {error}", kind.as_raw_value());
            heard.map_err(told).ok()
        };
        let (terminate, interrupt, hangup) = (SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup());
        Self { terminate: listen(terminate), interrupt: listen(interrupt), hangup: listen(hangup) }
    }

    async fn next_or_hangup(&mut self) -> Asked {
        let Self { terminate, interrupt, hangup } = self;
        tokio::select! {
            () = came(terminate) => Asked::End,
            () = came(interrupt) => Asked::End,
            () = came(hangup) => Asked::Reload,
        }
    }

    async fn next(&mut self) {
        tokio::select! { () = came(&mut self.terminate) => {}, () = came(&mut self.interrupt) => {} }
    }
}

async fn came(signal: &mut Option<Signal>) {
    if let Some(signal) = signal {
        if signal.recv().await.is_some() {
            return;
        }
    }
    std::future::pending().await
}
