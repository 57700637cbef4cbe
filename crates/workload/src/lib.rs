//! Workload generators and traces for disks, which read no clock and perform no I/O.
//!
//! A [`RequestSource`] returns arrivals that depend on no completion and, after each completion,
//! the next request of that client. [`Workload`] is the generator: any number of streams
//! ([`StreamConfig`]), each a closed or an open loop with its own operations, sizes, addresses and
//! deadlines. The same configuration and seed give the same requests on every machine.
//!
//! Streams are configured by [`StreamConfig`]s, by a TOML text ([`file`](mod@file)), or by a job
//! file of fio ([`fio`]); [`BUILTINS`] ship with the program, and [`drawn()`] draws others.
//! [`trace`] reads recordings.
//!
//! ```
//! use headtime_units::{SectorSize, Sectors};
//! use headtime_workload::{RequestSource, StreamConfig, Workload};
//!
//! let random_reads = StreamConfig::closed(16);
//! let capacity = Sectors::new(17_938_986);
//! let mut workload = Workload::new(&[random_reads], SectorSize::B512, capacity, 1)?;
//! let first = workload.arrival().expect("sixteen clients start at once");
//! assert_eq!(first.ask.extent.len, Sectors::new(8));
//! # Ok::<(), headtime_workload::WorkloadError>(())
//! ```
#![no_std]

extern crate alloc;

mod arrivals;
mod builtin;
mod cascade;
mod check;
mod config;
mod dice;
mod drawn;
mod error;
pub mod file;
pub mod fio;
mod generator;
mod limits;
mod mix;
mod open_loop;
mod order;
mod place;
mod process;
mod processes;
mod scatter;
mod sizes;
mod source;
mod stream;
pub mod trace;
mod zipf;

pub use arrivals::{Arrivals, Interarrival, Phase, ThinkTime};
pub use builtin::{BUILTINS, Builtin};
pub use config::{Alignment, StreamConfig};
pub use drawn::{DRAWN, drawn};
pub use error::{StreamFault, WorkloadError};
pub use generator::Workload;
pub use mix::Mix;
pub use open_loop::OpenLoop;
pub use order::Order;
pub use place::{AddressPattern, Chunks, Distance, HotSpot};
pub use process::{FileBenchmark, FileOperations, FilesRead, PageCache, Process};
pub use sizes::{SizeWeight, Sizes};
pub use source::{Arrival, ClientId, Operation, RequestSource, RequestSpec, SourceEvent};
