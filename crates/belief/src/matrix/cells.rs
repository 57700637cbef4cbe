//! [`Cells`]: which row of the matrix a cell has.
//!
//! In a map of a region cell and row differ by a number. In a map of the cells touched a cell gets the next free row when it first has something to say, and keeps it; when all
//! rows are given away, cells that come later have none.

use std::collections::BTreeMap;

use super::shape::CoveredCells;

/// Rows by cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cells {
    Region { first: u32, count: u32 },
    Touched { cells: Vec<u32>, rows: BTreeMap<u32, u32>, most: u32 },
}

impl Cells {
    pub(super) fn new(covered: CoveredCells) -> Self {
        match covered {
            CoveredCells::Region { first, count } => Self::Region { first, count },
            CoveredCells::Touched { most } => Self::Touched { cells: Vec::new(), rows: BTreeMap::new(), most },
        }
    }

    /// How many rows there are.
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
            Self::Touched { rows, .. } => rows.get(&cell).copied(),
        }
    }

    /// How many more cells can get a row.
    pub(super) fn free(&self) -> u32 {
        match self {
            Self::Region { .. } => 0,
            Self::Touched { cells, most, .. } => most - cells.len() as u32,
        }
    }

    /// The row of a cell, a new one if it has none and there is one.
    pub(super) fn row_or_new(&mut self, cell: u32) -> Option<u32> {
        if let Some(row) = self.row(cell) {
            return Some(row);
        }
        let Self::Touched { cells, rows, most } = self else { return None };
        let row = cells.len() as u32;
        if row >= *most {
            return None;
        }
        cells.push(cell);
        rows.insert(cell, row);
        Some(row)
    }

    /// The cell of a row there is.
    pub(super) fn cell(&self, row: u32) -> u32 {
        match self {
            Self::Region { first, .. } => first + row,
            Self::Touched { cells, .. } => cells[row as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_a_row_for_each_of_its_cells_and_for_no_other() {
        let mut cells = Cells::new(CoveredCells::Region { first: 10, count: 3 });
        assert_eq!([9, 10, 12, 13].map(|cell| cells.row(cell)), [None, Some(0), Some(2), None]);
        assert_eq!((cells.row_or_new(13), cells.len(), cells.free(), cells.cell(1)), (None, 3, 0, 11));
    }

    #[test]
    fn cells_get_rows_as_they_come_until_none_is_left() {
        let mut cells = Cells::new(CoveredCells::Touched { most: 2 });
        assert_eq!((cells.row(7), cells.free()), (None, 2));
        assert_eq!([7, 3, 7, 5].map(|cell| cells.row_or_new(cell)), [Some(0), Some(1), Some(0), None]);
        assert_eq!((cells.len(), cells.free(), cells.cell(1), cells.row(3)), (2, 0, 3, Some(1)));
    }
}
