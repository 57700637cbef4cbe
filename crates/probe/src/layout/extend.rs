//! How far a zone goes, and what in it is not as foretold.
//!
//! From the last verified track on, tracks are verified at ever greater strides. Where one fails, bisection finds the first that does, and what it is:
//! - its end comes early and the next track goes on as foretold: sectors were stepped over, a slip or spares;
//! - its angle is that of the next surface: the last band of the zone, which is narrower;
//! - its borders are as foretold and its angle is off by little: the fit was to blame, and learns; by more: passed over, twice in a zone at most;
//! - anything else: here the next zone begins.
//!
//! Where the first two parts of a zone, equally long, step over equally many sectors, they are groups with spares of their own, and foretell the others; the next zone is
//! presumed to have such groups too, until the first of them says otherwise.

use super::pattern::{LEAST_DEVIATION, begin_next, out_of_reach, track_angle};
use super::sketch::{Groups, Pattern, Skip, ZoneSketch};
use super::track::{Track, end_between, measure_track, on_same_track};
use crate::numbers::{median, part, wrap};
use crate::session::{Session, Step, Stop};

/// Skips of fewer sectors are slips rather than spares (guess).
const LEAST_SPARES: u64 = 6;

/// Tracks of a zone that may be elsewhere without an explanation.
const MOST_STRANGE: u64 = 2;

/// What a track is against what the zone foretells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// As foretold, but for so many sectors by which it ends early.
    Fits(u64),
    /// It ends early by more.
    Short(u64),
    /// Its angle is another.
    Elsewhere,
    /// It ends where the drive does.
    Last,
}

/// Goes on with the last zone by one event: a skip, a narrow band, the zone's end, the next zone's beginning. True when the whole drive is known.
pub(crate) fn extend(session: &mut Session) -> Step<bool> {
    let Some(mut zone) = session.know.zones.last().cloned() else { return Ok(true) };
    if let Some(end) = zone.end_lba {
        if end >= session.know.capacity {
            return Ok(true);
        }
        if end <= zone.first_lba {
            session.know.zones.pop();
            return Err(Stop::Hopeless(format!("the tracks from sector {end} on follow no rhythm that is known; the layout is known up to there")));
        }
        begin_next(session, end, zone.sectors_per_track as f64)?;
        return Ok(false);
    }
    let number = session.know.zones.len() - 1;
    let period = if zone.pattern.in_bands() { zone.pattern.period() } else { 1 };
    // In whole rounds of the rhythm, at their last tracks: there spares lie. No further at first than twice what the steps were fitted to.
    let learned = zone.readings.iter().map(|reading| reading.0).max().unwrap_or(0);
    let mut stride = (learned.saturating_sub(zone.checked) / period).max(1);
    if let Some(skip) = zone.skips.last() {
        stride = (zone.track_of(skip.lba) / period / 4).max(1);
    }
    let mut good = zone.checked;
    let bad = loop {
        let track = (good / period + stride) * period - 1;
        // The one before the drive's last, whose end can be seen.
        let last = zone.track_of(session.know.capacity - 1).saturating_sub(1).max(good);
        if let Some(end) = zone.last_band.map(|(first, width)| first + width * zone.pattern.units).filter(|end| good >= *end) {
            // The last band is full.
            zone.checked = end;
            zone.end_lba = Some(zone.track_start(end).min(session.know.capacity));
            session.know.zones[number] = zone;
            return Ok(false);
        }
        let last = zone.last_band.map_or(last, |(first, width)| last.min(first + width * zone.pattern.units - 1)).max(good);
        let track = track.max(good).min(last);
        match verify(session, &mut zone, track)? {
            Verdict::Fits(_) if track < last || zone.last_band.is_some() => (good, stride) = (track + 1, stride * 2),
            Verdict::Fits(_) | Verdict::Last => {
                zone.checked = track + 1;
                zone.end_lba = Some(session.know.capacity);
                session.know.zones[number] = zone;
                return Ok(false);
            }
            Verdict::Short(_) | Verdict::Elsewhere => break track,
        }
    };
    let bad = first_bad(session, &mut zone, good, bad)?;
    if zone.groups_presumed {
        zone.groups_presumed = false;
        let group = zone.groups.map_or(0, |groups| groups.lbas + groups.spares) / zone.sectors_per_track;
        if bad <= group {
            zone.groups = None;
            zone.checked = bad.saturating_sub(1);
            session.know.zones[number] = zone;
            return Ok(false);
        }
    }
    zone.checked = bad;
    explain(session, &mut zone, bad)?;
    session.know.zones[number] = zone;
    Ok(false)
}

/// The first track from `good` on that does not fit; `bad` does not.
fn first_bad(session: &mut Session, zone: &mut ZoneSketch, mut good: u64, mut bad: u64) -> Step<u64> {
    while bad > good {
        let middle = good + (bad - good) / 2;
        match verify(session, zone, middle)? {
            Verdict::Fits(_) => good = middle + 1,
            _ => bad = middle,
        }
    }
    Ok(bad)
}

/// Sectors by which a track may end early without being looked into: those that pass in the time that the drive's size leaves room for.
fn slight(session: &Session, zone: &ZoneSketch) -> u64 {
    let sector_ns = session.know.clock.period_ns() / zone.sectors_per_track as f64;
    (session.know.slight_ns / sector_ns) as u64
}

/// Reads a track's middle and both sides of its end; the zone learns from it when it fits.
pub(crate) fn verify(session: &mut Session, zone: &mut ZoneSketch, track: u64) -> Step<Verdict> {
    let density = zone.sectors_per_track as f64;
    let middle = zone.middle_of(track);
    if middle >= session.know.capacity {
        return Ok(Verdict::Last);
    }
    let mut angle = track_angle(session, zone, track)?;
    if wrap(angle - zone.track_angle(track)).abs() > LEAST_DEVIATION {
        session.shake(1)?;
        angle = track_angle(session, zone, track)?;
        if wrap(angle - zone.track_angle(track)).abs() > LEAST_DEVIATION {
            return Ok(Verdict::Elsewhere);
        }
    }
    let end = zone.track_start(track + 1);
    if end >= session.know.capacity {
        return Ok(Verdict::Last);
    }
    let on = (middle, part(angle + zone.track_part(middle)));
    let jump = zone.step_to(track + 1);
    // The one behind first, so that it was not read ahead.
    if on_same_track(session, on, end, density, jump)? {
        return Ok(Verdict::Elsewhere);
    }
    if on_same_track(session, on, end - 1, density, jump)? {
        zone.take_reading(track, angle);
        return Ok(Verdict::Fits(0));
    }
    let real = end_between(session, on, end - 1, density, jump)?;
    let short = end - real;
    Ok(if short <= slight(session, zone) { Verdict::Fits(short) } else { Verdict::Short(short) })
}

/// Says what the first track is that does not fit; all before it do.
fn explain(session: &mut Session, zone: &mut ZoneSketch, bad: u64) -> Step<()> {
    let start = zone.track_start(bad);
    let verdict = verify(session, zone, bad)?;
    if matches!(verdict, Verdict::Fits(_) | Verdict::Last) {
        // What failed was the fit, which has learned since.
        return Ok(());
    }
    if let Verdict::Short(short) = verdict {
        let end = zone.track_start(bad + 1) - short;
        let mut skipped = zone.clone();
        skip(&mut skipped, Skip { lba: end, sectors: short });
        if goes_on(session, &skipped, bad + 1)? {
            skipped.checked = bad + 1;
            find_groups(&mut skipped, bad + 1);
            if spares_end(&skipped, bad + 1) {
                // Where spares lie at the end of a cylinder a zone may end, though all else goes on alike for a while.
                skipped.skips.pop();
                skipped.end_lba = Some(end);
            }
            *zone = skipped;
            return Ok(());
        }
        if let Some(across) = skip_across(session, zone, bad + 1, Skip { lba: end, sectors: short })? {
            skip(zone, across);
            return Ok(());
        }
    }
    // The ends of what lies here, without presuming anything.
    let about = zone.sectors_per_track as f64;
    let first = measure_track(session, start, about)?;
    if first.end >= session.know.capacity {
        zone.end_lba = Some(session.know.capacity);
        return Ok(());
    }
    let second = measure_track(session, first.end, first.density)?;
    if let Some(slip) = slip_within(zone, bad, start, &first, &second) {
        skip(zone, slip);
        return Ok(());
    }
    let (one, two) = (first.end - start, second.end.saturating_sub(first.end));
    if verdict == Verdict::Elsewhere && narrow_band(session, zone, bad)? {
        return Ok(());
    }
    if one == zone.sectors_per_track && only_the_fit(session, zone, bad)? {
        return Ok(());
    }
    if zone.last_band.is_some_and(|(first, width)| bad + 1 == first + width * zone.pattern.units) {
        // The last track of the last band, however long it is.
        zone.end_lba = Some(first.end);
        return Ok(());
    }
    if one != two && two == zone.sectors_per_track {
        // The next track is as long as ever: if it goes on as foretold, sectors were stepped over; several tracks in a row may have some.
        let short = zone.track_start(bad + 1).saturating_sub(first.end);
        let mut skipped = zone.clone();
        skip(&mut skipped, Skip { lba: first.end, sectors: short });
        let angle = track_angle(session, &skipped, bad + 1)?;
        if short > 0 && wrap(angle - skipped.track_angle(bad + 1)).abs() <= LEAST_DEVIATION {
            skipped.checked = bad + 1;
            *zone = skipped;
            return Ok(());
        }
    }
    // A short last track still belongs to the zone before; a first track is as long as the second.
    if end_at_spares(zone, bad) {
        return Ok(());
    }
    if one == two && two == zone.sectors_per_track && zone.strange < MOST_STRANGE {
        // Tracks as ever, of which one was seen elsewhere: most likely by bad luck in all tries. Where the next ones are too, another zone begins.
        zone.strange += 1;
        zone.checked = bad + 1;
        return Ok(());
    }
    let of_new = one.abs_diff(two) <= 1 && two != zone.sectors_per_track || verdict == Verdict::Elsewhere && one >= two;
    zone.end_lba = Some(if of_new { start } else { first.end });
    Ok(())
}

/// Whether a track whose borders are as foretold is off by so little that the fit is to blame, or an outlier; then the zone learns from it.
fn only_the_fit(session: &mut Session, zone: &mut ZoneSketch, track: u64) -> Step<bool> {
    let mut angles = Vec::new();
    for _ in 0..3 {
        session.shake(1)?;
        let angle = track_angle(session, zone, track)?;
        angles.push(wrap(angle - zone.track_angle(track)));
    }
    let off = median(&angles);
    if off.abs() > 2.5 * LEAST_DEVIATION {
        return Ok(false);
    }
    let angle = part(zone.track_angle(track) + off);
    zone.take_reading(track, angle);
    zone.checked = track + 1;
    Ok(true)
}

/// Sectors stepped over in the midst of a track: what looks like its end comes too soon and jumps by as much as the track then ends early.
fn slip_within(zone: &ZoneSketch, track: u64, start: u64, first: &Track, second: &Track) -> Option<Skip> {
    let sectors = (start + zone.sectors_per_track).checked_sub(second.end).filter(|sectors| (1..zone.sectors_per_track / 4).contains(sectors))?;
    let by_jump = wrap(first.jump - sectors as f64 / zone.sectors_per_track as f64).abs();
    let as_end = wrap(first.jump - zone.step_to(track + 1)).abs();
    (by_jump < as_end && by_jump < LEAST_DEVIATION).then_some(Skip { lba: first.end, sectors })
}

/// Sectors stepped over on both sides of a track's beginning; those before it are known.
fn skip_across(session: &mut Session, zone: &ZoneSketch, track: u64, before: Skip) -> Step<Option<Skip>> {
    if before.lba >= session.know.capacity {
        return Ok(None);
    }
    let next = measure_track(session, before.lba, zone.sectors_per_track as f64)?;
    let Some(behind) = zone.sectors_per_track.checked_sub(next.end - before.lba).filter(|behind| (1..zone.sectors_per_track / 4).contains(behind))
    else {
        return Ok(None);
    };
    let all = Skip { lba: before.lba, sectors: before.sectors + behind };
    let mut skipped = zone.clone();
    skip(&mut skipped, all);
    // The tracks of a denser zone might fit once, but not twice.
    let fits = verify(session, &mut skipped, track)? == Verdict::Fits(0) && goes_on(session, &skipped, track + 1)?;
    Ok(fits.then_some(all))
}

/// Whether the tracks from one on are as foretold, but for slips: three that are equally short are denser tracks of another zone.
fn goes_on(session: &mut Session, zone: &ZoneSketch, track: u64) -> Step<bool> {
    let mut zone = zone.clone();
    let mut shorts = vec![];
    for next in track..track + 3 {
        match verify(session, &mut zone, next)? {
            Verdict::Fits(_) | Verdict::Last => return Ok(true),
            Verdict::Short(again) => {
                let end = zone.track_start(next + 1) - again;
                skip(&mut zone, Skip { lba: end, sectors: again });
                shorts.push(again);
            }
            Verdict::Elsewhere => return Ok(false),
        }
    }
    Ok(shorts.iter().any(|again| *again != shorts[0]))
}

/// Whether a zone that was just extended up to a track ends with spares there, as far as can be seen.
fn spares_end(zone: &ZoneSketch, track: u64) -> bool {
    let unit = zone.pattern.unit;
    let spares = zone.skips.last().is_some_and(|skip| skip.sectors >= LEAST_SPARES);
    spares && !zone.pattern.in_bands() && unit < Pattern::NEVER && track % unit == 0
}

/// Steps that are another zone's show late when they differ by little: then the zone ended at the spares that were passed shortly before.
fn end_at_spares(zone: &mut ZoneSketch, bad: u64) -> bool {
    let Some(last) = zone.skips.last().copied().filter(|skip| skip.sectors >= LEAST_SPARES && zone.pattern.in_bands()) else { return false };
    let track = zone.track_of(last.lba);
    let shortly = bad - track < zone.pattern.period();
    if shortly {
        zone.skips.pop();
        zone.end_lba = Some(last.lba);
    }
    shortly
}

/// Adds a skip, with one at the same place as one.
pub(crate) fn skip(zone: &mut ZoneSketch, skip: Skip) {
    match zone.skips.last_mut() {
        Some(last) if last.lba == skip.lba => last.sectors += skip.sectors,
        _ => zone.skips.push(skip),
    }
}

/// Whether the track is the second surface of a last band that is narrower; then the zone knows.
fn narrow_band(session: &mut Session, zone: &mut ZoneSketch, bad: u64) -> Step<bool> {
    let period = zone.pattern.period();
    let (first, width) = (bad / period * period, bad % period);
    if !zone.pattern.in_bands() || zone.last_band.is_some() || width == 0 || width >= zone.pattern.unit {
        return Ok(false);
    }
    let mut narrow = zone.clone();
    narrow.last_band = Some((first, width));
    let last = first + width * zone.pattern.units - 1;
    for track in [bad, bad + width / 2, bad + width] {
        if track <= last && !out_of_reach(session, &narrow, track) {
            let angle = track_angle(session, &narrow, track)?;
            if wrap(angle - narrow.track_angle(track)).abs() > LEAST_DEVIATION {
                return Ok(false);
            }
        }
    }
    *zone = narrow;
    Ok(true)
}

/// As many sectors stepped over in the second part of a zone as in an equally long first one, both ending with a cylinder or band: groups.
fn find_groups(zone: &mut ZoneSketch, track: u64) {
    let unit = if zone.pattern.in_bands() { zone.pattern.period() } else { zone.pattern.unit };
    if zone.groups.is_some() || unit >= Pattern::NEVER || track % unit != 0 || zone.reserved != 0 {
        return;
    }
    let Some(last) = zone.skips.last().copied() else { return };
    let all: u64 = zone.skips.iter().map(|skip| skip.sectors).sum();
    let mut sectors = 0;
    for half in zone.skips.clone() {
        sectors += half.sectors;
        let lbas = half.lba - zone.first_lba;
        if 2 * lbas == last.lba - zone.first_lba && 2 * sectors == all && sectors >= LEAST_SPARES {
            zone.groups = Some(Groups { lbas, spares: sectors });
            zone.skips.retain(|skip| skip.lba != half.lba && skip.lba != last.lba);
            return;
        }
    }
}
