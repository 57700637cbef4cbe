//! The files of a scan: its state, which is replaced atomically, and the journal of a backup.
//!
//! # Durability
//! - *kill -9*: all kept data survives. The state is written to a new file, made durable and
//!   renamed. Between two saves a backup records kept sectors in its journal, before their
//!   overwrite may continue.
//! - *power failure*: the last saved state survives. A backup loses its point in time, because
//!   later writes were answered, and its status reports this.
//! - *clean shutdown*: everything survives, including the writes through the server since each
//!   mebibyte was digested.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use headtime_io::files::{Existing, remove_durably, write_atomically};
use headtime_tasks::Scan;
use headtime_units::Extent;
use rustix::fs::{FlockOperation, flock};

use crate::state_file;

/// The state file of a scan.
#[derive(Clone, Debug)]
pub(super) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The state file of `task` on `target` of this drive, in `directory`.
    pub(super) fn new(directory: &Path, drive: [u8; 16], target: &str, task: &str) -> Self {
        Self { path: state_file::path(directory, drive, &format!("{target}.{task}.scan")) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        state_file::read(&self.path)
    }

    /// Replaces the state. After a crash the old or the new state is there.
    pub(super) fn save(&self, scan: &Scan, closed: bool) -> io::Result<()> {
        self.make_directory()?;
        write_atomically(&self.path, Existing::Replace, |file| {
            let mut to = BufWriter::new(file);
            let mut failed = None;
            scan.encode(closed, &mut |bytes| {
                if failed.is_none() {
                    failed = to.write_all(bytes).err();
                }
            });
            failed.map_or(Ok(()), Err)?;
            to.flush()
        })
    }

    fn make_directory(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), std::fs::create_dir_all)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        remove_durably(&self.path)?;
        remove_durably(&self.journal_path())
    }

    /// Locks the state against other programs until the lock is dropped; `None` if another program
    /// has it.
    pub(super) fn lock(&self) -> io::Result<Option<StateLock>> {
        self.make_directory()?;
        let path = self.path.with_extension("lock");
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
            // The previous owner may have removed the file in between; then the lock is void.
            let (held, there) = (file.metadata()?, std::fs::metadata(&path));
            if there.is_ok_and(|there| there.ino() == held.ino() && there.dev() == held.dev()) {
                return Ok(Some(StateLock { path, _file: file }));
            }
        }
    }

    fn journal_path(&self) -> PathBuf {
        self.path.with_extension("journal")
    }

    /// Opens the journal of the scan that started at `begun`, for appending. Creates it if it is
    /// missing and empties it if it belongs to another scan.
    pub(super) fn journal(&self, begun: u64) -> io::Result<Journal> {
        self.make_directory()?;
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).open(self.journal_path())?;
        let mut head = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(&mut file, HEAD as u64), &mut head)?;
        let journal = Journal { file, begun };
        if head == journal.head() { Ok(journal) } else { journal.emptied() }
    }

    /// Marks the sectors in the journal as kept. An incomplete record ends the replay.
    pub(super) fn replay(&self, begun: u64, scan: &mut Scan) -> io::Result<()> {
        let Some(bytes) = state_file::read(&self.journal_path())? else { return Ok(()) };
        let Some((head, records)) = bytes.split_at_checked(HEAD) else { return Ok(()) };
        if head[..8] != *MAGIC || head[8..] != begun.to_le_bytes() {
            return Ok(());
        }
        for record in records.chunks_exact(RECORD) {
            let number = |from: usize| {
                u64::from_le_bytes(record[from..from + 8].try_into().expect("eight bytes"))
            };
            let crc = u32::from_le_bytes(record[RECORD - 4..].try_into().expect("four bytes"));
            if crc32c::crc32c(&record[..RECORD - 4]) != crc {
                break;
            }
            let extent = Extent::from_numbers(number(0), number(8));
            match record[16] {
                KEPT => scan.count_as_kept(extent),
                _ => scan.count_as_failed(extent),
            }
        }
        Ok(())
    }
}

/// A lock on a state file. The system releases it when the program dies.
#[derive(Debug)]
pub(super) struct StateLock {
    path: PathBuf,
    _file: File,
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // A file that cannot be removed is an unlocked file.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The sectors that a backup has kept since its last save.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    begun: u64,
}

impl Journal {
    /// Appends the sectors that the scan is about to mark as kept.
    pub(super) fn write(&mut self, scan: &Scan) -> io::Result<()> {
        let (kept, failed) = scan.pending();
        let mut records = Vec::new();
        // Errors first: a kept sector without its error would be a zero sector without explanation.
        let all =
            failed.iter().map(|extent| (*extent, FAILED)).chain(kept.map(|extent| (extent, KEPT)));
        for (extent, kind) in all {
            let from = records.len();
            records.extend_from_slice(&extent.start.get().to_le_bytes());
            records.extend_from_slice(&extent.len.get().to_le_bytes());
            records.extend_from_slice(&[kind, 0, 0, 0]);
            let crc = crc32c::crc32c(&records[from..]);
            records.extend_from_slice(&crc.to_le_bytes());
        }
        self.file.write_all(&records)
    }

    /// Removes all records after a save.
    pub(super) fn emptied(mut self) -> io::Result<Self> {
        self.file.set_len(0)?;
        let head = self.head();
        self.file.write_all(&head)?;
        Ok(self)
    }

    pub(super) fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(HEAD as u64)
    }

    fn head(&self) -> Vec<u8> {
        [&MAGIC[..], &self.begun.to_le_bytes()].concat()
    }
}

const MAGIC: &[u8; 8] = b"HTSCANJ\n";
const HEAD: usize = 16;
const RECORD: usize = 24;
const KEPT: u8 = 1;
const FAILED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_tasks::{ReadSource, ScanSubject, TaskKind};
    use headtime_units::SectorSize;

    fn scan() -> Scan {
        let subject = ScanSubject {
            drive: [1; 16],
            target: "v".into(),
            extent: Extent::from_numbers(0, 64),
            sector_size: SectorSize::B512,
        };
        Scan::start(subject, TaskKind::Backup, 4096)
    }

    #[test]
    fn a_journal_brings_back_what_was_kept_and_a_cut_or_foreign_one_nothing_false() {
        let folder = tempfile::tempdir().unwrap();
        let files = StateFile::new(folder.path(), [1; 16], "v", "backup");
        let mut running = scan();
        let mut journal = files.journal(7).unwrap();
        for start in [8, 32] {
            running.deliver(
                Extent::from_numbers(start, 4),
                Err(5),
                false,
                ReadSource::Gap,
                &mut Vec::new(),
            );
            running.deliver(
                Extent::from_numbers(start + 4, 12),
                Ok(&[1; 12 * 512]),
                false,
                ReadSource::Gap,
                &mut Vec::new(),
            );
            journal.write(&running).unwrap();
            running.keep();
        }
        let replayed = |begun| {
            let mut scan = scan();
            files.replay(begun, &mut scan).unwrap();
            (scan.missing().collect::<Vec<_>>(), scan.failed().sectors().get())
        };
        assert_eq!(replayed(7), (running.missing().collect(), 8));
        assert_eq!(replayed(8), (vec![Extent::from_numbers(0, 64)], 0));
        let path = files.journal_path();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 30]).unwrap();
        assert!(
            replayed(7).0.contains(&Extent::from_numbers(32, 32))
                || replayed(7).0.contains(&Extent::from_numbers(24, 40)),
            "{:?}",
            replayed(7)
        );
        files.journal(9).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            HEAD as u64,
            "a journal of another scan is emptied"
        );
    }

    #[test]
    fn state_is_used_by_one_program_at_a_time_and_by_the_next_when_that_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let files = StateFile::new(folder.path(), [1; 16], "v", "scrub");
        let lock = files.lock().unwrap().expect("the state is not locked");
        assert!(files.lock().unwrap().is_none());
        let other = StateFile::new(folder.path(), [1; 16], "v", "digest");
        assert!(other.lock().unwrap().is_some(), "another scan has a lock of its own");
        drop(lock);
        assert!(files.lock().unwrap().is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn state_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let files = StateFile::new(&folder.path().join("deep"), [1; 16], "v", "backup");
        assert_eq!(files.read().unwrap(), None);
        files.save(&scan(), true).unwrap();
        let bytes = files.read().unwrap().unwrap();
        assert!(
            Scan::decode(&bytes, scan().subject(), TaskKind::Backup)
                .is_ok_and(|loaded| loaded.closed)
        );
        assert_eq!(
            std::fs::read_dir(folder.path().join("deep")).unwrap().count(),
            1,
            "nothing is left aside"
        );
        files.remove().unwrap();
        files.remove().unwrap();
    }
}
