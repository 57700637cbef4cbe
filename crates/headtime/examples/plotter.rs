//! A plotter that must never wait for its data, beside bursty writers and bookkeeping.
//!
//! `cargo run -r -p headtime --example plotter -- DRIVE [SECONDS [MEMBERS [SETTING=VALUE ...]]]`
//!
//! Every 130 ms the plotter consumes 15 MiB, which it requests as a batch two seconds before: one
//! read, or up to 2,000 small ones. Beside it, four writers write in bursts, and a bookkeeper reads
//! and writes single blocks. This is the load of 12 drives, scaled to those of an array with
//! `MEMBERS` (1). `plotter.c` and `plotter.py` in `crates/c` and `crates/python` do the same.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headtime::{CompletionQueue, Drive, IoDone, IoRequest, OpenOptions};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BLOCK: u64 = 4096;
const CLOCK: Duration = Duration::from_millis(130);
const AHEAD: Duration = Duration::from_secs(2);
/// The blocks of a batch, and its maximum number of reads, for 12 drives.
const BATCH: (u64, u64) = (3840, 2000);

fn main() -> ExitCode {
    // A returned error would be printed for programmers; its text has the remedy.
    run().map_or_else(
        |error| {
            eprintln!("plotter: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name =
        arguments.first().ok_or("usage: plotter DRIVE [SECONDS [MEMBERS [SETTING=VALUE]]]")?;
    let seconds = arguments.get(1).map_or(Ok(10), |text| text.parse())?;
    let members = arguments.get(2).map_or(Ok(1), |text| text.parse())?;
    let mut options = OpenOptions::new().max_requests(100_000).max_bytes(1 << 30);
    for setting in arguments.iter().skip(3) {
        let (name, value) = setting.split_once('=').ok_or("a setting is NAME=VALUE")?;
        options = options.set(name, value)?;
    }
    let drive = options.open(name)?;
    let (bytes, min) = (drive.capacity(), 4 * BLOCK * (BATCH.0 * members / 12).max(64));
    if bytes < min {
        return Err(format!("{name}: {bytes} bytes are too few, expected at least {min}").into());
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (drive, over) = (&drive, &over);
        let writer = |seed| scope.spawn(move || write(drive, members, seed, over));
        let writers: Vec<_> = (1..=4).map(writer).collect();
        let bookkeeper = scope.spawn(|| keep_books(drive, over));
        let plotter = plot(drive, members, Duration::from_secs(seconds));
        over.store(true, Ordering::Relaxed);
        println!("{}", plotter?);
        let mut times = Vec::new();
        for writer in writers {
            times.extend(writer.join().expect("a writer does not panic")?);
        }
        println!("writers: {}", summary(times));
        println!("bookkeeping: {}", summary(bookkeeper.join().expect("nor does this")?));
        Ok(())
    })
}

/// Requests a batch every 130 ms. Its data is due two seconds later.
fn plot(drive: &Drive, members: u64, time: Duration) -> Result<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut queue = CompletionQueue::new()?;
    let (begin, mut next) = (Instant::now(), Instant::now());
    let (mut batches, mut late_batches, mut late_reads) = (Vec::new(), 0, 0);
    let mut reads = Vec::new();
    loop {
        let result = if next < begin + time {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                queue.push((), drive.batch(batch(drive, members, &mut rng)).deadline(AHEAD));
                next += CLOCK;
            }
            queue.next_timeout(left)
        } else {
            let Some(result) = queue.next() else { break };
            Some(result)
        };
        let Some(((), done)) = result else { continue };
        let done = done?;
        late_reads += done.missed_deadlines();
        late_batches += usize::from(done.missed_deadlines() > 0);
        batches.push(done.response_time());
        reads.extend(done.iter().map(IoDone::response_time));
    }
    Ok(format!(
        "plotter: {late_batches} batches late, {late_reads} reads late; due after {AHEAD:?}\n\
            batches: {}\nreads: {}",
        summary(batches),
        summary(reads)
    ))
}

/// The reads of a batch: few large ones as often as many small ones.
fn batch(drive: &Drive, members: u64, rng: &mut ChaCha8Rng) -> Vec<IoRequest> {
    let (blocks, most) = ((BATCH.0 * members / 12).max(1), (BATCH.1 * members / 12).max(1));
    let count = (most as f64).powf(rng.random_range(0.0..=1.0)).round() as u64;
    let length = (blocks / count).max(1);
    let last = drive.capacity() / BLOCK / 2 - length;
    (0..count).map(|_| drive.read_at(rng.random_range(0..last) * BLOCK, length * BLOCK)).collect()
}

/// Writes bursts of chunks into the second half of the drive.
fn write(drive: &Drive, members: u64, seed: u64, over: &AtomicBool) -> Result<Vec<Duration>> {
    const CHUNK: u64 = 64 * BLOCK;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut times, chunks) = (Vec::new(), drive.capacity() / CHUNK);
    while !over.load(Ordering::Relaxed) {
        let burst = (0..rng.random_range(1..=2 * members)).map(|_| {
            let chunk = rng.random_range(chunks / 2..chunks);
            drive.write_at(chunk * CHUNK, vec![7; CHUNK as usize])
        });
        times.extend(drive.batch(burst).wait()?.iter().map(IoDone::response_time));
        thread::sleep(Duration::from_millis(rng.random_range(0..1000)));
    }
    Ok(times)
}

/// Reads and writes single blocks, and makes them durable.
fn keep_books(drive: &Drive, over: &AtomicBool) -> Result<Vec<Duration>> {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (mut times, blocks) = (Vec::new(), drive.capacity() / BLOCK);
    while !over.load(Ordering::Relaxed) {
        for _ in 0..rng.random_range(1..=8) {
            let offset = rng.random_range(blocks / 2..blocks) * BLOCK;
            times.push(drive.read_at(offset, BLOCK).wait()?.response_time());
            times.push(drive.write_at(offset, vec![9; BLOCK as usize]).wait()?.response_time());
        }
        drive.flush().wait()?;
        thread::sleep(Duration::from_millis(rng.random_range(0..500)));
    }
    Ok(times)
}

fn summary(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    let milliseconds = |share: usize| {
        let time = times.get((times.len() * share / 100).min(last));
        time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    format!(
        "{} in {:.1} ms (median), {:.1} ms (99 %), {:.1} ms (slowest)",
        times.len(),
        milliseconds(50),
        milliseconds(99),
        milliseconds(100)
    )
}
