//! A served drive with a volume to be scanned, and what tests do to it.

#[path = "status.rs"]
mod status;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use headtime_testkit::programs;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Program, headtime, text, words};

/// Volumes follow the table.
pub(crate) const FIRST: u64 = 1 << 20;
pub(crate) const MIB: usize = 1 << 20;

/// A server's folder: its drive, and what is beside it.
pub(crate) struct Place {
    pub folder: tempfile::TempDir,
    /// The value of `--drive`.
    pub drive: String,
    /// The file with the drive's bytes.
    pub bytes: PathBuf,
    /// The volume's bytes as they were written at first.
    pub content: Vec<u8>,
    pub more: Vec<&'static str>,
}

impl Place {
    /// A drive that is a file, with a volume of `mebibytes` MiB that is full of chance.
    pub(crate) fn file(mebibytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes = folder.path().join("drive.img");
        Self {
            drive: text(&bytes).to_owned(),
            bytes,
            folder,
            content: vec![0; mebibytes * MIB],
            more: vec!["--create", "128MiB"],
        }
        .filled()
    }

    /// An emulated Atlas 10K, which reads some 20 MB a second, so that there is a middle to be
    /// killed in.
    pub(crate) fn emulated(mebibytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes = folder.path().join("drive.img");
        let drive = format!("emulated:atlas10k?backing={}", text(&bytes));
        Self { drive, bytes, folder, content: vec![0; mebibytes * MIB], more: vec![] }.filled()
    }

    pub(crate) fn filled(mut self) -> Self {
        let server = self.serve();
        stop(server);
        ChaCha8Rng::seed_from_u64(self.content.len() as u64).fill_bytes(&mut self.content);
        self.write_outside_the_server(0, &self.content);
        self
    }

    /// Writes into the drive's bytes, while no server is there.
    pub(crate) fn write_outside_the_server(&self, offset: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(&self.bytes).expect("the drive is ours");
        file.write_all_at(bytes, FIRST + offset).expect("it can be written");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn serve(&self) -> (Program, String) {
        let line = format!(
            "serve --drive {} --volume v={}MiB --listen unix:{} --print-uri",
            self.drive,
            self.content.len() / MIB,
            text(&self.path("nbd.sock"))
        );
        let mut server = Program::start(&[&words(&line)[..], &self.more].concat());
        let uri = server.line();
        (server, uri)
    }

    /// `headtime scan ORDER v …` on this server.
    pub(crate) fn scan(&self, order: &str, more: &[&str]) -> Output {
        headtime(&[&["scan", order, "v", "--drive", &self.drive, "--json"], more].concat())
    }

    /// The text output of a command that must succeed.
    pub(crate) fn text(&self, order: &str, more: &[&str]) -> String {
        let output = headtime(&[&["scan", order, "v", "--drive", &self.drive], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The same, which must succeed; the scan's status.
    pub(crate) fn scanned(&self, order: &str, more: &[&str]) -> Value {
        let output = self.scan(order, more);
        status::printed(&format!("scan {order} {more:?}"), &output)
    }

    /// Waits until the status fulfills the condition.
    pub(crate) fn until(
        &self,
        task: &str,
        what: &str,
        fulfilled: impl Fn(&Value) -> bool,
    ) -> Value {
        status::until(what, || self.scanned("status", &["--task", task]), fulfilled)
    }

    pub(crate) fn state_file(&self, task: &str) -> PathBuf {
        let states = std::fs::read_dir(self.path("drive.img.scans")).expect("there is state");
        let suffix = format!(".v.{task}.scan");
        let paths = states.map(|entry| entry.expect("readable").path());
        paths
            .into_iter()
            .find(|path| path.to_string_lossy().ends_with(&suffix))
            .expect("there is state of the task")
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stop((server, _): (Program, String)) {
    server.signal(Signal::TERM);
    let (status, _, said) = server.end();
    assert!(status.success(), "{status}: {said}");
}

pub(crate) fn kill((server, _): (Program, String)) {
    server.signal(Signal::KILL);
    let _ = server.end();
}

/// nbdsh on `uri`; `None`, with a message, where it does not work.
pub(crate) fn nbdsh(uri: &str, script: &str) -> Option<Child> {
    let start =
        || programs::nbdsh(uri, script).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    programs::has_nbdsh().then(|| start().expect("nbdsh is installed"))
}

pub(crate) fn ended(child: Child) {
    let output = child.wait_with_output().expect("it can be waited for");
    assert!(output.status.success(), "nbdsh: {}", said(&output));
}

/// Overwrites a page of each 64 KiB, in an order of its own.
pub(crate) const OVERWRITE: &str = "n = h.get_size() // 65536\nfor i in range(n): \
    h.pwrite(bytes([i % \
    251]) * 4096, i * 7919 % n * 65536)\nh.flush()";
