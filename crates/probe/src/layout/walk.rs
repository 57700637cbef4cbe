//! How far a zone goes: tracks are counted (`border`) at ever greater strides until one is not as
//! predicted; bisection finds the first that is not.
//!
//! Slips do not stop the walk. A few more of them than were known are what a stretch of that length
//! has by chance; their number goes into the zone, spread evenly over the stretch, and `slips`
//! looks for where they are when the time allows. More than that, or none of the rhythm, is for
//! `explain`.

use super::LayoutResult;
use super::border::{MIN_DEVIATION, Where, count, is_short_by_at_most, off_in_middle};
use super::explain::explain;
use super::pattern::{begin_next, is_as_predicted};
use super::recovery;
use super::zone_model::{Pattern, Skip, ZoneModel};
use crate::results::Progress;
use crate::session::{Attempt, QUIET_TURNS, Session};

/// What a track is against what the zone predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TrackVerdict {
    /// As predicted, but for so many sectors by which it ends early.
    Fits(u64),
    /// It ends early by more.
    Short(u64),
    /// Its angle is another.
    Elsewhere,
    /// It ends where the drive does.
    Last,
}

/// So often is a step tried until what it was to explain is taken for lost.
const TRIES: u32 = 2;
/// Slips that a stretch may have beyond what is likely.
const SPARE_SLIPS: f64 = 2.0;
/// Tracks by which the third reading of a count lies before it.
const BEFORE: u64 = 3;
/// Counts of one step.
const COUNTS: usize = 4;
/// Tracks that are read between two counts where times are noisy.
const BETWEEN: u64 = 3;
/// Slips are told from spares and zones by so many deviations of their number.
const DEVIATIONS: f64 = 4.0;

/// Goes on with the last zone by one event: a skip, a narrow band, the zone's end, the next zone's
/// beginning. True when the whole drive is known.
pub(crate) fn extend(
    session: &mut Session,
    layout: &mut LayoutResult,
    retries: u32,
) -> Attempt<Progress> {
    let Some(mut zone) = layout.zones.last().cloned() else { return Ok(Progress::Done) };
    let capacity = session.drive.capacity;
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
    // Each part is a step of its own, as all of a step's answers are gone over for each new one.
    match zone.broken {
        None => zone.broken = walk(session, layout, &mut zone)?,
        Some((good, bad)) if good < bad => {
            let bad = first_bad(session, layout, &zone, good, bad)?;
            zone.broken = Some((bad, bad));
        }
        Some((_, bad)) => {
            zone.broken = None;
            explain_bad(session, layout, &mut zone, bad)?;
        }
    }
    layout.zones[number] = zone;
    Ok(Progress::More)
}

/// Says what the first track is that does not fit.
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

/// Some strides from the last counted track until one is not as predicted: the first track that was
/// not looked at and the one that does not fit. None when the zone has an end, or goes on so far.
fn walk(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
) -> Attempt<Option<(u64, u64)>> {
    let capacity = session.drive.capacity;
    let period = if zone.pattern.in_bands() { zone.pattern.period() } else { 1 };
    // In whole rounds of the rhythm, at their last tracks: there spares lie. No further at first
    // than twice what the steps were fitted to.
    let learned = zone.readings.iter().map(|reading| zone.track_of(reading.0)).max().unwrap_or(0);
    let before = if zone.checked == 0 { learned } else { zone.checked / 2 };
    let mut stride = (before / period).max(1);
    let mut good = zone.checked;
    for _ in 0..COUNTS {
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
        // The one before the drive's last, whose end can be seen.
        let last = zone.track_of(capacity - 1).saturating_sub(1).max(good);
        let last = zone
            .last_band
            .map_or(last, |(first, width)| last.min(first + width * zone.pattern.units - 1))
            .max(good);
        let track = ((good / period + stride) * period - 1).max(good).min(last);
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

/// Reads some tracks between two that fit, where times are noisy: counts are taken at the ends of
/// rounds of the rhythm, which tell the sum of its steps but not them apart, so that the steps
/// would drift away from each other, and tracks amidst a round with them.
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
    while bad > good {
        let middle = good + (bad - good) / 2;
        let most = likely(layout, zone, middle);
        let fits = is_short_by_at_most(session, zone, middle, most)?
            && fits_shortly_before(session, zone, middle, most)?;
        if fits { good = middle + 1 } else { bad = middle }
    }
    Ok(bad)
}

/// Whether a track shortly before one is as predicted too, but for as many sectors stepped over as
/// may be. Two readings at a border may fit by chance where another zone has begun, three hardly:
/// of its tracks each next one is off by as much more.
fn fits_shortly_before(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    most: i64,
) -> Attempt<bool> {
    let off = off_in_middle(session, zone, track.saturating_sub(BEFORE))?;
    let later = most as f64 / zone.sectors_per_track as f64;
    Ok((-MIN_DEVIATION..=later + MIN_DEVIATION).contains(&off))
}

/// As many slips as the stretch up to a track may have since they were counted.
pub(crate) fn likely(layout: &LayoutResult, zone: &ZoneModel, track: u64) -> i64 {
    let lba = zone.track_start(track + 1);
    let expected = layout.slip_rate()
        * (lba - zone.counted_from(lba.saturating_sub(1).max(zone.first_lba))) as f64;
    (SPARE_SLIPS + expected + DEVIATIONS * libm::sqrt(expected)) as i64
}

/// Counts at a track and the few behind it; the zone learns when it fits.
fn verify_around(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
) -> Attempt<TrackVerdict> {
    verify_where(session, layout, zone, track, Where::Around)
}

/// Counts at a track; the zone learns from it when it fits.
pub(crate) fn verify(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
) -> Attempt<TrackVerdict> {
    verify_where(session, layout, zone, track, Where::Here)
}

fn verify_where(
    session: &mut Session,
    layout: &mut LayoutResult,
    zone: &mut ZoneModel,
    track: u64,
    place: Where,
) -> Attempt<TrackVerdict> {
    if zone.middle_of(track) >= session.drive.capacity
        || zone.track_start(track + 1) >= session.drive.capacity
    {
        return Ok(TrackVerdict::Last);
    }
    let counted = match count(session, zone, track, place)? {
        None if place == Where::Around => count(session, zone, track, Where::Here)?,
        counted => counted,
    };
    let Some((extra, seen)) = counted else { return Ok(TrackVerdict::Elsewhere) };
    if extra < 0 {
        return Ok(TrackVerdict::Elsewhere);
    }
    if extra > likely(layout, zone, track) {
        return Ok(TrackVerdict::Short(extra.unsigned_abs()));
    }
    if place == Where::Around {
        // Two readings may fit by chance where another zone has begun, three hardly. Of a track
        // shortly before, which a cache that keeps whole tracks does not hold.
        let off = off_in_middle(session, zone, track.saturating_sub(BEFORE))?
            - extra as f64 / zone.sectors_per_track as f64;
        if off.abs() > MIN_DEVIATION {
            return Ok(TrackVerdict::Elsewhere);
        }
    }
    let border = zone.track_start(track + 1) - extra.unsigned_abs();
    layout.note_slips(extra.unsigned_abs(), border - zone.counted_from(border - 1));
    take_count(zone, track, extra);
    for (lba, turns) in seen {
        zone.readings.push((lba, turns));
    }
    zone.take_reading_last();
    Ok(TrackVerdict::Fits(extra.unsigned_abs()))
}

/// Lets the zone have so many more sectors stepped over (or fewer) up to the end of a track.
pub(crate) fn take_count(zone: &mut ZoneModel, track: u64, extra: i64) {
    let border = zone.track_start(track + 1).saturating_add_signed(-extra);
    if border <= zone.first_lba + 1 {
        return;
    }
    let from = zone.counted_from(border - 1);
    if extra != 0 {
        let known = zone.loose_between(from, border);
        zone.spread(from, border, known.saturating_add_signed(extra));
    }
    zone.note_sounded(border);
}

/// A skip whose place is known: behind it everything is counted.
pub(crate) fn take_skip(zone: &mut ZoneModel, skip: Skip) {
    zone.skip(skip);
    zone.note_sounded(skip.lba);
}
