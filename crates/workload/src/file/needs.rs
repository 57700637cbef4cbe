//! [`NeedsFile`]: the needs of applications, as a TOML text: requests per second, sizes, and
//! lengths of runs.
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
//! volume = "vm1"            # the volume whose reservation contains it [default: the name]
//! rate = 20
//! ```
//!
//! The text does not depend on the drive; `headtime_sched::Need` computes the disk time. All errors
//! of a text are reported together ([`TextErrors`]).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::{Key, REQUIRED, TextError, TextErrors, Value, ValueErrors};

use super::keys::label;

/// The needs of applications.
#[derive(Clone, Debug, PartialEq)]
pub struct NeedsFile {
    /// The name of the file, for errors.
    pub name: String,
    /// The purpose, in one line.
    pub description: Option<String>,
    /// The needs, at least one.
    pub needs: Vec<StreamNeed>,
}

/// The need of one stream of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamNeed {
    /// The name.
    pub name: String,
    /// The volume, or VOLUME@CLASS, whose reservation contains the need.
    pub volume: String,
    /// Requests a second, above 0.
    pub rate: f64,
    /// Bytes of each.
    pub size_bytes: u64,
    /// The number of requests at consecutive addresses; 1 for random requests.
    pub run: u64,
    /// The share of reads, 0 to 1; the others are writes.
    pub reads: f64,
    /// The line at which it begins, counted from 1.
    pub line: usize,
}

/// The keys of a need.
pub const NEED_KEYS: &[Key<StreamNeed>] = &[
    Key {
        name: "name",
        takes: "text of 1 to 64 characters",
        summary: "name of the need in the answer; each need has another",
        default: "need-N",
        set: |need, value| label(value).map(|name| need.name = name),
    },
    Key {
        name: "volume",
        takes: "VOLUME or VOLUME@CLASS",
        summary: "the volume whose reservation contains the need; it may contain several",
        default: "the name",
        set: |need, value| label(value).map(|volume| need.volume = volume),
    },
    Key {
        name: "rate",
        takes: "requests per second, above 0",
        summary: "number of requests per second that must complete",
        default: REQUIRED,
        set: |need, value| {
            let rate = value.number()?;
            if rate <= 0.0 || rate > MAX_RATE {
                return Err(value.unexpected("requests a second above 0 and at most 10^9", "50"));
            }
            need.rate = rate;
            Ok(())
        },
    },
    Key {
        name: "size",
        takes: "size such as \"64KiB\"",
        summary: "size of each request",
        default: "\"4KiB\"",
        set: |need, value| value.size().map(|size| need.size_bytes = size.get()),
    },
    Key {
        name: "run",
        takes: "whole number from 1",
        summary: "number of requests at consecutive addresses",
        default: "1 (random)",
        set: |need, value| value.whole(1..=MAX_RUN).map(|run| need.run = run),
    },
    Key {
        name: "reads",
        takes: "share, 0.7 or \"70%\"",
        summary: "share of reads; the other requests are writes, which take longer to settle",
        default: "1",
        set: |need, value| value.fraction().map(|reads| need.reads = reads),
    },
];

/// Maximum requests per second; no drive reaches it.
const MAX_RATE: f64 = 1e9;
/// Maximum requests of a run; no drive has as many sectors.
const MAX_RUN: u64 = 1 << 40;

/// The keys at the top of a file.
const FILE_KEYS: &[Key<NeedsFile>] = &[
    Key {
        name: "description",
        takes: "text",
        summary: "purpose of the file",
        default: "none",
        set: |file, value| value.text().map(|text| file.description = Some(text.to_string())),
    },
    Key {
        name: "need",
        takes: "[[need]] with its keys on the lines below",
        summary: "one stream of requests",
        default: "none; at least one must be given",
        set: |file, value| {
            let tables = value.tables()?;
            ValueErrors::join(tables.iter().map(|table| file.add_need(table)))
        },
    },
];

impl NeedsFile {
    /// Reads the text of a file; `name` is its name in errors.
    ///
    /// # Errors
    /// All errors of the text, by line and column.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, TextErrors> {
        let mut file = Self { name: name.to_string(), description: None, needs: Vec::new() };
        headtime_config::read(name, text, &mut file, &[FILE_KEYS])?;
        if file.needs.is_empty() {
            let message =
                "there is no need; write each need as [[need]] with its keys on the lines below";
            return Err(TextError::at_line(name, 1, message).into());
        }
        Ok(file)
    }

    fn add_need(&mut self, table: &Value<'_>) -> Result<(), ValueErrors> {
        let name = table.get("name").as_ref().and_then(Value::as_text).map(ToString::to_string);
        let mut need = StreamNeed {
            name: name.unwrap_or_else(|| format!("need-{}", self.needs.len() + 1)),
            volume: String::new(),
            rate: 1.0,
            size_bytes: 4_096,
            run: 1,
            reads: 1.0,
            line: table.line(),
        };
        let thing = format!("need {}", need.name);
        let read = table.set_table(&thing, &mut need, NEED_KEYS);
        let twice = if self.needs.iter().any(|other| other.name == need.name) {
            Err(table.error(format_args!("{thing} appears twice; give each a name of its own")))
        } else {
            Ok(())
        };
        if need.volume.is_empty() {
            need.volume.clone_from(&need.name);
        }
        self.needs.push(need);
        ValueErrors::join([read, twice])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> String {
        NeedsFile::from_toml("need.toml", text).expect_err("it has mistakes").to_string()
    }

    #[test]
    fn absent_keys_of_a_need_have_defaults() {
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
    fn all_errors_are_reported_with_line_key_expectation_and_remedy() {
        let text = "color = 1\n[[need]]\nname = \"a\"\nrte = 5\nsize = 0\nrun = 0\n[[need]]\nname \
            = \"a\"\nrate = -3\n";
        let said = mistakes(text);
        for expected in [
            "need.toml:1:1: unknown key `color`; known are description, [[need]]",
            "need.toml:2:1: need a: rate is missing; add rate = … (requests per second, above 0)",
            "need.toml:4:1: need a: unknown key `rte`; known are name, volume, rate, size, run, \
                reads",
            "need.toml:5:8: need a: size is 0, expected a size of at least 1 byte; write it such \
                as size = \"64KiB\"",
            "need.toml:6:7: need a: run is 0, expected a whole number from 1 to 1099511627776 \
                without quotes; write it such as run = 1",
            "need.toml:7:1: need a appears twice; give each a name of its own",
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
