//! Golden results of fixed seeds. A difference is a change of the simulation or of scheduling:
//! either intended and explained in the commit, or a mistake. The test prints the current table.

use std::fmt::Write as _;
use std::sync::Arc;

use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{Experiment, Instance, run};
use headtime_workload::{Mix, StreamConfig, Workload};

/// Drive, policy, clients, fraction of reads, seed; then IOPS, mean response in milliseconds, and
/// seconds of seek, rotation and transfer.
const GOLDEN: &str = "\
atlas10k fcfs 1 1 1: 112.418 8.8954 11.102685 5.985842 0.321437
atlas10k sptf 16 1 2: 204.224 78.4356 6.997534 2.475521 0.320133
atlas10k sptf-expected 64 0.7 3: 258.162 246.8080 5.970533 1.455923 0.320614
atlas10k firmware 32 0.7 4: 226.796 141.6382 6.612947 1.885235 0.320298
atlas10k@recorded fcfs 4 0.5 5: 102.867 38.8803 7.251471 3.934308 0.207956
cheetah15k5 clook 16 0.7 6: 248.883 64.2300 4.025314 3.946387 0.064211
cheetah15k5 sptf-oracle 16 1 7: 303.262 52.7112 4.914552 1.615971 0.064435
nearline-20tb headtime 16 0.7 8: 177.807 89.6883 7.615130 3.519749 0.036121
nearline-20tb@nocache sptf-expected 64 1 9: 256.850 247.7799 5.434227 2.315625 0.036782
exos-2x18 clook 32 1 10: 145.092 220.4815 5.900544 8.317107 0.037691
deskstar34gxp sstf 8 0.5 11: 83.326 95.9254 10.323572 5.392955 0.237333
";

fn line(drive: &str, policy: &str, clients: u32, reads: f64, seed: u64) -> String {
    let profile = Arc::new(catalog::load(drive).expect("the profile ships"));
    let (entry, parameters) = PolicyEntry::parse(policy).expect("a policy of the table");
    let stream = StreamConfig { mix: Mix::reads(reads), ..StreamConfig::closed(clients) };
    let source = Workload::new(
        &[stream],
        profile.sector_size().expect("the profile ships"),
        profile.capacity(),
        seed,
    )
    .expect("4 KiB suit the drive");
    let experiment = Experiment {
        parameters,
        instance: Instance::Nominal,
        warm_up: 200,
        requests: 2_000,
        ..Experiment::new(profile, entry, seed)
    };
    let belief = |profile: &DriveProfile| -> Box<dyn Belief + Send> {
        headtime_belief::of_profile(profile).expect("the profile ships")
    };
    let measures = run(&experiment, source, &belief).expect("a closed loop is always served");
    let spent = [measures.disk_time.seek, measures.disk_time.rotate, measures.disk_time.transfer]
        .map(|time| time.as_secs_f64());
    let [seek, rotate, transfer] = spent;
    format!(
        "{drive} {policy} {clients} {reads} {seed}: {:.3} {:.4} {seek:.6} {rotate:.6} \
            {transfer:.6}\n",
        measures.iops, measures.response_ms.mean
    )
}

#[test]
fn fixed_seeds_give_what_they_gave() {
    let mut now = String::new();
    for (drive, policy, clients, reads, seed) in [
        ("atlas10k", "fcfs", 1, 1.0, 1),
        ("atlas10k", "sptf", 16, 1.0, 2),
        ("atlas10k", "sptf-expected", 64, 0.7, 3),
        ("atlas10k", "firmware", 32, 0.7, 4),
        ("atlas10k@recorded", "fcfs", 4, 0.5, 5),
        ("cheetah15k5", "clook", 16, 0.7, 6),
        ("cheetah15k5", "sptf-oracle", 16, 1.0, 7),
        ("nearline-20tb", "headtime", 16, 0.7, 8),
        ("nearline-20tb@nocache", "sptf-expected", 64, 1.0, 9),
        ("exos-2x18", "clook", 32, 1.0, 10),
        ("deskstar34gxp", "sstf", 8, 0.5, 11),
    ] {
        let _ = write!(now, "{}", line(drive, policy, clients, reads, seed));
    }
    assert_eq!(now, GOLDEN, "the table is now:\n{now}");
}
