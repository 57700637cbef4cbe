//! The tables of kinds: the values of `size`, `place`, `run`, `arrivals` and `think`.

use alloc::format;
use alloc::vec::Vec;

use headtime_config::{REQUIRED, Value, ValueErrors};
use headtime_units::Nanos;

use crate::arrivals::{Interarrival, Phase, ThinkTime};
use crate::order::Order;
use crate::place::{AddressPattern, Chunks, Distance, HotSpot};
use crate::sizes::{SizeWeight, Sizes};

/// The key of a phase and its constructor.
type NamedPhase = (&'static str, fn(Nanos) -> Phase);

pub(super) type Result<T> = core::result::Result<T, ValueErrors>;

/// One kind of value: `{ kind = "NAME", … }`.
pub struct Kind<T> {
    /// The name.
    pub name: &'static str,
    /// The meaning, in one line.
    pub summary: &'static str,
    /// The other keys of the table.
    pub keys: &'static [FieldHelp],
    pub(super) read: fn(&Value<'_>) -> Result<T>,
}

/// The description of a key of a kind.
#[derive(Clone, Copy, Debug)]
pub struct FieldHelp {
    /// The name.
    pub name: &'static str,
    /// The form of the value.
    pub takes: &'static str,
    /// The value when the key is left out.
    pub default: &'static str,
}

pub(super) const fn field(
    name: &'static str,
    takes: &'static str,
    default: &'static str,
) -> FieldHelp {
    FieldHelp { name, takes, default }
}

/// Default size of the chunks that have a popularity: about two tracks of a current drive. A guess.
const CHUNK: u64 = 1 << 20;
/// Default ratio of the largest size to the mean or median; it cuts off next to nothing.
const MAX_OVER_MEAN: u64 = 16;

const CHUNK_KEY: FieldHelp = field("chunk", "size", "1MiB");
const ORDERED_KEY: FieldHelp = field(
    "ordered",
    "true: the most popular chunks lie first; false: scattered by the seed",
    "false",
);

/// The keys of an entry of a list of sizes.
pub const SIZE_ENTRY: &[FieldHelp] =
    &[field("size", "size", REQUIRED), field("weight", "number above 0", "1")];
/// The keys of an entry of a list of hot spots.
pub const SPOT_ENTRY: &[FieldHelp] = &[
    field("requests", "share of the requests", REQUIRED),
    field("space", "share of the range", REQUIRED),
];

/// The kinds of `size` and `write_size`; both may also be one size, or a list of sizes.
pub const SIZES: &[Kind<Sizes>] = &[
    Kind {
        name: "fixed",
        summary: "all of one size; the size alone means the same",
        keys: &[field("size", "size", REQUIRED)],
        read: |value| Ok(Sizes::Fixed { bytes: value.required("size", bytes)? }),
    },
    Kind {
        name: "uniform",
        summary: "each multiple from the least to the most with the same probability",
        keys: &[
            field("least", "size", "the multiple"),
            field("most", "size", REQUIRED),
            field("multiple", "size", "4KiB"),
        ],
        read: |value| {
            let multiple_bytes = value.or("multiple", 4_096, bytes)?;
            Ok(Sizes::Uniform {
                min_bytes: value.or("least", multiple_bytes, bytes)?,
                max_bytes: value.required("most", bytes)?,
                multiple_bytes,
            })
        },
    },
    Kind {
        name: "exponential",
        summary: "P(n multiples) = q (1 − q)^(n − 1), q = multiple / mean; anything larger than \
            the most becomes the most",
        keys: &[
            field("mean", "size", REQUIRED),
            field("multiple", "size", "4KiB"),
            field("most", "size", "16 times the mean, in multiples"),
        ],
        read: |value| {
            let multiple_bytes = value.or("multiple", 4_096, bytes)?;
            let mean_bytes = value.required("mean", bytes)?;
            let max_bytes = value.or("most", default_max(mean_bytes, multiple_bytes), bytes)?;
            Ok(Sizes::Exponential { mean_bytes, multiple_bytes, max_bytes })
        },
    },
    Kind {
        name: "lognormal",
        summary: "median · e^(spread · z), z standard normal, rounded to the nearest multiple, at \
            least one; anything larger than the most becomes the most",
        keys: &[
            field("median", "size", REQUIRED),
            field("spread", "number from 0 to 5", "1"),
            field("multiple", "size", "4KiB"),
            field("most", "size", "16 times the median, in multiples"),
        ],
        read: |value| {
            let multiple_bytes = value.or("multiple", 4_096, bytes)?;
            let median_bytes = value.required("median", bytes)?;
            Ok(Sizes::LogNormal {
                median_bytes,
                spread: value.or("spread", 1.0, Value::number)?,
                multiple_bytes,
                max_bytes: value.or("most", default_max(median_bytes, multiple_bytes), bytes)?,
            })
        },
    },
];

fn default_max(mean: u64, multiple: u64) -> u64 {
    mean.saturating_mul(MAX_OVER_MEAN) / multiple * multiple
}

/// The kinds of `place`.
pub const PLACES: &[Kind<AddressPattern>] = &[
    Kind {
        name: "uniform",
        summary: "anywhere in the range, evenly distributed",
        keys: &[],
        read: |_| Ok(AddressPattern::Uniform),
    },
    Kind {
        name: "fixed",
        summary: "one of a few starts, the same for every seed",
        keys: &[
            field("places", "number from 1 to the sectors of the range", REQUIRED),
            field("set", "number; another has other starts", "0"),
        ],
        read: |value| {
            Ok(AddressPattern::Fixed {
                places: value.required("places", count)?,
                set: value.or("set", 0, |value| value.whole(0..=u64::MAX))?,
            })
        },
    },
    Kind {
        name: "zipf",
        summary: "P(chunk of rank k) ∝ k^(−theta), evenly within the chunk",
        keys: &[field("theta", "number from 0.01 to 10", "0.99"), CHUNK_KEY, ORDERED_KEY],
        read: |value| {
            Ok(AddressPattern::Zipf {
                theta: value.or("theta", 0.99, Value::number)?,
                chunks: chunks(value)?,
            })
        },
    },
    Kind {
        name: "self-similar",
        summary: "rank = chunks · u^(ln h / ln (1 − h)): the share h of the chunks receives 1 − h \
            of the requests, at every scale",
        keys: &[field("share", "share h, 0.001 to 0.5", "0.2"), CHUNK_KEY, ORDERED_KEY],
        read: |value| {
            Ok(AddressPattern::SelfSimilar {
                share: value.or("share", 0.2, Value::fraction)?,
                chunks: chunks(value)?,
            })
        },
    },
    Kind {
        name: "hot-spots",
        summary: "consecutive regions, each with a share of the requests and of the range; the \
            remaining requests go to the remaining range",
        keys: &[field("spots", "list of { requests = SHARE, space = SHARE }", REQUIRED)],
        read: |value| value.required("spots", spots).map(AddressPattern::HotSpots),
    },
    Kind {
        name: "normal",
        summary: "normally distributed around a center, cut off at the ends of the range",
        keys: &[
            field("center", "share of the range", "0.5"),
            field("deviation", "share of the range, 0.0001 to 1", "0.1"),
        ],
        read: |value| {
            Ok(AddressPattern::Normal {
                center: value.or("center", 0.5, Value::fraction)?,
                deviation: value.or("deviation", 0.1, Value::fraction)?,
            })
        },
    },
    Kind {
        name: "near",
        summary: "before or after the client's last request by a geometrically distributed \
            distance, mirrored at the ends of the range",
        keys: &[
            field("mean", "size, or share of the range such as \"1%\"", REQUIRED),
            field("jumps", "share of requests that go anywhere", "0"),
        ],
        read: |value| {
            Ok(AddressPattern::Near {
                mean: value.required("mean", distance)?,
                jumps: value.or("jumps", 0.0, Value::fraction)?,
            })
        },
    },
];

/// The kinds of `run`.
pub const RUNS: &[Kind<Order>] = &[
    Kind {
        name: "random",
        summary: "no runs: each request starts where place puts it",
        keys: &[],
        read: |_| Ok(Order::Random),
    },
    Kind {
        name: "geometric",
        summary: "P(n requests) = q (1 − q)^(n − 1), q = 1 / mean",
        keys: &[field("mean", "number of requests from 1", REQUIRED)],
        read: |value| Ok(Order::Runs { mean_requests: value.required("mean", Value::number)? }),
    },
    Kind {
        name: "fixed",
        summary: "the same number of requests in each run",
        keys: &[field("requests", "whole number from 1", REQUIRED)],
        read: |value| Ok(Order::FixedRuns { requests: value.required("requests", count)? }),
    },
    Kind {
        name: "uniform",
        summary: "each number of requests from the least to the most with the same probability",
        keys: &[
            field("least", "whole number from 1", "1"),
            field("most", "whole number from 1", REQUIRED),
        ],
        read: |value| {
            Ok(Order::UniformRuns {
                min: value.or("least", 1, count)?,
                max: value.required("most", count)?,
            })
        },
    },
    Kind {
        name: "sequential",
        summary: "through the range and from its start again; clients start evenly spread",
        keys: &[],
        read: |_| Ok(Order::Sequential),
    },
    Kind {
        name: "strided",
        summary: "as sequential, with a gap after each request",
        keys: &[field("gap", "size", REQUIRED)],
        read: |value| Ok(Order::Strided { gap_bytes: value.required("gap", bytes)? }),
    },
];

const RATE_KEY: FieldHelp = field("rate", "requests per second", REQUIRED);

/// The kinds of `arrivals`.
pub const ARRIVALS: &[Kind<Interarrival>] = &[
    Kind {
        name: "poisson",
        summary: "exponential gaps with the mean 1 / rate; `rate` alone means the same",
        keys: &[RATE_KEY],
        read: |value| Ok(Interarrival::Poisson { per_second: rate(value)? }),
    },
    Kind {
        name: "constant",
        summary: "one request in every 1 / rate",
        keys: &[RATE_KEY],
        read: |value| rate(value).map(constant),
    },
    Kind {
        name: "bursts",
        summary: "Poisson at the rate while on, nothing while off; on at the start",
        keys: &[
            field("rate", "requests per second while on", REQUIRED),
            field("on", "time", REQUIRED),
            field("off", "time", REQUIRED),
            field(
                "phases",
                "\"exponential\" (on and off are means) or \"constant\"",
                "\"exponential\"",
            ),
        ],
        read: |value| {
            const PHASES: [NamedPhase; 2] =
                [("exponential", Phase::Exponential), ("constant", Phase::Constant)];
            let phase = value.or("phases", PHASES[0].1, |value| value.one_of(&PHASES))?;
            Ok(Interarrival::Bursts {
                per_second: rate(value)?,
                on: phase(value.required("on", Value::time)?),
                off: phase(value.required("off", Value::time)?),
            })
        },
    },
    Kind {
        name: "pareto",
        summary: "P(gap > x) = (least / x)^shape with the mean 1 / rate: bursts at every scale \
            where the shape is below 2",
        keys: &[RATE_KEY, field("shape", "number from 1.01 to 10", "1.5")],
        read: |value| {
            Ok(Interarrival::Pareto {
                per_second: rate(value)?,
                shape: value.or("shape", 1.5, Value::number)?,
            })
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
            field("levels", "number of halvings, 1 to 20", "12"),
        ],
        read: |value| {
            Ok(Interarrival::Cascade {
                per_second: rate(value)?,
                bias: value.or("bias", 0.7, Value::number)?,
                window: value.or("window", Nanos::from_secs(60), Value::time)?,
                levels: value.or("levels", 12, |value| value.count(1..=20))?,
            })
        },
    },
];

/// The kinds of `think`, which may also be a constant time.
pub const THINKS: &[Kind<ThinkTime>] = &[
    Kind {
        name: "constant",
        summary: "always this long; the time alone means the same",
        keys: &[field("time", "time", REQUIRED)],
        read: |value| value.required("time", Value::time).map(ThinkTime::Constant),
    },
    Kind {
        name: "exponential",
        summary: "exponentially distributed",
        keys: &[field("mean", "time", REQUIRED)],
        read: |value| value.required("mean", Value::time).map(ThinkTime::Exponential),
    },
    Kind {
        name: "uniform",
        summary: "every time from the least to the most with the same probability",
        keys: &[field("least", "time", "0"), field("most", "time", REQUIRED)],
        read: |value| {
            Ok(ThinkTime::Uniform {
                min: value.or("least", Nanos::ZERO, Value::time)?,
                max: value.required("most", Value::time)?,
            })
        },
    },
];

/// Reads a value of one of several kinds: a table with `kind`, or the name of the kind alone where
/// its other keys have defaults.
pub(super) fn read<T>(value: &Value<'_>, kinds: &[Kind<T>]) -> Result<T> {
    let name = if value.is_table() { value.get("kind") } else { None };
    let words: Vec<_> = kinds.iter().map(|kind| (kind.name, kind)).collect();
    let kind = name.as_ref().unwrap_or(value).one_of(&words)?;
    let known: Vec<&str> =
        ["kind"].into_iter().chain(kind.keys.iter().map(|key| key.name)).collect();
    let result = (kind.read)(value);
    let thing = format!("{} of kind {}", value.key(), kind.name);
    ValueErrors::join([
        value.only_keys(&thing, &known),
        result.as_ref().map(|_| ()).map_err(Clone::clone),
    ])?;
    result
}

fn rate(value: &Value<'_>) -> Result<f64> {
    value.required("rate", Value::number)
}

/// Arrivals at a constant rate. The checks of the stream refuse a rate without a gap.
pub(crate) fn constant(per_second: f64) -> Interarrival {
    Interarrival::Constant(Nanos::from_ms_f64(1e3 / per_second).unwrap_or(Nanos::MAX))
}

pub(super) fn bytes(value: &Value<'_>) -> Result<u64> {
    value.size().map(|size| size.get())
}

pub(super) fn count(value: &Value<'_>) -> Result<u64> {
    value.whole(1..=u64::MAX)
}

fn chunks(value: &Value<'_>) -> Result<Chunks> {
    Ok(Chunks {
        bytes: value.or("chunk", CHUNK, bytes)?,
        ordered: value.or("ordered", false, Value::boolean)?,
    })
}

fn distance(value: &Value<'_>) -> Result<Distance> {
    match value.as_text() {
        Some(text) if text.ends_with('%') => value.fraction().map(Distance::Share),
        _ => bytes(value).map(Distance::Bytes),
    }
}

/// The entries of a list of tables that have these keys.
fn entries<T>(
    value: &Value<'_>,
    keys: &[FieldHelp],
    read: impl Fn(&Value<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let entry = |entry: &Value<'_>| {
        if !entry.is_table() {
            return Err(entry.unexpected("a table in a list", "[{ … }, { … }]"));
        }
        entry.only_keys(&format!("an entry of {}", value.key()), &known)?;
        read(entry)
    };
    value.list().iter().map(entry).collect()
}

fn spots(value: &Value<'_>) -> Result<Vec<HotSpot>> {
    entries(value, SPOT_ENTRY, |spot| {
        Ok(HotSpot {
            requests: spot.required("requests", Value::fraction)?,
            space: spot.required("space", Value::fraction)?,
        })
    })
}

/// `size` and `write_size`: one size, a list of sizes with weights, or a kind.
pub(super) fn sizes(value: &Value<'_>) -> Result<Sizes> {
    if value.is_table() {
        return read(value, SIZES);
    }
    if !value.is_list() {
        return bytes(value).map(|bytes| Sizes::Fixed { bytes });
    }
    entries(value, SIZE_ENTRY, |entry| {
        Ok(SizeWeight {
            bytes: entry.required("size", bytes)?,
            weight: entry.or("weight", 1.0, Value::number)?,
        })
    })
    .map(Sizes::Weighted)
}
