//! nbdkit as the server of a failing drive: a process that can be killed and restarted on the same
//! socket, and that cleans up.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running nbdkit.
pub(crate) struct Nbdkit {
    child: Child,
}

/// Returns true if nbdkit with these filters is installed; prints a note otherwise.
pub(crate) fn installed(filters: &[&str]) -> bool {
    let config = Command::new("nbdkit").arg("--dump-config").output();
    let config = config
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let folder = config
        .lines()
        .find_map(|line| line.strip_prefix("filterdir="))
        .map(PathBuf::from)
        .unwrap_or_default();
    let there =
        filters.iter().all(|filter| folder.join(format!("nbdkit-{filter}-filter.so")).exists());
    if !there {
        println!(
            "skipped: nbdkit with {filters:?} is not installed (scripts/setup.sh test installs it)"
        );
    }
    there
}

impl Nbdkit {
    /// Starts `nbdkit ARGUMENTS` on a socket and waits until it listens there.
    pub(crate) fn start(socket: &Path, arguments: &[&str]) -> Self {
        // A killed server leaves its socket.
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

    pub(crate) fn kill_9(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it was not waited for");
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
