//! The files of a drive in the server's state directory, `DRIVE.SUFFIX`: read whole, and replaced
//! atomically. A JSON record has a line before it that names its format, and a checksum after it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use headtime_io::files::{self, Existing, write_atomically};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The path of a file of this drive.
pub(crate) fn path(directory: &Path, drive: [u8; 16], suffix: &str) -> PathBuf {
    directory.join(format!("{}.{suffix}", hex(drive)))
}

/// The identity of a drive as part of a file name.
pub(crate) fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of a file; none without a file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Replaces a file. After a crash the old or the new one is there.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(files::directory_of(path))?;
    write_atomically(path, Existing::Replace, |mut file| file.write_all(content))
}

/// The record of a file that begins with `head`.
pub(crate) fn decode_record<T: DeserializeOwned>(head: &str, content: &[u8]) -> Result<T, String> {
    let text = String::from_utf8_lossy(content);
    let json = files::unseal(&text)?
        .strip_prefix(head)
        .ok_or_else(|| format!("it does not begin with `{head}`"))?;
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// Replaces a file by `record`, after `head`.
pub(crate) fn write_record(path: &Path, head: &str, record: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(record).expect("texts and numbers are JSON");
    replace(path, files::seal(format!("{head}\n{json}\n")).as_bytes())
}

/// Checks that a file, which `reads` reads, is refused with any of its bytes damaged or missing.
#[cfg(test)]
pub(crate) fn assert_damage_is_noticed(path: &Path, step: usize, reads: impl Fn() -> bool) {
    let whole = std::fs::read(path).expect("a file");
    for place in (0..whole.len() - 1).step_by(step) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        std::fs::write(path, &bytes).expect("writable");
        assert!(!reads(), "byte {place}");
        std::fs::write(path, &whole[..place]).expect("writable");
        assert!(!reads(), "cut to {place}");
    }
}
