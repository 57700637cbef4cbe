//! Choosing, shifting and stretching records; mapping their addresses onto a drive.

use std::sync::Arc;

use headtime_units::{Extent, Instant, Nanos, SectorSize, Sectors};
use headtime_workload::Operation::{Discard, Flush, Read, Write};
use headtime_workload::trace::{
    Adjust, Adjusted, Counts, PlaceError, Placement, Placing, Remap, Survey, TimeScale, TraceRecord,
};
use proptest::prelude::*;

use crate::samples::record;

/// Times in seconds and places of what is left of reads at these seconds, by devices 0 and 1 in
/// turn.
fn adjusted(seconds: &[u64], adjust: Adjust) -> (Vec<(f64, u64)>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let records: Vec<TraceRecord> = (1..)
        .zip(seconds)
        .map(|(place, at)| record(place, at * 1_000_000_000, (place % 2) as u32, Read, 0, 512))
        .collect();
    let left = Adjusted::new(records.into_iter(), adjust, Arc::clone(&counts))
        .map(|record| (record.at.as_secs_f64(), record.place))
        .collect();
    (left, counts)
}

#[test]
fn a_trace_is_cut_shifted_and_stretched() {
    let seconds = [10, 12, 15, 17];
    let all = |adjust| adjusted(&seconds, adjust).0;
    let secs = Nanos::from_secs;
    assert_eq!(all(Adjust::default()), [(0.0, 1), (2.0, 2), (5.0, 3), (7.0, 4)]);
    let half = TimeScale::from_millionths(500_000);
    assert_eq!(
        all(Adjust { from: secs(1), scale: half, ..Adjust::default() }),
        [(0.0, 2), (1.5, 3), (2.5, 4)]
    );
    assert_eq!(
        all(Adjust { from: secs(2), until: Some(secs(7)), ..Adjust::default() }),
        [(0.0, 2), (3.0, 3)]
    );
    assert_eq!(all(Adjust { skip: 1, take: Some(2), ..Adjust::default() }), [(0.0, 2), (3.0, 3)]);
    assert_eq!(all(Adjust { devices: vec![0], ..Adjust::default() }), [(0.0, 2), (5.0, 4)]);
    assert_eq!(all(Adjust { devices: vec![1], skip: 1, ..Adjust::default() }), [(0.0, 3)]);
    assert_eq!(all(Adjust { processes: vec![5], ..Adjust::default() }), []);
}

#[test]
fn a_cut_is_counted_from_the_earliest_record_even_where_it_stands_second() {
    let (left, counts) = adjusted(
        &[12, 10, 15, 17],
        Adjust { until: Some(Nanos::from_secs(5)), ..Adjust::default() },
    );
    assert_eq!(left, [(0.0, 2), (2.0, 1)]);
    assert_eq!((counts.read.get(), counts.not_chosen.get(), counts.clamped.get()), (3, 1, 0));
    let (left, counts) = adjusted(&[12, 15, 17, 10], Adjust { window: 1, ..Adjust::default() });
    assert_eq!(left, [(0.0, 1), (3.0, 2), (3.0, 4), (5.0, 3)]);
    assert_eq!(counts.clamped.get(), 1);
}

#[test]
fn stretching_reaches_the_end_of_time_and_no_further() {
    let max = TimeScale::from_millionths(u64::MAX);
    assert_eq!(max.stretch(Nanos::MAX), Nanos::MAX);
    assert_eq!(TimeScale::ONE.stretch(Nanos::MAX), Nanos::MAX);
    assert_eq!(TimeScale::from_millionths(1).stretch(Nanos::from_secs(1)), Nanos::from_us(1));
}

fn read(device: u32, offset_bytes: u64, len_bytes: u64) -> TraceRecord {
    record(1, 0, device, Read, offset_bytes, len_bytes)
}

fn surveyed(remap: Remap, records: &[TraceRecord]) -> Survey {
    let mut survey = remap.survey();
    records.iter().try_for_each(|record| survey.add(record)).expect("there are few devices");
    survey
}

fn placement(
    remap: Remap,
    sector: SectorSize,
    capacity: u64,
    records: &[TraceRecord],
) -> Placement {
    Placement::new(remap, sector, Sectors::new(capacity), Some(&surveyed(remap, records)))
        .expect("it fits")
}

#[test]
fn requests_are_widened_to_whole_sectors_of_either_size() {
    for (sector, offset, len, expected) in [
        (SectorSize::B512, 512, 1024, (1, 2)),
        (SectorSize::B512, 511, 2, (0, 2)),
        (SectorSize::B512, 1000, 1, (1, 1)),
        (SectorSize::B4096, 512, 1024, (0, 1)),
        (SectorSize::B4096, 4096, 8192, (1, 2)),
        (SectorSize::B4096, 3584, 4096, (0, 2)),
    ] {
        let placed = placement(Remap::None, sector, 1000, &[]).place(&read(0, offset, len));
        assert_eq!(
            placed,
            Ok((Extent::from_numbers(expected.0, expected.1), false)),
            "{len} bytes from {offset} in {sector:?}"
        );
    }
}

#[test]
fn addresses_that_stay_are_refused_past_the_end_or_left_out() {
    let records = [
        read(0, 0, 512),
        TraceRecord { place: 7, ..read(0, 512 * 999, 1024) },
        record(3, 0, 0, Flush, 0, 0),
        read(0, 0, 0),
        read(0, 1, 1),
    ];
    let place = |drop_misfits| {
        let counts = Arc::new(Counts::default());
        let placing = Placing::new(
            records.into_iter(),
            placement(Remap::None, SectorSize::B512, 1000, &[]),
            drop_misfits,
            Arc::clone(&counts),
        );
        (placing.map(|placed| placed.extent).collect::<Vec<_>>(), counts)
    };
    let (extents, counts) = place(true);
    assert_eq!(
        extents,
        [Extent::from_numbers(0, 1), Extent::from_numbers(0, 0), Extent::from_numbers(0, 1)]
    );
    assert_eq!(
        (counts.dropped.get(), counts.empty.get(), counts.widened.get(), counts.refused()),
        (1, 1, 1, None)
    );
    let (extents, counts) = place(false);
    assert_eq!(extents, [Extent::from_numbers(0, 1)]);
    let misfit = counts.refused().expect("the second does not fit");
    assert_eq!(
        (misfit.place, misfit.offset_bytes, misfit.len_bytes, misfit.capacity_bytes),
        (7, 511_488, 1024, 512_000)
    );
    assert!(
        misfit.to_string().starts_with(
            "the request of line or record 7 is for 1024 bytes from \
            511488, but the drive ends at 512000; "
        ),
        "{misfit}"
    );
}

#[test]
fn wrapped_addresses_are_taken_modulo_the_drive() {
    let placement = placement(Remap::Wrap, SectorSize::B512, 1000, &[]);
    for (offset, len, expected, clipped) in [
        (512_000, 512, (0, 1), false),
        (512_000 * 7 + 512 * 5, 1024, (5, 2), false),
        // Over the end: moved back. Larger than the drive: shortened.
        (512 * 999, 1024, (998, 2), true),
        (1_000_000_000, 1 << 40, (0, 1000), true),
    ] {
        assert_eq!(
            placement.place(&read(0, offset, len)),
            Ok((Extent::from_numbers(expected.0, expected.1), clipped)),
            "{len} bytes from {offset}"
        );
    }
}

#[test]
fn scaled_addresses_are_spread_in_pieces_that_stay_whole() {
    const MIB: u64 = 1 << 20;
    // The example of the module: 1 GiB on 10 GB, a piece of 1 MiB every 9,765,625 bytes.
    let scaled =
        placement(Remap::Scale, SectorSize::B512, 10_000_000_000 / 512, &[read(0, 0, 1 << 30)]);
    let at = |device, offset| {
        scaled.place(&read(device, offset, 4096)).map(|(extent, _)| extent.start.get() * 512)
    };
    assert_eq!(at(0, 0), Ok(0));
    assert_eq!(at(0, MIB + 8192), Ok(9_773_056));
    // Devices follow each other, and one that is not in the survey has no address.
    let two = [read(3, 0, 512 * MIB), read(9, 0, 512 * MIB)];
    let scaled = placement(Remap::Scale, SectorSize::B512, 10_000_000_000 / 512, &two);
    assert_eq!(
        scaled.place(&read(9, 0, 512)).map(|(extent, _)| extent.start.get() * 512),
        Ok(5_000_000_000 / 4096 * 4096)
    );
    assert!(scaled.place(&read(4, 0, 512)).is_err());
}

#[test]
fn packed_addresses_keep_what_is_touched_in_order_and_whole() {
    const MIB: u64 = 1 << 20;
    let discard = record(1, 0, 0, Discard, 0, 1 << 43);
    let trace = [
        read(1, 5 * MIB, 512),
        read(0, 100 * MIB + 7 * 512, MIB),
        record(1, 0, 0, Write, 3 * MIB, 512),
        discard,
    ];
    let packed = placement(Remap::Compact, SectorSize::B512, 4 * MIB / 512, &trace);
    let at =
        |record: &TraceRecord| packed.place(record).map(|(extent, _)| extent.start.get() * 512);
    // Device 0: pieces 3, 100, 101; device 1: piece 5.
    assert_eq!(at(&trace[2]), Ok(0));
    assert_eq!(at(&trace[1]), Ok(MIB + 7 * 512));
    assert_eq!(at(&trace[0]), Ok(3 * MIB));
    assert!(at(&discard).is_err(), "it begins where nothing is read or written");
    let refused = Placement::new(
        Remap::Compact,
        SectorSize::B512,
        Sectors::new(4 * MIB / 512 - 1),
        Some(&surveyed(Remap::Compact, &trace)),
    );
    assert_eq!(
        refused.err(),
        Some(PlaceError::Touched {
            touched_bytes: 4 * MIB,
            piece_bytes: MIB,
            capacity_bytes: 4 * MIB - 512
        })
    );
}

#[test]
fn pieces_grow_until_a_trace_that_touches_everything_can_be_remembered() {
    let mut one_request = Survey::new(true);
    one_request.add(&read(0, 0, u64::MAX)).expect("one device");
    let (pieces, bits) = one_request.pieces().expect("pieces were requested");
    assert_eq!((pieces.len(), bits), (1 << 12, 52));
    let mut survey = Survey::new(true);
    for device in 0..1000 {
        for piece in 0..600 {
            survey.add(&read(device, piece << 20, 512)).expect("a thousand devices");
        }
    }
    let (pieces, bits) = survey.pieces().expect("pieces were requested");
    assert_eq!((pieces.len(), bits), (150_000, 22), "600 pieces of 1 MiB of each are 150 of 4 MiB");
}

#[test]
fn mappings_that_cannot_be_are_refused() {
    let none = |remap| Placement::new(remap, SectorSize::B512, Sectors::new(8), None).err();
    assert_eq!(
        (none(Remap::Scale), none(Remap::Compact)),
        (Some(PlaceError::NotSurveyed), Some(PlaceError::NotSurveyed))
    );
    assert_eq!((none(Remap::None), none(Remap::Wrap)), (None, None));
    assert_eq!(
        Placement::new(Remap::Wrap, SectorSize::B512, Sectors::new(0), None).err(),
        Some(PlaceError::NoSectors)
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_placed_lies_on_the_drive_and_keeps_its_length_and_alignment(
        requests in prop::collection::vec(
            (
                0_u32..3,
                prop_oneof![0_u64..1 << 22, 0_u64..1 << 44, any::<u64>()],
                prop_oneof![1_u64..1 << 18, any::<u64>()],
            ),
            1..30,
        ),
        capacity in prop_oneof![1_u64..100, 1_u64..1 << 32],
        sector in prop_oneof![Just(SectorSize::B512), Just(SectorSize::B4096)],
    ) {
        let records: Vec<TraceRecord> = requests
            .iter()
            .map(|(device, offset, len)| read(*device, *offset, (*len).min(u64::MAX - offset)))
            .collect();
        for remap in [Remap::None, Remap::Wrap, Remap::Scale, Remap::Compact] {
            let Ok(placement) = Placement::new(
                remap,
                sector,
                Sectors::new(capacity),
                Some(&surveyed(remap, &records)),
            ) else {
                prop_assert_eq!(remap, Remap::Compact, "only what is packed may be too much");
                continue;
            };
            for record in records.iter().filter(|record| record.len_bytes > 0) {
                let Ok((extent, clipped)) = placement.place(record) else {
                    prop_assert_eq!(remap, Remap::None, "what was surveyed has a place");
                    continue;
                };
                prop_assert!(
                    extent.end().get() <= capacity && !extent.len.is_zero(),
                    "{:?} {:?} at {:?}",
                    remap,
                    record,
                    extent
                );
                if !clipped && record.offset_bytes % 4096 == 0 {
                    prop_assert_eq!(
                        sector.offset_of(extent.start) % 4096,
                        0,
                        "{:?} {:?} at \
                        {:?}",
                        remap,
                        record,
                        extent
                    );
                    prop_assert_eq!(
                        sector.bytes_of(extent.len),
                        record.len_bytes.div_ceil(u64::from(sector.bytes()))
                            * u64::from(sector.bytes())
                    );
                }
            }
        }
    }

    #[test]
    fn reordering_only_moves_records_and_only_forward(
        times in prop::collection::vec(0_u64..100, 0..60),
        window in 0_usize..20,
    ) {
        let counts = Arc::new(Counts::default());
        let records: Vec<TraceRecord> =
            (1..).zip(&times).map(|(place, ns)| record(place, *ns, 0, Read, 0, 512)).collect();
        let adjust = Adjust { window, ..Adjust::default() };
        let out: Vec<TraceRecord> =
            Adjusted::new(records.clone().into_iter(), adjust, Arc::clone(&counts)).collect();
        let mut places: Vec<u64> = out.iter().map(|record| record.place).collect();
        prop_assert!(out.windows(2).all(|pair| pair[0].at <= pair[1].at), "{:?}", out);
        places.sort_unstable();
        prop_assert_eq!(places, (1..=times.len() as u64).collect::<Vec<_>>());
        let earliest =
            out.first().map_or(Instant::ORIGIN, |first| records[first.place as usize - 1].at);
        let moved = out
            .iter()
            .filter(|out| out.at.as_ns() + earliest.as_ns() != times[out.place as usize - 1])
            .count() as u64;
        prop_assert_eq!(moved, counts.clamped.get());
    }
}
