//! The real program as a process that is always ended, and the clients that talk to it.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running `headtime` that is killed on drop, so that a failing test leaves no process.
pub(crate) struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_headtime"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self { child, stdout }
    }

    /// The next line it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it prints UTF-8");
        if line.is_empty() {
            let mut said = String::new();
            let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
            panic!("it ended instead of printing a line; it said: {said}");
        }
        line.trim_end().to_string()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it still runs");
    }

    /// Waits for its end; returns the rest of its output and its messages.
    pub(crate) fn end(mut self) -> (ExitStatus, String, String) {
        let (mut rest, mut said) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).expect("it prints UTF-8");
        self.child
            .stderr
            .take()
            .expect("its messages are piped")
            .read_to_string(&mut said)
            .expect("it prints UTF-8");
        (self.child.wait().expect("it can be waited for"), rest, said)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program to its end.
pub(crate) fn headtime(arguments: &[&str]) -> Output {
    headtime_in(Path::new("."), arguments)
}

/// Runs the program in `folder` to its end.
pub(crate) fn headtime_in(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headtime"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the program was built")
}

/// The arguments of a command line without quotes.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the program prints UTF-8")
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("the program prints UTF-8")
}

/// The answer of a run that succeeded.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("exactly one JSON value")
}

/// Checks that a run was refused with `code` and a message that contains `expected`, and printed
/// no answer.
pub(crate) fn check_refusal(output: &Output, code: i32, expected: &str, arguments: &[&str]) {
    let (said, line) = (stderr(output), arguments.join(" "));
    assert_eq!(output.status.code(), Some(code), "headtime {line}: {said}");
    assert!(said.contains(expected), "headtime {line} says `{said}`, without `{expected}`");
    assert_eq!(stdout(output), "", "headtime {line} printed an answer");
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have names in UTF-8")
}
