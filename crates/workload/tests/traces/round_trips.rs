//! Encoded records are decoded the same, except for losses, which are counted.

use std::collections::BTreeMap;

use headtime_units::{Instant, Nanos};
use headtime_workload::Operation;
use headtime_workload::trace::{
    Action, DeviceName, FORMATS, Format, Loss, Losses, TraceRecord, detect, format,
};
use proptest::prelude::*;

use crate::samples::{read, record, samples};

/// The bytes of these records in this format, what of them was written, and what was lost.
fn write(format: &Format, records: &[TraceRecord]) -> (Vec<u8>, Vec<TraceRecord>, Losses) {
    let (mut encoder, mut out, mut losses) = ((format.encoder)(), Vec::new(), Losses::default());
    encoder.begin(&mut out);
    let written: Vec<TraceRecord> =
        records.iter().filter_map(|record| format.says.reduce(record, &mut losses)).collect();
    for record in &written {
        encoder.record(record, &mut out);
    }
    encoder.end(&mut out);
    (out, written, losses)
}

/// Records without their places, and with devices as the format numbers them.
fn comparable(format: &Format, records: &[TraceRecord]) -> Vec<TraceRecord> {
    let mut numbers = BTreeMap::new();
    let mut device = |record: &TraceRecord| {
        let next = numbers.len() as u32;
        if format.device == DeviceName::Order {
            *numbers.entry(record.device).or_insert(next)
        } else {
            record.device
        }
    };
    records
        .iter()
        .map(|record| TraceRecord { place: 0, device: device(record), ..*record })
        .collect()
}

fn any_record() -> impl Strategy<Value = (u64, TraceRecord)> {
    let operation = prop_oneof![
        Just(Operation::Read),
        Just(Operation::Write),
        Just(Operation::Zero),
        Just(Operation::Discard),
        Just(Operation::Flush)
    ];
    let address = prop_oneof![
        (0_u64..1 << 20, 1_u64..1 << 16),
        (0_u64..1 << 45, 1_u64..1 << 36),
        (Just(0), Just(512))
    ];
    let span = || prop::option::of(0_u64..10_000_000_000);
    let device = prop_oneof![Just(0_u32), 0_u32..4, any::<u32>()];
    (
        (0_u64..3_000_000_000, operation, address, device),
        (any::<u32>(), any::<bool>(), span(), span()),
    )
        .prop_map(
            |((after_ns, operation, (offset, len), device), (process, fua, response, think))| {
                let (offset, len) =
                    if operation == Operation::Flush { (0, 0) } else { (offset, len) };
                let plain = record(0, 0, device, operation, offset, len);
                let fua = fua && operation == Operation::Write;
                (
                    after_ns,
                    TraceRecord {
                        process,
                        fua,
                        response: response.map(Nanos::from_ns),
                        think: think.map(Nanos::from_ns),
                        ..plain
                    },
                )
            },
        )
}

fn any_records() -> impl Strategy<Value = Vec<TraceRecord>> {
    prop::collection::vec(any_record(), 1..40).prop_map(|records| {
        let mut at = Instant::ORIGIN;
        let timed = records.into_iter().map(|(after_ns, record)| {
            at += Nanos::from_ns(after_ns);
            TraceRecord { at, ..record }
        });
        timed.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_every_format_writes_it_reads_back(records in any_records()) {
        for format in FORMATS {
            let (bytes, written, _) = write(format, &records);
            let made = read(format, Action::Queue, &bytes, 1000);
            prop_assert_eq!(&made.damage, &[], "{}", format.name);
            if format.name == "disksim-validate" {
                // It has one request at a time, and its times are sums; see below.
                continue;
            }
            prop_assert_eq!(
                comparable(format, &made.records),
                comparable(format, &written),
                "{}",
                format.name
            );
        }
    }

    #[test]
    fn one_request_at_a_time_is_written_and_read_back_by_disksim(records in any_records()) {
        let format = format("disksim-validate").expect("the format is in the table");
        let mut at = Instant::ORIGIN;
        let one_at_a_time: Vec<TraceRecord> = records
            .iter()
            .map(|record| {
                let (response, think) = (
                    record.response.unwrap_or(Nanos::from_ns(1)).max(Nanos::from_ns(1)),
                    record.think.unwrap_or_default(),
                );
                let now = at;
                at = at + response + think;
                let operation = if record.operation == Operation::Read {
                    Operation::Read
                } else {
                    Operation::Write
                };
                let len_bytes = record.len_bytes.max(512);
                TraceRecord {
                    at: now,
                    operation,
                    len_bytes,
                    response: Some(response),
                    think: Some(think),
                    ..*record
                }
            })
            .collect();
        let (bytes, written, _) = write(format, &one_at_a_time);
        let made = read(format, Action::Queue, &bytes, 1000);
        prop_assert_eq!(comparable(format, &made.records), comparable(format, &written));
        // Think times that are not known follow from the distance to the next request.
        let without: Vec<TraceRecord> =
            one_at_a_time.iter().map(|record| TraceRecord { think: None, ..*record }).collect();
        let made = read(format, Action::Queue, &write(format, &without).0, 1000);
        let at =
            |records: &[TraceRecord]| records.iter().map(|record| record.at).collect::<Vec<_>>();
        prop_assert_eq!(at(&made.records), at(&written));
    }

    #[test]
    fn what_a_format_says_of_a_record_is_all_it_needs_to_say(
        record in any_record().prop_map(|(_, record)| record),
    ) {
        for format in FORMATS {
            let mut losses = Losses::default();
            let Some(once) = format.says.reduce(&record, &mut losses) else {
                prop_assert_eq!(
                    losses.all().count(),
                    1,
                    "what is left out is left out for one \
                    reason"
                );
                continue;
            };
            let mut again = Losses::default();
            prop_assert_eq!(format.says.reduce(&once, &mut again), Some(once), "{}", format.name);
            prop_assert_eq!(again, Losses::default(), "{}", format.name);
            prop_assert!(
                once.offset_bytes <= record.offset_bytes && once.end_bytes() >= record.end_bytes(),
                "{}: {:?}",
                format.name,
                once
            );
        }
    }
}

#[test]
fn what_is_lost_is_counted() {
    let format = format("tencent").expect("the format is in the table");
    let whole = TraceRecord {
        process: 7,
        fua: true,
        response: Some(Nanos::from_ns(1)),
        think: Some(Nanos::from_ns(1)),
        ..record(0, 1_500_000_000, 3, Operation::Write, 1000, 24)
    };
    let records = [
        whole,
        record(0, 0, 0, Operation::Flush, 0, 0),
        record(0, 0, 0, Operation::Discard, 0, 512),
        record(0, 0, 0, Operation::Zero, 0, 512),
    ];
    let (bytes, _, losses) = write(format, &records);
    assert_eq!(String::from_utf8(bytes).expect("it is text"), "1,1,1,1,3\n");
    let all = [
        Loss::Flush,
        Loss::Discard,
        Loss::Zero,
        Loss::Fua,
        Loss::Process,
        Loss::Response,
        Loss::Think,
        Loss::Time,
    ];
    let address = [(Loss::Address, 1)];
    assert_eq!(
        losses.all().collect::<Vec<_>>(),
        all.map(|loss| (loss, 1)).into_iter().chain(address).collect::<Vec<_>>()
    );
}

#[test]
fn samples_that_are_written_again_are_still_detected() {
    for sample in samples() {
        let (bytes, _, losses) = write(sample.format, &sample.records);
        let detection = detect("written", &bytes, true).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(detection.format.name, sample.format.name);
        let lost: Vec<_> = losses
            .all()
            .filter(|(loss, _)| !matches!(loss, Loss::Address | Loss::Device))
            .collect();
        assert_eq!(lost, [], "{} says all that its own sample says", sample.format.name);
    }
}
