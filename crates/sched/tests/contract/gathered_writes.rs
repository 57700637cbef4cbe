//! Writes that wait for room in the drive's cache.

use headtime_sched::{Op, Request};

use crate::session::{Session, Setup, due, flush, read, write};
use crate::tiny::CAPACITY;

/// A run of 300 requests with 40 held, of which two in three are reads, on a drive without FUA.
fn mixed(policy: &str, caches_writes: bool) -> Session {
    let setup = Setup::of(policy).fua(false);
    keep_held(setup, caches_writes, 40, |id| at_random(id, 3)).0
}

/// A read or write, one in `writes` of which is a write; none begins where another ends.
fn at_random(id: u64, writes: u64) -> Request {
    let start = id * 35 % (CAPACITY / 2) * 2;
    if id.is_multiple_of(writes) { write(id, start, 1) } else { read(id, start, 1) }
}

/// A run of 300 requests with `held` of them held, and the maximum number of them at the drive
/// after the first 100.
fn keep_held(
    mut setup: Setup,
    caches_writes: bool,
    held: u64,
    request: impl Fn(u64) -> Request,
) -> (Session, usize) {
    setup.belief.caches_writes = caches_writes;
    let mut session = setup.start();
    (0..held).for_each(|id| session.accept(request(id)));
    let (mut next, mut most) = (held, 0);
    while next < 300 && session.step() {
        while next < session.finished.len() as u64 + held {
            session.accept(request(next));
            next += 1;
        }
        session.pump();
        let sent = session.dispatched.iter().map(|command| command.requests.len()).sum::<usize>();
        let at_drive = sent - session.finished.len();
        most = if next < 100 { at_drive } else { most.max(at_drive) };
    }
    session.run_to_end();
    (session, most)
}

/// The share of the writes that were sent with FUA.
fn forced(session: &Session) -> f64 {
    let writes = session.dispatched.iter().filter(|command| command.op == Op::Write);
    let fua = writes.clone().filter(|command| command.fua).count();
    fua as f64 / writes.count() as f64
}

/// The number of writes that follow a read among the first requests, while 40 are held.
fn changes_to_writes(session: &Session) -> usize {
    let served = session.served();
    served[..260].windows(2).filter(|pair| pair[0] % 3 != 0 && pair[1] % 3 == 0).count()
}

#[test]
fn writes_go_together_where_the_drive_s_cache_is_full() {
    for policy in ["sptf-expected", "headtime"] {
        let gathered = mixed(policy, true);
        let others = mixed(policy, false);
        let (few, many) = (changes_to_writes(&gathered), changes_to_writes(&others));
        assert!(few * 3 < many, "{policy}: {few} and {many}");
        assert_eq!(gathered.finished.len(), 300, "{policy}");
    }
}

/// No request waits longer than a few rounds of the queue.
#[test]
fn writes_that_go_together_starve_no_read() {
    let session = mixed("sptf-expected", true);
    for (place, id) in session.served().into_iter().enumerate() {
        assert!(place as u64 <= id + 3 * 40, "request {id} was served as number {place}");
    }
}

#[test]
fn with_many_requests_at_random_writes_are_forced_to_the_medium() {
    let of = |policy, caches_writes, held, request: fn(u64) -> Request| {
        forced(&keep_held(Setup::of(policy), caches_writes, held, request).0)
    };
    let third = |id| at_random(id, 3);
    assert!(of("headtime", true, 30, third) > 0.8);
    assert_eq!(of("headtime", false, 30, third), 0.0, "the drive has no cache for writes");
    assert_eq!(of("headtime", true, 12, third), 0.0, "the drive chooses among more");
    assert_eq!(of("sptf-expected", true, 30, third), 0.0);
    assert!(of("headtime", true, 18, third) < 0.1);
    let sequential = |id| write(id, id % 3 * (CAPACITY / 3) + id / 3 % (CAPACITY / 3), 1);
    assert_eq!(of("headtime", true, 30, sequential), 0.0, "the drive joins them");
}

#[test]
fn writes_are_forced_that_a_flush_follows_soon() {
    let of = |policy, held, request: fn(u64) -> Request| {
        forced(&keep_held(Setup::of(policy), true, held, request).0)
    };
    let often = |id| if id % 5 == 4 { flush(id) } else { at_random(id, 2) };
    assert!(of("headtime", 8, often) > 0.8);
    assert_eq!(of("sptf-expected", 8, often), 0.0);
    assert_eq!(of("headtime", 1, often), 0.0, "the drive orders two at a time");
    let rarely = |id| if id % 50 == 49 { flush(id) } else { at_random(id, 2) };
    assert_eq!(of("headtime", 4, rarely), 0.0, "the drive orders 25 at a time");
    let log = |id| if id % 2 == 1 { flush(id) } else { write(id, id / 2 % CAPACITY, 1) };
    assert_eq!(of("headtime", 8, log), 0.0, "the drive joins them");
}

#[test]
fn with_few_requests_at_random_the_drive_orders_while_it_destages() {
    let at_drive = |caches_writes, held, request: fn(u64) -> Request| {
        keep_held(Setup::of("headtime"), caches_writes, held, request).1
    };
    let third = |id| at_random(id, 3);
    assert_eq!(at_drive(true, 8, third), 8);
    assert!(at_drive(false, 8, third) <= 2, "where writes end is known");
    assert!(at_drive(true, 4, third) <= 2);
    let mostly_writes = |id| if id % 5 == 0 { at_random(id, 4) } else { at_random(id, 1) };
    assert!(at_drive(true, 8, mostly_writes) <= 2, "it would only destage");
    assert_eq!(at_drive(true, 8, |id| at_random(id, 1)), 8, "nobody reads");
    let runs = |id| write(id, id % 8 * (CAPACITY / 8) + id / 8 % (CAPACITY / 8), 1);
    assert_eq!(at_drive(true, 8, runs), 8, "nobody reads");
    assert!(at_drive(true, 8, |id| due(at_random(id, 3), 60_000)) <= 2);
}
