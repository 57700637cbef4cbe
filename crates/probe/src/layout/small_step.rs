//! A step between two tracks of equal length that no pattern explains, as between bands whose steps
//! differ little.

use super::border::{MIN_DEVIATION, middle_deviation};
use super::zone_model::{Pattern, ZoneModel};
use super::zone_start::out_of_reach;
use crate::numbers::median;
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The tracks before a deviating one among which a step is searched. A walk compares a track a few
/// before it too.
const STEP_WITHIN: u64 = 8;
/// The number of tracks after a deviating one that have to deviate alike.
const ALIKE: u64 = 3;

/// The first of some tracks that end where they should, but at angles that differ from those before
/// by an unknown step; none if the deviation has added up over many tracks. If times are noisy,
/// counts accept a small step, so that each track after it would be explained by itself.
pub(super) fn first_after_step(
    session: &mut Session,
    zone: &ZoneModel,
    bad: u64,
) -> Attempt<Option<u64>> {
    let from = bad.saturating_sub(STEP_WITHIN);
    // A known pattern has all of its steps; another deviation is an error of the fit.
    let is_plain = zone.pattern.unit >= Pattern::NEVER;
    if session.drive.noise_turns() < QUIET_TURNS || !is_plain || from <= zone.first_track() {
        return Ok(None);
    }
    let mut offs = Vec::new();
    for track in bad + 1..=bad + ALIKE {
        if out_of_reach(session, zone, track) {
            return Ok(None);
        }
        offs.push(middle_deviation(session, zone, track)?);
    }
    let step = median(&offs);
    if offs.iter().any(|off| off.abs() <= MIN_DEVIATION || (off - step).abs() > MIN_DEVIATION) {
        return Ok(None);
    }
    for track in from..=bad {
        if middle_deviation(session, zone, track)?.abs() > step.abs() / 2.0 {
            return Ok((track > from).then_some(track));
        }
    }
    Ok(Some(bad + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::{DriveProfile, NoiseLevel};
    use headtime_sim::DriveTruth;

    #[test]
    fn with_noise_a_small_step_between_bands_is_found_and_a_wrong_common_step_is_none() {
        let mut profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        for zone in &mut profile.zones {
            zone.track_skew = zone.cylinder_skew;
            let further = 0.04 * f64::from(zone.sectors_per_track);
            zone.band_skew = Some(zone.cylinder_skew + further.round());
        }
        for seed in 1..=8 {
            let noisy = NoiseLevel::Typical.apply(&profile);
            let mut bench = Bench::new(DriveTruth::draw(&noisy, seed).expect("a drive"));
            let mut zone = bench.results.layout.zones[1].clone();
            let change = zone.pattern.period();
            zone.pattern = Pattern::PLAIN;
            let found = |bench: &mut Bench, zone: &ZoneModel| {
                bench.run(seed, |session, _| first_after_step(session, zone, change + 2))
            };
            let first = found(&mut bench, &zone).map(|track| track.abs_diff(change));
            assert!(first.is_some_and(|off| off <= 1), "seed {seed}: {first:?} tracks off");
            // The error of the common step adds up to as much.
            zone.origin += 0.04;
            assert_eq!(found(&mut bench, &zone), None, "seed {seed}");
        }
    }
}
