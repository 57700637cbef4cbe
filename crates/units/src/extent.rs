//! Addresses and lengths on a drive: [`Lba`], [`Sectors`], [`Extent`], and bytes at the edges.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A logical block address: the number of a logical sector on its drive (the papers' LBN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Lba(u64);

/// A length in logical sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Sectors(u64);

/// A run of logical sectors: `start`, and `len` of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extent {
    /// The first sector.
    pub start: Lba,
    /// The number of sectors.
    pub len: Sectors,
}

/// A number of bytes, as in sizes written by people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct ByteSize(u64);

/// The size of a drive's logical sector in bytes: a power of two from 512 to 65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectorSize(u32);

impl Lba {
    /// The address of sector `number`.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The sector's number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Sectors between this address and `other`, whichever is further.
    #[must_use]
    pub const fn distance(self, other: Self) -> Sectors {
        Sectors(self.0.abs_diff(other.0))
    }
}

impl Sectors {
    /// No sectors.
    pub const ZERO: Self = Self(0);

    /// A length of `count` sectors.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The number of sectors.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether the length is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Extent {
    /// `len` sectors from `start`.
    #[must_use]
    pub const fn new(start: Lba, len: Sectors) -> Self {
        Self { start, len }
    }

    /// `len` sectors from sector `start`, from bare numbers.
    #[must_use]
    pub const fn from_numbers(start: u64, len: u64) -> Self {
        Self { start: Lba(start), len: Sectors(len) }
    }

    /// The first address after the extent.
    ///
    /// # Panics
    /// When the extent exceeds the address range; [`Extent::checked_end`] does not panic.
    #[must_use]
    pub const fn end(self) -> Lba {
        self.checked_end().expect("an extent ends within the address space")
    }

    /// The first address after the extent, `None` when the extent exceeds the address range.
    #[must_use]
    pub const fn checked_end(self) -> Option<Lba> {
        match self.start.0.checked_add(self.len.0) {
            Some(end) => Some(Lba(end)),
            None => None,
        }
    }

    /// The last sector of the extent; the start of an empty extent.
    #[must_use]
    pub const fn last(self) -> Lba {
        Lba(self.start.0 + self.len.0.saturating_sub(1))
    }

    /// Returns whether `lba` is one of the extent's sectors.
    #[must_use]
    pub const fn contains(self, lba: Lba) -> bool {
        self.start.0 <= lba.0 && lba.0 - self.start.0 < self.len.0
    }

    /// Returns whether the two extents share a sector.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end().0
            && other.start.0 < self.end().0
            && self.len.0 > 0
            && other.len.0 > 0
    }

    /// The parts of the extent between multiples of `stripe`, in order. None of an empty extent.
    /// Example: sectors 250–519 divided at 256 are 250–255, 256–511 and 512–519.
    ///
    /// # Panics
    /// When `stripe` is zero.
    pub fn divided_at(self, stripe: Sectors) -> impl Iterator<Item = Self> {
        let (mut at, end) = (self.start.0, self.end().0);
        core::iter::from_fn(move || {
            let part = Self::from_numbers(at, end.min((at / stripe.0 + 1) * stripe.0) - at);
            at = part.end().0;
            (part.len.0 > 0).then_some(part)
        })
    }

    /// The sectors that both extents have, `None` when they share none.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end());
        (start < end).then(|| Self::new(start, end - start))
    }
}

impl SectorSize {
    /// The 512 bytes of most drives.
    pub const B512: Self = Self(512);
    /// The 4,096 bytes of 4Kn drives.
    pub const B4096: Self = Self(4096);

    /// A sector of `bytes` bytes; `None` unless it is a power of two from 512 to 65,536.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= 512 && bytes <= 65_536 {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// Bytes of one sector.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.0
    }

    /// Bytes of `sectors` sectors.
    #[must_use]
    pub const fn bytes_of(self, sectors: Sectors) -> u64 {
        sectors.0 * self.0 as u64
    }

    /// The byte at which `lba` starts.
    #[must_use]
    pub const fn offset_of(self, lba: Lba) -> u64 {
        lba.0 * self.0 as u64
    }

    /// The sectors in `bytes`, `None` when it is no whole number of sectors.
    #[must_use]
    pub const fn sectors_of(self, bytes: u64) -> Option<Sectors> {
        if bytes.is_multiple_of(self.0 as u64) {
            Some(Sectors(bytes / self.0 as u64))
        } else {
            None
        }
    }
}

impl ByteSize {
    /// A size of `bytes` bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add<Sectors> for Lba {
    type Output = Self;
    fn add(self, length: Sectors) -> Self {
        Self(self.0 + length.0)
    }
}

impl Sub for Lba {
    type Output = Sectors;
    /// Panics when `earlier` is greater: a negative length is a programmer's error.
    fn sub(self, earlier: Self) -> Sectors {
        Sectors(
            self.0
                .checked_sub(earlier.0)
                .expect("the address subtracted lies before the address it is subtracted from"),
        )
    }
}

impl Add for Sectors {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Sectors {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Sectors {
    type Output = Self;
    /// Panics when `other` is longer: a negative length is a programmer's error.
    fn sub(self, other: Self) -> Self {
        Self(
            self.0
                .checked_sub(other.0)
                .expect("the length subtracted is no longer than the length it is subtracted from"),
        )
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}

impl fmt::Display for Extent {
    /// `LBA 100..+8`: the start and the length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBA {}..+{}", self.start.0, self.len.0)
    }
}

impl fmt::Display for ByteSize {
    /// The largest binary unit that divides the size without remainder, else the nearest with one
    /// decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] =
            [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
        for (unit, bytes) in UNITS {
            if self.0 >= bytes {
                return if self.0.is_multiple_of(bytes) {
                    write!(f, "{} {unit}", self.0 / bytes)
                } else {
                    write!(f, "{:.1} {unit}", self.0 as f64 / bytes as f64)
                };
            }
        }
        f.write_str("0 B")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn neighbors_do_not_overlap_and_an_empty_extent_overlaps_nothing() {
        let first = Extent::from_numbers(10, 5);
        assert!(!first.overlaps(Extent::from_numbers(15, 5)));
        assert!(first.overlaps(Extent::from_numbers(14, 1)));
        assert!(!first.overlaps(Extent::from_numbers(12, 0)));
        assert_eq!(
            first.intersection(Extent::from_numbers(12, 10)),
            Some(Extent::from_numbers(12, 3))
        );
    }

    #[test]
    fn sector_sizes_are_powers_of_two_from_512() {
        assert_eq!(SectorSize::new(512), Some(SectorSize::B512));
        for bytes in [0, 1, 256, 520, 131_072] {
            assert_eq!(SectorSize::new(bytes), None, "{bytes}");
        }
        assert_eq!(SectorSize::B4096.sectors_of(4095), None);
        assert_eq!(SectorSize::B4096.sectors_of(8192), Some(Sectors::new(2)));
    }

    #[test]
    fn sizes_print_as_people_write_them() {
        assert_eq!(ByteSize::new(4096).to_string(), "4 KiB");
        assert_eq!(ByteSize::new(20_000_000_000_000).to_string(), "18.2 TiB");
        assert_eq!(ByteSize::new(0).to_string(), "0 B");
    }

    proptest! {
        #[test]
        fn overlap_is_what_counting_sectors_says(
            a in 0_u64..40,
            m in 0_u64..20,
            b in 0_u64..40,
            n in 0_u64..20,
        ) {
            let counted = (a..a + m).any(|sector| (b..b + n).contains(&sector));
            let (first, second) = (Extent::from_numbers(a, m), Extent::from_numbers(b, n));
            prop_assert_eq!(first.overlaps(second), counted);
            prop_assert_eq!(first.intersection(second).is_some(), counted);
        }
    }
}
