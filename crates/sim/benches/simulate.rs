//! Simulated requests per second on one core: a request's whole path, from the workload through
//! scheduler and simulated drive to the measures.
//!
//! Random 4 KiB reads in a closed loop on a nominal drive; each row names policy, requests queued,
//! and drive. Policies that estimate nothing appear twice: with the usual drive model (which learns
//! from each completion), and with one of distances only.
//!
//! `cargo bench -p headtime-sim --bench simulate`; the goals are 3 M/s for FCFS and 0.7 M/s for
//! SPTF with 32 queued.

#![allow(missing_docs, reason = "the macros make public items without a word")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headtime_belief::{DriveModel, LinearBelief};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{Experiment, run};
use headtime_workload::{StreamConfig, Workload};

/// Requests of one run; making drive, layout and belief takes about as long as a thousand.
const REQUESTS: u64 = 50_000;

/// Drive, policy, clients, and whether the belief knows the profile.
const ROWS: &[(&str, &str, u32, Knows)] = &[
    ("atlas10k", "fcfs", 1, Knows::Profile),
    ("atlas10k", "fcfs", 16, Knows::Profile),
    ("atlas10k", "fcfs", 1, Knows::Distance),
    ("atlas10k", "fcfs", 16, Knows::Distance),
    ("nearline-20tb", "fcfs", 16, Knows::Profile),
    ("atlas10k", "sptf", 32, Knows::Profile),
    ("nearline-20tb", "sptf", 32, Knows::Profile),
    ("atlas10k", "sptf-oracle", 32, Knows::Profile),
    ("atlas10k", "headtime", 32, Knows::Profile),
    ("atlas10k", "firmware:depth=32", 32, Knows::Profile),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Knows {
    Profile,
    Distance,
}

fn simulate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulate");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    for (drive, policy, clients, knows) in ROWS {
        let profile = Arc::new(catalog::load(drive).expect("the profile ships"));
        let (entry, parameters) = PolicyEntry::parse(policy).expect("a policy of the table");
        let experiment = Experiment {
            parameters,
            warm_up: 0,
            requests: REQUESTS,
            ..Experiment::new(Arc::clone(&profile), entry, 1)
        };
        let sector = profile.sector_size().expect("the profile ships");
        let workload =
            Workload::new(&[StreamConfig::closed(*clients)], sector, profile.capacity(), 1)
                .expect("4 KiB reads suit every drive");
        let belief = |profile: &DriveProfile| -> Box<dyn Belief + Send> {
            match knows {
                Knows::Profile => {
                    Box::new(DriveModel::of_profile(profile).expect("the profile ships"))
                }
                Knows::Distance => Box::new(LinearBelief::new(profile.capacity())),
            }
        };
        let belief_name = if *knows == Knows::Distance { ", belief by distance" } else { "" };
        group.bench_function(format!("{policy}/{clients} on {drive}{belief_name}"), |bencher| {
            bencher.iter(|| {
                black_box(
                    run(&experiment, workload.clone(), &belief)
                        .expect("a closed loop is always served"),
                )
            });
        });
    }
    group.finish();
}

criterion_group!(benches, simulate);
criterion_main!(benches);
