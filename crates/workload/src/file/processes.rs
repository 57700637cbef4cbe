//! [`PROCESSES`]: the kinds of `process`, read and written.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::{REQUIRED, Value};
use headtime_units::Nanos;

use super::kinds::{FieldHelp, Kind, Result, bytes, count, field, sizes};
use super::written::{self, quoted_bytes, table, time};
use crate::process::{FileBenchmark, FileOperations, FilesRead, PageCache, Process};
use crate::sizes::Sizes;

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
    Kind {
        name: "files",
        summary: "the clients are threads that read, write, create, extend and delete small files \
            of one file system with a journal; the shares of the operations make 1 together",
        keys: &[
            field("reads", "share of operations that read a file", "0"),
            field("writes", "share that write a file again in its place", "0"),
            field("creates", "share that create a file", "0"),
            field("appends", "share that extend a file", "0"),
            field("deletes", "share that delete a file", "0"),
            field("operations", "whole number from 1, for each client", "no limit"),
            field("files", "whole number from 1 to 10000000, at the start", "100000"),
            field("directories", "whole number from 1 to 100000", "100"),
            field(
                "file",
                "size, kind, or list of { size, weight }: size of files and of what is appended",
                "uniform from 4KiB to 64KiB",
            ),
            field("commit", "time from a change of metadata to its commit, or \"none\"", "5s"),
            field("journal", "size from 1MiB", "32MiB"),
            READ_AHEAD_KEY,
            MEMORY_KEY,
            BACKGROUND_KEY,
            LIMIT_KEY,
            BATCH_KEY,
            REQUEST_KEY,
            QUEUE_KEY,
            EXPIRE_KEY,
        ],
        read: |value| {
            let share = |name| value.or(name, 0.0, Value::fraction);
            Ok(Process::Files(Box::new(FileBenchmark {
                files: value.or("files", 100_000, |value| value.whole(1..=10_000_000))?,
                directories: value.or("directories", 100, |value| value.whole(1..=100_000))?,
                file_sizes: value.or("file", SMALL_FILES, sizes)?,
                operations: value.or("operations", None, |value| count(value).map(Some))?,
                mix: FileOperations {
                    reads: share("reads")?,
                    writes: share("writes")?,
                    creates: share("creates")?,
                    appends: share("appends")?,
                    deletes: share("deletes")?,
                },
                read_ahead_bytes: read_ahead(value)?,
                commit: value.or("commit", Some(COMMIT), |v| v.or_none(Value::positive_time))?,
                journal_bytes: value
                    .or("journal", JOURNAL, |v| Ok(v.size_within(1 << 20, 1 << 40)?.get()))?,
                cache: page_cache(value)?,
            })))
        },
    },
];

/// Default sizes of the files of a benchmark: P3, section 5.1.
const SMALL_FILES: Sizes =
    Sizes::Uniform { min_bytes: 4 << 10, max_bytes: 64 << 10, multiple_bytes: 4 << 10 };
/// Default time to a commit, and default size of a journal: ext3's.
const COMMIT: Nanos = Nanos::from_secs(5);
const JOURNAL: u64 = 32 << 20;

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
        read_ahead_bytes: read_ahead(value)?,
    })
}

fn read_ahead(value: &Value<'_>) -> Result<Option<u64>> {
    value.or("read_ahead", Some(READ_AHEAD), |value| value.or_none(bytes))
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
        Process::Files(benchmark) => {
            let mix = benchmark.mix;
            let share = |share| Some(written::number(share));
            let mut fields = Vec::from([
                ("reads", share(mix.reads)),
                ("writes", share(mix.writes)),
                ("creates", share(mix.creates)),
                ("appends", share(mix.appends)),
                ("deletes", share(mix.deletes)),
                ("operations", number(&benchmark.operations)),
                ("files", Some(benchmark.files.to_string())),
                ("directories", Some(benchmark.directories.to_string())),
                ("file", Some(written::sizes(&benchmark.file_sizes))),
                ("commit", Some(benchmark.commit.map_or_else(|| "\"none\"".to_string(), time))),
                ("journal", Some(quoted_bytes(benchmark.journal_bytes))),
                ("read_ahead", read_ahead(&benchmark.read_ahead_bytes)),
            ]);
            fields.extend(cache_fields(&benchmark.cache).map(|(key, value)| (key, Some(value))));
            ("files", fields)
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
