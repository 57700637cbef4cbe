//! A background task of an application: the share of zeroes on a drive, computed in any order of
//! sectors, stored across restarts, in disk time that no client uses.
//! ```text
//! cargo run --example own_task -- DRIVE [STATE]      such as simulated:atlas10k or drive.img
//! ```
//! The drive reads for the scan beside all other requests of the program, as long as the feed
//! exists; this example has none.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headtime_io::files::{Existing, write_atomically};
use headtime_io::{Drive, DriveOptions, Locator, ScanEvent, ScanStart};
use headtime_sched::{FillSource, PendingSectors, ScanPriority};
use headtime_tasks::{
    DigestReport, Output, Piece, ReadSource, Scan, ScanSubject, Task, TaskKind, TaskSettings,
};
use headtime_units::{Extent, Lba, Sectors};

/// Counts the bytes of sectors that are all zero.
struct CountZeroes {
    sector_bytes: usize,
    /// Shared, because the scan owns the task.
    zeroes: Arc<AtomicU64>,
}

impl Task for CountZeroes {
    fn settings(&self) -> TaskSettings {
        // Like a scrub: it uses sectors as they are when they are read.
        TaskKind::Scrub.into()
    }

    fn take(&mut self, piece: &Piece<'_>, _out: &mut Vec<Output>) {
        // Whole grains, each once per pass, in any order: the result must not depend on the order,
        // as a sum does not.
        let unreadable: u64 = piece.failed.iter().map(|failed| failed.len.get()).sum();
        let zero = piece
            .bytes
            .chunks(self.sector_bytes)
            .filter(|sector| sector.iter().all(|byte| *byte == 0))
            .count() as u64;
        self.zeroes.fetch_add((zero - unreadable) * self.sector_bytes as u64, Ordering::Relaxed);
    }

    fn again(&mut self) {
        self.zeroes.store(0, Ordering::Relaxed);
    }

    fn digests(&self) -> Option<DigestReport> {
        None
    }

    fn encode(&self, to: &mut dyn FnMut(&[u8])) {
        to(&self.zeroes.load(Ordering::Relaxed).to_le_bytes());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let locator: Locator =
        arguments.next().unwrap_or_else(|| "simulated:hp-c2247a".to_owned()).parse()?;
    let state = arguments.next();
    let drive = Drive::open(&locator, DriveOptions::default())?;
    let handle = drive.handle();
    let (capacity, size) = (handle.capacity(), handle.sector_size());
    let subject = ScanSubject {
        drive: ScanSubject::identity_by_name(&locator.to_string()),
        target: "zeroes".to_owned(),
        extent: Extent::new(Lba::new(0), capacity),
        sector_size: size,
    };
    let sector_bytes = size.bytes() as usize;
    let zeroes = Arc::new(AtomicU64::new(0));
    let task: Box<dyn Task> = Box::new(CountZeroes { sector_bytes, zeroes: Arc::clone(&zeroes) });
    let mut scan = match state.as_deref().filter(|path| Path::new(path).exists()) {
        // The output of `encode`, after the state of the scan itself.
        Some(path) => {
            Scan::decode_own(&std::fs::read(path)?, &subject, TaskKind::Scrub, |bytes| {
                zeroes.store(u64::from_le_bytes(bytes.try_into().ok()?), Ordering::Relaxed);
                Some(task)
            })?
            .scan
        }
        None => Scan::with_task(subject, task, handle.physical_block()),
    };

    let mut sectors = PendingSectors::new(capacity, Sectors::new(scan.grain()));
    scan.missing().for_each(|extent| sectors.insert(extent));
    let feed = handle.start_scan(ScanStart {
        requested: sectors,
        point_in_time: false,
        hold_writes: false,
        paused: false,
        priority: ScanPriority::DEFAULT,
        marks: None,
        queue_bytes: 4 << 20,
    })?;
    let mut out = Vec::new();
    loop {
        let (extent, read, source) = match feed.next(Duration::from_secs(60)) {
            Some(ScanEvent::Read { extent, bytes, source, .. }) => (extent, Ok(bytes), source),
            Some(ScanEvent::Failed { extent, errno, source, .. }) => (extent, Err(errno), source),
            Some(ScanEvent::Exhausted) => break,
            other => return Err(format!("the scan ended early: {other:?}").into()),
        };
        scan.deliver(
            extent,
            read.as_deref().map_err(|errno| *errno),
            false,
            source_of(source),
            &mut out,
        );
        // A task with output would write `out` here, and call `forget` if that fails.
        scan.keep();
        if let Some(path) = &state {
            save(&scan, path)?;
        }
    }
    let zeroes = zeroes.load(Ordering::Relaxed);
    println!(
        "{locator}: {zeroes} of {} bytes are zeroes, {} sectors cannot be read",
        size.bytes_of(capacity),
        scan.failed().sectors().get()
    );
    Ok(())
}

/// Replaces the state atomically. Saving less often repeats more reads after a kill.
fn save(scan: &Scan, path: &str) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    scan.encode(true, &mut |part| bytes.extend_from_slice(part));
    write_atomically(path.as_ref(), Existing::Replace, |mut file| file.write_all(&bytes))
}

fn source_of(source: FillSource) -> ReadSource {
    match source {
        FillSource::Gap => ReadSource::Gap,
        FillSource::Merged => ReadSource::Merged,
        FillSource::Idle => ReadSource::Idle,
        FillSource::Share => ReadSource::Share,
        FillSource::BeforeWrite => ReadSource::BeforeWrite,
    }
}
