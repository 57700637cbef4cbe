//! The mean arm time between two random sectors, from the layout: the first term of "mean service
//! time of random reads = overhead + mean seek + half a revolution + transfer".
//!
//! The number of sector pairs `d` cylinders apart is the autocorrelation of "sectors by cylinder";
//! the pairs on one surface are the sum of that of each surface. Both are step functions (one step
//! per zone), so their autocorrelations are piecewise linear with bends at differences of zone
//! borders: the second difference of the autocorrelation of steps of heights `h` at `b` is `−Σ
//! hᵢ·hⱼ [bⱼ − bᵢ = d]`. All counts are integers. The curve is then summed over every distance, one
//! look-up per cylinder.
//!
//! Simplifications, all far below measurement noise: spares, slipped and reserved sectors count;
//! sectors past the declared capacity are left out by whole cylinders; a measured layout is
//! averaged over at most [`SEGMENTS`] segments of cylinders of equal width.

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::Nanos;

use crate::layout::{Layout, SurfaceRow, Surfaces};
use crate::seek::SeekCurve;

/// Maximum number of segments for a measured layout; their pairs are counted one by one on each
/// surface.
const SEGMENTS: u32 = 512;

/// The steps of "sectors by cylinder" as (cylinder, change), ascending.
type SectorSteps = Vec<(u32, i128)>;

/// The mean arm time of reads, head switches included.
pub(crate) fn arm_time(layout: &Layout, curve: &SeekCurve, head_switch: Nanos) -> Nanos {
    let (all, same_surface) = counts(surfaces(layout));
    let (mut time, mut pairs) = (0.0, 0.0);
    for ((distance, all), same) in (0_u32..).zip(all).zip(same_surface) {
        // Each pair of different cylinders occurs in both orders.
        let orders = if distance == 0 { 1.0 } else { 2.0 };
        let seek = curve.time(distance);
        let switching = seek.max(head_switch).as_ns() as f64;
        time += orders * ((all - same) as f64 * switching + same as f64 * seek.as_ns() as f64);
        pairs += orders * all as f64;
    }
    Nanos::from_ns(libm::round(time / pairs) as u64)
}

/// Pairs of sectors by distance: all of them, and those on one surface.
fn counts(surfaces: Vec<SectorSteps>) -> (Vec<i128>, Vec<i128>) {
    let heads = surfaces.len() as i128;
    let groups = distinct(&surfaces);
    if let [(steps, _)] = groups.as_slice() {
        let of_one = pairs_by_distance(steps);
        let times = |factor: i128| of_one.iter().map(|pairs| pairs * factor).collect();
        return (times(heads * heads), times(heads));
    }
    let all = pairs_by_distance(&sum(&surfaces));
    let mut same = vec![0_i128; all.len()];
    for (steps, count) in groups {
        for (same, pairs) in same.iter_mut().zip(pairs_by_distance(steps)) {
            *same += pairs * count;
        }
    }
    (all, same)
}

/// The steps of each surface.
fn surfaces(layout: &Layout) -> Vec<SectorSteps> {
    let rows = match layout.surfaces() {
        Surfaces::Exact(rows) => rows,
        Surfaces::Measured(rows) => segments(&rows, layout.cylinders(), layout.heads()),
    };
    let mut surfaces: Vec<SectorSteps> = vec![Vec::new(); usize::from(layout.heads())];
    for row in rows {
        let sectors = i128::from(row.sectors);
        surfaces[usize::from(row.head)]
            .extend([(row.first_cylinder, sectors), (row.end_cylinder, -sectors)]);
    }
    surfaces.into_iter().map(joined).collect()
}

/// Averages rows of cylinders over segments of equal width: the sectors of a whole segment stand
/// for those of each of its cylinders.
fn segments(rows: &[SurfaceRow], cylinders: u32, heads: u16) -> Vec<SurfaceRow> {
    let width = cylinders.div_ceil(SEGMENTS).max(1);
    let count = cylinders.div_ceil(width);
    let mut sectors = vec![vec![0_u64; count as usize]; usize::from(heads)];
    for row in rows {
        let (mut first, end) = (row.first_cylinder, row.end_cylinder);
        while first < end {
            let segment = first / width;
            let until = end.min((segment + 1) * width);
            sectors[usize::from(row.head)][segment as usize] +=
                u64::from(until - first) * row.sectors;
            first = until;
        }
    }
    let rows = sectors.into_iter().zip(0..).flat_map(|(sectors, head)| {
        (0_u32..).zip(sectors).map(move |(segment, sectors)| (segment, head, sectors))
    });
    let end = |segment: u32| (segment + 1).saturating_mul(width).min(cylinders);
    rows.map(|(segment, head, sectors)| SurfaceRow {
        head,
        first_cylinder: segment * width,
        end_cylinder: end(segment),
        sectors,
    })
    .collect()
}

/// The sum of all surfaces' steps.
fn sum(surfaces: &[SectorSteps]) -> SectorSteps {
    joined(surfaces.iter().flatten().copied().collect())
}

/// Distinct step functions with their number of surfaces.
fn distinct(surfaces: &[SectorSteps]) -> Vec<(&SectorSteps, i128)> {
    let mut groups: Vec<(&SectorSteps, i128)> = Vec::new();
    for steps in surfaces {
        match groups.iter_mut().find(|(known, _)| *known == steps) {
            Some((_, count)) => *count += 1,
            None => groups.push((steps, 1)),
        }
    }
    groups
}

/// Adds up the changes at each cylinder and removes zeros.
fn joined(mut steps: SectorSteps) -> SectorSteps {
    steps.sort_unstable_by_key(|step| step.0);
    let mut joined: SectorSteps = Vec::new();
    for (cylinder, change) in steps {
        match joined.last_mut().filter(|last| last.0 == cylinder) {
            Some(last) => last.1 += change,
            None => joined.push((cylinder, change)),
        }
    }
    joined.retain(|step| step.1 != 0);
    joined
}

/// Pairs of sectors `0, 1, 2 …` cylinders apart, in one order.
fn pairs_by_distance(steps: &[(u32, i128)]) -> Vec<i128> {
    let first = steps.first().map_or(0, |(cylinder, _)| *cylinder);
    let end = steps.last().map_or(0, |(cylinder, _)| *cylinder) - first;
    let mut bends: Vec<(u32, i128)> = Vec::new();
    for (number, (position, height)) in steps.iter().enumerate() {
        for (other, other_height) in &steps[number + 1..] {
            bends.push((other - position, -height * other_height));
        }
    }
    bends.sort_unstable();
    // At the maximum distance nothing is left; towards smaller ones the slope changes at each bend.
    let mut counts: Vec<i128> = Vec::with_capacity(end as usize);
    let (mut count, mut slope) = (0, 0);
    for distance in (0..end).rev() {
        while let Some((_, bend)) = bends.last().copied().filter(|(at, _)| *at == distance + 1) {
            slope += bend;
            bends.pop();
        }
        count += slope;
        counts.push(count);
    }
    counts.reverse();
    counts
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn pairs_by_distance_are_what_counting_pairs_says() {
        // Cylinders 0–2 hold 5 sectors, 3–4 hold 3, 5–6 hold 1.
        let by_cylinder = [5_i128, 5, 5, 3, 3, 1, 1];
        let steps = vec![(0, 5), (3, -2), (5, -2), (7, -1)];
        let counted: Vec<i128> = (0..7)
            .map(|distance| {
                (0..7 - distance)
                    .map(|first| by_cylinder[first] * by_cylinder[first + distance])
                    .sum()
            })
            .collect();
        assert_eq!(pairs_by_distance(&steps), counted);
    }

    #[test]
    fn segments_keep_the_sectors_of_what_they_average() {
        let row = |head, first_cylinder, end_cylinder, sectors| SurfaceRow {
            head,
            first_cylinder,
            end_cylinder,
            sectors,
        };
        let rows = [row(0, 3, 700, 10), row(1, 0, 1_500, 7), row(1, 20, 21, 1)];
        let segments = segments(&rows, 1_500, 2);
        let total = |head| {
            segments.iter().filter(|row| row.head == head).map(|row| row.sectors).sum::<u64>()
        };
        assert_eq!([total(0), total(1)], [697 * 10, 1_500 * 7 + 1]);
        assert!(segments.iter().all(|row| row.end_cylinder - row.first_cylinder == 3));
    }
}
