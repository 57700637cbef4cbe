//! Files that are there whole or not at all: written aside, forced to the disk, renamed.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use headtime_io::files::{Existing, write_atomically};

use crate::papers::error::WriteError;

/// Creates `folder` if it is missing and checks that a file can be written there, so that a long
/// run does not fail at its end.
///
/// # Errors
/// [`WriteError`], with the folder and the system's error.
pub fn check_folder(folder: &Path) -> Result<(), WriteError> {
    fs::create_dir_all(folder)
        .map_err(|source| WriteError::Folder { folder: folder.to_path_buf(), source })?;
    let trial = folder.join(format!(".trial.{}", std::process::id()));
    let tried = File::create(&trial).and_then(|_| fs::remove_file(&trial));
    tried.map_err(|source| WriteError::File { path: trial, source })
}

/// Writes a file called `name` with these contents into `folder`, replacing an existing one, and
/// returns its path.
///
/// # Errors
/// [`WriteError`], with the file and the system's error; an existing file is unchanged.
pub fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf, WriteError> {
    let path = folder.join(name);
    match write_atomically(&path, Existing::Replace, |mut file| file.write_all(contents.as_ref())) {
        Ok(()) => Ok(path),
        Err(source) => Err(WriteError::File { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it is there");
        entries
            .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_file_replaces_the_one_before_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let deep = folder.path().join("a/b");
        check_folder(&deep).expect("it can be made");
        assert!(names(&deep).is_empty(), "the trial is gone");
        for text in ["one", "two"] {
            write(&deep, "x.csv", text).expect("it can be written");
            assert_eq!(fs::read_to_string(deep.join("x.csv")).expect("it is there"), text);
        }
        assert_eq!(names(&deep), ["x.csv"]);
    }

    #[test]
    fn a_folder_that_refuses_is_named_with_a_remedy() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("the folder is ours");
        let message =
            check_folder(&file.join("below")).expect_err("a file has no folder in it").to_string();
        assert!(
            message.starts_with("cannot make the folder ")
                && message.ends_with("choose another with --out"),
            "{message}"
        );
        // A folder is in the way: the rename fails, and no partial file remains.
        fs::create_dir(folder.path().join("x.csv")).expect("the folder is ours");
        let error = write(folder.path(), "x.csv", "text").expect_err("a folder is in the way");
        assert!(error.to_string().contains("x.csv; choose another folder"), "{error}");
        assert_eq!(names(folder.path()).len(), 2, "{:?}", names(folder.path()));
    }
}
