//! The oracle against the mechanism of the same simulated drive.

use headtime_mechanics::{Direction, HeadPosition, draw};
use headtime_sched::{Head, Op, Positioning as _, TrackMap as _};
use headtime_sim::{DriveTruth, OraclePositioning};
use headtime_units::{Angle, Extent, Instant, Lba};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

proptest! {
    /// For any drive, track and time, the oracle predicts the mechanism's access of any length.
    #[test]
    fn the_oracle_predicts_every_access_to_the_nanosecond(seed in any::<u64>()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let profile = draw::random_profile(&mut rng);
        let truth = DriveTruth::draw(&profile, seed).unwrap();
        let oracle = OraclePositioning::new(&truth).unwrap();
        let capacity = oracle.capacity().get();
        let mut head = Head::UNKNOWN;
        for step in 0..20_u64 {
            let start = rng.random_range(0..capacity);
            let len = rng.random_range(1..=(capacity - start).min(40));
            let extent = Extent::from_numbers(start, len);
            let op = [Op::Read, Op::Zero][rng.random_range(0..2)];
            let target = oracle.target(op, extent);
            let dispatch = Instant::from_ns(step * 3_000_000);
            let estimate = oracle.estimate(&head, dispatch, &target);
            let from = HeadPosition { cylinder: head.place.cylinder, head: head.place.head };
            let direction = if op == Op::Read { Direction::Read } else { Direction::Write };
            let mechanism = truth.mechanism();
            let access =
                mechanism.access(from, estimate.depart, direction, extent, Instant::ORIGIN);
            let difference = estimate.finish().signed_since(access.finish);
            // One nanosecond of rounding for each track of the extent.
            prop_assert!(
                difference.abs() <= 45,
                "seed {}: {} {} predicted {} ns off",
                seed,
                op.name(),
                extent,
                difference
            );
            let distance = from.cylinder.abs_diff(target.start.cylinder);
            prop_assert!(oracle.seek_lower_bound(distance) <= estimate.positioning);
            head = Head::after(&target, estimate.finish());
        }
    }
}

#[test]
fn the_sectors_that_a_track_tells_are_those_that_pass_there_in_truth() {
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut profile = draw::random_profile(&mut rng);
        // A row lists the home sectors, remapped ones included.
        profile.zones.iter_mut().for_each(|zone| zone.remaps.clear());
        let truth = DriveTruth::draw(&profile, seed).unwrap();
        let oracle = OraclePositioning::new(&truth).unwrap();
        let mut seen = 0;
        for (cylinder, head) in (0..oracle.cylinders())
            .flat_map(|cylinder| (0..oracle.heads()).map(move |head| (cylinder, head)))
        {
            let Some(span) = oracle.track_at(cylinder, head) else { continue };
            let first = truth.mechanism().layout().lba_to_physical(span.extent.start);
            for index in 0..span.extent.len.get() {
                let lba = Lba::new(span.extent.start.get() + index);
                let spot = truth.mechanism().spot(lba);
                assert_eq!(
                    (spot.position.cylinder, spot.position.head),
                    (cylinder, head),
                    "drawn drive {seed}: {lba}"
                );
                let places = u64::from(
                    truth.mechanism().layout().lba_to_physical(lba).sector - first.sector,
                );
                let turn = (u64::from(span.start.angle.as_raw()) << 32)
                    .wrapping_add(span.sector.wrapping_mul(places));
                let off = Angle::from_raw((turn >> 32) as u32).signed_turns_from(spot.angle);
                assert!(
                    off.abs() < 4.0 / 4_294_967_296.0,
                    "drawn drive {seed}: {lba} told {off} turns off"
                );
                assert!(oracle.track_of(lba).extent.contains(lba), "drawn drive {seed}: {lba}");
                seen += 1;
            }
        }
        assert!(seen > 0, "drawn drive {seed} tells no sector");
    }
}
