//! [`ServerStatus`]: a running server in one answer, for people and programs: what drive, what is
//! believed of it, what was set, volumes and counters.

use std::collections::BTreeMap;
use std::sync::Arc;

use headtime_io::{DriveHandle, DriveSnapshot, LinkState};
use headtime_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::export::Exports;
use crate::maps::{MapFigures, MapFileStatus, MapKeeper};
use crate::scans::{ScanStatus, Scans};
use crate::stats::{OpStats, Stats, VolumeStats};
use crate::tuner::{TunableStatus, Tuner};

/// A running server at one moment. Counts are since it started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The program's version.
    pub version: String,
    /// Time since the server started.
    pub uptime_seconds: f64,
    /// The drive.
    pub drive: DriveStatus,
    /// What is believed of it.
    pub belief: ModelStatus,
    /// What may be changed, as it is; the policy first.
    pub tunables: Vec<TunableStatus>,
    /// The exports, by name.
    pub volumes: Vec<ExportStatus>,
    /// Clients connected.
    pub connections: usize,
    /// Bytes in use of the memory that connections share.
    pub shared_memory_bytes: u64,
    /// Scans, by target and task.
    pub scans: Vec<ScanStatus>,
    /// By which part the mean response of clients has grown by scans, as measured.
    pub impact: f64,
    /// By which part it may.
    pub max_impact: f64,
}

/// The drive behind a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveStatus {
    /// How it was named.
    pub locator: String,
    /// Its model, as far as it says.
    pub model: String,
    /// What moves the bytes.
    pub backend: String,
    /// Its size.
    pub capacity_sectors: u64,
    /// Its logical sector.
    pub sector_bytes: u32,
    /// The policy at work, without parameters.
    pub policy: String,
    /// Requests held that are not at the drive.
    pub queued: usize,
    /// Commands at the drive.
    pub outstanding: usize,
    /// Requests that failed, by the system's code.
    pub errors: BTreeMap<i32, u64>,
    /// Requests taken back.
    pub cancelled: u64,
    /// Commands that the drive has left without an answer for long, now.
    pub slow_commands: usize,
    /// Of these, those that were given up.
    pub given_up_commands: usize,
    /// Of a drive behind NBD: `connected`, or why it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link: Option<String>,
}

/// What is believed of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    /// By what: `profile`, `distance`, `matrix` or `compact`.
    pub by: String,
    /// Completions learned from.
    pub samples: u64,
    /// The time of a revolution, where one is known.
    pub period_us: Option<f64>,
    /// Root mean square of recent errors of prediction, whole revolutions taken out.
    pub error_rms_us: Option<f64>,
    /// Share of recent predictions that were wrong by about a revolution.
    pub missed_revolutions: Option<f64>,
    /// Completions that the drive's cache answered.
    pub cache_hits: u64,
    /// Completions that came out of the order in which commands were sent.
    pub reordered: u64,
    /// Whether predictions are no better than chance, so that it goes by distance.
    pub mistrusted: bool,
    /// What the latency map knows, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub map: Option<MapFigures>,
    /// How it is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept: Option<MapFileStatus>,
}

/// One export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportStatus {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// The time that each read and write has.
    pub deadline_ms: Option<f64>,
    /// Its I/O priority, which may give its requests deadlines.
    pub priority: Option<String>,
    /// Clients that have it open.
    pub connections: u64,
    /// Requests taken in and not yet answered.
    pub in_flight: u64,
    /// Reads.
    pub reads: OpStatus,
    /// Writes.
    pub writes: OpStatus,
    /// Everything else.
    pub others: OpStatus,
    /// Requests at the drive that had a deadline, of their own or by the table of priorities.
    pub deadline_requests: u64,
    /// Of those, the ones that completed after it.
    pub deadline_misses: u64,
    /// Disk time charged.
    pub disk_time_ms: f64,
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpStatus {
    /// Requests that ended well.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Mean response time of those that ended well; `None` without any.
    pub response_ms_mean: Option<f64>,
    /// Half took no longer.
    pub response_ms_p50: Option<f64>,
    /// 99 of 100 took no longer.
    pub response_ms_p99: Option<f64>,
}

/// What a status is put together from.
pub(crate) struct StatusSource {
    pub(crate) locator: String,
    pub(crate) drive: DriveHandle,
    pub(crate) stats: Arc<Stats>,
    pub(crate) scans: Arc<Scans>,
    pub(crate) tuner: Arc<Tuner>,
    pub(crate) maps: Arc<MapKeeper>,
    pub(crate) exports: Arc<Exports>,
}

impl StatusSource {
    pub(crate) fn status(&self) -> ServerStatus {
        let stats = self.stats.snapshot();
        let drive = &stats.drive;
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: stats.uptime.as_secs_f64(),
            belief: self.belief(drive),
            tunables: self.tuner.get(&[]).unwrap_or_default(),
            volumes: stats.volumes.iter().map(|volume| self.volume(volume, drive)).collect(),
            connections: stats.connections,
            shared_memory_bytes: stats.shared_memory.get(),
            impact: drive.fill.impact(),
            max_impact: self.scans.max_impact(),
            drive: self.drive(drive),
            scans: stats.scans,
        }
    }

    fn drive(&self, now: &DriveSnapshot) -> DriveStatus {
        let link = now.link.as_ref().map(|link| match &link.state {
            LinkState::Connected => "connected".to_owned(),
            LinkState::Away { cause, .. } => format!("away: {cause}"),
        });
        DriveStatus {
            locator: self.locator.clone(),
            model: self.drive.believed().drive.model.clone(),
            backend: now.backend.clone(),
            capacity_sectors: self.drive.capacity().get(),
            sector_bytes: self.drive.sector_size().bytes(),
            policy: now.policy.to_owned(),
            queued: now.queued,
            outstanding: now.outstanding,
            errors: now.errors.by_errno.clone(),
            cancelled: now.errors.cancelled,
            slow_commands: now.hung.slow,
            given_up_commands: now.hung.given_up,
            link,
        }
    }

    fn belief(&self, now: &DriveSnapshot) -> ModelStatus {
        let report = now.belief;
        ModelStatus {
            by: now.believes.to_owned(),
            samples: report.samples,
            period_us: report.period_ns.map(|period| period / 1e3),
            error_rms_us: report.error_rms_us,
            missed_revolutions: report.missed_revolutions,
            cache_hits: report.cache_hits,
            reordered: report.reordered,
            mistrusted: report.mistrusted,
            map: self.maps.show().ok(),
            kept: self.maps.kept(),
        }
    }

    fn volume(&self, volume: &VolumeStats, now: &DriveSnapshot) -> ExportStatus {
        let settings = self.exports.all().into_iter().find(|export| export.name == volume.name);
        let settings = settings.and_then(|export| export.volume.settings().of_class(export.class));
        let account = now
            .accounts
            .iter()
            .find(|(id, _)| *id == volume.id)
            .map(|(_, account)| *account)
            .unwrap_or_default();
        ExportStatus {
            id: volume.id.0,
            name: volume.name.clone(),
            size_bytes: volume.size.get(),
            deadline_ms: volume.deadline.map(Nanos::as_ms_f64),
            priority: settings
                .and_then(|settings| settings.priority)
                .map(|priority| priority.to_string()),
            connections: volume.connections,
            in_flight: volume.in_flight,
            reads: OpStatus::of(&volume.reads),
            writes: OpStatus::of(&volume.writes),
            others: OpStatus::of(&volume.others),
            deadline_requests: account.deadline_requests,
            deadline_misses: account.deadline_misses,
            disk_time_ms: account.disk_time.as_ms_f64(),
        }
    }
}

impl OpStatus {
    fn of(op: &OpStats) -> Self {
        let any = !op.response.is_empty();
        let quantile =
            |quantile: f64| any.then(|| op.response.value_at_quantile(quantile) as f64 / 1e3);
        Self {
            requests: op.requests,
            bytes: op.bytes,
            errors: op.errors,
            response_ms_mean: any.then(|| op.response.mean() / 1e3),
            response_ms_p50: quantile(0.5),
            response_ms_p99: quantile(0.99),
        }
    }
}
