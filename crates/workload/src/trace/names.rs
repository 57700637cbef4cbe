//! [`Names`]: numbers for names, in the order in which they are first seen.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

/// The maximum number of names in one file.
const MAX_NAMES: usize = 65_536;

/// The maximum length of a name, as in fio; names of hosts are shorter.
const LONGEST_NAME: usize = 256;

/// Names and their numbers. Its memory is bounded: [`MAX_NAMES`] of at most [`LONGEST_NAME`]
/// bytes.
#[derive(Default)]
pub(super) struct Names {
    numbers: BTreeMap<String, u32>,
}

impl Names {
    /// The requirements for a name.
    pub(super) const EXPECTED: &str =
        "at most 256 bytes, and no more than 65536 different ones in one file";

    /// The number of this name; `None` when it is too long, or there are too many.
    pub(super) fn number(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        if name.len() > LONGEST_NAME || self.numbers.len() >= MAX_NAMES {
            return None;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(name.to_string(), number);
        Some(number)
    }
}
