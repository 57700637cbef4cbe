//! [`ServerStatus`]: the state of a running server, for people and programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use headtime_io::{DriveHandle, DriveSnapshot, LinkState};
use headtime_sched::PolicySwitch;
use headtime_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::beside::BesideStatus;
use crate::control::{ExtentStatus, disk_time, percent};
use crate::export::{Export, Exports};
use crate::maps::{MapFigures, MapFileStatus, MapKeeper};
use crate::recent_use::RecentUse;
use crate::scans::{ScanStatus, Scans};
use crate::stats::{OpStats, Stats, StatsSnapshot, VolumeStats};
use crate::tuner::{TunableStatus, Tuner};
use crate::volumes::RelocationStatus;
use crate::without_effect;

/// The state of a running server. Counts run since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The program's version.
    pub version: String,
    /// The time since the server started.
    pub uptime_seconds: f64,
    /// The drive.
    pub drive: DriveStatus,
    /// The drive model.
    pub model: ModelStatus,
    /// The tunables with their values, the policy first.
    pub tunables: Vec<TunableStatus>,
    /// The exports, by name.
    pub volumes: Vec<ExportStatus>,
    /// The number of clients.
    pub connections: usize,
    /// The bytes in use of the memory that connections share.
    pub shared_memory_bytes: u64,
    /// Scans, by target and task.
    pub scans: Vec<ScanStatus>,
    /// The last relocation of sectors of a volume since the server started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relocation: Option<RelocationStatus>,
    /// The characterization beside clients, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characterization: Option<BesideStatus>,
    /// The measured growth of the mean response time of clients by scans, as a share.
    pub impact: f64,
    /// The largest such growth that is allowed.
    pub max_impact: f64,
    /// Settings that have no effect, settings of the kernel that hinder the drive, and a drive that
    /// seems to be shingled.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A switch of the policy `auto`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchStatus {
    /// The time since the switch.
    pub ago_seconds: f64,
    /// The policy before.
    pub from: String,
    /// The policy from then on.
    pub to: String,
    /// The reason, as text.
    pub cause: String,
}

impl SwitchStatus {
    fn of(switch: &PolicySwitch, now: &DriveSnapshot) -> Self {
        Self {
            ago_seconds: now.taken.saturating_since(switch.at).as_secs_f64(),
            from: switch.from.to_owned(),
            to: switch.to.to_owned(),
            cause: switch.cause.to_string(),
        }
    }
}

/// The state of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveStatus {
    /// Its locator.
    pub locator: String,
    /// Its product name, if known.
    pub model: String,
    /// The backend.
    pub backend: String,
    /// Its size.
    pub capacity_sectors: u64,
    /// Its logical sector size.
    pub sector_bytes: u32,
    /// The active policy, without parameters.
    pub policy: String,
    /// The policy that decides at the moment: with `auto`, the one that it has chosen.
    #[serde(default)]
    pub active_policy: String,
    /// The last switches of the policy `auto`, the latest last.
    #[serde(default)]
    pub switches: Vec<SwitchStatus>,
    /// Requests in the scheduler's queue.
    pub queued: usize,
    /// Commands at the drive.
    pub outstanding: usize,
    /// Waits of the drive for a request that was expected soon, while others were queued.
    #[serde(default)]
    pub waits: WaitStatus,
    /// Failed requests, by the system's error code.
    pub errors: BTreeMap<i32, u64>,
    /// Cancelled requests.
    pub cancelled: u64,
    /// Commands that the drive has not answered for a long time.
    pub slow_commands: usize,
    /// Of these, the commands that were given up.
    pub given_up_commands: usize,
    /// A drive over NBD: `connected`, or the reason why it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link: Option<String>,
}

/// The waits for requests that were expected soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitStatus {
    /// Waits that began.
    pub begun: u64,
    /// Waits during which the expected request came.
    pub came: u64,
    /// The time that the drive was idle because of them.
    pub seconds: f64,
}

/// The state of a drive model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    /// The kind of model: `profile`, `distance`, `matrix` or `compact`.
    pub by: String,
    /// The number of completions that it learned from.
    pub samples: u64,
    /// The time of a revolution, if known.
    pub period_us: Option<f64>,
    /// The root mean square of recent prediction errors without whole revolutions.
    pub error_rms_us: Option<f64>,
    /// The share of recent predictions that were wrong by about a revolution.
    pub missed_revolutions: Option<f64>,
    /// Completions from the drive's cache.
    pub cache_hits: u64,
    /// Completions out of the order of dispatch.
    pub reordered: u64,
    /// Predictions are no better than chance, so the model orders by distance.
    pub mistrusted: bool,
    /// The contents of the latency map, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub map: Option<MapFigures>,
    /// The state of the map's file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept: Option<MapFileStatus>,
}

/// The state of one export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportStatus {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// The extents of its volume on the drive, in the order of the volume.
    #[serde(default)]
    pub extents: Vec<ExtentStatus>,
    /// The time from arrival to deadline of each read and write.
    pub deadline_ms: Option<f64>,
    /// Its I/O priority, which may give its requests deadlines.
    pub priority: Option<String>,
    /// The reserved share of the drive's time.
    #[serde(default)]
    pub reserve_percent: f64,
    /// The limit on its share of the drive's time.
    #[serde(default)]
    pub limit_percent: Option<f64>,
    /// The number of clients that have it open.
    pub connections: u64,
    /// The number of unanswered requests.
    pub in_flight: u64,
    /// Reads.
    pub reads: OpStatus,
    /// Writes.
    pub writes: OpStatus,
    /// All other requests.
    pub others: OpStatus,
    /// Reads and writes with a deadline, their own or by priority.
    pub deadline_requests: u64,
    /// Those that were late or failed.
    pub deadline_misses: u64,
    /// The disk time charged to it.
    pub disk_time_ms: f64,
    /// The share of the drive's time that it has had over the last minute.
    #[serde(default)]
    pub recent_percent: Option<f64>,
}

/// The statistics of one kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpStatus {
    /// Successful requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Failed requests.
    pub errors: u64,
    /// The mean response time of successful requests, if there are any.
    pub response_ms_mean: Option<f64>,
    /// The median.
    pub response_ms_p50: Option<f64>,
    /// The 99th percentile.
    pub response_ms_p99: Option<f64>,
}

/// The sources of a status.
pub(crate) struct StatusSource {
    pub(crate) locator: String,
    pub(crate) drive: DriveHandle,
    pub(crate) stats: Arc<Stats>,
    pub(crate) scans: Arc<Scans>,
    pub(crate) tuner: Arc<Tuner>,
    pub(crate) maps: Arc<MapKeeper>,
    pub(crate) exports: Arc<Exports>,
    pub(crate) recent: Arc<RecentUse>,
}

impl StatusSource {
    pub(crate) fn status(&self) -> ServerStatus {
        self.status_at(&self.stats.snapshot())
    }

    /// The status at the moment of a snapshot.
    pub(crate) fn status_at(&self, stats: &StatsSnapshot) -> ServerStatus {
        let drive = &stats.drive;
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: stats.uptime.as_secs_f64(),
            model: self.model(drive),
            tunables: self.tuner.get(&[]).unwrap_or_default(),
            volumes: stats.volumes.iter().map(|volume| self.volume(volume, stats)).collect(),
            connections: stats.connections,
            shared_memory_bytes: stats.shared_memory.get(),
            relocation: stats.relocation.clone(),
            impact: drive.fill.impact(),
            max_impact: self.scans.max_impact(),
            warnings: [
                self.settings_without_effect(),
                self.drive.hindrances(),
                drive.shingling_warnings(),
            ]
            .concat(),
            drive: self.drive(drive),
            scans: stats.scans.clone(),
            characterization: stats.characterization.clone(),
        }
    }

    /// The settings that have no effect.
    pub(crate) fn settings_without_effect(&self) -> Vec<String> {
        let tunables = self.tuner.get(&[]).unwrap_or_default();
        without_effect::warnings(&self.tuner.policy(), &tunables, &self.exports.all())
    }

    fn drive(&self, now: &DriveSnapshot) -> DriveStatus {
        let link = now.link.as_ref().map(|link| match &link.state {
            LinkState::Connected => "connected".to_owned(),
            LinkState::Away { cause, .. } => format!("away: {cause}"),
        });
        DriveStatus {
            locator: self.locator.clone(),
            model: self.drive.model().drive.model.clone(),
            backend: now.backend.clone(),
            capacity_sectors: self.drive.capacity().get(),
            sector_bytes: self.drive.sector_size().bytes(),
            policy: now.policy.to_owned(),
            active_policy: now.active_policy.to_owned(),
            switches: now.switches.iter().map(|switch| SwitchStatus::of(switch, now)).collect(),
            queued: now.queued,
            outstanding: now.outstanding,
            waits: WaitStatus {
                begun: now.waits.begun,
                came: now.waits.came,
                seconds: now.waits.time.as_secs_f64(),
            },
            errors: now.errors.by_errno.clone(),
            cancelled: now.errors.cancelled,
            slow_commands: now.hung.slow,
            given_up_commands: now.hung.given_up,
            link,
        }
    }

    fn model(&self, now: &DriveSnapshot) -> ModelStatus {
        let report = now.belief;
        ModelStatus {
            by: now.drive_model.to_owned(),
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

    fn volume(&self, volume: &VolumeStats, now: &StatsSnapshot) -> ExportStatus {
        let export = self.exports.all().into_iter().find(|export| export.name == volume.name);
        let export = export.as_deref();
        let settings = export.and_then(|export| export.volume.settings().of_class(export.class));
        let used = disk_time(volume.id, &volume.name, &now.drive);
        let recent = self.recent.share(&volume.name, used, now.drive.taken);
        let extents = |export: &Export| ExtentStatus::all_of(&export.volume.extents());
        ExportStatus {
            id: volume.id.0,
            name: volume.name.clone(),
            size_bytes: volume.size.get(),
            extents: export.map(extents).unwrap_or_default(),
            deadline_ms: volume.deadline.map(Nanos::as_ms_f64),
            priority: settings
                .and_then(|settings| settings.priority)
                .map(|priority| priority.to_string()),
            reserve_percent: settings.map_or(0.0, |settings| percent(settings.reserve)),
            limit_percent: settings.and_then(|settings| settings.limit).map(percent),
            connections: volume.connections,
            in_flight: volume.in_flight,
            reads: OpStatus::of(&volume.reads),
            writes: OpStatus::of(&volume.writes),
            others: OpStatus::of(&volume.others),
            deadline_requests: volume.deadline_requests,
            deadline_misses: volume.deadline_misses,
            disk_time_ms: used.as_ms_f64(),
            recent_percent: recent.map(|share| share * 100.0),
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
