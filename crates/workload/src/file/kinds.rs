//! The tables of kinds: what `size`, `place`, `run`, `arrivals` and `think` may be. Reader, writer,
//! documentation and tests iterate over them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::Nanos;

use super::reader::{Fields, Reader, Value};
use crate::arrivals::{Interarrival, Phase, ThinkTime};
use crate::order::Order;
use crate::place::{Chunks, Distance, HotSpot, Place};
use crate::sizes::{SizeWeight, Sizes};

/// One kind of value: `{ kind = "NAME", … }`.
pub struct Kind<T> {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Its other keys.
    pub keys: &'static [FieldHelp],
    pub(crate) read: fn(&mut Fields<'_, '_>) -> T,
}

/// What is to be known of a key.
#[derive(Clone, Copy, Debug)]
pub struct FieldHelp {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like.
    pub takes: &'static str,
    /// What it is when left out.
    pub default: &'static str,
}

const fn field(name: &'static str, takes: &'static str, default: &'static str) -> FieldHelp {
    FieldHelp { name, takes, default }
}

/// No default.
const NEEDED: &str = "must be given";
/// Popularity is dealt out to parts of this size unless the file says otherwise: about two tracks
/// of a drive of today. A guess.
const CHUNK: u64 = 1 << 20;
/// Sixteen times the middle of the sizes cuts off next to nothing.
const MAX_OVER_MIDDLE: u64 = 16;

const CHUNK_KEY: FieldHelp = field("chunk", "size", "1MiB");
const ORDERED_KEY: FieldHelp = field(
    "ordered",
    "true: the most popular chunks lie first; false: scattered by the seed",
    "false",
);

/// The entries of a list of sizes.
pub const SIZE_ENTRY: &[FieldHelp] =
    &[field("size", "size", NEEDED), field("weight", "number above 0", "1")];
/// The entries of a list of hot spots.
pub const SPOT_ENTRY: &[FieldHelp] = &[
    field("requests", "share of the requests", NEEDED),
    field("space", "share of the range", NEEDED),
];

/// What `size` and `write_size` may be, beside one size and a list of sizes.
pub const SIZES: &[Kind<Sizes>] = &[
    Kind {
        name: "fixed",
        summary: "all of one size; the size alone means the same",
        keys: &[field("size", "size", NEEDED)],
        read: |fields| Sizes::Fixed { bytes: fields.needed("size", 4_096, Reader::bytes) },
    },
    Kind {
        name: "uniform",
        summary: "each multiple from the least to the most with the same probability",
        keys: &[
            field("least", "size", "the multiple"),
            field("most", "size", NEEDED),
            field("multiple", "size", "4KiB"),
        ],
        read: |fields| {
            let multiple_bytes = fields.or("multiple", 4_096, Reader::bytes);
            Sizes::Uniform {
                min_bytes: fields.or("least", multiple_bytes, Reader::bytes),
                max_bytes: fields.needed("most", multiple_bytes, Reader::bytes),
                multiple_bytes,
            }
        },
    },
    Kind {
        name: "exponential",
        summary: "P(n multiples) = q (1 − q)^(n − 1), q = multiple / mean; what exceeds the most \
            becomes the most",
        keys: &[
            field("mean", "size", NEEDED),
            field("multiple", "size", "4KiB"),
            field("most", "size", "16 times the mean, in multiples"),
        ],
        read: |fields| {
            let multiple_bytes = fields.or("multiple", 4_096, Reader::bytes);
            let mean_bytes = fields.needed("mean", 2 * multiple_bytes, Reader::bytes);
            Sizes::Exponential {
                mean_bytes,
                multiple_bytes,
                max_bytes: fields.or("most", max_of(mean_bytes, multiple_bytes), Reader::bytes),
            }
        },
    },
    Kind {
        name: "lognormal",
        summary: "median · e^(spread · z), z standard normal, rounded to the nearest multiple, at \
            least one; what exceeds the most becomes the most",
        keys: &[
            field("median", "size", NEEDED),
            field("spread", "number from 0 to 5", "1"),
            field("multiple", "size", "4KiB"),
            field("most", "size", "16 times the median, in multiples"),
        ],
        read: |fields| {
            let multiple_bytes = fields.or("multiple", 4_096, Reader::bytes);
            let median_bytes = fields.needed("median", multiple_bytes, Reader::bytes);
            Sizes::LogNormal {
                median_bytes,
                spread: fields
                    .or("spread", 1.0, |reader, key, value| reader.number(key, value, "1.0")),
                multiple_bytes,
                max_bytes: fields.or("most", max_of(median_bytes, multiple_bytes), Reader::bytes),
            }
        },
    },
];

fn max_of(middle: u64, multiple: u64) -> u64 {
    middle.saturating_mul(MAX_OVER_MIDDLE) / multiple.max(1) * multiple
}

/// What `place` may be.
pub const PLACES: &[Kind<Place>] = &[
    Kind {
        name: "uniform",
        summary: "anywhere in the range, evenly distributed",
        keys: &[],
        read: |_| Place::Uniform,
    },
    Kind {
        name: "fixed",
        summary: "one of a few starts, the same for every seed",
        keys: &[
            field("places", "number from 1 to the sectors of the range", NEEDED),
            field("set", "number; another has other starts", "0"),
        ],
        read: |fields| Place::Fixed {
            places: fields.needed("places", 1, count),
            set: fields.or("set", 0, |reader, key, value| reader.whole(key, value, 0..=u64::MAX)),
        },
    },
    Kind {
        name: "zipf",
        summary: "P(chunk of rank k) ∝ k^(−theta), evenly within the chunk",
        keys: &[field("theta", "number from 0.01 to 10", "0.99"), CHUNK_KEY, ORDERED_KEY],
        read: |fields| Place::Zipf {
            theta: fields.or("theta", 0.99, |reader, key, value| reader.number(key, value, "0.99")),
            chunks: chunks(fields),
        },
    },
    Kind {
        name: "self-similar",
        summary: "rank = chunks · u^(ln h / ln (1 − h)): the share h of the chunks takes 1 − h of \
            the requests, at every scale",
        keys: &[field("share", "share h, 0.001 to 0.5", "0.2"), CHUNK_KEY, ORDERED_KEY],
        read: |fields| Place::SelfSimilar {
            share: fields.or("share", 0.2, Reader::share),
            chunks: chunks(fields),
        },
    },
    Kind {
        name: "hot-spots",
        summary: "regions one behind the other, each with a share of the requests and of the \
            range; the rest goes to the rest",
        keys: &[field("spots", "list of { requests = SHARE, space = SHARE }", NEEDED)],
        read: |fields| Place::HotSpots(fields.needed("spots", Vec::new(), spots)),
    },
    Kind {
        name: "normal",
        summary: "normally distributed around a center, cut off at the ends of the range",
        keys: &[
            field("center", "share of the range", "0.5"),
            field("deviation", "share of the range, 0.0001 to 1", "0.1"),
        ],
        read: |fields| Place::Normal {
            center: fields.or("center", 0.5, Reader::share),
            deviation: fields.or("deviation", 0.1, Reader::share),
        },
    },
    Kind {
        name: "near",
        summary: "before or behind the client's last request by a geometrically distributed \
            distance, mirrored at the ends of the range",
        keys: &[
            field("mean", "size, or share of the range such as \"1%\"", NEEDED),
            field("jumps", "share of requests that go anywhere", "0"),
        ],
        read: |fields| Place::Near {
            mean: fields.needed("mean", Distance::Share(0.01), distance),
            jumps: fields.or("jumps", 0.0, Reader::share),
        },
    },
];

/// What `run` may be.
pub const RUNS: &[Kind<Order>] = &[
    Kind {
        name: "random",
        summary: "no runs: each request where place says",
        keys: &[],
        read: |_| Order::Random,
    },
    Kind {
        name: "geometric",
        summary: "P(n requests) = q (1 − q)^(n − 1), q = 1 / mean",
        keys: &[field("mean", "number of requests from 1", NEEDED)],
        read: |fields| Order::Runs {
            mean_requests: fields
                .needed("mean", 1.0, |reader, key, value| reader.number(key, value, "8")),
        },
    },
    Kind {
        name: "fixed",
        summary: "always so many requests",
        keys: &[field("requests", "whole number from 1", NEEDED)],
        read: |fields| Order::FixedRuns { requests: fields.needed("requests", 1, count) },
    },
    Kind {
        name: "uniform",
        summary: "each number of requests from the least to the most with the same probability",
        keys: &[
            field("least", "whole number from 1", "1"),
            field("most", "whole number from 1", NEEDED),
        ],
        read: |fields| Order::UniformRuns {
            least: fields.or("least", 1, count),
            most: fields.needed("most", 1, count),
        },
    },
    Kind {
        name: "sequential",
        summary: "through the range and from its start again; clients start evenly spread",
        keys: &[],
        read: |_| Order::Sequential,
    },
    Kind {
        name: "strided",
        summary: "as sequential, with a hole behind each request",
        keys: &[field("gap", "size", NEEDED)],
        read: |fields| Order::Strided { gap_bytes: fields.needed("gap", 4_096, Reader::bytes) },
    },
];

const RATE_KEY: FieldHelp = field("rate", "requests per second", NEEDED);

/// What `arrivals` may be.
pub const ARRIVALS: &[Kind<Interarrival>] = &[
    Kind {
        name: "poisson",
        summary: "exponential gaps with the mean 1 / rate; `rate` alone means the same",
        keys: &[RATE_KEY],
        read: |fields| Interarrival::Poisson { per_second: rate(fields) },
    },
    Kind {
        name: "constant",
        summary: "one request in every 1 / rate",
        keys: &[RATE_KEY],
        read: |fields| constant(rate(fields)),
    },
    Kind {
        name: "bursts",
        summary: "Poisson at the rate while on, nothing while off; on at the start",
        keys: &[
            field("rate", "requests per second while on", NEEDED),
            field("on", "time", NEEDED),
            field("off", "time", NEEDED),
            field(
                "phases",
                "\"exponential\" (on and off are means) or \"constant\"",
                "\"exponential\"",
            ),
        ],
        read: |fields| {
            let per_second = rate(fields);
            let (on, off) = (
                fields.needed("on", Nanos::from_ms(1), Reader::time),
                fields.needed("off", Nanos::from_ms(1), Reader::time),
            );
            let exponential =
                fields.or("phases", true, |reader, key, value| match value.get_ref().as_str() {
                    Some("exponential") => true,
                    Some("constant") => false,
                    _ => {
                        reader.mistake(
                            value.span(),
                            format_args!(
                                "{key} is neither \"exponential\" \
                        nor \"constant\"; write one of the two"
                            ),
                        );
                        true
                    }
                });
            let phase = if exponential { Phase::Exponential } else { Phase::Constant };
            Interarrival::Bursts { per_second, on: phase(on), off: phase(off) }
        },
    },
    Kind {
        name: "pareto",
        summary: "P(gap > x) = (least / x)^shape with the mean 1 / rate: bursts at every scale \
            where the shape is below 2",
        keys: &[RATE_KEY, field("shape", "number from 1.01 to 10", "1.5")],
        read: |fields| Interarrival::Pareto {
            per_second: rate(fields),
            shape: fields.or("shape", 1.5, |reader, key, value| reader.number(key, value, "1.5")),
        },
    },
    Kind {
        name: "cascade",
        summary: "the b-model: of each window's requests the share `bias` falls into one half, \
            chosen by a coin, and so on for halves of halves",
        keys: &[
            RATE_KEY,
            field("bias", "number from 0.5 to 0.99", "0.7"),
            field("window", "time", "60s"),
            field("levels", "how often it is halved, 1 to 20", "12"),
        ],
        read: |fields| Interarrival::Cascade {
            per_second: rate(fields),
            bias: fields.or("bias", 0.7, |reader, key, value| reader.number(key, value, "0.7")),
            window: fields.or("window", Nanos::from_secs(60), Reader::time),
            levels: fields.or("levels", 12, |reader, key, value| reader.whole(key, value, 1..=20))
                as u32,
        },
    },
];

/// What `think` may be, beside a constant time.
pub const THINKS: &[Kind<ThinkTime>] = &[
    Kind {
        name: "constant",
        summary: "always this long; the time alone means the same",
        keys: &[field("time", "time", NEEDED)],
        read: |fields| ThinkTime::Constant(fields.needed("time", Nanos::from_ms(1), Reader::time)),
    },
    Kind {
        name: "exponential",
        summary: "exponentially distributed",
        keys: &[field("mean", "time", NEEDED)],
        read: |fields| {
            ThinkTime::Exponential(fields.needed("mean", Nanos::from_ms(1), Reader::time))
        },
    },
    Kind {
        name: "uniform",
        summary: "every time from the least to the most with the same probability",
        keys: &[field("least", "time", "0"), field("most", "time", NEEDED)],
        read: |fields| ThinkTime::Uniform {
            least: fields.or("least", Nanos::ZERO, Reader::time),
            most: fields.needed("most", Nanos::from_ms(1), Reader::time),
        },
    },
];

fn rate(fields: &mut Fields<'_, '_>) -> f64 {
    fields.needed("rate", 1.0, |reader, key, value| reader.number(key, value, "50"))
}

/// A constant rate as the gap it makes; what cannot be is left to the checks of the stream.
pub(crate) fn constant(per_second: f64) -> Interarrival {
    Interarrival::Constant(Nanos::from_ms_f64(1e3 / per_second).unwrap_or(Nanos::MAX))
}

fn count(reader: &mut Reader, key: &str, value: &Value<'_>) -> u64 {
    reader.whole(key, value, 1..=u64::MAX)
}

fn chunks(fields: &mut Fields<'_, '_>) -> Chunks {
    Chunks {
        bytes: fields.or("chunk", CHUNK, Reader::bytes),
        ordered: fields.or("ordered", false, Reader::truth),
    }
}

fn distance(reader: &mut Reader, key: &str, value: &Value<'_>) -> Distance {
    match value.get_ref().as_str() {
        Some(text) if text.ends_with('%') => Distance::Share(reader.share(key, value)),
        _ => Distance::Bytes(reader.bytes(key, value)),
    }
}

fn spots(reader: &mut Reader, key: &str, value: &Value<'_>) -> Vec<HotSpot> {
    let tables = reader.tables(key, value, SPOT_ENTRY);
    let read = |(table, at): (&toml::de::DeTable<'_>, core::ops::Range<usize>)| {
        let mut share = |name: &str| match table.get(name) {
            Some(value) => reader.share(&format!("{key}.{name}"), value),
            None => {
                reader.mistake(at.clone(), format_args!("an entry of {key} needs {name}; add it"));
                0.5
            }
        };
        HotSpot { requests: share("requests"), space: share("space") }
    };
    tables.into_iter().map(read).collect()
}

/// `size` and `write_size`: one size, a list of sizes with weights, or a table.
pub(crate) fn sizes(reader: &mut Reader, key: &str, value: &Value<'_>) -> Option<Sizes> {
    match value.get_ref() {
        toml::de::DeValue::Table(_) => reader.kind(key, value, SIZES),
        toml::de::DeValue::Array(_) => {
            let tables = reader.tables(key, value, SIZE_ENTRY);
            let mut weighted = Vec::new();
            for (table, at) in tables {
                let Some(size) = table.get("size") else {
                    reader.mistake(at, format_args!("an entry of {key} needs size; add it"));
                    continue;
                };
                let bytes = reader.bytes(&format!("{key}.size"), size);
                let weight = table
                    .get("weight")
                    .map_or(1.0, |weight| reader.number(&format!("{key}.weight"), weight, "2"));
                weighted.push(SizeWeight { bytes, weight });
            }
            Some(Sizes::Weighted(weighted))
        }
        _ => Some(Sizes::Fixed { bytes: reader.bytes(key, value) }),
    }
}

/// A value as TOML that reads back the same.
pub(crate) mod written {
    use super::*;

    pub(crate) fn bytes(bytes: u64) -> String {
        for (unit, name) in
            [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        {
            if bytes.is_multiple_of(unit) && bytes > 0 {
                return format!("{}{name}", bytes / unit);
            }
        }
        bytes.to_string()
    }

    pub(crate) fn quoted_bytes(size: u64) -> String {
        format!("\"{}\"", bytes(size))
    }

    pub(crate) fn time(span: Nanos) -> String {
        let ns = span.as_ns();
        for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
            if ns.is_multiple_of(unit) && ns > 0 {
                return format!("\"{}{name}\"", ns / unit);
            }
        }
        format!("\"{ns}ns\"")
    }

    /// TOML wants a point or an exponent in a float, and so does whoever reads a share.
    pub(crate) fn number(number: f64) -> String {
        format!("{number:?}")
    }

    pub(crate) fn text(text: &str) -> String {
        toml::Value::String(text.to_string()).to_string()
    }

    fn table(kind: &str, fields: &[(&str, String)]) -> String {
        let fields: Vec<String> =
            fields.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
        format!("{{ kind = \"{kind}\"{} }}", fields.concat())
    }

    pub(crate) fn sizes(sizes: &Sizes) -> String {
        match sizes {
            Sizes::Fixed { bytes } => quoted_bytes(*bytes),
            Sizes::Weighted(weighted) => {
                let entry = |entry: &SizeWeight| {
                    format!(
                        "{{ size = {}, weight = {} }}",
                        quoted_bytes(entry.bytes),
                        number(entry.weight)
                    )
                };
                format!("[{}]", weighted.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            Sizes::Uniform { min_bytes, max_bytes, multiple_bytes } => table(
                "uniform",
                &[
                    ("least", quoted_bytes(*min_bytes)),
                    ("most", quoted_bytes(*max_bytes)),
                    ("multiple", quoted_bytes(*multiple_bytes)),
                ],
            ),
            Sizes::Exponential { mean_bytes, multiple_bytes, max_bytes } => table(
                "exponential",
                &[
                    ("mean", quoted_bytes(*mean_bytes)),
                    ("multiple", quoted_bytes(*multiple_bytes)),
                    ("most", quoted_bytes(*max_bytes)),
                ],
            ),
            Sizes::LogNormal { median_bytes, spread, multiple_bytes, max_bytes } => table(
                "lognormal",
                &[
                    ("median", quoted_bytes(*median_bytes)),
                    ("spread", number(*spread)),
                    ("multiple", quoted_bytes(*multiple_bytes)),
                    ("most", quoted_bytes(*max_bytes)),
                ],
            ),
        }
    }

    pub(crate) fn place(place: &Place) -> String {
        let skewed = |kind, key, value, chunks: Chunks| {
            table(
                kind,
                &[
                    (key, number(value)),
                    ("chunk", quoted_bytes(chunks.bytes)),
                    ("ordered", chunks.ordered.to_string()),
                ],
            )
        };
        match place {
            Place::Uniform => table("uniform", &[]),
            Place::Fixed { places, set } => {
                table("fixed", &[("places", places.to_string()), ("set", set.to_string())])
            }
            Place::Zipf { theta, chunks } => skewed("zipf", "theta", *theta, *chunks),
            Place::SelfSimilar { share, chunks } => {
                skewed("self-similar", "share", *share, *chunks)
            }
            Place::HotSpots(spots) => {
                let entry = |spot: &HotSpot| {
                    format!(
                        "{{ requests = {}, space = {} }}",
                        number(spot.requests),
                        number(spot.space)
                    )
                };
                table(
                    "hot-spots",
                    &[(
                        "spots",
                        format!("[{}]", spots.iter().map(entry).collect::<Vec<_>>().join(", ")),
                    )],
                )
            }
            Place::Normal { center, deviation } => {
                table("normal", &[("center", number(*center)), ("deviation", number(*deviation))])
            }
            Place::Near { mean, jumps } => {
                let mean = match mean {
                    Distance::Bytes(size) => quoted_bytes(*size),
                    Distance::Share(share) => format!("\"{}\"", percent(*share)),
                };
                table("near", &[("mean", mean), ("jumps", number(*jumps))])
            }
        }
    }

    /// A share in percent, with the seven decimals that shares have.
    pub(crate) fn percent(share: f64) -> String {
        let percent = format!("{:.7}", share * 100.0);
        format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
    }

    pub(crate) fn order(order: &Order) -> String {
        match order {
            Order::Random => table("random", &[]),
            Order::Runs { mean_requests } => {
                table("geometric", &[("mean", number(*mean_requests))])
            }
            Order::FixedRuns { requests } => table("fixed", &[("requests", requests.to_string())]),
            Order::UniformRuns { least, most } => {
                table("uniform", &[("least", least.to_string()), ("most", most.to_string())])
            }
            Order::Sequential => table("sequential", &[]),
            Order::Strided { gap_bytes } => table("strided", &[("gap", quoted_bytes(*gap_bytes))]),
        }
    }

    pub(crate) fn gaps(gaps: &Interarrival) -> String {
        let rate = |per_second: &f64| ("rate", number(*per_second));
        match gaps {
            Interarrival::Poisson { per_second } => table("poisson", &[rate(per_second)]),
            Interarrival::Constant(gap) => table("constant", &[rate(&(1e9 / gap.as_ns() as f64))]),
            Interarrival::Bursts { per_second, on, off } => {
                let (Phase::Constant(on_time) | Phase::Exponential(on_time)) = on;
                let (Phase::Constant(off_time) | Phase::Exponential(off_time)) = off;
                let phases = if matches!(on, Phase::Constant(_)) {
                    "\"constant\""
                } else {
                    "\"exponential\""
                };
                table(
                    "bursts",
                    &[
                        rate(per_second),
                        ("on", time(*on_time)),
                        ("off", time(*off_time)),
                        ("phases", phases.to_string()),
                    ],
                )
            }
            Interarrival::Pareto { per_second, shape } => {
                table("pareto", &[rate(per_second), ("shape", number(*shape))])
            }
            Interarrival::Cascade { per_second, bias, window, levels } => table(
                "cascade",
                &[
                    rate(per_second),
                    ("bias", number(*bias)),
                    ("window", time(*window)),
                    ("levels", levels.to_string()),
                ],
            ),
        }
    }

    pub(crate) fn think(think: &ThinkTime) -> String {
        match think {
            ThinkTime::None => "\"0\"".to_string(),
            ThinkTime::Constant(span) => time(*span),
            ThinkTime::Exponential(mean) => table("exponential", &[("mean", time(*mean))]),
            ThinkTime::Uniform { least, most } => {
                table("uniform", &[("least", time(*least)), ("most", time(*most))])
            }
        }
    }
}
