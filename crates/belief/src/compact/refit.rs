//! [`Refit`]: a search, in small steps, for the number of sectors by which the addresses of a drive
//! differ from its profile. No completion waits for it.
//!
//! The rotation of the platter is fitted first ([`Fit`]), against the predicted angles. Then the
//! shifts are searched ([`Search`]), a few angle samples at a time. Both are repeated once, because
//! the new predictions show better how the speed drifted and how noisy the angle samples are.
//!
//! Cost: counted in operations like all searches (`budget.rs`), at most a slice and a piece per
//! completion; [`STEP`] angle samples of the search for shifts, 0.1 ms.

use std::collections::BTreeMap;
use std::sync::Arc;

use headtime_mechanics::Layout;
use headtime_units::{Angle, Lba, RotationPeriod};

use super::angle_samples::AngleSample;
use super::budget::Budget;
use super::frame::{Fit, Follower, Frame};
use super::shifts::Shifts;
use super::slips::{Search, Seen, Trace};

/// The number of angle samples that the search ingests with each completion.
const STEP: usize = 8;
/// The error that costs 1 in the first pass (guess: 20 us of jitter on a turn of 4 to 8 ms).
const FIRST_SCALE_TURNS: f64 = 0.004;
/// Bounds of that error in later passes.
const SCALES_TURNS: (f64, f64) = (0.002, 0.012);
/// The number of deviations of chance below which the coherence shows that no angle is predicted
/// correctly.
const DEVIATIONS: f64 = 5.0;
/// Costs in operations: to locate a sector; to follow the platter by an angle sample and sort it
/// in; and to remove it again.
const LOCATING: u64 = 64;
const PLACING: u64 = 160;
const TAKING_OUT: u64 = 40;
/// The cost per number of finding a median.
const MIDDLE: u64 = 2;
/// Approximate bytes of an angle sample in the tree.
const SORTED: u64 = 40;

/// A search in progress.
#[derive(Clone, Debug)]
pub(super) struct Refit {
    layout: Arc<Layout>,
    angle_samples: Vec<AngleSample>,
    period: RotationPeriod,
    /// The current shifts, and the end angles that they predict for the sectors of the samples.
    shifts: Shifts,
    predicted: Vec<Angle>,
    /// The errors of the angle samples when they were followed, in turns.
    off: Vec<f64>,
    stage: Stage,
    /// The number of completed searches for shifts.
    passes: u32,
}

#[derive(Clone, Debug)]
enum Stage {
    Predict,
    Fit(Fit),
    Follow(Follower, BTreeMap<(Lba, usize), Angle>),
    Order(BTreeMap<(Lba, usize), Angle>, Vec<Seen>),
    Search(Search, Vec<Seen>, usize),
    Trace(Trace),
}

/// The result of the search.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) shifts: Shifts,
    pub(super) period: RotationPeriod,
}

impl Refit {
    /// Begins a search with the known shifts.
    pub(super) fn begin(
        layout: Arc<Layout>,
        predicted: &Shifts,
        period: RotationPeriod,
        angle_samples: Vec<AngleSample>,
    ) -> Self {
        let count = angle_samples.len();
        Self {
            layout,
            angle_samples,
            period,
            shifts: predicted.clone(),
            predicted: Vec::with_capacity(count),
            off: Vec::with_capacity(count),
            stage: Stage::Predict,
            passes: 0,
        }
    }

    /// Bytes of memory, without the shared layout.
    pub(super) fn memory(&self) -> u64 {
        let angle_samples = self.angle_samples.capacity() * size_of::<AngleSample>()
            + self.predicted.capacity() * size_of::<Angle>()
            + self.off.capacity() * size_of::<f64>();
        let seen = |seen: &Vec<Seen>| (seen.capacity() * size_of::<Seen>()) as u64;
        let stage = match &self.stage {
            Stage::Predict => 0,
            Stage::Fit(fit) => fit.memory(),
            Stage::Follow(_, sorted) => sorted.len() as u64 * SORTED,
            Stage::Order(sorted, taken) => sorted.len() as u64 * SORTED + seen(taken),
            Stage::Search(search, all, _) => search.memory() + seen(all),
            Stage::Trace(trace) => trace.memory(),
        };
        angle_samples as u64 + stage
    }

    /// Advances as far as the budget allows. Returns the result once it is complete; the inner
    /// [`None`] means that the angle samples agree with the predictions no better than by chance.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Option<Option<Found>> {
        while budget.is_left() {
            match &mut self.stage {
                Stage::Predict => {
                    let begin = self.predicted.len();
                    let end =
                        self.angle_samples.len().min(begin + budget.pieces(LOCATING) as usize);
                    let angles = self.angle_samples[begin..end].iter().map(|angle_sample| {
                        end_angle(&self.layout, &self.shifts, angle_sample.last)
                    });
                    self.predicted.extend(angles);
                    budget.spend(LOCATING * (end - begin) as u64);
                    if end == self.angle_samples.len() {
                        budget.spend(2 * end as u64);
                        let readings = self
                            .angle_samples
                            .iter()
                            .zip(&self.predicted)
                            .map(|(angle_sample, predicted)| (angle_sample.at, *predicted));
                        self.stage = Stage::Fit(Fit::begin(self.period, readings));
                    }
                }
                Stage::Fit(fit) => {
                    let frame = fit.advance(budget)?;
                    self.period = frame.period;
                    if self.passes == 0 && !self.agrees(&frame) {
                        return Some(None);
                    }
                    if self.passes == 2 {
                        return Some(Some(Found {
                            shifts: std::mem::take(&mut self.shifts),
                            period: frame.period,
                        }));
                    }
                    self.off.clear();
                    self.stage = Stage::Follow(Follower::new(frame), BTreeMap::new());
                }
                Stage::Follow(follower, sorted) => {
                    let begin = self.off.len();
                    let end = self.angle_samples.len().min(begin + budget.pieces(PLACING) as usize);
                    for number in begin..end {
                        let (angle_sample, predicted) =
                            (self.angle_samples[number], self.predicted[number]);
                        let angle = follower.angle_at(angle_sample.at, predicted);
                        sorted.insert((angle_sample.last, number), angle);
                        self.off.push(angle.signed_turns_from(predicted).abs());
                    }
                    budget.spend(PLACING * (end - begin) as u64);
                    if end == self.angle_samples.len() {
                        self.stage = Stage::Order(std::mem::take(sorted), Vec::with_capacity(end));
                    }
                }
                Stage::Order(sorted, seen) => {
                    let count = budget.pieces(TAKING_OUT) as usize;
                    let taken = std::iter::from_fn(|| sorted.pop_first()).take(count);
                    let before = seen.len();
                    seen.extend(taken.map(|((last, _), angle)| Seen { last, angle }));
                    budget.spend(TAKING_OUT * (seen.len() - before) as u64);
                    if sorted.is_empty() {
                        let seen = std::mem::take(seen);
                        budget.spend(MIDDLE * self.off.len() as u64);
                        self.stage =
                            Stage::Search(Search::new(self.layout.clone(), self.scale()), seen, 0);
                    }
                }
                Stage::Search(search, seen, at) => {
                    let end =
                        seen.len().min(*at + STEP.min(budget.pieces(search.operations()) as usize));
                    for seen in &seen[*at..end] {
                        search.step(*seen);
                    }
                    budget.spend(search.operations() * (end - *at) as u64);
                    *at = end;
                    if end < seen.len() {
                        // The number of samples per completion is limited.
                        budget.exhaust();
                    } else if let Stage::Search(search, ..) =
                        std::mem::replace(&mut self.stage, Stage::Predict)
                    {
                        self.stage = Stage::Trace(search.trace());
                    }
                }
                Stage::Trace(trace) => {
                    let Some(shifts) = trace.advance(budget) else { continue };
                    self.shifts = shifts;
                    self.passes += 1;
                    self.predicted.clear();
                    self.stage = Stage::Predict;
                }
            }
        }
        None
    }

    /// Returns true if the angles agree better than by chance.
    fn agrees(&self, frame: &Frame) -> bool {
        frame.coherence >= DEVIATIONS / libm::sqrt(2.0 * self.angle_samples.len().max(1) as f64)
    }

    /// The error that costs 1 in the search for shifts.
    fn scale(&mut self) -> f64 {
        if self.passes == 0 || self.off.is_empty() {
            return FIRST_SCALE_TURNS;
        }
        let middle = self.off.len() / 2;
        let (_, middle, _) = self.off.select_nth_unstable_by(middle, f64::total_cmp);
        (1.5 * *middle).clamp(SCALES_TURNS.0, SCALES_TURNS.1)
    }
}

fn end_angle(layout: &Layout, shifts: &Shifts, lba: Lba) -> Angle {
    let moved = shifts.moved(lba, layout.capacity().get());
    let sectors = layout.sectors_per_track(layout.track_of(moved));
    layout.spot(moved).angle + Angle::from_fraction(1, u64::from(sectors.max(1)))
}

#[cfg(test)]
mod tests {
    use super::super::budget;
    use super::super::shifts::Shift;
    use super::*;
    use headtime_mechanics::catalog;
    use headtime_units::Instant;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Angle samples of a drive that turns slower than predicted and whose addresses are shifted by
    /// `rows`; some are of other places.
    fn angle_samples(
        layout: &Layout,
        rows: &Shifts,
        period: RotationPeriod,
        count: u32,
        seed: u64,
    ) -> Vec<AngleSample> {
        let (mut rng, mut at) = (ChaCha8Rng::seed_from_u64(seed), Instant::from_ns(5_000_000_000));
        let mut draw = || {
            let last = Lba::new(rng.random_range(0..layout.capacity().get()));
            let angle = if rng.random_bool(0.02) {
                Angle::from_raw(rng.random())
            } else {
                end_angle(layout, rows, last)
            };
            at += period.as_nanos() + period.time_of(period.angle_at(at, Angle::ZERO).until(angle));
            AngleSample { at, last }
        };
        (0..count).map(|_| draw()).collect()
    }

    /// No slice exceeds its bound from the fit of the speed to the last shift, on a large or a
    /// small drive, with few or many angle samples.
    #[test]
    fn a_search_is_done_in_bounded_slices_and_finds_speed_and_shifts() {
        for (drive, count) in [("nearline-20tb", 500), ("atlas10k", 6_000)] {
            let profile = catalog::load(drive).unwrap();
            let layout = Arc::new(Layout::new(&profile).unwrap());
            let nominal = profile.rotation_period().unwrap();
            let real = RotationPeriod::from_fs((nominal.as_fs() as f64 * 1.000_13) as u64).unwrap();
            let (third, reach) =
                (layout.capacity().get() / 3, if drive == "atlas10k" { 300 } else { 4_000 });
            let rows = Shifts::new([
                Shift { first: third, sectors: reach },
                Shift { first: 2 * third, sectors: 0 },
            ]);
            let mut refit = Refit::begin(
                layout.clone(),
                &Shifts::default(),
                nominal,
                angle_samples(&layout, &rows, real, count, 1),
            );
            let (mut most, mut all) = (0, 0);
            let found = loop {
                let mut budget = Budget::slice();
                let found = refit.advance(&mut budget);
                assert!(
                    budget.spent() <= budget::MOST,
                    "{drive}: {} operations at once",
                    budget.spent()
                );
                (most, all) = (most.max(budget.spent()), all + budget.spent());
                if let Some(found) = found {
                    break found.expect("two thirds of the angles are right");
                }
            };
            assert!(
                most >= budget::SLICE / 2 && all > 5 * budget::MOST,
                "{drive}: {most} operations at most, {all} in all"
            );
            // Over all angle samples, which are a turn and a half apart. One in fifty is an
            // outlier.
            let off_turns =
                (found.period.as_fs() as f64 / real.as_fs() as f64 - 1.0) * 1.5 * f64::from(count);
            assert!(off_turns.abs() < 0.01, "{drive}: the speed is {off_turns} turns off");
            // A small rotation of the platter cannot be distinguished from a shift of all
            // addresses.
            let [outer, middle, inner] =
                [1, 3, 5].map(|sixth| found.shifts.at(Lba::new(third * sixth / 2)));
            assert!(
                (middle - outer - reach).abs() <= 2
                    && (inner - outer).abs() <= 2
                    && outer.abs() < 16,
                "{drive}: {:?}",
                found.shifts
            );
        }
    }

    #[test]
    fn inconsistent_angles_end_the_search_after_the_first_fit() {
        let profile = catalog::load("atlas10k").unwrap();
        let layout = Arc::new(Layout::new(&profile).unwrap());
        let (period, mut rng) = (profile.rotation_period().unwrap(), ChaCha8Rng::seed_from_u64(2));
        let random = |number: u64| AngleSample {
            at: Instant::from_ns(number * 9_000_000),
            last: Lba::new(rng.random_range(0..layout.capacity().get())),
        };
        let mut refit = Refit::begin(
            layout.clone(),
            &Shifts::default(),
            period,
            (0..3_000).map(random).collect(),
        );
        let found = (0..1_000)
            .find_map(|_| refit.advance(&mut Budget::slice()))
            .expect("the search terminates");
        assert!(found.is_none());
    }
}
