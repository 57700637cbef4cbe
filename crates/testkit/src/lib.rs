//! Drives, simulations and scaffolding that the tests of several crates share.
//!
//! The crate is a development dependency only: nothing here is linked into the `headtime` program,
//! and a test (`crates/cli/tests/layering.rs`) refuses a crate that depends on it otherwise.
//!
//! Integration tests of any crate may use it. Unit tests inside `src` of a crate that testkit
//! itself imports cannot share types with it, because they are compiled against a second copy of
//! that crate.

pub mod swarm;
