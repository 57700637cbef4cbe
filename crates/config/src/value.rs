//! [`Value`]: the value of a key. TOML values have types; the values of flags are text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::ops::RangeInclusive;
use core::str::FromStr;

use headtime_units::{ByteSize, Nanos, Share, parse_bytes, parse_nanos, parse_share};
use toml::Spanned;
use toml::de::DeValue;

use crate::ValueErrors;
use crate::errors::line_of;
use crate::key::unknown_key;

/// A value, with its key and its place in the text.
#[derive(Clone, Debug)]
pub struct Value<'a> {
    /// The name of the key in errors.
    key: String,
    content: Content<'a>,
    /// The whole text, and the byte at which the value stands.
    text: &'a str,
    offset: usize,
}

#[derive(Clone, Copy, Debug)]
enum Content<'a> {
    /// Text of the command line; empty when only the key was written.
    Flag(&'a str),
    Toml(&'a DeValue<'a>),
}

type Result<T> = core::result::Result<T, ValueErrors>;

impl<'a> Value<'a> {
    pub(crate) fn root(text: &'a str, root: &'a DeValue<'a>) -> Self {
        Self { key: String::new(), content: Content::Toml(root), text, offset: 0 }
    }

    /// The text after `key=` in a flag.
    #[must_use]
    pub fn flag(key: &str, text: &'a str) -> Self {
        Self { key: key.to_string(), content: Content::Flag(text), text, offset: 0 }
    }

    fn inner(&self, key: String, value: &'a Spanned<DeValue<'a>>) -> Self {
        let content = Content::Toml(value.get_ref());
        Self { key, content, text: self.text, offset: value.span().start }
    }

    /// The name of the key in errors.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The line at which the value begins, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        line_of(self.text, self.offset)
    }

    /// An error at this value.
    #[must_use]
    pub fn error(&self, message: impl Display) -> ValueErrors {
        ValueErrors::new(self.offset, message)
    }

    /// The error of a value that is not what was expected.
    #[must_use]
    pub fn unexpected(&self, expected: impl Display, example: &str) -> ValueErrors {
        let Self { key, .. } = self;
        self.error(match self.content {
            Content::Flag(text) => format!("{key} is `{text}`, expected {expected}"),
            Content::Toml(value) => format!(
                "{key} is {}, expected {expected}; write it such as {key} = {example}",
                shown(value)
            ),
        })
    }

    /// The text, where the value is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&'a str> {
        match self.content {
            Content::Flag(text) => Some(text),
            Content::Toml(value) => value.as_str(),
        }
    }

    /// Text.
    ///
    /// # Errors
    /// Another type; as with all the readers below, by key, value and expectation.
    pub fn text(&self) -> Result<&'a str> {
        self.as_text().ok_or_else(|| self.unexpected("text in quotes", "\"…\""))
    }

    /// Text, or the digits of a decimal integer.
    ///
    /// # Errors
    /// Another type.
    pub fn text_or_integer(&self) -> Result<&'a str> {
        match self.content {
            Content::Toml(DeValue::Integer(digits)) if digits.radix() == 10 => Ok(digits.as_str()),
            _ => self.text(),
        }
    }

    /// Text that [`FromStr`] parses; its error must name the text.
    ///
    /// # Errors
    /// Another type, or the error of the parser.
    pub fn parsed<T: FromStr<Err: Display>>(&self) -> Result<T> {
        self.text()?.parse().map_err(|error| self.error(error))
    }

    /// One of several words.
    ///
    /// # Errors
    /// Any other value.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        let found = words.iter().find(|(word, _)| self.as_text() == Some(word));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let expected = match &names[..] {
                [first @ .., last] if !first.is_empty() => {
                    format!("{} or {last}", first.join(", "))
                }
                names => names.concat(),
            };
            self.unexpected(expected, &format!("\"{}\"", names.first().unwrap_or(&"")))
        })
    }

    /// `true` or `false`. A flag's key alone means `true`.
    ///
    /// # Errors
    /// Any other value.
    pub fn boolean(&self) -> Result<bool> {
        match self.content {
            Content::Toml(DeValue::Boolean(value)) => Ok(*value),
            Content::Flag("" | "true") => Ok(true),
            Content::Flag("false") => Ok(false),
            Content::Flag(_) => Err(self.unexpected("true or false", "")),
            Content::Toml(_) => Err(self.unexpected("true or false without quotes", "true")),
        }
    }

    /// A whole number within bounds.
    ///
    /// # Errors
    /// Any other value.
    pub fn whole(&self, bounds: RangeInclusive<u64>) -> Result<u64> {
        let number = match self.content {
            Content::Flag(text) => text.parse().ok(),
            Content::Toml(DeValue::Integer(digits)) => {
                u64::from_str_radix(digits.as_str(), digits.radix()).ok()
            }
            Content::Toml(_) => None,
        };
        number.filter(|number| bounds.contains(number)).ok_or_else(|| {
            let (min, max) = bounds.into_inner();
            let upper = if max == u64::MAX { String::new() } else { format!(" to {max}") };
            let quotes =
                if matches!(self.content, Content::Toml(_)) { " without quotes" } else { "" };
            self.unexpected(
                format_args!("a whole number from {min}{upper}{quotes}"),
                &min.to_string(),
            )
        })
    }

    /// A whole number of 32 bits within bounds.
    ///
    /// # Errors
    /// Any other value.
    pub fn count(&self, bounds: RangeInclusive<u32>) -> Result<u32> {
        let (min, max) = bounds.into_inner();
        self.whole(u64::from(min)..=u64::from(max)).map(|count| count as u32)
    }

    /// A number. Its bounds are checked where it is used.
    ///
    /// # Errors
    /// Any other type.
    pub fn number(&self) -> Result<f64> {
        self.as_number().ok_or_else(|| self.unexpected("a number without quotes", "1.5"))
    }

    fn as_number(&self) -> Option<f64> {
        match self.content {
            Content::Flag(text) => text.parse().ok(),
            Content::Toml(DeValue::Integer(digits)) if digits.radix() == 10 => {
                digits.as_str().parse().ok()
            }
            Content::Toml(DeValue::Float(digits)) => digits.as_str().parse().ok(),
            Content::Toml(_) => None,
        }
        .filter(|number: &f64| number.is_finite())
    }

    /// A share of one, as `0.7` or `"70%"`.
    ///
    /// # Errors
    /// Any other value.
    pub fn fraction(&self) -> Result<f64> {
        match self.as_text().and_then(|text| parse_share(text).ok()) {
            Some(share) => Some(share.as_fraction()),
            None => self.as_number().filter(|share| (0.0..=1.0).contains(share)),
        }
        .ok_or_else(|| self.unexpected("a share from 0 to 1", "0.7 or \"70%\""))
    }

    /// A share, as `"25%"`.
    ///
    /// # Errors
    /// Any other value.
    pub fn share(&self) -> Result<Share> {
        self.with_unit(parse_share, "a share", "\"25%\"")
    }

    /// A size of at least one byte, as `"64KiB"` or as a number of bytes.
    ///
    /// # Errors
    /// Any other value.
    pub fn size(&self) -> Result<ByteSize> {
        let size = self.with_unit(parse_bytes, "a size", "\"64KiB\"")?;
        if size.get() > 0 {
            return Ok(size);
        }
        Err(self.unexpected("a size of at least 1 byte", "\"64KiB\""))
    }

    /// A size within bounds.
    ///
    /// # Errors
    /// Any other value.
    pub fn size_within(&self, min: u64, max: u64) -> Result<ByteSize> {
        let size = self.size()?;
        if (min..=max).contains(&size.get()) {
            return Ok(size);
        }
        let example = if (min..=max).contains(&(1 << 20)) { 1 << 20 } else { min };
        let [min, max, example] = [min, max, example].map(ByteSize::new);
        let example = format!("\"{example}\"").replace(' ', "");
        Err(self.unexpected(format_args!("{min} to {max}"), &example))
    }

    /// A time, as `"100ms"`; zero is allowed.
    ///
    /// # Errors
    /// Any other value.
    pub fn time(&self) -> Result<Nanos> {
        self.with_unit(parse_nanos, "a time", "\"100ms\"")
    }

    /// A time above zero.
    ///
    /// # Errors
    /// Any other value.
    pub fn positive_time(&self) -> Result<Nanos> {
        let time = self.time()?;
        if time.is_zero() { Err(self.unexpected("a time above 0", "\"100ms\"")) } else { Ok(time) }
    }

    fn with_unit<T, E: Display>(
        &self,
        parse: impl FnOnce(&str) -> core::result::Result<T, E>,
        expected: &str,
        example: &str,
    ) -> Result<T> {
        let text = self.text_or_integer().map_err(|_| self.unexpected(expected, example))?;
        parse(text).map_err(|error| self.error(format_args!("{}: {error}", self.key)))
    }

    /// The value, or nothing for the word `none`.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn or_none<T>(&self, read: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        if self.as_text() == Some("none") { Ok(None) } else { read(self).map(Some) }
    }

    /// True if the value is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        matches!(self.content, Content::Toml(DeValue::Table(_)))
    }

    /// The values of a list; a value that is no list is a list of one.
    #[must_use]
    pub fn list(&self) -> Vec<Self> {
        match self.content {
            Content::Toml(DeValue::Array(values)) => {
                values.iter().map(|value| self.inner(self.key.clone(), value)).collect()
            }
            _ => Vec::from([self.clone()]),
        }
    }

    /// True if the value is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.content, Content::Toml(DeValue::Array(_)))
    }

    /// The tables of `[[key]]`.
    ///
    /// # Errors
    /// A value that is no list of tables.
    pub fn tables(&self) -> Result<Vec<Self>> {
        let tables = self.list();
        match tables.iter().find(|table| !table.is_table()) {
            None if self.is_list() && !tables.is_empty() => Ok(tables),
            wrong => {
                let at = wrong.unwrap_or(self);
                Err(at.error(format_args!(
                    "write each {0} as [[{0}]] with its keys on the lines below",
                    self.key
                )))
            }
        }
    }

    /// The entries of a table: name, offset of the name, value.
    pub(crate) fn entries(&self) -> Result<impl Iterator<Item = (&'a str, usize, Self)>> {
        let Content::Toml(DeValue::Table(table)) = self.content else {
            let message = "write {} as [{}] with its keys on the lines below";
            return Err(self.error(message.replace("{}", &self.key)));
        };
        let entry = |(name, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let text: &'a alloc::borrow::Cow<'a, str> = name.get_ref();
            (text.as_ref(), name.span().start, self.inner(text.to_string(), value))
        };
        Ok(table.iter().map(entry).collect::<Vec<_>>().into_iter())
    }

    /// The value of a key of a table, if it is there.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Self> {
        let Content::Toml(DeValue::Table(table)) = self.content else { return None };
        let key =
            if self.key.is_empty() { name.to_string() } else { format!("{}.{name}", self.key) };
        table.get(name).map(|value| self.inner(key, value))
    }

    /// A required key of a table, read by `read`.
    ///
    /// # Errors
    /// When the key is absent, and those of `read`.
    pub fn required<T>(&self, name: &str, read: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        match self.get(name) {
            Some(value) => read(&value),
            None => Err(self.error(format_args!("{} needs {name} = …; add it", self.key))),
        }
    }

    /// A key of a table, read by `read`, or its default.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn or<T>(
        &self,
        name: &str,
        default: T,
        read: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        self.get(name).map_or(Ok(default), |value| read(&value))
    }

    /// Refuses the keys of a table that are not among `known`.
    ///
    /// # Errors
    /// All unknown keys; `thing` is the name of the table in them.
    pub fn only_keys(&self, thing: &str, known: &[&str]) -> Result<()> {
        let Content::Toml(DeValue::Table(_)) = self.content else { return Ok(()) };
        ValueErrors::join(self.entries()?.map(|(name, offset, _)| {
            if known.contains(&name) {
                return Ok(());
            }
            Err(ValueErrors::new(offset, format_args!("{thing}: {}", unknown_key(name, known))))
        }))
    }
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(digits) => digits.as_str().to_string(),
        DeValue::Float(digits) => digits.as_str().to_string(),
        DeValue::Boolean(value) => value.to_string(),
        other => format!("a value of type {}", other.type_str()),
    }
}
