//! The policy `auto`: switches at every moment, for each reason, and none without one.

use std::sync::Arc;

use headtime_sched::{
    AutoRow, AutoTable, LoadFeatures, POLICIES, ShareChange, SwitchCause, Tunables, is_switchable,
};
use headtime_units::Nanos;

use crate::matrix::every_order;
use crate::session::{Session, Setup, due, read};
use crate::shares::{reserving, tenant};

/// Loads with the scores of `headtime` and of another policy.
fn table(other: &str, loads: &[(LoadFeatures, [f64; 2])]) -> Option<Arc<AutoTable>> {
    let row = |(features, scores): &(LoadFeatures, [f64; 2])| AutoRow {
        load: format!("{} sectors", features.size_sectors),
        features: *features,
        scores: scores.to_vec(),
    };
    let rows = loads.iter().map(row).collect();
    let policies = if other == "headtime" { ["headtime", "fcfs"] } else { ["headtime", other] };
    Some(Arc::new(AutoTable::new("tiny", policies, rows).expect("a table")))
}

/// A table of one load, which names one policy.
fn always(policy: &str) -> Tunables {
    let scores = if policy == "headtime" { [1.0, 0.0] } else { [0.0, 1.0] };
    let auto_table = table(policy, &[(LoadFeatures::default(), scores)]);
    Tunables { auto_table, ..Tunables::default() }
}

fn switches(session: &Session) -> Vec<(&'static str, &'static str)> {
    session.scheduler.policy_switches().iter().map(|switch| (switch.from, switch.to)).collect()
}

/// Every order of up to three of the requests of the matrix (writes that overlap, flushes, FUA,
/// discards), and after every number of events a switch from each policy to the next one of the
/// table. The session checks after each event that nothing is lost, served twice, or passed over a
/// flush.
#[test]
fn a_switch_at_every_moment_keeps_the_contract() {
    let names: Vec<&str> =
        POLICIES.iter().filter(|entry| is_switchable(entry)).map(|entry| entry.name).collect();
    for (from, to) in names.iter().zip(names.iter().cycle().skip(1)) {
        let mut switched = 0;
        every_order(3, &mut |order| {
            for moment in 0.. {
                let mut session = Setup::of("auto").fua(false).start();
                session.scheduler.set_tunables(always(from));
                for request in order {
                    session.accept(*request);
                }
                let over = (0..moment).any(|_| !session.step());
                session.scheduler.set_tunables(always(to));
                session.run_to_end();
                assert_eq!(session.finished.len(), order.len(), "{from} to {to} at {moment}");
                switched += switches(&session).iter().filter(|pair| **pair == (*from, *to)).count();
                if over {
                    break;
                }
            }
        });
        assert!(switched > 100, "{from} to {to}: {switched}");
    }
}

/// Reads of `sectors` at places all over the drive, four at a time, until `seconds`.
fn reads_until(session: &mut Session, seconds: u64, sectors: impl Fn(u64) -> u64) {
    while session.now.as_ns() < seconds * 1_000_000_000 {
        while session.scheduler.held() < 4 {
            let id = (session.finished.len() + session.scheduler.held()) as u64;
            session.accept(read(id, id.wrapping_mul(0x9E37_79B9) % 150, sectors(id)));
        }
        session.step();
    }
}

fn of_sectors(size_sectors: f64) -> LoadFeatures {
    LoadFeatures {
        size_sectors,
        synchronous: 1.0,
        reads: 1.0,
        concurrency: 4.0,
        streams: 1.0,
        ..LoadFeatures::default()
    }
}

fn by_size() -> Tunables {
    let loads = [(of_sectors(1.0), [1.0, 0.5]), (of_sectors(16.0), [0.5, 1.0])];
    Tunables { auto_table: table("fcfs", &loads), ..Tunables::default() }
}

#[test]
fn auto_follows_the_load_and_says_why() {
    let mut session = Setup::of("auto").start();
    session.scheduler.set_tunables(by_size());
    reads_until(&mut session, 10, |_| 1);
    assert_eq!((switches(&session), session.scheduler.active_policy()), (vec![], "headtime"));
    reads_until(&mut session, 15, |_| 16);
    assert_eq!(switches(&session), [("headtime", "fcfs")]);
    assert_eq!(session.scheduler.active_policy(), "fcfs");
    reads_until(&mut session, 25, |_| 1);
    assert_eq!(switches(&session), [("headtime", "fcfs"), ("fcfs", "headtime")]);
    let switch = &session.scheduler.policy_switches()[0];
    assert!((10_000..13_000).contains(&(switch.at.as_ns() / 1_000_000)), "{}", switch.at);
    let SwitchCause::Load { observed, nearest, gain } = &switch.cause else {
        panic!("{:?}", switch.cause)
    };
    assert!(nearest == "16 sectors" && *gain > 0.5 && observed.size_sectors > 8.0, "{switch:?}");
    let text = switch.cause.to_string();
    assert!(text.contains("nearest measured load `16 sectors`"), "{text}");
    session.run_to_end();
}

/// Sizes around the middle of two loads with different best policies. Without hysteresis the same
/// load leads to many switches.
#[test]
fn auto_does_not_oscillate_under_a_load_at_the_boundary() {
    let count = |policy: &str| {
        let mut session = Setup::of(policy).start();
        session.scheduler.set_tunables(by_size());
        // Windows of about a second, every other of which has larger requests.
        reads_until(&mut session, 120, |id| if id / 500 % 2 == 0 { 3 } else { 5 });
        session.run_to_end();
        switches(&session).len()
    };
    let (calm, nervous) = (count("auto"), count("auto:dwell_ms=0,margin_percent=0"));
    assert!(calm <= 6, "1 + log2(120 s / 2 s) at the most: {calm}");
    assert!(nervous > 2 * calm.max(3), "{nervous} without hysteresis");
}

#[test]
fn auto_serves_volumes_with_shares_by_the_default_policy() {
    let mut session = Setup::of("auto").start();
    session.scheduler.set_tunables(always("fcfs"));
    for id in 0..8 {
        session.accept(due(read(id, 20 * id, 1), 500));
    }
    session.pass(Nanos::from_ms(10));
    assert_eq!(session.scheduler.active_policy(), "fcfs");
    let change = ShareChange::Set(tenant(0), reserving(50.0));
    session.scheduler.change_shares(session.now, &[change]).expect("it is reservable");
    session.step();
    session.pump();
    assert_eq!(session.scheduler.active_policy(), "headtime");
    let last = session.scheduler.policy_switches().last().map(|switch| switch.cause.clone());
    assert_eq!(last, Some(SwitchCause::Shares));
    session.run_to_end();
}
