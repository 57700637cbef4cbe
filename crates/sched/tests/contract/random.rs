//! Random sessions over every policy: arrivals, cancellations, changes of policy and limits, errors
//! and reordering by the drive, judged by the model after every event. A failure prints the
//! smallest session that fails and the seed that replays it.

use headtime_sched::{Op, POLICIES, Policy, QueueLimits, Request};
use headtime_units::{Instant, Nanos};
use proptest::prelude::*;

use crate::drive::ServiceOrder;
use crate::merging::Merging;
use crate::session::{Session, Setup, flush, request};
use crate::tiny::CAPACITY;

#[derive(Clone, Debug)]
enum Event {
    Submit {
        op: Op,
        start: u64,
        len: u64,
        fua: bool,
        due_in_ms: Option<u64>,
    },
    /// Of one of the last so many submitted.
    Cancel {
        back: u64,
    },
    Step,
    Pass {
        us: u64,
    },
    SetPolicy {
        policy: usize,
    },
    SetOutstanding {
        commands: Option<usize>,
    },
}

#[derive(Clone, Debug)]
struct Scenario {
    policy: usize,
    fua: bool,
    queue_depth: usize,
    picks: Vec<usize>,
    /// The commands that fail, by number, repeated.
    failing: Vec<bool>,
    events: Vec<Event>,
}

/// The policies of the table, and one that merges.
fn policy(index: usize) -> Box<dyn Policy> {
    POLICIES.get(index).map_or_else(
        || Box::new(Merging { depth: 3 }) as Box<dyn Policy>,
        |entry| entry.build_default(),
    )
}

fn event() -> impl Strategy<Value = Event> {
    let op = prop_oneof![
        4 => Just(Op::Read),
        4 => Just(Op::Write),
        1 => Just(Op::Zero),
        1 => Just(Op::Discard),
        2 => Just(Op::Flush),
    ];
    // Half of them crowd on a few sectors, so that they overlap.
    let start = prop_oneof![0_u64..12, 0_u64..CAPACITY - 16];
    let submit =
        (op, start, 1_u64..10, prop::bool::weighted(0.25), proptest::option::of(0_u64..100));
    let submit = submit.prop_map(|(op, start, len, fua, due_in_ms)| Event::Submit {
        op,
        start,
        len,
        fua,
        due_in_ms,
    });
    prop_oneof![
        12 => submit,
        2 => (0_u64..8).prop_map(|back| Event::Cancel { back }),
        6 => Just(Event::Step),
        3 => (0_u64..12_000).prop_map(|us| Event::Pass { us }),
        1 => (0..=POLICIES.len()).prop_map(|policy| Event::SetPolicy { policy }),
        1 => proptest::option::of(1_usize..5)
            .prop_map(|commands| Event::SetOutstanding { commands }),
    ]
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let picks = proptest::collection::vec(0_usize..64, 0..12);
    let failing =
        prop_oneof![Just(vec![false]), proptest::collection::vec(prop::bool::weighted(0.2), 1..12)];
    let events = proptest::collection::vec(event(), 1..60);
    (0..=POLICIES.len(), any::<bool>(), 1_usize..6, picks, failing, events).prop_map(
        |(policy, fua, queue_depth, picks, failing, events)| Scenario {
            policy,
            fua,
            queue_depth,
            picks,
            failing,
            events,
        },
    )
}

fn run(scenario: &Scenario) -> Session {
    let setup =
        Setup::with(policy(scenario.policy)).fua(scenario.fua).queue_depth(scenario.queue_depth);
    let mut completed = 0;
    let failing = scenario.failing.clone();
    let mut session = setup
        .order(ServiceOrder::Picks(scenario.picks.clone()))
        .failing(move |_| {
            completed += 1;
            failing[completed % failing.len()]
        })
        .start();
    let mut next_id = 0;
    for event in &scenario.events {
        match *event {
            Event::Submit { op, start, len, fua, due_in_ms } => {
                let plain =
                    if op == Op::Flush { flush(next_id) } else { request(next_id, op, start, len) };
                let deadline = due_in_ms.map(|ms| session.now + Nanos::from_ms(ms));
                session.accept(Request { fua, deadline, ..plain });
                next_id += 1;
            }
            Event::Cancel { back } => {
                let _ = session.cancel(next_id.saturating_sub(back));
            }
            Event::Step => {
                session.step();
            }
            Event::Pass { us } => session.pass(Nanos::from_us(us)),
            Event::SetPolicy { policy: index } => session.scheduler.set_policy(policy(index)),
            Event::SetOutstanding { commands } => {
                session.set_limits(QueueLimits { outstanding: commands, ..QueueLimits::default() })
            }
        }
    }
    session.run_to_end();
    session
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_order_durability_and_exactly_once_hold(scenario in scenario()) {
        run(&scenario);
    }

    #[test]
    fn the_same_session_ends_the_same_way_twice(scenario in scenario()) {
        let (once, again) = (run(&scenario), run(&scenario));
        prop_assert_eq!(once.dispatched, again.dispatched);
        prop_assert_eq!(once.finished, again.finished);
        prop_assert!(once.now >= Instant::ORIGIN && once.now == again.now);
    }
}
