//! Volumes on a drive: which there are, where each lies, and how the drive itself remembers.
//!
//! # Where
//!
//! The first mebibyte of the drive is the *metadata area*; volumes lie behind it, each one
//! contiguous run of sectors that starts on a mebibyte.
//!
//! ```text
//! byte      0        256 KiB     512 KiB     768 KiB       1 MiB                                        end of the drive
//!           ├─ slot A ─┤  unused  ├─ slot B ─┤   unused     ├─ volume ─┤ free ├── volume ──┤ free …        │
//! ```
//!
//! # Why on the drive and not in a file beside it
//!
//! The volumes travel with the drive: moved to another machine, it is served there as it was. Table
//! and data cannot be lost without each other, cannot be restored from backups of different days,
//! and a second drive can never be opened with the first one's table. Nothing else has to be
//! writable, so a container or an initramfs can serve a drive. The price is one mebibyte, and one
//! short seek to the drive's edge whenever a volume is added or changed: never on a request's way.
//!
//! # Why it survives
//!
//! Both slots hold the whole table (at most 1,023 volumes, 256 KiB) under one CRC-32C and a
//! generation. A change writes the slot with the older generation, flushes, then writes the other,
//! and flushes. Cut off anywhere, at least one slot is whole, and it says what was true before the
//! change or what is true after it, nothing between; [`Metadata::open`] takes the valid one with
//! the higher generation and repairs the other. Because both slots end up with the new table, a
//! sector that rots later loses nothing either: writing only one of them would make the fallback an
//! *older* table, in which a volume may be missing.
//!
//! A drive's first table has no volumes, and of the block that it fills all but one sector stays
//! zero, so that it is there or not, even torn; volumes are added by a change like any other.
//!
//! A sector that the drive cannot read, as a power failure may leave one behind, is as good as a
//! torn write: the other slot counts, and the repair writes the sector again.
//!
//! # What is refused
//!
//! A drive with anything else than zeroes in its metadata area and no valid slot is never taken
//! over silently: foreign content and damaged tables are refused with the remedy, unless
//! `initialize` says that the content may go. `initialize` never touches a drive with a valid
//! table. A table of a newer format is refused in any case.
//!
//! # The parts
//!
//! [`VolumeTable`] allocates and checks; [`slot`] turns it into bytes and back; [`Metadata`]
//! decides which slot counts and plans [`MetadataStep`]s. These three do no I/O. [`VolumeStore`] carries
//! the steps out through the drive's scheduler, like every other request, as the server's own,
//! which wait for no tenant's turn. [`Volumes`] changes all this while it is being served.

mod errors;
mod live;
mod metadata;
mod orders;
mod settings;
pub mod shares;
pub mod slot;
mod store;
mod table;
mod uuid;

pub use errors::{TableError, VolumeError};
pub(crate) use live::{LiveVolume, Pass};
pub use metadata::{Metadata, MetadataError, MetadataStep, OpenedMetadata, TableState};
pub use orders::{ClassNow, OrderError, VolumeNow, VolumeOrder, Volumes, VolumesNow};
pub use settings::{
    ClassNames, ClassSettings, Classes, SettingsChange, VolumeClass, VolumeSettings,
};
pub use store::{StoreError, VolumeStore};

pub use table::{
    DriveShape, Ensured, FreeSpace, Volume, VolumeSpec, VolumeTable, check_description, check_name,
};
pub use uuid::DriveUuid;

/// Bytes at the start of the drive that belong to the metadata.
pub const AREA_BYTES: u64 = 1 << 20;
/// Volumes start on multiples of this, in bytes: a multiple of every physical sector and of the
/// stripe of every common array.
pub const ALIGNMENT_BYTES: u64 = 1 << 20;
