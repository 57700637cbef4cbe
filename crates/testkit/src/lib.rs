//! Drives, simulations and scaffolding that the tests of several crates share.
//!
//! The crate is a development dependency only: nothing here is linked into the `headtime` program,
//! and a test (`crates/tidy/tests/layering.rs`) refuses a crate that depends on it otherwise.
//!
//! Integration tests of any crate may use it. Unit tests inside `src` of a crate that testkit
//! itself imports cannot share types with it, because they are compiled against a second copy of
//! that crate.

pub mod drives;
pub mod faults;
pub mod loop_device;
pub mod merge_runs;
pub mod nbdkit;
pub mod power_cut;
pub mod programs;

use headtime_mechanics::{Mechanism, Variation};
use headtime_units::Nanos;

/// More than any positioning of the mechanism takes: the longest arm time with settle, and one
/// revolution.
pub fn worst_positioning<V: Variation>(mechanism: &Mechanism<V>) -> Nanos {
    let seek = mechanism.seek_curve().longest() + mechanism.variation().seek_residual_bound();
    // The period in nanoseconds may have been rounded down.
    let revolution = mechanism.period().as_nanos() + Nanos::from_ns(1);
    seek.max(mechanism.head_switch()) + mechanism.write_settle() + revolution
}
