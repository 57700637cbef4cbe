//! [`Check`]: the checks of one stream's settings, with messages that name setting, value,
//! expectation and remedy.

use alloc::format;
use alloc::string::{String, ToString};

use headtime_units::{Nanos, SectorSize, Sectors};

use crate::error::StreamFault;

/// The maximum request; real drives accept some tens of MiB in one command.
const MAX_BYTES: u64 = 1 << 30;
/// The maximum think time, time between arrivals, or phase: a day.
pub(crate) const LONGEST: Nanos = Nanos::from_secs(86_400);

/// Checks settings for a drive with sectors of this size.
pub(crate) struct Check {
    pub(crate) sector: SectorSize,
}

impl Check {
    pub(crate) fn value(
        &self,
        key: &'static str,
        value: impl ToString,
        expected: impl Into<String>,
        remedy: &'static str,
    ) -> StreamFault {
        StreamFault::Value { key, value: value.to_string(), expected: expected.into(), remedy }
    }

    /// A length in bytes as sectors.
    pub(crate) fn sectors(&self, key: &'static str, bytes: u64) -> Result<u64, StreamFault> {
        let sectors = self
            .sector
            .sectors_of(bytes)
            .filter(|sectors| !sectors.is_zero() && bytes <= MAX_BYTES);
        sectors.map(Sectors::get).ok_or_else(|| {
            let expected = format!(
                "a multiple of the drive's sector of {} bytes, at most 1 GiB",
                self.sector.bytes()
            );
            self.value(
                key,
                format!("{bytes} bytes"),
                expected,
                "4096 bytes suit every drive with sectors of up to 4 KiB",
            )
        })
    }

    /// A length in bytes as sectors, of any size.
    pub(crate) fn length(&self, key: &'static str, bytes: u64) -> Result<u64, StreamFault> {
        let sectors = self.sector.sectors_of(bytes).filter(|sectors| !sectors.is_zero());
        sectors.map(Sectors::get).ok_or_else(|| {
            let expected =
                format!("a multiple of the drive's sector of {} bytes", self.sector.bytes());
            self.value(key, format!("{bytes} bytes"), expected, "round it to KiB")
        })
    }

    /// Bytes of `sectors` sectors.
    pub(crate) fn bytes(&self, sectors: u64) -> u64 {
        self.sector.bytes_of(Sectors::new(sectors))
    }

    /// Sectors of a page of 4 KiB, which is a block of the file system too.
    pub(crate) fn page(&self) -> u64 {
        u64::from(4_096 / self.sector.bytes()).max(1)
    }

    pub(crate) fn share(&self, key: &'static str, share: f64) -> Result<(), StreamFault> {
        if (0.0..=1.0).contains(&share) {
            Ok(())
        } else {
            Err(self.value(key, share, "a share from 0 to 1", "write a half as 0.5"))
        }
    }

    pub(crate) fn number(
        &self,
        key: &'static str,
        value: f64,
        min: f64,
        max: f64,
        remedy: &'static str,
    ) -> Result<(), StreamFault> {
        let fits = (min..=max).contains(&value);
        if fits {
            Ok(())
        } else {
            Err(self.value(key, value, format!("a number from {min} to {max}"), remedy))
        }
    }

    /// A span above zero and of at most a day.
    pub(crate) fn span(
        &self,
        key: &'static str,
        span: Nanos,
        remedy: &'static str,
    ) -> Result<(), StreamFault> {
        let bounded = !span.is_zero() && span <= LONGEST;
        if bounded {
            Ok(())
        } else {
            Err(self.value(key, span, "a time above 0 and at most a day", remedy))
        }
    }

    pub(crate) fn rate(&self, per_second: f64) -> Result<(), StreamFault> {
        if (1e-6..=1e9).contains(&per_second) {
            return Ok(());
        }
        Err(self.value(
            "arrival rate",
            per_second,
            "0.000001 to 1000000000 requests per second",
            "correct it",
        ))
    }

    /// A limit that may be left out, but not be 0.
    pub(crate) fn some(
        &self,
        key: &'static str,
        value: Option<u64>,
        remedy: &'static str,
    ) -> Result<(), StreamFault> {
        if value == Some(0) { Err(self.value(key, 0, "at least 1", remedy)) } else { Ok(()) }
    }
}
