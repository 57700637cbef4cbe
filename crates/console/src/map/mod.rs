//! Files of latency maps with failures as the program tells them, and the text for a map's figures.

mod text;

use std::path::Path;

use headtime_belief::maps::KeptMap as Map;
use headtime_belief::matrix::MappedDrive;
use headtime_io::files::Existing;
use headtime_io::{MapFileError, read_map, write_map};
use headtime_units::ByteSize;

use crate::Failure;
pub use text::{MapInFile, exceedance_text, figures_text, kept_text};

/// Reads a map that may take `memory`.
///
/// # Errors
/// When the file cannot be read or holds no such map.
pub fn read(path: &Path, memory: ByteSize) -> Result<Map, Failure> {
    read_map(path, memory).map_err(failure)
}

/// Writes a map; where there is a file already, only with `replace`, and only one that is a map of
/// the same drive.
///
/// # Errors
/// When the file may not be replaced or cannot be written.
pub fn write(path: &Path, map: &Map, replace: bool) -> Result<u64, Failure> {
    write_map(path, map, if replace { Existing::Replace } else { Existing::Keep }).map_err(failure)
}

/// Refuses a map of another drive than the one that is meant.
///
/// # Errors
/// When the map is of another drive.
pub fn check_drive(path: &Path, map: &Map, expected: &MappedDrive) -> Result<(), Failure> {
    map.check_drive(expected).map_err(|error| {
        failure(MapFileError::Map { path: path.to_owned(), error: Box::new(error) })
    })
}

fn failure(error: MapFileError) -> Failure {
    if error.is_asked() { Failure::usage(error) } else { Failure::Failed(error.into()) }
}
