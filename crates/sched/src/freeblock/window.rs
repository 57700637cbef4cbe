//! What passes under a head that rests on a track for a while: angles turned into runs of
//! addresses.
//!
//! A track is a circle of sectors of one angle each, the first of which starts somewhere on the
//! circle. A head that arrives at one angle and leaves a while later sees an arc. The sectors that
//! lie wholly on that arc are one run of addresses, or two where the arc goes over the end of the
//! track's addresses to their beginning: the *late* run, up to the last address, comes by first,
//! and the *early* run, from the first address on, after it.
//!
//! Worked example, 8 sectors that start at 0.0: from 0.70 on for half a turn, the arc ends at 1.20.
//! Sector 6 starts at 0.75, so 6 and 7 are the first run. At 1.0 sector 0 comes by; it ends at
//! 1.125, and sector 1 would end at 1.25. So 0 is the second run.
//!
//! Guarantees that no sector is named that does not lie on the arc, nor any twice. Some sectors at
//! either end of an arc may be left out (`edge`): where a drive has slipped or remapped sectors,
//! what a belief says is wrong by a sector or two. A margin in time does the same where the arm
//! moves.

use headtime_units::{Angle, Extent, Nanos, Sectors};

use crate::positioning::TrackSpan;

/// One turn in the units of [`TrackSpan::sector`].
const TURN: u128 = 1 << 64;

/// The runs of a track that pass within an arc, in the order in which they come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passing {
    pub(crate) first: Option<Extent>,
    pub(crate) second: Option<Extent>,
}

/// What passes within `span` when the head arrives at angle `arrival`, without `edge` sectors at
/// either end of the arc; after a turn it has all passed.
pub(crate) fn passing(
    track: &TrackSpan,
    arrival: Angle,
    span: Nanos,
    revolution: Nanos,
    edge: u64,
) -> Passing {
    let (sector, sectors) = (u128::from(track.sector.max(1)), u128::from(track.extent.len.get()));
    let edge = u128::from(edge);
    let begin = offset(track, arrival);
    let end = begin + turns(span, revolution);
    // Only whole sectors: the first that starts on the arc, and the last that ends on it.
    let from = begin.div_ceil(sector) + edge;
    let upto = (end / sector).saturating_sub(edge).min(sectors);
    let again = (end.saturating_sub(TURN) / sector)
        .saturating_sub(edge)
        .min(sectors)
        .min(begin.div_ceil(sector));
    let again = if end > TURN { again } else { 0 };
    Passing { first: run(track, from, upto), second: run(track, 0, again) }
}

/// The sectors before sector `upto` of the track that a head sees without a break from its arrival
/// until that sector begins, `span` after it, without `edge` at the beginning of the arc.
pub(crate) fn right_before(
    track: &TrackSpan,
    upto: u64,
    span: Nanos,
    revolution: Nanos,
    edge: u64,
) -> Option<Extent> {
    let seen = turns(span, revolution) / u128::from(track.sector.max(1));
    let from = u128::from(upto).saturating_sub(seen.saturating_sub(u128::from(edge)));
    run(track, from, u128::from(upto))
}

/// How many sectors of the track pass within `span` at most.
pub(crate) fn most(track: &TrackSpan, span: Nanos, revolution: Nanos) -> u64 {
    let seen = turns(span, revolution) / u128::from(track.sector.max(1));
    seen.min(u128::from(track.extent.len.get())) as u64
}

/// How far the start of the track's addresses lies behind `angle`, against the direction in which
/// sectors come by.
fn offset(track: &TrackSpan, angle: Angle) -> u128 {
    u128::from(track.start.angle.until(angle).as_raw()) << 32
}

/// The part of a turn that passes within `span`, one turn at most.
fn turns(span: Nanos, revolution: Nanos) -> u128 {
    let (span, revolution) =
        (u128::from(span.min(revolution).as_ns()), u128::from(revolution.as_ns().max(1)));
    span * TURN / revolution
}

fn run(track: &TrackSpan, from: u128, upto: u128) -> Option<Extent> {
    let start =
        track.extent.start + Sectors::new(from.min(u128::from(track.extent.len.get())) as u64);
    (from < upto).then(|| Extent::new(start, Sectors::new((upto - from) as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::positioning::Position;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const REVOLUTION: Nanos = Nanos::from_ms(8);

    fn track(start: Angle, sectors: u64, sector: u64) -> TrackSpan {
        TrackSpan {
            extent: Extent::from_numbers(1_000, sectors),
            start: Position { angle: start, ..Position::default() },
            sector,
        }
    }

    #[test]
    fn an_arc_over_the_end_of_the_addresses_is_two_runs() {
        let track = track(Angle::ZERO, 8, 1 << 61);
        let seen = passing(&track, Angle::from_turns(0.70), REVOLUTION / 2, REVOLUTION, 0);
        assert_eq!(
            seen,
            Passing {
                first: Some(Extent::from_numbers(1_006, 2)),
                second: Some(Extent::from_numbers(1_000, 1))
            }
        );
        let seen = passing(&track, Angle::from_turns(0.30), REVOLUTION, REVOLUTION, 0);
        assert_eq!(
            seen,
            Passing {
                first: Some(Extent::from_numbers(1_003, 5)),
                second: Some(Extent::from_numbers(1_000, 2))
            }
        );
        let seen = passing(&track, Angle::from_turns(0.30), REVOLUTION, REVOLUTION, 1);
        assert_eq!(
            seen,
            Passing {
                first: Some(Extent::from_numbers(1_004, 4)),
                second: Some(Extent::from_numbers(1_000, 1))
            }
        );
        assert_eq!(
            right_before(&track, 5, REVOLUTION / 4, REVOLUTION, 0),
            Some(Extent::from_numbers(1_003, 2))
        );
        assert_eq!(
            right_before(&track, 1, REVOLUTION / 2, REVOLUTION, 0),
            Some(Extent::from_numbers(1_000, 1))
        );
    }

    proptest! {
        /// Sector by sector: what starts so far behind the arrival that it ends before the head
        /// leaves.
        #[test]
        fn what_passes_is_what_a_look_at_every_sector_finds(
            start in any::<u32>(),
            arrival in any::<u32>(),
            sectors in 1_u64..60,
            loose in 0_u64..1 << 40,
            span in 0_u64..9_000_000,
        ) {
            let sector = (u64::MAX / sectors).saturating_sub(loose << 10).max(1);
            let track = track(Angle::from_raw(start), sectors, sector);
            let seen = passing(&track, Angle::from_raw(arrival), Nanos::from_ns(span), REVOLUTION, 0);
            let arc = turns(Nanos::from_ns(span), REVOLUTION);
            let mut expected: Vec<(u128, u64)> = Vec::new();
            for number in 0..sectors {
                let at = u128::from(track.start.angle.as_raw()) << 32;
                let starts = (at + u128::from(number) * u128::from(sector)) % TURN;
                let after = (starts + TURN - (u128::from(arrival) << 32)) % TURN;
                if after + u128::from(sector) <= arc {
                    expected.push((after, 1_000 + number));
                }
            }
            expected.sort_unstable();
            let runs = [seen.first, seen.second];
            let found: Vec<u64> = runs.iter().flatten().flat_map(|run| run.start.get()..run.end().get()).collect();
            let expected: Vec<u64> = expected.into_iter().map(|(_, lba)| lba).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
