//! The interface, seek curve, head switch and settle of one drive, which differ from its profile by
//! what an extraction leaves ([`VariationSpec::extraction_error`]).
//!
//! [`VariationSpec::extraction_error`]: headtime_mechanics::profile::VariationSpec

use headtime_mechanics::DriveProfile;
use headtime_mechanics::profile::Seek;

use super::hash;

/// The profile with an error in each overhead, the bus rate and each part of the arm time.
pub(super) fn with_errors(profile: &DriveProfile, seed: u64) -> DriveProfile {
    let mut own = profile.clone();
    let share = profile.variation.extraction_error;
    if share == 0.0 {
        return own;
    }
    let mut number = 0;
    let mut alter = |values: &mut [&mut f64]| {
        number += 1;
        let factor = 1.0 + share * hash::normal(hash::mix(seed, number));
        values.iter_mut().for_each(|value| **value *= factor);
    };
    let (seek, interface) = (&mut own.seek, &mut own.interface);
    alter_arm(seek, &mut alter);
    alter(&mut [&mut interface.bus_mb_per_s]);
    let after_writes = [&mut interface.read_after_write_us, &mut interface.write_after_write_us];
    let overheads = [
        &mut interface.read_command_us,
        &mut interface.write_command_us,
        &mut interface.completion_us,
    ];
    let optional = after_writes.into_iter().chain([&mut interface.write_completion_us]);
    for value in overheads.into_iter().chain(optional.filter_map(Option::as_mut)) {
        alter(&mut [value]);
    }
    if let Some(cache) = &mut own.cache {
        alter(&mut [&mut cache.read_hit_us]);
        alter(&mut [&mut cache.write_hit_us]);
    }
    if let Some(second) = &mut own.second_actuator {
        alter_arm(&mut second.seek, &mut alter);
    }
    own
}

fn alter_arm(seek: &mut Seek, alter: &mut impl FnMut(&mut [&mut f64])) {
    alter(&mut seek.points.iter_mut().map(|point| &mut point.1).collect::<Vec<_>>());
    if let Some(curve) = &mut seek.formula {
        alter(&mut [
            &mut curve.short_ms,
            &mut curve.short_sqrt_ms,
            &mut curve.long_ms,
            &mut curve.long_us_per_cylinder,
        ]);
    }
    alter(&mut [&mut seek.head_switch_ms]);
    alter(&mut [&mut seek.write_settle_ms]);
}
