//! Replays of recordings: the recording of a simulated drive with known spindle and phase must
//! match its own profile and no other.

use headtime_mechanics::{DriveProfile, draw};
use headtime_sched::{Command, CommandId, Op};
use headtime_sim::validate::{
    ArrivalShift, ErrorFigures, IssueMode, Served, SpindleFit, ValidateError, Validation, validate,
};
use headtime_sim::{Device, DriveTruth, SimulatedDrive};
use headtime_units::{Angle, Extent, Instant, Nanos};
use headtime_workload::Operation;
use headtime_workload::trace::{Label, RecordedAccess, Recording, disksim_validate};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use smallvec::SmallVec;

/// An ordinary drive of two heads and two zones.
const SMALL: &str = r#"
name = "small"
model = "made up"
sector_bytes = 512
rotation = { rpm = 10000 }
geometry = { heads = 2, layout = "serpentine" }
seek.head_switch_ms = 0.3
seek.write_settle_ms = 0.4
seek.points = [[1, 0.8], [100, 1.9], [1000, 4.1], [5000, 8.3]]
interface.read_command_us = 150.0
interface.write_command_us = 190.0
interface.completion_us = 20.0
interface.bus_mb_per_s = 80.0
firmware = { queue_depth = 1, algorithm = "fcfs" }

[[zone]]
first_cylinder = 0
cylinders = 3000
sectors_per_track = 400
track_skew = 40
cylinder_skew = 75

[[zone]]
first_cylinder = 3000
cylinders = 2001
sectors_per_track = 310
track_skew = 32
cylinder_skew = 60
"#;

fn small() -> DriveProfile {
    DriveProfile::from_toml("small", SMALL).expect("the profile above is valid")
}

/// The known properties of the recorded drive.
struct RecordedDrive {
    truth: DriveTruth,
    /// The drive's time at the start of the recording.
    start: Instant,
}

impl RecordedDrive {
    /// A drive whose spindle is up to some 400 ppm off the profile's.
    fn draw(profile: &DriveProfile, seed: u64) -> Self {
        let mut profile = profile.clone();
        profile.variation.spindle_ppm = 130.0;
        Self {
            truth: DriveTruth::draw(&profile, seed).expect("a valid profile"),
            start: Instant::from_ns(3_141_592),
        }
    }

    /// Random accesses one after the other, with pauses of up to `pause`; `unrecorded` is a pause
    /// missing in the recording, as a busy host makes them.
    fn record(&self, requests: usize, seed: u64, pause: Nanos, unrecorded: Nanos) -> Recording {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut drive = SimulatedDrive::new(self.truth.clone()).expect("a valid profile");
        let capacity = drive.capacity().get();
        let mut issued = self.start;
        let mut reports = Vec::new();
        let accesses = (0..requests).map(|number| {
            let len = rng.random_range(1..=24_u64).min(capacity);
            let extent = Extent::from_numbers(rng.random_range(0..=capacity - len), len);
            let operation = if rng.random_bool(0.7) { Operation::Read } else { Operation::Write };
            let op = if operation == Operation::Read { Op::Read } else { Op::Write };
            drive.submit(
                issued,
                &Command {
                    id: CommandId(number as u64),
                    op,
                    extent,
                    fua: false,
                    background: None,
                    requests: SmallVec::new(),
                },
            );
            while reports.is_empty() {
                let at = drive.next_event().expect("a command is under way");
                drive.advance(at, &mut reports);
            }
            let finished = reports.pop().expect("one was reported").finished;
            let response = finished.saturating_since(issued);
            let think = Nanos::from_ns(rng.random_range(0..=pause.as_ns()));
            issued = finished + think + Nanos::from_ns(rng.random_range(0..=unrecorded.as_ns()));
            RecordedAccess {
                line: number + 1,
                operation,
                extent,
                response,
                think,
                label: Label::Hit,
            }
        });
        Recording::new(accesses.collect()).expect("at least one access")
    }

    /// The error of the fitted period in parts per million and of the fitted phase in revolutions.
    fn misfit(&self, fit: &SpindleFit) -> (f64, f64) {
        let mechanism = self.truth.mechanism();
        let ppm = (fit.period.as_ns_f64() / mechanism.period().as_ns_f64() - 1.0) * 1e6;
        (ppm, fit.phase.signed_turns_from(mechanism.angle_at(self.start)))
    }
}

const PAUSE: Nanos = Nanos::from_ms(15);

fn replay(profile: &DriveProfile, recording: &Recording, issue: IssueMode) -> Validation {
    validate(profile, recording, issue).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_units_own_profile_explains_its_recording_and_its_spindle_is_found() {
    for seed in 0..6 {
        let recorded = RecordedDrive::draw(&small(), seed);
        let recording = recorded.record(2_000, seed, PAUSE, Nanos::ZERO);
        let validation = replay(&small(), &recording, IssueMode::Recorded);
        let (ppm, turns) = recorded.misfit(&validation.spindle);
        assert!(
            validation.spindle.coherent && validation.spindle.coherence > 0.999,
            "seed {seed}: {:?}",
            validation.spindle
        );
        assert!(
            ppm.abs() < 0.05 && turns.abs() < 2e-4,
            "seed {seed}: period {ppm} ppm, phase {turns} turns off"
        );
        for figures in [validation.all(), validation.held_out()] {
            assert!(
                figures.within_0_2_ms > 0.998 && figures.median_abs_ms < 0.002,
                "seed {seed}: {figures:?}"
            );
            assert!(figures.demerit_ms < 0.02, "seed {seed}: {figures:?}");
        }
        assert_eq!((validation.all().requests, validation.held_out().requests), (2_000, 1_000));
        assert!(
            validation.accesses().iter().all(|access| access.predicted.served == Served::Media),
            "nothing is cached on this drive"
        );
    }
}

#[test]
fn through_the_text_of_a_trace_file_it_is_the_same() {
    let recorded = RecordedDrive::draw(&small(), 3);
    let recording = recorded.record(200, 3, PAUSE, Nanos::ZERO);
    let text: Vec<String> = recording.accesses().iter().map(disksim_validate::line).collect();
    let read = disksim_validate::read("written", &text.join("\n")).unwrap();
    assert_eq!(read, recording);
    assert_eq!(
        replay(&small(), &read, IssueMode::Recorded).accesses(),
        replay(&small(), &recording, IssueMode::Recorded).accesses()
    );
}

#[test]
fn a_noisy_unit_with_displaced_tracks_is_still_found() {
    let mut profile = small();
    profile.variation.jitter_us = 30.0;
    profile.variation.track_angle_us = 40.0;
    profile.variation.seek_residual_us = 30.0;
    profile.variation.outlier_share = 0.002;
    profile.variation.outlier_ms = 40.0;
    let recorded = RecordedDrive::draw(&profile, 8);
    let validation =
        replay(&small(), &recorded.record(3_000, 8, PAUSE, Nanos::ZERO), IssueMode::Recorded);
    let (ppm, turns) = recorded.misfit(&validation.spindle);
    // Reports are 30 us late on average: 0.005 of a revolution.
    assert!(ppm.abs() < 0.5 && turns.abs() < 0.01, "period {ppm} ppm, phase {turns} turns off");
    let all = validation.all();
    assert!(all.within_0_2_ms > 0.93 && all.median_abs_ms > 0.01, "{all:?}");
}

#[test]
fn a_wrong_seek_curve_shows_request_by_request_and_the_spindle_is_found_all_the_same() {
    let recorded = RecordedDrive::draw(&small(), 5);
    let recording = recorded.record(3_000, 5, PAUSE, Nanos::ZERO);
    let mut slow = small();
    slow.seek.points.iter_mut().for_each(|(_, ms)| *ms *= 1.1);
    let (right, wrong) = (
        replay(&small(), &recording, IssueMode::Recorded),
        replay(&slow, &recording, IssueMode::Recorded),
    );
    let (ppm, turns) = recorded.misfit(&wrong.spindle);
    assert!(
        ppm.abs() < 0.05 && turns.abs() < 2e-4,
        "period {ppm} ppm, phase {turns} turns off: a seek too long costs whole turns, no phase"
    );

    let (right, wrong) = (right.all(), wrong.all());
    // A tenth of some 5 ms of a 6 ms revolution: about one in twelve comes too late for its sector.
    assert!(
        (0.04..0.15).contains(&wrong.revolution_too_long) && wrong.revolution_too_short < 0.001,
        "{wrong:?}"
    );
    assert!(
        (wrong.within_0_2_ms + wrong.revolution_too_long - 1.0).abs() < 0.01,
        "all others are as good as before: {wrong:?}"
    );
    assert!(wrong.demerit_ms > 10.0 * right.demerit_ms && wrong.demerit_ms > 0.2, "{wrong:?}");
    assert!(wrong.per_request_rms_ms > wrong.demerit_ms, "{wrong:?}");
    assert!(wrong.simulated_mean_ms > wrong.recorded_mean_ms + 0.2, "{wrong:?}");
}

#[test]
fn an_error_of_one_prediction_does_not_move_later_requests() {
    let recorded = RecordedDrive::draw(&small(), 6);
    // No pauses: a prediction that is too long reaches into the next recorded request.
    let recording = recorded.record(3_000, 6, Nanos::ZERO, Nanos::ZERO);
    let mut slow = small();
    slow.interface.read_command_us += 250.0;
    let [recorded, closed] =
        [IssueMode::Recorded, IssueMode::Closed].map(|issue| replay(&slow, &recording, issue));
    assert!(recorded.spindle.coherent);
    let after_an_error = |validation: &Validation| {
        let pairs = validation.accesses().windows(2).filter(|pair| pair[0].error_ns() > 5_000_000);
        let good = pairs.clone().filter(|pair| pair[1].error_ns().abs() < 200_000).count();
        good as f64 / pairs.count() as f64
    };
    // The only error is an arm that is 0.25 ms late, and every access that is one revolution off
    // shows it.
    let late = recorded.arrival_errors().too_late;
    assert!(
        late.requests > 50
            && (0.05..0.2).contains(&late.median_ms)
            && (0.2..0.251).contains(&late.p90_ms),
        "{late:?}"
    );
    assert_eq!(recorded.arrival_errors().too_early, ArrivalShift::default());
    let share = after_an_error(&recorded);
    assert!(
        share > 0.9,
        "of the requests behind one that was a turn too long {share} were predicted"
    );
    assert!(recorded.all().within_0_2_ms > 0.9, "{:?}", recorded.all());
    // The demerit covers both modes, whichever is shown.
    assert_eq!(
        (recorded.demerit_recorded_ms, recorded.demerit_closed_ms),
        (closed.demerit_recorded_ms, closed.demerit_closed_ms)
    );
    assert_eq!(
        (recorded.all().demerit_ms, closed.all().demerit_ms),
        (recorded.demerit_recorded_ms, recorded.demerit_closed_ms)
    );
}

#[test]
fn a_recording_that_keeps_no_phase_is_said_to_be_so_and_its_distribution_judged() {
    for seed in 0..8 {
        let recorded = RecordedDrive::draw(&small(), seed);
        let recording = recorded.record(2_000, seed, PAUSE, Nanos::from_ms(20));
        let validation = replay(&small(), &recording, IssueMode::Recorded);
        assert!(
            !validation.spindle.coherent && validation.spindle.coherence < 0.15,
            "seed {seed}: {:?}",
            validation.spindle
        );
        assert_eq!(validation.period(), small().rotation_period().unwrap());
        let all = validation.all();
        // Rotation causes single errors of milliseconds; the distributions differ as much as 2,000
        // samples do.
        assert!(all.per_request_rms_ms > 1.5 && all.demerit_ms < 0.35, "seed {seed}: {all:?}");
    }
}

#[test]
fn classes_name_what_is_wrong_and_hold_every_access_once_per_kind_of_slice() {
    let mut inner = small();
    let recorded = RecordedDrive::draw(&inner, 9);
    let recording = recorded.record(3_000, 9, PAUSE, Nanos::ZERO);
    // The second zone, from address 2,400,000 of 3,640,620 on, is a third of a revolution off.
    inner.zones[1].first_angle_turns =
        Some((inner_zone_angle(&inner) + Angle::from_turns(1.0 / 3.0)).as_turns());
    let validation = replay(&inner, &recording, IssueMode::Recorded);
    let classes = validation.classes(20);
    for class in classes.iter().take(6) {
        let words = class.slice.describe();
        assert!(
            ["addresses 70", "addresses 80", "addresses 90"]
                .iter()
                .any(|start| words.starts_with(start)),
            "{words}: {:?}",
            class.figures
        );
        assert!(class.figures.within_0_2_ms < 0.05);
    }
    let tenths = validation
        .classes(0)
        .into_iter()
        .filter(|class| class.slice.describe().starts_with("addresses"));
    assert_eq!(tenths.map(|class| class.figures.requests).sum::<usize>(), 3_000);
    assert!(validation.spindle.coherent, "two thirds of the drive still agree");
}

/// The default start angle of the second zone.
fn inner_zone_angle(profile: &DriveProfile) -> Angle {
    let layout = headtime_mechanics::Layout::new(profile).expect("a valid profile");
    let first = layout.zones().nth(1).expect("there are two zones").extent.start;
    layout.spot(first).angle
}

#[test]
fn what_the_cache_answers_is_left_out_of_the_fit_and_predicted_all_the_same() {
    let cache = "[cache]\nsegments = 8\nsegment_sectors = 400\nread_ahead_sectors = \
        300\nwrite_back = true\nread_hit_us = 180.0\nwrite_hit_us = 200.0\n";
    let cached = DriveProfile::from_toml("small", &format!("{SMALL}\n{cache}"))
        .expect("the profile with a cache is valid");
    for seed in 0..4 {
        let recorded = RecordedDrive::draw(&cached, seed);
        let recording = recorded.record(2_000, seed, PAUSE, Nanos::ZERO);
        let validation = replay(&cached, &recording, IssueMode::Recorded);
        let (ppm, turns) = recorded.misfit(&validation.spindle);
        assert!(
            ppm.abs() < 0.1 && turns.abs() < 5e-4,
            "seed {seed}: period {ppm} ppm, phase {turns} turns off"
        );
        let by_cache = validation.figures(|_, access| access.predicted.served == Served::Cache);
        assert!(
            by_cache.requests > 500 && by_cache.recorded_mean_ms < 1.0,
            "seed {seed}: most writes: {by_cache:?}"
        );
        assert!(
            validation.spindle.fitted < 850,
            "seed {seed}: of a thousand only those that the platter answered: {:?}",
            validation.spindle
        );
        assert!(validation.all().within_0_2_ms > 0.99, "seed {seed}: {:?}", validation.all());
    }
}

#[test]
fn an_access_past_the_drives_end_is_refused_with_its_line_and_a_remedy() {
    let capacity = small().capacity().get();
    let text = format!("R Hit 0 8 5000 100\n\nR Hit {} 8 5000 100", capacity - 7);
    let recording = disksim_validate::read("x", &text).unwrap();
    let error = validate(&small(), &recording, IssueMode::Recorded).unwrap_err();
    assert!(matches!(error, ValidateError::PastEnd { line: 3, .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("small")
            && message.contains(&capacity.to_string())
            && message.contains("profile of the drive that was recorded"),
        "{message}"
    );
}

#[test]
fn a_recording_of_one_access_has_figures_and_no_fit() {
    let recording = disksim_validate::read("x", "R Hit 0 8 5000 100").unwrap();
    let validation = replay(&small(), &recording, IssueMode::Closed);
    assert!(!validation.spindle.coherent);
    assert_eq!((validation.all().requests, validation.held_out()), (1, ErrorFigures::default()));
    assert!(
        validation.all().median_abs_ms.is_finite()
            && validation.all().demerit_ms == validation.all().median_abs_ms
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_drive_explains_its_own_recording(seed in any::<u64>()) {
        let profile = draw::random_profile(&mut ChaCha8Rng::seed_from_u64(seed));
        // A zero-latency read of a whole track ends where it started, which the fit does not know;
        // on a drive of a few tracks most reads are such.
        prop_assume!(profile.capacity().get() >= 1_000);
        let mut still = profile.clone();
        still.variation = Default::default();
        let recorded = RecordedDrive::draw(&still, seed);
        let recording = recorded.record(400, seed, Nanos::from_ms(30), Nanos::ZERO);
        let all = replay(&still, &recording, IssueMode::Recorded).all();
        prop_assert!(all.within_0_2_ms > 0.97, "seed {}: {:?}", seed, all);
    }
}
