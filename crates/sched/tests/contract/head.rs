//! The predicted head, and learning from completions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use headtime_sched::{Choice, Head, MeasuredAccess, Policy, View};
use headtime_units::{Instant, Nanos};

use crate::merging::Merging;
use crate::session::{Session, Setup, flush, fua, read, request, write};
use crate::tiny::{REPORTING, REVOLUTION};

/// The number of outstanding commands, the head, and the mean response time, at every choice.
type Seen = Arc<Mutex<Vec<(usize, Head, Nanos)>>>;

/// First come, first served, recording its views.
struct Watching {
    depth: usize,
    seen: Seen,
}

impl Policy for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.depth
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        assert_eq!(
            (view.head_position(), view.next_lba()),
            (view.head().place, view.head().next_lba),
            "the short ways say the same"
        );
        self.seen.lock().expect("nobody panics").push((
            view.outstanding.len(),
            *view.head(),
            view.mean_response,
        ));
        Choice::one(view.queue.oldest().map(|queued| queued.ticket))
    }
}

fn watching(depth: usize) -> (Session, Seen) {
    let seen = Seen::default();
    (Setup::with(Box::new(Watching { depth, seen: Arc::clone(&seen) })).start(), seen)
}

fn learning(setup: Setup) -> (Session, Arc<Mutex<Vec<MeasuredAccess>>>) {
    let learned = Arc::clone(&setup.belief.learned);
    (setup.start(), learned)
}

#[test]
fn the_head_is_predicted_to_the_nanosecond_through_everything_outstanding() {
    for depth in 1..5 {
        let (mut session, seen) = watching(depth);
        for id in 0..20 {
            session.accept(read(id, id * 41 % 180, 1 + id % 3));
        }
        session.run_to_end();
        // Choice n saw the end of command n − 1.
        let seen = seen.lock().expect("nobody panics");
        for (choice, (_, head, _)) in seen.iter().enumerate().skip(1) {
            let before = session.end_of(choice as u64 - 1);
            assert_eq!(
                (head.free_at, head.next_lba),
                (before.finished.saturating_back(REPORTING), before.request.extent.end())
            );
        }
    }
}

#[test]
fn the_service_of_a_command_is_predicted_to_the_nanosecond_after_many_others() {
    let (mut session, _) = watching(9);
    session.scheduler.record_predictions();
    for id in 0..30 {
        session.accept(read(id, id * 41 % 180, 1 + id % 3));
    }
    let mut predicted = BTreeMap::new();
    loop {
        session.pump();
        for command in session.scheduler.outstanding().iter() {
            predicted.insert(command.requests[0].request.id.0, command.predicted);
        }
        if !session.step() {
            break;
        }
    }
    let end = |id: u64| session.end_of(id).finished.saturating_back(REPORTING);
    for id in 1..30 {
        let begin = session.end_of(id).dispatched.max(end(id - 1));
        let total = predicted[&id].map(|predicted| predicted.total());
        assert_eq!(total, Some(end(id).saturating_since(begin)), "request {id}");
    }
}

#[test]
fn flushes_and_discards_do_not_move_the_head_in_the_mind_of_a_policy() {
    let (mut session, seen) = watching(4);
    session.accept(read(0, 50, 1));
    session.step();
    session.accept(flush(1));
    session.accept(request(2, headtime_sched::Op::Discard, 150, 8));
    session.accept(read(3, 20, 1));
    session.run_to_end();
    assert_eq!(
        seen.lock().expect("nobody panics").last().map(|(_, head, _)| head.next_lba.get()),
        Some(51)
    );
}

#[test]
fn a_command_that_should_have_been_reported_is_taken_to_have_missed_whole_revolutions() {
    for (us_late, revolutions) in
        [(0, 0), (900, 0), (1_000, 1), (7_900, 1), (8_100, 2), (100_000, 13)]
    {
        let (mut session, seen) = watching(2);
        session.accept(read(0, 5, 1));
        session.pump();
        // Most likely the read ends at 6 ms; at `now` it is still not reported.
        let expected = Instant::from_ns(6_000_000);
        let now = expected + REPORTING + Nanos::from_us(us_late);
        let _ = session.scheduler.submit(now, read(1, 100, 1));
        let _ = session.scheduler.next(now);
        let (outstanding, head, _) =
            *seen.lock().expect("nobody panics").last().expect("one was chosen");
        assert_eq!(
            (outstanding, head.free_at),
            (1, expected + REVOLUTION * revolutions),
            "{us_late} us late"
        );
    }
}

#[test]
fn the_mean_response_is_that_of_reads_and_writes_that_succeeded() {
    let seen = Seen::default();
    let setup = Setup::with(Box::new(Watching { depth: 1, seen: Arc::clone(&seen) }));
    let mut session = setup.failing(|command| command.requests[0].0 == 2).start();
    let mean_before = |session: &mut Session, request| {
        session.accept(request);
        session.run_to_end();
        seen.lock().expect("nobody panics").last().expect("one was chosen").2
    };
    // Request 0 takes 5 ms to its sector, 1 ms to read it and 0.1 ms to be reported.
    let first = Nanos::from_us(6_100);
    assert_eq!(mean_before(&mut session, read(0, 5, 1)), Nanos::ZERO);
    assert_eq!(mean_before(&mut session, read(1, 5, 1)), first);
    let second = session.end_of(1).response();
    let mean = Nanos::from_ns(first.as_ns() - first.as_ns() / 64 + second.as_ns() / 64);
    assert_eq!(mean_before(&mut session, read(2, 100, 1)), mean);
    mean_before(&mut session, flush(3));
    mean_before(&mut session, request(4, headtime_sched::Op::Discard, 0, 8));
    assert_eq!(
        mean_before(&mut session, read(5, 0, 1)),
        mean,
        "an error, a flush and a discard changed nothing"
    );
}

#[test]
fn a_completion_teaches_from_the_one_before_it() {
    let (mut session, learned) = learning(Setup::of("fcfs"));
    for id in 0..3 {
        session.accept(read(id, id * 30, 1));
    }
    session.run_to_end();
    let learned = learned.lock().expect("nobody panics");
    assert_eq!(
        learned.iter().map(|measured| measured.head_before.is_some()).collect::<Vec<_>>(),
        [false, true, true]
    );
    let before = learned[2].head_before.expect("just counted");
    assert_eq!(
        (before.next_lba.get(), before.free_at),
        (31, learned[1].finished.saturating_back(REPORTING))
    );
}

#[test]
fn nothing_is_learned_about_positions_after_an_error_or_a_flush() {
    let (mut session, learned) =
        learning(Setup::of("fcfs").outstanding(1).failing(|command| command.requests[0].0 == 1));
    for id in 0..4 {
        session.accept(read(id, id * 30, 1));
    }
    session.run_to_end();
    session.accept(flush(4));
    session.run_to_end();
    session.accept(read(5, 9, 1));
    session.run_to_end();
    let learned = learned.lock().expect("nobody panics");
    let known: Vec<(bool, bool)> = learned
        .iter()
        .map(|measured| (measured.succeeded, measured.head_before.is_some()))
        .collect();
    assert_eq!(known, [(true, false), (false, true), (true, false), (true, true), (true, false)]);
}

/// Before the first flush the drive may hold writes of others.
#[test]
fn a_flush_of_nothing_leaves_the_head_where_it_is() {
    let (mut session, learned) = learning(Setup::of("fcfs").outstanding(1).fua(true));
    let requests = [
        flush(0),
        read(1, 9, 1),
        flush(2),
        read(3, 30, 1),
        fua(write(4, 60, 1)),
        flush(5),
        read(6, 9, 1),
        write(7, 30, 1),
        flush(8),
        read(9, 60, 1),
    ];
    for request in requests {
        session.accept(request);
        session.run_to_end();
    }
    let learned = learned.lock().expect("nobody panics");
    let known: Vec<bool> = learned.iter().map(|measured| measured.head_before.is_some()).collect();
    assert_eq!(known, [false, true, true, true, true, false]);
}

#[test]
fn completions_of_one_instant_or_out_of_order_teach_nothing_of_the_head_before() {
    let (mut session, learned) = learning(Setup::of("firmware"));
    for id in 0..5 {
        session.accept(write(id, id * 30, 1));
    }
    session.pump();
    let at = |ms: u64| Instant::ORIGIN + Nanos::from_ms(ms);
    for (command, finished) in [(0, at(10)), (2, at(30)), (1, at(20)), (3, at(30)), (4, at(40))] {
        let done = headtime_sched::Done {
            command: headtime_sched::CommandId(command),
            finished,
            outcome: headtime_sched::Outcome::Success,
        };
        assert_eq!(session.scheduler.complete(at(40), done).len(), 1);
    }
    let learned = learned.lock().expect("nobody panics");
    assert_eq!(
        learned.iter().map(|measured| measured.head_before.is_some()).collect::<Vec<_>>(),
        [false, true, false, false, false]
    );
}

#[test]
fn a_completion_handed_in_late_does_not_move_the_head_back() {
    let (mut session, seen) = watching(3);
    for id in 0..4 {
        session.accept(read(id, id * 30, 1));
    }
    session.pump();
    let at = |ms: u64| Instant::ORIGIN + Nanos::from_ms(ms);
    for (command, finished) in [(0, at(10)), (2, at(30)), (1, at(20))] {
        let done = headtime_sched::Done {
            command: headtime_sched::CommandId(command),
            finished,
            outcome: headtime_sched::Outcome::Success,
        };
        assert_eq!(session.scheduler.complete(at(40), done).len(), 1);
    }
    let _ = session.scheduler.next(at(40));
    let (outstanding, head, _) =
        *seen.lock().expect("nobody panics").last().expect("four were chosen");
    assert_eq!(
        (outstanding, head.next_lba.get()),
        (0, 61),
        "request 2 finished last, whoever was reported last"
    );
}

#[test]
fn a_merged_command_is_learned_from_as_the_one_command_it_was() {
    let (mut session, learned) = learning(Setup::with(Box::new(Merging { depth: 1 })));
    session.accept(read(0, 2, 2));
    session.accept(read(1, 0, 2));
    session.run_to_end();
    let learned = learned.lock().expect("nobody panics");
    assert_eq!(
        learned.iter().map(|measured| measured.target.extent.to_string()).collect::<Vec<_>>(),
        ["LBA 0..+4"]
    );
}
