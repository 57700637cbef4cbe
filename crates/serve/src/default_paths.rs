//! Where a server keeps what belongs to a drive, unless somebody says otherwise.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use headtime_io::Locator;

/// `FILE.suffix` for a drive that is a file or has its bytes in one, `ELSEWHERE/NAME.suffix` for a
/// block device; nothing for a drive in memory or at the other end of a network.
pub(crate) fn beside(locator: &Locator, suffix: &str, elsewhere: &str) -> Option<PathBuf> {
    let file = match locator {
        Locator::Path(path) => path,
        Locator::Emulated(emulated) => &emulated.backing,
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

/// The control socket of the server of a drive, unless its configuration says otherwise; `None` for
/// a drive that has no place of its own.
#[must_use]
pub fn default_control_socket(locator: &Locator) -> Option<PathBuf> {
    crate::control::default_path(locator)
}

/// Where scans of a drive are remembered, unless its configuration says otherwise; `None` for a
/// drive that has no place of its own.
#[must_use]
pub fn default_state_directory(locator: &Locator) -> Option<PathBuf> {
    beside(locator, "scans", "/var/lib/headtime")
}

/// The control socket of a drive that is scanned without a server: where a server of it would have
/// its own, or below the home of state for a drive in no place.
#[must_use]
pub fn control_socket_alone(locator: &Locator) -> Option<PathBuf> {
    default_control_socket(locator).or_else(|| {
        let drive: String = headtime_tasks::Subject::identity_by_name(&locator.to_string())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(state_home()?.join(format!("{drive}.control")))
    })
}

/// Where scans of a drive without a server are remembered: where a server would, for an NBD
/// server's export below [`state_home`], and nowhere for a drive whose bytes are gone afterwards.
pub(crate) fn state_directory_alone(locator: &Locator) -> Option<PathBuf> {
    default_state_directory(locator)
        .or_else(|| if matches!(locator, Locator::Nbd(_)) { state_home() } else { None })
}

/// The folder for what belongs to no file: `$XDG_STATE_HOME/headtime`, `/var/lib/headtime` for
/// root, `~/.local/state/headtime` for others.
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
