//! Shares of disk time: the reservations and limits of volumes and their classes, and their state.
//!
//! The state is tracked by the [`Scheduler`](crate::Scheduler) whatever the policy; a policy
//! selects the next tenant by it ([`crate::policies::utilization`], `headtime`). Policies that do
//! not use shares do not pay for them. Source: P5 (Kaldewey and others, Virtualizing disk
//! performance), sections 2 and 3.

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
