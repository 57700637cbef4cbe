//! The interface: the bus, and zero-latency reads.
//!
//! *Bus, from the media.* Of two reads that end with the same sector, one of a single sector and
//! one of many, both complete when that sector has passed, if the bus keeps up with the media. The
//! delay of the longer one, per further sector, is the bus time that exceeds the media time. (On a
//! drive that transfers nothing before all is read, it is the bus time. Both predict the same
//! completions on one track, and are not told apart.)
//!
//! *Bus, from the cache.* A longer hit takes longer by the bus time of its further sectors.
//!
//! *Zero latency.* Reads of a third of a track start at random angles. A drive that waits for the
//! first sector completes all of them at the same angle. One that begins where the head arrives
//! completes those in whose middle it arrives at another angle.

use serde::{Deserialize, Serialize};

use crate::layout::LayoutResult;
use crate::numbers::{median, trimmed_mean, wrap};
use crate::session::{Attempt, Session};

/// The most sectors of the longer read, which has a third of a track.
const MAX_SECTORS: u64 = 1_024;
/// The number of reads of each kind.
const READS: u64 = 9;
/// The number of reads of a third of a track; with so many, the head arrives in the middle of at
/// least one with a chance of 99 %.
const LONG_READS: u64 = 16;

/// The number of standard errors by which a bus must be slower than the media.
const SURE: f64 = 4.0;

/// The result of measuring the interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct InterfaceResult {
    /// Bus time of a sector, ns; none if the bus is no slower than the media and there were no
    /// hits.
    pub(crate) bus_ns_per_sector: Option<f64>,
    /// Its standard error.
    pub(crate) bus_error_ns: Option<f64>,
    /// An upper bound of the bus time of a sector, ns, if it was not measured: longer ones would
    /// have delayed long reads.
    #[serde(default)]
    pub(crate) max_bus_ns: Option<f64>,
    /// The bus time was measured by cache hits.
    pub(crate) from_hits: bool,
    pub(crate) zero_latency: bool,
}

/// Measures the bus and zero latency in the first zone.
pub(crate) fn measure(session: &mut Session, layout: &LayoutResult) -> Attempt<InterfaceResult> {
    let Some(zone) = layout.zones.first() else { return Ok(InterfaceResult::default()) };
    let spt = zone.sectors_per_track;
    let period = session.drive.clock.period_ns();
    let end = zone.end_lba.unwrap_or(session.drive.capacity);
    let tracks = zone.track_of(end - 1);
    let long = (spt / 3).clamp(1, MAX_SECTORS);
    let mut off_by_length = Vec::new();
    let mut off_long = Vec::new();
    for (length, reads) in [(1, READS), (8.min(long), READS), (long, LONG_READS)] {
        let mut off = Vec::new();
        for _ in 0..reads {
            let track = session.random.below(tracks.max(1));
            let start = zone.track_start(track) + session.random.below((spt / 2).max(1));
            if zone.track_of(start + length) != track {
                continue;
            }
            session.keep_clock()?;
            session.read_random(1)?;
            let command = session.read_at_once(start, length)?;
            if command.succeeded() && !session.may_be_hit(&command) {
                off.push(
                    wrap(
                        session.drive.clock.turns_at(command.completed)
                            - zone.angle(start + length - 1),
                    ) * period,
                );
            }
        }
        if length == long {
            off_long.clone_from(&off);
        }
        off_by_length.push((length, trimmed_mean(&off)));
    }
    let (one, eight) = (off_by_length[0], off_by_length[1]);
    let sector_ns = period / spt as f64;
    let further = (eight.0 - 1) as f64;
    let (later, error) = (eight.1.0 - one.1.0, difference_error(eight.1.1, one.1.1));
    let mut found = InterfaceResult::default();
    let visible = 8_000.0_f64.max(SURE * error.unwrap_or(session.drive.clock.noise_ns()));
    if further > 0.0 && later > visible {
        found.bus_ns_per_sector = Some(sector_ns + later / further);
        found.bus_error_ns = error.map(|error| error / further);
    } else if further > 0.0 && one.1.1.is_some() && eight.1.1.is_some() {
        found.max_bus_ns = Some(sector_ns + visible / further);
    }
    if session.drive.hits.hit_ns.is_some()
        && let Some((ns, error_ns)) = bus_from_hits(session)?
    {
        (found.bus_ns_per_sector, found.bus_error_ns, found.from_hits) = (Some(ns), error_ns, true);
    }
    // With a slow bus, the end does not show where in the revolution the read began.
    let usual = median(&off_long);
    let elsewhere =
        off_long.iter().filter(|off| wrap((*off - usual) / period).abs() > 0.02).count();
    found.zero_latency = found.bus_ns_per_sector.is_none_or(|ns| ns <= sector_ns) && elsewhere >= 3;
    Ok(found)
}

/// The standard error of a difference.
fn difference_error(one: Option<f64>, two: Option<f64>) -> Option<f64> {
    one.zip(two).map(|(one, two)| libm::sqrt(one * one + two * two))
}

/// The bus time of a sector and its standard error, ns, from cache hits of two lengths.
pub(crate) fn bus_from_hits(session: &mut Session) -> Attempt<Option<(f64, Option<f64>)>> {
    let lengths = [1_u64, 64];
    let mut times = Vec::new();
    for length in lengths {
        let mut hits = Vec::new();
        for _ in 0..READS {
            let start = session.random.below(session.drive.capacity - length);
            let again = session.until_undisturbed(|session| {
                session.read_followed(start, length)?;
                session.read_at_once(start, length)
            })?;
            if again.succeeded() {
                hits.push(again.response().as_ns() as f64);
            }
        }
        times.push((median(&hits), trimmed_mean(&hits).1));
    }
    let further = (lengths[1] - lengths[0]) as f64;
    let per_sector = (times[1].0 - times[0].0) / further;
    // A response of more than a revolution is no hit: the segments are shorter than the read.
    let is_hit = times[1].0 < session.drive.clock.period_ns() && per_sector > 0.0;
    Ok(is_hit.then(|| {
        (per_sector, difference_error(times[0].1, times[1].1).map(|error| error / further))
    }))
}
