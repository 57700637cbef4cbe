//! A zone that seemed to end, but continues after spares.
//!
//! Spares that fill most of a track, or more than one, cannot be counted if times are noisy; if
//! times are quiet, `explain` finds them. The search takes them for the end of a zone, and what
//! begins after them for the next one. If that has as many sectors per track, and its tracks lie
//! where those of the zone before would after some more sectors, these are spares. The second such
//! place then shows groups of spares.
//!
//! Worked example, 1,000 sectors per track, steps of 0.1: the zone ends at sector 14,480, and what
//! follows begins at the angle of its 16th track. So 520 sectors of the 15th are spares, unless so
//! many slips are likely up to there.

use super::LayoutResult;
use super::border::MIN_DEVIATION;
use super::explain::{MAX_SPARE_TRACKS, MIN_SPARES, possible_end, step_over};
use super::track_angle::is_within;
use super::walk::{likely, record_skip};
use super::zone_model::{Pattern, Skip, ZoneModel};
use super::zone_start::out_of_reach;
use crate::numbers::wrap;
use crate::session::{Attempt, QUIET_TURNS, Session};

/// The tracks after the spares that have to be as predicted. Those of another zone deviate more and
/// more.
const CONTINUED: [u64; 3] = [2, 5, 8];

/// The last zone without its end, if spares lie there and `next` continues it.
pub(super) fn rejoin(
    session: &mut Session,
    layout: &LayoutResult,
    next: &ZoneModel,
) -> Attempt<Option<ZoneModel>> {
    let Some(before) = layout.zones.last() else { return Ok(None) };
    let sectors = before.sectors_per_track;
    let is_same = !before.unknown
        && before.end_lba == Some(next.first_lba)
        && (before.pattern, sectors) == (next.pattern, next.sectors_per_track);
    let is_quiet = session.drive.noise_turns() < QUIET_TURNS;
    // What ended again where it was rejoined does end there.
    let is_new = before.rejoined_at != Some(next.first_lba);
    let is_open = before.groups.is_none() && before.last_band.is_none();
    if is_quiet || !is_same || !is_new || !is_open {
        return Ok(None);
    }
    let mut open = before.clone();
    (open.end_lba, open.next_sectors, open.mismatch) = (None, None, None);
    open.rejoined_at = Some(next.first_lba);
    let last = next.first_lba - 1;
    let (end, last_track) = (open.physical(last) + 1, open.track_of(last));
    // Where the number of surfaces is another one, a band may end with any unit.
    let unit = match open.pattern.unit {
        Pattern::NEVER.. => 1,
        unit => unit,
    };
    let fewest = MIN_SPARES.max(likely(layout, &open, last_track).unsigned_abs() + 1);
    let angle = next.track_angle(next.first_track());
    for track in last_track + 1..=last_track + MAX_SPARE_TRACKS {
        let spares = track * sectors - end;
        if !track.is_multiple_of(unit) || spares < fewest {
            continue;
        }
        let skip = Skip { lba: next.first_lba, sectors: spares, approximate: false };
        let mut after = open.clone();
        record_skip(&mut after, skip);
        let mut fits = wrap(after.track_angle(track) - angle).abs() <= MIN_DEVIATION;
        for track in CONTINUED.map(|further| track + further) {
            fits = fits
                && !out_of_reach(session, &after, track)
                && is_within(session, &mut after, track, MIN_DEVIATION)?;
        }
        if fits {
            step_over(&mut open, track, skip);
            // A zone of cylinders ends at spares that show no groups.
            return Ok(possible_end(&open).is_none().then_some(open));
        }
    }
    Ok(None)
}
