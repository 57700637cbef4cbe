//! The verbs of the program, one file each: its arguments and what it does.

pub mod characterize;
pub mod check_config;
pub mod compare;
pub mod control;
pub mod demo;
pub mod devices;
pub mod emulate;
pub mod explain;
pub mod get;
pub mod map;
pub mod papers;
pub mod plan;
pub mod policies;
pub mod profile;
pub mod profiles;
pub mod reload;
pub mod scan;
pub mod serve;
pub mod set;
pub mod sim;
pub mod status;
pub mod top;
pub mod trace;
pub mod validate;
pub mod volume;
pub mod workload;
