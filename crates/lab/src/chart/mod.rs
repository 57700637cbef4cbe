//! The plots of all reports and files, as SVG that takes its colors from a style sheet.
//!
//! They are written directly and not by a library. A plot inside a page follows the reader's light
//! or dark mode, prints well, names its lines at their ends, and has tooltips. Shapes carry classes
//! (`p3` is a policy's color) and titles; the page's style, which includes [`style`], does the
//! rest. [`file`] makes a file of a plot. Sizes are in SVG units of about a pixel.

mod axis;
mod bars;
mod lines;
mod plot;

pub(crate) use axis::{Axis, address, plain};
pub(crate) use bars::{Bar, Part, Stack, bars, stacks};
pub(crate) use lines::{Labels, Line, Spot, lines};
pub(crate) use plot::{Plot, sheet};

use crate::report::page::escape;

/// The style of the shapes, with the colors of light paper; a page may set others after it. The
/// shapes of a line or bar have the text color of its class.
pub(crate) fn style() -> String {
    let colors: String = LIGHT.iter().map(|(name, color)| format!("--{name}: {color}; ")).collect();
    format!(":root {{ {colors}}}{SHAPES}")
}

/// A plot as a file of its own, on white.
pub(crate) fn file(svg: &str) -> String {
    // Not every program that shows SVG knows variables.
    let style = LIGHT.iter().fold(SHAPES.to_string(), |style, (name, color)| {
        style.replace(&format!("var(--{name})"), color)
    });
    let head = "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" \
        style=\"background: #fff\"";
    svg.replacen("<svg", head, 1).replacen('>', &format!("><style>{style}</style>"), 1)
}

/// The class of the `place`-th color, of twelve that readers without red or green can tell apart.
pub(crate) fn class(place: usize) -> String {
    format!("c{}", place % 12)
}

/// The color between two, from the first with nothing of `share` to the second with all.
pub(crate) fn shade(from: Color, to: Color, share: f64) -> Color {
    let between = |from: u8, to: u8| {
        (f64::from(from) + (f64::from(to) - f64::from(from)) * share.clamp(0.0, 1.0)) as u8
    };
    (between(from.0, to.0), between(from.1, to.1), between(from.2, to.2))
}

/// Red, green and blue.
pub(crate) type Color = (u8, u8, u8);

const LIGHT: [(&str, &str); 11] = [
    ("ink", "#1d2125"),
    ("soft", "#5b646d"),
    ("line", "#d9dee3"),
    ("faint", "#e9ecef"),
    ("card", "#fff"),
    ("t0", "#c2504f"),
    ("t1", "#e3a24f"),
    ("t2", "#3f8f63"),
    ("t3", "#8274b8"),
    ("t4", "#5aa9c4"),
    ("t5", "#e4e4df"),
];
const SHAPES: &str = "
svg { display: block; width: 100%; height: auto; font-size: 12.5px; }
svg text { fill: var(--ink); }
svg .mark, svg .title { fill: var(--soft); font-size: 12px; }
svg .caption { font-size: 14px; }
svg .name.oracle { font-style: italic; }
.grid { stroke: var(--faint); } .tick { stroke: var(--line); } .axis { stroke: var(--soft); }
.line path { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.line circle { fill: currentColor; stroke: var(--card); stroke-width: 1; }
.line.dashed path { stroke-dasharray: 6 4; }
.line.dashed circle { fill: var(--card); stroke: currentColor; stroke-width: 1.6; }
.line:hover path { stroke-width: 3.6; }
.range { stroke: currentColor; stroke-width: 1.4; }
.leader { fill: none; stroke: currentColor; stroke-width: 1.2; opacity: .75; }
.limit { stroke: #be1e2d; stroke-dasharray: 6 4; stroke-width: 1.4; }
svg .limit-name { fill: #be1e2d; }
.bar { fill: currentColor; } .bar.hollow { fill-opacity: .22; stroke: currentColor; \
stroke-dasharray: 4 3; }
.dot { fill: currentColor; fill-opacity: .5; }
.whisker { stroke: var(--ink); stroke-width: 1.6; }
rect.t0, i.t0 { fill: var(--t0); background: var(--t0); } rect.t1, i.t1 { fill: var(--t1); \
background: var(--t1); } rect.t2, i.t2 { fill: var(--t2); background: var(--t2); }
rect.t3, i.t3 { fill: var(--t3); background: var(--t3); } rect.t4, i.t4 { fill: var(--t4); \
background: var(--t4); } rect.t5, i.t5 { fill: var(--t5); background: var(--t5); }
svg .inside { fill: #fff; font-size: 11.5px; } svg .inside.t5 { fill: var(--soft); } svg \
.inside.t1, svg .inside.t4 { fill: #1d2125; }
.c0 { color: #d6761c; } .c1 { color: #1862ba; } .c2 { color: #6e6e6e; } .c3 { color: #803ea2; } \
.c4 { color: #148c82; } .c5 { color: #b43c5a; } .c6 { color: #968214; } .c7 { color: #50aadc; } \
.c8 { color: #1e2225; } .c9 { color: #e278a0; } .c10 { color: #78b450; } .c11 { color: #785032; }
";

/// The start of a plot as wide as its column, with `alternative` as its text description.
fn open(width: f64, height: f64, alternative: &str) -> String {
    format!(
        "<svg role=\"img\" viewBox=\"0 0 {} {}\" aria-label=\"{}\">\n",
        n(width),
        n(height),
        escape(alternative)
    )
}

/// A text; `anchor` is start, middle or end.
fn text(class: &str, x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!(
        "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>\n",
        n(x),
        n(y),
        escape(words)
    )
}

fn straight(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
        n(x1),
        n(y1),
        n(x2),
        n(y2)
    )
}

fn rectangle(class: &str, x: f64, y: f64, width: f64, height: f64, title: &str) -> String {
    let title = escape(title);
    format!(
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" \
            height=\"{}\"><title>{title}</title></rect>\n",
        n(x),
        n(y),
        n(width.max(0.0)),
        n(height)
    )
}

/// A length with one decimal: a tenth of a pixel.
fn n(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

/// The approximate width of `words` at font size 12.5, rather too wide than too narrow.
fn width_of(words: &str) -> f64 {
    words.chars().count() as f64 * 6.6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_carry_no_needless_digits_and_text_no_markup() {
        assert_eq!([1.0, 2.25, 0.04].map(n), ["1", "2.2", "0"]);
        assert!(text("t", 0.0, 0.0, "end", "a<b").contains(">a&lt;b</text>"));
    }
}
