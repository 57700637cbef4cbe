//! [`FaultyDrive`]: each kind of fault by itself.

use headtime_mechanics::catalog;
use headtime_sched::{Command, CommandId, Op, Outcome};
use headtime_sim::{Device as _, DriveCompletion, DriveTruth, SimulatedDrive};
use headtime_testkit::faults::{BadSectors, EIO, FaultPlan, FaultyDrive};
use headtime_units::{Extent, Instant, Nanos};

fn read(id: u64, start: u64) -> Command {
    Command {
        id: CommandId(id),
        op: Op::Read,
        extent: Extent::from_numbers(start, 8),
        fua: false,
        background: None,
        requests: smallvec::SmallVec::new(),
    }
}

/// Sends the commands at once and collects every report within a minute.
fn reports(plan: FaultPlan, commands: &[Command]) -> Vec<DriveCompletion> {
    let truth =
        DriveTruth::nominal(&catalog::load("atlas10k").expect("it ships"), 1).expect("a drive");
    let mut drive = FaultyDrive::new(SimulatedDrive::new(truth).expect("a drive"), plan, 1);
    commands.iter().for_each(|command| drive.submit(Instant::ORIGIN, command));
    let mut reports = Vec::new();
    while let Some(at) = drive.next_event().filter(|at| *at < Instant::from_ns(60_000_000_000)) {
        drive.advance(at, &mut reports);
    }
    assert!(reports.is_sorted_by_key(|report| report.finished));
    reports
}

#[test]
fn a_drive_without_faults_is_the_drive_inside() {
    let commands = [read(0, 9_000), read(1, 800_000), read(2, 10)];
    let clean = reports(FaultPlan::default(), &commands);
    assert_eq!(clean.len(), 3);
    assert!(clean.iter().all(|report| report.outcome == Outcome::Success));
}

#[test]
fn bad_sectors_fail_what_touches_them_as_often_as_planned() {
    let bad = BadSectors {
        extent: Extent::from_numbers(103, 1),
        reads: true,
        writes: false,
        times: Some(1),
    };
    let outcomes: Vec<_> = [read(0, 90), read(1, 96), read(2, 96)]
        .into_iter()
        .flat_map(|command| {
            reports(FaultPlan { bad: vec![bad], ..FaultPlan::default() }, &[command])
        })
        .map(|report| report.outcome)
        .collect();
    assert_eq!(
        outcomes,
        [Outcome::Success, Outcome::Failed(EIO), Outcome::Failed(EIO)],
        "each run starts again"
    );
    let twice =
        reports(FaultPlan { bad: vec![bad], ..FaultPlan::default() }, &[read(1, 96), read(2, 96)]);
    assert_eq!(
        twice.iter().filter(|report| report.outcome == Outcome::Success).count(),
        1,
        "once bad, then good again"
    );
}

#[test]
fn slow_reports_come_late_and_lost_ones_never() {
    let clean = reports(FaultPlan::default(), &[read(0, 90)])[0].finished;
    let slow = FaultPlan { slow_share: 1.0, slow_by: Nanos::from_ms(50), ..FaultPlan::default() };
    assert_eq!(reports(slow, &[read(0, 90)])[0].finished, clean + Nanos::from_ms(50));
    assert!(
        reports(FaultPlan { lost_share: 1.0, ..FaultPlan::default() }, &[read(0, 90)]).is_empty()
    );
}

#[test]
fn reordered_reports_are_overtaken_but_not_for_ever() {
    let commands: Vec<Command> = (0..40).map(|id| read(id, id * 400_000)).collect();
    let order =
        |plan| reports(plan, &commands).iter().map(|report| report.command.0).collect::<Vec<_>>();
    let clean = order(FaultPlan::default());
    let shuffled = order(FaultPlan {
        reorder_share: 0.3,
        slow_by: Nanos::from_ms(100),
        ..FaultPlan::default()
    });
    assert_eq!(shuffled.len(), 40);
    assert_ne!(shuffled, clean);
}
