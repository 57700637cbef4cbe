//! Connections over a disk whose completions the test controls.

#[allow(dead_code)]
#[path = "../../../tests/common/client.rs"]
mod client;
mod hostile;
mod serving;
mod sharing;

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use bytes::Bytes;
use headtime_io::{Io, IoDone, IoError, SubmitError};
use headtime_nbd::client::{ClientEvent, Reply, RequestError};
use headtime_nbd::{Errno, ExportFlags, NbdCommand, StatusExtent};
use headtime_sched::{Op, RequestId, VolumeId};
use headtime_units::{ByteSize, Extent, SectorSize, Sectors};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::*;
use crate::config::ServeLimits;
use crate::disk::{Disk, OnDone};
use crate::export::{Blocks, Exports, Rotation};
use crate::fair_semaphore::FairSemaphore;
use crate::pieces::WINDOW;
use crate::tls::Permissions;
use crate::volumes::{DriveShape, LiveVolume, Volume, VolumeSettings};
use client::Client;

const MIB: u64 = 1 << 20;
const DRIVE_BYTES: u64 = 16 * MIB;
/// The first sector of the volumes in these tests, and the length of each.
const BASE: u64 = MIB;
const VOLUME_BYTES: u64 = 6 * MIB;

/// A disk in memory that completes requests at once or on command.
#[derive(Default)]
struct ScriptedDisk(Mutex<Script>);

#[derive(Default)]
struct Script {
    bytes: Vec<u8>,
    holds: bool,
    held: Vec<(RequestId, Io, OnDone)>,
    /// The requests that fail, and their errors.
    failing: Vec<(Extent, i32)>,
    next: u64,
    /// All submitted requests, without their data.
    seen: Vec<Io>,
    max_held: usize,
    max_held_bytes: u64,
    /// The connections with an export that have ended.
    ended: Vec<StreamId>,
}

impl ScriptedDisk {
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    fn held(&self) -> usize {
        self.script().held.len()
    }

    /// Completes one held request, by its position in the order of arrival.
    fn release(&self, index: usize) {
        let (_, io, on_done) = self.script().held.remove(index);
        let result = self.script().carry_out(&io);
        on_done(IoDone { finished: None, result });
    }

    /// Completes all requests at once from now on, including held ones.
    fn let_go(&self) {
        self.script().holds = false;
        while self.held() > 0 {
            self.release(0);
        }
    }
}

impl Script {
    fn carry_out(&mut self, io: &Io) -> Result<Bytes, IoError> {
        if let Some((_, errno)) = self.failing.iter().find(|(extent, _)| extent.overlaps(io.extent))
        {
            return Err(IoError::Os { op: io.op, extent: io.extent, errno: *errno });
        }
        let range = io.extent.start.get() as usize * 512..io.extent.end().get() as usize * 512;
        match io.op {
            Op::Read => return Ok(Bytes::copy_from_slice(&self.bytes[range])),
            Op::Write => self.bytes[range].copy_from_slice(&io.data),
            Op::Zero => self.bytes[range].fill(0),
            Op::Discard => self.bytes[range].fill(0xdd),
            Op::Flush => {}
        }
        Ok(Bytes::new())
    }
}

impl Disk for ScriptedDisk {
    fn shape(&self) -> DriveShape {
        DriveShape { sector: SectorSize::B512, capacity: Sectors::new(DRIVE_BYTES / 512) }
    }

    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        let mut script = self.script();
        script.next += 1;
        let id = RequestId(script.next);
        script.seen.push(Io { data: Bytes::new(), ..io.clone() });
        if script.holds {
            script.held.push((id, io, on_done));
            script.max_held = script.max_held.max(script.held.len());
            let bytes = script.held.iter().map(|(_, io, _)| io.extent.len.get() * 512).sum();
            script.max_held_bytes = script.max_held_bytes.max(bytes);
            return Ok(id);
        }
        let result = script.carry_out(&io);
        drop(script);
        on_done(IoDone { finished: None, result });
        Ok(id)
    }

    fn stream_ended(&self, stream: StreamId) {
        self.script().ended.push(stream);
    }

    fn cancel(&self, id: RequestId) {
        let mut script = self.script();
        let Some(index) = script.held.iter().position(|(held, ..)| *held == id) else { return };
        let (_, _, on_done) = script.held.remove(index);
        drop(script);
        on_done(IoDone { finished: None, result: Err(IoError::Cancelled) });
    }
}

/// The shared state over a scripted disk with the volumes `a` and `b`, and tasks that serve
/// clients.
struct Bench {
    shared: Arc<Shared>,
    disk: Arc<ScriptedDisk>,
    phase: watch::Sender<Phase>,
    streams: u32,
}

impl Bench {
    fn new() -> Self {
        Self::with(ServeLimits::default(), VolumeSettings::default())
    }

    fn with(limits: ServeLimits, settings: VolumeSettings) -> Self {
        let disk = Arc::new(ScriptedDisk::default());
        disk.script().bytes = vec![0; DRIVE_BYTES as usize];
        let exports = Exports::default();
        let request_bytes = limits.request.get() as u32;
        let blocks = Blocks { physical: 4096, request_bytes, rotation: Rotation::Disk };
        for (index, name) in ["a", "b"].into_iter().enumerate() {
            let extent = Extent::from_numbers(
                (BASE + index as u64 * VOLUME_BYTES) / 512,
                VOLUME_BYTES / 512,
            );
            let volume = Volume {
                id: VolumeId(index as u32 + 1),
                name: name.to_string(),
                extents: extent.into(),
                settings: settings.clone(),
            };
            exports.serve(&LiveVolume::new(&volume, SectorSize::B512), blocks);
        }
        let (phase, phase_seen) = watch::channel(Phase::Running);
        let shared = Shared {
            pool: crate::memory::pool(&limits, exports.count()),
            piece_permits: FairSemaphore::new(limits.pieces, limits.pieces / 2, exports.count()),
            export_permits: FairSemaphore::new(
                limits.connections,
                limits.connections / 2,
                exports.count(),
            ),
            arrivals: Arc::default(),
            exports: Arc::new(exports),
            disk: Arc::clone(&disk) as Arc<dyn Disk>,
            tls: None,
            permissions: Permissions::default(),
            nbd_limits: Shared::nbd_limits(&limits),
            phase: phase_seen,
            connections: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            limits,
        };
        Self { shared: Arc::new(shared), disk, phase, streams: 0 }
    }

    /// A connected stream with a server at its other end.
    fn connect(&mut self) -> (UnixStream, tokio::task::JoinHandle<End>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.streams += 1;
        let task = tokio::spawn(serve(
            Arc::clone(&self.shared),
            self.shared.arrivals.begin(),
            Socket::Unix(theirs),
            StreamId(self.streams),
            TlsPolicy::Off,
        ));
        (ours, task)
    }

    async fn open(&mut self, export: &str) -> Client<UnixStream> {
        let (stream, _) = self.connect();
        Client::over(stream, export).await.unwrap()
    }

    /// Waits until `holds`; panics with the condition if it never does.
    async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let enough = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(Instant::now() < enough, "never came true: {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until all permits and memory are released.
    async fn until_quiet(&self) {
        self.until("all connections over", |bench| {
            bench.shared.connections.load(Ordering::Relaxed) == 0
        })
        .await;
        assert_eq!(self.shared.pool.used(), 0, "memory was not given back");
        assert_eq!(self.shared.pool.waiting(), 0);
        self.until("all permits released", |bench| bench.shared.piece_permits.used() == 0).await;
        for stats in self.stats() {
            assert_eq!((stats.in_flight, stats.connections), (0, 0), "{}", stats.name);
        }
    }

    fn stats(&self) -> Vec<crate::stats::VolumeStats> {
        self.shared.exports.all().iter().map(|export| export.stats.snapshot()).collect()
    }
}

fn read(offset: u64, length: u32) -> NbdCommand {
    NbdCommand::Read { offset, length, unfragmented: false }
}

fn pattern(seed: u8, length: usize) -> Bytes {
    (0..length).map(|index| seed.wrapping_add((index / 512) as u8)).collect::<Vec<u8>>().into()
}
