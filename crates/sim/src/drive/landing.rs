//! [`Landing`]: reads and writes of sectors, for models of the contents of platters and cache.

use headtime_sched::{CommandId, Op};
use headtime_units::{Extent, Instant};

/// Sectors that were read or written, or certainly will be. Landings come in the order in which
/// they take effect.
///
/// | command | op | layer | effect |
/// |---|---|---|---|
/// | some | read | media | the command sees the contents of the media |
/// | some | read | cache | the command sees the contents of the cache |
/// | some | write, zero | media | the command's version is on the media at `at` |
/// | some | write, zero | cache | the command's version is in the cache, lost if power fails |
/// | none | read | cache | the cache copies the contents of the media |
/// | none | write | media | the contents of the cache are on the media at `at` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The command; `None` for work that the drive starts itself.
    pub command: Option<CommandId>,
    /// The operation.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// The completion time.
    pub at: Instant,
    /// The source of a read's data or the destination of a write's.
    pub layer: StorageLayer,
}

/// A place in a drive that holds sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageLayer {
    /// The platters: persistent.
    Media,
    /// The buffer memory: lost without power.
    Cache,
}
