//! Characterising a rotating drive from outside: by timed reads alone, without a clock, a file or a thread.
//!
//! A [`Probe`] asks for reads and is told when they were issued and when they completed; in the end it has a
//! [`DriveProfile`](headtime_mechanics::DriveProfile), a self-check of it, and remarks on what it could not find. It never writes.
//!
//! The experiments, in their order: does it turn and how fast (`rotation`); tracks, their rhythm, zones, what is stepped over (`layout`); skews zone by zone; bus
//! and zero latency (`overhead`); the arm (`seek`); predictions of fresh reads (`selfcheck`). Between them the clock (`clock`) is kept by a sector that is read
//! again and again.
//!
//! *How straight-line experiments run on a machine that may not wait* is in `session`: each is run again over the answers it has got until it needs one more.
//! The alternative, a hand-written machine for each experiment, would spread loops like a bisection over states, and make saving and resuming a matter of each
//! of them; running again makes the list of answers the state, at the price of computing things more than once, which between two reads of a disk is no time.
//!
//! ```
//! use headtime_probe::{Ask, Outcome, Probe, Settings};
//! use headtime_units::{Instant, Nanos, SectorSize, Sectors};
//!
//! // A device that answers everything in 80 us turns nothing.
//! let mut probe = Probe::new(Settings::for_drive(Sectors::new(1 << 30), SectorSize::B512, 1));
//! let mut now = Instant::ORIGIN;
//! while let Ask::Read { not_before, .. } = probe.ask() {
//!     let issued = now.max(not_before);
//!     now = issued + Nanos::from_us(80);
//!     probe.completed(issued, now, Outcome::Read);
//! }
//! let finding = probe.finding()?;
//! assert!(finding.profile.is_none() && finding.remarks[0].contains("no rotating drive"));
//! # Ok::<(), headtime_mechanics::ProfileError>(())
//! ```

mod ask;
mod clock;
mod draw;
mod finding;
mod geometry;
mod knowledge;
mod layout;
mod numbers;
mod overhead;
mod probe;
mod rotation;
mod seek;
mod selfcheck;
mod session;

pub use ask::{Answer, Ask, Outcome};
pub use finding::{Check, Figure, Finding};
pub use probe::{Probe, ResumedStage, Settings, Stage};
