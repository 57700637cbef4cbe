//! The files of a characterization beside clients, in the server's state directory:
//!
//! | file | content |
//! |---|---|
//! | `DRIVE.characterize` | the request, and whether it is paused |
//! | `DRIVE.probe` | the state of the probe, as `headtime characterize` saves it |
//! | `DRIVE.profile.toml` | the profile that was found and is used |
//!
//! Each is replaced atomically and has a checksum. A damaged file is reported and left unchanged.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use headtime_io::files::{self, Existing, write_atomically};
use headtime_mechanics::DriveProfile;
use serde::{Deserialize, Serialize};

use super::{BesideError, StartBeside};

/// The files of one drive.
#[derive(Clone, Debug)]
pub(super) struct StoredFiles {
    directory: PathBuf,
    drive: String,
}

#[derive(Serialize, Deserialize)]
struct Request {
    start: StartBeside,
    paused: bool,
}

const HEAD: &str = "headtime characterize 1";

impl StoredFiles {
    pub(super) fn new(directory: &Path, drive: [u8; 16]) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Self { directory, drive: hex(drive) }
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}.{suffix}", self.drive))
    }

    fn request(&self) -> PathBuf {
        self.file("characterize")
    }

    pub(super) fn probe(&self) -> PathBuf {
        self.file("probe")
    }

    pub(super) fn profile(&self) -> PathBuf {
        self.file("profile.toml")
    }

    /// Reads the request; none without one.
    pub(super) fn read_start(&self) -> Result<Option<(StartBeside, bool)>, BesideError> {
        let path = self.request();
        let Some(text) = read(&path)? else { return Ok(None) };
        let damaged = |fault: String| BesideError::Damaged { path: path.clone(), fault };
        let body = files::unseal(&text).map_err(|fault| damaged(fault.to_owned()))?;
        let json = body
            .strip_prefix(HEAD)
            .ok_or_else(|| damaged(format!("it does not begin with `{HEAD}`")))?;
        let request: Request =
            serde_json::from_str(json).map_err(|error| damaged(error.to_string()))?;
        Ok(Some((request.start, request.paused)))
    }

    pub(super) fn write_start(&self, start: &StartBeside, paused: bool) -> Result<(), BesideError> {
        let request = Request { start: start.clone(), paused };
        let json = serde_json::to_string(&request).expect("texts and numbers are JSON");
        self.replace(&self.request(), &files::seal(format!("{HEAD}\n{json}\n")))
    }

    /// Removes the request and the state of the probe. The remembered profile stays.
    pub(super) fn remove_state(&self) -> Result<(), BesideError> {
        for path in [self.request(), self.probe()] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(BesideError::Stored { path, error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The remembered profile; none without one.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub(super) fn remembered(&self) -> Result<Option<DriveProfile>, BesideError> {
        let path = self.profile();
        let Some(text) = read(&path)? else { return Ok(None) };
        let damaged = |fault: String| BesideError::Damaged { path: path.clone(), fault };
        let (body, checksum) = text
            .trim_end()
            .rsplit_once('\n')
            .and_then(|(body, last)| Some((body, last.strip_prefix(CHECKSUM)?)))
            .ok_or_else(|| damaged("its last line is no checksum, so it was cut off".to_owned()))?;
        if checksum != format!("{:08x}", crc32c::crc32c(body.as_bytes())) {
            return Err(damaged("its checksum does not fit its content".to_owned()));
        }
        DriveProfile::from_toml(&self.drive, body)
            .map(Some)
            .map_err(|error| damaged(error.to_string()))
    }

    /// Remembers a profile, which is used at the next start.
    pub(super) fn remember(&self, toml: &str) -> Result<(), BesideError> {
        let body = toml.trim_end();
        let checksum = crc32c::crc32c(body.as_bytes());
        self.replace(&self.profile(), &format!("{body}\n{CHECKSUM}{checksum:08x}\n"))
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), BesideError> {
        let write = || {
            std::fs::create_dir_all(&self.directory)?;
            write_atomically(path, Existing::Replace, |mut file| file.write_all(text.as_bytes()))
        };
        write().map_err(|error| BesideError::Stored { path: path.to_owned(), error })
    }
}

/// A comment, so that the file is a profile as any other.
const CHECKSUM: &str = "# crc32c ";

fn read(path: &Path) -> Result<Option<String>, BesideError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BesideError::Stored { path: path.to_owned(), error }),
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

/// The identity of a drive as part of a file name.
pub(super) fn hex(drive: [u8; 16]) -> String {
    drive.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that a file can be created in a directory.
pub(super) fn try_out(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".headtime-{}.try", std::process::id()));
    std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> StartBeside {
        StartBeside {
            out: Some("/tmp/disk.toml".into()),
            name: "disk".to_owned(),
            seconds: Some(300),
            seed: 1,
            keep_model: false,
            force: false,
            max_impact: Some(0.02),
        }
    }

    #[test]
    fn what_was_requested_is_read_again_and_every_damage_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = StoredFiles::new(&folder.path().join("state"), [7; 16]);
        assert!(files.read_start().expect("no file is no fault").is_none());
        files.write_start(&start(), true).expect("writable");
        assert_eq!(files.read_start().expect("whole"), Some((start(), true)));
        let whole = std::fs::read_to_string(files.request()).expect("text");
        for place in 0..whole.len() - 1 {
            let mut bytes = whole.clone().into_bytes();
            bytes[place] ^= 1;
            std::fs::write(files.request(), &bytes).expect("writable");
            assert!(files.read_start().is_err(), "byte {place}");
            std::fs::write(files.request(), &whole[..place]).expect("writable");
            assert!(files.read_start().is_err(), "cut to {place}");
        }
        files.remove_state().expect("removable");
        files.remove_state().expect("nothing to remove is no fault");
        assert!(files.read_start().expect("no file is no fault").is_none());
    }

    #[test]
    fn a_remembered_profile_is_a_profile_and_every_damage_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = StoredFiles::new(folder.path(), [7; 16]);
        assert!(files.remembered().expect("no file is no fault").is_none());
        let profile = headtime_mechanics::catalog::load("atlas10k").expect("it ships");
        files.remember(&profile.to_toml()).expect("writable");
        let read = files.remembered().expect("whole").expect("it is there");
        assert_eq!(read.zones, profile.zones);
        let whole = std::fs::read_to_string(files.profile()).expect("text");
        DriveProfile::from_toml("atlas10k", &whole).expect("a profile as any other");
        for place in (0..whole.len() - 1).step_by(7) {
            let mut bytes = whole.clone().into_bytes();
            bytes[place] ^= 1;
            std::fs::write(files.profile(), &bytes).expect("writable");
            assert!(files.remembered().is_err(), "byte {place}");
            std::fs::write(files.profile(), &whole[..place]).expect("writable");
            assert!(files.remembered().is_err(), "cut to {place}");
        }
    }
}
