//! [`Tuner`]: what may be changed of a server while it serves, by `headtime get` and `set`.
//!
//! Whose word counts, the first that says anything: what was *set* since the server started, the
//! *configuration* (file or flags), what was set earlier and is *remembered*, the *default*. So a
//! setting survives a restart as long as the configuration leaves it open, as with the settings of
//! volumes; where it does not, `set` says so.
//!
//! A `set` is one step: every name and value is looked at before anything is changed, what is to be
//! remembered is on the disk before the drive is told, and the drive takes all of it between two
//! requests. Two at once go one after the other.

mod stored;
pub(crate) mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use headtime_io::DriveHandle;
use serde::{Deserialize, Serialize};

pub(crate) use values::OUTSTANDING_MAX;
pub use values::{Changeable, Values, changeables};

use stored::{Lines, StoredValues};

/// Changes what may be changed of a server.
pub struct Tuner {
    drive: DriveHandle,
    kept: Option<StoredValues>,
    /// What the configuration says.
    configured: Configured,
    now: Mutex<Now>,
}

/// What a configuration says of what may be changed later.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// The values, those it leaves open at their default.
    pub values: Values,
    /// What it says.
    pub names: BTreeSet<&'static str>,
}

#[derive(Clone)]
struct Now {
    values: Values,
    /// What was set, now or before, and counts.
    set: BTreeMap<&'static str, String>,
    /// What is remembered; what was set until the server ends is not.
    remembered: BTreeMap<&'static str, String>,
}

/// Something that may be changed, as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunableStatus {
    /// Its name.
    pub name: String,
    /// Its value, as a text that can be set.
    pub value: String,
    /// Who says so: `default`, `configuration` or `set`.
    pub source: String,
    /// What it is when nobody says otherwise.
    pub default: String,
    /// What it takes.
    pub takes: String,
    /// What it does.
    pub summary: String,
}

/// What is to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SetTunables {
    /// Names and values.
    pub set: Vec<SetOne>,
    /// Names that go back to what the configuration or the default says.
    pub reset: Vec<String>,
    /// Whether nothing is changed, but looked at.
    pub dry_run: bool,
    /// Whether it holds until the server ends, and is not remembered.
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

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunablesChanged {
    /// What was named, as it is now, or would be.
    pub changed: Vec<TunableChange>,
    /// Whether nothing was changed, but looked at.
    pub dry_run: bool,
    /// What should not go unsaid, such as that the configuration says otherwise.
    pub notes: Vec<String>,
}

/// One that was named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunableChange {
    /// The name.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its value from now on.
    pub value: String,
    /// Whether it holds after a restart.
    pub remembered: bool,
}

/// Why nothing was changed, or told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// What was asked for makes no sense.
    #[error("nothing was changed: {}", .0.join("; "))]
    Asked(Vec<String>),
    /// What was to be told is nothing that there is.
    #[error("{}", .0.join("; "))]
    NoSuch(Vec<String>),
    /// It does, and went wrong.
    #[error("nothing was changed: {0}")]
    Failed(String),
}

impl Tuner {
    /// What the configuration and what is remembered say together, as texts for a drive that is
    /// about to be opened; what is remembered and cannot be used is said.
    pub(crate) fn begin(
        configured: &Configured,
        state: Option<&std::path::Path>,
        drive: [u8; 16],
    ) -> Begun {
        let kept = state.map(|state| StoredValues::new(state, drive));
        let lines = kept.as_ref().map_or_else(|| Ok(Lines::new()), StoredValues::read);
        let lines = lines.unwrap_or_else(|message| {
            tracing::warn!("what was set is not remembered: {message}");
            Lines::new()
        });
        let mut now = Now {
            values: configured.values.clone(),
            set: BTreeMap::new(),
            remembered: BTreeMap::new(),
        };
        for (name, value) in lines {
            let Some(known) = changeables().find(|known| known.name == name) else {
                tracing::warn!(
                    "a remembered setting of `{name}` is left out: there is no such tunable"
                );
                continue;
            };
            if configured.names.contains(known.name) {
                tracing::info!(
                    "{name} was set to `{value}`, and the configuration says `{}`, which counts",
                    now.values.get(known.name).unwrap_or_default()
                );
                continue;
            }
            match now.values.set(known.name, &value) {
                Ok(()) => {
                    now.set.insert(known.name, value.clone());
                    now.remembered.insert(known.name, value);
                }
                Err(message) => tracing::warn!("a remembered setting is left out: {message}"),
            }
        }
        Begun { kept, now }
    }

    /// Tells the drive what was remembered, and takes over.
    pub(crate) fn of(drive: DriveHandle, configured: Configured, begun: Begun) -> Self {
        let Begun { kept, now } = begun;
        let change = now.values.change_from(&configured.values);
        if let Err(refused) = drive.tune(change) {
            tracing::warn!("what was set before is not in force: {refused}");
        }
        Self { drive, kept, configured, now: Mutex::new(now) }
    }

    /// Those of these names, or all, as they are.
    ///
    /// # Errors
    /// [`TuneError::NoSuch`].
    pub fn get(&self, names: &[String]) -> Result<Vec<TunableStatus>, TuneError> {
        let now = self.lock();
        let wrong: Vec<String> =
            names.iter().filter_map(|name| now.values.get(name).err()).collect();
        if !wrong.is_empty() {
            return Err(TuneError::NoSuch(wrong));
        }
        let meant =
            |known: &Changeable| names.is_empty() || names.iter().any(|name| name == known.name);
        Ok(changeables().filter(meant).map(|known| self.status(&now, &known)).collect())
    }

    /// Changes all of what is named, or nothing.
    ///
    /// # Errors
    /// See [`TuneError`].
    pub fn set(&self, wanted: &SetTunables) -> Result<TunablesChanged, TuneError> {
        let mut now = self.lock();
        let mut next = now.clone();
        let named = self.look(wanted, &mut next)?;
        let mut notes = Vec::new();
        let keeps = self.kept.is_some();
        for name in &named {
            if wanted.until_restart {
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
                    "the configuration says {name} = {says}, which counts again \
                    after a restart; change it there too"
                ));
            }
        }
        if !keeps && !wanted.until_restart && !wanted.set.is_empty() {
            notes.push(
                "this server remembers nothing, so this holds until it ends; write it into the \
                    configuration, or name a directory with state"
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
        if !wanted.dry_run {
            self.carry_out(&now, &next)?;
            *now = next;
        }
        Ok(TunablesChanged { changed, dry_run: wanted.dry_run, notes })
    }

    /// Changes the policy, as `set` does, until the server ends.
    pub(crate) fn set_policy(&self, policy: &headtime_io::PolicyChoice) -> Result<(), TuneError> {
        let set = vec![SetOne { name: "policy".to_owned(), value: policy.to_string() }];
        self.set(&SetTunables { set, until_restart: true, ..SetTunables::default() }).map(drop)
    }

    /// Looks at every name and value, and changes `next`; returns the names, each once.
    fn look(&self, wanted: &SetTunables, next: &mut Now) -> Result<Vec<&'static str>, TuneError> {
        let (mut named, mut wrong) = (Vec::new(), Vec::new());
        let mut name_once = |name: &str, wrong: &mut Vec<String>| {
            let known = changeables().find(|known| known.name == name)?;
            if named.contains(&known.name) {
                wrong.push(format!("{name} is named twice; name it once"));
                return None;
            }
            named.push(known.name);
            Some(known.name)
        };
        for SetOne { name, value } in &wanted.set {
            match next.values.set(name, value) {
                Ok(()) => {
                    if let Some(known) = name_once(name, &mut wrong) {
                        next.set.insert(known, next.values.get(known).unwrap_or_default());
                    }
                }
                Err(message) => wrong.push(message),
            }
        }
        for name in &wanted.reset {
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
            wrong.push("nothing is named; write NAME=VALUE, such as lookahead_k=6".to_owned());
        }
        if wrong.is_empty() { Ok(named) } else { Err(TuneError::Asked(wrong)) }
    }

    /// Remembers first: what is on the disk and not in force is mended by a restart, the other way
    /// round it would be lost in one.
    fn carry_out(&self, now: &Now, next: &Now) -> Result<(), TuneError> {
        let (before, after) = (now.lines(), next.lines());
        let remembers = before != after;
        if let Some(kept) = self.kept.as_ref().filter(|_| remembers) {
            kept.write(&after).map_err(|error| {
                TuneError::Failed(format!(
                    "it cannot be remembered: writing {} failed: {error}; make room, or let it \
                        hold --until-restart",
                    kept.path().display()
                ))
            })?;
        }
        self.drive.tune(next.values.change_from(&now.values)).map_err(|refused| {
            if let Some(Err(error)) =
                self.kept.as_ref().filter(|_| remembers).map(|kept| kept.write(&before))
            {
                tracing::warn!("what was not set is remembered: {error}");
            }
            TuneError::Failed(refused.to_string())
        })
    }

    fn status(&self, now: &Now, known: &Changeable) -> TunableStatus {
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

    /// What a thread that panicked left is one state or the other: it is replaced whole.
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found before the drive is told.
pub(crate) struct Begun {
    kept: Option<StoredValues>,
    now: Now,
}

impl Now {
    /// What is to be remembered.
    fn lines(&self) -> Lines {
        self.remembered.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}
