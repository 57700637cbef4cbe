//! Counting what is stepped over, by reads at the borders of tracks.
//!
//! A sector on one side of a track's border completes a skew earlier or later than on the other,
//! which is far more than any noise. So one read of the sector that *would* begin the next track if
//! `n` sectors more were stepped over than is known says whether at least `n` are. Each such
//! question may be put at another track: slips are rare, and a sector that was read lately comes
//! from the cache. Two reads confirm what is known; bisection finds what is not.
//!
//! Worked example: 3 sectors were slipped since the last count, tracks of 500. The sector that
//! should begin track 81 lies on it (so at least 0 are stepped over), the one before the beginning
//! of track 82 lies on 82 already (at least 1). 83 is asked for 2, 84 for 4: still on 83. 85 is
//! asked for 3: on 85. It is 3.

use super::track::between;
use super::zone_model::ZoneModel;
use crate::numbers::{part, wrap};
use crate::session::{Attempt, Session};

/// A reading that is further off than this belongs to no track it might be on, turns.
pub(crate) const MIN_DEVIATION: f64 = 0.02;
/// The most that is counted, as a share of a track.
const MAX_COUNTED: f64 = 0.45;

/// Sectors that are tried one after the other rather than by bisection where the cache would hold
/// those above.
const MAX_DOWNWARDS: i64 = 12;

/// On which side of a border a sector lies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Before,
    Behind,
    /// Neither: the rhythm is another, or the reading bad.
    Elsewhere,
}

/// Where questions are put.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Where {
    /// At this very track.
    Here,
    /// At this track and the few behind it.
    Around,
}

/// Sectors more than the zone knows, and the addresses and angles of the reads that said so.
pub(crate) type Counted = (i64, Vec<(u64, f64)>);

/// A count under way.
struct Count<'z> {
    zone: &'z ZoneModel,
    track: u64,
    place: Where,
    asked: u64,
    /// Sectors by which a question may be off the border.
    unsure: u64,
    /// What was read.
    seen: Vec<(u64, f64)>,
}

/// By how many sectors more than the zone knows is stepped over up to the end of a track; none when
/// the zone's rhythm does not hold there. With the readings that said so.
pub(crate) fn count(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    place: Where,
) -> Attempt<Option<Counted>> {
    let mut count = Count { zone, track, place, asked: 0, unsure: 0, seen: Vec::new() };
    let known = match (count.side(session, 0)?, count.side(session, 1)?) {
        (Side::Behind, Side::Before) => Some(0),
        (Side::Behind, Side::Behind) => count.further(session, 1)?,
        (Side::Before, Side::Before) => count.nearer(session, 0)?,
        _ => None,
    };
    if let Some(extra) = known {
        return Ok(Some((extra, count.seen)));
    }
    // By how much the track comes late says about how many.
    let sectors = zone.sectors_per_track as f64;
    let off = off_in_middle(session, zone, track)?;
    let about = libm::round(off * sectors) as i64;
    let unsure = libm::ceil(4.0 * session.drive.noise_turns() * sectors) as i64 + 1;
    if off.abs() > MAX_COUNTED || about.abs() <= unsure.min(2) {
        // As known, and yet the border is not.
        return Ok(None);
    }
    count.seen.clear();
    count.unsure = 2 * unsure.unsigned_abs();
    if session.drive.hits.eviction_reads > 0 && place == Where::Here && unsure <= MAX_DOWNWARDS {
        let behind = count.side(session, about - unsure)? == Side::Behind;
        let extra =
            if behind { count.downwards(session, about - unsure, 2 * unsure)? } else { None };
        return Ok(extra.map(|extra| (extra, count.seen)));
    }
    let (mut low, mut high) = (about - unsure, about + unsure + 1);
    if count.side(session, low)? != Side::Behind || count.side(session, high)? != Side::Before {
        return Ok(None);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match count.side(session, middle)? {
            Side::Behind => low = middle,
            Side::Before => high = middle,
            Side::Elsewhere => return Ok(None),
        }
    }
    Ok(Some((low, count.seen)))
}

/// Whether a track is as its zone predicts, but for at most so many sectors more that are stepped
/// over up to its end. A cheaper question than how many there are: one that is further off than so
/// many could bring it is not looked into.
pub(crate) fn is_short_by_at_most(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    most: i64,
) -> Attempt<bool> {
    if most as f64 > 2.0 * MIN_DEVIATION * zone.sectors_per_track as f64 {
        let counted = count(session, zone, track, Where::Here)?;
        return Ok(counted.is_some_and(|(extra, _)| (0..=most).contains(&extra)));
    }
    let mut count =
        Count { zone, track, place: Where::Here, asked: 0, unsure: 0, seen: Vec::new() };
    Ok(count.side(session, 0)? == Side::Behind
        && (count.side(session, 1)? == Side::Before
            || count.side(session, most + 1)? == Side::Before))
}

/// By how much a track comes later than predicted, in its middle; the least of some readings when it
/// does.
pub(crate) fn off_in_middle(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<f64> {
    let mut found: Option<f64> = None;
    for _ in 0..3 {
        let third = zone.sectors_per_track / 3;
        let lba = zone
            .lba_from(track * zone.sectors_per_track + third + session.random.below(third.max(1)));
        let lba = lba.min(session.drive.capacity - 1);
        let seen = match session.try_angle(lba)? {
            Some(seen) => seen,
            // A cache that keeps whole tracks has it all.
            None => session.angle(lba)?,
        };
        let off = wrap(seen.turns - zone.angle(lba));
        if found.is_some_and(|found: f64| (found - off).abs() < MIN_DEVIATION)
            || off.abs() < MIN_DEVIATION
        {
            // Noise makes late.
            return Ok(found.map_or(off, |found| {
                if (found - off).abs() < MIN_DEVIATION { found.min(off) } else { off }
            }));
        }
        found = Some(off);
    }
    Ok(found.unwrap_or(0.5))
}

impl Count<'_> {
    /// On which side the sector lies that begins the next track if `extra` more are stepped over.
    fn side(&mut self, session: &mut Session, extra: i64) -> Attempt<Side> {
        for attempt in 0..3 {
            let track = match self.place {
                Where::Here => self.track,
                Where::Around => self.track + self.asked,
            };
            let border = self.zone.track_start(track + 1);
            let Some(lba) = border
                .checked_add_signed(-extra)
                .filter(|lba| (self.zone.first_lba..session.drive.capacity).contains(lba))
            else {
                return Ok(Side::Elsewhere);
            };
            self.asked += 1;
            let seen = match (self.place, session.try_angle(lba)?) {
                (_, Some(seen)) => seen,
                (Where::Around, None) => continue,
                (Where::Here, None) => session.angle(lba)?,
            };
            let sector = 1.0 / self.zone.sectors_per_track as f64;
            let (end, start) =
                (self.zone.track_angle(track), self.zone.track_angle(track + 1) + sector);
            let (before, behind) = (wrap(seen.turns - part(end)), wrap(seen.turns - part(start)));
            // What is asked may be off by as many sectors as are not known yet, and what is read by
            // noise; which side it is, is decided by what is nearer.
            let unsure = 8.0 * session.drive.noise_turns() + self.unsure as f64 * sector;
            let allowed = (0.45 * wrap(start - end).abs()).min(unsure.max(2.0 * MIN_DEVIATION));
            if before.abs().min(behind.abs()) > allowed {
                if attempt < 1 {
                    continue;
                }
                return Ok(Side::Elsewhere);
            }
            let side = if behind.abs() < before.abs() { Side::Behind } else { Side::Before };
            self.seen.push((lba, seen.turns));
            return Ok(side);
        }
        Ok(Side::Elsewhere)
    }

    /// At least `low` are stepped over: how many, if not more than so many more? From sector to
    /// sector downwards, so that none was read ahead.
    fn downwards(&mut self, session: &mut Session, low: i64, most: i64) -> Attempt<Option<i64>> {
        for more in 1..=most {
            match self.side(session, low + more)? {
                Side::Behind => {}
                Side::Before => return Ok(Some(low + more - 1)),
                Side::Elsewhere => return Ok(None),
            }
        }
        Ok(None)
    }

    /// At least `low` are stepped over: how many?
    fn further(&mut self, session: &mut Session, mut low: i64) -> Attempt<Option<i64>> {
        // Where whole tracks are kept the next one downwards is held as well, and each has to be
        // driven out.
        if session.drive.hits.eviction_reads > 0
            && self.place == Where::Here
            && !session.drive.hits.keeps_tracks
        {
            return self.downwards(session, low, MAX_DOWNWARDS);
        }
        let mut stride = 1;
        let high = loop {
            match self.side(session, low + stride)? {
                Side::Behind => (low, stride) = (low + stride, stride * 2),
                Side::Before => break low + stride,
                Side::Elsewhere => return Ok(None),
            }
        };
        self.between(session, low, high)
    }

    /// At least `low` are stepped over and fewer than `high`: how many?
    fn between(
        &mut self,
        session: &mut Session,
        mut low: i64,
        mut high: i64,
    ) -> Attempt<Option<i64>> {
        while high - low > 1 {
            let middle = self.middle(session, low, high);
            match self.side(session, middle)? {
                Side::Behind => low = middle,
                Side::Before => high = middle,
                Side::Elsewhere => return Ok(None),
            }
        }
        Ok(Some(low))
    }

    /// A number between two whose sector the cache does not hold, near their middle.
    fn middle(&self, session: &Session, low: i64, high: i64) -> i64 {
        let border = self.zone.track_start(self.track + 1);
        match (self.place, border.checked_add_signed(-low), border.checked_add_signed(-high)) {
            (Where::Here, Some(behind), Some(before)) => {
                border as i64
                    - between(session, before, behind, self.zone.sectors_per_track as f64) as i64
            }
            _ => low + (high - low) / 2,
        }
    }

    /// Fewer than `high` are: how many?
    fn nearer(&mut self, session: &mut Session, mut high: i64) -> Attempt<Option<i64>> {
        let mut stride = 1;
        let low = loop {
            match self.side(session, high - stride)? {
                Side::Before => (high, stride) = (high - stride, stride * 2),
                Side::Behind => break high - stride,
                Side::Elsewhere => return Ok(None),
            }
        };
        self.between(session, low, high)
    }
}
