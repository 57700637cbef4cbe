//! `headtime compare`: policies × drive models × drives × depths × workloads, run in parallel,
//! stored as they finish, and shown in one page.
//!
//! [`CompareSpec`] is the input as written and [`Plan`] its meaning. [`session`] computes the cells
//! that the directory ([`store`]) does not have, [`Comparison`] holds the results, and [`page`]
//! shows them. `docs/compare.md` defines the figures.

mod belief;
mod cell;
mod fingerprint;
mod observer;
mod outcome;
pub mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod plan;
mod progress;
mod references;
mod results;
pub mod session;
mod spec;
pub mod statistics;
pub mod store;
pub mod sweep;
mod table;

pub use belief::PlannedBelief;
pub use cell::{Cell, CellKind, Decisive};
pub use fingerprint::{build, build_of};
pub(crate) use outcome::rounded;
pub use outcome::{CellEnd, CellOutcome, CellStatus, EqualLoad, Figures, Half, StreamOutcome};
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use plan::{Case, LeftOut, Plan, PlannedDrive, PlannedPolicy, PlannedWorkload};
pub use references::{CellResult, EQUAL_LOAD, cells_at_equal_load};
pub use results::{CaseResult, CompareOutput, Comparison, Entry};
pub use spec::{CompareSpec, Located, quoted, split_names};
pub use table::{ALL_STREAMS, COLUMNS, CellValue, Column, ColumnKind, Line};
