//! The report's page: one HTML file that carries its style and plots within itself.

use std::fmt::Write as _;

use super::plots::{self, OverTime};
use super::{ClientFigures, DemoReport, PolicyRun, VolumePlan};
use headtime_console::figures::{VolumeTotals, show_bytes, show_ms, show_percent};

/// The whole page.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn page(report: &DemoReport) -> anyhow::Result<String> {
    let mut out = String::with_capacity(200_000);
    let title = format!("Headtime demo: {}", names(report));
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
            name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&title)
    )?;
    header(&mut out, report)?;
    summary(&mut out, report)?;
    distributions(&mut out, report)?;
    over_time(&mut out, report)?;
    disk_time(&mut out, report)?;
    measured_how(&mut out, report)?;
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(out)
}

fn header(out: &mut String, report: &DemoReport) -> anyhow::Result<()> {
    let loads: Vec<String> = report
        .volumes
        .iter()
        .map(|plan| format!("<b>{}</b> ({})", escape(&plan.name), escape(&plan.load)))
        .collect();
    write!(
        out,
        "<header>\n<h1>The same load, {} policies</h1>\n<p class=\"lead\">One emulated drive, {} \
            ({}), served over NBD as {} volumes: {}. {} loaded them \
         for {} seconds under each policy.</p>\n",
        report.runs.len(),
        escape(&report.drive),
        escape(&report.drive_summary),
        report.volumes.len(),
        loads.join(", "),
        escape(&format!("{} {}", report.load.name, report.load.version)),
        report.seconds_per_policy,
    )?;
    if let Some(reason) = &report.load.reason {
        writeln!(
            out,
            "<p class=\"note\">The load is the built-in generator's: {}.</p>",
            escape(reason)
        )?;
    }
    if report.interrupted {
        out.push_str(
            "<p class=\"note\">The demo was interrupted: the last run is shorter than the \
            others.</p>\n",
        );
    }
    for warning in report.warnings() {
        writeln!(out, "<p class=\"note\">{}.</p>", escape(&warning))?;
    }
    if let Some(verdict) = verdict(report) {
        writeln!(out, "<p class=\"verdict\">{}</p>", escape(&verdict))?;
    }
    out.push_str("<ul class=\"legend\">");
    for (index, run) in report.runs.iter().enumerate() {
        let dash = if index == 0 { "dashed" } else { "solid" };
        let color = plots::css_color(index);
        write!(
            out,
            "<li><i style=\"border-top:3px {dash} {color}\"></i><b>{}</b> {}</li>",
            escape(&run.policy),
            escape(&run.summary)
        )?;
    }
    out.push_str("</ul>\n</header>\n");
    Ok(())
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

/// One line of the summary: what it is, how it reads for one volume's totals, and which way is
/// better.
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
    /// Neither: it says how something came about.
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

fn summary(out: &mut String, report: &DemoReport) -> anyhow::Result<()> {
    out.push_str("<section>\n<h2>Side by side</h2>\n<div class=\"cards\">\n");
    for (index, plan) in report.volumes.iter().enumerate() {
        write!(
            out,
            "<table>\n<caption>{}{}</caption>\n<thead><tr><th></th>",
            escape(&plan.name),
            deadline_note(plan)
        )?;
        for run in &report.runs {
            write!(out, "<th>{}</th>", escape(&run.policy))?;
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in ROWS {
            let values: Vec<Option<f64>> = report
                .runs
                .iter()
                .map(|run| run.volumes.get(index).and_then(|volume| (row.value)(&volume.totals)))
                .collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            write!(out, "<tr><th>{}</th>", row.label)?;
            let best = best(&values, row.better);
            for value in values {
                let class = if value.is_some() && value == best { " class=\"best\"" } else { "" };
                write!(out, "<td{class}>{}</td>", value.map_or_else(|| "–".to_string(), row.show))?;
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n");
    }
    out.push_str(
        "</div>\n<p class=\"fine\">Measured at the server: from the arrival of a request \
        to its reply. The better figure of a line is bold.</p>\n</section>\n",
    );
    Ok(())
}

fn deadline_note(plan: &VolumePlan) -> String {
    plan.deadline_ms
        .map_or_else(String::new, |ms| format!(" <span>deadline {} ms</span>", show_ms(ms)))
}

/// The better one of several figures, `None` when all are the same, so that nothing is praised for
/// nothing.
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

fn distributions(out: &mut String, report: &DemoReport) -> anyhow::Result<()> {
    out.push_str(
        "<section>\n<h2>Response times</h2>\n<p>The share of requests that were answered \
        within a time; further left is better.</p>\n<div class=\"plots\">\n",
    );
    for (index, plan) in report.volumes.iter().enumerate() {
        let plot = plots::response_cdf(report, index)?;
        writeln!(out, "<figure><figcaption>{}</figcaption>{plot}</figure>", escape(&plan.name))?;
    }
    out.push_str("</div>\n</section>\n");
    Ok(())
}

fn over_time(out: &mut String, report: &DemoReport) -> anyhow::Result<()> {
    out.push_str("<section>\n<h2>Over time</h2>\n<div class=\"plots\">\n");
    for (index, plan) in report.volumes.iter().enumerate() {
        let plot = plots::over_time(report, index, OverTime::Throughput)?;
        writeln!(
            out,
            "<figure><figcaption>{}: throughput</figcaption>{plot}</figure>",
            escape(&plan.name)
        )?;
    }
    for (index, plan) in
        report.volumes.iter().enumerate().filter(|(_, plan)| plan.deadline_ms.is_some())
    {
        let plot = plots::over_time(report, index, OverTime::Misses)?;
        writeln!(
            out,
            "<figure><figcaption>{}: deadlines missed</figcaption>{plot}</figure>",
            escape(&plan.name)
        )?;
    }
    out.push_str("</div>\n</section>\n");
    Ok(())
}

fn disk_time(out: &mut String, report: &DemoReport) -> anyhow::Result<()> {
    if report.runs.iter().all(|run| run.disk_time.is_none()) {
        return Ok(());
    }
    out.push_str("<section>\n<h2>Where the drive's time went</h2>\n<figure class=\"wide\">");
    out.push_str(&plots::disk_time(report)?);
    out.push_str("</figure>\n<table class=\"numbers\">\n<thead><tr><th></th>");
    let parts = headtime_console::figures::DiskTimeShares::default().parts();
    for (index, (part, _)) in parts.iter().enumerate() {
        write!(
            out,
            "<th><i class=\"swatch\" style=\"background:{}\"></i>{part}</th>",
            plots::css_part_color(index)
        )?;
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for run in &report.runs {
        let Some(split) = run.disk_time else { continue };
        write!(out, "<tr><th>{}</th>", escape(&run.policy))?;
        for (_, share) in split.parts() {
            write!(out, "<td>{}</td>", show_percent(share))?;
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</section>\n");
    Ok(())
}

fn measured_how(out: &mut String, report: &DemoReport) -> anyhow::Result<()> {
    out.push_str(
        "<section>\n<h2>How this was measured</h2>\n<table \
        class=\"numbers\">\n<thead><tr><th></th>",
    );
    for run in &report.runs {
        write!(out, "<th>{}</th>", escape(&run.policy))?;
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    type Show = fn(&PolicyRun) -> String;
    let lines: [(&str, Show); 6] = [
        ("measured for", |run| format!("{:.1} s", run.seconds)),
        ("commands at the drive, at most", |run| {
            run.outstanding_limit
                .map_or_else(|| "as the policy likes".to_string(), |limit| limit.to_string())
        }),
        ("commands at the drive, mean", |run| format!("{:.2}", run.outstanding_mean)),
        ("drive busy", |run| show_percent(run.utilization)),
        ("completions later than the model, p50 / p99 / most (µs)", |run| {
            run.lateness.map_or_else(
                || "–".to_string(),
                |late| format!("{:.0} / {:.0} / {:.0}", late.p50_us, late.p99_us, late.max_us),
            )
        }),
        ("belief's error, root mean square (µs)", |run| {
            run.belief
                .map_or_else(|| "–".to_string(), |belief| format!("{:.0}", belief.rms_error_us))
        }),
    ];
    for (label, show) in lines {
        write!(out, "<tr><th>{label}</th>")?;
        for run in &report.runs {
            write!(out, "<td>{}</td>", escape(&show(run)))?;
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
    client_side(out, report)?;
    out.push_str("<dl>\n");
    for plan in &report.volumes {
        let start = plan
            .start_bytes
            .map_or_else(String::new, |bytes| format!(", from {} of the drive", show_bytes(bytes)));
        writeln!(
            out,
            "<dt>{}</dt><dd>{}{start}; {}</dd>",
            escape(&plan.name),
            show_bytes(plan.size_bytes),
            escape(&plan.load)
        )?;
    }
    let facts = [
        ("program", format!("headtime {}", report.version)),
        (
            "drive",
            format!(
                "{}, emulated in real time, truth drawn with seed {}",
                report.drive, report.seed
            ),
        ),
        ("load", format!("{} {}", report.load.name, report.load.version)),
        ("machine", report.machine.clone()),
        ("ended", show_utc(report.ended_unix_seconds)),
    ];
    for (name, value) in facts {
        writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value))?;
    }
    out.push_str(
        "</dl>\n<p class=\"fine\">Each policy had a fresh, empty drive drawn from the same seed. \
            The scheduler starts from the drive's nominal profile and learns \
         from measured completions; it never sees the seed or what was drawn. This is a single run \
         on one machine: repeat it before leaning on small \
         differences.</p>\n</section>\n",
    );
    Ok(())
}

fn client_side(out: &mut String, report: &DemoReport) -> anyhow::Result<()> {
    if report.runs.iter().all(|run| run.volumes.iter().all(|volume| volume.client.is_none())) {
        return Ok(());
    }
    write!(
        out,
        "<h3>As the clients saw it</h3>\n<p>{}'s own figures, which include the way through the \
            socket.</p>\n<table \
            class=\"numbers\">\n<thead><tr><th></th><th></th><th>requests/s</th>\
         <th>MiB/s</th><th>median (ms)</th><th>99 % (ms)</th><th>longest \
         (ms)</th><th>errors</th></tr></thead>\n<tbody>\n",
        escape(&report.load.name)
    )?;
    for (index, plan) in report.volumes.iter().enumerate() {
        for run in &report.runs {
            let Some(client) = run.volumes.get(index).and_then(|volume| volume.client) else {
                continue;
            };
            let ClientFigures { iops, mib_per_second, response_ms, errors, .. } = client;
            writeln!(
                out,
                "<tr><th>{}</th><td>{}</td><td>{iops:.1}</td><td>{mib_per_second:.1}</td><td>{}</td><td>{}</td><td>{}</td><td>{errors}</td></tr>",
                escape(&plan.name),
                escape(&run.policy),
                show_ms(response_ms.p50),
                show_ms(response_ms.p99),
                show_ms(response_ms.max),
            )?;
        }
    }
    out.push_str("</tbody>\n</table>\n");
    Ok(())
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

/// `text` as it stands in markup.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
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
.legend i { display: inline-block; width: 34px; margin-right: 10px; vertical-align: middle; }
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
svg { display: block; width: 100%; height: auto; }
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

    #[test]
    fn text_from_outside_cannot_become_markup() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
