//! The commands that study scheduling, one file each: its arguments and what it does.

pub mod compare;
pub mod demo;
pub mod map;
pub mod papers;
pub mod plan;
pub mod profile_import;
pub mod sim;
pub mod trace;
pub mod tune;
pub mod validate;
pub mod workload;
