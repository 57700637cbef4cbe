//! Files that survive a crash whole: an atomic file writer, and a checksum for small text files.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

/// The treatment of a file that stands at the destination already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The new file replaces it.
    Replace,
    /// The old file stays and the call fails with [`io::ErrorKind::AlreadyExists`].
    Keep,
}

/// Writes a file so that a crash leaves the old file, the new one, or none, but never a part.
///
/// `fill` writes the contents to `PATH.new`. The file is then synced and renamed to `path`, and its
/// directory is synced. `PATH.new` is locked meanwhile and removed after an error. A file that a
/// killed process left there is overwritten.
///
/// # Errors
/// The error of `fill` or of the system. [`io::ErrorKind::ResourceBusy`] if another process is
/// writing `PATH.new`.
pub fn write_atomically<T>(
    path: &Path,
    existing: Existing,
    fill: impl FnOnce(&File) -> io::Result<T>,
) -> io::Result<T> {
    let unfinished = with_suffix(path, ".new");
    let file = open_locked(&unfinished)?;
    let written = fill(&file).and_then(|value| {
        file.sync_all()?;
        rename(&unfinished, path, existing)?;
        Ok(value)
    });
    if written.is_err() {
        // On a full disk the next attempt needs the space.
        let _ = std::fs::remove_file(&unfinished);
    }
    let value = written?;
    sync_directory_of(path)?;
    Ok(value)
}

/// Renames the complete and synced file `from` to `to` and syncs the directory of `to`.
///
/// # Errors
/// The error of the system.
pub fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    sync_directory_of(to)
}

/// Removes a file and syncs its directory. A file that is not there is no error.
///
/// # Errors
/// The error of the system.
pub fn remove_durably(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_directory_of(path),
    }
}

/// Opens an empty file that this process has locked.
fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o644).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("another program is writing {}", path.display()),
                ));
            }
            Err(errno) => return Err(errno.into()),
        }
        // The previous writer may have renamed the file between the open and the lock. Then this
        // is its finished file and must not be truncated.
        let (locked, present) = (file.metadata()?, std::fs::metadata(path));
        if present
            .is_ok_and(|present| (present.ino(), present.dev()) == (locked.ino(), locked.dev()))
        {
            if locked.len() > 0 {
                file.set_len(0)?;
            }
            return Ok(file);
        }
    }
}

fn rename(from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
    if existing == Existing::Replace {
        return std::fs::rename(from, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system without this kind of rename may still have hard links.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(from, to).and_then(|()| std::fs::remove_file(from))
        }
        renamed => renamed.map_err(io::Error::from),
    }
}

/// Makes a rename in the directory of `path` durable.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// The directory that contains `path`.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// `path` with `suffix` after its last character.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Appends the checksum line to `text`, which ends in a newline.
#[must_use]
pub fn seal(mut text: String) -> String {
    let checksum = crc32c::crc32c(text.as_bytes());
    // Writing to a string cannot fail.
    let _ = writeln!(text, "crc32c {checksum:08x}");
    text
}

/// Verifies the checksum line of `text` and returns the lines before it.
///
/// # Errors
/// The fault, as the end of a sentence that names the file.
pub fn unseal(text: &str) -> Result<&str, &'static str> {
    let end = text.trim_end_matches('\n').rfind('\n').map_or(0, |newline| newline + 1);
    let (body, last) = text.split_at(end);
    // Compared as text: digits in capitals were not written by `seal`.
    match last.trim_end().strip_prefix("crc32c ") {
        None => Err("its last line is no checksum, so it was cut off"),
        Some(checksum) if checksum != format!("{:08x}", crc32c::crc32c(body.as_bytes())) => {
            Err("its checksum does not fit its content")
        }
        Some(_) => Ok(body),
    }
}

/// Returns `text` with the byte at `position` replaced, or cut off there without a `byte`.
#[cfg(test)]
pub(crate) fn damaged(text: &str, position: proptest::sample::Index, byte: Option<u8>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let position = position.index(bytes.len() - 1);
    match byte {
        Some(byte) => bytes[position] = byte,
        None => bytes.truncate(position),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn write(path: &Path, existing: Existing, text: &str) -> io::Result<()> {
        write_atomically(path, existing, |mut file| file.write_all(text.as_bytes()))
    }

    fn file_names(directory: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(directory).expect("readable");
        entries.map(|entry| entry.expect("an entry").file_name()).collect()
    }

    #[test]
    fn a_file_is_replaced_only_on_request_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        write(&path, Existing::Keep, "one").expect("nothing is there");
        let error = write(&path, Existing::Keep, "two").expect_err("a file is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        write(&path, Existing::Replace, "two").expect("replacing is allowed");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(file_names(folder.path()), ["x"]);
    }

    #[test]
    fn an_error_keeps_the_old_file_and_a_leftover_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        write(&path, Existing::Replace, "one").expect("nothing is there");
        let failed = write_atomically(&path, Existing::Replace, |mut file| {
            file.write_all(b"half")?;
            Err::<(), _>(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.expect_err("it failed").kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(file_names(folder.path()), ["x"]);
        std::fs::write(with_suffix(&path, ".new"), "a long leftover").unwrap();
        write(&path, Existing::Replace, "two").expect("the leftover is not locked");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
    }

    #[test]
    fn two_writers_never_mix() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        let first = open_locked(&with_suffix(&path, ".new")).expect("not locked");
        let error = write(&path, Existing::Replace, "two").expect_err("locked");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop(first);
        std::thread::scope(|scope| {
            for digit in ["1", "2", "3", "4", "5", "6"] {
                let path = &path;
                scope.spawn(move || match write(path, Existing::Replace, &digit.repeat(9_999)) {
                    Err(error) if error.kind() != io::ErrorKind::ResourceBusy => panic!("{error}"),
                    _ => {}
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() == 9_999 && text.chars().all(|digit| text.starts_with(digit)));
    }
}
