//! Connections over a disk that the test decides about: when a request completes, how, and in which order.

#[allow(dead_code)]
#[path = "../../tests/common/client.rs"]
mod client;

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use headtime_io::{IoDone, SubmitError};
use headtime_nbd::ExportFlags;
use headtime_nbd::client::{Event as ClientEvent, Outcome, RequestError};
use headtime_sched::{RequestId, VolumeId};
use headtime_units::{ByteSize, Extent, SectorSize};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::*;
use crate::disk::OnDone;
use crate::export::Blocks;
use crate::volumes::{DriveShape, LiveVolume, Settings, Volume};
use client::Client;

const MIB: u64 = 1 << 20;
const DRIVE_BYTES: u64 = 16 * MIB;
/// Where the volumes of these tests start, and how long each is.
const BASE: u64 = MIB;
const VOLUME_BYTES: u64 = 6 * MIB;

/// A disk in memory that completes at once, or when it is told to.
#[derive(Default)]
struct ScriptedDisk(Mutex<Script>);

#[derive(Default)]
struct Script {
    bytes: Vec<u8>,
    holds: bool,
    held: Vec<(RequestId, Io, OnDone)>,
    /// What fails, and how.
    failing: Vec<(Extent, i32)>,
    next: u64,
    /// Everything that was submitted, without its data.
    seen: Vec<Io>,
    most_held: usize,
    most_held_bytes: u64,
}

impl ScriptedDisk {
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    fn held(&self) -> usize {
        self.script().held.len()
    }

    /// Completes one held request, by its place in the order of arrival.
    fn release(&self, index: usize) {
        let (_, io, on_done) = self.script().held.remove(index);
        let result = self.script().carry_out(&io);
        on_done(IoDone { finished: None, result });
    }

    /// From now on requests complete at once, those held included.
    fn let_go(&self) {
        self.script().holds = false;
        while self.held() > 0 {
            self.release(0);
        }
    }
}

impl Script {
    fn carry_out(&mut self, io: &Io) -> Result<Bytes, IoError> {
        if let Some((_, errno)) = self.failing.iter().find(|(extent, _)| extent.overlaps(io.extent)) {
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

    fn physical_block(&self) -> u32 {
        4096
    }

    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        let mut script = self.script();
        script.next += 1;
        let id = RequestId(script.next);
        script.seen.push(Io { data: Bytes::new(), ..io.clone() });
        if script.holds {
            script.held.push((id, io, on_done));
            script.most_held = script.most_held.max(script.held.len());
            let bytes = script.held.iter().map(|(_, io, _)| io.extent.len.get() * 512).sum();
            script.most_held_bytes = script.most_held_bytes.max(bytes);
            return Ok(id);
        }
        let result = script.carry_out(&io);
        drop(script);
        on_done(IoDone { finished: None, result });
        Ok(id)
    }

    fn cancel(&self, id: RequestId) {
        let mut script = self.script();
        let Some(index) = script.held.iter().position(|(held, ..)| *held == id) else { return };
        let (_, _, on_done) = script.held.remove(index);
        drop(script);
        on_done(IoDone { finished: None, result: Err(IoError::Cancelled) });
    }
}

/// A hub over a scripted disk with the volumes `a` and `b`, and tasks that serve whoever connects.
struct Bench {
    hub: Arc<Hub>,
    disk: Arc<ScriptedDisk>,
    phase: watch::Sender<Phase>,
    streams: u32,
}

impl Bench {
    fn new() -> Self {
        Self::with(ServeLimits::default(), Settings::default())
    }

    fn with(limits: ServeLimits, settings: Settings) -> Self {
        let disk = Arc::new(ScriptedDisk::default());
        disk.script().bytes = vec![0; DRIVE_BYTES as usize];
        let exports = Exports::default();
        let blocks = Blocks { physical: 4096, request_bytes: limits.request.get() as u32 };
        for (index, name) in ["a", "b"].into_iter().enumerate() {
            let extent = Extent::from_numbers((BASE + index as u64 * VOLUME_BYTES) / 512, VOLUME_BYTES / 512);
            let volume = Volume { id: VolumeId(index as u32 + 1), name: name.to_string(), extent, settings: settings.clone() };
            exports.serve(&LiveVolume::new(&volume, SectorSize::B512), blocks);
        }
        let (phase, phase_seen) = watch::channel(Phase::Running);
        let hub = Hub {
            pool: crate::memory::pool(&limits, exports.count()),
            places: Stock::new(limits.pieces, limits.pieces / 2, exports.count()),
            doors: Stock::new(limits.connections, limits.connections / 2, exports.count()),
            arrivals: Arc::default(),
            exports: Arc::new(exports),
            disk: Arc::clone(&disk) as Arc<dyn Disk>,
            tls: None,
            permissions: Permissions::default(),
            nbd_limits: Hub::nbd_limits(&limits),
            phase: phase_seen,
            connections: AtomicUsize::new(0),
            limits,
        };
        Self { hub: Arc::new(hub), disk, phase, streams: 0 }
    }

    /// A connected stream with a server behind it.
    fn connect(&mut self) -> (UnixStream, tokio::task::JoinHandle<End>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.streams += 1;
        let task =
            tokio::spawn(serve(Arc::clone(&self.hub), self.hub.arrivals.begin(), Socket::Unix(theirs), StreamId(self.streams), TlsPolicy::Off));
        (ours, task)
    }

    async fn open(&mut self, export: &str) -> Client<UnixStream> {
        let (stream, _) = self.connect();
        Client::over(stream, export).await.unwrap()
    }

    /// Waits until `holds`; says what never came true otherwise.
    async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let enough = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(Instant::now() < enough, "never came true: {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Everything that was lent has been given back.
    async fn until_quiet(&self) {
        self.until("all connections over", |bench| bench.hub.connections.load(Ordering::Relaxed) == 0).await;
        assert_eq!(self.hub.pool.used(), 0, "memory was not given back");
        assert_eq!(self.hub.pool.waiting(), 0);
        self.until("all places given back", |bench| bench.hub.places.used() == 0).await;
        for stats in self.stats() {
            assert_eq!((stats.in_flight, stats.connections), (0, 0), "{}", stats.name);
        }
    }

    fn stats(&self) -> Vec<crate::stats::VolumeStats> {
        self.hub.exports.all().iter().map(|export| export.stats.snapshot()).collect()
    }
}

fn read(offset: u64, length: u32) -> Command {
    Command::Read { offset, length, unfragmented: false }
}

fn pattern(seed: u8, length: usize) -> Bytes {
    (0..length).map(|index| seed.wrapping_add((index / 512) as u8)).collect::<Vec<u8>>().into()
}

#[tokio::test]
async fn what_is_written_is_read_back_from_its_own_volume_only() {
    let mut bench = Bench::new();
    let mut a = bench.open("a").await;
    let mut b = bench.open("b").await;
    a.write(4096, pattern(1, 8192)).await.unwrap();
    b.write(4096, pattern(9, 512)).await.unwrap();
    assert_eq!(a.read(4096, 8192).await.unwrap(), pattern(1, 8192));
    assert_eq!(b.read(4096, 1024).await.unwrap()[..512], pattern(9, 512));
    assert_eq!(bench.disk.script().bytes[(BASE + 4096) as usize], 1);
    assert_eq!(bench.disk.script().bytes[(BASE + VOLUME_BYTES + 4096) as usize], 9);
    a.leave().await;
    drop(b);
    bench.until_quiet().await;
    let stats = bench.stats();
    assert_eq!((stats[0].reads.requests, stats[0].writes.bytes, stats[1].reads.bytes), (1, 8192, 1024));
}

#[tokio::test]
async fn replies_go_out_in_the_order_of_completion() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    bench.disk.script().holds = true;
    let ids = [client.submit(read(0, 512)), client.submit(read(8192, 512)), client.submit(read(4096, 512))];
    client.send().await;
    bench.until("three at the disk", |bench| bench.disk.held() == 3).await;
    bench.disk.release(2);
    assert_eq!(client.completion().await.id, ids[2]);
    bench.disk.release(0);
    assert_eq!(client.completion().await.id, ids[0]);
    bench.disk.release(0);
    assert_eq!(client.completion().await.id, ids[1]);
}

#[tokio::test]
async fn an_error_reaches_the_request_it_belongs_to_with_its_meaning() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    let sector = |offset: u64| Extent::from_numbers((BASE + offset) / 512, 1);
    bench.disk.script().failing = vec![(sector(8192), 5), (sector(16_384), 28)];
    assert!(client.read(0, 8192).await.is_ok());
    let errno = |result: Result<Outcome, RequestError>| match result {
        Err(RequestError::Server { errno, text, .. }) => (errno, text),
        other => panic!("{other:?}"),
    };
    let (code, text) = errno(client.request(read(4096, 8192)).await);
    assert!(code == Errno::Io && text.contains("read of"), "{text}");
    let (code, text) = errno(client.write(16_384, pattern(0, 512)).await);
    assert!(code == Errno::NoSpace && text.contains("no space"), "{text}");
    assert!(client.write(20_480, pattern(0, 512)).await.is_ok());
    let stats = &bench.stats()[0];
    assert_eq!((stats.reads.errors, stats.writes.errors, stats.reads.requests), (1, 1, 1));
}

#[tokio::test]
async fn long_requests_reach_the_disk_in_pieces_with_deadline_and_fua() {
    let settings = Settings { deadline: Some(Nanos::from_ms(100)), ..Settings::default() };
    let mut bench = Bench::with(ServeLimits::default(), settings);
    let mut client = bench.open("a").await;
    let payload = pattern(3, (2 * MIB + 512) as usize);
    client.request(Command::Write { offset: 0, payload: payload.clone(), fua: true }).await.unwrap();
    assert_eq!(client.read(0, payload.len() as u32).await.unwrap(), payload);
    client.request(Command::WriteZeroes { offset: 0, length: 512, fua: true, no_hole: true, fast: false }).await.unwrap();
    client.request(Command::Flush).await.unwrap();
    let seen = bench.disk.script().seen.clone();
    let lengths: Vec<(Op, u64, bool, bool)> = seen.iter().map(|io| (io.op, io.extent.len.get(), io.fua, io.deadline.is_some())).collect();
    let write = |sectors| (Op::Write, sectors, true, true);
    let read = |sectors| (Op::Read, sectors, false, true);
    let rest = [(Op::Zero, 1, true, false), (Op::Flush, 0, false, false)];
    assert_eq!(lengths, [write(2048), write(2048), write(1), read(2048), read(2048), read(1), rest[0], rest[1]]);
    assert!(seen.iter().all(|io| io.volume == VolumeId(1) && io.stream == StreamId(1)));
    assert!(seen.iter().all(|io| io.deadline.is_none_or(|deadline| deadline <= Nanos::from_ms(100))));
}

#[tokio::test]
async fn every_command_does_what_it_says() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    client.write(0, pattern(7, 16_384)).await.unwrap();
    assert_eq!(client.request(Command::Cache { offset: 0, length: 3 << 20 }).await, Ok(Outcome::Done));
    assert_eq!(client.request(Command::Trim { offset: 4096, length: 4096, fua: true }).await, Ok(Outcome::Done));
    let zeroes = Command::WriteZeroes { offset: 8192, length: 4096, fua: false, no_hole: false, fast: false };
    assert_eq!(client.request(zeroes).await, Ok(Outcome::Done));
    let whole = VOLUME_BYTES as u32;
    let status = client.request(Command::BlockStatus { offset: 0, length: whole, single: false }).await;
    assert_eq!(status, Ok(Outcome::Extents(vec![StatusExtent { length: whole, state: 0 }])));
    let bytes = client.read(0, 16_384).await.unwrap();
    assert_eq!((bytes[0], bytes[4096], bytes[8192], bytes[12_288]), (7, 0xdd, 0, 7 + 24));
    assert_eq!(bench.stats()[0].others.requests, 4);
}

#[tokio::test]
async fn a_read_only_volume_takes_no_writes() {
    let mut bench = Bench::with(ServeLimits::default(), Settings { read_only: true, ..Settings::default() });
    let client = bench.open("a").await;
    let flags = client.machine.session().unwrap().export.flags;
    assert!(flags.contains(ExportFlags::READ_ONLY) && !flags.contains(ExportFlags::SEND_TRIM));
}

#[tokio::test]
async fn of_a_client_that_leaves_writes_are_carried_out_and_reads_cancelled() {
    let mut bench = Bench::new();
    let (stream, task) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    bench.disk.script().holds = true;
    client.submit(read(0, 3 << 20));
    client.submit(Command::Write { offset: 4096, payload: pattern(5, 512), fua: false });
    client.send().await;
    bench.until("three pieces and a write at the disk", |bench| bench.disk.held() == 4).await;
    drop(client);
    bench.until("the reads are cancelled", |bench| bench.disk.held() == 1).await;
    assert!(!task.is_finished(), "it stays until its write is over");
    bench.disk.let_go();
    task.await.unwrap();
    assert_eq!(bench.disk.script().bytes[(BASE + 4096) as usize], 5);
    bench.until_quiet().await;
    assert_eq!(bench.stats()[0].reads.requests, 0);
}

#[tokio::test]
async fn a_write_that_did_not_arrive_wholly_never_happens() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    client.submit(Command::Write { offset: 0, payload: pattern(1, 65_536), fua: false });
    let mut bytes = Vec::new();
    while let Some(piece) = client.machine.poll_output() {
        bytes.extend_from_slice(&piece);
    }
    client.stream.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
    drop(client);
    bench.until_quiet().await;
    assert!(bench.disk.script().seen.is_empty());
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_and_no_more_memory_than_its_own() {
    let limits = ServeLimits {
        memory: ByteSize::new(8 * MIB),
        request: ByteSize::new(4 * MIB),
        connection_bytes: ByteSize::new(4 * MIB),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, Settings::default());
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut client = bench.open("a").await;
        for _ in 0..15 {
            client.submit(read(0, 4 << 20));
        }
        client.send().await;
        slow.push(client);
    }
    bench.until("the pool is used up", |bench| bench.hub.pool.waiting() > 0).await;
    assert!(u64::from(bench.hub.pool.used()) * 4096 <= 8 * MIB);
    let mut quick = bench.open("b").await;
    for index in 0..50 {
        quick.write(index * 4096, pattern(index as u8, 4096)).await.unwrap();
        assert_eq!(quick.read(index * 4096, 4096).await.unwrap(), pattern(index as u8, 4096));
    }
    let all_read = slow.into_iter().map(|mut client| {
        tokio::spawn(async move {
            for _ in 0..15 {
                assert!(matches!(client.completion().await.result, Ok(Outcome::Data(data)) if data.len() == 4 << 20));
            }
        })
    });
    for reader in all_read.collect::<Vec<_>>() {
        reader.await.expect("whoever reads at last gets everything");
    }
    drop(quick);
    bench.until_quiet().await;
}

#[tokio::test]
async fn a_client_that_keeps_memory_others_wait_for_is_shown_out() {
    let limits = ServeLimits {
        memory: ByteSize::new(4 * MIB),
        request: ByteSize::new(4 * MIB),
        connection_bytes: ByteSize::new(4 * MIB),
        connection_memory: ByteSize::new(64 << 10),
        stall_timeout: Nanos::from_ms(30),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, Settings::default());
    let (stream, idle_reader) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    client.submit(read(0, 4 << 20));
    client.send().await;
    bench.until("it holds the pool", |bench| u64::from(bench.hub.pool.used()) * 4096 >= 3 * MIB).await;
    let mut other = bench.open("b").await;
    assert_eq!(other.read(0, 4 << 20).await.unwrap().len(), 4 << 20);
    assert!(matches!(idle_reader.await.unwrap(), End::Stalled(_)));
    // The same with a payload that is announced and never sent.
    let (stream, idle_writer) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    client.submit(Command::Write { offset: 0, payload: pattern(0, 4 << 20), fua: false });
    let header = client.machine.poll_output().unwrap();
    client.stream.write_all(&header).await.unwrap();
    bench.until("it holds the pool", |bench| u64::from(bench.hub.pool.used()) * 4096 >= 3 * MIB).await;
    assert_eq!(other.read(0, 4 << 20).await.unwrap().len(), 4 << 20);
    assert!(matches!(idle_writer.await.unwrap(), End::Stalled(_)));
    drop(other);
    bench.until_quiet().await;
    assert!(bench.disk.script().seen.iter().all(|io| io.op == Op::Read));
}

#[tokio::test]
async fn the_disk_never_holds_more_pieces_than_there_are_places() {
    let limits = ServeLimits { pieces: 3, ..ServeLimits::default() };
    let mut bench = Bench::with(limits, Settings::default());
    bench.disk.script().holds = true;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = bench.open("a").await;
        for _ in 0..10 {
            client.submit(read(0, 2 << 20));
        }
        client.send().await;
        clients.push(client);
    }
    bench.until("all places are taken", |bench| bench.disk.held() == 3).await;
    let mut answered = 0;
    for client in &mut clients {
        for _ in 0..10 {
            let mut pending = Box::pin(client.completion());
            loop {
                tokio::select! {
                    biased;
                    completion = &mut pending => {
                        assert!(completion.result.is_ok());
                        answered += 1;
                        break;
                    }
                    () = tokio::time::sleep(Duration::from_millis(1)) => if bench.disk.held() > 0 { bench.disk.release(0) },
                }
            }
        }
    }
    assert_eq!((answered, bench.disk.script().most_held), (30, 3));
    drop(clients);
    bench.disk.let_go();
    bench.until_quiet().await;
}

#[tokio::test]
async fn an_export_that_is_held_back_leaves_places_and_memory_to_others() {
    let limits = ServeLimits {
        pieces: 12,
        memory: ByteSize::new(12 * MIB),
        request: ByteSize::new(MIB),
        piece: ByteSize::new(256 << 10),
        connection_bytes: ByteSize::new(4 * MIB),
        connection_memory: ByteSize::new(64 << 10),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, Settings::default());
    bench.disk.script().holds = true;
    let mut greedy = Vec::new();
    for _ in 0..20 {
        let mut client = bench.open("a").await;
        for index in 0..30 {
            client.submit(read(index % 5 * MIB, 1 << 20));
        }
        client.send().await;
        greedy.push(client);
    }
    // Floors of two places and 2 MiB for each of two exports and one to come.
    bench.until("a has what it is given of the pool", |bench| u64::from(bench.hub.pool.used()) * 4096 > 7 * MIB).await;
    bench.until("a has all places it is given", |bench| bench.disk.held() == 8).await;
    let mut other = bench.open("b").await;
    let of_b = |bench: &Bench| bench.disk.script().held.iter().filter(|(_, io, _)| io.volume == VolumeId(2)).count();
    for round in 0..6 {
        // Eight at once, so that it asks for more than its floor of both.
        for index in 0..8 {
            other.submit(read(index * (512 << 10), 512 << 10));
        }
        other.submit(Command::Flush);
        other.send().await;
        for _ in 0..9 {
            let mut answer = Box::pin(other.completion());
            loop {
                tokio::select! {
                    biased;
                    completion = &mut answer => {
                        completion.result.unwrap();
                        break;
                    }
                    () = tokio::time::sleep(Duration::from_micros(200)) => {
                        // The drive does what b asks and nothing of what a does: a is at its limit.
                        let index = bench.disk.script().held.iter().position(|(_, io, _)| io.volume == VolumeId(2));
                        index.into_iter().for_each(|index| bench.disk.release(index));
                    }
                }
            }
        }
        assert_eq!((of_b(&bench), bench.disk.held()), (0, 8), "round {round}: a has what it had");
        assert!(u64::from(bench.hub.pool.used()) * 4096 <= 8 * MIB);
    }
    assert!(bench.disk.script().most_held <= 12);
    drop((greedy, other));
    bench.disk.let_go();
    bench.until_quiet().await;
}

#[tokio::test]
async fn two_connections_never_wait_for_what_the_other_keeps_idle() {
    // Each is given 3 MiB, gets one read done, and then wants 4 MiB of the 5 that there are.
    let limits = ServeLimits {
        memory: ByteSize::new(5 * MIB),
        request: ByteSize::new(4 * MIB),
        piece: ByteSize::new(256 << 10),
        connection_bytes: ByteSize::new(8 * MIB),
        connection_memory: ByteSize::new(0),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, Settings::default());
    let clients = ["a", "b"].map(|export| {
        let (stream, _) = bench.connect();
        tokio::spawn(async move {
            let mut client = Client::over(stream, export).await.unwrap();
            for _ in 0..20 {
                for length in [2 << 20, 4 << 20, 1 << 20] {
                    client.submit(read(0, length));
                }
                client.submit(Command::Cache { offset: 0, length: 3 << 20 });
                for _ in 0..4 {
                    client.completion().await.result.unwrap();
                }
                client.write(MIB, pattern(3, 3 << 20)).await.unwrap();
            }
        })
    });
    for client in clients {
        timeout(Duration::from_secs(60), client).await.expect("they get on").unwrap();
    }
    bench.until_quiet().await;
    assert_eq!(bench.hub.pool.used(), 0);
}

#[tokio::test]
async fn a_connection_is_never_let_have_more_in_flight_than_it_can_be_given_memory_for() {
    let limits = ServeLimits {
        memory: ByteSize::new(6 * MIB),
        request: ByteSize::new(2 * MIB),
        connection_bytes: ByteSize::new(64 * MIB),
        connection_memory: ByteSize::new(64 << 10),
        ..ServeLimits::default()
    };
    let mut bench = Bench::with(limits, Settings::default());
    bench.disk.script().holds = true;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = bench.open("a").await;
        for _ in 0..30 {
            client.submit(read(0, 2 << 20));
        }
        client.send().await;
        clients.push(client);
    }
    bench.until("something is at the disk", |bench| bench.disk.held() > 0).await;
    bench.disk.let_go();
    for client in &mut clients {
        for _ in 0..30 {
            client.completion().await.result.unwrap();
        }
    }
    // The pool and what three connections have of their own.
    assert!(bench.disk.script().most_held_bytes <= 6 * MIB + 3 * (64 << 10), "{}", bench.disk.script().most_held_bytes);
    drop(clients);
    bench.until_quiet().await;
}

#[tokio::test]
async fn connections_of_one_export_leave_room_for_those_of_another() {
    let mut bench = Bench::with(ServeLimits { connections: 12, ..ServeLimits::default() }, Settings::default());
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(bench.open("a").await);
    }
    let (stream, refused) = bench.connect();
    let reason = Client::over(stream, "a").await.err().expect("there is no room").to_string();
    assert!(reason.contains("kept for other exports"), "{reason}");
    refused.await.unwrap();
    for _ in 0..2 {
        clients.push(bench.open("b").await);
    }
    clients.remove(0).leave().await;
    bench.until("a place is free again", |bench| bench.hub.doors.used() == 9).await;
    clients.push(bench.open("a").await);
    drop(clients);
    bench.until_quiet().await;
    assert_eq!(bench.hub.doors.used(), 0);
}

#[tokio::test]
async fn a_flood_of_cache_requests_reads_a_window_at_a_time() {
    let mut bench = Bench::new();
    bench.disk.script().holds = true;
    let mut client = bench.open("a").await;
    for _ in 0..100 {
        client.submit(Command::Cache { offset: 0, length: 6 << 20 });
    }
    client.send().await;
    bench.until("a window at the disk", |bench| bench.disk.held() == WINDOW).await;
    bench.disk.release(0);
    bench.until("the next piece at the disk", |bench| bench.disk.held() == WINDOW).await;
    bench.disk.let_go();
    for _ in 0..100 {
        assert_eq!(client.completion().await.result, Ok(Outcome::Done));
    }
    assert!(bench.disk.script().most_held_bytes <= WINDOW as u64 * MIB);
}

#[tokio::test]
async fn draining_answers_what_is_in_flight_and_refuses_the_rest() {
    let mut bench = Bench::new();
    let (stream, task) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    let (half_open, half_open_task) = bench.connect();
    bench.disk.script().holds = true;
    let write = client.submit(Command::Write { offset: 0, payload: pattern(1, 512), fua: false });
    client.send().await;
    bench.until("a write at the disk", |bench| bench.disk.held() == 1).await;
    bench.phase.send_replace(Phase::Draining);
    assert!(matches!(half_open_task.await.unwrap(), End::ShutDown | End::Protocol(_)));
    drop(half_open);
    let late = client.submit(read(0, 512));
    let refused = client.completion().await;
    assert_eq!(refused.id, late);
    assert!(matches!(refused.result, Err(RequestError::Server { errno: Errno::Shutdown, .. })), "{refused:?}");
    assert!(!task.is_finished());
    bench.disk.let_go();
    let done = client.completion().await;
    assert_eq!((done.id, done.result), (write, Ok(Outcome::Done)));
    assert!(matches!(client.event().await, ClientEvent::Closed(_)));
    drop(client);
    assert_eq!(task.await.unwrap(), End::ShutDown);
    bench.until_quiet().await;
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_ended() {
    let limits = ServeLimits { handshake_timeout: Nanos::from_ms(20), ..ServeLimits::default() };
    let mut bench = Bench::with(limits, Settings::default());
    let (stream, task) = bench.connect();
    assert!(matches!(task.await.unwrap(), End::HandshakeTimeout(_)));
    drop(stream);
    bench.until_quiet().await;
}

#[tokio::test]
async fn an_open_export_does_not_time_out() {
    let limits = ServeLimits { handshake_timeout: Nanos::from_ms(50), stall_timeout: Nanos::from_ms(10), ..ServeLimits::default() };
    let mut bench = Bench::with(limits, Settings::default());
    let mut client = bench.open("a").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(client.read(0, 512).await.is_ok());
}

#[tokio::test]
async fn a_drive_that_gives_too_little_is_an_error_and_not_a_short_reply() {
    let mut bench = Bench::new();
    let mut client = bench.open("a").await;
    bench.disk.script().holds = true;
    client.submit(read(0, 1024));
    client.send().await;
    bench.until("a read at the disk", |bench| bench.disk.held() == 1).await;
    let (_, _, on_done) = bench.disk.script().held.remove(0);
    on_done(IoDone { finished: None, result: Ok(Bytes::from_static(&[0; 512])) });
    let result = client.completion().await.result;
    assert!(matches!(result, Err(RequestError::Server { errno: Errno::Io, .. })), "{result:?}");
}

/// What hostile clients send, after or instead of a handshake.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let flags = Just(vec![0, 0, 0, 3]);
    let option = (0_u32..12, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..64)).prop_map(|(option, length, data)| {
        let length = if length % 2 == 0 { data.len() as u32 } else { length };
        [&b"IHAVEOPT"[..], &option.to_be_bytes(), &length.to_be_bytes(), &data].concat()
    });
    let open = Just([&b"IHAVEOPT\0\0\0\x07\0\0\0\x07"[..], b"\0\0\0\x01a\0\0"].concat());
    let request = (0_u16..9, any::<u16>(), 0_u64..1 << 23, any::<u32>()).prop_map(|(kind, flags, offset, length)| {
        let flags = flags & 0x1f;
        [&0x2560_9513_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes(), &[7; 8], &offset.to_be_bytes(), &length.to_be_bytes()]
            .concat()
    });
    let noise = proptest::collection::vec(any::<u8>(), 0..300);
    let part = prop_oneof![3 => option, 2 => open, 4 => request, 1 => noise];
    (flags, proptest::collection::vec(part, 0..12), any::<bool>()).prop_map(|(flags, parts, polite)| {
        let start = if polite { flags } else { Vec::new() };
        start.into_iter().chain(parts.into_iter().flatten()).collect()
    })
}

/// One step of a well-behaved client, on its own part of volume b.
#[derive(Clone, Debug)]
enum Step {
    Write { block: u64, blocks: u64, seed: u8 },
    Read { block: u64, blocks: u64 },
    Zero { block: u64, blocks: u64 },
    Flush,
    Cache,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0_u64..48, 1_u64..16);
    let step = prop_oneof![
        3 => (place(), any::<u8>()).prop_map(|((block, blocks), seed)| Step::Write { block, blocks, seed }),
        3 => place().prop_map(|(block, blocks)| Step::Read { block, blocks }),
        1 => place().prop_map(|(block, blocks)| Step::Zero { block, blocks }),
        1 => Just(Step::Flush),
        1 => Just(Step::Cache),
    ];
    proptest::collection::vec(step, 1..25)
}

const BLOCK: u64 = 32 << 10;
const PART: u64 = 64 * BLOCK;

/// Carries out `steps` and checks every byte that is read.
async fn behave(mut client: Client<UnixStream>, part: u64, steps: Vec<Step>) {
    let mut model: BTreeMap<u64, Bytes> = BTreeMap::new();
    let zeroes = Bytes::from(vec![0; BLOCK as usize]);
    for step in steps {
        match step {
            Step::Write { block, blocks, seed } => {
                let payload = pattern(seed, (blocks * BLOCK) as usize);
                for index in 0..blocks {
                    let start = (index * BLOCK) as usize;
                    model.insert(block + index, payload.slice(start..start + BLOCK as usize));
                }
                client.write(part + block * BLOCK, payload).await.unwrap();
            }
            Step::Read { block, blocks } => {
                let bytes = client.read(part + block * BLOCK, (blocks * BLOCK) as u32).await.unwrap();
                for (index, got) in bytes.chunks(BLOCK as usize).enumerate() {
                    let expected = model.get(&(block + index as u64)).unwrap_or(&zeroes);
                    assert!(got == expected, "block {} of the part at {part} is not what was written", block + index as u64);
                }
            }
            Step::Zero { block, blocks } => {
                (block..block + blocks).for_each(|index| drop(model.remove(&index)));
                let command =
                    Command::WriteZeroes { offset: part + block * BLOCK, length: (blocks * BLOCK) as u32, fua: true, no_hole: false, fast: false };
                client.request(command).await.unwrap();
            }
            Step::Flush => drop(client.request(Command::Flush).await.unwrap()),
            Step::Cache => drop(client.request(Command::Cache { offset: part, length: PART as u32 }).await.unwrap()),
        }
    }
    client.leave().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Honest clients, whose bytes are checked, beside hostile ones, over a disk that completes in random order, with little memory and few places.
    #[test]
    fn whatever_hostile_clients_send_honest_ones_are_served_and_everything_is_given_back(
        honest in proptest::collection::vec(steps(), 1..4),
        hostile in proptest::collection::vec((garbage(), any::<bool>()), 0..6),
        order in any::<u64>(),
        pieces in 1_u32..6,
    ) {
        let limits = ServeLimits {
            memory: ByteSize::new(2 * MIB),
            connection_memory: ByteSize::new(256 << 10),
            connection_bytes: ByteSize::new(MIB),
            request: ByteSize::new(MIB),
            piece: ByteSize::new(64 << 10),
            connection_requests: 8,
            pieces,
            stall_timeout: Nanos::from_ms(20),
            handshake_timeout: Nanos::from_ms(500),
            ..ServeLimits::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut bench = Bench::with(limits, Settings::default());
            bench.disk.script().holds = true;
            let disk = Arc::clone(&bench.disk);
            let completing = tokio::spawn(async move {
                let mut order = order | 1;
                loop {
                    let held = disk.held();
                    if held > 0 {
                        order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        disk.release((order >> 33) as usize % held);
                    }
                    tokio::task::yield_now().await;
                }
            });
            for (bytes, stays) in hostile {
                let (mut stream, _) = bench.connect();
                tokio::spawn(async move {
                    let sent = stream.write_all(&bytes).await;
                    if stays && sent.is_ok() {
                        // Reads slowly what comes, until it is shown out.
                        let mut scrap = [0; 4096];
                        while matches!(stream.read(&mut scrap).await, Ok(count) if count > 0) {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                });
            }
            let mut tasks = Vec::new();
            for (index, steps) in honest.into_iter().enumerate() {
                let client = bench.open("b").await;
                tasks.push(tokio::spawn(behave(client, index as u64 * PART, steps)));
            }
            for task in tasks {
                task.await.expect("an honest client gets what it wrote");
            }
            // Hostile clients that opened the export and wait may stay as long as they like: the server ends them.
            bench.phase.send_replace(Phase::Draining);
            tokio::time::sleep(Duration::from_millis(5)).await;
            bench.phase.send_replace(Phase::Leaving);
            bench.until("all connections over", |bench| bench.hub.connections.load(Ordering::Relaxed) == 0).await;
            completing.abort();
            bench.disk.let_go();
            assert_eq!(bench.hub.pool.used(), 0, "memory was not given back");
            bench.until("all places given back", |bench| bench.hub.places.used() == 0).await;
            assert!(bench.disk.script().most_held <= pieces as usize);
        });
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_its_next_request_waits_for_room_gives_everything_back() {
    let limits = ServeLimits { request: ByteSize::new(MIB), connection_bytes: ByteSize::new(MIB), ..ServeLimits::default() };
    let mut bench = Bench::with(limits, Settings::default());
    let (stream, task) = bench.connect();
    let mut client = Client::over(stream, "a").await.unwrap();
    for _ in 0..15 {
        client.submit(read(0, 1 << 20));
    }
    client.send().await;
    bench.until("a reply that nobody fetches", |bench| bench.stats()[0].reads.requests > 0).await;
    drop(client);
    bench.until("its task ends", |_| task.is_finished()).await;
    bench.until_quiet().await;
}
