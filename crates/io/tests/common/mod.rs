//! What the tests of open drives share: the kinds of drive, and a place for their files.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use headtime_io::{Drive, DriveOptions, Io, IoDone, IoMethod, Locator, OpenError};
use headtime_units::{Extent, Nanos};
use tempfile::TempDir;

/// A kind of drive that every conformance body runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file by io_uring, past the page cache where possible.
    Uring,
    /// A file by io_uring, through the page cache.
    UringBuffered,
    /// A file by threads, past the page cache where possible.
    Threads,
    /// A tiny and very fast emulated drive.
    Emulated,
}

/// Sectors of every drive opened here.
pub const SECTORS: u64 = 16_384;
/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// A directory with one drive's files.
pub struct Place {
    directory: TempDir,
    kind: Kind,
}

impl Place {
    pub fn new(kind: Kind) -> Self {
        let directory = tempfile::tempdir().expect("a place for files");
        std::fs::write(directory.path().join("swift.toml"), SWIFT).expect("the place can be written");
        Self { directory, kind }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn backing(&self) -> PathBuf {
        self.path("drive.img")
    }

    pub fn locator(&self) -> Locator {
        let backing = self.backing();
        let text = match self.kind {
            Kind::Emulated => format!("emulated:{}?backing={}", self.path("swift.toml").display(), backing.display()),
            _ => backing.display().to_string(),
        };
        Locator::parse(&text).expect("a locator")
    }

    pub fn options(&self) -> DriveOptions {
        let method = match self.kind {
            Kind::Threads => IoMethod::Threads,
            Kind::Uring | Kind::UringBuffered => IoMethod::Uring,
            Kind::Emulated => IoMethod::Auto,
        };
        DriveOptions {
            create_bytes: Some(SECTORS * SECTOR as u64),
            io_method: method,
            direct: self.kind != Kind::UringBuffered,
            drain_timeout: Nanos::from_secs(60),
            ..DriveOptions::default()
        }
    }

    pub fn try_open(&self, options: DriveOptions) -> Result<Drive, OpenError> {
        Drive::open(&self.locator(), options)
    }

    /// Opens the drive; `None`, with a message, where the kind cannot be had on this machine.
    pub fn open(&self, options: DriveOptions) -> Option<Drive> {
        match self.try_open(options) {
            Ok(drive) => Some(drive),
            Err(OpenError::NoUring { error }) => {
                eprintln!("skipped: io_uring is not to be had here ({error})");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sectors that say who wrote them.
pub fn pattern(extent: Extent, version: u64) -> Bytes {
    let mut bytes = Vec::with_capacity(extent.len.get() as usize * SECTOR);
    for sector in extent.start.get()..extent.end().get() {
        let mark = sector.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ version.wrapping_mul(0xD1B5_4A32_D192_ED03);
        for word in 0..SECTOR as u64 / 8 {
            bytes.extend_from_slice(&(mark.wrapping_add(word)).to_le_bytes());
        }
    }
    Bytes::from(bytes)
}

/// Whether a read of `extent` sees the given version of the pattern.
pub fn holds(drive: &Drive, extent: Extent, version: u64) -> bool {
    drive.handle().run(Io::read(extent)).result.expect("readable") == pattern(extent, version)
}

/// Submits and hands the answer to a channel.
pub fn submit(drive: &Drive, io: Io) -> mpsc::Receiver<IoDone> {
    let (sender, receiver) = mpsc::channel();
    let taken = drive.handle().submit(io, move |done| {
        let _ = sender.send(done);
    });
    taken.expect("the drive takes it");
    receiver
}

/// Waits for an answer; a minute without one is a request that was lost.
pub fn answer(receiver: &mpsc::Receiver<IoDone>) -> IoDone {
    receiver.recv_timeout(Duration::from_secs(60)).expect("each request taken is answered")
}

/// A drive of 8 MiB that turns 10,000 times a second and moves its arm in microseconds.
const SWIFT: &str = r#"
name = "swift"
model = "a drive for tests"
description = "no drive is so fast"
sector_bytes = 512
capacity_sectors = 16384

[rotation]
rpm = 600000.0

[geometry]
heads = 2
layout = "cylinder"

[seek]
head_switch_ms = 0.001
write_settle_ms = 0.001
points = [[1, 0.002], [100, 0.01]]

[interface]
read_command_us = 5.0
write_command_us = 5.0
completion_us = 1.0
bus_mb_per_s = 10000.0

[firmware]
queue_depth = 8
algorithm = "sptf"

[setup.single]
description = "one at a time"

[setup.single.firmware]
queue_depth = 1

[variation]
spindle_ppm = 0.0
track_angle_us = 0.0
seek_residual_us = 0.0
slips_per_million = 0.0
jitter_us = 0.0
outlier_share = 0.0
outlier_ms = 0.0

[[zone]]
first_cylinder = 0
cylinders = 130
sectors_per_track = 64
track_skew = 4
cylinder_skew = 8
spares = 64
slips = [100]
"#;
