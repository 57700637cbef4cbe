//! Values of a stream as TOML that reads back the same.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_units::{Nanos, Share};

use super::plan::{Clients, Range, StreamPlan};
use super::processes;
use super::service::StreamTerms;
use crate::arrivals::{Interarrival, Phase, ThinkTime};
use crate::config::{Alignment, StreamConfig};
use crate::order::Order;
use crate::place::{AddressPattern, Chunks, Distance, HotSpot};
use crate::sizes::{SizeWeight, Sizes};

/// The keys of a stream that differ from their defaults, with their values.
pub(super) fn keys(plan: &StreamPlan) -> impl Iterator<Item = (&'static str, String)> {
    let (stream, default) = (&plan.stream, StreamConfig::closed(1));
    let (terms, default_terms) = (&plan.terms, StreamTerms::default());
    let share_of = |share: Share| text(&percent(share.as_fraction()));
    let clients = plan.clients.map(|clients| match clients {
        Clients::Depth => "\"depth\"".to_string(),
        Clients::Count(count) => count.to_string(),
    });
    let range = match plan.range {
        Range::Whole => None,
        Range::Shares { from, to } => Some(format!("\"{}..{}\"", percent(from), percent(to))),
        Range::Bytes { from, to } => {
            Some(format!("\"{}..{}\"", bytes(from), to.map_or_else(String::new, bytes)))
        }
    };
    let alignment = match stream.alignment {
        Alignment::Size => None,
        Alignment::Sector => Some("\"sector\"".to_string()),
        Alignment::Bytes(bytes) => Some(quoted_bytes(bytes)),
    };
    let share = |share: f64, default: f64| (share != default).then(|| number(share));
    let count = |count: Option<u64>| count.map(|count| count.to_string());
    [
        ("name", Some(text(&plan.name))),
        ("class", plan.class.as_deref().map(text)),
        ("clients", clients),
        ("process", stream.process.as_ref().map(processes::written)),
        ("think", plan.think.as_ref().map(think)),
        ("rate", plan.rate.map(number)),
        ("arrivals", plan.gaps.as_ref().map(gaps)),
        ("reads", share(stream.mix.reads, default.mix.reads)),
        ("zeroes", share(stream.mix.zeroes, default.mix.zeroes)),
        ("discards", share(stream.mix.discards, default.mix.discards)),
        ("flushes", share(stream.mix.flushes, default.mix.flushes)),
        ("fua", share(stream.mix.fua, default.mix.fua)),
        ("flush_every", count(stream.flush_every)),
        ("size", Some(sizes(&stream.sizes))),
        ("write_size", stream.write_sizes.as_ref().map(sizes)),
        ("range", range),
        ("place", (stream.place != default.place).then(|| place(&stream.place))),
        ("align", alignment),
        ("run", (stream.order != default.order).then(|| order(&stream.order))),
        ("positions", count(stream.positions.map(u64::from))),
        ("separate_runs", stream.separate_runs.then(|| "true".to_string())),
        ("deadline", stream.deadline.map(time)),
        ("reserve", (terms.reserve != default_terms.reserve).then(|| share_of(terms.reserve))),
        ("limit", terms.limit.map(share_of)),
        ("weight", count(terms.weight.map(u64::from))),
        ("burst", terms.burst.map(time)),
        ("iops_limit", count(terms.iops_limit.map(u64::from))),
        ("bandwidth_limit", terms.bandwidth_limit.map(quoted_bytes)),
        (
            "priority",
            terms.priority.as_ref().map(|(class, level)| text(&format!("{class}/{level}"))),
        ),
        ("start", (!stream.start.is_zero()).then(|| time(stream.start))),
        ("stop", stream.stop.map(time)),
        ("requests", count(stream.requests)),
        ("bytes", stream.bytes.map(quoted_bytes)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

fn bytes(bytes: u64) -> String {
    for (unit, name) in [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
    {
        if bytes.is_multiple_of(unit) && bytes > 0 {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

pub(super) fn quoted_bytes(size: u64) -> String {
    format!("\"{}\"", bytes(size))
}

pub(super) fn time(span: Nanos) -> String {
    let ns = span.as_ns();
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns.is_multiple_of(unit) && ns > 0 {
            return format!("\"{}{name}\"", ns / unit);
        }
    }
    format!("\"{ns}ns\"")
}

/// A float in TOML has a point or an exponent.
pub(super) fn number(number: f64) -> String {
    format!("{number:?}")
}

pub(super) fn text(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

pub(super) fn table(kind: &str, fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
    format!("{{ kind = \"{kind}\"{} }}", fields.concat())
}

pub(super) fn sizes(sizes: &Sizes) -> String {
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

fn place(place: &AddressPattern) -> String {
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
        AddressPattern::Uniform => table("uniform", &[]),
        AddressPattern::Fixed { places, set } => {
            table("fixed", &[("places", places.to_string()), ("set", set.to_string())])
        }
        AddressPattern::Zipf { theta, chunks } => skewed("zipf", "theta", *theta, *chunks),
        AddressPattern::SelfSimilar { share, chunks } => {
            skewed("self-similar", "share", *share, *chunks)
        }
        AddressPattern::HotSpots(spots) => {
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
        AddressPattern::Normal { center, deviation } => {
            table("normal", &[("center", number(*center)), ("deviation", number(*deviation))])
        }
        AddressPattern::Near { mean, jumps } => {
            let mean = match mean {
                Distance::Bytes(size) => quoted_bytes(*size),
                Distance::Share(share) => format!("\"{}\"", percent(*share)),
            };
            table("near", &[("mean", mean), ("jumps", number(*jumps))])
        }
    }
}

/// A share in percent, with the seven decimals that shares have.
fn percent(share: f64) -> String {
    let percent = format!("{:.7}", share * 100.0);
    format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
}

fn order(order: &Order) -> String {
    match order {
        Order::Random => table("random", &[]),
        Order::Runs { mean_requests } => table("geometric", &[("mean", number(*mean_requests))]),
        Order::FixedRuns { requests } => table("fixed", &[("requests", requests.to_string())]),
        Order::UniformRuns { min, max } => {
            table("uniform", &[("least", min.to_string()), ("most", max.to_string())])
        }
        Order::Sequential => table("sequential", &[]),
        Order::Strided { gap_bytes } => table("strided", &[("gap", quoted_bytes(*gap_bytes))]),
    }
}

fn gaps(gaps: &Interarrival) -> String {
    let rate = |per_second: &f64| ("rate", number(*per_second));
    match gaps {
        Interarrival::Poisson { per_second } => table("poisson", &[rate(per_second)]),
        Interarrival::Constant(gap) => table("constant", &[rate(&(1e9 / gap.as_ns() as f64))]),
        Interarrival::Bursts { per_second, on, off } => {
            let (Phase::Constant(on_time) | Phase::Exponential(on_time)) = on;
            let (Phase::Constant(off_time) | Phase::Exponential(off_time)) = off;
            let phases =
                if matches!(on, Phase::Constant(_)) { "\"constant\"" } else { "\"exponential\"" };
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

fn think(think: &ThinkTime) -> String {
    match think {
        ThinkTime::None => "\"0\"".to_string(),
        ThinkTime::Constant(span) => time(*span),
        ThinkTime::Exponential(mean) => table("exponential", &[("mean", time(*mean))]),
        ThinkTime::Uniform { min, max } => {
            table("uniform", &[("least", time(*min)), ("most", time(*max))])
        }
    }
}
