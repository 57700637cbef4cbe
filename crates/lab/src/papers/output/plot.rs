//! A report's plot as SVG.
//!
//! Panels stand side by side, two to a row; below them one legend. A line's color follows from its
//! name, so that it is the same in every panel; what was published is drawn dashed with hollow
//! points, what was measured solid with its 95 % intervals.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::papers::error::WriteError;
use crate::papers::report::{Axis, Panel, Plot, Report, Series};
use crate::report::plots::{Area, FAINT, FONT, TEXT, drawn};

/// Colors in the order in which names appear, distinguishable without red and green.
const COLOURS: [RGBColor; 12] = [
    RGBColor(110, 110, 110),
    RGBColor(214, 118, 28),
    RGBColor(24, 98, 186),
    RGBColor(20, 140, 130),
    RGBColor(128, 62, 160),
    RGBColor(180, 60, 90),
    RGBColor(150, 130, 20),
    RGBColor(80, 170, 220),
    RGBColor(30, 34, 37),
    RGBColor(226, 120, 160),
    RGBColor(120, 180, 80),
    RGBColor(120, 80, 50),
];
/// Width and height of a panel, height of a line of the legend, width of one of its columns; in
/// pixels.
const PANEL: (u32, u32) = (560, 360);
const LEGEND_LINE: i32 = 22;
const LEGEND_COLUMN: i32 = 373;

type DrawError = Box<dyn std::error::Error>;

/// The plot of `report` as one SVG file.
///
/// # Errors
/// When plotters cannot draw it.
pub fn svg(report: &Report) -> Result<String, WriteError> {
    let plot = &report.plot;
    let names = names(plot);
    let columns = plot.panels.len().clamp(1, 2);
    let rows = plot.panels.len().div_ceil(2).max(1);
    let legend_columns = if columns == 1 { 1 } else { 3 };
    let legend = names.len().div_ceil(legend_columns) as u32 * LEGEND_LINE as u32 + 40;
    let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32 + legend);
    drawn(size, |area| draw(area, plot, &names, (rows, columns), legend_columns))
        .map_err(|error| WriteError::Form { id: report.id, form: "plot", cause: error.to_string() })
}

fn draw(
    area: &Area<'_>,
    plot: &Plot,
    names: &[&str],
    (rows, columns): (usize, usize),
    legend_columns: usize,
) -> Result<(), DrawError> {
    area.fill(&WHITE)?;
    let (panels, legend) = area.split_vertically(PANEL.1 * rows as u32);
    for (panel, area) in plot.panels.iter().zip(panels.split_evenly((rows, columns))) {
        draw_panel(&area, plot, panel, names)?;
    }
    draw_legend(&legend, names, legend_columns)
}

fn draw_panel(
    area: &Area<'_>,
    plot: &Plot,
    panel: &Panel,
    names: &[&str],
) -> Result<(), DrawError> {
    let place = |x: f64| match plot.x_axis {
        Axis::Linear => x,
        Axis::PowersOfTwo => libm::log2(x),
    };
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x = span(points().map(|point| place(point.x)), 0.04);
    let y = span(
        points().flat_map(|point| [Some(point.y), point.low, point.high]).flatten().chain([0.0]),
        0.06,
    );
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 18).into_font().color(&TEXT))
        .margin(8)
        .margin_right(16)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(Places { span: x, axis: plot.x_axis }, y)?;
    chart
        .configure_mesh()
        .light_line_style(FAINT.mix(0.25))
        .bold_line_style(FAINT)
        .axis_style(TEXT.mix(0.5))
        .label_style((FONT, 14).into_font().color(&TEXT))
        .x_desc(plot.x_label)
        .y_desc(plot.y_label)
        .x_labels(9)
        .y_labels(7)
        .y_label_formatter(&|value| number(*value))
        .draw()?;
    for series in &panel.series {
        let color = color(names, &series.name);
        let at = |point: &crate::papers::report::Point| (place(point.x), point.y);
        if series.published {
            chart.draw_series(DashedLineSeries::new(
                series.points.iter().map(at),
                5,
                4,
                color.stroke_width(1),
            ))?;
            chart.draw_series(
                series.points.iter().map(|point| Circle::new(at(point), 4, color.stroke_width(1))),
            )?;
        } else {
            chart.draw_series(LineSeries::new(
                series.points.iter().map(at),
                color.stroke_width(2),
            ))?;
            chart.draw_series(
                series.points.iter().map(|point| Circle::new(at(point), 3, color.filled())),
            )?;
            let intervals = series
                .points
                .iter()
                .filter_map(|point| Some((place(point.x), point.low?, point.high?)));
            chart.draw_series(intervals.map(|(x, low, high)| {
                PathElement::new([(x, low), (x, high)], color.stroke_width(1))
            }))?;
        }
    }
    Ok(())
}

fn draw_legend(area: &Area<'_>, names: &[&str], columns: usize) -> Result<(), DrawError> {
    let style = (FONT, 14).into_font().color(&TEXT);
    for (place, name) in names.iter().enumerate() {
        let (x, y) = (
            12 + LEGEND_COLUMN * (place % columns) as i32,
            14 + LEGEND_LINE * (place / columns) as i32,
        );
        area.draw(&PathElement::new([(x, y), (x + 26, y)], color(names, name).stroke_width(3)))?;
        area.draw(&Text::new((*name).to_string(), (x + 34, y - 7), style.clone()))?;
    }
    let y = 14 + LEGEND_LINE * names.len().div_ceil(columns) as i32;
    let words = "solid: measured here, with 95 % intervals; dashed with hollow points: published";
    area.draw(&Text::new(words, (12, y - 4), (FONT, 13).into_font().color(&TEXT)))?;
    Ok(())
}

/// The names of all lines, each once, in the order in which they appear.
fn names(plot: &Plot) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for Series { name, .. } in plot.panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn color(names: &[&str], name: &str) -> RGBColor {
    let place = names.iter().position(|other| *other == name).unwrap_or(0);
    COLOURS[place % COLOURS.len()]
}

/// The range from the smallest to the largest value, extended by a `share` of it at both ends; 0 to
/// 1 without values.
fn span(values: impl Iterator<Item = f64>, share: f64) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return 0.0..1.0;
    }
    let more = if high > low { (high - low) * share } else { 1.0 };
    // A scale that begins at nothing begins there.
    let low = if low == 0.0 { 0.0 } else { low - more };
    low..high + more
}

/// A number without needless digits.
fn number(value: f64) -> String {
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

/// An axis; by powers of two its places are exponents, and labels stand at whole ones.
struct Places {
    span: Range<f64>,
    axis: Axis,
}

impl Ranged for Places {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.span.start) / (self.span.end - self.span.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.axis {
            Axis::Linear => {
                plotters::coord::types::RangedCoordf64::from(self.span.clone()).key_points(hint)
            }
            Axis::PowersOfTwo => {
                let (first, last) =
                    (libm::ceil(self.span.start) as i32, libm::floor(self.span.end) as i32);
                (first..=last).map(f64::from).collect()
            }
        }
    }

    fn range(&self) -> Range<f64> {
        self.span.clone()
    }
}

impl ValueFormatter<f64> for Places {
    fn format_ext(&self, value: &f64) -> String {
        match self.axis {
            Axis::Linear => number(*value),
            Axis::PowersOfTwo => number(libm::exp2(*value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_no_needless_digits() {
        assert_eq!(
            [0.0, 1.0, 2.5, 0.125, 388.4, -20.0, -0.0001].map(number),
            ["0", "1", "2.5", "0.125", "388", "-20", "0"]
        );
    }

    #[test]
    fn a_scale_reaches_beyond_its_values_but_not_below_nothing() {
        assert_eq!(span([0.0, 100.0].into_iter(), 0.06), 0.0..106.0);
        assert_eq!(span([-50.0, 50.0].into_iter(), 0.1), -60.0..60.0);
        assert_eq!(span([4.0].into_iter(), 0.1), 3.0..5.0);
        assert_eq!(span(std::iter::empty(), 0.1), 0.0..1.0);
    }

    #[test]
    fn powers_of_two_are_labeled_by_what_they_are() {
        let places = Places { span: 0.9..8.2, axis: Axis::PowersOfTwo };
        let labels: Vec<String> =
            places.key_points(3).iter().map(|place| places.format_ext(place)).collect();
        assert_eq!(labels, ["2", "4", "8", "16", "32", "64", "128", "256"]);
        assert_eq!((places.map(&0.9, (0, 730)), places.map(&8.2, (0, 730))), (0, 730));
    }
}
