//! The demo: one emulated drive, three volumes, the same load under several policies, side by side.
//!
//! [`Plan`] has the loads; [`session::run`] serves and loads a fresh drive under one policy and
//! returns the measurements.

mod plan;
pub mod session;

use headtime_io::{PolicyChoice, PolicyChoiceError};

pub use plan::Plan;

/// The policies that the demo compares unless others are named: arrival order, the default policy
/// with nothing but the recorder's deadline, and the default policy with reserved shares.
pub const DEFAULT_POLICIES: &str = "fcfs,headtime,headtime+shares";

/// The suffix of a policy under which the volumes have their reservations.
const SHARES_SUFFIX: &str = "+shares";

/// A policy of the demo.
#[derive(Clone, Debug)]
pub struct DemoPolicy {
    /// The policy as written, such as `headtime+shares`.
    pub text: String,
    /// The policy of the server.
    pub choice: PolicyChoice,
    /// The shares of the volumes.
    pub shares: DemoShares,
}

/// The shares of disk time of the demo's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemoShares {
    /// No volume has a reservation.
    None,
    /// Each volume has the reservation of its load.
    Reserved,
}

impl DemoPolicy {
    /// Parses a policy's name and parameters, with `+shares` at the end for a run with
    /// reservations.
    ///
    /// # Errors
    /// The text names no policy of a server.
    pub fn parse(text: &str) -> Result<Self, PolicyChoiceError> {
        let (policy, shares) = match text.strip_suffix(SHARES_SUFFIX) {
            Some(policy) => (policy, DemoShares::Reserved),
            None => (text, DemoShares::None),
        };
        Ok(Self { text: text.to_owned(), choice: PolicyChoice::parse(policy)?, shares })
    }
}
