//! Programs of the system that tests run: clients of NBD servers, and tools for block devices and
//! file systems.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The command `program`, without input. The system's programs come first in its search path:
/// nbdsh needs the Python that has the module of libnbd.
pub fn command(program: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.env("PATH", format!("/usr/sbin:/usr/bin:/sbin:/bin:{path}")).stdin(Stdio::null());
    command
}

/// Runs a program to its end.
///
/// # Panics
/// When it cannot be started.
pub fn try_run(program: &str, arguments: &[&str]) -> Output {
    let output = command(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh test installs it"))
}

/// Runs a program to its end; returns its standard output.
///
/// # Panics
/// When it cannot be started, or fails; with its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = try_run(program, arguments);
    let [printed, messages] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let status = output.status;
    assert!(status.success(), "{program} {arguments:?}: {status}\n{printed}{messages}");
    printed
}

/// Returns true if all programs are installed; prints the missing ones otherwise.
pub fn installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(sbin).collect();
    let is_missing = |program: &&&str| !folders.iter().any(|folder| folder.join(program).exists());
    let missing: Vec<&&str> = programs.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        eprintln!("skipped: {missing:?} is not installed; `make test` installs it");
    }
    missing.is_empty()
}

/// Returns true if nbdsh works; prints a message otherwise.
pub fn has_nbdsh() -> bool {
    let works = command("nbdsh").args(["-c", "pass"]).output();
    let works = works.is_ok_and(|output| output.status.success());
    if !works {
        eprintln!(
            "skipped: nbdsh is not installed, or its Python module is missing; `make test` \
                installs it"
        );
    }
    works
}

/// The command that runs the Python text `script` with the export at `uri` open as `h`.
pub fn nbdsh(uri: &str, script: &str) -> Command {
    let mut command = command("nbdsh");
    command.args(["-u", uri, "-c", script]);
    command
}

/// Returns true if the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
