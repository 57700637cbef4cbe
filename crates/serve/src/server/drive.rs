//! Opens the drive of a server.

use std::time::{Duration, Instant};

use headtime_io::{Drive, DriveAccess, DriveOptions, Locator, ModelChoice, OpenError};
use headtime_units::ByteSize;

use crate::config::Config;

/// The time for which a drive may stay in use after its server was killed: longer than commands of
/// a healthy drive take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval between attempts.
const RETRY_EVERY: Duration = Duration::from_millis(20);

/// The options of the drive for the engine.
pub(crate) fn drive_options(config: &Config) -> DriveOptions {
    let limits = &config.limits;
    let bytes =
        limits.memory.get() + u64::from(limits.connections) * limits.connection_memory.get();
    DriveOptions {
        policy: config.policy.clone(),
        outstanding: config.outstanding,
        command_timeout: config.command_timeout,
        raw: config.raw.clone(),
        access: if config.read_only { DriveAccess::ReadOnly } else { DriveAccess::ReadWrite },
        profile: config.profile.clone(),
        belief: ModelChoice { by: config.model.clone(), settings: config.map.clone() },
        tunables: config.tunables.clone(),
        create_bytes: config.create.map(ByteSize::get),
        // The server has its own, tighter bounds. Twice as many requests leave room for completed
        // ones that the engine still holds.
        max_requests: 2 * limits.pieces as usize + 64,
        max_bytes: 2 * bytes + (64 << 20),
        ..DriveOptions::default()
    }
}

/// Opens the drive and retries for a while if it is in use. After a kill -9 the system releases the
/// file only when the last command has completed, and an immediate restart should succeed.
pub(crate) fn open_drive(locator: &Locator, options: &DriveOptions) -> Result<Drive, OpenError> {
    let enough = Instant::now() + RELEASE_TIMEOUT;
    loop {
        match Drive::open(locator, options.clone()) {
            Err(error) if error.may_pass_soon() && Instant::now() < enough => {
                std::thread::sleep(RETRY_EVERY)
            }
            opened => return opened,
        }
    }
}
