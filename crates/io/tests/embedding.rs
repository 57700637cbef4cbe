//! The interface for applications: starting, awaiting, waiting, cancelling, dropping, under
//! executors and without one.
//!
//! The drive is one in memory that can be made to stand still, so that it is certain what is queued
//! and what is at the drive.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use headtime_io::{
    Drive, DriveHandle, DriveOptions, Io, IoError, Pending, StartWhenRoom, SubmitError,
};
use headtime_sched::{StreamId, VolumeId};
use headtime_testkit::power_cut::{Platter, PowerCutDrive, PowerSwitch};
use headtime_units::{Extent, Nanos, SectorSize, Sectors};

const SECTOR: usize = 512;

fn open(options: DriveOptions) -> (Drive, PowerSwitch) {
    PowerCutDrive::new(Platter::blank(SectorSize::B512, Sectors::new(10_000)))
        .open(options)
        .expect("memory and a thread are to be had")
}

/// A drive that holds one command at once.
fn open_narrow() -> (Drive, PowerSwitch) {
    open(DriveOptions { outstanding: Some(1), ..DriveOptions::default() })
}

fn at(start: u64) -> Extent {
    Extent::from_numbers(start, 2)
}

fn content(value: u8) -> Bytes {
    Bytes::from(vec![value; 2 * SECTOR])
}

fn write(start: u64, value: u8) -> Io {
    Io::write(at(start), content(value))
}

fn sees(drive: &Drive, start: u64) -> Bytes {
    drive.handle().run(Io::read(at(start))).result.expect("memory can be read")
}

/// Waits until so many commands are at the drive and so many requests are queued.
fn await_queue(drive: &Drive, at_drive: usize, queued: usize) {
    let enough = Instant::now() + Duration::from_secs(60);
    let counts = || {
        let snapshot = drive.snapshot();
        (snapshot.outstanding, snapshot.queued)
    };
    while counts() != (at_drive, queued) {
        assert!(
            Instant::now() < enough,
            "{:?} are at the drive and queued, not {:?}",
            counts(),
            (at_drive, queued)
        );
        std::thread::yield_now();
    }
}

/// The smallest executor there is.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime is to be had")
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_request_completes_under_any_executor_and_under_none() {
    let (drive, _switch) = open(DriveOptions::default());
    let handle = drive.handle();
    assert_eq!(handle.start(write(0, 1)).expect("taken").wait().result, Ok(Bytes::new()));
    let read = block_on(async { handle.start(Io::read(at(0))).expect("taken").await });
    assert_eq!(read.result, Ok(content(1)));
    tokio().block_on(async {
        let writes: Vec<Pending> = (1..50)
            .map(|number| handle.start(write(2 * number, number as u8)).expect("taken"))
            .collect();
        for write in writes {
            assert!(write.await.result.is_ok());
        }
        let (first, second) = tokio::join!(
            handle.start(Io::read(at(10))).expect("taken"),
            handle.start(Io::read(at(12))).expect("taken")
        );
        assert_eq!((first.result, second.result), (Ok(content(5)), Ok(content(6))));
    });
}

#[test]
fn what_is_pending_may_go_from_thread_to_thread() {
    fn travels<T: Send + Sync + 'static>(_: &T) {}
    let (drive, _switch) = open(DriveOptions::default());
    let (pending, waiting) = (
        drive.handle().start(Io::flush()).expect("taken"),
        drive.handle().start_when_room(Io::flush()),
    );
    travels(&pending);
    travels(&waiting);
    let elsewhere = std::thread::spawn(move || block_on(pending).result);
    assert_eq!(elsewhere.join().expect("it does not panic"), Ok(Bytes::new()));
}

#[test]
fn what_an_io_is_built_to_be_is_what_is_recorded_of_it() {
    let (drive, _switch) = open(DriveOptions::default());
    let io = write(4, 1)
        .volume(VolumeId(7))
        .stream(StreamId(3))
        .fua()
        .deadline(Duration::from_secs(3600));
    let done = drive.handle().run(io);
    assert!(!done.missed_deadline());
    let request = done.finished.expect("it completed").request;
    assert_eq!(
        (request.volume, request.stream, request.fua, request.extent),
        (VolumeId(7), StreamId(3), true, at(4))
    );
    for io in [Io::zero(at(4)), Io::discard(at(6)), Io::flush()] {
        assert!(drive.handle().run(io).result.is_ok());
    }
    assert_eq!(sees(&drive, 4), content(0));
}

#[test]
fn a_deadline_that_passed_is_recorded_as_missed_and_the_request_done_all_the_same() {
    let (drive, switch) = open_narrow();
    let handle = drive.handle();
    switch.stall();
    let late = handle.start(write(0, 1).deadline(Duration::ZERO)).expect("taken");
    let in_time = handle.start(write(2, 1).deadline(Duration::MAX)).expect("taken");
    let without = handle.start(write(4, 1)).expect("taken");
    await_queue(&drive, 1, 2);
    switch.resume();
    let missed = [late, in_time, without].map(|pending| {
        let done = pending.wait();
        assert!(done.result.is_ok());
        done.missed_deadline()
    });
    assert_eq!(missed, [true, false, false]);
    let accounts = drive.snapshot().accounts;
    assert_eq!(accounts.iter().map(|(_, account)| account.deadline_misses).sum::<u64>(), 1);
}

#[test]
fn a_request_cancelled_while_queued_is_over_at_once_and_leaves_no_trace() {
    let (drive, switch) = open_narrow();
    let handle = drive.handle();
    switch.stall();
    let first = handle.start(write(0, 1)).expect("taken");
    await_queue(&drive, 1, 0);
    let queued = handle.start(write(10, 2)).expect("taken");
    queued.cancel();
    assert_eq!(queued.wait().result, Err(IoError::Cancelled), "the drive still stands");
    switch.resume();
    assert!(first.wait().result.is_ok());
    assert_eq!(sees(&drive, 10), content(0));
    assert_eq!(drive.snapshot().errors.cancelled, 1);
}

#[test]
fn a_request_cancelled_at_the_drive_is_over_at_once_and_may_still_show() {
    let (drive, switch) = open_narrow();
    switch.stall();
    let at_drive = drive.handle().start(write(0, 1)).expect("taken");
    await_queue(&drive, 1, 0);
    at_drive.cancel();
    at_drive.cancel();
    let done = at_drive.wait();
    assert!(matches!(done.result, Err(IoError::Cancelled)) && done.finished.is_none());
    switch.resume();
    assert_eq!(sees(&drive, 0), content(1), "this drive carries out what it was sent");
}

#[test]
fn cancelling_what_is_over_changes_nothing() {
    let (drive, _switch) = open(DriveOptions::default());
    let pending = drive.handle().start(write(0, 1)).expect("taken");
    while !pending.is_over() {
        std::thread::yield_now();
    }
    pending.cancel();
    assert_eq!(pending.wait().result, Ok(Bytes::new()));
}

#[test]
fn dropping_a_request_does_not_take_it_back_unless_that_was_asked_for() {
    let (drive, switch) = open_narrow();
    let handle = drive.handle();
    switch.stall();
    drop(handle.start(write(0, 1)).expect("taken"));
    await_queue(&drive, 1, 0);
    drop(handle.start(write(10, 2)).expect("taken"));
    drop(handle.start(write(20, 3)).expect("taken").cancel_on_drop());
    await_queue(&drive, 1, 1);
    switch.resume();
    assert_eq!([0, 10, 20].map(|start| sees(&drive, start)[0]), [1, 2, 0]);
    // Dropped after it was over, which is no cancellation.
    let over = handle.start(write(30, 4)).expect("taken").cancel_on_drop();
    while !over.is_over() {
        std::thread::yield_now();
    }
    drop(over);
    assert_eq!(drive.snapshot().errors.cancelled, 1);
}

#[test]
fn a_timeout_of_the_executor_takes_a_read_back() {
    let (drive, switch) = open_narrow();
    let handle = drive.handle();
    switch.stall();
    let first = handle.start(write(0, 1)).expect("taken");
    await_queue(&drive, 1, 0);
    tokio().block_on(async {
        let read = handle.start(Io::read(at(10))).expect("taken").cancel_on_drop();
        assert!(
            tokio::time::timeout(Duration::from_millis(1), read).await.is_err(),
            "the drive stands"
        );
    });
    await_queue(&drive, 1, 0);
    switch.resume();
    assert!(first.wait().result.is_ok());
    assert_eq!(drive.snapshot().errors.cancelled, 1);
}

#[test]
fn waiting_with_a_timeout_gives_the_request_back_to_wait_on() {
    let (drive, switch) = open(DriveOptions::default());
    switch.stall();
    let pending = drive.handle().start(write(0, 1)).expect("taken");
    let pending = pending.wait_timeout(Duration::ZERO).expect_err("the drive stands");
    let pending = pending.wait_timeout(Duration::from_micros(50)).expect_err("the drive stands");
    switch.resume();
    assert_eq!(
        pending.wait_timeout(Duration::MAX).expect("the drive goes").result,
        Ok(Bytes::new())
    );
}

#[test]
fn a_request_moved_between_tasks_wakes_the_one_that_polled_it_last() {
    let (drive, switch) = open(DriveOptions::default());
    switch.stall();
    let mut pending = pin!(drive.handle().start(write(0, 1)).expect("taken"));
    let counts: [Arc<Count>; 2] = Default::default();
    for count in &counts {
        assert!(
            pending.as_mut().poll(&mut Context::from_waker(&Arc::clone(count).into())).is_pending()
        );
    }
    switch.resume();
    assert!(block_on(pending.as_mut()).result.is_ok());
    assert_eq!(counts[0].0.load(Ordering::SeqCst), 0);
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_handle_outlives_its_drive_and_says_so() {
    let (drive, switch) = open_narrow();
    let handle = drive.handle();
    switch.stall();
    let (first, queued) =
        (handle.start(write(0, 1)).expect("taken"), handle.start(write(10, 2)).expect("taken"));
    switch.resume();
    assert!(drive.shutdown().is_clean());
    for pending in [first, queued] {
        assert_eq!(
            pending.wait().result,
            Ok(Bytes::new()),
            "what was taken is finished before the drive closes"
        );
    }
    assert_eq!(handle.start(Io::read(at(0))).err(), Some(SubmitError::Closed));
    assert_eq!(handle.start_when_room(Io::read(at(0))).wait().err(), Some(SubmitError::Closed));
    assert_eq!(handle.run(Io::read(at(0))).result, Err(IoError::NotTaken(SubmitError::Closed)));
    assert_eq!(handle.extent_of_bytes(512, 512), Ok(Extent::from_numbers(1, 1)));
}

#[test]
fn a_given_up_drive_answers_waiting_requests() {
    let (drive, switch) = open(DriveOptions {
        outstanding: Some(1),
        drain_timeout: Nanos::from_ms(5),
        ..DriveOptions::default()
    });
    let handle = drive.handle();
    switch.stall();
    let (first, queued) =
        (handle.start(write(0, 1)).expect("taken"), handle.start(write(10, 2)).expect("taken"));
    assert!(!drive.shutdown().is_clean());
    assert_eq!(
        [first, queued].map(|pending| pending.wait().result),
        [Err(IoError::Closed), Err(IoError::Closed)]
    );
}

#[test]
fn many_requests_of_several_threads_all_complete_within_narrow_bounds() {
    const THREADS: u64 = 6;
    const EACH: u64 = 400;
    let options =
        DriveOptions { max_requests: 5, max_bytes: 8 * SECTOR as u64, ..DriveOptions::default() };
    let (drive, _switch) = open(options);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let handle = drive.handle();
            scope.spawn(move || {
                let mut open: Vec<Pending> = Vec::new();
                for number in 0..EACH {
                    let io = Io::write(
                        Extent::from_numbers(thread * 1000 + number, 1),
                        Bytes::from(vec![number as u8; SECTOR]),
                    );
                    // Places come back when requests complete, not when a result is read, so that
                    // holding several blocks no other.
                    let started = if number % 2 == 0 {
                        handle.start_when_room(io).wait()
                    } else {
                        block_on(handle.start_when_room(io))
                    };
                    open.push(started.expect("there is room some time"));
                    if number % 3 == 0 {
                        for pending in open.drain(..) {
                            assert!(pending.wait().result.is_ok());
                        }
                    }
                }
            });
        }
    });
    for thread in 0..THREADS {
        let written = drive
            .handle()
            .start_when_room(Io::read(Extent::from_numbers(thread * 1000 + EACH - 8, 8)))
            .wait()
            .expect("open")
            .wait();
        let expected: Vec<u8> =
            (EACH - 8..EACH).flat_map(|number| vec![number as u8; SECTOR]).collect();
        assert!(written.result.expect("memory can be read") == expected);
    }
    let requests: u64 = drive.snapshot().accounts.iter().map(|(_, account)| account.requests).sum();
    assert_eq!(requests, THREADS * EACH + THREADS);
}

#[test]
fn requests_that_wait_for_room_start_in_order_and_a_dropped_one_blocks_no_other() {
    let (drive, switch) = open(DriveOptions { max_requests: 1, ..DriveOptions::default() });
    let handle = drive.handle();
    switch.stall();
    let first = handle.start(write(0, 1)).expect("taken");
    assert!(matches!(handle.start(write(2, 1)), Err(SubmitError::Full { .. })));
    let mut waiting: Vec<Pin<Box<StartWhenRoom>>> = (1..=3)
        .map(|number| Box::pin(handle.start_when_room(write(10 * number, number as u8))))
        .collect();
    for waiting in &mut waiting {
        assert!(poll_once(waiting.as_mut()).is_pending());
    }
    drop(waiting.remove(1));
    let mut second = waiting.remove(0);
    switch.resume();
    assert!(first.wait().result.is_ok());
    // The later one is not let in before the one in front of it, although there is room.
    assert!(poll_once(waiting[0].as_mut()).is_pending());
    assert!(block_on(second.as_mut()).expect("there is room").wait().result.is_ok());
    assert!(block_on(waiting[0].as_mut()).expect("there is room").wait().result.is_ok());
    assert_eq!(
        [10, 20, 30].map(|start| drive
            .handle()
            .start_when_room(Io::read(at(start)))
            .wait()
            .expect("open")
            .wait()
            .result
            .expect("read")[0]),
        [1, 0, 3]
    );
}

#[test]
fn what_never_fits_or_makes_no_sense_is_not_waited_for() {
    let (drive, _switch) =
        open(DriveOptions { max_bytes: 4 * SECTOR as u64, ..DriveOptions::default() });
    let refused =
        |io| drive.handle().start_when_room(io).wait().expect_err("it can never be taken");
    assert!(matches!(refused(Io::read(Extent::from_numbers(0, 5))), SubmitError::TooLarge { .. }));
    assert!(matches!(
        refused(Io::read(Extent::from_numbers(9_999, 2))),
        SubmitError::OutOfRange { .. }
    ));
}

#[test]
fn bytes_are_turned_into_sectors_or_the_message_names_those_around_them() {
    let (drive, _switch) = open(DriveOptions::default());
    let handle = drive.handle();
    assert_eq!(handle.extent_of_bytes(4096, 1024), Ok(Extent::from_numbers(8, 2)));
    for (offset, len, around) in [
        (100, 300, "512 bytes from byte 0"),
        (512, 100, "512 bytes from byte 512"),
        (1000, 100, "1024 bytes from byte 512"),
    ] {
        let message =
            handle.extent_of_bytes(offset, len).expect_err("not whole sectors").to_string();
        assert!(
            message.contains(&format!("{len} bytes from byte {offset}"))
                && message.ends_with(around),
            "{message}"
        );
    }
    assert!(
        handle
            .extent_of_bytes(u64::MAX, u64::MAX)
            .expect_err("not whole sectors")
            .to_string()
            .contains("bytes")
    );
}

#[test]
fn a_panic_in_a_callback_or_a_waker_does_not_take_the_drive_with_it() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("this panic belongs to the test");
        }
    }
    let (drive, switch) = open(DriveOptions::default());
    let handle = drive.handle();
    handle.submit(Io::flush(), |_| panic!("this panic belongs to the test")).expect("taken");
    switch.stall();
    let mut pending = pin!(handle.start(write(0, 1)).expect("taken"));
    assert!(pending.as_mut().poll(&mut Context::from_waker(&Arc::new(Panics).into())).is_pending());
    switch.resume();
    assert_eq!(sees(&drive, 0), content(1));
    assert!(block_on(pending).result.is_ok(), "the result is there although there was no waker");

    let (full, switch) = open(DriveOptions { max_requests: 1, ..DriveOptions::default() });
    switch.stall();
    let first = full.handle().start(write(0, 1)).expect("taken");
    let mut waiting = pin!(full.handle().start_when_room(write(2, 2)));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&Arc::new(Panics).into())).is_pending());
    switch.resume();
    assert!(first.wait().result.is_ok());
    assert!(block_on(waiting).expect("there is room").wait().result.is_ok());
}

#[test]
fn a_callback_that_waits_panics_instead_of_blocking() {
    let (drive, _switch) = open(DriveOptions::default());
    let (sender, receiver) = mpsc::channel();
    let handle = drive.handle();
    let inner = drive.handle();
    let callback = move |_| {
        let pending = inner.start(Io::flush()).expect("starting is allowed");
        let waits: [Box<dyn FnOnce()>; 3] = [
            Box::new({
                let inner = inner.clone();
                move || drop(inner.run(Io::flush()))
            }),
            Box::new(move || drop(pending.wait())),
            Box::new(move || drop(inner.start_when_room(Io::flush()).wait())),
        ];
        for wait in waits {
            let panic = catch_unwind(AssertUnwindSafe(wait)).expect_err("it cannot wait");
            sender
                .send(panic.downcast_ref::<&str>().map(ToString::to_string))
                .expect("the test listens");
        }
    };
    handle.submit(Io::flush(), callback).expect("taken");
    for _ in 0..3 {
        let message = receiver
            .recv_timeout(Duration::from_secs(60))
            .expect("the callback ends")
            .expect("a panic with words");
        assert!(message.contains("submit it instead"), "{message}");
    }
}

fn memory() -> Drive {
    Drive::open(&"memory:1MiB".parse().expect("a locator"), DriveOptions::default())
        .expect("memory is to be had")
}

#[test]
fn a_submitting_thread_runs_the_engine_of_a_drive_that_answers_at_once() {
    let drive = memory();
    let (sender, receiver) = mpsc::channel();
    // Once the engine's thread sleeps, nobody else is at the engine; until then it may be.
    while receiver.try_iter().last() != Some(std::thread::current().id()) {
        let sender = sender.clone();
        let called_back =
            move |_| sender.send(std::thread::current().id()).expect("the test listens");
        drive.handle().submit(Io::read(Extent::from_numbers(0, 1)), called_back).expect("taken");
    }
}

#[test]
fn a_chain_of_requests_each_started_by_the_callback_before_it_needs_no_stack() {
    fn follow(handle: DriveHandle, left: u32, over: mpsc::Sender<()>) {
        let next = handle.clone();
        let called_back = move |_| {
            if left == 0 {
                over.send(()).expect("the test listens")
            } else {
                follow(next, left - 1, over)
            }
        };
        handle
            .submit(Io::read(Extent::from_numbers(u64::from(left % 1000), 1)), called_back)
            .map(drop)
            .expect("one at a time fits");
    }
    let drive = memory();
    let (over, is_over) = mpsc::channel();
    follow(drive.handle(), 100_000, over);
    is_over.recv_timeout(Duration::from_secs(60)).expect("the chain ends");
}

#[test]
fn threads_that_share_the_work_of_an_engine_lose_no_request() {
    let drive = memory();
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let handle = drive.handle();
            scope.spawn(move || {
                for round in 0..2000 {
                    let place = Extent::from_numbers(thread * 300 + round % 299, 1);
                    let written = Bytes::from(vec![round as u8; 512]);
                    let write =
                        handle.start(Io::write(place, written.clone())).expect("there is room");
                    let read = handle.start(Io::read(place)).expect("there is room");
                    assert!(write.wait().result.is_ok());
                    assert_eq!(read.wait().result, Ok(written), "a read sees the write before it");
                }
            });
        }
    });
    assert!(drive.shutdown().is_clean());
}
