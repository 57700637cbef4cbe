//! The drive as a server opens it.

use std::time::{Duration, Instant};

use headtime_io::{BeliefChoice, Drive, DriveOptions, Locator, OpenError};
use headtime_units::ByteSize;

use crate::config::Config;

/// How long a drive may be in use by a server that was killed: longer than commands of a healthy
/// drive take.
const LETTING_GO: Duration = Duration::from_secs(2);
/// And how often that is looked at.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// What the engine is told of the drive.
pub(super) fn drive_options(config: &Config) -> DriveOptions {
    let limits = &config.limits;
    let bytes =
        limits.memory.get() + u64::from(limits.connections) * limits.connection_memory.get();
    DriveOptions {
        policy: config.policy.clone(),
        outstanding: config.outstanding,
        command_timeout: config.command_timeout,
        raw: config.raw.clone(),
        profile: config.profile.clone(),
        belief: BeliefChoice { by: config.model.clone(), settings: config.map.clone() },
        tunables: config.tunables.clone(),
        create_bytes: config.create.map(ByteSize::get),
        // The server's own bounds are the ones that hold; twice as much leaves room for requests
        // that are over and not yet forgotten.
        max_requests: 2 * limits.pieces as usize + 64,
        max_bytes: 2 * bytes + (64 << 20),
        ..DriveOptions::default()
    }
}

/// Opens the drive. One that is in use is tried again for a while: after a kill -9 the system lets
/// go of the file only when the last command that was under way has ended, and whoever restarts a
/// server at once should not have to know that.
pub(crate) fn open_drive(locator: &Locator, options: &DriveOptions) -> Result<Drive, OpenError> {
    let enough = Instant::now() + LETTING_GO;
    loop {
        match Drive::open(locator, options.clone()) {
            Err(error) if error.may_pass_soon() && Instant::now() < enough => {
                std::thread::sleep(TRY_AGAIN)
            }
            opened => return opened,
        }
    }
}
