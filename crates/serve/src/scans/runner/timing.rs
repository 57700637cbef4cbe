//! When a scan reads: its timetable, its next pass, and the standby of the drive.

use std::io;
use std::time::{Duration, Instant};

use headtime_io::PowerState;
use headtime_tasks::{Scan, TaskKind, TaskSettings};
use jiff::{Timestamp, Zoned};

use super::{ASLEEP, Awake, PATTERN, Phase, Runner, RunnerState, STARTED, TIMETABLE_EVERY, UNREAD};
use crate::scans::output::{OutputFile, dated_output};
use crate::scans::terms::{ScanTerms, TermsChange};

impl Runner {
    pub(super) fn change_terms(&mut self, change: &TermsChange) {
        change.note_in(&mut self.scan);
        self.terms = ScanTerms::of(&self.scan);
        self.state.feed.iter().for_each(|feed| feed.set_priority(self.terms.priority));
        if matches!(self.phase, Phase::Waiting { .. }) {
            self.continue_scan();
        }
        self.save(false);
    }

    /// Begins another pass over the same sectors.
    pub(super) fn begin_pass(&mut self) {
        self.scan.again();
        self.scan.set_note(STARTED, (self.clock)().timestamp().to_string());
        self.phase = Phase::Running;
        self.state.rate.clear();
        self.open_feed();
        self.save(false);
    }

    /// Notes that a new scan reads from now on. A backup that has waited for its first window gets
    /// the date of its point in time.
    pub(super) fn begin_reading(&mut self) {
        let now = (self.clock)();
        self.scan.set_note(UNREAD, "no");
        self.scan.set_note(STARTED, now.timestamp().to_string());
        let Some(output) = self.output.as_mut().filter(|_| self.terms.every.is_some()) else {
            return;
        };
        let pattern = self.scan.note(PATTERN).unwrap_or_default();
        let renamed = dated_output(pattern, &now)
            .map_err(io::Error::other)
            .and_then(|path| output.rename(path));
        if let Err(error) = renamed {
            let path = output.path().display();
            tracing::warn!("{path} keeps its name, which is of another date: {error}");
        }
        let path = output.path().display().to_string();
        self.scan.set_note("output", path);
        self.save(false);
    }

    /// Begins a backup with the settings of the last one, into a new output.
    fn begin_backup(&mut self) -> Result<(), String> {
        let now = (self.clock)();
        let pattern = self.scan.note(PATTERN).unwrap_or_default();
        let path = dated_output(pattern, &now).map_err(|error| error.to_string())?;
        let subject = self.scan.subject().clone();
        let output = OutputFile::create(&path, subject.sector_size.bytes_of(subject.extent.len))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let settings = TaskSettings { form: output.form(), ..self.scan.settings() };
        let mut scan = Scan::start(subject, settings, self.handle.physical_block());
        self.scan.notes().for_each(|(name, text)| scan.set_note(name, text));
        scan.set_note("begun", now.timestamp().as_nanosecond().to_string());
        scan.set_note("output", path.display().to_string());
        scan.set_note(STARTED, now.timestamp().to_string());
        scan.set_note(UNREAD, "yes");
        let mut first = Vec::new();
        scan.begin(&mut first);
        self.state = RunnerState::default();
        (self.scan, self.output, self.phase) = (scan, Some(output), Phase::Running);
        self.begin_with(&first);
        Ok(())
    }

    /// Looks at the clock: pauses outside of the timetable, and begins the next pass when it is
    /// due. Nothing is kept until the next look, so that a clock that is set has its effect at
    /// once.
    pub(super) fn follow_timetable(&mut self) {
        let now = Instant::now();
        if self.state.clock_read.is_some_and(|last| now < last + TIMETABLE_EVERY) {
            return;
        }
        self.state.clock_read = Some(now);
        match self.phase {
            Phase::Running => {
                if let Some(reason) = self.outside() {
                    self.hold(reason, TIMETABLE_EVERY);
                }
            }
            Phase::Complete | Phase::Broken { .. } => self.repeat_if_due(),
            Phase::Paused | Phase::Waiting { .. } => {}
        }
    }

    /// The reason to wait, outside of the timetable.
    pub(super) fn outside(&self) -> Option<String> {
        let during = self.terms.during.as_ref()?;
        let now = (self.clock)();
        if during.is_open(now.datetime()) {
            return None;
        }
        let until = during.next_opening(&now).map_or_else(
            || "its windows change".to_owned(),
            |at| at.strftime("%a %Y-%m-%d %H:%M %Z").to_string(),
        );
        Some(format!("outside of its timetable until {until}"))
    }

    /// The time at which the next pass is due; `None` without one.
    pub(super) fn next_start(&self, now: &Zoned) -> Option<Zoned> {
        let over = matches!(self.phase, Phase::Complete | Phase::Broken { .. });
        let every = self.terms.every.as_ref().filter(|_| over)?;
        let started: Timestamp = self.scan.note(STARTED)?.parse().ok()?;
        let due = every.after(started, now.time_zone())?.max(now.clone());
        let opening = self.terms.during.as_ref().and_then(|during| during.next_opening(&due));
        Some(opening.unwrap_or(due))
    }

    fn repeat_if_due(&mut self) {
        if self.terms.every.is_none() || self.outside().is_some() {
            return;
        }
        let now = (self.clock)();
        let started = self.scan.note(STARTED).and_then(|text| text.parse::<Timestamp>().ok());
        // A start in the future was recorded by a clock that was wrong.
        if started.is_none_or(|started| started > now.timestamp()) {
            self.scan.set_note(STARTED, now.timestamp().to_string());
            self.save(false);
        }
        if self.next_start(&now).is_none_or(|at| at > now) {
            return;
        }
        if self.scan.kind() != TaskKind::Backup {
            self.begin_pass();
        } else if self.state.repeat_tried.is_none_or(|at| at.elapsed() >= REPEAT_AFTER) {
            self.state.repeat_tried = Some(Instant::now());
            if let Err(reason) = self.begin_backup() {
                tracing::error!(
                    "the next {} of {} cannot start: {reason}",
                    self.scan.kind(),
                    self.scan.subject().target
                );
                self.phase =
                    Phase::Broken { reason: format!("the next pass cannot start: {reason}") };
                self.save(false);
                self.update_status();
            }
        }
    }

    /// Returns true if the drive is in standby and the scan must not wake it. A scan without a
    /// server runs in the foreground, by a user's order.
    pub(super) fn is_asleep(&mut self) -> bool {
        let wakes = self.alone || self.terms.wake;
        let asleep = !wakes && self.handle.power_state() == PowerState::Standby;
        if !asleep {
            self.awake.at = Instant::now();
        }
        asleep
    }

    /// Before reads after a time without any: stops reading if the drive is in standby. Requests of
    /// clients in that time show that it is awake.
    pub(super) fn wait_while_asleep(&mut self) {
        if self.phase != Phase::Running || self.awake.at.elapsed() < QUIET {
            return;
        }
        let accounts = self.handle.snapshot().accounts;
        let requests = accounts.iter().map(|(_, account)| account.requests).sum();
        if requests != self.awake.requests {
            self.awake = Awake { at: Instant::now(), requests };
        } else if self.is_asleep() {
            self.wait_for(ASLEEP);
        }
    }
}

/// The time without requests and reads after which a drive may have gone to standby (drives do so
/// after 5 s at the earliest, by ATA's standby timer).
const QUIET: Duration = Duration::from_secs(4);
/// The time after which another attempt is made to begin a backup that is due.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
