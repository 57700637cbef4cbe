//! The block devices of the machine: the properties and users of each, and its suitability as a
//! drive.
//!
//! All data comes from the kernel's file systems ([`SystemPaths`]); no device is opened. Unknown
//! values are `None`: a container may mask `/sys`, and only root sees the open files of other
//! users' processes.

mod backing;
mod system;
mod users;
mod verdict;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use backing::{lock_backing, loop_device_of};
pub use system::SystemPaths;
pub(crate) use system::{chosen, word};
pub use users::DeviceUser;
pub use verdict::{DeviceRefusal, DeviceReject};

use system::{file_name, names_in};
use users::Usage;

/// A device by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The number of the device within its driver.
    pub minor: u32,
}

/// Shingled recording as the device says it; a drive that manages shingles by itself says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zoned {
    /// Any sector can be written at any time, as far as the drive says.
    No,
    /// The drive takes random writes and would like sequential ones.
    HostAware,
    /// The drive refuses what is not written in order.
    HostManaged,
}

/// A block device of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name, such as `sda` or `sda1`; another one after the next boot, perhaps.
    pub name: String,
    /// The kernel's number.
    pub number: DeviceNumber,
    /// Its node, such as `/dev/sda`.
    pub node: PathBuf,
    /// Its names that stay, such as `/dev/disk/by-id/ata-…`, the most telling first.
    pub by_id: Vec<PathBuf>,
    /// The whole disk, when this is a partition of one.
    pub disk: Option<String>,
    /// The model of the disk.
    pub model: Option<String>,
    /// The serial number of the disk.
    pub serial: Option<String>,
    /// Its size in bytes; 0 when there is no medium.
    pub bytes: u64,
    /// Bytes of a logical sector.
    pub logical_sector: u32,
    /// Bytes of a physical sector.
    pub physical_sector: u32,
    /// The distance in bytes of its start from a physical sector; `None` when the kernel only knows
    /// that it does.
    pub misaligned: Option<u32>,
    /// The kernel reports a rotating disk.
    pub rotational: bool,
    /// The recording is shingled.
    pub zoned: Zoned,
    /// The device refuses writes.
    pub read_only: bool,
    /// The kernel's scheduler in front of it.
    pub scheduler: Option<String>,
    /// The number of commands the drive, or else the kernel for it, holds at once.
    pub queue_depth: Option<u32>,
    /// `write back` when a write may be in a cache that a power cut empties, `write through` when
    /// not, as the kernel sees it.
    pub write_cache: Option<String>,
    /// The drive makes single writes durable itself (force unit access).
    pub fua: bool,
    /// The device supports discards.
    pub discard: bool,
    /// The content that udev found: a file system, a partition table with the file systems on its
    /// partitions.
    pub content: Option<String>,
    /// The users of the device or of its partitions.
    pub users: Vec<DeviceUser>,
}

impl BlockDevice {
    /// All devices that have a size, in the order of their names. The file of a loop device without
    /// other users is locked for a moment, to find its users.
    ///
    /// # Errors
    /// The system's, when it does not show block devices at all.
    pub fn list(system: &SystemPaths) -> io::Result<Vec<Self>> {
        let class = system.sys.join("class/block");
        std::fs::read_dir(&class)?;
        let usage = Usage::read(system);
        let devices = names_in(&class)
            .into_iter()
            .filter_map(|name| Self::in_directory(system, &class.join(name), &usage).ok());
        let with_users_of_file = |mut device: Self| {
            if device.users.is_empty() {
                device.users.extend(lock_backing(&device, system).err());
            }
            device
        };
        Ok(devices.filter(|device| device.bytes > 0).map(with_users_of_file).collect())
    }

    /// The device with this number.
    ///
    /// # Errors
    /// The system's: "not found" when there is none, or when the kernel's tree is not there.
    pub fn with_number(system: &SystemPaths, number: DeviceNumber) -> io::Result<Self> {
        Self::in_directory(
            system,
            &system.sys.join(format!("dev/block/{number}")),
            &Usage::read(system),
        )
    }

    fn in_directory(system: &SystemPaths, directory: &Path, usage: &Usage<'_>) -> io::Result<Self> {
        let directory = std::fs::canonicalize(directory)?;
        let unknown = |what: &str| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} does not say its {what}", directory.display()),
            )
        };
        let name = file_name(&directory).ok_or_else(|| unknown("name"))?;
        let number = number_of(&directory).ok_or_else(|| unknown("number"))?;
        let is_partition = directory.join("partition").exists();
        let disk_directory =
            if is_partition { directory.parent().unwrap_or(&directory) } else { &directory };
        let queue = disk_directory.join("queue");
        let udev = udev_properties(system, number);
        let property = |key: &str| property(&udev, key);
        let logical_sector = system::number(&queue.join("logical_block_size")).unwrap_or(512);
        Ok(Self {
            node: system.dev.join(name.replace('!', "/")),
            by_id: by_id(system, &name),
            disk: if is_partition { file_name(disk_directory) } else { None },
            model: word(&disk_directory.join("device/model")).or_else(|| property("ID_MODEL")),
            serial: serial(disk_directory).or_else(|| property("ID_SERIAL_SHORT")),
            bytes: system::number::<u64>(&directory.join("size")).unwrap_or(0) * SYSFS_SECTOR,
            logical_sector,
            physical_sector: system::number(&queue.join("physical_block_size"))
                .unwrap_or(logical_sector),
            misaligned: u32::try_from(
                system::number::<i64>(&directory.join("alignment_offset")).unwrap_or(0),
            )
            .ok(),
            rotational: word(&queue.join("rotational")).is_none_or(|flag| flag == "1"),
            zoned: match word(&queue.join("zoned")).as_deref() {
                Some("host-managed") => Zoned::HostManaged,
                Some("host-aware") => Zoned::HostAware,
                _ => Zoned::No,
            },
            read_only: [&directory, disk_directory]
                .iter()
                .any(|directory| word(&directory.join("ro")).is_some_and(|flag| flag == "1")),
            scheduler: word(&queue.join("scheduler")).map(|text| chosen(&text).to_owned()),
            queue_depth: system::number(&disk_directory.join("device/queue_depth"))
                .or_else(|| system::number(&queue.join("nr_requests"))),
            write_cache: word(&queue.join("write_cache")),
            fua: word(&queue.join("fua")).is_some_and(|flag| flag == "1"),
            discard: system::number::<u64>(&queue.join("discard_max_bytes")).unwrap_or(0) > 0,
            content: property("ID_FS_TYPE").or_else(|| {
                let partitions = contents_of_partitions(system, &directory);
                match property("ID_PART_TABLE_TYPE") {
                    Some(table) if partitions.is_empty() => {
                        Some(format!("{table} partition table"))
                    }
                    Some(table) => Some(format!("{table} partition table ({partitions})")),
                    None => (!partitions.is_empty()).then(|| format!("partitions ({partitions})")),
                }
            }),
            users: usage.of(&directory),
            name,
            number,
        })
    }

    /// The kernel's directory of the whole disk, which has the queue.
    pub(crate) fn disk_directory(&self, system: &SystemPaths) -> PathBuf {
        system.sys.join("class/block").join(self.disk_name())
    }

    /// A name that stays with the disk, when `path` is the kernel's, which may be another disk's
    /// after the next boot.
    #[must_use]
    pub fn better_name(&self, path: &Path) -> Option<&Path> {
        self.by_id.first().map(PathBuf::as_path).filter(|_| path == self.node)
    }

    /// The whole disk's name: the device's own unless it is a partition.
    #[must_use]
    pub fn disk_name(&self) -> &str {
        self.disk.as_deref().unwrap_or(&self.name)
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The properties that udev found of a device, as text.
fn udev_properties(system: &SystemPaths, number: DeviceNumber) -> String {
    let path = system.udev.join(format!("data/b{number}"));
    std::fs::read_to_string(path).unwrap_or_default()
}

fn property(udev: &str, key: &str) -> Option<String> {
    udev.lines()
        .find_map(|line| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='))
        .map(str::to_owned)
}

/// The partitions of a disk, each with its file system if udev has found one.
fn contents_of_partitions(system: &SystemPaths, disk: &Path) -> String {
    let of = |name: String| {
        let directory = disk.join(&name);
        let number = number_of(&directory).filter(|_| directory.join("partition").exists())?;
        let file_system = property(&udev_properties(system, number), "ID_FS_TYPE");
        Some(file_system.map_or(name.clone(), |file_system| format!("{file_system} on {name}")))
    };
    names_in(disk).into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// The number of the device in a directory of the kernel's tree.
fn number_of(directory: &Path) -> Option<DeviceNumber> {
    let text = word(&directory.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The links in `/dev/disk/by-id` that lead to `name`: those that name model and serial number
/// before those that name a number only.
fn by_id(system: &SystemPaths, name: &str) -> Vec<PathBuf> {
    let directory = system.dev.join("disk/by-id");
    let leads_here = |link: &String| {
        let target = std::fs::read_link(directory.join(link)).ok();
        target.as_deref().and_then(file_name).is_some_and(|target| target == name)
    };
    let mut links: Vec<String> = names_in(&directory).into_iter().filter(leads_here).collect();
    links.sort_by_key(|link| {
        ["wwn-", "nvme-eui.", "nvme-nvme.", "scsi-", "dm-uuid-", "lvm-pv-", "md-uuid-"]
            .iter()
            .any(|number| link.starts_with(number))
    });
    links.into_iter().map(|link| directory.join(link)).collect()
}

/// The serial number as the driver shows it: virtio and NVMe as text, SCSI as the page of vital
/// product data with four bytes before it.
fn serial(disk_directory: &Path) -> Option<String> {
    let page = || {
        let bytes = std::fs::read(disk_directory.join("device/vpd_pg80")).ok()?;
        let text = String::from_utf8_lossy(bytes.get(4..)?)
            .trim_matches(|c: char| c.is_whitespace() || c == '\0')
            .to_owned();
        (!text.is_empty()).then_some(text)
    };
    word(&disk_directory.join("serial"))
        .or_else(|| word(&disk_directory.join("device/serial")))
        .or_else(page)
}

/// The unit of sizes in sysfs, whatever the device's own sector.
const SYSFS_SECTOR: u64 = 512;

#[cfg(test)]
pub(crate) mod tests;
