//! A file as a drive.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use headtime_units::{SectorSize, Sectors};

use crate::backend::Backend;
use crate::backend::OpenedDrive;
use crate::backend::file::{OpenFile, try_direct};
use crate::backend::pool::Pool;
use crate::backend::store::Store;
use crate::backend::threads::ThreadedFile;
use crate::backend::uring::UringFile;
use crate::buffer::PageCache;
use crate::kernel_settings::WriteCache;
use crate::notifier::Notifier;
use crate::open_error::OpenError;
use crate::options::{DriveOptions, IoMethod};

/// Opens a file as a drive.
pub(crate) fn open(
    path: &Path,
    options: &DriveOptions,
    notifier: &Arc<Notifier>,
) -> Result<OpenedDrive, OpenError> {
    if options.raw.queue_depth.is_some() || options.raw.write_cache != WriteCache::Keep {
        tracing::warn!(path = %path.display(), "queue_depth and write_cache have no effect on a \
            file: they are settings of block devices");
    }
    let sector_size = FILE_SECTOR;
    let sector_bytes = u64::from(sector_size.bytes());
    let create_bytes = options.create_bytes.map(created_size);
    if let Some(bytes) = create_bytes {
        check_size(path, bytes, sector_size)?;
    }
    let OpenFile { file, bytes, new_files } = OpenFile::open(path, create_bytes, options.access)?;
    check_size(path, bytes, sector_size)?;
    if !new_files.is_empty() && options.create_bytes != create_bytes {
        tracing::warn!(path = %path.display(), bytes, "the size of the new file was rounded up to \
            whole sectors");
    }
    let capacity = Sectors::new(bytes / sector_bytes);
    let cache = (options.direct && try_direct(&file, sector_bytes)).into();
    let backend = mover(file, sector_bytes, cache, FILE_QUEUE_DEPTH, options.io_method, notifier)?;
    Ok(OpenedDrive {
        physical_block: FILE_BLOCK,
        new_files,
        ..OpenedDrive::new(backend, capacity, sector_size, FILE_QUEUE_DEPTH)
    })
}

/// The I/O of a file or device: io_uring, or threads where that is forbidden.
///
/// # Errors
/// [`OpenError::NoUring`] when io_uring was requested, and the system's.
pub(super) fn mover(
    file: OwnedFd,
    sector_bytes: u64,
    cache: PageCache,
    depth: usize,
    method: IoMethod,
    notifier: &Arc<Notifier>,
) -> Result<Box<dyn Backend>, OpenError> {
    if method != IoMethod::Threads {
        let own = file.try_clone().map_err(OpenError::Engine)?;
        match UringFile::new(own, sector_bytes, cache, depth, notifier) {
            Ok(uring) => return Ok(Box::new(uring)),
            Err(error) if method == IoMethod::Uring => return Err(OpenError::NoUring { error }),
            Err(error) => {
                tracing::info!(%error, "io_uring is not available here; threads move the bytes")
            }
        }
    }
    let pool =
        Pool::start(Store::single(file, sector_bytes, cache), Arc::clone(notifier), FILE_THREADS)
            .map_err(OpenError::Engine)?;
    Ok(Box::new(ThreadedFile::new(pool)))
}

/// The size of a new file: whole sectors.
pub(super) fn created_size(requested: u64) -> u64 {
    requested.checked_next_multiple_of(u64::from(FILE_SECTOR.bytes())).unwrap_or(requested)
}

pub(super) fn check_size(
    path: &Path,
    bytes: u64,
    sector_size: SectorSize,
) -> Result<(), OpenError> {
    if bytes > 0 && sector_size.sectors_of(bytes).is_some() {
        return Ok(());
    }
    let sector_bytes = sector_size.bytes();
    let remedy = bytes.max(1).next_multiple_of(u64::from(sector_bytes));
    Err(OpenError::WrongSize { path: path.to_owned(), bytes, sector_bytes, remedy })
}

/// A file has no sectors of its own; every file system and client can do with these.
pub(super) const FILE_SECTOR: SectorSize = SectorSize::B512;
/// The block size of file systems and drives. Smaller writes cost a read.
const FILE_BLOCK: u32 = 4096;
/// As deep as the queue of a SATA drive; a file takes more, but nothing is gained that a policy
/// could not do better.
const FILE_QUEUE_DEPTH: usize = 32;
/// Half the queue: beyond that more threads moved no more bytes (guess).
const FILE_THREADS: usize = 16;
