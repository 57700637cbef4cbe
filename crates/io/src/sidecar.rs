//! The sidecar of an emulated drive's backing file, which names the drive that the bytes belong to.
//!
//! The backing file is exactly the drive's bytes, without a header, so that other programs can read
//! it. `FILE.headtime` says which profile and which unit it belongs to and how it is cut into
//! segments, as lines of `key value` with a checksum over them in the last line:
//!
//! ```text
//! headtime-backing 1
//! profile nearline-20tb
//! seed 7
//! sector_bytes 512
//! capacity_sectors 39062500000
//! segment_bytes 8796093022208
//! crc32c 0a1b2c3d
//! ```
//!
//! It is written whole under another name, made durable and renamed, so that a crash leaves the old
//! one, the new one or none. A chosen setup and the noise are not remembered: they change the
//! drive's interface and scatter, not where its bytes lie.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::files::{self, Existing, with_suffix, write_atomically};

/// The contents of `FILE.headtime`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sidecar {
    /// The profile's name without setup.
    pub(crate) profile: String,
    pub(crate) seed: u64,
    pub(crate) sector_bytes: u32,
    pub(crate) capacity_sectors: u64,
    /// Bytes of each file but the last; 0 when one file holds everything.
    pub(crate) segment_bytes: u64,
}

/// The reason why a sidecar cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// It is damaged.
    #[error(
        "{} is damaged: {what}; if {} is known to belong to the profile requested, delete {} and \
            open the drive again, which writes a new one",
        path.display(), backing.display(), path.display()
    )]
    Damaged {
        /// The sidecar.
        path: PathBuf,
        /// The backing file beside it.
        backing: PathBuf,
        /// The fault.
        what: String,
    },
    /// A newer program wrote it.
    #[error(
        "{} has format {version}, and this program knows format 1; use the program that wrote it, \
            or a newer one",
        path.display()
    )]
    Newer {
        /// The sidecar.
        path: PathBuf,
        /// Its format.
        version: String,
    },
    /// The backing file belongs to another drive.
    #[error(
        "{} holds a drive with {key} {remembered}, not {requested}; ask for {remembered}, or name \
            another backing file",
        backing.display()
    )]
    OtherDrive {
        /// The backing file.
        backing: PathBuf,
        /// The key that differs.
        key: &'static str,
        /// The recorded value.
        remembered: String,
        /// The requested value.
        requested: String,
    },
    /// A file that holds a part of the drive is not as long as it has to be.
    #[error(
        "{} is {bytes} bytes long instead of {expected}: it was changed by someone else; restore \
            it, or start with a new backing file",
        path.display()
    )]
    WrongLength {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The expected length.
        expected: u64,
    },
    /// The first file is gone or empty and nothing is remembered about it, but a later one is
    /// there.
    #[error(
        "{} does not exist or is empty, but {} is there, which holds a later part of a drive; \
            restore the first, or remove the other",
        backing.display(), segment.display()
    )]
    OrphanSegment {
        /// The first file.
        backing: PathBuf,
        /// The later file.
        segment: PathBuf,
    },
    /// The system refused to read or write it.
    #[error("{doing} {} failed: {error}", path.display())]
    System {
        /// The sidecar.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

impl Sidecar {
    /// The path of the sidecar of `backing`.
    pub(crate) fn path_of(backing: &Path) -> PathBuf {
        with_suffix(backing, ".headtime")
    }

    /// Reads the sidecar of `backing`, `None` when there is none.
    pub(crate) fn read(backing: &Path) -> Result<Option<Self>, SidecarError> {
        let path = Self::path_of(backing);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SidecarError::System { path, doing: "reading", error }),
        };
        let text = String::from_utf8_lossy(&bytes);
        match Self::parse(&text) {
            Ok(sidecar) => Ok(Some(sidecar)),
            Err(Unreadable::Newer(version)) => Err(SidecarError::Newer { path, version }),
            Err(Unreadable::Damaged(what)) => {
                Err(SidecarError::Damaged { path, backing: backing.to_owned(), what })
            }
        }
    }

    /// Writes the sidecar of `backing`, atomically and durably.
    pub(crate) fn write(&self, backing: &Path) -> Result<(), SidecarError> {
        let path = Self::path_of(backing);
        write_atomically(&path, Existing::Replace, |mut file| {
            file.write_all(self.to_text().as_bytes())
        })
        .map_err(|error| SidecarError::System { path, doing: "writing", error })
    }

    /// Fails when `requested` is another drive; `seed` counts only when one was requested.
    pub(crate) fn check(
        &self,
        backing: &Path,
        requested: &Self,
        seed: Option<u64>,
    ) -> Result<(), SidecarError> {
        let pairs = [
            ("profile", self.profile.clone(), requested.profile.clone()),
            ("sector_bytes", self.sector_bytes.to_string(), requested.sector_bytes.to_string()),
            (
                "capacity_sectors",
                self.capacity_sectors.to_string(),
                requested.capacity_sectors.to_string(),
            ),
            ("seed", self.seed.to_string(), seed.unwrap_or(self.seed).to_string()),
        ];
        for (key, remembered, requested) in pairs {
            if remembered != requested {
                return Err(SidecarError::OtherDrive {
                    backing: backing.to_owned(),
                    key,
                    remembered,
                    requested,
                });
            }
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let Self { profile, seed, sector_bytes, capacity_sectors, segment_bytes } = self;
        files::seal(format!(
            "{MAGIC} 1\nprofile {profile}\nseed {seed}\nsector_bytes \
                {sector_bytes}\ncapacity_sectors {capacity_sectors}\nsegment_bytes \
                {segment_bytes}\n"
        ))
    }

    fn parse(text: &str) -> Result<Self, Unreadable> {
        let damaged = |what: &str| Unreadable::Damaged(what.to_owned());
        let version = text.lines().next().and_then(|line| line.strip_prefix(MAGIC)).map(str::trim);
        match version {
            Some("1") => {}
            Some(version) if version.parse::<u32>().is_ok() => {
                return Err(Unreadable::Newer(version.to_owned()));
            }
            _ => return Err(damaged("its first line is not `headtime-backing 1`")),
        }
        let body = files::unseal(text).map_err(damaged)?;
        let value = |key: &str| {
            body.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
                .ok_or_else(|| damaged(key))
        };
        let number = |key: &str| value(key)?.parse::<u64>().map_err(|_| damaged(key));
        Ok(Self {
            profile: value("profile")?.to_owned(),
            seed: number("seed")?,
            sector_bytes: u32::try_from(number("sector_bytes")?)
                .map_err(|_| damaged("sector_bytes"))?,
            capacity_sectors: number("capacity_sectors")?,
            segment_bytes: number("segment_bytes")?,
        })
    }
}

enum Unreadable {
    Newer(String),
    Damaged(String),
}

const MAGIC: &str = "headtime-backing";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Sidecar {
        Sidecar {
            profile: "nearline-20tb".into(),
            seed: 7,
            sector_bytes: 512,
            capacity_sectors: 39_062_500_000,
            segment_bytes: 1 << 43,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().expect("a place for files");
        let backing = directory.path().join("d.img");
        assert_eq!(Sidecar::read(&backing).expect("none is no error"), None);
        example().write(&backing).expect("the directory can be written");
        assert_eq!(Sidecar::read(&backing).expect("readable"), Some(example()));
        let names: Vec<_> = std::fs::read_dir(directory.path())
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["d.img.headtime"], "nothing half-written is left");
    }

    #[test]
    fn a_file_of_another_drive_says_what_it_holds() {
        let other = Sidecar { profile: "atlas10k".into(), ..example() };
        let message = example()
            .check(Path::new("d.img"), &other, None)
            .expect_err("another profile")
            .to_string();
        assert!(
            message.contains("d.img")
                && message.contains("nearline-20tb")
                && message.contains("atlas10k"),
            "{message}"
        );
        assert!(
            example().check(Path::new("d.img"), &example(), Some(8)).is_err(),
            "another unit of the same model is another drive"
        );
        assert!(
            example().check(Path::new("d.img"), &Sidecar { seed: 0, ..example() }, None).is_ok()
        );
    }

    #[test]
    fn a_newer_format_is_not_called_damaged() {
        assert!(matches!(
            Sidecar::parse("headtime-backing 2\n"),
            Err(Unreadable::Newer(version)) if version == "2"
        ));
    }

    proptest! {
        /// Any single byte changed, and any cut, is noticed.
        #[test]
        fn damage_is_noticed(
            position in any::<prop::sample::Index>(),
            byte in any::<Option<u8>>(),
        ) {
            let text = example().to_text();
            let damaged = files::damaged(&text, position, byte);
            prop_assume!(damaged != text);
            prop_assert!(Sidecar::parse(&damaged).is_err(), "accepted {damaged}");
        }
    }
}
