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
atlas10k fcfs 1 1 1: 112.149 8.9167 11.104644 5.981450 0.321450
atlas10k sptf 16 1 2: 197.131 81.2321 7.184109 2.641250 0.320177
atlas10k sptf-expected 64 0.7 3: 252.847 253.6732 5.992045 1.597113 0.320758
atlas10k firmware 32 0.7 4: 228.057 140.4509 6.627093 1.822859 0.319783
atlas10k@recorded fcfs 4 0.5 5: 102.783 38.9179 7.237994 3.937952 0.207441
cheetah15k5 clook 16 0.7 6: 247.039 64.7117 4.030110 4.001579 0.064211
cheetah15k5 sptf-oracle 16 1 7: 302.740 52.8381 4.938886 1.602972 0.064467
nearline-20tb headtime 16 0.7 8: 160.868 99.3738 6.936418 3.880070 0.030875
nearline-20tb@nocache sptf-expected 64 1 9: 252.082 254.1942 5.316151 2.580959 0.036821
exos-2x18 clook 32 1 10: 145.099 220.4726 5.904752 8.310569 0.037689
deskstar34gxp sstf 8 0.5 11: 83.148 96.1304 10.328033 5.384167 0.237346
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
        instance: Instance::Drawn,
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
