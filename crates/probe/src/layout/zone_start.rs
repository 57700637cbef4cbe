//! The beginning of a zone: its sectors per track, and its first steps.
//!
//! The first three tracks give the sectors per track. Each step of the pattern is measured between
//! two neighboring tracks first, then over ever more tracks. A further zone begins with the pattern
//! and the groups of spares of the zones before; if its first tracks do not hold to that, it begins
//! elsewhere in a cylinder, row or group.

use super::LayoutResult;
use super::border::MIN_DEVIATION;
use super::groups::{on_each_track, presume_groups, tracks_before_group};
use super::pattern::{FINEST_STEP, MAX_SURFACES};
use super::recovery::short_phase;
use super::rejoin::rejoin;
use super::rows::{count_up_to_row_end, spares_before};
use super::sector_count::count_sectors_per_track;
use super::track::measure_track;
use super::track_angle::{
    is_as_predicted, is_surely_as_predicted, step_before, step_seen, track_angle,
};
use super::walk::{count_up_to, first_deviation, record_skip};
use super::zone_model::{Pattern, UsualGroups, ZoneModel};
use crate::numbers::{part, wrap};
use crate::session::{Attempt, Interruption, QUIET_TURNS, Session};

/// The number of tracks that are searched for a short pattern.
pub(super) const FIRST_TRACKS: u64 = 160;
/// The tracks among which one without slips is searched.
const NEAR_TRACKS: u64 = 4;
/// Steps of two zones that differ by no more than these deviations are the same skew in time. They
/// may still differ by so many sectors, because skews are rounded to whole sectors; within one
/// zone, by the accuracy of a fit.
const ALIKE_NOISE: f64 = 3.0;
const ROUNDED_SECTORS: f64 = 1.0;
const SAME_SECTORS: f64 = 0.2;
/// A rest of the drive of fewer units is no whole zone.
const SHORT_UNITS: u64 = 6;
/// Two steps that differ by more sectors differ in each zone by more than twice
/// [`ROUNDED_SECTORS`]: each of the four is rounded, and those of one zone are fitted.
const CLEAR_SECTORS: f64 = 5.0;
/// From this expected number on, slips are counted before the first steps are fitted.
const LIKELY_SLIPS: f64 = 0.5;
/// Slips that move a track by less than this share of the noise are not counted first (guess).
const SLIGHT_NOISE: f64 = 0.5;
/// The number of readings that determine the steps of a zone.
const KNOWN_READINGS: usize = 24;
/// The number of tracks read in the first period of a zone if times are noisy.
const ROUND_READS: u64 = 32;
/// The first tracks of a zone were misidentified if their readings deviate from its steps by more
/// than this many deviations of one reading.
const UNEVEN_NOISE: f64 = 4.0;
/// The number of first tracks of a zone, of which three in four have to match its steps.
const HELD_TRACKS: u64 = 8;

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
        let has_steps = has_usual_steps(session, &zone, &steps)
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
    if let Some(joined) = rejoin(session, layout, &zone)? {
        layout.zones.pop();
        zone = joined;
    }
    layout.zones.push(zone);
    Ok(())
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
    let allowed = allowed_within_row(session, usual, zone.pattern);
    let to_border = first_deviation(session, &mut plain, unit, allowed)?;
    Ok(to_border.map(|tracks| unit - tracks))
}

/// The deviation within a row that the step between rows, which may differ little from the common
/// one, exceeds; `usual` are the steps of a zone before.
pub(super) fn allowed_within_row(session: &Session, usual: &[f64; 3], pattern: Pattern) -> f64 {
    told_apart(session, usual[between_rows(pattern)], usual[0])
}

/// The deviation that tells two steps apart.
pub(super) fn told_apart(session: &Session, one: f64, other: f64) -> f64 {
    if session.drive.noise_turns() < QUIET_TURNS {
        (wrap(one - other).abs() / 2.0).clamp(FINEST_STEP / 2.0, MIN_DEVIATION)
    } else {
        MIN_DEVIATION
    }
}

/// The kind of the step between cylinders or rows: rows that follow each other on one surface have
/// the third at their ends.
fn between_rows(pattern: Pattern) -> usize {
    if pattern.units > 1 { 1 } else { 2 }
}

/// False if the ends of a zone's cylinders or rows showed no step of their own although those of
/// the zone before have one: then they lie elsewhere. If times are noisy, a common step passes for
/// one that differs by some sectors, so it counts as one if it is nearer to the common step than to
/// the usual one.
fn has_usual_steps(session: &Session, zone: &ZoneModel, before: &[f64; 3]) -> bool {
    let kind = between_rows(zone.pattern);
    let differ = |steps: &[f64; 3]| wrap(steps[kind] - steps[0]);
    let (seen, usual) = (differ(&zone.steps), differ(before));
    let sectors = zone.sectors_per_track as f64;
    if zone.pattern.unit >= Pattern::NEVER || usual.abs() * sectors < CLEAR_SECTORS {
        return true;
    }
    let is_quiet = session.drive.noise_turns() < QUIET_TURNS;
    seen.abs() * sectors > 2.0 * ROUNDED_SECTORS
        && (is_quiet || wrap(seen - usual).abs() < seen.abs())
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
pub(super) fn begin(
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
            let mut track = border(stride, times);
            // Slips on the way would pass for a part of the steps, and so would one on the track.
            if slips_matter(session, layout, &zone, (track - first) * sectors_per_track) {
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
    read_first_round(session, layout, &mut zone)?;
    Ok(zone)
}

/// True if the slips that are likely among so many sectors are counted before the steps are fitted.
/// If times are noisy, only long rows have so many that a walk cannot count them afterwards.
pub(super) fn slips_matter(
    session: &Session,
    layout: &LayoutResult,
    zone: &ZoneModel,
    sectors: u64,
) -> bool {
    let noise = session.drive.noise_turns();
    let in_rows = (MAX_SURFACES + 1..Pattern::NEVER).contains(&zone.pattern.unit);
    let slight = match (noise < QUIET_TURNS, in_rows) {
        (true, _) => 0.0,
        (false, true) => SLIGHT_NOISE * noise * zone.sectors_per_track as f64,
        (false, false) => return false,
    };
    layout.slip_rate() * sectors as f64 > LIKELY_SLIPS.max(slight)
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
    let has_slips = slips_matter(session, layout, zone, sectors);
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
fn read_first_round(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &mut ZoneModel,
) -> Attempt<()> {
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
        if out_of_reach(session, zone, track) {
            break;
        }
        let start = zone.track_start(track);
        let counted = zone.counted_from(start.saturating_sub(1).max(zone.first_lba));
        if start > counted && slips_matter(session, layout, zone, start - counted) {
            count_up_to(session, zone, track - 1)?;
        }
        is_as_predicted(session, zone, track)?;
    }
    Ok(())
}

/// Turns the zone so that a track has an angle, after a change of steps.
fn turn_to(zone: &mut ZoneModel, track: u64, angle: f64) {
    zone.origin = part(zone.origin + angle - zone.track_angle(track));
}

/// Reads the first tracks of a short pattern one by one. Later reads are at the ends of cylinders,
/// which show the sum of the two steps, but not each of them.
pub(super) fn read_first_tracks(session: &mut Session, zone: &mut ZoneModel) -> Attempt<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::{DriveProfile, NoiseLevel};
    use headtime_sim::DriveTruth;

    #[test]
    fn with_noise_the_rows_of_a_zone_end_where_the_step_is_clearly_another_one() {
        let profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        for seed in 1..=16 {
            let noisy = NoiseLevel::Typical.apply(&profile);
            let mut bench = Bench::new(DriveTruth::draw(&noisy, seed).expect("a drive"));
            let layout = &mut bench.results.layout;
            let next = layout.zones[2].clone();
            layout.zones.truncate(2);
            for zone in &mut layout.zones {
                // They began shortly before the end of a row; the next zone begins with a row.
                zone.reserved = (zone.pattern.unit - 6) * zone.sectors_per_track;
            }
            bench.run(seed, |session, results| {
                let sectors = next.sectors_per_track;
                let layout = &mut results.layout;
                begin_next(session, layout, next.first_lba, Some(sectors), sectors as f64)
            });
            let found = bench.results.layout.zones.last().map(ZoneModel::first_track);
            assert_eq!(found, Some(0), "seed {seed}");
        }
    }

    #[test]
    fn with_noise_slips_on_the_first_tracks_of_a_zone_are_no_part_of_its_steps() {
        let mut profile = DriveProfile { cache: None, ..plain("cheetah10k7") };
        profile.variation.slips_per_million = 100.0;
        profile.zones.iter_mut().for_each(|zone| zone.spares = 3_000);
        let mut squares = 0.0;
        for seed in 1..=8 {
            let noisy = NoiseLevel::Typical.apply(&profile);
            let mut bench = Bench::new(DriveTruth::draw(&noisy, seed).expect("a drive"));
            let real = bench.results.layout.zones[1].clone();
            bench.results.layout.slips = (1_000, 10_000_000);
            let sectors = real.sectors_per_track;
            let found = bench.run(seed, |session, results| {
                let (layout, pattern) = (&mut results.layout, real.pattern);
                let (lba, about) = (real.first_lba, sectors as f64);
                begin(session, layout, lba, Some(sectors), about, pattern, None, 0)
            });
            let last = real.pattern.period() - 1;
            let turned = wrap(found.track_angle(0) - real.track_angle(0));
            let off = wrap(found.track_angle(last) - real.track_angle(last) - turned);
            squares += off * off / 8.0;
        }
        // Some 13 slips in a period, of 995 sectors a track, and the noise.
        assert!(squares < 0.009_f64.powi(2), "{} revolutions", libm::sqrt(squares));
    }
}
