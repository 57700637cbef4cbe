//! The latency map of a server's drive: saved, loaded and shown while it serves ([`MapKeeper`]),
//! and saved by itself.
//!
//! The map has a file when `belief` names one. It is restored from there at the start and saved
//! there at the end, and every so often in between, because a server that is killed has no end. A
//! file that was refused at the start is left alone by all of that: nothing is saved by itself
//! until it is out of the way.

mod figures;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headtime_belief::maps::{BeginError, KeptMap};
use headtime_io::{DriveHandle, LoadMapError, Loaded, MapFileError, NoMap, read_map, write_map};
use headtime_units::ByteSize;
use serde::{Deserialize, Serialize};

pub use figures::{
    CompactFigures, Exceeded, MapFigures, MapFiguresOfKind, MatrixFigures, exceeded,
};

/// When the map is saved into its file by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapSaving {
    /// At the end, and every so often before.
    Every(Duration),
    /// At the end only.
    End,
    /// Only when somebody says so.
    Never,
}

impl Default for MapSaving {
    /// Every ten minutes (guess: what a map learns in less is soon learned again).
    fn default() -> Self {
        Self::Every(Duration::from_secs(600))
    }
}

/// Saves, loads and shows the map of a running drive.
pub struct MapKeeper {
    drive: DriveHandle,
    saving: MapSaving,
    /// Held while a map is written: one after the other, because the later one has seen more.
    writing: Mutex<()>,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    saved: Option<(Instant, MapSaved)>,
    /// Completions that the belief had learned from then.
    samples: u64,
    failed: Option<String>,
    /// Whether this program has written the map's own file, so that what is there is no longer what
    /// was refused at the start.
    own_written: bool,
}

/// A map that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapSaved {
    /// Where.
    pub file: PathBuf,
    /// Its bytes.
    pub bytes: u64,
}

/// A map that was loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapLoaded {
    /// From where.
    pub file: PathBuf,
    /// What merging did; `None` where the map was replaced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub merged: Option<MapMerged>,
    /// What is known now.
    pub map: MapFigures,
}

/// What merging did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapMerged {
    /// Pairs that were unknown before.
    pub new: u64,
    /// Pairs whose time became longer.
    pub raised: u64,
    /// Pairs whose time was as long already.
    pub kept: u64,
    /// Pairs that the map does not cover.
    pub not_covered: u64,
}

/// How the map is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapFileStatus {
    /// Its file, if it has one.
    pub file: Option<PathBuf>,
    /// Whether it began with that.
    pub restored: bool,
    /// Why not, where there was one.
    pub refused: Option<String>,
    /// When it was last saved, anywhere, in seconds before now.
    pub saved_seconds_ago: Option<f64>,
    /// Why it was not the last time that this was tried.
    pub save_failed: Option<String>,
}

/// Why an order was not carried out. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum MapOrderError {
    /// There is no map.
    #[error(transparent)]
    NoMap(#[from] NoMap),
    /// It is not read or written.
    #[error(transparent)]
    File(#[from] MapFileError),
    /// It is not one for this drive.
    #[error("map {}: {error}", file.display())]
    Load {
        /// Where it is.
        file: PathBuf,
        /// Why not.
        error: LoadMapError,
    },
    /// Nobody said where.
    #[error("the map has no file: name one, or serve the drive with belief = {by}:FILE")]
    NoFile {
        /// What it is believed by.
        by: &'static str,
    },
    /// The path means something else to the server.
    #[error("{} is no absolute path, and the server has a working directory of its own; write the whole path", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
}

impl MapOrderError {
    /// Whether the order makes no sense, rather than having gone wrong.
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        match self {
            Self::NoMap(NoMap::NotBelieved { .. })
            | Self::NoFile { .. }
            | Self::Relative { .. } => true,
            Self::NoMap(_) => false,
            Self::File(error) => error.is_asked(),
            Self::Load { error, .. } => !matches!(error, LoadMapError::NoMap(_)),
        }
    }
}

impl MapKeeper {
    pub(crate) fn new(drive: DriveHandle, saving: MapSaving) -> Self {
        let keeper = Self { drive, saving, writing: Mutex::default(), last: Mutex::default() };
        keeper.look_for_folder();
        keeper
    }

    /// A map that cannot be saved is better found out now than when it has been learned.
    fn look_for_folder(&self) {
        let believed = self.drive.believed();
        let Some(file) = believed.file.as_ref().filter(|_| self.saving != MapSaving::Never) else {
            return;
        };
        let folder =
            file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let failed = format!(
                "{} is no folder, so that {} cannot be written; make it, and the map is saved \
                    there",
                folder.display(),
                file.display()
            );
            tracing::warn!("the latency map is not saved: {failed}");
            self.lock().failed = Some(failed);
        }
    }

    /// What the map knows.
    ///
    /// # Errors
    /// [`NoMap`].
    pub fn show(&self) -> Result<MapFigures, NoMap> {
        self.drive.map().map(|map| MapFigures::of_running(&map))
    }

    /// How it is kept; `None` where there is no map.
    #[must_use]
    pub fn kept(&self) -> Option<MapFileStatus> {
        let believed = self.drive.believed();
        believed.map.as_ref()?;
        let last = self.lock();
        Some(MapFileStatus {
            file: believed.file.clone(),
            restored: believed.restored,
            refused: believed.refused.clone().filter(|_| !last.own_written),
            saved_seconds_ago: last.saved.as_ref().map(|(at, _)| at.elapsed().as_secs_f64()),
            save_failed: last.failed.clone(),
        })
    }

    /// Saves the map into `to`, or into its own file; another file that is there is replaced with
    /// `force` only, and only if it is a map of the same drive.
    ///
    /// # Errors
    /// See [`MapOrderError`]; what was there is as it was.
    pub fn save(&self, to: Option<&Path>, force: bool) -> Result<MapSaved, MapOrderError> {
        let believed = self.drive.believed();
        let own = believed.file.as_deref();
        let path = match to.or(own) {
            None => {
                self.drive.map()?;
                return Err(MapOrderError::NoFile { by: believed.by });
            }
            Some(path) if to.is_some() && !path.is_absolute() => {
                return Err(MapOrderError::Relative { path: path.to_owned() });
            }
            Some(path) => path,
        };
        let samples = self.drive.snapshot().belief.samples;
        let map = self.drive.map()?.keep();
        // Its own file, as long as it is: what was refused there is somebody else's.
        let replace =
            force || (Some(path) == own && (believed.refused.is_none() || self.lock().own_written));
        self.write(path, &map, replace, samples)
    }

    /// Goes by the map in a file from now on instead of what was learned, or, to `merge`, by both.
    ///
    /// # Errors
    /// See [`MapOrderError`]; nothing was changed then.
    pub fn load(&self, from: &Path, merge: bool) -> Result<MapLoaded, MapOrderError> {
        if !from.is_absolute() {
            return Err(MapOrderError::Relative { path: from.to_owned() });
        }
        let believed = self.drive.believed();
        let settings = believed.map.as_ref().ok_or(NoMap::NotBelieved { by: believed.by })?;
        // What is merged is only looked at, and may be larger than what is kept.
        let memory = if merge { ByteSize::new(u64::MAX) } else { settings.memory };
        let map = read_map(from, memory)?;
        let loaded = self
            .drive
            .load_map(map, merge)
            .map_err(|error| MapOrderError::Load { file: from.to_owned(), error })?;
        let merged = match loaded {
            Loaded::Replaced => None,
            Loaded::Merged(merged) => Some(MapMerged {
                new: merged.new,
                raised: merged.raised,
                kept: merged.kept,
                not_covered: merged.not_covered,
            }),
        };
        Ok(MapLoaded { file: from.to_owned(), merged, map: self.show()? })
    }

    /// How long until it is time to save by itself; `None` where that is never before the end.
    pub(crate) fn saves_every(&self) -> Option<Duration> {
        match self.saving {
            MapSaving::Every(time) if self.own_file().is_some() => Some(time),
            _ => None,
        }
    }

    /// Saves what was learned since the last time, if anything was.
    pub(crate) fn save_by_itself(&self) {
        let Some(path) = self.own_file() else { return };
        let samples = self.drive.snapshot().belief.samples;
        if self.lock().saved.is_some() && samples == self.lock().samples {
            return;
        }
        match self.drive.map() {
            Ok(map) => self.write_by_itself(&path, &map.keep(), samples),
            Err(error) => tracing::warn!("the latency map is not saved: {error}"),
        }
    }

    /// The map as it is to be saved in the end, taken while the drive is still there.
    pub(crate) fn take_last(&self) -> Option<LastMap> {
        let path = self.own_file().filter(|_| self.saving != MapSaving::Never)?;
        let samples = self.drive.snapshot().belief.samples;
        match self.drive.map() {
            Ok(map) => Some(LastMap { path, map: map.keep(), samples }),
            Err(error) => {
                tracing::warn!("the latency map is not saved: {error}");
                None
            }
        }
    }

    /// Saves what was taken.
    pub(crate) fn save_last(&self, last: &LastMap) {
        self.write_by_itself(&last.path, &last.map, last.samples);
    }

    fn write_by_itself(&self, path: &Path, map: &KeptMap, samples: u64) {
        if let Err(error) = self.write(path, map, true, samples) {
            tracing::warn!("the latency map is not saved: {error}");
        }
    }

    fn write(
        &self,
        path: &Path,
        map: &KeptMap,
        replace: bool,
        samples: u64,
    ) -> Result<MapSaved, MapOrderError> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write_map(path, map, replace);
        let mut last = self.lock();
        match written {
            Ok(bytes) => {
                let saved = MapSaved { file: path.to_owned(), bytes };
                let own_written =
                    last.own_written || self.drive.believed().file.as_deref() == Some(path);
                *last = Last {
                    saved: Some((Instant::now(), saved.clone())),
                    samples,
                    failed: None,
                    own_written,
                };
                Ok(saved)
            }
            Err(error) => {
                last.failed = Some(error.to_string());
                Err(error.into())
            }
        }
    }

    /// The map's own file, unless what is there was refused at the start and still is there.
    fn own_file(&self) -> Option<PathBuf> {
        let believed = self.drive.believed();
        let path = believed.file.clone()?;
        (believed.refused.is_none() || self.lock().own_written || !path.exists()).then_some(path)
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A map that is saved when its drive is closed.
pub(crate) struct LastMap {
    path: PathBuf,
    map: KeptMap,
    samples: u64,
}

impl From<BeginError> for MapOrderError {
    fn from(error: BeginError) -> Self {
        Self::Load { file: PathBuf::new(), error: error.into() }
    }
}
