//! [`WorkloadChoice`]: what `--workload` takes, understood once and turned into requests as often
//! as needed.
//!
//! | written | is |
//! |---|---|
//! | `random`, `oltp:reads=0.9`, `vm-mix:copy.size=1MiB` | a built-in workload with changed keys |
//! | `drawn-17` | a mixture drawn at random from a seed |
//! | `FILE.toml`, `FILE.toml:cameras.deadline=50ms` | a file of streams, likewise |
//! | `FILE.fio`, `FILE.job`, `FILE.ini` | a job file of fio |
//! | any other file | a trace, its addresses wrapped around the drive's size |

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, anyhow};
use headtime_mechanics::DriveProfile;
use headtime_sched::{DeadlineTable, FillSettings, IoPriority, Tenant, Terms, VolumeId};
use headtime_serve::volumes::{ClassSettings, shares};
use headtime_sim::BackgroundScan;
use headtime_units::{SectorSize, Sectors};
use headtime_workload::file::{StreamTerms, WorkloadFile};
use headtime_workload::trace::Replay;
use headtime_workload::{BUILTINS, Builtin, DRAWN, RequestSource, drawn, fio};

use crate::traces::{TraceChoice, TraceOptions, TraceReport};
use headtime_console::Failure;

/// The default queue depth of a closed loop that does not set one.
pub const DEFAULT_DEPTH: u32 = 16;

/// A workload as the user named it.
#[derive(Clone, Debug)]
pub struct WorkloadChoice {
    name: String,
    fingerprint: u32,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Streams(Arc<WorkloadFile>),
    Trace(Arc<Trace>),
}

/// A trace, and what is known of each reading of it.
#[derive(Debug)]
struct Trace {
    choice: TraceChoice,
    reports: Mutex<Vec<TraceReport>>,
}

/// The name of a workload's stream in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLabel {
    /// The stream.
    pub name: String,
    /// The class that its figures are added to.
    pub class: String,
}

/// The settings of a scheduler that belong to a workload, besides its requests.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The tenants with terms of their own: a stream is the volume of its number.
    pub terms: Vec<(Tenant, Terms)>,
    /// The background scan.
    pub scan: Option<BackgroundScan>,
}

impl WorkloadChoice {
    /// Understands what the user wrote; reads the file, where it is one.
    ///
    /// # Errors
    /// When there is no such workload, or its file makes none; the message says where, and what
    /// would do.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        Self::parse_with(text, &TraceOptions::wrapped())
    }

    /// As [`WorkloadChoice::parse`]; a trace is read and replayed with `options`.
    ///
    /// # Errors
    /// As [`WorkloadChoice::parse`].
    pub fn parse_with(text: &str, options: &TraceOptions) -> Result<Self, Failure> {
        let (name, pairs) = match text.split_once(':') {
            Some((name, pairs)) => (name, Some(pairs)),
            None => (text, None),
        };
        if let Some(file) = shipped(name) {
            return Self::of_streams(text, file, pairs);
        }
        let (head, pairs) = parts(text);
        let path = Path::new(head);
        let stem = path
            .file_stem()
            .map_or_else(|| head.to_string(), |stem| stem.to_string_lossy().into_owned());
        let name = pairs.map_or_else(|| stem.clone(), |pairs| format!("{stem}:{pairs}"));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::of_streams(
                &name,
                WorkloadFile::from_toml(head, &read(path)?).map_err(Failure::usage)?,
                pairs,
            ),
            Some("fio" | "job" | "ini") => Self::of_streams(
                &name,
                fio::read(head, &read(path)?).map_err(Failure::usage)?,
                pairs,
            ),
            _ if path.is_file() => Self::of_trace(&stem, path, options.clone()),
            _ => {
                let names: Vec<&str> = BUILTINS.iter().map(|builtin| builtin.name).collect();
                let known = names.join(", ");
                Err(Failure::usage(anyhow!(
                    "workload {text} is neither one that ships nor a file; expected {known}, \
                        {DRAWN}, or the path of a FILE.toml, a fio job FILE.fio or a trace (see \
                        `headtime workload list`)"
                )))
            }
        }
    }

    /// A workload that is written in the program.
    ///
    /// # Errors
    /// When the text makes none.
    pub fn of_text(name: &str, toml: &str) -> Result<Self, Failure> {
        let file = WorkloadFile::from_toml(name, toml).map_err(Failure::usage)?;
        Self::of_streams(name, file, None)
    }

    fn of_streams(name: &str, file: WorkloadFile, pairs: Option<&str>) -> Result<Self, Failure> {
        let file = match pairs {
            Some(pairs) => file.with(&format!("workload {name}"), pairs).map_err(Failure::usage)?,
            None => file,
        };
        // The normalized text has all that decides the requests, and no comments.
        let fingerprint = crc32c::crc32c(file.to_toml().as_bytes());
        Ok(Self { name: name.to_string(), fingerprint, what: What::Streams(Arc::new(file)) })
    }

    fn of_trace(name: &str, path: &Path, options: TraceOptions) -> Result<Self, Failure> {
        let choice = TraceChoice::open(&[PathBuf::from(path)], options)?;
        let fingerprint = crc32c::crc32c(choice.fingerprint()?.as_bytes());
        Ok(Self {
            name: name.to_string(),
            fingerprint,
            what: What::Trace(Arc::new(Trace { choice, reports: Mutex::default() })),
        })
    }

    /// Short, for tables and plots.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line: what it is for, its streams, and what of a foreign file is left out.
    pub fn describe(&self) -> String {
        match &self.what {
            What::Streams(file) => {
                let names: Vec<&str> =
                    file.streams.iter().map(|stream| stream.name.as_str()).collect();
                let streams = if let [name] = names[..] {
                    format!("stream {name}")
                } else {
                    format!("{} streams: {}", names.len(), names.join(", "))
                };
                let purpose = file.description.as_ref().map_or_else(String::new, |purpose| {
                    format!("{}; ", purpose.replace('\n', " "))
                });
                let notes: Vec<String> =
                    file.notes.iter().map(|note| format!("; {note}")).collect();
                format!("{purpose}{streams}{}", notes.concat())
            }
            What::Trace(trace) => format!(
                "trace {} ({}), {}",
                trace.choice.name(),
                trace.choice.format().name,
                trace.choice.placing()
            ),
        }
    }

    /// The options of a fio job file that are ignored or approximated, each with its line.
    pub fn notes(&self) -> &[String] {
        match &self.what {
            What::Streams(file) => &file.notes,
            What::Trace(_) => &[],
        }
    }

    /// The crc32c of everything that decides the requests but drive, seed and depth.
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint
    }

    /// Returns true if the queue depth is a parameter.
    pub fn takes_depth(&self) -> bool {
        match &self.what {
            What::Streams(file) => file.takes_depth(),
            What::Trace(_) => false,
        }
    }

    /// For each stream, in the order of `Ask::stream`: true if its requests arrive whether or not
    /// others are complete.
    pub fn open_streams(&self) -> Vec<bool> {
        match &self.what {
            What::Streams(file) => {
                file.streams.iter().map(headtime_workload::file::StreamPlan::is_open).collect()
            }
            What::Trace(trace) => vec![trace.choice.replay() == Replay::Open],
        }
    }

    /// The same with deadlines by I/O priority for streams without a deadline of their own. A
    /// stream without a priority is best effort.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines: &DeadlineTable) -> Self {
        if let What::Streams(file) = &mut self.what {
            for plan in &mut Arc::make_mut(file).streams {
                let within = deadlines.within(priority_of(&plan.terms));
                plan.stream.deadline = plan.stream.deadline.or(within);
            }
        }
        self
    }

    /// The terms of the streams and the scan beside them on this drive.
    ///
    /// # Errors
    /// When the scheduler does not take the terms of a stream.
    pub fn service(&self, profile: &DriveProfile) -> Result<Service, Failure> {
        let sector = profile.sector_size().map_err(Failure::usage)?;
        let What::Streams(file) = &self.what else { return Ok(Service::default()) };
        let mut service = Service::default();
        for (number, plan) in (0..).zip(&file.streams) {
            let StreamTerms { reserve, limit, weight, burst, iops_limit, bandwidth_limit, .. } =
                plan.terms;
            let settings = ClassSettings {
                reserve,
                limit,
                burst,
                weight,
                iops_limit,
                bandwidth_limit,
                priority: plan.terms.priority.as_ref().map(|_| priority_of(&plan.terms)),
                ..ClassSettings::default()
            };
            let terms = shares::terms(&settings, sector).unwrap_or_default();
            let tenant = Tenant::of(VolumeId(number));
            terms.check(tenant).map_err(|refusal| {
                Failure::usage(anyhow!("{}: stream {}: {refusal}", file.name, plan.name))
            })?;
            service.terms.extend((terms != Terms::default()).then_some((tenant, terms)));
        }
        service.scan = match &file.scan {
            None => None,
            Some(scan) => {
                let mut fill = FillSettings { max_impact: scan.max_impact, ..Default::default() };
                fill.idle.enabled = scan.idle;
                // As a server does, so that the pending sectors of a large drive take 2 MiB a TiB.
                let usual = (profile.capacity().get() >> 24).next_power_of_two().min(128);
                let grain = scan.piece_bytes.map_or(Ok(Sectors::new(usual)), |bytes| {
                    sector.sectors_of(bytes).ok_or_else(|| {
                        Failure::usage(anyhow!(
                            "{}: scan: piece is {bytes} bytes; expected a multiple of the drive's \
                                sector of {} bytes",
                            file.name,
                            sector.bytes()
                        ))
                    })
                })?;
                Some(BackgroundScan { grain, ..BackgroundScan::new(fill) })
            }
        };
        Ok(service)
    }

    /// Name and class of each stream, in the order of `Ask::stream`.
    pub fn streams(&self) -> Vec<StreamLabel> {
        match &self.what {
            What::Streams(file) => {
                let label = |stream: &headtime_workload::file::StreamPlan| StreamLabel {
                    name: stream.name.clone(),
                    class: stream.class().to_string(),
                };
                file.streams.iter().map(label).collect()
            }
            What::Trace(_) => {
                vec![StreamLabel { name: self.name.clone(), class: self.name.clone() }]
            }
        }
    }

    /// The streams, unless it is a trace.
    pub fn file(&self) -> Option<&WorkloadFile> {
        match &self.what {
            What::Streams(file) => Some(file),
            What::Trace(_) => None,
        }
    }

    /// The requests for a drive of `capacity` sectors. `depth` is the number of clients of closed
    /// loops that do not set it [default: [`DEFAULT_DEPTH`]].
    ///
    /// # Errors
    /// When the workload does not fit the drive, or its trace can no longer be read.
    pub fn source(
        &self,
        sector: SectorSize,
        capacity: Sectors,
        seed: u64,
        depth: Option<u32>,
    ) -> Result<Box<dyn RequestSource + Send>, Failure> {
        match &self.what {
            What::Streams(file) => {
                let workload = file
                    .workload(sector, capacity, seed, depth.unwrap_or(DEFAULT_DEPTH))
                    .map_err(Failure::usage)?;
                Ok(Box::new(workload))
            }
            What::Trace(trace) => {
                let (source, report) = trace.choice.source(sector, capacity)?;
                trace.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                Ok(source)
            }
        }
    }

    /// The requests of one stream of [`WorkloadChoice::source`], as if there were no other.
    ///
    /// # Errors
    /// As [`WorkloadChoice::source`].
    pub fn source_of(
        &self,
        stream: u32,
        sector: SectorSize,
        capacity: Sectors,
        seed: u64,
        depth: Option<u32>,
    ) -> Result<Box<dyn RequestSource + Send>, Failure> {
        match &self.what {
            What::Streams(file) => {
                let workload = file
                    .workload(sector, capacity, seed, depth.unwrap_or(DEFAULT_DEPTH))
                    .map_err(Failure::usage)?;
                Ok(Box::new(workload.only(stream)))
            }
            What::Trace(_) => self.source(sector, capacity, seed, depth),
        }
    }

    /// Checks that all sources handed out so far were read without an error; a broken trace only
    /// ends its requests.
    ///
    /// # Errors
    /// The error of the first source that failed.
    pub fn check(&self) -> Result<(), Failure> {
        match &self.what {
            What::Streams(_) => Ok(()),
            What::Trace(trace) => trace
                .reports
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
                .try_for_each(TraceReport::check),
        }
    }
}

/// The I/O priority of a stream.
fn priority_of(terms: &StreamTerms) -> IoPriority {
    let Some((class, level)) = &terms.priority else { return IoPriority::DEFAULT };
    format!("{class}/{level}").parse().expect("the file was checked for classes and levels")
}

/// The workload of that name which ships or is drawn.
fn shipped(name: &str) -> Option<WorkloadFile> {
    let file = Builtin::find(name).map(Builtin::load).or_else(|| drawn(name))?;
    Some(file.expect("tests read all workloads that ship, and many that are drawn"))
}

/// The path of a file, and the keys after the colon that follows its extension.
fn parts(text: &str) -> (&str, Option<&str>) {
    let after =
        |extension: &str| text.find(&format!("{extension}:")).map(|at| at + extension.len());
    match [".toml", ".fio", ".job", ".ini"].into_iter().find_map(after) {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .with_context(|| format!("workload {} cannot be read", path.display()))
        .map_err(Failure::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_overrides_are_told_apart() {
        for (text, expected) in [
            ("a/b.toml", ("a/b.toml", None)),
            ("c:/b.toml:x.size=1MiB", ("c:/b.toml", Some("x.size=1MiB"))),
            ("trace:1", ("trace:1", None)),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
        for text in ["random", "random:size=4KiB,place={kind=\"near\",mean=\"1%\"}", "drawn-17"] {
            let choice = WorkloadChoice::parse(text);
            let choice = choice.unwrap_or_else(|failure| panic!("{text}: {}", failure.message()));
            assert_eq!(choice.name(), text);
        }
    }

    /// Paced streams and processes, which hold as many requests as they do.
    const WITHOUT_DEPTH: [&str; 5] = [
        "recorder-beside-scrub",
        "find-cat",
        "read-beside-write",
        "small-files",
        "stream-beside-find",
    ];

    #[test]
    fn every_workload_that_ships_is_chosen_by_its_name() {
        for builtin in BUILTINS {
            let choice = WorkloadChoice::parse(builtin.name)
                .unwrap_or_else(|failure| panic!("{}: {}", builtin.name, failure.message()));
            assert_eq!(choice.name(), builtin.name);
            assert!(
                choice.takes_depth() || WITHOUT_DEPTH.contains(&builtin.name),
                "{} takes no depth",
                builtin.name
            );
            assert!(
                !choice.describe().contains('\n') && choice.describe().contains("stream"),
                "{}",
                choice.describe()
            );
            assert!(
                choice
                    .source(SectorSize::B512, Sectors::new(40_000_000), 1, None)
                    .is_ok_and(|mut source| source.arrival().is_some() || source.event().is_some())
            );
        }
    }

    #[test]
    fn a_fingerprint_changes_with_what_decides_the_requests_and_not_with_comments() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let of = |text: &str| {
            let path = folder.path().join("mine.toml");
            std::fs::write(&path, text).expect("the folder is ours");
            WorkloadChoice::parse(path.to_str().expect("a path in UTF-8"))
                .expect("the text is a workload")
                .fingerprint()
        };
        assert_eq!(
            of("[[stream]]\nname = \"a\"\n"),
            of("# a comment\n[[stream]]\nname = \"a\"\nsize = 4096\n")
        );
        assert_ne!(of("[[stream]]\nname = \"a\"\n"), of("[[stream]]\nname = \"a\"\nsize = 8192\n"));
    }
}
