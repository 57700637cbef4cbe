//! The options of a raw device beside those of every drive.

use std::fmt;
use std::str::FromStr;

use crate::block_device::SystemPaths;

/// The kernel and drive settings for an open block device. For other drives they have no effect,
/// and a message is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawOptions {
    /// Switches off the kernel's own scheduling of the device while it is open.
    pub kernel_knobs: KernelKnobs,
    /// The maximum number of commands at the drive, set as the drive's own limit. `None` leaves the
    /// limit unchanged.
    pub queue_depth: Option<u32>,
    /// The drive's own write cache.
    pub write_cache: WriteCache,
    /// The kernel's device trees; tests use other ones.
    pub system: SystemPaths,
}

/// The treatment of kernel settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelKnobs {
    /// They are set while the device is open and put back afterwards.
    #[default]
    Set,
    /// They stay as they are.
    Keep,
}

/// The setting of the drive's own write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteCache {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is switched on: a write is complete when the cache has it, a flush makes it durable.
    On,
    /// It is switched off: a write is complete when it is durable.
    Off,
}

/// A word that is none of those accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {text}: expected {expected}")]
pub struct RawWordError {
    key: &'static str,
    text: String,
    expected: &'static str,
}

impl KernelKnobs {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Keep => "keep",
        }
    }
}

impl WriteCache {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

impl FromStr for KernelKnobs {
    type Err = RawWordError;
    fn from_str(text: &str) -> Result<Self, RawWordError> {
        let known = [Self::Set, Self::Keep].into_iter().find(|word| word.as_str() == text);
        known.ok_or_else(|| RawWordError {
            key: "kernel_knobs",
            text: text.to_owned(),
            expected: "set or keep",
        })
    }
}

impl FromStr for WriteCache {
    type Err = RawWordError;
    fn from_str(text: &str) -> Result<Self, RawWordError> {
        let known =
            [Self::Keep, Self::On, Self::Off].into_iter().find(|word| word.as_str() == text);
        known.ok_or_else(|| RawWordError {
            key: "write_cache",
            text: text.to_owned(),
            expected: "keep, on or off",
        })
    }
}

impl fmt::Display for KernelKnobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for WriteCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written_and_others_are_refused_with_what_is_accepted() {
        for word in [WriteCache::Keep, WriteCache::On, WriteCache::Off] {
            assert_eq!(word.to_string().parse(), Ok(word));
        }
        for word in [KernelKnobs::Set, KernelKnobs::Keep] {
            assert_eq!(word.to_string().parse(), Ok(word));
        }
        let message = "write back".parse::<WriteCache>().expect_err("a kernel's word").to_string();
        assert_eq!(message, "write_cache = write back: expected keep, on or off");
        assert!("".parse::<KernelKnobs>().is_err());
    }
}
