//! Holding the simulated drive against a real one: [`validate`] replays a recording and says how
//! far the prediction of each response is off.
//!
//! **How a recording is replayed.** A recording is closed: one request outstanding, each issued a
//! think time after the one before had completed. Each request is issued at its *recorded* time on
//! a nominal [`SimulatedDrive`](crate::SimulatedDrive) (the profile's drive, no noise), so that an
//! error of one prediction does not move the request behind it. When the simulated drive takes so
//! long that the next recorded request is due before the prediction has ended, virtual time is put
//! forward by *whole turns* until it has: the next request then starts from the track on which the
//! real arm stood, at the angle at which the real platter stood, and the prediction that was too
//! long keeps its full error. The other way, [`IssueMode::Closed`], is DiskSim's: each request is
//! issued a think time after the *simulated* completion. Between accesses to the platter that moves
//! what follows by whole turns only; an error that is none (of a cache hit, of a bus time) turns
//! the platter under everything behind it.
//!
//! Worked example, 6 ms a turn. Request 1 is issued at 0 and recorded to take 4 ms, with 1 ms of
//! thinking: request 2 was issued at 5 ms. The simulation takes 10 ms for request 1: an error of 6
//! ms, exactly one turn, so the arm arrived just too late. Request 2 should start at 5 ms, but the
//! simulated drive is busy until 10 ms: it starts at 5 + 6 = 11 ms of virtual time, the platter at
//! the same angle. From here on 6 ms are added to every recorded time.
//!
//! **What is fitted.** Where the platter stood when the recording began, and how fast this unit's
//! spindle turned, no profile knows. Both are fitted ([`SpindleFit`]): two figures, from every
//! second request, judged on all of them and on the half that was not used. A recording whose times
//! keep no phase from request to request (its think times are not the host's whole pause) says so
//! by its coherence; then nothing is fitted, single predictions miss by what rotation decides, and
//! only the two distributions can be compared.
//!
//! **What is answered.** The demerit (Ruemmler and Wilkes, 1994): the root mean square of the
//! horizontal distance between the two distributions of response times; as both have the same
//! number of requests, that of the differences between the two sorted lists. DiskSim's `rms` tool
//! does the same on binned distributions, at 10,000 heights with straight lines between the bins,
//! so that it differs by what the bins lose. And the error of each request ([`ErrorFigures`]), whole and
//! by class ([`AccessClass`]), because distributions can agree where no single prediction does.
//!
//! - Modelled: whatever the simulated drive models, its cache and read-ahead included.
//! - Not modelled: a spindle whose speed drifts within the recording; the head's place and the
//!   cache's contents before the first request.
//! - Differs from a drive: read-ahead and delayed writes get the time between a simulated
//!   completion and the next issue, which a prediction that was too short makes longer, and one
//!   that was too long makes anything up to a turn.

mod arrival;
mod classes;
mod figures;
mod replay;
mod spindle;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_units::{Extent, Nanos, RotationPeriod, Sectors};
use headtime_workload::trace::{RecordedAccess, Recording};

pub use arrival::{ArrivalErrors, ArrivalShift};
pub use classes::{AccessClass, Slice};
pub use figures::{ErrorFigures, demerit_ms};
pub use replay::{IssueMode, PredictedAccess, Served};
pub use spindle::SpindleFit;

/// Why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ValidateError {
    /// An access lies past the drive's end.
    #[error(
        "line {line}: sectors {extent} do not lie on {profile}, which has {capacity} sectors; \
            validate with the profile of the drive that was recorded, or \
         remove the line", capacity = capacity.get()
    )]
    PastEnd {
        /// The line of the recording.
        line: usize,
        /// What was accessed.
        extent: Extent,
        /// The profile's name.
        profile: String,
        /// The drive's size.
        capacity: Sectors,
    },
    /// The profile describes no drive.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// One access of the recording beside its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayedAccess {
    /// As it was recorded.
    pub recorded: RecordedAccess,
    /// For how long the drive had rested when it came.
    pub rested: Nanos,
    /// As it was predicted.
    pub predicted: PredictedAccess,
}

impl ReplayedAccess {
    /// PredictedAccess less recorded response, nanoseconds: positive when the prediction was too long.
    #[must_use]
    pub fn error_ns(&self) -> i64 {
        let nanos = |span: Nanos| i64::try_from(span.as_ns()).unwrap_or(i64::MAX);
        nanos(self.predicted.response).saturating_sub(nanos(self.recorded.response))
    }
}

/// What a replay showed.
#[derive(Clone, Debug)]
pub struct Validation {
    /// How requests were issued.
    pub issue: IssueMode,
    /// The time of a turn in the profile.
    pub nominal: RotationPeriod,
    /// What was fitted, and whether anything could be.
    pub spindle: SpindleFit,
    /// The demerit when each request is issued at its recorded time, milliseconds.
    pub demerit_recorded_ms: f64,
    /// The demerit when each request is issued a think time after the simulated completion,
    /// milliseconds.
    pub demerit_closed_ms: f64,
    /// The drive's size, by which regions are told apart.
    capacity: Sectors,
    accesses: Vec<ReplayedAccess>,
}

/// Replays `recording` on the drive that `profile` describes; the figures speak of `issue`, and the
/// demerit of both ways is given.
///
/// # Errors
/// A profile with a fault, and an access that does not lie on the drive.
pub fn validate(
    profile: &DriveProfile,
    recording: &Recording,
    issue: IssueMode,
) -> Result<Validation, ValidateError> {
    let nominal = profile.rotation_period()?;
    let mut replayed = replay::replay(profile, recording, IssueMode::Recorded, None)?;
    let mut spindle = SpindleFit::fit(nominal, recording, &replayed.predictions);
    // Which requests miss the cache, and where a read that starts in mid-track ends, may hang on
    // the angle: with it known, fit once more.
    for _ in 0..2 {
        if spindle.coherent {
            replayed = replay::replay(profile, recording, IssueMode::Recorded, Some(&spindle))?;
            spindle = SpindleFit::fit(nominal, recording, &replayed.predictions);
        }
    }
    let known = Some(&spindle).filter(|fit| fit.coherent);
    let [recorded, closed] = [IssueMode::Recorded, IssueMode::Closed]
        .map(|issue| replay::replay(profile, recording, issue, known));
    let (recorded, closed) = (recorded?, closed?);
    let demerit = |replayed: &replay::Replayed| {
        let pairs = recording.accesses().iter().zip(&replayed.predictions);
        demerit_ms(pairs.map(|(access, predicted)| (access.response, predicted.response)))
    };
    let (demerit_recorded_ms, demerit_closed_ms) = (demerit(&recorded), demerit(&closed));
    let shown = if issue == IssueMode::Recorded { recorded } else { closed };
    let rests =
        std::iter::once(Nanos::ZERO).chain(recording.accesses().iter().map(|access| access.think));
    let accesses = recording
        .accesses()
        .iter()
        .zip(rests)
        .zip(shown.predictions)
        .map(|((recorded, rested), predicted)| ReplayedAccess {
            recorded: *recorded,
            rested,
            predicted,
        })
        .collect();
    Ok(Validation {
        issue,
        nominal,
        spindle,
        demerit_recorded_ms,
        demerit_closed_ms,
        capacity: shown.capacity,
        accesses,
    })
}

impl Validation {
    /// Every access, in the recording's order.
    #[must_use]
    pub fn accesses(&self) -> &[ReplayedAccess] {
        &self.accesses
    }

    /// The time of a turn that the replay ran with.
    #[must_use]
    pub fn period(&self) -> RotationPeriod {
        if self.spindle.coherent { self.spindle.period } else { self.nominal }
    }

    /// The figures over all accesses.
    #[must_use]
    pub fn all(&self) -> ErrorFigures {
        self.figures(|_, _| true)
    }

    /// The figures over the half of the accesses from which nothing was fitted: the second, the
    /// fourth and so on.
    #[must_use]
    pub fn held_out(&self) -> ErrorFigures {
        self.figures(|number, _| number % 2 == 1)
    }

    /// The figures over the accesses that `belongs` picks, by number from 0 and value.
    #[must_use]
    pub fn figures(&self, belongs: impl Fn(usize, &ReplayedAccess) -> bool) -> ErrorFigures {
        let picked =
            self.accesses.iter().enumerate().filter(|(number, access)| belongs(*number, access));
        ErrorFigures::of(picked.map(|(_, access)| access), self.period())
    }

    /// What those that are a revolution off say about the arm.
    #[must_use]
    pub fn arrival_errors(&self) -> ArrivalErrors {
        ArrivalErrors::of(&self.accesses, self.period())
    }

    /// The figures by class, those whose predictions are worst first; see [`AccessClass`]. Classes of
    /// fewer than `least` accesses are left out.
    #[must_use]
    pub fn classes(&self, least: usize) -> Vec<AccessClass> {
        classes::classes(&self.accesses, self.capacity, self.period(), least)
    }
}
