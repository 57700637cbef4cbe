//! The primitives of the files that `tests/hand_over.rs` runs under loom, with loom's instead.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
