//! The charged time is the busy time of the drive, to the nanosecond; `Session::run_to_end` checks
//! the sum in every other test too.

use headtime_sched::{AccessKind, POLICIES, Request, VolumeId};
use headtime_units::{Instant, Nanos};

use crate::drive::{FLUSH, ServiceOrder};
use crate::merging::Merging;
use crate::session::{Setup, due, flush, fua, read, write};
use crate::tiny::{OVERHEAD, REPORTING};

fn of_volume(volume: u32, request: Request) -> Request {
    Request { volume: VolumeId(volume), ..request }
}

#[test]
fn with_one_outstanding_and_work_at_all_times_the_charges_add_up_to_the_whole_run() {
    for entry in POLICIES {
        let mut session = Setup::with(entry.build_default()).outstanding(1).fua(false).start();
        for id in 0..12 {
            session.accept(of_volume(
                id as u32 % 3,
                if id % 4 == 0 { fua(write(id, id * 13, 2)) } else { read(id, id * 13, 1) },
            ));
        }
        session.run_to_end();
        assert_eq!(
            session.scheduler.accounts().disk_time(),
            session.now.saturating_since(Instant::ORIGIN),
            "{}",
            entry.name
        );
    }
}

#[test]
fn a_command_for_two_volumes_is_split_by_sectors() {
    let mut session = Setup::with(Box::new(Merging { depth: 1 })).start();
    session.accept(of_volume(1, read(0, 0, 2)));
    session.accept(of_volume(2, read(1, 2, 4)));
    session.run_to_end();
    assert_eq!(session.dispatched.len(), 1);
    let whole = session.now.saturating_since(Instant::ORIGIN);
    let accounts = session.scheduler.accounts();
    assert_eq!(accounts.volume(VolumeId(1)).disk_time, whole / 3);
    assert_eq!(
        accounts.volume(VolumeId(1)).disk_time + accounts.volume(VolumeId(2)).disk_time,
        whole
    );
    assert_eq!(
        (accounts.volume(VolumeId(1)).sectors.get(), accounts.volume(VolumeId(2)).sectors.get()),
        (2, 4)
    );
    assert_eq!(accounts.volume(VolumeId(3)), Default::default());
    assert_eq!(accounts.volumes().map(|(volume, _)| volume.0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn requests_of_one_flush_pay_alike_and_a_write_pays_for_itself_too() {
    let mut session = Setup::of("fcfs").fua(false).start();
    session.accept(of_volume(1, fua(write(0, 0, 8))));
    session.step();
    session.accept(of_volume(2, flush(1)));
    session.run_to_end();
    let flushing = OVERHEAD + FLUSH + REPORTING;
    assert_eq!(session.end_of(1).disk_time, flushing / 2);
    // Sector 0 has just gone by when the overhead is over, so the write takes until 16 ms.
    assert_eq!(session.end_of(0).disk_time, Nanos::from_ms(16) + REPORTING + flushing / 2);
}

#[test]
fn a_merged_command_that_fails_is_paid_for_by_those_it_was_to_serve() {
    let mut first = true;
    let mut session = Setup::with(Box::new(Merging { depth: 1 }))
        .failing(move |_| std::mem::take(&mut first))
        .start();
    session.accept(read(0, 0, 2));
    session.accept(read(1, 2, 2));
    session.run_to_end();
    assert_eq!(session.dispatched.len(), 3);
    let reported: Nanos = session.finished.iter().map(|finished| finished.disk_time).sum();
    assert_eq!(
        reported,
        session.now.saturating_since(Instant::ORIGIN),
        "the failed command is in what the two are told"
    );
}

#[test]
fn errors_and_misses_are_counted_and_cancelled_requests_pay_but_do_not_count() {
    let mut session = Setup::of("fcfs").failing(|command| command.requests[0].0 == 1).start();
    session.accept(due(read(0, 0, 1), 1));
    session.accept(read(1, 9, 1));
    session.accept(due(read(2, 3, 1), 1_000));
    session.accept(read(3, 5, 1));
    while session.dispatched.len() < 4 {
        session.step();
        session.pump();
    }
    let _ = session.cancel(3);
    session.run_to_end();
    let account = session.scheduler.accounts().volume(VolumeId(0));
    assert_eq!((account.requests, account.errors, account.sectors.get()), (2, 1, 2));
    assert_eq!((account.deadline_requests, account.deadline_misses), (2, 1));
    assert!(session.end_of(0).missed() && !session.end_of(2).missed());
    assert!(account.disk_time > session.finished.iter().map(|finished| finished.disk_time).sum());
}

#[test]
fn charges_add_up_whatever_order_the_drive_serves_in() {
    let mut session =
        Setup::of("firmware").order(ServiceOrder::Picks(vec![3, 1, 4, 1, 5, 9, 2, 6])).start();
    for id in 0..20 {
        session.accept(read(id, id * 9, 1));
    }
    session.run_to_end();
    assert_eq!(session.finished.len(), 20);
}

#[test]
fn the_time_of_a_read_goes_on_while_the_drive_takes_writes_into_its_cache() {
    let mut setup = Setup::of("firmware").order(ServiceOrder::Picks(vec![1, 0]));
    setup.belief.says = AccessKind::CacheHit;
    let mut session = setup.start();
    session.accept(read(0, 9, 1));
    session.accept(write(1, 18, 1));
    session.run_to_end();
    let (read, write) = (session.end_of(0), session.end_of(1));
    assert!(write.finished < read.finished && read.disk_time < read.service());
    assert_eq!(read.disk_time + read.overlapped, read.service());
    assert_eq!(write.overlapped, Nanos::ZERO);
}
