//! Random commands for volumes over the control socket of a whole server with writing clients. Its
//! drive loses power or it is killed at any moment, also during a command.
//!
//! These must hold after every cut and restart: an answered command took effect; an unanswered one
//! took effect completely or not at all; no two volumes overlap, and none exceeds the drive;
//! promised data is where a client wrote it. The data is seen through no other volume, except one
//! that was added later on the sectors of a removed one (docs/volumes.md). Every command is checked
//! with a dry run first and must then do exactly what that predicted.
//!
//! Power cuts are drawn afterwards from the drive's history, so that each run is cut hundreds of
//! times; the next run begins with one of the cuts. `HEADTIME_SEED=N` repeats one chain of runs.
//! The seed fixes commands and cuts, but not the interleaving of threads, so the moments between
//! them repeat only approximately.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod draw;
mod life;
mod model;

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use blocks::{BLOCK, Blocks, SECTORS};
use bytes::Bytes;
use common::Sandbox;
use common::found::Found;
use draw::BASE;
use headtime_io::DriveOptions;
use headtime_serve::config::Config;
use headtime_serve::control::ControlClient;
use headtime_serve::status::ServerStatus;
use headtime_serve::volumes::{AREA_BYTES, RelocationState, VolumeStore};
use headtime_serve::{Server, StartError, default_control_socket};
use headtime_testkit::power_cut::{
    Casualty, FailedFlush, History, Platter, PowerCutDrive, PowerFailure, Tear,
};
use headtime_units::{Extent, SectorSize, Sectors};
use life::{Counts, Life, Terms};
use model::{Ledger, SECTOR, World, reported};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const MEBIBYTES: u64 = 16;
/// A drive that ends in the middle of a mebibyte.
const CAPACITY: u64 = MEBIBYTES * 2048 + 1000;
const BASE_VOLUME: &str = "[[volume]]\nname = \"base\"\nsize = \"2MiB\"\n";
const READABLE: PowerFailure = PowerFailure { tear: Tear::Sectors, casualty: Casualty::None };
const WITH_CASUALTY: PowerFailure =
    PowerFailure { tear: Tear::Sectors, casualty: Casualty::OneBlock };
/// The largest share of writes and flushes that fail on a failing drive.
const FAULTS: f64 = 0.2;

/// The requested chain of runs.
fn requested() -> Option<u64> {
    std::env::var("HEADTIME_SEED").ok().and_then(|seed| seed.parse().ok())
}

/// The seeds of the chains of runs: these, or the requested one.
fn seeds(usual: std::ops::RangeInclusive<u64>) -> std::ops::RangeInclusive<u64> {
    requested().map_or(usual, |seed| seed..=seed)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn block(number: u64) -> Extent {
    Extent::from_numbers(number * SECTORS, SECTORS)
}

/// Prints how to repeat a failed chain, and the commands of its last run.
struct Replay {
    seed: u64,
    life: u64,
    story: Vec<String>,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "HEADTIME_SEED={} repeats this; life {}:\n  {}",
                self.seed,
                self.life,
                self.story.join("\n  ")
            );
        }
    }
}

/// The counters of all runs of a test.
#[derive(Debug, Default)]
struct Total {
    lives: usize,
    counts: Counts,
    cuts: usize,
    /// The number of cuts during a command that found it undone, and done.
    undone: usize,
    done: usize,
    /// The number of starts that continued a relocation.
    resumed: usize,
}

impl Total {
    fn add(&mut self, counts: Counts) {
        self.lives += 1;
        let Counts { carried_out, refused, failed, unanswered, relocated, written } =
            &mut self.counts;
        for (sum, more) in [
            (carried_out, counts.carried_out),
            (refused, counts.refused),
            (failed, counts.failed),
            (unanswered, counts.unanswered),
            (relocated, counts.relocated),
            (written, counts.written),
        ] {
            *sum += more;
        }
    }

    /// Counts the effect of a command that was interrupted by the end of the server.
    fn tell(&mut self, legal: &[&World], found: &World) {
        if legal.len() > 1 {
            *(if *legal[0] == *found { &mut self.undone } else { &mut self.done }) += 1;
        }
    }
}

/// Waits for the end of a relocation that a server continues; returns whether there was one.
fn resumed(control: &Path) -> bool {
    let mut control = ControlClient::connect(control).unwrap();
    let mut was_there = false;
    loop {
        let status: ServerStatus = control.ask_for("status", &serde_json::json!({})).unwrap();
        let Some(relocation) = status.relocation else { return was_there };
        was_there = true;
        if relocation.state.is_over() {
            assert_eq!(relocation.state, RelocationState::Complete, "{relocation:?}");
            return was_there;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The table of a platter, unchanged by its repair.
fn volumes_on(platter: &Platter) -> Vec<headtime_serve::control::VolumeStatus> {
    let disk = Found::new(platter.clone());
    let (store, _) = VolumeStore::open(&disk, false)
        .unwrap_or_else(|error| panic!("the table of volumes: {error}"));
    let (again, _) = VolumeStore::open(&disk, false).unwrap();
    assert_eq!(again.table(), store.table());
    reported(store.table().volumes())
}

/// Cuts the power at many moments of a run, many of them during commands, and returns the start of
/// the next run.
fn cut(
    life: &Life,
    history: &History,
    first: usize,
    total: &mut Total,
    rng: &mut ChaCha8Rng,
) -> (World, Platter) {
    const CUTS: usize = 80;
    let end = history.events().len();
    let middles = life.ledger.middles();
    let mut moments: Vec<usize> = (0..CUTS)
        .map(|_| {
            let (begun, known) = middles[rng.random_range(0..middles.len())];
            if rng.random_bool(0.7) {
                rng.random_range(begun..=known.unwrap_or(end).min(end))
            } else {
                rng.random_range(first..=end)
            }
        })
        .collect();
    moments.sort_unstable();
    let chosen = rng.random_range(0..CUTS);
    let mut cutter = history.cutter();
    let mut next = None;
    for (index, moment) in moments.into_iter().enumerate() {
        let failure = if rng.random_bool(0.5) { READABLE } else { WITH_CASUALTY };
        let mut found = cutter.advance(moment).cut(failure, rng);
        let volumes = volumes_on(&found);
        let world = life.ledger.found(moment, &volumes);
        world.check();
        for number in life.blocks.written() {
            match found.read(block(number)) {
                Ok(holds) => life.blocks.check_cut(number, &holds, moment),
                Err(unreadable) => {
                    let story = || history.story(block(number), moment);
                    assert!(
                        life.blocks.is_exposed(number, moment),
                        "{unreadable}, and nobody was writing it\n{}",
                        story()
                    );
                }
            }
        }
        total.cuts += 1;
        total.tell(&life.ledger.legal(moment), &world);
        if index == chosen {
            // A client rewrites its own unreadable block; the server repairs a block of the table.
            while let Err(unreadable) = found
                .read(Extent::from_numbers(AREA_BYTES / SECTOR, CAPACITY - AREA_BYTES / SECTOR))
            {
                found.zero(block(unreadable.lba.get() / SECTORS));
            }
            next = Some((world, found));
        }
    }
    next.unwrap()
}

#[test]
fn volumes_and_what_they_hold_survive_power_cuts_in_the_middle_of_orders() {
    const LIVES: u64 = 8;
    let runtime = runtime();
    let mut total = Total::default();
    for seed in seeds(1..=4) {
        let directory = tempfile::tempdir().unwrap();
        let (socket, control) =
            (directory.path().join("nbd.sock"), directory.path().join("control.sock"));
        let toml = format!(
            "listen = [\"unix:{}\"]\ncontrol = {control:?}\nstate = \"off\"\n{BASE_VOLUME}",
            socket.display()
        );
        let config = Config::from_toml("test.toml", &toml).unwrap();
        let mut platter = Platter::blank(SectorSize::B512, Sectors::new(CAPACITY));
        let mut world = World { volumes: Vec::new(), capacity: CAPACITY, highest: 0 };
        let mut replay = Replay { seed, life: 0, story: Vec::new() };
        for number in 0..LIVES {
            let mut rng = ChaCha8Rng::seed_from_u64(seed << 16 | number);
            (replay.life, replay.story) = (number, Vec::new());
            let faulty = world.find(BASE).is_some() && rng.random_bool(0.4);
            let shares = if faulty {
                [rng.random_range(0.0..FAULTS), rng.random_range(0.0..FAULTS)]
            } else {
                [0.0; 2]
            };
            let drive =
                PowerCutDrive::new(platter.clone()).seed(rng.random()).fua(rng.random()).record();
            let drive = drive.write_errors(shares[0]).flush_errors(
                shares[1],
                if rng.random() { FailedFlush::Forgets } else { FailedFlush::Retries },
            );
            let (drive, switch) = drive.open(DriveOptions::default()).unwrap();
            let server = match Server::start_on(drive, &config) {
                Ok(server) => server,
                // The platter may have been written to and is still valid: the same again, with
                // other errors.
                Err(StartError::Volumes { .. }) if faulty => continue,
                Err(error) => panic!("{error}"),
            };
            let mut ledger = Ledger::default();
            ledger.begin(&world, 0);
            ledger.know(0);
            let ready = switch.moment();
            let begun_with = platter.clone();
            let base = Box::new(move |number| begun_with.read(block(number)).unwrap());
            let clock = switch.clone();
            let terms = Terms {
                clock: Box::new(move || clock.moment()),
                faulty,
                outlives_answers: false,
                socket: socket.clone(),
                control: control.clone(),
            };
            let life = runtime.block_on(async {
                let mut life =
                    Life::begin(terms, ledger, world, Blocks::new(seed << 16 | number, base)).await;
                let volumes = life.list().await.unwrap();
                if life.world.find(BASE).is_none() {
                    let highest = volumes.iter().map(|volume| volume.number).max().unwrap();
                    life.world = World { volumes, highest, ..life.world };
                    life.ledger.begin(&life.world, 0);
                    life.ledger.know(ready);
                }
                assert_eq!(life.list().await.unwrap(), life.world.volumes);
                life.look_at_everything().await;
                for _ in 0..rng.random_range(5..40) {
                    life.step(&mut rng).await.unwrap();
                    replay.story.clone_from(&life.story);
                }
                life
            });
            let mut life = life;
            life.leave();
            if rng.random_bool(0.3) && server.drain(Duration::from_secs(10)).durable {
                life.blocks.closed(switch.moment());
            }
            total.add(life.counts);
            (world, platter) = cut(&life, &switch.history().unwrap(), ready, &mut total, &mut rng);
        }
    }
    eprintln!("{total:?}");
    let Total { counts, undone, done, .. } = total;
    let enough = counts.carried_out > 100
        && counts.refused > 10
        && counts.written > 100
        && counts.relocated > 20
        && undone > 100
        && done > 100
        && counts.failed > 3;
    assert!(enough || requested().is_some(), "too little was tried");
}

#[test]
fn volumes_and_what_they_hold_survive_kill_9_in_the_middle_of_orders() {
    const LIVES: u64 = 8;
    let runtime = runtime();
    let mut total = Total::default();
    for seed in seeds(1..=2) {
        let sandbox = Sandbox::with_file_drive(MEBIBYTES);
        let capacity = MEBIBYTES * 2048;
        let image = sandbox.path("drive.img");
        let control = default_control_socket(&headtime_io::Locator::Path(image.clone())).unwrap();
        let mut legal = vec![World { volumes: Vec::new(), capacity, highest: 0 }];
        let mut previous: Option<Blocks> = None;
        let mut replay = Replay { seed, life: 0, story: Vec::new() };
        for number in 0..LIVES {
            let mut rng = ChaCha8Rng::seed_from_u64(seed << 16 | number);
            (replay.life, replay.story) = (number, Vec::new());
            let server = sandbox.spawn(BASE_VOLUME);
            total.resumed += usize::from(resumed(&control));
            // Only now: the last commands of the killed server are complete when the next one has
            // the drive.
            let file = std::fs::File::open(&image).unwrap();
            let read = move |number: u64| {
                let mut content = vec![0; BLOCK];
                file.read_exact_at(&mut content, number * BLOCK as u64).unwrap();
                Bytes::from(content)
            };
            if let Some(blocks) = previous.take() {
                blocks
                    .written()
                    .for_each(|number| blocks.check_cut(number, &read(number), usize::MAX));
            }
            let before: Vec<Bytes> = (0..capacity / SECTORS).map(&read).collect();
            let now = Arc::new(AtomicUsize::new(0));
            let terms = Terms {
                clock: Box::new(move || now.fetch_add(1, Ordering::Relaxed)),
                faulty: false,
                outlives_answers: true,
                socket: sandbox.socket(),
                control: control.clone(),
            };
            let blocks = Blocks::new(
                seed << 16 | number,
                Box::new(move |number| before[number as usize].clone()),
            );
            let life = runtime.block_on(async {
                let mut life =
                    Life::begin(terms, Ledger::default(), legal[0].clone(), blocks).await;
                let volumes = life.list().await.unwrap();
                let highest = volumes.iter().map(|volume| volume.number).max().unwrap();
                let found = match legal.iter().find(|world| world.volumes == volumes) {
                    Some(world) => world.clone(),
                    None if legal[0].volumes.is_empty() => World { volumes, capacity, highest },
                    None => {
                        panic!("there are the volumes {volumes:#?}\nand there may be {legal:#?}")
                    }
                };
                found.check();
                total.tell(&legal.iter().collect::<Vec<_>>(), &found);
                life.world = found;
                life.ledger.begin(&life.world, 0);
                life.ledger.know(0);
                life.look_at_everything().await;
                for _ in 0..rng.random_range(3..20) {
                    life.step(&mut rng).await.unwrap();
                    replay.story.clone_from(&life.story);
                }
                // A command on a file takes about this long.
                let patience = Duration::from_micros(rng.random_range(0..800));
                let order = draw::draw(&life.world, &mut rng);
                let writer =
                    if rng.random_bool(0.5) { life.some_export(&mut rng).await } else { None };
                let _gone = if number % 2 == 0 {
                    // A relocation takes longer.
                    life.relocate(Some((server, patience * 16)), &mut rng).await
                } else {
                    life.order(order, writer, Some((server, patience)), &mut rng).await
                };
                replay.story.clone_from(&life.story);
                life
            });
            total.add(life.counts);
            legal = life.ledger.legal(usize::MAX).into_iter().cloned().collect();
            previous = Some(life.blocks);
        }
    }
    eprintln!("{total:?}");
    let enough = total.counts.carried_out > 20 && total.counts.written > 20 && total.resumed > 0;
    assert!(enough || requested().is_some(), "too little was tried");
}
