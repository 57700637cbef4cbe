//! Opening a drive to characterize it.

use std::path::Path;
use std::sync::Arc;

use headtime_units::SectorSize;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open as open_file};
use rustix::io::Errno;

use super::backend_edge::{BackendEdge, on_backend};
use super::device::{DeviceEdge, ReadData};
use super::edge::{Edge, Found};
use super::export_edge::{ExportAccess, TimedExport};
#[cfg(feature = "simulation")]
use super::virtual_time;
use super::{Identity, ProbedDrive, SubjectError, SubjectOptions};
use crate::backend::file::try_direct;
use crate::backend::pool::Pool;
use crate::backend::raw::measured::{self, Access, Measured};
use crate::backend::store::Store;
use crate::backend::threads::ThreadedFile;
use crate::backend::{memory, raw};
use crate::block_device::{BlockDevice, DeviceRefusal, DeviceReject};
use crate::locator::{Locator, NbdLocator};
use crate::notifier::Notifier;
use crate::open_error::OpenError;

impl ProbedDrive {
    /// Opens a drive to characterize it.
    ///
    /// # Errors
    /// See [`SubjectError`]; nothing was changed then.
    pub fn open(locator: &Locator, options: &SubjectOptions) -> Result<Self, SubjectError> {
        let found = match locator {
            Locator::Array(_) => return Err(SubjectError::Array { drive: locator.to_string() }),
            #[cfg(feature = "simulation")]
            Locator::Simulated(_) | Locator::Emulated(_) => virtual_time::open(locator, options)?,
            #[cfg(not(feature = "simulation"))]
            Locator::Simulated(_) | Locator::Emulated(_) => {
                return Err(OpenError::no_simulation(locator).into());
            }
            _ if options.virtual_time => {
                return Err(SubjectError::NoVirtualTime { drive: locator.to_string() });
            }
            Locator::Memory(memory) => {
                let notifier = Arc::new(Notifier::new().map_err(OpenError::Engine)?);
                on_backend(memory::open(memory), notifier)
            }
            Locator::Nbd(server) => at_server(server, options)?,
            Locator::Path(path) if raw::is_block_device(path) => device(path, options)?,
            Locator::Path(path) => file(path, options)?,
        };
        let Found { edge, model, serial, capacity, sector_size, fua, depth, notices, knobs } =
            found;
        Ok(Self {
            edge,
            identity: Identity { model, serial, capacity, sector_size },
            notices,
            allow_writes: options.allow_writes,
            fua,
            depth: depth.clamp(1, MAX_AT_ONCE) as u32,
            time_limit: options.command_timeout.limit(),
            priority: options.priority,
            next_token: 0,
            _knobs: knobs,
        })
    }
}

fn at_server(server: &NbdLocator, options: &SubjectOptions) -> Result<Found, OpenError> {
    let access =
        if options.allow_writes { ExportAccess::ReadWrite } else { ExportAccess::ReadOnly };
    let export = TimedExport::open(server, access)?;
    let (capacity, sector_size, fua) = export.shape();
    Ok(Found {
        model: Some(format!("NBD export `{}`", server.uri.export)),
        serial: None,
        capacity,
        sector_size,
        fua,
        depth: server.queue_depth,
        notices: Vec::new(),
        knobs: None,
        edge: Box::new(export),
    })
}

fn device(path: &Path, options: &SubjectOptions) -> Result<Found, SubjectError> {
    let access = Access { shared: options.in_use, writes: options.allow_writes };
    let drive = || path.display().to_string();
    if access.shared && access.writes {
        let users = raw::block_device_at(path, &options.raw.system)
            .ok()
            .flatten()
            .map_or_else(Vec::new, |device| device.users);
        if !users.is_empty() {
            return Err(SubjectError::WritesInUse {
                drive: drive(),
                refusal: DeviceRefusal::InUse(users),
            });
        }
    }
    let opened = measured::open(path, access, &options.raw);
    let Measured { file, sector_size, bytes, device, knobs } =
        opened.map_err(|error| match error {
            OpenError::Device { refusal: refusal @ DeviceRefusal::InUse(_), .. }
                if !access.writes =>
            {
                SubjectError::InUse { drive: drive(), refusal }
            }
            OpenError::Device { refusal: refusal @ DeviceRefusal::InUse(_), .. } => {
                SubjectError::WritesInUse { drive: drive(), refusal }
            }
            error => SubjectError::Open(error),
        })?;
    let mut notices = Vec::new();
    if let Some(device) = &device {
        notices.extend(device.rejects().iter().filter_map(|reject| notice(path, reject)));
        if let (true, [first, ..]) = (access.shared, device.users.as_slice()) {
            notices.push(format!(
                "{} is in use ({first}); nothing is written to it, and what others do with it \
                    meanwhile makes the figures worse",
                path.display()
            ));
        }
    }
    let known = device.as_ref();
    let capacity = sector_size.sectors_of(bytes).unwrap_or_default();
    Ok(Found {
        model: known.and_then(|device| device.model.clone()),
        serial: known.and_then(|device| device.serial.clone()),
        capacity,
        sector_size,
        fua: known.is_some_and(|device| {
            device.fua || device.write_cache.as_deref() == Some("write through")
        }),
        depth: known.and_then(|device: &BlockDevice| device.queue_depth).unwrap_or(1) as usize,
        notices,
        knobs,
        edge: edge_of(file, path, bytes, sector_size, true, access.writes)?,
    })
}

/// The notice for a device that is only measured.
fn notice(path: &Path, reject: &DeviceReject) -> Option<String> {
    let path = path.display();
    match reject {
        DeviceReject::NotRotating => Some(format!(
            "the kernel takes {path} for a drive that does not rotate; whether it does is found \
                out first"
        )),
        DeviceReject::HostAware => Some(format!(
            "{path} is a shingled disk that may move sectors by itself, so that the profile will \
                not stay true"
        )),
        DeviceReject::Partition { disk } => Some(format!(
            "{path} is a part of {disk}: the profile describes that part only, and users \
                of the others move the same head"
        )),
        // Nothing is written, or only what was there.
        DeviceReject::Misaligned | DeviceReject::Content(_) => None,
    }
}

fn file(path: &Path, options: &SubjectOptions) -> Result<Found, SubjectError> {
    let mode = if options.allow_writes { OFlags::RDWR } else { OFlags::RDONLY };
    let file = match open_file(path, mode | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()) {
        Err(Errno::NOENT) => return Err(OpenError::NotThere { path: path.to_owned() }.into()),
        outcome => outcome.map_err(OpenError::system(path, "opening"))?,
    };
    let status = fstat(&file).map_err(OpenError::system(path, "looking at"))?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => {
            return Err(OpenError::NoFile { path: path.to_owned(), kind: "a directory" }.into());
        }
        _ => {
            return Err(OpenError::NoFile {
                path: path.to_owned(),
                kind: "a socket, pipe or character device",
            }
            .into());
        }
    }
    // A headtime that serves it holds it exclusively; two that only read do not mind each other.
    let lock = if options.allow_writes {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match flock(&file, lock) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse { path: path.to_owned() }.into()),
        Err(errno) => return Err(OpenError::system(path, "locking")(errno).into()),
    }
    let sector_size = SectorSize::B512;
    let sector_bytes = sector_size.bytes();
    let bytes = status.st_size as u64;
    let wrong_size = || OpenError::WrongSize {
        path: path.to_owned(),
        bytes,
        sector_bytes,
        remedy: bytes.max(1).next_multiple_of(u64::from(sector_bytes)),
    };
    let capacity = sector_size
        .sectors_of(bytes)
        .filter(|capacity| !capacity.is_zero())
        .ok_or_else(wrong_size)?;
    let direct = try_direct(&file, u64::from(sector_bytes));
    let mut notices = vec![format!(
        "{} is a file: what is measured is the file system's work and the drive's below it \
            together",
        path.display()
    )];
    if !direct {
        notices.push(format!(
            "{} cannot be read past the page cache, which will answer instead of a drive",
            path.display()
        ));
    }
    Ok(Found {
        model: Some("file".to_owned()),
        serial: Some(path.display().to_string()),
        capacity,
        sector_size,
        fua: true,
        depth: MAX_AT_ONCE,
        notices,
        knobs: None,
        edge: edge_of(file, path, bytes, sector_size, direct, options.allow_writes)?,
    })
}

/// Uses io_uring or, where that is forbidden, threads.
fn edge_of(
    file: std::os::fd::OwnedFd,
    path: &Path,
    bytes: u64,
    sector_size: SectorSize,
    direct: bool,
    keep_bytes: bool,
) -> Result<Box<dyn Edge>, OpenError> {
    let sector_bytes = u64::from(sector_size.bytes());
    let own = file.try_clone().map_err(OpenError::Engine)?;
    let data = if keep_bytes { ReadData::Keep } else { ReadData::Discard };
    match DeviceEdge::new(own, path.to_owned(), bytes, sector_bytes, data) {
        Ok(edge) => Ok(Box::new(edge)),
        Err(error) => {
            tracing::warn!(%error, "io_uring is not available here; threads read, which makes the \
                times scatter more");
            let notifier = Arc::new(Notifier::new().map_err(OpenError::Engine)?);
            let pool = Pool::start(
                Store::single(file, sector_bytes, direct.into()),
                Arc::clone(&notifier),
                THREADS,
            )
            .map_err(OpenError::Engine)?;
            Ok(Box::new(BackendEdge::new(Box::new(ThreadedFile::new(pool)), notifier)))
        }
    }
}

/// No experiment has any use for more (guess).
const MAX_AT_ONCE: usize = 32;
/// Enough for the experiments that keep several reads outstanding.
const THREADS: usize = 8;
