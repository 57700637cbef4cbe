//! [`SimDrive`]: the drive of a simulation, from the text of `--drive`: a profile, or several
//! striped into one.
//!
//! `array:stripe=128KiB,schedule=whole,4*savvio10k2,cheetah9lp` is written as for a server, but its
//! members are profiles.

use std::sync::Arc;

use anyhow::anyhow;
use headtime_belief::ArrayModel;
use headtime_belief::maps::MapSettings;
use headtime_io::{ArraySchedule, ArrayTexts, ModelSource};
use headtime_mechanics::{DriveProfile, Stripes};
use headtime_sched::Belief;
use headtime_sim::ArrayMembers;
use headtime_units::Sectors;

use crate::beliefs;
use headtime_console::{Failure, drive_model};

/// A drive, or drives striped into one.
#[derive(Clone, Debug)]
pub struct SimDrive {
    /// The drive's profile; of an array, that of its first member.
    pub profile: Arc<DriveProfile>,
    /// The other members of an array.
    pub array: Option<ArrayMembers>,
    schedule: ArraySchedule,
}

impl SimDrive {
    /// Loads the profiles that `text` names.
    ///
    /// # Errors
    /// As [`drive_model::load`], and for members that make no array.
    pub fn load(text: &str) -> Result<Self, Failure> {
        let Some(texts) = ArrayTexts::parse(text) else {
            let profile = Arc::new(drive_model::load(text)?);
            return Ok(Self { profile, array: None, schedule: ArraySchedule::default() });
        };
        let ArrayTexts { stripe, schedule, members } = texts.map_err(Failure::usage)?;
        let mut loaded: Vec<Arc<DriveProfile>> = Vec::new();
        for (place, member) in members.iter().enumerate() {
            let known = members[..place].iter().position(|before| before == member);
            let profile = match known {
                Some(known) => Arc::clone(&loaded[known]),
                None => Arc::new(drive_model::load(member)?),
            };
            loaded.push(profile);
        }
        let profile = loaded.remove(0);
        let sector = profile.sector_size().map_err(Failure::usage)?;
        let bytes = sector.bytes();
        if let Some(other) = loaded.iter().find(|other| other.sector_bytes != bytes) {
            return Err(Failure::Usage(anyhow!(
                "{text}: {} has sectors of {} bytes, but {} has {bytes}; make an array of drives \
                    with sectors of one size",
                other.name,
                other.sector_bytes,
                profile.name
            )));
        }
        let fits = |stripe: &Sectors| {
            loaded.iter().chain([&profile]).all(|member| member.capacity() >= *stripe)
        };
        let stripe = sector.sectors_of(stripe.get()).filter(fits).ok_or_else(|| {
            Failure::Usage(anyhow!(
                "{text}: a stripe of {stripe} is not a multiple of {bytes} bytes within each \
                    member; choose another, such as stripe=128KiB"
            ))
        })?;
        let divide_at = (schedule == ArraySchedule::Member).then_some(stripe);
        let array = ArrayMembers { others: loaded, stripe, divide_at };
        Ok(Self { profile, array: Some(array), schedule })
    }

    /// The members; a drive that is no array is one.
    pub fn members(&self) -> impl Iterator<Item = &DriveProfile> {
        let others = self.array.iter().flat_map(|array| &array.others);
        std::iter::once(&self.profile).chain(others).map(|profile| &**profile)
    }

    /// The name in results, of a drive that was named by `text`: that of its profile, or the text
    /// of an array.
    pub fn title<'a>(&'a self, text: &'a str) -> &'a str {
        if self.array.is_some() { text } else { &self.profile.name }
    }

    /// Its arms, those of all members.
    pub fn arms(&self) -> u16 {
        self.members().map(DriveProfile::actuators).sum()
    }

    /// Its size.
    pub fn capacity(&self) -> Sectors {
        let Some(array) = &self.array else { return self.profile.capacity() };
        let smallest = self.members().map(DriveProfile::capacity).min();
        Stripes::new(array.stripe, self.members().count()).capacity(smallest.unwrap_or_default())
    }

    /// The drive model at the start of a run; of an array, by the profiles of its members.
    pub(crate) fn model(
        &self,
        by: &ModelSource,
        settings: &MapSettings,
    ) -> Result<Box<dyn Belief + Send>, Failure> {
        let Some(array) = &self.array else { return beliefs::begin(by, settings, &self.profile) };
        if !matches!(by, ModelSource::Profile) {
            return Err(Failure::Usage(anyhow!(
                "{by}: a latency map describes one drive, not an array; leave the map out"
            )));
        }
        let members = self.members().map(|member| beliefs::begin(by, settings, member));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(match self.schedule {
            ArraySchedule::Member => ArrayModel::by_member(members, array.stripe, 0),
            ArraySchedule::Whole => ArrayModel::new(members, array.stripe, 0),
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::commands::sim::{SimArguments, SimOutput, simulate};

    #[test]
    fn an_array_of_profiles_has_the_size_of_its_stripes() {
        let drive = SimDrive::load("array:stripe=64KiB,2*atlas10k,savvio10k2").expect("it ships");
        let smallest = drive.members().map(|member| member.capacity().get()).min();
        let stripes = smallest.expect("there are members") / 128;
        assert_eq!((drive.capacity().get(), drive.arms()), (stripes * 128 * 3, 3));
        let one = SimDrive::load("atlas10k").expect("it ships");
        assert_eq!((one.capacity(), one.arms()), (one.profile.capacity(), 1));
    }

    fn simulated(drive: &str, policy: &str) -> SimOutput {
        let command = SimArguments::augment_args(Command::new("sim").no_binary_name(true));
        let flags = ["--drive", drive, "--policy", policy, "--requests", "3000", "--noise", "off"];
        let arguments = SimArguments::from_arg_matches(&command.get_matches_from(flags));
        simulate(&arguments.expect("valid flags"))
            .unwrap_or_else(|error| panic!("{}", error.message()))
    }

    /// Two drives with two arms each: four arms, of which none is left idle.
    #[test]
    fn both_arms_of_each_member_of_an_array_are_kept_busy() {
        let drive = "array:2*exos-2x18";
        let [own, headtime] =
            ["firmware:depth=64", "headtime"].map(|by| simulated(drive, by).measures);
        assert_eq!(headtime.drive, drive);
        assert!(headtime.iops > 0.95 * own.iops, "{} requests/s, {}", headtime.iops, own.iops);
    }

    #[test]
    fn what_makes_no_array_is_refused_by_name() {
        for (text, part) in [
            ("array:atlas10k", "`atlas10k` is not two drives or more"),
            ("array:atlas10k,wd40", "no profile is called `wd40`"),
            ("array:stripe=1GiB,2*atlas10k@x", "atlas10k"),
        ] {
            let message = SimDrive::load(text).expect_err(text).message();
            assert!(message.contains(part), "{text}: {message}");
        }
        let map = ModelSource::Map {
            kind: headtime_belief::maps::MapKind::Compact,
            start: headtime_io::MapStart::Again,
        };
        let array = SimDrive::load("array:2*atlas10k").expect("it ships");
        let refused = array.model(&map, &MapSettings::default()).err().expect("no map");
        assert!(refused.message().contains("not an array"), "{}", refused.message());
    }
}
