//! fio's job files, as far as they say what a drive is asked for: [`read`] makes a [`WorkloadFile`]
//! of one.
//!
//! [`OPTIONS`] says of each option whether it is understood, has no meaning here, is left out with
//! a note, or is refused. Nothing is guessed: an option that is not in the table is refused too,
//! because it may change what is asked for.
//!
//! Differs from fio: blocks of a random job may repeat before all have come (as with
//! `norandommap`); a job's files are one stretch of the drive, and files lie one behind the other
//! from the drive's start; there is no page cache; sizes drawn by `bsrange` are multiples of the
//! smallest.
//!
//! Reference: the manual page fio(1), and fio 3.33 itself, whose parser is asked in tests whether
//! it takes the same files.

mod ini;
mod job;
mod keys;
mod values;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::Nanos;

pub use keys::{Fate, FioOption, OPTIONS};

use crate::file::{FileErrors, MAX_STREAMS, Mistake, WorkloadFile};
use job::Job;

/// Reads a job file's text; `name` is what messages call it.
///
/// # Errors
/// All mistakes that could be found, by line.
pub fn read(name: &str, text: &str) -> Result<WorkloadFile, FileErrors> {
    let (sections, mut mistakes) = ini::sections(text);
    let mut file = WorkloadFile {
        name: name.to_string(),
        description: None,
        streams: Vec::new(),
        notes: Vec::new(),
    };
    let mut ground = Ground::default();
    if sections.is_empty() && mistakes.is_empty() {
        mistakes.push(Mistake {
            at: None,
            message: "there is no job; add a section such as [reader] with rw=randread".to_string(),
        });
    }
    for section in &sections {
        let mut job = Job::new(section, &mut mistakes);
        let streams = job.streams(&mut ground);
        for note in job.notes.drain(..) {
            if !file.notes.contains(&note) {
                file.notes.push(note);
            }
        }
        // Jobs may have one name; streams may not.
        for mut stream in streams {
            let same = file
                .streams
                .iter()
                .filter(|other| {
                    other.name == stream.name
                        || other.name.starts_with(&alloc::format!("{}~", stream.name))
                })
                .count();
            if same > 0 {
                stream.name = alloc::format!("{}~{}", stream.name, same + 1);
            }
            file.streams.push(stream);
        }
    }
    if file.streams.len() > MAX_STREAMS {
        let message = alloc::format!(
            "the jobs make {} streams, expected at most {MAX_STREAMS}; lower numjobs, or raise \
                iodepth instead",
            file.streams.len()
        );
        mistakes.push(Mistake { at: None, message });
    }
    mistakes.sort_by_key(|mistake| mistake.at);
    // What stands in [global] is wrong in every job below it.
    mistakes.dedup();
    if mistakes.is_empty() {
        Ok(file)
    } else {
        Err(FileErrors { name: name.to_string(), mistakes })
    }
}

const MIB: u64 = 1 << 20;

/// What earlier jobs leave behind for later ones.
#[derive(Debug, Default)]
struct Ground {
    /// Files and where they lie: name, first byte, bytes.
    files: Vec<(String, u64, u64)>,
    /// When all jobs so far have stopped; `None` when one of them does not stop at a known time.
    ends: Option<Option<Nanos>>,
    /// Before this nothing starts: the end of what a stonewall waited for.
    barrier: Nanos,
}

impl Ground {
    /// Where a file of this size lies: where it lay before, or behind all others. A file that a
    /// later job makes longer reaches into the next one.
    fn file(&mut self, name: &str, bytes: u64) -> u64 {
        if let Some((_, first, of_file)) = self.files.iter_mut().find(|(other, ..)| other == name) {
            *of_file = bytes.max(*of_file);
            return *first;
        }
        // Files begin at whole MiB, as file systems place large ones.
        let first = self
            .files
            .iter()
            .map(|(_, first, bytes)| first.saturating_add(*bytes).div_ceil(MIB).saturating_mul(MIB))
            .max()
            .unwrap_or(0);
        self.files.push((name.to_string(), first, bytes));
        first
    }

    fn ends_at(&mut self, end: Option<Nanos>) {
        self.ends = Some(match self.ends {
            None => end,
            Some(so_far) => so_far.zip(end).map(|(a, b)| a.max(b)),
        });
    }
}
