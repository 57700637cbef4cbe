//! The policies, one file each. A new one is a file here, a page in `docs/policies/` and a line in
//! [`POLICIES`](crate::POLICIES).
//!
//! `frozen`, `pairs`, `period` and `turns` are no policies but what several share.

pub mod beam_oracle;
pub mod cfq;
pub mod clook;
pub mod deadline;
pub mod edf;
pub mod fcfs;
pub mod firmware;
mod frozen;
pub mod fsatf_lbn;
pub mod fsatf_map;
pub mod g_matrix;
pub mod headtime;
mod pairs;
mod period;
pub mod satf_lbn;
pub mod satf_map;
pub mod sptf;
pub mod sptf_expected;
pub mod sptf_sw;
pub mod sstf;
pub mod throughput;
mod turns;
pub mod utilization;
