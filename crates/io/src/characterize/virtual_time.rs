//! A simulated drive whose time jumps: a characterization of it takes as long as computing does.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use headtime_mechanics::ProfileError;
use headtime_sched::{Command, CommandId, Outcome};
use headtime_sim::{Device as _, DriveCompletion, DriveTruth, SimulatedDrive};
use headtime_units::{Instant, Nanos};

use super::SubjectOptions;
use super::backend_edge::on_backend;
use super::edge::{Edge, EdgeCommand, EdgeCompletion, Found, Lost};
use crate::backend::{emulated, simulated};
use crate::locator::{EmulatedLocator, Locator};
use crate::notifier::Notifier;
use crate::open_error::OpenError;
use crate::sidecar::Sidecar;

/// A simulated drive in virtual time. It has no bytes: what is read is empty.
pub(super) struct VirtualEdge {
    model: SimulatedDrive,
    now: Instant,
    completed: VecDeque<DriveCompletion>,
}

/// Opens a simulated drive in virtual time, an emulated one in real time or as `options` choose.
pub(super) fn open(locator: &Locator, options: &SubjectOptions) -> Result<Found, OpenError> {
    match locator {
        Locator::Simulated(simulated) => {
            in_virtual_time(locator, &simulated::profile_of(simulated, locator)?, simulated.seed)
        }
        Locator::Emulated(emulated) if options.virtual_time => {
            let profile = emulated::profile_of(emulated, locator)?;
            in_virtual_time(locator, &profile, seed_of(emulated)?)
        }
        Locator::Emulated(emulated) => {
            let notifier = Arc::new(Notifier::new().map_err(OpenError::Engine)?);
            Ok(on_backend(emulated::open(locator, emulated, &notifier)?, notifier))
        }
        Locator::Array(_) | Locator::Path(_) | Locator::Memory(_) | Locator::Nbd(_) => {
            unreachable!("only simulated drives are opened here")
        }
    }
}

fn in_virtual_time(
    locator: &Locator,
    profile: &headtime_mechanics::DriveProfile,
    seed: u64,
) -> Result<Found, OpenError> {
    let profile_error = |error: ProfileError| OpenError::Profile {
        locator: locator.to_string(),
        message: error.to_string(),
    };
    let truth = DriveTruth::draw(profile, seed).map_err(profile_error)?;
    let model = SimulatedDrive::new(truth).map_err(profile_error)?;
    Ok(Found {
        model: Some(format!("simulated {}", profile.name)),
        serial: Some(format!("unit {seed}")),
        capacity: profile.capacity(),
        sector_size: profile.sector_size().map_err(profile_error)?,
        fua: model.traits().fua,
        depth: model.queue_depth(),
        notices: Vec::new(),
        knobs: None,
        edge: Box::new(VirtualEdge { model, now: Instant::ORIGIN, completed: VecDeque::new() }),
    })
}

/// The requested seed or, else, remembered beside the backing file.
fn seed_of(emulated: &EmulatedLocator) -> Result<u64, OpenError> {
    match emulated.seed {
        Some(seed) => Ok(seed),
        None => Ok(Sidecar::read(&emulated.backing)?.map_or(0, |sidecar| sidecar.seed)),
    }
}

impl Edge for VirtualEdge {
    fn now(&self) -> Instant {
        self.now
    }

    fn send(&mut self, command: EdgeCommand) -> Instant {
        self.now += HOST;
        let command = Command {
            id: CommandId(command.token),
            op: command.op,
            extent: command.extent,
            fua: command.fua,
            background: None,
            requests: Default::default(),
        };
        self.model.submit(self.now, &command);
        self.now
    }

    fn next_completion(&mut self, until: Instant) -> Result<Option<EdgeCompletion>, Lost> {
        let mut reported = Vec::new();
        while self.completed.is_empty() {
            let Some(at) = self.model.next_event().filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return Ok(None);
            };
            self.now = self.now.max(at);
            self.model.advance(self.now, &mut reported);
            self.completed.extend(reported.drain(..));
        }
        Ok(self.completed.pop_front().map(
            |DriveCompletion { command, finished, outcome, .. }| {
                let result = match outcome {
                    Outcome::Success => Ok(Bytes::new()),
                    Outcome::Failed(errno) => Err(errno),
                };
                EdgeCompletion { token: command.0, completed: finished, result, explanation: None }
            },
        ))
    }

    fn wait_until(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    fn reopen(&mut self) -> Result<(), String> {
        Err("a simulated drive does not come back".to_owned())
    }

    fn is_real(&self) -> bool {
        false
    }
}

/// The time of a fast host from a completion to the next command (guess).
const HOST: Nanos = Nanos::from_us(1);
