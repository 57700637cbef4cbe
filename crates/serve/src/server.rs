//! [`Server`]: the life cycle of a server.
//!
//! ```text
//! start ─► bind sockets ─► open drive ─► volumes ─► listen ─► … ─► drain ─► flush ─► close
//! ```
//! A server has its own threads and can be used from any code that may block. Sockets are bound
//! before the drive is opened, so that the most likely errors show before anything is written. They
//! listen, and unix sockets have their names, when everything is ready.

mod accept;
mod contents;
mod drive;
mod errors;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use headtime_io::{Drive, DriveHandle, DriveSnapshot, Locator, ModelSource, NewFiles, OpenError};
use headtime_nbd::server::TlsPolicy;
use headtime_units::ByteSize;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::beside::{BesideClients, RememberedUse};
use crate::config::{Config, Listen, PathChoice};
use crate::connection::{Phase, Shared};
use crate::control::{Answering, ControlHandler, ServerParts, answer_clients};
use crate::default_paths::{SocketLink, default_state_directory, drive_name};
use crate::fair_semaphore::FairSemaphore;
use crate::http::{BoundHttp, HttpEndpoint, HttpError};
use crate::listener::{BindError, Bound, Listener, uri};
use crate::maps::MapKeeper;
use crate::memory;
use crate::metrics;
use crate::notify;
use crate::recent_use::RecentUse;
use crate::reload::Reloader;
use crate::scans::Scans;
use crate::stats::{Gauges, Stats};
use crate::status::StatusSource;
use crate::tls::{Permissions, Tls, TlsConfig, TlsError};
use crate::tuner::Tuner;
use crate::volumes::existing::SettingsFile;
use crate::volumes::{RelocationFile, TableState, VolumeSpec, Volumes};
use crate::web::{self, Feed, WebSource};

pub use contents::VolumeReport;
pub use errors::StartError;

pub(crate) use accept::{ACCEPT_PAUSE, CONTROL_MODE};
pub(crate) use contents::{ServedContent, size_notes};
pub(crate) use drive::{drive_options, open_drive};

use accept::{accept, bind_control_socket, control_is_required};
use contents::{Contents, OpenedDrive};

/// A running server.
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    export_permits: Vec<JoinHandle<()>>,
    addresses: Vec<Listen>,
    http_addresses: Vec<(HttpEndpoint, SocketAddr)>,
    stats: Arc<Stats>,
    volumes: Vec<VolumeReport>,
    opening: Option<TableState>,
    free: ByteSize,
    scans: Arc<Scans>,
    reloader: Reloader,
    orders: Arc<Volumes>,
    tuner: Arc<Tuner>,
    maps: Arc<MapKeeper>,
    beside: Arc<BesideClients>,
    /// Saves the map periodically, if it is saved automatically.
    saver: Option<JoinHandle<()>>,
    /// Makes the control socket known on this machine.
    _link: Option<SocketLink>,
    /// Answers at the control socket, if there is one.
    control: Option<(PathBuf, JoinHandle<()>)>,
    drive: Drive,
}

/// An export and one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportUri {
    /// The export's name.
    pub export: String,
    /// The URI, such as `nbd+unix:///rec?socket=/run/headtime.sock`.
    pub uri: String,
}

/// The result of a shutdown.
#[derive(Clone, Debug, PartialEq)]
pub struct Drained {
    /// The number of connections that still had requests in flight at the timeout and were cut.
    pub cut_connections: usize,
    /// All answered writes are durable.
    pub durable: bool,
    /// The last snapshot of the drive.
    pub drive: DriveSnapshot,
}

/// The number of threads for sockets. One moves more bytes than any disk, and two wake each other:
/// with 64 requests of 4 KiB in flight on a drive in memory, two threads answered 71,000 requests
/// per second and one 88,000.
const THREADS: usize = 1;
/// The longest time for a connection to end after it was opened to.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Server {
    /// Starts a server from a configuration.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        config.check()?;
        Self::open(config, served_content(config, &config.volumes))
    }

    /// Serves an open drive. The configuration's drive, policy and drive bounds are ignored, except
    /// for the name of the drive in messages. A drive without a name has a state directory and a
    /// control socket only where the configuration names them. The server closes the drive at its
    /// end.
    pub fn start_on(drive: Drive, config: &Config) -> Result<Self, StartError> {
        let mut config = config.clone();
        if config.drive.is_none() {
            config.drive = Some(Locator::Path("(opened by the caller)".into()));
            for place in [&mut config.state, &mut config.control] {
                *place = place.path(None).map_or(PathChoice::Off, PathChoice::At);
            }
        }
        config.check()?;
        Self::open_on(&config, served_content(&config, &config.volumes), |_| {
            Ok((NewFiles::default(), drive))
        })
    }

    pub(crate) fn open(config: &Config, serving: ServedContent<'_>) -> Result<Self, StartError> {
        for promise in config.broken_promises() {
            tracing::warn!(
                "the profile falls short by its own self-check, which affects {promise}; \
                    characterize the drive again with more time"
            );
        }
        Self::open_on(config, serving, |locator| {
            let mut drive = open_drive(locator, &drive_options(config))?;
            Ok((drive.take_new_files(), drive))
        })
    }

    /// Opens the drive only after everything before has succeeded. The files that were created for
    /// it are removed if the server does not start.
    fn open_on(
        config: &Config,
        serving: ServedContent<'_>,
        open_drive: impl FnOnce(&Locator) -> Result<(NewFiles, Drive), OpenError>,
    ) -> Result<Self, StartError> {
        let locator = config.drive.as_ref().expect("a checked configuration names a drive");
        let limits = &config.limits;
        let nbd_limits = Shared::nbd_limits(limits);
        nbd_limits.check()?;
        let tls = config.tls.certificate.as_ref().map(|_| open_tls(&config.tls)).transpose()?;
        let there_is_tls = tls.is_some();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("headtime-serve")
            .enable_all()
            .build();
        let runtime = runtime.map_err(StartError::Threads)?;
        let bound = {
            let _inside = runtime.enter();
            Bound::all(&config.listen)?
        };
        let (control, endpoints) = {
            let _inside = runtime.enter();
            let bound = config
                .endpoints()
                .map(|(endpoint, address, public)| BoundHttp::new(endpoint, address, public));
            let endpoints = bound.collect::<Result<Vec<_>, HttpError>>()?;
            let control = match bind_control_socket(config, locator) {
                Err(error) if control_is_required(config) => return Err(error.into()),
                bound => bound,
            };
            (control, endpoints)
        };
        // The drive is closed first.
        let (new_files, drive) = open_drive(locator)
            .map_err(|error| StartError::Drive { locator: locator.to_string(), error })?;
        // A drive that is in use or not there is the cause, and was reported.
        let control = control.unwrap_or_else(|error| {
            tracing::warn!(
                "the control socket cannot be created, so that `headtime status`, `set`, `volume` \
                    and `scan` do not reach this server: {error}; set control to another path, or \
                    to off"
            );
            None
        });
        let disk = Arc::new(drive.handle());
        let contents = Contents::of(&disk, serving, config)
            .map_err(|error| StartError::Volumes { locator: locator.to_string(), error })?;
        let (phase, phase_seen) = watch::channel(Phase::Running);
        let exports = Arc::new(contents.exports);
        let shared = Arc::new(Shared {
            pool: memory::pool(limits, exports.count()),
            piece_permits: FairSemaphore::new(limits.pieces, limits.pieces / 2, exports.count()),
            export_permits: FairSemaphore::new(
                limits.connections,
                limits.connections / 2,
                exports.count(),
            ),
            arrivals: Arc::default(),
            exports,
            disk,
            tls,
            permissions: Permissions::new(config.clients.clone()),
            limits: limits.clone(),
            nbd_limits,
            phase: phase_seen,
            connections: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        });
        let targets = contents
            .opened
            .volumes
            .iter()
            .map(|report| (report.volume.name.clone(), report.volume.extents.clone()))
            .collect();
        let state = config.state.path(default_state_directory(locator));
        // Before clients connect, so that a resumed backup sees every overwrite.
        let scans = Arc::new(Scans::open(
            drive.handle(),
            contents.opened.drive,
            targets,
            state.clone(),
            config.max_impact.0,
            config.scans.clone(),
        ));
        let uses = match &config.model {
            ModelSource::Profile if config.profile.is_none() => RememberedUse::Yes,
            _ => RememberedUse::Named,
        };
        let beside = Arc::new(BesideClients::open(
            drive.handle(),
            locator.clone(),
            contents.opened.drive,
            state.as_deref(),
            Arc::clone(&scans),
            uses,
        ));
        let blocks = contents::blocks(&drive.handle(), config);
        let orders = Volumes::new(
            Arc::clone(&shared.disk),
            Arc::clone(&shared.exports),
            Arc::clone(&scans),
            drive.handle(),
            blocks,
            config.volumes.clone(),
            contents.store,
        );
        let relocations = state.as_deref();
        let relocations =
            relocations.map(|directory| RelocationFile::new(directory, contents.opened.drive));
        let orders = Arc::new(orders.keep_relocation_in(relocations));
        orders.resume_relocation();
        let stats = Arc::new(stats(&shared, drive.handle(), &scans, &orders, &beside));
        // Also before clients connect.
        let configured = config.configured();
        let begun = Tuner::begin(&configured, state.as_deref(), contents.opened.drive);
        let tuner = Arc::new(Tuner::of(drive.handle(), configured, begun));
        let maps = Arc::new(MapKeeper::new(drive.handle(), config.map_saving, config.map_sharing));
        let saver =
            maps.saves_every().map(|every| runtime.spawn(save_maps(Arc::clone(&maps), every)));
        let recent = RecentUse::new(Arc::clone(&shared.exports), drive.handle());
        let status = Arc::new(StatusSource {
            locator: locator.to_string(),
            drive: drive.handle(),
            stats: Arc::clone(&stats),
            scans: Arc::clone(&scans),
            tuner: Arc::clone(&tuner),
            maps: Arc::clone(&maps),
            exports: Arc::clone(&shared.exports),
            recent: Arc::clone(&recent),
        });
        status.settings_without_effect().iter().for_each(|warning| tracing::warn!("{warning}"));
        let reloader = Reloader::new(shared.tls.clone(), Arc::clone(&scans));
        let server = ServerParts {
            tuner: Arc::clone(&tuner),
            maps: Arc::clone(&maps),
            beside: Arc::clone(&beside),
            volumes: Arc::clone(&orders),
            stats: Arc::clone(&stats),
            status: Arc::clone(&status),
            reloader: reloader.clone(),
        };
        let handler = Arc::new(ControlHandler { scans: Arc::clone(&scans), server: Some(server) });
        let (listeners, endpoints, control) = {
            let _inside = runtime.enter();
            let listeners =
                bound.into_iter().map(Bound::listen).collect::<Result<Vec<_>, BindError>>()?;
            let endpoints = endpoints.into_iter().map(BoundHttp::listen);
            let endpoints = endpoints.collect::<Result<Vec<_>, HttpError>>()?;
            // Last: it is the one that scripts wait for.
            let control = control.map(|(path, bound)| Ok::<_, BindError>((path, bound.listen()?)));
            (listeners, endpoints, control.transpose()?)
        };
        let http_addresses = endpoints
            .iter()
            .filter_map(|listener| Some((listener.endpoint(), listener.address().ok()?)))
            .collect();
        let link = control.as_ref().and_then(|(path, _)| SocketLink::to(path));
        let control = control.map(|(path, listener)| {
            (path, runtime.spawn(answer_clients(listener, handler, Answering::default())))
        });
        let addresses: Vec<Listen> =
            listeners.iter().map(|listener| listener.address().clone()).collect();
        for open_listener in listeners.iter().filter(|listener| {
            !listener.is_local() && listener.address().tls(there_is_tls) != TlsPolicy::Require
        }) {
            tracing::warn!(
                "{}: every client that reaches this address may read and write all unrestricted \
                    exports, and the data can be read on the network; add tls=require",
                open_listener.address()
            );
        }
        let slots = Arc::new(Semaphore::new(limits.connections as usize));
        let streams = Arc::new(AtomicU32::new(1));
        let start_accepting = |listener: Listener| {
            let tls = listener.address().tls(there_is_tls);
            runtime.spawn(accept(
                listener,
                tls,
                Arc::clone(&shared),
                Arc::clone(&slots),
                Arc::clone(&streams),
            ))
        };
        let mut export_permits: Vec<_> = listeners.into_iter().map(start_accepting).collect();
        for listener in endpoints {
            match listener.endpoint() {
                HttpEndpoint::Metrics => {
                    let stats = Arc::clone(&stats);
                    let drive: Arc<str> = drive_name(locator).into();
                    export_permits.push(runtime.spawn(listener.answer(move |request, _| {
                        metrics::answer(request, Arc::clone(&stats), Arc::clone(&drive))
                    })));
                }
                HttpEndpoint::Web => {
                    let feed = Arc::new(Feed::default());
                    let hosts = web::Hosts::of(config.web_public);
                    export_permits.push(
                        runtime.spawn(Arc::clone(&feed).run(WebSource::new(Arc::clone(&status)))),
                    );
                    export_permits.push(runtime.spawn(listener.answer(
                        move |request, connection| {
                            let feed = Arc::clone(&feed);
                            async move { web::answer(&request, &connection, &feed, hosts) }
                        },
                    )));
                }
            }
        }
        new_files.keep();
        let trim = runtime.spawn(release_memory(Arc::clone(&shared)));
        export_permits.push(trim);
        export_permits.push(runtime.spawn(recent.run()));
        notify::ready();
        // Until the runtime ends, also while the server drains.
        runtime.spawn(notify::report_state(Arc::clone(&stats), shared.phase.clone()));
        let OpenedDrive { volumes, opening, free, drive: _ } = contents.opened;
        Ok(Self {
            runtime,
            shared,
            phase,
            export_permits,
            addresses,
            http_addresses,
            stats,
            volumes,
            opening,
            free,
            scans,
            reloader,
            orders,
            tuner,
            maps,
            beside,
            saver,
            _link: link,
            control,
            drive,
        })
    }

    /// The addresses of exports, with ports chosen by the system.
    #[must_use]
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// The address of an HTTP endpoint, if it is served.
    #[must_use]
    pub fn http_address(&self, endpoint: HttpEndpoint) -> Option<SocketAddr> {
        self.http_addresses.iter().find(|(of, _)| *of == endpoint).map(|(_, address)| *address)
    }

    /// The address of the web page for a browser on this machine, if the page is served.
    #[must_use]
    pub fn web_page(&self) -> Option<String> {
        let mut address = self.http_address(HttpEndpoint::Web)?;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                Ipv6Addr::LOCALHOST.into()
            });
        }
        Some(format!("http://{address}/"))
    }

    /// Every export at every address.
    #[must_use]
    pub fn uris(&self) -> Vec<ExportUri> {
        let there_is_tls = self.shared.tls.is_some();
        let of = |address: &Listen, name: &str| {
            let plain = uri(address, name).to_string();
            let uri = if address.tls(there_is_tls) == TlsPolicy::Require {
                plain.replacen("nbd", "nbds", 1)
            } else {
                plain
            };
            ExportUri { export: name.to_string(), uri }
        };
        let exports = self.shared.exports.all();
        self.addresses
            .iter()
            .flat_map(|address| exports.iter().map(move |export| of(address, &export.name)))
            .collect()
    }

    /// The volumes of the drive at the start, by address; empty if the whole drive is served.
    #[must_use]
    pub fn volumes(&self) -> &[VolumeReport] {
        &self.volumes
    }

    /// The state of the table of volumes at the start; `None` if the whole drive is served.
    #[must_use]
    pub fn opening(&self) -> Option<&TableState> {
        self.opening.as_ref()
    }

    /// The unallocated space at the start.
    #[must_use]
    pub fn free(&self) -> ByteSize {
        self.free
    }

    /// The statistics. The handle works on any thread, also while the server drains.
    #[must_use]
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// The scans of the drive. The handle works on any thread.
    #[must_use]
    pub fn scans(&self) -> Arc<Scans> {
        Arc::clone(&self.scans)
    }

    /// The volumes, for changes while the server runs. The handle works on any thread that may
    /// block.
    #[must_use]
    pub fn volume_orders(&self) -> Arc<Volumes> {
        Arc::clone(&self.orders)
    }

    /// The tunables. The handle works on any thread.
    #[must_use]
    pub fn tuner(&self) -> Arc<Tuner> {
        Arc::clone(&self.tuner)
    }

    /// The latency map. The handle works on any thread.
    #[must_use]
    pub fn maps(&self) -> Arc<MapKeeper> {
        Arc::clone(&self.maps)
    }

    /// The path of the control socket, if there is one.
    #[must_use]
    pub fn control_socket(&self) -> Option<&Path> {
        self.control.as_ref().map(|(path, _)| path.as_path())
    }

    /// Reloads files. The handle works on any thread that may block.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Stops accepting, rejects new requests, waits for those in flight for at most `timeout`,
    /// makes everything durable, and closes the drive.
    #[must_use]
    pub fn drain(self, timeout: Duration) -> Drained {
        notify::stopping();
        let Self {
            runtime,
            shared,
            phase,
            export_permits,
            scans,
            orders,
            maps,
            beside,
            saver,
            control,
            drive,
            ..
        } = self;
        let cut_connections = runtime.block_on(async {
            for task in export_permits.into_iter().chain(control.map(|(_, task)| task)).chain(saver)
            {
                task.abort();
                // Wait, so that the file of the socket is removed.
                let _cancelled = task.await;
            }
            phase.send_replace(Phase::Draining);
            let deadline = Instant::now() + timeout;
            while_connected(&shared, deadline).await;
            let cut = shared.connections.load(Ordering::Relaxed);
            phase.send_replace(Phase::Leaving);
            while_connected(&shared, Instant::now() + CLOSE_TIMEOUT).await;
            cut
        });
        // Nothing else writes any more, so the saved state of scans stays valid.
        orders.close();
        scans.close();
        beside.close();
        // Take the map while the drive is open, and write it when the drive is safe.
        let map = maps.copy_for_last_save();
        // Closing the drive makes everything durable, and gives up a drive that hangs after a time
        // limit.
        let report = drive.shutdown();
        map.iter().for_each(|map| maps.save_last(map));
        runtime.shutdown_timeout(CLOSE_TIMEOUT);
        Drained { cut_connections, durable: report.is_clean(), drive: report.last }
    }
}

impl Drained {
    /// The exit code of the program: 0 if all answered writes are durable and no connection was
    /// cut, otherwise 1.
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

/// The part of the drive that the configuration serves.
pub(crate) fn served_content<'a>(config: &Config, specs: &'a [VolumeSpec]) -> ServedContent<'a> {
    if !config.existing {
        return ServedContent::Volumes { specs, initialize: config.initialize };
    }
    let locator = config.drive.as_ref().expect("a checked configuration names a drive");
    let drive = crate::scans::identity_by_name(locator);
    let directory = config.state.path(default_state_directory(locator));
    ServedContent::Existing {
        specs,
        drive,
        settings: SettingsFile::new(directory.as_deref(), drive),
    }
}

/// Loads the TLS files and logs a warning for everything that will reject clients.
fn open_tls(config: &TlsConfig) -> Result<Arc<Tls>, TlsError> {
    let (tls, files) = Tls::open(config)?;
    files.notes.iter().for_each(|note| tracing::warn!("tls: {note}"));
    Ok(Arc::new(tls))
}

fn stats(
    shared: &Arc<Shared>,
    drive: DriveHandle,
    scans: &Arc<Scans>,
    orders: &Arc<Volumes>,
    beside: &Arc<BesideClients>,
) -> Stats {
    let exports = Arc::clone(&shared.exports);
    let (shared, scans) = (Arc::clone(shared), Arc::clone(scans));
    let (orders, beside) = (Arc::clone(orders), Arc::clone(beside));
    let probe = Box::new(move || Gauges {
        connections: shared.connections.load(Ordering::Relaxed),
        shared_bytes: u64::from(shared.pool.used()) * memory::PAGE_BYTES,
        scans: scans.status(),
        relocation: orders.relocation(),
        characterization: beside.status(),
        drive: drive.snapshot(),
    });
    Stats { exports, probe, started: Instant::now() }
}

/// Returns free memory to the system after connections have ended. Does not return.
async fn release_memory(shared: Arc<Shared>) {
    const EVERY: Duration = Duration::from_secs(1);
    /// Fewer leave some mebibytes (guess).
    const ENDED: usize = 16;
    loop {
        tokio::time::sleep(EVERY).await;
        if shared.ended.load(Ordering::Relaxed) >= ENDED {
            shared.ended.store(0, Ordering::Relaxed);
            // It takes milliseconds; a failure to run it loses nothing.
            let _ = tokio::task::spawn_blocking(headtime_io::release_free_memory).await;
        }
    }
}

/// Saves the map periodically. Does not return.
async fn save_maps(maps: Arc<MapKeeper>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let maps = Arc::clone(&maps);
        // The keeper logs errors.
        let _ = tokio::task::spawn_blocking(move || maps.save_automatically()).await;
    }
}

/// Waits until no connection is left, or until `deadline`.
async fn while_connected(shared: &Shared, deadline: Instant) {
    const POLL_INTERVAL: Duration = Duration::from_millis(5);
    while shared.connections.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
