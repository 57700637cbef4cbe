//! Prints the table of docs/limits.md for the shipped profiles: random 4 KiB reads in a closed loop, requests a second, nominal units without noise.
//!
//! `cargo run --release -p headtime-sim --example limits_table [REQUESTS]`

use std::sync::Arc;

use headtime_mechanics::catalog;
use headtime_sched::PolicyEntry;
use headtime_sim::{Experiment, Measures, OraclePositioning, run};
use headtime_workload::{StreamConfig, Workload};

fn main() {
    let requests = std::env::args().nth(1).map_or(20_000, |text| text.parse().expect("the number of requests is a number"));
    for drive in ["atlas10k", "nearline-20tb"] {
        println!("{drive}");
        for (policy, outstanding) in [("fcfs", 1), ("fcfs", 2), ("clook", 2), ("sstf", 2), ("sptf-oracle", 1), ("sptf-oracle", 2), ("firmware", 256)]
        {
            print!("  {policy:12} {outstanding:3} outstanding:");
            for clients in [1, 2, 4, 8, 16, 64, 256] {
                let measures = measure(drive, policy, outstanding, clients, requests);
                print!(" {:4}: {:6.1} ±{:3.1}", clients, measures.iops, measures.confidence.iops.unwrap_or(f64::NAN));
            }
            println!();
        }
    }
}

fn measure(drive: &str, policy: &str, outstanding: usize, clients: u32, requests: u64) -> Measures {
    let mut profile = catalog::load(drive).expect("the profile ships");
    // "Firmware" in the table is a queue that takes everything.
    profile.firmware.queue_depth = 256;
    let profile = Arc::new(profile);
    let sector = profile.sector_size().expect("the profile ships");
    let source = Workload::new(&[StreamConfig::closed(clients)], sector, profile.capacity(), 1).expect("4 KiB reads suit the drive");
    let policy = PolicyEntry::find(policy).expect("a policy of the table");
    let mut experiment = Experiment { outstanding: Some(outstanding), requests, warm_up: requests / 10, ..Experiment::new(profile, policy, 1) };
    if policy.name == "firmware" {
        experiment.parameters = PolicyEntry::parse("firmware:depth=256").expect("within bounds").1;
    }
    let truth = headtime_sim::DriveTruth::nominal(&experiment.profile, experiment.seed).expect("the profile ships");
    // No policy here but the oracle looks at times; addresses and cylinders are the same for every belief.
    let belief = |_: &_| Box::new(OraclePositioning::new(&truth).expect("the profile ships")) as Box<_>;
    run(&experiment, source, &belief).expect("a closed loop is always served")
}
