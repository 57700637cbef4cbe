//! A recorder with deadlines and a reader that uses the remaining time of the same drive.
//!
//! `cargo run --release --example embed -p headtime-io [-- SECONDS]`: an emulated 20 TB drive. The
//! recorder writes 1 MiB every 50 ms, each due before the next. The reader keeps 32 random reads in
//! progress. Runs for `SECONDS` (4) without deadlines and as long with them, and prints the results
//! of both clients.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headtime_io::{Drive, DriveHandle, DriveOptions, Io, IoError, Locator, Pending};
use headtime_sched::{StreamId, VolumeId};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RECORDER: VolumeId = VolumeId(1);
const READER: VolumeId = VolumeId(2);
const PERIOD: Duration = Duration::from_millis(50);
const CHUNK: u64 = 1 << 20;
const READ: u64 = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(4), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let locator = Locator::parse(&format!(
        "emulated:nearline-20tb?backing={}",
        directory.path().join("drive.img").display()
    ))?;
    for deadlines in [false, true] {
        let drive = Drive::open(&locator, DriveOptions::default())?;
        let over = AtomicBool::new(false);
        let (record, reads) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_until(&drive.handle(), &over));
            let record = record_for(&drive.handle(), Duration::from_secs(seconds), deadlines);
            over.store(true, Ordering::Relaxed);
            (record, reader.join().expect("the reader does not panic"))
        });
        let Record { chunks, late, slowest } = record?;
        let with = if deadlines { "with deadlines:   " } else { "without deadlines:" };
        println!(
            "{with} {late} of {chunks} chunks late, the slowest took {slowest:.0?}; {} reads a \
                second beside them",
            reads? / seconds
        );
    }
    Ok(())
}

struct Record {
    chunks: usize,
    late: usize,
    slowest: Duration,
}

/// Writes a chunk every period, one after the other, even if the drive does not keep up.
fn record_for(
    handle: &DriveHandle,
    time: Duration,
    deadlines: bool,
) -> Result<Record, Box<dyn Error>> {
    let (mut next, end) = (Instant::now(), Instant::now() + time);
    let mut chunks: Vec<Pending> = Vec::new();
    while next < end {
        let place = handle.extent_of_bytes(chunks.len() as u64 * CHUNK, CHUNK)?;
        let write = Io::write(place, Bytes::from(vec![7; CHUNK as usize]))
            .volume(RECORDER)
            .stream(StreamId(1));
        // Taken at once or, when the drive holds all it may, as soon as there is room.
        chunks.push(
            handle
                .start_when_room(if deadlines { write.deadline(PERIOD) } else { write })
                .wait()?,
        );
        next += PERIOD;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let mut record = Record { chunks: chunks.len(), late: 0, slowest: Duration::ZERO };
    for chunk in chunks {
        let done = chunk.wait();
        done.result?;
        let response =
            Duration::from_nanos(done.finished.map_or(0, |finished| finished.response().as_ns()));
        record.late += usize::from(response > PERIOD);
        record.slowest = record.slowest.max(response);
    }
    handle.run(Io::flush().volume(RECORDER)).result?;
    Ok(record)
}

/// Keeps random reads going; returns how many there were.
fn read_until(handle: &DriveHandle, over: &AtomicBool) -> Result<u64, IoError> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let blocks = handle.sector_size().bytes_of(handle.capacity()) / READ;
    let mut start = || {
        let place = handle
            .extent_of_bytes(rng.random_range(0..blocks) * READ, READ)
            .expect("blocks are whole sectors");
        handle.start(Io::read(place).volume(READER).stream(StreamId(2)))
    };
    let mut going: Vec<Pending> = (0..32).map(|_| start()).collect::<Result<_, _>>()?;
    let mut reads = 0;
    while !over.load(Ordering::Relaxed) {
        for pending in &mut going {
            if pending.is_over() {
                std::mem::replace(pending, start()?).wait().result?;
                reads += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(reads)
}
