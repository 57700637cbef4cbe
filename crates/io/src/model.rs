//! The drive models: the choice of the owner ([`ModelChoice`]), the model in use ([`ModelInUse`]),
//! and the map of a running drive.
//!
//! By default, a drive is modelled by its profile if it has one, and by distance otherwise. A
//! latency map can be chosen instead. It starts empty, from the profile, from a file, or as the map
//! of another drive of this process. A missing file is created later. A file that is damaged,
//! truncated, of a newer format, or of another drive is refused, logged, and not changed, and the
//! map starts without it: serving the drive with an empty map is better than not serving it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use headtime_belief::compact::CompactMap;
use headtime_belief::maps::{BeginError, KeptMap, KeptMapError, MapKind, MapSettings};
use headtime_belief::matrix::{
    LatencyMatrix, MappedDrive, MatrixBelief, MergeError, Merged, SharedMatrix,
};
use headtime_belief::{ArrayModel, DriveModel, LinearBelief};
use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::Belief;
use headtime_units::{SectorSize, Sectors};

use crate::locator::{Locator, ProfileSource};
use crate::map_file::{MapFileError, read_map};
use crate::open_error::OpenError;
use crate::profile::{self, ReportedModel};
use crate::request::SubmitError;

/// The choice of the drive model.
#[derive(Clone, Debug, Default)]
pub struct ModelChoice {
    /// The source of the model.
    pub by: ModelSource,
    /// The settings of a map.
    pub settings: MapSettings,
}

/// The source of the drive model.
#[derive(Clone, Debug, Default)]
pub enum ModelSource {
    /// The profile if there is one, distance otherwise.
    #[default]
    Profile,
    /// A latency map.
    Map {
        /// The kind.
        kind: MapKind,
        /// The initial contents.
        start: MapStart,
    },
}

/// The initial contents of a map.
#[derive(Clone, Debug, Default)]
pub enum MapStart {
    /// The available data: nothing for a matrix, and the drive's profile, if any, for a compact
    /// map.
    #[default]
    Again,
    /// The map in this file, or the available data if the file does not exist.
    File(PathBuf),
    /// The matrix shared with other drives of this model in this process. Each drive uses the
    /// observations of all of them.
    Shared(SharedMatrix),
}

/// An invalid name of a drive model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model = {text}: expected profile, matrix, compact, matrix:FILE or compact:FILE")]
pub struct ModelParseError {
    /// The text as given.
    pub text: String,
}

/// The drive model of an open drive.
#[derive(Clone, Debug)]
pub struct ModelInUse {
    /// `profile`, `distance`, `matrix` or `compact`; `members` for an array by the models of its
    /// members.
    pub by: &'static str,
    /// The drive as a map identifies it.
    pub drive: MappedDrive,
    /// The settings of the map; `None` without a map.
    pub map: Option<MapSettings>,
    /// The file of the map, if it has one.
    pub file: Option<PathBuf>,
    /// The map was read from that file.
    pub restored: bool,
    /// The reason why the file was refused, if it was.
    pub refused: Option<String>,
    /// A setting that the restored map keeps otherwise, and both values.
    pub ignored: Option<String>,
}

/// The map of a running drive.
#[derive(Clone, Debug)]
pub enum RunningMap {
    /// The matrix itself, which goes on learning.
    Matrix(SharedMatrix),
    /// The compact map as it was.
    Compact(Box<CompactMap>),
}

/// The reason why a running drive returns no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMap {
    /// The drive uses another model.
    #[error(
        "the drive is scheduled by {by} and has no map; serve it with model = matrix or compact \
            (--model compact)"
    )]
    NoMapModel {
        /// The model in use.
        by: &'static str,
    },
    /// The drive accepts no messages.
    #[error(transparent)]
    Drive(#[from] SubmitError),
    /// The engine does not answer.
    #[error(
        "the drive's engine has not answered in {} s; check the drive",
        PATIENCE.as_secs()
    )]
    Silent,
}

/// The reason why a running drive did not load a map. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadMapError {
    /// There is no map that could be replaced.
    #[error(transparent)]
    NoMap(#[from] NoMap),
    /// The map is of another drive or kind.
    #[error(transparent)]
    Begin(Box<BeginError>),
    /// The maps have different cells.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A compact map describes one drive only.
    #[error(
        "a compact map is of one unit and is not merged; load it instead of what is known, or \
            merge matrices"
    )]
    NotMerged,
    /// Another caller loaded a map at the same time.
    #[error(
        "another map with other cells was loaded at the same time; see what is known now (headtime \
            map show), and merge again"
    )]
    Meanwhile,
}

/// The treatment of the present map when another one is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapLoading {
    /// The new map replaces it.
    Replace,
    /// The entries of the new map are added to it.
    Merge,
}

/// The result of loading a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapLoad {
    /// It is the map now.
    Replaced,
    /// Its entries were added.
    Merged(Merged),
}

impl ModelChoice {
    /// A map of this kind, as it is usually begun.
    #[must_use]
    pub fn map(kind: MapKind, start: MapStart) -> Self {
        Self { by: ModelSource::Map { kind, start }, settings: MapSettings::default() }
    }

    /// The same with other settings.
    #[must_use]
    pub fn with(self, settings: MapSettings) -> Self {
        Self { settings, ..self }
    }
}

impl FromStr for ModelSource {
    type Err = ModelParseError;
    fn from_str(text: &str) -> Result<Self, ModelParseError> {
        if text == "profile" {
            return Ok(Self::Profile);
        }
        let (kind, start) = match text.split_once(':') {
            Some((kind, file)) if !file.is_empty() => (kind, MapStart::File(file.into())),
            Some(_) => return Err(ModelParseError { text: text.to_owned() }),
            None => (text, MapStart::Again),
        };
        let kind = kind.parse().map_err(|()| ModelParseError { text: text.to_owned() })?;
        Ok(Self::Map { kind, start })
    }
}

impl fmt::Display for ModelSource {
    /// As it is read; a shared matrix as one that begins again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile => f.write_str("profile"),
            Self::Map { kind, start: MapStart::File(file) } => {
                write!(f, "{kind}:{}", file.display())
            }
            Self::Map { kind, .. } => write!(f, "{kind}"),
        }
    }
}

impl From<BeginError> for LoadMapError {
    fn from(error: BeginError) -> Self {
        Self::Begin(Box::new(error))
    }
}

impl RunningMap {
    /// The map that `belief` learns; `None` for a belief without a map.
    pub(crate) fn of(belief: &dyn Belief) -> Option<Self> {
        let belief = belief.as_any();
        if let Some(model) = belief.downcast_ref::<DriveModel>() {
            return model.map().map(|map| Self::Compact(Box::new(map.clone())));
        }
        belief.downcast_ref::<MatrixBelief>().map(|belief| Self::Matrix(belief.map().clone()))
    }

    /// The map as it is, to be kept. Of a matrix all entries are copied; what completes meanwhile
    /// is not learned from.
    #[must_use]
    pub fn keep(&self) -> KeptMap {
        match self {
            Self::Matrix(shared) => KeptMap::Matrix(Box::new(shared.inspect(LatencyMatrix::clone))),
            Self::Compact(map) => KeptMap::Compact(map.clone()),
        }
    }
}

/// Loads the profile for the drive model, which must describe a drive of this size.
///
/// # Errors
/// [`OpenError::Profile`] and [`OpenError::OtherProfile`].
pub(crate) fn profile(
    source: &ProfileSource,
    locator: &Locator,
    capacity: Sectors,
    sector_size: SectorSize,
) -> Result<DriveProfile, OpenError> {
    let profile = profile::load(source, None, locator)?;
    let own_sector = profile.sector_size().map_err(|error| wrong(locator, &error))?;
    let (own, here) = (own_sector.bytes_of(profile.capacity()), sector_size.bytes_of(capacity));
    if own != here || profile.capacity() != capacity {
        return Err(OpenError::OtherProfile {
            profile: profile.name,
            expected: own,
            locator: locator.to_string(),
            bytes: here,
        });
    }
    Ok(profile)
}

pub(crate) fn wrong(locator: &Locator, error: &ProfileError) -> OpenError {
    OpenError::Profile { locator: locator.to_string(), message: error.to_string() }
}

/// Checks that a drive of this size can be modelled as chosen. The file of a map is read. `kind` is
/// the name of a drive that reports no model.
///
/// # Errors
/// [`OpenError::Belief`].
pub fn check_model(
    choice: &ModelChoice,
    profile: Option<DriveProfile>,
    kind: &str,
    capacity: Sectors,
    sector_size: SectorSize,
) -> Result<(), OpenError> {
    let model = profile.map_or(ReportedModel::Unknown, |of| ReportedModel::Profile(Box::new(of)));
    let usual = Box::new(LinearBelief::new(capacity));
    choose(usual, model, choice, kind, capacity, sector_size).map(drop)
}

/// Chooses the drive model for a drive of this name and size: `usual` unless the owner chose a map.
/// `kind` is the name of a drive that reports no model.
///
/// # Errors
/// [`OpenError::Belief`].
pub(crate) fn choose(
    usual: Box<dyn Belief + Send>,
    model: ReportedModel,
    choice: &ModelChoice,
    kind: &str,
    capacity: Sectors,
    sector_size: SectorSize,
) -> Result<(Box<dyn Belief + Send>, ModelInUse), OpenError> {
    let (profile, name) = match model {
        ReportedModel::Profile(profile) => (Some(profile.clone()), profile.model),
        ReportedModel::Named(name) => (None, name),
        ReportedModel::Unknown => (None, kind.to_owned()),
    };
    let drive = MappedDrive { model: name, capacity, sector: sector_size };
    let array = usual.as_any().downcast_ref::<ArrayModel>();
    let by = match profile {
        _ if array.is_some_and(|array| array.divides_at().is_some()) => "members",
        Some(_) => "profile",
        None => "distance",
    };
    let nothing = ModelInUse {
        by,
        drive,
        map: None,
        file: None,
        restored: false,
        refused: None,
        ignored: None,
    };
    let ModelSource::Map { kind, start } = &choice.by else { return Ok((usual, nothing)) };
    let drive = &nothing.drive;
    let again = || choice.settings.begin(*kind, drive, profile.as_deref()).map_err(OpenError::from);
    let (mut file, mut restored, mut refused, mut ignored) = (None, false, None, None);
    let belief = match start {
        MapStart::Again => again()?,
        MapStart::Shared(_) if *kind == MapKind::Compact => {
            return Err(BeginError::from(KeptMapError::OtherKind {
                ours: MapKind::Compact,
                theirs: MapKind::Matrix,
            })
            .into());
        }
        MapStart::Shared(shared) => {
            let theirs = shared.shape().drive();
            if theirs != drive {
                let other = KeptMapError::OtherDrive {
                    ours: Box::new(drive.clone()),
                    theirs: Box::new(theirs.clone()),
                };
                return Err(BeginError::from(other).into());
            }
            MapSettings::by_matrix(shared.clone())
        }
        MapStart::File(path) => {
            file = Some(path.clone());
            let read = read_map(path, choice.settings.memory);
            let went_on = read.and_then(|map| {
                let differs = choice.settings.ignored_for(&map);
                let belief = choice.settings.resume(*kind, drive, map);
                belief.map(|belief| (belief, differs)).map_err(|error| at(path.clone(), error))
            });
            match went_on {
                Ok((belief, differs)) => {
                    if let Some(differs) = &differs {
                        tracing::warn!("map {}: {differs}; it goes on as it is", path.display());
                    }
                    (restored, ignored) = (true, differs);
                    belief
                }
                Err(error) if error.is_not_there() => again()?,
                Err(error) => {
                    tracing::warn!(
                        "{error}; the map begins again, and this file is left alone: nothing is \
                            saved there by itself"
                    );
                    refused = Some(error.to_string());
                    again()?
                }
            }
        }
    };
    let model = ModelInUse {
        by: kind.name(),
        map: Some(choice.settings.clone()),
        file,
        restored,
        refused,
        ignored,
        ..nothing
    };
    Ok((belief, model))
}

fn at(path: PathBuf, error: BeginError) -> MapFileError {
    match error {
        BeginError::Kept(error) => MapFileError::Map { path, error: Box::new(error) },
        // Resuming a map that was read fails for no other reason.
        other => MapFileError::Read { path, error: std::io::Error::other(other.to_string()) },
    }
}

/// The maximum time to wait for the engine. It answers within microseconds unless its drive hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_belief_is_named_as_it_is_printed() {
        for text in ["profile", "matrix", "compact", "matrix:/var/lib/d.map", "compact:a:b"] {
            assert_eq!(text.parse::<ModelSource>().map(|by| by.to_string()).as_deref(), Ok(text));
        }
        for wrong in ["", "Profile", "matrix:", "oracle", "profile:x"] {
            let message = wrong.parse::<ModelSource>().expect_err(wrong).to_string();
            assert!(message.contains("matrix:FILE"), "{message}");
        }
    }
}
