//! Tests of runs, their owners and what these are charged.

use headtime_units::Extent;

use super::runs::RUNS;
use super::*;
use crate::command::Finished;
use crate::request::ClassId;

fn read(id: u64, lba: u64, sectors: u64) -> Request {
    Request {
        id: RequestId(id),
        volume: VolumeId(7),
        class: ClassId(0),
        stream: StreamId(0),
        op: Op::Read,
        extent: Extent::from_numbers(lba, sectors),
        fua: false,
        deadline: None,
    }
}

/// The runs of these requests, submitted 1 ms apart.
fn runs(requests: &[Request]) -> (Streams, Vec<Option<RunId>>) {
    let mut streams = Streams::default();
    for (number, request) in requests.iter().enumerate() {
        streams.submitted(Instant::from_ns(number as u64 * 1_000_000), request);
    }
    let runs = requests.iter().map(|request| streams.run_of(request.id)).collect();
    (streams, runs)
}

/// The completion of a request that took `ms` of disk time.
fn finished(request: Request, now: Instant, ms: u64) -> Finished {
    Finished {
        request,
        submitted: now,
        dispatched: now,
        finished: now,
        disk_time: Nanos::from_ms(ms),
        other_arms: Nanos::ZERO,
        overlapped: Nanos::ZERO,
        forced: false,
        outcome: crate::command::Outcome::Success,
    }
}

const NONE: Option<RunId> = None;
const FIRST: Option<RunId> = Some(RunId(0));

/// The worked example of the module, with one that arrives after its successor.
#[test]
fn the_third_of_a_sequence_and_what_follows_it_are_a_run() {
    let at = [0, 8, 16, 32, 24, 900, 40];
    let reads: Vec<Request> = (0..).zip(at).map(|(id, lba)| read(id, lba, 8)).collect();
    let (streams, runs) = runs(&reads);
    assert_eq!(runs, [NONE, NONE, FIRST, FIRST, FIRST, NONE, FIRST]);
    streams.self_check();
}

#[test]
fn another_operation_or_volume_or_a_long_pause_is_another_sequence() {
    let mut reads = [read(0, 0, 8), read(1, 8, 8), read(2, 16, 8)];
    reads[1].op = Op::Write;
    assert_eq!(runs(&reads).1, [NONE; 3]);
    reads[1] = Request { volume: VolumeId(1), ..read(1, 8, 8) };
    assert_eq!(runs(&reads).1[2], NONE);
    let mut streams = Streams::default();
    streams.submitted(Instant::ORIGIN, &read(0, 0, 8));
    streams.submitted(Instant::ORIGIN, &read(1, 8, 8));
    streams.submitted(Instant::ORIGIN + FORGOTTEN, &read(2, 16, 8));
    assert_eq!(streams.run_of(RequestId(2)), NONE);
}

/// A process that reads and writes in one place, and another that writes there.
#[test]
fn the_reads_and_writes_of_a_process_are_one_run() {
    let mut requests: Vec<Request> = (0..6).map(|id| read(id, 8 * id, 8)).collect();
    (requests[3].op, requests[5].op) = (Op::Write, Op::Write);
    requests[5].stream = StreamId(1);
    assert_eq!(runs(&requests).1, [NONE, NONE, FIRST, FIRST, FIRST, NONE]);
}

/// The last request of the first run ends where the second run ends.
#[test]
fn a_run_that_reaches_the_end_of_another_goes_on_with_its_requests() {
    let at = [0, 8, 16, 1_000, 1_008, 1_016];
    let mut reads: Vec<Request> = (0..).zip(at).map(|(id, lba)| read(id, lba, 8)).collect();
    reads.push(read(6, 24, 1_000));
    let (streams, runs) = runs(&reads);
    assert_eq!(runs, [NONE, NONE, FIRST, NONE, NONE, FIRST, FIRST]);
    streams.self_check();
}

/// One writes 50 ms after the completion of the one before, the other at once.
#[test]
fn a_client_that_pauses_long_after_each_write_is_slow() {
    let change = Nanos::from_ms(12);
    let after = |pause: Nanos, writers: u64| {
        let mut streams = Streams::default();
        let mut now = Instant::ORIGIN;
        let write = |id: u64, writer: u64| Request {
            op: Op::Write,
            ..read(id, (writer << 20) + 8 * (id / writers), 8)
        };
        for id in 0..40 * writers {
            let write = write(id, id % writers);
            streams.submitted(now, &write);
            streams.finished(&finished(write, now, 1), Some(change));
            now += if id % writers == writers - 1 { pause } else { Nanos::ZERO };
        }
        let next = write(40 * writers, 0);
        streams.submitted(now, &next);
        let is_slow = (streams.is_of_slow_writer(&next), streams.slow_writers());
        streams.gone(next.id);
        streams.ended(next.stream);
        assert_eq!(streams.slow_writers(), None, "its process has ended");
        is_slow
    };
    assert_eq!(after(Nanos::from_ms(50), 1), (true, Some(0.24)));
    assert_eq!(after(Nanos::from_ms(5), 1), (false, None), "it is worth a wait");
    assert_eq!(after(Nanos::from_ms(50), 20), (false, None), "they are too many");
}

/// Of 40 writes at once, and of 40 that come one after the other.
#[test]
fn writes_in_bulk_have_one_owner() {
    let (now, change) = (Instant::ORIGIN, Some(Nanos::from_ms(1)));
    let write = |id: u64, lba| Request { op: Op::Write, ..read(id, lba, 8) };
    let writes: Vec<Request> = (0..40).map(|id| write(id, 8 * id)).collect();
    let another = write(50, 90_000);
    let mut streams = Streams::default();
    writes.iter().for_each(|write| streams.submitted(now, write));
    streams.submitted(now, &another);
    streams.finished(&finished(writes[2], now, 2), change);
    streams.find_bulk();
    let bulk = Owner::Writes(VolumeId(7));
    assert_eq!((streams.owner(&writes[3]), streams.owner(&another)), (bulk, bulk));
    let durable = Request { fua: true, ..another };
    assert_eq!(streams.owner(&durable), Owner::Rest(VolumeId(7)));

    let mut streams = Streams::default();
    for write in &writes[..39] {
        streams.submitted(now, write);
        streams.finished(&finished(*write, now, 2), change);
    }
    streams.submitted(now, &writes[39]);
    streams.find_bulk();
    assert_eq!(streams.owner(&writes[39]), Owner::Run(RunId(0)));
}

#[test]
fn a_short_run_that_meets_a_long_one_goes_on_at_its_virtual_time() {
    let mut streams = Streams::default();
    let (now, change) = (Instant::ORIGIN, Some(Nanos::from_ms(1)));
    let short = [0, 16, 32].map(|lba| read(lba, lba, 16));
    let other = [10_000, 10_010, 10_020].map(|lba| read(lba, lba, 10));
    short.iter().chain(&other).for_each(|read| streams.submitted(now, read));
    streams.finished(&finished(other[2], now, 3), change);
    let of_long = streams.account(Owner::Run(RunId(1))).virtual_time;
    assert_eq!(of_long, 3_000_000);
    let meets = read(100, 48, 9_982);
    streams.submitted(now, &meets);
    assert_eq!(streams.owner(&meets), Owner::Run(RunId(0)));
    assert_eq!(streams.account(Owner::Run(RunId(0))).virtual_time, of_long);
    streams.self_check();
}

/// A process reads two files, one after the other; another process reads a third.
#[test]
fn a_process_owes_its_time_also_after_it_has_gone_to_another_file() {
    let mut streams = Streams::default();
    let (now, change) = (Instant::ORIGIN, Some(Nanos::from_ms(1)));
    let mut of_file = |first: u64, stream| {
        for id in first..first + 3 {
            let read = Request { stream, ..read(id, 8 * id, 8) };
            streams.submitted(now, &read);
            streams.finished(&finished(read, now, 2), change);
        }
        let last = Request { stream, ..read(first + 3, 8 * (first + 3), 8) };
        streams.submitted(now, &last);
        let owner = streams.owner(&last);
        streams.finished(&finished(last, now, 20), change);
        assert!(matches!(owner, Owner::Run(_)));
        streams.account(owner).virtual_time - 20_000_000
    };
    assert_eq!(of_file(0, StreamId(1)), 6_000_000, "where the rest is");
    assert_eq!(of_file(100, StreamId(1)), 26_000_000, "where it was with the first file");
    assert!(of_file(200, StreamId(2)) < 26_000_000);
}

/// Two requests of 1 ms make a run long that is long from 2 ms on.
#[test]
fn a_run_owns_its_requests_once_it_has_used_much_disk_time() {
    let mut streams = Streams::default();
    let (now, change) = (Instant::ORIGIN, Some(Nanos::from_ms(1)));
    let reads = [0, 8, 16, 24, 32].map(|lba| read(lba, lba, 8));
    reads[..4].iter().for_each(|read| streams.submitted(now, read));
    let rest = Owner::Rest(VolumeId(7));
    streams.finished(&finished(reads[2], now, 1), change);
    assert_eq!((streams.owner(&reads[3]), streams.no_long_run_is_held()), (rest, true));
    streams.submitted(now, &reads[4]);
    streams.finished(&finished(reads[3], now, 1), change);
    assert_eq!(streams.owner(&reads[4]), Owner::Run(RunId(0)));
    assert!(!streams.no_long_run_is_held());
    let times = [rest, Owner::Run(RunId(0))].map(|owner| streams.account(owner).virtual_time);
    assert_eq!(times, [2_000_000; 2], "its volume paid so far, and it begins there");
    streams.self_check();
    streams.finished(&finished(reads[4], now, 1), change);
    assert_eq!(streams.account(rest).used, Nanos::from_ms(2));
    assert_eq!(streams.account(Owner::Run(RunId(0))).used, Nanos::from_ms(3));
    streams.self_check();
}

#[test]
fn where_most_sequences_become_runs_the_first_request_is_one() {
    let mut streams = Streams::default();
    let mut id = 0;
    let mut sequence = |streams: &mut Streams, requests: u64| {
        let start = id << 20;
        let first = RequestId(id);
        for step in 0..requests {
            streams.submitted(Instant::ORIGIN, &read(id, start + 8 * step, 8));
            id += 1;
        }
        streams.run_of(first)
    };
    assert!((0..12).all(|_| sequence(&mut streams, 1).is_none()), "nothing follows");
    let known = (0..24).position(|_| sequence(&mut streams, 16).is_some());
    let known = known.expect("most become runs");
    assert!((6..20).contains(&known), "{known}");
    let forgotten = (0..64).position(|_| sequence(&mut streams, 1).is_none());
    assert!(forgotten.is_some_and(|sequences| sequences > 1), "{forgotten:?}");
    streams.self_check();
}

/// Runs of eight requests: submitted one by one, each at the completion of the one before it,
/// seven of eight pauses end in time; submitted at once, none does.
#[test]
fn a_wait_is_worth_as_much_as_the_next_request_comes_in_time() {
    let change = Nanos::from_ms(12);
    let longest_wait = |at_once: bool| {
        let mut streams = Streams::default();
        let mut now = Instant::ORIGIN;
        for run in 0..40 {
            let reads = [0, 1, 2, 3, 4, 5, 6, 7]
                .map(|step| read(8 * run + step, (run << 20) + 8 * step, 8));
            let first = if at_once { &reads[..] } else { &[] };
            first.iter().for_each(|read| streams.submitted(now, read));
            for read in &reads {
                if !at_once {
                    streams.submitted(now, read);
                }
                streams.finished(&finished(*read, now, 1), Some(change));
                now += Nanos::from_ms(1);
            }
        }
        let (id, _) = streams.runs.iter().next_back().expect("eight in sequence are a run");
        streams.longest_wait(*id, change).as_ms_f64()
    };
    assert!((9.0..11.5).contains(&longest_wait(false)), "{}", longest_wait(false));
    assert!(longest_wait(true) < 1.0, "{}", longest_wait(true));
}

/// A chain of processes: each reads the next sectors and ends.
#[test]
fn what_is_random_makes_no_run() {
    let reads: Vec<Request> = (0..2_000_u64)
        .map(|id| read(id, (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) << 3, 8))
        .collect();
    let (streams, runs) = runs(&reads);
    assert!(runs.iter().all(Option::is_none));
    assert!(streams.no_long_run_is_held());
}

/// A long run with deadlines, and later a request at random.
#[test]
fn a_run_that_is_over_counts_no_more() {
    let (mut streams, mut now) = (Streams::default(), Instant::ORIGIN);
    for id in 0..20 {
        let deadline = Some(now + Nanos::from_ms(250));
        let write = Request { op: Op::Write, deadline, ..read(id, 8 * id, 8) };
        streams.submitted(now, &write);
        streams.finished(&finished(write, now, 5), Some(Nanos::from_ms(12)));
        now += Nanos::from_ms(1);
    }
    let known = |s: &Streams| {
        (s.any_long_run(), s.any_long_unflushed_run(), s.shortest_deadline().is_some())
    };
    assert_eq!(known(&streams), (true, true, true));
    streams.submitted(now + FORGOTTEN, &read(99, 1 << 30, 8));
    assert_eq!(known(&streams), (false, false, false));
    streams.self_check();
}

#[test]
fn runs_are_forgotten_and_never_too_many() {
    let mut streams = Streams::default();
    for number in 0..4 * RUNS as u64 {
        let now = Instant::from_ns(number * FORGOTTEN.as_ns() / 64);
        let request = |step| read(number * 3 + step, (number << 20) + (step << 3), 8);
        for step in 0..3 {
            streams.submitted(now, &request(step));
            streams.gone(RequestId(number * 3 + step));
        }
        assert!(streams.runs.len() <= 78, "{}", streams.runs.len());
        streams.self_check();
    }
    let now = Instant::from_ns(u64::MAX / 2);
    for number in 0..2 * RUNS as u64 {
        for step in 0..3 {
            let id = (1 << 40) + number * 3 + step;
            streams.submitted(now, &read(id, (number << 20) + (step << 3), 8));
        }
    }
    assert_eq!(streams.runs.len(), RUNS, "none of them is idle");
    streams.self_check();
}

impl Streams {
    /// Every index names runs that there are, and the other way round.
    fn self_check(&self) {
        assert_eq!(self.ends.len(), self.runs.len());
        for (id, run) in &self.runs {
            assert_eq!(self.ends.get(&(run.volume, run.op, run.end)), Some(id));
            assert!(run.held.is_sorted());
            assert!(run.held.iter().all(|(_, request)| self.of.get(request) == Some(id)));
        }
        let long = self.runs.values().filter(|run| run.is_long);
        assert_eq!(self.held_of_long, long.map(|run| run.held.len()).sum::<usize>());
        assert_eq!(self.of.len(), self.runs.values().map(|run| run.held.len()).sum::<usize>());
    }
}
