//! The settings of a volume ([`VolumeSettings`]) and partial changes of them ([`SettingsChange`]).

use headtime_sched::{IoPriority, PriorityClass};
use headtime_units::{Nanos, Share};

/// The settings of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeSettings {
    /// The ordinary class, which every volume has.
    pub ordinary: ClassSettings,
    /// The class `NAME@realtime`, if the volume has it.
    pub realtime: Option<ClassSettings>,
    /// The class `NAME@bulk`, if the volume has it.
    pub bulk: Option<ClassSettings>,
    /// Writes are refused.
    pub read_only: bool,
    /// Free text; at most [`super::slot::DESCRIPTION_BYTES`] bytes of UTF-8 without control
    /// characters.
    pub description: String,
    /// The volume was added to a running server. It is served from then on, whichever volumes a
    /// configuration names.
    pub always_served: bool,
}

/// A class of requests of one volume. Each class has an export of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeClass {
    /// `vol0`.
    #[default]
    Ordinary,
    /// `vol0@realtime`: scheduled first by default.
    Realtime,
    /// `vol0@bulk`: scheduled last by default.
    Bulk,
}

/// Guarantees and limits of the requests of one class. A reservation of one class is not available
/// to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSettings {
    /// Time from the arrival of a read or write to its deadline; at least 1 ns.
    pub deadline: Option<Nanos>,
    /// The share of the drive's time that the class is entitled to whenever it has requests.
    pub reserve: Share,
    /// The largest share of the drive's time; `None` for no limit.
    pub limit: Option<Share>,
    /// The largest entitlement that an idle class saves up, as time at its own rate; `None` for
    /// the scheduler's default.
    pub burst: Option<Nanos>,
    /// The part of unreserved time beside classes of the same priority; `None` for 1.
    pub weight: Option<u16>,
    /// The maximum number of requests per second; at least 1.
    pub iops_limit: Option<u32>,
    /// The maximum number of bytes per second; at least 1.
    pub bandwidth_limit: Option<u64>,
    /// The I/O priority: the order among volumes for time that no reservation covers. It also sets
    /// deadlines if `deadline` is absent and the tunable `deadlines` has an entry for it. Without a
    /// priority, requests are best effort and have no deadline.
    pub priority: Option<IoPriority>,
}

/// The optional classes of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassNames {
    /// [`VolumeClass::Realtime`].
    pub realtime: bool,
    /// [`VolumeClass::Bulk`].
    pub bulk: bool,
}

/// A partial change of settings. `None` leaves a setting unchanged; `Some(None)` removes a setting
/// that may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// See [`ClassSettings::deadline`].
    pub deadline: Option<Option<Nanos>>,
    /// See [`VolumeSettings::read_only`].
    pub read_only: Option<bool>,
    /// See [`VolumeSettings::description`].
    pub description: Option<String>,
    /// See [`ClassSettings::reserve`].
    pub reserve: Option<Share>,
    /// See [`ClassSettings::limit`].
    pub limit: Option<Option<Share>>,
    /// See [`ClassSettings::burst`].
    pub burst: Option<Option<Nanos>>,
    /// See [`ClassSettings::weight`].
    pub weight: Option<Option<u16>>,
    /// See [`ClassSettings::iops_limit`].
    pub iops_limit: Option<Option<u32>>,
    /// See [`ClassSettings::bandwidth_limit`].
    pub bandwidth_limit: Option<Option<u64>>,
    /// See [`ClassSettings::priority`].
    pub priority: Option<Option<IoPriority>>,
    /// The optional classes after the change. Existing classes keep their settings; new ones get
    /// [`VolumeClass::default_settings`].
    pub classes: Option<ClassNames>,
    /// See [`VolumeSettings::always_served`].
    pub always_served: Option<bool>,
}

impl SettingsChange {
    /// The settings of the whole volume after the change.
    #[must_use]
    pub fn apply_to(&self, before: &VolumeSettings) -> VolumeSettings {
        let class = |old: Option<ClassSettings>, kept: Option<bool>, class: VolumeClass| match kept
        {
            None => old,
            Some(kept) => kept.then(|| old.unwrap_or_else(|| class.default_settings())),
        };
        let realtime = self.classes.map(|names| names.realtime);
        let bulk = self.classes.map(|names| names.bulk);
        VolumeSettings {
            ordinary: self.apply_to_class(before.ordinary),
            realtime: class(before.realtime, realtime, VolumeClass::Realtime),
            bulk: class(before.bulk, bulk, VolumeClass::Bulk),
            read_only: self.read_only.unwrap_or(before.read_only),
            description: self.description.clone().unwrap_or_else(|| before.description.clone()),
            always_served: self.always_served.unwrap_or(before.always_served),
        }
    }

    /// The keys of the settings that the change would give another value.
    #[must_use]
    pub fn keys_that_change(&self, settings: &VolumeSettings) -> Vec<&'static str> {
        let Self { deadline, read_only, reserve, limit, burst, weight, iops_limit, .. } = *self;
        let Self { bandwidth_limit, priority, classes, .. } = *self;
        let description = self.description.clone();
        let none = Self::default;
        let single = [
            ("deadline", Self { deadline, ..none() }),
            ("read_only", Self { read_only, ..none() }),
            ("description", Self { description, ..none() }),
            ("reserve", Self { reserve, ..none() }),
            ("limit", Self { limit, ..none() }),
            ("burst", Self { burst, ..none() }),
            ("weight", Self { weight, ..none() }),
            ("iops_limit", Self { iops_limit, ..none() }),
            ("bandwidth_limit", Self { bandwidth_limit, ..none() }),
            ("priority", Self { priority, ..none() }),
            ("classes", Self { classes, ..none() }),
        ];
        let changes = single.iter().filter(|(_, change)| change.apply_to(settings) != *settings);
        changes.map(|(key, _)| *key).collect()
    }

    /// The settings of one class after the change; settings of the whole volume have no effect.
    #[must_use]
    pub fn apply_to_class(&self, before: ClassSettings) -> ClassSettings {
        ClassSettings {
            deadline: self.deadline.unwrap_or(before.deadline),
            reserve: self.reserve.unwrap_or(before.reserve),
            limit: self.limit.unwrap_or(before.limit),
            burst: self.burst.unwrap_or(before.burst),
            weight: self.weight.unwrap_or(before.weight),
            iops_limit: self.iops_limit.unwrap_or(before.iops_limit),
            bandwidth_limit: self.bandwidth_limit.unwrap_or(before.bandwidth_limit),
            priority: self.priority.unwrap_or(before.priority),
        }
    }
}

impl VolumeClass {
    /// Every class, the ordinary one first.
    pub const ALL: [Self; 3] = [Self::Ordinary, Self::Realtime, Self::Bulk];

    /// The part after the `@` in the name of its export; empty for the ordinary class.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "",
            Self::Realtime => "realtime",
            Self::Bulk => "bulk",
        }
    }

    /// The name of the export of `volume` for this class.
    #[must_use]
    pub fn export(self, volume: &str) -> String {
        if self == Self::Ordinary { volume.to_owned() } else { format!("{volume}@{}", self.name()) }
    }

    /// The optional class with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class != Self::Ordinary && class.name() == name)
    }

    /// The volume and class in the name of an export.
    #[must_use]
    pub fn of_export(export: &str) -> (&str, Option<Self>) {
        export
            .split_once('@')
            .map_or((export, Some(Self::Ordinary)), |(volume, class)| (volume, Self::named(class)))
    }

    /// The number of the class in the scheduler and in the table on the drive.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The settings of a new class.
    #[must_use]
    pub fn default_settings(self) -> ClassSettings {
        let priority = match self {
            Self::Ordinary => None,
            Self::Realtime => Some(IoPriority::default_of(PriorityClass::RealTime)),
            Self::Bulk => Some(IoPriority::default_of(PriorityClass::Idle)),
        };
        ClassSettings { priority, ..ClassSettings::default() }
    }
}

impl VolumeSettings {
    /// The settings of a class; `None` if the volume does not have it.
    #[must_use]
    pub fn of_class(&self, class: VolumeClass) -> Option<ClassSettings> {
        match class {
            VolumeClass::Ordinary => Some(self.ordinary),
            VolumeClass::Realtime => self.realtime,
            VolumeClass::Bulk => self.bulk,
        }
    }

    /// Sets or removes an optional class.
    ///
    /// # Panics
    /// For [`VolumeClass::Ordinary`] without settings: every volume has it.
    pub fn set_class(&mut self, class: VolumeClass, settings: Option<ClassSettings>) {
        match class {
            VolumeClass::Ordinary => {
                self.ordinary = settings.expect("a volume always has its ordinary class")
            }
            VolumeClass::Realtime => self.realtime = settings,
            VolumeClass::Bulk => self.bulk = settings,
        }
    }

    /// The classes of the volume with their settings, the ordinary class first.
    pub fn classes(&self) -> impl Iterator<Item = (VolumeClass, ClassSettings)> + '_ {
        VolumeClass::ALL.into_iter().filter_map(|class| Some((class, self.of_class(class)?)))
    }

    /// The sum of the reservations of all classes, in billionths of the drive's time.
    #[must_use]
    pub fn reserved_billionths(&self) -> u64 {
        self.classes().map(|(_, class)| u64::from(class.reserve.as_billionths())).sum()
    }
}

impl ClassNames {
    /// Parses `realtime+bulk`, one of the two names, or `none`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Self::default()),
            "realtime" => Some(Self { realtime: true, bulk: false }),
            "bulk" => Some(Self { realtime: false, bulk: true }),
            "realtime+bulk" | "bulk+realtime" => Some(Self { realtime: true, bulk: true }),
            _ => None,
        }
    }
}

impl std::fmt::Display for ClassNames {
    /// The text that [`ClassNames::parse`] accepts.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.realtime, self.bulk) {
            (false, false) => "none",
            (true, false) => "realtime",
            (false, true) => "bulk",
            (true, true) => "realtime+bulk",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_replaces_only_what_it_names() {
        let settings = VolumeSettings {
            ordinary: ClassSettings { limit: Some(Share::WHOLE), ..ClassSettings::default() },
            description: "text".to_owned(),
            ..VolumeSettings::default()
        };
        assert_eq!(SettingsChange::default().apply_to(&settings), settings);
        let without = SettingsChange { limit: Some(None), ..SettingsChange::default() };
        let ordinary = ClassSettings::default();
        assert_eq!(without.apply_to(&settings), VolumeSettings { ordinary, ..settings });
    }

    #[test]
    fn class_names_and_exports_parse_back() {
        for text in ["none", "realtime", "bulk", "realtime+bulk"] {
            let names = ClassNames::parse(text).map(|names| names.to_string());
            assert_eq!(names.as_deref(), Some(text));
        }
        for wrong in ["", "all", "realtime+", "realtime,bulk"] {
            assert_eq!(ClassNames::parse(wrong), None, "{wrong}");
        }
        for class in VolumeClass::ALL {
            assert_eq!(VolumeClass::of_export(&class.export("vol0")), ("vol0", Some(class)));
        }
        assert_eq!(VolumeClass::of_export("vol0@other"), ("vol0", None));
    }

    #[test]
    fn remaining_classes_keep_their_settings_and_reservations_add_up() {
        let share = |fraction| Share::from_fraction(fraction).expect("a share");
        let bulk = ClassSettings { reserve: share(0.1), ..VolumeClass::Bulk.default_settings() };
        let before = VolumeSettings {
            ordinary: ClassSettings { reserve: share(0.2), ..ClassSettings::default() },
            bulk: Some(bulk),
            ..VolumeSettings::default()
        };
        let classes = ClassNames::parse("realtime+bulk");
        let both = SettingsChange { classes, ..SettingsChange::default() }.apply_to(&before);
        assert_eq!(
            (both.bulk, both.realtime),
            (Some(bulk), Some(VolumeClass::Realtime.default_settings()))
        );
        assert_eq!((both.reserved_billionths(), both.classes().count()), (300_000_000, 3));
        let none = SettingsChange { classes: ClassNames::parse("none"), ..Default::default() };
        let none = none.apply_to(&both);
        assert_eq!((none.realtime, none.bulk), (None, None));
    }
}
