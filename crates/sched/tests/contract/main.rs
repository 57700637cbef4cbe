//! The contract of the scheduler, tested against every policy in the table.
//!
//! A tiny drive with exact mechanics (`tiny`, `drive`) serves the scheduler's commands in virtual
//! time. A model of its sectors with a volatile write cache (`model`) checks order, flushes and
//! durability after every event. `session` joins the three.

mod accounts;
mod arms;
mod background_writes;
mod cached;
mod cancellation;
mod deadlines;
mod drive;
mod durability;
mod exchange;
mod expected;
mod failures;
mod flush_turns;
mod gathered_writes;
mod golden;
mod guarantees;
mod head;
mod held_back;
mod linux;
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
mod switches;
mod thinking;
mod tiny;
mod urgent_deadlines;
