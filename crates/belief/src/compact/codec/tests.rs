//! Round trips of compact maps, and refusals of invalid bytes.

use super::*;
use headtime_mechanics::catalog;
use headtime_units::{Angle, Extent, Lba};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MEMORY: ByteSize = ByteSize::new(64 << 20);

fn of_profile(seed: u64) -> CompactMap {
    let mut map =
        CompactMap::of_profile(&catalog::load("atlas10k").unwrap(), CompactSettings::default())
            .unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let Locations::Layout(of) = &mut map.locations else { panic!() };
    of.shifts = Shifts::new(
        (1..20).map(|row| Shift { first: row * 800_000, sectors: rng.random_range(-20..200) }),
    );
    learned(&mut map, &mut rng);
    map
}

fn unknown(seed: u64) -> CompactMap {
    let drive = MappedDrive {
        model: "TEST 10K".into(),
        capacity: Sectors::new(10_000_000),
        sector: SectorSize::B512,
    };
    let mut map = CompactMap::unknown(
        drive,
        RotationPeriod::from_rpm(7_200.0).unwrap(),
        CompactSettings::default(),
    )
    .unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let segments = (0..9).map(|number| Segment {
        first: number * 1_000_000,
        end: number * 1_000_000 + rng.random_range(1..1_000_000),
        origin: number * 1_000_000 + 5,
        phase: rng.random(),
        slope: rng.random_range(1e-4..1e-2),
        skew_terms: (0..number % 4)
            .map(|_| SkewTerm {
                period: rng.random_range(100.0..1e5),
                offset: rng.random(),
                height: rng.random_range(-0.3..0.3),
            })
            .collect(),
        spread: 0.004,
        angle_samples: number,
    });
    map.locations = Locations::Segments(Segments::new(segments.collect(), 10_000_000));
    learned(&mut map, &mut rng);
    map
}

/// Relocates 2,000 sectors, one after the other.
fn move_some(map: &mut CompactMap, rng: &mut ChaCha8Rng) {
    let first = map.capacity().get() / 2;
    let slope = match &map.locations {
        Locations::Layout(of) => 1.0 / f64::from(of.profile.zones[0].sectors_per_track),
        Locations::Segments(segments) => segments.segments()[0].sector(),
    };
    let home = |map: &CompactMap, last| map.locations.end_angle(last).unwrap_or(Angle::ZERO);
    map.moved = map.locations.none_moved();
    for number in 0..400_u64 {
        let at = rng.random_range(0..250) * 8;
        let extent = Extent::from_numbers(if number % 2 == 0 { first + at } else { at }, 8);
        let seen = if number % 2 == 0 {
            Angle::from_turns(0.37 + slope * (at + 7) as f64)
        } else {
            home(map, extent.last())
        };
        let (locations, moved) = (&map.locations, &mut map.moved);
        let at_home = |lba| locations.end_angle(lba).unwrap_or(Angle::ZERO);
        if moved.take(extent, seen, at_home, 0.02, Some(true)) != crate::moved::Reading::Home {
            let trip = crate::moved::Trip {
                took_ns: rng.random_range(2e6..9e6),
                turn_ns: 6e6,
                spread_ns: 5e4,
            };
            map.moved.take_trip(extent, &trip, |cylinder| 1e6 + f64::from(cylinder));
        }
    }
}

fn learned(map: &mut CompactMap, rng: &mut ChaCha8Rng) {
    let turn = map.period.as_nanos();
    move_some(map, rng);
    for _ in 0..900 {
        let lba = Lba::new(rng.random_range(0..map.capacity().get()));
        map.angles.observe(lba, rng.random_range(-0.02..0.02));
        map.tails.as_mut().unwrap().take(
            lba,
            Nanos::from_ns(rng.random_range(0..20_000_000)),
            turn,
        );
        map.arrival.observe(
            Nanos::from_us(rng.random_range(0..300)),
            turn,
            i32::from(rng.random_bool(0.3)),
        );
        match &mut map.arm {
            ArmTimes::Votes(votes) => votes.vote(rng.random(), rng.random_range(0.0..3e7)),
            ArmTimes::Curve(seeks) => {
                let movement = crate::seeks::Movement {
                    from_cylinder: rng.random_range(0..10_000),
                    to_cylinder: rng.random_range(0..10_000),
                    writes: false,
                };
                seeks.observe(movement, -1e6, rng.random_range(0.0..2e5), 1e5, 1.0);
            }
        }
    }
}

#[test]
fn a_decoded_map_returns_the_results_of_the_encoded_one() {
    for seed in 1..=4 {
        for saved in [of_profile(seed), unknown(seed)] {
            let bytes = saved.encode();
            let restored = CompactMap::decode(&bytes, MEMORY).unwrap();
            assert_eq!(
                restored.encode(),
                bytes,
                "seed {seed}: encoded again it has the same bytes"
            );
            assert!(
                saved.moved.angle_samples() > 4,
                "seed {seed}: {} angle samples of moved sectors",
                saved.moved.angle_samples()
            );
            assert_eq!(restored.moved.angle_samples(), saved.moved.angle_samples(), "seed {seed}");
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for round in 0..3_000 {
                let middle = saved.capacity().get() / 2;
                let mut lba = || {
                    Lba::new(if round % 3 == 0 {
                        middle + rng.random_range(0..2_000)
                    } else {
                        rng.random_range(0..saved.capacity().get())
                    })
                };
                let (from, to) = (lba(), lba());
                assert_eq!(
                    restored.time(from, to),
                    saved.time(from, to),
                    "seed {seed}: {from:?} to {to:?}"
                );
            }
        }
    }
}

/// The bytes in an older format, which ended `without` bytes earlier.
fn as_version(version: u32, bytes: &[u8], without: usize) -> Vec<u8> {
    let mut older = bytes[..bytes.len() - 4 - without].to_vec();
    let length = (older.len() - HEADER_BYTES) as u64;
    older[8..12].copy_from_slice(&version.to_le_bytes());
    older[12..20].copy_from_slice(&length.to_le_bytes());
    let header = crc32c::crc32c(&older[..20]).to_le_bytes();
    older[20..24].copy_from_slice(&header);
    let body = crc32c::crc32c(&older[HEADER_BYTES..]).to_le_bytes();
    older.extend(body);
    older
}

#[test]
fn an_older_format_is_read_without_the_later_parts() {
    for mut saved in [of_profile(5), unknown(5)] {
        saved.moved = saved.locations.none_moved();
        let mut curve = Writer(Vec::new());
        if let ArmTimes::Votes(votes) = &mut saved.arm {
            **votes = ArmVotes::restored(&votes.numbers(), &[]).unwrap();
            curve.table(votes.curve_numbers().into_iter());
        }
        let (bytes, Writer(curve)) = (saved.encode(), curve);
        for (version, without) in [(2, curve.len()), (1, curve.len() + 16)] {
            let restored =
                CompactMap::decode(&as_version(version, &bytes, without), MEMORY).unwrap();
            assert_eq!(
                restored.encode(),
                bytes,
                "version {version}: saved again it is as one of this version that knows nothing \
                    more"
            );
        }
    }
}

#[test]
fn a_map_truncated_anywhere_is_refused_as_truncated() {
    let bytes = unknown(1).encode();
    for length in (1..bytes.len())
        .filter(|length| *length < 200 || length % 997 == 0 || *length > bytes.len() - 50)
    {
        let error = CompactMap::decode(&bytes[..length], MEMORY).unwrap_err();
        assert!(
            matches!(error, CompactDecodeError::Truncated { bytes, .. } if bytes == length as u64),
            "after {length} bytes: {error}"
        );
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(
        CompactMap::decode(&longer, MEMORY)
            .unwrap_err()
            .to_string()
            .contains("1 bytes follow its end")
    );
}

#[test]
fn other_content_and_newer_formats_are_distinguished_from_damage() {
    assert_eq!(
        CompactMap::decode(b"HTLATMAP and more", MEMORY).unwrap_err(),
        CompactDecodeError::NotAMap
    );
    assert_eq!(CompactMap::decode(b"", MEMORY).unwrap_err(), CompactDecodeError::NotAMap);
    let mut newer = unknown(1).encode();
    newer[8] = VERSION as u8 + 1;
    let checksum = crc32c::crc32c(&newer[..20]).to_le_bytes();
    newer[20..24].copy_from_slice(&checksum);
    assert_eq!(
        CompactMap::decode(&newer, MEMORY).unwrap_err(),
        CompactDecodeError::Newer { version: VERSION + 1 }
    );
}

#[test]
fn a_memory_limit_below_the_minimum_is_refused() {
    let error = CompactMap::decode(&unknown(1).encode(), ByteSize::new(1 << 20)).unwrap_err();
    assert!(error.to_string().contains("allow more"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_flipped_bit_is_detected_anywhere(
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let mut bytes = unknown(2).encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(CompactMap::decode(&bytes, MEMORY).is_err());
    }

    /// A body with a correct checksum and arbitrary content is refused or yields a map.
    #[test]
    fn a_forged_body_is_refused_or_yields_a_map(
        at in any::<prop::sample::Index>(),
        with in proptest::collection::vec(any::<u8>(), 1..12),
    ) {
        let mut bytes = unknown(3).encode();
        let end = bytes.len() - 4;
        let at = HEADER_BYTES + at.index(400.min(end - HEADER_BYTES - 12));
        bytes[at..at + with.len()].copy_from_slice(&with);
        let checksum = crc32c::crc32c(&bytes[HEADER_BYTES..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&checksum);
        if let Ok(map) = CompactMap::decode(&bytes, MEMORY) {
            let last = Lba::new(map.capacity().get() - 1);
            prop_assert!(
                map.time(last, Lba::new(0)).is_none_or(|time| time.worst >= time.expected)
            );
        }
    }
}
