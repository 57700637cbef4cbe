//! The old values of changed kernel settings, in a file that outlives the program.
//!
//! ```text
//! headtime-knobs 1
//! disk sdb
//! diskseq 12
//! knob scheduler → class/block/sdb/queue/scheduler → mq-deadline → =none
//! knob nr_requests → class/block/sdb/queue/nr_requests → 256 → >
//! knob queue_depth → class/block/sdb/device/queue_depth → 32 → ?
//! crc32c 0a1b2c3d
//! ```
//! The fields of a knob are separated by tabs, shown as → here: name, file below `/sys`, previous
//! value, and the state of the change ([`Change`]). `diskseq` is the kernel's number of this
//! attachment of the disk, so settings of one disk are never applied to another one with the same
//! name. The file `sdb.lock` is locked by the live process that has changed settings of `sdb`.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::block_device::{SystemPaths, word};
use crate::files::{self, Existing, write_atomically};

/// One remembered setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Below the kernel's tree.
    pub(super) file: PathBuf,
    pub(super) before: String,
    pub(super) change: Change,
}

/// The state of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It may have been made: the program was about to, or had not yet looked.
    Unknown,
    /// It was made, and the setting then was this.
    To(String),
    /// The kernel makes it by itself together with the scheduler's.
    WithScheduler,
}

/// The memory of one disk's settings, locked.
pub(super) struct KnobState {
    disk: String,
    path: PathBuf,
    diskseq: String,
    _lock: File,
}

/// The reason why settings cannot be recorded or read.
#[derive(Debug, thiserror::Error)]
pub enum KnobStateError {
    /// Another drive on the same disk has them.
    #[error(
        "the settings of {disk} are held by another headtime on the same disk ({} is locked)",
        path.display()
    )]
    Held {
        /// The disk.
        disk: String,
        /// The lock.
        path: PathBuf,
    },
    /// The system refused something.
    #[error(
        "{doing} {} failed: {error}; without it, changed kernel settings could not be put back \
            after a crash",
        path.display()
    )]
    System {
        /// The file.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The system's answer.
        error: io::Error,
    },
    /// It cannot be read as what it should be.
    #[error(
        "{} is damaged: {what}; look at the settings of {disk} below /sys/block yourself, then \
            delete the file",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The disk it speaks of.
        disk: String,
        /// The fault.
        what: &'static str,
    },
}

impl KnobState {
    /// The disks of which something is remembered.
    pub(super) fn disks(system: &SystemPaths) -> Vec<String> {
        let entries = std::fs::read_dir(&system.state).into_iter().flatten().flatten();
        let disk = |path: PathBuf| {
            (path.extension()? == "knobs").then(|| path.file_stem()?.to_str().map(str::to_owned))?
        };
        let mut disks: Vec<String> = entries.filter_map(|entry| disk(entry.path())).collect();
        disks.sort_unstable();
        disks
    }

    /// Locks the memory of a disk, for as long as the result lives.
    ///
    /// # Errors
    /// [`KnobStateError::Held`] when someone living has it, or the system's.
    pub(super) fn take(system: &SystemPaths, disk: &str) -> Result<Self, KnobStateError> {
        let failed = |path: &Path, doing| {
            let path = path.to_owned();
            move |error| KnobStateError::System { path, doing, error }
        };
        std::fs::create_dir_all(&system.state)
            .map_err(failed(&system.state, "making the directory"))?;
        let path = system.state.join(format!("{disk}.lock"));
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed(&path, "opening"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(KnobStateError::Held { disk: disk.to_owned(), path });
            }
            Err(errno) => return Err(failed(&path, "locking")(errno.into())),
        }
        let diskseq = word(&system.sys.join("class/block").join(disk).join("diskseq"))
            .unwrap_or_else(|| "-".to_owned());
        Ok(Self {
            disk: disk.to_owned(),
            path: system.state.join(format!("{disk}.knobs")),
            diskseq,
            _lock: lock,
        })
    }

    pub(super) fn disk(&self) -> &str {
        &self.disk
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down what is remembered, whole.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn remember(&self, entries: &[Entry]) -> Result<(), KnobStateError> {
        let mut text = format!("{MAGIC}\ndisk {}\ndiskseq {}\n", self.disk, self.diskseq);
        for Entry { name, file, before, change } in entries {
            text.push_str(&format!(
                "knob {name}\t{}\t{before}\t{}\n",
                file.display(),
                change.to_text()
            ));
        }
        let text = files::seal(text);
        write_atomically(&self.path, Existing::Replace, |mut file| file.write_all(text.as_bytes()))
            .map_err(|error| KnobStateError::System {
                path: self.path.clone(),
                doing: "writing",
                error,
            })
    }

    /// Returns the recorded settings; none if there are none, or if they are of another disk that
    /// had the same name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn recall(&self) -> Result<Vec<Entry>, KnobStateError> {
        let text = match std::fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(KnobStateError::System {
                    path: self.path.clone(),
                    doing: "reading",
                    error,
                });
            }
        };
        let (diskseq, entries) = parse(&text).map_err(|what| KnobStateError::Damaged {
            path: self.path.clone(),
            disk: self.disk.clone(),
            what,
        })?;
        if diskseq != self.diskseq {
            tracing::info!(
                disk = self.disk,
                "what is remembered of a disk that had this name before is of no use any more"
            );
            return Ok(Vec::new());
        }
        Ok(entries)
    }

    /// Removes what is remembered.
    pub(super) fn forget(&mut self) {
        match std::fs::remove_file(&self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "a file of remembered kernel \
                    settings cannot be removed; delete it")
            }
        }
    }
}

impl Change {
    fn to_text(&self) -> String {
        match self {
            Self::Unknown => "?".to_owned(),
            Self::To(value) => format!("={value}"),
            Self::WithScheduler => ">".to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "?" => Some(Self::Unknown),
            ">" => Some(Self::WithScheduler),
            _ => text.strip_prefix('=').map(|value| Self::To(value.to_owned())),
        }
    }
}

fn parse(text: &str) -> Result<(&str, Vec<Entry>), &'static str> {
    let body = files::unseal(text)?;
    let mut lines = body.lines();
    if lines.next() != Some(MAGIC) {
        return Err("its first line is not `headtime-knobs 1`");
    }
    let mut diskseq = None;
    let mut entries = Vec::new();
    for line in lines {
        match line.split_once(' ').ok_or("a line without a blank")? {
            ("disk", _) => {}
            ("diskseq", number) => diskseq = Some(number),
            ("knob", knob) => {
                let parts: Vec<&str> = knob.split('\t').collect();
                let [name, file, before, change] = parts[..] else {
                    return Err("a knob that has not four parts");
                };
                let within = Path::new(file)
                    .components()
                    .all(|part| matches!(part, std::path::Component::Normal(_)));
                if !within {
                    return Err("a knob outside /sys");
                }
                let change = Change::parse(change).ok_or("a change that is none")?;
                entries.push(Entry {
                    name: name.to_owned(),
                    file: file.into(),
                    before: before.to_owned(),
                    change,
                });
            }
            _ => return Err("a line that is neither disk, diskseq nor knob"),
        }
    }
    Ok((diskseq.ok_or("it has no diskseq")?, entries))
}

const MAGIC: &str = "headtime-knobs 1";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn system() -> (tempfile::TempDir, SystemPaths) {
        let root = tempfile::tempdir().expect("a place for files");
        let system = SystemPaths::under(root.path());
        std::fs::create_dir_all(system.sys.join("class/block/sdb")).expect("writable");
        std::fs::write(system.sys.join("class/block/sdb/diskseq"), "12\n").expect("writable");
        (root, system)
    }

    fn entries() -> Vec<Entry> {
        let entry = |name: &str, change: Change| Entry {
            name: name.into(),
            file: format!("class/block/sdb/queue/{name}").into(),
            before: "write back".into(),
            change,
        };
        vec![
            entry("scheduler", Change::To("none".into())),
            entry("nr_requests", Change::WithScheduler),
            entry("write_cache", Change::Unknown),
        ]
    }

    #[test]
    fn what_is_remembered_is_recalled_by_the_next_one_and_forgotten_when_told() {
        let (_root, system) = system();
        let state = KnobState::take(&system, "sdb").expect("nobody has it");
        state.remember(&entries()).expect("writable");
        drop(state);
        assert_eq!(KnobState::disks(&system), ["sdb"]);
        let mut state = KnobState::take(&system, "sdb").expect("nobody has it");
        assert_eq!(state.recall().expect("readable"), entries());
        state.forget();
        assert_eq!(
            (state.recall().expect("none is no error"), KnobState::disks(&system)),
            (vec![], vec![])
        );
    }

    #[test]
    fn settings_of_one_disk_have_one_holder() {
        let (_root, system) = system();
        let _state = KnobState::take(&system, "sdb").expect("nobody has it");
        let message = KnobState::take(&system, "sdb").err().expect("held").to_string();
        assert!(
            message.contains("held by another headtime") && message.contains("sdb.lock"),
            "{message}"
        );
        assert!(KnobState::take(&system, "sdc").is_ok());
    }

    #[test]
    fn another_disk_under_the_same_name_gets_nothing_of_the_last_ones() {
        let (_root, system) = system();
        KnobState::take(&system, "sdb")
            .expect("nobody has it")
            .remember(&entries())
            .expect("writable");
        std::fs::write(system.sys.join("class/block/sdb/diskseq"), "13\n").expect("writable");
        assert_eq!(
            KnobState::take(&system, "sdb").expect("nobody has it").recall().expect("readable"),
            []
        );
    }

    #[test]
    fn a_file_that_names_what_is_not_below_sys_is_refused() {
        let text =
            files::seal(format!("{MAGIC}\ndisk sdb\ndiskseq 1\nknob x\t../etc/passwd\ta\t=b\n"));
        assert_eq!(parse(&text), Err("a knob outside /sys"));
    }

    proptest! {
        /// Any single byte changed, and any cut, is noticed.
        #[test]
        fn damage_is_noticed(
            position in any::<prop::sample::Index>(),
            byte in any::<Option<u8>>(),
        ) {
            let text = files::seal(format!(
                "{MAGIC}\ndisk sdb\ndiskseq 1\nknob \
                x\tclass/x\ta\t=b\n"
            ));
            let damaged = files::damaged(&text, position, byte);
            prop_assume!(damaged != text);
            prop_assert!(parse(&damaged).is_err(), "accepted {damaged}");
        }
    }
}
