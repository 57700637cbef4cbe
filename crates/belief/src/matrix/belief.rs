//! [`MatrixBelief`]: a drive model that uses only a latency map.
//!
//! Positions are cell numbers: the start and the end of a request. The cost from the cell of the
//! last request to that of the next is the entry of the pair. The cost of an unknown pair depends
//! on the distance in addresses, by a line fitted to observations. *Worst* is the entry, *expected*
//! is the average time of pairs with this entry, and *most likely* is the same as *expected*.
//!
//! Worked example: cells of 256 sectors, the head at the end of LBA 1,000 (cell 3), free at t = 0.
//! A request at LBA 2,400 (cell 9) is sent at once: the entry of cells 3 and 9 is 5.7 ms, and pairs
//! with 5.7 took 0.8 of it: expected 4.6, worst 5.7, from t = 0 on. A request at cell 12, an
//! unknown pair: by distance 5.1 ms, worst the longest time of the map. If sent at t = 30 ms, both
//! are unknown: after idle time the angle of the platter is arbitrary.
//!
//! *Observations*: commands that succeeded, were sent before or straight after the completion of
//! the previous one, and are no longer than a cell. The recorded time is completion to completion
//! less the media time of the sectors, so that it applies to requests of other lengths. It includes
//! the command overhead if one command is outstanding at a time, and excludes it with two. An
//! access that was faster than any seek is a cache hit and is not recorded. Hits between
//! neighboring cells are not recognized. They can make an entry too short until an access to the
//! medium corrects it.
//!
//! Guarantees: `worst` of a learned pair is never below an observation. Not guaranteed: anything
//! about rotation within a cell. Until pairs are learned, the order is by distance. Cost: a look-up
//! under a lock. Source: P1 sections 3.1 to 3.3; [`Calibration`], [`ByDistance`] and [`Pace`] are
//! ours.

use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Position, Positioning, Target, TrackMap, likely_by_estimate,
    passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use super::calibration::Calibration;
use super::distance::ByDistance;
use super::map::LatencyMatrix;
use super::pace::Pace;
use super::shape::MatrixShape;
use super::shared::SharedMatrix;

/// The options of a [`MatrixBelief`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixOptions {
    /// Media time of a sector within a cell, in ns. Default 2,560 (guess: 200 MB/s in sectors of
    /// 512 bytes).
    pub sector_ns: f64,
    /// Maximum idle time before a command that still counts as back to back. Default 200 us (guess:
    /// a thirtieth of a revolution).
    pub back_to_back: Nanos,
    /// Minimum time of an access to a cell further than the neighboring one. Default 300 us (guess:
    /// half of the shortest seek and settle).
    pub min_access: Nanos,
    /// The treatment of unknown pairs. Default: no preference.
    pub exploration: Exploration,
}

impl Default for MatrixOptions {
    fn default() -> Self {
        Self {
            sector_ns: 2_560.0,
            back_to_back: Nanos::from_us(200),
            min_access: Nanos::from_us(300),
            exploration: Exploration::Off,
        }
    }
}

/// The preference of orders that fill the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exploration {
    /// An unknown pair costs by its distance.
    #[default]
    Off,
    /// An unknown pair that an access would make known is *expected* to cost a thousandth of its
    /// cost by distance: it is served before every known pair, nearest first. Most likely and worst
    /// times stay the same, so an order by most likely times (`sptf`) does not explore.
    Prefer,
}

/// A drive model that looks up pairs of cells.
#[derive(Clone, Debug)]
pub struct MatrixBelief {
    map: SharedMatrix,
    options: MatrixOptions,
    by_distance: ByDistance,
    calibration: Calibration,
    pace: Pace,
    samples: u64,
    cache_hits: u64,
    squared_error_us: f64,
}

impl MatrixBelief {
    /// A drive model that uses and updates `map`; its other state is empty.
    #[must_use]
    pub fn new(map: SharedMatrix, options: MatrixOptions) -> Self {
        let shape = map.shape();
        let capacity = shape.drive().capacity;
        let (calibration, pace) =
            (Calibration::new(shape.scale().bits()), Pace::new(capacity, options.sector_ns));
        Self {
            map,
            options,
            by_distance: ByDistance::new(capacity),
            calibration,
            pace,
            samples: 0,
            cache_hits: 0,
            squared_error_us: 0.0,
        }
    }

    /// The map, to inspect, save or share it.
    #[must_use]
    pub fn map(&self) -> &SharedMatrix {
        &self.map
    }

    fn shape(&self) -> &MatrixShape {
        self.map.shape()
    }

    fn place(&self, lba: Lba) -> Position {
        Position { cylinder: self.shape().cell_of(lba), head: 0, angle: Angle::ZERO }
    }

    /// Splits a request into the sectors of its first cell length and the following ones.
    fn split(&self, len: Sectors) -> (Sectors, Sectors) {
        let first = len.min(self.shape().cell());
        (first, len - first)
    }

    /// Media time of the first cell length of a request.
    fn first_transfer(&self, len: Sectors) -> Nanos {
        Nanos::from_ns((self.options.sector_ns * self.split(len).0.get() as f64) as u64)
    }

    fn is_back_to_back(&self, head: &Head, dispatch: Instant) -> bool {
        dispatch.saturating_since(head.free_at) <= self.options.back_to_back
    }

    /// The entry of the pair, if the access follows straight after the previous one.
    fn find(&self, head: &Head, dispatch: Instant, target: &Target) -> Option<Nanos> {
        let (from, to) = (head.place.cylinder, target.start.cylinder);
        self.is_back_to_back(head, dispatch)
            .then(|| self.map.inspect(|map| map.time(from, to)))
            .flatten()
    }

    fn expected(&self, head: &Head, target: &Target, known: Option<Nanos>) -> Nanos {
        match known {
            Some(said) => self.calibration.expected(self.shape().scale().code(said), said),
            None => self.by_distance.time(distance(head, target)),
        }
    }

    /// The cost of `to` straight after `from`.
    fn back_to_back(&self, map: &LatencyMatrix, from: &Target, to: &Target) -> PairCost {
        let (before, next) = (from.end.cylinder, to.start.cylinder);
        let said = map.time(before, next);
        let positioning = match said {
            Some(said) => self.calibration.expected(self.shape().scale().code(said), said),
            None => self.by_distance.time(to.extent.start.distance(from.extent.end())),
        };
        let known = match said {
            Some(_) => Certainty::Known,
            None if self.split(to.extent.len).1.is_zero() && map.would_learn(before, next) => {
                Certainty::Learnable
            }
            None => Certainty::Unknown,
        };
        let explores =
            self.options.exploration == Exploration::Prefer && known == Certainty::Learnable;
        let expected = if explores { positioning / EXPLORED } else { positioning };
        let worst = said
            .unwrap_or_else(|| self.shape().scale().reach().max(map.longest_seen()))
            .max(positioning);
        PairCost { expected: to.transfer + expected, worst: to.transfer + worst, known }
    }

    /// Returns true if sending the pair would fill an entry.
    fn would_learn(&self, head: &Head, dispatch: Instant, target: &Target) -> bool {
        let (from, to) = (head.place.cylinder, target.start.cylinder);
        self.is_back_to_back(head, dispatch)
            && self.split(target.extent.len).1.is_zero()
            && self.map.inspect(|map| map.would_learn(from, to))
    }

    /// Returns true if the access was too fast for a seek: a cache hit.
    fn is_hit(&self, head: &Head, target: &Target, positioning: Nanos) -> bool {
        head.place.cylinder.abs_diff(target.start.cylinder) > 1
            && positioning < self.options.min_access
    }

    fn note_error(&mut self, expected: Nanos, observed: Nanos) {
        self.samples += 1;
        let error_us = (observed.as_ns() as f64 - expected.as_ns() as f64) / 1e3;
        let weight = (1.0 / self.samples as f64).max(1.0 / 256.0);
        self.squared_error_us += weight * (error_us * error_us - self.squared_error_us);
    }
}

fn distance(head: &Head, target: &Target) -> Sectors {
    target.extent.start.distance(head.next_lba)
}

impl Positioning for MatrixBelief {
    fn capacity(&self) -> Sectors {
        self.shape().drive().capacity
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let (first, following) = self.split(extent.len);
        let transfer =
            self.first_transfer(extent.len) + self.pace.time(extent.start + first, following);
        Target {
            op,
            extent,
            start: self.place(extent.start),
            end: self.place(extent.last()),
            transfer,
        }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let known = self.find(head, dispatch, target);
        let positioning = self.expected(head, target, known);
        let explores = self.options.exploration == Exploration::Prefer
            && known.is_none()
            && self.would_learn(head, dispatch, target);
        let expected = if explores { positioning / EXPLORED } else { positioning };
        let worst = known.unwrap_or_else(|| {
            self.shape().scale().reach().max(self.map.inspect(|map| map.longest_seen()))
        });
        Estimate {
            depart: dispatch.max(head.free_at),
            positioning,
            expected,
            worst: worst.max(positioning),
            transfer: target.transfer,
        }
    }

    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        match self.find(head, dispatch, target) {
            Some(_) => Certainty::Known,
            None if self.would_learn(head, dispatch, target) => Certainty::Learnable,
            None => Certainty::Unknown,
        }
    }

    /// Costs depend on neither angle nor overhead: one look-up.
    fn pair(&self, from: &Target, to: &Target, _near: Instant, _overhead: Overhead) -> PairCost {
        self.map.inspect(|map| self.back_to_back(map, from, to))
    }

    fn pairs(
        &self,
        hub: &Target,
        others: &mut dyn Iterator<Item = &Target>,
        _near: Instant,
        _overhead: Overhead,
        each: &mut dyn FnMut(PairCost, PairCost),
    ) {
        self.map.inspect(|map| {
            others.for_each(|other| {
                each(self.back_to_back(map, hub, other), self.back_to_back(map, other, hub))
            })
        });
    }

    /// Zero: distant cells may be quicker to reach than near ones, and some pairs cost almost
    /// nothing.
    fn seek_lower_bound(&self, _cylinders: u32) -> Nanos {
        Nanos::ZERO
    }

    /// Zero: a map has no rotation.
    fn revolution(&self) -> Nanos {
        Nanos::ZERO
    }

    fn media_end(&self, _target: &Target, finished: Instant) -> Instant {
        finished
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
    }

    headtime_sched::without_cache!();

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for MatrixBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let MeasuredAccess { target, dispatched, finished, head_before, succeeded, .. } = measured;
        let (Some(head), true, true) = (head_before, *succeeded, target.op.moves_head()) else {
            return AccessKind::Media;
        };
        let busy = finished.saturating_since((*dispatched).max(head.free_at));
        let (first, following) = self.split(target.extent.len);
        let positioning = busy.saturating_sub(self.first_transfer(target.extent.len));
        if !measured.forced && self.is_hit(head, target, positioning) {
            self.cache_hits += 1;
            // A cached write is destaged later, from any position of the head.
            return if target.op == Op::Read {
                AccessKind::CacheHit
            } else {
                AccessKind::Uncertain
            };
        }
        if !self.is_back_to_back(head, *dispatched) {
            return AccessKind::Media;
        }
        let known = self.find(head, *dispatched, target);
        let expected = self.expected(head, target, known);
        if !following.is_zero() {
            self.pace.observe(
                target.extent.start + first,
                following,
                positioning.saturating_sub(expected),
            );
            return AccessKind::Media;
        }
        self.note_error(expected, positioning);
        if let Some(said) = known {
            self.calibration.observe(self.shape().scale().code(said), said, positioning);
        }
        // A sequential access shows nothing of the cost of a distance.
        let distance = distance(head, target);
        if !distance.is_zero() {
            self.by_distance.observe(distance, positioning);
        }
        self.map.record(head.place.cylinder, target.start.cylinder, positioning);
        AccessKind::Media
    }

    fn report(&self) -> BeliefReport {
        let error_rms_us = (self.samples > 0).then(|| libm::sqrt(self.squared_error_us));
        BeliefReport {
            samples: self.samples,
            error_rms_us,
            cache_hits: self.cache_hits,
            matrix: Some(self.map.inspect(LatencyMatrix::uses)),
            ..BeliefReport::default()
        }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// Divisor of the expected cost of an unknown pair when the map is to be filled: the result is less
/// than any access, and still in the order of distance.
const EXPLORED: u64 = 1_000;

#[cfg(test)]
mod tests;
