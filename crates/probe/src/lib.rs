//! Characterizing a rotating drive from outside: by timed reads alone, without a clock, a file or a
//! thread.
//!
//! A [`Probe`] asks for commands and is told when they were issued and when they completed; in the
//! end it has a [`DriveProfile`](headtime_mechanics::DriveProfile), a self-check of it, a verdict,
//! and remarks on what it could not find. It writes only where that is allowed, and then only what
//! it has read just before.
//!
//! The experiments, in their order ([`Stage`]): does it turn and how fast (`rotation`); tracks,
//! their rhythm, zones, what is stepped over (`layout`); skews zone by zone; bus and zero latency
//! (`overhead`); the cache (`cache`); the arm (`seek`); write settle and write-back, if allowed
//! (`writes`); the drive's own queue (`queue`); predictions of fresh reads (`selfcheck`); remapped
//! sectors among those that came late (`remaps`). Between them the clock (`clock`) is kept by
//! sectors that are read again and again.
//!
//! *How straight-line experiments run on a machine that may not wait* is in `session`: each is run
//! again over the answers it has got until it needs one more. The alternative, a hand-written
//! machine for each experiment, would spread loops like a bisection over states, and make saving
//! and resuming a matter of each of them; running again makes the list of answers the state, at the
//! price of computing things more than once, which between two reads of a disk is no time.
//!
//! *What is bounded*: the whole by [`ProbeSettings::budget`], each stage by its share of it; what was
//! cut short, sampled or taken for granted stands in [`Finding::remarks`]. *What goes wrong*:
//! failed reads are tried elsewhere; a drive that vanishes, or is replaced by one that turns
//! otherwise, ends it with a verdict of that.
//!
//! ```
//! use headtime_probe::{CommandOutcome, Probe, ProbeSettings, Verdict};
//! use headtime_units::{Instant, Nanos, SectorSize, Sectors};
//!
//! // A device that answers everything in 80 us, one command at a time, turns nothing.
//! let mut probe = Probe::new(ProbeSettings::for_drive(Sectors::new(1 << 30), SectorSize::B512, 1));
//! let mut now = Instant::ORIGIN;
//! while let Some(mut errand) = probe.next_batch() {
//!     now = now.max(errand.not_before());
//!     while let Some(command) = errand.next(now) {
//!         now += Nanos::from_us(80);
//!         errand.completed(command.id, now, CommandOutcome::Done);
//!     }
//!     probe.batch_completed(errand.into_results());
//! }
//! let finding = probe.finding();
//! assert!(finding.profile.is_none() && matches!(finding.verdict, Verdict::NoRotatingDrive { .. }));
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
mod verdict;
mod writes;

pub use command_batch::{BatchCommand, CommandBatch, CommandKind};
pub use finding::{Figure, Finding, PredictionErrors, RemappedSector, SelfCheck};
pub use measurement::{CommandOutcome, ConcurrentReads, Lane, Measurement, Rewrite, TimedCommand};
pub use probe::{Probe, ProbeSettings};
pub use queue::{QueueBehavior, ServiceOrder};
pub use save::LoadError;
pub use stage::{ResumedStage, Stage};
pub use verdict::Verdict;
