//! The page of a demo's report.

use maud::{Markup, PreEscaped, html};

use super::page::{self};
use super::plots::{self, OverTime};
use super::{DemoReport, PolicyRun};
use crate::chart;
use headtime_console::figures::{DiskTimeShares, VolumeTotals, show_bytes, show_ms, show_percent};

/// The whole page.
pub fn page(report: &DemoReport) -> String {
    let content = html! {
        (header(report))
        (summary(report))
        (distributions(report))
        (heat(report))
        (over_time(report))
        (disk_time(report))
        (method(report))
    };
    page::page(&format!("Headtime demo: {}", names(report)), &(chart::style() + STYLE), &content)
}

fn header(report: &DemoReport) -> Markup {
    html! { header {
        h1 { "The same load, " (report.runs.len()) " policies" }
        p.lead {
            "One emulated drive, " (report.drive) " (" (report.drive_summary)
            "), served over NBD as " (report.volumes.len()) " volumes: "
            @for (index, plan) in report.volumes.iter().enumerate() {
                @if index > 0 { ", " }
                b { (plan.name) } " (" (plan.load) ")"
            }
            ". " (report.load.name) " " (report.load.version) " loaded them for "
            (report.seconds_per_policy) " seconds under each policy."
        }
        @if let Some(reason) = &report.load.reason {
            p.note { "The load is the built-in generator's: " (reason) "." }
        }
        @if report.interrupted {
            p.note { "The demo was interrupted: the last run is shorter than the others." }
        }
        @for warning in report.warnings() { p.note { (warning) "." } }
        @if let Some(verdict) = verdict(report) { p.verdict { (verdict) } }
        ul.legend { @for (index, run) in report.runs.iter().enumerate() {
            li { i.(chart::class(index)).first[index == 0] {} b { (run.policy) } " " (run.summary) }
        } }
    } }
}

/// The last policy against the first, in a sentence; `None` with less than two.
fn verdict(report: &DemoReport) -> Option<String> {
    let [first, .., last] = report.runs.as_slice() else { return None };
    let parts = report.volumes.iter().zip(first.volumes.iter().zip(&last.volumes)).map(
        |(plan, (before, after))| {
            let (before, after) = (&before.totals, &after.totals);
            match (before.miss_share(), after.miss_share()) {
                (Some(was), Some(is)) => format!(
                    "the {} missed {} of its deadlines instead of {}",
                    plan.name,
                    show_percent(is),
                    show_percent(was)
                ),
                _ if before.iops > 0.0 => {
                    format!("the {} got {:.2} times as much", plan.name, after.iops / before.iops)
                }
                _ => format!(
                    "the {} got {:.1} requests per second instead of none",
                    plan.name, after.iops
                ),
            }
        },
    );
    Some(format!(
        "{} against {}: {}.",
        last.policy,
        first.policy,
        parts.collect::<Vec<_>>().join(", ")
    ))
}

/// One line of the summary: its label, its value from a volume's totals, and the better order.
struct Row {
    label: &'static str,
    value: fn(&VolumeTotals) -> Option<f64>,
    show: fn(f64) -> String,
    better: Better,
}

/// The order of two figures.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
    /// Neither is better.
    Neither,
}

const ROWS: &[Row] = &[
    Row {
        label: "deadlines missed",
        value: VolumeTotals::miss_share,
        show: show_percent,
        better: Better::Less,
    },
    Row {
        label: "throughput (MiB/s)",
        value: |totals| Some(totals.mib_per_second),
        show: |value| format!("{value:.1}"),
        better: Better::More,
    },
    Row {
        label: "requests per second",
        value: |totals| Some(totals.iops),
        show: |value| format!("{value:.1}"),
        better: Better::More,
    },
    Row {
        label: "response, median (ms)",
        value: |totals| response(totals, totals.response_ms.p50),
        show: show_ms,
        better: Better::Less,
    },
    Row {
        label: "response, 99 % within (ms)",
        value: |totals| response(totals, totals.response_ms.p99),
        show: show_ms,
        better: Better::Less,
    },
    Row {
        label: "response, longest (ms)",
        value: |totals| response(totals, totals.response_ms.max),
        show: show_ms,
        better: Better::Less,
    },
    Row {
        label: "still unanswered at the end",
        value: |totals| Some(totals.unanswered as f64),
        show: |value| format!("{value:.0}"),
        better: Better::Neither,
    },
    Row {
        label: "drive's time used",
        value: |totals| Some(totals.disk_time_share),
        show: show_percent,
        better: Better::Neither,
    },
    Row {
        label: "errors",
        value: |totals| (totals.errors > 0).then_some(totals.errors as f64),
        show: |value| format!("{value:.0}"),
        better: Better::Less,
    },
];

/// A response time, `None` when nothing responded.
fn response(totals: &VolumeTotals, ms: f64) -> Option<f64> {
    (totals.requests > 0).then_some(ms)
}

fn summary(report: &DemoReport) -> Markup {
    html! { section {
        h2 { "Side by side" }
        div.cards { @for (index, plan) in report.volumes.iter().enumerate() {
            table {
                caption {
                    (plan.name)
                    @if let Some(ms) = plan.deadline_ms {
                        " " span { "deadline " (show_ms(ms)) " ms" }
                    }
                }
                thead { tr { th {} @for run in &report.runs { th { (run.policy) } } } }
                tbody { @for row in ROWS { (summary_row(report, index, row)) } }
            }
        } }
        p.fine {
            "Measured at the server: from the arrival of a request to its reply. The better figure \
             of a line is bold."
        }
    } }
}

/// One line of a volume's table; nothing where no run has the figure.
fn summary_row(report: &DemoReport, volume: usize, row: &Row) -> Markup {
    let value = |run: &PolicyRun| (row.value)(&run.volumes.get(volume)?.totals);
    let values: Vec<Option<f64>> = report.runs.iter().map(value).collect();
    let best = best(&values, row.better);
    html! { @if values.iter().any(Option::is_some) {
        tr {
            th { (row.label) }
            @for value in values {
                td.best[value.is_some() && value == best] {
                    (value.map_or_else(|| "–".to_string(), row.show))
                }
            }
        }
    } }
}

/// The better one of several figures; `None` if all are equal.
fn best(values: &[Option<f64>], better: Better) -> Option<f64> {
    let known = || values.iter().flatten().copied();
    let (low, high) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    match better {
        _ if low == high => None,
        Better::More => Some(high),
        Better::Less => Some(low),
        Better::Neither => None,
    }
}

fn distributions(report: &DemoReport) -> Markup {
    html! { section {
        h2 { "Response times" }
        p { "The share of requests that were answered within a time; further left is better." }
        div.plots { @for (index, plan) in report.volumes.iter().enumerate() {
            figure { figcaption { (plan.name) } (PreEscaped(plots::response_cdf(report, index))) }
        } }
    } }
}

fn heat(report: &DemoReport) -> Markup {
    html! { section {
        h2 { "Response times over time" }
        p { "The darker a cell, the more requests. The dashed line is the deadline." }
        div.plots {
            @for (index, plan) in report.volumes.iter().enumerate() {
                @for (nth, run) in report.runs.iter().enumerate() {
                    figure {
                        figcaption { (plan.name) ", " (run.policy) }
                        (PreEscaped(plots::heat(report, index, nth)))
                    }
                }
            }
        }
    } }
}

fn over_time(report: &DemoReport) -> Markup {
    let plot = |index, what| PreEscaped(plots::over_time(report, index, what));
    html! { section {
        h2 { "Over time" }
        div.plots {
            @for (index, plan) in report.volumes.iter().enumerate() {
                figure {
                    figcaption { (plan.name) ": share of disk time" }
                    (plot(index, OverTime::Shares))
                }
            }
            @for (index, plan) in report.volumes.iter().enumerate() {
                figure {
                    figcaption { (plan.name) ": throughput" }
                    (plot(index, OverTime::Throughput))
                }
            }
            @for (index, plan) in report.volumes.iter().enumerate() {
                @if plan.deadline_ms.is_some() {
                    figure {
                        figcaption { (plan.name) ": deadlines missed" }
                        (plot(index, OverTime::Misses))
                    }
                }
            }
        }
    } }
}

fn disk_time(report: &DemoReport) -> Markup {
    if report.runs.iter().all(|run| run.disk_time.is_none()) {
        return html! {};
    }
    html! { section {
        h2 { "Where the drive's time went" }
        figure.wide { (PreEscaped(plots::disk_time(report))) }
        table.numbers {
            thead { tr {
                th {}
                @for (index, (part, _)) in DiskTimeShares::default().parts().iter().enumerate() {
                    th { i.swatch.{ "t" (index) } {} (part) }
                }
            } }
            tbody { @for run in &report.runs { @if let Some(split) = run.disk_time {
                tr {
                    th { (run.policy) }
                    @for (_, share) in split.parts() { td { (show_percent(share)) } }
                }
            } } }
        }
    } }
}

fn method(report: &DemoReport) -> Markup {
    type Show = fn(&PolicyRun) -> String;
    let lines: [(&str, Show); 6] = [
        ("measured for", |run| format!("{:.1} s", run.seconds)),
        ("commands at the drive, maximum", |run| {
            run.outstanding_limit
                .map_or_else(|| "chosen by the policy".to_string(), |limit| limit.to_string())
        }),
        ("commands at the drive, mean", |run| format!("{:.2}", run.outstanding_mean)),
        ("drive busy", |run| show_percent(run.utilization)),
        ("completions later than the model, p50 / p99 / maximum (µs)", |run| {
            run.lateness.map_or_else(
                || "–".to_string(),
                |late| format!("{:.0} / {:.0} / {:.0}", late.p50_us, late.p99_us, late.max_us),
            )
        }),
        ("error of the drive model, root mean square (µs)", |run| {
            run.belief
                .map_or_else(|| "–".to_string(), |belief| format!("{:.0}", belief.rms_error_us))
        }),
    ];
    html! { section {
        h2 { "How this was measured" }
        table.numbers {
            thead { tr { th {} @for run in &report.runs { th { (run.policy) } } } }
            tbody { @for (label, show) in lines {
                tr { th { (label) } @for run in &report.runs { td { (show(run)) } } }
            } }
        }
        (client_side(report))
        dl {
            @for plan in &report.volumes {
                dt { (plan.name) }
                dd {
                    (show_bytes(plan.size_bytes))
                    @if let Some(bytes) = plan.start_bytes {
                        ", from " (show_bytes(bytes)) " of the drive"
                    }
                    "; " (plan.load)
                }
            }
            dt { "program" } dd { "headtime " (report.version) }
            dt { "drive" }
            dd { (report.drive) ", emulated in real time, truth drawn with seed " (report.seed) }
            dt { "load" } dd { (report.load.name) " " (report.load.version) }
            dt { "machine" } dd { (report.machine) }
            dt { "ended" } dd { (show_utc(report.ended_unix_seconds)) }
        }
        p.fine {
            "Each policy had a fresh, empty drive drawn from the same seed. The scheduler starts \
             from the drive's nominal profile and learns from measured completions; it never sees \
             the seed or what was drawn. This is a single run on one machine: repeat it before you \
             rely on small differences."
        }
    } }
}

fn client_side(report: &DemoReport) -> Markup {
    let clients: Vec<_> = report
        .volumes
        .iter()
        .enumerate()
        .flat_map(|(index, plan)| {
            let client = move |run: &'_ PolicyRun| {
                Some((run.policy.clone(), run.volumes.get(index)?.client?))
            };
            report
                .runs
                .iter()
                .filter_map(client)
                .map(|(policy, client)| (&plan.name, policy, client))
        })
        .collect();
    html! { @if !clients.is_empty() {
        h3 { "As the clients saw it" }
        p { (report.load.name) "'s own figures, which include the way through the socket." }
        table.numbers {
            thead { tr {
                @for heading in [
                    "", "", "requests/s", "MiB/s", "median (ms)", "99 % (ms)", "longest (ms)",
                    "errors",
                ] { th { (heading) } }
            } }
            tbody { @for (name, policy, client) in clients {
                tr {
                    th { (name) }
                    td { (policy) }
                    td { (format!("{:.1}", client.iops)) }
                    td { (format!("{:.1}", client.mib_per_second)) }
                    td { (show_ms(client.response_ms.p50)) }
                    td { (show_ms(client.response_ms.p99)) }
                    td { (show_ms(client.response_ms.max)) }
                    td { (client.errors) }
                }
            } }
        }
    } }
}

fn names(report: &DemoReport) -> String {
    report.runs.iter().map(|run| run.policy.as_str()).collect::<Vec<_>>().join(" and ")
}

/// A date and time in UTC from seconds since 1970, by the civil calendar.
fn show_utc(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Days counted from 1 March of year 0, so that leap days come last in their 400-year era of
    // 146,097 days.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3_600, second % 3_600 / 60)
}

const STYLE: &str = "
:root { color-scheme: light; --ink: #1f2328; --soft: #59636e; --line: #d8dde2; --paper: #fbfbf9; \
--card: #ffffff; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, \
-apple-system, 'Segoe UI', 'Liberation Sans', sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 40px 28px 80px; }
h1 { font-size: 34px; line-height: 1.15; margin: 0 0 12px; letter-spacing: -0.01em; }
h2 { font-size: 22px; margin: 48px 0 8px; padding-top: 16px; border-top: 1px solid var(--line); }
h3 { font-size: 17px; margin: 28px 0 4px; }
p { margin: 6px 0 14px; max-width: 82ch; }
.lead { font-size: 18px; color: var(--soft); }
.lead b { color: var(--ink); font-weight: 600; }
.verdict { font-size: 19px; font-weight: 600; margin: 18px 0 4px; }
.note { background: #fff6dd; border-left: 4px solid #d9a406; padding: 8px 14px; }
.fine { color: var(--soft); font-size: 14px; }
.legend { list-style: none; display: grid; gap: 4px; padding: 0; margin: 18px 0 0; color: \
var(--soft); }
.legend b { color: var(--ink); margin-right: 8px; }
.legend i { display: inline-block; width: 34px; margin-right: 10px; vertical-align: middle; \
border-top: 3px solid; } .legend .first { border-top-style: dashed; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); gap: 18px; \
align-items: start; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 18px; }
table { border-collapse: collapse; background: var(--card); border: 1px solid var(--line); width: \
100%; font-variant-numeric: tabular-nums; font-size: 15px; }
.cards table, .numbers { border-radius: 8px; border-collapse: separate; border-spacing: 0; \
overflow: hidden; }
.numbers { margin: 12px 0 20px; }
caption { text-align: left; font-weight: 600; font-size: 18px; padding: 0 0 6px; }
caption span { font-weight: 400; font-size: 14px; color: var(--soft); margin-left: 8px; }
th { text-align: left; font-weight: 500; color: var(--soft); }
th, td { padding: 6px 12px; border-top: 1px solid #eef0f2; }
thead th { border-top: 0; background: #f4f5f3; color: var(--ink); font-weight: 600; }
td, thead th:not(:first-child) { text-align: right; }
td { white-space: nowrap; }
td.best { font-weight: 700; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; \
padding: 12px 12px 4px; }
figure.wide { padding: 4px 12px; }
figcaption { font-weight: 600; padding-left: 8px; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; margin: 20px 0; }
dt { color: var(--soft); } dd { margin: 0; }
@media print { body { background: #fff; } section { break-inside: avoid; } }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_civil_calendar() {
        assert_eq!(show_utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(show_utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(show_utc(1_795_262_121), "2026-11-21 11:55 UTC");
    }

    #[test]
    fn nothing_is_praised_when_all_are_the_same() {
        assert_eq!(best(&[Some(1.0), Some(1.0)], Better::More), None);
        assert_eq!(best(&[Some(1.0), None, Some(3.0)], Better::More), Some(3.0));
        assert_eq!(best(&[Some(1.0), None, Some(3.0)], Better::Less), Some(1.0));
        assert_eq!(best(&[Some(1.0), None, Some(3.0)], Better::Neither), None);
        assert_eq!(best(&[None], Better::Less), None);
    }
}
