//! Remapped sectors: suspect reads of the self-check are read again.
//!
//! A read that is late repeatedly, for no reason in the layout, passes over a sector that is stored
//! elsewhere. Its sectors are then read one by one: those whose angle differs from their neighbors'
//! are the remapped ones. If most sectors of a read deviate, the layout is wrong there, and no
//! remaps are reported.
//!
//! This finds what the self-check happened to read, which is a small sample of the drive:
//! [`coverage`] gives its share. Bounds: [`MAX_READS`] reads. Cost: some tens of reads for each.

use headtime_units::Extent;
use serde::{Deserialize, Serialize};

use crate::finding::{RemappedSector, SelfCheck};
use crate::numbers::{median, wrap};
use crate::predict::Predicted;
use crate::profile::DriveModel;
use crate::results::Progress;
use crate::selfcheck::{CheckResult, FAR_TURNS};
use crate::session::{Attempt, Session};

/// The most suspect reads that are examined.
const MAX_READS: usize = 60;
/// If a larger share of the self-check deviates far, the layout is to blame.
const MAX_SHARE: f64 = 0.05;
/// The number of readings that have to agree.
const READINGS: usize = 3;

/// The result of looking for remapped sectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemapResult {
    /// The number of reads examined.
    examined: usize,
    pub(crate) remapped: Vec<RemappedSector>,
}

/// Reads one more suspect read of the self-check again.
pub(crate) fn extend(
    session: &mut Session,
    model: &DriveModel<'_>,
    check: &CheckResult,
    found: &mut RemapResult,
) -> Attempt<Progress> {
    if check.far.len() as f64 > MAX_SHARE * check.compared().max(1) as f64 {
        let (far, all) = (check.far.len(), check.compared());
        session.remark(format!(
            "remapped sectors: {far} of {all} reads came far from the prediction, too many to \
                search for single sectors"
        ));
        return Ok(Progress::Done);
    }
    let next = check.far.get(found.examined).filter(|_| found.examined < MAX_READS);
    let Some((lba, sectors)) = next.copied() else { return Ok(Progress::Done) };
    found.examined += 1;
    let mut predicted = Predicted::new(model, &session.drive)?;
    if is_far_again(session, &mut predicted, Extent::from_numbers(lba, sectors))? {
        let off = deviating_sectors(session, &mut predicted, lba, sectors)?;
        if (off.len() as u64) < sectors.div_ceil(2) {
            for remapped in off {
                if !found.remapped.iter().any(|known| known.lba == remapped.lba) {
                    found.remapped.push(remapped);
                }
            }
        }
    }
    Ok(Progress::More)
}

/// The share of the drive's sectors that the self-check read.
pub(crate) fn coverage(check: &SelfCheck, capacity: u64, sector_bytes: u32) -> f64 {
    (check.short.reads * u64::from(4_096 / sector_bytes).max(1)
        + check.long.reads * u64::from(40_960 / sector_bytes).max(1)) as f64
        / capacity.max(1) as f64
}

/// True if a read is far from the prediction each time.
fn is_far_again(session: &mut Session, predicted: &mut Predicted, extent: Extent) -> Attempt<bool> {
    for _ in 0..READINGS {
        match late_turns(session, predicted, extent)? {
            Some((late, _)) if late.abs() > FAR_TURNS => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The delay of a read after a random one, in revolutions, and the deviation of its angle; none if
/// it failed or was a hit.
fn late_turns(
    session: &mut Session,
    predicted: &mut Predicted,
    extent: Extent,
) -> Attempt<Option<(f64, f64)>> {
    session.keep_clock()?;
    let before = session.random.below(session.drive.capacity);
    let before = session.read_followed(before, 1)?;
    let command = session.read(extent, headtime_units::Instant::ORIGIN)?;
    if !command.follows_undisturbed()
        || !before.succeeded()
        || session.may_be_hit(&command)
        || session.may_be_hit(&before)
    {
        return Ok(None);
    }
    predicted.follow(&session.drive.clock, before.completed);
    let completion = predicted.completion(
        predicted.head_after(before.extent),
        command.issued + predicted.overhead(),
        extent,
    );
    let turns = command.completed.signed_since(completion) as f64 / session.drive.clock.period_ns();
    Ok(Some((turns, wrap(turns))))
}

/// The sectors of a read whose angles deviate.
fn deviating_sectors(
    session: &mut Session,
    predicted: &mut Predicted,
    lba: u64,
    sectors: u64,
) -> Attempt<Vec<RemappedSector>> {
    let noise = 8.0 * session.drive.noise_turns();
    let mut found = Vec::new();
    for lba in lba..lba + sectors {
        let (mut late, mut off) = (Vec::new(), 0);
        for _ in 0..READINGS {
            let Some((turns, part)) = late_turns(session, predicted, Extent::from_numbers(lba, 1))?
            else {
                continue;
            };
            if part.abs() <= noise.max(FAR_TURNS / 4.0) {
                // The angle fits those of its neighbors: the sector is in place.
                break;
            }
            late.push(turns * session.drive.clock.period_ns() / 1e3);
            off += 1;
        }
        if off == READINGS {
            found.push(RemappedSector { lba, late_us: median(&late) });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use crate::selfcheck;
    use headtime_mechanics::{DriveProfile, Layout};
    use headtime_sim::DriveTruth;
    use headtime_units::Lba;

    /// A small drive on which about every thousandth sector is remapped.
    fn remapped() -> DriveProfile {
        let mut profile = DriveProfile { cache: None, ..plain("barracuda7200-7") };
        profile.zones.truncate(1);
        profile.zones[0].cylinders = 150;
        profile.zones[0].spares = 600;
        let mapped = profile.zones[0].mapped_sectors(profile.geometry.heads);
        profile.zones[0].remaps =
            (0..400).map(|number| (number * (mapped / 400) + 17, mapped + number)).collect();
        profile
    }

    fn check(bench: &mut Bench, seed: u64) {
        while bench.run(seed, |session, results| {
            let mut check = core::mem::take(&mut results.check);
            let progress = selfcheck::extend(session, &results.model(512), &mut check)?;
            results.check = check;
            Ok(progress)
        }) == Progress::More
        {}
    }

    fn remapped_sectors(bench: &mut Bench, seed: u64) -> Vec<RemappedSector> {
        while bench.run(seed, |session, results| {
            let mut remaps = core::mem::take(&mut results.remaps);
            let model = results.model(512);
            let progress = extend(session, &model, &results.check, &mut remaps)?;
            results.remaps = remaps;
            Ok(progress)
        }) == Progress::More
        {}
        bench.results.remaps.remapped.clone()
    }

    #[test]
    fn sectors_that_live_elsewhere_are_found_among_those_that_were_read_and_no_others() {
        for seed in [1, 2] {
            let profile = remapped();
            let layout = Layout::new(&profile).unwrap();
            let mut bench = Bench::new(DriveTruth::draw(&profile, seed).unwrap());
            check(&mut bench, seed);
            let found = remapped_sectors(&mut bench, seed);
            assert!(found.len() > 10, "seed {seed}: {found:?}");
            for remapped in &found {
                let home = layout.lba_to_physical(Lba::new(remapped.lba));
                let neighbor = layout.lba_to_physical(Lba::new(remapped.lba - 1));
                assert!(
                    home.track() != neighbor.track(),
                    "seed {seed}: {remapped:?} lies beside its neighbor, at {home:?}"
                );
            }
        }
    }

    #[test]
    fn a_drive_without_any_has_none() {
        let profile = DriveProfile {
            zones: vec![headtime_mechanics::profile::Zone {
                remaps: Vec::new(),
                ..remapped().zones[0].clone()
            }],
            ..remapped()
        };
        let mut bench = Bench::new(DriveTruth::draw(&profile, 3).unwrap());
        check(&mut bench, 3);
        let check = bench.results.check.check();
        assert!(
            check.short.reads >= 2_000 && check.long.reads >= 300 && check.within_150_us > 0.9,
            "{check:?}"
        );
        assert!(check.short.histogram.iter().sum::<u64>() == check.short.reads);
        assert_eq!(remapped_sectors(&mut bench, 3), []);
    }
}
