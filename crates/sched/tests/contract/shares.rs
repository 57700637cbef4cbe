//! Shares: reservations and limits, the selection of the next tenant, and the sums of the charges.

use std::cell::RefCell;
use std::rc::Rc;

use headtime_sched::{
    ClassId, PriorityClass, Request, ShareChange, ShareRefusal, Tenant, Terms, VolumeId,
};
use headtime_units::{Instant, Nanos, Share};
use proptest::prelude::*;

use crate::session::{Session, Setup, due, flush, fua, read, write};
use crate::tiny::CAPACITY;

pub(crate) fn of_volume(volume: u32, request: Request) -> Request {
    Request { volume: VolumeId(volume), ..request }
}

pub(crate) fn tenant(volume: u32) -> Tenant {
    Tenant::of(VolumeId(volume))
}

pub(crate) fn percent(percent: f64) -> Share {
    Share::from_fraction(percent / 100.0).expect("a share")
}

pub(crate) fn reserving(reserved: f64) -> Terms {
    Terms::reserving(percent(reserved))
}

pub(crate) fn limited(limit: f64) -> Terms {
    Terms { limit: percent(limit), ..Terms::default() }
}

/// Volumes that always have eight random reads, for this long; returns their charges.
pub(crate) fn saturated(session: &mut Session, volumes: u32, ms: u64) -> Vec<f64> {
    let before: Vec<Nanos> = (0..volumes)
        .map(|volume| session.scheduler.accounts().volume(VolumeId(volume)).disk_time)
        .collect();
    let end = session.now + Nanos::from_ms(ms);
    let began = session.now;
    while session.now < end {
        for volume in 0..volumes {
            while session
                .scheduler
                .queue()
                .by_arrival()
                .filter(|queued| queued.request.volume == VolumeId(volume))
                .count()
                < 8
            {
                let id = session.dispatched.len() as u64 * 1_000
                    + session.scheduler.held() as u64 * 10
                    + u64::from(volume);
                let lba = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) % CAPACITY;
                session.accept(of_volume(volume, read(id, lba, 1)));
            }
        }
        session.step();
    }
    let passed = session.now.saturating_since(began).as_secs_f64();
    let share = |volume: u32| {
        (session.scheduler.accounts().volume(VolumeId(volume)).disk_time - before[volume as usize])
            .as_secs_f64()
            / passed
    };
    (0..volumes).map(share).collect()
}

#[test]
fn what_is_promised_beyond_what_there_is_is_refused_with_what_is_left() {
    let mut session = Setup::of("utilization").start();
    let now = session.now;
    assert_eq!(session.scheduler.set_share(now, tenant(1), reserving(50.0)), Ok(()));
    let refusal = session
        .scheduler
        .set_share(now, tenant(2), reserving(60.0))
        .expect_err("only half is left");
    assert_eq!(
        refusal,
        ShareRefusal::TooMuch {
            tenant: tenant(2),
            requested: percent(60.0),
            available: percent(50.0),
            reservable: Share::WHOLE
        }
    );
    assert_eq!(
        refusal.to_string(),
        "volume 2 asks for 60 % of disk time; 50 % are left of the 100 % that may be reserved; ask \
            for no more, or lower another reservation first"
    );
    assert_eq!(
        (session.scheduler.shares().unreserved(), session.scheduler.shares().terms(tenant(2))),
        (percent(50.0), None),
        "nothing has changed"
    );

    // Both at once: judged by where they end.
    let moved = [
        ShareChange::Set(tenant(1), reserving(40.0)),
        ShareChange::Set(tenant(2), reserving(60.0)),
    ];
    assert_eq!(session.scheduler.shares().check(&moved), Ok(Share::NONE));
    assert_eq!(session.scheduler.change_shares(now, &moved), Ok(()));
    let class = Tenant::class_of(VolumeId(2), ClassId(3));
    let message = session
        .scheduler
        .set_share(now, class, reserving(0.5))
        .expect_err("nothing is left")
        .to_string();
    assert!(
        message.starts_with("class 3 of volume 2 asks for 0.5 % of disk time; 0 % are left"),
        "{message}"
    );

    let reservable = [ShareChange::Reservable(percent(90.0))];
    assert_eq!(
        session.scheduler.change_shares(now, &reservable),
        Err(ShareRefusal::Reserved { requested: percent(90.0), reserved: Share::WHOLE })
    );
    // One of two changes cannot be: neither is made.
    let half = [ShareChange::Remove(tenant(1)), ShareChange::Remove(tenant(9))];
    assert_eq!(
        session.scheduler.change_shares(now, &half),
        Err(ShareRefusal::Unknown { tenant: tenant(9) })
    );
    assert_eq!(session.scheduler.shares().terms(tenant(1)), Some(reserving(40.0)));
    assert_eq!(session.scheduler.change_shares(now, &[ShareChange::Remove(tenant(1))]), Ok(()));
    assert_eq!(session.scheduler.shares().unreserved(), percent(40.0));
}

#[test]
fn terms_that_could_not_be_kept_are_refused_by_themselves() {
    let check = |terms: Terms| terms.check(tenant(1)).expect_err("no such terms").to_string();
    let cases = [
        (
            limited(0.05),
            "volume 1: a limit of 0.05 % would hold a single request back for minutes; choose at \
                least 0.1 %",
        ),
        (
            Terms { limit: percent(20.0), ..reserving(30.0) },
            "volume 1: a limit of 20 % is below its reservation of 30 %; raise the limit or lower \
                the reservation",
        ),
        (
            Terms { burst: Nanos::from_ms(9), ..Terms::default() },
            "volume 1: a burst of 9.000 ms is out of range; choose 10.000 ms to 60.000 s",
        ),
        (
            Terms { weight: 0, ..Terms::default() },
            "volume 1: a weight of 0 is out of range; choose 1 to 1000",
        ),
        (
            Terms { requests_per_second: Some(0), ..Terms::default() },
            "volume 1: a cap of 0 requests a second would hold everything back for ever; choose at \
                least 1, or no cap",
        ),
        (
            Terms { sectors_per_second: Some(0), ..Terms::default() },
            "volume 1: a cap of 0 sectors a second is out of range; choose 1 to 1000000000000, or \
                no cap",
        ),
    ];
    for (terms, expected) in cases {
        assert_eq!(check(terms), expected);
    }
}

#[test]
fn tenants_with_endless_requests_get_their_reservations() {
    // The last estimates a request of some 8 ms at 100 ms.
    let policies = [
        "utilization",
        "utilization:belief=1",
        "headtime",
        "utilization:random_us=100000,outstanding=8",
    ];
    for policy in policies {
        let mut session = Setup::of(policy).start();
        for (volume, reserved) in (0..).zip([60.0, 30.0, 10.0]) {
            session
                .scheduler
                .set_share(session.now, tenant(volume), reserving(reserved))
                .expect("all of it is free");
        }
        let shares = saturated(&mut session, 3, 20_000);
        for (share, reserved) in shares.iter().zip([0.6, 0.3, 0.1]) {
            assert!((share - reserved).abs() < 0.01, "{policy}: {shares:?}");
        }
        // Changed while requests wait: within two seconds it is otherwise.
        let changes = [
            ShareChange::Set(tenant(0), reserving(10.0)),
            ShareChange::Set(tenant(2), reserving(60.0)),
        ];
        session
            .scheduler
            .change_shares(session.now, &changes)
            .expect("they exchange what they have");
        saturated(&mut session, 3, 2_000);
        let shares = saturated(&mut session, 3, 10_000);
        assert!(
            (shares[0] - 0.1).abs() < 0.02 && (shares[2] - 0.6).abs() < 0.02,
            "{policy}: {shares:?}"
        );
        session.run_to_end();
    }
}

/// Time that is charged to neither raises both buckets: if one passed a bound before the other, it
/// would have two runs before the other's next.
#[test]
fn time_charged_to_nobody_does_not_change_the_order_of_runs() {
    for alone in [50, 100, 200, 400] {
        let mut session = Setup::of("headtime").start();
        for (volume, share) in [(0, 70.0), (1, 30.0)] {
            let set = session.scheduler.set_share(session.now, tenant(volume), reserving(share));
            assert_eq!(set, Ok(()));
        }
        saturated(&mut session, 1, alone);
        saturated(&mut session, 2, 4_000);
        for second in 0..80 {
            for own in 0..3 {
                let id = 1_000_000_000 + second * 10 + own;
                session.accept(of_volume(VolumeId::INTERNAL.0, read(id, id % CAPACITY, 1)));
            }
            let share = saturated(&mut session, 2, 1_000)[0];
            assert!((share - 0.7).abs() < 0.05, "{second} s, after {alone} ms alone: {share}");
        }
    }
}

/// The server's own requests have no reservation and cannot have one. Without precedence they would
/// wait as long as two clients have reserved the drive and use it.
#[test]
fn the_server_is_served_although_the_whole_drive_is_reserved_and_busy() {
    for policy in ["utilization", "headtime", "throughput"] {
        let mut session = Setup::of(policy).start();
        for (volume, reserved) in (0..).zip([70.0, 30.0]) {
            session
                .scheduler
                .set_share(session.now, tenant(volume), reserving(reserved))
                .expect("all of it is free");
        }
        saturated(&mut session, 2, 3_000);
        let (guest, own) = (VolumeId(7), VolumeId::INTERNAL);
        for (id, volume) in [(1 << 40, guest), ((1 << 40) + 1, own)] {
            // No write: of overlapping requests the earlier goes first, whatever the tenant.
            session.accept(Request { volume, ..read(id, 0, 1) });
        }
        saturated(&mut session, 2, 100);
        let disk_time =
            |session: &Session, volume| session.scheduler.accounts().volume(volume).disk_time;
        assert!(!disk_time(&session, own).is_zero(), "{policy}: what the server asks for waits");
        if policy == "utilization" {
            saturated(&mut session, 2, 2_000);
            assert!(
                disk_time(&session, guest).is_zero(),
                "without the number of its own it would have waited like this one"
            );
        }
        let shares = saturated(&mut session, 2, 10_000);
        assert!(policy == "throughput" || (shares[0] - 0.7).abs() < 0.02, "{policy}: {shares:?}");
        session.run_to_end();
    }
}

#[test]
fn policies_that_use_shares_report_it_before_a_tenant_has_terms() {
    for (policy, goes) in [
        ("headtime", true),
        ("utilization", true),
        ("throughput", true),
        ("fcfs", false),
        ("sptf-expected", false),
    ] {
        assert_eq!(Setup::of(policy).start().scheduler.uses_shares(), goes, "{policy}");
    }
}

#[test]
fn slack_is_dealt_out_fairly_or_in_proportion() {
    for (policy, expected) in [("utilization", [0.5, 0.5]), ("utilization:slack=1", [0.8, 0.2])] {
        let mut session = Setup::of(policy).start();
        for (volume, reserved) in (0..).zip([20.0, 5.0]) {
            session
                .scheduler
                .set_share(session.now, tenant(volume), reserving(reserved))
                .expect("all of it is free");
        }
        saturated(&mut session, 2, 6_000);
        let shares = saturated(&mut session, 2, 20_000);
        assert!((shares[0] - expected[0]).abs() < 0.03, "{policy}: {shares:?}");
    }
}

#[test]
fn a_limit_holds_though_nobody_else_wants_the_drive() {
    let caps = [
        (limited(20.0), 0.2),
        // Reads anywhere take some 8 ms: 25 a second are a fifth of the time.
        (Terms { requests_per_second: Some(20), ..Terms::default() }, f64::NAN),
        (Terms { sectors_per_second: Some(20), ..Terms::default() }, f64::NAN),
    ];
    for policy in ["utilization", "headtime"] {
        for (terms, share) in caps {
            let mut session = Setup::of(policy).start();
            session
                .scheduler
                .set_share(session.now, tenant(0), terms)
                .expect("nothing is reserved");
            saturated(&mut session, 1, 5_000);
            let served =
                |session: &Session| session.scheduler.accounts().volume(VolumeId(0)).requests;
            let before = served(&session);
            let got = saturated(&mut session, 1, 10_000)[0];
            if share.is_nan() {
                let rate = (served(&session) - before) as f64 / 10.0;
                assert!((18.0..=22.0).contains(&rate), "{policy}, {terms:?}: {rate} a second");
            } else {
                assert!((got - share).abs() < 0.02, "{policy}, {terms:?}: {got}");
            }
            // Nothing is lost: throttled requests are served in the end.
            session.run_to_end();
        }
    }
}

/// A flush takes 2.3 ms here: without the limit there would be more than four hundred in a second.
#[test]
fn flushes_alone_do_not_get_round_a_limit() {
    for (policy, most) in [("utilization", 0.12), ("headtime", 0.12), ("fcfs", 1.01)] {
        let mut session = Setup::of(policy).start();
        session
            .scheduler
            .set_share(
                session.now,
                tenant(0),
                Terms { burst: Nanos::from_ms(100), ..limited(10.0) },
            )
            .expect("nothing is reserved");
        let mut id = 0;
        while session.now < Instant::ORIGIN + Nanos::from_secs(2) {
            if session.scheduler.held() == 0 {
                session.accept(of_volume(0, flush(id)));
                id += 1;
            }
            session.step();
        }
        let share = session.scheduler.accounts().volume(VolumeId(0)).disk_time.as_secs_f64() / 2.0;
        assert!(share < most && share > most * 0.7, "{policy}: {share}");
        session.run_to_end();
    }
}

#[test]
fn real_time_goes_before_others_and_idle_takes_what_nobody_wants() {
    let mut session = Setup::of("utilization").start();
    let with = |priority, reserved| Terms { priority, ..reserving(reserved) };
    session
        .scheduler
        .set_share(session.now, tenant(0), with(PriorityClass::RealTime, 30.0))
        .expect("free");
    session
        .scheduler
        .set_share(session.now, tenant(1), with(PriorityClass::Idle, 10.0))
        .expect("free");
    saturated(&mut session, 3, 3_000);
    let shares = saturated(&mut session, 3, 10_000);
    // Real time gets all slack; the idle one is still entitled to its reservation; the guest has
    // nothing.
    assert!(
        shares[0] > 0.88 && (0.08..0.12).contains(&shares[1]) && shares[2] < 0.02,
        "{shares:?}"
    );
}

/// One request at a time: A's next read arrives when its last is done, while B has a hundred
/// queued.
#[test]
fn a_client_with_one_request_at_a_time_keeps_its_run() {
    let mut session = Setup::of("utilization").start();
    session.scheduler.set_share(session.now, tenant(0), reserving(70.0)).expect("free");
    session.scheduler.set_share(session.now, tenant(1), reserving(30.0)).expect("free");
    for id in 0..100 {
        session.accept(of_volume(1, read(1_000 + id, id * 7 % CAPACITY, 1)));
    }
    let (mut next, mut sent) = (0, 0);
    while session.now < Instant::ORIGIN + Nanos::from_ms(1_500) {
        if session.finished.iter().filter(|finished| finished.request.volume == VolumeId(0)).count()
            == sent
        {
            session.accept(of_volume(0, read(next, next * 11 % CAPACITY, 1)));
            (next, sent) = (next + 1, sent + 1);
        }
        session.step();
    }
    let time =
        |volume| session.scheduler.accounts().volume(VolumeId(volume)).disk_time.as_secs_f64();
    assert!(time(0) / (time(0) + time(1)) > 0.6, "{} and {}", time(0), time(1));
}

#[test]
fn headtime_without_terms_is_unchanged_and_with_them_considers_one_tenant() {
    let order = |terms: bool| {
        let mut session = Setup::of("headtime").start();
        if terms {
            session.scheduler.set_share(session.now, tenant(1), reserving(50.0)).expect("free");
            session.scheduler.set_share(session.now, tenant(2), reserving(50.0)).expect("free");
        }
        session.accept(of_volume(1, read(0, 72, 1)));
        session.pump();
        // The requests near the head are of other tenants than the current one.
        for (id, volume, lba) in [(1, 2, 75), (2, 1, 150), (3, 2, 77), (4, 1, 100)] {
            session.accept(of_volume(volume, read(id, lba, 1)));
        }
        session.run_to_end();
        session.served()
    };
    assert_eq!(order(false)[..2], [0, 1]);
    assert_eq!(order(true), [0, 4, 2, 1, 3]);
}

/// B is entitled and has a deadline within the period: it goes in between A's run, which continues
/// afterwards.
#[test]
fn a_deadline_of_an_entitled_tenant_does_not_wait_for_the_run_to_end() {
    let mut session = Setup::of("headtime").start();
    session.scheduler.set_share(session.now, tenant(1), reserving(50.0)).expect("free");
    session.scheduler.set_share(session.now, tenant(2), reserving(50.0)).expect("free");
    session.now += Nanos::from_ms(500);
    for id in 0..12 {
        session.accept(of_volume(1, read(id, id * 15, 1)));
    }
    session.pump();
    session.accept(of_volume(2, due(read(50, 90, 1), 540)));
    session.run_to_end();
    let place = session.served().iter().position(|id| *id == 50).expect("it was served");
    assert!(place <= 3, "{:?}", session.served());
    assert!(!session.end_of(50).missed());
}

#[derive(Clone, Debug)]
enum Event {
    Submit { volume: u32, class: u8, kind: u8, start: u64 },
    Cancel { back: u64 },
    Pass { us: u64 },
    Set { volume: u32, class: u8, reserve: u8, limit: u8, capped: bool },
    Remove { volume: u32, class: u8 },
    Policy(usize),
}

const GOING_BY_SHARES: [&str; 5] = [
    "utilization",
    "utilization:run_ms=0,belief=1",
    "utilization:slack=1,outstanding=4",
    "throughput",
    "headtime",
];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0_u32..3, 0_u8..2, 0_u8..8, 0..CAPACITY - 8).prop_map(
            |(volume, class, kind, start)| Event::Submit { volume, class, kind, start }
        ),
        1 => (0_u64..8).prop_map(|back| Event::Cancel { back }),
        4 => (0_u64..40_000).prop_map(|us| Event::Pass { us }),
        2 => (0_u32..3, 0_u8..2, 0_u8..60, 5_u8..101, any::<bool>())
            .prop_map(|(volume, class, reserve, limit, capped)| {
                Event::Set { volume, class, reserve, limit, capped }
            }),
        1 => (0_u32..3, 0_u8..2).prop_map(|(volume, class)| Event::Remove { volume, class }),
        1 => (0..GOING_BY_SHARES.len()).prop_map(Event::Policy),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// `Session` checks after every event that the tenants' queues agree with the queue, and at the
    /// end that the charges are the busy time of the drive. In addition: the disk times of tenants
    /// add up to the accounts, and reservations never exceed the reservable share.
    #[test]
    fn whatever_happens_nothing_is_lost_and_the_books_add_up(
        first in 0..GOING_BY_SHARES.len(),
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let failing = Rc::new(RefCell::new(0_u32));
        let count = Rc::clone(&failing);
        let fails = move |_: &headtime_sched::Command| {
            *count.borrow_mut() += 1;
            (*count.borrow()).is_multiple_of(7)
        };
        let mut session = Setup::of(GOING_BY_SHARES[first]).fua(false).failing(fails).start();
        // Before the first event, so that nothing is served untracked.
        session
            .scheduler
            .set_share(session.now, tenant(0), Terms::default())
            .expect("nothing is asked for");
        let mut next = 0;
        for event in events {
            match event {
                Event::Submit { volume, class, kind, start } => {
                    let request = match kind {
                        0 => flush(next),
                        1 => fua(write(next, start, 2)),
                        2 | 3 => write(next, start, 3),
                        _ => read(next, start, 1),
                    };
                    session.accept(Request {
                        volume: VolumeId(volume),
                        class: ClassId(class),
                        ..request
                    });
                    next += 1;
                }
                Event::Cancel { back } => {
                    let _ = session.cancel(next.saturating_sub(back));
                }
                Event::Pass { us } => session.pass(Nanos::from_us(us)),
                Event::Set { volume, class, reserve, limit, capped } => {
                    let caps = capped.then_some(50);
                    let terms = Terms {
                        limit: percent(f64::from(limit)),
                        requests_per_second: caps,
                        sectors_per_second: caps.map(u64::from),
                        ..reserving(f64::from(reserve))
                    };
                    let tenant_id = Tenant::class_of(VolumeId(volume), ClassId(class));
                    let (before, possible) = (
                        session.scheduler.shares().unreserved(),
                        session.scheduler.shares().check(&[ShareChange::Set(tenant_id, terms)]),
                    );
                    let made = session.scheduler.set_share(session.now, tenant_id, terms);
                    prop_assert_eq!(made.err(), possible.err());
                    prop_assert_eq!(
                        session.scheduler.shares().unreserved(),
                        possible.unwrap_or(before)
                    );
                }
                Event::Remove { volume, class } => {
                    let _ = session.scheduler.change_shares(
                        session.now,
                        &[ShareChange::Remove(Tenant::class_of(VolumeId(volume), ClassId(class)))],
                    );
                }
                Event::Policy(index) => {
                    let (entry, parameters) =
                        headtime_sched::PolicyEntry::parse(GOING_BY_SHARES[index])
                            .expect("in the table");
                    session.scheduler.set_policy((entry.build)(&parameters));
                }
            }
            session.scheduler.self_check();
            prop_assert!(
                session.scheduler.shares().reserved() <= session.scheduler.shares().reservable()
            );
        }
        session.run_to_end();
        let by_tenant: Nanos =
            session.scheduler.shares().reports(session.now).map(|report| report.disk_time).sum();
        prop_assert_eq!(by_tenant, session.scheduler.accounts().disk_time());
        prop_assert!(
            session
                .scheduler
                .shares()
                .reports(session.now)
                .all(|report| (report.waiting, report.at_drive) == (0, 0))
        );
    }

    /// Whatever the other two tenants submit, a tenant with a reservation and queued requests gets
    /// at least that, less a run or two of delay.
    #[test]
    fn no_tenant_with_a_reservation_starves(
        policy in prop_oneof![Just("utilization"), Just("utilization:slack=1"), Just("headtime")],
        reserve in 5_u8..40,
        others in 0_u8..60,
        len in 1_u64..8,
    ) {
        let mut session = Setup::of(policy).start();
        session
            .scheduler
            .set_share(session.now, tenant(0), reserving(f64::from(reserve)))
            .expect("free");
        session
            .scheduler
            .set_share(
                session.now,
                tenant(1),
                Terms { priority: PriorityClass::RealTime, ..reserving(f64::from(others)) },
            )
            .expect("free");
        let mut id = 0;
        let end = Nanos::from_secs(6);
        while session.now < Instant::ORIGIN + end {
            for (volume, held) in [(0, 2), (1, 6), (2, 6)] {
                while session
                    .scheduler
                    .queue()
                    .by_arrival()
                    .filter(|queued| queued.request.volume == VolumeId(volume))
                    .count()
                    < held
                {
                    let start = id * 31 % (CAPACITY - 8);
                    session.accept(of_volume(
                        volume,
                        read(id, start, if volume == 0 { 1 } else { len }),
                    ));
                    id += 1;
                }
            }
            session.step();
        }
        let got = session.scheduler.accounts().volume(VolumeId(0)).disk_time.as_secs_f64();
        let entitled = f64::from(reserve) / 100.0 * end.as_secs_f64();
        prop_assert!(
            got > entitled - 1.0 * f64::from(reserve) / 100.0 - 0.1,
            "{got} s of {entitled} s"
        );
    }
}
