//! The backing of an emulated drive: sparse files as long as the drive, and what is remembered
//! beside them.
//!
//! A drive longer than the file system's longest file is cut into segments `FILE`, `FILE.1`,
//! `FILE.2` … of 2 TiB; one after the other they are the drive's bytes.
//!
//! Making a new backing is safe against a crash at any point, because `FILE` gets its length last:
//! an empty `FILE` is a backing that was not finished, and is made again; one of the drive's length
//! without sidecar is a finished one whose sidecar was lost or never written, and is adopted.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::ftruncate;
use rustix::io::Errno;

use crate::backend::file::OpenFile;
use crate::backend::store::Store;
use crate::buffer::PageCache;
use crate::files::with_suffix;
use crate::new_files::NewFiles;
use crate::open_error::OpenError;
use crate::options::DriveAccess;
use crate::sidecar::{Sidecar, SidecarError};

/// An open backing.
pub(crate) struct Backing {
    /// The files that were created for it.
    pub(crate) new_files: NewFiles,
    pub(crate) store: Store,
    /// The seed of the simulated drive that the bytes belong to.
    pub(crate) seed: u64,
}

/// Opens or creates the backing at `path` for the drive `requested`, whose segments and seed are
/// ignored. `seed` is the requested seed, if any.
///
/// # Errors
/// See [`OpenError`]: in use, another drive's, damaged, or refused by the system. New files are
/// removed then.
pub(crate) fn open(
    path: &Path,
    requested: &Sidecar,
    seed: Option<u64>,
) -> Result<Backing, OpenError> {
    let OpenFile { file: first, bytes, mut new_files } =
        OpenFile::open(path, Some(0), DriveAccess::ReadWrite)?;
    // A sidecar without its file belongs to a drive that is gone.
    let remembered = if new_files.is_empty() { Sidecar::read(path)? } else { None };
    if let Some(remembered) = &remembered {
        remembered.check(path, requested, seed)?;
    }
    let capacity = requested.capacity_sectors * u64::from(requested.sector_bytes);
    let unit = Sidecar {
        seed: seed.or(remembered.as_ref().map(|sidecar| sidecar.seed)).unwrap_or(0),
        ..requested.clone()
    };
    let sidecar = match remembered {
        Some(remembered) if bytes > 0 => remembered,
        remembered if bytes == 0 => {
            make(path, &first, &unit, capacity, remembered.is_some(), &mut new_files)?
        }
        _ if bytes == capacity => {
            tracing::info!(path = %path.display(), profile = unit.profile, "a backing file without \
                sidecar has the drive's length and is taken as this drive's");
            let sidecar = Sidecar { segment_bytes: 0, ..unit };
            sidecar.write(path)?;
            sidecar
        }
        _ => {
            return Err(OpenError::ForeignFile {
                path: path.to_owned(),
                bytes,
                profile: unit.profile,
                capacity,
            });
        }
    };
    let sector_bytes = u64::from(sidecar.sector_bytes);
    let store = if sidecar.segment_bytes == 0 {
        check_length(path, &first, capacity)?;
        Store::single(first, sector_bytes, PageCache::Use)
    } else {
        Store::segmented(
            open_segments(path, first, capacity, sidecar.segment_bytes)?,
            sidecar.segment_bytes,
            sector_bytes,
        )
    };
    Ok(Backing { store, seed: sidecar.seed, new_files })
}

/// Makes the files as long as the drive and writes the sidecar. `begun`: a sidecar shows that this
/// was begun before.
fn make(
    path: &Path,
    first: &OwnedFd,
    unit: &Sidecar,
    capacity: u64,
    begun: bool,
    new_files: &mut NewFiles,
) -> Result<Sidecar, OpenError> {
    let orphan = segment_path(path, 1);
    if !begun && orphan.exists() {
        return Err(
            SidecarError::OrphanSegment { backing: path.to_owned(), segment: orphan }.into()
        );
    }
    if !new_files.is_empty() {
        new_files.add(&Sidecar::path_of(path));
    }
    match ftruncate(first, capacity) {
        Ok(()) => {
            let sidecar = Sidecar { segment_bytes: 0, ..unit.clone() };
            sidecar.write(path)?;
            return Ok(sidecar);
        }
        Err(Errno::FBIG) if capacity > SEGMENT_BYTES => {}
        Err(errno) => return Err(OpenError::system(path, "making as long as the drive")(errno)),
    }
    let sidecar = Sidecar { segment_bytes: SEGMENT_BYTES, ..unit.clone() };
    sidecar.write(path)?;
    for (index, length) in segments(capacity, SEGMENT_BYTES).enumerate().skip(1) {
        let path = segment_path(path, index);
        let segment = OpenFile::open(&path, Some(length), DriveAccess::ReadWrite)?;
        if !segment.new_files.is_empty() {
            new_files.add(&path);
        }
        // The lock of the first file is for all, and each is locked again when it is opened below.
        segment.new_files.keep();
        if segment.bytes == 0 {
            ftruncate(&segment.file, length)
                .map_err(OpenError::system(&path, "making as long as a segment of the drive"))?;
        }
    }
    ftruncate(first, SEGMENT_BYTES)
        .map_err(OpenError::system(path, "making as long as a segment of the drive"))?;
    tracing::info!(path = %path.display(), "the drive is longer than a file can be here; it lies \
        in segments of 2 TiB");
    Ok(sidecar)
}

fn open_segments(
    path: &Path,
    first: OwnedFd,
    capacity: u64,
    segment_bytes: u64,
) -> Result<Vec<OwnedFd>, OpenError> {
    let mut files = vec![first];
    for (index, length) in segments(capacity, segment_bytes).enumerate() {
        if index > 0 {
            let path = segment_path(path, index);
            files.push(OpenFile::open(&path, None, DriveAccess::ReadWrite)?.file);
        }
        check_length(&segment_path(path, index), &files[index], length)?;
    }
    Ok(files)
}

fn check_length(path: &Path, file: &OwnedFd, expected: u64) -> Result<(), OpenError> {
    let bytes =
        rustix::fs::fstat(file).map_err(OpenError::system(path, "looking at"))?.st_size as u64;
    if bytes == expected {
        Ok(())
    } else {
        Err(SidecarError::WrongLength { path: path.to_owned(), bytes, expected }.into())
    }
}

/// The lengths of the segments of a drive of `capacity` bytes.
fn segments(capacity: u64, segment_bytes: u64) -> impl Iterator<Item = u64> {
    (0..capacity.div_ceil(segment_bytes))
        .map(move |index| segment_bytes.min(capacity - index * segment_bytes))
}

fn segment_path(path: &Path, index: usize) -> PathBuf {
    if index == 0 { path.to_owned() } else { with_suffix(path, &format!(".{index}")) }
}

/// Half of the longest file of ext4 with blocks of 1 KiB, which ends 1 KiB short of 4 TiB.
const SEGMENT_BYTES: u64 = 2 << 40;
