//! [`ScanMeasures`]: what was read for a background scan beside the foreground of a run, and
//! [`ScanMeter`], which counts it and begins the next scan.
//!
//! A scan wants every sector of the drive once. When it has read the last one another begins, so
//! that a run may last as long as it likes; `passes` says how often that happened. Late in a scan
//! the gaps find little that is still wanted: `progress` says how long the first scan took for each
//! percent.

use headtime_sched::{BackgroundRead, FillReport, FillSource, Outcome, PendingSectors, ScanId};
use headtime_units::{Instant, SectorSize, Sectors};
use serde::Serialize;

use crate::engine::EngineObserver;

/// What scans got in the window of a run. As JSON it is part of what `headtime sim --json` prints:
/// MB are millions of bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScanMeasures {
    /// MB a second from all sources.
    pub mb_per_second: f64,
    /// Of those, read in gaps between two requests, as commands of their own.
    pub gap_mb_per_second: f64,
    /// Read together with a request of the foreground.
    pub merged_mb_per_second: f64,
    /// Read while nobody asked for anything.
    pub idle_mb_per_second: f64,
    /// Read in time taken from the foreground within the bound on impact.
    pub share_mb_per_second: f64,
    /// Sectors that could not be read.
    pub failed_sectors: u64,
    /// Scans that read their last sector in the window.
    pub passes: u64,
    /// How much of the scan under way at the end of the window is done, 0 to 1.
    pub done: f64,
    /// By which part of it the scheduler itself believes the foreground's mean response to have
    /// grown, over the whole run.
    pub believed_impact: f64,
    /// Gaps searched, gaps in which something was found, tracks looked at: over the whole run.
    pub searches: [u64; 3],
    /// The first scan of the run, percent by percent as far as it came, warm-up included.
    #[serde(skip)]
    pub progress: Vec<ScanPoint>,
}

/// How far the first scan was at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanPoint {
    /// Since it began.
    pub seconds: f64,
    /// How much of it was done, 0 to 1.
    pub done: f64,
    /// MB by source, in the order of [`FillSource::ALL`].
    pub mb: [f64; 5],
}

/// Counts what is read for scans.
pub(crate) struct ScanMeter {
    capacity: Sectors,
    grain: Sectors,
    sector: SectorSize,
    /// Sectors of the scan under way that are still to come.
    left: u64,
    scan: u32,
    first_began: Instant,
    /// By source, since the first scan began.
    sectors: [u64; 5],
    failed: u64,
    passes: u64,
    progress: Vec<ScanPoint>,
}

/// What a [`ScanMeter`] had counted at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanCounts {
    sectors: [u64; 5],
    failed: u64,
    passes: u64,
}

impl ScanMeter {
    /// A meter for scans of a drive of `capacity` sectors; sectors are wanted by the `grain`.
    pub(crate) fn new(capacity: Sectors, grain: Sectors, sector: SectorSize) -> Self {
        let (first_began, progress) = (Instant::ORIGIN, Vec::new());
        Self {
            capacity,
            grain,
            sector,
            left: 0,
            scan: 0,
            first_began,
            sectors: [0; 5],
            failed: 0,
            passes: 0,
            progress,
        }
    }

    /// The scan that is to be started now, if one is: the first, or the next when the last one is
    /// through.
    pub(crate) fn next_scan(&mut self, now: Instant) -> Option<(ScanId, PendingSectors)> {
        if self.left > 0 {
            return None;
        }
        if self.scan == 0 {
            self.first_began = now;
        }
        self.left = self.capacity.get();
        self.scan += 1;
        Some((ScanId(self.scan), PendingSectors::all(self.capacity, self.grain)))
    }

    /// Scans that have read their last sector.
    pub(crate) fn passes(&self) -> u64 {
        self.passes
    }

    /// What has been counted so far.
    pub(crate) fn counts(&self) -> ScanCounts {
        ScanCounts { sectors: self.sectors, failed: self.failed, passes: self.passes }
    }

    /// What was counted since `before`, `seconds` ago.
    pub(crate) fn measures(
        self,
        before: &ScanCounts,
        seconds: f64,
        report: &FillReport,
    ) -> ScanMeasures {
        let mb = |source: FillSource| {
            self.mb(self.sectors[source as usize] - before.sectors[source as usize])
        };
        let rate = |mb: f64| if seconds > 0.0 { mb / seconds } else { 0.0 };
        ScanMeasures {
            mb_per_second: rate(FillSource::ALL.into_iter().map(mb).sum()),
            gap_mb_per_second: rate(mb(FillSource::Gap)),
            merged_mb_per_second: rate(mb(FillSource::Merged)),
            idle_mb_per_second: rate(mb(FillSource::Idle)),
            share_mb_per_second: rate(mb(FillSource::Share)),
            failed_sectors: self.failed - before.failed,
            passes: self.passes - before.passes,
            done: self.done(),
            believed_impact: report.impact(),
            searches: [report.gaps, report.filled, report.tracks],
            progress: self.progress,
        }
    }

    fn done(&self) -> f64 {
        1.0 - self.left as f64 / self.capacity.get() as f64
    }

    fn mb(&self, sectors: u64) -> f64 {
        self.sector.bytes_of(Sectors::new(sectors)) as f64 / 1e6
    }
}

/// Counts where there is a scan.
impl EngineObserver for Option<ScanMeter> {
    fn background(&mut self, now: Instant, read: &BackgroundRead) {
        if let Some(meter) = self {
            meter.count(now, read);
        }
    }
}

impl ScanMeter {
    fn count(&mut self, now: Instant, read: &BackgroundRead) {
        assert_eq!(read.scan, ScanId(self.scan), "something is read for a scan that is through");
        let sectors = read.extent.len.get();
        self.left = self.left.checked_sub(sectors).expect("each sector of a scan is reported once");
        match read.outcome {
            Outcome::Success => self.sectors[read.source as usize] += sectors,
            Outcome::Failed(_) => self.failed += sectors,
        }
        self.passes += u64::from(self.left == 0);
        // A percent at a time; what is through at once is one point.
        let due = (self.progress.len() + 1) as f64 / 100.0;
        if self.scan == 1 && self.done() >= due - 1e-12 {
            let seconds = now.saturating_since(self.first_began).as_secs_f64();
            let point = ScanPoint {
                seconds,
                done: self.done(),
                mb: self.sectors.map(|sectors| self.mb(sectors)),
            };
            let reached = (self.done() * 100.0 + 1e-9) as usize;
            self.progress.resize(reached.max(self.progress.len()), point);
        }
    }
}
