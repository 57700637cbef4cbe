//! Sets `HEADTIME_VERSION`, the version that `headtime --version` and the metrics show. A release
//! build has the commit in it, from `HEADTIME_COMMIT` or from git. A debug build has not, so that a
//! commit does not make every test link again.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HEADTIME_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        match commit() {
            Some(commit) => format!("{version} ({commit})"),
            None => version,
        }
    } else {
        format!("{version} (debug build)")
    };
    println!("cargo::rustc-env=HEADTIME_VERSION={version}");
}

fn commit() -> Option<String> {
    if let Ok(commit) = env::var("HEADTIME_COMMIT") {
        return Some(commit).filter(|commit| !commit.is_empty());
    }
    // Every commit and checkout adds a line to this file.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
