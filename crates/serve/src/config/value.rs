//! What a key is, and how values are read: the same from TOML, where they have kinds, and from
//! flags, where everything is text.

use headtime_units::{ByteSize, Nanos, Share, parse_bytes, parse_nanos, parse_share};

use super::PlaceChoice;

/// One key of the configuration of a `T`.
pub struct Key<T> {
    /// Its name, in TOML and in flags.
    pub name: &'static str,
    /// What its value looks like.
    pub takes: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What it is when left out.
    pub default: &'static str,
    /// Sets it, or says what is wrong with the value.
    pub set: fn(&mut T, Value<'_>) -> Result<(), String>,
}

/// A value as it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// On the command line, where everything is text; empty when only the key was written.
    Flag(&'a str),
    /// A TOML string.
    Text(&'a str),
    /// A TOML integer, in its digits.
    Integer(&'a str),
    /// A TOML boolean.
    Bool(bool),
    /// Something else in TOML, by its kind.
    Other(&'a str),
}

impl<'a> Value<'a> {
    pub(super) fn text(self) -> Result<&'a str, String> {
        match self {
            Self::Flag(text) | Self::Text(text) => Ok(text),
            Self::Integer(digits) => {
                Err(format!("expected text in quotes, not the integer {digits}"))
            }
            Self::Bool(value) => Err(format!("expected text in quotes, not {value}")),
            Self::Other(kind) => Err(format!("expected text in quotes, not {kind}")),
        }
    }

    pub(super) fn truth(self, key: &str) -> Result<bool, String> {
        match self {
            Self::Bool(value) => Ok(value),
            Self::Flag("" | "true") => Ok(true),
            Self::Flag("false") => Ok(false),
            Self::Flag(text) => Err(format!("{key} is true or false, not `{text}`")),
            Self::Text(text) => {
                Err(format!("{key} is true or false without quotes, not \"{text}\""))
            }
            Self::Integer(kind) | Self::Other(kind) => {
                Err(format!("{key} is true or false, not {kind}"))
            }
        }
    }
}

/// The key called `name`, or a message that lists the known ones.
pub(super) fn find<'k, T>(keys: &'k [Key<T>], name: &str) -> Result<&'k Key<T>, String> {
    keys.iter().find(|key| key.name == name).ok_or_else(|| {
        let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        format!("unknown key `{name}`; known are {}", known.join(", "))
    })
}

/// Sets a key from `key=value`, or from `key` alone; `thing` is what messages call what has the
/// keys.
pub(super) fn set_pair<T>(
    keys: &[Key<T>],
    thing: &str,
    target: &mut T,
    pair: &str,
) -> Result<(), String> {
    let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
    let key = find(keys, name).map_err(|message| format!("{thing}: {message}"))?;
    (key.set)(target, Value::Flag(text))
}

pub(super) fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(super) fn place(value: Value<'_>, key: &str) -> Result<PlaceChoice, String> {
    match value.text()? {
        "" => Err(format!("{key} is a path, or off; an empty text is neither")),
        "off" => Ok(PlaceChoice::Off),
        path => Ok(PlaceChoice::At(path.into())),
    }
}

/// What `read` makes of a value; nothing of the text `none`.
pub(super) fn unless_none<T>(
    value: Value<'_>,
    read: impl FnOnce(Value<'_>) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match value {
        Value::Flag("none") | Value::Text("none") => Ok(None),
        value => read(value).map(Some),
    }
}

pub(super) fn share(value: Value<'_>, key: &str) -> Result<Share, String> {
    parse_share(value.text()?).map_err(|error| format!("{key}: {error}"))
}

pub(super) fn size(value: Value<'_>, key: &str) -> Result<ByteSize, String> {
    let text = if let Value::Integer(digits) = value { digits } else { value.text()? };
    let size = parse_bytes(text).map_err(|error| format!("{key}: {error}"))?;
    if size.get() == 0 {
        Err(format!("{key}: a size of 0 makes no sense; write a size such as 64MiB"))
    } else {
        Ok(size)
    }
}

pub(super) fn time(value: Value<'_>, key: &str) -> Result<Nanos, String> {
    let text = if let Value::Integer(digits) = value { digits } else { value.text()? };
    let time = parse_nanos(text).map_err(|error| format!("{key}: {error}"))?;
    if time.is_zero() {
        Err(format!(
            "{key}: a time of 0 makes no sense; write a time such as 100ms, or leave {key} out"
        ))
    } else {
        Ok(time)
    }
}

pub(super) fn count(value: Value<'_>, key: &str, least: u32, most: u32) -> Result<u32, String> {
    let text = match value {
        Value::Integer(text) | Value::Flag(text) => text,
        Value::Text(text) => {
            return Err(format!("{key} is a number without quotes, not \"{text}\""));
        }
        Value::Bool(_) => return Err(format!("{key} is a number, not a boolean")),
        Value::Other(kind) => return Err(format!("{key} is a number, not {kind}")),
    };
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{key} = {text}: expected a whole number from {least} to {most}"))
}

pub(super) fn within(
    value: ByteSize,
    key: &str,
    least: u64,
    most: u64,
) -> Result<ByteSize, String> {
    let ok = (least..=most).contains(&value.get());
    if ok {
        Ok(value)
    } else {
        Err(format!(
            "{key} = {value}: expected {} to {}",
            ByteSize::new(least),
            ByteSize::new(most)
        ))
    }
}
