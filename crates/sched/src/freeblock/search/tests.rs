use super::*;
use crate::background::{ScanId, ScanOptions};
use crate::freeblock::scans::Scans;
use crate::freeblock::{PendingSectors, Scan};
use crate::positioning::{Estimate, Likely, passes_at_by_tracks};
use headtime_units::Angle;
use proptest::prelude::*;

const TURN: Nanos = Nanos::from_ms(6);
const OVERHEAD: Nanos = Nanos::from_us(150);

/// A drive of exact mechanics, on which every track starts anywhere.
#[derive(Clone, Debug)]
struct Toy {
    cylinders: u32,
    heads: u16,
    sectors: u64,
    displaced: u64,
}

impl Toy {
    fn tracks(&self) -> u64 {
        u64::from(self.cylinders) * u64::from(self.heads)
    }

    fn place(&self, track: u64, sector: u64) -> Position {
        // Scattered over the circle; the same for the same track.
        let start = Angle::from_raw((track as u32).wrapping_mul(0x9E37_79B9));
        let angle =
            start + Angle::from_raw(((u128::from(self.pitch()) * u128::from(sector)) >> 32) as u32);
        Position {
            cylinder: (track / u64::from(self.heads)) as u32,
            head: (track % u64::from(self.heads)) as u16,
            angle,
        }
    }

    fn pitch(&self) -> u64 {
        u64::MAX / self.sectors
    }

    fn track(&self, track: u64) -> TrackSpan {
        TrackSpan {
            extent: Extent::from_numbers(track * self.sectors, self.sectors),
            start: self.place(track, 0),
            sector: self.pitch(),
        }
    }

    fn at(at: Instant) -> Angle {
        Angle::from_fraction(at.as_ns() % TURN.as_ns(), TURN.as_ns())
    }
}

impl TrackMap for Toy {
    fn addresses(&self) -> Extent {
        Extent::new(Lba::new(0), self.capacity())
    }

    fn cylinders(&self) -> u32 {
        self.cylinders
    }

    fn heads(&self) -> u16 {
        self.heads
    }

    fn displaced(&self, _: &TrackSpan) -> u64 {
        self.displaced
    }

    fn track_at(&self, cylinder: u32, head: u16) -> Option<TrackSpan> {
        Some(self.track(u64::from(cylinder) * u64::from(self.heads) + u64::from(head)))
    }

    fn track_of(&self, lba: Lba) -> TrackSpan {
        self.track(lba.get() / self.sectors)
    }

    fn arm_time(&self, from: Position, to: Position) -> Nanos {
        let switch = if from.head == to.head { Nanos::ZERO } else { Nanos::from_us(400) };
        self.seek_lower_bound(from.cylinder.abs_diff(to.cylinder)).max(switch)
    }

    fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        self.seek_lower_bound(cylinders)
    }

    fn angle_at(&self, at: Instant) -> Option<Angle> {
        Some(Self::at(at))
    }

    fn time_of(&self, angle: Angle) -> Nanos {
        Nanos::from_ns((u64::from(angle.as_raw()) * TURN.as_ns()) >> 32)
    }

    fn spread(&self) -> Nanos {
        Nanos::ZERO
    }

    fn read_overhead(&self) -> Nanos {
        OVERHEAD
    }

    fn write_extra(&self) -> Nanos {
        Nanos::ZERO
    }

    fn may_destage(&self) -> bool {
        false
    }
}

impl Positioning for Toy {
    fn capacity(&self) -> Sectors {
        Sectors::new(self.tracks() * self.sectors)
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let place = |lba: u64| self.place(lba / self.sectors, lba % self.sectors);
        let mut end = place(extent.last().get());
        end.angle += Angle::from_raw((self.pitch() >> 32) as u32);
        let transfer = Nanos::from_ns(TURN.as_ns() * extent.len.get() / self.sectors);
        Target { op, extent, start: place(extent.start.get()), end, transfer }
    }

    fn estimate(&self, _head: &Head, _dispatch: Instant, _target: &Target) -> Estimate {
        unreachable!("the search asks for what is likely")
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        let depart = (dispatch + OVERHEAD).max(head.free_at);
        let arrival = depart + self.arm_time(head.place, target.start);
        let wait = self.time_of(Self::at(arrival).until(target.start.angle));
        Likely { depart, positioning: (arrival + wait).saturating_since(depart) }
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        if cylinders == 0 { Nanos::ZERO } else { Nanos::from_us(600 + 20 * u64::from(cylinders)) }
    }

    fn revolution(&self) -> Nanos {
        TURN
    }

    fn media_end(&self, _target: &Target, finished: Instant) -> Instant {
        finished
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
    }

    crate::costs_by_estimate!();

    crate::without_cache!();

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

fn scans(toy: &Toy, pending: &[bool], grain: u64) -> Scans {
    let mut bitmap = PendingSectors::new(toy.capacity(), Sectors::new(grain));
    for sector in
        (0..toy.capacity().get()).filter(|sector| pending[*sector as usize % pending.len()])
    {
        bitmap.insert(Extent::from_numbers(sector, 1));
    }
    let mut scans = Scans::default();
    scans.start(Scan {
        id: ScanId(0),
        whole: bitmap.remaining(),
        pending: bitmap,
        options: ScanOptions::default(),
    });
    scans
}

/// The value of a single visit; the passing sectors are tested one by one below.
fn value(gap: &Gap<'_>, toy: &Toy, track: &TrackSpan) -> u64 {
    let Some((arrive, span)) = gap.rest(track) else { return 0 };
    let seen = gap.seen(track, arrive, span).expect("the angle is known");
    let pending = |run: Option<Extent>| run.map_or(0, |run| gap.scans.count_in(run));
    let lasts = seen.first.is_some_and(|run| TURN * run.len.get() / toy.sectors > OVERHEAD * 2);
    let taken = if lasts {
        pending(seen.first) + pending(seen.second)
    } else {
        pending(seen.first).max(pending(seen.second))
    };
    // Leftovers, up to a third of a track, count as a loss.
    let left = gap.scans.count_in(track.extent);
    let lost = (left - taken).min(toy.sectors / 3) * LEFTOVER;
    ((taken + left.min(toy.sectors / 3) * LEFTOVER - lost) << 16) / toy.sectors
}

proptest! {
    #[test]
    fn with_looks_enough_it_finds_what_a_look_at_every_track_finds(
        (cylinders, heads, sectors) in (1_u32..30, 1_u16..4, 4_u64..40),
        pending in proptest::collection::vec(prop::bool::weighted(0.4), 1..200),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
        start_ns in 0_u64..20_000_000,
        conservatism_us in 0_u64..300,
    ) {
        let toy = Toy { cylinders, heads, sectors, displaced: 0 };
        let scans = scans(&toy, &pending, 1);
        let places = toy.capacity().get() as usize;
        let one = |lba: usize| toy.target(Op::Read, Extent::from_numbers(lba as u64, 1));
        let (a, next) = (one(a.index(places)), one(b.index(places)));
        let head = Head::after(&a, Instant::from_ns(start_ns));
        let now = Instant::from_ns(start_ns.saturating_sub(1_000_000));
        let likely = toy.likely(&head, now, &next);
        let rules = Rules {
            conservatism: Nanos::from_us(conservatism_us),
            follow: Nanos::from_us(10),
            edge: 0,
            several_per_track: true,
            after: true,
            merge: false,
            alone: true,
        };
        let ready = head.free_at.max(now + OVERHEAD);
        let gap = Gap {
            map: &toy,
            belief: &toy,
            scans: scans.reading(),
            rules,
            now,
            head,
            ready,
            next_sent: now,
            next: &next,
            begin: likely.depart + likely.positioning,
        };
        let found = search(&gap, u32::MAX, &mut SearchCounts::default());
        let best =
            (0..toy.tracks()).map(|track| value(&gap, &toy, &toy.track(track))).max().unwrap_or(0);
        prop_assert_eq!(found.map_or(0, |piece| piece.worth), best);
        // Few visits find no more, and never a piece that does not fit.
        for effort in [1, 4, 16] {
            let mut counts = SearchCounts::default();
            let piece = search(&gap, effort, &mut counts);
            prop_assert!(
                counts.tracks <= u64::from(effort) && piece.is_none_or(|piece| piece.worth <= best)
            );
        }
    }

    /// A merged piece ends where the request begins, and the request ends as without it.
    #[test]
    fn what_is_merged_abuts_the_request_and_does_not_delay_it(
        sectors in 8_u64..40,
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
        start_ns in 0_u64..20_000_000,
    ) {
        let toy = Toy { cylinders: 6, heads: 2, sectors, displaced: 0 };
        let scans = scans(&toy, &[true], 1);
        let places = toy.capacity().get() as usize;
        let one = |lba: usize| toy.target(Op::Read, Extent::from_numbers(lba as u64, 1));
        let (a, next) = (one(a.index(places)), one(b.index(places)));
        let head = Head::after(&a, Instant::from_ns(start_ns));
        let now = Instant::from_ns(start_ns);
        let likely = toy.likely(&head, now, &next);
        let begin = likely.depart + likely.positioning;
        let rules = Rules {
            conservatism: Nanos::from_us(50),
            follow: Nanos::ZERO,
            edge: 1,
            several_per_track: false,
            after: false,
            merge: true,
            alone: false,
        };
        let gap = Gap {
            map: &toy,
            belief: &toy,
            scans: scans.reading(),
            rules,
            now,
            head,
            ready: now + OVERHEAD,
            next_sent: now,
            next: &next,
            begin,
        };
        if let Some(piece) = search(&gap, 8, &mut SearchCounts::default()) {
            prop_assert!(piece.merged && piece.extent.end() == next.extent.start);
            prop_assert_eq!(piece.extent.start.get() / sectors, next.extent.start.get() / sectors);
            let together = toy.target(
                Op::Read,
                Extent::new(piece.extent.start, piece.extent.len + next.extent.len),
            );
            let likely = toy.likely(&head, now, &together);
            let late = (likely.depart + likely.positioning + together.transfer)
                .signed_since(begin + next.transfer);
            prop_assert!(late.abs() < 50, "{} ns late", late);
        }
    }
}

/// For every end of A within a revolution.
#[test]
fn displaced_ends_of_tracks_are_read_if_there_is_time_to_go_there() {
    let toy = Toy { cylinders: 8, heads: 2, sectors: 40, displaced: 2 };
    let scans = scans(&toy, &[true], 1);
    let one = |lba: u64| toy.target(Op::Read, Extent::from_numbers(lba, 1));
    let (a, next) = (one(100), one(330));
    let (mut read, mut left) = (0, 0);
    for start_us in (0..12_000).step_by(50) {
        let head = Head::after(&a, Instant::from_ns(start_us * 1_000));
        let likely = toy.likely(&head, head.free_at, &next);
        let begin = likely.depart + likely.positioning;
        let rules = Rules {
            conservatism: Nanos::ZERO,
            follow: Nanos::ZERO,
            edge: 2,
            several_per_track: true,
            after: true,
            merge: false,
            alone: true,
        };
        let ready = head.free_at + OVERHEAD;
        let gap = Gap {
            map: &toy,
            belief: &toy,
            scans: scans.reading(),
            rules,
            now: head.free_at,
            head,
            ready,
            next_sent: head.free_at,
            next: &next,
            begin,
        };
        let Some(piece) = search(&gap, u32::MAX, &mut SearchCounts::default()) else {
            continue;
        };
        let track = toy.track_of(piece.extent.start).extent;
        let at_start = piece.extent.start.get() < track.start.get() + 2;
        let at_end = piece.extent.end().get() > track.end().get() - 2;
        if !at_start && !at_end {
            let touches = piece.extent.start.get() == track.start.get() + 2
                || piece.extent.end().get() == track.end().get() - 2;
            left += u64::from(touches);
            continue;
        }
        read += 1;
        let from = piece.extent.start.get() - if at_start { 2 } else { 0 };
        let upto = piece.extent.end().get() + if at_end { 2 } else { 0 };
        let around = toy.target(Op::Read, Extent::from_numbers(from, upto - from));
        let first = toy.likely(&head, head.free_at, &around);
        let after = toy.likely(
            &Head::after(&around, first.depart + first.positioning + around.transfer),
            head.free_at,
            &next,
        );
        assert!(
            after.depart + after.positioning <= begin + TURN / 16,
            "{piece:?} after {start_us} us"
        );
    }
    assert!(read > 0 && left > 0, "{read} read, {left} left");
}

#[test]
fn leftovers_are_read_before_other_tracks_are_begun_and_short_tracks_count_as_long_ones_do() {
    let track = |sectors| TrackSpan {
        extent: Extent::from_numbers(0, sectors),
        start: Position::default(),
        sector: u64::MAX / sectors,
    };
    let worth = |sectors, left, taken| Gap::worth(&track(sectors), left, taken);
    assert!(
        worth(300, 100, 100) > worth(300, 300, 130),
        "the last third of a track rather than four tenths of a whole one"
    );
    assert!(
        worth(300, 150, 40) < worth(300, 300, 60),
        "but no small part of what is left for one that is larger by half"
    );
    assert_eq!(worth(200, 200, 60), worth(300, 300, 90));
    assert!(
        worth(300, 0, 0) == 0
            && (1..=300).all(|taken| worth(300, 300, taken) > worth(300, 300, taken - 1))
    );
}

#[test]
fn with_read_ahead_nothing_is_read_apart_on_the_tracks_of_the_two_requests() {
    let toy = Toy { cylinders: 1, heads: 2, sectors: 40, displaced: 0 };
    let scans = scans(&toy, &[true], 1);
    let one = |lba: u64| toy.target(Op::Read, Extent::from_numbers(lba, 1));
    let (a, next) = (one(3), one(60));
    let head = Head::after(&a, Instant::ORIGIN);
    let begin = Instant::ORIGIN + TURN;
    for (several_per_track, merge) in [(false, false), (true, false), (false, true)] {
        let rules = Rules {
            conservatism: Nanos::ZERO,
            follow: Nanos::ZERO,
            edge: 0,
            several_per_track,
            after: true,
            merge,
            alone: true,
        };
        let now = Instant::ORIGIN;
        let gap = Gap {
            map: &toy,
            belief: &toy,
            scans: scans.reading(),
            rules,
            now,
            head,
            ready: now + OVERHEAD,
            next_sent: now,
            next: &next,
            begin,
        };
        let mut search = Search {
            gap: &gap,
            revolution: TURN,
            best: None,
            left: u32::MAX,
            counts: &mut SearchCounts::default(),
            rejected: None,
        };
        search.run();
        assert_eq!(
            search.best.map(|piece| piece.merged),
            if several_per_track || merge { Some(merge) } else { None }
        );
    }
}

mod passing {
    use super::super::*;
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
        /// Sector by sector: those that end before the head leaves.
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
            let seen =
                passing(&track, Angle::from_raw(arrival), Nanos::from_ns(span), REVOLUTION, 0);
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
            let found: Vec<u64> =
                runs.iter().flatten().flat_map(|run| run.start.get()..run.end().get()).collect();
            let expected: Vec<u64> = expected.into_iter().map(|(_, lba)| lba).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
