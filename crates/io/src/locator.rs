//! How drives are named, the same everywhere:
//! `emulated:PROFILE[@SETUP]?backing=FILE[&seed=N][&noise=LEVEL]`, an NBD URI (see `nbd`),
//! `memory:SIZE`, `array:DRIVE,DRIVE,…`, or a plain path.
//!
//! `PROFILE` is a name of the catalog (`headtime profiles`), or the path of a profile file:
//! whatever contains a `/` or ends in `.toml`. In the `emulated:` form the characters `%`, `?`,
//! `&`, `@` and `=` within a name or value are written as `%25`, `%3F`, `%26`, `%40`, `%3D`; any
//! byte may be written that way. A plain path is taken literally.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use headtime_mechanics::{NoiseLevel, Shingles};
use headtime_units::{Nanos, parse_bytes, parse_nanos};

mod array;
mod memory;
mod nbd;
mod simulated;

pub use array::{ArrayLocator, ArraySchedule, ArrayTexts};
pub use memory::MemoryLocator;
pub use nbd::NbdLocator;
pub use simulated::SimulatedLocator;

/// The name of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator {
    /// Drives striped into one.
    Array(ArrayLocator),
    /// A simulated drive in real time with its bytes in a file.
    Emulated(EmulatedLocator),
    /// A drive whose bytes are in memory and are gone when it is closed.
    Memory(MemoryLocator),
    /// A simulated drive whose time jumps, its bytes in memory.
    Simulated(SimulatedLocator),
    /// An export of an NBD server.
    Nbd(NbdLocator),
    /// A file or block device, used as a drive as it is.
    Path(PathBuf),
}

/// The parts of an `emulated:` locator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedLocator {
    /// The profile.
    pub profile: ProfileSource,
    /// The named setup of the profile, when one is chosen.
    pub setup: Option<String>,
    /// The file with the drive's bytes.
    pub backing: PathBuf,
    /// The simulated instance of the profile. `None` uses the number remembered with the file, or 0
    /// for a new file.
    pub seed: Option<u64>,
    /// The level of noise [default: typical].
    pub noise: NoiseLevel,
    /// The drive goes to standby after this time without commands [default: never].
    pub standby: Option<Nanos>,
    /// The drive records in shingles and hides it [default: it records conventionally].
    pub smr: Option<Shingles>,
}

/// The source of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileSource {
    /// A name of the catalog.
    Catalog(String),
    /// A profile file.
    File(PathBuf),
}

/// The reason why a text names no drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocatorError {
    /// Nothing was written.
    #[error(
        "the locator of a drive is empty; write {FORM}, an NBD URI, or the path of a file or \
            block device"
    )]
    Empty,
    /// `emulated:` without a profile.
    #[error("drive `{text}` names no profile; write {FORM}")]
    NoProfile {
        /// The text as given.
        text: String,
    },
    /// `emulated:` without `backing=`.
    #[error(
        "drive `{text}` names no backing file; add ?backing=FILE, where the drive's bytes are kept"
    )]
    NoBacking {
        /// The text as given.
        text: String,
    },
    /// A setting that does not exist, or is given twice.
    #[error(
        "drive `{text}`: setting `{key}` is unknown or given twice; use seed=N and noise=LEVEL, \
            and for an emulated drive backing=FILE, standby=TIME and smr=CACHE[/BAND]"
    )]
    UnknownSetting {
        /// The text as given.
        text: String,
        /// The setting.
        key: String,
    },
    /// A value that the setting does not accept.
    #[error("drive `{text}`: {key}={value} is not {expected}")]
    BadValue {
        /// The text as given.
        text: String,
        /// The setting.
        key: &'static str,
        /// Its value, decoded.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A `%` without two hexadecimal digits, or bytes that are no text where text is needed.
    #[error("drive `{text}`: `{part}` is not percent-encoded text; write a literal % as %25")]
    BadEncoding {
        /// The text as given.
        text: String,
        /// The part.
        part: String,
    },
    /// An NBD server that cannot be read from the text.
    #[error("drive `{text}`: {error}")]
    Nbd {
        /// The text as given.
        text: String,
        /// The fault.
        error: headtime_nbd::uri::UriError,
    },
    /// A drive in memory with an invalid size or setting.
    #[error(
        "drive `{text}`: `{part}` is not {expected}; write memory:SIZE[?sector=512|4096], such as \
            memory:1GiB"
    )]
    Memory {
        /// The text as given.
        text: String,
        /// The part.
        part: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// An array with an invalid setting or member.
    #[error(
        "drive `{text}`: `{part}` is not {expected}; write \
            array:[stripe=128KiB,]DRIVE,DRIVE,…"
    )]
    Array {
        /// The text as given.
        text: String,
        /// The part.
        part: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A member of an array that names no drive.
    #[error("drive `{text}`: member {number}: {error}")]
    Member {
        /// The text as given.
        text: String,
        /// The member, from 1.
        number: usize,
        /// The fault.
        error: Box<LocatorError>,
    },
    /// An unknown kind of drive.
    #[error(
        "drive `{text}`: unknown kind of drive `{kind}`; write {FORM}, or ./{text} for a file of \
            this name"
    )]
    UnknownKind {
        /// The text as given.
        text: String,
        /// The text before the colon.
        kind: String,
    },
}

const FORM: &str = "emulated:PROFILE[@SETUP]?backing=FILE[&seed=N][&noise=LEVEL]";

impl Locator {
    /// Reads a locator.
    ///
    /// # Errors
    /// See [`LocatorError`]. Nothing is opened or looked up, so a locator may still name a profile
    /// or file that does not exist.
    pub fn parse(text: &str) -> Result<Self, LocatorError> {
        if text.is_empty() {
            return Err(LocatorError::Empty);
        }
        if let Some(rest) = text.strip_prefix("emulated:") {
            return EmulatedLocator::parse(text, rest).map(Self::Emulated);
        }
        if let Some(rest) = text.strip_prefix("simulated:") {
            return SimulatedLocator::parse(text, rest).map(Self::Simulated);
        }
        if let Some(rest) = text.strip_prefix("array:") {
            return ArrayLocator::parse(text, rest).map(Self::Array);
        }
        if let Some(rest) = text.strip_prefix("memory:") {
            return MemoryLocator::parse(text, rest).map(Self::Memory);
        }
        match text.split_once(':') {
            Some((kind, _)) if ["nbd", "nbds", "nbd+unix", "nbds+unix"].contains(&kind) => {
                NbdLocator::parse(text).map(Self::Nbd)
            }
            Some((kind, _))
                if !kind.is_empty()
                    && kind.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) =>
            {
                Err(LocatorError::UnknownKind { text: text.to_owned(), kind: kind.to_owned() })
            }
            _ => Ok(Self::Path(PathBuf::from(text))),
        }
    }
}

impl Locator {
    /// The kind of the drive, in a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Array(_) => "array",
            Self::Emulated(_) => "emulated",
            Self::Memory(_) => "memory",
            Self::Simulated(_) => "simulated",
            Self::Nbd(_) => "nbd",
            Self::Path(_) => "file",
        }
    }
}

impl EmulatedLocator {
    fn parse(text: &str, rest: &str) -> Result<Self, LocatorError> {
        let (drive, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let (profile, setup) = ProfileSource::parse(text, drive)?;
        let mut backing = None;
        let mut seed = None;
        let mut noise = None;
        let (mut standby, mut smr) = (None, None);
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            let (key, encoded) = setting.split_once('=').unwrap_or((setting, ""));
            match key {
                "backing" if backing.is_none() => {
                    let bytes = decode(encoded).ok_or_else(|| LocatorError::BadEncoding {
                        text: text.to_owned(),
                        part: encoded.to_owned(),
                    })?;
                    if bytes.is_empty() || bytes.contains(&0) {
                        return Err(bad_value(text, "backing", encoded, "the path of a file"));
                    }
                    backing = Some(PathBuf::from(OsString::from_vec(bytes)));
                }
                "seed" if seed.is_none() => seed = Some(read_seed(text, encoded)?),
                "noise" if noise.is_none() => noise = Some(read_noise(text, encoded)?),
                "standby" if standby.is_none() => {
                    let span = parse_nanos(encoded).map_err(|_| {
                        bad_value(text, "standby", encoded, "a time with its unit, such as 10min")
                    })?;
                    standby = Some(span);
                }
                "smr" if smr.is_none() => smr = Some(read_shingles(text, encoded)?),
                _ => {
                    return Err(LocatorError::UnknownSetting {
                        text: text.to_owned(),
                        key: key.to_owned(),
                    });
                }
            }
        }
        let backing = backing.ok_or_else(|| LocatorError::NoBacking { text: text.to_owned() })?;
        let noise = noise.unwrap_or_default();
        Ok(Self { profile, setup, backing, seed, noise, standby, smr })
    }
}

impl ProfileSource {
    /// A file when the text looks like a path, otherwise a name of the catalog.
    #[must_use]
    pub fn of(text: &str) -> Self {
        if text.contains('/') || text.ends_with(".toml") {
            Self::File(PathBuf::from(text))
        } else {
            Self::Catalog(text.to_owned())
        }
    }

    /// `PROFILE[@SETUP]`, the part of a locator in front of its settings.
    fn parse(text: &str, drive: &str) -> Result<(Self, Option<String>), LocatorError> {
        let (profile, setup) = match drive.split_once('@') {
            Some((profile, setup)) => {
                (decode_text(text, profile)?, Some(decode_text(text, setup)?))
            }
            None => (decode_text(text, drive)?, None),
        };
        if profile.is_empty() || setup.as_deref() == Some("") {
            return Err(LocatorError::NoProfile { text: text.to_owned() });
        }
        Ok((Self::of(&profile), setup))
    }

    /// The text that [`ProfileSource::parse`] reads back.
    fn print(&self, setup: Option<&str>) -> String {
        let profile = encode(self.as_path().as_os_str().as_bytes());
        setup.map_or(profile.clone(), |setup| format!("{profile}@{}", encode(setup.as_bytes())))
    }

    fn as_path(&self) -> &Path {
        match self {
            Self::Catalog(name) => Path::new(name),
            Self::File(path) => path,
        }
    }
}

impl FromStr for Locator {
    type Err = LocatorError;
    fn from_str(text: &str) -> Result<Self, LocatorError> {
        Self::parse(text)
    }
}

impl fmt::Display for Locator {
    /// The text that [`Locator::parse`] reads back to the same locator, as long as a plain path is
    /// text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let emulated = match self {
            Self::Array(array) => return array.fmt(f),
            Self::Emulated(emulated) => emulated,
            Self::Memory(memory) => return memory.fmt(f),
            Self::Simulated(simulated) => return simulated.fmt(f),
            Self::Nbd(nbd) => return nbd.fmt(f),
            Self::Path(path) => return path.display().fmt(f),
        };
        write!(f, "emulated:{}", emulated.profile.print(emulated.setup.as_deref()))?;
        write!(f, "?backing={}", encode(emulated.backing.as_os_str().as_bytes()))?;
        if let Some(seed) = emulated.seed {
            write!(f, "&seed={seed}")?;
        }
        print_noise(f, emulated.noise)?;
        match emulated.standby.map(Nanos::as_ns) {
            None => {}
            Some(ns) if ns % 1_000_000_000 == 0 => write!(f, "&standby={}s", ns / 1_000_000_000)?,
            Some(ns) => write!(f, "&standby={ns}ns")?,
        }
        emulated.smr.map_or(Ok(()), |Shingles { media_cache, band }| {
            write!(f, "&smr={}/{}", media_cache.get(), band.get())
        })
    }
}

fn read_seed(text: &str, encoded: &str) -> Result<u64, LocatorError> {
    let seed = decode_text(text, encoded)?.parse();
    seed.map_err(|_| {
        bad_value(text, "seed", encoded, "a whole number from 0 to 18446744073709551615")
    })
}

fn read_noise(text: &str, encoded: &str) -> Result<NoiseLevel, LocatorError> {
    let level = decode_text(text, encoded)?.parse();
    level.map_err(|_| bad_value(text, "noise", encoded, "off, quiet, typical or harsh"))
}

/// Reads `CACHE[/BAND]`.
fn read_shingles(text: &str, encoded: &str) -> Result<Shingles, LocatorError> {
    let wrong = |_| {
        let expected =
            "the size of a media cache such as 1GiB, or also of a band, such as 1GiB/32MiB";
        bad_value(text, "smr", encoded, expected)
    };
    let (media_cache, band) =
        encoded.split_once('/').map_or((encoded, None), |(cache, band)| (cache, Some(band)));
    let band = band.map_or(Ok(Shingles::BAND), parse_bytes).map_err(wrong)?;
    Ok(Shingles { media_cache: parse_bytes(media_cache).map_err(wrong)?, band })
}

/// Writes the level unless it is the default.
fn print_noise(f: &mut fmt::Formatter<'_>, level: NoiseLevel) -> fmt::Result {
    if level == NoiseLevel::default() { Ok(()) } else { write!(f, "&noise={level}") }
}

/// The key of `part` if it looks like a setting: `KEY=VALUE` with a key of letters, digits, `_` and
/// `-`.
pub(crate) fn setting_key(part: &str) -> Option<&str> {
    let (key, _) = part.split_once('=')?;
    let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_key.then_some(key)
}

fn bad_value(text: &str, key: &'static str, encoded: &str, expected: &'static str) -> LocatorError {
    let value = String::from_utf8_lossy(&decode(encoded).unwrap_or_default()).into_owned();
    LocatorError::BadValue { text: text.to_owned(), key, value, expected }
}

fn decode_text(whole: &str, part: &str) -> Result<String, LocatorError> {
    let bytes = decode(part).and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| LocatorError::BadEncoding { text: whole.to_owned(), part: part.to_owned() })
}

fn decode(part: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        decoded.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = tail;
    }
    Some(decoded)
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        let plain = byte.is_ascii_graphic() && !b"%?&@=\"'\\`<>#".contains(byte);
        if plain { text.push(char::from(*byte)) } else { text.push_str(&format!("%{byte:02X}")) }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::{ByteSize, SectorSize};
    use proptest::prelude::*;

    fn emulated(profile: &str, backing: &str) -> EmulatedLocator {
        EmulatedLocator {
            profile: ProfileSource::of(profile),
            setup: None,
            backing: backing.into(),
            seed: None,
            noise: NoiseLevel::Typical,
            standby: None,
            smr: None,
        }
    }

    #[test]
    fn accepted_locators() {
        let cases = [
            (
                "emulated:nearline20t?backing=/var/d.img",
                Locator::Emulated(emulated("nearline20t", "/var/d.img")),
            ),
            (
                "emulated:atlas10k@cached?seed=7&backing=my%20disk%26co.img&noise=off&standby=90s",
                Locator::Emulated(EmulatedLocator {
                    setup: Some("cached".into()),
                    seed: Some(7),
                    noise: NoiseLevel::Off,
                    standby: Some(Nanos::from_secs(90)),
                    ..emulated("atlas10k", "my disk&co.img")
                }),
            ),
            (
                "emulated:barracuda-2tb?backing=f&smr=1GiB",
                Locator::Emulated(EmulatedLocator {
                    smr: Some(Shingles {
                        media_cache: ByteSize::new(1 << 30),
                        band: ByteSize::new(32 << 20),
                    }),
                    ..emulated("barracuda-2tb", "f")
                }),
            ),
            ("emulated:./mine.toml?backing=d", Locator::Emulated(emulated("./mine.toml", "d"))),
            (
                "memory:1GiB",
                Locator::Memory(MemoryLocator {
                    size: ByteSize::new(1 << 30),
                    sector: SectorSize::B512,
                }),
            ),
            (
                "memory:40960?sector=4096",
                Locator::Memory(MemoryLocator {
                    size: ByteSize::new(40_960),
                    sector: SectorSize::B4096,
                }),
            ),
            (
                "simulated:atlas10k@nocache?seed=3&noise=off",
                Locator::Simulated(SimulatedLocator {
                    profile: ProfileSource::of("atlas10k"),
                    setup: Some("nocache".into()),
                    seed: 3,
                    noise: NoiseLevel::Off,
                }),
            ),
            ("mine.img", Locator::Path("mine.img".into())),
            ("/srv/a:b?c=%20", Locator::Path("/srv/a:b?c=%20".into())),
        ];
        for (text, locator) in cases {
            assert_eq!(Locator::parse(text), Ok(locator), "{text}");
        }
    }

    #[test]
    fn refused_locators_say_what_is_wrong_and_what_would_be_right() {
        let cases = [
            ("", "empty"),
            ("emulated:", "names no profile"),
            ("emulated:@cached?backing=f", "names no profile"),
            ("emulated:atlas10k", "names no backing file"),
            ("emulated:atlas10k?backing=", "the path of a file"),
            ("emulated:atlas10k?backing=f&seed=-1", "seed=-1 is not a whole number"),
            ("emulated:atlas10k?backing=f&noise=loud", "noise=loud is not off, quiet, typical or"),
            ("emulated:atlas10k?backing=f&backing=g", "`backing` is unknown or given twice"),
            ("emulated:atlas10k?backing=f&smr=yes", "smr=yes is not the size of a media cache"),
            ("emulated:atlas10k?backing=f&color=red", "`color` is unknown"),
            ("emulated:atlas10k?backing=f&color=red", "standby=TIME and smr=CACHE[/BAND]"),
            ("emulated:atlas10k?backing=100%", "%25"),
            ("nbd:export", "nbd://HOST[:PORT]/EXPORT"),
            ("simulated:", "names no profile"),
            ("simulated:atlas10k?backing=f", "`backing` is unknown"),
            ("memory:", "a size such as 1GiB"),
            ("memory:0", "at least one"),
            ("memory:5000?sector=4096", "a whole number of sectors"),
            ("memory:1GiB?sector=520", "sector=512 or sector=4096"),
            ("iscsi:target", "unknown kind of drive `iscsi`"),
        ];
        for (text, expected) in cases {
            let message = Locator::parse(text).expect_err(text).to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(
            profile in "[a-z?&@=% .-]{1,12}",
            backing in "[^\\x00]{1,20}",
            seed in any::<Option<u64>>(),
            noise in proptest::sample::select(&NoiseLevel::ALL),
            setup in proptest::option::of("[a-z@ %]{1,8}"),
            standby in proptest::option::of((1..1_u64 << 50).prop_map(Nanos::from_ns)),
            smr in proptest::option::of((1..1_u64 << 50, 1..1_u64 << 50)),
        ) {
            let emulated = emulated(&profile, &backing);
            let smr = smr.map(|(media_cache, band)| Shingles {
                media_cache: ByteSize::new(media_cache),
                band: ByteSize::new(band),
            });
            let locator =
                Locator::Emulated(EmulatedLocator { setup, seed, noise, standby, smr, ..emulated });
            prop_assert_eq!(Locator::parse(&locator.to_string()), Ok(locator));
        }
    }
}
