//! The space of a drive around its volumes: the free extents, and those of a new or growing volume.
//!
//! A volume gets one extent where one is free that is long enough: a new volume the first on the
//! drive, a growing one first what is free after its end, then the closest. Otherwise it gets the
//! longest free extents, in order of address.

use headtime_units::{ByteSize, Extent, Lba, SectorSize, Sectors};

use super::extents::{Extents, MAX_EXTENTS};
use super::relocation::RelocateTo;
use super::{ALIGNMENT_BYTES, AREA_BYTES};

/// The size of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveShape {
    /// Its logical sector size.
    pub sector: SectorSize,
    /// The number of its sectors.
    pub capacity: Sectors,
}

/// The unallocated space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// The sum.
    pub total: ByteSize,
    /// The longest extent.
    pub longest: ByteSize,
    /// The size of the largest new volume.
    pub largest: ByteSize,
}

/// The space of a drive.
pub(super) struct Space {
    sector: SectorSize,
    /// The first sector of the copy of the table.
    copy_start: u64,
    /// The end of the space for volumes: whole mebibytes before the copy of the table.
    end: u64,
    /// The extents of all volumes, by address.
    used: Vec<Extent>,
}

impl Space {
    /// The space of a drive on which the volumes have these extents, by address.
    pub(super) fn new(shape: DriveShape, used: Vec<Extent>) -> Self {
        let DriveShape { sector, capacity } = shape;
        let copy_start = capacity.get().saturating_sub(area(sector));
        let unit = alignment(sector);
        Self { sector, copy_start, end: copy_start / unit * unit, used }
    }

    /// The unallocated space.
    pub(super) fn free(&self) -> FreeSpace {
        let gaps = self.gaps();
        let of = |count| ByteSize::new(self.sector.bytes_of(longest(&gaps, count)));
        FreeSpace { total: of(usize::MAX), longest: of(1), largest: of(MAX_EXTENTS) }
    }

    /// The extents of a new volume.
    pub(super) fn allocate(&self, len: Sectors) -> Option<Extents> {
        allocate(self.gaps(), Lba::default(), len, MAX_EXTENTS).map(Extents::new)
    }

    /// The extents of a volume that grows to `len` sectors, or the largest possible length.
    pub(super) fn grown(&self, extents: &Extents, len: Sectors) -> Result<Extents, Sectors> {
        let missing = len - extents.sectors();
        let last = extents.last();
        let mut gaps = self.gaps();
        // The free space after the volume begins with what is left of its last mebibyte.
        let end = last.end().get();
        let begin = end.next_multiple_of(alignment(self.sector));
        let after = gaps.iter().position(|gap| gap.start.get() == begin);
        let after = after.map_or(begin.min(self.end.max(end)), |at| gaps.remove(at).end().get());
        let after = Sectors::new(after - end);
        // A volume of an older program may end within the last mebibyte of the drive.
        let at_most = if begin > self.end { 0 } else { MAX_EXTENTS - extents.as_slice().len() };
        let mut grown = extents.as_slice().to_vec();
        let extended = &mut grown.last_mut().expect("a volume has an extent").len;
        *extended += after.min(missing);
        let missing = missing - after.min(missing);
        let most = extents.sectors() + after + longest(&gaps, at_most);
        let further = allocate(gaps, last.end(), missing, at_most).ok_or(most)?;
        grown.extend(further);
        Ok(Extents::new(grown))
    }

    /// The place of `len` sectors that are moved there; `None` if no free extent has them.
    pub(super) fn place(&self, len: Sectors, to: RelocateTo) -> Option<Extent> {
        let mut gaps = self.gaps();
        gaps.retain(|gap| gap.len >= len);
        let place = |start: Lba| Extent::new(start, len);
        match to {
            RelocateTo::Start => gaps.first().map(|gap| place(gap.start)),
            RelocateTo::LargestGap => {
                gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.len), gap.start));
                gaps.first().map(|gap| place(gap.start))
            }
            RelocateTo::End => gaps.last().map(|gap| {
                let start = gap.end().get() - len.get();
                place(Lba::new(start / alignment(self.sector) * alignment(self.sector)))
            }),
            RelocateTo::Address(address) => {
                let start = self.sector.sectors_of(address.get())?;
                let requested = place(Lba::new(start.get()));
                let fits = |gap: &Extent| gap.intersection(requested) == Some(requested);
                gaps.iter().any(fits).then_some(requested)
            }
        }
    }

    /// The byte offset of the copy of the table; `None` where a volume lies there.
    pub(super) fn copy_offset(&self) -> Option<u64> {
        let last = self.used.iter().map(|extent| extent.end().get()).max().unwrap_or_default();
        (last <= self.copy_start).then(|| self.sector.bytes_of(Sectors::new(self.copy_start)))
    }

    /// The free extents by address, which start and end aligned.
    fn gaps(&self) -> Vec<Extent> {
        let mut gaps = Vec::new();
        let mut start = area(self.sector);
        let end = Extent::from_numbers(self.end, 0);
        for next in self.used.iter().chain([&end]) {
            let len = next.start.get().saturating_sub(start);
            gaps.extend((len > 0).then(|| Extent::from_numbers(start, len)));
            start = next.end().get().next_multiple_of(alignment(self.sector));
        }
        gaps
    }
}

/// Free extents with `len` sectors, by address: the one closest to `from` that is long enough, or
/// the longest ones. `None` if more than `at_most` are needed.
fn allocate(mut gaps: Vec<Extent>, from: Lba, len: Sectors, at_most: usize) -> Option<Vec<Extent>> {
    let mut extents = Vec::new();
    let mut missing = len.get();
    while missing > 0 {
        let fits = |(_, gap): &(usize, &Extent)| gap.len.get() >= missing;
        let by_distance = |(_, gap): &(usize, &Extent)| gap.start.distance(from);
        let closest = gaps.iter().enumerate().filter(fits).min_by_key(by_distance);
        let longest = || gaps.iter().enumerate().max_by_key(|(_, gap)| gap.len);
        let (chosen, _) = closest.or_else(longest).filter(|_| extents.len() < at_most)?;
        let gap = gaps.remove(chosen);
        missing = missing.saturating_sub(gap.len.get());
        extents.push(gap);
    }
    extents.sort_by_key(|extent| extent.start);
    let mut rest = len;
    for extent in &mut extents {
        extent.len = extent.len.min(rest);
        rest = rest - extent.len;
    }
    Some(extents)
}

/// The sum of the `count` longest of these extents.
fn longest(gaps: &[Extent], count: usize) -> Sectors {
    let mut lengths: Vec<Sectors> = gaps.iter().map(|gap| gap.len).collect();
    lengths.sort_by_key(|len| std::cmp::Reverse(*len));
    lengths.into_iter().take(count).fold(Sectors::ZERO, |sum, len| sum + len)
}

/// The alignment of volumes in sectors.
pub(super) fn alignment(sector: SectorSize) -> u64 {
    ALIGNMENT_BYTES / u64::from(sector.bytes())
}

/// The length of the metadata area in sectors.
pub(super) fn area(sector: SectorSize) -> u64 {
    AREA_BYTES / u64::from(sector.bytes())
}
