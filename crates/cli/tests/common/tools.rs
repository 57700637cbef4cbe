//! Other people's programs that tests use where they are installed.

use std::process::{Command, Stdio};

/// Returns true if `tool` is installed; prints a note otherwise.
pub(crate) fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdin(Stdio::null()).output().is_ok();
    if !found {
        println!("skipped: {tool} is not installed (scripts/setup.sh test installs it)");
    }
    found
}
