//! The simulated drive, and virtual time around the scheduler.
//!
//! [`run`] runs an [`Experiment`] with a source of requests and returns [`Measures`]. Its parts can
//! be used alone: [`DriveTruth`] is one instance of a drive model, drawn by seed;
//! [`SimulatedDrive`] serves commands as that drive would, in virtual or in real time; [`Engine`]
//! runs a scheduler, a drive and a source together; [`validate`](mod@validate) replays the
//! recording of a real drive.
//!
//! Only this crate and a few others may name the truth of a simulated drive; no scheduling code
//! does. A scheduler gets a drive model made from the profile. A policy marked *oracle* gets
//! [`OraclePositioning`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use headtime_mechanics::catalog;
//! use headtime_sched::PolicyEntry;
//! use headtime_sim::{Experiment, run};
//! use headtime_workload::{StreamConfig, Workload};
//! # use headtime_sim::{DriveTruth, OraclePositioning};
//! # use headtime_mechanics::DriveProfile;
//! # fn nominal(profile: &DriveProfile) -> Box<dyn headtime_sched::Belief + Send> {
//! #     let truth = DriveTruth::nominal(profile, 1).expect("valid");
//! #     Box::new(OraclePositioning::new(&truth).expect("valid"))
//! # }
//!
//! let profile = Arc::new(catalog::load("atlas10k")?);
//! let streams = [StreamConfig::closed(16)];
//! let workload = Workload::new(&streams, profile.sector_size()?, profile.capacity(), 1)?;
//! let policy = PolicyEntry::find("sptf-oracle")?;
//! let experiment = Experiment { requests: 1_000, ..Experiment::new(profile, policy, 1) };
//! // The last argument makes the drive model of a policy that is no oracle.
//! let measures = run(&experiment, workload, &nominal)?;
//! assert!(measures.iops > 150.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array;
mod confidence;
mod device;
mod disk_time;
mod divided;
mod drive;
mod engine;
mod experiment;
mod measures;
mod oracle;
mod scan_measures;
mod shingled;
mod stream_measures;
mod times;
mod truth;
pub mod validate;

pub use array::{ArrayOptions, Raid0};
pub use confidence::BatchMeans;
pub use device::{Breakdown, Device, DriveCompletion};
pub use drive::{Landing, SimulatedDrive, StorageLayer};
pub use engine::{ETIMEDOUT, Engine, EngineError, EngineObserver, SchedulerApi, StepOutcome};
pub use experiment::{
    ArrayMembers, BackgroundScan, BeliefMaker, Experiment, Instance, ObservedRun, RunError, run,
    run_observed, run_with_belief,
};
pub use headtime_mechanics::DiskTime;
pub use measures::{Confidence, Distribution, Measures, Meter};
pub use oracle::OraclePositioning;
pub use scan_measures::{ScanMeasures, ScanPoint};
pub use shingled::ShingledDrive;
pub use stream_measures::{StreamFigures, StreamMeasures};
pub use truth::{DriveTruth, InstanceVariation, Noise, NoiseSource, SpindleDrift};
