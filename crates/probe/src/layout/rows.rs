//! Rows of many tracks with one step, and the step between bands.
//!
//! Tracks 2, 4, 8 … of the first zone are compared with "always a" until one deviates, and
//! bisection finds the first that does: the *unit*. Its step is *b*. The tracks at the ends of
//! units are compared with that pattern. If one deviates again, and the pattern continues after it,
//! there is a third step *c*. If times are noisy and none deviates that much, some tracks of each
//! unit are read: a *c* that differs less from *b* turns all units after it, and so shows in all of
//! their readings (`slight_step`).
//!
//! Example, 20 surfaces filled over bands of 256 cylinders: 255 times a (the cylinder skew), once b
//! (the next surface), 19 times; then c (the next band).

use serde::{Deserialize, Serialize};

use super::LayoutResult;
use super::border::{CountAt, MIN_DEVIATION, count};
use super::explain::{MAX_SPARE_TRACKS, MIN_SPARES};
use super::pattern::{FINEST_STEP, MAX_SURFACES, found_pattern};
use super::track::{measure_track, short_by};
use super::track_angle::{is_within, step_before, step_seen, track_angle};
use super::walk::{
    continues_to, count_up_to, first_deviation, likely_slips, record_count, record_skip,
};
use super::zone_model::{Pattern, Skip, ZoneModel};
use super::zone_start::out_of_reach;
use crate::numbers::{FAR, median, min_squares, part, spread, wrap};
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The most tracks of a unit: bands of some hundred cylinders, all surfaces of which have the step
/// of a cylinder.
const LONGEST_UNIT: u64 = 16_384;
/// The most units between steps of the third kind: the surfaces of a drive.
const MAX_UNITS: u64 = 64;
/// The most places with skipped sectors in a row of tracks.
const MAX_SKIPPED: u64 = 64;
/// From so many revolutions of slips on, an angle does not show their number.
const FAR_SLIPS: f64 = 0.4;
/// The tracks that have to continue alike after a row of which both ends were found.
const FEW_TRACKS: u64 = 8;
/// The most times that the error of the common step may add up to what seems another step (guess).
const MAX_DRIFTS: u64 = 4;
/// The units that are searched in one experiment if they have many tracks.
const ROWS: u64 = 4;
/// The tracks of each row that are read for a third step that differs little, if times are noisy.
const ROW_READS: u64 = 4;
/// The fewest of their readings, and the sum of squares that such a step explains, in variances of
/// a reading: chance explains some 20 by the best of two thousand patterns.
const ENOUGH_READINGS: usize = 24;
const SURE_SQUARES: f64 = 36.0;
/// The fewest times that it occurs: another layout explains one change or two.
const FEWEST_TIMES: u64 = 3;

/// Finds rows of many tracks: the zone with them, and with the step between them. None if there are
/// none. Where no other step follows, the error of the common one has added up on the way, as a few
/// slips that were not counted distort it; the search goes on with the zone fitted to that track.
pub(super) fn find_rows(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &ZoneModel,
    allowed: f64,
) -> Attempt<Option<ZoneModel>> {
    let mut fitted = zone.clone();
    for _ in 0..MAX_DRIFTS {
        let known = layout.slips;
        let mut zone = fitted.clone();
        let Some(row) = long_unit(session, layout, &mut fitted, allowed)? else { break };
        begin_in_unit(&mut zone, row);
        count_up_to_row_end(session, &mut zone, row.unit)?;
        let spares = spares_before(session, layout, &zone, row.unit)?
            .filter(|spares| spares.sectors >= MIN_SPARES && zone.groups.is_none());
        let mut moved = zone.clone();
        if let Some(spares) = spares {
            record_skip(&mut moved, spares);
        }
        let (step, seen) = step_seen(session, &moved, row.unit)?;
        if wrap(step - zone.steps[0]).abs() > allowed / 2.0 {
            zone.steps[1] = step;
            match spares {
                // The zone does not know the spares, so the readings after them do not fit to it.
                Some(_) => zone.tied[1] = (step, 1.0),
                None => zone.readings.extend(seen),
            }
            zone.fit();
            return Ok(Some(zone));
        }
        // What is skipped up to there is counted again.
        layout.slips = known;
        let track = fitted.first_track() + row.unit - row.before;
        let angle = track_angle(session, &fitted, track)?;
        fitted.add_angle(track, angle);
    }
    Ok(None)
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
/// it shows how long rows are; the first one may begin before the first address. The zone is fitted
/// up to there.
fn long_unit(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    allowed: f64,
) -> Attempt<Option<Row>> {
    let Some(first) = row_end(session, layout, zone, allowed, u64::MAX)? else {
        return Ok(None);
    };
    let last = zone.first_track() + first - 1;
    let Some(short) = short_by(session, layout, zone, last)? else {
        return Ok(Some(Row { unit: first, before: 0 }));
    };
    let start = zone.track_start(last + 1) - short;
    let mut next = ZoneModel::new(Pattern::PLAIN, start, zone.sectors_per_track);
    next.steps = zone.steps;
    // A slip on its first tracks must not change the step that many have shown.
    next.tied[0] = (next.steps[0], first as f64);
    next.origin = track_angle(session, &next, 0)?;
    next.add_angle(0, next.origin);
    // The zone may end shortly after it.
    let second = match row_end(session, layout, &mut next, allowed, FEW_TRACKS)? {
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
    row_end(session, layout, &mut next, allowed, u64::MAX)
}

/// The number of tracks of a zone up to the first that deviates from "always a". Skipped sectors
/// also move all sectors after them, but unlike a step they move the track boundaries as well. The
/// search continues after them. The tracks of the next row have to continue alike, or `enough` of
/// them.
fn row_end(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    allowed: f64,
    enough: u64,
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
            // A row has more tracks than the rate of slips was learned from before. If it is none,
            // they may be spares.
            let (known, end) = (layout.slips, zone.track_start(track));
            layout.note_slips(zone.approximate_between(zone.first_lba, end), end - zone.first_lba);
            let continues = continued_after(session, layout, zone, unit)? >= enough.min(unit);
            if !continues {
                layout.slips = known;
            }
            return Ok(continues.then_some(unit));
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

/// The number of tracks, up to a whole row, that continue after one as before it, all with the same
/// offset but for slips. At the end of a zone they differ from each other.
fn continued_after(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &ZoneModel,
    unit: u64,
) -> Attempt<u64> {
    let (mut first, mut continued) = (None, 0);
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
                return Ok(continued);
            }
        }
        continued = track;
    }
    Ok(unit)
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
    /// Addresses all over the units of many tracks, and the angles at which they completed.
    #[serde(default)]
    readings: Vec<(u64, f64)>,
}

impl ThirdStep {
    pub(super) fn new(zone: ZoneModel, allowed: f64) -> Self {
        let (trial, begun) = (zone.clone(), zone.first_track() / zone.pattern.unit);
        Self { zone, allowed, trial, begun, units: begun, found: None, readings: Vec::new() }
    }
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
/// how many units lie between two; the first may come earlier, if the zone begins in between. If
/// times are noisy, a step that differs little shows in readings of all units only.
pub(super) fn third_step(
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
        if let (UnitEnd::Usual, None) = (&end, search.found)
            && unit > MAX_SURFACES
        {
            read_row(session, trial, units - 1, &mut search.readings)?;
        }
        match (end, search.found) {
            (UnitEnd::Usual, None) if trial.skips.is_empty() => search.zone.clone_from(trial),
            (UnitEnd::Usual, _) => {}
            (UnitEnd::Other(start, step), None) => {
                search.found = Some((units - search.begun, step));
                let mut next = begin_again(trial, start);
                next.steps = search.zone.steps;
                next.origin = track_angle(session, &next, 0)?;
                next.add_angle(0, next.origin);
                (search.trial, search.begun, search.units) = (next, 0, 0);
            }
            (end, found) => {
                let slight =
                    if found.is_none() { slight_step(trial, &search.readings) } else { None };
                let mut zone = search.zone;
                if let Some(slight) = slight {
                    slight.apply(&mut zone, &search.trial, search.readings);
                }
                if let Some((first, step)) = found {
                    let second = if let UnitEnd::Other(..) = end { units } else { first };
                    zone.pattern.units = second.max(first);
                    let earlier = (zone.pattern.units - first) * unit;
                    zone.begin_with_track(zone.first_track() + earlier);
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

/// Reads some tracks of a row, if times are noisy.
fn read_row(
    session: &mut Session,
    zone: &ZoneModel,
    row: u64,
    readings: &mut Vec<(u64, f64)>,
) -> Attempt<()> {
    if session.drive.noise_turns() < QUIET_TURNS {
        return Ok(());
    }
    let sectors = zone.sectors_per_track;
    for _ in 0..ROW_READS {
        let track = row * zone.pattern.unit + session.random.below(zone.pattern.unit);
        let lba = zone.lba_from(track * sectors + session.random.below(sectors));
        if track >= zone.first_track()
            && let Some(seen) = session.try_angle(lba)?
            && wrap(seen.turns - zone.angle(lba)).abs() <= MIN_DEVIATION
        {
            readings.push((lba, seen.turns));
        }
    }
    Ok(())
}

/// A step of a third kind that differs little from the second.
#[derive(Clone, Copy, Debug)]
struct SlightStep {
    /// Units from one to the next, and those of the first before the zone.
    units: u64,
    before: u64,
    steps: [f64; 3],
    /// The weight of the third step relative to a reading.
    weight: f64,
}

/// The third step that explains readings best, if it explains far more than chance does, and more
/// than one change or two at any units, as skipped sectors cause.
fn slight_step(zone: &ZoneModel, readings: &[(u64, f64)]) -> Option<SlightStep> {
    let unit = zone.pattern.unit;
    let late: Vec<f64> =
        readings.iter().map(|(lba, turns)| wrap(turns - zone.angle(*lba))).collect();
    let (middle, allowed) = (median(&late), FAR * spread(&late));
    // After spares, tracks are where their number says, which a misread end may falsify.
    let spares = zone.skips.iter().find(|skip| skip.sectors >= MIN_SPARES);
    let end = spares.map_or(u64::MAX, |spares| spares.lba);
    let near: Vec<(u64, f64)> = readings
        .iter()
        .zip(late)
        .filter(|((lba, _), late)| *lba < end && (late - middle).abs() <= allowed)
        .map(|((lba, _), late)| (zone.track_of(*lba), late))
        .collect();
    let (first, last) = (near.first()?.0 / unit, near.last()?.0 / unit);
    if near.len() < ENOUGH_READINGS {
        return None;
    }
    let fit = |units: u64, before: u64| {
        let lines: Vec<([f64; 5], f64)> = near
            .iter()
            .map(|(track, late)| {
                let row = track / unit;
                let (within, thirds) = ((track - row * unit) as f64, (row + before) / units);
                // The clock may have drifted meanwhile.
                let drift = (row * row) as f64 / (last * last).max(1) as f64;
                ([1.0, within, row as f64, drift, thirds as f64], *late)
            })
            .collect();
        let found = min_squares(&lines, [1e-9; 5]);
        let left = |(row, late): &([f64; 5], f64)| {
            (row.iter().zip(found).map(|(part, factor)| part * factor).sum::<f64>() - late).powi(2)
        };
        (lines.iter().map(left).sum::<f64>(), found)
    };
    // Without a third step.
    let (plain, _) = fit(Pattern::NEVER, 0);
    let all = (2..=last + 1).flat_map(|units| (0..units).map(move |before| (units, before)));
    let (units, before, (left, found)) = all
        .map(|(units, before)| (units, before, fit(units, before)))
        .min_by(|one, other| one.2.0.total_cmp(&other.2.0))?;
    let explained = plain - left;
    let times = (last + before) / units - (first + before) / units;
    let [_, within, between, _, third] = found;
    let is_slight = third.abs() < MIN_DEVIATION;
    let [a, b, _] = zone.steps;
    let steps = [a + within, b + between - (unit - 1) as f64 * within];
    let is_sure = explained > SURE_SQUARES * left / near.len() as f64;
    (is_sure && is_slight && times >= FEWEST_TIMES).then(|| SlightStep {
        units,
        before,
        steps: [part(steps[0]), part(steps[1]), part(steps[1] + third)],
        weight: libm::sqrt(explained) / third.abs(),
    })
}

impl SlightStep {
    /// Gives a zone the step; `trial` knows all that is skipped before the readings.
    fn apply(self, zone: &mut ZoneModel, trial: &ZoneModel, readings: Vec<(u64, f64)>) {
        let unit = zone.pattern.unit;
        zone.pattern.units = self.units;
        zone.begin_with_track((zone.first_track() + self.before * unit) % (self.units * unit));
        (zone.steps, zone.tied[2]) = (self.steps, (self.steps[2], self.weight));
        let known = trial.skips.first().map_or(u64::MAX, |skip| skip.lba);
        zone.readings.extend(readings.into_iter().filter(|(lba, _)| *lba < known));
        zone.fit();
    }
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
    let mut after = begin_again(trial, start);
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

/// A zone of the same kind that begins with a track, and with a unit of the pattern, at an address.
/// Groups of several tracks may begin elsewhere; it has none.
fn begin_again(zone: &ZoneModel, first_lba: u64) -> ZoneModel {
    let mut next = ZoneModel::new(zone.pattern, first_lba, zone.sectors_per_track);
    next.groups = zone.groups.filter(|groups| groups.lbas < zone.sectors_per_track);
    next
}

/// The step from a band to the next, which begins with a track, where its rows were told apart by
/// seek times: if it differs from that between rows. Spares may lie before it. If times are noisy,
/// it is not measured: a late reading would look like such a step.
pub(crate) fn step_after_band(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &ZoneModel,
    next: u64,
) -> Attempt<Option<f64>> {
    if session.drive.noise_turns() >= QUIET_TURNS {
        return Ok(None);
    }
    let mut moved = zone.clone();
    match spares_before(session, layout, zone, next)? {
        Some(spares) if spares.sectors > 0 => record_skip(&mut moved, spares),
        Some(_) => {}
        None => return Ok(None),
    }
    let off = wrap(track_angle(session, &moved, next)? - moved.track_angle(next));
    Ok((off.abs() > FINEST_STEP).then(|| part(zone.steps[1] + off)))
}

/// Counts the slips up to the end of a row of tracks before `next`, but for its last track or
/// tracks, where spares may lie.
pub(super) fn count_up_to_row_end(
    session: &mut Session,
    zone: &mut ZoneModel,
    next: u64,
) -> Attempt<()> {
    let last = next.saturating_sub(2).max(zone.first_track());
    if count_up_to(session, zone, last)?.is_none() && last > MAX_SPARE_TRACKS {
        // Whole tracks may be spares.
        count_up_to(session, zone, last - MAX_SPARE_TRACKS)?;
    }
    Ok(())
}

/// The sectors skipped directly before a track, whole tracks among them; none if the tracks before
/// it deviate.
pub(super) fn spares_before(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::{DriveProfile, NoiseLevel};
    use headtime_sim::DriveTruth;

    #[test]
    fn with_noise_a_step_between_bands_that_differs_little_is_found_and_an_equal_one_is_not() {
        let mut profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        profile.geometry.heads = 5;
        for (differs, expected) in [(0.01, 5), (0.0, Pattern::NEVER)] {
            for zone in &mut profile.zones {
                let further = differs * f64::from(zone.sectors_per_track);
                zone.band_skew = Some(zone.track_skew + further.round());
            }
            for seed in 1..=4 {
                let noisy = NoiseLevel::Typical.apply(&profile);
                let mut bench = Bench::new(DriveTruth::draw(&noisy, seed).expect("a drive"));
                let layout = &mut bench.results.layout;
                let mut zone = layout.zones[0].clone();
                zone.pattern.units = Pattern::NEVER;
                layout.pattern = None;
                layout.third_step = Some(ThirdStep::new(zone, MIN_DEVIATION));
                while bench.results.layout.pattern.is_none() {
                    bench.run(seed, |session, results| {
                        let search = results.layout.third_step.take().expect("a search");
                        third_step(session, &mut results.layout, search)
                    });
                }
                let zone = &bench.results.layout.zones[0];
                assert_eq!(zone.pattern.units, expected, "seed {seed}");
                if differs > 0.0 {
                    let further = wrap(zone.steps[2] - zone.steps[1]);
                    assert!((further - differs).abs() < 0.004, "seed {seed}: {further}");
                }
            }
        }
    }

    #[test]
    fn a_step_between_bands_is_measured_although_it_differs_little() {
        let mut profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        profile.variation.jitter_us = 0.0;
        let (zone, heads) = (&mut profile.zones[0], u64::from(profile.geometry.heads));
        let sectors = f64::from(zone.sectors_per_track);
        zone.band_skew = Some(zone.track_skew + libm::round(0.01 * sectors));
        let expected = zone.band_skew.unwrap_or(0.0) / sectors;
        let mut bench = Bench::new(DriveTruth::nominal(&profile, 1).expect("a drive"));
        let mut zone = bench.results.layout.zones[0].clone();
        zone.pattern.units = Pattern::NEVER;
        let next = zone.pattern.unit * heads;
        let found = bench
            .run(1, |session, results| step_after_band(session, &mut results.layout, &zone, next));
        let found = found.expect("another step");
        assert!(wrap(found - expected).abs() < 1e-4, "{found}, not {expected}");
    }
}
