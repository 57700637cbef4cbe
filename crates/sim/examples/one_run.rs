//! Runs one closed loop of random 4 KiB reads on a drawn instance and prints its measures as JSON;
//! for `time`, `perf` and a first look.
//!
//! `cargo run --release -p headtime-sim --example one_run DRIVE POLICY CLIENTS REQUESTS`, such as
//! `atlas10k sptf-expected 64 1000000`

use std::sync::Arc;

use headtime_belief::DriveModel;
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{Experiment, Instance, run};
use headtime_workload::{StreamConfig, Workload};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [drive, policy, clients, requests] = arguments.as_slice() else {
        return Err("expected DRIVE POLICY CLIENTS REQUESTS".into());
    };
    let profile = Arc::new(catalog::load(drive)?);
    let (entry, parameters) = PolicyEntry::parse(policy)?;
    let source = Workload::new(
        &[StreamConfig::closed(clients.parse()?)],
        profile.sector_size()?,
        profile.capacity(),
        1,
    )?;
    let experiment = Experiment {
        parameters,
        instance: Instance::Drawn,
        requests: requests.parse()?,
        ..Experiment::new(profile, entry, 1)
    };
    let belief = |profile: &DriveProfile| {
        Box::new(DriveModel::of_profile(profile).expect("the profile is valid"))
            as Box<dyn Belief + Send>
    };
    println!("{}", serde_json::to_string(&run(&experiment, source, &belief)?)?);
    Ok(())
}
