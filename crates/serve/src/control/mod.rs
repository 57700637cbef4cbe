//! The control channel of a server: queries and commands from the same machine, over a unix socket
//! that only its owner may use.
//!
//! A client writes requests, one JSON object per line, and reads one answer per line, in the same
//! order:
//!
//! ```text
//! → {"v":1,"id":7,"verb":"scan.status","arguments":{}}
//! ← {"v":1,"id":7,"ok":{"scans":[…],"impact":0.004,"max_impact":0.01}}
//! → {"v":1,"id":8,"verb":"scan.pause","arguments":{"target":"vol0","task":"scrub"}}
//! ← {"v":1,"id":8,"error":{"kind":"asked","message":"there is no scrub of vol0; start one first"}}
//! ```
//! `v` is the version of the channel. New verbs, and new fields of arguments and answers, do not
//! change it. A verb rejects unknown fields, so that no command is carried out in part. An error
//! has one of three kinds: `asked` (the request is invalid), `failed` (a valid request failed),
//! `unknown` (no such verb or version).
//!
//! [`VERBS`] lists the verbs. A line has at most [`MAX_LINE`] bytes, and at most
//! [`MAX_CONNECTIONS`] connections are open. A connection that sends nothing, or reads no answer,
//! for 30 s is closed.

mod beside_verbs;
mod client;
mod explain_verb;
mod handler;
mod log;
mod scan_verbs;
mod server_verbs;
mod socket;
mod top_verb;
mod verbs;
mod volume_verbs;

pub use beside_verbs::ResumeBeside;
pub use client::{ControlClient, ControlError};
pub use explain_verb::{ExplainAnswer, ExplainArguments, ExplainedRequest};
pub(crate) use handler::{ControlHandler, ServerParts};
pub use scan_verbs::{ScanAnswer, ScanArguments};
pub use server_verbs::{GetTunables, LoadMap, SaveMap, TunablesAnswer};
pub(crate) use socket::{Answering, answer_clients, default_path};
pub(crate) use top_verb::disk_time;
pub use top_verb::{TopExport, TopSample};
pub use verbs::{ControlVerb, VERBS};
pub(crate) use volume_verbs::percent;
pub use volume_verbs::{
    CancelRelocation, ClassStatus, ExtentStatus, RelocateArguments, VolumeAnswer, VolumeArguments,
    VolumeStatus,
};

use serde::{Deserialize, Serialize};

use crate::beside::BesideError;
use crate::maps::MapOrderError;
use crate::reload::ReloadError;
use crate::scans::ScanError;
use crate::tls::TlsError;
use crate::tuner::TuneError;
use crate::volumes::OrderError;

/// The version of the channel.
pub const VERSION: u32 = 1;
/// The longest line in either direction, in bytes.
pub const MAX_LINE: usize = 1 << 20;
/// The maximum number of connections; the next one gets an error and is closed.
pub const MAX_CONNECTIONS: usize = 16;

/// A line to the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// [`VERSION`].
    pub v: u32,
    /// Repeated in the answer.
    pub id: u64,
    /// The name of the verb.
    pub verb: String,
    /// The arguments of the verb.
    #[serde(default)]
    pub arguments: serde_json::Value,
}

/// A line from the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlResponse {
    /// [`VERSION`].
    pub v: u32,
    /// The id of the request; 0 for a line that cannot be parsed.
    pub id: u64,
    /// The answer of the verb.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ok: Option<serde_json::Value>,
    /// The error, in place of an answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorReply>,
}

/// An error in place of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorReply {
    /// The kind of error.
    pub kind: ErrorReplyKind,
    /// The error and its remedy, for people.
    pub message: String,
}

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorReplyKind {
    /// The request is invalid.
    #[serde(rename = "asked")]
    BadRequest,
    /// The request is valid, but it failed.
    Failed,
    /// The server does not know the verb or the version.
    Unknown,
}

impl ControlRequest {
    /// Parses a line without its line feed.
    ///
    /// # Errors
    /// [`ErrorReplyKind::BadRequest`] with the reason.
    pub fn read(line: &[u8]) -> Result<Self, ErrorReply> {
        serde_json::from_slice(line)
            .map_err(|error| bad_request(format!("the line is no request: {error}")))
    }
}

impl ControlResponse {
    pub(crate) fn of(id: u64, outcome: Result<serde_json::Value, ErrorReply>) -> Self {
        let (ok, error) = match outcome {
            Ok(ok) => (Some(ok), None),
            Err(error) => (None, Some(error)),
        };
        Self { v: VERSION, id, ok, error }
    }
}

impl ErrorReply {
    pub(crate) fn new(kind: ErrorReplyKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    fn of(error: &impl std::error::Error, is_bad_request: bool) -> Self {
        let kind = if is_bad_request { ErrorReplyKind::BadRequest } else { ErrorReplyKind::Failed };
        Self::new(kind, error.to_string())
    }
}

fn bad_request(message: impl Into<String>) -> ErrorReply {
    ErrorReply::new(ErrorReplyKind::BadRequest, message)
}

impl From<ScanError> for ErrorReply {
    fn from(error: ScanError) -> Self {
        use ScanError::{Broken, Drive, OutputFile, Thread};
        let failed = matches!(error, Broken { .. } | OutputFile { .. } | Drive(_) | Thread(_));
        Self::of(&error, !failed)
    }
}

impl From<TuneError> for ErrorReply {
    fn from(error: TuneError) -> Self {
        Self::of(&error, !matches!(error, TuneError::Failed(_)))
    }
}

impl From<MapOrderError> for ErrorReply {
    fn from(error: MapOrderError) -> Self {
        Self::of(&error, error.is_bad_request())
    }
}

impl From<BesideError> for ErrorReply {
    fn from(error: BesideError) -> Self {
        Self::of(&error, error.is_bad_request())
    }
}

impl From<OrderError> for ErrorReply {
    fn from(error: OrderError) -> Self {
        Self::of(&error, error.is_bad_request())
    }
}

impl From<ReloadError> for ErrorReply {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Tls(error) => error.into(),
            ReloadError::Config(_) => Self::of(&error, false),
        }
    }
}

impl From<TlsError> for ErrorReply {
    fn from(error: TlsError) -> Self {
        Self::of(&error, matches!(error, TlsError::None))
    }
}
