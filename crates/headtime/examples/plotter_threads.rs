//! The load of the example `plotter` without a scheduler: plain threads with direct I/O.
//!
//! `cargo run -r -p headtime --example plotter_threads -- PATH [SECONDS [MEMBERS [THREADS]]]`
//!
//! `PATH` is a file or a block device. The plotter's reads are taken in order by `THREADS` (64)
//! threads; four writers and a bookkeeper have a thread each. docs/embedding.md tells how to run it
//! on an emulated drive.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::OFlags;

const BLOCK: u64 = 4096;
const CHUNK: u64 = 64 * BLOCK;
const CLOCK: Duration = Duration::from_millis(130);
const AHEAD: Duration = Duration::from_secs(2);
/// The blocks of a batch, and its maximum number of reads, for 12 drives.
const BATCH: (u64, u64) = (3840, 2000);

/// A read of the plotter: its first byte, its bytes, and the start of its batch.
type Read = (u64, usize, Instant);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path =
        arguments.first().ok_or("usage: plotter_threads PATH [SECONDS [MEMBERS [THREADS]]]")?;
    let number =
        |place: usize, default| arguments.get(place).map_or(Ok(default), |text| text.parse());
    let (seconds, members, threads) = (number(1, 10)?, number(2, 1)?, number(3, 64)?);
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path)?;
    let blocks = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))? / BLOCK;
    let over = AtomicBool::new(false);
    let (send, queue) = mpsc::channel();
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(|| read(&file, &queue))).collect();
        let (file, over) = (&file, &over);
        let writer = |seed| scope.spawn(move || write(file, blocks, members, seed, over));
        let writers: Vec<_> = (1..=4).map(writer).collect();
        let bookkeeper = scope.spawn(|| keep_books(file, blocks, over));
        plot(send, blocks, members, Duration::from_secs(seconds));
        let mut reads = Vec::new();
        for reader in readers {
            reads.extend(reader.join().expect("a reader does not panic")?);
        }
        over.store(true, Ordering::Relaxed);
        let late = reads.iter().filter(|time| **time > AHEAD).count();
        println!("plotter: {late} reads late; due after {AHEAD:?}\nreads: {}", summary(reads));
        let mut times = Vec::new();
        for writer in writers {
            times.extend(writer.join().expect("a writer does not panic")?);
        }
        println!("writers: {}", summary(times));
        println!("bookkeeping: {}", summary(bookkeeper.join().expect("nor does this")?));
        Ok(())
    })
}

/// Queues a batch every 130 ms: few large reads as often as many small ones.
fn plot(queue: mpsc::Sender<Read>, blocks: u64, members: u64, time: Duration) {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let (size, most) = ((BATCH.0 * members / 12).max(1), (BATCH.1 * members / 12).max(1));
    let begin = Instant::now();
    let mut next = begin;
    while next < begin + time {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let count = (most as f64).powf(rng.random_range(0.0..=1.0)).round() as u64;
        let length = (size / count).max(1);
        for _ in 0..count {
            let offset = rng.random_range(0..blocks / 2 - length) * BLOCK;
            queue.send((offset, (length * BLOCK) as usize, next)).expect("the readers listen");
        }
        next += CLOCK;
    }
}

/// Reads what the plotter queues, in that order.
fn read(file: &File, queue: &Mutex<mpsc::Receiver<Read>>) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    loop {
        let next = queue.lock().expect("no reader panics").recv();
        let Ok((offset, length, begun)) = next else { return Ok(times) };
        file.read_exact_at(aligned(&mut Vec::new(), length), offset)?;
        times.push(begun.elapsed());
    }
}

/// Writes bursts of chunks into the second half.
fn write(
    file: &File,
    blocks: u64,
    members: u64,
    seed: u64,
    over: &AtomicBool,
) -> io::Result<Vec<Duration>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut times, chunks) = (Vec::new(), blocks * BLOCK / CHUNK);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        for _ in 0..rng.random_range(1..=2 * members) {
            let chunk = rng.random_range(chunks / 2..chunks);
            file.write_all_at(aligned(&mut Vec::new(), CHUNK as usize), chunk * CHUNK)?;
            times.push(begun.elapsed());
        }
        thread::sleep(Duration::from_millis(rng.random_range(0..1000)));
    }
    Ok(times)
}

/// Reads and writes single blocks, and makes them durable.
fn keep_books(file: &File, blocks: u64, over: &AtomicBool) -> io::Result<Vec<Duration>> {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    let block = aligned(&mut memory, BLOCK as usize);
    while !over.load(Ordering::Relaxed) {
        for _ in 0..rng.random_range(1..=8) {
            let offset = rng.random_range(blocks / 2..blocks) * BLOCK;
            let begun = Instant::now();
            file.read_exact_at(block, offset)?;
            times.push(begun.elapsed());
            let begun = Instant::now();
            file.write_all_at(block, offset)?;
            times.push(begun.elapsed());
        }
        file.sync_data()?;
        thread::sleep(Duration::from_millis(rng.random_range(0..500)));
    }
    Ok(times)
}

/// Memory that direct I/O accepts.
fn aligned(memory: &mut Vec<u8>, length: usize) -> &mut [u8] {
    memory.resize(length + BLOCK as usize, 0);
    let start = memory.as_ptr().align_offset(BLOCK as usize);
    &mut memory[start..start + length]
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
