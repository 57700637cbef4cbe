//! The drive model of a simulation: a profile or a latency map.
//!
//! The drive is an instance drawn from its profile. The model gets the profile, another profile, or
//! a map, and never the instance.

use std::sync::{Arc, Mutex};

use anyhow::anyhow;
use headtime_belief::maps::KeptMap;
use headtime_io::ModelSource;
use headtime_sched::{Belief, Tunables};
use headtime_serve::config::map_settings;
use headtime_serve::tuner::auto_table;

use super::SimArguments;
use crate::beliefs;
use crate::drives::SimDrive;
use headtime_console::{Failure, drive_model};

/// The belief that a run begins with; taken once.
pub(super) struct Begun(Mutex<Option<Box<dyn Belief + Send>>>);

impl Begun {
    /// The model that the arguments request for a drive of this profile.
    pub(super) fn of(arguments: &SimArguments, drive: &SimDrive) -> Result<Self, Failure> {
        let other = arguments.profile.as_deref().map(drive_model::load).transpose()?;
        let (array, drive) = (drive, &drive.profile);
        if other.is_some() && array.array.is_some() {
            return Err(Failure::usage(anyhow!(
                "--profile is of one drive, and --drive is an array; leave it out"
            )));
        }
        if let Some(other) = other.as_ref().filter(|other| {
            other.capacity() != drive.capacity() || other.sector_bytes != drive.sector_bytes
        }) {
            return Err(Failure::usage(anyhow!(
                "profile {} has {} of {} bytes, and {} has {} of {}; choose the profile of a \
                    drive of the same size",
                other.name,
                other.capacity(),
                other.sector_bytes,
                drive.name,
                drive.capacity(),
                drive.sector_bytes
            )));
        }
        let profile = other.as_ref().unwrap_or(drive);
        let settings = map_settings(&arguments.map).map_err(Failure::usage)?;
        let belief: Box<dyn Belief + Send> = match &arguments.belief {
            ModelSource::Profile if !arguments.map.is_empty() || arguments.map_out.is_some() => {
                return Err(Failure::usage(anyhow!(
                    "--map and --map-out apply to a latency map, and the drive model is the \
                        profile; add --model matrix or --model compact"
                )));
            }
            ModelSource::Map { .. } if arguments.policy.entry.oracle => {
                return Err(Failure::usage(anyhow!(
                    "policy {} is an oracle and uses no latency map; leave --model out, or choose \
                        another policy",
                    arguments.policy
                )));
            }
            by if other.is_none() => array.model(by, &settings)?,
            by => beliefs::begin(by, &settings, profile)?,
        };
        Ok(Self(Mutex::new(Some(belief))))
    }

    /// The belief, for the one run that there is.
    pub(super) fn belief(&self) -> Box<dyn Belief + Send> {
        let mut belief = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        belief.take().expect("a simulation begins once")
    }
}

/// The scheduler's tunables as the arguments set them.
pub(super) fn tunables(set: &[String]) -> Result<Tunables, Failure> {
    let mut tunables = Tunables::default();
    for text in set {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        if name == "auto_table" {
            let table = auto_table(value)
                .map_err(|error| Failure::usage(anyhow!("--set {text}: {error}")))?;
            tunables.auto_table = Some(Arc::new(table));
            continue;
        }
        tunables
            .set(name, value)
            .map_err(|error| Failure::usage(anyhow!("--set {text}: {error}")))?;
    }
    Ok(tunables)
}

/// Keeps the map that was learned, if it is to be kept.
pub(super) fn keep(arguments: &SimArguments, learned: &dyn Belief) -> Result<(), Failure> {
    let Some(path) = &arguments.map_out else { return Ok(()) };
    let map: KeptMap = KeptMap::of(learned)
        .ok_or_else(|| Failure::Failed(anyhow!("the drive model is no longer a map")))?;
    headtime_console::map::write(path, &map, arguments.force).map(drop)
}
