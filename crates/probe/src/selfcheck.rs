//! The self-check: fresh reads, predicted by the profile.
//!
//! Each read starts at a random place when the one before has completed. The mechanism of the
//! profile, set to the clock's phase, predicts its completion. The differences are what a scheduler
//! with this profile would see. There are [`READS`] reads of 4 KiB, then [`LONG_READS`] of 40 KiB,
//! which cross tracks and meet skews and the bus. Reads that may be cache hits are counted
//! separately, and those after them are left out, as the head may be anywhere.
//!
//! If times are noisy, the zones are set by other reads first ([`calibrate`]). Zones
//! were measured when the clock had fewer readings, and one after the other, so that the load of
//! the host at that time is in their angles.
//!
//! Reads far from their predictions are kept for `remaps`.

use headtime_mechanics::profile::ZoneAccuracy;
use headtime_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::finding::{Deviation, PredictionErrors, SelfCheck};
use crate::layout::{LayoutResult, ZoneModel};
use crate::numbers::{part, trimmed_mean, wrap};
use crate::predict::Predicted;
use crate::profile::DriveModel;
use crate::results::Progress;
use crate::session::{AngleSample, Attempt, DriveTiming, QUIET_TURNS, Session};

/// The reads of one step.
const STEP: usize = 100;
/// The number of reads of 4 KiB, and of 40 KiB.
pub(crate) const READS: usize = 2_000;
pub(crate) const LONG_READS: usize = 300;
const SHORT_BYTES: u32 = 4 << 10;
const LONG_BYTES: u32 = 40 << 10;
/// The number of single sectors that set all zones; with a deviation of 40 us, an error of 2 us is
/// left.
const SETTING_READS: u64 = 400;
/// The number of them for each zone, and the most of all.
const ZONE_READS: u64 = 40;
const MAX_SETTING_READS: u64 = 1_000;
/// The number of readings in a row that have the same delay of the host, about a third of a second
/// (guess), and how often delays and zones are told apart.
const IN_A_ROW: usize = 25;
const SEPARATIONS: usize = 8;
/// The fewest readings that move a zone, and the number of standard errors that it must be off.
const MIN_ZONE_READS: usize = 8;
const SURE: f64 = 2.5;
/// The longest pause from one read to the next; after a longer one the host was busy with something
/// else.
const PAUSE: Nanos = Nanos::from_us(500);
/// The smallest deviation that is far from the prediction, in revolutions.
pub(crate) const FAR_TURNS: f64 = 0.08;

/// The differences so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckResult {
    /// The first sectors of 4 KiB reads, and completion less prediction, us.
    errors: Vec<(u64, f64)>,
    /// Readings that set the zones: the zone and the delay in revolutions of each, the number
    /// tried, and the end of it.
    late: Vec<(usize, f64)>,
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
        let errors_us: Vec<f64> = self.errors.iter().map(|(_, error_us)| *error_us).collect();
        let short = PredictionErrors::of(&errors_us);
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

    /// True if the zones were set by reads before the check.
    pub(crate) fn is_calibrated(&self) -> bool {
        self.is_set
    }

    /// The check by zone of the layout; zones without a read are left out.
    pub(crate) fn by_zone(&self, zones: &[ZoneModel]) -> Vec<ZoneAccuracy> {
        let of = |zone: &ZoneModel| {
            let end = zone.end_lba.unwrap_or(u64::MAX);
            let within = self.errors.iter().filter(|(lba, _)| (zone.first_lba..end).contains(lba));
            let errors_us: Vec<f64> = within.map(|(_, error_us)| *error_us).collect();
            let PredictionErrors { reads, within_50_us, within_150_us, .. } =
                PredictionErrors::of(&errors_us);
            ZoneAccuracy { first_lba: zone.first_lba, reads, within_50_us, within_150_us }
        };
        zones.iter().map(of).filter(|zone| zone.reads > 0).collect()
    }

    /// The reasons why reads of 4 KiB are not within 50 us of their predictions, the most frequent
    /// one first.
    pub(crate) fn deviations(&self, zones: &[ZoneModel], drive: &DriveTiming) -> Vec<Deviation> {
        let turn_us = drive.clock.period_ns() / 1e3;
        let mut counts = [0_u64; 4];
        for (lba, error_us) in self.errors.iter().filter(|(_, error_us)| error_us.abs() > 50.0) {
            let zone = zones.iter().rfind(|zone| zone.first_lba <= *lba);
            let place = if zone.is_none_or(|zone| zone.unknown) {
                0
            } else if wrap(error_us / turn_us).abs() > FAR_TURNS {
                1
            } else if error_us.abs() > turn_us / 2.0 {
                2
            } else {
                3
            };
            counts[place] += 1;
        }
        let scatter = format!(
            "scatter of completions, track angles and arm times (that of a completion: {:.0} us)",
            drive.clock.deviation_ns() / 1e3
        );
        let reasons = [
            "no known pattern of tracks",
            "sectors that are not where the layout says: slipped or remapped ones, or wrong skews",
            "a revolution early or late: arm times, or the drive read again",
            scatter.as_str(),
        ];
        let all = self.errors.len().max(1) as f64;
        let mut found: Vec<Deviation> = reasons
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| Deviation { reason: reason.into(), share: count as f64 / all })
            .collect();
        found.sort_by(|one, two| two.share.total_cmp(&one.share));
        found
    }

    /// This check, and another one of the sectors from `first_lba` on.
    pub(crate) fn beside(&self, other: &Self, first_lba: u64) -> Self {
        let mut both = self.clone();
        both.errors.extend(other.errors.iter().map(|(lba, error)| (first_lba + lba, *error)));
        both.far.extend(other.far.iter().map(|(lba, sectors)| (first_lba + lba, *sectors)));
        both.long_errors_us.extend(&other.long_errors_us);
        both.hits += other.hits;
        both.failed += other.failed;
        both.missed += other.missed;
        both
    }

    /// The number of reads that were compared.
    pub(crate) fn compared(&self) -> usize {
        self.errors.len() + self.long_errors_us.len()
    }
}

/// Reads some more random sectors. After enough of them, moves all zones so that they are on time
/// in the mean, and each zone whose sectors are early or late beside the others.
///
/// A zone is measured within some seconds, in which a busy host may see all completions late: its
/// angles are then off by as much. These reads go to all zones in turn, so that a busy host delays
/// those of all zones alike.
pub(crate) fn calibrate(
    session: &mut Session,
    layout: &mut LayoutResult,
    found: &mut CheckResult,
) -> Attempt<()> {
    if session.drive.noise_turns() < QUIET_TURNS {
        found.is_set = true;
        return Ok(());
    }
    let zones = &mut layout.zones;
    for _ in 0..STEP {
        let lba = session.random.below(session.drive.capacity);
        let Some(zone) = zones.iter().rposition(|zone| zone.first_lba <= lba) else { continue };
        if let Some(seen) = session.try_angle(lba)? {
            found.late.push((zone, wrap(seen.turns - zones[zone].angle(lba))));
        }
        found.tried += 1;
    }
    if found.tried < SETTING_READS.max(ZONE_READS * zones.len() as u64).min(MAX_SETTING_READS) {
        return Ok(());
    }
    let all: Vec<f64> = found.late.iter().map(|(_, late)| *late).collect();
    let (late, error) = trimmed_mean(&all);
    if error.is_some_and(|error| late.abs() > error && late.abs() < FAR_TURNS / 4.0) {
        zones.iter_mut().for_each(|zone| zone.origin = part(zone.origin + late));
    }
    move_zones(zones, &found.late);
    (found.is_set, found.late) = (true, Vec::new());
    Ok(())
}

/// Moves zones that are early or late beside the others. The delay of the host changes with time,
/// so each reading counts less the delay of those around it: the mean of some readings in a row,
/// which is computed without the deviations of their zones, and these without the delays, in turns.
fn move_zones(zones: &mut [ZoneModel], late: &[(usize, f64)]) {
    let mut around = vec![0.0; late.len().div_ceil(IN_A_ROW)];
    let mut moved = vec![(0.0, None, 0); zones.len()];
    for _ in 0..SEPARATIONS {
        for (delay, row) in around.iter_mut().zip(late.chunks(IN_A_ROW)) {
            let off: Vec<f64> = row.iter().map(|(zone, late)| late - moved[*zone].0).collect();
            *delay = trimmed_mean(&off).0;
        }
        for (number, moved) in moved.iter_mut().enumerate() {
            let here = late.iter().enumerate().filter(|(_, (zone, _))| *zone == number);
            let off: Vec<f64> =
                here.map(|(place, (_, late))| late - around[place / IN_A_ROW]).collect();
            let (mean, error) = trimmed_mean(&off);
            *moved = (mean, error, off.len());
        }
    }
    for (zone, (off, error, readings)) in zones.iter_mut().zip(moved) {
        let is_sure = error.is_some_and(|error| off.abs() > SURE * error);
        if !zone.unknown && readings >= MIN_ZONE_READS && is_sure && off.abs() < FAR_TURNS {
            zone.origin = part(zone.origin + off);
        }
    }
}

/// Makes some more reads.
pub(crate) fn extend(
    session: &mut Session,
    model: &DriveModel<'_>,
    found: &mut CheckResult,
) -> Attempt<Progress> {
    let long = found.errors.len() >= READS;
    let bytes = if long { LONG_BYTES } else { SHORT_BYTES };
    let sectors = u64::from(bytes / model.sector_bytes).max(1).min(session.drive.capacity);
    let mut seen: Vec<(AngleSample, bool)> = Vec::new();
    for number in 0..STEP {
        // Nothing comes between two reads that belong together.
        if number % 2 == 0 || !session.drive.is_shared() {
            session.keep_clock()?;
        }
        let lba = session.random.below(session.drive.capacity - sectors + 1);
        // Beside clients, every other one is compared for certain.
        let command = if number % 2 == 0 {
            session.read_followed(lba, sectors)?
        } else {
            session.read_at_once(lba, sectors)?
        };
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
        if *hit
            || *before_hit
            || now.command.others > 0
            || issued.saturating_since(before.command.completed) > PAUSE
        {
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
            found.errors.push((now.command.extent.start.get(), error_us));
        }
    }
    let done = long && found.long_errors_us.len() >= LONG_READS;
    Ok(Progress::from(done))
}
