//! [`lines()`]: one line for each policy, named where it ends.

use super::plot::{BOTTOM, LEFT, TOP};
use super::{Axis, Plot, n, text, width_of};

#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The class of its color.
    pub class: String,
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

impl Spot {
    /// A point without a mark.
    pub(crate) fn plain((x, y): (f64, f64)) -> Self {
        Self { x, y, x_range: None, y_range: None, title: String::new(), marked: false }
    }
}

/// A plot of lines.
pub(crate) fn lines(x: Axis, y: Axis, lines: &[Line], labels: Labels, alternative: &str) -> String {
    let longest = lines.iter().map(|line| width_of(&line.name)).fold(0.0, f64::max);
    let margin = if labels == Labels::Right { longest + 26.0 } else { 24.0 };
    // Names must fit one below the other.
    let height = HEIGHT.max(lines.len() as f64 * LINE + TOP + BOTTOM);
    let mut plot = Plot::new(x, y, (WIDTH, height), margin);
    for line in lines {
        plot.line(line);
    }
    let ends: Vec<(&Line, (f64, f64))> =
        lines.iter().filter_map(|line| Some((line, plot.at(line.spots.last()?)))).collect();
    match labels {
        Labels::Right => name_on_the_right(&mut plot, &ends),
        Labels::Beside => {
            let corners = |line: &Line| -> Vec<(f64, f64)> {
                line.spots.iter().map(|spot| plot.at(spot)).collect()
            };
            let inked: Vec<(f64, f64)> =
                lines.iter().flat_map(|line| along(&corners(line))).collect();
            name_beside(&mut plot, &ends, &inked);
        }
    }
    plot.svg(alternative)
}

fn name_on_the_right(plot: &mut Plot, ends: &[(&Line, (f64, f64))]) {
    let positions: Vec<f64> = ends.iter().map(|(_, (_, up))| *up).collect();
    for ((line, (x, y)), up) in ends.iter().zip(spread(&positions, LINE, TOP, plot.bottom())) {
        let start = plot.right + 16.0;
        plot.add(&format!(
            "<path class=\"leader {}\" d=\"M{} {}L{} {}L{} {}\"/>\n",
            line.class,
            n(x + 5.0),
            n(*y),
            n(plot.right + 4.0),
            n(*y),
            n(start - 2.0),
            n(up)
        ));
        plot.add(&text(name_class(line), start + 2.0, up + 4.0, "start", &line.name));
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
fn name_beside(plot: &mut Plot, ends: &[(&Line, (f64, f64))], inked: &[(f64, f64)]) {
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
        plot.add(&text(name_class(line), x + across, y + down + 4.0, "start", &line.name));
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
                axis.clone(),
                axis.clone(),
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
