//! [`Cells`]: the assignment of matrix rows to cells.
//!
//! In a map of a region, cell and row differ by a constant. In a map of touched cells, a cell gets
//! the next free row at its first observation. When all rows are assigned, later cells have none,
//! unless a row is given away ([`super::eviction`]).

use super::shape::CoveredCells;

/// Rows by cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cells {
    Region { first: u32, count: u32 },
    Touched { cells: Vec<u32>, finder: Finder, most: u32 },
}

impl Cells {
    pub(super) fn new(covered: CoveredCells) -> Self {
        match covered {
            CoveredCells::Region { first, count } => Self::Region { first, count },
            CoveredCells::Touched { most } => {
                Self::Touched { cells: Vec::new(), finder: Finder::default(), most }
            }
        }
    }

    /// The number of rows.
    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Region { count, .. } => *count,
            Self::Touched { cells, .. } => cells.len() as u32,
        }
    }

    /// The row of a cell, if it has one.
    #[inline]
    pub(super) fn row(&self, cell: u32) -> Option<u32> {
        match self {
            Self::Region { first, count } => cell.checked_sub(*first).filter(|row| row < count),
            Self::Touched { cells, finder, .. } => finder.find(cells, cell),
        }
    }

    /// The number of cells that can still get a row.
    pub(super) fn free(&self) -> u32 {
        match self {
            Self::Region { .. } => 0,
            Self::Touched { cells, most, .. } => most - cells.len() as u32,
        }
    }

    /// The row of a cell; assigns a new one if the cell has none and a row is free.
    pub(super) fn row_or_new(&mut self, cell: u32) -> Option<u32> {
        if let Some(row) = self.row(cell) {
            return Some(row);
        }
        let Self::Touched { cells, finder, most } = self else { return None };
        let row = cells.len() as u32;
        if row >= *most {
            return None;
        }
        cells.push(cell);
        finder.add(cells);
        Some(row)
    }

    /// Gives a row of a map of touched cells to another cell, which has none.
    pub(super) fn reassign(&mut self, row: u32, cell: u32) {
        debug_assert!(self.row(cell).is_none(), "cell {cell} has a row");
        let Self::Touched { cells, finder, .. } = self else { return };
        finder.remove(cells, row);
        cells[row as usize] = cell;
        finder.put(cells, row as usize);
    }

    /// The cell of an assigned row.
    pub(super) fn cell(&self, row: u32) -> u32 {
        match self {
            Self::Region { first, .. } => first + row,
            Self::Touched { cells, .. } => cells[row as usize],
        }
    }
}

/// An index of rows by cell, with open addressing: a look-up is one or two loads, while a tree
/// needs a dozen. It is derived from the list of cells, and its answers do not depend on the order
/// in which they were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Finder {
    /// Row number plus one, or 0 if free. The length is a power of two, and at least half are free.
    places: Vec<u32>,
}

/// The cells are compared, not their index.
impl PartialEq for Finder {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Finder {}

impl Finder {
    fn find(&self, cells: &[u32], cell: u32) -> Option<u32> {
        let last = self.places.len().checked_sub(1)?;
        let mut place = self.home(cell);
        loop {
            let row = self.places[place].checked_sub(1)?;
            if cells[row as usize] == cell {
                return Some(row);
            }
            place = (place + 1) & last;
        }
    }

    /// Adds the last of `cells`.
    fn add(&mut self, cells: &[u32]) {
        if 2 * cells.len() > self.places.len() {
            self.places = vec![0; (2 * cells.len()).next_power_of_two()];
            (0..cells.len()).for_each(|row| self.put(cells, row));
        } else {
            self.put(cells, cells.len() - 1);
        }
    }

    fn put(&mut self, cells: &[u32], row: usize) {
        let mut place = self.home(cells[row]);
        while self.places[place] != 0 {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = row as u32 + 1;
    }

    /// Removes `row`; rows after it move up, so that none is separated from its first place by a
    /// free one (Knuth, volume 3, 6.4, algorithm R).
    fn remove(&mut self, cells: &[u32], row: u32) {
        let last = self.places.len() - 1;
        let mut free = self.home(cells[row as usize]);
        while self.places[free] != row + 1 {
            free = (free + 1) & last;
        }
        let mut place = free;
        loop {
            self.places[free] = 0;
            loop {
                place = (place + 1) & last;
                let Some(other) = self.places[place].checked_sub(1) else { return };
                let home = self.home(cells[other as usize]);
                // Its first place does not lie after the free one.
                if place.wrapping_sub(home) & last >= place.wrapping_sub(free) & last {
                    break;
                }
            }
            self.places[free] = self.places[place];
            free = place;
        }
    }

    #[inline]
    fn home(&self, cell: u32) -> usize {
        spread(cell, self.places.len())
    }
}

/// One of `places` places for a cell: multiplicative hashing by 2³² over the golden ratio, so that
/// neighbors are apart (Knuth, volume 3, 6.4).
#[inline]
pub(super) fn spread(cell: u32, places: usize) -> usize {
    let mixed = u64::from(cell.wrapping_mul(0x9E37_79B9));
    ((mixed * places as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_region_has_a_row_for_each_of_its_cells_and_for_no_other() {
        let mut cells = Cells::new(CoveredCells::Region { first: 10, count: 3 });
        assert_eq!([9, 10, 12, 13].map(|cell| cells.row(cell)), [None, Some(0), Some(2), None]);
        assert_eq!(
            (cells.row_or_new(13), cells.len(), cells.free(), cells.cell(1)),
            (None, 3, 0, 11)
        );
    }

    #[test]
    fn cells_get_rows_as_they_come_until_none_is_left() {
        let mut cells = Cells::new(CoveredCells::Touched { most: 2 });
        assert_eq!((cells.row(7), cells.free()), (None, 2));
        assert_eq!(
            [7, 3, 7, 5].map(|cell| cells.row_or_new(cell)),
            [Some(0), Some(1), Some(0), None]
        );
        assert_eq!((cells.len(), cells.free(), cells.cell(1), cells.row(3)), (2, 0, 3, Some(1)));
    }

    proptest! {
        #[test]
        fn every_cell_is_found_in_the_row_it_was_given(
            touched in proptest::collection::vec(prop_oneof![0_u32..50, any::<u32>()], 0..300),
        ) {
            let mut cells = Cells::new(CoveredCells::Touched { most: 200 });
            let mut rows = std::collections::BTreeMap::new();
            for cell in touched {
                let next = rows.len() as u32;
                let row = rows.get(&cell).copied().or((next < 200).then_some(next));
                prop_assert_eq!(cells.row(cell), rows.get(&cell).copied());
                prop_assert_eq!(cells.row_or_new(cell), row);
                row.map(|row| rows.insert(cell, row));
            }
            prop_assert!(
                rows.iter()
                    .all(|(cell, row)| cells.row(*cell) == Some(*row) && cells.cell(*row) == *cell)
            );
        }

        #[test]
        fn a_row_that_was_given_away_is_found_by_its_new_cell_only(
            given in proptest::collection::vec((0_u32..40, 0_u32..200), 0..400),
        ) {
            let mut cells = Cells::new(CoveredCells::Touched { most: 40 });
            let mut of_rows: Vec<u32> = (1_000..1_040).collect();
            of_rows.iter().for_each(|cell| assert!(cells.row_or_new(*cell).is_some()));
            for (row, cell) in given {
                if !of_rows.contains(&cell) {
                    cells.reassign(row, cell);
                    of_rows[row as usize] = cell;
                }
            }
            for cell in (0..200).chain(1_000..1_040) {
                let row = of_rows.iter().position(|of| *of == cell);
                prop_assert_eq!(cells.row(cell), row.map(|row| row as u32));
            }
        }
    }
}
