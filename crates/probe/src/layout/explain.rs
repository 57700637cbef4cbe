//! Explains the first track that is not as its zone predicts.
//!
//! The skipped sectors are counted at that track and at the next ones. If the counts stay the same
//! from some track on, sectors were skipped there: spares or a row of slips. If the counts rise by
//! the same number with each track, tracks have become shorter by that number (or longer, if they
//! fall): the next zone begins here, and its sectors per track are known. If sectors cannot be
//! counted, the pattern is another one: a narrower last band, or a zone that begins at an angle of
//! its own. Then tracks are measured without assumptions.

use super::LayoutResult;
use super::border::{CountAt, MIN_DEVIATION, count, count_expecting, middle_deviation};
use super::counts::{COUNTED, counts_from, keeps_rising};
use super::groups::find_groups;
use super::last_band::{deviates, ends_last_band, narrow_band};
use super::pattern::FINEST_STEP;
use super::small_step::first_after_step;
use super::track::{measure_track, short_by};
use super::track_angle::is_within;
use super::walk::{TrackVerdict, likely, record_count, record_skip, record_slips, verify};
use super::zone_model::{Pattern, Skip, ZoneModel};
use super::zone_start::out_of_reach;
use crate::numbers::{median, part, wrap};
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The smallest number of skipped sectors that are spares rather than slips (guess).
pub(super) const MIN_SPARES: u64 = 6;
/// The number of tracks of a zone that may deviate without an explanation.
const MAX_UNEXPLAINED: u64 = 2;
/// A drift along a track is significant if half of it exceeds this many errors of a median reading.
const SURE_DRIFT: f64 = 5.0;
/// The most tracks that the spares of one group may take (guess), and the tracks after them that
/// have to be as predicted. Those of another zone deviate more and more.
pub(super) const MAX_SPARE_TRACKS: u64 = 8;
const CONTINUED: [u64; 4] = [0, 2, 5, 8];
/// The number of tracks by which the first deviation found may come after the true first one.
const MAX_LATE: u64 = 16;

/// Explains a track that deviates; nearly all tracks before it fit.
pub(crate) fn explain(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    bad: u64,
) -> Attempt<()> {
    if let Some(groups) = zone.groups.filter(|groups| groups.spares >= zone.sectors_per_track) {
        let start = zone.track_start(bad);
        if start > zone.first_lba
            && (start - zone.first_lba + zone.reserved).is_multiple_of(groups.lbas)
        {
            // Nothing can be counted across whole tracks of spares. Another zone begins after them,
            // or the same pattern continues.
            zone.end_lba = Some(start);
            return Ok(());
        }
    }
    let is_quiet = session.drive.noise_turns() < QUIET_TURNS;
    if is_quiet && ends_last_band(zone, bad) {
        // Nothing but the end of this track is left to find.
        match short_by(session, layout, zone, bad)? {
            Some(short) => zone.end_lba = Some(zone.track_start(bad + 1) - short),
            None => explain_again(session, zone, bad, None)?,
        }
        return Ok(());
    }
    // A single late reading may be the only deviation.
    session.evict_if_noisy()?;
    let found = counts_from(session, zone, bad)?;
    if let [None, Some(one), Some(two), Some(three)] = found[..]
        && one > 0
        && one == two
        && two == three
        && let Some(short) = short_by(session, layout, zone, bad)?
    {
        // The skipped sectors lie on both sides of the boundary.
        let end = zone.track_start(bad + 1) - short;
        step_over(
            zone,
            bad + 1,
            Skip { lba: end, sectors: one.unsigned_abs(), approximate: false },
        );
        return Ok(());
    }
    if let [None, Some(one), Some(two), Some(three)] = found[..]
        && two - one == three - two
        && ends_after(session, layout, zone, bad, one, two - one)?
    {
        return Ok(());
    }
    if zone.pattern.in_bands()
        && zone.last_band.is_none()
        && deviates(session, layout, zone, bad, &found)?
        && narrow_band(session, layout, zone, bad)?
    {
        return Ok(());
    }
    if let [None, Some(one), Some(two), _] = found[..]
        && one == two
        && (0..=likely(layout, zone, bad)).contains(&one)
        && zone.unexplained < MAX_UNEXPLAINED
    {
        // The tracks are as before except for one, which was most likely misread in all tries.
        zone.unexplained += 1;
        zone.checked = bad + 1;
        return Ok(());
    }
    if found[0].is_none()
        && zone.groups.is_none()
        && session.drive.noise_turns() < QUIET_TURNS
        && let Some((track, spares)) = spares_within(session, layout, zone, bad)?
    {
        step_over(zone, track, spares);
        return Ok(());
    }
    if found[0].is_none() && possible_end(zone).is_some() {
        end_at_possible(zone);
        return Ok(());
    }
    // Sectors skipped before the deviating track that were not known: spares, of which slips have
    // left a few.
    let mut before = match found[..] {
        [None, None, ..] | [Some(_), None, None, None] => count_before(session, zone, bad)?,
        _ => None,
    };
    if found[0].is_none()
        && session.drive.noise_turns() < QUIET_TURNS
        && let Some(extra) = before
        && (1..=likely(layout, zone, bad)).contains(&extra)
    {
        record_slips(layout, zone, bad - 1, extra.unsigned_abs());
        before = Some(0);
    }
    if before.is_none_or(|extra| extra == 0)
        && let [None, None, ..] = found[..]
        && let Some(short) = short_by(session, layout, zone, bad)?
    {
        // The track is the last of its zone, perhaps with spares.
        let end = zone.track_start(bad + 1) - short;
        if !end_at_spares(session, zone, bad)? {
            zone.end_lba = Some(end);
        }
        return Ok(());
    }
    if let [Some(short), None, None, None] = found[..]
        && short > likely(layout, zone, bad)
        && !is_shorter(session, zone, bad, short.unsigned_abs())?
    {
        // The track is the last of its zone, with spares. Those after it are longer or shorter, or
        // at angles of their own.
        zone.end_lba = Some(zone.track_start(bad + 1) - short.unsigned_abs());
        end_at_possible(zone);
        return Ok(());
    }
    let counts: Vec<i64> = found.iter().map_while(|extra| *extra).collect();
    if counts.first().is_some_and(|first| (0..=likely(layout, zone, bad)).contains(first)) {
        if let Some(first) = first_after_step(session, zone, bad)? {
            zone.end_lba = Some(zone.track_start(first));
            zone.next_sectors = Some(zone.sectors_per_track);
            return Ok(());
        }
        // A reading failed, or the fit, which has improved since.
        if verify(session, layout, zone, bad)? == TrackVerdict::Last {
            zone.end_lba = Some(session.drive.capacity);
        }
        zone.checked = bad + 1;
        return Ok(());
    }
    if (2..COUNTED as usize).contains(&counts.len())
        && counts[0] > 0
        && counts.iter().all(|extra| *extra == counts[0])
    {
        // More slips than likely, shortly before spares or another step.
        return record_skips(session, layout, zone, bad, &counts);
    }
    if counts.len() == COUNTED as usize {
        let rises: Vec<i64> = counts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        if rises[1] == rises[2]
            && rises[2] != 0
            && keeps_rising(session, zone, bad + COUNTED - 1, counts[3], rises[2])?
        {
            return end_at(session, zone, bad, &counts, rises[2]);
        }
        if counts[0] > 0
            && rises.iter().filter(|rise| !(0..=3).contains(*rise)).count() <= 1
            && rises[2].abs() <= 3
        {
            return record_skips(session, layout, zone, bad, &counts);
        }
    }
    if let [Some(_), Some(_), None, _] = found[..] {
        before = count_before(session, zone, bad)?;
    }
    explain_again(session, zone, bad, before)
}

/// The sectors skipped before a track that its zone does not know of, if the track before it shows
/// them.
fn count_before(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<Option<i64>> {
    let Some(last) = track.checked_sub(1) else { return Ok(None) };
    Ok(count(session, zone, last, CountAt::Track)?.map(|(extra, _)| extra))
}

/// Spares that leave a part of a track, and perhaps whole tracks after it, without addresses up to
/// the end of a cylinder or band, if the pattern continues after them. Returns the first track
/// after them. So many cannot be counted.
fn spares_within(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    bad: u64,
) -> Attempt<Option<(u64, Skip)>> {
    let sectors = zone.sectors_per_track;
    let unit = match zone.pattern.period() {
        Pattern::NEVER.. => 1,
        period => period,
    };
    // Slips since the last count move the tracks before the spares.
    for track in (1..=2).filter_map(|back| bad.checked_sub(back)) {
        if let Some((extra @ 0.., _)) = count(session, zone, track, CountAt::Track)? {
            record_slips(layout, zone, track, extra.unsigned_abs());
            break;
        }
    }
    for last in [Some(bad), bad.checked_sub(1)].into_iter().flatten() {
        let Some(short) = short_by(session, layout, zone, last)? else { continue };
        let next = (last + 1).next_multiple_of(unit);
        let spares = short + (next - last - 1) * sectors;
        if spares < MIN_SPARES || next - last > MAX_SPARE_TRACKS {
            continue;
        }
        let lba = zone.track_start(last + 1) - short;
        let spares = Skip { lba, sectors: spares, approximate: false };
        let mut after = zone.clone();
        record_skip(&mut after, spares);
        let mut fits = true;
        for track in CONTINUED.map(|track| next + track) {
            fits = fits
                && !out_of_reach(session, &after, track)
                && is_within(session, &mut after, track, MIN_DEVIATION)?;
        }
        if fits {
            return Ok(Some((next, spares)));
        }
    }
    Ok(None)
}

/// True if a track is the last one of its zone and has its spares, while those after it are shorter
/// by `rise` each; up to the end of the first of them `counted` sectors were counted as skipped.
/// Then the zone ends there. A single count fails between two zones.
fn ends_after(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
    counted: i64,
    rise: i64,
) -> Attempt<bool> {
    let sectors = zone.sectors_per_track as f64;
    let slips = likely(layout, zone, track);
    if rise == 0 || counted - rise <= slips + MIN_SPARES as i64 {
        return Ok(false);
    }
    // The spares would move a first track of the next zone.
    let off = middle_deviation(session, zone, track)? * sectors;
    if !(-1.0..=slips as f64 + 1.0).contains(&off)
        || !keeps_rising(session, zone, track + 3, counted + 2 * rise, rise)?
    {
        return Ok(false);
    }
    let next = zone.sectors_per_track.saturating_add_signed(-rise);
    let end = zone.track_start(track + 2).saturating_add_signed(-counted) - next;
    zone.end_lba = Some(end);
    zone.next_sectors = Some(next);
    end_at_possible(zone);
    Ok(true)
}

/// True if a track that ends `short` sectors early has room for fewer sectors, as the first track
/// of the next zone, rather than spares. Then its sectors pass more slowly, and come the later the
/// further along the track they lie.
fn is_shorter(session: &mut Session, zone: &ZoneModel, track: u64, short: u64) -> Attempt<bool> {
    let sectors = zone.sectors_per_track;
    let length = sectors.saturating_sub(short);
    // The distance from the middle of the first third to that of the last.
    let half = short as f64 / sectors as f64 * 2.0 / 3.0 / 2.0;
    let noise = session.drive.noise_turns();
    let readings = (2.0 * (SURE_DRIFT * noise / half.max(1e-9)).powi(2)).clamp(3.0, 40.0) as u64;
    let third = (length / 3).max(1);
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..readings {
        for (from, offs) in [(length - third, &mut last), (0, &mut first)] {
            let lba = zone
                .lba_from(track * sectors + from + session.random.below(third))
                .min(session.drive.capacity - 1);
            let turns = session.angle(lba)?.turns;
            offs.push(wrap(turns - zone.angle_on(track, lba)));
        }
    }
    Ok(wrap(median(&last) - median(&first)) > half)
}

/// Ends the zone before tracks that are shorter by `rise`; searches backwards for the first of
/// them.
fn end_at(
    session: &mut Session,
    zone: &mut ZoneModel,
    bad: u64,
    counts: &[i64],
    rise: i64,
) -> Attempt<()> {
    let mut place = counts.len() - 1;
    while place > 0 && counts[place] - counts[place - 1] == rise {
        place -= 1;
    }
    let (mut track, mut extra) = (bad + place as u64, counts[place]);
    let mut before = place.checked_sub(1).map(|place| counts[place]);
    for _ in 0..MAX_LATE {
        if before.is_some() || track == 0 {
            break;
        }
        let slips = extra - rise;
        let mut earlier = count_expecting(session, zone, track - 1, slips)?;
        if earlier != Some(slips) {
            earlier = count_expecting(session, zone, track - 1, slips)?;
        }
        match earlier {
            Some(earlier) if extra - earlier == rise && earlier.abs() >= rise.abs() => {
                (track, extra) = (track - 1, earlier)
            }
            Some(earlier) => {
                if extra - earlier == rise {
                    // The first track of the next zone.
                    (track, extra) = (track - 1, earlier);
                }
                before = Some(earlier);
            }
            None => {
                // A count may fail between two zones. The track before the first that deviates has
                // no more than slips.
                if (0..MIN_SPARES as i64).contains(&slips) {
                    (track, extra, before) = (track - 1, slips, Some(slips));
                }
                break;
            }
        }
    }
    let slips = before.unwrap_or(0).min(extra);
    if slips > 0 && track > 0 {
        record_count(zone, track - 1, slips);
        extra -= slips;
    }
    zone.end_lba = Some(zone.track_start(track + 1).saturating_add_signed(-extra));
    zone.next_sectors = Some(zone.sectors_per_track.saturating_add_signed(-rise));
    end_at_possible(zone);
    Ok(())
}

/// Records sectors skipped at a track, and perhaps more at the next ones. A few are slips, which
/// may lie anywhere since the last count; many are spares or a row of slips at this track.
fn record_skips(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    bad: u64,
    counts: &[i64],
) -> Attempt<()> {
    let last = counts.iter().copied().max().unwrap_or(0);
    if last < MIN_SPARES as i64 {
        record_slips(layout, zone, bad + counts.len() as u64 - 1, last.unsigned_abs());
        zone.checked = bad + counts.len() as u64;
        return Ok(());
    }
    let slips = match bad.checked_sub(1) {
        Some(track) => count(session, zone, track, CountAt::Track)?.map_or(0, |(extra, _)| extra),
        None => 0,
    };
    let slips = if (1..counts[0]).contains(&slips) { slips } else { 0 };
    if slips > 0 {
        record_slips(layout, zone, bad - 1, slips.unsigned_abs());
    }
    let mut before = slips;
    for (track, extra) in (bad..).zip(counts) {
        let more = (extra - before).max(0).unsigned_abs();
        before = before.max(*extra);
        if more > 0 {
            let end = zone.track_start(track + 1) - more;
            step_over(zone, track + 1, Skip { lba: end, sectors: more, approximate: false });
            if zone.end_lba.is_some() || zone.groups.is_some() {
                return Ok(());
            }
        }
        zone.checked = track + 1;
    }
    Ok(())
}

/// Records skipped sectors before a track, up to which the zone is then checked. They may show
/// groups of spares, or that the zone ended earlier.
pub(super) fn step_over(zone: &mut ZoneModel, track: u64, skip: Skip) {
    record_skip(zone, skip);
    zone.checked = track;
    find_groups(zone, track);
    if skip.sectors >= MIN_SPARES && possible_end(zone).is_some_and(|doubtful| doubtful < skip.lba)
    {
        end_at_possible(zone);
    }
}

/// Measures the tracks from a deviating one on without assumptions, except for the number of
/// sectors skipped before it, if that was counted.
fn explain_again(
    session: &mut Session,
    zone: &mut ZoneModel,
    bad: u64,
    before: Option<i64>,
) -> Attempt<()> {
    let start = zone.track_start(bad).saturating_add_signed(-before.unwrap_or(0));
    let first = measure_track(session, start, zone.sectors_per_track as f64)?;
    if first.end >= session.drive.capacity {
        zone.end_lba = Some(session.drive.capacity);
        return Ok(());
    }
    let second = measure_track(session, first.end, first.density)?;
    let (one, two) = (first.end - start, second.end.saturating_sub(first.end));
    if one == zone.sectors_per_track && only_the_fit(session, zone, bad)? {
        return Ok(());
    }
    if one > zone.sectors_per_track.max(two) {
        // What spares leave of the last track, and the next zone's first one, whose angles happen
        // to continue without a jump.
        zone.end_lba = Some(first.end - two);
        return Ok(());
    }
    if ends_last_band(zone, bad) {
        zone.end_lba = Some(first.end);
        return Ok(());
    }
    // A short last track still belongs to the zone before; a first track is as long as the second.
    if end_at_spares(session, zone, bad)? {
        return Ok(());
    }
    if one == two && two == zone.sectors_per_track && zone.unexplained < MAX_UNEXPLAINED {
        // The tracks are as before except for one, which was most likely misread in all tries. If
        // the next ones deviate too, another zone begins.
        zone.unexplained += 1;
        zone.checked = bad + 1;
        return Ok(());
    }
    // If the beginning of the first track was counted, a longer track is whole, and the last of its
    // zone. Otherwise it may begin with the remainder of another track. A track that spares make as
    // short as those of the next zone is told apart by the speed of its sectors.
    // One of the two may end a cylinder with spares of its own.
    let has_spares = zone.groups.is_some_and(|groups| one.abs_diff(two) == groups.spares);
    let own = zone.groups.filter(|groups| groups.lbas < zone.sectors_per_track);
    // Tracks with spares of their own are shorter than a revolution.
    let longer = one.max(two) + own.map_or(0, |groups| groups.spares);
    let of_new = (one.abs_diff(two) <= 1 || has_spares) && longer != zone.sectors_per_track
        || one >= two && before.is_none();
    let of_new = of_new
        && (longer >= zone.sectors_per_track
            || is_shorter(session, zone, bad, zone.sectors_per_track - longer)?);
    zone.end_lba = Some(if of_new { start } else { first.end });
    Ok(())
}

/// True if the boundaries of a track are as predicted and its angle deviates so little that the fit
/// or an outlier is to blame. Then the zone is fitted to it.
fn only_the_fit(session: &mut Session, zone: &mut ZoneModel, track: u64) -> Attempt<bool> {
    let mut offs = Vec::new();
    for _ in 0..3 {
        session.read_random(1)?;
        offs.push(middle_deviation(session, zone, track)?);
    }
    let off = median(&offs);
    if off.abs() > 2.5 * MIN_DEVIATION {
        return Ok(false);
    }
    let lba = zone.middle_of(track);
    let turns = part(zone.angle(lba) + off);
    zone.add_reading(lba, turns);
    zone.checked = track + 1;
    Ok(true)
}

/// The first place where spares lie at the end of a cylinder. Unless there are groups, a zone may
/// end there even if everything continues alike.
pub(super) fn possible_end(zone: &ZoneModel) -> Option<u64> {
    let unit = zone.pattern.unit;
    if zone.pattern.in_bands() || unit >= Pattern::NEVER || zone.groups.is_some() {
        return None;
    }
    let at_cylinder = |skip: &&Skip| {
        skip.sectors >= MIN_SPARES
            && zone.physical(skip.lba).is_multiple_of(unit * zone.sectors_per_track)
    };
    zone.skips.iter().find(at_cylinder).map(|skip| skip.lba)
}

/// Ends the zone at the first doubtful place, if any. Discards everything found after it, to be
/// found again.
fn end_at_possible(zone: &mut ZoneModel) {
    if let Some(end) = possible_end(zone) {
        zone.retain_skips(|skip| skip.lba < end);
        zone.counted_at.retain(|lba| *lba < end);
        zone.readings.retain(|reading| reading.0 < end);
        zone.end_lba = Some(end);
        zone.next_sectors = Some(zone.sectors_per_track);
    }
}

/// Ends the zone at recent spares. Steps of the next zone that differ little from those of this one
/// show late; so the track before the deviating one tells whether it is one of this zone.
fn end_at_spares(session: &mut Session, zone: &mut ZoneModel, bad: u64) -> Attempt<bool> {
    let Some(last) = zone
        .skips
        .last()
        .copied()
        .filter(|skip| skip.sectors >= MIN_SPARES && zone.pattern.in_bands())
    else {
        return Ok(false);
    };
    let track = zone.track_of(last.lba);
    let shortly = bad.saturating_sub(track) < zone.pattern.period();
    if !shortly {
        return Ok(false);
    }
    if bad > track + 1
        && session.drive.noise_turns() < QUIET_TURNS
        && middle_deviation(session, zone, bad - 1)?.abs() < FINEST_STEP
    {
        return Ok(false);
    }
    zone.retain_skips(|skip| skip.lba < last.lba);
    zone.end_lba = Some(last.lba);
    Ok(true)
}
