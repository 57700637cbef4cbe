//! [`Probe`]: the experiments one after the other.

use headtime_mechanics::ProfileError;
use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use serde::{Deserialize, Serialize};

use crate::ask::{Answer, Ask, Outcome};
use crate::finding::{Figure, Finding, profile_of};
use crate::knowledge::Knowledge;
use crate::layout;
use crate::session::{Session, Step, Stop};
use crate::{overhead, rotation, seek, selfcheck};

/// What a probe is told of a drive before it begins, and what it may spend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Logical sectors of the drive.
    pub capacity: Sectors,
    /// Bytes of one.
    pub sector_bytes: u32,
    /// Time in which the drive may be kept at work; see [`Settings::for_drive`].
    pub budget: Nanos,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Settings {
    /// Settings with the usual budget: five minutes up to 20 GB, then for each tenfold size five minutes more, twenty at the most.
    #[must_use]
    pub fn for_drive(capacity: Sectors, sector_size: SectorSize, seed: u64) -> Self {
        let bytes = sector_size.bytes_of(capacity) as f64;
        let minutes = (5.0 + 5.0 * libm::log10(bytes / 20e9)).clamp(5.0, 20.0);
        Self { capacity, sector_bytes: sector_size.bytes(), budget: Nanos::from_secs(libm::round(minutes * 60.0) as u64), seed }
    }
}

/// A characterisation under way.
///
/// Call order: [`Probe::ask`] says what to read; read it, and tell [`Probe::completed`] how it went; again, until [`Ask::Done`]. Everything is in the
/// probe's own data, so that it may be written out (it is `Serialize`) and taken up again with [`Probe::resume`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    settings: Settings,
    stage: Stage,
    know: Knowledge,
    /// Of the present experiment.
    answers: Vec<Answer>,
    asked: Option<Ask>,
    spent: Nanos,
    reads: u64,
    failures: u64,
    /// What was spent when the present experiment began: it must see the same whenever it is run again.
    step_began: Nanos,
}

/// What is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Whether it turns, and how fast.
    Rotation,
    /// The phase anew, after an interruption; then the stage that was interrupted.
    Phase(ResumedStage),
    /// Tracks and zones.
    Layout,
    /// Skews, zone by zone.
    Skews,
    /// Bus and zero latency.
    Interface,
    /// The arm.
    Seek,
    /// How well it foretells.
    SelfCheck,
    /// Nothing any more.
    Done,
}

/// A stage that may be interrupted and taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResumedStage {
    /// [`Stage::Layout`].
    Layout,
    /// [`Stage::Skews`].
    Skews,
    /// [`Stage::Interface`].
    Interface,
    /// [`Stage::Seek`].
    Seek,
    /// [`Stage::SelfCheck`].
    SelfCheck,
}

/// So often is an experiment begun again that came to nothing.
const MOST_RETRIES: u32 = 3;
/// Share of the budget by whose end the layout has to be done; the rest is for what follows it.
const LAYOUT_SHARE: f64 = 0.60;
/// The same for the first seek times and their refinement.
const SEEK_SHARE: f64 = 0.88;
/// Drives up to here have each slip of a sector looked for; of larger ones so many nanoseconds of angle for each factor of ten are left.
const SMALL_BYTES: f64 = 10e9;
const SLIGHT_NS: f64 = 15_000.0;

impl Probe {
    /// A characterisation of a drive that nothing is known of but its size.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let bytes = settings.capacity.get() as f64 * f64::from(settings.sector_bytes);
        let slight_ns = (SLIGHT_NS * libm::log10(bytes / SMALL_BYTES)).max(0.0);
        let know = Knowledge { capacity: settings.capacity.get(), slight_ns, ..Knowledge::default() };
        let zero = Nanos::ZERO;
        let stage = Stage::Rotation;
        Self { settings, stage, know, answers: Vec::new(), asked: None, spent: zero, reads: 0, failures: 0, step_began: zero }
    }

    /// Takes up a characterisation that was written out, on the same drive but with a clock that may have another origin: the phase is read anew first.
    #[must_use]
    pub fn resume(mut saved: Self) -> Self {
        saved.answers.clear();
        saved.asked = None;
        let resumed = match saved.stage {
            Stage::Rotation | Stage::Done => return saved,
            Stage::Phase(resumed) => resumed,
            Stage::Layout => ResumedStage::Layout,
            Stage::Skews => ResumedStage::Skews,
            Stage::Interface => ResumedStage::Interface,
            Stage::Seek => ResumedStage::Seek,
            Stage::SelfCheck => ResumedStage::SelfCheck,
        };
        saved.stage = Stage::Phase(resumed);
        saved
    }

    /// What is under way.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// How much of the budget is spent, 0 to 1; 1 when it is done.
    #[must_use]
    pub fn progress(&self) -> f64 {
        if self.stage == Stage::Done { 1.0 } else { (self.spent.as_ns() as f64 / self.settings.budget.as_ns().max(1) as f64).min(1.0) }
    }

    /// What to do next; the same until it is done.
    pub fn ask(&mut self) -> Ask {
        if let Some(asked) = self.asked {
            return asked;
        }
        loop {
            if self.stage == Stage::Done {
                return Ask::Done;
            }
            let mut session = Session::new(&self.answers, self.know.clone(), self.settings.seed);
            let outcome = run(self.stage, &mut session, &self.settings, self.step_began);
            match outcome {
                Err(Stop::Ask(ask)) => {
                    self.asked = Some(ask);
                    return ask;
                }
                Ok(finished) => {
                    debug_assert_eq!(session.unread(), 0, "an experiment ended without having read all of its answers");
                    self.know = session.know;
                    self.know.retries = 0;
                    self.finish_step(finished);
                }
                Err(Stop::Hopeless(_)) if self.know.retries < MOST_RETRIES => {
                    // Another draw of sectors may do, and noise is another each time.
                    self.know.retries += 1;
                    self.finish_step(false);
                }
                Err(Stop::Hopeless(why)) => {
                    self.know.remarks.push(format!("{:?}: {why}", self.stage));
                    self.finish_step(true);
                }
            }
        }
    }

    fn finish_step(&mut self, stage_done: bool) {
        if let Some(last) = self.answers.last() {
            self.know.now = last.completed;
        }
        self.answers.clear();
        self.know.step += 1;
        self.step_began = self.spent;
        let over = self.spent > self.budget_of(self.stage);
        if over && !stage_done {
            self.know.remarks.push(format!("{:?} was cut short after {}, its share of the time", self.stage, self.spent));
        }
        if stage_done || over {
            self.know.retries = 0;
            if self.stage == Stage::Layout {
                self.prolong_last_zone();
            }
            self.stage = self.following();
        }
    }

    /// What is known of the last zone stands for what was not come to.
    fn prolong_last_zone(&mut self) {
        let capacity = self.know.capacity;
        let Some(last) = self.know.zones.last_mut() else { return };
        let known = match last.end_lba {
            Some(end) if end >= capacity => return,
            Some(end) => end,
            None => last.track_start(last.checked),
        };
        last.end_lba = None;
        last.groups_presumed = false;
        self.know.remarks.push(format!("from sector {known} on the layout was not found, and is taken to go on as before"));
    }

    fn budget_of(&self, stage: Stage) -> Nanos {
        let share = match stage {
            Stage::Rotation | Stage::Phase(_) => 1.0,
            Stage::Layout => LAYOUT_SHARE,
            Stage::Skews => LAYOUT_SHARE + 0.1,
            Stage::Interface | Stage::Seek => SEEK_SHARE,
            Stage::SelfCheck | Stage::Done => 1.0,
        };
        Nanos::from_ns((self.settings.budget.as_ns() as f64 * share) as u64)
    }

    fn following(&self) -> Stage {
        match self.stage {
            Stage::Rotation if self.know.turns == Some(true) => Stage::Layout,
            Stage::Layout if !self.know.zones.is_empty() => Stage::Skews,
            Stage::Phase(ResumedStage::Layout) => Stage::Layout,
            Stage::Phase(ResumedStage::Skews) => Stage::Skews,
            Stage::Phase(ResumedStage::Interface) => Stage::Interface,
            Stage::Phase(ResumedStage::Seek) => Stage::Seek,
            Stage::Phase(ResumedStage::SelfCheck) => Stage::SelfCheck,
            Stage::Skews => Stage::Interface,
            Stage::Interface => Stage::Seek,
            Stage::Seek => Stage::SelfCheck,
            Stage::Rotation | Stage::Layout | Stage::SelfCheck | Stage::Done => Stage::Done,
        }
    }

    /// How the last read that was asked for went.
    ///
    /// # Panics
    /// When no read was asked for, or time ran back: the caller is at fault.
    pub fn completed(&mut self, issued: Instant, completed: Instant, outcome: Outcome) {
        let Some(Ask::Read { extent, .. }) = self.asked.take() else { panic!("a completion at {completed} was reported, but no read was asked for") };
        assert!(completed >= issued, "a read issued at {issued} completed before, at {completed}");
        self.answers.push(Answer { extent, issued, completed, outcome });
        self.spent += completed.saturating_since(issued);
        self.reads += 1;
        self.failures += u64::from(outcome == Outcome::Failed);
    }

    /// What is known by now, at best when [`Ask::Done`] was answered.
    ///
    /// # Errors
    /// When what was found makes no drive: [`Finding::profile`] would be refused.
    pub fn finding(&self) -> Result<Finding, ProfileError> {
        let know = &self.know;
        let mut remarks = know.remarks.clone();
        if know.turns == Some(false) {
            remarks.push(format!("this is no rotating drive: {}", know.evidence));
        }
        if know.seek.other_head_ns.is_some() && !know.seek.order_was_seen() && know.pattern.is_some_and(|pattern| !pattern.in_bands()) {
            remarks.push("whether cylinders begin on alternate surfaces cannot be seen on this drive, and no prediction depends on it".into());
        }
        let profile = if know.zones.is_empty() { None } else { Some(profile_of(know, self.settings.sector_bytes)?) };
        Ok(Finding {
            profile,
            figures: self.figures(),
            check: know.check.as_ref().map(selfcheck::CheckFound::check),
            remarks,
            drive_time: self.spent,
            reads: self.reads,
            failures: self.failures,
        })
    }

    fn figures(&self) -> Vec<Figure> {
        let know = &self.know;
        if know.turns != Some(true) {
            return Vec::new();
        }
        let (period_ns, error_ns) = know.clock.mean_period_ns();
        let mut figures = vec![Figure { name: "period (us)".into(), value: period_ns / 1e3, error: error_ns / 1e3 }];
        figures.push(Figure { name: "noise of a completion (us)".into(), value: know.clock.noise_ns() / 1e3, error: know.clock.noise_ns() / 8e3 });
        for (number, zone) in know.zones.iter().enumerate() {
            let deviation = zone.deviation * zone.sectors_per_track as f64 / libm::sqrt(zone.readings.len().max(1) as f64);
            for (name, step) in ["a", "b", "c"].into_iter().zip(zone.steps).take(if zone.pattern.in_bands() { 3 } else { 2 }) {
                let name = format!("zone {number} step {name} (sectors)");
                figures.push(Figure { name, value: step * zone.sectors_per_track as f64, error: deviation });
            }
        }
        figures
    }
}

/// One step of a stage; true when the stage is done.
fn run(stage: Stage, session: &mut Session, settings: &Settings, spent: Nanos) -> Step<bool> {
    match stage {
        Stage::Rotation => rotation::find(session),
        Stage::Phase(_) => rotation::find_phase(session).map(|()| true),
        Stage::Layout => match session.know.zones.last() {
            None => layout::begin_first(session).map(|()| false),
            Some(_) if session.know.pattern.is_some_and(layout::Pattern::hides_surfaces) && !session.know.surfaces_sought => {
                seek::find_surfaces(session).map(|()| false)
            }
            Some(_) => layout::extend(session),
        },
        Stage::Skews => match session.know.zones.iter().position(|zone| !zone.settled) {
            Some(number) => layout::settle(session, number).map(|()| false),
            None => Ok(true),
        },
        Stage::Interface => overhead::find(session).map(|()| true),
        Stage::Seek => {
            let refine = spent.as_ns() as f64 <= SEEK_SHARE * settings.budget.as_ns() as f64;
            seek::extend(session, refine)
        }
        Stage::SelfCheck => selfcheck::extend(session, settings.sector_bytes),
        Stage::Done => Ok(true),
    }
}
