//! A characterization as text, to be resumed later: [`Probe::save`] and [`Probe::load`].
//!
//! Four lines: the format and its version; the drive; the probe as JSON; a CRC-32C of the lines
//! before. The drive is the name given by the caller (a serial number, or whatever stays the same),
//! with its capacity and sector size. A file of another drive is refused.

use headtime_units::Sectors;
use thiserror::Error;

use crate::probe::Probe;

/// The reason why a saved characterization cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The text is something else.
    #[error(
        "this is no saved characterization: it begins with {found:?}, expected {MAGIC:?}; name \
            another file, or remove it to start afresh"
    )]
    Foreign {
        /// Its first characters.
        found: String,
    },
    /// It has another version.
    #[error(
        "the saved characterization has version {found}, expected {VERSION}; remove it to start \
            afresh"
    )]
    Version {
        /// Its version.
        found: String,
    },
    /// It is truncated or changed.
    #[error("the saved characterization is damaged: {why}; remove it to start afresh")]
    Damaged {
        /// The evidence.
        why: String,
    },
    /// It is of another drive.
    #[error(
        "the saved characterization is of drive {saved}, and this is {here}; name another file, or \
            remove it to start afresh"
    )]
    OtherDrive {
        /// The drive in the text.
        saved: String,
        /// The present drive.
        here: String,
    },
}

/// The beginning of such a file, and the version of what follows.
const MAGIC: &str = "headtime-probe";
const VERSION: u32 = 6;
/// The beginning of the last line.
const CHECKSUM: &str = "crc32c ";

impl Probe {
    /// The whole state as text. `drive` identifies the drive, in one line.
    ///
    /// # Panics
    /// When `drive` has more than one line: the caller is at fault.
    #[must_use]
    pub fn save(&self, drive: &str) -> String {
        assert!(!drive.contains(['\n', '\r']), "the drive's name {drive:?} has more than one line");
        let identity = identity(drive, self.settings().capacity, self.settings().sector_bytes);
        let json = serde_json::to_string(self).expect("numbers, texts and lists are JSON");
        let body = format!("{MAGIC} {VERSION}\n{identity}\n{json}\n");
        let checksum = crc32c::crc32c(body.as_bytes());
        format!("{body}{CHECKSUM}{checksum:08x}\n")
    }

    /// Resumes what [`Probe::save`] wrote, if it is of the drive of this name, capacity and sector
    /// size; see [`Probe::resume`].
    ///
    /// # Errors
    /// [`LoadError`], in the order of its variants.
    pub fn load(
        text: &str,
        drive: &str,
        capacity: Sectors,
        sector_bytes: u32,
    ) -> Result<Self, LoadError> {
        let damaged = |why: &str| LoadError::Damaged { why: why.into() };
        let Some(version) = text.lines().next().and_then(|line| line.strip_prefix(MAGIC)) else {
            return Err(LoadError::Foreign { found: text.chars().take(MAGIC.len()).collect() });
        };
        if version.trim() != VERSION.to_string() {
            return Err(LoadError::Version { found: version.trim().into() });
        }
        let end = text.trim_end_matches('\n').rfind('\n').map_or(0, |newline| newline + 1);
        let (body, last) = text.split_at(end);
        let checksum = last
            .trim_end()
            .strip_prefix(CHECKSUM)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match checksum {
            None => return Err(damaged("its last line is no checksum, so it was truncated")),
            Some(checksum) if checksum != crc32c::crc32c(body.as_bytes()) => {
                return Err(damaged("its checksum is wrong"));
            }
            Some(_) => {}
        }
        let mut lines = body.lines().skip(1);
        let (Some(saved), Some(json)) = (lines.next(), lines.next()) else {
            return Err(damaged("it has fewer than four lines"));
        };
        let here = identity(drive, capacity, sector_bytes);
        if saved != here {
            return Err(LoadError::OtherDrive { saved: saved.into(), here });
        }
        let probe: Self =
            serde_json::from_str(json).map_err(|error| damaged(&error.to_string()))?;
        Ok(Self::resume(probe))
    }
}

fn identity(drive: &str, capacity: Sectors, sector_bytes: u32) -> String {
    format!("{} sectors of {sector_bytes} bytes, {drive}", capacity.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandOutcome, Measurement, ProbeSettings};
    use headtime_units::{Instant, SectorSize};

    fn probe_after(reads: u64) -> Probe {
        let mut probe =
            Probe::new(ProbeSettings::for_drive(Sectors::new(1 << 24), SectorSize::B512, 3));
        for number in 1..=reads {
            assert!(matches!(probe.next_measurement(), Some(Measurement::Read { .. })));
            // Whole revolutions of 6 ms, so that there is something to find.
            probe.completed(
                Instant::from_ns(number * 6_000_000 - 3_000_000),
                Instant::from_ns(number * 6_000_000),
                CommandOutcome::Done,
            );
        }
        probe
    }

    fn load(text: &str) -> Result<Probe, LoadError> {
        Probe::load(text, "WD-1", Sectors::new(1 << 24), 512)
    }

    #[test]
    fn what_was_saved_is_taken_up() {
        for reads in [0, 10, 300] {
            let probe = probe_after(reads);
            let again = load(&probe.save("WD-1")).expect("the same drive");
            assert_eq!(again, Probe::resume(probe.clone()), "after {reads} reads");
            assert_eq!(again.save("WD-1"), load(&again.save("WD-1")).unwrap().save("WD-1"));
        }
    }

    #[test]
    fn another_drives_file_is_refused() {
        let text = probe_after(40).save("WD-1");
        let other = [
            Probe::load(&text, "WD-2", Sectors::new(1 << 24), 512),
            Probe::load(&text, "WD-1", Sectors::new(1 << 23), 512),
            Probe::load(&text, "WD-1", Sectors::new(1 << 24), 4_096),
        ];
        assert!(
            other.iter().all(|loaded| matches!(loaded, Err(LoadError::OtherDrive { .. }))),
            "{other:?}"
        );
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_seen() {
        let text = probe_after(40).save("WD-1");
        for length in 0..text.len() - 1 {
            assert!(load(&text[..length]).is_err(), "cut to {length} of {} bytes", text.len());
        }
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            // A changed newline at the end or the case of a hexadecimal digit may pass; the content
            // is the same then.
            if let Ok(loaded) = load(&changed) {
                assert_eq!(loaded, load(&text).unwrap(), "byte {place}");
            }
        }
    }

    #[test]
    fn other_files_and_other_versions_are_called_so() {
        assert!(matches!(load(""), Err(LoadError::Foreign { .. })));
        assert!(matches!(load("PNG\n\n"), Err(LoadError::Foreign { .. })));
        let (this, other) = (format!("{MAGIC} {VERSION}"), VERSION + 1);
        let newer = probe_after(1).save("WD-1").replacen(&this, &format!("{MAGIC} {other}"), 1);
        assert_eq!(load(&newer), Err(LoadError::Version { found: other.to_string() }));
        let message = load(&format!("{this}\nx\n")).expect_err("cut off").to_string();
        assert!(message.contains("start afresh") && message.contains("checksum"), "{message}");
    }
}
