//! The times of a drive: the arm, the cache, noise, and a host that delays completions.

mod common;

use common::{Bench, settings};
use headtime_mechanics::{SeekCurve, catalog};
use headtime_probe::{Probe, Stage};
use headtime_sim::DriveTruth;

#[test]
fn a_seek_curve_cut_short_by_time_is_near_the_real_one_over_the_whole_stroke() {
    let profile = catalog::load("deskstar34gxp@nocache").unwrap();
    let truth = DriveTruth::nominal(&profile, 1).unwrap();
    let real = truth.mechanism().seek_curve();
    let (mut probe, mut bench) = (Probe::new(settings(&profile, 1)), Bench::new(truth.clone()));
    while probe.stage() != Stage::Seek {
        assert!(bench.step(&mut probe), "the probe ended before it timed a seek");
    }
    // The deviations allowed after so many reads, as fractions.
    for (reads, short, long) in [(600, 0.6, 0.6), (400, 0.5, 0.2), (1_000, 0.2, 0.05)] {
        (0..reads).for_each(|_| assert!(bench.step(&mut probe)));
        let found = SeekCurve::from_profile(&probe.finding().profile.expect("a layout"));
        let off = |distance: u32| {
            let (found, real) = (found.time(distance), real.time(distance));
            (found.as_ns() as f64 / real.as_ns() as f64 - 1.0).abs()
        };
        let last = real.last_distance();
        for distance in 1..=last {
            let allowed = if distance < last / 4 { short } else { long };
            assert!(off(distance) < allowed, "{reads}: {distance} cylinders: {}", off(distance));
        }
    }
    assert_eq!(probe.stage(), Stage::Seek);
}
