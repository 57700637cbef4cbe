//! Fuzzing of all readers of foreign data: one table of targets for cargo-fuzz (`fuzz/`) and for
//! ordinary tests.
//!
//! A target accepts any bytes. It must not panic, must end, and must not use more memory than
//! [`FuzzTarget::memory`]; its file has further assertions. The corpora in `fuzz/corpus/TARGET` run
//! as tests on a stable compiler: each file unchanged and mutated with a fixed seed
//! (`tests/corpora.rs`), so that an old finding never returns. `make fuzz` searches for new
//! findings; interesting inputs go to `fuzz/found`, failing ones to `fuzz/artifacts`.

mod targets;

pub use targets::TARGETS;

/// One reader of foreign data.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// The name of the fuzz target, of its corpus folder, and of its line here.
    pub name: &'static str,
    /// The kind of data.
    pub about: &'static str,
    /// Folders in the repository with further samples.
    pub samples: &'static [&'static str],
    /// The maximum additional memory in use at once: a constant plus a multiple of the input for
    /// readers that keep data.
    pub memory: Memory,
    /// The function that reads the data.
    pub run: fn(&[u8]),
}

/// A bound on memory, linear in the length of the input.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The constant part in bytes.
    pub base: usize,
    /// Bytes per byte of input.
    pub per_byte: usize,
}

impl Memory {
    /// The bound for an input of this length.
    pub fn of(self, input_bytes: usize) -> usize {
        self.base + self.per_byte * input_bytes
    }
}

impl FuzzTarget {
    /// Finds a target by name.
    ///
    /// # Panics
    /// If there is none: only a file of `fuzz/fuzz_targets` has the name.
    pub fn find(name: &str) -> &'static Self {
        TARGETS
            .iter()
            .find(|target| target.name == name)
            .unwrap_or_else(|| panic!("no fuzz target is called {name}; TARGETS has their names"))
    }
}

/// Runs a target, for `fuzz/fuzz_targets/NAME.rs`.
///
/// # Panics
/// If the input violates an assertion of the target.
pub fn run(name: &str, input: &[u8]) {
    (FuzzTarget::find(name).run)(input);
}
