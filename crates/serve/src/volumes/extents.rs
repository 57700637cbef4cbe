//! [`Extents`]: the sectors of a volume on its drive.

use std::sync::Arc;

use headtime_units::{Extent, Lba, Sectors};

/// The maximum number of extents of a volume.
pub const MAX_EXTENTS: usize = 8;

/// The sectors of a volume: at least one extent of the drive, in the order of the volume's own
/// sectors. A clone shares the list.
///
/// Example: a volume of the extents 4096..+2048 and 100..+50 has 2098 sectors; its sector 2050 is
/// sector 102 of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extents(Arc<[Extent]>);

impl Extents {
    /// These extents in this order.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn new(extents: Vec<Extent>) -> Self {
        assert!(!extents.is_empty(), "a volume has at least one extent");
        Self(extents.into())
    }

    /// The extents.
    #[must_use]
    pub fn as_slice(&self) -> &[Extent] {
        &self.0
    }

    /// The first sector of the volume.
    #[must_use]
    pub fn start(&self) -> Lba {
        self.0[0].start
    }

    /// The extent with the end of the volume.
    #[must_use]
    pub fn last(&self) -> Extent {
        self.0[self.0.len() - 1]
    }

    /// The length of the volume.
    #[must_use]
    pub fn sectors(&self) -> Sectors {
        self.0.iter().fold(Sectors::ZERO, |sum, extent| sum + extent.len)
    }

    /// The sectors of the drive from sector `offset` of the volume up to the end of their extent;
    /// none at the end of the volume.
    #[must_use]
    pub fn from_offset(&self, offset: Sectors) -> Extent {
        let mut before = Sectors::ZERO;
        for extent in self.0.iter() {
            let skipped = Sectors::new(offset.get() - before.get());
            if skipped < extent.len {
                return Extent::new(extent.start + skipped, extent.len - skipped);
            }
            before += extent.len;
        }
        Extent::new(self.last().end(), Sectors::ZERO)
    }

    /// The sector of the volume that is this sector of the drive.
    #[must_use]
    pub fn offset_of(&self, lba: Lba) -> Option<Sectors> {
        let mut before = Sectors::ZERO;
        for extent in self.0.iter() {
            if extent.contains(lba) {
                return Some(before + (lba - extent.start));
            }
            before += extent.len;
        }
        None
    }

    /// The extents of the drive that are `len` sectors from sector `offset` of the volume on.
    #[must_use]
    pub fn part(&self, offset: Sectors, len: Sectors) -> Vec<Extent> {
        let (mut at, end) = (offset, offset + len);
        let mut part = Vec::new();
        while at < end {
            let rest = self.from_offset(at);
            if rest.len.is_zero() {
                break;
            }
            part.push(Extent::new(rest.start, rest.len.min(end - at)));
            at += rest.len;
        }
        part
    }

    /// The same extents with `len` sectors from sector `offset` on at `to`. Extents that adjoin
    /// become one.
    #[must_use]
    pub fn relocated(&self, offset: Sectors, len: Sectors, to: Lba) -> Self {
        let after = offset + len;
        let rest = self.part(after, self.sectors() - after);
        let mut joined: Vec<Extent> = Vec::new();
        for next in
            self.part(Sectors::ZERO, offset).into_iter().chain([Extent::new(to, len)]).chain(rest)
        {
            match joined.last_mut() {
                Some(last) if last.end() == next.start => last.len += next.len,
                _ => joined.push(next),
            }
        }
        Self::new(joined)
    }

    /// The first `len` sectors.
    ///
    /// # Panics
    /// If `len` is zero.
    #[must_use]
    pub fn first(&self, mut len: Sectors) -> Self {
        let mut first = Vec::new();
        for extent in self.0.iter().filter(|extent| !extent.len.is_zero()) {
            let part = extent.len.min(len);
            first.extend((!part.is_zero()).then(|| Extent::new(extent.start, part)));
            len = len - part;
        }
        Self::new(first)
    }
}

impl From<Extent> for Extents {
    fn from(extent: Extent) -> Self {
        Self(Arc::new([extent]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_the_volume_and_of_the_drive_correspond() {
        let extents = Extents::new(vec![
            Extent::from_numbers(4096, 2048),
            Extent::from_numbers(100, 50),
            Extent::from_numbers(8192, 1),
        ]);
        let from = |offset| extents.from_offset(Sectors::new(offset));
        assert_eq!(extents.sectors().get(), 2099);
        assert_eq!(from(2047), Extent::from_numbers(6143, 1));
        assert_eq!(from(2048), Extent::from_numbers(100, 50));
        assert_eq!(from(2098), Extent::from_numbers(8192, 1));
        assert_eq!(from(2099), Extent::from_numbers(8193, 0));
        for offset in 0..2099 {
            assert_eq!(extents.offset_of(from(offset).start), Some(Sectors::new(offset)));
        }
        assert_eq!(extents.offset_of(Lba::new(150)), None);
        let numbers = |extents: &[Extent]| -> Vec<(u64, u64)> {
            extents.iter().map(|extent| (extent.start.get(), extent.len.get())).collect()
        };
        assert_eq!(
            numbers(&extents.part(Sectors::new(2000), Sectors::new(99))),
            [(6096, 48), (100, 50), (8192, 1)]
        );
        let moved = extents.relocated(Sectors::new(2048), Sectors::new(50), Lba::new(8142));
        assert_eq!(numbers(moved.as_slice()), [(4096, 2048), (8142, 51)]);
        let moved = extents.relocated(Sectors::ZERO, Sectors::new(1024), Lba::new(0));
        assert_eq!(numbers(moved.as_slice()), [(0, 1024), (5120, 1024), (100, 50), (8192, 1)]);
        assert_eq!(extents.first(Sectors::new(2050)).as_slice()[1], Extent::from_numbers(100, 2));
        assert_eq!(extents.first(Sectors::new(2048)), Extent::from_numbers(4096, 2048).into());
    }
}
