//! Resuming the layout after a range of addresses that is not understood.
//!
//! If tracks follow no known pattern, a zone model marked *unknown* stands for them
//! ([`ZoneModel::unknown`]). After it, at increasing distances, tracks are measured without
//! assumptions. Two equally long tracks give the sectors per track, a row of tracks gives the
//! common step, and the places with another step give the phase of the pattern, which is the same
//! all over the drive. This makes a *piece*: a zone model that begins in the middle of a period, as
//! if the sectors of the period before it were reserved. From there tracks are counted backwards at
//! doubling distances until one deviates. Bisection finds the first that fits, and the piece begins
//! there instead; so the unknown range shrinks from both sides. Then the piece is walked like any
//! zone. A remark reports what stays unknown; only predictions for it are wrong.
//!
//! Worked example, bands of 2 surfaces of 256 cylinders: the pattern ends at address 1,000,000. At
//! 4, 32 and 256 tracks after it no two tracks are alike; 2,048 tracks after it all have 900
//! sectors. The step differs at the 100th track and at the 356th, where it is as large as between
//! bands. So the piece begins at track 156 of a band. Counted backwards, 1,700 tracks are as
//! predicted: 348 stay unknown.

use super::LayoutResult;
use super::border::{CountAt, MIN_DEVIATION, count, middle_deviation};
use super::groups::{on_each_track, presume_groups};
use super::pattern::MAX_SURFACES;
use super::track::{measure_track, rough_density, short_by};
use super::track_angle::{is_as_predicted, step_before, track_angle};
use super::track_list::{TrackList, fit_list};
use super::walk::{count_up_to, first_deviation, record_skip};
use super::zone_model::{Pattern, Skip, SpareGroups, ZoneModel};
use super::zone_start::{allowed_within_row, out_of_reach, tie_to_previous, told_apart};
use crate::numbers::{median, part, wrap};
use crate::session::{Attempt, Interruption, Session};

/// The number of tracks left out at first, its growth factor, and the number of tries into which
/// the drive's tracks are divided at most: a few failures must not cost most of a drive.
const FIRST_SKIP: u64 = 4;
const GROWTH: u64 = 8;
const MIN_TRIES: u64 = 64;
/// The largest first number is the drive's tracks divided by this.
const MIN_SKIPS: u64 = 512;
/// The fewest tracks of a zone in the middle of the drive, and the fewest cylinders, or rows of
/// tracks on one surface. A zone that seems shorter began in the middle of one.
const MIN_TRACKS: u64 = 6;
const MIN_UNITS: u64 = 2;
/// The number of tracks measured to find two that are alike.
const MAX_MEASURED: usize = 4;
/// The number of zones before whose groups a piece may have.
const MAX_GROUPS: usize = 2;
/// The most tracks at the beginning of a piece that may belong to what lies before (guess).
const MAX_FOREIGN: u64 = 3;
/// The largest difference of a track's length from its density, as a share.
const ALIKE: f64 = 0.03;

/// Ends the last zone, or discards the one that was to begin there; what follows is unknown until
/// the layout resumes.
pub(crate) fn mark_unknown(session: &Session, layout: &mut LayoutResult) {
    let capacity = session.drive.capacity;
    let is_first = layout.zones.len() == 1;
    let Some(last) = layout.zones.last_mut() else { return };
    let reached = last.end_lba.unwrap_or_else(|| last.track_start(last.checked)).min(capacity);
    let least = last.first_lba
        + if is_first {
            last.sectors_per_track
        } else {
            min_tracks(last, capacity) * last.sectors_per_track
        };
    let model = last.clone();
    let from = if reached < least && !is_first {
        layout.zones.pop();
        model.first_lba
    } else {
        let end = reached.max(least).min(capacity);
        last.end_lba = Some(end);
        end
    };
    if from < capacity {
        add_unknown(layout, capacity, &model, from);
    }
}

/// True if the last zone ends too close to its beginning to be one.
pub(crate) fn is_none(zones: &[ZoneModel], capacity: u64) -> bool {
    let Some([_, last]) = zones.last_chunk::<2>() else { return false };
    last.end_lba.is_some_and(|end| {
        end < capacity && end < last.first_lba + min_tracks(last, capacity) * last.sectors_per_track
    })
}

/// The fewest tracks that a zone may have in the middle of the drive.
fn min_tracks(zone: &ZoneModel, capacity: u64) -> u64 {
    let units = match (zone.pattern.unit, zone.last_band) {
        (Pattern::NEVER.., _) => 0,
        // Such a zone may have a single narrow band.
        (_, Some((_, width))) => MIN_UNITS * width,
        // A unit that is a whole band may be followed by a narrower one.
        (unit, None) if zone.pattern.units == 1 => unit,
        (unit, None) => MIN_UNITS * unit,
    };
    // The place within the pattern was found, or the drive ends soon.
    let may_be_short = zone.reserved > 0
        || zone.first_lba + (MIN_UNITS + 1) * units * zone.sectors_per_track >= capacity;
    if may_be_short { MIN_TRACKS } else { units.max(MIN_TRACKS) }
}

/// Begins an unknown range; directly after another one, the two are merged.
fn add_unknown(layout: &mut LayoutResult, capacity: u64, model: &ZoneModel, from: u64) {
    let before = layout.zones.iter().filter(|zone| zone.unknown).count() as u32;
    let most = (capacity / model.sectors_per_track / MIN_SKIPS).max(FIRST_SKIP);
    if let Some(last) = layout.zones.last_mut().filter(|last| last.unknown) {
        last.end_lba = None;
        last.checked = further(last.checked, capacity / model.sectors_per_track);
        return;
    }
    let mut lost = ZoneModel::new(model.pattern, from, model.sectors_per_track);
    (lost.unknown, lost.steps) = (true, model.steps);
    let (place, times) = layout.lost_at;
    layout.lost_at = (from, if place == from { times + 1 } else { 1 });
    // If much is unknown already, or where it was tried before, the range is likely to be long.
    let tried = layout.lost_at.1 - 1;
    lost.checked = FIRST_SKIP.saturating_mul(GROWTH.saturating_pow(before + tried)).min(most);
    layout.zones.push(lost);
}

/// The number of tracks to leave out at the next try, on a drive of `tracks` tracks.
fn further(left_out: u64, tracks: u64) -> u64 {
    left_out.saturating_mul(GROWTH).min(left_out + (tracks / MIN_TRIES).max(1))
}

/// Tries to resume after the unknown range at the end of the known part; the next try is further
/// on.
pub(crate) fn resume(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    let Some(lost) = layout.zones.last().cloned() else { return Ok(()) };
    let sectors = lost.sectors_per_track;
    let place = lost.checked.saturating_mul(sectors).saturating_add(lost.first_lba);
    let capacity = session.drive.capacity;
    let found = if place.saturating_add(MIN_TRACKS * sectors) >= capacity {
        if let Some(last) = layout.zones.last_mut() {
            last.end_lba = Some(capacity);
        }
        return Ok(());
    } else {
        match piece_at(session, layout, place) {
            Err(Interruption::Failed(_)) => None,
            found => found?,
        }
    };
    let Some(last) = layout.zones.last_mut() else { return Ok(()) };
    match found {
        Some(mut piece) => {
            last.end_lba = Some(piece.first_lba);
            // Tracks are counted backwards as if nothing were skipped. A piece that was searched
            // for so, and then not understood, would be found in the same place again.
            let is_new = layout.lost_at.1 <= 1;
            piece.back_to = (is_new && piece.groups.is_none()).then_some(last.first_lba);
            layout.zones.push(piece);
        }
        None => last.checked = further(last.checked, capacity / sectors),
    }
    Ok(())
}

/// A piece that begins with the first whole track at or after an address; none if the tracks there
/// follow no known pattern.
fn piece_at(
    session: &mut Session,
    layout: &mut LayoutResult,
    place: u64,
) -> Attempt<Option<ZoneModel>> {
    let about = rough_density(session, place)?;
    let own = on_each_track(layout.usual_groups());
    let mut ends = vec![measure_track(session, place, about)?.end];
    let mut found = None;
    while found.is_none() && ends.len() <= MAX_MEASURED {
        let start = ends[ends.len() - 1];
        let track = measure_track(session, start, about)?;
        let length = track.end - start;
        if ((length + own) as f64 / track.density - 1.0).abs() < ALIKE {
            found = ends
                .windows(2)
                .find(|pair| pair[1] - pair[0] == length)
                .map(|pair| (pair[0], length));
        }
        ends.push(track.end);
    }
    let Some((start, lbas)) = found else { return Ok(None) };
    let (pattern, sectors) = (layout.pattern.unwrap_or(Pattern::PLAIN), lbas + own);
    let mut plain = ZoneModel::new(Pattern::PLAIN, start, sectors);
    plain.groups = (own > 0).then_some(SpareGroups { lbas, spares: own });
    if out_of_reach(session, &plain, MIN_TRACKS) {
        return Ok(None);
    }
    let mut angles = Vec::new();
    for track in 0..MIN_TRACKS {
        angles.push(track_angle(session, &plain, track)?);
    }
    let first = part(angles[1] - angles[0]);
    let around: Vec<f64> = angles.windows(2).map(|pair| wrap(pair[1] - pair[0] - first)).collect();
    (plain.origin, plain.steps[0]) = (angles[0], part(first + median(&around)));
    tie_to_previous(session, &layout.zones, &mut plain, 0);
    plain.add_angle(0, angles[0]);
    let phased = if pattern.unit >= Pattern::NEVER {
        Some((0, [plain.steps[0], 0.0, 0.0]))
    } else if pattern.unit <= MAX_SURFACES {
        short_phase(session, layout, &plain, pattern)?
    } else {
        long_phase(session, layout, &mut plain, pattern)?
    };
    let Some((phase, steps)) = phased else { return Ok(None) };
    let mut piece = begin_at(pattern, start, sectors, phase, steps, angles[0]);
    piece.usual_groups =
        layout.usual_groups().map(|groups| (groups.tracks, groups.spares_in(sectors)));
    for (kind, step) in steps.into_iter().enumerate() {
        // Tie the steps to the usual ones but do not replace them: the origin was computed with the
        // measured steps, and a small error in each of a hundred tracks adds up.
        tie_to_previous(session, &layout.zones, &mut piece, kind);
        piece.steps[kind] = step;
    }
    // The spares of groups of few tracks lie among the first tracks. The zone before what is not
    // understood may have been misread, so that those of one before count too.
    let groups = layout.groups().take(MAX_GROUPS).map(Some);
    for usual in core::iter::once(None).chain(groups) {
        let mut trial = piece.clone();
        if let Some(usual) = usual {
            presume_groups(session, &mut trial, usual)?;
            if trial.groups.is_none() {
                continue;
            }
            let first = trial.first_track();
            trial.origin = part(trial.origin + angles[0] - trial.track_angle(first));
        }
        let (first, mut alike) = (trial.first_track(), 0);
        for track in first..first + MIN_TRACKS {
            alike += u64::from(is_as_predicted(session, &mut trial, track)?);
        }
        if alike + 1 >= MIN_TRACKS {
            trial.checked = first;
            return Ok(Some(trial));
        }
    }
    Ok(None)
}

/// A zone model that begins with a track in the middle of a period, at an angle.
fn begin_at(
    pattern: Pattern,
    first_lba: u64,
    sectors: u64,
    phase: u64,
    steps: [f64; 3],
    angle: f64,
) -> ZoneModel {
    let mut piece = ZoneModel::new(pattern, first_lba, sectors);
    (piece.reserved, piece.steps) = (phase * sectors, steps);
    piece.origin = part(angle - piece.track_angle(phase));
    piece
}

/// The phase and the steps of a short pattern: those that fit a list of the tracks best. Each has
/// its own end there, because spares at the end of a cylinder would look like a part of its step.
pub(super) fn short_phase(
    session: &mut Session,
    layout: &mut LayoutResult,
    plain: &ZoneModel,
    pattern: Pattern,
) -> Attempt<Option<(u64, [f64; 3])>> {
    let mut list = TrackList::default();
    while !list.complete {
        list.extend(session, layout, plain, 3 * pattern.unit + MIN_TRACKS)?;
    }
    let found = fit_list(session, &list.tracks, plain.sectors_per_track, Some(pattern.unit));
    Ok(found.map(|found| (found.numbers[0], [found.steps[0], found.steps[1], 0.0])))
}

/// The phase and the steps of a long pattern, by searching for deviations from the common step.
fn long_phase(
    session: &mut Session,
    layout: &mut LayoutResult,
    plain: &mut ZoneModel,
    pattern: Pattern,
) -> Attempt<Option<(u64, [f64; 3])>> {
    let unit = pattern.unit;
    let usual = layout.zones.iter().rfind(|zone| !zone.unknown).map_or([0.0; 3], |zone| zone.steps);
    let allowed = allowed_within_row(session, &usual, pattern);
    // Where a band ends, the step may be the common one.
    let ends_alike = pattern.in_bands() && wrap(usual[2] - usual[0]).abs() < allowed;
    let reach = if ends_alike { 2 * unit } else { unit };
    let Some(to_step) =
        first_deviation(session, plain, reach + 1, allowed)?.filter(|track| *track <= reach)
    else {
        return Ok(None);
    };
    let to_border = if to_step > unit { to_step - unit } else { to_step };
    let a = plain.steps[0];
    let mut trial = begin_at(
        Pattern { unit, ..Pattern::PLAIN },
        plain.first_lba,
        plain.sectors_per_track,
        unit - to_border,
        [a; 3],
        plain.origin,
    );
    trial.groups = plain.groups;
    // Those up to the border are counted.
    plain.skips.iter().for_each(|skip| trial.skip(*skip));
    trial.counted_at.clone_from(&plain.counted_at);
    let units = if pattern.in_bands() { pattern.units } else { 1 };
    let (mut steps, mut spares) = (Vec::new(), Vec::new());
    for number in 1..=units {
        let border = number * unit;
        if out_of_reach(session, &trial, border + 1) {
            return Ok(None);
        }
        count_up_to(session, &mut trial, border - 2)?;
        let Some(short) = short_by(session, layout, &trial, border - 1)? else { return Ok(None) };
        if short > 0 {
            let end = trial.track_start(border) - short;
            record_skip(&mut trial, Skip { lba: end, sectors: short, approximate: false });
        }
        steps.push(step_before(session, &trial, border)?);
        // Correct the origin to the measured angle, so that the error of a step adds up over no
        // more than a row.
        let off = wrap(track_angle(session, &trial, border)? - trial.track_angle(border));
        trial.origin = part(trial.origin + off);
        spares.push(short);
    }
    let around: Vec<f64> = steps.iter().map(|step| wrap(step - steps[0])).collect();
    let b = part(steps[0] + median(&around));
    let of_band = 0.75 * told_apart(session, usual[2], usual[1]);
    let others: Vec<usize> =
        (0..steps.len()).filter(|number| wrap(steps[*number] - b).abs() > of_band).collect();
    let most = spares.iter().copied().max().unwrap_or(0);
    let last = match others[..] {
        [] => spares.iter().position(|short| *short == most).unwrap_or(0),
        [one] => one,
        _ => return Ok(None),
    };
    let period = unit * units;
    let phase = (period + unit - to_border + period - (last as u64 + 1) * unit) % period;
    Ok(Some((phase, [a, b, steps[last]])))
}

/// Searches backwards for the beginning of a piece, as far as the part known before it.
pub(crate) fn find_beginning(session: &mut Session, layout: &mut LayoutResult) -> Attempt<()> {
    let Some(piece) = layout.zones.last().cloned() else { return Ok(()) };
    let back_to = piece.back_to.unwrap_or(piece.first_lba);
    let earlier = earlier(session, &piece, back_to)?;
    let mut zones = core::mem::take(&mut layout.zones);
    let found = earlier.unwrap_or_else(|| {
        let mut same = piece;
        same.back_to = None;
        same
    });
    let (first, done) = (found.first_lba, found.back_to.is_none());
    zones.pop();
    if let Some(lost) = zones.last_mut().filter(|lost| lost.unknown) {
        lost.end_lba = Some(first);
        // Less than a track may go with the zone before.
        if done && first - lost.first_lba < found.sectors_per_track {
            zones.pop();
            if let Some(before) = zones.last_mut() {
                before.end_lba = Some(first);
            }
        }
    }
    zones.push(found);
    layout.zones = zones;
    Ok(())
}

/// The same piece with an earlier beginning; none if it cannot begin earlier.
fn earlier(session: &mut Session, piece: &ZoneModel, back_to: u64) -> Attempt<Option<ZoneModel>> {
    let sectors = piece.sectors_per_track;
    let room = (piece.first_lba - back_to) / sectors;
    if room == 0 {
        return Ok(None);
    }
    let period = if piece.pattern.unit >= Pattern::NEVER { 1 } else { piece.pattern.period() };
    let phase = piece.reserved / sectors;
    let start = phase + room.saturating_sub(phase).div_ceil(period) * period;
    // Assume that all tracks are alike from there on, and that nothing is skipped.
    let mut mirror = begin_at(
        piece.pattern,
        piece.first_lba - room * sectors,
        sectors,
        start,
        piece.steps,
        piece.track_angle(phase),
    );
    mirror.reserved = (start - room) * sectors;
    let fits = |session: &mut Session, back: u64| -> Attempt<Option<i64>> {
        let extra = count(session, &mirror, start - back, CountAt::Track)?.map(|(extra, _)| extra);
        Ok(extra.filter(|extra| *extra <= 0))
    };
    let (mut good, mut bad, mut stepped) = (0, room + 1, 0);
    let mut stride = 1;
    while good + 1 < bad {
        let back = if bad > room { (good + stride).min(room) } else { good + (bad - good) / 2 };
        match fits(session, back)? {
            Some(extra) => (good, stepped, stride) = (back, extra, stride * 2),
            None => bad = back,
        }
    }
    if good == 0 {
        return Ok(None);
    }
    let first_lba = mirror.track_start(start - good + 1).saturating_add_signed(-stepped) - sectors;
    // The last track of what lies before may seem to continue the piece.
    for later in 0..good.min(MAX_FOREIGN) {
        let track = start - good + later;
        let mut found = begin_at(
            piece.pattern,
            first_lba + later * sectors,
            sectors,
            track % period,
            piece.steps,
            mirror.track_angle(track),
        );
        let first = track % period;
        found.usual_groups = piece.usual_groups;
        let mut offs = Vec::new();
        for track in [0, 1, 2, 4, 8].map(|track| first + track) {
            if !out_of_reach(session, &found, track) {
                offs.push(middle_deviation(session, &found, track)?);
            }
        }
        let off = median(&offs);
        if offs.first().is_none_or(|first| wrap(first - off).abs() > MIN_DEVIATION) {
            continue;
        }
        found.origin = part(found.origin + off);
        for track in [0, 1, 2, 3, 4, 6, 8, 12, 16] {
            if !out_of_reach(session, &found, first + track) {
                is_as_predicted(session, &mut found, first + track)?;
            }
        }
        found.checked = first;
        found.back_to = Some(back_to);
        return Ok(Some(found));
    }
    Ok(None)
}

/// The ranges of addresses whose layout is unknown, as sentences.
pub(crate) fn unknown_ranges(zones: &[ZoneModel], capacity: u64) -> Vec<String> {
    let unknown = zones.iter().filter(|zone| zone.unknown);
    let sentence = |zone: &ZoneModel| {
        let end = zone.end_lba.unwrap_or(capacity);
        let percent = 100.0 * (end - zone.first_lba) as f64 / capacity.max(1) as f64;
        format!(
            "sectors {} to {} ({percent:.2} % of the drive) follow no known pattern of tracks; \
                predictions for them are guesses",
            zone.first_lba,
            end - 1
        )
    };
    unknown.map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::DriveProfile;
    use headtime_sim::DriveTruth;

    #[test]
    fn with_noise_too_a_piece_begins_in_any_phase_of_the_rhythm() {
        const PLACES: u64 = 8;
        for (name, seed) in [("cheetah10k7", 5), ("nearline-20tb", 5)] {
            let profile = DriveProfile { cache: None, ..plain(name) };
            let mut bench = Bench::new(DriveTruth::draw(&profile, seed).expect("a drive"));
            let (mut first, second) =
                (bench.results.layout.zones[0].clone(), bench.results.layout.zones[1].clone());
            // As if the first zone had been walked to its end: its steps are known, and those of
            // the second differ by rounding only.
            first.readings = vec![(0, first.angle(0)); 100];
            bench.results.layout.zones = vec![first];
            let (period, sectors) = (second.pattern.period(), second.sectors_per_track);
            let mut taken_up = 0;
            for number in 0..PLACES {
                // The first track at a place need not be whole.
                let track = 3 * period + number * period / PLACES;
                let found = bench.run(seed, |session, results| {
                    piece_at(session, &mut results.layout, second.track_start(track) + sectors / 2)
                });
                // Without spares nothing distinguishes the surfaces.
                let in_row = |track: u64| track % second.pattern.unit;
                let is_right = |piece: &ZoneModel| {
                    in_row(piece.reserved / sectors) == in_row(second.track_of(piece.first_lba))
                };
                taken_up += u64::from(found.as_ref().is_some_and(is_right));
            }
            assert!(taken_up + 1 >= PLACES, "{name}:drawn:{seed}: {taken_up} of {PLACES}");
        }
    }

    #[test]
    fn a_piece_begins_in_any_phase_although_surfaces_differ_little_from_cylinders() {
        const PLACES: u64 = 8;
        let mut profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        profile.variation.jitter_us = 0.0;
        for zone in &mut profile.zones {
            let further = 0.013 * f64::from(zone.sectors_per_track);
            zone.track_skew = zone.cylinder_skew + further.round();
            zone.band_skew = None;
        }
        let mut bench = Bench::new(DriveTruth::nominal(&profile, 1).expect("a drive"));
        let second = bench.results.layout.zones[1].clone();
        bench.results.layout.zones.truncate(1);
        let (period, sectors) = (second.pattern.period(), second.sectors_per_track);
        let mut right = 0;
        for number in 0..PLACES {
            let track = 3 * period + number * period / PLACES;
            let found = bench.run(1, |session, results| {
                piece_at(session, &mut results.layout, second.track_start(track) + sectors / 2)
            });
            let in_row = |track: u64| track % second.pattern.unit;
            let begins = found.map(|piece| in_row(piece.first_track()));
            let expected = in_row(second.track_of(second.track_start(track) + sectors));
            right += u64::from(begins == Some(expected));
        }
        assert!(right + 1 >= PLACES, "{right} of {PLACES}");
    }

    #[test]
    fn what_a_piece_did_not_explain_is_left_out_when_it_is_tried_again() {
        let profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        let mut bench = Bench::new(DriveTruth::nominal(&profile, 1).expect("a drive"));
        let next = bench.results.layout.zones[1].clone();
        bench.results.layout.zones.truncate(1);
        let mut left_out = Vec::new();
        for searches in [true, false, false] {
            // The piece found after the first zone is discarded each time.
            bench.results.layout.zones.truncate(1);
            let capacity = bench.drive.capacity;
            add_unknown(&mut bench.results.layout, capacity, &next, next.first_lba);
            left_out.push(bench.results.layout.zones[1].checked);
            bench.run(1, |session, results| resume(session, &mut results.layout));
            let piece = bench.results.layout.zones.last().expect("a piece");
            assert!(!piece.unknown && piece.back_to.is_some() == searches, "{piece:?}");
        }
        assert_eq!(left_out, [FIRST_SKIP, FIRST_SKIP * GROWTH, FIRST_SKIP * GROWTH * GROWTH]);
    }

    #[test]
    fn the_last_track_of_another_zone_does_not_begin_a_piece_though_it_seems_to_fit() {
        let mut profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        profile.zones[1].sectors_per_track = profile.zones[0].sectors_per_track;
        let zones = |profile: &DriveProfile| {
            let bench = Bench::new(DriveTruth::nominal(profile, 1).expect("a drive"));
            bench.results.layout.zones
        };
        let [before, piece] = [0, 1].map(|number| zones(&profile)[number].clone());
        let last = before.track_angle(before.track_of(piece.first_lba - 1));
        let period = piece.pattern.period();
        let step = piece.track_angle(period) - piece.track_angle(period - 1);
        // A count at its end accepts as much.
        let moved = 0.03;
        let layout = headtime_mechanics::Layout::new(&profile).expect("a layout");
        let origin = layout.spot(headtime_units::Lba::new(0)).angle.as_turns() - before.origin;
        profile.zones[1].first_angle_turns = Some(part(origin + last + step + moved));
        let mut bench = Bench::new(DriveTruth::nominal(&profile, 1).expect("a drive"));
        let piece = bench.results.layout.zones[1].clone();
        let back_to = piece.first_lba - piece.sectors_per_track;
        let found = bench.run(1, |session, _| earlier(session, &piece, back_to));
        assert_eq!(found.map(|found| found.first_lba), None);
    }

    #[test]
    fn no_few_failures_lose_most_of_a_drive() {
        let (tracks, mut left_out, mut tries) = (10_000_000, FIRST_SKIP, 0);
        while left_out < tracks {
            let before = left_out;
            left_out = further(left_out, tracks);
            assert!(
                left_out > before && left_out - before <= tracks / MIN_TRIES,
                "{before} to {left_out}"
            );
            tries += 1;
        }
        assert!((MIN_TRIES..2 * MIN_TRIES).contains(&tries), "{tries} tries");
        assert_eq!(further(FIRST_SKIP, 40), FIRST_SKIP + 1, "a drive of few tracks");
    }
}
