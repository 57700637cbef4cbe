//! Drives with two arms: both are kept at work, and what is known of each is used.

mod common;

use common::Run;
use headtime_belief::LinearBelief;
use headtime_mechanics::catalog;
use headtime_sched::Belief;
use headtime_sim::DriveTruth;
use headtime_workload::{Mix, StreamConfig};

#[test]
fn with_two_arms_orders_by_cost_are_no_worse_than_the_order_of_arrival_at_any_depth() {
    let profile = catalog::load("exos-2x18@nocache").expect("a profile of the catalog");
    for (clients, gains) in [(2, 0.98), (4, 1.2), (16, 1.8), (64, 2.5)] {
        let seed = u64::from(clients);
        let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
        let iops = |policy: &str, belief: Box<dyn Belief + Send>| {
            let streams = [StreamConfig { mix: Mix::reads(0.8), ..StreamConfig::closed(clients) }];
            let mut run = Run::new(truth.clone(), belief, policy, &streams, &profile, seed);
            run.advance(1_500);
            run.advance(3_000)
        };
        let of_profile =
            || headtime_belief::of_profile(&profile).expect("a profile of the catalog");
        let [fcfs, sptf, expected, headtime] =
            ["fcfs", "sptf", "sptf-expected", "headtime"].map(|policy| iops(policy, of_profile()));
        let by_distance = iops("sptf", Box::new(LinearBelief::new(profile.capacity())));
        let outcome = format!(
            "seed {seed}: {clients} clients: fcfs {fcfs:.1} IOPS, sptf {sptf:.1}, sptf-expected \
                {expected:.1}, headtime {headtime:.1}; sptf by distance {by_distance:.1}"
        );
        println!("{outcome}");
        assert!(
            sptf > gains * fcfs && expected > gains * fcfs && headtime > gains * fcfs,
            "{outcome}"
        );
        assert!(sptf > 0.99 * by_distance, "{outcome}");
    }
}
