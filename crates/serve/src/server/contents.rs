//! What is on a drive when a server opens it: its volumes, made as they are wanted, and the exports
//! in front of them.

use headtime_io::{DriveHandle, DriveIdentity};
use headtime_units::ByteSize;

use crate::config::ServeLimits;
use crate::disk::Disk as _;
use crate::export::{Blocks, Export, Exports};
use crate::volumes::{
    AREA_BYTES, Ensured, LiveVolume, StoreError, TableState, Volume, VolumeSpec, VolumeStore,
    shares,
};

/// One volume on the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeReport {
    /// The volume.
    pub volume: Volume,
    /// Its size.
    pub size: ByteSize,
    /// What was done to have it; `None` for a volume that is on the drive and was not asked for: it
    /// stays, and is not served.
    pub ensured: Option<Ensured>,
}

/// What of a drive is served.
pub(crate) enum Serving<'a> {
    /// Volumes; all that are there when none is named.
    Volumes { wanted: &'a [VolumeSpec], initialize: bool },
    /// The whole drive under this name.
    Whole { name: &'a str },
}

/// What was found and made on a drive.
pub(super) struct Contents {
    pub(super) exports: Exports,
    pub(super) told: OpenedDrive,
    /// The table, where there is one.
    pub(super) store: Option<VolumeStore>,
}

/// And what of it is told to whoever started the server.
pub(super) struct OpenedDrive {
    /// The drive's identity; zeroes for one that is served whole.
    pub(super) drive: [u8; 16],
    pub(super) volumes: Vec<VolumeReport>,
    pub(super) opening: Option<TableState>,
    pub(super) free: ByteSize,
}

impl Contents {
    pub(super) fn of(
        disk: &DriveHandle,
        serving: &Serving<'_>,
        limits: &ServeLimits,
    ) -> Result<Self, StoreError> {
        let (shape, blocks) = (
            disk.shape(),
            Blocks { physical: disk.physical_block(), request_bytes: request_bytes(limits) },
        );
        let exports = Exports::default();
        let (wanted, initialize) = match *serving {
            Serving::Volumes { wanted, initialize } => (wanted, initialize),
            Serving::Whole { name } => {
                exports.add(Export::of_drive(name, shape, blocks));
                let told = OpenedDrive {
                    drive: [0; 16],
                    volumes: Vec::new(),
                    opening: None,
                    free: ByteSize::default(),
                };
                return Ok(Self { exports, told, store: None });
            }
        };
        let (mut store, opening) = VolumeStore::open(disk, initialize)?;
        if let TableState::Repaired(wrong) = &opening {
            tracing::warn!(
                "one of the two copies of the drive's table of volumes was damaged ({wrong}) and \
                    was made again from the other; unless the last server was killed, see to the \
                    drive"
            );
        }
        let done = store.ensure(disk, wanted)?;
        let table = store.table();
        let ensured = |volume: &Volume| match wanted
            .iter()
            .position(|wanted| wanted.name == volume.name)
        {
            Some(index) => Some(done[index]),
            None => (wanted.is_empty() || volume.settings.always_served).then_some(Ensured::Reused),
        };
        let report = |volume: &Volume| VolumeReport {
            volume: volume.clone(),
            size: table.size_of(volume),
            ensured: ensured(volume),
        };
        let volumes: Vec<VolumeReport> = table.volumes().iter().map(report).collect();
        let served = || volumes.iter().filter(|report| report.ensured.is_some());
        let mut changes = Vec::new();
        for volume in served().map(|report| &report.volume) {
            shares::check(volume, shape.sector)
                .map_err(|(name, refusal)| StoreError::Terms { name, refusal })?;
            changes.extend(shares::changes(None, Some(volume), shape.sector));
        }
        if !changes.is_empty() {
            disk.change_shares(changes).map_err(|error| StoreError::Shares(error.to_string()))?;
        }
        for served in served() {
            exports.serve(&LiveVolume::new(&served.volume, shape.sector), blocks);
        }
        let uuid = table.uuid();
        // Refused only by a drive that is closing, which nobody will look for.
        let _ =
            disk.identify_by(DriveIdentity::from_start(AREA_BYTES, move |area| uuid.is_of(area)));
        let told = OpenedDrive {
            drive: uuid.0,
            volumes,
            opening: Some(opening),
            free: table.free().total,
        };
        Ok(Self { exports, told, store: Some(store) })
    }
}

/// The longest read or write, as the protocol can say it.
pub(super) fn request_bytes(limits: &ServeLimits) -> u32 {
    limits.request.get().min(1 << 30) as u32
}
