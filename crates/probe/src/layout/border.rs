//! Counting skipped sectors by reads at the boundaries of tracks.
//!
//! A sector on one side of a track boundary completes a skew earlier or later than on the other
//! side, which is far more than any noise. If `n` more sectors were skipped than is known, a
//! certain sector begins the next track. One read of that sector tells whether at least `n` are
//! skipped. Each read can use another track: slips are rare, and a sector that was read recently
//! comes from the cache. Two reads confirm the known count; bisection finds another one.
//!
//! Worked example: 3 sectors were slipped since the last count, tracks of 500. The sector that
//! should begin track 81 lies on it, so at least 0 are skipped. The one before the beginning of
//! track 82 lies on track 82 already: at least 1. The reads for 2 at track 83 and for 4 at track 84
//! give "at least 2" and "fewer than 4"; the one for 3 at track 85 gives "at least 3". It is 3.

use super::track::between;
use super::zone_model::ZoneModel;
use crate::numbers::wrap;
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The largest deviation of a reading that belongs to a track, in revolutions.
pub(crate) const MIN_DEVIATION: f64 = 0.02;
/// The most that is counted, as a share of a track.
const MAX_COUNTED: f64 = 0.45;

/// The uncertainty of an approximate number that slips in unknown places may cause, sectors
/// (guess).
const WIDER: i64 = 8;

/// The most sectors that are tried one by one, instead of bisection, if the cache would hold the
/// sectors above.
const MAX_DOWNWARDS: i64 = 12;

/// The side of a boundary that a sector lies on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Before,
    After,
    /// Neither: the pattern is another one, or the reading is bad.
    Elsewhere,
}

/// The tracks at which reads are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CountAt {
    /// This track only.
    Track,
    /// This track and the few after it.
    Around,
}

/// The number of skipped sectors that the zone does not know of, with the addresses and angles of
/// the reads that showed it.
pub(crate) type Counted = (i64, Vec<(u64, f64)>);

/// A count in progress.
struct Count<'z> {
    zone: &'z ZoneModel,
    track: u64,
    place: CountAt,
    reads: u64,
    /// The sectors by which a read may miss the boundary.
    uncertainty: u64,
    /// The readings so far.
    seen: Vec<(u64, f64)>,
}

/// Like [`count`] at a track only, where about `expected` are likely: two reads confirm that.
pub(super) fn count_expecting(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    expected: i64,
) -> Attempt<Option<i64>> {
    let place = CountAt::Track;
    let mut likely = Count { zone, track, place, reads: 0, uncertainty: 0, seen: Vec::new() };
    let known = match expected {
        0 => None,
        _ => match likely.both_sides(session, expected)? {
            (Side::After, Side::Before) => Some(expected),
            (Side::After, Side::After) => likely.further(session, expected + 1)?,
            (Side::Before, Side::Before) => likely.nearer(session, expected)?,
            (Side::Elsewhere, _) | (_, Side::Elsewhere) | (Side::Before, Side::After) => None,
        },
    };
    match known {
        None => Ok(count(session, zone, track, place)?.map(|(extra, _)| extra)),
        known => Ok(known),
    }
}

/// Counts the skipped sectors, beyond those the zone knows of, up to the end of a track; none if
/// the zone's pattern does not hold there.
pub(crate) fn count(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    place: CountAt,
) -> Attempt<Option<Counted>> {
    let mut count = Count { zone, track, place, reads: 0, uncertainty: 0, seen: Vec::new() };
    let known = match count.both_sides(session, 0)? {
        (Side::After, Side::Before) => Some(0),
        (Side::After, Side::After) => count.further(session, 1)?,
        (Side::Before, Side::Before) => count.nearer(session, 0)?,
        (Side::After, Side::Elsewhere) if hides_slips(session, zone, track, i64::MAX)? => Some(0),
        _ => None,
    };
    if let Some(extra) = known {
        return Ok(Some((extra, count.seen)));
    }
    // The delay of the track gives the approximate number.
    let sectors = zone.sectors_per_track as f64;
    let off = middle_deviation(session, zone, track)?;
    let about = libm::round(off * sectors) as i64;
    let uncertainty = libm::ceil(4.0 * session.drive.noise_turns() * sectors) as i64 + 1;
    if off.abs() > MAX_COUNTED || about.abs() <= uncertainty.min(2) {
        // The track is as predicted, but its boundary is not.
        return Ok(None);
    }
    let mut found = count.near(session, about, uncertainty)?;
    if found.is_none() && session.drive.noise_turns() < QUIET_TURNS && uncertainty < WIDER {
        // Slips that were spread over the zone may have moved the track too.
        found = count.near(session, about, WIDER)?;
    }
    Ok(found.map(|extra| (extra, count.seen)))
}

/// True if a track is as its zone predicts, except for at most `most` more skipped sectors up to
/// its end. Cheaper than a count: a larger deviation is not examined.
pub(crate) fn is_short_by_at_most(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    most: i64,
) -> Attempt<bool> {
    if most as f64 > 2.0 * MIN_DEVIATION * zone.sectors_per_track as f64 {
        let counted = count(session, zone, track, CountAt::Track)?;
        return Ok(counted.is_some_and(|(extra, _)| (0..=most).contains(&extra)));
    }
    let mut count =
        Count { zone, track, place: CountAt::Track, reads: 0, uncertainty: 0, seen: Vec::new() };
    if session.drive.hits.keeps_tracks {
        let sides = count.both_sides(session, 0)?;
        return Ok(sides.0 == Side::After
            && (sides.1 == Side::Before || count.side(session, most + 1)? == Side::Before));
    }
    Ok(count.side(session, 0)? == Side::After
        && (count.side(session, 1)? == Side::Before
            || count.side(session, most + 1)? == Side::Before
            || hides_slips(session, zone, track, most)?))
}

/// True if a track is the last one of a group, and late by slips that were not counted, at most
/// `most` and no more than the group has spares. They move the last sectors of the group, but not
/// the beginning of the next one. If times are noisy, this is not examined.
fn hides_slips(session: &mut Session, zone: &ZoneModel, track: u64, most: i64) -> Attempt<bool> {
    let is_quiet = session.drive.noise_turns() < QUIET_TURNS;
    let Some(groups) = zone.groups.filter(|_| is_quiet && zone.ends_group(track)) else {
        return Ok(false);
    };
    let slips = middle_deviation(session, zone, track)? * zone.sectors_per_track as f64;
    Ok((0.5..=most.unsigned_abs().min(groups.spares) as f64 + 0.5).contains(&slips))
}

/// The delay of the middle of a track against the prediction; of several readings of a late track,
/// the smallest.
pub(crate) fn middle_deviation(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
) -> Attempt<f64> {
    let mut found: Option<f64> = None;
    for _ in 0..3 {
        let third = zone.sectors_per_track / 3;
        let lba = zone
            .lba_from(track * zone.sectors_per_track + third + session.random.below(third.max(1)));
        let lba = lba.min(session.drive.capacity - 1);
        let density = zone.sectors_per_track as f64;
        let seen = match session.try_angle_of_track(lba, density)? {
            Some(seen) => seen,
            // A cache that keeps whole tracks holds every sector of it.
            None => session.angle(lba)?,
        };
        let off = wrap(seen.turns - zone.angle(lba));
        if found.is_some_and(|found: f64| (found - off).abs() < MIN_DEVIATION)
            || off.abs() < MIN_DEVIATION
        {
            // Noise delays completions, so the smaller delay counts.
            return Ok(found.map_or(off, |found| {
                if (found - off).abs() < MIN_DEVIATION { found.min(off) } else { off }
            }));
        }
        found = Some(off);
    }
    Ok(found.unwrap_or(0.5))
}

impl Count<'_> {
    /// The sides of the first sectors of the next track if `extra` and if one more are skipped. If
    /// the drive keeps whole tracks, the track itself is read first: if it is cached, a hit still
    /// tells that the sector lies on it.
    fn both_sides(&mut self, session: &mut Session, extra: i64) -> Attempt<(Side, Side)> {
        if session.drive.hits.keeps_tracks {
            let more = self.side(session, extra + 1)?;
            return Ok((self.side(session, extra)?, more));
        }
        Ok((self.side(session, extra)?, self.side(session, extra + 1)?))
    }

    /// The side of the boundary that the first sector of the next track lies on, if `extra` more
    /// are skipped.
    fn side(&mut self, session: &mut Session, extra: i64) -> Attempt<Side> {
        for attempt in 0..3 {
            let track = match self.place {
                CountAt::Track => self.track,
                CountAt::Around => self.zone.used_track(self.track + self.reads),
            };
            let border = self.zone.track_start(track + 1);
            let Some(lba) = border
                .checked_add_signed(-extra)
                .filter(|lba| (self.zone.first_lba..session.drive.capacity).contains(lba))
            else {
                return Ok(Side::Elsewhere);
            };
            self.reads += 1;
            let density = self.zone.sectors_per_track as f64;
            let seen = match (self.place, session.try_angle_of_track(lba, density)?) {
                (_, Some(seen)) => seen,
                (CountAt::Around, None) => continue,
                (CountAt::Track, None) => session.angle(lba)?,
            };
            let sector = 1.0 / density;
            // Spares that are known may lie between the two, whole tracks among them.
            let (end, start) = (
                self.zone.angle(border.saturating_sub(1).max(self.zone.first_lba)),
                self.zone.angle(border),
            );
            let (before, after) = (wrap(seen.turns - end), wrap(seen.turns - start));
            // The read may miss the boundary by the sectors not known yet, and the reading is
            // noisy; the nearer side counts.
            let uncertainty = 8.0 * session.drive.noise_turns() + self.uncertainty as f64 * sector;
            let allowed =
                (0.45 * wrap(start - end).abs()).min(uncertainty.max(2.0 * MIN_DEVIATION));
            if before.abs().min(after.abs()) > allowed {
                if attempt < 1 {
                    continue;
                }
                return Ok(Side::Elsewhere);
            }
            let side = if after.abs() < before.abs() { Side::After } else { Side::Before };
            self.seen.push((lba, seen.turns));
            return Ok(side);
        }
        Ok(Side::Elsewhere)
    }

    /// The count if it is about a number.
    fn near(
        &mut self,
        session: &mut Session,
        about: i64,
        uncertainty: i64,
    ) -> Attempt<Option<i64>> {
        self.seen.clear();
        self.uncertainty = 2 * uncertainty.unsigned_abs();
        let (mut low, mut high) = (about - uncertainty, about + uncertainty + 1);
        if self.side(session, low)? != Side::After {
            return Ok(None);
        }
        if session.drive.hits.eviction_reads > 0
            && self.place == CountAt::Track
            && uncertainty <= MAX_DOWNWARDS
        {
            return self.downwards(session, low, 2 * uncertainty);
        }
        if self.side(session, high)? != Side::Before {
            return Ok(None);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.side(session, middle)? {
                Side::After => low = middle,
                Side::Before => high = middle,
                Side::Elsewhere => return Ok(None),
            }
        }
        Ok(Some(low))
    }

    /// The count if at least `low` and at most `most` more are skipped. Tries sector by sector
    /// downwards, so that none was read ahead.
    fn downwards(&mut self, session: &mut Session, low: i64, most: i64) -> Attempt<Option<i64>> {
        for more in 1..=most {
            match self.side(session, low + more)? {
                Side::After => {}
                Side::Before => return Ok(Some(low + more - 1)),
                Side::Elsewhere => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The count if at least `low` are skipped.
    fn further(&mut self, session: &mut Session, mut low: i64) -> Attempt<Option<i64>> {
        // If the drive keeps whole tracks, the next lower sector is cached as well, and each has to
        // be evicted.
        if session.drive.hits.eviction_reads > 0
            && self.place == CountAt::Track
            && !session.drive.hits.keeps_tracks
        {
            return self.downwards(session, low, MAX_DOWNWARDS);
        }
        let mut stride = 1;
        let high = loop {
            match self.side(session, low + stride)? {
                Side::After => (low, stride) = (low + stride, stride * 2),
                Side::Before => break low + stride,
                Side::Elsewhere => return Ok(None),
            }
        };
        self.between(session, low, high)
    }

    /// The count if at least `low` and fewer than `high` are skipped.
    fn between(
        &mut self,
        session: &mut Session,
        mut low: i64,
        mut high: i64,
    ) -> Attempt<Option<i64>> {
        while high - low > 1 {
            let middle = self.middle(session, low, high);
            match self.side(session, middle)? {
                Side::After => low = middle,
                Side::Before => high = middle,
                Side::Elsewhere => return Ok(None),
            }
        }
        Ok(Some(low))
    }

    /// A number near the middle of two, whose sector is not cached.
    fn middle(&self, session: &Session, low: i64, high: i64) -> i64 {
        let border = self.zone.track_start(self.track + 1);
        match (self.place, border.checked_add_signed(-low), border.checked_add_signed(-high)) {
            (CountAt::Track, Some(after), Some(before)) => {
                border as i64
                    - between(session, before, after, self.zone.sectors_per_track as f64) as i64
            }
            _ => low + (high - low) / 2,
        }
    }

    /// The count if fewer than `high` are skipped.
    fn nearer(&mut self, session: &mut Session, mut high: i64) -> Attempt<Option<i64>> {
        let mut stride = 1;
        let low = loop {
            match self.side(session, high - stride)? {
                Side::Before => (high, stride) = (high - stride, stride * 2),
                Side::After => break high - stride,
                Side::Elsewhere => return Ok(None),
            }
        };
        self.between(session, low, high)
    }
}
