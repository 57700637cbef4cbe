//! The control channel of a server: questions and orders from the same machine, over a unix socket
//! that only its owner may use.
//!
//! A client writes requests, one JSON object a line, and gets as many answers, one a line, in the
//! same order:
//!
//! ```text
//! → {"v":1,"id":7,"verb":"scan.status","arguments":{}}
//! ← {"v":1,"id":7,"ok":{"scans":[…],"impact":0.004,"max_impact":0.01}}
//! → {"v":1,"id":8,"verb":"scan.pause","arguments":{"target":"vol0","task":"scrub"}}
//! ← {"v":1,"id":8,"error":{"kind":"bad_request","message":"there is no scrub of vol0; start one first"}}
//! ```
//! `v` is the version of the channel, not of a verb: verbs come to it, their arguments and answers
//! gain fields, and neither changes it. Fields that a verb does not know are refused, so that an
//! order is never carried out in part. Kinds of errors: `bad_request` (it makes no sense), `failed` (it
//! does, and went wrong), `unknown` (no such verb or version).
//!
//! Verbs stand in [`VERBS`]. A line is at most [`MAX_LINE`] bytes, connections are at most
//! [`MAX_CONNECTIONS`]; one that says nothing, or takes no answer, for 30 s is closed, because
//! there are few places.

mod client;
mod explain_verb;
mod handler;
mod server_verbs;
mod socket;
mod top_verb;
mod verbs;
mod volume_verbs;

pub use client::{ControlClient, ControlError};
pub use explain_verb::{ExplainAnswer, ExplainArguments, ExplainedRequest};
pub(crate) use handler::{ControlHandler, ServerParts};
pub use server_verbs::{GetTunables, LoadMap, SaveMap, TunablesAnswer};
pub(crate) use socket::{answer_clients, default_path};
pub use top_verb::{TopExport, TopSample};
pub use verbs::{ControlVerb, ScanAnswer, ScanArguments, VERBS};
pub use volume_verbs::{ClassStatus, VolumeAnswer, VolumeArguments, VolumeStatus};

use serde::{Deserialize, Serialize};

/// The version of the channel.
pub const VERSION: u32 = 1;
/// The longest line either side takes.
pub const MAX_LINE: usize = 1 << 20;
/// Clients at once; one more is told so and closed.
pub const MAX_CONNECTIONS: usize = 16;

/// A line to the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlRequest {
    /// [`VERSION`].
    pub v: u32,
    /// Comes back with the answer.
    pub id: u64,
    /// What is to be done.
    pub verb: String,
    /// With what.
    #[serde(default)]
    pub arguments: serde_json::Value,
}

/// A line from the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlResponse {
    /// [`VERSION`].
    pub v: u32,
    /// The request's; 0 for a line that could not be read.
    pub id: u64,
    /// What the verb answers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ok: Option<serde_json::Value>,
    /// Or why it does not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorReply>,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorReply {
    /// Whose fault it is.
    pub kind: ErrorReplyKind,
    /// For people: what, and what to do.
    pub message: String,
}

/// Whose fault it is that something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorReplyKind {
    /// What was bad_request makes no sense.
    #[serde(rename = "bad_request")]
    BadRequest,
    /// It makes sense and went wrong.
    Failed,
    /// The server does not know the verb, or the version.
    Unknown,
}

impl ControlRequest {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// [`ErrorReplyKind::BadRequest`], with what is wrong.
    pub fn read(line: &[u8]) -> Result<Self, ErrorReply> {
        serde_json::from_slice(line).map_err(|error| {
            ErrorReply::new(ErrorReplyKind::BadRequest, format!("the line is no request: {error}"))
        })
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
}
