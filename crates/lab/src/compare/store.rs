//! [`Store`]: the folder of a comparison, in which every finished cell is kept at once, so that a
//! run that was cut off goes on where it was.
//!
//! A cell is one file, `cells/HASH.json`, named after what decides it and put in place whole. It is
//! one line of JSON whose last member is the checksum of all that stands before. It is used again
//! when the checksum is right, what decides it is the same, and the same build of the program wrote
//! it; otherwise it is computed again. A folder belongs to one run at a time.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::papers::output::{check_folder, write_whole};
use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::cell::Decisive;
use super::fingerprint::fnv;
use super::outcome::CellOutcome;
use headtime_console::Failure;

/// The folder of a comparison, locked for as long as this lives.
pub struct Store {
    folder: PathBuf,
    cells: PathBuf,
    build: String,
    _lock: OwnedFd,
}

/// The stored state of a cell.
#[derive(Debug, PartialEq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The results.
    CellOutcome(Box<CellOutcome>),
    /// A file that cannot be used, and why.
    Useless(String),
}

/// The content of a cell's file.
#[derive(Debug, Deserialize)]
struct CellFile {
    build: String,
    decisive: Decisive,
    outcome: CellOutcome,
}

/// The same as it is written.
#[derive(Serialize)]
struct NewCellFile<'a> {
    build: &'a str,
    decisive: &'a Decisive,
    outcome: &'a CellOutcome,
    /// Time it took on this machine: of interest to people, and no result.
    wall_seconds: f64,
}

impl Store {
    /// Makes the folder where it is missing and locks it.
    ///
    /// # Errors
    /// When it cannot be made or written, or another run has it.
    pub fn open(folder: &Path, build: String) -> Result<Self, Failure> {
        let cells = folder.join("cells");
        check_folder(folder).map_err(anyhow::Error::new)?;
        check_folder(&cells).map_err(anyhow::Error::new)?;
        let path = folder.join(".lock");
        let lock: OwnedFd = File::create(&path)
            .with_context(|| {
                format!("cannot write {}; choose another folder with --out", path.display())
            })?
            .into();
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                sweep(&cells);
                Ok(Self { folder: folder.to_path_buf(), cells, build, _lock: lock })
            }
            Err(Errno::WOULDBLOCK) => {
                let busy = anyhow!(
                    "another `headtime compare` writes into {}; wait for its end, or choose \
                        another folder with --out",
                    folder.display()
                );
                Err(Failure::Failed(busy))
            }
            Err(errno) => Err(Failure::Failed(
                anyhow::Error::new(errno).context(format!("cannot lock {}", path.display())),
            )),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The build of the program.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// The stored state of the cell with these decisive parameters.
    pub fn find(&self, decisive: &Decisive) -> Found {
        let path = self.cells.join(name(decisive));
        match fs::read_to_string(&path) {
            Ok(text) => match self.check(decisive, &text) {
                Ok(outcome) => Found::CellOutcome(Box::new(outcome)),
                Err(error) => Found::Useless(format!("{} {error:#}", path.display())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            Err(error) => Found::Useless(format!("{} cannot be read: {error}", path.display())),
        }
    }

    fn check(&self, decisive: &Decisive, text: &str) -> anyhow::Result<CellOutcome> {
        let (before, sum) =
            text.trim_end().rsplit_once(SUM).context("is damaged: it ends too early")?;
        if sum != closing(before) {
            bail!("is damaged: its checksum is wrong");
        }
        let file: CellFile =
            serde_json::from_str(text).context("was written by another version of the program")?;
        if file.build != self.build {
            bail!("was written by build {} of the program, and this is {}", file.build, self.build);
        }
        if file.decisive != *decisive {
            bail!("is another cell's");
        }
        Ok(file.outcome)
    }

    /// Keeps what came out of a cell. What is answered is what will be read back.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(
        &self,
        decisive: &Decisive,
        outcome: &CellOutcome,
        wall_seconds: f64,
    ) -> anyhow::Result<CellOutcome> {
        self.keep_file(decisive, &file_text(&self.build, decisive, outcome, wall_seconds)?)
    }

    /// Stores the file of a cell that [`file_text`] made, perhaps on another machine.
    ///
    /// # Errors
    /// When the file is damaged, of another build or of another cell, or cannot be written.
    pub fn keep_file(&self, decisive: &Decisive, text: &str) -> anyhow::Result<CellOutcome> {
        let outcome = self.check(decisive, text)?;
        write_whole(&self.cells, &name(decisive), text)?;
        Ok(outcome)
    }

    /// Puts a result into the folder, whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> anyhow::Result<PathBuf> {
        Ok(write_whole(&self.folder, name, contents)?)
    }
}

/// The content of a cell's file.
///
/// # Errors
/// When the outcome cannot be written as JSON.
pub fn file_text(
    build: &str,
    decisive: &Decisive,
    outcome: &CellOutcome,
    wall_seconds: f64,
) -> anyhow::Result<String> {
    let file = NewCellFile { build, decisive, outcome, wall_seconds };
    let whole = serde_json::to_string(&file).context("a cell cannot be written as JSON")?;
    let before = whole.strip_suffix('}').context("an object of JSON ends in a brace")?;
    Ok(format!("{before}{SUM}{}\n", closing(before)))
}

/// Removes the partial files of a killed run. No other run writes here now, and a file that cannot
/// be removed does no harm.
fn sweep(cells: &Path) {
    for entry in fs::read_dir(cells).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(".new") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The name of a cell's file.
fn name(decisive: &Decisive) -> String {
    let all = serde_json::to_string(decisive).expect("texts and numbers are JSON");
    format!("{:016x}.json", fnv(all.as_bytes()))
}

/// The text before the checksum.
const SUM: &str = ",\"crc32c\":\"";

/// The checksum of `before` and the end of the object.
fn closing(before: &str) -> String {
    format!("{:08x}\"}}", crc32c::crc32c(before.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::outcome::tests::outcome;
    use headtime_mechanics::NoiseLevel;

    fn decisive(seed: u64) -> Decisive {
        Decisive {
            policy: "fcfs".to_string(),
            belief: None,
            belief_fingerprint: None,
            drive: "atlas10k".to_string(),
            drive_fingerprint: "00".to_string(),
            workload: "random".to_string(),
            workload_fingerprint: "00".to_string(),
            depth: Some(4),
            seed,
            requests: 100,
            warm_up: 10,
            seconds: None,
            noise: NoiseLevel::default(),
            outstanding: None,
            queue_limit: 1_000,
            set: Vec::new(),
            stream: None,
            rates: None,
        }
    }

    #[test]
    fn a_cell_is_found_again_and_only_by_its_own_kind() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(folder.path(), "1+a".to_string())
            .map_err(|failure| failure.message())
            .expect("the folder is ours");
        assert_eq!(store.find(&decisive(1)), Found::Nothing);
        let kept = store.keep(&decisive(1), &outcome(123.0), 0.5).expect("the folder is ours");
        assert_eq!(store.find(&decisive(1)), Found::CellOutcome(Box::new(kept)));
        assert_eq!(store.find(&decisive(2)), Found::Nothing);
        drop(store);
        fs::write(folder.path().join("cells/x.json.new"), "half").expect("the folder is ours");
        let store = Store::open(folder.path(), "1+b".to_string())
            .map_err(|failure| failure.message())
            .expect("the lock is gone");
        let Found::Useless(reason) = store.find(&decisive(1)) else {
            panic!("another build's cell was used")
        };
        assert_eq!(
            fs::read_dir(folder.path().join("cells")).expect("it is there").count(),
            1,
            "what a killed run left is gone"
        );
        assert!(
            reason.ends_with("was written by build 1+a of the program, and this is 1+b"),
            "{reason}"
        );
    }

    #[test]
    fn no_damage_of_a_byte_and_no_cut_goes_unnoticed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(folder.path(), "1+a".to_string())
            .map_err(|failure| failure.message())
            .expect("the folder is ours");
        store.keep(&decisive(1), &outcome(123.0), 0.5).expect("the folder is ours");
        let path = store.cells.join(name(&decisive(1)));
        let whole = fs::read(&path).expect("it is there");
        // The line's end belongs to nothing.
        for place in 0..whole.len() - 1 {
            let mut damaged = whole.clone();
            damaged[place] ^= 4;
            fs::write(&path, &damaged).expect("the folder is ours");
            assert!(
                matches!(store.find(&decisive(1)), Found::Useless(_)),
                "byte {place} was changed and nobody noticed"
            );
            fs::write(&path, &whole[..place]).expect("the folder is ours");
            assert!(
                matches!(store.find(&decisive(1)), Found::Useless(_)),
                "everything from byte {place} on was cut off and nobody noticed"
            );
        }
    }

    #[test]
    fn two_runs_do_not_write_into_one_folder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = Store::open(folder.path(), "1".to_string())
            .map_err(|failure| failure.message())
            .expect("the folder is ours");
        let message = Store::open(folder.path(), "1".to_string())
            .map(|_| ())
            .expect_err("it is taken")
            .message();
        assert!(
            message.contains("another `headtime compare` writes into")
                && message.ends_with("--out"),
            "{message}"
        );
        drop(first);
    }
}
