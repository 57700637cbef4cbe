//! [`ScanStatus`]: the status of a scan in answers, in the live view and in JSON.

use headtime_sched::{FillReport, ScanPriority, UnusedGap};
use headtime_tasks::{Ranges, ReadSource, Scan};
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use super::addresses::Addresses;
use super::range::ScanRange;
use super::runner::{CONFIGURED, PATTERN};
use super::terms::ScanTerms;
use super::timetable::Timetable;

/// The state of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanState {
    /// It reads whenever there is time.
    Running,
    /// A user has paused it.
    Paused,
    /// An obstacle blocks it; it resumes by itself.
    Waiting,
    /// All sectors were read.
    Complete,
    /// It can never be finished.
    Broken,
    /// A scan without a server that is not running; it resumes when it is started again.
    Stopped,
}

/// The status of one scan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanStatus {
    /// The volume's name, or `@drive`.
    pub target: String,
    /// The task's name.
    pub task: String,
    /// The state.
    pub state: ScanState,
    /// The reason why it waits or is broken; empty otherwise.
    pub reason: String,
    /// The number of the pass, from 1.
    pub pass: u32,
    /// The bytes of the target that the scan reads; null for all of them.
    #[serde(default)]
    pub range: Option<ScanRange>,
    /// The priority among the scans of the drive, from 0 (most urgent) to 7.
    #[serde(default = "default_priority")]
    pub priority: u8,
    /// It wakes a drive in standby.
    #[serde(default)]
    pub wake: bool,
    /// The windows in which it reads; empty for any time.
    #[serde(default)]
    pub during: String,
    /// The time from one start to the next; empty for a single pass.
    #[serde(default)]
    pub every: String,
    /// The time of the next start of a scan that has ended and repeats, with the offset from UTC.
    #[serde(default)]
    pub next_start: Option<String>,
    /// It follows a section of the configuration.
    #[serde(default)]
    pub configured: bool,
    /// Bytes of a pass.
    pub bytes: u64,
    /// Bytes read and kept.
    pub bytes_done: u64,
    /// The rate over the last seconds.
    pub bytes_per_second: f64,
    /// The time left at that rate, if it is not zero.
    pub seconds_left: Option<f64>,
    /// Bytes of this pass by the source of disk time.
    pub sources: SourceBytes,
    /// Unreadable sectors.
    pub errors: RangeList,
    /// The results of tasks with digests.
    pub digests: Option<DigestFigures>,
    /// The output of a backup; empty for others.
    pub output: String,
    /// The output as it was ordered, with the date still to be filled in if the backup repeats.
    #[serde(default)]
    pub to: String,
    /// The state file; empty without one.
    pub state_file: String,
}

/// Bytes by the source of disk time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceBytes {
    /// Gaps between two requests.
    pub gaps: u64,
    /// Commands that also serve a request.
    pub merged: u64,
    /// Idle time.
    pub idle: u64,
    /// The share of time that the bound on impact allows.
    pub share: u64,
    /// Reads before an overwrite.
    pub before_write: u64,
}

/// Ranges of sectors, as addresses of the drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeList {
    /// The total number of sectors.
    pub sectors: u64,
    /// The first ranges: first sector and length.
    pub ranges: Vec<(u64, u64)>,
    /// The number of further ranges; the state file has up to 16,384.
    pub more: usize,
}

/// The growth of the mean response time of clients by scans, over the last hours: stretches with
/// reads compared with stretches without, as a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImpactFigures {
    /// The most likely growth.
    pub mean: f64,
    /// The lower end of the 95 % interval.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// The use of the gaps before clients' requests since the first scan, as numbers of gaps. A gap
/// counts if a scan had sectors to read at that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapFigures {
    /// Something was read.
    pub used: u64,
    /// More than two commands are at the drive, which orders them, several requests go as one, or
    /// the policy decides for several arms as a whole.
    pub policy: u64,
    /// The position of the head was not known.
    pub position: u64,
    /// The request might have been reached a revolution early.
    pub early: u64,
    /// No sectors to read were near enough.
    pub nothing_fits: u64,
    /// The bound on the impact was used up.
    pub bound: u64,
    /// Left unused to measure the impact.
    pub control: u64,
}

/// The results of digests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestFigures {
    /// Mebibytes compared with the last pass.
    pub compared: u64,
    /// Mebibytes that were written since or are unreadable, and so not compared.
    pub not_compared: u64,
    /// Mebibytes that changed without a write through the server.
    pub changed: RangeList,
    /// The digest of all digests in hexadecimal, if all are known.
    pub table: Option<String>,
}

/// The priority of a scan that was given none.
pub const DEFAULT_PRIORITY: u8 = ScanPriority::DEFAULT.level();

fn default_priority() -> u8 {
    DEFAULT_PRIORITY
}

/// The maximum number of ranges in an answer.
const MAX_LISTED: usize = 64;

impl ScanStatus {
    /// The share done, 0 to 1.
    #[must_use]
    pub fn share_done(&self) -> f64 {
        if self.bytes == 0 { 1.0 } else { self.bytes_done as f64 / self.bytes as f64 }
    }

    /// Returns whether it is to read at this local time: it has sectors left, was not paused, and a
    /// window of its timetable is open. An obstacle may prevent it.
    #[must_use]
    pub fn is_due(&self, now: DateTime) -> bool {
        let left =
            matches!(self.state, ScanState::Running | ScanState::Waiting | ScanState::Broken);
        let is_open = |timetable: Timetable| timetable.is_open(now);
        left && self.during.parse().map_or(true, is_open)
    }

    /// The status from the records of a scan; all other fields come from `before`.
    pub(super) fn of(scan: &Scan, addresses: &Addresses, before: Self) -> Self {
        let size = scan.subject().sector_size;
        let terms = ScanTerms::of(scan);
        let text = |setting: Option<String>| setting.unwrap_or_default();
        let bytes = |source: ReadSource| {
            size.bytes_of(headtime_units::Sectors::new(scan.sources()[source as usize]))
        };
        Self {
            pass: scan.passes(),
            range: ScanRange::of(scan),
            priority: terms.priority.level(),
            wake: terms.wake,
            during: text(terms.during.map(|during| during.to_string())),
            every: text(terms.every.map(|every| every.to_string())),
            configured: scan.note(CONFIGURED) == Some("yes"),
            output: scan.note("output").unwrap_or_default().to_owned(),
            to: scan.note(PATTERN).unwrap_or_default().to_owned(),
            bytes: size.bytes_of(scan.subject().extent.len),
            bytes_done: size.bytes_of(scan.sectors_done()),
            sources: SourceBytes {
                gaps: bytes(ReadSource::Gap),
                merged: bytes(ReadSource::Merged),
                idle: bytes(ReadSource::Idle),
                share: bytes(ReadSource::Share),
                before_write: bytes(ReadSource::BeforeWrite),
            },
            errors: RangeList::of(scan.failed(), addresses),
            digests: scan.digests().map(|digests| DigestFigures {
                compared: digests.compared,
                not_compared: digests.not_compared,
                changed: RangeList::of(&digests.changed, addresses),
                table: digests.table.map(|table| format!("{table:016x}")),
            }),
            ..before
        }
    }

    pub(super) fn empty(target: &str, task: &str) -> Self {
        Self {
            target: target.to_owned(),
            task: task.to_owned(),
            state: ScanState::Running,
            reason: String::new(),
            pass: 1,
            range: None,
            priority: DEFAULT_PRIORITY,
            wake: false,
            during: String::new(),
            every: String::new(),
            next_start: None,
            configured: false,
            bytes: 0,
            bytes_done: 0,
            bytes_per_second: 0.0,
            seconds_left: None,
            sources: SourceBytes::default(),
            errors: RangeList::default(),
            digests: None,
            output: String::new(),
            to: String::new(),
            state_file: String::new(),
        }
    }
}

impl SourceBytes {
    /// Each source with its name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("gaps", self.gaps),
            ("merged", self.merged),
            ("idle", self.idle),
            ("share", self.share),
            ("before write", self.before_write),
        ]
    }
}

/// Gaps from which on the reason why most are unused is stated.
const ENOUGH_GAPS: u64 = 100;
/// The share of used gaps below which that is (guess: a scan needs weeks then).
const FEW: f64 = 0.1;

impl GapFigures {
    pub(super) fn of(report: &FillReport) -> Self {
        let unused = |reason: UnusedGap| report.unused[reason as usize];
        Self {
            used: report.filled,
            policy: unused(UnusedGap::Policy),
            position: unused(UnusedGap::Position),
            early: unused(UnusedGap::Early),
            nothing_fits: unused(UnusedGap::NothingFits),
            bound: unused(UnusedGap::Bound),
            control: unused(UnusedGap::Control),
        }
    }

    /// The gaps left unused, by reason and its name for people.
    #[must_use]
    pub fn unused(&self) -> [(UnusedGap, &'static str, u64); 6] {
        let Self { used: _, policy, position, early, nothing_fits, bound, control } = *self;
        [
            (UnusedGap::Policy, "policy", policy),
            (UnusedGap::Position, "head position unknown", position),
            (UnusedGap::Early, "next request possibly early", early),
            (UnusedGap::NothingFits, "nothing fits", nothing_fits),
            (UnusedGap::Bound, "bound on impact", bound),
            (UnusedGap::Control, "control", control),
        ]
    }

    /// All gaps.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.used + self.unused().iter().map(|(_, _, gaps)| gaps).sum::<u64>()
    }

    /// The remedy for the most frequent reason, where few gaps are used.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        let all = self.all();
        if all < ENOUGH_GAPS || self.used as f64 >= FEW * all as f64 {
            return None;
        }
        let (reason, ..) = self.unused().into_iter().max_by_key(|(_, _, gaps)| *gaps)?;
        Some(match reason {
            UnusedGap::Policy => {
                "the policy leaves the order to the drive, or sends several requests as one: a \
                    larger max_impact lets the scan read more, or, with another policy than \
                    headtime, set policy=headtime and no larger `outstanding` than 2"
            }
            UnusedGap::Position => {
                "the drive answers from its cache, or its model has no tracks or is not trusted: \
                    see `headtime status`; characterize the drive if it has no profile"
            }
            UnusedGap::Bound => "a larger max_impact lets the scan read more",
            UnusedGap::Early | UnusedGap::NothingFits | UnusedGap::Control => {
                "most requests follow each other too closely for reads between them; the scan goes \
                    on while clients are idle, and a larger max_impact lets it read more"
            }
        })
    }
}

impl RangeList {
    fn of(ranges: &Ranges, addresses: &Addresses) -> Self {
        let on_drive = ranges.iter().take(MAX_LISTED).flat_map(|run| addresses.on_drive(run));
        Self {
            sectors: ranges.sectors().get(),
            ranges: on_drive.map(|run| (run.start.get(), run.len.get())).collect(),
            more: ranges.len().saturating_sub(MAX_LISTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_is_due_while_it_has_sectors_left_and_its_window_is_open() {
        let at = |hour| jiff::civil::date(2026, 11, 27).at(hour, 0, 0, 0);
        let due = |state, during: &str| {
            let during = during.to_owned();
            let status = ScanStatus { state, during, ..ScanStatus::empty("v", "scrub") };
            [4, 12, 23].map(|hour| status.is_due(at(hour)))
        };
        assert_eq!(due(ScanState::Running, ""), [true; 3]);
        assert_eq!(due(ScanState::Waiting, "22:00-06:00"), [true, false, true]);
        assert_eq!(due(ScanState::Broken, ""), [true; 3], "it needs somebody");
        assert_eq!(due(ScanState::Paused, ""), [false; 3]);
        assert_eq!(due(ScanState::Complete, "22:00-06:00"), [false; 3]);
    }

    #[test]
    fn where_few_gaps_are_used_the_main_reason_has_a_remedy() {
        let report = FillReport { filled: 3, unused: [1, 20, 2, 30, 400, 4], ..Default::default() };
        let figures = GapFigures::of(&report);
        assert_eq!(figures.all(), 460);
        assert_eq!(figures.unused()[4], (UnusedGap::Bound, "bound on impact", 400));
        assert!(figures.remedy().is_some_and(|remedy| remedy.contains("max_impact")));
        let position = GapFigures { position: 4_000, ..figures };
        assert!(position.remedy().is_some_and(|remedy| remedy.contains("characterize")));
        let policy = GapFigures { policy: 4_000, ..figures };
        assert!(policy.remedy().is_some_and(|remedy| remedy.contains("policy=headtime")));
        assert_eq!(GapFigures { used: 60, ..figures }.remedy(), None, "a tenth is used");
        assert_eq!(GapFigures { bound: 30, ..figures }.remedy(), None, "too few to tell");
    }
}
