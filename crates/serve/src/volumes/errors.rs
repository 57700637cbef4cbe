//! Why a table of volumes, or a change of one, is refused.

use headtime_units::{ByteSize, Extent, Share};

use super::slot;
use super::table::FreeSpace;

/// Why a volume cannot be had as wanted. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The name breaks the rules.
    #[error(
        "volume name `{name}`: expected 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with a dot or \
            dash; choose another name"
    )]
    Name {
        /// The name as given.
        name: String,
    },
    /// The description breaks the rules.
    #[error(
        "volume {name}: the description has {bytes} bytes or a control character in it; expected \
            one line of at most {} bytes",
        slot::DESCRIPTION_BYTES
    )]
    Description {
        /// The volume.
        name: String,
        /// Length of the description in bytes.
        bytes: usize,
    },
    /// A deadline of nothing.
    #[error(
        "volume {name}: a deadline of 0 s cannot be held; leave the deadline out, or give a time \
            such as 100ms"
    )]
    Deadline {
        /// The volume.
        name: String,
    },
    /// More reserved than allowed.
    #[error(
        "volume {name}: a reserve of {reserve} is more than its limit of {limit}; lower the \
            reserve, or raise the limit"
    )]
    ReserveAboveLimit {
        /// The volume.
        name: String,
        /// What is to be reserved for it.
        reserve: Share,
        /// The most it is given.
        limit: Share,
    },
    /// A limit that lets nothing through.
    #[error("volume {name}: {what} of 0 lets nothing through; leave it out (`none`), or raise it")]
    Nothing {
        /// The volume.
        name: String,
        /// The setting.
        what: &'static str,
    },
    /// It cannot grow where it lies.
    #[error(
        "volume {name} cannot grow to {} where it lies: behind it {} is free, so that it can have \
            at most {} bytes; \
         ask for that, or add a larger volume and copy its content",
        exactly(*wanted), behind, most.get()
    )]
    NoRoomBehind {
        /// The volume.
        name: String,
        /// The size asked for.
        wanted: ByteSize,
        /// What is free behind it.
        behind: ByteSize,
        /// The largest size it can have.
        most: ByteSize,
    },
    /// It would lose its end.
    #[error(
        "volume {name} has {}, and at {} all behind that would be lost; make sure that nobody uses \
            the end, then say so with `--cut-data` (`cut_data` at the control socket)",
        exactly(*remembered), exactly(*wanted)
    )]
    Cuts {
        /// The volume.
        name: String,
        /// Its size.
        remembered: ByteSize,
        /// The size asked for.
        wanted: ByteSize,
    },
    /// More would be reserved than there is.
    #[error(
        "{name}: {wanted} of the drive's time cannot be reserved, because {free} is free; ask for \
            no more, or lower another reserve"
    )]
    Reserved {
        /// The volume or class.
        name: String,
        /// What was asked for, with what other classes of the volume have.
        wanted: Share,
        /// What it could have.
        free: Share,
    },
    /// A setting of a whole volume, given to a class.
    #[error("{export}: {key} is a setting of the whole volume; set it on {name}")]
    OfVolume {
        /// The class's export.
        export: String,
        /// The setting.
        key: &'static str,
        /// The volume.
        name: String,
    },
    /// The volume exists.
    #[error(
        "volume {name} is on the drive already; change it with `headtime volume set`, or choose \
            another name"
    )]
    Exists {
        /// The volume.
        name: String,
    },
    /// The volume exists with another size.
    #[error(
        "volume {name} has {} on the drive, but {} was asked for; ask for {} bytes, leave the size \
            out, or choose another name (`headtime volume set {name} size=…` resizes it)",
        exactly(*remembered), exactly(*wanted), remembered.get()
    )]
    OtherSize {
        /// The volume.
        name: String,
        /// Its size on the drive.
        remembered: ByteSize,
        /// The size asked for.
        wanted: ByteSize,
    },
    /// A new volume without a size.
    #[error(
        "volume {name} is not on the drive yet, so it needs a size, such as {name}=10GiB; the \
            drive has {known}"
    )]
    NoSize {
        /// The volume.
        name: String,
        /// The names on the drive, or that there are none.
        known: String,
    },
    /// The size is zero or no whole number of sectors.
    #[error("volume {name}: {} is no whole number of sectors of {sector} bytes; ask for {} bytes", exactly(*wanted), next_multiple(*wanted, *sector))]
    Size {
        /// The volume.
        name: String,
        /// The size asked for.
        wanted: ByteSize,
        /// The drive's sector in bytes.
        sector: u32,
    },
    /// It does not fit.
    #[error(
        "volume {name}: {} does not fit: {} is free, the largest run {}; ask for at most {} bytes",
        exactly(*wanted), free.total, free.largest, free.largest.get()
    )]
    NoSpace {
        /// The volume.
        name: String,
        /// The size asked for.
        wanted: ByteSize,
        /// What is free.
        free: FreeSpace,
    },
    /// The table is full.
    #[error(
        "volume {name}: the drive's table has room for {} volumes and classes, and is full; use \
            fewer, larger ones",
        slot::MAX_ENTRIES
    )]
    TooMany {
        /// The volume.
        name: String,
    },
    /// No volume of that name.
    #[error("there is no volume {name} on the drive; it has {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names on the drive, or that there are none.
        known: String,
    },
}

/// Why a table that was read cannot be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A volume with a name or description that could not have been written.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Two volumes of one name or number.
    #[error("two volumes are called {name} or have the number {id}")]
    Twice {
        /// The name.
        name: String,
        /// The number.
        id: u32,
    },
    /// A number that was never given out.
    #[error("volume {name} has number {id}, but the next number to be given out is {next}")]
    Number {
        /// The volume.
        name: String,
        /// Its number.
        id: u32,
        /// The next number.
        next: u32,
    },
    /// An extent that is empty, not aligned, in the metadata area or past the end of the drive.
    #[error(
        "volume {name} lies at {extent}, which is not aligned, or not between the metadata area \
            and the end of the drive at LBA {capacity}"
    )]
    Extent {
        /// The volume.
        name: String,
        /// Its extent.
        extent: Extent,
        /// The drive's size in sectors.
        capacity: u64,
    },
    /// Two volumes share sectors.
    #[error("volumes {first} and {second} overlap")]
    Overlap {
        /// The one with the lower address.
        first: String,
        /// The other.
        second: String,
    },
}

/// A size for messages in which two sizes must not look alike.
fn exactly(size: ByteSize) -> String {
    format!("{size} ({} bytes)", size.get())
}

fn next_multiple(size: ByteSize, sector: u32) -> u64 {
    size.get()
        .max(1)
        .checked_next_multiple_of(u64::from(sector))
        .unwrap_or(size.get() / u64::from(sector) * u64::from(sector))
}
