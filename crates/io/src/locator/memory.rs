//! `memory:SIZE[?sector=512|4096]`: a drive whose bytes are in memory.

use std::fmt;

use headtime_units::{ByteSize, SectorSize, Sectors, parse_bytes};

use super::LocatorError;

/// The parts of a `memory:` locator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLocator {
    /// The drive's size; whole sectors, at least one.
    pub size: ByteSize,
    /// The size of a logical sector.
    pub sector: SectorSize,
}

impl MemoryLocator {
    /// The drive's size in sectors.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        Sectors::new(self.size.get() / u64::from(self.sector.bytes()))
    }

    /// Parses the text after `memory:` in `text`.
    pub(super) fn parse(text: &str, rest: &str) -> Result<Self, LocatorError> {
        let (size, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let mut sector = None;
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            sector = match setting {
                "sector=512" if sector.is_none() => Some(SectorSize::B512),
                "sector=4096" if sector.is_none() => Some(SectorSize::B4096),
                _ => return Err(bad(text, setting, "the setting sector=512 or sector=4096, once")),
            };
        }
        let sector = sector.unwrap_or(SectorSize::B512);
        let bytes = parse_bytes(size).map_err(|_| bad(text, size, "a size such as 1GiB"))?;
        let whole = sector.sectors_of(bytes.get()).is_some_and(|sectors| !sectors.is_zero());
        if !whole || bytes.get() > LARGEST {
            return Err(bad(
                text,
                size,
                "a whole number of sectors, at least one, and at most 8 EiB",
            ));
        }
        Ok(Self { size: bytes, sector })
    }
}

fn bad(text: &str, part: &str, expected: &'static str) -> LocatorError {
    LocatorError::Memory { text: text.to_owned(), part: part.to_owned(), expected }
}

impl fmt::Display for MemoryLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory:{}", self.size.get())?;
        if self.sector == SectorSize::B512 {
            Ok(())
        } else {
            write!(f, "?sector={}", self.sector.bytes())
        }
    }
}

/// Offsets are signed 64-bit numbers in most of the world.
const LARGEST: u64 = 1 << 63;
