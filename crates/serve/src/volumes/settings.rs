//! What can be set on a volume ([`VolumeSettings`]), and changes of some of it that leave the rest as it
//! is ([`SettingsChange`]).

use headtime_sched::{IoPriority, PriorityClass};
use headtime_units::{Nanos, Share};

/// What can be set on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSettings {
    /// Every read and write gets this long from its arrival, if set; from 1 ns.
    pub deadline: Option<Nanos>,
    /// Writes are refused.
    pub read_only: bool,
    /// Text for people; at most [`super::slot::DESCRIPTION_BYTES`] bytes of UTF-8 without control
    /// characters.
    pub description: String,
    /// The part of the drive's time that is the volume's whenever it wants it.
    pub reserve: Share,
    /// The most of the drive's time that it is given; `None` for whatever nobody else wants.
    pub limit: Option<Share>,
    /// How much of its time a volume that was idle may have saved up, as that time at its own rate;
    /// `None` leaves it to the scheduler.
    pub burst: Option<Nanos>,
    /// The most requests a second; from 1.
    pub iops_limit: Option<u32>,
    /// The most bytes a second; from 1.
    pub bandwidth_limit: Option<u64>,
    /// The I/O priority of its requests: how urgent they are beside those of other volumes, as far
    /// as nobody's reservation decides it, and when they are due where [`VolumeSettings::deadline`] does
    /// not say it and `deadlines` does. Without one they are as best effort, and not due.
    pub priority: Option<IoPriority>,
    /// Its classes beside the ordinary one, whose requests all of the above is about.
    pub classes: Classes,
    /// It was added to a running server: it is served from then on, whatever volumes a
    /// configuration names.
    pub always_served: bool,
}

/// A class of requests of one volume: each has an export of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeClass {
    /// `vol0`.
    #[default]
    Ordinary,
    /// `vol0@realtime`: goes first, unless set otherwise.
    Realtime,
    /// `vol0@bulk`: goes last, unless set otherwise.
    Bulk,
}

/// What the requests of one class are promised and what they may not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// See [`VolumeSettings::deadline`].
    pub deadline: Option<Nanos>,
    /// See [`VolumeSettings::reserve`].
    pub reserve: Share,
    /// See [`VolumeSettings::limit`].
    pub limit: Option<Share>,
    /// See [`VolumeSettings::burst`].
    pub burst: Option<Nanos>,
    /// See [`VolumeSettings::iops_limit`].
    pub iops_limit: Option<u32>,
    /// See [`VolumeSettings::bandwidth_limit`].
    pub bandwidth_limit: Option<u64>,
    /// See [`VolumeSettings::priority`].
    pub priority: Option<IoPriority>,
}

/// The classes a volume has exports for beside [`VolumeClass::Ordinary`], each with settings of its own:
/// what is reserved for one is not the others'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// `vol0@realtime`.
    pub realtime: Option<ClassSettings>,
    /// `vol0@bulk`.
    pub bulk: Option<ClassSettings>,
}

/// Which classes there are beside [`VolumeClass::Ordinary`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassNames {
    /// [`VolumeClass::Realtime`].
    pub realtime: bool,
    /// [`VolumeClass::Bulk`].
    pub bulk: bool,
}

/// What of the settings is to be otherwise; `None` leaves a setting as it is, and where a setting
/// itself may be absent, `Some(None)` takes it away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// See [`VolumeSettings::deadline`].
    pub deadline: Option<Option<Nanos>>,
    /// See [`VolumeSettings::read_only`].
    pub read_only: Option<bool>,
    /// See [`VolumeSettings::description`].
    pub description: Option<String>,
    /// See [`VolumeSettings::reserve`].
    pub reserve: Option<Share>,
    /// See [`VolumeSettings::limit`].
    pub limit: Option<Option<Share>>,
    /// See [`VolumeSettings::burst`].
    pub burst: Option<Option<Nanos>>,
    /// See [`VolumeSettings::iops_limit`].
    pub iops_limit: Option<Option<u32>>,
    /// See [`VolumeSettings::bandwidth_limit`].
    pub bandwidth_limit: Option<Option<u64>>,
    /// See [`VolumeSettings::priority`].
    pub priority: Option<Option<IoPriority>>,
    /// Which classes there are beside the ordinary one; those that stay keep their settings, those
    /// that come have the usual ones.
    pub classes: Option<ClassNames>,
    /// See [`VolumeSettings::always_served`].
    pub always_served: Option<bool>,
}

impl Default for VolumeSettings {
    fn default() -> Self {
        Self {
            deadline: None,
            read_only: false,
            description: String::new(),
            reserve: Share::NONE,
            limit: None,
            burst: None,
            iops_limit: None,
            bandwidth_limit: None,
            priority: None,
            classes: Classes::default(),
            always_served: false,
        }
    }
}

impl SettingsChange {
    /// The settings after the change.
    #[must_use]
    pub fn of(&self, before: &VolumeSettings) -> VolumeSettings {
        let Self {
            deadline,
            read_only,
            description,
            reserve,
            limit,
            burst,
            iops_limit,
            bandwidth_limit,
            priority,
            classes,
            always_served,
        } = self;
        VolumeSettings {
            deadline: deadline.unwrap_or(before.deadline),
            read_only: read_only.unwrap_or(before.read_only),
            description: description.clone().unwrap_or_else(|| before.description.clone()),
            reserve: reserve.unwrap_or(before.reserve),
            limit: limit.unwrap_or(before.limit),
            burst: burst.unwrap_or(before.burst),
            iops_limit: iops_limit.unwrap_or(before.iops_limit),
            bandwidth_limit: bandwidth_limit.unwrap_or(before.bandwidth_limit),
            priority: priority.unwrap_or(before.priority),
            classes: classes.map_or(before.classes, |names| before.classes.named(names)),
            always_served: always_served.unwrap_or(before.always_served),
        }
    }
}

impl From<VolumeSettings> for SettingsChange {
    /// The change after which exactly these settings hold, but for those of classes.
    fn from(settings: VolumeSettings) -> Self {
        let VolumeSettings {
            deadline,
            read_only,
            description,
            reserve,
            limit,
            burst,
            iops_limit,
            bandwidth_limit,
            priority,
            classes,
            always_served,
        } = settings;
        Self {
            deadline: Some(deadline),
            read_only: Some(read_only),
            description: Some(description),
            reserve: Some(reserve),
            limit: Some(limit),
            burst: Some(burst),
            iops_limit: Some(iops_limit),
            bandwidth_limit: Some(bandwidth_limit),
            priority: Some(priority),
            classes: Some(classes.names()),
            always_served: Some(always_served),
        }
    }
}

impl VolumeClass {
    /// Every class, the volume's own first.
    pub const ALL: [Self; 3] = [Self::Ordinary, Self::Realtime, Self::Bulk];

    /// The name behind the `@` of its exports; empty for the volume's own.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "",
            Self::Realtime => "realtime",
            Self::Bulk => "bulk",
        }
    }

    /// The export of `volume` for this class.
    #[must_use]
    pub fn export(self, volume: &str) -> String {
        if self == Self::Ordinary { volume.to_owned() } else { format!("{volume}@{}", self.name()) }
    }

    /// The class of this name behind the `@`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class != Self::Ordinary && class.name() == name)
    }

    /// The volume and class that an export's name says.
    #[must_use]
    pub fn of_export(export: &str) -> (&str, Option<Self>) {
        export
            .split_once('@')
            .map_or((export, Some(Self::Ordinary)), |(volume, class)| (volume, Self::named(class)))
    }

    /// What the scheduler knows the class by.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Ordinary => 0,
            Self::Realtime => 1,
            Self::Bulk => 2,
        }
    }

    /// The settings of this class unless somebody says otherwise.
    #[must_use]
    pub fn usual(self) -> ClassSettings {
        let priority = match self {
            Self::Ordinary => None,
            Self::Realtime => Some(IoPriority::default_of(PriorityClass::RealTime)),
            Self::Bulk => Some(IoPriority::default_of(PriorityClass::Idle)),
        };
        ClassSettings { priority, ..ClassSettings::of(&VolumeSettings::default()) }
    }
}

impl ClassSettings {
    /// What a volume's settings say of its ordinary class.
    #[must_use]
    pub fn of(settings: &VolumeSettings) -> Self {
        let VolumeSettings {
            deadline,
            reserve,
            limit,
            burst,
            iops_limit,
            bandwidth_limit,
            priority,
            ..
        } = *settings;
        Self { deadline, reserve, limit, burst, iops_limit, bandwidth_limit, priority }
    }

    /// VolumeSettings that say this of the ordinary class, and nothing else.
    #[must_use]
    pub fn alone(self) -> VolumeSettings {
        let Self { deadline, reserve, limit, burst, iops_limit, bandwidth_limit, priority } = self;
        VolumeSettings {
            deadline,
            reserve,
            limit,
            burst,
            iops_limit,
            bandwidth_limit,
            priority,
            ..VolumeSettings::default()
        }
    }
}

impl VolumeSettings {
    /// What they say of a class; `None` of one that the volume does not have.
    #[must_use]
    pub fn of_class(&self, class: VolumeClass) -> Option<ClassSettings> {
        match class {
            VolumeClass::Ordinary => Some(ClassSettings::of(self)),
            VolumeClass::Realtime => self.classes.realtime,
            VolumeClass::Bulk => self.classes.bulk,
        }
    }

    /// The classes that the volume has, and what is said of each; the ordinary one first.
    pub fn classes(&self) -> impl Iterator<Item = (VolumeClass, ClassSettings)> + '_ {
        VolumeClass::ALL.into_iter().filter_map(|class| Some((class, self.of_class(class)?)))
    }

    /// All that is reserved for the volume and its classes, in billionths of the drive's time.
    #[must_use]
    pub fn reserved_billionths(&self) -> u64 {
        self.classes().map(|(_, class)| u64::from(class.reserve.as_billionths())).sum()
    }
}

impl Classes {
    /// Which there are.
    #[must_use]
    pub fn names(&self) -> ClassNames {
        ClassNames { realtime: self.realtime.is_some(), bulk: self.bulk.is_some() }
    }

    /// These classes, those that are there already with their settings.
    #[must_use]
    pub fn named(&self, names: ClassNames) -> Self {
        let class = |there: Option<ClassSettings>, wanted: bool, class: VolumeClass| {
            wanted.then(|| there.unwrap_or_else(|| class.usual()))
        };
        Self {
            realtime: class(self.realtime, names.realtime, VolumeClass::Realtime),
            bulk: class(self.bulk, names.bulk, VolumeClass::Bulk),
        }
    }

    /// Gives a class settings, or takes it away.
    ///
    /// # Panics
    /// For [`VolumeClass::Ordinary`], which is no part of these.
    pub fn set(&mut self, class: VolumeClass, settings: Option<ClassSettings>) {
        match class {
            VolumeClass::Ordinary => panic!("the ordinary class is always there"),
            VolumeClass::Realtime => self.realtime = settings,
            VolumeClass::Bulk => self.bulk = settings,
        }
    }
}

impl ClassNames {
    /// Reads `realtime+bulk`, one of them, or `none`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut names = Self::default();
        for name in text.split('+').filter(|_| text != "none") {
            match VolumeClass::named(name)? {
                VolumeClass::Ordinary => {}
                VolumeClass::Realtime => names.realtime = true,
                VolumeClass::Bulk => names.bulk = true,
            }
        }
        Some(names)
    }
}

impl std::fmt::Display for ClassNames {
    /// The text that [`ClassNames::parse`] reads back.
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
    fn a_change_of_nothing_changes_nothing_and_one_from_settings_leaves_exactly_them() {
        let settings = VolumeSettings {
            deadline: Some(Nanos::from_ms(5)),
            reserve: Share::from_fraction(0.25).expect("a quarter"),
            limit: Some(Share::WHOLE),
            iops_limit: Some(7),
            priority: Some(IoPriority::default_of(PriorityClass::Idle)),
            always_served: true,
            description: "text".to_owned(),
            ..VolumeSettings::default()
        };
        assert_eq!(SettingsChange::default().of(&settings), settings);
        assert_eq!(SettingsChange::from(settings.clone()).of(&VolumeSettings::default()), settings);
        let without = SettingsChange { limit: Some(None), ..SettingsChange::default() };
        assert_eq!(without.of(&settings), VolumeSettings { limit: None, ..settings });
    }

    #[test]
    fn classes_have_names_exports_and_a_text_that_is_read_back() {
        for text in ["none", "realtime", "bulk", "realtime+bulk"] {
            assert_eq!(
                ClassNames::parse(text).map(|names| names.to_string()).as_deref(),
                Some(text)
            );
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
    fn classes_that_stay_keep_their_settings_and_reservations_add_up() {
        let share = |fraction| Share::from_fraction(fraction).expect("a share");
        let bulk = ClassSettings { reserve: share(0.1), ..VolumeClass::Bulk.usual() };
        let before = VolumeSettings {
            reserve: share(0.2),
            classes: Classes { realtime: None, bulk: Some(bulk) },
            ..VolumeSettings::default()
        };
        let both = SettingsChange {
            classes: ClassNames::parse("realtime+bulk"),
            ..SettingsChange::default()
        }
        .of(&before);
        assert_eq!(
            (both.classes.bulk, both.classes.realtime),
            (Some(bulk), Some(VolumeClass::Realtime.usual()))
        );
        assert_eq!((both.reserved_billionths(), both.classes().count()), (300_000_000, 3));
        let none =
            SettingsChange { classes: ClassNames::parse("none"), ..SettingsChange::default() }
                .of(&both);
        assert_eq!(none.classes, Classes::default());
        assert_eq!(ClassSettings::of(&bulk.alone()), bulk);
    }
}
