//! Scans through the engine: every sector once, beside requests, on several kinds of drive; a point
//! in time; slow takers; closing.

mod common;

use std::sync::Arc;
use std::time::Duration;

use headtime_io::{Drive, DriveHandle, Io, ScanEvent, ScanFeed, ScanStart, WriteMarks};
use headtime_sched::{PendingSectors, ScanPriority};
use headtime_units::{Extent, Sectors};

use common::{Kind, Place, SECTORS, pattern_of};

/// Longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

macro_rules! on_kinds {
    ($($module:ident $kind:ident),*; $bodies:tt) => { $(on_kinds!(@ $module $kind $bodies);)* };
    (@ $module:ident $kind:ident ($($body:ident),*)) => {
        mod $module { $(#[test] fn $body() { super::$body(super::Kind::$kind); })* }
    };
}

on_kinds!(
    memory Memory, simulated Simulated, uring Uring, threads Threads, emulated Emulated,
    loop_4096 Loop4096, nbd Nbd;
    (every_sector_comes_once_with_its_bytes_beside_requests,
     a_point_in_time_holds_what_was_there_when_the_scan_started)
);

fn all(handle: &DriveHandle) -> ScanStart {
    let requested = PendingSectors::all(handle.capacity(), Sectors::new(8));
    ScanStart {
        requested,
        point_in_time: false,
        hold_writes: false,
        paused: false,
        priority: ScanPriority::DEFAULT,
        marks: None,
        queue_bytes: 1 << 20,
    }
}

/// A drive that holds version 1 of the pattern.
fn filled(place: &Place, kind: Kind) -> Option<Drive> {
    let drive = place.open(place.options())?;
    for start in (0..SECTORS).step_by(1024) {
        write(&drive.handle(), kind, Extent::from_numbers(start, 1024), 1);
    }
    Some(drive)
}

fn write(handle: &DriveHandle, kind: Kind, extent: Extent, version: u64) {
    handle
        .run(Io::write(extent, pattern_of(kind.sector(), extent, version)))
        .result
        .expect("it can be written");
}

/// Reads a scan to its end and counts each sector.
fn take_all(feed: &ScanFeed, sector: usize, mut each: impl FnMut(&ScanFeed, Extent, &[u8])) {
    let mut times = vec![0; SECTORS as usize];
    loop {
        match feed.next(PATIENCE).expect("the scan goes on") {
            ScanEvent::Read { extent, bytes, .. } => {
                assert_eq!(bytes.len(), extent.len.get() as usize * sector);
                times[extent.start.get() as usize..extent.end().get() as usize]
                    .iter_mut()
                    .for_each(|times| *times += 1);
                each(feed, extent, &bytes);
            }
            ScanEvent::Exhausted => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        times.iter().all(|times| *times == 1),
        "each sector is reported once: {:?}",
        times.iter().enumerate().find(|(_, times)| **times != 1)
    );
}

fn every_sector_comes_once_with_its_bytes_beside_requests(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = filled(&place, kind) else { return };
    let handle = drive.handle();
    let feed = handle.start_scan(all(&handle)).expect("the drive is open");
    let mut requested = 0;
    take_all(&feed, kind.sector(), |_, extent, bytes| {
        assert!(bytes == pattern_of(kind.sector(), extent, 1), "{extent} came with other bytes");
        if requested < 20 {
            let extent = Extent::from_numbers(requested * 701 % (SECTORS - 8), 8);
            assert!(
                handle.run(Io::read(extent)).result.expect("readable")
                    == pattern_of(kind.sector(), extent, 1)
            );
            requested += 1;
        }
    });
    let snapshot = drive.snapshot();
    assert_eq!(
        (snapshot.scans, snapshot.fill.read().get(), snapshot.background.sectors.get()),
        (1, SECTORS, SECTORS)
    );
    drop(feed);
    assert_eq!(drive.snapshot().scans, 0);
    assert!(drive.shutdown().is_clean());
}

fn a_point_in_time_holds_what_was_there_when_the_scan_started(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = filled(&place, kind) else { return };
    let handle = drive.handle();
    let feed = handle
        .start_scan(ScanStart { point_in_time: true, hold_writes: true, ..all(&handle) })
        .expect("the drive is open");
    // The scan runs while these come, so some of them overwrite what it has and others what it has
    // not.
    let writer = std::thread::spawn({
        let handle = handle.clone();
        move || {
            (0..64_u64).for_each(|n| {
                write(&handle, kind, Extent::from_numbers(n * 40_503 % (SECTORS - 16), 16), 2)
            })
        }
    });
    take_all(&feed, kind.sector(), |feed, extent, bytes| {
        assert!(bytes == pattern_of(kind.sector(), extent, 1), "{extent} is of another time");
        feed.keep(|_| true);
    });
    writer.join().expect("every write succeeds");
    let extent = Extent::from_numbers(63 * 40_503 % (SECTORS - 16), 16);
    assert!(
        handle.run(Io::read(extent)).result.expect("readable")
            == pattern_of(kind.sector(), extent, 2),
        "the writes happened"
    );
}

#[test]
fn a_reader_that_stops_pauses_the_scan_and_no_other_request() {
    let place = Place::new(Kind::Memory);
    let drive = filled(&place, Kind::Memory).expect("memory is to be had");
    let handle = drive.handle();
    let feed = handle
        .start_scan(ScanStart { queue_bytes: 64 << 10, ..all(&handle) })
        .expect("the drive is open");
    let read = || drive.snapshot().fill.read().get();
    // Without tracks, nothing is read while a client sends requests without pause. No client does
    // until the scan stands still.
    let mut before = 0;
    while before == 0 || before != read() {
        before = read();
        std::thread::sleep(Duration::from_millis(60));
    }
    write(&handle, Kind::Memory, Extent::from_numbers(0, 8), 1);
    assert!(
        before < SECTORS / 2,
        "{before} of {SECTORS} sectors are read although the feed is not read"
    );
    take_all(&feed, 512, |_, _, _| {});
}

#[test]
fn marks_tell_what_was_written_since_a_region_came_last() {
    let place = Place::new(Kind::Memory);
    let drive = filled(&place, Kind::Memory).expect("memory is to be had");
    let handle = drive.handle();
    let marks = Arc::new(WriteMarks::new([Extent::from_numbers(0, SECTORS)], Sectors::new(2048)));
    handle.watch_writes(&marks).expect("the drive is open");
    write(&handle, Kind::Memory, Extent::from_numbers(2040, 16), 2);
    handle.run(Io::discard(Extent::from_numbers(8192, 8))).result.expect("it can be discarded");
    let feed = handle
        .start_scan(ScanStart { marks: Some(Arc::clone(&marks)), ..all(&handle) })
        .expect("the drive is open");
    let mut written = Vec::new();
    loop {
        match feed.next(PATIENCE).expect("the scan goes on") {
            ScanEvent::Read { extent, written: was, .. } => {
                assert_eq!(
                    extent.start.get() / 2048,
                    extent.last().get() / 2048,
                    "{extent} lies in two regions"
                );
                written.extend(was.then_some(extent.start.get() / 2048));
            }
            ScanEvent::Exhausted => break,
            other => panic!("{other:?}"),
        }
    }
    written.sort_unstable();
    assert_eq!(written, [0, 1, 4]);
    assert!(marks.words().iter().all(|word| *word == 0));
}

#[test]
fn a_paused_scan_reads_nothing_and_a_closed_drive_ends_its_scans() {
    let place = Place::new(Kind::Memory);
    let drive = filled(&place, Kind::Memory).expect("memory is to be had");
    let handle = drive.handle();
    let feed =
        handle.start_scan(ScanStart { paused: true, ..all(&handle) }).expect("the drive is open");
    assert_eq!(
        (feed.next(Duration::from_millis(50)), drive.snapshot().fill.read()),
        (None, Sectors::ZERO)
    );
    feed.resume();
    assert!(matches!(feed.next(PATIENCE), Some(ScanEvent::Read { .. })));
    feed.pause();
    assert!(drive.shutdown().is_clean());
    let mut last = None;
    while last != Some(ScanEvent::Closed) {
        last = feed.next(PATIENCE);
        assert!(matches!(last, Some(ScanEvent::Read { .. } | ScanEvent::Closed)), "{last:?}");
    }
    assert!(handle.start_scan(all(&handle)).is_err());
}
