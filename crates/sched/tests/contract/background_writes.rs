//! Background writes: they go in idle time and in time that the bound on impact has saved up, keep
//! the order of overlapping requests, and end once.

use std::collections::VecDeque;

use headtime_sched::{
    BackgroundWriteId, BackgroundWritten, Command, Decision, Done, DriveTraits, FillSettings,
    Finished, IdleSettings, Op, Outcome, POLICIES, PolicyEntry, QueueLimits, ScanId, ScanOptions,
    Scheduler,
};
use headtime_units::{Extent, Instant, Nanos, Sectors};

use crate::scans::{POINT_IN_TIME, eager, everything};
use crate::session::read;
use crate::tiny::{CAPACITY, TinyBelief};

/// Each command takes this long, one after the other.
const SERVICE: Nanos = Nanos::from_ms(5);
const ID: BackgroundWriteId = BackgroundWriteId(7);
/// Clients without rest read the sectors before this one.
const FREE_FROM: u64 = 90;

struct Run {
    scheduler: Scheduler,
    now: Instant,
    at_drive: VecDeque<(Instant, Command)>,
    sent: Vec<(Instant, Command)>,
    finished: Vec<Finished>,
    written: Vec<(Instant, BackgroundWritten)>,
    /// A write of this sector fails.
    bad: Option<u64>,
    /// Clients that submit the next read as soon as one is finished.
    thoughtless: bool,
}

fn run_of(policy: &PolicyEntry, fill: FillSettings) -> Run {
    let belief = TinyBelief { knows_tracks: true, ..TinyBelief::default() };
    let traits = DriveTraits { queue_depth: 32, fua: true };
    let mut scheduler = Scheduler::new(
        Box::new(belief),
        policy.build_default(),
        traits,
        QueueLimits { outstanding: Some(1), ..QueueLimits::default() },
    );
    scheduler.set_fill(fill);
    Run {
        scheduler,
        now: Instant::ORIGIN,
        at_drive: VecDeque::new(),
        sent: Vec::new(),
        finished: Vec::new(),
        written: Vec::new(),
        bad: None,
        thoughtless: false,
    }
}

fn fcfs(fill: FillSettings) -> Run {
    let (entry, _) = PolicyEntry::parse("fcfs").expect("a policy of the table");
    run_of(entry, fill)
}

impl Run {
    fn write(&mut self, start: u64, len: u64) {
        self.scheduler.background_write(self.now, ID, Extent::from_numbers(start, len));
        self.scheduler.self_check();
    }

    fn submit(&mut self, id: u64, start: u64) {
        let admission = self.scheduler.submit(self.now, read(id, start, 1));
        assert_eq!(admission, headtime_sched::Admission::Accepted);
        self.scheduler.self_check();
    }

    fn until(&mut self, end: Instant) {
        loop {
            let mut wait = end;
            loop {
                match self.scheduler.next(self.now) {
                    Decision::Dispatch(command) => {
                        let begin =
                            self.at_drive.back().map_or(self.now, |(at, _)| self.now.max(*at));
                        self.sent.push((self.now, command.clone()));
                        self.at_drive.push_back((begin + SERVICE, command));
                    }
                    Decision::WaitUntil { at, .. } => {
                        wait = wait.min(at);
                        break;
                    }
                    Decision::Idle => break,
                }
                self.scheduler.self_check();
            }
            let next = self.at_drive.front().map_or(wait, |(at, _)| wait.min(*at));
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            while self.at_drive.front().is_some_and(|(at, _)| *at <= self.now) {
                let (finished, command) = self.at_drive.pop_front().expect("there is one");
                self.complete(finished, &command);
            }
        }
    }

    fn complete(&mut self, finished: Instant, command: &Command) {
        let fails = self.bad.is_some_and(|bad| {
            command.op == Op::Write && command.extent.contains(headtime_units::Lba::new(bad))
        });
        let outcome = if fails { Outcome::Failed(5) } else { Outcome::Success };
        let done =
            self.scheduler.complete(self.now, Done { command: command.id, finished, outcome });
        for over in done {
            if self.thoughtless {
                let id = over.request.id.0 + 100;
                self.submit(id, id * 53 % FREE_FROM);
            }
            self.finished.push(over);
        }
        while self.scheduler.take_background().is_some() {}
        while let Some(written) = self.scheduler.take_written() {
            self.written.push((self.now, written));
        }
        self.scheduler.self_check();
    }

    fn writes(&self) -> Vec<(u64, u64)> {
        let writes = self.sent.iter().filter(|(_, command)| command.op == Op::Write);
        writes.map(|(_, sent)| (sent.extent.start.get(), sent.extent.len.get())).collect()
    }
}

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + Nanos::from_ms(ms)
}

const WRITTEN: BackgroundWritten = BackgroundWritten { id: ID, outcome: Outcome::Success };

#[test]
fn a_write_goes_after_the_grace_of_idle_time_in_pieces_and_ends_once_under_every_policy() {
    for entry in POLICIES {
        let mut run = run_of(entry, eager());
        run.submit(1, 10);
        run.until(at(6));
        run.write(40, 20);
        run.until(at(10_000));
        let grace = IdleSettings::default().grace;
        let first = run.sent.iter().find(|(_, command)| command.op == Op::Write);
        let (sent, command) = first.unwrap_or_else(|| panic!("{}: nothing is written", entry.name));
        assert!(*sent >= at(5) + grace && command.requests.is_empty(), "{}", entry.name);
        let sectors: u64 = run.writes().iter().map(|(_, len)| len).sum();
        assert_eq!((sectors, run.writes()[0].0), (20, 40), "{}", entry.name);
        let written: Vec<BackgroundWritten> = run.written.iter().map(|(_, of)| *of).collect();
        assert_eq!(written, [WRITTEN], "{}", entry.name);
        assert_eq!(run.finished.len(), 1, "{}", entry.name);
    }
}

#[test]
fn a_write_that_fails_ends_with_its_first_failure_and_fails_no_client() {
    let mut run = fcfs(eager());
    run.bad = Some(45);
    run.write(40, 40);
    run.submit(1, 100);
    run.until(at(10_000));
    let failed = BackgroundWritten { id: ID, outcome: Outcome::Failed(5) };
    assert_eq!(run.written.iter().map(|(_, of)| *of).collect::<Vec<_>>(), [failed]);
    assert!(run.writes().len() < 20, "{:?}", run.writes());
    assert_eq!(run.finished[0].outcome, Outcome::Success);
    assert_eq!(run.scheduler.held(), 0);
}

#[test]
fn beside_clients_without_rest_writes_take_no_more_than_the_bound() {
    let mut sectors = Vec::new();
    for max_impact in [0.0, 0.01, 0.05] {
        let mut run = fcfs(FillSettings { max_impact, ..eager() });
        run.thoughtless = true;
        for client in 1..=4 {
            run.submit(client, client * 20);
        }
        run.until(at(1000));
        run.write(FREE_FROM, 100);
        for second in 2..=1200 {
            run.until(at(second * 1000));
            if run.written.pop().is_some() {
                run.write(FREE_FROM, 100);
            }
        }
        let report = run.scheduler.fill_report();
        assert!(report.impact() <= max_impact * 1.05, "{max_impact}: {}", report.impact());
        sectors.push(run.writes().iter().map(|(_, len)| len).sum::<u64>());
    }
    assert_eq!(sectors[0], 0);
    assert!(sectors[1] > 0 && sectors[2] > 2 * sectors[1], "{sectors:?}");
}

#[test]
fn a_client_that_waits_for_a_write_does_not_wait_for_idle_time() {
    let mut run = fcfs(FillSettings { max_impact: 0.0, ..eager() });
    run.thoughtless = true;
    run.submit(1, 10);
    run.until(at(7));
    run.write(40, 2);
    run.submit(2, 40);
    run.until(at(100));
    assert_eq!(run.written.len(), 1);
    let read = run.finished.iter().find(|over| over.request.id.0 == 2).expect("it is served");
    let (_, write) = run.sent.iter().find(|(_, sent)| sent.op == Op::Write).expect("it went");
    let place = |id| run.sent.iter().position(|(_, sent)| sent.id == id).expect("it was sent");
    let of_read = run.sent.iter().find(|(_, sent)| sent.requests.contains(&read.request.id));
    assert!(place(write.id) < place(of_read.expect("it was sent").1.id));
}

#[test]
fn a_scan_of_a_point_in_time_reads_what_a_background_write_changes_first() {
    let mut run = fcfs(eager());
    run.scheduler.scan_start(run.now, ScanId(1), everything(1), POINT_IN_TIME);
    run.write(40, 4);
    run.until(at(10_000));
    let position = |op: Op| {
        run.sent.iter().position(|(_, sent)| {
            sent.op == op && sent.extent.contains(headtime_units::Lba::new(41))
        })
    };
    assert!(position(Op::Read).expect("it was read") < position(Op::Write).expect("written"));
    assert_eq!(run.scheduler.scan_remaining(ScanId(1)), Some(Sectors::ZERO));
}

#[test]
fn writes_go_while_every_scan_is_paused() {
    let mut run = fcfs(eager());
    run.scheduler.scan_start(run.now, ScanId(1), everything(1), ScanOptions::default());
    run.scheduler.scan_pause(run.now, ScanId(1));
    run.write(40, 4);
    run.until(at(10_000));
    assert_eq!((run.writes(), run.written.len()), (vec![(40, 4)], 1));
    assert_eq!(run.scheduler.scan_remaining(ScanId(1)), Some(Sectors::new(CAPACITY)));
}
