//! The counts of skipped sectors at a deviating track and those after it.
//!
//! Tracks of another length let the counts rise by the same number with each track, so the count
//! after two others is expected, and two reads confirm it. A slip moves one of them, or all after
//! it, and a count may fail where a skew is small: what most of the counts say applies to the
//! others, too; if only two agree, the next tracks have to confirm it.
//!
//! Worked example, tracks shorter by 11: 11, 24, none, 44. The first and the last lie on 11, 22,
//! 33, 44, so the third is counted again, with 33 expected. If it is 33, three agree; if it fails
//! again, the next two tracks have to give 55 and 66. So the counts are 11, 22, 33, 44.

use super::border::count_expecting;
use super::zone_model::ZoneModel;
use crate::session::{Attempt, Session};

/// The number of tracks that are counted.
pub(super) const COUNTED: u64 = 4;
/// The counts that agree without a confirmation.
const AGREEING: usize = 3;
/// The smallest rise by which most counts correct others: neighboring tracks may have a slip each.
const CLEAR_RISE: i64 = 4;
/// A count before those that agree is theirs too if slips explain the difference.
const FEW_SLIPS: u64 = 2;

/// The sectors skipped before the ends of a track and of those after it, as far as they can be
/// counted.
pub(super) fn counts_from(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
) -> Attempt<Vec<Option<i64>>> {
    let mut found: Vec<Option<i64>> = Vec::new();
    for number in 0..COUNTED {
        let expected = match found[..] {
            [.., Some(one), Some(two)] => 2 * two - one,
            _ => 0,
        };
        found.push(count_expecting(session, zone, track + number, expected)?);
    }
    let Some(line) = Line::through(&found) else { return Ok(found) };
    // A count that failed is repeated.
    for (number, count) in found.iter_mut().enumerate().filter(|(_, count)| count.is_none()) {
        *count = count_expecting(session, zone, track + number as u64, line.at(number))?;
    }
    let line = Line::through(&found).unwrap_or(line);
    if line.score(&found).0 < AGREEING {
        for number in COUNTED..COUNTED + 2 {
            let expected = line.at(number as usize);
            if count_expecting(session, zone, track + number, expected)? != Some(expected) {
                return Ok(found);
            }
        }
    }
    line.correct(&mut found);
    Ok(found)
}

/// True if counts that rise by little continue to rise: neighboring tracks may have a slip each.
pub(super) fn keeps_rising(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    counted: i64,
    rise: i64,
) -> Attempt<bool> {
    if rise.abs() > 3 {
        return Ok(true);
    }
    const FURTHER: i64 = 8;
    let expected = counted + FURTHER * rise;
    let extra = count_expecting(session, zone, track + FURTHER.unsigned_abs(), expected)?;
    Ok(extra.is_some_and(|extra| (extra - expected).abs() <= 2))
}

/// Counts that rise by the same number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    first: i64,
    rise: i64,
}

impl Line {
    /// The line on which most counts lie, of several the one near most, then the one through the
    /// later ones; none if no two rise clearly.
    fn through(found: &[Option<i64>]) -> Option<Self> {
        let mut best: Option<Self> = None;
        for (later, two) in found.iter().enumerate() {
            for (earlier, one) in found.iter().enumerate().take(later) {
                let (Some(one), Some(two)) = (one, two) else { continue };
                let apart = (later - earlier) as i64;
                let rise = (two - one) / apart;
                let line = Self { first: one - rise * earlier as i64, rise };
                if rise.abs() >= CLEAR_RISE
                    && rise * apart == two - one
                    && best.is_none_or(|best| line.score(found) >= best.score(found))
                {
                    best = Some(line);
                }
            }
        }
        best
    }

    fn at(self, number: usize) -> i64 {
        self.first + self.rise * number as i64
    }

    /// The distance of a count from the line.
    fn off(self, number: usize, count: Option<i64>) -> Option<u64> {
        count.map(|count| count.abs_diff(self.at(number)))
    }

    /// The number of counts on the line, and that of those that slips may have moved from it.
    fn score(self, found: &[Option<i64>]) -> (usize, usize) {
        let off: Vec<u64> =
            (0..).zip(found).filter_map(|(number, count)| self.off(number, *count)).collect();
        let within = |max: u64| off.iter().filter(|off| **off <= max).count();
        (within(0), within(FEW_SLIPS))
    }

    /// Gives the counts from the first on the line their places on it, and those before it if slips
    /// explain the difference.
    fn correct(self, found: &mut [Option<i64>]) {
        let mut is_on = false;
        for (number, count) in found.iter_mut().enumerate() {
            let off = self.off(number, *count);
            is_on |= off == Some(0);
            if is_on || off.is_some_and(|off| off <= FEW_SLIPS) {
                *count = Some(self.at(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use crate::layout::explain::explain;
    use headtime_mechanics::{DriveProfile, NoiseLevel};
    use headtime_sim::DriveTruth;
    use headtime_units::Nanos;

    #[test]
    fn with_noise_the_end_of_a_zone_is_found_although_cylinders_begin_after_a_small_step() {
        let mut profile = DriveProfile { cache: None, ..plain("deskstar34gxp") };
        for (number, zone) in (0..).zip(&mut profile.zones) {
            zone.sectors_per_track = 2_400 - 20 * number;
            let sectors = f64::from(zone.sectors_per_track);
            (zone.track_skew, zone.cylinder_skew) =
                ((0.12 * sectors).round(), (0.04 * sectors).round());
        }
        let (mut wrong, mut ends, mut time) = (Vec::new(), 0_u32, Nanos::ZERO);
        for seed in 1..=40 {
            let noisy = NoiseLevel::Typical.apply(&profile);
            let mut bench = Bench::new(DriveTruth::draw(&noisy, seed).expect("a drive"));
            let zones = bench.results.layout.zones.clone();
            for (number, mut zone) in zones.iter().cloned().enumerate().take(zones.len() - 1) {
                let end = zone.end_lba.take().expect("an end");
                let bad = zone.track_of(end);
                zone.note_counted(zone.track_start(bad - 8));
                let began = bench.drive.now;
                let found = bench.run(seed, |session, results| {
                    let mut zone = zone.clone();
                    explain(session, &mut results.layout, &mut zone, bad)?;
                    Ok(zone.end_lba)
                });
                ends += 1;
                time += bench.drive.now.saturating_since(began);
                if found != Some(end) {
                    wrong.push((seed, number, found, end));
                }
            }
        }
        assert!(200 * wrong.len() <= ends as usize, "{} of {ends} ends: {wrong:?}", wrong.len());
        let each = time / u64::from(ends);
        assert!(each < Nanos::from_ms(330), "{each} for each end");
    }

    #[test]
    fn counts_off_a_common_line_are_corrected() {
        let corrected = |counts: [Option<i64>; 4]| {
            let mut found = counts.to_vec();
            if let Some(line) = Line::through(&found) {
                line.correct(&mut found);
            }
            found.into_iter().map(|count| count.unwrap_or(-1)).collect::<Vec<_>>()
        };
        assert_eq!(corrected([Some(11), Some(24), None, Some(44)]), [11, 22, 33, 44]);
        assert_eq!(corrected([Some(12), Some(23), Some(33), Some(44)]), [11, 22, 33, 44]);
        // The first is the last track of the zone, and has its spares.
        assert_eq!(corrected([None, Some(42), Some(61), Some(80)]), [-1, 42, 61, 80]);
        assert_eq!(corrected([Some(30), Some(42), Some(61), Some(80)]), [30, 42, 61, 80]);
        // Slips of neighboring tracks are no shorter tracks.
        assert_eq!(corrected([Some(1), Some(2), Some(3), Some(4)]), [1, 2, 3, 4]);
        assert_eq!(corrected([Some(40), Some(40), None, Some(40)]), [40, 40, -1, 40]);
    }
}
