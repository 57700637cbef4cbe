//! One track: its density and its end.
//!
//! Sectors read at equal distances along a track complete at equal angles; at the end of the track
//! the angle jumps by the skew. The distance starts too small and is doubled until it is a tenth of
//! a revolution. Then the median of the steps between neighbors, few of which jump, is the density.
//! Bisection between the two neighbors that jump gives the end, to the sector.

use super::LayoutResult;
use super::zone_model::ZoneModel;
use crate::cache_model::CacheModel;
use crate::clock::line;
use crate::numbers::{median, part, wrap};
use crate::session::{Attempt, Interruption, QUIET_TURNS, Session};

/// The number of samples along a track, and along two if no track ends among the first of them: the
/// angles may continue from what spares leave of a track to the next one.
const SAMPLES: u64 = 11;
const SAMPLES_OF_TWO: u64 = 19;
/// The smallest jump that counts as the end of a track, in revolutions.
pub(crate) const MIN_JUMP: f64 = 0.02;
/// The number of readings in a row, each late by as much as a jump, after which bisection is not
/// repeated.
const MAX_LATE: u32 = 2;
/// A track that spares leave so small a part of, or less, does not show. If times are noisy, a half
/// is needed.
const FEW_LEFT: u64 = 16;
/// The number of parts into which a range with a track's end is divided if the drive keeps whole
/// tracks.
const STRIDES: u64 = 16;
/// The most sectors of a track that a profile can have.
const MAX_SECTORS: u64 = 65_535;

/// A track, measured without assumptions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// Sectors that fit into a revolution, to about a percent.
    pub(crate) density: f64,
    /// The first address after the track; the drive's end if there is none.
    pub(crate) end: u64,
}

/// The approximate number of sectors of the track at an address.
pub(crate) fn rough_density(session: &mut Session, lba: u64) -> Attempt<f64> {
    let capacity = session.drive.capacity;
    let mut gap = 1_u64;
    while gap <= MAX_SECTORS && lba + gap < capacity {
        let mut steps = Vec::new();
        for number in 0..5 {
            let first = lba + (number * gap * 5 / 2).min(capacity - gap - 1 - lba);
            // Backwards, so that nothing was read ahead.
            let after = session.angle(first + gap)?.turns;
            let here = session.angle(first)?.turns;
            steps.push(wrap(after - here));
        }
        let step = median(&steps);
        if step >= 0.06 {
            return Ok(gap as f64 / step);
        }
        gap *= 2;
    }
    Err(Interruption::Failed(format!(
        "sectors near {lba} pass at uneven angles; the layout there is not understood"
    )))
}

/// The density and the end of the track that starts at (or holds) `lba`.
pub(crate) fn measure_track(session: &mut Session, lba: u64, about: f64) -> Attempt<Track> {
    let capacity = session.drive.capacity;
    // A density that was measured in an uneven place may have any value.
    let gap = ((about / 8.0) as u64).clamp(1, MAX_SECTORS);
    let mut angles = samples(session, lba, gap, 0..SAMPLES)?;
    let noise = session.drive.noise_turns();
    for _ in 0..5 {
        let steps: Vec<f64> = angles.windows(2).map(|pair| part(pair[1].1 - pair[0].1)).collect();
        let step = median(&steps);
        let least = MIN_JUMP.max(8.0 * noise);
        let jump = steps.iter().position(|other| wrap(other - step).abs() > least);
        let density = gap as f64 / longest_even_row(&angles, step, least);
        let Some(jump) = jump else {
            let number = angles.len() as u64;
            // If times are noisy, an end may have been missed.
            if number == SAMPLES && noise < QUIET_TURNS {
                angles.extend(samples(session, lba, gap, SAMPLES..SAMPLES_OF_TWO)?);
                if angles.len() as u64 > SAMPLES {
                    continue;
                }
            }
            if number < SAMPLES || noise < QUIET_TURNS && number < SAMPLES_OF_TWO {
                return Ok(Track { density, end: capacity });
            }
            return Err(Interruption::Failed(format!(
                "no end of the track was found after sector {lba}; its skew may be too small"
            )));
        };
        // Read both sides again, because one of them may be an outlier.
        session.read_random(1)?;
        session.evict_if_noisy()?;
        for place in [jump + 1, jump] {
            angles[place].1 = session.angle(angles[place].0)?.turns;
        }
        let again = wrap(angles[jump + 1].1 - angles[jump].1 - step);
        if again.abs() > least {
            let end = end_between(session, angles[jump], angles[jump + 1].0, density, again)?;
            return Ok(Track { density, end });
        }
    }
    Err(Interruption::Failed(format!(
        "angles after sector {lba} jump at changing places; the drive's times are too noisy"
    )))
}

/// The angles of sectors at equal distances from `lba` on, by address.
fn samples(
    session: &mut Session,
    lba: u64,
    gap: u64,
    numbers: core::ops::Range<u64>,
) -> Attempt<Vec<(u64, f64)>> {
    let capacity = session.drive.capacity;
    let mut places: Vec<u64> =
        numbers.map(|number| lba + number * gap).filter(|place| *place < capacity).collect();
    if session.drive.hits.eviction_reads > 0 {
        // Backwards, so that nothing was read ahead.
        places.reverse();
    }
    let mut angles = Vec::new();
    for place in places {
        angles.push((place, session.angle(place)?.turns));
    }
    angles.sort_unstable_by_key(|angle: &(u64, f64)| angle.0);
    Ok(angles)
}

/// The angle from sample to sample, in revolutions: a line through the longest row without a jump.
fn longest_even_row(angles: &[(u64, f64)], step: f64, least: f64) -> f64 {
    let mut rows: Vec<Vec<(f64, f64)>> = vec![vec![(0.0, 0.0)]];
    for (number, pair) in angles.windows(2).enumerate() {
        let off = wrap(pair[1].1 - pair[0].1 - step);
        let before = rows.last().and_then(|row| row.last()).map_or(0.0, |last| last.1);
        if off.abs() > least {
            rows.push(Vec::new());
        }
        if let Some(row) = rows.last_mut() {
            row.push((number as f64 + 1.0, before + step + off));
        }
    }
    let longest = rows.into_iter().max_by_key(Vec::len).unwrap_or_default();
    line(&longest).map_or(step, |(_, slope)| slope)
}

/// The first address that is not on the track of `on` (an address with its angle); `off` is not.
/// After the end, angles are larger by `jump`.
pub(crate) fn end_between(
    session: &mut Session,
    on: (u64, f64),
    off: u64,
    density: f64,
    jump: f64,
) -> Attempt<u64> {
    let (mut low, mut high) = (on.0, off);
    for _ in 0..=MAX_LATE {
        while high - low > 1 {
            let middle = between(session, low, high, density);
            if on_same_track(session, on, middle, density, jump)? {
                low = middle
            } else {
                high = middle
            }
        }
        // A late reading looks as if it were after the end, and bisection stops there.
        if high == off
            || !is_on_by_fresh_reading(session, |session| {
                on_same_track(session, on, high, density, jump)
            })?
        {
            break;
        }
        (low, high) = (high, off);
    }
    Ok(high)
}

/// True if a sector that seemed to lie after a track's end lies on it by a fresh reading.
fn is_on_by_fresh_reading(
    session: &mut Session,
    is_on: impl Fn(&mut Session) -> Attempt<bool>,
) -> Attempt<bool> {
    if session.evict_if_noisy()? { is_on(session) } else { Ok(false) }
}

/// An address between two, of which one is on a track and the other after it: the nearest to the
/// middle that is not cached. Sectors just above an address that was read are cached, so the last
/// few are tried downwards.
pub(crate) fn between(session: &Session, low: u64, high: u64, density: f64) -> u64 {
    let middle = low + (high - low) / 2;
    if session.drive.hits.keeps_tracks {
        // A sector of the lower track is a hit, which costs little; one of the upper track leaves
        // both cached, and the next reading costs an eviction.
        return low + ((high - low) / STRIDES).max(1);
    }
    if session.drive.hits.eviction_reads == 0 {
        return middle;
    }
    let held = CacheModel::near(session, low, high, density);
    let fresh = (low + 1..high).filter(|lba| !held.holds(*lba));
    if high - low <= 2 * CacheModel::after_read(session, density) {
        return fresh.max().unwrap_or(middle);
    }
    fresh.min_by_key(|lba| lba.abs_diff(middle)).unwrap_or(middle)
}

/// The number of sectors by which a track of a zone ends early, for any angle of the next track;
/// none if the track itself deviates.
pub(crate) fn short_by(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &ZoneModel,
    track: u64,
) -> Attempt<Option<u64>> {
    let end = zone.track_start(track + 1).min(session.drive.capacity);
    let is_on = |session: &mut Session, lba: u64| {
        for _ in 0..2 {
            let turns = session.angle_of_track(lba, zone.sectors_per_track as f64)?.turns;
            if wrap(turns - zone.angle_on(track, lba)).abs() <= MIN_JUMP {
                return Ok(true);
            }
        }
        Ok(false)
    };
    if end < session.drive.capacity && is_on(session, end)? {
        return Ok(None);
    }
    // Downwards, so that none was read ahead. If as many are skipped as before, no bisection is
    // needed.
    let least = if session.drive.noise_turns() < QUIET_TURNS { FEW_LEFT } else { 2 };
    let first = zone.lba_from(track * zone.sectors_per_track + zone.sectors_per_track / least);
    let mut tries: Vec<u64> = (0..16)
        .map(|power| 1 << power)
        .chain((least == FEW_LEFT).then(|| end.saturating_sub(first)))
        .chain(layout.spares_seen.iter().flat_map(|spares| [*spares, spares + 1]))
        .collect();
    tries.sort_unstable();
    tries.dedup();
    let (mut off, mut on) = (end, None);
    for short in tries {
        let lba = end.saturating_sub(short);
        if lba < first {
            return Ok(None);
        }
        if is_on(session, lba)? {
            on = Some(lba);
            break;
        }
        off = lba;
    }
    let Some(mut on) = on else { return Ok(None) };
    for _ in 0..=MAX_LATE {
        while off - on > 1 {
            let middle = between(session, on, off, zone.sectors_per_track as f64);
            if is_on(session, middle)? { on = middle } else { off = middle }
        }
        if off == end || !is_on_by_fresh_reading(session, |session| is_on(session, off))? {
            break;
        }
        (on, off) = (off, end);
    }
    if off == end {
        return Ok(Some(0));
    }
    // If tracks have become a little shorter or longer, sectors drift away from their predicted
    // angles; at an end they jump.
    let mut drifted = Vec::new();
    // The sectors just before the end.
    for lba in (1..=3).filter_map(|back| off.checked_sub(back)).filter(|lba| *lba >= zone.first_lba)
    {
        drifted.push(wrap(session.angle(lba)?.turns - zone.angle_on(track, lba)));
    }
    if median(&drifted).abs() > MIN_JUMP / 2.0 {
        return Ok(None);
    }
    if !layout.spares_seen.contains(&(end - off)) {
        layout.spares_seen.push(end - off);
        let first = layout.spares_seen.len().saturating_sub(4);
        layout.spares_seen.drain(..first);
    }
    Ok(Some(end - off))
}

/// True if the angle of an address fits the track of `on`, rather than the next track, a jump
/// later.
pub(crate) fn on_same_track(
    session: &mut Session,
    on: (u64, f64),
    lba: u64,
    density: f64,
    jump: f64,
) -> Attempt<bool> {
    if lba >= session.drive.capacity {
        return Ok(false);
    }
    let predicted = on.1 + (lba as f64 - on.0 as f64) / density;
    let (mut same, mut other) = (0.0, 0.0);
    for _ in 0..3 {
        let off = wrap(session.angle_of_track(lba, density)?.turns - predicted);
        (same, other) = (same + off.abs(), other + wrap(off - jump).abs());
        // A reading that fits neither side may be an outlier.
        if same.min(other) < 0.3 * jump.abs() {
            break;
        }
        let elsewhere = session.random.below(session.drive.capacity);
        session.read_at_once(elsewhere, 1)?;
    }
    Ok(same <= other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::{DriveProfile, Layout};
    use headtime_sim::DriveTruth;
    use headtime_units::Lba;

    #[test]
    fn readings_that_come_late_move_no_end_of_a_track_though_the_cache_holds_what_was_read() {
        let mut profile = plain("cheetah10k7");
        // Far more outliers than drives have, and not by whole revolutions, which would be
        // invisible.
        (profile.variation.outlier_share, profile.variation.outlier_ms) = (0.005, 2.0);
        let mut bench = Bench::new(DriveTruth::draw(&profile, 6).expect("a drive"));
        (bench.drive.hits.eviction_reads, bench.drive.hits.limit_ns) = (40, 500_000.0);
        let zone = bench.results.layout.zones[2].clone();
        let wrong = (0..100_u64).filter(|number| {
            let track = 7 + 31 * number;
            let found = bench.run(6, |session, _| {
                measure_track(session, zone.track_start(track), zone.sectors_per_track as f64)
            });
            found.end != zone.track_start(track + 1)
        });
        let wrong: Vec<u64> = wrong.collect();
        assert!(wrong.is_empty(), "seed 6: ends of {wrong:?} of 100 tracks");
    }

    #[test]
    fn a_track_ends_although_its_angles_continue_from_the_one_before() {
        let mut profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        profile.variation.jitter_us = 0.0;
        let layout = Layout::new(&profile).expect("a valid profile");
        let start = layout.zones().nth(1).expect("a zone").extent.start.get();
        let sectors = u64::from(profile.zones[0].sectors_per_track);
        let turns = layout.spot(Lba::new(start - 1)).angle.as_turns() + 1.0 / sectors as f64;
        profile.zones[1].first_angle_turns = Some(turns.rem_euclid(1.0));
        let mut bench = Bench::new(DriveTruth::nominal(&profile, 1).expect("a drive"));
        let zone = bench.results.layout.zones[1].clone();
        let from = start - sectors * 3 / 4;
        let found = bench.run(1, |session, _| measure_track(session, from, sectors as f64));
        assert_eq!(found.end, zone.track_start(1));
    }
}
