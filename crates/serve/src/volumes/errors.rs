//! The errors of the table of volumes.

use headtime_units::{ByteSize, Extent, Share};

use super::extents::MAX_EXTENTS;
use super::relocation::RelocateTo;
use super::slot;
use super::space::FreeSpace;

/// An invalid change of the table of volumes. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum VolumeError {
    /// An invalid name.
    #[error(
        "volume name `{name}`: expected 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with a dot or \
            dash; choose another name"
    )]
    Name { name: String },
    /// An invalid description.
    #[error(
        "volume {name}: the description has {bytes} bytes or a control character in it; expected \
            one line of at most {} bytes",
        slot::DESCRIPTION_BYTES
    )]
    Description { name: String, bytes: usize },
    /// A deadline of zero.
    #[error(
        "volume {name}: a deadline of 0 s cannot be met; leave the deadline out, or give a time \
            such as 100ms"
    )]
    Deadline { name: String },
    #[error(
        "volume {name}: a reserve of {reserve} is more than its limit of {limit}; lower the \
            reserve, or raise the limit"
    )]
    ReserveAboveLimit { name: String, reserve: Share, limit: Share },
    /// A limit of zero.
    #[error("volume {name}: {what} of 0 allows no request; leave it out (`none`), or raise it")]
    Nothing { name: String, what: &'static str },
    /// Too little free space, or too many extents.
    #[error(
        "volume {name} cannot grow to {}: {} is free on the drive, and a volume has at most \
            {MAX_EXTENTS} extents, so it can have at most {} bytes; request that, or remove or \
            shrink other volumes first",
        exactly(*requested), free, largest.get()
    )]
    CannotGrow { name: String, requested: ByteSize, free: ByteSize, largest: ByteSize },
    /// Shrinking would lose data.
    #[error(
        "volume {name}: at {} instead of {}, the data at its end would be lost; make sure that it \
            is not needed, then shrink it with `volume set` and `--cut-data` (`cut_data` at the \
            control socket)",
        exactly(*requested), exactly(*remembered)
    )]
    Cuts { name: String, remembered: ByteSize, requested: ByteSize },
    /// More reserved than available.
    #[error(
        "{name}: {requested} of the drive's time cannot be reserved, because {free} is free; \
            reserve less, or lower another reserve"
    )]
    Reserved { name: String, requested: Share, free: Share },
    /// A setting of the whole volume for a class.
    #[error("{export}: {key} is a setting of the whole volume; set it on {name}")]
    OfVolume { export: String, key: &'static str, name: String },
    #[error(
        "volume {name} is on the drive already; change it with `headtime volume set`, or choose \
            another name"
    )]
    Exists { name: String },
    /// A new volume without a size.
    #[error(
        "volume {name} does not exist; give a size to create it, such as {name}=10GiB; the drive \
            has {known}"
    )]
    NoSize { name: String, known: String },
    /// A size of zero.
    #[error("volume {name}: a size of 0 holds nothing; give a size such as 10GiB")]
    Empty { name: String },
    /// Not enough free space, or in too many extents.
    #[error(
        "volume {name}: {} does not fit: {} is free on the drive, and a volume has at most \
            {MAX_EXTENTS} extents, so it can have at most {} bytes; request that, or remove or \
            shrink other volumes first",
        exactly(*requested), free.total, free.largest.get()
    )]
    NoSpace { name: String, requested: ByteSize, free: FreeSpace },
    #[error(
        "volume {name}: the drive's table is full ({} volumes and classes); use fewer, larger ones",
        slot::MAX_ENTRIES
    )]
    TooMany { name: String },
    /// A volume that would come, go or change its size on a drive that is served as it is.
    #[error(
        "volume {name}: the drive is served as it is (`existing`) with {known}; only their \
            settings can change. Stop the server and use a partitioning program for the rest"
    )]
    Existing { name: String, known: String },
    #[error(
        "volume {name}: {} from {} on cannot be moved; expected a range within its {} that begins \
            and ends on a mebibyte, or ends with the volume; change --from or --size",
        exactly(*len), exactly(*from), exactly(*size)
    )]
    RelocateRange { name: String, from: ByteSize, len: ByteSize, size: ByteSize },
    /// An address within a mebibyte.
    #[error(
        "volume {name} cannot be moved to {}: extents begin on mebibytes; change --to",
        exactly(*address)
    )]
    RelocateAddress { name: String, address: ByteSize },
    /// Sectors there that are not free.
    #[error(
        "volume {name}: the {} of the drive from {} on are not all free; `headtime volume list \
            --json` shows the extents of all volumes; choose another place, or `--to largest-gap`",
        exactly(*len), exactly(*address)
    )]
    NotFree { name: String, len: ByteSize, address: ByteSize },
    #[error(
        "volume {name}: {} cannot be moved to {to}: that needs one free extent, and the longest \
            there is has {}; choose another place, move less at once (--from, --size), or remove \
            or shrink other volumes first",
        exactly(*len), exactly(*longest)
    )]
    NoPlace { name: String, len: ByteSize, to: RelocateTo, longest: ByteSize },
    /// It would move away from the requested end.
    #[error(
        "volume {name}: no free extent closer to the {to} of the drive is long enough; choose \
            another place, or move less at once (--from, --size)"
    )]
    NothingCloser { name: String, to: RelocateTo },
    /// The volume would have too many extents.
    #[error(
        "volume {name} would have {count} extents, and at most {MAX_EXTENTS} are possible; move \
            more of it at once, so that its extents are joined"
    )]
    RelocatedExtents { name: String, count: usize },
    #[error("there is no volume {name} on the drive; it has {known}")]
    Unknown { name: String, known: String },
}

/// An inconsistent table on the drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum TableError {
    /// A volume with an invalid name or description.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error("two volumes have the name {name} or the number {id}")]
    Twice { name: String, id: u32 },
    /// A number that was never assigned.
    #[error("volume {name} has number {id}, but the next unused number is {next}")]
    Number { name: String, id: u32, next: u32 },
    /// More extents than a volume may have.
    #[error("volume {name} has {count} extents; expected at most {MAX_EXTENTS}")]
    Extents { name: String, count: usize },
    /// An extent that is empty, unaligned, in the metadata area or past the end of the drive.
    #[error(
        "volume {name}: {extent} is not aligned, or not between the metadata area and the end \
            of the drive at LBA {capacity}"
    )]
    Extent { name: String, extent: Extent, capacity: u64 },
    /// Two volumes that share sectors.
    #[error("volumes {first} and {second} overlap")]
    Overlap { first: String, second: String },
}

/// Formats a size such that different sizes never look alike.
pub(super) fn exactly(size: ByteSize) -> String {
    format!("{size} ({} bytes)", size.get())
}
