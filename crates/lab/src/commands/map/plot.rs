//! The picture of a map: the times of a region's pairs as a heat map, and below it times against
//! the distance in addresses.

use anyhow::bail;
use headtime_belief::maps::KeptMap as Map;
use headtime_units::Lba;

use crate::chart::{self, Axis, Plot, address, plain, sheet};

/// Rows and columns of the heat map, at the most.
const GRID: usize = 96;
/// Points of the lower plot, at the most.
const POINTS: usize = 6_000;
/// Free space on the right.
const MARGIN: f64 = 24.0;

/// A pair: from where, to where, in sectors, and how long it takes, in ms.
type Pair = (f64, f64, f64);

/// The picture of the region from `first` up to but not including `end` as an SVG file.
pub fn draw(map: &Map, first: Lba, end: Lba) -> anyhow::Result<String> {
    let pairs = pairs(map, first, end);
    if pairs.is_empty() {
        bail!(
            "of the sectors {first}..{end} no pair is known, so that there is nothing to draw; \
                choose another region, or leave --region out",
            first = first.get(),
            end = end.get()
        );
    }
    let title = format!("{} map of {}: {} pairs", map.kind(), map.drive().model, pairs.len());
    let squares = Squares::of(&pairs, first, end);
    // Not on the squares, which are dark where times are long.
    let legend = format!(
        "{title}; light {} ms, dark {} ms, white unknown",
        plain(squares.least),
        plain(squares.most)
    );
    let plots = [(legend, heat(&squares)), ("Times by distance".to_string(), distance(&pairs))];
    Ok(chart::file(&sheet(&plots, 1, &[], &title)))
}

/// From the first place that is known to the end of the last: of a compact map the whole drive, of
/// a matrix the cells that were seen.
pub fn known_region(map: &Map) -> (u64, u64) {
    let capacity = map.drive().capacity.get();
    let Map::Matrix(matrix) = map else { return (0, capacity) };
    let cell = matrix.shape().cell().get();
    let seen = matrix.observed().flat_map(|(from, to, _)| [from, to]);
    let (first, last) =
        seen.fold((u32::MAX, 0), |(first, last), number| (first.min(number), last.max(number)));
    if first > last {
        (0, capacity)
    } else {
        (u64::from(first) * cell, ((u64::from(last) + 1) * cell).min(capacity))
    }
}

/// The pairs that are known in the region; of a compact map, which knows them all, a grid.
fn pairs(map: &Map, first: Lba, end: Lba) -> Vec<Pair> {
    match map {
        Map::Matrix(map) => {
            let cell = map.shape().cell().get();
            let inside = |number: u32| {
                (first.get() / cell..=(end.get() - 1) / cell).contains(&u64::from(number))
            };
            let seen = map.observed().filter(|(from, to, _)| inside(*from) && inside(*to));
            let place = |number: u32| (u64::from(number) * cell + cell / 2) as f64;
            let worse = map.shape().directions() == headtime_belief::matrix::Directions::Worse;
            seen.flat_map(|(from, to, time)| {
                let (from, to, ms) = (place(from), place(to), time.as_ms_f64());
                // What holds for the worse direction holds for both.
                if worse && from != to {
                    vec![(from, to, ms), (to, from, ms)]
                } else {
                    vec![(from, to, ms)]
                }
            })
            .collect()
        }
        Map::Compact(map) => {
            let step = ((end.get() - first.get()) / GRID as u64).max(1);
            let places =
                || (first.get()..end.get()).step_by(step as usize).take(GRID).map(Lba::new);
            let of = |from: Lba, to: Lba| {
                Some((from.get() as f64, to.get() as f64, map.time(from, to)?.expected.as_ms_f64()))
            };
            places()
                .flat_map(|from| places().filter_map(move |to| of(from, to)).collect::<Vec<Pair>>())
                .collect()
        }
    }
}

/// A region cut into squares.
struct Squares {
    low: f64,
    high: f64,
    /// The worst of the pairs that fall into each, in ms; those without any stay white: unknown.
    worst: Vec<Option<f64>>,
    least: f64,
    most: f64,
}

impl Squares {
    fn of(pairs: &[Pair], first: Lba, end: Lba) -> Self {
        let (low, high) = (first.get() as f64, end.get() as f64);
        let square =
            |place: f64| ((((place - low) * GRID as f64) / (high - low)) as usize).min(GRID - 1);
        let mut worst = vec![None::<f64>; GRID * GRID];
        for (from, to, ms) in pairs {
            let there = &mut worst[square(*from) * GRID + square(*to)];
            *there = Some(there.map_or(*ms, |before| before.max(*ms)));
        }
        let known = || worst.iter().flatten().copied();
        let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
        Self { low, high, worst, least, most }
    }
}

fn heat(squares: &Squares) -> Plot {
    let Squares { low, high, least, most, .. } = *squares;
    let axis = |title| Axis::linear(title, low, high).labeled(address);
    let mut plot = Plot::new(axis("to LBA"), axis("from LBA"), (900.0, 800.0), MARGIN);
    let side = (high - low) / GRID as f64;
    for (place, ms) in squares.worst.iter().enumerate() {
        let Some(ms) = ms else { continue };
        let (x, y) = ((place % GRID) as f64 * side + low, (place / GRID) as f64 * side + low);
        // From light to dark, so that shades differ without colors as well.
        let share = if most > least { (ms - least) / (most - least) } else { 0.0 };
        let color = chart::shade((250, 236, 190), (30, 20, 90), share);
        plot.cell(color, (x, y), (x + side, y + side));
    }
    plot
}

fn distance(pairs: &[Pair]) -> Plot {
    let every = pairs.len().div_ceil(POINTS).max(1);
    let points = || pairs.iter().step_by(every).map(|(from, to, ms)| (to - from, *ms));
    let reach = points().map(|point| point.0.abs()).fold(1.0, f64::max);
    let x = Axis::linear("distance in sectors", -reach, reach).labeled(address);
    let y = Axis::from_zero("time (ms)", points().map(|point| point.1));
    let mut plot = Plot::new(x, y, (900.0, 420.0), MARGIN);
    for point in points() {
        plot.dot(point);
    }
    plot
}
