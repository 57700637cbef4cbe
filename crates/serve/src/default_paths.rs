//! Default paths of the files that belong to a drive.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use headtime_io::Locator;

/// `FILE.suffix` for a drive in a file, `ELSEWHERE/NAME.suffix` for a block device; `None` for a
/// drive in memory or on the network.
pub(crate) fn beside(locator: &Locator, suffix: &str, elsewhere: &str) -> Option<PathBuf> {
    let file = match locator {
        Locator::Path(path) => path,
        Locator::Emulated(emulated) => &emulated.backing,
        // The first member holds the table of volumes.
        Locator::Array(array) => return beside(array.members.first()?, suffix, elsewhere),
        Locator::Memory(_) | Locator::Simulated(_) | Locator::Nbd(_) => return None,
    };
    let with_suffix = |path: &Path| {
        let mut name = OsString::from(path.as_os_str());
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    };
    let device =
        std::fs::metadata(file).is_ok_and(|metadata| metadata.file_type().is_block_device());
    if !device {
        return Some(with_suffix(file));
    }
    let real = std::fs::canonicalize(file).ok()?;
    Some(with_suffix(&Path::new(elsewhere).join(real.file_name()?)))
}

/// The default path of a server's control socket; `None` for a drive without a local path.
#[must_use]
pub fn default_control_socket(locator: &Locator) -> Option<PathBuf> {
    crate::control::default_path(locator)
}

/// The default directory for the state of scans; `None` for a drive without a local path.
#[must_use]
pub fn default_state_directory(locator: &Locator) -> Option<PathBuf> {
    beside(locator, "scans", "/var/lib/headtime")
}

/// The control socket of a scan without a server: the default of a server, or a file in the state
/// directory of the user for a drive without a local path.
#[must_use]
pub fn control_socket_alone(locator: &Locator) -> Option<PathBuf> {
    default_control_socket(locator).or_else(|| {
        let drive: String = headtime_tasks::ScanSubject::identity_by_name(&locator.to_string())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(state_home()?.join(format!("{drive}.control")))
    })
}

/// The default directory for the state of scans without a server: that of a server, [`state_home`]
/// for an NBD server's export, and `None` for a drive that does not persist.
pub(crate) fn state_directory_alone(locator: &Locator) -> Option<PathBuf> {
    default_state_directory(locator)
        .or_else(|| if matches!(locator, Locator::Nbd(_)) { state_home() } else { None })
}

/// The state directory of the user: `$XDG_STATE_HOME/headtime`, `/var/lib/headtime` for root,
/// `~/.local/state/headtime` for others.
fn state_home() -> Option<PathBuf> {
    let named =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(home) = named("XDG_STATE_HOME") {
        return Some(home.join("headtime"));
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/headtime"));
    }
    Some(named("HOME")?.join(".local/state/headtime"))
}
