//! One drive under one workload: its plots, each under a sentence that says what it shows, and its
//! figures as tables.

use maud::{Markup, PreEscaped, html};

use super::{Scene, View, at_depth, capital, findings};
use crate::chart::{Axis, Bar, Labels, Line, Part, Spot, Stack, bars, lines, stacks};
use crate::compare::outcome::{CellOutcome, Figures, nines};
use crate::compare::results::{CaseResult, Entry};
use crate::compare::statistics::{Metric, totals};
use crate::papers::Estimated;
use headtime_console::figures::DiskTimeShares;

pub(super) fn scene(view: &View<'_>, scene: &Scene<'_>) -> Markup {
    let workload = &view.comparison.plan.workloads[scene.workload];
    let description = workload.choice.describe();
    let focus = scene.focus();
    html! { section id=(scene.anchor()) {
        h2 { (view.drive(scene)) " " span { (workload.name) } }
        p.lead {
            (findings::of_scene(view, scene)) ". " (capital(&description).trim_end_matches('.')) "."
        }
        div.plots {
            (rates(view, scene))
            (figure(
                &findings::of_tails(view, focus),
                &html! {
                    "Response time within which a share of the requests ended" (at_depth(focus))
                    "; lower is better."
                },
                tails(view, focus),
            ))
            @if view.comparison.plan.policies.len() > 1 {
                (figure(
                    &findings::of_trade_off(view, focus),
                    &html! {
                        @if scene.cases.len() > 1 {
                            "Each line runs from the least to the greatest depth, where it is \
                                named; lower right is better."
                        } @else { "Lower right is better." }
                    },
                    trade_off(view, scene),
                ))
            }
            (figure(
                &findings::of_disk_time(view, focus),
                &html! {
                    "Where the drive's time went" (at_depth(focus))
                    "; after each bar seek and rotation for each request. "
                    span.legend {
                        @for (place, (name, _)) in
                            DiskTimeShares::default().parts().iter().enumerate()
                        { b { i.{ "t" (place) } {} (name) } " " }
                    }
                },
                disk_time(view, focus),
            ))
            (misses(view, focus))
        }
        (streams(view, focus))
        (figures(view, scene))
    } }
}

/// A plot below its finding and above a line that explains it.
fn figure(finding: &str, reading: &Markup, svg: String) -> Markup {
    html! { figure { figcaption { (finding) small { (reading) } } (PreEscaped(svg)) } }
}

/// Throughput over depth or by policy; mean responses where throughputs do not differ.
fn rates(view: &View<'_>, scene: &Scene<'_>) -> Markup {
    let (rate, focus) = (Metric::named("iops"), scene.focus());
    let finding = findings::of_rates(view, focus);
    if scene.cases.len() > 1 {
        let reading = html! { "Throughput by queue depth; bars are 95 % intervals." };
        figure(&finding, &reading, over_depth(view, scene, rate))
    } else if view.comparison.best(focus, rate).is_some_and(|best| best.tells_apart()) {
        let reading = html! { "Throughput; lines are 95 % intervals." };
        figure(&finding, &reading, by_policy(view, focus, rate))
    } else {
        let reading = html! { "Mean response; lines are 95 % intervals." };
        let mean = Metric::named("response_ms_mean");
        figure(&findings::of_means(view, focus), &reading, by_policy(view, focus, mean))
    }
}

/// A line for each policy over all depths.
fn over_depth(view: &View<'_>, scene: &Scene<'_>, metric: &Metric) -> String {
    let depths: Vec<u32> = scene.cases.iter().filter_map(|case| case.case.depth).collect();
    let mut sorted: Vec<&&CaseResult> = scene.cases.iter().collect();
    sorted.sort_by_key(|case| case.case.depth);
    let all: Vec<Line> = places(view, scene)
        .into_iter()
        .map(|place| {
            let spots = sorted.iter().filter_map(|case| {
                let estimate = estimate(case, place, metric)?;
                let depth = case.case.depth?;
                let title = format!(
                    "{}, depth {depth}: {} {}",
                    view.policy(place),
                    metric.text(estimate),
                    metric.unit
                );
                Some(Spot {
                    x: f64::from(depth),
                    y: estimate.value,
                    x_range: None,
                    y_range: range(estimate),
                    title,
                    marked: true,
                })
            });
            line(view, place, spots.collect())
        })
        .collect();
    let y = Axis::from_zero(
        metric.unit,
        all.iter()
            .flat_map(|line| &line.spots)
            .map(|spot| spot.y_range.map_or(spot.y, |(_, high)| high)),
    );
    lines(
        Axis::depths("queue depth", &depths),
        y,
        &all,
        Labels::Right,
        &format!("{} by depth", metric.title),
    )
}

/// A bar for each policy, the best first.
fn by_policy(view: &View<'_>, case: &CaseResult, metric: &Metric) -> String {
    let mut rows: Vec<Bar> = case
        .entries
        .iter()
        .filter_map(|entry| {
            let estimate = estimate(case, entry.policy, metric)?;
            let status = entry.status().word();
            let words = format!("{} {status}", metric.text(estimate)).trim_end().to_string();
            Some(bar(view, entry.policy, estimate, words))
        })
        .collect();
    rows.sort_by(|one, other| {
        if metric.more {
            other.value.total_cmp(&one.value)
        } else {
            one.value.total_cmp(&other.value)
        }
    });
    bars(metric.unit, &rows, &format!("{} by policy", metric.title))
}

/// Response times by the share of requests that ended within them, in nines, so that the tail has
/// as much room as the middle.
fn tails(view: &View<'_>, case: &CaseResult) -> String {
    let all: Vec<Line> = case
        .entries
        .iter()
        .map(|entry| {
            let times = mean_times(&entry.outcomes());
            let last = times.len().saturating_sub(1);
            let spots = times.iter().enumerate().map(|(step, ms)| {
                let title = format!(
                    "{}: {} ms",
                    view.policy(entry.policy),
                    (Metric::named("response_ms_mean").show)(*ms)
                );
                Spot {
                    x: nines(step),
                    y: *ms,
                    x_range: None,
                    y_range: None,
                    title,
                    marked: step % 10 == 0 && step > 0 || step == last,
                }
            });
            line(view, entry.policy, spots.collect())
        })
        .collect();
    let most = all.iter().flat_map(|line| &line.spots).map(|spot| spot.x).fold(0.0, f64::max);
    let y = Axis::times(
        "response (ms)",
        all.iter().flat_map(|line| &line.spots).filter(|spot| spot.x >= 0.1).map(|spot| spot.y),
    );
    lines(
        Axis::nines("share of requests that ended by then", most),
        y,
        &all,
        Labels::Right,
        "response times by share of requests",
    )
}

/// Throughput against the time within which 99 % are answered.
fn trade_off(view: &View<'_>, scene: &Scene<'_>) -> String {
    let (rate, tail) = (Metric::named("iops"), Metric::named("response_ms_p99"));
    let mut sorted: Vec<&&CaseResult> = scene.cases.iter().collect();
    sorted.sort_by_key(|case| case.case.depth);
    let last = sorted.len().saturating_sub(1);
    let all: Vec<Line> = places(view, scene)
        .into_iter()
        .map(|place| {
            let spots = sorted.iter().enumerate().filter_map(|(step, case)| {
                let (x, y) = (estimate(case, place, rate)?, estimate(case, place, tail)?);
                let title = format!(
                    "{}{}: {} requests/s, 99 % within {} ms",
                    view.policy(place),
                    at_depth(case),
                    rate.text(x),
                    tail.text(y)
                );
                // Intervals at the end alone: with those of every depth nothing would be seen.
                let end = |estimate| range(estimate).filter(|_| step == last);
                Some(Spot {
                    x: x.value,
                    y: y.value,
                    x_range: end(x),
                    y_range: end(y),
                    title,
                    marked: true,
                })
            });
            line(view, place, spots.collect())
        })
        .collect();
    let spots = || all.iter().flat_map(|line| &line.spots);
    let x = Axis::around(
        "requests/s",
        spots().flat_map(|spot| {
            [
                spot.x,
                spot.x_range.map_or(spot.x, |(low, _)| low),
                spot.x_range.map_or(spot.x, |(_, high)| high),
            ]
        }),
    );
    let y = Axis::times("99 % answered within (ms)", spots().map(|spot| spot.y));
    lines(x, y, &all, Labels::Beside, "throughput against the 99th percentile of response times")
}

/// The shares of the drive's time, a bar for each policy, the one with the least positioning first.
fn disk_time(view: &View<'_>, case: &CaseResult) -> String {
    let mut rows: Vec<(f64, Stack)> = case
        .entries
        .iter()
        .filter_map(|entry| {
            let positioning = findings::positioning_ms(entry)?;
            let shares = mean_shares(&entry.outcomes());
            let parts = shares.parts().into_iter().enumerate().map(|(place, (name, share))| Part {
                class: format!("t{place}"),
                name,
                share,
            });
            let stack = Stack {
                name: view.policy(entry.policy).to_string(),
                oracle: view.oracle(entry.policy),
                parts: parts.filter(|part| part.share > 0.0).collect(),
                words: format!("{positioning:.2} ms"),
            };
            Some((positioning, stack))
        })
        .collect();
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    stacks(
        &rows.into_iter().map(|(_, stack)| stack).collect::<Vec<_>>(),
        "where the drive's time went",
    )
}

/// A plot of deadline misses for each stream that has deadlines; of all together where there is one
/// stream.
fn misses(view: &View<'_>, case: &CaseResult) -> Markup {
    let metric = Metric::named("deadline_miss_share");
    let names = stream_names(case);
    let has_deadlines = |stream: &usize| {
        let figures = case.entries.iter().flat_map(|entry| of_stream(entry, *stream));
        figures.flatten().any(|figures| figures.deadline_requests > 0)
    };
    let mut of: Vec<(&str, Option<usize>)> = (0..names.len())
        .filter(has_deadlines)
        .map(|stream| (names[stream].as_str(), Some(stream)))
        .collect();
    if of.is_empty() && estimate_any(case, metric) {
        of.push(("all requests", None));
    }
    let plot = |name: &str, stream: Option<usize>| {
        let bar = |entry: &Entry| {
            let outcomes = entry.outcomes();
            let figures =
                stream.map_or_else(|| totals(&outcomes), |stream| of_stream(entry, stream));
            let estimate = metric.estimate(&figures)?;
            Some(bar(view, entry.policy, estimate.times(100.0), metric.text(estimate)))
        };
        let mut rows: Vec<Bar> = case.entries.iter().filter_map(bar).collect();
        rows.sort_by(|one, other| one.value.total_cmp(&other.value));
        bars("% of requests with a deadline", &rows, &format!("deadlines missed of {name}"))
    };
    html! { @for (place, (name, stream)) in of.into_iter().enumerate() {
        // The finding is of all streams; each further plot is of its stream.
        (figure(
            &if place == 0 {
                findings::of_deadlines(view, case)
            } else {
                format!("Deadlines of {name}")
            },
            &html! {
                "Share of the requests of " (name) " that ended after their deadline"
                (at_depth(case)) "."
            },
            plot(name, stream),
        ))
    } }
}

/// The streams of the deepest case, side by side; nothing for a workload of one.
fn streams(view: &View<'_>, case: &CaseResult) -> Markup {
    let names = stream_names(case);
    if names.len() < 2 {
        return html! {};
    }
    let metrics = STREAM_COLUMNS.map(Metric::named);
    html! {
        h3 { "Stream by stream" (at_depth(case)) }
        div.wide { table.numbers {
            thead { tr { th { "stream" } th { "policy" } (headings(&metrics)) } }
            @for (stream, name) in names.iter().enumerate() {
                tbody { @for (row, entry) in case.entries.iter().enumerate() {
                    tr {
                        @if row == 0 { th rowspan=(case.entries.len()) { (name) } }
                        th { (view.chip(entry.policy)) }
                        (cells(&metrics, &of_stream(entry, stream)))
                    }
                } }
            }
        } }
    }
}

fn headings(metrics: &[&Metric]) -> Markup {
    html! { @for metric in metrics { th { (short(metric)) br; span { (metric.unit) } } } }
}

fn cells(metrics: &[&Metric], figures: &[Option<&Figures>]) -> Markup {
    html! { @for metric in metrics {
        @let estimate = metric.estimate(figures);
        td { (estimate.map_or_else(|| "–".to_string(), |estimate| metric.text(estimate))) }
    } }
}

/// Every figure of every depth, folded away.
fn figures(view: &View<'_>, scene: &Scene<'_>) -> Markup {
    let baseline = view.comparison.plan.baseline;
    let keys = FIGURE_COLUMNS.iter().filter(|key| **key != "deadline_miss_share" || view.deadlines);
    let metrics: Vec<&Metric> = keys.map(|key| Metric::named(key)).collect();
    let against = html! { br; span { "against " (view.policy(baseline)) } };
    let body = |case: &CaseResult| {
        let depth = case.case.depth.map_or_else(|| "–".to_string(), |depth| depth.to_string());
        let before = view.comparison.baseline(case).map(Entry::outcomes);
        html! { tbody { @for (row, entry) in case.entries.iter().enumerate() {
            @let outcomes = entry.outcomes();
            @let figures = totals(&outcomes);
            tr {
                @if row == 0 { th rowspan=(case.entries.len()) { (depth) } }
                th { (view.chip(entry.policy)) }
                (cells(&metrics, &figures))
                @for metric in ["iops", "response_ms_mean"].map(Metric::named) {
                    @let difference = before
                        .as_ref()
                        .filter(|_| entry.policy != baseline)
                        .and_then(|outcomes| metric.difference(&figures, &totals(outcomes)));
                    td.sure[difference.as_ref().is_some_and(|one| one.is_sure() == Some(true))] {
                        (difference.map_or_else(String::new, |one| metric.difference_text(&one)))
                    }
                }
                td { (entry.status().word()) }
            }
        } } }
    };
    html! { details {
        summary { "All figures" }
        div.wide { table.numbers {
            thead { tr {
                th { "depth" } th { "policy" } (headings(&metrics))
                th { "throughput" (against) } th { "mean response" (against) } th {}
            } }
            @for case in &scene.cases { (body(case)) }
        } }
        p.fine { "Differences that are bold are sure at 95 %." }
    } }
}

const STREAM_COLUMNS: [&str; 8] = [
    "progress",
    "iops",
    "mib_per_second",
    "response_ms_mean",
    "response_ms_p99",
    "response_ms_max",
    "equal_load_response_ms_p99",
    "deadline_miss_share",
];
const FIGURE_COLUMNS: [&str; 11] = [
    "progress_sum",
    "progress_harmonic_mean",
    "iops",
    "mib_per_second",
    "response_ms_mean",
    "response_ms_p50",
    "response_ms_p95",
    "response_ms_p99",
    "response_ms_max",
    "equal_load_response_ms_p99",
    "deadline_miss_share",
];

/// A metric's name in the head of a narrow column.
fn short(metric: &Metric) -> &'static str {
    match metric.key {
        "response_ms_p50" => "median",
        "response_ms_p95" => "95 %",
        "response_ms_p99" => "99 %",
        "response_ms_p999" => "99.9 %",
        "response_ms_max" => "longest",
        "equal_load_response_ms_p99" => "99 % at equal load",
        _ => metric.title,
    }
}

/// The policies that run in any case of a scene.
fn places(view: &View<'_>, scene: &Scene<'_>) -> Vec<usize> {
    (0..view.comparison.plan.policies.len())
        .filter(|place| scene.cases.iter().any(|case| case.case.policies.contains(place)))
        .collect()
}

fn line(view: &View<'_>, place: usize, spots: Vec<Spot>) -> Line {
    Line {
        class: view.class(place),
        name: view.policy(place).to_string(),
        dashed: view.oracle(place),
        spots,
    }
}

fn bar(view: &View<'_>, place: usize, estimate: Estimated, words: String) -> Bar {
    let (name, oracle) = (view.policy(place).to_string(), view.oracle(place));
    Bar {
        class: view.class(place),
        name,
        oracle,
        value: estimate.value,
        range: range(estimate),
        words,
    }
}

fn estimate(case: &CaseResult, place: usize, metric: &Metric) -> Option<Estimated> {
    let outcomes = findings::entry(case, place)?.outcomes();
    metric.estimate(&totals(&outcomes))
}

fn estimate_any(case: &CaseResult, metric: &Metric) -> bool {
    case.entries.iter().any(|entry| estimate(case, entry.policy, metric).is_some())
}

/// The interval of something that cannot be less than nothing.
fn range(estimate: Estimated) -> Option<(f64, f64)> {
    Some((estimate.low()?.max(0.0), estimate.high()?))
}

fn stream_names(case: &CaseResult) -> Vec<String> {
    let first = case.entries.iter().flat_map(Entry::outcomes).flatten().next();
    first.map_or_else(Vec::new, |outcome| {
        outcome.streams.iter().map(|stream| stream.name.clone()).collect()
    })
}

fn of_stream(entry: &Entry, stream: usize) -> Vec<Option<&Figures>> {
    entry
        .outcomes()
        .into_iter()
        .map(|outcome| outcome?.streams.get(stream).map(|stream| &stream.figures))
        .collect()
}

/// Means of the replicas' response times, share by share, as far as all of them go.
fn mean_times(outcomes: &[Option<&CellOutcome>]) -> Vec<f64> {
    let known: Vec<&Vec<f64>> =
        outcomes.iter().flatten().map(|outcome| &outcome.response_ms_by_share).collect();
    let steps = known.iter().map(|times| times.len()).min().unwrap_or(0);
    (0..steps)
        .map(|step| known.iter().map(|times| times[step]).sum::<f64>() / known.len() as f64)
        .collect()
}

fn mean_shares(outcomes: &[Option<&CellOutcome>]) -> DiskTimeShares {
    let known: Vec<&DiskTimeShares> =
        outcomes.iter().flatten().map(|outcome| &outcome.disk_time).collect();
    let mean = |part: fn(&DiskTimeShares) -> f64| {
        known.iter().map(|shares| part(shares)).sum::<f64>() / known.len().max(1) as f64
    };
    DiskTimeShares {
        seek: mean(|shares| shares.seek),
        rotate: mean(|shares| shares.rotate),
        transfer: mean(|shares| shares.transfer),
        overhead: mean(|shares| shares.overhead),
        idle: mean(|shares| shares.idle),
        background: mean(|shares| shares.background),
    }
}
