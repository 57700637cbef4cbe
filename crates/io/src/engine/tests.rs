//! The engine against a scripted drive, which holds commands back, fails single sectors, never
//! answers, or breaks.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use headtime_belief::LinearBelief;
use headtime_sched::{
    Belief, CommandId, Op, PendingSectors, PolicyEntry, RequestId, ScanPriority, VolumeId,
};
use headtime_testkit::merge_runs::MERGE_RUNS;
use headtime_units::{Extent, Instant, Nanos, SectorSize, Sectors};

use crate::backend::OpenedDrive;
use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::drive::Drive;
use crate::drive::ScanFeed;
use crate::engine::scan_queue::{ScanEvent, ScanStart, WriteMarks};
use crate::notifier::Notifier;
use crate::options::{CommandTimeout, DriveOptions, PolicyChoice};
use crate::request::{Io, IoDone, IoError};

mod divided;

const SECTOR: usize = 512;

/// The state that a test shares with its drive.
struct Puppet {
    state: Mutex<State>,
    notifier: Arc<Notifier>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Commands sent and not answered.
    sent: Vec<BackendCommand>,
    /// Every command sent so far: operation, first sector, sectors, requests.
    log: Vec<(Op, u64, u64, usize)>,
    answering: bool,
    broken: bool,
    bad_sector: Option<u64>,
    /// Commands that contain this sector, and flushes for `u64::MAX`, are not answered.
    hung_sector: Option<u64>,
    /// Commands that the engine has given up.
    given_up: usize,
    losses: u64,
}

struct PuppetDrive(Arc<Puppet>);

impl State {
    fn hangs(&self, work: &BackendCommand) -> bool {
        self.hung_sector.is_some_and(|hung| match work.command.op {
            Op::Flush => hung == u64::MAX,
            _ => work.command.extent.contains(headtime_units::Lba::new(hung)),
        })
    }
}

impl Puppet {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().expect("no test panics while holding it"));
        self.notifier.notify();
    }

    /// Waits until so many commands have been sent in all.
    fn wait_for(&self, commands: usize) {
        while self.state.lock().expect("no test panics while holding it").log.len() < commands {
            std::thread::yield_now();
        }
    }

    fn log(&self) -> Vec<(Op, u64, u64, usize)> {
        self.state.lock().expect("no test panics while holding it").log.clone()
    }
}

impl Backend for PuppetDrive {
    fn describe(&self) -> String {
        "puppet".to_owned()
    }

    fn start(&mut self, _now: Instant, work: BackendCommand) {
        let mut state = self.0.state.lock().expect("no test panics while holding it");
        let Extent { start, len } = work.command.extent;
        state.log.push((work.command.op, start.get(), len.get(), work.command.requests.len()));
        state.sent.push(work);
    }

    fn collect(&mut self, _now: Instant, ended: &mut Vec<BackendCompletion>) {
        let mut state = self.0.state.lock().expect("no test panics while holding it");
        assert!(!state.broken, "this drive breaks on purpose");
        if !state.answering {
            return;
        }
        for work in std::mem::take(&mut state.sent) {
            if state.hangs(&work) {
                state.sent.push(work);
                continue;
            }
            let Extent { start, len } = work.command.extent;
            let range = start.get() as usize * SECTOR..(start + len).get() as usize * SECTOR;
            let bad = state
                .bad_sector
                .is_some_and(|bad| work.command.extent.contains(headtime_units::Lba::new(bad)));
            let result = match work.command.op {
                _ if bad => Err(5),
                Op::Read => Ok(Bytes::copy_from_slice(&state.bytes[range])),
                Op::Write => {
                    state.bytes[range].copy_from_slice(&work.pieces.concat());
                    Ok(Bytes::new())
                }
                _ => Ok(Bytes::new()),
            };
            ended.push(BackendCompletion { command: work.command.id, due: None, result });
        }
    }

    fn next_event(&self) -> Option<Instant> {
        // Its notifier rings whenever its state changes, but what is sent to an answering drive is
        // answered by asking.
        let state = self.0.state.lock().expect("no test panics while holding it");
        (state.answering && state.sent.iter().any(|work| !state.hangs(work)))
            .then_some(Instant::ORIGIN)
    }

    fn give_up(&mut self, _now: Instant, _command: CommandId) {
        self.0.state.lock().expect("no test panics while holding it").given_up += 1;
    }

    fn losses(&self) -> u64 {
        self.0.state.lock().expect("no test panics while holding it").losses
    }

    fn abandon(self: Box<Self>) {}
}

fn open(drain_timeout: Nanos) -> (Drive, Arc<Puppet>) {
    let (_, no_parameters) = PolicyEntry::parse("fcfs").expect("a policy");
    let policy = PolicyChoice::new(&MERGE_RUNS, no_parameters).expect("no oracle");
    open_with(true, DriveOptions { policy, drain_timeout, ..DriveOptions::default() })
}

/// A drive that sends whatever it has, as far as its depth of 4 reaches, and gives commands up
/// after `limit`.
fn open_impatient(limit: Nanos, fua: bool) -> (Drive, Arc<Puppet>) {
    let policy = PolicyChoice::parse("fcfs").expect("a policy");
    let command_timeout = CommandTimeout::after(limit);
    open_with(
        fua,
        DriveOptions {
            policy,
            command_timeout,
            outstanding: Some(4),
            drain_timeout: Nanos::from_secs(60),
            ..DriveOptions::default()
        },
    )
}

fn open_with(fua: bool, options: DriveOptions) -> (Drive, Arc<Puppet>) {
    open_modelled(fua, Box::new(LinearBelief::new(Sectors::new(1000))), options)
}

fn open_modelled(
    fua: bool,
    belief: Box<dyn Belief + Send>,
    options: DriveOptions,
) -> (Drive, Arc<Puppet>) {
    let notifier = Arc::new(Notifier::new().expect("a file descriptor is free"));
    let state = State { bytes: vec![0; 1000 * SECTOR], answering: true, ..State::default() };
    let puppet = Arc::new(Puppet { state: Mutex::new(state), notifier: Arc::clone(&notifier) });
    let backend = Box::new(PuppetDrive(Arc::clone(&puppet)));
    let drive = OpenedDrive::new(backend, Sectors::new(1000), SectorSize::B512, 4);
    let opened = OpenedDrive { fua, belief, ..drive };
    let drive = Drive::start(opened, &options, notifier, "puppet").expect("a thread is to be had");
    (drive, puppet)
}

fn submit(drive: &Drive, io: Io) -> (RequestId, Receiver<IoDone>) {
    let (sender, receiver) = mpsc::channel();
    let id =
        drive.handle().submit(io, move |done| drop(sender.send(done))).expect("the drive takes it");
    (id, receiver)
}

fn answer(receiver: &Receiver<IoDone>) -> Result<Bytes, IoError> {
    receiver.recv_timeout(Duration::from_secs(60)).expect("each request taken is answered").result
}

fn sectors(value: u8, count: usize) -> Bytes {
    Bytes::from(vec![value; count * SECTOR])
}

fn write(start: u64, value: u8, count: usize) -> Io {
    Io::write(Extent::from_numbers(start, count as u64), sectors(value, count))
}

/// Holds the drive with one command, submits, and lets it go on: what was submitted is chosen from
/// together.
fn together(drive: &Drive, puppet: &Puppet, ios: Vec<Io>) -> Vec<(RequestId, Receiver<IoDone>)> {
    puppet.set(|state| state.answering = false);
    let before = puppet.log().len();
    let (_, held) = submit(drive, Io::read(Extent::from_numbers(999, 1)));
    puppet.wait_for(before + 1);
    let submitted = ios.into_iter().map(|io| submit(drive, io)).collect();
    // The engine has seen all of them once it answers this.
    while drive.snapshot().queued < 1 {}
    puppet.set(|state| state.answering = true);
    assert!(answer(&held).is_ok());
    submitted
}

#[test]
fn a_merged_write_carries_each_part_and_a_merged_read_gives_each_its_part() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    let written = together(
        &drive,
        &puppet,
        vec![write(14, 3, 1), write(10, 1, 2), write(12, 2, 2), write(15, 4, 5)],
    );
    for (_, receiver) in &written {
        assert_eq!(answer(receiver), Ok(Bytes::new()));
    }
    let parts = [(12, 2), (10, 2), (14, 1), (15, 5)]
        .map(|(start, len)| Io::read(Extent::from_numbers(start, len)));
    let read = together(&drive, &puppet, parts.to_vec());
    for ((_, receiver), expected) in
        read.iter().zip([sectors(2, 2), sectors(1, 2), sectors(3, 1), sectors(4, 5)])
    {
        assert_eq!(answer(receiver).expect("readable"), expected);
    }
    assert!(
        puppet.log().iter().any(|(_, _, _, requests)| *requests > 1),
        "nothing was merged: {:?}",
        puppet.log()
    );
}

#[test]
fn an_error_in_a_merged_command_reaches_only_the_request_it_belongs_to() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    puppet.set(|state| state.bad_sector = Some(21));
    let written =
        together(&drive, &puppet, vec![write(20, 1, 1), write(21, 2, 1), write(22, 3, 1)]);
    let results: Vec<_> = written.iter().map(|(_, receiver)| answer(receiver)).collect();
    assert_eq!(results[0], Ok(Bytes::new()));
    assert_eq!(
        results[1],
        Err(IoError::Os { op: Op::Write, extent: Extent::from_numbers(21, 1), errno: 5 })
    );
    assert_eq!(results[2], Ok(Bytes::new()));
    let merged = puppet
        .log()
        .iter()
        .filter(|(_, start, len, requests)| (*start, *len, *requests) == (20, 3, 3))
        .count();
    assert_eq!(merged, 1, "the three went together, and again in parts: {:?}", puppet.log());
    assert_eq!(drive.snapshot().errors.by_errno.get(&5), Some(&1));
}

#[test]
fn a_request_cancelled_within_a_merged_command_that_fails_spoils_nothing() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    puppet.set(|state| {
        state.bad_sector = Some(32);
        state.answering = false;
    });
    let (_, first) = submit(&drive, Io::read(Extent::from_numbers(999, 1)));
    puppet.wait_for(1);
    let (_, kept) = submit(&drive, write(30, 7, 1));
    let (id, cancelled) = submit(&drive, write(31, 8, 1));
    let (_, bad) = submit(&drive, write(32, 9, 1));
    while drive.snapshot().queued < 3 {}
    // One answer only, so that the merged command is at the drive when the cancellation comes.
    puppet.set(|state| state.answering = true);
    assert!(answer(&first).is_ok());
    drive.handle().cancel(id);
    assert!(answer(&kept).is_ok());
    assert!(matches!(answer(&cancelled), Ok(_) | Err(IoError::Cancelled)));
    assert_eq!(answer(&bad).expect_err("the sector is bad").errno(), 5);
    let report = drive.shutdown();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_request_cancelled_at_the_drive_is_answered_at_once_and_keeps_its_slot_until_completion() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    puppet.set(|state| state.answering = false);
    let (id, receiver) = submit(&drive, write(0, 1, 1));
    puppet.wait_for(1);
    drive.handle().cancel(id);
    assert_eq!(answer(&receiver), Err(IoError::Cancelled));
    assert_eq!(drive.snapshot().outstanding, 1);
    puppet.set(|state| state.answering = true);
    // Overlaps, so that it waits for the cancelled one.
    assert_eq!(
        drive.handle().run(Io::read(Extent::from_numbers(0, 1))).result.expect("readable"),
        sectors(1, 1)
    );
    assert!(drive.shutdown().is_clean());
}

#[test]
fn a_drive_that_never_answers_is_given_up_when_the_time_to_drain_is_over() {
    let (drive, puppet) = open(Nanos::from_ms(20));
    puppet.set(|state| state.answering = false);
    let (_, at_drive) = submit(&drive, Io::read(Extent::from_numbers(0, 1)));
    puppet.wait_for(1);
    let (_, queued) = submit(&drive, Io::read(Extent::from_numbers(100, 1)));
    let report = drive.shutdown();
    assert_eq!((report.given_up_queued, report.given_up_at_drive, report.synced), (1, 1, false));
    assert_eq!(answer(&at_drive), Err(IoError::Closed));
    assert_eq!(answer(&queued), Err(IoError::Closed));
}

#[test]
fn an_engine_that_fails_answers_everything_and_closes_the_drive() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    puppet.set(|state| state.answering = false);
    let (_, at_drive) = submit(&drive, Io::read(Extent::from_numbers(0, 1)));
    puppet.wait_for(1);
    let (_, queued) = submit(&drive, Io::read(Extent::from_numbers(100, 1)));
    puppet.set(|state| state.broken = true);
    assert_eq!(answer(&at_drive), Err(IoError::EngineFailed));
    assert_eq!(answer(&queued), Err(IoError::EngineFailed));
    let handle = drive.handle();
    assert!(!drive.shutdown().synced);
    assert!(handle.submit(Io::flush(), |_| {}).is_err());
}

/// Short enough to be waited for, and a command that is answered at once never takes as long.
const LIMIT: Nanos = Nanos::from_ms(300);

fn timed_out(receiver: &Receiver<IoDone>, sent: bool) {
    match answer(receiver) {
        Err(IoError::TimedOut { op, sent: was_sent, limit, .. }) => {
            let expected = if sent && op == Op::Flush { LIMIT.saturating_mul(2) } else { LIMIT };
            assert_eq!((was_sent, limit), (sent, expected));
        }
        other => panic!("{other:?}"),
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let enough = std::time::Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < enough, "a minute has passed and not: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_write_that_hangs_fails_alone_and_what_overlaps_it_is_not_sent_before_it_is_over() {
    let (drive, puppet) = open_impatient(LIMIT, true);
    puppet.set(|state| state.hung_sector = Some(21));
    let (_, hung) = submit(&drive, write(20, 1, 4));
    puppet.wait_for(1);
    let (_, other) = submit(&drive, write(100, 2, 1));
    assert!(answer(&other).is_ok(), "the drive answers the others");
    timed_out(&hung, true);
    wait_until("the drive receives it", || {
        puppet.state.lock().expect("no test panics while holding it").given_up == 1
    });
    // It is answered, and still at the drive: its place is taken and what it may do is not
    // overtaken.
    let health = drive.snapshot().hung;
    assert_eq!(
        (health.slow, health.given_up, health.given_up_ever, drive.snapshot().outstanding),
        (1, 1, 1, 1)
    );
    let (_, over_it) = submit(&drive, write(23, 3, 2));
    let (_, beside_it) = submit(&drive, write(30, 4, 1));
    assert!(answer(&beside_it).is_ok());
    assert!(puppet.log().iter().all(|(_, start, ..)| *start != 23), "{:?}", puppet.log());
    // The write lands at last; only now what overlaps it goes, and lies on top.
    puppet.set(|state| state.hung_sector = None);
    match answer(&over_it) {
        Ok(_) => {
            assert_eq!(
                drive.handle().run(Io::read(Extent::from_numbers(22, 2))).result.expect("readable"),
                [sectors(1, 1), sectors(3, 1)].concat()
            )
        }
        // On a machine that stands still it may have waited for the limit itself.
        Err(error) => assert!(matches!(error, IoError::TimedOut { sent: false, .. }), "{error}"),
    }
    let health = drive.snapshot().hung;
    assert_eq!((health.given_up, health.came_back), (0, 1));
    assert!(drive.snapshot().errors.by_errno.contains_key(&110));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn requests_that_wait_for_hung_commands_fail_by_the_same_limit() {
    let (drive, puppet) = open_impatient(LIMIT, true);
    puppet.set(|state| state.hung_sector = Some(21));
    let (_, hung) = submit(&drive, write(20, 1, 4));
    puppet.wait_for(1);
    let (_, later) = submit(&drive, Io::read(Extent::from_numbers(22, 1)));
    timed_out(&hung, true);
    timed_out(&later, false);
    assert_eq!(
        drive.handle().run(Io::read(Extent::from_numbers(500, 1))).result,
        Ok(sectors(0, 1)),
        "the drive works"
    );

    // Three more, and nothing can be sent any more.
    puppet.set(|state| state.answering = false);
    let at_drive: Vec<_> = (0..3)
        .map(|number| submit(&drive, Io::read(Extent::from_numbers(600 + number, 1))).1)
        .collect();
    puppet.wait_for(5);
    let queued: Vec<_> = (0..20)
        .map(|number| submit(&drive, Io::read(Extent::from_numbers(700 + number, 1))).1)
        .collect();
    at_drive.iter().for_each(|receiver| timed_out(receiver, true));
    queued.iter().for_each(|receiver| timed_out(receiver, false));
    assert_eq!(
        (drive.snapshot().outstanding, drive.snapshot().hung.given_up),
        (4, 4),
        "never more at the drive than it takes"
    );
    assert_eq!(puppet.log().len(), 5);

    puppet.set(|state| (state.answering, state.hung_sector) = (true, None));
    assert_eq!(
        drive.handle().run(Io::read(Extent::from_numbers(22, 1))).result,
        Ok(sectors(1, 1)),
        "service resumes"
    );
    assert_eq!(drive.snapshot().hung.came_back, 4);
    assert!(drive.shutdown().is_clean());
}

#[test]
fn a_hung_flush_fails_and_so_do_later_ones() {
    let (drive, puppet) = open_impatient(LIMIT, false);
    puppet.set(|state| state.hung_sector = Some(u64::MAX));
    let (_, hung) = submit(&drive, Io::flush());
    puppet.wait_for(1);
    let (_, later) = submit(&drive, Io::flush());
    let (_, durable) = submit(&drive, Io { fua: true, ..write(3, 1, 1) });
    timed_out(&hung, true);
    timed_out(&later, false);
    timed_out(&durable, false);
    assert!(drive.handle().run(write(3, 2, 1)).result.is_ok());
    puppet.set(|state| state.hung_sector = None);
    wait_until("the flush is back", || drive.snapshot().hung.given_up == 0);
    assert!(drive.handle().run(Io::flush()).result.is_ok());
    assert!(drive.shutdown().is_clean());
}

#[test]
fn closing_a_drive_that_hangs_ends_in_time_and_says_what_was_given_up() {
    let policy = PolicyChoice::parse("fcfs").expect("a policy");
    let command_timeout = CommandTimeout::after(Nanos::from_ms(20));
    let options = DriveOptions {
        policy,
        command_timeout,
        drain_timeout: Nanos::from_ms(50),
        ..DriveOptions::default()
    };
    let (drive, puppet) = open_with(true, options);
    puppet.set(|state| state.answering = false);
    let (_, hung) = submit(&drive, write(0, 1, 1));
    assert!(matches!(answer(&hung), Err(IoError::TimedOut { .. })));
    let report = drive.shutdown();
    assert_eq!((report.given_up_queued, report.given_up_at_drive, report.synced), (0, 1, false));
}

fn of_volume(volume: u32, io: Io) -> Io {
    Io { volume: VolumeId(volume), ..io }
}

fn lost_writes(result: Result<Bytes, IoError>) -> bool {
    matches!(
        result,
        Err(IoError::Drive { errno: 5, ref explanation, .. })
            if explanation.contains("may have lost")
    )
}

#[test]
fn after_a_loss_the_first_flush_of_each_volume_that_had_unflushed_writes_fails_once() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    let run = |volume, io| drive.handle().run(of_volume(volume, io)).result;
    for volume in [1, 2] {
        assert!(run(volume, write(u64::from(volume) * 10, 1, 1)).is_ok());
    }
    assert!(run(3, Io { fua: true, ..write(30, 1, 1) }).is_ok(), "durable by itself");
    puppet.set(|state| state.losses = 1);
    assert!(lost_writes(run(1, Io::flush())) && run(1, Io::flush()).is_ok());
    assert!(run(3, Io::flush()).is_ok(), "it has nothing to lose");
    assert!(
        lost_writes(run(2, Io::flush())) && run(2, Io::flush()).is_ok(),
        "the loss was reported to another volume only"
    );
    // What is flushed is safe.
    assert!(run(1, write(10, 2, 1)).is_ok() && run(2, Io::flush()).is_ok());
    puppet.set(|state| state.losses = 2);
    assert!(run(1, Io::flush()).is_ok());
    // A client wrote, got no report of the loss and closes: not everything is durable.
    assert!(run(1, write(10, 3, 1)).is_ok());
    puppet.set(|state| state.losses = 3);
    assert!(!drive.shutdown().synced);
}

#[test]
fn a_write_that_waits_for_its_flush_while_the_drive_loses_writes_is_not_called_durable() {
    let (drive, puppet) = open_impatient(Nanos::from_secs(60), false);
    puppet.set(|state| state.hung_sector = Some(u64::MAX));
    let (_, durable) = submit(&drive, Io { fua: true, ..write(3, 1, 1) });
    puppet.wait_for(2);
    puppet.set(|state| (state.losses, state.hung_sector) = (1, None));
    assert!(lost_writes(answer(&durable)));
    assert!(drive.handle().run(Io { fua: true, ..write(3, 1, 1) }).result.is_ok());
}

fn scan(drive: &Drive, point_in_time: bool) -> ScanFeed {
    let requested = PendingSectors::all(Sectors::new(1000), Sectors::new(8));
    let start = ScanStart {
        requested,
        point_in_time,
        hold_writes: point_in_time,
        paused: false,
        priority: ScanPriority::DEFAULT,
        marks: None,
        queue_bytes: 1 << 20,
    };
    drive.handle().start_scan(start).expect("the drive is open")
}

/// The next event of a scan.
fn event(feed: &ScanFeed) -> ScanEvent {
    feed.next(Duration::from_secs(60)).expect("the scan goes on")
}

#[test]
fn an_unreadable_sector_is_reported_for_its_block_and_fails_no_request() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    puppet.set(|state| state.bad_sector = Some(100));
    let feed = scan(&drive, false);
    let (mut failed, mut read) = (Vec::new(), 0);
    loop {
        match event(&feed) {
            ScanEvent::Failed { extent, errno, .. } => failed.push((extent, errno)),
            ScanEvent::Read { extent, .. } => read += extent.len.get(),
            ScanEvent::Exhausted => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((failed, read), (vec![(Extent::from_numbers(96, 8), 5)], 992));
    assert_eq!(
        (drive.snapshot().errors.failed(), drive.snapshot().fill.failed),
        (0, Sectors::new(8))
    );
    assert!(drive.handle().run(Io::read(Extent::from_numbers(101, 4))).result.is_ok());
}

#[test]
fn a_write_waits_until_what_it_overwrites_is_kept_and_others_do_not() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    let feed = scan(&drive, true);
    loop {
        match event(&feed) {
            ScanEvent::Exhausted => break,
            ScanEvent::Read { extent, .. } if extent.contains(headtime_units::Lba::new(10)) => {}
            // All are kept but one.
            _ => feed.keep(|extent| !extent.contains(headtime_units::Lba::new(10))),
        }
    }
    feed.keep(|extent| !extent.contains(headtime_units::Lba::new(10)));
    let before = puppet.log().len();
    let (_, held) = submit(&drive, write(10, 1, 1));
    wait_until("the write is held", || drive.snapshot().outstanding == 1);
    assert_eq!(puppet.log().len(), before, "{:?}", &puppet.log()[before..]);
    feed.keep(|_| true);
    assert!(answer(&held).is_ok());
    assert_eq!(puppet.log()[before..], [(Op::Write, 10, 1, 1)]);
}

#[test]
fn a_write_of_what_could_not_be_kept_goes_at_once_and_ends_the_point_in_time() {
    let (drive, _puppet) = open(Nanos::from_secs(60));
    let feed = scan(&drive, true);
    while event(&feed) != ScanEvent::Exhausted {}
    feed.keep(|extent| !extent.contains(headtime_units::Lba::new(10)));
    feed.not_kept(Extent::from_numbers(10, 1));
    let (_, written) = submit(&drive, write(10, 1, 1));
    assert!(answer(&written).is_ok());
    assert_eq!(event(&feed), ScanEvent::Overtaken { extent: Extent::from_numbers(10, 1) });
    assert_eq!((event(&feed), drive.snapshot().scans), (ScanEvent::Closed, 0));
}

#[test]
fn sectors_that_could_not_be_kept_are_read_again_on_request() {
    let (drive, _puppet) = open(Nanos::from_secs(60));
    let feed = scan(&drive, true);
    while event(&feed) != ScanEvent::Exhausted {}
    feed.not_kept(Extent::from_numbers(0, 1000));
    let mut requested = PendingSectors::new(Sectors::new(1000), Sectors::new(8));
    requested.insert(Extent::from_numbers(10, 1));
    feed.again(requested);
    assert!(matches!(
        event(&feed),
        ScanEvent::Read { extent, .. } if extent == Extent::from_numbers(8, 8)
    ));
    assert_eq!(event(&feed), ScanEvent::Exhausted);
    // It may be kept now, so that a write waits for that.
    let (_, written) = submit(&drive, write(10, 1, 1));
    feed.keep(|_| true);
    assert!(answer(&written).is_ok());
    assert_eq!(drive.snapshot().scans, 1);
}

#[test]
fn a_write_is_not_held_forever_by_a_reader_that_keeps_nothing() {
    let (drive, _puppet) = open(Nanos::from_secs(60));
    let feed = scan(&drive, true);
    while event(&feed) != ScanEvent::Exhausted {}
    let (_, written) = submit(&drive, write(10, 1, 1));
    assert!(answer(&written).is_ok());
    assert_eq!(event(&feed), ScanEvent::Overtaken { extent: Extent::from_numbers(10, 1) });
}

#[test]
fn an_engine_that_fails_ends_its_scans() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    puppet.set(|state| state.answering = false);
    let feed = scan(&drive, false);
    puppet.wait_for(1);
    puppet.set(|state| state.broken = true);
    assert_eq!(event(&feed), ScanEvent::Closed);
    assert!(!drive.shutdown().synced);
}

fn write_in_background(drive: &Drive, start: u64, value: u8, count: usize) -> Receiver<IoDone> {
    let (sender, receiver) = mpsc::channel();
    let extent = Extent::from_numbers(start, count as u64);
    let taken = drive.handle().write_in_background(extent, sectors(value, count), move |done| {
        drop(sender.send(done));
    });
    taken.expect("the drive takes it");
    receiver
}

#[test]
fn a_background_write_writes_its_data_and_marks_its_sectors() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    let watched = [Extent::from_numbers(0, 1000)];
    let marks = Arc::new(WriteMarks::new(watched, Sectors::new(100)));
    drive.handle().watch_writes(&marks).expect("the drive is open");
    let written = write_in_background(&drive, 250, 7, 300);
    // A read that overlaps it comes after it.
    let read = drive.handle().run(Io::read(Extent::from_numbers(249, 302)));
    let read = read.result.expect("it is read");
    assert_eq!(read[..SECTOR], sectors(0, 1)[..]);
    assert_eq!(read[SECTOR..301 * SECTOR], sectors(7, 300)[..]);
    assert_eq!(read[301 * SECTOR..], sectors(0, 1)[..]);
    assert!(answer(&written).is_ok());
    assert_eq!(marks.words(), [0b11_1100]);
    let writes: Vec<_> = puppet.log().into_iter().filter(|sent| sent.0 == Op::Write).collect();
    assert!(writes.iter().all(|(_, _, _, requests)| *requests == 0), "{writes:?}");
}

#[test]
fn a_background_write_that_fails_or_is_not_valid_is_reported() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    puppet.set(|state| state.bad_sector = Some(100));
    let failed = answer(&write_in_background(&drive, 96, 1, 8)).expect_err("the sector is bad");
    assert!(matches!(failed, IoError::Os { op: Op::Write, errno: 5, .. }), "{failed:?}");
    assert!(drive.handle().run(write(96, 1, 2)).result.is_ok());
    let never = |_: IoDone| panic!("a refused write has no end");
    let handle = drive.handle();
    let past_the_end = Extent::from_numbers(999, 2);
    assert!(handle.write_in_background(past_the_end, sectors(1, 2), never).is_err());
    let too_short = Extent::from_numbers(10, 2);
    assert!(handle.write_in_background(too_short, sectors(1, 1), never).is_err());
}

#[test]
fn the_loss_of_a_background_write_is_reported_to_a_flush_of_the_server() {
    let (drive, puppet) = open(Nanos::from_secs(60));
    let flush =
        || drive.handle().run(Io { volume: VolumeId::INTERNAL, ..Io::flush() }).result.map(drop);
    assert!(answer(&write_in_background(&drive, 10, 1, 4)).is_ok());
    assert!(flush().is_ok());
    assert!(answer(&write_in_background(&drive, 10, 2, 4)).is_ok());
    puppet.set(|state| state.losses = 1);
    assert!(flush().is_err() && flush().is_ok());
}

#[test]
fn a_background_write_is_answered_when_the_drive_closes_or_its_engine_fails() {
    for broken in [false, true] {
        let (drive, puppet) = open(Nanos::from_ms(100));
        puppet.set(|state| state.answering = false);
        let (_, held) = submit(&drive, Io::read(Extent::from_numbers(999, 1)));
        puppet.wait_for(1);
        let written = write_in_background(&drive, 10, 1, 4);
        puppet.set(|state| state.broken = broken);
        let handle = drive.handle();
        assert!(!drive.shutdown().synced);
        assert!(answer(&written).is_err() && answer(&held).is_err());
        let refused =
            handle.write_in_background(Extent::from_numbers(0, 1), sectors(1, 1), |_| panic!());
        assert!(refused.is_err());
    }
}
