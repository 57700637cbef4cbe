//! `headtime_error`: the reason of a failure, with its drive, bytes and cause.

use std::ffi::{CStr, CString, c_char, c_int};

use headtime::{Error, ErrorKind};
use rustix::io::Errno;

/// The kinds of errors that a program may treat differently.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum headtime_error_kind {
    /// No error.
    HEADTIME_OK = 0,
    /// The drive could not be opened.
    HEADTIME_ERROR_OPEN = 1,
    /// The request or a setting is invalid, and nothing was done.
    HEADTIME_ERROR_INVALID = 2,
    /// The drive has reached its bound on requests or bytes, and nothing was done.
    HEADTIME_ERROR_FULL = 3,
    /// The request was cancelled.
    HEADTIME_ERROR_CANCELLED = 4,
    /// The drive did not answer in time.
    HEADTIME_ERROR_TIMED_OUT = 5,
    /// The drive is closed.
    HEADTIME_ERROR_CLOSED = 6,
    /// The drive or the system reported an error.
    HEADTIME_ERROR_DRIVE = 7,
    /// The deadline cannot be guaranteed, and nothing was done.
    HEADTIME_ERROR_INFEASIBLE = 8,
}

/// The reason of a failure. Free it with headtime_error_free.
pub struct headtime_error {
    kind: headtime_error_kind,
    errno: c_int,
    message: CString,
    drive: CString,
    cause: CString,
    offset: Option<u64>,
    length: Option<u64>,
}

impl headtime_error {
    pub(crate) fn new(error: &Error) -> Self {
        Self {
            kind: error.kind().into(),
            errno: error.errno(),
            message: c_text(&error.to_string()),
            drive: c_text(error.drive()),
            cause: c_text(&error.cause()),
            offset: error.offset(),
            length: error.length(),
        }
    }

    /// The error of an argument of this interface.
    pub(crate) fn argument(message: String) -> Self {
        let (message, drive) = (c_text(&message), CString::default());
        let kind = headtime_error_kind::HEADTIME_ERROR_INVALID;
        let errno = Errno::INVAL.raw_os_error();
        Self { kind, errno, cause: message.clone(), message, drive, offset: None, length: None }
    }

    /// The error of a request of this drive and these bytes.
    pub(crate) fn of_request(
        kind: headtime_error_kind,
        errno: Errno,
        drive: &CStr,
        (offset, length): (u64, u64),
        cause: &str,
    ) -> Self {
        let name = drive.to_string_lossy();
        let message = format!("{name}: request of {length} bytes from byte {offset}: {cause}");
        Self {
            kind,
            errno: errno.raw_os_error(),
            message: c_text(&message),
            drive: drive.to_owned(),
            cause: c_text(cause),
            offset: Some(offset),
            length: Some(length),
        }
    }

    pub(crate) fn errno(&self) -> c_int {
        self.errno
    }

    pub(crate) fn kind(&self) -> headtime_error_kind {
        self.kind
    }

    pub(crate) fn into_pointer(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }

    /// Stores the error for the caller, if it passed a place for it.
    ///
    /// # Safety
    /// `into` is null or can be written.
    pub(crate) unsafe fn store(self, into: *mut *mut Self) {
        if !into.is_null() {
            // SAFETY: the caller has said so.
            unsafe { into.write(self.into_pointer()) };
        }
    }
}

impl From<ErrorKind> for headtime_error_kind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Open => Self::HEADTIME_ERROR_OPEN,
            ErrorKind::Invalid => Self::HEADTIME_ERROR_INVALID,
            ErrorKind::Full => Self::HEADTIME_ERROR_FULL,
            ErrorKind::Infeasible => Self::HEADTIME_ERROR_INFEASIBLE,
            ErrorKind::Cancelled => Self::HEADTIME_ERROR_CANCELLED,
            ErrorKind::TimedOut => Self::HEADTIME_ERROR_TIMED_OUT,
            ErrorKind::Closed => Self::HEADTIME_ERROR_CLOSED,
            _ => Self::HEADTIME_ERROR_DRIVE,
        }
    }
}

/// A text as C has it. Messages have no zero bytes; one would end the text.
pub(crate) fn c_text(text: &str) -> CString {
    let until = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..until]).unwrap_or_default()
}

/// The message: the drive, the bytes of the request, the cause and its remedy; "no error" for NULL.
/// Valid until the error is freed, as are the other texts.
///
/// # Safety
/// `error` is NULL, or from this library and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_message(error: *const headtime_error) -> *const c_char {
    // SAFETY: the caller passes NULL or a valid error.
    unsafe { error.as_ref() }.map_or(c"no error", |error| &error.message).as_ptr()
}

/// The kind; HEADTIME_OK for NULL.
///
/// # Safety
/// As headtime_error_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_kind_of(
    error: *const headtime_error,
) -> headtime_error_kind {
    // SAFETY: the caller passes NULL or a valid error.
    unsafe { error.as_ref() }.map_or(headtime_error_kind::HEADTIME_OK, headtime_error::kind)
}

/// The nearest of the system's error codes; 0 for NULL.
///
/// # Safety
/// As headtime_error_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_errno(error: *const headtime_error) -> c_int {
    // SAFETY: the caller passes NULL or a valid error.
    unsafe { error.as_ref() }.map_or(0, headtime_error::errno)
}

/// The drive as it was opened; an empty text for an invalid setting.
///
/// # Safety
/// As headtime_error_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_drive(error: *const headtime_error) -> *const c_char {
    // SAFETY: the caller passes NULL or a valid error.
    unsafe { error.as_ref() }.map_or(c"", |error| &error.drive).as_ptr()
}

/// The cause and its remedy, without the drive and the bytes.
///
/// # Safety
/// As headtime_error_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_cause(error: *const headtime_error) -> *const c_char {
    // SAFETY: the caller passes NULL or a valid error.
    unsafe { error.as_ref() }.map_or(c"", |error| &error.cause).as_ptr()
}

/// The first byte of the request; UINT64_MAX if no request failed.
///
/// # Safety
/// As headtime_error_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_offset(error: *const headtime_error) -> u64 {
    // SAFETY: the caller passes NULL or a valid error.
    unsafe { error.as_ref() }.and_then(|error| error.offset).unwrap_or(u64::MAX)
}

/// The bytes of the request; 0 if no request failed.
///
/// # Safety
/// As headtime_error_message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_length(error: *const headtime_error) -> u64 {
    // SAFETY: the caller passes NULL or a valid error.
    unsafe { error.as_ref() }.and_then(|error| error.length).unwrap_or(0)
}

/// Frees an error. NULL is allowed.
///
/// # Safety
/// `error` is NULL, or from this library and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_error_free(error: *mut headtime_error) {
    if !error.is_null() {
        // SAFETY: the caller passes an error that it owns.
        drop(unsafe { Box::from_raw(error) });
    }
}
