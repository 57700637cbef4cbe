//! The orders of the latency map: frozen and live queues, starvation, the guarantees of looking
//! ahead, and the tunables.

use std::sync::{Arc, Mutex};

use headtime_sched::{Choice, Finished, Op, Policy, PolicyEntry, PriorityClass, Ticket, View};
use headtime_sched::{IoPriority, Request, Target};
use headtime_units::{Instant, Nanos};
use proptest::prelude::*;

use crate::session::{Session, Setup, due, read, write};
use crate::tiny::{CAPACITY, TinyBelief};

/// The order when 0 is served while 1 (far) and 2 (near) wait, and 3, next to 2, arrives while the
/// first of the two is served. In time as in addresses 2 is nearest: it begins 2 ms after the end
/// of 0, and 1 a revolution after it; after 2, 3 begins after one ms and 1 after 5; and from 3
/// there are 3 ms to 1, where the arm takes 2.2.
fn with_a_newcomer(policy: &str) -> Vec<u64> {
    let mut session = Setup::of(policy).start();
    session.accept(read(0, 0, 1));
    session.pump();
    session.accept(read(1, 177, 1));
    session.accept(read(2, 3, 1));
    // Served at 9.1 at the latest; by then the next is at the drive.
    while session.dispatched.len() < 2 {
        session.step();
        session.pump();
    }
    session.accept(read(3, 5, 1));
    session.run_to_end();
    session.served()
}

#[test]
fn a_newcomer_waits_for_the_next_batch_of_a_frozen_queue_and_for_nothing_on_a_live_one() {
    for policy in [
        "fsatf-lbn",
        "fsatf-map",
        "fsatf-map:nearest_first=1",
        "fsatf-map:nearest_first=2",
        "fsatf-map-exact",
    ] {
        assert_eq!(with_a_newcomer(policy), [0, 2, 1, 3], "{policy}");
    }
    for policy in [
        "satf-lbn",
        "satf-map",
        "satf-map:rebuild_after=1",
        "satf-map:rebuild_after=1,nearest_first=1",
    ] {
        assert_eq!(with_a_newcomer(policy), [0, 2, 3, 1], "{policy}");
    }
}

/// A batch has at most its maximum size, and the oldest requests.
#[test]
fn the_oldest_are_planned_first_where_not_all_are() {
    for policy in [
        "fsatf-map:plan_most=2",
        "fsatf-map-exact:plan_most=2",
        "satf-map:plan_most=1",
        "fsatf-map:plan_most=1",
    ] {
        let mut session = Setup::of(policy).start();
        for (id, lba) in [(0, 0), (1, 190), (2, 180), (3, 1), (4, 2)] {
            session.accept(read(id, lba, 1));
        }
        session.run_to_end();
        let served = session.served();
        let place = |id: u64| served.iter().position(|other| *other == id).unwrap();
        assert!(place(1).max(place(2)) < place(3).min(place(4)), "{policy}: {served:?}");
    }
}

/// The number of requests next to the head that are served before one at the far end of the drive,
/// if three of them always wait.
fn served_before_the_far_one(policy: &str, most: usize) -> usize {
    let mut session = Setup::of(policy).start();
    let near = |id: u64| read(id, id * 5 % 16, 1);
    session.accept(read(0, CAPACITY - 1, 1));
    // The head moves to the near end first.
    for id in 1..4 {
        session.accept(near(id));
    }
    for id in 4.. {
        let over = session.finished.len();
        while session.finished.len() == over {
            assert!(session.step(), "somebody always waits");
        }
        let far = session.finished.iter().position(|finished| finished.request.id.0 == 0);
        if let Some(place) = far {
            return place;
        }
        if session.finished.len() >= most {
            return most;
        }
        session.accept(near(id));
    }
    unreachable!("the numbers do not end")
}

/// A revolution takes 8 ms, so 500 ms are some 62 requests. Each page says the same.
#[test]
fn nobody_starves_where_a_policy_says_so() {
    for (policy, bound) in [
        ("fcfs", 2),
        ("noop", 2),
        ("fsatf-lbn", 8),
        ("fsatf-map", 8),
        ("fsatf-map-exact", 8),
        ("deadline", 600),
        ("cfq", 600),
        ("as", 600),
        ("cas", 600),
        ("mq-deadline", 600),
        ("bfq", 600),
        ("kyber", 40),
    ] {
        let served = served_before_the_far_one(policy, 1_000);
        assert!(served <= bound, "{policy}: {served} went before the far one");
    }
    assert_eq!(
        served_before_the_far_one("satf-lbn", 1_000),
        1_000,
        "it never goes to the far one, and its page states that"
    );
}

#[test]
fn processes_take_turns_under_cfq_and_one_request_each_is_the_order_of_arrival() {
    let of = |stream: u32, request: Request| Request {
        stream: headtime_sched::StreamId(stream),
        ..request
    };
    let mut session = Setup::of("cfq").start();
    // The worked example of its page, with the command before at LBA 89.
    session.accept(of(9, read(0, 89, 1)));
    session.pump();
    for request in [
        of(1, read(1, 190, 1)),
        of(1, read(2, 100, 1)),
        of(2, read(3, 150, 1)),
        of(3, read(4, 120, 1)),
    ] {
        session.accept(request);
    }
    session.run_to_end();
    assert_eq!(session.served(), [0, 2, 3, 4, 1]);
    let mut session = Setup::of("cfq").start();
    for id in 0..8 {
        session.accept(of(id as u32, read(id, id * 53 % CAPACITY, 1)));
    }
    session.run_to_end();
    assert_eq!(session.served(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Reads at 50, 130 and 132 (2 sectors each), a write at 20; a read at 40 goes first. 50 is a batch
/// of its own, because 130 needs a seek; 130 and 132 are one. Then the write has waited for two
/// batches.
#[test]
fn deadline_goes_in_batches_and_lets_writes_wait_for_two_of_them() {
    let order = |policy: &str| {
        let mut session = Setup::of(policy).start();
        for request in
            [read(0, 40, 2), read(1, 50, 2), read(2, 130, 2), read(3, 132, 2), write(4, 20, 2)]
        {
            session.accept(request);
        }
        session.accept(read(5, 170, 2));
        session.run_to_end();
        session.served()
    };
    // Batches of reads since the write waits: 40, then 50; it goes; then 130 is found from the
    // lowest address on, for the last batch was of writes.
    assert_eq!(order("deadline"), [0, 1, 4, 2, 3, 5]);
    assert_eq!(order("deadline:writes_starved=1"), [0, 4, 1, 2, 3, 5]);
    assert_eq!(order("deadline:writes_starved=3"), [0, 1, 2, 3, 4, 5]);
    // A seek ends no batch: all five reads are one.
    assert_eq!(order("deadline:seeks_in_batch=1"), [0, 1, 2, 3, 5, 4]);
    assert_eq!(
        order("deadline:seeks_in_batch=1,fifo_batch=2,writes_starved=1"),
        [0, 1, 4, 2, 3, 5]
    );
}

#[test]
fn deadline_begins_a_batch_with_the_read_that_has_waited_too_long() {
    let mut session = Setup::of("deadline:read_expire_ms=30").start();
    session.accept(read(0, 100, 1));
    session.pump();
    session.accept(read(1, 10, 1));
    for id in 2..8 {
        session.accept(read(id, 100 + id, 1));
    }
    session.run_to_end();
    // One after the other from 102 on, each a revolution: the one at 10 waits until 30 ms have
    // passed, although the sweep has not reached it.
    let served = session.served();
    let place = served.iter().position(|id| *id == 1).unwrap();
    assert_eq!(served[..3], [0, 2, 3]);
    assert!(
        place > 2 && place < 8 && session.end_of(1).dispatched >= Instant::from_ns(30_000_000),
        "{served:?}"
    );
}

/// A policy whose choices are compared with a search of every order of the first few deadlines.
struct Watched {
    inner: Box<dyn Policy>,
    k: usize,
    decisions: Arc<Mutex<usize>>,
}

impl Watched {
    /// Overtime and length of every order of the first k, by the view's own estimates, in the order
    /// of their numbers.
    fn judged(&self, view: &View<'_>) -> Vec<(Nanos, Nanos, Ticket)> {
        let first: Vec<(Ticket, Target, Instant)> = view
            .queue
            .by_deadline()
            .take(self.k)
            .map(|queued| (queued.ticket, queued.target, queued.deadline.unwrap_or(Instant::NEVER)))
            .collect();
        orders(first.len())
            .into_iter()
            .map(|order| {
                let (mut length, mut overtime) = (Nanos::ZERO, Nanos::ZERO);
                for (place, request) in order.iter().enumerate() {
                    let (_, target, deadline) = &first[*request];
                    let pair = match place.checked_sub(1) {
                        None => view.next(target),
                        Some(before) => view.pair(&first[order[before]].1, target),
                    };
                    length += pair.expected;
                    overtime = overtime.max((view.ready_at() + length).saturating_since(*deadline));
                }
                (overtime, length, first[order[0]].0)
            })
            .collect()
    }
}

/// Every order of the numbers below `count`, ascending as rows.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![vec![]];
    for _ in 0..count {
        let longer = |order: &Vec<usize>| {
            (0..count)
                .filter(|next| !order.contains(next))
                .map(|next| [&order[..], &[next]].concat())
                .collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

impl Policy for Watched {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn depth(&self, view: &View<'_>) -> usize {
        self.inner.depth(view)
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let judged = self.judged(view);
        let by_deadline = judged[0];
        let (least, _, first) = *judged
            .iter()
            .min_by_key(|(overtime, length, _)| (*overtime, *length))
            .expect("somebody waits");
        assert!(least <= by_deadline.0, "the order of deadlines is one of them");
        let choice = self.inner.choose(view);
        assert_eq!(
            choice,
            Choice::one(Some(first)),
            "{} does not begin the best order of the first {}",
            self.inner.name(),
            self.k
        );
        assert_eq!(self.inner.choose(view), choice, "asked again it answers the same");
        *self.decisions.lock().expect("no test panics while it counts") += 1;
        choice
    }

    fn finished(&mut self, finished: &Finished) {
        self.inner.finished(finished);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// By its own estimates the order that `g-matrix` begins has no more overtime than any other of
    /// the first k, that of EDF among them, and of those the shortest path.
    #[test]
    fn g_matrix_begins_the_order_with_the_least_overtime(
        k in 1_usize..6,
        requests in proptest::collection::vec(
            (0..CAPACITY, any::<bool>(), proptest::option::of(1_u64..120), 0_u64..12),
            1..14,
        ),
    ) {
        let decisions = Arc::new(Mutex::new(0));
        let (entry, parameters) = PolicyEntry::parse(&format!("g-matrix:lookahead_k={k}")).unwrap();
        let watched =
            Watched { inner: (entry.build)(&parameters), k, decisions: Arc::clone(&decisions) };
        let mut session = Setup::with(Box::new(watched)).start();
        for (id, (lba, writes, within_ms, later_ms)) in requests.iter().enumerate() {
            session.pass(Nanos::from_ms(*later_ms));
            let request =
                if *writes { write(id as u64, *lba, 1) } else { read(id as u64, *lba, 1) };
            let at_ms = session.now.as_ns() / 1_000_000;
            session.accept(within_ms.map_or(request, |within_ms| due(request, at_ms + within_ms)));
        }
        session.run_to_end();
        prop_assert_eq!(*decisions.lock().unwrap(), requests.len());
    }
}

/// The scenario of the golden orders.
fn golden(policy: &str, tune: impl FnOnce(&mut Session)) -> Vec<u64> {
    let mut session = Setup::of(policy).start();
    session.accept(read(0, 72, 1));
    session.pump();
    for request in [
        read(1, 146, 1),
        due(read(2, 24, 1), 60),
        read(3, 75, 1),
        due(read(4, 25, 1), 20),
        due(read(5, 95, 1), 20),
        read(6, 0, 1),
    ] {
        session.accept(request);
    }
    tune(&mut session);
    session.run_to_end();
    session.served()
}

#[test]
fn tunables_are_changed_while_running() {
    let set = |name: &'static str, value: &'static str| {
        move |session: &mut Session| session.scheduler.tune(name, value).expect("it is in range")
    };
    assert_eq!(
        golden("g-matrix", set("lookahead_k", "1")),
        golden("g-matrix:lookahead_k=1", |_| ())
    );
    assert_eq!(
        golden("g-matrix:lookahead_k=1", set("lookahead_k", "4")),
        golden("g-matrix", |_| ())
    );
    assert_eq!(
        golden("g-matrix", set("latency_matrix", "ignore")),
        golden("g-matrix:lookahead_k=1", |_| ())
    );
    // By distance from 73: down to 6 (73), then up: 23 + 0 + 49 + 19 + 50 make 214; up first and
    // then down are 2 + 19 + 50 + 122 + 2 + 25 = 220.
    assert_eq!(golden("fsatf-map-exact", set("latency_matrix", "ignore")), [0, 6, 2, 4, 3, 5, 1]);
    assert_ne!(golden("fsatf-map-exact", |_| ()), [0, 6, 2, 4, 3, 5, 1]);
    // While requests wait.
    let changed_midway = |session: &mut Session| {
        session.step();
        session.pump();
        session.scheduler.tune("latency_matrix", "ignore").unwrap();
    };
    let served = golden("satf-map", changed_midway);
    assert_eq!(served[..2], [0, 3]);
    assert_eq!(served.len(), 7);
    let mut session = Setup::of("g-matrix").start();
    let refused =
        session.scheduler.tune("lookahead_k", "9").expect_err("8 is the most").to_string();
    assert_eq!(
        refused,
        "lookahead_k: `9` is no value; write a whole number from 1 to 8, or policy"
    );
    assert_eq!(session.scheduler.tunables().get("lookahead_k").unwrap(), "policy");
}

#[test]
fn a_priority_is_a_deadline_where_the_table_says_so() {
    let mut session = Setup::of("edf").start();
    session.scheduler.tune("deadlines", "rt=50ms,be/7=1s").unwrap();
    session.pass(Nanos::from_ms(7));
    let priority = |class, level| IoPriority::new(class, level).unwrap();
    let (urgent, lazy, usual) = (
        priority(PriorityClass::RealTime, 0),
        priority(PriorityClass::BestEffort, 7),
        priority(PriorityClass::BestEffort, 4),
    );
    for (request, priority) in [
        (read(0, 0, 1), usual),
        (read(1, 9, 1), lazy),
        (read(2, 18, 1), urgent),
        (due(read(3, 27, 1), 90), urgent),
    ] {
        let _ = session.scheduler.submit_with_priority(session.now, request, priority);
    }
    let deadlines: Vec<Option<u64>> = session
        .scheduler
        .queue()
        .by_arrival()
        .map(|queued| queued.deadline.map(|deadline| deadline.as_ns() / 1_000_000))
        .collect();
    assert_eq!(
        deadlines,
        [None, Some(1_007), Some(57), Some(90)],
        "its own deadline goes before the table's"
    );
}

#[test]
fn a_belief_is_told_whole_ticks_where_the_timer_gives_no_more() {
    let belief = TinyBelief::default();
    let learned = Arc::clone(&belief.learned);
    let mut session = Setup { belief, ..Setup::of("fcfs") }.start();
    session.scheduler.tune("timesource", "ticks=4ms").unwrap();
    for id in 0..3 {
        session.accept(read(id, id * 60, 1));
    }
    session.run_to_end();
    let learned = learned.lock().unwrap();
    assert_eq!(learned.len(), 3);
    for measured in learned.iter() {
        let before = measured.head_before.map_or(Instant::ORIGIN, |head| head.free_at);
        for at in [measured.dispatched, measured.finished, before] {
            assert_eq!(at.as_ns() % 4_000_000, 0, "{at}");
        }
    }
    assert!(
        session.finished.iter().all(|finished| finished.request.op == Op::Read
            && finished.finished.as_ns() % 4_000_000 != 0),
        "reports stay what they are"
    );
}
