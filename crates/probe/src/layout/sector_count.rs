//! The sectors per track of a zone that continues a known pattern, without reading any track twice.
//!
//! Some sectors along the first track give an approximate number. Then one read at the end of each
//! following track halves the uncertainty. The sector that would end the `n`-th track with `s`
//! sectors on each lies on that track if there are at least `s`, and on the next one, a skew
//! further, otherwise. The uncertainty of `s` adds up over `n` tracks, but is halved each time.
//!
//! Worked example: the first track gives 420 ± 6. Its 420th sector is on it: 420 to 426. The sector
//! that would end track 2 with 424 on each lies on track 3: 420 to 423. Track 3, 422: on it. Track
//! 4, 423: on it. There are 423.

use super::zone_model::Pattern;
use crate::numbers::{median, part, wrap};
use crate::session::{Attempt, Session};

/// The number of sectors read along the first track.
const SAMPLES: u64 = 9;
/// The track at which the result is verified, and those before at which the steps are corrected.
const TRIED_AT: u64 = 16;
const LEARNED_AT: [u64; 3] = [5, 8, 12];

/// The sectors per track from `lba` on, where a track begins; none if the pattern is another one or
/// sectors are skipped nearby.
pub(crate) fn count_sectors_per_track(
    session: &mut Session,
    lba: u64,
    about: f64,
    pattern: Pattern,
    steps: [f64; 3],
) -> Attempt<Option<u64>> {
    let turns_to = |track: u64| {
        pattern
            .steps_to(track, None)
            .iter()
            .zip(steps)
            .map(|(count, step)| part(*count as f64 * step))
            .sum::<f64>()
    };
    let about = about.clamp(1.0, 1e6);
    let gap = ((about / 11.0) as u64).max(1);
    if lba + (TRIED_AT + 2) * (about as u64 + gap) >= session.drive.capacity {
        return Ok(None);
    }
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for number in 0..SAMPLES {
        let place = gap / 2 + number * gap;
        if let Some(reading) = session.try_angle(lba + place)? {
            let first = seen.first().map_or(0.0, |first: &(f64, f64)| first.1);
            let off = reading.turns - (place + 1) as f64 / about;
            seen.push((
                (place + 1) as f64,
                if seen.is_empty() { part(off) } else { first + wrap(off - first) },
            ));
        }
    }
    if seen.len() < 5 {
        return Ok(None);
    }
    let (origin, slope) = robust_line(&seen);
    let density = 1.0 / (1.0 / about + slope);
    let uncertainty = (5.0 * session.drive.noise_turns() + 0.002) * density + 1.0;
    let (mut low, mut high) = (
        (libm::floor(density - uncertainty) as u64).max(1),
        (libm::ceil(density + uncertainty) as u64).max(1),
    );
    // Tells whether the sector that would end the n-th track lies on it, if there are so many
    // sectors on each; otherwise it lies on the next. Also returns the correction of a step.
    let on = |session: &mut Session,
              number: u64,
              sectors: u64,
              beyond: u64,
              longer: f64|
     -> Attempt<Option<(bool, f64)>> {
        let place = number * sectors - 1 + beyond;
        let Some(seen) = session.try_angle(lba + place)? else { return Ok(None) };
        let passed = origin + (place + 1) as f64 / sectors as f64;
        let off = |steps: u64| wrap(seen.turns - passed - turns_to(steps) - steps as f64 * longer);
        let (here, next) = (off(number - 1), off(number));
        let allowed = (0.45 * wrap(turns_to(number) - turns_to(number - 1)).abs()).min(0.08);
        let (is_on, off, steps) =
            if here.abs() < next.abs() { (true, here, number - 1) } else { (false, next, number) };
        Ok((off.abs() <= allowed).then(|| (is_on, longer + off / steps.max(1) as f64)))
    };
    let (mut number, mut failed) = (1, 0);
    while low < high && failed < 3 {
        let middle = low + (high - low).div_ceil(2);
        match on(session, number, middle, 0, 0.0)? {
            Some((true, _)) => low = middle,
            Some((false, _)) => high = middle - 1,
            None => failed += 1,
        }
        number += 1;
    }
    if low < high {
        return Ok(None);
    }
    // Skews are rounded to whole sectors, which have another length here. Over many tracks that
    // adds up to a skew, so the correction is learned on the way.
    let mut longer = 0.0;
    for number in LEARNED_AT {
        longer = on(session, number, low, 0, longer)?.map_or(longer, |(_, longer)| longer);
    }
    let is_next = on(session, TRIED_AT, low, 1, longer)?.is_some_and(|(is_on, _)| !is_on);
    let holds =
        is_next && on(session, TRIED_AT - 1, low, 0, longer)?.is_some_and(|(is_on, _)| is_on);
    Ok(holds.then_some(low))
}

/// A line through points, robust against outliers: origin and slope by medians.
fn robust_line(points: &[(f64, f64)]) -> (f64, f64) {
    let slopes: Vec<f64> = points
        .iter()
        .enumerate()
        .flat_map(|(number, one)| {
            points[number + 1..].iter().map(move |two| (two.1 - one.1) / (two.0 - one.0))
        })
        .collect();
    let slope = median(&slopes);
    let origins: Vec<f64> = points.iter().map(|point| point.1 - slope * point.0).collect();
    (median(&origins), slope)
}
