//! Files of latency maps: read whole and checked; written aside, synced and renamed, so that a file
//! is never incomplete.
//!
//! Written aside is `FILE.new`, always, and under a lock: a process that was killed leaves it, and
//! the next that saves there takes it over. A full disk leaves the file that was there.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use headtime_belief::maps::{KeptMap, KeptMapError};
use headtime_belief::matrix::RestoreError;
use headtime_units::ByteSize;

use crate::files::{Existing, write_atomically};

/// The reason why a map was not read or written. An existing file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum MapFileError {
    /// The system does not let it be read.
    #[error("map {} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// It is no map, or not one for here.
    #[error("map {}: {error}", path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: Box<KeptMapError>,
    },
    /// The file exists and was not to be replaced.
    #[error("{} exists; choose another file, or replace it with --force", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A map of another drive is there.
    #[error(
        "{} is a map of another drive ('{theirs}', not '{ours}') and is left alone; choose \
            another file",
        path.display()
    )]
    OtherDrive {
        /// The file.
        path: PathBuf,
        /// The model that it is of.
        theirs: String,
        /// The model here.
        ours: String,
    },
    /// The existing file is not a readable map.
    #[error(
        "{} exists and is not a readable map ({error}), so it is not replaced; move it away, or \
            choose another file",
        path.display()
    )]
    NotAMap {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: Box<KeptMapError>,
    },
    /// A shared map is of another drive, or in other cells or entries.
    #[error("map {}: {error}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The difference.
        error: RestoreError,
    },
    /// Another program has locked a shared map.
    #[error(
        "{}: another program has had it locked for {} s; the next save tries again; if that \
            program hangs, end it",
        path.display(),
        LOCK_PATIENCE.as_secs()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// Another program is saving there.
    #[error("{}: another program is writing it; wait, or give each its own file", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The system does not let it be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

impl MapFileError {
    /// Returns true if the file does not exist.
    #[must_use]
    pub fn is_not_there(&self) -> bool {
        matches!(self, Self::Read { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns true if the request is at fault, not the system.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !matches!(self, Self::Write { .. } | Self::Busy { .. } | Self::Locked { .. })
    }
}

/// Reads a map that may take `memory`.
///
/// # Errors
/// [`MapFileError::Read`] and [`MapFileError::Map`].
pub fn read_map(path: &Path, memory: ByteSize) -> Result<KeptMap, MapFileError> {
    let fails = |error: io::Error| MapFileError::Read { path: path.to_owned(), error };
    // A pipe or a device may have no end, and a pipe not even a beginning.
    if !std::fs::metadata(path).map_err(fails)?.is_file() {
        return Err(fails(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    let bytes = std::fs::read(path).map_err(fails)?;
    KeptMap::decode(&bytes, memory)
        .map_err(|error| MapFileError::Map { path: path.to_owned(), error: Box::new(error) })
}

/// Writes a map atomically and returns its bytes. Only a map of the same drive is replaced.
///
/// # Errors
/// All of [`MapFileError`].
pub fn write_map(path: &Path, map: &KeptMap, existing: Existing) -> Result<u64, MapFileError> {
    if path.symlink_metadata().is_ok() {
        if existing == Existing::Keep {
            return Err(MapFileError::Exists { path: path.to_owned() });
        }
        let there = read_map(path, ByteSize::new(u64::MAX)).map_err(|error| match error {
            MapFileError::Map { path, error } => MapFileError::NotAMap { path, error },
            other => other,
        })?;
        if there.drive() != map.drive() {
            let (theirs, ours) = (there.drive().model.clone(), map.drive().model.clone());
            return Err(MapFileError::OtherDrive { path: path.to_owned(), theirs, ours });
        }
    }
    write_atomically(path, existing, |file| encode(map, file)).map_err(|error| {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::AlreadyExists => MapFileError::Exists { path },
            io::ErrorKind::ResourceBusy => MapFileError::Busy { path },
            _ => MapFileError::Write { path, error },
        }
    })
}

/// Writes `map` to `file` and returns the bytes.
pub(crate) fn encode(map: &KeptMap, file: &File) -> io::Result<u64> {
    let mut to = BufWriter::with_capacity(1 << 20, file);
    let (mut bytes, mut failed) = (0, None);
    map.encode_in_pieces(|piece| {
        bytes += piece.len() as u64;
        if failed.is_none() {
            failed = to.write_all(piece).err();
        }
    });
    failed.map_or(Ok(()), Err)?;
    to.flush()?;
    Ok(bytes)
}

/// The maximum time to wait for other servers that share a map: a multiple of the time that one
/// needs with a map of 400 MB (guess).
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_belief::maps::{MapKind, MapSettings};
    use headtime_belief::matrix::{MappedDrive, MatrixBelief};
    use headtime_units::{Nanos, SectorSize, Sectors};

    fn map(model: &str, observed: u32) -> KeptMap {
        let drive = MappedDrive {
            model: model.into(),
            capacity: Sectors::new(1 << 22),
            sector: SectorSize::B512,
        };
        let belief =
            MapSettings::default().begin(MapKind::Matrix, &drive, None).expect("it can be mapped");
        for number in 0..observed {
            let matrix = belief.as_any().downcast_ref::<MatrixBelief>().expect("the belief is one");
            matrix.map().record(number, number + 1, Nanos::from_ms(3));
        }
        KeptMap::of(&*belief).expect("the belief has a map")
    }

    fn known(path: &Path) -> u64 {
        match read_map(path, ByteSize::new(1 << 30)).expect("it is whole") {
            KeptMap::Matrix(map) => map.known(),
            KeptMap::Compact(_) => panic!("it is a matrix"),
        }
    }

    #[test]
    fn a_map_is_replaced_only_by_one_of_the_same_drive_and_only_when_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive.map");
        assert!(read_map(&path, ByteSize::new(1 << 30)).expect_err("nothing there").is_not_there());
        assert!(
            read_map(Path::new("/dev/zero"), ByteSize::new(1 << 30))
                .expect_err("it has no end")
                .to_string()
                .contains("no regular file")
        );
        write_map(&path, &map("ONE", 3), Existing::Keep).expect("nothing is there");
        assert!(matches!(
            write_map(&path, &map("ONE", 4), Existing::Keep),
            Err(MapFileError::Exists { .. })
        ));
        assert!(matches!(
            write_map(&path, &map("TWO", 4), Existing::Replace),
            Err(MapFileError::OtherDrive { .. })
        ));
        assert_eq!(known(&path), 3);
        write_map(&path, &map("ONE", 4), Existing::Replace).expect("it is of the same drive");
        assert_eq!(known(&path), 4);
        std::fs::write(&path, "dear diary").unwrap();
        assert!(
            matches!(
                write_map(&path, &map("ONE", 5), Existing::Replace),
                Err(MapFileError::NotAMap { .. })
            ),
            "what is no map is left alone"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    /// A killed program leaves an unfinished file, and the next one overwrites it.
    #[test]
    fn what_a_killed_program_left_aside_is_in_nobodys_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive.map");
        write_map(&path, &map("ONE", 3), Existing::Keep).unwrap();
        let aside = folder.path().join("drive.map.new");
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&aside, [&whole[..whole.len() / 2], &[0xFF; 9_999]].concat()).unwrap();
        assert_eq!(known(&path), 3);
        write_map(&path, &map("ONE", 4), Existing::Replace).unwrap();
        assert_eq!((known(&path), aside.exists()), (4, false));
    }

    #[test]
    fn a_full_disk_leaves_the_map_that_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive.map");
        write_map(&path, &map("ONE", 3), Existing::Keep).unwrap();
        // A device that is always full, where the file is written aside.
        std::os::unix::fs::symlink("/dev/full", folder.path().join("drive.map.new")).unwrap();
        let error =
            write_map(&path, &map("ONE", 4), Existing::Replace).expect_err("there is no room");
        assert!(
            matches!(
                &error,
                MapFileError::Write { error, .. }
                    if error.kind() == io::ErrorKind::StorageFull
            ),
            "{error}"
        );
        assert!(!error.is_asked() && error.to_string().contains("drive.map"), "{error}");
        assert_eq!(known(&path), 3);
        write_map(&path, &map("ONE", 4), Existing::Replace)
            .expect("nothing is in the way afterwards");
        assert_eq!(known(&path), 4);
    }
}
