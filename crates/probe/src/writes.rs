//! Writes, if allowed: write-back caching, and the settle time of the head before a write.
//!
//! Nothing is changed on the drive: every write restores what was read before ([`Rewrite`]).
//!
//! *Write-back.* A sector is read and written back at once. On the media that takes the rest of a
//! revolution; a drive that completes it in a fraction of that has put it into its cache. On such a
//! drive the later writes use force unit access.
//!
//! *Settle.* The minimum time from the completion of a read to that of a write on another track
//! (`min_time`), less that of a read there, is what a write adds after a seek. On the same track it
//! is what a write adds in any case, for command and completion. The difference of the two is the
//! settle time.
//!
//! Worked example: a write after a seek takes 0.55 ms more than a read, one on the same track 0.06
//! ms more: the settle time is 0.49 ms.
//!
//! Not found: the settle time of a drive that caches writes and does not support force unit access.
//! Bounds: [`PAIRS`] pairs of tracks. Cost: 5 to 10 s, some 500 sectors written back.

use headtime_mechanics::Track;
use headtime_units::Extent;
use serde::{Deserialize, Serialize};

use crate::geometry::Geometry;
use crate::layout::{LayoutResult, ZoneModel};
use crate::measurement::Rewrite;
use crate::min_time::{self, MinTimeSearch};
use crate::numbers::{median, part, spread, wrap};
use crate::results::Progress;
use crate::seek::SeekResult;
use crate::session::{Attempt, Session};

/// The number of rewrites that show write-back.
const REWRITES: usize = 16;
/// The number of pairs of tracks, and the most tries.
const PAIRS: usize = 7;
const MAX_TRIES: usize = 40;
/// The width of the interval at which a search ends, and the one that is accepted, ns.
const FINE_NS: f64 = 12_000.0;
const COARSE_NS: f64 = 80_000.0;
/// The bytes of a block; all writes are of whole blocks, as drives with larger physical sectors
/// would read before they write.
const BLOCK_BYTES: u64 = 4_096;

/// The result of measuring writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WriteResult {
    pub(crate) write_back: Option<bool>,
    /// The response of a write into the cache and its standard error, ns.
    pub(crate) hit_ns: Option<(f64, f64)>,
    /// The delay of a write's completion after its last sector beyond that of a read, ns, for each
    /// write on the media.
    completion_ns: Vec<f64>,
    /// Minimum times of writes on one track, without the sectors themselves, ns.
    same_ns: Vec<f64>,
    /// The minimum times of writes less those of reads between the same two tracks, ns.
    moved_ns: Vec<f64>,
    tries: usize,
}

impl WriteResult {
    /// The settle time and its standard error, ns; none if it was not measured.
    pub(crate) fn settle_ns(&self, same_track_read_ns: f64) -> Option<(f64, f64)> {
        let (same, moved) = (middle(&self.same_ns)?, middle(&self.moved_ns)?);
        let settle = moved.0 - (same.0 - same_track_read_ns);
        Some((settle.max(0.0), libm::sqrt(same.1 * same.1 + moved.1 * moved.1)))
    }

    /// The command overhead and the completion overhead of a write, us, if a sector takes `bus_ns`
    /// on the bus and reads have no completion overhead.
    pub(crate) fn overhead_us(&self, bus_ns: f64) -> Option<(f64, f64)> {
        let (same, _) = middle(&self.same_ns)?;
        let completion = (median(&self.completion_ns) + bus_ns).max(0.0);
        Some(((same - bus_ns - completion).max(0.0) / 1e3, completion / 1e3))
    }
}

/// Median and standard error.
fn middle(values: &[f64]) -> Option<(f64, f64)> {
    (!values.is_empty())
        .then(|| (median(values), 1.25 * spread(values) / libm::sqrt(values.len() as f64)))
}

/// Makes one more measurement of writes.
pub(crate) fn extend(
    session: &mut Session,
    layout: &LayoutResult,
    seek: &SeekResult,
    found: &mut WriteResult,
    sector_bytes: u32,
) -> Attempt<Progress> {
    let block = (BLOCK_BYTES / u64::from(sector_bytes)).max(1);
    if found.write_back.is_none() {
        return write_back(session, found, block);
    }
    found.tries += 1;
    let geometry = Geometry::new(layout, seek.order(), session.drive.capacity);
    let fua = found.write_back == Some(true);
    if found.same_ns.len() < PAIRS {
        let pair = same_track(session, &geometry);
        if let Some(least) = pair.map_or(Ok(None), |pair| {
            min_write(session, &layout.zones, found, pair, block, fua, 1e6)
        })? {
            found.same_ns.push(least);
        }
    } else {
        let pair = two_tracks(session, &geometry);
        // Two random tracks are a third of the stroke apart on average.
        let guess = seek.curve.predicted((geometry.cylinders() / 3).max(1)).unwrap_or(5e6);
        if let Some(pair) = pair
            && let Some(read) = min_read(session, &layout.zones, pair, guess)?
            && let Some(write) =
                min_write(session, &layout.zones, found, pair, block, fua, read + 5e5)?
        {
            found.moved_ns.push(write - read);
        }
    }
    let enough = found.moved_ns.len() >= PAIRS;
    let given_up = found.tries >= MAX_TRIES;
    if given_up && !enough {
        let (same, moved) = (found.same_ns.len(), found.moved_ns.len());
        session.remark(format!(
            "write settle: of {PAIRS} pairs of tracks each, {same} \
            and {moved} could be timed in {MAX_TRIES} tries"
        ));
    }
    Ok(Progress::from(enough || given_up))
}

/// Finds out if writes wait in the cache; done if no more can be found.
fn write_back(session: &mut Session, found: &mut WriteResult, block: u64) -> Attempt<Progress> {
    let mut took = Vec::new();
    for _ in 0..REWRITES {
        let blocks = session.drive.capacity / block;
        let extent = Extent::from_numbers(session.random.below(blocks.max(1)) * block, block);
        let commands = session.rewrite(Rewrite { extent, via: None, fua: false })?;
        if let [read, write] = commands.as_slice()
            && read.succeeded()
            && write.succeeded()
        {
            took.push(write.response().as_ns() as f64);
        }
    }
    if took.len() < REWRITES / 2 {
        session.remark(format!(
            "writes: {} of {REWRITES} failed; the drive may be write-protected",
            REWRITES - took.len()
        ));
        found.write_back = Some(false);
        return Ok(Progress::Done);
    }
    let usual = median(&took);
    let waits = usual < session.drive.clock.period_ns() / 3.0;
    found.write_back = Some(waits);
    found.hit_ns = if waits { middle(&took) } else { None };
    Ok(Progress::More)
}

/// Two tracks: zone and number of each.
type Pair = [(usize, u64); 2];

fn any_track(session: &mut Session, geometry: &Geometry<'_>) -> Track {
    Track {
        cylinder: session.random.below(geometry.cylinders()) as u32,
        head: session.random.below(geometry.heads) as u16,
    }
}

fn same_track(session: &mut Session, geometry: &Geometry<'_>) -> Option<Pair> {
    let place = any_track(session, geometry);
    let found = geometry.find(place)?;
    Some([found, found])
}

/// Two tracks of one surface, from the higher address to the lower, so that the read-ahead does not
/// reach the second.
fn two_tracks(session: &mut Session, geometry: &Geometry<'_>) -> Option<Pair> {
    let (one, two) = (any_track(session, geometry), any_track(session, geometry));
    let (one, two) = (geometry.find(one)?, geometry.find(Track { head: one.head, ..two })?);
    (one != two).then(|| if one > two { [one, two] } else { [two, one] })
}

fn search(session: &Session, guess_ns: f64, sectors_ns: f64) -> MinTimeSearch {
    let period_ns = session.drive.clock.period_ns();
    MinTimeSearch {
        period_ns,
        guess_ns: guess_ns + sectors_ns,
        fine_ns: FINE_NS + sectors_ns,
        coarse_ns: COARSE_NS + sectors_ns,
    }
}

fn sector_ns(session: &Session, zone: &ZoneModel) -> f64 {
    session.drive.clock.period_ns() / zone.sectors_per_track as f64
}

/// The minimum time of a read after a read, without the sector itself.
fn min_read(
    session: &mut Session,
    zones: &[ZoneModel],
    pair: Pair,
    guess_ns: f64,
) -> Attempt<Option<f64>> {
    let sector = sector_ns(session, &zones[pair[1].0]);
    let search = search(session, guess_ns, sector);
    let found = min_time::find(session, search, |session, target_ns| {
        session.keep_clock()?;
        for _ in 0..4 {
            let Some((from, to)) = places(session, zones, pair, 1, target_ns) else { continue };
            let via = session.read(from, headtime_units::Instant::ORIGIN)?;
            let command = session.read(to, headtime_units::Instant::ORIGIN)?;
            let from_media = !session.may_be_hit(&via) && !session.may_be_hit(&command);
            if via.succeeded() && command.succeeded() && from_media {
                return Ok(Some(command.completed.as_ns() as f64 - via.completed.as_ns() as f64));
            }
            session.read_random(1)?;
        }
        Ok(None)
    })?;
    Ok(found.map(|found| found - sector))
}

/// The minimum time of a write after a read, without the sectors themselves.
fn min_write(
    session: &mut Session,
    zones: &[ZoneModel],
    found: &mut WriteResult,
    pair: Pair,
    block: u64,
    fua: bool,
    guess_ns: f64,
) -> Attempt<Option<f64>> {
    let sectors = block as f64 * sector_ns(session, &zones[pair[1].0]);
    let search = search(session, guess_ns, sectors);
    let completion_ns = &mut found.completion_ns;
    let least = min_time::find(session, search, |session, target_ns| {
        session.keep_clock()?;
        for _ in 0..4 {
            let Some((from, to)) = places(session, zones, pair, block, target_ns) else { continue };
            let commands = session.rewrite(Rewrite { extent: to, via: Some(from), fua })?;
            let [_, via, write] = commands.as_slice() else { continue };
            if !write.succeeded() {
                return Ok(None);
            }
            if session.may_be_hit(via) {
                session.read_random(1)?;
                continue;
            }
            let period = session.drive.clock.period_ns();
            let end = zones[pair[1].0].angle(to.last().get());
            completion_ns.push(wrap(session.drive.clock.turns_at(write.completed) - end) * period);
            return Ok(Some(write.completed.as_ns() as f64 - via.completed.as_ns() as f64));
        }
        Ok(None)
    })?;
    Ok(least.map(|least| least - sectors))
}

/// A sector of the first track, and whole blocks of `block` sectors of the second, the last of
/// which passes `target_ns` after that; none if they would cross a boundary.
fn places(
    session: &mut Session,
    zones: &[ZoneModel],
    pair: Pair,
    block: u64,
    target_ns: f64,
) -> Option<(Extent, Extent)> {
    let (capacity, period) = (session.drive.capacity, session.drive.clock.period_ns());
    let (zone_from, zone_to) = (&zones[pair[0].0], &zones[pair[1].0]);
    let (start, end) = (zone_from.track_start(pair[0].1), zone_from.track_start(pair[0].1 + 1));
    if end > zone_from.end_lba.unwrap_or(capacity) || end - start < 2 {
        return None;
    }
    // Not near the track's end, so that the read-ahead stays on the track.
    let from = start + session.random.below((end - start) / 2);
    let (zone_from, zone_to, spt) = (&zones[pair[0].0], zone_to, zone_to.sectors_per_track);
    let target = part(zone_from.angle(from) + target_ns / period);
    let sector = libm::ceil(part(target - zone_to.track_angle(pair[1].1)) * spt as f64) as u64;
    let last = zone_to.lba_from(pair[1].1 * spt + (sector + spt - 1) % spt);
    let first = ((last + 1).div_ceil(block) * block).checked_sub(block)?;
    let on_track =
        zone_to.track_of(first) == pair[1].1 && zone_to.track_of(first + block - 1) == pair[1].1;
    let within = first >= zone_to.first_lba && first + block <= zone_to.end_lba.unwrap_or(capacity);
    let apart = !(first..first + block).contains(&from);
    (on_track && within && apart)
        .then(|| (Extent::from_numbers(from, 1), Extent::from_numbers(first, block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use crate::results::Results;
    use headtime_mechanics::DriveProfile;
    use headtime_mechanics::profile::Cache;
    use headtime_sim::DriveTruth;

    fn found(profile: &DriveProfile, noisy: bool, seed: u64) -> (WriteResult, f64) {
        let truth = if noisy {
            DriveTruth::draw(profile, seed)
        } else {
            DriveTruth::nominal(profile, seed)
        };
        let mut bench = Bench::new(truth.unwrap());
        let mut steps = 0;
        while bench.run(seed, |session, results| {
            let Results { layout, seek, writes, .. } = results;
            extend(session, layout, seek, writes, 512)
        }) == Progress::More
        {
            steps += 1;
            assert!(steps < 100, "seed {seed}");
        }
        (bench.results.writes, bench.results.seek.same_track_ns.unwrap())
    }

    #[test]
    fn the_settle_is_found_with_and_without_a_write_cache() {
        let written = Cache {
            segments: 16,
            segment_sectors: 512,
            write_back: true,
            read_hit_us: 150.0,
            write_hit_us: 170.0,
            ..Cache::default()
        };
        for cache in [None, Some(written)] {
            for (settle_ms, noisy, seed) in
                [(0.487, false, 1), (0.2, true, 2), (1.1, true, 3), (0.0, false, 4)]
            {
                let mut profile = DriveProfile { cache, ..plain("barracuda7200-7") };
                profile.seek.write_settle_ms = settle_ms;
                (profile.interface.write_command_us, profile.interface.write_completion_us) =
                    (260.0, Some(40.0));
                let (found, read_ns) = found(&profile, noisy, seed);
                let case = format!(
                    "settle {settle_ms}, cache {}, seed {seed}: {found:?}",
                    cache.is_some()
                );
                let (settle_ns, error_ns) = found.settle_ns(read_ns).expect("it was seen");
                assert!(
                    (settle_ns / 1e6 - settle_ms).abs() < if noisy { 0.08 } else { 0.02 },
                    "{settle_ns} ± {error_ns}, {case}"
                );
                assert_eq!(found.write_back, Some(cache.is_some()), "{case}");
                if let Some((hit_ns, _)) = found.hit_ns {
                    assert!((hit_ns / 1e3 - 170.0).abs() < 100.0, "{case}");
                }
                // The sum of command and completion overhead has to be right.
                let bus_ns = 512e3 / profile.interface.bus_mb_per_s;
                let (command_us, completion_us) = found.overhead_us(bus_ns).unwrap();
                assert!(
                    (command_us + completion_us - 300.0).abs() < 60.0,
                    "{command_us} + {completion_us}, {case}"
                );
            }
        }
    }
}
