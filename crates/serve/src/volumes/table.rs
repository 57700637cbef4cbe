//! The table of volumes: names, extents, settings; allocation by first fit.
//!
//! Invariants, checked by [`VolumeTable::check`] for everything read from a drive: names are unique
//! and valid, ids are unique and below `next_id`, extents start on [`ALIGNMENT_BYTES`], lie after
//! the metadata area and on the drive, and do not overlap. Volumes are sorted by address.
//!
//! The volumes of [`VolumeOrigin::Existing`] are the drive's partitions: they lie anywhere on the
//! drive, and only their settings change.

use headtime_sched::VolumeId;
use headtime_units::{ByteSize, Extent, Lba, Nanos, SectorSize, Sectors, Share};

use super::errors::{TableError, VolumeError};
use super::settings::{ClassSettings, SettingsChange, VolumeClass, VolumeSettings};
use super::uuid::DriveUuid;
use super::{ALIGNMENT_BYTES, AREA_BYTES, slot};

/// The size of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveShape {
    /// Its logical sector size.
    pub sector: SectorSize,
    /// The number of its sectors.
    pub capacity: Sectors,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its number, never reused on this drive. Numbers start at 1; 0 is a whole drive without
    /// volumes.
    pub id: VolumeId,
    /// Its name: 1 to 64 of `A–Z a–z 0–9 . _ -`.
    pub name: String,
    /// Its sectors, as addresses of the drive.
    pub extent: Extent,
    /// Its settings.
    pub settings: VolumeSettings,
}

/// A requested volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its name.
    pub name: String,
    /// Its size; `None` accepts the size on the drive.
    pub size: Option<ByteSize>,
    /// The change from the settings on the drive, or from the defaults for a new volume.
    pub settings: SettingsChange,
}

/// The effect of [`VolumeTable::ensure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// The volume exists as specified.
    Reused,
    /// The volume exists, and its settings were changed.
    Changed,
    /// The volume is new.
    Created,
}

/// The unallocated space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// The sum.
    pub total: ByteSize,
    /// The size of the largest new volume.
    pub largest: ByteSize,
}

/// The origin of a drive's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeOrigin {
    /// Volumes of Headtime, which it allocates.
    Own,
    /// The whole drive and its partitions, which another program made.
    Existing,
}

/// All volumes of one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeTable {
    origin: VolumeOrigin,
    uuid: DriveUuid,
    shape: DriveShape,
    next_id: u32,
    volumes: Vec<Volume>,
    /// The share of the drive's time that may be reserved; a setting of the server and not of the
    /// drive.
    reservable: Share,
}

impl VolumeTable {
    /// A table without volumes.
    #[must_use]
    pub fn empty(uuid: DriveUuid, shape: DriveShape) -> Self {
        Self {
            origin: VolumeOrigin::Own,
            uuid,
            shape,
            next_id: 1,
            volumes: Vec::new(),
            reservable: Share::WHOLE,
        }
    }

    /// A table from its parts.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn from_parts(
        origin: VolumeOrigin,
        uuid: DriveUuid,
        shape: DriveShape,
        next_id: u32,
        mut volumes: Vec<Volume>,
    ) -> Result<Self, TableError> {
        volumes.sort_by_key(|volume| volume.extent.start);
        let table = Self { origin, uuid, shape, next_id, volumes, reservable: Share::WHOLE };
        table.check()?;
        Ok(table)
    }

    /// The UUID of the drive.
    #[must_use]
    pub fn uuid(&self) -> DriveUuid {
        self.uuid
    }

    /// The size of the drive according to the table.
    #[must_use]
    pub fn shape(&self) -> DriveShape {
        self.shape
    }

    /// The number of the next new volume.
    #[must_use]
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// The volumes, by address.
    #[must_use]
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// Finds a volume by name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// The size of a volume.
    #[must_use]
    pub fn size_of(&self, volume: &Volume) -> ByteSize {
        ByteSize::new(self.shape.sector.bytes_of(volume.extent.len))
    }

    /// Makes a volume exist as specified: reuses the one with this name, or allocates a new one.
    ///
    /// # Errors
    /// See [`VolumeError`]; nothing is changed then.
    pub fn ensure(&mut self, spec: &VolumeSpec) -> Result<Ensured, VolumeError> {
        check_name(&spec.name)?;
        let sector = self.shape.sector;
        if let Some(volume) = self.volumes.iter().find(|volume| volume.name == spec.name) {
            let settings = spec.settings.apply_to(&volume.settings);
            check_volume(&spec.name, &settings)?;
            self.check_entries(&spec.name, &volume.settings, &settings)?;
            let remembered = ByteSize::new(sector.bytes_of(volume.extent.len));
            if let Some(size) = spec.size.filter(|size| *size != remembered) {
                return Err(VolumeError::OtherSize {
                    name: spec.name.clone(),
                    remembered,
                    requested: size,
                });
            }
            if volume.settings == settings {
                return Ok(Ensured::Reused);
            }
            let name = &spec.name;
            self.volumes
                .iter_mut()
                .filter(|volume| volume.name == *name)
                .for_each(|volume| volume.settings = settings.clone());
            return Ok(Ensured::Changed);
        }
        let name = spec.name.clone();
        self.check_own(&name)?;
        let settings = spec.settings.apply_to(&VolumeSettings::default());
        check_volume(&name, &settings)?;
        let Some(size) = spec.size else {
            return Err(VolumeError::NoSize { known: self.known_names(), name });
        };
        let len = sector.sectors_of(size.get()).filter(|len| !len.is_zero());
        let Some(len) = len else {
            return Err(VolumeError::Size { name, requested: size, sector: sector.bytes() });
        };
        if self.entries() + slot::entries_of(&settings) > slot::MAX_ENTRIES
            || self.next_id == u32::MAX
        {
            return Err(VolumeError::TooMany { name });
        }
        let gap = self.gaps().enumerate().find(|(_, gap)| gap.len >= len);
        let Some((index, gap)) = gap else {
            return Err(VolumeError::NoSpace { name, requested: size, free: self.free() });
        };
        let id = VolumeId(self.next_id);
        self.next_id += 1;
        self.volumes
            .insert(index, Volume { id, name, extent: Extent::new(gap.start, len), settings });
        Ok(Ensured::Created)
    }

    /// Adds a new volume.
    ///
    /// # Errors
    /// [`VolumeError::Exists`] and the errors of [`VolumeTable::ensure`]; nothing is changed then.
    pub fn add(&mut self, spec: &VolumeSpec) -> Result<&Volume, VolumeError> {
        check_name(&spec.name)?;
        if self.find(&spec.name).is_some() {
            return Err(VolumeError::Exists { name: spec.name.clone() });
        }
        self.ensure(spec)?;
        Ok(self.find(&spec.name).expect("the volume was just made"))
    }

    /// Changes the settings of a volume, and its size if one is given. It grows into free space
    /// after it, and shrinks only if `cut_data` allows the data at its end to be lost. Its first
    /// sector stays the same.
    ///
    /// # Errors
    /// See [`VolumeError`]; nothing is changed then.
    pub fn change(&mut self, spec: &VolumeSpec, cut_data: bool) -> Result<&Volume, VolumeError> {
        let sector = self.shape.sector;
        let name = spec.name.clone();
        let Some(index) = self.volumes.iter().position(|volume| volume.name == name) else {
            return Err(VolumeError::Unknown { name, known: self.known_names() });
        };
        let before = &self.volumes[index];
        let settings = spec.settings.apply_to(&before.settings);
        check_volume(&name, &settings)?;
        let mut extent = before.extent;
        if let Some(size) = spec.size {
            let len = sector.sectors_of(size.get()).filter(|len| !len.is_zero());
            let len = len.ok_or_else(|| VolumeError::Size {
                name: name.clone(),
                requested: size,
                sector: sector.bytes(),
            })?;
            if len != extent.len {
                self.check_own(&name)?;
            }
            let end = self.volumes.get(index + 1).map_or_else(
                || self.copy_start().max(extent.end().get()),
                |next| next.extent.start.get(),
            );
            let max_sectors = end - extent.start.get();
            let bytes = |sectors: u64| ByteSize::new(sector.bytes_of(Sectors::new(sectors)));
            if len.get() > max_sectors {
                return Err(VolumeError::CannotGrow {
                    name,
                    requested: size,
                    free_after: bytes(max_sectors - extent.len.get()),
                    largest: bytes(max_sectors),
                });
            }
            if len < extent.len && !cut_data {
                return Err(VolumeError::Cuts {
                    name,
                    remembered: bytes(extent.len.get()),
                    requested: size,
                });
            }
            extent.len = len;
        }
        self.check_entries(&name, &self.volumes[index].settings, &settings)?;
        let volume = &mut self.volumes[index];
        (volume.extent, volume.settings) = (extent, settings);
        Ok(volume)
    }

    /// Changes the settings of a class, starting from the current or the default ones; `None`
    /// removes the class.
    ///
    /// # Errors
    /// See [`VolumeError`]; nothing is changed then.
    pub fn change_class(
        &mut self,
        name: &str,
        class: VolumeClass,
        change: Option<&SettingsChange>,
    ) -> Result<&Volume, VolumeError> {
        let Some(index) = self.volumes.iter().position(|volume| volume.name == name) else {
            return Err(VolumeError::Unknown { name: name.to_owned(), known: self.known_names() });
        };
        let before = &self.volumes[index].settings;
        let mut settings = before.clone();
        let export = class.export(name);
        let changed = change.map(|change| {
            let of_volume = [
                ("read_only", change.read_only.is_some()),
                ("description", change.description.is_some()),
                ("classes", change.classes.is_some()),
                ("always_served", change.always_served.is_some()),
            ];
            match of_volume.into_iter().find(|(_, set)| *set) {
                Some((key, _)) => Err(VolumeError::OfVolume {
                    export: export.clone(),
                    key,
                    name: name.to_owned(),
                }),
                None => Ok(change.apply_to_class(
                    before.of_class(class).unwrap_or_else(|| class.default_settings()),
                )),
            }
        });
        settings.set_class(class, changed.transpose()?);
        check_volume(name, &settings)?;
        self.check_entries(name, before, &settings)?;
        let volume = &mut self.volumes[index];
        volume.settings = settings;
        Ok(volume)
    }

    /// Checks that volumes may come, go and be resized.
    fn check_own(&self, name: &str) -> Result<(), VolumeError> {
        match self.origin {
            VolumeOrigin::Own => Ok(()),
            VolumeOrigin::Existing => {
                Err(VolumeError::Existing { name: name.to_owned(), known: self.known_names() })
            }
        }
    }

    /// The number of entries of all volumes and classes in a slot.
    fn entries(&self) -> usize {
        self.volumes.iter().map(|volume| slot::entries_of(&volume.settings)).sum()
    }

    fn check_entries(
        &self,
        name: &str,
        before: &VolumeSettings,
        after: &VolumeSettings,
    ) -> Result<(), VolumeError> {
        let entries = self.entries() - slot::entries_of(before) + slot::entries_of(after);
        if entries > slot::MAX_ENTRIES {
            Err(VolumeError::TooMany { name: name.to_owned() })
        } else {
            Ok(())
        }
    }

    /// The sum of all reservations in billionths of the drive's time. A table from elsewhere may
    /// exceed the whole.
    #[must_use]
    pub fn reserved_billionths(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.settings.reserved_billionths()).sum()
    }

    /// Checks that reservations do not exceed the drive's time, or at least not those of `before`:
    /// lowering a reservation is always allowed. `name` is the volume or class of the change.
    pub fn check_reservations(&self, before: &Self, name: &str) -> Result<(), VolumeError> {
        let (reservable, spec) =
            (u64::from(self.reservable.as_billionths()), self.reserved_billionths());
        if spec <= reservable.max(before.reserved_billionths()) {
            return Ok(());
        }
        let (volume, _) = VolumeClass::of_export(name);
        let its = self.find(volume).map_or(0, |volume| volume.settings.reserved_billionths());
        let share = |billionths: u64| {
            let whole = u64::from(Share::WHOLE.as_billionths());
            Share::from_billionths(billionths.min(whole) as u32).unwrap_or(Share::WHOLE)
        };
        Err(VolumeError::Reserved {
            name: name.to_owned(),
            requested: share(its),
            free: share(its.saturating_sub(spec - reservable)),
        })
    }

    /// The share of the drive's time that is neither reserved nor kept from being reserved.
    #[must_use]
    pub fn reservable_rest(&self) -> Share {
        let reservable = u64::from(self.reservable.as_billionths());
        let rest = reservable.saturating_sub(self.reserved_billionths());
        Share::from_billionths(rest as u32).unwrap_or(Share::NONE)
    }

    /// Sets the share of the drive's time that may be reserved.
    pub(super) fn set_reservable(&mut self, share: Share) {
        self.reservable = share;
    }

    /// Removes a volume; its sectors are free from then on. Its number is never reused.
    pub fn remove(&mut self, name: &str) -> Result<Volume, VolumeError> {
        self.check_own(name)?;
        let index = self.volumes.iter().position(|volume| volume.name == name);
        index.map(|index| self.volumes.remove(index)).ok_or_else(|| VolumeError::Unknown {
            name: name.to_string(),
            known: self.known_names(),
        })
    }

    /// The unallocated space.
    #[must_use]
    pub fn free(&self) -> FreeSpace {
        let bytes = |gap: Extent| self.shape.sector.bytes_of(gap.len);
        FreeSpace {
            total: ByteSize::new(self.gaps().map(bytes).sum()),
            largest: ByteSize::new(self.gaps().map(bytes).max().unwrap_or_default()),
        }
    }

    /// The same table on a drive that has grown.
    #[must_use]
    pub fn with_capacity(mut self, capacity: Sectors) -> Self {
        self.shape.capacity = self.shape.capacity.max(capacity);
        self
    }

    /// Checks every invariant of the module header.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn check(&self) -> Result<(), TableError> {
        let sector = self.shape.sector;
        for (index, volume) in self.volumes.iter().enumerate() {
            check_volume(&volume.name, &volume.settings)?;
            let name = || volume.name.clone();
            let id = volume.id.0;
            if self.volumes[..index]
                .iter()
                .any(|other| other.name == volume.name || other.id == volume.id)
            {
                return Err(TableError::Twice { name: name(), id });
            }
            if id == 0 || id >= self.next_id {
                return Err(TableError::Number { name: name(), id, next: self.next_id });
            }
            let capacity = self.shape.capacity.get();
            let on_drive = volume.extent.checked_end().is_some_and(|end| end.get() <= capacity)
                && !volume.extent.len.is_zero();
            let own = self.origin == VolumeOrigin::Own;
            let start = !own
                || volume.extent.start.get() % alignment(sector) == 0
                    && volume.extent.start.get() >= area(sector);
            if !on_drive || !start {
                return Err(TableError::Extent { name: name(), extent: volume.extent, capacity });
            }
            if let Some(before) = index.checked_sub(1).map(|before| &self.volumes[before])
                && own
                && before.extent.end() > volume.extent.start
            {
                return Err(TableError::Overlap { first: before.name.clone(), second: name() });
            }
        }
        Ok(())
    }

    /// The free extent before each volume and the one after the last, in order; each starts aligned
    /// and may be empty. There is none between existing volumes.
    fn gaps(&self) -> impl Iterator<Item = Extent> + '_ {
        let sector = self.shape.sector;
        let ends = std::iter::once(area(sector))
            .chain(self.volumes.iter().map(|volume| volume.extent.end().get()));
        let starts = self
            .volumes
            .iter()
            .map(|volume| volume.extent.start.get())
            .chain(std::iter::once(self.copy_start()));
        let gaps = if self.origin == VolumeOrigin::Own { usize::MAX } else { 0 };
        ends.zip(starts).take(gaps).map(move |(end, next)| {
            let start = end.next_multiple_of(alignment(sector));
            Extent::new(Lba::new(start), Sectors::new(next.saturating_sub(start)))
        })
    }

    /// The first sector of the copy of the table.
    fn copy_start(&self) -> u64 {
        self.shape.capacity.get().saturating_sub(area(self.shape.sector))
    }

    /// The byte offset of the copy of the table at the end of the drive; `None` where a volume lies
    /// there, which tables allowed before there was a copy.
    #[must_use]
    pub fn copy_offset(&self) -> Option<u64> {
        let start = self.copy_start();
        let last = self.volumes.last().map_or(0, |volume| volume.extent.end().get());
        (last <= start).then(|| self.shape.sector.bytes_of(Sectors::new(start)))
    }

    fn known_names(&self) -> String {
        if self.volumes.is_empty() {
            return "no volumes".to_string();
        }
        let names: Vec<&str> = self.volumes.iter().map(|volume| volume.name.as_str()).collect();
        format!("the volumes {}", names.join(", "))
    }
}

/// Checks the name of a volume.
pub fn check_name(name: &str) -> Result<(), VolumeError> {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    let ok = (1..=slot::NAME_BYTES).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with(['.', '-']);
    if ok { Ok(()) } else { Err(VolumeError::Name { name: name.to_string() }) }
}

/// Checks the description of volume `name`.
pub fn check_description(name: &str, description: &str) -> Result<(), VolumeError> {
    let ok =
        description.len() <= slot::DESCRIPTION_BYTES && !description.chars().any(char::is_control);
    if ok {
        Ok(())
    } else {
        Err(VolumeError::Description { name: name.to_string(), bytes: description.len() })
    }
}

fn check_volume(name: &str, settings: &VolumeSettings) -> Result<(), VolumeError> {
    check_name(name)?;
    check_description(name, &settings.description)?;
    for (class, settings) in settings.classes() {
        check_class(&class.export(name), &settings)?;
    }
    Ok(())
}

/// Checks the settings of the class with this export.
fn check_class(name: &str, settings: &ClassSettings) -> Result<(), VolumeError> {
    if settings.deadline.is_some_and(Nanos::is_zero) {
        return Err(VolumeError::Deadline { name: name.to_string() });
    }
    let nothing = [
        ("a limit", settings.limit == Some(Share::NONE)),
        ("a burst", settings.burst.is_some_and(Nanos::is_zero)),
        ("an iops_limit", settings.iops_limit == Some(0)),
        ("a bandwidth_limit", settings.bandwidth_limit == Some(0)),
    ];
    if let Some((what, _)) = nothing.into_iter().find(|(_, nothing)| *nothing) {
        return Err(VolumeError::Nothing { name: name.to_string(), what });
    }
    match settings.limit {
        Some(limit) if limit < settings.reserve => Err(VolumeError::ReserveAboveLimit {
            name: name.to_string(),
            reserve: settings.reserve,
            limit,
        }),
        _ => Ok(()),
    }
}

/// The alignment of volumes in sectors.
fn alignment(sector: SectorSize) -> u64 {
    ALIGNMENT_BYTES / u64::from(sector.bytes())
}

/// The length of the metadata area in sectors.
fn area(sector: SectorSize) -> u64 {
    AREA_BYTES / u64::from(sector.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn table(mebibytes: u64) -> VolumeTable {
        VolumeTable::empty(
            DriveUuid([7; 16]),
            DriveShape { sector: SectorSize::B512, capacity: Sectors::new(mebibytes * 2048) },
        )
    }

    fn spec(name: &str, bytes: u64) -> VolumeSpec {
        VolumeSpec {
            name: name.to_string(),
            size: Some(ByteSize::new(bytes)),
            settings: SettingsChange::default(),
        }
    }

    #[test]
    fn the_first_hole_that_is_large_enough_is_taken() {
        let mut table = table(100);
        for (name, size) in [("a", 10), ("b", 5), ("c", 20)] {
            assert_eq!(table.ensure(&spec(name, size * MIB)), Ok(Ensured::Created));
        }
        table.remove("b").unwrap();
        assert_eq!(table.ensure(&spec("large", 6 * MIB)), Ok(Ensured::Created));
        assert_eq!(table.ensure(&spec("small", 4 * MIB)), Ok(Ensured::Created));
        let starts: Vec<(&str, u64)> = table
            .volumes()
            .iter()
            .map(|volume| (volume.name.as_str(), volume.extent.start.get() / 2048))
            .collect();
        assert_eq!(starts, [("a", 1), ("small", 11), ("c", 16), ("large", 36)]);
        assert_eq!(table.find("small").unwrap().id, VolumeId(5), "the number of b is not reused");
        table.check().unwrap();
    }

    #[test]
    fn a_volume_that_exists_is_reused_changed_or_refused_with_both_sizes() {
        let mut table = table(100);
        table.ensure(&spec("rec", 10 * MIB)).unwrap();
        assert_eq!(table.ensure(&spec("rec", 10 * MIB)), Ok(Ensured::Reused));
        let mut changed = VolumeSpec { size: None, ..spec("rec", 0) };
        changed.settings.deadline = Some(Some(Nanos::from_ms(100)));
        assert_eq!(table.ensure(&changed), Ok(Ensured::Changed));
        assert_eq!(
            table.find("rec").unwrap().settings.ordinary.deadline,
            Some(Nanos::from_ms(100))
        );
        let before = table.clone();
        assert_eq!(
            table.ensure(&spec("rec", 20 * MIB)).unwrap_err().to_string(),
            "volume rec has 10 MiB (10485760 bytes) on the drive, but 20 MiB (20971520 bytes) was \
                requested; request 10485760 bytes, leave the size out, or choose another name \
             (`headtime volume set rec size=…` resizes \
             it)"
        );
        assert_eq!(table, before);
    }

    #[test]
    fn refusals_say_what_is_possible() {
        let mut table = table(100);
        table.ensure(&spec("a", 50 * MIB)).unwrap();
        table.ensure(&spec("b", 9 * MIB)).unwrap();
        table.remove("a").unwrap();
        let text = |table: &mut VolumeTable, spec: VolumeSpec| {
            table.ensure(&spec).unwrap_err().to_string()
        };
        assert_eq!(
            text(&mut table, spec("c", 60 * MIB)),
            "volume c: 60 MiB (62914560 bytes) does not fit: 89 MiB is free, the largest run 50 \
                MiB; request at most 52428800 bytes"
        );
        assert_eq!(
            text(&mut table, spec("c", 1000)),
            "volume c: 1000 B (1000 bytes) is not a whole number of sectors of 512 bytes; request \
                1024 bytes"
        );
        assert_eq!(
            text(&mut table, VolumeSpec { size: None, ..spec("c", 0) }),
            "volume c does not exist; give a size to create it, such as c=10GiB; the drive has the \
                volumes b"
        );
        for name in ["", "a b", "ä", "../x", "-x", ".x", &"x".repeat(65)] {
            assert_eq!(
                table.ensure(&spec(name, MIB)),
                Err(VolumeError::Name { name: name.to_string() }),
                "{name}"
            );
        }
        assert!(matches!(table.ensure(&spec("c", 0)), Err(VolumeError::Size { .. })));
    }

    #[test]
    fn a_full_drive_and_a_full_table_are_refused() {
        let mut small = table(3);
        small.ensure(&spec("a", MIB)).unwrap();
        assert_eq!(small.free(), FreeSpace::default());
        assert!(matches!(small.ensure(&spec("b", 512)), Err(VolumeError::NoSpace { .. })));
        let mut many = table(4096);
        for index in 0..slot::MAX_ENTRIES {
            many.ensure(&spec(&format!("v{index}"), 512)).unwrap();
        }
        assert_eq!(
            many.ensure(&spec("more", 512)),
            Err(VolumeError::TooMany { name: "more".to_string() })
        );
        many.check().unwrap();
    }

    #[test]
    fn a_table_that_breaks_an_invariant_is_found_out() {
        let volume = |id: u32, name: &str, start: u64, len: u64| Volume {
            id: VolumeId(id),
            name: name.to_string(),
            extent: Extent::from_numbers(start, len),
            settings: VolumeSettings::default(),
        };
        let shape = DriveShape { sector: SectorSize::B512, capacity: Sectors::new(20_480) };
        let check = |volumes: Vec<Volume>| {
            VolumeTable::from_parts(VolumeOrigin::Own, DriveUuid([0; 16]), shape, 10, volumes)
                .map(|_| ())
        };
        assert_eq!(check(vec![volume(1, "a", 2048, 2048), volume(2, "b", 4096, 5)]), Ok(()));
        assert!(matches!(
            check(vec![volume(1, "a", 2048, 2049), volume(2, "b", 4096, 5)]),
            Err(TableError::Overlap { .. })
        ));
        assert!(matches!(
            check(vec![volume(1, "a", 2048, 1), volume(1, "b", 4096, 5)]),
            Err(TableError::Twice { .. })
        ));
        assert!(matches!(
            check(vec![volume(1, "a", 2048, 1), volume(2, "a", 4096, 5)]),
            Err(TableError::Twice { .. })
        ));
        assert!(matches!(check(vec![volume(10, "a", 2048, 1)]), Err(TableError::Number { .. })));
        assert!(matches!(check(vec![volume(0, "a", 2048, 1)]), Err(TableError::Number { .. })));
        for (start, len) in [(0, 1), (2049, 1), (2048, 0), (2048, 20_000), (2048, u64::MAX)] {
            assert!(
                matches!(check(vec![volume(1, "a", start, len)]), Err(TableError::Extent { .. })),
                "{start} {len}"
            );
        }
    }

    #[test]
    fn a_volume_grows_into_free_space_and_shrinks_only_with_permission() {
        let mut table = table(100);
        for (name, size) in [("a", 10), ("b", 5), ("c", 20)] {
            table.add(&spec(name, size * MIB)).unwrap();
        }
        table.remove("b").unwrap();
        let size =
            |table: &VolumeTable, name: &str| table.size_of(table.find(name).unwrap()).get() / MIB;
        table.change(&spec("a", 15 * MIB), false).unwrap();
        assert_eq!(size(&table, "a"), 15);
        let before = table.clone();
        assert_eq!(
            table.change(&spec("a", 16 * MIB), true).unwrap_err().to_string(),
            "volume a cannot grow to 16 MiB (16777216 bytes) at its address: 0 B is free after it, \
                so it can have at most 15728640 bytes; request that, or add a larger volume and \
             copy its content"
        );
        assert!(matches!(table.change(&spec("a", 14 * MIB), false), Err(VolumeError::Cuts { .. })));
        assert!(matches!(table.change(&spec("a", 1000), true), Err(VolumeError::Size { .. })));
        assert!(matches!(table.change(&spec("x", MIB), true), Err(VolumeError::Unknown { .. })));
        assert!(matches!(table.add(&spec("a", MIB)), Err(VolumeError::Exists { .. })));
        assert_eq!(table, before, "invalid changes change nothing");
        table.change(&spec("a", 3 * MIB), true).unwrap();
        table.change(&spec("c", 83 * MIB), false).unwrap();
        assert!(table.change(&spec("c", 84 * MIB), false).is_err(), "the copy lies there");
        assert_eq!(
            (size(&table, "a"), size(&table, "c"), table.free().largest.get() / MIB),
            (3, 83, 12)
        );
        table.check().unwrap();
    }

    #[test]
    fn settings_that_cannot_be_kept_together_are_refused_with_both() {
        let mut table = table(100);
        let share = |fraction: f64| Share::from_fraction(fraction).unwrap();
        let mut requested = spec("a", MIB);
        requested.settings.reserve = Some(share(0.5));
        requested.settings.limit = Some(Some(share(0.25)));
        assert_eq!(
            table.add(&requested).unwrap_err().to_string(),
            "volume a: a reserve of 50 % is more than its limit of 25 %; lower the reserve, or \
                raise the limit"
        );
        requested.settings.limit = Some(Some(Share::NONE));
        requested.settings.reserve = None;
        assert!(
            table
                .add(&requested)
                .unwrap_err()
                .to_string()
                .contains("a limit of 0 allows no request")
        );
        requested.settings.limit = None;
        requested.settings.reserve = Some(share(0.5));
        table.add(&requested).unwrap();
        assert_eq!(table.reserved_billionths(), 500_000_000);
        let lower = VolumeSpec {
            size: None,
            settings: SettingsChange { limit: Some(Some(share(0.4))), ..SettingsChange::default() },
            ..spec("a", 0)
        };
        assert!(matches!(table.change(&lower, false), Err(VolumeError::ReserveAboveLimit { .. })));
    }
}
