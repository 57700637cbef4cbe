//! [`RelocationFile`]: the relocation that runs, in the server's state directory as
//! `DRIVE.relocation`, so that it continues when the server starts again. Nothing of the copy is
//! remembered.
//!
//! The file is replaced atomically and has a checksum. It names the extents of the volume, and is
//! of no effect once the volume has others: the drive's table of volumes is the commit point.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use headtime_io::files::{self, Existing, remove_durably, write_atomically};
use headtime_units::{Extent, Sectors, Share};
use serde::{Deserialize, Serialize};

/// The file of one drive.
#[derive(Clone, Debug)]
pub(crate) struct RelocationFile {
    path: PathBuf,
}

/// A relocation in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredRelocation {
    /// The number of the volume.
    pub(super) volume: u32,
    /// Its name.
    pub(super) name: String,
    /// The first sector of the volume that moves.
    pub(super) offset: Sectors,
    /// The extents of the volume before.
    pub(super) before: Vec<Extent>,
    /// The sectors to which they move.
    pub(super) destination: Extent,
    /// Scans of the volume end before the switch.
    pub(super) force: bool,
    /// The bound on the impact of background work while it runs.
    pub(super) max_impact: Option<Share>,
}

/// The content of the file; extents are the first sector and the number of sectors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    volume: u32,
    name: String,
    offset: u64,
    before: Vec<(u64, u64)>,
    destination: (u64, u64),
    force: bool,
    max_impact_billionths: Option<u32>,
}

const HEAD: &str = "headtime relocation 1";

impl RelocationFile {
    /// The file of a drive in a state directory.
    pub(crate) fn new(directory: &Path, drive: [u8; 16]) -> Self {
        let drive: String = drive.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { path: directory.join(format!("{drive}.relocation")) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it; none without a file.
    ///
    /// # Errors
    /// The fault, as the end of a sentence that names the file.
    pub(super) fn read(&self) -> Result<Option<StoredRelocation>, String> {
        let text = match std::fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        let json = files::unseal(&text)?
            .strip_prefix(HEAD)
            .ok_or_else(|| format!("it does not begin with `{HEAD}`"))?;
        let record: Record = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let extent = |(first, len)| Extent::from_numbers(first, len);
        Ok(Some(StoredRelocation {
            volume: record.volume,
            name: record.name,
            offset: Sectors::new(record.offset),
            before: record.before.into_iter().map(extent).collect(),
            destination: extent(record.destination),
            force: record.force,
            max_impact: record.max_impact_billionths.and_then(Share::from_billionths),
        }))
    }

    pub(super) fn write(&self, of: &StoredRelocation) -> io::Result<()> {
        let numbers = |extent: &Extent| (extent.start.get(), extent.len.get());
        let record = Record {
            volume: of.volume,
            name: of.name.clone(),
            offset: of.offset.get(),
            before: of.before.iter().map(numbers).collect(),
            destination: numbers(&of.destination),
            force: of.force,
            max_impact_billionths: of.max_impact.map(Share::as_billionths),
        };
        let json = serde_json::to_string(&record).expect("texts and numbers are JSON");
        let text = files::seal(format!("{HEAD}\n{json}\n"));
        std::fs::create_dir_all(files::directory_of(&self.path))?;
        write_atomically(&self.path, Existing::Replace, |mut file| file.write_all(text.as_bytes()))
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
            offset: Sectors::new(2048),
            before: vec![Extent::from_numbers(2048, 4096), Extent::from_numbers(10_240, 100)],
            destination: Extent::from_numbers(20_480, 2148),
            force: true,
            max_impact: Share::from_fraction(0.1),
        };
        file.write(&stored).expect("writable");
        assert_eq!(file.read(), Ok(Some(stored)));
        let whole = std::fs::read_to_string(file.path()).expect("text");
        for place in 0..whole.len() - 1 {
            let mut bytes = whole.clone().into_bytes();
            bytes[place] ^= 1;
            std::fs::write(file.path(), &bytes).expect("writable");
            assert!(file.read().is_err(), "byte {place}");
            std::fs::write(file.path(), &whole[..place]).expect("writable");
            assert!(file.read().is_err(), "cut to {place}");
        }
        file.remove().expect("removable");
        file.remove().expect("nothing to remove is no fault");
        assert_eq!(file.read(), Ok(None));
    }
}
