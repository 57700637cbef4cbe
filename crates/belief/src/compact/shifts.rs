//! [`Shifts`]: the number of sectors by which the addresses of a drive are shifted against a
//! layout, by region.
//!
//! A sector that a drive skips moves all later sectors by one. A layout without this slip becomes
//! right again if each address is increased by the number of skipped sectors. Example: no shift
//! before LBA 7,218,155, then 8: LBA 7,300,000 lies where the layout has LBA 7,300,008.
//!
//! Cost: a lookup is a binary search. 16 bytes for each region.

use headtime_units::{Extent, Lba, Sectors};

/// The shifts by first address, in the order of addresses; each differs from the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shifts {
    rows: Vec<Shift>,
    /// The least and the greatest shift.
    lowest: i64,
    highest: i64,
}

/// The shift of the addresses from `first` on, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    pub(super) first: u64,
    pub(super) sectors: i64,
}

impl Shifts {
    /// Creates the list from rows in the order of addresses; rows that change nothing are left out.
    pub(super) fn new(rows: impl IntoIterator<Item = Shift>) -> Self {
        let mut kept: Vec<Shift> = Vec::new();
        for row in rows {
            if row.sectors != kept.last().map_or(0, |last| last.sectors) {
                kept.push(row);
            }
        }
        let (lowest, highest) = kept.iter().fold((0, 0), |(lowest, highest), row| {
            (row.sectors.min(lowest), row.sectors.max(highest))
        });
        Self { rows: kept, lowest, highest }
    }

    /// The regions in the order of addresses.
    pub(super) fn rows(&self) -> &[Shift] {
        &self.rows
    }

    /// The shift of `lba`.
    pub(super) fn at(&self, lba: Lba) -> i64 {
        let count = self.rows.partition_point(|row| row.first <= lba.get());
        count.checked_sub(1).map_or(0, |row| self.rows[row].sectors)
    }

    /// The addresses of a drive with `capacity` whose sectors a layout has at `extent`, as far as
    /// they are contiguous: the range `around` an address, or the longest one. Also returns the
    /// number of sectors of `extent` before the first of them.
    pub(crate) fn addresses(
        &self,
        extent: Extent,
        around: Option<Lba>,
        capacity: Sectors,
    ) -> Option<(Extent, u64)> {
        let (start, end) = (extent.start.get() as i64, extent.end().get() as i64);
        let stretch = |index: usize| {
            // The range before the first row is not shifted.
            let row = |index: usize| index.checked_sub(1).map(|index| self.rows[index]);
            let sectors = row(index).map_or(0, |row| row.sectors);
            let first = row(index).map_or(0, |row| row.first as i64).max(start - sectors);
            let next = self.rows.get(index).map_or(i64::MAX, |row| row.first as i64);
            let next = next.min(end - sectors).min(capacity.get() as i64);
            (first < next).then(|| {
                let extent = Extent::from_numbers(first as u64, (next - first) as u64);
                (extent, (first + sectors - start) as u64)
            })
        };
        if let Some(lba) = around {
            let index = self.rows.partition_point(|row| row.first <= lba.get());
            return stretch(index).filter(|(extent, _)| extent.contains(lba));
        }
        let near = |most: i64| self.rows.partition_point(|row| (row.first as i64) <= most);
        (near(start - self.highest)..=near(end - self.lowest))
            .filter_map(stretch)
            .max_by_key(|(extent, _)| extent.len)
    }

    /// The address of `lba` in a layout with `mapped` sectors, or the nearest address that it has.
    pub(super) fn moved(&self, lba: Lba, mapped: u64) -> Lba {
        Lba::new(lba.get().saturating_add_signed(self.at(lba)).min(mapped.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_moved_by_the_shift_of_its_region_and_stays_on_the_drive() {
        let row = |first, sectors| Shift { first, sectors };
        let shifts = Shifts::new([row(0, 0), row(100, 8), row(150, 8), row(200, -3)]);
        assert_eq!(shifts.rows(), [row(100, 8), row(200, -3)]);
        let moved = |lba| shifts.moved(Lba::new(lba), 1_000).get();
        assert_eq!([0, 99, 100, 199, 200, 999, 5_000].map(moved), [0, 99, 108, 207, 197, 996, 999]);
        let addresses = |first, len, around: Option<u64>| {
            let capacity = Sectors::new(1_000);
            let extent = Extent::from_numbers(first, len);
            shifts.addresses(extent, around.map(Lba::new), capacity)
        };
        let at = |first, len, passed| Some((Extent::from_numbers(first, len), passed));
        assert_eq!(addresses(10, 20, None), at(10, 20, 0));
        assert_eq!(addresses(90, 30, None), at(100, 12, 18), "10 before the shift, 12 after it");
        assert_eq!(addresses(90, 30, Some(95)), at(90, 10, 0));
        assert_eq!(addresses(150, 10, Some(145)), at(142, 10, 0));
        assert_eq!(addresses(990, 30, None), at(993, 7, 0));
        assert_eq!(addresses(1_100, 30, None), None, "all addresses are past the end of the drive");
        assert_eq!(Shifts::new([row(0, -9)]).moved(Lba::new(4), 1_000), Lba::new(0));
    }
}
