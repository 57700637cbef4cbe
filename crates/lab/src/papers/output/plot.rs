//! A report's plot as SVG.
//!
//! Panels stand side by side, two to a row; below them one legend. A line's color follows from its
//! name, so that it is the same in every panel; what was published is drawn dashed with hollow
//! points, what was measured solid with its 95 % intervals.

use crate::chart::{self, Line, Spot, sheet};
use crate::papers::report::{Axis, Panel, Plot, Report, Series};

/// The plot of `report`, for a page.
pub fn plot(report: &Report) -> String {
    let plot = &report.plot;
    let names = names(plot);
    let panels: Vec<(String, chart::Plot)> =
        plot.panels.iter().map(|panel| (panel.title.clone(), draw(plot, panel, &names))).collect();
    let line = |name: &str, published| Line {
        class: class(&names, name),
        name: name.to_string(),
        dashed: published,
        spots: Vec::new(),
    };
    let mut legend: Vec<Line> = names.iter().map(|name| line(name, false)).collect();
    if plot.panels.iter().flat_map(|panel| &panel.series).any(|series| series.published) {
        legend.push(line("dashed, with hollow points: published", true));
    }
    sheet(&panels, panels.len().clamp(1, 2), &legend, report.title)
}

fn draw(plot: &Plot, panel: &Panel, names: &[&str]) -> chart::Plot {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x = points().map(|point| point.x);
    let x = match plot.x_axis {
        Axis::Linear => chart::Axis::over(plot.x_label, x),
        Axis::PowersOfTwo => chart::Axis::powers_of_two(plot.x_label, x),
    };
    let y = points().flat_map(|point| [Some(point.y), point.low, point.high]).flatten();
    let y = chart::Axis::over(plot.y_label, y.chain([0.0]));
    let mut drawn = chart::Plot::new(x, y, PANEL, 24.0);
    for series in &panel.series {
        let spots = series.points.iter().map(|point| Spot {
            y_range: point.low.zip(point.high),
            title: format!("{}: {}", series.name, chart::plain(point.y)),
            marked: true,
            ..Spot::plain((point.x, point.y))
        });
        drawn.line(&Line {
            class: class(names, &series.name),
            name: series.name.clone(),
            dashed: series.published,
            spots: spots.collect(),
        });
    }
    drawn
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

fn class(names: &[&str], name: &str) -> String {
    chart::class(names.iter().position(|other| *other == name).unwrap_or(0))
}

const PANEL: (f64, f64) = (560.0, 340.0);
