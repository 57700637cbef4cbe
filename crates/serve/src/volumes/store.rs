//! [`VolumeStore`]: the metadata area on a real drive. It carries out [`Metadata`]'s steps through
//! the scheduler, as requests of the server itself. The table of a drive that is served as it is
//! has its settings in a file instead.

use headtime_io::{DriveAccess, Io, IoError};
use headtime_sched::VolumeId;
use headtime_units::{Extent, Sectors, Share};

use super::AREA_BYTES;
use super::errors::VolumeError;
use super::existing::{self, SettingsFile};
use super::metadata::{Area, Metadata, MetadataError, MetadataStep, OpenedMetadata, TableState};
use super::table::{Ensured, VolumeSpec, VolumeTable};
use super::uuid::DriveUuid;
use crate::disk::Disk;

/// The table of volumes on a drive.
#[derive(Debug)]
pub struct VolumeStore(Place);

/// The place of the table.
#[derive(Debug)]
enum Place {
    Drive(OnDrive),
    File { table: VolumeTable, settings: SettingsFile },
}

/// A table in the metadata area of the drive.
#[derive(Debug)]
struct OnDrive {
    metadata: Metadata,
    access: DriveAccess,
    /// A change failed and could not be undone yet, so the drive may hold the changed table.
    rollback_pending: bool,
    /// The number of writes of the table that failed.
    failures: u64,
}

/// The reason why the table cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum StoreError {
    /// The metadata area cannot be opened.
    #[error(transparent)]
    Open(#[from] MetadataError),
    /// An invalid change of a volume.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The drive failed.
    #[error("{doing} the drive's table of volumes: {error}")]
    Io { doing: &'static str, error: IoError },
    /// The drive failed during a change, and again during its rollback.
    #[error(
        "{doing} the drive's table of volumes: {error}; undoing the change: {again}. Until \
            that succeeds, which the next change tries first, a restart may find the change made"
    )]
    NotPutBack { doing: &'static str, error: Box<IoError>, again: Box<IoError> },
    /// A drive with a table of volumes is to be served as it is.
    #[error(
        "the drive has volumes of Headtime, which would be exposed as one; leave `existing` out"
    )]
    HasTable,
    /// A drive without a table, which is not written to.
    #[error("the drive has no table of volumes, and read_only forbids making one")]
    NoTable,
    /// A change of a drive that is not written to.
    #[error("the drive is served read-only; restart without read_only to change its volumes")]
    ReadOnly,
    /// The partitions of a drive that is served as it is cannot be read.
    #[error(
        "its GPT cannot be used: {0}; repair it with a partitioning program (sgdisk -v, gdisk)"
    )]
    Partitions(String),
    /// The remembered settings of the volumes of a drive that is served as it is are unusable.
    #[error(
        "the settings of its volumes in {path}: {fault}; restore the file, or remove it to start \
            without settings"
    )]
    Settings { path: String, fault: String },
    /// The scheduler rejects the terms of a volume.
    #[error("{0}")]
    Terms(String),
    /// The scheduler rejected the change of terms.
    #[error("the terms of the volumes cannot be set: {0}")]
    Shares(String),
    #[error("the system gives no random bytes for the drive's UUID: {0}")]
    Random(String),
}

impl VolumeStore {
    /// Reads the table, initializes a new drive, and repairs damage. `initialize` allows content
    /// without a valid table to be overwritten.
    ///
    /// # Errors
    /// See [`StoreError`]. After a failed write the drive holds the old table, the new one, or none
    /// yet.
    pub fn open(disk: &dyn Disk, initialize: bool) -> Result<(Self, TableState), StoreError> {
        Self::open_if(disk, initialize, |_| Ok(()))
    }

    /// Opens a drive if `check` accepts its table, which is empty on a new drive. Nothing is
    /// written before.
    pub(crate) fn open_if(
        disk: &dyn Disk,
        initialize: bool,
        check: impl FnOnce(&VolumeTable) -> Result<(), StoreError>,
    ) -> Result<(Self, TableState), StoreError> {
        let opened = Self::read(disk, initialize)?;
        check(opened.metadata.table())?;
        carry_out(disk, opened.steps)
            .map_err(|failed| StoreError::Io { doing: failed.doing, error: failed.error })?;
        let place = OnDrive::new(opened.metadata, DriveAccess::ReadWrite);
        Ok((Self(Place::Drive(place)), opened.opening))
    }

    /// Reads the table of a drive that is not written to.
    ///
    /// # Errors
    /// See [`StoreError`]; a drive without a table has none that could be served.
    pub fn open_read_only(disk: &dyn Disk) -> Result<(Self, TableState), StoreError> {
        let opened = Self::read(disk, false)?;
        if opened.opening == TableState::Fresh {
            return Err(StoreError::NoTable);
        }
        let place = OnDrive::new(opened.metadata, DriveAccess::ReadOnly);
        Ok((Self(Place::Drive(place)), opened.opening))
    }

    /// Reads the table, and plans what makes it whole.
    fn read(disk: &dyn Disk, initialize: bool) -> Result<OpenedMetadata, StoreError> {
        let shape = disk.shape();
        let area = AREA_BYTES / u64::from(shape.sector.bytes());
        let (first, last) = match shape.capacity.get().checked_sub(area) {
            Some(last) => (read_what_is_left(disk, 0, area)?, read_what_is_left(disk, last, area)?),
            // The drive is too small, which `Metadata` reports.
            None => (Area::default(), Area::default()),
        };
        Ok(Metadata::open(&first, &last, shape, initialize, random_uuid()?)?)
    }

    /// Finds the volumes of a drive that is served as it is. Nothing is written.
    pub(crate) fn open_existing(
        disk: &dyn Disk,
        drive: [u8; 16],
        settings: SettingsFile,
    ) -> Result<Self, StoreError> {
        let table = existing::table(disk, drive, &settings)?;
        Ok(Self(Place::File { table, settings }))
    }

    /// Sets the share of the drive's time that volumes may reserve.
    pub(crate) fn set_reservable(&mut self, share: Share) {
        match &mut self.0 {
            Place::Drive(drive) => drive.metadata.table_mut().set_reservable(share),
            Place::File { table, .. } => table.set_reservable(share),
        }
    }

    /// Sets the sectors that belong to no volume and are not free.
    pub(super) fn reserve_sectors(&mut self, reserved: Vec<Extent>) {
        match &mut self.0 {
            Place::Drive(drive) => drive.metadata.table_mut().reserve_sectors(reserved),
            Place::File { table, .. } => table.reserve_sectors(reserved),
        }
    }

    /// The number of writes of the table that failed. Such a failure may have reported the loss of
    /// other writes of the server.
    pub(super) fn failures(&self) -> u64 {
        match &self.0 {
            Place::Drive(drive) => drive.failures,
            Place::File { .. } => 0,
        }
    }

    /// Checks that the table may be changed.
    pub(super) fn check_writable(&self) -> Result<(), StoreError> {
        match &self.0 {
            Place::Drive(OnDrive { access: DriveAccess::ReadOnly, .. }) => {
                Err(StoreError::ReadOnly)
            }
            _ => Ok(()),
        }
    }

    /// Undoes a failed change that may still be on the drive.
    pub(super) fn finish_rollback(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        match &mut self.0 {
            Place::Drive(drive) => drive.finish_rollback(disk),
            Place::File { .. } => Ok(()),
        }
    }

    /// The current table. A failed change never becomes part of it: it is undone on the drive too,
    /// at once or before the next change.
    #[must_use]
    pub fn table(&self) -> &VolumeTable {
        match &self.0 {
            Place::Drive(drive) => drive.metadata.table(),
            Place::File { table, .. } => table,
        }
    }

    /// Makes all volumes exist as specified, or changes nothing. The change is durable when this
    /// returns.
    ///
    /// # Errors
    /// See [`StoreError`]; an invalid volume changes nothing.
    pub fn ensure(
        &mut self,
        disk: &dyn Disk,
        specs: &[VolumeSpec],
    ) -> Result<Vec<Ensured>, StoreError> {
        self.change(disk, |table| table.ensure_all(specs))
    }

    /// Applies `change` to the table: durable when this returns, or not changed at all.
    ///
    /// # Errors
    /// See [`StoreError`]; an error of `change` changes nothing.
    pub fn change<T>(
        &mut self,
        disk: &dyn Disk,
        change: impl FnOnce(&mut VolumeTable) -> Result<T, VolumeError>,
    ) -> Result<T, StoreError> {
        self.finish_rollback(disk)?;
        let mut table = self.table().clone();
        let done = change(&mut table)?;
        self.replace(disk, table)?;
        Ok(done)
    }

    /// Removes a volume; its sectors are free when this returns.
    pub fn remove(&mut self, disk: &dyn Disk, name: &str) -> Result<(), StoreError> {
        self.change(disk, |table| table.remove(name)).map(|_removed| ())
    }

    fn replace(&mut self, disk: &dyn Disk, table: VolumeTable) -> Result<(), StoreError> {
        if table == *self.table() {
            return Ok(());
        }
        match &mut self.0 {
            Place::Drive(drive) => drive.replace(disk, table),
            Place::File { table: current, settings } => {
                settings.write(&table)?;
                *current = table;
                Ok(())
            }
        }
    }
}

impl OnDrive {
    fn new(metadata: Metadata, access: DriveAccess) -> Self {
        Self { metadata, access, rollback_pending: false, failures: 0 }
    }

    fn replace(&mut self, disk: &dyn Disk, table: VolumeTable) -> Result<(), StoreError> {
        if self.access == DriveAccess::ReadOnly {
            return Err(StoreError::ReadOnly);
        }
        self.write(disk, table).map_err(|Failed { doing, error, .. }| match self.undo(disk) {
            Ok(()) => StoreError::Io { doing, error },
            Err(again) => StoreError::NotPutBack {
                doing,
                error: Box::new(error),
                again: Box::new(again.error),
            },
        })
    }

    /// Writes the current table again if the rollback of a failed change is pending. Otherwise a
    /// removal that failed could be found on the drive after a restart, and a served volume would
    /// lose its sectors to another.
    fn finish_rollback(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        if self.rollback_pending {
            self.undo(disk).map_err(|Failed { doing, error, .. }| StoreError::Io { doing, error })
        } else {
            Ok(())
        }
    }

    fn undo(&mut self, disk: &dyn Disk) -> Result<(), Failed> {
        self.write(disk, self.metadata.table().clone())
    }

    /// Makes `table` current, on the drive and here. After a failure the old table stays current
    /// here, and either may be on the drive.
    fn write(&mut self, disk: &dyn Disk, table: VolumeTable) -> Result<(), Failed> {
        let (after, steps) = self.metadata.plan(table);
        self.rollback_pending = true;
        carry_out(disk, steps).inspect_err(|failed| {
            self.metadata = self.metadata.after_failure(failed.step);
            self.failures += 1;
        })?;
        self.metadata = after;
        self.rollback_pending = false;
        Ok(())
    }
}

/// An operation that failed.
struct Failed {
    /// The index of the failed step.
    step: usize,
    doing: &'static str,
    error: IoError,
}

/// Reads `sectors` sectors from `start` on. Unreadable sectors are returned as zeroes, with a list
/// of their numbers.
fn read_what_is_left(disk: &dyn Disk, start: u64, sectors: u64) -> Result<Area, StoreError> {
    let read = |extent| disk.run(Io { volume: VolumeId::INTERNAL, ..Io::read(extent) }).result;
    let failed = |error| StoreError::Io { doing: "reading", error };
    match read(Extent::from_numbers(start, sectors)) {
        Ok(bytes) => return Ok(Area { bytes: bytes.to_vec(), unreadable: Vec::new() }),
        Err(error) if !is_medium_error(&error) => return Err(failed(error)),
        Err(error) => {
            tracing::warn!(%error, "the drive's table of volumes is read sector by sector")
        }
    }
    let sector_bytes = disk.shape().sector.bytes() as usize;
    let (mut bytes, mut unreadable) =
        (Vec::with_capacity(sectors as usize * sector_bytes), Vec::new());
    for sector in start..start + sectors {
        match read(Extent::from_numbers(sector, 1)) {
            Ok(content) => bytes.extend_from_slice(&content),
            Err(error) if is_medium_error(&error) && (unreadable.len() as u64) < sectors / 2 => {
                bytes.resize(bytes.len() + sector_bytes, 0);
                unreadable.push(sector);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(Area { bytes, unreadable })
}

fn is_medium_error(error: &IoError) -> bool {
    error.errno() == rustix::io::Errno::IO.raw_os_error() && !matches!(error, IoError::EngineFailed)
}

fn carry_out(disk: &dyn Disk, steps: Vec<MetadataStep>) -> Result<(), Failed> {
    let sector = disk.shape().sector;
    let write = |offset: u64, bytes: Vec<u8>| {
        let sectors = |bytes: u64| {
            sector.sectors_of(bytes).map(Sectors::get).expect("slots lie on whole sectors")
        };
        let extent = Extent::from_numbers(sectors(offset), sectors(bytes.len() as u64));
        Io::write(extent, bytes.into())
    };
    for (step, what) in steps.into_iter().enumerate() {
        let is_copy = matches!(what, MetadataStep::WriteCopy { .. });
        let (doing, io) = match what {
            MetadataStep::Flush => ("flushing", Io::flush()),
            MetadataStep::Write { offset, bytes } | MetadataStep::WriteCopy { offset, bytes } => {
                ("writing", write(offset, bytes))
            }
        };
        match disk.run(Io { volume: VolumeId::INTERNAL, ..io }).result {
            Err(error) if is_copy && is_medium_error(&error) => tracing::warn!(
                %error,
                "the copy of the table of volumes at the end of the drive cannot be written"
            ),
            result => {
                result.map_err(|error| Failed { step, doing, error })?;
            }
        }
    }
    Ok(())
}

fn random_uuid() -> Result<DriveUuid, StoreError> {
    let mut bytes = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    let got = rustix::rand::getrandom(&mut bytes, flags)
        .map_err(|error| StoreError::Random(error.to_string()))?;
    if got != bytes.len() {
        return Err(StoreError::Random(format!("{got} of {} came", bytes.len())));
    }
    // The version and variant of a random UUID, RFC 9562.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(DriveUuid(bytes))
}
