//! A block device as a drive: checked, claimed exclusively, and served without the page cache.
//!
//! The kernel enforces the claim: `O_EXCL` fails with "busy" for a device with a mounted file
//! system, swap, or another device on top, also on one of its partitions or on its whole disk.
//! While the device is open here, nobody else can mount it. The checks before that explain a
//! refusal, and find processes that have the device open for writing without a claim.

mod device;
#[cfg(feature = "characterize")]
pub(crate) mod measured;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use headtime_units::SectorSize;
use rustix::fs::{
    FileType, FlockOperation, Mode, OFlags, SeekFrom, flock, fstat, ioctl_blkpbszget,
    ioctl_blksszget, major, minor, open as open_node, seek,
};
use rustix::io::Errno;

use crate::backend::OpenedDrive;
use crate::backend::file_drive::mover;
use crate::backend::pool::Pool;
use crate::backend::store::Store;
use crate::block_device::{BlockDevice, DeviceNumber, DeviceRefusal, SystemPaths, lock_backing};
use crate::kernel_settings::{KernelWatch, KnobGuard, KnobOutcome, KnobReport, RawOptions};
use crate::notifier::Notifier;
use crate::open_error::OpenError;
use crate::options::{DriveAccess, DriveOptions};
use crate::power::{PowerProbe, RawPower};
use crate::profile::ReportedModel;
use crate::sys;
use device::{RawDevice, Watch};

/// The block device that `path` leads to, through any links. `None` if it is something else or does
/// not exist.
///
/// # Errors
/// The system's, if it is a block device that sysfs does not show.
pub fn block_device_at(path: &Path, system: &SystemPaths) -> std::io::Result<Option<BlockDevice>> {
    device_number(path).map(|number| BlockDevice::with_number(system, number)).transpose()
}

fn device_number(path: &Path) -> Option<DeviceNumber> {
    let status = rustix::fs::stat(path).ok()?;
    let is_device = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
    is_device.then(|| DeviceNumber { major: major(status.st_rdev), minor: minor(status.st_rdev) })
}

/// Returns true if `path` leads to a block device.
pub(crate) fn is_block_device(path: &Path) -> bool {
    device_number(path).is_some()
}

/// Opens a block device as a drive.
///
/// # Errors
/// See [`OpenError`]. Nothing was changed then.
pub(crate) fn open(
    path: &Path,
    options: &DriveOptions,
    notifier: &Arc<Notifier>,
) -> Result<OpenedDrive, OpenError> {
    let raw = &options.raw;
    let device = look_at(path, raw, options.access)?;
    let file = claim(path, options, device.as_ref())?;
    let backing = match &device {
        Some(device) => lock_backing(device, &raw.system)
            .map_err(|user| refused(path, DeviceRefusal::InUse(vec![user])))?,
        None => None,
    };
    let Shape { sector_size, physical_block, bytes } = Shape::of(path, &file)?;
    let capacity = sector_size.sectors_of(bytes).expect("checked by Shape::of");
    let sector_bytes = u64::from(sector_size.bytes());

    let (knobs, device) = match device {
        Some(device) => {
            tell(path, &device);
            let (knobs, reports) = KnobGuard::set(&device, raw);
            say(&device, &reports);
            // The kernel settings have changed some of its properties.
            let device = BlockDevice::with_number(&raw.system, device.number).unwrap_or(device);
            (knobs, Some(device))
        }
        None => {
            tracing::warn!(path = %path.display(), "the kernel's tree of devices does not show \
                this one, so that its settings stay as they are");
            (None, None)
        }
    };
    let kernel: Vec<KernelWatch> =
        device.iter().map(|device| KernelWatch::new(device, raw, options.direct.into())).collect();
    for hindrance in kernel.iter().flat_map(KernelWatch::hindrances) {
        tracing::warn!("{hindrance}");
    }
    let drives_own =
        device.as_ref().and_then(|device| device.queue_depth).unwrap_or(QUEUE_DEPTH_UNKNOWN);
    let queue_depth = raw
        .queue_depth
        .map_or(drives_own, |requested| requested.min(drives_own))
        .clamp(1, MAX_QUEUE_DEPTH) as usize;
    let again = |file: &OwnedFd| file.try_clone().map_err(OpenError::Engine);
    let forgets = device.as_ref().is_some_and(|device| device.discard);
    let discards = if forgets {
        let store = Store::on_device(again(&file)?, sector_bytes, options.direct.into());
        Some(Pool::start(store, Arc::clone(notifier), DISCARD_THREADS).map_err(OpenError::Engine)?)
    } else {
        None
    };
    let mut power: Vec<Arc<dyn PowerProbe>> = Vec::new();
    if let Some(device) = &device
        && let Some(probe) = RawPower::of(device, &raw.system, again(&file)?)
    {
        power.push(Arc::new(probe));
    }
    // The kernel takes disks of virtual machines and devices on other devices for rotating ones;
    // those name no model.
    let rotates = device.as_ref().is_some_and(|device| device.rotational && device.model.is_some());
    let watch =
        Watch { path: path.to_owned(), file: again(&file)?, bytes, rotates, _backing: backing };
    let mover =
        mover(file, sector_bytes, options.direct.into(), queue_depth, options.io_method, notifier)?;
    let backend = Box::new(RawDevice::new(mover, discards, watch, knobs));
    Ok(OpenedDrive {
        model: device
            .as_ref()
            .and_then(|device| device.model.clone())
            .map_or(ReportedModel::Unknown, ReportedModel::Named),
        physical_block,
        // Without such writes in the drive, the kernel adds a flush after each. The scheduler then
        // sends the flush itself, because it observes its cost.
        fua: device.as_ref().is_none_or(|device| {
            device.fua || device.write_cache.as_deref() == Some("write through")
        }),
        kernel,
        power,
        ..OpenedDrive::new(backend, capacity, sector_size, queue_depth)
    })
}

/// Reads the kernel's description of the device, and refuses a device that cannot be a drive.
/// `None` if the kernel shows nothing, as in some containers.
fn look_at(
    path: &Path,
    raw: &RawOptions,
    access: DriveAccess,
) -> Result<Option<BlockDevice>, OpenError> {
    let Ok(Some(device)) = block_device_at(path, &raw.system) else { return Ok(None) };
    let read_only = access == DriveAccess::ReadOnly;
    let allowed = |refusal: &DeviceRefusal| read_only && *refusal == DeviceRefusal::ReadOnly;
    match device.refusals().into_iter().find(|refusal| !allowed(refusal)) {
        Some(refusal) => Err(refused(path, refusal)),
        None => Ok(Some(device)),
    }
}

/// Opens the device exclusively.
fn claim(
    path: &Path,
    options: &DriveOptions,
    device: Option<&BlockDevice>,
) -> Result<OwnedFd, OpenError> {
    let direct = if options.direct { OFlags::DIRECT } else { OFlags::empty() };
    let in_use = || {
        // Another program claimed it in the meantime, or is not visible from here.
        let now = device
            .and_then(|device| BlockDevice::with_number(&options.raw.system, device.number).ok());
        refused(path, DeviceRefusal::InUse(now.map_or_else(Vec::new, |device| device.users)))
    };
    let file = match open_node(
        path,
        options.access.flags() | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOCTTY | direct,
        Mode::empty(),
    ) {
        Ok(file) => file,
        Err(Errno::BUSY) => return Err(in_use()),
        Err(Errno::ROFS) => return Err(refused(path, DeviceRefusal::ReadOnly)),
        Err(Errno::NXIO | Errno::NODEV) => return Err(refused(path, DeviceRefusal::NoMedium)),
        Err(errno) => return Err(OpenError::system(path, "opening")(errno)),
    };
    let same = device.is_none_or(|device| {
        fstat(&file).is_ok_and(|status| {
            (major(status.st_rdev), minor(status.st_rdev))
                == (device.number.major, device.number.minor)
        })
    });
    if !same {
        return Err(OpenError::system(path, "opening")(Errno::NODEV));
    }
    let writes = options.access == DriveAccess::ReadWrite;
    if writes && sys::is_read_only(&file).map_err(OpenError::system(path, "looking at"))? {
        return Err(refused(path, DeviceRefusal::ReadOnly));
    }
    // Keeps udev from probing the device after each close.
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(in_use()),
        Err(errno) => Err(OpenError::system(path, "locking")(errno)),
    }
}

fn refused(path: &Path, refusal: DeviceRefusal) -> OpenError {
    OpenError::Device { path: path.to_owned(), refusal }
}

/// A device's sizes, from the device itself.
struct Shape {
    sector_size: SectorSize,
    physical_block: u32,
    bytes: u64,
}

impl Shape {
    fn of(path: &Path, file: &OwnedFd) -> Result<Self, OpenError> {
        let asking = |errno| OpenError::system(path, "asking for the sectors of")(errno);
        let sector = ioctl_blksszget(file.as_fd()).map_err(asking)?;
        let physical_block = ioctl_blkpbszget(file.as_fd()).map_err(asking)?.max(sector);
        let bytes = seek(file.as_fd(), SeekFrom::End(0)).map_err(asking)?;
        let sector_size = SectorSize::new(sector)
            .ok_or_else(|| refused(path, DeviceRefusal::SectorSize(sector)))?;
        if bytes == 0 {
            return Err(refused(path, DeviceRefusal::NoMedium));
        }
        if sector_size.sectors_of(bytes).is_none() {
            return Err(refused(path, DeviceRefusal::WrongSize { bytes, sector }));
        }
        Ok(Self { sector_size, physical_block, bytes })
    }
}

/// Logs the properties that limit the device's use.
fn tell(path: &Path, device: &BlockDevice) {
    let name = &device.name;
    for reject in device.rejects() {
        tracing::warn!(device = name, "{reject}");
    }
    if let Some(stays) = device.better_name(path) {
        tracing::warn!(
            "{} may be another disk after the next boot; name it {}",
            path.display(),
            stays.display()
        );
    }
    tracing::info!(
        device = name,
        model = device.model.as_deref().unwrap_or("unknown"),
        serial = device.serial.as_deref().unwrap_or("unknown"),
        logical_sector = device.logical_sector,
        physical_sector = device.physical_sector,
        write_cache = device.write_cache.as_deref().unwrap_or("unknown"),
        "raw device"
    );
}

fn say(device: &BlockDevice, reports: &[KnobReport]) {
    for report in reports {
        match report.outcome {
            KnobOutcome::NoEffect { .. } | KnobOutcome::LeftAlone { explicit: false, .. } => {
                tracing::warn!(device = device.name, "{report}")
            }
            KnobOutcome::LeftAlone { .. } | KnobOutcome::Already | KnobOutcome::Change { .. } => {
                tracing::info!(device = device.name, "{report}")
            }
        }
    }
}

/// The queue depth of a drive that does not report one: that of a SATA drive.
const QUEUE_DEPTH_UNKNOWN: u32 = 32;
/// The maximum queue depth (guess): one head does not use more. SAS drives report 254 and more.
const MAX_QUEUE_DEPTH: u32 = 256;
/// Discards arrive one at a time from a trimming client. More of them at once would only delay
/// reads.
const DISCARD_THREADS: usize = 1;
