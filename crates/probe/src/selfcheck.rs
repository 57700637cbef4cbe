//! The self-check: reads that nothing was learned from, foretold by the profile that was found.
//!
//! Each read of 4 KiB starts somewhere at random when the one before has completed. The mechanism of the profile, turned to the clock's phase, says when it
//! should complete; the differences are what a scheduler that believes the profile would see.

use headtime_mechanics::{Direction, HeadPosition, InterfaceTimes, Mechanism};
use headtime_units::{Angle, Extent, Instant, Nanos, RotationPeriod, Sectors};
use serde::{Deserialize, Serialize};

use crate::finding::{Check, profile_of};
use crate::numbers::median;
use crate::session::{Seen, Session, Step, Stop};

/// Reads of one step.
const READS: usize = 100;
/// Reads of the whole check.
pub(crate) const ALL_READS: usize = 2_000;

/// The differences so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckFound {
    /// Completed less foretold, us.
    errors_us: Vec<f64>,
    hits: u64,
    missed: u64,
    pub(crate) done: bool,
}

impl CheckFound {
    pub(crate) fn check(&self) -> Check {
        let count = self.errors_us.len().max(1) as f64;
        let within = |us: f64| self.errors_us.iter().filter(|error| error.abs() <= us).count() as f64 / count;
        Check {
            reads: self.errors_us.len() as u64,
            hits: self.hits,
            within_50_us: within(50.0),
            within_150_us: within(150.0),
            turn_missed: self.missed as f64 / count,
            median_error_us: median(&self.errors_us.iter().map(|error| error.abs()).collect::<Vec<_>>()),
        }
    }
}

/// Some more reads; true when there are enough.
pub(crate) fn extend(session: &mut Session, sector_bytes: u32) -> Step<bool> {
    let sectors = u64::from(4_096 / sector_bytes).max(1).min(session.know.capacity);
    let mut seen: Vec<(Seen, bool)> = Vec::new();
    for _ in 0..READS {
        session.keep_clock()?;
        let lba = session.draw.below(session.know.capacity - sectors + 1);
        let answer = session.read_at_once(lba, sectors)?;
        let hit = session.may_be_hit(&answer) || !answer.succeeded();
        seen.push((Seen { turns: session.know.clock.turns_at(answer.completed), answer }, hit));
    }
    let profile = profile_of(&session.know, sector_bytes).map_err(|error| Stop::Hopeless(error.to_string()))?;
    let mut mechanism = Mechanism::nominal(&profile).map_err(|error| Stop::Hopeless(error.to_string()))?;
    let interface = InterfaceTimes::from_profile(&profile).map_err(|error| Stop::Hopeless(error.to_string()))?;
    let period = RotationPeriod::from_fs(libm::round(session.know.clock.period_ns() * 1e6) as u64);
    let period = period.ok_or_else(|| Stop::Hopeless(format!("a period of {} ns is no drive's", session.know.clock.period_ns())))?;
    let after_media = interface.bus_time(Sectors::new(1)) + interface.completion_overhead();
    let mut found = session.know.check.clone().unwrap_or_default();
    for pair in seen.windows(2) {
        let [(before, before_hit), (now, hit)] = pair else { continue };
        if *hit || *before_hit || now.answer.issued.saturating_since(before.answer.completed) > Nanos::from_us(500) {
            found.hits += u64::from(*hit);
            continue;
        }
        // The platter stood so when the last one completed; one sector passed on the media in time is one completed.
        let media_end = before.answer.completed.saturating_back(after_media);
        let phase = Angle::from_turns(before.turns) - period.angle_of(Nanos::from_ns(media_end.as_ns()));
        mechanism.set_rotation(period, phase);
        let from: HeadPosition = mechanism.layout().track_of(before.answer.extent.last()).into();
        let issued = now.answer.issued;
        let depart = issued + interface.command_overhead(Direction::Read, Some(Direction::Read));
        let foretold = completion(&mechanism, &interface, from, depart, now.answer.extent);
        let error_ns = now.answer.completed.signed_since(foretold) as f64;
        let turn = session.know.clock.period_ns();
        found.missed += u64::from(libm::fabs(error_ns) > turn / 2.0);
        found.errors_us.push(error_ns / 1e3);
    }
    found.done = found.errors_us.len() >= ALL_READS;
    let done = found.done;
    session.know.check = Some(found);
    Ok(done)
}

fn completion(mechanism: &Mechanism, interface: &InterfaceTimes, from: HeadPosition, depart: Instant, extent: Extent) -> Instant {
    let access = mechanism.access(from, depart, Direction::Read, extent, Instant::ORIGIN);
    interface.read_completed(access.first_sector, access.finish, extent.len, Instant::ORIGIN)
}
