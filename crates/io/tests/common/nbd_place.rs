//! What the tests of a failing NBD drive share: a place with a server's socket, and how to ask and
//! what to expect.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use bytes::Bytes;
use headtime_io::{CommandTimeout, Drive, DriveOptions, Io, IoDone, IoError, LinkState, Locator};
use headtime_nbd::ExportInfo;
use headtime_units::{Extent, Nanos};

use super::puppet_server::Puppet;
use super::{answer, pattern, submit};
use headtime_testkit::nbdkit::Nbdkit;

pub(crate) const SIZE: u64 = 8 << 20;
pub(crate) const LOST: i32 = 104;
pub(crate) const AWAY: i32 = 107;
pub(crate) const TIMED_OUT: i32 = 110;

pub(crate) struct NbdPlace {
    directory: tempfile::TempDir,
}

impl NbdPlace {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a place for files") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("nbd.sock")
    }

    pub(crate) fn uri(&self, settings: &str) -> String {
        format!("nbd+unix:///?socket={}{settings}", self.socket().display())
    }

    pub(crate) fn open(&self, settings: &str, options: DriveOptions) -> Drive {
        Drive::open(&Locator::parse(&self.uri(settings)).expect("a locator"), options)
            .expect("the server is there")
    }

    pub(crate) fn puppet(&self) -> Puppet {
        Puppet::start(&self.socket(), ExportInfo::disk("", SIZE))
    }

    /// nbdkit on a file of this place.
    pub(crate) fn nbdkit(&self, filters: &[&str], parameters: &[&str]) -> Nbdkit {
        let file = self.path("disk.img");
        if !file.exists() {
            std::fs::File::create(&file)
                .and_then(|file| file.set_len(SIZE))
                .expect("a sparse file");
        }
        let filters: Vec<String> =
            filters.iter().map(|filter| format!("--filter={filter}")).collect();
        let file = file.display().to_string();
        let arguments: Vec<&str> = filters
            .iter()
            .map(String::as_str)
            .chain(["file", &file])
            .chain(parameters.iter().copied())
            .collect();
        Nbdkit::start(&self.socket(), &arguments)
    }
}

/// As many at the drive as it takes, given up after `limit_ms`.
pub(crate) fn eager(limit_ms: u64) -> DriveOptions {
    let command_timeout = CommandTimeout::after(Nanos::from_ms(limit_ms));
    DriveOptions {
        outstanding: Some(32),
        command_timeout,
        drain_timeout: Nanos::from_secs(60),
        ..DriveOptions::default()
    }
}

pub(crate) fn patient() -> DriveOptions {
    eager(3_600_000)
}

pub(crate) fn at(start: u64) -> Extent {
    Extent::from_numbers(start, 8)
}

pub(crate) fn read(drive: &Drive, start: u64) -> Receiver<IoDone> {
    submit(drive, Io::read(at(start)))
}

pub(crate) fn write(drive: &Drive, start: u64, version: u64) -> Receiver<IoDone> {
    submit(drive, Io::write(at(start), pattern(at(start), version)))
}

pub(crate) fn succeeds(receiver: &Receiver<IoDone>) {
    if let Err(error) = answer(receiver).result {
        panic!("{error}");
    }
}

/// Waits for an answer, which is this error, and says all of this.
pub(crate) fn fails(receiver: &Receiver<IoDone>, errno: i32, said: &[&str]) {
    let error = answer(receiver).result.expect_err("it cannot have worked");
    let text = error.to_string();
    assert_eq!(error.errno(), errno, "{text}");
    for part in said {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

pub(crate) fn flush(drive: &Drive) -> Result<Bytes, IoError> {
    drive.handle().run(Io::flush()).result
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let enough = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < enough, "a minute has passed and not: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn is_away(drive: &Drive) -> bool {
    matches!(drive.snapshot().link.expect("it has a link").state, LinkState::Away { .. })
}
