//! [`detect()`]: detection of the format of a trace.
//!
//! Every format decodes a sample, and valid and damaged lines or records are counted. A format is a
//! candidate when more than half are valid, so a header and some damaged lines at the start do no
//! harm. A single candidate is the result. Several, or none, are refused with the counts, because a
//! wrong guess would replay nonsense.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::decoder::{LONGEST_LINE, Reading, Step};
use super::formats::{FORMATS, Format};

/// The number of bytes of the sample.
pub const SAMPLE_BYTES: usize = 2 * LONGEST_LINE;

/// The number of lines or records that decide on a format.
const ENOUGH: u64 = 1000;

/// A detected format, with its evidence.
#[derive(Clone, Copy, Debug)]
pub struct Detection {
    /// The format.
    pub format: &'static Format,
    /// Valid lines or records of the sample.
    pub fitting: u64,
    /// Damaged lines or records of the sample.
    pub damaged: u64,
}

/// The reason why no format was detected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum DetectError {
    #[error("{file} is empty; expected a trace")]
    Empty { file: String },
    /// More than one format fits.
    #[error("{file} may be {}; name the format", list(candidates))]
    Ambiguous { file: String, candidates: Vec<Candidate> },
    /// No format fits.
    #[error(
        "{file} has no known format: {}; name the format if it is one of {}",
        closest(candidates),
        names()
    )]
    Unknown { file: String, candidates: Vec<Candidate> },
}

/// A format, and the part of a sample that it decodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The format's name.
    pub format: &'static str,
    /// Valid lines or records.
    pub fitting: u64,
    /// Damaged lines or records.
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
        "no line or record fits any".to_string()
    } else {
        alloc::format!("closest is {}", list(candidates))
    }
}

fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// The format of a trace that begins with `sample`, which is the whole trace if `ends`; `file` is
/// its name in errors.
///
/// # Errors
/// When the sample is empty, when no format decodes most of it, or when several do.
pub fn detect(file: &str, sample: &[u8], ends: bool) -> Result<Detection, DetectError> {
    if sample.is_empty() {
        return Err(DetectError::Empty { file: file.to_string() });
    }
    let trials: Vec<Detection> =
        FORMATS.iter().map(|format| trial(format, file, sample, ends)).collect();
    let likely = |trial: &&Detection| trial.fitting > trial.damaged;
    let candidates = |trials: &mut dyn Iterator<Item = &Detection>| {
        trials
            .map(|trial| Candidate {
                format: trial.format.name,
                fitting: trial.fitting,
                damaged: trial.damaged,
            })
            .collect()
    };
    let file = file.to_string();
    let mut found = trials.iter().filter(likely);
    match (found.next(), found.next()) {
        (Some(found), None) => Ok(*found),
        (Some(_), Some(_)) => Err(DetectError::Ambiguous {
            file,
            candidates: candidates(&mut trials.iter().filter(likely)),
        }),
        (None, _) => Err(DetectError::Unknown {
            file,
            candidates: candidates(&mut trials.iter().filter(|trial| trial.fitting > 0)),
        }),
    }
}

fn trial(format: &'static Format, file: &str, sample: &[u8], ends: bool) -> Detection {
    let mut decoder = (format.decoder)(&Reading::of(file));
    let mut trial = Detection { format, fitting: 0, damaged: 0 };
    let mut rest = sample;
    while trial.fitting + trial.damaged < ENOUGH {
        rest = match decoder.step(rest, ends) {
            Step::NeedMore => break,
            Step::Record { consumed, .. } | Step::Passed { consumed } => {
                trial.fitting += 1;
                &rest[consumed..]
            }
            Step::Damaged { consumed, .. } => {
                trial.damaged += 1;
                &rest[consumed..]
            }
            Step::Blank { consumed } => &rest[consumed..],
        };
    }
    trial
}
