//! Tests of encoded maps: valid ones are restored, invalid ones are refused.

use super::*;
use proptest::prelude::*;

const MEMORY: ByteSize = ByteSize::new(1 << 20);

fn drive() -> MappedDrive {
    MappedDrive {
        model: "TEST 10K rev. B".into(),
        capacity: Sectors::new(64 * 256 - 7),
        sector: SectorSize::B512,
    }
}

fn settings() -> MatrixSettings {
    MatrixSettings { memory: MEMORY, ..MatrixSettings::default() }
}

fn map(settings: MatrixSettings, observations: &[(u32, u32, u64)]) -> LatencyMatrix {
    let mut map = LatencyMatrix::new(MatrixShape::new(drive(), &settings).unwrap());
    for (from, to, ns) in observations {
        map.record(*from, *to, Nanos::from_ns(*ns));
    }
    map
}

fn small() -> LatencyMatrix {
    map(settings(), &[(3, 9, 4_200_000), (63, 9, 31_000_000), (0, 0, 0)])
}

/// Corrects the checksum of the header after `change`.
fn forged(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = small().encode();
    change(&mut bytes);
    let end = 72 + drive().model.len();
    let checksum = crc32c::crc32c(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn refusal(bytes: &[u8]) -> DecodeError {
    let mut map = map(settings(), &[(1, 2, 700)]);
    let before = map.clone();
    let refused = map.restore(bytes).unwrap_err();
    assert_eq!(map, before, "a refusal changes nothing");
    let RestoreError::Decode(error) = refused else { panic!("{refused}") };
    assert_eq!(LatencyMatrix::decode(bytes, MEMORY), Err(error.clone()));
    error
}

#[test]
fn other_content_is_no_map() {
    for other in [&b""[..], b"H", b"HTLATMAQ and more", &[0; 4_096], b"#!/bin/sh\n"] {
        let error = refusal(other);
        let expected = if other == b"H" {
            matches!(error, DecodeError::Truncated { .. })
        } else {
            error == DecodeError::NotAMap
        };
        assert!(expected, "{error}");
    }
    assert!(refusal(b"").to_string().contains("'HTLATMAP'"));
}

#[test]
fn a_file_cut_off_anywhere_is_refused_as_cut_off() {
    let bytes = small().encode();
    for length in 1..bytes.len() {
        let error = refusal(&bytes[..length]);
        assert!(
            matches!(error, DecodeError::Truncated { bytes, .. } if bytes == length as u64),
            "after {length} bytes: {error}"
        );
    }
    let DecodeError::Truncated { expected, .. } = refusal(&bytes[..bytes.len() - 1]) else {
        panic!()
    };
    assert_eq!(expected, bytes.len() as u64);
}

/// Every bit of the file is flipped, one at a time.
#[test]
fn a_single_bit_that_is_wrong_is_found_wherever_it_is() {
    let bytes = map(
        MatrixSettings { count_samples: true, ..settings() },
        &[(3, 9, 4_200_000), (5, 9, 900_000)],
    )
    .encode();
    // Only the first and the last bytes of the table of exceedances, which is long and mostly
    // empty.
    let table = bytes.len() - 4 - Exceedance::BYTES as usize;
    let of_interest = |byte: usize| !(table + 64..bytes.len() - 64).contains(&byte);
    for bit in (0..bytes.len() * 8).filter(|bit| of_interest(bit / 8)) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = LatencyMatrix::decode(&damaged, MEMORY).expect_err("a bit is wrong");
        let expected = match bit / 8 {
            0..8 => error == DecodeError::NotAMap,
            // A longer header may reach beyond the end.
            12..16 => matches!(error, DecodeError::Damaged { .. } | DecodeError::Truncated { .. }),
            _ => matches!(error, DecodeError::Damaged { .. }),
        };
        assert!(expected, "bit {bit}: {error}");
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    let mut bytes = small().encode();
    bytes.push(0);
    assert_eq!(refusal(&bytes), damaged("1 bytes follow its end"));
}

#[test]
fn a_newer_format_is_told_from_damage_and_an_older_one_has_never_been() {
    let newer = forged(|bytes| bytes[8] = 2);
    assert_eq!(refusal(&newer), DecodeError::Newer { version: 2 });
    assert!(refusal(&newer).to_string().contains("use a newer program"));
    assert!(matches!(refusal(&forged(|bytes| bytes[8] = 0)), DecodeError::Damaged { .. }));
}

/// Invalid headers with a valid checksum: no allocation, no panic, a message that names the cause.
#[test]
fn a_forged_header_is_refused_by_what_it_says() {
    let cases: [(usize, &[u8], &str); 11] = [
        (16, &[0; 8], "no whole number of sectors"),
        (16, &[0xFF; 8], "its cells have"),
        (24, &[0; 8], "at least one sector"),
        (32, &[0; 8], "its steps are 0 ns long"),
        (32, &[0xFF; 8], "its steps are"),
        (56, &[1, 2, 0, 0], "its sectors have 513 bytes"),
        (64, &[0xFF; 4], "more than the drive has"),
        (68, &[5], "its entries have 5 bits"),
        (69, &[7], "covers cells in a way (7)"),
        (70, &[9], "what is not known here"),
        (71, &[2], "what is not known here"),
    ];
    for (at, with, says) in cases {
        let error = refusal(&forged(|bytes| bytes[at..at + with.len()].copy_from_slice(with)));
        assert!(error.to_string().contains(says), "{at}: {error}");
    }
    // A region that ends beyond the drive.
    let region = forged(|bytes| {
        bytes[60..64].copy_from_slice(&60_u32.to_le_bytes());
        bytes[64..68].copy_from_slice(&9_u32.to_le_bytes());
        bytes[69] = REGION;
    });
    assert!(refusal(&region).to_string().contains("more than its region has"));
}

#[test]
fn cells_that_are_not_on_the_drive_or_there_twice_are_refused() {
    let body = 72 + drive().model.len() + 4;
    for cell in [64_u32, 9] {
        let mut bytes = small().encode();
        bytes[body..body + 4].copy_from_slice(&cell.to_le_bytes());
        let end = bytes.len() - 4;
        let checksum = crc32c::crc32c(&bytes[body..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        assert!(
            refusal(&bytes)
                .to_string()
                .contains(&format!("is {cell}, which is not on the drive or there twice"))
        );
    }
}

#[test]
fn a_map_that_needs_more_memory_than_allowed_is_refused() {
    let whole = map(MatrixSettings { coverage: Coverage::WholeDrive, ..settings() }, &[]).encode();
    // 64 cells: 2,080 pairs of half a byte.
    assert!(LatencyMatrix::decode(&whole, ByteSize::new(1_040)).is_ok());
    let refused = LatencyMatrix::decode(&whole, ByteSize::new(1_039));
    assert_eq!(
        refused,
        Err(DecodeError::Memory { needs: ByteSize::new(1_040), memory: ByteSize::new(1_039) })
    );
    let touched = small().encode();
    // Four cells: 5 bytes of entries, 32 for each row.
    assert!(LatencyMatrix::decode(&touched, ByteSize::new(133)).is_ok());
    let refused = LatencyMatrix::decode(&touched, ByteSize::new(132));
    assert_eq!(
        refused,
        Err(DecodeError::Memory { needs: ByteSize::new(133), memory: ByteSize::new(132) })
    );
}

#[test]
fn a_map_of_another_drive_or_laid_out_otherwise_is_not_restored() {
    let bytes = small().encode();
    let into = |drive: MappedDrive, settings: MatrixSettings| {
        let mut map = LatencyMatrix::new(MatrixShape::new(drive, &settings).unwrap());
        map.record(1, 1, Nanos::from_ms(1));
        let before = map.clone();
        let error = map.restore(&bytes).unwrap_err();
        assert_eq!(map, before);
        error.to_string()
    };
    assert!(
        into(MappedDrive { model: "OTHER".into(), ..drive() }, settings())
            .contains("use a map of the same model")
    );
    assert!(
        into(MappedDrive { capacity: Sectors::new(64 * 256), ..drive() }, settings())
            .contains("16377 sectors, this drive has 16384 sectors")
    );
    assert!(
        into(drive(), MatrixSettings { cell: ByteSize::new(65_536), ..settings() })
            .contains("set the same cell size")
    );
    assert!(
        into(drive(), MatrixSettings { bits: EntryBits::Eight, ..settings() })
            .contains("has bits 4, set is 8")
    );
    assert!(
        into(drive(), MatrixSettings { longest: Nanos::from_ms(28), ..settings() })
            .contains("has step 1.429 ms, set is 2.000 ms")
    );
    assert!(
        into(drive(), MatrixSettings { coverage: Coverage::WholeDrive, ..settings() })
            .contains("set is 64 cells from cell 0")
    );
    assert!(
        into(drive(), MatrixSettings { count_samples: true, ..settings() })
            .contains("has count_samples no, set is yes")
    );
    assert!(
        into(drive(), MatrixSettings { directions: Directions::Both, ..settings() })
            .contains("has directions worse, set is both")
    );
}

#[test]
fn pieces_are_the_same_bytes() {
    let map = small();
    let mut pieces = Vec::new();
    map.encode_in_pieces(|piece| pieces.extend_from_slice(piece));
    assert_eq!(pieces, map.encode());
    // 76 bytes and the model's name, 4 cells, 10 entries of half a byte, 4 bytes of checksum.
    assert_eq!(pieces.len(), 76 + 15 + 16 + 5 + 4);
}

proptest! {
    #[test]
    fn a_restored_map_answers_exactly_as_the_saved_one(
        observations in proptest::collection::vec(
            (0_u32..64, 0_u32..64, 0_u64..40_000_000),
            0..150,
        ),
        later in proptest::collection::vec((0_u32..64, 0_u32..64, 0_u64..40_000_000), 0..20),
        bits in prop_oneof![
            Just(EntryBits::Four),
            Just(EntryBits::Eight),
            Just(EntryBits::Sixteen),
        ],
        coverage in prop_oneof![
            Just(Coverage::Touched),
            Just(Coverage::WholeDrive),
            Just(Coverage::Region(Extent::from_numbers(999, 5_000))),
        ],
        count_samples in any::<bool>(),
        directions in prop_oneof![Just(Directions::Worse), Just(Directions::Both)],
        rows in 2_u64..64,
    ) {
        let memory = if coverage == Coverage::Touched {
            ByteSize::new(rows * rows * 3 + rows * 32)
        } else {
            MEMORY
        };
        let settings =
            MatrixSettings { bits, coverage, count_samples, directions, memory, ..settings() };
        let mut saved = map(settings, &observations);
        let bytes = saved.encode();
        let mut restored = map(settings, &[(1, 1, 5)]);
        restored.restore(&bytes).unwrap();
        prop_assert_eq!(restored.encode(), bytes, "saved again it is the same file");
        for (from, to, ns) in later {
            // It continues to learn like the saved one.
            prop_assert_eq!(
                restored.record(from, to, Nanos::from_ns(ns)),
                saved.record(from, to, Nanos::from_ns(ns))
            );
        }
        prop_assert_eq!(
            (restored.known(), restored.observations(), restored.memory()),
            (saved.known(), saved.observations(), saved.memory())
        );
        prop_assert_eq!(restored.exceedance(), saved.exceedance());
        for (from, to) in (0..64).flat_map(|from| (0..64).map(move |to| (from, to))) {
            prop_assert_eq!(restored.time(from, to), saved.time(from, to));
            prop_assert_eq!(restored.samples(from, to), saved.samples(from, to));
            prop_assert_eq!(restored.would_learn(from, to), saved.would_learn(from, to));
        }
    }

    #[test]
    fn bytes_at_random_are_refused_and_nothing_breaks(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0_usize..120,
    ) {
        prop_assert!(LatencyMatrix::decode(&bytes, MEMORY).is_err());
        // The same inside a file with a valid checksum of the header: refused, or a map within its
        // memory.
        let forged = forged(|file| {
            for (place, byte) in bytes.iter().enumerate().take(6) {
                if let Some(there) = file.get_mut(16 + (at + place) % 56) {
                    *there = *byte;
                }
            }
        });
        if let Ok(map) = LatencyMatrix::decode(&forged, MEMORY) {
            prop_assert!(map.memory() <= MEMORY);
        }
    }
}
