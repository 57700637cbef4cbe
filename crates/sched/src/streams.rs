//! Sequential runs among the requests, and the disk time that each owner of requests has used.
//!
//! A *run* is a sequence of requests of one volume and one operation, each of which starts where
//! the one before it ended. It is known as a run from its third request on, and earlier where most
//! sequences like it became runs ([`Habits`]). A run continues over a gap that is neither longer
//! than the run so far nor than 32 requests (read-ahead skips what is cached), and with a request
//! that arrives after one that follows it; from then on also with the other operation, if that
//! comes from the same process or connection.
//!
//! A run that has used the disk time of two changes to another owner is *long*, and the *owner* of
//! its requests from then on, as long as that saves disk time ([`Streams::saves`]) and its client
//! does not think for four changes or more before each read. All other
//! requests of a volume, those of short runs too, have one owner together ([`Owner::Rest`]).
//!
//! *Writes in bulk*: a page cache writes many requests at once, in runs of many files, and its
//! processes wait for none of them. Turns of such runs would cost a change each and win nothing,
//! because their requests are queued already. So a volume has one owner for all its writes that
//! need not be durable ([`Owner::Writes`]), while a long run of them is held of which most requests
//! were submitted without a completion since the last.
//!
//! Worked example: reads of 8 sectors at 0, 8 and 16 are a run from the third on; one at 32 belongs
//! to it (the gap of 8 sectors is shorter than the run of 24), one at 900 does not.
//!
//! Cost: a request of no run takes two accesses to a table of fixed size and one to the habits, one
//! of a run O(log n) in the number of runs.

mod account;
mod charges;
mod habits;
mod light;
mod min_parts;
mod read_ahead;
mod runs;
mod slow_writers;
mod think;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headtime_units::{Instant, Lba, Nanos};

pub(crate) use self::account::Account;
use self::account::{Parts, parts_of};
use self::habits::{Habits, Kind, kind_of};
use self::light::Flushes;
use self::min_parts::MinParts;
pub(crate) use self::min_parts::waits_for_flush;
use self::runs::FORGOTTEN;
pub(crate) use self::think::{Came, Think};
use crate::destaging::Destaging;
use crate::policy::View;
use crate::queue::Queued;
use crate::request::{Op, Request, RequestId, StreamId, VolumeId};

/// The owner of requests, for the fair use of disk time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// A long sequential run.
    Run(RunId),
    /// The writes of a volume that writes in bulk.
    Writes(VolumeId),
    /// Everything of a volume that belongs to no other owner.
    Rest(VolumeId),
}

/// The name of a run; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(u64);

/// A sequential run.
#[derive(Clone, Debug)]
struct Run {
    volume: VolumeId,
    op: Op,
    kind: Kind,
    /// True once it is the owner of its requests.
    is_long: bool,
    /// The share of its requests, the last 16 or so, that came after a completion.
    paced: f64,
    /// True if any has finished since the last was submitted.
    any_finished: bool,
    /// The completion of the last write that waited for room in the drive's cache.
    waited_for_room: Option<Instant>,
    /// True if the drive took its last write into the cache at once.
    last_was_cached: bool,
    /// The mean share of the time that its writes take on the medium, as fast as its client sends
    /// them while the drive's cache takes them at once; 1 before the first.
    media_share: f64,
    /// True if its client sends flushes after requests of it.
    is_flushed: bool,
    /// The time from the submission of its last request to the deadline of that.
    deadline: Option<Nanos>,
    /// Its completions that no later request of it answers.
    unanswered: u32,
    requests: u32,
    /// Its requests before the last turn or visit began.
    before_turn: u32,
    /// The mean number of its requests from one turn or visit to the next, of the last four or so.
    per_turn: f64,
    stream: StreamId,
    /// The end of the run so far, and its length.
    end: Lba,
    length: u64,
    /// Its requests that have not finished, by address.
    held: Vec<(Lba, RequestId)>,
    last: Instant,
    /// True if its process or connection has answered a completion with a request elsewhere.
    is_left: bool,
    account: Account,
}

/// A sequence that may become a run: the end of its last request.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    volume: VolumeId,
    op: Op,
    kind: Kind,
    end: Lba,
    requests: u32,
    length: u64,
    last: Instant,
}

/// All runs and accounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    /// By a hash of the end; a newer one replaces an older one in the same place.
    candidates: Vec<Option<Candidate>>,
    runs: BTreeMap<RunId, Run>,
    /// The run that ends here.
    ends: BTreeMap<(VolumeId, Op, Lba), RunId>,
    /// The runs of the requests held.
    of: BTreeMap<RequestId, RunId>,
    rests: BTreeMap<VolumeId, Account>,
    writes: BTreeMap<VolumeId, Account>,
    /// The volumes that write in bulk.
    bulk: Vec<VolumeId>,
    habits: BTreeMap<Kind, Habits>,
    /// The run that the last request of a process or connection belongs to.
    last_of: BTreeMap<StreamId, RunId>,
    /// The number of requests held of long runs.
    held_of_long: usize,
    next_run: u64,
    /// The run of the last request that finished.
    last: Option<RunId>,
    /// The run of the last read that took the arm.
    arm_at: Option<RunId>,
    destaging: Destaging<Owner>,
    flushes: Flushes,
    /// The last flush of each volume.
    flushed: BTreeMap<VolumeId, Instant>,
    min_parts: MinParts,
    /// The cost of a change to another owner, once it is known.
    change: Option<Nanos>,
    /// The time at which runs that are over are forgotten next.
    next_forgotten: Instant,
}

/// The oldest requests of a volume that a rest or bulk needs one of for a turn (guess: later ones
/// have time).
const OLDEST: usize = 64;

/// The time after which a drive may have room again for the writes of a run beside those of others
/// (guess: a few turns).
const ROOM_AGAIN: Nanos = Nanos::from_secs(1);

/// A volume is flushed at times that was within this time (guess: file systems do so every 5 s).
const FLUSHED_AGAIN: Nanos = Nanos::from_secs(10);

impl Streams {
    /// Returns whether no request of a long run is held.
    pub(crate) fn no_long_run_is_held(&self) -> bool {
        self.held_of_long == 0
    }

    /// The time charged for cached writes that the drive has still to save.
    pub(crate) fn paid_ahead(&self) -> Nanos {
        self.destaging.paid_ahead()
    }

    /// Notes that the drive had no command for `idle` in all so far.
    pub(crate) fn drive_was_idle(&mut self, idle: Nanos) {
        self.destaging.was_idle(idle);
    }

    /// Returns whether any run is known.
    pub(crate) fn any_run(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns whether any long run is known, but for those of slow writers.
    pub(crate) fn any_long_run(&self) -> bool {
        let slow = self.slow_writers().is_some();
        self.runs.values().any(|run| run.is_long && !(slow && self.is_slow_writers(run)))
    }

    /// Returns whether a run is known that has used `time` of the drive, but for those of slow
    /// writers.
    pub(crate) fn any_run_of(&self, time: Nanos) -> bool {
        let slow = self.slow_writers().is_some();
        let counts = |run: &Run| !(slow && self.is_slow_writers(run));
        self.runs.values().any(|run| run.account.used >= time && counts(run))
    }

    /// Returns whether a long run of writes is known whose client neither flushes them nor is slow.
    pub(crate) fn any_long_unflushed_run(&self) -> bool {
        let slow = self.slow_writers().is_some();
        let writes = |run: &Run| run.is_long && run.op == Op::Write && !run.is_flushed;
        self.runs.values().any(|run| writes(run) && !(slow && self.is_slow_writers(run)))
    }

    /// The shortest time to a deadline at the last submission of a run.
    pub(crate) fn shortest_deadline(&self) -> Option<Nanos> {
        self.runs.values().filter_map(|run| run.deadline).min()
    }

    /// The owner of a queued request.
    pub(crate) fn owner(&self, request: &Request) -> Owner {
        let volume = request.volume;
        if request.op == Op::Write && !request.fua && self.bulk.contains(&volume) {
            return Owner::Writes(volume);
        }
        let run = match request.op {
            Op::Flush => self.last_of.get(&request.stream).copied(),
            _ => self.run_of(request.id),
        };
        let long = run.filter(|id| self.runs.get(id).is_some_and(|run| run.is_long));
        long.map_or(Owner::Rest(volume), Owner::Run)
    }

    /// The run of a request, long or short.
    pub(crate) fn run_of(&self, id: RequestId) -> Option<RunId> {
        self.of.get(&id).copied()
    }

    /// Returns whether a request belongs to no run, and few like it are followed by the next of a
    /// sequence.
    pub(crate) fn is_at_random(&self, request: &Request) -> bool {
        let kind = kind_of(request);
        is_rest(self.owner(request))
            && self.run_of(request.id).is_none()
            && self.habits.get(&kind).is_some_and(Habits::are_at_random)
    }

    /// Returns whether a run of writes sends the next [within](Self::sends_within) `soon`.
    pub(crate) fn writes_within(&self, id: RunId, soon: Nanos) -> bool {
        self.runs.get(&id).is_some_and(|run| run.op == Op::Write) && self.sends_within(id, soon)
    }

    /// Returns whether the client of a run waits for most of its requests, without flushes, and is
    /// known to send the next within `soon`.
    pub(crate) fn sends_within(&self, id: RunId, soon: Nanos) -> bool {
        let comes = |think: &Think| think.mean_ns.is_some() && think.worth(soon).is_some();
        let paced = |run: &&Run| run.is_paced() && !run.is_flushed;
        self.runs.get(&id).filter(paced).is_some_and(|run| comes(&run.account.think))
    }

    /// Returns whether a request belongs to a run whose last write the drive took into its cache at
    /// once: the next one extends what that holds, also where there is no room for others.
    pub(crate) fn extends_cached(&self, request: &Request) -> bool {
        self.run_of(request.id).is_some_and(|run| self.last_was_cached(run))
    }

    /// Returns whether a write of a run has waited for room in the drive's cache a moment ago: that
    /// cannot destage all that its client writes beside the requests of others.
    pub(crate) fn has_waited_for_room(&self, id: RunId, now: Instant) -> bool {
        let waited = self.runs.get(&id).and_then(|run| run.waited_for_room);
        waited.is_some_and(|waited| now < waited + ROOM_AGAIN)
    }

    /// Returns whether any volume was flushed a moment ago.
    pub(crate) fn any_flushed(&self, now: Instant) -> bool {
        self.flushed.values().any(|last| now < *last + ROOM_AGAIN)
    }

    /// Returns whether the volume of a write is flushed at times.
    pub(crate) fn is_flushed(&self, write: &Request, now: Instant) -> bool {
        self.flushed.get(&write.volume).is_some_and(|last| now < *last + FLUSHED_AGAIN)
    }

    /// Returns whether the drive took the last write of a run into its cache at once.
    pub(crate) fn last_was_cached(&self, id: RunId) -> bool {
        self.runs.get(&id).is_some_and(|run| run.last_was_cached)
    }

    /// The account of an owner; of one that is not known an empty one.
    pub(crate) fn account(&self, owner: Owner) -> Account {
        match owner {
            Owner::Run(id) => self.runs.get(&id).map(|run| run.account),
            Owner::Writes(volume) => self.writes.get(&volume).copied(),
            Owner::Rest(volume) => self.rests.get(&volume).copied(),
        }
        .unwrap_or_default()
    }

    /// The account of an owner, to be changed; `None` for a run that is over.
    pub(crate) fn account_mut(&mut self, owner: Owner) -> Option<&mut Account> {
        match owner {
            Owner::Run(id) => self.runs.get_mut(&id).map(|run| &mut run.account),
            Owner::Writes(volume) => Some(self.writes.entry(volume).or_default()),
            Owner::Rest(volume) => Some(self.rests.entry(volume).or_default()),
        }
    }

    /// The think time of a run, if that is short.
    pub(crate) fn think_of_short(&self, id: RunId) -> Option<Think> {
        self.runs.get(&id).filter(|run| !run.is_long).map(|run| run.account.think)
    }

    /// Returns whether a request of a run costs less in turns than the cheapest request of its
    /// volume does, where a change costs `change`: in turns it shares a change with the others of
    /// its turn, and costs most of a revolution on a drive that does not read ahead.
    pub(crate) fn saves(&mut self, view: &View<'_>, id: RunId, change: Nanos) -> bool {
        let Some(run) = self.runs.get_mut(&id) else { return true };
        let next = run.eligible(view).next().map(sector_ns);
        run.account.sector_ns = next.unwrap_or(run.account.sector_ns);
        let Some(habits) = self.habits.get_mut(&run.kind) else { return true };
        let queued = view.queue.of_volume(run.volume).take(OLDEST).count();
        let requests = queued + usize::from(run.held.is_empty());
        let change_ns = change.as_ns() as f64;
        // Service times fall with the number of requests to this power (docs/limits.md, 1).
        habits.cheapest_ns = Some(change_ns / libm::sqrt(libm::sqrt(requests.max(1) as f64)));
        habits.save(run.per_turn, change_ns)
    }

    /// Notes that a turn of a run begins, or a visit to it. Writes that the drive's cache takes do
    /// not count: they cost no change.
    pub(crate) fn turn_begins(&mut self, id: RunId) {
        let run = self.runs.get_mut(&id).filter(|run| !run.last_was_cached);
        let Some(run) = run else { return };
        let requests = run.requests - core::mem::replace(&mut run.before_turn, run.requests);
        if requests > 0 {
            run.per_turn += (f64::from(requests) - run.per_turn) / 4.0;
        }
    }

    /// Lets a run be short again, until it has used the time of two changes once more.
    pub(crate) fn demote(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id).filter(|run| run.is_long) {
            run.is_long = false;
            run.account.used = Nanos::ZERO;
            self.held_of_long -= run.held.len();
        }
    }

    /// The longest wait for the next request of a run that pays, where a change to another owner
    /// costs `change`: as much of it as the request is probable to come in time.
    pub(crate) fn longest_wait(&self, id: RunId, change: Nanos) -> Nanos {
        let run = self.runs.get(&id);
        let habits = run.and_then(|run| self.habits.get(&run.kind));
        let elsewhere = habits.filter(|_| self.is_left(id));
        let comes = elsewhere.and_then(|habits| habits.pauses_elsewhere.came());
        let comes = comes.unwrap_or_else(|| habits.map_or(1.0, Habits::comes));
        part(change, comes)
    }

    /// Returns whether the process or connection of a run has gone elsewhere.
    pub(crate) fn is_left(&self, id: RunId) -> bool {
        self.runs.get(&id).is_some_and(|run| run.is_left)
    }

    /// The longest wait for the next request of a rest of which none is held, as for that of a run.
    pub(crate) fn longest_wait_for_rest(
        &mut self,
        now: Instant,
        rest: VolumeId,
        change: Nanos,
    ) -> Nanos {
        let account = self.rests.entry(rest).or_default();
        if account.awaited.is_none() {
            account.awaited = Some(now + change);
            account.pauses.add();
        }
        part(change, account.pauses.came().unwrap_or(1.0))
    }

    /// The owners of the requests in the queue of the view, runs with their first request by
    /// address and others with that submitted first. The others count if one of their requests is
    /// among the oldest of the volume, so that a decision costs the same however long the queue is.
    pub(crate) fn eligible<'a>(&mut self, view: &View<'a>) -> Vec<(Owner, &'a Queued)> {
        self.find_bulk();
        let mut owners: Vec<(Owner, &Queued)> = self
            .runs
            .iter()
            .filter(|(_, run)| run.is_long)
            .filter_map(|(id, run)| {
                let first = run.eligible(view).next()?;
                (self.owner(&first.request) == Owner::Run(*id)).then_some((Owner::Run(*id), first))
            })
            .collect();
        let mut parts: Vec<Parts> = view.queue.volumes().map(Parts::of).collect();
        for (_, first) in &owners {
            parts_of(&mut parts, first.request.volume).others += 1;
        }
        for volume in view.queue.volumes() {
            let (before, part) = (owners.len(), parts_of(&mut parts, volume));
            for queued in view.queue.of_volume(volume).take(OLDEST) {
                let owner = self.owner(&queued.request);
                part.rest += u32::from(is_rest(owner));
                let is_new = owners[before..].iter().all(|(known, _)| *known != owner);
                if !matches!(owner, Owner::Run(_)) && is_new {
                    part.others += u32::from(!is_rest(owner));
                    owners.push((owner, queued));
                }
            }
        }
        for request in view.outstanding.iter().flat_map(|command| &command.requests) {
            if let Owner::Rest(volume) = self.owner(&request.request)
                && let Some(part) = parts.iter_mut().find(|part| part.volume == volume)
            {
                part.rest += 1;
            }
        }
        self.weigh(&owners, &mut parts);
        owners
    }

    /// The number of rests without a request that had one a moment ago.
    pub(crate) fn thinking_rests(&self, now: Instant, recent: Nanos) -> usize {
        let thinks =
            |account: &&Account| account.think.idle_since.is_some_and(|since| now < since + recent);
        self.rests.values().filter(thinks).count()
    }

    /// The rest whose next request is expected within `soon` after its last completion, and the
    /// time by which it is.
    pub(crate) fn next_of_a_rest(&self, now: Instant, soon: Nanos) -> Option<(VolumeId, Instant)> {
        let expected = self.rests.iter().filter_map(|(volume, account)| {
            let until = account.think.returns_by(soon)?;
            (until > now).then_some((*volume, until))
        });
        expected.min_by_key(|(_, until)| *until)
    }

    fn find_bulk(&mut self) {
        self.bulk.clear();
        self.bulk.extend(self.runs.values().filter(|run| run.is_in_bulk()).map(|run| run.volume));
    }

    /// The number of requests of a run that have not finished.
    pub(crate) fn held(&self, id: RunId) -> usize {
        self.runs.get(&id).map_or(0, |run| run.held.len())
    }

    /// The requests of a run in the queue of the view, by address.
    pub(crate) fn of_run<'a>(
        &'a self,
        id: RunId,
        view: &'a View<'_>,
    ) -> impl Iterator<Item = &'a Queued> {
        self.runs.get(&id).into_iter().flat_map(|run| run.eligible(view))
    }

    /// Notes a request, and the run that it belongs to.
    pub(crate) fn submitted(&mut self, now: Instant, request: &Request) {
        if now >= self.next_forgotten {
            self.forget(now);
            self.next_forgotten = now + FORGOTTEN / 5;
        }
        if request.op == Op::Discard {
            return;
        }
        if request.op == Op::Flush {
            match self.owner(request) {
                Owner::Run(run) => self.is_followed_by_flush(run, now),
                _ => self.rests.entry(request.volume).or_default().goes_on(now, request.id),
            }
            return;
        }
        let run = match self.continued_by(request) {
            Some(id) => {
                self.count(id);
                Some(id)
            }
            None => self.new_run(now, request),
        };
        self.note_left(now, request.stream, run);
        match run {
            Some(id) => {
                if !self.runs[&id].is_long {
                    self.rests.entry(request.volume).or_default().goes_on(now, request.id);
                }
                self.goes_on(id, now);
                self.join(id, now, request);
            }
            None => self.rests.entry(request.volume).or_default().goes_on(now, request.id),
        }
    }

    /// Notes that the client of a run goes on with a flush.
    fn is_followed_by_flush(&mut self, id: RunId, now: Instant) {
        self.goes_on(id, now);
        if let Some(run) = self.runs.get_mut(&id) {
            run.is_flushed = true;
        }
    }

    /// Notes that a process or connection sends a request of `run`, and that it leaves another run.
    fn note_left(&mut self, now: Instant, stream: StreamId, run: Option<RunId>) {
        let before = match run {
            Some(run) => self.last_of.insert(stream, run),
            None => self.last_of.remove(&stream),
        };
        let left = before.filter(|_| before != run).and_then(|before| self.runs.get_mut(&before));
        let Some(left) = left.filter(|left| left.unanswered > 0 && !left.is_left) else { return };
        left.is_left = true;
        if left.account.awaited.is_some_and(|until| now <= until)
            && let Some(habits) = self.habits.get_mut(&left.kind)
        {
            habits.pauses_elsewhere.add();
        }
    }

    /// Forgets a request that will not be reported.
    pub(crate) fn gone(&mut self, id: RequestId) {
        if let Some(run) = self.of.remove(&id).and_then(|run| self.runs.get_mut(&run)) {
            run.held.retain(|(_, held)| *held != id);
            self.held_of_long -= usize::from(run.is_long);
        }
    }

    /// Notes that no request of `stream` will follow.
    pub(crate) fn ended(&mut self, stream: StreamId) {
        self.last_of.remove(&stream);
        for run in self.runs.values_mut().filter(|run| run.stream == stream) {
            run.account.think.ended = true;
        }
    }
}

/// The transfer time of a sector of a request.
fn sector_ns(queued: &Queued) -> f64 {
    queued.target.transfer.as_ns() as f64 / queued.request.extent.len.get().max(1) as f64
}

pub(crate) fn is_rest(owner: Owner) -> bool {
    matches!(owner, Owner::Rest(_))
}

/// So much of a time.
fn part(time: Nanos, share: f64) -> Nanos {
    Nanos::from_ns((time.as_ns() as f64 * share) as u64)
}

#[cfg(test)]
mod tests;
