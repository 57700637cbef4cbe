//! A report as one page of HTML that carries its style and plot and fetches nothing.

use maud::{PreEscaped, html};

use crate::chart;
use crate::papers::output::plot;
use crate::papers::{Report, Row, RowVerdict};
use crate::report::page::{self};

/// The page of `report`.
pub fn page(report: &Report) -> String {
    let title = format!("{}: {}", report.id, report.title);
    let content = html! {
        h1 { (title) }
        p {
            "Reproduces " (report.source) ". Headtime " (report.version) ", seed " (report.seed)
            ", scale " (report.scale) ". Again: " code { (report.command) }
        }
        figure { (PreEscaped(plot(report))) }
        h2 { "Published and measured" }
        table {
            thead { tr {
                @for heading in HEADINGS {
                    th { (heading) }
                }
            } }
            tbody { @for row in &report.rows {
                tr class=(class(row)) {
                    th { (row.what) }
                    td { (row.published.text()) }
                    td { (row.measured_text()) }
                    td { (row.unit) }
                    td { (row.verdict_text()) }
                    td { (row.tolerance.as_deref().unwrap_or("")) }
                    td { (row.reason.as_deref().unwrap_or("")) }
                }
            } }
        }
        h2 { "Held fixed" }
        table { tbody { @for parameter in &report.parameters {
            tr { th { (parameter.name) } td { (parameter.value) } }
        } } }
        @if !report.notes.is_empty() {
            h2 { "Limits of these figures" }
            ul { @for note in &report.notes { li { (note) } } }
        }
    };
    page::page(&title, &(chart::style() + STYLE), &content)
}

fn class(row: &Row) -> &'static str {
    match row.verdict {
        Some(RowVerdict::Reproduced) => "reproduced",
        Some(RowVerdict::NotReproduced) => "not-reproduced",
        Some(RowVerdict::Inconclusive) => "inconclusive",
        None => "open",
    }
}

const HEADINGS: [&str; 7] =
    ["what", "published", "measured (95 %)", "unit", "verdict", "tolerance", "why"];

const STYLE: &str = "
body { margin: 0; background: #fff; color: #202428; font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1180px; margin: 0 auto; padding: 24px }
h1 { font-size: 22px } h2 { font-size: 17px; margin-top: 28px }
figure { margin: 16px 0 }
code { background: #f2f3f4; padding: 1px 5px; border-radius: 3px }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: 4px 10px; border-bottom: 1px solid \
#e2e4e6; font-weight: normal }
thead th { font-weight: 600 }
td:nth-child(3) { white-space: nowrap; font-variant-numeric: tabular-nums }
tr.not-reproduced td:nth-child(5) { color: #a3232f; font-weight: 600 }
tr.reproduced td:nth-child(5) { color: #1b6e3c; font-weight: 600 }
tr.inconclusive td:nth-child(5) { color: #8a5a00; font-weight: 600 }
";
