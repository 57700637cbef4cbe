//! The volumes of a drive that is served as it is: the whole drive as [`WHOLE`], and each partition
//! of its GPT. Nothing is written to the drive.
//!
//! Where the partitions lie is read from the drive at each start. Their settings are remembered in
//! a file of the state directory, by name, in the format of a [`slot`].
//!
//! A GPT counts only with a protective MBR, as for the kernel: the backup at the end of a drive may
//! be left from an earlier use. Where the kernel would use the backup, so does this program.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gpt::GptConfig;
use gpt::disk::LogicalBlockSize;
use gpt::partition::Partition;
use headtime_io::{Io, IoError};
use headtime_sched::VolumeId;
use headtime_units::{Extent, Lba, SectorSize};

use super::settings::VolumeSettings;
use super::slot::{self, DESCRIPTION_BYTES, NAME_BYTES, SlotContent};
use super::store::StoreError;
use super::table::{Volume, VolumeOrigin, VolumeTable, check_name};
use super::uuid::DriveUuid;
use super::{AREA_BYTES, DriveShape};
use crate::disk::Disk;
use crate::state_file;

/// The name of the volume that is the whole drive.
pub(crate) const WHOLE: &str = "disk";

/// The file with the settings of a drive's volumes; `None` keeps them until the server ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SettingsFile(Option<PathBuf>);

impl SettingsFile {
    /// The file of this drive in the state directory.
    pub(crate) fn new(directory: Option<&Path>, drive: [u8; 16]) -> Self {
        Self(directory.map(|directory| state_file::path(directory, drive, "volumes")))
    }

    /// The remembered volumes; none without a file.
    fn read(&self) -> Result<Vec<Volume>, StoreError> {
        let Some(path) = &self.0 else { return Ok(Vec::new()) };
        let unusable =
            |fault: String| StoreError::Settings { path: path.display().to_string(), fault };
        let bytes = state_file::read(path).map_err(|error| unusable(error.to_string()))?;
        let Some(bytes) = bytes else { return Ok(Vec::new()) };
        match slot::decode_as(&bytes, VolumeOrigin::Existing) {
            SlotContent::Table { table, .. } => Ok(table.volumes().to_vec()),
            SlotContent::Unsupported { version } => Err(unusable(format!(
                "it has format {version}, and this program knows {}",
                slot::FORMAT_VERSION
            ))),
            SlotContent::Damaged(fault) => Err(unusable(fault.to_string())),
            _ => Err(unusable("it holds no settings of volumes".to_owned())),
        }
    }

    /// Replaces the remembered volumes by those of `table`.
    pub(super) fn write(&self, table: &VolumeTable) -> Result<(), StoreError> {
        let Some(path) = &self.0 else { return Ok(()) };
        state_file::replace(path, &slot::encode(table, 1)).map_err(|error| StoreError::Settings {
            path: path.display().to_string(),
            fault: error.to_string(),
        })
    }
}

/// The table of the volumes that are on the drive, with their remembered settings.
pub(super) fn table(
    disk: &dyn Disk,
    drive: [u8; 16],
    settings: &SettingsFile,
) -> Result<VolumeTable, StoreError> {
    let shape = disk.shape();
    let mut reader = SectorReader { disk, at: 0 };
    let mut first = Vec::new();
    Read::by_ref(&mut reader).take(AREA_BYTES).read_to_end(&mut first).map_err(read_error)?;
    if DriveUuid::of_area(&first).is_some() {
        return Err(StoreError::HasTable);
    }
    let whole = Extent::new(Lba::new(0), shape.capacity);
    let mut volumes = vec![Volume {
        id: VolumeId(1),
        name: WHOLE.to_owned(),
        extents: whole.into(),
        settings: VolumeSettings::default(),
    }];
    if has_protective_mbr(&first) {
        partitions(reader, shape, &mut volumes)?;
    }
    let remembered = settings.read()?;
    for volume in &mut volumes {
        if let Some(before) = remembered.iter().find(|before| before.name == volume.name) {
            volume.settings = before.settings.clone();
        }
    }
    let next = volumes.iter().map(|volume| volume.id.0).max().unwrap_or_default() + 1;
    VolumeTable::from_parts(VolumeOrigin::Existing, DriveUuid(drive), shape, next, volumes)
        .map_err(|error| StoreError::Partitions(error.to_string()))
}

/// Adds the partitions of the drive's GPT.
fn partitions(
    reader: SectorReader<'_>,
    shape: DriveShape,
    volumes: &mut Vec<Volume>,
) -> Result<(), StoreError> {
    let block = match shape.sector {
        SectorSize::B512 => LogicalBlockSize::Lb512,
        SectorSize::B4096 => LogicalBlockSize::Lb4096,
        other => {
            tracing::warn!("the partitions are not served: GPT has no sectors of {other:?}");
            return Ok(());
        }
    };
    let opened = GptConfig::new().writable(false).logical_block_size(block);
    let table = opened
        .open_from_device(reader)
        .map_err(|error| StoreError::Partitions(error.to_string()))?;
    if let Err(error) = table.primary_header() {
        tracing::warn!(
            "the GPT at the start of the drive is damaged ({error}), so the backup at its end is \
                used; restore the first with `sgdisk --verify` and `gdisk` while the drive is not \
                served"
        );
    }
    for (number, partition) in table.partitions() {
        let sectors = partition.last_lba.checked_sub(partition.first_lba).map(|last| last + 1);
        let on_drive = partition.first_lba > 0 && partition.last_lba < shape.capacity.get();
        let Some(sectors) = sectors.filter(|_| on_drive) else {
            tracing::warn!(
                "partition {number} is not served: it is not on the drive (LBA {} to {} of {})",
                partition.first_lba,
                partition.last_lba,
                shape.capacity.get()
            );
            continue;
        };
        let name = name(*number, partition, volumes);
        let mut description = format!("partition {number} {}", partition.name.trim());
        description.retain(|c| !c.is_control());
        while description.len() > DESCRIPTION_BYTES {
            description.pop();
        }
        volumes.push(Volume {
            id: VolumeId(number + 1),
            name,
            extents: Extent::from_numbers(partition.first_lba, sectors).into(),
            settings: VolumeSettings {
                description: description.trim_end().to_owned(),
                ..VolumeSettings::default()
            },
        });
    }
    Ok(())
}

/// The name of a partition: its label with `-` for characters that names do not have; `pN` if it
/// has none, or if another volume has this name.
fn name(number: u32, partition: &Partition, others: &[Volume]) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let label: String =
        partition.name.trim().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let label = label.trim_matches(['-', '.']).chars().take(NAME_BYTES).collect::<String>();
    let free = |name: &str| others.iter().all(|other| other.name != name);
    // `pN` belongs to partition N, whatever another one is called.
    let number_of_another = label
        .strip_prefix('p')
        .is_some_and(|rest| rest.parse::<u32>().is_ok_and(|other| other != number));
    if check_name(&label).is_ok() && free(&label) && !number_of_another {
        label
    } else {
        format!("p{number}")
    }
}

/// Returns whether the first sector reserves the drive for a GPT.
fn has_protective_mbr(first: &[u8]) -> bool {
    const TYPES: [usize; 4] = [450, 466, 482, 498];
    first.len() >= 512
        && first[510..512] == [0x55, 0xaa]
        && TYPES.into_iter().any(|at| first[at] == 0xee)
}

fn read_error(error: io::Error) -> StoreError {
    match error.downcast::<IoError>() {
        Ok(error) => StoreError::Io { doing: "reading", error },
        Err(other) => StoreError::Partitions(other.to_string()),
    }
}

/// Reads a drive by bytes.
struct SectorReader<'d> {
    disk: &'d dyn Disk,
    at: u64,
}

impl SectorReader<'_> {
    fn end(&self) -> u64 {
        let shape = self.disk.shape();
        shape.sector.bytes_of(shape.capacity)
    }
}

impl Read for SectorReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let sector = u64::from(self.disk.shape().sector.bytes());
        let len = (buffer.len() as u64).min(AREA_BYTES);
        let end = (self.at + len).min(self.end());
        if self.at >= end {
            return Ok(0);
        }
        let (first, last) = (self.at / sector, end.div_ceil(sector));
        let io = Io {
            volume: VolumeId::INTERNAL,
            ..Io::read(Extent::from_numbers(first, last - first))
        };
        let bytes = self.disk.run(io).result.map_err(io::Error::other)?;
        let skipped = (self.at - first * sector) as usize;
        let count = (end - self.at) as usize;
        buffer[..count].copy_from_slice(&bytes[skipped..skipped + count]);
        self.at = end;
        Ok(count)
    }
}

impl Seek for SectorReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.end().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// The reader of partitions asks for this, and never writes a table that is not writable.
impl Write for SectorReader<'_> {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for SectorReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SectorReader").field("at", &self.at).finish_non_exhaustive()
    }
}
