//! The drive model of a simulated drive's scheduler, from the text of `--model`.

use anyhow::anyhow;
use headtime_belief::maps::{MapSettings, mapped_drive};
use headtime_belief::of_profile;
use headtime_io::{MapStart, ModelSource};
use headtime_mechanics::DriveProfile;
use headtime_sched::Belief;

use headtime_console::Failure;
use headtime_console::map;

/// The drive model at the start of a run, for a drive with this profile.
pub(crate) fn begin(
    by: &ModelSource,
    settings: &MapSettings,
    profile: &DriveProfile,
) -> Result<Box<dyn Belief + Send>, Failure> {
    let ModelSource::Map { kind, start } = by else {
        return of_profile(profile).map_err(Failure::usage);
    };
    let drive = mapped_drive(profile).map_err(Failure::usage)?;
    match start {
        // A missing file is an error in a simulation.
        MapStart::File(path) => {
            let map = map::read(path, settings.memory)?;
            settings.resume(*kind, &drive, map).map_err(|error| {
                Failure::usage(anyhow!(error).context(format!("map {}", path.display())))
            })
        }
        _ => settings.begin(*kind, &drive, Some(profile)).map_err(Failure::usage),
    }
}
