//! The steps of a zone, fitted to tracks all over it, with as many readings as the noise requires.
//!
//! The readings of the walk give the angle from cylinder to cylinder, or from band to band, to a
//! hundredth of a sector. They do not give its division among the steps within one: with four
//! surfaces, an error of `e` in each track skew is compensated by one of `−3e` in the cylinder
//! skew. The first and the last track of such a group show this best, so half of the readings are
//! taken there. With a standard deviation of `d` sectors, `n` readings leave an error of about
//! `2d/√n` in the last step of a group, for any number of tracks.
//!
//! Worked example: 30 us of jitter on tracks of 1,400 sectors and 8.3 ms are 5 sectors; 280
//! readings leave 0.6 sectors, the target if there is time. On tracks of 300 sectors and 11 ms the
//! jitter is 0.8 sectors, and 7 readings would leave as much; but that is 20 us, so 64 are taken,
//! which leave a quarter of the noise.
//!
//! Readings of the walk are used for a zone with too few others: the clock was less certain then,
//! and wrong by the same amount for the whole zone.

use super::slips::slight_ns;
use super::track::MIN_JUMP;
use super::zone_model::{Pattern, ZoneModel};
use crate::numbers::{FAR, mean, spread, wrap};
use crate::session::{Attempt, Session};

/// The number of readings of one step, the fewest of a zone, and the most of a zone if times are
/// noisy.
const STEP_READS: u64 = 100;
const FEWEST: usize = 40;
const MOST: usize = 1_200;
/// The most readings if a step is accurate to a part of a sector but its error is not yet small
/// beside the noise: 200 leave a seventh of a standard deviation.
const MAX_SLIGHT: usize = 200;
/// The number of readings kept of a fitted zone.
const KEPT: usize = 240;
/// The error of a step that is small enough, in sectors. On tracks with few sectors it must also be
/// small beside the noise.
const FINE_SECTORS: f64 = 0.6;

/// The growth of the sum of squares that contradicts a whole number of sectors: three standard
/// errors.
const CONTRADICTION: f64 = 9.0;
/// The weight of a known step beside a reading.
const KNOWN: f64 = 1e6;

/// Reads some more tracks all over a zone, up to `max_reads` if the noise requires it, and fits its
/// steps to them.
pub(crate) fn fit_skews(
    session: &mut Session,
    zone: &mut ZoneModel,
    max_reads: usize,
) -> Attempt<()> {
    let end = zone.end_lba.unwrap_or(session.drive.capacity);
    let tracks = zone.track_of(end.max(zone.first_lba + 1) - 1);
    let noise = session.drive.noise_turns();
    // A misplaced reading is off by a skew. Late readings must not be discarded while early ones
    // count.
    let allowed = MIN_JUMP.max(FAR * noise);
    let fine = FINE_SECTORS
        .min(slight_ns(session) / session.drive.clock.period_ns() * zone.sectors_per_track as f64);
    let quiet = noise * (zone.sectors_per_track as f64) < fine;
    let mut fresh = zone.fit_readings.clone();
    let reads = if zone.unknown { 0 } else { STEP_READS.min(tracks / 4) };
    for count in 0..reads {
        if quiet && count >= FEWEST as u64 {
            break;
        }
        let lba = place(session, zone, end);
        if let Some(seen) = session.try_angle(lba)?
            && wrap(seen.turns - zone.angle(lba)).abs() < allowed
        {
            fresh.push((lba, seen.turns));
        }
    }
    let error = error_sectors(zone, &fresh);
    let stuck = fresh.len() < zone.fit_readings.len() + FEWEST / 2;
    let max_readings = if error > FINE_SECTORS { MOST } else { MAX_SLIGHT };
    if error > fine && fresh.len() < max_reads.min(max_readings) && !quiet && !stuck {
        zone.fit_readings = fresh;
        return Ok(());
    }
    if fresh.len() > FEWEST {
        zone.readings = fresh;
    } else {
        zone.readings.extend(fresh);
    }
    zone.fit();
    round_steps(zone);
    zone.step_error = error_sectors(zone, &zone.readings) / zone.sectors_per_track as f64;
    let every = zone.readings.len().div_ceil(KEPT).max(1);
    zone.readings = zone.readings.iter().copied().step_by(every).collect();
    zone.fit_readings = Vec::new();
    zone.fitted = true;
    Ok(())
}

/// A random sector of the zone or, half of the time, one on the first or the last track (or row of
/// tracks) of a group.
fn place(session: &mut Session, zone: &ZoneModel, end: u64) -> u64 {
    let any = zone.first_lba + session.random.below(end - zone.first_lba);
    let (unit, units) = (zone.pattern.unit, zone.pattern.units);
    let (row, rows) = if zone.pattern.in_bands() { (unit, units) } else { (1, unit) };
    let apart = session.random.below(2) == 0
        && (3..Pattern::NEVER).contains(&rows)
        && zone.last_band.is_none();
    let (last, within) = (session.random.below(2) == 0, session.random.below(row.max(1)));
    let sector =
        session.random.below(zone.sectors_per_track.max(2) / 2) + zone.sectors_per_track / 4;
    if !apart {
        return any;
    }
    let track = zone.track_of(any) / (row * rows) * (row * rows)
        + if last { row * (rows - 1) } else { 0 }
        + within;
    let lba = zone.lba_from(track * zone.sectors_per_track + sector);
    if lba < end { lba } else { any }
}

/// Rounds steps to whole sectors, as most firmware has them, as long as the readings do not
/// contradict: the sum of their squared deviations, in variances of a reading, may grow by
/// [`CONTRADICTION`]. A step that is taken as known makes the next one better known.
fn round_steps(zone: &mut ZoneModel) {
    let spt = zone.sectors_per_track as f64;
    let kinds = match (zone.pattern.in_bands(), zone.pattern.unit < Pattern::NEVER) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 1,
    };
    let fitted = squares(zone);
    let variance = fitted / zone.readings.len().saturating_sub(kinds + 1).max(1) as f64;
    let tied = core::mem::take(&mut zone.tied);
    for kind in 0..kinds {
        let before = zone.clone();
        let step = libm::round(zone.steps[kind] * spt) / spt;
        zone.tied[kind] = (step, KNOWN);
        zone.fit();
        zone.steps[kind] = step;
        if squares(zone) - fitted > CONTRADICTION * variance {
            *zone = before;
        }
    }
    zone.tied = tied;
}

/// The sum of the squared deviations of the readings that are no outliers.
fn squares(zone: &ZoneModel) -> f64 {
    let off: Vec<f64> =
        zone.readings.iter().map(|(lba, turns)| wrap(turns - zone.angle(*lba))).collect();
    let allowed = FAR * spread(&off);
    let middle = crate::numbers::median(&off);
    let near = off.iter().filter(|off| (*off - middle).abs() <= allowed);
    near.map(|off| off * off).sum()
}

/// The error of the last step of a group, given these readings, in sectors.
fn error_sectors(zone: &ZoneModel, readings: &[(u64, f64)]) -> f64 {
    let off: Vec<f64> =
        readings.iter().map(|(lba, turns)| wrap(turns - zone.angle(*lba))).collect();
    let middle = crate::numbers::median(&off);
    let allowed = FAR * spread(&off);
    let near: Vec<f64> =
        off.iter().copied().filter(|off| (off - middle).abs() <= allowed).collect();
    let (_, error) = mean(&near);
    2.0 * error.unwrap_or(1.0) * zone.sectors_per_track as f64
}
