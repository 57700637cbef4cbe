//! Where a zone begins: its sectors per track, and the rhythm of its steps.
//!
//! The first three tracks give the sectors per track. The step to the second track is the commonest
//! one, *a*; tracks are compared with "always a" at 2, 4, 8 … until one deviates, and bisection
//! finds the first that does: the *unit*. Its step is *b*. Tracks are compared with that rhythm at
//! 1, 2, 4 … units; where they deviate again, and the rhythm goes on behind as before, there is a
//! third step *c*.
//!
//! Example, 20 surfaces filled over bands of 256 cylinders: 255 times a (the cylinder skew), once b
//! (the next surface), 19 times; then c (the next band).

use super::LayoutResult;
use super::border::{MIN_DEVIATION, Where, count};
use super::sector_count::count_sectors_per_track;
use super::track::{measure_track, rough_density, short_by};
use super::walk::take_skip;
use super::zone_model::{Pattern, Skip, SpareGroups, ZoneModel};
use crate::numbers::{median, min_squares, part, wrap};
use crate::session::{Attempt, Interruption, QUIET_TURNS, Session};

/// Most tracks of a unit (guess: bands of some hundred cylinders are usual).
const LONGEST_UNIT: u64 = 8_192;
/// Most units between steps of the third kind: the surfaces of a drive.
const MAX_UNITS: u64 = 64;
/// Tracks that a short rhythm is looked for on.
const FIRST_TRACKS: u64 = 96;
/// Most tracks of a short rhythm.
pub(crate) const MAX_SURFACES: u64 = 32;
/// Steps are told apart that differ by so many deviations of a reading, as noise has a long tail
/// and tracks have errors of their own, and by no less than this, turns (guesses).
const CLEAR_NOISE: f64 = 12.0;
const FINEST_STEP: f64 = 0.003;
/// Steps of two zones that differ by no more deviations of a reading are the same skew in time. The
/// sectors by which it may be another nevertheless, as skews are rounded to whole ones; and in the
/// same zone, as a fit is not better.
const ALIKE_NOISE: f64 = 3.0;
const ROUNDED_SECTORS: f64 = 1.0;
const SAME_SECTORS: f64 = 0.2;
/// Readings from which on the steps of a zone are known.
const KNOWN_READINGS: usize = 24;
/// Tracks of a zone's first round that are read where times are noisy.
const ROUND_READS: u64 = 32;
/// Readings of a zone's first tracks that lie further off its steps than so many deviations of one
/// were not of the tracks that they were taken for.
const UNEVEN_NOISE: f64 = 4.0;
/// First tracks of a zone of which three in four have to be as its steps say.
const HELD_TRACKS: u64 = 8;

/// The first zone, without its rhythm.
pub(crate) fn begin_first(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    let about = rough_density(session, 0)?;
    layout.zones = vec![begin(session, layout, 0, None, about, Pattern::PLAIN, None)?];
    Ok(())
}

/// The rhythm of all zones, from the first one.
pub(crate) fn find_pattern(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    let Some(mut zone) = layout.zones.first().cloned() else { return Ok(()) };
    let first = first_rhythm(session, &zone)?;
    let allowed = told_apart(session, first.scatter);
    let unit = match first.rhythm {
        Some((unit, [a, b])) => {
            zone.pattern.unit = unit;
            zone.steps = [a, b, 0.0];
            zone.readings.truncate(1);
            read_first_tracks(session, &mut zone)?;
            Some(unit)
        }
        None => long_unit(session, &mut zone, allowed)?,
    };
    if let Some(unit) = unit {
        if first.rhythm.is_none() {
            zone.pattern.unit = unit;
            let (step, seen) = step_seen(session, &zone, unit)?;
            zone.steps[1] = step;
            zone.readings.extend(seen);
            zone.fit();
        }
        third_step(session, layout, &mut zone, allowed)?;
    }
    // What was stepped over on the way is counted when the zone is walked.
    if let Some(first) = zone.skips.first().map(|skip| skip.lba) {
        zone.retain_skips(|_| false);
        zone.sounded.clear();
        zone.readings.retain(|reading| reading.0 < first);
    }
    layout.pattern = Some(zone.pattern);
    layout.zones = vec![zone];
    Ok(())
}

/// A rhythm of many tracks: up to the first one that is not as "always a" says. Sectors that are
/// stepped over move all behind them too, but with them the tracks' borders, as no step does; the
/// rhythm is looked for behind them.
fn long_unit(session: &mut Session, zone: &mut ZoneModel, allowed: f64) -> Attempt<Option<u64>> {
    let mut before = None;
    while let Some(unit) = first_deviation(session, zone, 1, LONGEST_UNIT, allowed)? {
        let stepped_over = count(session, zone, unit, Where::Here)?
            .map_or(0, |(extra, _)| extra.max(0).unsigned_abs());
        // Track 1 is where the first step was seen.
        if unit == 1 {
            break;
        }
        if stepped_over == 0 {
            return Ok(goes_on_behind(session, zone, unit)?.then_some(unit));
        }
        // What was counted here and is counted here again is none.
        if before == Some(unit) {
            break;
        }
        let end = zone.track_start(unit) - stepped_over;
        take_skip(zone, Skip { lba: end, sectors: stepped_over, loose: false });
        before = Some(unit);
    }
    Ok(None)
}

/// Whether tracks go on behind one as before it, all as much off: where a zone ends instead none is
/// like the other.
fn goes_on_behind(session: &mut Session, zone: &ZoneModel, unit: u64) -> Attempt<bool> {
    let mut first = None;
    for track in [0, 1, 4, 8, unit / 2, unit - 1].into_iter().filter(|track| *track < unit) {
        if !out_of_reach(session, zone, unit + track) {
            let off = track_angle(session, zone, unit + track)? - zone.track_angle(unit + track);
            if wrap(off - *first.get_or_insert(off)).abs() > MIN_DEVIATION {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// By how much steps differ that are told apart, turns: hardly anything where times are quiet and
/// tracks lie where their steps say, give or take a `scatter` of their own; else the error of the
/// first step adds up over a band until it looks like another.
fn told_apart(session: &Session, scatter: f64) -> f64 {
    let noise = session.drive.noise_turns();
    if noise < QUIET_TURNS {
        (CLEAR_NOISE * noise.max(scatter)).clamp(FINEST_STEP, MIN_DEVIATION)
    } else {
        MIN_DEVIATION
    }
}

/// Looks for a step of a third kind, unit by unit, stepping over what is stepped over.
fn third_step(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    allowed: f64,
) -> Attempt<()> {
    let unit = zone.pattern.unit;
    let mut trial = zone.clone();
    for units in 1..=MAX_UNITS {
        if out_of_reach(session, &trial, units * unit + 1) {
            return Ok(());
        }
        // The step behind it may be any.
        match short_by(session, layout, &trial, units * unit - 1)? {
            Some(0) => {}
            Some(short) => {
                let end = trial.track_start(units * unit) - short;
                take_skip(&mut trial, Skip { lba: end, sectors: short, loose: false });
            }
            None => return Ok(()),
        }
        if is_within(session, &mut trial, units * unit, allowed)? {
            if trial.skips.is_empty() {
                zone.clone_from(&trial);
            }
            continue;
        }
        if units == 1 {
            // There the second step was seen; a reading is late.
            continue;
        }
        let mut banded = trial.clone();
        banded.pattern.units = units;
        banded.steps[2] = step_before(session, &trial, units * unit)?;
        if wrap(banded.steps[2] - trial.steps[1]).abs() < 0.75 * allowed {
            continue;
        }
        // The rhythm must go on behind it: else it was the end of the zone, or a defect.
        for track in [
            units * unit + 1,
            units * unit + unit / 2,
            units * unit + unit - 1,
            units * unit + unit,
        ] {
            if out_of_reach(session, &banded, track)
                || !is_as_predicted(session, &mut banded, track)?
            {
                return Ok(());
            }
        }
        (zone.pattern, zone.steps[2]) = (banded.pattern, banded.steps[2]);
        return Ok(());
    }
    Ok(())
}

/// What the first tracks say all at once: so are steps told apart that differ by less than the
/// noise of one.
struct FirstTracks {
    /// A rhythm of few tracks, and its two steps.
    rhythm: Option<(u64, [f64; 2])>,
    /// How far tracks are off where steps put them: a standard deviation in turns, of most of them,
    /// as a slipped sector moves all behind it for good.
    scatter: f64,
}

fn first_rhythm(session: &mut Session, zone: &ZoneModel) -> Attempt<FirstTracks> {
    let rows = rows_of(session, zone, FIRST_TRACKS)?;
    let (plain, [_, every, _]) = fit_rhythm(&rows, Pattern::NEVER, 0);
    let most = MAX_SURFACES.min(rows.len() as u64 / 3);
    let best = (2..=most)
        .map(|unit| (fit_rhythm(&rows, unit, 0), unit))
        .min_by(|one, two| one.0.0.total_cmp(&two.0.0));
    // Rounding alone leaves some 10⁻⁶ turns.
    let floor = 1e-10 * rows.len() as f64;
    // Of some ninety readings chance alone explains a tenth or two.
    let best = best.filter(|((left, _), _)| plain > 1.5 * left.max(floor));
    let (unit, a, b) =
        best.map_or((Pattern::NEVER, every, 0.0), |((_, [_, a, b]), unit)| (unit, a, b));
    let off = |track: u64, pair: &[f64]| {
        (pair[1] - pair[0] - a - if (track + 1).is_multiple_of(unit) { b } else { 0.0 }).abs()
    };
    let off: Vec<f64> = rows.windows(2).zip(0..).map(|(pair, track)| off(track, pair)).collect();
    let rhythm =
        best.is_some().then(|| (unit, [part(zone.steps[0] + a), part(zone.steps[0] + a + b)]));
    Ok(FirstTracks { rhythm, scatter: NORMAL_OF_MEDIAN * median(&off) / core::f64::consts::SQRT_2 })
}

/// The standard deviation of what is normal, by the median of how far off it is.
const NORMAL_OF_MEDIAN: f64 = 1.4826;

/// The angles of the first tracks without whole turns, less the zone's first step for each.
pub(crate) fn rows_of(session: &mut Session, zone: &ZoneModel, tracks: u64) -> Attempt<Vec<f64>> {
    let mut angles: Vec<f64> = Vec::new();
    for track in 0..tracks {
        if out_of_reach(session, zone, track) {
            break;
        }
        angles.push(track_angle(session, zone, track)?);
    }
    let mut reached = 0.0;
    let mut rows = vec![0.0];
    for pair in angles.windows(2) {
        reached += wrap(pair[1] - pair[0] - zone.steps[0]);
        rows.push(reached);
    }
    Ok(rows)
}

/// What is left of such rows, squared and summed up, by a rhythm whose other step comes after every
/// `unit` tracks, `phase` of which lie before the first; and the fit: origin, a more for each
/// track, b less a for each unit.
pub(crate) fn fit_rhythm(rows: &[f64], unit: u64, phase: u64) -> (f64, [f64; 3]) {
    let feature = |track: usize| [1.0, track as f64, ((track as u64 + phase) / unit) as f64];
    let lines: Vec<([f64; 3], f64)> =
        rows.iter().enumerate().map(|(track, row)| (feature(track), *row)).collect();
    let found = min_squares(&lines, [1e-9; 3]);
    let left: f64 = lines
        .iter()
        .map(|(row, value)| {
            (row[0] * found[0] + row[1] * found[1] + row[2] * found[2] - value).powi(2)
        })
        .sum();
    (left, found)
}

/// A further zone at `lba`, in the rhythm that is known, of tracks of `sectors` if that is known.
pub(crate) fn begin_next(
    session: &mut Session,
    layout: &mut LayoutResult,
    lba: u64,
    sectors: Option<u64>,
    about: f64,
) -> Attempt<()> {
    let pattern = layout.pattern.unwrap_or(Pattern::PLAIN);
    // SpareGroups of the zone before are presumed here too: as many tracks, as many spares.
    let before = layout.zones.last();
    let groups = before.and_then(|before| {
        before
            .groups
            .map(|groups| ((groups.lbas + groups.spares) / before.sectors_per_track, groups.spares))
    });
    let steps = layout.zones.last().map_or([0.0; 3], |before| before.steps);
    let sectors = match sectors {
        Some(sectors) => Some(sectors),
        None => count_sectors_per_track(session, lba, about, pattern, steps)?,
    };
    let zone = begin(session, layout, lba, sectors, about, pattern, groups)?;
    let is_even = zone.deviation <= MIN_DEVIATION.max(UNEVEN_NOISE * session.drive.noise_turns());
    if !is_even || !holds(session, &zone)? {
        return Err(Interruption::Failed(format!(
            "the tracks from sector {} on do not go on in the rhythm of those before",
            zone.first_lba
        )));
    }
    if let Some(before) = layout.zones.last_mut() {
        before.end_lba = Some(zone.first_lba);
    }
    layout.zones.push(zone);
    Ok(())
}

/// Whether most of a zone's first tracks are as it predicts.
fn holds(session: &mut Session, zone: &ZoneModel) -> Attempt<bool> {
    let (mut tried, mut held) = (0, 0);
    let mut trial = zone.clone();
    for track in 1..=HELD_TRACKS {
        if !out_of_reach(session, &trial, track) {
            tried += 1;
            held += u64::from(is_as_predicted(session, &mut trial, track)?);
        }
    }
    Ok(4 * held >= 3 * tried)
}

/// The tracks at the beginning of a zone, and its steps as far as the rhythm is known.
fn begin(
    session: &mut Session,
    layout: &mut LayoutResult,
    lba: u64,
    sectors: Option<u64>,
    about: f64,
    pattern: Pattern,
    groups: Option<(u64, u64)>,
) -> Attempt<ZoneModel> {
    let (lba, sectors_per_track, reserved) = match sectors {
        Some(sectors) => (lba, sectors, 0),
        None => first_tracks(session, lba, about)?,
    };
    let mut zone = ZoneModel::new(pattern, lba, sectors_per_track);
    zone.groups = groups
        .map(|(tracks, spares)| SpareGroups { lbas: tracks * sectors_per_track - spares, spares });
    zone.groups_presumed = groups.is_some();
    zone.reserved = reserved;
    zone.origin = track_angle(session, &zone, 0)?;
    zone.take_angle(0, zone.origin);
    // Each step from one track to the next first, then over ever more of its kind.
    let unit = pattern.unit.min(Pattern::NEVER);
    let firsts = [(0, 1), (1, unit), (2, pattern.period())];
    for (kind, stride) in firsts {
        // Of two steps of the same stride that is taken which the rhythm has: of rows of one
        // surface, one after the other, the third.
        let is_taken = stride < Pattern::NEVER && pattern.steps_to(stride, None)[kind] > 0;
        if !is_taken || out_of_reach(session, &zone, stride) {
            continue;
        }
        if kind == 2 && pattern.units > 1 {
            // Spares before it move it; what follows further on is learned when it is come to.
            zone.steps[2] = zone.steps[1];
            take_usual(session, &layout.zones, &mut zone, kind);
            let mut moved = zone.clone();
            if groups.is_none()
                && let Some(short) =
                    short_by(session, layout, &moved, stride - 1)?.filter(|short| *short > 0)
            {
                let end = moved.track_start(stride) - short;
                take_skip(&mut moved, Skip { lba: end, sectors: short, loose: false });
            }
            if !out_of_reach(session, &moved, stride) {
                zone.steps[2] = step_before(session, &moved, stride)?;
                zone.usual[2] = (0.0, 0.0);
                take_usual(session, &layout.zones, &mut zone, kind);
            }
            continue;
        }
        let (step, seen) = step_seen(session, &zone, stride)?;
        zone.steps[kind] = step;
        take_usual(session, &layout.zones, &mut zone, kind);
        zone.readings.extend(seen);
        let most = match kind {
            0 => unit - 1,
            1 if pattern.in_bands() => pattern.units - 1,
            _ => 4,
        };
        let mut times = 1;
        while times <= most.min(64) && !out_of_reach(session, &zone, stride * times) {
            // A reading off by more is a defect's or another zone's, or the step is not known well
            // enough yet to go so far: then from where it was.
            if !is_surely_as_predicted(session, &mut zone, stride * times, MIN_DEVIATION)?
                && times > 1
                && session.drive.noise_turns() >= QUIET_TURNS
            {
                for track in [stride * times / 2, stride * times * 3 / 4, stride * times] {
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

/// A step that differs from the one of the zone before by no more than noise explains is the same
/// skew in time, rounded to other sectors, or in the same zone to the same: it is held near that,
/// as far as that is better known.
pub(crate) fn take_usual(
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
        zone.usual[kind] = (before.steps[kind], noise * zone.sectors_per_track as f64 / rounding);
    }
}

/// Reads tracks all over the first round of the rhythm where times are noisy, nearer ones first:
/// its ends tell the sum of the steps but not them apart.
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

/// Reads the first tracks of a short rhythm one by one: those further on are read at the ends of
/// cylinders, which tell the two steps' sum but not them apart.
fn read_first_tracks(session: &mut Session, zone: &mut ZoneModel) -> Attempt<()> {
    if zone.pattern.unit > MAX_SURFACES {
        return Ok(());
    }
    for track in 0..FIRST_TRACKS.min(4 * zone.pattern.unit) {
        if !out_of_reach(session, zone, track) {
            is_as_predicted(session, zone, track)?;
        }
    }
    Ok(())
}

/// Where a zone that begins at or shortly behind `lba` begins, its sectors per track, and how many
/// of the first track are left out.
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
    // What looks like a longer first track is the rest of the zone before and one track whose
    // angles happen to follow without a jump.
    let (lba, one) =
        if lba > 0 && one > two && two == three { (lba + one - two, two) } else { (lba, one) };
    // The longest of them: an address may be stepped over in one, and the first may begin late.
    let sectors_per_track = [one, two, three].into_iter().max().unwrap_or(1).max(1);
    let reserved = if one < sectors_per_track && two == sectors_per_track && lba == 0 {
        sectors_per_track - one
    } else {
        0
    };
    Ok((lba, sectors_per_track, reserved))
}

pub(crate) fn out_of_reach(session: &Session, zone: &ZoneModel, track: u64) -> bool {
    zone.middle_of(track) >= session.drive.capacity
}

/// A track's angle: the middle one of as many readings as the noise asks for.
pub(crate) fn track_angle(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<f64> {
    track_angle_seen(session, zone, track, &mut Vec::new())
}

/// The same; what was read is added to `seen`.
fn track_angle_seen(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    seen: &mut Vec<(u64, f64)>,
) -> Attempt<f64> {
    let noise = session.drive.noise_turns();
    let readings = if noise < 0.001 || session.drive.hits.keeps_tracks {
        1
    } else if noise < 0.003 {
        3
    } else {
        5
    };
    let mut angles = Vec::new();
    for _ in 0..readings {
        let (lba, angle) = one_angle(session, zone, track, false)?;
        seen.push((lba, part(angle + zone.track_part(lba))));
        angles.push(angle);
    }
    let around: Vec<f64> = angles.iter().map(|angle| wrap(angle - angles[0])).collect();
    Ok(part(angles[0] + median(&around)))
}

/// A track's angle by one reading, of a sector somewhere in its middle that the cache does not
/// hold, which comes with it. Not by an earlier reading where it has to be read `again`.
fn one_angle(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    again: bool,
) -> Attempt<(u64, f64)> {
    if zone.middle_of(track) >= session.drive.capacity {
        return Err(Interruption::Failed(format!(
            "track {track} of the zone from {} on lies behind the drive's end",
            zone.first_lba
        )));
    }
    let sectors = zone.sectors_per_track;
    let any = |session: &mut Session| {
        zone.lba_from(
            track * sectors + sectors / 6 + session.random.below((2 * sectors / 3).max(1)),
        )
    };
    let mut first = true;
    for _ in 0..4 {
        // Where whole tracks are kept a sector of it that was read says as much, and no other is to
        // be had.
        if session.drive.hits.keeps_tracks
            && !core::mem::take(&mut first)
            && !again
            && let Some((lba, seen)) =
                session.recent_angle(zone.track_start(track), zone.track_start(track + 1))
        {
            return Ok((lba, part(seen.turns - zone.track_part(lba))));
        }
        let lba = any(session).min(session.drive.capacity - 1);
        if let Some(seen) = session.try_angle(lba)? {
            return Ok((lba, part(seen.turns - zone.track_part(lba))));
        }
    }
    let lba = any(session).min(session.drive.capacity - 1);
    Ok((lba, part(session.angle(lba)?.turns - zone.track_part(lba))))
}

/// Whether a track and the one behind it lie where a zone predicts, or all of them as much off as
/// what is stepped over moves them: another zone's would be anywhere.
pub(crate) fn goes_on(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<bool> {
    let mut offs = Vec::new();
    for track in [track, track + 1, track, track + 1] {
        if out_of_reach(session, zone, track) {
            return Ok(false);
        }
        offs.push(wrap(track_angle(session, zone, track)? - zone.track_angle(track)));
    }
    Ok(offs.iter().all(|off| wrap(off - offs[0]).abs() <= MIN_DEVIATION))
}

/// The step to a track from the one before, measured some times.
pub(crate) fn step_before(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<f64> {
    Ok(step_seen(session, zone, track)?.0)
}

/// The same, with the addresses and angles that said so: a fit over ever longer stretches needs
/// them, as an error of one step hides behind that of another.
fn step_seen(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
) -> Attempt<(f64, Vec<(u64, f64)>)> {
    // Where whole tracks are kept the same readings would only come again.
    let times = if session.drive.hits.keeps_tracks && session.drive.noise_turns() < QUIET_TURNS {
        1
    } else {
        3
    };
    let (mut steps, mut seen) = (vec![0.0; times], Vec::new());
    for step in &mut steps {
        let behind = track_angle_seen(session, zone, track, &mut seen)?;
        *step = part(behind - track_angle_seen(session, zone, track - 1, &mut seen)?);
    }
    // Around the first, so that a step near a whole turn has a middle.
    let around: Vec<f64> = steps.iter().map(|step| wrap(step - steps[0])).collect();
    Ok((part(steps[0] + median(&around)), seen))
}

/// Whether a track lies where the zone predicts, by the second try at the latest; if so the zone
/// learns from it.
pub(crate) fn is_as_predicted(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
) -> Attempt<bool> {
    is_within(session, zone, track, MIN_DEVIATION)
}

/// The same to so many turns.
fn is_within(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
    allowed: f64,
) -> Attempt<bool> {
    for attempt in 0..3 {
        let (_, angle) = one_angle(session, zone, track, attempt > 0)?;
        if wrap(angle - zone.track_angle(track)).abs() <= allowed {
            zone.take_angle(track, angle);
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same by the middle one of some readings, where times are noisy: a single one that is late by
/// less than a skew is believed, and misleads all that follow at twice the distance each. Where a
/// cache keeps whole tracks the same one is not to be had twice at that price.
fn is_surely_as_predicted(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
    allowed: f64,
) -> Attempt<bool> {
    if session.drive.hits.keeps_tracks {
        return is_within(session, zone, track, allowed);
    }
    for _ in 0..2 {
        let mut seen = Vec::new();
        let angle = track_angle_seen(session, zone, track, &mut seen)?;
        if wrap(angle - zone.track_angle(track)).abs() <= allowed {
            // All of them, as of those of the first step: the middle one of a few is earlier than
            // their mean where noise makes late, and says more than one.
            seen.retain(|(lba, turns)| wrap(turns - zone.angle(*lba)).abs() <= 2.0 * allowed);
            zone.readings.extend(seen);
            zone.take_reading_last();
            return Ok(true);
        }
    }
    Ok(false)
}

/// The first multiple of `stride`, up to `most` of them, whose track is not as predicted to so many
/// turns.
pub(crate) fn first_deviation(
    session: &mut Session,
    zone: &mut ZoneModel,
    stride: u64,
    most: u64,
    allowed: f64,
) -> Attempt<Option<u64>> {
    let (mut good, mut bad) = (0, 1);
    loop {
        if bad > most || out_of_reach(session, zone, bad * stride) {
            return Ok(None);
        }
        if !is_surely_as_predicted(session, zone, bad * stride, allowed)? {
            break;
        }
        good = bad;
        bad *= 2;
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_surely_as_predicted(session, zone, middle * stride, allowed)? {
            good = middle
        } else {
            bad = middle
        }
    }
    Ok(Some(bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rhythm_is_fitted_best_at_its_own_phase_and_length() {
        for (unit, phase) in [(2, 1), (3, 0), (4, 3), (8, 5)] {
            let rows: Vec<f64> = (0..40_u64)
                .map(|track| 0.01 * track as f64 + 0.03 * ((track + phase) / unit) as f64)
                .collect();
            let best = (2..=12).flat_map(|unit| (0..unit).map(move |phase| (unit, phase))).min_by(
                |one, two| {
                    let left = |(unit, phase): (u64, u64)| fit_rhythm(&rows, unit, phase).0;
                    left(*one).total_cmp(&left(*two))
                },
            );
            assert_eq!(best, Some((unit, phase)));
            let (_, [_, a, b]) = fit_rhythm(&rows, unit, phase);
            assert!((a - 0.01).abs() < 1e-6 && (b - 0.03).abs() < 1e-6, "{a} {b}");
        }
    }
}
