//! [`CellPositioning`]: a full latency matrix: one time for each pair of cells, wherever in them
//! the requests lie.
//!
//! Addresses are cut into cells of equal size. The model of two requests is the model of their
//! cells: the time from the end of an access in the one to the start of an access in the other,
//! back to back. With both anywhere in their cells that time is spread around the one between the
//! middles: each place in a cell of a tenth of a track shifts the angle by up to a twentieth of a
//! turn. The matrix keeps the mean of those times, the worst, or one that happened to be observed.
//!
//! Worked example, 10 ms a revolution, cells of a tenth of a track: the arm takes 3 ms and from
//! middle to middle the wait is 0.5 ms. The angle between the two requests is off by up to a tenth
//! of a turn, 1 ms, either way: in one of eight cases by more than 0.5 ms towards missing. The mean
//! wait is 0.5 ms + 1/8 of a revolution = 1.75 ms, the worst is a whole revolution, 10 ms. A pair
//! with 5 ms between the middles has a mean of 5 and a worst of 6.
//!
//! - Modelled: the spread of the angle within both cells, as the difference of two even
//!   distributions; requests of one length that lie within a cell.
//! - Not modelled: learning the matrix (it is full from the start), a bound on its size, few bits a
//!   cell, triangular storage; cells that begin or end within another zone; idleness between
//!   commands, after which a pair's time means nothing.
//!
//! Source: P1 section 3 (cells of 128 KiB, the worst ever observed); docs/limits.md 5.

use headtime_mechanics::{
    Direction, DriveProfile, HeadPosition, InterfaceTimes, Mechanism, ProfileError, Spot, Track,
};
use headtime_sched::{
    AccessKind, Belief, BeliefReport, Estimate, Head, Likely, MeasuredAccess, Op, Position,
    Positioning, Target, TrackMap, likely_by_estimate, passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

/// A full latency matrix of the nominal instance.
#[derive(Clone, Debug)]
pub(crate) struct CellPositioning {
    mechanism: Mechanism,
    interface: InterfaceTimes,
    cell_sectors: u64,
    time: CellTime,
    seed: u64,
    samples: u64,
}

/// The time that a matrix stores for a pair of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellTime {
    /// The mean over all places in both cells.
    Mean,
    /// The longest of them.
    Worst,
    /// One of them, from places drawn by lot: a matrix in which every pair was met once.
    Once,
}

impl CellTime {
    /// The text in row names.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Mean => "mean time of each pair",
            Self::Worst => "worst time of each pair",
            Self::Once => "each pair observed once",
        }
    }
}

impl CellPositioning {
    /// A matrix with cells of `cell_bytes`, at least a sector; `seed` draws what was observed.
    pub(crate) fn new(
        profile: &DriveProfile,
        seed: u64,
        cell_bytes: u64,
        time: CellTime,
    ) -> Result<Self, ProfileError> {
        let cell_sectors = (cell_bytes / u64::from(profile.sector_bytes)).max(1);
        Ok(Self {
            mechanism: Mechanism::nominal(profile)?,
            interface: InterfaceTimes::from_profile(profile)?,
            cell_sectors,
            time,
            seed,
            samples: 0,
        })
    }

    /// The number of sectors by which a request of this length can shift within its cell.
    fn room(&self, len: Sectors) -> u64 {
        self.cell_sectors.saturating_sub(len.get())
    }

    /// So many sectors along the track of `place`, in turns.
    fn turns(&self, place: &Position, sectors: u64) -> f64 {
        let track = Track { cylinder: place.cylinder, head: place.head };
        sectors as f64 / f64::from(self.mechanism.layout().sectors_per_track(track))
    }

    /// The wait in turns that the matrix keeps for a pair whose middles are `middle` turns apart
    /// after the arm has arrived, when the requests can be shifted by so many turns within their
    /// cells.
    fn kept(&self, middle: f64, from_turns: f64, to_turns: f64, pair: u64) -> f64 {
        let spread = 0.5 * (from_turns + to_turns);
        match self.time {
            CellTime::Once => {
                let place = |key: u64, turns: f64| {
                    turns * (mix(key) as f64 / 18_446_744_073_709_551_616.0 - 0.5)
                };
                let wait = middle + place(pair, from_turns) + place(!pair, to_turns);
                wait - libm::floor(wait)
            }
            CellTime::Worst if middle - spread < 0.0 || middle + spread >= 1.0 => 1.0,
            CellTime::Worst => middle + spread,
            CellTime::Mean if spread < NO_SPREAD => middle,
            CellTime::Mean => {
                // The mean of x − ⌊x⌋, where x is the middle shifted: ⌊x⌋ counts the whole numbers
                // that x has reached, and those below one that it has not.
                let reached = |turn: f64| beyond(turn - middle, from_turns, to_turns);
                let last = libm::ceil(middle + spread) as i32;
                let first = libm::floor(middle - spread) as i32;
                let above: f64 = (1..=last).map(|turn| reached(f64::from(turn))).sum();
                let below: f64 = (first..=0).map(|turn| 1.0 - reached(f64::from(turn))).sum();
                middle - above + below
            }
        }
    }
}

/// The chance that two even distributions around zero, so and so wide, add up to at least `least`.
fn beyond(least: f64, one: f64, other: f64) -> f64 {
    // A little width where there is none, so that nothing is divided by zero.
    let (one, other) = (one.max(NO_SPREAD), other.max(NO_SPREAD));
    let (outer, inner) = (0.5 * (one + other), 0.5 * (one - other).abs());
    let square =
        |corner: f64| if corner > least { (corner - least) * (corner - least) } else { 0.0 };
    (square(outer) - square(inner) - square(-inner) + square(-outer)) / (2.0 * one * other)
}

impl Positioning for CellPositioning {
    fn capacity(&self) -> Sectors {
        self.mechanism.layout().capacity()
    }

    /// The middle of the cell stands for every place in it.
    fn target(&self, op: Op, extent: Extent) -> Target {
        let first = extent.start.get() / self.cell_sectors * self.cell_sectors;
        let start =
            (first + self.room(extent.len) / 2).min(self.capacity().get() - extent.len.get());
        let middle = Extent { start: Lba::new(start), len: extent.len };
        let (start, end) =
            (place(self.mechanism.spot(middle.start)), place(self.mechanism.end_spot(middle)));
        let transfer = self.mechanism.sector_time(start.cylinder) * extent.len.get();
        Target { op, extent, start, end, transfer }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let direction = if target.op == Op::Read { Direction::Read } else { Direction::Write };
        let depart = (dispatch + self.interface.command_overhead(direction, Some(direction)))
            .max(head.free_at);
        let position =
            |place: &Position| HeadPosition { cylinder: place.cylinder, head: place.head };
        let arm =
            self.mechanism.arm_time(position(&head.place), position(&target.start), direction);
        let period = self.mechanism.period();
        // Back to back: the platter has turned on by what has passed since the access before ended,
        // and nothing else is known of it.
        let arrived = head.place.angle
            + period.angle_of(depart.saturating_since(head.free_at).min(self.revolution()) + arm);
        let middle = arrived.until(target.start.angle).as_turns();
        let room = self.room(target.extent.len);
        let pair = mix(mix(self.seed ^ name(&head.place)) ^ name(&target.start));
        let wait =
            self.kept(middle, self.turns(&head.place, room), self.turns(&target.start, room), pair);
        let positioning = arm + Nanos::from_ns((wait * self.revolution().as_ns() as f64) as u64);
        let worst = positioning.max(arm + self.revolution());
        Estimate { depart, positioning, expected: positioning, worst, transfer: target.transfer }
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.mechanism.arm_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.mechanism.period().as_nanos()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        let direction = if target.op == Op::Read { Direction::Read } else { Direction::Write };
        self.interface.media_end(direction, target.extent.len, finished)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
    }

    headtime_sched::costs_by_estimate!();

    headtime_sched::without_cache!();

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for CellPositioning {
    fn learn(&mut self, _measured: &MeasuredAccess) -> AccessKind {
        self.samples += 1;
        AccessKind::Media
    }

    fn report(&self) -> BeliefReport {
        BeliefReport { samples: self.samples, ..BeliefReport::default() }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

fn place(spot: Spot) -> Position {
    Position { cylinder: spot.position.cylinder, head: spot.position.head, angle: spot.angle }
}

/// A number for a cell: its middle's track and angle.
fn name(place: &Position) -> u64 {
    mix(u64::from(place.cylinder) << 16 | u64::from(place.head)) ^ u64::from(place.angle.as_raw())
}

/// The finaliser of splitmix64: neighboring keys give numbers that have nothing in common.
fn mix(key: u64) -> u64 {
    let mut mixed = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Turns below which a spread is none.
const NO_SPREAD: f64 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::catalog;

    fn matrix(bytes: u64, time: CellTime) -> CellPositioning {
        CellPositioning::new(&catalog::load("atlas10k").expect("it ships"), 1, bytes, time)
            .expect("it ships")
    }

    #[test]
    fn requests_of_one_cell_are_one_place() {
        let matrix = matrix(131_072, CellTime::Mean);
        let target = |lba| matrix.target(Op::Read, Extent::from_numbers(lba, 8));
        assert_eq!(target(1_024).start, target(1_272).start);
        assert_ne!(target(1_024).start, target(1_280).start);
        let last = matrix.capacity().get() - 8;
        assert!(
            matrix.target(Op::Read, Extent::from_numbers(last, 8)).start.cylinder > 10_000,
            "the last cell may be a part of one"
        );
    }

    #[test]
    fn a_cell_that_surely_waits_keeps_its_wait_and_one_that_may_miss_loses_by_it() {
        let (mean, worst) = (matrix(8_192, CellTime::Mean), matrix(8_192, CellTime::Worst));
        assert!(
            (mean.kept(0.5, 0.1, 0.1, 0) - 0.5).abs() < 1e-9,
            "{}",
            mean.kept(0.5, 0.1, 0.1, 0)
        );
        assert!((worst.kept(0.5, 0.1, 0.1, 0) - 0.6).abs() < 1e-9);
        assert_eq!(worst.kept(0.05, 0.1, 0.1, 0), 1.0);
        // Half the width from missing: one case in eight misses.
        let may_miss = mean.kept(0.05, 0.1, 0.1, 0);
        assert!((may_miss - (0.05 + 0.125)).abs() < 1e-9, "{may_miss}");
        // Cells as long as a track know nothing of the angle.
        for middle in [0.0, 0.3, 0.9] {
            assert!(
                (mean.kept(middle, 1.0, 1.0, 0) - 0.5).abs() < 1e-9,
                "{}",
                mean.kept(middle, 1.0, 1.0, 0)
            );
        }
    }

    /// Against the mean over a fine grid of places in both cells.
    #[test]
    fn the_mean_wait_is_that_of_all_places() {
        let mean = matrix(8_192, CellTime::Mean);
        for (middle, one, other) in
            [(0.02, 0.1, 0.3), (0.97, 0.4, 0.05), (0.5, 1.1, 0.9), (0.0, 0.2, 0.2), (0.6, 0.0, 0.9)]
        {
            let places = |turns: f64| {
                (0..400).map(move |place| turns * ((f64::from(place) + 0.5) / 400.0 - 0.5))
            };
            let waits = places(one)
                .flat_map(|from| places(other).map(move |to| middle + to - from))
                .map(|wait| wait - wait.floor());
            let expected = waits.sum::<f64>() / 160_000.0;
            let kept = mean.kept(middle, one, other, 0);
            assert!(
                (kept - expected).abs() < 2e-3,
                "{middle} {one} {other}: {kept}, by the grid {expected}"
            );
        }
    }

    /// Over many pairs alike what was observed once is what the mean says, and each pair has its
    /// own.
    #[test]
    fn what_was_observed_once_is_one_of_the_times_of_a_pair() {
        let (once, mean) = (matrix(8_192, CellTime::Once), matrix(8_192, CellTime::Mean));
        let observed: Vec<f64> =
            (0..20_000).map(|pair| once.kept(0.05, 0.1, 0.1, mix(pair))).collect();
        let average = observed.iter().sum::<f64>() / 2e4;
        assert!((average - mean.kept(0.05, 0.1, 0.1, 0)).abs() < 0.01, "{average}");
        assert!(
            observed.iter().all(|wait| (0.0..=0.15).contains(wait) || (0.95..1.0).contains(wait))
        );
        assert_eq!(once.kept(0.05, 0.1, 0.1, 9), once.kept(0.05, 0.1, 0.1, 9));
    }

    #[test]
    fn cells_of_a_sector_are_the_drive_itself() {
        let (matrix, truth) = (
            matrix(512, CellTime::Mean),
            Mechanism::nominal(&catalog::load("atlas10k").expect("it ships")).expect("it ships"),
        );
        let (from, to) = (Extent::from_numbers(5_000_000, 1), Extent::from_numbers(9_000_000, 1));
        let target = matrix.target(Op::Read, to);
        // A head that has just passed the middle of its sector.
        let place = matrix.target(Op::Read, from).end;
        let head = Head { place, next_lba: from.end(), free_at: Instant::from_ns(1_000_000_000) };
        let estimate = matrix.estimate(&head, Instant::ORIGIN, &target);
        let arm = truth.arm_time(
            HeadPosition { cylinder: place.cylinder, head: place.head },
            HeadPosition { cylinder: target.start.cylinder, head: target.start.head },
            Direction::Read,
        );
        let wait = truth
            .period()
            .time_of((place.angle + truth.period().angle_of(arm)).until(target.start.angle));
        assert!(
            estimate.positioning.as_ns().abs_diff((arm + wait).as_ns()) < 20_000,
            "{} and {}",
            estimate.positioning,
            arm + wait
        );
        assert!(
            matrix.seek_lower_bound(place.cylinder.abs_diff(target.start.cylinder))
                <= estimate.positioning
        );
    }
}
