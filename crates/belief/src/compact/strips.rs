//! [`Strips`]: where sectors lie around the platter, as far as that was found out without anybody
//! saying.
//!
//! Along the addresses of one zone the angle rises by the same amount from sector to sector, except
//! that a track begins somewhat later than the one before it ended (its skew), and again somewhat
//! later where the surface or the cylinder changes. A *strip* is a stretch of addresses of which
//! that is known as a straight line and a few sawteeth on it ([`Tooth`]), each of which falls back
//! once in its period.
//!
//! Worked example, tracks of 1,000 sectors, each beginning 0.1 turn late: 1.1 turns in 1,000
//! sectors is a slope of 0.0011, and a tooth of period 1,000 and height −0.1. Sector 500 lies at
//! 0.0011 · 500 − 0.1 · (0.5 − 0.5) less the line's own 0.05 at the first sector: half a turn on.
//!
//! Cost: a look-up is a binary search and a division for each tooth. Some 200 bytes a strip.
//! Source: ours.

use headtime_units::{Angle, Lba};

use crate::angles::angle_of_turns;

/// What a strip takes of memory with its teeth, where it is and how deep.
pub(super) const STRIP_BYTES: u64 = 256;

/// A stretch of addresses on which angles are known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Strip {
    /// From this address on.
    pub(super) first: u64,
    /// Up to but not including this one.
    pub(super) end: u64,
    /// The address that positions count from.
    pub(super) origin: u64,
    /// Turns at the origin.
    pub(super) phase: f64,
    /// Turns from sector to sector, on average over the teeth.
    pub(super) slope: f64,
    pub(super) teeth: Vec<Tooth>,
    /// How far angles were off (root mean square), in turns.
    pub(super) spread: f64,
    /// By how many sights it was found.
    pub(super) sights: u64,
}

/// A sawtooth on a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tooth {
    /// Sectors from tooth to tooth.
    pub(super) period: f64,
    /// Sectors from the origin to where a tooth begins.
    pub(super) offset: f64,
    /// Turns by which it rises from its beginning to its end; negative where tracks begin late.
    pub(super) height: f64,
}

impl Tooth {
    /// −½ where it begins, ½ where it ends.
    pub(super) fn shape(&self, x: f64) -> f64 {
        let place = (x - self.offset) / self.period;
        place - libm::floor(place) - 0.5
    }
}

impl Strip {
    /// Turns at which the sector `x` sectors behind the origin begins.
    pub(super) fn turns(&self, x: f64) -> f64 {
        self.phase
            + self.slope * x
            + self.teeth.iter().map(|tooth| tooth.height * tooth.shape(x)).sum::<f64>()
    }

    /// Where `lba` is from the origin.
    pub(super) fn place(&self, lba: u64) -> f64 {
        lba.wrapping_sub(self.origin) as i64 as f64
    }

    /// Turns that one sector takes within a track.
    pub(super) fn sector(&self) -> f64 {
        (self.slope + self.teeth.iter().map(|tooth| tooth.height / tooth.period).sum::<f64>())
            .max(self.slope / 4.0)
    }
}

/// The strips of a drive, by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Strips {
    capacity: u64,
    strips: Vec<Strip>,
    /// Turns from address 0 to the beginning and to the end of each strip: what distances are
    /// measured by.
    radii: Vec<(f64, f64)>,
    whole: f64,
    /// Turns per sector where nothing is known.
    between: f64,
}

impl Strips {
    /// Takes strips that do not overlap, in any order, of a drive with `capacity` sectors.
    pub(super) fn new(mut strips: Vec<Strip>, capacity: u64) -> Self {
        strips.sort_by_key(|strip| strip.first);
        let (covered, turns) = strips.iter().fold((0.0, 0.0), |sum, strip| {
            (
                sum.0 + (strip.end - strip.first) as f64,
                sum.1 + strip.slope * (strip.end - strip.first) as f64,
            )
        });
        let between = if covered > 0.0 { turns / covered } else { 1.0 };
        let (mut at, mut whole, mut radii) = (0_u64, 0.0, Vec::new());
        for strip in &strips {
            let begins = whole + (strip.first - at) as f64 * between;
            whole = begins + (strip.end - strip.first) as f64 * strip.slope;
            radii.push((begins, whole));
            at = strip.end;
        }
        whole += capacity.saturating_sub(at) as f64 * between;
        Self { capacity, strips, radii, whole, between }
    }

    pub(super) fn strips(&self) -> &[Strip] {
        &self.strips
    }

    /// The strip that holds `lba`, if its angle is known.
    pub(super) fn of(&self, lba: Lba) -> Option<&Strip> {
        self.strips.get(self.number_of(lba)?)
    }

    /// The number of that strip.
    pub(super) fn number_of(&self, lba: Lba) -> Option<usize> {
        let behind = self.strips.partition_point(|strip| strip.first <= lba.get());
        behind.checked_sub(1).filter(|number| lba.get() < self.strips[*number].end)
    }

    /// The strips with a part of one of them unknown again.
    pub(super) fn without(&self, number: usize, first: u64, end: u64) -> Self {
        let mut strips = self.strips.clone();
        let strip = strips.remove(number);
        let part = |from: u64, to: u64| Strip {
            first: from,
            end: to,
            sights: strip.sights * (to.saturating_sub(from)) / (strip.end - strip.first),
            ..strip.clone()
        };
        strips.extend(
            [part(strip.first, first), part(end, strip.end)]
                .into_iter()
                .filter(|strip| strip.first < strip.end),
        );
        Self::new(strips, self.capacity)
    }

    /// The angle at which the sector begins.
    pub(super) fn start(&self, lba: Lba) -> Option<Angle> {
        let strip = self.of(lba)?;
        Some(angle_of_turns(strip.turns(strip.place(lba.get()))))
    }

    /// The angle at which the sector has passed.
    pub(super) fn end(&self, lba: Lba) -> Option<Angle> {
        let strip = self.of(lba)?;
        Some(angle_of_turns(strip.turns(strip.place(lba.get())) + strip.sector()))
    }

    /// Turns from the beginning of the first of so many sectors to the end of the last, as far as
    /// the strip that the first lies on goes: a read that crosses from one track to the next waits
    /// for the skew.
    pub(super) fn turns_over(&self, first: Lba, sectors: u64) -> Option<f64> {
        let strip = self.of(first)?;
        let begin = strip.place(first.get());
        let last = begin + sectors.saturating_sub(1) as f64;
        let passing = sectors as f64 * strip.sector();
        let skews = strip.turns(last) - strip.turns(begin) + strip.sector() - passing;
        // Where a track seems to begin before the one before it ended, it is there again a turn
        // later; within one turn of sectors no more than that is waited for.
        let turns_more = if passing < 1.0 {
            -libm::floor(skews + MIN_SKEW)
        } else {
            libm::ceil((-MIN_SKEW - skews).max(0.0))
        };
        Some(passing + skews + turns_more)
    }

    /// How far in on the drive the address lies, from 0 to 1, by tracks rather than by addresses:
    /// inner tracks hold fewer sectors.
    pub(super) fn depth(&self, lba: Lba, capacity: u64) -> f64 {
        let behind = self.strips.partition_point(|strip| strip.first <= lba.get());
        let turns = match behind.checked_sub(1) {
            None => lba.get() as f64 * self.between,
            Some(number) => {
                let (strip, (begins, ends)) = (&self.strips[number], self.radii[number]);
                if lba.get() < strip.end {
                    begins + (lba.get() - strip.first) as f64 * strip.slope
                } else {
                    ends + (lba.get() - strip.end) as f64 * self.between
                }
            }
        };
        if self.whole > 0.0 {
            (turns / self.whole).clamp(0.0, 1.0)
        } else {
            (lba.get() as f64 / capacity.max(1) as f64).min(1.0)
        }
    }
}

/// What a step to another track may seem to save, in turns (guess: teeth are found to within less).
const MIN_SKEW: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn strip() -> Strip {
        let tooth = Tooth { period: 1_000.0, offset: 0.0, height: -0.1 };
        Strip {
            first: 0,
            end: 10_000,
            origin: 0,
            phase: -0.05,
            slope: 0.0011,
            teeth: vec![tooth],
            spread: 0.0,
            sights: 0,
        }
    }

    #[test]
    fn the_worked_example_holds() {
        let strips = Strips::new(vec![strip()], 20_000);
        let turns = |lba| {
            strips.start(Lba::new(lba)).map(|angle| libm::round(angle.as_turns() * 1e6) / 1e6)
        };
        assert_eq!([0, 500, 999, 1_000, 2_250].map(turns), [0.0, 0.5, 0.999, 0.1, 0.45].map(Some));
        assert_eq!(turns(10_000), None, "nothing is known there");
        assert!((strips.strips()[0].sector() - 0.001).abs() < 1e-12);
        assert!(
            strips.end(Lba::new(500)).unwrap().signed_turns_from(Angle::from_turns(0.501)).abs()
                < 1e-6
        );
    }

    #[test]
    fn a_read_across_the_end_of_a_track_takes_the_skew_longer() {
        let strips = Strips::new(vec![strip()], 20_000);
        let turns = |lba, sectors| {
            libm::round(strips.turns_over(Lba::new(lba), sectors).unwrap() * 1e6) / 1e6
        };
        assert_eq!(
            [turns(100, 8), turns(992, 8), turns(996, 8), turns(1_000, 8), turns(500, 2_000)],
            [0.008, 0.008, 0.108, 0.008, 2.2]
        );
        assert_eq!(strips.turns_over(Lba::new(10_000), 8), None);
        // A tooth the other way: the next track's sectors passed already, and come again.
        let early = Strip {
            teeth: vec![Tooth { period: 1_000.0, offset: 0.0, height: 0.2 }],
            slope: 0.0008,
            ..strip()
        };
        let strips = Strips::new(vec![early], 20_000);
        assert!((strips.turns_over(Lba::new(996), 8).unwrap() - (1.008 - 0.2)).abs() < 1e-6);
    }

    #[test]
    fn depth_goes_by_tracks_where_strips_are_known_and_by_addresses_elsewhere() {
        let outer = strip();
        let inner = Strip { first: 10_000, end: 20_000, slope: 0.0022, ..strip() };
        let strips = Strips::new(vec![inner, outer], 20_000);
        assert!((strips.depth(Lba::new(10_000), 20_000) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(strips.depth(Lba::new(20_000), 20_000), 1.0);
        assert_eq!(Strips::default().depth(Lba::new(5_000), 20_000), 0.25);
    }
}
