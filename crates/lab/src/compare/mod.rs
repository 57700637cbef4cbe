//! `headtime compare`: policies × beliefs × drives × depths × workloads, run side by side, kept as
//! they finish, and told in one page.
//!
//! [`Asked`] is what was written, [`Plan`] what it means, [`session`] computes what the folder
//! ([`store`]) does not have yet, [`Comparison`] is what came out, and [`page`] shows it.
//! `docs/compare.md` says what the figures mean.

mod asked;
mod belief;
mod cell;
mod chart;
mod fingerprint;
mod observer;
mod outcome;
pub mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod plan;
mod progress;
mod results;
pub mod session;
pub mod statistics;
pub mod store;
mod table;

pub use asked::{Asked, Placed, quoted, split_names};
pub use belief::PlannedBelief;
pub use cell::{Cell, Decisive};
pub use fingerprint::build;
pub use outcome::{Ended, Figures, Half, Outcome, Status, StreamFigures};
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use plan::{Case, LeftOut, Plan, PlannedDrive, PlannedPolicy, PlannedWorkload};
pub use results::{Answer, CaseResult, Comparison, Entry};
pub use table::{ALL_STREAMS, COLUMNS, Column, Kind, Line, Value};
