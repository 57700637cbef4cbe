//! The narrower last band of a zone in bands.
//!
//! A zone need not end with a whole band. The rows of its last one are shorter then, so that the
//! steps between surfaces come earlier. Where such a step differs clearly from the one between
//! cylinders, the first row that ends early does not fit, and `explain` looks for such a band.
//! Otherwise the number of tracks after the last whole band shows how long its rows would be.

use super::LayoutResult;
use super::border::{MIN_DEVIATION, middle_deviation};
use super::pattern::FINEST_STEP;
use super::track_angle::{is_surely_as_predicted, is_within};
use super::walk::{BEFORE, count_up_to, likely};
use super::zone_model::ZoneModel;
use super::zone_start::{out_of_reach, slips_matter};
use crate::numbers::wrap;
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The number of tracks that show whether rows end early.
const SHOWN_BY: usize = 3;

/// Gives a zone that has ended a narrower last band if its tracks are nearer to that: if it ends
/// after whole rows, and the tracks with other angles in a whole band are as in a narrower one.
pub(super) fn recognize_at_end(session: &mut Session, zone: &mut ZoneModel) -> Attempt<()> {
    let Some(end) = zone.end_lba else { return Ok(()) };
    let is_open = zone.pattern.in_bands() && zone.last_band.is_none();
    if !is_open || session.drive.noise_turns() >= QUIET_TURNS {
        return Ok(());
    }
    let last = zone.track_of(end - 1) + 1;
    let (first, units) = (last / zone.pattern.period() * zone.pattern.period(), zone.pattern.units);
    if last == first || !(last - first).is_multiple_of(units) || first < zone.first_track() {
        return Ok(());
    }
    let mut narrow = zone.clone();
    narrow.last_band = Some((first, (last - first) / units));
    let apart = |track: &u64| wrap(narrow.track_angle(*track) - zone.track_angle(*track)).abs();
    let different: Vec<u64> =
        (first + 1..last - 1).filter(|track| apart(track) > 2.0 * FINEST_STEP).collect();
    let every = (different.len() / SHOWN_BY).max(1);
    for track in different.iter().skip(every / 2).step_by(every).take(SHOWN_BY) {
        if middle_deviation(session, &narrow, *track)?.abs() > FINEST_STEP {
            return Ok(());
        }
    }
    if different.len() >= SHOWN_BY {
        *zone = narrow;
    }
    Ok(())
}

/// True if a track is the last one of the narrower last band.
pub(super) fn ends_last_band(zone: &ZoneModel, track: u64) -> bool {
    zone.last_band.is_some_and(|(first, width)| track + 1 == first + width * zone.pattern.units)
}

/// True if a track lies at another angle than the counts of skipped sectors from it on say. A count
/// accepts larger deviations than a walk does.
pub(super) fn deviates(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &ZoneModel,
    track: u64,
    counts: &[Option<i64>],
) -> Attempt<bool> {
    let (track, extra) = match counts {
        [None, None, ..] => return Ok(true),
        [Some(extra), ..] => (track, *extra),
        [None, Some(extra), ..] => (track + 1, *extra),
        _ => return Ok(false),
    };
    if !(0..=likely(layout, zone, track)).contains(&extra) {
        return Ok(false);
    }
    let off = middle_deviation(session, zone, track)?;
    let later = extra as f64 / zone.sectors_per_track as f64;
    Ok((off - later).abs() > surface_deviation(session, zone))
}

/// The deviation that tells the steps between surfaces and between cylinders apart.
fn surface_deviation(session: &Session, zone: &ZoneModel) -> f64 {
    if session.drive.noise_turns() < QUIET_TURNS {
        (0.45 * wrap(zone.steps[1] - zone.steps[0]).abs()).clamp(FINEST_STEP, MIN_DEVIATION)
    } else {
        MIN_DEVIATION
    }
}

/// True if the track begins a surface of a narrower last band; the zone then records the band.
pub(super) fn narrow_band(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &mut ZoneModel,
    bad: u64,
) -> Attempt<bool> {
    let period = zone.pattern.period();
    // The deviating track is the first of a surface, or the last of the one before if a boundary
    // was counted; or it is found a few tracks late. Usually that is the second surface. But tracks
    // past the predicted number of surface changes are where they should be, so a stride may have
    // passed over the second surface.
    let candidates = (1..zone.pattern.units).flat_map(|surface| {
        (0..=BEFORE + 1).filter_map(move |back| Some(((bad + 1).checked_sub(back)?, surface)))
    });
    // Two widths that differ by one are told apart by the difference of two steps.
    let allowed = surface_deviation(session, zone);
    // Slips after the last count may move tracks as far as a step does.
    let has_slips = slips_matter(session, layout, zone, period * zone.sectors_per_track);
    for (change, surface) in candidates {
        let (first, offset) = (change / period * period, change % period);
        let width = offset / surface;
        if offset % surface != 0 || width == 0 || width >= zone.pattern.unit {
            continue;
        }
        let second = first + width;
        let mut narrow = zone.clone();
        narrow.last_band = Some((first, width));
        let last = first + width * zone.pattern.units - 1;
        let mut fits = true;
        for track in [second, second + width / 2, second + width, change] {
            if fits && track <= last && !out_of_reach(session, &narrow, track) {
                fits = if has_slips {
                    continues_with_slips(session, layout, &mut narrow, track, allowed)?
                } else {
                    is_within(session, &mut narrow, track, allowed)?
                };
            }
        }
        // The last track of the first surface tells apart two widths that differ by one.
        if fits && is_within(session, &mut narrow, second - 1, allowed)? {
            *zone = narrow;
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if a track lies where the zone predicts once likely slips before it are counted; the zone
/// then knows them. The tracks of another zone, which are shorter, end ever earlier.
fn continues_with_slips(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
    allowed: f64,
) -> Attempt<bool> {
    let mut trial = zone.clone();
    let before = track.saturating_sub(1);
    let counted = count_up_to(session, &mut trial, before)?;
    let are_slips = counted.is_none_or(|extra| (0..=likely(layout, zone, before)).contains(&extra));
    let fits = are_slips && is_surely_as_predicted(session, &mut trial, track, allowed)?;
    if fits {
        *zone = trial;
    }
    Ok(fits)
}
