//! `array:[stripe=SIZE,][schedule=member|whole,]DRIVE,DRIVE,…`: drives striped into one.
//!
//! Members are locators of their own, without a literal comma: within `emulated:`, `simulated:` and
//! NBD locators it is written `%2C`. Settings come before the members. A file whose name looks like
//! a setting is written with a path, as in `./stripe=1`. Equal drives in memory may be written
//! once, as in `4*memory:1GiB`.

use std::fmt;

use headtime_units::{ByteSize, parse_bytes};

use super::{Locator, LocatorError, setting_key};

/// The parts of an `array:` locator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayLocator {
    /// The bytes of a stripe; a multiple of 512, and of the members' sectors.
    pub stripe: ByteSize,
    /// The scheduling of requests.
    pub schedule: ArraySchedule,
    /// The members in the order of stripes, at least two.
    pub members: Vec<Locator>,
}

/// The scheduling of an array's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArraySchedule {
    /// Each member by itself, with its own drive model.
    #[default]
    Member,
    /// The array as one drive, by distance.
    Whole,
}

impl ArraySchedule {
    const ALL: [(&str, Self); 2] = [("member", Self::Member), ("whole", Self::Whole)];
}

/// 128 KiB, as in P4.
const STRIPE: u64 = 128 << 10;
/// The smallest sector, and the unit of stripes.
const UNIT: u64 = 512;
/// The most members of one kind (guess: more than a machine has).
const MOST: usize = 256;
/// Longer stripes than any drive's cache put a large request on one member.
const LONGEST_STRIPE: u64 = 1 << 30;

/// An array whose members are texts of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayTexts<'a> {
    /// As [`ArrayLocator::stripe`].
    pub stripe: ByteSize,
    /// As [`ArrayLocator::schedule`].
    pub schedule: ArraySchedule,
    /// The texts of the members, at least two.
    pub members: Vec<&'a str>,
}

/// Divides `rest`, the part of `text` after `array:`.
fn divide<'a>(text: &str, rest: &'a str) -> Result<ArrayTexts<'a>, LocatorError> {
    let (mut stripe, mut schedule, mut members) = (None, None, Vec::new());
    for part in rest.split(',') {
        match part.split_once('=').filter(|_| setting_key(part).is_some()) {
            Some(_) if !members.is_empty() => {
                let expected = "a drive; write settings of the array before the first drive, those \
                    of a drive after its ? or &, and a file of this name with its directory (./)";
                return Err(bad(text, part, expected));
            }
            Some(("stripe", size)) if stripe.is_none() => stripe = Some(read_stripe(text, size)?),
            Some(("schedule", name)) if schedule.is_none() => {
                let found = ArraySchedule::ALL.into_iter().find(|known| known.0 == name);
                let found = found.ok_or_else(|| bad(text, part, "schedule=member or =whole"))?;
                schedule = Some(found.1);
            }
            Some(_) => return Err(bad(text, part, "the setting stripe or schedule, once")),
            None if part.is_empty() => {
                return Err(bad(text, part, "a drive; write no empty member"));
            }
            None if part.starts_with("array:") => {
                return Err(bad(text, part, "a drive that is no array itself"));
            }
            None => {
                let (count, member) = repeated(part);
                if !(1..=MOST).contains(&count) {
                    return Err(bad(text, part, "1 to 256 drives of a kind, such as 4*DRIVE"));
                }
                members.extend(std::iter::repeat_n(member, count));
            }
        }
    }
    if let [] | [_] = members.as_slice() {
        let only = members.first().copied().unwrap_or(rest);
        return Err(bad(text, only, "two drives or more"));
    }
    let stripe = stripe.unwrap_or(ByteSize::new(STRIPE));
    Ok(ArrayTexts { stripe, schedule: schedule.unwrap_or_default(), members })
}

/// A member that is written once for several, as in `4*memory:1GiB`.
fn repeated(part: &str) -> (usize, &str) {
    let count = |text: &str| text.parse().ok();
    part.split_once('*').and_then(|(n, member)| Some((count(n)?, member))).unwrap_or((1, part))
}

impl<'a> ArrayTexts<'a> {
    /// The parts of `text`; `None` if it does not begin with `array:`.
    ///
    /// # Errors
    /// See [`LocatorError`].
    pub fn parse(text: &'a str) -> Option<Result<Self, LocatorError>> {
        text.strip_prefix("array:").map(|rest| divide(text, rest))
    }
}

impl ArrayLocator {
    /// Parses `text`, which begins with `array:`.
    pub(super) fn parse(text: &str, rest: &str) -> Result<Self, LocatorError> {
        let ArrayTexts { stripe, schedule, members: texts } = divide(text, rest)?;
        let mut members: Vec<Locator> = Vec::with_capacity(texts.len());
        for (place, member) in texts.iter().enumerate() {
            let locator = Locator::parse(member).map_err(|error| LocatorError::Member {
                text: text.to_owned(),
                number: place + 1,
                error: Box::new(error),
            })?;
            // Equal locators of drives in memory are different drives.
            let is_named_once = matches!(locator, Locator::Memory(_) | Locator::Simulated(_))
                || !members.iter().any(|other| is_same_drive(other, &locator));
            if !is_named_once {
                return Err(bad(text, member, "another drive than the members before it"));
            }
            members.push(locator);
        }
        Ok(Self { stripe, schedule, members })
    }
}

/// Returns true if two locators name the same file or server, as far as their texts show.
fn is_same_drive(one: &Locator, other: &Locator) -> bool {
    let file = |locator: &Locator| match locator {
        Locator::Path(path) => Some(path.clone()),
        Locator::Emulated(emulated) => Some(emulated.backing.clone()),
        _ => None,
    };
    one == other || file(one).is_some_and(|path| file(other) == Some(path))
}

fn read_stripe(text: &str, size: &str) -> Result<ByteSize, LocatorError> {
    let expected = "a size from 512 B to 1 GiB in whole sectors, such as stripe=128KiB";
    let stripe = parse_bytes(size).map_err(|_| bad(text, &format!("stripe={size}"), expected))?;
    let fits = (UNIT..=LONGEST_STRIPE).contains(&stripe.get()) && stripe.get() % UNIT == 0;
    if fits { Ok(stripe) } else { Err(bad(text, &format!("stripe={size}"), expected)) }
}

fn bad(text: &str, part: &str, expected: &'static str) -> LocatorError {
    LocatorError::Array { text: text.to_owned(), part: part.to_owned(), expected }
}

impl fmt::Display for ArrayLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "array:stripe={}", self.stripe.get())?;
        if self.schedule != ArraySchedule::default() {
            let known = ArraySchedule::ALL.into_iter().find(|known| known.1 == self.schedule);
            write!(f, ",schedule={}", known.map_or("", |known| known.0))?;
        }
        for member in &self.members {
            let text = member.to_string();
            match member {
                Locator::Path(_) => write!(f, ",{text}")?,
                _ => write!(f, ",{}", text.replace(',', "%2C"))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_read_and_printed() {
        let text = "array:stripe=131072,/dev/sda,emulated:atlas10k?backing=a%2Cb";
        let locator = Locator::parse(text).expect(text);
        assert_eq!(locator.to_string(), text);
        let Locator::Array(array) = locator else { panic!("{text} is an array") };
        assert_eq!((array.stripe.get(), array.members.len()), (128 << 10, 2));
        let short = Locator::parse("array:memory:1MiB,memory:1MiB").expect("two drives in memory");
        let long = "array:stripe=131072,memory:1048576,memory:1048576";
        let repeated = Locator::parse("array:2*memory:1MiB").expect("two drives in memory");
        assert_eq!(repeated.to_string(), long);
        assert_eq!(short.to_string(), long);
        assert_eq!(Locator::parse(long), Ok(short));
        let whole = "array:stripe=131072,schedule=whole,memory:1048576,memory:1048576";
        let locator = Locator::parse(whole).expect(whole);
        assert_eq!(locator.to_string(), whole);
        let by_member = whole.replace("whole", "member");
        let by_member = Locator::parse(&by_member).expect("the default, written out");
        assert_eq!(by_member.to_string(), long);
    }

    #[test]
    fn a_bad_array_names_the_part_and_what_is_expected() {
        let cases = [
            ("array:", "`` is not a drive"),
            ("array:a", "`a` is not two drives or more"),
            ("array:stripe=128KiB", "is not two drives or more"),
            ("array:stripe=1000,a,b", "`stripe=1000` is not a size from 512 B"),
            ("array:stripe=0,a,b", "`stripe=0` is not a size"),
            ("array:stripe=much,a,b", "`stripe=much` is not a size"),
            (
                "array:stripe=1KiB,stripe=1KiB,a,b",
                "`stripe=1KiB` is not the setting stripe or schedule, once",
            ),
            ("array:stripes=1KiB,a,b", "`stripes=1KiB` is not the setting stripe or schedule"),
            ("array:stripe_size=1KiB,a,b", "`stripe_size=1KiB` is not the setting stripe or"),
            ("array:a,b,stripe=1KiB", "`stripe=1KiB` is not a drive; write settings of the array"),
            ("array:a?backing=b,Seed=1,c", "`Seed=1` is not a drive"),
            ("array:schedule=each,a,b", "`schedule=each` is not schedule=member or =whole"),
            ("array:a,,b", "write no empty member"),
            ("array:0*a,b", "`0*a` is not 1 to 256 drives of a kind"),
            ("array:2*a", "`a` is not another drive than the members before it"),
            ("array:a,array:b,c", "`array:b` is not a drive that is no array"),
            ("array:a,b,a", "`a` is not another drive than the members before it"),
            ("array:a,emulated:atlas10k?backing=a", "is not another drive"),
            ("array:a,emulated:atlas10k", "member 2: drive `emulated:atlas10k` names no backing"),
        ];
        for (text, part) in cases {
            let message = Locator::parse(text).expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
            assert!(message.contains(text), "{text}: {message}");
        }
    }
}
