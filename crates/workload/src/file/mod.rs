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
//! [`KEYS`] lists the keys of a stream; [`SIZES`], [`PLACES`], [`RUNS`], [`ARRIVALS`], [`THINKS`]
//! and [`PROCESSES`] list the kinds of values. All errors of a text are reported together
//! ([`TextErrors`]). A file is read before the drive is known; [`WorkloadFile::workload`] generates
//! its requests for a drive.

mod keys;
mod kinds;
mod needs;
mod plan;
mod processes;
mod service;
mod written;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::{Document, Key, TextError, TextErrors, Value, ValueErrors};
use headtime_units::{SectorSize, Sectors, Share};

pub use keys::KEYS;
pub(crate) use kinds::constant;
pub use kinds::{ARRIVALS, FieldHelp, Kind, PLACES, RUNS, SIZE_ENTRY, SIZES, SPOT_ENTRY, THINKS};
pub use needs::{NEED_KEYS, NeedsFile, StreamNeed};
pub use plan::{Clients, Range, StreamPlan};
pub use processes::PROCESSES;
pub use service::{SCAN_KEYS, ScanPlan, StreamTerms};

use crate::error::WorkloadError;
use crate::generator::Workload;

/// The streams of a workload file.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadFile {
    /// The name of the file, for errors.
    pub name: String,
    /// The purpose, in one line.
    pub description: Option<String>,
    /// The streams, at least one.
    pub streams: Vec<StreamPlan>,
    /// The background scan beside them.
    pub scan: Option<ScanPlan>,
    /// Options of a foreign file that have no meaning here, or a slightly different one, each with
    /// its line.
    pub notes: Vec<String>,
}

/// Maximum number of streams; it bounds the tables of results and the memory of their statistics.
pub const MAX_STREAMS: usize = 256;

/// The keys at the top of a file.
const FILE_KEYS: &[Key<WorkloadFile>] = &[
    Key {
        name: "description",
        takes: "text",
        summary: "purpose of the workload",
        default: "none",
        set: |file, value| value.text().map(|text| file.description = Some(text.to_string())),
    },
    Key {
        name: "stream",
        takes: "[[stream]] with its keys on the lines below",
        summary: "one stream of requests",
        default: "none; at least one must be given",
        set: |file, value| {
            let tables = value.tables()?;
            ValueErrors::join(tables.iter().map(|table| file.add_stream(table)))
        },
    },
    Key {
        name: "scan",
        takes: "[[scan]] with its keys on the lines below",
        summary: "a background scan of the whole drive beside the streams",
        default: "none",
        set: |file, value| {
            let tables = value.tables()?;
            ValueErrors::join(tables.iter().map(|table| file.add_scan(table)))
        },
    },
];

impl WorkloadFile {
    /// Reads the text of a file; `name` is its name in errors.
    ///
    /// # Errors
    /// All errors of the text, by line and column.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, TextErrors> {
        let mut file = Self {
            name: name.to_string(),
            description: None,
            streams: Vec::new(),
            scan: None,
            notes: Vec::new(),
        };
        headtime_config::read(name, text, &mut file, &[FILE_KEYS])?;
        let message = match file.streams.len() {
            0 => {
                "there is no stream; add one as [[stream]] with its keys on the lines below".into()
            }
            1..=MAX_STREAMS => match file.excess() {
                None => return Ok(file),
                Some(message) => message,
            },
            streams => format!(
                "{streams} streams, expected at most {MAX_STREAMS}; join those that are alike into \
                    one with more clients"
            ),
        };
        Err(TextError::at_line(name, 1, message).into())
    }

    fn add_stream(&mut self, table: &Value<'_>) -> Result<(), ValueErrors> {
        let mut plan = StreamPlan::new(format!("stream-{}", self.streams.len() + 1));
        plan.line = table.line();
        if let Some(name) = table.get("name").as_ref().and_then(Value::as_text) {
            plan.name = name.to_string();
        }
        let thing = format!("stream {}", plan.name);
        let read = table.set_table(&thing, &mut plan, KEYS);
        let contradiction = plan
            .contradiction()
            .map_or(Ok(()), |message| Err(table.error(format_args!("{thing}: {message}"))));
        let twice = if self.streams.iter().any(|other| other.name == plan.name) {
            Err(table.error(format_args!("{thing} appears twice; give each a name of its own")))
        } else {
            Ok(())
        };
        self.streams.push(plan);
        ValueErrors::join([read, contradiction, twice])
    }

    fn add_scan(&mut self, table: &Value<'_>) -> Result<(), ValueErrors> {
        if self.scan.is_some() {
            return Err(
                table.error("there is a scan already; keep one, which reads the whole drive")
            );
        }
        let mut scan = ScanPlan::default();
        let read = table.set_table("scan", &mut scan, SCAN_KEYS);
        self.scan = Some(scan);
        read
    }

    /// The same with `key=value` pairs, separated by commas, applied to every stream;
    /// `NAME.key=value` applies to the stream of that name. Values are TOML, and anything that is
    /// not TOML is text: `size=64KiB,reads=0.7,place={kind="zipf",theta=0.9}`. `flag` is the source
    /// in errors.
    ///
    /// # Errors
    /// All errors of the pairs.
    pub fn with(mut self, flag: &str, pairs: &str) -> Result<Self, TextErrors> {
        let mut errors = Vec::new();
        for pair in split(pairs) {
            let (key, value) =
                pair.split_once('=').map_or((pair, ""), |(key, value)| (key.trim(), value.trim()));
            let stream = self.streams.iter().enumerate().find_map(|(stream, plan)| {
                Some((stream, key.strip_prefix(plan.name.as_str())?.strip_prefix('.')?))
            });
            let other = key.split_once('.').map(|(name, _)| name);
            let is_key = |name: &&str| KEYS.iter().any(|known| known.name == *name);
            if let (None, Some(name)) = (stream, other.filter(|name| !is_key(name))) {
                let names: Vec<&str> = self.streams.iter().map(|plan| &*plan.name).collect();
                let message =
                    format!("there is no stream `{name}`; known are {}", names.join(", "));
                errors.push(TextError::whole(flag, message));
                continue;
            }
            let (streams, key) = stream
                .map_or((0..self.streams.len(), key), |(stream, rest)| (stream..stream + 1, rest));
            let line = format!("{key} = {value}");
            let line = if Document::parse(&line).is_ok() {
                line
            } else {
                format!("{key} = {}", written::text(value))
            };
            for plan in &mut self.streams[streams] {
                let thing = format!("stream {}", plan.name);
                let read = Document::parse(&line)
                    .and_then(|document| document.root().set_table(&thing, plan, KEYS));
                errors.extend(read.err().into_iter().flat_map(|error| error.in_flag(flag)));
            }
        }
        for plan in &self.streams {
            let message = plan.contradiction();
            errors.extend(message.map(|message| {
                TextError::whole(flag, format_args!("stream {}: {message}", plan.name))
            }));
        }
        errors.extend(self.excess().map(|message| TextError::whole(flag, message)));
        TextErrors::check(errors).map(|()| self)
    }

    /// The excess of reservations over the drive, if there is one.
    fn excess(&self) -> Option<String> {
        let reserved = |plan: &StreamPlan| u64::from(plan.terms.reserve.as_billionths());
        let sum: u64 = self.streams.iter().map(reserved).sum();
        (sum > u64::from(Share::WHOLE.as_billionths())).then(|| {
            format!(
                "the streams reserve {} % of disk time; lower their reserve to 100 % together",
                sum as f64 / 1e7
            )
        })
    }

    /// Returns true if the number of clients of any stream is chosen for each run.
    #[must_use]
    pub fn takes_depth(&self) -> bool {
        self.streams.iter().any(StreamPlan::takes_depth)
    }

    /// The workload on a drive of `capacity` sectors of `sector` bytes, with `depth` clients in
    /// each stream that leaves their number open.
    ///
    /// # Errors
    /// When a stream does not suit the drive, by the line of the stream.
    pub fn workload(
        &self,
        sector: SectorSize,
        capacity: Sectors,
        seed: u64,
        depth: u32,
    ) -> Result<Workload, TextErrors> {
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
                let message = format!("stream {}: {fault}", plan.name);
                let position = (plan.line > 0).then_some((plan.line, 1));
                TextError { source: self.name.clone(), position, message }.into()
            }
            other => TextError::whole(&self.name, other).into(),
        })
    }

    /// The file as TOML that reads back as the same streams, without comments and notes.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let description = self
            .description
            .as_ref()
            .map(|text| format!("description = {}\n", written::text(text)));
        let streams = self.streams.iter().map(StreamPlan::to_toml);
        let scan = self.scan.as_ref().map(ScanPlan::to_toml);
        description.into_iter().chain(streams).chain(scan).collect::<Vec<_>>().join("\n")
    }
}

/// Splits a text at the commas outside of brackets and quotes.
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
