//! A drive that is not what its profile says, and drives that are: trust is lost with the first,
//! soon, and never with the others.

mod common;

use common::Run;
use headtime_belief::LinearBelief;
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::Belief;
use headtime_sim::DriveTruth;
use headtime_units::Lba;
use headtime_workload::{Mix, StreamConfig};

fn load(name: &str) -> DriveProfile {
    catalog::load(name).expect("a profile of the catalog")
}

fn of_profile(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    headtime_belief::of_profile(profile).expect("a profile of the catalog")
}

/// The drive that is there, and the one that it is taken for, which is no smaller.
const OTHERS: [(&str, &str); 4] = [
    ("savvio10k2@nocache", "savvio15k2@nocache"),
    ("savvio15k2@nocache", "savvio10k2@nocache"),
    ("nearline-20tb@nocache", "ultrastar-hc570@nocache"),
    ("barracuda7200-7@nocache", "diamondmax9@nocache"),
];

#[test]
fn on_another_drive_the_order_is_soon_as_good_as_by_distance_alone() {
    for (real, taken_for) in OTHERS {
        for seed in [1, 2] {
            let (profile, wrong) = (load(real), load(taken_for));
            let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
            let streams = [StreamConfig::closed(32)];
            let mut wronged = Run::new(
                truth.clone(),
                of_profile(&wrong),
                "sptf-expected",
                &streams,
                &profile,
                seed,
            );
            let mut lost_after = None;
            let mut seen = 0;
            wronged.watch(2_000, |belief, _| {
                seen += 1;
                if lost_after.is_none() && belief.report().mistrusted {
                    lost_after = Some(seen);
                }
                assert_eq!(
                    belief.tracks(Lba::new(0)).is_none(),
                    belief.report().mistrusted,
                    "seed {seed}: no gap is filled by a profile that does not hold"
                );
            });
            assert!(
                lost_after.is_some_and(|after| after < 600),
                "seed {seed}: {real} taken for {taken_for} until request {lost_after:?}"
            );
            let mut trusted = 0_u32;
            let iops =
                wronged.watch(6_000, |belief, _| trusted += u32::from(!belief.report().mistrusted));
            assert_eq!(trusted, 0, "seed {seed}: {real} was taken for {taken_for} once more");
            let mut by_distance = Run::new(
                truth,
                Box::new(LinearBelief::new(wrong.capacity())),
                "sptf-expected",
                &streams,
                &profile,
                seed,
            );
            by_distance.advance(2_000);
            let expected = by_distance.advance(6_000);
            println!(
                "seed {seed}: {real} taken for {taken_for} until request {lost_after:?}: {iops:.1} \
                    IOPS, {expected:.1} by distance"
            );
            assert!(
                iops > 0.97 * expected,
                "seed {seed}: {real} taken for {taken_for}: {iops:.1} IOPS, {expected:.1} by \
                    distance alone"
            );
        }
    }
}

#[test]
fn a_drive_that_is_what_its_profile_says_is_never_mistrusted() {
    let drives = [
        "atlas10k",
        "atlas10k@recorded",
        "cheetah15k5",
        "savvio15k2@nocache",
        "nearline-20tb",
        "nearline-20tb@nocache",
        "deskstar34gxp",
        "barracuda-2tb",
    ];
    for drive in drives {
        for seed in 1..=12 {
            let profile = load(drive);
            let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
            let clients = [1, 4, 24][seed as usize % 3];
            let streams =
                [StreamConfig { mix: Mix::reads(2.0 / 3.0), ..StreamConfig::closed(clients) }];
            let mut run =
                Run::new(truth, of_profile(&profile), "sptf-expected", &streams, &profile, seed);
            let mut seen = 0;
            run.watch(3_000, |belief, _| {
                seen += 1;
                assert!(
                    !belief.report().mistrusted,
                    "seed {seed}: {drive} with {clients} clients \
                    is mistrusted after {seen} requests"
                );
            });
        }
    }
}
