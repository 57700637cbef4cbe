//! Background tasks over the sectors of a drive, sans-IO: scrubbing, a table of digests, or a
//! backup, from sectors that come in any order.
//!
//! A [`Scan`] covers a range of sectors once. The caller reads what is [missing](Scan::missing)
//! when the drive has time, in any order and pieces, and [delivers](Scan::deliver) each piece with
//! its bytes or the drive's error. Data to be written comes out as [`Output`]s. When they are safe,
//! the caller [keeps](Scan::keep) the piece, so that the saved progress never claims too much.
//! [`Scan::encode`] and [`Scan::decode`] carry the state over a restart.
//!
//! ```
//! use headtime_tasks::{Scan, ReadSource, ScanSubject, TaskKind};
//! use headtime_units::{Extent, SectorSize};
//!
//! let subject = ScanSubject {
//!     drive: [7; 16],
//!     target: "vol0".into(),
//!     extent: Extent::from_numbers(2048, 4096),
//!     sector_size: SectorSize::B512,
//! };
//! let mut scan = Scan::start(subject, TaskKind::Scrub, 4096);
//! let mut out = Vec::new();
//! let missing: Vec<Extent> = scan.missing().collect();
//! for extent in missing.into_iter().rev() {
//!     let bytes = vec![0; extent.len.get() as usize * 512];
//!     scan.deliver(extent, Ok(&bytes), false, ReadSource::Idle, &mut out);
//!     scan.keep();
//! }
//! assert!(scan.is_complete() && out.is_empty());
//! ```
//!
//! # Memory
//! A bit for each grain of 4 to 64 KiB (at most 2 MiB for drives up to 1 TiB, and 2 MiB for each
//! further TiB); incomplete grains up to [`MAX_PARTIAL`]; and for tasks with digests 19 bytes for
//! each MiB. Nothing depends on the order of sectors.

mod backup;
mod bitmap;
mod codec;
mod digests;
mod ranges;
pub mod record;
mod scan;
mod state;
mod subject;
mod task;

pub use backup::BackupForm;
pub use digests::DigestReport;
pub use ranges::Ranges;
pub use scan::{MAX_PARTIAL, Output, ReadSource, Scan};
pub use state::{LoadedScan, ScanStateError};
pub use subject::ScanSubject;
pub use task::{Piece, TASKS, Task, TaskEntry, TaskKind, TaskSettings, UnknownTask};
