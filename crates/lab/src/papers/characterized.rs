//! [`Characterized`]: what is known of a unit by characterizing it from outside, and by nothing
//! else.
//!
//! A probe reads a simulated unit in virtual time, as `headtime characterize` reads a drive, and
//! what it finds is the profile that a belief starts from. The model that the unit was drawn from
//! goes into the simulated drive alone. The same unit is characterized once in a run of the
//! program, however many experiments ask for it: what is found follows from model, kind of unit and
//! seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use headtime_belief::DriveModel;
use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_probe::{
    CommandBatch, CommandKind, CommandOutcome, Probe, ProbeSettings, SelfCheck, TimedCommand,
};
use headtime_sched::{Command, CommandId, Op};
use headtime_sim::{Device as _, Instance, SimulatedDrive};
use headtime_units::{Instant, Nanos};

use crate::papers::load::UnitOf;
use crate::papers::{Cause, PointOfWork};

/// The findings of a probe on one instance.
#[derive(Clone, Debug)]
pub(crate) struct Characterized {
    /// The drive as found.
    pub profile: DriveProfile,
    /// Its prediction errors on reads that it was not made from.
    pub check: SelfCheck,
    /// Time for which the drive was at work for it.
    pub drive_time: Nanos,
}

/// An instance to characterize: a point of work before the points that need its result.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    /// The profile of its model.
    pub drive: &'static str,
    /// The number of the instance.
    pub unit: UnitOf,
}

/// The time from a completion to the next read at the drive, for a fast host (guess).
const HOST: Nanos = Nanos::from_us(1);
/// The difference between the seeds of the probe's choices and of the instance, an arbitrary
/// number.
const OWN_CHOICES: u64 = 0x9E37_79B9_7F4A_7C15;

type Key = (String, UnitOf, u64);
/// The findings of this run of the program.
static FOUND: Mutex<BTreeMap<Key, Arc<Characterized>>> = Mutex::new(BTreeMap::new());

impl Characterized {
    /// A belief that starts from what was found.
    pub(crate) fn belief(&self) -> Result<DriveModel, ProfileError> {
        DriveModel::of_profile(&self.profile)
    }

    /// The self-check in a sentence, for notes.
    pub(crate) fn words(&self) -> String {
        let SelfCheck { reads, within_50_us, within_150_us, turn_missed, .. } = self.check;
        format!(
            "{reads} fresh random 4 KiB reads were predicted {:.2} % within 50 us, {:.2} % within \
                150 us, {:.2} % wrong by a turn; it took {:.0} s of drive time",
            within_50_us * 100.0,
            within_150_us * 100.0,
            turn_missed * 100.0,
            self.drive_time.as_secs_f64()
        )
    }
}

impl PointOfWork for Unknown {
    type Outcome = Arc<Characterized>;

    fn label(&self) -> String {
        format!("characterizing {} ({})", self.drive, self.unit.words())
    }

    /// About as many reads as it takes.
    fn work(&self) -> u64 {
        25_000
    }

    fn run(&self, seed: u64) -> Result<Arc<Characterized>, Cause> {
        let key = (self.drive.to_string(), self.unit, seed);
        let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found().get(&key) {
            return Ok(Arc::clone(known));
        }
        let mut model = headtime_mechanics::catalog::load(self.drive)?;
        let unit = self.unit.prepare(&mut model);
        let known = characterize(&model, unit, seed)?;
        Ok(Arc::clone(found().entry(key).or_insert(Arc::new(known))))
    }
}

/// Characterizes one instance of a model: the one that an [`Experiment`](headtime_sim::Experiment)
/// with this model, instance and seed runs on.
fn characterize(model: &DriveProfile, unit: Instance, seed: u64) -> Result<Characterized, Cause> {
    let mut drive = SimulatedDrive::new(unit.of(model, seed)?)?;
    // Rewriting sectors with their own content is allowed, as in the paper's extraction: without it
    // the settle time of writes is unknown.
    let settings = ProbeSettings {
        allow_writes: true,
        ..ProbeSettings::for_drive(model.capacity(), model.sector_size()?, seed ^ OWN_CHOICES)
    };
    let (mut probe, mut now, mut commands) = (Probe::new(settings), Instant::ORIGIN, 0);
    while let Some(batch) = probe.next_batch() {
        probe.batch_completed(carry_out(batch, &mut drive, &mut now, &mut commands));
    }
    let finding = probe.finding();
    match (finding.profile, finding.check) {
        (Some(profile), Some(check)) => {
            Ok(Characterized { profile, check, drive_time: finding.drive_time })
        }
        _ => Err(Cause::NotUnderstood { remarks: finding.remarks.join("; ") }),
    }
}

/// Does at the drive what the probe asks for.
fn carry_out(
    mut batch: CommandBatch,
    drive: &mut SimulatedDrive,
    now: &mut Instant,
    commands: &mut u64,
) -> Vec<TimedCommand> {
    let (mut under_way, mut completions) = (BTreeMap::new(), Vec::new());
    loop {
        let host = (*now + HOST).max(batch.not_before());
        while drive.held() < drive.queue_depth()
            && let Some(issue) = batch.next(host)
        {
            let (op, fua) = match issue.kind {
                CommandKind::Read | CommandKind::ReadAndKeep => (Op::Read, false),
                CommandKind::WriteBack { fua } => (Op::Write, fua),
            };
            let id = CommandId(*commands);
            *commands += 1;
            drive.submit(
                host,
                &Command {
                    id,
                    op,
                    extent: issue.extent,
                    fua,
                    background: None,
                    requests: Default::default(),
                },
            );
            under_way.insert(id, issue.id);
            *now = host;
        }
        if batch.is_over() {
            return batch.into_results();
        }
        while completions.is_empty() {
            let at = drive.next_event().expect("a command is under way");
            drive.advance(at, &mut completions);
            *now = at.max(*now);
        }
        for completion in completions.drain(..) {
            let issue =
                under_way.remove(&completion.command).expect("only what was sent completes");
            batch.completed(issue, completion.finished, CommandOutcome::Done);
        }
    }
}
