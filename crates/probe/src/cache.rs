//! The drive's cache, measured by repeated reads.
//!
//! *Hits.* Sectors are read twice in a row. If the second read takes far less than a revolution
//! there is a cache, and this is the response of a hit.
//!
//! *Segments.* Many sectors far apart are read, then the same ones again from the newest back,
//! which changes nothing in the cache. The number of hits is the number of segments, if the least
//! recently used one is replaced first.
//!
//! *Read-ahead.* A sector is read. After the time in which the head reads `d` more, the sector `d`
//! further is a hit or not. Bisection over `d`, with another place each time, gives the length of
//! the read-ahead. If it ends at the track's end from two places of the track, the track bounds it.
//! If sectors *before* the one that was read are hits too, the drive keeps whole tracks.
//!
//! *Segment size.* A row is read in sequence. After its read-ahead, bisection gives the earliest
//! sector that is still cached.
//!
//! *Priority of read-ahead.* A sector is read and at once another far away. The sector that the
//! read-ahead would have reached meanwhile is a hit only if the drive completed the read-ahead
//! first.
//!
//! Worked example, 16 segments of 1,024 sectors, read-ahead as long as a segment: of 32 sectors the
//! 16 newest are hits. The sector 1,024 further is a hit and the one after it is not, from both
//! places of the track. Of 3,000 sectors read in a row and 1,024 read ahead, the last 1,024 are
//! cached.
//!
//! Guarantees: one false result of three is outvoted. Not told apart: segments of a fixed and of a
//! variable size; a replacement other than least recently used looks like fewer segments. Bounds:
//! 512 segments, 65,536 sectors. Cost: 20 to 60 s of drive time. Source: ours, in the manner of
//! Worthington, Ganger, Patt and Wilkes (1995), section 5.

use headtime_mechanics::profile::Cache;
use headtime_units::{Extent, Instant, Nanos};
use serde::{Deserialize, Serialize};

use crate::layout::{LayoutResult, ZoneModel};
use crate::measurement::TimedCommand;
use crate::numbers::{median, spread};
use crate::results::Progress;
use crate::session::{Attempt, Session};

/// The number of places that are read twice, to find hits.
const PLACES: usize = 24;
/// The numbers of segments that are tried, one after the other.
const ROWS: [u64; 4] = [8, 32, 128, 512];
/// The number of rounds of the last of them.
const ROW_ROUNDS: usize = 3;
/// The longest read-ahead and the longest segment that are looked for, sectors.
const FURTHEST: u64 = 1 << 16;
/// The sectors of one read of a row.
const CHUNK: u64 = 32;
/// The distance of a sector before one that was read, at which a drive that keeps whole tracks
/// usually has it cached.
const BEFORE: u64 = 4;
/// The shortest and the longest row that is tried for dropping its first sector, in sectors, and
/// the number of tries of each.
const SHORTEST_RING: u64 = 256;
const LONGEST_RING: u64 = 1 << 15;
const RING_TRIES: usize = 3;
/// The number of counts of segments before the layout is known.
const FORGET_ROUNDS: usize = 2;
/// The number of reads that evict a sector from a cache with one segment (`segments`).
const SINGLE_SEGMENT: u64 = 3;
/// After this many misses in a row, everything older is assumed to be evicted.
const MAX_MISSED: u64 = 8;
/// The number of tries of a majority vote.
const VOTES: usize = 7;
/// A read-ahead that takes less than this is over before another command arrives, ns.
const MIN_AHEAD_NS: f64 = 1.5e6;

/// The result of measuring the cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CacheResult {
    /// The response of a hit of one sector and its standard error, ns; none if there are no hits.
    pub(crate) hit_ns: Option<(f64, f64)>,
    /// The segments counted in each round.
    pub(crate) rows: Vec<u64>,
    /// The sectors read ahead from a tenth of a track on, and from six tenths on.
    pub(crate) ahead: Option<[u64; 2]>,
    pub(crate) within_track: bool,
    pub(crate) whole_track: bool,
    pub(crate) segment_sectors: Option<u64>,
    /// The read-ahead is completed before a command that arrives meanwhile; none if it is too short
    /// to tell.
    pub(crate) read_ahead_first: Option<bool>,
    step: u32,
}

impl CacheResult {
    /// The median number of segments.
    pub(crate) fn segments(&self) -> Option<u64> {
        let mut rows = self.rows.clone();
        rows.sort_unstable();
        rows.get(rows.len() / 2).copied().filter(|rows| *rows > 0)
    }

    /// The cache of a profile, without write-back, if a hit of one sector takes `bus_ns` on the
    /// bus; none if there is no cache.
    pub(crate) fn profile(&self, bus_ns: f64) -> Option<Cache> {
        let (hit_ns, _) = self.hit_ns?;
        let [near, far] = self.ahead.unwrap_or_default();
        let ahead = near.max(far);
        let read_hit_us = (hit_ns - bus_ns).max(0.0) / 1e3;
        Some(Cache {
            segments: self.segments().unwrap_or(1) as u32,
            segment_sectors: self.segment_sectors.unwrap_or(ahead).max(1) as u32,
            read_ahead_sectors: if self.whole_track { 0 } else { ahead as u32 },
            read_ahead_within_track: self.within_track && !self.whole_track,
            whole_track: self.whole_track,
            read_hit_us,
            write_hit_us: read_hit_us,
            ..Cache::default()
        })
    }
}

/// Measures one more property of the cache.
pub(crate) fn extend(
    session: &mut Session,
    layout: &LayoutResult,
    found: &mut CacheResult,
) -> Attempt<Progress> {
    let capacity = session.drive.capacity;
    let zones = layout.zones.iter().filter(|zone| !zone.unknown);
    // The zone with the most addresses.
    let Some(zone) = zones.max_by_key(|zone| zone.end_lba.unwrap_or(capacity) - zone.first_lba)
    else {
        return Ok(Progress::Done);
    };
    match found.step {
        0 => found.hit_ns = hits(session)?,
        1 | 3.. if session.drive.is_shared() => {}
        1 => found.rows = rows(session)?,
        2 => found.whole_track = keeps_whole_tracks(session, zone)?,
        3 => {
            let ahead = [read_ahead(session, zone, 0.1)?, read_ahead(session, zone, 0.6)?];
            found.within_track = ends_with_track(zone, ahead);
            found.ahead = Some(ahead);
        }
        4 => found.segment_sectors = segment(session, zone, found)?,
        _ => found.read_ahead_first = read_ahead_first(session, zone, found)?,
    }
    found.step += 1;
    let done = found.hit_ns.is_none() || found.step > 5;
    if done && session.drive.is_shared() {
        // The segments that evictions showed, if they were counted.
        let hits = &session.drive.hits;
        found.rows = hits.segments.into_iter().collect();
        session.remark(
            "cache: read-ahead, segments and their sizes were not measured, which needs a drive \
                without clients",
        );
    } else if done {
        remark_assumptions(&mut session.remarks, found);
    }
    Ok(Progress::from(done))
}

/// Measures what other experiments need to read a sector twice from the media: the length of a row
/// after which its segment drops the first sector (a few powers of two are tried), the number of
/// reads that evict everything, and the bus time of a hit.
pub(crate) fn measure_evictions(session: &mut Session) -> Attempt<()> {
    session.drive.hits.measured = true;
    session.drive.hits.keeps_tracks = holds_before(session)?;
    session.drive.hits.segments = session.undisturbed(segments)?;
    if let Some(most) = session.drive.hits.segments {
        // Some more for those used since.
        let reads = session.drive.hits.eviction_reads.min(most + most / 4 + 2);
        session.drive.hits.eviction_reads = reads;
    }
    session.drive.hits.bus_ns = crate::overhead::bus_from_hits(session)?.map(|(ns, _)| ns);
    if session.drive.is_shared() {
        // Long rows need a drive without clients.
        return Ok(());
    }
    let mut ring = SHORTEST_RING;
    while ring <= LONGEST_RING && ring < session.drive.capacity / 8 {
        let mut dropped = 0;
        for _ in 0..RING_TRIES {
            let place = session.random.below(session.drive.capacity - ring);
            let first = session.read_at_once(place, 1)?;
            session.read_row(place, place + ring)?;
            // A single segment would drop the row with it.
            if session.drive.hits.eviction_reads > SINGLE_SEGMENT {
                session.read_random(1)?;
            }
            let again = session.read_at_once(place, 1)?;
            dropped +=
                usize::from(first.succeeded() && again.succeeded() && !session.may_be_hit(&again));
        }
        if dropped == RING_TRIES {
            // A quarter more, for sectors that were read ahead before.
            session.drive.hits.overrun_sectors = Some(ring + ring / 4);
            return Ok(());
        }
        ring *= 2;
    }
    Ok(())
}

/// The number of segments: as many reads elsewhere evict a read.
fn segments(session: &mut Session) -> Attempt<u64> {
    let count = session.drive.hits.eviction_reads;
    let mut most = 0;
    for _ in 0..FORGET_ROUNDS {
        most = most.max(held_of(session, count, MAX_MISSED)?);
    }
    Ok(most)
}

/// True if a few sectors before one that was read are cached as well.
fn holds_before(session: &mut Session) -> Attempt<bool> {
    let mut held = 0;
    for _ in 0..VOTES {
        let place = BEFORE + session.random.below(session.drive.capacity - BEFORE);
        let command = session.until_undisturbed(|session| {
            session.read_followed(place, 1)?;
            session.read_at_once(place - BEFORE, 1)
        })?;
        held += usize::from(is_hit(session, &command));
    }
    Ok(held > VOTES / 2)
}

fn remark_assumptions(remarks: &mut Vec<String>, found: &CacheResult) {
    if found.hit_ns.is_none() {
        return;
    }
    let max_rows = ROWS[ROWS.len() - 1];
    if found.segments().is_some_and(|rows| rows >= max_rows) {
        remarks.push(format!("cache: {max_rows} segments or more; more were not looked for"));
    }
    if found.segment_sectors.is_none() {
        remarks.push(format!(
            "cache: a segment's size was not found (a row of {FURTHEST} sectors was held whole, or \
                none was); the read-ahead stands for it"
        ));
    }
    let [near, far] = found.ahead.unwrap_or_default();
    if near.max(far) >= FURTHEST {
        remarks.push(format!(
            "cache: reads ahead {FURTHEST} sectors or more; longer read-ahead was not looked for"
        ));
    } else if near.abs_diff(far) > near.max(far) / 20 + 4
        && !found.within_track
        && !found.whole_track
    {
        remarks.push(format!(
            "cache: reads ahead {near} sectors from one place and {far} from \
            another; the greater is taken"
        ));
    }
    if found.read_ahead_first == Some(true) {
        remarks.push(
            "cache: read-ahead is completed before a command that arrives meanwhile; reads after \
            others complete later than predicted"
                .into(),
        );
    }
}

/// The response of a hit and its standard error; none if second reads go to the media.
fn hits(session: &mut Session) -> Attempt<Option<(f64, f64)>> {
    let mut second = Vec::new();
    for _ in 0..PLACES {
        let lba = session.random.below(session.drive.capacity);
        let (first, again) = session.until_undisturbed(|session| {
            Ok((session.read_followed(lba, 1)?, session.read_at_once(lba, 1)?))
        })?;
        if first.succeeded() && again.succeeded() {
            second.push(again.response().as_ns() as f64);
        }
    }
    let middle = median(&second);
    if second.is_empty() || middle > session.drive.clock.period_ns() / 3.0 {
        return Ok(None);
    }
    let deviation = spread(&second);
    if session.drive.hits.hit_ns.is_none() {
        session.drive.hits.hit_ns = Some(middle);
        session.drive.hits.limit_ns = middle + 40_000.0 + 6.0 * deviation;
    }
    Ok(Some((middle, deviation * 1.25 / libm::sqrt(second.len() as f64))))
}

/// The number of segments, by round.
fn rows(session: &mut Session) -> Attempt<Vec<u64>> {
    let mut found = Vec::new();
    for (number, count) in ROWS.into_iter().enumerate() {
        if count > session.drive.capacity / 4 {
            break;
        }
        let first = held_of(session, count, 2)?;
        if first < count || number + 1 == ROWS.len() {
            found.push(first);
            for _ in 1..ROW_ROUNDS {
                let again = held_of(session, count, 2)?;
                found.push(again);
            }
            break;
        }
        found = vec![first];
    }
    Ok(found)
}

/// Reads `count` places, then the same ones from the newest back, until `max_missed` in a row come
/// from the media. Returns how many were cached.
fn held_of(session: &mut Session, count: u64, max_missed: u64) -> Attempt<u64> {
    let places: Vec<u64> =
        (0..count).map(|_| session.random.below(session.drive.capacity)).collect();
    for place in &places {
        session.read_followed(*place, 1)?;
        if session.is_disturbed() {
            return Ok(0);
        }
    }
    let mut missed = 0;
    for (number, place) in places.iter().rev().enumerate() {
        let again = session.read_followed(*place, 1)?;
        if session.is_disturbed() {
            return Ok(0);
        }
        missed = if is_hit(session, &again) { 0 } else { missed + 1 };
        if missed == max_missed {
            return Ok(number as u64 + 1 - max_missed);
        }
    }
    Ok(count - missed)
}

/// True if sectors before the one that was read are cached, wherever the head arrived.
fn keeps_whole_tracks(session: &mut Session, zone: &ZoneModel) -> Attempt<bool> {
    let period = session.drive.clock.period_ns();
    let mut held = 0;
    for number in 0..VOTES {
        let command = session.until_undisturbed(|session| {
            let place = on_track(session, zone, 0.5);
            session.read_random(1)?;
            let first = session.read_followed(place.lba, 1)?;
            let before = place.spt * (1 + number as u64 % 2) / 5;
            read_after(session, place.lba.saturating_sub(before), &first, 2.5 * period)
        })?;
        held += usize::from(is_hit(session, &command));
    }
    Ok(held + 1 >= VOTES)
}

/// The number of sectors read ahead of one that lies at a part of its track: the furthest one that
/// is a hit.
fn read_ahead(session: &mut Session, zone: &ZoneModel, part: f64) -> Attempt<u64> {
    let most = FURTHEST.min(session.drive.capacity / 8);
    let (mut held, mut not) = (0, 1);
    while not <= most && is_read_ahead(session, zone, part, not)? {
        (held, not) = (not, not * 4);
    }
    while not - held > 1 && held < most {
        let middle = held + (not - held) / 2;
        if is_read_ahead(session, zone, part, middle)? { held = middle } else { not = middle }
    }
    Ok(held)
}

/// True if the sector this far after one that was read is read ahead; by two of three tries.
fn is_read_ahead(
    session: &mut Session,
    zone: &ZoneModel,
    part: f64,
    distance: u64,
) -> Attempt<bool> {
    vote(session, |session| {
        let place = on_track(session, zone, part);
        session.read_random(1)?;
        let first = session.read_at_once(place.lba, 1)?;
        let idle = time_to_read(session, distance, place.spt);
        let command = read_after(session, place.lba + distance, &first, idle)?;
        Ok(is_hit(session, &command))
    })
}

/// The time in which the head reads so many sectors, with switches and a margin.
fn time_to_read(session: &Session, sectors: u64, spt: u64) -> f64 {
    let turns = sectors as f64 / spt as f64;
    let switches = libm::ceil(turns);
    session.drive.clock.period_ns() * (1.3 * turns + 0.5 * switches + 0.05)
}

/// True if the read-ahead from a tenth and from six tenths of a track ended at the track's end.
fn ends_with_track(zone: &ZoneModel, ahead: [u64; 2]) -> bool {
    let spt = zone.sectors_per_track as f64;
    // Skipped sectors make a track a little shorter.
    let slack = 3.0 + spt / 50.0;
    [0.1, 0.6]
        .iter()
        .zip(ahead)
        .all(|(part, ahead)| (ahead as f64 - (1.0 - part) * spt).abs() <= slack)
}

/// The sectors of a segment; none if they could not be found.
fn segment(session: &mut Session, zone: &ZoneModel, found: &CacheResult) -> Attempt<Option<u64>> {
    let [near, far] = found.ahead.unwrap_or_default();
    let ahead = near.max(far);
    let to_track_end = found.within_track || found.whole_track;
    let most = FURTHEST.min(session.drive.capacity / 8);
    let mut length = CHUNK.max(ahead);
    // The row's first sector has to be evicted.
    while is_held(session, zone, length, ahead, 0)? {
        length *= 2;
        if length > most {
            return Ok(None);
        }
    }
    // The cached sectors end with the row, at its track's end, or with the read-ahead after it.
    let after = if to_track_end { 0 } else { ahead };
    let (mut gone, mut held) = (0, length + after - 1);
    if !is_held(session, zone, length, ahead, held)? {
        return Ok(None);
    }
    while held - gone > 1 {
        let middle = gone + (held - gone) / 2;
        if is_held(session, zone, length, ahead, middle)? { held = middle } else { gone = middle }
    }
    Ok(Some(length + after - held))
}

/// True if the sector at `offset` is cached after a row of `length` was read in sequence and its
/// read-ahead is complete; by two of three tries.
fn is_held(
    session: &mut Session,
    zone: &ZoneModel,
    length: u64,
    ahead: u64,
    offset: u64,
) -> Attempt<bool> {
    vote(session, |session| {
        let spt = zone.sectors_per_track;
        let end = zone.end_lba.unwrap_or(session.drive.capacity);
        let tracks = zone.track_of(end - 1);
        let needed = length / spt + 2;
        let track = session.random.below(tracks.saturating_sub(needed + 1).max(1)) + needed;
        // The row ends with its last track.
        let row_end = zone.track_start(track + 1).min(end);
        let Some(start) = row_end.checked_sub(length) else { return Ok(false) };
        session.read_random(1)?;
        let mut next = start;
        let mut last = None;
        while next < row_end {
            let sectors = CHUNK.min(row_end - next);
            last = Some(session.read_at_once(next, sectors)?);
            next += sectors;
        }
        let Some(last) = last else { return Ok(false) };
        let idle = time_to_read(session, ahead, spt);
        let command = read_after(session, start + offset, &last, idle)?;
        Ok(is_hit(session, &command))
    })
}

/// True if read-ahead delays a command that arrives meanwhile.
fn read_ahead_first(
    session: &mut Session,
    zone: &ZoneModel,
    found: &CacheResult,
) -> Attempt<Option<bool>> {
    let [ahead, _] = found.ahead.unwrap_or_default();
    let spt = zone.sectors_per_track;
    let distance = (ahead * 3 / 4).min(spt * 3 / 4);
    if distance as f64 / spt as f64 * session.drive.clock.period_ns() < MIN_AHEAD_NS {
        return Ok(None);
    }
    if found.segments() == Some(1) {
        // A command elsewhere drops the row, so that nothing shows what was read of it.
        return Ok(None);
    }
    let mut held = 0;
    for _ in 0..VOTES {
        let place = on_track(session, zone, 0.1);
        session.read_random(1)?;
        session.read_at_once(place.lba, 1)?;
        session.read_random(1)?;
        let command = session.read_at_once(place.lba + distance, 1)?;
        held += usize::from(is_hit(session, &command));
    }
    Ok(Some(held > VOTES / 2))
}

/// A sector and its track's length.
struct Place {
    lba: u64,
    spt: u64,
}

/// A sector at a part of a random track, far enough from the zone's ends.
fn on_track(session: &mut Session, zone: &ZoneModel, part: f64) -> Place {
    let end = zone.end_lba.unwrap_or(session.drive.capacity);
    let (tracks, spt) = (zone.track_of(end - 1), zone.sectors_per_track);
    let margin = FURTHEST.min((end - zone.first_lba) / 4) / spt + 2;
    let track = 1 + session.random.below(tracks.saturating_sub(margin).max(1));
    Place { lba: zone.track_start(track) + (part * spt as f64) as u64, spt }
}

/// Reads a sector so long after a completion.
fn read_after(
    session: &mut Session,
    lba: u64,
    after: &TimedCommand,
    idle_ns: f64,
) -> Attempt<TimedCommand> {
    let not_before = after.completed + Nanos::from_ns(idle_ns as u64);
    session.read(
        Extent::from_numbers(lba.min(session.drive.capacity - 1), 1),
        not_before.max(Instant::ORIGIN),
    )
}

fn is_hit(session: &Session, command: &TimedCommand) -> bool {
    command.succeeded() && session.may_be_hit(command)
}

/// The majority of three tries.
fn vote(
    session: &mut Session,
    mut one: impl FnMut(&mut Session) -> Attempt<bool>,
) -> Attempt<bool> {
    let (first, second) = (one(session)?, one(session)?);
    if first == second { Ok(first) } else { one(session) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::DriveProfile;
    use headtime_sim::DriveTruth;

    /// A drive of medium size with a given cache.
    fn drive(cache: Option<Cache>) -> DriveProfile {
        DriveProfile { cache, ..plain("barracuda7200-7") }
    }

    fn found(profile: &DriveProfile, noisy: bool, seed: u64) -> CacheResult {
        let truth = if noisy {
            DriveTruth::draw(profile, seed)
        } else {
            DriveTruth::nominal(profile, seed)
        };
        let mut bench = Bench::new(truth.unwrap());
        let mut steps = 0;
        while bench
            .run(seed, |session, results| extend(session, &results.layout, &mut results.cache))
            == Progress::More
        {
            steps += 1;
            assert!(steps < 20);
        }
        bench.results.cache
    }

    const PLAIN: Cache = Cache {
        segments: 16,
        segment_sectors: 1_024,
        write_segments: None,
        read_ahead_sectors: 1_024,
        read_ahead_within_track: false,
        whole_track: false,
        write_back: false,
        read_hit_us: 150.0,
        read_hit_after_write_us: None,
        write_hit_us: 150.0,
        write_hit_after_write_us: None,
        write_delay_ms: None,
    };

    #[test]
    fn a_drive_without_a_cache_has_none() {
        let found = found(&drive(None), true, 1);
        assert_eq!((found.hit_ns, found.profile(1e3)), (None, None));
    }

    #[test]
    fn segments_their_size_and_read_ahead_are_found() {
        let shorter = Cache { segments: 5, segment_sectors: 600, read_ahead_sectors: 200, ..PLAIN };
        for (cache, noisy) in [
            (PLAIN, false),
            (PLAIN, true),
            (shorter, false),
            (shorter, true),
            (Cache { read_ahead_sectors: 0, ..PLAIN }, false),
        ] {
            for seed in [1, 2] {
                let found = found(&drive(Some(cache)), noisy, seed);
                let case = format!("seed {seed}, noisy {noisy}, {cache:?}: {found:?}");
                let profile = found.profile(0.0).expect("there is a cache");
                let near = |one: u32, two: u32| one.abs_diff(two) <= 2 + two / 50;
                assert_eq!(profile.segments, cache.segments, "{case}");
                assert!(near(profile.read_ahead_sectors, cache.read_ahead_sectors), "{case}");
                assert!(near(profile.segment_sectors, cache.segment_sectors), "{case}");
                assert!(
                    !profile.whole_track
                        && !profile.read_ahead_within_track
                        && found.read_ahead_first != Some(true),
                    "{case}"
                );
                assert!((profile.read_hit_us - cache.read_hit_us).abs() < 30.0, "{case}");
            }
        }
    }

    #[test]
    fn read_ahead_to_the_tracks_end_and_whole_tracks_are_told_apart() {
        let within = Cache { read_ahead_within_track: true, ..PLAIN };
        let whole = Cache { whole_track: true, read_ahead_sectors: 0, ..PLAIN };
        for noisy in [false, true] {
            let profile = found(&drive(Some(within)), noisy, 3).profile(0.0).unwrap();
            assert!(profile.read_ahead_within_track && !profile.whole_track, "{profile:?}");
            let profile = found(&drive(Some(whole)), noisy, 4).profile(0.0).unwrap();
            assert!(profile.whole_track && !profile.read_ahead_within_track, "{profile:?}");
            assert_eq!(profile.segments, 16);
        }
    }
}
