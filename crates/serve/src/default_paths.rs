//! Default paths of the files that belong to a drive, and the control sockets of this machine.
//!
//! A control socket that is not in the runtime directory has a link there, so that `headtime
//! status` finds the servers of the machine.

use std::ffi::OsString;
use std::io::ErrorKind;
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

/// A short name of a drive for people: of a file or device its name, otherwise its locator.
pub(crate) fn drive_name(locator: &Locator) -> String {
    let file = match locator {
        Locator::Path(path) => path.file_name(),
        Locator::Emulated(emulated) => emulated.backing.file_name(),
        _ => None,
    };
    file.map_or_else(|| locator.to_string(), |name| name.to_string_lossy().into_owned())
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
        let drive = headtime_tasks::ScanSubject::identity_by_name(&locator.to_string());
        Some(crate::state_file::path(&state_home()?, drive, "control"))
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

/// The directories with control sockets or links to them.
fn runtime_directories() -> Vec<PathBuf> {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let of_user = of_user.filter(|path| path.is_absolute()).map(|path| path.join("headtime"));
    of_user.into_iter().chain([PathBuf::from("/run/headtime")]).collect()
}

/// The control sockets that this user can connect to.
#[must_use]
pub fn control_sockets() -> Vec<PathBuf> {
    let directories = runtime_directories();
    sockets_in(&directories, |path| std::os::unix::net::UnixStream::connect(path).is_ok())
}

/// The control sockets of other users, to which this one may not connect.
#[must_use]
pub fn foreign_control_sockets() -> Vec<PathBuf> {
    sockets_in(&runtime_directories(), is_foreign)
}

fn is_foreign(socket: &Path) -> bool {
    let answer = std::os::unix::net::UnixStream::connect(socket).map_err(|error| error.kind());
    matches!(answer, Err(ErrorKind::PermissionDenied))
}

/// The sockets in `directories` for which `is_meant` is true, each once and by its own path.
fn sockets_in(directories: &[PathBuf], is_meant: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = directories.iter().filter_map(|directory| std::fs::read_dir(directory).ok());
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "control"))
        .filter_map(|path| std::fs::canonicalize(path).ok())
        .filter(|path| is_meant(path))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// A link to a control socket, removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketLink(PathBuf);

impl SocketLink {
    /// Makes a link in the runtime directory; `None` for a socket that is there, or if the
    /// directory cannot be written. Then the server has to be named.
    pub(crate) fn to(socket: &Path) -> Option<Self> {
        let root = rustix::process::geteuid().is_root();
        let directories = runtime_directories();
        let directory = if root { directories.last() } else { directories.first() }?;
        Self::within(directory, socket)
    }

    fn within(directory: &Path, socket: &Path) -> Option<Self> {
        let socket = std::fs::canonicalize(socket).ok()?;
        if socket.parent() == std::fs::canonicalize(directory).ok().as_deref() {
            return None;
        }
        std::fs::create_dir_all(directory).ok()?;
        let name = socket.file_stem()?.to_string_lossy().into_owned();
        let number = crc32c::crc32c(std::os::unix::ffi::OsStrExt::as_bytes(socket.as_os_str()));
        let link = directory.join(format!("{name}-{number:08x}.control"));
        remove_dead_links(directory);
        std::os::unix::fs::symlink(&socket, &link).ok()?;
        Some(Self(link))
    }
}

/// Removes the links of servers that were killed.
fn remove_dead_links(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_dead = |path: &PathBuf| {
        let answer = std::os::unix::net::UnixStream::connect(path).map_err(|error| error.kind());
        path.is_symlink()
            && path.extension().is_some_and(|extension| extension == "control")
            && matches!(answer, Err(ErrorKind::ConnectionRefused | ErrorKind::NotFound))
    };
    entries.map(|entry| entry.path()).filter(is_dead).for_each(|link| {
        // A link that stays is ignored.
        let _ = std::fs::remove_file(link);
    });
}

impl Drop for SocketLink {
    fn drop(&mut self) {
        // A link without a server is ignored.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_their_links_and_dead_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("run");
        let listen = |name: &str| {
            let path = folder.path().join(name);
            (std::os::unix::net::UnixListener::bind(&path).unwrap(), path)
        };
        let ((one, first), (_two, second)) = (listen("a.img.control"), listen("b.img.control"));
        let links = [&first, &second].map(|path| SocketLink::within(&runtime, path).unwrap());
        assert!(SocketLink::within(folder.path(), &first).is_none(), "it is there already");
        let answers = |path: &Path| std::os::unix::net::UnixStream::connect(path).is_ok();
        let found = || sockets_in(std::slice::from_ref(&runtime), answers);
        assert_eq!(found(), [first.clone(), second.clone()]);
        drop(one);
        assert_eq!(found(), [second]);
        let count = || std::fs::read_dir(&runtime).unwrap().count();
        let ((_three, third), before) = (listen("c.img.control"), count());
        let link = SocketLink::within(&runtime, &third).unwrap();
        assert_eq!((before, count()), (2, 2), "the dead link makes room for the new one");
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o000);
        std::fs::set_permissions(&third, closed).unwrap();
        // root may connect all the same.
        assert_eq!(is_foreign(&third), !rustix::process::geteuid().is_root());
        drop(link);
        drop(links);
        assert!(found().is_empty() && std::fs::read_dir(&runtime).unwrap().next().is_none());
    }
}
