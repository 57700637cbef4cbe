//! nbdkit as the server of a drive: a process that can be stopped, killed and started again on the
//! same socket.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running nbdkit.
pub struct Nbdkit {
    child: Child,
}

/// Returns true if nbdkit with these plugins and filters is installed; prints a message otherwise.
pub fn installed(parts: &[&str]) -> bool {
    let config = Command::new("nbdkit").arg("--dump-config").output();
    let config = config
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let folder = |key: &str| {
        config
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .map(PathBuf::from)
            .unwrap_or_default()
    };
    let there = |part: &&&str| {
        let plugin = folder("plugindir=").join(format!("nbdkit-{part}-plugin.so"));
        plugin.exists() || folder("filterdir=").join(format!("nbdkit-{part}-filter.so")).exists()
    };
    let missing: Vec<&&str> = parts.iter().filter(|part| !there(part)).collect();
    if !missing.is_empty() {
        eprintln!("skipped: nbdkit's {missing:?} is not installed; `make test` installs it");
    }
    missing.is_empty()
}

impl Nbdkit {
    /// Starts `nbdkit ARGUMENTS` on `socket` and waits until it listens there. Its temporary files
    /// lie beside the socket.
    ///
    /// # Panics
    /// When it does not start or does not listen within a minute.
    pub fn start(socket: &Path, arguments: &[&str]) -> Self {
        // A killed server leaves its socket in place.
        let _ = std::fs::remove_file(socket);
        let folder = socket.parent().expect("a socket lies in a folder");
        let child = Command::new("nbdkit")
            .args(["--foreground", "--exit-with-parent", "--log=null", "--unix"])
            .arg(socket)
            .args(arguments)
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .spawn()
            .expect("nbdkit starts");
        let mut nbdkit = Self { child };
        let enough = Instant::now() + Duration::from_secs(60);
        while UnixStream::connect(socket).is_err() {
            assert!(Instant::now() < enough, "nbdkit {arguments:?} does not listen after a minute");
            if let Ok(Some(status)) = nbdkit.child.try_wait() {
                panic!("nbdkit {arguments:?} ended with {status}; without --log=null it says why");
            }
            std::thread::yield_now();
        }
        nbdkit
    }

    /// Kills it as a crash would.
    ///
    /// # Panics
    /// When it has ended before.
    pub fn kill_9(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it was not waited for");
    }

    /// Makes it hang: the kernel accepts connections and bytes for it, and it does nothing. Returns
    /// when the last of its threads has stopped.
    ///
    /// # Panics
    /// When that takes longer than a minute.
    pub fn stop(&self) {
        self.signal("-STOP");
        let enough = Instant::now() + Duration::from_secs(60);
        while !self
            .threads()
            .iter()
            .all(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
        {
            assert!(Instant::now() < enough, "nbdkit does not stop");
            std::thread::yield_now();
        }
    }

    /// Ends [`Nbdkit::stop`].
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// The kernel's status of each thread: number, name in parentheses, state, and more.
    fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
            .collect()
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .expect("kill is always there");
        assert!(status.success());
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _gone_already = self.child.kill();
            let _reaped = self.child.wait();
        }
    }
}
