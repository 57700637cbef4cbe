//! The verb `explain`: how the time of slow and missed requests was spent.

use std::collections::BTreeMap;

use headtime_io::{RealClock, SlowRequest};
use headtime_sched::RequestId;
use headtime_units::Sectors;
use serde::{Deserialize, Serialize};

use super::{ErrorReply, ErrorReplyKind, bad_request};
use crate::volumes::{Extents, Volumes};

/// The arguments of `explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExplainArguments {
    /// An export, or the number of a request from an earlier answer [default: all exports].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The maximum number of requests, the latest ones [default: all that are kept].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

/// The answer to `explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainAnswer {
    /// The requests, the latest last.
    pub requests: Vec<ExplainedRequest>,
}

/// A request that was slow, failed or missed its deadline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedRequest {
    /// The number of the request; for a piece of a long request, the number of the piece.
    pub request: u64,
    /// The export; empty for the server's own requests and for removed volumes.
    pub export: String,
    /// The operation.
    pub op: String,
    /// The offset from the start of the volume.
    pub offset_bytes: u64,
    /// The length.
    pub length_bytes: u64,
    /// The time since its submission to the scheduler.
    pub ago_seconds: f64,
    /// The time from its submission to the drive's completion.
    pub response_ms: f64,
    /// The time from its submission to its deadline.
    pub deadline_ms: Option<f64>,
    /// It completed after its deadline.
    pub missed: bool,
    /// It failed.
    pub failed: bool,
    /// The components of the response time; they add up to it.
    pub parts_ms: BTreeMap<String, f64>,
}

impl ExplainedRequest {
    /// A request of an export with this name and these sectors.
    pub(crate) fn of(request: &SlowRequest, export: Option<(&str, &Extents)>, sector: u32) -> Self {
        let sector = u64::from(sector);
        let lba = request.extent.start;
        // A volume that has shrunk no longer has the sectors.
        let offset = export.map_or(lba.get(), |(_, extents)| {
            let since_start = lba.get().saturating_sub(extents.start().get());
            extents.offset_of(lba).map_or(since_start, Sectors::get)
        });
        let parts = request.went.named().into_iter().filter(|(_, part)| !part.is_zero());
        Self {
            request: request.id.0,
            export: export.map_or_else(String::new, |(name, _)| name.to_owned()),
            op: request.op.name().to_owned(),
            offset_bytes: offset * sector,
            length_bytes: request.extent.len.get() * sector,
            ago_seconds: RealClock.now().saturating_since(request.submitted).as_secs_f64(),
            response_ms: request.response.as_ms_f64(),
            deadline_ms: request.deadline.map(|deadline| deadline.as_ms_f64()),
            missed: request.missed,
            failed: request.failed,
            parts_ms: parts.map(|(name, part)| (name.to_owned(), part.as_ms_f64())).collect(),
        }
    }
}

pub(super) fn explain(
    volumes: &Volumes,
    arguments: &ExplainArguments,
) -> Result<ExplainAnswer, ErrorReply> {
    let slow = volumes
        .slow_requests()
        .map_err(|error| ErrorReply::new(ErrorReplyKind::Failed, error.to_string()))?;
    let number: Option<RequestId> =
        arguments.target.as_deref().and_then(|target| target.parse().ok()).map(RequestId);
    let exports = volumes.export_names();
    if let Some(target) = arguments
        .target
        .as_ref()
        .filter(|target| number.is_none() && !exports.iter().any(|(_, _, name)| name == *target))
    {
        let known: Vec<&str> = exports.iter().map(|(_, _, name)| name.as_str()).collect();
        return Err(bad_request(format!(
            "there is no export {target}; the exports are {}",
            known.join(", ")
        )));
    }
    let explained = |request: &SlowRequest| {
        let export = exports.iter().find(|(volume, class, _)| {
            volume.id == request.volume && class.number() == request.class.0
        });
        let export = export.map(|(volume, _, name)| (name.as_str(), &volume.extents));
        ExplainedRequest::of(request, export, volumes.sector_bytes())
    };
    let selected = |request: &&SlowRequest| number.is_none_or(|number| request.id == number);
    let mut requests: Vec<ExplainedRequest> = slow.iter().filter(selected).map(explained).collect();
    if let Some(target) = arguments.target.as_ref().filter(|_| number.is_none()) {
        requests.retain(|request| request.export == *target);
    }
    if requests.is_empty() && number.is_some() {
        return Err(bad_request(
            "the server keeps no slow or missed request of this number; leave the number out to \
                see those it keeps",
        ));
    }
    requests.drain(..requests.len().saturating_sub(arguments.last.unwrap_or(usize::MAX)));
    Ok(ExplainAnswer { requests })
}
