//! The sans-IO scheduler of a rotating drive.
//!
//! One direction: a [`Request`] is submitted, waits in the [`Queue`], is chosen by a [`Policy`],
//! goes to the drive as a [`Command`], and its measured completion teaches the [`Belief`] and is
//! charged to its volume. The [`Scheduler`] is the mechanism around it; it reads no clock, performs
//! no I/O and never sees the truth of a simulated drive.
#![no_std]

extern crate alloc;

mod account;
mod arms;
mod background;
mod chain;
mod command;
mod destaging;
mod drive;
mod freeblock;
mod ids;
mod overlap;
pub mod policies;
mod policy;
mod positioning;
mod queue;
mod request;
mod room;
mod scheduler;
mod search;
mod shares;
mod sorted;
mod stalls;
mod streams;
mod table;
mod taken;
mod timed;
pub mod tour;
mod tunables;

pub use account::{Accounts, BackgroundAccount, ClassPromises, PromiseCounts, VolumeAccount};
pub use arms::Arms;
pub use background::{
    BackgroundRead, BackgroundWriteId, BackgroundWritten, FillReport, FillSource, MeasuredImpact,
    Pace, ScanId, ScanOptions, ScanPriority, ScanPriorityError, UnusedGap,
};
pub use command::{
    Cancelled, Command, CommandId, Decision, Done, Finished, HoldReason, Outcome, Waits,
};
pub use drive::{Commands, DriveTraits, Outstanding, PredictedService, QueueLimits};
pub use freeblock::{FillSettings, IdleSettings, PendingSectors, ReadAhead};
pub use policies::POLICIES;
pub use policies::auto::{
    AutoRow, AutoTable, AutoTableError, LoadFeatures, LoadMeter, PolicySwitch, SwitchCause,
    is_switchable,
};
pub use policy::{Choice, Policy, View};
pub use positioning::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MatrixUse, MeasuredAccess,
    Overhead, PairCost, Position, Positioning, Target, TrackMap, TrackSpan, likely_by_estimate,
    pair_by_estimate, pairs_one_by_one, passes_at_by_tracks, worst_service,
};
pub use queue::{Queue, Queued, Ticket};
pub use request::{
    Admission, ClassId, IfInfeasible, Op, Promise, Refusal, Request, RequestId, StreamId, VolumeId,
};
pub use scheduler::Scheduler;
pub use shares::{
    Charge, DriveCosts, Need, NeedError, ShareChange, ShareRefusal, ShareReport, Shares, Tenant,
    Terms,
};
pub use stalls::{STALL, StallCounts};
pub use table::{DEFAULT_POLICY, Parameter, Parameters, PolicyEntry, PolicyError};
pub use timed::{TimedRead, TimedReadDone, TimedSuccessor, TimedWait};
pub use tunables::{
    DeadlineTable, IoPriority, LatencyMatrixUse, PriorityClass, PriorityError, TUNABLES,
    TimeSource, Tunable, TunableError, Tunables,
};
