//! The table of volumes: names, extents, settings; allocation by first fit.
//!
//! Invariants, checked by [`VolumeTable::check`] on everything that comes from a drive: names are unique and well formed, ids are unique and below
//! `next_id`, extents start on [`ALIGNMENT_BYTES`], lie behind the metadata area and on the drive, and no two overlap. Volumes are kept in the order
//! of their addresses.

use std::fmt;

use headtime_sched::VolumeId;
use headtime_units::{ByteSize, Extent, Lba, Nanos, SectorSize, Sectors};

use super::{ALIGNMENT_BYTES, AREA_BYTES, slot};

/// What of a drive matters to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveShape {
    /// Its logical sector.
    pub sector: SectorSize,
    /// How many it has.
    pub capacity: Sectors,
}

/// A drive's own name, drawn when its first table was written; never changes afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveUuid(pub [u8; 16]);

/// What can be set on a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Every read and write gets this long from its arrival, if set; from 1 ns.
    pub deadline: Option<Nanos>,
    /// Writes are refused.
    pub read_only: bool,
    /// Text for people; at most [`slot::DESCRIPTION_BYTES`] bytes of UTF-8 without control characters.
    pub description: String,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its number, never given to another volume of this drive; from 1, since 0 is the metadata's.
    pub id: VolumeId,
    /// Its name: 1 to 64 of `A–Z a–z 0–9 . _ -`.
    pub name: String,
    /// Its sectors, by the drive's addresses.
    pub extent: Extent,
    /// Its settings.
    pub settings: Settings,
}

/// A volume as somebody wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Its size; `None` takes whatever size the drive remembers.
    pub size: Option<ByteSize>,
    /// Its settings; they replace the remembered ones.
    pub settings: Settings,
}

/// What [`VolumeTable::ensure`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// The volume was there as wanted.
    Reused,
    /// The volume was there with other settings, which are replaced.
    Changed,
    /// The volume is new.
    Created,
}

/// What is not allocated, in pieces as they can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// All of it together.
    pub total: ByteSize,
    /// The largest volume that fits.
    pub largest: ByteSize,
}

/// All volumes of one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeTable {
    uuid: DriveUuid,
    shape: DriveShape,
    next_id: u32,
    volumes: Vec<Volume>,
}

/// Why a volume cannot be had as wanted. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The name breaks the rules.
    #[error("volume name `{name}`: expected 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with a dot or dash; choose another name")]
    Name {
        /// The name as given.
        name: String,
    },
    /// The description breaks the rules.
    #[error(
        "volume {name}: the description has {bytes} bytes or a control character in it; expected one line of at most {} bytes",
        slot::DESCRIPTION_BYTES
    )]
    Description {
        /// The volume.
        name: String,
        /// Length of the description in bytes.
        bytes: usize,
    },
    /// A deadline of nothing.
    #[error("volume {name}: a deadline of 0 s cannot be held; leave the deadline out, or give a time such as 100ms")]
    Deadline {
        /// The volume.
        name: String,
    },
    /// The volume exists with another size.
    #[error(
        "volume {name} has {} on the drive, but {} was asked for; ask for {} bytes, leave the size out, or choose another name (volumes cannot be resized yet)",
        exactly(*remembered), exactly(*wanted), remembered.get()
    )]
    OtherSize {
        /// The volume.
        name: String,
        /// Its size on the drive.
        remembered: ByteSize,
        /// The size asked for.
        wanted: ByteSize,
    },
    /// A new volume without a size.
    #[error("volume {name} is not on the drive yet, so it needs a size, such as {name}=10GiB; the drive has {known}")]
    NoSize {
        /// The volume.
        name: String,
        /// The names on the drive, or that there are none.
        known: String,
    },
    /// The size is zero or no whole number of sectors.
    #[error("volume {name}: {} is no whole number of sectors of {sector} bytes; ask for {} bytes", exactly(*wanted), next_multiple(*wanted, *sector))]
    Size {
        /// The volume.
        name: String,
        /// The size asked for.
        wanted: ByteSize,
        /// The drive's sector in bytes.
        sector: u32,
    },
    /// It does not fit.
    #[error(
        "volume {name}: {} does not fit: {} is free, the largest run {}; ask for at most {} bytes",
        exactly(*wanted), free.total, free.largest, free.largest.get()
    )]
    NoSpace {
        /// The volume.
        name: String,
        /// The size asked for.
        wanted: ByteSize,
        /// What is free.
        free: FreeSpace,
    },
    /// The table is full.
    #[error("volume {name}: the drive's table already has {} volumes, its limit; use fewer, larger ones", slot::MAX_VOLUMES)]
    TooMany {
        /// The volume.
        name: String,
    },
    /// No volume of that name.
    #[error("there is no volume {name} on the drive; it has {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names on the drive, or that there are none.
        known: String,
    },
}

/// Why a table that was read cannot be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A volume with a name or description that could not have been written.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Two volumes of one name or number.
    #[error("two volumes are called {name} or have the number {id}")]
    Twice {
        /// The name.
        name: String,
        /// The number.
        id: u32,
    },
    /// A number that was never given out.
    #[error("volume {name} has number {id}, but the next number to be given out is {next}")]
    Number {
        /// The volume.
        name: String,
        /// Its number.
        id: u32,
        /// The next number.
        next: u32,
    },
    /// An extent that is empty, not aligned, in the metadata area or past the end of the drive.
    #[error("volume {name} lies at {extent}, which is not aligned, or not between the metadata area and the end of the drive at LBA {capacity}")]
    Extent {
        /// The volume.
        name: String,
        /// Its extent.
        extent: Extent,
        /// The drive's size in sectors.
        capacity: u64,
    },
    /// Two volumes share sectors.
    #[error("volumes {first} and {second} overlap")]
    Overlap {
        /// The one with the lower address.
        first: String,
        /// The other.
        second: String,
    },
}

impl VolumeTable {
    /// A table without volumes.
    #[must_use]
    pub fn empty(uuid: DriveUuid, shape: DriveShape) -> Self {
        Self { uuid, shape, next_id: 1, volumes: Vec::new() }
    }

    /// A table from its parts, checked.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn from_parts(uuid: DriveUuid, shape: DriveShape, next_id: u32, mut volumes: Vec<Volume>) -> Result<Self, TableError> {
        volumes.sort_by_key(|volume| volume.extent.start);
        let table = Self { uuid, shape, next_id, volumes };
        table.check()?;
        Ok(table)
    }

    /// The drive's own name.
    #[must_use]
    pub fn uuid(&self) -> DriveUuid {
        self.uuid
    }

    /// The drive's sectors as the table knows them.
    #[must_use]
    pub fn shape(&self) -> DriveShape {
        self.shape
    }

    /// The number the next new volume gets.
    #[must_use]
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// The volumes, by address.
    #[must_use]
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// The volume called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// A volume's size.
    #[must_use]
    pub fn size_of(&self, volume: &Volume) -> ByteSize {
        ByteSize::new(self.shape.sector.bytes_of(volume.extent.len))
    }

    /// Makes the volume exist as wanted: reuses the one of that name, or allocates a new one.
    ///
    /// # Errors
    /// See [`VolumeError`]; nothing is changed then.
    pub fn ensure(&mut self, wanted: &Wanted) -> Result<Ensured, VolumeError> {
        check_volume(&wanted.name, &wanted.settings)?;
        let sector = self.shape.sector;
        if let Some(volume) = self.volumes.iter_mut().find(|volume| volume.name == wanted.name) {
            let remembered = ByteSize::new(sector.bytes_of(volume.extent.len));
            if let Some(size) = wanted.size.filter(|size| *size != remembered) {
                return Err(VolumeError::OtherSize { name: wanted.name.clone(), remembered, wanted: size });
            }
            if volume.settings == wanted.settings {
                return Ok(Ensured::Reused);
            }
            volume.settings = wanted.settings.clone();
            return Ok(Ensured::Changed);
        }
        let name = wanted.name.clone();
        let Some(size) = wanted.size else { return Err(VolumeError::NoSize { known: self.known(), name }) };
        let len = sector.sectors_of(size.get()).filter(|len| !len.is_zero());
        let Some(len) = len else { return Err(VolumeError::Size { name, wanted: size, sector: sector.bytes() }) };
        if self.volumes.len() >= slot::MAX_VOLUMES || self.next_id == u32::MAX {
            return Err(VolumeError::TooMany { name });
        }
        let gap = self.gaps().enumerate().find(|(_, gap)| gap.len >= len);
        let Some((index, gap)) = gap else { return Err(VolumeError::NoSpace { name, wanted: size, free: self.free() }) };
        let id = VolumeId(self.next_id);
        self.next_id += 1;
        self.volumes.insert(index, Volume { id, name, extent: Extent::new(gap.start, len), settings: wanted.settings.clone() });
        Ok(Ensured::Created)
    }

    /// Takes a volume out of the table; its sectors are free from then on, its number is never given out again.
    ///
    /// # Errors
    /// [`VolumeError::Unknown`].
    pub fn remove(&mut self, name: &str) -> Result<Volume, VolumeError> {
        let index = self.volumes.iter().position(|volume| volume.name == name);
        index.map(|index| self.volumes.remove(index)).ok_or_else(|| VolumeError::Unknown { name: name.to_string(), known: self.known() })
    }

    /// What is not allocated.
    #[must_use]
    pub fn free(&self) -> FreeSpace {
        let bytes = |gap: Extent| self.shape.sector.bytes_of(gap.len);
        FreeSpace { total: ByteSize::new(self.gaps().map(bytes).sum()), largest: ByteSize::new(self.gaps().map(bytes).max().unwrap_or_default()) }
    }

    /// The same table on a drive that has grown.
    #[must_use]
    pub fn with_capacity(mut self, capacity: Sectors) -> Self {
        self.shape.capacity = self.shape.capacity.max(capacity);
        self
    }

    /// Whether every invariant in the module's header holds.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), TableError> {
        let sector = self.shape.sector;
        for (index, volume) in self.volumes.iter().enumerate() {
            check_volume(&volume.name, &volume.settings)?;
            let name = || volume.name.clone();
            let id = volume.id.0;
            if self.volumes[..index].iter().any(|other| other.name == volume.name || other.id == volume.id) {
                return Err(TableError::Twice { name: name(), id });
            }
            if id == 0 || id >= self.next_id {
                return Err(TableError::Number { name: name(), id, next: self.next_id });
            }
            let capacity = self.shape.capacity.get();
            let on_drive = volume.extent.checked_end().is_some_and(|end| end.get() <= capacity) && !volume.extent.len.is_zero();
            let start = volume.extent.start.get() % alignment(sector) == 0 && volume.extent.start.get() >= area(sector);
            if !on_drive || !start {
                return Err(TableError::Extent { name: name(), extent: volume.extent, capacity });
            }
            if let Some(before) = index.checked_sub(1).map(|before| &self.volumes[before]) {
                if before.extent.end() > volume.extent.start {
                    return Err(TableError::Overlap { first: before.name.clone(), second: name() });
                }
            }
        }
        Ok(())
    }

    /// The free run before each volume and the one behind the last, in order; each starts aligned and may be empty.
    fn gaps(&self) -> impl Iterator<Item = Extent> + '_ {
        let sector = self.shape.sector;
        let ends = std::iter::once(area(sector)).chain(self.volumes.iter().map(|volume| volume.extent.end().get()));
        let starts = self.volumes.iter().map(|volume| volume.extent.start.get()).chain(std::iter::once(self.shape.capacity.get()));
        ends.zip(starts).map(move |(end, next)| {
            let start = end.next_multiple_of(alignment(sector));
            Extent::new(Lba::new(start), Sectors::new(next.saturating_sub(start)))
        })
    }

    fn known(&self) -> String {
        if self.volumes.is_empty() {
            return "no volumes".to_string();
        }
        let names: Vec<&str> = self.volumes.iter().map(|volume| volume.name.as_str()).collect();
        format!("the volumes {}", names.join(", "))
    }
}

impl fmt::Display for DriveUuid {
    /// The usual 8-4-4-4-12 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Whether a volume may be called `name`.
///
/// # Errors
/// [`VolumeError::Name`].
pub fn check_name(name: &str) -> Result<(), VolumeError> {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    let ok = (1..=slot::NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed) && !name.starts_with(['.', '-']);
    if ok { Ok(()) } else { Err(VolumeError::Name { name: name.to_string() }) }
}

/// Whether volume `name` may have this description.
///
/// # Errors
/// [`VolumeError::Description`].
pub fn check_description(name: &str, description: &str) -> Result<(), VolumeError> {
    let ok = description.len() <= slot::DESCRIPTION_BYTES && !description.chars().any(char::is_control);
    if ok { Ok(()) } else { Err(VolumeError::Description { name: name.to_string(), bytes: description.len() }) }
}

fn check_volume(name: &str, settings: &Settings) -> Result<(), VolumeError> {
    check_name(name)?;
    check_description(name, &settings.description)?;
    let no_time = settings.deadline.is_some_and(Nanos::is_zero);
    if no_time { Err(VolumeError::Deadline { name: name.to_string() }) } else { Ok(()) }
}

/// Alignment of volumes in sectors.
fn alignment(sector: SectorSize) -> u64 {
    ALIGNMENT_BYTES / u64::from(sector.bytes())
}

/// The metadata area in sectors.
fn area(sector: SectorSize) -> u64 {
    AREA_BYTES / u64::from(sector.bytes())
}

/// A size for messages in which two sizes must not look alike.
fn exactly(size: ByteSize) -> String {
    format!("{size} ({} bytes)", size.get())
}

fn next_multiple(size: ByteSize, sector: u32) -> u64 {
    size.get().max(1).checked_next_multiple_of(u64::from(sector)).unwrap_or(size.get() / u64::from(sector) * u64::from(sector))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn table(mebibytes: u64) -> VolumeTable {
        VolumeTable::empty(DriveUuid([7; 16]), DriveShape { sector: SectorSize::B512, capacity: Sectors::new(mebibytes * 2048) })
    }

    fn wanted(name: &str, bytes: u64) -> Wanted {
        Wanted { name: name.to_string(), size: Some(ByteSize::new(bytes)), settings: Settings::default() }
    }

    #[test]
    fn the_first_hole_that_is_large_enough_is_taken() {
        let mut table = table(100);
        for (name, size) in [("a", 10), ("b", 5), ("c", 20)] {
            assert_eq!(table.ensure(&wanted(name, size * MIB)), Ok(Ensured::Created));
        }
        table.remove("b").unwrap();
        assert_eq!(table.ensure(&wanted("large", 6 * MIB)), Ok(Ensured::Created));
        assert_eq!(table.ensure(&wanted("small", 4 * MIB)), Ok(Ensured::Created));
        let starts: Vec<(&str, u64)> = table.volumes().iter().map(|volume| (volume.name.as_str(), volume.extent.start.get() / 2048)).collect();
        assert_eq!(starts, [("a", 1), ("small", 11), ("c", 16), ("large", 36)]);
        assert_eq!(table.find("small").unwrap().id, VolumeId(5), "the number of b is not given out again");
        table.check().unwrap();
    }

    #[test]
    fn a_volume_that_exists_is_reused_changed_or_refused_with_both_sizes() {
        let mut table = table(100);
        table.ensure(&wanted("rec", 10 * MIB)).unwrap();
        assert_eq!(table.ensure(&wanted("rec", 10 * MIB)), Ok(Ensured::Reused));
        let mut changed = Wanted { size: None, ..wanted("rec", 0) };
        changed.settings.deadline = Some(Nanos::from_ms(100));
        assert_eq!(table.ensure(&changed), Ok(Ensured::Changed));
        assert_eq!(table.find("rec").unwrap().settings.deadline, Some(Nanos::from_ms(100)));
        let before = table.clone();
        assert_eq!(
            table.ensure(&wanted("rec", 20 * MIB)).unwrap_err().to_string(),
            "volume rec has 10 MiB (10485760 bytes) on the drive, but 20 MiB (20971520 bytes) was asked for; ask for 10485760 bytes, \
             leave the size out, or choose another name (volumes cannot be resized yet)"
        );
        assert_eq!(table, before);
    }

    #[test]
    fn refusals_say_what_is_possible() {
        let mut table = table(100);
        table.ensure(&wanted("a", 50 * MIB)).unwrap();
        table.ensure(&wanted("b", 9 * MIB)).unwrap();
        table.remove("a").unwrap();
        let text = |table: &mut VolumeTable, wanted: Wanted| table.ensure(&wanted).unwrap_err().to_string();
        assert_eq!(
            text(&mut table, wanted("c", 60 * MIB)),
            "volume c: 60 MiB (62914560 bytes) does not fit: 90 MiB is free, the largest run 50 MiB; ask for at most 52428800 bytes"
        );
        assert_eq!(
            text(&mut table, wanted("c", 1000)),
            "volume c: 1000 B (1000 bytes) is no whole number of sectors of 512 bytes; ask for 1024 bytes"
        );
        assert_eq!(
            text(&mut table, Wanted { size: None, ..wanted("c", 0) }),
            "volume c is not on the drive yet, so it needs a size, such as c=10GiB; the drive has the volumes b"
        );
        for name in ["", "a b", "ä", "../x", "-x", ".x", &"x".repeat(65)] {
            assert_eq!(table.ensure(&wanted(name, MIB)), Err(VolumeError::Name { name: name.to_string() }), "{name}");
        }
        assert!(matches!(table.ensure(&wanted("c", 0)), Err(VolumeError::Size { .. })));
    }

    #[test]
    fn a_full_drive_and_a_full_table_are_refused() {
        let mut small = table(2);
        small.ensure(&wanted("a", MIB)).unwrap();
        assert_eq!(small.free(), FreeSpace::default());
        assert!(matches!(small.ensure(&wanted("b", 512)), Err(VolumeError::NoSpace { .. })));
        let mut many = table(4096);
        for index in 0..slot::MAX_VOLUMES {
            many.ensure(&wanted(&format!("v{index}"), 512)).unwrap();
        }
        assert_eq!(many.ensure(&wanted("more", 512)), Err(VolumeError::TooMany { name: "more".to_string() }));
        many.check().unwrap();
    }

    #[test]
    fn a_table_that_breaks_an_invariant_is_found_out() {
        let volume = |id: u32, name: &str, start: u64, len: u64| Volume {
            id: VolumeId(id),
            name: name.to_string(),
            extent: Extent::from_numbers(start, len),
            settings: Settings::default(),
        };
        let shape = DriveShape { sector: SectorSize::B512, capacity: Sectors::new(20_480) };
        let check = |volumes: Vec<Volume>| VolumeTable::from_parts(DriveUuid([0; 16]), shape, 10, volumes).map(|_| ());
        assert_eq!(check(vec![volume(1, "a", 2048, 2048), volume(2, "b", 4096, 5)]), Ok(()));
        assert!(matches!(check(vec![volume(1, "a", 2048, 2049), volume(2, "b", 4096, 5)]), Err(TableError::Overlap { .. })));
        assert!(matches!(check(vec![volume(1, "a", 2048, 1), volume(1, "b", 4096, 5)]), Err(TableError::Twice { .. })));
        assert!(matches!(check(vec![volume(1, "a", 2048, 1), volume(2, "a", 4096, 5)]), Err(TableError::Twice { .. })));
        assert!(matches!(check(vec![volume(10, "a", 2048, 1)]), Err(TableError::Number { .. })));
        assert!(matches!(check(vec![volume(0, "a", 2048, 1)]), Err(TableError::Number { .. })));
        for (start, len) in [(0, 1), (2049, 1), (2048, 0), (2048, 20_000), (2048, u64::MAX)] {
            assert!(matches!(check(vec![volume(1, "a", start, len)]), Err(TableError::Extent { .. })), "{start} {len}");
        }
    }

    #[test]
    fn uuids_print_in_groups() {
        assert_eq!(DriveUuid(std::array::from_fn(|index| index as u8)).to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
