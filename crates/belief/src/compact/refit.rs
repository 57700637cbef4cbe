//! [`Refit`]: finding out again, from what was seen so far, by how many sectors a drive's addresses
//! differ from its profile. Done in small steps, so that no completion waits for it.
//!
//! First how the platter turned ([`Fit`]), against the angles as they are believed; then the shifts
//! ([`Search`]), a few angle samples at a time; then both once more, because what is now believed tells
//! better how the speed wandered and how noisy angle samples are.
//!
//! Cost: counted in operations as all searches are (`budget.rs`), never more than a slice and a
//! piece with a completion; [`STEP`] angle samples of the search for shifts, 0.1 ms.

use std::collections::BTreeMap;
use std::sync::Arc;

use headtime_mechanics::Layout;
use headtime_units::{Angle, Lba, RotationPeriod};

use super::angle_samples::AngleSample;
use super::budget::Budget;
use super::frame::{Fit, Follower, Frame};
use super::shifts::Shifts;
use super::slips::{Search, Seen, Trace};

/// AngleSamples taken into the search with each completion.
const STEP: usize = 8;
/// Off by so much costs 1 at first (guess: 20 us of jitter on a turn of 4 to 8 ms).
const FIRST_SCALE_TURNS: f64 = 0.004;
/// Bounds of what is made of it after the first pass.
const SCALES_TURNS: (f64, f64) = (0.002, 0.012);
/// A coherence below so many deviations of chance says that no angle is believed rightly.
const DEVIATIONS: f64 = 5.0;
/// What it takes to find where a sector lies, to follow the platter by a angle sample and sort it in, and
/// to take it out again, in operations.
const LOCATING: u64 = 64;
const PLACING: u64 = 160;
const TAKING_OUT: u64 = 40;
/// What finding the middle of one number among others takes.
const MIDDLE: u64 = 2;
/// Bytes of a angle sample in the tree, about.
const SORTED: u64 = 40;

/// A search at work.
#[derive(Clone, Debug)]
pub(super) struct Refit {
    layout: Arc<Layout>,
    angle_samples: Vec<AngleSample>,
    period: RotationPeriod,
    /// What is believed, and where it says that the angle samples' sectors end.
    shifts: Shifts,
    believed: Vec<Angle>,
    /// How far angle samples were off when they were followed, in turns.
    off: Vec<f64>,
    stage: Stage,
    /// How many times shifts were searched for.
    passes: u32,
}

#[derive(Clone, Debug)]
enum Stage {
    Believe,
    Fit(Fit),
    Follow(Follower, BTreeMap<(Lba, usize), Angle>),
    Order(BTreeMap<(Lba, usize), Angle>, Vec<Seen>),
    Search(Search, Vec<Seen>, usize),
    Trace(Trace),
}

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) shifts: Shifts,
    pub(super) period: RotationPeriod,
}

impl Refit {
    /// Begins with the shifts believed so far.
    pub(super) fn begin(
        layout: Arc<Layout>,
        believed: &Shifts,
        period: RotationPeriod,
        angle_samples: Vec<AngleSample>,
    ) -> Self {
        let count = angle_samples.len();
        Self {
            layout,
            angle_samples,
            period,
            shifts: believed.clone(),
            believed: Vec::with_capacity(count),
            off: Vec::with_capacity(count),
            stage: Stage::Believe,
            passes: 0,
        }
    }

    /// Bytes of memory, the layout that it shares left out.
    pub(super) fn memory(&self) -> u64 {
        let angle_samples = self.angle_samples.capacity() * size_of::<AngleSample>()
            + self.believed.capacity() * size_of::<Angle>()
            + self.off.capacity() * size_of::<f64>();
        let seen = |seen: &Vec<Seen>| (seen.capacity() * size_of::<Seen>()) as u64;
        let stage = match &self.stage {
            Stage::Believe => 0,
            Stage::Fit(fit) => fit.memory(),
            Stage::Follow(_, sorted) => sorted.len() as u64 * SORTED,
            Stage::Order(sorted, taken) => sorted.len() as u64 * SORTED + seen(taken),
            Stage::Search(search, all, _) => search.memory() + seen(all),
            Stage::Trace(trace) => trace.memory(),
        };
        angle_samples as u64 + stage
    }

    /// Goes on as far as the budget allows; the answer when there is one, [`None`] inside it where
    /// the angle samples agree with what is believed no better than by chance.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Option<Option<Found>> {
        while budget.is_left() {
            match &mut self.stage {
                Stage::Believe => {
                    let begin = self.believed.len();
                    let end =
                        self.angle_samples.len().min(begin + budget.pieces(LOCATING) as usize);
                    let angles = self.angle_samples[begin..end].iter().map(|angle_sample| {
                        end_angle(&self.layout, &self.shifts, angle_sample.last)
                    });
                    self.believed.extend(angles);
                    budget.spend(LOCATING * (end - begin) as u64);
                    if end == self.angle_samples.len() {
                        budget.spend(2 * end as u64);
                        let readings = self
                            .angle_samples
                            .iter()
                            .zip(&self.believed)
                            .map(|(angle_sample, believed)| (angle_sample.at, *believed));
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
                        let (angle_sample, believed) =
                            (self.angle_samples[number], self.believed[number]);
                        let angle = follower.angle_at(angle_sample.at, believed);
                        sorted.insert((angle_sample.last, number), angle);
                        self.off.push(angle.signed_turns_from(believed).abs());
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
                        // So many and no more with each completion.
                        budget.exhaust();
                    } else if let Stage::Search(search, ..) =
                        std::mem::replace(&mut self.stage, Stage::Believe)
                    {
                        self.stage = Stage::Trace(search.trace());
                    }
                }
                Stage::Trace(trace) => {
                    let Some(shifts) = trace.advance(budget) else { continue };
                    self.shifts = shifts;
                    self.passes += 1;
                    self.believed.clear();
                    self.stage = Stage::Believe;
                }
            }
        }
        None
    }

    /// Whether angles agree better than by chance.
    fn agrees(&self, frame: &Frame) -> bool {
        frame.coherence >= DEVIATIONS / libm::sqrt(2.0 * self.angle_samples.len().max(1) as f64)
    }

    /// What an angle that is off by it costs 1 in the search for shifts.
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

    /// AngleSamples of a unit that turns slower than it is believed to and whose addresses lie `rows`
    /// further on; some are of elsewhere.
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

    /// From the first look at the speed to the last shift nothing is done at once that is longer
    /// than a slice and a piece, on a large drive or a small one, with few angle samples or many.
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
            // Over all angle samples, which come a turn and a half apart; one in fifty says anything.
            let off_turns =
                (found.period.as_fs() as f64 / real.as_fs() as f64 - 1.0) * 1.5 * f64::from(count);
            assert!(off_turns.abs() < 0.01, "{drive}: the speed is {off_turns} turns off");
            // Whether the platter stands a little elsewhere or all addresses lie some sectors on
            // cannot be told apart.
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
    fn angles_that_agree_with_nothing_end_the_search_before_it_has_begun() {
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
            .expect("it comes to an end");
        assert!(found.is_none());
    }
}
