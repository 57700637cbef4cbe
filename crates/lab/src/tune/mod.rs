//! The table of the policy `auto`: the loads it is measured with, the measurement, and runs of
//! loads one after the other.

mod bench;
mod loads;
mod measure;
mod phases;

pub(crate) use bench::{Bench, BenchRun, PhasePlan, SETTLING};
pub(crate) use loads::{load, loads};
pub(crate) use measure::{progress, table};

/// The policies that a table is measured for: the default one, and those that Linux users know.
pub(crate) const POLICIES: [&str; 12] = [
    "headtime",
    "deadline",
    "cfq",
    "noop",
    "as",
    "cas",
    "mq-deadline",
    "bfq",
    "kyber",
    "firmware",
    "sptf-expected",
    "clook",
];
