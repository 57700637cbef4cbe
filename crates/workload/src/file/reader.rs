//! [`Reader`]: values out of a parsed TOML document, each mistake kept with its place so that all
//! are reported together.
//!
//! A value that is wrong is replaced by one that stands in for it; whoever reads goes on, and in
//! the end throws the result away because there were mistakes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::Range as Span;
use core::ops::RangeInclusive;

use headtime_units::{Nanos, parse_bytes, parse_nanos, parse_share};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::errors::{FileErrors, Mistake};
use super::kinds::{FieldHelp, Kind};

/// A value and where it stands.
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// Reads values and keeps mistakes.
#[derive(Default)]
pub(crate) struct Reader {
    /// Each mistake behind the byte where it stands.
    mistakes: Vec<(usize, String)>,
    /// What messages begin with: the stream.
    pub(crate) thing: String,
}

impl Reader {
    /// The document, unless it is no TOML.
    pub(crate) fn parse<'t>(&mut self, text: &'t str) -> Option<DeTable<'t>> {
        let (document, mistakes) = DeTable::parse_recoverable(text);
        for mistake in &mistakes {
            self.mistakes.push((
                mistake.span().map_or(0, |span| span.start),
                mistake.message().replace('\n', ", "),
            ));
        }
        mistakes.is_empty().then(|| document.into_inner())
    }

    /// The mistakes of a file with this text.
    pub(crate) fn in_file(mut self, name: &str, text: &str) -> Result<(), FileErrors> {
        self.mistakes.sort_by_key(|(at, _)| *at);
        let placed = |(at, message): (usize, String)| {
            let before = &text[..at.min(text.len())];
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            Mistake { at: Some((before.matches('\n').count() + 1, column)), message }
        };
        unless_empty(name, self.mistakes.into_iter().map(placed).collect())
    }

    /// The mistakes of a flag, which has one line.
    pub(crate) fn in_flag(self, flag: &str) -> Result<(), FileErrors> {
        unless_empty(
            flag,
            self.mistakes.into_iter().map(|(_, message)| Mistake { at: None, message }).collect(),
        )
    }

    pub(crate) fn mistake(&mut self, at: Span<usize>, message: impl Display) {
        let before =
            if self.thing.is_empty() { String::new() } else { format!("{}: ", self.thing) };
        self.mistakes.push((at.start, format!("{before}{message}")));
    }

    fn wrong(&mut self, key: &str, value: &Value<'_>, expected: &str, example: &str) {
        self.mistake(
            value.span(),
            format_args!(
                "{key} is {}, expected {expected}; write it such as {key} = {example}",
                shown(value)
            ),
        );
    }

    pub(crate) fn text(&mut self, key: &str, value: &Value<'_>, example: &str) -> String {
        if let Some(text) = value.get_ref().as_str() {
            return text.to_string();
        }
        self.wrong(key, value, "text in quotes", example);
        String::new()
    }

    pub(crate) fn truth(&mut self, key: &str, value: &Value<'_>) -> bool {
        if let DeValue::Boolean(truth) = value.get_ref() {
            return *truth;
        }
        self.wrong(key, value, "true or false without quotes", "true");
        false
    }

    /// A whole number within bounds.
    pub(crate) fn whole(
        &mut self,
        key: &str,
        value: &Value<'_>,
        bounds: RangeInclusive<u64>,
    ) -> u64 {
        if let DeValue::Integer(digits) = value.get_ref()
            && let Ok(number) = u64::from_str_radix(digits.as_str(), digits.radix())
            && bounds.contains(&number)
        {
            return number;
        }
        let (least, most) = bounds.into_inner();
        let max_shown = if most == u64::MAX { String::new() } else { format!(" to {most}") };
        self.wrong(
            key,
            value,
            &format!("a whole number from {least}{max_shown} without quotes"),
            &least.to_string(),
        );
        least
    }

    /// A number, bounds to be checked by whoever uses it.
    pub(crate) fn number(&mut self, key: &str, value: &Value<'_>, example: &str) -> f64 {
        if let Some(number) = number_of(value) {
            return number;
        }
        self.wrong(key, value, "a number without quotes", example);
        1.0
    }

    /// A share of one, as `0.7` or `"70%"`.
    pub(crate) fn share(&mut self, key: &str, value: &Value<'_>) -> f64 {
        let share = match value.get_ref() {
            DeValue::String(text) => parse_share(text).ok().map(|share| share.as_fraction()),
            _ => number_of(value).filter(|share| (0.0..=1.0).contains(share)),
        };
        if share.is_none() {
            self.wrong(key, value, "a share from 0 to 1", "0.7 or \"70%\"");
        }
        share.unwrap_or(1.0)
    }

    /// A size in bytes, at least 1.
    pub(crate) fn bytes(&mut self, key: &str, value: &Value<'_>) -> u64 {
        let bytes = match value.get_ref() {
            DeValue::String(text) => parse_bytes(text).map_err(|error| error.to_string()),
            DeValue::Integer(digits) if digits.radix() == 10 => {
                parse_bytes(digits.as_str()).map_err(|error| error.to_string())
            }
            _ => Err(format!("is {}", shown(value))),
        };
        match bytes {
            Ok(bytes) if bytes.get() > 0 => return bytes.get(),
            Ok(_) => self.wrong(key, value, "a size of at least 1 byte", "\"64KiB\""),
            Err(error) => self.mistake(
                value.span(),
                format_args!("{key} {error}; expected a size such as {key} = \"64KiB\""),
            ),
        }
        4_096
    }

    /// A span of time, perhaps none.
    pub(crate) fn time(&mut self, key: &str, value: &Value<'_>) -> Nanos {
        let time = match value.get_ref() {
            DeValue::String(text) => parse_nanos(text).map_err(|error| error.to_string()),
            _ => Err(format!("is {}", shown(value))),
        };
        time.unwrap_or_else(|error| {
            self.mistake(
                value.span(),
                format_args!("{key} {error}; expected a time such as {key} = \"100ms\""),
            );
            Nanos::from_ms(1)
        })
    }

    /// A value of one of several kinds: a table with `kind`, or the kind alone where its other keys
    /// have defaults.
    pub(crate) fn kind<T>(&mut self, key: &str, value: &Value<'_>, kinds: &[Kind<T>]) -> Option<T> {
        let empty = DeTable::default();
        let (table, named) = match value.get_ref() {
            DeValue::String(name) => (&empty, Some((name.as_ref(), value.span()))),
            DeValue::Table(table) => (
                table,
                table.get("kind").and_then(|kind| Some((kind.get_ref().as_str()?, kind.span()))),
            ),
            _ => (&empty, None),
        };
        let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let Some((name, place)) = named else {
            let expected = format!("a table with one of these as kind: {}", known.join(", "));
            self.wrong(key, value, &expected, &format!("{{ kind = \"{}\" }}", known[0]));
            return None;
        };
        let Some(kind) = kinds.iter().find(|kind| kind.name == name) else {
            self.mistake(
                place,
                format_args!(
                    "{key} is of kind `{name}`, expected one of {}; choose one",
                    known.join(", ")
                ),
            );
            return None;
        };
        for unknown in table.keys().filter(|other| {
            other.get_ref() != "kind"
                && kind.keys.iter().all(|key| key.name != other.get_ref().as_ref())
        }) {
            self.mistake(
                unknown.span(),
                unknown_key(&format!("{key} of kind {name}"), unknown.get_ref(), kind.keys),
            );
        }
        let mut fields = Fields { key, kind: kind.name, table, at: value.span(), reader: self };
        Some((kind.read)(&mut fields))
    }

    /// A list of tables, each with these keys.
    pub(crate) fn tables<'t>(
        &mut self,
        key: &str,
        value: &'t Value<'t>,
        keys: &[FieldHelp],
    ) -> Vec<(&'t DeTable<'t>, Span<usize>)> {
        let DeValue::Array(entries) = value.get_ref() else {
            self.wrong(key, value, "a list of tables", "[{ … }, { … }]");
            return Vec::new();
        };
        let mut tables = Vec::new();
        for entry in entries.iter() {
            let DeValue::Table(table) = entry.get_ref() else {
                self.wrong(key, entry, "a table in a list", "[{ … }, { … }]");
                continue;
            };
            for unknown in table
                .keys()
                .filter(|other| keys.iter().all(|key| key.name != other.get_ref().as_ref()))
            {
                self.mistake(
                    unknown.span(),
                    unknown_key(&format!("an entry of {key}"), unknown.get_ref(), keys),
                );
            }
            tables.push((table, entry.span()));
        }
        tables
    }
}

/// The keys of one table of a kind.
pub(crate) struct Fields<'a, 't> {
    key: &'a str,
    kind: &'static str,
    table: &'a DeTable<'t>,
    at: Span<usize>,
    pub(crate) reader: &'a mut Reader,
}

impl<'a, 't> Fields<'a, 't> {
    /// The value of a key, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value<'t>> {
        self.table.get(name)
    }

    /// The value of a key that must be there, read by `read`; else `instead`, and a mistake.
    pub(crate) fn needed<T>(
        &mut self,
        name: &'static str,
        instead: T,
        read: impl FnOnce(&mut Reader, &str, &Value<'t>) -> T,
    ) -> T {
        match self.get(name) {
            Some(value) => read(self.reader, &format!("{}.{name}", self.key), value),
            None => {
                let message = format!("{} of kind {} needs {name}; add it", self.key, self.kind);
                self.reader.mistake(self.at.clone(), message);
                instead
            }
        }
    }

    /// The value of a key that may be left out.
    pub(crate) fn or<T>(
        &mut self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&mut Reader, &str, &Value<'t>) -> T,
    ) -> T {
        match self.get(name) {
            Some(value) => read(self.reader, &format!("{}.{name}", self.key), value),
            None => default,
        }
    }
}

/// What is said to a key that there is none of.
pub(crate) fn unknown_key(thing: &str, key: &str, keys: &[FieldHelp]) -> String {
    let known: Vec<&str> = keys.iter().map(|known| known.name).collect();
    if known.is_empty() {
        return format!("{thing} has no key `{key}`; it has none, remove it");
    }
    format!("{thing} has no key `{key}`; known are {}", known.join(", "))
}

fn unless_empty(name: &str, mistakes: Vec<Mistake>) -> Result<(), FileErrors> {
    if mistakes.is_empty() { Ok(()) } else { Err(FileErrors { name: name.to_string(), mistakes }) }
}

fn number_of(value: &Value<'_>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str().parse().ok(),
        DeValue::Float(digits) => digits.as_str().parse().ok(),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
}

fn shown(value: &Value<'_>) -> String {
    match value.get_ref() {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(digits) => digits.as_str().to_string(),
        DeValue::Float(digits) => digits.as_str().to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        other => format!("a value of type {}", other.type_str()),
    }
}
