//! The plots of the page, as SVG that takes its colors from the page.
//!
//! They are written directly and not by plotters. A plot inside a page follows the reader's light
//! or dark mode, prints well, names its lines at their ends, and has tooltips. Shapes carry classes
//! (`p3` is a policy's color) and titles; the page's style does the rest. Sizes are in SVG units of
//! about a pixel.

mod axis;
mod bars;
mod lines;

pub(super) use axis::Axis;
pub(super) use bars::{Bar, Part, Stack, bars, stacks};
pub(super) use lines::{Labels, Line, Spot, lines};

use crate::report::page::escape;

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
