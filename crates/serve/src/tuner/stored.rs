//! [`StoredValues`]: the tunables that were set on a running server, stored in a small text file.
//!
//! ```text
//! headtime tunables 1
//! lookahead_k 6
//! policy g-matrix:lookahead_k=4
//! crc32c 1f0c33aa
//! ```
//! The file is replaced atomically: after a crash the old or the new file is there. A damaged file
//! is reported and left unchanged until the next `set`.

use std::io;
use std::path::{Path, PathBuf};

use headtime_io::files;

use crate::state_file;

/// The file with the stored tunables of a drive.
#[derive(Clone, Debug)]
pub(super) struct StoredValues {
    path: PathBuf,
}

/// Names and values in the order of the file.
pub(super) type Lines = Vec<(String, String)>;

impl StoredValues {
    /// The stored values of this drive, in `directory`.
    pub(super) fn new(directory: &Path, drive: [u8; 16]) -> Self {
        Self { path: state_file::path(directory, drive, "tunables") }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the stored values; none without a file.
    pub(super) fn read(&self) -> Result<Lines, String> {
        let fails = |what: &str| {
            format!("{}: {what}; remove it, or set the tunables again", self.path.display())
        };
        let content = state_file::read(&self.path).map_err(|error| fails(&error.to_string()))?;
        let Some(content) = content else { return Ok(Lines::new()) };
        let text = String::from_utf8(content).map_err(|_| fails("it is not text"))?;
        let body = files::unseal(&text).map_err(fails)?;
        let mut lines = body.lines();
        match lines.next().and_then(|first| first.strip_prefix(HEAD)).map(str::trim) {
            Some(VERSION) => {}
            Some(version) => {
                return Err(fails(&format!(
                    "it has format {version}, and this program knows {VERSION}; use a newer program"
                )));
            }
            None => return Err(fails("it does not begin with a header of tunables")),
        }
        let pair = |line: &str| {
            line.split_once(' ').map_or_else(
                || (line.to_owned(), String::new()),
                |(name, value)| (name.to_owned(), value.to_owned()),
            )
        };
        Ok(lines.map(pair).collect())
    }

    /// Replaces the stored values.
    pub(super) fn write(&self, lines: &[(String, String)]) -> io::Result<()> {
        let mut text = format!("{HEAD} {VERSION}\n");
        lines.iter().for_each(|(name, value)| text.push_str(&format!("{name} {value}\n")));
        state_file::replace(&self.path, files::seal(text).as_bytes())
    }
}

const HEAD: &str = "headtime tunables";
const VERSION: &str = "1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let stored = StoredValues::new(&folder.path().join("state"), [7; 16]);
        assert_eq!(stored.read(), Ok(Vec::new()), "nothing was stored");
        let lines: Lines =
            [("deadlines", ""), ("policy", "headtime"), ("deadlines", "rt=50ms,be=1s")]
                .map(|(a, b)| (a.into(), b.into()))
                .to_vec();
        stored.write(&lines).expect("the folder is ours");
        assert_eq!(stored.read().as_deref(), Ok(&lines[..]));
        let whole = std::fs::read_to_string(stored.path()).unwrap();
        for (bad, says) in [
            (whole[..whole.len() - 5].to_owned(), "checksum"),
            (whole.replace("rt=50ms", "rt=51ms"), "checksum"),
            (files::seal("headtime tunables 2\nx y\n".to_owned()), "has format 2"),
            (files::seal("dear diary\n".to_owned()), "does not begin"),
            (String::new(), "cut off"),
        ] {
            std::fs::write(stored.path(), &bad).unwrap();
            let message = stored.read().expect_err(&bad);
            assert!(message.contains(says) && message.contains(".tunables"), "{message}");
        }
    }
}
