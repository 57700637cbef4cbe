//! [`RunMap`]: a measured layout as runs of tracks, with look-ups in both directions.
//!
//! From an LBA: a bucket index finds its run, one division the track within the run. From a
//! position: each surface is divided into *spans*, ranges of cylinders with the same runs; a binary
//! search over (head, cylinder) finds the span, a walk over its few runs the sector. Cylinders
//! without a run are an empty span: they hold no LBA and have as many sectors as the nearest
//! measured track of the surface.
//!
//! Tracks are numbered in the order of their first LBAs: a span belongs to the first of its runs.
//! Tracks without LBAs come last, surface by surface.

mod span;

use alloc::vec::Vec;

use super::bucket::BucketIndex;
use super::divider::Divider;
use super::turns;
use super::{Located, TrackStretch};
use crate::place::Track;
use crate::profile::MeasuredRun;
use span::Span;
pub(crate) use span::{MAX_RUNS_ON_TRACK, RunConflict, spans_of};

/// A run prepared for look-ups.
#[derive(Clone, Debug)]
struct LayoutRun {
    first_lba: u64,
    /// LBAs of a track.
    lbas: Divider,
    cylinder: u32,
    outwards: bool,
    head: u16,
    first_sector: u32,
    sectors_per_track: u32,
    /// The angle of the first track's first LBA, and the step from track to track, in units of 2⁻⁶⁴
    /// revolution.
    turn: u64,
    step_turn: u64,
    sector_turn: u64,
}

/// A measured layout.
#[derive(Clone, Debug)]
pub(crate) struct RunMap {
    runs: Vec<LayoutRun>,
    /// The first LBA after each run.
    ends: Vec<u64>,
    by_lba: BucketIndex,
    /// Of all surfaces, by head and cylinder.
    spans: Vec<Span>,
    /// Indices of runs, grouped by span.
    span_runs: Vec<u32>,
    /// The spans by the number of their first track.
    by_number: Vec<u32>,
    tracks: u64,
}

impl RunMap {
    /// Builds the map from validated `runs`.
    pub(crate) fn new(runs: &[MeasuredRun], heads: u16) -> Self {
        let cylinders =
            runs.iter().map(|run| run.cylinder.max(run.last_cylinder()) + 1).max().unwrap_or(0);
        let (mut spans, span_runs) = spans_of(runs, heads, cylinders)
            .expect("the profile's checks refuse runs that contradict each other");
        let by_number = span::number(&mut spans, &span_runs, runs);
        let ends: Vec<u64> = runs.iter().map(|run| run.first_lba + run.sectors()).collect();
        Self {
            runs: runs.iter().map(LayoutRun::new).collect(),
            by_lba: BucketIndex::new(&ends, 1_024),
            ends,
            spans,
            span_runs,
            by_number,
            tracks: u64::from(cylinders) * u64::from(heads),
        }
    }

    #[inline]
    pub(crate) fn locate(&self, lba: u64) -> Located {
        let run = &self.runs[self.by_lba.at_or_below(&self.ends, lba)];
        let (track, within) = run.lbas.div_rem(lba - run.first_lba);
        run.located(track, within)
    }

    /// The position of an LBA and the LBAs from there to the end of the run's track, at most `max`.
    #[inline]
    pub(crate) fn stretch(&self, lba: u64, max: u64) -> TrackStretch {
        let run = &self.runs[self.by_lba.at_or_below(&self.ends, lba)];
        let (track, within) = run.lbas.div_rem(lba - run.first_lba);
        let lbas = max.min(run.lbas.divisor() - within);
        TrackStretch { at: run.located(track, within), lbas, span: lbas, moved: false }
    }

    pub(crate) fn lba_at(&self, track: Track, sector: u32) -> Option<u64> {
        self.parts(track)
            .find(|part| (part.first_sector..part.first_sector + part.lbas).contains(&sector))
            .map(|part| part.lba_of(sector))
    }

    /// The parts of a track in sector order, each with consecutive LBAs.
    pub(crate) fn parts(&self, track: Track) -> impl Iterator<Item = TrackPart> + '_ {
        let span = self.span(track);
        self.span_runs[span.runs.clone()].iter().map(move |run| {
            let run = &self.runs[*run as usize];
            let step = u64::from(run.cylinder.abs_diff(track.cylinder));
            TrackPart {
                first_lba: run.first_lba + step * run.lbas.divisor(),
                lbas: run.lbas.divisor() as u32,
                first_sector: run.first_sector,
                turn: run.turn.wrapping_add(step.wrapping_mul(run.step_turn)),
            }
        })
    }

    pub(crate) fn sectors_per_track(&self, track: Track) -> u32 {
        self.span(track).sectors_per_track
    }

    /// The start angle of a sector of a track, in units of 2⁻⁶⁴ revolution: from the last measured
    /// part at or before it, else the first one after it; without any, sector 0 starts at angle 0.
    pub(crate) fn sector_turn_at(&self, track: Track, sector: u32) -> u64 {
        let sector_turn = turns::of_one_sector(self.sectors_per_track(track));
        let mut parts = self.parts(track);
        let Some(mut part) = parts.next() else {
            return sector_turn.wrapping_mul(u64::from(sector));
        };
        for next in parts.take_while(|next| next.first_sector <= sector) {
            part = next;
        }
        part.turn.wrapping_add(
            sector_turn.wrapping_mul(u64::from(sector).wrapping_sub(u64::from(part.first_sector))),
        )
    }

    pub(crate) fn track_count(&self) -> u64 {
        self.tracks
    }

    pub(crate) fn track_number(&self, track: Track) -> u64 {
        let span = self.span(track);
        let step =
            if span.outwards { span.end - 1 - track.cylinder } else { track.cylinder - span.first };
        span.first_number + u64::from(step)
    }

    pub(crate) fn track_by_number(&self, number: u64) -> Option<Track> {
        if number >= self.tracks {
            return None;
        }
        let place = self
            .by_number
            .partition_point(|span| self.spans[*span as usize].first_number <= number);
        let span = &self.spans[*self.by_number.get(place.checked_sub(1)?)? as usize];
        let step = (number - span.first_number) as u32;
        let cylinder = if span.outwards { span.end - 1 - step } else { span.first + step };
        Some(Track { cylinder, head: span.head })
    }

    /// The extent of each run in LBA order.
    pub(crate) fn extents(&self) -> impl Iterator<Item = RunExtent> + '_ {
        self.runs.iter().zip(&self.ends).map(|(run, end)| {
            let tracks = ((end - run.first_lba) / run.lbas.divisor()) as u32;
            let (first_cylinder, end_cylinder) = if run.outwards {
                (run.cylinder + 1 - tracks, run.cylinder + 1)
            } else {
                (run.cylinder, run.cylinder + tracks)
            };
            RunExtent {
                first_lba: run.first_lba,
                end_lba: *end,
                first_cylinder,
                end_cylinder,
                head: run.head,
                lbas_per_track: run.lbas.divisor(),
                sectors_per_track: run.sectors_per_track,
            }
        })
    }

    fn span(&self, track: Track) -> &Span {
        let end = self
            .spans
            .partition_point(|span| (span.head, span.first) <= (track.head, track.cylinder));
        &self.spans[end - 1]
    }
}

/// Sectors of one track with consecutive LBAs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackPart {
    pub(crate) first_lba: u64,
    pub(crate) lbas: u32,
    pub(crate) first_sector: u32,
    /// The start of the first one, in units of 2⁻⁶⁴ revolution.
    turn: u64,
}

/// The extent of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunExtent {
    pub(crate) first_lba: u64,
    pub(crate) end_lba: u64,
    pub(crate) first_cylinder: u32,
    pub(crate) end_cylinder: u32,
    pub(crate) head: u16,
    pub(crate) lbas_per_track: u64,
    pub(crate) sectors_per_track: u32,
}

impl TrackPart {
    fn lba_of(&self, sector: u32) -> u64 {
        self.first_lba + u64::from(sector - self.first_sector)
    }
}

impl LayoutRun {
    fn new(run: &MeasuredRun) -> Self {
        Self {
            first_lba: run.first_lba,
            lbas: Divider::new(u64::from(run.lbas)),
            cylinder: run.cylinder,
            outwards: run.cylinder_step < 0,
            head: run.head,
            first_sector: run.first_sector,
            sectors_per_track: run.sectors_per_track,
            turn: turns::from_turns(run.angle_turns),
            step_turn: turns::from_turns(run.angle_step_turns),
            sector_turn: turns::of_one_sector(run.sectors_per_track),
        }
    }

    #[inline]
    fn located(&self, track: u64, within: u64) -> Located {
        let cylinder =
            if self.outwards { self.cylinder - track as u32 } else { self.cylinder + track as u32 };
        let turn = self
            .turn
            .wrapping_add(track.wrapping_mul(self.step_turn))
            .wrapping_add(within.wrapping_mul(self.sector_turn));
        Located {
            cylinder,
            head: self.head,
            sector: self.first_sector + within as u32,
            sectors_per_track: self.sectors_per_track,
            turn,
            sector_turn: self.sector_turn,
        }
    }
}
