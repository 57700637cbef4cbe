//! [`NeedsFile`]: what applications need of a drive, as a TOML text: how many requests a second,
//! how large, how many in a row.
//!
//! ```toml
//! [[need]]
//! name = "recorder"
//! rate = 16                 # requests a second
//! size = "512KiB"
//! run = 64                  # requests that follow each other before it goes elsewhere
//! reads = 0.0
//!
//! [[need]]
//! name = "database"
//! volume = "vm1"            # whose reservation it goes into; the name where it is left out
//! rate = 20
//! ```
//!
//! It says nothing of the drive: what of its time that takes is `headtime_sched::Need`'s business.
//! All mistakes of a text are reported together ([`FileErrors`]).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::de::{DeTable, DeValue};

use super::errors::FileErrors;
use super::keys::label;
use super::reader::{Reader, Value};

/// What applications need.
#[derive(Clone, Debug, PartialEq)]
pub struct NeedsFile {
    /// What messages call it: the file's name.
    pub name: String,
    /// What it is for, in one line.
    pub description: Option<String>,
    /// What each needs, at least one.
    pub needs: Vec<StreamNeed>,
}

/// What one stream of requests needs.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamNeed {
    /// What it is called.
    pub name: String,
    /// The volume, or VOLUME@CLASS, whose reservation it goes into.
    pub volume: String,
    /// Requests a second, above 0.
    pub rate: f64,
    /// Bytes of each.
    pub size_bytes: u64,
    /// Requests that follow each other; 1 for random ones.
    pub run: u64,
    /// The part of them that are reads, 0 to 1; the others are writes.
    pub reads: f64,
    /// Where it begins in the file, counted from 1.
    pub line: usize,
}

/// One key of a need.
pub struct NeedKey {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like.
    pub takes: &'static str,
    /// What it says, in one line.
    pub summary: &'static str,
    /// What it is when left out.
    pub default: &'static str,
    read: fn(&mut StreamNeed, &mut Reader, &str, &Value<'_>),
}

/// What can be said of a need. Reader, help and tests iterate over this table.
pub const NEED_KEYS: &[NeedKey] = &[
    NeedKey {
        name: "name",
        takes: "text of 1 to 64 characters",
        summary: "what it is called in the answer; no two alike",
        default: "need-N",
        read: |need, reader, key, value| need.name = label(reader, key, value),
    },
    NeedKey {
        name: "volume",
        takes: "VOLUME or VOLUME@CLASS",
        summary: "whose reservation it goes into; several needs may go into one",
        default: "the name",
        read: |need, reader, key, value| need.volume = label(reader, key, value),
    },
    NeedKey {
        name: "rate",
        takes: "requests per second, above 0",
        summary: "how many requests a second it must get done",
        default: "none; must be given",
        read: |need, reader, key, value| {
            need.rate = reader.number(key, value, "50");
            if need.rate <= 0.0 || need.rate > MAX_RATE {
                reader.mistake(
                    value.span(),
                    format_args!(
                        "{key} is {}, expected requests a second above 0 and at most \
                        10^9; write it such as rate = 50",
                        need.rate
                    ),
                );
            }
        },
    },
    NeedKey {
        name: "size",
        takes: "size such as \"64KiB\"",
        summary: "how large each request is",
        default: "\"4KiB\"",
        read: |need, reader, key, value| need.size_bytes = reader.bytes(key, value),
    },
    NeedKey {
        name: "run",
        takes: "whole number from 1",
        summary: "how many requests follow each other before it goes elsewhere on the drive",
        default: "1 (random)",
        read: |need, reader, key, value| need.run = reader.whole(key, value, 1..=MAX_RUN),
    },
    NeedKey {
        name: "reads",
        takes: "share, 0.7 or \"70%\"",
        summary: "how many of the requests are reads; the others are writes, which take longer to \
            settle",
        default: "1",
        read: |need, reader, key, value| need.reads = reader.share(key, value),
    },
];

/// More requests a second than any drive gets done.
const MAX_RATE: f64 = 1e9;
/// More requests in a row than any drive has sectors.
const MAX_RUN: u64 = 1 << 40;

impl NeedsFile {
    /// Reads a file's text; `name` is what messages call it.
    ///
    /// # Errors
    /// All mistakes that could be found, by line and column.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, FileErrors> {
        let mut reader = Reader::default();
        let mut file = Self { name: name.to_string(), description: None, needs: Vec::new() };
        if let Some(document) = reader.parse(text) {
            file.read(&mut reader, &document, text);
        }
        reader.in_file(name, text)?;
        Ok(file)
    }

    fn read(&mut self, reader: &mut Reader, document: &DeTable<'_>, text: &str) {
        const AS_TABLE: &str = "write each need as [[need]] with its keys on the lines below";
        for (key, value) in document {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("description", _) => {
                    self.description = Some(reader.text("description", value, "\"what it is for\""))
                }
                ("need", DeValue::Array(needs)) if !needs.is_empty() => {
                    for (number, entry) in needs.iter().enumerate() {
                        let DeValue::Table(table) = entry.get_ref() else {
                            reader.mistake(
                                entry.span(),
                                format_args!("need is no table; {AS_TABLE}"),
                            );
                            continue;
                        };
                        let line =
                            text[..entry.span().start.min(text.len())].matches('\n').count() + 1;
                        let need = read_need(reader, table, format!("need-{}", number + 1), line);
                        if !table.contains_key("rate") {
                            reader.mistake(
                                entry.span(),
                                format_args!(
                                    "need {} has no rate; add one such as rate = 50",
                                    need.name
                                ),
                            );
                        }
                        if self.needs.iter().any(|other| other.name == need.name) {
                            reader.mistake(
                                entry.span(),
                                format_args!(
                                    "need {} is there twice; give each a name of its own",
                                    need.name
                                ),
                            );
                        }
                        self.needs.push(need);
                    }
                }
                ("need", _) => reader.mistake(value.span(), AS_TABLE),
                (unknown, _) => {
                    let message = format!(
                        "unknown key `{unknown}`; known are description and [[need]]; keys of a \
                            need stand below it"
                    );
                    reader.mistake(key.span(), message);
                }
            }
        }
        if !document.contains_key("need") {
            reader.mistake(0..0, format_args!("there is no need; {AS_TABLE}"));
        }
    }
}

fn read_need(reader: &mut Reader, table: &DeTable<'_>, name: String, line: usize) -> StreamNeed {
    let mut need = StreamNeed {
        name,
        volume: String::new(),
        rate: 1.0,
        size_bytes: 4_096,
        run: 1,
        reads: 1.0,
        line,
    };
    if let Some(name) = table.get("name").and_then(|name| name.get_ref().as_str()) {
        need.name = name.to_string();
    }
    for (name, value) in table {
        reader.thing = format!("need {}", need.name);
        match NEED_KEYS.iter().find(|key| key.name == name.get_ref()) {
            Some(key) => (key.read)(&mut need, reader, key.name, value),
            None => {
                let known: Vec<&str> = NEED_KEYS.iter().map(|key| key.name).collect();
                reader.mistake(
                    name.span(),
                    format_args!(
                        "unknown key `{}`; known are {}",
                        name.get_ref(),
                        known.join(", ")
                    ),
                );
            }
        }
    }
    reader.thing = String::new();
    if !table.contains_key("volume") {
        need.volume = need.name.clone();
    }
    need
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> String {
        NeedsFile::from_toml("need.toml", text).expect_err("it has mistakes").to_string()
    }

    #[test]
    fn needs_are_read_with_what_is_left_out() {
        let text = "description = \"x\"\n\n[[need]]\nname = \"a\"\nvolume = \"vm1@bulk\"\nrate = \
            2.5\nsize = \"64KiB\"\nrun = 32\nreads = \"70%\"\n[[need]]\nrate = 1\n";
        let file = NeedsFile::from_toml("need.toml", text).expect("it is right");
        let [a, other] = file.needs.as_slice() else { panic!("{file:?}") };
        assert_eq!(
            *a,
            StreamNeed {
                name: "a".into(),
                volume: "vm1@bulk".into(),
                rate: 2.5,
                size_bytes: 65_536,
                run: 32,
                reads: 0.7,
                line: 3
            }
        );
        assert_eq!(
            *other,
            StreamNeed {
                name: "need-2".into(),
                volume: "need-2".into(),
                rate: 1.0,
                size_bytes: 4_096,
                run: 1,
                reads: 1.0,
                line: 10
            }
        );
    }

    #[test]
    fn all_mistakes_are_told_with_line_key_expectation_and_remedy() {
        let text = "color = 1\n[[need]]\nname = \"a\"\nrte = 5\nsize = 0\nrun = 0\n[[need]]\nname \
            = \"a\"\nrate = -3\n";
        let said = mistakes(text);
        for expected in [
            "need.toml:1:1: unknown key `color`; known are description and [[need]]",
            "need.toml:2:1: need a has no rate; add one such as rate = 50",
            "need.toml:4:1: need a: unknown key `rte`; known are name, volume, rate, size, run, \
                reads",
            "need.toml:5:8: need a: size is 0, expected a size of at least 1 byte; write it such \
                as size = \"64KiB\"",
            "need.toml:6:7: need a: run is 0, expected a whole number from 1 to 1099511627776 \
                without quotes; write it such as run = 1",
            "need.toml:7:1: need a is there twice; give each a name of its own",
            "need.toml:9:8: need a: rate is -3, expected requests a second above 0 and at most \
                10^9; write it such as rate = 50",
        ] {
            assert!(
                said.lines().any(|line| line.starts_with(expected)),
                "{expected}\nis missing from\n{said}"
            );
        }
        assert!(mistakes("").contains("there is no need; write each need as [[need]]"));
        assert!(mistakes("need = []").contains("need.toml:1:8: write each need as [[need]]"));
        assert!(mistakes("need = 3").contains("need.toml:1:8: write each need as [[need]]"));
        assert!(mistakes("[[need]\n").starts_with("need.toml:1:"));
    }
}
