//! [`Drive`]: an open drive, addressed in bytes.

use std::fmt;
use std::ops::Add as _;
use std::sync::Arc;

use bytes::Bytes;
use headtime_io::{DriveHandle, DriveOptions, Io, Locator, Tuning};
use headtime_sched::ClassPromises;

use crate::batch::Batch;
use crate::error::{Error, NotOnDrive, RequestBytes};
use crate::options::OpenOptions;
use crate::request::{IoRequest, Link};

/// An open drive with a scheduler of its own. Any thread may start requests.
///
/// Dropping it, or [`close`](Drive::close), refuses new requests, waits for those in flight, and
/// makes everything written durable.
///
/// In a child process after fork it does not work, because its threads exist in the parent only:
/// requests are refused there, and closing or dropping it does nothing.
pub struct Drive {
    /// `None` once it was closed.
    inner: Option<headtime_io::Drive>,
    link: Link,
}

impl Drive {
    /// Opens a drive with the default settings.
    ///
    /// | text | drive |
    /// |---|---|
    /// | `memory:1GiB` | bytes in memory, without the timing of a disk |
    /// | `emulated:nearline-20tb?backing=FILE` | the timing of a profile, bytes in a sparse file |
    /// | `/dev/disk/by-id/…` | a block device |
    /// | `drive.img` | a file |
    /// | `nbd://HOST/EXPORT`, `nbd+unix:///EXPORT?socket=PATH` | an NBD server |
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the text names no drive,
    /// [`ErrorKind::Open`](crate::ErrorKind::Open) if it cannot be opened.
    pub fn open(drive: &str) -> Result<Self, Error> {
        OpenOptions::new().open(drive)
    }

    pub(crate) fn open_with(drive: &str, options: DriveOptions) -> Result<Self, Error> {
        let locator = Locator::parse(drive).map_err(|error| Error::locator(drive, error))?;
        let inner = headtime_io::Drive::open(&locator, options)
            .map_err(|error| Error::open(drive, error))?;
        let (handle, process) = (inner.handle(), std::process::id());
        let link = Link { handle, drive: drive.into(), process };
        Ok(Self { inner: Some(inner), link })
    }

    /// The drive as it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.link.drive
    }

    /// The size in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.handle().sector_size().bytes_of(self.handle().capacity())
    }

    /// Bytes of a sector. Offsets and lengths of requests are multiples of it.
    #[must_use]
    pub fn sector_size(&self) -> u32 {
        self.handle().sector_size().bytes()
    }

    /// Bytes of a physical sector. Smaller or unaligned writes cost the drive a revolution.
    #[must_use]
    pub fn physical_block(&self) -> u32 {
        self.handle().physical_block()
    }

    /// A read of `len` bytes from byte `offset`.
    pub fn read_at(&self, offset: u64, len: u64) -> IoRequest {
        self.request(RequestBytes { op: "read", offset, len }, Io::read)
    }

    /// A write of `data` at byte `offset`. A buffer aligned to a page is not copied.
    pub fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> IoRequest {
        let data = data.into();
        let bytes = RequestBytes { op: "write", offset, len: data.len() as u64 };
        self.request(bytes, |extent| Io::write(extent, data))
    }

    /// A write of zeroes, which are not moved to the drive.
    pub fn zero_at(&self, offset: u64, len: u64) -> IoRequest {
        self.request(RequestBytes { op: "zero", offset, len }, Io::zero)
    }

    /// A discard: the content of these bytes is undefined afterwards.
    pub fn discard_at(&self, offset: u64, len: u64) -> IoRequest {
        self.request(RequestBytes { op: "discard", offset, len }, Io::discard)
    }

    /// A flush: makes every write durable that completed before it was started.
    pub fn flush(&self) -> IoRequest {
        let bytes = RequestBytes { op: "flush", offset: 0, len: 0 };
        IoRequest::new(self.link.clone(), bytes, Ok(Io::flush()))
    }

    /// Several requests that are started together and may share one deadline.
    pub fn batch(&self, requests: impl IntoIterator<Item = IoRequest>) -> Batch {
        Batch::new(requests.into_iter().collect())
    }

    fn request(
        &self,
        bytes: RequestBytes,
        io: impl FnOnce(headtime_units::Extent) -> Io,
    ) -> IoRequest {
        let extent = self.handle().extent_of_bytes(bytes.offset, bytes.len);
        let io = extent.map(io).map_err(|unaligned| Error::invalid(self.name(), bytes, unaligned));
        let (end, capacity) = (bytes.offset.checked_add(bytes.len), self.capacity());
        let on_drive = bytes.len == 0 || end.is_some_and(|end| end <= capacity);
        let beyond = || Error::invalid(self.name(), bytes, NotOnDrive { capacity });
        let io = io.and_then(|io| if on_drive { Ok(io) } else { Err(beyond()) });
        IoRequest::new(self.link.clone(), bytes, io)
    }

    /// Changes the policy of the open drive: a name of `headtime policies`, with parameters as
    /// `NAME:parameter=value,…`. Queued requests stay queued.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid),
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn set_policy(&self, policy: &str) -> Result<(), Error> {
        let choice = policy.parse().map_err(|error| Error::setting("policy", policy, error))?;
        let tuning = Tuning { policy: Some(choice), ..Tuning::default() };
        let none = RequestBytes { op: "change of the policy", offset: 0, len: 0 };
        self.handle().tune(tuning).map_err(|error| Error::submit(self.name(), none, error))
    }

    /// Requests that are queued, and commands at the drive.
    #[must_use]
    pub fn queue_depths(&self) -> (usize, usize) {
        let snapshot = self.handle().snapshot();
        (snapshot.queued, snapshot.outstanding)
    }

    /// The answers to requests that were to be [guaranteed](IoRequest::guaranteed), by the class of
    /// their priority.
    #[must_use]
    pub fn promises(&self) -> ClassPromises {
        let accounts = self.handle().snapshot().accounts;
        let each = accounts.iter().map(|(_, account)| account.promises);
        each.fold(ClassPromises::default(), ClassPromises::add)
    }

    /// Closes the drive: refuses new requests, waits for those in flight, and makes everything
    /// written durable.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut) if requests did not complete in time, or
    /// written data could not be made durable.
    pub fn close(mut self) -> Result<(), Error> {
        let Some(report) = self.take().map(headtime_io::Drive::shutdown) else { return Ok(()) };
        if report.is_clean() { Ok(()) } else { Err(Error::unclean(&self.link.drive, &report)) }
    }

    /// The drive to be closed; `None` in a child process, where it has no thread to wait for.
    fn take(&mut self) -> Option<headtime_io::Drive> {
        let inner = self.inner.take()?;
        if self.link.is_of_this_process() {
            return Some(inner);
        }
        std::mem::forget(inner);
        None
    }

    fn handle(&self) -> &DriveHandle {
        &self.link.handle
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").field("name", &self.name()).finish_non_exhaustive()
    }
}

// Handles of other threads keep no drive open.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Arc<Drive>>();
};
