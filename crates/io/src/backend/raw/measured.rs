//! A block device opened to be measured: for reading alone unless it may be written to, claimed for
//! this program unless others may go on using it.

use std::os::fd::OwnedFd;
use std::path::Path;

use headtime_units::SectorSize;
use rustix::fs::{Mode, OFlags, open as open_node};
use rustix::io::Errno;

use super::{Shape, block_device_at, refused, say};
use crate::block_device::{BlockDevice, DeviceRefusal};
use crate::kernel_settings::{KnobGuard, RawOptions};
use crate::open_error::OpenError;

/// An open device.
pub(crate) struct Measured {
    pub(crate) file: OwnedFd,
    pub(crate) sector_size: SectorSize,
    pub(crate) bytes: u64,
    /// The kernel's description; `None` if it has none.
    pub(crate) device: Option<BlockDevice>,
    /// Puts the kernel's settings back when it is dropped.
    pub(crate) knobs: Option<KnobGuard>,
}

/// The kind of access to a measured device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// Others may use it meanwhile.
    pub(crate) shared: bool,
    /// It may be written to.
    pub(crate) writes: bool,
}

/// Opens a block device past the page cache.
///
/// # Errors
/// See [`OpenError`]; nothing was changed then.
pub(crate) fn open(path: &Path, access: Access, raw: &RawOptions) -> Result<Measured, OpenError> {
    let device = block_device_at(path, &raw.system).ok().flatten();
    let matters = |refusal: &DeviceRefusal| match refusal {
        DeviceRefusal::ReadOnly => access.writes,
        DeviceRefusal::InUse(_) => !access.shared,
        _ => true,
    };
    if let Some(refusal) = device.iter().flat_map(BlockDevice::refusals).find(matters) {
        return Err(refused(path, refusal));
    }
    let mode = if access.writes { OFlags::RDWR } else { OFlags::RDONLY };
    let claim = if access.shared { OFlags::empty() } else { OFlags::EXCL };
    let file = open_node(
        path,
        mode | claim | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY,
        Mode::empty(),
    );
    let file = file.map_err(|errno| match errno {
        Errno::BUSY => refused(path, DeviceRefusal::InUse(Vec::new())),
        Errno::ROFS => refused(path, DeviceRefusal::ReadOnly),
        Errno::NXIO | Errno::NODEV => refused(path, DeviceRefusal::NoMedium),
        errno => OpenError::system(path, "opening")(errno),
    })?;
    let Shape { sector_size, bytes, .. } = Shape::of(path, &file)?;
    // What others use keeps the settings that they have chosen.
    let knobs = device.as_ref().filter(|_| !access.shared).and_then(|device| {
        let (knobs, reports) = KnobGuard::set(device, raw);
        say(device, &reports);
        knobs
    });
    Ok(Measured { file, sector_size, bytes, device, knobs })
}
