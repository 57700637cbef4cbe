//! The real-time engine of one drive, and what it drives: an emulated drive, a file, a block
//! device, an NBD server. What an application embeds.
//!
//! A [`Drive`] is opened by its [`Locator`]. One thread owns its scheduler and its backend; any
//! number of [`DriveHandle`]s start [`Io`]s on it. What was started is a [`Pending`]: a future for
//! whatever executor, or something that a thread waits for. docs/embedding.md tells the whole
//! story; `examples/embed.rs` is a program.
//!
//! ```
//! use std::time::Duration;
//! use bytes::Bytes;
//! use headtime_io::{Drive, DriveOptions, Io, Locator};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("drive.img");
//! let locator: Locator = path.to_str().unwrap_or_default().parse()?;
//! let drive = Drive::open(&locator, DriveOptions { create_bytes: Some(1 << 20), ..DriveOptions::default() })?;
//! let handle = drive.handle();
//! let place = handle.extent_of_bytes(4096, 1024)?;
//! let data = Bytes::from(vec![7; 1024]);
//! let write = handle.start(Io::write(place, data.clone()).deadline(Duration::from_millis(100)))?;
//! let done = write.wait(); // or `write.await`
//! println!("{}", if done.missed_deadline() { "late" } else { "in time" });
//! done.result?;
//! handle.run(Io::flush()).result?;
//! assert_eq!(handle.run(Io::read(place)).result?, data);
//! assert!(drive.shutdown().is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Software that must survive power failures can be tried on a drive whose power is cut:
//! [`power_cut`].
//!
//! # What is kept when something dies
//! A write that was reported is in the page cache or on the device, so that killing the process
//! loses nothing. A crash of the machine loses writes that no completed flush covers and that were
//! not written with force unit access, as on any drive with a write cache; [`WriteMode::Durable`]
//! makes every write durable before it is reported.

mod backend;
mod believed;
mod bell;
mod buffer;
pub mod characterize;
mod clock;
mod drive;
mod engine;
pub mod files;
mod handle;
mod known_by;
mod lateness;
mod locator;
mod mailbox;
mod map_file;
mod open_error;
mod options;
mod pending;
mod request;
mod room;
mod scan;
mod sidecar;
mod slow;
mod snapshot;
mod sys;
mod tuning;
mod turns;

pub use backend::block_device::{
    BlockDevice, DeviceNumber, DeviceRefusal, DeviceReject, DeviceUser, SystemPaths, Zoned,
};
pub use backend::nbd::{Difference, NbdError};
pub use backend::power_cut;
pub use backend::raw::{
    KERNEL_KNOBS, KernelKnob, KernelKnobs, KnobOutcome, KnobReport, KnobRestored, RawOptions,
    RawWordError, StateError, WriteCache, block_device_at, plan_knobs, restore_knobs,
};
pub use believed::{
    BeliefChoice, BeliefWordError, Believed, BelievedBy, LoadMapError, Loaded, MapStart, NoMap,
    RunningMap,
};
pub use clock::RealClock;
pub use drive::Drive;
pub use engine::DrainReport;
pub use handle::{ChangeSharesError, DriveHandle};
pub use headtime_sim::DiskTime;
pub use known_by::KnownBy;
pub use lateness::LatenessSummary;
pub use locator::{
    EmulatedLocator, Locator, LocatorError, MemoryLocator, NbdLocator, ProfileSource,
    SimulatedLocator,
};
pub use map_file::{MapFileError, read_map, write_map};
pub use open_error::OpenError;
pub use options::{
    CommandTimeout, CommandTimeoutError, DriveOptions, EnginePriority, IoMethod, PolicyChoice,
    PolicyChoiceError, WriteMode,
};
pub use pending::{Pending, StartWhenRoom};
pub use request::{Io, IoDone, IoError, SubmitError, UnalignedBytes};
pub use scan::{MAX_HELD, ScanEvent, ScanFeed, ScanStart, WriteMarks};
pub use sidecar::SidecarError;
pub use slow::{MAX_KEPT, SlowRequest, TimeParts};
pub use snapshot::{
    DriveSnapshot, EmulationSnapshot, ErrorCounts, HungCounts, LinkSnapshot, LinkState,
};
pub use tuning::Tuning;
