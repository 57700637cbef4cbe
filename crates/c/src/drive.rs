//! `headtime_drive`: an open drive.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::sync::Arc;

use headtime::{Drive, Error, OpenOptions, PriorityClass, PromiseCounts};
use rustix::io::Errno;

use crate::error::{c_text, headtime_error};

/// An open drive with a scheduler of its own. Any thread may use it.
pub struct headtime_drive {
    pub(crate) inner: Drive,
    pub(crate) name: Arc<CStr>,
}

/// A setting of a drive: a name and a value, such as "policy" and "cds-scan".
#[repr(C)]
pub struct headtime_setting {
    /// The name.
    pub name: *const c_char,
    /// The value.
    pub value: *const c_char,
}

/// The answers to requests that asked for a guarantee of their deadline.
#[repr(C)]
pub struct headtime_promises {
    /// Guaranteed.
    pub guaranteed: u64,
    /// Accepted as best effort. Requests without a deadline are not counted.
    pub best_effort: u64,
    /// Refused.
    pub refused: u64,
    /// Guaranteed requests that completed after their deadline.
    pub broken: u64,
}

/// A text of the caller.
///
/// # Safety
/// `text` is null or a text that ends in a zero byte and outlives the result.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, String> {
    if text.is_null() {
        return Err(format!("{what} is NULL; pass a text"));
    }
    // SAFETY: the caller has said so.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| format!("{what} {text:?}: expected a text in UTF-8"))
}

/// Opens a drive: a file, a block device, an NBD server, an emulated drive or a drive in memory, as
/// docs/embedding.md names them. `settings` has `count` settings, and may be NULL if there are
/// none. In a child process after fork, drives of the parent do not work.
///
/// Returns NULL if the drive cannot be opened, with the reason in `error` unless that is NULL.
///
/// # Safety
/// The texts end in a zero byte, and `settings` has `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_open(
    drive: *const c_char,
    settings: *const headtime_setting,
    count: usize,
    error: *mut *mut headtime_error,
) -> *mut headtime_drive {
    // SAFETY: the caller passes valid texts and settings.
    match unsafe { open(drive, settings, count) } {
        Ok(inner) => {
            let name = c_text(inner.name()).into();
            Box::into_raw(Box::new(headtime_drive { inner, name }))
        }
        Err(failed) => {
            // SAFETY: the caller passes NULL or a place for an error.
            unsafe { failed.store(error) };
            null_mut()
        }
    }
}

unsafe fn open(
    drive: *const c_char,
    settings: *const headtime_setting,
    count: usize,
) -> Result<Drive, headtime_error> {
    let (argument, of) = (headtime_error::argument, |error: Error| headtime_error::new(&error));
    // SAFETY: the caller of headtime_open passes texts and `count` settings.
    let drive = unsafe { text("the name of the drive", drive) }.map_err(argument)?;
    let mut options = OpenOptions::new();
    if settings.is_null() && count > 0 {
        return Err(argument(format!("settings is NULL with {count} settings; pass both or none")));
    }
    for place in 0..count {
        // SAFETY: as before.
        let (name, value) = unsafe {
            let setting = &*settings.add(place);
            (
                text("the name of a setting", setting.name).map_err(argument)?,
                text("the value of a setting", setting.value).map_err(argument)?,
            )
        };
        options = options.set(name, value).map_err(of)?;
    }
    options.open(drive).map_err(of)
}

/// Closes a drive: refuses new requests, waits for those in flight, and makes everything written
/// durable. The drive cannot be used afterwards, whatever the result. Queues with requests of the
/// drive may still be used and freed.
///
/// Returns 0, or an error code if requests did not complete in time or written data could not be
/// made durable, with the reason in `error` unless that is NULL.
///
/// # Safety
/// `drive` is from headtime_open, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_close(
    drive: *mut headtime_drive,
    error: *mut *mut headtime_error,
) -> c_int {
    if drive.is_null() {
        return 0;
    }
    // SAFETY: the caller passes a drive that it owns.
    let drive = unsafe { Box::from_raw(drive) };
    match drive.inner.close() {
        Ok(()) => 0,
        Err(failed) => {
            // SAFETY: the caller passes NULL or a place for an error.
            unsafe { headtime_error::new(&failed).store(error) };
            failed.errno()
        }
    }
}

/// The size of the drive in bytes; 0 for NULL, as for the next two.
///
/// # Safety
/// `drive` is open or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_capacity(drive: *const headtime_drive) -> u64 {
    // SAFETY: the caller passes an open drive or NULL.
    unsafe { drive.as_ref() }.map_or(0, |drive| drive.inner.capacity())
}

/// Bytes of a sector. Offsets and lengths of requests are multiples of it.
///
/// # Safety
/// `drive` is open or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_sector_size(drive: *const headtime_drive) -> u32 {
    // SAFETY: the caller passes an open drive or NULL.
    unsafe { drive.as_ref() }.map_or(0, |drive| drive.inner.sector_size())
}

/// Bytes of a physical sector. Smaller or unaligned writes cost the drive a revolution.
///
/// # Safety
/// `drive` is open or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_physical_block(drive: *const headtime_drive) -> u32 {
    // SAFETY: the caller passes an open drive or NULL.
    unsafe { drive.as_ref() }.map_or(0, |drive| drive.inner.physical_block())
}

/// Changes the policy of an open drive: a name of `headtime policies`, with parameters as
/// NAME:parameter=value,… Returns 0, or an error code with the reason in `error` unless that is
/// NULL.
///
/// # Safety
/// `drive` is open, and `policy` ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_set_policy(
    drive: *const headtime_drive,
    policy: *const c_char,
    error: *mut *mut headtime_error,
) -> c_int {
    // SAFETY: the caller passes an open drive and a text, or NULL.
    let (drive, policy) = unsafe { (drive.as_ref(), text("the policy", policy)) };
    let drive = drive.ok_or_else(|| "the drive is NULL; pass a drive that is open".to_owned());
    let both = drive.and_then(|drive| Ok((drive, policy?)));
    let set = both.map_err(headtime_error::argument).and_then(|(drive, policy)| {
        drive.inner.set_policy(policy).map_err(|error| headtime_error::new(&error))
    });
    match set {
        Ok(()) => 0,
        Err(failed) => {
            let errno = failed.errno();
            // SAFETY: the caller passes NULL or a place for an error.
            unsafe { failed.store(error) };
            errno
        }
    }
}

/// The answers to deadlines since the drive was opened, for requests whose priority has the class
/// `priority_class`: "rt", "be" or "idle"; NULL for all. Requests without a priority are in "be".
/// Returns 0, or EINVAL for another text or NULL instead of the others.
///
/// # Safety
/// `drive` is open or NULL, `priority_class` ends in a zero byte or is NULL, and `promises` is a
/// place for the counts or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_promises_of(
    drive: *const headtime_drive,
    priority_class: *const c_char,
    promises: *mut headtime_promises,
) -> c_int {
    // SAFETY: the caller passes an open drive and a place for the counts, or NULL.
    let (Some(drive), Some(promises)) = (unsafe { (drive.as_ref(), promises.as_mut()) }) else {
        return Errno::INVAL.raw_os_error();
    };
    let all = drive.inner.promises();
    let counts = if priority_class.is_null() {
        all.total()
    } else {
        // SAFETY: the caller passes a text that ends in a zero byte.
        let name = unsafe { CStr::from_ptr(priority_class) }.to_bytes();
        let Some(class) = PriorityClass::ALL.into_iter().find(|one| one.name().as_bytes() == name)
        else {
            return Errno::INVAL.raw_os_error();
        };
        all.of(class)
    };
    let PromiseCounts { guaranteed, best_effort, refused, broken } = counts;
    *promises = headtime_promises { guaranteed, best_effort, refused, broken };
    0
}
