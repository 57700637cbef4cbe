//! How requests make runs, and which run each continues.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos};

use super::account::Account;
use super::habits::kind_of;
use super::think::Think;
use super::{Candidate, Run, RunId, Streams};
use crate::command::Finished;
use crate::policy::View;
use crate::queue::Queued;
use crate::request::{Op, Request, VolumeId};

/// The maximum distance of a request from the end of its run, in requests of its size (guess: the
/// requests that a client with many outstanding sends out of order).
const NEAR_REQUESTS: u64 = 32;
/// The number of candidates (guess: far more than sequential clients of one drive).
const CANDIDATES: usize = 1024;
/// The maximum number of runs (guess, as above).
pub(super) const RUNS: usize = 256;
/// The requests in a turn of a run of which nothing is known (guess: as many make a run).
pub(super) const PER_TURN: f64 = 3.0;
/// A run without requests for this long has ended (guess: longer than any pace of a recorder).
pub(super) const FORGOTTEN: Nanos = Nanos::from_secs(5);

impl Streams {
    /// The run that a request continues.
    pub(super) fn continued_by(&self, request: &Request) -> Option<RunId> {
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
    pub(super) fn new_run(&mut self, now: Instant, request: &Request) -> Option<RunId> {
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
            waited_for_room: None,
            last_was_cached: false,
            media_share: 1.0,
            is_flushed: false,
            deadline: None,
            unanswered: 0,
            requests,
            before_turn: requests,
            per_turn: PER_TURN,
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
    pub(super) fn count(&mut self, id: RunId) {
        let run = self.runs.get_mut(&id).expect("the ends of runs are those of known runs");
        self.habits.entry(run.kind).or_default().reached(run.requests as usize);
        run.requests = run.requests.saturating_add(1);
    }

    pub(super) fn join(&mut self, id: RunId, now: Instant, request: &Request) {
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
    pub(super) fn goes_on(&mut self, id: RunId, now: Instant) {
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
    pub(super) fn pauses(&mut self, id: RunId, finished: &Finished, change: Option<Nanos>) {
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
    pub(super) fn merge(&mut self, from: RunId, into: RunId) {
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
    pub(super) fn forget(&mut self, now: Instant) {
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
    pub(super) fn has_room(&mut self) -> bool {
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
    pub(super) fn is_in_bulk(&self) -> bool {
        self.is_long && self.op == Op::Write && !self.is_paced() && !self.held.is_empty()
    }

    /// Returns whether a request begins near its end.
    fn is_near(&self, request: &Request) -> bool {
        let furthest = request.extent.len.get().saturating_mul(NEAR_REQUESTS);
        let distance = self.end.get().abs_diff(request.extent.start.get());
        self.volume == request.volume && distance <= self.length.min(furthest)
    }

    /// Returns whether most of its requests came after a completion.
    pub(super) fn is_paced(&self) -> bool {
        self.paced >= 0.5
    }

    /// The requests that are in the queue of the view, by address.
    pub(super) fn eligible<'a>(&self, view: &View<'a>) -> impl Iterator<Item = &'a Queued> {
        let queue = view.queue;
        self.held.iter().filter_map(move |(lba, id)| {
            queue
                .from_lba(*lba)
                .take_while(|queued| queued.request.extent.start == *lba)
                .find(|queued| queued.request.id == *id)
        })
    }
}

/// The place of a candidate: ends scatter by a multiplication with 2⁶⁴ over the golden ratio.
fn place_of(volume: VolumeId, end: Lba) -> usize {
    let product = (end.get() ^ (u64::from(volume.0) << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product >> 32) as usize % CANDIDATES
}
