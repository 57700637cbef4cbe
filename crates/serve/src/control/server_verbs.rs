//! The verbs of a server beside those of its scans: its state, what may be changed of it, its
//! latency map.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::verbs::asked;
use super::{Desk, Refused, RefusedKind};
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
    desk: &Desk,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, Refused> {
    nothing("status", &arguments)?;
    answer(&desk.server()?.status.status())
}

pub(super) fn reload(
    desk: &Desk,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, Refused> {
    nothing("tls.reload", &arguments)?;
    answer(&desk.server()?.reloader.reload()?)
}

pub(super) fn get(desk: &Desk, arguments: serde_json::Value) -> Result<serde_json::Value, Refused> {
    let GetTunables { names } = read("tunables.get", arguments)?;
    answer(&TunablesAnswer { tunables: desk.server()?.tuner.get(&names)? })
}

pub(super) fn set(desk: &Desk, arguments: serde_json::Value) -> Result<serde_json::Value, Refused> {
    let wanted: SetTunables = read("tunables.set", arguments)?;
    answer(&desk.server()?.tuner.set(&wanted)?)
}

pub(super) fn show_map(
    desk: &Desk,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, Refused> {
    nothing("map.show", &arguments)?;
    answer(&desk.server()?.maps.show().map_err(MapOrderError::from)?)
}

pub(super) fn save_map(
    desk: &Desk,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, Refused> {
    let SaveMap { to, force } = read("map.save", arguments)?;
    answer(&desk.server()?.maps.save(to.as_deref(), force)?)
}

pub(super) fn load_map(
    desk: &Desk,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, Refused> {
    let LoadMap { from, merge } = read("map.load", arguments)?;
    answer(&desk.server()?.maps.load(&from, merge)?)
}

/// The arguments of a verb; none at all are those of the default, where that is whole.
pub(super) fn read<T: DeserializeOwned>(
    verb: &str,
    arguments: serde_json::Value,
) -> Result<T, Refused> {
    let arguments = if arguments.is_null() { serde_json::json!({}) } else { arguments };
    serde_json::from_value(arguments)
        .map_err(|error| asked(format!("the arguments of {verb}: {error}")))
}

pub(super) fn nothing(verb: &str, arguments: &serde_json::Value) -> Result<(), Refused> {
    let empty = arguments.is_null() || arguments.as_object().is_some_and(serde_json::Map::is_empty);
    if empty { Ok(()) } else { Err(asked(format!("{verb} takes no arguments; leave them out"))) }
}

pub(super) fn answer(of: &impl Serialize) -> Result<serde_json::Value, Refused> {
    serde_json::to_value(of).map_err(|error| Refused::new(RefusedKind::Failed, error.to_string()))
}

impl From<TuneError> for Refused {
    fn from(error: TuneError) -> Self {
        let kind = if matches!(error, TuneError::Asked(_) | TuneError::NoSuch(_)) {
            RefusedKind::Asked
        } else {
            RefusedKind::Failed
        };
        Self::new(kind, error.to_string())
    }
}

impl From<MapOrderError> for Refused {
    fn from(error: MapOrderError) -> Self {
        let kind = if error.is_asked() { RefusedKind::Asked } else { RefusedKind::Failed };
        Self::new(kind, error.to_string())
    }
}

impl From<TlsError> for Refused {
    fn from(error: TlsError) -> Self {
        let kind =
            if matches!(error, TlsError::None) { RefusedKind::Asked } else { RefusedKind::Failed };
        Self::new(kind, error.to_string())
    }
}
