//! [`IdHasher`]: hashes of request ids, which count up, by one folded multiplication.
//!
//! The ids are the engine's own, so no client can choose ids that collide.

use std::hash::{BuildHasherDefault, Hasher};

/// A hasher of ids, for a map.
pub(super) type BuildIdHasher = BuildHasherDefault<IdHasher>;

/// Hashes one id.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u64(&mut self, id: u64) {
        let product = u128::from(self.0 ^ id) * u128::from(GOLDEN);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
