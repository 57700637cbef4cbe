//! The verbs of the program, one file each: its arguments and what it does.

#[cfg(feature = "characterize")]
pub mod characterize;
pub mod check_config;
pub mod control;
pub mod devices;
#[cfg(feature = "simulation")]
pub mod emulate;
pub mod explain;
pub mod get;
pub mod map;
pub mod policies;
pub mod profile;
pub mod profiles;
pub mod reload;
pub mod scan;
pub mod serve;
pub mod set;
pub mod status;
pub mod top;
pub mod volume;
