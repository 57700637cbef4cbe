//! The verbs of volumes, and what they look like on the wire: settings go in as text under the
//! names that a configuration has for them ([`VOLUME_KEYS`](crate::config::VOLUME_KEYS)), and come
//! back as numbers with their units in their names.

use std::collections::BTreeMap;

use headtime_units::{ByteSize, Nanos, Share};
use serde::{Deserialize, Serialize};

use super::verbs::{ControlVerb, bad_request};
use super::{ControlHandler, ErrorReply, ErrorReplyKind};
use crate::config::VolumeConfig;
use crate::volumes::{ClassNow, OrderError, VolumeNow, VolumeOrder, Volumes, VolumesNow};

pub(super) const ADD: ControlVerb = ControlVerb::new(
    "volume.add",
    "makes a volume, or gives one a class, and serves it",
    |handler, arguments| ordered(handler, arguments, |volumes, order| volumes.add(order)),
);
pub(super) const SET: ControlVerb = ControlVerb::new(
    "volume.set",
    "changes settings and size of a volume, or settings of a class",
    |handler, arguments| ordered(handler, arguments, |volumes, order| volumes.set(order)),
);
pub(super) const REMOVE: ControlVerb =
    ControlVerb::new("volume.remove", "takes a volume or a class away", |handler, arguments| {
        ordered(handler, arguments, |volumes, order| volumes.remove(order))
    });
pub(super) const LIST: ControlVerb =
    ControlVerb::new("volume.list", "tells of all volumes on the drive", |handler, arguments| {
        VolumeArguments::read(arguments)?;
        answered(volumes(handler)?.list(), false)
    });
pub(super) const SHOW: ControlVerb =
    ControlVerb::new("volume.show", "tells of one volume", |handler, arguments| {
        ordered(handler, arguments, |volumes, order| volumes.show(&order.name))
    });

/// What the verbs of volumes are told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeArguments {
    /// The volume, or `VOLUME@CLASS`.
    pub name: String,
    /// What is to be set: keys of a configuration's `[[volume]]` and their values as text, `size`
    /// among them.
    pub settings: BTreeMap<String, String>,
    /// Whether a volume that shrinks may lose what its end holds.
    pub cut_data: bool,
    /// Whether it may be taken from clients and scans that use it.
    pub force: bool,
    /// Whether it is only to be found out what would come of it.
    pub dry_run: bool,
}

/// What the verbs of volumes answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeAnswer {
    /// The volumes that were meant, as they are now, or would be.
    pub volumes: Vec<VolumeStatus>,
    /// Bytes that no volume has.
    pub free_bytes: u64,
    /// Of these, the longest run: the largest volume that can be made.
    pub largest_free_bytes: u64,
    /// How much of the drive's time may still be reserved.
    pub free_share_percent: f64,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What else there is to be said.
    pub notes: Vec<String>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its number on the drive.
    pub number: u32,
    /// Its size.
    pub size_bytes: u64,
    /// Where it begins on the drive.
    pub first_sector: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Text for people.
    pub description: String,
    /// Whether it is served whatever volumes a configuration names.
    pub always_served: bool,
    /// Its classes, the ordinary one first.
    pub classes: Vec<ClassStatus>,
    /// Scans that are not over.
    pub scans: Vec<String>,
}

/// One class of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its export.
    pub export: String,
    /// Its I/O priority, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub priority: Option<String>,
    /// The part of the drive's time that is its own.
    pub reserve_percent: f64,
    /// The most of the drive's time that it is given.
    pub limit_percent: Option<f64>,
    /// For how long it may save up what it does not use.
    pub burst_seconds: Option<f64>,
    /// The most requests a second.
    pub iops_limit: Option<u32>,
    /// The most bytes a second.
    pub bandwidth_limit_bytes: Option<u64>,
    /// How long after its arrival each read and write is due.
    pub deadline_seconds: Option<f64>,
    /// Clients that have it open; nothing when it is not served.
    pub connections: Option<u64>,
}

impl VolumeArguments {
    /// Reads the arguments of a request; those that are left out are as in the default.
    ///
    /// # Errors
    /// [`ErrorReplyKind::BadRequest`], with what is wrong.
    pub fn read(arguments: serde_json::Value) -> Result<Self, ErrorReply> {
        if arguments.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(arguments)
            .map_err(|error| bad_request(format!("the arguments of a volume: {error}")))
    }

    /// The order that they give.
    ///
    /// # Errors
    /// [`ErrorReplyKind::BadRequest`], with every setting that is wrong.
    pub fn order(&self) -> Result<VolumeOrder, ErrorReply> {
        if self.name.is_empty() {
            return Err(bad_request("a name is missing; name a volume, or VOLUME@CLASS"));
        }
        let mut config = VolumeConfig::default();
        let set = |(key, text): (&String, &String)| match key.as_str() {
            "name" => {
                Some("a volume keeps its name; add another one and copy what it holds".to_owned())
            }
            key => config.set(key, text).err().map(|error| error.to_string()),
        };
        let mistakes: Vec<String> = self.settings.iter().filter_map(set).collect();
        if !mistakes.is_empty() {
            return Err(bad_request(format!("{}: {}", self.name, mistakes.join("; "))));
        }
        let VolumeConfig { size, settings, .. } = config;
        let Self { cut_data, force, dry_run, .. } = *self;
        Ok(VolumeOrder { name: self.name.clone(), size, settings, cut_data, force, dry_run })
    }
}

fn volumes(handler: &ControlHandler) -> Result<&Volumes, ErrorReply> {
    Ok(&handler.server()?.volumes)
}

fn ordered(
    handler: &ControlHandler,
    arguments: serde_json::Value,
    act: impl FnOnce(&Volumes, &VolumeOrder) -> Result<VolumesNow, OrderError>,
) -> Result<serde_json::Value, ErrorReply> {
    let order = VolumeArguments::read(arguments)?.order()?;
    answered(act(volumes(handler)?, &order), order.dry_run)
}

fn answered(
    outcome: Result<VolumesNow, OrderError>,
    dry_run: bool,
) -> Result<serde_json::Value, ErrorReply> {
    let now = outcome.map_err(|error| {
        ErrorReply::new(
            if error.is_bad_request() {
                ErrorReplyKind::BadRequest
            } else {
                ErrorReplyKind::Failed
            },
            error.to_string(),
        )
    })?;
    let answer = VolumeAnswer {
        volumes: now.volumes.iter().map(VolumeStatus::of).collect(),
        free_bytes: now.free.total.get(),
        largest_free_bytes: now.free.largest.get(),
        free_share_percent: percent(now.free_share),
        dry_run,
        notes: now.notes,
    };
    serde_json::to_value(answer)
        .map_err(|error| ErrorReply::new(ErrorReplyKind::Failed, error.to_string()))
}

impl VolumeStatus {
    fn of(now: &VolumeNow) -> Self {
        let VolumeNow { volume, size, classes, scans } = now;
        Self {
            name: volume.name.clone(),
            number: volume.id.0,
            size_bytes: ByteSize::get(*size),
            first_sector: volume.extent.start.get(),
            read_only: volume.settings.read_only,
            description: volume.settings.description.clone(),
            always_served: volume.settings.always_served,
            classes: classes.iter().map(ClassStatus::of).collect(),
            scans: scans.iter().map(|task| task.name().to_owned()).collect(),
        }
    }
}

impl ClassStatus {
    fn of(now: &ClassNow) -> Self {
        let ClassNow { export, settings, connections } = now;
        Self {
            export: export.clone(),
            priority: settings.priority.map(|priority| priority.to_string()),
            reserve_percent: percent(settings.reserve),
            limit_percent: settings.limit.map(percent),
            burst_seconds: settings.burst.map(Nanos::as_secs_f64),
            iops_limit: settings.iops_limit,
            bandwidth_limit_bytes: settings.bandwidth_limit,
            deadline_seconds: settings.deadline.map(Nanos::as_secs_f64),
            connections: *connections,
        }
    }
}

/// A share in percent, as it was written: 7 % is 7 and not 7.000000000000001.
fn percent(share: Share) -> f64 {
    f64::from(share.as_billionths()) / 1e7
}
