//! Job files of fio: [`read`] makes a [`WorkloadFile`] from the options that decide a drive's
//! requests.
//!
//! [`OPTIONS`] states for each option whether it is supported, has no meaning here, is ignored with
//! a note, or is refused. An option that is not in the table is refused, because it may change the
//! requests.
//!
//! Differs from fio: blocks of a random job may repeat before each was accessed once (as with
//! `norandommap`); a job's file is one contiguous range of the drive, and files follow each other
//! from the drive's start; there is no page cache; sizes drawn by `bsrange` are multiples of the
//! smallest.
//!
//! Reference: the manual page fio(1), and fio 3.33; tests check that its parser accepts the same
//! files.

mod ini;
mod job;
mod keys;
mod values;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::{TextError, TextErrors};
use headtime_units::Nanos;

pub use keys::{FioOption, OPTIONS, Support};

use crate::file::{MAX_STREAMS, WorkloadFile};
use job::Job;

/// Reads the text of a job file; `name` is its name in errors.
///
/// # Errors
/// All errors of the text, by line.
pub fn read(name: &str, text: &str) -> Result<WorkloadFile, TextErrors> {
    let (sections, mut errors) = ini::sections(name, text);
    let mut file = WorkloadFile {
        name: name.to_string(),
        description: None,
        streams: Vec::new(),
        scan: None,
        notes: Vec::new(),
    };
    let mut earlier = EarlierJobs::default();
    if sections.is_empty() && errors.is_empty() {
        errors.push(TextError::whole(
            name,
            "there is no job; add a section such as [reader] with rw=randread",
        ));
    }
    for section in &sections {
        let mut job = Job::new(name, section, &mut errors);
        let streams = job.streams(&mut earlier);
        for note in job.notes.drain(..) {
            if !file.notes.contains(&note) {
                file.notes.push(note);
            }
        }
        // Jobs may share a name; streams may not.
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
        errors.push(TextError::whole(name, message));
    }
    errors.sort_by_key(|error| error.position);
    // An error in [global] is found in every job below it.
    errors.dedup();
    TextErrors::check(errors).map(|()| file)
}

const MIB: u64 = 1 << 20;

/// The effect of earlier jobs on later ones.
#[derive(Debug, Default)]
struct EarlierJobs {
    /// Files: name, first byte, length in bytes.
    files: Vec<(String, u64, u64)>,
    /// The end of all jobs so far; `Some(None)` when one of them has no known end.
    ends: Option<Option<Nanos>>,
    /// The earliest start of later jobs: the end of the jobs that a stonewall waits for.
    barrier: Nanos,
}

impl EarlierJobs {
    /// The first byte of a file of this size. A new file lies after all others. A file that a later
    /// job extends overlaps the next one.
    fn file(&mut self, name: &str, bytes: u64) -> u64 {
        if let Some((_, first, of_file)) = self.files.iter_mut().find(|(other, ..)| other == name) {
            *of_file = bytes.max(*of_file);
            return *first;
        }
        // Files begin at multiples of 1 MiB, as large files do in file systems.
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
