//! The decisions of Linux's schedulers, computed by hand on the tiny drive.

use headtime_sched::{
    AccessKind, IoPriority, Op, PriorityClass, Request, ShareChange, StreamId, VolumeId,
};
use headtime_units::{Instant, Nanos};

use crate::session::{Session, Setup, fua, read, request, write};
use crate::shares::{of_volume, reserving, tenant};
use crate::tiny::TinyBelief;

/// The same request, of another process.
fn of(stream: u32, request: Request) -> Request {
    Request { stream: StreamId(stream), ..request }
}

/// The requests of each command, in the order they were sent.
fn commands(session: &Session) -> Vec<Vec<u64>> {
    session
        .dispatched
        .iter()
        .map(|command| command.requests.iter().map(|id| id.0).collect())
        .collect()
}

/// The commands when 0 is served while `requests` arrive.
fn commands_after_0(policy: &str, requests: &[Request]) -> Vec<Vec<u64>> {
    let mut session = Setup::of(policy).start();
    session.accept(read(0, 0, 1));
    session.pump();
    for request in requests {
        session.accept(*request);
    }
    session.run_to_end();
    commands(&session)
}

#[test]
fn noop_merges_what_abuts_on_either_side_and_keeps_the_order_of_arrival() {
    // The worked example of its page.
    let requests = [read(1, 100, 4), read(2, 50, 2), read(3, 104, 4), read(4, 96, 4)];
    assert_eq!(commands_after_0("noop", &requests), [vec![0], vec![4, 1, 3], vec![2]]);
    // Twelve sectors are too many for one command, then eight are.
    assert_eq!(
        commands_after_0("noop:max_sectors=8", &requests),
        [vec![0], vec![1, 3], vec![2], vec![4]]
    );
    assert_eq!(
        commands_after_0("noop:max_sectors=7", &requests),
        [vec![0], vec![1], vec![2], vec![3], vec![4]]
    );
}

#[test]
fn only_requests_of_one_operation_tenant_and_durability_are_merged() {
    let elsewhere = Request { volume: VolumeId(1), ..read(2, 101, 1) };
    for other in [elsewhere, write(2, 101, 1)] {
        let alone = [vec![0], vec![1], vec![2]];
        assert_eq!(commands_after_0("noop", &[read(1, 100, 1), other]), alone, "{other:?}");
    }
    let writes = [write(1, 100, 1), fua(write(2, 101, 1))];
    assert_eq!(commands_after_0("noop", &writes), [vec![0], vec![1], vec![2]]);
    let writes = writes.map(fua);
    assert_eq!(commands_after_0("noop", &writes), [vec![0], vec![1, 2]]);
}

/// Process 1 reads sector 0 while process 2 waits for a sector far away. 2 ms after the report,
/// which is at 9.1, `event` happens.
fn far_request_waits(policy: &str, event: impl FnOnce(&mut Session)) -> Session {
    let mut session = Setup::of(policy).start();
    session.accept(of(1, read(0, 8, 1)));
    session.pump();
    session.accept(of(2, read(1, 150, 1)));
    while session.finished.is_empty() {
        session.step();
    }
    session.pass(Nanos::from_ms(2));
    event(&mut session);
    session.run_to_end();
    session
}

/// The worked examples of the pages of `as` and `cas`. Sectors 9 and 14 are within eight sectors of
/// the head at 9.
#[test]
fn a_wait_ends_with_a_near_read_or_by_time() {
    let again = |session: &mut Session| session.accept(of(1, read(2, 60, 1)));
    let near = |session: &mut Session| session.accept(of(3, read(2, 14, 1)));
    let far = |session: &mut Session| session.accept(of(3, read(2, 170, 1)));
    let nothing = |_: &mut Session| ();
    for policy in ["as:close_sectors=4", "cas:close_sectors=4"] {
        // A read of the same process goes at once, wherever it is.
        assert_eq!(far_request_waits(policy, again).served(), [0, 2, 1], "{policy}");
        // So does a close one of another: 4 sectors count as 16 after 2 ms.
        assert_eq!(far_request_waits(policy, near).served(), [0, 2, 1], "{policy}");
        // The wait ends after 6 ms.
        for session in [far_request_waits(policy, nothing), far_request_waits(policy, far)] {
            let idle =
                session.finished[1].dispatched.saturating_since(session.finished[0].finished);
            assert_eq!(
                (session.finished[1].request.id.0, idle),
                (1, Nanos::from_ms(6)),
                "{policy}"
            );
        }
    }
    for policy in ["as:antic_expire_ms=0", "cas:antic_expire_ms=0", "deadline"] {
        assert_eq!(far_request_waits(policy, again).served(), [0, 1, 2], "{policy}");
    }
}

/// Sector 3 is close to the head, which stays at 0 when the drive's cache answers, but not to the
/// process.
#[test]
fn a_process_is_expected_where_it_read_also_from_the_cache() {
    for policy in ["as:close_sectors=4", "cas:close_sectors=4"] {
        let setup = Setup::of(policy);
        let belief = TinyBelief { says: AccessKind::CacheHit, ..TinyBelief::default() };
        let mut session = Setup { belief, ..setup }.start();
        session.accept(of(1, read(0, 100, 1)));
        session.pump();
        session.accept(of(2, read(1, 3, 1)));
        session.run_to_end();
        let idle = session.end_of(1).dispatched.saturating_since(session.end_of(0).finished);
        assert_eq!(idle, Nanos::from_ms(6), "{policy}");
    }
}

#[test]
fn cooperation_outlives_the_process() {
    let order = |policy| {
        let ended = |session: &mut Session| {
            session.scheduler.stream_ended(session.now, StreamId(1));
            session.pass(Nanos::from_ms(1));
            session.accept(of(3, read(2, 14, 1)));
        };
        far_request_waits(policy, ended).served()
    };
    assert_eq!(order("as:close_sectors=4"), [0, 1, 2]);
    assert_eq!(order("cas:close_sectors=4"), [0, 2, 1]);
    // One process that ended after its first request makes the system exit probability an eighth.
    assert_eq!(order("cas:close_sectors=4,step_4_system=1"), [0, 1, 2]);
}

#[test]
fn a_process_that_thinks_for_long_is_not_waited_for() {
    for (policy, think_ms, waits) in [
        ("as", 3, true),
        ("as", 10, false),
        ("cas", 10, false),
        ("as:antic_expire_ms=12", 10, true),
    ] {
        let mut session = Setup::of(policy).start();
        for id in 0..4 {
            session.accept(of(1, read(id, id, 1)));
            while session.finished.len() <= id as usize {
                session.step();
            }
            session.pass(Nanos::from_ms(think_ms));
        }
        session.accept(of(1, read(4, 4, 1)));
        session.pump();
        session.accept(of(2, read(5, 190, 1)));
        session.run_to_end();
        let idle = session.end_of(5).dispatched.saturating_since(session.end_of(4).finished);
        assert_eq!(idle > Nanos::ZERO, waits, "{policy}, {think_ms} ms: {idle}");
    }
}

/// Reads until 3 s by a process that reads on and on from one end of the drive, and by short ones
/// that follow each other at the other end, with a millisecond between each two; returns the number
/// of each.
fn stream_and_chain(policy: &str) -> (u64, u64) {
    let mut session = Setup::of(policy).start();
    let (mut stream, mut chain) = (0, 0);
    let next = |id: u64, stream: u64, chain: u64| match id % 2 {
        0 => of(0, read(id, stream % 64, 1)),
        _ => of(id as u32, read(id, 128 + chain % 64, 1)),
    };
    session.accept(next(0, stream, chain));
    session.accept(next(1, stream, chain));
    let (mut id, mut seen) = (2, 0);
    while session.now.as_ns() < 3_000_000_000 {
        session.pass(Nanos::from_ms(1));
        for finished in session.finished.split_off(seen) {
            let is_chain = finished.request.id.0 % 2;
            if is_chain == 1 {
                session.scheduler.stream_ended(session.now, finished.request.stream);
            }
            (stream, chain) = (stream + 1 - is_chain, chain + is_chain);
            session.accept(next(id + is_chain, stream, chain));
            id += 2;
            session.finished.push(finished);
            seen += 1;
        }
    }
    session.run_to_end();
    (stream, chain)
}

/// P3 section 3.1. Short reads near the head take about 9 ms here.
#[test]
fn a_chain_of_short_processes_starves_beside_a_stream_under_as_and_not_under_cas() {
    let (stream, chain) = stream_and_chain("as:close_sectors=4");
    assert!(stream > 250 && chain < 30, "{stream}, {chain}: one for each read_expire at the most");
    let (stream, chain) = stream_and_chain("cas:close_sectors=4");
    assert!(stream > 100 && chain > 100, "{stream}, {chain}");
}

/// A read that follows each other, and a write that waits from the start.
#[test]
fn a_batch_of_reads_ends_while_a_write_waits() {
    for (policy, from_ms, to_ms) in [("as:read_batch_expire_ms=40", 40, 70), ("as", 500, 530)] {
        let mut session = Setup::of(policy).start();
        session.accept(read(0, 0, 1));
        session.pump();
        session.accept(write(1_000, 100, 1));
        for id in 1..80 {
            while session.finished.len() < id as usize {
                session.step();
            }
            session.accept(read(id, id % 64, 1));
        }
        session.run_to_end();
        let sent = session.end_of(1_000).dispatched;
        let ms = sent.as_ns() / 1_000_000;
        assert!((from_ms..to_ms).contains(&ms), "{policy}: the write goes at {sent}");
    }
}

/// Reads wait at 20, 40 and so on; all have waited for longer than `read_expire`. The oldest is the
/// last by address.
fn all_are_late(policy: &str) -> Vec<u64> {
    let mut session = Setup::of(policy).start();
    session.accept(read(0, 100, 1));
    session.pump();
    for (id, lba) in [(1, 180), (2, 20), (3, 160), (4, 40), (5, 140), (6, 60), (7, 120), (8, 80)] {
        session.accept(read(id, lba, 1));
    }
    session.run_to_end();
    session.served()
}

/// The worked example of its page: a batch of `mq-deadline` that begins with a late request
/// continues as a sweep, while `deadline` of 2.6.9 serves late requests one by one.
#[test]
fn mq_deadline_stays_a_sweep_when_all_requests_are_late() {
    assert_eq!(all_are_late("deadline:read_expire_ms=1"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let policy = "mq-deadline:read_expire_ms=1,fifo_batch=4,queue_depth=1";
    // The first batch continues from 100 with 120, 140 and 160. Then 180 is the oldest; 20 is the
    // oldest after it, and 40, 60 and 80 follow.
    assert_eq!(all_are_late(policy), [0, 7, 5, 3, 1, 2, 4, 6, 8]);
}

#[test]
fn mq_deadline_lets_writes_wait_for_two_batches_of_reads() {
    let order = |settings: &str| {
        let mut session =
            Setup::of(&format!("mq-deadline:queue_depth=1,fifo_batch=2{settings}")).start();
        session.accept(read(0, 0, 1));
        session.pump();
        session.accept(write(9, 5, 1));
        for id in 1..8 {
            session.accept(read(id, id * 20, 1));
        }
        session.run_to_end();
        session.served()
    };
    // The batch of 0 and 1 began before the write came.
    assert_eq!(order(""), [0, 1, 2, 3, 4, 5, 9, 6, 7]);
    assert_eq!(order(",writes_starved=0"), [0, 1, 9, 2, 3, 4, 5, 6, 7]);
    assert_eq!(order(",writes_starved=3"), [0, 1, 2, 3, 4, 5, 6, 7, 9]);
}

#[test]
fn front_merges_can_be_switched_off() {
    let requests = [read(1, 100, 4), read(2, 104, 4), read(3, 96, 4)];
    let merged = |front| {
        let policy = format!("mq-deadline:queue_depth=1,front_merges={front},fifo_batch=1");
        // The oldest begins each batch.
        commands_after_0(&(policy + ",read_expire_ms=1"), &requests)
    };
    assert_eq!(merged(1), [vec![0], vec![3, 1, 2]]);
    assert_eq!(merged(0), [vec![0], vec![1, 2], vec![3]]);
}

/// Requests by class, the lowest first, and the time at which the one of the class `idle` is sent.
fn by_class(policy: &str) -> (Vec<u64>, Nanos) {
    let priority = IoPriority::default_of;
    let mut session = Setup::of(policy).start();
    session.accept_as(priority(PriorityClass::Idle), read(0, 0, 1));
    session.accept_as(priority(PriorityClass::BestEffort), read(1, 50, 1));
    session.accept(read(2, 90, 1));
    for id in 3..12 {
        session.accept_as(priority(PriorityClass::RealTime), read(id, 20 * (id % 9), 1));
    }
    session.run_to_end();
    let (idle, last) = (session.end_of(0).dispatched, session.end_of(1).finished);
    assert!(!policy.contains("10000") || idle >= last, "it waits for those at the drive");
    (session.served(), idle.saturating_since(Instant::ORIGIN))
}

#[test]
fn mq_deadline_serves_the_highest_class_first_and_the_lowest_after_its_aging_time() {
    let (order, _) = by_class("mq-deadline:prio_aging_expire_ms=10000");
    assert!(order[..9].iter().all(|id| *id >= 3), "real time first: {order:?}");
    assert_eq!(order[9..], [1, 2, 0], "then best effort, which is the default");
    // After 30 ms those of the lower classes go, one class after the other.
    let (order, idle) = by_class("mq-deadline:prio_aging_expire_ms=30,queue_depth=1");
    let place = |id: u64| order.iter().position(|other| *other == id);
    assert!(place(3) < place(1) && place(1) < place(0) && place(0) < place(8), "{order:?}");
    assert!((30..80).contains(&(idle.as_ns() / 1_000_000)), "{idle}");
}

/// Two processes that read on and on from sectors 0 and 96, the second one from 2 s on, so that
/// they do not count as cooperating. Returns the processes of the commands sent after `from_s`.
fn two_readers(policy: &str, priorities: [u8; 2], from_s: u64, to_s: u64) -> Vec<u32> {
    two_readers_with(policy, priorities, [0.0; 2], from_s, to_s)
}

/// The same, with a reservation in percent for the volume of each.
fn two_readers_with(
    policy: &str,
    priorities: [u8; 2],
    reserves: [f64; 2],
    from_s: u64,
    to_s: u64,
) -> Vec<u32> {
    let level = |stream: u32| {
        IoPriority::new(PriorityClass::BestEffort, priorities[stream as usize]).expect("a level")
    };
    let mut session = Setup::of(policy).start();
    for (volume, reserve) in (0..).zip(reserves) {
        let change = ShareChange::Set(tenant(volume), reserving(reserve));
        session.scheduler.change_shares(session.now, &[change]).expect("they are reservable");
    }
    let (mut next, mut id, mut seen) = ([0, 96], 0, 0);
    let mut submit = |session: &mut Session, stream: u32| {
        let place = &mut next[stream as usize];
        let request = of_volume(stream, of(stream, read(id, *place, 1)));
        session.accept_as(level(stream), request);
        *place = u64::from(stream) * 96 + (*place + 1) % 96;
        id += 1;
    };
    submit(&mut session, 0);
    let mut both = false;
    while session.now.as_ns() < to_s * 1_000_000_000 {
        session.pass(Nanos::from_ms(1));
        if !both && session.now.as_ns() > 2_000_000_000 {
            submit(&mut session, 1);
            both = true;
        }
        while let Some(finished) = session.finished.get(seen) {
            let stream = finished.request.stream;
            submit(&mut session, stream.0);
            seen += 1;
        }
    }
    session.run_to_end();
    let late = session
        .finished
        .iter()
        .filter(|finished| finished.dispatched.as_ns() >= from_s * 1_000_000_000);
    late.map(|finished| finished.request.stream.0).collect()
}

/// The worked example of its page.
#[test]
fn bfq_serves_a_process_until_its_budget_is_used_up() {
    for budget in [4, 10] {
        let policy = format!("bfq:max_budget={budget},timeout_sync_ms=1000");
        let order = two_readers(&policy, [4, 4], 4, 8);
        let runs: Vec<usize> = order.chunk_by(|one, next| one == next).map(<[u32]>::len).collect();
        assert!(runs.len() > 10, "{order:?}");
        assert!(runs[1..runs.len() - 2].iter().all(|run| *run == budget), "{runs:?}");
    }
}

#[test]
fn bfq_ends_a_service_by_time() {
    // A read of one sector takes a revolution of 8 ms here.
    let order = two_readers("bfq:timeout_sync_ms=50", [4, 4], 4, 8);
    let runs: Vec<usize> = order.chunk_by(|one, next| one == next).map(<[u32]>::len).collect();
    assert!(runs[1..runs.len() - 2].iter().all(|run| (4..=9).contains(run)), "{runs:?}");
}

#[test]
fn bfq_divides_sectors_by_weight() {
    // Weights 40 and 40, 80 and 40, 40 and 20; then those of the reservations.
    for (priorities, reserves, ratio) in [
        ([4, 4], [0.0; 2], 1.0),
        ([0, 4], [0.0; 2], 2.0),
        ([4, 6], [0.0; 2], 2.0),
        ([4, 4], [60.0, 20.0], 3.0),
    ] {
        let policy = "bfq:max_budget=8,timeout_sync_ms=1000";
        let order = two_readers_with(policy, priorities, reserves, 3, 11);
        let first = order.iter().filter(|stream| **stream == 0).count();
        let counted = first as f64 / (order.len() - first) as f64;
        assert!(
            (counted / ratio - 1.0).abs() < 0.1,
            "{priorities:?}, {reserves:?}: {counted} instead of {ratio}"
        );
    }
}

/// A process that has existed for 2 s reads, and a far request of another waits.
#[test]
fn bfq_waits_for_the_next_request_of_a_sequential_process() {
    let idle = |policy: &str, returns: bool| {
        let mut session = Setup::of(policy).start();
        session.accept(of(1, read(0, 8, 1)));
        session.pass(Nanos::from_secs(2));
        session.accept(of(1, read(1, 9, 1)));
        session.pump();
        session.accept(of(2, read(2, 150, 1)));
        while session.finished.len() < 2 {
            session.step();
        }
        session.pass(Nanos::from_ms(2));
        if returns {
            session.accept(of(1, read(3, 60, 1)));
        }
        session.run_to_end();
        let next = session.finished[2];
        (next.request.id.0, next.dispatched.saturating_since(session.end_of(1).finished))
    };
    assert_eq!(idle("bfq:queue_depth=1", true), (3, Nanos::from_ms(2)));
    assert_eq!(idle("bfq:queue_depth=1", false), (2, Nanos::from_ms(8)));
    assert_eq!(idle("bfq:queue_depth=1,slice_idle_ms=5", false), (2, Nanos::from_ms(5)));
    assert_eq!(idle("bfq:queue_depth=1,slice_idle_ms=0", true), (2, Nanos::ZERO));
}

#[test]
fn bfq_serves_cooperating_processes_as_one() {
    let requests = [of(1, read(1, 100, 1)), of(2, read(2, 101, 1)), of(3, write(3, 102, 1))];
    assert_eq!(commands_after_0("bfq", &requests), [vec![0], vec![1, 2], vec![3]]);
    // They are of different groups, or one of them has existed for long.
    let elsewhere = Request { volume: VolumeId(1), ..requests[1] };
    assert_eq!(commands_after_0("bfq", &[requests[0], elsewhere]), [vec![0], vec![1], vec![2]]);
    let mut session = Setup::of("bfq").start();
    session.accept(of(1, read(0, 0, 1)));
    session.pass(Nanos::from_secs(2));
    session.accept(of(9, read(4, 150, 1)));
    session.pump();
    for request in &requests[..2] {
        session.accept(*request);
    }
    session.run_to_end();
    assert!(commands(&session).iter().all(|command| command.len() == 1));
}

#[test]
fn kyber_serves_batches_of_each_kind_in_turn_and_the_oldest_of_a_kind_first() {
    let mut session = Setup::of("kyber:queue_depth=1,read_batch=3,write_batch=2").start();
    session.accept(read(0, 0, 1));
    session.pump();
    for id in 1..6 {
        session.accept(read(id, 180 - 20 * id, 1));
        session.accept(write(10 + id, 190 - 20 * id, 1));
    }
    session.accept(request(20, Op::Zero, 10, 2));
    session.run_to_end();
    assert_eq!(session.served(), [0, 1, 2, 11, 12, 20, 3, 4, 5, 13, 14, 15]);
}

/// Four reads that take longer than their target go to the drive at once. Writes that take less
/// than theirs keep one command there.
#[test]
fn kyber_keeps_few_writes_at_the_drive_while_reads_miss_their_target() {
    let most = |policy: &str| {
        let mut session = Setup::of(policy).start();
        let mut most = 0;
        for id in 0..2_000 {
            session.accept(read(2 * id, 7 * id % 190, 1));
            session.accept(write(2 * id + 1, 11 * id % 190, 1));
            while session.scheduler.held() > 8 {
                session.step();
                let is_write = |op: Op| op == Op::Write;
                let writes = session.scheduler.outstanding().iter();
                let writes = writes.filter(|command| is_write(command.target.op)).count();
                most = if id < 1_000 { 0 } else { most.max(writes) };
            }
        }
        session.run_to_end();
        most
    };
    assert!(most("kyber:write_lat_nsec=10000000000") <= 1);
    assert!(most("kyber:read_lat_nsec=10000000000,write_lat_nsec=10000000000") > 2);
}
