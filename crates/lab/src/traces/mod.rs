//! Traces in files, from which `headtime trace`, `sim --trace` and `compare` read requests.
//!
//! [`TraceChoice::open`] opens the files and detects their format, so that errors appear early.
//! [`TraceChoice::source`] reads them, at each call, as a [`RequestSource`] for a drive of a given
//! size.
//! Reading is a stream: a trace of any length takes the same memory. Damage is reported on standard
//! error and counted in the [`TraceReport`], which can be read while and after the source is.

mod arguments;
pub mod census;
pub mod convert;
mod input;
mod merge;
mod reader;
mod report;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, anyhow};
use headtime_units::{SectorSize, Sectors};
use headtime_workload::RequestSource;
use headtime_workload::trace::{
    self, Action, Adjust, Adjusted, Counts, Detection, Format, Placed, Placement, Placing, Reading,
    Remap, Replay, ReplayOptions, Survey, TraceRecord, TraceSource,
};

use headtime_console::Failure;

pub use arguments::format;
pub use arguments::{
    ActionName, PlacingArguments, RemapName, ReplayArguments, StreamsName, TraceArguments,
};
pub use report::{TraceReport, TraceSummary};

use input::{Input, fingerprint_of, is_file, open};
use merge::Merged;
use reader::Reader;
use report::Damage;

/// The options for reading and replaying a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// The format [default: detected].
    pub format: Option<&'static Format>,
    /// True if the first damaged line or record ends the reading.
    pub strict: bool,
    /// The event that gives a request its time, in formats with several.
    pub action: Action,
    /// The selection, order and speed of its requests.
    pub adjust: Adjust,
    /// The mapping of its addresses to the drive.
    pub remap: Remap,
    /// True if requests that do not fit the drive are skipped instead of ending the replay.
    pub drop_misfits: bool,
    /// The timing, streams and deadlines of its requests.
    pub replay: ReplayOptions,
}

/// A trace that was opened once and whose format is known.
#[derive(Debug)]
pub struct TraceChoice {
    paths: Vec<PathBuf>,
    options: TraceOptions,
    format: &'static Format,
    /// The evidence for the format; `None` if it was given.
    detection: Option<Detection>,
    /// For each file: its open input if it can be read only once, as standard input and pipes.
    once: Vec<OnceOnly>,
    /// The result of a first pass, for addresses that are scaled or packed.
    survey: Mutex<Option<Arc<Survey>>>,
    /// True if damage was already reported; a trace that is read again is damaged in the same
    /// places.
    said: AtomicBool,
}

/// The rest of an input that cannot be opened again; `None` for files.
type OnceOnly = Option<Mutex<Option<Input>>>;

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// Files of one trace: as many as a machine has processors, and open at once.
const MAX_FILES: usize = 1024;

impl TraceChoice {
    /// Opens the files of one trace (`-` is standard input) and detects their format. A pipe is
    /// kept open, because it can be read only once.
    ///
    /// # Errors
    /// When a file cannot be read, or its format is neither given nor recognized.
    pub fn open(paths: &[PathBuf], options: TraceOptions) -> Result<Self, Failure> {
        if paths.is_empty() || paths.len() > MAX_FILES {
            return Err(Failure::Usage(anyhow!(
                "a trace of {} files; expected 1 to {MAX_FILES}",
                paths.len()
            )));
        }
        let mut once = Vec::new();
        let mut detection = None;
        for path in paths {
            let mut input = open(path)?;
            if detection.is_none() && options.format.is_none() {
                detection = detect(path, &mut input)?;
            }
            let can_be_opened_again = is_file(path);
            if !can_be_opened_again && options.remap.needs_survey() {
                return Err(Failure::Usage(anyhow!(
                    "scaling and packing addresses read the trace twice, and {} is no file, so it \
                        can be read only once; write it to a file, or use --remap wrap",
                    called(path)
                )));
            }
            once.push((!can_be_opened_again).then(|| Mutex::new(Some(input))));
        }
        let format = match (options.format, &detection) {
            (Some(format), _) => format,
            (None, Some(detection)) => detection.format,
            (None, None) => {
                return Err(Failure::Usage(anyhow!("{} is empty; expected a trace", names(paths))));
            }
        };
        Ok(Self {
            paths: paths.to_vec(),
            options,
            format,
            detection,
            once,
            survey: Mutex::new(None),
            said: AtomicBool::new(false),
        })
    }

    /// The format.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The mapping of its addresses and the timing of its requests, in words.
    pub fn placing(&self) -> String {
        let places = match self.options.remap {
            Remap::None => "addresses as recorded",
            Remap::Wrap => "addresses wrapped around the drive",
            Remap::Scale => "addresses scaled to the drive",
            Remap::Compact => "addresses packed at the start of the drive",
        };
        match self.options.replay.replay {
            Replay::Open => places.to_string(),
            Replay::Closed { outstanding } => format!("{places}, {outstanding} requests at a time"),
            Replay::Think => format!("{places}, one request at a time with think times"),
        }
    }

    /// The timing of its requests.
    pub fn replay(&self) -> Replay {
        self.options.replay.replay
    }

    /// The evidence for the format; `None` if it was given.
    pub fn detection(&self) -> Option<Detection> {
        self.detection
    }

    /// The files, as they are called in messages.
    pub fn name(&self) -> String {
        names(&self.paths)
    }

    /// The trace as requests to a drive of `capacity` sectors of `sector` bytes, from its
    /// beginning, and the report of its records. Each call reads the files again; with scaled or
    /// packed addresses the first call reads them twice.
    ///
    /// # Errors
    /// When a file can no longer be read, a pipe is to be read a second time, or addresses cannot
    /// be mapped.
    pub fn source(
        &self,
        sector: SectorSize,
        capacity: Sectors,
    ) -> Result<(Box<dyn RequestSource + Send>, TraceReport), Failure> {
        let (placed, report) = self.placed(sector, capacity)?;
        let counts = Arc::clone(report.counts());
        Ok((Box::new(TraceSource::new(placed, self.options.replay, counts)), report))
    }

    /// The chosen records in order, from time zero, each with its sectors on such a drive, and the
    /// report of its records.
    ///
    /// # Errors
    /// As [`TraceChoice::source`].
    pub fn placed(
        &self,
        sector: SectorSize,
        capacity: Sectors,
    ) -> Result<(impl Iterator<Item = Placed> + Send + use<>, TraceReport), Failure> {
        let survey = if self.options.remap.needs_survey() { Some(self.survey()?) } else { None };
        let placement = Placement::new(self.options.remap, sector, capacity, survey.as_deref())
            .map_err(Failure::usage)?;
        let (records, report) = self.records()?;
        let placed = Placing::new(
            records,
            placement,
            self.options.drop_misfits,
            Arc::clone(report.counts()),
        );
        Ok((placed, report))
    }

    /// The chosen records in order, from time zero, and the report of its records.
    ///
    /// # Errors
    /// When a file can no longer be read, or a pipe is to be read a second time.
    pub fn records(
        &self,
    ) -> Result<(impl Iterator<Item = TraceRecord> + Send + use<>, TraceReport), Failure> {
        let says_damage = !self.said.swap(true, Ordering::Relaxed);
        let damage = Arc::new(Damage::new(self.options.strict, says_damage));
        let counts = Arc::new(Counts::default());
        let merged = Merged::new(self.readers(&damage)?, Arc::clone(&damage));
        let adjusted = Adjusted::new(merged, self.options.adjust.clone(), Arc::clone(&counts));
        Ok((adjusted, TraceReport::new(self.name(), counts, damage)))
    }

    /// A fingerprint of the trace and its options: format, options, and each file's size with the
    /// checksums of its first and last MiB.
    ///
    /// # Errors
    /// When a file cannot be read; a pipe has no fingerprint.
    pub fn fingerprint(&self) -> Result<String, Failure> {
        let files: Vec<String> =
            self.paths.iter().map(|path| fingerprint_of(path)).collect::<Result<_, _>>()?;
        Ok(format!(
            "{} {:?} {}",
            self.format.name,
            Fingerprinted::of(&self.options),
            files.join(" ")
        ))
    }

    fn readers(&self, damage: &Arc<Damage>) -> Result<Vec<Reader>, Failure> {
        let reader = |(path, once): (&PathBuf, &OnceOnly)| {
            let input = match once {
                None => open(path)?,
                Some(input) => {
                    let taken = input.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let again = || {
                        format!(
                            "{} is no file and was read already; write the trace to a file to read \
                                it again",
                            called(path)
                        )
                    };
                    taken.with_context(again).map_err(Failure::Usage)?
                }
            };
            let reading = Reading { file: called(path), action: self.options.action };
            Ok(Reader::new(
                input,
                (self.format.decoder)(&reading),
                reading.file,
                Arc::clone(damage),
            ))
        };
        self.paths.iter().zip(&self.once).map(reader).collect()
    }

    fn survey(&self) -> Result<Arc<Survey>, Failure> {
        let mut known = self.survey.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(survey) = &*known {
            return Ok(Arc::clone(survey));
        }
        let (records, report) = self.records()?;
        let mut survey = self.options.remap.survey();
        for record in records {
            survey.add(&record).map_err(Failure::usage)?;
        }
        report.check()?;
        let survey = Arc::new(survey);
        *known = Some(Arc::clone(&survey));
        Ok(survey)
    }
}

/// The options as far as they change what is replayed.
#[derive(Debug)]
#[expect(dead_code, reason = "read through Debug, which is what makes the fingerprint")]
struct Fingerprinted<'a> {
    action: Action,
    adjust: &'a Adjust,
    remap: Remap,
    drop_misfits: bool,
    replay: ReplayOptions,
}

impl<'a> Fingerprinted<'a> {
    fn of(options: &'a TraceOptions) -> Self {
        let TraceOptions { action, adjust, remap, drop_misfits, replay, format: _, strict: _ } =
            options;
        Self {
            action: *action,
            adjust,
            remap: *remap,
            drop_misfits: *drop_misfits,
            replay: *replay,
        }
    }
}

/// The format detected from the beginning of a file; `None` for an empty file, such as that of an
/// idle processor.
fn detect(path: &Path, input: &mut Input) -> Result<Option<Detection>, Failure> {
    let name = called(path);
    let (sample, ends) = input
        .sample(trace::SAMPLE_BYTES)
        .with_context(|| format!("{name} cannot be read"))
        .map_err(Failure::Failed)?;
    if sample.is_empty() {
        return Ok(None);
    }
    trace::detect(&name, sample, ends).map(Some).map_err(|error| {
        Failure::Usage(anyhow!("{error} with --format NAME (headtime trace formats)"))
    })
}

/// The name of a path in messages.
fn called(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT {
        "standard input".to_string()
    } else {
        path.display().to_string()
    }
}

fn names(paths: &[PathBuf]) -> String {
    match paths {
        [path] => called(path),
        [path, others @ ..] => format!("{} and {} more", called(path), others.len()),
        [] => "no file".to_string(),
    }
}
