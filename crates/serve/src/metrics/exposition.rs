//! The Prometheus metrics of a server: a table of all metrics ([`METRICS`]), filled from one
//! snapshot.
//!
//! Names follow the conventions: base units, and `_total` after counters. Labels are few: `volume`
//! and `class` (one per export), `op` (three values), `task`, and a few enumerations; `drive`, the
//! same everywhere. No label has a client, an address or a sector.

use std::fmt;
use std::sync::OnceLock;

use headtime_io::LinkState;
use headtime_sched::{Tenant, UnusedGap, VolumeAccount, Waits};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use rustix::io::Errno;

use crate::scans::ScanStatus;
use crate::stats::{OpStats, StatsSnapshot, VolumeStats, response_times};
use crate::volumes::VolumeClass;

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
    kind: MetricType,
    values: fn(&StatsSnapshot, &mut Values<'_>) -> fmt::Result,
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
        help: "Requests that asked for a guarantee of their deadline, by the answer",
        labels: &["volume", "answer"],
        values: |snapshot, to| {
            for (volume, account) in to.accounts(snapshot) {
                let promises = account.promises;
                to.count([volume, ("answer", "guaranteed")], promises.guaranteed)?;
                to.count([volume, ("answer", "best_effort")], promises.best_effort)?;
                to.count([volume, ("answer", "refused")], promises.refused)?;
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

/// The upper bounds of the buckets of response times, in microseconds. From 1 ms to 2 s the buckets
/// are at most 5 % wide, so that no quantile between can be off by more: an estimate from buckets
/// can lie at one end of a bucket and the truth at the other. Each bound is the end of a bucket of
/// [`ResponseTimes`](crate::ResponseTimes), so that the counts are exact.
fn bucket_ends() -> &'static [u64] {
    static ENDS: OnceLock<Vec<u64>> = OnceLock::new();
    ENDS.get_or_init(|| {
        let recorded = response_times();
        // The largest end of a recorded bucket that is not above.
        let end = |us: u64| recorded.lowest_equivalent(us + 1) - 1;
        let mut ends: Vec<u64> = [100, 200, 500, 1_000].map(end).to_vec();
        let mut last = ends[3];
        while last < 2_000_000 {
            last = end(last * 105 / 100);
            ends.push(last);
        }
        ends.extend([5_000_000, 10_000_000, 30_000_000].map(end));
        ends
    })
}

/// The metrics as OpenMetrics text; `drive` is the label of all.
pub(super) fn exposition(snapshot: StatsSnapshot, drive: &str) -> Result<String, fmt::Error> {
    let label = ("drive".into(), drive.to_owned().into());
    let mut registry = Registry::with_prefix_and_labels("headtime", [label].into_iter());
    registry.register_collector(Box::new(Taken(snapshot)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// OpenMetrics text as the text format of Prometheus before it (0.0.4): the suffix of counters is
/// part of their names, and there are neither units nor an end mark.
pub(super) fn plain_text(open_metrics: &str) -> String {
    let mut plain = String::with_capacity(open_metrics.len());
    let is_counter = |name: &str| open_metrics.contains(&format!("# TYPE {name} counter\n"));
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => continue,
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) => {
                let suffix = if is_counter(name) { "_total" } else { "" };
                plain.push_str(&format!("# {what} {name}{suffix} {rest}"));
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

/// A snapshot, collected once.
#[derive(Debug)]
struct Taken(StatsSnapshot);

impl Collector for Taken {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let unit = metric.unit.map(|unit| Unit::Other(unit.to_owned()));
            let encoder =
                encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), metric.kind)?;
            (metric.values)(&self.0, &mut Values { encoder, kind: metric.kind })?;
        }
        Ok(())
    }
}

/// The encoder of the values of one metric.
struct Values<'e> {
    encoder: MetricEncoder<'e>,
    kind: MetricType,
}

type Label<'l> = (&'static str, &'l str);

impl Values<'_> {
    fn each_export(
        &mut self,
        snapshot: &StatsSnapshot,
        mut value: impl FnMut(&mut Self, [Label<'_>; 2], &VolumeStats) -> fmt::Result,
    ) -> fmt::Result {
        snapshot.volumes.iter().try_for_each(|stats| value(self, export_labels(stats), stats))
    }

    /// The level of each export.
    fn level_of_each(
        &mut self,
        snapshot: &StatsSnapshot,
        value: impl Fn(&VolumeStats) -> f64,
    ) -> fmt::Result {
        self.each_export(snapshot, |to, labels, stats| to.level(labels, value(stats)))
    }

    fn each_op(
        &mut self,
        snapshot: &StatsSnapshot,
        mut value: impl FnMut(&mut Self, [Label<'_>; 3], &OpStats) -> fmt::Result,
    ) -> fmt::Result {
        self.each_export(snapshot, |to, [volume, class], stats| {
            let ops = [("read", &stats.reads), ("write", &stats.writes), ("other", &stats.others)];
            ops.into_iter().try_for_each(|(op, of)| value(to, [volume, class, ("op", op)], of))
        })
    }

    /// One value for each export whose tenant the scheduler knows.
    fn each_share(
        &mut self,
        snapshot: &StatsSnapshot,
        value: impl Fn(&headtime_sched::ShareReport) -> Option<f64>,
    ) -> fmt::Result {
        self.each_export(snapshot, |to, labels, stats| {
            let (_, class) = VolumeClass::of_export(&stats.name);
            let tenant = Tenant::class_of(
                stats.id,
                headtime_sched::ClassId(class.unwrap_or_default().number()),
            );
            let report = snapshot.drive.shares.iter().find(|report| report.tenant == tenant);
            report.and_then(&value).map_or(Ok(()), |value| to.level(labels, value))
        })
    }

    /// One value for each unfinished or finished scan.
    fn each_scan(
        &mut self,
        snapshot: &StatsSnapshot,
        value: impl Fn(&ScanStatus) -> f64,
    ) -> fmt::Result {
        snapshot.scans.iter().try_for_each(|scan| {
            let labels = [("volume", scan.target.as_str()), ("task", scan.task.as_str())];
            self.level(labels, value(scan))
        })
    }

    /// The scheduler's account of each volume.
    fn accounts<'s>(
        &self,
        snapshot: &'s StatsSnapshot,
    ) -> impl Iterator<Item = (Label<'s>, VolumeAccount)> + use<'s> {
        let volumes = snapshot.volumes.iter().filter(|stats| stats.name == stats.volume);
        volumes.map(|stats| {
            let mut accounts = snapshot.drive.accounts.iter();
            let account = accounts.find(|(id, _)| *id == stats.id).map(|(_, account)| *account);
            (("volume", stats.volume.as_str()), account.unwrap_or_default())
        })
    }

    fn disk_time(&mut self, snapshot: &StatsSnapshot) -> fmt::Result {
        let mut busy = snapshot.drive.background.disk_time.as_secs_f64();
        for (volume, account) in self.accounts(snapshot) {
            let seconds = account.disk_time.as_secs_f64();
            busy += seconds;
            self.sum([volume, ("kind", "service")], seconds)?;
        }
        self.sum(
            [("volume", ""), ("kind", "scan")],
            snapshot.drive.background.disk_time.as_secs_f64(),
        )?;
        self.sum(
            [("volume", ""), ("kind", "idle")],
            (snapshot.uptime.as_secs_f64() - busy).max(0.0),
        )
    }

    fn count<const N: usize>(&mut self, labels: [Label<'_>; N], value: u64) -> fmt::Result {
        debug_assert!(matches!(self.kind, MetricType::Counter));
        self.encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)
    }

    fn sum<const N: usize>(&mut self, labels: [Label<'_>; N], value: f64) -> fmt::Result {
        debug_assert!(matches!(self.kind, MetricType::Counter));
        self.encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
    }

    fn level<const N: usize>(&mut self, labels: [Label<'_>; N], value: f64) -> fmt::Result {
        debug_assert!(matches!(self.kind, MetricType::Gauge));
        if N == 0 {
            return self.encoder.encode_gauge(&value);
        }
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    fn durations(&mut self, labels: [Label<'_>; 3], op: &OpStats) -> fmt::Result {
        // An operation that no client has used has no buckets.
        if op.response.is_empty() {
            return Ok(());
        }
        let ends = bucket_ends();
        let mut buckets = Vec::with_capacity(ends.len() + 1);
        let mut from = 0;
        for end in ends {
            buckets.push((*end as f64 / 1e6, op.response.count_between(from, *end)));
            from = end + 1;
        }
        buckets.push((f64::INFINITY, op.response.count_between(from, u64::MAX)));
        let sum = op.response.mean() * op.response.len() as f64 / 1e6;
        self.encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
            sum,
            op.response.len(),
            &buckets,
            None,
        )
    }
}

fn export_labels(stats: &VolumeStats) -> [Label<'_>; 2] {
    let class = stats
        .name
        .strip_prefix(stats.volume.as_str())
        .map_or("", |rest| rest.trim_start_matches('@'));
    [("volume", stats.volume.as_str()), ("class", class)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quantile as Prometheus computes it from buckets: linear within the bucket.
    fn from_buckets(times: &crate::ResponseTimes, quantile: f64) -> f64 {
        let rank = quantile * times.len() as f64;
        let (mut from, mut seen) = (0, 0.0);
        for end in bucket_ends() {
            let here = times.count_between(from, *end) as f64;
            if seen + here >= rank {
                let start = from.saturating_sub(1) as f64;
                return start + (*end as f64 - start) * (rank - seen) / here;
            }
            (from, seen) = (end + 1, seen + here);
        }
        panic!("{quantile} is past the last bucket")
    }

    #[test]
    fn a_quantile_from_buckets_is_within_five_percent_from_a_millisecond_to_two_seconds() {
        let mut worst: f64 = 0.0;
        let mut us = 1_000;
        while us <= 2_000_000 {
            // All at one place, the tail alone, and spread over a third.
            for spread in [0, 1, us / 3] {
                let mut times = response_times();
                let values = (0..500).map(|at| us - spread + spread * at / 500);
                let mut exact: Vec<u64> = values.collect();
                exact.sort_unstable();
                exact.iter().for_each(|us| times.record(*us).unwrap());
                let truth = exact[494] as f64;
                let error = (from_buckets(&times, 0.99) / truth - 1.0).abs();
                worst = worst.max(if truth < 1_000.0 { 0.0 } else { error });
            }
            us += us / 61;
        }
        assert!(worst <= 0.05, "{worst}");
        let growth = bucket_ends().windows(2).filter(|pair| pair[0] >= 999 && pair[0] < 2_000_000);
        growth.for_each(|pair| assert!(pair[1] * 100 <= pair[0] * 105 + 100, "{pair:?}"));
        assert!(bucket_ends().len() <= 180, "{}", bucket_ends().len());
    }
}
