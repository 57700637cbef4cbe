//! The drive at a path as it would be opened, without claiming or changing it.

use std::path::Path;

use headtime_units::{SectorSize, Sectors};

use super::file::{check_kind, check_missing};
use super::file_drive::{FILE_SECTOR, check_size, created_size};
use super::raw;
use crate::block_device::{BlockDevice, DeviceRefusal};
use crate::locator::Locator;
use crate::model;
use crate::open_error::OpenError;
use crate::options::{DriveAccess, DriveOptions};

/// The shape of a drive that was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectedDrive {
    /// The size of its logical sectors.
    pub sector_size: SectorSize,
    /// Their number.
    pub capacity: Sectors,
}

/// Finds out whether the file or block device at `path` could be opened as a drive with these
/// options. Programs that use it are no reason against that, since they may have ended by then.
/// `None` for a device that the kernel does not show, as in some containers.
///
/// # Errors
/// The error with which opening would fail.
pub fn inspect_path(
    path: &Path,
    options: &DriveOptions,
) -> Result<Option<InspectedDrive>, OpenError> {
    let found = match raw::block_device_at(path, &options.raw.system) {
        Ok(Some(device)) => inspect_device(path, &device, options)?,
        Ok(None) => inspect_file(path, options)?,
        Err(_) => return Ok(None),
    };
    if let Some(profile) = &options.profile {
        let locator = Locator::Path(path.to_owned());
        model::profile(profile, &locator, found.capacity, found.sector_size)?;
    }
    Ok(Some(found))
}

fn inspect_device(
    path: &Path,
    device: &BlockDevice,
    options: &DriveOptions,
) -> Result<InspectedDrive, OpenError> {
    let read_only = options.access == DriveAccess::ReadOnly;
    let passes = |refusal: &DeviceRefusal| match refusal {
        DeviceRefusal::ReadOnly => read_only,
        DeviceRefusal::InUse(users) => users.iter().all(|user| user.is_process()),
        _ => false,
    };
    if let Some(refusal) = device.refusals().into_iter().find(|refusal| !passes(refusal)) {
        return Err(OpenError::Device { path: path.to_owned(), refusal });
    }
    let sector_size = SectorSize::new(device.logical_sector).expect("other sizes are refused");
    let capacity = sector_size.sectors_of(device.bytes).expect("other sizes are refused");
    Ok(InspectedDrive { sector_size, capacity })
}

fn inspect_file(path: &Path, options: &DriveOptions) -> Result<InspectedDrive, OpenError> {
    let bytes = match (rustix::fs::stat(path), options.create_bytes) {
        (Ok(status), _) => {
            check_kind(path, &status)?;
            status.st_size as u64
        }
        (Err(rustix::io::Errno::NOENT), create_bytes) => {
            check_missing(path, create_bytes)?;
            created_size(create_bytes.unwrap_or_default())
        }
        (Err(errno), _) => return Err(OpenError::system(path, "looking at")(errno)),
    };
    check_size(path, bytes, FILE_SECTOR)?;
    let capacity = Sectors::new(bytes / u64::from(FILE_SECTOR.bytes()));
    Ok(InspectedDrive { sector_size: FILE_SECTOR, capacity })
}
