//! The experiments, one file each. A new one is a file here and a line in
//! [`EXPERIMENTS`](crate::papers::EXPERIMENTS).
//!
//! `a.*` are the limits of docs/limits.md, 1 to 5: what the mechanics allow, found with a prototype
//! simulator and measured again here. `p1.*` are the figures of the paper on latency maps, `p2.*`
//! those of the paper on freeblock scheduling outside of firmware, `p3.*` those of the paper on
//! cooperative anticipatory scheduling, `p4.*` those of the paper on CDS-SCAN, `p5.*` those of the
//! paper on virtual disks. `m.*` are targets of the project.

pub(crate) mod a_ageing;
pub(crate) mod a_cells;
pub(crate) mod a_depth;
pub(crate) mod a_errors;
pub(crate) mod a_greedy;
pub(crate) mod a_noise;
pub(crate) mod a_throughput;
mod limits;
pub(crate) mod m_auto;
pub(crate) mod m_streams;
mod p1;
pub(crate) mod p1_adapt;
pub(crate) mod p1_curve;
pub(crate) mod p1_exceed;
pub(crate) mod p1_f3;
pub(crate) mod p1_f5;
pub(crate) mod p1_f6;
pub(crate) mod p1_map;
pub(crate) mod p1_r;
pub(crate) mod p1_t2;
mod p1_unit;
mod p2;
pub(crate) mod p2_cpu;
pub(crate) mod p2_f6;
pub(crate) mod p2_f7;
pub(crate) mod p2_f8;
pub(crate) mod p2_f9;
mod p3;
pub(crate) mod p3_f5;
pub(crate) mod p3_t1;
pub(crate) mod p3_t2;
pub(crate) mod p3_t3;
pub(crate) mod p3_t4;
mod p4;
pub(crate) mod p4_f1;
pub(crate) mod p4_f3;
mod p5;
pub(crate) mod p5_f1;
pub(crate) mod p5_f11;
pub(crate) mod p5_f2;
pub(crate) mod p5_f4;
pub(crate) mod p5_f5;
pub(crate) mod p5_f7;
pub(crate) mod p5_isolation;
