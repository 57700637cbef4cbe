//! Background reads as their owners see them: a *scan* wants sectors read once, in any order, and
//! is handed each run as it is read.
//!
//! The scheduler reads what scans want in the gaps between two requests of clients (`freeblock`),
//! together with such a request where it abuts, and while nobody else asks for anything. Whatever
//! is read is reported by [`Scheduler::take_background`](crate::Scheduler::take_background).

use headtime_units::{Extent, Instant, Nanos, Sectors};

use crate::command::{CommandId, Outcome};

/// The caller's name for a scan; unique among the scans of a drive that have not been stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScanId(pub u32);

/// What a scan asks for beside its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// Whether its sectors are to be read as they are when the scan starts: what is about to be
    /// overwritten is read before, and the write waits for that.
    pub point_in_time: bool,
    /// Whether it reads now.
    pub pace: Pace,
}

impl Default for ScanOptions {
    /// At once, whatever the sectors hold when they are read.
    fn default() -> Self {
        Self { point_in_time: false, pace: Pace::Normal }
    }
}

/// How fast a scan goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// In gaps and in idle time, bounded by
    /// [`FillSettings::max_impact`](crate::FillSettings::max_impact); as fast as the drive reads
    /// where nobody else asks.
    #[default]
    Normal,
    /// Nothing is read for it, but what a scan of a point in time would lose.
    Paused,
}

/// What was read for a scan, or could not be. Each sector that a scan wanted is reported once,
/// unless it was withdrawn or the scan was stopped before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundRead {
    /// For which scan.
    pub scan: ScanId,
    /// The command that read it: its bytes are those at `extent` of that command's buffer.
    pub command: CommandId,
    /// The sectors.
    pub extent: Extent,
    /// How it ended. What failed has been tried in pieces down to
    /// [`FillSettings::retry_grain`](crate::FillSettings::retry_grain) and is wanted no more.
    pub outcome: Outcome,
    /// What it was read in.
    pub source: FillSource,
}

/// In which of the drive's time something was read for a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FillSource {
    /// As a command of its own in the gap between two requests.
    Gap,
    /// At the front of a request's command.
    Merged,
    /// While nobody else asked for anything.
    Idle,
    /// Between requests, in time that the bound on impact had saved up: the last sectors of a scan,
    /// and what failed before.
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

/// What background reading has done so far, and what it cost. Counts begin with the first scan and
/// are never reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FillReport {
    /// Sectors handed to scans, by source, in the order of [`FillSource::ALL`]. A sector that two
    /// scans wanted counts twice.
    pub sectors: [Sectors; 5],
    /// Sectors that could not be read.
    pub failed: Sectors,
    /// Gaps that were searched: requests of clients chosen while a scan wanted something.
    pub gaps: u64,
    /// Gaps in which something was found.
    pub filled: u64,
    /// Tracks looked at in all searches.
    pub tracks: u64,
    /// Finds that the belief's own estimate of the request behind them did not confirm, so that
    /// nothing was read.
    pub rejected: u64,
    /// Filled gaps after which the client's request ended more than half a revolution later than
    /// predicted without the fill.
    pub late: u64,
    /// By how much clients were kept waiting in all, by whatever was read for scans, as far as
    /// measured. What is early makes up for what is late.
    pub delay: Nanos,
    /// Response times of clients in all, since the first scan.
    pub response: Nanos,
    /// When the report was made.
    pub at: Instant,
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
    /// that; 0 before anything was measured.
    #[must_use]
    pub fn impact(&self) -> f64 {
        let without = self.response.saturating_sub(self.delay).as_ns();
        if without == 0 { 0.0 } else { self.delay.as_ns() as f64 / without as f64 }
    }
}
