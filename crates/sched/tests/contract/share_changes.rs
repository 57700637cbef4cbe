//! A reservation that is changed while it is used is in force from the next second on, at whatever
//! point of a run that is.

use headtime_sched::ShareChange;

use crate::session::{Session, Setup};
use crate::shares::{reserving, saturated, tenant};

/// A has 80 % and B 20 %, both always have requests, and this long after the third second something
/// is changed.
fn settled(policy: &str, phase_ms: u64) -> Session {
    let mut session = Setup::of(policy).start();
    session.scheduler.set_share(session.now, tenant(0), reserving(80.0)).expect("free");
    session.scheduler.set_share(session.now, tenant(1), reserving(20.0)).expect("free");
    saturated(&mut session, 2, 3_000 + phase_ms);
    session
}

/// A run under the old terms is no debt under the new ones, and A loses the rest of that run.
#[test]
fn reservations_that_are_exchanged_are_in_force_from_the_next_second_on() {
    for policy in ["utilization", "headtime"] {
        for phase_ms in (0..1_000).step_by(90) {
            let mut session = settled(policy, phase_ms);
            let exchanged = [
                ShareChange::Set(tenant(0), reserving(20.0)),
                ShareChange::Set(tenant(1), reserving(80.0)),
            ];
            session.scheduler.change_shares(session.now, &exchanged).expect("no more than before");
            let seconds: Vec<f64> = (0..4).map(|_| saturated(&mut session, 2, 1_000)[0]).collect();
            // A run ends between two requests, which take up to 15 ms here.
            assert!(
                seconds.iter().all(|share| (share - 0.2).abs() < 0.03),
                "{policy}, after {phase_ms} ms: {seconds:?}"
            );
            session.run_to_end();
        }
    }
}

/// The lost time is available to others, and the tenant keeps its reservation in every second from
/// then on.
#[test]
fn a_reservation_that_is_lowered_is_kept_from_the_first_second_on() {
    for policy in ["utilization", "headtime"] {
        for phase_ms in (0..1_000).step_by(90) {
            let mut session = settled(policy, phase_ms);
            session
                .scheduler
                .set_share(session.now, tenant(0), reserving(30.0))
                .expect("less than before");
            let seconds: Vec<f64> = (0..4).map(|_| saturated(&mut session, 2, 1_000)[0]).collect();
            assert!(
                seconds.iter().all(|share| *share > 0.25),
                "{policy}, after {phase_ms} ms: {seconds:?}"
            );
            session.run_to_end();
        }
    }
}
