//! What the sectors hold, and what they must hold: an oracle for order, flush and FUA.
//!
//! Every change of a sector is named by the place of its request in the order of submission. The
//! drive has a volatile cache: a change is seen at once and is durable only through FUA or through
//! a flush that the drive *received* after it. After every event the power might be cut; what would
//! be left must cover everything that was promised as durable by then. A failed command changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use headtime_sched::{
    BackgroundRead, Cancelled, Command, CommandId, Finished, Op, Outcome, PendingSectors, Request,
    RequestId, ScanId, ScanOptions,
};
use headtime_units::{Extent, Lba};

type Ordinal = usize;
type Sector = u64;

#[derive(Debug)]
struct Held {
    request: Request,
    state: State,
    cancelled: bool,
    /// True if the drive did it, whatever became of the flush a write may have had to wait for.
    took_effect: bool,
    /// Changes of sectors that were reported as done before this request was submitted.
    done_before: BTreeSet<Ordinal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    AtDrive,
    /// The drive did it; it may still wait for a flush.
    Done,
    Failed,
    /// Taken out before the drive did it.
    Removed,
}

#[derive(Default)]
pub(crate) struct Model {
    requests: Vec<Held>,
    by_id: BTreeMap<RequestId, Ordinal>,
    reported: BTreeSet<Ordinal>,
    /// Changes reported as done.
    changes_done: BTreeSet<Ordinal>,
    seen: BTreeMap<Sector, Ordinal>,
    durable: BTreeMap<Sector, Ordinal>,
    promised: BTreeMap<Sector, Ordinal>,
    flushing: BTreeMap<CommandId, BTreeMap<Sector, Ordinal>>,
    commands: BTreeSet<CommandId>,
    scans: BTreeMap<ScanId, ScanModel>,
    /// Commands at the drive that read something for scans.
    reading: BTreeMap<CommandId, Extent>,
    /// The content seen by the last background read.
    saw: Option<(CommandId, Extent, BTreeMap<Sector, Ordinal>)>,
}

/// A scan: its pending sectors, and the last request submitted before it started.
struct ScanModel {
    open: BTreeSet<Sector>,
    point_in_time: bool,
    started: Ordinal,
    failed: BTreeSet<Sector>,
}

fn sectors(request: &Request) -> std::ops::Range<Sector> {
    request.extent.start.get()..request.extent.end().get()
}

fn conflict(one: &Request, other: &Request) -> bool {
    (one.op.changes_sectors() || other.op.changes_sectors()) && one.extent.overlaps(other.extent)
}

impl Model {
    pub(crate) fn submit(&mut self, request: Request) {
        self.by_id.insert(request.id, self.requests.len());
        self.requests.push(Held {
            request,
            state: State::Queued,
            cancelled: false,
            took_effect: false,
            done_before: self.changes_done.clone(),
        });
    }

    /// Checks a command, and records what a flush will cover.
    pub(crate) fn dispatch(&mut self, command: &Command) {
        assert!(self.commands.insert(command.id), "{command:?}: a command's name is used twice");
        assert!(
            !command.requests.is_empty() || command.background.is_some(),
            "{command:?} serves nobody"
        );
        if command.op.changes_sectors() {
            let passed = self.reading.iter().find(|(_, extent)| extent.overlaps(command.extent));
            assert!(
                passed.is_none(),
                "{command:?} overwrites what {passed:?} is reading for a scan"
            );
        }
        if command.op == Op::Flush {
            assert!(command.extent.len.is_zero() && !command.fua);
            self.flushing.insert(command.id, self.seen.clone());
        }
        let mut covered = BTreeSet::new();
        if let Some(background) = command.background {
            assert_eq!(command.op, Op::Read, "{command:?}");
            covered.extend(background.start.get()..background.end().get());
            self.reading.insert(command.id, background);
            for (ordinal, held) in self.requests.iter().enumerate() {
                let changing = held.state == State::AtDrive && held.request.op.changes_sectors();
                assert!(
                    !(changing && held.request.extent.overlaps(background)),
                    "{command:?} reads what request {ordinal} is changing"
                );
            }
        }
        for id in &command.requests {
            let ordinal = self.by_id[id];
            let held = &self.requests[ordinal];
            let request = held.request;
            if command.op == Op::Flush && request.op != Op::Flush {
                assert!(
                    held.state == State::Done && request.fua,
                    "{request:?} has no business in a flush"
                );
                continue;
            }
            assert_eq!(held.state, State::Queued, "{request:?} is sent although it is not queued");
            assert_eq!(request.op, command.op);
            covered.extend(sectors(&request));
            for (earlier, other) in self.requests[..ordinal].iter().enumerate() {
                let open = matches!(other.state, State::Queued | State::AtDrive);
                assert!(
                    !(open && conflict(&request, &other.request)),
                    "{request:?} passes the earlier request {earlier}, {:?}",
                    other.request
                );
            }
            self.requests[ordinal].state = State::AtDrive;
        }
        let sent: BTreeSet<Sector> =
            (command.extent.start.get()..command.extent.end().get()).collect();
        assert_eq!(sent, covered, "{command:?} is not the sectors of those it serves");
    }

    /// The drive has done `command`, or failed to.
    pub(crate) fn drive_completes(&mut self, command: &Command, outcome: Outcome) {
        let flushed = self.flushing.remove(&command.id).unwrap_or_default();
        if outcome == Outcome::Success {
            for (sector, ordinal) in flushed {
                let durable = self.durable.entry(sector).or_insert(ordinal);
                *durable = (*durable).max(ordinal);
            }
        }
        let shared = command.requests.len() > 1 || command.background.is_some();
        let in_parts = outcome != Outcome::Success && shared && command.op != Op::Flush;
        for id in &command.requests {
            let ordinal = self.by_id[id];
            let request = self.requests[ordinal].request;
            if command.op == Op::Flush && request.op != Op::Flush {
                self.requests[ordinal].state =
                    if outcome == Outcome::Success { State::Done } else { State::Failed };
                continue;
            }
            self.requests[ordinal].state = match outcome {
                Outcome::Success => State::Done,
                Outcome::Failed(_) if in_parts && self.requests[ordinal].cancelled => {
                    State::Removed
                }
                Outcome::Failed(_) if in_parts => State::Queued,
                Outcome::Failed(_) => State::Failed,
            };
            if outcome == Outcome::Success {
                self.take_effect(ordinal, command.fua);
            }
        }
    }

    pub(crate) fn scan_start(
        &mut self,
        id: ScanId,
        pending: &PendingSectors,
        options: ScanOptions,
    ) {
        let open = (0..pending.capacity().get())
            .filter(|sector| pending.contains(Lba::new(*sector)))
            .collect();
        let scan = ScanModel {
            open,
            point_in_time: options.point_in_time,
            started: self.requests.len(),
            failed: BTreeSet::new(),
        };
        assert!(self.scans.insert(id, scan).is_none());
    }

    pub(crate) fn scan_stop(&mut self, id: ScanId) {
        self.scans.remove(&id);
    }

    /// The pending sectors of a scan, and those reported as lost.
    pub(crate) fn scan_remaining(&self, id: ScanId) -> (usize, &BTreeSet<Sector>) {
        (self.scans[&id].open.len(), &self.scans[&id].failed)
    }

    /// Records the content that a completed background read has seen.
    pub(crate) fn background_completes(&mut self, command: &Command) {
        let Some(extent) = self.reading.remove(&command.id) else { return };
        let seen = self
            .seen
            .range(extent.start.get()..extent.end().get())
            .map(|(sector, ordinal)| (*sector, *ordinal))
            .collect();
        self.saw = Some((command.id, extent, seen));
    }

    /// Checks a delivery to a scan: pending sectors, for the first time, with the content they had.
    pub(crate) fn read(&mut self, read: &BackgroundRead) {
        let scan = self
            .scans
            .get_mut(&read.scan)
            .unwrap_or_else(|| panic!("{read:?} is for a scan that there is not"));
        let (command, extent, seen) = self.saw.as_ref().expect("something was read");
        assert_eq!(
            (*command, extent.intersection(read.extent)),
            (read.command, Some(read.extent)),
            "{read:?} is not what {extent} brought"
        );
        for sector in read.extent.start.get()..read.extent.end().get() {
            assert!(
                scan.open.remove(&sector),
                "{read:?}: sector {sector} is handed over twice, or nobody pending it"
            );
            if read.outcome != Outcome::Success {
                scan.failed.insert(sector);
            } else if scan.point_in_time {
                let seen = seen.get(&sector);
                assert!(
                    seen.is_none_or(|change| *change < scan.started),
                    "{read:?}: sector {sector} shows change {seen:?}, made after the scan started"
                );
            }
        }
    }

    pub(crate) fn finished(&mut self, finished: &Finished) {
        let ordinal = self
            .by_id
            .remove(&finished.request.id)
            .unwrap_or_else(|| panic!("{finished:?} is over although nobody holds it"));
        let held = &self.requests[ordinal];
        assert_eq!(finished.request, held.request);
        assert!(!held.cancelled, "{:?} was cancelled and is reported all the same", held.request);
        assert!(self.reported.insert(ordinal));
        assert!(
            finished.submitted <= finished.dispatched && finished.dispatched < finished.finished,
            "{finished:?}"
        );
        assert_eq!(
            held.state,
            if finished.outcome == Outcome::Success { State::Done } else { State::Failed },
            "{finished:?}"
        );
        if finished.outcome != Outcome::Success {
            return;
        }
        let mut promise = |ordinal: Ordinal, request: &Request| {
            for sector in sectors(request) {
                let promised = self.promised.entry(sector).or_insert(ordinal);
                *promised = (*promised).max(ordinal);
            }
        };
        if held.request.op == Op::Flush {
            for covered in &held.done_before {
                promise(*covered, &self.requests[*covered].request);
            }
        } else if held.request.op.changes_sectors() {
            self.changes_done.insert(ordinal);
            if held.request.fua {
                promise(ordinal, &held.request);
            }
        }
    }

    pub(crate) fn cancelled(&mut self, id: RequestId, answer: Cancelled) {
        let held = self.by_id.get(&id).copied();
        match answer {
            Cancelled::Unknown => assert!(
                held.is_none_or(|ordinal| self.requests[ordinal].cancelled),
                "{id:?} is held but unknown"
            ),
            Cancelled::Removed => {
                let ordinal = held.expect("only what is held is removed");
                assert_eq!(
                    self.requests[ordinal].state,
                    State::Queued,
                    "{id:?} was said to be removed in time"
                );
                self.requests[ordinal].cancelled = true;
                self.requests[ordinal].state = State::Removed;
                self.by_id.remove(&id);
            }
            Cancelled::AtDrive => {
                let ordinal = held.expect("only what is held is at the drive");
                let held = &mut self.requests[ordinal];
                assert!(!held.cancelled);
                held.cancelled = true;
                match held.state {
                    State::AtDrive => {}
                    // A part of a failed command that waited to be sent again.
                    State::Queued => {
                        held.state = State::Removed;
                        self.by_id.remove(&id);
                    }
                    // A write that waits for its flush.
                    State::Done => {}
                    State::Failed | State::Removed => panic!("{held:?} is over"),
                }
            }
        }
    }

    /// Drops the names of those that were cancelled and have left the scheduler.
    pub(crate) fn forget_cancelled(&mut self, at_drive: impl Fn(RequestId) -> bool) {
        let Self { by_id, requests, .. } = self;
        by_id.retain(|id, ordinal| !requests[*ordinal].cancelled || at_drive(*id));
    }

    /// Cuts the power in thought: whatever was promised must be there.
    pub(crate) fn check_power_cut(&self) {
        for (sector, promised) in &self.promised {
            let durable = self.durable.get(sector);
            assert!(
                durable.is_some_and(|durable| durable >= promised),
                "a power cut leaves sector {sector} with change {durable:?}, but change {promised} \
                    was promised: {:?}",
                self.requests[*promised].request
            );
        }
    }

    /// Everything accepted is over, exactly once, and the sectors hold the last change.
    pub(crate) fn check_end(&self) {
        for (ordinal, held) in self.requests.iter().enumerate() {
            assert_eq!(
                self.reported.contains(&ordinal),
                !held.cancelled,
                "{:?} was not reported exactly once",
                held.request
            );
        }
        for (sector, seen) in &self.seen {
            assert_eq!(
                Some(*seen),
                self.last_change_before(*sector, usize::MAX),
                "sector {sector} does not hold its last change"
            );
        }
    }

    fn take_effect(&mut self, ordinal: Ordinal, durable: bool) {
        let request = self.requests[ordinal].request;
        self.requests[ordinal].took_effect = true;
        for sector in sectors(&request) {
            if request.op.changes_sectors() {
                self.seen.insert(sector, ordinal);
                if durable {
                    self.durable.insert(sector, ordinal);
                }
            } else {
                let expected = self.last_change_before(sector, ordinal);
                assert_eq!(
                    self.seen.get(&sector).copied(),
                    expected,
                    "{request:?} sees the wrong change of sector {sector}"
                );
            }
        }
    }

    fn last_change_before(&self, sector: Sector, ordinal: Ordinal) -> Option<Ordinal> {
        let changed = |held: &Held| {
            held.took_effect
                && held.request.op.changes_sectors()
                && sectors(&held.request).contains(&sector)
        };
        self.requests[..ordinal.min(self.requests.len())].iter().rposition(changed)
    }
}
