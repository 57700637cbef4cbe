//! [`BUILTINS`]: the workloads that ship, each a TOML text.

use headtime_config::TextErrors;

use crate::file::WorkloadFile;

/// A workload that ships.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The TOML text, with the origin of its figures in comments.
    pub toml: &'static str,
}

/// The workloads that ship: single streams first, then mixtures.
pub const BUILTINS: &[Builtin] = &[
    Builtin { name: "random", toml: include_str!("../builtin/random.toml") },
    Builtin { name: "sequential", toml: include_str!("../builtin/sequential.toml") },
    Builtin { name: "oltp", toml: include_str!("../builtin/oltp.toml") },
    Builtin {
        name: "random-beside-sequential",
        toml: include_str!("../builtin/random-beside-sequential.toml"),
    },
    Builtin { name: "vm-mix", toml: include_str!("../builtin/vm-mix.toml") },
    Builtin { name: "mail-server", toml: include_str!("../builtin/mail-server.toml") },
    Builtin { name: "web-server", toml: include_str!("../builtin/web-server.toml") },
    Builtin { name: "file-server", toml: include_str!("../builtin/file-server.toml") },
    Builtin {
        name: "backup-beside-database",
        toml: include_str!("../builtin/backup-beside-database.toml"),
    },
    Builtin {
        name: "recorder-beside-scrub",
        toml: include_str!("../builtin/recorder-beside-scrub.toml"),
    },
    Builtin { name: "find-cat", toml: include_str!("../builtin/find-cat.toml") },
    Builtin {
        name: "stream-beside-find",
        toml: include_str!("../builtin/stream-beside-find.toml"),
    },
    Builtin { name: "read-beside-write", toml: include_str!("../builtin/read-beside-write.toml") },
    Builtin { name: "small-files", toml: include_str!("../builtin/small-files.toml") },
];

impl Builtin {
    /// The workload of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        BUILTINS.iter().find(|builtin| builtin.name == name)
    }

    /// Its streams.
    ///
    /// # Errors
    /// Never: a test reads all of them.
    pub fn load(&self) -> Result<WorkloadFile, TextErrors> {
        WorkloadFile::from_toml(self.name, self.toml)
    }
}
