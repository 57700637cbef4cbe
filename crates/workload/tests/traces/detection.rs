//! Which format a trace is: each sample is itself and nothing else, whatever stands in front.

use headtime_workload::trace::{DetectError, LONGEST_LINE, detect};

use crate::samples::{blktrace_bytes, samples};

fn detected(bytes: &[u8], ends: bool) -> Result<&'static str, DetectError> {
    detect("sample", bytes, ends).map(|detection| detection.format.name)
}

#[test]
fn each_sample_is_detected_as_itself_and_as_nothing_else() {
    for sample in samples() {
        assert_eq!(detected(&sample.bytes, true), Ok(sample.format.name));
        assert_eq!(detected(&sample.bytes, false), Ok(sample.format.name), "when more follows");
    }
    assert_eq!(detected(&blktrace_bytes(false), true), Ok("blktrace"));
}

#[test]
fn headers_comments_and_some_damage_in_front_do_no_harm() {
    for sample in samples()
        .into_iter()
        .filter(|sample| sample.format.text && !sample.format.name.starts_with("fio"))
    {
        let good = sample.bytes.repeat(3);
        let front =
            b"these,are,the,column,names\n# a comment\n\nsomething went wrong at 3\n".to_vec();
        assert_eq!(detected(&[front, good].concat(), true), Ok(sample.format.name));
    }
    let blktrace = blktrace_bytes(true);
    assert_eq!(detected(&blktrace[20..], true), Ok("blktrace"), "the first record is cut");
}

#[test]
fn what_is_no_trace_is_refused_with_what_came_closest() {
    let refused = |bytes: &[u8]| detected(bytes, true).expect_err("it is no trace").to_string();
    assert_eq!(refused(b""), "sample is empty; expected a trace");
    let message = refused(b"Dear Sir,\nplease find 3 enclosed\n");
    assert!(
        message.starts_with(
            "sample has no known format: no line or record \
            fits any; name the format if it is one of blkparse,"
        ),
        "{message}"
    );
    let message = refused(b"1,R,0,512,0\n2\n3\n4\n");
    assert!(message.contains("closest is alibaba (1 of 4 fit)"), "{message}");
    refused(&[0; 1 << 16]);
    refused(&vec![b'x'; 3 * LONGEST_LINE]);
}

#[test]
fn two_formats_that_read_a_sample_alike_are_both_named() {
    // Two records of 40 bytes, which are also two of 32 and a rest: the versions stand in different
    // bytes.
    let mut bytes = [0; 80];
    for record in bytes.chunks_exact_mut(32) {
        record[14..16].copy_from_slice(&0x0100_u16.to_le_bytes());
    }
    for record in bytes.chunks_exact_mut(40) {
        record[2..4].copy_from_slice(&0x0200_u16.to_le_bytes());
    }
    let Err(DetectError::Ambiguous { candidates, .. }) = detected(&bytes, true) else {
        panic!("{:?}", detected(&bytes, true))
    };
    assert_eq!(
        candidates.iter().map(|candidate| candidate.format).collect::<Vec<_>>(),
        ["vscsi1", "vscsi2"]
    );
}
