//! [`PlannedBelief`]: by what the policies of a comparison believe places and times.

use headtime_belief::maps::MapSettings;
use headtime_io::{MapStart, ModelSource};
use headtime_sched::Belief;

use super::fingerprint::fnv;
use super::spec::Located;
use crate::drives::SimDrive;
use headtime_console::Failure;

/// One belief. Each run begins with its own, and what one run learns no other knows.
#[derive(Clone, Debug)]
pub struct PlannedBelief {
    /// As it was written: `profile`, `matrix`, `compact`, or one of these maps with its file.
    pub text: String,
    /// Of what the map's file holds; `None` without a file.
    pub fingerprint: Option<u64>,
    by: ModelSource,
}

impl Default for PlannedBelief {
    /// The profile.
    fn default() -> Self {
        let by = ModelSource::Profile;
        Self { text: by.to_string(), fingerprint: None, by }
    }
}

impl PlannedBelief {
    /// The belief of these words.
    ///
    /// # Errors
    /// When they say none, or their file cannot be read.
    pub fn load(word: &Located<String>) -> Result<Self, Failure> {
        let spec = |error: anyhow::Error| Failure::Usage(error.context(word.place.clone()));
        let by: ModelSource =
            word.value.parse().map_err(|error: headtime_io::ModelParseError| spec(error.into()))?;
        let fingerprint = fingerprint(&by).map_err(spec)?;
        Ok(Self { text: word.value.clone(), fingerprint, by })
    }

    /// The drive model at the start of a run on this drive.
    ///
    /// # Errors
    /// When the model does not fit the drive, or the map's file has changed.
    pub fn begin(&self, drive: &SimDrive) -> Result<Box<dyn Belief + Send>, Failure> {
        if fingerprint(&self.by)? != self.fingerprint {
            return Err(Failure::Failed(anyhow::anyhow!(
                "the map {} was changed during the comparison; start again",
                self.text
            )));
        }
        drive.model(&self.by, &MapSettings::default())
    }
}

fn fingerprint(by: &ModelSource) -> anyhow::Result<Option<u64>> {
    let ModelSource::Map { start: MapStart::File(path), .. } = by else { return Ok(None) };
    let bytes = std::fs::read(path)
        .map_err(|error| anyhow::anyhow!("map {} cannot be read: {error}", path.display()))?;
    Ok(Some(fnv(&bytes)))
}
