//! [`ScanSubject`]: the drive and the sectors that a scan and its progress belong to.

use headtime_units::{Extent, Lba, SectorSize, Sectors};
use twox_hash::XxHash3_64;

/// The sectors of a scan, and their drive and volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSubject {
    /// The drive's own identity; all zeroes for a drive that has none.
    pub drive: [u8; 16],
    /// The volume's name, or another name for the whole drive.
    pub target: String,
    /// The sectors by the drive's addresses.
    pub extent: Extent,
    /// The size of a sector.
    pub sector_size: SectorSize,
}

impl ScanSubject {
    /// The identity of a drive that has none of its own and is known by a name that stays the same:
    /// two digests of the name.
    #[must_use]
    pub fn identity_by_name(name: &str) -> [u8; 16] {
        let [first, second] =
            [1, 2].map(|seed| XxHash3_64::oneshot_with_seed(seed, name.as_bytes()).to_le_bytes());
        std::array::from_fn(|place| if place < 8 { first[place] } else { second[place - 8] })
    }

    /// Sectors of a grain, the unit of progress: a power of two, at least a physical block of
    /// `physical_bytes` and 4 KiB, at most 128 sectors, and otherwise as small as a bitmap of 2 MiB
    /// allows.
    #[must_use]
    pub fn grain(&self, physical_bytes: u32) -> u64 {
        let sector = u64::from(self.sector_size.bytes());
        let least = (u64::from(physical_bytes).max(MIN_GRAIN_BYTES) / sector)
            .next_power_of_two()
            .clamp(1, MAX_GRAIN);
        let mut grain = least;
        while grain < MAX_GRAIN && self.extent.len.get().div_ceil(grain) > MAX_GRAINS {
            grain *= 2;
        }
        grain
    }

    /// The address of the first grain. Grains lie on multiples of their size on the drive, so the
    /// first and the last may extend beyond the sectors.
    pub(crate) fn origin(&self, grain: u64) -> Lba {
        Lba::new(self.extent.start.get() / grain * grain)
    }

    /// The number of grains that cover the extent.
    pub(crate) fn grains(&self, grain: u64) -> u64 {
        if self.extent.len.is_zero() {
            0
        } else {
            self.extent.last().get() / grain + 1 - self.extent.start.get() / grain
        }
    }

    /// The sectors of one grain that belong to the extent.
    pub(crate) fn sectors_of(&self, grain: u64, number: u64) -> Extent {
        let start = self.origin(grain).get() + number * grain;
        let whole = Extent::new(Lba::new(start), Sectors::new(grain));
        whole.intersection(self.extent).expect("a grain that counts has sectors of the extent")
    }
}

/// A page, and the physical block of most drives.
const MIN_GRAIN_BYTES: u64 = 4096;
/// The bits of the mask of an incomplete grain.
const MAX_GRAIN: u64 = 128;
/// A bitmap of 2 MiB.
const MAX_GRAINS: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(start: u64, len: u64) -> ScanSubject {
        ScanSubject {
            drive: [0; 16],
            target: "v".into(),
            extent: Extent::from_numbers(start, len),
            sector_size: SectorSize::B512,
        }
    }

    #[test]
    fn grains_grow_with_the_drive_and_are_never_smaller_than_a_physical_block() {
        assert_eq!(subject(0, 2048).grain(512), 8);
        assert_eq!(subject(0, 2048).grain(16_384), 32);
        assert_eq!(subject(0, 39_062_500_000).grain(4096), 128);
        assert_eq!(
            ScanSubject { sector_size: SectorSize::B4096, ..subject(0, 2048) }.grain(4096),
            1
        );
    }

    #[test]
    fn the_first_and_last_grain_hold_only_what_belongs_to_the_extent() {
        let subject = subject(2050, 12);
        assert_eq!(subject.grains(8), 2);
        assert_eq!(
            [subject.sectors_of(8, 0), subject.sectors_of(8, 1)],
            [Extent::from_numbers(2050, 6), Extent::from_numbers(2056, 6)]
        );
    }
}
