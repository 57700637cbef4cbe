//! [`Probe`]: the experiments, one after the other.

use std::collections::BTreeSet;

use headtime_mechanics::ProfileError;
use headtime_mechanics::profile::{Accuracy, DriveProfile, SecondActuator};
use headtime_units::{Extent, Instant, Lba, Nanos, SectorSize, Sectors};
use serde::{Deserialize, Serialize};

use crate::command_batch::CommandBatch;
use crate::finding::{Finding, RemappedSector, SelfCheck};
use crate::layout::{self, Pattern, ZoneModel};
use crate::measurement::{CommandOutcome, Measurement, Rewrite, TimedCommand};
use crate::results::{Progress, Results};
use crate::seek::CurveDetail;
use crate::selfcheck::CheckResult;
use crate::session::{Attempt, DriveSharing, DriveTiming, Interruption, Session};
use crate::stage::Stage;
use crate::verdict::{self, DriveMonitor, EarlyEnd};
use crate::{
    arms, cache, figures, overhead, queue, remaps, rotation, seek, selfcheck, surfaces, writes,
};

/// The drive to characterize, and the limits for doing so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeSettings {
    /// Logical sectors of the drive.
    pub capacity: Sectors,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// The drive time that may be used; see [`ProbeSettings::for_drive`].
    pub budget: Nanos,
    /// Seed of all random choices.
    pub seed: u64,
    /// Sectors may be read and written back unchanged ([`Measurement::Rewrite`]); otherwise nothing
    /// is ever written.
    pub allow_writes: bool,
    /// The most commands that the connection to the drive accepts at once, at least one. A deeper
    /// queue of the drive itself is not visible.
    pub max_outstanding: u32,
    /// The use of the drive meanwhile.
    #[serde(default)]
    pub sharing: DriveSharing,
}

impl ProbeSettings {
    /// Settings without writes, with 32 commands outstanding, and with the default budget: five
    /// minutes up to 20 GB, five more for each tenfold size, at most twenty.
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
            max_outstanding: DEFAULT_OUTSTANDING,
            sharing: DriveSharing::Exclusive,
        }
    }
}

/// A characterization in progress.
///
/// Call order: take the commands of [`Probe::next_batch`], carry them out, and report their times
/// to [`Probe::completed`] or [`Probe::batch_completed`], until there are none. All state is plain
/// data, so that it can be saved ([`Probe::save`]) and resumed later ([`Probe::load`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    settings: ProbeSettings,
    stage: Stage,
    drive: DriveTiming,
    /// The results of the arm that is measured.
    results: Results,
    /// Those of the first arm, while the second is measured and afterwards.
    first_arm: Option<Box<Results>>,
    /// The drive time spent when the experiments with this arm began.
    arm_began: Nanos,
    /// The drive time that the layout of this arm took.
    #[serde(default)]
    layout_time: Nanos,
    /// Sentences for the report.
    remarks: Vec<String>,
    /// The results of the present experiment so far.
    commands: Vec<TimedCommand>,
    batches: Vec<Vec<TimedCommand>>,
    requested: Option<Measurement>,
    monitor: DriveMonitor,
    early_end: Option<EarlyEnd>,
    /// The number of times the present experiment was started again.
    retries: u32,
    spent: Nanos,
    reads: u64,
    writes: u64,
    failures: u64,
    /// The drive time spent when the present experiment began; the same in each of its runs.
    step_began: Nanos,
}

/// The number of times an experiment that failed is started again.
const MAX_RETRIES: u32 = 3;
/// The share of the budget by which an experiment that began in time may exceed it.
const SLACK: f64 = 0.02;
/// The smallest budget of a drive. All stages but the layout need as much time on a drive with many
/// zones as on one with few, so a larger budget is for the layout.
const ENOUGH_BUDGET: Nanos = Nanos::from_secs(300);
/// The seek time from one random sector of a zone to the next, ns (guess).
const TYPICAL_SEEK_NS: f64 = 5e6;
/// The default number of commands outstanding: that of a SATA drive.
const DEFAULT_OUTSTANDING: u32 = 32;

impl Probe {
    /// A characterization of a drive of which only the size is known.
    #[must_use]
    pub fn new(settings: ProbeSettings) -> Self {
        Self {
            settings,
            stage: Stage::Rotation,
            drive: DriveTiming {
                capacity: settings.capacity.get(),
                sharing: settings.sharing,
                ..DriveTiming::default()
            },
            results: Results::default(),
            first_arm: None,
            arm_began: Nanos::ZERO,
            layout_time: Nanos::ZERO,
            remarks: Vec::new(),
            commands: Vec::new(),
            batches: Vec::new(),
            requested: None,
            monitor: DriveMonitor::default(),
            early_end: None,
            retries: 0,
            spent: Nanos::ZERO,
            reads: 0,
            writes: 0,
            failures: 0,
            step_began: Nanos::ZERO,
        }
    }

    /// Resumes a saved characterization on the same drive. The host's clock may have another
    /// origin: the phase is read again first. The interrupted experiment starts again.
    #[must_use]
    pub fn resume(mut saved: Self) -> Self {
        saved.commands.clear();
        saved.batches.clear();
        saved.requested = None;
        saved.monitor.reset();
        saved.step_began = saved.spent;
        saved.stage = saved.stage.resumed();
        saved
    }

    /// The settings given at the start.
    #[must_use]
    pub fn settings(&self) -> &ProbeSettings {
        &self.settings
    }

    /// The present stage.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The share of the budget spent, from 0 to 1; 1 at the end.
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
        if self.requested.is_none() {
            self.requested = self.next_of_arm();
        }
        let up = Sectors::new(self.first_lba());
        self.requested.clone().map(|requested| requested.moved_up(up))
    }

    /// The next measurement, in the addresses of the arm that is measured.
    fn next_of_arm(&mut self) -> Option<Measurement> {
        loop {
            if self.stage == Stage::Done {
                return None;
            }
            if self.is_far_over_budget() {
                self.finish_step(Progress::More);
                continue;
            }
            let (drive, seed) = (self.drive.clone(), self.settings.seed);
            let mut session = Session::new(&self.commands, &self.batches, drive, seed);
            let mut results = self.results.clone();
            match self.run(&mut session, &mut results) {
                Err(Interruption::Measure(measurement)) => return Some(measurement),
                Ok(progress) => {
                    debug_assert_eq!(
                        session.unused(),
                        0,
                        "an experiment ended without having used all of its results"
                    );
                    let Session { drive, remarks, .. } = session;
                    (self.drive, self.results) = (drive, results);
                    remarks.into_iter().for_each(|remark| self.remark(remark));
                    self.retries = 0;
                    self.finish_step(progress);
                }
                Err(Interruption::Failed(_)) if self.retries < MAX_RETRIES => {
                    // Other random sectors and other noise may succeed.
                    self.retries += 1;
                    self.finish_step(Progress::More);
                }
                Err(Interruption::Failed(why)) => {
                    self.remark(format!("{}: {why}", self.stage.describe()));
                    self.finish_step(Progress::Done);
                }
            }
        }
    }

    /// Runs one experiment of the present stage; tells whether the stage is done.
    fn run(&self, session: &mut Session, results: &mut Results) -> Attempt<Progress> {
        let settings = &self.settings;
        let (began_ns, ends_ns) =
            (self.step_began.as_ns() as f64, self.budget_of(self.stage).as_ns() as f64);
        let sector_bytes = settings.sector_bytes;
        match self.stage {
            Stage::Rotation => rotation::measure(session, &mut results.rotation),
            Stage::Phase(_) => rotation::read_phase(session).map(|()| Progress::Done),
            Stage::Layout => self.run_layout(session, results),
            Stage::Slips => layout::locate_slips(session, &mut results.layout),
            Stage::Skews => {
                let zones = &mut results.layout.zones;
                let Some(number) = zones.iter().position(|zone| !zone.fitted) else {
                    return Ok(Progress::Done);
                };
                // Share the stage's remaining time among the remaining zones. A read takes a seek
                // and half a revolution.
                let remaining = (zones.len() - number) as f64;
                let read_ns = session.drive.clock.period_ns() / 2.0 + TYPICAL_SEEK_NS;
                let max_reads = (ends_ns - began_ns).max(0.0) / remaining / read_ns;
                layout::fit_skews(session, &mut zones[number], max_reads as usize)
                    .map(|()| Progress::More)
            }
            Stage::Interface if results.actuators.needs_references() => {
                arms::read_references(session, &mut results.actuators).map(|()| Progress::More)
            }
            Stage::Interface => {
                results.interface = overhead::measure(session, &results.layout)?;
                Ok(Progress::Done)
            }
            Stage::Seek => {
                let detail =
                    if began_ns <= ends_ns { CurveDetail::Refined } else { CurveDetail::Coarse };
                seek::extend(session, &results.layout, &mut results.seek, detail)
            }
            Stage::Cache => cache::extend(session, &results.layout, &mut results.cache),
            Stage::Writes if settings.allow_writes => {
                let Results { layout, seek, writes, .. } = results;
                writes::extend(session, layout, seek, writes, sector_bytes)
            }
            Stage::Queue if session.drive.is_shared() => {
                session.remark("firmware queue: not measured, which needs a drive without clients");
                Ok(Progress::Done)
            }
            Stage::Queue => {
                let mut queue = results.queue.clone();
                let model = results.model(sector_bytes);
                let progress =
                    queue::extend(session, &model, &mut queue, settings.max_outstanding)?;
                results.queue = queue;
                Ok(progress)
            }
            Stage::SelfCheck => {
                let mut check = core::mem::take(&mut results.check);
                if !check.is_calibrated() {
                    selfcheck::calibrate(session, &mut results.layout, &mut check)?;
                    results.check = check;
                    return Ok(Progress::More);
                }
                let progress =
                    selfcheck::extend(session, &results.model(sector_bytes), &mut check)?;
                results.check = check;
                Ok(progress)
            }
            Stage::Remaps => {
                let mut remaps = core::mem::take(&mut results.remaps);
                let model = results.model(sector_bytes);
                let progress = remaps::extend(session, &model, &results.check, &mut remaps)?;
                results.remaps = remaps;
                Ok(progress)
            }
            Stage::Writes | Stage::Done => Ok(Progress::Done),
        }
    }

    /// Runs one experiment of the layout.
    fn run_layout(&self, session: &mut Session, results: &mut Results) -> Attempt<Progress> {
        let layout = &mut results.layout;
        if results.actuators.is_due(session.drive.capacity) {
            arms::find(session, &mut results.actuators)?;
        } else if session.drive.hits.eviction_reads > 0 && !session.drive.hits.measured {
            // One arm goes on reading ahead while the other works, so the actuators come first.
            cache::measure_evictions(session)?;
        } else if layout.zones.is_empty() {
            layout::begin_first(session, layout)?;
        } else if let Some(pattern) = layout.pattern {
            if pattern.hides_surfaces() && !layout.surfaces.searched {
                surfaces::find_surfaces(session, layout)?;
            } else {
                return layout::extend(session, layout, self.retries);
            }
        } else {
            layout::find_pattern(session, layout)?;
        }
        Ok(Progress::More)
    }

    /// True if the present experiment exceeds the stage's share of the budget so far that it is
    /// given up.
    fn is_far_over_budget(&self) -> bool {
        let slack = Nanos::from_ns((self.settings.budget.as_ns() as f64 * SLACK) as u64);
        !self.commands.is_empty() && self.spent > self.budget_of(self.stage) + slack
    }

    fn finish_step(&mut self, progress: Progress) {
        if let Some(last) = self.commands.last() {
            self.drive.now = last.completed;
        }
        self.drive.note_recent(&self.commands);
        self.commands.clear();
        self.batches.clear();
        self.drive.step += 1;
        self.step_began = self.spent;
        let over = self.spent > self.budget_of(self.stage);
        if over && progress == Progress::More {
            self.remark(format!(
                "{}: cut short after {}, its share of the time",
                self.stage.describe(),
                self.spent
            ));
        }
        if over || progress == Progress::Done {
            self.retries = 0;
            if self.stage == Stage::Layout {
                self.layout_time = self.spent.saturating_sub(self.arm_began);
                self.extend_last_zone();
            }
            self.stage = self.next_stage();
        }
    }

    /// Assumes that the last zone goes on to the end of the drive.
    fn extend_last_zone(&mut self) {
        let Some(last) = self.results.layout.zones.last_mut() else { return };
        let known = match last.end_lba {
            Some(end) if end >= self.drive.capacity => return,
            Some(end) => end,
            None => last.track_start(last.checked),
        };
        last.end_lba = None;
        last.groups_presumed = false;
        self.remark(format!(
            "the layout from sector {known} on was not measured, and is assumed to go on as before"
        ));
    }

    /// The drive time by which a stage has to end. The first of two arms has half of the budget,
    /// the second what is left. The layout of a drive with many zones may take all but what the
    /// later stages need; those then divide the rest in proportion to their shares.
    fn budget_of(&self, stage: Stage) -> Nanos {
        let ends = if self.results.actuators.two && self.first_arm.is_none() {
            self.settings.budget / 2
        } else {
            self.settings.budget
        };
        let own = ends.saturating_sub(self.arm_began).as_ns() as f64;
        let of_layout = Stage::Layout.share();
        let end = if stage == Stage::Layout {
            own - (1.0 - of_layout) * own.min(ENOUGH_BUDGET.as_ns() as f64)
        } else {
            let usual = own * of_layout;
            let longer = (self.layout_time.as_ns() as f64).clamp(usual, own) - usual;
            own * stage.share() + longer * (1.0 - stage.share()) / (1.0 - of_layout)
        };
        self.arm_began + Nanos::from_ns(end as u64)
    }

    fn next_stage(&mut self) -> Stage {
        match self.stage {
            Stage::Rotation if !self.results.rotation.rotates() => return Stage::Done,
            Stage::Layout if self.results.layout.zones.is_empty() => return Stage::Done,
            _ => {}
        }
        let mut next = self.stage.next();
        while self.first_arm.is_some() && next.is_of_both_arms() {
            next = next.next();
        }
        if next == Stage::Done && self.begin_second_arm() { Stage::Layout } else { next }
    }

    /// Turns to the second arm, if there is one that was not measured yet.
    fn begin_second_arm(&mut self) -> bool {
        let references = self.results.actuators.references.clone().unwrap_or_default();
        if self.first_arm.is_some() || references.is_empty() {
            return false;
        }
        let shared = self.results.shared();
        self.first_arm = Some(Box::new(core::mem::replace(&mut self.results, shared)));
        (self.drive.references, self.drive.next_reference) = (references, 0);
        self.drive.recent.clear();
        self.monitor.reset();
        (self.arm_began, self.layout_time) = (self.spent, Nanos::ZERO);
        true
    }

    /// The first sector of the arm that is measured.
    fn first_lba(&self) -> u64 {
        if self.first_arm.is_some() { self.drive.capacity } else { 0 }
    }

    fn remark(&mut self, sentence: String) {
        let of_second = self.first_arm.is_some();
        let sentence = if of_second { format!("second arm: {sentence}") } else { sentence };
        self.remarks.push(sentence);
    }

    /// Reports the read that [`Measurement::Read`] requested.
    ///
    /// # Panics
    /// When no read was requested, or time ran back: the caller is at fault.
    pub fn completed(&mut self, issued: Instant, completed: Instant, outcome: CommandOutcome) {
        self.read_completed(issued, completed, outcome, 0);
    }

    /// The same beside clients, after so many commands of others ([`TimedCommand::others`]).
    ///
    /// # Panics
    /// As [`Probe::completed`].
    pub fn read_completed(
        &mut self,
        issued: Instant,
        completed: Instant,
        outcome: CommandOutcome,
        others: u32,
    ) {
        let Some(Measurement::Read { extent, .. }) = self.requested.take() else {
            panic!("a completion at {completed} was reported, but no read was requested")
        };
        self.reads += 1;
        let command = TimedCommand { extent, issued, completed, outcome, others };
        self.note(&command);
        self.spent += command.response();
        self.commands.push(command);
    }

    /// Reports the commands of a measurement, in the order that [`Measurement::Rewrite`] and
    /// [`Measurement::Concurrent`] define; [`CommandBatch`] returns them so. A single result of a
    /// [`Measurement::Read`] is accepted too.
    ///
    /// # Panics
    /// When nothing was requested, there is no result, a result is of another extent, or time ran
    /// back: the caller is at fault.
    pub fn batch_completed(&mut self, mut commands: Vec<TimedCommand>) {
        let up = self.first_lba();
        for TimedCommand { extent, .. } in &mut commands {
            extent.start = Lba::new(extent.start.get().saturating_sub(up));
        }
        if let (Some(Measurement::Read { .. }), [command]) = (&self.requested, commands.as_slice())
        {
            let TimedCommand { issued, completed, outcome, others, .. } = *command;
            return self.read_completed(issued, completed, outcome, others);
        }
        let requested = self.requested.take();
        let extents: BTreeSet<Extent> = match &requested {
            Some(Measurement::Rewrite(rewrite)) => {
                [Some(rewrite.extent), rewrite.via].into_iter().flatten().collect()
            }
            Some(Measurement::Concurrent(reads)) => {
                reads.lanes.iter().flat_map(|lane| lane.extents.iter().copied()).collect()
            }
            _ => panic!("several completions were reported, but not as many were requested"),
        };
        let last = *commands.last().expect("a measurement has at least one command");
        let write = match requested {
            Some(Measurement::Rewrite(Rewrite { via, .. })) => Some(1 + usize::from(via.is_some())),
            _ => None,
        };
        let mut began = last.issued;
        for (number, command) in commands.iter().enumerate() {
            assert!(
                extents.contains(&command.extent),
                "{} was reported, which was not requested",
                command.extent
            );
            began = began.min(command.issued);
            let is_write = write == Some(number);
            self.writes += u64::from(is_write);
            self.reads += u64::from(!is_write);
            self.note(command);
        }
        self.spent += last.completed.saturating_since(began);
        self.commands.push(last);
        self.batches.push(commands);
    }

    /// Counts a command, and ends the characterization if the drive is gone or is another one.
    fn note(&mut self, command: &TimedCommand) {
        assert!(
            command.completed >= command.issued,
            "a command issued at {} completed before, at {}",
            command.issued,
            command.completed
        );
        self.failures += u64::from(!command.succeeded());
        let has_clock = !matches!(self.stage, Stage::Rotation | Stage::Phase(_));
        let end = self.monitor.observe(command, has_clock.then_some(&self.drive));
        if end.is_some() {
            self.early_end = end;
            self.stage = Stage::Done;
        }
    }

    /// The findings so far; complete once [`Probe::next_measurement`] returns `None`.
    ///
    /// Nothing that a drive does is an error: measurements that fit no drive give
    /// [`Verdict::NotUnderstood`](crate::Verdict::NotUnderstood), with the reason.
    #[must_use]
    pub fn finding(&self) -> Finding {
        let (drive, results) = (&self.drive, self.first_arm.as_deref().unwrap_or(&self.results));
        let second = self.first_arm.is_some().then_some(&self.results);
        let sector_bytes = self.settings.sector_bytes;
        let layout = &results.layout;
        let (zones, check) = self.of_both_arms(results, second);
        let capacity = drive.capacity * if results.actuators.two { 2 } else { 1 };
        let mut remarks = self.remarks.clone();
        if results.seek.other_head_ns.is_some()
            && !results.seek.order_was_seen()
            && layout.pattern.is_some_and(|pattern| !pattern.in_bands())
        {
            remarks.push(
                "the seek times do not show whether cylinders begin on alternate surfaces; no \
                    prediction depends on it"
                    .into(),
            );
        }
        remarks.extend(layout::unknown_ranges(&zones, capacity));
        if results.actuators.two && second.is_none_or(|second| second.check.compared() == 0) {
            remarks.push(format!(
                "second arm: the sectors from {} on were not measured, and are assumed to be \
                    like those of the first",
                drive.capacity
            ));
        }
        let (zone_checks, deviations) = if check.compared() > 0 {
            (check.by_zone(&zones), check.deviations(&zones, drive))
        } else {
            Default::default()
        };
        let check = (check.compared() > 0).then(|| check.check());
        if let Some(check) = &check {
            let percent = 100.0 * remaps::coverage(check, capacity, sector_bytes);
            remarks.push(format!(
                "only the {percent:.4} % of the drive that the self-check read were searched for \
                    remapped sectors"
            ));
        }
        let found = if layout.zones.is_empty() {
            Ok(None)
        } else {
            self.profile(results, second).map(Some)
        };
        // Without a check, a table of no reads tells that the profile was measured.
        let accuracy = Accuracy {
            zones: zone_checks.clone(),
            ..check.as_ref().map_or_else(Accuracy::default, SelfCheck::accuracy)
        };
        let stated = |profile| DriveProfile { accuracy: Some(accuracy.clone()), ..profile };
        let found = found.map(|profile| profile.map(stated));
        let invalid = found.as_ref().err().map(ToString::to_string);
        let profile = found.unwrap_or_default();
        let verdict = verdict::Evidence {
            early_end: self.early_end.as_ref(),
            stage: self.stage,
            rotation: &results.rotation,
            monitor: &self.monitor,
            profile: invalid.as_deref().map_or(Ok(profile.is_some()), Err),
            last_remark: self.remarks.last(),
            check: check.as_ref(),
            deviations: &deviations,
            jitter_us: drive.clock.deviation_ns() / 1e3,
        }
        .verdict();
        if !verdict.is_characterized() {
            remarks.insert(0, verdict.sentence());
        }
        Finding {
            verdict,
            profile,
            figures: figures::of(drive, results, second, sector_bytes),
            check,
            zone_checks,
            deviations,
            track_order_seen: layout.pattern.is_some_and(Pattern::in_bands)
                || results.seek.order_was_seen(),
            queue: results.queue.behavior(),
            remapped: self.remapped(results, second),
            remarks,
            drive_time: self.spent,
            reads: self.reads,
            writes: self.writes,
            failures: self.failures,
        }
    }

    /// The zones and self-checks of the drive, of one arm or two.
    fn of_both_arms(
        &self,
        first: &Results,
        second: Option<&Results>,
    ) -> (Vec<ZoneModel>, CheckResult) {
        let arm = self.drive.capacity;
        let zones = |results: &Results, first_lba: u64| -> Vec<ZoneModel> {
            let moved = |mut zone: ZoneModel| {
                zone.end_lba = Some(first_lba + zone.end_lba.unwrap_or(arm));
                zone.first_lba += first_lba;
                zone
            };
            results.layout.zones.iter().cloned().map(moved).collect()
        };
        let of_first = zones(first, 0);
        match second {
            None => (of_first, first.check.clone()),
            Some(second) => {
                ([of_first, zones(second, arm)].concat(), first.check.beside(&second.check, arm))
            }
        }
    }

    /// The profile of the drive. A second arm that was not checked is assumed to be like the first.
    fn profile(
        &self,
        first: &Results,
        second: Option<&Results>,
    ) -> Result<DriveProfile, ProfileError> {
        let of_arm =
            |results: &Results| results.model(self.settings.sector_bytes).profile(&self.drive);
        let mut profile = of_arm(first)?;
        if first.actuators.two {
            profile.capacity_sectors = Some(2 * self.drive.capacity);
            profile.geometry.actuators = Some(2);
            if let Some(second) = second.filter(|second| second.check.compared() > 0) {
                let DriveProfile { geometry, zones, seek, .. } = of_arm(second)?;
                profile.second_actuator = Some(Box::new(SecondActuator { geometry, zones, seek }));
            }
            profile.validate()?;
        }
        Ok(profile)
    }

    fn remapped(&self, first: &Results, second: Option<&Results>) -> Vec<RemappedSector> {
        let of_second = second.into_iter().flat_map(|second| &second.remaps.remapped);
        let moved = of_second.map(|remapped| RemappedSector {
            lba: self.drive.capacity + remapped.lba,
            ..*remapped
        });
        first.remaps.remapped.iter().copied().chain(moved).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_layout_has_the_time_that_the_later_stages_do_not_need() {
        let of_budget = |secs: u64| {
            let settings = ProbeSettings::for_drive(Sectors::new(1 << 30), SectorSize::B512, 1);
            Probe::new(ProbeSettings { budget: Nanos::from_secs(secs), ..settings })
        };
        let secs = |probe: &Probe, stage| probe.budget_of(stage).as_secs_f64();
        assert_eq!(secs(&of_budget(300), Stage::Layout), 168.0);
        let mut probe = of_budget(600);
        assert_eq!(secs(&probe, Stage::Layout), 468.0);
        // A layout that is found early leaves the later stages their usual shares.
        let stages = [Stage::Slips, Stage::Seek, Stage::SelfCheck, Stage::Remaps];
        probe.layout_time = Nanos::from_secs(100);
        for stage in stages {
            assert!((secs(&probe, stage) - 600.0 * stage.share()).abs() < 1e-6, "{stage:?}");
        }
        // One that takes all of its time leaves them what they have of five minutes.
        probe.layout_time = Nanos::from_secs(468);
        for stage in stages {
            let later = 300.0 * (stage.share() - Stage::Layout.share());
            assert!((secs(&probe, stage) - 468.0 - later).abs() < 1e-6, "{stage:?}");
        }
    }
}
