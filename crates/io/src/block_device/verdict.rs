//! The suitability of a block device as a drive: reasons for a refusal, and properties that only
//! limit its use.

use std::fmt;

use headtime_units::SectorSize;

use super::{BlockDevice, DeviceUser, Zoned};

/// The reason why a device is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceRefusal {
    /// It has no size.
    NoMedium,
    /// It refuses writes.
    ReadOnly,
    /// It accepts only sequential writes.
    HostManaged,
    /// Its sector size is not supported.
    SectorSize(u32),
    /// Its size is not a multiple of its sector size.
    WrongSize {
        /// Its size.
        bytes: u64,
        /// Its sector.
        sector: u32,
    },
    /// It is in use. The list is empty if the users cannot be named.
    InUse(Vec<DeviceUser>),
}

/// A property of a device that limits its use as a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceReject {
    /// It does not rotate.
    NotRotating,
    /// It is shingled and manages that itself with the host's help.
    HostAware,
    /// It does not begin where a physical sector does.
    Misaligned,
    /// It is a part of a disk whose other parts move the head too.
    Partition {
        /// The disk.
        disk: String,
    },
    /// Something lies on it.
    Content(String),
}

impl BlockDevice {
    /// Returns the reasons against its use as a drive.
    #[must_use]
    pub fn refusals(&self) -> Vec<DeviceRefusal> {
        let mut refusals = Vec::new();
        if self.bytes == 0 {
            refusals.push(DeviceRefusal::NoMedium);
        }
        if self.read_only {
            refusals.push(DeviceRefusal::ReadOnly);
        }
        if self.zoned == Zoned::HostManaged {
            refusals.push(DeviceRefusal::HostManaged);
        }
        match SectorSize::new(self.logical_sector) {
            None => refusals.push(DeviceRefusal::SectorSize(self.logical_sector)),
            Some(size) if size.sectors_of(self.bytes).is_none() => {
                refusals.push(DeviceRefusal::WrongSize {
                    bytes: self.bytes,
                    sector: self.logical_sector,
                });
            }
            Some(_) => {}
        }
        if !self.users.is_empty() {
            refusals.push(DeviceRefusal::InUse(self.users.clone()));
        }
        refusals
    }

    /// Returns the properties that limit its use as a drive.
    #[must_use]
    pub fn rejects(&self) -> Vec<DeviceReject> {
        let mut rejects = Vec::new();
        if !self.rotational {
            rejects.push(DeviceReject::NotRotating);
        }
        if self.zoned == Zoned::HostAware {
            rejects.push(DeviceReject::HostAware);
        }
        if self.misaligned != Some(0) {
            rejects.push(DeviceReject::Misaligned);
        }
        rejects.extend(self.disk.clone().map(|disk| DeviceReject::Partition { disk }));
        rejects.extend(self.content.clone().map(DeviceReject::Content));
        rejects
    }
}

impl fmt::Display for DeviceRefusal {
    /// The reason and the remedy, without the device's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMedium => f.write_str(
                "it has no medium in it (its size is 0); insert one, or \
                attach a file to the loop device",
            ),
            Self::ReadOnly => f.write_str(
                "it is read-only; lift its write protection (blockdev --setrw), serve it with \
                    read_only (--read-only), or name another device",
            ),
            Self::HostManaged => f.write_str(
                "it is a host-managed shingled disk, which accepts only sequential writes; use a \
                    disk with conventional recording",
            ),
            Self::SectorSize(bytes) => write!(
                f,
                "its sectors have {bytes} bytes; expected a power \
                of two from 512 to 65536"
            ),
            Self::WrongSize { bytes, sector } => write!(
                f,
                "its {bytes} bytes are not a multiple of its sectors of {sector} bytes; check its \
                    driver"
            ),
            Self::InUse(users) if users.is_empty() => f.write_str(
                "it is in use, but its user is not visible from here: another process (as root, \
                    fuser -v names it), a pool of ZFS or btrfs, or another container; stop \
                    that first",
            ),
            Self::InUse(users) => {
                let named: Vec<String> =
                    users.iter().take(NAMED).map(ToString::to_string).collect();
                let more = if users.len() > NAMED {
                    format!(", and {} more", users.len() - NAMED)
                } else {
                    String::new()
                };
                write!(f, "it is in use: {}{more}; ", named.join(", "))?;
                if let Some(at) = users.iter().find_map(DeviceUser::system_mount) {
                    let at = at.display();
                    return write!(f, "{at} is part of the running system, so name another disk");
                }
                let remedies: Vec<String> =
                    users.iter().take(NAMED).map(DeviceUser::remedy).collect();
                write!(f, "to free it: {}", remedies.join(", "))
            }
        }
    }
}

impl fmt::Display for DeviceReject {
    /// The property and its consequence, without the device's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRotating => f.write_str(
                "it does not rotate: it has no head to schedule, so shares and deadlines are not \
                    guaranteed",
            ),
            Self::HostAware => f.write_str(
                "it is a host-aware shingled disk: it may rewrite bands at any time, so shares and \
                    deadlines are not guaranteed",
            ),
            Self::Misaligned => f.write_str(
                "it does not begin at a physical sector: aligned writes cost an additional read \
                    and a revolution; align the partition",
            ),
            Self::Partition { disk } => write!(
                f,
                "it is a part of {disk}: requests to its other parts move the same head and are \
                    not scheduled"
            ),
            Self::Content(content) => write!(
                f,
                "it holds {content}: serve that as it is with --existing; making volumes on it \
                    needs --initialize, and destroys that"
            ),
        }
    }
}

/// The maximum number of users in a message; a file system may have hundreds of mounts.
const NAMED: usize = 4;
