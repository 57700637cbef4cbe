//! A drive served alone: one export over all of it, nothing in front. For trying other software on
//! an emulated drive.
//!
//! No table of volumes is read or written, and every request goes to the drive's own queue as it
//! comes (policy `firmware`, at the drive's own depth), so that the client meets the drive as it
//! is. What the server does to long requests is the same as ever: they reach the drive in pieces.

use headtime_io::PolicyChoice;

use crate::config::Config;
use crate::server::{Server, Serving, StartError};

/// The export's name; the empty name finds it too, because it is the only one.
pub const ALONE_EXPORT: &str = "drive";

/// Serves the drive of `config` alone. Its policy and volumes are not used; `outstanding` is, if it
/// is set.
///
/// # Errors
/// See [`StartError`].
pub fn serve_alone(config: &Config) -> Result<Server, StartError> {
    config.check()?;
    let firmware =
        PolicyChoice::parse("firmware").expect("the table of policies has the firmware's");
    let mut alone = Config { policy: firmware, ..config.clone() };
    // What was once set of another server of the same drive does not change what this one is for.
    alone.tuned.insert("policy");
    Server::open(&alone, &Serving::Whole { name: ALONE_EXPORT })
}
