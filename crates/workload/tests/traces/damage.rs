//! Damage: what is wrong is named, what was right before and after it is kept, and nothing makes a
//! decoder panic or stand still.

use headtime_workload::trace::{Action, FORMATS, LONGEST_LINE, TraceError, TraceRecord, detect};
use proptest::prelude::*;

use crate::samples::{Made, read, samples};

#[test]
fn damaged_lines_are_named_by_file_and_line_and_the_others_are_kept() {
    for sample in samples().into_iter().filter(|sample| sample.format.text) {
        let lines: Vec<&[u8]> = sample.bytes.split_inclusive(|byte| *byte == b'\n').collect();
        // Not before the first line, where it might be a header, nor after a summary.
        for at in 1..lines.len().min(11) {
            let bytes =
                [lines[..at].concat(), b"?\xff 3 what\n".to_vec(), lines[at..].concat()].concat();
            let Made { records, damage, .. } = read(sample.format, Action::Queue, &bytes, 100);
            let moved = |record: &TraceRecord| TraceRecord {
                place: if record.place > at as u64 { record.place + 1 } else { record.place },
                ..*record
            };
            assert_eq!(
                records,
                sample.records.iter().map(moved).collect::<Vec<_>>(),
                "{}",
                sample.format.name
            );
            let [error] = &damage[..] else { panic!("{}: {damage:?}", sample.format.name) };
            assert!(
                error.to_string().starts_with(&format!("sample:{}:", at + 1)),
                "{}: {error}",
                sample.format.name
            );
        }
    }
}

#[test]
fn a_trace_cut_anywhere_keeps_every_record_before_the_cut() {
    for sample in samples() {
        for cut in 0..sample.bytes.len() {
            let Made { records, damage, .. } =
                read(sample.format, Action::Queue, &sample.bytes[..cut], 16);
            let same =
                records.iter().zip(&sample.records).take_while(|(got, meant)| got == meant).count();
            // The last line may read as something else when its end is missing; nothing before it
            // may.
            assert!(same + 1 >= records.len(), "{} cut at {cut}: {records:?}", sample.format.name);
            let whole = whole_records(&sample.bytes[..cut], sample.format.text, &sample.records);
            assert!(
                same >= whole,
                "{} cut at {cut}: {same} of {whole} whole records, {damage:?}",
                sample.format.name
            );
            assert!(damage.len() <= 1, "{} cut at {cut}: {damage:?}", sample.format.name);
        }
    }
}

/// Records whose lines are whole in `bytes`; of binary formats, none is known to be.
fn whole_records(bytes: &[u8], text: bool, records: &[TraceRecord]) -> usize {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    if text { records.iter().filter(|record| record.place <= lines).count() } else { 0 }
}

#[test]
fn a_cut_binary_trace_says_where_it_ends() {
    for (name, record_bytes) in [("blktrace", 48), ("vscsi1", 32), ("vscsi2", 40)] {
        let sample = samples()
            .into_iter()
            .find(|sample| sample.format.name == name)
            .expect("it has a sample");
        for cut in 1..record_bytes {
            let Made { records, damage, .. } =
                read(sample.format, Action::Queue, &sample.bytes[..cut], 5);
            assert_eq!(records, [], "{name} cut at {cut}");
            let expected = TraceError::CutShort {
                file: "sample".to_string(),
                record: 1,
                byte: 0,
                found: cut as u64,
                expected: record_bytes as u64,
            };
            assert_eq!(damage, [expected], "{name} cut at {cut}");
        }
        let Made { records, damage, .. } =
            read(sample.format, Action::Queue, &sample.bytes[..2 * record_bytes - 1], 5);
        assert_eq!((&records[..], damage.len()), (&sample.records[..1], 1), "{name}");
    }
}

#[test]
fn blktrace_finds_the_next_record_after_garbage_of_any_length() {
    let sample = samples()
        .into_iter()
        .find(|sample| sample.format.name == "blktrace")
        .expect("it has a sample");
    for garbage in 1..200 {
        for piece in [1, 50, 1 << 20] {
            let bytes = [&sample.bytes[..96], &vec![0x5a; garbage], &sample.bytes[96..]].concat();
            let Made { records, damage, .. } = read(sample.format, Action::Queue, &bytes, piece);
            assert_eq!(records, sample.records, "{garbage} bytes of garbage, {piece} at a time");
            let [TraceError::Binary { record: 3, byte: 96, field: "the magic number", .. }] =
                &damage[..]
            else {
                panic!("{damage:?}")
            };
        }
    }
}

#[test]
fn an_endless_line_is_damaged_once_and_never_held() {
    for sample in samples().into_iter().filter(|sample| sample.format.text) {
        let first =
            sample.bytes.iter().position(|byte| *byte == b'\n').expect("samples have lines") + 1;
        let bytes =
            [&sample.bytes[..first], &vec![b'7'; 5 * LONGEST_LINE], b"\n", &sample.bytes[first..]]
                .concat();
        // Reading asserts that no decoder ever asks for more than it may.
        let Made { records, damage, .. } = read(sample.format, Action::Queue, &bytes, 4096);
        assert_eq!(records.len(), sample.records.len(), "{}", sample.format.name);
        assert_eq!(
            damage,
            [TraceError::LongLine { file: "sample".to_string(), line: 2, max: LONGEST_LINE }],
            "{}",
            sample.format.name
        );
    }
}

#[test]
fn a_line_of_the_longest_length_is_read_whatever_the_pieces() {
    let format = headtime_workload::trace::format("spc").expect("the format is in the table");
    let line = |len: usize| {
        let mut line = b"0,1,512,R,0.5,".to_vec();
        line.resize(len, b'x');
        line
    };
    for (len, damaged) in [(LONGEST_LINE, 0), (LONGEST_LINE + 1, 1)] {
        for piece in [1000, 1 << 20] {
            let made = read(format, Action::Queue, &[line(len), b"\n".to_vec()].concat(), piece);
            assert_eq!(
                (made.records.len(), made.damage.len()),
                (1 - damaged, damaged),
                "{len} bytes, {piece} at a time"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 300,
        ..ProptestConfig::default()
    })]

    /// `read` asserts progress, a bound of the steps, and that no decoder asks for more than it
    /// may.
    #[test]
    fn random_bytes_never_panic_nor_stand_still(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        piece in 1_usize..200,
    ) {
        for format in FORMATS {
            read(format, Action::Queue, &bytes, piece);
        }
        let _ = detect("sample", &bytes, true);
    }

    /// Bytes changed, removed and inserted in a sample: the outcome is the same however the bytes
    /// come.
    #[test]
    fn damaged_samples_are_read_the_same_whole_or_in_pieces(
        which in 0..FORMATS.len(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 0_u8..3),
            1..8,
        ),
        piece in 1_usize..60,
    ) {
        let sample = samples().swap_remove(which);
        let mut bytes = sample.bytes;
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        let (whole, pieces) = (
            read(sample.format, Action::Queue, &bytes, 1 << 20),
            read(sample.format, Action::Queue, &bytes, piece),
        );
        prop_assert_eq!(whole.records, pieces.records);
        prop_assert_eq!(whole.damage, pieces.damage);
    }
}
