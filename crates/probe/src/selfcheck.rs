//! The self-check: fresh reads, predicted by the profile.
//!
//! Each read starts at a random place when the one before has completed. The mechanism of the
//! profile, set to the clock's phase, predicts its completion. The differences are what a scheduler
//! with this profile would see. There are [`READS`] reads of 4 KiB, then [`LONG_READS`] of 40 KiB,
//! which cross tracks and meet skews and the bus. Reads that may be cache hits are counted
//! separately, and those after them are left out, as the head may be anywhere.
//!
//! If times are noisy, the clock is set by other reads first. Zones were measured when it had fewer
//! readings, so it may be off by some microseconds for all of them. A scheduler corrects its phase
//! at each completion and never sees that.
//!
//! Reads far from their predictions are kept for `remaps`.

use headtime_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::finding::{PredictionErrors, SelfCheck};
use crate::layout::ZoneModel;
use crate::numbers::{part, trimmed_mean, wrap};
use crate::predict::Predicted;
use crate::profile::DriveModel;
use crate::results::Progress;
use crate::session::{AngleSample, Attempt, QUIET_TURNS, Session};

/// The reads of one step.
const STEP: usize = 100;
/// The number of reads of 4 KiB, and of 40 KiB.
pub(crate) const READS: usize = 2_000;
pub(crate) const LONG_READS: usize = 300;
const SHORT_BYTES: u32 = 4 << 10;
const LONG_BYTES: u32 = 40 << 10;
/// The number of single sectors that set the clock; with a deviation of 40 us, an error of 2 us is
/// left.
const SETTING_READS: u64 = 400;
/// The longest pause from one read to the next; after a longer one the host was busy with something
/// else.
const PAUSE: Nanos = Nanos::from_us(500);
/// The smallest deviation that is far from the prediction, in revolutions.
pub(crate) const FAR_TURNS: f64 = 0.08;

/// The differences so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckResult {
    /// Completion less prediction, us, of 4 KiB reads.
    errors_us: Vec<f64>,
    /// Readings that set the clock: their delays in revolutions, the number tried, and the end of
    /// it.
    late: Vec<f64>,
    tried: u64,
    is_set: bool,
    /// The same of 40 KiB reads.
    long_errors_us: Vec<f64>,
    hits: u64,
    failed: u64,
    /// The number of 4 KiB reads half a revolution or more away.
    missed: u64,
    /// The first sector and the number of sectors of reads far from their predictions.
    pub(crate) far: Vec<(u64, u64)>,
}

impl CheckResult {
    pub(crate) fn check(&self) -> SelfCheck {
        let short = PredictionErrors::of(&self.errors_us);
        SelfCheck {
            reads: short.reads,
            hits: self.hits,
            failed: self.failed,
            within_50_us: short.within_50_us,
            within_150_us: short.within_150_us,
            turn_missed: self.missed as f64 / short.reads.max(1) as f64,
            median_error_us: short.median_size_us,
            short,
            long: PredictionErrors::of(&self.long_errors_us),
        }
    }

    /// The number of reads that were compared.
    pub(crate) fn compared(&self) -> usize {
        self.errors_us.len() + self.long_errors_us.len()
    }
}

/// Reads some more random sectors. After enough of them, sets the clock so that they are on time in
/// the mean.
fn set_clock(session: &mut Session, zones: &[ZoneModel], found: &mut CheckResult) -> Attempt<()> {
    if session.drive.noise_turns() < QUIET_TURNS {
        found.is_set = true;
        return Ok(());
    }
    for _ in 0..STEP {
        let lba = session.random.below(session.drive.capacity);
        let Some(predicted) =
            zones.iter().rfind(|zone| zone.first_lba <= lba).map(|zone| zone.angle(lba))
        else {
            continue;
        };
        if let Some(seen) = session.try_angle(lba)? {
            found.late.push(wrap(seen.turns - predicted));
        }
        found.tried += 1;
    }
    if found.tried >= SETTING_READS {
        let (late, error) = trimmed_mean(&found.late);
        if error.is_some_and(|error| late.abs() > error && late.abs() < FAR_TURNS / 4.0) {
            session.drive.clock.set_back(late);
            session
                .drive
                .references
                .iter_mut()
                .for_each(|reference| reference.turns = part(reference.turns - late));
        }
        (found.is_set, found.late) = (true, Vec::new());
    }
    Ok(())
}

/// Makes some more reads.
pub(crate) fn extend(
    session: &mut Session,
    model: &DriveModel<'_>,
    found: &mut CheckResult,
) -> Attempt<Progress> {
    if !found.is_set {
        set_clock(session, &model.layout.zones, found)?;
        return Ok(Progress::More);
    }
    let long = found.errors_us.len() >= READS;
    let bytes = if long { LONG_BYTES } else { SHORT_BYTES };
    let sectors = u64::from(bytes / model.sector_bytes).max(1).min(session.drive.capacity);
    let mut seen: Vec<(AngleSample, bool)> = Vec::new();
    for _ in 0..STEP {
        session.keep_clock()?;
        let lba = session.random.below(session.drive.capacity - sectors + 1);
        let command = session.read_at_once(lba, sectors)?;
        found.failed += u64::from(!command.succeeded());
        let hit = session.may_be_hit(&command);
        found.hits += u64::from(hit && command.succeeded());
        seen.push((session.sample(command), hit || !command.succeeded()));
    }
    let mut predicted = Predicted::new(model, &session.drive)?;
    let turn_us = session.drive.clock.period_ns() / 1e3;
    for pair in seen.windows(2) {
        let [(before, before_hit), (now, hit)] = pair else { continue };
        let issued = now.command.issued;
        if *hit || *before_hit || issued.saturating_since(before.command.completed) > PAUSE {
            continue;
        }
        predicted.turn_to(before.turns, before.command.completed);
        let from = predicted.head_after(before.command.extent);
        let completion =
            predicted.completion(from, issued + predicted.overhead(), now.command.extent);
        let error_us = now.command.completed.signed_since(completion) as f64 / 1e3;
        if error_us.abs() > FAR_TURNS * turn_us {
            found.far.push((now.command.extent.start.get(), sectors));
        }
        if long {
            found.long_errors_us.push(error_us);
        } else {
            found.missed += u64::from(error_us.abs() > turn_us / 2.0);
            found.errors_us.push(error_us);
        }
    }
    let done = long && found.long_errors_us.len() >= LONG_READS;
    Ok(Progress::from(done))
}
