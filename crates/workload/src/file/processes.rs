//! [`PROCESSES`]: the kinds of `process`, read and written.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::{REQUIRED, Value};
use headtime_units::Nanos;

use super::kinds::{FieldHelp, Kind, Result, bytes, count, field, sizes};
use super::written::{self, quoted_bytes, table, time};
use crate::process::{FilesRead, PageCache, Process};

const READ_AHEAD_KEY: FieldHelp =
    field("read_ahead", "size of the largest window, or \"none\"", "128KiB");
const PASSES_KEY: FieldHelp = field("passes", "whole number from 1", "no limit");

/// The kinds of `process`.
pub const PROCESSES: &[Kind<Process>] = &[
    Kind {
        name: "reader",
        summary: "each client reads a file from start to end; each pass is a new process",
        keys: &[FILE_KEY, PASSES_KEY, READ_AHEAD_KEY],
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
    Kind {
        name: "writer",
        summary: "each client writes a file from start to end through the page cache; each pass is \
            a new process, which truncates the file",
        keys: &[
            FILE_KEY,
            PASSES_KEY,
            MEMORY_KEY,
            BACKGROUND_KEY,
            LIMIT_KEY,
            BATCH_KEY,
            REQUEST_KEY,
            QUEUE_KEY,
            EXPIRE_KEY,
        ],
        read: |value| {
            Ok(Process::Writes {
                file_bytes: value.or("file", None, |value| bytes(value).map(Some))?,
                passes: value.or("passes", None, |value| count(value).map(Some))?,
                cache: page_cache(value)?,
            })
        },
    },
];

const FILE_KEY: FieldHelp = field("file", "size", "the client's part of the range");
const MEMORY_KEY: FieldHelp = field("memory", "size of the page cache", "1GiB");
const BACKGROUND_KEY: FieldHelp =
    field("background", "share of the memory that is dirty before the flusher writes", "10%");
const LIMIT_KEY: FieldHelp = field(
    "limit",
    "share of the memory that is dirty or pending before processes that write wait",
    "40%",
);
const BATCH_KEY: FieldHelp = field("batch", "size that the flusher writes at a time", "4MiB");
const REQUEST_KEY: FieldHelp = field("request", "size of the flusher's largest request", "128KiB");
const QUEUE_KEY: FieldHelp =
    field("queue", "number of the flusher's pending requests, at most", "128");
const EXPIRE_KEY: FieldHelp = field("expire", "age at which dirty pages are written", "30s");

fn page_cache(value: &Value<'_>) -> Result<PageCache> {
    let default = PageCache::default();
    Ok(PageCache {
        memory_bytes: value.or("memory", default.memory_bytes, bytes)?,
        background: value.or("background", default.background, Value::fraction)?,
        limit: value.or("limit", default.limit, Value::fraction)?,
        batch_bytes: value.or("batch", default.batch_bytes, bytes)?,
        request_bytes: value.or("request", default.request_bytes, bytes)?,
        queue: value.or("queue", default.queue, |value| value.count(1..=65_536))?,
        expire: value.or("expire", default.expire, Value::positive_time)?,
    })
}

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
    let number = |count: &Option<u64>| count.map(|count| count.to_string());
    let size = |bytes: &Option<u64>| bytes.map(quoted_bytes);
    let read_ahead =
        |bytes: &Option<u64>| Some(bytes.map_or_else(|| "\"none\"".to_string(), quoted_bytes));
    let (kind, fields) = match process {
        Process::Reads { files: FilesRead::One { bytes }, passes, read_ahead_bytes } => (
            "reader",
            Vec::from([
                ("file", size(bytes)),
                ("passes", number(passes)),
                ("read_ahead", read_ahead(read_ahead_bytes)),
            ]),
        ),
        Process::Reads {
            files: FilesRead::Chain { sizes, count, per_lookup, spawn },
            passes,
            read_ahead_bytes,
        } => (
            "chain",
            Vec::from([
                ("file", Some(written::sizes(sizes))),
                ("files", number(count)),
                ("per_lookup", Some(per_lookup.to_string())),
                ("spawn", Some(time(*spawn))),
                ("passes", number(passes)),
                ("read_ahead", read_ahead(read_ahead_bytes)),
            ]),
        ),
        Process::Writes { file_bytes, passes, cache } => {
            let mut fields = Vec::from([("file", size(file_bytes)), ("passes", number(passes))]);
            fields.extend(cache_fields(cache).map(|(key, value)| (key, Some(value))));
            ("writer", fields)
        }
    };
    let given: Vec<_> = fields.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    table(kind, &given)
}

fn cache_fields(cache: &PageCache) -> [(&'static str, String); 7] {
    [
        ("memory", quoted_bytes(cache.memory_bytes)),
        ("background", written::number(cache.background)),
        ("limit", written::number(cache.limit)),
        ("batch", quoted_bytes(cache.batch_bytes)),
        ("request", quoted_bytes(cache.request_bytes)),
        ("queue", cache.queue.to_string()),
        ("expire", time(cache.expire)),
    ]
}
