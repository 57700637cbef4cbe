//! The table of targets, and small targets without further assertions.

mod metadata;
mod nbd;
mod profiles;
mod scans;
mod workloads;

use headtime_io::{Locator, PolicyChoice};
use headtime_nbd::uri::NbdUri;
use headtime_serve::config::Config;

use crate::{FuzzTarget, Memory};

/// Every target.
pub const TARGETS: &[FuzzTarget] = &[
    target(
        "nbd_server",
        "a client's bytes to the NBD server",
        &[],
        nbd::SERVER_MEMORY,
        nbd::server,
    ),
    target(
        "nbd_client",
        "a server's bytes to the NBD client",
        &[],
        nbd::CLIENT_MEMORY,
        nbd::client,
    ),
    target("names", "locators, NBD URIs and policies", &[], TEXT, names),
    target("config", "configurations of `serve`", &[], TEXT, config),
    target(
        "profile",
        "drive profiles",
        &["crates/mechanics/profiles"],
        profiles::MEMORY,
        profiles::toml,
    ),
    target("disksim", "DiskSim's descriptions of drives", &[], profiles::MEMORY, profiles::disksim),
    target("metadata", "a drive's table of volumes", &[], metadata::MEMORY, metadata::area),
    target(
        "trace",
        "traces, by every format's decoder",
        &[],
        workloads::TRACE_MEMORY,
        workloads::trace,
    ),
    target(
        "workload",
        "workload files",
        &["workloads", "crates/workload/builtin"],
        workloads::WORKLOAD_MEMORY,
        workloads::file,
    ),
    target("scan_state", "the state of a scan", &[], scans::STATE_MEMORY, scans::state),
    target("backup_stream", "the stream of a backup", &[], scans::STREAM_MEMORY, scans::stream),
    target("control", "a line to the control socket", &[], TEXT, scans::control),
    target(
        "probe_state",
        "the state of a characterization",
        &[],
        scans::PROBE_MEMORY,
        scans::probe,
    ),
    target("needs", "requirements of applications on a drive", &[], TEXT, workloads::needs),
    target("fio_job", "fio's job files", &[], workloads::WORKLOAD_MEMORY, workloads::job),
];

const fn target(
    name: &'static str,
    about: &'static str,
    samples: &'static [&'static str],
    memory: Memory,
    run: fn(&[u8]),
) -> FuzzTarget {
    FuzzTarget { name, about, samples, memory, run }
}

/// The bound of a text that is parsed into a tree, with messages that quote it.
const TEXT: Memory = Memory { base: 1 << 20, per_byte: 2_000 };

fn names(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(locator) = Locator::parse(text) {
        assert_eq!(
            Locator::parse(&locator.to_string()).as_ref(),
            Ok(&locator),
            "a locator that was printed reads back the same"
        );
    }
    if let Ok(uri) = text.parse::<NbdUri>() {
        assert_eq!(uri.to_string().parse().as_ref(), Ok(&uri), "so does a URI");
    }
    let _ = PolicyChoice::parse(text);
}

fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(errors) = Config::from_toml("fuzzed.toml", text) {
        assert!(!errors.to_string().is_empty(), "a refusal says why");
    }
}
