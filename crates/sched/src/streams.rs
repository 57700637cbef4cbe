//! Sequential runs among the requests, and the disk time that each owner of requests has used.
//!
//! A *run* is a sequence of requests of one volume and one operation, each of which starts where
//! the one before it ended. From its third request on a run is the *owner* of its requests; all
//! other requests of a volume have one owner together ([`Owner::Rest`]). A run continues over a gap
//! that is neither longer than the run so far nor than 32 requests (read-ahead skips what is
//! cached), and with a request that arrives after one that follows it.
//!
//! Worked example: reads of 8 sectors at 0, 8 and 16 are a run from the third on; one at 32 belongs
//! to it (the gap of 8 sectors is shorter than the run of 24), one at 900 does not.
//!
//! Cost: a request of no run takes two accesses to a table of fixed size, one of a run O(log n) in
//! the number of runs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos};

use crate::command::Finished;
use crate::policy::View;
use crate::queue::Queued;
use crate::request::{Op, Request, RequestId, StreamId, VolumeId};

/// The owner of requests, for the fair use of disk time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// A sequential run.
    Run(RunId),
    /// Everything of a volume that belongs to no run.
    Rest(VolumeId),
}

/// The name of a run; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(u64);

/// The disk time that an owner has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// The disk time used, with waits for its requests.
    pub(crate) used: Nanos,
    /// The virtual time of start-time fair queueing.
    pub(crate) virtual_time: u64,
    /// The think time of its client.
    pub(crate) think: Think,
}

/// The think time of a client: from a completion to its next submission.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Think {
    /// The mean, and the mean deviation; `None` before the first.
    mean_ns: Option<(f64, f64)>,
    /// The last completion, as long as no request was submitted after it.
    idle_since: Option<Instant>,
    /// True if no request will follow.
    ended: bool,
}

/// A sequential run.
#[derive(Clone, Debug)]
struct Run {
    volume: VolumeId,
    op: Op,
    stream: StreamId,
    /// The end of the run so far, and its length.
    end: Lba,
    length: u64,
    /// Its requests that have not finished, by address.
    held: Vec<(Lba, RequestId)>,
    last: Instant,
    account: Account,
}

/// A sequence that may become a run: the end of its last request.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    volume: VolumeId,
    op: Op,
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
    next_run: u64,
}

/// The number of requests that make a run (guess: two may follow each other by chance).
const REQUESTS: u32 = 3;
/// The maximum distance of a request from the end of its run, in requests of its size (guess: the
/// requests that a client with many outstanding sends out of order).
const NEAR_REQUESTS: u64 = 32;
/// The oldest requests that a rest needs one of to have a turn (guess: later ones have time).
const OLDEST: usize = 64;
/// The number of candidates (guess: far more than sequential clients of one drive).
const CANDIDATES: usize = 1024;
/// The maximum number of runs (guess, as above).
const RUNS: usize = 256;
/// A run without requests for this long has ended (guess: longer than any pace of a recorder).
const FORGOTTEN: Nanos = Nanos::from_secs(5);

impl Account {
    /// Charges disk time.
    pub(crate) fn charge(&mut self, time: Nanos) {
        self.used += time;
        self.virtual_time += time.as_ns();
    }
}

impl Think {
    /// The time by which the next request is expected, if no request was submitted after the last
    /// completion and it is worth waiting for, which is at most `most` after that.
    ///
    /// It is the mean think time with four mean deviations (as TCP's retransmission timer) and a
    /// margin, or `most` before the first think time is known.
    pub(crate) fn expected_by(&self, most: Nanos) -> Option<Instant> {
        Some(self.idle_since? + self.within(most)?)
    }

    /// The time before which the next request is not expected: the mean less two mean deviations.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        let (mean, deviation) = self.mean_ns?;
        Some(self.idle_since? + Nanos::from_ns((mean - 2.0 * deviation).max(0.0) as u64))
    }

    /// The time after a completion within which a request is expected, if at most `most`.
    pub(crate) fn within(&self, most: Nanos) -> Option<Nanos> {
        let wait = match self.mean_ns {
            Some((mean, deviation)) => Nanos::from_ns((mean + 4.0 * deviation) as u64) + MARGIN,
            None => most,
        };
        (!self.ended && wait <= most).then_some(wait)
    }

    /// Notes a submission.
    pub(crate) fn submitted(&mut self, now: Instant) {
        self.ended = false;
        let Some(since) = self.idle_since.take() else { return };
        let sample = now.saturating_since(since).as_ns() as f64;
        self.mean_ns = Some(match self.mean_ns {
            Some((mean, deviation)) => (
                mean + (sample - mean) / 8.0,
                deviation + ((sample - mean).abs() - deviation) / 4.0,
            ),
            None => (sample, sample / 2.0),
        });
    }

    /// Notes a completion.
    pub(crate) fn finished(&mut self, finished: &Finished) {
        self.idle_since = Some(finished.finished);
    }
}

/// The addition to the expected think time (guess: the way of a completion to its client and of
/// the next request back, when that is slow).
const MARGIN: Nanos = Nanos::from_us(500);

impl Streams {
    /// Returns whether no request of a run is held.
    pub(crate) fn no_run_is_held(&self) -> bool {
        self.of.is_empty()
    }

    /// The owner of a queued request.
    pub(crate) fn owner(&self, request: &Request) -> Owner {
        self.of.get(&request.id).map_or(Owner::Rest(request.volume), |run| Owner::Run(*run))
    }

    /// The account of an owner; of one that is not known an empty one.
    pub(crate) fn account(&self, owner: Owner) -> Account {
        match owner {
            Owner::Run(id) => self.runs.get(&id).map(|run| run.account),
            Owner::Rest(volume) => self.rests.get(&volume).copied(),
        }
        .unwrap_or_default()
    }

    /// The account of an owner, to be changed; `None` for a run that is over.
    pub(crate) fn account_mut(&mut self, owner: Owner) -> Option<&mut Account> {
        match owner {
            Owner::Run(id) => self.runs.get_mut(&id).map(|run| &mut run.account),
            Owner::Rest(volume) => Some(self.rests.entry(volume).or_default()),
        }
    }

    /// The owners of the requests in the queue of the view, each with its first request by
    /// address, which for a rest is that submitted first. A rest counts if one of its requests is
    /// among the oldest, so that a decision costs the same however long the queue is.
    pub(crate) fn eligible<'a>(&self, view: &View<'a>) -> Vec<(Owner, &'a Queued)> {
        let mut owners: Vec<(Owner, &Queued)> = self
            .runs
            .iter()
            .filter_map(|(id, run)| Some((Owner::Run(*id), run.eligible(view).next()?)))
            .collect();
        let runs = owners.len();
        for queued in view.queue.by_arrival().take(OLDEST) {
            let owner = Owner::Rest(queued.request.volume);
            if !owners[runs..].iter().any(|(known, _)| *known == owner)
                && !self.of.contains_key(&queued.request.id)
            {
                owners.push((owner, queued));
            }
        }
        owners
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
        if !request.op.moves_head() {
            return;
        }
        match self.run_of(request).or_else(|| self.new_run(now, request)) {
            Some(id) => self.join(id, now, request),
            None => self.rests.entry(request.volume).or_default().think.submitted(now),
        }
    }

    /// Charges a request that has finished to its owner.
    pub(crate) fn finished(&mut self, finished: &Finished) {
        if finished.request.op.moves_head() {
            let owner = self.owner(&finished.request);
            self.gone(finished.request.id);
            if let Some(account) = self.account_mut(owner) {
                account.charge(finished.disk_time);
                account.think.finished(finished);
            }
        }
    }

    /// Forgets a request that will not be reported.
    pub(crate) fn gone(&mut self, id: RequestId) {
        if let Some(run) = self.of.remove(&id).and_then(|run| self.runs.get_mut(&run)) {
            run.held.retain(|(_, held)| *held != id);
        }
    }

    /// Notes that no request of `stream` will follow.
    pub(crate) fn ended(&mut self, stream: StreamId) {
        for run in self.runs.values_mut().filter(|run| run.stream == stream) {
            run.account.think.ended = true;
        }
    }

    /// The run that a request continues.
    fn run_of(&self, request: &Request) -> Option<RunId> {
        let start = request.extent.start;
        let key = |lba| (request.volume, request.op, lba);
        let before = self.ends.range(key(Lba::new(0))..=key(start)).next_back();
        let after = self.ends.range(key(start)..=key(Lba::new(u64::MAX))).next();
        let furthest = request.extent.len.get().saturating_mul(NEAR_REQUESTS);
        let near = |(_, id): &(&(VolumeId, Op, Lba), &RunId)| {
            let run = &self.runs[id];
            run.end.get().abs_diff(start.get()) <= run.length.min(furthest)
        };
        before.filter(near).or_else(|| after.filter(near)).map(|(_, id)| *id)
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
        let (requests, length) = (requests + 1, length + len.get());
        if requests < REQUESTS || !self.has_room(now) {
            let candidate = Candidate { volume, op, end, requests, length, last: now };
            self.candidates[place_of(volume, end)] = Some(candidate);
            return None;
        }
        let id = RunId(self.next_run);
        self.next_run += 1;
        let run = Run {
            volume,
            op,
            stream: request.stream,
            end: start,
            length: length - len.get(),
            held: Vec::new(),
            last: now,
            account: Account::default(),
        };
        self.ends.insert((volume, op, start), id);
        self.runs.insert(id, run);
        Some(id)
    }

    fn join(&mut self, id: RunId, now: Instant, request: &Request) {
        let run = self.runs.get_mut(&id).expect("the ends of runs are those of known runs");
        let Extent { start, len } = request.extent;
        self.ends.remove(&(run.volume, run.op, run.end));
        run.end = run.end.max(request.extent.end());
        run.length += len.get();
        run.last = now;
        run.stream = request.stream;
        run.account.think.submitted(now);
        let place = run.held.partition_point(|(lba, _)| *lba <= start);
        run.held.insert(place, (start, request.id));
        let ends_here = (run.volume, run.op, run.end);
        self.of.insert(request.id, id);
        // Of two runs that meet, the older one goes on.
        if let Some(other) = self.ends.insert(ends_here, id) {
            self.merge(other.max(id), other.min(id));
        }
    }

    /// Lets `into` go on for both: the requests of `from` are its own from now on.
    fn merge(&mut self, from: RunId, into: RunId) {
        let Some(from) = self.runs.remove(&from) else { return };
        for (_, id) in &from.held {
            self.of.insert(*id, into);
        }
        let run = self.runs.get_mut(&into).expect("the ends of runs are those of known runs");
        run.held.extend(from.held);
        run.held.sort_unstable();
        self.ends.insert((run.volume, run.op, run.end), into);
    }

    /// Returns whether there is room for another run, after those that are over are forgotten.
    fn has_room(&mut self, now: Instant) -> bool {
        let Self { runs, ends, .. } = self;
        runs.retain(|_, run| {
            let stays = !run.held.is_empty() || now < run.last + FORGOTTEN;
            if !stays {
                ends.remove(&(run.volume, run.op, run.end));
            }
            stays
        });
        runs.len() < RUNS
    }
}

impl Run {
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

    /// The owners of these requests, submitted 1 ms apart.
    fn owners(requests: &[Request]) -> (Streams, Vec<Owner>) {
        let mut streams = Streams::default();
        for (number, request) in requests.iter().enumerate() {
            streams.submitted(Instant::from_ns(number as u64 * 1_000_000), request);
        }
        let owners = requests.iter().map(|request| streams.owner(request)).collect();
        (streams, owners)
    }

    const REST: Owner = Owner::Rest(VolumeId(7));
    const FIRST: Owner = Owner::Run(RunId(0));

    /// The worked example of the module, with one that arrives after its successor.
    #[test]
    fn the_third_of_a_sequence_and_what_follows_it_are_a_run() {
        let at = [0, 8, 16, 32, 24, 900, 40];
        let reads: Vec<Request> = (0..).zip(at).map(|(id, lba)| read(id, lba, 8)).collect();
        let (streams, owners) = owners(&reads);
        assert_eq!(owners, [REST, REST, FIRST, FIRST, FIRST, REST, FIRST]);
        streams.self_check();
    }

    #[test]
    fn another_operation_or_volume_or_a_long_pause_is_another_sequence() {
        let mut reads = [read(0, 0, 8), read(1, 8, 8), read(2, 16, 8)];
        reads[1].op = Op::Write;
        assert_eq!(owners(&reads).1, [REST; 3]);
        reads[1] = Request { volume: VolumeId(1), ..read(1, 8, 8) };
        assert_eq!(owners(&reads).1[2], REST);
        let mut streams = Streams::default();
        streams.submitted(Instant::ORIGIN, &read(0, 0, 8));
        streams.submitted(Instant::ORIGIN, &read(1, 8, 8));
        streams.submitted(Instant::ORIGIN + FORGOTTEN, &read(2, 16, 8));
        assert_eq!(streams.owner(&read(2, 16, 8)), REST);
    }

    /// The last request of the first run ends where the second run ends.
    #[test]
    fn a_run_that_reaches_the_end_of_another_goes_on_with_its_requests() {
        let at = [0, 8, 16, 1_000, 1_008, 1_016];
        let mut reads: Vec<Request> = (0..).zip(at).map(|(id, lba)| read(id, lba, 8)).collect();
        reads.push(read(6, 24, 1_000));
        let (streams, owners) = owners(&reads);
        assert_eq!(owners, [REST, REST, FIRST, REST, REST, FIRST, FIRST]);
        streams.self_check();
    }

    #[test]
    fn what_is_random_makes_no_run() {
        let reads: Vec<Request> = (0..2_000_u64)
            .map(|id| read(id, (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) << 3, 8))
            .collect();
        let (streams, owners) = owners(&reads);
        assert!(owners.iter().all(|owner| *owner == REST));
        assert!(streams.no_run_is_held());
    }

    #[test]
    fn runs_are_forgotten_and_never_too_many() {
        let mut streams = Streams::default();
        for number in 0..2 * RUNS as u64 {
            let now = Instant::from_ns(number * FORGOTTEN.as_ns() / 64);
            for step in 0..3 {
                let request = read(number * 3 + step, (number << 20) + (step << 3), 8);
                streams.submitted(now, &request);
                streams.gone(request.id);
            }
            assert!(streams.runs.len() <= 65, "{}", streams.runs.len());
            streams.self_check();
        }
        let now = Instant::from_ns(u64::MAX / 2);
        for number in 0..2 * RUNS as u64 {
            for step in 0..3 {
                streams.submitted(
                    now,
                    &read((1 << 40) + number * 3 + step, (number << 20) + (step << 3), 8),
                );
            }
        }
        assert_eq!(streams.runs.len(), RUNS);
        streams.self_check();
    }

    #[test]
    fn a_think_time_is_learned_and_one_that_is_too_long_is_not_waited_for() {
        let mut think = Think::default();
        let (ms, change) = (Nanos::from_ms, Nanos::from_ms(12));
        assert_eq!(think.within(change), Some(change), "nothing is known yet");
        let mut now = Instant::ORIGIN;
        let mut learn = |think: &mut Think, time: Nanos| {
            for _ in 0..40 {
                think.idle_since = Some(now);
                now += time;
                think.submitted(now);
            }
            think.idle_since = Some(now);
            now
        };
        let since = learn(&mut think, ms(2));
        let until = think.expected_by(change).expect("it comes soon");
        assert!(until >= since + ms(2) && until < since + ms(3), "{until} after {since}");
        let earliest = think.not_before().expect("a think time is known");
        assert!(earliest > since + ms(1) && earliest <= since + ms(2), "{earliest} after {since}");
        learn(&mut think, ms(20));
        assert_eq!(think.expected_by(change), None);
        learn(&mut think, ms(2));
        think.ended = true;
        assert_eq!(think.expected_by(change), None, "its process has ended");
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
            assert_eq!(self.of.len(), self.runs.values().map(|run| run.held.len()).sum::<usize>());
        }
    }
}
