//! Checks of each `[[run]]` of a measured layout, and of conflicts between runs.

use alloc::format;
use alloc::string::ToString;

use super::super::{DriveProfile, MeasuredRun, ProfileError};
use super::{MAX_CYLINDERS, MAX_SECTORS_PER_TRACK};
use crate::layout::{MAX_RUNS_ON_TRACK, RunConflict, spans_of};

/// Maximum number of runs; a drive of 70,000 cylinders was measured in 12,000.
const MAX_RUNS: usize = 200_000;

impl DriveProfile {
    pub(super) fn check_runs(&self) -> Result<(), ProfileError> {
        if self.runs.len() > MAX_RUNS {
            return Err(self.refuse(
                "run",
                format!("{} runs", self.runs.len()),
                format!("at most {MAX_RUNS}"),
                "join runs that are alike",
            ));
        }
        let mut next_lba = 0_u64;
        for (number, run) in self.runs.iter().enumerate() {
            if run.first_lba != next_lba {
                return Err(self.run_start(number, run, next_lba));
            }
            self.check_run(number, run)?;
            next_lba = run.first_lba.saturating_add(run.sectors());
        }
        let cylinders = self.cylinders();
        spans_of(&self.runs, self.geometry.heads, cylinders)
            .map(|_| ())
            .map_err(|overlap| self.overlap(overlap))
    }

    fn run_start(&self, number: usize, run: &MeasuredRun, expected: u64) -> ProfileError {
        let remedy = format!("set first_lba = {expected}");
        match number.checked_sub(1) {
            None => self.refuse_in_run(
                0,
                "first_lba",
                run.first_lba,
                "0",
                "runs are in the order of their LBAs, from LBA 0 on",
            ),
            Some(before) => self.refuse_in_run(
                number,
                "first_lba",
                run.first_lba,
                format!("{expected}, where run {before} ends"),
                &remedy,
            ),
        }
    }

    fn check_run(&self, number: usize, run: &MeasuredRun) -> Result<(), ProfileError> {
        for (key, value) in [("tracks", run.tracks), ("lbas", run.lbas)] {
            if value == 0 {
                return Err(self.refuse_in_run(number, key, 0, "at least 1", "remove the run"));
            }
        }
        let spt = run.sectors_per_track;
        if spt == 0 || spt > MAX_SECTORS_PER_TRACK {
            return Err(self.refuse_in_run(
                number,
                "sectors_per_track",
                spt,
                format!("1 to {MAX_SECTORS_PER_TRACK}"),
                "correct it",
            ));
        }
        let needed = u64::from(run.first_sector) + u64::from(run.lbas);
        if needed > u64::from(spt) {
            let expected = format!("at least first_sector + lbas = {needed}");
            return Err(self.refuse_in_run(
                number,
                "sectors_per_track",
                spt,
                expected,
                "lower lbas, or raise it",
            ));
        }
        if run.head >= self.geometry.heads {
            let expected = format!("less than geometry.heads = {}", self.geometry.heads);
            return Err(self.refuse_in_run(
                number,
                "head",
                run.head,
                expected,
                "count heads from 0, or raise geometry.heads",
            ));
        }
        if !matches!(run.cylinder_step, -1 | 1) {
            return Err(self.refuse_in_run(
                number,
                "cylinder_step",
                run.cylinder_step,
                "1 (inwards) or -1 (outwards)",
                "split the run into single tracks",
            ));
        }
        let last =
            i64::from(run.cylinder) + (i64::from(run.tracks) - 1) * i64::from(run.cylinder_step);
        for (key, cylinder) in [("cylinder", i64::from(run.cylinder)), ("tracks", last)] {
            if !(0..i64::from(MAX_CYLINDERS)).contains(&cylinder) {
                let value = format!(
                    "{}, which leads to cylinder {cylinder}",
                    if key == "tracks" { run.tracks } else { run.cylinder }
                );
                return Err(self.refuse_in_run(
                    number,
                    key,
                    value,
                    format!("cylinders from 0 to {}", MAX_CYLINDERS - 1),
                    "correct it",
                ));
            }
        }
        for (key, turns) in
            [("angle_turns", run.angle_turns), ("angle_step_turns", run.angle_step_turns)]
        {
            if !(0.0..1.0).contains(&turns) {
                return Err(self.refuse_in_run(
                    number,
                    key,
                    turns,
                    "0 up to but not including 1",
                    "subtract whole revolutions; add one to a negative angle",
                ));
            }
        }
        Ok(())
    }

    fn overlap(&self, overlap: RunConflict) -> ProfileError {
        match overlap {
            RunConflict::Sectors { run, other, cylinder, head } => {
                let (first, lbas) = (self.runs[run].first_sector, self.runs[run].lbas);
                let value =
                    format!("{first} to {} on cylinder {cylinder}, head {head}", first + lbas - 1);
                let expected = format!("sectors that run {other} does not hold there");
                self.refuse_in_run(
                    run,
                    "sectors",
                    value,
                    expected,
                    "correct cylinder, head, first_sector or lbas of one of the two",
                )
            }
            RunConflict::SectorsPerTrack { run, other, cylinder, head } => {
                let expected = format!(
                    "{}, as in run {other} for cylinder {cylinder}, head {head}",
                    self.runs[other].sectors_per_track
                );
                self.refuse_in_run(
                    run,
                    "sectors_per_track",
                    self.runs[run].sectors_per_track,
                    expected,
                    "correct one of the two",
                )
            }
            RunConflict::TooMany { run, cylinder, head } => {
                let value = format!(
                    "one of more than {MAX_RUNS_ON_TRACK} on cylinder {cylinder}, head {head}"
                );
                self.refuse_in_run(
                    run,
                    "cylinder",
                    value,
                    format!("at most {MAX_RUNS_ON_TRACK} runs on a track"),
                    "join runs of one track",
                )
            }
        }
    }

    fn refuse_in_run(
        &self,
        number: usize,
        key: &str,
        value: impl ToString,
        expected: impl ToString,
        remedy: &str,
    ) -> ProfileError {
        self.refuse(format!("run {number} {key}"), value.to_string(), expected.to_string(), remedy)
    }
}
