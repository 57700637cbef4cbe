//! The laboratory of the `headtime` program: the commands that study scheduling in simulation, and
//! what they are made of.
//!
//! Each command is one file of [`commands`]. A build of the program without the feature `lab` has
//! none of this crate and none of its dependencies.

mod beliefs;
pub mod commands;
pub mod compare;
pub mod demo;
pub mod load;
pub mod papers;
pub mod report;
pub mod traces;
pub mod workloads;
