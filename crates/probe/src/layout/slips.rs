//! Where slips are, as far as the time goes: stretches in which some were counted are counted again
//! in their middle, those first that spoil most.
//!
//! While a zone was walked, the slips of a stretch were only counted and spread evenly over it.
//! Somewhere in it an address may be off by as many sectors as were spread, typically by a third of
//! them. A count in its middle halves that. Groups of tracks with spares of their own that no count
//! fell into are taken to have as many slips as all others until their end is counted. On a small
//! drive this goes on until each slip is known to the track; on a large one until what is left is
//! small beside the noise, or the time is up.
//!
//! Worked example, 7,200 rpm, 1,000 sectors a track: 8 slips spread over 2 million sectors are off
//! by 2.7 sectors, 22 us; after three counts by 1, 8 us.

use super::border::{Where, count};
use super::sketch::ZoneSketch;
use crate::session::{Session, Step};
use serde::{Deserialize, Serialize};

/// Counts of one step, and of one plan.
const COUNTS: usize = 8;
const PLANNED: usize = 128;
/// An error that is left as it is, nanoseconds, where slips are too many to be known one by one,
/// and of steps; or this part of a completion's noise.
const SLIGHT_NS: f64 = 4_000.0;
const SLIGHT_SHARE: f64 = 0.25;
/// So many slips are looked for one by one (guess: a drive of 20 GB has fewer).
const FEW_SLIPS: f64 = 160.0;
/// So often is a count tried again that came to nothing, and so many tracks before.
const RETRIES: u64 = 2;
const APART: u64 = 3;
/// Tracks that questions about one count may be spread over.
const ROOM: u64 = 24;

/// A stretch between counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stretch {
    zone: usize,
    from: u64,
    to: u64,
    /// Slips in it, or as many as are to be expected.
    slips: f64,
    /// Whether its end was counted.
    counted: bool,
    /// What they spoil: sectors read wrong, times nanoseconds.
    weight: f64,
}

/// Some more counts; true when there is nothing more to be gained.
pub(crate) fn sound(session: &mut Session) -> Step<bool> {
    if session.know.to_sound.is_empty() {
        session.know.to_sound = plan(session);
        return Ok(session.know.to_sound.is_empty());
    }
    for _ in 0..COUNTS {
        let Some(stretch) = session.know.to_sound.pop() else { break };
        sound_one(session, stretch)?;
    }
    Ok(false)
}

/// An error that is left as it is beside the noise of a completion, nanoseconds.
pub(super) fn slight_ns(session: &Session) -> f64 {
    SLIGHT_NS.max(SLIGHT_SHARE * session.know.clock.noise_ns())
}

/// What to count next: the stretches that spoil most, the last of them first.
fn plan(session: &Session) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let rate = session.know.slip_rate();
    let period = session.know.clock.period_ns();
    let slight_ns = slight_ns(session);
    let exactly = rate * (session.know.capacity as f64) < FEW_SLIPS;
    for (number, zone) in session.know.zones.iter().enumerate().filter(|(_, zone)| !zone.lost) {
        let end = zone.end_lba.unwrap_or(session.know.capacity);
        stretches_of(number, zone, end, rate, &mut stretches);
    }
    for stretch in &mut stretches {
        let zone = &session.know.zones[stretch.zone];
        let tracks = zone.track_of(stretch.to - 1).saturating_sub(zone.track_of(stretch.from));
        let error_ns = stretch.slips / 3.0 * period / zone.sectors_per_track as f64;
        let worth = if stretch.counted {
            tracks >= 2 && (exactly && stretch.slips > 0.0 || error_ns > slight_ns)
        } else {
            tracks > 8 && exactly || tracks > 2 * ROOM && error_ns > slight_ns
        };
        stretch.weight = if worth { error_ns * (stretch.to - stretch.from) as f64 } else { 0.0 };
    }
    stretches.retain(|stretch| stretch.weight > 0.0);
    stretches.sort_by(|one, two| two.weight.total_cmp(&one.weight).then(one.from.cmp(&two.from)));
    stretches.truncate(PLANNED);
    stretches.sort_by_key(|stretch| core::cmp::Reverse(stretch.from));
    stretches
}

/// The stretches of a zone in which slips are or may be.
fn stretches_of(
    number: usize,
    zone: &ZoneSketch,
    end: u64,
    rate: f64,
    stretches: &mut Vec<Stretch>,
) {
    let mut from = zone.first_lba;
    let mut push = |from: u64, to: u64, counted: bool| {
        if to > from + 1 {
            let slips = if counted {
                zone.loose_between(from, to) as f64
            } else {
                rate * (to - from) as f64
            };
            stretches.push(Stretch { zone: number, from, to, slips, counted, weight: 0.0 });
        }
    };
    let mut ends: Vec<(u64, bool)> = zone.sounded.iter().map(|lba| (*lba, true)).collect();
    if let Some(groups) = zone.groups {
        let mut group = zone.first_lba + groups.lbas;
        while group < end {
            ends.push((group, false));
            group += groups.lbas;
        }
    }
    ends.push((end, false));
    ends.sort_unstable();
    for (to, counted) in ends {
        push(from, to, counted);
        from = from.max(to);
    }
}

/// Counts in the middle of a stretch, or near its end where that was not counted yet.
fn sound_one(session: &mut Session, stretch: Stretch) -> Step<()> {
    let zone = session.know.zones[stretch.zone].clone();
    let (first, last) = (zone.track_of(stretch.from), zone.track_of(stretch.to - 1));
    let track = if stretch.counted {
        first + (last - first) / 2
    } else {
        last - ROOM.min((last - first) / 8).max((last - first) / 16).max(2)
    };
    let place = if last - track > ROOM { Where::Around } else { Where::Here };
    // As if all of them were at the stretch's beginning, so that it makes no difference at which
    // track a question is put.
    let whole = zone.loose_between(stretch.from, stretch.to);
    let guess = if stretch.counted { whole / 2 } else { libm::round(stretch.slips * 0.9) as u64 };
    let mut flat = zone.clone();
    flat.spread(stretch.from, stretch.to, 0);
    flat.spread(stretch.from, stretch.from + 2, guess);
    let (mut border, mut counted) = (0, None);
    for attempt in 0..=RETRIES {
        // Readings that came late, or a track that is elsewhere: a number that is not known spoils
        // all behind it, so that it is asked for shortly before.
        let track = track - (attempt * APART).min((track - first) / 2);
        border = flat.track_start(track + 1);
        if border <= stretch.from + 2 || border >= stretch.to || border >= session.know.capacity {
            // Nothing can be counted there; in halves it is not planned for ever.
            session.know.zones[stretch.zone]
                .note_sounded(stretch.from + (stretch.to - stretch.from) / 2);
            return Ok(());
        }
        let found = count(session, &flat, track, place)?
            .and_then(|(extra, _)| guess.checked_add_signed(extra));
        counted = found.filter(|before| !stretch.counted || *before <= whole);
        if counted.is_some() {
            break;
        }
    }
    let zone = &mut session.know.zones[stretch.zone];
    let Some(before) = counted else {
        zone.note_sounded(border);
        return Ok(());
    };
    let border = (border + guess).saturating_sub(before);
    zone.spread(stretch.from, stretch.to, 0);
    zone.spread(stretch.from, border, before);
    if stretch.counted {
        // As many as were counted at the stretch's end are in both halves.
        zone.spread(border, stretch.to, whole - before);
    }
    zone.note_sounded(border);
    if !stretch.counted {
        let lbas = border - stretch.from;
        session.know.note_slips(before, lbas);
    }
    Ok(())
}
