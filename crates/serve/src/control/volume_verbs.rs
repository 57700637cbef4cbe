//! The verbs of volumes. Settings arrive as text under the keys of a configuration
//! ([`VOLUME_KEYS`](crate::config::VOLUME_KEYS)); answers give numbers with units in their names.

use std::collections::BTreeMap;

use headtime_units::{ByteSize, Extent, Nanos, Share, parse_bytes};
use serde::{Deserialize, Serialize};

use super::scan_verbs::impact;
use super::verbs::{Answer, Arguments, parse_arguments, to_json};
use super::{ControlHandler, ErrorReply, bad_request};
use crate::volumes::{
    ClassNow, Extents, OrderError, RelocateOrder, RelocateTo, RelocateToError, RelocationStatus,
    VolumeNow, VolumeOrder, VolumeSpec, Volumes, VolumesNow,
};

/// The arguments of the verbs of volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeArguments {
    /// The volume, or `VOLUME@CLASS`.
    pub name: String,
    /// New settings: keys of a configuration's `[[volume]]`, including `size`, with their values as
    /// text. A size after `+` is added to that of the volume.
    pub settings: BTreeMap<String, String>,
    /// A volume that shrinks may lose the data at its end.
    pub cut_data: bool,
    /// The volume may be taken from clients and scans that use it.
    pub force: bool,
    /// Check the command without carrying it out.
    pub dry_run: bool,
}

/// The arguments of `volume.relocate`. Sizes are text, such as `10GiB`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelocateArguments {
    /// The volume.
    pub name: String,
    /// The first byte of the volume to move; its start if absent.
    pub from: Option<String>,
    /// The number of bytes to move; all up to the end of the volume if absent.
    pub size: Option<String>,
    /// The destination: `start`, `end`, `largest-gap`, or an address in bytes of the drive.
    pub to: String,
    /// The maximum increase of the clients' mean response time by all background work while the
    /// relocation runs, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_impact: Option<f64>,
    /// Scans of the volume end before its sectors change, instead of delaying that.
    pub force: bool,
    /// Check the command without carrying it out.
    pub dry_run: bool,
}

/// The arguments of `volume.relocate_cancel`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRelocation {
    /// The volume.
    pub name: String,
}

impl RelocateArguments {
    /// The command in the arguments.
    ///
    /// # Errors
    /// [`ErrorReplyKind::BadRequest`](super::ErrorReplyKind::BadRequest) with the invalid argument.
    pub fn order(&self) -> Result<RelocateOrder, ErrorReply> {
        let Self { name, from, size, to, force, dry_run, max_impact } = self.clone();
        let bytes = |key: &str, text: Option<String>| {
            let parse = |text: String| {
                parse_bytes(&text).map_err(|error| bad_request(format!("{name}: {key}: {error}")))
            };
            text.map(parse).transpose()
        };
        let (from, size) = (bytes("from", from)?, bytes("size", size)?);
        let to: RelocateTo = to
            .parse()
            .map_err(|error: RelocateToError| bad_request(format!("{name}: to: {error}")))?;
        let max_impact = max_impact.map(impact).transpose()?;
        Ok(RelocateOrder { name, from, size, to, force, max_impact, dry_run })
    }
}

/// The answer to the verbs of volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeAnswer {
    /// The selected volumes after the command.
    pub volumes: Vec<VolumeStatus>,
    /// Unallocated bytes.
    pub free_bytes: u64,
    /// The longest free extent: the size of the largest new volume of one extent.
    pub largest_free_bytes: u64,
    /// The size of the largest new volume.
    #[serde(default)]
    pub largest_volume_bytes: u64,
    /// The unreserved share of the drive's time.
    pub free_share_percent: f64,
    /// The command was checked and not carried out.
    pub dry_run: bool,
    /// Remarks for people.
    pub notes: Vec<String>,
}

/// The state of one volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its number on the drive.
    pub number: u32,
    /// Its size.
    pub size_bytes: u64,
    /// Its first sector on the drive.
    pub first_sector: u64,
    /// Its extents on the drive, in the order of the volume.
    #[serde(default)]
    pub extents: Vec<ExtentStatus>,
    /// Writes are refused.
    pub read_only: bool,
    /// Free text.
    pub description: String,
    /// It is served whichever volumes a configuration names.
    pub always_served: bool,
    /// Its classes, the ordinary one first.
    pub classes: Vec<ClassStatus>,
    /// Unfinished scans.
    pub scans: Vec<String>,
    /// The last relocation since the server started, if it is of this volume.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relocation: Option<RelocationStatus>,
}

/// A run of sectors of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentStatus {
    /// Its first sector on the drive.
    pub first_sector: u64,
    /// The number of its sectors.
    pub sectors: u64,
}

/// The state of one class of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its export.
    pub export: String,
    /// Its I/O priority, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub priority: Option<String>,
    /// The reserved share of the drive's time.
    pub reserve_percent: f64,
    /// The largest share of the drive's time.
    pub limit_percent: Option<f64>,
    /// The longest time for which it saves up unused disk time.
    pub burst_seconds: Option<f64>,
    /// The part of unreserved time beside classes of the same priority; `None` for 1.
    #[serde(default)]
    pub weight: Option<u16>,
    /// The maximum number of requests per second.
    pub iops_limit: Option<u32>,
    /// The maximum number of bytes per second.
    pub bandwidth_limit_bytes: Option<u64>,
    /// The time from the arrival of a read or write to its deadline.
    pub deadline_seconds: Option<f64>,
    /// The number of clients that have it open; `None` if it is not served.
    pub connections: Option<u64>,
}

impl VolumeArguments {
    /// Parses the arguments of a request; missing ones have their defaults.
    pub fn read(arguments: serde_json::Value) -> Result<Self, ErrorReply> {
        parse_arguments("a volume", arguments)
    }

    /// The command in the arguments.
    ///
    /// # Errors
    /// [`ErrorReplyKind::BadRequest`](super::ErrorReplyKind::BadRequest) with every invalid
    /// setting.
    pub fn order(&self) -> Result<VolumeOrder, ErrorReply> {
        if self.name.is_empty() {
            return Err(bad_request("a name is missing; name a volume, or VOLUME@CLASS"));
        }
        let mut config = VolumeSpec::default();
        let added = self.settings.get("size").and_then(|size| size.strip_prefix('+'));
        let set = |(key, text): (&String, &String)| match key.as_str() {
            "name" => {
                Some("a volume keeps its name; add another volume and copy the data".to_owned())
            }
            key => {
                let text = added.filter(|_| key == "size").unwrap_or(text);
                config.set(key, text).err().map(|error| error.to_string())
            }
        };
        let mistakes: Vec<String> = self.settings.iter().filter_map(set).collect();
        if !mistakes.is_empty() {
            return Err(bad_request(format!("{}: {}", self.name, mistakes.join("; "))));
        }
        let VolumeSpec { size, settings, .. } = config;
        let Self { cut_data, force, dry_run, .. } = *self;
        let (size, grow_by) = if added.is_some() { (None, size) } else { (size, None) };
        let name = self.name.clone();
        Ok(VolumeOrder { name, size, grow_by, settings, cut_data, force, dry_run })
    }
}

pub(super) fn list(handler: &ControlHandler, arguments: Arguments) -> Answer {
    arguments.parse::<VolumeArguments>()?;
    volume_answer(handler.server()?.volumes.list()?, false)
}

pub(super) fn change(
    handler: &ControlHandler,
    arguments: Arguments,
    change: fn(&Volumes, &VolumeOrder) -> Result<VolumesNow, OrderError>,
) -> Answer {
    let order = arguments.parse::<VolumeArguments>()?.order()?;
    volume_answer(change(&handler.server()?.volumes, &order)?, order.dry_run)
}

pub(super) fn relocate(handler: &ControlHandler, arguments: Arguments) -> Answer {
    let order = arguments.parse::<RelocateArguments>()?.order()?;
    volume_answer(handler.server()?.volumes.relocate(&order)?, order.dry_run)
}

pub(super) fn cancel(handler: &ControlHandler, arguments: Arguments) -> Answer {
    let CancelRelocation { name } = arguments.parse()?;
    volume_answer(handler.server()?.volumes.cancel_relocation(&name)?, false)
}

fn volume_answer(now: VolumesNow, dry_run: bool) -> Answer {
    to_json(&VolumeAnswer {
        volumes: now.volumes.iter().map(VolumeStatus::of).collect(),
        free_bytes: now.free.total.get(),
        largest_free_bytes: now.free.longest.get(),
        largest_volume_bytes: now.free.largest.get(),
        free_share_percent: percent(now.free_share),
        dry_run,
        notes: now.notes,
    })
}

impl VolumeStatus {
    fn of(now: &VolumeNow) -> Self {
        let VolumeNow { volume, size, classes, scans, relocation } = now;
        Self {
            name: volume.name.clone(),
            number: volume.id.0,
            size_bytes: ByteSize::get(*size),
            first_sector: volume.extents.start().get(),
            extents: ExtentStatus::all_of(&volume.extents),
            read_only: volume.settings.read_only,
            description: volume.settings.description.clone(),
            always_served: volume.settings.always_served,
            classes: classes.iter().map(ClassStatus::of).collect(),
            scans: scans.iter().map(|task| task.name().to_owned()).collect(),
            relocation: relocation.clone(),
        }
    }
}

impl ExtentStatus {
    /// The extents of a volume.
    pub(crate) fn all_of(extents: &Extents) -> Vec<Self> {
        let of =
            |extent: &Extent| Self { first_sector: extent.start.get(), sectors: extent.len.get() };
        extents.as_slice().iter().map(of).collect()
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
            weight: settings.weight,
            iops_limit: settings.iops_limit,
            bandwidth_limit_bytes: settings.bandwidth_limit,
            deadline_seconds: settings.deadline.map(Nanos::as_secs_f64),
            connections: *connections,
        }
    }
}

/// The share in percent without rounding errors: 7 % is 7 and not 7.000000000000001.
pub(crate) fn percent(share: Share) -> f64 {
    f64::from(share.as_billionths()) / 1e7
}
