//! [`Search`]: the search for shifts of addresses against the layout, from the observed angles of
//! sectors.
//!
//! Each slipped sector that the layout does not know of moves all later sectors, up to the next
//! place where spares absorb the difference. Between two such places the shift is one number, and
//! each angle sample is consistent with a few shifts per turn. The cheapest sequence of shifts in
//! the order of addresses is found by dynamic programming (Viterbi). An angle sample costs its
//! angle error, up to a bound. A change of the shift costs as much as the choice of one among all
//! possible shifts is unlikely ([`CHANGE`] plus the logarithm of their number).
//!
//! Worked example, tracks of 1,200 sectors: an angle sample at LBA 7,300,000 is 8/1,200 turn ahead
//! of the layout, and so are the next ten. With a shift of 0 each of them costs 1.7, with a shift
//! of 8 nothing: 17 saved for a change at 12. A single angle sample with this error changes
//! nothing.
//!
//! Limits: a shift with fewer than three or four angle samples is not found, and its exact
//! beginning between two angle samples is not known; the midpoint is used. Cost: [`Search::step`]
//! ingests one angle sample in some ten microseconds for a thousand sectors of reach; 1 bit of
//! memory for each angle sample and sector of reach. Source: ours; VALIDATION.md shows that a real
//! drive behaves like this (Cheetah 15K.5).

use std::sync::Arc;

use headtime_mechanics::Layout;
use headtime_units::{Angle, Lba};

use super::budget::Budget;
use super::shifts::{Shift, Shifts};

/// The cost of a change, without the logarithm of the number of possible shifts (guess: one of
/// fifteen angle samples follows a change).
const CHANGE: f64 = 2.7;
/// The maximum cost of one angle sample, so that an outlier moves nothing.
const MOST: f32 = 4.0;
/// The maximum shift as a share of the sectors of the drive (guess: thirty defects in a million,
/// several times those of new drives).
const REACH_SHARE: f64 = 3e-5;
/// The minimum and maximum reach in sectors. Shifts may be negative down to a quarter of it: for a
/// layout with too many slips, or where spares begin again.
const REACH: (u64, u64) = (64, 8_192);

/// The cost of going back by one angle sample, which is elsewhere in memory, in operations.
const TRACING: u64 = 100;

/// An angle sample in the search: the address, and the angle at which its end passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) last: Lba,
    pub(super) angle: Angle,
}

/// The search, one angle sample after another in the order of addresses.
#[derive(Clone, Debug)]
pub(super) struct Search {
    layout: Arc<Layout>,
    /// The angle error that costs 1, in 2⁻³² turns.
    scale: f32,
    lowest: i64,
    /// The cost of a change.
    change: f32,
    cost: Vec<f32>,
    taken: Vec<Taken>,
}

/// The record of an ingested angle sample, for the way back.
#[derive(Clone, Debug)]
struct Taken {
    last: u64,
    cheapest: u32,
    /// A bit for each shift that was cheaper to reach from the cheapest one.
    changed: Vec<u64>,
}

impl Search {
    /// Creates a search over shifts of `layout`, in which an error of `scale_turns` costs 1.
    pub(super) fn new(layout: Arc<Layout>, scale_turns: f64) -> Self {
        let reach = ((layout.capacity().get() as f64 * REACH_SHARE) as u64).clamp(REACH.0, REACH.1);
        let lowest = -(reach as i64 / 4);
        let cost = vec![0.0; (reach + reach / 4 + 1) as usize];
        Self {
            layout,
            scale: (scale_turns * 4_294_967_296.0) as f32,
            lowest,
            change: (CHANGE + libm::log(cost.len() as f64)) as f32,
            cost,
            taken: Vec::new(),
        }
    }

    /// Ingests the angle sample with the next address.
    pub(super) fn step(&mut self, seen: Seen) {
        let cheapest = (0..self.cost.len())
            .min_by(|a, b| self.cost[*a].total_cmp(&self.cost[*b]))
            .unwrap_or(0);
        let least = self.cost[cheapest];
        let from_there = least + self.change;
        let mut changed = vec![0_u64; self.cost.len().div_ceil(64)];
        for (state, cost) in self.cost.iter_mut().enumerate() {
            if from_there < *cost {
                changed[state / 64] |= 1 << (state % 64);
                *cost = from_there;
            }
            // Only differences of costs matter.
            *cost -= least;
        }
        self.add_errors(seen);
        self.taken.push(Taken { last: seen.last.get(), cheapest: cheapest as u32, changed });
    }

    /// Adds the cost of the angle sample to each shift, track by track: within a track the angle of
    /// each sector differs from the previous one by a constant.
    fn add_errors(&mut self, seen: Seen) {
        let mapped = self.layout.capacity().get();
        let mut state = 0_usize;
        while state < self.cost.len() {
            let Some(lba) = seen
                .last
                .get()
                .checked_add_signed(self.lowest + state as i64)
                .filter(|lba| *lba < mapped)
            else {
                self.cost[state] += MOST;
                state += 1;
                continue;
            };
            let address = self.layout.lba_to_physical(Lba::new(lba));
            let sectors = self.layout.sectors_per_track(address.track());
            let sector = 0x1_0000_0000_u64 / u64::from(sectors.max(1));
            // From here to the end of the track, or to the last shift.
            let run = ((sectors - address.sector) as usize).clamp(1, self.cost.len() - state);
            let end =
                self.layout.sector_angle(address) + Angle::from_fraction(1, u64::from(sectors));
            let mut off = seen.angle - end;
            for cost in &mut self.cost[state..state + run] {
                *cost += ((off.as_raw() as i32).unsigned_abs() as f32 / self.scale).min(MOST);
                off = off - Angle::from_raw(sector as u32);
            }
            state += run;
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        let of_one = size_of::<Taken>() + 8 * self.cost.len().div_ceil(64);
        (4 * self.cost.capacity() + self.taken.capacity() * of_one) as u64
    }

    /// The cost of one angle sample, in operations: the shifts are visited three times, several at
    /// once.
    pub(super) fn operations(&self) -> u64 {
        self.cost.len() as u64
    }

    /// Begins the way back along the cheapest shifts.
    pub(super) fn trace(self) -> Trace {
        let state = (0..self.cost.len())
            .min_by(|a, b| self.cost[*a].total_cmp(&self.cost[*b]))
            .unwrap_or(0);
        Trace { lowest: self.lowest, left: self.taken, previous: None, state, rows: Vec::new() }
    }
}

/// The cheapest shifts, from the last angle sample back to the first.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    lowest: i64,
    left: Vec<Taken>,
    /// The address and shift of the angle sample visited last.
    previous: Option<(u64, usize)>,
    state: usize,
    rows: Vec<Shift>,
}

impl Trace {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        let of_one =
            size_of::<Taken>() + self.left.first().map_or(0, |taken| 8 * taken.changed.len());
        (self.left.capacity() * of_one + self.rows.capacity() * size_of::<Shift>()) as u64
    }

    /// Goes back as far as the budget allows; returns the shifts once the first angle sample is
    /// reached.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Option<Shifts> {
        while budget.is_left() {
            let taken = self.left.pop();
            budget.spend(TRACING);
            // The shift changes midway between two angle samples with different shifts.
            if let Some((last, state)) = self.previous
                && taken.as_ref().is_none_or(|_| state != self.state)
            {
                let first = taken.as_ref().map_or(0, |taken| taken.last.midpoint(last) + 1);
                self.rows.push(Shift { first, sectors: self.lowest + state as i64 });
            }
            let Some(taken) = taken else {
                self.rows.reverse();
                return Some(Shifts::new(std::mem::take(&mut self.rows)));
            };
            self.previous = Some((taken.last, self.state));
            if taken.changed[self.state / 64] >> (self.state % 64) & 1 == 1 {
                self.state = taken.cheapest as usize;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::{Mechanism, ZoneSlip, catalog};
    use headtime_units::Extent;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn find(layout: &Arc<Layout>, seen: &[Seen]) -> Shifts {
        let mut search = Search::new(layout.clone(), 0.004);
        seen.iter().for_each(|seen| search.step(*seen));
        let mut trace = search.trace();
        loop {
            if let Some(shifts) = trace.advance(&mut Budget::slice()) {
                return shifts;
            }
        }
    }

    /// The slips of a drive that the layout does not know of are found from random angle samples,
    /// some of which are outliers.
    #[test]
    fn slips_of_a_drive_are_found_despite_outliers() {
        for seed in 1..=3_u64 {
            let profile = catalog::load("atlas10k").unwrap();
            let nominal = Arc::new(Layout::new(&profile).unwrap());
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut slips = Vec::new();
            for (zone, of) in profile.zones.iter().enumerate() {
                let sectors = of.physical_sectors(profile.geometry.heads);
                let first = rng.random_range(sectors / 4..sectors / 2);
                let count = (of.spares - of.slips.len() as u64).min(40);
                slips.extend((first..first + count).map(|sector| ZoneSlip { zone, sector }));
            }
            let slips = Layout::absorbed(&profile, &slips);
            let unit = Mechanism::new(
                &profile,
                Arc::new(Layout::with_slips(&profile, &slips).unwrap()),
                headtime_mechanics::Nominal,
            )
            .unwrap();
            let mut seen: Vec<Seen> = (0..3_000)
                .map(|_| {
                    let last = Lba::new(rng.random_range(0..nominal.capacity().get()));
                    let wrong = rng.random_bool(0.02);
                    let noise = Angle::from_turns(rng.random_range(-0.001..0.001));
                    let angle = if wrong {
                        Angle::from_raw(rng.random())
                    } else {
                        unit.end_angle(Extent::from_numbers(last.get(), 1)) + noise
                    };
                    Seen { last, angle }
                })
                .collect();
            seen.sort_by_key(|seen| seen.last);
            let shifts = find(&nominal, &seen);
            let within = |shifts: &Shifts| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed * 1_000);
                let mut off = || {
                    let lba = Lba::new(rng_lba(&nominal, &mut rng));
                    let moved = shifts.moved(lba, nominal.capacity().get());
                    nominal.spot(moved).angle.signed_turns_from(unit.spot(lba).angle).abs()
                };
                (0..2_000).map(|_| off()).filter(|turns| *turns < 0.01).count()
            };
            let (before, after) = (within(&Shifts::default()), within(&shifts));
            assert!(
                before < 1_500 && after > 1_900,
                "seed {seed}: of 2,000 angles {before} right before, {after} after"
            );
        }
    }

    fn rng_lba(layout: &Layout, rng: &mut ChaCha8Rng) -> u64 {
        rng.random_range(0..layout.capacity().get())
    }

    #[test]
    fn no_shift_is_found_for_a_correct_layout() {
        let layout = Arc::new(Layout::new(&catalog::load("cheetah10k7").unwrap()).unwrap());
        let mechanism = Mechanism::nominal(&catalog::load("cheetah10k7").unwrap()).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut lbas: Vec<u64> = (0..400).map(|_| rng_lba(&layout, &mut rng)).collect();
        lbas.sort_unstable();
        let seen: Vec<Seen> = lbas
            .iter()
            .map(|lba| Seen {
                last: Lba::new(*lba),
                angle: mechanism.end_angle(Extent::from_numbers(*lba, 1)),
            })
            .collect();
        assert_eq!(find(&layout, &seen), Shifts::default());
    }
}
