//! [`MapKeeper`]: saves, loads and shows the latency map of a running server's drive.
//!
//! The map has a file if `model` names one. It is restored from the file at the start and saved at
//! the end, and periodically in between in case the server is killed. A file that was refused at
//! the start is never overwritten automatically.

mod figures;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headtime_belief::maps::KeptMap;
use headtime_belief::matrix::SharedMatrix;
use headtime_io::files::Existing;
use headtime_io::{
    DriveHandle, ExchangeMode, FileVersion, LoadMapError, MapExchange, MapFileError, MapLoad,
    MapLoading, NoMap, RunningMap, exchange_map, read_map, write_map,
};
use headtime_units::ByteSize;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use figures::{
    CompactFigures, Exceeded, MapFigures, MapFiguresOfKind, MatrixFigures, MatrixUses, exceeded,
};

/// The times at which the map is saved automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapSaving {
    /// At the end, and periodically before.
    Every(Duration),
    /// At the end only.
    End,
    /// Only by command.
    Never,
}

impl Default for MapSaving {
    /// Every ten minutes (guess: a map soon learns again what it learned in less time).
    fn default() -> Self {
        Self::Every(Duration::from_secs(600))
    }
}

/// The users of a map's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapSharing {
    /// This server alone: a save replaces the file.
    #[default]
    Own,
    /// Servers of other drives of the model, too: a save merges the map with the file.
    Shared,
}

/// Saves, loads and shows the map of a running drive.
pub struct MapKeeper {
    drive: DriveHandle,
    saving: MapSaving,
    sharing: MapSharing,
    /// Serializes saves, so that an older map never replaces a newer one.
    writing: Mutex<()>,
    last: Mutex<SaveState>,
}

#[derive(Default)]
struct SaveState {
    saved: Option<(Instant, MapSaved)>,
    /// The number of completions that the model had learned from at the last save.
    samples: u64,
    failed: Option<String>,
    /// This program has written the map's own file, so it no longer has the refused content.
    own_written: bool,
    /// The version of a shared file at the last exchange.
    version: Option<FileVersion>,
    /// The pairs that became known or longer by entries of other servers.
    received: u64,
}

/// The result of saving a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapSaved {
    /// The file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// The result of loading a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapLoaded {
    /// The file.
    pub file: PathBuf,
    /// The result of merging; `None` if the map was replaced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub merged: Option<MapMerged>,
    /// The contents of the map afterwards.
    pub map: MapFigures,
}

/// The result of merging two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapMerged {
    /// Pairs without a time before.
    pub new: u64,
    /// Pairs with a longer time.
    pub raised: u64,
    /// Pairs with an unchanged time.
    pub kept: u64,
    /// Pairs outside the map.
    pub not_covered: u64,
}

/// The state of a map's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapFileStatus {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// The map was restored from the file at the start.
    pub restored: bool,
    /// The reason why the file was refused at the start.
    pub refused: Option<String>,
    /// A setting that the restored map keeps otherwise, and both values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ignored: Option<String>,
    /// The time since the last save to any file.
    pub saved_seconds_ago: Option<f64>,
    /// The pairs that became known or longer by the entries of other servers; `None` for a file of
    /// this server alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub received_pairs: Option<u64>,
    /// The reason why the last save failed.
    pub save_failed: Option<String>,
}

/// The reason why a command failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum MapOrderError {
    /// The drive has no map.
    #[error(transparent)]
    NoMap(#[from] NoMap),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] MapFileError),
    /// The map does not fit the drive.
    #[error("map {}: {error}", file.display())]
    Load { file: PathBuf, error: LoadMapError },
    /// The map has no file of its own.
    #[error("the map has no file; name one, or serve the drive with model = {by}:FILE")]
    NoFile { by: &'static str },
    #[error(
        "{} is not an absolute path, and the server has its own working directory; write the whole \
            path",
        path.display()
    )]
    Relative { path: PathBuf },
}

impl MapOrderError {
    /// Returns whether the command was invalid, as opposed to having failed.
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        match self {
            Self::NoMap(NoMap::NoMapModel { .. }) | Self::NoFile { .. } | Self::Relative { .. } => {
                true
            }
            Self::NoMap(_) => false,
            Self::File(error) => error.is_asked(),
            Self::Load { error, .. } => !matches!(error, LoadMapError::NoMap(_)),
        }
    }
}

impl MapKeeper {
    pub(crate) fn new(drive: DriveHandle, saving: MapSaving, sharing: MapSharing) -> Self {
        let (writing, last) = (Mutex::default(), Mutex::default());
        let keeper = Self { drive, saving, sharing, writing, last };
        keeper.check_directory();
        keeper
    }

    /// Warns at the start if the map could not be saved later.
    fn check_directory(&self) {
        let model = self.drive.model();
        let Some(file) = model.file.as_ref().filter(|_| self.saving != MapSaving::Never) else {
            return;
        };
        let folder =
            file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let failed = format!(
                "{} is not a directory, so {} cannot be written; create it, and the map is saved \
                    there",
                folder.display(),
                file.display()
            );
            tracing::warn!("the latency map is not saved: {failed}");
            self.last.lock().failed = Some(failed);
        }
    }

    /// The contents of the map.
    pub fn show(&self) -> Result<MapFigures, NoMap> {
        self.drive.map().map(|map| MapFigures::of_running(&map))
    }

    /// The state of the map's file; `None` without a map.
    #[must_use]
    pub fn kept(&self) -> Option<MapFileStatus> {
        let model = self.drive.model();
        model.map.as_ref()?;
        let last = self.last.lock();
        Some(MapFileStatus {
            file: model.file.clone(),
            restored: model.restored,
            refused: model.refused.clone().filter(|_| !last.own_written),
            ignored: model.ignored.clone(),
            saved_seconds_ago: last.saved.as_ref().map(|(at, _)| at.elapsed().as_secs_f64()),
            received_pairs: (self.sharing == MapSharing::Shared).then_some(last.received),
            save_failed: last.failed.clone(),
        })
    }

    /// Saves the map to `to`, or to its own file. Another existing file is replaced only with
    /// `force`, and only if it is a map of the same drive.
    ///
    /// # Errors
    /// See [`MapOrderError`]; the existing file is unchanged then.
    pub fn save(&self, to: Option<&Path>, force: bool) -> Result<MapSaved, MapOrderError> {
        let model = self.drive.model();
        let own = model.file.as_deref();
        let path = match to.or(own) {
            None => {
                self.drive.map()?;
                return Err(MapOrderError::NoFile { by: model.by });
            }
            Some(path) if to.is_some() && !path.is_absolute() => {
                return Err(MapOrderError::Relative { path: path.to_owned() });
            }
            Some(path) => path,
        };
        let samples = self.drive.snapshot().belief.samples;
        let running = self.drive.map()?;
        if let (Some(_), RunningMap::Matrix(matrix)) = (self.shared_file(path), &running) {
            return self.exchange(path, matrix, samples, ExchangeMode::ReadAndWrite);
        }
        let map = running.keep();
        // Its own file needs no `force`, unless it was refused at the start.
        let replace = force
            || (Some(path) == own && (model.refused.is_none() || self.last.lock().own_written));
        self.write(path, &map, replace, samples)
    }

    /// Replaces the learned map by the map in a file, or merges the two.
    ///
    /// # Errors
    /// See [`MapOrderError`]; nothing was changed then.
    pub fn load(&self, from: &Path, merge: bool) -> Result<MapLoaded, MapOrderError> {
        if !from.is_absolute() {
            return Err(MapOrderError::Relative { path: from.to_owned() });
        }
        let model = self.drive.model();
        let settings = model.map.as_ref().ok_or(NoMap::NoMapModel { by: model.by })?;
        // A merged file is only read, so it may exceed the memory limit.
        let memory = if merge { ByteSize::new(u64::MAX) } else { settings.memory };
        let map = read_map(from, memory)?;
        let loaded = self
            .drive
            .load_map(map, if merge { MapLoading::Merge } else { MapLoading::Replace })
            .map_err(|error| MapOrderError::Load { file: from.to_owned(), error })?;
        let merged = match loaded {
            MapLoad::Replaced => None,
            MapLoad::Merged(merged) => Some(MapMerged {
                new: merged.new,
                raised: merged.raised,
                kept: merged.kept,
                not_covered: merged.not_covered,
            }),
        };
        Ok(MapLoaded { file: from.to_owned(), merged, map: self.show()? })
    }

    /// The interval of automatic saves, if there are any before the end.
    pub(crate) fn saves_every(&self) -> Option<Duration> {
        match self.saving {
            MapSaving::Every(time) if self.own_file().is_some() => Some(time),
            _ => None,
        }
    }

    /// Saves the map if it has learned anything since the last save.
    pub(crate) fn save_automatically(&self) {
        let Some(path) = self.own_file() else { return };
        let samples = self.drive.snapshot().belief.samples;
        if self.shared_file(&path).is_some() {
            return self.exchange_automatically(&path, samples);
        }
        if self.last.lock().saved.is_some() && samples == self.last.lock().samples {
            return;
        }
        match self.drive.map() {
            Ok(map) => log(self.write(&path, &map.keep(), true, samples)),
            Err(error) => tracing::warn!("the latency map is not saved: {error}"),
        }
    }

    /// Copies the map for the last save, while the drive is open.
    pub(crate) fn copy_for_last_save(&self) -> Option<MapCopy> {
        let path = self.own_file().filter(|_| self.saving != MapSaving::Never)?;
        let samples = self.drive.snapshot().belief.samples;
        match self.drive.map() {
            Ok(map) => Some(MapCopy { path, map: map.keep(), samples }),
            Err(error) => {
                tracing::warn!("the latency map is not saved: {error}");
                None
            }
        }
    }

    /// Saves the copied map.
    pub(crate) fn save_last(&self, last: &MapCopy) {
        match &last.map {
            KeptMap::Matrix(map) if self.shared_file(&last.path).is_some() => {
                let (map, mode) = (SharedMatrix::new((**map).clone()), self.mode(last.samples));
                log(self.exchange(&last.path, &map, last.samples, mode));
            }
            map => log(self.write(&last.path, map, true, last.samples)),
        }
    }

    /// Exchanges entries with a shared file, unless neither side has changed since the last time.
    fn exchange_automatically(&self, path: &Path, samples: u64) {
        let mode = self.mode(samples);
        let version = FileVersion::of(path);
        if mode == ExchangeMode::Read && version.is_some() && version == self.last.lock().version {
            return;
        }
        match self.drive.map() {
            Ok(RunningMap::Matrix(map)) => log(self.exchange(path, &map, samples, mode)),
            Ok(RunningMap::Compact(_)) => {}
            Err(error) => tracing::warn!("the latency map is not saved: {error}"),
        }
    }

    /// Without new observations there is nothing to write. Otherwise servers that rest would
    /// replace each other's file for ever.
    fn mode(&self, samples: u64) -> ExchangeMode {
        if samples == self.last.lock().samples {
            ExchangeMode::Read
        } else {
            ExchangeMode::ReadAndWrite
        }
    }

    fn exchange(
        &self,
        path: &Path,
        map: &SharedMatrix,
        samples: u64,
        mode: ExchangeMode,
    ) -> Result<MapSaved, MapOrderError> {
        let _one_at_a_time = self.writing.lock();
        let model = self.drive.model();
        let memory = model.map.as_ref().ok_or(NoMap::NoMapModel { by: model.by })?.memory;
        let exchanged = exchange_map(path, map, memory, mode);
        let mut last = self.last.lock();
        match exchanged {
            Ok(MapExchange { merged, bytes, version }) => {
                let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
                let saved = MapSaved { file: path.to_owned(), bytes: bytes.unwrap_or(size) };
                last.received += merged.new + merged.raised;
                last.saved = Some((Instant::now(), saved.clone()));
                (last.samples, last.failed, last.own_written) = (samples, None, true);
                last.version = version;
                Ok(saved)
            }
            Err(error) => {
                last.failed = Some(error.to_string());
                Err(error.into())
            }
        }
    }

    /// `path`, if it is the file that is shared.
    fn shared_file<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let own = self.drive.model().file.as_deref() == Some(path);
        (own && self.sharing == MapSharing::Shared && self.own_file().is_some()).then_some(path)
    }

    fn write(
        &self,
        path: &Path,
        map: &KeptMap,
        replace: bool,
        samples: u64,
    ) -> Result<MapSaved, MapOrderError> {
        let _one_at_a_time = self.writing.lock();
        let written =
            write_map(path, map, if replace { Existing::Replace } else { Existing::Keep });
        let mut last = self.last.lock();
        match written {
            Ok(bytes) => {
                let saved = MapSaved { file: path.to_owned(), bytes };
                let own_written =
                    last.own_written || self.drive.model().file.as_deref() == Some(path);
                last.saved = Some((Instant::now(), saved.clone()));
                (last.samples, last.failed, last.own_written) = (samples, None, own_written);
                Ok(saved)
            }
            Err(error) => {
                last.failed = Some(error.to_string());
                Err(error.into())
            }
        }
    }

    /// The map's own file, unless it still has content that was refused at the start.
    fn own_file(&self) -> Option<PathBuf> {
        let model = self.drive.model();
        let path = model.file.clone()?;
        (model.refused.is_none() || self.last.lock().own_written || !path.exists()).then_some(path)
    }
}

fn log(saved: Result<MapSaved, MapOrderError>) {
    if let Err(error) = saved {
        tracing::warn!("the latency map is not saved: {error}");
    }
}

/// A copy of the map for the last save.
pub(crate) struct MapCopy {
    path: PathBuf,
    map: KeptMap,
    samples: u64,
}
