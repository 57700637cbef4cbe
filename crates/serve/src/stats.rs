//! Statistics of the server: counts and response times of each export, cheap enough to read many
//! times per second.
//!
//! The response time runs from the receipt of a request to the completion of its last piece at the
//! drive. All counts start with the server. A live view keeps its last snapshot and subtracts it
//! with [`VolumeStats::since`], so that several views do not disturb each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use headtime_io::DriveSnapshot;
use headtime_sched::{Finished, VolumeId};
use headtime_units::{ByteSize, Nanos};
use parking_lot::Mutex;

use crate::beside::BesideStatus;
use crate::export::{Export, Exports};
use crate::scans::ScanStatus;
use crate::volumes::RelocationStatus;

/// Response times in microseconds, up to an hour, with two significant digits (an error of at most
/// 1 %).
pub type ResponseTimes = Histogram<u64>;

/// A snapshot of the server.
#[derive(Clone, Debug)]
pub struct StatsSnapshot {
    /// The time since the server started.
    pub uptime: Duration,
    /// The exports, sorted by name.
    pub volumes: Vec<VolumeStats>,
    /// The number of clients, with or without an open export.
    pub connections: usize,
    /// The bytes in use of the memory that connections share.
    pub shared_memory: ByteSize,
    /// Scans, by target and task.
    pub scans: Vec<ScanStatus>,
    /// The last relocation since the server started.
    pub relocation: Option<RelocationStatus>,
    /// The characterization beside clients.
    pub characterization: Option<BesideStatus>,
    /// Refused connections and reservations.
    pub refused: RefusalCounts,
    /// The drive.
    pub drive: DriveSnapshot,
}

/// The numbers of requests for admission that were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts {
    /// Connections beyond the maximum of the server or of an export.
    pub connections: u64,
    /// Changes of volumes that needed more disk time than is unreserved, dry runs included.
    pub reservations: u64,
}

/// The live counters of [`RefusalCounts`].
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) connections: AtomicU64,
    pub(crate) reservations: AtomicU64,
}

impl Refusals {
    fn counts(&self) -> RefusalCounts {
        RefusalCounts {
            connections: self.connections.load(Ordering::Relaxed),
            reservations: self.reservations.load(Ordering::Relaxed),
        }
    }
}

/// The statistics of one export.
#[derive(Clone, Debug)]
pub struct VolumeStats {
    /// The volume's number, and the key of its disk time in [`DriveSnapshot::accounts`].
    pub id: VolumeId,
    /// The export's name: `VOLUME` or `VOLUME@CLASS`.
    pub name: String,
    /// The volume's name.
    pub volume: String,
    /// Its size.
    pub size: ByteSize,
    /// The number of extents of its volume.
    pub extents: usize,
    /// The time from arrival to deadline of each read and write.
    pub deadline: Option<Nanos>,
    /// The number of clients that have it open.
    pub connections: u64,
    /// The number of unanswered requests.
    pub in_flight: u64,
    /// Reads.
    pub reads: OpStats,
    /// Writes, without WRITE_ZEROES.
    pub writes: OpStats,
    /// Flushes, trims, WRITE_ZEROES, cache and status requests.
    pub others: OpStats,
    /// Reads and writes with a deadline.
    pub deadline_requests: u64,
    /// Those that were late or failed.
    pub deadline_misses: u64,
    /// Those that failed.
    pub deadline_failures: u64,
}

/// The statistics of one kind of request.
#[derive(Clone, Debug)]
pub struct OpStats {
    /// Successful requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Failed requests.
    pub errors: u64,
    /// Response times of successful requests.
    pub response: ResponseTimes,
}

/// A source of snapshots of a server, also while it shuts down; any thread may use it.
pub struct Stats {
    pub(crate) exports: Arc<Exports>,
    pub(crate) probe: Box<dyn Fn() -> Gauges + Send + Sync>,
    pub(crate) started: Instant,
}

/// Values that are read, not counted.
pub(crate) struct Gauges {
    pub(crate) connections: usize,
    pub(crate) shared_bytes: u64,
    pub(crate) scans: Vec<ScanStatus>,
    pub(crate) relocation: Option<RelocationStatus>,
    pub(crate) characterization: Option<BesideStatus>,
    pub(crate) drive: DriveSnapshot,
}

/// The kinds of requests that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Other,
}

/// The outcome of a request's deadline at the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timing {
    /// It had none.
    #[default]
    None,
    Met,
    Missed,
}

impl Timing {
    /// The outcome of a piece.
    pub(crate) fn of(finished: Option<&Finished>) -> Self {
        match finished {
            Some(finished) if finished.missed() => Self::Missed,
            Some(finished) if finished.request.deadline.is_some() => Self::Met,
            _ => Self::None,
        }
    }
}

/// The live statistics of one export.
#[derive(Debug)]
pub(crate) struct ExportStats {
    current: Mutex<VolumeStats>,
}

impl Stats {
    /// Takes a snapshot. This takes some tens of microseconds, 200 ms at most.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        let gauges = (self.probe)();
        let of = |export: &Arc<Export>| VolumeStats {
            extents: export.volume.extents().as_slice().len(),
            ..export.stats.snapshot()
        };
        StatsSnapshot {
            uptime: self.started.elapsed(),
            volumes: self.exports.all().iter().map(of).collect(),
            connections: gauges.connections,
            shared_memory: ByteSize::new(gauges.shared_bytes),
            scans: gauges.scans,
            relocation: gauges.relocation,
            characterization: gauges.characterization,
            refused: self.exports.refusals.counts(),
            drive: gauges.drive,
        }
    }
}

impl StatsSnapshot {
    /// The exports by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&str, &VolumeStats> {
        self.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect()
    }
}

impl VolumeStats {
    /// The counts since `earlier`, an earlier snapshot of the same export. The numbers of
    /// connections and of requests in flight are the current ones.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.since(&earlier.reads),
            writes: self.writes.since(&earlier.writes),
            others: self.others.since(&earlier.others),
            deadline_requests: self.deadline_requests.saturating_sub(earlier.deadline_requests),
            deadline_misses: self.deadline_misses.saturating_sub(earlier.deadline_misses),
            deadline_failures: self.deadline_failures.saturating_sub(earlier.deadline_failures),
            ..self.clone()
        }
    }

    /// The sum of reads and writes.
    #[must_use]
    pub fn total(&self) -> OpStats {
        let mut response = self.reads.response.clone();
        add(&mut response, &self.writes.response);
        OpStats {
            requests: self.reads.requests + self.writes.requests,
            bytes: self.reads.bytes + self.writes.bytes,
            errors: self.reads.errors + self.writes.errors,
            response,
        }
    }
}

impl OpStats {
    fn new() -> Self {
        Self { requests: 0, bytes: 0, errors: 0, response: response_times() }
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut response = self.response.clone();
        if response.subtract(&earlier.response).is_err() {
            // `earlier` comes from another server: everything is new.
            response = self.response.clone();
        }
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            response,
        }
    }
}

impl ExportStats {
    pub(crate) fn new(
        id: VolumeId,
        volume: &str,
        name: &str,
        size: ByteSize,
        deadline: Option<Nanos>,
    ) -> Self {
        Self {
            current: Mutex::new(VolumeStats {
                id,
                name: name.to_string(),
                volume: volume.to_string(),
                size,
                extents: 1,
                deadline,
                connections: 0,
                in_flight: 0,
                reads: OpStats::new(),
                writes: OpStats::new(),
                others: OpStats::new(),
                deadline_requests: 0,
                deadline_misses: 0,
                deadline_failures: 0,
            }),
        }
    }

    /// The current statistics.
    pub(crate) fn snapshot(&self) -> VolumeStats {
        self.current.lock().clone()
    }

    /// Sets the size and deadline of the volume.
    pub(crate) fn set(&self, size: ByteSize, deadline: Option<Nanos>) {
        let mut current = self.current.lock();
        (current.size, current.deadline) = (size, deadline);
    }

    /// The number of clients that have it open.
    pub(crate) fn connections(&self) -> u64 {
        self.current.lock().connections
    }

    pub(crate) fn opened(&self) {
        self.current.lock().connections += 1;
    }

    pub(crate) fn closed(&self) {
        self.current.lock().connections -= 1;
    }

    pub(crate) fn begun(&self) {
        self.current.lock().in_flight += 1;
    }

    /// Ends a request that is not counted: its client left before it went to the drive.
    pub(crate) fn dropped(&self) {
        self.current.lock().in_flight -= 1;
    }

    /// Ends a request. The volume's own deadline counts from its arrival; one by I/O priority
    /// counts from its arrival at the scheduler, which reports it as `timing`.
    pub(crate) fn ended(
        &self,
        kind: Kind,
        bytes: u64,
        response: Duration,
        failed: bool,
        timing: Timing,
    ) {
        let mut current = self.current.lock();
        current.in_flight -= 1;
        let late = match current.deadline {
            Some(deadline) => Some(response > Duration::from_nanos(deadline.as_ns())),
            None => (timing != Timing::None).then_some(timing == Timing::Missed),
        };
        if let Some(late) = late.filter(|_| kind != Kind::Other) {
            current.deadline_requests += 1;
            current.deadline_failures += u64::from(failed);
            current.deadline_misses += u64::from(failed || late);
        }
        let op = match kind {
            Kind::Read => &mut current.reads,
            Kind::Write => &mut current.writes,
            Kind::Other => &mut current.others,
        };
        if failed {
            op.errors += 1;
            return;
        }
        op.requests += 1;
        op.bytes += bytes;
        op.response.saturating_record(u64::try_from(response.as_micros()).unwrap_or(u64::MAX));
    }
}

/// The bins of response times in each decade.
pub const RESPONSE_BINS_PER_DECADE: u32 = 8;
/// The start of bin 0.
const FIRST_BIN_US: f64 = 100.0;
/// The last bin, for 100 s and more.
const LAST_BIN: u32 = 6 * RESPONSE_BINS_PER_DECADE;

/// The bin of a response time. Bin `n` begins at 100 µs × 10^(n / 8); bin 0 has all shorter times
/// too.
fn response_bin(us: u64) -> u32 {
    let above = (us as f64 / FIRST_BIN_US).log10() * f64::from(RESPONSE_BINS_PER_DECADE);
    if above > 0.0 { (above as u32).min(LAST_BIN) } else { 0 }
}

/// The count of response times in each bin that has any.
#[must_use]
pub fn response_bins(times: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u32, u64)> {
    let mut bins = BTreeMap::new();
    for (us, count) in times {
        *bins.entry(response_bin(us)).or_default() += count;
    }
    bins.into_iter().collect()
}

pub(crate) fn response_times() -> ResponseTimes {
    Histogram::new_with_bounds(1, HIGHEST_US, 2)
        .expect("two digits up to an hour are valid bounds of a histogram")
}

fn add(sum: &mut ResponseTimes, more: &ResponseTimes) {
    sum.add(more).expect("histograms of response times all have the same bounds");
}

/// An hour; longer times count as an hour.
const HIGHEST_US: u64 = 3_600_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(deadline: Option<Nanos>) -> ExportStats {
        ExportStats::new(VolumeId(1), "rec", "rec", ByteSize::new(1 << 30), deadline)
    }

    fn end(stats: &ExportStats, kind: Kind, bytes: u64, ms: u64, failed: bool) {
        stats.begun();
        stats.ended(kind, bytes, Duration::from_millis(ms), failed, Timing::None);
    }

    #[test]
    fn deadlines_count_for_reads_and_writes_only_and_a_failure_is_a_miss() {
        let stats = stats(Some(Nanos::from_ms(100)));
        end(&stats, Kind::Read, 4096, 100, false);
        end(&stats, Kind::Write, 4096, 101, false);
        end(&stats, Kind::Write, 4096, 1, true);
        end(&stats, Kind::Other, 0, 5000, false);
        let now = stats.current.lock().clone();
        assert_eq!(
            (now.deadline_requests, now.deadline_misses, now.deadline_failures, now.in_flight),
            (3, 2, 1, 0)
        );
        assert_eq!((now.writes.requests, now.writes.errors, now.writes.bytes), (1, 1, 4096));
    }

    #[test]
    fn deadlines_by_priority_count_as_the_scheduler_reports_them() {
        let stats = stats(None);
        for timing in [Timing::None, Timing::Met, Timing::Missed, Timing::Missed] {
            stats.begun();
            stats.ended(Kind::Read, 1, Duration::from_millis(1), false, timing);
        }
        let now = stats.current.lock().clone();
        assert_eq!((now.deadline_requests, now.deadline_misses), (3, 2));
    }

    #[test]
    fn the_difference_of_two_snapshots_is_what_happened_between() {
        let stats = stats(None);
        end(&stats, Kind::Read, 1, 10, false);
        let earlier = stats.current.lock().clone();
        for _ in 0..3 {
            end(&stats, Kind::Read, 1, 20, false);
        }
        let between = stats.current.lock().since(&earlier);
        assert_eq!((between.reads.requests, between.reads.response.len()), (3, 3));
        assert!(
            (19_800..=20_300).contains(&between.reads.response.value_at_quantile(0.01)),
            "{}",
            between.reads.response.min()
        );
        assert_eq!(between.total().requests, 3);
    }

    #[test]
    fn bins_are_an_eighth_of_a_decade_wide() {
        let bins =
            [0, 1, 100, 133, 134, 999, 1_001, 10_001, 100_000_100, u64::MAX].map(response_bin);
        assert_eq!(bins, [0, 0, 0, 0, 1, 7, 8, 16, 48, 48]);
        assert_eq!(response_bins([(5, 2), (120, 1), (1_500, 7)]), [(0, 3), (9, 7)]);
    }

    #[test]
    fn a_histogram_stays_small() {
        assert!(
            response_times().distinct_values() * 8 < 32 << 10,
            "{}",
            response_times().distinct_values()
        );
    }
}
