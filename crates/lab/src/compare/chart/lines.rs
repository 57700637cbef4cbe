//! [`lines()`]: one line for each policy, named where it ends.

use super::{Axis, n, open, straight, text, width_of};
use crate::report::page::escape;

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The class of its color.
    pub class: String,
    /// The name.
    pub name: String,
    /// True for an oracle, which is drawn dashed with hollow marks.
    pub dashed: bool,
    /// Its points, in the order in which they are joined.
    pub spots: Vec<Spot>,
}

/// One point.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    /// Along.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The interval of `x`.
    pub x_range: Option<(f64, f64)>,
    /// The interval of `y`.
    pub y_range: Option<(f64, f64)>,
    /// The tooltip.
    pub title: String,
    /// True if the point has a mark.
    pub marked: bool,
}

/// The place of the lines' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    /// In a column on the right, each as near as it gets to the end of its line.
    Right,
    /// Beside the last point.
    Beside,
}

/// A plot of lines.
#[must_use]
pub(crate) fn lines(
    x: &Axis,
    y: &Axis,
    lines: &[Line],
    labels: Labels,
    alternative: &str,
) -> String {
    let longest = lines.iter().map(|line| width_of(&line.name)).fold(0.0, f64::max);
    let margin = if labels == Labels::Right { longest + 26.0 } else { 24.0 };
    // Names must fit one below the other.
    let height = HEIGHT.max(lines.len() as f64 * LINE + TOP + BOTTOM);
    let frame = Frame { left: LEFT, right: WIDTH - margin, top: TOP, bottom: height - BOTTOM };
    let mut out = open(WIDTH, height, alternative);
    frame.draw(&mut out, x, y);
    let at = |spot: &Spot| (frame.x(x, spot.x), frame.y(y, spot.y));
    for line in lines.iter().filter(|line| !line.spots.is_empty()) {
        let dashed = if line.dashed { " dashed" } else { "" };
        out.push_str(&format!("<g class=\"line {}{dashed}\">\n", line.class));
        let path: Vec<String> =
            line.spots.iter().map(at).map(|(x, y)| format!("{} {}", n(x), n(y))).collect();
        out.push_str(&format!(
            "<path d=\"M{}\"><title>{}</title></path>\n",
            path.join("L"),
            escape(&line.name)
        ));
        for spot in &line.spots {
            let (left, up) = at(spot);
            if let Some((low, high)) = spot.y_range {
                out.push_str(&straight("range", left, frame.y(y, low), left, frame.y(y, high)));
            }
            if let Some((low, high)) = spot.x_range {
                out.push_str(&straight("range", frame.x(x, low), up, frame.x(x, high), up));
            }
            if spot.marked {
                let title = escape(&spot.title);
                out.push_str(&format!(
                    "<circle cx=\"{}\" cy=\"{}\" r=\"3.6\"><title>{title}</title></circle>\n",
                    n(left),
                    n(up)
                ));
            }
        }
        out.push_str("</g>\n");
    }
    let ends: Vec<(&Line, (f64, f64))> =
        lines.iter().filter_map(|line| Some((line, at(line.spots.last()?)))).collect();
    match labels {
        Labels::Right => name_on_the_right(&mut out, &frame, &ends),
        Labels::Beside => {
            let inked: Vec<(f64, f64)> = lines
                .iter()
                .flat_map(|line| along(&line.spots.iter().map(at).collect::<Vec<_>>()))
                .collect();
            name_beside(&mut out, &ends, &inked);
        }
    }
    out.push_str("</svg>\n");
    out
}

/// The area inside the axes.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn x(&self, axis: &Axis, value: f64) -> f64 {
        axis.place(value, self.left, self.right)
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        axis.place(value, self.bottom, self.top)
    }

    fn draw(&self, out: &mut String, x: &Axis, y: &Axis) {
        for (value, words) in y.marks() {
            let up = self.y(y, *value);
            out.push_str(&straight("grid", self.left, up, self.right, up));
            out.push_str(&text("mark", self.left - 8.0, up + 4.0, "end", words));
        }
        for (value, words) in x.marks() {
            let along = self.x(x, *value);
            out.push_str(&straight("tick", along, self.bottom, along, self.bottom + 5.0));
            out.push_str(&text("mark", along, self.bottom + 19.0, "middle", words));
        }
        out.push_str(&straight("axis", self.left, self.bottom, self.right, self.bottom));
        out.push_str(&text(
            "title",
            f64::midpoint(self.left, self.right),
            self.bottom + 38.0,
            "middle",
            x.title(),
        ));
        out.push_str(&text("title", 4.0, 13.0, "start", y.title()));
    }
}

fn name_on_the_right(out: &mut String, frame: &Frame, ends: &[(&Line, (f64, f64))]) {
    let positions: Vec<f64> = ends.iter().map(|(_, (_, up))| *up).collect();
    for ((line, (x, y)), up) in ends.iter().zip(spread(&positions, LINE, frame.top, frame.bottom)) {
        let start = frame.right + 16.0;
        out.push_str(&format!(
            "<path class=\"leader {}\" d=\"M{} {}L{} {}L{} {}\"/>\n",
            line.class,
            n(x + 5.0),
            n(*y),
            n(frame.right + 4.0),
            n(*y),
            n(start - 2.0),
            n(up)
        ));
        out.push_str(&text(name_class(line), start + 2.0, up + 4.0, "start", &line.name));
    }
}

/// Places along a line, near enough to each other that no name fits between them.
fn along(corners: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut places: Vec<(f64, f64)> = corners.to_vec();
    for pair in corners.windows(2) {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        let steps = libm::ceil(libm::hypot(x2 - x1, y2 - y1) / 6.0).max(1.0);
        places.extend(
            (1..steps as u32)
                .map(|step| f64::from(step) / steps)
                .map(|share| (x1 + share * (x2 - x1), y1 + share * (y2 - y1))),
        );
    }
    places
}

/// The place beside each end, of some, that covers least of what is drawn and named already; of
/// equals the first.
fn name_beside(out: &mut String, ends: &[(&Line, (f64, f64))], inked: &[(f64, f64)]) {
    let mut taken: Vec<[f64; 4]> =
        inked.iter().map(|(x, y)| [x - 3.0, y - 3.0, x + 3.0, y + 3.0]).collect();
    for (line, (x, y)) in ends {
        let width = width_of(&line.name);
        let sides = [9.0, -9.0 - width, -width / 2.0];
        let heights = [0.0, -13.0, 13.0, -26.0, 26.0, -39.0, 39.0];
        let places = heights
            .into_iter()
            .flat_map(|down| sides.into_iter().map(move |across| (across, down)));
        let area = |(across, down): (f64, f64)| {
            [x + across, y + down - 6.5, x + across + width, y + down + 6.5]
        };
        let covered = |area: &[f64; 4]| {
            let outside = area[0] < LEFT || area[2] > WIDTH || area[1] < TOP - 12.0;
            let covered = taken
                .iter()
                .filter(|other| {
                    area[2] > other[0]
                        && other[2] > area[0]
                        && area[3] > other[1]
                        && other[3] > area[1]
                })
                .count();
            covered + if outside { 1_000 } else { 0 }
        };
        let (across, down) =
            places.min_by_key(|place| covered(&area(*place))).unwrap_or((9.0, 0.0));
        taken.push(area((across, down)));
        out.push_str(&text(name_class(line), x + across, y + down + 4.0, "start", &line.name));
    }
}

fn name_class(line: &Line) -> &'static str {
    if line.dashed { "name oracle" } else { "name" }
}

/// Places at least `apart` from each other, in the order of `positions` and as near to these as a
/// push downwards and one upwards bring them, between `top` and `bottom`.
fn spread(positions: &[f64], apart: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by(|a, b| positions[*a].total_cmp(&positions[*b]));
    let mut places = vec![0.0; positions.len()];
    // Neighbors that would touch are taken together, centerd where they want to be.
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    for index in order {
        let mut group = (positions[index], vec![index]);
        while let Some((center, members)) = groups.last() {
            let (above, here) = (members.len() as f64, group.1.len() as f64);
            if center + (above - 1.0) * apart / 2.0 + apart <= group.0 - (here - 1.0) * apart / 2.0
            {
                break;
            }
            let Some((_, mut members)) = groups.pop() else { break };
            members.append(&mut group.1);
            let half = (members.len() as f64 - 1.0) * apart / 2.0;
            let mean =
                members.iter().map(|index| positions[*index]).sum::<f64>() / members.len() as f64;
            group = (mean.min(bottom - half).max(top + half), members);
        }
        groups.push(group);
    }
    for (center, members) in groups {
        let first = center - (members.len() as f64 - 1.0) * apart / 2.0;
        for (step, index) in members.into_iter().enumerate() {
            places[index] = first + step as f64 * apart;
        }
    }
    places
}

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 50.0;
/// From one name to the next.
const LINE: f64 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_touch_and_stay_in_their_order() {
        let positions = [100.0, 101.0, 99.0, 250.0, 30.0, 30.0];
        let places = spread(&positions, 15.0, 30.0, 280.0);
        let mut order: Vec<usize> = (0..positions.len()).collect();
        order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
        assert!(
            order.windows(2).all(|pair| places[pair[1]] - places[pair[0]] >= 15.0 - 1e-9
                && positions[pair[0]] <= positions[pair[1]]),
            "{places:?}"
        );
        assert_eq!(places[3], 250.0, "who is alone stays where he is");
        assert!(places.iter().all(|place| (30.0 - 1e-9..=280.0).contains(place)), "{places:?}");
        let same = spread(&[50.0; 3], 15.0, 0.0, 100.0);
        assert_eq!(same, [35.0, 50.0, 65.0]);
    }

    #[test]
    fn every_line_is_named_and_its_intervals_drawn() {
        let spot = |x: f64| Spot {
            x,
            y: x,
            x_range: None,
            y_range: Some((x * 0.9, x * 1.1)),
            title: format!("at {x}"),
            marked: true,
        };
        let line = |name: &str, dashed| Line {
            class: "p1".to_string(),
            name: name.to_string(),
            dashed,
            spots: vec![spot(1.0), spot(2.0)],
        };
        let axis = Axis::from_zero("y", [2.2].into_iter());
        for labels in [Labels::Right, Labels::Beside] {
            let svg = lines(
                &axis,
                &axis,
                &[line("a & b", false), line("c-oracle", true)],
                labels,
                "test",
            );
            for positions in [
                ">a &amp; b</text>",
                "class=\"name oracle\"",
                "class=\"line p1 dashed\"",
                "<title>at 2</title>",
            ] {
                assert!(svg.contains(positions), "{positions} is missing from\n{svg}");
            }
            assert_eq!(
                (svg.matches("class=\"range\"").count(), svg.matches("<circle").count()),
                (4, 4)
            );
        }
    }
}
