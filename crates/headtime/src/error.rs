//! The error of every operation: the drive, the request and the cause.

use std::fmt;
use std::sync::Arc;

use headtime_io::{DrainReport, IoError, LocatorError, OpenError, SubmitError};

/// The reason why a drive could not be opened or a request failed. The message names the drive, the
/// bytes of the request, and the cause with its remedy.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    drive: Arc<str>,
    request: Option<RequestBytes>,
    cause: Arc<dyn std::error::Error + Send + Sync>,
    errno: i32,
}

/// The kinds of errors that a program may treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The drive could not be opened.
    Open,
    /// The request or a setting is invalid, and nothing was done.
    Invalid,
    /// The drive has reached its bound on requests or bytes, and nothing was done.
    Full,
    /// The deadline cannot be guaranteed, and nothing was done.
    Infeasible,
    /// The request was cancelled.
    Cancelled,
    /// The drive did not answer in time.
    TimedOut,
    /// The drive is closed.
    Closed,
    /// The drive or the system reported an error.
    Drive,
}

impl ErrorKind {
    /// The name in other languages and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Invalid => "invalid",
            Self::Full => "full",
            Self::Infeasible => "infeasible",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::Closed => "closed",
            Self::Drive => "drive",
        }
    }
}

/// The bytes and the operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestBytes {
    pub(crate) op: &'static str,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// An invalid setting of [`OpenOptions`](crate::OpenOptions).
#[derive(Debug, thiserror::Error)]
#[error("{name}={value}: {expected}")]
pub(crate) struct BadSetting {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) expected: String,
}

/// Bytes that are not on the drive.
#[derive(Debug, thiserror::Error)]
#[error(
    "a part of that is not on the drive, which has {capacity} bytes; keep requests within bytes \
        0..{capacity}"
)]
pub(crate) struct NotOnDrive {
    pub(crate) capacity: u64,
}

/// A drive of the parent process, after fork.
#[derive(Debug, thiserror::Error)]
#[error(
    "process {opened} has opened the drive, and its threads do not exist in this one, {}; use the \
        drive in that process, or open another one in this",
    std::process::id()
)]
pub(crate) struct OtherProcess {
    opened: u32,
}

/// A drive that was closed with something left.
#[derive(Debug, thiserror::Error)]
#[error(
    "{queued} queued requests and {at_drive} at the drive did not complete within the drain \
        timeout, {}; check the drive, and what was written last",
    if *synced { "all completed writes are durable" } else { "and writes may not be durable" }
)]
pub(crate) struct UncleanClose {
    queued: usize,
    at_drive: usize,
    synced: bool,
}

impl Error {
    fn new(
        kind: ErrorKind,
        drive: &str,
        cause: impl std::error::Error + Send + Sync + 'static,
        errno: i32,
    ) -> Self {
        Self { kind, drive: drive.into(), request: None, cause: Arc::new(cause), errno }
    }

    pub(crate) fn setting(name: &str, value: &str, expected: impl ToString) -> Self {
        let cause =
            BadSetting { name: name.into(), value: value.into(), expected: expected.to_string() };
        Self::new(ErrorKind::Invalid, "", cause, EINVAL)
    }

    pub(crate) fn locator(drive: &str, cause: LocatorError) -> Self {
        // The message of a locator names the drive already.
        Self::new(ErrorKind::Invalid, "", cause, EINVAL).of_drive(drive)
    }

    pub(crate) fn open(drive: &str, cause: OpenError) -> Self {
        let errno = match &cause {
            OpenError::NotThere { .. } | OpenError::SettingInName { .. } => ENOENT,
            OpenError::InUse { .. } => EBUSY,
            OpenError::System { error, .. } | OpenError::Engine(error) => {
                error.raw_os_error().unwrap_or(EIO)
            }
            OpenError::BadOption { .. } => EINVAL,
            _ => EIO,
        };
        Self::new(ErrorKind::Open, drive, cause, errno)
    }

    pub(crate) fn invalid(
        drive: &str,
        request: RequestBytes,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { request: Some(request), ..Self::new(ErrorKind::Invalid, drive, cause, EINVAL) }
    }

    pub(crate) fn submit(drive: &str, request: RequestBytes, cause: SubmitError) -> Self {
        Self::io(drive, request, IoError::NotTaken(cause))
    }

    pub(crate) fn io(drive: &str, request: RequestBytes, cause: IoError) -> Self {
        let kind = match &cause {
            IoError::Os { .. } | IoError::Drive { .. } | IoError::EngineFailed => ErrorKind::Drive,
            IoError::TimedOut { .. } => ErrorKind::TimedOut,
            IoError::Infeasible { .. } => ErrorKind::Infeasible,
            IoError::Cancelled => ErrorKind::Cancelled,
            IoError::Closed | IoError::NotTaken(SubmitError::Closed) => ErrorKind::Closed,
            IoError::NotTaken(SubmitError::Full { .. }) => ErrorKind::Full,
            IoError::NotTaken(_) => ErrorKind::Invalid,
        };
        let errno = cause.errno();
        Self { request: Some(request), ..Self::new(kind, drive, cause, errno) }
    }

    pub(crate) fn unclean(drive: &str, report: &DrainReport) -> Self {
        let cause = UncleanClose {
            queued: report.given_up_queued,
            at_drive: report.given_up_at_drive,
            synced: report.synced,
        };
        let bytes = RequestBytes { op: "close", offset: 0, len: 0 };
        let timed_out = Self::new(ErrorKind::TimedOut, drive, cause, EIO);
        Self { request: Some(bytes), ..timed_out }
    }

    pub(crate) fn other_process(drive: &str, request: RequestBytes, opened: u32) -> Self {
        let error = Self::new(ErrorKind::Closed, drive, OtherProcess { opened }, ESHUTDOWN);
        Self { request: Some(request), ..error }
    }

    fn of_drive(self, drive: &str) -> Self {
        Self { drive: drive.into(), ..self }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The drive as it was opened; empty for an invalid setting.
    #[must_use]
    pub fn drive(&self) -> &str {
        &self.drive
    }

    /// The first byte of the request; `None` if no request failed.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.request.map(|request| request.offset)
    }

    /// The bytes of the request; `None` if no request failed.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.request.map(|request| request.len)
    }

    /// The cause, with its remedy.
    #[must_use]
    pub fn cause(&self) -> String {
        self.cause.to_string()
    }

    /// The nearest of the system's error codes.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = &self.cause;
        match self.request {
            Some(RequestBytes { op, len: 0, .. }) => write!(f, "{}: {op}: {cause}", self.drive),
            Some(RequestBytes { op, offset, len }) => {
                write!(f, "{}: {op} of {len} bytes from byte {offset}: {cause}", self.drive)
            }
            None if self.kind == ErrorKind::Open && !self.drive.is_empty() => {
                write!(f, "{}: {cause}", self.drive)
            }
            None => cause.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let kind = Self::from_raw_os_error(error.errno).kind();
        Self::new(kind, error)
    }
}

const ENOENT: i32 = rustix::io::Errno::NOENT.raw_os_error();
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
const EBUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();
const ESHUTDOWN: i32 = rustix::io::Errno::SHUTDOWN.raw_os_error();
const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();
