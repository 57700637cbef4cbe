//! The volumes of a drive and the table of them on the drive itself.
//!
//! # VolumeOrigin
//!
//! The first mebibyte of the drive is the *metadata area*; the last one has a copy of the table.
//! Volumes lie between them; each has one extent that starts on a mebibyte, or up to
//! [`MAX_EXTENTS`] where no free one is long enough.
//!
//! ```text
//! byte  0       256 KiB   512 KiB   768 KiB   1 MiB                   1 MiB before the end
//!       ├─ slot A ─┤ unused ├─ slot B ─┤ unused ├─ volume ─┤ free … ├─ copy ─┤ unused ┤
//! ```
//!
//! # The table is on the drive, not in a file next to it
//!
//! The volumes move with the drive: another machine serves it unchanged. Table and data cannot be
//! lost separately or restored from backups of different days, and a second drive is never opened
//! with the table of the first. No other writable storage is needed, so a container or an initramfs
//! can serve a drive. The cost is two mebibytes, and a seek to both edges of the drive whenever a
//! volume is changed; requests never pay it.
//!
//! # Crash safety
//!
//! Both slots hold the whole table (at most 1,023 entries, 256 KiB) with one CRC-32C and a
//! generation. A change writes the slot with the older generation, flushes, writes the other slot,
//! and flushes. After an interruption at any point at least one slot is valid, and holds the table
//! before or after the change. [`Metadata::open`] uses the valid slot with the higher generation
//! and repairs the other. Both slots end up with the new table, so a later defect in one of them
//! loses nothing.
//!
//! The first table of a drive has no volumes, and all but one sector of its block are zero. It is
//! therefore present or absent even after a torn write. Volumes are added by ordinary changes.
//!
//! An unreadable sector, as a power failure may cause, is treated as a torn write: the other
//! slot is used, and the repair writes the sector again.
//!
//! # The copy at the end
//!
//! A program that clears the start of the drive, as partitioning tools do, would take both slots.
//! The copy is written after each change. If neither slot is valid and the first mebibyte is empty
//! or damaged, the table is restored from it. A volume of an older program may lie in its place;
//! then there is no copy.
//!
//! # Refused drives
//!
//! A drive with content at its start or its end and no valid table is never overwritten silently.
//! Foreign content and damaged tables are refused with the remedy, unless `initialize` allows the
//! content to be lost. `initialize` never overwrites a valid table. A table of a newer format is
//! always refused.
//!
//! # Parts
//!
//! [`VolumeTable`] allocates and checks; [`slot`] encodes and decodes; [`Metadata`] chooses the
//! slot and plans [`MetadataStep`]s. These three do no I/O. [`VolumeStore`] carries out the steps
//! through the drive's scheduler as requests of the server itself, which no share of disk time
//! delays. [`Volumes`] changes the volumes of a running server; `relocator` moves their sectors.

mod errors;
pub(crate) mod existing;
mod extents;
mod live;
mod metadata;
mod orders;
mod relocation;
mod relocation_file;
mod relocator;
mod settings;
pub mod shares;
pub mod slot;
mod space;
mod store;
mod table;
mod uuid;

pub use errors::{TableError, VolumeError};
pub use extents::{Extents, MAX_EXTENTS};
pub(crate) use live::{LiveVolume, Pass};
pub use metadata::{Area, Metadata, MetadataError, MetadataStep, OpenedMetadata, TableState};
pub use orders::{ClassNow, OrderError, VolumeNow, VolumeOrder, Volumes, VolumesNow};
pub use relocation::{
    RelocateOrder, RelocateTo, RelocateToError, Relocation, RelocationState, RelocationStatus,
};
pub(crate) use relocation_file::RelocationFile;
pub use settings::{ClassNames, ClassSettings, SettingsChange, VolumeClass, VolumeSettings};
pub use space::{DriveShape, FreeSpace};
pub use store::{StoreError, VolumeStore};
pub use table::{
    Ensured, Volume, VolumeOrigin, VolumeSpec, VolumeTable, check_description, check_name,
};
pub use uuid::DriveUuid;

/// Bytes at the start of the drive for the metadata.
pub const AREA_BYTES: u64 = 1 << 20;
/// The alignment of volumes in bytes: a multiple of every physical sector and of the stripe of
/// every common array.
pub const ALIGNMENT_BYTES: u64 = 1 << 20;
