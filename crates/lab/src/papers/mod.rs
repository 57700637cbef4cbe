//! Experiments that reproduce published figures, and the frame that runs, compares and draws them.
//!
//! An [`PaperExperiment`] is one file in `experiments/` and one line of [`EXPERIMENTS`]. It is
//! handed a [`Context`] (seed, scale, threads, progress) and answers [`Findings`]: rows that stand
//! beside what was published, and a plot. The frame makes a [`Report`] of them and [`output`]
//! writes it as SVG, CSV, JSON and HTML. Same seed and scale, same bytes, however many threads.
//!
//! ```
//! use headtime_lab::papers::{Context, Silent, select};
//!
//! let [experiment] = select(&["a.depth"])?[..] else { unreachable!("one was asked for") };
//! let report = experiment.run(&Context::new(1, 0.01, 2, &Silent))?;
//! assert!(report.rows.iter().all(|row| row.holds() == Some(true) || row.reason.is_some()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod characterized;
mod context;
mod error;
mod estimated;
mod estimators;
mod experiments;
mod load;
pub mod output;
mod proportion;
mod report;
mod table;
mod verdict;

pub use context::{Context, PointOfWork, Progress, Silent};
pub use error::{Cause, ExperimentError, SelectError, WriteError};
pub use estimated::Estimated;
pub use proportion::clopper_pearson;
pub use report::{
    Axis, Findings, FixedParameter, Panel, Plot, Point, Published, Report, Row, Series,
};
pub use table::{EXPERIMENTS, PaperExperiment, select};
pub use verdict::{Judged, Measured, RowVerdict};
