//! The verb that says where the time of slow and missed requests went.

use std::collections::BTreeMap;

use headtime_io::{RealClock, SlowRequest};
use headtime_sched::RequestId;
use serde::{Deserialize, Serialize};

use super::server_verbs::{answer, read};
use super::verbs::{ControlVerb, bad_request};
use super::{ErrorReply, ErrorReplyKind};
use crate::volumes::Volumes;

pub(super) const EXPLAIN: ControlVerb = ControlVerb::new(
    "explain",
    "says where the time of the last slow and missed requests went",
    |handler, arguments| {
        answer(&explain(&handler.server()?.volumes, &read("explain", arguments)?)?)
    },
);

/// What `explain` is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExplainArguments {
    /// An export, or the number of a request that an earlier answer named; all exports unless
    /// given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// How many at most, the latest; all that are remembered unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

/// What `explain` answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainAnswer {
    /// The requests, the latest last.
    pub requests: Vec<ExplainedRequest>,
}

/// A request that was slow, failed or missed its deadline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExplainedRequest {
    /// Its number, of a piece where a long request was split.
    pub request: u64,
    /// Its export; empty for what the server does for itself, and for volumes that are gone.
    pub export: String,
    /// What it did.
    pub op: String,
    /// Where, in bytes from the start of the volume.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
    /// How long ago it was submitted to the drive's scheduler.
    pub ago_seconds: f64,
    /// From its submission to the drive's report.
    pub response_ms: f64,
    /// How long after its submission it was due.
    pub deadline_ms: Option<f64>,
    /// Whether it completed after that.
    pub missed: bool,
    /// Whether it failed.
    pub failed: bool,
    /// Where its time went; the parts add up to the response.
    pub parts_ms: BTreeMap<String, f64>,
}

fn explain(volumes: &Volumes, arguments: &ExplainArguments) -> Result<ExplainAnswer, ErrorReply> {
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
            "there is no export {target}; there are {}",
            known.join(", ")
        )));
    }
    let explained = |request: &SlowRequest| {
        let export = exports.iter().find(|(volume, class, _)| {
            volume.id == request.volume && class.number() == request.class.0
        });
        let sector = u64::from(volumes.sector_bytes());
        let start = export.map_or(0, |(volume, ..)| volume.extent.start.get());
        let parts = request.went.named().into_iter().filter(|(_, part)| !part.is_zero());
        ExplainedRequest {
            request: request.id.0,
            export: export.map_or_else(String::new, |(_, _, name)| name.clone()),
            op: request.op.name().to_owned(),
            offset_bytes: request.extent.start.get().saturating_sub(start) * sector,
            length_bytes: request.extent.len.get() * sector,
            ago_seconds: RealClock.now().saturating_since(request.submitted).as_secs_f64(),
            response_ms: request.response.as_ms_f64(),
            deadline_ms: request.deadline.map(|deadline| deadline.as_ms_f64()),
            missed: request.missed,
            failed: request.failed,
            parts_ms: parts.map(|(name, part)| (name.to_owned(), part.as_ms_f64())).collect(),
        }
    };
    let meant = |request: &&SlowRequest| number.is_none_or(|number| request.id == number);
    let mut requests: Vec<ExplainedRequest> = slow.iter().filter(meant).map(explained).collect();
    if let Some(target) = arguments.target.as_ref().filter(|_| number.is_none()) {
        requests.retain(|request| request.export == *target);
    }
    if requests.is_empty() && number.is_some() {
        return Err(bad_request(
            "that request is not among the slow and missed ones that are remembered; ask without a \
                number to see which are",
        ));
    }
    requests.drain(..requests.len().saturating_sub(arguments.last.unwrap_or(usize::MAX)));
    Ok(ExplainAnswer { requests })
}
