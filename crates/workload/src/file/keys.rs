//! [`KEYS`]: what can be said of a stream. Reader, writer, documentation and tests iterate over
//! this table.

use alloc::format;
use alloc::string::{String, ToString};

use headtime_units::{parse_bytes, parse_share};

use super::kinds::{self, ARRIVALS, PLACES, RUNS, THINKS, written};
use super::plan::{Clients, Range, StreamPlan};
use super::reader::{Reader, Value};
use crate::arrivals::ThinkTime;
use crate::config::Alignment;
use crate::mix::Mix;
use crate::place::Place;

/// One key of a stream.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like.
    pub takes: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What it is when left out.
    pub default: &'static str,
    pub(crate) read: fn(&mut StreamPlan, &mut Reader, &str, &Value<'_>),
    /// Its value as TOML; `None` where it is the default.
    pub(crate) write: fn(&StreamPlan) -> Option<String>,
}

/// A share of the mix: reads, zeroes, discards, flushes or fua.
macro_rules! share_key {
    ($field:ident, $default:literal, $summary:literal) => {
        Key {
            name: stringify!($field),
            takes: "share, 0.7 or \"70%\"",
            summary: $summary,
            default: $default,
            read: |plan, reader, key, value| plan.stream.mix.$field = reader.share(key, value),
            write: |plan| {
                (plan.stream.mix.$field != Mix::reads(1.0).$field)
                    .then(|| written::number(plan.stream.mix.$field))
            },
        }
    };
}

/// A number from 1, or nothing.
macro_rules! count_key {
    ($field:ident, $default:literal, $summary:literal) => {
        Key {
            name: stringify!($field),
            takes: "whole number from 1",
            summary: $summary,
            default: $default,
            read: |plan, reader, key, value| {
                plan.stream.$field = Some(reader.whole(key, value, 1..=u64::MAX))
            },
            write: |plan| plan.stream.$field.map(|count| count.to_string()),
        }
    };
}

/// What can be said of a stream.
pub const KEYS: &[Key] = &[
    Key {
        name: "name",
        takes: "text of 1 to 64 characters",
        summary: "what the stream is called in results; no two alike",
        default: "stream-N",
        read: |plan, reader, key, value| plan.name = label(reader, key, value),
        write: |plan| Some(written::text(&plan.name)),
    },
    Key {
        name: "class",
        takes: "text of 1 to 64 characters",
        summary: "streams of one class are also summed in results",
        default: "the name",
        read: |plan, reader, key, value| plan.class = Some(label(reader, key, value)),
        write: |plan| plan.class.as_deref().map(written::text),
    },
    Key {
        name: "clients",
        takes: "whole number from 1 to 1000000, or \"depth\"",
        summary: "closed loop: clients that each wait for their request before the next; with a \
            rate too, they ask no faster than that",
        default: "\"depth\" (chosen at each run) without a rate; with one: none, requests come \
            whether or not others are served",
        read: |plan, reader, key, value| {
            plan.clients = Some(if value.get_ref().as_str() == Some("depth") {
                Clients::Depth
            } else {
                Clients::Count(reader.whole(key, value, 1..=1_000_000) as u32)
            });
        },
        write: |plan| {
            plan.clients.map(|clients| match clients {
                Clients::Depth => "\"depth\"".to_string(),
                Clients::Count(count) => count.to_string(),
            })
        },
    },
    Key {
        name: "think",
        takes: "time, or kind",
        summary: "closed loop: time from a client's answer to its next request",
        default: "none",
        read: |plan, reader, key, value| {
            plan.think = if value.get_ref().is_table() {
                reader.kind(key, value, THINKS)
            } else {
                Some(reader.time(key, value)).map(|time| {
                    if time.is_zero() { ThinkTime::None } else { ThinkTime::Constant(time) }
                })
            };
        },
        write: |plan| plan.think.as_ref().map(written::think),
    },
    Key {
        name: "rate",
        takes: "requests per second",
        summary: "open loop: a Poisson process of this rate",
        default: "none",
        read: |plan, reader, key, value| plan.rate = Some(reader.number(key, value, "50")),
        write: |plan| plan.rate.map(written::number),
    },
    Key {
        name: "arrivals",
        takes: "kind",
        summary: "open loop: how requests follow each other, instead of rate",
        default: "none",
        read: |plan, reader, key, value| plan.gaps = reader.kind(key, value, ARRIVALS),
        write: |plan| plan.gaps.as_ref().map(written::gaps),
    },
    share_key!(
        reads,
        "1",
        "share of reads; what reads, zeroes, discards and flushes leave are writes"
    ),
    share_key!(zeroes, "0", "share of requests that write zeroes"),
    share_key!(discards, "0", "share of discards"),
    share_key!(flushes, "0", "share of flushes"),
    share_key!(fua, "0", "share of the writes that must be durable when they complete"),
    count_key!(flush_every, "none", "a flush follows every so many writes"),
    Key {
        name: "size",
        takes: "size, kind, or list of { size, weight }",
        summary: "how long requests are",
        default: "\"4KiB\"",
        read: |plan, reader, key, value| {
            if let Some(sizes) = kinds::sizes(reader, key, value) {
                plan.stream.sizes = sizes;
            }
        },
        write: |plan| Some(written::sizes(&plan.stream.sizes)),
    },
    Key {
        name: "write_size",
        takes: "as size",
        summary: "how long writes, zeroes and discards are",
        default: "as size",
        read: |plan, reader, key, value| plan.stream.write_sizes = kinds::sizes(reader, key, value),
        write: |plan| plan.stream.write_sizes.as_ref().map(written::sizes),
    },
    Key {
        name: "range",
        takes: "\"0%..50%\", \"10GiB..100GiB\" or \"10GiB..\"",
        summary: "the part of the drive that requests lie in",
        default: "all of it",
        read: |plan, reader, key, value| {
            let text = reader.text(key, value, "\"0%..50%\"");
            match range(&text) {
                Ok(range) => plan.range = range,
                Err(message) => reader.mistake(value.span(), message),
            }
        },
        write: |plan| match plan.range {
            Range::Whole => None,
            Range::Shares { from, to } => {
                Some(format!("\"{}..{}\"", written::percent(from), written::percent(to)))
            }
            Range::Bytes { from, to } => Some(format!(
                "\"{}..{}\"",
                written::bytes(from),
                to.map_or_else(String::new, written::bytes)
            )),
        },
    },
    Key {
        name: "place",
        takes: "kind",
        summary: "where in the range a request that continues no run starts",
        default: "\"uniform\"",
        read: |plan, reader, key, value| {
            if let Some(place) = reader.kind(key, value, PLACES) {
                plan.stream.place = place;
            }
        },
        write: |plan| {
            (plan.stream.place != Place::Uniform).then(|| written::place(&plan.stream.place))
        },
    },
    Key {
        name: "align",
        takes: "size, \"size\" or \"sector\"",
        summary: "what starts are multiples of",
        default: "\"size\": of the size, the multiple or the greatest common divisor of the sizes",
        read: |plan, reader, key, value| {
            plan.stream.alignment = match value.get_ref().as_str() {
                Some("size") => Alignment::Size,
                Some("sector") => Alignment::Sector,
                _ => Alignment::Bytes(reader.bytes(key, value)),
            };
        },
        write: |plan| match plan.stream.alignment {
            Alignment::Size => None,
            Alignment::Sector => Some("\"sector\"".to_string()),
            Alignment::Bytes(bytes) => Some(written::quoted_bytes(bytes)),
        },
    },
    Key {
        name: "run",
        takes: "kind",
        summary: "how many requests follow each other by address before the next place",
        default: "\"random\"",
        read: |plan, reader, key, value| {
            if let Some(order) = reader.kind(key, value, RUNS) {
                plan.stream.order = order;
            }
        },
        write: |plan| {
            (plan.stream.order != crate::order::Order::Random)
                .then(|| written::order(&plan.stream.order))
        },
    },
    Key {
        name: "positions",
        takes: "whole number from 1",
        summary: "how many runs the clients continue together; 1: the stream's requests make one \
            run, whoever asks",
        default: "one for each client",
        read: |plan, reader, key, value| {
            plan.stream.positions = Some(reader.whole(key, value, 1..=1_000_000) as u32)
        },
        write: |plan| plan.stream.positions.map(|positions| positions.to_string()),
    },
    Key {
        name: "separate_runs",
        takes: "true or false",
        summary: "whether reads and writes each continue runs of their own",
        default: "false",
        read: |plan, reader, key, value| plan.stream.separate_runs = reader.truth(key, value),
        write: |plan| plan.stream.separate_runs.then(|| "true".to_string()),
    },
    Key {
        name: "deadline",
        takes: "time",
        summary: "each request is to be complete so long after its arrival",
        default: "none",
        read: |plan, reader, key, value| plan.stream.deadline = Some(reader.time(key, value)),
        write: |plan| plan.stream.deadline.map(written::time),
    },
    Key {
        name: "start",
        takes: "time",
        summary: "when the stream begins",
        default: "0",
        read: |plan, reader, key, value| plan.stream.start = reader.time(key, value),
        write: |plan| (!plan.stream.start.is_zero()).then(|| written::time(plan.stream.start)),
    },
    Key {
        name: "stop",
        takes: "time",
        summary: "when it stops asking",
        default: "never",
        read: |plan, reader, key, value| plan.stream.stop = Some(reader.time(key, value)),
        write: |plan| plan.stream.stop.map(written::time),
    },
    count_key!(requests, "no limit", "it stops after so many requests"),
    Key {
        name: "bytes",
        takes: "size",
        summary: "it stops once it has asked for so many bytes",
        default: "no limit",
        read: |plan, reader, key, value| plan.stream.bytes = Some(reader.bytes(key, value)),
        write: |plan| plan.stream.bytes.map(written::quoted_bytes),
    },
];

pub(super) fn label(reader: &mut Reader, key: &str, value: &Value<'_>) -> String {
    let text = reader.text(key, value, "\"recorder\"");
    let letters = text.chars().count();
    if value.get_ref().as_str().is_some()
        && (!(1..=64).contains(&letters) || text.chars().any(char::is_control))
    {
        reader.mistake(
            value.span(),
            format_args!(
                "{key} has {letters} characters, expected 1 to 64, none of them a control \
                character; choose another"
            ),
        );
    }
    text
}

/// `FROM..TO`, both in percent or both in bytes; bytes may leave the end open.
fn range(text: &str) -> Result<Range, String> {
    let expected = || {
        format!(
            "range is \"{text}\", expected \"0%..50%\", \"10GiB..100GiB\" or \"10GiB..\"; the \
                first must lie before the second"
        )
    };
    let (from, to) = text.split_once("..").ok_or_else(expected)?;
    if to.ends_with('%') {
        // The start may leave its sign out, because 0 needs none.
        let from = if from.ends_with('%') { from.to_string() } else { format!("{from}%") };
        let (from, to) =
            (parse_share(&from).map_err(|_| expected())?, parse_share(to).map_err(|_| expected())?);
        return if from < to {
            Ok(Range::Shares { from: from.as_fraction(), to: to.as_fraction() })
        } else {
            Err(expected())
        };
    }
    let from = parse_bytes(from).map_err(|_| expected())?.get();
    let to =
        if to.is_empty() { None } else { Some(parse_bytes(to).map_err(|_| expected())?.get()) };
    if to.is_none_or(|to| from < to) { Ok(Range::Bytes { from, to }) } else { Err(expected()) }
}
