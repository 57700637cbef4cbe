//! Writes to a drive with a write cache: whether they wait for room there, how soon a flush follows
//! them, and which of them a policy gathers or forces to the medium.
//!
//! Writes that wait for room go together: after each, the head is where the drive has destaged
//! another, and the cheapest read is chosen from the wrong place.
//!
//! Writes that are forced to the medium (FUA) leave the head where they end, so that one order
//! covers reads and writes, and a flush has nothing to save. Worked example, 8 KiB at random, half
//! reads, a flush after every fourth write, `nearline-20tb`, 32 requests held: 221 requests/s with
//! forced writes, 137 without; the drive's own queue, without, 165.

use core::cell::Cell;

use headtime_units::{Instant, Nanos};

use crate::command::{Finished, Outcome};
use crate::policies::trials::Trials;
use crate::policy::View;
use crate::queue::{Queued, Ticket};
use crate::request::{Op, Request};

/// The state of a write-back cache: the drive takes writes at once, or has no room for them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteCache {
    HasRoom,
    FullOrNone,
}

/// The last writes and flushes.
#[derive(Default)]
pub(crate) struct Written {
    /// True if the last write waited for room.
    cache_is_full: bool,
    /// The share of writes that waited for room in the drive's cache.
    waited: Mean,
    /// True if the policy forced the last write to the medium: the head is where that ends.
    forces: bool,
    /// The share of writes among the last 64 requests or so.
    share_of_writes: f64,
    /// The times at which the last read was submitted, and the last flush finished.
    last_read: Option<Instant>,
    /// The reads submitted in about the second before the last one.
    reads: f64,
    last_flush: Option<Instant>,
    /// The number of writes since the last flush, and its mean at the last flushes.
    unflushed: u32,
    per_flush: Option<f64>,
    /// The disk time of reads, of those among them that needed the arm, and of writes with force
    /// unit access.
    read_time: Mean,
    arm_time: Mean,
    fua_time: Mean,
    /// The response time of reads.
    read_response: Mean,
    /// The last completion of a read.
    last_answer: Option<Instant>,
    /// The share of the last 16 reads or so that were submitted [soon](SOON) after one.
    answered: f64,
    /// Writes go until none is left.
    writes_go: Cell<bool>,
    turns: TurnTrials,
}

/// Trials of turns of writers in sequence.
struct TurnTrials {
    trials: Trials,
    /// True if they apply to the writes held.
    tried: Cell<bool>,
}

impl Default for TurnTrials {
    fn default() -> Self {
        Self { trials: Trials::new(TURN_TRIAL), tried: Cell::new(false) }
    }
}

/// The mean of the last values.
#[derive(Default)]
struct Mean {
    count: u32,
    mean: f64,
}

impl Mean {
    fn note(&mut self, value: f64) {
        self.count = (self.count + 1).min(MEAN_OF);
        self.mean += (value - self.mean) / f64::from(self.count);
    }

    /// The mean, once it is one of enough values.
    fn get(&self) -> Option<f64> {
        (self.count >= MEAN_OF / 2).then_some(self.mean)
    }
}

/// The requests that compete while writes are gathered.
pub(crate) enum Gathered {
    Any,
    Write(Ticket),
    NoWrite,
}

impl Written {
    /// The state of the drive's write cache, as far as its last writes show.
    pub(crate) fn cache(&self, view: &View<'_>) -> WriteCache {
        match view.belief.takes_into_cache(Op::Write) && !self.cache_is_full {
            true => WriteCache::HasRoom,
            false => WriteCache::FullOrNone,
        }
    }

    /// Returns whether the drive destages between commands for which others wait: it has had no
    /// room for a quarter of the recent writes, or a fifth of the requests were writes.
    pub(crate) fn are_destaged_meanwhile(&self) -> bool {
        self.wait_for_room() || self.share_of_writes >= 0.2
    }

    /// Returns whether a quarter of the recent writes or more waited for room in the drive's cache:
    /// after a flush it has room for a while.
    pub(crate) fn wait_for_room(&self) -> bool {
        self.waited.mean >= 0.25
    }

    /// Returns whether half of the recent requests or more were writes.
    pub(crate) fn are_most(&self) -> bool {
        self.share_of_writes >= 0.5
    }

    /// Returns whether no read was submitted for a second, and no flush finished (guess: longer
    /// than any think time that is worth waiting for).
    pub(crate) fn are_all(&self, now: Instant) -> bool {
        let read_lately = self.last_read.is_some_and(|read| now < read + Nanos::from_secs(1));
        !read_lately && !self.were_flushed(now)
    }

    /// Returns whether trials may show that writers in sequence have to take turns: there are not
    /// many reads, which have turns anyway, and no flush has finished for a second.
    pub(crate) fn may_take_turns(&self, now: Instant) -> bool {
        !self.are_beside_many_reads(now) && !self.were_flushed(now)
    }

    /// Notes that all writes held are of runs whose turns are tried.
    pub(crate) fn try_turns(&self, now: Instant) {
        self.turns.tried.set(true);
        self.turns.trials.by_drive(now);
    }

    /// Notes that turns of the writes held are not tried.
    pub(crate) fn try_no_turns(&self) {
        self.turns.tried.set(false);
    }

    /// Returns whether turns of writers in sequence are tried.
    pub(crate) fn tries_turns(&self) -> bool {
        self.turns.tried.get()
    }

    /// Returns whether writers in sequence take turns.
    pub(crate) fn take_turns(&self) -> bool {
        self.tries_turns() && self.turns.trials.are_by_policy()
    }

    /// Returns whether reads are few, and no flush has finished for a second.
    pub(crate) fn are_beside_few_reads(&self, now: Instant) -> bool {
        self.reads_per_second(now) <= FEW_READS && !self.were_flushed(now)
    }

    /// The reads of about the last second as a multiple of the largest number that is few, at least
    /// one.
    pub(crate) fn times_few_reads(&self, now: Instant) -> u64 {
        libm::ceil(self.reads_per_second(now) / FEW_READS).max(1.0) as u64
    }

    /// Returns whether reads are so many that they lose less by turns of writes in sequence than by
    /// what the drive destages between them.
    pub(crate) fn are_beside_many_reads(&self, now: Instant) -> bool {
        let per_second = self.reads_per_second(now);
        let waiting = per_second * self.read_response.mean * 1e-9;
        let all_the_time = || waiting >= ONE_WAITING && self.answered >= 0.5;
        per_second > MANY_READS || waiting >= MANY_WAITING || all_the_time()
    }

    /// The reads of about the last second.
    fn reads_per_second(&self, now: Instant) -> f64 {
        let since = self.last_read.map_or(Nanos::ZERO, |last| now.saturating_since(last));
        self.reads * libm::exp(-since.as_secs_f64())
    }

    /// Returns whether a flush has finished within a second.
    pub(crate) fn were_flushed(&self, now: Instant) -> bool {
        self.last_flush.is_some_and(|flush| now < flush + Nanos::from_secs(1))
    }

    /// Returns whether the policy forced the last write to the medium.
    pub(crate) fn are_forced(&self) -> bool {
        self.forces
    }

    /// Returns whether so few writes go between two flushes that the drive cannot order them as
    /// well as a policy with this number of requests held orders all.
    pub(crate) fn are_flushed_soon(&self, held: usize) -> bool {
        let Some(mean) = self.per_flush else { return false };
        let most = (held * held) as f64 * if self.forces { FLUSHED_AGAIN } else { FLUSHED };
        mean.max(f64::from(self.unflushed)) <= most
    }

    /// Returns whether trials decide which writes are forced that wait for room: where most are
    /// writes, on a drive that takes one command at a time, and beside writes for another arm.
    pub(crate) fn are_forced_by_trials(&self, view: &View<'_>) -> bool {
        view.max_outstanding == 1 || self.are_most() || view.other_arms.write
    }

    /// The number of requests held from which on writes are forced, or that is tried, which wait
    /// for room.
    pub(crate) fn forced_from(&self, view: &View<'_>) -> usize {
        match self.share_of_writes {
            _ if view.max_outstanding == 1 => TRIED_FROM_ONE,
            _ if view.other_arms.write => 1,
            0.85.. => FORCED_FROM,
            0.5.. => FORCED_FROM - FORCED_FEWER,
            _ if self.forces => FORCED_FROM - FORCED_FEWER,
            _ => FORCED_FROM,
        }
    }

    /// Writes go when the oldest has waited for one and a half mean responses. Where most requests
    /// are writes, they are not gathered: reads would wait for too many.
    pub(crate) fn next(&self, view: &View<'_>, among: impl Fn(&Queued) -> bool) -> Gathered {
        let held = view.queue.len() + view.outstanding.len();
        if !self.cache_is_full
            || self.forces
            || held < GATHERED_FROM
            || !view.belief.takes_into_cache(Op::Write)
        {
            return Gathered::Any;
        }
        let (mut first, mut writes, mut all) = (None, 0, 0);
        for queued in view.queue.by_arrival().take(OLDEST).filter(|queued| among(queued)) {
            all += 1;
            if is_cached_write(&queued.request) {
                writes += 1;
                first = first.or(Some(queued));
            }
        }
        let first = first.filter(|_| 2 * writes <= all);
        let patience = view.mean_response * 3 / 2;
        let go = |first: &Queued| self.writes_go.get() || first.submitted + patience <= view.now;
        self.writes_go.set(first.is_some_and(go));
        match first {
            None => Gathered::Any,
            Some(first) if self.writes_go.get() => Gathered::Write(first.ticket),
            Some(_) => Gathered::NoWrite,
        }
    }

    /// Returns true if force unit access takes much longer than a read, as where a server flushes
    /// all it holds instead. Reads in sequence do not count, unless all are as short.
    pub(crate) fn fua_is_slow(&self) -> bool {
        let times = self.fua_time.get().zip(self.arm_time.get().or(self.read_time.get()));
        times.is_some_and(|(fua, read)| fua > SLOW_FUA * read)
    }

    /// Notes a request.
    pub(crate) fn submitted(&mut self, now: Instant, request: &Request) {
        if request.op == Op::Read {
            let soon = self.last_answer.is_some_and(|answer| now < answer + SOON);
            self.answered += (f64::from(u8::from(soon)) - self.answered) / 16.0;
            self.reads = 1.0 + self.reads_per_second(now);
            self.last_read = Some(now);
        }
    }

    /// Notes a request that is over, and for a write whether the drive had room for it.
    pub(crate) fn finished(&mut self, finished: &Finished) {
        self.count(finished);
        if finished.outcome == Outcome::Success {
            self.note_room(finished);
        }
    }

    /// Notes a request that is over, and tells nothing of the room for others.
    pub(crate) fn count(&mut self, finished: &Finished) {
        if finished.outcome != Outcome::Success {
            return;
        }
        // While the cache has room, all cost little.
        match self.turns.trials.are_by_policy() || self.wait_for_room() {
            true => self.turns.trials.finished(finished),
            false => self.turns.trials.again(),
        }
        let is_write = f64::from(u8::from(finished.request.op == Op::Write));
        self.share_of_writes += (is_write - self.share_of_writes) / 64.0;
        let time = finished.arm_time().as_ns() as f64;
        match finished.request.op {
            Op::Read => {
                self.last_answer = Some(finished.finished);
                self.read_time.note(time);
                self.read_response.note(finished.response().as_ns() as f64);
                if finished.arm_time() > DESTAGED {
                    self.arm_time.note(time);
                }
            }
            _ if finished.forced => self.fua_time.note(time),
            _ => {}
        }
        match finished.request.op {
            Op::Flush => {
                let writes = f64::from(core::mem::take(&mut self.unflushed));
                self.last_flush = Some(finished.finished);
                let mean = self.per_flush.get_or_insert(writes);
                *mean += (writes - *mean) / 16.0;
                self.cache_is_full &= !self.forces;
            }
            Op::Write => self.unflushed = self.unflushed.saturating_add(1),
            _ => {}
        }
    }

    fn note_room(&mut self, finished: &Finished) {
        match finished.request.op {
            Op::Write if finished.forced => self.forces |= !finished.request.fua,
            Op::Write if is_cached_write(&finished.request) => {
                (self.cache_is_full, self.forces) = (finished.arm_time() > DESTAGED, false);
                let waited = finished.finished > finished.dispatched + DESTAGED;
                self.waited.note(f64::from(u8::from(waited)));
            }
            _ => {}
        }
    }
}

/// Returns true for a write that a drive with a write-back cache acknowledges from there.
pub(crate) fn is_cached_write(request: &Request) -> bool {
    request.op == Op::Write && !request.fua
}

/// A write that took longer has waited for room in the drive's cache (guess: a tenth of an access
/// to the medium).
pub(crate) const DESTAGED: Nanos = Nanos::from_ms(1);
/// So many reads in a second are few (guess: they need a tenth of the drive's time).
const FEW_READS: f64 = 10.0;
/// More reads in a second are many (guess: at random they need a third of the drive's time).
/// Measured on `nearline-20tb` beside four writers in sequence: with 20 reads/s the 99th percentile
/// is 160 ms without turns of the writers and 410 ms with them, with 40 reads/s 840 and 530 ms.
const MANY_READS: f64 = 40.0;
/// The time of a trial of turns: more than two rounds of them.
const TURN_TRIAL: Nanos = Nanos::from_secs(2);
/// So many reads that wait at a time are many, however few come in a second. Measured with 4 to 16
/// clients beside four writers in sequence on six drives: with turns they have up to twice as many
/// requests, and the writers no fewer.
const MANY_WAITING: f64 = 2.0;
/// So many are if they come [soon](SOON) after the last was answered: their client waits nearly all
/// the time. Measured with one or two such clients beside 2 to 8 writers in sequence on three
/// drives: with turns the harmonic mean of progress is 5 to 18 % higher, and fifteen times as high
/// where one had 2 requests/s. The rate of reads that come by themselves depends on no answer: 20
/// in a second would have a 99th percentile that is up to six times as long.
const ONE_WAITING: f64 = 0.9;
/// The time within which a client answers (guess: about a change).
const SOON: Nanos = Nanos::from_ms(10);
/// The number of values in a mean.
const MEAN_OF: u32 = 64;
/// Force unit access is slow that takes so many times as long as a read (guess: writes at random
/// take as long as reads, and a flush destages many).
const SLOW_FUA: f64 = 1.5;
/// Writes are gathered with this many requests held. Measured on `nearline-20tb`: with 16, the 99th
/// percentile gets longer; with 32 it gets shorter where a third are writes.
const GATHERED_FROM: usize = 32;
/// The oldest requests, among which writes are gathered (guess: as many as go together).
const OLDEST: usize = 64;
/// Writes that wait for room are forced to the medium with this many requests held, all at random:
/// with fewer, the drive finds a cheaper one among those in its cache. Measured on `nearline-20tb`,
/// which holds 32.
const FORCED_FROM: usize = 24;
/// That is tried from this number on, on a drive that takes one command at a time. Measured on
/// `barracuda7200-7` and `deskstar34gxp`: with 6 to 16 held, forced writes gain up to a fifth where
/// all are writes, and a fifth to two fifths where half or 70 % are reads.
const TRIED_FROM_ONE: usize = 6;
/// So many fewer are enough once writes are forced; and on other drives, where half of the requests
/// are writes, but no 85 %, that is tried from so many fewer on. Measured on eleven drives: forced
/// writes gain between -0.25 and 0.3 there.
const FORCED_FEWER: usize = 8;
/// Writes are forced if at most so many go between two flushes, times the square of the requests
/// held. Measured on five drives with 2 to 32 held, 1 to 128 writes per flush and half to 95 %
/// reads: with more, they lose up to a twelfth with 2 or 4 held.
const FLUSHED: f64 = 0.5;
/// The same once they are forced, because those that are not make the next flush slow (guess: with
/// one request held in between they stay forced).
const FLUSHED_AGAIN: f64 = 4.0;

#[cfg(test)]
mod tests {
    use headtime_units::Extent;

    use super::*;
    use crate::request::{ClassId, RequestId, StreamId, VolumeId};

    #[test]
    fn force_unit_access_by_a_flush_of_everything_is_noticed() {
        let took = |op, forced, ms| Finished {
            request: Request {
                id: RequestId(0),
                volume: VolumeId(0),
                class: ClassId(0),
                stream: StreamId(0),
                op,
                extent: Extent::from_numbers(0, 8),
                fua: false,
                deadline: None,
            },
            submitted: Instant::ORIGIN,
            dispatched: Instant::ORIGIN,
            finished: Instant::ORIGIN + Nanos::from_ms(ms),
            disk_time: Nanos::from_ms(ms),
            other_arms: Nanos::ZERO,
            overlapped: Nanos::ZERO,
            forced,
            outcome: Outcome::Success,
        };
        let mut writes = Written::default();
        for _ in 0..32 {
            assert!(!writes.fua_is_slow());
            writes.finished(&took(Op::Read, false, 6));
            writes.finished(&took(Op::Write, true, 12));
        }
        assert!(writes.fua_is_slow() && writes.forces);
        (0..200).for_each(|_| writes.finished(&took(Op::Write, true, 7)));
        assert!(!writes.fua_is_slow());
        (0..200).for_each(|_| writes.finished(&took(Op::Read, false, 0)));
        assert!(!writes.fua_is_slow(), "they were in sequence");
        let mut fast = Written::default();
        for _ in 0..32 {
            fast.finished(&took(Op::Read, false, 0));
            fast.finished(&took(Op::Write, true, 1));
        }
        assert!(fast.fua_is_slow(), "the medium is no disk");
    }
}
