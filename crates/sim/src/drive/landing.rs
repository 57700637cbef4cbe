//! [`Landing`]: what happened to the sectors themselves, for models of what the platters and the
//! cache hold.

use headtime_sched::{CommandId, Op};
use headtime_units::{Extent, Instant};

/// Sectors that were read or written, or are certain to be. Landings come in the order in which
/// they take effect.
///
/// | command | op | layer | what happens to the sectors |
/// |---|---|---|---|
/// | some | read | media | the command sees what the media hold |
/// | some | read | cache | the command sees what the cache holds |
/// | some | write, zero | media | the command's version is on the media at `at` |
/// | some | write, zero | cache | the command's version is in the cache, and gone should power fail before it is saved |
/// | none | read | cache | the cache copies what the media hold |
/// | none | write | media | what the cache holds is on the media at `at` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Of which command; none for what the drive does by itself.
    pub command: Option<CommandId>,
    /// What was done.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// When it is done.
    pub at: Instant,
    /// Where the data come from (a read) or go to (a write).
    pub layer: StorageLayer,
}

/// What holds sectors in a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageLayer {
    /// The platters, which keep them.
    Media,
    /// The buffer memory, which power loss empties.
    Cache,
}
