//! A map file that several servers of one drive model learn together.
//!
//! Each save locks `FILE.lock`, reads the map, merges its entries into the running matrix (for each
//! pair the worse time), and replaces the file by the result. The kernel releases the lock of a
//! killed process, and a file is replaced whole or not at all, so that a kill at any moment leaves
//! the map and the other servers as they were. A file that is damaged, or that holds a map of
//! another drive or in other cells, is refused and not changed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use headtime_belief::maps::{KeptMap, KeptMapError, MapKind};
use headtime_belief::matrix::{LatencyMatrix, Merged, SharedMatrix};
use headtime_units::ByteSize;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::files::{Existing, with_suffix, write_atomically};
use crate::map_file::{LOCK_PATIENCE, MapFileError, encode, read_map};

/// The result of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapExchange {
    /// The entries of the file, as the running matrix took them over.
    pub merged: Merged,
    /// The size of the file; `None` if it was only read.
    pub bytes: Option<u64>,
    /// The file after the exchange.
    pub version: Option<FileVersion>,
}

/// The direction of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeMode {
    /// The entries of the file are taken over, and the file is replaced by the result.
    ReadAndWrite,
    /// The entries of the file are taken over. A missing file is written.
    Read,
}

/// One version of a file, to see whether another process has replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

impl FileVersion {
    /// The present version; `None` if the file cannot be found.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Some(Self { device: metadata.dev(), inode: metadata.ino(), modified })
    }
}

/// Exchanges the entries of `running` with those of the map in `path`, which may take `memory`.
///
/// # Errors
/// [`MapFileError`]; the file is not changed then. If only writing failed, `running` has the
/// entries of the file.
pub fn exchange_map(
    path: &Path,
    running: &SharedMatrix,
    memory: ByteSize,
    mode: ExchangeMode,
) -> Result<MapExchange, MapFileError> {
    let _locked = lock(path)?;
    let refused = |error| MapFileError::Map { path: path.to_owned(), error: Box::new(error) };
    let (merged, exists) = match read_map(path, memory) {
        Err(error) if error.is_not_there() => (Merged::default(), false),
        Err(error) => return Err(error),
        Ok(KeptMap::Compact(_)) => {
            let (ours, theirs) = (MapKind::Matrix, MapKind::Compact);
            return Err(refused(KeptMapError::OtherKind { ours, theirs }));
        }
        Ok(KeptMap::Matrix(map)) => {
            let other = |error| MapFileError::Other { path: path.to_owned(), error };
            running.shape().check_same(map.shape()).map_err(other)?;
            let merged = running.merge(&map).map_err(|error| other(error.into()))?;
            (merged, true)
        }
    };
    if exists && mode == ExchangeMode::Read {
        return Ok(MapExchange { merged, bytes: None, version: FileVersion::of(path) });
    }
    let map = KeptMap::Matrix(Box::new(running.inspect(LatencyMatrix::clone)));
    let written = write_atomically(path, Existing::Replace, |file| encode(&map, file));
    let bytes = written.map_err(|error| failed(path, error))?;
    // Still locked: a later version is of another server.
    Ok(MapExchange { merged, bytes: Some(bytes), version: FileVersion::of(path) })
}

/// Waits for the lock of the map's file, which the kernel releases when the process ends.
fn lock(path: &Path) -> Result<File, MapFileError> {
    let lock = with_suffix(path, ".lock");
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o644).open(&lock);
    let file = file.map_err(|error| failed(&lock, error))?;
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => std::thread::sleep(POLL),
            Err(Errno::WOULDBLOCK) => return Err(MapFileError::Locked { path: lock }),
            Err(errno) => return Err(failed(&lock, errno.into())),
        }
    }
}

fn failed(path: &Path, error: io::Error) -> MapFileError {
    MapFileError::Write { path: path.to_owned(), error }
}

const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_belief::matrix::{MappedDrive, MatrixSettings, MatrixShape};
    use headtime_units::{Nanos, SectorSize, Sectors};

    const MEMORY: ByteSize = ByteSize::new(1 << 20);

    fn matrix(model: &str, cell: u64) -> SharedMatrix {
        let drive = MappedDrive {
            model: model.into(),
            capacity: Sectors::new(1 << 22),
            sector: SectorSize::B512,
        };
        let cell = ByteSize::new(cell);
        let settings = MatrixSettings { cell, memory: MEMORY, ..MatrixSettings::default() };
        SharedMatrix::new(LatencyMatrix::new(MatrixShape::new(drive, &settings).expect("valid")))
    }

    fn exchange(path: &Path, matrix: &SharedMatrix) -> Result<MapExchange, MapFileError> {
        exchange_map(path, matrix, MEMORY, ExchangeMode::ReadAndWrite)
    }

    fn known(matrix: &SharedMatrix) -> u64 {
        matrix.inspect(LatencyMatrix::known)
    }

    #[test]
    fn two_servers_know_the_pairs_of_both_and_the_worse_times() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shared.map");
        let (one, other) = (matrix("ONE", 131_072), matrix("ONE", 131_072));
        one.record(1, 2, Nanos::from_ms(3));
        one.record(5, 6, Nanos::from_ms(9));
        other.record(3, 4, Nanos::from_ms(4));
        // The same pair took longer on the other drive.
        other.record(1, 2, Nanos::from_ms(8));
        for matrix in [&one, &other, &one] {
            assert!(exchange(&path, matrix).expect("it is shared").bytes.is_some());
        }
        for matrix in [&one, &other] {
            assert_eq!(known(matrix), 3);
            let time = matrix.inspect(|map| map.time(1, 2));
            assert!(time >= Some(Nanos::from_ms(8)), "{time:?}");
        }
        // Nothing is written when only the entries of the others are needed.
        let before = FileVersion::of(&path);
        let read = exchange_map(&path, &one, MEMORY, ExchangeMode::Read).expect("it is shared");
        assert_eq!((read.bytes, read.merged.kept), (None, 3));
        assert_eq!(FileVersion::of(&path), before);
        exchange(&path, &one).expect("it is shared");
        assert_ne!(FileVersion::of(&path), before);
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shared.map");
        let one = matrix("ONE", 131_072);
        one.record(1, 2, Nanos::from_ms(3));
        for (other, expected) in [
            (matrix("TWO", 131_072), "drive model 'TWO', this drive is 'ONE'"),
            (matrix("ONE", 65_536), "cells of 128 sectors, expected are cells of 256 sectors"),
        ] {
            let _ = std::fs::remove_file(&path);
            other.record(7, 8, Nanos::from_ms(3));
            exchange(&path, &other).expect("nothing is there");
            let before = std::fs::read(&path).expect("it was written");
            let message = exchange(&path, &one).expect_err("it is of another drive").to_string();
            assert!(message.contains(expected) && message.contains("shared.map"), "{message}");
            assert_eq!((std::fs::read(&path).expect("it is there"), known(&one)), (before, 1));
        }
        let mut damaged = std::fs::read(&path).expect("it is there");
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&path, &damaged).expect("the folder is ours");
        let message = exchange(&path, &one).expect_err("it is damaged").to_string();
        assert!(message.contains("damaged"), "{message}");
        assert_eq!((std::fs::read(&path).expect("it is there"), known(&one)), (damaged, 1));
    }
}
