//! Detection of two arms, each serving its own half of the addresses.
//!
//! *By seeks that do not happen.* A sector of one region is read, then one of a region far away,
//! then one of the first region again, just before the first sector. With one arm the third read
//! seeks back all the way, and takes most of a revolution or longer. An arm that only serves its
//! own region has stayed in place: the third read only waits for its sector, less than four tenths
//! of a revolution in four of ten tries.
//!
//! The last eighth of the drive is compared with the first in this way. If that shows two arms, so
//! must the two sides of the middle, but not the two ends of either half. Then each half has its
//! own arm, as in drives with two arms that report them. One half is characterized, and the other
//! assumed to be alike; angles are compared at some sectors all over it.
//!
//! Worked example, 7,200 rpm: of 24 third reads 9 take 0.1 to 3.3 ms with two arms; with one arm
//! the quickest takes 9 ms.
//!
//! Not found: arms that share addresses otherwise, more than two arms, a second arm with another
//! layout (a remark reports it). Drives of fewer than [`MIN_SECTORS`] are assumed to have one arm.
//! Cost: a second, with two arms three. Source: ours.

use serde::{Deserialize, Serialize};

use crate::layout::{LayoutResult, MIN_DEVIATION};
use crate::numbers::wrap;
use crate::session::{Attempt, Session};

/// Drives with two arms are larger (the first that were sold have 14 TB).
const MIN_SECTORS: u64 = 1 << 30;
/// The number of third reads of one comparison, and how many have to be quick.
const TRIES: usize = 24;
const MIN_QUICK: usize = 3;
/// The response of a quick read, in revolutions.
const QUICK_TURNS: f64 = 0.4;
/// The largest distance of the third sector before the first.
const NEAR: u64 = 64;
/// The number of sectors of the second arm that are compared, and the share that has to be alike.
const COMPARED: usize = 48;
const ALIKE: f64 = 0.9;

/// The result of looking for a second arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ActuatorResult {
    pub(crate) searched: bool,
    /// There are two arms; all results are of the first.
    pub(crate) two: bool,
    pub(crate) compared: bool,
}

impl ActuatorResult {
    /// True if a second arm is to be looked for on a drive of this capacity.
    pub(crate) fn is_due(&self, capacity: u64) -> bool {
        !self.searched && capacity >= MIN_SECTORS
    }

    /// True if the second arm is to be compared with the first.
    pub(crate) fn is_due_for_comparison(&self) -> bool {
        self.two && !self.compared
    }
}

/// Looks for a second arm. If there is one, all later experiments use the first arm's half only.
pub(crate) fn find(session: &mut Session, actuators: &mut ActuatorResult) -> Attempt<()> {
    actuators.searched = true;
    let capacity = session.drive.capacity;
    let (half, eighth) = (capacity / 2, capacity / 8);
    if !are_apart(session, 0, capacity - eighth)? {
        return Ok(());
    }
    let small = eighth / 8;
    let has_anchor = session.drive.references.iter().any(|anchor| anchor.lba < half);
    let halves = has_anchor
        && are_apart(session, half - small, half)?
        && !are_apart(session, 0, half - eighth)?
        && !are_apart(session, half, capacity - eighth)?;
    if !halves || !capacity.is_multiple_of(2) {
        session.remark(
            "two arms serve the drive, but not each its half of the \
            addresses; such a drive is not understood",
        );
        return Ok(());
    }
    actuators.two = true;
    session.drive.capacity = half;
    // Keep the reference sectors of this half only.
    session.drive.references.retain(|anchor| anchor.lba < half);
    session.drive.next_reference = 0;
    session.remark(format!(
        "two arms: sectors up to {half} are served by one, those from there on by \
            the other; the first was measured and checked"
    ));
    Ok(())
}

/// True if the arm that serves the sectors after `one` stays there while those after `other`, as
/// far away as they are, are read.
fn are_apart(session: &mut Session, one: u64, other: u64) -> Attempt<bool> {
    let reach = session.drive.capacity / 64;
    let period_ns = session.drive.clock.period_ns();
    let mut quick = 0;
    for _ in 0..TRIES {
        session.keep_clock()?;
        let place = one + NEAR + session.random.below(reach - NEAR);
        let elsewhere = other + session.random.below(reach);
        session.read_at_once(place, 1)?;
        session.read_at_once(elsewhere, 1)?;
        let before = place - 1 - session.random.below(NEAR);
        let third = session.read_at_once(before, 1)?;
        let from_media = third.succeeded() && !session.may_be_hit(&third);
        quick +=
            usize::from(from_media && (third.response().as_ns() as f64) < QUICK_TURNS * period_ns);
    }
    Ok(quick >= MIN_QUICK)
}

/// Compares sectors of the second arm with those of the first at the same place in its half, as far
/// as the layout is known.
pub(crate) fn compare(
    session: &mut Session,
    layout: &LayoutResult,
    actuators: &mut ActuatorResult,
) -> Attempt<()> {
    actuators.compared = true;
    let half = session.drive.capacity;
    let known = layout
        .zones
        .last()
        .map_or(half, |last| last.end_lba.unwrap_or_else(|| last.track_start(last.checked)));
    let (mut seen, mut alike) = (0, 0);
    // Allow reads of the other half meanwhile.
    session.drive.capacity = 2 * half;
    for _ in 0..COMPARED {
        let lba = session.random.below(known.clamp(1, half));
        let Some(reading) = session.try_angle(half + lba)? else { continue };
        let Some(zone) = layout.zones.iter().rfind(|zone| zone.first_lba <= lba) else {
            continue;
        };
        seen += 1;
        alike += usize::from(wrap(reading.turns - zone.angle(lba)).abs() <= MIN_DEVIATION);
    }
    session.drive.capacity = half;
    if (alike as f64) < ALIKE * seen as f64 {
        session.remark(format!(
            "two arms: only {alike} of {seen} sectors of the second have the angles of those \
                of the first; the profile is not reliable for sectors from {half} on"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::DriveProfile;
    use headtime_sim::DriveTruth;

    #[test]
    fn two_arms_are_told_from_one() {
        for (name, two) in [("exos-2x18", true), ("nearline-20tb", false)] {
            let profile = DriveProfile { cache: None, ..plain(name) };
            for seed in 1..=3 {
                let mut bench = Bench::new(DriveTruth::draw(&profile, seed).unwrap());
                let capacity = bench.drive.capacity;
                bench.run(seed, |session, results| find(session, &mut results.actuators));
                assert_eq!(bench.results.actuators.two, two, "{name}, seed {seed}");
                assert_eq!(
                    bench.drive.capacity,
                    if two { capacity / 2 } else { capacity },
                    "{name}, seed {seed}"
                );
            }
        }
    }
}
