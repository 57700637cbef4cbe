//! The checks of a configuration that need more than its text: what a server would refuse at its
//! start.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use headtime_io::{
    InspectedDrive, Locator, ModelSource, OpenError, ProfileSource, check_model, inspect_path,
    load_profile,
};
use headtime_units::{SectorSize, Sectors, Share};

use super::trial::TrialDisk;
use super::{Config, Listen, PathChoice};
use crate::connection::Shared;
use crate::http::HttpListener;
use crate::listener::check_address;
use crate::scans::WHOLE_DRIVE;
use crate::server::{CONTROL_MODE, StartError, drive_options, served_content, size_notes};
use crate::tls::Tls;
use crate::volumes::{DriveShape, StoreError, VolumeSpec};

/// A drive as a start would find it.
struct DriveOnTrial {
    disk: TrialDisk,
    /// Its content is known, and so are the volumes that it has.
    is_known: bool,
}

impl Config {
    /// Checks the configuration as [`Config::check`] does, and what a server would refuse at its
    /// start: addresses, profiles, the files of TLS, the drive, and its volumes. The drive is read;
    /// nothing is bound, claimed or changed. Of a drive over NBD, an array, and a file that this
    /// user may not read, the content is not known: then volumes are checked as those of an empty
    /// drive. Returns notes about what a start would do otherwise than the configuration states.
    ///
    /// # Errors
    /// All errors that were found.
    pub fn check_start(&self) -> Result<Vec<String>, Vec<StartError>> {
        self.check().map_err(|errors| vec![errors.into()])?;
        let (mut errors, mut notes) = (Vec::new(), Vec::new());
        errors.extend(Shared::nbd_limits(&self.limits).check().err().map(StartError::from));
        let control = match &self.control {
            PathChoice::At(path) => {
                Some(Listen::Unix { path: path.clone(), mode: CONTROL_MODE, tls: None })
            }
            _ => None,
        };
        let sockets = self.listen.iter().chain(&control);
        errors.extend(sockets.filter_map(|at| check_address(at).err()).map(StartError::from));
        for (endpoint, address, public) in self.endpoints() {
            let resolved = HttpListener::resolve(endpoint, address, public);
            errors.extend(resolved.err().map(StartError::from));
        }
        if self.tls.certificate.is_some() {
            match Tls::open(&self.tls) {
                Ok((_, files)) => {
                    notes.extend(files.notes.iter().map(|note| format!("tls: {note}")));
                }
                Err(error) => errors.push(error.into()),
            }
        }
        let locator = self.drive.as_ref().expect("checked above");
        match self.check_drive(locator) {
            Ok(of_drive) if errors.is_empty() => Ok([notes, of_drive].concat()),
            checked => {
                errors.extend(checked.err());
                Err(errors)
            }
        }
    }

    fn check_drive(&self, locator: &Locator) -> Result<Vec<String>, StartError> {
        let named = locator.to_string();
        let drive = self
            .drive_on_trial(locator)
            .and_then(|drive| self.check_drive_model(locator, &drive).map(|()| drive));
        let drive = match drive {
            Ok(drive) => drive,
            Err(error) => return Err(StartError::Drive { locator: named, error }),
        };
        let checked = self.check_volumes(&drive);
        checked.map_err(|error| StartError::Volumes { locator: named, error })
    }

    /// The share of the drive's time that volumes may reserve.
    pub(crate) fn reservable(&self) -> Share {
        let reservable = Share::WHOLE.as_billionths() - self.unreserved.as_billionths();
        Share::from_billionths(reservable).unwrap_or(Share::NONE)
    }

    /// The promises that a server cannot keep with the profile of this configuration, because its
    /// own self-check fell short. None without a profile, or with one that states
    /// no accuracy.
    #[must_use]
    pub fn broken_promises(&self) -> Vec<String> {
        let (Some(source), Some(drive)) = (&self.profile, &self.drive) else { return Vec::new() };
        // A profile that cannot be read is refused when the drive is opened.
        let Ok(found) = load_profile(source, None, drive) else { return Vec::new() };
        let jitter_us = found.variation.jitter_us;
        found.accuracy.map_or_else(Vec::new, |accuracy| accuracy.broken_promises(jitter_us))
    }

    /// Checks the drive model. That of a drive of unknown size is not checked.
    fn check_drive_model(&self, locator: &Locator, drive: &DriveOnTrial) -> Result<(), OpenError> {
        let DriveShape { sector, capacity } = drive.disk.shape;
        if drive.disk.shape == ANY_SHAPE {
            return Ok(());
        }
        let (source, setup) = match (&self.profile, locator) {
            (Some(source), _) => (Some(source), None),
            (None, Locator::Emulated(at)) => (Some(&at.profile), at.setup.as_deref()),
            (None, Locator::Simulated(at)) => (Some(&at.profile), at.setup.as_deref()),
            (None, _) => (None, None),
        };
        let profile = source.map(|source| load_profile(source, setup, locator)).transpose()?;
        check_model(&drive_options(self).belief, profile, locator.kind(), capacity, sector)
    }

    fn drive_on_trial(&self, locator: &Locator) -> Result<DriveOnTrial, OpenError> {
        if let Some(source) = &self.profile {
            load_profile(source, None, locator)?;
        }
        let of_profile = |source: &ProfileSource, setup: Option<&str>| {
            let profile = load_profile(source, setup, locator)?;
            let sector = profile.sector_size().map_err(|error| OpenError::Profile {
                locator: locator.to_string(),
                message: error.to_string(),
            })?;
            Ok::<_, OpenError>(DriveShape { sector, capacity: profile.capacity() })
        };
        Ok(match locator {
            Locator::Emulated(at) => {
                let shape = of_profile(&at.profile, at.setup.as_deref())?;
                // A shingled drive is smaller than that of its profile.
                let content = at.smr.is_none().then_some(&*at.backing);
                content
                    .map_or_else(|| DriveOnTrial::unknown(shape), |at| DriveOnTrial::at(at, shape))
            }
            Locator::Simulated(at) => {
                DriveOnTrial::empty(of_profile(&at.profile, at.setup.as_deref())?)
            }
            Locator::Memory(memory) => DriveOnTrial::empty(DriveShape {
                sector: memory.sector,
                capacity: memory.capacity(),
            }),
            Locator::Path(path) => match inspect_path(path, &drive_options(self))? {
                Some(InspectedDrive { sector_size: sector, capacity, .. }) => {
                    DriveOnTrial::at(path, DriveShape { sector, capacity })
                }
                None => DriveOnTrial::unknown(ANY_SHAPE),
            },
            Locator::Array(_) if !matches!(self.model, ModelSource::Profile) => {
                return Err(OpenError::MapOfArray { locator: locator.to_string() });
            }
            Locator::Array(array) => {
                for member in &array.members {
                    self.drive_on_trial(member)?;
                }
                DriveOnTrial::unknown(ANY_SHAPE)
            }
            Locator::Nbd(_) => DriveOnTrial::unknown(ANY_SHAPE),
        })
    }

    /// Checks that the volumes can be served, as a start would. Returns notes about their sizes.
    fn check_volumes(&self, drive: &DriveOnTrial) -> Result<Vec<String>, StoreError> {
        let mut specs: Vec<VolumeSpec> = self.volumes.clone();
        if !drive.is_known {
            if self.existing || self.read_only {
                return Ok(Vec::new());
            }
            // A volume without a size is there already.
            specs.retain(|spec| spec.size.is_some());
        }
        let (store, _) = served_content(self, &specs).open_store(&drive.disk, self)?;
        let mut table = store.table().clone();
        let done = table.ensure_all(&specs)?;
        if self.read_only && table != *store.table() {
            return Err(StoreError::ReadOnly);
        }
        let mut notes = size_notes(&table, &specs, &done);
        let is_there = |target: &str| {
            target == WHOLE_DRIVE || table.volumes().iter().any(|volume| volume.name == target)
        };
        let of_none = self.scans.iter().filter(|scan| drive.is_known && !is_there(&scan.target));
        notes.extend(of_none.map(|scan| {
            format!(
                "the {} starts when there is a volume {}: the drive has none",
                scan.name(),
                scan.target
            )
        }));
        Ok(notes)
    }
}

impl DriveOnTrial {
    /// A drive whose bytes are those of a file, if there is one.
    fn at(path: &Path, shape: DriveShape) -> Self {
        match File::open(path) {
            Ok(file) => Self { disk: TrialDisk::new(shape, Some(file)), is_known: true },
            Err(error) if error.kind() == ErrorKind::NotFound => Self::empty(shape),
            Err(_) => Self::unknown(shape),
        }
    }

    fn empty(shape: DriveShape) -> Self {
        Self { disk: TrialDisk::new(shape, None), is_known: true }
    }

    fn unknown(shape: DriveShape) -> Self {
        Self { is_known: false, ..Self::empty(shape) }
    }
}

/// As large as a drive can be.
const ANY_SHAPE: DriveShape =
    DriveShape { sector: SectorSize::B512, capacity: Sectors::new(i64::MAX as u64 / 512) };
