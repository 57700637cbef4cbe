//! Background reads as their owners see them. A *scan* has a set of sectors to be read once, in any
//! order, and receives each run as it is read.
//!
//! The scheduler reads these sectors in the gaps between two requests of clients (`freeblock`),
//! together with a request that they abut, and while clients are idle.
//! [`Scheduler::take_background`](crate::Scheduler::take_background) reports what was read.

use alloc::string::{String, ToString as _};
use core::fmt;
use core::str::FromStr;

use headtime_units::{Extent, Instant, Nanos, Sectors};

use crate::command::{CommandId, Outcome};

/// The caller's name for a scan; unique among the scans of a drive that have not been stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScanId(pub u32);

/// The options of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// True if the scan reads the sectors as they are at its start: a sector about to be
    /// overwritten is read first, and the write waits for that.
    pub point_in_time: bool,
    /// The pace of the scan.
    pub pace: Pace,
    /// The priority among scans.
    pub priority: ScanPriority,
}

impl Default for ScanOptions {
    /// At once, whatever the sectors hold when they are read.
    fn default() -> Self {
        Self { point_in_time: false, pace: Pace::Normal, priority: ScanPriority::DEFAULT }
    }
}

/// The priority of a scan among the scans of a drive, from 0 (most urgent) to 7, as the levels of
/// an I/O priority. A gap, idle time and time taken from clients go to the sectors of the most
/// urgent scans; others get what those cannot use. Sectors that several scans need are read once.
/// Scans of one priority share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScanPriority(u8);

/// The reason why a text is no priority of a scan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no priority of a scan; write a number from 0 (most urgent) to 7")]
pub struct ScanPriorityError {
    /// The text as given.
    pub text: String,
}

impl ScanPriority {
    /// The middle, as the default level of an I/O priority.
    pub const DEFAULT: Self = Self(4);
    /// The least urgent.
    pub const LAST: Self = Self(7);

    /// The priority with this level; `None` above 7.
    #[must_use]
    pub const fn new(level: u8) -> Option<Self> {
        if level <= Self::LAST.0 { Some(Self(level)) } else { None }
    }

    /// The level, 0 to 7.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for ScanPriority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl FromStr for ScanPriority {
    type Err = ScanPriorityError;

    fn from_str(text: &str) -> Result<Self, ScanPriorityError> {
        let level = text.parse().ok().and_then(Self::new);
        level.ok_or_else(|| ScanPriorityError { text: text.to_string() })
    }
}

impl fmt::Display for ScanPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The pace of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// In gaps and in idle time, bounded by
    /// [`FillSettings::max_impact`](crate::FillSettings::max_impact); at full speed while clients
    /// are idle.
    #[default]
    Normal,
    /// No reads, except those that a scan of a point in time would otherwise lose.
    Paused,
}

/// The result of one background read. Each pending sector of a scan is reported once, unless the
/// scan was stopped before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundRead {
    /// For which scan.
    pub scan: ScanId,
    /// The command that read it: its bytes are those at `extent` of that command's buffer.
    pub command: CommandId,
    /// The sectors.
    pub extent: Extent,
    /// The outcome. A failed read has been retried in pieces down to
    /// [`FillSettings::retry_grain`](crate::FillSettings::retry_grain) and is no longer pending.
    pub outcome: Outcome,
    /// The source of the time it was read in.
    pub source: FillSource,
}

/// The caller's name for a background write; unique among those that are not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackgroundWriteId(pub u64);

/// The end of a background write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundWritten {
    /// The write.
    pub id: BackgroundWriteId,
    /// The outcome. A failed write is not retried, and may have changed any of its sectors.
    pub outcome: Outcome,
}

/// The source of the time in which sectors were read for a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FillSource {
    /// As a command of its own in the gap between two requests.
    Gap,
    /// At the front of a request's command.
    Merged,
    /// While clients were idle.
    Idle,
    /// Between requests, in time saved up under the bound on impact: the last sectors of a scan,
    /// retries, and any sectors where gaps and idle time give little.
    Share,
    /// Before a write of the same sectors, for a scan of a point in time.
    BeforeWrite,
}

impl FillSource {
    /// Every source, for tables and tests.
    pub const ALL: [Self; 5] =
        [Self::Gap, Self::Merged, Self::Idle, Self::Share, Self::BeforeWrite];

    /// The name in tables and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Merged => "merged",
            Self::Idle => "idle",
            Self::Share => "share",
            Self::BeforeWrite => "before-write",
        }
    }
}

/// The reason why the gap before a request was left unused while a scan had pending sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnusedGap {
    /// More than two commands are at the drive, which orders them, several requests go as one, or
    /// the policy decides for several arms as a whole.
    Policy,
    /// It is not known where the head is: the drive model has no tracks or is not trusted, the last
    /// request did not reach the media, or the drive's write cache decides when this one does.
    Position,
    /// The request may be reached a revolution early, which a read would prevent.
    Early,
    /// No pending sectors fit, or what fits is not worth the risk.
    NothingFits,
    /// Reads have used up what the bound on their impact allows.
    Bound,
    /// It measures the drive without reads.
    Control,
}

impl UnusedGap {
    /// Every reason, in the order of [`FillReport::unused`].
    pub const ALL: [Self; 6] =
        [Self::Policy, Self::Position, Self::Early, Self::NothingFits, Self::Bound, Self::Control];

    /// The name in reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Position => "position",
            Self::Early => "early",
            Self::NothingFits => "nothing_fits",
            Self::Bound => "bound",
            Self::Control => "control",
        }
    }
}

/// Totals of background reading and its cost. Counts begin with the first scan and are never reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FillReport {
    /// Sectors delivered to scans, by source, in the order of [`FillSource::ALL`]. A sector of two
    /// scans counts twice.
    pub sectors: [Sectors; 5],
    /// Sectors that could not be read.
    pub failed: Sectors,
    /// Gaps searched: requests of clients chosen while a scan had pending sectors.
    pub gaps: u64,
    /// Gaps in which something was found.
    pub filled: u64,
    /// Gaps left unused, by reason, in the order of [`UnusedGap::ALL`]; those that were not
    /// searched, too.
    pub unused: [u64; 6],
    /// Tracks examined in all searches.
    pub tracks: u64,
    /// Pieces rejected because the drive model's own estimate found the next request too late.
    pub rejected: u64,
    /// Filled gaps after which the client's request ended more than half a revolution later than
    /// predicted without the fill.
    pub late: u64,
    /// The total delay of clients' requests by background reads, as far as measured. Early
    /// completions offset late ones.
    pub delay: Nanos,
    /// Response times of clients in all, since the first scan.
    pub response: Nanos,
    /// The growth of clients' mean response as stretches without reads show it; `None` if it is not
    /// known yet.
    pub measured: Option<MeasuredImpact>,
    /// The time at which the report was made.
    pub at: Instant,
}

/// The growth of the mean response of clients by background reading, as a fraction of the mean
/// without, stretches without reads included. Between `lower` and `upper` lies its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredImpact {
    /// The most likely growth.
    pub mean: f64,
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

impl FillReport {
    /// Sectors handed to scans from one source.
    #[must_use]
    pub fn from(&self, source: FillSource) -> Sectors {
        self.sectors[source as usize]
    }

    /// Sectors handed to scans in all.
    #[must_use]
    pub fn read(&self) -> Sectors {
        self.sectors.iter().fold(Sectors::ZERO, |sum, sectors| sum + *sectors)
    }

    /// By how much the mean response of clients is longer than it would have been, as a part of
    /// that, by the delays that were seen at single requests; 0 before anything was.
    #[must_use]
    pub fn impact(&self) -> f64 {
        let without = self.response.saturating_sub(self.delay).as_ns();
        if without == 0 { 0.0 } else { self.delay.as_ns() as f64 / without as f64 }
    }
}
