//! Characterizing a drive in real time, or a simulated one in virtual time: what stands between a
//! [`Probe`](headtime_probe::Probe), which knows no clock and no file, and a drive.
//!
//! A [`ProbedDrive`] is a drive opened for it: read-only unless rewriting was allowed, past the
//! page cache, without a scheduler in front. [`ProbedDrive::characterize`] does what the probe asks
//! for and stamps each order where it leaves this program and where its end is seen; nothing but
//! the system's own call lies between. It runs on the caller's thread, which it puts before others
//! where the system permits; give it one of its own.
//!
//! ```
//! use std::ops::ControlFlow;
//! use headtime_io::characterize::{ProbedDrive, SubjectOptions};
//! use headtime_io::Locator;
//! use headtime_probe::Probe;
//!
//! let locator = Locator::parse("simulated:deskstar34gxp@nocache")?;
//! let mut subject = ProbedDrive::open(&locator, &SubjectOptions::default())?;
//! let mut probe = Probe::new(subject.settings(1));
//! // Here it is stopped after 100 reads; without that it ends by itself.
//! let mut reads = 0;
//! subject.characterize(&mut probe, &mut |_, _| {
//!     reads += 1;
//!     if reads < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
//! })?;
//! assert_eq!(reads, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *What a write does*: only when [`SubjectOptions::allow_writes`] is set, and only with the bytes
//! that were read from the same sectors just before.

mod annotated;
mod backend_edge;
mod beside;
mod device;
mod edge;
mod export_edge;
mod open;
mod run;
mod state;
#[cfg(feature = "simulation")]
mod virtual_time;

use headtime_probe::ProbeSettings;
use headtime_units::{Nanos, SectorSize, Sectors};

use crate::block_device::DeviceRefusal;
use crate::kernel_settings::KnobGuard;
use crate::kernel_settings::RawOptions;
use crate::open_error::OpenError;
use crate::options::{CommandTimeout, EnginePriority};
use edge::Edge;

pub use annotated::{annotated, check_line, clock, uncertainty};
pub use beside::{BesideDrive, BesideProgress, ModelComparison, characterize_beside};
pub use run::{Ended, RunCounts};
pub use state::{State, StateFileError};

/// The options for characterizing a drive.
#[derive(Clone, Debug, Default)]
pub struct SubjectOptions {
    /// Runs an emulated drive in virtual time: its times are the model's, there is no waiting, and
    /// its backing file is not used. A simulated drive always does so.
    pub virtual_time: bool,
    /// Also measures a block device that is mounted or otherwise in use, without claiming it and
    /// without changing kernel settings.
    pub in_use: bool,
    /// Permits rewriting sectors with their own content.
    pub allow_writes: bool,
    /// The time limit of a command.
    pub command_timeout: CommandTimeout,
    /// The scheduling class of the measuring thread.
    pub priority: EnginePriority,
    /// The kernel settings of a block device that is not in use.
    pub raw: RawOptions,
}

/// A drive opened to be characterized.
pub struct ProbedDrive {
    edge: Box<dyn Edge>,
    identity: Identity,
    notices: Vec<String>,
    allow_writes: bool,
    /// The drive can make a single write durable.
    fua: bool,
    /// The maximum number of commands at once.
    depth: u32,
    time_limit: Option<Nanos>,
    priority: EnginePriority,
    next_token: u64,
    /// Restores the kernel settings. Dropped after the edge, which holds the device.
    _knobs: Option<KnobGuard>,
}

/// The identity that a drive reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its model, or what stands for it.
    pub model: Option<String>,
    /// Its serial number, or a substitute.
    pub serial: Option<String>,
    /// Its size.
    pub capacity: Sectors,
    /// The size of a logical sector.
    pub sector_size: SectorSize,
}

/// The reason why a drive cannot be characterized completely.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// It could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Others use it, and `in_use` is not set.
    #[error(
        "{drive}: {refusal}. A characterization only reads, but requests of others disturb the \
            measured times; to characterize it nevertheless, add --in-use"
    )]
    InUse {
        /// The drive.
        drive: String,
        /// Its users.
        refusal: DeviceRefusal,
    },
    /// Others use it, and writes are allowed.
    #[error(
        "{drive}: {refusal}. Sectors of a device in use are not rewritten, because they could \
            change between the read and the write; leave --allow-writes out"
    )]
    WritesInUse {
        /// The drive.
        drive: String,
        /// Its users.
        refusal: DeviceRefusal,
    },
    /// An array has no mechanics of its own.
    #[error(
        "{drive}: an array is not characterized; characterize each of its members, and schedule \
            the array by their profile (--profile)"
    )]
    Array {
        /// The array.
        drive: String,
    },
    /// Virtual time for a drive that has none.
    #[error(
        "{drive}: --virtual needs an emulated or simulated drive; leave it out, or name such a \
            drive"
    )]
    NoVirtualTime {
        /// The drive.
        drive: String,
    },
    /// The drive is gone.
    #[error("{why}")]
    Gone {
        /// The cause and the remedy.
        why: String,
    },
    /// The drive does not answer a command.
    #[error(
        "the drive has not answered {what} within {limit}; {why}. See the system log, then \
            continue with --resume"
    )]
    Hangs {
        /// The command.
        what: String,
        /// The exceeded limit.
        limit: Nanos,
        /// The reason why it could not be recovered.
        why: String,
    },
}

impl ProbedDrive {
    /// The drive's identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Notices for the user, as sentences.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns true if its time is real. A characterization then takes at least its drive time.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.edge.is_real()
    }

    /// The usual settings of a probe of this drive.
    #[must_use]
    pub fn settings(&self, seed: u64) -> ProbeSettings {
        let Identity { capacity, sector_size, .. } = self.identity;
        ProbeSettings {
            allow_writes: self.allow_writes,
            max_outstanding: self.depth,
            ..ProbeSettings::for_drive(capacity, sector_size, seed)
        }
    }
}

impl Identity {
    /// Model and serial number, in one line.
    #[must_use]
    pub fn name(&self) -> String {
        let words =
            [Some(self.model.as_deref().unwrap_or("unknown model")), self.serial.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ").replace(['\n', '\r'], " ")
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, {} sectors of {} bytes",
            self.name(),
            self.capacity.get(),
            self.sector_size.bytes()
        )
    }
}
