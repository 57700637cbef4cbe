//! [`Session`]: what an experiment sees: reads that are answered, and what is known so far.
//!
//! An experiment is straight-line code: it reads, computes, reads again. It runs on a machine that
//! must not wait, so it is *run again*: the answers it has got are kept; each time one more is
//! there it runs from its beginning over all of them, and the first read that has no answer stops
//! it and is what the probe asks for next. It changes a copy of what is known, which counts only
//! when it comes to its end. Experiments are short (some hundred reads), so running them again
//! costs little, and the state to save is data: what is known and the answers of the present
//! experiment. The same answers give the same questions; a question that differs from the one that
//! was answered is refused.

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::draw::Draw;
use crate::held::reads_on;
use crate::knowledge::{Anchor, Knowledge};
use crate::measurement::{ConcurrentReads, Measurement, Rewrite, TimedCommand};

/// Why an experiment stops before its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// It needs this read.
    Measure(Measurement),
    /// It cannot come to a result; the sentence says why.
    Hopeless(String),
}

pub(crate) type Step<T> = Result<T, Stop>;

/// One run of one experiment.
pub(crate) struct Session<'a> {
    answers: &'a [TimedCommand],
    next: usize,
    /// What was asked for together, command by command; among `answers` the last command stands for
    /// each.
    batches: &'a [Vec<TimedCommand>],
    next_batch: usize,
    pub(crate) draw: Draw,
    pub(crate) know: Knowledge,
}

/// The angle at which a sector's read completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Turns after the anchor, from 0 up to but not including 1.
    pub(crate) turns: f64,
    /// The read itself.
    pub(crate) answer: TimedCommand,
}

/// Reads that only make the cache forget lie within this part of the drive, so that seeks are
/// short.
const EVICTING_REACH: u64 = 64;
/// The anchor is read again after this time; more often where one reading of it is good to less
/// than a thousandth of a turn.
const ANCHOR_EVERY_NS: f64 = 1.5e9;
const NOISY_ANCHOR_EVERY_NS: f64 = 0.3e9;
const NOISY_TURNS: f64 = 0.001;
/// Noise that asks for no care, turns: a second reading says no more than the first.
pub(crate) const QUIET_TURNS: f64 = 0.000_5;
/// Most sectors of one command that only lets a segment run on (guess: what a system passes on in
/// one piece).
const ROW_COMMAND: u64 = 1_024;
/// A read-ahead that goes further than this is not computed with, sectors.
const FURTHEST_AHEAD: u64 = 1 << 15;
/// Sectors before one that the cache holds from which a read may begin to get it from the media,
/// and the part of a turn by which they may hold up its end on the bus.
const BEFORE: [u64; 3] = [4, 16, 64];
const BEFORE_TURNS: f64 = 0.008;
/// So often is it tried to let segments run on before it is judged.
const ENOUGH_USES: u32 = 3;
/// So often is a read tried whose answer came from the cache or failed.
const TRIES: u32 = 6;

impl<'a> Session<'a> {
    pub(crate) fn new(
        answers: &'a [TimedCommand],
        batches: &'a [Vec<TimedCommand>],
        know: Knowledge,
        seed: u64,
    ) -> Self {
        let draw = Draw::new(seed, know.step);
        Self { answers, next: 0, batches, next_batch: 0, draw, know }
    }

    /// Answers that the run did not come to: more than 0 means that they belong to another
    /// experiment.
    pub(crate) fn unread(&self) -> usize {
        self.answers.len() - self.next
    }

    /// Reads.
    pub(crate) fn read(&mut self, extent: Extent, not_before: Instant) -> Step<TimedCommand> {
        let capacity = self.know.capacity;
        if extent.start.get() >= capacity || extent.len.get() > capacity - extent.start.get() {
            return Err(Stop::Hopeless(format!(
                "what was measured leads to sector {}, but the drive has {capacity}",
                extent.start
            )));
        }
        match self.answers.get(self.next) {
            Some(answer) if answer.extent == extent => {
                self.next += 1;
                Ok(*answer)
            }
            Some(answer) => {
                let place = self.next;
                Err(Stop::Hopeless(format!(
                    "answer {place} is to a read of {}, expected one of {extent}; start afresh",
                    answer.extent
                )))
            }
            None => Err(Stop::Measure(Measurement::Read { extent, not_before })),
        }
    }

    /// Reads with several outstanding; the answers in the order of completion.
    pub(crate) fn together(&mut self, wanted: ConcurrentReads) -> Step<Vec<TimedCommand>> {
        self.batch(Measurement::Concurrent(wanted))
    }

    /// Reads, goes elsewhere and writes back; the answers in the order of the commands.
    pub(crate) fn rewrite(&mut self, wanted: Rewrite) -> Step<Vec<TimedCommand>> {
        self.batch(Measurement::Rewrite(wanted))
    }

    fn batch(&mut self, ask: Measurement) -> Step<Vec<TimedCommand>> {
        if self.answers.get(self.next).is_none() {
            return Err(Stop::Measure(ask));
        }
        let Some(batch) = self.batches.get(self.next_batch) else {
            return Err(Stop::Hopeless(format!(
                "answer {} is to a single read, expected several commands; start afresh",
                self.next
            )));
        };
        (self.next, self.next_batch) = (self.next + 1, self.next_batch + 1);
        Ok(batch.clone())
    }

    pub(crate) fn read_at_once(&mut self, lba: u64, sectors: u64) -> Step<TimedCommand> {
        self.read(Extent::new(Lba::new(lba), Sectors::new(sectors)), Instant::ORIGIN)
    }

    /// Reads sectors from anywhere, so that the cache forgets.
    pub(crate) fn shake(&mut self, reads: u64) -> Step<Option<TimedCommand>> {
        let mut last = None;
        for _ in 0..reads {
            let lba = self.draw.below(self.know.capacity);
            last = Some(self.read_at_once(lba, 1)?);
        }
        Ok(last)
    }

    /// Whether a read may have been answered without the media.
    pub(crate) fn may_be_hit(&self, answer: &TimedCommand) -> bool {
        answer.response() <= Nanos::from_ns(self.know.hit_limit_ns as u64)
    }

    /// The angle of one sector, from the media. Of one that the cache holds because it was read
    /// lately, what was seen then; else it is driven out first.
    pub(crate) fn angle(&mut self, lba: u64) -> Step<Seen> {
        let (mut ran_on, mut evicted) = (false, false);
        for _ in 1..=TRIES {
            let seen = self.try_angle(lba)?;
            if ran_on {
                let (tried, dropped) = self.know.ring_uses;
                self.know.ring_uses = (tried + 1, dropped + u32::from(seen.is_some()));
            }
            if let Some(seen) = seen {
                return Ok(seen);
            }
            if let Some(seen) = self.seen_before(lba) {
                return Ok(seen);
            }
            if let Some(seen) = self.angle_from_before(lba)? {
                return Ok(seen);
            }
            // Two segments may hold it; where it is there still, they do not run on as it was
            // thought.
            ran_on = !ran_on && self.is_worth_running_on() && self.run_on(lba)?;
            if !ran_on {
                // Where that was not enough, what was read meanwhile lay near, or more rows are
                // held than were seen.
                for _ in 0..=3 * u32::from(evicted) {
                    self.evict()?;
                }
                evicted = true;
            }
        }
        Err(Stop::Hopeless(format!(
            "sector {lba} could not be read from the media in {TRIES} tries; it may be defective"
        )))
    }

    /// Whether letting segments run on has dropped a sector as often as not. The drive may put what
    /// is read on into another segment, unless it was reading ahead in that very one.
    fn is_worth_running_on(&self) -> bool {
        let (tried, dropped) = self.know.ring_uses;
        tried < ENOUGH_USES || 2 * dropped >= tried
    }

    /// The angle of one sector, if it comes from the media at once. Where the head would read on up
    /// to it, and all in between would be held afterwards, it is sent away first.
    pub(crate) fn try_angle(&mut self, lba: u64) -> Step<Option<Seen>> {
        self.keep_clock()?;
        self.step_aside(lba)?;
        let answer = self.read_at_once(lba, 1)?;
        let from_media = answer.succeeded() && !self.may_be_hit(&answer);
        Ok(from_media.then(|| Seen { turns: self.know.clock.turns_at(answer.completed), answer }))
    }

    /// The angle of one sector that the cache holds, by a read that begins shortly before what is
    /// held of its row: it goes to the media, and ends with the sector, or with the last before the
    /// row. None where that is held too, or so many sectors would take the bus so long that the end
    /// came late.
    fn angle_from_before(&mut self, lba: u64) -> Step<Option<Seen>> {
        let Some(bus_ns) = self.know.hit_bus_ns.filter(|_| !self.know.keeps_tracks) else {
            return Ok(None);
        };
        let most = (BEFORE_TURNS * self.know.clock.period_ns() / bus_ns.max(1.0)) as u64;
        for before in BEFORE.into_iter().filter(|before| *before <= most.min(lba)) {
            self.keep_clock()?;
            self.step_aside(lba - before)?;
            let answer = self.read_at_once(lba - before, before + 1)?;
            // More sectors take the bus longer where they are hits too.
            let may_be_hit =
                answer.response().as_ns() as f64 <= self.know.hit_limit_ns + before as f64 * bus_ns;
            if answer.succeeded() && !may_be_hit {
                return Ok(Some(Seen {
                    turns: self.know.clock.turns_at(answer.completed),
                    answer,
                }));
            }
        }
        Ok(None)
    }

    /// The last reading of a sector from the media, if that was lately: an angle stays what it is.
    fn seen_before(&self, lba: u64) -> Option<Seen> {
        let of_sector = |answer: &&TimedCommand| {
            answer.extent == Extent::from_numbers(lba, 1)
                && answer.succeeded()
                && !self.may_be_hit(answer)
        };
        let answer = *self.answers[..self.next]
            .iter()
            .rfind(of_sector)
            .or_else(|| self.know.lately.iter().rfind(of_sector))?;
        Some(Seen { turns: self.know.clock.turns_at(answer.completed), answer })
    }

    /// The last reading from the media of any sector between two, if that was lately, and which it
    /// was.
    pub(crate) fn seen_between(&self, from: u64, end: u64) -> Option<(u64, Seen)> {
        let within = |answer: &&TimedCommand| {
            let lba = answer.extent.start.get();
            answer.extent.len.get() == 1
                && (from..end).contains(&lba)
                && answer.succeeded()
                && !self.may_be_hit(answer)
        };
        let answer = *self.answers[..self.next]
            .iter()
            .rfind(within)
            .or_else(|| self.know.lately.iter().rfind(within))?;
        Some((
            answer.extent.start.get(),
            Seen { turns: self.know.clock.turns_at(answer.completed), answer },
        ))
    }

    /// Reads on behind a sector that the cache holds, until its segment, which keeps the newest
    /// sectors of its row, has dropped it: a turn or two where reads elsewhere, as many as there
    /// are segments, would take a hundred. False, and nothing was read, where segments do not drop
    /// sectors so, or the drive ends before.
    fn run_on(&mut self, lba: u64) -> Step<bool> {
        let Some(ring) = self.know.ring_sectors else { return Ok(false) };
        let end = lba + ring;
        if end > self.know.capacity {
            return Ok(false);
        }
        self.read_row(lba, end)?;
        Ok(true)
    }

    /// Reads all sectors from one up to but not including another, in commands of at most
    /// [`ROW_COMMAND`]; the last answer.
    pub(crate) fn read_row(&mut self, from: u64, end: u64) -> Step<Option<TimedCommand>> {
        let mut next = from;
        let mut last = None;
        while next < end {
            let sectors = ROW_COMMAND.min(end - next);
            last = Some(self.read_at_once(next, sectors)?);
            next += sectors;
        }
        Ok(last)
    }

    /// Lets the cache forget where times are noisy: what is read again then is another reading,
    /// while one that came late is as late whenever it is looked up. True when it did; without a
    /// cache each reading is another one anyway, and where whole tracks are kept it costs too much
    /// each time: what was seen has to do.
    pub(crate) fn forget_if_noisy(&mut self) -> Step<bool> {
        let is_worth_it = self.know.forget > 0
            && !self.know.keeps_tracks
            && self.know.noise_turns() >= QUIET_TURNS;
        if is_worth_it {
            self.evict()?;
        }
        Ok(is_worth_it)
    }

    /// Reads elsewhere, not far, until the cache has forgotten what was read before.
    pub(crate) fn evict(&mut self) -> Step<()> {
        for _ in 0..self.know.forget.max(1) {
            self.read_not_far()?;
        }
        Ok(())
    }

    /// Reads a sector somewhere near the last one, so that the seek is short.
    fn read_not_far(&mut self) -> Step<TimedCommand> {
        let capacity = self.know.capacity;
        let reach = (capacity / EVICTING_REACH).max(1);
        let here = self.next.checked_sub(1).map_or(0, |last| self.answers[last].extent.start.get());
        let from = here.saturating_sub(reach / 2).min(capacity - reach);
        let lba = from + self.draw.below(reach);
        self.read_at_once(lba, 1)
    }

    /// Reads elsewhere if a sector lies where the drive, reading ahead of the last read, comes to
    /// by itself.
    pub(crate) fn step_aside(&mut self, lba: u64) -> Step<()> {
        let reads_on = self.know.forget > 0
            && self.last().is_some_and(|last| reads_on(&last, lba, self.ahead_bound()));
        if reads_on {
            self.read_not_far()?;
        }
        Ok(())
    }

    /// Sectors that the drive reads ahead at the most, as far as that is known.
    pub(crate) fn ahead_bound(&self) -> u64 {
        self.know.ring_sectors.unwrap_or(FURTHEST_AHEAD)
    }

    fn last(&self) -> Option<TimedCommand> {
        self.next
            .checked_sub(1)
            .map(|last| self.answers[last])
            .or_else(|| self.know.lately.last().copied())
    }

    /// The last answers before now, as many as the cache may remember, each with when the command
    /// behind it was issued.
    pub(crate) fn lately(&self) -> impl Iterator<Item = (TimedCommand, Option<Instant>)> + '_ {
        let most = self.know.forget as usize;
        let here = &self.answers[..self.next];
        let of_before = most.saturating_sub(here.len()).min(self.know.lately.len());
        let before = &self.know.lately[self.know.lately.len() - of_before..];
        let here = &here[here.len().saturating_sub(most)..];
        let all = || before.iter().chain(here);
        let issues = all().skip(1).map(|answer| Some(answer.issued)).chain([None]);
        all().copied().zip(issues)
    }

    /// Reads the next anchor when it is time.
    pub(crate) fn keep_clock(&mut self) -> Step<()> {
        let now = match self.next.checked_sub(1) {
            Some(last) => self.answers[last].completed,
            None => self.know.now,
        };
        let every = if self.know.noise_turns() < NOISY_TURNS {
            ANCHOR_EVERY_NS
        } else {
            NOISY_ANCHOR_EVERY_NS
        };
        if self.know.clock.age_ns(now) < every { Ok(()) } else { self.read_clock() }
    }

    /// Reads the next anchor.
    pub(crate) fn read_clock(&mut self) -> Step<()> {
        for _ in 0..TRIES {
            let Some(anchor) = self.next_anchor() else { break };
            let answer = self.read_at_once(anchor.lba, 1)?;
            if answer.succeeded() && !self.may_be_hit(&answer) {
                self.know.clock.observe(answer.completed, anchor.turns);
                return Ok(());
            }
            if self.know.anchors.len() == 1 {
                self.evict()?;
            }
        }
        Err(Stop::Hopeless(format!(
            "no sector that the clock goes by could be read from the media in {TRIES} tries"
        )))
    }

    /// The anchors one after the other, round and round.
    pub(crate) fn next_anchor(&mut self) -> Option<Anchor> {
        let anchor = *self.know.anchors.get(self.know.next_anchor)?;
        self.know.next_anchor = (self.know.next_anchor + 1) % self.know.anchors.len();
        Some(anchor)
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::{Bench, plain};
    use crate::clock::Clock;
    use headtime_sim::DriveTruth;

    #[test]
    fn where_times_are_noisy_a_sector_is_read_again_though_the_cache_held_it() {
        let profile = plain("cheetah10k7");
        for (truth, is_noisy) in
            [(DriveTruth::draw(&profile, 5), true), (DriveTruth::nominal(&profile, 5), false)]
        {
            let mut bench = Bench::new(truth.expect("a drive"));
            (bench.know.forget, bench.know.hit_limit_ns) = (40, 500_000.0);
            if !is_noisy {
                bench.know.clock = Clock::new(bench.know.clock.period_ns(), 0.0, bench.know.now);
            }
            let [first, again, third] = bench.run(5, |session| {
                let lba = session.know.capacity / 2;
                let (first, again) = (session.angle(lba)?, session.angle(lba)?);
                session.forget_if_noisy()?;
                Ok([first, again, session.angle(lba)?])
            });
            assert_eq!(
                first.answer, again.answer,
                "the cache holds it, so that what was seen has to do"
            );
            assert_eq!(third.answer.completed > first.answer.completed, is_noisy);
            assert!(
                crate::numbers::wrap(third.turns - first.turns).abs() < 0.05,
                "{first:?} and {third:?}"
            );
        }
    }
}
