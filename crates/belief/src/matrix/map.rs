//! [`LatencyMatrix`]: the worst time ever observed between each pair of cells.
//!
//! An entry only rises. A hit in the drive's cache, which takes almost no time, never lowers it. A
//! pair that takes longer since its sectors were remapped is longer from the first observation on.
//! Two cells share one entry for both directions, which holds the worse of the two, unless the
//! shape is set otherwise.
//!
//! Worked example, steps of 1 ms: an access from cell 3 to cell 9 took 4.2 ms: the entry is 5. The
//! way back took 6.7: the entry is 7, for both directions. A cache hit of 0.1 ms changes nothing.
//!
//! Guarantees: the result of [`LatencyMatrix::time`] is never below any observation between the two
//! cells that was not forgotten. Not guaranteed: that no later access takes longer; see
//! [`Exceedance`]. An outlier stays: only [`LatencyMatrix::forget`] makes an entry shorter. Cost: a
//! look-up is an index and a load from memory; in a map of touched cells, also two searches for the
//! rows. Source: P1 sections 3.1 and 3.3.

use headtime_sched::MatrixUse;
use headtime_units::{ByteSize, Extent, Nanos};

use super::cells::Cells;
use super::eviction::{Eviction, WhenFull};
use super::exceedance::{Exceedance, ExceedanceRow, Trial};
use super::plane::Plane;
use super::scale::{EntryBits, UNKNOWN};
use super::shape::{Directions, MatrixShape, entries_of};

/// A latency map. Two maps are equal if they contain the same times, whatever they were used for.
#[derive(Clone, Debug)]
pub struct LatencyMatrix {
    pub(super) shape: MatrixShape,
    pub(super) cells: Cells,
    pub(super) entries: Plane,
    /// Observations of each pair, up to 255; present if the shape counts them.
    pub(super) samples: Option<Plane>,
    /// The longest time recorded: the value of the code beyond the last step.
    pub(super) longest_seen: Nanos,
    pub(super) known: u64,
    pub(super) observations: u64,
    pub(super) exceedance: Exceedance,
    /// Present if the map covers touched cells and its rows can be given to others.
    eviction: Option<Eviction>,
    uses: MatrixUse,
}

impl PartialEq for LatencyMatrix {
    fn eq(&self, other: &Self) -> bool {
        (&self.shape, &self.cells, &self.entries, &self.samples, self.longest_seen)
            == (&other.shape, &other.cells, &other.entries, &other.samples, other.longest_seen)
            && (self.known, self.observations, &self.exceedance)
                == (other.known, other.observations, &other.exceedance)
    }
}

impl Eq for LatencyMatrix {}

/// The effect of an observation on a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The pair had not been observed before.
    New,
    /// The time exceeded the entry, which was raised.
    Raised,
    /// The time did not exceed the entry.
    Kept,
    /// The map does not cover the pair.
    NotCovered,
}

impl LatencyMatrix {
    /// A map of unknown pairs.
    #[must_use]
    pub fn new(shape: MatrixShape) -> Self {
        let cells = Cells::new(shape.cells);
        let most = entries_of(shape.cells_at_most(), shape.directions);
        let entries = Plane::new(shape.scale.bits(), most);
        let samples = shape.count_samples.then(|| Plane::new(EntryBits::Eight, most));
        let exceedance = Exceedance::new();
        let mut map = Self {
            shape,
            cells,
            entries,
            samples,
            longest_seen: Nanos::ZERO,
            known: 0,
            observations: 0,
            exceedance,
            eviction: None,
            uses: MatrixUse::default(),
        };
        map.extend();
        map
    }

    /// The same map with this treatment of cells that no longer fit: a new map keeps those that it
    /// has. A map of a region is not changed.
    #[must_use]
    pub fn when_full(mut self, full: WhenFull) -> Self {
        let evicts = full == WhenFull::Evict && matches!(self.cells, Cells::Touched { .. });
        self.eviction = evicts.then(|| Eviction::new(self.shape.cells_at_most()));
        self
    }

    /// The same map as the successor of `before`, whose counts and treatment it takes over.
    #[must_use]
    pub(super) fn succeeding(self, before: &Self) -> Self {
        let evicts = before.eviction.is_some() && self.eviction.is_none();
        let map = if evicts { self.when_full(WhenFull::Evict) } else { self };
        Self { uses: before.uses, ..map }
    }

    /// The treatment of cells that no longer fit.
    #[must_use]
    pub fn full(&self) -> WhenFull {
        if self.eviction.is_some() { WhenFull::Evict } else { WhenFull::Keep }
    }

    /// The use of the map since it was created or read.
    #[must_use]
    pub fn uses(&self) -> MatrixUse {
        MatrixUse { pairs: self.pairs(), pairs_known: self.known, ..self.uses }
    }

    /// Drive, cells and scale.
    #[must_use]
    pub fn shape(&self) -> &MatrixShape {
        &self.shape
    }

    /// The worst observed time of an access from one cell to the other, rounded up to a step. It
    /// covers the way back, too, if only the worse direction is kept. `None` for a pair that was
    /// never observed or is not covered.
    #[must_use]
    pub fn time(&self, from: u32, to: u32) -> Option<Nanos> {
        let code = self.entries.get(self.index(from, to)?);
        self.shape.scale.time(code, self.longest_seen)
    }

    /// The number of observations of the pair, at most 255; `None` if they are not counted or the
    /// pair is not covered.
    #[must_use]
    pub fn samples(&self, from: u32, to: u32) -> Option<u8> {
        Some(self.samples.as_ref()?.get(self.index(from, to)?) as u8)
    }

    /// Returns true if the pair is unknown and an observation would make it known.
    #[must_use]
    pub fn would_learn(&self, from: u32, to: u32) -> bool {
        match self.index(from, to) {
            Some(index) => self.entries.get(index) == UNKNOWN,
            None => self.new_rows(from, to) <= self.cells.free(),
        }
    }

    /// Records that an access from one cell to the other took `time`.
    ///
    /// # Panics
    /// Panics if the drive has no such cell.
    pub fn record(&mut self, from: u32, to: u32, time: Nanos) -> Recorded {
        self.evict_for(from, to);
        let samples = self.samples(from, to);
        let recorded = self.raise(from, to, time, 1);
        if let (Some(samples), Recorded::Raised | Recorded::Kept) = (samples, recorded) {
            let trial = if recorded == Recorded::Raised { Trial::Exceeded } else { Trial::Within };
            self.exceedance.note(samples, trial);
        }
        let (known, count) = match recorded {
            Recorded::Raised | Recorded::Kept => (1.0, &mut self.uses.known),
            Recorded::New => (0.0, &mut self.uses.learned),
            Recorded::NotCovered => (0.0, &mut self.uses.not_covered),
        };
        *count += 1;
        let weight = (1.0_f64 / self.uses.accesses() as f64).max(RECENT_WEIGHT);
        self.uses.known_recently += weight * (known - self.uses.known_recently);
        recorded
    }

    /// Notes a use of the cells. In a full map, clears some entries of a row that is no longer
    /// used, and gives it to one of the cells once it is cleared.
    fn evict_for(&mut self, from: u32, to: u32) {
        let free = self.new_rows(from, to) <= self.cells.free();
        let rows = self.cells.len();
        let Some(eviction) = &mut self.eviction else { return };
        eviction.step(rows);
        // Both rows are in use before one of the cells gets a row.
        for row in [from, to].into_iter().filter_map(|cell| self.cells.row(cell)) {
            eviction.used(row);
        }
        for cell in if free { [None; 2] } else { [Some(from), Some(to)] }.into_iter().flatten() {
            if self.cells.row(cell).is_none()
                && let Some(row) = eviction.wants(cell)
            {
                self.cells.reassign(row, cell);
                self.uses.evicted += 1;
            }
        }
        if let Some((row, others)) = eviction.next_to_clear() {
            others.for_each(|other| self.clear(row, other));
        }
    }

    /// Ends the clearing of a row that was to be given away.
    pub(super) fn stop_clearing(&mut self) {
        if let Some(eviction) = &mut self.eviction {
            eviction.stop_clearing();
        }
    }

    /// Makes the pair of two rows unknown, in both directions.
    fn clear(&mut self, row: u32, other: u32) {
        for index in [self.index_of(row, other), self.index_of(other, row)] {
            self.known -= u64::from(self.entries.get(index) != UNKNOWN);
            self.entries.set(index, UNKNOWN);
            if let Some(samples) = &mut self.samples {
                samples.set(index, 0);
            }
        }
    }

    /// As [`LatencyMatrix::record`], for the worst of `samples` observations, and without counting
    /// exceedances.
    pub(super) fn raise(&mut self, from: u32, to: u32, time: Nanos, samples: u8) -> Recorded {
        let Some(index) = self.index_or_new(from, to) else { return Recorded::NotCovered };
        let before = self.entries.get(index);
        let said = self.shape.scale.time(before, self.longest_seen);
        self.longest_seen = self.longest_seen.max(time);
        let code = before.max(self.shape.scale.code(time));
        if code != before {
            self.entries.set(index, code);
        }
        if let Some(plane) = &mut self.samples {
            let before = plane.get(index) as u8;
            plane.set(index, u16::from(before.saturating_add(samples)));
        }
        self.observations += u64::from(samples);
        match said {
            None => {
                self.known += 1;
                Recorded::New
            }
            Some(said) if time > said => Recorded::Raised,
            Some(_) => Recorded::Kept,
        }
    }

    /// Makes every pair with a cell of `extent` unknown again, because its sectors were moved or
    /// the drive was replaced.
    pub fn forget(&mut self, extent: Extent) {
        if extent.len.is_zero() {
            return;
        }
        let (first, last) = (self.shape.cell_of(extent.start), self.shape.cell_of(extent.last()));
        for row in 0..self.cells.len() {
            if !(first..=last).contains(&self.cells.cell(row)) {
                continue;
            }
            for other in 0..self.cells.len() {
                self.clear(row, other);
            }
        }
    }

    /// Number of observed pairs; both directions count if they are kept apart.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Number of pairs that are covered at the moment.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.entries.len()
    }

    /// Number of cells that are covered at the moment.
    #[must_use]
    pub fn cells(&self) -> u32 {
        self.cells.len()
    }

    /// Number of observations, including those of merged maps if they were counted.
    #[must_use]
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// The longest time ever recorded; zero before the first.
    #[must_use]
    pub fn longest_seen(&self) -> Nanos {
        self.longest_seen
    }

    /// The table of exceedances; empty if samples are not counted.
    #[must_use]
    pub fn exceedance(&self) -> &Exceedance {
        &self.exceedance
    }

    /// The memory that the map uses at the moment.
    #[must_use]
    pub fn memory(&self) -> ByteSize {
        let samples = self.samples.as_ref().map_or(0, Plane::memory);
        ByteSize::new(
            self.entries.memory() + samples + self.shape.taken().finding(self.cells.len()),
        )
    }

    /// The observed pairs: both cells, and the worst time. Each pair appears once if only the worse
    /// direction is kept.
    pub fn observed(&self) -> impl Iterator<Item = (u32, u32, Nanos)> + '_ {
        let rows = self.cells.len();
        (0..rows).flat_map(move |from| {
            let last = if self.shape.directions == Directions::Both { rows } else { from + 1 };
            (0..last).filter_map(move |to| {
                let time = self
                    .shape
                    .scale
                    .time(self.entries.get(self.index_of(from, to)), self.longest_seen)?;
                Some((self.cells.cell(from), self.cells.cell(to), time))
            })
        })
    }

    #[inline]
    fn index(&self, from: u32, to: u32) -> Option<u64> {
        Some(self.index_of(self.cells.row(from)?, self.cells.row(to)?))
    }

    /// The index of the entry of two rows. The entries of a row with itself and lower rows follow
    /// all those of lower rows, so that a map is extended at its end.
    #[inline]
    fn index_of(&self, from: u32, to: u32) -> u64 {
        let (low, high) = (u64::from(from.min(to)), u64::from(from.max(to)));
        match self.shape.directions {
            Directions::Worse => high * (high + 1) / 2 + low,
            // From the higher row to itself and the lower ones, then from the lower ones to it.
            Directions::Both if from >= to => high * high + low,
            Directions::Both => high * high + high + 1 + low,
        }
    }

    /// Number of rows that the two cells lack.
    fn new_rows(&self, one: u32, other: u32) -> u32 {
        let missing = |cell| u32::from(self.cells.row(cell).is_none());
        missing(one) + if one == other { 0 } else { missing(other) }
    }

    fn index_or_new(&mut self, one: u32, other: u32) -> Option<u64> {
        let on_drive = self.shape.cells_on_drive();
        assert!(
            one < on_drive && other < on_drive,
            "cells {one} and {other} of a drive with {on_drive}; ask the shape which cell an \
                address is in"
        );
        let new_rows = self.new_rows(one, other);
        if new_rows > 0 {
            // Either both cells get rows, or neither.
            if new_rows > self.cells.free() {
                return None;
            }
            self.cells.row_or_new(one)?;
            self.cells.row_or_new(other)?;
            self.extend();
        }
        self.index(one, other)
    }

    /// Extends the entries to all assigned rows.
    pub(super) fn extend(&mut self) {
        let entries = entries_of(self.cells.len(), self.shape.directions);
        self.entries.extend(entries);
        if let Some(samples) = &mut self.samples {
            samples.extend(entries);
        }
    }

    /// Samples of a pair for a merge: one if they are not counted.
    pub(super) fn samples_or_one(&self, from: u32, to: u32) -> u8 {
        self.samples(from, to).unwrap_or(1).clamp(1, ExceedanceRow::MAX_SAMPLES)
    }
}

/// Minimum weight of an access in the share of known pairs.
const RECENT_WEIGHT: f64 = 1.0 / 1_024.0;

#[cfg(test)]
mod tests {
    use super::super::shape::{Coverage, MappedDrive, MatrixSettings};
    use super::*;
    use headtime_units::{SectorSize, Sectors};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn shape(settings: MatrixSettings) -> MatrixShape {
        // 64 cells of 128 KiB.
        let drive = MappedDrive {
            model: "TEST 10K".into(),
            capacity: Sectors::new(64 * 256),
            sector: SectorSize::B512,
        };
        MatrixShape::new(drive, &settings).unwrap()
    }

    fn touched() -> MatrixSettings {
        MatrixSettings { longest: Nanos::from_ms(14), ..MatrixSettings::default() }
    }

    fn ms(ms: f64) -> Nanos {
        Nanos::from_ms_f64(ms).unwrap()
    }

    #[test]
    fn the_worked_example_holds() {
        let mut map = LatencyMatrix::new(shape(touched()));
        assert_eq!(map.time(3, 9), None);
        assert_eq!(map.record(3, 9, ms(4.2)), Recorded::New);
        assert_eq!(map.time(9, 3), Some(ms(5.0)));
        assert_eq!(map.record(9, 3, ms(6.7)), Recorded::Raised);
        assert_eq!(map.record(3, 9, ms(0.1)), Recorded::Kept);
        assert_eq!((map.time(3, 9), map.known(), map.observations()), (Some(ms(7.0)), 1, 3));
        assert_eq!(map.time(3, 3), None, "a cell with itself is a pair of its own");
    }

    #[test]
    fn a_region_covers_its_pairs_from_the_start_and_no_others() {
        let coverage = Coverage::Region(Extent::from_numbers(256, 512));
        let mut map = LatencyMatrix::new(shape(MatrixSettings { coverage, ..touched() }));
        assert_eq!((map.cells(), map.pairs(), map.known()), (2, 3, 0));
        assert_eq!(map.record(0, 1, ms(1.0)), Recorded::NotCovered);
        assert!(map.would_learn(1, 2) && !map.would_learn(0, 1));
        assert_eq!(map.record(1, 2, ms(1.0)), Recorded::New);
        assert!(!map.would_learn(2, 1));
        assert_eq!(map.observed().collect::<Vec<_>>(), [(2, 1, ms(1.0))]);
    }

    #[test]
    fn without_free_memory_no_further_cell_is_covered_and_covered_cells_keep_learning() {
        // Room for three cells: 6 entries of half a byte and three rows.
        let mut map = LatencyMatrix::new(shape(MatrixSettings {
            memory: ByteSize::new(3 + 3 * 32),
            ..touched()
        }));
        assert_eq!(map.record(10, 20, ms(1.0)), Recorded::New);
        assert!(map.would_learn(10, 30) && map.would_learn(30, 30) && !map.would_learn(30, 40));
        assert_eq!(
            map.record(30, 40, ms(1.0)),
            Recorded::NotCovered,
            "two rows are needed, one is left"
        );
        assert_eq!(
            map.record(30, 10, ms(1.0)),
            Recorded::New,
            "and it was not given to half a pair"
        );
        assert_eq!(map.record(40, 10, ms(1.0)), Recorded::NotCovered);
        assert_eq!(map.record(20, 30, ms(1.0)), Recorded::New);
        assert_eq!((map.cells(), map.known()), (3, 3));
        assert!(map.memory() <= map.shape().memory_at_most());
        assert_eq!(map.shape().memory_at_most(), ByteSize::new(99));
    }

    #[test]
    fn times_beyond_the_steps_answer_the_longest_ever_seen() {
        let mut map = LatencyMatrix::new(shape(touched()));
        map.record(1, 2, ms(30.0));
        assert_eq!(map.time(1, 2), Some(ms(30.0)));
        map.record(3, 4, ms(90.0));
        assert_eq!((map.time(1, 2), map.longest_seen()), (Some(ms(90.0)), ms(90.0)));
        assert_eq!(map.record(1, 2, ms(80.0)), Recorded::Kept);
    }

    #[test]
    fn forgotten_pairs_are_unknown_and_others_stay() {
        let mut map =
            LatencyMatrix::new(shape(MatrixSettings { count_samples: true, ..touched() }));
        for (from, to) in [(1, 2), (1, 3), (2, 3), (5, 5)] {
            map.record(from, to, ms(2.0));
        }
        map.forget(Extent::from_numbers(2 * 256 + 17, 1));
        let times = [(1, 2), (2, 3), (1, 3), (5, 5)].map(|(one, other)| map.time(one, other));
        assert_eq!(times, [None, None, Some(ms(2.0)), Some(ms(2.0))]);
        assert_eq!((map.known(), map.samples(2, 3), map.samples(1, 3)), (2, Some(0), Some(1)));
        map.forget(Extent::from_numbers(0, 0));
        assert_eq!(map.known(), 2);
        assert_eq!(map.record(2, 3, ms(1.0)), Recorded::New);
    }

    #[test]
    fn there_and_back_are_two_where_both_are_kept() {
        let mut map =
            LatencyMatrix::new(shape(MatrixSettings { directions: Directions::Both, ..touched() }));
        map.record(3, 9, ms(4.2));
        assert_eq!((map.time(3, 9), map.time(9, 3), map.pairs()), (Some(ms(5.0)), None, 4));
        assert!(map.would_learn(9, 3) && !map.would_learn(3, 9));
        map.record(9, 3, ms(0.6));
        assert_eq!(
            (map.time(3, 9), map.time(9, 3), map.known()),
            (Some(ms(5.0)), Some(ms(1.0)), 2)
        );
        assert_eq!(map.observed().collect::<Vec<_>>(), [(3, 9, ms(5.0)), (9, 3, ms(1.0))]);
        map.forget(Extent::from_numbers(9 * 256, 1));
        assert_eq!((map.time(3, 9), map.time(9, 3), map.known()), (None, None, 0));
    }

    #[test]
    fn exceedances_are_counted_by_the_samples_a_pair_had() {
        let mut map =
            LatencyMatrix::new(shape(MatrixSettings { count_samples: true, ..touched() }));
        for time in [2.0, 2.0, 3.5, 3.9, 1.0, 13.0] {
            map.record(7, 8, ms(time));
        }
        let rows: Vec<(u8, u64)> =
            map.exceedance().rows().map(|row| (row.samples, row.exceeded)).collect();
        // 3.9 is within the step of 3.5.
        assert_eq!(rows, [(1, 0), (2, 1), (3, 0), (4, 0), (5, 1)]);
        assert_eq!(map.samples(8, 7), Some(6));
        for _ in 0..400 {
            map.record(7, 8, ms(1.0));
        }
        assert_eq!(map.samples(7, 8), Some(255));
        assert!(LatencyMatrix::new(shape(touched())).exceedance().rows().next().is_none());
    }

    #[test]
    #[should_panic(expected = "cells 3 and 64 of a drive with 64")]
    fn a_cell_beyond_the_drive_panics() {
        LatencyMatrix::new(shape(touched())).record(3, 64, ms(1.0));
    }

    proptest! {
        /// Against the exact times of every pair.
        #[test]
        fn no_entry_is_ever_below_the_worst_observed(
            observations in proptest::collection::vec(
                (0_u32..12, 0_u32..12, 0_u64..30_000_000),
                0..200,
            ),
            bits in prop_oneof![
                Just(EntryBits::Four),
                Just(EntryBits::Eight),
                Just(EntryBits::Sixteen),
            ],
            coverage in prop_oneof![
                Just(Coverage::Touched),
                Just(Coverage::WholeDrive),
                Just(Coverage::Region(Extent::from_numbers(512, 2_000))),
            ],
            directions in prop_oneof![Just(Directions::Worse), Just(Directions::Both)],
        ) {
            let mut map = LatencyMatrix::new(shape(MatrixSettings {
                bits,
                coverage,
                directions,
                longest: Nanos::from_ms(20),
                ..touched()
            }));
            let mut worst: BTreeMap<(u32, u32), Nanos> = BTreeMap::new();
            for (from, to, ns) in observations {
                let pair = if directions == Directions::Both {
                    (from, to)
                } else {
                    (from.min(to), from.max(to))
                };
                let time = Nanos::from_ns(ns);
                if map.record(from, to, time) != Recorded::NotCovered {
                    worst.entry(pair).and_modify(|worst| *worst = time.max(*worst)).or_insert(time);
                }
            }
            prop_assert_eq!(map.known(), worst.len() as u64);
            prop_assert_eq!(map.observed().count(), worst.len());
            for ((one, other), worst) in &worst {
                let time = map.time(*one, *other).unwrap();
                prop_assert!(time >= *worst, "{} for {}", time, worst);
                prop_assert!(
                    *worst > map.shape().scale().reach()
                        || time.as_ns() <= worst.as_ns() + map.shape().scale().step().as_ns()
                );
                prop_assert!(
                    directions == Directions::Both || map.time(*other, *one) == Some(time)
                );
            }
        }
    }
}
