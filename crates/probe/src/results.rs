//! [`Results`]: one result for each experiment. Plain data, which is saved and copied.

use serde::{Deserialize, Serialize};

use crate::arms::ActuatorResult;
use crate::cache::CacheResult;
use crate::layout::LayoutResult;
use crate::overhead::InterfaceResult;
use crate::profile::DriveModel;
use crate::queue::QueueResult;
use crate::remaps::RemapResult;
use crate::rotation::RotationResult;
use crate::seek::SeekResult;
use crate::selfcheck::CheckResult;
use crate::writes::WriteResult;

/// The results so far; a default until its experiment has run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) rotation: RotationResult,
    pub(crate) actuators: ActuatorResult,
    pub(crate) layout: LayoutResult,
    pub(crate) interface: InterfaceResult,
    pub(crate) seek: SeekResult,
    pub(crate) cache: CacheResult,
    pub(crate) writes: WriteResult,
    pub(crate) queue: QueueResult,
    pub(crate) check: CheckResult,
    pub(crate) remaps: RemapResult,
}

impl Results {
    /// The results that the second arm shares with the first, whose results these are.
    pub(crate) fn shared(&self) -> Self {
        Self {
            rotation: self.rotation.clone(),
            actuators: self.actuators.clone(),
            interface: self.interface.clone(),
            cache: self.cache.clone(),
            writes: self.writes.clone(),
            queue: self.queue.clone(),
            ..Self::default()
        }
    }

    /// The results that make a profile.
    pub(crate) fn model(&self, sector_bytes: u32) -> DriveModel<'_> {
        DriveModel {
            layout: &self.layout,
            interface: &self.interface,
            seek: &self.seek,
            cache: &self.cache,
            writes: &self.writes,
            queue: &self.queue,
            sector_bytes,
        }
    }
}

/// The state of an experiment that takes several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

/// Converts "is done".
impl From<bool> for Progress {
    fn from(done: bool) -> Self {
        if done { Self::Done } else { Self::More }
    }
}
