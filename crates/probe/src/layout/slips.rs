//! The places of slips, as far as time allows: counts halve the intervals that contain some, those
//! with the largest prediction errors first.
//!
//! During the walk of a zone, the slips of an interval were only counted and spread evenly over it.
//! An address in it may be wrong by as many sectors, typically by a third of them. A count in the
//! middle halves that. Groups with spares of their own that were not counted are assumed to have
//! the usual rate of slips until their end is counted. On a small drive this continues until the
//! track of each slip is known; on a large one until the remaining error is small beside the noise,
//! or the time is up.
//!
//! Worked example, 7,200 rpm, 1,000 sectors per track: 8 slips spread over 2 million sectors cause
//! an error of 2.7 sectors, 22 us; after three counts 1 sector, 8 us.

use super::LayoutResult;
use super::border::{CountAt, count};
use super::zone_model::ZoneModel;
use crate::results::Progress;
use crate::session::{Attempt, Session};
use serde::{Deserialize, Serialize};

/// The number of counts of one step, and of one plan.
const COUNTS: usize = 8;
const PLANNED: usize = 128;
/// The error that is small enough, ns, for steps and for slips too many to locate one by one; or
/// this share of a completion's noise.
const SLIGHT_NS: f64 = 4_000.0;
const SLIGHT_SHARE: f64 = 0.25;
/// The most slips that are located one by one (guess: a drive of 20 GB has fewer).
const FEW_SLIPS: f64 = 160.0;
/// The number of retries of a failed count, and the number of tracks between them.
const RETRIES: u64 = 2;
const APART: u64 = 3;
/// One in so many counts is left out of the usual number of slips (guess).
const OUTLIERS: usize = 20;
/// The number of tracks over which the reads of one count may be spread.
const ROOM: u64 = 24;

/// The sectors between two counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SlipInterval {
    zone: usize,
    from: u64,
    to: u64,
    /// The number of slips in it, or the expected number.
    slips: f64,
    /// Its end was counted.
    counted: bool,
    /// The prediction error that they cause: sectors times nanoseconds.
    weight: f64,
}

/// Makes some more counts.
pub(crate) fn locate_slips(session: &mut Session, layout: &mut LayoutResult) -> Attempt<Progress> {
    if layout.slip_plan.is_empty() {
        assume_usual_slips(layout);
        layout.slip_plan = plan(session, layout);
        return Ok(Progress::from(layout.slip_plan.is_empty()));
    }
    for _ in 0..COUNTS {
        let Some(interval) = layout.slip_plan.pop() else { break };
        locate_one(session, layout, interval)?;
    }
    Ok(Progress::More)
}

/// Lets groups, or parts of them, whose slips were not counted have as many as the counted ones.
/// Without any, each later sector of such a group would be predicted too early.
fn assume_usual_slips(layout: &mut LayoutResult) {
    let mut intervals = Vec::new();
    for (number, zone) in layout.zones.iter().enumerate().filter(|(_, zone)| !zone.unknown) {
        if let Some(end) = zone.end_lba.filter(|_| zone.groups.is_some()) {
            intervals_of(number, zone, end, 0.0, &mut intervals);
        }
    }
    let (mut counted, others): (Vec<_>, Vec<_>) =
        intervals.into_iter().partition(|interval| interval.counted);
    // A few counts may be wrong, and then by many sectors.
    counted.sort_by(|one, two| one.slips.total_cmp(&two.slips));
    counted.truncate(counted.len() - counted.len().div_ceil(OUTLIERS));
    let slips: f64 = counted.iter().map(|interval| interval.slips).sum();
    let sectors: u64 = counted.iter().map(|interval| interval.to - interval.from).sum();
    for SlipInterval { zone, from, to, .. } in others {
        let zone = &mut layout.zones[zone];
        let most = zone.groups.map_or(0, |groups| groups.spares);
        let usual = libm::round(slips / sectors.max(1) as f64 * (to - from) as f64) as u64;
        if usual > 0 && zone.approximate_between(from, to) == 0 {
            zone.spread(from, to, usual.min(most));
        }
    }
}

/// An error that is small enough beside the noise of a completion, ns.
pub(super) fn slight_ns(session: &Session) -> f64 {
    SLIGHT_NS.max(SLIGHT_SHARE * session.drive.clock.noise_ns())
}

/// The intervals to count next; the last one has the largest prediction error.
fn plan(session: &Session, layout: &LayoutResult) -> Vec<SlipInterval> {
    let mut intervals: Vec<SlipInterval> = Vec::new();
    let rate = layout.slip_rate();
    let period = session.drive.clock.period_ns();
    let slight_ns = slight_ns(session);
    let exactly = rate * (session.drive.capacity as f64) < FEW_SLIPS;
    for (number, zone) in layout.zones.iter().enumerate().filter(|(_, zone)| !zone.unknown) {
        let end = zone.end_lba.unwrap_or(session.drive.capacity);
        intervals_of(number, zone, end, rate, &mut intervals);
    }
    for interval in &mut intervals {
        let zone = &layout.zones[interval.zone];
        let tracks = zone.track_of(interval.to - 1).saturating_sub(zone.track_of(interval.from));
        let error_ns = interval.slips / 3.0 * period / zone.sectors_per_track as f64;
        let worth = if interval.counted {
            tracks >= 2 && (exactly && interval.slips > 0.0 || error_ns > slight_ns)
        } else {
            tracks > 8 && exactly || tracks > 2 * ROOM && error_ns > slight_ns
        };
        interval.weight = if worth { error_ns * (interval.to - interval.from) as f64 } else { 0.0 };
    }
    intervals.retain(|interval| interval.weight > 0.0);
    intervals.sort_by(|one, two| two.weight.total_cmp(&one.weight).then(one.from.cmp(&two.from)));
    intervals.truncate(PLANNED);
    intervals.sort_by_key(|interval| core::cmp::Reverse(interval.from));
    intervals
}

/// The intervals of a zone that have or may have slips.
fn intervals_of(
    number: usize,
    zone: &ZoneModel,
    end: u64,
    rate: f64,
    intervals: &mut Vec<SlipInterval>,
) {
    let mut from = zone.first_lba;
    let mut push = |from: u64, to: u64, counted: bool| {
        if to > from + 1 {
            let slips = if counted {
                zone.approximate_between(from, to) as f64
            } else {
                rate * (to - from) as f64
            };
            intervals.push(SlipInterval { zone: number, from, to, slips, counted, weight: 0.0 });
        }
    };
    let mut ends: Vec<(u64, bool)> = zone.counted_at.iter().map(|lba| (*lba, true)).collect();
    if let Some(groups) = zone.groups {
        let starts = (1..).map(|number| zone.group_start(groups, number));
        ends.extend(starts.take_while(|start| *start < end).map(|start| (start, false)));
    }
    ends.push((end, false));
    ends.sort_unstable();
    for (to, counted) in ends {
        push(from, to, counted);
        from = from.max(to);
    }
}

/// Counts in the middle of an interval, or near its end if that was not counted yet.
fn locate_one(
    session: &mut Session,
    layout: &mut LayoutResult,
    interval: SlipInterval,
) -> Attempt<()> {
    let zone = layout.zones[interval.zone].clone();
    let (first, last) = (zone.track_of(interval.from), zone.track_of(interval.to - 1));
    let track = if interval.counted {
        first + (last - first) / 2
    } else {
        last - ROOM.min((last - first) / 8).max((last - first) / 16).max(2)
    };
    let place = if last - track > ROOM { CountAt::Around } else { CountAt::Track };
    // As if all slips were at the interval's beginning, so that any track of it gives the same
    // count.
    let whole = zone.approximate_between(interval.from, interval.to);
    let guess = if interval.counted { whole / 2 } else { libm::round(interval.slips * 0.9) as u64 };
    let mut flat = zone.clone();
    flat.spread(interval.from, interval.to, 0);
    flat.spread(interval.from, interval.from + 2, guess);
    let (mut border, mut counted) = (0, None);
    for attempt in 0..=RETRIES {
        // Readings may be late, or a track may deviate. A count that fails spoils all predictions
        // after it, so try shortly before.
        let track = track - (attempt * APART).min((track - first) / 2);
        border = flat.track_start(track + 1);
        if border <= interval.from + 2 || border >= interval.to || border >= session.drive.capacity
        {
            // Nothing can be counted there. Halve the interval, so that it is not planned forever.
            layout.zones[interval.zone]
                .note_counted(interval.from + (interval.to - interval.from) / 2);
            return Ok(());
        }
        let found = count(session, &flat, track, place)?
            .and_then(|(extra, _)| guess.checked_add_signed(extra));
        counted = found.filter(|before| !interval.counted || *before <= whole);
        if counted.is_some() {
            break;
        }
    }
    let zone = &mut layout.zones[interval.zone];
    let Some(before) = counted else {
        zone.note_counted(border);
        return Ok(());
    };
    let border = (border + guess).saturating_sub(before);
    zone.spread(interval.from, interval.to, 0);
    zone.spread(interval.from, border, before);
    if interval.counted {
        // Both halves together have as many as were counted at the interval's end.
        zone.spread(border, interval.to, whole - before);
    }
    zone.note_counted(border);
    if !interval.counted {
        let lbas = border - interval.from;
        layout.note_slips(before, lbas);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::zone_model::{Pattern, SpareGroups};
    use super::*;
    use crate::session::DriveTiming;

    #[test]
    fn groups_whose_slips_were_not_counted_have_as_many_as_others() {
        const GROUP: u64 = 9_900;
        let drive = DriveTiming { capacity: 4 * GROUP, ..DriveTiming::default() };
        let mut session = Session::new(&[], &[], drive, 1);
        let mut zone = ZoneModel::new(Pattern::PLAIN, 0, 100);
        zone.groups = Some(SpareGroups { lbas: GROUP, spares: 100 });
        zone.end_lba = Some(4 * GROUP);
        // Half of the first two groups was counted, and the third wrongly.
        for (group, slips) in [(0, 2), (1, 2), (2, 40)] {
            let from = group * GROUP;
            zone.note_counted(from + GROUP / 2);
            zone.spread(from, from + GROUP / 2, slips);
        }
        let mut layout = LayoutResult { zones: vec![zone], ..LayoutResult::default() };
        assert!(locate_slips(&mut session, &mut layout).is_ok());
        let zone = &layout.zones[0];
        let slips = |group| zone.approximate_between(group * GROUP, (group + 1) * GROUP);
        assert_eq!([0, 1, 2, 3].map(slips), [4, 4, 42, 4]);
        // They use spares of their own group only.
        assert_eq!(zone.physical(2 * GROUP), 20_000);
    }
}
