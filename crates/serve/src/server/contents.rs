//! Opens the volumes of a drive, creates missing ones, and makes their exports.

use headtime_io::{DriveHandle, DriveIdentity, Locator, block_device_at};
use headtime_sched::ShareChange;
use headtime_units::{ByteSize, Share};

use crate::config::{Config, ServeLimits};
use crate::disk::Disk;
use crate::export::{Blocks, Export, Exports, Rotation};
use crate::volumes::existing::SettingsFile;
use crate::volumes::{
    AREA_BYTES, Ensured, LiveVolume, StoreError, TableState, Volume, VolumeSpec, VolumeStore,
    VolumeTable, shares,
};

/// A volume of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeReport {
    /// The volume.
    pub volume: Volume,
    /// Its size.
    pub size: ByteSize,
    /// The effect on the volume; `None` for a volume that is not served.
    pub ensured: Option<Ensured>,
}

/// The part of a drive to serve.
pub(crate) enum ServedContent<'a> {
    /// These volumes; all volumes if the list is empty.
    Volumes { specs: &'a [VolumeSpec], initialize: bool },
    /// These volumes of a drive that is served as it is; all if the list is empty. `drive` is its
    /// identity.
    Existing { specs: &'a [VolumeSpec], drive: [u8; 16], settings: SettingsFile },
    /// The whole drive under this name.
    Whole { name: &'a str },
}

impl<'a> ServedContent<'a> {
    /// The requested volumes.
    pub(crate) fn specs(&self) -> &'a [VolumeSpec] {
        match self {
            Self::Volumes { specs, .. } | Self::Existing { specs, .. } => specs,
            Self::Whole { .. } => &[],
        }
    }

    /// Opens the table of volumes. A table in which the requested volumes cannot be served changes
    /// nothing on the drive.
    ///
    /// # Panics
    /// If the whole drive is served, which has no table.
    pub(crate) fn open_store(
        self,
        disk: &dyn Disk,
        config: &Config,
    ) -> Result<(VolumeStore, Option<TableState>), StoreError> {
        let specs = self.specs();
        let check = |table: &VolumeTable| check(table, specs, config.reservable());
        let (mut store, opening) = match self {
            Self::Volumes { .. } if config.read_only => {
                let (store, opening) = VolumeStore::open_read_only(disk)?;
                (store, Some(opening))
            }
            Self::Volumes { initialize, .. } => {
                let (store, opening) = VolumeStore::open_if(disk, initialize, check)?;
                (store, Some(opening))
            }
            Self::Existing { drive, settings, .. } => {
                (VolumeStore::open_existing(disk, drive, settings)?, None)
            }
            Self::Whole { .. } => unreachable!("a drive that is served whole has no table"),
        };
        check(store.table())?;
        store.set_reservable(config.reservable());
        Ok((store, opening))
    }
}

/// Checks that these volumes could be made on a drive with this table, and served.
fn check(table: &VolumeTable, specs: &[VolumeSpec], reservable: Share) -> Result<(), StoreError> {
    let mut table = table.clone();
    table.set_reservable(reservable);
    table.ensure_all(specs)?;
    let served = table.volumes().iter().filter(|volume| is_served(volume, specs));
    for volume in served {
        shares::check(volume, table.shape().sector).map_err(StoreError::Terms)?;
    }
    Ok(())
}

/// Notes about volumes of a table whose sizes are not exactly the requested ones. `done` is the
/// effect of each request.
pub(crate) fn size_notes(
    table: &VolumeTable,
    specs: &[VolumeSpec],
    done: &[Ensured],
) -> Vec<String> {
    let note = |(spec, done): (&VolumeSpec, &Ensured)| match done {
        Ensured::Created => table.rounding_note(spec),
        Ensured::Reused | Ensured::Changed => table.kept_size_note(spec),
    };
    specs.iter().zip(done).filter_map(note).collect()
}

/// Returns whether a server to which these volumes are named serves this one.
fn is_served(volume: &Volume, specs: &[VolumeSpec]) -> bool {
    specs.is_empty()
        || volume.settings.always_served
        || specs.iter().any(|spec| spec.name == volume.name)
}

/// The volumes and exports of a drive.
pub(super) struct Contents {
    pub(super) exports: Exports,
    pub(super) opened: OpenedDrive,
    /// The table, if there is one.
    pub(super) store: Option<VolumeStore>,
}

/// The facts about a drive for the user of the server.
pub(super) struct OpenedDrive {
    /// The identity of the drive; zeroes if it is served whole.
    pub(super) drive: [u8; 16],
    pub(super) volumes: Vec<VolumeReport>,
    pub(super) opening: Option<TableState>,
    pub(super) free: ByteSize,
}

impl Contents {
    pub(super) fn of(
        disk: &DriveHandle,
        serving: ServedContent<'_>,
        config: &Config,
    ) -> Result<Self, StoreError> {
        let (shape, blocks) = (disk.shape(), blocks(disk, config));
        let exports = Exports::default();
        if let ServedContent::Whole { name } = serving {
            exports.add(Export::of_drive(name, shape, blocks));
            let opened = OpenedDrive {
                drive: [0; 16],
                volumes: Vec::new(),
                opening: None,
                free: ByteSize::default(),
            };
            return Ok(Self { exports, opened, store: None });
        }
        let specs = serving.specs();
        let (mut store, opening) = serving.open_store(disk, config)?;
        if let Some(TableState::Repaired(wrong)) = &opening {
            tracing::warn!(
                "one of the two copies of the drive's table of volumes was damaged ({wrong}) and \
                    was restored from the other; unless the last server was killed, check the drive"
            );
        }
        if let Some(TableState::Restored(wrong)) = &opening {
            tracing::warn!(
                "the drive's table of volumes was lost ({wrong}) and was restored from its copy at \
                    the end of the drive; find out what has overwritten the first MiB"
            );
        }
        let done = store.ensure(disk, specs)?;
        let table = store.table();
        size_notes(table, specs, &done).iter().for_each(|note| tracing::warn!("{note}"));
        let ensured = |volume: &Volume| match specs.iter().position(|spec| spec.name == volume.name)
        {
            Some(index) => Some(done[index]),
            None => is_served(volume, specs).then_some(Ensured::Reused),
        };
        let report = |volume: &Volume| VolumeReport {
            volume: volume.clone(),
            size: table.size_of(volume),
            ensured: ensured(volume),
        };
        let volumes: Vec<VolumeReport> = table.volumes().iter().map(report).collect();
        let served = || volumes.iter().filter(|report| report.ensured.is_some());
        let reservable = config.reservable();
        let kept = (reservable != Share::WHOLE).then_some(ShareChange::Reservable(reservable));
        let mut changes: Vec<ShareChange> = kept.into_iter().collect();
        for volume in served().map(|report| &report.volume) {
            changes.extend(shares::changes(None, Some(volume), shape.sector));
        }
        if !changes.is_empty() {
            disk.change_shares(changes).map_err(|error| StoreError::Shares(error.to_string()))?;
        }
        for served in served() {
            let volume = LiveVolume::new(&served.volume, shape.sector);
            if config.read_only {
                volume.protect();
            }
            Disk::name_volume(disk, served.volume.id, &served.volume.name);
            exports.serve(&volume, blocks);
        }
        let uuid = table.uuid();
        if opening.is_some() {
            let identity = DriveIdentity::from_start(AREA_BYTES, move |area| uuid.is_of(area));
            // Fails only for a drive that is closing.
            let _ = disk.identify_by(identity);
        }
        let opened = OpenedDrive { drive: uuid.0, volumes, opening, free: table.free().total };
        Ok(Self { exports, opened, store: Some(store) })
    }
}

/// The block sizes of the exports of this drive, and whether it rotates.
pub(super) fn blocks(disk: &DriveHandle, config: &Config) -> Blocks {
    let rotation = match &config.drive {
        Some(Locator::Memory(_)) => Rotation::None,
        Some(Locator::Path(path)) => {
            match block_device_at(path, &config.raw.system).ok().flatten() {
                Some(device) if !device.rotational => Rotation::None,
                _ => Rotation::Disk,
            }
        }
        _ => Rotation::Disk,
    };
    let request_bytes = request_bytes(&config.limits);
    Blocks { physical: disk.physical_block(), request_bytes, rotation }
}

/// The longest read or write that the protocol allows.
pub(super) fn request_bytes(limits: &ServeLimits) -> u32 {
    limits.request.get().min(1 << 30) as u32
}
