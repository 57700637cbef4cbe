//! Characterizing a simulated drive beside simulated clients, in virtual time: the scheduler, the
//! drive model and the loop of the real program, with the seed of everything drawn.

#![cfg(all(feature = "characterize", feature = "simulation"))]

mod clients;

use clients::{Load, characterized, distance, drive};
use headtime_belief::of_profile;
use headtime_sim::DriveTruth;
use headtime_units::Nanos;

#[test]
fn a_drive_is_characterized_beside_clients_as_exactly_as_alone_and_within_the_bound() {
    let profile = drive("cheetah10k7@nocache");
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let load = Load { clients: 2, think: Nanos::from_ms(250), max_impact: 0.01 };
    let found = characterized(truth, distance(&profile), load, None, 1);
    found.print("two clients that think 250 ms");
    assert!(found.finding.verdict.is_characterized());
    let check = found.finding.check.as_ref().expect("it was checked");
    assert!(check.within_50_us > 0.97, "{check:?}");
    assert!(found.progress.disturbed > 0, "clients came between reads that belong together");
    assert_eq!(found.progress.model_in_use.reads, 0, "distance predicts no times");
    // The bound, and three standard errors of both means.
    let growth = found.beside_ms / found.alone_ms - 1.0;
    assert!(growth < 0.01 + 0.02, "{growth}");
    assert!(found.reported < 0.0105, "{}", found.reported);
}

#[test]
fn the_model_in_use_is_compared_by_the_reads_of_the_self_check() {
    let profile = drive("cheetah10k7@nocache");
    let load = Load { clients: 0, think: Nanos::from_ms(1), max_impact: 0.01 };
    let compared = |truth: DriveTruth| {
        let model = of_profile(&profile).expect("a valid profile");
        let found = characterized(truth, model, load, None, 1);
        let own = found.finding.check.as_ref().expect("it was checked").within_150_us;
        (own, found.progress.model_in_use.share().expect("it was compared"))
    };
    let (own, in_use) = compared(DriveTruth::nominal(&profile, 1).expect("a drive"));
    assert!(in_use > own - 0.02, "the model is the truth: {in_use}, found {own}");
}
