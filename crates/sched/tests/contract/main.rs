//! The scheduler's contract, held against every policy in the table.
//!
//! A tiny drive with exact mechanics (`tiny`, `drive`) serves what the scheduler sends in virtual
//! time; a model of its sectors with a volatile write cache (`model`) says after every event
//! whether order, flushes and durability still mean what they should. `session` joins the three.

mod accounts;
mod cancellation;
mod deadlines;
mod drive;
mod durability;
mod exchange;
mod expected;
mod failures;
mod flush_turns;
mod golden;
mod head;
mod held_back;
mod matrix;
mod merging;
mod model;
mod orders;
mod random;
mod refusals;
mod scan_failures;
mod scan_matrix;
mod scans;
mod session;
mod share_changes;
mod shares;
mod tiny;
mod urgent_deadlines;
