//! What tells one thing from another without keeping all of it: profiles, cells, and the program
//! itself.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The 64-bit FNV-1a hash (Fowler, Noll and Vo): the same on every machine and in every version of
/// the compiler, which names of files must be.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The version of the program and the checksum of its file, as `0.1.0+89abcdef`: a scheduler that
/// is being worked on changes without its version.
///
/// # Errors
/// When the program cannot read its own file.
pub fn build() -> io::Result<String> {
    build_of(Path::new("/proc/self/exe"))
}

/// The same for the file of a shared library.
///
/// # Errors
/// When the file cannot be read.
pub fn build_of(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let (mut sum, mut buffer) = (0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{}+{sum:08x}", env!("CARGO_PKG_VERSION"))),
            count => sum = crc32c::crc32c_append(sum, &buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(
            (fnv(b""), fnv(b"a"), fnv(b"foobar")),
            (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8)
        );
    }

    #[test]
    fn one_program_is_one_build() {
        let first = build().expect("a test can read itself");
        assert_eq!(first, build().expect("a test can read itself"));
        assert!(first.starts_with(env!("CARGO_PKG_VERSION")) && first.contains('+'), "{first}");
    }
}
