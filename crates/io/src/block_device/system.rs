//! Where the kernel shows its devices: `/sys`, `/proc`, `/dev`, `/run`, or a tree of a test's own.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The directories that are looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemPaths {
    /// The kernel's tree of devices, `/sys`.
    pub sys: PathBuf,
    /// The kernel's tree of processes and mounts, `/proc`.
    pub proc: PathBuf,
    /// The device nodes and their links, `/dev`.
    pub dev: PathBuf,
    /// The database of udev, `/run/udev`.
    pub udev: PathBuf,
    /// The place where changed kernel settings are remembered; must be on a file system that a
    /// reboot empties, as the settings do not outlive one either.
    pub state: PathBuf,
}

impl Default for SystemPaths {
    /// The paths of the running machine. Settings are remembered in `/run/headtime`, or in
    /// `$XDG_RUNTIME_DIR/headtime` without root privileges.
    fn default() -> Self {
        let private =
            std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
        Self {
            sys: "/sys".into(),
            proc: "/proc".into(),
            dev: "/dev".into(),
            udev: "/run/udev".into(),
            state: private.map_or_else(|| "/run".into(), PathBuf::from).join("headtime"),
        }
    }
}

impl SystemPaths {
    /// A tree of a test's own under `root`, with `sys`, `proc`, `dev`, `udev` and `state` in it.
    #[must_use]
    pub fn under(root: &Path) -> Self {
        let [sys, proc, dev, udev, state] =
            ["sys", "proc", "dev", "udev", "state"].map(|name| root.join(name));
        Self { sys, proc, dev, udev, state }
    }

    /// The kernel's name of what a path of another program's, such as `/dev/mapper/vg-lv`, leads
    /// to.
    pub(super) fn device_name(&self, path: &Path) -> Option<String> {
        let within = path.strip_prefix("/dev").ok()?;
        let node = std::fs::canonicalize(self.dev.join(within)).ok()?;
        Some(node.file_name()?.to_str()?.to_owned())
    }
}

/// The trimmed content of a small file of the kernel's; `None` when it is not there, cannot be
/// read, or is empty.
pub(crate) fn word(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The number in a small file of the kernel's.
pub(crate) fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    word(path)?.parse().ok()
}

/// The one in brackets out of `none [mq-deadline] kyber`, or all of the text when nothing is.
pub(crate) fn chosen(text: &str) -> &str {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(chosen, _)| chosen)
}

/// A field of `/proc/mounts` and its relatives as it was before blanks became `\040`.
pub(super) fn unescaped(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = (*first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// The names in a directory in alphabetical order; none when it cannot be read.
pub(super) fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The last part of the path as text.
pub(super) fn file_name(path: &Path) -> Option<String> {
    path.file_name().map(|name: &OsStr| String::from_utf8_lossy(name.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_blanks_and_backslashes_come_back() {
        let cases = [
            ("/srv", "/srv"),
            (r"/my\040disk", "/my disk"),
            (r"/a\134b", r"/a\b"),
            (r"/end\04", r"/end\04"),
            (r"/x\999", r"/x\999"),
        ];
        for (field, path) in cases {
            assert_eq!(unescaped(field), Path::new(path), "{field}");
        }
    }

    #[test]
    fn the_chosen_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("[none]"), "none");
        assert_eq!(chosen("write back"), "write back");
    }
}
