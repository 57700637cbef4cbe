//! The scheduler's view of volumes: each class is a tenant with its own terms.

use headtime_sched::{ClassId, IoPriority, ShareChange, Tenant, Terms};
use headtime_units::{SectorSize, Share};

use super::settings::{ClassSettings, VolumeClass};
use super::table::Volume;

/// The tenant of a class of a volume.
#[must_use]
pub fn tenant(volume: &Volume, class: VolumeClass) -> Tenant {
    Tenant::class_of(volume.id, ClassId(class.number()))
}

/// The terms of a class; `None` for a class without guarantees and limits, which the scheduler need
/// not know.
#[must_use]
pub fn terms(settings: &ClassSettings, sector: SectorSize) -> Option<Terms> {
    let usual = Terms::default();
    let ClassSettings {
        reserve, limit, burst, weight, iops_limit, bandwidth_limit, priority, ..
    } = *settings;
    let terms = Terms {
        reserve,
        limit: limit.unwrap_or(Share::WHOLE),
        burst: burst.unwrap_or(usual.burst),
        priority: priority.map_or(usual.priority, IoPriority::class),
        weight: weight.unwrap_or(usual.weight),
        requests_per_second: iops_limit,
        // A limit below one sector per second is rounded up to one.
        sectors_per_second: bandwidth_limit
            .map(|bytes| (bytes / u64::from(sector.bytes())).clamp(1, Terms::MAX_SECTORS)),
    };
    (terms != usual).then_some(terms)
}

/// The changes of terms from `before` to `after`; unchanged terms are left out.
#[must_use]
pub fn changes(
    before: Option<&Volume>,
    after: Option<&Volume>,
    sector: SectorSize,
) -> Vec<ShareChange> {
    let of = |volume: Option<&Volume>, class: VolumeClass| {
        let volume = volume?;
        Some((tenant(volume, class), terms(&volume.settings.of_class(class)?, sector)?))
    };
    let change = |class: VolumeClass| match (of(before, class), of(after, class)) {
        (before, Some(after)) => {
            (before != Some(after)).then_some(ShareChange::Set(after.0, after.1))
        }
        (Some((tenant, _)), None) => Some(ShareChange::Remove(tenant)),
        (None, None) => None,
    };
    VolumeClass::ALL.into_iter().filter_map(change).collect()
}

/// Checks that the scheduler accepts the terms of each class.
///
/// # Errors
/// The scheduler's reason, with the name of the export.
pub fn check(volume: &Volume, sector: SectorSize) -> Result<(), String> {
    for (class, settings) in volume.settings.classes() {
        let tenant = tenant(volume, class);
        terms(&settings, sector).unwrap_or_default().check(tenant).map_err(|refusal| {
            refusal.to_string().replacen(&tenant.to_string(), &class.export(&volume.name), 1)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::VolumeSettings;
    use headtime_sched::{PriorityClass, VolumeId};
    use headtime_units::{Extent, Nanos};

    fn volume(settings: VolumeSettings) -> Volume {
        Volume {
            id: VolumeId(3),
            name: "a".to_owned(),
            extents: Extent::from_numbers(2048, 8).into(),
            settings,
        }
    }

    fn ordinary(ordinary: ClassSettings) -> Volume {
        volume(VolumeSettings { ordinary, ..VolumeSettings::default() })
    }

    fn of(before: Option<&Volume>, after: Option<&Volume>) -> Vec<ShareChange> {
        changes(before, after, SectorSize::B4096)
    }

    #[test]
    fn only_changes_are_sent_and_a_volume_without_terms_is_not() {
        let share = Share::from_fraction(0.25).unwrap();
        let (plain, shared) = (
            volume(VolumeSettings::default()),
            ordinary(ClassSettings { reserve: share, ..ClassSettings::default() }),
        );
        assert!(of(None, Some(&plain)).is_empty() && of(Some(&shared), Some(&shared)).is_empty());
        let tenant = Tenant::of(VolumeId(3));
        assert_eq!(
            of(Some(&plain), Some(&shared)),
            [ShareChange::Set(tenant, Terms::reserving(share))]
        );
        assert_eq!(of(Some(&shared), Some(&plain)), [ShareChange::Remove(tenant)]);
        assert_eq!(of(Some(&shared), None), [ShareChange::Remove(tenant)]);
        let mut classes = shared.clone();
        classes.settings.bulk = Some(VolumeClass::Bulk.default_settings());
        let bulk = Terms { priority: PriorityClass::Idle, ..Terms::default() };
        assert_eq!(
            of(Some(&shared), Some(&classes)),
            [ShareChange::Set(Tenant::class_of(VolumeId(3), ClassId(2)), bulk)]
        );
    }

    #[test]
    fn limits_are_put_in_the_scheduler_s_units_and_checked_by_it() {
        let settings = ClassSettings {
            bandwidth_limit: Some(1 << 20),
            weight: Some(9),
            iops_limit: Some(7),
            burst: Some(Nanos::from_secs(2)),
            ..ClassSettings::default()
        };
        let terms = terms(&settings, SectorSize::B4096).unwrap();
        assert_eq!(
            (terms.sectors_per_second, terms.requests_per_second, terms.burst, terms.weight),
            (Some(256), Some(7), Nanos::from_secs(2), 9)
        );
        let refusal = check(
            &ordinary(ClassSettings { burst: Some(Nanos::from_ns(1)), ..ClassSettings::default() }),
            SectorSize::B512,
        )
        .unwrap_err();
        assert!(refusal.starts_with("a: a burst of"), "{refusal}");
    }
}
