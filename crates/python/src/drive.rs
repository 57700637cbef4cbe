//! Drives, requests and their results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headtime::{
    Bytes, Error, IfInfeasible, IoPriority, OpenOptions, PriorityClass, Promise, PromiseCounts,
};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyIterator, PyList};

use crate::errors::{batch_error, drive_error, used_up};

/// An open drive.
#[pyclass(frozen, module = "headtime")]
pub(crate) struct Drive {
    /// `None` once it was closed.
    open: Mutex<Option<headtime::Drive>>,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    capacity: u64,
    #[pyo3(get)]
    sector_size: u32,
    #[pyo3(get)]
    physical_block: u32,
}

/// A request before its start. It keeps its drive open, also for the time in which it waits.
#[pyclass(frozen, module = "headtime")]
pub(crate) struct Request {
    inner: Mutex<Option<headtime::IoRequest>>,
    drive: Py<Drive>,
}

/// A request in flight.
#[pyclass(frozen, module = "headtime")]
pub(crate) struct Pending {
    /// `None` while it is waited for, and afterwards.
    inner: Mutex<Option<headtime::Pending>>,
    canceller: headtime::Canceller,
    _drive: Py<Drive>,
}

/// Requests that start together.
#[pyclass(frozen, module = "headtime")]
pub(crate) struct Batch {
    inner: Mutex<Option<headtime::Batch>>,
    /// Each keeps its drive open.
    _requests: Vec<Py<Request>>,
}

/// A completed request.
#[pyclass(frozen, module = "headtime")]
pub(crate) struct IoDone {
    done: headtime::IoDone,
    data: PyOnceLock<Py<PyBytes>>,
}

/// A batch of which every request completed.
#[pyclass(frozen, module = "headtime", sequence)]
pub(crate) struct BatchDone(headtime::BatchDone);

/// The settings of a drive by name: the name, the accepted values, the effect.
#[pyfunction]
pub(crate) fn settings() -> Vec<(&'static str, &'static str, &'static str)> {
    headtime::SETTINGS.iter().map(|one| (one.name, one.takes, one.summary)).collect()
}

#[pymethods]
impl Drive {
    #[new]
    #[pyo3(signature = (drive, /, **settings))]
    fn new(py: Python<'_>, drive: PathBuf, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let drive = drive.to_str().ok_or_else(|| {
            PyValueError::new_err(format!("drive {drive:?}: expected a name in UTF-8"))
        })?;
        let mut options = OpenOptions::new();
        for (name, value) in settings.into_iter().flatten() {
            if value.is_none() {
                continue;
            }
            let value = if value.is_instance_of::<PyBool>() {
                if value.is_truthy()? { "yes".to_owned() } else { "no".to_owned() }
            } else {
                value.str()?.to_string()
            };
            let name = name.extract::<String>()?;
            options = options.set(&name, &value).map_err(|error| drive_error(&error))?;
        }
        let opened = py.detach(|| options.open(drive)).map_err(|error| drive_error(&error))?;
        Ok(Self {
            name: drive.to_owned(),
            capacity: opened.capacity(),
            sector_size: opened.sector_size(),
            physical_block: opened.physical_block(),
            open: Mutex::new(Some(opened)),
        })
    }

    #[pyo3(signature = (offset, length, **options))]
    fn read_at(
        slf: &Bound<'_, Self>,
        offset: u64,
        length: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Request> {
        Self::request(slf, options, |drive| drive.read_at(offset, length))
    }

    #[pyo3(signature = (offset, data, **options))]
    fn write_at(
        slf: &Bound<'_, Self>,
        offset: u64,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Request> {
        let data = bytes_of(data)?;
        Self::request(slf, options, |drive| drive.write_at(offset, data))
    }

    #[pyo3(signature = (offset, length, **options))]
    fn zero_at(
        slf: &Bound<'_, Self>,
        offset: u64,
        length: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Request> {
        Self::request(slf, options, |drive| drive.zero_at(offset, length))
    }

    #[pyo3(signature = (offset, length, **options))]
    fn discard_at(
        slf: &Bound<'_, Self>,
        offset: u64,
        length: u64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Request> {
        Self::request(slf, options, |drive| drive.discard_at(offset, length))
    }

    #[pyo3(signature = (**options))]
    fn flush(slf: &Bound<'_, Self>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
        Self::request(slf, options, headtime::Drive::flush)
    }

    /// A batch of requests, each due `deadline` seconds from the start of the batch.
    #[pyo3(signature = (requests, *, deadline = None))]
    fn batch(&self, requests: &Bound<'_, PyAny>, deadline: Option<f64>) -> PyResult<Batch> {
        // A batch that is refused for one of its requests uses up none.
        let requests = requests.try_iter()?.map(|request| Ok(request?.cast_into::<Request>()?));
        let requests = requests.collect::<PyResult<Vec<_>>>()?;
        let take = |request: &Bound<'_, Request>| lock(&request.get().inner).take();
        let all = requests.iter().map(|request| take(request).ok_or_else(|| used_up("a request")));
        let all = all.collect::<PyResult<Vec<_>>>()?;
        let mut batch = self.with_open(|drive| drive.batch(all))?;
        if let Some(deadline) = deadline {
            batch = batch.deadline(seconds("deadline", deadline)?);
        }
        let requests = requests.into_iter().map(Bound::unbind).collect();
        Ok(Batch { inner: Mutex::new(Some(batch)), _requests: requests })
    }

    fn set_policy(&self, policy: &str) -> PyResult<()> {
        self.with_open(|drive| drive.set_policy(policy))?.map_err(|error| drive_error(&error))
    }

    /// Requests in the queue, and commands at the drive.
    fn queue_depths(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        py.detach(|| self.with_open(headtime::Drive::queue_depths))
    }

    /// The answers to deadlines that were to be guaranteed, by the class of the priority.
    fn promises(&self, py: Python<'_>) -> PyResult<BTreeMap<&str, BTreeMap<&str, u64>>> {
        let all = py.detach(|| self.with_open(headtime::Drive::promises))?;
        let by_class = PriorityClass::ALL.map(|class| {
            let PromiseCounts { guaranteed, best_effort, refused, broken } = all.of(class);
            let counts = [
                ("guaranteed", guaranteed),
                ("best_effort", best_effort),
                ("refused", refused),
                ("broken", broken),
            ];
            (class.name(), counts.into())
        });
        Ok(by_class.into())
    }

    #[getter]
    fn closed(&self) -> bool {
        lock(&self.open).is_none()
    }

    /// Completes what is in flight and makes everything written durable. Closing twice does
    /// nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(drive) = lock(&self.open).take() else { return Ok(()) };
        py.detach(|| drive.close()).map_err(|error| drive_error(&error))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<headtime.Drive {:?}, {} bytes>", self.name, self.capacity)
    }
}

impl Drive {
    fn with_open<T>(&self, act: impl FnOnce(&headtime::Drive) -> T) -> PyResult<T> {
        let open = lock(&self.open);
        let closed = || PyValueError::new_err(format!("{}: the drive is closed", self.name));
        open.as_ref().map(act).ok_or_else(closed)
    }

    fn request(
        slf: &Bound<'_, Self>,
        options: Option<&Bound<'_, PyDict>>,
        make: impl FnOnce(&headtime::Drive) -> headtime::IoRequest,
    ) -> PyResult<Request> {
        let mut request = slf.get().with_open(make)?;
        for (name, value) in options.into_iter().flatten() {
            let name = name.extract::<String>()?;
            if value.is_none() {
                continue;
            }
            request = match name.as_str() {
                "deadline" => {
                    request.deadline(seconds("deadline", option(&name, &value, A_TIME)?)?)
                }
                "priority" => {
                    let text: String = option(&name, &value, "a text such as \"rt/2\"")?;
                    request.priority(priority(&text)?)
                }
                "stream" => request.stream(option(&name, &value, A_NUMBER)?),
                "volume" => request.volume(option(&name, &value, A_NUMBER)?),
                "guaranteed" => {
                    let text: String = option(&name, &value, ANSWERS)?;
                    request.guaranteed(if_infeasible(&text)?)
                }
                "durable" if value.is_truthy()? => request.durable(),
                "durable" => request,
                _ => {
                    return Err(PyTypeError::new_err(format!(
                        "a request has no option {name}; expected deadline (seconds), guaranteed, \
                            priority, stream, volume or durable"
                    )));
                }
            };
        }
        Ok(Request { inner: Mutex::new(Some(request)), drive: slf.clone().unbind() })
    }
}

impl Drop for Drive {
    /// A drive that was not closed waits for its requests, and other threads of Python go on.
    fn drop(&mut self) {
        if let Some(drive) = lock(&self.open).take() {
            Python::attach(|py| py.detach(|| drop(drive)));
        }
    }
}

#[pymethods]
impl Request {
    /// Starts the request when the drive has room, and waits for its result.
    fn wait(&self, py: Python<'_>) -> PyResult<IoDone> {
        let done = wait_for(py, self.take()?)?;
        IoDone::of(done)
    }

    /// Starts the request when the drive has room.
    fn start(&self, py: Python<'_>) -> PyResult<Pending> {
        let started = wait_for(py, self.take()?.start())?;
        let started = started.map_err(|error| drive_error(&error))?;
        Ok(self.pending(py, started))
    }

    /// Starts the request, or raises `FullError` if the drive has no room.
    fn try_start(&self, py: Python<'_>) -> PyResult<Pending> {
        let started = self.take()?.try_start().map_err(|error| drive_error(&error))?;
        Ok(self.pending(py, started))
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        awaited(slf.as_any())
    }
}

impl Request {
    pub(crate) fn take(&self) -> PyResult<headtime::IoRequest> {
        lock(&self.inner).take().ok_or_else(|| used_up("the request"))
    }

    fn pending(&self, py: Python<'_>, started: headtime::Pending) -> Pending {
        Pending {
            canceller: started.canceller(),
            inner: Mutex::new(Some(started)),
            _drive: self.drive.clone_ref(py),
        }
    }
}

#[pymethods]
impl Pending {
    /// Waits for the result, for `timeout` seconds at most. After a timeout the request is still in
    /// flight.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<IoDone> {
        let timeout = timeout.map(|timeout| seconds("timeout", timeout)).transpose()?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut pending = self.take()?;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let slice = left.map_or(SIGNAL_PERIOD, |left| left.min(SIGNAL_PERIOD));
            pending = match py.detach(|| pending.wait_timeout(slice)) {
                Ok(done) => return IoDone::of(done),
                Err(pending) => pending,
            };
            let over = left.is_some_and(|left| left <= slice);
            if let Err(error) = py.check_signals() {
                *lock(&self.inner) = Some(pending);
                return Err(error);
            }
            if over {
                *lock(&self.inner) = Some(pending);
                return Err(PyTimeoutError::new_err("the request is still in flight"));
            }
        }
    }

    /// Cancels the request, from any thread: its result is then a `CancelledError`. A request at
    /// the drive may still take effect.
    fn cancel(&self) {
        self.canceller.cancel();
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        awaited(slf.as_any())
    }
}

impl Pending {
    pub(crate) fn take(&self) -> PyResult<headtime::Pending> {
        let message = "the result of the request was taken already, or is waited for elsewhere";
        lock(&self.inner).take().ok_or_else(|| PyRuntimeError::new_err(message))
    }
}

#[pymethods]
impl Batch {
    /// Starts the batch and waits for all its results.
    fn wait(&self, py: Python<'_>) -> PyResult<BatchDone> {
        let done = wait_for(py, self.take()?)?;
        BatchDone::of(py, done)
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        awaited(slf.as_any())
    }
}

impl Batch {
    pub(crate) fn take(&self) -> PyResult<headtime::Batch> {
        lock(&self.inner).take().ok_or_else(|| used_up("the batch"))
    }
}

#[pymethods]
impl IoDone {
    /// The bytes of a read.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        let made = self.data.get_or_init(py, || PyBytes::new(py, self.done.data()).unbind());
        made.clone_ref(py)
    }

    /// Seconds from the start to the completion.
    #[getter]
    fn response_time(&self) -> f64 {
        self.done.response_time().as_secs_f64()
    }

    #[getter]
    fn queue_time(&self) -> f64 {
        self.done.queue_time().as_secs_f64()
    }

    #[getter]
    fn service_time(&self) -> f64 {
        self.done.service_time().as_secs_f64()
    }

    #[getter]
    fn disk_time(&self) -> f64 {
        self.done.disk_time().as_secs_f64()
    }

    #[getter]
    fn guaranteed(&self) -> bool {
        self.done.answer() == Some(Promise::Guaranteed)
    }

    #[getter]
    fn missed_deadline(&self) -> bool {
        self.done.missed_deadline()
    }

    fn __repr__(&self) -> String {
        let late = if self.done.missed_deadline() { ", late" } else { "" };
        let (bytes, time) = (self.done.data().len(), self.done.response_time());
        format!("<headtime.IoDone, {bytes} bytes, {time:.3?}{late}>")
    }
}

impl IoDone {
    fn plain(done: headtime::IoDone) -> Self {
        Self { done, data: PyOnceLock::new() }
    }

    pub(crate) fn of(done: Result<headtime::IoDone, Error>) -> PyResult<Self> {
        done.map(Self::plain).map_err(|error| drive_error(&error))
    }
}

#[pymethods]
impl BatchDone {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<IoDone> {
        let place = if index < 0 { index + self.0.len() as isize } else { index };
        let done = usize::try_from(place).ok().and_then(|place| self.0.iter().nth(place));
        let beyond = || pyo3::exceptions::PyIndexError::new_err("the batch has no such request");
        done.cloned().map(IoDone::plain).ok_or_else(beyond)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let done = self.0.iter().map(|done| Py::new(py, IoDone::plain(done.clone())));
        PyList::new(py, done.collect::<PyResult<Vec<_>>>()?)?.try_iter()
    }

    /// Seconds from the start of the batch to its last completion.
    #[getter]
    fn response_time(&self) -> f64 {
        self.0.response_time().as_secs_f64()
    }

    /// Seconds from the start of the batch to each completion, as a NumPy array.
    #[getter]
    fn response_times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let times = self.0.iter().map(|done| done.response_time().as_secs_f64());
        array(py, times)
    }

    #[getter]
    fn missed_deadlines(&self) -> usize {
        self.0.missed_deadlines()
    }
}

impl BatchDone {
    pub(crate) fn of(
        py: Python<'_>,
        done: Result<headtime::BatchDone, headtime::BatchError>,
    ) -> PyResult<Self> {
        let failed = match done {
            Ok(done) => return Ok(Self(done)),
            Err(failed) => failed,
        };
        let message = failed.to_string();
        let results = failed.results.into_iter().map(|result| match result {
            Ok(done) => Ok(Py::new(py, IoDone::plain(done))?.into_any()),
            Err(error) => Ok(drive_error(&error).into_value(py).into_any()),
        });
        let results = results.collect::<PyResult<Vec<_>>>()?;
        Err(batch_error(py, message, results))
    }
}

/// Numbers as a NumPy array.
fn array(py: Python<'_>, numbers: impl Iterator<Item = f64>) -> PyResult<Bound<'_, PyAny>> {
    let bytes: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
    py.import("numpy")?.call_method1("frombuffer", (PyBytes::new(py, &bytes), "<f8"))
}

/// The contents of `bytes` without a copy, of any other buffer by one.
fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let data = match data.cast::<PyBytes>() {
        Ok(data) => data.clone(),
        Err(_) => {
            let builtins = data.py().import("builtins")?;
            let view = builtins.call_method1("memoryview", (data,))?;
            view.call_method0("tobytes")?.cast_into::<PyBytes>()?
        }
    };
    Ok(Bytes::from_owner(PyBackedBytes::from(data)))
}

const A_TIME: &str = "seconds, a number from 0";
const A_NUMBER: &str = "a whole number from 0 to 4294967295";
const ANSWERS: &str = "\"refuse\" or \"best-effort\"";

/// The value of an option of a request.
fn option<'py, T>(name: &str, value: &Bound<'py, PyAny>, expected: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    value.extract().map_err(|_| {
        let shown = value.repr().map_or_else(|_| String::new(), |shown| shown.to_string());
        PyTypeError::new_err(format!("{name}={shown}: expected {expected}"))
    })
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{name}={value}: expected {A_TIME}")))
}

fn priority(text: &str) -> PyResult<IoPriority> {
    text.parse().map_err(|error: headtime::PriorityError| PyValueError::new_err(error.to_string()))
}

fn if_infeasible(text: &str) -> PyResult<IfInfeasible> {
    match text {
        "refuse" => Ok(IfInfeasible::Refuse),
        "best-effort" => Ok(IfInfeasible::BestEffort),
        _ => Err(PyValueError::new_err(format!(
            "guaranteed={text:?}: expected {ANSWERS}, what to do with a \
                request whose deadline cannot be guaranteed"
        ))),
    }
}

/// The coroutine that waits for a request in the running event loop.
fn awaited<'py>(request: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let module = request.py().import("headtime._asyncio")?;
    module.call_method1("run", (request,))?.call_method0("__await__")
}

/// Waits for a future without the GIL, and handles signals such as an interrupt.
fn wait_for<F>(py: Python<'_>, request: F) -> PyResult<F::Output>
where
    F: IntoFuture,
    F::IntoFuture: Send + 'static,
    F::Output: Send,
{
    let mut queue = headtime::CompletionQueue::new()?;
    queue.push((), request);
    loop {
        if let Some(((), done)) = py.detach(|| queue.next_timeout(SIGNAL_PERIOD)) {
            return Ok(done);
        }
        py.check_signals()?;
    }
}

/// The longest time until an interrupt is handled.
const SIGNAL_PERIOD: Duration = Duration::from_millis(100);

/// Every statement leaves a consistent state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
