//! Arguments and answers of the verbs for tunables and the latency map.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tuner::TunableStatus;

/// The arguments of `tunables.get`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GetTunables {
    /// The names; all tunables if empty.
    pub names: Vec<String>,
}

/// The answer to `tunables.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunablesAnswer {
    /// The selected tunables, in the order of the table.
    pub tunables: Vec<TunableStatus>,
}

/// The arguments of `map.save`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SaveMap {
    /// The destination, an absolute path [default: the map's own file].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<PathBuf>,
    /// Replace an existing map of the same drive.
    pub force: bool,
}

/// The arguments of `map.load`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadMap {
    /// The file, an absolute path.
    pub from: PathBuf,
    /// Keep what is known and merge the map into it.
    #[serde(default)]
    pub merge: bool,
}
