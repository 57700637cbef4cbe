//! The table of volumes: names, extents, settings; allocation of free space.
//!
//! Invariants, checked by [`VolumeTable::check`] for everything read from a drive: names are unique
//! and valid, ids are unique and below `next_id`, extents start on [`ALIGNMENT_BYTES`], lie after
//! the metadata area and on the drive, and do not overlap. A volume has at most [`MAX_EXTENTS`];
//! all but its last have whole multiples of [`ALIGNMENT_BYTES`], so that no block of a client
//! crosses from one into the next. Volumes are sorted by the address of their first sector.
//!
//! The volumes of [`VolumeOrigin::Existing`] are the drive's partitions: they lie anywhere on the
//! drive, and only their settings change.

use headtime_sched::VolumeId;
use headtime_units::{ByteSize, Extent, Nanos, Sectors, Share};

use super::ALIGNMENT_BYTES;
use super::errors::{TableError, VolumeError, exactly};
use super::extents::{Extents, MAX_EXTENTS};
use super::relocation::{RelocateOrder, RelocateTo, Relocation};
use super::settings::{ClassSettings, SettingsChange, VolumeClass, VolumeSettings};
use super::slot;
use super::space::{DriveShape, FreeSpace, Space, alignment, area};
use super::uuid::DriveUuid;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its name.
    pub name: String,
    /// The size of a new volume, rounded up to whole sectors. A volume on the drive keeps its own.
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
    /// Sectors that belong to no volume and are not free, because a relocation uses them; not on
    /// the drive either.
    reserved: Vec<Extent>,
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
            reserved: Vec::new(),
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
        let (reservable, reserved) = (Share::WHOLE, Vec::new());
        let table = Self { origin, uuid, shape, next_id, volumes, reservable, reserved };
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

    /// The note about a volume whose size is not the requested one.
    pub(crate) fn kept_size_note(&self, spec: &VolumeSpec) -> Option<String> {
        let (name, volume) = (&spec.name, self.find(&spec.name)?);
        let other = |size: &ByteSize| self.sectors_for(*size) != volume.extents.sectors();
        let (requested, kept) = (spec.size.filter(other)?, self.size_of(volume));
        let resizing = if requested > kept {
            format!("volume grow {name} {}", requested.get())
        } else {
            format!("volume set {name} size={} --cut-data", requested.get())
        };
        Some(format!(
            "{name} keeps its size on the drive of {}; the requested size of {} counts for a new \
                volume only. Request {} bytes or leave the size out, or resize the volume while \
                it is served (`headtime {resizing}`)",
            exactly(kept),
            exactly(requested),
            kept.get(),
        ))
    }

    /// Makes a volume exist as specified: reuses the one with this name, whatever its size, or
    /// allocates a new one.
    ///
    /// # Errors
    /// See [`VolumeError`]; nothing is changed then.
    pub fn ensure(&mut self, spec: &VolumeSpec) -> Result<Ensured, VolumeError> {
        check_name(&spec.name)?;
        if let Some(volume) = self.volumes.iter().find(|volume| volume.name == spec.name) {
            let settings = spec.settings.apply_to(&volume.settings);
            check_volume(&spec.name, &settings)?;
            self.check_entries(volume, &settings, &volume.extents)?;
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
        let Some(extents) = self.space().allocate(len) else {
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
                extents = self.space().grown(&extents, len).map_err(|largest| {
                    VolumeError::CannotGrow {
                        name: name.clone(),
                        requested: size,
                        free: self.free().total,
                        largest: bytes(largest),
                    }
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

    /// Plans to move sectors of a volume to a free extent. Nothing is changed.
    ///
    /// # Errors
    /// See [`VolumeError`].
    pub fn plan_relocation(&self, order: &RelocateOrder) -> Result<Relocation, VolumeError> {
        let RelocateOrder { name, from, size, to, .. } = order;
        let Some(volume) = self.find(name) else {
            return Err(VolumeError::Unknown { name: name.clone(), known: self.known_names() });
        };
        self.check_own(name)?;
        let (sector, whole) = (self.shape.sector, self.size_of(volume).get());
        let start = from.map_or(0, ByteSize::get);
        let end = size.map_or(Some(whole), |size| start.checked_add(size.get()));
        let end = end.filter(|end| start < *end && *end <= whole);
        let aligned = |at: u64| at.is_multiple_of(ALIGNMENT_BYTES);
        let end = end.filter(|end| aligned(start) && (aligned(*end) || *end == whole));
        let Some(end) = end else {
            let len = size.unwrap_or(ByteSize::new(whole.saturating_sub(start)));
            let (from, size) = (ByteSize::new(start), ByteSize::new(whole));
            return Err(VolumeError::RelocateRange { name: name.clone(), from, len, size });
        };
        if let RelocateTo::Address(address) = to
            && !aligned(address.get())
        {
            return Err(VolumeError::RelocateAddress { name: name.clone(), address: *address });
        }
        let [offset, len] =
            [start, end - start].map(|bytes| self.sectors_for(ByteSize::new(bytes)));
        let source = volume.extents.part(offset, len);
        let len_bytes = ByteSize::new(sector.bytes_of(len));
        let Some(destination) = self.space().place(len, *to) else {
            let (name, longest) = (name.clone(), self.free().longest);
            return Err(match *to {
                RelocateTo::Address(address) if len_bytes <= longest => {
                    VolumeError::NotFree { name, len: len_bytes, address }
                }
                to => VolumeError::NoPlace { name, len: len_bytes, to, longest },
            });
        };
        // A whole extent that would only move away from the requested end.
        let gains = |first: Extent| match to {
            RelocateTo::Start => destination.start < first.start,
            RelocateTo::End => destination.start > first.start,
            RelocateTo::LargestGap | RelocateTo::Address(_) => true,
        };
        if let [only] = source.as_slice()
            && !gains(*only)
        {
            return Err(VolumeError::NothingCloser { name: name.clone(), to: *to });
        }
        let after = volume.extents.relocated(offset, len, destination.start);
        let count = after.as_slice().len();
        if count > MAX_EXTENTS {
            return Err(VolumeError::RelocatedExtents { name: name.clone(), count });
        }
        self.check_entries(volume, &volume.settings, &after)?;
        Ok(Relocation {
            volume: volume.id,
            name: name.clone(),
            offset,
            source,
            destination,
            before: volume.extents.clone(),
            after,
        })
    }

    /// Checks that the destination of a relocation is still free.
    pub(super) fn check_destination(&self, relocation: &Relocation) -> Result<(), VolumeError> {
        let Extent { start, len } = relocation.destination;
        let bytes = |sectors: u64| ByteSize::new(self.shape.sector.bytes_of(Sectors::new(sectors)));
        let (len_bytes, address) = (bytes(len.get()), bytes(start.get()));
        match self.space().place(len, RelocateTo::Address(address)) {
            Some(_) => Ok(()),
            None => {
                let name = relocation.name.clone();
                Err(VolumeError::NotFree { name, len: len_bytes, address })
            }
        }
    }

    /// Gives the volume of a relocation its sectors after it. Those that it leaves stay reserved.
    pub(super) fn relocate(&mut self, relocation: &Relocation) -> Result<(), VolumeError> {
        let unchanged = |volume: &&mut Volume| {
            volume.id == relocation.volume && volume.extents == relocation.before
        };
        let Some(volume) = self.volumes.iter_mut().find(unchanged) else {
            let (name, known) = (relocation.name.clone(), self.known_names());
            return Err(VolumeError::Unknown { name, known });
        };
        volume.extents = relocation.after.clone();
        self.volumes.sort_by_key(|volume| volume.extents.start());
        self.reserved.clone_from(&relocation.source);
        Ok(())
    }

    /// Sets the sectors that belong to no volume and are not free.
    pub(super) fn reserve_sectors(&mut self, reserved: Vec<Extent>) {
        self.reserved = reserved;
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

    /// The unallocated space. There is none between existing volumes.
    #[must_use]
    pub fn free(&self) -> FreeSpace {
        match self.origin {
            VolumeOrigin::Own => self.space().free(),
            VolumeOrigin::Existing => FreeSpace::default(),
        }
    }

    /// The byte offset of the copy of the table at the end of the drive; `None` where a volume lies
    /// there, which tables allowed before there was a copy.
    #[must_use]
    pub fn copy_offset(&self) -> Option<u64> {
        self.space().copy_offset()
    }

    /// The space of the drive around the volumes.
    fn space(&self) -> Space {
        let used = self.extents_by_address().into_iter().map(|(extent, _)| extent);
        let mut used: Vec<Extent> = used.chain(self.reserved.iter().copied()).collect();
        used.sort_by_key(|extent| extent.start);
        Space::new(self.shape, used)
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
        ("a weight", settings.weight == Some(0)),
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

#[cfg(test)]
mod tests;
