//! The control socket of a running server.

use std::path::PathBuf;
use std::sync::Mutex;

use headtime_io::Locator;
use headtime_serve::control::{ControlClient, ControlError, ErrorReplyKind, VERBS};
use headtime_serve::default_control_socket;
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::drive::lock;

/// A connection to the control socket of a server. Requests and answers are JSON.
#[pyclass(frozen, subclass, module = "headtime._native")]
pub(crate) struct Server {
    client: Mutex<ControlClient>,
    #[pyo3(get)]
    path: PathBuf,
}

/// The verbs of the control channel, and what each does.
#[pyfunction]
pub(crate) fn verbs() -> Vec<(&'static str, &'static str)> {
    VERBS.iter().map(|verb| (verb.name, verb.summary)).collect()
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (drive = None, *, control = None))]
    fn new(py: Python<'_>, drive: Option<&str>, control: Option<PathBuf>) -> PyResult<Self> {
        let path = match (drive, control) {
            (None, Some(path)) => path,
            (Some(drive), None) => {
                let locator = Locator::parse(drive);
                let locator = locator.map_err(|error| PyValueError::new_err(error.to_string()))?;
                default_control_socket(&locator).ok_or_else(|| {
                    let message = "has no default control socket; name it with control=PATH";
                    PyValueError::new_err(format!("{drive} {message}"))
                })?
            }
            _ => {
                return Err(PyValueError::new_err(
                    "which server? Name its drive, or its control socket with control=PATH",
                ));
            }
        };
        let client = py.detach(|| ControlClient::connect(&path)).map_err(|error| of(&error))?;
        Ok(Self { client: Mutex::new(client), path })
    }

    /// Sends a verb with its arguments as JSON; returns the answer as JSON.
    fn call_json(&self, py: Python<'_>, verb: &str, arguments: &str) -> PyResult<String> {
        let arguments = serde_json::from_str(arguments)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let answer = py.detach(|| lock(&self.client).ask(verb, arguments));
        Ok(answer.map_err(|error| of(&error))?.to_string())
    }
}

fn of(error: &ControlError) -> PyErr {
    let message = error.to_string();
    match error {
        ControlError::ErrorReply(reply) if reply.kind == ErrorReplyKind::BadRequest => {
            PyValueError::new_err(message)
        }
        ControlError::ErrorReply(_) => PyRuntimeError::new_err(message),
        _ => PyConnectionError::new_err(message),
    }
}
