//! Readings of track angles, and their comparison with a zone's prediction.

use super::border::MIN_DEVIATION;
use super::zone_model::ZoneModel;
use super::zone_start::out_of_reach;
use crate::numbers::{median, part, wrap};
use crate::session::{Attempt, Interruption, QUIET_TURNS, Session};

/// The angle of a track: the median of as many readings as the noise requires.
pub(crate) fn track_angle(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<f64> {
    track_angle_seen(session, zone, track, &mut Vec::new())
}

/// The number of readings that the noise requires.
pub(super) fn readings(session: &Session) -> usize {
    let noise = session.drive.noise_turns();
    if noise < 0.001 || session.drive.hits.keeps_tracks {
        1
    } else if noise < 0.003 {
        3
    } else {
        5
    }
}

/// Like [`track_angle`]; adds the readings to `seen`.
fn track_angle_seen(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    seen: &mut Vec<(u64, f64)>,
) -> Attempt<f64> {
    let mut angles = Vec::new();
    for _ in 0..readings(session) {
        let (lba, angle) = one_angle(session, zone, track, false)?;
        seen.push((lba, part(angle + zone.track_part(lba))));
        angles.push(angle);
    }
    let around: Vec<f64> = angles.iter().map(|angle| wrap(angle - angles[0])).collect();
    Ok(part(angles[0] + median(&around)))
}

/// The angle of a track by one reading of a random sector in its middle that is not cached, with
/// its address. An earlier reading may be used unless `again` is set.
fn one_angle(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
    again: bool,
) -> Attempt<(u64, f64)> {
    if zone.middle_of(track) >= session.drive.capacity {
        return Err(Interruption::Failed(format!(
            "track {track} of the zone from {} on lies after the drive's end",
            zone.first_lba
        )));
    }
    let sectors = zone.sectors_per_track;
    let (start, end) = (zone.track_start(track), zone.track_start(track + 1));
    let any = |session: &mut Session| {
        let within = session.random.below((2 * sectors / 3).max(1));
        let lba = zone.lba_from(track * sectors + sectors / 6 + within);
        // Spares may take most of the track.
        if lba < end || start == end { lba } else { start + within % (end - start) }
    };
    let mut first = true;
    for _ in 0..4 {
        // If the drive keeps whole tracks, an earlier reading of the track is as good, and no other
        // is available.
        if session.drive.hits.keeps_tracks
            && !core::mem::take(&mut first)
            && !again
            && let Some((lba, seen)) =
                session.recent_angle(zone.track_start(track), zone.track_start(track + 1))
        {
            return Ok((lba, part(seen.turns - zone.track_part(lba))));
        }
        let lba = any(session).min(session.drive.capacity - 1);
        if let Some(seen) = session.try_angle(lba)? {
            return Ok((lba, part(seen.turns - zone.track_part(lba))));
        }
    }
    let lba = any(session).min(session.drive.capacity - 1);
    Ok((lba, part(session.angle(lba)?.turns - zone.track_part(lba))))
}

/// The distance of a track at which those of another zone deviate, if the next one does not.
const APART: u64 = 16;

/// True if a track and some after it lie where a zone predicts, or all deviate equally, as skipped
/// sectors move them. The tracks of another zone deviate the more the further they lie.
pub(crate) fn continues(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<bool> {
    let mut offs = Vec::new();
    for track in [track, track + 1, track + APART, track + APART + 1] {
        if out_of_reach(session, zone, track) {
            return Ok(false);
        }
        offs.push(wrap(track_angle(session, zone, track)? - zone.track_angle(track)));
    }
    Ok(offs.iter().all(|off| wrap(off - offs[0]).abs() <= MIN_DEVIATION))
}

/// The step to a track from the one before, measured several times.
pub(crate) fn step_before(session: &mut Session, zone: &ZoneModel, track: u64) -> Attempt<f64> {
    Ok(step_seen(session, zone, track)?.0)
}

/// Like [`step_before`], with the readings. A fit over longer distances needs them, because the
/// error of one step compensates that of another.
pub(super) fn step_seen(
    session: &mut Session,
    zone: &ZoneModel,
    track: u64,
) -> Attempt<(f64, Vec<(u64, f64)>)> {
    // If the drive keeps whole tracks, repeated readings would come from the cache.
    let times = if session.drive.hits.keeps_tracks && session.drive.noise_turns() < QUIET_TURNS {
        1
    } else {
        3
    };
    let (mut steps, mut seen) = (vec![0.0; times], Vec::new());
    // Tracks between the two may be spares.
    let before = zone.used_track(track - 1);
    let between = zone.track_angle(track - 1) - zone.track_angle(before);
    for step in &mut steps {
        let after = track_angle_seen(session, zone, track, &mut seen)?;
        *step = part(after - track_angle_seen(session, zone, before, &mut seen)? - between);
    }
    // Unwrapped around the first, so that a step near a whole revolution has a median.
    let around: Vec<f64> = steps.iter().map(|step| wrap(step - steps[0])).collect();
    Ok((part(steps[0] + median(&around)), seen))
}

/// True if a track lies where the zone predicts, in one of three tries; the zone is then fitted to
/// it.
pub(crate) fn is_as_predicted(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
) -> Attempt<bool> {
    is_within(session, zone, track, MIN_DEVIATION)
}

/// Like [`is_as_predicted`], within `allowed` revolutions.
pub(super) fn is_within(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
    allowed: f64,
) -> Attempt<bool> {
    for attempt in 0..3 {
        let (_, angle) = one_angle(session, zone, track, attempt > 0)?;
        if wrap(angle - zone.track_angle(track)).abs() <= allowed {
            zone.add_angle(track, angle);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Like [`is_within`], by the median of several readings if times are noisy. A single reading that
/// is late by less than a skew would be accepted, and mislead all later ones at twice the distance
/// each. If the drive keeps whole tracks, repeating a reading would cost too much.
pub(super) fn is_surely_as_predicted(
    session: &mut Session,
    zone: &mut ZoneModel,
    track: u64,
    allowed: f64,
) -> Attempt<bool> {
    if session.drive.hits.keeps_tracks {
        return is_within(session, zone, track, allowed);
    }
    for _ in 0..2 {
        let mut seen = Vec::new();
        let angle = track_angle_seen(session, zone, track, &mut seen)?;
        if wrap(angle - zone.track_angle(track)).abs() <= allowed {
            // Fit to all readings, as for the first step: noise delays completions, so the median
            // of a few is earlier than their mean.
            seen.retain(|(lba, turns)| wrap(turns - zone.angle(*lba)).abs() <= 2.0 * allowed);
            zone.readings.extend(seen);
            zone.fit_last_readings();
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::profile::Zone;
    use headtime_sim::DriveTruth;

    #[test]
    fn a_zone_of_little_shorter_tracks_does_not_continue_the_one_before() {
        let mut profile = plain("cheetah10k7");
        let (first, second) = (profile.zones[0].clone(), &mut profile.zones[1]);
        *second = Zone {
            first_cylinder: second.first_cylinder,
            cylinders: second.cylinders,
            sectors_per_track: first.sectors_per_track - first.sectors_per_track / 100,
            ..first
        };
        let mut bench = Bench::new(DriveTruth::nominal(&profile, 1).expect("a drive"));
        let zone = bench.results.layout.zones[0].clone();
        let beyond = zone.track_of(zone.end_lba.expect("a first zone"));
        for (from, expected) in [(beyond / 2, true), (beyond, false)] {
            for number in 0..20 {
                let track = from + 10 + 43 * number;
                let found = bench.run(1, |session, _| continues(session, &zone, track));
                assert_eq!(found, expected, "seed 1, track {track} of {beyond}");
            }
        }
    }
}
