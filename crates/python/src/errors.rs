//! Errors as exceptions of `headtime._errors`.

use headtime_console::Failure;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception of an error of a drive, with its kind, drive, offset, length and cause.
pub(crate) fn drive_error(error: &headtime::Error) -> PyErr {
    Python::attach(|py| {
        let arguments = (
            error.kind().name(),
            error.to_string(),
            error.errno(),
            error.drive(),
            error.offset(),
            error.length(),
            error.cause(),
        );
        exception(py, "of_drive", arguments)
    })
}

/// The exception of a failed batch, with the results of all its requests.
pub(crate) fn batch_error(py: Python<'_>, message: String, results: Vec<Py<PyAny>>) -> PyErr {
    exception(py, "BatchError", (message, results))
}

/// The exception of a failed command: `ValueError` for invalid arguments.
pub(crate) fn command_error(failure: &Failure) -> PyErr {
    Python::attach(|py| match failure {
        Failure::Usage(_) => exception(py, "UsageError", (failure.message(),)),
        _ => exception(py, "CommandError", (failure.message(),)),
    })
}

fn exception<'py, A>(py: Python<'py>, name: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let made =
        py.import("headtime._errors").and_then(|module| module.call_method1(name, arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The exception of an object that was used up, such as a request that was started.
pub(crate) fn used_up(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("{what} was started already; make another one"))
}
