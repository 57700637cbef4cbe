//! The table of volumes: names, extents, settings; allocation of free space.
//!
//! Invariants, checked by [`VolumeTable::check`] for everything read from a drive: names are unique
//! and valid, ids are unique and below `next_id`, extents start on [`ALIGNMENT_BYTES`], lie after
//! the metadata area and on the drive, and do not overlap. A volume has at most [`MAX_EXTENTS`];
//! all but its last have whole multiples of [`ALIGNMENT_BYTES`], so that no block of a client
//! crosses from one into the next. Volumes are sorted by the address of their first sector.
//!
//! A volume gets one extent where one is free that is long enough: a new volume the first on the
//! drive, a growing one first what is free after its end, then the closest. Otherwise it gets the
//! longest free extents, in order of address.
//!
//! The volumes of [`VolumeOrigin::Existing`] are the drive's partitions: they lie anywhere on the
//! drive, and only their settings change.

use headtime_sched::VolumeId;
use headtime_units::{ByteSize, Extent, Lba, Nanos, SectorSize, Sectors, Share};

use super::errors::{TableError, VolumeError};
use super::extents::{Extents, MAX_EXTENTS};
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
    pub extents: Extents,
    /// Its settings.
    pub settings: VolumeSettings,
}

/// A requested volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its name.
    pub name: String,
    /// Its size, which is rounded up to whole sectors; `None` accepts the size on the drive.
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
    /// The longest extent.
    pub longest: ByteSize,
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
        volumes.sort_by_key(|volume| volume.extents.start());
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

    /// The volumes, by the address of their first sector.
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
        ByteSize::new(self.shape.sector.bytes_of(volume.extents.sectors()))
    }

    /// The number of sectors of a volume with this size.
    pub(super) fn sectors_for(&self, size: ByteSize) -> Sectors {
        Sectors::new(size.get().div_ceil(u64::from(self.shape.sector.bytes())))
    }

    /// The note about a size that was rounded up.
    pub(crate) fn rounding_note(&self, spec: &VolumeSpec) -> Option<String> {
        let (name, size) = (&spec.name, self.size_of(self.find(&spec.name)?));
        let (bytes, sector) = (size.get(), self.shape.sector.bytes());
        spec.size.filter(|requested| *requested != size).map(|_| {
            format!(
                "{name} has {bytes} bytes: its size was rounded up to sectors of {sector} bytes"
            )
        })
    }

    /// Makes a volume exist as specified: reuses the one with this name, or allocates a new one.
    ///
    /// # Errors
    /// See [`VolumeError`]; nothing is changed then.
    pub fn ensure(&mut self, spec: &VolumeSpec) -> Result<Ensured, VolumeError> {
        check_name(&spec.name)?;
        if let Some(volume) = self.volumes.iter().find(|volume| volume.name == spec.name) {
            let settings = spec.settings.apply_to(&volume.settings);
            check_volume(&spec.name, &settings)?;
            self.check_entries(volume, &settings, &volume.extents)?;
            let other = |size: &ByteSize| self.sectors_for(*size) != volume.extents.sectors();
            if let Some(requested) = spec.size.filter(other) {
                return Err(VolumeError::OtherSize {
                    name: spec.name.clone(),
                    remembered: self.size_of(volume),
                    requested,
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
        let len = self.sectors_for(size);
        if len.is_zero() {
            return Err(VolumeError::Empty { name });
        }
        let extents = allocate(self.gaps(), Lba::default(), len, MAX_EXTENTS);
        let Some(extents) = extents.map(Extents::new) else {
            return Err(VolumeError::NoSpace { name, requested: size, free: self.free() });
        };
        if self.entries() + slot::entries_of(&settings, &extents) > slot::MAX_ENTRIES
            || self.next_id == u32::MAX
        {
            return Err(VolumeError::TooMany { name });
        }
        let id = VolumeId(self.next_id);
        self.next_id += 1;
        let start = extents.start();
        let index = self.volumes.partition_point(|volume| volume.extents.start() < start);
        self.volumes.insert(index, Volume { id, name, extents, settings });
        Ok(Ensured::Created)
    }

    /// Makes all these volumes exist as specified.
    ///
    /// # Errors
    /// See [`VolumeError`]; some of the volumes may have been changed then.
    pub fn ensure_all(&mut self, specs: &[VolumeSpec]) -> Result<Vec<Ensured>, VolumeError> {
        let before = self.clone();
        let done = specs.iter().map(|spec| self.ensure(spec)).collect::<Result<_, _>>()?;
        // Only the sum after all changes counts. The error names the last volume whose reservation
        // grew.
        let reserved = |table: &Self, name: &str| {
            table.find(name).map_or(0, |volume| volume.settings.reserved_billionths())
        };
        let grown = specs
            .iter()
            .rev()
            .find(|spec| reserved(self, &spec.name) > reserved(&before, &spec.name));
        grown.map_or(Ok(()), |spec| self.check_reservations(&before, &spec.name))?;
        Ok(done)
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

    /// Changes the settings of a volume, and its size if one is given. It grows into the free space
    /// after it if that is enough, and into further extents otherwise. It shrinks only if
    /// `cut_data` allows the data at its end to be lost. The sectors that it keeps stay where they
    /// are.
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
        let mut extents = before.extents.clone();
        if let Some(size) = spec.size {
            let len = self.sectors_for(size);
            if len.is_zero() {
                return Err(VolumeError::Empty { name });
            }
            let sectors = extents.sectors();
            if len != sectors {
                self.check_own(&name)?;
            }
            let bytes = |sectors: Sectors| ByteSize::new(sector.bytes_of(sectors));
            if len < sectors && !cut_data {
                return Err(VolumeError::Cuts {
                    name,
                    remembered: bytes(sectors),
                    requested: size,
                });
            }
            if len > sectors {
                extents = self.grown(&extents, len).map_err(|largest| VolumeError::CannotGrow {
                    name: name.clone(),
                    requested: size,
                    free: self.free().total,
                    largest: bytes(largest),
                })?;
            } else {
                extents = extents.first(len);
            }
        }
        self.check_entries(before, &settings, &extents)?;
        let volume = &mut self.volumes[index];
        (volume.extents, volume.settings) = (extents, settings);
        Ok(volume)
    }

    /// The extents of a volume that grows to `len` sectors, or the largest possible length.
    fn grown(&self, extents: &Extents, len: Sectors) -> Result<Extents, Sectors> {
        let missing = len - extents.sectors();
        let last = extents.last();
        let mut gaps = self.gaps();
        // The free space after the volume begins with what is left of its last mebibyte.
        let end = last.end().get();
        let begin = end.next_multiple_of(alignment(self.shape.sector));
        let after = gaps.iter().position(|gap| gap.start.get() == begin);
        let after = after.map_or(begin.min(self.end().max(end)), |at| gaps.remove(at).end().get());
        let after = Sectors::new(after - end);
        // A volume of an older program may end within the last mebibyte of the drive.
        let at_most = if begin > self.end() { 0 } else { MAX_EXTENTS - extents.as_slice().len() };
        let mut grown = extents.as_slice().to_vec();
        let extended = &mut grown.last_mut().expect("a volume has an extent").len;
        *extended += after.min(missing);
        let missing = missing - after.min(missing);
        let most = extents.sectors() + after + longest(&gaps, at_most);
        let further = allocate(gaps, last.end(), missing, at_most).ok_or(most)?;
        grown.extend(further);
        Ok(Extents::new(grown))
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
        let volume = &self.volumes[index];
        let before = &volume.settings;
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
        self.check_entries(volume, &settings, &volume.extents)?;
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

    /// The number of entries of all volumes in a slot.
    fn entries(&self) -> usize {
        self.volumes.iter().map(|of| slot::entries_of(&of.settings, &of.extents)).sum()
    }

    fn check_entries(
        &self,
        before: &Volume,
        settings: &VolumeSettings,
        extents: &Extents,
    ) -> Result<(), VolumeError> {
        let entries = self.entries() - slot::entries_of(&before.settings, &before.extents)
            + slot::entries_of(settings, extents);
        if entries > slot::MAX_ENTRIES {
            Err(VolumeError::TooMany { name: before.name.clone() })
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
    pub(crate) fn set_reservable(&mut self, share: Share) {
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
        let gaps = self.gaps();
        let of = |count| ByteSize::new(self.shape.sector.bytes_of(longest(&gaps, count)));
        FreeSpace { total: of(usize::MAX), longest: of(1), largest: of(MAX_EXTENTS) }
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
        let own = self.origin == VolumeOrigin::Own;
        let (unit, area) = (alignment(self.shape.sector), area(self.shape.sector));
        let capacity = self.shape.capacity.get();
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
            let extents = volume.extents.as_slice();
            if extents.len() > MAX_EXTENTS {
                return Err(TableError::Extents { name: name(), count: extents.len() });
            }
            for (index, extent) in extents.iter().enumerate() {
                let on_drive = extent.checked_end().is_some_and(|end| end.get() <= capacity)
                    && !extent.len.is_zero();
                let start = extent.start.get();
                let placed = !own || start.is_multiple_of(unit) && start >= area;
                let whole = index + 1 == extents.len() || extent.len.get().is_multiple_of(unit);
                if !on_drive || !placed || !whole {
                    return Err(TableError::Extent { name: name(), extent: *extent, capacity });
                }
            }
        }
        let extents = self.extents_by_address();
        let overlap = extents.windows(2).find(|pair| own && pair[0].0.end() > pair[1].0.start);
        overlap.map_or(Ok(()), |pair| {
            let [first, second] = [pair[0].1, pair[1].1].map(str::to_owned);
            Err(TableError::Overlap { first, second })
        })
    }

    /// The extents of all volumes with the names of these, by address.
    fn extents_by_address(&self) -> Vec<(Extent, &str)> {
        let of = |volume: &'_ Volume| volume.extents.as_slice().to_vec();
        let named = |volume| of(volume).into_iter().map(|extent| (extent, volume.name.as_str()));
        let mut extents: Vec<_> = self.volumes.iter().flat_map(named).collect();
        extents.sort_by_key(|(extent, _)| extent.start);
        extents
    }

    /// The free extents by address, which start and end aligned. There is none between existing
    /// volumes.
    fn gaps(&self) -> Vec<Extent> {
        let mut gaps = Vec::new();
        if self.origin == VolumeOrigin::Existing {
            return gaps;
        }
        let sector = self.shape.sector;
        let mut start = area(sector);
        let end = Extent::from_numbers(self.end(), 0);
        let used = self.extents_by_address().into_iter().map(|(extent, _)| extent);
        for next in used.chain([end]) {
            let len = next.start.get().saturating_sub(start);
            gaps.extend((len > 0).then(|| Extent::from_numbers(start, len)));
            start = next.end().get().next_multiple_of(alignment(sector));
        }
        gaps
    }

    /// The end of the space for volumes: whole mebibytes before the copy of the table.
    fn end(&self) -> u64 {
        let unit = alignment(self.shape.sector);
        self.copy_start() / unit * unit
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
        let extents = self.volumes.iter().flat_map(|volume| volume.extents.as_slice());
        let last = extents.map(|extent| extent.end().get()).max().unwrap_or_default();
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
            .map(|volume| (volume.name.as_str(), volume.extents.start().get() / 2048))
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
                requested; request 10485760 bytes or leave the size out (`headtime volume grow rec \
                20971520` resizes it while it is served), or choose another name"
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
            text(&mut table, spec("c", 90 * MIB)),
            "volume c: 90 MiB (94371840 bytes) does not fit: 89 MiB is free on the drive, and a \
                volume has at most 8 extents, so it can have at most 93323264 bytes; request \
                that, or remove or shrink other volumes first"
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
        assert!(matches!(table.ensure(&spec("c", 0)), Err(VolumeError::Empty { .. })));
    }

    #[test]
    fn sizes_are_rounded_up_to_whole_sectors() {
        let mut table = table(100);
        let odd = spec("a", 10_000_000);
        assert_eq!(table.ensure(&odd), Ok(Ensured::Created));
        let size = |table: &VolumeTable| table.size_of(table.find("a").unwrap()).get();
        assert_eq!(size(&table), 10_000_384);
        assert_eq!(table.ensure(&odd), Ok(Ensured::Reused), "the same after a restart");
        assert!(matches!(table.ensure(&spec("a", 10_000_385)), Err(VolumeError::OtherSize { .. })));
        table.change(&spec("a", 20_000_001), false).unwrap();
        assert_eq!(size(&table), 20_000_256);
        table.change(&spec("a", 20_000_000), false).expect("nothing is cut off");
        assert_eq!(size(&table), 20_000_256);
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
            extents: Extent::from_numbers(start, len).into(),
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
        let apart = |extents: Vec<Extent>| {
            let volume = volume(1, "a", 2048, 2048);
            check(vec![Volume { extents: Extents::new(extents), ..volume }])
        };
        let extent = Extent::from_numbers;
        assert_eq!(apart(vec![extent(8192, 2048), extent(2048, 5)]), Ok(()));
        assert!(matches!(
            apart(vec![extent(8192, 5), extent(2048, 2048)]),
            Err(TableError::Extent { .. })
        ));
        assert!(matches!(
            apart(vec![extent(2048, 4096), extent(4096, 5)]),
            Err(TableError::Overlap { .. })
        ));
        let nine = (1..10).map(|nth| extent(nth * 2048, 2048)).collect();
        assert!(matches!(apart(nine), Err(TableError::Extents { count: 9, .. })));
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
            table.change(&spec("a", 79 * MIB), true).unwrap_err().to_string(),
            "volume a cannot grow to 79 MiB (82837504 bytes): 63 MiB is free on the drive, and a \
                volume has at most 8 extents, so it can have at most 81788928 bytes; request \
                that, or remove or shrink other volumes first"
        );
        assert!(matches!(table.change(&spec("a", 14 * MIB), false), Err(VolumeError::Cuts { .. })));
        assert!(matches!(table.change(&spec("a", 0), true), Err(VolumeError::Empty { .. })));
        assert!(matches!(table.change(&spec("x", MIB), true), Err(VolumeError::Unknown { .. })));
        assert!(matches!(table.add(&spec("a", MIB)), Err(VolumeError::Exists { .. })));
        assert_eq!(table, before, "invalid changes change nothing");
        table.change(&spec("a", 3 * MIB), true).unwrap();
        table.change(&spec("c", 83 * MIB), false).unwrap();
        assert_eq!(
            (size(&table, "a"), size(&table, "c"), table.free().longest.get() / MIB),
            (3, 83, 12)
        );
        table.check().unwrap();
    }

    /// A table of 100 MiB with volumes of these names, sizes in MiB, one after the other.
    fn filled(volumes: &[(&str, u64)]) -> VolumeTable {
        let mut table = table(100);
        for (name, size) in volumes {
            table.add(&spec(name, size * MIB)).unwrap();
        }
        table
    }

    /// The extents of a volume in MiB.
    fn extents(table: &VolumeTable, name: &str) -> Vec<(u64, u64)> {
        let extents = table.find(name).unwrap().extents.clone();
        let mib = |extent: &Extent| (extent.start.get() / 2048, extent.len.get() / 2048);
        extents.as_slice().iter().map(mib).collect()
    }

    #[test]
    fn a_volume_grows_after_its_end_first_then_to_the_closest_extent_that_is_long_enough() {
        let mut table =
            filled(&[("a", 10), ("x", 5), ("b", 1), ("y", 20), ("c", 1), ("z", 8), ("d", 1)]);
        for name in ["x", "y", "z"] {
            table.remove(name).unwrap();
        }
        let mut extend = |name: &str, size: u64| {
            table.change(&spec(name, size), false).unwrap();
            table.check().unwrap();
            extents(&table, name)
        };
        // After an odd end, its mebibyte is filled up before anything else.
        assert_eq!(extend("a", 10 * MIB + 512), [(1, 10)]);
        assert_eq!(extend("a", 21 * MIB), [(1, 15), (17, 6)], "the closest with 6 MiB");
        assert_eq!(extend("a", 22 * MIB), [(1, 15), (17, 7)], "after its end");
        assert_eq!(extend("d", 60 * MIB), [(46, 53), (38, 7)]);
        // No free extent has 14 MiB.
        assert_eq!(extend("a", 36 * MIB), [(1, 15), (17, 20), (45, 1)]);
        let free = table.free();
        assert_eq!(free, FreeSpace::default());
        table.remove("a").unwrap();
        assert_eq!(table.free().total, ByteSize::new(36 * MIB), "all of its extents are free");
        table.change(&spec("d", 10 * MIB), true).unwrap();
        assert_eq!(extents(&table, "d"), [(46, 10)], "a shrinking volume gives back its last ones");
    }

    #[test]
    fn a_new_volume_has_several_extents_only_if_none_is_long_enough() {
        let mut table = filled(&[("a", 10), ("b", 1), ("c", 20), ("d", 1), ("e", 66)]);
        for name in ["a", "c"] {
            table.remove(name).unwrap();
        }
        let mut with = table.clone();
        with.add(&spec("new", 20 * MIB)).unwrap();
        assert_eq!(extents(&with, "new"), [(12, 20)]);
        table.add(&spec("new", 25 * MIB + 512)).unwrap();
        assert_eq!(extents(&table, "new"), [(1, 10), (12, 15)], "in order of address");
        table.check().unwrap();
        assert_eq!(table.volumes()[0].name, "new", "volumes stay in order of address");
    }

    #[test]
    fn a_volume_has_up_to_eight_extents() {
        let names: Vec<String> = (0..40).map(|nth| format!("v{nth}")).collect();
        let mut table = table(100);
        for name in &names {
            table.add(&spec(name, MIB)).unwrap();
        }
        table.add(&spec("rest", table.free().longest.get())).unwrap();
        for name in names.iter().step_by(2) {
            table.remove(name).unwrap();
        }
        assert_eq!(
            table.free(),
            FreeSpace {
                total: ByteSize::new(20 * MIB),
                longest: ByteSize::new(MIB),
                largest: ByteSize::new(8 * MIB)
            }
        );
        assert!(matches!(table.add(&spec("a", 8 * MIB + 512)), Err(VolumeError::NoSpace { .. })));
        table.add(&spec("a", 7 * MIB)).unwrap();
        assert!(matches!(
            table.change(&spec("a", 9 * MIB), false),
            Err(VolumeError::CannotGrow { largest, .. }) if largest.get() == 8 * MIB
        ));
        table.change(&spec("a", 8 * MIB), false).unwrap();
        assert_eq!(extents(&table, "a").len(), 8);
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
