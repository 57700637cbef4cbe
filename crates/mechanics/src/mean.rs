//! The mean seek over evenly drawn pairs of sectors, computed exactly from the layout, for the first term of "mean service time of random
//! reads = overhead + mean seek + half a revolution + transfer".
//!
//! How many pairs of sectors lie `d` cylinders apart is the autocorrelation of "sectors by cylinder". That is a step function (one step
//! per zone), so its autocorrelation is a row of straight lines whose bends lie at differences of zone borders: the second difference of the
//! autocorrelation of steps of heights `h` at `b` is `−Σ hᵢ·hⱼ [bⱼ − bᵢ = d]`. All of it is counted in integers. The curve is then summed
//! over every distance, which costs one look-up per cylinder.
//!
//! Two simplifications, both far below a measurement's noise on a real drive: spares and slipped sectors count like others, and sectors
//! past the declared capacity are left out by whole cylinders.

use alloc::vec::Vec;

use headtime_units::Nanos;

use crate::layout::Layout;
use crate::seek::SeekCurve;

/// The mean arm time of reads, head switches included.
pub(crate) fn arm_time(layout: &Layout, curve: &SeekCurve, head_switch: Nanos) -> Nanos {
    let other_head = 1.0 - 1.0 / f64::from(layout.heads());
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (distance, count) in (0_u32..).zip(pairs_by_distance(&steps(layout))) {
        // Each pair of different cylinders is drawn in both orders.
        let count = count as f64 * if distance == 0 { 1.0 } else { 2.0 };
        let seek = curve.time(distance);
        let switching = seek.max(head_switch).as_ns() as f64;
        sum += count * (other_head * switching + (1.0 - other_head) * seek.as_ns() as f64);
        pairs += count;
    }
    Nanos::from_ns(libm::round(sum / pairs) as u64)
}

/// The steps of "sectors by cylinder" as (cylinder, change), from the first cylinder to behind the last one within the capacity.
fn steps(layout: &Layout) -> Vec<(u32, i128)> {
    let mut steps = Vec::new();
    let mut before = 0;
    let mut end = 0;
    for zone in layout.zones() {
        let by_cylinder = u64::from(zone.sectors_per_track) * u64::from(layout.heads());
        let within = layout.capacity().get().saturating_sub(zone.extent.start.get()).min(zone.extent.len.get());
        if within == 0 {
            break;
        }
        steps.push((zone.first_cylinder, i128::from(by_cylinder) - before));
        before = i128::from(by_cylinder);
        end = zone.first_cylinder + within.div_ceil(by_cylinder) as u32;
    }
    steps.push((end, -before));
    steps
}

/// Pairs of sectors `0, 1, 2 …` cylinders apart, in one order.
fn pairs_by_distance(steps: &[(u32, i128)]) -> impl Iterator<Item = i128> {
    let end = steps.last().map_or(0, |(cylinder, _)| *cylinder);
    let mut bends: Vec<(u32, i128)> = Vec::new();
    for (position, height) in steps {
        for (other, other_height) in steps.iter().filter(|(other, _)| other > position) {
            bends.push((other - position, -height * other_height));
        }
    }
    bends.sort_unstable();
    // At the greatest distance nothing is left; towards smaller ones the slope changes at each bend.
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
    counts.into_iter().rev()
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
        let counted: Vec<i128> =
            (0..7).map(|distance| (0..7 - distance).map(|first| by_cylinder[first] * by_cylinder[first + distance]).sum()).collect();
        assert_eq!(pairs_by_distance(&steps).collect::<Vec<_>>(), counted);
    }
}
