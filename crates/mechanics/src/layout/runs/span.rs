//! [`Span`]: ranges of cylinders of a surface with the same runs, found by a sweep over the runs'
//! first and last cylinders.

use alloc::vec::Vec;
use core::ops::Range;

use crate::profile::MeasuredRun;

/// Maximum number of runs on one track; tracks hardly ever have more than two.
pub(crate) const MAX_RUNS_ON_TRACK: usize = 256;

/// Cylinders of a surface with the same runs.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) head: u16,
    pub(crate) first: u32,
    /// The cylinder after the last.
    pub(crate) end: u32,
    /// True if the span's run steps outwards.
    pub(crate) outwards: bool,
    pub(crate) sectors_per_track: u32,
    /// The number of its first track in LBA order: that of its last cylinder if it steps outwards.
    pub(crate) first_number: u64,
    /// The range of its runs, in sector order; empty if unmeasured.
    pub(crate) runs: Range<usize>,
}

/// Two runs that contradict each other, with the track of the conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunConflict {
    /// Both contain the same sector.
    Sectors { run: usize, other: usize, cylinder: u32, head: u16 },
    /// They differ in the sectors of one track.
    SectorsPerTrack { run: usize, other: usize, cylinder: u32, head: u16 },
    /// A track is in more than [`MAX_RUNS_ON_TRACK`] runs, this one among them.
    TooMany { run: usize, cylinder: u32, head: u16 },
}

/// The spans of all surfaces by head and cylinder, and the run indices that they refer to. `runs`
/// lie within `heads` and `cylinders`.
pub(crate) fn spans_of(
    runs: &[MeasuredRun],
    heads: u16,
    cylinders: u32,
) -> Result<(Vec<Span>, Vec<u32>), RunConflict> {
    let mut spans = Vec::new();
    let mut rows = Vec::new();
    let mut by_head: Vec<Vec<u32>> = (0..heads).map(|_| Vec::new()).collect();
    for (number, run) in (0..).zip(runs) {
        by_head[usize::from(run.head)].push(number);
    }
    let fallback = runs.first().map_or(1, |run| run.sectors_per_track);
    for (head, numbers) in (0..).zip(&by_head) {
        let first_span = spans.len();
        sweep(runs, numbers, head, cylinders, &mut spans, &mut rows)?;
        fill_sectors_per_track(&mut spans[first_span..], fallback);
    }
    Ok((spans, rows))
}

/// Numbers the spans' tracks in the order of their first LBAs, those without LBAs last; returns the
/// spans in that order.
pub(super) fn number(spans: &mut [Span], rows: &[u32], runs: &[MeasuredRun]) -> Vec<u32> {
    // A span belongs to its first run; several spans of one run follow the run's steps.
    let key = |number: &u32| {
        let span = &spans[*number as usize];
        let owner = rows[span.runs.clone()].iter().min().copied();
        let step = owner.map_or(u32::MAX, |owner| {
            runs[owner as usize].cylinder.abs_diff(if span.outwards {
                span.end - 1
            } else {
                span.first
            })
        });
        (owner.unwrap_or(u32::MAX), step, span.head, span.first)
    };
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    order.sort_by_key(key);
    let mut next = 0;
    for number in &order {
        let span = &mut spans[*number as usize];
        span.first_number = next;
        next += u64::from(span.end - span.first);
    }
    order
}

fn sweep(
    runs: &[MeasuredRun],
    numbers: &[u32],
    head: u16,
    cylinders: u32,
    spans: &mut Vec<Span>,
    rows: &mut Vec<u32>,
) -> Result<(), RunConflict> {
    let mut events: Vec<(u32, bool, u32)> = Vec::with_capacity(2 * numbers.len());
    for number in numbers {
        let run = &runs[*number as usize];
        let (low, high) =
            (run.cylinder.min(run.last_cylinder()), run.cylinder.max(run.last_cylinder()));
        events.extend([(low, true, *number), (high + 1, false, *number)]);
    }
    // Ends before starts at one cylinder.
    events.sort_unstable();
    let mut active: Vec<u32> = Vec::new();
    let mut from = 0;
    let mut events = events.into_iter().peekable();
    loop {
        let next = events.peek().map_or(cylinders, |event| event.0);
        if next > from {
            spans.push(span(runs, &active, head, from..next, rows)?);
            from = next;
        }
        let Some((_, begins, number)) = events.next() else { return Ok(()) };
        if begins {
            // In sector order.
            let place = active.partition_point(|other| {
                runs[*other as usize].first_sector < runs[number as usize].first_sector
            });
            active.insert(place, number);
        } else {
            active.retain(|other| *other != number);
        }
    }
}

fn span(
    runs: &[MeasuredRun],
    active: &[u32],
    head: u16,
    cylinders: Range<u32>,
    rows: &mut Vec<u32>,
) -> Result<Span, RunConflict> {
    let cylinder = cylinders.start;
    if let Some(run) = active.get(MAX_RUNS_ON_TRACK) {
        return Err(RunConflict::TooMany { run: *run as usize, cylinder, head });
    }
    for pair in active.windows(2) {
        let (run, other) = (pair[0].max(pair[1]) as usize, pair[0].min(pair[1]) as usize);
        let (before, next) = (&runs[pair[0] as usize], &runs[pair[1] as usize]);
        if u64::from(before.first_sector) + u64::from(before.lbas) > u64::from(next.first_sector) {
            return Err(RunConflict::Sectors { run, other, cylinder, head });
        }
        if before.sectors_per_track != next.sectors_per_track {
            return Err(RunConflict::SectorsPerTrack { run, other, cylinder, head });
        }
    }
    let start = rows.len();
    rows.extend(active);
    let owner = active.iter().min().map(|owner| &runs[*owner as usize]);
    Ok(Span {
        head,
        first: cylinders.start,
        end: cylinders.end,
        outwards: owner.is_some_and(|run| run.cylinder_step < 0),
        sectors_per_track: owner.map_or(0, |run| run.sectors_per_track),
        first_number: 0,
        runs: start..rows.len(),
    })
}

/// Gives spans without runs the sectors of the previous measured span on their surface, else of the
/// next one, else `fallback`.
fn fill_sectors_per_track(spans: &mut [Span], fallback: u32) {
    let mut last = spans
        .iter()
        .map(|span| span.sectors_per_track)
        .find(|sectors| *sectors != 0)
        .unwrap_or(fallback);
    for span in spans {
        if span.sectors_per_track == 0 {
            span.sectors_per_track = last;
        }
        last = span.sectors_per_track;
    }
}
