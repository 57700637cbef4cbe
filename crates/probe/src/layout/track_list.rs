//! The first tracks of a zone one by one: where each begins and ends, and at which angle.
//!
//! The pattern of a zone cannot be read from angles alone while spares are unknown: they move all
//! later sectors, as a step does, and spares after every few cylinders would look like cylinders of
//! as many surfaces. So each track is listed with its own end. Then the step from track to track
//! is known apart from spares, and the pattern that fits all of them best gives the surfaces of a
//! cylinder and the phase: how many tracks of the first cylinder lie before the first address.
//! Spares of a track and more take whole tracks out; after them, another cylinder begins.
//!
//! Worked example, 5 surfaces, 2 tracks reserved, 100 sectors per track, 30 spares after every 2
//! cylinders: tracks of 100 sectors; the 8th has 70, then each 10th. The steps are a a b a a a a b,
//! so the unit is 5 and the phase 2. From the 8th track's end to the 18th's are 970 addresses on 10
//! tracks: groups of 970 addresses and 30 spares, of which the first 200 are reserved.

use serde::{Deserialize, Serialize};

use super::LayoutResult;
use super::explain::MIN_SPARES;
use super::pattern::{FINEST_STEP, MAX_SURFACES};
use super::track::{measure_track, short_by};
use super::track_angle::{readings, track_angle};
use super::zone_model::{Pattern, SpareGroups, ZoneModel};
use super::zone_start::out_of_reach;
use crate::numbers::{FAR, median, min_squares, part, wrap};
use crate::session::{Attempt, Interruption, QUIET_TURNS, Session};

/// The number of tracks that show the pattern of any number of surfaces: three cylinders.
pub(super) const LISTED: u64 = 3 * MAX_SURFACES + 8;
/// The number of tracks of one step. If the drive keeps whole tracks, one takes hundreds of reads;
/// a step is replayed for each of its reads.
const STEP: usize = 32;
/// The number of cylinders that show spares of whole tracks.
const MIN_CYLINDERS: usize = 4;
/// A pattern is better than another one if its squares of residuals are so many times smaller. Of
/// about a hundred readings, chance alone explains 10 to 20 %.
const BETTER: f64 = 1.5;
/// The fewest tracks on either side of a step, and the sum of squares that it has to explain, in
/// variances of a track: chance explains some 10 by the best of a hundred places.
const MIN_ALIKE: usize = 4;
const SURE_SQUARES: f64 = 36.0;
/// The variance of a reading without noise: rounding leaves about 10⁻⁶ revolutions.
const MIN_VARIANCE: f64 = 1e-10;

/// A track.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ListedTrack {
    pub(super) start: u64,
    pub(super) lbas: u64,
    /// Sectors of the revolution before the first address.
    pub(super) reserved: u64,
    /// The angle of the track's first sector less one sector.
    pub(super) angle: f64,
}

/// A list of tracks in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct TrackList {
    pub(super) tracks: Vec<ListedTrack>,
    /// The list is complete.
    pub(super) complete: bool,
    /// The ends of tracks were measured, not assumed.
    measured: bool,
}

/// The pattern of some listed tracks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ListedPattern {
    pub(super) unit: u64,
    /// The number of each track, and of the one after the last, from the beginning of a unit.
    pub(super) numbers: Vec<u64>,
    /// The common step and the one between units.
    pub(super) steps: [f64; 2],
    /// The squares of residuals of all tracks.
    left: f64,
}

impl TrackList {
    /// Lists some more tracks from the beginning of a zone of which the sectors per track are
    /// known, up to `most` in all; fewer if one is longer than that.
    ///
    /// If the drive keeps whole tracks in its cache, the end of a track costs an eviction. Then the
    /// ends are assumed first, and measured only if no pattern fits.
    pub(super) fn extend(
        &mut self,
        session: &mut Session,
        layout: &mut LayoutResult,
        zone: &ZoneModel,
        most: u64,
    ) -> Attempt<()> {
        if session.drive.hits.keeps_tracks && !self.measured {
            self.assume(session, zone, most)?;
            self.measured = true;
            let sectors = zone.sectors_per_track;
            self.complete = has_pattern(session, &self.tracks, sectors)
                // Each track has spares: the ends are right, but not the distances.
                || zone.groups.is_none()
                    && sectors_of_revolution(session, &self.tracks, sectors)? > sectors;
            if !self.complete {
                self.tracks.clear();
            }
            return Ok(());
        }
        let max_of_step = if session.drive.hits.keeps_tracks { 1 } else { STEP };
        for _ in 0..max_of_step {
            self.complete =
                (self.tracks.len() as u64) >= most || !self.measure_one(session, layout, zone)?;
            if self.complete {
                break;
            }
        }
        Ok(())
    }

    /// Lists tracks as if none ended early.
    fn assume(&mut self, session: &mut Session, zone: &ZoneModel, most: u64) -> Attempt<()> {
        let sectors = zone.sectors_per_track;
        for track in (zone.first_track()..).take(most as usize) {
            if out_of_reach(session, zone, track) {
                break;
            }
            let (start, end) = (zone.track_start(track), zone.track_start(track + 1));
            let angle = track_angle(session, zone, track)?;
            let reserved = if self.tracks.is_empty() { zone.reserved % sectors } else { 0 };
            self.tracks.push(ListedTrack { start, lbas: end - start, reserved, angle });
        }
        Ok(())
    }

    /// Lists one more track; false if there is none.
    fn measure_one(
        &mut self,
        session: &mut Session,
        layout: &mut LayoutResult,
        zone: &ZoneModel,
    ) -> Attempt<bool> {
        let sectors = zone.sectors_per_track;
        let (start, reserved) = match self.tracks.last() {
            Some(last) => (last.start + last.lbas, 0),
            None => (zone.first_lba, zone.reserved % sectors),
        };
        if start + sectors >= session.drive.capacity {
            return Ok(false);
        }
        let mut local = ZoneModel::new(Pattern::PLAIN, start, sectors);
        local.reserved = reserved;
        local.origin = angle_between(session, &local, (sectors / 8, sectors / 2))?;
        let mut short = short_by(session, layout, &local, 0)?;
        if short.is_none() && session.evict_if_noisy()? {
            // The reading of its angle may have been late.
            local.origin = angle_between(session, &local, (sectors / 8, sectors / 2))?;
            short = short_by(session, layout, &local, 0)?;
        }
        let lbas = match short {
            Some(short) => sectors - reserved - short,
            None => {
                // Less than a half of it has addresses, or it belongs to another zone.
                let lbas = match measure_track(session, start, sectors as f64) {
                    Ok(track) => track.end - start,
                    Err(Interruption::Failed(_)) => return Ok(false),
                    Err(other) => return Err(other),
                };
                if lbas > sectors - reserved || lbas < 2 {
                    return Ok(false);
                }
                local.origin = angle_between(session, &local, (reserved, reserved + lbas))?;
                lbas
            }
        };
        self.tracks.push(ListedTrack { start, lbas, reserved, angle: local.origin });
        Ok(true)
    }
}

/// The sectors of a whole revolution by the angles along listed tracks of `length` sectors at most.
/// They are more than `length` if each track has spares, and as many if the difference is no more
/// than noise.
pub(super) fn sectors_of_revolution(
    session: &mut Session,
    tracks: &[ListedTrack],
    length: u64,
) -> Attempt<u64> {
    let mut found = Vec::new();
    for track in tracks.iter().filter(|track| track.lbas > length / 2).take(SPEED_TRACKS) {
        let inset = track.lbas / 16;
        let (first, last) = (track.start + inset, track.start + track.lbas - 1 - inset);
        // Backwards, so that nothing was read ahead. If the drive keeps whole tracks, the second
        // sector has to be evicted.
        let keeps_tracks = session.drive.hits.keeps_tracks;
        let mut read = |lba| {
            if keeps_tracks { session.angle(lba).map(Some) } else { session.try_angle(lba) }
        };
        if let Some(after) = read(last)?
            && let Some(before) = read(first)?
        {
            let turns = part(after.turns - before.turns);
            if turns > 0.0 {
                found.push((last - first) as f64 / turns);
            }
        }
    }
    let error = SURE * session.drive.noise_turns() * length as f64;
    let sectors = median(&found);
    let is_longer = found.len() > SPEED_TRACKS / 2 && sectors > length as f64 + error.max(1.5);
    Ok(if is_longer { libm::round(sectors) as u64 } else { length })
}

/// The number of tracks that show how fast sectors pass, and the deviations of one reading that are
/// more than noise.
const SPEED_TRACKS: usize = 8;
const SURE: f64 = 12.0;

/// True if a short pattern explains all tracks of a list.
fn has_pattern(session: &Session, tracks: &[ListedTrack], sectors: u64) -> bool {
    let noise = session.drive.noise_turns().max(1.0 / sectors as f64);
    let allowed = noise * noise * tracks.len() as f64;
    let plain = fitted(tracks, sectors, Pattern::NEVER, 0, Whole::Never);
    let found = fit_list(session, tracks, sectors, None);
    plain.left <= allowed || found.is_some_and(|found| found.left <= allowed)
}

/// The angle of a zone's first track by sectors between two of it.
fn angle_between(session: &mut Session, zone: &ZoneModel, (from, end): (u64, u64)) -> Attempt<f64> {
    let mut angles = Vec::new();
    for _ in 0..readings(session) {
        let mut found = None;
        for _ in 0..3 {
            let lba = zone.lba_from(from + session.random.below((end - from).max(1)));
            if let Some(seen) = session.try_angle(lba)? {
                found = Some((lba, seen.turns));
                break;
            }
        }
        let (lba, turns) = match found {
            Some(found) => found,
            None => {
                let lba = zone.lba_from(from + session.random.below((end - from).max(1)));
                (lba, session.angle(lba)?.turns)
            }
        };
        angles.push(part(turns - zone.track_part(lba)));
    }
    let around: Vec<f64> = angles.iter().map(|angle| wrap(angle - angles[0])).collect();
    Ok(part(angles[0] + median(&around)))
}

/// The short pattern that fits listed tracks best, of a known unit or of any; none if they all have
/// one step, or no pattern is clearly better than that.
pub(super) fn fit_list(
    session: &Session,
    tracks: &[ListedTrack],
    sectors: u64,
    unit: Option<u64>,
) -> Option<ListedPattern> {
    if tracks.len() < 6 {
        return None;
    }
    let noise = session.drive.noise_turns();
    let rounding = MIN_VARIANCE * tracks.len() as f64;
    let floor = rounding.max(noise * noise * tracks.len() as f64);
    let plain = fitted(tracks, sectors, Pattern::NEVER, 0, Whole::Never);
    let units = match unit {
        Some(unit) => unit..=unit,
        None => 2..=MAX_SURFACES.min(tracks.len() as u64 / 2),
    };
    // Prefer the beginning of a unit, and spares of less than a track, to what fits little better.
    let mut best: Option<ListedPattern> = None;
    let mut consider = |phases: core::ops::Range<u64>, whole: Whole| {
        let mut found: Option<ListedPattern> = None;
        for unit in units.clone() {
            for phase in phases.start..phases.end.min(unit) {
                let fit = fitted(tracks, sectors, unit, phase, whole);
                // Of two that differ by rounding only, the one of fewer surfaces.
                if found.as_ref().is_none_or(|found| found.left > fit.left.max(rounding)) {
                    found = Some(fit);
                }
            }
        }
        if let Some(found) = found
            && best.as_ref().is_none_or(|best| best.left > BETTER * found.left.max(floor))
        {
            best = Some(found);
        }
        best.as_ref().is_some_and(|best| best.left <= 2.0 * floor)
    };
    let distinct = (FAR * noise).max(1.5 / sectors as f64);
    // A row of many tracks ends once or twice in the list; cylinders end again and again.
    let usual = usual_step(tracks);
    let others = tracks
        .windows(2)
        .filter(|pair| wrap(pair[1].angle - pair[0].angle - usual).abs() > distinct)
        .count();
    let has_cylinders = noise < QUIET_TURNS && others >= MIN_CYLINDERS;
    let has_spares = tracks.iter().any(|track| track.skipped(sectors) >= MIN_SPARES);
    let _ = consider(0..1, Whole::Never)
        || consider(1..MAX_SURFACES, Whole::Never)
        || has_spares && consider(0..MAX_SURFACES, Whole::AfterSpares)
        || has_cylinders && consider(0..MAX_SURFACES, Whole::AfterOtherSteps(distinct));
    let best = best
        .filter(|best| plain.left > BETTER * best.left.max(rounding))
        .filter(|best| is_borne_out(tracks, best))?;
    if best.unit == 2 && best.numbers[0] < 2 && !ends_with_units(tracks, &best, sectors) {
        // Of two tracks either step may be the one between cylinders.
        let other = fitted(tracks, sectors, 2, 1 - best.numbers[0], Whole::Never);
        if other.left <= BETTER * best.left.max(floor) && ends_with_units(tracks, &other, sectors) {
            return Some(other);
        }
    }
    Some(best)
}

/// True if the tracks that end with spares end cylinders, as groups do.
fn ends_with_units(tracks: &[ListedTrack], found: &ListedPattern, sectors: u64) -> bool {
    let mut ends = tracks
        .iter()
        .zip(&found.numbers[1..])
        .filter(|(track, _)| track.skipped(sectors) >= MIN_SPARES);
    ends.all(|(_, next)| next.is_multiple_of(found.unit))
}

/// True if at least half of the ends of units have the step of one. A single other step in the
/// list, as at the end of a band, is explained in part by any pattern with an end there.
fn is_borne_out(tracks: &[ListedTrack], found: &ListedPattern) -> bool {
    let [a, b] = found.steps;
    let (mut ends, mut borne_out) = (0, 0);
    for (pair, number) in tracks.windows(2).zip(found.numbers.windows(2)) {
        if number[1] / found.unit > number[0] / found.unit {
            let step = pair[1].angle - pair[0].angle - (number[1] - number[0] - 1) as f64 * a;
            ends += 1;
            borne_out += usize::from(wrap(step - b).abs() < wrap(step - a).abs());
        }
    }
    2 * borne_out >= ends
}

impl ListedTrack {
    /// The sectors skipped at the end of the track.
    pub(super) fn skipped(&self, sectors: u64) -> u64 {
        sectors - self.reserved - self.lbas
    }
}

/// The places where whole tracks may be spares, up to the end of the unit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whole {
    Never,
    /// After each track that ends with spares.
    AfterSpares,
    /// After each track whose step to the next is not the usual one by more revolutions than this.
    AfterOtherSteps(f64),
}

fn fitted(
    tracks: &[ListedTrack],
    sectors: u64,
    unit: u64,
    phase: u64,
    whole: Whole,
) -> ListedPattern {
    let first = usual_step(tracks);
    let mut numbers = vec![phase];
    for (place, track) in tracks.iter().enumerate() {
        let next = numbers[numbers.len() - 1] + 1;
        let ends_unit = match whole {
            Whole::Never => false,
            Whole::AfterSpares => track.skipped(sectors) >= MIN_SPARES,
            Whole::AfterOtherSteps(allowed) => tracks
                .get(place + 1)
                .is_some_and(|after| wrap(after.angle - track.angle - first).abs() > allowed),
        };
        numbers.push(if ends_unit { next.next_multiple_of(unit) } else { next });
    }
    let mut reached = 0.0;
    let mut rows = vec![0.0];
    for (pair, number) in tracks.windows(2).zip(numbers.windows(2)) {
        reached += wrap(pair[1].angle - pair[0].angle - (number[1] - number[0]) as f64 * first);
        rows.push(reached);
    }
    let features = |number: u64| [1.0, number as f64, (number / unit) as f64];
    let lines: Vec<([f64; 3], f64)> =
        numbers.iter().zip(&rows).map(|(number, row)| (features(*number), *row)).collect();
    let found = min_squares(&lines, [1e-9; 3]);
    let left = lines
        .iter()
        .map(|(row, value)| {
            (row[0] * found[0] + row[1] * found[1] + row[2] * found[2] - value).powi(2)
        })
        .sum();
    let steps = [part(first + found[1]), part(first + found[1] + found[2])];
    ListedPattern { unit, numbers, steps, left }
}

/// The number of listed tracks up to the first step that differs from the common one, and by how
/// much it does; none if one line explains the angles of all tracks. Where times are noisy, the
/// error of the common step adds up to as much, so that both are fitted at once.
pub(super) fn first_change(tracks: &[ListedTrack]) -> Option<(usize, f64)> {
    let usual = usual_step(tracks);
    let (mut found, mut reached, mut number) = (None, 0.0, 0.0);
    let mut lines = vec![([1.0, 0.0, 0.0], 0.0)];
    for pair in tracks.windows(2) {
        reached += wrap(pair[1].angle - pair[0].angle - usual);
        number += 1.0;
        lines.push(([1.0, number, 0.0], reached));
    }
    // Of several changes, the one that explains most may be a later one.
    while let Some((place, step)) = clearest_change(&mut lines) {
        found = Some((place, step));
        lines.truncate(place);
    }
    found
}

/// The place in a row of angles where a step explains most, and the step, if chance does not.
fn clearest_change(lines: &mut [([f64; 3], f64)]) -> Option<(usize, f64)> {
    let count = lines.len();
    let mut fit = |place: usize| {
        for (number, (row, _)) in lines.iter_mut().enumerate() {
            row[2] = f64::from(u8::from(number >= place));
        }
        let found = min_squares(lines, [1e-9; 3]);
        let off = |(row, value): &([f64; 3], f64)| {
            (row.iter().zip(found).map(|(part, factor)| part * factor).sum::<f64>() - value).powi(2)
        };
        (lines.iter().map(off).sum::<f64>(), found[2])
    };
    let (plain, _) = fit(count);
    let (place, (left, step)) = (MIN_ALIKE..(count + 1).saturating_sub(MIN_ALIKE))
        .map(|place| (place, fit(place)))
        .min_by(|one, other| one.1.0.total_cmp(&other.1.0))?;
    let variance = left.max(MIN_VARIANCE) / count as f64;
    (plain - left > SURE_SQUARES * variance && step.abs() > FINEST_STEP).then_some((place, step))
}

/// The standard deviation of a track's step from a pattern, in revolutions. It is taken from most
/// of them, because a slipped sector moves all tracks after it.
pub(super) fn scatter(tracks: &[ListedTrack], pattern: Option<&ListedPattern>) -> f64 {
    let usual = usual_step(tracks);
    let off = |(pair, number): (&[ListedTrack], usize)| {
        let ends_unit =
            pattern.is_some_and(|found| found.numbers[number + 1].is_multiple_of(found.unit));
        let step = pattern.map_or(usual, |found| found.steps[usize::from(ends_unit)]);
        wrap(pair[1].angle - pair[0].angle - step).abs()
    };
    let off: Vec<f64> = tracks.windows(2).zip(0..).map(off).collect();
    NORMAL_OF_MEDIAN * median(&off) / core::f64::consts::SQRT_2
}

/// The standard deviation of a normal distribution by its median absolute deviation.
const NORMAL_OF_MEDIAN: f64 = 1.4826;

/// The most common step of listed tracks.
pub(super) fn usual_step(tracks: &[ListedTrack]) -> f64 {
    let step = |pair: &[ListedTrack]| part(pair[1].angle - pair[0].angle);
    let first = tracks.windows(2).map(step).next().unwrap_or(0.0);
    let around: Vec<f64> = tracks.windows(2).map(|pair| wrap(step(pair) - first)).collect();
    part(first + median(&around))
}

/// Groups of tracks with spares of their own, from the ends of listed tracks: all at equal
/// distances, or else those at ends of units. Also returns the number of sectors of the first group
/// before the list.
pub(super) fn listed_groups(
    tracks: &[ListedTrack],
    numbers: &[u64],
    unit: u64,
    sectors: u64,
) -> Option<(SpareGroups, u64)> {
    // A first group that begins elsewhere than a unit has no place in a profile.
    groups_at(tracks, numbers, 1, sectors)
        .filter(|(_, before)| before / sectors % unit == numbers[0] % unit)
        .or_else(|| groups_at(tracks, numbers, unit, sectors))
}

/// Groups that end after multiples of so many tracks.
fn groups_at(
    tracks: &[ListedTrack],
    numbers: &[u64],
    unit: u64,
    sectors: u64,
) -> Option<(SpareGroups, u64)> {
    // A slipped sector or two of their own are no spares.
    let ends: Vec<(u64, u64)> = tracks
        .iter()
        .zip(numbers.windows(2))
        .filter(|(track, number)| track.skipped(sectors) > 2 || number[1] > number[0] + 1)
        .filter(|(_, number)| number[1].is_multiple_of(unit))
        .map(|(track, number)| (track.start + track.lbas, number[1]))
        .collect();
    let (first, second) = (ends.first()?, ends.get(1)?);
    let (lbas, count) = (second.0 - first.0, second.1 - first.1);
    let before = first.0 - tracks[0].start;
    let is_even = ends.windows(2).all(|pair| pair[1].0 - pair[0].0 == lbas);
    if !is_even || before > lbas || ends.len() < 3 && before != lbas {
        return None;
    }
    Some((SpareGroups { lbas, spares: count * sectors - lbas }, lbas - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tracks of 100 sectors, the first of them `phase` tracks into a cylinder of 5, with so many
    /// spares after every 2 cylinders.
    fn listed(phase: u64, spares: u64) -> Vec<ListedTrack> {
        let (mut start, mut tracks) = (0, Vec::new());
        for number in phase..100 {
            // The sectors that a group has up to the end of the track, without its spares.
            let after = (number % 10 + 1) * 100;
            let lbas = 100 - (after + spares).saturating_sub(1_000).min(100);
            if lbas > 0 {
                let angle = part(0.1 * number as f64 + 0.07 * (number / 5) as f64);
                tracks.push(ListedTrack { start, lbas, reserved: 0, angle });
                start += lbas;
            }
        }
        tracks
    }

    #[test]
    fn cylinders_and_groups_are_told_apart_in_any_phase_and_with_any_number_of_spares() {
        let session = Session::new(&[], &[], crate::session::DriveTiming::default(), 1);
        for phase in 0..8 {
            for spares in [3, 30, 60, 100, 130, 190] {
                let tracks = listed(phase, spares);
                let case = format!("phase {phase}, {spares} spares");
                let found = fit_list(&session, &tracks, 100, None)
                    .unwrap_or_else(|| panic!("{case}: no pattern"));
                assert_eq!((found.unit, found.numbers[0]), (5, phase % 5), "{case}");
                assert!((found.steps[0] - 0.1).abs() < 1e-6, "{case}: {:?}", found.steps);
                assert!((found.steps[1] - 0.17).abs() < 1e-6, "{case}: {:?}", found.steps);
                let groups = listed_groups(&tracks, &found.numbers, 5, 100);
                let expected = (SpareGroups { lbas: 1_000 - spares, spares }, phase * 100);
                assert_eq!(groups, Some(expected), "{case}");
            }
        }
    }

    #[test]
    fn with_noise_the_first_row_ends_at_the_step_that_no_error_of_the_common_one_explains() {
        for seed in 1..=20 {
            let mut random = crate::random::Random::new(seed, 0);
            // Tracks with as much noise as a reading has at the level typical, rows of so many.
            let mut list = |row: u64, differs: f64| -> Vec<ListedTrack> {
                let mut angle = |number: u64| {
                    let noise = 0.01 * (random.part() - 0.5);
                    part(0.0534 * number as f64 + differs * (number / row) as f64 + noise)
                };
                (0..LISTED)
                    .map(|number| ListedTrack {
                        start: 100 * number,
                        lbas: 100,
                        reserved: 0,
                        angle: angle(number),
                    })
                    .collect()
            };
            for row in [50, 70, 83, 120] {
                let (place, step) = first_change(&list(row, 0.05)).expect("a step");
                assert!(
                    place as u64 == row && (step - 0.05).abs() < 0.01,
                    "{seed}: {place} {step}"
                );
            }
            assert_eq!(first_change(&list(LISTED, 0.05)), None, "seed {seed}");
        }
    }
}
