//! Load on served volumes: its description ([`VolumeLoad`]) and two generators, fio and a built-in
//! one.
//!
//! Both send requests of the same sizes, mix, depth and rate over NBD sockets. They differ in two
//! points: fio draws its own offsets, and a paced fio job counts the response time from the
//! submission of a request, the built-in generator from the time at which it was due.

mod builtin;
mod fio;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use headtime_nbd::uri::NbdUri;
use headtime_units::{ByteSize, Nanos, Share};

pub use fio::job_file;

use crate::report::{ClientFigures, LoadSource};

/// The load on one volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeLoad {
    /// The volume's name, which is also that of fio's job.
    pub volume: &'static str,
    /// The volume's size.
    pub size: ByteSize,
    /// The volume's deadline, if it has one.
    pub deadline: Option<Nanos>,
    /// The share of disk time that the volume reserves in a run with shares.
    pub reserve: Share,
    /// True if the requests are sequential, false if they are random.
    pub pattern: Pattern,
    /// Share of reads among the requests, 0 to 1; the rest are writes.
    pub reads: f64,
    /// Bytes of each request.
    pub block: ByteSize,
    /// Outstanding requests: exactly this number without a rate, at most this number with one.
    pub in_flight: usize,
    /// Bytes per second regardless of the drive (open loop); with `None` each completion starts the
    /// next request (closed loop).
    pub rate: Option<ByteSize>,
}

/// The addresses of a load's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other from the start of the volume.
    Sequential,
    /// Anywhere in the volume, evenly.
    Random,
}

impl VolumeLoad {
    /// A one-line description: `random 8 KiB, 70 % reads, 32 at once`.
    pub fn describe(&self) -> String {
        let pattern = match self.pattern {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
        };
        let kind = match self.reads {
            1.0 => "reads".to_string(),
            0.0 => "writes".to_string(),
            share => format!("requests, {:.0} % reads", share * 100.0),
        };
        let pace = match self.rate {
            Some(rate) => format!("at a steady {:.1} MiB/s", rate.get() as f64 / MIB),
            None => format!("{} at once", self.in_flight),
        };
        format!("{pattern} {} KiB {kind}, {pace}", self.block.get() / 1024)
    }
}

const MIB: f64 = 1_048_576.0;

/// The generator of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generator {
    /// fio with its nbd engine.
    Fio {
        /// fio's version.
        version: String,
    },
    /// The program itself.
    BuiltIn {
        /// The reason for not using fio.
        reason: String,
    },
}

impl Generator {
    /// fio where it is installed and can speak NBD, otherwise the built-in generator with the
    /// reason.
    pub fn find() -> Self {
        fio::find().map_or_else(|reason| Self::BuiltIn { reason }, |version| Self::Fio { version })
    }

    /// The name in the report.
    pub fn source(&self) -> LoadSource {
        match self {
            Self::Fio { version } => {
                LoadSource { name: "fio".to_string(), version: version.clone(), reason: None }
            }
            Self::BuiltIn { reason } => LoadSource {
                name: "the built-in generator".to_string(),
                version: env!("CARGO_PKG_VERSION").to_string(),
                reason: Some(reason.clone()),
            },
        }
    }

    /// Starts `loads`, each on the export of its volume at `server`, for `duration`; files of its
    /// own go into `folder`.
    ///
    /// # Errors
    /// When fio cannot be started or a volume cannot be reached.
    pub fn start(
        &self,
        loads: &[VolumeLoad],
        server: &NbdUri,
        duration: Duration,
        seed: u64,
        folder: &Path,
    ) -> anyhow::Result<Running> {
        let targets: Vec<(VolumeLoad, NbdUri)> = loads
            .iter()
            .map(|load| {
                (
                    load.clone(),
                    NbdUri { address: server.address.clone(), export: load.volume.to_string() },
                )
            })
            .collect();
        match self {
            Self::Fio { .. } => fio::Fio::start(&targets, duration, seed, folder)
                .map(Running::Fio)
                .context("the load cannot be started"),
            Self::BuiltIn { .. } => builtin::BuiltIn::start(&targets, duration, seed)
                .map(Running::BuiltIn)
                .context("the load cannot be started"),
        }
    }
}

/// A load under way. Dropping it stops it.
pub enum Running {
    /// fio.
    Fio(fio::Fio),
    /// The built-in generator.
    BuiltIn(builtin::BuiltIn),
}

impl Running {
    /// Returns true if the load has ended by itself.
    ///
    /// # Errors
    /// When the state of fio cannot be read.
    pub fn is_over(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Fio(fio) => fio.is_over(),
            Self::BuiltIn(builtin) => Ok(builtin.is_over()),
        }
    }

    /// Ends the load if it is still running and returns the measurements of each volume's client,
    /// in the order of the loads; `None` for a client that was stopped too early.
    ///
    /// # Errors
    /// When a client failed, with its message.
    pub fn finish(self) -> anyhow::Result<Vec<Option<ClientFigures>>> {
        match self {
            Self::Fio(fio) => fio.finish(),
            Self::BuiltIn(builtin) => builtin.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_describes_itself() {
        let load = VolumeLoad {
            volume: "database",
            size: ByteSize::new(1 << 40),
            deadline: None,
            reserve: Share::NONE,
            pattern: Pattern::Random,
            reads: 0.7,
            block: ByteSize::new(8_192),
            in_flight: 32,
            rate: None,
        };
        assert_eq!(load.describe(), "random 8 KiB requests, 70 % reads, 32 at once");
        let recorder = VolumeLoad {
            pattern: Pattern::Sequential,
            reads: 0.0,
            block: ByteSize::new(1 << 20),
            rate: Some(ByteSize::new(20 << 20)),
            ..load
        };
        assert_eq!(recorder.describe(), "sequential 1024 KiB writes, at a steady 20.0 MiB/s");
    }
}
