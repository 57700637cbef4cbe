//! What `headtime scan` prints of a scan with `--json`.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The status that an order which must succeed has printed.
pub(super) fn printed(what: &str, output: &Output) -> Value {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {err}{out}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    answer["scans"][0].clone()
}

/// Polls until the status fulfills the condition.
pub(super) fn until(
    what: &str,
    ask: impl Fn() -> Value,
    fulfilled: impl Fn(&Value) -> bool,
) -> Value {
    let enough = Instant::now() + Duration::from_secs(60);
    loop {
        let status = ask();
        if fulfilled(&status) {
            return status;
        }
        assert!(Instant::now() < enough, "a minute has passed and not: {what}; {status}");
        std::thread::yield_now();
    }
}
