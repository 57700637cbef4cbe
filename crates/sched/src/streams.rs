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
mod habits;
mod read_ahead;
mod think;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos};

pub(crate) use self::account::Account;
use self::account::{Parts, parts_of};
use self::habits::{Habits, KNOWN, Kind, kind_of};
pub(crate) use self::think::{Came, Think};
use crate::command::Finished;
use crate::destaging::Destaging;
use crate::policies::written::{DESTAGED, is_cached_write};
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
    /// True if its client sends flushes after requests of it.
    is_flushed: bool,
    /// The number of reads of it in a row that the drive's cache has answered.
    answered: u8,
    /// The time from the submission of its last request to the deadline of that.
    deadline: Option<Nanos>,
    /// Its completions that no later request of it answers.
    unanswered: u32,
    requests: u32,
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
    /// The cost of a change to another owner, once it is known.
    change: Option<Nanos>,
    /// The time at which runs that are over are forgotten next.
    next_forgotten: Instant,
}

/// The maximum distance of a request from the end of its run, in requests of its size (guess: the
/// requests that a client with many outstanding sends out of order).
const NEAR_REQUESTS: u64 = 32;
/// The oldest requests of a volume that a rest or bulk needs one of for a turn (guess: later ones
/// have time).
const OLDEST: usize = 64;
/// The number of candidates (guess: far more than sequential clients of one drive).
const CANDIDATES: usize = 1024;
/// The maximum number of runs (guess, as above).
const RUNS: usize = 256;
/// A run is long, and an owner, once it has used the time of so many changes to another owner
/// (guess: a shorter one costs others less than turns do).
const LONG_CHANGES: u64 = 2;
/// A client that thinks for so many changes or more gains nothing from turns, each of which would
/// be for one read (guess: its run needs a fifth of the drive at most). Measured on 72 drawn
/// mixtures at equal load: the 99th percentile is 8 % shorter than with turns for such runs.
const RARE_CHANGES: u64 = 4;
/// Slow writers are too many from this share on. Measured on `nearline-20tb` beside 8 random
/// clients: 4 writers of 48 writes/s need 2.4 and lose with turns, 20 of 15 need 4 and gain.
const MAX_SLOW: f64 = 3.0;
/// A run without requests for this long has ended (guess: longer than any pace of a recorder).
const FORGOTTEN: Nanos = Nanos::from_secs(5);

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

    /// The share of the drive's time that slow writers need if it moves to each of their writes;
    /// `None` if there are none, or so many that only turns leave time for others.
    pub(crate) fn slow_writers(&self) -> Option<f64> {
        let slow = |run: &&Run| self.is_slow_writers(run);
        let each = self.runs.values().filter(slow).filter_map(|run| {
            let (mean_ns, _) = run.account.think.mean_ns?;
            Some(self.change?.as_ns() as f64 / mean_ns)
        });
        Some(each.sum()).filter(|time| *time > 0.0 && *time < MAX_SLOW)
    }

    /// Returns whether a request belongs to a run of a slow writer: a log or a recorder, which
    /// pauses so long after each write that the next is not worth waiting for.
    pub(crate) fn is_of_slow_writer(&self, request: &Request) -> bool {
        let run = self.run_of(request.id).and_then(|id| self.runs.get(&id));
        run.is_some_and(|run| self.is_slow_writers(run)) && self.slow_writers().is_some()
    }

    /// Returns whether a run consists of writes, the next of which is not worth waiting for.
    fn is_slow_writers(&self, run: &Run) -> bool {
        let think = &run.account.think;
        let is_slow = |change| !think.has_ended() && think.worth(change).is_none();
        run.op == Op::Write && self.change.is_some_and(is_slow)
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

    /// Charges a wait to an owner.
    pub(crate) fn waited_for(&mut self, owner: Owner, waited: Nanos, came: Came) {
        if let Some(account) = self.account_mut(owner) {
            account.charge(waited);
            account.think.waited(came);
        }
    }

    /// Charges a wait for a short run to the rest of its volume.
    pub(crate) fn waited_for_short(&mut self, id: RunId, waited: Nanos, came: Came) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.account.used += waited;
        run.account.think.waited(came);
        self.rests.entry(run.volume).or_default().charge(waited);
    }

    /// Returns whether the next request of a run costs less directly after the one before than the
    /// cheapest request of its volume does, where a change costs `change`: on a drive that does not
    /// read ahead it costs most of a revolution, and the cheapest of several less.
    pub(crate) fn saves(&mut self, view: &View<'_>, id: RunId, change: Nanos) -> bool {
        let Some(run) = self.runs.get_mut(&id) else { return true };
        let next = run.eligible(view).next().map(sector_ns);
        run.account.sector_ns = next.unwrap_or(run.account.sector_ns);
        let Some(habits) = self.habits.get_mut(&run.kind) else { return true };
        let queued = view.queue.of_volume(run.volume).take(OLDEST).count();
        let requests = queued + usize::from(run.held.is_empty());
        // Service times fall with the number of requests to this power (docs/limits.md, 1).
        let cheapest_ns = change.as_ns() as f64 / libm::sqrt(libm::sqrt(requests.max(1) as f64));
        habits.saves_nothing = habits.followed >= KNOWN && habits.following_ns >= cheapest_ns;
        !habits.saves_nothing
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

    /// Gives each volume the same weight, and each owner its part of that; their mean is 1.
    fn weigh(&mut self, owners: &[(Owner, &Queued)], parts: &mut [Parts]) {
        let mean = parts.iter().map(Parts::all).sum::<f64>() / parts.len() as f64;
        for (owner, first) in owners {
            let part = parts_of(parts, first.request.volume);
            let own = if is_rest(*owner) { part.of_rest() } else { 1 };
            if let Some(account) = self.account_mut(*owner) {
                account.sector_ns = sector_ns(first);
                account.weight = mean * f64::from(own) / part.all();
            }
        }
    }

    /// The number of rests without a request that had one a moment ago.
    pub(crate) fn thinking_rests(&self, now: Instant, recent: Nanos) -> usize {
        let thinks =
            |account: &&Account| account.think.idle_since.is_some_and(|since| now < since + recent);
        self.rests.values().filter(thinks).count()
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

    /// Charges a request that has finished to its owner. A run is long that has used the time of
    /// two changes to another owner; as an owner it begins at the virtual time of its volume's
    /// other requests, which have paid so far, or of the run that its process came from: a process
    /// owes the same after it has gone elsewhere. `change` is the cost of a change, if it is known.
    pub(crate) fn finished(&mut self, finished: &Finished, change: Option<Nanos>) {
        self.destaging.served(finished.finished);
        self.change = change;
        match finished.request.op {
            Op::Discard => return,
            Op::Flush => return self.flushed(finished, change),
            Op::Read | Op::Write | Op::Zero => {}
        }
        let owner = self.owner(&finished.request);
        let run = self.run_of(finished.request.id);
        let sectors = finished.request.extent.len.get() as f64;
        let transfer_ns = sectors * self.account(owner).sector_ns;
        let (took, transfer) = (finished.disk_time, Nanos::from_ns(transfer_ns as u64));
        let cached = is_cached_write(&finished.request) && !finished.forced;
        let time = match change {
            _ if cached => {
                let positioning = change.filter(|_| is_rest(owner)).unwrap_or_default();
                self.destaging.wrote(owner, took, transfer, positioning)
            }
            Some(change) => {
                let most = change + transfer;
                self.destaging.waited(took, most).max(finished.arm_time().min(most))
            }
            None => took,
        };
        self.gone(finished.request.id);
        let at_once = cached && took < DESTAGED;
        if let Some(account) = self.account_mut(owner) {
            account.charge(time);
            let beside = time.saturating_sub(transfer);
            account.beside += if at_once { account.virtual_time_of(beside) } else { 0 };
            account.think.finished(finished);
        }
        self.note_arm(finished, run, change);
        let before = core::mem::replace(&mut self.last, run);
        let follows = run.is_some() && before == run;
        let Some(id) = run else { return };
        self.pauses(id, finished, change);
        let Some((run, change)) = self.runs.get_mut(&id).zip(change) else { return };
        run.any_finished = true;
        if let Some(habits) = self.habits.get_mut(&run.kind)
            && follows
            && run.account.sector_ns > 0.0
        {
            let transfer_ns = sectors * run.account.sector_ns;
            let beyond_ns = (finished.arm_time().as_ns() as f64 - transfer_ns).max(0.0);
            habits.followed = (habits.followed + 1.0).min(32.0);
            habits.following_ns += (beyond_ns - habits.following_ns) / habits.followed;
        }
        if owner != Owner::Run(id) {
            run.account.used += time;
        }
        let saves = self.habits.get(&run.kind).is_none_or(|habits| !habits.saves_nothing);
        if run.op == Op::Read && run.account.think.mean() >= change * RARE_CHANGES {
            self.demote(id);
            return;
        }
        if run.account.used >= change * LONG_CHANGES && !run.is_long && saves {
            run.is_long = true;
            self.held_of_long += run.held.len();
            let (volume, stream) = (run.volume, run.stream);
            let rest = self.rests.get(&volume).map_or(0, |rest| rest.virtual_time);
            let came_from = |(other, run): &(&RunId, &Run)| {
                let same = (run.volume, run.stream) == (volume, stream);
                same && run.is_long && run.held.is_empty() && **other != id
            };
            let before = self.runs.iter().filter(came_from);
            let latest = before.map(|(_, run)| run.account.virtual_time).fold(rest, u64::max);
            self.account_mut(Owner::Run(id)).expect("it is known").virtual_time = latest;
        }
    }

    /// Charges a flush to the owners of the writes that it waited for.
    fn flushed(&mut self, finished: &Finished, change: Option<Nanos>) {
        self.gone(finished.request.id);
        let flusher = self.owner(&finished.request);
        if let Owner::Run(run) = flusher {
            self.pauses(run, finished, change);
        } else if let Some(account) = self.account_mut(flusher) {
            account.think.finished(finished);
        }
        for (owner, time) in self.destaging.flushed(flusher, finished.disk_time) {
            if let Some(account) = self.account_mut(owner) {
                account.charge(time);
            }
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

    /// The run that a request continues.
    fn continued_by(&self, request: &Request) -> Option<RunId> {
        let start = request.extent.start;
        let key = |lba| (request.volume, request.op, lba);
        let before = self.ends.range(key(Lba::new(0))..=key(start)).next_back();
        let after = self.ends.range(key(start)..=key(Lba::new(u64::MAX))).next();
        let near = |id: &&RunId| self.runs.get(*id).is_some_and(|run| run.is_near(request));
        let [before, after] = [before, after].map(|end| end.map(|(_, id)| id).filter(near));
        let of_client = || self.last_of.get(&request.stream).filter(near);
        before.or(after).or_else(of_client).copied()
    }

    /// Counts a request that continues no run; the run that begins with it, if it is one too many
    /// for a coincidence.
    fn new_run(&mut self, now: Instant, request: &Request) -> Option<RunId> {
        let Extent { start, len } = request.extent;
        if self.candidates.is_empty() {
            self.candidates.resize(CANDIDATES, None);
        }
        let (volume, op, end) = (request.volume, request.op, request.extent.end());
        let continues = |candidate: &Candidate| {
            (candidate.volume, candidate.op, candidate.end) == (volume, op, start)
                && now < candidate.last + FORGOTTEN
        };
        let before = self.candidates[place_of(volume, start)].take_if(|before| continues(before));
        let (requests, length) = before.map_or((0, 0), |before| (before.requests, before.length));
        let kind = before.map_or(kind_of(request), |before| before.kind);
        let habits = self.habits.entry(kind).or_default();
        habits.reached(requests as usize);
        let (needed, think) = (habits.needed(), habits.think);
        let (requests, length) = (requests + 1, length + len.get());
        if requests < needed || !self.has_room() {
            let candidate = Candidate { volume, op, kind, end, requests, length, last: now };
            self.candidates[place_of(volume, end)] = Some(candidate);
            return None;
        }
        let id = RunId(self.next_run);
        self.next_run += 1;
        let run = Run {
            volume,
            op,
            kind,
            is_long: false,
            paced: 1.0,
            any_finished: true,
            is_flushed: false,
            answered: 0,
            deadline: None,
            unanswered: 0,
            requests,
            stream: request.stream,
            end: start,
            length: length - len.get(),
            held: Vec::new(),
            last: now,
            is_left: false,
            account: Account { think: Think { idle_since: None, ..think }, ..Account::default() },
        };
        self.ends.insert((volume, op, start), id);
        self.runs.insert(id, run);
        Some(id)
    }

    /// Counts a request that continues a run.
    fn count(&mut self, id: RunId) {
        let run = self.runs.get_mut(&id).expect("the ends of runs are those of known runs");
        self.habits.entry(run.kind).or_default().reached(run.requests as usize);
        run.requests = run.requests.saturating_add(1);
    }

    fn join(&mut self, id: RunId, now: Instant, request: &Request) {
        let run = self.runs.get_mut(&id).expect("the ends of runs are those of known runs");
        let Extent { start, len } = request.extent;
        self.ends.remove(&(run.volume, run.op, run.end));
        run.end = run.end.max(request.extent.end());
        run.length += len.get();
        run.last = now;
        run.stream = request.stream;
        run.deadline = request.deadline.map(|deadline| deadline.saturating_since(now));
        let paced = f64::from(u8::from(core::mem::take(&mut run.any_finished)));
        run.paced += (paced - run.paced) / 16.0;
        self.held_of_long += usize::from(run.is_long);
        let place = run.held.partition_point(|(lba, _)| *lba <= start);
        run.held.insert(place, (start, request.id));
        let ends_here = (run.volume, run.op, run.end);
        self.of.insert(request.id, id);
        // Of two runs that meet, the older one goes on.
        if let Some(other) = self.ends.insert(ends_here, id) {
            self.merge(other.max(id), other.min(id));
        }
    }

    /// Notes that the client of a run goes on with it.
    fn goes_on(&mut self, id: RunId, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.account.think.submitted(now);
        run.unanswered = run.unanswered.saturating_sub(1);
        if let Some(habits) = self.habits.get_mut(&run.kind) {
            let in_time = run.account.awaited.take().is_some_and(|until| now <= until);
            let came = f64::from(u8::from(in_time));
            habits.pauses.came += came;
            if core::mem::take(&mut run.is_left) {
                habits.pauses_elsewhere.came += came;
            }
            if !run.is_long {
                habits.think = run.account.think;
            }
        }
    }

    /// Notes that a request of a run has finished, or a flush after it.
    fn pauses(&mut self, id: RunId, finished: &Finished, change: Option<Nanos>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.account.think.finished(finished);
        run.unanswered += 1;
        let Some(habits) = self.habits.get_mut(&run.kind).filter(|_| run.held.is_empty()) else {
            return;
        };
        run.account.awaited = change.and_then(|change| run.account.think.awaited_until(change));
        if run.account.awaited.is_some() {
            habits.pauses.add();
            if run.is_left {
                habits.pauses_elsewhere.add();
            }
        }
    }

    /// Lets `into` go on for both: the requests of `from` are its own from now on.
    fn merge(&mut self, from: RunId, into: RunId) {
        let Some(from) = self.runs.remove(&from) else { return };
        for (_, id) in &from.held {
            self.of.insert(*id, into);
        }
        let run = self.runs.get_mut(&into).expect("the ends of runs are those of known runs");
        self.held_of_long += match (from.is_long, run.is_long) {
            (false, true) => from.held.len(),
            (true, false) => run.held.len(),
            _ => 0,
        };
        run.is_long |= from.is_long;
        let time = &mut run.account.virtual_time;
        *time = from.account.virtual_time.max(*time);
        run.held.extend(from.held);
        run.held.sort_unstable();
        self.ends.insert((run.volume, run.op, run.end), into);
    }

    /// Forgets the runs that are over.
    fn forget(&mut self, now: Instant) {
        let Self { runs, ends, last_of, .. } = self;
        runs.retain(|_, run| {
            let stays = !run.held.is_empty() || now < run.last + FORGOTTEN;
            if !stays {
                ends.remove(&(run.volume, run.op, run.end));
            }
            stays
        });
        last_of.retain(|_, run| runs.contains_key(run));
    }

    /// Returns whether there is room for another run; if there are too many, the one that was idle
    /// longest is forgotten.
    fn has_room(&mut self) -> bool {
        let Self { runs, ends, .. } = self;
        if runs.len() < RUNS {
            return true;
        }
        let idle = runs.iter().filter(|(_, run)| run.held.is_empty());
        let oldest = idle.min_by_key(|(_, run)| run.last).map(|(id, _)| *id);
        oldest.and_then(|id| runs.remove(&id)).is_some_and(|run| {
            ends.remove(&(run.volume, run.op, run.end));
            true
        })
    }
}

impl Run {
    /// Returns whether it is long and its requests come without completions in between.
    fn is_in_bulk(&self) -> bool {
        self.is_long && self.op == Op::Write && !self.is_paced() && !self.held.is_empty()
    }

    /// Returns whether a request begins near its end.
    fn is_near(&self, request: &Request) -> bool {
        let furthest = request.extent.len.get().saturating_mul(NEAR_REQUESTS);
        let distance = self.end.get().abs_diff(request.extent.start.get());
        self.volume == request.volume && distance <= self.length.min(furthest)
    }

    /// Returns whether most of its requests came after a completion.
    fn is_paced(&self) -> bool {
        self.paced >= 0.5
    }

    /// The requests that are in the queue of the view, by address.
    fn eligible<'a>(&self, view: &View<'a>) -> impl Iterator<Item = &'a Queued> {
        let queue = view.queue;
        self.held.iter().filter_map(move |(lba, id)| {
            queue
                .from_lba(*lba)
                .take_while(|queued| queued.request.extent.start == *lba)
                .find(|queued| queued.request.id == *id)
        })
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

/// The place of a candidate: ends scatter by a multiplication with 2⁶⁴ over the golden ratio.
fn place_of(volume: VolumeId, end: Lba) -> usize {
    let product = (end.get() ^ (u64::from(volume.0) << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product >> 32) as usize % CANDIDATES
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
