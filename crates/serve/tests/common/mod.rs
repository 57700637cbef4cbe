//! Helpers for tests of a whole server: a temporary directory, a server in this process or in one
//! of its own.
#![allow(dead_code)]

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod found;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use headtime_serve::Server;
use headtime_serve::config::Config;

/// A directory with the file of a drive and a socket.
pub(crate) struct Sandbox {
    pub directory: tempfile::TempDir,
    /// The lines of the drive and the socket in a configuration.
    drive: String,
}

impl Sandbox {
    /// A drive in a plain file of `mebibytes`, as fast as the machine.
    pub(crate) fn with_file_drive(mebibytes: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory for tests");
        let drive = format!(
            "drive = {:?}\ncreate = \"{mebibytes}MiB\"\n",
            directory.path().join("drive.img")
        );
        Self { directory, drive }
    }

    /// A small and fast emulated drive.
    pub(crate) fn with_tiny_drive() -> Self {
        let directory = tempfile::tempdir().expect("a directory for tests");
        let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tiny.toml");
        let drive = format!(
            "drive = \"emulated:{profile}?backing={}\"\n",
            directory.path().join("drive.img").display()
        );
        Self { directory, drive }
    }

    /// A drive by its locator, which may name files in the sandbox's directory.
    pub(crate) fn with_drive(locator: impl Fn(&Path) -> String) -> Self {
        let directory = tempfile::tempdir().expect("a directory for tests");
        let drive = format!("drive = {:?}\n", locator(directory.path()));
        Self { directory, drive }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("nbd.sock")
    }

    /// A configuration of this drive and socket; `more` is TOML for the rest.
    pub(crate) fn toml(&self, more: &str) -> String {
        format!("{}listen = [\"unix:{}\"]\n{more}", self.drive, self.socket().display())
    }

    pub(crate) fn config(&self, more: &str) -> Config {
        Config::from_toml("test.toml", &self.toml(more)).expect("a good configuration")
    }

    /// A server in this process.
    pub(crate) fn serve(&self, more: &str) -> Server {
        Server::start(&self.config(more)).expect("the server starts")
    }

    /// A server in a process of its own, ready to serve.
    pub(crate) fn spawn(&self, more: &str) -> Spawned {
        self.spawn_toml(&self.toml(more))
    }

    /// The same with a whole configuration.
    pub(crate) fn spawn_toml(&self, toml: &str) -> Spawned {
        let file = self.path("serve.toml");
        std::fs::write(&file, toml).expect("the directory is writable");
        let program = serve_once();
        let mut child = Command::new(&program)
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example runs");
        let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n", "the server did not start; its message is above");
        Spawned { child, output }
    }

    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }
}

/// A server in a process of its own, killed when dropped.
pub(crate) struct Spawned {
    child: Child,
    /// Kept open, because a program may stop when nothing reads its output.
    output: BufReader<ChildStdout>,
}

impl Spawned {
    pub(crate) fn kill_9(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it was not waited for");
    }

    pub(crate) fn signal_to_end(&self) {
        self.signal("-TERM");
    }

    pub(crate) fn hang_up(&self) {
        self.signal("-HUP");
    }

    fn signal(&self, which: &str) {
        let status = Command::new("kill")
            .args([which, &self.child.id().to_string()])
            .status()
            .expect("kill is always there");
        assert!(status.success());
    }

    /// The next line after `ready`: the URI of an export.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it prints UTF-8");
        assert!(!line.is_empty(), "it prints no more");
        line.trim_end().to_owned()
    }

    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("it was not waited for")
    }

    pub(crate) fn terminate(self) -> ExitStatus {
        self.signal_to_end();
        self.wait()
    }

    /// Its peak resident memory in bytes.
    pub(crate) fn peak_resident_bytes(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux says it");
        let kibibytes: u64 = line
            .split_whitespace()
            .nth(1)
            .and_then(|number| number.parse().ok())
            .expect("a number");
        kibibytes << 10
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _gone_already = self.child.kill();
            let _reaped = self.child.wait();
        }
    }
}

/// The example that `cargo test` builds with the tests.
fn serve_once() -> PathBuf {
    let test = std::env::current_exe().expect("a test runs from a file");
    let program =
        test.ancestors().nth(2).expect("target/debug/deps/test").join("examples/serve_once");
    assert!(
        program.exists(),
        "{} is missing; `cargo test -p headtime-serve --examples` builds it",
        program.display()
    );
    program
}

/// The executor of a test's clients.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("threads are to be had")
}

/// Bytes without a short period, different for each seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn write_noise(path: &Path, seed: u64, length: usize) {
    std::fs::write(path, noise(seed, length)).expect("the directory is writable");
}
