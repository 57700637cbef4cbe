//! A layout as runs: every row of LBAs on a track, with equal rows on consecutive tracks joined.

use alloc::vec::Vec;

use headtime_units::Angle;

use crate::layout::{Layout, TrackRun};
use crate::place::Track;
use crate::profile::MeasuredRun;

/// Maximum rounding error of a run's angles, in units of 2⁻³² revolution; beyond it a new run
/// starts.
const ANGLE_ERROR: u32 = 2;

pub(super) fn runs_of(layout: &Layout) -> Vec<MeasuredRun> {
    let tracks = (0..layout.track_count()).filter_map(|number| layout.track_by_number(number));
    let mut rows: Vec<(Track, TrackRun)> =
        tracks.flat_map(|track| layout.track_runs(track).map(move |row| (track, row))).collect();
    rows.sort_unstable_by_key(|(_, row)| row.extent.start);
    let mut runs: Vec<MeasuredRun> = Vec::new();
    for (track, row) in rows {
        let angle = layout.sector_angle(track.sector(row.first_sector));
        let sectors_per_track = layout.sectors_per_track(track);
        let joined = runs.last_mut().is_some_and(|run| {
            run.sectors_per_track == sectors_per_track && join(run, track, &row, angle)
        });
        if !joined {
            runs.push(MeasuredRun {
                first_lba: row.extent.start.get(),
                tracks: 1,
                lbas: row.extent.len.get() as u32,
                sectors_per_track,
                first_sector: row.first_sector,
                cylinder: track.cylinder,
                cylinder_step: 1,
                head: track.head,
                angle_turns: angle.as_turns(),
                angle_step_turns: 0.0,
            });
        }
    }
    runs
}

/// Joins the row to the run as its next track if it continues the run. A run of one track takes its
/// direction and angle step from the second.
fn join(run: &mut MeasuredRun, track: Track, row: &TrackRun, angle: Angle) -> bool {
    if track.head != run.head
        || row.first_sector != run.first_sector
        || row.extent.len.get() != u64::from(run.lbas)
    {
        return false;
    }
    let step = i64::from(track.cylinder) - i64::from(run.last_cylinder());
    if run.tracks == 1 && step.abs() == 1 {
        run.cylinder_step = step as i32;
        run.angle_step_turns = (angle - Angle::from_turns(run.angle_turns)).as_turns();
    }
    let expected =
        Angle::from_turns(run.angle_turns + f64::from(run.tracks) * run.angle_step_turns);
    let error = expected.until(angle).as_raw().min(angle.until(expected).as_raw());
    let continues = step == i64::from(run.cylinder_step) && error <= ANGLE_ERROR;
    run.tracks += u32::from(continues);
    continues
}
