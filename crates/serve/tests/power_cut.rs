//! Volumes and their table on a drive whose power fails: the table always opens, with the state
//! before or after a change, and all promised data is there.
//!
//! `HEADTIME_SEED=N` selects other cuts.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use common::client::Client;
use common::found::Found;
use common::{noise, runtime};
use headtime_io::{Drive, DriveHandle, DriveOptions, Io, SubmitError};
use headtime_nbd::NbdCommand;
use headtime_nbd::client::Cookie;
use headtime_sched::RequestId;
use headtime_serve::config::Config;
use headtime_serve::volumes::{
    DriveShape, RelocateOrder, RelocateTo, RelocationState, SettingsChange, StoreError, TableState,
    Volume, VolumeSpec, VolumeStore,
};
use headtime_serve::{Disk, OnDone, Server};
use headtime_testkit::power_cut::{
    Casualty, FailedFlush, History, Platter, PowerCutDrive, PowerFailure, PowerSwitch,
};
use headtime_units::{ByteSize, Extent, Nanos, SectorSize, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SECTORS: u64 = 32 * 2048;
const WITH_CASUALTY: PowerFailure =
    PowerFailure { tear: headtime_testkit::power_cut::Tear::Sectors, casualty: Casualty::OneBlock };
/// The number of cuts at each moment.
#[derive(Clone, Copy)]
struct Effort {
    /// Up to this number of platters all are tried.
    few: u64,
    /// Of more platters, this number is drawn at random.
    drawn: usize,
}

fn seed() -> u64 {
    std::env::var("HEADTIME_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(3)
}

fn blank() -> PowerCutDrive {
    PowerCutDrive::new(Platter::blank(SectorSize::B512, Sectors::new(SECTORS)))
}

fn open(drive: PowerCutDrive) -> (Drive, PowerSwitch) {
    drive.record().open(DriveOptions::default()).unwrap()
}

/// A program that dies: its drive answers this number of requests and then none.
struct Dying {
    handle: DriveHandle,
    left: AtomicUsize,
}

impl Disk for Dying {
    fn shape(&self) -> DriveShape {
        Disk::shape(&self.handle)
    }

    fn submit(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        let alive = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        if alive { self.handle.submit(io, on_done) } else { Err(SubmitError::Closed) }
    }

    fn cancel(&self, _id: RequestId) {}
}

/// The possible tables and the times of their changes.
#[derive(Default)]
struct Ledger(Vec<Entry>);

struct Entry {
    volumes: Vec<Volume>,
    begun: usize,
    /// The time at which it was known to be durable.
    known: Option<usize>,
}

impl Ledger {
    /// The tables that may be found at `moment`: the last one durable by then, and every later one.
    fn legal(&self, moment: usize) -> Vec<&[Volume]> {
        let last_known =
            self.0.iter().rposition(|entry| entry.known.is_some_and(|known| known <= moment));
        let later = self.0[last_known.unwrap_or(0)..].iter().filter(|entry| entry.begun <= moment);
        let mut legal: Vec<&[Volume]> = later.map(|entry| entry.volumes.as_slice()).collect();
        if last_known.is_none() {
            legal.push(&[]);
        }
        legal
    }

    /// Opens a platter twice; the second time it must be valid and unchanged.
    fn check(&self, moment: usize, found: Platter) -> Result<(), String> {
        let disk = Found::new(found);
        let (store, opening) = VolumeStore::open(&disk, false)
            .map_err(|error| format!("cut at moment {moment}: {error}"))?;
        let volumes = store.table().volumes();
        if !self.legal(moment).contains(&volumes) {
            return Err(format!(
                "cut at moment {moment}: the table says {volumes:?}, and may say {:?} (it was \
                    {opening:?})",
                self.legal(moment)
            ));
        }
        store.table().check().map_err(|error| error.to_string())?;
        let (again, opening) = VolumeStore::open(&disk, false)
            .map_err(|error| format!("cut at moment {moment}, opened again: {error}"))?;
        if opening != TableState::Whole || again.table() != store.table() {
            return Err(format!("cut at moment {moment}, opened again: {opening:?}"));
        }
        Ok(())
    }

    /// Tries all platters at every moment of a history if they are few, and random ones if they are
    /// many. In addition each block being written is made unreadable.
    fn check_every_moment(&self, history: &History, effort: Effort) -> Tried {
        let mut rng = ChaCha8Rng::seed_from_u64(seed());
        let (mut cutter, mut tried) = (history.cutter(), Tried::default());
        let mut check = |moment, found| {
            tried.platters += 1;
            self.check(moment, found)
                .unwrap_or_else(|error| panic!("HEADTIME_SEED={}: {error}", seed()));
        };
        for moment in 0..=history.events().len() {
            cutter.advance(moment);
            let every = cutter.every_cut();
            if every.size() <= effort.few {
                tried.exhausted += 1;
                every.for_each(|found| check(moment, found));
            } else {
                (0..effort.drawn)
                    .for_each(|_| check(moment, cutter.cut(PowerFailure::default(), &mut rng)));
            }
            for block in cutter.exposed() {
                for _ in 0..2 {
                    let mut found = cutter.cut(PowerFailure::default(), &mut rng);
                    found.spoil(block);
                    check(moment, found);
                }
            }
        }
        tried
    }
}

#[derive(Default)]
struct Tried {
    platters: usize,
    /// The number of moments at which every platter was tried.
    exhausted: usize,
}

fn spec(name: &str, mebibytes: u64, deadline_ms: u64) -> VolumeSpec {
    let deadline = (deadline_ms > 0).then(|| Nanos::from_ms(deadline_ms));
    VolumeSpec {
        name: name.to_string(),
        size: Some(ByteSize::new(mebibytes << 20)),
        settings: SettingsChange { deadline: Some(deadline), ..SettingsChange::default() },
    }
}

/// A change of the table.
enum Change {
    Ensure(Vec<VolumeSpec>),
    Resize(VolumeSpec),
    Remove(&'static str),
}

fn change(store: &mut VolumeStore, disk: &dyn Disk, change: &Change) -> Result<(), StoreError> {
    match change {
        Change::Ensure(spec) => store.ensure(disk, spec).map(drop),
        Change::Resize(spec) => store.change(disk, |table| table.change(spec, true).map(drop)),
        Change::Remove(name) => store.remove(disk, name),
    }
}

/// The table after a change, from a store in memory.
fn planned(store: &VolumeStore, spec: &Change) -> Vec<Volume> {
    let mut table = store.table().clone();
    match spec {
        Change::Ensure(spec) => {
            let _created =
                spec.iter().map(|spec| table.ensure(spec)).collect::<Result<Vec<_>, _>>().unwrap();
        }
        Change::Resize(spec) => drop(table.change(spec, true).unwrap()),
        Change::Remove(name) => {
            let _removed = table.remove(name).unwrap();
        }
    }
    table.volumes().to_vec()
}

fn changes() -> Vec<Change> {
    vec![
        Change::Ensure(vec![spec("a", 2, 0)]),
        Change::Ensure(vec![spec("b", 3, 0), spec("c", 1, 50)]),
        Change::Ensure(vec![spec("a", 2, 100)]),
        // Into the free space after c, and then into what b leaves.
        Change::Resize(spec("c", 5, 50)),
        Change::Remove("b"),
        Change::Resize(spec("a", 4, 100)),
        Change::Ensure(vec![spec("d", 19, 0)]),
        Change::Resize(spec("a", 6, 100)),
        Change::Resize(spec("a", 3, 100)),
        Change::Remove("d"),
        Change::Ensure((0..16).map(|number| spec(&format!("many{number}"), 1, 0)).collect()),
        Change::Remove("a"),
    ]
}

#[test]
fn a_cut_at_any_moment_of_any_change_leaves_the_table_before_or_after_it() {
    let (drive, switch) = open(blank());
    let handle = drive.handle();
    let mut ledger = Ledger::default();
    let (mut store, opening) = VolumeStore::open(&handle, false).unwrap();
    assert_eq!(opening, TableState::Fresh);
    for spec in changes() {
        ledger.0.push(Entry {
            volumes: planned(&store, &spec),
            begun: switch.moment(),
            known: None,
        });
        change(&mut store, &handle, &spec).unwrap();
        ledger.0.last_mut().unwrap().known = Some(switch.moment());
    }
    let history = switch.history().unwrap();
    let tried = ledger.check_every_moment(&history, Effort { few: 600, drawn: 100 });
    eprintln!(
        "{} platters at {} moments, {} of them exhaustively",
        tried.platters,
        history.events().len() + 1,
        tried.exhausted
    );
    assert!(tried.platters > 200 && tried.exhausted > history.events().len() / 2);
}

#[test]
fn a_program_that_dies_within_a_change_and_comes_back_before_the_power_fails_loses_nothing() {
    let mut platters = 0;
    // A change takes six requests. The program dies after each number of them, and once more
    // during the repair; or it survives with an error and continues.
    for dies_after in 0..=6 {
        for dies_again_after in (dies_after % 2..=8).step_by(2).map(Some).chain([None]) {
            let (drive, switch) = open(blank());
            let mut ledger = Ledger::default();
            let handle = drive.handle();
            let (mut store, _) = VolumeStore::open(&handle, false).unwrap();
            let enter = |store: &VolumeStore, change: &Change| Entry {
                volumes: planned(store, change),
                begun: switch.moment(),
                known: None,
            };
            let first = Change::Ensure(vec![spec("a", 2, 0)]);
            ledger.0.push(enter(&store, &first));
            change(&mut store, &handle, &first).unwrap();
            ledger.0.last_mut().unwrap().known = Some(switch.moment());

            let second = Change::Ensure(vec![spec("b", 2, 0)]);
            ledger.0.push(enter(&store, &second));
            let dying = Dying { handle: handle.clone(), left: AtomicUsize::new(dies_after) };
            assert_eq!(change(&mut store, &dying, &second).is_ok(), dies_after == 6);
            if let Some(requests) = dies_again_after {
                let dying = Dying { handle: handle.clone(), left: AtomicUsize::new(requests) };
                let _dead_or_not = VolumeStore::open(&dying, false);
                (store, _) = VolumeStore::open(&handle, false).unwrap();
            }
            let third = Change::Ensure(vec![spec("c", 2, 0)]);
            let begun = switch.moment();
            change(&mut store, &handle, &third).unwrap();
            // With or without the second change, but with the third.
            let volumes = store.table().volumes().to_vec();
            assert!(volumes.iter().any(|volume| volume.name == "c") && volumes.len() >= 2);
            let refused = dies_after < 6 && dies_again_after.is_none();
            assert!(
                !refused || volumes.len() == 2,
                "a change that failed came back with a later one: {volumes:?}"
            );
            ledger.0.push(Entry { volumes, begun, known: Some(switch.moment()) });
            platters += ledger
                .check_every_moment(&switch.history().unwrap(), Effort { few: 20, drawn: 10 })
                .platters;
        }
    }
    eprintln!("{platters} platters");
}

#[test]
fn changes_that_fail_are_undone_on_a_drive_that_gives_up_what_it_could_not_flush() {
    let (drive, switch) = open(blank());
    VolumeStore::open(&drive.handle(), false).unwrap();
    let with_table = switch.cut(PowerFailure::default(), &mut ChaCha8Rng::seed_from_u64(seed()));
    let (mut put_back, mut in_reject) = (0, 0);
    for round in 0..5 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed() + round);
        // Data under a failed flush can still be read, but is lost with the power, whatever is
        // flushed later.
        let (drive, switch) = open(
            PowerCutDrive::new(with_table.clone())
                .seed(seed() + round)
                .write_errors(0.05)
                .flush_errors(0.2, FailedFlush::Forgets),
        );
        let handle = drive.handle();
        // There is nothing to write, so the failed flush has no effect.
        let (mut store, _) = std::iter::repeat_with(|| VolumeStore::open(&handle, false))
            .find_map(Result::ok)
            .unwrap();
        let mut ledger =
            Ledger(vec![Entry { volumes: Vec::new(), begun: 0, known: Some(switch.moment()) }]);
        for _ in 0..20 {
            let spec = Change::Ensure(vec![spec(
                &format!("v{}", rng.random_range(0..12)),
                1,
                rng.random_range(1..5000),
            )]);
            let before = store.table().clone();
            ledger.0.push(Entry {
                volumes: planned(&store, &spec),
                begun: switch.moment(),
                known: None,
            });
            match change(&mut store, &handle, &spec) {
                Ok(()) => ledger.0.last_mut().unwrap().known = Some(switch.moment()),
                Err(error) => {
                    assert_eq!(*store.table(), before, "{error}");
                    *(if matches!(error, StoreError::NotPutBack { .. }) {
                        &mut in_reject
                    } else {
                        &mut put_back
                    }) += 1;
                }
            }
        }
        ledger.check_every_moment(&switch.history().unwrap(), Effort { few: 10, drawn: 10 });
    }
    assert!(
        put_back > 10 && in_reject > 5,
        "{put_back} changes were put back, and {in_reject} were not"
    );
}

#[test]
fn one_cut_after_another_leaves_a_table_that_opens() {
    for chain in 0..25 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed() + chain);
        let mut drive = blank();
        for generation in 0..8_u64 {
            let (open_drive, switch) = open(drive);
            let handle = open_drive.handle();
            let (mut store, _) = VolumeStore::open(&handle, false)
                .unwrap_or_else(|error| panic!("HEADTIME_SEED={}: {error}", seed()));
            let mut ledger = Ledger(vec![Entry {
                volumes: store.table().volumes().to_vec(),
                begun: 0,
                known: Some(0),
            }]);
            for _ in 0..rng.random_range(0..4) {
                let spec = Change::Ensure(vec![spec(
                    &format!("v{}", rng.random_range(0..12)),
                    1,
                    rng.random_range(1..500) + generation,
                )]);
                ledger.0.push(Entry {
                    volumes: planned(&store, &spec),
                    begun: switch.moment(),
                    known: None,
                });
                change(&mut store, &handle, &spec).unwrap();
                ledger.0.last_mut().unwrap().known = Some(switch.moment());
            }
            let history = switch.history().unwrap();
            let moment = rng.random_range(0..=history.events().len());
            let found = history.cutter().advance(moment).cut(WITH_CASUALTY, &mut rng);
            ledger
                .check(moment, found.clone())
                .unwrap_or_else(|error| panic!("HEADTIME_SEED={}, chain {chain}: {error}", seed()));
            drive = PowerCutDrive::new(found);
        }
    }
}

#[test]
fn an_unreadable_block_in_one_slot_is_repaired_and_elsewhere_refused_or_left_alone() {
    let disk = Found::new(Platter::blank(SectorSize::B512, Sectors::new(SECTORS)));
    let spoil = |first| disk.0.lock().unwrap().spoil(Extent::from_numbers(first, 8));
    spoil(0);
    let message = VolumeStore::open(&disk, false).unwrap_err().to_string();
    assert!(
        message.contains("sector 0 cannot be read") && message.contains("initialize"),
        "{message}"
    );
    disk.0.lock().unwrap().zero(Extent::from_numbers(0, 8));
    spoil(1024);
    let (mut store, opening) = VolumeStore::open(&disk, false).unwrap();
    assert_eq!(
        opening,
        TableState::Fresh,
        "the first table was being written there when the power failed"
    );
    store.ensure(&disk, &[spec("a", 2, 0)]).unwrap();
    for first in [0, 1024] {
        spoil(first);
        let (repaired, opening) = VolumeStore::open(&disk, false).unwrap();
        assert_eq!(repaired.table(), store.table());
        assert_eq!(opening, TableState::Repaired(format!("sector {first} cannot be read")));
    }
    spoil(600);
    assert_eq!(
        VolumeStore::open(&disk, false).unwrap().1,
        TableState::Whole,
        "nothing is kept between the slots"
    );
    spoil(0);
    spoil(1024);
    let damage = "copy A: sector 0 cannot be read; copy B: sector 1024 cannot be read";
    let (restored, opening) = VolumeStore::open(&disk, false).unwrap();
    assert_eq!(restored.table(), store.table());
    assert_eq!(opening, TableState::Restored(damage.to_string()));
    spoil(0);
    spoil(1024);
    let copy = SECTORS - 2048;
    spoil(copy);
    let message = VolumeStore::open(&disk, false).unwrap_err().to_string();
    assert!(
        message.contains(&format!("{damage}; copy at the end: sector {copy} cannot be read")),
        "{message}"
    );
}

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

/// A client's write of one block.
struct Written {
    block: u64,
    version: u64,
    begun: usize,
    safe: Option<usize>,
}

fn block_content(block: u64, version: u64) -> Vec<u8> {
    if version == 0 { vec![0; BLOCK] } else { noise(block << 32 | version, BLOCK) }
}

fn config(directory: &tempfile::TempDir) -> Config {
    let toml = format!(
        "listen = [\"unix:{}\"]\n[[volume]]\nname = \"vol\"\nsize = \"8MiB\"\n",
        directory.path().join("nbd.sock").display()
    );
    Config::from_toml("test.toml", &toml).unwrap()
}

/// Rounds of writes on one connection, made durable by force unit access or by a flush on the
/// other.
async fn write_and_flush(
    socket: &std::path::Path,
    switch: &PowerSwitch,
    rng: &mut ChaCha8Rng,
) -> Vec<Written> {
    let mut writer = Client::open(socket, "vol").await.unwrap();
    let mut flusher = Client::open(socket, "vol").await.unwrap();
    let mut written: Vec<Written> = Vec::new();
    for round in 0..25 {
        let fua = rng.random_bool(0.3);
        let mut in_flight: Vec<(Cookie, usize)> = Vec::new();
        for _ in 0..rng.random_range(1..12) {
            let (block, version) = (rng.random_range(0..BLOCKS), 1 + written.len() as u64);
            written.push(Written { block, version, begun: switch.moment(), safe: None });
            let payload = block_content(block, version).into();
            let id =
                writer.submit(NbdCommand::Write { offset: block * BLOCK as u64, payload, fua });
            in_flight.push((id, written.len() - 1));
            if rng.random_bool(0.5) {
                writer.send().await;
            }
        }
        for _ in 0..in_flight.len() {
            let completion = writer.completion().await;
            assert!(completion.result.is_ok());
            let (_, index) = in_flight.iter().find(|(id, _)| *id == completion.id).unwrap();
            written[*index].safe = fua.then(|| switch.moment());
        }
        if round % 2 == 0 {
            flusher.request(NbdCommand::Flush).await.unwrap();
            let moment = switch.moment();
            for written in &mut written {
                written.safe.get_or_insert(moment);
            }
        }
    }
    written
}

/// The possible contents of a block's sectors at `moment`: the last write that was durable by then,
/// or a later one. Overlapping writes of one connection happen in the order of submission.
fn may_hold(written: &[Written], block: u64, moment: usize) -> Vec<Vec<u8>> {
    let here: Vec<&Written> = written
        .iter()
        .filter(|written| written.block == block && written.begun <= moment)
        .collect();
    let last_safe =
        here.iter().rposition(|written| written.safe.is_some_and(|safe| safe <= moment));
    let later = here[last_safe.unwrap_or(0)..].iter().map(|written| written.version);
    last_safe
        .is_none()
        .then_some(0)
        .into_iter()
        .chain(later)
        .map(|version| block_content(block, version))
        .collect()
}

#[test]
fn what_nbd_clients_were_promised_is_there_after_a_cut_and_the_server_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nbd.sock");
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    for fua in [true, false] {
        let (drive, switch) = open(blank().fua(fua));
        let server = Server::start_on(drive, &config(&directory)).unwrap();
        let ready = switch.moment();
        let start = server.volumes()[0].volume.extents.start().get();
        let written = runtime().block_on(write_and_flush(&socket, &switch, &mut rng));
        drop(server);

        let history = switch.history().unwrap();
        let written_at = |block, moment| {
            written.iter().any(|written| written.block == block && written.begun <= moment)
        };
        let check = |moment: usize, read: &dyn Fn(u64) -> Bytes| {
            for block in 0..BLOCKS {
                let (holds, legal) = (read(block), may_hold(&written, block, moment));
                let fits = |sector: std::ops::Range<usize>| {
                    legal.iter().any(|legal| holds[sector.clone()] == legal[sector.clone()])
                };
                let all = (0..BLOCK / 512).all(|sector| fits(sector * 512..(sector + 1) * 512));
                let story = || history.story(Extent::from_numbers(start + block * 8, 8), moment);
                assert!(
                    all,
                    "HEADTIME_SEED={}, cut at moment {moment}: block {block} may not hold what it \
                        does\n{}",
                    seed(),
                    story()
                );
            }
        };
        history
            .cut_at_random(400, WITH_CASUALTY, &mut rng, |moment, found| {
                // Only a block that was being written may be unreadable.
                let read = |block| found.read(Extent::from_numbers(start + block * 8, 8));
                let unreadable = |block| {
                    may_hold(&written, block, moment)
                        .pop()
                        .filter(|_| written_at(block, moment))
                        .unwrap()
                        .into()
                };
                check(moment, &|block| read(block).unwrap_or_else(|_| unreadable(block)));
                Ok::<(), ()>(())
            })
            .unwrap();

        // A few with a complete new server and a client.
        for _ in 0..6 {
            let moment = rng.random_range(ready..=history.events().len());
            let found = history.cutter().advance(moment).cut(PowerFailure::default(), &mut rng);
            let (drive, _switch) = open(PowerCutDrive::new(found));
            let server = Server::start_on(drive, &config(&directory)).unwrap();
            let all = runtime().block_on(async {
                let mut client = Client::open(&socket, "vol").await.unwrap();
                client.read(0, (BLOCKS as usize * BLOCK) as u32).await.unwrap()
            });
            check(moment, &|block| all.slice(block as usize * BLOCK..(block as usize + 1) * BLOCK));
            drop(server);
        }
    }
}

/// Rounds of writes that a flush makes durable, until the volume was relocated `moves` times.
/// Returns also the moments at which a relocation was known to be complete.
async fn write_and_relocate(
    socket: &std::path::Path,
    (server, switch): (&Server, &PowerSwitch),
    moves: usize,
    rng: &mut ChaCha8Rng,
) -> (Vec<Written>, Vec<usize>) {
    let volumes = server.volume_orders();
    let mut client = Client::open(socket, "vol").await.unwrap();
    let (mut written, mut complete) = (Vec::<Written>::new(), Vec::new());
    let mut runs = false;
    loop {
        let status = volumes.show("vol").unwrap().volumes.remove(0).relocation;
        if runs && status.as_ref().unwrap().state.is_over() {
            assert_eq!(status.unwrap().state, RelocationState::Complete);
            complete.push(switch.moment());
            runs = false;
        }
        if !runs && complete.len() == moves {
            return (written, complete);
        }
        if !runs && rng.random_bool(0.3) {
            let to = [RelocateTo::End, RelocateTo::Start][complete.len() % 2];
            let (name, from, size) = ("vol".to_owned(), None, None);
            let order = RelocateOrder {
                name,
                from,
                size,
                to,
                force: false,
                max_impact: None,
                dry_run: false,
            };
            volumes.relocate(&order).unwrap();
            runs = true;
        }
        let mut in_flight = Vec::new();
        for _ in 0..rng.random_range(1..12) {
            let (block, version) = (rng.random_range(0..BLOCKS), 1 + written.len() as u64);
            written.push(Written { block, version, begun: switch.moment(), safe: None });
            let payload = block_content(block, version).into();
            let offset = block * BLOCK as u64;
            in_flight.push(client.submit(NbdCommand::Write { offset, payload, fua: false }));
        }
        for _ in &in_flight {
            assert!(client.completion().await.result.is_ok());
        }
        if rng.random_bool(0.3) {
            client.request(NbdCommand::Flush).await.unwrap();
            let moment = switch.moment();
            for written in &mut written {
                written.safe.get_or_insert(moment);
            }
        }
        let block = rng.random_range(0..BLOCKS);
        let last = written.iter().rfind(|written| written.block == block);
        let expected = block_content(block, last.map_or(0, |written| written.version));
        assert_eq!(client.read(block * BLOCK as u64, BLOCK as u32).await.unwrap(), expected);
    }
}

#[test]
fn a_cut_at_any_moment_of_a_relocation_leaves_all_promised_data_at_one_place() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nbd.sock");
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let toml = format!(
        "max_impact = \"50%\"\nlisten = [\"unix:{}\"]\n\
            [[volume]]\nname = \"vol\"\nsize = \"2MiB\"\n",
        socket.display()
    );
    let config = Config::from_toml("test.toml", &toml).unwrap();
    for fua in [true, false] {
        let platter = Platter::blank(SectorSize::B512, Sectors::new(12 * 2048));
        let (drive, switch) = open(PowerCutDrive::new(platter).fua(fua));
        let server = Server::start_on(drive, &config).unwrap();
        let ready = switch.moment();
        let (written, complete) =
            runtime().block_on(write_and_relocate(&socket, (&server, &switch), 6, &mut rng));
        drop(server);
        let history = switch.history().unwrap();
        let mut starts = std::collections::BTreeSet::new();
        let mut cuts = 0;
        let mut check = |moment: usize, found: Platter| {
            if moment < ready {
                return;
            }
            cuts += 1;
            let disk = Found::new(found);
            let (store, _) = VolumeStore::open(&disk, false)
                .unwrap_or_else(|error| panic!("HEADTIME_SEED={}, {moment}: {error}", seed()));
            let extents = store.table().find("vol").unwrap().extents.clone();
            let start = extents.start().get();
            starts.insert(start);
            assert_eq!((extents.as_slice().len(), extents.sectors().get()), (1, 4096));
            for block in 0..BLOCKS {
                let extent = Extent::from_numbers(start + block * 8, 8);
                let holds = disk.0.lock().unwrap().read(extent).unwrap();
                let legal = may_hold(&written, block, moment);
                let fits = |sector: std::ops::Range<usize>| {
                    legal.iter().any(|legal| holds[sector.clone()] == legal[sector.clone()])
                };
                assert!(
                    (0..BLOCK / 512).all(|sector| fits(sector * 512..(sector + 1) * 512)),
                    "HEADTIME_SEED={}, cut at moment {moment}: block {block} at LBA {start} may \
                        not hold what it does\n{}",
                    seed(),
                    history.story(extent, moment)
                );
            }
        };
        // At every moment around each change of the table, and at random ones.
        let mut cutter = history.cutter();
        let mut from = ready;
        for end in complete {
            for moment in from.max(end.saturating_sub(60))..=end {
                cutter.advance(moment);
                (0..3).for_each(|_| {
                    check(moment, cutter.cut(PowerFailure::default(), &mut rng));
                });
            }
            from = end;
        }
        let random = history.cut_at_random(300, PowerFailure::default(), &mut rng, |at, found| {
            check(at, found);
            Ok::<(), ()>(())
        });
        random.unwrap();
        eprintln!("{cuts} cuts of {} events", history.events().len());
        assert_eq!(starts.len(), 2, "both places were found: {starts:?}");
    }
}
