//! The arm: the time from track to track.
//!
//! *The minimum time between completions.* After the read of a sector on one track, a sector of
//! another track is read at once. It passes at known times, a revolution apart. If the head is
//! there in time it is reached the first time, otherwise a revolution later. So one trial bounds
//! the minimum time `m` of a completion there by `r − T < m ≤ r`, where `r` is the time it took.
//! The next trial reads the sector that passes in the middle of the remaining interval. From a good
//! guess, six trials give `m` to about ten microseconds, with any noise, as the only question is
//! the revolution.
//!
//! `m` consists of command overhead, seek time, the sector itself and the time after the media. On
//! the same track there is no seek, so the difference is the seek time. On a drive that reads ahead
//! the same track cannot be timed; the response of a cache hit stands for it.
//!
//! *The curve.* One cylinder, the full stroke, and the distances between them (`curve`), coarse to
//! fine, each between several pairs of cylinders all over the drive; then others where the curve
//! bends, until it is straight or the time is up.
//!
//! Source: MTBRC in Worthington, Ganger, Patt and Wilkes (1995) and Schindler and Ganger (1999);
//! the bisection is ours.

use headtime_mechanics::Track;
use headtime_mechanics::profile::TrackOrder;
use serde::{Deserialize, Serialize};

use crate::curve::{Curve, Timed};
use crate::geometry::Geometry;
use crate::layout::{LayoutResult, ZoneModel};
use crate::numbers::{mean, median, part, wrap};
use crate::results::Progress;
use crate::session::{Attempt, Interruption, Session};

/// The number of pairs of cylinders for each distance (guess: regions of the stroke differ by about
/// 50 us, so the mean is good to 20 us).
const PAIRS: usize = 5;
/// The most trials of a pair.
const MAX_TRIALS: usize = 20;
/// The number of pairs of sectors that are tried in one trial: with a cache, which may hold some,
/// and without.
const CACHED_CHOICES: usize = 6;
const CHOICES: usize = 3;
/// The number of trials of a pair that may fail.
const MAX_FAILED: usize = 8;
/// The number of double bands (or cylinders) by which a pair may be moved.
const MAX_SHIFTS: u64 = 12;
/// The number of pairs drawn for one that is needed.
const MAX_TRIES: usize = 6;
/// The width of the interval at which trials end, ns.
pub(crate) const FINE_NS: f64 = 12_000.0;
/// The largest deviation of a completion that is noise, ns; or eight standard deviations.
const NEAR_NS: f64 = 60_000.0;
/// The number of standard errors that is significant.
pub(crate) const SURE: f64 = 3.0;
/// The width, or contradiction, that is accepted after all trials, ns.
const CONTRADICTION_NS: f64 = 80_000.0;
/// The result of measuring the arm; minimum times without the sector itself, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeekResult {
    /// On the same track.
    pub(crate) same_track_ns: Option<f64>,
    /// Its standard error, if it was timed.
    pub(crate) same_track_error_ns: Option<f64>,
    /// To another surface of the cylinder.
    pub(crate) other_head_ns: Option<f64>,
    /// Its standard error.
    pub(crate) other_head_error_ns: Option<f64>,
    /// The step from a cylinder's last track to the next cylinder: to the track on the same surface
    /// if the order is serpentine, and to the one if it is not.
    order_ns: Option<(f64, f64)>,
    /// By distance.
    pub(crate) curve: Curve,
}

impl SeekResult {
    /// Serpentine, unless the times show that each cylinder starts at the first surface.
    pub(crate) fn order(&self) -> TrackOrder {
        match self.order_ns {
            Some((serpentine, cylinder)) if cylinder < serpentine - 60_000.0 => {
                TrackOrder::Cylinder
            }
            _ => TrackOrder::Serpentine,
        }
    }

    /// True if the times showed the order of surfaces; a single one has none.
    pub(crate) fn order_was_seen(&self) -> bool {
        self.order_ns.is_some_and(|(serpentine, cylinder)| (cylinder - serpentine).abs() > 60_000.0)
    }
}

/// The detail to which the curve is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurveDetail {
    /// The first distances only.
    Coarse,
    /// More distances where the curve bends.
    Refined,
}

/// Measures one more figure of the arm.
pub(crate) fn extend(
    session: &mut Session,
    layout: &LayoutResult,
    found: &mut SeekResult,
    detail: CurveDetail,
) -> Attempt<Progress> {
    let geometry = Geometry::new(layout, found.order(), session.drive.capacity);
    if found.same_track_ns.is_none() {
        let timed = match session.drive.hits.hit_ns {
            Some(ns) => Timed { ns, error_ns: None },
            None => over_pairs(session, &geometry, same_track, 1e6)?,
        };
        (found.same_track_ns, found.same_track_error_ns) = (Some(timed.ns), timed.error_ns);
        return Ok(Progress::More);
    }
    if geometry.heads > 1 && found.other_head_ns.is_none() {
        let timed = over_pairs(session, &geometry, other_head, 1.5e6)?;
        (found.other_head_ns, found.other_head_error_ns) = (Some(timed.ns), timed.error_ns);
        return Ok(Progress::More);
    }
    if geometry.heads > 1 && geometry.band == 1 && found.order_ns.is_none() {
        let serpentine = over_pairs(session, &geometry, next_cylinder_last_track, 2e6)?;
        let cylinder = over_pairs(session, &geometry, next_cylinder_same_place, 2e6)?;
        found.order_ns = Some((serpentine.ns, cylinder.ns));
        return Ok(Progress::More);
    }
    // The last cylinders may be spares.
    let longest = (geometry.cylinders() * 49 / 50).saturating_sub(1).max(1);
    let curve = &mut found.curve;
    let refined = || curve.next_between().filter(|_| detail == CurveDetail::Refined);
    let Some(distance) = curve.next_first(longest).or_else(refined) else {
        return Ok(Progress::Done);
    };
    let guess = curve
        .predicted(distance)
        .or_else(|| curve.points.last().map(|point| point.1.ns))
        .unwrap_or(2e6);
    match at_distance(session, &geometry, distance, guess)? {
        Some(timed) => curve.insert(distance, timed),
        None => curve.give_up(distance),
    }
    Ok(Progress::More)
}

/// A pair of tracks: zone and number of each.
pub(crate) type Pair = [(usize, u64); 2];

fn same_track(session: &mut Session, geometry: &Geometry<'_>) -> Option<Pair> {
    let place = any_track(session, geometry);
    let found = geometry.find(place)?;
    Some([found, found])
}

fn other_head(session: &mut Session, geometry: &Geometry<'_>) -> Option<Pair> {
    let place = any_track(session, geometry);
    let head =
        (u64::from(place.head) + 1 + session.random.below(geometry.heads - 1)) % geometry.heads;
    Some([geometry.find(place)?, geometry.find(Track { head: head as u16, ..place })?])
}

/// From the last track of a cylinder to the first of the next.
fn next_cylinder_last_track(session: &mut Session, geometry: &Geometry<'_>) -> Option<Pair> {
    let place = any_track(session, geometry);
    let (zone, track) = geometry.find(place)?;
    let last = track / geometry.heads * geometry.heads + geometry.heads - 1;
    Some([(zone, last), (zone, last + 1)])
}

/// From the first track of a cylinder to the first of the next.
fn next_cylinder_same_place(session: &mut Session, geometry: &Geometry<'_>) -> Option<Pair> {
    let place = any_track(session, geometry);
    let (zone, track) = geometry.find(place)?;
    let first = track / geometry.heads * geometry.heads;
    Some([(zone, first), (zone, first + geometry.heads)])
}

fn any_track(session: &mut Session, geometry: &Geometry<'_>) -> Track {
    Track {
        cylinder: session.random.below(geometry.cylinders()) as u32,
        head: session.random.below(geometry.heads) as u16,
    }
}

fn at_distance(
    session: &mut Session,
    geometry: &Geometry<'_>,
    distance: u64,
    guess: f64,
) -> Attempt<Option<Timed>> {
    let pair = |session: &mut Session, geometry: &Geometry<'_>| {
        let head = session.random.below(geometry.heads) as u16;
        let first = session.random.below(geometry.cylinders() - distance);
        let (mut from, mut to) = (
            Track { cylinder: first as u32, head },
            Track { cylinder: (first + distance) as u32, head },
        );
        if session.random.below(2) == 0 {
            core::mem::swap(&mut from, &mut to);
        }
        Some([geometry.find(from)?, geometry.find(to)?])
    };
    timed_pairs(session, geometry, pair, guess)
}

/// Like [`timed_pairs`]; an error if no pair could be timed.
fn over_pairs(
    session: &mut Session,
    geometry: &Geometry<'_>,
    pair: impl Fn(&mut Session, &Geometry<'_>) -> Option<Pair>,
    guess: f64,
) -> Attempt<Timed> {
    timed_pairs(session, geometry, pair, guess)?.ok_or_else(|| {
        Interruption::Failed("no two tracks were found between which a seek could be timed".into())
    })
}

/// The mean of the minimum times of several pairs, without outliers; none if no pair could be
/// timed.
fn timed_pairs(
    session: &mut Session,
    geometry: &Geometry<'_>,
    pair: impl Fn(&mut Session, &Geometry<'_>) -> Option<Pair>,
    guess: f64,
) -> Attempt<Option<Timed>> {
    let mut found: Vec<f64> = Vec::new();
    let mut tries = 0;
    while found.len() < PAIRS && tries < MAX_TRIES * PAIRS {
        // In rotation, so that the cache has evicted a pair before it is used again.
        let mut brackets: Vec<Bracket<'_>> = Vec::new();
        while brackets.len() < PAIRS && tries < MAX_TRIES * PAIRS {
            tries += 1;
            let Some(mut pair) = pair(session, geometry) else { continue };
            if session.drive.hits.eviction_reads > 0 {
                // From the higher address to the lower: in the other direction a drive may read
                // ahead up to it rather than seek.
                pair.sort_by_key(|place| core::cmp::Reverse(*place));
            }
            let around = if found.is_empty() { guess } else { median(&found) };
            // After two bands (or cylinders) every surface comes again in the same direction.
            brackets.push(Bracket {
                shift: 2 * geometry.heads * geometry.band,
                ..Bracket::new(session, geometry.zones, pair, around)
            });
        }
        let mut open = brackets.len();
        for _ in 0..MAX_TRIALS {
            for bracket in brackets.iter_mut().filter(|bracket| bracket.is_open()) {
                bracket.trial(session)?;
                if !bracket.is_open() {
                    open -= 1;
                }
            }
            if open == 0 {
                break;
            }
        }
        found.extend(brackets.iter().filter_map(|bracket| bracket.found(CONTRADICTION_NS)));
    }
    if found.is_empty() {
        return Ok(None);
    }
    let middle = median(&found);
    let near: Vec<f64> =
        found.iter().copied().filter(|found| (found - middle).abs() < 400_000.0).collect();
    let (ns, error_ns) = mean(&near);
    Ok(Some(Timed { ns, error_ns }))
}

/// The minimum time from a completion on one track to that of the next read, of a sector of the
/// other; none if trials contradict each other.
pub(crate) fn min_time(
    session: &mut Session,
    zones: &[ZoneModel],
    pair: Pair,
    guess: f64,
    tolerance_ns: f64,
) -> Attempt<Option<f64>> {
    let mut bracket = Bracket::new(session, zones, pair, guess);
    while bracket.is_open() {
        bracket.trial(session)?;
    }
    Ok(bracket.found(tolerance_ns))
}

/// The minimum time of a pair, between two bounds that trials narrow.
struct Bracket<'a> {
    zones: &'a [ZoneModel],
    pair: Pair,
    /// The time in which a sector of the second track passes.
    sector: f64,
    low: f64,
    high: f64,
    /// The delays of the trials against the layout's prediction.
    off: Vec<f64>,
    target_ns: f64,
    stride: f64,
    trials: usize,
    failed: usize,
    /// The number of tracks by which both may be moved, times any small number, so that neither is
    /// cached; 0 if they may not be moved.
    shift: u64,
}

impl<'a> Bracket<'a> {
    fn new(session: &Session, zones: &'a [ZoneModel], pair: Pair, guess: f64) -> Self {
        let sector = session.drive.clock.period_ns() / zones[pair[1].0].sectors_per_track as f64;
        Self {
            zones,
            pair,
            sector,
            low: 0.0,
            high: f64::INFINITY,
            off: Vec::new(),
            target_ns: guess + sector,
            stride: 60_000.0,
            trials: 0,
            failed: 0,
            shift: 0,
        }
    }

    fn is_open(&self) -> bool {
        self.trials < MAX_TRIALS
            && self.failed < MAX_FAILED
            && self.high - self.low >= FINE_NS + self.sector
    }

    fn trial(&mut self, session: &mut Session) -> Attempt<()> {
        let mut pair = self.pair;
        if session.drive.hits.eviction_reads > 0 && self.shift > 0 {
            let by = self.shift * session.random.below(MAX_SHIFTS);
            let within = pair.iter().all(|(zone, track)| {
                self.zones[*zone].holds_track(track + by, session.drive.capacity)
            });
            let by = if within { by } else { session.random.below(self.room_on_rows(session) + 1) };
            pair.iter_mut().for_each(|place| place.1 += by);
        }
        let Some((took, off)) = trial(session, self.zones, pair, self.target_ns)? else {
            self.failed += 1;
            return Ok(());
        };
        self.trials += 1;
        let period = session.drive.clock.period_ns();
        self.off.extend(off);
        let (low, high) = (f64::max(self.low, took - period), f64::min(self.high, took));
        (self.low, self.high) = (low, high);
        if high - low < FINE_NS + self.sector {
            return Ok(());
        }
        self.target_ns = if high - low < 4.0 * self.stride {
            (low + high) / 2.0
        } else if took < self.target_ns + period / 2.0 {
            // Reached: try earlier, in growing strides.
            (high - self.stride).max(low + (high - low) / 8.0)
        } else {
            (low + self.stride).min(high - (high - low) / 8.0)
        };
        self.stride *= 2.5;
        Ok(())
    }

    /// The number of tracks by which both may be moved along their rows of cylinders at the same
    /// distance, if a zone is too short for moves by whole bands; 0 if the rows have opposite
    /// directions.
    fn room_on_rows(&self, session: &Session) -> u64 {
        let rooms = self.pair.map(|(zone, track)| {
            let zone = &self.zones[zone];
            let row = track / zone.pattern.unit;
            let is_even = zone.pattern.in_bands() && zone.last_band.is_none();
            let left = if is_even { zone.pattern.unit - 1 - track % zone.pattern.unit } else { 0 };
            let left =
                if zone.holds_track(track + left, session.drive.capacity) { left } else { 0 };
            (left, row % zone.pattern.units % 2)
        });
        if rooms[0].1 == rooms[1].1 { rooms[0].0.min(rooms[1].0) } else { 0 }
    }

    /// The minimum time. Deviating or late sectors may leave a wider interval, or make trials
    /// contradict each other by a little.
    fn found(&self, tolerance_ns: f64) -> Option<f64> {
        // A track with a significant deviation has it in all trials.
        let (later, error) = mean(&self.off);
        let later = if error.is_some_and(|error| later.abs() > SURE * error) { later } else { 0.0 };
        ((self.high - self.low).abs() < tolerance_ns)
            .then(|| (self.low + self.high) / 2.0 + later - self.sector)
    }
}

/// Reads a sector of the first track and then one of the second that passes `target_ns` after the
/// completion. Returns the time up to the predicted passage of the second, and its delay against
/// that. If it deviates far, returns the time alone.
///
/// The command is at the drive when the first completion was seen, however late, so only the
/// passage of the second sector decides. Its delay is noise, of which the maximum of some readings
/// would contain the most.
fn trial(
    session: &mut Session,
    zones: &[ZoneModel],
    pair: Pair,
    target_ns: f64,
) -> Attempt<Option<(f64, Option<f64>)>> {
    session.keep_clock()?;
    let period = session.drive.clock.period_ns();
    let (zone_from, zone_to) = (&zones[pair[0].0], &zones[pair[1].0]);
    let capacity = session.drive.capacity;
    let (start, end) = (zone_from.track_start(pair[0].1), zone_from.track_start(pair[0].1 + 1));
    if end > zone_from.end_lba.unwrap_or(capacity) || end - start < 2 {
        return Ok(None);
    }
    let (from_angle, to_spt) = (|lba: u64| zone_from.angle(lba), zone_to.sectors_per_track);
    let mut choices = Vec::new();
    let most = if session.drive.hits.eviction_reads > 0 { CACHED_CHOICES } else { CHOICES };
    for _ in 0..most {
        // Not near the track's end, so that the read-ahead stays on the track.
        let from = start + session.random.below((end - start) / 2);
        let target = part(from_angle(from) + target_ns / period);
        let sector =
            libm::ceil(part(target - zone_to.track_angle(pair[1].1)) * to_spt as f64) as u64;
        let to = zone_to.lba_from(pair[1].1 * to_spt + (sector + to_spt - 1) % to_spt);
        if to < zone_to.end_lba.unwrap_or(capacity)
            && zone_to.track_of(to) == pair[1].1
            && to != from
        {
            choices.push((from, to, zone_to.angle(to)));
        }
    }
    for (from, to, predicted) in choices {
        // A hit costs next to nothing: try another sector.
        session.leave_read_ahead(from)?;
        let first = session.read_followed(from, 1)?;
        if !first.succeeded() || session.may_be_hit(&first) {
            continue;
        }
        let second = session.read_at_once(to, 1)?;
        if second.follows_undisturbed() && !session.may_be_hit(&second) {
            let took = second.completed.as_ns() as f64 - first.completed.as_ns() as f64;
            let off = wrap(session.drive.clock.turns_at(second.completed) - predicted) * period;
            let near = off.abs() < (8.0 * session.drive.clock.noise_ns()).max(NEAR_NS);
            return Ok(Some(if near { (took - off, Some(off)) } else { (took, None) }));
        }
    }
    Ok(None)
}
