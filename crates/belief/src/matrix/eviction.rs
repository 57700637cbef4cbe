//! [`Eviction`]: a full map of touched cells gives the rows of cells that are no longer used to
//! cells that are.
//!
//! A cell without a row is a *candidate*; its uses are counted. After [`USES`] of them it gets the
//! row of a cell that was not used once since the candidate's first use. The row is cleared first,
//! some entries with each observation; a use of its own cell ends that. A cell that comes back is
//! learned again.
//!
//! Worked example, room for three cells: 1, 2 and 3 are covered. From the hundredth observation
//! on requests use the cells 3, 8 and 9. After its 24th use, candidate 8 takes the row of cell
//! 1, which was last used before that, and candidate 9 that of cell 2. Cell 3 and its entry
//! with itself stay.
//!
//! Guarantees: a cell keeps its row as long as it is used at least once in the time in which every
//! candidate is used 24 times: among equally busy cells, chance replaces next to none (at most 2 of
//! 200 rows in four million observations, test). A scan, which uses each cell once, replaces none.
//! Not guaranteed: that the busiest cells are covered. A cell of medium use keeps its row beside a
//! candidate of up to 24 times its use. Cost: a look at [`LOOKED`] rows and [`CLEARED`] pairs per
//! observation at most. Source: ours, on P1 section 3.1 (the matrix covers the hot set); the
//! admission of cells by their uses is as in TinyLFU (Einziger, Friedman and Manes, 2017), and the
//! search by a hand as in CLOCK.

use super::cells::spread;

/// The treatment of cells that are touched when no more fit into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They are not covered (paper).
    Keep,
    /// They get the rows of cells that are no longer used.
    #[default]
    Evict,
}

/// The uses of rows and of candidates.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    /// Observations so far; wraps.
    now: u32,
    /// The last observation that used each row.
    used: Vec<u32>,
    candidates: Vec<Candidate>,
    /// The row to look at next.
    hand: u32,
    leaving: Option<Leaving>,
}

/// A cell without a row.
#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    /// The cell plus one, or 0 if the place is free.
    cell: u32,
    /// The observation of its first use.
    first: u32,
    uses: u32,
}

/// A row whose entries are being cleared.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    row: u32,
    /// The pairs with lower rows are cleared.
    next: u32,
}

impl Eviction {
    /// The state of a map with room for `rows` rows, of which none was used.
    pub(super) fn new(rows: u32) -> Self {
        let places = (rows / 2).max(MIN_CANDIDATES) as usize;
        Self {
            now: 0,
            used: Vec::new(),
            candidates: vec![Candidate::default(); places],
            hand: 0,
            leaving: None,
        }
    }

    /// Counts an observation; the map has `rows` rows.
    pub(super) fn step(&mut self, rows: u32) {
        self.now = self.now.wrapping_add(1);
        self.used.resize(rows as usize, self.now);
    }

    /// Notes a use of the cell of `row`.
    pub(super) fn used(&mut self, row: u32) {
        if let Some(used) = self.used.get_mut(row as usize) {
            *used = self.now;
        }
        self.leaving = self.leaving.filter(|leaving| leaving.row != row);
    }

    /// Notes a use of a cell without a row. Returns the cleared row that it gets, if there is one.
    pub(super) fn wants(&mut self, cell: u32) -> Option<u32> {
        let (now, rows) = (self.now, self.used.len() as u32);
        let place = spread(cell, self.candidates.len());
        let candidate = &mut self.candidates[place];
        if candidate.cell != cell + 1 {
            // A candidate that is used less than a row could be is replaced.
            let age = u64::from(now.wrapping_sub(candidate.first));
            let busy = age <= u64::from(USES) * u64::from(rows) * u64::from(candidate.uses);
            if candidate.cell == 0 || !busy {
                *candidate = Candidate { cell: cell + 1, first: now, uses: 1 };
            }
            return None;
        }
        candidate.uses = candidate.uses.saturating_add(1);
        let Candidate { first, uses, .. } = *candidate;
        if uses < USES {
            return None;
        }
        match self.leaving {
            // The row was chosen for another candidate, which may have been used for longer.
            Some(Leaving { row, next }) if next >= rows && self.unused_since(row, first) => {
                self.candidates[place] = Candidate::default();
                self.leaving = None;
                Some(row)
            }
            Some(_) => None,
            None => {
                self.choose(first);
                None
            }
        }
    }

    /// Chooses a row that was not used since observation `first` to be cleared.
    fn choose(&mut self, first: u32) {
        let rows = self.used.len() as u32;
        for _ in 0..LOOKED.min(rows) {
            let row = self.hand % rows;
            self.hand = (row + 1) % rows;
            if self.unused_since(row, first) {
                self.leaving = Some(Leaving { row, next: 0 });
                return;
            }
        }
    }

    fn unused_since(&self, row: u32, first: u32) -> bool {
        let idle = self.now.wrapping_sub(self.used[row as usize]);
        idle > self.now.wrapping_sub(first)
    }

    /// The row that is being cleared keeps its cell.
    pub(super) fn stop_clearing(&mut self) {
        self.leaving = None;
    }

    /// The row to clear, and the rows whose pairs with it are next.
    pub(super) fn next_to_clear(&mut self) -> Option<(u32, std::ops::Range<u32>)> {
        let rows = self.used.len() as u32;
        let leaving = self.leaving.as_mut().filter(|leaving| leaving.next < rows)?;
        let from = leaving.next;
        leaving.next = (from + CLEARED).min(rows);
        Some((leaving.row, from..leaving.next))
    }
}

/// Uses of a candidate, while a cell is not used once, after which it gets that cell's row (guess:
/// of two equally busy cells, one is used 24 times in a row in one of 16 million cases).
const USES: u32 = 24;
/// Rows looked at per observation: 64 loads from memory in sequence (guess).
const LOOKED: u32 = 64;
/// Pairs cleared per observation (guess).
const CLEARED: u32 = 1_024;
/// Places for candidates of the smallest maps.
const MIN_CANDIDATES: u32 = 64;

#[cfg(test)]
mod tests {
    use super::super::map::LatencyMatrix;
    use super::super::shape::{MappedDrive, MatrixSettings, MatrixShape};
    use super::*;
    use headtime_units::{ByteSize, Nanos, SectorSize, Sectors};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    /// A full map of `rows` cells, of which the cells 0 to `rows` are covered.
    fn full(rows: u32, full: WhenFull) -> LatencyMatrix {
        let drive = MappedDrive {
            model: "TEST 10K".into(),
            capacity: Sectors::new(1 << 30),
            sector: SectorSize::B512,
        };
        // Entries of half a byte, and 32 bytes of a row.
        let memory = ByteSize::new(u64::from((rows * (rows + 1) / 2).div_ceil(2) + rows * 32));
        let settings = MatrixSettings { memory, ..Default::default() };
        let shape = MatrixShape::new(drive, &settings).expect("it has cells");
        assert_eq!(shape.cells_at_most(), rows);
        let mut map = LatencyMatrix::new(shape).when_full(full);
        for cell in 0..rows {
            map.record(cell, 0, Nanos::from_ms(4));
        }
        assert_eq!(map.cells(), rows);
        map
    }

    fn covered(map: &LatencyMatrix, cells: std::ops::Range<u32>) -> usize {
        cells.filter(|cell| map.cells.row(*cell).is_some()).count()
    }

    #[test]
    fn the_worked_example_holds() {
        let mut map = full(3, WhenFull::Evict);
        map.record(2, 2, Nanos::from_ms(7));
        for _ in 0..40 {
            map.record(2, 80, Nanos::from_ms(5));
            map.record(80, 90, Nanos::from_ms(5));
            map.record(90, 2, Nanos::from_ms(5));
        }
        assert!(map.time(0, 1).is_none() && map.time(2, 2) > Some(Nanos::from_ms(6)));
        assert!(map.time(80, 90).is_some() && map.time(2, 90).is_some(), "{:?}", map.uses());
        assert_eq!(map.uses().evicted, 2);
        let mut kept = full(3, WhenFull::Keep);
        for _ in 0..400 {
            kept.record(80, 90, Nanos::from_ms(5));
        }
        assert!(kept.time(80, 90).is_none() && kept.time(0, 1).is_some());
    }

    /// A hot set that moves is covered again; all that is known of the cells that stay is kept.
    #[test]
    fn a_set_that_moves_is_covered_again_and_nothing_is_left_of_the_cells_before() {
        let mut map = full(200, WhenFull::Evict);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut serve = |map: &mut LatencyMatrix, first: u32, accesses: u32| {
            for _ in 0..accesses {
                let [from, to] = [0; 2].map(|_| rng.random_range(first..first + 200));
                map.record(from, to, Nanos::from_ms(3));
            }
        };
        serve(&mut map, 0, 200_000);
        assert!(map.uses().evicted == 0 && map.uses().known_recently > 0.98);
        serve(&mut map, 150, 200_000);
        assert_eq!(covered(&map, 150..350), 200, "(seed 1)");
        assert_eq!(covered(&map, 0..150), 0, "(seed 1)");
        assert!(map.uses().evicted == 150 && map.uses().known_recently > 0.98, "{:?}", map.uses());
        assert_eq!(map.known(), map.observed().count() as u64);
        assert!(map.observed().all(|(from, to, _)| from >= 150 && to >= 150));
        let decoded = LatencyMatrix::decode(&map.encode(), map.shape().memory).expect("whole");
        assert!(decoded == map, "a map with replaced cells is saved like any other");
    }

    #[test]
    fn a_scan_and_chance_among_equally_busy_cells_replace_none() {
        let mut map = full(200, WhenFull::Evict);
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut place = 1_000_000;
        for _ in 0..2_000_000 {
            // Twice as many busy cells as rows, and beside them a cell that is never used again.
            let [from, to] = [0; 2].map(|_| rng.random_range(0..400));
            map.record(from, to, Nanos::from_ms(3));
            place = (place + 1) % 3_000_000;
            map.record(to, place.max(1_000), Nanos::from_ms(3));
        }
        let evicted = map.uses().evicted;
        assert!(evicted <= 2, "{evicted} cells in 20,000 accesses for each row (seed 2)");
    }
}
