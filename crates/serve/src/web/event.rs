//! The events of the web page: the server's status and what happened since the event before.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use headtime_io::{RealClock, ServedWork, SlowRequest};
use headtime_sched::ClassId;
use headtime_units::{Instant, Nanos};
use serde::Serialize;

use super::platter::{HEADS_FOR, Positions, WebPlatter};
use super::waits::{Charges, Owner, WorkLog, owner};
use crate::control::{ExplainedRequest, TopExport, TopSample};
use crate::export::Export;
use crate::stats::response_bins;
use crate::status::{ServerStatus, StatusSource};

/// The server that the events are about.
pub(crate) struct WebSource {
    status: Arc<StatusSource>,
}

/// The state at one event, from which the next one counts.
pub(super) struct Before {
    top: TopSample,
    log: WorkLog,
    at: Instant,
}

#[derive(Debug, Serialize)]
struct WebEvent {
    /// The answer of the verb `status` at this moment.
    status: ServerStatus,
    /// The time since the event before; 0 in the first event.
    interval_seconds: f64,
    /// The policy honors reservations and limits.
    enforces_shares: bool,
    /// Disk time of reads for scans in the interval.
    scan_seconds: f64,
    /// The exports, by name.
    exports: Vec<WebExport>,
    platter: WebPlatter,
    /// The waits of requests that completed in the interval.
    waits: Vec<WebWaits>,
    /// The last missed and failed requests, the latest first.
    misses: Vec<WebMiss>,
}

/// One export in the interval.
#[derive(Debug, Serialize)]
struct WebExport {
    name: String,
    reserve_percent: Option<f64>,
    limit_percent: Option<f64>,
    /// A limit throttles it now.
    held_back: bool,
    disk_seconds: f64,
    requests: u64,
    bytes: u64,
    deadline_misses: u64,
    /// Response times of reads and writes: the number of the bin and the count.
    heat: Vec<(u32, u64)>,
}

/// The waits of the requests of one export.
#[derive(Debug, Serialize)]
struct WebWaits {
    export: String,
    requests: u64,
    waited_ms: f64,
    /// The parts of it in which the drive served an export, or `scans`.
    served_ms: BTreeMap<String, f64>,
}

/// A request that missed its deadline or failed.
#[derive(Debug, Serialize)]
struct WebMiss {
    #[serde(flatten)]
    request: ExplainedRequest,
    /// The largest part of its response time.
    cause: String,
    /// The exports that the drive served while it waited; empty if it was submitted before the
    /// first page was opened.
    served_ms: BTreeMap<String, f64>,
}

/// The maximum number of missed requests in an event.
const MAX_MISSES: usize = 20;
/// The name of scans among exports.
const SCANS: &str = "scans";
/// If the last snapshot is older, the engine does not answer, and it is not asked for more.
const STALE: Nanos = Nanos::from_secs(1);
impl WebSource {
    pub(crate) fn new(status: Arc<StatusSource>) -> Arc<Self> {
        Arc::new(Self { status })
    }

    /// The event at this moment, as it is sent, and the state for the next one.
    pub(super) fn next(&self, before: Option<Before>) -> (Bytes, Before) {
        let snapshot = self.status.stats.snapshot();
        let exports = self.status.exports.all();
        let exports = Names(exports.iter().map(AsRef::as_ref).collect());
        let drive = &self.status.drive;
        let now = RealClock.now();
        let (mut recent, mut slow) = Default::default();
        if now.saturating_since(snapshot.drive.taken) < STALE {
            // A drive that is closing has nothing to tell.
            recent = drive.recent_work().unwrap_or_default();
            slow = drive.slow_requests().unwrap_or_default();
        }
        let top = TopSample::of(&snapshot, &self.status.locator);
        let Before { top: top_before, mut log, at } =
            before.unwrap_or_else(|| Before { top: top.clone(), log: WorkLog::default(), at: now });
        let since = top.since(&top_before);
        let (shape, dropped) = (recent.shape.take(), recent.dropped);
        log.extend(recent, now);
        let charges = log.charges();
        // An event may be late, and then covers more than a second.
        let second = Instant::from_ns(now.as_ns().saturating_sub(HEADS_FOR.as_ns())).min(at);
        let positions = Positions::of(shape.as_ref(), drive.capacity().get());
        let place = |work: &ServedWork| exports.place(owner(work));
        let platter =
            WebPlatter::new(&positions, &exports.0, log.after(second), now, place, dropped);
        let waits = log.waits(&charges, at).into_iter().map(|(owner, waits)| WebWaits {
            export: exports.name(owner),
            requests: waits.requests,
            waited_ms: waits.waited.as_ms_f64(),
            served_ms: exports.named(waits.served),
        });
        let missed = slow.iter().rev().filter(|request| request.missed || request.failed);
        let sector = drive.sector_size().bytes();
        let event = WebEvent {
            status: self.status.status_at(&snapshot),
            interval_seconds: since.interval_seconds,
            enforces_shares: since.enforces_shares,
            scan_seconds: since.scan_seconds,
            exports: since.exports.into_iter().map(WebExport::of).collect(),
            platter,
            waits: waits.collect(),
            misses: missed
                .take(MAX_MISSES)
                .map(|request| WebMiss::of(request, &exports, &charges, sector))
                .collect(),
        };
        let json = serde_json::to_string(&event).expect("its maps have texts and numbers as keys");
        (Bytes::from(format!("data: {json}\n\n")), Before { top, log, at: now })
    }
}

/// The exports, by name.
struct Names<'e>(Vec<&'e Export>);

impl Names<'_> {
    fn place(&self, owner: Owner) -> Option<usize> {
        let (volume, class) = owner?;
        let is = |export: &&Export| {
            export.volume.id == volume && ClassId(export.class.number()) == class
        };
        self.0.iter().position(is)
    }

    /// The name of an export, empty for the server's own requests and for removed volumes.
    fn name(&self, owner: Owner) -> String {
        match (owner, self.place(owner)) {
            (None, _) => SCANS.to_owned(),
            (_, Some(place)) => self.0[place].name.clone(),
            (Some(_), None) => String::new(),
        }
    }

    fn named(&self, times: impl IntoIterator<Item = (Owner, Nanos)>) -> BTreeMap<String, f64> {
        let mut named = BTreeMap::new();
        for (owner, time) in times {
            *named.entry(self.name(owner)).or_default() += time.as_ms_f64();
        }
        named
    }
}

impl WebMiss {
    fn of(request: &SlowRequest, exports: &Names<'_>, charges: &Charges, sector: u32) -> Self {
        let export = exports.place(Some((request.volume, request.class)));
        let export = export.map(|place| exports.0[place]);
        let extents = export.map(|export| (export.name.as_str(), export.volume.extents()));
        let largest = request.went.named().into_iter().max_by_key(|(_, part)| *part);
        let waits = request.went;
        let waited = waits.own_queue
            + waits.other_volumes
            + waits.background
            + waits.held
            + waits.at_drive_queue;
        let served = charges.between(request.submitted, request.submitted + waited);
        Self {
            request: ExplainedRequest::of(
                request,
                extents.as_ref().map(|(name, extents)| (*name, extents)),
                sector,
            ),
            cause: largest.map_or_else(String::new, |(name, _)| name.to_owned()),
            served_ms: exports.named(served.unwrap_or_default()),
        }
    }
}

impl WebExport {
    fn of(export: TopExport) -> Self {
        Self {
            heat: response_bins(export.response_us),
            name: export.name,
            reserve_percent: export.reserve_percent,
            limit_percent: export.limit_percent,
            held_back: export.held_back,
            disk_seconds: export.disk_seconds,
            requests: export.requests,
            bytes: export.bytes,
            deadline_misses: export.deadline_misses,
        }
    }
}
