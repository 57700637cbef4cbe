//! [`MatrixShape`]: the drive of a map, its cells, the covered ones, and the memory they need.
//!
//! The drive is divided into cells of equal size from address 0 on; the last may be shorter. n
//! covered cells have n·(n + 1)/2 pairs, a cell with itself included. The times there and back
//! differ: one entry holds the worse of them, as published, or each has an entry of its own, n² of
//! them ([`Directions`]).
//!
//! Worked example, the paper's: a hot set of 5 GB in cells of 128 KiB is 40,960 cells, 838,881,280
//! pairs, at 4 bits 419,440,640 bytes: the paper's 400 MB, if both are binary. Of 100 identical
//! drives with 45 GB each one map is enough: 368,640 cells, 33,973,954,560 bytes, 31.6 GiB: the
//! paper's 32 GB. A whole 20 TB drive would be 152.6 million cells and 5.8 PB.
//!
//! Source: P1 section 3.1.

use headtime_units::{ByteRange, ByteSize, Extent, Lba, Nanos, SectorSize, Sectors};

use super::scale::{EntryBits, LONGEST, Scale};

/// The drive that a map is of. Two drives with the same description share maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedDrive {
    /// The model, as the drive or its profile names it; 1,024 bytes at the most.
    pub model: String,
    /// Its size.
    pub capacity: Sectors,
    /// Its logical sector.
    pub sector: SectorSize,
}

/// The cells that a map covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// The cells that requests have touched, in the order of first use, as many as memory allows;
    /// see [`WhenFull`](super::WhenFull) for later ones.
    #[default]
    Touched,
    /// All cells of a region.
    Region(Extent),
    /// All cells of the drive.
    WholeDrive,
}

impl Coverage {
    /// A range of the drive's bytes: all cells that it touches.
    #[must_use]
    pub fn of_bytes(range: ByteRange, drive: &MappedDrive) -> Self {
        let bytes = u64::from(drive.sector.bytes());
        let start = range.start / bytes;
        let end = range.end.map_or(drive.capacity.get(), |end| end.div_ceil(bytes));
        Self::Region(Extent::from_numbers(start, end.saturating_sub(start)))
    }
}

/// The treatment of the times there and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directions {
    /// One entry for both, which holds the worse (paper). On a rotating drive this forgets most of
    /// what is to be known: where the platter turns far between A and B it turns little between B
    /// and A, so that the worse of the two is nearly always a long wait. (Measured: between 48
    /// fixed positions on an Atlas 10K, sixteen queued, it keeps less than half of what both
    /// directions gain over an order by address; test
    /// `between_fixed_positions_the_map_makes_service_faster`.)
    #[default]
    Worse,
    /// One entry for each, twice the memory.
    Both,
}

/// The settings of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixSettings {
    /// Bytes of a cell: whole sectors. Default 128 KiB (paper).
    pub cell: ByteSize,
    /// Bits of an entry. Default 4 (paper).
    pub bits: EntryBits,
    /// The time that the steps of an entry reach. Default 20 ms (guess: full stroke and a
    /// revolution of a 10,000 rpm drive; longer ones are kept, but less exactly).
    pub longest: Nanos,
    /// One or two entries for there and back. Default: the worse of both (paper).
    pub directions: Directions,
    /// The covered cells. Default: those touched.
    pub coverage: Coverage,
    /// Count the observations of each pair, a byte each, to report the rate at which the worst time
    /// is exceeded. Default: no.
    pub count_samples: bool,
    /// Memory limit of the map. Default 512 MiB (paper: 400 MB for its hot set).
    pub memory: ByteSize,
}

impl Default for MatrixSettings {
    fn default() -> Self {
        Self {
            cell: ByteSize::new(128 << 10),
            bits: EntryBits::Four,
            longest: Nanos::from_ms(20),
            directions: Directions::Worse,
            coverage: Coverage::Touched,
            count_samples: false,
            memory: ByteSize::new(512 << 20),
        }
    }
}

/// A drive, its cells, and those that a map covers; checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    pub(super) drive: MappedDrive,
    pub(super) cell_sectors: u64,
    pub(super) scale: Scale,
    pub(super) cells: CoveredCells,
    pub(super) directions: Directions,
    pub(super) count_samples: bool,
    pub(super) memory: ByteSize,
}

/// [`Coverage`] in numbers of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoveredCells {
    /// Cells get rows as they are touched, up to this number.
    Touched { most: u32 },
    /// A range of consecutive cells.
    Region { first: u32, count: u32 },
}

/// Reasons why a map cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ShapeError {
    /// The drive has no sectors, or more bytes than can be counted, or a name of another length.
    #[error(
        "drive '{}' with {} of {} bytes cannot be mapped; expected at least one sector, fewer \
            than 2^64 bytes, and a model name of 1 to {MODEL_BYTES} bytes",
        drive.model,
        drive.capacity,
        drive.sector.bytes()
    )]
    Drive { drive: MappedDrive },
    #[error(
        "a cell of {cell} is no whole number of sectors; expected a multiple of the drive's {} \
            bytes",
        sector.bytes()
    )]
    Cell { cell: ByteSize, sector: SectorSize },
    /// The drive has more cells of this size than have numbers.
    #[error(
        "cells of {cell} make {cells} of the drive; expected at most {}; use larger cells",
        u32::MAX
    )]
    TooManyCells { cell: ByteSize, cells: u64 },
    /// No time, or longer than an hour.
    #[error(
        "the longest time of a map is {longest}; expected more than nothing and at most an hour"
    )]
    Longest { longest: Nanos },
    #[error(
        "region {region} is empty or not on the drive, which has {capacity}; keep it within LBA \
            0..{}",
        capacity.get()
    )]
    Region { region: Extent, capacity: Sectors },
    /// The map would take more memory than allowed.
    #[error(
        "the map needs {needs} of memory and may take {memory}; allow more, cover at most \
            {cells_that_fit} cells of {cell}, or use larger cells or fewer bits"
    )]
    Memory { needs: ByteSize, memory: ByteSize, cells_that_fit: u32, cell: ByteSize },
}

impl MatrixShape {
    /// The shape of a map of `drive`.
    ///
    /// # Errors
    /// Names the invalid setting, and a valid range.
    pub fn new(drive: MappedDrive, settings: &MatrixSettings) -> Result<Self, ShapeError> {
        let sector_bytes = u64::from(drive.sector.bytes());
        let countable = drive.capacity.get().checked_mul(sector_bytes).is_some();
        if drive.capacity.is_zero()
            || !countable
            || drive.model.is_empty()
            || drive.model.len() > MODEL_BYTES
        {
            return Err(ShapeError::Drive { drive });
        }
        let whole = drive.sector.sectors_of(settings.cell.get()).map(Sectors::get);
        let cell_sectors = whole
            .filter(|sectors| *sectors > 0)
            .ok_or(ShapeError::Cell { cell: settings.cell, sector: drive.sector })?;
        let cells = drive.capacity.get().div_ceil(cell_sectors);
        let on_drive = u32::try_from(cells)
            .map_err(|_| ShapeError::TooManyCells { cell: settings.cell, cells })?;
        if settings.longest.is_zero() || settings.longest > LONGEST {
            return Err(ShapeError::Longest { longest: settings.longest });
        }
        let scale = Scale::reaching(settings.longest, settings.bits);
        let taken = Taken {
            bits: settings.bits,
            directions: settings.directions,
            count_samples: settings.count_samples,
            by_row: settings.coverage == Coverage::Touched,
        };
        let (covered, count) = match settings.coverage {
            Coverage::Touched => {
                let most = taken.rows_that_fit(settings.memory, on_drive);
                // With room for a single cell a map says nothing.
                (CoveredCells::Touched { most }, if most < 2 { 2 } else { most })
            }
            Coverage::WholeDrive => (CoveredCells::Region { first: 0, count: on_drive }, on_drive),
            Coverage::Region(region) => {
                let end = region
                    .checked_end()
                    .filter(|end| end.get() <= drive.capacity.get() && !region.len.is_zero());
                let end = end.ok_or(ShapeError::Region { region, capacity: drive.capacity })?;
                let first = (region.start.get() / cell_sectors) as u32;
                let count = end.get().div_ceil(cell_sectors) as u32 - first;
                (CoveredCells::Region { first, count }, count)
            }
        };
        let needs = taken.bytes(count);
        if needs > u128::from(settings.memory.get()) {
            return Err(ShapeError::Memory {
                needs: ByteSize::new(u64::try_from(needs).unwrap_or(u64::MAX)),
                memory: settings.memory,
                cells_that_fit: taken.rows_that_fit(settings.memory, on_drive),
                cell: settings.cell,
            });
        }
        let MatrixSettings { directions, count_samples, memory, .. } = *settings;
        Ok(Self { drive, cell_sectors, scale, cells: covered, directions, count_samples, memory })
    }

    /// The drive that the map is of.
    #[must_use]
    pub fn drive(&self) -> &MappedDrive {
        &self.drive
    }

    /// The size of a cell.
    #[must_use]
    pub fn cell(&self) -> Sectors {
        Sectors::new(self.cell_sectors)
    }

    /// The meaning of the codes of entries.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The treatment of the times there and back.
    #[must_use]
    pub fn directions(&self) -> Directions {
        self.directions
    }

    /// The number of cells of the drive.
    #[must_use]
    pub fn cells_on_drive(&self) -> u32 {
        // Checked when the shape was made.
        self.drive.capacity.get().div_ceil(self.cell_sectors) as u32
    }

    /// The number of cells that the map can cover.
    #[must_use]
    pub fn cells_at_most(&self) -> u32 {
        match self.cells {
            CoveredCells::Touched { most } => most,
            CoveredCells::Region { count, .. } => count,
        }
    }

    /// The cell that holds `lba`; beyond the end of the drive the last one.
    #[must_use]
    pub fn cell_of(&self, lba: Lba) -> u32 {
        u32::try_from(lba.get() / self.cell_sectors)
            .unwrap_or(u32::MAX)
            .min(self.cells_on_drive() - 1)
    }

    /// The region that the map covers; `None` for touched cells.
    #[must_use]
    pub fn region(&self) -> Option<Extent> {
        let CoveredCells::Region { first, count } = self.cells else { return None };
        let start = u64::from(first) * self.cell_sectors;
        let end = (start + u64::from(count) * self.cell_sectors).min(self.drive.capacity.get());
        Some(Extent::from_numbers(start, end - start))
    }

    /// The memory of the map when all possible cells are covered.
    #[must_use]
    pub fn memory_at_most(&self) -> ByteSize {
        self.memory_of(self.cells_at_most())
    }

    /// The memory of the map when `cells` cells are covered.
    pub(super) fn memory_of(&self, cells: u32) -> ByteSize {
        ByteSize::new(u64::try_from(self.taken().bytes(cells)).unwrap_or(u64::MAX))
    }

    pub(super) fn taken(&self) -> Taken {
        let by_row = matches!(self.cells, CoveredCells::Touched { .. });
        Taken {
            bits: self.scale.bits(),
            directions: self.directions,
            count_samples: self.count_samples,
            by_row,
        }
    }
}

/// The entries that `cells` cells need, a cell with itself included.
#[must_use]
pub const fn entries_of(cells: u32, directions: Directions) -> u64 {
    match directions {
        Directions::Worse => cells as u64 * (cells as u64 + 1) / 2,
        Directions::Both => cells as u64 * cells as u64,
    }
}

/// Bytes that the entries of `cells` cells take.
const fn table_bytes(cells: u32, bits: EntryBits, directions: Directions) -> u128 {
    (entries_of(cells, directions) as u128 * bits.get() as u128).div_ceil(8)
}

/// The settings that determine the memory of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    bits: EntryBits,
    directions: Directions,
    count_samples: bool,
    /// True if rows are found by a search.
    by_row: bool,
}

impl Taken {
    /// Bytes that so many rows take.
    pub(super) fn bytes(self, rows: u32) -> u128 {
        let samples =
            if self.count_samples { u128::from(entries_of(rows, self.directions)) } else { 0 };
        table_bytes(rows, self.bits, self.directions) + samples + u128::from(self.finding(rows))
    }

    /// Bytes that finding so many rows takes.
    pub(super) fn finding(self, rows: u32) -> u64 {
        if self.by_row { u64::from(rows) * ROW_BYTES } else { 0 }
    }

    /// The maximum number of rows, of `cells` cells, that fit.
    fn rows_that_fit(self, memory: ByteSize, cells: u32) -> u32 {
        let (mut fit, mut not) = (0, u64::from(cells) + 1);
        while not - fit > 1 {
            let middle = fit + (not - fit) / 2;
            if self.bytes(middle as u32) <= u128::from(memory.get()) {
                fit = middle
            } else {
                not = middle
            }
        }
        fit as u32
    }
}

/// Memory of a row beside its entries in a map of touched cells: 4 bytes for its cell, at most 16
/// in the index, and for eviction 4 for its last use and 6 for candidates; rounded up.
const ROW_BYTES: u64 = 32;
/// The longest name of a model, in bytes.
pub(super) const MODEL_BYTES: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn drive(bytes: u64) -> MappedDrive {
        MappedDrive {
            model: "TEST 10K".into(),
            capacity: Sectors::new(bytes / 512),
            sector: SectorSize::B512,
        }
    }

    fn region(bytes: u64, memory: u64) -> MatrixSettings {
        let coverage = Coverage::Region(Extent::from_numbers(0, bytes / 512));
        MatrixSettings { coverage, memory: ByteSize::new(memory), ..MatrixSettings::default() }
    }

    /// (5G/128K)² × 0.5 B / 2 is 400 MB with binary units, and so is n·(n + 1)/2 entries to 0.003
    /// %; with decimal ones it would be 364 MB.
    #[test]
    fn a_hot_set_of_5_gb_takes_400_mb_as_the_paper_says() {
        let shape = MatrixShape::new(drive(73 * GIB), &region(5 * GIB, 512 << 20)).unwrap();
        assert_eq!(shape.cells_at_most(), 40_960);
        assert_eq!(shape.memory_at_most().get(), 419_440_640);
        let paper = 40_960_u64 * 40_960 / 4;
        assert_eq!(paper, 400 << 20);
        assert_eq!(
            shape.memory_at_most().get() - paper,
            40_960 / 4,
            "the paper leaves out half of the diagonal"
        );
        let decimal = 5_000_000_000_u64.div_ceil(128 << 10);
        assert_eq!(
            table_bytes(decimal as u32, EntryBits::Four, Directions::Worse) / 1_000_000,
            363
        );
    }

    /// (4,500G/100/128K)² × 0.5 B / 2: 45 GB of each drive, one map for all hundred. Binary units
    /// give 31.6 GiB, which the paper calls 32 GB.
    #[test]
    fn a_hundred_drives_of_45_gb_share_32_gb_as_the_paper_says() {
        let shape = MatrixShape::new(drive(73 * GIB), &region(45 * GIB, 32 * GIB)).unwrap();
        assert_eq!(shape.cells_at_most(), 368_640);
        assert_eq!(shape.memory_at_most().get(), 33_973_954_560);
        assert_eq!(shape.memory_at_most().to_string(), "31.6 GiB");
        assert!(shape.memory_at_most().get() <= 32 * GIB);
    }

    #[test]
    fn a_whole_large_drive_is_refused_with_what_would_fit() {
        let settings =
            MatrixSettings { coverage: Coverage::WholeDrive, ..MatrixSettings::default() };
        let refused = MatrixShape::new(drive(20_000_000_000_000), &settings).unwrap_err();
        let ShapeError::Memory { needs, cells_that_fit, .. } = refused.clone() else {
            panic!("{refused}")
        };
        assert_eq!(needs.get() / 1_000_000_000_000, 5_820, "5.8 PB");
        assert_eq!(cells_that_fit, 46_340);
        assert!(
            [46_340, 46_341]
                .map(|cells| table_bytes(cells, EntryBits::Four, Directions::Worse) <= 512 << 20)
                == [true, false]
        );
        assert!(refused.to_string().contains("cover at most 46340 cells of 128 KiB"), "{refused}");
    }

    #[test]
    fn cells_touched_are_bounded_by_memory_and_by_the_drive() {
        let touched =
            |memory| MatrixSettings { memory: ByteSize::new(memory), ..MatrixSettings::default() };
        let shape = MatrixShape::new(drive(20_000_000_000_000), &touched(25 << 20)).unwrap();
        // 25.89 MB of entries and 0.33 MB for their rows.
        assert_eq!(shape.cells_at_most(), 10_175);
        assert!(shape.memory_at_most().get() <= 25 << 20);
        let small = MatrixShape::new(drive(10 << 20), &touched(25 << 20)).unwrap();
        assert_eq!(small.cells_at_most(), 80);
        assert!(matches!(
            MatrixShape::new(drive(GIB), &touched(40)),
            Err(ShapeError::Memory { cells_that_fit: 1, .. })
        ));
        let counted = MatrixShape::new(
            drive(GIB),
            &MatrixSettings { count_samples: true, ..touched(25 << 20) },
        )
        .unwrap();
        assert!(
            counted.cells_at_most() < shape.cells_at_most() * 6 / 10,
            "a byte per pair beside half a byte"
        );
    }

    #[test]
    fn wider_entries_take_two_and_four_times_as_much_and_two_directions_twice() {
        let bytes = EntryBits::ALL.map(|bits| table_bytes(1_000, bits, Directions::Worse));
        assert_eq!(bytes, [250_250, 500_500, 1_001_000]);
        assert_eq!(table_bytes(1_000, EntryBits::Four, Directions::Both), 500_000);
    }

    #[test]
    fn what_cannot_be_mapped_is_refused_and_the_message_says_what_could() {
        let refused = |drive: MappedDrive, settings: MatrixSettings| {
            MatrixShape::new(drive, &settings).unwrap_err().to_string()
        };
        let ok = MatrixSettings::default();
        assert!(refused(drive(0), ok).contains("at least one sector"));
        assert!(
            refused(MappedDrive { model: String::new(), ..drive(GIB) }, ok)
                .contains("1 to 1024 bytes")
        );
        let of = |bytes| MatrixSettings { cell: ByteSize::new(bytes), ..ok };
        assert_eq!(
            refused(drive(GIB), of(1_000)),
            "a cell of 1000 B is no whole number of sectors; expected a multiple of the drive's \
                512 bytes"
        );
        assert!(refused(drive(GIB), of(0)).contains("no whole number"));
        assert!(refused(drive(20_000_000_000_000), of(512)).contains("use larger cells"));
        assert!(
            refused(drive(GIB), MatrixSettings { longest: Nanos::ZERO, ..ok })
                .contains("at most an hour")
        );
        let outside = MatrixSettings {
            coverage: Coverage::Region(Extent::from_numbers(GIB / 512 - 1, 2)),
            ..ok
        };
        assert!(refused(drive(GIB), outside).contains("keep it within LBA 0..2097152"));
        let empty = MatrixSettings { coverage: Coverage::Region(Extent::from_numbers(5, 0)), ..ok };
        assert!(refused(drive(GIB), empty).contains("is empty"));
    }

    #[test]
    fn a_region_covers_every_cell_that_it_touches() {
        let settings = MatrixSettings {
            coverage: Coverage::Region(Extent::from_numbers(255, 2)),
            ..MatrixSettings::default()
        };
        let shape = MatrixShape::new(drive(GIB), &settings).unwrap();
        assert_eq!(shape.cells, CoveredCells::Region { first: 0, count: 2 });
        assert_eq!(
            (
                shape.cell_of(Lba::new(255)),
                shape.cell_of(Lba::new(256)),
                shape.cell_of(Lba::new(u64::MAX))
            ),
            (0, 1, 8_191)
        );
    }
}
