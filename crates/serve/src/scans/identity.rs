//! The identity of a drive without a server: the UUID of its table of volumes if it has one, so
//! that a server and a scan without a server share their state; otherwise its name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use headtime_io::{
    Drive, DriveHandle, DriveOptions, Io, IoError, Locator, RawOptions, block_device_at,
};
use headtime_tasks::ScanSubject;
use headtime_units::{Extent, Lba, Sectors};

use crate::volumes::{AREA_BYTES, DriveUuid};

/// The identity of an open drive.
pub(super) fn of_open_drive(handle: &DriveHandle, locator: &Locator) -> Result<[u8; 16], IoError> {
    let area = Sectors::new(AREA_BYTES / u64::from(handle.sector_size().bytes()));
    if handle.capacity() < area {
        return Ok(by_name(locator));
    }
    let read = |extent| handle.run(Io::read(extent)).result;
    let bytes = match read(Extent::new(Lba::new(0), area)) {
        Err(error) if is_of_medium(&error) => {
            let mut bytes = Vec::with_capacity(AREA_BYTES as usize);
            for sector in 0..area.get() {
                match read(Extent::from_numbers(sector, 1)) {
                    Err(error) if is_of_medium(&error) => {
                        bytes.resize(bytes.len() + handle.sector_size().bytes() as usize, 0)
                    }
                    other => bytes.extend_from_slice(&other?),
                }
            }
            bytes
        }
        other => other?.to_vec(),
    };
    Ok(table_of(&bytes).unwrap_or_else(|| by_name(locator)))
}

/// The identity of a drive that is not open. The drive is neither changed nor locked.
pub(super) fn of_closed_drive(locator: &Locator) -> io::Result<[u8; 16]> {
    let start_of = |path: &Path| {
        let mut bytes = Vec::new();
        File::open(path)?.take(AREA_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    };
    let bytes = match locator {
        Locator::Path(path) => start_of(path)?,
        Locator::Emulated(emulated) => start_of(&emulated.backing)?,
        Locator::Memory(_) | Locator::Simulated(_) => Vec::new(),
        Locator::Array(_) | Locator::Nbd(_) => {
            let drive = Drive::open(locator, DriveOptions::default()).map_err(io::Error::other)?;
            return of_open_drive(&drive.handle(), locator).map_err(io::Error::other);
        }
    };
    Ok(table_of(&bytes).unwrap_or_else(|| by_name(locator)))
}

/// The UUID of a valid table.
fn table_of(area: &[u8]) -> Option<[u8; 16]> {
    DriveUuid::of_area(area).map(|DriveUuid(uuid)| uuid)
}

/// The serial number of a disk, the path of a file or the URI of a server: a name that stays with
/// the drive.
pub(crate) fn by_name(locator: &Locator) -> [u8; 16] {
    let file = |path: &Path| {
        format!(
            "file {}",
            std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).display()
        )
    };
    let name = match locator {
        Locator::Path(path) => disk(path).unwrap_or_else(|| file(path)),
        Locator::Emulated(emulated) => file(&emulated.backing),
        Locator::Nbd(server) => server.uri.to_string(),
        Locator::Array(_) | Locator::Memory(_) | Locator::Simulated(_) => locator.to_string(),
    };
    ScanSubject::identity_by_name(&name)
}

/// The model and serial number of a block device, with the partition number.
fn disk(path: &Path) -> Option<String> {
    let device = block_device_at(path, &RawOptions::default().system).ok()??;
    let part = device.name.strip_prefix(device.disk_name()).unwrap_or_default();
    Some(format!(
        "disk {} {} {part}",
        device.model.as_deref().unwrap_or_default(),
        device.serial.as_deref()?
    ))
}

/// Returns whether this is a medium error, as opposed to an error of the drive.
fn is_of_medium(error: &IoError) -> bool {
    error.errno() == rustix::io::Errno::IO.raw_os_error() && !matches!(error, IoError::EngineFailed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::VolumeStore;

    #[test]
    fn a_drive_with_a_table_is_its_uuid_and_another_is_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.img");
        let locator = Locator::Path(path.clone());
        let drive = Drive::open(
            &locator,
            DriveOptions { create_bytes: Some(4 << 20), ..DriveOptions::default() },
        )
        .unwrap();
        assert_eq!(
            of_open_drive(&drive.handle(), &locator).unwrap(),
            by_name(&locator),
            "there is no table yet"
        );
        let (store, _) = VolumeStore::open(&drive.handle(), false).unwrap();
        let DriveUuid(uuid) = store.table().uuid();
        assert_eq!(of_open_drive(&drive.handle(), &locator).unwrap(), uuid);
        drop(drive);
        assert_eq!(of_closed_drive(&locator).unwrap(), uuid);
        // One valid copy is enough.
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 1;
        assert_eq!(table_of(&bytes), Some(uuid));
        bytes[(AREA_BYTES / 2) as usize + 50] ^= 1;
        assert_eq!(table_of(&bytes), None);
    }

    #[test]
    fn the_name_of_a_file_does_not_depend_on_how_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [0; 512]).unwrap();
        assert_eq!(
            by_name(&Locator::Path(path)),
            by_name(&Locator::Path(folder.path().join("./a")))
        );
    }
}
