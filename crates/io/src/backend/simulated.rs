//! A simulated drive that can be opened. Its time advances to the next event as soon as the engine
//! waits, and its data is in memory.
//!
//! For tests of the layers above a drive, at the speed of the computer. The model queues commands,
//! caches data and completes commands in its own order. Service times are not visible outside of
//! the model; use `headtime sim` or the emulated drive for them.
//!
//! *Modelled*: the order in which commands end, and errors that the model makes. *Not modelled*:
//! time; power. *Differs from a drive*: reads and writes take effect on the bytes when the command
//! is sent, as in the emulated drive, and everything is gone when it is closed.

use std::collections::HashMap;

use bytes::Bytes;
use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{CommandId, Outcome};
use headtime_sim::{Device as _, DriveCompletion, DriveTruth, SimulatedDrive};
use headtime_units::{Instant, SectorSize};

use crate::backend::OpenedDrive;
use crate::backend::memory::SparseBytes;
use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::locator::{Locator, SimulatedLocator};
use crate::open_error::OpenError;
use crate::profile::{self, ReportedModel};

/// A simulated drive with bytes.
struct Simulated {
    name: String,
    model: SimulatedDrive,
    /// The model's time.
    clock: Instant,
    sector_size: SectorSize,
    bytes: SparseBytes,
    /// Commands at the model, with what their reads found. Only looked up, so its order never
    /// matters.
    at_model: HashMap<CommandId, Bytes>,
    completions: Vec<DriveCompletion>,
}

/// Opens an empty drive.
///
/// # Errors
/// See [`OpenError::Profile`].
pub(crate) fn open(
    locator: &Locator,
    simulated: &SimulatedLocator,
) -> Result<OpenedDrive, OpenError> {
    let profile_error = |error: ProfileError| OpenError::Profile {
        locator: locator.to_string(),
        message: error.to_string(),
    };
    let profile = profile_of(simulated, locator)?;
    let (sector_size, capacity) =
        (profile.sector_size().map_err(profile_error)?, profile.capacity());
    let truth = DriveTruth::draw(&profile, simulated.seed).map_err(profile_error)?;
    let model = SimulatedDrive::new(truth).map_err(profile_error)?;
    let traits = model.traits();
    let backend = Simulated {
        name: format!("simulated {}, unit {}", profile.name, simulated.seed),
        model,
        clock: Instant::ORIGIN,
        sector_size,
        bytes: SparseBytes::default(),
        at_model: HashMap::new(),
        completions: Vec::new(),
    };
    // Of times that say nothing there is nothing to learn: the drive model is by distance.
    Ok(OpenedDrive {
        model: ReportedModel::Named(profile.model.clone()),
        physical_block: profile.physical_sector_bytes.unwrap_or(profile.sector_bytes),
        fua: traits.fua,
        ..OpenedDrive::new(Box::new(backend), capacity, sector_size, traits.queue_depth)
    })
}

/// Loads the profile of a simulated drive.
pub(crate) fn profile_of(
    simulated: &SimulatedLocator,
    locator: &Locator,
) -> Result<DriveProfile, OpenError> {
    let profile = profile::load(&simulated.profile, simulated.setup.as_deref(), locator)?;
    Ok(simulated.noise.apply(&profile))
}

impl Backend for Simulated {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn start(&mut self, _now: Instant, work: BackendCommand) {
        let read = self.bytes.carry_out(&work, self.sector_size);
        self.at_model.insert(work.command.id, read);
        self.model.submit(self.clock, &work.command);
    }

    fn collect(&mut self, _now: Instant, ended: &mut Vec<BackendCompletion>) {
        while self.completions.is_empty() && !self.at_model.is_empty() {
            let Some(next) = self.model.next_event() else { return };
            self.clock = self.clock.max(next);
            self.model.advance(self.clock, &mut self.completions);
        }
        for DriveCompletion { command, outcome, .. } in self.completions.drain(..) {
            let read =
                self.at_model.remove(&command).expect("a model finishes what it was given, once");
            let result = match outcome {
                Outcome::Success => Ok(read),
                Outcome::Failed(errno) => Err(errno),
            };
            ended.push(BackendCompletion { command, due: None, result });
        }
    }

    fn next_event(&self) -> Option<Instant> {
        (!self.at_model.is_empty()).then_some(Instant::ORIGIN)
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn abandon(self: Box<Self>) {}
}
