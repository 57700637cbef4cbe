//! [`Tuner`]: the tunables of a running server, for `headtime get` and `set`.
//!
//! The first source with a value wins: `set` since the start, the *configuration* (file or flags),
//! a *stored* earlier `set`, the *default*. A setting thus survives a restart unless the
//! configuration has a value, as for settings of volumes; `set` reports this case.
//!
//! A `set` is atomic: all names and values are checked before anything changes, the values are
//! stored before the drive gets them, and the drive applies all of them between two requests.
//! Concurrent calls are carried out one after the other.

mod stored;
pub(crate) mod values;
use std::collections::{BTreeMap, BTreeSet};

use headtime_io::DriveHandle;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub(crate) use values::OUTSTANDING_MAX;
pub use values::{TunableInfo, Values, auto_table, changeables};

use stored::{Lines, StoredValues};

/// Reads and changes the tunables of a server.
pub struct Tuner {
    drive: DriveHandle,
    stored: Option<StoredValues>,
    /// The values of the configuration.
    configured: Configured,
    now: Mutex<Now>,
}

/// The tunables in a configuration.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// The values; defaults for those that the configuration leaves open.
    pub values: Values,
    /// The names with a value in the configuration.
    pub names: BTreeSet<&'static str>,
}

#[derive(Clone)]
struct Now {
    values: Values,
    /// Values of `set`, now or stored.
    set: BTreeMap<&'static str, String>,
    /// Values to store; those with `until_restart` are not.
    remembered: BTreeMap<&'static str, String>,
}

/// A tunable with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunableStatus {
    /// Its name.
    pub name: String,
    /// Its value, as a text for `set`.
    pub value: String,
    /// The source of the value: `default`, `configuration` or `set`.
    pub source: String,
    /// Its default.
    pub default: String,
    /// The accepted values.
    pub takes: String,
    /// Its effect.
    pub summary: String,
}

/// A request to change tunables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SetTunables {
    /// Names and new values.
    pub set: Vec<SetOne>,
    /// Names to reset to the configuration or the default.
    pub reset: Vec<String>,
    /// Check the request without carrying it out.
    pub dry_run: bool,
    /// The change ends with the server and is not stored.
    pub until_restart: bool,
}

/// One name and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetOne {
    /// The name.
    pub name: String,
    /// The value, as text.
    pub value: String,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunablesChanged {
    /// The named tunables after the change.
    pub changed: Vec<TunableChange>,
    /// The request was checked and not carried out.
    pub dry_run: bool,
    /// Remarks, such as a different value in the configuration.
    pub notes: Vec<String>,
}

/// A changed tunable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunableChange {
    /// The name.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its value after the change.
    pub value: String,
    /// The value survives a restart.
    pub remembered: bool,
}

/// The reason why tunables were not changed or shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// Invalid names or values in a change.
    #[error("nothing was changed: {}", .0.join("; "))]
    Invalid(Vec<String>),
    /// Unknown names in a query.
    #[error("{}", .0.join("; "))]
    NoSuch(Vec<String>),
    /// A valid change failed.
    #[error("nothing was changed: {0}")]
    Failed(String),
}

impl Tuner {
    /// Combines the configuration with the stored values, for a drive that is about to be opened.
    /// Unusable stored values are logged.
    pub(crate) fn begin(
        configured: &Configured,
        state: Option<&std::path::Path>,
        drive: [u8; 16],
    ) -> StartupTunables {
        let stored = state.map(|state| StoredValues::new(state, drive));
        let lines = stored.as_ref().map_or_else(|| Ok(Lines::new()), StoredValues::read);
        let lines = lines.unwrap_or_else(|message| {
            tracing::warn!("stored tunables cannot be used: {message}");
            Lines::new()
        });
        let mut now = Now {
            values: configured.values.clone(),
            set: BTreeMap::new(),
            remembered: BTreeMap::new(),
        };
        for (name, value) in lines {
            let Some(known) = changeables().find(|known| known.name == name) else {
                tracing::warn!("the stored value of `{name}` is ignored: there is no such tunable");
                continue;
            };
            if configured.names.contains(known.name) {
                tracing::info!(
                    "{name}: the stored value `{value}` is ignored, because the configuration has \
                        `{}`",
                    now.values.get(known.name).unwrap_or_default()
                );
                continue;
            }
            match now.values.set(known.name, &value) {
                Ok(()) => {
                    now.set.insert(known.name, value.clone());
                    now.remembered.insert(known.name, value);
                }
                Err(message) => tracing::warn!("a stored value is ignored: {message}"),
            }
        }
        StartupTunables { stored, now }
    }

    /// Applies the stored values to the drive.
    pub(crate) fn of(drive: DriveHandle, configured: Configured, startup: StartupTunables) -> Self {
        let StartupTunables { stored, now } = startup;
        let change = now.values.change_from(&configured.values);
        if let Err(refused) = drive.tune(change) {
            tracing::warn!("stored tunables have no effect: {refused}");
        }
        Self { drive, stored, configured, now: Mutex::new(now) }
    }

    /// The tunables with these names, or all, with their values.
    pub fn get(&self, names: &[String]) -> Result<Vec<TunableStatus>, TuneError> {
        let now = self.now.lock();
        let wrong: Vec<String> =
            names.iter().filter_map(|name| now.values.get(name).err()).collect();
        if !wrong.is_empty() {
            return Err(TuneError::NoSuch(wrong));
        }
        let selected =
            |known: &TunableInfo| names.is_empty() || names.iter().any(|name| name == known.name);
        Ok(changeables().filter(selected).map(|known| self.status(&now, &known)).collect())
    }

    pub(crate) fn policy(&self) -> headtime_io::PolicyChoice {
        self.now.lock().values.policy.clone()
    }

    /// Changes all named tunables, or none.
    pub fn set(&self, requested: &SetTunables) -> Result<TunablesChanged, TuneError> {
        let mut now = self.now.lock();
        let mut next = now.clone();
        let named = self.check_names(requested, &mut next)?;
        let mut notes = Vec::new();
        let keeps = self.stored.is_some();
        for name in &named {
            if requested.until_restart {
                continue;
            }
            let Some(value) = next.set.get(name) else {
                next.remembered.remove(name);
                continue;
            };
            next.remembered.insert(name, value.clone());
            if self.configured.names.contains(name) {
                let says = self.configured.values.get(name).unwrap_or_default();
                notes.push(format!(
                    "the configuration has {name} = {says}, which applies after a restart; change \
                    it there too"
                ));
            }
        }
        if !keeps && !requested.until_restart && !requested.set.is_empty() {
            notes.push(
                "this server stores no tunables, so the change is lost at its end; write it into \
                    the configuration, or set a state directory"
                    .to_owned(),
            );
        }
        let change = |name: &&'static str| TunableChange {
            name: (*name).to_owned(),
            before: now.values.get(name).unwrap_or_default(),
            value: next.values.get(name).unwrap_or_default(),
            remembered: keeps
                && next.remembered.get(name) == next.set.get(name)
                && next.set.contains_key(name)
                && !self.configured.names.contains(name),
        };
        let changed = named.iter().map(change).collect();
        if !requested.dry_run {
            self.carry_out(&now, &next)?;
            *now = next;
        }
        Ok(TunablesChanged { changed, dry_run: requested.dry_run, notes })
    }

    /// Checks every name and value and applies them to `next`; returns the names, each once.
    fn check_names(
        &self,
        requested: &SetTunables,
        next: &mut Now,
    ) -> Result<Vec<&'static str>, TuneError> {
        let (mut named, mut wrong) = (Vec::new(), Vec::new());
        let mut name_once = |name: &str, wrong: &mut Vec<String>| {
            let known = changeables().find(|known| known.name == name)?;
            if named.contains(&known.name) {
                wrong.push(format!("{name} is given twice; give it once"));
                return None;
            }
            named.push(known.name);
            Some(known.name)
        };
        for SetOne { name, value } in &requested.set {
            match next.values.set(name, value) {
                Ok(()) => {
                    if let Some(known) = name_once(name, &mut wrong) {
                        next.set.insert(known, next.values.get(known).unwrap_or_default());
                    }
                }
                Err(message) => wrong.push(message),
            }
        }
        for name in &requested.reset {
            match self.configured.values.get(name) {
                Ok(value) => {
                    if let Some(known) = name_once(name, &mut wrong) {
                        next.values.set(known, &value).map_err(TuneError::Failed)?;
                        next.set.remove(known);
                    }
                }
                Err(message) => wrong.push(message),
            }
        }
        if named.is_empty() && wrong.is_empty() {
            wrong.push("no tunable is given; write NAME=VALUE, such as lookahead_k=6".to_owned());
        }
        if wrong.is_empty() { Ok(named) } else { Err(TuneError::Invalid(wrong)) }
    }

    /// Stores the values first: after a failure a restart applies stored values, whereas values
    /// that were not stored would be lost.
    fn carry_out(&self, now: &Now, next: &Now) -> Result<(), TuneError> {
        let (before, after) = (now.lines(), next.lines());
        let remembers = before != after;
        if let Some(stored) = self.stored.as_ref().filter(|_| remembers) {
            stored.write(&after).map_err(|error| {
                TuneError::Failed(format!(
                    "the values cannot be stored: writing {} failed: {error}; free space, or use \
                        `headtime set --until-restart`",
                    stored.path().display()
                ))
            })?;
        }
        self.drive.tune(next.values.change_from(&now.values)).map_err(|refused| {
            if let Some(Err(error)) =
                self.stored.as_ref().filter(|_| remembers).map(|stored| stored.write(&before))
            {
                tracing::warn!("the stored tunables include values that were not set: {error}");
            }
            TuneError::Failed(refused.to_string())
        })
    }

    fn status(&self, now: &Now, known: &TunableInfo) -> TunableStatus {
        let source = match known.name {
            name if now.set.contains_key(name) => "set",
            name if self.configured.names.contains(name) => "configuration",
            _ => "default",
        };
        TunableStatus {
            name: known.name.to_owned(),
            value: now.values.get(known.name).unwrap_or_default(),
            source: source.to_owned(),
            default: known.default.to_owned(),
            takes: known.takes.to_owned(),
            summary: known.summary.to_owned(),
        }
    }
}

/// The tunables before the drive is open.
pub(crate) struct StartupTunables {
    stored: Option<StoredValues>,
    now: Now,
}

impl Now {
    /// The values to store.
    fn lines(&self) -> Lines {
        self.remembered.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}
