//! `headtime serve --run`: a shell command that uses the server and ends it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use headtime_console::Failure;
use headtime_console::stop::Stop;
use headtime_serve::Server;
use rustix::process::{Pid, Signal, kill_process};

/// The time between two checks for the end of the command.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs `command` with the URIs of `server` in its environment until it ends. A request to stop
/// sends it SIGTERM.
pub(super) fn run(command: &str, server: &Server, stop: &Stop) -> Result<(), Failure> {
    let uris: Vec<String> = server.uris().into_iter().map(|export| export.uri).collect();
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("uri", uris.first().map_or("", String::as_str))
        .env("uris", uris.join("\n"))
        .spawn()
        .context("--run: /bin/sh cannot be started")?;
    let status = wait(&mut child, stop).context("--run: the command cannot be waited for")?;
    if status.success() {
        return Ok(());
    }
    // As a shell reports it.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    let error = anyhow!("--run: the command failed: {status}");
    Err(Failure::Program(error, u8::try_from(code).unwrap_or(1)))
}

fn wait(child: &mut Child, stop: &Stop) -> std::io::Result<ExitStatus> {
    while !stop.wait(POLL_INTERVAL) {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
    // It may have ended by itself; it is reaped below only.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    child.wait()
}
