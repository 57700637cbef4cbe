//! The verb `top`: counters since the server started. [`TopSample::since`] computes the counts of
//! an interval, so that several views do not disturb each other.

use std::collections::BTreeMap;

use headtime_io::DriveSnapshot;
use headtime_sched::{ClassId, ShareReport, Tenant, VolumeId};
use headtime_units::{Nanos, Share};
use serde::{Deserialize, Serialize};

use super::percent;
use crate::stats::{StatsSnapshot, VolumeStats};
use crate::volumes::VolumeClass;

/// The counters of a server; counts run since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopSample {
    /// The drive, by its locator.
    #[serde(default)]
    pub drive: String,
    /// The time since the server started.
    pub uptime_seconds: f64,
    /// The time that the counters are about: since the server started, or, of a difference
    /// ([`TopSample::since`]), since the earlier sample.
    pub interval_seconds: f64,
    /// The active policy.
    pub policy: String,
    /// The policy honors reservations and limits.
    pub enforces_shares: bool,
    /// The number of commands at the drive.
    pub outstanding: usize,
    /// The number of requests in the scheduler's queue.
    pub queued: usize,
    /// Disk time of reads for scans.
    pub scan_seconds: f64,
    /// The exports, by name.
    pub exports: Vec<TopExport>,
}

/// The counters of one export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopExport {
    /// Its name.
    pub name: String,
    /// The reserved share of the drive's time.
    pub reserve_percent: Option<f64>,
    /// The limit on its share of the drive's time.
    pub limit_percent: Option<f64>,
    /// The disk time charged to it.
    pub disk_seconds: f64,
    /// A limit throttles it now.
    pub held_back: bool,
    /// The number of clients that have it open.
    pub connections: u64,
    /// The number of unanswered requests.
    pub in_flight: u64,
    /// Successful reads and writes.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Failed requests, flushes included.
    pub errors: u64,
    /// Reads and writes with a deadline that missed it.
    pub deadline_misses: u64,
    /// The distribution of response times of reads and writes: microseconds and count.
    pub response_us: BTreeMap<u64, u64>,
}

impl TopSample {
    pub(crate) fn of(snapshot: &StatsSnapshot, locator: &str) -> Self {
        let drive = &snapshot.drive;
        Self {
            drive: locator.to_owned(),
            uptime_seconds: snapshot.uptime.as_secs_f64(),
            interval_seconds: snapshot.uptime.as_secs_f64(),
            policy: drive.policy.to_owned(),
            enforces_shares: drive.enforces_shares,
            outstanding: drive.outstanding,
            queued: drive.queued,
            scan_seconds: drive.background.disk_time.as_secs_f64(),
            exports: snapshot.volumes.iter().map(|stats| export(stats, snapshot)).collect(),
        }
    }

    /// The counts since `earlier`, an earlier sample of the same server; other fields keep their
    /// current values. A new export counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |export: &TopExport| {
            earlier
                .exports
                .iter()
                .find(|other| other.name == export.name)
                .cloned()
                .unwrap_or_default()
        };
        Self {
            interval_seconds: self.uptime_seconds - earlier.uptime_seconds,
            scan_seconds: (self.scan_seconds - earlier.scan_seconds).max(0.0),
            exports: self.exports.iter().map(|export| export.since(&before(export))).collect(),
            ..self.clone()
        }
    }
}

impl TopExport {
    fn since(&self, earlier: &Self) -> Self {
        let more = |us: &u64, count: &u64| {
            count.saturating_sub(earlier.response_us.get(us).copied().unwrap_or(0))
        };
        Self {
            disk_seconds: (self.disk_seconds - earlier.disk_seconds).max(0.0),
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            deadline_misses: self.deadline_misses.saturating_sub(earlier.deadline_misses),
            response_us: self
                .response_us
                .iter()
                .map(|(us, count)| (*us, more(us, count)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            ..self.clone()
        }
    }

    /// The quantile `part` of the response times in microseconds; `None` without requests.
    #[must_use]
    pub fn response_quantile_us(&self, part: f64) -> Option<u64> {
        let all: u64 = self.response_us.values().sum();
        let requested = ((part * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.response_us
            .iter()
            .find(|(_, count)| {
                seen += **count;
                seen >= requested
            })
            .map(|(us, _)| *us)
    }
}

/// The scheduler's view of an export.
fn share<'s>(
    volume: VolumeId,
    export: &str,
    drive: &'s DriveSnapshot,
) -> (Tenant, Option<&'s ShareReport>) {
    let (_, class) = VolumeClass::of_export(export);
    let tenant = Tenant::class_of(volume, ClassId(class.unwrap_or_default().number()));
    (tenant, drive.shares.iter().find(|report| report.tenant == tenant))
}

/// The disk time charged to an export since the server started.
pub(crate) fn disk_time(volume: VolumeId, export: &str, drive: &DriveSnapshot) -> Nanos {
    let (tenant, share) = share(volume, export, drive);
    // A policy without shares keeps accounts of volumes only.
    let mut accounts = drive.accounts.iter().filter(|_| tenant.class == ClassId(0));
    let account = accounts.find(|(id, _)| *id == volume);
    let of_account = account.map(|(_, account)| account.disk_time);
    share.map(|report| report.disk_time).or(of_account).unwrap_or_default()
}

fn export(stats: &VolumeStats, snapshot: &StatsSnapshot) -> TopExport {
    let (_, share) = share(stats.id, &stats.name, &snapshot.drive);
    let terms = share.and_then(|report| report.terms);
    let total = stats.total();
    TopExport {
        name: stats.name.clone(),
        reserve_percent: terms.map(|terms| percent(terms.reserve)),
        limit_percent: terms
            .filter(|terms| terms.limit != Share::WHOLE)
            .map(|terms| percent(terms.limit)),
        disk_seconds: disk_time(stats.id, &stats.name, &snapshot.drive).as_secs_f64(),
        held_back: share.is_some_and(|report| report.held_until.is_some()),
        connections: stats.connections,
        in_flight: stats.in_flight,
        requests: total.requests,
        bytes: total.bytes,
        errors: total.errors + stats.others.errors,
        deadline_misses: stats.deadline_misses,
        response_us: total
            .response
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(uptime_seconds: f64, requests: u64, response_us: &[(u64, u64)]) -> TopSample {
        let export = TopExport {
            name: "a".to_owned(),
            requests,
            disk_seconds: uptime_seconds / 2.0,
            response_us: response_us.iter().copied().collect(),
            ..TopExport::default()
        };
        TopSample { uptime_seconds, exports: vec![export], ..TopSample::default() }
    }

    #[test]
    fn the_difference_of_two_samples_counts_the_interval() {
        let between =
            sample(3.0, 10, &[(100, 4), (200, 5), (900, 1)]).since(&sample(1.0, 3, &[(100, 3)]));
        let [a] = &between.exports[..] else { panic!("{between:?}") };
        assert_eq!((between.uptime_seconds, between.interval_seconds), (3.0, 2.0));
        assert_eq!((a.requests, a.disk_seconds), (7, 1.0));
        assert_eq!(a.response_us.values().sum::<u64>(), 7);
        assert_eq!(
            (
                a.response_quantile_us(0.5),
                a.response_quantile_us(0.99),
                a.response_quantile_us(0.0)
            ),
            (Some(200), Some(900), Some(100))
        );
        assert_eq!(TopExport::default().response_quantile_us(0.5), None);
        let restarted = sample(1.0, 3, &[(100, 3)]).since(&sample(3.0, 10, &[(100, 4)]));
        assert_eq!((restarted.exports[0].requests, restarted.exports[0].response_us.len()), (0, 0));
    }
}
