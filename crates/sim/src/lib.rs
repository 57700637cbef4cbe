//! The simulated drive, and virtual time around the scheduler.
//!
//! [`run`] takes an [`Experiment`] and a source of requests and answers [`Measures`]. Its parts
//! stand alone: [`DriveTruth`] is one unit of a model of drive, drawn by seed; [`SimulatedDrive`]
//! serves commands as that unit would, in virtual or in real time; [`Engine`] runs a scheduler, a drive and a source together;
//! [`validate`](mod@validate) replays what a real drive was recorded to do.
//!
//! The wall between truth and belief: the truth is named in this crate and nowhere that schedules.
//! A scheduler is given a belief made from the profile, unless its policy is marked *oracle*; then
//! it is given [`OraclePositioning`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use headtime_mechanics::catalog;
//! use headtime_sched::PolicyEntry;
//! use headtime_sim::{Experiment, run};
//! use headtime_workload::{StreamConfig, Workload};
//! # use headtime_sim::{DriveTruth, OraclePositioning};
//! # fn nominal(profile: &headtime_mechanics::DriveProfile) -> Box<dyn headtime_sched::Belief + Send> {
//! #     Box::new(OraclePositioning::new(&DriveTruth::nominal(profile, 1).expect("valid")).expect("valid"))
//! # }
//!
//! let profile = Arc::new(catalog::load("atlas10k")?);
//! let workload = Workload::new(&[StreamConfig::closed(16)], profile.sector_size()?, profile.capacity(), 1)?;
//! let experiment = Experiment { requests: 1_000, ..Experiment::new(profile, PolicyEntry::find("sptf-oracle")?, 1) };
//! // The last argument makes the belief of a policy that is no oracle, such as headtime-belief's from the profile.
//! let measures = run(&experiment, workload, &nominal)?;
//! assert!(measures.iops > 150.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array;
mod confidence;
mod device;
mod disk_time;
mod drive;
mod engine;
mod experiment;
mod measures;
mod oracle;
mod scan_measures;
mod stream_measures;
mod times;
mod truth;
pub mod validate;

pub use array::{ArrayOptions, Raid0};
pub use confidence::BatchMeans;
pub use device::{Breakdown, Device, DriveCompletion};
pub use disk_time::DiskTime;
pub use drive::{Landing, SimulatedDrive, StorageLayer};
pub use engine::{ETIMEDOUT, Engine, EngineError, EngineObserver, SchedulerApi, StepOutcome};
pub use experiment::{
    BackgroundScan, BeliefMaker, Experiment, Instance, ObservedRun, RunError, run, run_observed,
    run_with_belief,
};
pub use measures::{Confidence, Distribution, Measures, Meter};
pub use oracle::OraclePositioning;
pub use scan_measures::{ScanMeasures, ScanPoint};
pub use stream_measures::{StreamFigures, StreamMeasures};
pub use truth::{DriveTruth, InstanceVariation, Noise, SpindleDrift};
