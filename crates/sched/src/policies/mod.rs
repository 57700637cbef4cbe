//! The policies, one file each. A new one is a file here, a page in `docs/policies/` and a line in [`POLICIES`](crate::POLICIES).

pub mod beam_oracle;
pub mod clook;
pub mod edf;
pub mod fcfs;
pub mod firmware;
pub mod headtime;
pub mod sptf;
pub mod sptf_expected;
pub mod sptf_sw;
pub mod sstf;
