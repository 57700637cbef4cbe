//! [`Predicted`]: when the drive that was found completes a read, as a scheduler that believes the
//! profile would expect it.

use headtime_mechanics::{Direction, HeadPosition, InterfaceTimes, Mechanism};
use headtime_units::{Angle, Extent, Instant, Nanos, RotationPeriod, Sectors};

use crate::clock::Clock;
use crate::profile::DriveModel;
use crate::session::{Attempt, DriveTiming, Interruption};

/// The mechanism of what is known, turned to the clock.
pub(crate) struct Predicted {
    mechanism: Mechanism,
    interface: InterfaceTimes,
    period: RotationPeriod,
}

impl Predicted {
    /// What is known by now; hopeless when it makes no drive.
    pub(crate) fn new(model: &DriveModel<'_>, drive: &DriveTiming) -> Attempt<Self> {
        let hopeless =
            |error: headtime_mechanics::ProfileError| Interruption::Failed(error.to_string());
        let profile = model.profile(drive).map_err(hopeless)?;
        let mechanism = Mechanism::nominal(&profile).map_err(hopeless)?;
        let interface = InterfaceTimes::from_profile(&profile).map_err(hopeless)?;
        let period = RotationPeriod::from_fs(libm::round(drive.clock.period_ns() * 1e6) as u64);
        let period = period.ok_or_else(|| {
            Interruption::Failed(format!(
                "a period of {} ns is no drive's",
                drive.clock.period_ns()
            ))
        })?;
        Ok(Self { mechanism, interface, period })
    }

    /// From the last sector's end under the head until the host knows, on a bus that keeps up.
    fn after_media(&self) -> Nanos {
        self.interface.bus_time(Sectors::new(1)) + self.interface.completion_overhead()
    }

    /// The platter stands as it did when a command completed, so many turns after the anchor.
    pub(crate) fn turn_to(&mut self, turns: f64, completed: Instant) {
        // One sector that passes on the media in time is one completed.
        let media_end = self.media_end(completed);
        let phase =
            Angle::from_turns(turns) - self.period.angle_of(Nanos::from_ns(media_end.as_ns()));
        self.mechanism.set_rotation(self.period, phase);
    }

    /// The platter stands as the clock says.
    pub(crate) fn follow(&mut self, clock: &Clock, at: Instant) {
        self.turn_to(clock.turns_at(at), at);
    }

    /// When the last sector of a command that completed had passed.
    pub(crate) fn media_end(&self, completed: Instant) -> Instant {
        completed.saturating_back(self.after_media())
    }

    /// Where the head is behind an extent.
    pub(crate) fn behind(&self, extent: Extent) -> HeadPosition {
        self.mechanism.layout().track_of(extent.last()).into()
    }

    /// From the issue of a read until the arm may set out for it.
    pub(crate) fn overhead(&self) -> Nanos {
        self.interface.command_overhead(Direction::Read, Some(Direction::Read))
    }

    /// When a read completes for which the arm sets out at `depart`.
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
