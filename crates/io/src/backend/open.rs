//! Opens the drive that a locator names.

use std::sync::Arc;

use headtime_belief::ArrayModel;
use headtime_mechanics::Stripes;
use headtime_units::Sectors;

use crate::backend::array::{ArrayDrive, ArrayMember};
use crate::backend::{OpenedDrive, file_drive, memory, nbd, raw};
#[cfg(feature = "simulation")]
use crate::backend::{emulated, simulated};
use crate::locator::{ArrayLocator, ArraySchedule, Locator};
use crate::model::{self, ModelSource};
use crate::new_files::NewFiles;
use crate::notifier::Notifier;
use crate::open_error::OpenError;
use crate::options::DriveOptions;
use crate::profile::ReportedModel;

/// Opens a drive with the drive model of its profile, or by distance.
///
/// # Errors
/// See [`OpenError`].
pub(crate) fn open(
    locator: &Locator,
    options: &DriveOptions,
    notifier: &Arc<Notifier>,
) -> Result<OpenedDrive, OpenError> {
    let mut opened = match locator {
        // The profile is that of each member.
        Locator::Array(array) => return open_array(locator, array, options, notifier),
        Locator::Path(path) if raw::is_block_device(path) => raw::open(path, options, notifier)?,
        Locator::Path(path) => file_drive::open(path, options, notifier)?,
        Locator::Memory(memory) => memory::open(memory),
        #[cfg(feature = "simulation")]
        Locator::Emulated(emulated) => emulated::open(locator, emulated, notifier)?,
        #[cfg(feature = "simulation")]
        Locator::Simulated(simulated) => simulated::open(locator, simulated)?,
        #[cfg(not(feature = "simulation"))]
        Locator::Emulated(_) | Locator::Simulated(_) => {
            return Err(OpenError::no_simulation(locator));
        }
        Locator::Nbd(server) => nbd::open(server, notifier)?,
    };
    if let Some(profile) = &options.profile {
        let profile = model::profile(profile, locator, opened.capacity, opened.sector_size)?;
        opened.belief =
            headtime_belief::of_profile(&profile).map_err(|error| model::wrong(locator, &error))?;
        opened.model = ReportedModel::Profile(Box::new(profile));
    }
    Ok(opened)
}

/// Opens all members of an array.
fn open_array(
    locator: &Locator,
    array: &ArrayLocator,
    options: &DriveOptions,
    notifier: &Arc<Notifier>,
) -> Result<OpenedDrive, OpenError> {
    if !matches!(options.belief.by, ModelSource::Profile) {
        return Err(OpenError::MapOfArray { locator: locator.to_string() });
    }
    let mut members: Vec<OpenedDrive> = Vec::with_capacity(array.members.len());
    for (place, member) in array.members.iter().enumerate() {
        members.push(open(member, options, notifier).map_err(|error| OpenError::Member {
            number: place + 1,
            count: array.members.len(),
            error: Box::new(error),
        })?);
    }
    let stripe = check_members(array, &members)?;
    let (sector_size, stripes) = (members[0].sector_size, Stripes::new(stripe, members.len()));
    let smallest = members.iter().map(|member| member.capacity).min().unwrap_or_default();
    let capacity = stripes.capacity(smallest);
    let physical_block = members.iter().map(|member| member.physical_block).max();
    let fua = members.iter().all(|member| member.fua);
    let precise = members.iter().any(|member| member.precise);
    let kernel = members.iter().flat_map(|member| member.kernel.clone()).collect();
    let power = members.iter().flat_map(|member| member.power.clone()).collect();
    let (mut beliefs, mut drives) = (Vec::new(), Vec::new());
    let mut new_files = NewFiles::default();
    for (opened, member) in members.into_iter().zip(&array.members) {
        let OpenedDrive { backend, belief, queue_depth, new_files: new, .. } = opened;
        new_files.append(new);
        beliefs.push(belief);
        drives.push(ArrayMember::new(member.to_string(), backend, queue_depth));
    }
    let queue_depth = drives.iter().map(|member| member.queue_depth).sum();
    let backend = Box::new(ArrayDrive::new(stripes, sector_size, drives));
    Ok(OpenedDrive {
        belief: Box::new(match array.schedule {
            ArraySchedule::Member => ArrayModel::by_member(beliefs, stripe, 0),
            ArraySchedule::Whole => ArrayModel::new(beliefs, stripe, 0),
        }),
        physical_block: physical_block.unwrap_or_default(),
        fua,
        precise,
        kernel,
        power,
        new_files,
        ..OpenedDrive::new(backend, capacity, sector_size, queue_depth)
    })
}

/// Checks that members can be striped; returns the sectors of a stripe.
fn check_members(array: &ArrayLocator, members: &[OpenedDrive]) -> Result<Sectors, OpenError> {
    let bytes = |member: &OpenedDrive| member.sector_size.bytes();
    let first = bytes(&members[0]);
    if let Some(other) = members.iter().position(|member| bytes(member) != first) {
        return Err(OpenError::MixedSectors {
            member: array.members[other].to_string(),
            bytes: bytes(&members[other]),
            first: array.members[0].to_string(),
            expected: first,
        });
    }
    let stripe = members[0].sector_size.sectors_of(array.stripe.get()).ok_or_else(|| {
        let stripe = array.stripe.get();
        let remedy = stripe.next_multiple_of(u64::from(first));
        OpenError::StripeOfParts { stripe, sector_bytes: first, remedy }
    })?;
    match members.iter().position(|member| member.capacity < stripe) {
        None => Ok(stripe),
        Some(small) => Err(OpenError::ShortMember {
            member: array.members[small].to_string(),
            bytes: members[small].sector_size.bytes_of(members[small].capacity),
            stripe: array.stripe,
        }),
    }
}
