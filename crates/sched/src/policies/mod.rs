//! The policies, one file each.
//!
//! A new policy takes three steps: a file here with the table entry and the code, a page in
//! `docs/policies/` that the file includes as its documentation, and a line in the list below.

mod elevator;
mod frozen;
mod pairs;
pub(crate) mod per_arm;
mod period;
mod stream_turns;
mod trials;
mod turns;
pub(crate) mod written;

use crate::table::PolicyEntry;

/// Declares the module of each policy and collects the table entries in the order of the list.
macro_rules! policies {
    ($($module:ident: [$($entry:ident),+],)+) => {
        $(pub mod $module;)+

        /// All policies, in the order of the documentation.
        pub const POLICIES: &[PolicyEntry] = &[$($($module::$entry),+),+];
    };
}

policies! {
    fcfs: [ENTRY],
    sstf: [ENTRY],
    clook: [ENTRY],
    edf: [ENTRY],
    sptf: [ENTRY, ORACLE_ENTRY],
    sptf_expected: [ENTRY],
    firmware: [ENTRY],
    headtime: [ENTRY],
    beam_oracle: [ENTRY],
    sptf_sw: [ENTRY],
    satf_lbn: [ENTRY],
    fsatf_lbn: [ENTRY],
    satf_map: [ENTRY],
    fsatf_map: [ENTRY, EXACT_ENTRY],
    g_matrix: [ENTRY],
    cds_scan: [ENTRY, DS_ENTRY],
    deadline: [ENTRY],
    cfq: [ENTRY],
    noop: [ENTRY],
    anticipatory: [ENTRY, COOPERATIVE_ENTRY],
    mq_deadline: [ENTRY],
    bfq: [ENTRY],
    kyber: [ENTRY],
    auto: [ENTRY],
    utilization: [ENTRY],
    throughput: [ENTRY],
}
