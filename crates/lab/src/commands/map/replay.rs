//! `headtime map learn`: takes the first part of a recording in as a scheduler's belief would, and
//! predicts the rest, request by request.
//!
//! A recording is closed: one request outstanding, each issued a think time after the one before
//! completed. Each is put to the belief as the scheduler puts it: where the head is after the
//! request before, when this one was sent, how long it is expected to take. In the first part the
//! completion is then taken in. In the second nothing is learned of the drive any more; where the
//! platter is goes on being followed, because nothing else knows of a spindle that wanders. The
//! error is the predicted response less the recorded one.

use headtime_belief::DriveModel;
use headtime_belief::compact::{CompactMap, CompactSettings, Learning};
use headtime_belief::maps::{KeptMap as Map, mapped_drive};
use headtime_belief::matrix::{
    Coverage, EntryBits, Exceedance, LatencyMatrix, MappedDrive, MatrixBelief, MatrixOptions,
    MatrixSettings, MatrixShape, SharedMatrix, WhenFull,
};
use headtime_mechanics::DriveProfile;
use headtime_sched::{AccessKind, Belief, Head, MeasuredAccess, Op};
use headtime_units::{ByteRange, ByteSize, Instant, Nanos};
use headtime_workload::Operation;
use headtime_workload::trace::{RecordedAccess, Recording};
use serde::Serialize;

use headtime_console::Failure;

/// A belief that learns from a recording.
pub(super) enum Learner {
    Compact(Box<DriveModel>),
    Matrix(Box<MatrixBelief>),
}

/// The starting point of learning.
pub(super) enum Start<'a> {
    Profile(&'a DriveProfile),
    /// Size and nominal speed alone.
    Nothing(&'a DriveProfile),
    Map(Map),
}

/// Settings of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    pub(super) cell: ByteSize,
    pub(super) bits: EntryBits,
    pub(super) region: Option<ByteRange>,
}

/// One request beside its prediction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicted {
    pub(super) access: RecordedAccess,
    /// The most likely response time, and the one that is not to be exceeded.
    pub(super) likely: Nanos,
    pub(super) expected: Nanos,
    pub(super) worst: Nanos,
}

impl Predicted {
    /// Predicted less recorded, in ms.
    pub(super) fn error_ms(&self) -> f64 {
        self.likely.as_ms_f64() - self.access.response.as_ms_f64()
    }
}

/// The prediction errors over a set of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) requests: usize,
    pub(super) within_0_2_ms: f64,
    pub(super) within_5_percent: f64,
    pub(super) median_abs_ms: f64,
    pub(super) rms_ms: f64,
    /// Predictions a revolution too long or too short, give or take 0.3 ms.
    pub(super) revolution_off: f64,
    /// Requests that took longer than the predicted worst case.
    pub(super) worst_exceeded: f64,
}

impl Figures {
    pub(super) fn of<'a>(predicted: impl Iterator<Item = &'a Predicted>, turn: Nanos) -> Self {
        let requests: Vec<&Predicted> = predicted.collect();
        if requests.is_empty() {
            return Self::default();
        }
        let count = requests.len() as f64;
        let share = |holds: &dyn Fn(&Predicted) -> bool| {
            requests.iter().filter(|request| holds(request)).count() as f64 / count
        };
        let mut errors: Vec<f64> =
            requests.iter().map(|request| request.error_ms().abs()).collect();
        errors.sort_unstable_by(f64::total_cmp);
        let turn_ms = turn.as_ms_f64();
        Self {
            requests: requests.len(),
            within_0_2_ms: share(&|request| request.error_ms().abs() <= 0.2),
            within_5_percent: share(&|request| {
                request.error_ms().abs() <= 0.05 * request.access.response.as_ms_f64()
            }),
            median_abs_ms: (errors[(errors.len() - 1) / 2] + errors[errors.len() / 2]) / 2.0,
            rms_ms: libm::sqrt(errors.iter().map(|error| error * error).sum::<f64>() / count),
            revolution_off: share(&|request| {
                turn_ms > 0.0 && (request.error_ms().abs() - turn_ms).abs() <= 0.3
            }),
            worst_exceeded: share(&|request| request.access.response > request.worst),
        }
    }
}

impl Learner {
    /// A belief that starts from `start`.
    pub(super) fn new(
        start: Start<'_>,
        matrix: Option<Cells>,
        drive: &DriveProfile,
        memory: ByteSize,
    ) -> Result<Self, Failure> {
        let settings = CompactSettings { memory, ..CompactSettings::default() };
        let of_matrix = |map: LatencyMatrix| {
            Self::Matrix(Box::new(MatrixBelief::new(
                SharedMatrix::new(map),
                MatrixOptions::default(),
            )))
        };
        Ok(match (start, matrix) {
            (Start::Map(Map::Matrix(map)), _) => of_matrix(*map),
            (Start::Map(Map::Compact(map)), _) => Self::Compact(Box::new(DriveModel::of_map(*map))),
            (_, Some(Cells { cell, bits, region })) => {
                let drive = mapped(drive)?;
                let coverage =
                    region.map(|range| Coverage::of_bytes(range, &drive)).unwrap_or_default();
                let settings = MatrixSettings {
                    cell,
                    bits,
                    count_samples: true,
                    memory,
                    coverage,
                    ..MatrixSettings::default()
                };
                let shape = MatrixShape::new(drive, &settings).map_err(Failure::usage)?;
                of_matrix(LatencyMatrix::new(shape).when_full(WhenFull::Evict))
            }
            (Start::Profile(profile), None) => Self::Compact(Box::new(
                DriveModel::mapped_from_profile(profile, settings).map_err(Failure::usage)?,
            )),
            (Start::Nothing(profile), None) => {
                let map = CompactMap::unknown(
                    mapped(profile)?,
                    profile.rotation_period().map_err(Failure::usage)?,
                    settings,
                );
                Self::Compact(Box::new(DriveModel::of_map(map.map_err(Failure::usage)?)))
            }
        })
    }

    /// The map as it is now.
    pub(super) fn map(&self) -> Map {
        match self {
            Self::Compact(belief) => {
                Map::Compact(Box::new(belief.map().expect("the model has a map").clone()))
            }
            Self::Matrix(belief) => {
                Map::Matrix(Box::new(belief.map().inspect(LatencyMatrix::clone)))
            }
        }
    }

    /// The rate at which the worst case was exceeded by number of samples, if it is counted.
    pub(super) fn exceedance(&self) -> Option<Exceedance> {
        match self {
            Self::Compact(_) => None,
            Self::Matrix(belief) => Some(belief.map().inspect(|map| map.exceedance().clone())),
        }
    }

    fn belief(&mut self) -> &mut dyn Belief {
        match self {
            Self::Compact(belief) => belief.as_mut(),
            Self::Matrix(belief) => belief.as_mut(),
        }
    }

    /// Learning is over: what was seen is searched to the end, and nothing of the drive is learned
    /// any more.
    fn stop_learning(&mut self) {
        if let Self::Compact(belief) = self {
            belief.settle();
            belief.set_learning(Learning::Phase);
        }
    }

    /// Takes `recording` in up to request `train`, and predicts all; those before `train` as they
    /// were predicted while learning.
    pub(super) fn replay(&mut self, recording: &Recording, train: usize) -> Vec<Predicted> {
        let mut head: Option<Head> = None;
        let mut predicted = Vec::with_capacity(recording.accesses().len());
        for (number, (access, issued)) in
            recording.accesses().iter().zip(recording.issue_times()).enumerate()
        {
            if number == train {
                self.stop_learning();
            }
            let follows = number < train || matches!(self, Self::Compact(_));
            let belief = self.belief();
            let op = if access.operation == Operation::Read { Op::Read } else { Op::Write };
            let target = belief.target(op, access.extent);
            let estimate = belief.estimate(&head.unwrap_or(Head::UNKNOWN), issued, &target);
            let response = |positioning: Nanos| {
                let media_end = estimate.depart + positioning + estimate.transfer;
                // What lies between the media's end and the report is the same at any time.
                let probe = media_end + Nanos::from_secs(1);
                (media_end + probe.saturating_since(belief.media_end(&target, probe)))
                    .saturating_since(issued)
            };
            let [likely, expected, worst] =
                [estimate.positioning, estimate.expected, estimate.worst].map(response);
            predicted.push(Predicted { access: *access, likely, expected, worst });
            let finished = issued + access.response;
            let free_at = belief.media_end(&target, finished);
            let measured = MeasuredAccess {
                target,
                dispatched: issued,
                finished,
                head_before: head,
                forced: false,
                succeeded: true,
            };
            let learned = if follows { belief.learn(&measured) } else { AccessKind::Media };
            head = match learned {
                AccessKind::Media => Some(Head::after(&target, free_at.max(Instant::ORIGIN))),
                AccessKind::CacheHit => head,
                AccessKind::Uncertain => None,
            };
        }
        if train >= predicted.len() {
            self.stop_learning();
        }
        predicted
    }
}

/// The drive of a profile, as maps name it.
pub(super) fn mapped(profile: &DriveProfile) -> Result<MappedDrive, Failure> {
    mapped_drive(profile).map_err(Failure::usage)
}

/// The profile as if no sector were defective: what slips took from the spares they take no more.
pub(super) fn without_slips(profile: &DriveProfile) -> DriveProfile {
    let mut profile =
        DriveProfile { capacity_sectors: Some(profile.capacity().get()), ..profile.clone() };
    for zone in &mut profile.zones {
        zone.spares = zone.spares.saturating_sub(zone.slips.len() as u64);
        zone.slips.clear();
    }
    profile
}
