//! The scheduling class of a thread.

use std::io;

/// Moves the calling thread, but no thread that it starts, to the kernel's first-in-first-out class
/// at the lowest priority of the class: before every ordinary thread and after every other
/// real-time thread.
///
/// # Errors
/// The system's, without privilege (CAP_SYS_NICE, or a limit on real-time priorities above zero).
pub(crate) fn run_first_in_first_out() -> io::Result<()> {
    const CALLING_THREAD: libc::pid_t = 0;
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads `lowest`, which lives until it returns, and changes nothing but the
    // calling thread's class.
    let answer = unsafe {
        libc::sched_setscheduler(
            CALLING_THREAD,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const lowest,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
