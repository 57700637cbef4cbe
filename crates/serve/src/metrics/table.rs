//! The table of the metrics of a server ([`METRICS`]).
//!
//! Names follow the conventions: base units, and `_total` after counters. Labels are few: `volume`
//! and `class` (one per export), `op` (three values), `task`, `state`, and a few enumerations;
//! `drive`, the same everywhere. No label has a client, an address or a sector.

use std::fmt;

use headtime_io::LinkState;
use headtime_sched::{PriorityClass, UnusedGap, Waits};
use prometheus_client::metrics::MetricType;
use rustix::io::Errno;

use super::exposition::Values;
use crate::scans::ScanStatus;
use crate::stats::StatsSnapshot;
use crate::volumes::RelocationStatus;

/// One metric.
pub struct MetricFamily {
    /// Its name without `headtime_`, unit and `_total`.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Its unit, if it has one.
    pub unit: Option<&'static str>,
    /// Its labels.
    pub labels: &'static [&'static str],
    pub(super) kind: MetricType,
    pub(super) values: fn(&StatsSnapshot, &mut Values<'_>) -> fmt::Result,
}

/// A gauge without unit and labels.
const GAUGE: MetricFamily = MetricFamily {
    name: "",
    help: "",
    unit: None,
    labels: &[],
    kind: MetricType::Gauge,
    values: |_, _| Ok(()),
};
/// A counter without unit and labels.
const COUNTER: MetricFamily = MetricFamily { kind: MetricType::Counter, ..GAUGE };
/// A gauge and a counter with a value for each export.
const EXPORT_GAUGE: MetricFamily = MetricFamily { labels: &["volume", "class"], ..GAUGE };
const EXPORT_COUNTER: MetricFamily = MetricFamily { kind: MetricType::Counter, ..EXPORT_GAUGE };

/// The metrics, in the order of the output.
pub const METRICS: &[MetricFamily] = &[
    MetricFamily {
        name: "request_duration",
        help: "Response times of successful requests, from their arrival to the drive's last \
            report",
        unit: Some("seconds"),
        labels: &["volume", "class", "op"],
        kind: MetricType::Histogram,
        values: |snapshot, to| to.each_op(snapshot, |to, labels, op| to.durations(labels, op)),
    },
    MetricFamily {
        name: "request",
        help: "Bytes of successful requests",
        unit: Some("bytes"),
        labels: &["volume", "class", "op"],
        values: |snapshot, to| to.each_op(snapshot, |to, labels, op| to.count(labels, op.bytes)),
        ..COUNTER
    },
    MetricFamily {
        name: "request_errors",
        help: "Failed requests",
        labels: &["volume", "class", "op"],
        values: |snapshot, to| to.each_op(snapshot, |to, labels, op| to.count(labels, op.errors)),
        ..COUNTER
    },
    MetricFamily {
        name: "requests_in_flight",
        help: "Unanswered requests",
        values: |snapshot, to| to.level_of_each(snapshot, |volume| volume.in_flight as f64),
        ..EXPORT_GAUGE
    },
    MetricFamily {
        name: "export_connections",
        help: "Clients that have the export open",
        values: |snapshot, to| to.level_of_each(snapshot, |volume| volume.connections as f64),
        ..EXPORT_GAUGE
    },
    MetricFamily {
        name: "volume_size",
        help: "Size of the volume",
        unit: Some("bytes"),
        values: |snapshot, to| to.level_of_each(snapshot, |volume| volume.size.get() as f64),
        ..EXPORT_GAUGE
    },
    MetricFamily {
        name: "volume_extents",
        help: "Extents of the volume on the drive",
        values: |snapshot, to| to.level_of_each(snapshot, |volume| volume.extents as f64),
        ..EXPORT_GAUGE
    },
    MetricFamily {
        name: "deadline_requests",
        help: "Reads and writes with a deadline",
        values: |snapshot, to| {
            to.each_export(snapshot, |to, labels, volume| {
                to.count(labels, volume.deadline_requests)
            })
        },
        ..EXPORT_COUNTER
    },
    MetricFamily {
        name: "deadline_misses",
        help: "Reads and writes that took longer than their deadline (late), or failed (failed)",
        labels: &["volume", "class", "reason"],
        values: |snapshot, to| {
            to.each_export(snapshot, |to, [volume, class], stats| {
                let late = stats.deadline_misses - stats.deadline_failures;
                to.count([volume, class, ("reason", "late")], late)?;
                to.count([volume, class, ("reason", "failed")], stats.deadline_failures)
            })
        },
        ..COUNTER
    },
    MetricFamily {
        name: "disk_time",
        help: "The drive's time: charged to the volume's requests (service), read for scans \
            (scan), neither (idle)",
        unit: Some("seconds"),
        labels: &["volume", "kind"],
        values: |snapshot, to| to.disk_time(snapshot),
        ..COUNTER
    },
    MetricFamily {
        name: "share_reserve",
        help: "The reserved share of the drive's time",
        unit: Some("ratio"),
        values: |snapshot, to| {
            to.each_share(snapshot, |report| report.terms.map(|terms| terms.reserve.as_fraction()))
        },
        ..EXPORT_GAUGE
    },
    MetricFamily {
        name: "share_limit",
        help: "The largest share of the drive's time that is granted",
        unit: Some("ratio"),
        values: |snapshot, to| {
            to.each_share(snapshot, |report| report.terms.map(|terms| terms.limit.as_fraction()))
        },
        ..EXPORT_GAUGE
    },
    MetricFamily {
        name: "share_used",
        help: "The share of the drive's time charged over the last few seconds",
        unit: Some("ratio"),
        values: |snapshot, to| to.each_share(snapshot, |report| Some(report.recent.max(0.0))),
        ..EXPORT_GAUGE
    },
    MetricFamily {
        name: "model_error",
        help: "Root mean square error of recent predictions of the rotational position",
        unit: Some("seconds"),
        values: |snapshot, to| {
            snapshot.drive.belief.error_rms_us.map_or(Ok(()), |rms_us| to.level([], rms_us / 1e6))
        },
        ..GAUGE
    },
    MetricFamily {
        name: "map_pairs",
        help: "Pairs of cells in the matrix, by whether their time is known",
        labels: &["state"],
        values: |snapshot, to| {
            let Some(of) = snapshot.drive.belief.matrix else { return Ok(()) };
            to.level([("state", "known")], of.pairs_known as f64)?;
            to.level([("state", "unknown")], (of.pairs - of.pairs_known) as f64)
        },
        ..GAUGE
    },
    MetricFamily {
        name: "map_accesses",
        help: "Accesses by what the matrix had on their pair of cells: its time (known), none yet \
            (learned), or no entry (not_covered)",
        labels: &["outcome"],
        values: |snapshot, to| {
            let Some(of) = snapshot.drive.belief.matrix else { return Ok(()) };
            to.count([("outcome", "known")], of.known)?;
            to.count([("outcome", "learned")], of.learned)?;
            to.count([("outcome", "not_covered")], of.not_covered)
        },
        ..COUNTER
    },
    MetricFamily {
        name: "map_evictions",
        help: "Cells that gave their place in a full matrix to others",
        values: |snapshot, to| {
            snapshot.drive.belief.matrix.map_or(Ok(()), |of| to.count([], of.evicted))
        },
        ..COUNTER
    },
    MetricFamily {
        name: "commands_outstanding",
        help: "Commands at the drive",
        values: |snapshot, to| to.level([], snapshot.drive.outstanding as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "requests_queued",
        help: "Requests in the scheduler's queue",
        values: |snapshot, to| to.level([], snapshot.drive.queued as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "service_time",
        help: "Time of commands at the drive, split by the drive model: overhead, seek, rotation, \
            transfer, and what was not predicted",
        unit: Some("seconds"),
        labels: &["part"],
        values: |snapshot, to| {
            let mut parts = snapshot.drive.service.named().into_iter();
            parts.try_for_each(|(part, time)| to.sum([("part", part)], time.as_secs_f64()))
        },
        ..COUNTER
    },
    MetricFamily {
        name: "waits",
        help: "Waits for a request that was expected soon while others were queued, by whether it \
            came (came) or not (not_yet)",
        labels: &["outcome"],
        values: |snapshot, to| {
            let Waits { begun, came, .. } = snapshot.drive.waits;
            to.count([("outcome", "came")], came)?;
            to.count([("outcome", "not_yet")], begun - came)
        },
        ..COUNTER
    },
    MetricFamily {
        name: "wait_time",
        help: "Time that the drive was idle because of such waits",
        unit: Some("seconds"),
        values: |snapshot, to| to.sum([], snapshot.drive.waits.time.as_secs_f64()),
        ..COUNTER
    },
    MetricFamily {
        name: "commands_hung",
        help: "Commands that the drive has not answered for a long time (slow), and of these those \
            given up (given_up)",
        labels: &["state"],
        values: |snapshot, to| {
            to.count([("state", "slow")], snapshot.drive.hung.slow_ever)?;
            to.count([("state", "given_up")], snapshot.drive.hung.given_up_ever)
        },
        ..COUNTER
    },
    MetricFamily {
        name: "drive_errors",
        help: "Requests that the drive failed, by the system's error code",
        labels: &["errno"],
        values: |snapshot, to| {
            let mut all = snapshot.drive.errors.by_errno.iter();
            all.try_for_each(|(errno, count)| {
                to.count([("errno", errno.to_string().as_str())], *count)
            })
        },
        ..COUNTER
    },
    MetricFamily {
        name: "media_errors",
        help: "Requests that failed because the drive could not read or write sectors: EIO, \
            ENODATA and EILSEQ of headtime_drive_errors",
        values: |snapshot, to| {
            let errors = &snapshot.drive.errors.by_errno;
            let of_media =
                MEDIA_ERRORS.iter().filter_map(|errno| errors.get(&errno.raw_os_error()));
            to.count([], of_media.sum())
        },
        ..COUNTER
    },
    MetricFamily {
        name: "drive_connected",
        help: "Whether a drive over NBD is connected",
        values: |snapshot, to| {
            let connected =
                snapshot.drive.link.as_ref().map(|link| link.state == LinkState::Connected);
            connected.map_or(Ok(()), |connected| to.level([], f64::from(u8::from(connected))))
        },
        ..GAUGE
    },
    MetricFamily {
        name: "admissions",
        help: "Requests that asked for a guarantee of their deadline, by the class of their \
            priority and by the answer",
        labels: &["volume", "priority", "answer"],
        values: |snapshot, to| {
            for (volume, account) in to.accounts(snapshot) {
                for class in PriorityClass::ALL {
                    let promises = account.promises.of(class);
                    let priority = ("priority", class.name());
                    let mut count =
                        |answer, count| to.count([volume, priority, ("answer", answer)], count);
                    count("guaranteed", promises.guaranteed)?;
                    count("best_effort", promises.best_effort)?;
                    count("refused", promises.refused)?;
                }
            }
            Ok(())
        },
        ..COUNTER
    },
    MetricFamily {
        name: "refusals",
        help: "Refused connections beyond the maximum, and reservations of more disk time than is \
            free",
        labels: &["of"],
        values: |snapshot, to| {
            to.count([("of", "connection")], snapshot.refused.connections)?;
            to.count([("of", "reservation")], snapshot.refused.reservations)
        },
        ..COUNTER
    },
    MetricFamily {
        name: "connections",
        help: "Clients, with or without an open export",
        values: |snapshot, to| to.level([], snapshot.connections as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "shared_memory",
        help: "Shared memory in use for requests in flight",
        unit: Some("bytes"),
        values: |snapshot, to| to.level([], snapshot.shared_memory.get() as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "scans",
        help: "Unfinished scans",
        values: |snapshot, to| to.level([], snapshot.drive.scans as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "scan_done",
        help: "The fraction of its pass that a scan has read",
        unit: Some("ratio"),
        labels: &["volume", "task"],
        values: |snapshot, to| to.each_scan(snapshot, ScanStatus::share_done),
        ..GAUGE
    },
    MetricFamily {
        name: "scan_size",
        help: "Bytes of a pass of a scan",
        unit: Some("bytes"),
        labels: &["volume", "task"],
        values: |snapshot, to| to.each_scan(snapshot, |scan| scan.bytes as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "scan_due",
        help: "Whether a scan is to read now: 0 if it is complete, paused, or outside of its \
            timetable",
        labels: &["volume", "task"],
        values: |snapshot, to| {
            let now = jiff::Zoned::now().datetime();
            to.each_scan(snapshot, |scan| f64::from(u8::from(scan.is_due(now))))
        },
        ..GAUGE
    },
    MetricFamily {
        name: "scan_unreadable_sectors",
        help: "Sectors that a scan could not read",
        labels: &["volume", "task"],
        values: |snapshot, to| to.each_scan(snapshot, |scan| scan.errors.sectors as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "scan_gaps",
        help: "Gaps before requests while a scan had sectors to read, by their outcome: read in \
            (filled), or the reason why not",
        labels: &["outcome"],
        values: |snapshot, to| {
            let report = &snapshot.drive.fill;
            to.count([("outcome", "filled")], report.filled)?;
            UnusedGap::ALL
                .into_iter()
                .zip(report.unused)
                .try_for_each(|(reason, gaps)| to.count([("outcome", reason.name())], gaps))
        },
        ..COUNTER
    },
    MetricFamily {
        name: "scan_impact",
        help: "Growth of the mean response time by scans, from stretches without reads: mean, and \
            the ends of its 95 % interval; absent until it is known to half of the bound",
        unit: Some("ratio"),
        labels: &["of"],
        values: |snapshot, to| {
            snapshot.drive.fill.measured.into_iter().try_for_each(|impact| {
                to.level([("of", "mean")], impact.mean)?;
                to.level([("of", "lower")], impact.lower)?;
                to.level([("of", "upper")], impact.upper)
            })
        },
        ..GAUGE
    },
    MetricFamily {
        name: "relocation_done",
        help: "The fraction of its pass that the last relocation of a volume has copied; 1 if it \
            is complete",
        unit: Some("ratio"),
        labels: &["volume"],
        values: |snapshot, to| to.relocation(snapshot, RelocationStatus::share_done),
        ..GAUGE
    },
    MetricFamily {
        name: "relocation_size",
        help: "Bytes that the last relocation moves",
        unit: Some("bytes"),
        labels: &["volume"],
        values: |snapshot, to| to.relocation(snapshot, |of| of.bytes as f64),
        ..GAUGE
    },
    MetricFamily {
        name: "relocation_pass",
        help: "The pass of the last relocation: 1 copies all, later ones what clients have written",
        labels: &["volume"],
        values: |snapshot, to| to.relocation(snapshot, |of| f64::from(of.pass)),
        ..GAUGE
    },
    MetricFamily {
        name: "relocation_state",
        help: "The state of the last relocation since the server started; 1",
        labels: &["volume", "state"],
        values: |snapshot, to| {
            snapshot.relocation.iter().try_for_each(|of| {
                to.level([("volume", of.volume.as_str()), ("state", of.state.name())], 1.0)
            })
        },
        ..GAUGE
    },
    MetricFamily {
        name: "characterization_progress",
        help: "The fraction of its drive time that the characterization beside clients has used; \
            most need less than all",
        unit: Some("ratio"),
        values: |snapshot, to| to.characterization(snapshot, |of| of.progress),
        ..GAUGE
    },
    MetricFamily {
        name: "characterization_reads",
        help: "Timed reads of the characterization beside clients since it started or resumed",
        values: |snapshot, to| {
            snapshot.characterization.iter().try_for_each(|of| to.count([], of.reads))
        },
        ..COUNTER
    },
    MetricFamily {
        name: "characterization_disturbed_reads",
        help: "Those to be repeated, because commands of clients came between",
        values: |snapshot, to| {
            snapshot.characterization.iter().try_for_each(|of| to.count([], of.disturbed))
        },
        ..COUNTER
    },
    MetricFamily {
        name: "characterization_idle",
        help: "Time since the last timed read of a running characterization beside clients",
        unit: Some("seconds"),
        values: |snapshot, to| {
            let running = snapshot.characterization.as_ref();
            running.and_then(|of| of.idle_seconds).map_or(Ok(()), |idle| to.level([], idle))
        },
        ..GAUGE
    },
    MetricFamily {
        name: "characterization_state",
        help: "The state of the characterization beside clients; 1",
        labels: &["state"],
        values: |snapshot, to| {
            snapshot
                .characterization
                .iter()
                .try_for_each(|of| to.level([("state", of.state.to_string().as_str())], 1.0))
        },
        ..GAUGE
    },
    MetricFamily {
        name: "build_info",
        help: "The version of the server; always 1",
        labels: &["version"],
        values: |_, to| to.level([("version", crate::VERSION)], 1.0),
        ..GAUGE
    },
    MetricFamily {
        name: "uptime",
        help: "Time since the server started",
        unit: Some("seconds"),
        values: |snapshot, to| to.level([], snapshot.uptime.as_secs_f64()),
        ..GAUGE
    },
];

/// The system's codes for sectors that a drive could not read or write: of files and most drivers,
/// of the block layer (medium error), and of the block layer (protection information).
const MEDIA_ERRORS: [Errno; 3] = [Errno::IO, Errno::NODATA, Errno::ILSEQ];
