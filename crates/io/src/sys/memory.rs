//! The allocator's free memory.

/// Returns free memory to the system. The allocator of glibc otherwise keeps what hundreds of
/// connections have used.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function takes a number and may be called at any time from any thread.
    let _released = unsafe { libc::malloc_trim(0) };
}
