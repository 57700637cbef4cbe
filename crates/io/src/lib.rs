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
//! let options = DriveOptions { create_bytes: Some(1 << 20), ..DriveOptions::default() };
//! let drive = Drive::open(&locator, options)?;
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
//! # What is kept when something dies
//! A write that was reported is in the page cache or on the device, so that killing the process
//! loses nothing. A crash of the machine loses writes that no completed flush covers and that were
//! not written with force unit access, as on any drive with a write cache; [`WriteMode::Durable`]
//! makes every write durable before it is reported.

//! # Layers
//! Modules import downwards only; `tests/layers.rs` holds them to this order:
//!
//! 1. The machine and the vocabulary: `sys`, `clock`, `notifier`, `buffer`, [`files`], `locator`,
//!    `request`, `snapshot`.
//! 2. Block devices and their settings: `block_device`, `kernel_settings`, and the errors of NBD
//!    servers and backing files.
//! 3. Opening: `open_error`, `profile`, `map_file`, `shared_map`, `believed`, `options`.
//! 4. `backend`: the drives themselves. [`characterize`] uses them without an engine.
//! 5. `engine`: the scheduler and the backend of one drive, and the mailbox in front of them.
//! 6. `drive`: [`Drive`], [`DriveHandle`] and what a handle returns.
//!
//! # Features
//! - `simulation` (default): emulated and simulated drives.
//! - `characterize` (default): the module [`characterize`].

#![cfg_attr(
    not(all(feature = "simulation", feature = "characterize")),
    allow(dead_code, reason = "some parts of files and buffers serve one of these only")
)]

mod backend;
mod block_device;
mod buffer;
#[cfg(feature = "characterize")]
pub mod characterize;
mod clock;
mod drive;
mod drive_identity;
mod engine;
pub mod files;
mod kernel_settings;
mod lateness;
mod locator;
mod map_file;
mod model;
mod nbd_error;
mod new_files;
mod notifier;
mod open_error;
mod options;
mod power;
mod profile;
mod request;
mod service_parts;
mod shared_map;
mod shingling;
mod sidecar;
mod snapshot;
mod sync;
mod sys;
mod tuning;

pub use backend::inspect::{InspectedDrive, inspect_path};
pub use backend::raw::block_device_at;
pub use model::{
    LoadMapError, MapLoad, MapLoading, MapStart, ModelChoice, ModelInUse, ModelParseError,
    ModelSource, NoMap, RunningMap, check_model,
};
pub use profile::load as load_profile;
/// Drives that an application brings itself: implement [`Backend`](custom::Backend) and open it
/// with [`Drive::open_custom`].
pub mod custom {
    pub use crate::backend::{
        Backend, BackendCommand, BackendCompletion, EmulationCounts, OpenedDrive,
    };
    pub use crate::notifier::Notifier;
    pub use crate::power::PowerProbe;
    pub use crate::profile::ReportedModel;
}

pub use block_device::{
    BlockDevice, DeviceNumber, DeviceRefusal, DeviceReject, DeviceUser, SystemPaths, Zoned,
};
pub use clock::RealClock;
pub use drive::{
    ChangeSharesError, Drive, DriveHandle, Pending, ScanFeed, StartWhenRoom, TimedReads,
    TimedReadsError, UseProfileError,
};
pub use drive_identity::DriveIdentity;
pub use engine::DrainReport;
pub use engine::mailbox::OnDone;
pub use engine::recent::{MAX_RECENT, PlatterShape, RecentWork, ServedWork, TrackSample};
pub use engine::scan_queue::{MAX_HELD, ScanEvent, ScanStart, WriteMarks};
pub use engine::slow::{MAX_KEPT, SlowRequest, TimeParts};
pub use headtime_mechanics::DiskTime;
pub use kernel_settings::{
    KERNEL_KNOBS, KernelKnob, KernelKnobs, KernelWatch, KnobOutcome, KnobReport, KnobRestored,
    KnobStateError, RawOptions, RawWordError, WriteCache, plan_knobs, restore_knobs,
};
pub use lateness::LatenessSummary;
pub use locator::{
    ArrayLocator, ArraySchedule, ArrayTexts, EmulatedLocator, Locator, LocatorError, MemoryLocator,
    NbdLocator, ProfileSource, SimulatedLocator,
};
pub use map_file::{MapFileError, read_map, write_map};
pub use nbd_error::{Difference, NbdError};
pub use new_files::NewFiles;
pub use open_error::OpenError;
pub use options::{
    CommandTimeout, CommandTimeoutError, DriveAccess, DriveOptions, EnginePriority, IoMethod,
    PolicyChoice, PolicyChoiceError, WriteMode,
};
pub use power::PowerState;
pub use request::{Io, IoDone, IoError, SubmitError, UnalignedBytes};
pub use service_parts::ServiceParts;
pub use shared_map::{ExchangeMode, FileVersion, MapExchange, exchange_map};
pub use sidecar::SidecarError;
pub use snapshot::{
    DriveSnapshot, EmulationSnapshot, ErrorCounts, HungCounts, LinkSnapshot, LinkState,
};
pub use sys::release_free_memory;
pub use tuning::Tuning;
