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
//! own arm, as in drives with two arms that report them. The halves are characterized one after the
//! other: layout, arm and self-check of each; interface, cache, writes and queue once. Sectors of
//! the second half whose angles were read by the clock of the first set the clock of the second, so
//! that the angles of both have one zero.
//!
//! Worked example, 7,200 rpm: of 24 third reads 9 take 0.1 to 3.3 ms with two arms; with one arm
//! the quickest takes 9 ms.
//!
//! Not found: arms that share addresses otherwise, more than two arms. Drives of fewer than
//! [`MIN_SECTORS`] are assumed to have one arm. Cost: a second, with two arms three, and then as
//! much for the second as for the first. Source: ours.

use serde::{Deserialize, Serialize};

use crate::numbers::{part, trimmed_mean, wrap};
use crate::session::{Attempt, ReferenceSector, Session};

/// Drives with two arms are larger (the first that were sold have 14 TB).
const MIN_SECTORS: u64 = 1 << 30;
/// The number of third reads of one comparison, and how many have to be quick.
const TRIES: usize = 24;
const MIN_QUICK: usize = 3;
/// The response of a quick read, in revolutions.
const QUICK_TURNS: f64 = 0.4;
/// The largest distance of the third sector before the first.
const NEAR: u64 = 64;
/// The number of sectors that set the clock of the second arm, and how often each is read.
const REFERENCES: u64 = 8;
const READINGS: usize = 4;

/// The result of looking for a second arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ActuatorResult {
    pub(crate) searched: bool,
    /// There are two arms, each with its half of the addresses.
    pub(crate) two: bool,
    /// Sectors of the second arm, counted from its first, that set the clock; none before they were
    /// read.
    pub(crate) references: Option<Vec<ReferenceSector>>,
}

impl ActuatorResult {
    /// True if a second arm is to be looked for on a drive of this capacity.
    pub(crate) fn is_due(&self, capacity: u64) -> bool {
        !self.searched && capacity >= MIN_SECTORS
    }

    /// True if the sectors that set the clock of the second arm are to be read.
    pub(crate) fn needs_references(&self) -> bool {
        self.two && self.references.is_none()
    }
}

/// Looks for a second arm. If there is one, the experiments use the first arm's half from now on.
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
            the other"
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
        let third = session.until_undisturbed(|session| {
            session.read_followed(place, 1)?;
            session.read_followed(elsewhere, 1)?;
            let before = place - 1 - session.random.below(NEAR);
            session.read_at_once(before, 1)
        })?;
        let from_media = third.succeeded() && !session.may_be_hit(&third);
        quick +=
            usize::from(from_media && (third.response().as_ns() as f64) < QUICK_TURNS * period_ns);
    }
    Ok(quick >= MIN_QUICK)
}

/// Reads the angles of sectors all over the second half, by the clock of the first.
pub(crate) fn read_references(
    session: &mut Session,
    actuators: &mut ActuatorResult,
) -> Attempt<()> {
    let half = session.drive.capacity;
    // So many that the cache does not hold one until its next turn.
    let count = REFERENCES.max(session.drive.hits.eviction_reads).min(half);
    let spaced = half / count;
    let lbas: Vec<u64> =
        (0..count).map(|number| number * spaced + session.random.below(spaced)).collect();
    let mut seen = vec![Vec::new(); lbas.len()];
    // Allow reads of the other half meanwhile.
    session.drive.capacity = 2 * half;
    for _ in 0..READINGS {
        for (lba, seen) in lbas.iter().zip(&mut seen) {
            seen.extend(session.try_angle(half + lba)?.map(|sample| sample.turns));
        }
    }
    session.drive.capacity = half;
    let references = lbas.into_iter().zip(seen).filter_map(|(lba, turns)| {
        let first = *turns.first()?;
        let later: Vec<f64> = turns.iter().map(|turns| wrap(turns - first)).collect();
        Some(ReferenceSector { lba, turns: part(first + trimmed_mean(&later).0) })
    });
    actuators.references = Some(references.collect());
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
