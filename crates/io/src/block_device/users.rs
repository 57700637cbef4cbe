//! The users of a block device: mounts, swap, devices built on it, and processes that may write to
//! it.
//!
//! The kernel protects a claimed device (opened with `O_EXCL`). This module only finds the text of
//! the error. It may miss a user in another mount namespace, a file system on several devices, or a
//! process of another user.

use std::fmt;
use std::path::{Path, PathBuf};

use super::system::{file_name, names_in, unescaped, word};
use super::{DeviceNumber, SystemPaths, number_of};

/// A user of a device or of a partition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceUser {
    /// A file system of it is mounted.
    Mount {
        /// The device or partition.
        device: String,
        /// The mount point.
        at: PathBuf,
    },
    /// The system swaps to it.
    Swap {
        /// The device or partition.
        device: String,
    },
    /// Another block device is made of it.
    Holder {
        /// The device or partition.
        device: String,
        /// The other block device.
        holder: String,
        /// The name that people gave that one, of a volume group for example.
        called: Option<String>,
    },
    /// A process has it open for writing.
    Process {
        /// The device or partition.
        device: String,
        /// The process.
        pid: u32,
        /// The program.
        program: String,
    },
    /// Another program uses the file of the loop device.
    OfFile {
        /// The loop device.
        device: String,
        /// The file.
        file: PathBuf,
        /// The program.
        by: &'static str,
    },
}

impl DeviceUser {
    /// The command that ends the use.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Mount { at, .. } => format!("umount {}", at.display()),
            Self::Swap { device } => format!("swapoff /dev/{device}"),
            Self::Holder { holder, .. } if holder.starts_with("md") => {
                format!("mdadm --stop /dev/{holder}")
            }
            Self::Holder { holder, .. } if holder.starts_with("dm-") => {
                format!("dmsetup remove or vgchange -an what is {holder}")
            }
            Self::Holder { holder, .. } if holder.starts_with("loop") => {
                format!("losetup -d /dev/{holder}")
            }
            Self::Holder { holder, .. } => format!("take {holder} down"),
            Self::Process { pid, program, .. } => format!("stop {program} (process {pid})"),
            Self::OfFile { .. } => "stop that program".to_owned(),
        }
    }

    /// A mount point without which the running system cannot do.
    pub(super) fn system_mount(&self) -> Option<&Path> {
        match self {
            Self::Mount { at, .. } => Some(at.as_path())
                .filter(|at| SYSTEM.iter().any(|of_system| *at == Path::new(of_system))),
            _ => None,
        }
    }

    /// Returns true if the use ends with a process.
    #[must_use]
    pub fn is_process(&self) -> bool {
        matches!(self, Self::Process { .. } | Self::OfFile { .. })
    }
}

impl fmt::Display for DeviceUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { device, at } => write!(f, "{device} is mounted on {}", at.display()),
            Self::Swap { device } => write!(f, "{device} is swap space"),
            Self::Holder { device, holder, called: None } => {
                write!(f, "{device} is part of {holder}")
            }
            Self::Holder { device, holder, called: Some(called) } => {
                write!(f, "{device} is held by {holder} ({called})")
            }
            Self::Process { device, pid, program } => {
                write!(f, "{device} is open for writing by {program} (process {pid})")
            }
            Self::OfFile { device, file, by } => {
                write!(f, "{}, the file of {device}, is locked by {by}", file.display())
            }
        }
    }
}

/// The users of all block devices of the machine, read once.
pub(super) struct Usage<'s> {
    system: &'s SystemPaths,
    mounts: String,
    swaps: String,
    /// Loop devices and what each is made of.
    loops: Vec<(String, String)>,
    writers: Vec<Writer>,
}

/// A process that has a device open for writing.
struct Writer {
    /// The device's node below `/dev`.
    node: PathBuf,
    pid: u32,
    program: String,
}

impl<'s> Usage<'s> {
    pub(super) fn read(system: &'s SystemPaths) -> Self {
        let class = system.sys.join("class/block");
        let loops = names_in(&class).into_iter().filter(|name| name.starts_with("loop"));
        let loops = loops.filter_map(|name| {
            let backing = word(&class.join(&name).join("loop/backing_file"))?;
            Some((name, system.device_name(Path::new(&backing))?))
        });
        Self {
            system,
            mounts: std::fs::read_to_string(system.proc.join("self/mountinfo")).unwrap_or_default(),
            swaps: std::fs::read_to_string(system.proc.join("swaps")).unwrap_or_default(),
            loops: loops.collect(),
            writers: writers(system),
        }
    }

    /// The users of the device in `directory` of the kernel's tree, of its partitions, and of the
    /// whole disk when it is a partition.
    pub(super) fn of(&self, directory: &Path) -> Vec<DeviceUser> {
        let disk = if directory.join("partition").exists() { directory.parent() } else { None };
        let partitions = names_in(directory)
            .into_iter()
            .map(|entry| directory.join(entry))
            .filter(|entry| entry.join("partition").exists());
        let devices: Vec<PathBuf> = std::iter::once(directory.to_owned())
            .chain(disk.map(Path::to_owned))
            .chain(partitions)
            .collect();
        let mut users: Vec<DeviceUser> =
            devices.iter().flat_map(|device| self.without_processes(device)).collect();
        for device in devices.iter().filter_map(|device| file_name(device)) {
            let node = PathBuf::from(device.replace('!', "/"));
            for Writer { pid, program, .. } in
                self.writers.iter().filter(|writer| writer.node == node)
            {
                let user = DeviceUser::Process {
                    device: device.clone(),
                    pid: *pid,
                    program: program.clone(),
                };
                if !users.contains(&user) {
                    users.push(user);
                }
            }
        }
        users
    }

    fn without_processes(&self, directory: &Path) -> Vec<DeviceUser> {
        let (Some(name), Some(number)) = (file_name(directory), number_of(directory)) else {
            return Vec::new();
        };
        let mut users: Vec<DeviceUser> = self
            .mounts
            .lines()
            .filter_map(|line| mounted(self.system, line, &name, number))
            .collect();
        users.extend(
            self.swaps.lines().skip(1).filter_map(|line| swapped(self.system, line, &name)),
        );
        users.extend(names_in(&directory.join("holders")).into_iter().map(|holder| {
            let called = word(&self.system.sys.join("class/block").join(&holder).join("dm/name"));
            DeviceUser::Holder { device: name.clone(), holder, called }
        }));
        // A loop device on a device claims nothing and is no holder.
        let made_of_it = self.loops.iter().filter(|(_, backing)| *backing == name);
        users.extend(made_of_it.map(|(looped, _)| DeviceUser::Holder {
            device: name.clone(),
            holder: looped.clone(),
            called: None,
        }));
        users
    }
}

/// A line of `mountinfo`: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`. Where a
/// file system of several devices has no number of its own there, the source is one of its devices.
fn mounted(
    system: &SystemPaths,
    line: &str,
    name: &str,
    number: DeviceNumber,
) -> Option<DeviceUser> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let by_number = before.next()? == number.to_string();
    let at = unescaped(before.nth(1)?);
    let source = unescaped(after.split(' ').nth(1)?);
    let here = by_number || system.device_name(&source).is_some_and(|source| source == name);
    here.then(|| DeviceUser::Mount { device: name.to_owned(), at })
}

/// A line of `swaps`: `/dev/sda2 partition 1000 0 -2`.
fn swapped(system: &SystemPaths, line: &str, name: &str) -> Option<DeviceUser> {
    let path = unescaped(line.split_whitespace().next()?);
    (system.device_name(&path)? == name).then(|| DeviceUser::Swap { device: name.to_owned() })
}

/// Whatever below `/dev` is open for writing, by which processes; devices that are no block devices
/// are among them.
fn writers(system: &SystemPaths) -> Vec<Writer> {
    let mut writers = Vec::new();
    for process in names_in(&system.proc) {
        let Ok(pid) = process.parse::<u32>() else { continue };
        let directory = system.proc.join(&process);
        for descriptor in names_in(&directory.join("fd")) {
            let Some(target) = std::fs::read_link(directory.join("fd").join(&descriptor)).ok()
            else {
                continue;
            };
            let Ok(node) = target.strip_prefix("/dev") else { continue };
            let may_write = open_flags(&directory.join("fdinfo").join(&descriptor))
                .is_some_and(|flags| flags & ACCESS_MODE != 0);
            if may_write {
                let program =
                    word(&directory.join("comm")).unwrap_or_else(|| "a process".to_owned());
                writers.push(Writer { node: node.to_owned(), pid, program });
            }
        }
    }
    writers
}

/// Returns the flags of an open file, in octal after `flags:`.
fn open_flags(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(flags.trim(), 8).ok()
}

/// Mount points that stay as long as the system runs.
const SYSTEM: [&str; 6] = ["/", "/boot", "/boot/efi", "/usr", "/var", "/etc"];
/// Zero in these bits means read only.
const ACCESS_MODE: u32 = 0o3;
