//! The pattern of all zones, which the tracks of the first one show.
//!
//! The first three tracks give the sectors per track. The step to the second track is the most
//! common one, *a*. If the first tracks show no pattern of few tracks, further ones are compared
//! with "always a": see `rows`, which also finds the step between bands.

use super::LayoutResult;
use super::border::MIN_DEVIATION;
use super::explain::MIN_SPARES;
use super::rows::{ThirdStep, find_rows, third_step};
use super::track::rough_density;
use super::track_list::{
    LISTED, ListedPattern, ListedTrack, first_change, fit_list, listed_groups, scatter,
    sectors_of_revolution, usual_step,
};
use super::walk::record_skip;
use super::zone_model::{MAX_HEADS, Pattern, Skip, UsualGroups, ZoneModel};
use super::zone_start::{begin, read_first_tracks};
use crate::numbers::{part, wrap};
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The most tracks of a short pattern.
pub(crate) const MAX_SURFACES: u64 = MAX_HEADS;
/// The smallest difference of two distinct steps: in deviations of a reading (noise has a long
/// tail, and tracks have errors of their own), and in revolutions (guesses).
const CLEAR_NOISE: f64 = 12.0;
pub(super) const FINEST_STEP: f64 = 0.003;
/// Steps are told apart by more than the slips of one track and its neighbor.
const MOVED_SECTORS: f64 = 2.5;

/// Finds the first zone, without its pattern.
pub(crate) fn begin_first(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    let about = rough_density(session, 0)?;
    layout.zones = vec![begin(session, layout, 0, None, about, Pattern::PLAIN, None, 0)?];
    Ok(())
}

/// Finds the pattern of all zones, from the first one.
pub(crate) fn find_pattern(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    let Some(mut zone) = layout.zones.first().cloned() else { return Ok(()) };
    if let Some(search) = layout.third_step.take() {
        return third_step(session, layout, search);
    }
    if !layout.first_tracks.complete {
        let mut list = core::mem::take(&mut layout.first_tracks);
        let listed = list.extend(session, layout, &zone, LISTED);
        layout.first_tracks = list;
        return listed;
    }
    let tracks = core::mem::take(&mut layout.first_tracks).tracks;
    let length = zone.sectors_per_track;
    let sectors = sectors_of_revolution(session, &tracks, length)?;
    if sectors > length && zone.groups.is_none() {
        // Each track has spares: begin again with them.
        let groups = Some(UsualGroups { tracks: 1, spares: sectors - length, length: sectors });
        let mut zone = begin(session, layout, 0, None, length as f64, Pattern::PLAIN, groups, 0)?;
        zone.groups_presumed = false;
        layout.zones = vec![zone];
        return Ok(());
    }
    let found = fit_list(session, &tracks, zone.sectors_per_track, None);
    let allowed = told_apart(session, scatter(&tracks, found.as_ref()));
    // The first row may end within the list. A smaller step is no deviation to a walk.
    let is_noisy = session.drive.noise_turns() >= QUIET_TURNS;
    let change = if is_noisy { first_change(&tracks) } else { None };
    let row = match change {
        Some((row, step)) if step.abs() >= 2.0 * MIN_DEVIATION => &tracks[..row],
        _ => &tracks[..],
    };
    apply_list(&mut zone, &tracks, found.as_ref());
    if found.is_some() {
        read_first_tracks(session, &mut zone)?;
    } else {
        fit_to_list(layout, &mut zone, &tracks, row, allowed);
    }
    // A slip on a track that is read moves it like a step.
    let moved = MOVED_SECTORS / zone.sectors_per_track as f64;
    let allowed = if layout.slips.0 > 0 { allowed.max(moved) } else { allowed };
    let in_units = match found {
        Some(_) => Some(zone.clone()),
        None => find_rows(session, layout, &zone, allowed)?,
    };
    if let Some(zone) = in_units {
        return third_step(session, layout, ThirdStep::new(zone, allowed));
    }
    found_pattern(layout, zone);
    Ok(())
}

/// Begins the walk of the first zone, whose pattern is that of the drive.
pub(super) fn found_pattern(layout: &mut LayoutResult, mut zone: ZoneModel) {
    zone.checked = zone.first_track();
    layout.pattern = Some(zone.pattern);
    layout.zones = vec![zone];
}

/// Sets the pattern, the phase and the groups of spares that listed tracks show.
fn apply_list(zone: &mut ZoneModel, tracks: &[ListedTrack], found: Option<&ListedPattern>) {
    let sectors = zone.sectors_per_track;
    let Some(first) = tracks.first() else { return };
    let single: Vec<u64> = (0..=tracks.len() as u64).collect();
    let (unit, numbers) = found.map_or((1, &single), |found| (found.unit, &found.numbers));
    if let Some(found) = found {
        zone.pattern.unit = found.unit;
        zone.steps = [found.steps[0], found.steps[1], 0.0];
        zone.readings.truncate(1);
    }
    let groups = listed_groups(tracks, numbers, unit, sectors);
    // The tracks of the first unit, or of the first group, before the list.
    let before = groups.map_or(numbers[0] * sectors, |(_, before)| before);
    zone.reserved = before / sectors * sectors + first.reserved;
    zone.groups = groups.map(|(groups, _)| groups);
    zone.origin = part(zone.origin + first.angle - zone.track_angle(zone.first_track()));
}

/// The number of fits to listed tracks.
const FITS: usize = 3;

/// Fits the common step to the listed tracks of the first row that have it. What tracks skip is
/// known, so slips do not distort it.
fn fit_to_list(
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    tracks: &[ListedTrack],
    row: &[ListedTrack],
    allowed: f64,
) {
    zone.steps[0] = usual_step(row);
    for track in tracks {
        let sectors = track.skipped(zone.sectors_per_track);
        if zone.groups.is_none() && sectors > 0 {
            record_skip(zone, Skip { lba: track.start + track.lbas, sectors, approximate: false });
        }
        let are_slips = zone.groups.is_none() && sectors < MIN_SPARES;
        layout.note_slips(if are_slips { sectors } else { 0 }, track.lbas);
    }
    // The first fit may be good for the nearer tracks only.
    for _ in 0..FITS {
        let lists = (zone.first_track()..).zip(row);
        // A sector slipped at a track's beginning moves the rest of it.
        let near = lists.filter(|(number, track)| {
            wrap(track.angle - zone.track_angle(*number)).abs() <= allowed
        });
        zone.readings = near
            .map(|(number, track)| {
                let lba = zone.middle_of(number);
                (lba, part(track.angle + zone.track_part(lba)))
            })
            .collect();
        zone.fit();
    }
}

/// The smallest difference of two distinct steps, in revolutions. It is tiny if times are quiet and
/// tracks match their steps within `scatter`. Otherwise the error of the first step adds up over a
/// band until it looks like another step.
fn told_apart(session: &Session, scatter: f64) -> f64 {
    let noise = session.drive.noise_turns();
    if noise < QUIET_TURNS {
        (CLEAR_NOISE * noise.max(scatter)).clamp(FINEST_STEP, MIN_DEVIATION)
    } else {
        MIN_DEVIATION
    }
}
