//! Other people's programs that tests use where they are installed.

use std::process::{Command, Stdio};

/// Whether `tool` is installed; says so when it is not.
pub(crate) fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdin(Stdio::null()).output().is_ok();
    if !found {
        println!("skipped: {tool} is not installed (scripts/setup.sh test installs it)");
    }
    found
}
