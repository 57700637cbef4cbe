//! Groups of tracks with spares of their own.
//!
//! Spares that recur show groups. A further zone is presumed to have the groups of a zone before,
//! if one of them ends where its first sectors say. It may begin anywhere in one: in the middle of
//! a cylinder or band, which its steps show, and some cylinders or bands after the group does,
//! which the end of the group shows.

use super::border::{CountAt, count};
use super::explain::MIN_SPARES;
use super::zone_model::{Pattern, SpareGroups, UsualGroups, ZoneModel};
use super::zone_start::out_of_reach;
use crate::numbers::wrap;
use crate::session::{Attempt, Session};

/// The largest deviation of two neighboring sectors of a track: in sectors, and in deviations of a
/// reading.
const SAME_TRACK: f64 = 1.5;
const JUMP_NOISE: f64 = 8.0;

/// Lets a zone have the groups of a zone before, with the number of spares for which the angle
/// jumps from one sector to the next where the first group ends; no groups if it does for none. The
/// zone may begin some cylinders or bands later in a group than in one of them.
pub(super) fn presume_groups(
    session: &mut Session,
    zone: &mut ZoneModel,
    usual: UsualGroups,
) -> Attempt<()> {
    let length = zone.sectors_per_track;
    let usually = usual.spares_in(length);
    zone.usual_groups = Some((usual.tracks, usually));
    // A share may have been rounded up.
    let mut numbers = vec![usually[0], usually[1], usually[0].min(usually[1]) + 1];
    numbers.dedup();
    for spares in numbers {
        let groups = SpareGroups { lbas: usual.tracks * length - spares, spares };
        let before = if usual.tracks == 1 { Some(0) } else { before(session, zone, groups)? };
        if let Some(before) = before {
            zone.reserved += before * length;
            zone.usual_groups = Some((usual.tracks, [spares; 2]));
            (zone.groups, zone.groups_presumed) = (Some(groups), true);
            return Ok(());
        }
    }
    Ok(())
}

/// The tracks of the first group of a zone that lie before it, in addition to those that the zone
/// knows of: whole cylinders or bands; none if no such group ends. After the end of a group, tracks
/// begin where they would if the group ended with one of them, so the first such end counts.
fn before(session: &mut Session, zone: &ZoneModel, groups: SpareGroups) -> Attempt<Option<u64>> {
    let (end, length) = (zone.group_start(groups, 1), zone.sectors_per_track);
    let ends_at = |session: &mut Session, before: u64| {
        jumps_at(session, zone, end.saturating_sub(before * length))
    };
    let (is_end, unit) = (ends_at(session, 0)?, zone.pattern.period());
    let others = ((groups.lbas + groups.spares) / length - 1).saturating_sub(zone.first_track());
    if groups.spares.is_multiple_of(length) {
        // Spares of whole tracks do not move the tracks after them.
    } else if unit >= Pattern::NEVER {
        // The group may end with any track: bisection finds the first.
        let (mut found, mut beyond) = (0, others + 1);
        while is_end && beyond - found > 1 {
            let middle = found + (beyond - found) / 2;
            if ends_at(session, middle)? { found = middle } else { beyond = middle }
        }
        return Ok(is_end.then_some(found));
    } else if !is_end || ends_at(session, unit)? {
        for units in (1..=others / unit).rev() {
            if ends_at(session, units * unit)? {
                return Ok(Some(units * unit));
            }
        }
    }
    Ok(is_end.then_some(0))
}

/// True if an address lies at the beginning of a track.
fn jumps_at(session: &mut Session, zone: &ZoneModel, lba: u64) -> Attempt<bool> {
    if lba <= zone.first_lba || lba >= session.drive.capacity {
        return Ok(false);
    }
    let length = zone.sectors_per_track as f64;
    // Backwards, so that nothing was read ahead.
    let after = session.angle_of_track(lba, length)?.turns;
    let before = session.angle_of_track(lba - 1, length)?.turns;
    let least = (SAME_TRACK / length).max(JUMP_NOISE * session.drive.noise_turns());
    Ok(wrap(after - before - 1.0 / length).abs() > least)
}

/// The spares of each track, if each has its own.
pub(super) fn on_each_track(groups: Option<UsualGroups>) -> u64 {
    groups.filter(|groups| groups.tracks == 1).map_or(0, |groups| groups.spares)
}

/// The tracks of the first group of a zone before its first address, where all steps are alike and
/// so do not show them; none if the group ends where it is presumed to.
pub(super) fn tracks_before_group(session: &mut Session, zone: &ZoneModel) -> Attempt<Option<u64>> {
    let Some(groups) = zone.groups.filter(|_| zone.pattern.unit >= Pattern::NEVER) else {
        return Ok(None);
    };
    let tracks = (groups.lbas + groups.spares) / zone.sectors_per_track;
    // True if the spares lie before the end of a track.
    let is_after = |session: &mut Session, track: u64| {
        let counted = count(session, zone, track, CountAt::Track)?;
        Ok(counted.is_some_and(|(extra, _)| extra >= groups.spares as i64))
    };
    let (mut low, mut high) = (zone.first_track(), tracks.saturating_sub(2));
    if high <= low || out_of_reach(session, zone, high) || !is_after(session, high)? {
        return Ok(None);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_after(session, middle)? { high = middle } else { low = middle }
    }
    // A count of many spares fails on the last track of the group.
    let is_next = jumps_at(session, zone, zone.track_start(high) - groups.spares)?;
    Ok(Some(tracks - high - u64::from(!is_next)))
}

/// Detects groups: the second part of a zone has as many skipped sectors as an equally long first
/// part, and both end with a cylinder or band. If the first part is shorter, because sectors before
/// the first address belong to it, two parts after it show the groups. As many spares as in the
/// groups of a zone before show them at once.
pub(super) fn find_groups(zone: &mut ZoneModel, track: u64) {
    // Where all steps are alike, groups may end anywhere. Otherwise they end with a unit. Not every
    // such end has to be that of a band: the number of surfaces may be another one.
    let is_plain = zone.pattern.unit >= Pattern::NEVER;
    let (unit, period) = if is_plain { (1, 1) } else { (zone.pattern.unit, zone.pattern.period()) };
    if zone.groups.is_some() || !track.is_multiple_of(unit) {
        return;
    }
    let Some(last) = zone.skips.last().copied() else { return };
    // Slips of a group come from its spares, and a share of the tracks may be rounded either way.
    let spares =
        (track * zone.sectors_per_track).saturating_sub(last.lba - zone.first_lba + zone.reserved);
    if let Some((tracks, usual)) = zone.usual_groups
        && last.sectors >= MIN_SPARES
        && usual.iter().any(|usual| usual.abs_diff(spares) <= 1)
        && track <= tracks
        && (tracks - track).is_multiple_of(period)
    {
        // The first group of the zone, or the end of it, as those of a zone before.
        zone.retain_skips(|skip| skip.lba != last.lba);
        zone.begin_with_track(zone.first_track() + tracks - track);
        zone.groups = Some(SpareGroups { lbas: tracks * zone.sectors_per_track - spares, spares });
        return;
    }
    let sectors_between = |zone: &ZoneModel, from: u64, to: u64| -> u64 {
        let within = zone.skips.iter().filter(|skip| (from + 1..=to).contains(&skip.lba));
        within.map(|skip| skip.sectors).sum()
    };
    // The sectors before the zone are known up to whole units.
    let known = zone.reserved;
    for middle in zone.skips.clone() {
        let Some(lbas) = last.lba.checked_sub(middle.lba).filter(|lbas| *lbas > 0) else {
            continue;
        };
        let is_first = middle.lba - zone.first_lba + known == lbas;
        let start = if is_first {
            zone.first_lba
        } else {
            let before = middle.lba.checked_sub(lbas);
            match before.filter(|start| zone.skips.iter().any(|skip| skip.lba == *start)) {
                Some(start) => start,
                None => continue,
            }
        };
        let spares = sectors_between(zone, start, middle.lba);
        if spares < MIN_SPARES
            || spares != sectors_between(zone, middle.lba, last.lba)
            || start - zone.first_lba > lbas
        {
            continue;
        }
        let reserved = if is_first { known } else { lbas - (start - zone.first_lba) };
        let moved = reserved.abs_diff(known);
        if reserved < known && !is_plain || !moved.is_multiple_of(period * zone.sectors_per_track) {
            continue;
        }
        let ends = [start, middle.lba, last.lba];
        zone.retain_skips(|skip| !ends.contains(&skip.lba));
        zone.begin_with_track(reserved / zone.sectors_per_track);
        zone.groups = Some(SpareGroups { lbas, spares });
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::zone_model::Skip;

    #[test]
    fn groups_end_with_any_unit_as_the_number_of_surfaces_may_be_another_one() {
        let mut zone = ZoneModel::new(Pattern { unit: 50, units: 13 }, 0, 100);
        for number in 1..=2 {
            zone.skip(Skip { lba: number * 4_990, sectors: 10, approximate: false });
            find_groups(&mut zone, number * 50);
        }
        assert_eq!(zone.groups, Some(SpareGroups { lbas: 4_990, spares: 10 }));
        assert!(zone.skips.is_empty());
    }
}
