//! [`OPTIONS`]: the options of fio and the support for each.

/// An option of fio.
pub struct FioOption {
    /// The names; the first is the one used in code.
    pub names: &'static [&'static str],
    /// The support for it.
    pub support: Support,
}

/// The support for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It decides the requests as in fio, with the given limitation, if any.
    Supported(&'static str),
    /// It has no meaning for a simulated drive; it is ignored without a note.
    NoEffect,
    /// It changes the requests slightly; it is ignored with a note that gives this reason.
    Ignored(&'static str),
    /// It changes the requests so much that the job is refused, with this remedy.
    Refused(&'static str),
}

const fn supported(names: &'static [&'static str], limitation: &'static str) -> FioOption {
    FioOption { names, support: Support::Supported(limitation) }
}

const fn ignored(names: &'static [&'static str], reason: &'static str) -> FioOption {
    FioOption { names, support: Support::Ignored(reason) }
}

const fn refused(names: &'static [&'static str], remedy: &'static str) -> FioOption {
    FioOption { names, support: Support::Refused(remedy) }
}

/// The option of that name, if it is known.
#[must_use]
pub(super) fn find(name: &str) -> Option<&'static FioOption> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

/// The options of fio.
pub const OPTIONS: &[FioOption] = &[
    supported(
        &["rw", "readwrite"],
        "read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw, with :N; \
            trimwrite is refused",
    ),
    supported(&["bs", "blocksize"], "by direction too"),
    supported(&["bssplit"], "by direction too"),
    supported(
        &["bsrange", "blocksize_range"],
        "by direction too; every multiple of the smallest with the same probability",
    ),
    supported(&["ba", "blockalign"], "one value for all directions"),
    supported(&["rwmixread"], ""),
    supported(&["rwmixwrite"], ""),
    supported(&["ioengine"], "only whether it is synchronous, where iodepth has no effect"),
    supported(&["iodepth"], ""),
    supported(
        &["numjobs"],
        "a stream for each, or more clients of one stream where that is equivalent",
    ),
    supported(&["size"], "the range; also the bytes to access, without io_size or time_based"),
    supported(&["io_size", "io_limit"], ""),
    supported(&["loops"], "a multiple of the bytes to access"),
    supported(&["offset"], ""),
    supported(&["offset_increment"], ""),
    supported(
        &["filename"],
        "jobs with the same device or file share its range; files follow each other",
    ),
    supported(&["runtime", "timeout"], ""),
    supported(&["time_based"], ""),
    supported(&["startdelay"], "one time, no range of times"),
    supported(&["stonewall", "wait_for_previous"], "where all earlier jobs have a runtime"),
    supported(&["rate_iops"], ""),
    supported(&["rate"], "divided by the mean size"),
    supported(&["rate_process"], ""),
    supported(&["thinktime"], "at an iodepth of 1"),
    supported(&["random_distribution"], "random, zipf, pareto, normal and zoned, without a center"),
    supported(&["percentage_random"], "one value for all directions"),
    supported(&["rw_sequencer"], "sequential"),
    supported(&["fsync"], ""),
    supported(&["fdatasync"], "as fsync"),
    supported(&["sync"], "writes demand force unit access"),
    supported(&["direct"], "only noted where it is missing: no page cache is simulated"),
    supported(&["buffered"], "as direct, the other way round"),
    supported(&["kb_base"], ""),
    FioOption {
        names: &[
            "name",
            "description",
            "group_reporting",
            "new_group",
            "thread",
            "directory",
            "filename_format",
            "unique_filename",
            "filesize",
            "nrfiles",
            "openfiles",
            "norandommap",
            "softrandommap",
            "randrepeat",
            "allrandrepeat",
            "randseed",
            "random_generator",
            "invalidate",
            "fallocate",
            "create_serialize",
            "create_fsync",
            "create_on_open",
            "create_only",
            "overwrite",
            "unlink",
            "unlink_each_loop",
            "refill_buffers",
            "scramble_buffers",
            "zero_buffers",
            "buffer_pattern",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "mem",
            "iomem",
            "iomem_align",
            "mem_align",
            "lockmem",
            "gtod_reduce",
            "gtod_cpu",
            "clocksource",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw",
            "lat_percentiles",
            "clat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "unified_rw_reporting",
            "bwavgtime",
            "iopsavgtime",
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "log_avg_msec",
            "log_hist_msec",
            "log_max_value",
            "log_offset",
            "log_compression",
            "log_unix_epoch",
            "per_job_logs",
            "status_interval",
            "eta",
            "eta_newline",
            "unit_base",
            "significant_figures",
            "disk_util",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "nice",
            "uid",
            "gid",
            "hipri",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "userspace_reap",
            "cmdprio",
            "allow_file_create",
            "allow_mounted_write",
            "file_append",
            "thinktime_spin",
            "rate_min",
            "rate_iops_min",
            "rate_cycle",
            "continue_on_error",
            "ignore_error",
            "error_dump",
            "max_latency",
            "wait_for",
            "do_verify",
            "verify_dump",
            "verify_fatal",
        ],
        support: Support::NoEffect,
    },
    ignored(&["ramp_time"], "leave requests uncounted at the start with --warmup"),
    ignored(&["iodepth_batch", "iodepth_batch_submit"], "each request is sent by itself"),
    ignored(
        &["iodepth_batch_complete", "iodepth_batch_complete_min", "iodepth_batch_complete_max"],
        "each completion is handled by itself",
    ),
    ignored(&["iodepth_low"], "the queue is refilled at each completion"),
    ignored(&["end_fsync", "fsync_on_close", "sync_file_range"], "no flush at the end of a job"),
    ignored(&["exitall", "exit_what"], "each job ends by itself"),
    ignored(&["pre_read"], "no file is read in advance"),
    ignored(&["bs_unaligned", "blocksize_unaligned"], "sizes are whole sectors"),
    ignored(&["file_service_type"], "one file for each job"),
    ignored(
        &["prio", "prioclass", "cmdprio_percentage", "cmdprio_class"],
        "priorities do not reach the drive; give streams deadlines in a TOML file",
    ),
    ignored(
        &[
            "steadystate",
            "steadystate_duration",
            "steadystate_ramp_time",
            "ss",
            "ss_dur",
            "ss_ramp",
        ],
        "the run has a fixed length",
    ),
    ignored(&["fill_device", "fill_fs"], "a drive has no end of space"),
    refused(
        &["thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime"],
        "think after every request, or write the workload as TOML",
    ),
    refused(
        &["zonesize", "zonerange", "zoneskip", "zonemode", "zonecapacity"],
        "use random_distribution=zoned, or write the workload as TOML with a range for each stream",
    ),
    refused(
        &[
            "read_iolog",
            "replay_redirect",
            "replay_time_scale",
            "replay_scale",
            "replay_align",
            "replay_no_stall",
            "replay_skip",
        ],
        "replay a recording with headtime sim --trace",
    ),
    refused(
        &["verify", "verify_only", "verify_backlog", "verify_async"],
        "remove it: a simulated drive stores nothing to verify",
    ),
    refused(
        &["latency_target", "latency_window", "latency_percentile", "latency_run"],
        "remove it; headtime compare varies the depth",
    ),
    refused(&["flow", "flow_id", "flow_watermark", "flow_sleep"], "give each job a rate"),
    refused(&["number_ios"], "give the bytes to access with io_size"),
    refused(&["io_submit_mode"], "give the job a rate"),
    refused(
        &["profile", "trim_percentage", "trim_verify_zero", "trim_backlog"],
        "write the workload as TOML",
    ),
];
