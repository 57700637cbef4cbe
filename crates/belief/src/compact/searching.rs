//! [`Search`]: the search for angles in the model of a map: its start, its progress from completion
//! to completion, the use of its result, and the criteria by which predicted angles are trusted or
//! refuted.

use headtime_units::{Angle, RotationPeriod};

use super::angle_samples::{AngleSample, AngleSamples};
use super::budget::Budget;
use super::locations::Locations;
use super::map::CompactMap;
use super::recheck::Recheck;
use super::refit::Refit;
use super::survey::Survey;
use crate::angles::AngleMap;
use crate::arrival::Arrival;
use crate::model::actuator::Actuator;
use crate::moved::Reading;
use crate::spindle::{Evidence, Spindle};

/// The parameters that a map learns from completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learning {
    /// All parameters.
    #[default]
    All,
    /// The rotation only; for tests of the initial knowledge of a map.
    Phase,
}

/// The samples of a map's model, and the search for angles in them.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) learning: Learning,
    samples: AngleSamples,
    work: Work,
    /// The number of samples at which the next search begins.
    next: u64,
    /// The recent share of angles that agreed with the prediction.
    agreement: f64,
    judged: u64,
    /// Angles agreed with the prediction at some time since the last search.
    proven: bool,
    /// The comparison of later samples with the segments.
    recheck: Recheck,
    /// Operations of the search in the newest completion.
    pub(crate) searched: u64,
}

/// A search for angles in progress.
#[derive(Clone, Debug)]
enum Work {
    None,
    Refit(Box<Refit>),
    Survey(Box<Survey>),
}

impl Search {
    pub(crate) fn new(map: &CompactMap) -> Self {
        let recheck = match &map.locations {
            Locations::Segments(segments) => Recheck::begin(segments),
            Locations::Layout(_) => Recheck::default(),
        };
        Self {
            learning: Learning::All,
            samples: AngleSamples::new(map.max_angle_samples()),
            work: Work::None,
            next: if map.is_of_profile() { FIRST_SEARCH } else { FIRST_SURVEY },
            agreement: 1.0,
            judged: 0,
            proven: false,
            recheck,
            searched: 0,
        }
    }

    /// Returns true if predicted angles are used.
    #[inline]
    pub(crate) fn trusted(&self) -> bool {
        self.judged < MIN_JUDGED || self.agreement > MISTRUSTED
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        let work = match &self.work {
            Work::None => 0,
            Work::Refit(refit) => refit.memory(),
            Work::Survey(survey) => survey.memory(),
        };
        self.samples.memory() + self.recheck.memory() + work
    }

    /// Returns true if angles are so accurate that a search could only discard later corrections.
    fn is_right(&self, map: &CompactMap) -> bool {
        let right = if map.is_of_profile() { RIGHT } else { RIGHT_SEGMENTS };
        map.known_share() > RIGHT && self.judged >= MIN_JUDGED && self.agreement > right
    }

    fn begin(&mut self, map: &CompactMap, period: RotationPeriod) {
        self.work = match &map.locations {
            Locations::Layout(layout) => Work::Refit(Box::new(Refit::begin(
                layout.layout().clone(),
                layout.shifts(),
                period,
                self.samples.newest(MAX_SEARCHED),
            ))),
            Locations::Segments(segments) => Work::Survey(Box::new(Survey::begin(
                map.capacity(),
                period,
                segments.clone(),
                &self.samples,
            ))),
        };
    }

    /// Begins the next search when it is due, unless one is in progress or nothing is missing.
    fn begin_if_due(&mut self, map: &CompactMap, period: RotationPeriod) {
        let taken = self.samples.taken();
        if !matches!(self.work, Work::None) || taken < self.next || self.is_right(map) {
            return;
        }
        let wait = if map.is_of_profile() {
            (taken / 2).clamp(FIRST_SEARCH, LAST_SEARCH)
        } else {
            (taken / 4).clamp(FIRST_SEARCH, LAST_SURVEY)
        };
        self.next = taken + wait;
        self.begin(map, period);
    }

    /// Runs one slice of the search; returns the locations and the period once it is complete.
    fn step(&mut self, map: &CompactMap) -> Option<(Locations, RotationPeriod)> {
        let mut budget = Budget::slice();
        self.searched = 0;
        let found = match (&mut self.work, &map.locations) {
            (Work::Refit(refit), Locations::Layout(layout)) => {
                let found = refit.advance(&mut budget);
                self.searched = budget.spent();
                found?.map(|found| {
                    let layout = layout.with_shifts(found.shifts);
                    (Locations::Layout(Box::new(layout)), found.period)
                })
            }
            (Work::Survey(survey), _) => {
                let found = survey.step(&self.samples, &mut budget);
                self.searched = budget.spent();
                let found = found?;
                (!found.segments.segments().is_empty()).then(|| {
                    self.recheck = Recheck::begin(&found.segments);
                    (Locations::Segments(found.segments), found.period)
                })
            }
            _ => return None,
        };
        self.work = Work::None;
        found
    }
}

impl Actuator {
    /// Searches all samples for angles until the search is complete.
    pub(crate) fn settle(&mut self) {
        for _ in 0..SETTLING {
            let Some(search) = &mut self.search else { return };
            if search.is_right(&self.map) {
                return;
            }
            search.begin(&self.map, self.spindle.period());
            while self.search.as_ref().is_some_and(|search| !matches!(search.work, Work::None)) {
                self.step_search();
            }
        }
    }

    /// Advances the search by one completion.
    pub(crate) fn advance_search(&mut self) {
        self.step_search();
        if let Some(search) = &mut self.search {
            search.begin_if_due(&self.map, self.spindle.period());
        }
    }

    fn step_search(&mut self) {
        let Some(search) = &mut self.search else { return };
        let Some((found, period)) = search.step(&self.map) else { return };
        let before = std::mem::replace(&mut self.map.locations, found);
        if !self.map.is_of_profile() {
            self.turn_moved(&before);
        }
        self.use_found(period);
    }

    /// Applies the result of a search: corrections of the old predictions are dropped, and the
    /// rotation is fitted again to the newest samples.
    fn use_found(&mut self, period: RotationPeriod) {
        let Some(search) = &mut self.search else { return };
        self.map.period = period;
        self.map.angles = AngleMap::new(self.map.capacity());
        let were_right = search.judged >= MIN_JUDGED && search.agreement > RIGHT;
        if !self.map.is_of_profile() && !were_right {
            // The arrival of the arm was compared with angles that were partly wrong.
            self.map.arrival = Arrival::new();
        }
        (search.agreement, search.judged, search.proven) = (1.0, 0, false);
        let samples = search.samples.newest(REREAD);
        self.spindle = Spindle::new(period);
        (self.period, self.phase, self.revolution) = (period, None, period.as_nanos());
        for sample in samples {
            if let Some(angle) = self.map.end_angle(sample.last) {
                self.follow(sample, Reading::Home, angle, Evidence::Access);
            }
        }
        let locations = &self.map.locations;
        self.map.moved.reconsider(|lba| locations.end_angle(lba));
    }

    /// Converts relocated sectors to the new locations, whose angles may have another origin: they
    /// are kept if most of the others have turned by the same angle.
    fn turn_moved(&mut self, before: &Locations) {
        let Some(search) = &self.search else { return };
        let samples = search.samples.newest(TURNED_BY);
        let turned: Vec<Angle> = samples
            .iter()
            .filter_map(|sample| {
                Some(self.map.locations.end_angle(sample.last)? - before.end_angle(sample.last)?)
            })
            .collect();
        let agree = |by: Angle| {
            turned.iter().filter(|other| other.signed_turns_from(by).abs() < AGREES_TURNS).count()
        };
        let best = turned
            .iter()
            .copied()
            .max_by_key(|by| agree(*by))
            .filter(|by| agree(*by) * 2 > turned.len());
        let moved = std::mem::replace(&mut self.map.moved, self.map.locations.none_moved());
        if let Some(by) = best {
            self.map.moved.take_over(moved, by);
        }
    }

    /// Records a sample, and compares it with the predicted angle if there was one.
    pub(crate) fn note_angle(
        &mut self,
        sample: AngleSample,
        reading: Reading,
        error_turns: Option<f64>,
    ) {
        let Some(search) = &mut self.search else { return };
        // Relocated sectors carry no information on other sectors.
        let at_home = matches!(reading, Reading::Home | Reading::Odd);
        if at_home {
            search.samples.take(sample);
        }
        let Some(error_turns) = error_turns else { return };
        search.judged += 1;
        let agrees = f64::from(u8::from(error_turns.abs() < AGREES_TURNS));
        search.agreement +=
            (agrees - search.agreement) * (1.0 / search.judged as f64).max(AGREEMENT_WEIGHT);
        search.proven |= search.judged >= MIN_JUDGED && search.agreement > PROVEN;
        if search.proven && !search.trusted() {
            // The drive was exchanged or changed: older samples are obsolete.
            search.samples.keep_newest(MIN_JUDGED as usize);
            self.map.moved = self.map.locations.none_moved();
            (search.work, search.next) = (Work::None, search.samples.taken() + FIRST_SEARCH / 2);
            search.proven = false;
        }
        // A refuted segment becomes unknown and is soon searched again. This requires that most
        // angles are right, so that the segment and not the rotation is wrong.
        if let (true, Locations::Segments(segments)) = (at_home, &self.map.locations)
            && search.agreement >= PROVEN
            && search.judged >= MIN_JUDGED
            && let Some(left) = search.recheck.take(segments, sample.last, error_turns)
        {
            self.map.locations = Locations::Segments(left);
            search.next = search.next.min(search.samples.taken() + FIRST_SEARCH);
        }
    }
}

/// The error, in turns, above which an angle disagrees with the prediction (guess): a tenth agrees
/// by chance.
const AGREES_TURNS: f64 = 0.05;
/// The share of agreement below which angles count as unknown (guess: well above chance, well below
/// a drive with two thirds of its slips unknown).
const MISTRUSTED: f64 = 0.25;
/// The weight of a completion in that share, and the minimum number of completions.
const AGREEMENT_WEIGHT: f64 = 1.0 / 128.0;
const MIN_JUDGED: u64 = 128;
/// The number of samples that determine the rotation between old and new angles (guess: some from
/// most segments).
const TURNED_BY: usize = 256;
/// The first search for angles, and the maximum interval between searches, in completions.
const FIRST_SEARCH: u64 = 256;
const LAST_SEARCH: u64 = 16_384;
/// The first search for segments (a drive has some ten zones, and each needs some dozens of angle
/// samples), and the maximum interval between searches.
const FIRST_SURVEY: u64 = 512;
const LAST_SURVEY: u64 = 16_384;
/// The maximum number of angle samples in one search.
const MAX_SEARCHED: usize = 16_384;
/// The number of searches after which the same angle samples yield nothing new.
const SETTLING: usize = 2;
/// The number of angle samples from which the rotation is fitted after a search: some seconds of a
/// busy drive.
const REREAD: usize = 256;
/// The share above which angles are proven. If they fail afterwards, the drive has changed.
const PROVEN: f64 = 0.6;
/// The share above which no search begins: the rest are outliers.
const RIGHT: f64 = 0.95;
/// The same for segments. Their search continues from the known ones. A missing skew term affects
/// few of the samples and many predictions.
const RIGHT_SEGMENTS: f64 = 0.99;
