//! `headtime_io`, a request, and `headtime_done`, its result.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use headtime::{Bytes, Drive, IfInfeasible, IoDone, IoRequest, PriorityError, Promise};
use rustix::io::Errno;

use crate::drive::{headtime_drive, text};
use crate::error::{headtime_error, headtime_error_free, headtime_error_kind};

/// The operations of a request.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum headtime_operation {
    /// Reads bytes into `buffer`.
    HEADTIME_READ = 0,
    /// Writes the bytes of `buffer`.
    HEADTIME_WRITE = 1,
    /// Writes zeroes.
    HEADTIME_ZERO = 2,
    /// Discards bytes: their content is undefined afterwards.
    HEADTIME_DISCARD = 3,
    /// Makes every write durable that completed before the start of the flush.
    HEADTIME_FLUSH = 4,
}

/// A flag of headtime_io: the write is durable before it completes (force unit access).
pub const HEADTIME_DURABLE: u32 = 1;
/// A flag of headtime_io: the deadline is guaranteed, or the request is served as if it had none.
/// Only the policies cds-scan and ds-scan guarantee deadlines.
pub const HEADTIME_GUARANTEED_IF_POSSIBLE: u32 = 2;
/// A flag of headtime_io: the deadline is guaranteed, or the request fails with
/// HEADTIME_ERROR_INFEASIBLE. A request without a deadline is invalid.
pub const HEADTIME_GUARANTEED: u32 = 4;

/// A request. Set all that is not needed to zero.
#[repr(C)]
pub struct headtime_io {
    /// One of headtime_operation.
    pub operation: u32,
    /// A sum of flags, such as HEADTIME_DURABLE.
    pub flags: u32,
    /// The first byte, a multiple of the sector size.
    pub offset: u64,
    /// The number of bytes, a multiple of the sector size.
    pub length: u64,
    /// The bytes to write, which are copied at the start; or the place for the bytes that are read,
    /// which must stay valid until the result was taken.
    pub buffer: *mut c_void,
    /// The deadline in nanoseconds from the start; 0 for none. A late request still completes.
    pub deadline_ns: u64,
    /// The I/O priority, such as "rt/2"; NULL for the default.
    pub priority: *const c_char,
    /// The process or file that the request belongs to.
    pub stream: u32,
    /// The tenant that is charged.
    pub volume: u32,
    /// Any number, returned with the result.
    pub user_data: u64,
}

/// The result of a request.
#[repr(C)]
pub struct headtime_done {
    /// That of the request.
    pub user_data: u64,
    /// HEADTIME_OK, or the kind of the error.
    pub kind: headtime_error_kind,
    /// 1 if the request had a deadline and completed after it.
    pub missed_deadline: u32,
    /// 1 if the deadline was guaranteed when the request was accepted.
    pub guaranteed: u32,
    /// Nanoseconds from the start to the completion, waiting for room included.
    pub response_ns: u64,
    /// Nanoseconds from the start to the dispatch to the drive.
    pub queue_ns: u64,
    /// Nanoseconds from the dispatch to the completion.
    pub service_ns: u64,
    /// Nanoseconds of the drive that the request was charged with.
    pub disk_ns: u64,
    /// The error, to be freed with headtime_error_free; NULL if there is none.
    pub error: *mut headtime_error,
}

/// The part of a request that is kept until its result is taken.
pub(crate) struct Submitted {
    user_data: u64,
    /// The place for the bytes of a read; null for other operations.
    buffer: *mut u8,
    drive: Arc<CStr>,
    offset: u64,
    length: u64,
}

// SAFETY: the pointer is only used by the thread that takes the result, for which the program keeps
// the buffer.
unsafe impl Send for Submitted {}

impl Submitted {
    /// The part of a request to keep, and the request or the reason why it is invalid.
    ///
    /// # Safety
    /// `drive` is NULL or open; `io` is NULL, or its buffer and its priority are valid.
    pub(crate) unsafe fn new(
        drive: *const headtime_drive,
        io: *const headtime_io,
    ) -> (Self, Result<IoRequest, String>) {
        // SAFETY: the caller passes NULL or valid pointers.
        let (drive, io) = unsafe { (drive.as_ref(), io.as_ref()) };
        let request = match (drive, io) {
            (None, _) => Err("drive is NULL; pass a drive that is open".to_owned()),
            (_, None) => Err("io is NULL; pass a request".to_owned()),
            // SAFETY: the caller passes a valid buffer and priority.
            (Some(drive), Some(io)) => unsafe { request(&drive.inner, io) },
        };
        let reads = io.filter(|io| io.operation == headtime_operation::HEADTIME_READ as u32);
        let submitted = Self {
            user_data: io.map_or(0, |io| io.user_data),
            buffer: reads.map_or(null_mut(), |io| io.buffer.cast()),
            drive: drive.map_or_else(|| c"NULL".into(), |drive| Arc::clone(&drive.name)),
            offset: io.map_or(0, |io| io.offset),
            length: io.map_or(0, |io| io.length),
        };
        (submitted, request)
    }

    pub(crate) fn cancelled(&self) -> headtime_error {
        let kind = headtime_error_kind::HEADTIME_ERROR_CANCELLED;
        self.error(kind, Errno::CANCELED, "it was cancelled")
    }

    pub(crate) fn invalid(&self, cause: &str) -> headtime_error {
        self.error(headtime_error_kind::HEADTIME_ERROR_INVALID, Errno::INVAL, cause)
    }

    fn error(&self, kind: headtime_error_kind, errno: Errno, cause: &str) -> headtime_error {
        let bytes = (self.offset, self.length);
        headtime_error::of_request(kind, errno, &self.drive, bytes, cause)
    }

    /// The result for the program, with the bytes of a read in their place.
    ///
    /// # Safety
    /// The buffer of the request is valid.
    pub(crate) unsafe fn done(self, result: Result<IoDone, headtime_error>) -> headtime_done {
        let Self { user_data, buffer, length, .. } = self;
        match result {
            Ok(done) => {
                let data = done.data();
                if !buffer.is_null() {
                    assert_eq!(data.len() as u64, length, "a read returns the bytes requested");
                    // SAFETY: the buffer has this length.
                    unsafe { buffer.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
                }
                headtime_done {
                    user_data,
                    kind: headtime_error_kind::HEADTIME_OK,
                    missed_deadline: done.missed_deadline().into(),
                    guaranteed: (done.answer() == Some(Promise::Guaranteed)).into(),
                    response_ns: nanos(done.response_time()),
                    queue_ns: nanos(done.queue_time()),
                    service_ns: nanos(done.service_time()),
                    disk_ns: nanos(done.disk_time()),
                    error: null_mut(),
                }
            }
            Err(error) => headtime_done {
                user_data,
                kind: error.kind(),
                missed_deadline: 0,
                guaranteed: 0,
                response_ns: 0,
                queue_ns: 0,
                service_ns: 0,
                disk_ns: 0,
                error: error.into_pointer(),
            },
        }
    }
}

/// Stores a result for the program, or frees its error if the program passed NULL.
///
/// # Safety
/// `into` is null or can be written.
pub(crate) unsafe fn store(result: headtime_done, into: *mut headtime_done) {
    // SAFETY: the caller has said so, and the error has no other owner.
    unsafe {
        if into.is_null() {
            headtime_error_free(result.error);
        } else {
            into.write(result);
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A request of the program as one of the library, or the reason why it is invalid.
///
/// # Safety
/// The buffer and the priority of `io` are valid.
unsafe fn request(drive: &Drive, io: &headtime_io) -> Result<IoRequest, String> {
    use headtime_operation as op;

    const READ: u32 = op::HEADTIME_READ as u32;
    const WRITE: u32 = op::HEADTIME_WRITE as u32;
    const ZERO: u32 = op::HEADTIME_ZERO as u32;
    const DISCARD: u32 = op::HEADTIME_DISCARD as u32;
    const FLUSH: u32 = op::HEADTIME_FLUSH as u32;

    let &headtime_io { operation, flags, offset, length, buffer, .. } = io;
    if flags & !(HEADTIME_DURABLE | HEADTIME_GUARANTEED | HEADTIME_GUARANTEED_IF_POSSIBLE) != 0 {
        return Err(format!(
            "flags {flags:#x}: expected a sum of HEADTIME_DURABLE, HEADTIME_GUARANTEED and \
                HEADTIME_GUARANTEED_IF_POSSIBLE"
        ));
    }
    if buffer.is_null() && length > 0 && matches!(operation, READ | WRITE) {
        return Err("buffer is NULL; pass memory for the bytes".to_owned());
    }
    let mut request = match operation {
        READ => drive.read_at(offset, length),
        WRITE if length == 0 => drive.write_at(offset, Bytes::new()),
        WRITE => {
            let length = usize::try_from(length)
                .ok()
                .filter(|length| isize::try_from(*length).is_ok())
                .ok_or_else(|| format!("length {length}: expected less than half the memory"))?;
            // SAFETY: the buffer is not null and has this length.
            let data = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), length) };
            drive.write_at(offset, Bytes::copy_from_slice(data))
        }
        ZERO => drive.zero_at(offset, length),
        DISCARD => drive.discard_at(offset, length),
        FLUSH => drive.flush(),
        _ => return Err(format!("operation {operation}: expected a headtime_operation, 0–4")),
    };
    request = request.stream(io.stream).volume(io.volume);
    if io.deadline_ns != 0 {
        request = request.deadline(Duration::from_nanos(io.deadline_ns));
    }
    if flags & HEADTIME_DURABLE != 0 {
        request = request.durable();
    }
    if flags & HEADTIME_GUARANTEED != 0 {
        request = request.guaranteed(IfInfeasible::Refuse);
    } else if flags & HEADTIME_GUARANTEED_IF_POSSIBLE != 0 {
        request = request.guaranteed(IfInfeasible::BestEffort);
    }
    if !io.priority.is_null() {
        // SAFETY: the priority is a text.
        let priority = unsafe { text("the priority", io.priority) }?.parse();
        request = request.priority(priority.map_err(|error: PriorityError| error.to_string())?);
    }
    Ok(request)
}

/// Starts a request when the drive has room, waits for it, and stores its result in `done`, which
/// may be NULL. Returns the kind of its error, HEADTIME_OK if there is none.
///
/// # Safety
/// `drive` is open, the pointers are valid, and the buffer of `io` has its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_wait(
    drive: *const headtime_drive,
    io: *const headtime_io,
    done: *mut headtime_done,
) -> headtime_error_kind {
    let mut result = MaybeUninit::uninit();
    // SAFETY: the caller passes valid pointers; a batch of one stores one result.
    unsafe {
        headtime_wait_batch(drive, io, 1, 0, result.as_mut_ptr());
        let result = result.assume_init();
        let kind = result.kind;
        store(result, done);
        kind
    }
}

/// Starts `count` requests together, waits for all, and stores a result for each in `done`, which
/// may be NULL. Each is due `deadline_ns` from the start of the batch, unless it has a deadline of
/// its own; 0 is for none. Returns the number of requests that failed.
///
/// # Safety
/// As headtime_wait; `ios` and `done` have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headtime_wait_batch(
    drive: *const headtime_drive,
    ios: *const headtime_io,
    count: usize,
    deadline_ns: u64,
    done: *mut headtime_done,
) -> usize {
    // SAFETY: both have `count` elements.
    let io_at = |place| if ios.is_null() { null() } else { unsafe { ios.add(place) } };
    let done_at = |place| if done.is_null() { null_mut() } else { unsafe { done.add(place) } };
    let (mut started, mut requests) = (Vec::new(), Vec::new());
    for place in 0..count {
        // SAFETY: the caller passes valid requests and places for the results.
        match unsafe { Submitted::new(drive, io_at(place)) } {
            (submitted, Ok(request)) => {
                started.push((place, submitted));
                requests.push(request);
            }
            (submitted, Err(cause)) => {
                let error = submitted.invalid(&cause);
                // SAFETY: as before.
                unsafe { store(submitted.done(Err(error)), done_at(place)) };
            }
        }
    }
    let mut failed = count - started.len();
    // SAFETY: the caller passes an open drive or NULL.
    let Some(drive) = (unsafe { drive.as_ref() }) else { return failed };
    let mut batch = drive.inner.batch(requests);
    if deadline_ns != 0 {
        batch = batch.deadline(Duration::from_nanos(deadline_ns));
    }
    let results: Vec<_> = match batch.wait() {
        Ok(done) => done.into_iter().map(Ok).collect(),
        Err(error) => error.results,
    };
    for ((place, submitted), result) in started.into_iter().zip(results) {
        failed += usize::from(result.is_err());
        let result = result.map_err(|error| headtime_error::new(&error));
        // SAFETY: as before, and the caller keeps the buffers.
        unsafe { store(submitted.done(result), done_at(place)) };
    }
    failed
}
