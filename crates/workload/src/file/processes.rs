//! [`PROCESSES`]: the kinds of `process`, read and written.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::{REQUIRED, Value};
use headtime_units::Nanos;

use super::kinds::{FieldHelp, Kind, Result, bytes, count, field, sizes};
use super::written;
use crate::process::{FilesRead, Process};

const READ_AHEAD_KEY: FieldHelp =
    field("read_ahead", "size of the largest window, or \"none\"", "128KiB");
const PASSES_KEY: FieldHelp = field("passes", "whole number from 1", "no limit");

/// The kinds of `process`.
pub const PROCESSES: &[Kind<Process>] = &[
    Kind {
        name: "reader",
        summary: "each client reads a file from start to end; each pass is a new process",
        keys: &[
            field("file", "size", "the client's part of the range"),
            PASSES_KEY,
            READ_AHEAD_KEY,
        ],
        read: |value| {
            reads(value, FilesRead::One { bytes: value.or("file", None, |v| bytes(v).map(Some))? })
        },
    },
    Kind {
        name: "chain",
        summary: "each client is a chain of processes: each reads one file and ends, its \
            replacement reads the next file on the drive (`find … -exec cat`)",
        keys: &[
            field("file", "size, kind, or list of { size, weight }", REQUIRED),
            field(
                "files",
                "whole number from 1",
                "as many as the client's part of the range holds",
            ),
            field(
                "per_lookup",
                "number of files for each block of 4 KiB that the parent reads",
                "32",
            ),
            field("spawn", "time from the end of a process to the start of the next", "1ms"),
            PASSES_KEY,
            READ_AHEAD_KEY,
        ],
        read: |value| {
            let files = FilesRead::Chain {
                sizes: value.required("file", sizes)?,
                count: value.or("files", None, |value| count(value).map(Some))?,
                per_lookup: value.or("per_lookup", FILES_PER_INODE_BLOCK, count)?,
                spawn: value.or("spawn", SPAWN, Value::time)?,
            };
            reads(value, files)
        },
    },
];

/// Default number of files for each lookup: inodes of 128 bytes in a block of 4 KiB, as in ext2.
const FILES_PER_INODE_BLOCK: u64 = 32;
/// Default time to fork and execute a small program. A guess.
const SPAWN: Nanos = Nanos::from_ms(1);
/// Default of the largest read-ahead window: the default of Linux since 2.6.
const READ_AHEAD: u64 = 128 << 10;

fn reads(value: &Value<'_>, files: FilesRead) -> Result<Process> {
    Ok(Process::Reads {
        files,
        passes: value.or("passes", None, |value| count(value).map(Some))?,
        read_ahead_bytes: value.or("read_ahead", Some(READ_AHEAD), |v| v.or_none(bytes))?,
    })
}

/// The TOML of a value of `process`, which reads back the same.
pub(super) fn written(process: &Process) -> String {
    let (kind, mut fields) = match process {
        Process::Reads { files: FilesRead::One { bytes }, .. } => {
            ("reader", Vec::from_iter(bytes.map(|bytes| ("file", written::quoted_bytes(bytes)))))
        }
        Process::Reads {
            files: FilesRead::Chain { sizes: of, count, per_lookup, spawn }, ..
        } => {
            let mut fields = Vec::from([("file", written::sizes(of))]);
            fields.extend(count.map(|count| ("files", count.to_string())));
            fields
                .extend([("per_lookup", per_lookup.to_string()), ("spawn", written::time(*spawn))]);
            ("chain", fields)
        }
    };
    let Process::Reads { passes, read_ahead_bytes, .. } = process;
    fields.extend(passes.map(|passes| ("passes", passes.to_string())));
    let read_ahead = read_ahead_bytes.map_or_else(|| "\"none\"".to_string(), written::quoted_bytes);
    fields.push(("read_ahead", read_ahead));
    written::table(kind, &fields)
}
