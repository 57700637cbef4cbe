//! How far the angles of a unit lie from its profile, by region: learned where the drive is used.
//!
//! A profile describes the layout of a model, not the defects of one drive: each slipped sector
//! shifts all following sectors of its zone by one sector's angle. On a 20 TB drive with a slip in
//! a million sectors the last tracks of a zone pass some milliseconds late. That error grows slowly
//! with the address, so it can be learned by region: levels of ever narrower bins, each with the
//! remainder of the levels above.
//!
//! Worked example: a zone is 2 ms late at its end and right at its start. After some requests the
//! bins of the coarsest level hold the mean of their part, say 1 ms; those of the finer levels
//! learn −1 … +1 ms around it, each from the few requests that fell into it. A bin never visited
//! adds nothing, so a request there gets what its neighborhood knows.
//!
//! Guarantees that an error which is the same in a region vanishes with the requests served there.
//! Does not follow jumps within a bin (a zone's border) nor single tracks of a large drive: those
//! stay as spread. Cost: a division and four look-ups; 300 KiB. Source: ours; the effect is what
//! the recorded Cheetah 15K.5 shows further in.

use headtime_units::{Angle, Extent, Lba, Sectors};

/// Bins of each level, the coarsest first: each bin is cut into eight of the next level. The finest
/// are 2 tracks of a 9 GB drive, 0.6 GB of a 20 TB one (guess).
const LEVELS: [usize; 4] = [64, 512, 4_096, 32_768];
/// By how many bits a bin's number in the finest level is longer than in each level.
const SHIFTS: [u32; LEVELS.len()] = [9, 6, 3, 0];
/// The least weight of a new observation, so that a bin keeps following (guess).
const STEADY_GAIN: f32 = 1.0 / 32.0;

/// Angle offsets by address, in turns.
#[derive(Clone, Debug)]
pub(crate) struct AngleMap {
    capacity: Sectors,
    levels: [Vec<Bin>; LEVELS.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    turns: f32,
    seen: u16,
}

impl AngleMap {
    pub(crate) fn new(capacity: Sectors) -> Self {
        Self { capacity, levels: LEVELS.map(|bins| vec![Bin::default(); bins]) }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        (self.levels.iter().map(Vec::len).sum::<usize>() * size_of::<Bin>()) as u64
    }

    /// The lateness of `lba` relative to the profile.
    pub(crate) fn offset(&self, lba: Lba) -> Angle {
        self.offset_of(self.finest(lba))
    }

    /// [`AngleMap::offset`] of the first and of the last sector.
    pub(crate) fn offsets(&self, extent: Extent) -> [Angle; 2] {
        let (first, last) = (self.finest(extent.start), self.finest(extent.last()));
        let of_first = self.offset_of(first);
        [of_first, if last == first { of_first } else { self.offset_of(last) }]
    }

    fn offset_of(&self, finest: usize) -> Angle {
        let turns: f32 =
            self.levels.iter().zip(SHIFTS).map(|(level, shift)| level[finest >> shift].turns).sum();
        angle_of_turns(f64::from(turns))
    }

    /// Takes in that `lba` came by `error_turns` later than its offset said (negative: earlier).
    pub(crate) fn observe(&mut self, lba: Lba, error_turns: f64) {
        let mut left = error_turns as f32;
        let finest = self.finest(lba);
        for (level, shift) in self.levels.iter_mut().zip(SHIFTS) {
            let bin = &mut level[finest >> shift];
            bin.seen = bin.seen.saturating_add(1);
            // Half of the first observation: the rest may be noise, or belong to a finer level.
            let step = left * (1.0 / (f32::from(bin.seen) + 1.0)).max(STEADY_GAIN);
            bin.turns += step;
            left -= step;
        }
    }

    /// Offset and observations of every bin, the coarsest level first: for saving.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        self.levels
            .iter()
            .flatten()
            .flat_map(|bin| [f64::from(bin.turns), f64::from(bin.seen)])
            .collect()
    }

    /// The map that [`AngleMap::numbers`] were of; `None` where they cannot be.
    pub(crate) fn restored(capacity: Sectors, numbers: &[f64]) -> Option<Self> {
        let mut map = Self::new(capacity);
        let mut pairs = numbers.chunks_exact(2);
        for bin in map.levels.iter_mut().flatten() {
            let pair = pairs.next()?;
            if !(pair[0].abs() <= 1e6 && (0.0..=f64::from(u16::MAX)).contains(&pair[1])) {
                return None;
            }
            *bin = Bin { turns: pair[0] as f32, seen: pair[1] as u16 };
        }
        (numbers.len().is_multiple_of(2) && pairs.next().is_none()).then_some(map)
    }

    /// The bin of the finest level; the coarser ones follow by dividing by eight, which rounds as
    /// dividing the address would.
    fn finest(&self, lba: Lba) -> usize {
        let bins = LEVELS[LEVELS.len() - 1];
        let capacity = self.capacity.get().max(1);
        let bin = match lba.get().checked_mul(bins as u64) {
            Some(scaled) => scaled / capacity,
            None => (u128::from(lba.get()) * bins as u128 / u128::from(capacity)) as u64,
        };
        (bin as usize).min(bins - 1)
    }
}

/// [`Angle::from_turns`] without calls, for numbers of turns that are not astronomic: it is asked
/// for several times for each request.
pub(crate) fn angle_of_turns(turns: f64) -> Angle {
    if turns.is_nan() || turns.abs() > 1e9 {
        return Angle::from_turns(turns);
    }
    let cut = turns as i64 as f64;
    let floor = if cut > turns { cut - 1.0 } else { cut };
    Angle::from_raw(rounded((turns - floor) * 4_294_967_296.0) as u32)
}

/// `libm::round(value) as u64` without a call; `value` is not negative and below 2⁵³, where every
/// number has its neighbors apart by at most one.
pub(crate) fn rounded(value: f64) -> u64 {
    let cut = value as u64;
    cut + u64::from(value - cut as f64 >= 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const CAPACITY: Sectors = Sectors::new(1 << 35);

    /// A drive of 24 zones, each late by up to `turns` at its end.
    fn truth(lba: u64, turns: f64) -> f64 {
        (lba as f64 / CAPACITY.get() as f64 * 24.0).fract() * turns
    }

    #[test]
    fn an_error_that_grows_along_each_zone_is_learned_where_requests_fall() {
        let (mut map, mut rng) = (AngleMap::new(CAPACITY), ChaCha8Rng::seed_from_u64(5));
        let mut error = |map: &mut AngleMap, teach: bool| {
            let lba = rng.random_range(0..CAPACITY.get());
            let noise = if teach { rng.random_range(-0.005..0.005) } else { 0.0 };
            let error = Angle::from_turns(truth(lba, 0.4))
                .signed_turns_from(map.offset(Lba::new(lba)))
                + noise;
            if teach {
                map.observe(Lba::new(lba), error);
            }
            error
        };
        let mean_square =
            |map: &mut AngleMap, error: &mut dyn FnMut(&mut AngleMap, bool) -> f64| {
                (0..2_000).map(|_| error(map, false)).map(|error| error * error).sum::<f64>()
                    / 2_000.0
            };
        let before = mean_square(&mut map, &mut error).sqrt();
        for _ in 0..20_000 {
            error(&mut map, true);
        }
        let after = mean_square(&mut map, &mut error).sqrt();
        assert!(
            before > 0.15 && after < 0.02,
            "RMS error in turns: {before} before, {after} after"
        );
    }

    #[test]
    fn the_bins_of_coarser_levels_are_those_of_their_addresses() {
        for capacity in [1, 7, 17_938_986, 39_063_650_304, 1 << 60, u64::MAX] {
            let map = AngleMap::new(Sectors::new(capacity));
            let mut rng = ChaCha8Rng::seed_from_u64(capacity);
            for _ in 0..2_000 {
                let lba = rng.random_range(0..capacity) >> rng.random_range(0..64);
                for (bins, shift) in LEVELS.into_iter().zip(SHIFTS) {
                    let by_address =
                        (u128::from(lba) * bins as u128 / u128::from(capacity)) as usize;
                    assert_eq!(
                        map.finest(Lba::new(lba)) >> shift,
                        by_address,
                        "LBA {lba} of {capacity}, {bins} bins"
                    );
                }
            }
        }
    }

    #[test]
    fn the_short_ways_to_an_angle_and_to_a_whole_number_are_those_of_the_library() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let ticks = |count: f64| count / 4_294_967_296.0;
        let edges = [
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.0,
            -1.0,
            1e-300,
            -1e-300,
            ticks(0.5),
            -ticks(0.5),
            ticks(0.499_999_999_999_999_94),
            1e12,
            f64::NAN,
        ];
        let drawn = (0..100_000).map(|_| {
            rng.random_range(-3.0..3.0_f64) * libm::exp2(f64::from(rng.random_range(-60_i32..20)))
        });
        for turns in edges.into_iter().chain(drawn) {
            assert_eq!(angle_of_turns(turns), Angle::from_turns(turns), "{turns} turns");
            let value = turns.abs().min(1e15);
            assert_eq!(rounded(value), libm::round(value) as u64, "{value}");
            assert_eq!(
                rounded(libm::floor(value) + 0.5),
                libm::round(libm::floor(value) + 0.5) as u64,
                "{value} to a half"
            );
        }
    }

    #[test]
    fn what_nobody_visited_is_left_as_the_profile_says() {
        let mut map = AngleMap::new(CAPACITY);
        map.observe(Lba::new(0), 0.1);
        assert_eq!(map.offset(Lba::new(CAPACITY.get() - 1)), Angle::ZERO);
        assert_ne!(map.offset(Lba::new(0)), Angle::ZERO);
    }
}
