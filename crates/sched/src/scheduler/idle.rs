//! Background work without a request to fill a gap for: in idle time, while all clients are at a
//! limit, and in time that the bound on impact allows to take from clients.

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use smallvec::SmallVec;

use super::dispatch::view;
use super::{Decision, Op, Scheduler, Ticket};
use crate::background::FillSource;
use crate::command::{Command, HoldReason};

/// The number of commands that idle reading keeps at the drive, so that no revolution is lost
/// between two.
const IDLE_DEPTH: usize = 2;

/// Revolutions that must have been saved up for each delayed client before time is taken from
/// clients: the cost of a command twice, so that it does not stop the filling of gaps (guess: a
/// revolution of sectors, two more to get there and back, and a retry).
const SHARE_TURNS: u64 = 8;

/// The length of a read in time taken from clients where scans get little otherwise, in revolutions
/// (guess: several times as long as the way there and back).
const LONG_TURNS: f64 = 4.0;

/// Such a read is at most so many times as long as one in idle time (guess: 8 MiB).
const LONGER: u64 = 8;

/// While clients may return at any moment, idle commands are this many times shorter.
const SHORTER: u64 = 8;

impl Scheduler {
    /// The next step while no request of a client is held.
    pub(super) fn next_when_idle(&mut self, allowed: usize) -> Decision {
        if self.waiting.is_empty() {
            self.next_idle_read(allowed, Instant::NEVER)
        } else {
            Decision::Idle
        }
    }

    /// The next step while limits hold back all requests of clients until `until`. The drive is
    /// idle for a known time: clients wait only for a command that takes longer.
    pub(super) fn next_while_held_back(&mut self, until: Instant, allowed: usize) -> Decision {
        let until = until.max(self.now + Nanos::from_ns(1));
        let clients_at_drive = self.outstanding.iter().any(|command| !command.requests.is_empty());
        if let Some(fill) = self.fill.as_deref_mut().filter(|_| !clients_at_drive) {
            fill.clients_since = Some(until);
        }
        match self.next_idle_read(allowed, until) {
            Decision::WaitUntil { at, reason } if at < until => Decision::WaitUntil { at, reason },
            Decision::WaitUntil { .. } | Decision::Idle => {
                Decision::WaitUntil { at: until, reason: HoldReason::Throttled }
            }
            dispatch @ Decision::Dispatch(_) => dispatch,
        }
    }

    /// Reads for scans what is predicted to end by `until`, with no client's command at the drive.
    fn next_idle_read(&mut self, allowed: usize, until: Instant) -> Decision {
        let now = self.now;
        let at_drive = self.outstanding.len();
        let clients_at_drive = self.outstanding.iter().any(|command| !command.requests.is_empty());
        let Some(fill) = self.fill.as_deref_mut() else { return Decision::Idle };
        let idle = fill.settings.idle;
        if !idle.enabled || clients_at_drive || at_drive >= allowed.min(IDLE_DEPTH) {
            return Decision::Idle;
        }
        let deferred = fill.deferred();
        if deferred.is_none() && !fill.scans.has_pending() {
            return Decision::Idle;
        }
        let wait = |at: Instant| Decision::WaitUntil { at, reason: HoldReason::Idleness };
        let last_seen = fill.governor.last_seen();
        let away = last_seen.is_none_or(|last| now >= last + idle.away);
        if let Some(last) = last_seen.filter(|_| !away) {
            if now < last + idle.grace {
                return wait(last + idle.grace);
            }
            if !fill.governor.may_read_in_idle_time() {
                return wait(last + idle.away);
            }
        }
        let (cursor, mut most) = (
            fill.cursor,
            if away { idle.largest } else { Sectors::new((idle.largest.get() / SHORTER).max(1)) },
        );
        loop {
            let next = match deferred {
                Some(ticket) => {
                    self.fill.as_ref().and_then(|fill| fill.jobs[&ticket].next_piece(most))
                }
                None => self.next_run(cursor, most, FillSource::Idle),
            };
            let Some(extent) = next else { return Decision::Idle };
            let op = deferred.map_or(Op::Read, |ticket| self.op_of_job(ticket));
            if until == Instant::NEVER || self.is_done_by(until, op, extent) {
                let governor = &mut self.fill.as_mut().expect("a scan reads").governor;
                if away {
                    governor.reads_while_away();
                } else {
                    governor.read_beside_clients();
                }
                return Decision::Dispatch(match deferred {
                    Some(ticket) => self.send_piece(ticket, FillSource::Idle, most),
                    None => self.send_run(extent, FillSource::Idle),
                });
            }
            let half = Sectors::new(extent.len.get() / 2);
            // The minimum is one grain of pending sectors.
            if half.is_zero() || half >= most {
                return Decision::Idle;
            }
            most = half;
        }
    }

    /// Returns whether a command on these sectors, sent next, is done by `until` even if the first
    /// is missed.
    fn is_done_by(&self, until: Instant, op: Op, extent: Extent) -> bool {
        let view = view!(self);
        view.ready_at() + view.next(&self.belief.target(op, extent)).worst <= until
    }

    fn op_of_job(&self, ticket: Ticket) -> Op {
        self.fill.as_ref().expect("there is a job").jobs[&ticket].op()
    }

    /// Takes time from clients once enough has been saved up: for the tail of a scan, for retries,
    /// for writes, and where scans get little without taking any.
    pub(super) fn send_share(&mut self) -> Option<Command> {
        let revolution = self.belief.revolution();
        let held = self.tickets.len();
        let fill = self.fill.as_deref()?;
        let tail = fill.settings.tail;
        if tail <= 0.0 || self.now < fill.next_share_at || !fill.governor.allows_reads() {
            return None;
        }
        let for_each = revolution.saturating_mul(fill.governor.held_up(held) as u64);
        if !fill.governor.affords(for_each * SHARE_TURNS) {
            return None;
        }
        let deferred = fill.deferred();
        let near_the_end =
            fill.scans.first_priority().is_some_and(|scans| scans.near_the_end(tail));
        let from = view!(self).next_lba();
        let mut most = fill.settings.idle.largest.min(self.turn_of_sectors(from));
        if deferred.is_none() && !near_the_end {
            let media_rate = self.media_rate(from, most);
            let fill = self.fill.as_deref_mut()?;
            if !fill.scans.has_pending() || !fill.needs_time(self.now, media_rate) {
                return None;
            }
            let turns = (media_rate * revolution.as_secs_f64() * LONG_TURNS) as u64;
            most = Sectors::new(turns.min(fill.settings.idle.largest.get() * LONGER));
        }
        // The completion of this command sets the next time.
        self.fill.as_deref_mut()?.next_share_at = Instant::NEVER;
        let command = match deferred {
            Some(ticket) => Some(self.send_piece(ticket, FillSource::Share, most)),
            None => self.send_next_run(from, most, FillSource::Share),
        };
        let fill = self.fill.as_deref_mut()?;
        if command.is_some() {
            fill.governor.read_beside_clients();
        } else {
            fill.next_share_at = self.now;
        }
        command
    }

    /// The sectors that the drive reads in a second there, in order.
    fn media_rate(&self, at: Lba, run: Sectors) -> f64 {
        let capacity = self.belief.capacity();
        let start = Lba::new(at.get().min(capacity.get().saturating_sub(run.get())));
        let extent = Extent::new(start, run.min(capacity));
        let target = self.belief.target(Op::Read, extent);
        extent.len.get() as f64 / target.transfer.as_secs_f64()
    }

    /// The sectors of a revolution at an address; on a drive without tracks the longest background
    /// command.
    fn turn_of_sectors(&self, at: Lba) -> Sectors {
        let largest = self.fill.as_ref().map_or(Sectors::ZERO, |fill| fill.settings.idle.largest);
        let on_drive = Lba::new(at.get().min(self.belief.capacity().get().saturating_sub(1)));
        self.belief.tracks(on_drive).map_or(largest, |map| map.track_of(on_drive).extent.len)
    }

    /// Sends the next piece of an urgent job.
    pub(super) fn send_urgent(&mut self, ticket: Ticket) -> Command {
        let fill = self.fill.as_ref().expect("there is an urgent job");
        let most = fill.settings.idle.largest;
        let source = fill.jobs[&ticket].source;
        self.send_piece(ticket, source, most)
    }

    /// Sends the next piece of a job that may go.
    fn send_piece(&mut self, ticket: Ticket, source: FillSource, most: Sectors) -> Command {
        let fill = self.fill.as_mut().expect("there is a job");
        let job = fill.jobs.get_mut(&ticket).expect("the job was just found");
        job.source = source;
        job.at_drive += 1;
        let piece = job
            .take_piece(most.max(Sectors::new(1)))
            .expect("the job may go, so something of it is left");
        let op = job.op();
        let target = self.belief.target(op, piece);
        self.dispatch(op, target, SmallVec::new(), Some((ticket, piece)))
    }

    /// Sends the next pending sectors by address, with others within half a revolution after them,
    /// unless a waiting request changes them.
    fn send_next_run(&mut self, from: Lba, most: Sectors, source: FillSource) -> Option<Command> {
        let extent = self.next_run(from, most, source)?;
        Some(self.send_run(extent, source))
    }

    /// The extent that [`Scheduler::send_next_run`] would read.
    fn next_run(&self, from: Lba, most: Sectors, source: FillSource) -> Option<Extent> {
        let skip = Sectors::new(self.turn_of_sectors(from).min(most).get() / 2);
        let fill = self.fill.as_ref()?;
        let extent = if source == FillSource::Share {
            fill.fullest_run(from, most, skip)
        } else {
            fill.next_run(from, most, skip)
        }?;
        self.overlap.read_is_free(extent).then_some(extent)
    }

    fn send_run(&mut self, extent: Extent, source: FillSource) -> Command {
        self.fill.as_mut().expect("sectors are pending, so there is a scan").cursor = extent.end();
        self.send_new_job(extent, source)
    }
}
