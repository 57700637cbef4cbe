//! The experiments, one file each. A new one is a file here and a line in
//! [`EXPERIMENTS`](crate::papers::EXPERIMENTS).
//!
//! `a.*` are the limits of docs/limits.md, 1 to 5: what the mechanics allow, found with a prototype
//! simulator and measured again here. `p1.*` are the figures of the paper on latency maps, `p2.*`
//! those of the paper on freeblock scheduling outside of firmware, `p3.*` those of the paper on
//! cooperative anticipatory scheduling, `p4.*` those of the paper on CDS-SCAN, `p5.*` those of the
//! paper on virtual disks. `m.*` are targets of the project.

pub mod a_ageing;
pub mod a_cells;
pub mod a_depth;
pub mod a_errors;
pub mod a_greedy;
pub mod a_noise;
pub mod a_throughput;
mod limits;
pub mod m_auto;
pub mod m_streams;
mod p1;
pub mod p1_adapt;
pub mod p1_curve;
pub mod p1_exceed;
pub mod p1_f3;
pub mod p1_f5;
pub mod p1_f6;
pub mod p1_map;
pub mod p1_r;
pub mod p1_t2;
mod p1_unit;
mod p2;
pub mod p2_cpu;
pub mod p2_f6;
pub mod p2_f7;
pub mod p2_f8;
pub mod p2_f9;
mod p3;
pub mod p3_f5;
pub mod p3_t1;
pub mod p3_t2;
pub mod p3_t3;
pub mod p3_t4;
mod p4;
pub mod p4_f1;
pub mod p4_f3;
mod p5;
pub mod p5_f1;
pub mod p5_f11;
pub mod p5_f2;
pub mod p5_f4;
pub mod p5_f5;
pub mod p5_f7;
pub mod p5_isolation;
