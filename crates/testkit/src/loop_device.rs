//! Loop devices for tests: attached for a while, and always detached again.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::programs::{is_root, try_run};

/// A loop device on a file; detached when dropped, also after a panic, with the settings it had.
pub struct LoopDevice {
    path: PathBuf,
    /// They outlive the attachment.
    settings: Vec<(&'static str, String)>,
}

impl LoopDevice {
    /// Attaches a loop device with sectors of `sector_bytes` to `file`; `None`, with a message,
    /// where that cannot be done.
    pub fn on(file: &Path, sector_bytes: usize) -> Option<Self> {
        Self::attached(file, &["--sector-size", &sector_bytes.to_string()])
    }

    /// Attaches a loop device with these options of losetup; `None`, with a message, where that
    /// cannot be done.
    ///
    /// # Panics
    /// When losetup is not installed, or the kernel does not show the queue's settings.
    pub fn attached(file: &Path, options: &[&str]) -> Option<Self> {
        if !is_root() {
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
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's name, such as `loop3`.
    ///
    /// # Panics
    /// When the node has a name that is not UTF-8.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).expect("nodes have plain names")
    }

    /// The present text of a file of its queue.
    ///
    /// # Panics
    /// When the kernel does not show it.
    pub fn queue(&self, file: &str) -> String {
        std::fs::read_to_string(self.queue_path(file))
            .expect("the kernel shows it")
            .trim()
            .to_owned()
    }

    /// The path of a file of its queue.
    pub fn queue_path(&self, file: &str) -> PathBuf {
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

fn text(path: &Path) -> &str {
    path.to_str().expect("plain paths")
}
