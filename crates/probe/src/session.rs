//! [`Session`]: what an experiment sees: reads that are answered, and what is known so far.
//!
//! An experiment is straight-line code: it reads, computes, reads again. It runs on a machine that must not wait, so it is *run again*: the answers it has got are
//! kept; each time one more is there it runs from its beginning over all of them, and the first read that has no answer stops it and is what the probe
//! asks for next. It changes a copy of what is known, which counts only when it comes to its end. Experiments are short (some hundred reads), so running them
//! again costs little, and the state to save is data: what is known and the answers of the present experiment. The same answers give the same
//! questions; a question that differs from the one that was answered is refused.

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::ask::{Answer, Ask};
use crate::draw::Draw;
use crate::knowledge::Knowledge;

/// Why an experiment stops before its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// It needs this read.
    Ask(Ask),
    /// It cannot come to a result; the sentence says why.
    Hopeless(String),
}

pub(crate) type Step<T> = Result<T, Stop>;

/// One run of one experiment.
pub(crate) struct Session<'a> {
    answers: &'a [Answer],
    next: usize,
    pub(crate) draw: Draw,
    pub(crate) know: Knowledge,
}

/// The angle at which a sector's read completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Turns after the anchor, from 0 up to but not including 1.
    pub(crate) turns: f64,
    /// The read itself.
    pub(crate) answer: Answer,
}

/// No drive reads further ahead than so many sectors (guess).
const LONGEST_READ_AHEAD: u64 = 1 << 15;
/// The anchor is read again after this time.
const ANCHOR_EVERY_NS: f64 = 1.5e9;
/// So often is a read tried whose answer came from the cache or failed; twice as many others are read in between each time.
const TRIES: u32 = 8;

impl<'a> Session<'a> {
    pub(crate) fn new(answers: &'a [Answer], know: Knowledge, seed: u64) -> Self {
        let draw = Draw::new(seed, know.step);
        Self { answers, next: 0, draw, know }
    }

    /// Answers that the run did not come to: more than 0 means that they belong to another experiment.
    pub(crate) fn unread(&self) -> usize {
        self.answers.len() - self.next
    }

    /// Reads.
    pub(crate) fn read(&mut self, extent: Extent, not_before: Instant) -> Step<Answer> {
        match self.answers.get(self.next) {
            Some(answer) if answer.extent == extent => {
                self.next += 1;
                Ok(*answer)
            }
            Some(answer) => {
                let place = self.next;
                Err(Stop::Hopeless(format!("answer {place} is to a read of {}, expected one of {extent}; start afresh", answer.extent)))
            }
            None => Err(Stop::Ask(Ask::Read { extent, not_before })),
        }
    }

    pub(crate) fn read_at_once(&mut self, lba: u64, sectors: u64) -> Step<Answer> {
        self.read(Extent::new(Lba::new(lba), Sectors::new(sectors)), Instant::ORIGIN)
    }

    /// Reads sectors from anywhere, so that the cache forgets.
    pub(crate) fn shake(&mut self, reads: u64) -> Step<Option<Answer>> {
        let mut last = None;
        for _ in 0..reads {
            let lba = self.draw.below(self.know.capacity);
            last = Some(self.read_at_once(lba, 1)?);
        }
        Ok(last)
    }

    /// Whether a read may have been answered without the media.
    pub(crate) fn may_be_hit(&self, answer: &Answer) -> bool {
        answer.response() <= Nanos::from_ns(self.know.hit_limit_ns as u64)
    }

    /// The angle of one sector, from the media.
    pub(crate) fn angle(&mut self, lba: u64) -> Step<Seen> {
        self.keep_clock()?;
        if self.may_be_read_ahead(lba) {
            self.shake(1)?;
        }
        for attempt in 0..TRIES {
            let answer = self.read_at_once(lba, 1)?;
            if answer.succeeded() && !self.may_be_hit(&answer) {
                return Ok(Seen { turns: self.know.clock.turns_at(answer.completed), answer });
            }
            self.shake(1 << attempt)?;
        }
        Err(Stop::Hopeless(format!("sector {lba} could not be read from the media in {TRIES} tries; it may be defective")))
    }

    /// Whether a drive with a cache may be on its way to a sector by itself, as it lies shortly behind the last one read.
    fn may_be_read_ahead(&self, lba: u64) -> bool {
        let last = self.next.checked_sub(1).map(|last| self.answers[last].extent.last().get());
        self.know.hit_ns.is_some() && last.is_some_and(|last| (last..last + LONGEST_READ_AHEAD).contains(&lba))
    }

    /// Reads the anchor when it is time.
    pub(crate) fn keep_clock(&mut self) -> Step<()> {
        let now = match self.next.checked_sub(1) {
            Some(last) => self.answers[last].completed,
            None => self.know.now,
        };
        if self.know.clock.age_ns(now) < ANCHOR_EVERY_NS {
            return Ok(());
        }
        for attempt in 0..TRIES {
            let answer = self.read_at_once(self.know.anchor, 1)?;
            if answer.succeeded() && !self.may_be_hit(&answer) {
                self.know.clock.observe(answer.completed);
                return Ok(());
            }
            self.shake(1 << attempt)?;
        }
        Err(Stop::Hopeless(format!("the anchor, sector {}, could not be read from the media in {TRIES} tries", self.know.anchor)))
    }
}
