//! Another belief while requests wait and a command is at the drive.

use headtime_sched::{
    AccessKind, Belief, BeliefReport, Estimate, Head, Likely, MeasuredAccess, Op, POLICIES,
    Position, Positioning, ScanId, ScanOptions, Target, TrackMap, likely_by_estimate,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::scans::{eager, everything};
use crate::session::{Setup, read, write};
use crate::tiny::TinyBelief;

/// Knows the tiny drive as well, and numbers its cylinders from the other end.
struct FromTheOtherEnd(TinyBelief);

fn turned(place: Position) -> Position {
    Position { cylinder: 7 - place.cylinder, ..place }
}

fn turned_target(target: &Target) -> Target {
    Target { start: turned(target.start), end: turned(target.end), ..*target }
}

fn turned_head(head: &Head) -> Head {
    Head { place: turned(head.place), ..*head }
}

impl Positioning for FromTheOtherEnd {
    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        turned_target(&self.0.target(op, extent))
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        self.0.estimate(&turned_head(head), dispatch, &turned_target(target))
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        self.0.passes_at(angle, from)
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.0.seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.0.revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.0.media_end(&turned_target(target), finished)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    headtime_sched::costs_by_estimate!();

    headtime_sched::without_cache!();

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for FromTheOtherEnd {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        self.0.learn(measured)
    }

    fn report(&self) -> BeliefReport {
        BeliefReport::default()
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

const PLACES: [u64; 9] = [72, 146, 24, 75, 25, 95, 0, 180, 100];

/// The order in which the requests are served, with the drive model replaced after the first if
/// `exchange` is set.
fn served(policy: &str, exchange: bool) -> Vec<u64> {
    let mut session = Setup::of(policy).outstanding(1).start();
    session.accept(read(0, PLACES[0], 1));
    session.pump();
    for (id, place) in PLACES.iter().enumerate().skip(1) {
        session.accept(read(id as u64, *place, 1));
    }
    // One waits for another, which is no reason to forget either.
    session.accept(write(20, 95, 1));
    if exchange {
        let learned = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let belief = FromTheOtherEnd(TinyBelief {
            learned: std::sync::Arc::clone(&learned),
            ..TinyBelief::default()
        });
        session.scheduler.set_belief(Box::new(belief));
        session.scheduler.self_check();
        let turned = FromTheOtherEnd(TinyBelief::default());
        for queued in session.scheduler.queue().by_arrival() {
            assert_eq!(
                queued.target,
                turned.target(queued.request.op, queued.request.extent),
                "{policy}: a place of the belief before"
            );
        }
        session.run_to_end();
        let learned = learned.lock().expect("no test panics while holding it");
        assert_eq!(learned.len(), session.dispatched.len(), "{policy}");
        assert_eq!(
            learned[0].head_before, None,
            "{policy}: what the one foresaw teaches the other nothing"
        );
        assert!(learned[2..].iter().all(|measured| measured.head_before.is_some()), "{policy}");
    } else {
        session.run_to_end();
    }
    session.served()
}

/// Both models are exact, so the order must not change, whatever it uses.
#[test]
fn a_belief_is_exchanged_while_requests_wait_and_nothing_is_lost_or_served_worse() {
    for entry in POLICIES.iter().filter(|entry| !entry.oracle) {
        let (stays, changes) = (served(entry.name, false), served(entry.name, true));
        assert_eq!(stays.len(), PLACES.len() + 1, "{}", entry.name);
        assert_eq!(changes, stays, "{}", entry.name);
    }
}

/// One of the two has tracks and the other none, so that gaps are filled, then not, then again,
/// with commands under way.
#[test]
fn a_belief_is_exchanged_while_a_scan_fills_gaps_and_everything_is_read_once() {
    for entry in POLICIES.iter().filter(|entry| !entry.oracle) {
        let mut setup = Setup::of(entry.name);
        setup.belief.knows_tracks = true;
        let mut session = setup.start();
        session.scan(1, eager(), everything(1), ScanOptions::default());
        for round in 0..30 {
            let place = PLACES[round % PLACES.len()];
            let id = round as u64;
            session.accept(if round % 4 == 3 { write(id, place, 2) } else { read(id, place, 2) });
            session.step();
            let tiny = TinyBelief { knows_tracks: true, ..TinyBelief::default() };
            let belief: Box<dyn Belief + Send> =
                if round % 2 == 0 { Box::new(FromTheOtherEnd(tiny)) } else { Box::new(tiny) };
            session.scheduler.set_belief(belief);
            session.scheduler.self_check();
        }
        session.run_to_end();
        assert_eq!(session.finished.len(), 30, "{}", entry.name);
        assert_eq!(
            session.scheduler.scan_remaining(ScanId(1)),
            Some(Sectors::ZERO),
            "{}",
            entry.name
        );
    }
}
