//! Overheads, the bus, and when reads and writes complete.

use headtime_mechanics::{Bus, Direction, InterfaceTimes, catalog};
use headtime_units::{Instant, Nanos, Sectors};
use proptest::prelude::*;

fn at(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

fn times(name: &str) -> InterfaceTimes {
    InterfaceTimes::from_profile(&catalog::load(name).expect("a shipped profile is valid"))
        .expect("it is valid")
}

#[test]
fn overheads_follow_the_direction_and_the_one_before() {
    use Direction::{Read, Write};
    let recorded = times("atlas10k@recorded");
    for (op, before, ns) in [
        (Read, None, 0),
        (Read, Some(Write), 0),
        (Write, None, 344_920),
        (Write, Some(Read), 344_920),
        (Write, Some(Write), 496_730),
    ] {
        assert_eq!(
            recorded.command_overhead(op, before),
            Nanos::from_ns(ns),
            "{op:?} after {before:?}"
        );
    }
}

#[test]
fn on_a_fast_bus_only_the_last_sector_crosses_after_the_media() {
    // 80 MB/s: 6.4 us per sector; the media of the Atlas 10K take 17.9 us.
    let times = times("atlas10k");
    assert_eq!(times.bus_time(Sectors::new(8)), Nanos::from_ns(51_200));
    let completed = times.read_completed(at(1_018), at(1_143), Sectors::new(8), Instant::ORIGIN);
    assert_eq!(completed, at(1_143) + Nanos::from_ns(6_400));
    assert_eq!(times.media_end(Direction::Read, Sectors::new(8), completed), at(1_143));
}

#[test]
fn on_a_slow_bus_the_transfer_starts_with_the_first_sector_and_outlasts_the_media() {
    let times = times("atlas10k@recorded");
    let completed = times.read_completed(at(1_018), at(1_143), Sectors::new(8), Instant::ORIGIN);
    assert!(completed.signed_since(at(1_018 + 8 * 99)).abs() < 10, "{completed}");
    // A write needs enough data that the media never wait: 8 × 99 us minus 7 × 17.9 us.
    let start = times.write_media_start(at(0), Sectors::new(8), Nanos::from_ns(17_900));
    assert!(start.signed_since(Instant::from_ns(8 * 99_000 - 7 * 17_900)).abs() < 10, "{start}");
}

#[test]
fn a_read_waits_for_the_bus_as_long_as_another_has_it() {
    let times = times("atlas10k");
    let completed = times.read_completed(at(1_018), at(1_143), Sectors::new(8), at(2_000));
    assert_eq!(completed, at(2_000) + Nanos::from_ns(51_200));
}

#[test]
fn a_write_takes_the_room_before_a_burst_that_is_still_to_come() {
    let mut bus = Bus::new();
    assert_eq!(bus.reserve(at(0), at(1_000), Nanos::from_us(50)), at(1_000));
    assert_eq!(bus.reserve(at(0), at(100), Nanos::from_us(900)), at(100), "900 us fit before it");
    assert_eq!(bus.reserve(at(0), at(100), Nanos::from_us(1)), at(1_050), "and nothing more does");
}

proptest! {
    #[test]
    fn bursts_never_overlap_and_take_the_first_gap(
        requested in proptest::collection::vec((0_u64..40, 0_u64..400, 1_u64..60), 1..40),
    ) {
        let mut bus = Bus::new();
        let mut now = 0;
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (step, ahead, duration) in requested {
            now += step;
            let earliest = now + ahead;
            let ns = Instant::from_ns;
            let start = bus.reserve(ns(now), ns(earliest), Nanos::from_ns(duration)).as_ns();
            let free = |start: u64| {
                taken.iter().all(|(from, to)| start + duration <= *from || *to <= start)
            };
            prop_assert_eq!(Some(start), (earliest..).find(|start| free(*start)));
            taken.push((start, start + duration));
        }
    }

    #[test]
    fn a_read_completes_no_earlier_than_media_bus_and_overhead_allow(
        first in 0_u64..10_000,
        media in 0_u64..10_000,
        sectors in 1_u64..500,
        free in 0_u64..20_000,
    ) {
        for times in ["atlas10k", "atlas10k@recorded", "nearline-20tb"].map(times) {
            let (first, end, sectors) = (at(first), at(first + media), Sectors::new(sectors));
            let one = times.bus_time(Sectors::new(1));
            let all = times.bus_time(sectors);
            let crossed = (end + one).max(first + all).max(at(free) + all);
            let expected = crossed + times.completion_overhead();
            let completed = times.read_completed(first, end, sectors, at(free));
            prop_assert!(completed.signed_since(expected).abs() <= 1, "{} {}", completed, expected);
        }
    }
}
