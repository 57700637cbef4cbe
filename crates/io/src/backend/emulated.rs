//! The simulated drive in real time: times from the model, bytes from a backing file.
//!
//! A command goes to both at once. It is over when the model's time for it has come *and* its bytes
//! are done; worker threads do the bytes, which takes microseconds from the page cache against
//! milliseconds of the model. When the bytes are the later part, the file was slower than the
//! emulated drive: such completions are counted apart and are no lateness of the engine.
//!
//! *Modelled*: what [`headtime_sim`] models. *Not modelled*: the time of a flush or of force unit
//! access beyond the model's, and of stopping platters, whose start takes a fixed time; the
//! durability is real. *Differs from a drive*: reads and writes take effect on the bytes when the
//! command is sent, not when the head passes; no one can see that, because overlapping commands are
//! never at the drive together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use headtime_mechanics::DiskTime;
use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{Command, CommandId, Outcome};
use headtime_sim::{Device, DriveCompletion, DriveTruth, ShingledDrive, SimulatedDrive};
use headtime_units::{ByteSize, Instant, Nanos};

use crate::backend::OpenedDrive;
use crate::backend::backing;
use crate::backend::pool::Pool;
use crate::backend::{Backend, BackendCommand, BackendCompletion, EmulationCounts};
use crate::clock::RealClock;
use crate::locator::{EmulatedLocator, Locator};
use crate::notifier::Notifier;
use crate::open_error::OpenError;
use crate::power::{PowerProbe, PowerState};
use crate::profile::{self, ReportedModel};
use crate::sidecar::Sidecar;

/// An emulated drive.
struct EmulatedDrive {
    name: String,
    model: Box<dyn Device + Send>,
    /// The number of commands at the drive.
    at_drive: usize,
    /// The model counts its time from the origin of the clock; this much had passed when the drive
    /// was opened.
    before: DiskTime,
    pool: Pool,
    /// Commands of which one half is done. Only looked up, so its order never matters.
    half_done: HashMap<CommandId, Half>,
    bytes_done: Vec<(CommandId, Result<Bytes, i32>)>,
    model_done: Vec<DriveCompletion>,
    bytes_late: u64,
    bytes_late_max: Nanos,
    /// `None` for a drive that never goes to standby.
    motor: Option<Motor>,
}

/// The spindle's motor, which stops after a time without commands and starts with the next one.
struct Motor {
    power: Arc<MotorPower>,
    /// Commands that wait for the platters, and the time at which those turn.
    waiting: Vec<Command>,
    turns_from: Instant,
}

/// The answer to questions for the power state.
struct MotorPower {
    standby: Nanos,
    /// The time in nanoseconds from which no command was at the drive; the maximum while one is.
    idle_since: AtomicU64,
}

impl MotorPower {
    fn state_at(&self, now: Instant) -> PowerState {
        let idle_since = Instant::from_ns(self.idle_since.load(Ordering::Acquire));
        if now.saturating_since(idle_since) >= self.standby {
            PowerState::Standby
        } else {
            PowerState::Awake
        }
    }
}

impl PowerProbe for MotorPower {
    fn state(&self) -> PowerState {
        self.state_at(RealClock.now())
    }
}

impl Motor {
    /// Returns the command if the platters turn; otherwise it waits for them.
    fn pass(&mut self, now: Instant, command: Command) -> Option<Command> {
        if self.power.state_at(now) == PowerState::Standby {
            self.turns_from = now + SPIN_UP;
        }
        self.power.idle_since.store(u64::MAX, Ordering::Release);
        if now >= self.turns_from {
            return Some(command);
        }
        self.waiting.push(command);
        None
    }

    fn is_ready(&self, now: Instant) -> bool {
        !self.waiting.is_empty() && now >= self.turns_from
    }
}

enum Half {
    Bytes(Result<Bytes, i32>),
    ReportedModel { due: Instant, outcome: Outcome },
}

/// Opens an emulated drive with its backing.
///
/// # Errors
/// See [`OpenError`].
pub(crate) fn open(
    locator: &Locator,
    emulated: &EmulatedLocator,
    notifier: &Arc<Notifier>,
) -> Result<OpenedDrive, OpenError> {
    let profile_error = |error: ProfileError| OpenError::Profile {
        locator: locator.to_string(),
        message: error.to_string(),
    };
    let profile = profile_of(emulated, locator)?;
    let sector_size = profile.sector_size().map_err(profile_error)?;
    let capacity = match emulated.smr {
        None => profile.capacity(),
        Some(shingles) => ShingledDrive::room(profile.capacity(), shingles, sector_size)
            .ok_or_else(|| OpenError::Profile {
                locator: locator.to_string(),
                message: format!(
                    "a media cache of {}, a band of {} and its copy must have 4 KiB each and fit \
                        on the drive of {}; choose other sizes (smr=CACHE/BAND)",
                    shingles.media_cache,
                    shingles.band,
                    ByteSize::new(sector_size.bytes_of(profile.capacity()))
                ),
            })?,
    };
    let base_name = profile.name.split('@').next().unwrap_or_default();
    let requested = Sidecar {
        profile: base_name.to_owned(),
        seed: 0,
        sector_bytes: sector_size.bytes(),
        capacity_sectors: capacity.get(),
        segment_bytes: 0,
    };
    let belief = headtime_belief::of_profile(&profile).map_err(profile_error)?;
    let backing = backing::open(&emulated.backing, &requested, emulated.seed)?;
    let truth = DriveTruth::draw(&profile, backing.seed).map_err(profile_error)?;
    let pool = Pool::start(backing.store, Arc::clone(notifier), BYTE_THREADS)
        .map_err(OpenError::Engine)?;
    let drive = SimulatedDrive::new(truth).map_err(profile_error)?;
    let model: Box<dyn Device + Send> = match emulated.smr {
        None => Box::new(drive),
        Some(shingles) => Box::new(
            ShingledDrive::new(drive, shingles, sector_size)
                .expect("a drive of its profile's size"),
        ),
    };
    let queue_depth = model.queue_depth();
    let motor = emulated.standby.map(|standby| {
        let idle_since = AtomicU64::new(RealClock.now().as_ns());
        Arc::new(MotorPower { standby, idle_since })
    });
    let backend = EmulatedDrive {
        name: format!("emulated {}, unit {}", profile.name, backing.seed),
        before: model.disk_time(RealClock.now()),
        model,
        at_drive: 0,
        pool,
        half_done: HashMap::new(),
        bytes_done: Vec::new(),
        model_done: Vec::new(),
        bytes_late: 0,
        bytes_late_max: Nanos::ZERO,
        motor: motor.clone().map(|power| Motor {
            power,
            waiting: Vec::new(),
            turns_from: Instant::ORIGIN,
        }),
    };
    Ok(OpenedDrive {
        belief,
        model: ReportedModel::Profile(Box::new(profile.clone())),
        physical_block: profile.physical_sector_bytes.unwrap_or(profile.sector_bytes),
        precise: true,
        new_files: backing.new_files,
        power: motor.into_iter().map(|power| power as Arc<dyn PowerProbe>).collect(),
        ..OpenedDrive::new(Box::new(backend), capacity, sector_size, queue_depth)
    })
}

/// Loads the profile of an emulated drive.
pub(crate) fn profile_of(
    emulated: &EmulatedLocator,
    locator: &Locator,
) -> Result<DriveProfile, OpenError> {
    let profile = profile::load(&emulated.profile, emulated.setup.as_deref(), locator)?;
    Ok(emulated.noise.apply(&profile))
}

impl Backend for EmulatedDrive {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn start(&mut self, now: Instant, work: BackendCommand) {
        let command = match &mut self.motor {
            Some(motor) => motor.pass(now, work.command.clone()),
            None => Some(work.command.clone()),
        };
        if let Some(command) = command {
            self.model.submit(now, &command);
        }
        self.at_drive += 1;
        self.pool.carry_out(work);
    }

    fn collect(&mut self, now: Instant, ended: &mut Vec<BackendCompletion>) {
        if let Some(motor) = self.motor.as_mut().filter(|motor| motor.is_ready(now)) {
            for command in motor.waiting.drain(..) {
                self.model.submit(now, &command);
            }
        }
        let known = ended.len();
        // Bytes first: what is done by now, although perhaps only just, was there in time for what
        // the model has ready now.
        let mut bytes_done = std::mem::take(&mut self.bytes_done);
        self.pool.take_done(&mut bytes_done);
        for (command, bytes) in bytes_done.drain(..) {
            match self.half_done.remove(&command) {
                Some(Half::ReportedModel { due, outcome }) => {
                    self.bytes_late += 1;
                    self.bytes_late_max = self.bytes_late_max.max(now.saturating_since(due));
                    ended.push(BackendCompletion {
                        command,
                        due: None,
                        result: joined(outcome, bytes),
                    });
                }
                _ => {
                    self.half_done.insert(command, Half::Bytes(bytes));
                }
            }
        }
        self.bytes_done = bytes_done;

        let mut model_done = std::mem::take(&mut self.model_done);
        self.model.advance(now, &mut model_done);
        for DriveCompletion { command, finished: due, outcome, .. } in model_done.drain(..) {
            match self.half_done.remove(&command) {
                Some(Half::Bytes(bytes)) => ended.push(BackendCompletion {
                    command,
                    due: Some(due),
                    result: joined(outcome, bytes),
                }),
                _ => {
                    self.half_done.insert(command, Half::ReportedModel { due, outcome });
                }
            }
        }
        self.model_done = model_done;
        self.at_drive -= ended.len() - known;
        if let Some(motor) =
            self.motor.as_ref().filter(|_| self.at_drive == 0 && ended.len() > known)
        {
            motor.power.idle_since.store(now.as_ns(), Ordering::Release);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let motor = self.motor.as_ref().filter(|motor| !motor.waiting.is_empty());
        let turns_from = motor.map(|motor| motor.turns_from);
        [self.model.next_event(), turns_from].into_iter().flatten().min()
    }

    fn is_rotating_drive(&self) -> bool {
        true
    }

    fn emulation(&self, now: Instant) -> Option<EmulationCounts> {
        let disk_time = self.model.disk_time(now).since(&self.before);
        Some(EmulationCounts {
            bytes_late: self.bytes_late,
            bytes_late_max: self.bytes_late_max,
            disk_time,
        })
    }

    fn abandon(self: Box<Self>) {
        self.pool.abandon();
    }
}

/// A command succeeds when both the model and the file did it.
fn joined(outcome: Outcome, bytes: Result<Bytes, i32>) -> Result<Bytes, i32> {
    match outcome {
        Outcome::Success => bytes,
        Outcome::Failed(errno) => Err(errno),
    }
}

/// Enough that one held up by a sync of the backing file leaves others for reads and writes.
const BYTE_THREADS: usize = 4;
/// The time until stopped platters turn again (guess: drives of 3.5 inches take 4 to 20 s).
const SPIN_UP: Nanos = Nanos::from_secs(4);
