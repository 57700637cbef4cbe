//! [`SeekResiduals`]: the difference between a drive's arm times and the curve of its profile,
//! learned from missed and caught revolutions.
//!
//! The difference is a sum of three parts: by *kind* (read or write, with or without a movement of
//! the arm), by *distance and direction* (a class for each power of two, inwards and outwards
//! separate), and by *region* (of the start and of the destination). Each part is a table of
//! *cells*, each with a mean and a variance. A completion gives an interval of the arrival error
//! (`arrival.rs`). Each cell concerned moves by its variance times the slope of the interval's
//! log-likelihood, and its variance shrinks by the curvature (assumed-density filtering, which is
//! exact for one interval of a normal). A cell with few observations moves far, one with many
//! hardly. The initial variance follows the spread of all arrivals: the cells of an accurate arm
//! stay small, and those of an inaccurate one adapt fast.
//!
//! Worked example, a spread of 100 us, three new cells: a wait of 30 us is predicted and missed.
//! The arrival error is above 30 us, on average of such cases 97 us. The region cell moves by
//! 24 us, the other two by 6 us each: the same seek is then expected 36 us later.
//!
//! Guarantees: a revolution lost to another cause (a retry) moves nothing unless the sector was
//! nearly missed, because the likelihood includes such losses. No cell leaves ±0.5 ms ([`MAX_NS`]).
//! [`SeekResiduals::lowest_ns`] is never above any offset of a seek, so that a search pruned by it
//! stays exact. Does not follow single cylinders. Cost: an offset is three look-ups, some 5 ns;
//! 20 KiB. Source: ours, on P2 section 3.3.

use crate::normal::{bounded_product, density, upper_tail};

/// Regions of the stroke, from the outermost cylinder to the innermost (guess: few enough to be
/// visited within some ten thousand seeks).
const REGIONS: u32 = 32;
/// Classes of distance in each direction: one for each power of two that a distance of 32 bits has.
const DISTANCES: usize = 32;
/// Initial variance of a cell as a share of the variance of the arrival, for cells with many seeks
/// and with few (guess: in all somewhat less than half of it is the arm's).
const SHARED_PART: f64 = 0.0625;
const REGION_PART: f64 = 0.25;
/// Minimum deviation of a cell, in ns, so that it continues to adapt (guess).
const MIN_NS: f64 = 2_000.0;
/// Maximum mean of a cell, in ns (guess: a tenth of an average seek; the sum of the parts can be
/// three times as much).
const MAX_NS: f64 = 500_000.0;
/// The assumed share of completions that are a revolution off for a reason other than the arm
/// (guess: ten times the retries of profiles).
const ELSEWHERE: f64 = 0.01;

/// The modelled errors of the arm.
#[derive(Clone, Debug)]
pub(crate) struct SeekResiduals {
    /// `REGIONS` · 2³² / cylinders.
    regions_per_cylinder: u64,
    kinds: [Cell; 4],
    distances: [Cell; 2 * DISTANCES],
    regions: Vec<Cell>,
    /// The least mean of a region, and the sum of the least of all three parts; 0 where all are
    /// above.
    lowest_region_ns: f64,
    lowest_ns: f64,
}

/// The kind of a movement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    pub(crate) from_cylinder: u32,
    pub(crate) to_cylinder: u32,
    pub(crate) writes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    mean_ns: f64,
    variance: f64,
}

impl Cell {
    /// A cell without observations: as wide as its part may be.
    const NEW: Self = Self { mean_ns: 0.0, variance: f64::INFINITY };
}

impl SeekResiduals {
    /// Creates residuals without observations for an arm with this number of cylinders.
    pub(crate) fn new(cylinders: u32) -> Self {
        Self {
            regions_per_cylinder: (u64::from(REGIONS) << 32) / u64::from(cylinders.max(1)),
            kinds: [Cell::NEW; 4],
            distances: [Cell::NEW; 2 * DISTANCES],
            regions: vec![Cell::NEW; (REGIONS * REGIONS) as usize],
            lowest_region_ns: 0.0,
            lowest_ns: 0.0,
        }
    }

    /// The arm time beyond that of the profile, in ns; for a movement of the arm or a switch of
    /// heads.
    #[inline]
    pub(crate) fn offset_ns(&self, movement: Movement) -> f64 {
        let kind = self.kinds[movement.kind()].mean_ns;
        match self.parts(movement) {
            Some((distance, region)) => {
                kind + self.distances[distance].mean_ns + self.regions[region].mean_ns
            }
            None => kind,
        }
    }

    /// The least of all offsets; 0 where all are above.
    pub(crate) fn lowest_ns(&self) -> f64 {
        self.lowest_ns
    }

    /// The arm time before a write beyond that before a read, relative to the profile, in ns.
    pub(crate) fn write_extra_ns(&self) -> f64 {
        let of = |writes| {
            self.kinds[Movement { from_cylinder: 0, to_cylinder: 1, writes }.kind()].mean_ns
        };
        of(true) - of(false)
    }

    /// Observes that the arm arrived between `low_ns` and `high_ns` later than predicted. The
    /// prediction errs by `spread_ns` (a standard deviation) in all; `sure`, 0 to 1, is the
    /// certainty of that spread.
    pub(crate) fn observe(
        &mut self,
        movement: Movement,
        low_ns: f64,
        high_ns: f64,
        spread_ns: f64,
        sure: f64,
    ) {
        let parts = self.parts(movement);
        let deviation = spread_ns;
        let Some((slope, curvature)) = gradient(low_ns / deviation, high_ns / deviation) else {
            return;
        };
        let teach = |cell: &mut Cell, part: f64| {
            let known = cell.variance.min(sure * part * spread_ns * spread_ns);
            let mean = cell.mean_ns + known / deviation * slope;
            let variance = known - known * known / (deviation * deviation) * curvature;
            *cell = Cell {
                mean_ns: mean.clamp(-MAX_NS, MAX_NS),
                variance: variance.max(MIN_NS * MIN_NS),
            };
        };
        let before = parts.map_or(0.0, |(_, region)| self.regions[region].mean_ns);
        teach(&mut self.kinds[movement.kind()], SHARED_PART);
        if let Some((distance, region)) = parts {
            teach(&mut self.distances[distance], SHARED_PART);
            teach(&mut self.regions[region], REGION_PART);
        }
        let now = parts.map_or(0.0, |(_, region)| self.regions[region].mean_ns);
        if now < self.lowest_region_ns {
            self.lowest_region_ns = now;
        } else if before <= self.lowest_region_ns && now > before {
            self.lowest_region_ns = lowest(&self.regions);
        }
        self.lowest_ns = lowest(&self.kinds) + lowest(&self.distances) + self.lowest_region_ns;
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        (size_of::<Self>() + self.regions.len() * size_of::<Cell>()) as u64
    }

    /// Mean and variance of every cell: for saving.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.kinds
            .iter()
            .chain(&self.distances)
            .chain(&self.regions)
            .flat_map(|cell| [cell.mean_ns, cell.variance])
            .collect()
    }

    /// Restores residuals from [`SeekResiduals::numbers`]; `None` if they are invalid.
    pub(crate) fn restored(cylinders: u32, numbers: &[f64]) -> Option<Self> {
        let mut residuals = Self::new(cylinders);
        let mut pairs = numbers.chunks_exact(2);
        for cell in
            residuals.kinds.iter_mut().chain(&mut residuals.distances).chain(&mut residuals.regions)
        {
            let pair = pairs.next()?;
            if !(pair[0].abs() <= MAX_NS && pair[1] >= 0.0) {
                return None;
            }
            *cell = Cell { mean_ns: pair[0], variance: pair[1] };
        }
        residuals.lowest_region_ns = lowest(&residuals.regions);
        residuals.lowest_ns =
            lowest(&residuals.kinds) + lowest(&residuals.distances) + residuals.lowest_region_ns;
        (numbers.len().is_multiple_of(2) && pairs.next().is_none()).then_some(residuals)
    }

    /// The cells of distance and of region; none where the arm stays on its cylinder.
    #[inline]
    fn parts(&self, movement: Movement) -> Option<(usize, usize)> {
        let Movement { from_cylinder, to_cylinder, .. } = movement;
        let distance = from_cylinder.abs_diff(to_cylinder).checked_ilog2()? as usize;
        let region = |cylinder: u32| {
            (((u64::from(cylinder) * self.regions_per_cylinder) >> 32) as u32).min(REGIONS - 1)
        };
        let inwards = usize::from(to_cylinder > from_cylinder);
        Some((
            distance + inwards * DISTANCES,
            (region(from_cylinder) * REGIONS + region(to_cylinder)) as usize,
        ))
    }
}

impl Movement {
    #[inline]
    fn kind(self) -> usize {
        usize::from(self.writes) * 2 + usize::from(self.from_cylinder != self.to_cylinder)
    }
}

fn lowest(cells: &[Cell]) -> f64 {
    cells.iter().map(|cell| cell.mean_ns).fold(0.0, f64::min)
}

/// The slope (in the mean) and the negated curvature of the logarithm of the chance that a standard
/// normal lies between the bounds. `None` if nearly everything lies between them.
fn gradient(low: f64, high: f64) -> Option<(f64, f64)> {
    if low < -4.0 && high > 4.0 {
        return None;
    }
    let inside = (1.0 - ELSEWHERE) * (upper_tail(low) - upper_tail(high)).max(0.0);
    let chance = inside + ELSEWHERE;
    let (at_low, at_high) = ((1.0 - ELSEWHERE) * density(low), (1.0 - ELSEWHERE) * density(high));
    let slope = (at_low - at_high) / chance;
    Some((
        slope,
        slope * slope + (bounded_product(high, at_high) - bounded_product(low, at_low)) / chance,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const TURN_NS: f64 = 8_333_333.0;
    const CYLINDERS: u32 = 300_000;

    fn normal(rng: &mut ChaCha8Rng) -> f64 {
        let (radius, angle): (f64, f64) = (rng.random(), rng.random());
        libm::sqrt(-2.0 * libm::log(1.0 - radius)) * libm::cos(core::f64::consts::TAU * angle)
    }

    /// The error of an arm by direction, place and kind, in ns.
    fn truth(movement: Movement) -> f64 {
        let (from, to) = (f64::from(movement.from_cylinder), f64::from(movement.to_cylinder));
        let by_direction = if to > from { 40_000.0 } else { -30_000.0 };
        by_direction
            + 60_000.0 * libm::sin(9.0 * to / f64::from(CYLINDERS))
            + if movement.writes { 25_000.0 } else { 0.0 }
    }

    fn drawn(rng: &mut ChaCha8Rng) -> Movement {
        Movement {
            from_cylinder: rng.random_range(0..CYLINDERS),
            to_cylinder: rng.random_range(0..CYLINDERS),
            writes: rng.random_bool(0.3),
        }
    }

    /// Observes one access with a short wait, as a scheduler would choose it.
    fn teach(residuals: &mut SeekResiduals, rng: &mut ChaCha8Rng, noise_ns: f64, retried: bool) {
        let movement = drawn(rng);
        let wait = rng.random_range(0.0..1.0_f64).powi(2) * TURN_NS;
        let error = truth(movement) - residuals.offset_ns(movement) + noise_ns * normal(rng);
        let slips = libm::ceil((error - wait) / TURN_NS) + f64::from(u8::from(retried));
        let high = wait + slips * TURN_NS;
        residuals.observe(movement, high - TURN_NS, high, 2.0 * noise_ns, 1.0);
    }

    fn rms_ns(residuals: &SeekResiduals, seed: u64) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let squares = (0..2_000)
            .map(|_| drawn(&mut rng))
            .map(|movement| truth(movement) - residuals.offset_ns(movement))
            .map(|error| error * error);
        libm::sqrt(squares.sum::<f64>() / 2_000.0)
    }

    #[test]
    fn errors_by_direction_kind_and_region_are_learned_within_some_ten_thousand_seeks() {
        for seed in 1..=4 {
            let (mut residuals, mut rng) =
                (SeekResiduals::new(CYLINDERS), ChaCha8Rng::seed_from_u64(seed));
            let before = rms_ns(&residuals, seed);
            (0..2_000).for_each(|_| teach(&mut residuals, &mut rng, 30_000.0, false));
            let soon = rms_ns(&residuals, seed);
            (0..30_000).for_each(|_| teach(&mut residuals, &mut rng, 30_000.0, false));
            let later = rms_ns(&residuals, seed);
            assert!(
                soon < 0.8 * before && later < 0.55 * before,
                "seed {seed}: {before:.0} ns before, {soon:.0} after 2,000, {later:.0} after 32,000"
            );
        }
    }

    #[test]
    fn a_retry_teaches_nothing_unless_the_sector_was_nearly_missed() {
        let (mut residuals, movement) = (
            SeekResiduals::new(CYLINDERS),
            Movement { from_cylinder: 5, to_cylinder: 90_000, writes: false },
        );
        residuals.observe(movement, 3e6, 3e6 + TURN_NS, 100_000.0, 1.0);
        assert!(residuals.offset_ns(movement).abs() < 10.0, "{} ns", residuals.offset_ns(movement));
        let mut fresh = SeekResiduals::new(CYLINDERS);
        fresh.observe(movement, 30_000.0, 30_000.0 + TURN_NS, 100_000.0, 1.0);
        assert!(
            (35_000.0..37_500.0).contains(&fresh.offset_ns(movement)),
            "{} ns, the header says 36,000",
            fresh.offset_ns(movement)
        );
    }

    #[test]
    fn no_offset_is_below_the_lowest_whatever_was_seen() {
        for seed in 1..=20 {
            let (mut residuals, mut rng) =
                (SeekResiduals::new(CYLINDERS), ChaCha8Rng::seed_from_u64(seed));
            for _ in 0..2_000 {
                let retried = rng.random_bool(0.02);
                teach(&mut residuals, &mut rng, 60_000.0, retried);
                let movement = drawn(&mut rng);
                assert!(residuals.offset_ns(movement) >= residuals.lowest_ns(), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_switch_of_heads_is_a_kind_of_its_own() {
        let mut residuals = SeekResiduals::new(CYLINDERS);
        let switch = Movement { from_cylinder: 7, to_cylinder: 7, writes: false };
        (0..50).for_each(|_| {
            residuals.observe(
                switch,
                20_000.0 - residuals.offset_ns(switch),
                f64::INFINITY,
                10_000.0,
                1.0,
            )
        });
        assert!(residuals.offset_ns(switch) > 15_000.0);
        assert_eq!(residuals.offset_ns(Movement { to_cylinder: 8, ..switch }), 0.0);
    }
}
