//! The completion queue of an event loop of asyncio.

use std::future::Future;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::pin::Pin;
use std::sync::Mutex;

use headtime::{BatchDone as DoneBatch, BatchError, Error, IoDone as Done};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::drive::{Batch, BatchDone, IoDone, Pending, Request, lock};

/// Runs the requests of one event loop, which watches the descriptor and takes the results.
#[pyclass(frozen, module = "headtime")]
pub(crate) struct CompletionQueue(Mutex<headtime::CompletionQueue<u64, Outcome>>);

enum Outcome {
    Io(Result<Done, Error>),
    Batch(Result<DoneBatch, BatchError>),
}

/// The number of a request, and its result or its exception.
type NumberedResult = (u64, Option<Py<PyAny>>, Option<PyErr>);

type Task = Pin<Box<dyn Future<Output = Outcome> + Send>>;

#[pymethods]
impl CompletionQueue {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Mutex::new(headtime::CompletionQueue::new()?)))
    }

    fn fileno(&self) -> i32 {
        lock(&self.0).as_fd().as_raw_fd()
    }

    /// Starts a request; returns its number.
    fn push(&self, request: &Bound<'_, PyAny>) -> PyResult<u64> {
        // A task that is dropped, because it was cancelled, cancels its request.
        let task: Task = if let Ok(request) = request.cast::<Request>() {
            let starting = request.get().take()?.start();
            Box::pin(async move {
                Outcome::Io(match starting.await {
                    Ok(pending) => pending.cancel_on_drop().await,
                    Err(error) => Err(error),
                })
            })
        } else if let Ok(pending) = request.cast::<Pending>() {
            let pending = pending.get().take()?.cancel_on_drop();
            Box::pin(async move { Outcome::Io(pending.await) })
        } else if let Ok(batch) = request.cast::<Batch>() {
            let batch = batch.get().take()?.into_future();
            Box::pin(async move { Outcome::Batch(batch.await) })
        } else {
            return Err(PyTypeError::new_err("expected a request, a pending request or a batch"));
        };
        let mut queue = lock(&self.0);
        let number = queue.next_number();
        Ok(queue.push(number, task))
    }

    /// Drops a request, which cancels it.
    fn drop(&self, number: u64) {
        lock(&self.0).drop_task(number);
    }

    /// The results that are available: number, result, exception.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<NumberedResult>> {
        let mut queue = lock(&self.0);
        let mut results = Vec::new();
        while let Some((number, outcome)) = queue.try_next() {
            let object = match outcome {
                Outcome::Io(done) => {
                    IoDone::of(done).and_then(|done| Ok(Py::new(py, done)?.into_any()))
                }
                Outcome::Batch(done) => {
                    BatchDone::of(py, done).and_then(|done| Ok(Py::new(py, done)?.into_any()))
                }
            };
            results.push(match object {
                Ok(object) => (number, Some(object), None),
                Err(error) => (number, None, Some(error)),
            });
        }
        Ok(results)
    }
}
