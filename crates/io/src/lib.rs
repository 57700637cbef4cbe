//! The real-time engine of one drive, and what it drives: an emulated drive, or a file. What an application embeds.
//!
//! A [`Drive`] is opened by its [`Locator`]. One thread owns its scheduler and its backend; any number of [`DriveHandle`]s submit [`Io`] to it and are
//! called back when it is over.
//!
//! ```
//! use bytes::Bytes;
//! use headtime_io::{Drive, DriveOptions, Io, Locator};
//! use headtime_units::Extent;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("drive.img");
//! let locator: Locator = path.to_str().unwrap_or_default().parse()?;
//! let drive = Drive::open(&locator, DriveOptions { create_bytes: Some(1 << 20), ..DriveOptions::default() })?;
//! let handle = drive.handle();
//! let (extent, written) = (Extent::from_numbers(8, 2), Bytes::from(vec![7; 1024]));
//! handle.run(Io::write(extent, written.clone())).result?;
//! assert_eq!(handle.run(Io::read(extent)).result?, written);
//! assert!(drive.shutdown().is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is kept when something dies
//! A write that was reported is in the page cache or on the device, so that killing the process loses nothing. A crash of the machine loses writes that no
//! completed flush covers and that were not written with force unit access, as on any drive with a write cache; [`WriteMode::Durable`] makes
//! every write durable before it is reported.

mod backend;
mod bell;
mod buffer;
mod clock;
mod drive;
mod engine;
mod handle;
mod lateness;
mod locator;
mod mailbox;
mod open_error;
mod options;
mod request;
mod sidecar;
mod snapshot;
mod sys;

pub use clock::RealClock;
pub use drive::Drive;
pub use engine::DrainReport;
pub use handle::DriveHandle;
pub use headtime_sim::DiskTime;
pub use lateness::LatenessSummary;
pub use locator::{EmulatedLocator, Locator, LocatorError, MemoryLocator, ProfileSource};
pub use open_error::OpenError;
pub use options::{DriveOptions, EnginePriority, IoMethod, PolicyChoice, PolicyChoiceError, WriteMode};
pub use request::{Io, IoDone, IoError, SubmitError};
pub use sidecar::SidecarError;
pub use snapshot::{DriveSnapshot, EmulationSnapshot, ErrorCounts};
