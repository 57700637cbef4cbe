//! Requests that are divided between the members of an array.

use headtime_belief::ArrayModel;
use headtime_sched::{IfInfeasible, IoPriority, PriorityClass, Tunables};

use super::*;
use crate::tuning::Tuning;

/// Two members with stripes of 8 sectors, which hold at most two requests.
fn open_array(command_timeout: CommandTimeout) -> (Drive, Arc<Puppet>) {
    open_array_that_drains(command_timeout, Nanos::from_secs(60))
}

fn open_array_that_drains(
    command_timeout: CommandTimeout,
    drain_timeout: Nanos,
) -> (Drive, Arc<Puppet>) {
    let member = || Box::new(LinearBelief::new(Sectors::new(504))) as Box<dyn Belief + Send>;
    let belief = ArrayModel::by_member(vec![member(), member()], Sectors::new(8), 0);
    let options = DriveOptions {
        policy: PolicyChoice::parse("fcfs").expect("a policy"),
        outstanding: Some(4),
        max_requests: 2,
        command_timeout,
        drain_timeout,
        ..DriveOptions::default()
    };
    open_modelled(true, Box::new(belief), options)
}

#[test]
fn a_request_on_several_members_is_sent_in_parts_and_answered_as_one() {
    let (drive, puppet) = open_array(CommandTimeout::NEVER);
    let extent = Extent::from_numbers(5, 22);
    let data: Bytes = (0..22 * SECTOR).map(|byte| (byte / SECTOR) as u8).collect();
    let written = drive.handle().run(Io::write(extent, data.clone()));
    assert_eq!(written.result, Ok(Bytes::new()));
    let read = drive.handle().run(Io::read(extent));
    assert_eq!(read.result, Ok(data));
    let record = read.finished.expect("each part was reported");
    assert_eq!((record.request.extent, record.request.op), (extent, Op::Read));
    let parts = |op| {
        let log = puppet.log().into_iter().filter(|sent| sent.0 == op);
        let mut parts: Vec<_> = log.map(|(_, start, len, _)| (start, len)).collect();
        parts.sort_unstable();
        parts
    };
    for op in [Op::Read, Op::Write] {
        assert_eq!(parts(op), [(5, 3), (8, 8), (16, 8), (24, 3)]);
    }
    // The error is that of the part, and the other parts are written.
    puppet.set(|state| state.bad_sector = Some(17));
    let (_, failed) = submit(&drive, write(6, 1, 20));
    let extent = Extent::from_numbers(16, 8);
    assert_eq!(answer(&failed), Err(IoError::Os { op: Op::Write, extent, errno: 5 }));
    puppet.set(|state| state.bad_sector = None);
    let read = drive.handle().run(Io::read(Extent::from_numbers(6, 20))).result.expect("readable");
    let old: Bytes = (11..19_u8).flat_map(|value| [value; SECTOR]).collect();
    assert_eq!(read, [sectors(1, 10), old, sectors(1, 2)].concat());
    assert!(drive.shutdown().is_clean());
}

#[test]
fn a_request_cancelled_in_parts_is_answered_once_and_keeps_its_room_until_all_are_back() {
    let (drive, puppet) = open_array(CommandTimeout::NEVER);
    puppet.set(|state| {
        state.answering = false;
        state.hung_sector = Some(0);
    });
    let (_, other) = submit(&drive, Io::read(Extent::from_numbers(0, 1)));
    let (id, cancelled) = submit(&drive, write(4, 1, 60));
    puppet.wait_for(4);
    let full = |drive: &Drive| drive.handle().submit(Io::flush(), |_| {}).is_err();
    assert!(full(&drive));
    drive.handle().cancel(id);
    assert_eq!(answer(&cancelled), Err(IoError::Cancelled));
    assert!(cancelled.try_recv().is_err());
    // Three of its eight parts are at the drive; the others are never sent.
    let snapshot = drive.snapshot();
    assert_eq!((snapshot.outstanding, snapshot.queued, snapshot.errors.cancelled), (4, 0, 1));
    assert!(full(&drive));
    puppet.set(|state| state.answering = true);
    while full(&drive) {}
    puppet.set(|state| state.hung_sector = None);
    assert!(answer(&other).is_ok());
    let report = drive.shutdown();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(puppet.log().iter().filter(|sent| sent.0 == Op::Write).count(), 3);
}

#[test]
fn a_request_of_which_one_part_hangs_times_out() {
    let (drive, puppet) = open_array(CommandTimeout::after(LIMIT));
    puppet.set(|state| state.hung_sector = Some(9));
    let (_, receiver) = submit(&drive, write(4, 1, 10));
    timed_out(&receiver, true);
    puppet.set(|state| state.hung_sector = None);
    assert!(drive.shutdown().is_clean());
}

#[test]
fn a_divided_request_counts_once_and_is_reported_by_its_own_number() {
    let (drive, puppet) = open_array(CommandTimeout::NEVER);
    let handle = drive.handle();
    let mut tunables = Tunables::default();
    tunables.set("deadlines", "rt=1ms").expect("a table");
    let tuning = Tuning { tunables: Some(tunables), ..Tuning::default() };
    handle.tune(tuning).expect("the engine takes it");
    let due = |io: Io| of_volume(7, io).priority("rt/0".parse().expect("a priority"));
    puppet.set(|state| state.answering = false);
    let long = Extent::from_numbers(4, 60);
    let (late, answered) = submit(&drive, due(Io::read(long)));
    // Four of its eight parts are at the drive. It is not queued twice, beside the other one.
    let (other, other_answered) = submit(&drive, due(Io::read(Extent::from_numbers(0, 1))));
    puppet.wait_for(4);
    let snapshot = drive.snapshot();
    assert_eq!((snapshot.outstanding, snapshot.queued), (4, 2));
    std::thread::sleep(Duration::from_millis(2));
    puppet.set(|state| state.answering = true);
    let done = answered.recv_timeout(Duration::from_secs(60)).expect("it is answered");
    assert!(done.finished.is_some_and(|finished| finished.missed()), "{done:?}");
    assert!(done.result.is_ok() && answer(&other_answered).is_ok());
    puppet.set(|state| state.bad_sector = Some(17));
    let (failed, failed_answered) = submit(&drive, of_volume(7, Io::read(long)));
    assert!(answer(&failed_answered).is_err());

    let accounts = drive.snapshot().accounts;
    let (_, account) = accounts.iter().find(|(volume, _)| volume.0 == 7).expect("it was served");
    let counts = (account.requests, account.errors, account.sectors.get());
    assert_eq!(counts, (2, 1, 61));
    assert_eq!((account.deadline_requests, account.deadline_misses), (2, 2));
    let slow = handle.slow_requests().expect("the engine answers");
    let mut reported: Vec<_> = slow.iter().map(|slow| (slow.id, slow.extent.len.get())).collect();
    reported.sort_unstable();
    assert_eq!(reported, [(late, 60), (other, 1), (failed, 60)]);
    for slow in &slow {
        let parts: Nanos = slow.went.named().iter().map(|(_, part)| *part).sum();
        assert_eq!(parts, slow.response, "{slow:?}");
    }
    assert!(drive.shutdown().is_clean());
}

#[test]
fn answers_to_the_deadline_of_a_divided_request_count_once() {
    let (drive, _) = open_array(CommandTimeout::NEVER);
    drive.handle().set_policy(PolicyChoice::parse("cds-scan").expect("a policy")).expect("open");
    let long = || Io::read(Extent::from_numbers(4, 60));
    let run = |within, if_infeasible| {
        let urgent = IoPriority::default_of(PriorityClass::RealTime);
        let io = long().deadline(Duration::from_millis(within)).priority(urgent);
        let io = io.guaranteed(if_infeasible);
        drive.handle().run(io).result.is_ok()
    };
    assert!(run(100_000, IfInfeasible::Refuse));
    assert!(run(0, IfInfeasible::BestEffort));
    assert!(!run(0, IfInfeasible::Refuse));
    let accounts = drive.snapshot().accounts;
    assert_eq!(accounts[0].1.promises.total(), accounts[0].1.promises.of(PriorityClass::RealTime));
    let promises = accounts[0].1.promises.total();
    let counts = (promises.guaranteed, promises.best_effort, promises.refused, promises.broken);
    assert_eq!(counts, (1, 1, 1, 0));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn closing_counts_a_divided_request_once() {
    let (drive, puppet) = open_array_that_drains(CommandTimeout::NEVER, Nanos::from_ms(50));
    puppet.set(|state| state.answering = false);
    let (_, at_drive) = submit(&drive, Io::read(Extent::from_numbers(4, 60)));
    let (_, queued) = submit(&drive, Io::read(Extent::from_numbers(0, 20)));
    puppet.wait_for(4);
    let report = drive.shutdown();
    assert_eq!((report.given_up_at_drive, report.given_up_queued), (1, 1));
    assert!(answer(&at_drive).is_err() && answer(&queued).is_err());
}
