//! The checks of a configuration that need more than its text: what a server would refuse at its
//! start, as far as that is known without opening the drive.

use headtime_config::{TextError, TextErrors};
use headtime_io::{Locator, ProfileSource, load_profile};
use headtime_units::{SectorSize, Sectors};

use super::Config;
use crate::http::HttpListener;
use crate::tls::Tls;
use crate::volumes::{DriveShape, DriveUuid, VolumeTable, shares};

impl Config {
    /// Checks the configuration as [`Config::check`] does, and what a server would refuse at its
    /// start: the addresses of metrics and web page, profiles, the files of TLS, and shares and
    /// sizes of the volumes, taken as those of a drive without volumes. Nothing is bound or
    /// changed.
    ///
    /// # Errors
    /// All errors that were found.
    pub fn check_start(&self) -> Result<(), TextErrors> {
        self.check()?;
        let mut messages = Vec::new();
        for (endpoint, address, public) in self.endpoints() {
            let resolved = HttpListener::resolve(endpoint, address, public);
            messages.extend(resolved.err().map(|error| error.to_string()));
        }
        if self.tls.certificate.is_some() {
            messages.extend(Tls::open(&self.tls).err().map(|error| format!("tls: {error}")));
        }
        let drive = self.drive.as_ref().expect("checked above");
        if let Some(source) = &self.profile {
            let loaded = load_profile(source, None, drive);
            messages.extend(loaded.err().map(|error| error.to_string()));
        }
        match self.shape(drive) {
            // The volumes of such a drive are known when it is read.
            Ok(_) if self.existing => {}
            Ok(shape) => messages.extend(self.refused_volumes(shape)),
            Err(message) => messages.push(message),
        }
        let whole = |message| TextError::whole("configuration", message);
        TextErrors::check(messages.into_iter().map(whole).collect())
    }

    /// The promises that a server cannot keep with the profile of this configuration, because its
    /// own characterization found it unreliable. None without a profile, or with one that states
    /// no accuracy.
    #[must_use]
    pub fn broken_promises(&self) -> Vec<String> {
        let (Some(source), Some(drive)) = (&self.profile, &self.drive) else { return Vec::new() };
        // A profile that cannot be read is refused when the drive is opened.
        let accuracy = load_profile(source, None, drive).ok().and_then(|found| found.accuracy);
        accuracy.map_or_else(Vec::new, |accuracy| accuracy.broken_promises())
    }

    /// Sector size and capacity of the drive; the largest possible where they are unknown.
    fn shape(&self, drive: &Locator) -> Result<DriveShape, String> {
        let of = |source: &ProfileSource, setup: Option<&str>| {
            let profile = load_profile(source, setup, drive).map_err(|error| error.to_string())?;
            let sector = profile.sector_size().map_err(|error| error.to_string())?;
            Ok(DriveShape { sector, capacity: profile.capacity() })
        };
        let sector = SectorSize::B512;
        let bytes = match drive {
            Locator::Emulated(at) => return of(&at.profile, at.setup.as_deref()),
            Locator::Simulated(at) => return of(&at.profile, at.setup.as_deref()),
            Locator::Path(path) => match std::fs::metadata(path) {
                Ok(found) => found.is_file().then_some(found.len()),
                Err(_) => self.create.map(|size| size.get()),
            },
            Locator::Array(array) => {
                for member in &array.members {
                    self.shape(member)?;
                }
                None
            }
            Locator::Memory(_) | Locator::Nbd(_) => None,
        };
        let capacity = Sectors::new(bytes.unwrap_or(i64::MAX as u64) / u64::from(sector.bytes()));
        Ok(DriveShape { sector, capacity })
    }

    /// The reasons why volumes of the configuration could not be created on a drive of this shape.
    fn refused_volumes(&self, shape: DriveShape) -> Vec<String> {
        let mut table = VolumeTable::empty(DriveUuid([0; 16]), shape);
        let mut refused = Vec::new();
        let specs = self.volumes.iter().map(super::VolumeConfig::requested);
        // A volume without a size exists already, on a drive that is not read here.
        for spec in specs.filter(|spec| spec.size.is_some()) {
            let before = table.clone();
            let ensured = table
                .ensure(&spec)
                .and_then(|_| table.check_reservations(&before, &spec.name))
                .map_err(|error| error.to_string());
            let ensured = ensured.and_then(|()| {
                let volume = table.find(&spec.name).expect("it was just made");
                shares::check(volume, shape.sector).map_err(|(name, why)| format!("{name}: {why}"))
            });
            if let Err(message) = ensured {
                refused.push(message);
                table = before;
            }
        }
        refused
    }
}
