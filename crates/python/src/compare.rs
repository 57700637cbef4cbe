//! Comparisons whose cells Python runs, in processes or on other machines.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use headtime_console::Failure;
use headtime_lab::commands::compare::{CompareArguments, spec, summary, write};
use headtime_lab::compare::store::Store;
use headtime_lab::compare::{Plan, build_of, sweep};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::drive::lock;
use crate::errors::command_error;
use crate::simulate::parse;

/// A comparison, its folder, and the cells that are missing.
#[pyclass(frozen, module = "headtime._native")]
pub(crate) struct Sweep(Mutex<Option<sweep::Sweep>>);

#[pymethods]
impl Sweep {
    /// The flags are those of `headtime compare`; `library` is the file of this module.
    #[new]
    fn new(py: Python<'_>, flags: Vec<String>, library: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| {
            let arguments: CompareArguments = parse("headtime compare", &flags)?;
            let plan = Plan::new(spec(&arguments)?)?;
            let store = Store::open(&arguments.out, build(&library)?)?;
            Ok(sweep::Sweep::new(plan, store))
        });
        let opened = opened.map_err(|failure: Failure| command_error(&failure))?;
        Ok(Self(Mutex::new(Some(opened))))
    }

    /// The jobs that are missing; ask again when all are kept, until there are none.
    fn jobs(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.with(sweep::Sweep::jobs))
    }

    /// Stores an answer; returns why a cell could not be run.
    fn keep(&self, py: Python<'_>, answer: &str) -> PyResult<Option<String>> {
        py.detach(|| self.with(|sweep| sweep.keep(answer)))
    }

    /// Cells with results, and all cells of this stage.
    fn progress(&self) -> PyResult<(usize, usize)> {
        self.with(|sweep| Ok(sweep.progress()))
    }

    /// Writes the tables and the page. Returns the page, the table for people, and `results.json`.
    fn finish(&self, py: Python<'_>) -> PyResult<(PathBuf, String, String)> {
        let sweep = lock(&self.0).take().ok_or_else(finished)?;
        let written = py.detach(|| {
            let (comparison, store) = sweep.finish()?;
            let page = write(&comparison, &store)?;
            Ok((page, summary(&comparison), comparison.json()?))
        });
        written.map_err(|failure: Failure| command_error(&failure))
    }
}

impl Sweep {
    fn with<T>(&self, act: impl FnOnce(&mut sweep::Sweep) -> anyhow::Result<T>) -> PyResult<T> {
        let mut sweep = lock(&self.0);
        let sweep = sweep.as_mut().ok_or_else(finished)?;
        act(sweep).map_err(|error| command_error(&Failure::Failed(error)))
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the comparison is finished")
}

/// Runs one job of a comparison; returns its answer. The plan is kept for the next job.
#[pyfunction]
pub(crate) fn run_job(
    py: Python<'_>,
    flags: Vec<String>,
    library: PathBuf,
    job: &str,
) -> PyResult<String> {
    let answer = py.detach(|| {
        let run = |on: &Prepared| sweep::run_job(&on.plan, &on.build, job);
        let kept = prepared(&flags, &library, None)?;
        // A file that the plan names may have changed since the last job.
        run(&kept).or_else(|_| Ok(run(&*prepared(&flags, &library, Some(&kept))?)?))
    });
    answer.map_err(|failure: Failure| command_error(&failure))
}

/// The last plan that this process has worked on.
struct Prepared {
    flags: Vec<String>,
    plan: Plan,
    build: String,
}

static PREPARED: Mutex<Option<Arc<Prepared>>> = Mutex::new(None);

/// The plan of these flags: the last one, or a new one if that was `refused`.
fn prepared(
    flags: &[String],
    library: &std::path::Path,
    refused: Option<&Arc<Prepared>>,
) -> Result<Arc<Prepared>, Failure> {
    let mut last = lock(&PREPARED);
    let is_refused = |last| refused.is_some_and(|refused| Arc::ptr_eq(last, refused));
    if let Some(last) = last.as_ref().filter(|last| last.flags == flags && !is_refused(last)) {
        return Ok(Arc::clone(last));
    }
    let arguments: CompareArguments = parse("headtime compare", flags)?;
    let (plan, build) = (Plan::new(spec(&arguments)?)?, build(library)?);
    let made = Arc::new(Prepared { flags: flags.to_vec(), plan, build });
    *last = Some(Arc::clone(&made));
    Ok(made)
}

fn build(library: &std::path::Path) -> anyhow::Result<String> {
    build_of(library).with_context(|| format!("{} cannot be read", library.display()))
}
