//! [`Tunables`]: settings of a running scheduler, with the names of the files in the paper of the
//! latency map.
//!
//! - `latency_matrix`: `use`, `explore` or `ignore`; default `use`. Whether `satf-map`,
//!   `fsatf-map`, `fsatf-map-exact` and `g-matrix` use the drive model's times, prefer unknown
//!   pairs, or use addresses.
//! - `deadlines`: such as `rt/0=50ms,be=200ms`, each from 1 ms to 1 h; default none. The deadline
//!   of a request by its I/O priority, if it has none of its own.
//! - `lookahead_k`: a number from 1 to 8, or `policy`; default `policy`. The number of deadlines
//!   that `g-matrix` considers; `policy` is its parameter.
//! - `timesource`: `clock`, or `ticks=4ms` from 1 us to 100 ms; default `clock`. Whether the drive
//!   model learns from exact times or from whole ticks of a timer.
//!
//! Worked example: `deadlines` is set to `rt=100ms,be/7=1s`. A read of priority rt/3 submitted at
//! 2.0 s is due at 2.1 s, one of be/7 at 3.0 s, one of be/4 never.
//!
//! A text is applied as a whole or refused as a whole. In the paper `latency_matrix` also saves and
//! restores a matrix; here the map does that itself. Source: P1 section IV; the classes and levels
//! are those of Linux's `ioprio_set`. The default has no deadlines, because the paper prints none.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use headtime_units::{Instant, Nanos, parse_nanos};

use crate::policies::POLICIES;
use crate::policies::auto::AutoTable;
use crate::table::PolicyEntry;
use crate::tour::{LOOKAHEAD_MAX, Lookahead};

/// Settings that may change at run time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tunables {
    /// The use of the drive model's times of pairs.
    pub latency_matrix: LatencyMatrixUse,
    /// Deadlines by I/O priority.
    pub deadlines: DeadlineTable,
    /// The number of deadlines that `g-matrix` considers; `None` keeps its parameter.
    pub lookahead_k: Option<Lookahead>,
    /// The resolution of time.
    pub timesource: TimeSource,
    /// The table by which `auto` chooses; `None` is [`AutoTable::built_in`]. It comes from a file,
    /// so that it has no text here.
    pub auto_table: Option<Arc<AutoTable>>,
}

/// A tunable: its name, the accepted texts, and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// The name in the paper.
    pub name: &'static str,
    /// The accepted texts and their range.
    pub takes: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
}

/// Every tunable.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "latency_matrix",
        takes: "use, explore or ignore",
        summary: "whether orders use the model's times, prefer unknown pairs, or use addresses",
    },
    Tunable {
        name: "deadlines",
        takes: "a list such as rt/0=50ms,be=200ms of a class (rt, be, idle), a level from 0 to 7 \
            or none for all, and a time from 1 ms to 1 h; an empty text for no deadlines",
        summary: "deadline of a request by its I/O priority, if it has none of its own",
    },
    Tunable {
        name: "lookahead_k",
        takes: "a whole number from 1 to 8, or policy",
        summary: "number of deadlines that g-matrix considers",
    },
    Tunable {
        name: "timesource",
        takes: "clock, or ticks=T with a time from 1 us to 100 ms",
        summary: "whether the drive model learns from exact times or from whole ticks",
    },
];

/// The use of the drive model's times in the orders of the latency map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatencyMatrixUse {
    /// Orders use them.
    #[default]
    Use,
    /// Pairs that are unknown, and would be known after an access, go before all others, by
    /// ascending distance.
    Explore,
    /// Orders use the distance in addresses instead; `g-matrix` orders by deadline alone.
    Ignore,
}

/// A class of I/O priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriorityClass {
    /// Real time.
    RealTime,
    /// Best effort: the default of Linux.
    BestEffort,
    /// Idle.
    Idle,
}

/// An I/O priority: class and level, 0 the most urgent of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoPriority {
    class: PriorityClass,
    level: u8,
}

/// The reason why a text is no I/O priority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no I/O priority; write rt, be or idle, with a level from 0 (most urgent) to 7 \
        after it, such as rt/2"
)]
pub struct PriorityError {
    /// The text as given.
    pub text: String,
}

/// The deadline of each I/O priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadlineTable {
    within: [[Option<Nanos>; LEVELS]; 3],
}

/// The resolution of the times that the drive model learns from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// Exact times: the paper's RDTSC.
    #[default]
    Clock,
    /// In whole ticks: the paper's timer interrupt.
    Ticks(Nanos),
}

/// The reason why a tunable was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum TunableError {
    #[error("there is no tunable `{name}`; known are {known}{parameter}")]
    Unknown { name: String, known: String, parameter: String },
    /// The text is none that the tunable takes, or out of range.
    #[error("{name}: `{part}` is no value; write {takes}")]
    Value { name: &'static str, part: String, takes: &'static str },
}

const LEVELS: usize = 8;
/// The level of a class without a number: the default level of Linux.
const USUAL_LEVEL: u8 = 4;
const DEADLINE_RANGE: (Nanos, Nanos) = (Nanos::from_ms(1), Nanos::from_secs(3_600));
const TICK_RANGE: (Nanos, Nanos) = (Nanos::from_us(1), Nanos::from_ms(100));

impl TunableError {
    /// The error for a name that is none of the `known` ones.
    #[must_use]
    pub fn unknown(name: &str, known: &[&str]) -> Self {
        let has = |entry: &&PolicyEntry| entry.parameters.iter().any(|known| known.name == name);
        let policies: Vec<&str> = POLICIES.iter().filter(has).map(|entry| entry.name).collect();
        let parameter = policies.first().map_or_else(String::new, |first| {
            let all = policies.join(", ");
            format!("; it is a parameter of {all}: write it with the policy, {first}:{name}=VALUE")
        });
        Self::Unknown { name: name.to_string(), known: known.join(", "), parameter }
    }
}

impl Tunables {
    /// Sets the tunable called `name` to `value`.
    ///
    /// # Errors
    /// [`TunableError`], with what would have been accepted; nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        let refused = |part: &str| {
            let tunable = TUNABLES
                .iter()
                .find(|tunable| tunable.name == name)
                .expect("asked only for names that are matched below");
            TunableError::Value { name: tunable.name, part: part.to_string(), takes: tunable.takes }
        };
        match name {
            "latency_matrix" => {
                let used = LatencyMatrixUse::ALL.into_iter().find(|used| used.name() == value);
                self.latency_matrix = used.ok_or_else(|| refused(value))?;
            }
            "deadlines" => self.deadlines = DeadlineTable::parse(value).map_err(refused)?,
            "lookahead_k" if value == "policy" => self.lookahead_k = None,
            "lookahead_k" => {
                let k = value.parse().ok().and_then(Lookahead::new);
                self.lookahead_k = Some(k.ok_or_else(|| refused(value))?);
            }
            "timesource" => {
                self.timesource = TimeSource::parse(value).ok_or_else(|| refused(value))?
            }
            _ => {
                let known: Vec<&str> = TUNABLES.iter().map(|tunable| tunable.name).collect();
                return Err(TunableError::unknown(name, &known));
            }
        }
        Ok(())
    }

    /// The tunable called `name` as a text that [`Tunables::set`] takes.
    ///
    /// # Errors
    /// [`TunableError::Unknown`].
    pub fn get(&self, name: &str) -> Result<String, TunableError> {
        match name {
            "latency_matrix" => Ok(self.latency_matrix.name().to_string()),
            "deadlines" => Ok(self.deadlines.to_string()),
            "lookahead_k" => Ok(self
                .lookahead_k
                .map_or("policy".to_string(), |lookahead| lookahead.k().to_string())),
            "timesource" => Ok(self.timesource.to_string()),
            // The same error as for setting it.
            _ => Self::default().set(name, "").map(|()| String::new()),
        }
    }
}

impl LatencyMatrixUse {
    const ALL: [Self; 3] = [Self::Use, Self::Explore, Self::Ignore];

    fn name(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Explore => "explore",
            Self::Ignore => "ignore",
        }
    }
}

impl PriorityClass {
    /// The classes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::RealTime, Self::BestEffort, Self::Idle];

    /// Its name: `rt`, `be` or `idle`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealTime => "rt",
            Self::BestEffort => "be",
            Self::Idle => "idle",
        }
    }
}

impl IoPriority {
    /// Best effort, level 4: the priority of Linux for processes without one.
    pub const DEFAULT: Self = Self::default_of(PriorityClass::BestEffort);

    /// The priority of a class and a level from 0 (the most urgent) to 7; `None` for other levels.
    #[must_use]
    pub const fn new(class: PriorityClass, level: u8) -> Option<Self> {
        if (level as usize) < LEVELS { Some(Self { class, level }) } else { None }
    }

    /// The priority of a class with the default level 4, as in Linux.
    #[must_use]
    pub const fn default_of(class: PriorityClass) -> Self {
        Self { class, level: USUAL_LEVEL }
    }

    /// Its class.
    #[must_use]
    pub const fn class(self) -> PriorityClass {
        self.class
    }

    /// Its place among all levels of all classes, 0 the most urgent.
    pub(crate) const fn rank(self) -> u8 {
        self.class as u8 * LEVELS as u8 + self.level
    }

    /// Its level.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.level
    }
}

impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.class.name(), self.level)
    }
}

impl FromStr for IoPriority {
    type Err = PriorityError;
    /// From `CLASS/LEVEL`, or a class alone, which is its level 4, as in Linux.
    fn from_str(text: &str) -> Result<Self, PriorityError> {
        let (class, level) = text.split_once('/').map_or((text, USUAL_LEVEL), |(class, level)| {
            (class, level.parse().unwrap_or(u8::MAX))
        });
        let class = PriorityClass::ALL.into_iter().find(|known| known.name() == class);
        class
            .and_then(|class| Self::new(class, level))
            .ok_or_else(|| PriorityError { text: text.to_string() })
    }
}

impl DeadlineTable {
    /// The deadline of this priority, counted from submission.
    #[must_use]
    pub fn within(&self, priority: IoPriority) -> Option<Nanos> {
        self.within[priority.class as usize][usize::from(priority.level)]
    }

    /// Sets the deadline of this priority. Returns whether the time is within 1 ms to 1 h; nothing
    /// is changed otherwise.
    #[must_use = "a time out of range changes nothing"]
    pub fn set(&mut self, priority: IoPriority, within: Option<Nanos>) -> bool {
        let in_range =
            within.is_none_or(|within| (DEADLINE_RANGE.0..=DEADLINE_RANGE.1).contains(&within));
        if in_range {
            self.within[priority.class as usize][usize::from(priority.level)] = within;
        }
        in_range
    }

    /// Parses a table; on failure returns the invalid part.
    fn parse(text: &str) -> Result<Self, &str> {
        let mut table = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, within) = part.split_once('=').ok_or(part)?;
            let (class, level) =
                name.split_once('/').map_or((name, None), |(class, level)| (class, Some(level)));
            let class =
                PriorityClass::ALL.into_iter().find(|known| known.name() == class).ok_or(part)?;
            let within = parse_nanos(within).map_err(|_| part)?;
            let levels = match level {
                Some(level) => {
                    let level: u8 = level.parse().map_err(|_| part)?;
                    level..=level
                }
                None => 0..=LEVELS as u8 - 1,
            };
            for level in levels {
                let priority = IoPriority::new(class, level).ok_or(part)?;
                if !table.set(priority, Some(within)) {
                    return Err(part);
                }
            }
        }
        Ok(table)
    }
}

impl fmt::Display for DeadlineTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for class in PriorityClass::ALL {
            let levels = &self.within[class as usize];
            let alike = levels.iter().all(|within| *within == levels[0]);
            for (level, within) in levels.iter().enumerate().take(if alike { 1 } else { LEVELS }) {
                let Some(within) = within else { continue };
                write!(f, "{comma}{}", class.name())?;
                if !alike {
                    write!(f, "/{level}")?;
                }
                match within.as_ns() {
                    ns if ns % 1_000_000_000 == 0 => write!(f, "={}s", ns / 1_000_000_000)?,
                    ns if ns % 1_000_000 == 0 => write!(f, "={}ms", ns / 1_000_000)?,
                    ns => write!(f, "={}us", ns as f64 / 1e3)?,
                }
                comma = ",";
            }
        }
        Ok(())
    }
}

impl TimeSource {
    /// The time as it is read.
    #[must_use]
    pub fn read(self, at: Instant) -> Instant {
        match self {
            Self::Ticks(tick) if !tick.is_zero() => {
                Instant::from_ns(at.as_ns() / tick.as_ns() * tick.as_ns())
            }
            _ => at,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "clock" {
            return Some(Self::Clock);
        }
        let tick = parse_nanos(text.strip_prefix("ticks=")?).ok()?;
        (TICK_RANGE.0..=TICK_RANGE.1).contains(&tick).then_some(Self::Ticks(tick))
    }
}

impl fmt::Display for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock => f.write_str("clock"),
            Self::Ticks(tick) => write!(f, "ticks={}ns", tick.as_ns()),
        }
    }
}

const _: () = assert!(LOOKAHEAD_MAX == 8, "the range of `lookahead_k` is written in its texts");

#[cfg(test)]
mod tests {
    use super::*;

    fn priority(class: PriorityClass, level: u8) -> IoPriority {
        IoPriority::new(class, level).unwrap()
    }

    /// The worked example.
    #[test]
    fn a_priority_is_due_within_what_the_table_says() {
        let mut tunables = Tunables::default();
        tunables.set("deadlines", "rt=100ms,be/7=1s").unwrap();
        let within = |class, level| tunables.deadlines.within(priority(class, level));
        assert_eq!(within(PriorityClass::RealTime, 3), Some(Nanos::from_ms(100)));
        assert_eq!(
            (within(PriorityClass::BestEffort, 7), within(PriorityClass::BestEffort, 4)),
            (Some(Nanos::from_secs(1)), None)
        );
        tunables.set("deadlines", "").unwrap();
        assert_eq!(tunables.deadlines, DeadlineTable::default());
        assert_eq!(IoPriority::new(PriorityClass::Idle, 8), None);
    }

    #[test]
    fn a_priority_is_a_class_and_a_level() {
        for (text, class, level) in [
            ("rt/0", PriorityClass::RealTime, 0),
            ("be", PriorityClass::BestEffort, 4),
            ("idle/7", PriorityClass::Idle, 7),
        ] {
            assert_eq!(text.parse(), Ok(priority(class, level)), "{text}");
        }
        assert_eq!(
            priority(PriorityClass::RealTime, 2).to_string().parse(),
            Ok(priority(PriorityClass::RealTime, 2))
        );
        for wrong in ["", "rt/8", "rt/-1", "high", "be/", "RT/1"] {
            let message = wrong.parse::<IoPriority>().expect_err(wrong).to_string();
            assert!(
                message.contains(&alloc::format!("`{wrong}`"))
                    && message.contains("rt, be or idle"),
                "{message}"
            );
        }
    }

    #[test]
    fn what_is_got_can_be_set() {
        for (name, texts) in [
            ("latency_matrix", &["use", "explore", "ignore"][..]),
            (
                "deadlines",
                &["", "rt/0=50ms", "rt=50ms,be/3=1ms,idle=1h", "be/0=1500us,be/7=3600s"][..],
            ),
            ("lookahead_k", &["policy", "1", "4", "8"][..]),
            ("timesource", &["clock", "ticks=4ms", "ticks=1us", "ticks=100ms"][..]),
        ] {
            for text in texts {
                let mut set = Tunables::default();
                set.set(name, text).unwrap_or_else(|error| panic!("{error}"));
                let mut again = Tunables::default();
                again.set(name, &set.get(name).unwrap()).unwrap();
                assert_eq!(set, again, "{name} {text}");
            }
        }
        assert_eq!(TUNABLES.len(), 4);
    }

    #[test]
    fn what_is_refused_changes_nothing_and_the_range_is_named() {
        let mut tunables = Tunables::default();
        tunables.set("deadlines", "rt=100ms").unwrap();
        tunables.set("lookahead_k", "6").unwrap();
        let before = tunables.clone();
        for (name, text, part) in [
            ("latency_matrix", "on", "on"),
            ("deadlines", "rt=50ms,be/8=1s", "be/8=1s"),
            ("deadlines", "rt=999us", "rt=999us"),
            ("deadlines", "rt=2h", "rt=2h"),
            ("deadlines", "high=1s", "high=1s"),
            ("deadlines", "rt/-1=1s", "rt/-1=1s"),
            ("deadlines", "rt", "rt"),
            ("lookahead_k", "0", "0"),
            ("lookahead_k", "9", "9"),
            ("lookahead_k", "four", "four"),
            ("timesource", "ticks=0", "ticks=0"),
            ("timesource", "ticks=101ms", "ticks=101ms"),
            ("timesource", "rdtsc", "rdtsc"),
        ] {
            let message = tunables.set(name, text).expect_err(text).to_string();
            let takes = TUNABLES.iter().find(|tunable| tunable.name == name).unwrap().takes;
            assert_eq!(message, alloc::format!("{name}: `{part}` is no value; write {takes}"));
        }
        let unknown = "there is no tunable `lookahead`; known are latency_matrix, deadlines, \
            lookahead_k, timesource";
        assert_eq!(tunables.set("lookahead", "4").expect_err("no such name").to_string(), unknown);
        assert_eq!(tunables.get("lookahead").expect_err("no such name").to_string(), unknown);
        let parameter = tunables.set("ageing_power", "1").expect_err("no such name").to_string();
        let says = "it is a parameter of sptf-expected, headtime: write it with the policy, \
            sptf-expected:ageing_power=VALUE";
        assert!(parameter.ends_with(says), "{parameter}");
        assert_eq!(tunables, before);
    }

    #[test]
    fn ticks_are_whole() {
        let ticks = TimeSource::Ticks(Nanos::from_ms(4));
        assert_eq!(ticks.read(Instant::from_ns(11_999_999)), Instant::from_ns(8_000_000));
        assert_eq!(
            TimeSource::Clock.read(Instant::from_ns(11_999_999)),
            Instant::from_ns(11_999_999)
        );
    }
}
