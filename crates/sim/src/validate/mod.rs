//! Validation of the simulated drive against a real one: [`validate`] replays a recording and
//! measures the error of each predicted response.
//!
//! **Replay.** A recording is closed: one request outstanding, each issued a think time after the
//! previous completion. Each request is issued at its *recorded* time on a nominal
//! [`SimulatedDrive`](crate::SimulatedDrive) (no noise), so that one error does not move the next
//! request. If the simulated drive is still busy at the next recorded time, virtual time advances
//! by *whole revolutions* until it is free: the next request then starts from the real arm's track
//! at the real platter's angle, and the prediction that was too long keeps its full error. The
//! other mode, [`IssueMode::Closed`], is DiskSim's: each request is issued a think time after the
//! *simulated* completion. Between media accesses that moves later requests by whole revolutions
//! only; any other error (of a cache hit, of a bus time) shifts the platter for all later requests.
//!
//! Worked example, 6 ms per revolution. Request 1 is issued at 0 and recorded to take 4 ms, with a
//! think time of 1 ms: request 2 was issued at 5 ms. The simulation takes 10 ms for request 1: an
//! error of 6 ms, exactly one revolution, so the arm arrived just too late. Request 2 should start
//! at 5 ms, but the simulated drive is busy until 10 ms: it starts at 5 + 6 = 11 ms of virtual
//! time, with the platter at the same angle. From here on 6 ms are added to every recorded time.
//!
//! **Fit.** The platter's angle at the start of the recording and the spindle speed of the recorded
//! drive are not in the profile. Both are fitted ([`SpindleFit`]) from every second request and
//! judged on all requests and on the other half. A recording without a stable phase (its think
//! times are not the host's whole pause) has a low coherence; then nothing is fitted, single
//! predictions miss by the rotational latency, and only the two distributions can be compared.
//!
//! **Results.** The demerit (Ruemmler and Wilkes, 1994): the root mean square horizontal distance
//! between the two distributions of response times; as both have the same number of requests, that
//! of the differences between the two sorted lists. DiskSim's `rms` tool computes it on binned
//! distributions, at 10,000 heights with straight lines between the bins, with a small binning
//! loss. The error of each request ([`ErrorFigures`]) is given for all accesses and by class
//! ([`AccessClass`]), because distributions can agree where single predictions do not.
//!
//! - Modelled: everything in the simulated drive, its cache and read-ahead included.
//! - Not modelled: spindle drift within the recording; the head position and cache contents before
//!   the first request.
//! - Differs from a drive: read-ahead and delayed writes get the time between a simulated
//!   completion and the next issue, which a short prediction lengthens, and a long one changes by
//!   up to a revolution.

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

/// The reason why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ValidateError {
    /// An access lies past the drive's end.
    #[error(
        "line {line}: sectors {extent} do not lie on {profile}, which has {capacity} sectors; \
            validate with the profile of the drive that was recorded, or \
         remove the line", capacity = capacity.get()
    )]
    PastEnd { line: usize, extent: Extent, profile: String, capacity: Sectors },
    /// The profile is not valid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// One recorded access and its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayedAccess {
    /// The recorded access.
    pub recorded: RecordedAccess,
    /// The drive's idle time before the access.
    pub rested: Nanos,
    /// The prediction.
    pub predicted: PredictedAccess,
}

impl ReplayedAccess {
    /// Predicted minus recorded response in nanoseconds: positive if the prediction was too long.
    #[must_use]
    pub fn error_ns(&self) -> i64 {
        let nanos = |span: Nanos| i64::try_from(span.as_ns()).unwrap_or(i64::MAX);
        nanos(self.predicted.response).saturating_sub(nanos(self.recorded.response))
    }
}

/// The results of a replay.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The mode of the replay.
    pub issue: IssueMode,
    /// The profile's rotation period.
    pub nominal: RotationPeriod,
    /// The fit of the spindle.
    pub spindle: SpindleFit,
    /// The demerit with requests issued at their recorded times, milliseconds.
    pub demerit_recorded_ms: f64,
    /// The demerit with requests issued a think time after the simulated completion, milliseconds.
    pub demerit_closed_ms: f64,
    /// The drive's size, which defines the regions.
    capacity: Sectors,
    accesses: Vec<ReplayedAccess>,
}

/// Replays `recording` on the drive of `profile`. The errors are those of mode `issue`; the demerit
/// is given for both modes.
///
/// # Errors
/// An invalid profile, or an access outside the drive.
pub fn validate(
    profile: &DriveProfile,
    recording: &Recording,
    issue: IssueMode,
) -> Result<Validation, ValidateError> {
    let nominal = profile.rotation_period()?;
    let mut replayed = replay::replay(profile, recording, IssueMode::Recorded, None)?;
    let mut spindle = SpindleFit::fit(nominal, recording, &replayed.predictions);
    // Cache misses, and the end of a read that starts in mid-track, may depend on the angle: fit
    // again with it known.
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

    /// The rotation period of the replay.
    #[must_use]
    pub fn period(&self) -> RotationPeriod {
        if self.spindle.coherent { self.spindle.period } else { self.nominal }
    }

    /// The errors of all accesses.
    #[must_use]
    pub fn all(&self) -> ErrorFigures {
        self.figures(|_, _| true)
    }

    /// The errors of the half of the accesses that was not used for the fit: the second, the fourth
    /// and so on.
    #[must_use]
    pub fn held_out(&self) -> ErrorFigures {
        self.figures(|number, _| number % 2 == 1)
    }

    /// The errors of the accesses selected by `belongs`, by number from 0 and value.
    #[must_use]
    pub fn figures(&self, belongs: impl Fn(usize, &ReplayedAccess) -> bool) -> ErrorFigures {
        let picked =
            self.accesses.iter().enumerate().filter(|(number, access)| belongs(*number, access));
        ErrorFigures::of(picked.map(|(_, access)| access), self.period())
    }

    /// The arm-time errors of accesses that are one revolution off.
    #[must_use]
    pub fn arrival_errors(&self) -> ArrivalErrors {
        ArrivalErrors::of(&self.accesses, self.period())
    }

    /// The errors by class, worst first; see [`AccessClass`]. Omits classes of fewer than
    /// `min_accesses` accesses.
    #[must_use]
    pub fn classes(&self, min_accesses: usize) -> Vec<AccessClass> {
        classes::classes(&self.accesses, self.capacity, self.period(), min_accesses)
    }
}
