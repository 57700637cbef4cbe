//! Traces, workload files and fio's job files: an accepted one generates requests, all of them on
//! the drive.

use headtime_units::{SectorSize, Sectors};
use headtime_workload::file::{NeedsFile, WorkloadFile};
use headtime_workload::trace::{self, FORMATS, MAX_NEEDED, Reading, Step};
use headtime_workload::{RequestSource as _, fio};

use crate::Memory;

/// Decoders keep at most a line, and the names of files and hosts.
pub(super) const TRACE_MEMORY: Memory = Memory { base: 4 << 20, per_byte: 200 };
/// A million clients are allowed.
pub(super) const WORKLOAD_MEMORY: Memory = Memory { base: 512 << 20, per_byte: 4_000 };

/// The number of requests drawn from an accepted workload.
const DRAWN: usize = 50;

/// The decoder of every format, and the detection of the format.
pub(super) fn trace(input: &[u8]) {
    let _ = trace::detect("fuzzed", input, true);
    for format in FORMATS {
        let mut decoder = (format.decoder)(&Reading::of("fuzzed"));
        let mut rest = input;
        let mut remaining = false;
        loop {
            let step = decoder.step(rest, true);
            let consumed = match step {
                Step::NeedMore => {
                    break assert!(
                        rest.is_empty(),
                        "{}: at the end of the input nothing more can be had",
                        format.name
                    );
                }
                Step::Record { consumed, .. }
                | Step::Passed { consumed }
                | Step::Blank { consumed }
                | Step::Damaged { consumed, .. } => consumed,
            };
            assert!(consumed <= rest.len(), "{}: more was consumed than there was", format.name);
            assert!(
                consumed > 0 || !remaining,
                "{}: nothing was consumed twice in a row",
                format.name
            );
            remaining = consumed == 0;
            rest = &rest[consumed..];
        }
        if input.len() >= MAX_NEEDED {
            let first = (format.decoder)(&Reading::of("fuzzed")).step(&input[..MAX_NEEDED], false);
            assert_ne!(first, Step::NeedMore, "{}: so many bytes are enough", format.name);
        }
    }
}

pub(super) fn file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match WorkloadFile::from_toml("fuzzed.toml", text) {
        Ok(file) => {
            draw(&file);
            let printed = file.to_toml();
            let again = WorkloadFile::from_toml("printed.toml", &printed)
                .unwrap_or_else(|error| panic!("what was printed is refused: {error}\n{printed}"));
            assert_eq!(again.to_toml(), printed, "what was printed reads back the same");
        }
        Err(errors) => assert!(!errors.to_string().is_empty(), "a refusal says why"),
    }
}

pub(super) fn needs(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match NeedsFile::from_toml("fuzzed.toml", text) {
        Ok(file) => {
            assert!(!file.needs.is_empty(), "a file without a need is refused");
            for need in file.needs {
                let sound = need.rate > 0.0
                    && need.size_bytes > 0
                    && need.run > 0
                    && (0.0..=1.0).contains(&need.reads);
                assert!(sound, "{need:?} can be computed with");
            }
        }
        Err(errors) => assert!(!errors.to_string().is_empty(), "a refusal says why"),
    }
}

pub(super) fn job(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match fio::read("fuzzed.fio", text) {
        Ok(file) => draw(&file),
        Err(errors) => assert!(!errors.to_string().is_empty(), "a refusal says why"),
    }
}

fn draw(file: &WorkloadFile) {
    let capacity = Sectors::new(1 << 24);
    let Ok(mut workload) = file.workload(SectorSize::B512, capacity, 1, 4) else { return };
    for _ in 0..DRAWN {
        let Some(arrival) = workload.arrival() else { break };
        assert!(
            arrival.ask.extent.end().get() <= capacity.get(),
            "{:?} lies on the drive",
            arrival.ask.extent
        );
    }
}
