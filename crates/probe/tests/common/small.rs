//! Small drives of one layout each, without noise, and what must be found of them.

use headtime_mechanics::profile::{TrackOrder, Zone};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sim::DriveTruth;

use super::{characterize, tracks_alike};

/// A drive with so many zones of so many cylinders of a catalog drive without spares, and with so
/// many heads.
pub(crate) fn small(name: &str, heads: u16, zones: usize, cylinders: u32) -> DriveProfile {
    let mut profile = catalog::load(name).expect("a profile that ships");
    profile.capacity_sectors = None;
    profile.geometry.heads = heads;
    profile.zones.truncate(zones);
    for (number, zone) in (0..).zip(&mut profile.zones) {
        (zone.first_cylinder, zone.cylinders) = (number * cylinders, cylinders);
        (zone.spares, zone.spare_cylinders, zone.reserved) = (0, None, 0);
        (zone.slips, zone.remaps) = (Vec::new(), Vec::new());
        zone.first_angle_turns = None;
    }
    profile
}

/// Characterizes drives, two at a time; each must have 97.5 % of its reads predicted, nearly all
/// tracks where they are, and as many heads as are found.
pub(crate) fn expect_recognized(cases: &[(String, DriveProfile)]) {
    expect(cases, |profile, found| found.geometry.heads == profile.geometry.heads);
}

/// The same where nothing shows the number of heads.
pub(crate) fn expect_predicted(cases: &[(String, DriveProfile)]) {
    expect(cases, |_, _| true);
}

fn expect(
    cases: &[(String, DriveProfile)],
    has_heads: impl Fn(&DriveProfile, &DriveProfile) -> bool + Sync,
) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((case, profile)) = cases.get(number) else { break };
                    if let Some(why) = shortfall(profile, &has_heads) {
                        failed.lock().expect("no panics").push(format!("{case}: {why}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panics");
    assert!(failed.is_empty(), "{} of {} cases:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

fn shortfall(
    profile: &DriveProfile,
    has_heads: impl Fn(&DriveProfile, &DriveProfile) -> bool,
) -> Option<String> {
    let truth = DriveTruth::nominal(profile, 1).expect("a drive");
    let finding = characterize(profile, truth.clone(), 1);
    let Some(found) = &finding.profile else {
        return Some(format!("no profile, {:?}", finding.remarks));
    };
    let alike = tracks_alike(found, truth.mechanism().layout(), 1);
    let within = finding.check.as_ref().map_or(0.0, |check| check.within_50_us);
    let heads = found.geometry.heads;
    (!has_heads(profile, found) || alike < 0.99 || within < 0.975).then(|| {
        format!(
            "{heads} heads of {}, {alike:.3} of tracks, {within:.4} within 50 us, {:.0} s: {:?}",
            profile.geometry.heads,
            finding.drive_time.as_secs_f64(),
            finding.remarks
        )
    })
}

/// A drive in bands of which nothing shows the surfaces: a band is a row of tracks with one step.
pub(crate) fn in_rows(heads: u16, zones: usize, band: u32, bands: u32) -> DriveProfile {
    let mut profile = small("cheetah10k7@nocache", heads, zones, band * bands);
    profile.geometry.layout = TrackOrder::Banded;
    profile.geometry.band_cylinders = Some(band);
    for zone in &mut profile.zones {
        let sectors = f64::from(zone.sectors_per_track);
        zone.cylinder_skew = (0.085 * sectors).round();
        zone.track_skew = zone.cylinder_skew;
        zone.band_skew = Some(zone.cylinder_skew + (0.035 * sectors).round());
    }
    profile
}

/// Slips one in so many sectors, at uneven distances.
pub(crate) fn slip_one_in(apart: u64, heads: u16, zone: &mut Zone) {
    let slips = zone.physical_sectors(heads) / apart;
    zone.slips = (1..slips).map(|slip| slip * apart - slip * 7_919 % (apart * 4 / 5)).collect();
}
