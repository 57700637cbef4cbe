//! Characterization of a rotating drive from outside, by timed reads alone. Needs no clock, file or
//! thread.
//!
//! A [`Probe`] requests commands and gets the times of their issue and completion. At the end it
//! has a [`DriveProfile`](headtime_mechanics::DriveProfile), a self-check of it, a verdict, and
//! remarks on what it could not find. It writes only if that is allowed, and then only what it has
//! just read.
//!
//! The experiments, in order ([`Stage`]): rotation and its period (`rotation`); tracks, the pattern
//! of their angles, zones and skipped sectors (`layout`); skews zone by zone; bus and zero latency
//! (`overhead`); the cache (`cache`); the arm (`seek`); write settle and write-back, if allowed
//! (`writes`); the drive's own queue (`queue`); predictions of fresh reads (`selfcheck`); remapped
//! sectors among those that came late (`remaps`). Each returns a result of its own (`results`).
//! Between them, a few reference sectors are read again and again to keep the clock (`clock`).
//!
//! *How straight-line experiments run in a machine that must not wait*: see `session`. Each is
//! replayed over its results until it needs one more. A hand-written state machine for each
//! experiment would spread loops like a bisection over states, and each would need its own saving
//! and resuming. With replay, the list of results is the state; the repeated computation takes
//! little time beside a read of a disk.
//!
//! *Bounds*: the whole by [`ProbeSettings::budget`], each stage by its share of it.
//! [`Finding::remarks`] reports what was cut short, sampled or assumed. *Faults*: failed reads are
//! tried elsewhere; if a drive vanishes or is replaced by one with another period, the
//! characterization ends with that verdict.
//!
//! ```
//! use headtime_probe::{CommandOutcome, Probe, ProbeSettings, Verdict};
//! use headtime_units::{Instant, Nanos, SectorSize, Sectors};
//!
//! // A device that answers everything in 80 us, one command at a time, does not rotate.
//! let settings = ProbeSettings::for_drive(Sectors::new(1 << 30), SectorSize::B512, 1);
//! let mut probe = Probe::new(settings);
//! let mut now = Instant::ORIGIN;
//! while let Some(mut batch) = probe.next_batch() {
//!     now = now.max(batch.not_before());
//!     while let Some(command) = batch.next(now) {
//!         now += Nanos::from_us(80);
//!         batch.completed(command.id, now, CommandOutcome::Done);
//!     }
//!     probe.batch_completed(batch.into_results());
//! }
//! let finding = probe.finding();
//! assert!(finding.profile.is_none());
//! assert!(matches!(finding.verdict, Verdict::NoRotatingDrive { .. }));
//! println!("{}", finding.verdict.sentence());
//! ```

mod arms;
#[cfg(test)]
#[path = "../tests/unit/bench.rs"]
mod bench;
mod cache;
mod cache_model;
mod clock;
mod command_batch;
mod curve;
mod figures;
mod finding;
mod geometry;
mod layout;
mod measurement;
mod min_time;
mod numbers;
mod overhead;
mod predict;
mod probe;
mod profile;
mod queue;
mod random;
mod remaps;
mod results;
mod rotation;
mod save;
mod seek;
mod selfcheck;
mod session;
mod stage;
mod surfaces;
mod verdict;
mod writes;

pub use command_batch::{BatchCommand, CommandBatch, CommandKind};
pub use finding::{Deviation, Figure, Finding, PredictionErrors, RemappedSector, SelfCheck};
pub use measurement::{
    CommandOutcome, ConcurrentReads, Lane, Measurement, NextRead, Rewrite, TimedCommand,
};
pub use probe::{Probe, ProbeSettings};
pub use queue::{QueueBehavior, ServiceOrder};
pub use save::LoadError;
pub use session::DriveSharing;
pub use stage::{ResumedStage, Stage};
pub use verdict::Verdict;
