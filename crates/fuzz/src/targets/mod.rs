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
    FuzzTarget {
        name: "nbd_server",
        about: "a client's bytes to the NBD server",
        samples: &[],
        memory: nbd::SERVER_MEMORY,
        run: nbd::server,
    },
    FuzzTarget {
        name: "nbd_client",
        about: "a server's bytes to the NBD client",
        samples: &[],
        memory: nbd::CLIENT_MEMORY,
        run: nbd::client,
    },
    FuzzTarget {
        name: "names",
        about: "locators, NBD URIs and policies as people write them",
        samples: &[],
        memory: TEXT,
        run: names,
    },
    FuzzTarget {
        name: "config",
        about: "configurations of `serve`",
        samples: &[],
        memory: TEXT,
        run: config,
    },
    FuzzTarget {
        name: "profile",
        about: "drive profiles",
        samples: &["crates/mechanics/profiles"],
        memory: profiles::MEMORY,
        run: profiles::toml,
    },
    FuzzTarget {
        name: "disksim",
        about: "DiskSim's descriptions of drives",
        samples: &[],
        memory: profiles::MEMORY,
        run: profiles::disksim,
    },
    FuzzTarget {
        name: "metadata",
        about: "a drive's table of volumes",
        samples: &[],
        memory: metadata::MEMORY,
        run: metadata::area,
    },
    FuzzTarget {
        name: "trace",
        about: "traces, by every format's decoder",
        samples: &[],
        memory: workloads::TRACE_MEMORY,
        run: workloads::trace,
    },
    FuzzTarget {
        name: "workload",
        about: "workload files",
        samples: &["workloads", "crates/workload/builtin"],
        memory: workloads::WORKLOAD_MEMORY,
        run: workloads::file,
    },
    FuzzTarget {
        name: "scan_state",
        about: "what a scan remembers",
        samples: &[],
        memory: scans::STATE_MEMORY,
        run: scans::state,
    },
    FuzzTarget {
        name: "backup_stream",
        about: "the stream of a backup",
        samples: &[],
        memory: scans::STREAM_MEMORY,
        run: scans::stream,
    },
    FuzzTarget {
        name: "control",
        about: "a line to the control socket",
        samples: &[],
        memory: TEXT,
        run: scans::control,
    },
    FuzzTarget {
        name: "probe_state",
        about: "what a characterization remembers",
        samples: &[],
        memory: scans::PROBE_MEMORY,
        run: scans::probe,
    },
    FuzzTarget {
        name: "needs",
        about: "what applications need of a drive",
        samples: &[],
        memory: TEXT,
        run: workloads::needs,
    },
    FuzzTarget {
        name: "fio_job",
        about: "fio's job files",
        samples: &[],
        memory: workloads::WORKLOAD_MEMORY,
        run: workloads::job,
    },
];

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
