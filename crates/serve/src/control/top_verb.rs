//! The verb of the live view: counts since the server's start, so that several views do not disturb
//! each other. [`TopSample::since`] makes the figures of an interval.

use std::collections::BTreeMap;

use headtime_sched::{ClassId, Tenant};
use serde::{Deserialize, Serialize};

use super::server_verbs::{answer, nothing};
use super::verbs::ControlVerb;
use crate::stats::{StatsSnapshot, VolumeStats};
use crate::volumes::VolumeClass;

pub(super) const TOP: ControlVerb = ControlVerb::new(
    "top",
    "counts of every export since the server started, for a live view",
    |handler, arguments| {
        nothing("top", &arguments)?;
        answer(&TopSample::of(&handler.server()?.stats.snapshot()))
    },
);

/// A server at one moment; counts are since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopSample {
    /// Time since the server started.
    pub uptime_seconds: f64,
    /// The policy at work.
    pub policy: String,
    /// Whether it goes by what is promised.
    pub goes_by_shares: bool,
    /// Commands at the drive.
    pub outstanding: usize,
    /// Requests that wait to go there.
    pub queued: usize,
    /// Disk time that reading for scans took.
    pub scan_seconds: f64,
    /// The exports, by name.
    pub exports: Vec<TopExport>,
}

/// One export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopExport {
    /// Its name.
    pub name: String,
    /// The part of the drive's time that is its own.
    pub reserve_percent: Option<f64>,
    /// The most of the drive's time that it is given.
    pub limit_percent: Option<f64>,
    /// Disk time that it was charged.
    pub disk_seconds: f64,
    /// Whether a limit holds it back now.
    pub held_back: bool,
    /// Clients that have it open.
    pub connections: u64,
    /// Requests taken in and not yet answered.
    pub in_flight: u64,
    /// Reads and writes that ended well.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// Reads and writes with a deadline that missed it.
    pub deadline_misses: u64,
    /// Response times of reads and writes: microseconds, and how many took so long.
    pub response_us: BTreeMap<u64, u64>,
}

impl TopSample {
    fn of(snapshot: &StatsSnapshot) -> Self {
        let drive = &snapshot.drive;
        Self {
            uptime_seconds: snapshot.uptime.as_secs_f64(),
            policy: drive.policy.to_owned(),
            goes_by_shares: drive.goes_by_shares,
            outstanding: drive.outstanding,
            queued: drive.queued,
            scan_seconds: drive.background.disk_time.as_secs_f64(),
            exports: snapshot.volumes.iter().map(|stats| export(stats, snapshot)).collect(),
        }
    }

    /// What happened since `earlier`, an earlier sample of the same server; what is no count is as
    /// it is now. An export that was not there then counts from nothing.
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
            uptime_seconds: self.uptime_seconds - earlier.uptime_seconds,
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

    /// The response time in microseconds that this part of the requests did not exceed; nothing
    /// when there were none.
    #[must_use]
    pub fn response_quantile_us(&self, part: f64) -> Option<u64> {
        let all: u64 = self.response_us.values().sum();
        let wanted = ((part * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.response_us
            .iter()
            .find(|(_, count)| {
                seen += **count;
                seen >= wanted
            })
            .map(|(us, _)| *us)
    }
}

fn export(stats: &VolumeStats, snapshot: &StatsSnapshot) -> TopExport {
    let (_, class) = VolumeClass::of_export(&stats.name);
    let tenant = Tenant::class_of(stats.id, ClassId(class.unwrap_or_default().number()));
    let share = snapshot.drive.shares.iter().find(|report| report.tenant == tenant);
    let account = snapshot
        .drive
        .accounts
        .iter()
        .find(|(id, _)| *id == stats.id)
        .filter(|_| tenant.class == ClassId(0));
    // Without books of tenants there are those of volumes.
    let disk_time =
        share.map(|report| report.disk_time).or(account.map(|(_, account)| account.disk_time));
    let terms = share.and_then(|report| report.terms);
    let total = stats.total();
    TopExport {
        name: stats.name.clone(),
        reserve_percent: terms.map(|terms| f64::from(terms.reserve.as_billionths()) / 1e7),
        limit_percent: terms
            .filter(|terms| terms.limit != headtime_units::Share::WHOLE)
            .map(|terms| f64::from(terms.limit.as_billionths()) / 1e7),
        disk_seconds: disk_time.map_or(0.0, headtime_units::Nanos::as_secs_f64),
        held_back: share.is_some_and(|report| report.held_until.is_some()),
        connections: stats.connections,
        in_flight: stats.in_flight,
        requests: total.requests,
        bytes: total.bytes,
        errors: total.errors,
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
    fn the_difference_of_two_samples_is_what_happened_between() {
        let between =
            sample(3.0, 10, &[(100, 4), (200, 5), (900, 1)]).since(&sample(1.0, 3, &[(100, 3)]));
        let [a] = &between.exports[..] else { panic!("{between:?}") };
        assert_eq!((between.uptime_seconds, a.requests, a.disk_seconds), (2.0, 7, 1.0));
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
