//! Relocations of volumes under clients, over the control socket as `headtime volume relocate`
//! does. `power_cut.rs` cuts the power during them.
//!
//! `HEADTIME_SEED=N` selects other requests.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::client::Client;
use common::{Sandbox, noise, runtime};
use headtime_io::DriveOptions;
use headtime_nbd::NbdCommand;
use headtime_nbd::client::Reply;
use headtime_serve::Server;
use headtime_serve::config::Config;
use headtime_serve::control::{
    CancelRelocation, ControlClient, ControlError, ErrorReplyKind, RelocateArguments,
    ScanArguments, VolumeAnswer, VolumeArguments, VolumeStatus,
};
use headtime_serve::scans::ScanState;
use headtime_serve::status::ServerStatus;
use headtime_serve::volumes::{
    RelocateOrder, RelocateTo, RelocationState, RelocationStatus, Volumes,
};
use headtime_testkit::power_cut::{Platter, PowerCutDrive};
use headtime_units::{SectorSize, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::net::UnixStream;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const TWO: &str = "max_impact = \"50%\"\n[[volume]]\nname = \"a\"\nsize = \"16MiB\"\n\
    [[volume]]\nname = \"b\"\nsize = \"4MiB\"\n";

fn seed() -> u64 {
    std::env::var("HEADTIME_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7)
}

fn control(server: &Server) -> ControlClient {
    ControlClient::connect(server.control_socket().expect("a drive in a file has a control socket"))
        .unwrap()
}

fn to(name: &str, to: &str) -> RelocateArguments {
    RelocateArguments { name: name.to_owned(), to: to.to_owned(), ..RelocateArguments::default() }
}

fn part(name: &str, from: &str, size: &str, to: &str) -> RelocateArguments {
    let (from, size) = (Some(from.to_owned()), Some(size.to_owned()));
    RelocateArguments { from, size, ..self::to(name, to) }
}

fn relocate(control: &mut ControlClient, order: &RelocateArguments) -> VolumeAnswer {
    control.ask_for("volume.relocate", order).unwrap_or_else(|error| panic!("{order:?}: {error}"))
}

/// The message of a rejected command, which must be a bad request.
fn refused(control: &mut ControlClient, verb: &str, order: &impl serde::Serialize) -> String {
    match control.ask_for::<VolumeAnswer>(verb, order) {
        Err(ControlError::ErrorReply(refused)) => {
            assert_eq!(refused.kind, ErrorReplyKind::BadRequest, "{}", refused.message);
            refused.message
        }
        other => panic!("{verb} was not refused: {other:?}"),
    }
}

fn named(name: &str) -> VolumeArguments {
    VolumeArguments { name: name.to_owned(), ..VolumeArguments::default() }
}

fn show(control: &mut ControlClient, name: &str) -> VolumeStatus {
    control.volume("volume.show", &named(name)).unwrap().volumes.remove(0)
}

fn state_of(control: &mut ControlClient, name: &str) -> RelocationStatus {
    show(control, name).relocation.expect("a relocation was started")
}

/// Waits for a state of the relocation of a volume, or for its end.
fn until(
    control: &mut ControlClient,
    name: &str,
    there: impl Fn(&RelocationStatus) -> bool,
) -> RelocationStatus {
    let enough = Instant::now() + Duration::from_secs(120);
    loop {
        let status = state_of(control, name);
        if there(&status) || status.state.is_over() {
            return status;
        }
        assert!(Instant::now() < enough, "{status:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended(control: &mut ControlClient, name: &str) -> RelocationStatus {
    until(control, name, |_| false)
}

/// Extents in mebibytes.
fn mebibytes(volume: &VolumeStatus) -> Vec<(u64, u64)> {
    volume.extents.iter().map(|of| (of.first_sector / 2048, of.sectors / 2048)).collect()
}

/// A client that knows what a volume holds.
struct Tracked {
    client: Client<UnixStream>,
    content: Vec<u8>,
    rng: ChaCha8Rng,
    version: u64,
}

impl Tracked {
    async fn open(socket: &Path, export: &str, size: u64, seed: u64) -> Self {
        let mut client = Client::open(socket, export).await.unwrap();
        let content = noise(seed, size as usize);
        for at in (0..size).step_by(MIB as usize) {
            let bytes = content[at as usize..(at + MIB) as usize].to_vec();
            assert_eq!(client.write(at, bytes).await.unwrap(), Reply::Done);
        }
        Self { client, content, rng: ChaCha8Rng::seed_from_u64(seed), version: seed << 32 }
    }

    /// Up to eight requests of distinct ranges at once; reads must return the content.
    async fn round(&mut self) {
        let slot = self.content.len() as u64 / 8;
        let mut reads = Vec::new();
        let count = self.rng.random_range(1..=8);
        for number in 0..count {
            let length = BLOCK * self.rng.random_range(1..=16);
            let offset = number * slot + self.rng.random_range(0..(slot - length) / 512) * 512;
            let range = offset as usize..(offset + length) as usize;
            let length = length as u32;
            let command = match self.rng.random_range(0..10) {
                0 => {
                    self.content[range].fill(0);
                    NbdCommand::WriteZeroes {
                        offset,
                        length,
                        fua: true,
                        no_hole: true,
                        fast: false,
                    }
                }
                1 => NbdCommand::Flush,
                2..=5 => {
                    self.version += 1;
                    let bytes = noise(self.version, range.len());
                    self.content[range].copy_from_slice(&bytes);
                    let fua = self.rng.random_bool(0.2);
                    NbdCommand::Write { offset, payload: bytes.into(), fua }
                }
                _ => {
                    let id = self.client.submit(NbdCommand::Read {
                        offset,
                        length,
                        unfragmented: false,
                    });
                    reads.push((id, range));
                    continue;
                }
            };
            self.client.submit(command);
        }
        for _ in 0..count {
            let completion = self.client.completion().await;
            let read = reads.iter().find(|(id, _)| *id == completion.id);
            match (completion.result.unwrap(), read) {
                (Reply::Data(bytes), Some((_, range))) => {
                    assert!(bytes == self.content[range.clone()], "HEADTIME_SEED={}", seed());
                }
                (Reply::Done, None) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn check(&mut self) {
        for at in (0..self.content.len()).step_by(MIB as usize) {
            let bytes = self.client.read(at as u64, MIB as u32).await.unwrap();
            assert!(bytes == self.content[at..at + MIB as usize], "HEADTIME_SEED={}", seed());
        }
    }
}

#[test]
fn a_volume_moves_under_its_clients_and_keeps_its_content() {
    for sandbox in [Sandbox::with_tiny_drive(), Sandbox::with_file_drive(128)] {
        let server = sandbox.serve(TWO);
        let mut orders = control(&server);
        let (a, b) = runtime().block_on(async {
            let socket = sandbox.socket();
            let mut a = Tracked::open(&socket, "a", 16 * MIB, seed()).await;
            let mut b = Tracked::open(&socket, "b", 4 * MIB, seed() + 1).await;
            // Whole, in parts to both ends, and back together.
            let moves: [(RelocateArguments, &[(u64, u64)]); 5] = [
                (to("a", "end"), &[(111, 16)]),
                (part("a", "4MiB", "4MiB", "start"), &[(111, 4), (1, 4), (119, 8)]),
                (part("a", "8MiB", "8MiB", "5MiB"), &[(111, 4), (1, 12)]),
                (part("a", "0", "4MiB", "13MiB"), &[(13, 4), (1, 12)]),
                (to("a", "largest-gap"), &[(21, 16)]),
            ];
            for (order, after) in moves {
                let dry = RelocateArguments { dry_run: true, ..order.clone() };
                let would = relocate(&mut orders, &dry);
                assert!(would.dry_run && mebibytes(&would.volumes[0]) == after, "{would:?}");
                relocate(&mut orders, &order);
                let (mut rounds, mut writes_during) = (0, 0);
                while !state_of(&mut orders, "a").state.is_over() {
                    let version = a.version;
                    a.round().await;
                    b.round().await;
                    (rounds, writes_during) = (rounds + 1, writes_during + a.version - version);
                    if rounds % 4 == 0 {
                        // Clients without rest leave it little time.
                        let done = state_of(&mut orders, "a");
                        until(&mut orders, "a", |now| {
                            (now.pass, now.pass_bytes_done) != (done.pass, done.pass_bytes_done)
                        });
                    }
                }
                let end = state_of(&mut orders, "a");
                assert_eq!(end.state, RelocationState::Complete, "{end:?}");
                assert!(writes_during > 0 && end.held_seconds.unwrap() < 5.0, "{end:?}");
                assert_eq!(mebibytes(&show(&mut orders, "a")), after);
                a.check().await;
                b.check().await;
            }
            // The sectors that it has left are free, and another volume does not disturb it.
            let add = VolumeArguments { settings: [size("12MiB")].into(), ..named("c") };
            let c = orders.volume("volume.add", &add).unwrap().volumes.remove(0);
            assert_eq!(mebibytes(&c), [(1, 12)]);
            let mut c = Client::open(&socket, "c").await.unwrap();
            c.write(0, noise(1, 12 << 20)).await.unwrap();
            a.check().await;
            a.client.request(NbdCommand::Flush).await.unwrap();
            (a.content, b.content)
        });
        assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
        let image = std::fs::read(sandbox.path("drive.img")).unwrap();
        assert!(image[21 << 20..37 << 20] == a && image[17 << 20..21 << 20] == b);
        let server = sandbox.serve("");
        runtime().block_on(async {
            let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
            assert!(client.read(0, 16 << 20).await.unwrap() == a);
        });
        drop(server);
    }
}

fn size(size: &str) -> (String, String) {
    ("size".to_owned(), size.to_owned())
}

/// The files of relocations in the state directory.
fn remembered(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(sandbox.path("drive.img.scans")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|of| of == "relocation")).collect()
}

#[test]
fn a_relocation_is_cancelled_and_leaves_the_volume_as_it_was() {
    let sandbox = Sandbox::with_tiny_drive();
    let settings = TWO.replace("16MiB", "60MiB");
    let server = sandbox.serve(&settings);
    let mut orders = control(&server);
    let content: Bytes = noise(3, 4 << 20).into();
    runtime().block_on(async {
        let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
        a.write(0, content.clone()).await.unwrap();
        a.request(NbdCommand::Flush).await.unwrap();
        let free = orders.volume("volume.list", &named("a")).unwrap().free_bytes;
        let order = RelocateArguments { max_impact: Some(0.9), ..to("a", "end") };
        let started = relocate(&mut orders, &order);
        assert_eq!(started.free_bytes, free - 60 * MIB, "the destination is not free");
        let copies = until(&mut orders, "a", |now| now.pass_bytes_done > 0);
        assert_eq!(copies.state, RelocationState::Copying, "{copies:?}");
        assert_eq!((max_impact(&mut orders), remembered(&sandbox).len()), (0.9, 1));
        let cancel = CancelRelocation { name: "a".to_owned() };
        let now: VolumeAnswer = orders.ask_for("volume.relocate_cancel", &cancel).unwrap();
        assert_eq!(now.free_bytes, free);
        let last = now.volumes[0].relocation.as_ref().unwrap();
        assert_eq!(last.state, RelocationState::Cancelled);
        let message = refused(&mut orders, "volume.relocate_cancel", &cancel);
        assert!(message.contains("nothing to cancel"), "{message}");
        assert_eq!(a.read(0, 4 << 20).await.unwrap(), content);
    });
    assert_eq!(max_impact(&mut orders), 0.5, "the bound was one of the relocation");
    assert_eq!(remembered(&sandbox), Vec::<std::path::PathBuf>::new());
    // Sectors of a volume that goes are free, and its relocation is over.
    relocate(&mut orders, &to("b", "end"));
    let force = VolumeArguments { force: true, ..named("b") };
    let left = orders.volume("volume.remove", &force).unwrap();
    assert_eq!(left.free_bytes, (126 - 60) * MIB);
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
    let server = sandbox.serve(&settings);
    let a = show(&mut control(&server), "a");
    assert_eq!((mebibytes(&a), a.relocation), (vec![(1, 60)], None));
    drop(server);
}

fn max_impact(control: &mut ControlClient) -> f64 {
    let status: ServerStatus = control.ask_for("status", &serde_json::json!({})).unwrap();
    status.max_impact
}

#[test]
fn a_relocation_continues_after_the_end_of_its_server() {
    for end in ["drained", "killed"] {
        let sandbox = Sandbox::with_tiny_drive();
        let settings = TWO.replace("16MiB", "60MiB");
        let spawned = (end == "killed").then(|| sandbox.spawn(&settings));
        let server = spawned.is_none().then(|| sandbox.serve(&settings));
        let socket = sandbox.path("drive.img.control");
        let mut orders = ControlClient::connect(&socket).unwrap();
        let content: Bytes = noise(3, 4 << 20).into();
        runtime().block_on(async {
            let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
            a.write(56 << 20, content.clone()).await.unwrap();
            a.request(NbdCommand::Flush).await.unwrap();
        });
        let order = RelocateArguments { max_impact: Some(0.9), ..to("a", "end") };
        relocate(&mut orders, &order);
        until(&mut orders, "a", |now| now.pass_bytes_done > 0);
        // While it runs, a copy of its state is what a file system may bring back after a crash.
        let file = remembered(&sandbox).remove(0);
        let state = std::fs::read(&file).unwrap();
        drop(orders);
        if let Some(server) = server {
            assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
        }
        spawned.into_iter().for_each(common::Spawned::kill_9);

        let server = sandbox.serve(&settings);
        let mut orders = control(&server);
        let runs = |orders: &mut ControlClient| {
            let now = show(orders, "a").relocation;
            now.is_some_and(|now| now.state == RelocationState::Copying)
        };
        // It continues a moment after the start of the server.
        let (before, bound, after) =
            (runs(&mut orders), max_impact(&mut orders), runs(&mut orders));
        assert!(bound == 0.9 || !(before && after), "{end}: its bound is remembered: {bound}");
        let last = ended(&mut orders, "a");
        assert_eq!((last.state, last.pass), (RelocationState::Complete, 1), "{end}: {last:?}");
        assert_eq!(mebibytes(&show(&mut orders, "a")), [(67, 60)], "{end}");
        assert_eq!((max_impact(&mut orders), remembered(&sandbox).len()), (0.5, 0), "{end}");
        runtime().block_on(async {
            let mut a = Client::open(&sandbox.socket(), "a").await.unwrap();
            assert_eq!(a.read(56 << 20, 4 << 20).await.unwrap(), content);
        });
        drop((orders, server));
        // A volume that has moved is not moved again.
        std::fs::write(&file, state).unwrap();
        let server = sandbox.serve(&settings);
        let a = show(&mut control(&server), "a");
        assert_eq!((mebibytes(&a), a.relocation), (vec![(67, 60)], None), "{end}");
        assert_eq!(remembered(&sandbox).len(), 0);
        drop(server);
    }
}

#[test]
fn a_relocation_that_cannot_be_remembered_or_continued_is_reported() {
    let sandbox = Sandbox::with_tiny_drive();
    let settings = TWO.replace("16MiB", "60MiB");
    // A file where the state directory would be made.
    std::fs::write(sandbox.path("full"), "").unwrap();
    let unwritable = format!("state = {:?}\n{settings}", sandbox.path("full/state"));
    let server = sandbox.serve(&unwritable);
    let mut orders = control(&server);
    let order = to("a", "end");
    match orders.ask_for::<VolumeAnswer>("volume.relocate", &order) {
        Err(ControlError::ErrorReply(reply)) => {
            assert_eq!(reply.kind, ErrorReplyKind::Failed);
            assert!(reply.message.contains("a is not relocated, because "), "{}", reply.message);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(show(&mut orders, "a").relocation, None);
    drop((orders, server));

    // Without state it is not continued, and the answer has a note.
    let stateless = format!("state = \"off\"\n{settings}");
    let server = sandbox.serve(&stateless);
    let notes = relocate(&mut control(&server), &order).notes.join("\n");
    assert!(notes.contains("does not continue after a restart"), "{notes}");
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);

    // Another volume takes the destination before the next start.
    let server = sandbox.serve(&settings);
    relocate(&mut control(&server), &order);
    let file = remembered(&sandbox).remove(0);
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
    let state = std::fs::read(&file).unwrap();
    let three = format!("{settings}[[volume]]\nname = \"c\"\nsize = \"20MiB\"\n");
    let server = sandbox.serve(&three);
    let last = state_of(&mut control(&server), "a");
    assert_eq!(last.state, RelocationState::Failed);
    assert!(last.reason.contains("are not all free"), "{last:?}");
    assert_eq!(mebibytes(&show(&mut control(&server), "a")), [(1, 60)]);
    assert_eq!(remembered(&sandbox).len(), 0, "it is not tried again");
    drop(server);

    // A damaged file is left as it is, until another relocation replaces it.
    std::fs::write(&file, &state[..state.len() / 2]).unwrap();
    let server = sandbox.serve(&three);
    assert_eq!(show(&mut control(&server), "a").relocation, None);
    assert_eq!(std::fs::read(&file).unwrap(), state[..state.len() / 2]);
    relocate(&mut control(&server), &part("a", "0", "1MiB", "end"));
    assert_eq!(ended(&mut control(&server), "a").state, RelocationState::Complete);
    assert_eq!(remembered(&sandbox).len(), 0);
    drop(server);
}

#[test]
fn relocations_that_make_no_sense_are_refused_with_the_reason() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve(&TWO.replace("16MiB", "60MiB"));
    let mut orders = control(&server);
    for (order, reason) in [
        (to("c", "end"), "there is no volume c"),
        (to("a", "middle"), "`middle` is no destination"),
        (to("a", "start"), "no free extent closer to the start"),
        (to("a", "3000KiB"), "extents begin on mebibytes"),
        (to("a", "30MiB"), "the 60 MiB (62914560 bytes) of the drive from 30 MiB"),
        (to("a", "1TiB"), "are not all free"),
        (to("b", "1MiB"), "are not all free"),
        (to("a@bulk", "end"), "relocate a"),
        (part("a", "1", "1MiB", "end"), "begins and ends on a mebibyte"),
        (part("a", "0", "1000KiB", "end"), "begins and ends on a mebibyte"),
        (part("a", "60MiB", "1MiB", "end"), "a range within its 60 MiB"),
        (part("a", "0", "61MiB", "end"), "a range within its 60 MiB"),
        (part("a", "0", "0", "end"), "a range within its 60 MiB"),
        (part("a", "x", "1MiB", "end"), "from"),
    ] {
        let message = refused(&mut orders, "volume.relocate", &order);
        assert!(message.contains(reason), "{order:?}: {message}");
    }
    // Every second mebibyte: nine extents would be too many.
    for at in 0..4 {
        let order = part("b", &format!("{at}MiB"), "1MiB", &format!("{}MiB", 70 + 2 * at));
        relocate(&mut orders, &order);
        assert_eq!(ended(&mut orders, "b").state, RelocationState::Complete);
    }
    assert_eq!(mebibytes(&show(&mut orders, "b")), [(70, 1), (72, 1), (74, 1), (76, 1)]);
    for at in [10, 20] {
        relocate(&mut orders, &part("a", &format!("{at}MiB"), "1MiB", &format!("{}MiB", 80 + at)));
        assert_eq!(ended(&mut orders, "a").state, RelocationState::Complete);
    }
    relocate(&mut orders, &part("a", "30MiB", "2MiB", "110MiB"));
    ended(&mut orders, "a");
    let count = show(&mut orders, "a").extents.len();
    let message = refused(&mut orders, "volume.relocate", &part("a", "40MiB", "1MiB", "end"));
    assert!(count == 7 && message.contains("would have 9 extents"), "{count}: {message}");
    // One at a time, and its volume keeps its size.
    relocate(&mut orders, &to("b", "end"));
    let busy = "volume b is being relocated";
    let extend = VolumeArguments { settings: [size("+1MiB")].into(), ..named("b") };
    for message in [
        refused(&mut orders, "volume.relocate", &part("a", "0", "1MiB", "start")),
        refused(&mut orders, "volume.set", &extend),
        refused(&mut orders, "volume.remove", &named("b")),
    ] {
        assert!(message.contains(busy), "{message}");
    }
    drop(server);
}

fn scan(task: &str) -> ScanArguments {
    let (target, task) = (Some("a".to_owned()), Some(task.to_owned()));
    ScanArguments { target, task, ..ScanArguments::default() }
}

#[test]
fn scans_of_the_volume_end_before_its_sectors_change() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve(TWO);
    let mut orders = control(&server);
    let copy = sandbox.path("copy.img");
    let content = runtime().block_on(async {
        let mut a = Tracked::open(&sandbox.socket(), "a", 16 * MIB, seed()).await;
        let at_start = a.content.clone();
        orders
            .scan("scan.start", &ScanArguments { to: Some(copy.clone()), ..scan("backup") })
            .unwrap();
        orders.scan("scan.pause", &scan("backup")).unwrap();
        let notes = relocate(&mut orders, &to("a", "end")).notes.join("\n");
        assert!(notes.contains("until its scans have ended"), "{notes}");
        let waits = until(&mut orders, "a", |now| now.state == RelocationState::Waiting);
        assert!(
            waits.state == RelocationState::Waiting
                && waits.reason == "the backup of a must end first",
            "{waits:?}"
        );
        // The copy follows the writes of clients meanwhile.
        for _ in 0..50 {
            a.round().await;
        }
        orders.scan("scan.resume", &scan("backup")).unwrap();
        assert_eq!(ended(&mut orders, "a").state, RelocationState::Complete);
        a.check().await;
        assert!(std::fs::read(&copy).unwrap() == at_start, "the backup is of its start");
        // With force it ends the scan.
        let scrub = ScanArguments { digests: true, ..scan("scrub") };
        orders.scan("scan.start", &scrub).unwrap();
        orders.scan("scan.pause", &scrub).unwrap();
        relocate(&mut orders, &RelocateArguments { force: true, ..to("a", "start") });
        assert_eq!(ended(&mut orders, "a").state, RelocationState::Complete);
        assert_eq!(orders.scan("scan.status", &scan("scrub")).unwrap().scans, []);
        a.check().await;
        a.content
    });
    // A scan after it reads the new sectors.
    let again = ScanArguments { to: Some(sandbox.path("new.img")), ..scan("backup") };
    orders.scan("scan.start", &again).unwrap();
    while orders.scan("scan.status", &scan("backup")).unwrap().scans[0].state != ScanState::Complete
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(std::fs::read(sandbox.path("new.img")).unwrap() == content);
    let status: ServerStatus = orders.ask_for("status", &serde_json::json!({})).unwrap();
    assert_eq!(status.relocation.unwrap().state, RelocationState::Complete);
    drop(server);
}

#[test]
fn a_drive_that_fails_leaves_a_volume_at_one_place_with_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nbd.sock");
    let toml = format!(
        "listen = [\"unix:{}\"]\n[[volume]]\nname = \"a\"\nsize = \"4MiB\"\n",
        socket.display()
    );
    let config = Config::from_toml("test.toml", &toml).unwrap();
    let blank = || Platter::blank(SectorSize::B512, Sectors::new(24 * 2048));
    let (mut failed, mut complete) = (0, 0);
    for round in 0..6 {
        let drive = PowerCutDrive::new(blank()).seed(seed() + round).write_errors(0.03);
        let (drive, _switch) = drive.open(DriveOptions::default()).unwrap();
        // The table itself may not be written at first.
        let Ok(server) = Server::start_on(drive, &config) else { continue };
        let volumes = server.volume_orders();
        runtime().block_on(async {
            let mut client = Client::open(&socket, "a").await.unwrap();
            let content = noise(round + 1, 4 << 20);
            while client.write(0, content.clone()).await.is_err() {}
            for turn in 0..24 {
                let last = relocated(&volumes, turn);
                match last.state {
                    RelocationState::Complete => complete += 1,
                    RelocationState::Failed => {
                        failed += 1;
                        assert!(last.reason.contains("os error 5"), "{last:?}");
                    }
                    other => panic!("{other:?}"),
                }
                assert!(client.read(0, 4 << 20).await.unwrap() == content, "turn {turn}");
                // Writes are not held or refused any more.
                while client.write(0, content.clone()).await.is_err() {}
            }
        });
        drop(server);
    }
    assert!(failed > 5 && complete > 5, "{failed} failed, {complete} complete");
}

/// Moves the volume to the other end of the drive, and returns the end of that.
fn relocated(volumes: &Arc<Volumes>, turn: u64) -> RelocationStatus {
    let order = RelocateOrder {
        name: "a".to_owned(),
        from: None,
        size: None,
        to: if turn.is_multiple_of(2) { RelocateTo::LargestGap } else { RelocateTo::Start },
        force: false,
        max_impact: None,
        dry_run: false,
    };
    // The table of a change that failed may still have to be undone.
    if volumes.relocate(&order).is_err() {
        let to = RelocateTo::LargestGap;
        volumes.relocate(&RelocateOrder { to, ..order }).unwrap();
    }
    loop {
        let volume = volumes.show("a").unwrap().volumes.remove(0);
        let status = volume.relocation.unwrap();
        if status.state.is_over() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
