//! [`Segments`]: the angles of sectors on the platter, as found without a profile.
//!
//! Along the addresses of one zone the angle increases by the same amount from sector to sector,
//! except at the end of a track: the next track begins somewhat later (its skew), and later again
//! where the surface or the cylinder changes. A *segment* is a range of addresses on which the
//! angle is a straight line plus a few sawtooth terms ([`SkewTerm`]), each of which falls back once
//! per period.
//!
//! Worked example, tracks of 1,000 sectors, each beginning 0.1 turn late: 1.1 turns in 1,000
//! sectors is a slope of 0.0011, with a skew term of period 1,000 and height −0.1. Sector 500 lies
//! at 0.0011 · 500 − 0.1 · (0.5 − 0.5) minus 0.05 for the phase at the first sector: at half a
//! turn.
//!
//! Cost: a lookup is a binary search and a division for each skew term. Some 200 bytes per segment.
//! Source: ours.

use headtime_units::{Angle, Lba};

use crate::angles::angle_of_turns;

/// Bytes of a segment with its skew terms, its range and its radii.
pub(super) const SEGMENT_BYTES: u64 = 256;

/// A range of addresses on which angles are known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    /// The first address.
    pub(super) first: u64,
    /// The address after the last one.
    pub(super) end: u64,
    /// The address that positions count from.
    pub(super) origin: u64,
    /// Turns at the origin.
    pub(super) phase: f64,
    /// Turns from sector to sector, on average over the skew terms.
    pub(super) slope: f64,
    pub(super) skew_terms: Vec<SkewTerm>,
    /// The root mean square error of angles, in turns.
    pub(super) spread: f64,
    /// The number of angle samples in it.
    pub(super) angle_samples: u64,
}

/// A sawtooth on a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SkewTerm {
    /// Sectors per repetition.
    pub(super) period: f64,
    /// Sectors from the origin to the beginning of a repetition.
    pub(super) offset: f64,
    /// Turns by which it rises from the beginning to the end of a repetition; negative where tracks
    /// begin late.
    pub(super) height: f64,
}

impl SkewTerm {
    /// The shape of the term: −½ at the beginning of a repetition, ½ at its end.
    pub(super) fn shape(&self, x: f64) -> f64 {
        let place = (x - self.offset) / self.period;
        place - libm::floor(place) - 0.5
    }
}

impl Segment {
    /// The angle in turns at which the sector `x` sectors after the origin begins.
    pub(super) fn turns(&self, x: f64) -> f64 {
        self.phase
            + self.slope * x
            + self
                .skew_terms
                .iter()
                .map(|skew_term| skew_term.height * skew_term.shape(x))
                .sum::<f64>()
    }

    /// The distance of `lba` from the origin in sectors.
    pub(super) fn place(&self, lba: u64) -> f64 {
        lba.wrapping_sub(self.origin) as i64 as f64
    }

    /// The angle of one sector within a track, in turns.
    pub(super) fn sector(&self) -> f64 {
        (self.slope
            + self
                .skew_terms
                .iter()
                .map(|skew_term| skew_term.height / skew_term.period)
                .sum::<f64>())
        .max(self.slope / 4.0)
    }
}

/// The segments of a drive, by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Segments {
    capacity: u64,
    segments: Vec<Segment>,
    /// Turns from address 0 to the beginning and to the end of each segment; the measure of
    /// distances.
    radii: Vec<(f64, f64)>,
    whole: f64,
    /// Turns per sector outside the segments.
    between: f64,
}

impl Segments {
    /// Creates the list from segments that do not overlap, in any order, of a drive with `capacity`
    /// sectors.
    pub(super) fn new(mut segments: Vec<Segment>, capacity: u64) -> Self {
        segments.sort_by_key(|segment| segment.first);
        let (covered, turns) = segments.iter().fold((0.0, 0.0), |sum, segment| {
            (
                sum.0 + (segment.end - segment.first) as f64,
                sum.1 + segment.slope * (segment.end - segment.first) as f64,
            )
        });
        let between = if covered > 0.0 { turns / covered } else { 1.0 };
        let (mut at, mut whole, mut radii) = (0_u64, 0.0, Vec::new());
        for segment in &segments {
            let begins = whole + (segment.first - at) as f64 * between;
            whole = begins + (segment.end - segment.first) as f64 * segment.slope;
            radii.push((begins, whole));
            at = segment.end;
        }
        whole += capacity.saturating_sub(at) as f64 * between;
        Self { capacity, segments, radii, whole, between }
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segment that contains `lba`, if there is one.
    pub(super) fn of(&self, lba: Lba) -> Option<&Segment> {
        self.segments.get(self.number_of(lba)?)
    }

    /// The number of that segment.
    pub(super) fn number_of(&self, lba: Lba) -> Option<usize> {
        let count = self.segments.partition_point(|segment| segment.first <= lba.get());
        count.checked_sub(1).filter(|number| lba.get() < self.segments[*number].end)
    }

    /// The segments without the given range of one of them.
    pub(super) fn without(&self, number: usize, first: u64, end: u64) -> Self {
        let mut segments = self.segments.clone();
        let segment = segments.remove(number);
        let part = |from: u64, to: u64| Segment {
            first: from,
            end: to,
            angle_samples: segment.angle_samples * (to.saturating_sub(from))
                / (segment.end - segment.first),
            ..segment.clone()
        };
        segments.extend(
            [part(segment.first, first), part(end, segment.end)]
                .into_iter()
                .filter(|segment| segment.first < segment.end),
        );
        Self::new(segments, self.capacity)
    }

    /// The angle at which the sector begins.
    pub(super) fn start(&self, lba: Lba) -> Option<Angle> {
        let segment = self.of(lba)?;
        Some(angle_of_turns(segment.turns(segment.place(lba.get()))))
    }

    /// The angle at which the sector has passed.
    pub(super) fn end(&self, lba: Lba) -> Option<Angle> {
        let segment = self.of(lba)?;
        Some(angle_of_turns(segment.turns(segment.place(lba.get())) + segment.sector()))
    }

    /// Turns from the beginning of the first sector to the end of the last, within the segment of
    /// the first: a read that crosses to the next track waits for the skew.
    pub(super) fn turns_over(&self, first: Lba, sectors: u64) -> Option<f64> {
        let segment = self.of(first)?;
        let begin = segment.place(first.get());
        let last = begin + sectors.saturating_sub(1) as f64;
        let passing = sectors as f64 * segment.sector();
        let skews = segment.turns(last) - segment.turns(begin) + segment.sector() - passing;
        // If a track seems to begin before the previous one ends, its beginning passes again a turn
        // later. Transfers shorter than a turn never wait longer than that.
        let turns_more = if passing < 1.0 {
            -libm::floor(skews + MIN_SKEW)
        } else {
            libm::ceil((-MIN_SKEW - skews).max(0.0))
        };
        Some(passing + skews + turns_more)
    }

    /// The radial depth of the address, from 0 (outermost) to 1, by tracks instead of addresses:
    /// inner tracks hold fewer sectors.
    pub(super) fn depth(&self, lba: Lba, capacity: u64) -> f64 {
        let count = self.segments.partition_point(|segment| segment.first <= lba.get());
        let turns = match count.checked_sub(1) {
            None => lba.get() as f64 * self.between,
            Some(number) => {
                let (segment, (begins, ends)) = (&self.segments[number], self.radii[number]);
                if lba.get() < segment.end {
                    begins + (lba.get() - segment.first) as f64 * segment.slope
                } else {
                    ends + (lba.get() - segment.end) as f64 * self.between
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

/// The maximum negative skew of a track change, in turns (guess: the error of skew terms is
/// smaller).
const MIN_SKEW: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> Segment {
        let skew_term = SkewTerm { period: 1_000.0, offset: 0.0, height: -0.1 };
        Segment {
            first: 0,
            end: 10_000,
            origin: 0,
            phase: -0.05,
            slope: 0.0011,
            skew_terms: vec![skew_term],
            spread: 0.0,
            angle_samples: 0,
        }
    }

    #[test]
    fn the_worked_example_is_reproduced() {
        let segments = Segments::new(vec![segment()], 20_000);
        let turns = |lba| {
            segments.start(Lba::new(lba)).map(|angle| libm::round(angle.as_turns() * 1e6) / 1e6)
        };
        assert_eq!([0, 500, 999, 1_000, 2_250].map(turns), [0.0, 0.5, 0.999, 0.1, 0.45].map(Some));
        assert_eq!(turns(10_000), None, "the address is outside the segments");
        assert!((segments.segments()[0].sector() - 0.001).abs() < 1e-12);
        assert!(
            segments.end(Lba::new(500)).unwrap().signed_turns_from(Angle::from_turns(0.501)).abs()
                < 1e-6
        );
    }

    #[test]
    fn a_read_across_the_end_of_a_track_waits_for_the_skew() {
        let segments = Segments::new(vec![segment()], 20_000);
        let turns = |lba, sectors| {
            libm::round(segments.turns_over(Lba::new(lba), sectors).unwrap() * 1e6) / 1e6
        };
        assert_eq!(
            [turns(100, 8), turns(992, 8), turns(996, 8), turns(1_000, 8), turns(500, 2_000)],
            [0.008, 0.008, 0.108, 0.008, 2.2]
        );
        assert_eq!(segments.turns_over(Lba::new(10_000), 8), None);
        // With a skew term of the opposite sign, the sectors of the next track have passed already
        // and are reached a turn later.
        let early = Segment {
            skew_terms: vec![SkewTerm { period: 1_000.0, offset: 0.0, height: 0.2 }],
            slope: 0.0008,
            ..segment()
        };
        let segments = Segments::new(vec![early], 20_000);
        assert!((segments.turns_over(Lba::new(996), 8).unwrap() - (1.008 - 0.2)).abs() < 1e-6);
    }

    #[test]
    fn depth_is_computed_from_tracks_within_segments_and_from_addresses_elsewhere() {
        let outer = segment();
        let inner = Segment { first: 10_000, end: 20_000, slope: 0.0022, ..segment() };
        let segments = Segments::new(vec![inner, outer], 20_000);
        assert!((segments.depth(Lba::new(10_000), 20_000) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(segments.depth(Lba::new(20_000), 20_000), 1.0);
        assert_eq!(Segments::default().depth(Lba::new(5_000), 20_000), 0.25);
    }
}
