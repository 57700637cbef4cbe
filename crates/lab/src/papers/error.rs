//! Errors of choosing, running and writing an experiment.

use std::path::PathBuf;

use headtime_belief::compact::CompactError;
use headtime_mechanics::ProfileError;
use headtime_sched::{PolicyError, ShareRefusal};
use headtime_sim::RunError;
use headtime_workload::WorkloadError;

/// The error of one point of an experiment. All of these are faults of the experiment: it takes
/// nothing from outside but a seed and a scale.
#[derive(Debug, thiserror::Error)]
#[error("{point} cannot be run: {cause}")]
pub struct ExperimentError {
    /// The point.
    pub point: String,
    /// The cause; in a box, because it is large and rare.
    #[source]
    pub cause: Box<Cause>,
}

/// Why a point did not run.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The drive.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The streams' shares.
    #[error(transparent)]
    Shares(#[from] ShareRefusal),
    /// The run itself.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A compact map of the drive.
    #[error(transparent)]
    Map(#[from] CompactError),
    /// Characterizing the drive came to nothing.
    #[error("characterizing the drive found no profile of it: {remarks}")]
    NotUnderstood {
        /// The message.
        remarks: String,
    },
    /// A run of a comparison.
    #[error("{0}")]
    Comparison(String),
    /// A load of `headtime tune`, or the table made of it.
    #[error("{0}")]
    Load(String),
    /// A point that only tests have.
    #[cfg(test)]
    #[error("it was meant to fail")]
    Meant,
}

/// Why a text names no experiment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum SelectError {
    /// No experiment of that name.
    #[error(
        "there is no experiment `{requested}`; did you mean {nearest}? Known are {known}, patterns \
            such as 'a.*', and all"
    )]
    Unknown { requested: String, nearest: &'static str, known: String },
    /// A pattern that no id fits.
    #[error("no experiment fits `{requested}`; known are {known}")]
    NoneFits { requested: String, known: String },
}

/// Why results were not written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum WriteError {
    /// The folder cannot be made.
    #[error("cannot make the folder {}; choose another with --out", folder.display())]
    Folder {
        folder: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Nothing can be written in the folder.
    #[error("cannot write {}; choose another folder with --out", path.display())]
    File {
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A result cannot be put into its form.
    #[error("{id}: the {form} cannot be made: {cause}")]
    Form { id: &'static str, form: &'static str, cause: String },
}

impl ExperimentError {
    /// The point called `point` failed by `cause`.
    pub fn new(point: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { point: point.into(), cause: Box::new(cause.into()) }
    }
}
