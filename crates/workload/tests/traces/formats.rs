//! Each format's sample is read as exactly the records that were meant, however the bytes come.

use std::collections::BTreeSet;

use headtime_workload::trace::{Action, FORMATS, Reading, TraceError, TraceRecord, decode};

use crate::samples::{Made, blktrace_bytes, read, samples};

#[test]
fn every_format_of_the_table_has_a_sample_and_a_name_of_its_own() {
    let named: BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    let sampled: BTreeSet<&str> = samples().iter().map(|sample| sample.format.name).collect();
    assert_eq!(named, sampled);
    assert_eq!(named.len(), FORMATS.len());
}

#[test]
fn each_sample_is_read_as_it_was_meant_whole_or_in_pieces() {
    for sample in samples() {
        for piece in [1, 2, 3, 7, 47, 1 << 20] {
            for (action, expected) in
                [(Action::Queue, &sample.records), (Action::Issue, &sample.issued)]
            {
                let Made { records, damage, .. } =
                    read(sample.format, action, &sample.bytes, piece);
                assert_eq!(
                    &records, expected,
                    "{} by {action:?}, {piece} bytes at a time",
                    sample.format.name
                );
                assert_eq!(damage, [], "{} by {action:?}", sample.format.name);
            }
        }
        let at_once: Result<Vec<TraceRecord>, TraceError> =
            decode(sample.format, &Reading::of("sample"), &sample.bytes).collect();
        assert_eq!(at_once, Ok(sample.records), "{}", sample.format.name);
    }
}

#[test]
fn blktrace_is_read_in_either_byte_order() {
    let blktrace = samples()
        .into_iter()
        .find(|sample| sample.format.name == "blktrace")
        .expect("it has a sample");
    let Made { records, damage, .. } =
        read(blktrace.format, Action::Queue, &blktrace_bytes(false), 48);
    assert_eq!((records, damage), (blktrace.records, vec![]));
}

#[test]
fn text_is_read_with_windows_line_ends_a_byte_order_mark_and_without_its_last_line_end() {
    for sample in samples().into_iter().filter(|sample| sample.format.text) {
        let text = String::from_utf8(sample.bytes).expect("samples of text formats are text");
        for changed in
            [text.replace('\n', "\r\n"), format!("\u{feff}{text}"), text.trim_end().to_string()]
        {
            let Made { records, damage, .. } =
                read(sample.format, Action::Queue, changed.as_bytes(), 64);
            assert_eq!(
                (records, damage),
                (sample.records.clone(), vec![]),
                "{}",
                sample.format.name
            );
        }
    }
}

#[test]
fn a_header_without_digits_is_stepped_over_but_only_in_the_first_line() {
    let format = headtime_workload::trace::format("alibaba").expect("the format is in the table");
    let made = read(
        format,
        Action::Queue,
        b"device_id,opcode,offset,length,timestamp\n1,R,0,512,0\n\
            device_id,opcode,offset,length,timestamp\n",
        64,
    );
    assert_eq!(made.records.len(), 1);
    let [TraceError::Field { line: 3, column: 11, field: "the operation", .. }] = &made.damage[..]
    else {
        panic!("{:?}", made.damage)
    };
}

/// A format, a line, and either `Ok` or how the message of its refusal begins.
const LINES: &[(&str, &str, Result<(), &str>)] = &[
    ("alibaba", "1,R,0,512,0", Ok(())),
    ("alibaba", " 1 , W , 0 , 512 , 0.5 ", Ok(())),
    ("alibaba", "1,r,0,512,0", Err("sample:1:3: the operation is `r`, expected R or W")),
    ("alibaba", "1,R,-5,512,0", Err("sample:1:5: the offset is `-5`")),
    ("alibaba", "1,R,+5,512,0", Err("sample:1:5: the offset is `+5`")),
    (
        "alibaba",
        "1,R,18446744073709551615,1,0",
        Err("sample:1:5: the address is `18446744073709551615`, expected one that ends below"),
    ),
    ("alibaba", "1,R,0,512", Err("sample:1: 4 fields, expected the 5 of `device,R|W,")),
    ("alibaba", "1,R,0,512,0,9", Err("sample:1: 6 fields")),
    ("alibaba", "4294967296,R,0,512,0", Err("sample:1:1: the device is `4294967296`")),
    (
        "alibaba",
        "1,R,0,512,99999999999999999999",
        Err("sample:1:11: the time is `99999999999999999999`, expected microseconds"),
    ),
    ("tencent", "0,8,8,1,7", Ok(())),
    ("tencent", "0,8,8,2,7", Err("sample:1:7: the operation is `2`")),
    (
        "tencent",
        "0,36028797018963968,8,1,7",
        Err("sample:1:3: the offset is `36028797018963968`, expected an address below 2^64 bytes"),
    ),
    ("spc", "0,1,512,R,0.0,and,more", Ok(())),
    ("spc", "0,1,512,X,0.0", Err("sample:1:9: the operation is `X`")),
    ("spc", "0,1,512,R,1e3", Err("sample:1:11: the time is `1e3`, expected seconds")),
    ("msr", "0,h,65535,Read,0,512,1", Ok(())),
    ("msr", "0,h,65536,Read,0,512,1", Err("sample:1:5: the disk is `65536`")),
    ("msr", "0,h,0,READ,0,512,1", Err("sample:1:7: the operation is `READ`")),
    ("disksim-ascii", "0.5 0 8 8 0x1f", Ok(())),
    ("disksim-ascii", "0.5 0 8 8 g", Err("sample:1:11: the word of flags is `g`")),
    ("disksim-ascii", "-0.5 0 8 8 1", Err("sample:1:1: the time is `-0.5`, expected milliseconds")),
    ("disksim-validate", "R Hit 0 8 1.0 1.0", Ok(())),
    (
        "disksim-validate",
        "R Hit 18014398509481984000 8 1 1",
        Err("sample:1:7: the LBA is `18014398509481984000`"),
    ),
    ("fio2", "/a wait 5 0", Ok(())),
    ("fio2", "/a sync_file_range 0 512", Ok(())),
    ("fio2", "fio version 3 iolog", Err("sample:1:5: the action is `version`")),
    ("fio2", "/a erase 0 512", Err("sample:1:4: the action is `erase`")),
    (
        "fio2",
        "/1 erase",
        Err("sample:1:4: the action on a file is `erase`, expected add, open or close"),
    ),
    ("fio3", "5 /a wait 5 0", Err("sample:1:6: the action is `wait`")),
    ("fio3", "x /a read 5 0", Err("sample:1:1: the time is `x`")),
    ("fio3", "5 /a read 5", Err("sample:1: 4 fields, expected the 5 of")),
    ("blkparse", "8,0 0 1 0.5 7 Q R 8 + 8 [x]", Ok(())),
    ("blkparse", "8,0 0 1 0.5 7 Q R [x]", Ok(())),
    (
        "blkparse",
        "8.0 0 1 0.5 7 Q R 8 + 8 [x]",
        Err("sample:1:1: the device is `8.0`, expected major,minor"),
    ),
    ("blkparse", "8,0 0 1 0.5 7 Q r 8 + 8 [x]", Err("sample:1:17: the operation is `r`")),
    ("blkparse", "8,0 0 1 0.5 7 Q R x + 8 [x]", Err("sample:1:19: the LBA is `x`")),
    ("blkparse", "8,0 0 1 0.5 7 9 R 8 + 8 [x]", Err("sample:1:15: the event is `9`")),
    ("blkparse", "8,0 0 1", Err("sample:1: 3 fields, expected the 7 of")),
];

#[test]
fn lines_are_accepted_or_refused_as_the_table_says() {
    for (format, line, expected) in LINES {
        let format = headtime_workload::trace::format(format).expect("the format is in the table");
        let made = read(format, Action::Queue, line.as_bytes(), 1 << 20);
        match (expected, &made.damage[..]) {
            (Ok(()), []) => {
                assert!(made.records.len() + made.passed == 1, "{} `{line}`: {made:?}", format.name)
            }
            (Err(begins), [error]) => {
                assert!(error.to_string().starts_with(begins), "{} `{line}`: {error}", format.name)
            }
            _ => panic!("{} `{line}`: expected {expected:?}, got {made:?}", format.name),
        }
    }
}
