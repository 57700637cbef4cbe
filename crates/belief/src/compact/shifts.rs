//! [`Shifts`]: by how many sectors a drive's addresses lie further on than a layout says, region by
//! region.
//!
//! A sector that a drive steps over moves everything behind it by one. A layout that does not know
//! of it is right again once it is asked for the address so many sectors further on. Example:
//! nothing before LBA 7,218,155, then 8: LBA 7,300,000 lies where the layout has LBA 7,300,008.
//!
//! Cost: a look-up is a binary search. 16 bytes for each region.

use headtime_units::Lba;

/// How far addresses are moved, from which address on; rising by address, each differing from the
/// one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shifts {
    rows: Vec<Shift>,
}

/// From `first` on addresses lie `sectors` further on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    pub(super) first: u64,
    pub(super) sectors: i64,
}

impl Shifts {
    /// Takes `(first, sectors)` in any order of equals; what changes nothing is left out.
    pub(super) fn new(rows: impl IntoIterator<Item = Shift>) -> Self {
        let mut kept: Vec<Shift> = Vec::new();
        for row in rows {
            if row.sectors != kept.last().map_or(0, |last| last.sectors) {
                kept.push(row);
            }
        }
        Self { rows: kept }
    }

    /// The regions, rising by address.
    pub(super) fn rows(&self) -> &[Shift] {
        &self.rows
    }

    /// By how much `lba` is moved.
    pub(super) fn at(&self, lba: Lba) -> i64 {
        let behind = self.rows.partition_point(|row| row.first <= lba.get());
        behind.checked_sub(1).map_or(0, |row| self.rows[row].sectors)
    }

    /// The address to ask a layout with so many `mapped` sectors for; the nearest that it has.
    pub(super) fn moved(&self, lba: Lba, mapped: u64) -> Lba {
        Lba::new(lba.get().saturating_add_signed(self.at(lba)).min(mapped.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_moved_by_what_its_region_says_and_stays_on_the_drive() {
        let row = |first, sectors| Shift { first, sectors };
        let shifts = Shifts::new([row(0, 0), row(100, 8), row(150, 8), row(200, -3)]);
        assert_eq!(shifts.rows(), [row(100, 8), row(200, -3)]);
        let moved = |lba| shifts.moved(Lba::new(lba), 1_000).get();
        assert_eq!([0, 99, 100, 199, 200, 999, 5_000].map(moved), [0, 99, 108, 207, 197, 996, 999]);
        assert_eq!(Shifts::new([row(0, -9)]).moved(Lba::new(4), 1_000), Lba::new(0));
    }
}
