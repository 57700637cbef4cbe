//! The sources of background reads and their rules; `Model` checks with every event that each
//! sector is delivered once, with the right content, and that nothing changes sectors before.

use std::sync::{Arc, Mutex};

use headtime_sched::{
    Choice, Decision, FillSettings, FillSource, HoldReason, IdleSettings, Op, Outcome,
    PendingSectors, Policy, ReadAhead, ScanId, ScanOptions, ScanPriority, UnusedGap, View,
};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::session::{Session, Setup, due, flush, read, request, write};
use crate::tiny::{CAPACITY, SECTORS_PER_CYLINDER};

pub(crate) const POINT_IN_TIME: ScanOptions = ScanOptions {
    point_in_time: true,
    pace: headtime_sched::Pace::Normal,
    priority: ScanPriority::DEFAULT,
};

/// Gaps are searched whenever a request waits, and a tenth of a millisecond is enough margin on an
/// exact drive.
pub(crate) fn eager() -> FillSettings {
    FillSettings {
        conservatism: Some(Nanos::from_us(100)),
        read_ahead: ReadAhead::Off,
        edge: Sectors::new(1),
        controls: 0,
        retry_grain: Sectors::new(2),
        idle: IdleSettings { largest: Sectors::new(16), ..IdleSettings::default() },
        ..FillSettings::default()
    }
}

pub(crate) fn not_idle(settings: FillSettings) -> FillSettings {
    FillSettings { idle: IdleSettings { enabled: false, ..settings.idle }, tail: 0.0, ..settings }
}

pub(crate) fn everything(grain: u64) -> PendingSectors {
    PendingSectors::all(Sectors::new(CAPACITY), Sectors::new(grain))
}

pub(crate) fn pending(extents: &[(u64, u64)]) -> PendingSectors {
    let mut pending = PendingSectors::new(Sectors::new(CAPACITY), Sectors::new(1));
    extents.iter().for_each(|(start, len)| pending.insert(Extent::from_numbers(*start, *len)));
    pending
}

pub(crate) fn knowing(policy: &str) -> Setup {
    let mut setup = Setup::of(policy);
    setup.belief.knows_tracks = true;
    setup
}

fn sources(session: &Session) -> Vec<(FillSource, u64)> {
    let of = |source| (source, session.scheduler.fill_report().from(source).get());
    FillSource::ALL.into_iter().map(of).filter(|(_, sectors)| *sectors > 0).collect()
}

#[test]
fn with_nobody_else_there_a_scan_reads_everything_by_address_two_commands_at_a_time() {
    let mut session = knowing("sptf").start();
    session.scan(1, eager(), everything(4), ScanOptions::default());
    session.pump();
    assert_eq!(session.drive.len(), 2);
    session.run_to_end();
    let starts: Vec<u64> =
        session.dispatched.iter().map(|command| command.extent.start.get()).collect();
    assert_eq!(starts, (0..CAPACITY).step_by(16).collect::<Vec<_>>());
    assert_eq!(session.scheduler.scan_remaining(ScanId(1)), Some(Sectors::ZERO));
    assert_eq!(sources(&session), [(FillSource::Idle, CAPACITY)]);
    let background = session.scheduler.accounts().background();
    assert_eq!(
        (background.commands, background.sectors.get(), background.errors),
        (12, CAPACITY, 0)
    );
    assert_eq!(session.scheduler.accounts().disk_time(), Nanos::ZERO, "no volume pays for it");
}

#[test]
fn a_scan_waits_until_the_client_has_been_quiet_for_a_while() {
    let mut session = knowing("fcfs").start();
    session.accept(read(0, 0, 1));
    session.step();
    let idle = IdleSettings { away: Nanos::from_ms(50), ..eager().idle };
    session.scan(1, FillSettings { idle, ..eager() }, everything(1), ScanOptions::default());
    let grace = IdleSettings::default().grace;
    let over = session.end_of(0).finished;
    let decision = session.scheduler.next(session.now);
    assert_eq!(decision, Decision::WaitUntil { at: over + grace, reason: HoldReason::Idleness });
    session.run_to_end();
    let first = session.dispatched.iter().position(|command| command.background.is_some());
    assert_eq!(first, Some(1));
    assert_eq!(
        session.dispatched[1].extent.len.get(),
        2,
        "while the client may come back commands are an eighth as long"
    );
    assert!(
        session.dispatched.iter().any(|command| command.extent.len.get() == 16),
        "and when it is taken to be away they are long"
    );
}

/// First come, first served, recording for how long the drive was idle.
struct Watching(Arc<Mutex<Nanos>>);

impl Policy for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        *self.0.lock().expect("nobody panics") = view.idle;
        Choice::one(view.queue.oldest().map(|queued| queued.ticket))
    }
}

#[test]
fn a_drive_that_reads_for_a_scan_is_not_idle() {
    let idle_after = |scan| {
        let idle = Arc::default();
        let mut setup = Setup::with(Box::new(Watching(Arc::clone(&idle))));
        setup.belief.knows_tracks = true;
        let mut session = setup.start();
        session.accept(read(0, 0, 1));
        session.step();
        if scan {
            session.scan(1, eager(), everything(1), ScanOptions::default());
        }
        session.run_to_end();
        let second = session.end_of(0).finished + Nanos::from_ms(5_000);
        session.pass(second.saturating_since(session.now));
        session.accept(read(1, 90, 1));
        session.run_to_end();
        *idle.lock().expect("nobody panics")
    };
    assert_eq!(idle_after(false), Nanos::from_ms(5_000));
    assert!((4_000..4_900).contains(&(idle_after(true).as_ns() / 1_000_000)));
}

/// Request 0 ends at 9.0 on cylinder 3 (see `golden`). Request 1 reads LBA 79, sector 7 of the same
/// track, at 15.0. Between them pass the sectors 1 to 6. Two commands on a track are an eighth of
/// the margin apart, so that 1 and 6 are not wholly in between, and one more is left out at both
/// ends.
#[test]
fn what_passes_between_two_requests_on_a_track_is_read_in_between() {
    let mut session = knowing("fcfs").start();
    session.accept(read(0, 72, 1));
    session.accept(read(1, 79, 1));
    session.scan(
        1,
        FillSettings { merge_front: false, ..not_idle(eager()) },
        pending(&[(72, 8)]),
        ScanOptions::default(),
    );
    session.run_to_end();
    assert_eq!(
        (session.end_of(0).finished.as_ns(), session.end_of(1).finished.as_ns()),
        (9_100_000, 16_100_000),
        "neither is later than without"
    );
    let gap: Vec<Extent> = session
        .read
        .iter()
        .map(|read| read.extent)
        .filter(|extent| extent.start.get() / 8 == 9)
        .collect();
    assert_eq!(gap, [Extent::from_numbers(75, 3)], "sectors 3 to 5");
    assert!(
        session
            .read
            .iter()
            .all(|read| read.source == FillSource::Gap && read.outcome == Outcome::Success)
    );
}

fn at_priority(level: u8) -> ScanOptions {
    let priority = ScanPriority::new(level).expect("a level");
    ScanOptions { priority, ..ScanOptions::default() }
}

/// In the same gap scan 1 has two sectors to read and scan 2 one.
#[test]
fn a_gap_goes_to_the_scan_of_highest_priority_that_can_use_it() {
    let first_read = |first: u8, second: u8, of_second: u64| {
        let mut session = knowing("fcfs").start();
        session.accept(read(0, 72, 1));
        session.accept(read(1, 79, 1));
        let settings = FillSettings { merge_front: false, ..not_idle(eager()) };
        session.scan(1, settings, pending(&[(76, 2)]), at_priority(first));
        session.scan(2, settings, pending(&[(of_second, 1)]), at_priority(second));
        session.run_to_end();
        let mut reads = session.dispatched.iter().filter(|command| command.requests.is_empty());
        reads.next().expect("the gap is used").extent
    };
    let extent = Extent::from_numbers;
    assert_eq!(first_read(4, 4, 75), extent(75, 3), "both share it");
    assert_eq!(first_read(4, 3, 75), extent(75, 1));
    assert_eq!(first_read(3, 4, 75), extent(76, 2));
    assert_eq!(first_read(4, 0, 79), extent(76, 2), "scan 2 cannot use it");
}

#[test]
fn idle_time_goes_to_the_scan_of_highest_priority_also_after_a_change() {
    let mut session = knowing("sptf").start();
    session.scan(1, eager(), pending(&[(0, 64)]), at_priority(4));
    session.scan(2, eager(), pending(&[(64, 64)]), at_priority(2));
    session.pump();
    let now = session.now;
    session.scheduler.scan_set_priority(now, ScanId(1), ScanPriority::new(1).expect("a level"));
    session.run_to_end();
    let starts: Vec<u64> =
        session.dispatched.iter().map(|command| command.extent.start.get()).collect();
    assert_eq!(starts, [64, 80, 0, 16, 32, 48, 96, 112]);
}

/// The same with everything in front of request 1 pending: one command reads the sectors 3 to 7.
#[test]
fn what_lies_right_before_a_read_goes_with_it() {
    let mut session = knowing("fcfs").start();
    session.accept(read(0, 72, 1));
    session.accept(read(1, 79, 1));
    session.scan(
        1,
        FillSettings { read_ahead: ReadAhead::On, ..not_idle(eager()) },
        pending(&[(72, 8)]),
        ScanOptions::default(),
    );
    session.run_to_end();
    let merged = &session.dispatched[1];
    assert_eq!((merged.requests.len(), merged.background), (1, Some(Extent::from_numbers(75, 4))));
    assert_eq!(merged.extent, Extent::from_numbers(75, 5));
    assert_eq!(session.end_of(1).finished.as_ns(), 16_100_000);
    assert_eq!(sources(&session), [(FillSource::Merged, 4)]);
    // Of 7.0 ms between the two reports 4 were for the scan.
    assert_eq!(session.scheduler.accounts().background().disk_time, Nanos::from_ms(4));
    assert_eq!(session.end_of(1).disk_time, Nanos::from_ms(3));
}

#[test]
fn with_read_ahead_no_two_commands_go_to_one_track_in_a_row() {
    for read_ahead in [ReadAhead::Unknown, ReadAhead::On] {
        let mut session = knowing("fcfs").start();
        for id in 0..40 {
            session.accept(if id % 3 == 0 {
                write(id, id * 37 % CAPACITY, 1)
            } else {
                read(id, id * 37 % CAPACITY, 1)
            });
        }
        session.scan(
            1,
            FillSettings { read_ahead, ..not_idle(eager()) },
            everything(1),
            ScanOptions::default(),
        );
        session.run_to_end();
        let track = |lba: Lba| lba.get() / 8;
        let mut apart = 0;
        for pair in session.dispatched.windows(2) {
            let background = pair.iter().any(|command| command.requests.is_empty());
            apart += u32::from(background);
            assert!(
                !background || track(pair[0].extent.last()) != track(pair[1].extent.start),
                "{pair:?}"
            );
        }
        assert!(apart > 0, "nothing was read in any gap");
    }
}

#[test]
fn the_order_of_requests_is_what_it_would_be_without_a_scan_and_each_ends_when_it_would() {
    for policy in ["fcfs", "clook", "edf", "sstf"] {
        let run = |scan: bool| {
            let mut session = knowing(policy).start();
            for id in 0..30 {
                session.accept(read(id, id * 53 % CAPACITY, 1));
            }
            if scan {
                session.scan(1, not_idle(eager()), everything(1), ScanOptions::default());
            }
            session.run_to_end();
            session
        };
        let (without, with) = (run(false), run(true));
        assert_eq!(without.served(), with.served(), "{policy}");
        assert!(with.read.len() > 10, "{policy}: {} reads", with.read.len());
        let ends = |session: &Session| {
            session.finished.iter().map(|finished| finished.finished).collect::<Vec<_>>()
        };
        assert_eq!(ends(&without), ends(&with), "{policy}");
        let report = with.scheduler.fill_report();
        assert_eq!(
            (report.late, report.delay, report.impact()),
            (0, Nanos::ZERO, 0.0),
            "{policy}: {report:?}"
        );
        assert!(
            report.gaps >= report.filled && report.filled > 0 && report.tracks > report.gaps,
            "{report:?}"
        );
        let [policy_keeps, position, early, nothing_fits, bound, control] = report.unused;
        assert_eq!((policy_keeps, early, bound), (0, 0, 0), "{policy}: {report:?}");
        assert_eq!(report.filled + nothing_fits + control, report.gaps, "{policy}: {report:?}");
        assert!(report.gaps + position <= 30, "one for each request: {policy}: {report:?}");
    }
}

/// With two commands at the drive the next is chosen when one of them is done, whatever arrives
/// after that, also while one of the two is a fill.
#[test]
fn what_comes_while_a_gap_is_filled_finds_the_choice_made() {
    for policy in ["sstf", "sptf", "satf-lbn", "edf"] {
        let run = |scan: bool| {
            let mut session = knowing(policy).outstanding(2).start();
            if scan {
                session.scan(1, not_idle(eager()), everything(1), ScanOptions::default());
            }
            for id in 0..60 {
                session.accept(due(read(id, id * 53 % CAPACITY, 1), 1_000 - id * 7));
                session.pass(Nanos::from_us(if id < 4 { 0 } else { 13_700 }));
            }
            session.run_to_end();
            session
        };
        let (without, with) = (run(false), run(true));
        assert_eq!(without.served(), with.served(), "{policy}");
        let filled = with.scheduler.fill_report().filled;
        assert!(filled > 10, "{policy}: {filled} gaps were filled");
    }
}

#[test]
fn a_drive_that_may_hold_one_command_gets_only_what_goes_with_a_request() {
    let mut session = knowing("sptf").outstanding(1).start();
    for id in 0..30 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    session.scan(1, not_idle(eager()), everything(1), ScanOptions::default());
    session.run_to_end();
    assert!(session.dispatched.iter().all(|command| command.requests.len() == 1));
    assert!(sources(&session).iter().all(|(source, _)| *source == FillSource::Merged));
}

#[test]
fn without_tracks_scans_run_in_idle_time_only() {
    let mut session = Setup::of("sptf").start();
    for id in 0..20 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    session.scan(1, FillSettings { tail: 0.0, ..eager() }, everything(1), ScanOptions::default());
    session.run_to_end();
    assert_eq!(sources(&session), [(FillSource::Idle, CAPACITY)]);
    let report = session.scheduler.fill_report();
    assert_eq!(report.unused, [0, 20, 0, 0, 0, 0], "it is not known where the head is: {report:?}");
}

#[test]
fn gaps_of_a_policy_that_keeps_more_than_two_commands_at_the_drive_are_counted_as_its_own() {
    let mut session = knowing("fcfs").outstanding(4).start();
    session.scan(1, not_idle(eager()), everything(1), ScanOptions::default());
    for id in 0..30 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    session.run_to_end();
    let report = session.scheduler.fill_report();
    assert_eq!((report.gaps, report.unused), (0, [30, 0, 0, 0, 0, 0]), "{report:?}");
}

/// A scan of a point in time reads every sector before it is overwritten, and none twice.
#[test]
fn a_write_waits_for_what_a_scan_of_a_point_in_time_has_not_got() {
    for op in [Op::Write, Op::Zero, Op::Discard] {
        let mut session = knowing("sptf").start();
        session.scan(1, not_idle(eager()), everything(4), POINT_IN_TIME);
        session.accept(request(0, op, 6, 4));
        session.accept(request(1, op, 8, 4));
        session.accept(write(2, 100, 1));
        session.run_to_end();
        let order: Vec<(u64, usize)> = session
            .dispatched
            .iter()
            .map(|command| (command.extent.start.get(), command.requests.len()))
            .collect();
        assert_eq!(order.iter().filter(|(_, requests)| *requests == 0).count(), 2, "{order:?}");
        let before: Vec<Extent> = session
            .read
            .iter()
            .filter(|read| read.source == FillSource::BeforeWrite)
            .map(|read| read.extent)
            .collect();
        assert!(
            before.contains(&Extent::from_numbers(4, 8))
                && before.contains(&Extent::from_numbers(100, 4)),
            "{before:?}"
        );
        assert_eq!(session.finished.len(), 3);
        assert!(session.scheduler.fill_report().delay > Nanos::ZERO, "the clients waited for it");
    }
}

#[test]
fn a_paused_scan_of_a_point_in_time_is_read_before_a_write_and_at_no_other_time() {
    let mut session = knowing("fcfs").start();
    session.scan(1, eager(), everything(1), POINT_IN_TIME);
    session.scheduler.scan_pause(session.now, ScanId(1));
    for id in 0..10 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    session.accept(write(20, 40, 3));
    session.run_to_end();
    assert_eq!(sources(&session), [(FillSource::BeforeWrite, 3)]);
    session.scheduler.scan_resume(session.now, ScanId(1));
    session.run_to_end();
    assert_eq!(session.scheduler.scan_remaining(ScanId(1)), Some(Sectors::ZERO));
}

#[test]
fn a_long_discard_is_read_before_in_commands_of_bounded_length() {
    let mut session = knowing("fcfs").start();
    session.scan(1, not_idle(eager()), everything(1), POINT_IN_TIME);
    session.accept(request(0, Op::Discard, 10, 150));
    session.accept(due(read(1, 100, 4), 40));
    session.run_to_end();
    assert!(
        session
            .dispatched
            .iter()
            .all(|command| command.requests.len() == 1 || command.extent.len.get() <= 16)
    );
    assert_eq!(sources(&session), [(FillSource::BeforeWrite, 150)]);
}

#[test]
fn a_scan_can_be_stopped_at_every_moment() {
    for moment in 0..30 {
        let mut session = knowing("sptf").start();
        session.scan(1, eager(), everything(2), POINT_IN_TIME);
        session.scan(2, eager(), pending(&[(10, 90)]), ScanOptions::default());
        for id in 0..8 {
            session.accept(if id % 2 == 0 {
                read(id, id * 53 % CAPACITY, 1)
            } else {
                write(id, id * 31 % CAPACITY, 3)
            });
        }
        for _ in 0..moment {
            session.step();
        }
        session.pump();
        session.scan_stop(1);
        assert_eq!(session.scheduler.scan_remaining(ScanId(1)), None);
        session.run_to_end();
        assert_eq!(
            session.scheduler.scan_remaining(ScanId(2)),
            Some(Sectors::ZERO),
            "the other scan goes on"
        );
        assert_eq!(session.finished.len(), 8);
    }
}

#[test]
fn two_scans_are_handed_the_same_read() {
    let mut session = knowing("fcfs").start();
    session.scan(1, eager(), everything(4), ScanOptions::default());
    session.scan(2, eager(), everything(1), ScanOptions::default());
    session.run_to_end();
    assert_eq!(session.dispatched.len(), 12, "everything is read once");
    assert_eq!(session.scheduler.fill_report().read().get(), 2 * CAPACITY);
}

#[test]
fn a_request_whose_gap_is_being_filled_can_be_cancelled() {
    let mut session = knowing("fcfs").start();
    session.accept(read(0, 72, 1));
    session.accept(read(1, 79, 1));
    session.accept(read(2, 150, 1));
    session.scan(
        1,
        FillSettings { merge_front: false, ..not_idle(eager()) },
        everything(1),
        ScanOptions::default(),
    );
    session.pump();
    while session.dispatched.last().is_none_or(|command| command.background.is_none()) {
        assert!(session.step(), "something was read in a gap");
        session.pump();
    }
    let next = [0, 1, 2]
        .into_iter()
        .find(|id| !session.served().contains(id))
        .expect("a gap was filled before the last request");
    session.cancel(next);
    session.run_to_end();
    assert_eq!(session.finished.len(), 2);
}

#[test]
fn a_flush_that_comes_into_a_gap_goes_first_and_nothing_is_lost() {
    for moment in 0..12 {
        let mut session = knowing("sptf").start();
        session.scan(1, eager(), everything(1), ScanOptions::default());
        for id in 0..6 {
            session.accept(write(id, id * 53 % CAPACITY, 1));
        }
        for _ in 0..moment {
            session.step();
        }
        session.pump();
        session.accept(flush(10));
        session.run_to_end();
        assert_eq!(session.finished.len(), 7);
    }
}

/// With clients that are never quiet and gaps too short for anything, the last tenth is read in
/// time that the bound on impact has saved up.
#[test]
fn the_tail_of_a_scan_is_read_in_time_saved_up_while_clients_never_rest() {
    let mut session = Setup::of("fcfs").start();
    session.scan(
        1,
        FillSettings { max_impact: 0.05, tail: 1.0, ..eager() },
        pending(&[(100, 4)]),
        ScanOptions::default(),
    );
    for id in 0..400 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    while session.finished.len() < 400 {
        session.step();
    }
    assert_eq!(sources(&session), [(FillSource::Share, 4)]);
    let report = session.scheduler.fill_report();
    assert!(report.impact() < 0.05 && report.delay > Nanos::ZERO, "{report:?}");
    session.run_to_end();
}

/// There are no gaps, because the drive model has no tracks. Beside deadlines no time is taken: a
/// long read could break them.
#[test]
fn without_gaps_a_scan_takes_what_the_bound_allows_from_clients_that_never_rest() {
    let beside = |due_ms: Option<u64>| {
        let mut session = Setup::of("fcfs").start();
        let fill = FillSettings { max_impact: 0.05, ..eager() };
        session.scan(1, fill, everything(1), ScanOptions::default());
        for id in 0..1_200 {
            let one = read(id, id * 53 % CAPACITY, 1);
            session.accept(due_ms.map_or(one, |ms| due(one, ms)));
            while id as usize >= session.finished.len() + 8 {
                session.step();
            }
        }
        let report = session.scheduler.fill_report();
        session.run_to_end();
        report
    };
    let report = beside(None);
    assert!(report.from(FillSource::Share) > Sectors::new(CAPACITY / 4), "{report:?}");
    assert!(report.impact() < 0.05 && report.delay > Nanos::ZERO, "{report:?}");
    assert_eq!(beside(Some(60_000)).read(), Sectors::ZERO);
}

/// At most a twentieth of the drive's time is taken from clients at once, however much has been
/// saved up.
#[test]
fn time_for_the_tail_is_taken_from_clients_a_stated_share_at_a_time() {
    let took = |tail_share: f64| {
        let mut session = Setup::of("fcfs").start();
        session.scan(
            1,
            FillSettings { tail_share, max_impact: 1.0, tail: 1.0, ..eager() },
            everything(1),
            ScanOptions::default(),
        );
        for id in 0..1_200 {
            session.accept(read(id, id * 53 % CAPACITY, 1));
        }
        while session.finished.len() < 1_200
            && session.scheduler.scan_remaining(ScanId(1)) != Some(Sectors::ZERO)
        {
            session.step();
        }
        let background = session.scheduler.accounts().background().disk_time.as_ns() as f64;
        let share = background / session.now.as_ns() as f64;
        let sectors = session.scheduler.fill_report().from(FillSource::Share).get();
        session.run_to_end();
        (share, sectors)
    };
    let [(little, few), (more, many)] = [took(0.01), took(0.1)];
    assert!(little <= 0.01 + 0.005 && few > 0, "{few} sectors in {little} of the drive's time");
    assert!(more <= 0.1 + 0.02 && many > 2 * few, "{many} sectors in {more} of the drive's time");
}

/// A write that the drive takes into its cache has no fixed time: a read before it would only delay
/// it. After it the head's position is unknown.
#[test]
fn around_a_write_that_ends_in_the_drives_cache_nothing_is_read_in_gaps() {
    let beside_writes = |caches_writes: bool| {
        let mut setup = knowing("fcfs");
        setup.belief.caches_writes = caches_writes;
        let mut session = setup.start();
        session.scan(1, not_idle(eager()), everything(1), ScanOptions::default());
        for id in 0..40 {
            let place = id * 53 % CAPACITY;
            session.accept(if id % 2 == 1 { write(id, place, 1) } else { read(id, place, 1) });
        }
        session.run_to_end();
        let fill = |place: usize| session.dispatched[place].requests.is_empty();
        let writes = |place: usize| session.dispatched[place].op == Op::Write;
        (1..session.dispatched.len()).filter(|place| fill(place - 1) && writes(*place)).count()
    };
    assert!(beside_writes(false) > 0);
    assert_eq!(beside_writes(true), 0);
}

/// Request 1 passes long after all pending sectors of the track beside that of request 0. As many
/// sectors as the track is displaced by may lie on the next track.
#[test]
fn at_the_ends_of_a_track_that_was_seen_to_be_displaced_sectors_are_left() {
    let read_for = |displaced: u64| {
        let mut setup = knowing("fcfs");
        setup.belief.displaced = displaced;
        let mut session = setup.start();
        session.accept(read(0, 0, 1));
        session.accept(read(1, 3 * SECTORS_PER_CYLINDER + 2, 1));
        // Sectors 4 to 7 of the track.
        session.scan(
            1,
            FillSettings { edge: Sectors::new(2), ..not_idle(eager()) },
            pending(&[(12, 4)]),
            ScanOptions::default(),
        );
        session.run_to_end();
        (
            session.read.iter().map(|read| read.extent.len.get()).sum::<u64>(),
            session.end_of(1).finished,
        )
    };
    let [whole, one_left, two_left, no_more] = [0, 1, 2, 5].map(read_for);
    assert_eq!([whole.0, one_left.0, two_left.0, no_more.0], [4, 3, 2, 2]);
    assert!([one_left.1, two_left.1, no_more.1] == [whole.1; 3], "request 1 is never later");
}

#[test]
fn a_missed_gap_is_noticed_and_paid_back() {
    let mut session = knowing("fcfs").start();
    // The completion is later than predicted: with half a sector of margin fills come too late.
    session.scan(1, not_idle(eager()), everything(1), ScanOptions::default());
    for id in 0..60 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    session.drive.sluggish = Nanos::from_us(1_500);
    session.run_to_end();
    let report = session.scheduler.fill_report();
    assert!(report.late > 0 && report.delay > Nanos::ZERO, "{report:?}");
    assert!(report.filled < report.gaps / 2, "fills go on although they cost too much: {report:?}");
    assert!(report.unused[UnusedGap::Bound as usize] > report.gaps / 4, "{report:?}");
}

#[test]
fn what_the_cache_answered_leaves_the_head_where_it_was() {
    let mut setup = Setup::of("fcfs");
    setup.belief.says = headtime_sched::AccessKind::CacheHit;
    let learned = std::sync::Arc::clone(&setup.belief.learned);
    let mut session = setup.start();
    for (id, lba) in [(0, 72), (1, 3 * SECTORS_PER_CYLINDER), (2, 5)] {
        session.accept(read(id, lba, 1));
    }
    session.run_to_end();
    let unknown = learned.lock().unwrap().iter().all(|measured| measured.head_before.is_none());
    assert!(unknown, "it has not been anywhere that is known");
    assert_eq!(session.scheduler.belief_report().reordered, 0);
}

#[test]
fn completions_out_of_order_are_counted() {
    let mut session =
        Setup::of("firmware").order(crate::drive::ServiceOrder::Picks(vec![1, 0, 0])).start();
    for id in 0..3 {
        session.accept(read(id, id * 20, 1));
    }
    session.run_to_end();
    assert_eq!(session.scheduler.belief_report().reordered, 1);
    assert!(session.now > Instant::ORIGIN);
}
