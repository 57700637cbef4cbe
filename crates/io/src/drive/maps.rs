//! Reading and replacing the map of a running drive.

use headtime_belief::maps::{BeginError, KeptMap, MapKind};

use crate::drive::handle::DriveHandle;
use crate::engine::mailbox::Message;
use crate::model::{LoadMapError, MapLoad, MapLoading, NoMap, PATIENCE, RunningMap};

impl DriveHandle {
    /// Returns the map of the drive model.
    ///
    /// # Errors
    /// See [`NoMap`].
    ///
    /// # Panics
    /// When called from a completion callback, for which the engine waits.
    pub fn map(&self) -> Result<RunningMap, NoMap> {
        self.link.expect_not_a_callback();
        let by = self.model().by;
        if self.model().map.is_none() {
            return Err(NoMap::NoMapModel { by });
        }
        let (show, shown) = std::sync::mpsc::sync_channel(1);
        self.link.send(Message::ShowMap(Box::new(move |map| {
            // The caller may have stopped waiting.
            let _ = show.send(map);
        })))?;
        match shown.recv_timeout(PATIENCE) {
            Ok(Some(map)) => Ok(map),
            Ok(None) => Err(NoMap::NoMapModel { by }),
            Err(_) => Err(NoMap::Silent),
        }
    }

    /// Loads `map`. It replaces the present map or, with [`MapLoading::Merge`], is added to it.
    /// Queued requests stay queued. A matrix that is shared with other drives is replaced for all
    /// of them if the new one has the same cells and entries. Otherwise the new matrix belongs to
    /// this drive alone.
    ///
    /// # Errors
    /// See [`LoadMapError`]; nothing was changed then.
    ///
    /// # Panics
    /// As [`DriveHandle::map`].
    pub fn load_map(&self, map: KeptMap, how: MapLoading) -> Result<MapLoad, LoadMapError> {
        let (running, model) = (self.map()?, self.model());
        let settings = model.map.as_ref().ok_or(NoMap::NoMapModel { by: model.by })?;
        match (running, map) {
            (RunningMap::Compact(_), KeptMap::Compact(_)) if how == MapLoading::Merge => {
                Err(LoadMapError::NotMerged)
            }
            (RunningMap::Matrix(shared), KeptMap::Matrix(map)) if how == MapLoading::Merge => {
                let merged = shared.merge(&map)?;
                // A concurrent load may have installed another map.
                match self.map()? {
                    RunningMap::Matrix(now) if now.is(&shared) => Ok(MapLoad::Merged(merged)),
                    _ => Err(LoadMapError::Meanwhile),
                }
            }
            (running, map) => {
                let kind = match running {
                    RunningMap::Matrix(_) => MapKind::Matrix,
                    RunningMap::Compact(_) => MapKind::Compact,
                };
                map.check_drive(&model.drive).map_err(BeginError::from)?;
                let map = match (running, map) {
                    (RunningMap::Matrix(shared), KeptMap::Matrix(map)) => {
                        match shared.replace(*map) {
                            Ok(()) => return Ok(MapLoad::Replaced),
                            Err(map) => KeptMap::Matrix(map),
                        }
                    }
                    (_, map) => map,
                };
                let belief = settings.resume(kind, &model.drive, map)?;
                self.link.send(Message::Believe(belief, None)).map_err(NoMap::from)?;
                Ok(MapLoad::Replaced)
            }
        }
    }
}
