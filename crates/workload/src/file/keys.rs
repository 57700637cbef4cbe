//! [`KEYS`]: the keys of a stream.

use alloc::format;
use alloc::string::{String, ToString};

use headtime_config::{Key, Value, ValueErrors};
use headtime_units::{Share, parse_bytes, parse_share};

use super::kinds::{self, ARRIVALS, PLACES, RUNS, THINKS};
use super::plan::{Clients, Range, StreamPlan};
use super::processes::PROCESSES;
use super::service;
use crate::arrivals::ThinkTime;
use crate::config::Alignment;

/// A share of the mix: reads, zeroes, discards, flushes or fua.
macro_rules! share_key {
    ($field:ident, $default:literal, $summary:literal) => {
        Key {
            name: stringify!($field),
            takes: "share, 0.7 or \"70%\"",
            summary: $summary,
            default: $default,
            set: |plan, value| value.fraction().map(|share| plan.stream.mix.$field = share),
        }
    };
}

/// A whole number from 1, or none.
macro_rules! count_key {
    ($field:ident, $default:literal, $summary:literal) => {
        Key {
            name: stringify!($field),
            takes: "whole number from 1",
            summary: $summary,
            default: $default,
            set: |plan, value| {
                value.whole(1..=u64::MAX).map(|count| plan.stream.$field = Some(count))
            },
        }
    };
}

/// The keys of a stream.
pub const KEYS: &[Key<StreamPlan>] = &[
    Key {
        name: "name",
        takes: "text of 1 to 64 characters",
        summary: "name of the stream in results; each stream has another",
        default: "stream-N",
        set: |plan, value| label(value).map(|name| plan.name = name),
    },
    Key {
        name: "class",
        takes: "text of 1 to 64 characters",
        summary: "class of the stream; results also show the sum of each class",
        default: "the name",
        set: |plan, value| label(value).map(|class| plan.class = Some(class)),
    },
    Key {
        name: "clients",
        takes: "whole number from 1 to 1000000, or \"depth\"",
        summary: "closed loop: number of clients, each of which waits for its request before the \
            next one; with a rate too, they send no faster than the rate",
        default: "\"depth\" (chosen for each run) without a rate; with a rate none: requests \
            arrive whether or not others are complete",
        set: |plan, value| {
            plan.clients = Some(match value.as_text() {
                Some("depth") => Clients::Depth,
                _ => Clients::Count(value.count(1..=1_000_000)?),
            });
            Ok(())
        },
    },
    Key {
        name: "process",
        takes: "kind",
        summary: "the clients are processes that use files through a page cache; size is then the \
            size of their calls, think the time between them, and keys of operations and addresses \
            have no meaning",
        default: "none: clients submit the requests themselves",
        set: |plan, value| {
            kinds::read(value, PROCESSES).map(|process| plan.stream.process = Some(process))
        },
    },
    Key {
        name: "think",
        takes: "time, or kind",
        summary: "closed loop: time from a client's completion to its next request",
        default: "none",
        set: |plan, value| {
            plan.think = Some(if value.is_table() {
                kinds::read(value, THINKS)?
            } else {
                match value.time()? {
                    time if time.is_zero() => ThinkTime::None,
                    time => ThinkTime::Constant(time),
                }
            });
            Ok(())
        },
    },
    Key {
        name: "rate",
        takes: "requests per second",
        summary: "open loop: a Poisson process of this rate",
        default: "none",
        set: |plan, value| value.number().map(|rate| plan.rate = Some(rate)),
    },
    Key {
        name: "arrivals",
        takes: "kind",
        summary: "open loop: times between requests, instead of rate",
        default: "none",
        set: |plan, value| kinds::read(value, ARRIVALS).map(|gaps| plan.gaps = Some(gaps)),
    },
    share_key!(
        reads,
        "1",
        "share of reads; all requests but reads, zeroes, discards and flushes are writes"
    ),
    share_key!(zeroes, "0", "share of requests that write zeroes"),
    share_key!(discards, "0", "share of discards"),
    share_key!(flushes, "0", "share of flushes"),
    share_key!(fua, "0", "share of the writes that must be durable when they complete"),
    count_key!(flush_every, "none", "a flush follows each group of this many writes"),
    Key {
        name: "size",
        takes: "size, kind, or list of { size, weight }",
        summary: "size of the requests",
        default: "\"4KiB\"",
        set: |plan, value| kinds::sizes(value).map(|sizes| plan.stream.sizes = sizes),
    },
    Key {
        name: "write_size",
        takes: "as size",
        summary: "size of writes, zeroes and discards",
        default: "as size",
        set: |plan, value| kinds::sizes(value).map(|sizes| plan.stream.write_sizes = Some(sizes)),
    },
    Key {
        name: "range",
        takes: "\"0%..50%\", \"10GiB..100GiB\" or \"10GiB..\"",
        summary: "the part of the drive that requests access",
        default: "all of it",
        set: |plan, value| {
            let text = value.text()?;
            plan.range = range(text).ok_or_else(|| {
                value.error(format!(
                    "range is \"{text}\", expected \"0%..50%\", \"10GiB..100GiB\" or \"10GiB..\"; \
                        the first must lie before the second"
                ))
            })?;
            Ok(())
        },
    },
    Key {
        name: "place",
        takes: "kind",
        summary: "distribution of start addresses over the range, for requests that continue no \
            run",
        default: "\"uniform\"",
        set: |plan, value| kinds::read(value, PLACES).map(|place| plan.stream.place = place),
    },
    Key {
        name: "align",
        takes: "size, \"size\" or \"sector\"",
        summary: "start addresses are multiples of this",
        default: "\"size\": of the size, the multiple or the greatest common divisor of the sizes",
        set: |plan, value| {
            plan.stream.alignment = match value.as_text() {
                Some("size") => Alignment::Size,
                Some("sector") => Alignment::Sector,
                _ => Alignment::Bytes(value.size()?.get()),
            };
            Ok(())
        },
    },
    Key {
        name: "run",
        takes: "kind",
        summary: "number of requests at consecutive addresses",
        default: "\"random\"",
        set: |plan, value| kinds::read(value, RUNS).map(|order| plan.stream.order = order),
    },
    Key {
        name: "positions",
        takes: "whole number from 1",
        summary: "number of runs that the clients continue together; 1: all requests of the stream \
            make one run",
        default: "one for each client",
        set: |plan, value| {
            value.count(1..=1_000_000).map(|count| plan.stream.positions = Some(count))
        },
    },
    Key {
        name: "separate_runs",
        takes: "true or false",
        summary: "reads and writes continue separate runs",
        default: "false",
        set: |plan, value| value.boolean().map(|separate| plan.stream.separate_runs = separate),
    },
    Key {
        name: "deadline",
        takes: "time",
        summary: "time from arrival in which a request is to complete",
        default: "none",
        set: |plan, value| value.time().map(|time| plan.stream.deadline = Some(time)),
    },
    Key {
        name: "reserve",
        takes: "share, 0.25 or \"25%\"",
        summary: "guaranteed share of disk time, whenever the stream has requests",
        default: "none",
        set: |plan, value| share(value).map(|share| plan.terms.reserve = share),
    },
    Key {
        name: "limit",
        takes: "share, 0.5 or \"50%\"",
        summary: "maximum share of disk time, even when no other stream has requests",
        default: "none",
        set: |plan, value| share(value).map(|share| plan.terms.limit = Some(share)),
    },
    Key {
        name: "weight",
        takes: "whole number from 1 to 1000",
        summary: "part of unreserved disk time beside streams of the same priority",
        default: "1",
        set: |plan, value| {
            value.count(1..=1_000).map(|weight| plan.terms.weight = Some(weight as u16))
        },
    },
    Key {
        name: "burst",
        takes: "time",
        summary: "time for which the stream may save up unused reserve and limit",
        default: "1s",
        set: |plan, value| value.positive_time().map(|time| plan.terms.burst = Some(time)),
    },
    Key {
        name: "iops_limit",
        takes: "whole number from 1",
        summary: "maximum requests per second",
        default: "none",
        set: |plan, value| {
            value.count(1..=u32::MAX).map(|limit| plan.terms.iops_limit = Some(limit))
        },
    },
    Key {
        name: "bandwidth_limit",
        takes: "size a second",
        summary: "maximum bytes per second",
        default: "none",
        set: |plan, value| value.size().map(|size| plan.terms.bandwidth_limit = Some(size.get())),
    },
    Key {
        name: "priority",
        takes: "rt, be or idle, optionally with a level such as rt/2",
        summary: "I/O priority: decides the order in unreserved time, and the deadline if the \
            tunable `deadlines` has one for it and the stream has none",
        default: "\"be\"",
        set: |plan, value| {
            service::priority(value).map(|priority| plan.terms.priority = Some(priority))
        },
    },
    Key {
        name: "start",
        takes: "time",
        summary: "start of the stream",
        default: "0",
        set: |plan, value| value.time().map(|time| plan.stream.start = time),
    },
    Key {
        name: "stop",
        takes: "time",
        summary: "end of the stream",
        default: "never",
        set: |plan, value| value.time().map(|time| plan.stream.stop = Some(time)),
    },
    count_key!(requests, "no limit", "the stream ends after this many requests"),
    Key {
        name: "bytes",
        takes: "size",
        summary: "the stream ends after requests for this many bytes",
        default: "no limit",
        set: |plan, value| value.size().map(|size| plan.stream.bytes = Some(size.get())),
    },
];

/// A share of disk time.
fn share(value: &Value<'_>) -> Result<Share, ValueErrors> {
    let share = Share::from_fraction(value.fraction()?);
    share.ok_or_else(|| value.unexpected("a share from 0 to 1", "0.25"))
}

/// A name of a stream, a class or a volume.
pub(super) fn label(value: &Value<'_>) -> Result<String, ValueErrors> {
    let text = value.text()?;
    let length = text.chars().count();
    if (1..=64).contains(&length) && !text.chars().any(char::is_control) {
        return Ok(text.to_string());
    }
    Err(value.error(format!(
        "{} has {length} characters, expected 1 to 64, none of them a control character; choose \
            another",
        value.key()
    )))
}

/// `FROM..TO`, both in percent or both in bytes; bytes may leave the end open.
fn range(text: &str) -> Option<Range> {
    let (from, to) = text.split_once("..")?;
    if to.ends_with('%') {
        // The start needs no sign where it is 0.
        let share = |text: &str| parse_share(&format!("{}%", text.trim_end_matches('%'))).ok();
        let (from, to) = (share(from)?, share(to)?);
        return (from < to)
            .then(|| Range::Shares { from: from.as_fraction(), to: to.as_fraction() });
    }
    let from = parse_bytes(from).ok()?.get();
    let to = if to.is_empty() { None } else { Some(parse_bytes(to).ok()?.get()) };
    to.is_none_or(|to| from < to).then_some(Range::Bytes { from, to })
}
