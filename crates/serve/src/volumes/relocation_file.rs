//! [`RelocationFile`]: the relocation that runs, in the server's state directory as
//! `DRIVE.relocation`, so that it continues when the server starts again. Nothing of the copy is
//! remembered.
//!
//! The file is replaced atomically and has a checksum. It names the extents of the volume, and is
//! of no effect once the volume has others: the drive's table of volumes is the commit point.

use std::io;
use std::path::{Path, PathBuf};

use headtime_io::files::remove_durably;
use serde::{Deserialize, Serialize};

use crate::state_file;

/// The file of one drive.
#[derive(Clone, Debug)]
pub(crate) struct RelocationFile {
    path: PathBuf,
}

/// A relocation in the file; extents are the first sector and the number of sectors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredRelocation {
    /// The number of the volume.
    pub(super) volume: u32,
    pub(super) name: String,
    /// The first sector of the volume that moves.
    pub(super) offset: u64,
    /// The extents of the volume before.
    pub(super) before: Vec<(u64, u64)>,
    /// The sectors to which they move.
    pub(super) destination: (u64, u64),
    /// Scans of the volume end before the switch.
    pub(super) force: bool,
    /// The bound on the impact of background work while it runs.
    pub(super) max_impact_billionths: Option<u32>,
}

const HEAD: &str = "headtime relocation 1";

impl RelocationFile {
    /// The file of a drive in a state directory.
    pub(crate) fn new(directory: &Path, drive: [u8; 16]) -> Self {
        Self { path: state_file::path(directory, drive, "relocation") }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; none without a file.
    pub(super) fn read(&self) -> Result<Option<StoredRelocation>, String> {
        let content = state_file::read(&self.path).map_err(|error| error.to_string())?;
        content.map(|content| state_file::decode_record(HEAD, &content)).transpose()
    }

    pub(super) fn write(&self, of: &StoredRelocation) -> io::Result<()> {
        state_file::write_record(&self.path, HEAD, of)
    }

    /// Removes it; no file is no error.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove_durably(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relocation_is_read_as_it_was_written_and_every_damage_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = RelocationFile::new(&folder.path().join("state"), [7; 16]);
        assert_eq!(file.read(), Ok(None));
        let stored = StoredRelocation {
            volume: 3,
            name: "a".to_owned(),
            offset: 2048,
            before: vec![(2048, 4096), (10_240, 100)],
            destination: (20_480, 2148),
            force: true,
            max_impact_billionths: Some(100_000_000),
        };
        file.write(&stored).expect("writable");
        assert_eq!(file.read(), Ok(Some(stored)));
        let text = "headtime relocation 1\n{\"volume\":3,\"name\":\"a\",\"offset\":2048,\"before\":\
            [[2048,4096],[10240,100]],\"destination\":[20480,2148],\"force\":true,\
            \"max_impact_billionths\":100000000}\n";
        let whole = std::fs::read_to_string(file.path()).expect("text");
        assert_eq!(whole, headtime_io::files::seal(text.to_owned()), "earlier servers wrote this");
        state_file::assert_damage_is_noticed(file.path(), 1, || file.read().is_ok());
        file.remove().expect("removable");
        file.remove().expect("nothing to remove is no fault");
        assert_eq!(file.read(), Ok(None));
    }
}
