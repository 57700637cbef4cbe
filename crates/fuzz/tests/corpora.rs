//! Runs every file of every corpus, unchanged and mutated with a fixed seed, and checks the memory
//! bound of its target.

use std::alloc::System;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use cap::Cap;
use headtime_fuzz::{FuzzTarget, TARGETS};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The number of mutations of each sample.
const MUTATIONS: u32 = 200;
/// The maximum length of a mutated input.
const LONGEST: usize = 128 << 10;

/// One test for everything: the measured memory is that of the process, so nothing else may run
/// beside it.
#[test]
fn no_sample_and_no_mutation_of_one_breaks_its_target() {
    assert!(
        breaks(&HUNGRY, &[1; 100]).is_some_and(|why| why.contains("bytes of memory")),
        "a target that takes too much memory is noticed"
    );
    let mut inputs = 0;
    for target in TARGETS {
        let samples = samples(target);
        assert!(
            !samples.is_empty(),
            "{} has no sample; put one into fuzz/corpus/{}",
            target.name,
            target.name
        );
        for (number, (path, sample)) in samples.iter().enumerate() {
            check(target, sample, &path.display().to_string());
            let mut rng = ChaCha8Rng::seed_from_u64(number as u64);
            for mutation in 0..MUTATIONS {
                let other = &samples[rng.random_range(0..samples.len())].1;
                let input = mutated(sample, other, &mut rng);
                check(target, &input, &format!("mutation {mutation} of {}", path.display()));
            }
            inputs += 1 + MUTATIONS;
        }
    }
    println!("{inputs} inputs for {} targets", TARGETS.len());
}

#[test]
fn every_target_has_its_file_for_cargo_fuzz_and_every_file_its_target() {
    let files = |folder: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
        entries
            .map(|entry| {
                entry
                    .expect("readable")
                    .path()
                    .file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    };
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(files("fuzz/fuzz_targets"), names);
    assert_eq!(files("fuzz/corpus"), names, "each target has a corpus");
    let manifest =
        std::fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("fuzz/Cargo.toml is there");
    for name in &names {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} has no [[bin]] in fuzz/Cargo.toml"
        );
        let text = std::fs::read_to_string(root().join(format!("fuzz/fuzz_targets/{name}.rs")))
            .expect("it is there");
        assert!(
            text.contains(&format!("\"{name}\"")),
            "fuzz/fuzz_targets/{name}.rs runs another target"
        );
    }
}

const HUNGRY: FuzzTarget = FuzzTarget {
    name: "hungry",
    about: "a target that keeps its word badly",
    samples: &[],
    memory: headtime_fuzz::Memory { base: 1 << 20, per_byte: 1 },
    run: |input| drop(std::hint::black_box(vec![1_u8; (64 << 20) + input.len()])),
};

fn check(target: &FuzzTarget, input: &[u8], what: &str) {
    if let Some(why) = breaks(target, input) {
        let kept = std::env::temp_dir().join(format!(
            "headtime-fuzz-{}-{:08x}",
            target.name,
            crc32c::crc32c(input)
        ));
        let saved = std::fs::write(&kept, input).map_or_else(
            |error| format!("could not be kept: {error}"),
            |()| kept.display().to_string(),
        );
        panic!(
            "{} is broken by {what}: {why}; the input: {saved}, to be put into fuzz/corpus/{} once \
                it is mended",
            target.name, target.name
        );
    }
}

/// The error of the target on the input, if there is one.
fn breaks(target: &FuzzTarget, input: &[u8]) -> Option<String> {
    let before = ALLOCATOR.allocated();
    let peak_before = ALLOCATOR.max_allocated();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        return Some(text.unwrap_or_else(|| "it panics".to_owned()));
    }
    let peak = ALLOCATOR.max_allocated();
    // The peak covers the whole process so far, so it concerns this input only if it rose.
    let taken = if peak > peak_before { peak.saturating_sub(before) } else { 0 };
    let bound = target.memory.of(input.len());
    (taken > bound).then(|| {
        format!(
            "{taken} bytes of memory for {} bytes of input, and {bound} is the bound",
            input.len()
        )
    })
}

fn samples(target: &FuzzTarget) -> Vec<(PathBuf, Vec<u8>)> {
    let corpus = format!("fuzz/corpus/{}", target.name);
    let folders = [corpus.as_str()].into_iter().chain(target.samples.iter().copied());
    let mut samples = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(root().join(folder))
            .unwrap_or_else(|error| panic!("{folder}: {error}"));
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.is_file())
            .collect();
        paths.sort();
        samples.extend(paths.into_iter().map(|path| {
            let bytes = std::fs::read(&path).expect("readable");
            (path.strip_prefix(root()).expect("below the root").to_owned(), bytes)
        }));
    }
    samples
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository's root")
}

/// One to four small changes, of the kind that break parsers.
fn mutated(sample: &[u8], other: &[u8], rng: &mut impl Rng) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..rng.random_range(1..=4) {
        let at = rng.random_range(0..=bytes.len());
        let length = rng.random_range(0..=(bytes.len() - at).min(64));
        match rng.random_range(0..8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = ODD[rng.random_range(0..ODD.len())],
            2 => drop(bytes.drain(at..at + length)),
            3 => {
                let again = bytes[at..at + length].to_vec();
                bytes.splice(at..at, again);
            }
            4 => bytes.truncate(at),
            5 => {
                let from = rng.random_range(0..=other.len());
                let to = (from + 64).min(other.len());
                bytes.splice(at..at + length, other[from..to].iter().copied());
            }
            6 => drop(
                bytes.splice(at..at + length, NUMBERS[rng.random_range(0..NUMBERS.len())].bytes()),
            ),
            _ => drop(bytes.splice(
                at..(at + 8).min(bytes.len()),
                u64::MAX.to_be_bytes().into_iter().skip(rng.random_range(0..8)),
            )),
        }
    }
    bytes.truncate(LONGEST);
    bytes
}

const ODD: &[u8] = &[0, 1, 0x7f, 0x80, 0xff, b'0', b'9', b'-', b'.', b',', b'[', b'"', b'\n', b' '];
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1e300",
    "18446744073709551615",
    "9223372036854775808",
    "4294967296",
    "nan",
    "1e-300",
    "0.0000001",
    "99999999999",
];
