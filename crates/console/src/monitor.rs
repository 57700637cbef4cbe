//! Figures of a running server, computed from snapshots.
//!
//! The server counts from its start. A [`Monitor`] keeps the first snapshot and one from each full
//! second and computes the differences: the last second for the live view, the whole run for a
//! summary. Each snapshot carries its time; the monitor reads no clock.

use std::time::Duration;

use headtime_io::{DriveSnapshot, EmulationSnapshot};
use headtime_serve::{OpStats, StatsSnapshot, VolumeStats, response_bins};
use headtime_units::Nanos;

use crate::figures::{
    BeliefFigures, DiskTimeShares, DriveFigures, LatenessFigures, Times, VolumeSample, VolumeTotals,
};
use crate::view::LiveVolume;

/// The interval at which the live view takes snapshots. It shows something new once a second.
pub const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(100);

/// The response times of a second: the number of each bin
/// ([`headtime_serve::response_bins`]) with any, and their count.
pub type Heat = Vec<(u32, u64)>;

/// The differences between the first and the latest snapshot of one server.
pub struct Monitor {
    first: StatsSnapshot,
    /// The snapshot that the latest second began with.
    second_began: StatsSnapshot,
    latest: StatsSnapshot,
    /// In the order of the server's configuration.
    names: Vec<String>,
    live: Vec<LiveVolume>,
    samples: Vec<Vec<VolumeSample>>,
    heat: Vec<Vec<Heat>>,
    drive_last_second: DriveFigures,
    /// Sum and number of the sampled counts of commands at the drive.
    outstanding: (f64, u64),
    outstanding_last_second: (f64, u64),
}

impl Monitor {
    /// Begins with `first`; volumes are shown in the order of `names`, those not named are left
    /// out.
    pub fn new(first: StatsSnapshot, names: &[String]) -> Self {
        let live = names
            .iter()
            .map(|name| {
                let deadline_ms = volume(&first, name)
                    .and_then(|volume| volume.deadline)
                    .map(|deadline| deadline.as_ms_f64());
                LiveVolume { name: name.clone(), deadline_ms, ..LiveVolume::default() }
            })
            .collect();
        Self {
            second_began: first.clone(),
            latest: first.clone(),
            names: names.to_vec(),
            live,
            samples: vec![Vec::new(); names.len()],
            heat: vec![Vec::new(); names.len()],
            drive_last_second: DriveFigures {
                policy: first.drive.policy.to_string(),
                ..DriveFigures::default()
            },
            outstanding: (0.0, 0),
            outstanding_last_second: (0.0, 0),
            first,
        }
    }

    /// Takes a snapshot in; whether it completes a second, so that there is something new to show.
    pub fn take(&mut self, snapshot: StatsSnapshot) -> bool {
        for sum in [&mut self.outstanding, &mut self.outstanding_last_second] {
            *sum = (sum.0 + snapshot.drive.outstanding as f64, sum.1 + 1);
        }
        self.latest = snapshot;
        let seconds = (self.latest.uptime.saturating_sub(self.second_began.uptime)).as_secs_f64();
        if seconds < 1.0 {
            return false;
        }
        let at_seconds = self.seconds();
        let of_volumes = self.live.iter_mut().zip(&mut self.samples).zip(&mut self.heat);
        for (name, ((live, samples), heat)) in self.names.iter().zip(of_volumes) {
            let Some(now) = volume(&self.latest, name) else { continue };
            let last = volume(&self.second_began, name)
                .map_or_else(|| now.clone(), |earlier| now.since(earlier));
            let charged = charged(&self.latest.drive, now) - charged(&self.second_began.drive, now);
            let sample = VolumeSample {
                disk_time_share: charged / seconds,
                ..sample(&last, seconds, at_seconds)
            };
            samples.push(sample);
            let times = last.total().response;
            heat.push(response_bins(
                times
                    .iter_recorded()
                    .map(|value| (value.value_iterated_to(), value.count_since_last_iteration())),
            ));
            live.push(sample, totals(&self.first, &self.latest, name, at_seconds));
        }
        self.drive_last_second = drive_figures(
            &self.second_began.drive,
            &self.latest.drive,
            seconds,
            mean(self.outstanding_last_second),
        );
        self.outstanding_last_second = (0.0, 0);
        self.second_began = self.latest.clone();
        true
    }

    /// Seconds from the first to the latest snapshot.
    pub fn seconds(&self) -> f64 {
        self.latest.uptime.saturating_sub(self.first.uptime).as_secs_f64()
    }

    /// A line for each scan.
    pub fn scans(&self) -> Vec<String> {
        self.latest.scans.iter().map(crate::scans::line).collect()
    }

    /// The volumes as the live view shows them.
    pub fn live(&self) -> &[LiveVolume] {
        &self.live
    }

    /// The drive over the last full second.
    pub fn drive_last_second(&self) -> &DriveFigures {
        &self.drive_last_second
    }

    /// The drive from the first snapshot to the latest.
    pub fn drive(&self) -> DriveFigures {
        drive_figures(&self.first.drive, &self.latest.drive, self.seconds(), mean(self.outstanding))
    }

    /// One volume's seconds.
    pub fn samples(&self, name: &str) -> &[VolumeSample] {
        self.names.iter().position(|known| known == name).map_or(&[], |index| &self.samples[index])
    }

    /// The response times of one volume's seconds.
    pub fn heat(&self, name: &str) -> &[Heat] {
        self.names.iter().position(|known| known == name).map_or(&[], |index| &self.heat[index])
    }

    /// One volume from the first snapshot to the latest.
    pub fn totals(&self, name: &str) -> VolumeTotals {
        totals(&self.first, &self.latest, name, self.seconds())
    }

    /// One volume's response times as a distribution: milliseconds and the share of requests that
    /// took no longer, both rising.
    pub fn response_cdf(&self, name: &str) -> Vec<(f64, f64)> {
        let Some(ops) = between(&self.first, &self.latest, name).map(|volume| volume.total())
        else {
            return Vec::new();
        };
        let all = ops.response.len() as f64;
        let mut seen = 0;
        ops.response
            .iter_recorded()
            .map(|value| {
                seen += value.count_since_last_iteration();
                (value.value_iterated_to() as f64 / 1e3, seen as f64 / all)
            })
            .collect()
    }
}

fn volume<'s>(snapshot: &'s StatsSnapshot, name: &str) -> Option<&'s VolumeStats> {
    snapshot.volumes.iter().find(|volume| volume.name == name)
}

fn between(first: &StatsSnapshot, latest: &StatsSnapshot, name: &str) -> Option<VolumeStats> {
    let now = volume(latest, name)?;
    Some(volume(first, name).map_or_else(|| now.clone(), |earlier| now.since(earlier)))
}

fn sample(last: &VolumeStats, seconds: f64, at_seconds: f64) -> VolumeSample {
    let ops = last.total();
    let times = times(&ops);
    VolumeSample {
        at_seconds,
        mib_per_second: ops.bytes as f64 / MIB / seconds,
        iops: ops.requests as f64 / seconds,
        p50_ms: times.p50,
        p99_ms: times.p99,
        max_ms: times.max,
        deadline_misses: last.deadline_misses,
        in_flight: last.in_flight,
        disk_time_share: 0.0,
    }
}

fn totals(first: &StatsSnapshot, latest: &StatsSnapshot, name: &str, seconds: f64) -> VolumeTotals {
    let Some(all) = between(first, latest, name) else { return VolumeTotals::default() };
    let ops = all.total();
    let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    VolumeTotals {
        requests: ops.requests,
        iops: per_second(ops.requests as f64),
        mib_per_second: per_second(ops.bytes as f64 / MIB),
        response_ms: times(&ops),
        deadline_requests: all.deadline_requests,
        deadline_misses: all.deadline_misses,
        errors: ops.errors + all.others.errors,
        unanswered: all.in_flight,
        disk_time_share: per_second(charged(&latest.drive, &all) - charged(&first.drive, &all)),
    }
}

/// The seconds of disk time charged to a volume.
fn charged(drive: &DriveSnapshot, volume: &VolumeStats) -> f64 {
    let account = drive.accounts.iter().find(|(id, _)| *id == volume.id);
    account.map_or(0.0, |(_, account)| account.disk_time.as_secs_f64())
}

fn times(ops: &OpStats) -> Times {
    let response = &ops.response;
    if response.is_empty() {
        return Times::default();
    }
    let ms = |quantile| response.value_at_quantile(quantile) as f64 / 1e3;
    Times {
        count: response.len(),
        mean: response.mean() / 1e3,
        p50: ms(0.5),
        p95: ms(0.95),
        p99: ms(0.99),
        p999: ms(0.999),
        max: response.max() as f64 / 1e3,
    }
}

fn drive_figures(
    first: &DriveSnapshot,
    latest: &DriveSnapshot,
    seconds: f64,
    outstanding: f64,
) -> DriveFigures {
    let charged = |drive: &DriveSnapshot| {
        drive.accounts.iter().map(|(_, account)| account.disk_time.as_secs_f64()).sum::<f64>()
    };
    let disk_time = disk_time(first, latest);
    let by_accounts = if seconds > 0.0 {
        ((charged(latest) - charged(first)) / seconds).clamp(0.0, 1.0)
    } else {
        0.0
    };
    DriveFigures {
        policy: latest.policy.to_string(),
        outstanding,
        utilization: disk_time.map_or(by_accounts, |split| 1.0 - split.idle),
        disk_time,
        lateness: latest.emulation.as_ref().map(lateness),
        belief: latest
            .belief
            .error_rms_us
            // By distance nothing is predicted.
            .filter(|_| latest.drive_model != "distance")
            .map(|rms_error_us| BeliefFigures { completions: latest.belief.samples, rms_error_us }),
    }
}

/// The lateness of an emulated drive since it was opened.
pub fn lateness(emulation: &EmulationSnapshot) -> LatenessFigures {
    let late = &emulation.lateness;
    LatenessFigures {
        count: late.completions,
        p50_us: late.p50.as_us_f64(),
        p99_us: late.p99.as_us_f64(),
        max_us: late.max.as_us_f64(),
    }
}

/// The shares of the emulated drive's time between two snapshots.
fn disk_time(first: &DriveSnapshot, latest: &DriveSnapshot) -> Option<DiskTimeShares> {
    let spent = latest.emulation?.disk_time.since(&first.emulation?.disk_time);
    let all = spent.total().as_secs_f64();
    let share = |part: Nanos| part.as_secs_f64() / all;
    (all > 0.0).then(|| DiskTimeShares {
        seek: share(spent.seek),
        rotate: share(spent.rotate),
        transfer: share(spent.transfer),
        overhead: share(spent.overhead),
        idle: share(spent.idle),
        background: share(spent.background),
    })
}

fn mean((sum, count): (f64, u64)) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use hdrhistogram::Histogram;
    use headtime_io::ErrorCounts;
    use headtime_sched::{BeliefReport, VolumeAccount, VolumeId};
    use headtime_units::{ByteSize, Instant};

    /// A server `ms` after its start that has answered `reads` reads of 1 MiB, the n-th in n ms,
    /// and misses a deadline of 10 ms from the 11th on.
    fn snapshot(ms: u64, reads: u64, disk_ms: u64) -> StatsSnapshot {
        let ops = |count: u64| {
            let mut response =
                Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("bounds of a histogram");
            (1..=count).for_each(|nth| response.record(nth * 1_000).expect("within the bounds"));
            OpStats { requests: count, bytes: count << 20, errors: 0, response }
        };
        let volume = VolumeStats {
            id: VolumeId(3),
            name: "rec".into(),
            volume: "rec".into(),
            size: ByteSize::new(1 << 30),
            extents: 1,
            deadline: Some(Nanos::from_ms(10)),
            connections: 1,
            in_flight: 5,
            reads: ops(reads),
            writes: ops(0),
            others: ops(0),
            deadline_requests: reads,
            deadline_misses: reads.saturating_sub(10),
            deadline_failures: 0,
        };
        let account = VolumeAccount {
            disk_time: Nanos::from_ms(disk_ms),
            requests: reads,
            ..VolumeAccount::default()
        };
        let drive = DriveSnapshot {
            taken: Instant::from_ns(ms * 1_000_000),
            policy: "fcfs",
            active_policy: "fcfs",
            switches: Vec::new(),
            tunables: headtime_sched::Tunables::default(),
            outstanding_most: None,
            drive_model: "profile",
            backend: String::new(),
            queued: 3,
            outstanding: 2,
            accounts: vec![(VolumeId(3), account)],
            shares: Vec::new(),
            enforces_shares: false,
            belief: BeliefReport::default(),
            waits: headtime_sched::Waits::default(),
            scans: 0,
            timed_wait: None,
            fill: headtime_sched::FillReport::default(),
            background: headtime_sched::BackgroundAccount::default(),
            emulation: None,
            service: headtime_io::ServiceParts::default(),
            errors: ErrorCounts::default(),
            hung: headtime_io::HungCounts::default(),
            link: None,
            stalls: Vec::new(),
            members: Default::default(),
        };
        StatsSnapshot {
            uptime: Duration::from_millis(ms),
            volumes: vec![volume],
            connections: 1,
            shared_memory: ByteSize::new(0),
            scans: Vec::new(),
            relocation: None,
            characterization: None,
            refused: headtime_serve::RefusalCounts::default(),
            drive,
        }
    }

    #[test]
    fn a_second_is_shown_when_it_is_full_and_counts_only_what_happened_in_it() {
        let mut monitor =
            Monitor::new(snapshot(5_000, 4, 100), &["rec".to_string(), "unknown".to_string()]);
        assert!(!monitor.take(snapshot(5_500, 6, 200)), "half a second is no second");
        assert!(monitor.take(snapshot(6_000, 12, 600)));
        assert!(monitor.take(snapshot(7_000, 32, 1_600)));
        let [first, second] = monitor.samples("rec") else {
            panic!("{:?}", monitor.samples("rec"))
        };
        assert_eq!(
            (first.iops, first.mib_per_second, first.deadline_misses, first.at_seconds),
            (8.0, 8.0, 2, 1.0)
        );
        assert_eq!((second.iops, second.deadline_misses, second.in_flight), (20.0, 20, 5));
        assert!(monitor.samples("unknown").is_empty());
        assert_eq!(
            (monitor.drive_last_second().utilization, monitor.drive_last_second().outstanding),
            (1.0, 2.0)
        );
    }

    #[test]
    fn totals_run_from_the_first_snapshot_to_the_latest() {
        let mut monitor = Monitor::new(snapshot(1_000, 0, 0), &["rec".to_string()]);
        monitor.take(snapshot(3_000, 20, 500));
        let totals = monitor.totals("rec");
        assert_eq!((totals.requests, totals.iops, totals.mib_per_second), (20, 10.0, 10.0));
        assert_eq!(
            (totals.deadline_requests, totals.deadline_misses, totals.unanswered),
            (20, 10, 5)
        );
        assert!(
            (totals.disk_time_share - 0.25).abs() < 1e-12
                && (monitor.drive().utilization - 0.25).abs() < 1e-12
        );
        assert!(
            (9.9..10.2).contains(&totals.response_ms.p50)
                && (19.9..20.3).contains(&totals.response_ms.max),
            "{:?}",
            totals.response_ms
        );
        let cdf = monitor.response_cdf("rec");
        assert!(cdf.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{cdf:?}");
        assert_eq!(cdf.last().map(|point| point.1), Some(1.0));
    }
}
