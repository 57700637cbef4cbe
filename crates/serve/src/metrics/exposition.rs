//! The Prometheus metrics of a server: a table of all metrics ([`METRICS`]), filled from one
//! snapshot.
//!
//! Names follow the conventions: base units, and `_total` after counters. Labels are few: `volume`
//! and `class` (one per export), `op` (three values), and a few enumerations. No label has a
//! client, an address or a sector.

use std::fmt;

use headtime_io::LinkState;
use headtime_sched::{Tenant, Waits};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::stats::{OpStats, StatsSnapshot, VolumeStats};
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
        kind: MetricType::Counter,
        values: |snapshot, to| to.each_op(snapshot, |to, labels, op| to.count(labels, op.bytes)),
    },
    MetricFamily {
        name: "request_errors",
        help: "Failed requests",
        unit: None,
        labels: &["volume", "class", "op"],
        kind: MetricType::Counter,
        values: |snapshot, to| to.each_op(snapshot, |to, labels, op| to.count(labels, op.errors)),
    },
    MetricFamily {
        name: "requests_in_flight",
        help: "Unanswered requests",
        unit: None,
        labels: &["volume", "class"],
        kind: MetricType::Gauge,
        values: |snapshot, to| {
            to.each_export(snapshot, |to, labels, volume| to.level(labels, volume.in_flight as f64))
        },
    },
    MetricFamily {
        name: "export_connections",
        help: "Clients that have the export open",
        unit: None,
        labels: &["volume", "class"],
        kind: MetricType::Gauge,
        values: |snapshot, to| {
            to.each_export(snapshot, |to, labels, volume| {
                to.level(labels, volume.connections as f64)
            })
        },
    },
    MetricFamily {
        name: "volume_size",
        help: "Size of the volume",
        unit: Some("bytes"),
        labels: &["volume", "class"],
        kind: MetricType::Gauge,
        values: |snapshot, to| {
            to.each_export(snapshot, |to, labels, volume| {
                to.level(labels, volume.size.get() as f64)
            })
        },
    },
    MetricFamily {
        name: "deadline_requests",
        help: "Reads and writes with a deadline",
        unit: None,
        labels: &["volume", "class"],
        kind: MetricType::Counter,
        values: |snapshot, to| {
            to.each_export(snapshot, |to, labels, volume| {
                to.count(labels, volume.deadline_requests)
            })
        },
    },
    MetricFamily {
        name: "deadline_misses",
        help: "Reads and writes that took longer than their deadline (late), or failed (failed)",
        unit: None,
        labels: &["volume", "class", "reason"],
        kind: MetricType::Counter,
        values: |snapshot, to| {
            to.each_export(snapshot, |to, [volume, class], stats| {
                let late = stats.deadline_misses - stats.deadline_failures;
                to.count([volume, class, ("reason", "late")], late)?;
                to.count([volume, class, ("reason", "failed")], stats.deadline_failures)
            })
        },
    },
    MetricFamily {
        name: "disk_time",
        help: "The drive's time: charged to the volume's requests (service), read for scans \
            (scan), neither (idle)",
        unit: Some("seconds"),
        labels: &["volume", "kind"],
        kind: MetricType::Counter,
        values: |snapshot, to| to.disk_time(snapshot),
    },
    MetricFamily {
        name: "share_reserve",
        help: "The reserved share of the drive's time",
        unit: Some("ratio"),
        labels: &["volume", "class"],
        kind: MetricType::Gauge,
        values: |snapshot, to| {
            to.each_share(snapshot, |report| report.terms.map(|terms| terms.reserve.as_fraction()))
        },
    },
    MetricFamily {
        name: "share_limit",
        help: "The largest share of the drive's time that is granted",
        unit: Some("ratio"),
        labels: &["volume", "class"],
        kind: MetricType::Gauge,
        values: |snapshot, to| {
            to.each_share(snapshot, |report| report.terms.map(|terms| terms.limit.as_fraction()))
        },
    },
    MetricFamily {
        name: "share_used",
        help: "The share of the drive's time charged over the last few seconds",
        unit: Some("ratio"),
        labels: &["volume", "class"],
        kind: MetricType::Gauge,
        values: |snapshot, to| to.each_share(snapshot, |report| Some(report.recent.max(0.0))),
    },
    MetricFamily {
        name: "model_error",
        help: "Root mean square error of recent predictions of the rotational position",
        unit: Some("seconds"),
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| {
            snapshot.drive.belief.error_rms_us.map_or(Ok(()), |rms_us| to.level([], rms_us / 1e6))
        },
    },
    MetricFamily {
        name: "commands_outstanding",
        help: "Commands at the drive",
        unit: None,
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| to.level([], snapshot.drive.outstanding as f64),
    },
    MetricFamily {
        name: "requests_queued",
        help: "Requests in the scheduler's queue",
        unit: None,
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| to.level([], snapshot.drive.queued as f64),
    },
    MetricFamily {
        name: "waits",
        help: "Waits for a request that was expected soon while others were queued, by whether it \
            came (came) or not (not_yet)",
        unit: None,
        labels: &["outcome"],
        kind: MetricType::Counter,
        values: |snapshot, to| {
            let Waits { begun, came, .. } = snapshot.drive.waits;
            to.count([("outcome", "came")], came)?;
            to.count([("outcome", "not_yet")], begun - came)
        },
    },
    MetricFamily {
        name: "wait_time",
        help: "Time that the drive was idle because of such waits",
        unit: Some("seconds"),
        labels: &[],
        kind: MetricType::Counter,
        values: |snapshot, to| to.sum([], snapshot.drive.waits.time.as_secs_f64()),
    },
    MetricFamily {
        name: "commands_hung",
        help: "Commands that the drive has not answered for a long time (slow), and of these those \
            given up (given_up)",
        unit: None,
        labels: &["state"],
        kind: MetricType::Counter,
        values: |snapshot, to| {
            to.count([("state", "slow")], snapshot.drive.hung.slow_ever)?;
            to.count([("state", "given_up")], snapshot.drive.hung.given_up_ever)
        },
    },
    MetricFamily {
        name: "drive_errors",
        help: "Requests that the drive failed, by the system's error code",
        unit: None,
        labels: &["errno"],
        kind: MetricType::Counter,
        values: |snapshot, to| {
            let mut all = snapshot.drive.errors.by_errno.iter();
            all.try_for_each(|(errno, count)| {
                to.count([("errno", errno.to_string().as_str())], *count)
            })
        },
    },
    MetricFamily {
        name: "drive_connected",
        help: "Whether a drive over NBD is connected",
        unit: None,
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| {
            let connected =
                snapshot.drive.link.as_ref().map(|link| link.state == LinkState::Connected);
            connected.map_or(Ok(()), |connected| to.level([], f64::from(u8::from(connected))))
        },
    },
    MetricFamily {
        name: "connections",
        help: "Clients, with or without an open export",
        unit: None,
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| to.level([], snapshot.connections as f64),
    },
    MetricFamily {
        name: "shared_memory",
        help: "Shared memory in use for requests in flight",
        unit: Some("bytes"),
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| to.level([], snapshot.shared_memory.get() as f64),
    },
    MetricFamily {
        name: "scans",
        help: "Unfinished scans",
        unit: None,
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| to.level([], snapshot.drive.scans as f64),
    },
    MetricFamily {
        name: "uptime",
        help: "Time since the server started",
        unit: Some("seconds"),
        labels: &[],
        kind: MetricType::Gauge,
        values: |snapshot, to| to.level([], snapshot.uptime.as_secs_f64()),
    },
];

/// The upper bounds of the histogram of response times, in seconds.
const BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];

/// The metrics as OpenMetrics text.
pub(super) fn exposition(snapshot: StatsSnapshot) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("headtime");
    registry.register_collector(Box::new(Taken(snapshot)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
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

    fn disk_time(&mut self, snapshot: &StatsSnapshot) -> fmt::Result {
        let mut busy = snapshot.drive.background.disk_time.as_secs_f64();
        for stats in snapshot.volumes.iter().filter(|stats| stats.name == stats.volume) {
            let account = snapshot.drive.accounts.iter().find(|(id, _)| *id == stats.id);
            let seconds = account.map_or(0.0, |(_, account)| account.disk_time.as_secs_f64());
            busy += seconds;
            self.sum([("volume", stats.volume.as_str()), ("kind", "service")], seconds)?;
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
        let (mut buckets, mut from, mut sum) = (Vec::with_capacity(BUCKETS.len() + 1), 0, 0.0);
        for end in BUCKETS {
            let to = (end * 1e6) as u64;
            buckets.push((end, op.response.count_between(from, to)));
            from = to + 1;
        }
        buckets.push((f64::INFINITY, op.response.count_between(from, u64::MAX)));
        if !op.response.is_empty() {
            sum = op.response.mean() * op.response.len() as f64 / 1e6;
        }
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
