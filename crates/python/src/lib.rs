//! `headtime._native`: the native part of the Python package. `crates/python/headtime` has the
//! rest, in Python; docs/python.md describes the package.
//!
//! Every call that waits or computes releases the GIL. The threads of a drive never acquire it:
//! they mark a request as ready, and the thread of the event loop reads the result.

#![allow(unsafe_code, reason = "the macros of pyo3 write the calls of Python's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "pyo3 passes arguments by value")]

mod compare;
mod drive;
mod errors;
mod queue;
mod server;
mod simulate;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::compare::{Sweep, run_job};
    #[pymodule_export]
    use crate::drive::{Batch, BatchDone, Drive, IoDone, Pending, Request, settings};
    #[pymodule_export]
    use crate::queue::CompletionQueue;
    #[pymodule_export]
    use crate::server::{Server, verbs};
    #[pymodule_export]
    use crate::simulate::{policies, profiles, simulate, workload, workloads};
}
