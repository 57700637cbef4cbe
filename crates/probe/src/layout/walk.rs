//! The extent of a zone: tracks are counted (`border`) at increasing strides until one deviates;
//! bisection finds the first that does.
//!
//! Slips do not stop the walk. An interval has a few more of them by chance; their number goes into
//! the zone, spread evenly over the interval, and `slips` locates them when time allows. `explain`
//! handles larger numbers and other patterns.

use super::LayoutResult;
use super::border::{CountAt, MIN_DEVIATION, count, is_short_by_at_most, middle_deviation};
use super::explain::explain;
use super::last_band::recognize_at_end;
use super::recovery;
use super::track_angle::{is_as_predicted, is_surely_as_predicted};
use super::zone_model::{Pattern, Skip, ZoneModel};
use super::zone_start::{begin_next, out_of_reach};
use crate::results::Progress;
use crate::session::{Attempt, QUIET_TURNS, Session};

/// A track in comparison with the prediction of its zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TrackVerdict {
    /// As predicted, except for so many skipped sectors.
    Fits(u64),
    /// It ends early by more.
    Short(u64),
    /// Its angle differs.
    Elsewhere,
    /// It ends with the drive.
    Last,
}

/// The number of tries of a step after which what it was to explain is marked as unknown.
const TRIES: u32 = 2;
/// The number of slips that an interval may have beyond the likely number.
const SPARE_SLIPS: f64 = 2.0;
/// The distance, in tracks, of the third reading of a count before it.
pub(super) const BEFORE: u64 = 3;
/// The slips expected between two counts, as a share of a track. If nearly half of a track is
/// skipped, nothing can be counted, and the zone would seem to end.
const MAX_EXPECTED: f64 = 0.3;
/// The number of counts of one step.
const COUNTS: usize = 4;
/// The number of tracks read between two counts if times are noisy.
const BETWEEN: u64 = 3;
/// A number of slips this many deviations above the expected one is spares or a zone.
const DEVIATIONS: f64 = 4.0;

/// Extends the last zone by one event: a skip, a narrow band, the zone's end, or the next zone's
/// beginning.
pub(crate) fn extend(
    session: &mut Session,
    layout: &mut LayoutResult,
    retries: u32,
) -> Attempt<Progress> {
    let Some(mut zone) = layout.zones.last().cloned() else { return Ok(Progress::Done) };
    let capacity = session.drive.capacity;
    if zone.end_lba.is_some() && !zone.unknown {
        recognize_at_end(session, &mut zone)?;
        if let Some(last) = layout.zones.last_mut() {
            last.last_band = zone.last_band;
        }
    }
    if zone.end_lba.is_some_and(|end| end >= capacity) {
        return Ok(Progress::Done);
    }
    if zone.unknown {
        return recovery::resume(session, layout).map(|()| Progress::More);
    }
    if retries >= TRIES || recovery::is_none(&layout.zones, capacity) {
        recovery::mark_unknown(session, layout);
        return Ok(Progress::More);
    }
    if zone.back_to.is_some() {
        return recovery::find_beginning(session, layout).map(|()| Progress::More);
    }
    if let Some(end) = zone.end_lba {
        begin_next(session, layout, end, zone.next_sectors, zone.sectors_per_track as f64)?;
        return Ok(Progress::More);
    }
    let number = layout.zones.len() - 1;
    // Each part is an experiment of its own, because an experiment is replayed for each new result.
    match zone.mismatch {
        None => zone.mismatch = walk(session, layout, &mut zone)?,
        Some((good, bad)) if good < bad => {
            let bad = first_bad(session, layout, &zone, good, bad)?;
            zone.mismatch = Some((bad, bad));
        }
        Some((_, bad)) => {
            zone.mismatch = None;
            explain_bad(session, layout, &mut zone, bad)?;
        }
    }
    layout.zones[number] = zone;
    Ok(Progress::More)
}

/// Explains the first track that does not fit.
fn explain_bad(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    bad: u64,
) -> Attempt<()> {
    let group =
        zone.groups.map_or(0, |groups| groups.lbas + groups.spares) / zone.sectors_per_track;
    if zone.groups_presumed && bad <= group {
        zone.groups = None;
        zone.checked = bad.saturating_sub(1);
    } else {
        zone.checked = bad;
        explain(session, layout, zone, bad)?;
    }
    zone.groups_presumed = false;
    Ok(())
}

/// Makes some strides from the last counted track until one deviates. Returns the first track not
/// examined and the deviating one; none if the zone has an end, or continues.
fn walk(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
) -> Attempt<Option<(u64, u64)>> {
    let capacity = session.drive.capacity;
    let period = if zone.pattern.in_bands() { zone.pattern.period() } else { 1 };
    // Strides are whole periods and end at their last tracks, where spares lie. The first stride is
    // at most twice the range that the steps were fitted to.
    let learned = zone.readings.iter().map(|reading| zone.track_of(reading.0)).max().unwrap_or(0);
    let before = if zone.checked == 0 { learned } else { zone.checked / 2 };
    let mut stride = (before / period).max(1);
    let mut good = zone.checked;
    for _ in 0..COUNTS {
        stride = stride.min((MAX_EXPECTED / layout.slip_rate()) as u64 / period).max(1);
        if let Some(end) = zone
            .last_band
            .map(|(first, width)| first + width * zone.pattern.units)
            .filter(|end| good >= *end)
        {
            // The last band is full.
            zone.checked = end;
            zone.end_lba = Some(zone.track_start(end).min(capacity));
            return Ok(None);
        }
        // The one before the drive's last, whose end is visible.
        let last = zone.track_of(capacity - 1).saturating_sub(1).max(good);
        let last = zone
            .last_band
            .map_or(last, |(first, width)| last.min(first + width * zone.pattern.units - 1))
            .max(good);
        let track = ((good / period + stride) * period - 1).max(good).min(last);
        let track = zone.used_track(track);
        match verify_around(session, layout, zone, track)? {
            TrackVerdict::Fits(_) if track < last || zone.last_band.is_some() => {
                read_between(session, zone, good, track)?;
                (good, stride) = (track + 1, stride * 2);
            }
            TrackVerdict::Fits(_) | TrackVerdict::Last => {
                zone.checked = track + 1;
                zone.end_lba = Some(capacity);
                return Ok(None);
            }
            TrackVerdict::Short(_) | TrackVerdict::Elsewhere => return Ok(Some((good, track))),
        }
        zone.checked = good;
    }
    Ok(None)
}

/// Reads some tracks between two that fit, if times are noisy. Counts are made at the ends of
/// periods, which show the sum of the steps but not each of them. Without these readings the steps
/// would drift apart, and with them the tracks within a period.
fn read_between(session: &mut Session, zone: &mut ZoneModel, good: u64, track: u64) -> Attempt<()> {
    if session.drive.noise_turns() < QUIET_TURNS
        || zone.pattern.unit >= Pattern::NEVER
        || track < good + 2
    {
        return Ok(());
    }
    for _ in 0..BETWEEN {
        let between = good + session.random.below(track - good);
        is_as_predicted(session, zone, between)?;
    }
    Ok(())
}

/// The first track from `good` on that does not fit; `bad` does not.
fn first_bad(
    session: &mut Session,
    layout: &LayoutResult,
    zone: &ZoneModel,
    mut good: u64,
    mut bad: u64,
) -> Attempt<u64> {
    // The tracks before the first one have no addresses.
    good = good.max(zone.first_track());
    while bad > good {
        let middle = good + (bad - good) / 2;
        let used = zone.used_track(middle);
        if used < good {
            good = middle + 1;
            continue;
        }
        let middle = used;
        let most = likely(layout, zone, middle);
        let fits = is_short_by_at_most(session, zone, middle, most)?
            && fits_shortly_before(session, zone, middle, most)?;
        if fits { good = middle + 1 } else { bad = middle }
    }
    Ok(bad)
}

/// True if a track shortly before one is as predicted too, except for at most `most` skipped
/// sectors. Two readings at a boundary may fit by chance in another zone; three hardly do, because
/// its tracks deviate more and more.
fn fits_shortly_before(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    most: i64,
) -> Attempt<bool> {
    let off = middle_deviation(session, zone, track.saturating_sub(BEFORE))?;
    let later = most as f64 / zone.sectors_per_track as f64;
    Ok((-MIN_DEVIATION..=later + MIN_DEVIATION).contains(&off))
}

/// The number of slips that are likely from the last count to a track.
pub(crate) fn likely(layout: &LayoutResult, zone: &ZoneModel, track: u64) -> i64 {
    let lba = zone.track_start(track + 1);
    likely_slips(layout, lba - zone.counted_from(lba.saturating_sub(1).max(zone.first_lba))) as i64
}

/// The number of slips that are likely among so many sectors.
pub(super) fn likely_slips(layout: &LayoutResult, sectors: u64) -> u64 {
    let expected = layout.slip_rate() * sectors as f64;
    (SPARE_SLIPS + expected + DEVIATIONS * libm::sqrt(expected)) as u64
}

/// Counts at a track and the few after it; the zone is fitted to the readings if they fit.
fn verify_around(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
) -> Attempt<TrackVerdict> {
    verify_where(session, layout, zone, track, CountAt::Around)
}

/// Counts at a track; the zone is fitted to the readings if they fit.
pub(crate) fn verify(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
) -> Attempt<TrackVerdict> {
    verify_where(session, layout, zone, track, CountAt::Track)
}

fn verify_where(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
    place: CountAt,
) -> Attempt<TrackVerdict> {
    if zone.middle_of(track) >= session.drive.capacity
        || zone.track_start(track + 1) >= session.drive.capacity
    {
        return Ok(TrackVerdict::Last);
    }
    let counted = match count(session, zone, track, place)? {
        None if place == CountAt::Around => count(session, zone, track, CountAt::Track)?,
        counted => counted,
    };
    let Some((extra, seen)) = counted else { return Ok(TrackVerdict::Elsewhere) };
    if extra < 0 {
        return Ok(TrackVerdict::Elsewhere);
    }
    if extra > likely(layout, zone, track) {
        return Ok(TrackVerdict::Short(extra.unsigned_abs()));
    }
    let is_quiet = session.drive.noise_turns() < QUIET_TURNS;
    if place == CountAt::Around {
        // Two readings may fit by chance in another zone; three hardly do. The third is of a track
        // shortly before, which a cache that keeps whole tracks does not hold.
        let off = middle_deviation(session, zone, track.saturating_sub(BEFORE))?
            - extra as f64 / zone.sectors_per_track as f64;
        // The spares of a group hide its slips from a count at its end.
        let uncounted =
            if is_quiet && zone.ends_group(track) { likely(layout, zone, track) } else { 0 };
        let later = uncounted as f64 / zone.sectors_per_track as f64;
        if !(-MIN_DEVIATION..=MIN_DEVIATION + later).contains(&off) {
            return Ok(TrackVerdict::Elsewhere);
        }
    }
    record_slips(layout, zone, track, extra.unsigned_abs());
    // Slips not counted yet move what lies before the end of a group, but not its first sector. If
    // times are noisy, more readings count for more.
    let hides_slips =
        |lba: u64| is_quiet && zone.ends_group(zone.track_of(lba)) && !zone.begins_group(lba);
    let seen: Vec<_> = seen.into_iter().filter(|(lba, _)| !hides_slips(*lba)).collect();
    zone.readings.extend(seen);
    zone.fit_last_readings();
    Ok(TrackVerdict::Fits(extra.unsigned_abs()))
}

/// Adds so many slips up to the end of a track, and learns how frequent they are.
pub(super) fn record_slips(
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
    slips: u64,
) {
    let border = zone.track_start(track + 1) - slips;
    // The spares of a group hide its slips from a count at its end.
    if !zone.ends_group(track) {
        layout.note_slips(slips, border - zone.counted_from(border - 1));
    }
    record_count(zone, track, slips as i64);
}

/// Adds `extra` skipped sectors (or removes some) up to the end of a track.
pub(crate) fn record_count(zone: &mut ZoneModel, track: u64, extra: i64) {
    let border = zone.track_start(track + 1).saturating_add_signed(-extra);
    if border <= zone.first_lba + 1 {
        return;
    }
    let from = zone.counted_from(border - 1);
    if extra != 0 {
        let known = zone.approximate_between(from, border);
        zone.spread(from, border, known.saturating_add_signed(extra));
    }
    zone.note_counted(border);
}

/// Counts the sectors skipped up to the end of a track, if that is possible; the zone then knows
/// their number. Returns those it did not know of.
pub(super) fn count_up_to(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
) -> Attempt<Option<i64>> {
    let counted = count(session, zone, track, CountAt::Track)?.map(|(extra, _)| extra);
    if let Some(extra) = counted {
        record_count(zone, track, extra);
    }
    Ok(counted)
}

/// The first track, counted from the zone's first one and up to `most`, that deviates by more than
/// `allowed` revolutions. Sectors skipped on the way are counted, because each moves all later
/// sectors; the zone then knows them.
pub(crate) fn first_deviation(
    session: &mut Session,
    zone: &mut ZoneModel,
    most: u64,
    allowed: f64,
) -> Attempt<Option<u64>> {
    let first = zone.first_track();
    let (mut good, mut bad) = (0, 1);
    loop {
        if good == most || out_of_reach(session, zone, first + bad) {
            return Ok(None);
        }
        if !continues_to(session, zone, first + bad, allowed)? {
            break;
        }
        good = bad;
        bad = (2 * bad).min(most);
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if continues_to(session, zone, first + middle, allowed)? {
            good = middle
        } else {
            bad = middle
        }
    }
    Ok(Some(bad))
}

/// True if a track lies where the zone predicts once the sectors skipped before it are counted. The
/// zone then knows their number, and is fitted to the track.
pub(super) fn continues_to(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
    allowed: f64,
) -> Attempt<bool> {
    // If the drive keeps whole tracks, a count costs an eviction or two.
    let costly = session.drive.hits.keeps_tracks;
    if costly && is_surely_as_predicted(session, zone, track, allowed)? {
        return Ok(true);
    }
    let mut trial = zone.clone();
    count_up_to(session, &mut trial, track.saturating_sub(1))?;
    if costly && trial.skips == zone.skips {
        return Ok(false);
    }
    let fits = is_surely_as_predicted(session, &mut trial, track, allowed)?;
    if fits {
        *zone = trial;
    }
    Ok(fits)
}

/// Adds skipped sectors whose place is known; the count is exact after them.
pub(crate) fn record_skip(zone: &mut ZoneModel, skip: Skip) {
    zone.skip(skip);
    zone.note_counted(skip.lba);
}
