//! Shares of disk time: what volumes and their classes are promised, what they may not exceed, and
//! the books that say where they stand.
//!
//! The books are mechanism and kept by the [`Scheduler`](crate::Scheduler) whatever the policy; who
//! goes next by them is a policy's business ([`crate::policies::utilization`], `headtime`).
//! Policies that say nothing of shares do not keep them. Source: P5 (Kaldewey and others,
//! Virtualizing disk performance), sections 2 and 3.

mod bucket;
mod gate;
mod need;
mod tenants;
mod terms;
mod usage;

pub use need::{DriveCosts, Need, NeedError};
pub use tenants::{Charge, ShareReport, Shares};
pub(crate) use tenants::{FlushTurns, TenantState, Took};
pub use terms::{ShareChange, ShareRefusal, Tenant, Terms};
