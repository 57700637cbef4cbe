//! The errors of opening a drive.

use std::path::{Path, PathBuf};

use headtime_belief::maps::BeginError;
use headtime_units::ByteSize;
use rustix::io::Errno;

use crate::block_device::{DeviceRefusal, DeviceUser};
use crate::nbd_error::NbdError;
use crate::sidecar::SidecarError;

/// The reason why a drive could not be opened. Nothing was changed unless the variant documents it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file does not exist.
    #[error("{} does not exist; {}", path.display(), instead_of(path))]
    NotThere {
        /// The file.
        path: PathBuf,
    },
    /// The file does not exist, and its name ends like a setting.
    #[error(
        "{} does not exist and ends in `,{setting}`, which looks like a setting; only emulated \
            drives have settings, joined by &, as in emulated:PROFILE?backing=FILE&seed=7; to use \
            a file of this name, create it first",
        path.display()
    )]
    SettingInName {
        /// The file.
        path: PathBuf,
        /// The part of its name that looks like a setting.
        setting: String,
    },
    /// A block device that cannot be used as a drive, or not at present.
    #[error("{} cannot be a drive: {refusal}", path.display())]
    Device {
        /// The device.
        path: PathBuf,
        /// The reason.
        refusal: DeviceRefusal,
    },
    /// A block device where the bytes of an emulated drive should be.
    #[error(
        "{} is a block device, but an emulated drive stores its data in a file; name a file, or \
            serve the device itself: {}",
        path.display(), path.display()
    )]
    BlockDevice {
        /// The device.
        path: PathBuf,
    },
    /// Something that cannot be a drive.
    #[error("{} is {kind} and cannot be a drive; name a regular file", path.display())]
    NoFile {
        /// The thing.
        path: PathBuf,
        /// Its kind.
        kind: &'static str,
    },
    /// Another process, or this one, uses the file as a drive.
    #[error(
        "{} is locked by another headtime; stop that one, or name another file",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Another program uses the file.
    #[error("{} is in use by {by}; stop that, or name another file", path.display())]
    InUseBy {
        /// The file.
        path: PathBuf,
        /// The program or device.
        by: String,
    },
    /// The file cannot be written.
    #[error(
        "{} cannot be opened for writing: {error}; make it writable, or serve it with read_only \
            (--read-only)",
        path.display()
    )]
    ReadOnlyFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The size of the file is zero or not a multiple of the sector size.
    #[error(
        "{} is {bytes} bytes long, not a multiple of sectors of {sector_bytes} bytes; \
            `truncate -s {remedy} {}` makes it a drive",
        path.display(), path.display()
    )]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
        /// The next valid length.
        remedy: u64,
    },
    /// An option is out of range.
    #[error("{option} = {value} is out of range; expected at least {least}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The smallest value that works.
        least: u64,
    },
    /// The profile is unknown, unreadable or wrong.
    #[error("profile of {locator}: {message}")]
    Profile {
        /// The drive.
        locator: String,
        /// The fault, from the reader of profiles.
        message: String,
    },
    /// The profile describes another drive.
    #[error(
        "profile {profile} describes a drive of {expected} bytes ({}), but {locator} has {bytes} \
            bytes ({}); run `headtime characterize` on this drive, or leave the profile out",
        ByteSize::new(*expected), ByteSize::new(*bytes)
    )]
    OtherProfile {
        /// The profile.
        profile: String,
        /// Its drive's size in bytes.
        expected: u64,
        /// The drive.
        locator: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The chosen map does not fit the drive.
    #[error("model: {0}")]
    Belief(Box<BeginError>),
    /// The sidecar of the backing file is unreadable or contradicts the request.
    #[error(transparent)]
    Sidecar(#[from] SidecarError),
    /// The backing file is not empty, is not as long as the profile's drive, and has no sidecar.
    #[error(
        "{} is {bytes} bytes long, but the drive of profile {profile} has {capacity} bytes ({}); \
            name a new file, or the one that belongs to this profile",
        path.display(), ByteSize::new(*capacity)
    )]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The profile requested.
        profile: String,
        /// The profile's capacity in bytes.
        capacity: u64,
    },
    /// A member of an array cannot be opened.
    #[error("member {number} of {count}: {error}")]
    Member {
        /// The member, from 1.
        number: usize,
        /// The number of members.
        count: usize,
        /// The reason.
        error: Box<OpenError>,
    },
    /// The members of an array have different sectors.
    #[error(
        "member {member} has sectors of {bytes} bytes, but {first} has {expected}; make an array \
            of drives with sectors of one size"
    )]
    MixedSectors {
        /// The member.
        member: String,
        /// Bytes of its sectors.
        bytes: u32,
        /// The first member.
        first: String,
        /// Bytes of that one's sectors.
        expected: u32,
    },
    /// A stripe does not end with a sector.
    #[error(
        "stripe={stripe} is not a multiple of the members' sectors of {sector_bytes} bytes; write \
            stripe={remedy}"
    )]
    StripeOfParts {
        /// Bytes of a stripe.
        stripe: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
        /// The next valid length.
        remedy: u64,
    },
    /// A member of an array is shorter than a stripe.
    #[error(
        "member {member} has {bytes} bytes, less than a stripe of {stripe}; write a smaller \
            stripe=, or leave this drive out"
    )]
    ShortMember {
        /// The member.
        member: String,
        /// Its size in bytes.
        bytes: u64,
        /// The bytes of a stripe.
        stripe: ByteSize,
    },
    /// A latency map was chosen for an array.
    #[error(
        "{locator}: a latency map describes one drive, not an array; leave the map out, or give \
            the members a profile"
    )]
    MapOfArray {
        /// The array.
        locator: String,
    },
    /// The system reported an error.
    #[error("{doing} {} failed: {error}{}", path.display(), remedy_of(error))]
    System {
        /// The file.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The system's answer.
        error: std::io::Error,
    },
    /// io_uring was requested and is not available.
    #[error(
        "io_uring is not available: {error}; permit it (sysctl kernel.io_uring_disabled=0), or \
            leave out the method, so that threads are used"
    )]
    NoUring {
        /// The system's answer.
        error: std::io::Error,
    },
    /// The drive is simulated, and this program was built without the simulation.
    #[error(
        "{locator}: this program was built without simulated drives; build it with \
            `--features simulation`, or name a file, a block device or an NBD server"
    )]
    NoSimulation {
        /// The drive.
        locator: String,
    },
    /// The NBD server cannot be used as a drive.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    /// A thread or a descriptor was refused.
    #[error(
        "the engine of the drive could not be started: {0}; raise the limits on threads and open \
            files"
    )]
    Engine(std::io::Error),
}

/// The remedy for an answer of the system, if it has one of its own.
fn remedy_of(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            "; its file system has no files of this length (ext4 with blocks of 1 KiB ends at 4 \
                TiB): name a file on another one (`mkfs.ext4 -b 4096`, xfs), or raise `ulimit -f`"
        }
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "; make room on its file system, or name a file on another one"
        }
        _ => "",
    }
}

/// The remedy for a missing path. No file belongs among the devices.
fn instead_of(path: &Path) -> String {
    if path.starts_with("/dev") {
        "check its name; `headtime devices` lists the devices of this machine".to_owned()
    } else {
        format!(
            "check its name, or create it with the size of the drive, such as \
                `truncate -s 10G {}`",
            path.display()
        )
    }
}

impl From<BeginError> for OpenError {
    fn from(error: BeginError) -> Self {
        Self::Belief(Box::new(error))
    }
}

impl OpenError {
    #[cfg(not(feature = "simulation"))]
    pub(crate) fn no_simulation(locator: &crate::locator::Locator) -> Self {
        Self::NoSimulation { locator: locator.to_string() }
    }

    /// Returns true if a retry may succeed soon: a killed process releases its file or device only
    /// after its last command has ended.
    #[must_use]
    pub fn may_pass_soon(&self) -> bool {
        match self {
            Self::InUse { .. } => true,
            Self::Member { error, .. } => error.may_pass_soon(),
            Self::Device { refusal: DeviceRefusal::InUse(users), .. } => {
                users.iter().all(DeviceUser::is_process)
            }
            _ => false,
        }
    }

    /// Returns whether the drive or an option was named wrongly, as opposed to a drive that cannot
    /// be used.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::NotThere { .. }
            | Self::SettingInName { .. }
            | Self::NoFile { .. }
            | Self::BadOption { .. }
            | Self::Profile { .. }
            | Self::OtherProfile { .. }
            | Self::Belief(_)
            | Self::MapOfArray { .. } => true,
            Self::Member { error, .. } => error.is_usage(),
            _ => false,
        }
    }

    /// For `map_err`: the system refused `doing` on `path`.
    pub(crate) fn system(path: &Path, doing: &'static str) -> impl FnOnce(Errno) -> Self {
        let path = path.to_owned();
        move |errno| Self::System { path, doing, error: errno.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_so_long_has_a_remedy() {
        let of = |errno| OpenError::system(Path::new("d.img"), "growing")(errno).to_string();
        let (long, full, other) = (of(Errno::FBIG), of(Errno::NOSPC), of(Errno::IO));
        assert!(long.contains("File too large") && long.contains("mkfs.ext4 -b 4096"), "{long}");
        assert!(full.contains("make room"), "{full}");
        assert!(other.ends_with("(os error 5)"), "{other}");
    }
}
