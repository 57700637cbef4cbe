//! What fuzzing does with everything that reads what others wrote: one table of targets for
//! cargo-fuzz (`fuzz/`) and for ordinary tests.
//!
//! A target takes any bytes. It must not panic, must end, and must not take memory beyond
//! [`FuzzTarget::memory`]; what it asserts beyond that stands in its file. The corpora in
//! `fuzz/corpus/TARGET` run as tests on a stable compiler, each file as it is and mutated by a
//! fixed seed (`tests/corpora.rs`), so that a finding that was put there never comes back.
//! Searching for new ones is `make fuzz`; what it comes by lies in `fuzz/found`, and what broke
//! something in `fuzz/artifacts`.

mod targets;

pub use targets::TARGETS;

/// One thing that reads bytes from outside.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// Its name: of the fuzz target, of its corpus folder, and of its line here.
    pub name: &'static str,
    /// What is read.
    pub about: &'static str,
    /// Folders in the repository with further samples, beside its corpus.
    pub samples: &'static [&'static str],
    /// Most bytes of memory in use at once beyond what was in use before: a number for a reader
    /// that keeps what it reads, times the input, and what it takes in any case.
    pub memory: Memory,
    /// Reads them.
    pub run: fn(&[u8]),
}

/// A bound on memory, linear in the length of the input.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// In any case.
    pub base: usize,
    /// For each byte of input.
    pub per_byte: usize,
}

impl Memory {
    /// The bound for an input of so many bytes.
    #[must_use]
    pub fn of(self, input_bytes: usize) -> usize {
        self.base + self.per_byte * input_bytes
    }
}

impl FuzzTarget {
    /// The target of this name.
    ///
    /// # Panics
    /// When there is none: the name stands in a file of `fuzz/fuzz_targets` only.
    #[must_use]
    pub fn find(name: &str) -> &'static Self {
        TARGETS
            .iter()
            .find(|target| target.name == name)
            .unwrap_or_else(|| panic!("no fuzz target is called {name}; TARGETS has their names"))
    }
}

/// Runs a target; what `fuzz/fuzz_targets/NAME.rs` calls.
///
/// # Panics
/// When the input breaks what the target promises.
pub fn run(name: &str, input: &[u8]) {
    (FuzzTarget::find(name).run)(input);
}
