//! [`replay`]: runs a recording on a nominal simulated drive. See the head of [`super`].

use headtime_mechanics::{DriveProfile, HeadPosition};
use headtime_sched::{Command, CommandId, Op};
use headtime_units::{Angle, Extent, Instant, Nanos, RotationPeriod, Sectors};
use headtime_workload::Operation;
use headtime_workload::trace::Recording;
use smallvec::SmallVec;

use super::{SpindleFit, ValidateError};
use crate::device::{Breakdown, Device, DriveCompletion};
use crate::drive::SimulatedDrive;
use crate::truth::DriveTruth;

/// The issue times of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssueMode {
    /// The recorded times, so that errors do not accumulate.
    #[default]
    Recorded,
    /// A think time after the previous simulated completion, as in DiskSim.
    Closed,
}

/// The part of the drive that served a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Served {
    /// The cache, without the arm.
    Cache,
    /// The platter.
    Media,
}

/// The prediction of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedAccess {
    /// From issue to completion.
    pub response: Nanos,
    /// The parts of the response.
    pub breakdown: Breakdown,
    /// The part of the drive that served it.
    pub served: Served,
    /// Cylinders between the end of the previous access and the start of this one. After a cache
    /// hit the arm has not moved, so this is a distance of addresses. `None` if the layout does not
    /// tell.
    pub cylinders: Option<u32>,
    /// The angle under the head at completion. It depends on rotation, not on the issue time, and
    /// shows the phase of a recorded completion.
    pub completion_angle: Angle,
}

/// The results of one replay.
#[derive(Clone, Debug)]
pub(super) struct Replayed {
    pub(super) predictions: Vec<PredictedAccess>,
    pub(super) capacity: Sectors,
}

/// Runs the recording. Without a fit the platter has the profile's period and an arbitrary phase.
pub(super) fn replay(
    profile: &DriveProfile,
    recording: &Recording,
    issue: IssueMode,
    spindle: Option<&SpindleFit>,
) -> Result<Replayed, ValidateError> {
    let mut profile = profile.clone();
    if let Some(fit) = spindle {
        profile.rotation.rpm = None;
        profile.rotation.period_us = Some(fit.period.as_fs() as f64 / 1e9);
    }
    let truth = DriveTruth::nominal(&profile, PHASE_SEED)?;
    let mut drive = SimulatedDrive::new(truth.clone())?;
    let capacity = drive.capacity();
    if let Some(past) =
        recording.accesses().iter().find(|access| access.extent.end().get() > capacity.get())
    {
        return Err(ValidateError::PastEnd {
            line: past.line,
            extent: past.extent,
            profile: profile.name,
            capacity,
        });
    }

    let mechanism = truth.mechanism();
    let period = mechanism.period();
    // Virtual time starts when the platter has its angle at the recording's start.
    let start =
        spindle.map_or(Nanos::ZERO, |fit| period.time_of(mechanism.phase().until(fit.phase)));
    let mut clock = ReplayClock { period, start, turns: 0, free: Instant::ORIGIN };
    let mut arm = Some(HeadPosition::PARKED);
    let mut predictions = Vec::with_capacity(recording.accesses().len());
    let mut closed_next = Instant::ORIGIN + start;
    for (number, (access, recorded_issue)) in
        recording.accesses().iter().zip(recording.issue_times()).enumerate()
    {
        let issued = match issue {
            IssueMode::Recorded => clock.at(recorded_issue),
            IssueMode::Closed => closed_next,
        };
        let op = if access.operation == Operation::Read { Op::Read } else { Op::Write };
        let done = serve(&mut drive, issued, CommandId(number as u64), op, access.extent);
        clock.free = done.finished;
        closed_next = done.finished + access.think;

        let on_map = access.extent.end().get() <= mechanism.layout().capacity().get();
        let from = arm.take();
        let to = on_map.then(|| mechanism.spot(access.extent.start).position);
        arm = on_map.then(|| mechanism.end_spot(access.extent).position);
        let moved = done.breakdown.seek + done.breakdown.rotate + done.breakdown.transfer;
        predictions.push(PredictedAccess {
            response: done.finished.saturating_since(issued),
            breakdown: done.breakdown,
            served: if moved.is_zero() { Served::Cache } else { Served::Media },
            cylinders: from.zip(to).map(|(from, to)| from.cylinder.abs_diff(to.cylinder)),
            completion_angle: mechanism.angle_at(done.finished),
        });
    }
    Ok(Replayed { predictions, capacity })
}

/// Runs one command from submission to report; background work of the drive continues.
fn serve(
    drive: &mut SimulatedDrive,
    issued: Instant,
    id: CommandId,
    op: Op,
    extent: Extent,
) -> DriveCompletion {
    drive.submit(
        issued,
        &Command { id, op, extent, fua: false, background: None, requests: SmallVec::new() },
    );
    let mut reports = Vec::with_capacity(1);
    loop {
        let at = drive.next_event().expect("a drive that holds a command has something to happen");
        drive.advance(at, &mut reports);
        if let Some(done) = reports.pop() {
            return done;
        }
    }
}

/// Recorded time as virtual time: advanced by whole revolutions whenever the simulated drive is
/// busy.
struct ReplayClock {
    period: RotationPeriod,
    start: Nanos,
    turns: u64,
    free: Instant,
}

impl ReplayClock {
    fn at(&mut self, recorded: Instant) -> Instant {
        let on_time = |turns| recorded + self.start + self.period.time_of_turns(turns, 1);
        let late = self.free.saturating_since(on_time(self.turns));
        self.turns +=
            (u128::from(late.as_ns()) * 1_000_000).div_ceil(u128::from(self.period.as_fs())) as u64;
        // The revolutions' time is rounded once in total; a nanosecond may be missing.
        on_time(self.turns).max(self.free)
    }
}

/// Only the angle at the origin depends on it, which is fitted or arbitrary.
const PHASE_SEED: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_put_forward_by_whole_turns_and_no_more_than_needed() {
        let period = RotationPeriod::from_fs(6_000_000_000_000).unwrap();
        let mut clock =
            ReplayClock { period, start: Nanos::from_ms(1), turns: 0, free: Instant::ORIGIN };
        let ms = |ms: u64| Instant::from_ns(ms * 1_000_000);
        assert_eq!(clock.at(ms(5)), ms(6), "free long since");
        clock.free = ms(13);
        assert_eq!(clock.at(ms(7)), ms(14), "5 ms late: one turn");
        clock.free = ms(14);
        assert_eq!(clock.at(ms(7)), ms(14), "just in time");
        clock.free = ms(50);
        assert_eq!(clock.at(ms(10)), ms(53), "33 ms late: six turns more");
        assert_eq!(clock.turns, 7);
    }
}
