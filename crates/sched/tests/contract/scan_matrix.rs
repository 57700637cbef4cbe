//! Every policy with scans running: whatever arrives, fails, is cancelled or changes meanwhile,
//! clients get the same results and scans get each sector once.

use headtime_sched::{
    Choice, Command, FillSettings, HoldReason, POLICIES, Pace, Policy, PolicyEntry, QueueLimits,
    ReadAhead, ScanId, ScanOptions, View,
};
use headtime_units::{Extent, Nanos, Sectors};
use proptest::prelude::*;

use crate::drive::ServiceOrder;
use crate::merging::Merging;
use crate::scans::{POINT_IN_TIME, eager, everything, not_idle};
use crate::session::{Session, Setup, flush, fua, read, request, write};
use crate::tiny::{CAPACITY, TinyBelief};

/// A policy that holds back for a while, again and again, whatever else is possible.
struct Refusing {
    reason: HoldReason,
    pending: u32,
}

impl Policy for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        2
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        self.pending += 1;
        if self.pending.is_multiple_of(3) {
            return Choice::one(view.queue.oldest().map(|oldest| oldest.ticket));
        }
        Choice::Hold { until: view.now + Nanos::from_ms(7), reason: self.reason }
    }
}

fn settings() -> [FillSettings; 5] {
    [
        eager(),
        not_idle(eager()),
        FillSettings { read_ahead: ReadAhead::Unknown, ..eager() },
        FillSettings { in_firmware: true, conservatism: Some(Nanos::ZERO), ..eager() },
        FillSettings {
            waiting_needed: 3,
            controls: 3,
            merge_front: false,
            merge_back: false,
            effort: 3,
            ..eager()
        },
    ]
}

fn mixed(session: &mut Session) {
    for id in 0..24 {
        session.accept(match id % 6 {
            0 => write(id, id * 17 % (CAPACITY - 8), 5),
            1 => fua(write(id, id * 29 % (CAPACITY - 8), 2)),
            2 => flush(id),
            3 => request(id, headtime_sched::Op::Discard, id * 11 % (CAPACITY - 8), 4),
            _ => read(id, id * 53 % (CAPACITY - 8), 3),
        });
        session.pass(Nanos::from_us(1_300 * (id % 4)));
    }
}

#[test]
fn under_every_policy_and_setting_each_gets_his_own() {
    for entry in POLICIES {
        for (number, settings) in settings().into_iter().enumerate() {
            for (fua, two_arms) in [(true, false), (false, false), (true, true)] {
                let policy = if two_arms { by_arm(entry.name) } else { entry.build_default() };
                let mut setup = Setup::with(policy).fua(fua);
                setup.belief.knows_tracks = true;
                if two_arms {
                    setup.belief = setup.belief.with_two_arms();
                }
                let mut session = setup.start();
                session.scan(1, settings, everything(4), ScanOptions::default());
                session.scan(2, settings, everything(1), POINT_IN_TIME);
                mixed(&mut session);
                session.run_to_end();
                assert_eq!(session.finished.len(), 24, "{} with settings {number}", entry.name);
                if settings.idle.enabled {
                    let left = [1, 2].map(|id| session.scheduler.scan_remaining(ScanId(id)));
                    assert_eq!(
                        left,
                        [Some(Sectors::ZERO); 2],
                        "{} with settings {number}",
                        entry.name
                    );
                }
            }
        }
    }
}

#[test]
fn a_policy_that_holds_back_is_obeyed_and_scans_end_all_the_same() {
    for reason in [HoldReason::Anticipation, HoldReason::Deadline, HoldReason::Throttled] {
        let mut setup = Setup::with(Box::new(Refusing { reason, pending: 0 }));
        setup.belief.knows_tracks = true;
        let mut session = setup.start();
        session.scan(1, eager(), everything(1), POINT_IN_TIME);
        mixed(&mut session);
        session.run_to_end();
        assert_eq!(
            (session.finished.len(), session.scheduler.scan_remaining(ScanId(1))),
            (24, Some(Sectors::ZERO))
        );
    }
}

#[test]
fn the_policy_may_change_while_a_request_is_committed() {
    for to in POLICIES {
        for moment in 0..12 {
            let mut setup = Setup::of("fcfs");
            setup.belief.knows_tracks = true;
            let mut session = setup.start();
            session.scan(1, eager(), everything(1), ScanOptions::default());
            for id in 0..10 {
                session.accept(read(id, id * 53 % CAPACITY, 1));
            }
            for _ in 0..moment {
                session.step();
            }
            session.pump();
            session.scheduler.set_policy(to.build_default());
            session.run_to_end();
            assert_eq!(session.finished.len(), 10, "{} at {moment}", to.name);
        }
    }
}

#[test]
fn on_two_arms_each_request_follows_the_reads_in_the_gap_of_its_own_arm() {
    let mut setup = Setup::with(by_arm("fcfs"));
    setup.belief = TinyBelief { knows_tracks: true, ..setup.belief }.with_two_arms();
    let mut session = setup.start();
    // The drive has one arm, so that nothing ends when it is predicted.
    let unbounded = FillSettings { max_impact: f64::INFINITY, ..not_idle(eager()) };
    session.scan(1, unbounded, everything(1), ScanOptions::default());
    for id in 0..40 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    session.run_to_end();
    let on = |arm: u64| {
        let half = Extent::from_numbers(arm * CAPACITY / 2, CAPACITY / 2);
        let commands =
            session.dispatched.iter().filter(move |sent| half.contains(sent.extent.start));
        let of_clients = commands.clone().flat_map(|sent| sent.requests.iter().map(|id| id.0));
        let alone = commands.filter(|sent| sent.requests.is_empty()).count();
        (of_clients.collect::<Vec<u64>>(), alone)
    };
    for (arm, (of_clients, alone)) in [on(0), on(1)].into_iter().enumerate() {
        assert!(of_clients.is_sorted(), "arm {arm}: {of_clients:?} is not the order of arrival");
        assert!(of_clients.len() > 10 && alone > 2, "arm {arm}: {alone} reads, {of_clients:?}");
    }
    // While a read in a gap of one arm is at the drive, one of the other arm is sent.
    let alone = |sent: &Command| sent.requests.is_empty();
    let both = session.dispatched.windows(2).any(|pair| {
        pair.iter().all(alone)
            && (pair[0].extent.start.get() < CAPACITY / 2)
                != (pair[1].extent.start.get() < CAPACITY / 2)
    });
    assert!(both, "{:?}", session.dispatched);
}

#[derive(Clone, Debug)]
enum Event {
    Read { start: u64, len: u64 },
    Write { start: u64, len: u64 },
    Discard { start: u64, len: u64 },
    Flush,
    Cancel { back: u64 },
    Step,
    Pass { us: u64 },
    SetPolicy { policy: usize },
    SetOutstanding { commands: Option<usize> },
    Pace { id: u32, pace: bool },
    Stop { id: u32 },
    Settings { number: usize },
}

#[derive(Clone, Debug)]
struct Scenario {
    policy: usize,
    two_arms: bool,
    fua: bool,
    queue_depth: usize,
    picks: Vec<usize>,
    failing: Vec<bool>,
    grains: (u64, u64),
    events: Vec<Event>,
}

fn policy(index: usize, two_arms: bool) -> Box<dyn Policy> {
    match POLICIES.get(index) {
        None => Box::new(Merging { depth: 2 }),
        Some(entry) if two_arms => by_arm(entry.name),
        Some(entry) => entry.build_default(),
    }
}

/// A policy that decides for each of several arms by itself.
fn by_arm(name: &str) -> Box<dyn Policy> {
    let (entry, parameters) = PolicyEntry::parse(name).expect("a policy of the table");
    entry.by_member(&parameters)
}

fn event() -> impl Strategy<Value = Event> {
    let start = || prop_oneof![0_u64..20, 0_u64..CAPACITY - 16];
    prop_oneof![
        6 => (start(), 1_u64..6).prop_map(|(start, len)| Event::Read { start, len }),
        5 => (start(), 1_u64..6).prop_map(|(start, len)| Event::Write { start, len }),
        1 => (start(), 1_u64..14).prop_map(|(start, len)| Event::Discard { start, len }),
        1 => Just(Event::Flush),
        1 => (0_u64..8).prop_map(|back| Event::Cancel { back }),
        8 => Just(Event::Step),
        4 => (0_u64..30_000).prop_map(|us| Event::Pass { us }),
        1 => (0..=POLICIES.len()).prop_map(|policy| Event::SetPolicy { policy }),
        1 => proptest::option::of(1_usize..5)
            .prop_map(|commands| Event::SetOutstanding { commands }),
        1 => (1_u32..3, any::<bool>()).prop_map(|(id, pace)| Event::Pace { id, pace }),
        1 => (1_u32..2).prop_map(|id| Event::Stop { id }),
        1 => (0_usize..5).prop_map(|number| Event::Settings { number }),
    ]
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let picks = prop_oneof![Just(Vec::new()), proptest::collection::vec(0_usize..64, 1..12)];
    let failing =
        prop_oneof![Just(vec![false]), proptest::collection::vec(prop::bool::weighted(0.2), 1..12)];
    let events = proptest::collection::vec(event(), 1..60);
    let drive = (any::<bool>(), any::<bool>(), 1_usize..6);
    (0..=POLICIES.len(), drive, picks, failing, (1_u64..9, 1_u64..4), events).prop_map(
        |(policy, (fua, two_arms, queue_depth), picks, failing, grains, events)| Scenario {
            policy,
            two_arms,
            fua,
            queue_depth,
            picks,
            failing,
            grains,
            events,
        },
    )
}

fn run(scenario: &Scenario) -> Session {
    let mut completed = 0;
    let failing = scenario.failing.clone();
    let mut setup = Setup::with(policy(scenario.policy, scenario.two_arms))
        .fua(scenario.fua)
        .queue_depth(scenario.queue_depth);
    setup.belief.knows_tracks = true;
    if scenario.two_arms {
        setup.belief = setup.belief.with_two_arms();
    }
    let order = if scenario.picks.is_empty() {
        ServiceOrder::Arrival
    } else {
        ServiceOrder::Picks(scenario.picks.clone())
    };
    let mut session = setup
        .order(order)
        .failing(move |_| {
            completed += 1;
            failing[completed % failing.len()]
        })
        .start();
    session.scan(1, eager(), everything(scenario.grains.0), ScanOptions::default());
    session.scan(2, eager(), everything(scenario.grains.1), POINT_IN_TIME);
    let mut submitted = 0;
    let mut stopped = false;
    let mut submit = |session: &mut Session, request: headtime_sched::Request| {
        session.accept(request);
        submitted += 1;
    };
    for (number, event) in scenario.events.iter().enumerate() {
        let id = number as u64;
        match *event {
            Event::Read { start, len } => submit(&mut session, read(id, start, len)),
            Event::Write { start, len } => submit(&mut session, write(id, start, len)),
            Event::Discard { start, len } => {
                submit(&mut session, request(id, headtime_sched::Op::Discard, start, len))
            }
            Event::Flush => submit(&mut session, flush(id)),
            Event::Cancel { back } => {
                session.cancel(id.saturating_sub(back));
            }
            Event::Step => {
                session.step();
            }
            Event::Pass { us } => session.pass(Nanos::from_us(us)),
            Event::SetPolicy { policy: index } => {
                session.scheduler.set_policy(policy(index, scenario.two_arms))
            }
            Event::SetOutstanding { commands } => {
                session.set_limits(QueueLimits { outstanding: commands, ..QueueLimits::default() })
            }
            Event::Pace { id, pace } => {
                let now = session.now;
                if pace {
                    session.scheduler.scan_resume(now, ScanId(id))
                } else {
                    session.scheduler.scan_pause(now, ScanId(id))
                }
            }
            Event::Stop { id } => {
                session.scan_stop(id);
                stopped |= id == 1;
            }
            Event::Settings { number } => session.scheduler.set_fill(settings()[number]),
        }
        session.scheduler.self_check();
    }
    session.set_limits(QueueLimits::default());
    session.scheduler.set_fill(eager());
    for id in [1, 2] {
        let now = session.now;
        session.scheduler.scan_resume(now, ScanId(id));
    }
    session.run_to_end();
    if !stopped {
        assert_eq!(session.scheduler.scan_remaining(ScanId(1)), Some(Sectors::ZERO));
    }
    assert_eq!(session.scheduler.scan_remaining(ScanId(2)), Some(Sectors::ZERO));
    session
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_session_with_scans_breaks_the_contract(scenario in scenario()) {
        run(&scenario);
    }

    #[test]
    fn the_same_session_with_scans_ends_the_same_way_twice(scenario in scenario()) {
        let (once, again) = (run(&scenario), run(&scenario));
        prop_assert_eq!(once.dispatched, again.dispatched);
        prop_assert_eq!(once.read, again.read);
    }
}

/// The pace of a scan that starts paused.
#[test]
fn a_scan_that_starts_paused_reads_nothing_until_it_is_resumed() {
    let mut session = Setup::of("sptf").start();
    session.scan(
        1,
        eager(),
        everything(1),
        ScanOptions { pace: Pace::Paused, ..ScanOptions::default() },
    );
    session.run_to_end();
    assert!(session.dispatched.is_empty());
    let now = session.now;
    session.scheduler.scan_resume(now, ScanId(1));
    session.run_to_end();
    assert_eq!(session.scheduler.scan_remaining(ScanId(1)), Some(Sectors::ZERO));
}
