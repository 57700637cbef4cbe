//! [`Probe`]: the experiments one after the other.

use std::collections::BTreeSet;

use headtime_units::{Extent, Instant, Nanos, SectorSize, Sectors};
use serde::{Deserialize, Serialize};

use crate::command_batch::CommandBatch;
use crate::finding::{Finding, profile_of};
use crate::knowledge::Knowledge;
use crate::layout;
use crate::measurement::{CommandOutcome, Measurement, Rewrite, TimedCommand};
use crate::session::{Session, Step, Stop};
use crate::stage::Stage;
use crate::verdict::{self, Watch};
use crate::{arms, cache, figures, overhead, queue, remaps, rotation, seek, selfcheck, writes};

/// What a probe is told of a drive before it begins, and what it may spend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeSettings {
    /// Logical sectors of the drive.
    pub capacity: Sectors,
    /// Bytes of one.
    pub sector_bytes: u32,
    /// Time in which the drive may be kept at work; see [`ProbeSettings::for_drive`].
    pub budget: Nanos,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether sectors may be read and written back unchanged ([`Measurement::Rewrite`]); without it
    /// nothing is ever written.
    pub allow_writes: bool,
    /// How many commands the way to the drive takes at once, at least one; what the drive itself
    /// holds cannot be seen beyond it.
    pub max_outstanding: u32,
}

impl ProbeSettings {
    /// Settings that allow no writes, 32 commands outstanding, and the usual budget: five minutes
    /// up to 20 GB, then for each tenfold size five minutes more, twenty at the most.
    #[must_use]
    pub fn for_drive(capacity: Sectors, sector_size: SectorSize, seed: u64) -> Self {
        let bytes = sector_size.bytes_of(capacity) as f64;
        let minutes = (5.0 + 5.0 * libm::log10(bytes / 20e9)).clamp(5.0, 20.0);
        let budget = Nanos::from_secs(libm::round(minutes * 60.0) as u64);
        Self {
            capacity,
            sector_bytes: sector_size.bytes(),
            budget,
            seed,
            allow_writes: false,
            max_outstanding: USUAL_OUTSTANDING,
        }
    }
}

/// A characterization under way.
///
/// Call order: [`Probe::next_measurement`] says what to do; do it, and tell [`Probe::completed`] or
/// [`Probe::batch_completed`] how it went; again, until there is none. Everything is in the probe's
/// own data, so that it may be written out ([`Probe::save`]) and taken up again ([`Probe::load`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    settings: ProbeSettings,
    stage: Stage,
    know: Knowledge,
    /// Of the present experiment.
    answers: Vec<TimedCommand>,
    batches: Vec<Vec<TimedCommand>>,
    requested: Option<Measurement>,
    watch: Watch,
    spent: Nanos,
    reads: u64,
    writes: u64,
    failures: u64,
    /// What was spent when the present experiment began: it must see the same whenever it is run
    /// again.
    step_began: Nanos,
}

/// So often is an experiment begun again that came to nothing.
const MAX_RETRIES: u32 = 3;
/// The part of the budget by which an experiment that began in time may be late.
const SLACK: f64 = 0.02;
/// What the arm takes from one random sector of a zone to the next, ns (guess).
const USUAL_SEEK_NS: f64 = 5e6;
/// Commands outstanding where nobody says how many may be: a SATA drive's.
const USUAL_OUTSTANDING: u32 = 32;

impl Probe {
    /// A characterization of a drive that nothing is known of but its size.
    #[must_use]
    pub fn new(settings: ProbeSettings) -> Self {
        let know = Knowledge { capacity: settings.capacity.get(), ..Knowledge::default() };
        Self {
            settings,
            stage: Stage::Rotation,
            know,
            answers: Vec::new(),
            batches: Vec::new(),
            requested: None,
            watch: Watch::default(),
            spent: Nanos::ZERO,
            reads: 0,
            writes: 0,
            failures: 0,
            step_began: Nanos::ZERO,
        }
    }

    /// Takes up a characterization that was written out, on the same drive but with a clock that
    /// may have another origin: the phase is read again first, and the experiment that was
    /// interrupted begins again.
    #[must_use]
    pub fn resume(mut saved: Self) -> Self {
        saved.answers.clear();
        saved.batches.clear();
        saved.requested = None;
        saved.watch.forget();
        saved.step_began = saved.spent;
        saved.stage = saved.stage.resumed();
        saved
    }

    /// What the probe was told of the drive.
    #[must_use]
    pub fn settings(&self) -> &ProbeSettings {
        &self.settings
    }

    /// What is under way.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// How much of the budget is spent, 0 to 1; 1 when it is done.
    #[must_use]
    pub fn progress(&self) -> f64 {
        if self.stage == Stage::Done {
            1.0
        } else {
            (self.spent.as_ns() as f64 / self.settings.budget.as_ns().max(1) as f64).min(1.0)
        }
    }

    /// The commands of the next measurement; `None` when the characterization is over.
    pub fn next_batch(&mut self) -> Option<CommandBatch> {
        self.next_measurement().map(|measurement| CommandBatch::new(&measurement))
    }

    /// The next measurement, the same until it is reported as completed; `None` when the
    /// characterization is over.
    pub fn next_measurement(&mut self) -> Option<Measurement> {
        if let Some(requested) = &self.requested {
            return Some(requested.clone());
        }
        loop {
            if self.stage == Stage::Done {
                return None;
            }
            if self.is_far_over() {
                self.finish_step(false);
                continue;
            }
            let mut session =
                Session::new(&self.answers, &self.batches, self.know.clone(), self.settings.seed);
            let outcome = run(self.stage, &mut session, &self.settings, self.step_began);
            match outcome {
                Err(Stop::Measure(measurement)) => {
                    self.requested = Some(measurement.clone());
                    return Some(measurement);
                }
                Ok(finished) => {
                    debug_assert_eq!(
                        session.unread(),
                        0,
                        "an experiment ended without having read all of its answers"
                    );
                    self.know = session.know;
                    self.know.retries = 0;
                    self.finish_step(finished);
                }
                Err(Stop::Hopeless(_)) if self.know.retries < MAX_RETRIES => {
                    // Another draw of sectors may do, and noise is another each time.
                    self.know.retries += 1;
                    self.finish_step(false);
                }
                Err(Stop::Hopeless(why)) => {
                    self.know.remarks.push(format!("{}: {why}", self.stage.describe()));
                    self.finish_step(true);
                }
            }
        }
    }

    /// Whether the stage is so long past its share that its present experiment is given up.
    fn is_far_over(&self) -> bool {
        let slack = Nanos::from_ns((self.settings.budget.as_ns() as f64 * SLACK) as u64);
        !self.answers.is_empty() && self.spent > self.budget_of(self.stage) + slack
    }

    fn finish_step(&mut self, stage_done: bool) {
        if let Some(last) = self.answers.last() {
            self.know.now = last.completed;
        }
        self.know.note_lately(&self.answers);
        self.answers.clear();
        self.batches.clear();
        self.know.step += 1;
        self.step_began = self.spent;
        let over = self.spent > self.budget_of(self.stage);
        if over && !stage_done {
            self.know.remarks.push(format!(
                "{}: cut short after {}, its share of the time",
                self.stage.describe(),
                self.spent
            ));
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
        self.know.remarks.push(format!(
            "from sector {known} on the layout was not found, and is taken to go on as before"
        ));
    }

    fn budget_of(&self, stage: Stage) -> Nanos {
        Nanos::from_ns((self.settings.budget.as_ns() as f64 * stage.share()) as u64)
    }

    fn following(&self) -> Stage {
        match self.stage {
            Stage::Rotation if self.know.turns != Some(true) => Stage::Done,
            Stage::Layout if self.know.zones.is_empty() => Stage::Done,
            stage => stage.next(),
        }
    }

    /// How the read went that [`Measurement::Read`] asked for.
    ///
    /// # Panics
    /// When no read was asked for, or time ran back: the caller is at fault.
    pub fn completed(&mut self, issued: Instant, completed: Instant, outcome: CommandOutcome) {
        let Some(Measurement::Read { extent, .. }) = self.requested.take() else {
            panic!("a completion at {completed} was reported, but no read was asked for")
        };
        self.reads += 1;
        let answer = TimedCommand { extent, issued, completed, outcome };
        self.note(&answer);
        self.spent += answer.response();
        self.answers.push(answer);
    }

    /// How the commands went that were asked for, in the order that [`Measurement::Rewrite`] and
    /// [`Measurement::Concurrent`] say; [`CommandBatch`](crate::Errand) brings them so. One answer to an
    /// [`Measurement::Read`] is taken too.
    ///
    /// # Panics
    /// When nothing was asked for, there is no answer, one is to something that was not asked for,
    /// or time ran back: the caller is at fault.
    pub fn batch_completed(&mut self, answers: Vec<TimedCommand>) {
        if let (Some(Measurement::Read { .. }), [answer]) = (&self.requested, answers.as_slice()) {
            return self.completed(answer.issued, answer.completed, answer.outcome);
        }
        let asked = self.requested.take();
        let extents: BTreeSet<Extent> = match &asked {
            Some(Measurement::Rewrite(rewrite)) => {
                [Some(rewrite.extent), rewrite.via].into_iter().flatten().collect()
            }
            Some(Measurement::Concurrent(together)) => {
                together.lanes.iter().flat_map(|lane| lane.extents.iter().copied()).collect()
            }
            _ => {
                panic!("several completions were reported, but no commands together were asked for")
            }
        };
        let last = *answers
            .last()
            .expect("an ask has at least one command, so it has at least one answer");
        let mut began = last.issued;
        for (number, answer) in answers.iter().enumerate() {
            assert!(
                extents.contains(&answer.extent),
                "{} was reported, which was not asked for",
                answer.extent
            );
            began = began.min(answer.issued);
            let is_write = matches!(asked, Some(Measurement::Rewrite(Rewrite { via, .. })) if number == 1 + usize::from(via.is_some()));
            self.writes += u64::from(is_write);
            self.reads += u64::from(!is_write);
            self.note(answer);
        }
        self.spent += last.completed.saturating_since(began);
        self.answers.push(last);
        self.batches.push(answers);
    }

    /// Counts an answer, and stops everything where the drive is not there any more, or is another
    /// one.
    fn note(&mut self, answer: &TimedCommand) {
        assert!(
            answer.completed >= answer.issued,
            "a command issued at {} completed before, at {}",
            answer.issued,
            answer.completed
        );
        self.failures += u64::from(!answer.succeeded());
        let known = (self.stage != Stage::Rotation && !matches!(self.stage, Stage::Phase(_)))
            .then_some(&self.know);
        if let Some(ended) = self.watch.see(answer, known) {
            self.know.ended = Some(ended);
            self.stage = Stage::Done;
        }
    }

    /// What is known by now, complete once [`Probe::next_measurement`] returns `None`.
    ///
    /// What a drive did is never an error: measurements that make no drive are
    /// [`Verdict::NotUnderstood`](crate::Verdict::NotUnderstood), with the reason.
    #[must_use]
    pub fn finding(&self) -> Finding {
        let know = &self.know;
        let mut remarks = know.remarks.clone();
        if know.seek.other_head_ns.is_some()
            && !know.seek.order_was_seen()
            && know.pattern.is_some_and(|pattern| !pattern.in_bands())
        {
            remarks.push(
                "whether cylinders begin on alternate surfaces cannot be seen on this \
                drive, and no prediction depends on it"
                    .into(),
            );
        }
        remarks.extend(layout::lost_stretches(know));
        if check_done(know) {
            let percent = 100.0 * remaps::coverage(know, self.settings.sector_bytes);
            remarks.push(format!(
                "remapped sectors were looked for among the {percent:.4} % of the \
                drive that the self-check read"
            ));
        }
        let found = if know.zones.is_empty() {
            Ok(None)
        } else {
            profile_of(know, self.settings.sector_bytes).map(Some)
        };
        let refused = found.as_ref().err().map(ToString::to_string);
        let profile = found.unwrap_or_default();
        let check = know
            .check
            .as_ref()
            .filter(|check| check.compared() > 0)
            .map(selfcheck::CheckFound::check);
        let verdict = verdict::of(
            know,
            refused.as_deref().map_or(Ok(profile.is_some()), Err),
            check.as_ref(),
            self.stage,
            &self.watch,
        );
        if !verdict.is_characterized() {
            remarks.insert(0, verdict.sentence());
        }
        Finding {
            verdict,
            profile,
            figures: figures::of(know, self.settings.sector_bytes),
            check,
            queue: know.queue.as_ref().and_then(queue::QueueFound::behavior),
            remapped: know.remaps.as_ref().map(|found| found.remapped.clone()).unwrap_or_default(),
            remarks,
            drive_time: self.spent,
            reads: self.reads,
            writes: self.writes,
            failures: self.failures,
        }
    }
}

fn check_done(know: &Knowledge) -> bool {
    know.check.as_ref().is_some_and(|check| check.compared() > 0)
}

/// One step of a stage; true when the stage is done.
fn run(stage: Stage, session: &mut Session, settings: &ProbeSettings, spent: Nanos) -> Step<bool> {
    match stage {
        Stage::Rotation => rotation::find(session),
        Stage::Phase(_) => rotation::find_phase(session).map(|()| true),
        Stage::Layout if arms::is_worth_a_look(&session.know) => {
            arms::find(session).map(|()| false)
        }
        // One arm goes on reading ahead while the other is at work, which is not known before.
        Stage::Layout if session.know.forget > 0 && !session.know.ring_sought => {
            cache::find_ring(session).map(|()| false)
        }
        Stage::Layout => match session.know.zones.last() {
            None => layout::begin_first(session).map(|()| false),
            Some(_) if session.know.pattern.is_none() => {
                layout::find_rhythm(session).map(|()| false)
            }
            Some(_)
                if session.know.pattern.is_some_and(layout::Pattern::hides_surfaces)
                    && !session.know.surfaces_sought =>
            {
                seek::find_surfaces(session).map(|()| false)
            }
            Some(_) => layout::extend(session),
        },
        Stage::Slips => layout::sound(session),
        Stage::Skews => match session.know.zones.iter().position(|zone| !zone.settled) {
            Some(number) => {
                // What is left of the stage's time, shared among the zones that are left, in reads
                // of an arm time and half a turn.
                let left = stage.share() * settings.budget.as_ns() as f64 - spent.as_ns() as f64;
                let zones = session.know.zones.len() - number;
                let most = left.max(0.0)
                    / zones as f64
                    / (session.know.clock.period_ns() / 2.0 + USUAL_SEEK_NS);
                layout::settle(session, number, most as usize).map(|()| false)
            }
            None => Ok(true),
        },
        Stage::Interface if session.know.arms.two && !session.know.arms.compared => {
            arms::compare(session).map(|()| false)
        }
        Stage::Interface => overhead::find(session).map(|()| true),
        Stage::Seek => {
            let refine = spent.as_ns() as f64 <= stage.share() * settings.budget.as_ns() as f64;
            seek::extend(session, refine)
        }
        Stage::Cache => cache::extend(session),
        Stage::Writes if settings.allow_writes => writes::extend(session, settings.sector_bytes),
        Stage::Queue => queue::extend(session, settings.sector_bytes, settings.max_outstanding),
        Stage::SelfCheck => selfcheck::extend(session, settings.sector_bytes),
        Stage::Remaps => remaps::extend(session, settings.sector_bytes),
        Stage::Writes | Stage::Done => Ok(true),
    }
}
