//! Simulations and workloads, and the tables of policies and profiles.

use clap::{Args, Command};
use headtime_console::Failure;
use headtime_lab::commands::sim::{SimArguments, simulate_observed};
use headtime_lab::commands::workload::{listed, text_of};
use headtime_lab::workloads::WorkloadChoice;
use headtime_mechanics::catalog::CATALOG;
use headtime_sched::{Finished, POLICIES};
use headtime_sim::EngineObserver;
use headtime_units::Instant;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::command_error;

/// Runs `headtime sim` with these flags. Returns its JSON, and one record for each request that
/// finished, as `headtime._lab` reads it.
#[pyfunction]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    flags: Vec<String>,
) -> PyResult<(String, Bound<'py, PyBytes>)> {
    let mut records = Records::default();
    let output = py.detach(|| {
        let arguments: SimArguments = parse("headtime sim", &flags)?;
        let output = simulate_observed(&arguments, &mut records)?;
        serde_json::to_string(&output).map_err(|error| Failure::Failed(error.into()))
    });
    let output = output.map_err(|failure| command_error(&failure))?;
    Ok((output, PyBytes::new(py, &records.0)))
}

/// The requests of a run in the order of their completion, 56 bytes each, little-endian.
#[derive(Default)]
struct Records(Vec<u8>);

impl EngineObserver for Records {
    fn finished(&mut self, _now: Instant, finished: &Finished) {
        let Finished { request, submitted, dispatched, finished, disk_time, .. } = finished;
        let extent = request.extent;
        for number in [
            submitted.as_ns(),
            dispatched.as_ns(),
            finished.as_ns(),
            disk_time.as_ns(),
            extent.start.get(),
        ] {
            self.0.extend(number.to_le_bytes());
        }
        // A request has fewer sectors than 2^32.
        let sectors = extent.len.get() as u32;
        for number in [sectors, request.op as u32, request.stream.0, request.volume.0] {
            self.0.extend(number.to_le_bytes());
        }
    }
}

/// The arguments of a command from its flags.
pub(crate) fn parse<A: Args>(command: &'static str, flags: &[String]) -> Result<A, Failure> {
    let command = A::augment_args(Command::new(command).no_binary_name(true));
    let matches = command.try_get_matches_from(flags);
    matches.and_then(|matches| A::from_arg_matches(&matches)).map_err(|error| {
        // The advice that follows the first paragraph is for a command line.
        let text = error.to_string();
        let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        Failure::usage(anyhow::anyhow!("{first}"))
    })
}

/// The workloads that ship, as JSON.
#[pyfunction]
pub(crate) fn workloads() -> PyResult<String> {
    serde_json::to_string(&listed()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// A workload as TOML.
#[pyfunction]
pub(crate) fn workload(py: Python<'_>, name: &str) -> PyResult<String> {
    let choice = py.detach(|| WorkloadChoice::parse(name));
    Ok(text_of(&choice.map_err(|failure| command_error(&failure))?))
}

/// The policies: name, summary, and true for an oracle.
#[pyfunction]
pub(crate) fn policies() -> Vec<(&'static str, &'static str, bool)> {
    POLICIES.iter().map(|entry| (entry.name, entry.summary, entry.oracle)).collect()
}

/// The names of the drive profiles that ship.
#[pyfunction]
pub(crate) fn profiles() -> Vec<&'static str> {
    CATALOG.iter().map(|entry| entry.name).collect()
}
