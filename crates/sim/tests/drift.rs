//! Spindle drift against its worked example and a steady spindle.

use headtime_sim::SpindleDrift;
use headtime_units::{Angle, Instant, Nanos, RotationPeriod};
use proptest::prelude::*;

const ORIGIN: Angle = Angle::from_raw(12_345);

fn period() -> RotationPeriod {
    RotationPeriod::from_rpm(7_200.0).expect("a drive's speed")
}

fn drift(lot: u64) -> SpindleDrift {
    SpindleDrift::new(period(), ORIGIN, 10.0, 600.0, lot).expect("it drifts")
}

/// The lead of the drifting spindle over a steady one, in milliseconds.
fn ahead_ms(drift: &SpindleDrift, seconds: u64) -> f64 {
    let at = Instant::ORIGIN + Nanos::from_secs(seconds);
    let steady = period().angle_at(at, ORIGIN);
    drift.angle_at(at).signed_turns_from(steady) * period().as_ns_f64() / 1e6
}

#[test]
fn the_worked_example_holds() {
    let drift = drift(0);
    for (seconds, expected_ms) in [(0, 0.0), (150, 0.955), (300, 1.910), (600, 0.0)] {
        assert!(
            (ahead_ms(&drift, seconds) - expected_ms).abs() < 0.001,
            "{seconds} s: {} ms",
            ahead_ms(&drift, seconds)
        );
    }
    let (fast, _) = drift.steady_at(Instant::ORIGIN + Nanos::from_secs(150));
    assert!((period().as_fs() as f64 / fast.as_fs() as f64 - 1.0 - 10e-6).abs() < 1e-9);
}

#[test]
fn no_amplitude_or_no_swing_is_no_drift() {
    let period = RotationPeriod::from_rpm(7_200.0).expect("a drive's speed");
    assert_eq!(SpindleDrift::new(period, Angle::ZERO, 0.0, 600.0, 1), None);
    assert_eq!(SpindleDrift::new(period, Angle::ZERO, 10.0, 0.0, 1), None);
}

proptest! {
    #[test]
    fn a_later_time_is_a_later_angle_and_the_steady_spindle_agrees_for_an_access(
        ns in 0_u64..4_000_000_000_000,
        lot in any::<u64>(),
        step in 1_u64..20_000_000,
    ) {
        let drift = drift(lot);
        let (at, later) = (Instant::from_ns(ns), Instant::from_ns(ns + step.min(4_000_000)));
        let turned = drift.angle_at(at).until(drift.angle_at(later)).as_turns();
        prop_assert!(turned > 0.0 && turned < 0.5, "{turned}");
        let next = Instant::from_ns(ns + 1);
        let one = drift.angle_at(next).signed_turns_from(drift.angle_at(at));
        prop_assert!(one > 0.0, "{one} in a nanosecond");

        let (period, phase) = drift.steady_at(at);
        let off = period.angle_at(at, phase).signed_turns_from(drift.angle_at(at));
        prop_assert!(off.abs() < 1e-9);
        let end = Instant::from_ns(ns + step);
        let off = period.angle_at(end, phase).signed_turns_from(drift.angle_at(end));
        let off_ns = off * period.as_ns_f64();
        prop_assert!(off_ns.abs() < 0.5, "{off_ns} ns after {step} ns");
    }
}
