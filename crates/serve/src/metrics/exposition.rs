//! The Prometheus metrics of a server as text: the table of all metrics ([`METRICS`]), filled from
//! one snapshot.

use std::fmt;
use std::sync::OnceLock;

use headtime_sched::{Tenant, VolumeAccount};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::table::METRICS;
use crate::beside::BesideStatus;
use crate::scans::ScanStatus;
use crate::stats::{OpStats, StatsSnapshot, VolumeStats, response_times};
use crate::volumes::{RelocationStatus, VolumeClass};

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
pub(super) struct Values<'e> {
    encoder: MetricEncoder<'e>,
    kind: MetricType,
}

pub(super) type Label<'l> = (&'static str, &'l str);

impl Values<'_> {
    pub(super) fn each_export(
        &mut self,
        snapshot: &StatsSnapshot,
        mut value: impl FnMut(&mut Self, [Label<'_>; 2], &VolumeStats) -> fmt::Result,
    ) -> fmt::Result {
        snapshot.volumes.iter().try_for_each(|stats| value(self, export_labels(stats), stats))
    }

    /// The level of each export.
    pub(super) fn level_of_each(
        &mut self,
        snapshot: &StatsSnapshot,
        value: impl Fn(&VolumeStats) -> f64,
    ) -> fmt::Result {
        self.each_export(snapshot, |to, labels, stats| to.level(labels, value(stats)))
    }

    pub(super) fn each_op(
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
    pub(super) fn each_share(
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
    pub(super) fn each_scan(
        &mut self,
        snapshot: &StatsSnapshot,
        value: impl Fn(&ScanStatus) -> f64,
    ) -> fmt::Result {
        snapshot.scans.iter().try_for_each(|scan| {
            let labels = [("volume", scan.target.as_str()), ("task", scan.task.as_str())];
            self.level(labels, value(scan))
        })
    }

    /// A value of the last relocation, if there is one.
    pub(super) fn relocation(
        &mut self,
        snapshot: &StatsSnapshot,
        value: fn(&RelocationStatus) -> f64,
    ) -> fmt::Result {
        snapshot
            .relocation
            .iter()
            .try_for_each(|of| self.level([("volume", of.volume.as_str())], value(of)))
    }

    /// A value of the characterization beside clients, if there is one.
    pub(super) fn characterization(
        &mut self,
        snapshot: &StatsSnapshot,
        value: fn(&BesideStatus) -> f64,
    ) -> fmt::Result {
        snapshot.characterization.iter().try_for_each(|of| self.level([], value(of)))
    }

    /// The scheduler's account of each volume.
    pub(super) fn accounts<'s>(
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

    pub(super) fn disk_time(&mut self, snapshot: &StatsSnapshot) -> fmt::Result {
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

    pub(super) fn count<const N: usize>(
        &mut self,
        labels: [Label<'_>; N],
        value: u64,
    ) -> fmt::Result {
        debug_assert!(matches!(self.kind, MetricType::Counter));
        self.encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)
    }

    pub(super) fn sum<const N: usize>(
        &mut self,
        labels: [Label<'_>; N],
        value: f64,
    ) -> fmt::Result {
        debug_assert!(matches!(self.kind, MetricType::Counter));
        self.encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
    }

    pub(super) fn level<const N: usize>(
        &mut self,
        labels: [Label<'_>; N],
        value: f64,
    ) -> fmt::Result {
        debug_assert!(matches!(self.kind, MetricType::Gauge));
        if N == 0 {
            return self.encoder.encode_gauge(&value);
        }
        self.encoder.encode_family(&labels)?.encode_gauge(&value)
    }

    pub(super) fn durations(&mut self, labels: [Label<'_>; 3], op: &OpStats) -> fmt::Result {
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
