//! [`Predicted`]: the completion times that a scheduler with the measured profile would expect.

use headtime_mechanics::{Direction, HeadPosition, InterfaceTimes, Mechanism};
use headtime_units::{Angle, Extent, Instant, Nanos, RotationPeriod, Sectors};

use crate::clock::Clock;
use crate::profile::DriveModel;
use crate::session::{Attempt, DriveTiming, Interruption};

/// The mechanism of the profile, set to the clock's phase.
pub(crate) struct Predicted {
    mechanism: Mechanism,
    interface: InterfaceTimes,
    period: RotationPeriod,
}

impl Predicted {
    /// The predictions of the results so far; an error if they make no valid profile.
    pub(crate) fn new(model: &DriveModel<'_>, drive: &DriveTiming) -> Attempt<Self> {
        let hopeless =
            |error: headtime_mechanics::ProfileError| Interruption::Failed(error.to_string());
        let profile = model.profile(drive).map_err(hopeless)?;
        let mechanism = Mechanism::nominal(&profile).map_err(hopeless)?;
        let interface = InterfaceTimes::from_profile(&profile).map_err(hopeless)?;
        let period = RotationPeriod::from_fs(libm::round(drive.clock.period_ns() * 1e6) as u64);
        let period = period.ok_or_else(|| {
            Interruption::Failed(format!(
                "a period of {} ns is out of range",
                drive.clock.period_ns()
            ))
        })?;
        Ok(Self { mechanism, interface, period })
    }

    /// From the end of the last sector until its completion, on a bus that keeps up.
    fn after_media(&self) -> Nanos {
        self.interface.bus_time(Sectors::new(1)) + self.interface.completion_overhead()
    }

    /// Sets the platter as it stood at a completion, `turns` revolutions after the reference angle.
    pub(crate) fn turn_to(&mut self, turns: f64, completed: Instant) {
        // A single sector on a bus that keeps up completes with its end on the media.
        let media_end = self.media_end(completed);
        let phase =
            Angle::from_turns(turns) - self.period.angle_of(Nanos::from_ns(media_end.as_ns()));
        self.mechanism.set_rotation(self.period, phase);
    }

    /// Sets the platter as the clock shows.
    pub(crate) fn follow(&mut self, clock: &Clock, at: Instant) {
        self.turn_to(clock.turns_at(at), at);
    }

    /// The time at which the last sector of a completed command had passed.
    pub(crate) fn media_end(&self, completed: Instant) -> Instant {
        completed.saturating_back(self.after_media())
    }

    /// The position of the head after an extent.
    pub(crate) fn head_after(&self, extent: Extent) -> HeadPosition {
        self.mechanism.layout().track_of(extent.last()).into()
    }

    /// The time from the issue of a read until the arm may start.
    pub(crate) fn overhead(&self) -> Nanos {
        self.interface.command_overhead(Direction::Read, Some(Direction::Read))
    }

    /// The completion of a read for which the arm starts at `depart`.
    pub(crate) fn completion(
        &self,
        from: HeadPosition,
        depart: Instant,
        extent: Extent,
    ) -> Instant {
        let access = self.mechanism.access(from, depart, Direction::Read, extent, Instant::ORIGIN);
        self.interface.read_completed(
            access.first_sector,
            access.finish,
            extent.len,
            Instant::ORIGIN,
        )
    }
}
