//! A whole drive as one export, for trying other software on an emulated drive.
//!
//! No table of volumes is read or written. Every request goes to the drive's own queue on arrival
//! (policy `firmware`, at the drive's own depth), so that the client sees the drive itself. Long
//! requests are still split into pieces.

use headtime_io::PolicyChoice;

use crate::config::Config;
use crate::server::{ServedContent, Server, StartError};

/// Serves the whole drive of `config` as the export `drive`, which the empty name finds too. Its
/// policy and volumes are ignored; `outstanding` is used if it is set.
pub fn serve_alone(config: &Config) -> Result<Server, StartError> {
    config.check()?;
    let firmware =
        PolicyChoice::parse("firmware").expect("the table of policies has the firmware's");
    let mut alone = Config { policy: firmware, ..config.clone() };
    // Tunables stored by another server of this drive do not apply.
    alone.tuned.insert("policy");
    Server::open(&alone, ServedContent::Whole { name: "drive" })
}
