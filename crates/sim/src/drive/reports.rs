//! [`ReportQueue`]: from a command's true completion to its report to the host.
//!
//! The host sees a completion after the jitter of the instance, never before an earlier completion;
//! the report then waits to be fetched. A command on both arms completes when both parts have.

use std::collections::VecDeque;

use headtime_sched::{CommandId, Outcome};
use headtime_units::{Instant, Nanos};

use crate::device::{Breakdown, DriveCompletion};

/// Completions and reports of one drive.
#[derive(Clone, Debug)]
pub(super) struct ReportQueue {
    /// Future true completions in order of time.
    endings: VecDeque<DriveCompletion>,
    /// Future reports.
    reports: VecDeque<DriveCompletion>,
    last_report: Instant,
    /// Reports not yet fetched.
    fetched: VecDeque<DriveCompletion>,
    /// Commands split into parts that have not all completed.
    parted: Vec<SplitCommand>,
}

#[derive(Clone, Copy, Debug)]
struct SplitCommand {
    command: CommandId,
    parts_left: u32,
    /// The latest part so far.
    last: Option<DriveCompletion>,
}

impl ReportQueue {
    pub(super) fn new() -> Self {
        Self {
            endings: VecDeque::new(),
            reports: VecDeque::new(),
            last_report: Instant::ORIGIN,
            fetched: VecDeque::new(),
            parted: Vec::new(),
        }
    }

    /// Registers a command that completes with its last part.
    pub(super) fn part(&mut self, command: CommandId, parts: u32) {
        self.parted.push(SplitCommand { command, parts_left: parts, last: None });
    }

    /// Schedules the completion of a command or a part of one.
    pub(super) fn expect(&mut self, command: CommandId, finished: Instant, breakdown: Breakdown) {
        let ending = DriveCompletion { command, finished, outcome: Outcome::Success, breakdown };
        let parted = if self.parted.is_empty() {
            None
        } else {
            self.parted.iter().position(|parted| parted.command == command)
        };
        let Some(place) = parted else { return self.insert(ending) };
        let parted = &mut self.parted[place];
        parted.parts_left -= 1;
        parted.last = Some(parted.last.filter(|last| last.finished >= finished).unwrap_or(ending));
        if parted.parts_left == 0
            && let Some(last) = self.parted.swap_remove(place).last
        {
            self.insert(last);
        }
    }

    fn insert(&mut self, ending: DriveCompletion) {
        if self.endings.back().is_none_or(|last| last.finished <= ending.finished) {
            return self.endings.push_back(ending);
        }
        let place = self
            .endings
            .iter()
            .rposition(|other| other.finished <= ending.finished)
            .map_or(0, |last| last + 1);
        self.endings.insert(place, ending);
    }

    /// The time of the next true completion, [`Instant::NEVER`] if there is none.
    pub(super) fn next_ending(&self) -> Instant {
        self.endings.front().map_or(Instant::NEVER, |ending| ending.finished)
    }

    /// The time of the next report, [`Instant::NEVER`] if there is none.
    pub(super) fn next_report(&self) -> Instant {
        self.reports.front().map_or(Instant::NEVER, |report| report.finished)
    }

    /// Completes the next command and schedules its report after `jitter`. Returns true if the
    /// report is due at once.
    pub(super) fn end(&mut self, jitter: Nanos) -> bool {
        let Some(mut ending) = self.endings.pop_front() else { return false };
        let at = ending.finished;
        ending.finished = (at + jitter).max(self.last_report);
        let at_once = self.reports.is_empty() && ending.finished <= at;
        self.last_report = ending.finished;
        self.reports.push_back(ending);
        at_once
    }

    /// Delivers the next report and returns its time.
    pub(super) fn report(&mut self) -> Option<Instant> {
        let report = self.reports.pop_front()?;
        self.fetched.push_back(report);
        Some(report.finished)
    }

    /// True if reports wait to be fetched.
    pub(super) fn any_to_fetch(&self) -> bool {
        !self.fetched.is_empty()
    }

    pub(super) fn fetch(&mut self, completions: &mut Vec<DriveCompletion>) {
        while let Some(completion) = self.fetched.pop_front() {
            completions.push(completion);
        }
    }

    /// Removes a command that the host has not seen; returns whether there was one.
    pub(super) fn forget(&mut self, command: CommandId) -> bool {
        let of_it = |other: &DriveCompletion| other.command == command;
        if let Some(place) = self.endings.iter().position(of_it) {
            self.endings.remove(place);
        } else if let Some(place) = self.reports.iter().position(of_it) {
            self.reports.remove(place);
        } else if let Some(place) = self.parted.iter().position(|parted| parted.command == command)
        {
            self.parted.swap_remove(place);
        } else {
            return false;
        }
        true
    }
}
