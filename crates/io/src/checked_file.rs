//! Small text files that survive a crash whole: a checksum over the lines in the last line, and
//! replaced by renaming.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::sidecar::with_suffix;

/// `text`, which ends in a newline, with the line of its checksum behind it.
#[must_use]
pub fn seal(mut text: String) -> String {
    let checksum = crc32c::crc32c(text.as_bytes());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "crc32c {checksum:08x}");
    text
}

/// The lines of `text` before its checksum.
///
/// # Errors
/// What is wrong with it, as the end of a sentence that names the file.
pub fn unseal(text: &str) -> Result<&str, &'static str> {
    let end = text.trim_end_matches('\n').rfind('\n').map_or(0, |newline| newline + 1);
    let (body, last) = text.split_at(end);
    let checksum =
        last.trim_end().strip_prefix("crc32c ").and_then(|hex| u32::from_str_radix(hex, 16).ok());
    match checksum {
        None => Err("its last line is no checksum, so it was cut off"),
        Some(checksum) if checksum != crc32c::crc32c(body.as_bytes()) => {
            Err("its checksum does not fit its content")
        }
        Some(_) => Ok(body),
    }
}

/// What could not be done with which file.
#[derive(Debug)]
pub struct ReplaceError {
    /// The file.
    pub path: PathBuf,
    /// What was tried.
    pub doing: &'static str,
    /// The system's answer.
    pub error: io::Error,
}

/// Writes `text` whole under another name, makes it durable and renames it to `path`: a crash
/// leaves the old file, the new one, or none.
///
/// # Errors
/// The system's.
pub fn replace(path: &Path, text: &str) -> Result<(), ReplaceError> {
    let unfinished = with_suffix(path, ".new");
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    if let Err(error) = written {
        // A part of a file is of no use, and on a full disk it takes the room that the next attempt
        // needs.
        let _ = std::fs::remove_file(&unfinished);
        return Err(ReplaceError { path: unfinished, doing: "writing", error });
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let renamed =
        std::fs::rename(&unfinished, path).and_then(|()| File::open(directory)?.sync_all());
    renamed.map_err(|error| ReplaceError { path: path.to_owned(), doing: "replacing", error })
}
