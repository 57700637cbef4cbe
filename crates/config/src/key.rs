//! Tables of keys, and the readers that use them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use toml::de::{DeTable, DeValue};

use crate::{TextErrors, Value, ValueErrors};

/// The default of a key that a table must have.
pub const REQUIRED: &str = "must be given";

/// One key of the configuration of a `T`.
pub struct Key<T> {
    /// The name, in TOML and in flags.
    pub name: &'static str,
    /// The form of the value.
    pub takes: &'static str,
    /// The effect, in one line; empty for an old name, which errors do not list.
    pub summary: &'static str,
    /// The value when the key is left out; [`REQUIRED`] for a key that a table must have.
    pub default: &'static str,
    /// Sets the key from a value.
    pub set: fn(&mut T, &Value<'_>) -> Result<(), ValueErrors>,
}

/// A parsed TOML text.
pub struct Document<'t> {
    text: &'t str,
    root: DeValue<'t>,
}

impl<'t> Document<'t> {
    /// Parses a text.
    ///
    /// # Errors
    /// All places at which the text is not TOML.
    pub fn parse(text: &'t str) -> Result<Self, ValueErrors> {
        let (document, errors) = DeTable::parse_recoverable(text);
        ValueErrors::join(errors.iter().map(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            Err(ValueErrors::new(offset, error.message().replace('\n', ", ")))
        }))?;
        Ok(Self { text, root: DeValue::Table(document.into_inner()) })
    }

    /// The whole document as a value, which is a table.
    #[must_use]
    pub fn root(&self) -> Value<'_> {
        Value::root(self.text, &self.root)
    }
}

/// Reads a TOML text into `target`; `name` is the name of the file in errors. [`REQUIRED`] keys may
/// be absent at the top level, because flags can still set them.
///
/// # Errors
/// All errors of the text, each with line and column.
pub fn read<T>(
    name: &str,
    text: &str,
    target: &mut T,
    tables: &[&[Key<T>]],
) -> Result<(), TextErrors> {
    Document::parse(text)
        .and_then(|document| document.root().set_keys(target, tables))
        .map_err(|errors| errors.in_file(name, text))
}

/// Sets one key from the text of a flag.
///
/// # Errors
/// An unknown key, or a wrong value.
pub fn set<T>(
    tables: &[&[Key<T>]],
    target: &mut T,
    name: &str,
    text: &str,
) -> Result<(), ValueErrors> {
    let key = find(tables, name).ok_or_else(|| ValueErrors::new(0, unknown(tables, name)))?;
    (key.set)(target, &Value::flag(key.name, text))
}

/// Sets one key from `key=value`, or from `key` alone; `thing` is the name in errors of the thing
/// that has the keys.
///
/// # Errors
/// An unknown key, or a wrong value.
pub fn set_pair<T>(
    keys: &[Key<T>],
    thing: &str,
    target: &mut T,
    pair: &str,
) -> Result<(), ValueErrors> {
    let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
    set(&[keys], target, name, text).map_err(|errors| errors.about(thing))
}

impl Value<'_> {
    /// Sets the keys of a table, such as one of `[limits]` or `[[volume]]`; `thing` is its name in
    /// errors.
    ///
    /// # Errors
    /// All unknown keys, wrong values and absent [`REQUIRED`] keys of the table.
    pub fn set_table<T>(
        &self,
        thing: &str,
        target: &mut T,
        keys: &[Key<T>],
    ) -> Result<(), ValueErrors> {
        let absent = |key: &&Key<T>| key.default == REQUIRED && self.get(key.name).is_none();
        let required = keys.iter().filter(absent).map(|key| {
            Err(self.error(format!("{0} is missing; add {0} = … ({1})", key.name, key.takes)))
        });
        ValueErrors::join(core::iter::once(self.set_keys(target, &[keys])).chain(required))
            .map_err(|errors| errors.about(thing))
    }

    fn set_keys<T>(&self, target: &mut T, tables: &[&[Key<T>]]) -> Result<(), ValueErrors> {
        let entries = self.entries()?;
        ValueErrors::join(entries.map(|(name, offset, value)| match find(tables, name) {
            Some(key) => (key.set)(target, &value),
            None => Err(ValueErrors::new(offset, unknown(tables, name))),
        }))
    }
}

fn find<'k, T>(tables: &[&'k [Key<T>]], name: &str) -> Option<&'k Key<T>> {
    tables.iter().flat_map(|keys| keys.iter()).find(|key| key.name == name)
}

fn unknown<T>(tables: &[&[Key<T>]], name: &str) -> String {
    // Tables show their form, such as `[limits]`.
    let form = |key: &Key<T>| match key.takes.split(' ').next() {
        Some(table) if table.starts_with('[') => table,
        _ => key.name,
    };
    let listed = tables.iter().flat_map(|keys| keys.iter()).filter(|key| !key.summary.is_empty());
    let names = listed.map(form);
    unknown_key(name, &names.collect::<Vec<_>>())
}

pub(crate) fn unknown_key(name: &str, known: &[&str]) -> String {
    match known {
        [] => format!("unknown key `{name}`; there are no keys, remove it"),
        known => format!("unknown key `{name}`; known are {}", known.join(", ")),
    }
}
