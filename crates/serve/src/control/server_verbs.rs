//! The verbs of a server beside those of its scans: its state, what may be changed of it, its
//! latency map.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::verbs::bad_request;
use super::{ControlHandler, ErrorReply, ErrorReplyKind};
use crate::maps::MapOrderError;
use crate::tls::TlsError;
use crate::tuner::{SetTunables, TunableStatus, TuneError};

/// What `tunables.get` is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GetTunables {
    /// The names; all where there are none.
    pub names: Vec<String>,
}

/// What `tunables.get` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunablesAnswer {
    /// Those that were meant, in the order of the table.
    pub tunables: Vec<TunableStatus>,
}

/// What `map.save` is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SaveMap {
    /// Where to, an absolute path; the map's own file where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<PathBuf>,
    /// Whether a map of the same drive that is there is replaced.
    pub force: bool,
}

/// What `map.load` is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadMap {
    /// From where, an absolute path.
    pub from: PathBuf,
    /// Whether what is known stays, and the map is added.
    #[serde(default)]
    pub merge: bool,
}

pub(super) fn status(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    nothing("status", &arguments)?;
    answer(&handler.server()?.status.status())
}

pub(super) fn reload(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    nothing("tls.reload", &arguments)?;
    answer(&handler.server()?.reloader.reload()?)
}

pub(super) fn get(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    let GetTunables { names } = read("tunables.get", arguments)?;
    answer(&TunablesAnswer { tunables: handler.server()?.tuner.get(&names)? })
}

pub(super) fn set(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    let wanted: SetTunables = read("tunables.set", arguments)?;
    answer(&handler.server()?.tuner.set(&wanted)?)
}

pub(super) fn show_map(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    nothing("map.show", &arguments)?;
    answer(&handler.server()?.maps.show().map_err(MapOrderError::from)?)
}

pub(super) fn save_map(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    let SaveMap { to, force } = read("map.save", arguments)?;
    answer(&handler.server()?.maps.save(to.as_deref(), force)?)
}

pub(super) fn load_map(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    let LoadMap { from, merge } = read("map.load", arguments)?;
    answer(&handler.server()?.maps.load(&from, merge)?)
}

/// The arguments of a verb; none at all are those of the default, where that is whole.
pub(super) fn read<T: DeserializeOwned>(
    verb: &str,
    arguments: serde_json::Value,
) -> Result<T, ErrorReply> {
    let arguments = if arguments.is_null() { serde_json::json!({}) } else { arguments };
    serde_json::from_value(arguments)
        .map_err(|error| bad_request(format!("the arguments of {verb}: {error}")))
}

pub(super) fn nothing(verb: &str, arguments: &serde_json::Value) -> Result<(), ErrorReply> {
    let empty = arguments.is_null() || arguments.as_object().is_some_and(serde_json::Map::is_empty);
    if empty {
        Ok(())
    } else {
        Err(bad_request(format!("{verb} takes no arguments; leave them out")))
    }
}

pub(super) fn answer(of: &impl Serialize) -> Result<serde_json::Value, ErrorReply> {
    serde_json::to_value(of)
        .map_err(|error| ErrorReply::new(ErrorReplyKind::Failed, error.to_string()))
}

impl From<TuneError> for ErrorReply {
    fn from(error: TuneError) -> Self {
        let kind = if matches!(error, TuneError::Asked(_) | TuneError::NoSuch(_)) {
            ErrorReplyKind::BadRequest
        } else {
            ErrorReplyKind::Failed
        };
        Self::new(kind, error.to_string())
    }
}

impl From<MapOrderError> for ErrorReply {
    fn from(error: MapOrderError) -> Self {
        let kind = if error.is_bad_request() {
            ErrorReplyKind::BadRequest
        } else {
            ErrorReplyKind::Failed
        };
        Self::new(kind, error.to_string())
    }
}

impl From<TlsError> for ErrorReply {
    fn from(error: TlsError) -> Self {
        let kind = if matches!(error, TlsError::None) {
            ErrorReplyKind::BadRequest
        } else {
            ErrorReplyKind::Failed
        };
        Self::new(kind, error.to_string())
    }
}
