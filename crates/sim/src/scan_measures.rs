//! [`ScanMeasures`]: the results of a background scan, and [`ScanMeter`], which collects them and
//! starts the next scan.
//!
//! A scan requests every sector of the drive once. After its last sector another scan starts, so
//! that a run may have any length; `passes` counts them. Late in a scan the gaps hold few sectors
//! that are still pending: `progress` records the time of the first scan for each percent.

use headtime_sched::{BackgroundRead, FillReport, FillSource, Outcome, PendingSectors, ScanId};
use headtime_units::{Instant, SectorSize, Sectors};
use serde::Serialize;

use crate::confidence::BatchMeans;
use crate::engine::EngineObserver;

/// The results of scans in the window of a run. As JSON it is part of the output of `headtime sim
/// --json`: MB are millions of bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScanMeasures {
    /// MB per second from all sources.
    pub mb_per_second: f64,
    /// The part read in gaps between two requests, by commands of their own.
    pub gap_mb_per_second: f64,
    /// The part read together with a client's request.
    pub merged_mb_per_second: f64,
    /// The part read while no client had a request.
    pub idle_mb_per_second: f64,
    /// The part read in time taken from clients within the bound on impact.
    pub share_mb_per_second: f64,
    /// Sectors that could not be read.
    pub failed_sectors: u64,
    /// Scans that read their last sector in the window.
    pub passes: u64,
    /// The finished fraction of the scan in progress at the end of the window, 0 to 1.
    pub done: f64,
    /// The scheduler's own estimate of the growth of clients' mean response, over the whole run.
    #[serde(rename = "believed_impact")]
    pub estimated_impact: f64,
    /// The growth as stretches without reads show it, over the last hours: mean, and the ends of
    /// its 95 % interval; `None` if it is not known yet.
    pub measured_impact: Option<[f64; 3]>,
    /// Gaps searched, gaps with a result, tracks visited: over the whole run.
    pub searches: [u64; 3],
    /// Half the width of the 95 % interval of `mb_per_second`, by batch means of whole seconds of
    /// the run; `None` if it is too short.
    #[serde(skip)]
    pub half_width_mb: Option<f64>,
    /// The first scan of the run by percent, warm-up included.
    #[serde(skip)]
    pub progress: Vec<ScanPoint>,
}

/// The progress of the first scan at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanPoint {
    /// The time since its start.
    pub seconds: f64,
    /// The finished fraction, 0 to 1.
    pub done: f64,
    /// MB by source, in the order of [`FillSource::ALL`].
    pub mb: [f64; 5],
}

/// Counts sectors read for scans.
pub(crate) struct ScanMeter {
    capacity: Sectors,
    grain: Sectors,
    sector: SectorSize,
    /// Sectors of the current scan still to be read.
    left: u64,
    scan: u32,
    first_began: Instant,
    /// By source, since the first scan began.
    sectors: [u64; 5],
    failed: u64,
    passes: u64,
    progress: Vec<ScanPoint>,
    /// MB of each whole second since the first scan began, and those of the second not over yet.
    by_second: BatchMeans,
    whole_seconds: u64,
    mb_of_second: f64,
}

/// The counts of a [`ScanMeter`] at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScanCounts {
    sectors: [u64; 5],
    failed: u64,
    passes: u64,
}

impl ScanMeter {
    /// A meter for scans of a drive of `capacity` sectors, requested by the `grain`.
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
            by_second: BatchMeans::default(),
            whole_seconds: 0,
            mb_of_second: 0.0,
        }
    }

    /// The next scan to start: the first, or the one after a finished scan.
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

    /// The number of finished scans.
    pub(crate) fn passes(&self) -> u64 {
        self.passes
    }

    /// The current counts.
    pub(crate) fn counts(&self) -> ScanCounts {
        ScanCounts { sectors: self.sectors, failed: self.failed, passes: self.passes }
    }

    /// The results since `before`, `seconds` ago.
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
            estimated_impact: report.impact(),
            measured_impact: report.measured.map(|of| [of.mean, of.lower, of.upper]),
            searches: [report.gaps, report.filled, report.tracks],
            half_width_mb: self.by_second.half_width(),
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

/// Counts if there is a scan.
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
        let second = now.saturating_since(self.first_began).as_ns() / 1_000_000_000;
        for _ in self.whole_seconds..second {
            self.by_second.push(std::mem::take(&mut self.mb_of_second));
        }
        self.whole_seconds = second;
        self.mb_of_second += self.mb(sectors);
        self.passes += u64::from(self.left == 0);
        // One point per percent.
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
