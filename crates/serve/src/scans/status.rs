//! What there is to say about a scan: [`ScanStatus`], the same in answers, in the live view and in
//! JSON.

use headtime_tasks::{Ranges, Scan, Source};
use headtime_units::SectorSize;
use serde::{Deserialize, Serialize};

/// Whether a scan is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanState {
    /// It reads whenever there is time.
    Running,
    /// Somebody has paused it.
    Paused,
    /// Something is in its way, and it goes on by itself when that is gone.
    Waiting,
    /// Everything was read.
    Complete,
    /// It cannot be finished any more.
    Broken,
    /// Nobody is at work on it: a scan without a server, that goes on when it is started again.
    Stopped,
}

/// One scan at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanStatus {
    /// The volume's name, or `@drive`.
    pub target: String,
    /// The task's name.
    pub task: String,
    /// Whether it is at work.
    pub state: ScanState,
    /// Why it waits or is broken, in words; empty otherwise.
    pub reason: String,
    /// Which pass over the sectors this is, from 1.
    pub pass: u32,
    /// Bytes to be read in a pass.
    pub bytes: u64,
    /// Of these, the ones that were read and kept.
    pub bytes_done: u64,
    /// Bytes a second over the last seconds.
    pub bytes_per_second: f64,
    /// Time left at that rate; `None` while there is none.
    pub seconds_left: Option<f64>,
    /// Where the time came from in which this pass was read.
    pub sources: SourceBytes,
    /// Sectors that could not be read.
    pub errors: RangeList,
    /// Of tasks with digests.
    pub digests: Option<DigestFigures>,
    /// Where a backup goes; empty for others.
    pub output: String,
    /// The file that remembers the scan; empty when nothing does.
    pub state_file: String,
}

/// Bytes by the time in which they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceBytes {
    /// Between two requests.
    pub gaps: u64,
    /// In one command with a request.
    pub merged: u64,
    /// While nobody wanted anything.
    pub idle: u64,
    /// Between requests, in the share that the bound on impact allows.
    pub share: u64,
    /// Before they were overwritten.
    pub before_write: u64,
}

/// Runs of sectors by the drive's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeList {
    /// Sectors in all.
    pub sectors: u64,
    /// The first runs, first sector and how many.
    pub ranges: Vec<(u64, u64)>,
    /// Runs that are not listed here; the state file has up to 16,384.
    pub more: usize,
}

/// What digests have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestFigures {
    /// Mebibytes compared with the last pass.
    pub compared: u64,
    /// Mebibytes not compared, because they were written since or cannot be read.
    pub not_compared: u64,
    /// Those that have changed although nobody wrote them through the server.
    pub changed: RangeList,
    /// A digest of all of them, in hexadecimal, when all have one.
    pub table: Option<String>,
}

/// Runs that an answer lists.
const MAX_LISTED: usize = 64;

impl ScanStatus {
    /// How much is done, 0 to 1.
    #[must_use]
    pub fn share_done(&self) -> f64 {
        if self.bytes == 0 { 1.0 } else { self.bytes_done as f64 / self.bytes as f64 }
    }

    /// What the books of a scan say; the rest is left as it is in `before`.
    pub(super) fn of(scan: &Scan, before: Self) -> Self {
        let size = scan.subject().sector_size;
        let bytes = |source: Source| {
            size.bytes_of(headtime_units::Sectors::new(scan.sources()[source as usize]))
        };
        Self {
            pass: scan.passes(),
            bytes: size.bytes_of(scan.subject().extent.len),
            bytes_done: size.bytes_of(scan.sectors_done()),
            sources: SourceBytes {
                gaps: bytes(Source::Gap),
                merged: bytes(Source::Merged),
                idle: bytes(Source::Idle),
                share: bytes(Source::Share),
                before_write: bytes(Source::BeforeWrite),
            },
            errors: RangeList::of(scan.failed()),
            digests: scan.digests().map(|digests| DigestFigures {
                compared: digests.compared,
                not_compared: digests.not_compared,
                changed: RangeList::of(&digests.changed),
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
            bytes: 0,
            bytes_done: 0,
            bytes_per_second: 0.0,
            seconds_left: None,
            sources: SourceBytes::default(),
            errors: RangeList::default(),
            digests: None,
            output: String::new(),
            state_file: String::new(),
        }
    }
}

impl SourceBytes {
    /// Each part with its name.
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

impl RangeList {
    fn of(ranges: &Ranges) -> Self {
        let listed =
            ranges.iter().take(MAX_LISTED).map(|run| (run.start.get(), run.len.get())).collect();
        Self {
            sectors: ranges.sectors().get(),
            ranges: listed,
            more: ranges.len().saturating_sub(MAX_LISTED),
        }
    }

    /// The runs as bytes of a drive with sectors of this size: first byte and how many.
    pub fn in_bytes(&self, size: SectorSize) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bytes = u64::from(size.bytes());
        self.ranges.iter().map(move |(start, len)| (start * bytes, len * bytes))
    }
}
