//! [`detect()`]: which format some bytes are.
//!
//! Every format reads the sample, and what it makes of it is counted: lines or records that are of
//! the format, and such that are damaged. A format is a candidate when more than half are its own,
//! so a header and some damaged lines in front do no harm. One candidate is the answer; several, or
//! none, are refused with what was counted: to guess would be to replay nonsense.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::decoder::{LONGEST_LINE, Reading, Step};
use super::formats::{FORMATS, Format};

/// How many of a trace's first bytes are looked at.
pub const SAMPLE_BYTES: usize = 2 * LONGEST_LINE;

/// Lines or records after which a format's answer is sure enough.
const ENOUGH: u64 = 1000;

/// A format that was recognized, and by what.
#[derive(Clone, Copy, Debug)]
pub struct Detection {
    /// The format.
    pub format: &'static Format,
    /// Lines or records of the sample that are of it.
    pub fitting: u64,
    /// Lines or records of the sample that are not.
    pub damaged: u64,
}

/// Why no format was recognized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetectError {
    /// No byte.
    #[error("{file} is empty; expected a trace")]
    Empty {
        /// The file's name as it was given.
        file: String,
    },
    /// More than one format fits.
    #[error("{file} may be {}; say which", list(candidates))]
    Ambiguous {
        /// The file's name as it was given.
        file: String,
        /// Formats that read most of it.
        candidates: Vec<Candidate>,
    },
    /// None fits.
    #[error(
        "{file} is of no format that is recognized: {}; say which if it is one of {}",
        closest(candidates),
        names()
    )]
    Unknown {
        /// The file's name as it was given.
        file: String,
        /// Formats that read any of it.
        candidates: Vec<Candidate>,
    },
}

/// A format, and how much of a sample it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The format's name.
    pub format: &'static str,
    /// Lines or records that are of it.
    pub fitting: u64,
    /// Lines or records that are not.
    pub damaged: u64,
}

fn list(candidates: &[Candidate]) -> String {
    let names: Vec<String> = candidates
        .iter()
        .map(|candidate| {
            alloc::format!(
                "{} ({} of {} fit)",
                candidate.format,
                candidate.fitting,
                candidate.fitting + candidate.damaged
            )
        })
        .collect();
    names.join(" or ")
}

fn closest(candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        "no line or record of it fits any".to_string()
    } else {
        alloc::format!("closest is {}", list(candidates))
    }
}

fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// The format of a trace that begins with `sample`, which is all of it if `ends`; `file` is the
/// name that messages give it.
///
/// # Errors
/// When there is nothing, no format reads most of it, or several do.
pub fn detect(file: &str, sample: &[u8], ends: bool) -> Result<Detection, DetectError> {
    if sample.is_empty() {
        return Err(DetectError::Empty { file: file.to_string() });
    }
    let looks: Vec<Detection> =
        FORMATS.iter().map(|format| look(format, file, sample, ends)).collect();
    let likely = |look: &&Detection| look.fitting > look.damaged;
    let candidates = |looks: &mut dyn Iterator<Item = &Detection>| {
        looks
            .map(|look| Candidate {
                format: look.format.name,
                fitting: look.fitting,
                damaged: look.damaged,
            })
            .collect()
    };
    let file = file.to_string();
    let mut found = looks.iter().filter(likely);
    match (found.next(), found.next()) {
        (Some(found), None) => Ok(*found),
        (Some(_), Some(_)) => Err(DetectError::Ambiguous {
            file,
            candidates: candidates(&mut looks.iter().filter(likely)),
        }),
        (None, _) => Err(DetectError::Unknown {
            file,
            candidates: candidates(&mut looks.iter().filter(|look| look.fitting > 0)),
        }),
    }
}

fn look(format: &'static Format, file: &str, sample: &[u8], ends: bool) -> Detection {
    let mut decoder = (format.decoder)(&Reading::of(file));
    let mut look = Detection { format, fitting: 0, damaged: 0 };
    let mut rest = sample;
    while look.fitting + look.damaged < ENOUGH {
        rest = match decoder.step(rest, ends) {
            Step::NeedMore => break,
            Step::Record { consumed, .. } | Step::Passed { consumed } => {
                look.fitting += 1;
                &rest[consumed..]
            }
            Step::Damaged { consumed, .. } => {
                look.damaged += 1;
                &rest[consumed..]
            }
            Step::Blank { consumed } => &rest[consumed..],
        };
    }
    look
}
