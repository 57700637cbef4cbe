//! `headtime compare`: policies × beliefs × drives × depths × workloads, run side by side, kept as
//! they finish, and told in one page.
//!
//! [`CompareSpec`] is what was written, [`Plan`] what it means, [`session`] computes what the folder
//! ([`store`]) does not have yet, [`Comparison`] is what came out, and [`page`] shows it.
//! `docs/compare.md` says what the figures mean.

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
mod spec;
pub mod statistics;
pub mod store;
mod table;

pub use belief::PlannedBelief;
pub use cell::{Cell, Decisive};
pub use fingerprint::build;
pub use outcome::{CellEnd, CellOutcome, CellStatus, Figures, Half, StreamOutcome};
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use plan::{Case, LeftOut, Plan, PlannedDrive, PlannedPolicy, PlannedWorkload};
pub use results::{CaseResult, CompareOutput, Comparison, Entry};
pub use spec::{CompareSpec, Located, quoted, split_names};
pub use table::{ALL_STREAMS, COLUMNS, CellValue, Column, ColumnKind, Line};
