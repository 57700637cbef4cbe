//! The sans-IO scheduler of a rotating drive.
//!
//! One direction: a [`Request`] is submitted, waits in the [`Queue`], is chosen by a [`Policy`], goes to the drive as a [`Command`], and its
//! measured completion teaches the [`Belief`] and is charged to its volume. The [`Scheduler`] is the mechanism around it; it reads no
//! clock, performs no I/O and never sees the truth of a simulated drive.
#![no_std]

extern crate alloc;

mod account;
mod command;
mod drive;
mod ids;
mod overlap;
pub mod policies;
mod policy;
mod positioning;
mod queue;
mod request;
mod scheduler;
mod search;
mod sorted;
mod table;

pub use account::{Accounts, VolumeAccount};
pub use command::{Cancelled, Command, CommandId, Decision, Done, Finished, HoldReason, Outcome};
pub use drive::{DriveTraits, Limits, Outstanding};
pub use policy::{Choice, Policy, View};
pub use positioning::{Belief, BeliefReport, Estimate, Head, Likely, Measured, Place, Positioning, Target};
pub use queue::{Queue, Queued, Ticket};
pub use request::{Admission, Op, Refusal, Request, RequestId, StreamId, VolumeId};
pub use scheduler::Scheduler;
pub use table::{DEFAULT_POLICY, POLICIES, Parameter, Parameters, PolicyEntry, PolicyError};
