//! The files of a characterization beside clients, in the server's state directory:
//!
//! | file | content |
//! |---|---|
//! | `DRIVE.characterize` | the request, and whether it is paused |
//! | `DRIVE.probe` | the state of the probe, as `headtime characterize` saves it |
//! | `DRIVE.profile.toml` | the profile that was found and is used |
//!
//! Each is replaced atomically and has a checksum. A damaged file is reported and left unchanged.

use std::io;
use std::path::{Path, PathBuf};

use headtime_io::files::remove_durably;
use headtime_mechanics::DriveProfile;
use serde::{Deserialize, Serialize};

use super::{BesideError, StartBeside};
use crate::state_file;

/// The files of one drive.
#[derive(Clone, Debug)]
pub(super) struct StoredFiles {
    directory: PathBuf,
    drive: [u8; 16],
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
        Self { directory, drive }
    }

    fn file(&self, suffix: &str) -> PathBuf {
        state_file::path(&self.directory, self.drive, suffix)
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
        let Some(content) = read(&path)? else { return Ok(None) };
        let request: Request = state_file::decode_record(HEAD, &content)
            .map_err(|fault| BesideError::Damaged { path, fault })?;
        Ok(Some((request.start, request.paused)))
    }

    pub(super) fn write_start(&self, start: &StartBeside, paused: bool) -> Result<(), BesideError> {
        let (path, request) = (self.request(), Request { start: start.clone(), paused });
        state_file::write_record(&path, HEAD, &request)
            .map_err(|error| BesideError::Stored { path, error })
    }

    /// Removes the request and the state of the probe. The remembered profile stays.
    pub(super) fn remove_state(&self) -> Result<(), BesideError> {
        for path in [self.request(), self.probe()] {
            remove_durably(&path).map_err(|error| BesideError::Stored { path, error })?;
        }
        Ok(())
    }

    /// The remembered profile; none without one.
    pub(super) fn remembered(&self) -> Result<Option<DriveProfile>, BesideError> {
        let path = self.profile();
        let Some(content) = read(&path)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&content);
        let damaged = |fault: String| BesideError::Damaged { path: path.clone(), fault };
        let (body, checksum) = text
            .trim_end()
            .rsplit_once('\n')
            .and_then(|(body, last)| Some((body, last.strip_prefix(CHECKSUM)?)))
            .ok_or_else(|| damaged("its last line is no checksum, so it was cut off".to_owned()))?;
        if checksum != format!("{:08x}", crc32c::crc32c(body.as_bytes())) {
            return Err(damaged("its checksum does not fit its content".to_owned()));
        }
        DriveProfile::from_toml(&state_file::hex(self.drive), body)
            .map(Some)
            .map_err(|error| damaged(error.to_string()))
    }

    /// Remembers a profile, which is used at the next start.
    pub(super) fn remember(&self, toml: &str) -> Result<(), BesideError> {
        let body = toml.trim_end();
        let checksum = crc32c::crc32c(body.as_bytes());
        let (path, text) = (self.profile(), format!("{body}\n{CHECKSUM}{checksum:08x}\n"));
        state_file::replace(&path, text.as_bytes())
            .map_err(|error| BesideError::Stored { path, error })
    }
}

/// A comment, so that the file is a profile as any other.
const CHECKSUM: &str = "# crc32c ";

fn read(path: &Path) -> Result<Option<Vec<u8>>, BesideError> {
    state_file::read(path).map_err(|error| BesideError::Stored { path: path.to_owned(), error })
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
        state_file::assert_damage_is_noticed(&files.request(), 1, || files.read_start().is_ok());
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
        state_file::assert_damage_is_noticed(&files.profile(), 7, || files.remembered().is_ok());
    }
}
