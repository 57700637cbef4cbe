//! The verbs of the program, one file each: its arguments and what it does.

#[cfg(feature = "characterize")]
pub(crate) mod characterize;
pub(crate) mod check_config;
pub(crate) mod control;
pub(crate) mod devices;
#[cfg(feature = "simulation")]
pub(crate) mod emulate;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod map;
pub(crate) mod policies;
pub(crate) mod profile;
pub(crate) mod profiles;
pub(crate) mod reload;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod volume;
