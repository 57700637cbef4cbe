//! The thread of a characterization beside clients: it requests the reads, saves the state, and
//! writes and uses the profile at the end.
//!
//! The state is saved every [`SAVE_EVERY`] and at each stage. At the end the profile is written and
//! remembered before the state is removed, so that a server that is killed in between does the end
//! again.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headtime_io::characterize::{
    BesideDrive, BesideProgress, Ended, State, annotated, characterize_beside,
};
use headtime_io::files::{Existing, write_atomically};
use headtime_io::{DriveHandle, LinkState, PowerState, TimedReads, TimedReadsError};
use headtime_mechanics::DriveProfile;
use headtime_probe::{Finding, Probe, Stage, Verdict};
use headtime_sched::{Outcome as ReadOutcome, TimedRead, TimedReadDone};
use parking_lot::Mutex;

use super::clients::{self, Left};
use super::stored::StoredFiles;
use super::{BesideResult, BesideState, BesideStatus, StartBeside};

/// The run of one thread.
pub(super) struct Runner {
    pub(super) handle: DriveHandle,
    /// The drive, for the comments of the profile.
    pub(super) drive: String,
    /// The configuration names a profile or a map.
    pub(super) is_model_named: bool,
    pub(super) state: Option<State>,
    pub(super) files: Option<StoredFiles>,
    pub(super) start: StartBeside,
    pub(super) status: Arc<Mutex<BesideStatus>>,
    pub(super) stop: Arc<AtomicBool>,
}

/// The interval between saves, which bounds the loss when the server is killed.
const SAVE_EVERY: Duration = Duration::from_secs(3);
/// The interval at which a waiting thread looks whether it has to stop.
const STOP_EVERY: Duration = Duration::from_millis(100);
/// The interval of questions to a drive that is in standby or away.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The time without reads after which a drive may have gone to standby (as for scans).
const QUIET: Duration = Duration::from_secs(4);
/// The advantage of the new profile over the model in use that is certain enough (guess: two
/// standard errors of some thousand reads).
const MIN_GAIN: f64 = 0.01;

impl Runner {
    /// Runs until the characterization is complete, fails or is stopped. Returns what a later run
    /// continues with.
    pub(super) fn run(&self, left: Left) -> Option<Left> {
        let Left { mut probe, mut progress } = left;
        loop {
            let reads = match self.handle.timed_reads() {
                Ok(reads) => reads,
                Err(error) => {
                    self.fail(error.to_string());
                    return Some(Left { probe, progress });
                }
            };
            let mut drive =
                EngineReads { runner: self, reads, last: Instant::now(), interruption: None };
            let mut saving = Saving { last: Instant::now(), stage: probe.stage() };
            let mut watch =
                |probe: &Probe, progress: &BesideProgress| self.watch(probe, progress, &mut saving);
            let Ok(ended) = characterize_beside(&mut drive, &mut probe, &mut progress, &mut watch);
            let interruption = drive.interruption.take();
            drop(drive);
            match (ended, interruption) {
                (Ended::Done, _) => return self.end(probe, progress),
                // Stopped by the watch, or while it waited.
                (Ended::Stopped, None) => {
                    self.save(&probe);
                    return Some(Left { probe, progress });
                }
                (Ended::Stopped, Some(Interruption::Away)) => {
                    tracing::warn!(
                        "the characterization waits for the connection to the drive; it goes on \
                            when that is restored"
                    );
                    // The clock of the drive may be another one afterwards.
                    *probe = Probe::resume(*probe);
                    self.save(&probe);
                    if !self.wait_while("the connection to the drive is lost", is_away) {
                        return Some(Left { probe, progress });
                    }
                }
                (Ended::Stopped, Some(Interruption::Failed(error))) => {
                    self.save(&probe);
                    self.fail(error.to_string());
                    return Some(Left { probe, progress });
                }
            }
        }
    }

    fn watch(
        &self,
        probe: &Probe,
        progress: &BesideProgress,
        saving: &mut Saving,
    ) -> ControlFlow<()> {
        self.update(|status| status.see(probe, Some(progress)));
        let is_new_stage = probe.stage() != saving.stage;
        if is_new_stage {
            tracing::info!(
                "characterization beside clients: {} is done after {} reads, {} of them to be \
                    repeated",
                saving.stage.describe(),
                progress.reads,
                progress.disturbed
            );
        }
        // The end is saved later: of a drive that was lost, the state before is worth more.
        if probe.stage() != Stage::Done && (is_new_stage || saving.last.elapsed() >= SAVE_EVERY) {
            self.save(probe);
            saving.last = Instant::now();
        }
        saving.stage = probe.stage();
        if self.stop.load(Ordering::Acquire) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Saves the state. The first failure and the first success after it are logged.
    fn save(&self, probe: &Probe) {
        let Some(state) = &self.state else { return };
        let result = state.write(probe);
        self.update(|status| match (result, status.reason.is_empty()) {
            (Err(error), is_first) => {
                let reason = format!(
                    "{error}; it goes on, but after a restart of the server it continues from an \
                        earlier state"
                );
                if is_first {
                    tracing::warn!("the state of the characterization cannot be saved: {reason}");
                }
                status.reason = reason;
            }
            (Ok(()), false) => {
                tracing::info!("the state of the characterization is saved again");
                status.reason.clear();
            }
            (Ok(()), true) => {}
        });
    }

    /// Writes the profile, and uses it if it is better. Returns what is left to be done again.
    fn end(&self, probe: Box<Probe>, progress: BesideProgress) -> Option<Left> {
        let finding = probe.finding();
        let verdict = finding.verdict.sentence();
        if let Verdict::Gone { .. } = finding.verdict {
            self.fail(format!("{verdict}; check the drive, then continue with --beside=resume"));
            let saved = self.state.as_ref().and_then(|state| state.read().ok().flatten());
            return saved.map(|probe| Left { probe: Box::new(probe), progress });
        }
        if let Verdict::Replaced { .. } = finding.verdict {
            self.fail(verdict);
            return None;
        }
        self.save(&probe);
        match self.keep(&finding, &progress) {
            Ok(result) => {
                tracing::info!("{}; {}", result.verdict, result.use_reason);
                if let Some(error) =
                    self.files.as_ref().and_then(|files| files.remove_state().err())
                {
                    tracing::warn!("{error}; the next start does the end of it again");
                }
                self.update(|status| {
                    status.see(&probe, Some(&progress));
                    status.state = BesideState::Complete;
                    status.reason.clear();
                    status.result = Some(result);
                });
                None
            }
            Err(reason) => {
                self.fail(format!("{reason}; then finish with --beside=resume"));
                Some(Left { probe, progress })
            }
        }
    }

    /// Writes the profile where it was requested, uses it, and remembers it.
    fn keep(&self, finding: &Finding, progress: &BesideProgress) -> Result<BesideResult, String> {
        let own = finding.check.as_ref();
        let mut result = BesideResult {
            verdict: finding.verdict.sentence(),
            reliable: finding.verdict.is_characterized(),
            within_50_us: own.map(|check| check.within_50_us),
            within_150_us: own.map(|check| check.within_150_us),
            model_within_150_us: progress.model_in_use.share(),
            used: false,
            written: None,
            use_reason: "there is no profile, so the model in use stays".to_owned(),
            remembered_in: None,
            remarks: finding.remarks.clone(),
        };
        let Some(profile) = finding.profile.clone() else { return Ok(result) };
        let profile = clients::named(profile, &self.start.name, &self.drive);
        let toml = annotated(&profile, finding, &self.drive);
        let again = DriveProfile::from_toml(&profile.name, &toml);
        if again.as_ref().ok() != Some(&profile) {
            return Err(format!(
                "the profile reads back differently ({:?}); this is a defect of headtime, please \
                    report it",
                again.err()
            ));
        }
        if let Some(out) = &self.start.out {
            write_profile(out, clients::existing(&self.start), &toml).map_err(|error| {
                format!("the profile cannot be written to {}: {error}; correct this", out.display())
            })?;
            result.written = Some(out.clone());
        }
        match self.obstacle(&result) {
            Some(reason) => result.use_reason = reason,
            None => {
                self.handle
                    .use_profile(&profile)
                    .map_err(|error| format!("the profile cannot be used: {error}; check it"))?;
                result.used = true;
                result.use_reason =
                    self.remember(&toml, result.within_150_us, &mut result.remembered_in)?;
            }
        }
        Ok(result)
    }

    /// The reason why the model in use stays, if it does.
    fn obstacle(&self, result: &BesideResult) -> Option<String> {
        let model = self.handle.snapshot().drive_model;
        let percent = |share: Option<f64>| format!("{:.1} %", share.unwrap_or_default() * 100.0);
        let (own, theirs) = (result.within_150_us, result.model_within_150_us);
        if self.start.keep_model {
            return Some("the model in use stays, as requested (--keep-model)".to_owned());
        }
        if !result.reliable {
            return Some("the profile is not reliable, so the model in use stays".to_owned());
        }
        match (model, theirs) {
            ("distance", _) => None,
            ("profile", Some(share)) if own.is_some_and(|own| own > share + MIN_GAIN) => None,
            ("profile", Some(_)) => Some(format!(
                "the model in use stays: it predicted {} of the same reads within 150 us, and the \
                    new profile {}",
                percent(theirs),
                percent(own)
            )),
            ("profile", None) => Some(
                "the model in use stays, because too few reads compared it with the new profile; \
                    serve the drive with --profile to use that"
                    .to_owned(),
            ),
            (model, _) => Some(format!(
                "the drive is scheduled by {model}, which stays; serve it with --profile to use \
                    the new profile"
            )),
        }
    }

    /// Remembers the profile for the next start, unless a better one is remembered; returns a
    /// sentence about its use. `own` is the share of reads that it predicted within 150 us.
    fn remember(
        &self,
        toml: &str,
        own: Option<f64>,
        remembered_in: &mut Option<std::path::PathBuf>,
    ) -> Result<String, String> {
        let Some(files) = &self.files else {
            return Ok(
                "it is the drive model from now on; this server keeps no state, so name it \
                with --profile at the next start"
                    .to_owned(),
            );
        };
        // The new profile was compared with the model in use only.
        let other = files.remembered().ok().flatten().filter(|_| self.is_model_named);
        if let Some(share) = share_if_better(other, own) {
            return Ok(format!(
                "it is the drive model until the server ends; {} has a better one, which predicted \
                    {:.1} % of its reads within 150 us, and stays",
                files.profile().display(),
                share * 100.0
            ));
        }
        files.remember(toml).map_err(|error| {
            format!("the profile is used now, but it cannot be remembered: {error}; correct this")
        })?;
        *remembered_in = Some(files.profile());
        Ok(if self.is_model_named {
            "it is the drive model from now on; the configuration names another one, so leave that \
                out to use it at the next start"
                .to_owned()
        } else {
            "it is the drive model from now on, also after a restart".to_owned()
        })
    }

    /// Waits while the drive is in some state. Returns false if it was stopped.
    fn wait_while(&self, reason: &'static str, is_so: fn(&DriveHandle) -> bool) -> bool {
        self.update(|status| status.waits_outside = Some(reason));
        let mut checked = None::<Instant>;
        let goes_on = loop {
            if self.stop.load(Ordering::Acquire) {
                break false;
            }
            if checked.is_none_or(|at| at.elapsed() >= ASK_EVERY) {
                if !is_so(&self.handle) {
                    break true;
                }
                checked = Some(Instant::now());
            }
            std::thread::sleep(STOP_EVERY);
        };
        self.update(|status| status.waits_outside = None);
        goes_on
    }

    fn fail(&self, reason: String) {
        tracing::error!("the characterization beside clients has stopped: {reason}");
        self.update(|status| {
            status.state = BesideState::Failed;
            status.reason = reason;
        });
    }

    fn update(&self, change: impl FnOnce(&mut BesideStatus)) {
        change(&mut self.status.lock());
    }
}

/// The share of reads that a profile predicted within 150 us, if that is more than `own`.
fn share_if_better(profile: Option<DriveProfile>, own: Option<f64>) -> Option<f64> {
    profile?.accuracy.map(|of| of.within_150_us).filter(|share| own < Some(*share))
}

/// The last save.
struct Saving {
    last: Instant,
    stage: Stage,
}

/// The timed reads of the drive's engine.
struct EngineReads<'r> {
    runner: &'r Runner,
    reads: TimedReads,
    /// The time of the last read.
    last: Instant,
    /// The reason why it stopped by itself.
    interruption: Option<Interruption>,
}

/// The reason why reads end before the characterization does.
enum Interruption {
    /// The connection to the drive is lost.
    Away,
    Failed(TimedReadsError),
}

impl EngineReads<'_> {
    fn carry_out(&mut self, read: TimedRead) -> Result<Option<TimedReadDone>, Interruption> {
        let runner = self.runner;
        // Only a drive without reads for a while may sleep.
        if self.last.elapsed() >= QUIET
            && !runner.wait_while("the drive is in standby, and is not woken for it", is_asleep)
        {
            return Ok(None);
        }
        self.reads.request(read).map_err(Interruption::Failed)?;
        while !runner.stop.load(Ordering::Acquire) {
            let Some(done) = self.reads.wait(STOP_EVERY).map_err(Interruption::Failed)? else {
                continue;
            };
            if matches!(done.outcome, ReadOutcome::Failed(_)) && is_away(&runner.handle) {
                return Err(Interruption::Away);
            }
            self.last = Instant::now();
            runner.update(|status| status.last_read = Some(self.last));
            return Ok(Some(done));
        }
        Ok(None)
    }
}

impl BesideDrive for EngineReads<'_> {
    type Error = Infallible;

    fn read(&mut self, read: TimedRead) -> Result<Option<TimedReadDone>, Infallible> {
        let done = self.carry_out(read).unwrap_or_else(|interruption| {
            self.interruption = Some(interruption);
            None
        });
        Ok(done)
    }
}

fn is_asleep(handle: &DriveHandle) -> bool {
    handle.power_state() == PowerState::Standby
}

fn is_away(handle: &DriveHandle) -> bool {
    let link = handle.snapshot().link;
    link.is_some_and(|link| !matches!(link.state, LinkState::Connected))
}

/// Writes the profile; one with the same content may be there from before a restart.
fn write_profile(out: &Path, existing: Existing, toml: &str) -> io::Result<()> {
    match write_atomically(out, existing, |mut file| file.write_all(toml.as_bytes())) {
        Err(error)
            if error.kind() == io::ErrorKind::AlreadyExists
                && std::fs::read(out).is_ok_and(|old| old == toml.as_bytes()) =>
        {
            Ok(())
        }
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::profile::Accuracy;

    #[test]
    fn a_profile_is_better_if_it_predicted_more_reads() {
        let shipped = headtime_mechanics::catalog::load("atlas10k").expect("it ships");
        let accuracy = Accuracy { reads: 2_000, within_150_us: 0.97, ..Accuracy::default() };
        let measured = DriveProfile { accuracy: Some(accuracy), ..shipped.clone() };
        let better = |of: &DriveProfile, own| share_if_better(Some(of.clone()), own);
        assert_eq!(better(&measured, Some(0.95)), Some(0.97));
        assert_eq!(better(&measured, Some(0.97)), None);
        assert_eq!(better(&measured, None), Some(0.97));
        assert_eq!(better(&shipped, Some(0.1)), None, "nobody has measured it");
        assert_eq!(share_if_better(None, Some(0.1)), None);
    }
}
