//! Loop devices for tests: attached for a while, and always detached again.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// A loop device on a file; detached when dropped, also after a panic, with the settings it had.
pub(crate) struct LoopDevice {
    path: PathBuf,
    /// They outlive the attachment.
    settings: Vec<(&'static str, String)>,
}

impl LoopDevice {
    /// Attaches a loop device with sectors of `sector_bytes` to `file`; `None`, with a message,
    /// where that cannot be done.
    pub(crate) fn on(file: &Path, sector_bytes: usize) -> Option<Self> {
        Self::attached(file, &["--sector-size", &sector_bytes.to_string()])
    }

    /// Attaches a loop device with more options of losetup's.
    pub(crate) fn attached(file: &Path, options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: loop devices are for root only");
            return None;
        }
        // One at a time: two threads that search for a free device at once may open the same one,
        // and the thread that fails held it open for a moment.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let attached = try_run("losetup", &[options, &["--find", "--show", text(file)]].concat());
        drop(turn);
        let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        if !attached.status.success() || device.is_empty() {
            eprintln!(
                "skipped: no loop device is to be had here ({})",
                String::from_utf8_lossy(&attached.stderr).trim()
            );
            return None;
        }
        let mut attached = Self { path: device.into(), settings: Vec::new() };
        attached.settings =
            ["scheduler", "nomerges"].map(|file| (file, attached.queue(file))).into();
        Some(attached)
    }

    /// Its node, such as `/dev/loop3`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's name, such as `loop3`.
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).expect("nodes have plain names")
    }

    /// A file of its queue's, as it is now.
    pub(crate) fn queue(&self, file: &str) -> String {
        std::fs::read_to_string(self.queue_path(file))
            .expect("the kernel shows it")
            .trim()
            .to_owned()
    }

    /// The path of a file of its queue.
    pub(crate) fn queue_path(&self, file: &str) -> PathBuf {
        Path::new("/sys/block").join(self.name()).join("queue").join(file)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        for (file, value) in &self.settings {
            let chosen = value.split(['[', ']']).nth(1).unwrap_or(value);
            let _ = std::fs::write(self.queue_path(file), chosen);
        }
        // Partitions would outlive it too.
        if Path::new("/sys/block").join(self.name()).join(format!("{}p1", self.name())).exists() {
            let _ = try_run("partx", &["-d", text(&self.path)]);
        }
        // Something may still hold it after a failure; the kernel then detaches it when that lets
        // go.
        let _ = try_run("losetup", &["-d", text(&self.path)]);
    }
}

/// Runs a program to its end.
pub(crate) fn try_run(program: &str, arguments: &[&str]) -> Output {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new(program).args(arguments).env("PATH", path).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh test installs it"))
}

/// Runs a program to its end; panics with what it said when it fails.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = try_run(program, arguments);
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{}{}",
        output.status,
        said(&output.stdout),
        said(&output.stderr)
    );
    said(&output.stdout)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("plain paths")
}
