//! The characterization of a drive: its thread, its state, and the remembered profile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use headtime_io::characterize::{BesideProgress, Identity, State};
use headtime_io::files::{Existing, directory_of};
use headtime_io::{DriveHandle, Locator};
use headtime_mechanics::DriveProfile;
use headtime_probe::{DriveSharing, Probe, ProbeSettings};
use headtime_units::{Nanos, Share};
use parking_lot::Mutex;

use super::runner::Runner;
use super::stored::{self, StoredFiles};
use super::{BesideError, BesideState, BesideStatus, RememberedUse, StartBeside};
use crate::scans::{BoundedWork, Scans};
use crate::state_file;

/// The characterization of one drive beside its clients.
pub struct BesideClients {
    handle: DriveHandle,
    locator: Locator,
    /// They share the bound on the impact on clients.
    scans: Arc<Scans>,
    is_model_named: bool,
    /// The files in the state directory, if there is one.
    files: Option<StoredFiles>,
    /// The identity for the state of the probe.
    identity: Identity,
    job: Mutex<Option<Job>>,
}

/// A characterization, whatever its state.
struct Job {
    start: StartBeside,
    status: Arc<Mutex<BesideStatus>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The unfinished probe of a run, for the next run.
    left: Arc<Mutex<Option<Left>>>,
}

/// An unfinished characterization.
pub(super) struct Left {
    pub(super) probe: Box<Probe>,
    pub(super) progress: BesideProgress,
}

impl BesideClients {
    /// Opens the characterization of a drive: schedules by the remembered profile unless the
    /// configuration names a model, and resumes an unfinished characterization.
    pub(crate) fn open(
        handle: DriveHandle,
        locator: Locator,
        drive: [u8; 16],
        directory: Option<&Path>,
        scans: Arc<Scans>,
        uses: RememberedUse,
    ) -> Self {
        let files = directory.map(|directory| StoredFiles::new(directory, drive));
        let identity = Identity {
            model: Some(handle.model().drive.model.clone()),
            serial: Some(state_file::hex(drive)),
            capacity: handle.capacity(),
            sector_size: handle.sector_size(),
        };
        let is_model_named = uses == RememberedUse::Named;
        let job = Mutex::default();
        let opened = Self { handle, locator, scans, is_model_named, files, identity, job };
        opened.use_remembered(uses);
        if let Err(error) = opened.restore() {
            tracing::warn!("the characterization beside clients is not resumed: {error}");
        }
        opened
    }

    /// Schedules by the remembered profile, if there is one and nothing else was chosen.
    fn use_remembered(&self, uses: RememberedUse) {
        let Some(files) = &self.files else { return };
        let path = files.profile().display().to_string();
        match (files.remembered(), uses) {
            (Ok(None), _) => {}
            (Err(error), _) => tracing::warn!("{error}"),
            (Ok(Some(_)), RememberedUse::Named) => tracing::info!(
                "{path} has a profile that was found while serving; leave the profile out of the \
                    configuration to use it"
            ),
            (Ok(Some(profile)), RememberedUse::Yes) => match self.handle.use_profile(&profile) {
                Ok(()) => tracing::info!("the drive model is the remembered profile {path}"),
                Err(error) => tracing::warn!("{path} is not used: {error}"),
            },
        }
    }

    /// Resumes an unfinished characterization of an earlier server.
    fn restore(&self) -> Result<(), BesideError> {
        let Some(files) = &self.files else { return Ok(()) };
        let Some((start, paused)) = files.read_start()? else { return Ok(()) };
        let probe = match self.state(files).read() {
            Ok(probe) => probe.unwrap_or_else(|| self.probe(&start)),
            Err(error) => {
                let mut job = self.new_job(start);
                job.update(|status| {
                    status.state = BesideState::Failed;
                    status.reason = format!(
                        "{error}; start it again with --force, or end it with --beside=cancel"
                    );
                });
                *self.job.lock() = Some(job);
                return Err(error.into());
            }
        };
        let mut job = self.new_job(start);
        if paused {
            job.update(|status| {
                status.state = BesideState::Paused;
                status.see(&probe, None);
            });
            *job.left.lock() = Some(Left::new(probe));
        } else {
            self.launch(&mut job, Left::new(probe))?;
        }
        *self.job.lock() = Some(job);
        Ok(())
    }

    /// Starts a characterization.
    ///
    /// # Errors
    /// See [`BesideError`]; nothing was begun then.
    pub fn start(&self, start: StartBeside) -> Result<BesideStatus, BesideError> {
        self.check(&start)?;
        start.max_impact.map(share_of).transpose()?;
        let mut slot = self.job.lock();
        if let Some(job) = slot.as_ref() {
            match job.status().state {
                BesideState::Complete => {}
                _ if start.force => {}
                state => return Err(BesideError::There { state }),
            }
        }
        if let Some(files) = self.files.as_ref().filter(|_| !start.force) {
            // A damaged request is not discarded unasked.
            files.read_start()?;
        }
        if let Some(mut job) = slot.take() {
            job.end();
        }
        let probe = self.probe(&start);
        if let Some(files) = &self.files {
            files.remove_state()?;
            let written = files
                .write_start(&start, false)
                .and_then(|()| Ok(self.state(files).write(&probe)?));
            if let Err(error) = written {
                // Nothing begins at the next start either.
                let _ = files.remove_state();
                return Err(error);
            }
        }
        let mut job = self.new_job(start);
        self.launch(&mut job, Left::new(probe))?;
        let status = job.status();
        *slot = Some(job);
        Ok(status)
    }

    /// Stops reading until it is resumed.
    ///
    /// # Errors
    /// [`BesideError::NotThere`].
    pub fn pause(&self) -> Result<BesideStatus, BesideError> {
        let mut slot = self.job.lock();
        let job = slot.as_mut().ok_or(BesideError::NotThere)?;
        job.end();
        if job.status().state == BesideState::Running {
            job.update(|status| status.state = BesideState::Paused);
        }
        if let Some(files) = self.files.as_ref().filter(|_| job.status().state.is_unfinished()) {
            files.write_start(&job.start, true)?;
        }
        Ok(job.status())
    }

    /// Resumes a paused characterization, and tries the end of a failed one again. `max_impact`
    /// changes the bound on the impact, also of a running one.
    ///
    /// # Errors
    /// [`BesideError::NotThere`], and those of starting it.
    pub fn resume(&self, max_impact: Option<f64>) -> Result<BesideStatus, BesideError> {
        let max_impact = max_impact.map(share_of).transpose()?;
        let mut slot = self.job.lock();
        let job = slot.as_mut().ok_or(BesideError::NotThere)?;
        if let Some(share) = max_impact {
            if job.status().state == BesideState::Running {
                self.bound(Some(share))?;
            }
            job.start.max_impact = Some(share.as_fraction());
            if let Some(files) = &self.files {
                files.write_start(&job.start, job.status().state == BesideState::Paused)?;
            }
        }
        match job.status().state {
            BesideState::Paused | BesideState::Failed => {}
            BesideState::Running | BesideState::Complete | BesideState::Cancelled => {
                return Ok(job.status());
            }
        }
        if job.left.lock().is_none() {
            return Err(BesideError::NothingLeft { reason: job.status().reason });
        }
        if let Some(files) = &self.files {
            files.write_start(&job.start, false)?;
        }
        // A failed one has a thread that has ended.
        job.end();
        let left = job.left.lock().take();
        if let Some(Left { probe, progress }) = left {
            self.launch(job, Left { probe: Box::new(Probe::resume(*probe)), progress })?;
        }
        Ok(job.status())
    }

    /// Ends the characterization and removes its state. The model in use stays.
    ///
    /// # Errors
    /// [`BesideError::NotThere`], and those of removing files.
    pub fn cancel(&self) -> Result<BesideStatus, BesideError> {
        let mut slot = self.job.lock();
        let mut job = slot.take().ok_or(BesideError::NotThere)?;
        job.end();
        if let Some(files) = &self.files {
            files.remove_state()?;
        }
        job.update(|status| {
            (status.state, status.saved_in, status.out) = (BesideState::Cancelled, None, None);
        });
        Ok(job.status())
    }

    /// The state of the characterization, if there is one.
    #[must_use]
    pub fn status(&self) -> Option<BesideStatus> {
        let mut slot = self.job.lock();
        let job = slot.as_mut()?;
        if job.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            job.end();
        }
        let status = job.status();
        drop(slot);
        let snapshot = self.handle.snapshot();
        Some(status.with_wait(snapshot.timed_wait, snapshot.fill.impact()))
    }

    /// Saves the characterization and ends its thread.
    pub(crate) fn close(&self) {
        if let Some(mut job) = self.job.lock().take() {
            job.end();
        }
    }

    /// Checks a request against the drive and the file system.
    fn check(&self, start: &StartBeside) -> Result<(), BesideError> {
        let is_array = matches!(self.locator, Locator::Array(_));
        if is_array || self.handle.divide_at().is_some() {
            return Err(BesideError::Array { drive: self.locator.to_string() });
        }
        match &start.out {
            None if self.files.is_none() => Err(BesideError::NoPlace),
            None if start.keep_model => Err(BesideError::NoUse),
            None => Ok(()),
            Some(out) if !out.is_absolute() => Err(BesideError::Relative { path: out.clone() }),
            Some(out) if out.is_dir() => Err(BesideError::Directory { path: out.clone() }),
            Some(out) if out.exists() && !start.force => {
                Err(BesideError::Exists { path: out.clone() })
            }
            Some(out) => stored::try_out(directory_of(out))
                .map_err(|error| BesideError::File { path: out.clone(), error }),
        }
    }

    fn probe(&self, start: &StartBeside) -> Probe {
        let usual =
            ProbeSettings::for_drive(self.handle.capacity(), self.handle.sector_size(), start.seed);
        let budget = start.seconds.map_or(usual.budget, |seconds| Nanos::from_secs(seconds.into()));
        Probe::new(ProbeSettings { budget, sharing: DriveSharing::BesideClients, ..usual })
    }

    fn state(&self, files: &StoredFiles) -> State {
        State::new(files.probe(), self.identity.clone())
    }

    fn new_job(&self, start: StartBeside) -> Job {
        let status = BesideStatus::new(&start, self.files.as_ref().map(StoredFiles::probe));
        Job {
            start,
            status: Arc::new(Mutex::new(status)),
            stop: Arc::default(),
            thread: None,
            left: Arc::default(),
        }
    }

    /// Sets the bound on the impact of all background work while it runs.
    fn bound(&self, share: Option<Share>) -> Result<(), BesideError> {
        let bound = self.scans.set_bound_of(BoundedWork::Characterization, share);
        bound.map_err(|_| BesideError::Closed)
    }

    fn launch(&self, job: &mut Job, left: Left) -> Result<(), BesideError> {
        self.bound(job.start.max_impact.map(share_of).transpose()?)?;
        job.stop.store(false, Ordering::Release);
        job.update(|status| {
            status.state = BesideState::Running;
            status.reason.clear();
            status.see(&left.probe, Some(&left.progress));
        });
        let runner = Runner {
            handle: self.handle.clone(),
            drive: format!("{} ({})", self.identity, self.locator),
            is_model_named: self.is_model_named,
            state: self.files.as_ref().map(|files| self.state(files)),
            files: self.files.clone(),
            start: job.start.clone(),
            status: Arc::clone(&job.status),
            stop: Arc::clone(&job.stop),
        };
        let (slot, scans) = (Arc::clone(&job.left), Arc::clone(&self.scans));
        let run = move || {
            let left = runner.run(left);
            // A drive that is closing has no background work.
            let _ = scans.set_bound_of(BoundedWork::Characterization, None);
            *slot.lock() = left;
        };
        let thread = std::thread::Builder::new().name("headtime-probe".to_owned()).spawn(run);
        job.thread = Some(thread.map_err(BesideError::Thread)?);
        Ok(())
    }
}

impl Job {
    fn status(&self) -> BesideStatus {
        self.status.lock().clone()
    }

    fn update(&mut self, change: impl FnOnce(&mut BesideStatus)) {
        change(&mut self.status.lock());
    }

    /// Ends the thread, which saves the state first.
    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        if matches!(ended, Some(Err(_))) {
            tracing::error!(
                "the characterization failed on a fault of this program; its last saved state is \
                    left"
            );
            self.update(|status| {
                status.state = BesideState::Failed;
                status.reason = "a fault of this program; see the log".to_owned();
            });
        }
    }
}

impl Left {
    fn new(probe: Probe) -> Self {
        Self { probe: Box::new(probe), progress: BesideProgress::default() }
    }
}

impl Drop for BesideClients {
    fn drop(&mut self) {
        self.close();
    }
}

/// The profile with the name and the drive of a characterization.
pub(super) fn named(profile: DriveProfile, name: &str, drive: &str) -> DriveProfile {
    DriveProfile { name: name.to_owned(), model: drive.to_owned(), ..profile }
}

fn share_of(fraction: f64) -> Result<Share, BesideError> {
    Share::from_fraction(fraction).ok_or(BesideError::Impact { fraction })
}

/// The treatment of an existing file.
pub(super) fn existing(start: &StartBeside) -> Existing {
    if start.force { Existing::Replace } else { Existing::Keep }
}
