//! The beginning of a zone: its sectors per track, and the pattern of its steps.
//!
//! The first three tracks give the sectors per track. The step to the second track is the most
//! common one, *a*. Tracks 2, 4, 8 … are compared with "always a" until one deviates, and bisection
//! finds the first that does: the *unit*. Its step is *b*. Tracks are compared with that pattern at
//! 1, 2, 4 … units. If they deviate again, and the pattern continues after that, there is a third
//! step *c*.
//!
//! Example, 20 surfaces filled over bands of 256 cylinders: 255 times a (the cylinder skew), once b
//! (the next surface), 19 times; then c (the next band).

use serde::{Deserialize, Serialize};

use super::LayoutResult;
use super::border::{CountAt, MIN_DEVIATION, count};
use super::explain::{MAX_SPARE_TRACKS, MIN_SPARES};
use super::recovery::short_phase;
use super::sector_count::count_sectors_per_track;
use super::track::{measure_track, rough_density, short_by};
use super::track_angle::{
    is_as_predicted, is_surely_as_predicted, is_within, step_before, step_seen, track_angle,
};
use super::track_list::{
    LISTED, ListedPattern, ListedTrack, fit_list, listed_groups, scatter, sectors_of_revolution,
    usual_step,
};
use super::walk::{
    continues_to, count_up_to, first_deviation, likely_slips, record_count, record_skip,
};
use super::zone_model::{MAX_HEADS, Pattern, Skip, SpareGroups, UsualGroups, ZoneModel};
use crate::numbers::{part, wrap};
use crate::session::{Attempt, Interruption, QUIET_TURNS, Session};

/// The most tracks of a unit: bands of some hundred cylinders, all surfaces of which have the step
/// of a cylinder.
const LONGEST_UNIT: u64 = 16_384;
/// The most units between steps of the third kind: the surfaces of a drive.
const MAX_UNITS: u64 = 64;
/// The number of tracks that are searched for a short pattern.
pub(super) const FIRST_TRACKS: u64 = 160;
/// The most tracks of a short pattern.
pub(crate) const MAX_SURFACES: u64 = MAX_HEADS;
/// The smallest difference of two distinct steps: in deviations of a reading (noise has a long
/// tail, and tracks have errors of their own), and in revolutions (guesses).
const CLEAR_NOISE: f64 = 12.0;
pub(super) const FINEST_STEP: f64 = 0.003;
/// Steps of two zones that differ by no more than these deviations are the same skew in time. They
/// may still differ by so many sectors, because skews are rounded to whole sectors; within one
/// zone, by the accuracy of a fit.
const ALIKE_NOISE: f64 = 3.0;
const ROUNDED_SECTORS: f64 = 1.0;
const SAME_SECTORS: f64 = 0.2;
/// The most places with skipped sectors in a row of tracks.
const MAX_SKIPPED: u64 = 64;
/// From so many revolutions of slips on, an angle does not show their number.
const FAR_SLIPS: f64 = 0.4;
/// Steps are told apart by more than the slips of one track and its neighbor.
const MOVED_SECTORS: f64 = 2.5;
/// The tracks among which one without slips is searched.
const NEAR_TRACKS: u64 = 4;
/// The units that are searched in one experiment if they have many tracks.
const ROWS: u64 = 4;
/// A rest of the drive of fewer units is no whole zone.
const SHORT_UNITS: u64 = 6;
/// Two steps that differ by more sectors differ in each zone by more than twice
/// [`ROUNDED_SECTORS`]: each of the four is rounded, and those of one zone are fitted.
const CLEAR_SECTORS: f64 = 5.0;
/// From this expected number on, slips are counted before the first steps are fitted.
pub(super) const LIKELY_SLIPS: f64 = 0.5;
/// The number of readings that determine the steps of a zone.
const KNOWN_READINGS: usize = 24;
/// The number of tracks read in the first period of a zone if times are noisy.
const ROUND_READS: u64 = 32;
/// The first tracks of a zone were misidentified if their readings deviate from its steps by more
/// than this many deviations of one reading.
const UNEVEN_NOISE: f64 = 4.0;
/// The largest deviation of two neighboring sectors of a track: in sectors, and in deviations of a
/// reading.
const SAME_TRACK: f64 = 1.5;
const JUMP_NOISE: f64 = 8.0;
/// The number of first tracks of a zone, of which three in four have to match its steps.
const HELD_TRACKS: u64 = 8;

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
    apply_list(&mut zone, &tracks, found.as_ref());
    let mut unit = found.as_ref().map(|found| found.unit);
    if unit.is_some() {
        read_first_tracks(session, &mut zone)?;
    } else {
        fit_to_list(layout, &mut zone, &tracks, allowed);
    }
    // A slip on a track that is read moves it like a step.
    let moved = MOVED_SECTORS / zone.sectors_per_track as f64;
    let allowed = if layout.slips.0 > 0 { allowed.max(moved) } else { allowed };
    if unit.is_none()
        && let Some(row) = long_unit(session, layout, &zone, allowed)?
    {
        let mut in_rows = zone.clone();
        begin_in_unit(&mut in_rows, row);
        count_up_to_row_end(session, &mut in_rows, row.unit)?;
        let mut after_spares = in_rows.clone();
        if let Some(spares) = spares_before(session, layout, &in_rows, row.unit)?
            .filter(|spares| spares.sectors >= MIN_SPARES && in_rows.groups.is_none())
        {
            record_skip(&mut after_spares, spares);
        }
        let (step, seen) = step_seen(session, &after_spares, row.unit)?;
        // A row ends with another step; otherwise a reading or a count was wrong.
        if wrap(step - zone.steps[0]).abs() > allowed / 2.0 {
            unit = Some(row.unit);
            let has_spares = after_spares.skips != in_rows.skips;
            zone = in_rows;
            zone.steps[1] = step;
            if has_spares {
                // The zone does not know the spares.
                zone.tied[1] = (step, 1.0);
            } else {
                zone.readings.extend(seen);
            }
            zone.fit();
        }
    }
    if unit.is_some() {
        let (trial, begun) = (zone.clone(), zone.first_track() / zone.pattern.unit);
        let search = ThirdStep { zone, allowed, trial, begun, units: begun, found: None };
        return third_step(session, layout, search);
    }
    found_pattern(layout, zone);
    Ok(())
}

/// Begins the walk of the first zone, whose pattern is that of the drive.
fn found_pattern(layout: &mut LayoutResult, mut zone: ZoneModel) {
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

/// Fits the common step to the listed tracks that have it. What they skip is known, so slips do not
/// distort it.
fn fit_to_list(
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    tracks: &[ListedTrack],
    allowed: f64,
) {
    zone.steps[0] = usual_step(tracks);
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
        let lists = (zone.first_track()..).zip(tracks);
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

/// A row of tracks with one step.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Tracks of each row.
    unit: u64,
    /// Tracks of the first row before the first address.
    before: u64,
}

/// Lets a zone begin in the middle of a row.
fn begin_in_unit(zone: &mut ZoneModel, row: Row) {
    let angle = zone.track_angle(zone.first_track());
    zone.pattern.unit = row.unit;
    zone.reserved += row.before * zone.sectors_per_track;
    zone.origin = part(zone.origin + angle - zone.track_angle(zone.first_track()));
}

/// Finds a pattern of many tracks: up to the first one that deviates from "always a". The row after
/// it shows how long rows are; the first one may begin before the first address.
fn long_unit(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &ZoneModel,
    allowed: f64,
) -> Attempt<Option<Row>> {
    let mut trial = zone.clone();
    let Some(first) = row_end(session, layout, &mut trial, allowed)? else { return Ok(None) };
    let last = trial.first_track() + first - 1;
    let Some(short) = short_by(session, layout, &trial, last)? else {
        return Ok(Some(Row { unit: first, before: 0 }));
    };
    let start = trial.track_start(last + 1) - short;
    let mut next = ZoneModel::new(Pattern::PLAIN, start, trial.sectors_per_track);
    next.steps = trial.steps;
    // A slip on its first tracks must not change the step that many have shown.
    next.tied[0] = (next.steps[0], first as f64);
    next.origin = track_angle(session, &next, 0)?;
    next.add_angle(0, next.origin);
    let second = match row_end(session, layout, &mut next, allowed)? {
        Some(second) => second,
        None => next_zone_row(session, layout, &mut next, allowed)?.unwrap_or(first),
    };
    let unit = second.max(first);
    Ok(Some(Row { unit, before: unit - first }))
}

/// The number of tracks of the first row of the next zone, if that begins with a whole track where
/// this one, which has no further row, ends.
fn next_zone_row(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    allowed: f64,
) -> Attempt<Option<u64>> {
    let Some(end) = first_deviation(session, zone, LONGEST_UNIT, allowed)? else { return Ok(None) };
    let mut starts = vec![zone.track_start(zone.first_track() + end)];
    for number in 0..3 {
        if starts[number] + zone.sectors_per_track >= session.drive.capacity {
            return Ok(None);
        }
        starts.push(measure_track(session, starts[number], zone.sectors_per_track as f64)?.end);
    }
    let lengths = [starts[1] - starts[0], starts[2] - starts[1], starts[3] - starts[2]];
    if lengths[1] != lengths[2] || lengths[1] == zone.sectors_per_track {
        return Ok(None);
    }
    // The first may be what spares leave of the last track of this zone.
    let start = if lengths[0] == lengths[1] { starts[0] } else { starts[1] };
    let mut next = ZoneModel::new(Pattern::PLAIN, start, lengths[1]);
    next.origin = track_angle(session, &next, 0)?;
    next.add_angle(0, next.origin);
    let (step, seen) = step_seen(session, &next, 1)?;
    next.steps[0] = step;
    next.readings.extend(seen);
    row_end(session, layout, &mut next, allowed)
}

/// The number of tracks of a zone up to the first that deviates from "always a". Skipped sectors
/// also move all sectors after them, but unlike a step they move the track boundaries as well. The
/// search continues after them.
fn row_end(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    allowed: f64,
) -> Attempt<Option<u64>> {
    let mut before = None;
    for _ in 0..MAX_SKIPPED {
        let Some(unit) = first_deviation(session, zone, LONGEST_UNIT, allowed)? else { break };
        let track = zone.first_track() + unit;
        let counted = count_up_to(session, zone, track - 1)?;
        let skipped = count(session, zone, track, CountAt::Track)?
            .map_or(0, |(extra, _)| extra.max(0).unsigned_abs());
        // Track 1 is where the first step was measured.
        if unit == 1 {
            break;
        }
        if skipped == 0 {
            // Those of the row, which is longer than what was counted before.
            let end = zone.track_start(track);
            layout.note_slips(zone.approximate_between(zone.first_lba, end), end - zone.first_lba);
            return Ok(continues_after(session, layout, zone, unit)?.then_some(unit));
        }
        // A count that repeats at the same place is not one of skipped sectors.
        if before == Some(unit) {
            break;
        }
        if counted.is_some() {
            // Slips on the track itself.
            record_count(zone, track, skipped as i64);
        } else {
            let end = zone.track_start(track) - skipped;
            record_skip(zone, Skip { lba: end, sectors: skipped, approximate: false });
        }
        before = Some(unit);
    }
    Ok(None)
}

/// True if the tracks after one continue as before it, all with the same offset but for slips. At
/// the end of a zone they differ from each other.
fn continues_after(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &ZoneModel,
    unit: u64,
) -> Attempt<bool> {
    let mut first = None;
    let change = zone.first_track() + unit;
    // The last tracks before another step may be spares.
    for track in [0, 1, 4, 8, unit / 2, unit * 7 / 8].into_iter().filter(|track| *track < unit) {
        if !out_of_reach(session, zone, change + track) {
            let off =
                track_angle(session, zone, change + track)? - zone.track_angle(change + track);
            let later = wrap(off - *first.get_or_insert(off));
            let slips = likely_slips(layout, track * zone.sectors_per_track);
            let slips = slips as f64 / zone.sectors_per_track as f64;
            if slips > FAR_SLIPS {
                break;
            }
            if !(-MIN_DEVIATION..=MIN_DEVIATION + slips).contains(&later) {
                return Ok(false);
            }
        }
    }
    Ok(true)
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

/// A search for a step of a third kind in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ThirdStep {
    /// The first zone.
    zone: ZoneModel,
    allowed: f64,
    /// The zone from its beginning, or from the first such step on, with all that it skips.
    trial: ZoneModel,
    /// Units of the trial before its first address, and up to which it was searched.
    begun: u64,
    units: u64,
    /// The number of units before the first such step, and the step.
    found: Option<(u64, f64)>,
}

/// The step at the end of a unit.
enum UnitEnd {
    Usual,
    /// A third one, with the first address after it.
    Other(u64, f64),
    /// The tracks around it are not those of the pattern.
    Unclear,
}

/// Looks for a step of a third kind, unit by unit, passing over skipped sectors. The next one shows
/// how many units lie between two; the first may come earlier, if the zone begins in between.
fn third_step(
    session: &mut Session,
    layout: &mut LayoutResult,
    mut search: ThirdStep,
) -> Attempt<()> {
    let unit = search.zone.pattern.unit;
    let most = if unit > MAX_SURFACES { ROWS } else { u64::MAX };
    for _ in 0..most {
        search.units += 1;
        let (units, trial) = (search.units, &mut search.trial);
        let end = if units > search.begun + MAX_UNITS {
            UnitEnd::Unclear
        } else {
            unit_end(session, layout, trial, units, search.allowed)?
        };
        match (end, search.found) {
            (UnitEnd::Usual, None) if trial.skips.is_empty() => search.zone.clone_from(trial),
            (UnitEnd::Usual, _) => {}
            (UnitEnd::Other(start, step), None) => {
                search.found = Some((units - search.begun, step));
                let mut next = ZoneModel::new(trial.pattern, start, trial.sectors_per_track);
                next.steps = search.zone.steps;
                next.origin = track_angle(session, &next, 0)?;
                next.add_angle(0, next.origin);
                (search.trial, search.begun, search.units) = (next, 0, 0);
            }
            (end, found) => {
                let mut zone = search.zone;
                if let Some((first, step)) = found {
                    let second = if let UnitEnd::Other(..) = end { units } else { first };
                    zone.pattern.units = second.max(first);
                    zone.begin_earlier((zone.pattern.units - first) * unit);
                    (zone.steps[2], zone.tied[2]) = (step, (step, 1.0));
                }
                found_pattern(layout, zone);
                return Ok(());
            }
        }
    }
    layout.third_step = Some(search);
    Ok(())
}

/// The step after so many units.
fn unit_end(
    session: &mut Session,
    layout: &mut LayoutResult,
    trial: &mut ZoneModel,
    units: u64,
    allowed: f64,
) -> Attempt<UnitEnd> {
    let unit = trial.pattern.unit;
    if out_of_reach(session, trial, units * unit + 1) {
        return Ok(UnitEnd::Unclear);
    }
    if unit > MAX_SURFACES {
        // A row of many tracks may have many slips.
        count_up_to_row_end(session, trial, units * unit)?;
    }
    // The step after it may be any.
    match spares_before(session, layout, trial, units * unit)? {
        Some(spares) if spares.sectors == 0 => {}
        Some(spares) => record_skip(trial, spares),
        None => return Ok(UnitEnd::Unclear),
    }
    // The second step was measured after the first unit; another one is a late reading.
    if is_within(session, trial, units * unit, allowed)? || units == 1 {
        return Ok(UnitEnd::Usual);
    }
    let step = step_before(session, trial, units * unit)?;
    if wrap(step - trial.steps[1]).abs() < 0.75 * allowed {
        return Ok(UnitEnd::Usual);
    }
    // The pattern must continue after it; otherwise it was the end of the zone, or a defect.
    let start = trial.track_start(units * unit);
    let mut after = ZoneModel::new(trial.pattern, start, trial.sectors_per_track);
    after.steps = trial.steps;
    after.origin = track_angle(session, &after, 0)?;
    for track in [1, unit / 2, unit - 1, unit] {
        if out_of_reach(session, &after, track)
            || !continues_to(session, &mut after, track, MIN_DEVIATION)?
        {
            return Ok(UnitEnd::Unclear);
        }
    }
    Ok(UnitEnd::Other(start, step))
}

/// Counts the slips up to the end of a row of tracks before `next`, but for its last track or
/// tracks, where spares may lie.
fn count_up_to_row_end(session: &mut Session, zone: &mut ZoneModel, next: u64) -> Attempt<()> {
    let last = next.saturating_sub(2).max(zone.first_track());
    if count_up_to(session, zone, last)?.is_none() && last > MAX_SPARE_TRACKS {
        // Whole tracks may be spares.
        count_up_to(session, zone, last - MAX_SPARE_TRACKS)?;
    }
    Ok(())
}

/// The sectors skipped directly before a track, whole tracks among them; none if the tracks before
/// it deviate.
fn spares_before(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &ZoneModel,
    next: u64,
) -> Attempt<Option<Skip>> {
    for whole in 0..=MAX_SPARE_TRACKS.min(next - zone.first_track() - 1) {
        if let Some(short) = short_by(session, layout, zone, next - whole - 1)? {
            let lba = zone.track_start(next - whole) - short;
            let sectors = short + whole * zone.sectors_per_track;
            return Ok(Some(Skip { lba, sectors, approximate: false }));
        }
    }
    Ok(None)
}

/// Finds a further zone at `lba` with the known pattern; `sectors` are its sectors per track, if
/// known.
pub(crate) fn begin_next(
    session: &mut Session,
    layout: &mut LayoutResult,
    lba: u64,
    sectors: Option<u64>,
    about: f64,
) -> Attempt<()> {
    let pattern = layout.pattern.unwrap_or(Pattern::PLAIN);
    // Assume the groups of a zone before here too.
    let groups = layout.usual_groups();
    let steps = layout.zones.last().map_or([0.0; 3], |before| before.steps);
    let sectors = match sectors {
        // They are those of a revolution; `begin` adds the spares of each track.
        Some(sectors) => Some(sectors - on_each_track(groups).min(sectors)),
        None => count_sectors_per_track(session, lba, about, pattern, steps)?,
    };
    // Zones that begin in the middle of a cylinder or band usually all do so in the same place.
    // A zone after an unknown range begins where the layout could resume.
    let usual = match layout.zones.last_chunk::<2>() {
        Some([before, last]) if !before.unknown => last.first_track(),
        _ => 0,
    };
    let begin_with = |session: &mut Session, layout: &mut LayoutResult, reserved: u64| {
        let zone = begin(session, layout, lba, sectors, about, pattern, groups, reserved)?;
        let is_even =
            zone.deviation <= MIN_DEVIATION.max(UNEVEN_NOISE * session.drive.noise_turns());
        // The rest of a drive may be too short to matter.
        let has_steps = has_usual_steps(&zone, &steps)
            || out_of_reach(session, &zone, zone.first_track() + SHORT_UNITS * pattern.unit);
        let fits = is_even && has_steps && holds(session, &zone)?;
        Ok((zone, fits))
    };
    let (mut zone, mut fits) = begin_with(session, layout, usual)?;
    if !fits && usual > 0 {
        (zone, fits) = begin_with(session, layout, 0)?;
    }
    if fits && let Some(tracks) = tracks_before_group(session, &zone)? {
        (zone, fits) = begin_with(session, layout, zone.first_track() + tracks)?;
    }
    if !fits
        && let Some(phase) = phase_of(session, layout, &zone, &steps)?.filter(|phase| *phase > 0)
    {
        (zone, fits) = begin_with(session, layout, phase)?;
    }
    if !fits {
        return Err(Interruption::Failed(format!(
            "the tracks from sector {} on do not continue the pattern of those before",
            zone.first_lba
        )));
    }
    if let Some(before) = layout.zones.last_mut() {
        before.end_lba = Some(zone.first_lba);
    }
    layout.zones.push(zone);
    Ok(())
}

/// The tracks of the first group of a zone before its first address, where all steps are alike and
/// so do not show them; none if the group ends where it is presumed to.
fn tracks_before_group(session: &mut Session, zone: &ZoneModel) -> Attempt<Option<u64>> {
    let Some(groups) = zone.groups.filter(|_| zone.pattern.unit >= Pattern::NEVER) else {
        return Ok(None);
    };
    let tracks = (groups.lbas + groups.spares) / zone.sectors_per_track;
    // True if the spares lie before the end of a track.
    let is_after = |session: &mut Session, track: u64| {
        let counted = count(session, zone, track, CountAt::Track)?;
        Ok(counted.is_some_and(|(extra, _)| extra >= groups.spares as i64))
    };
    let (mut low, mut high) = (zone.first_track(), tracks.saturating_sub(2));
    if high <= low || out_of_reach(session, zone, high) || !is_after(session, high)? {
        return Ok(None);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_after(session, middle)? { high = middle } else { low = middle }
    }
    Ok(Some(tracks - high))
}

/// The tracks of the first cylinder, or of the first row, of a zone before its first address; none
/// if the pattern does not show. `usual` are the steps of the zone before.
fn phase_of(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &ZoneModel,
    usual: &[f64; 3],
) -> Attempt<Option<u64>> {
    let unit = zone.pattern.unit;
    let mut plain = ZoneModel::new(Pattern::PLAIN, zone.first_lba, zone.sectors_per_track);
    if unit >= Pattern::NEVER || out_of_reach(session, &plain, unit) {
        return Ok(None);
    }
    if unit <= MAX_SURFACES {
        return Ok(short_phase(session, layout, &plain, zone.pattern)?.map(|(phase, _)| phase));
    }
    plain.steps = zone.steps;
    plain.origin = track_angle(session, &plain, 0)?;
    plain.add_angle(0, plain.origin);
    // The step between rows may differ little from the common one.
    let other = wrap(usual[between_rows(zone.pattern)] - usual[0]).abs();
    let allowed = if session.drive.noise_turns() < QUIET_TURNS {
        (other / 2.0).clamp(FINEST_STEP / 2.0, MIN_DEVIATION)
    } else {
        MIN_DEVIATION
    };
    let to_border = first_deviation(session, &mut plain, unit, allowed)?;
    Ok(to_border.map(|tracks| unit - tracks))
}

/// The kind of the step between cylinders or rows: rows that follow each other on one surface have
/// the third at their ends.
fn between_rows(pattern: Pattern) -> usize {
    if pattern.units > 1 { 1 } else { 2 }
}

/// False if the ends of a zone's cylinders or rows showed no step of their own although those of
/// the zone before have one: then they lie elsewhere.
fn has_usual_steps(zone: &ZoneModel, before: &[f64; 3]) -> bool {
    let kind = between_rows(zone.pattern);
    let differ =
        |steps: &[f64; 3]| wrap(steps[kind] - steps[0]).abs() * zone.sectors_per_track as f64;
    let is_taken = zone.pattern.unit < Pattern::NEVER;
    !is_taken || differ(&zone.steps) > 2.0 * ROUNDED_SECTORS || differ(before) < CLEAR_SECTORS
}

/// True if most of a zone's first tracks are as it predicts, and those that are not deviate by
/// themselves: if the track at the same place of the next cylinder deviates too, cylinders end
/// elsewhere.
fn holds(session: &mut Session, zone: &ZoneModel) -> Attempt<bool> {
    let (first, unit) = (zone.first_track(), zone.pattern.unit);
    let mut tracks: Vec<u64> = (first + 1..=first + HELD_TRACKS).collect();
    if unit <= MAX_SURFACES {
        let end = (first + 1).next_multiple_of(unit);
        tracks.extend((end.saturating_sub(3)..=end).filter(|track| *track > first + HELD_TRACKS));
    }
    let (mut tried, mut off) = (0, Vec::new());
    let mut trial = zone.clone();
    for track in tracks {
        if !out_of_reach(session, &trial, track) {
            tried += 1;
            if !is_as_predicted(session, &mut trial, track)? {
                off.push(track);
            }
        }
    }
    for track in off.iter().map(|track| track + unit).filter(|_| unit <= MAX_SURFACES) {
        if !out_of_reach(session, &trial, track) && !is_as_predicted(session, &mut trial, track)? {
            return Ok(false);
        }
    }
    Ok(4 * off.len() <= tried)
}

/// Measures the tracks at the beginning of a zone, and its steps as far as the pattern is known.
/// So many tracks of a whole unit, or group of spares, lie before it.
#[allow(clippy::too_many_arguments)]
fn begin(
    session: &mut Session,
    layout: &mut LayoutResult,
    lba: u64,
    sectors: Option<u64>,
    about: f64,
    pattern: Pattern,
    groups: Option<UsualGroups>,
    before: u64,
) -> Attempt<ZoneModel> {
    let (lba, sectors_per_track, reserved) = match sectors {
        Some(sectors) => (lba, sectors, 0),
        None => first_tracks(session, lba, about)?,
    };
    // Tracks with spares of their own are shorter than a revolution.
    let sectors_per_track = sectors_per_track + on_each_track(groups);
    let mut zone = ZoneModel::new(pattern, lba, sectors_per_track);
    zone.reserved = before * sectors_per_track + reserved;
    if let Some(groups) = groups {
        presume_groups(session, &mut zone, groups)?;
    }
    let first = zone.first_track();
    zone.origin = track_angle(session, &zone, first)?;
    zone.add_angle(first, zone.origin);
    let border = |stride: u64, times: u64| (first / stride + times) * stride;
    // Measure each step between two neighboring tracks first, then over ever more of its kind.
    let unit = pattern.unit.min(Pattern::NEVER);
    let noise = session.drive.noise_turns();
    let firsts = [(0, 1), (1, unit), (2, pattern.period())];
    for (kind, stride) in firsts {
        // Of two steps with the same stride, measure the one that the pattern has: the third, if
        // rows on one surface follow each other.
        let is_taken = stride < Pattern::NEVER && pattern.steps_to(stride, None)[kind] > 0;
        if !is_taken || out_of_reach(session, &zone, border(stride, 1)) {
            continue;
        }
        let angle = zone.track_angle(first);
        if kind == 2
            && let Some(moved) = moved_to_row_end(session, layout, &zone, border(stride, 1))?
        {
            // The steps after it are learned when the walk reaches them.
            zone.steps[2] = zone.steps[usize::from(pattern.units > 1)];
            tie_to_previous(session, &layout.zones, &mut zone, kind);
            turn_to(&mut zone, first, angle);
            let next = border(stride, 1);
            if !out_of_reach(session, &moved, next) {
                zone.steps[2] = step_before(session, &moved, next)?;
                // As good as one reading of the next such step.
                zone.tied[2] = (zone.steps[2], 1.0);
                tie_to_previous(session, &layout.zones, &mut zone, kind);
                turn_to(&mut zone, first, angle);
            }
            continue;
        }
        let (step, seen) = step_seen(session, &zone, border(stride, 1))?;
        zone.steps[kind] = step;
        tie_to_previous(session, &layout.zones, &mut zone, kind);
        turn_to(&mut zone, first, angle);
        zone.readings.extend(seen);
        let most = match kind {
            0 => unit - 1 - first % unit,
            1 if pattern.in_bands() => pattern.units - 1 - first / unit % pattern.units,
            _ => 4,
        };
        let mut times = 1;
        // If times are quiet, up to the end of a row, which the walk compares next.
        let is_row =
            kind == 0 && (MAX_SURFACES + 1..Pattern::NEVER).contains(&unit) && noise < QUIET_TURNS;
        let most = if is_row { most.saturating_sub(NEAR_TRACKS).max(1) } else { most.min(64) };
        while times <= most && !out_of_reach(session, &zone, border(stride, times)) {
            let slips =
                layout.slip_rate() * ((border(stride, times) - first) * sectors_per_track) as f64;
            let mut track = border(stride, times);
            // Slips on the way would pass for a part of the steps, and so would one on the track.
            if noise < QUIET_TURNS && slips > LIKELY_SLIPS {
                count_up_to(session, &mut zone, track - 1)?;
                if is_row {
                    track = without_slip(session, &mut zone, track)?;
                }
            }
            // A larger deviation is due to a defect or another zone, or the step is not known well
            // enough to go so far yet. In the latter case, go there in smaller steps.
            if !is_surely_as_predicted(session, &mut zone, track, MIN_DEVIATION)?
                && times > 1
                && noise >= QUIET_TURNS
            {
                let reach = border(stride, times) - first;
                for track in [reach / 2, reach * 3 / 4, reach].map(|track| first + track) {
                    is_surely_as_predicted(session, &mut zone, track, MIN_DEVIATION)?;
                }
            }
            times *= 2;
        }
    }
    read_first_tracks(session, &mut zone)?;
    read_first_round(session, &mut zone)?;
    Ok(zone)
}

/// A track, or one shortly after it, on which no sector is slipped. The zone then knows the slips
/// before it.
fn without_slip(session: &mut Session, zone: &mut ZoneModel, track: u64) -> Attempt<u64> {
    for later in track..track + NEAR_TRACKS {
        if out_of_reach(session, zone, later + 1)
            || count_up_to(session, zone, later)?.is_none_or(|slips| slips == 0)
        {
            return Ok(later);
        }
    }
    Ok(track + NEAR_TRACKS)
}

/// A zone with the sectors that are skipped before a band, which would move the step there; none if
/// bands are rows on one surface, and nothing is skipped.
fn moved_to_row_end(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &ZoneModel,
    next: u64,
) -> Attempt<Option<ZoneModel>> {
    let mut moved = zone.clone();
    moved.steps[2] = zone.steps[usize::from(zone.pattern.units > 1)];
    let sectors = (next - zone.first_track()) * zone.sectors_per_track;
    let has_slips = session.drive.noise_turns() < QUIET_TURNS
        && layout.slip_rate() * sectors as f64 > LIKELY_SLIPS;
    if has_slips {
        count_up_to_row_end(session, &mut moved, next)?;
    }
    let spares = match zone.groups {
        None => spares_before(session, layout, &moved, next)?,
        Some(_) => None,
    };
    let spares = spares.filter(|spares| spares.sectors > 0);
    if let Some(spares) = spares {
        record_skip(&mut moved, spares);
    }
    Ok((zone.pattern.units > 1 || has_slips || spares.is_some()).then_some(moved))
}

/// The spares of each track, if each has its own.
fn on_each_track(groups: Option<UsualGroups>) -> u64 {
    groups.filter(|groups| groups.tracks == 1).map_or(0, |groups| groups.spares)
}

/// Lets a zone have the groups of a zone before, with the number of spares for which the angle
/// jumps from one sector to the next where the first group ends; no groups if it does for none.
fn presume_groups(session: &mut Session, zone: &mut ZoneModel, usual: UsualGroups) -> Attempt<()> {
    let length = zone.sectors_per_track;
    let mut numbers = usual.spares_in(length).to_vec();
    numbers.dedup();
    zone.usual_groups = Some((usual.tracks, numbers[0]));
    for spares in numbers {
        let groups = SpareGroups { lbas: usual.tracks * length - spares, spares };
        if usual.tracks == 1 || jumps_at(session, zone, zone.group_start(groups, 1))? {
            zone.usual_groups = Some((usual.tracks, spares));
            (zone.groups, zone.groups_presumed) = (Some(groups), true);
            return Ok(());
        }
    }
    Ok(())
}

/// True if an address lies at the beginning of a track.
fn jumps_at(session: &mut Session, zone: &ZoneModel, lba: u64) -> Attempt<bool> {
    if lba <= zone.first_lba || lba >= session.drive.capacity {
        return Ok(false);
    }
    let length = zone.sectors_per_track as f64;
    // Backwards, so that nothing was read ahead.
    let after = session.angle_of_track(lba, length)?.turns;
    let before = session.angle_of_track(lba - 1, length)?.turns;
    let least = (SAME_TRACK / length).max(JUMP_NOISE * session.drive.noise_turns());
    Ok(wrap(after - before - 1.0 / length).abs() > least)
}

/// Ties a step to that of the zone before, if they differ by no more than noise. It is the same
/// skew in time, rounded to other sectors; in the same zone, to the same sectors.
pub(crate) fn tie_to_previous(
    session: &Session,
    zones: &[ZoneModel],
    zone: &mut ZoneModel,
    kind: usize,
) {
    let noise = session.drive.noise_turns();
    let Some(before) = zones.iter().rfind(|before| !before.unknown) else { return };
    let is_known =
        before.readings.len() >= KNOWN_READINGS && (kind == 0 || before.pattern == zone.pattern);
    if noise >= QUIET_TURNS
        && is_known
        && wrap(zone.steps[kind] - before.steps[kind]).abs() <= ALIKE_NOISE * noise
    {
        let rounding = if before.sectors_per_track == zone.sectors_per_track {
            SAME_SECTORS
        } else {
            ROUNDED_SECTORS
        };
        zone.steps[kind] = before.steps[kind];
        zone.tied[kind] = (before.steps[kind], noise * zone.sectors_per_track as f64 / rounding);
    }
}

/// Reads tracks all over the first period of the pattern if times are noisy, nearer ones first. The
/// ends of a period show the sum of the steps, but not each of them.
fn read_first_round(session: &mut Session, zone: &mut ZoneModel) -> Attempt<()> {
    let period = zone.pattern.period();
    if session.drive.noise_turns() < QUIET_TURNS
        || zone.pattern.unit <= MAX_SURFACES
        || period >= Pattern::NEVER
    {
        return Ok(());
    }
    let mut tracks: Vec<u64> = (0..ROUND_READS).map(|_| session.random.below(period)).collect();
    tracks.sort_unstable();
    for track in tracks {
        if !out_of_reach(session, zone, track) {
            is_as_predicted(session, zone, track)?;
        }
    }
    Ok(())
}

/// Turns the zone so that a track has an angle, after a change of steps.
fn turn_to(zone: &mut ZoneModel, track: u64, angle: f64) {
    zone.origin = part(zone.origin + angle - zone.track_angle(track));
}

/// Reads the first tracks of a short pattern one by one. Later reads are at the ends of cylinders,
/// which show the sum of the two steps, but not each of them.
fn read_first_tracks(session: &mut Session, zone: &mut ZoneModel) -> Attempt<()> {
    if zone.pattern.unit > MAX_SURFACES {
        return Ok(());
    }
    for track in (zone.first_track()..).take(FIRST_TRACKS.min(4 * zone.pattern.unit) as usize) {
        if !out_of_reach(session, zone, track) {
            is_as_predicted(session, zone, track)?;
        }
    }
    Ok(())
}

/// The beginning of a zone at or shortly after `lba`, its sectors per track, and the number of
/// sectors that its first track leaves out.
fn first_tracks(session: &mut Session, lba: u64, about: f64) -> Attempt<(u64, u64, u64)> {
    let first = measure_track(session, lba, about)?;
    let second = if first.end < session.drive.capacity {
        measure_track(session, first.end, first.density)?
    } else {
        first
    };
    let third = if second.end < session.drive.capacity {
        measure_track(session, second.end, first.density)?
    } else {
        second
    };
    let (one, two, three) = (first.end - lba, second.end - first.end, third.end - second.end);
    // A first track that seems longer is the remainder of the zone before plus a track whose angles
    // happen to continue without a jump.
    let (lba, one) =
        if lba > 0 && one > two && two == three { (lba + one - two, two) } else { (lba, one) };
    // Take the longest: one may have a skipped sector, and the first may begin late.
    let sectors_per_track = [one, two, three].into_iter().max().unwrap_or(1).max(1);
    // The second may be the last of a cylinder, with its spares.
    let is_whole = two.max(three) == sectors_per_track;
    let reserved =
        if one < sectors_per_track && is_whole && lba == 0 { sectors_per_track - one } else { 0 };
    Ok((lba, sectors_per_track, reserved))
}

pub(crate) fn out_of_reach(session: &Session, zone: &ZoneModel, track: u64) -> bool {
    zone.middle_of(track) >= session.drive.capacity
}
