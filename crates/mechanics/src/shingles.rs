//! [`Shingles`]: the sizes of a shingled drive that manages itself.

use headtime_units::ByteSize;

/// The media cache and the bands of a drive that records in shingles and hides it from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shingles {
    /// The media cache, where random writes are kept until their bands are rewritten.
    pub media_cache: ByteSize,
    /// A band: tracks that overlap and can only be written from the first to the last.
    pub band: ByteSize,
}

impl Shingles {
    /// The usual size of a band. 15 to 40 MiB were found on a drive of 5 TB (Aghayev and Desnoyers,
    /// Skylight, FAST 2015).
    pub const BAND: ByteSize = ByteSize::new(32 << 20);
}
