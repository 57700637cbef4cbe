//! The metadata area on a real drive: carries [`Metadata`]'s steps out through the scheduler, as
//! the server's own requests.

use bytes::Bytes;
use headtime_io::{Io, IoError};
use headtime_sched::{ShareRefusal, VolumeId};
use headtime_units::{Extent, Lba, Sectors};

use super::AREA_BYTES;
use super::errors::VolumeError;
use super::metadata::{Metadata, MetadataError, MetadataStep, TableState};
use super::table::{Ensured, VolumeSpec, VolumeTable};
use super::uuid::DriveUuid;
use crate::disk::Disk;

/// A drive's table of volumes, kept on the drive.
#[derive(Debug)]
pub struct VolumeStore {
    metadata: Metadata,
    /// A change failed half-way and could not be undone yet, so that the drive may hold what it
    /// would have made of the table.
    doubtful: bool,
}

/// Why the table cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The drive is not one of ours, or damaged.
    #[error(transparent)]
    Open(#[from] MetadataError),
    /// A volume cannot be had as wanted.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The drive failed.
    #[error("{doing} the drive's table of volumes: {error}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The drive's error.
        error: IoError,
    },
    /// The drive failed within a change, and again when the table was to be put back.
    #[error(
        "{doing} the drive's table of volumes: {error}; putting it back as it was: {again}. Until \
            that succeeds, which the next change tries first, a restart may find the change made"
    )]
    NotPutBack {
        /// What was being done.
        doing: &'static str,
        /// The drive's error.
        error: Box<IoError>,
        /// And the second.
        again: Box<IoError>,
    },
    /// What a volume is promised is nothing that the scheduler takes.
    #[error("{name}: {refusal}")]
    Terms {
        /// The volume, or class.
        name: String,
        /// Why not.
        refusal: ShareRefusal,
    },
    /// The scheduler was not told what volumes are promised.
    #[error("what volumes are promised: {0}")]
    Shares(String),
    /// No random bytes for the drive's UUID.
    #[error("the system gives no random bytes for the drive's UUID: {0}")]
    Random(String),
}

impl VolumeStore {
    /// Reads the table, takes a fresh drive into use, repairs a damaged copy. `initialize` allows
    /// content without a valid table to be overwritten.
    ///
    /// # Errors
    /// See [`StoreError`]. After a failed write the drive holds the table before, the one after, or
    /// none yet.
    pub fn open(disk: &dyn Disk, initialize: bool) -> Result<(Self, TableState), StoreError> {
        let shape = disk.shape();
        let area = AREA_BYTES / u64::from(shape.sector.bytes());
        let (bytes, unreadable) = if shape.capacity.get() < area {
            (Bytes::new(), Vec::new()) // The drive is too small, which `Metadata` says.
        } else {
            read_what_is_left(disk, area)?
        };
        let opened =
            Metadata::open_what_is_left(&bytes, &unreadable, shape, initialize, random_uuid()?)?;
        carry_out(disk, opened.steps)
            .map_err(|failed| StoreError::Io { doing: failed.doing, error: failed.error })?;
        Ok((Self { metadata: opened.metadata, doubtful: false }, opened.opening))
    }

    /// The table that counts. A change that failed is none of it and never becomes one: it is
    /// undone on the drive too, at once or before the next change.
    #[must_use]
    pub fn table(&self) -> &VolumeTable {
        self.metadata.table()
    }

    /// Makes all the volumes exist as wanted, or none: one change of the table, durable when this
    /// returns.
    ///
    /// # Errors
    /// See [`StoreError`]; a volume that cannot be had changes nothing.
    pub fn ensure(
        &mut self,
        disk: &dyn Disk,
        wanted: &[VolumeSpec],
    ) -> Result<Vec<Ensured>, StoreError> {
        self.change(disk, |table| {
            let before = table.clone();
            let done =
                wanted.iter().map(|wanted| table.ensure(wanted)).collect::<Result<_, _>>()?;
            // Judged by where it ends; the last that asks for more than it had is the one that is
            // told.
            let reserved = |table: &VolumeTable, name: &str| {
                table.find(name).map_or(0, |volume| volume.settings.reserved_billionths())
            };
            let grown = wanted
                .iter()
                .rev()
                .find(|wanted| reserved(table, &wanted.name) > reserved(&before, &wanted.name));
            grown.map_or(Ok(()), |wanted| table.may_reserve(&before, &wanted.name))?;
            Ok(done)
        })
    }

    /// Makes the table what `change` makes of it: durable when this returns, or not changed at all.
    ///
    /// # Errors
    /// See [`StoreError`]; what `change` refuses changes nothing.
    pub fn change<T>(
        &mut self,
        disk: &dyn Disk,
        change: impl FnOnce(&mut VolumeTable) -> Result<T, VolumeError>,
    ) -> Result<T, StoreError> {
        self.end_reject(disk)?;
        let mut table = self.table().clone();
        let done = change(&mut table)?;
        self.replace(disk, table)?;
        Ok(done)
    }

    /// Takes a volume out of the table; its sectors are free when this returns.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn remove(&mut self, disk: &dyn Disk, name: &str) -> Result<(), StoreError> {
        self.change(disk, |table| table.remove(name)).map(|_removed| ())
    }

    fn replace(&mut self, disk: &dyn Disk, table: VolumeTable) -> Result<(), StoreError> {
        if table == *self.table() {
            return Ok(());
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

    /// Puts the table that counts back where a change failed half-way and could not be undone:
    /// whoever serves goes by that table, and a volume that is being served must not lose its
    /// sectors to another because its removal, which failed, is found on the drive.
    fn end_reject(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        if self.doubtful {
            self.undo(disk).map_err(|Failed { doing, error, .. }| StoreError::Io { doing, error })
        } else {
            Ok(())
        }
    }

    fn undo(&mut self, disk: &dyn Disk) -> Result<(), Failed> {
        self.write(disk, self.table().clone())
    }

    /// Makes `table` the one that counts, on the drive and here; after a failure the one before
    /// counts here, and which counts on the drive is in reject.
    fn write(&mut self, disk: &dyn Disk, table: VolumeTable) -> Result<(), Failed> {
        let (after, steps) = self.metadata.plan(table);
        self.doubtful = true;
        carry_out(disk, steps)
            .inspect_err(|failed| self.metadata = self.metadata.after_failure(failed.step))?;
        self.metadata = after;
        self.doubtful = false;
        Ok(())
    }
}

/// Steps that were not all carried out.
struct Failed {
    /// The first that was not.
    step: usize,
    doing: &'static str,
    error: IoError,
}

/// Reads the first `area` sectors; those that cannot be read as zeroes, and their numbers.
///
/// # Errors
/// When the drive fails in another way, or more than half of the sectors cannot be read: then it is
/// the drive that is damaged.
fn read_what_is_left(disk: &dyn Disk, area: u64) -> Result<(Bytes, Vec<u64>), StoreError> {
    let read = |extent| disk.run(Io { volume: VolumeId::INTERNAL, ..Io::read(extent) }).result;
    let failed = |error| StoreError::Io { doing: "reading", error };
    match read(Extent::from_numbers(0, area)) {
        Ok(bytes) => return Ok((bytes, Vec::new())),
        Err(error) if !is_medium_error(&error) => return Err(failed(error)),
        Err(error) => {
            tracing::warn!(%error, "the drive's table of volumes is read sector by sector")
        }
    }
    let sector_bytes = disk.shape().sector.bytes() as usize;
    let (mut bytes, mut unreadable) =
        (Vec::with_capacity(area as usize * sector_bytes), Vec::new());
    for sector in 0..area {
        match read(Extent::from_numbers(sector, 1)) {
            Ok(content) => bytes.extend_from_slice(&content),
            Err(error) if is_medium_error(&error) && (unreadable.len() as u64) < area / 2 => {
                bytes.resize(bytes.len() + sector_bytes, 0);
                unreadable.push(sector);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok((bytes.into(), unreadable))
}

fn is_medium_error(error: &IoError) -> bool {
    error.errno() == rustix::io::Errno::IO.raw_os_error() && !matches!(error, IoError::EngineFailed)
}

fn carry_out(disk: &dyn Disk, steps: Vec<MetadataStep>) -> Result<(), Failed> {
    let sector = disk.shape().sector;
    for (step, what) in steps.into_iter().enumerate() {
        let (doing, io) = match what {
            MetadataStep::Flush => ("flushing", Io::flush()),
            MetadataStep::Write { offset, bytes } => {
                let sectors = |bytes: u64| {
                    sector.sectors_of(bytes).map(Sectors::get).expect("slots lie on whole sectors")
                };
                let extent = Extent::new(
                    Lba::new(sectors(offset)),
                    Sectors::new(sectors(bytes.len() as u64)),
                );
                ("writing", Io::write(extent, bytes.into()))
            }
        };
        disk.run(Io { volume: VolumeId::INTERNAL, ..io }).result.map_err(|error| Failed {
            step,
            doing,
            error,
        })?;
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
