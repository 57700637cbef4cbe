//! [`Plot`]: what is drawn between two axes.

use super::{Axis, Color, Line, Spot, n, open, straight, text};
use crate::report::page::escape;

/// A plot with its axes.
pub(crate) struct Plot {
    shapes: String,
    x: Axis,
    y: Axis,
    width: f64,
    height: f64,
    /// The right end of the horizontal axis; names of lines may stand beyond it.
    pub(super) right: f64,
}

impl Plot {
    /// A plot of this size with axes alone; right of them `margin` stays free.
    pub(crate) fn new(x: Axis, y: Axis, (width, height): (f64, f64), margin: f64) -> Self {
        let right = width - margin;
        let mut plot = Self { shapes: String::new(), x, y, width, height, right };
        let (mut shapes, bottom) = (String::new(), plot.bottom());
        for (value, words) in plot.y.marks() {
            let up = plot.up(*value);
            shapes.push_str(&straight("grid", LEFT, up, right, up));
            shapes.push_str(&text("mark", LEFT - 8.0, up + 4.0, "end", words));
        }
        for (value, words) in plot.x.marks() {
            let along = plot.along(*value);
            shapes.push_str(&straight("tick", along, bottom, along, bottom + 5.0));
            shapes.push_str(&text("mark", along, bottom + 19.0, "middle", words));
        }
        let middle = f64::midpoint(LEFT, right);
        shapes.push_str(&straight("axis", LEFT, bottom, right, bottom));
        shapes.push_str(&text("title", middle, bottom + 38.0, "middle", plot.x.title()));
        shapes.push_str(&text("title", 4.0, 13.0, "start", plot.y.title()));
        plot.shapes = shapes;
        plot
    }

    /// The lower end of the vertical axis.
    pub(super) fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }

    /// The place of `x` from the left.
    pub(super) fn along(&self, x: f64) -> f64 {
        self.x.place(x, LEFT, self.right)
    }

    /// The place of `y` from the top.
    pub(super) fn up(&self, y: f64) -> f64 {
        self.y.place(y, self.bottom(), TOP)
    }

    /// The place of a point of a line.
    pub(super) fn at(&self, spot: &Spot) -> (f64, f64) {
        (self.along(spot.x), self.up(spot.y))
    }

    /// Draws a line with its intervals and marks.
    pub(crate) fn line(&mut self, line: &Line) {
        if line.spots.is_empty() {
            return;
        }
        let dashed = if line.dashed { " dashed" } else { "" };
        let path: Vec<String> = line
            .spots
            .iter()
            .map(|spot| self.at(spot))
            .map(|(x, y)| format!("{} {}", n(x), n(y)))
            .collect();
        let (name, path) = (escape(&line.name), path.join("L"));
        self.add(&format!(
            "<g class=\"line {}{dashed}\">\n<path d=\"M{path}\"><title>{name}</title></path>\n",
            line.class
        ));
        for spot in &line.spots {
            let (left, up) = self.at(spot);
            if let Some((low, high)) = spot.y_range {
                self.add(&straight("range", left, self.up(low), left, self.up(high)));
            }
            if let Some((low, high)) = spot.x_range {
                self.add(&straight("range", self.along(low), up, self.along(high), up));
            }
            if spot.marked {
                let (left, up, title) = (n(left), n(up), escape(&spot.title));
                self.add(&format!(
                    "<circle cx=\"{left}\" cy=\"{up}\" r=\"3.6\"><title>{title}</title></circle>\n"
                ));
            }
        }
        self.add("</g>\n");
    }

    /// Draws a limit of the horizontal axis as a vertical line.
    pub(crate) fn limit_across(&mut self, x: f64, name: &str) {
        let (along, bottom) = (self.along(x), self.bottom());
        self.add(&straight("limit", along, TOP, along, bottom));
        self.add(&text("limit-name", along - 5.0, bottom - 8.0, "end", name));
    }

    /// Draws a limit of the vertical axis as a horizontal line.
    pub(crate) fn limit_along(&mut self, y: f64, name: &str) {
        let up = self.up(y);
        self.add(&straight("limit", LEFT, up, self.right, up));
        self.add(&text("limit-name", LEFT + 5.0, up - 5.0, "start", name));
    }

    /// Fills the rectangle between two corners.
    pub(crate) fn cell(&mut self, color: Color, from: (f64, f64), to: (f64, f64)) {
        let ((red, green, blue), (left, low), (right, high)) = (color, from, to);
        let (left, right) = (self.along(left), self.along(right));
        let (top, bottom) = (self.up(high), self.up(low));
        self.add(&format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" \
                fill=\"#{red:02x}{green:02x}{blue:02x}\"/>\n",
            n(left),
            n(top),
            n(right - left),
            n(bottom - top)
        ));
    }

    /// Draws a small dot.
    pub(crate) fn dot(&mut self, (x, y): (f64, f64)) {
        let (along, up) = (n(self.along(x)), n(self.up(y)));
        self.add(&format!("<circle class=\"dot\" cx=\"{along}\" cy=\"{up}\" r=\"1\"/>\n"));
    }

    pub(super) fn add(&mut self, shape: &str) {
        self.shapes.push_str(shape);
    }

    /// The plot, with `alternative` as its text description.
    pub(crate) fn svg(&self, alternative: &str) -> String {
        open(self.width, self.height, alternative) + &self.shapes + "</svg>\n"
    }
}

/// Plots with titles, `columns` beside each other, and below them the names of their lines.
pub(crate) fn sheet(
    plots: &[(String, Plot)],
    columns: usize,
    names: &[Line],
    alternative: &str,
) -> String {
    let (mut top, mut width) = (0.0, 0.0_f64);
    let mut shapes = String::new();
    for row in plots.chunks(columns.max(1)) {
        let mut left = 0.0;
        for (title, plot) in row {
            shapes.push_str(&text("caption", left + 4.0, top + 18.0, "start", title));
            shapes.push_str(&format!(
                "<g transform=\"translate({} {})\">\n{}</g>\n",
                n(left),
                n(top + CAPTION),
                plot.shapes
            ));
            left += plot.width;
        }
        top += CAPTION + row.iter().map(|(_, plot)| plot.height).fold(0.0, f64::max);
        width = width.max(left);
    }
    for (place, line) in names.iter().enumerate() {
        let left = 12.0 + (place % columns.max(1)) as f64 * width / columns.max(1) as f64;
        let dashed = if line.dashed { " dashed" } else { "" };
        let path = format!("M{} {}h26", n(left), n(top + 12.0));
        shapes.push_str(&format!(
            "<g class=\"line {}{dashed}\"><path d=\"{path}\"/></g>\n",
            line.class
        ));
        shapes.push_str(&text("name", left + 34.0, top + 16.0, "start", &line.name));
        if (place + 1) % columns.max(1) == 0 || place + 1 == names.len() {
            top += 20.0;
        }
    }
    open(width, top + 4.0, alternative) + &shapes + "</svg>\n"
}

pub(super) const LEFT: f64 = 62.0;
pub(super) const TOP: f64 = 30.0;
pub(super) const BOTTOM: f64 = 50.0;
/// The height of a plot's title in a sheet.
const CAPTION: f64 = 26.0;
