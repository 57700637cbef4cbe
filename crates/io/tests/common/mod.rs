//! What the tests of open drives share: the kinds of drive, and a place for their files.
#![allow(dead_code)]

pub(crate) mod nbd_place;
pub(crate) mod puppet_server;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use headtime_io::{
    Drive, DriveOptions, Io, IoDone, IoMethod, Locator, OpenError, RawOptions, SystemPaths,
};
use headtime_units::{Extent, Nanos};
use tempfile::TempDir;

use headtime_testkit::loop_device::LoopDevice;
use headtime_testkit::nbdkit::{self, Nbdkit};

/// A kind of drive that every conformance body runs against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file by io_uring, past the page cache where possible.
    Uring,
    /// A file by io_uring, through the page cache.
    UringBuffered,
    /// A file by threads, past the page cache where possible.
    Threads,
    /// A tiny and very fast emulated drive.
    Emulated,
    /// A drive in memory.
    Memory,
    /// The same drive in simulation: its time jumps.
    Simulated,
    /// A loop device with sectors of 512 bytes, by io_uring: a block device as a raw drive.
    Loop512,
    /// A loop device with sectors of 4,096 bytes, by threads: both ways to move bytes are to be
    /// tried on devices.
    Loop4096,
    /// A file served by nbdkit on a unix socket, with all features of the protocol.
    Nbd,
    /// The same with an nbdkit without FUA and zeroing, and with requests of at most 64 KiB.
    NbdPlain,
    /// A file and memory, striped.
    Array,
    /// Two tiny emulated drives, striped.
    ArrayOfEmulated,
}

/// Sectors of every drive opened here.
pub(crate) const SECTORS: u64 = 16_384;
/// Bytes of a sector of every kind that does not say otherwise.
pub(crate) const SECTOR: usize = 512;

impl Kind {
    /// Bytes of its sector.
    pub(crate) fn sector(self) -> usize {
        if self == Self::Loop4096 { 4096 } else { SECTOR }
    }

    /// Returns true if nbdkit serves it.
    pub(crate) fn is_nbd(self) -> bool {
        matches!(self, Self::Nbd | Self::NbdPlain)
    }

    /// Returns true if what was written outlives the drive.
    pub(crate) fn keeps(self) -> bool {
        !matches!(self, Self::Memory | Self::Simulated | Self::Array)
    }

    /// Returns true if it is a block device.
    pub(crate) fn is_device(self) -> bool {
        matches!(self, Self::Loop512 | Self::Loop4096)
    }
}

/// A directory with one drive's files.
pub(crate) struct Place {
    /// Goes before the directory with the file that it is made of.
    device: Option<LoopDevice>,
    /// The server of an NBD drive.
    server: Option<Nbdkit>,
    directory: TempDir,
    kind: Kind,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        let directory = tempfile::tempdir().expect("a place for files");
        let half = SWIFT
            .replace("capacity_sectors = 16384", "capacity_sectors = 8192")
            .replace("cylinders = 130", "cylinders = 66");
        for (name, profile) in [("swift.toml", SWIFT), ("half.toml", &half)] {
            std::fs::write(directory.path().join(name), profile).expect("the place can be written");
        }
        let device = if kind.is_device() {
            let backing = directory.path().join("drive.img");
            let file = std::fs::File::create(&backing).expect("the place can be written");
            file.set_len(SECTORS * kind.sector() as u64).expect("sparse");
            LoopDevice::on(&backing, kind.sector())
        } else {
            None
        };
        let server = if kind.is_nbd() { serve(&directory, kind) } else { None };
        Self { device, server, directory, kind }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn backing(&self) -> PathBuf {
        self.path("drive.img")
    }

    pub(crate) fn locator(&self) -> Locator {
        let backing = self.backing();
        let text = match self.kind {
            Kind::Emulated => format!(
                "emulated:{}?backing={}",
                self.path("swift.toml").display(),
                backing.display()
            ),
            // Without loop devices, `open` prints a message, and this name is never opened.
            Kind::Loop512 | Kind::Loop4096 => self.device.as_ref().map_or_else(
                || "no-loop-device".into(),
                |device| device.path().display().to_string(),
            ),
            Kind::Memory => format!("memory:{}", SECTORS * SECTOR as u64),
            Kind::Simulated => format!("simulated:{}", self.path("swift.toml").display()),
            Kind::Nbd | Kind::NbdPlain => {
                format!("nbd+unix:///?socket={}", self.path("nbd.sock").display())
            }
            Kind::Array => {
                format!("array:stripe=8KiB,{},memory:{}", backing.display(), SECTORS / 2 * 512)
            }
            Kind::ArrayOfEmulated => {
                let member = |name: &str| {
                    let (profile, file) = (self.path("half.toml"), self.path(name));
                    format!("emulated:{}?backing={}", profile.display(), file.display())
                };
                format!("array:stripe=4KiB,{},{}", member("a"), member("b"))
            }
            _ => backing.display().to_string(),
        };
        Locator::parse(&text).expect("a locator")
    }

    pub(crate) fn options(&self) -> DriveOptions {
        let method = match self.kind {
            Kind::Threads | Kind::Loop4096 => IoMethod::Threads,
            Kind::Uring | Kind::UringBuffered | Kind::Loop512 => IoMethod::Uring,
            _ => IoMethod::Auto,
        };
        let members = if self.kind == Kind::Array { 2 } else { 1 };
        DriveOptions {
            create_bytes: Some(SECTORS * self.kind.sector() as u64 / members),
            io_method: method,
            direct: self.kind != Kind::UringBuffered,
            drain_timeout: Nanos::from_secs(60),
            raw: RawOptions {
                system: SystemPaths { state: self.path("state"), ..SystemPaths::default() },
                ..RawOptions::default()
            },
            ..DriveOptions::default()
        }
    }

    pub(crate) fn try_open(&self, options: DriveOptions) -> Result<Drive, OpenError> {
        Drive::open(&self.locator(), options)
    }

    /// Opens the drive; `None`, with a message, where the kind cannot be had on this machine.
    pub(crate) fn open(&self, options: DriveOptions) -> Option<Drive> {
        if self.kind.is_device() && self.device.is_none() {
            // Said when the device was requested.
            return None;
        }
        if self.kind.is_nbd() && self.server.is_none() {
            // Said when the server was requested.
            return None;
        }
        match when_let_go(|| self.try_open(options.clone())) {
            Ok(drive) => Some(drive),
            Err(OpenError::NoUring { error }) => {
                eprintln!("skipped: io_uring is not available here ({error})");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Opens what this process may have just closed. A program that another test starts at that moment
/// has a copy of the file's descriptor until it runs, and with it the lock; so has the kernel for a
/// killed one's, until its last command is over.
pub(crate) fn when_let_go(open: impl Fn() -> Result<Drive, OpenError>) -> Result<Drive, OpenError> {
    let enough = Instant::now() + Duration::from_secs(60);
    loop {
        match open() {
            Err(error) if error.may_pass_soon() && Instant::now() < enough => {
                std::thread::yield_now()
            }
            outcome => return outcome,
        }
    }
}

/// nbdkit on a file of zeroes; `None`, with a message, where it is not installed.
fn serve(directory: &TempDir, kind: Kind) -> Option<Nbdkit> {
    if !nbdkit::installed(&["file", "blocksize-policy", "fua", "nozero"]) {
        return None;
    }
    let backing = directory.path().join("drive.img");
    std::fs::File::create(&backing)
        .and_then(|file| file.set_len(SECTORS * SECTOR as u64))
        .expect("sparse");
    let file = format!("file={}", backing.display());
    let plain = [
        "--filter=blocksize-policy",
        "--filter=fua",
        "--filter=nozero",
        "file",
        &file,
        "blocksize-maximum=64K",
        "blocksize-error-policy=error",
    ];
    // The fua filter disables FUA by default.
    let limits = ["blocksize-minimum=512", "blocksize-preferred=4K", "zeromode=none"];
    let arguments =
        if kind == Kind::NbdPlain { [&plain[..], &limits].concat() } else { vec!["file", &file] };
    Some(Nbdkit::start(&directory.path().join("nbd.sock"), &arguments))
}

/// Sectors of [`SECTOR`] bytes with the version of their writer.
pub(crate) fn pattern(extent: Extent, version: u64) -> Bytes {
    pattern_of(SECTOR, extent, version)
}

/// Sectors of `sector_bytes` bytes with the version of their writer.
pub(crate) fn pattern_of(sector_bytes: usize, extent: Extent, version: u64) -> Bytes {
    let mut bytes = Vec::with_capacity(extent.len.get() as usize * sector_bytes);
    for sector in extent.start.get()..extent.end().get() {
        let mark = sector.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ version.wrapping_mul(0xD1B5_4A32_D192_ED03);
        for word in 0..sector_bytes as u64 / 8 {
            bytes.extend_from_slice(&(mark.wrapping_add(word)).to_le_bytes());
        }
    }
    Bytes::from(bytes)
}

/// Returns true if a read of `extent` sees the given version of the pattern.
pub(crate) fn holds(drive: &Drive, extent: Extent, version: u64) -> bool {
    let sector_bytes = drive.sector_size().bytes() as usize;
    drive.handle().run(Io::read(extent)).result.expect("readable")
        == pattern_of(sector_bytes, extent, version)
}

/// Submits and hands the answer to a channel.
pub(crate) fn submit(drive: &Drive, io: Io) -> mpsc::Receiver<IoDone> {
    let (sender, receiver) = mpsc::channel();
    let taken = drive.handle().submit(io, move |done| {
        let _ = sender.send(done);
    });
    taken.expect("the drive takes it");
    receiver
}

/// Waits for an answer; a minute without one is a request that was lost.
pub(crate) fn answer(receiver: &mpsc::Receiver<IoDone>) -> IoDone {
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
