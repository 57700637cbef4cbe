//! What every kind of drive does: the same bodies against memory, a simulated and an emulated
//! drive, files by io_uring and by threads, loop devices, and NBD servers.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use headtime_io::{DriveOptions, Io, IoError, OnDone, PolicyChoice, SubmitError, WriteMode};
use headtime_sched::{Op, POLICIES, StreamId, VolumeId};
use headtime_units::{Extent, Nanos, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use common::{Kind, Place, SECTORS, answer, holds, pattern_of, submit};

macro_rules! conformance {
    (every kind: $($body:ident),*; what outlives the drive: $($of_keepers:ident),*;
     what can be locked: $($of_locks:ident),*;
     what is kept in a file: $($of_files:ident),*) => {
        conformance!(@kind memory Memory: $($body),*);
        conformance!(@kind simulated Simulated: $($body),*);
        conformance!(@kind uring Uring: $($body),*, $($of_keepers),*,
            $($of_locks),*, $($of_files),*);
        conformance!(@kind uring_buffered UringBuffered: $($body),*, $($of_keepers),*,
            $($of_locks),*, $($of_files),*);
        conformance!(@kind threads Threads: $($body),*, $($of_keepers),*,
            $($of_locks),*, $($of_files),*);
        conformance!(@kind emulated Emulated: $($body),*, $($of_keepers),*,
            $($of_locks),*, $($of_files),*);
        conformance!(@kind loop_512 Loop512: $($body),*, $($of_keepers),*, $($of_locks),*);
        conformance!(@kind loop_4096 Loop4096: $($body),*, $($of_keepers),*, $($of_locks),*);
        conformance!(@kind array Array: $($body),*);
        conformance!(@kind array_of_emulated ArrayOfEmulated: $($body),*);
        conformance!(@kind nbd Nbd: $($body),*, $($of_keepers),*);
        conformance!(@kind nbd_plain NbdPlain: $($body),*, $($of_keepers),*);
    };
    (@kind $module:ident $kind:ident: $($body:ident),*) => {
        mod $module { $(#[test] fn $body() { super::$body(super::Kind::$kind); })* }
    };
}

conformance!(
    every kind:
    what_is_written_is_read_back,
    a_durable_write_and_a_flush_are_answered,
    zeroed_sectors_read_as_zeroes_and_their_neighbors_stay,
    discarding_leaves_the_neighbors_alone,
    what_makes_no_sense_is_refused_and_never_called_back,
    requests_submitted_together_are_answered_each_and_a_wrong_one_is_refused_alone,
    overlapping_requests_keep_their_order_whatever_the_policy,
    a_cancelled_request_is_answered_once_and_the_drive_goes_on,
    the_bounds_hold_and_places_come_back,
    closing_finishes_what_was_taken_and_takes_nothing_more,
    a_panicking_callback_does_not_take_the_drive_with_it,
    the_books_name_the_volumes_and_the_policy;
    // What is in memory only is gone with the drive, and nobody else can reach it meanwhile.
    what outlives the drive:
    reopening_keeps_the_data,
    a_truncated_file_fails_only_requests_past_its_end;
    // NBD has no locks, so other users of an export are unknown.
    what can be locked:
    a_file_in_use_is_not_opened_twice;
    // A block device has no file that could be removed: its node may go, and the device stays. A
    // removed file at an NBD server is outside of the scope: nbdkit continues and reports it
    // durable.
    what is kept in a file:
    a_removed_file_promises_no_durability
);

fn what_is_written_is_read_back(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let handle = drive.handle();
    assert_eq!(
        (handle.capacity(), handle.sector_size().bytes() as usize),
        (Sectors::new(SECTORS), kind.sector())
    );
    for (start, len) in [(0, 1), (1, 1), (7, 9), (100, 2048), (SECTORS - 3, 3)] {
        let extent = Extent::from_numbers(start, len);
        let written = pattern_of(kind.sector(), extent, 1);
        let done = handle.run(Io::write(extent, written.clone()));
        assert_eq!(done.result, Ok(Bytes::new()), "{extent}");
        let finished = done.finished.expect("the scheduler finished it");
        assert!(
            finished.finished >= finished.dispatched && finished.dispatched >= finished.submitted
        );
        assert!(holds(&drive, extent, 1), "{extent}");
    }
    assert_eq!(
        handle.run(Io::read(Extent::from_numbers(3000, 2))).result,
        Ok(Bytes::from(vec![0; 2 * kind.sector()])),
        "never written"
    );
}

fn a_durable_write_and_a_flush_are_answered(kind: Kind) {
    for write_mode in [WriteMode::AsRequested, WriteMode::Durable] {
        let place = Place::new(kind);
        let Some(drive) = place.open(DriveOptions { write_mode, ..place.options() }) else {
            return;
        };
        let handle = drive.handle();
        let extent = Extent::from_numbers(5, 3);
        assert_eq!(
            handle
                .run(Io { fua: true, ..Io::write(extent, pattern_of(kind.sector(), extent, 2)) })
                .result,
            Ok(Bytes::new())
        );
        assert_eq!(
            handle.run(Io { fua: true, ..Io::new(Op::Zero, Extent::from_numbers(6, 1)) }).result,
            Ok(Bytes::new())
        );
        assert_eq!(
            handle
                .run(Io { fua: true, ..Io::new(Op::Discard, Extent::from_numbers(64, 8)) })
                .result,
            Ok(Bytes::new())
        );
        let flush = handle.run(Io::flush());
        assert_eq!(flush.result, Ok(Bytes::new()));
        assert!(flush.finished.is_some());
        let read = handle.run(Io::read(extent)).result.expect("readable");
        let sector = kind.sector();
        assert!(read[..sector] == pattern_of(sector, extent, 2)[..sector]);
        assert!(read[sector..2 * sector].iter().all(|byte| *byte == 0));
    }
}

fn zeroed_sectors_read_as_zeroes_and_their_neighbors_stay(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let handle = drive.handle();
    let all = Extent::from_numbers(0, 64);
    let written = pattern_of(kind.sector(), all, 3);
    // One sector, an aligned block, and a range that starts and ends within blocks.
    for (start, len) in [(3_usize, 1_usize), (8, 8), (21, 30)] {
        assert_eq!(handle.run(Io::write(all, written.clone())).result, Ok(Bytes::new()));
        let hole = Extent::from_numbers(start as u64, len as u64);
        assert_eq!(handle.run(Io::new(Op::Zero, hole)).result, Ok(Bytes::new()));
        let mut expected = written.to_vec();
        expected[start * kind.sector()..(start + len) * kind.sector()].fill(0);
        assert!(handle.run(Io::read(all)).result.expect("readable") == expected, "{hole}");
    }
}

fn discarding_leaves_the_neighbors_alone(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let handle = drive.handle();
    let all = Extent::from_numbers(0, 64);
    let written = pattern_of(kind.sector(), all, 4);
    assert_eq!(handle.run(Io::write(all, written.clone())).result, Ok(Bytes::new()));
    assert_eq!(
        handle.run(Io::new(Op::Discard, Extent::from_numbers(10, 20))).result,
        Ok(Bytes::new())
    );
    let read = handle.run(Io::read(all)).result.expect("readable");
    let sector = kind.sector();
    assert!(read[..10 * sector] == written[..10 * sector]);
    assert!(read[30 * sector..] == written[30 * sector..]);
}

fn what_makes_no_sense_is_refused_and_never_called_back(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let refused = |io: Io| {
        let calls = Arc::clone(&calls);
        drive
            .handle()
            .submit(io, move |_| {
                calls.fetch_add(1, Ordering::SeqCst);
            })
            .expect_err("it makes no sense")
    };
    for extent in [
        Extent::from_numbers(SECTORS, 1),
        Extent::from_numbers(SECTORS - 1, 2),
        Extent::from_numbers(u64::MAX, 2),
    ] {
        assert!(matches!(refused(Io::read(extent)), SubmitError::OutOfRange { .. }), "{extent:?}");
    }
    assert!(matches!(
        refused(Io::read(Extent::from_numbers(0, 0))),
        SubmitError::WrongLength { .. }
    ));
    assert!(matches!(
        refused(Io { extent: Extent::from_numbers(0, 1), ..Io::flush() }),
        SubmitError::WrongLength { .. }
    ));
    let two = 2 * kind.sector() as u64;
    let short = Io::write(Extent::from_numbers(0, 2), Bytes::from(vec![0; 2 * kind.sector() - 24]));
    assert!(matches!(
        refused(short),
        SubmitError::WrongData { got, expected, .. } if (got, expected) == (two - 24, two)
    ));
    assert!(matches!(
        refused(Io { data: Bytes::from_static(b"x"), ..Io::read(Extent::from_numbers(0, 2)) }),
        SubmitError::WrongData { .. }
    ));
    assert!(drive.shutdown().is_clean());
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

fn requests_submitted_together_are_answered_each_and_a_wrong_one_is_refused_alone(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let (done, answers) = mpsc::channel();
    let extent = |number| Extent::from_numbers(SECTORS - 16 + 2 * number, 2);
    // The last lies past the end of the drive.
    let batch = (0..=8_u64).map(|number| {
        let done = done.clone();
        let write = Io::write(extent(number), pattern_of(kind.sector(), extent(number), 7));
        let on_done: OnDone = Box::new(move |answer| done.send((number, answer)).expect("awaited"));
        (write, on_done)
    });
    let taken = drive.handle().submit_all(batch);
    drop(done);
    assert!(matches!(taken[8], Err(SubmitError::OutOfRange { .. })), "{taken:?}");
    let ids: BTreeSet<_> = taken[..8].iter().map(|taken| *taken.as_ref().expect("valid")).collect();
    assert_eq!(ids.len(), 8);
    let answered: BTreeMap<_, _> = answers.iter().collect();
    assert!(answered.len() == 8 && answered.values().all(|done| done.result.is_ok()));
    assert!(holds(&drive, Extent::from_numbers(SECTORS - 16, 16), 7));
}

fn overlapping_requests_keep_their_order_whatever_the_policy(kind: Kind) {
    for (number, entry) in POLICIES.iter().filter(|entry| !entry.oracle).enumerate() {
        let seed = std::env::var("HEADTIME_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or(1000 + number as u64);
        eprintln!(
            "policy {}: replay with HEADTIME_SEED={seed} cargo test -p headtime-io --test \
                conformance overlapping",
            entry.name
        );
        let place = Place::new(kind);
        let policy = PolicyChoice::parse(entry.name).expect("a policy");
        let Some(drive) = place.open(DriveOptions { policy, ..place.options() }) else { return };
        random_traffic(&drive, kind.sector(), seed);
        assert!(drive.shutdown().is_clean());
    }
}

/// Many requests on few sectors, all at once; whatever order they are served in, each read sees
/// what was submitted before it.
fn random_traffic(drive: &headtime_io::Drive, sector_bytes: usize, seed: u64) {
    const WITHIN: u64 = 200;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sectors = vec![Some(0_u64); WITHIN as usize];
    let mut open = Vec::new();
    let zero = Bytes::from(vec![0; sector_bytes]);
    for version in 1..=600 {
        let start = rng.random_range(0..WITHIN);
        let extent = Extent::from_numbers(start, rng.random_range(1..=(WITHIN - start).min(24)));
        let range = start as usize..extent.end().get() as usize;
        let fua = rng.random_bool(0.1);
        let (io, expected) = match rng.random_range(0..100) {
            0..45 => (Io::read(extent), Some(sectors[range].to_vec())),
            45..85 => {
                sectors[range].fill(Some(version));
                (Io { fua, ..Io::write(extent, pattern_of(sector_bytes, extent, version)) }, None)
            }
            85..93 => {
                sectors[range].fill(Some(0));
                (Io { fua, ..Io::new(Op::Zero, extent) }, None)
            }
            93..97 => {
                sectors[range].fill(None);
                (Io::new(Op::Discard, extent), None)
            }
            _ => (Io::flush(), None),
        };
        let deadline = rng.random_bool(0.3).then(|| Nanos::from_us(rng.random_range(100..100_000)));
        open.push((
            extent,
            expected,
            submit(drive, Io { deadline, stream: StreamId(rng.random_range(0..3)), ..io }),
        ));
    }
    for (number, (extent, expected, receiver)) in open.into_iter().enumerate() {
        let read =
            answer(&receiver).result.unwrap_or_else(|error| panic!("request {number}: {error}"));
        let Some(expected) = expected else { continue };
        for (index, version) in expected.into_iter().enumerate() {
            let sector = Extent::from_numbers(extent.start.get() + index as u64, 1);
            let got = &read[index * sector_bytes..(index + 1) * sector_bytes];
            let fits = match version {
                None => true,
                Some(0) => got == zero,
                Some(version) => got == pattern_of(sector_bytes, sector, version),
            };
            assert!(
                fits,
                "request {number}: {sector} does not hold what was last submitted, version \
                    {version:?}"
            );
        }
    }
}

fn a_cancelled_request_is_answered_once_and_the_drive_goes_on(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let handle = drive.handle();
    let extent = Extent::from_numbers(0, 64);
    let mut answers = Vec::new();
    for number in 0..40 {
        let (sender, receiver) = mpsc::channel();
        // All on the same sectors, so that most of them wait and can be taken out of the queue.
        let id = handle
            .submit(Io::write(extent, pattern_of(kind.sector(), extent, number)), move |done| {
                drop(sender.send(done))
            })
            .expect("taken");
        if number % 2 == 1 {
            handle.cancel(id);
            handle.cancel(id);
        }
        answers.push(receiver);
    }
    let mut cancelled = 0;
    for (number, receiver) in answers.iter().enumerate() {
        match answer(receiver).result {
            Ok(_) => {}
            Err(IoError::Cancelled) if number % 2 == 1 => cancelled += 1,
            Err(error) => panic!("request {number}: {error}"),
        }
        assert!(receiver.recv().is_err(), "request {number} was answered twice");
    }
    assert_eq!(handle.snapshot().errors.cancelled, cancelled);
    // The last one was cancelled: taken out of the queue, or carried out after all; on an array
    // each part.
    for part in extent.divided_at(handle.divide_at().unwrap_or(extent.len)) {
        assert!(
            [38, 39].iter().any(|version| holds(&drive, part, *version)),
            "the last request but one was lost on {part}"
        );
    }
}

fn the_bounds_hold_and_places_come_back(kind: Kind) {
    let place = Place::new(kind);
    let options =
        DriveOptions { max_requests: 4, max_bytes: 16 * kind.sector() as u64, ..place.options() };
    let Some(drive) = place.open(options) else { return };
    let handle = drive.handle();
    let too_large = handle
        .submit(Io::read(Extent::from_numbers(0, 17)), |_| {})
        .expect_err("17 sectors never fit 16");
    assert!(matches!(too_large, SubmitError::TooLarge { .. }), "{too_large}");

    // While a callback runs the engine does nothing else, so that what is submitted meanwhile
    // stays.
    let (started, has_started) = mpsc::channel();
    let (proceed, may_proceed) = mpsc::channel::<()>();
    let held = move |_| {
        let _ = started.send(());
        let _ = may_proceed.recv();
    };
    // From another thread: where the drive answers at once, the callback runs on the thread that
    // submits.
    let other = handle.clone();
    let submitted =
        std::thread::spawn(move || other.submit(Io::read(Extent::from_numbers(0, 10)), held));
    has_started.recv().expect("the engine calls back");
    let over_bytes = handle
        .submit(Io::read(Extent::from_numbers(0, 7)), |_| {})
        .expect_err("10 + 7 sectors do not fit 16");
    assert!(matches!(over_bytes, SubmitError::Full { requests: 1, .. }), "{over_bytes}");
    let waiting: Vec<_> =
        (0..3).map(|_| submit(&drive, Io::read(Extent::from_numbers(0, 2)))).collect();
    let full = handle.submit(Io::flush(), |_| {}).expect_err("four are held");
    assert!(matches!(full, SubmitError::Full { requests: 4, max_requests: 4, .. }), "{full}");
    proceed.send(()).expect("the callback waits");
    assert!(submitted.join().expect("it submits and ends").is_ok());
    for receiver in &waiting {
        assert!(answer(receiver).result.is_ok());
    }
    // The last callback's place comes back just after it; `run` itself needs one.
    while let Err(refused) = handle.submit(Io::read(Extent::from_numbers(0, 16)), |_| {}) {
        assert!(matches!(refused, SubmitError::Full { .. }), "{refused}");
        std::thread::yield_now();
    }
    assert!(drive.shutdown().is_clean());
}

fn reopening_keeps_the_data(kind: Kind) {
    let place = Place::new(kind);
    let extent = Extent::from_numbers(99, 333);
    for version in 0..3 {
        let Some(drive) = place.open(place.options()) else { return };
        let handle = drive.handle();
        if version > 0 {
            assert!(holds(&drive, extent, version - 1));
        }
        assert_eq!(
            handle.run(Io::write(extent, pattern_of(kind.sector(), extent, version))).result,
            Ok(Bytes::new())
        );
        assert!(drive.shutdown().is_clean());
    }
}

fn closing_finishes_what_was_taken_and_takes_nothing_more(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let handle = drive.handle();
    let extents: Vec<Extent> =
        (0..200).map(|number| Extent::from_numbers(number * 37 % 16_000, 8)).collect();
    let answers: Vec<_> = extents
        .iter()
        .map(|extent| submit(&drive, Io::write(*extent, pattern_of(kind.sector(), *extent, 5))))
        .collect();
    let report = drive.shutdown();
    assert!(report.is_clean(), "{report:?}");
    for receiver in answers {
        assert_eq!(answer(&receiver).result, Ok(Bytes::new()));
    }
    let sectors = report.last.accounts.iter().map(|(_, account)| account.sectors.get());
    assert_eq!(sectors.sum::<u64>(), 200 * 8);
    let closed = handle
        .submit(Io::flush(), |_| unreachable!("a refused request is not called back"))
        .expect_err("closed");
    assert_eq!(closed, SubmitError::Closed);
    assert_eq!(handle.run(Io::flush()).result, Err(IoError::NotTaken(SubmitError::Closed)));
    assert_eq!(handle.snapshot(), report.last);

    if kind.keeps() {
        let again = place.open(place.options()).expect("it was to be had before");
        assert!(holds(&again, extents[199], 5));
    }
}

fn a_panicking_callback_does_not_take_the_drive_with_it(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let handle = drive.handle();
    handle.submit(Io::flush(), |_| panic!("this panic belongs to the test")).expect("taken");
    assert!(handle.run(Io::read(Extent::from_numbers(0, 1))).result.is_ok());
}

fn a_file_in_use_is_not_opened_twice(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let message = place.try_open(place.options()).err().expect("in use").to_string();
    let (named, says) = if kind.is_device() {
        ("/dev/loop", "open for writing by")
    } else {
        ("drive.img", "locked by another headtime")
    };
    assert!(message.contains(named) && message.contains(says), "{message}");
    drop(drive);
    assert!(place.open(place.options()).is_some());
}

fn the_books_name_the_volumes_and_the_policy(kind: Kind) {
    let place = Place::new(kind);
    let policy = PolicyChoice::parse("fcfs").expect("a policy");
    let Some(drive) = place.open(DriveOptions { policy, ..place.options() }) else { return };
    let handle = drive.handle();
    for volume in [1, 1, 7] {
        let io = Io {
            volume: VolumeId(volume),
            deadline: Some(Nanos::from_secs(3600)),
            ..Io::read(Extent::from_numbers(0, 4))
        };
        assert!(handle.run(io).result.is_ok());
    }
    let snapshot = drive.snapshot();
    let accounts: BTreeMap<u32, (u64, u64)> = snapshot
        .accounts
        .iter()
        .map(|(volume, account)| (volume.0, (account.requests, account.sectors.get())))
        .collect();
    assert_eq!(accounts, BTreeMap::from([(1, (2, 8)), (7, (1, 4))]));
    assert_eq!((snapshot.policy, snapshot.queued, snapshot.outstanding), ("fcfs", 0, 0));
    let emulated = matches!(kind, Kind::Emulated | Kind::ArrayOfEmulated);
    assert_eq!(snapshot.emulation.is_some(), emulated);
    let method = match kind {
        Kind::Uring | Kind::UringBuffered => "io_uring, ",
        Kind::Threads => "threads, ",
        Kind::Emulated => "emulated swift, unit 0",
        Kind::Memory => "memory",
        Kind::Simulated => "simulated swift, unit 0",
        Kind::Loop512 => "io_uring, direct, raw device",
        Kind::Loop4096 => "threads, direct, raw device",
        Kind::Array => "array of 2, stripes of 8 KiB: /",
        Kind::ArrayOfEmulated => "array of 2, stripes of 4 KiB: emulated:",
        Kind::Nbd | Kind::NbdPlain => "nbd+unix:///?socket=/",
    };
    assert!(snapshot.backend.starts_with(method), "{}", snapshot.backend);
    assert!(kind != Kind::UringBuffered || snapshot.backend.ends_with("buffered"));
    eprintln!("bytes move by: {}", snapshot.backend);
    handle.set_policy(PolicyChoice::parse("edf").expect("a policy")).expect("open");
    assert_eq!(drive.snapshot().policy, "edf");
    assert!(handle.run(Io::read(Extent::from_numbers(0, 4))).result.is_ok());
}

fn a_truncated_file_fails_only_requests_past_its_end(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let cut =
        std::fs::OpenOptions::new().write(true).open(place.backing()).expect("the file is there");
    cut.set_len(8192 * kind.sector() as u64).expect("it can be cut");
    let past = submit(&drive, Io::read(Extent::from_numbers(9000, 8)));
    let before = submit(&drive, Io::read(Extent::from_numbers(100, 8)));
    let over = submit(&drive, Io::read(Extent::from_numbers(8188, 8)));
    let error = answer(&past).result.expect_err("these bytes are gone");
    assert_eq!(error.errno(), 5, "{error}");
    assert!(error.to_string().contains("read of LBA 9000..+8"), "{error}");
    assert!(answer(&before).result.is_ok());
    assert!(answer(&over).result.is_err());
    assert_eq!(drive.snapshot().errors.failed(), 2);
}

fn a_removed_file_promises_no_durability(kind: Kind) {
    let place = Place::new(kind);
    let Some(drive) = place.open(place.options()) else { return };
    let handle = drive.handle();
    let extent = Extent::from_numbers(0, 8);
    std::fs::remove_file(place.backing()).expect("the file is there");
    assert!(
        handle.run(Io::write(extent, pattern_of(kind.sector(), extent, 1))).result.is_ok(),
        "the bytes can still be used and copied away"
    );
    assert!(holds(&drive, extent, 1));
    let error = handle.run(Io::flush()).result.expect_err("nothing of it outlives the process");
    assert!(error.to_string().contains("removed while in use"), "{error}");
    assert!(!drive.shutdown().synced);
}
