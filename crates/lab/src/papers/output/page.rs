//! A report as one page of HTML that carries its style and plot within itself and fetches nothing.

use std::fmt::Write as _;

use crate::papers::error::WriteError;
use crate::papers::output::svg;
use crate::papers::report::{Report, Row};

/// The page of `report`.
///
/// # Errors
/// When the plot cannot be drawn.
pub fn page(report: &Report) -> Result<String, WriteError> {
    let mut out = String::with_capacity(64 * 1024);
    // Writing to a text cannot fail.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
            name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\">\n<title>{id}: \
         {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{id}: {title}</h1>\n\
         <p>Reproduces {source}. Headtime {version}, seed {seed}, scale {scale}. Again: \
         <code>{command}</code></p>\n",
        id = escape(report.id),
        title = escape(report.title),
        source = escape(report.source),
        version = escape(report.version),
        seed = report.seed,
        scale = report.scale,
        command = escape(&report.command),
    );
    let _ = write!(out, "<figure>\n{}\n</figure>\n", embedded(&svg(report)?));
    rows(&mut out, report);
    out.push_str("<h2>Held fixed</h2>\n<table>\n<tbody>\n");
    for parameter in &report.parameters {
        let _ = writeln!(
            out,
            "<tr><th>{}</th><td>{}</td></tr>",
            escape(parameter.name),
            escape(&parameter.value)
        );
    }
    out.push_str("</tbody>\n</table>\n");
    if !report.notes.is_empty() {
        out.push_str("<h2>Before leaning on these figures</h2>\n<ul>\n");
        for note in &report.notes {
            let _ = writeln!(out, "<li>{}</li>", escape(note));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(out)
}

fn rows(out: &mut String, report: &Report) {
    out.push_str("<h2>Published and measured</h2>\n<table>\n<thead><tr>");
    for heading in ["what", "published", "measured (95 %)", "unit", "holds", "why"] {
        let _ = write!(out, "<th>{heading}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &report.rows {
        let class = match row.holds {
            Some(true) => "holds",
            Some(false) => "fails",
            None => "open",
        };
        let reason = row.reason.as_deref().unwrap_or("");
        let cells = [
            row.published.text(),
            row.measured_text(),
            row.unit.to_string(),
            Row::verdict(row).to_string(),
            reason.to_string(),
        ];
        let _ = write!(out, "<tr class=\"{class}\"><th>{}</th>", escape(&row.what));
        for cell in cells {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
}

/// The plot as a part of the page: without a namespace, which inside HTML is known, and without a
/// fixed size, so that it fits its column.
fn embedded(svg: &str) -> String {
    let attributes = svg.split_once('>').map_or("", |(opening, _)| opening);
    let size = |name: &str| {
        let start = attributes.find(&format!("{name}=\""))? + name.len() + 2;
        let rest = attributes.get(start..)?;
        Some(format!("{name}=\"{}\" ", &rest[..rest.find('"')?]))
    };
    let fixed: String = ["width", "height"].into_iter().filter_map(size).collect();
    svg.replacen(&fixed, "role=\"img\" ", 1).replacen(
        " xmlns=\"http://www.w3.org/2000/svg\"",
        "",
        1,
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "
body { margin: 0; background: #fff; color: #202428; font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1180px; margin: 0 auto; padding: 24px }
h1 { font-size: 22px } h2 { font-size: 17px; margin-top: 28px }
figure { margin: 16px 0 } svg { width: 100%; height: auto }
code { background: #f2f3f4; padding: 1px 5px; border-radius: 3px }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: 4px 10px; border-bottom: 1px solid \
#e2e4e6; font-weight: normal }
thead th { font-weight: 600 }
td:nth-child(3) { white-space: nowrap; font-variant-numeric: tabular-nums }
tr.fails td:nth-child(5) { color: #a3232f; font-weight: 600 }
tr.holds td:nth-child(5) { color: #1b6e3c; font-weight: 600 }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_markup_is_escaped() {
        assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
    }

    #[test]
    fn a_plot_inside_a_page_has_neither_a_link_nor_a_fixed_size() {
        let svg = "<svg width=\"10\" height=\"20\" viewBox=\"0 0 10 20\" \
            xmlns=\"http://www.w3.org/2000/svg\">\n<rect width=\"3\"/></svg>";
        assert_eq!(
            embedded(svg),
            "<svg role=\"img\" viewBox=\"0 0 10 20\">\n<rect width=\"3\"/></svg>"
        );
    }
}
