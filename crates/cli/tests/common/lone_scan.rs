//! Drives that are not being served, and `headtime scan` on them.
#![allow(dead_code, reason = "each of the tests that share it needs a part")]

#[path = "status.rs"]
mod status;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) const MIB: usize = 1 << 20;

/// A folder with a drive, and what is remembered of it.
pub(crate) struct Lone {
    pub folder: tempfile::TempDir,
    /// The locator of the drive.
    pub drive: String,
    /// The drive's bytes.
    pub content: Vec<u8>,
}

/// A scan at work; killed when it is dropped.
pub(crate) struct AtWork(Option<Child>);

impl Lone {
    /// A drive of 16 MiB that is full of chance, in `drive.img`, which is what it is called, too.
    pub(crate) fn file() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut content = vec![0; 16 * MIB];
        ChaCha8Rng::seed_from_u64(16).fill_bytes(&mut content);
        let path = folder.path().join("drive.img");
        std::fs::write(&path, &content).expect("the folder is ours");
        Self { drive: path.to_str().expect("UTF-8").to_owned(), content, folder }
    }

    /// The same as an emulated drive, of which a pass takes some two seconds.
    pub(crate) fn slow() -> Self {
        Self::emulated(SLOW)
    }

    /// The same, of which a pass takes twenty seconds: a scan of it is still running when a command
    /// arrives, however busy the machine is.
    pub(crate) fn very_slow() -> Self {
        Self::emulated(&SLOW.replace("rpm = 7200.0", "rpm = 720.0"))
    }

    fn emulated(described: &str) -> Self {
        let mut lone = Self::file();
        let profile = lone.path("slow.toml");
        std::fs::write(&profile, described).expect("the folder is ours");
        lone.drive =
            format!("emulated:{}?backing={}", profile.display(), lone.path("drive.img").display());
        lone
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, order: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headtime"));
        command.args(["scan", order, &self.drive]).args(more).stdin(Stdio::null());
        // What has no place beside its drive is kept here.
        command.env("XDG_STATE_HOME", self.folder.path());
        command
    }

    /// `headtime scan ORDER DRIVE …` to its end.
    pub(crate) fn scan(&self, order: &str, more: &[&str]) -> Output {
        self.command(order, more).output().expect("the program was built")
    }

    /// The same, which must succeed; the scan's status.
    pub(crate) fn scanned(&self, order: &str, more: &[&str]) -> Value {
        let output = self.scan(order, &[more, &["--json"]].concat());
        status::printed(&format!("scan {order} {more:?}"), &output)
    }

    /// Starts a scan and goes on.
    pub(crate) fn start(&self, more: &[&str]) -> AtWork {
        let mut command = self.command("start", more);
        let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        AtWork(Some(started.expect("the program was built")))
    }

    /// Waits until the status of a running scan fulfills the condition.
    pub(crate) fn until(
        &self,
        task: &str,
        what: &str,
        fulfilled: impl Fn(&Value) -> bool,
    ) -> Value {
        status::until(what, || self.scanned("status", &["--task", task]), fulfilled)
    }

    /// Waits until so much is read by a scan at work.
    pub(crate) fn until_read(&self, task: &str, bytes: usize) -> Value {
        self.until(task, "so much is read", |status| {
            status["bytes_done"].as_u64() >= Some(bytes as u64)
        })
    }

    /// The names of everything in the folder and below that is not in `known`.
    pub(crate) fn remaining_files(&self, known: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)
                .expect("it is ours")
                .map(|entry| entry.expect("readable").path())
            {
                if entry.is_dir() { folders.push(entry) } else { names.push(name_of(&entry)) }
            }
        }
        names.retain(|name| !known.iter().any(|known| name.ends_with(known)));
        names
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("it has a name").to_string_lossy().into_owned()
}

impl AtWork {
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.0.as_ref().expect("it was not waited for");
        kill_process(Pid::from_child(child), signal).expect("it still runs");
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Output {
        let child = self.0.take().expect("it was not waited for");
        child.wait_with_output().expect("it is our child")
    }

    pub(crate) fn kill_9(self) {
        self.signal(Signal::KILL);
        let _ = self.end();
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _gone_already = child.kill();
            let _reaped = child.wait();
        }
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// 16 MiB at some 7 MB/s.
const SLOW: &str = "\
name = \"slow\"
model = \"a drive for tests\"
description = \"small and slow\"
sector_bytes = 512
capacity_sectors = 32768
[rotation]
rpm = 7200.0
[geometry]
heads = 2
layout = \"cylinder\"
[seek]
head_switch_ms = 0.5
write_settle_ms = 0.5
points = [[1, 0.6], [100, 2.0]]
[interface]
read_command_us = 50.0
write_command_us = 50.0
completion_us = 10.0
bus_mb_per_s = 100.0
[firmware]
queue_depth = 8
algorithm = \"sptf\"
[variation]
spindle_ppm = 0.0
track_angle_us = 0.0
seek_residual_us = 0.0
slips_per_million = 0.0
jitter_us = 0.0
outlier_share = 0.0
outlier_ms = 0.0
[[zone]]
first_cylinder = 0
cylinders = 128
sectors_per_track = 128
track_skew = 12
cylinder_skew = 16
spares = 0
slips = []
";
