//! [`WorkloadFile`]: several streams in one TOML text, each with its class and deadline.
//!
//! ```toml
//! description = "four cameras beside a database"
//!
//! [[stream]]
//! name = "cameras"
//! class = "realtime"
//! clients = 4
//! reads = 0.0
//! size = "256KiB"
//! run = { kind = "fixed", requests = 1024 }
//! deadline = "100ms"
//!
//! [[stream]]
//! name = "database"
//! rate = 50.0
//! reads = 0.67
//! size = { kind = "exponential", mean = "8KiB", multiple = "4KiB" }
//! place = { kind = "zipf", theta = 0.9 }
//! ```
//!
//! [`KEYS`] lists what can be said of a stream, [`SIZES`], [`PLACES`], [`RUNS`], [`ARRIVALS`] and
//! [`THINKS`] what values with kinds may be. All mistakes of a text are reported together
//! ([`FileErrors`]). What the text says is known before the drive is; [`WorkloadFile::workload`]
//! makes requests of it.

mod errors;
mod keys;
mod kinds;
mod needs;
mod plan;
mod reader;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::{SectorSize, Sectors};
use toml::de::{DeTable, DeValue};

pub use errors::{FileErrors, Mistake};
pub use keys::{KEYS, Key};
pub(crate) use kinds::constant;
pub use kinds::{ARRIVALS, FieldHelp, Kind, PLACES, RUNS, SIZE_ENTRY, SIZES, SPOT_ENTRY, THINKS};
pub use needs::{NEED_KEYS, NeedKey, NeedsFile, StreamNeed};
pub use plan::{Clients, Range, StreamPlan};

use crate::error::WorkloadError;
use crate::generator::Workload;
use reader::Reader;

/// Streams as a file says them.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadFile {
    /// What messages call it: the file's name.
    pub name: String,
    /// What it is for, in one line.
    pub description: Option<String>,
    /// The streams, at least one.
    pub streams: Vec<StreamPlan>,
    /// What of a foreign file has no meaning here or only nearly the same, each with its line.
    pub notes: Vec<String>,
}

/// More streams than this make tables that nobody reads, and memory for their measures.
pub const MAX_STREAMS: usize = 256;

impl WorkloadFile {
    /// Reads a file's text; `name` is what messages call it.
    ///
    /// # Errors
    /// All mistakes that could be found, by line and column.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, FileErrors> {
        let mut reader = Reader::default();
        let mut file = Self {
            name: name.to_string(),
            description: None,
            streams: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(document) = reader.parse(text) {
            file.read(&mut reader, &document, text);
        }
        reader.in_file(name, text)?;
        Ok(file)
    }

    fn read(&mut self, reader: &mut Reader, document: &DeTable<'_>, text: &str) {
        for (key, value) in document {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("description", _) => {
                    self.description = Some(reader.text("description", value, "\"what it is for\""))
                }
                ("stream", DeValue::Array(streams)) => {
                    for (number, entry) in streams.iter().enumerate() {
                        let DeValue::Table(table) = entry.get_ref() else {
                            reader.mistake(
                                entry.span(),
                                "stream is no table; write each stream as \
                                [[stream]] with its keys on the lines below",
                            );
                            continue;
                        };
                        let mut plan = StreamPlan::new(format!("stream-{}", number + 1));
                        plan.line =
                            text[..entry.span().start.min(text.len())].matches('\n').count() + 1;
                        if let Some(name) =
                            table.get("name").and_then(|name| name.get_ref().as_str())
                        {
                            plan.name = name.to_string();
                        }
                        apply(reader, &mut plan, table);
                        reader.thing = String::new();
                        if let Some(contradiction) = plan.contradiction() {
                            reader.mistake(
                                entry.span(),
                                format_args!("stream {}: {contradiction}", plan.name),
                            );
                        }
                        if self.streams.iter().any(|other| other.name == plan.name) {
                            reader.mistake(
                                entry.span(),
                                format_args!(
                                    "stream {} is there twice; give each a name of its own",
                                    plan.name
                                ),
                            );
                        }
                        self.streams.push(plan);
                    }
                }
                ("stream", _) => reader.mistake(
                    value.span(),
                    "write each stream as [[stream]] with its keys on the lines below",
                ),
                (unknown, _) => {
                    reader.mistake(
                        key.span(),
                        format_args!(
                            "unknown key `{unknown}`; known are description and \
                            [[stream]]; keys of a stream stand below it"
                        ),
                    );
                }
            }
        }
        if !document.contains_key("stream") {
            reader.mistake(
                0..0,
                "there is no stream; add one as [[stream]] with its keys on the lines below",
            );
        }
        if self.streams.len() > MAX_STREAMS {
            reader.mistake(
                0..0,
                format_args!(
                    "{} streams, expected at most {MAX_STREAMS}; join those that are \
                    alike into one with more clients",
                    self.streams.len()
                ),
            );
        }
    }

    /// The same with `key=value` pairs, divided by commas, laid over every stream; `NAME.key=value`
    /// is laid over the stream of that name. Values are TOML, and what is no TOML is text:
    /// `size=64KiB,reads=0.7,place={kind="zipf",theta=0.9}`. `flag` is what messages call it.
    ///
    /// # Errors
    /// All mistakes that could be found.
    pub fn with(mut self, flag: &str, pairs: &str) -> Result<Self, FileErrors> {
        let mut reader = Reader::default();
        for pair in split(pairs) {
            let (key, value) =
                pair.split_once('=').map_or((pair, ""), |(key, value)| (key.trim(), value.trim()));
            let stream = key.split_once('.').and_then(|(name, rest)| {
                Some((self.streams.iter().position(|plan| plan.name == name)?, rest))
            });
            let (streams, key) = stream
                .map_or((0..self.streams.len(), key), |(stream, rest)| (stream..stream + 1, rest));
            let bare = toml::from_str::<toml::Table>(&format!("value = {value}")).is_ok();
            let line = if bare {
                format!("{key} = {value}")
            } else {
                format!("{key} = {}", toml::Value::String(value.to_string()))
            };
            if let Some(table) = reader.parse(&line) {
                for plan in &mut self.streams[streams] {
                    apply(&mut reader, plan, &table);
                }
            }
        }
        for plan in &self.streams {
            reader.thing = format!("stream {}", plan.name);
            if let Some(contradiction) = plan.contradiction() {
                reader.mistake(0..0, contradiction);
            }
        }
        reader.in_flag(flag)?;
        Ok(self)
    }

    /// Whether the number of clients of any stream is chosen at each run.
    #[must_use]
    pub fn takes_depth(&self) -> bool {
        self.streams.iter().any(StreamPlan::takes_depth)
    }

    /// The requests on a drive of `capacity` sectors of `sector` bytes, with `depth` clients where
    /// that is left open.
    ///
    /// # Errors
    /// When the streams do not suit the drive, by the line of the stream.
    pub fn workload(
        &self,
        sector: SectorSize,
        capacity: Sectors,
        seed: u64,
        depth: u32,
    ) -> Result<Workload, FileErrors> {
        let configs = self.streams.iter().enumerate().map(|(stream, plan)| {
            plan.config(sector, capacity, depth)
                .map_err(|fault| WorkloadError::Stream { stream, fault })
        });
        let workload = configs
            .collect::<Result<Vec<_>, _>>()
            .and_then(|configs| Workload::new(&configs, sector, capacity, seed));
        workload.map_err(|error| match &error {
            WorkloadError::Stream { stream, fault } => {
                let plan = &self.streams[*stream];
                let mistake = Mistake {
                    at: (plan.line > 0).then_some((plan.line, 1)),
                    message: format!("stream {}: {fault}", plan.name),
                };
                FileErrors { name: self.name.clone(), mistakes: Vec::from([mistake]) }
            }
            other => FileErrors {
                name: self.name.clone(),
                mistakes: Vec::from([Mistake { at: None, message: other.to_string() }]),
            },
        })
    }

    /// The file as TOML that reads back as the same streams; comments and notes are no part of it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let description = self
            .description
            .as_ref()
            .map(|text| format!("description = {}\n", kinds::written::text(text)));
        let streams = self.streams.iter().map(StreamPlan::to_toml);
        description.into_iter().chain(streams).collect::<Vec<_>>().join("\n")
    }
}

/// Lays the keys of a table over a stream.
fn apply(reader: &mut Reader, plan: &mut StreamPlan, table: &DeTable<'_>) {
    for (name, value) in table {
        reader.thing = format!("stream {}", plan.name);
        match KEYS.iter().find(|key| key.name == name.get_ref()) {
            Some(key) => (key.read)(plan, reader, key.name, value),
            None => {
                let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
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
}

/// The parts of a text between commas that stand in no brackets and no quotes.
fn split(pairs: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from) = (0_i32, false, 0);
    let mut parts = Vec::new();
    for (at, letter) in pairs.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(&pairs[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&pairs[from..]);
    parts
}
