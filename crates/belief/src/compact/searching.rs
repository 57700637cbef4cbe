//! How a [`CompactBelief`] searches for angles: when a search begins, how it goes on from
//! completion to completion, what becomes of its answer, and when what is believed counts as right
//! or as proven wrong.

use headtime_units::RotationPeriod;

use super::belief::{AGREEMENT_WEIGHT, AGREES_TURNS, CompactBelief, MIN_JUDGED};
use super::budget::Budget;
use super::grow::Survey;
use super::places::Places;
use super::recheck::Recheck;
use super::refit::Refit;
use super::sights::Sight;
use crate::arrival::Arrival;
use crate::moved::Reading;
use crate::spindle::Spindle;

/// A search for angles that is under way.
#[derive(Clone, Debug)]
pub(super) enum Work {
    None,
    Refit(Box<Refit>),
    Survey(Box<Survey>),
}

impl Work {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Refit(refit) => refit.memory(),
            Self::Survey(survey) => survey.memory(),
        }
    }
}

impl CompactBelief {
    /// Searches all that was seen for what it says of angles, and comes back when that is done: for
    /// whoever has nothing else to do meanwhile.
    pub fn settle(&mut self) {
        for _ in 0..SETTLING {
            if self.is_right() {
                return;
            }
            self.work = Work::None;
            self.begin_search();
            while !matches!(self.work, Work::None) {
                self.go_on();
            }
        }
    }

    /// Whether angles are believed so rightly that a search could only spoil what was learned on
    /// top of them.
    fn is_right(&self) -> bool {
        let right = if self.map.is_of_profile() { RIGHT } else { RIGHT_STRIPS };
        self.map.known_share() > RIGHT && self.judged >= MIN_JUDGED && self.agreement > right
    }

    /// Begins a search when it is time for the next, unless one is under way or nothing is wanting.
    pub(super) fn begin_if_due(&mut self) {
        if !matches!(self.work, Work::None)
            || self.sights.taken() < self.next_search
            || self.is_right()
        {
            return;
        }
        let taken = self.sights.taken();
        let wait = if self.map.is_of_profile() {
            (taken / 2).clamp(FIRST_SEARCH, LAST_SEARCH)
        } else {
            (taken / 4).clamp(FIRST_SEARCH, LAST_SURVEY)
        };
        self.next_search = taken + wait;
        self.begin_search();
    }

    fn begin_search(&mut self) {
        self.work = match &self.map.places {
            Places::Profile(of) => {
                let sights = self.sights.newest(MAX_SEARCHED);
                Work::Refit(Box::new(Refit::begin(
                    of.layout().clone(),
                    &of.shifts,
                    self.spindle.period(),
                    sights,
                )))
            }
            Places::Strips(strips) => {
                let (capacity, period) = (self.map.capacity(), self.spindle.period());
                Work::Survey(Box::new(Survey::begin(
                    capacity,
                    period,
                    strips.clone(),
                    &self.sights,
                )))
            }
        };
    }

    /// A little of the search that is under way.
    pub(super) fn go_on(&mut self) {
        let mut budget = Budget::slice();
        self.searched = 0;
        let period = match &mut self.work {
            Work::None => return,
            Work::Refit(refit) => {
                let found = refit.go_on(&mut budget);
                self.searched = budget.spent();
                let Some(found) = found else { return };
                let Some(found) = found else {
                    self.work = Work::None;
                    return;
                };
                if let Places::Profile(of) = &mut self.map.places {
                    of.shifts = found.shifts;
                }
                found.period
            }
            Work::Survey(survey) => {
                let found = survey.step(&self.sights, &mut budget);
                self.searched = budget.spent();
                let Some(found) = found else { return };
                if found.strips.strips().is_empty() {
                    self.work = Work::None;
                    return;
                }
                self.recheck = Recheck::begin(&found.strips);
                let before = core::mem::replace(&mut self.map.places, Places::Strips(found.strips));
                self.turn_moved(&before);
                found.period
            }
        };
        self.work = Work::None;
        self.take_angles(period);
    }

    /// Angles are believed again: what was learned on top of the old ones is void, and the platter
    /// is read again from the newest sights.
    fn take_angles(&mut self, period: RotationPeriod) {
        self.map.period = period;
        self.map.angles = crate::angles::AngleMap::new(self.map.capacity());
        let were_right = self.judged >= MIN_JUDGED && self.agreement > RIGHT;
        if !self.map.is_of_profile() && !were_right {
            // When the arm comes was held against angles that were partly wrong.
            self.map.arrival = Arrival::new();
        }
        self.spindle = Spindle::new(period);
        (self.agreement, self.judged, self.proven) = (1.0, 0, false);
        for sight in self.sights.newest(REREAD) {
            self.read_angle(sight, Reading::Home);
        }
        let places = &self.map.places;
        self.map.moved.reconsider(|lba| places.end_angle(lba));
    }

    pub(super) fn note_agreement(&mut self, error_turns: f64) {
        self.judged += 1;
        let agrees = f64::from(u8::from(error_turns.abs() < AGREES_TURNS));
        self.agreement +=
            (agrees - self.agreement) * (1.0 / self.judged as f64).max(AGREEMENT_WEIGHT);
        self.proven |= self.judged >= MIN_JUDGED && self.agreement > PROVEN;
        if self.proven && !self.trusted() {
            // Another drive, or one that was changed: what was seen before says nothing of it.
            self.sights.keep_newest(MIN_JUDGED as usize);
            self.map.moved = self.map.places.none_moved();
            (self.work, self.next_search) = (Work::None, self.sights.taken() + FIRST_SEARCH / 2);
            self.proven = false;
        }
    }

    /// Holds the strip of a sight against it: what proves wrong is unknown again and soon looked
    /// for again. Only while most angles are right, so that it is the strip and not the platter that
    /// is off.
    pub(super) fn hold_against(&mut self, sight: Sight, error_turns: f64) {
        let Places::Strips(strips) = &self.map.places else { return };
        if self.agreement < PROVEN || self.judged < MIN_JUDGED {
            return;
        }
        if let Some(left) = self.recheck.take(strips, sight.last, error_turns) {
            self.map.places = Places::Strips(left);
            self.next_search = self.next_search.min(self.sights.taken() + FIRST_SEARCH);
        }
    }
}

/// The first search for angles, and the longest that the next one is put off, in completions.
pub(super) const FIRST_SEARCH: u64 = 256;
const LAST_SEARCH: u64 = 16_384;
/// The first search for strips (a drive has some ten zones, and each wants some dozens of sights),
/// and the longest that the next one is put off.
pub(super) const FIRST_SURVEY: u64 = 512;
const LAST_SURVEY: u64 = 16_384;
/// No search looks at more sights.
const MAX_SEARCHED: usize = 16_384;
/// Searches after which nothing more is found in the same sights.
const SETTLING: usize = 2;
/// Sights by which the platter is read again after a search: some seconds of a busy drive.
const REREAD: usize = 256;
/// Above this share they are proven; if they fail afterwards, the drive has changed.
const PROVEN: f64 = 0.6;
/// Above this share nothing is searched for: what is left are outliers.
const RIGHT: f64 = 0.95;
/// The same of strips: a search of theirs goes on from what is known, and a tooth that is still
/// missing costs few of these and many predictions.
const RIGHT_STRIPS: f64 = 0.99;
